/* The register of algorithms: selection, lookup by name, and the shared answers that most algorithms give. */
#ifndef TT_ALGO_ALGOS_H
#define TT_ALGO_ALGOS_H

#include <stddef.h>
#include "sched/algo.h"

/* All algorithms, in the order of algos.c, then those that were added; tt_nalgos of them. */
#define TT_ALGOS_MAX 240
extern const struct tt_algo *tt_algos[TT_ALGOS_MAX];
extern size_t tt_nalgos;

/* That of late exchanges (src/moe), whose calls say which stretches travel: no other fits those, and it fits no others. */
extern const struct tt_algo tt_algo_alltoallv_stretches;

/* Adds one, which must then stay; before the first communicator, from one thread. INVALID (logged) if its name is taken, its kind's name
 * is not the beginning of its own, or there is no room; `from`, the file that brings it, is named then. tt_algo_forget drops those from the
 * n-th on. */
tutti_status tt_algo_add(const struct tt_algo *algo, const char *from);
void tt_algo_forget(size_t n);

/* Constants of the network, measured once and agreed by all ranks: equal inputs give equal choices everywhere. */
struct tt_cost_model {
    double message_ns;          /* one message, end to end */
    double byte_ns;             /* one more byte of a message, streamed */
    double reduce_byte_ns;      /* one byte of reduction output */
    double copy_byte_ns;
    double near_message_ns, near_byte_ns;   /* of messages that stay on a host, where others leave it */
};
double tt_cost_ns(const struct tt_cost *cost, const struct tt_cost_model *m);

/* Its place in the register, by which descriptors name it. */
uint8_t tt_algo_index(const struct tt_algo *algo);

/* Whether it can do this call, which is of its kind; named: one that asks for it by name, for which it may take more memory. */
bool tt_algo_fits(const struct tt_algo *algo, const struct tt_coll *c);
bool tt_algo_fits_named(const struct tt_algo *algo, const struct tt_coll *c);
/* What to say after algo->needs: whether that bounds sizes only where it is not named. */
const char *tt_algo_if_named(const struct tt_algo *algo);

/* The cheapest algorithm that fits and need not be named (ties: first in the register). Never NULL: every kind has one that always fits. */
const struct tt_algo *tt_algo_choose(const struct tt_coll *c, const struct tt_cost_model *m);
/* By name ("allreduce_ring", or "ring" of that kind); NULL if there is none or it does not fit. */
const struct tt_algo *tt_algo_find(const struct tt_coll *c, const char *name);

/* By name, whether it fits or not; NULL if there is none. */
const struct tt_algo *tt_algo_named(enum tt_coll_kind kind, const char *name);
/* Says why tt_algo_find finds none of that name for the call: there is none, or what it needs. INVALID (logged). */
tutti_status tt_algo_refuse(const struct tt_coll *c, const char *name);

/* Shared answers. Even alone a rank has one round: its own bytes may have to be copied. */
bool tt_fits_always(const struct tt_coll *c);
bool tt_fits_packed(const struct tt_coll *c);           /* a range of blocks is a range of bytes */
uint64_t tt_rounds_one(const struct tt_coll *c);
uint64_t tt_rounds_linear(const struct tt_coll *c);     /* nranks - 1, at least 1 */
uint64_t tt_rounds_log(const struct tt_coll *c);        /* ceil(log2 nranks), at least 1 */
uint64_t tt_work_none(const struct tt_coll *c);
uint32_t tt_npeers_all(const struct tt_coll *c);        /* nranks - 1 */
uint32_t tt_npeers_log(const struct tt_coll *c);        /* 2 ceil(log2 nranks) */
uint32_t tt_npeers_two(const struct tt_coll *c);        /* neighbours */
uint32_t tt_npeers_flat(const struct tt_coll *c);       /* root: all; the others: root */
uint32_t tt_npeers_tree(const struct tt_coll *c);       /* ceil(log2 nranks) + 1 */

/* What n messages cost that do not wait for one another, as `messages`: the latency of one, and for each further one
 * the share of it that its sender or receiver spends on it. */
double tt_cost_burst(uint32_t n);

#endif
