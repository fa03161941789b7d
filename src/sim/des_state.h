/* What the files of the discrete-event simulator share. */
#ifndef TT_SIM_DES_STATE_H
#define TT_SIM_DES_STATE_H

#include "base/prng.h"
#include "sim/des.h"
#include "sim/queue.h"

#define DES_NONE UINT32_MAX
#define DES_EAGER_CREDIT 16u    /* as the engine's TT_EAGER_CREDIT */

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

/* Something on its way, or to happen at `to`. */
struct des_msg {
    uint64_t bytes;             /* of data */
    uint64_t head_ps, tail_ps;  /* when its first and last byte come to the next server; at the receiver: of the whole train */
    uint32_t from, to;
    uint32_t seq;               /* SEGMENT, SENT: of the first; EAGER: the tag; CREDIT: the count; READY: slots of a stream */
    uint32_t next;              /* free, or of those that came early */
    uint32_t number;            /* SEGMENT on one of several lanes: among those to its receiver, from 1 on; 0: it waits for none */
    uint16_t step, count;       /* SEGMENT, SENT: the put, and segments of the train */
    uint16_t seen, shown;       /* SEGMENT: delivered by the next delivery, and by the last */
    uint8_t credits;            /* eager messages that go back to the receiver */
    uint8_t kind, stream, hop;
    bool direct, delivered;
    struct tt_net_path path;
};

/* Beside the executor's peer of the same index. */
struct des_flow {
    uint64_t pair_free_ps;      /* where a pair has a bound of its own */
    uint64_t outstanding;       /* bytes, if lanes are limited */
    uint32_t posted, landed;    /* segments over several lanes */
    uint32_t parked;            /* 1 + the first of those that came before one that was posted earlier; 0: none */
    uint8_t eager_out, eager_owed;
};

/* Where cores are limited: what has come to a rank while it had none. */
struct des_inbox {
    uint32_t first, last;       /* messages; NONE */
    uint32_t next;              /* of the ranks that wait for a core of their host */
    bool waits, works;
};

struct des_host {
    uint32_t first, last;       /* ranks that wait for a core */
    uint32_t nfree, nwaiting, nranks;
    uint64_t busy_ps;
    uint32_t *last_rank;        /* [cores] whom each worked for last, the free ones first */
};

struct des_rank {
    uint64_t clock_ps;          /* until when its thread is busy */
    uint64_t finished_ps;
    struct tt_exec_peer *peers;
    struct des_flow *flow;
    uint32_t early;             /* messages that came before their step, oldest first */
    uint32_t unsent;            /* sources that will be free, of which nothing comes, earliest first: des_sent.c */
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
    struct tt_exec_peer *peers; /* those of all ranks; [nranks][npeers] */
    struct des_flow *flows;
    struct des_msg *msg;
    uint32_t nmsgs, msgs_cap, free_msg;
    uint32_t train;             /* the message that the rank at work may still add a segment to */
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
};

/* What has come to a rank is handled by its thread. */
void des_handle(struct des *s, uint32_t m);
/* What messages between two ranks so far from each other cost. */
static inline const struct tt_des_way *des_way(const struct des *s, enum tt_distance d)
{
    return d <= TT_NEAR_HOST && s->conf->near ? s->conf->near : &s->conf->way;
}

/* The thread of a rank does something for so long. */
void des_spend(struct des *s, uint32_t me, double ps);

/* des_cores.c: who works where cores are fewer than ranks. */

/* False: no memory. */
bool des_cores_init(struct des *s);
void des_cores_fini(struct des *s);
/* Something has come to a rank. */
void des_cores_come(struct des *s, uint32_t m);
/* The share of the time that the cores of the busiest host worked; 0 where they are not limited. */
double des_cores_busy(const struct des *s, uint64_t time_ps);
/* The core of a rank has done what there was (a DES_CORE). */
void des_cores_go_on(struct des *s, uint32_t m);

/* des_lanes.c: several lanes to a peer. */

/* Whether the segments of a pair go over several rails. */
bool des_lanes_stripe(const struct des *s, uint32_t me, uint32_t to);
/* The bytes that all lanes of a pair together may have outstanding; 0: any number. */
uint64_t des_lanes_bytes(const struct des *s, uint32_t me, uint32_t to);
/* The way of a message from `me` to its peer `to`: of a segment over the lane that is free first. False: a dead NIC is on it. */
bool des_lanes_path(struct des *s, uint32_t me, uint16_t peer, uint32_t to, bool segment, struct tt_net_path *out);
/* A segment that has a number is at its receiver. False: it waits for one before it, and will be an event once more. */
bool des_lanes_in_order(struct des *s, uint32_t m);

/* des_sent.c: when the sources of puts are free again. */

/* Segments of one put. */
struct des_sent {
    uint32_t seq;       /* the first */
    uint16_t step, count;
};

/* The sources of what rank `me` sends to `to` are free at a time, which is not past. */
void des_sent_at(struct des *s, uint32_t me, uint32_t to, const struct des_sent *what, uint64_t time_ps);
/* A DES_SENT is due: the executor hears of it, and the message is free. */
void des_sent(struct des *s, uint32_t i);
/* Rank `me` is at work: it hears of all that are free by now. */
void des_sent_catch_up(struct des *s, uint32_t me);
/* Rank `me` has put a segment: what was put before may be what it waits for now. */
void des_sent_heed(struct des *s, uint32_t me, uint16_t step);
/* Rank `me` rests: it will be woken if nothing but the end of its puts is left. */
void des_sent_before_rest(struct des *s, uint32_t me);
/* Nothing else will happen. False: this neither. */
bool des_sent_wake_all(struct des *s);

/* des_move.c: messages on their way. */

/* A message of rank `me` to its peer; NONE where a dead NIC is on the way. It leaves with des_send. */
uint32_t des_new(struct des *s, uint32_t me, uint16_t peer, enum des_kind kind);
void des_send(struct des *s, uint32_t me, uint16_t peer, uint32_t m);
void des_free(struct des *s, uint32_t m);
/* Sends a segment, or adds it to the train of the rank at work. */
void des_send_segment(struct des *s, uint32_t me, const struct tt_action *a);
/* What `bytes` more of a message take the thread of its sender; it leaves when they are spent. */
void des_spend_bytes(struct des *s, uint32_t me, uint32_t m, uint64_t bytes);
/* The bytes of data that a delivery brings. */
uint64_t des_came(const struct des *s, const struct des_msg *m);
/* The train leaves. */
void des_flush(struct des *s);
/* Puts something that has nothing to do with the network into the queue. */
void des_at(struct des *s, uint64_t time_ps, uint32_t m);
uint32_t des_alloc(struct des *s);
/* A message is at its next server. */
void des_hop(struct des *s, uint32_t m);
/* A train is at its receiver, `seen` segments of it delivered: when what follows is delivered, and how many. */
void des_deliver_next(struct des *s, uint32_t m);

#endif
