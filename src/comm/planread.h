/* A plan (docs/plan-format.md) read from JSON. */
#ifndef TT_COMM_PLANREAD_H
#define TT_COMM_PLANREAD_H

#include <stddef.h>
#include "sched/algo.h"

#define TT_PLAN_FILE_BYTES_MAX (32u << 20)
#define TT_PLAN_RANKS_MAX 1024u
#define TT_PLAN_STEPS_MAX (1u << 20)
#define TT_PLAN_NAME_BYTES 64u
#define TT_PLAN_BYTES_MAX (1ull << 38)
#define TT_PLAN_WORK_BYTES_MAX (1u << 20)

struct tt_plan_file {
    char name[TT_PLAN_NAME_BYTES];
    enum tt_coll_kind kind;
    uint32_t nranks, root, elem_bytes;
    uint64_t bytes, nrounds;
    char needs[128];
    uint64_t *work_bytes;       /* [nranks] */
    uint32_t *npeers;           /* [nranks] */
    uint64_t *first;            /* [nranks][nrounds + 1] first step of each round */
    struct tt_step *step;
    uint64_t nsteps, steps_cap;
};

/* Reads a plan; `from` names it in errors. INVALID (logged) with the cause and the position. The
 * caller frees it with tt_plan_file_free. The plan is not verified yet. */
tutti_status tt_plan_file_read(struct tt_plan_file **out, const char *text, size_t bytes,
                               const char *from);
void tt_plan_file_free(struct tt_plan_file *p);

/* Returns whether the name is valid for a plan of the kind: that of the collective, _, and
 * letters, digits and _. */
bool tt_plan_name_is_fine(const char *name, enum tt_coll_kind kind);

/* Returns whether calls of the kind have a root. */
bool tt_plan_has_root(enum tt_coll_kind kind);

#endif
