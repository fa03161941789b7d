/* tutti plan: the schedules of a collective. The shared code of its subcommands: the call, its
 * program and its traffic. */
#ifndef TUTTI_TOOLS_PLAN_H
#define TUTTI_TOOLS_PLAN_H

#include "tools/command_line.h"
#include "algo/algos.h"
#include "sched/traffic.h"
#include "sched/verify.h"

/* Options common to all subcommands. Zero-initialise it, and pass it as the input of the child
 * parser plan_command_line. */
struct plan_options {
    const char *coll, *algo;        /* the arguments COLL and ALGO; ALGO alone may be a full name */
    bool any_algo;                  /* set by the caller: the arguments are COLL and SIZE,
                                       without an algorithm */
    const char *topo;               /* NULL: the options below */
    uint32_t nranks, root, elem_bytes, hosts, host_ranks, sockets;      /* 0: not given */
    uint64_t bytes;
    bool in_place;
};
extern const struct command_line plan_command_line;
#define PLAN_ARGS_DOC "COLL ALGO"

/* The call on all ranks. */
struct plan {
    const struct tt_algo *algo;
    struct tt_layout layout;
    uint32_t nranks;
    struct tt_coll *coll;           /* [nranks] */
    uint64_t *counts, *displs;      /* [nranks], for kinds that need them; equal on all ranks */
    struct tt_stretches *stretches; /* [nranks], for algorithms with stretches: two per block,
                                       with a hole between them; else NULL */
    struct tt_stretch *stretch;     /* the array into which `stretches` point, */
    uint64_t *first;                /* and index of the first stretch of each pair */
};

/* Sets p->nranks and p->layout (owned by the caller) from the options. Returns false after an error
 * message. */
bool plan_place(struct plan *p, const struct plan_options *o, uint32_t nranks_max);

/* Creates the plan that the options describe, with at most nranks_max ranks. Returns false after an
 * error message. Undone by plan_close. */
bool plan_open(struct plan *p, const struct plan_options *o, uint32_t nranks_max);
void plan_close(struct plan *p);

/* Create the programs of all ranks, and their traffic. Return false after an error message. Undone
 * by the _fini of each. */
bool plan_program(const struct plan *p, struct tt_program *program);
bool plan_traffic(const struct plan *p, const struct tt_program *program,
                  struct tt_traffic *traffic);

/* Opens the plan, verifies its programs, traces their traffic and passes all three to `use`, which
 * returns the exit status. Returns 1 if one of these steps fails. */
int plan_with_traffic(const struct plan_options *o, uint32_t nranks_max,
                      int (*use)(const void *arg, const struct plan *p,
                                 const struct tt_program *program,
                                 const struct tt_traffic *traffic),
                      const void *arg);

/* Writes e.g. "allgather_ring: 64 B from each of 4 ranks" or "allreduce_ring: 64 B, 4 ranks" to
 * text[bytes]. Returns text. */
const char *plan_title(const struct plan *p, char *text, size_t bytes);

/* Returns the distance of a transfer: "within a socket", "between sockets", "between hosts", ... */
const char *plan_link_name(enum tt_distance d);

/* Writes the origin of a transfer's data to text[bytes], e.g. "from 0-1", "sum of 0-3". Returns
 * text. */
const char *plan_carried(const struct tt_traffic *t, const struct tt_transfer *transfer, char *text,
                         size_t bytes);

/* The subcommands. argv[0] is "tutti plan SUBCOMMAND". */
int plan_show_main(int argc, char **argv);
int plan_draw_main(int argc, char **argv);
int plan_congestion_main(int argc, char **argv);
int plan_why_main(int argc, char **argv);

#endif
