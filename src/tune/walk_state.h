/* What the files of the walk share. */
#ifndef TT_TUNE_WALK_STATE_H
#define TT_TUNE_WALK_STATE_H

#include "sim/net.h"
#include "tune/walk.h"

#define WALK_PLACES 2048u
#define WALK_WRITTEN 32u    /* steps whose results a rank remembers */
#define WALK_JOBS 32u
#define WALK_FANS 4u
#define WALK_IDLE 6u
#define WALK_WINDOW TT_EXEC_STEPS
#define WALK_OPENED 8u      /* peers that a rank remembers to have streamed to */

/* A message on its way. */
struct walk_mail {
    uint32_t from, tag, parts;
    uint64_t bytes;
    enum tt_distance distance;
    bool in_slots;
    double head_ns, tail_ns;            /* when its first and last byte come to the receiver's side of the network */
    double takes_ns[TT_DISTANCES];      /* at the servers of each level */
};

/* What a step has written, and when its first segment and its last are there. */
struct walk_written {
    struct tt_ref ref;
    uint64_t bytes;
    double first_ns, last_ns;
    bool made, came;
};

struct walk_when {
    double first_ns, last_ns;
    bool made;          /* by the rank itself, just these bytes, which can be written to where they go next as well */
    bool came;          /* just these bytes, as another rank of the host has written them */
};

/* Something that a rank's thread has done since it was idle: when that was ready, and when other things could be done next. */
struct walk_job {
    double ready_ns, next_ns;
};

/* Since when and until when something is busy, and when before that it was idle. */
struct walk_calendar {
    double busy_from_ns, free_ns;
    struct walk_when idle[WALK_IDLE];
};

/* Puts of the same bytes, which can all go at once: their segments take turns. */
struct walk_fan {
    struct tt_ref from;
    uint64_t bytes;
    uint32_t nputs, nsent;
    double began_ns;
};

/* How long a rank's thread was busy, and its share of each server, each way. */
struct walk_busy {
    double work_ns, out_ns[TT_DISTANCES], in_ns[TT_DISTANCES];
};

/* One rank that is walked. */
struct walk_rank {
    struct tt_coll coll;
    bool spread;                        /* one of those that stand for all */
    bool straight, waits;
    uint32_t nsteps, at;                /* of the round; the next */
    uint32_t nmail, nwritten, nover;
    uint64_t own_bytes[TT_DISTANCES];   /* that it sends so far or farther in the round */
    double began_ns;                    /* when it had told its peers that they may stream */
    struct walk_when left;              /* when its thread had done with what it sent last, in this round: the first segment, and all of it */
    struct walk_calendar thread;
    double spare_ns;                    /* that its thread waits for parts of what it does since it was idle */
    double between_ns;                  /* when what was last done in between was done */
    uint32_t njobs;                     /* since it was idle */
    double floor_ns;                    /* nothing begins before the steps are over that fill the window */
    double end_ns, marked_end_ns;       /* all so far is over; the same at the mark */
    struct walk_busy busy, marked;
    struct walk_calendar out[TT_DISTANCES], in[TT_DISTANCES];   /* its share of each server, each way */
    uint32_t opened[2][WALK_OPENED], nopened[2];        /* peers that stream to it, and to which it does: the last ones */
    double over_ns[WALK_WINDOW];
    struct walk_job job[WALK_JOBS];
    struct walk_fan fan[WALK_FANS];
    uint32_t nfans;
    struct walk_written written[WALK_WRITTEN];
    struct walk_mail mail[TT_ROUND_STEPS_MAX];
    struct tt_step step[TT_ROUND_STEPS_MAX];
};

struct tt_walk {
    const struct tt_tune_conf *conf;
    struct tt_net_conf net;
    struct tt_des_way near;
    struct tt_tune_bytes work, came;
    double crowd;                       /* ranks to a core of their host; at least 1 */
    double turn_ns;                     /* of a core, to a rank that has waited */
    double rail_ranks;                  /* that share one rail */
    double socket_ranks;                /* that share the link to another socket; 0: each pair has its own */
    uint32_t border[2 * TT_DISTANCES], nborder;     /* ranks at both sides of the first border of each level */
    bool all;                           /* ranks are walked */
    uint32_t nranks;                    /* that are walked */
    struct walk_rank *rank;             /* [nranks_max] */
    uint32_t nranks_max;
    uint32_t place[WALK_PLACES];        /* 1 + where in `rank` a rank is, by its hash, or after it; 0: nobody is there. Unless all are walked */
    struct walk_rank *todo[TT_WALK_RANKS];
    /* Of one walk: */
    const struct tt_algo *algo;
    struct tt_segments segments;
    uint64_t steps;
    double rails;                       /* that a message goes over */
    double lane_byte_ns[TT_DISTANCES];
    double mean_bytes[TT_DISTANCES];    /* that a rank sends so far or farther in the round */
    bool is_lost;                       /* what is not walked would have to be */
};

/* The place of a rank among those that are walked; NULL: it is not. */
struct walk_rank *walk_find(struct tt_walk *w, uint32_t rank);
static inline const struct tt_des_way *walk_way(const struct tt_walk *w, enum tt_distance d)
{
    return d <= TT_NEAR_HOST ? &w->near : &w->conf->costs.far;
}

/* walk_rank.c: one rank. */

/* Before the first round: what a call costs its rank before it begins. */
void walk_rank_begin(struct tt_walk *w, struct walk_rank *r);
/* Goes on until the end of the round, or a wait whose message a rank that is walked has not sent yet (waits). Returns the ranks that have been
 * sent something and waited, in woken[TT_ROUND_STEPS_MAX]. */
uint32_t walk_rank_go_on(struct tt_walk *w, struct walk_rank *r, uint64_t round,
                         struct walk_rank *woken[TT_ROUND_STEPS_MAX]);

#endif
