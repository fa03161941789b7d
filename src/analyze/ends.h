/* Diagnoses of the ends of chains of waits, by kind; used by diagnosis.c. */
#ifndef TT_ANALYZE_ENDS_H
#define TT_ANALYZE_ENDS_H

#include "analyze/diagnosis.h"

/* The condition of a process, from the reports of other ranks and its own dump. */
enum tt_condition {
    TT_CONDITION_WORKS,
    TT_CONDITION_DIED,
    TT_CONDITION_STOPPED,
    TT_CONDITION_ISOLATED,
    TT_CONDITION_NO_DUMP
};

/* Counts per rank, for the conditions. */
struct tt_ends {
    const struct tt_waits *w;
    uint32_t *nfinds_silent;            /* [nranks] peers that the rank reports as silent or lost */
    uint32_t *npending;                 /* [nranks] lanes of the rank with pending posts */
    uint32_t nisolated;                 /* ranks in condition ISOLATED */
    uint32_t *nposted;                  /* [nranks] pending lanes with a post after the last message
                                           that any other rank received from the rank */
};

bool tt_ends_init(struct tt_ends *e, const struct tt_waits *w);
void tt_ends_fini(struct tt_ends *e);

enum tt_condition tt_ends_condition(const struct tt_ends *e, uint32_t rank);
/* Sets DIED, STOPPED or LINK for a rank with that condition. Returns false for other conditions. */
bool tt_ends_process(const struct tt_ends *e, uint32_t rank, struct tt_diagnosis *x);

/* Each function sets *x for one kind of end:
 * a rank that has not called, and is in no operation: */
void tt_ends_rank(const struct tt_ends *e, uint32_t rank, struct tt_diagnosis *x);
/* A rank with a young operation makes progress: */
void tt_ends_young(const struct tt_ends *e, uint32_t rank, struct tt_diagnosis *x);
/* A record that waits for a rank whose call has ended in the meantime (tt_waits_has_ended): */
void tt_ends_since(const struct tt_ends *e, uint32_t record, struct tt_diagnosis *x);
/* Records with different arguments: */
void tt_ends_mismatch(const struct tt_ends *e, uint32_t instance, struct tt_diagnosis *x);
/* members[n]: records of one operation that wait only for each other (records only): */
void tt_ends_transfer(const struct tt_ends *e, const uint32_t *members, uint32_t n,
                      struct tt_diagnosis *x);
/* The wait of a record ends at a rank without a dump: if the operation makes progress, sets SLOW or
 * DEADLINE and returns true. */
bool tt_ends_moving(const struct tt_ends *e, uint32_t record, struct tt_diagnosis *x);
/* members[n]: nodes of a cycle over several operations: */
void tt_ends_cycle(const struct tt_ends *e, const uint32_t *members, uint32_t n,
                   struct tt_diagnosis *x);

/* Adds a line of evidence. */
void tt_ends_evidence(struct tt_diagnosis *x, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void tt_ends_culprit(struct tt_diagnosis *x, uint32_t rank);
/* Writes the duration between two times, e.g. "12.3 s", to out[32]. */
const char *tt_ends_span(int64_t from, int64_t to, char out[32]);

#endif
