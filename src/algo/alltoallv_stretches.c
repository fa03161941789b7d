/* Stretches of an alltoallv's blocks. Shapes: src and dst as in the call's displacements. Of each
 * pair's block, only the stretches in tt_coll.stretches are sent, in order. The sender does not
 * have the location of a block at its receiver, but a stretch has the same offset within the block
 * at both.
 * Ranks at `distance` exchange in one phase; this rank's own stretches are the phase of distance 0.
 * If pairs have one stretch, a round has EACH phases; if they have many, a phase has several
 * rounds. Both ends of a message are in the same round, as `most` is equal on all ranks. */
#include "algo/algos.h"
#include "algo/blocks.h"

#define EACH 8              /* stretches that a rank sends, and receives, in a round */
_Static_assert(2 * EACH <= TT_ROUND_STEPS_MAX, "a round has room for them");

static uint32_t phases_of_round(const struct tt_coll *c)
{
    return c->stretches->most < EACH ? EACH / (uint32_t)c->stretches->most : 1;
}

static uint64_t rounds_of_phase(const struct tt_coll *c)
{
    return c->stretches->most <= EACH ? 1 : (c->stretches->most + EACH - 1) / EACH;
}

static bool alltoallv_stretches_fits(const struct tt_coll *c)
{
    return c->stretches != NULL;
}

static uint64_t alltoallv_stretches_nrounds(const struct tt_coll *c)
{
    return (c->nranks + phases_of_round(c) - 1) / phases_of_round(c) * rounds_of_phase(c);
}

/* The stretches [from, to) of a pair in a round: chunk `chunk`, of EACH stretches. */
static void chunk_of(const uint64_t *first, uint32_t peer, uint64_t chunk, uint64_t *from,
                     uint64_t *to)
{
    *from = first[peer] + chunk * EACH;
    *to = first[peer + 1];
    if (*from > *to)
        *from = *to;
    if (*to - *from > EACH)
        *to = *from + EACH;
}

static void alltoallv_stretches_give(struct tt_sched *s, const struct tt_coll *c, uint32_t peer,
                                     uint64_t chunk)
{
    const struct tt_stretches *x = c->stretches;
    uint64_t i, end;

    for (chunk_of(x->send_first, peer, chunk, &i, &end); i < end; i++) {
        const struct tt_stretch *t = &x->send[i];
        const struct tt_ref from = tt_src(c->send_displs[peer] + t->offset);
        struct tt_ref to = tt_there();

        to.offset = t->offset;
        if (peer == c->rank)
            tt_sched_copy(s, tt_dst(c->recv_displs[peer] + t->offset), from, t->bytes);
        else
            tt_sched_put(s, peer, from, to, t->bytes, (uint32_t)(i - x->send_first[peer]));
    }
}

static void alltoallv_stretches_take(struct tt_sched *s, const struct tt_coll *c, uint32_t peer,
                                     uint64_t chunk)
{
    const struct tt_stretches *x = c->stretches;
    uint64_t i, end;

    for (chunk_of(x->recv_first, peer, chunk, &i, &end); i < end; i++) {
        tt_sched_wait(s, peer, tt_dst(c->recv_displs[peer] + x->recv[i].offset), x->recv[i].bytes,
                      (uint32_t)(i - x->recv_first[peer]));
        s->steps[s->n - 1].at_most = x->at_most;
    }
}

static void alltoallv_stretches_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t n = c->nranks, r = c->rank, phases = phases_of_round(c);
    const uint64_t chunk = k % rounds_of_phase(c), first = k / rounds_of_phase(c) * phases;

    for (uint64_t i = first; i < n && i < first + phases; i++)
        alltoallv_stretches_give(s, c, (uint32_t)((r + i) % n), chunk);
    for (uint64_t i = first ? first : 1; i < n && i < first + phases; i++)
        alltoallv_stretches_take(s, c, (uint32_t)((r + n - i) % n), chunk);
}

static struct tt_cost alltoallv_stretches_cost(const struct tt_coll *c)
{
    return (struct tt_cost){ .messages = tt_cost_burst(c->nranks - 1) };
}

const struct tt_algo tt_algo_alltoallv_stretches = {
    .name = "alltoallv_stretches",
    .summary = "of blocks whose stretches are listed",
    .needs = "lists of stretches",
    .kind = TT_ALLTOALLV,
    .by_stretches = true,
    .fits = alltoallv_stretches_fits,
    .nrounds = alltoallv_stretches_nrounds,
    .round = alltoallv_stretches_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_all,
    .cost = alltoallv_stretches_cost,
};
