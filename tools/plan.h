/* tutti plan: a collective as it is written out for some ranks. What its verbs share: the call, its program, its traffic. */
#ifndef TUTTI_TOOLS_PLAN_H
#define TUTTI_TOOLS_PLAN_H

#include <argp.h>
#include "algo/algos.h"
#include "sched/traffic.h"
#include "sched/verify.h"

/* What the options of every verb say. Zero-initialised; plan_options_argp fills it as a child, its input this struct. */
struct plan_options {
    const char *coll, *algo;        /* of the arguments COLL and ALGO; "ALGO" alone may be a whole name */
    bool any_algo;                  /* set before: the arguments are COLL and SIZE, and no algorithm is said */
    const char *topo;               /* NULL: the options below */
    uint32_t nranks, root, elem_bytes, hosts, host_ranks, sockets;      /* 0: not said */
    uint64_t bytes;
    bool in_place;
};
extern const struct argp plan_options_argp;
#define PLAN_ARGS_DOC "COLL ALGO"

/* The call on all ranks. */
struct plan {
    const struct tt_algo *algo;
    struct tt_layout layout;
    uint32_t nranks;
    struct tt_coll *coll;           /* [nranks] */
    uint64_t *counts, *displs;      /* [nranks] of the kinds that want them: all alike */
    struct tt_stretches *stretches; /* [nranks] of algorithms by stretches: two of each block, with a hole between them; else NULL */
    struct tt_stretch *stretch;     /* that they point into, */
    uint64_t *first;                /* and where those of a pair begin */
};

/* Where the ranks are as options ask for: p->nranks and p->layout (which the caller ends), or false after saying what is wrong. */
bool plan_place(struct plan *p, const struct plan_options *o, uint32_t nranks_max);

/* What options ask for, or false after saying what is wrong on stderr. At most nranks_max ranks. Ends with plan_close. */
bool plan_open(struct plan *p, const struct plan_options *o, uint32_t nranks_max);
void plan_close(struct plan *p);

/* The programs of all ranks, and their traffic; false after saying why not on stderr. End with the _fini of each. */
bool plan_program(const struct plan *p, struct tt_program *program);
bool plan_traffic(const struct plan *p, const struct tt_program *program, struct tt_traffic *traffic);

/* Opens the plan, proves its programs, follows their traffic, and hands all three to `use`, which returns the exit status; 1 where one of
 * them cannot be. */
int plan_with_traffic(const struct plan_options *o, uint32_t nranks_max,
                      int (*use)(const void *arg, const struct plan *p, const struct tt_program *program,
                                 const struct tt_traffic *traffic),
                      const void *arg);

/* "allgather_ring: 64 B from each of 4 ranks", "allreduce_ring: 64 B, 4 ranks": text[bytes]; returns text. */
const char *plan_title(const struct plan *p, char *text, size_t bytes);

/* "within a socket", "between sockets", "between hosts", ...: how far a transfer goes. */
const char *plan_link_name(enum tt_distance d);

/* "from 0-1", "sum of 0-3": whose data a transfer carries: text[bytes]; returns text. */
const char *plan_carried(const struct tt_traffic *t, const struct tt_transfer *transfer, char *text, size_t bytes);

/* The verbs; argv[0] is "tutti plan VERB". */
int plan_show_main(int argc, char **argv);
int plan_draw_main(int argc, char **argv);
int plan_congestion_main(int argc, char **argv);
int plan_why_main(int argc, char **argv);

#endif
