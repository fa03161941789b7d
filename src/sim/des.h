/* One collective on a simulated machine: the real schedules and the real executors of all ranks,
 * without data, in virtual time.
 *
 * Model of a rank. One thread does all of a rank's work sequentially. Each sent message takes
 * send_ns, each received one receive_ns (a segment, a CTS and a credit are messages). Each byte
 * that is reduced or copied takes its time. If sending and receiving copy, each byte of data also
 * takes send_byte_ns and receive_byte_ns. A message leaves when its sender has spent that time. It
 * is processed when it has arrived completely and the rank has time. The source of a put may be
 * reused when its last byte has passed the first server of its path. The network is net.h's. A call
 * whose program is not straight takes plan_ns at the start, and step_ns for each action of its
 * executor. With single copies (single_bytes), the receiver of a put spends single_ns and
 * single_byte_ns per byte on it, and its sender nothing.
 *
 * Model of a host. With `cores`, at most that many of its ranks work at a time. Messages for a rank
 * wait until a core of the host is free and switches to it, first come, first served. Switching
 * from one rank to another takes wake_ns, plus idle_ns for each idle rank of the host, divided
 * among the cores, since these ranks poll in between. Then the rank works until it has processed
 * all messages. A waiting rank holds no core.
 *
 * The engine's logic is not modelled but executed: segments, streams, slots and credits, direct
 * arrival, the window of steps, straight-line programs (src/engine/exec.h). This code repeats the
 * following parts of the surrounding engine: 16 eager credits per pair, returned with the next
 * message, 8 at a time, or when nothing else is in flight; the choice of flows that are opened
 * direct; full lanes accept nothing until they drain; and between ranks that are alone on their
 * hosts each segment uses one of several rails, and counts after those put before it.
 *
 * Trains. Consecutive segments for one destination are one event (disabled by `whole`). The
 * receiver processes a train as one event only if its thread is not the bottleneck, and no known
 * step could use a part of the train early. (Puts through servers that are busy until the train has
 * arrived could not.) Otherwise it splits the train into its segments. Only the order in which two
 * flows share a server may then differ, not their shares.
 *
 * The same configuration gives the same result, to the last bit, on every machine. */
#ifndef TT_SIM_DES_H
#define TT_SIM_DES_H

#include "engine/exec.h"
#include "sim/net.h"

/* Software cost of a message at its ends, and how its data is received. */
struct tt_des_way {
    double send_ns, receive_ns;             /* per message */
    double send_byte_ns, receive_byte_ns;   /* per byte of data */
    bool direct;                    /* receivers open their final buffers */
    bool mapped;                    /* slots of peers accept ordinary stores: data for one peer
                                       is written there while it is produced */
    uint64_t single_bytes;          /* puts of at least this length are fetched by their receiver in
                                       a single copy: puts to the result, or all puts if slots are
                                       not mapped */
    double single_ns, single_byte_ns;   /* its cost for the receiver, per message and per byte;
                                           the sender has none; 0: no single copies */
    uint64_t shared_bytes;          /* from this length on an idle sender copies half; 0: never */
    uint32_t whole_bytes;           /* maximum fetched at once, if more than a segment
                                       (tt_exec_lengthen) */
};

struct tt_des_conf {
    const struct tt_algo *algo;
    const struct tt_coll *coll;     /* the call of rank 0; the calls of other ranks differ only in
                                       `rank`. layout: as algorithms see it. Not p2p or alltoallv */
    const struct tt_net_conf *net;
    const struct tt_fault *faults;
    uint32_t nfaults;
    uint64_t segment_bytes, eager_bytes;    /* as in struct tt_exec_conf */
    uint8_t streams, depth;
    struct tt_des_way way;          /* between all ranks */
    const struct tt_des_way *near;  /* if not NULL: between ranks of one host */
    uint32_t lanes;                 /* to a peer; 0: one per rail between ranks that are alone on
                                       their hosts, else one */
    uint64_t lane_bytes[TT_DISTANCES];  /* maximum outstanding bytes of each lane: sent and not
                                           acknowledged; 0: no limit */
    double reduce_byte_ns, copy_byte_ns;
    double came_reduce_byte_ns, came_copy_byte_ns;  /* the same for data that another rank of the
                                                       host has just written, to a slot or as an
                                                       eager message; 0: no difference */
    double plan_ns, step_ns;        /* software cost of a call that is not a straight-line program,
                                       and of each of its actions */
    uint32_t cores;                 /* of each host; 0: one per rank */
    double wake_ns;                 /* of a core, from one rank to another */
    double idle_ns;                 /* additional time of a switch for each waiting rank: waiting
                                       ranks poll in turn on all cores */
    uint64_t events_max;            /* end of the simulation; 0: when all ranks have finished */
    double time_max_ns;             /* likewise, in simulated time; 0: no limit */
    double jitter_ns;               /* maximum random delay of each message, drawn from seed */
    double skew_ns;                 /* maximum random delay of each rank's start, drawn from seed */
    uint64_t seed;
    bool whole;                     /* no trains: each segment is a separate message */
    /* Called from time to time with the share of completed steps, 0 to 1. May be NULL. */
    void (*progress)(void *arg, double share);
    void *arg;
};

struct tt_des_result {
    double time_ns, first_ns;       /* time until the last and the first rank finished */
    uint64_t events, messages, segments;    /* messages: in total; segments: of streamed puts;
                                               segments fetched at once count as one */
    uint64_t bytes[TT_DISTANCES];   /* data sent over each distance */
    uint64_t puts[TT_DISTANCES];    /* messages with data over each distance */
    bool queues[TT_DISTANCES];      /* whether this class has servers at all; otherwise the next
                                       two are meaningless */
    uint64_t peak_queue_bytes[TT_DISTANCES];    /* maximum queue of one server, by class as in
                                                   net.h */
    double busiest[TT_DISTANCES];   /* utilization of the busiest server of each class */
    uint64_t queue_most;            /* maximum number of pending events */
    double work_ns;                 /* work of the busiest rank's thread */
    double cores_busy;              /* utilization of the cores of the busiest host; 0 without a
                                       limit on cores */
    bool cut;                       /* the simulation stopped at events_max or time_max_ns: the
                                       results cover the time until then */
};

/* Runs the simulation. INVALID (logged): the configuration, the network or a fault is invalid, or
 * the collective takes longer than TT_NET_TIME_MAX_PS. NOMEM (logged). TIMEOUT (not logged): the
 * ranks are stuck; why[why_bytes] names one of them and what it waits for. *out is written on OK
 * only. Any thread. */
tutti_status tt_des_run(const struct tt_des_conf *conf, struct tt_des_result *out, char *why,
                        size_t why_bytes);

/* Returns the minimum memory of a simulation in bytes, without messages but with the network. */
uint64_t tt_des_memory(const struct tt_algo *algo, const struct tt_coll *coll,
                       const struct tt_net_conf *net);

#endif
