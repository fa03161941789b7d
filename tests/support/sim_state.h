/* Private declarations of the simulator with data: sim.c has the events and the loop, sim_act.c the
 * data. */
#ifndef TT_TESTS_SIM_STATE_H
#define TT_TESTS_SIM_STATE_H

#include "base/prng.h"
#include "support/sim.h"

enum tt_sim_event_kind { EV_READY, EV_EAGER, EV_ARRIVED, EV_CREDIT, EV_RETRY };

/* An event at rank `to`, caused by rank `from`. */
struct tt_sim_event {
    uint64_t time_ns, order;    /* order breaks ties, so that equal seeds give equal runs */
    uint32_t to, from;
    uint8_t kind, stream;
    bool direct;
    uint16_t step;              /* ARRIVED: step of the put */
    uint32_t seq;               /* ARRIVED: segment; CREDIT: count; EAGER: tag */
    uint64_t bytes;
    uint8_t *data;              /* EAGER: the payload, owned */
    struct tt_place source, target;     /* ARRIVED, unless mapped: read and written when the event
                                           occurs */
};

/* An eager message that has not been consumed. */
struct tt_sim_letter {
    struct tt_sim_letter *next;
    uint32_t from, tag;
    uint64_t bytes;
    bool claimed;
    uint8_t *data;
};

/* Received segments of one pair, and their slots. */
struct tt_sim_landing {
    uint8_t *slots;             /* [streams][depth][segment_bytes] */
    uint32_t landed[TT_EXEC_STREAMS_MAX];       /* number of segments received without a gap */
    uint8_t *there[TT_EXEC_STREAMS_MAX];        /* [room]: received segments; with direct
                                                   arrival, any number may be ahead of the prefix */
    uint32_t room[TT_EXEC_STREAMS_MAX];
};

struct tt_sim_rank {
    struct tt_exec exec;
    struct tt_exec_peer *peers;
    struct tt_sim_landing *landing;    /* [peers_max] */
    struct tt_sim_letter *letters;
    struct tt_sim_event *early;        /* READY and ARRIVED events that came before their peer was
                                          loaded */
    uint32_t nearly, early_cap, seen_loaded;
    uint8_t *src, *dst, *work, *stage;
    uint64_t link_free_ns;      /* time at which its outgoing link is free */
    bool retries;               /* a RETRY is pending */
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

/* Returns p; aborts if it is NULL. */
void *tt_sim_must(void *p);
void tt_sim_push(struct tt_sim *s, struct tt_sim_event ev);
/* Removes and returns the earliest event; there must be one. */
struct tt_sim_event tt_sim_pop(struct tt_sim *s);
/* Returns the arrival time of a message of `bytes` that rank `from` sends now. */
uint64_t tt_sim_arrival_ns(struct tt_sim *s, uint32_t from, uint64_t bytes);

/* Copies bytes from a place of one rank to a place of another. */
void tt_sim_move(struct tt_sim *s, uint32_t to_rank, const struct tt_place *to, uint32_t from_rank,
                 const struct tt_place *from, uint64_t bytes);
/* Executes an action of rank `me`. */
void tt_sim_do_action(struct tt_sim *s, uint32_t me, const struct tt_action *a);
/* Eager, copy, reduce: actions that complete at once. */
void tt_sim_do_at_once(struct tt_sim *s, uint32_t me, const struct tt_action *a);

#endif
