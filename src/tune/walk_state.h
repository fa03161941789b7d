/* Private declarations of the walk. */
#ifndef TT_TUNE_WALK_STATE_H
#define TT_TUNE_WALK_STATE_H

#include "sim/net.h"
#include "tune/critical_path.h"

#define WALK_PLACES 2048u
#define WALK_PRIME 2654435761u
#define WALK_WRITTEN 32u    /* steps whose results a rank remembers */
#define WALK_JOBS 32u
#define WALK_FANS 4u
#define WALK_IDLE 6u
#define WALK_WINDOW TT_EXEC_STEPS
#define WALK_OPENED 8u      /* peers with streamed messages that a rank remembers */

/* A message in transit. */
struct walk_mail {
    uint32_t from, tag, parts;
    uint64_t bytes;
    enum tt_distance distance;
    bool in_slots;
    double head_ns, tail_ns;            /* arrival of its first and last byte at the receiver's
                                           side of the network */
    double takes_ns[TT_DISTANCES];      /* time that the message occupies the servers of each
                                           level */
};

/* Output of a step, and when its first and last segment are available. */
struct walk_written {
    struct tt_ref ref;
    uint64_t bytes;
    double first_ns, last_ns;
    bool made, came;
};

struct walk_when {
    double first_ns, last_ns;
    bool made;          /* written by this rank, exactly these bytes; they can be written to
                           their next destination at the same time */
    bool came;          /* exactly these bytes, written by another rank of the host */
};

/* Work of a rank's thread since it was last idle: when it was ready, and when the thread could do
 * other work next. */
struct walk_job {
    double ready_ns, next_ns;
};

/* Busy time of a resource since it was last idle, and earlier idle times. */
struct walk_calendar {
    double busy_from_ns, free_ns;
    struct walk_when idle[WALK_IDLE];
};

/* Concurrent puts of the same bytes: their segments are interleaved. */
struct walk_fan {
    struct tt_ref from;
    uint64_t bytes;
    uint32_t nputs, nsent;
    double began_ns;
};

/* Busy times of a rank's thread, and of its share of each server in each direction. */
struct walk_busy {
    double work_ns, out_ns[TT_DISTANCES], in_ns[TT_DISTANCES];
};

/* One walked rank. */
struct walk_rank {
    struct tt_coll coll;
    bool spread;                        /* one of the representative ranks */
    bool straight, waits;
    uint32_t nsteps, at;                /* nsteps: number of steps of the round; at: the next
                                           step */
    uint32_t nmail, nwritten, nover;
    uint64_t own_bytes[TT_DISTANCES];   /* data of the round sent at least to this distance */
    double began_ns;                    /* when the rank's CTS messages were sent */
    struct walk_when left;              /* when the rank's thread finished its last send in this
                                           round: the first segment, and all segments */
    struct walk_calendar thread;
    double spare_ns;                    /* idle time of the thread since then, while it waited for
                                           parts of its work */
    double between_ns;                  /* end of the last interleaved work */
    uint32_t njobs;                     /* number of jobs since the thread was last idle */
    double floor_ns;                    /* work cannot start before the steps that fill the
                                           window are complete */
    double end_ns, marked_end_ns;       /* end of all previous work; and its value at the mark */
    struct walk_busy busy, marked;
    /* the rank's share of each server, in each direction */
    struct walk_calendar out[TT_DISTANCES], in[TT_DISTANCES];
    uint32_t opened[2][WALK_OPENED], nopened[2];        /* recent peers that stream to this rank,
                                                           and to which this rank streams */
    double over_ns[WALK_WINDOW];
    struct walk_job job[WALK_JOBS];
    struct walk_fan fan[WALK_FANS];
    uint32_t nfans;
    struct walk_written written[WALK_WRITTEN];
    struct walk_mail mail[TT_ROUND_STEPS_MAX];
    struct tt_step step[TT_ROUND_STEPS_MAX];
};

struct tt_critical_path {
    const struct tt_tune_conf *conf;
    struct tt_net_conf net;
    struct tt_des_way near;
    struct tt_tune_bytes work, came;
    double crowd;                       /* ranks per core of their host; at least 1 */
    double turn_ns;                     /* time that a core needs to switch to a rank that has
                                           waited */
    double rail_ranks;                  /* ranks that share one rail */
    double socket_ranks;                /* ranks that share the link to another socket; 0: a link
                                           per pair */
    uint32_t border[2 * TT_DISTANCES], nborder;     /* ranks on both sides of the first border of
                                                       each level */
    bool all;                           /* all ranks are walked */
    uint32_t nranks;                    /* number of walked ranks */
    struct walk_rank *rank;             /* [nranks_max] */
    uint32_t nranks_max;
    uint32_t place[WALK_PLACES];        /* hash table: 1 + index in `rank`; 0: free. Unused if
                                           all are walked */
    struct walk_rank *todo[TT_WALK_RANKS];
    /* state of one walk: */
    const struct tt_algo *algo;
    struct tt_segments segments;
    uint64_t steps;
    double rails;                       /* rails of a message */
    double lane_byte_ns[TT_DISTANCES];
    double mean_bytes[TT_DISTANCES];    /* data per rank sent at least to this distance in the
                                           round */
    bool is_lost;                       /* the result depends on ranks that are not walked */
};

/* Returns the table entry of a rank, or the free one for it. */
uint32_t *walk_rank_slot(struct tt_critical_path *w, uint32_t rank);
/* Returns a walked rank, or NULL. */
struct walk_rank *walk_find(struct tt_critical_path *w, uint32_t rank);
static inline const struct tt_des_way *walk_way(const struct tt_critical_path *w,
                                                enum tt_distance d)
{
    return d <= TT_NEAR_HOST ? &w->near : &w->conf->costs.far;
}

/* ---- walk_rank.c: one rank ---- */

/* Charges the cost of a call before its first round. */
void walk_rank_begin(struct tt_critical_path *w, struct walk_rank *r);
/* Advances to the end of the round, or to a wait whose message a walked rank has not sent yet
 * (waits). Writes the waiting ranks that now have a message to woken[TT_ROUND_STEPS_MAX]; returns
 * their number. */
uint32_t walk_rank_go_on(struct tt_critical_path *w, struct walk_rank *r, uint64_t round,
                         struct walk_rank *woken[TT_ROUND_STEPS_MAX]);

#endif
