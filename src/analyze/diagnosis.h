/* The cause of a hang or failure, from trace dumps. */
#ifndef TT_ANALYZE_DIAGNOSIS_H
#define TT_ANALYZE_DIAGNOSIS_H

#include "analyze/waits.h"

enum tt_diagnosis_kind {
    TT_DIAGNOSIS_NONE,          /* no operation is incomplete, and no rank is lost */
    TT_DIAGNOSIS_DIED,          /* the process ended: it has no dump, and its peers lost it */
    TT_DIAGNOSIS_MISMATCH,      /* ranks made different calls */
    TT_DIAGNOSIS_LINK,          /* sent data does not arrive: a lane, a link or a NIC */
    TT_DIAGNOSIS_STOPPED,       /* the process exists, but is silent */
    TT_DIAGNOSIS_ORDER,         /* calls on several communicators in a different order */
    TT_DIAGNOSIS_OUTSIDE,       /* the rank is in no operation, but in annotated work */
    TT_DIAGNOSIS_NEVER_CALLED,  /* the rank did not make the call */
    TT_DIAGNOSIS_SLOW,          /* data arrives slowly */
    TT_DIAGNOSIS_DEADLINE,      /* the operation needs more time than its deadline permits */
    TT_DIAGNOSIS_UNKNOWN,       /* the dumps do not show the cause */
    TT_DIAGNOSIS_KINDS
};

#define TT_DIAGNOSIS_CULPRITS 16u
#define TT_DIAGNOSIS_EVIDENCE 8u
#define TT_DIAGNOSIS_CYCLE 16u
#define TT_DIAGNOSIS_MAX 32u

struct tt_diagnosis {
    enum tt_diagnosis_kind kind;
    uint32_t culprits[TT_DIAGNOSIS_CULPRITS];   /* ranks proven to be at fault: the first ones */
    uint32_t nculprits;                 /* of all ranks at fault */
    uint32_t to;                        /* LINK, SLOW: the link from the culprit to this rank is at
                                           fault; TT_DUMPS_NONE: the culprit itself */
    uint32_t at;                        /* rank at which the evidence ends, or TT_DUMPS_NONE */
    uint32_t op;                        /* index in tt_dumps.ops of the operation that failed first,
                                           or TT_DUMPS_NONE */
    uint32_t nwaiting;                  /* ranks that wait for this end, directly or indirectly */
    int64_t since;                      /* job time, or TT_DUMPS_NEVER */
    struct {
        uint32_t rank, op;              /* the rank is in the operation, and waits for the next
                                           entry's rank; the last one waits for the first */
    } cycle[TT_DIAGNOSIS_CYCLE];
    uint32_t ncycle;                    /* ORDER: entries of the whole cycle; the list contains the
                                           first ones */
    uint32_t waits_by, waits_op;        /* UNKNOWN: the waiting rank and its operation, */
    uint32_t waits_for;                 /* and the awaited rank; or TT_DUMPS_NONE */
    char evidence[TT_DIAGNOSIS_EVIDENCE][192];
    uint32_t nevidence;
};

struct tt_diagnoses {
    struct tt_diagnosis list[TT_DIAGNOSIS_MAX]; /* the cause first; the rest is independent of it */
    uint32_t n;
    uint32_t nall;                      /* including those beyond TT_DIAGNOSIS_MAX */
};

/* Finds the cause. *w must stay valid during the call. Time is nearly linear in the number of
 * operations. NOMEM (logged): *out is undefined. */
tutti_status tt_diagnose(struct tt_diagnoses *out, const struct tt_waits *w);

/* Returns e.g. "never called". */
const char *tt_diagnosis_kind_name(enum tt_diagnosis_kind kind);
/* Writes the diagnosis as one paragraph of text to out[cap]. Returns out. */
const char *tt_diagnosis_words(const struct tt_diagnosis *x, const struct tt_dumps *d, char *out,
                               size_t cap);
/* Returns whether nothing was found in a job that may still make progress (hung_ns), but some ranks
 * have no complete dump: they may be the cause, or wait for it. */
static inline bool tt_diagnoses_lack_dumps(const struct tt_diagnoses *found,
                                           const struct tt_dumps *d)
{
    return found->n == 0 && d->hung_ns > 0 && d->ncomplete < d->nmembers;
}

/* Removes an incomplete UTF-8 sequence from the end of a text that was cut. */
void tt_diagnosis_trim(char *text);
/* Writes e.g. `allreduce 17 of "dp"` to out[cap]. Returns out. */
const char *tt_diagnosis_op_words(const struct tt_dumps *d, const struct tt_dumps_op *op, char *out,
                                  size_t cap);

#endif
