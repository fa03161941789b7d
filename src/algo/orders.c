#include "algo/orders.h"

/* Returns whether dimension b crosses between buildings. */
static bool crosses(const struct tt_coll *c, const struct tt_fold *f, uint32_t b)
{
    return tt_layout_distance(c->layout, 0, tt_fold_rank(f, 1u << b)) > TT_NEAR_BUILDING;
}

uint32_t tt_order_far(const struct tt_coll *c, const struct tt_fold *f, enum tt_order_kind kind)
{
    uint32_t far = 0;

    if (kind == TT_FARTHEST_FIRST)
        return f->rounds;
    while (kind == TT_HYBRID && c->layout && far < f->rounds && crosses(c, f, f->rounds - 1 - far))
        far++;
    return far;
}

uint32_t tt_order_dimension(const struct tt_fold *f, uint32_t far, uint32_t i)
{
    return i < far ? f->rounds - 1 - i : i - far;
}

/* After i rounds the `high` highest and `low` lowest bits of a group are free. */
static void free_bits(uint32_t far, uint32_t i, uint32_t *high, uint32_t *low)
{
    *high = i < far ? i : far;
    *low = i - *high;
}

/* Returns the lowest of the groups that tt_order_held describes. */
static uint32_t lowest_group(const struct tt_fold *f, uint32_t far, uint32_t group, uint32_t i)
{
    uint32_t high, low;

    free_bits(far, i, &high, &low);
    return (group & ((f->groups >> high) - 1)) >> low << low;
}

/* `pieces` runs of `run` ranks, `apart` ranks apart, from rank `first`. */
static struct tt_part runs_of(uint64_t block, struct tt_ref at, uint32_t first, uint32_t run,
                              uint32_t apart, uint32_t pieces)
{
    struct tt_part part = { .ref = at, .bytes = (uint64_t)pieces * run * block };

    part.ref.offset += first * block;
    return pieces > 1 && run < apart
               ? (struct tt_part){ tt_strided(part.ref, run * block, apart * block), part.bytes }
               : part;
}

void tt_order_held(const struct tt_coll *c, const struct tt_fold *f, uint32_t far, uint32_t group,
                   uint32_t i, struct tt_ref at, struct tt_part part[TT_ORDER_PARTS])
{
    uint32_t high, low;

    free_bits(far, i, &high, &low);
    const uint32_t first = lowest_group(f, far, group, i), run = 1u << low,
                   apart = f->groups >> high, pieces = 1u << high;
    /* Runs in groups of two ranks, a run partly in these, and runs in groups of one. */
    const uint32_t before = f->extras < first + run ? 0 : (f->extras - first - run) / apart + 1;
    const uint32_t folded = before < pieces ? before : pieces;
    const uint32_t next = first + folded * apart, mixed = folded < pieces && next < f->extras;
    const uint32_t begin = tt_fold_rank(f, next), after = next + mixed * apart;

    part[0] = runs_of(c->bytes, at, 2 * first, 2 * run, 2 * apart, folded);
    part[1] =
        runs_of(c->bytes, at, begin, mixed ? tt_fold_rank(f, next + run) - begin : 0, 1, mixed);
    part[2] = runs_of(c->bytes, at, tt_fold_rank(f, after), run, apart, pieces - folded - mixed);
}
