/* One collective on a simulated machine: the real schedules and the real executors of all ranks, no data, virtual time.
 *
 * Model of a rank. One thread does all of a rank's work, one thing after another: each message that it sends takes it send_ns, each
 * that comes receive_ns (a segment is a message, and so are `ready` and credit), each byte that it adds or copies its time, and where
 * sending and receiving copies, each byte of data send_byte_ns and receive_byte_ns. A message leaves when its sender has spent that on
 * it; it is seen when it has come whole and the rank has time for it. The source of a put is free again when its last byte has left
 * through the first server of its way. The network is net.h's. A call whose program is not straight takes plan_ns before it begins, and
 * step_ns for each action of its executor. Where single copies are made (single_bytes), the receiver of a put spends single_ns and
 * single_byte_ns a byte on it, and its sender nothing.
 *
 * Model of a host. With `cores`, no more of its ranks work at a time: what has come to a rank waits until one of the host's cores is
 * free and turns to it, first come, first served; for turning from one rank to another a core takes wake_ns, and idle_ns more for each
 * rank of the host that waits, shared among the cores, as these look in vain in between. Then the rank works until nothing that has come
 * is left. A rank that waits holds no core.
 *
 * What the engine does is not modelled but run: segments, streams, slots and credit, direct landing, the window of steps, straight
 * programs (src/engine/exec.h). Of the shell around it this repeats: 16 eager messages of credit per pair, returned with the next
 * message, 8 at a time, or when nothing else is under way; which flows are opened direct; that full lanes take nothing until they drain; and
 * that between ranks that are alone on their hosts each segment goes over one of several rails, and counts after those that were put before it.
 *
 * Trains. Segments that leave back to back for one place move as one event (`whole` turns this off). The receiver takes a train apart
 * again, segment by segment, unless nothing could come of it sooner: nothing of what it knows depends on a part of the train, or
 * all that does are puts through servers that are busy until the train is in. Then only the order may differ in which two flows
 * share a server, never how much of it they get.
 *
 * The same configuration gives the same result, to the last bit, on every machine. */
#ifndef TT_SIM_DES_H
#define TT_SIM_DES_H

#include "engine/exec.h"
#include "sim/net.h"

/* What a message costs the threads at its ends, and how it lands. */
struct tt_des_way {
    double send_ns, receive_ns;             /* software, per message */
    double send_byte_ns, receive_byte_ns;   /* the same, per byte of data in it */
    bool direct;                    /* receivers open their final buffers */
    bool mapped;                    /* slots of peers take plain stores: what goes on to one is written there while it is made */
    uint64_t single_bytes;          /* puts of so many bytes to the result, and where slots are not mapped all, are fetched by their receiver, which costs it */
    double single_ns, single_byte_ns;   /* so much, and so much a byte, and their sender nothing; 0: none are */
    uint64_t shared_bytes;          /* from so many on a sender that has nothing else to do then carries half of them; 0: none does */
    uint32_t whole_bytes;           /* that may be fetched at once, if that is more than a segment (tt_exec_lengthen) */
};

struct tt_des_conf {
    const struct tt_algo *algo;
    const struct tt_coll *coll;     /* of rank 0; of the others but for `rank`. layout: as algorithms are to see it. Not p2p or alltoallv */
    const struct tt_net_conf *net;
    const struct tt_fault *faults;
    uint32_t nfaults;
    uint64_t segment_bytes, eager_bytes;    /* as struct tt_exec_conf */
    uint8_t streams, depth;
    struct tt_des_way way;          /* between all ranks, */
    const struct tt_des_way *near;  /* but for those of one host, if not NULL */
    uint32_t lanes;                 /* to a peer; 0: one for each rail between ranks that are alone on their hosts, else one */
    uint64_t lane_bytes[TT_DISTANCES];  /* outstanding on each: sent and not yet acknowledged; 0: any number */
    double reduce_byte_ns, copy_byte_ns;
    double came_reduce_byte_ns, came_copy_byte_ns;  /* the same of what another rank of the host has just written, to a slot or as an eager message; 0: no other */
    double plan_ns, step_ns;        /* software of a call that is no straight program, and of each thing that it does */
    uint32_t cores;                 /* of each host; 0: as many as ranks */
    double wake_ns;                 /* of a core, from one rank to another */
    double idle_ns;                 /* of a core that turns, for each rank that waits: what all look for in vain takes turns on all cores */
    uint64_t events_max;            /* the run ends there; 0: when all ranks have finished */
    double time_max_ns;             /* likewise, when this time is over; 0: never */
    double jitter_ns;               /* up to so much more for each message sent, drawn from seed */
    double skew_ns;                 /* ranks come up to so late, each drawn from seed; 0: all at one instant */
    uint64_t seed;
    bool whole;                     /* no trains: each segment is a message of its own */
    /* Now and then, with the share of steps that are over, 0 to 1. May be NULL. */
    void (*progress)(void *arg, double share);
    void *arg;
};

struct tt_des_result {
    double time_ns, first_ns;       /* until the last and the first rank finished */
    uint64_t events, messages, segments;    /* messages: all; segments: of streamed puts, those fetched at once as one */
    uint64_t bytes[TT_DISTANCES];   /* sent over each distance, of data */
    uint64_t puts[TT_DISTANCES];    /* messages with data over each distance */
    bool queues[TT_DISTANCES];      /* whether there is anything of that class to wait for: else the next two say nothing */
    uint64_t peak_queue_bytes[TT_DISTANCES];    /* waiting for one server, by class as in net.h */
    double busiest[TT_DISTANCES];   /* share of the time that the busiest server of each class was busy */
    uint64_t queue_most;            /* events waiting at a time */
    double work_ns;                 /* what the busiest rank's thread did */
    double cores_busy;              /* share of the time that the cores of the busiest host were; 0 where they are not limited */
    bool cut;                       /* it ended at events_max or time_max_ns: the times are what had passed, the others what there was by then */
};

/* Runs it. INVALID (logged): the configuration, the network or a fault cannot be, or it takes longer than TT_NET_TIME_MAX_PS. NOMEM (logged).
 * TIMEOUT: the ranks are stuck, with why[why_bytes] naming one and what it waits for (not logged). *out is written on OK only. Any thread. */
tutti_status tt_des_run(const struct tt_des_conf *conf, struct tt_des_result *out, char *why, size_t why_bytes);

/* Memory that a run takes at least, in bytes, before there are any messages; the network's too. */
uint64_t tt_des_memory(const struct tt_algo *algo, const struct tt_coll *coll, const struct tt_net_conf *net);

#endif
