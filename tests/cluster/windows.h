/* What tests of windows share: the ways by which memory is reached, and a rank's window. */
#ifndef TESTS_CLUSTER_WINDOWS_H
#define TESTS_CLUSTER_WINDOWS_H

#include "job.h"
#include "tutti/rma.h"

#define WINDOW_SEED 20261122

/* How memory is reached. */
struct window_way {
    const char *name, *wires, *cma, *lanes;
    bool own;                   /* windows are memory of the caller's */
};

#define WINDOW_WAYS 7
extern const struct window_way window_ways[WINDOW_WAYS];

/* RDMA devices are rare: by them only where TUTTI_WIRES names their wire, and then by nothing else. Where another wire is in the place of tcp (job.h), only
 * the ways over tcp; and where TUTTI_LANES says how many lanes, those alone. */
bool window_way_is_wanted(const struct window_way *m);
/* Runs the role by each way that is wanted; under sanitizers by half of them, another half in each turn. */
void over_all_ways(void (*role)(struct rank *), uint32_t nranks,
                   void (*direct)(const struct job *, struct job_board *));

/* ---- in a rank; the job's arg is its way ---- */

void window_job_open(struct rank *r);

/* A window of this rank, and its memory. */
struct window_side {
    tutti_window *window;
    uint8_t *mem, *owned;
    size_t bytes;
};

/* All of them: memory is zero. */
void window_side_init(struct rank *r, struct window_side *s, size_t bytes);
void window_side_fini(struct rank *r, struct window_side *s);

/* mem[bytes] is the pattern of that salt. */
void window_check_pattern(struct rank *r, const uint8_t *mem, size_t bytes, uint64_t salt, const char *what);

#endif
