/* The registry of algorithms: selection, lookup by name, and shared functions for algorithm
 * tables. */
#ifndef TT_ALGO_ALGOS_H
#define TT_ALGO_ALGOS_H

#include <stddef.h>
#include "sched/algo.h"

/* All algorithms: those of algos.c in order, then added ones; tt_nalgos in total. */
#define TT_ALGOS_MAX 240
extern const struct tt_algo *tt_algos[TT_ALGOS_MAX];
extern size_t tt_nalgos;

/* The algorithm of late exchanges (src/moe), whose calls list the stretches to send. It is the only
 * one that fits these calls, and it fits no other calls. */
extern const struct tt_algo tt_algo_alltoallv_stretches;

/* Adds an algorithm, which must stay valid. Call it before the first communicator is created, from
 * one thread. INVALID (logged, with the file `from`): its name is taken or does not begin with its
 * kind's name, or the registry is full. tt_algo_remove_from removes the n-th algorithm and all
 * after it. */
tutti_status tt_algo_add(const struct tt_algo *algo, const char *from);
void tt_algo_remove_from(size_t n);

/* Constants of the network, measured once and agreed on by all ranks: equal inputs give equal
 * choices on all ranks. */
struct tt_cost_model {
    double message_ns;          /* one message, end to end */
    double byte_ns;             /* each additional byte of a message, streamed */
    double reduce_byte_ns;      /* one byte of reduction output */
    double copy_byte_ns;
    double near_message_ns, near_byte_ns;   /* for messages within a host, if others leave the
                                               host */
};
double tt_cost_ns(const struct tt_cost *cost, const struct tt_cost_model *m);

/* Returns the algorithm's index in the registry, which descriptors contain. */
uint8_t tt_algo_index(const struct tt_algo *algo);

/* Return whether the algorithm supports this call, which must be of its kind. _named: for a call
 * that names the algorithm, which may then use more memory. */
bool tt_algo_fits(const struct tt_algo *algo, const struct tt_coll *c);
bool tt_algo_fits_named(const struct tt_algo *algo, const struct tt_coll *c);
/* Returns a suffix for the text algo->needs: whether a call that names the algorithm is exempt from
 * the limit on sizes. */
const char *tt_algo_if_named(const struct tt_algo *algo);

/* Returns the cheapest algorithm that fits and need not be named (ties: first in the registry).
 * Never NULL: every kind has one that always fits. */
const struct tt_algo *tt_algo_choose(const struct tt_coll *c, const struct tt_cost_model *m);
/* Returns the algorithm of that name ("allreduce_ring", or "ring" for that kind); NULL if it does
 * not exist or does not fit. */
const struct tt_algo *tt_algo_find(const struct tt_coll *c, const char *name);

/* Returns the algorithm of that name, whether it fits or not; NULL if it does not exist. */
const struct tt_algo *tt_algo_named(enum tt_coll_kind kind, const char *name);
/* Reports why tt_algo_find returned NULL: the name is unknown, or a requirement is violated.
 * INVALID (logged). */
tutti_status tt_algo_refuse(const struct tt_coll *c, const char *name);

/* Shared table functions. Even a single rank has one round: its own bytes may have to be copied. */
bool tt_fits_always(const struct tt_coll *c);
bool tt_fits_packed(const struct tt_coll *c);           /* a range of blocks is a range of bytes */
uint64_t tt_rounds_one(const struct tt_coll *c);
uint64_t tt_rounds_linear(const struct tt_coll *c);     /* nranks - 1, at least 1 */
uint64_t tt_rounds_log(const struct tt_coll *c);        /* ceil(log2 nranks), at least 1 */
uint64_t tt_work_none(const struct tt_coll *c);
uint32_t tt_npeers_all(const struct tt_coll *c);        /* nranks - 1 */
uint32_t tt_npeers_log(const struct tt_coll *c);        /* 2 ceil(log2 nranks) */
uint32_t tt_npeers_two(const struct tt_coll *c);        /* neighbours */
uint32_t tt_npeers_flat(const struct tt_coll *c);       /* root: all others; other ranks: the
                                                           root */
uint32_t tt_npeers_tree(const struct tt_coll *c);       /* ceil(log2 nranks) + 1 */

/* Cost of n independent messages, in `messages`: one full latency, and for each further message the
 * share of the latency that its sender or receiver spends on it. */
double tt_cost_burst(uint32_t n);

#endif
