#include "algo/blocks.h"

#include "algo/algos.h"
#include "base/status.h"

const struct tt_layout *tt_layout_of(const struct tt_coll *c, struct tt_layout *alone)
{
    if (c->layout) {
        tt_assert(c->layout->nranks == c->nranks);
        return c->layout;
    }
    tt_layout_regular(alone, c->nranks, c->nranks, 1, 1, TT_NODE_MESH);
    return alone;
}

struct tt_block tt_block_of(const struct tt_coll *c, uint32_t i)
{
    switch (c->kind) {
    case TT_ALLREDUCE: case TT_REDUCE: case TT_BROADCAST:
        return (struct tt_block){
            tt_block_offset(c->bytes, c->elem_bytes, c->nranks, i),
            tt_block_bytes(c->bytes, c->elem_bytes, c->nranks, i),
        };
    case TT_ALLGATHERV: case TT_GATHERV:
        return (struct tt_block){ c->recv_displs[i], c->recv_bytes[i] };
    case TT_SCATTERV: case TT_REDUCE_SCATTERV:
        return (struct tt_block){ c->send_displs[i], c->send_bytes[i] };
    default:
        return (struct tt_block){ i * c->bytes, c->bytes };
    }
}

struct tt_block tt_blocks_of(const struct tt_coll *c, uint32_t first, uint32_t last)
{
    if (first >= last)
        return (struct tt_block){ 0, 0 };
    const struct tt_block low = tt_block_of(c, first), high = tt_block_of(c, last - 1);

    return (struct tt_block){ low.offset, high.offset + high.bytes - low.offset };
}

uint64_t tt_work_max(const struct tt_coll *c)
{
    const uint64_t by_ranks = (uint64_t)TT_WORK_RANK_BYTES * c->nranks;

    return by_ranks > TT_WORK_MAX ? by_ranks : TT_WORK_MAX;
}

static bool has_arrays(const struct tt_coll *c)
{
    return c->kind == TT_ALLGATHERV || c->kind == TT_GATHERV || c->kind == TT_SCATTERV ||
           c->kind == TT_REDUCE_SCATTERV;
}

bool tt_blocks_packed(const struct tt_coll *c)
{
    if (!has_arrays(c))
        return true;
    for (uint32_t i = 1; i < c->nranks; i++) {
        const struct tt_block before = tt_block_of(c, i - 1);

        if (tt_block_of(c, i).offset != before.offset + before.bytes)
            return false;
    }
    return true;
}

uint64_t tt_blocks_total(const struct tt_coll *c)
{
    uint64_t total = 0;

    if (c->kind == TT_ALLREDUCE || c->kind == TT_REDUCE || c->kind == TT_BROADCAST)
        return c->bytes;
    if (!has_arrays(c))
        return c->bytes * c->nranks;
    for (uint32_t i = 0; i < c->nranks; i++)
        total += tt_block_of(c, i).bytes;
    return total;
}

uint64_t tt_blocks_longest(const struct tt_coll *c)
{
    uint64_t longest = tt_block_of(c, 0).bytes;

    if (has_arrays(c))
        for (uint32_t i = 1; i < c->nranks; i++)
            if (tt_block_of(c, i).bytes > longest)
                longest = tt_block_of(c, i).bytes;
    return longest;
}

void tt_sched_own(struct tt_sched *s, const struct tt_coll *c)
{
    const uint32_t r = c->rank;
    struct tt_block own;

    if (c->in_place)
        return;
    switch (c->kind) {
    case TT_ALLREDUCE: case TT_REDUCE: case TT_REDUCE_SCATTER: case TT_REDUCE_SCATTERV:
        if (c->nranks == 1)
            tt_sched_copy(s, tt_dst(0), tt_src(0), tt_coll_dst_bytes(c));
        return;
    case TT_BROADCAST:
        if (r == c->root)
            tt_sched_copy(s, tt_dst(0), tt_src(0), c->bytes);
        return;
    case TT_ALLGATHER: case TT_ALLGATHERV:
        own = tt_block_of(c, r);
        tt_sched_copy(s, tt_dst(own.offset), tt_src(0), own.bytes);
        return;
    case TT_GATHER: case TT_GATHERV:
        own = tt_block_of(c, r);
        if (r == c->root)
            tt_sched_copy(s, tt_dst(own.offset), tt_src(0), own.bytes);
        return;
    case TT_SCATTER: case TT_SCATTERV:
        own = tt_block_of(c, r);
        if (r == c->root)
            tt_sched_copy(s, tt_dst(0), tt_src(own.offset), own.bytes);
        return;
    case TT_ALLTOALL:
        tt_sched_copy(s, tt_dst(r * c->bytes), tt_src(r * c->bytes), c->bytes);
        return;
    case TT_ALLTOALLV:
        tt_sched_copy(s, tt_dst(c->recv_displs[r]), tt_src(c->send_displs[r]), c->send_bytes[r]);
        return;
    case TT_BARRIER: case TT_SEND: case TT_RECV: case TT_COLL_KINDS:
        return;
    }
}

struct tt_fold tt_fold_of(uint32_t rank, uint32_t nranks)
{
    struct tt_fold f = { .groups = 1 };

    while (f.groups <= nranks / 2) {
        f.groups *= 2;
        f.rounds++;
    }
    f.extras = nranks - f.groups;
    f.folded = rank < 2 * f.extras;
    f.group = f.folded ? rank / 2 : rank - f.extras;
    f.active = !f.folded || rank % 2 == 0;
    return f;
}

uint32_t tt_fold_rank(const struct tt_fold *f, uint32_t group)
{
    return group < f->extras ? 2 * group : group + f->extras;
}

uint32_t tt_from_root(const struct tt_coll *c)
{
    return (c->rank + c->nranks - c->root) % c->nranks;
}

uint32_t tt_rank_at(const struct tt_coll *c, uint32_t from_root)
{
    return (c->root + from_root) % c->nranks;
}

uint32_t tt_subtree(uint32_t v, uint32_t nranks)
{
    const uint32_t lowest_bit = v & -v;

    return v == 0 || lowest_bit > nranks - v ? nranks - v : lowest_bit;
}

uint32_t tt_log2_up(uint32_t n)
{
    return n <= 1 ? 0 : 32 - (uint32_t)__builtin_clz(n - 1);
}

uint32_t tt_lowest(uint32_t first, uint32_t count, uint32_t nranks)
{
    tt_assert(count >= 1 && count <= nranks);
    return (uint64_t)first % nranks + count > nranks ? 0 : first % nranks;
}

void tt_sched_reduce_ordered(struct tt_sched *s, struct tt_ref out, struct tt_ref x,
                             uint32_t x_lowest, struct tt_ref y, uint32_t y_lowest, uint64_t bytes,
                             bool finish)
{
    tt_assert(x_lowest != y_lowest);
    if (x_lowest < y_lowest)
        tt_sched_reduce(s, out, x, y, bytes, finish);
    else
        tt_sched_reduce(s, out, y, x, bytes, finish);
}

/* ---- requirements, rounds, peers and costs --------------------------------------------------- */

bool tt_fits_always(const struct tt_coll *c)
{
    (void)c;
    return true;
}

bool tt_fits_packed(const struct tt_coll *c)
{
    return tt_blocks_packed(c);
}

uint64_t tt_rounds_one(const struct tt_coll *c)
{
    (void)c;
    return 1;
}

uint64_t tt_rounds_linear(const struct tt_coll *c)
{
    return c->nranks > 1 ? c->nranks - 1 : 1;
}

uint64_t tt_rounds_log(const struct tt_coll *c)
{
    return c->nranks > 1 ? tt_log2_up(c->nranks) : 1;
}

uint64_t tt_work_none(const struct tt_coll *c)
{
    (void)c;
    return 0;
}

uint32_t tt_npeers_all(const struct tt_coll *c)
{
    return c->nranks - 1;
}

uint32_t tt_npeers_log(const struct tt_coll *c)
{
    return 2 * tt_log2_up(c->nranks);
}

uint32_t tt_npeers_two(const struct tt_coll *c)
{
    return c->nranks > 2 ? 2 : c->nranks - 1;
}

uint32_t tt_npeers_flat(const struct tt_coll *c)
{
    return c->rank == c->root || c->nranks == 1 ? c->nranks - 1 : 1;
}

uint32_t tt_npeers_tree(const struct tt_coll *c)
{
    return tt_log2_up(c->nranks) + 1;
}

double tt_cost_burst(uint32_t n)
{
    return n == 0 ? 0 : 1 + 0.4 * (n - 1);
}
