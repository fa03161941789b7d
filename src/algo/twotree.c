#include "algo/twotree.h"

static uint32_t twotree_lowest_bit(uint32_t x) { return x & -x; }

/* A node of the second tree is the previous node of the first, cyclically. */
static uint32_t to_first(uint32_t m, uint32_t tree, uint32_t node)
{
    return tree == 0 ? node : node == 1 ? m : node - 1;
}

static uint32_t from_first(uint32_t m, uint32_t tree, uint32_t node)
{
    return tree == 0 || node == 0 ? node : node % m + 1;
}

struct tt_tree_place tt_tree_place(uint32_t m, uint32_t tree, uint32_t node)
{
    const uint32_t x = to_first(m, tree, node), bit = twotree_lowest_bit(x),
                   up = (x ^ bit) | 2 * bit;
    uint32_t right = 0;

    for (uint32_t half = bit / 2; half > 0 && right == 0; half /= 2)
        if (x + half <= m)
            right = x + half;
    return (struct tt_tree_place){
        .parent = from_first(m, tree, up <= m ? up : x ^ bit),
        .left = from_first(m, tree, bit > 1 ? x - bit / 2 : 0),
        .right = from_first(m, tree, right),
    };
}

uint32_t tt_tree_root(uint32_t m, uint32_t tree)
{
    uint32_t top = 1;

    while (top <= m / 2)
        top *= 2;
    return from_first(m, tree, top);
}

uint32_t tt_tree_lowest(uint32_t m, uint32_t tree, uint32_t node, uint32_t first, uint32_t nranks)
{
    const uint32_t x = to_first(m, tree, node), bit = twotree_lowest_bit(x);
    const uint32_t low = x - bit + 1, high = x + bit - 1 < m ? x + bit - 1 : m;
    uint32_t lowest, last;

    if (tree == 0)
        return tt_lowest(first + low, high - low + 1, nranks);
    last = high < m ? high : m - 1;     /* node m of the first tree is node 1 of this one */
    lowest = low <= last ? tt_lowest(first + low + 1, last - low + 1, nranks) : UINT32_MAX;
    if (high == m && (first + 1) % nranks < lowest)
        lowest = (first + 1) % nranks;
    return lowest;
}

struct tt_block tt_tree_half(const struct tt_coll *c, uint32_t tree)
{
    return (struct tt_block){
        tt_block_offset(c->bytes, c->elem_bytes, TT_TWO, tree),
        tt_block_bytes(c->bytes, c->elem_bytes, TT_TWO, tree),
    };
}

struct tt_cost tt_tree_cost(const struct tt_coll *c, uint32_t m)
{
    const double bytes = (double)c->bytes, half = bytes / 2, hops = tt_log2_up(m + 1);
    const double segment = half < TT_SLAB_BYTES ? half : TT_SLAB_BYTES;

    if (m == 0)
        return (struct tt_cost){ 0 };
    return (struct tt_cost){ .messages = tt_cost_burst(2) * hops,
                             .bytes = bytes + 2 * (hops - 1) * segment };
}
