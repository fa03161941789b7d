/* The graph of waits of a job at the time of its first failure. Nodes are ranks, records
 * (incomplete operations of a rank) and instances (one operation over all its ranks):
 *
 *   rank      -> those of its records that its application waits for: a missing call waits for the
 *                operations in which the rank still is
 *   record    -> the record of the rank that it waits for, in the same operation;
 *                or the rank itself, if it has not called; or the instance
 *   instance  -> the ranks that have not called it
 *
 * Components without an edge to another component are the ends of all chains of waits. The rule and
 * its two assumptions: "Collective Communication for 100k+ GPUs", section 7.4.
 *
 * Dumps of a job that may still make progress (tt_dumps.hung_ns) do not satisfy the first
 * assumption. There, a rank makes progress if its operation was in progress for less than hung_ns
 * at its dump, since wait times are transitive. The rank has no record of this operation, so chains
 * of waits end at the rank. Operations with different arguments are an exception. */
#ifndef TT_ANALYZE_WAITS_H
#define TT_ANALYZE_WAITS_H

#include "analyze/dumps.h"

struct tt_waits_record {
    uint32_t op;                        /* in tt_dumps.ops */
    uint32_t instance;
    uint32_t target;                    /* node, or TT_DUMPS_NONE */
    bool is_waited;                     /* the application waits for it */
};

struct tt_waits_instance {
    uint32_t first, n;                  /* in tt_waits.by_instance; sorted by rank */
    uint32_t missing_first, nmissing;   /* in tt_waits.missing: ranks without this call, except
                                           those that are already listed for `previous` */
    bool is_proven;                     /* dumps show that the missing ranks of this instance, or of
                                           `previous`, did not call; false: no complete dumps */
    uint32_t previous;                  /* earlier instance of the communicator with missing
                                           ranks, or NONE */
    bool differs;                       /* the arguments of its records differ */
};

struct tt_waits {
    const struct tt_dumps *d;
    int64_t at;                         /* job time of the first failure, or of the first dump;
                                           NEVER: no comparable time */
    bool has_failure;
    struct tt_waits_record *records;    /* sorted by rank; the waited ones of a rank come first */
    uint32_t *rank_first;               /* [nranks + 1] first record of a rank */
    uint32_t *nwaited;                  /* [nranks] waited records of a rank */
    uint32_t *by_instance;              /* records, sorted by instance and rank */
    struct tt_waits_instance *instances;
    uint32_t *missing;
    uint64_t *ncalled;                  /* [nlocals] calls until `at` */
    uint32_t *seen_in;                  /* [nranks] instance in which other ranks received from a
                                           rank without dump; or NONE */
    uint32_t *component;                /* [nnodes] */
    uint32_t *end_of;                   /* [ncomponents] end of a chain of waits from there */
    uint32_t *nwaiting;                 /* [ncomponents] of an end: ranks whose chains end there */
    double *waited_ns;                  /* [ncomponents] of an end: the longest of these waits;
                                           infinite: an operation failed */
    uint32_t *young;                    /* [nranks] an operation that had been in progress for less
                                           than hung_ns at the dump, or NONE */
    bool *in_mismatch;                  /* [nops] arguments of the instance differ; NULL: not used
                                           (hung_ns is 0) */
    bool has_young;                     /* young operations are records, too; used while building */
    bool *is_end;                       /* [ncomponents] */
    uint32_t nrecords, ninstances, nnodes, ncomponents;
    size_t nmissing, cap_missing;
};

/* Builds the graph. *d must have its index, and must not change until tt_waits_fini. NOMEM
 * (logged): *w is not initialized. */
tutti_status tt_waits_init(struct tt_waits *w, const struct tt_dumps *d);
void tt_waits_fini(struct tt_waits *w);

static inline uint32_t tt_waits_node_of_record(const struct tt_waits *w, uint32_t record)
{
    return w->d->nranks + record;
}

static inline uint32_t tt_waits_node_of_instance(const struct tt_waits *w, uint32_t instance)
{
    return w->d->nranks + w->nrecords + instance;
}

static inline bool tt_waits_is_rank(const struct tt_waits *w, uint32_t node)
{
    return node < w->d->nranks;
}

static inline bool tt_waits_is_record(const struct tt_waits *w, uint32_t node)
{
    return node >= w->d->nranks && node < w->d->nranks + w->nrecords;
}

/* Returns whether time t of a rank is after the first failure, beyond the error of the clocks. */
bool tt_waits_is_after(const struct tt_waits *w, uint32_t rank, int64_t t);
/* Returns edge k of a node, or NONE after the last one. */
uint32_t tt_waits_edge(const struct tt_waits *w, uint32_t node, uint32_t k);
const struct tt_dumps_op *tt_waits_op(const struct tt_waits *w, uint32_t record);

/* Returns the start of an operation in progress, or of the application's wait for it; or NEVER. */
static inline int64_t tt_waits_since(const struct tt_dumps_op *op)
{
    return op->waited > op->called ? op->waited : op->called;
}

/* Returns the record of a rank in an instance, or NONE. */
uint32_t tt_waits_record_of(const struct tt_waits *w, uint32_t instance, uint32_t rank);
/* Returns whether a rank with a dump made the call of `op` until `at`. */
bool tt_waits_called(const struct tt_waits *w, uint32_t rank, const struct tt_dumps_op *op);
/* Returns whether the rank that a record waits for has left the operation in the meantime, as far
 * as dumps written at different times show. */
bool tt_waits_has_ended(const struct tt_waits *w, uint32_t record);
/* Returns what a record waits for (enum tt_op_wait). START: as far as the dumps show, the peer has
 * not called the operation. DATA: the peer has called, even if the record's own dump says START. */
uint8_t tt_waits_reason(const struct tt_waits *w, uint32_t record);
/* Returns whether two records of an instance have the same arguments. */
bool tt_waits_same(const struct tt_waits *w, const struct tt_dumps_op *a,
                   const struct tt_dumps_op *b);

#endif
