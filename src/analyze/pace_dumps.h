/* Slow ranks, slow links and late callers in trace dumps. */
#ifndef TT_ANALYZE_PACE_DUMPS_H
#define TT_ANALYZE_PACE_DUMPS_H

#include "analyze/instances.h"
#include "analyze/pace.h"

#define TT_PACE_WINDOWS 24u             /* default number of windows of a job */

struct tt_pace_dumps {
    struct tt_pace *pace;
    uint32_t *group_instance;           /* [ngroups] an instance of the group */
    uint32_t ngroups;
    int64_t begin, window_ns;           /* begin: first end of an operation; 0: none is usable */
    uint32_t nwindows;                  /* with operations */
};

/* Evaluates the collectives and messages of *in whose members all left records with comparable
 * times. Groups are communicators, and pairs of a sender and a receiver. window_ns 0: the total
 * time divided by TT_PACE_WINDOWS. NOMEM (logged): *out is not initialized. */
tutti_status tt_pace_dumps_init(struct tt_pace_dumps *out, const struct tt_instances *in,
                                int64_t window_ns);
void tt_pace_dumps_fini(struct tt_pace_dumps *p);

#endif
