/* What the parts of the simulator with data share: sim.c, which has the events and the run, and sim_act.c, which has the bytes. */
#ifndef TT_SIM_SIM_STATE_H
#define TT_SIM_SIM_STATE_H

#include "base/prng.h"
#include "sim/sim.h"

enum tt_sim_event_kind { EV_READY, EV_EAGER, EV_ARRIVED, EV_CREDIT, EV_RETRY };

/* Something that happens at rank `to`, because of rank `from`. */
struct tt_sim_event {
    uint64_t time_ns, order;    /* order breaks ties: the same seed gives the same run */
    uint32_t to, from;
    uint8_t kind, stream;
    bool direct;
    uint16_t step;              /* ARRIVED: of the put */
    uint32_t seq;               /* ARRIVED: segment; CREDIT: count; EAGER: tag */
    uint64_t bytes;
    uint8_t *data;              /* EAGER: the payload, owned */
    struct tt_place source, target;     /* ARRIVED, when not mapped: read and written when it happens */
};

/* An eager message that waits to be read. */
struct tt_sim_letter {
    struct tt_sim_letter *next;
    uint32_t from, tag;
    uint64_t bytes;
    bool claimed;
    uint8_t *data;
};

/* Where segments of one pair land at the receiver, and which have landed. */
struct tt_sim_landing {
    uint8_t *slots;             /* [streams][depth][segment_bytes] */
    uint32_t landed[TT_EXEC_STREAMS_MAX];       /* prefix */
    uint8_t *there[TT_EXEC_STREAMS_MAX];        /* [room]: which have landed; where they land direct, any number is ahead */
    uint32_t room[TT_EXEC_STREAMS_MAX];
};

struct tt_sim_rank {
    struct tt_exec exec;
    struct tt_exec_peer *peers;
    struct tt_sim_landing *landing;    /* [peers_max] */
    struct tt_sim_letter *letters;
    struct tt_sim_event *early;        /* READY and ARRIVED before their peer was loaded */
    uint32_t nearly, early_cap, seen_loaded;
    uint8_t *src, *dst, *work, *stage;
    uint64_t link_free_ns;      /* when its outgoing link is free again */
    bool retries;               /* a RETRY is on its way */
    bool done;
};

struct tt_sim {
    const struct tt_sim_conf *conf;
    struct tt_sim_rank *rank;
    struct tt_sim_event *heap;
    size_t nheap, heap_cap;
    uint64_t now_ns, order, messages;
    uint32_t ndone;
    struct tt_prng prng;
};

/* p, which is there: a simulator without memory aborts. */
void *tt_sim_must(void *p);
void tt_sim_push(struct tt_sim *s, struct tt_sim_event ev);
/* When a message of `bytes` that rank `from` sends now arrives. */
uint64_t tt_sim_arrival_ns(struct tt_sim *s, uint32_t from, uint64_t bytes);

/* Copies bytes from a place of one rank to a place of another. */
void tt_sim_move(struct tt_sim *s, uint32_t to_rank, const struct tt_place *to, uint32_t from_rank,
                 const struct tt_place *from, uint64_t bytes);
/* What rank `me` wants done. */
void tt_sim_do_action(struct tt_sim *s, uint32_t me, const struct tt_action *a);
/* Eager, copy, reduce: done as soon as it is begun. */
void tt_sim_do_at_once(struct tt_sim *s, uint32_t me, const struct tt_action *a);

#endif
