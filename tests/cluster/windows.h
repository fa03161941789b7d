/* Shared by tests of windows: the access methods, and a rank's window. */
#ifndef TESTS_CLUSTER_WINDOWS_H
#define TESTS_CLUSTER_WINDOWS_H

#include "job.h"
#include "tutti/rma.h"

#define WINDOW_SEED 20261122

/* Access method of windows. */
struct window_way {
    const char *name, *wires, *cma, *lanes;
    bool own;                   /* windows are memory of the caller */
    bool allocated;             /* windows are in memory of tutti_mem_alloc */
};

#define WINDOW_WAYS 8
extern const struct window_way window_ways[WINDOW_WAYS];

/* Returns whether a method is tested. RDMA devices are rare: they are used only if TUTTI_WIRES
 * names their transport, and then exclusively. If another transport replaces tcp (job.h), only the
 * methods over tcp are tested; if TUTTI_LANES is set, only methods with that number of lanes. */
bool window_way_is_wanted(const struct window_way *m);
/* Runs the role with each selected method; with sanitizers with half of them, in turn. */
void over_all_ways(void (*role)(struct rank *), uint32_t nranks,
                   void (*direct)(const struct job *, struct job_board *));

/* ---- in a rank; the job's arg is its access method ---- */

void window_job_open(struct rank *r);
/* Returns whether the rank's access method maps the memory of other ranks. */
bool window_is_mapped(const struct rank *r);

/* A window of this rank, and its memory. */
struct window_side {
    tutti_window *window;
    uint8_t *mem, *owned;
    void *allocated;            /* contains mem; NULL: not used by this method */
    size_t bytes;
};

/* Collective: creates the window, with zeroed memory. */
void window_side_init(struct rank *r, struct window_side *s, size_t bytes);
void window_side_fini(struct rank *r, struct window_side *s);

/* Checks that mem[bytes] has the pattern of that salt. */
void window_check_pattern(struct rank *r, const uint8_t *mem, size_t bytes, uint64_t salt,
                          const char *what);

#endif
