/* Private declarations of the discrete-event simulator. */
#ifndef TT_SIM_DES_STATE_H
#define TT_SIM_DES_STATE_H

#include "base/prng.h"
#include "sim/des.h"
#include "sim/queue.h"

#define DES_NONE UINT32_MAX
#define DES_EAGER_CREDIT 16u    /* equals the engine's TT_EAGER_CREDIT */

enum des_kind {
    DES_FREE,
    DES_START,
    DES_READY,
    DES_EAGER,
    DES_SEGMENT,
    DES_CREDIT,
    DES_GIVE,
    DES_SENT,
    DES_ACK,
    DES_CORE
};

/* A message in transit, or an event at `to`. */
struct des_msg {
    uint64_t bytes;             /* of data */
    uint64_t head_ps, tail_ps;  /* arrival of the first and last byte at the next server; at the
                                   receiver: of the whole train */
    uint32_t from, to;
    uint32_t seq;               /* SEGMENT, SENT: the first one; EAGER: the tag; CREDIT: the
                                   count; READY: slots of a stream */
    uint32_t next;              /* in the free list, or in a list of early messages */
    uint32_t number;            /* SEGMENT on one of several lanes: sequence number to this
                                   receiver, from 1; 0: unordered */
    uint16_t step, count;       /* SEGMENT, SENT: the put, and the number of segments in the
                                   train */
    uint16_t seen, shown;       /* SEGMENT: segments delivered after the next and after the last
                                   delivery */
    uint8_t credits;            /* eager credits returned to the receiver */
    uint8_t kind, stream, hop;
    bool direct, delivered;
    struct tt_net_path path;
};

/* State of a peer, in addition to the executor's peer of the same index. */
struct des_flow {
    uint64_t pair_free_ps;      /* for a pair with its own rate limit */
    uint64_t outstanding;       /* bytes, if lanes are limited */
    uint32_t posted, landed;    /* segments over several lanes */
    uint32_t parked;            /* 1 + the first of the segments that arrived before an earlier
                                   one; 0: none */
    uint8_t eager_out, eager_owed;
};

/* With limited cores: messages of a rank without a core. */
struct des_inbox {
    uint32_t first, last;       /* messages, or NONE */
    uint32_t next;              /* next rank that waits for a core of the host */
    bool waits, works;
};

struct des_host {
    uint32_t first, last;       /* ranks that wait for a core */
    uint32_t nfree, nwaiting, nranks;
    uint64_t busy_ps;
    uint32_t *last_rank;        /* [cores], the last rank that ran on each, free cores first */
};

struct des_rank {
    uint64_t clock_ps;          /* end of the thread's current work */
    uint64_t finished_ps;
    struct tt_exec_peer *peers;
    struct des_flow *flow;
    uint32_t early;             /* messages that arrived before their step, oldest first */
    uint32_t unsent;            /* recorded sources that are not events, earliest first:
                                   des_sent.c */
    uint32_t seen_loaded, seen_head, seen_round;
    float slow;
    bool done;
    struct tt_exec exec;
};

struct des {
    const struct tt_des_conf *conf;
    struct tt_net net;
    struct tt_queue queue;
    struct des_rank *rank;      /* [nranks] */
    struct tt_coll *coll;       /* [nranks] */
    struct tt_exec_peer *peers; /* of all ranks: [nranks][npeers] */
    struct des_flow *flows;
    struct des_msg *msg;
    uint32_t nmsgs, msgs_cap, free_msg;
    uint32_t train;             /* the message to which the active rank may still add a segment */
    uint64_t now_ps;
    struct des_inbox *inbox;    /* [nranks]; NULL: cores are not limited */
    struct des_host *host;      /* [nhosts] */
    uint32_t *last_rank;        /* of all hosts */
    uint64_t *work_ps;          /* [nranks] */
    uint32_t ndone, lost;
    bool bounds_lanes;
    uint64_t steps_over, steps_loaded, rounds_loaded, rounds_all;
    struct tt_prng prng;
    struct tt_des_result result;
    /* Processes a message at its rank, by the rank's thread. */
    void (*handle)(struct des *s, uint32_t m);
};

/* Costs of messages between two ranks at this distance. */
static inline const struct tt_des_way *des_way(const struct des *s, enum tt_distance d)
{
    return d <= TT_NEAR_HOST && s->conf->near ? s->conf->near : &s->conf->way;
}

/* ---- messages, events and time of a rank ---- */

/* Enlarges the pool of messages; in des_pool.c. */
void des_pool_grow(struct des *s);

static inline uint32_t des_alloc(struct des *s)
{
    uint32_t m = s->free_msg;

    if (m != DES_NONE) {
        s->free_msg = s->msg[m].next;
    } else {
        if (s->nmsgs == s->msgs_cap)
            des_pool_grow(s);
        m = s->nmsgs++;
    }
    s->msg[m].number = 0;
    return m;
}

static inline void des_free(struct des *s, uint32_t m)
{
    s->msg[m].kind = DES_FREE;
    s->msg[m].next = s->free_msg;
    s->free_msg = m;
}

/* Schedules an event unrelated to the network. */
static inline void des_at(struct des *s, uint64_t time_ps, uint32_t m)
{
    tt_queue_push(&s->queue, (struct tt_queue_item){ .time_ps = time_ps, .what = m });
}

/* Charges a rank's thread for an amount of time. */
static inline void des_spend(struct des *s, uint32_t me, double ps)
{
    struct des_rank *r = &s->rank[me];
    const double slow_ps = ps * (double)r->slow;

    r->clock_ps = tt_net_after(r->clock_ps, slow_ps);
    s->work_ps[me] = tt_net_after(s->work_ps[me], slow_ps);
}

/* ---- des_cores.c: hosts with fewer cores than ranks ---- */

/* Returns false if out of memory. */
bool des_cores_init(struct des *s);
void des_cores_fini(struct des *s);
/* Handles a message that has arrived for a rank. */
void des_cores_come(struct des *s, uint32_t m);
/* Utilization of the cores of the busiest host; 0 without a limit. */
double des_cores_busy(const struct des *s, uint64_t time_ps);
/* Handles a DES_CORE: the core of a rank has finished its work. */
void des_cores_go_on(struct des *s, uint32_t m);

/* ---- des_lanes.c: several lanes to a peer ---- */

/* Returns whether the segments of a pair use several rails. */
bool des_lanes_stripe(const struct des *s, uint32_t me, uint32_t to);
/* Maximum outstanding bytes of all lanes of a pair; 0: no limit. */
uint64_t des_lanes_bytes(const struct des *s, uint32_t me, uint32_t to);
/* Sets the path of a message from `me` to its peer `to`; a segment uses the lane that is free
 * first. Returns false if the path has a dead NIC. */
bool des_lanes_path(struct des *s, uint32_t me, uint16_t peer, uint32_t to, bool segment,
                    struct tt_net_path *out);
/* Handles a numbered segment that has arrived. Returns false if the segment must wait for an
 * earlier one; it then becomes an event again. */
bool des_lanes_in_order(struct des *s, uint32_t m);

/* ---- des_sent.c: reuse of the sources of puts ---- */

/* Segments of one put. */
struct des_sent {
    uint32_t seq;       /* the first one */
    uint16_t step, count;
};

/* The sources that rank `me` sends to `to` may be reused at time_ps, which is not in the past. */
void des_sent_at(struct des *s, uint32_t me, uint32_t to, const struct des_sent *what,
                 uint64_t time_ps);
/* Handles a DES_SENT: passes it to the executor and frees the message. */
void des_sent(struct des *s, uint32_t i);
/* Call when rank `me` becomes active: processes all its sources that are due. */
void des_sent_catch_up(struct des *s, uint32_t me);
/* Call when rank `me` has put a segment, and may now wait for its earlier sources: these become
 * events. */
void des_sent_heed(struct des *s, uint32_t me, uint16_t step);
/* Call when rank `me` becomes idle: schedules an event if the rank waits only for the ends of its
 * puts. */
void des_sent_before_rest(struct des *s, uint32_t me);
/* Call only if the queue of events is empty: schedules the end of each rank's last recorded source
 * as an event. Returns false if no source is recorded. */
bool des_sent_wake_all(struct des *s);

/* ---- des_move.c: messages in transit ---- */

/* Creates a message of rank `me` to its peer; NONE if the path has a dead NIC. des_send sends
 * it. */
uint32_t des_new(struct des *s, uint32_t me, uint16_t peer, enum des_kind kind);
void des_send(struct des *s, uint32_t me, uint16_t peer, uint32_t m);
/* Sends a segment, or adds it to the train of the active rank. */
void des_send_segment(struct des *s, uint32_t me, const struct tt_action *a);
/* Charges the sender's thread for `bytes` more of a message, which leaves after that. */
void des_spend_bytes(struct des *s, uint32_t me, uint32_t m, uint64_t bytes);
/* Returns the bytes of data of a delivery. */
uint64_t des_came(const struct des *s, const struct des_msg *m);
/* Sends the train. */
void des_flush(struct des *s);
/* Handles a message that has arrived at its next server. */
void des_hop(struct des *s, uint32_t m);
/* Determines the time and size of the next delivery of a train that has arrived, with `seen`
 * segments delivered. */
void des_deliver_next(struct des *s, uint32_t m);

#endif
