/* The rules that each step keeps by itself or with one other step: buffers, bounds, pairs of put and wait, pipes. */
#ifndef TT_SCHED_RULES_H
#define TT_SCHED_RULES_H

#include "sched/finding.h"

/* What belongs together. Steps of all ranks are numbered in one sequence: rank's from first[rank], first[rank + 1]
 * after. */
struct tt_links {
    uint32_t *first;        /* [nranks + 1] */
    uint32_t *mate;         /* [nsteps] of a put its wait, of a wait its put; UINT32_MAX for other steps */
    uint32_t *pipe_writer;  /* [nsteps][2] the step that writes the pipe that a (b) reads; UINT32_MAX if none */
};

/* Checks the rules and links the steps. TUTTI_ERR_INVALID with a finding; on any error *links is untouched. */
tutti_status tt_links_init(struct tt_links *links, const struct tt_program *p, const struct tt_finding *f);
void tt_links_fini(struct tt_links *links);

/* The operands that a step reads: how many, and the i-th. */
uint32_t tt_step_nreads(const struct tt_step *step);
const struct tt_ref *tt_step_read(const struct tt_step *step, uint32_t i);

#endif
