#include "algo/algos.h"

#include <string.h>
#include "algo/blocks.h"
#include "base/status.h"

/* The registry, one line each. Among algorithms of equal cost the first is chosen. */
#define ALGOS(X) \
    X(allreduce_onestep) \
    X(allreduce_doubling) \
    X(allreduce_rabenseifner) \
    X(allreduce_ring) \
    X(allreduce_two_rings) \
    X(allreduce_ftar) \
    X(allreduce_parallel_rings) \
    X(allreduce_hierarchical) \
    X(allreduce_dtree) \
    X(reduce_flat) \
    X(reduce_binomial) \
    X(reduce_chain) \
    X(reduce_dtree) \
    X(reduce_knomial4) \
    X(reduce_knomial8) \
    X(reduce_scatter_direct) \
    X(reduce_scatterv_direct) \
    X(reduce_scatter_halving) \
    X(reduce_scatterv_halving) \
    X(reduce_scatter_ring) \
    X(reduce_scatterv_ring) \
    X(reduce_scatter_parallel_rings) \
    X(reduce_scatterv_parallel_rings) \
    X(reduce_scatter_near) \
    X(reduce_scatter_hybrid) \
    X(reduce_scatter_pat) \
    X(reduce_scatter_pat_bounded) \
    X(allgather_direct) \
    X(allgatherv_direct) \
    X(allgather_doubling) \
    X(allgatherv_doubling) \
    X(allgather_bruck) \
    X(allgatherv_bruck) \
    X(allgather_ring) \
    X(allgatherv_ring) \
    X(allgather_parallel_rings) \
    X(allgather_parallel_rings_linear) \
    X(allgather_parallel_rings_doubling) \
    X(allgather_parallel_rings_halving) \
    X(allgather_parallel_rings_knomial) \
    X(allgather_parallel_rings_sockets) \
    X(allgatherv_parallel_rings) \
    X(allgather_far) \
    X(allgather_hybrid) \
    X(allgather_pat) \
    X(allgather_pat_bounded) \
    X(broadcast_flat) \
    X(broadcast_binomial) \
    X(broadcast_chain) \
    X(broadcast_scatter_allgather) \
    X(broadcast_dtree) \
    X(broadcast_knomial4) \
    X(broadcast_knomial8) \
    X(gather_flat) \
    X(gatherv_flat) \
    X(gather_binomial) \
    X(gather_knomial4) \
    X(gather_knomial8) \
    X(scatter_flat) \
    X(scatterv_flat) \
    X(scatter_binomial) \
    X(scatter_knomial4) \
    X(scatter_knomial8) \
    X(alltoall_direct) \
    X(alltoall_pairwise) \
    X(alltoall_bruck) \
    X(alltoall_two_level) \
    X(alltoallv_direct) \
    X(alltoallv_pairwise) \
    X(alltoallv_by_hosts) \
    X(alltoallv_two_level) \
    X(alltoallv_stretches) \
    X(barrier_dissemination) \
    X(barrier_onestep) \
    X(send_direct) \
    X(recv_direct)

#define DECLARE(name) extern const struct tt_algo tt_algo_##name;
#define ENTRY(name) &tt_algo_##name,

ALGOS(DECLARE)

#define COUNT(name) +1
#define BUILT_IN (0 ALGOS(COUNT))

const struct tt_algo *tt_algos[TT_ALGOS_MAX] = { ALGOS(ENTRY) };
size_t tt_nalgos = BUILT_IN;
_Static_assert(BUILT_IN + 40 <= TT_ALGOS_MAX && TT_ALGOS_MAX <= 256,
               "room for added ones; an index is a byte in messages");

tutti_status tt_algo_add(const struct tt_algo *algo, const char *from)
{
    const size_t n = strlen(tt_coll_name(algo->kind));

    if (strncmp(algo->name, tt_coll_name(algo->kind), n) != 0 || algo->name[n] != '_' ||
        !algo->name[n + 1])
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: invalid name of algorithm \"%s\": must begin with \"%s_\"", from,
                       algo->name, tt_coll_name(algo->kind));
    if (tt_algo_named(algo->kind, algo->name))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: duplicate name of algorithm \"%s\" (choose another name)", from,
                       algo->name);
    if (tt_nalgos == TT_ALGOS_MAX)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "%s: algorithm \"%s\": too many algorithms: the maximum is %d", from,
                       algo->name, TT_ALGOS_MAX);
    tt_algos[tt_nalgos++] = algo;
    return TUTTI_OK;
}

void tt_algo_remove_from(size_t n)
{
    tt_assert(n >= BUILT_IN && n <= tt_nalgos);
    tt_nalgos = n;
}

double tt_cost_ns(const struct tt_cost *cost, const struct tt_cost_model *m)
{
    return cost->messages * m->message_ns + cost->bytes * m->byte_ns +
           cost->reduced * m->reduce_byte_ns + cost->copied * m->copy_byte_ns +
           cost->near_messages * m->near_message_ns + cost->near_bytes * m->near_byte_ns;
}

uint8_t tt_algo_index(const struct tt_algo *algo)
{
    size_t i = 0;

    while (tt_algos[i] != algo)
        i++;
    return (uint8_t)i;
}

/* Returns whether the algorithm supports calls of this form, regardless of size. */
static bool takes_form(const struct tt_algo *algo, const struct tt_coll *c)
{
    if (tt_coll_reduces(c->kind) && algo->quantizes < c->quantized)
        return false;
    return algo->by_stretches == (c->stretches != NULL);
}

static bool fits_named(const struct tt_algo *algo, const struct tt_coll *c)
{
    return algo->fits_named ? algo->fits_named(c) : algo->fits(c);
}

bool tt_algo_fits(const struct tt_algo *algo, const struct tt_coll *c)
{
    return takes_form(algo, c) && algo->fits(c);
}

bool tt_algo_fits_named(const struct tt_algo *algo, const struct tt_coll *c)
{
    return takes_form(algo, c) && fits_named(algo, c);
}

const char *tt_algo_if_named(const struct tt_algo *algo)
{
    return algo->fits_named ? "; any number of bytes if selected by name" : "";
}

const struct tt_algo *tt_algo_choose(const struct tt_coll *c, const struct tt_cost_model *m)
{
    const struct tt_algo *best = NULL;
    double best_ns = 0;

    for (size_t i = 0; i < tt_nalgos; i++) {
        const struct tt_algo *algo = tt_algos[i];

        if (algo->kind != c->kind || algo->by_name || !tt_algo_fits(algo, c))
            continue;
        const struct tt_cost cost = algo->cost(c);
        const double ns = tt_cost_ns(&cost, m);

        if (!best || ns < best_ns) {
            best = algo;
            best_ns = ns;
        }
    }
    tt_assert(best);
    return best;
}

/* Returns whether `name` is the algorithm's full name, or the part after its collective's name. */
static bool is_called(const struct tt_algo *algo, const char *name)
{
    const char *coll = tt_coll_name(algo->kind);

    return strcmp(algo->name, name) == 0 || strcmp(algo->name + strlen(coll) + 1, name) == 0;
}

const struct tt_algo *tt_algo_named(enum tt_coll_kind kind, const char *name)
{
    for (size_t i = 0; i < tt_nalgos; i++)
        if (tt_algos[i]->kind == kind && is_called(tt_algos[i], name))
            return tt_algos[i];
    return NULL;
}

const struct tt_algo *tt_algo_find(const struct tt_coll *c, const char *name)
{
    const struct tt_algo *algo = tt_algo_named(c->kind, name);

    return algo && tt_algo_fits_named(algo, c) ? algo : NULL;
}

tutti_status tt_algo_refuse(const struct tt_coll *c, const char *name)
{
    const struct tt_algo *algo = tt_algo_named(c->kind, name);
    const char *coll = tt_coll_name(c->kind);

    if (!algo)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: unknown algorithm \"%s\" (`tutti info --algos %s` lists them)", coll,
                       name, coll);
    if (fits_named(algo, c) && !takes_form(algo, c))
        return tt_fail(
            TUTTI_ERR_INVALID, "%s, quantized%s: algorithm \"%s\" does not support this call: %s",
            coll, c->quantized == TT_QUANTIZED_FEEDBACK ? " with error feedback" : "", algo->name,
            algo->quantizes ? "its ranks cannot attribute the quantization errors "
                              "to an input"
                            : "the results of its ranks would differ");
    return tt_fail(TUTTI_ERR_INVALID,
                   "%s of %llu bytes on %u rank%s: algorithm \"%s\" does not support this call: "
                   "it needs %s%s",
                   coll, (unsigned long long)c->bytes, c->nranks, TT_PLURAL(c->nranks), algo->name,
                   algo->needs ? algo->needs : "another call", tt_algo_if_named(algo));
}
