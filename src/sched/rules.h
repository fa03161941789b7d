/* Rules for single steps and pairs of steps: buffers, bounds, puts with their waits, pipes. */
#ifndef TT_SCHED_RULES_H
#define TT_SCHED_RULES_H

#include "sched/finding.h"

/* Links between steps. The steps of all ranks are numbered in one sequence: those of a rank are
 * [first[rank], first[rank + 1]). */
struct tt_links {
    uint32_t *first;        /* [nranks + 1] */
    uint32_t *mate;         /* [nsteps], the wait of a put, and the put of a wait; UINT32_MAX for
                               other steps */
    uint32_t *pipe_writer;  /* [nsteps][2], the writers of the pipes that a step reads as a and b;
                               UINT32_MAX: none */
};

/* Checks the rules and links the steps. TUTTI_ERR_INVALID with a finding; on any error *links is
 * unchanged. */
tutti_status tt_links_init(struct tt_links *links, const struct tt_program *p,
                           const struct tt_finding *f);
void tt_links_fini(struct tt_links *links);

/* Return the number of operands that a step reads, and the i-th of them. */
uint32_t tt_step_nreads(const struct tt_step *step);
const struct tt_ref *tt_step_read(const struct tt_step *step, uint32_t i);

#endif
