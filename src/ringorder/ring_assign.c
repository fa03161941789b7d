#include "ringorder/ring_assign.h"

#include <string.h>

#include "base/status.h"

size_t tt_ring_assign_bytes(uint32_t n)
{
    const size_t columns = (size_t)n + 1;

    return columns * (3 * sizeof(int64_t) + 2 * sizeof(uint32_t) + sizeof(bool)) +
           2 * sizeof(int64_t);
}

void tt_ring_assign_init(struct tt_ring_assign *a, uint32_t n, const int64_t *weight, void *memory)
{
    const size_t columns = (size_t)n + 1;

    tt_assert(n >= 2);
    memset(memory, 0, tt_ring_assign_bytes(n));
    *a = (struct tt_ring_assign){ .n = n, .weight = weight, .row_price = memory };
    a->column_price = a->row_price + columns;
    a->least = a->column_price + columns;
    a->row_of = (uint32_t *)(a->least + columns);
    a->way = a->row_of + columns;
    a->seen = (bool *)(a->way + columns);
    for (uint32_t k = 0; k <= n; k++)
        a->row_of[k] = n;
}

/* Adds column `at` to the tree of reached columns, and returns the nearest column outside the tree.
 * Adapts the prices so that the distance of that column becomes 0. */
static uint32_t grow_tree(struct tt_ring_assign *a, uint32_t at)
{
    const uint32_t n = a->n, row = a->row_of[at];
    int64_t delta = INT64_MAX;
    uint32_t nearest = n;

    a->seen[at] = true;
    for (uint32_t k = 0; k < n; k++) {
        if (a->seen[k])
            continue;
        if (k != row) {
            const int64_t left =
                a->weight[(size_t)row * n + k] - a->row_price[row] - a->column_price[k];

            if (left < a->least[k]) {
                a->least[k] = left;
                a->way[k] = at;
            }
        }
        if (a->least[k] < delta) {
            delta = a->least[k];
            nearest = k;
        }
    }
    tt_assert(nearest < n);
    for (uint32_t k = 0; k <= n; k++)
        if (a->seen[k]) {
            a->row_price[a->row_of[k]] += delta;
            a->column_price[k] -= delta;
        } else if (a->least[k] != INT64_MAX) {
            a->least[k] -= delta;
        }
    return nearest;
}

bool tt_ring_assign_step(struct tt_ring_assign *a)
{
    const uint32_t n = a->n;
    uint32_t at = n;

    if (a->rows == n)
        return true;
    for (uint32_t k = 0; k <= n; k++) {
        a->least[k] = INT64_MAX;
        a->seen[k] = false;
    }
    a->row_of[n] = a->rows++;
    do
        at = grow_tree(a, at);
    while (a->row_of[at] != n);
    while (at != n) {
        a->row_of[at] = a->row_of[a->way[at]];
        at = a->way[at];
    }
    a->row_of[n] = n;
    return a->rows == n;
}

int64_t tt_ring_assign_sum(const struct tt_ring_assign *a)
{
    int64_t sum = 0;

    tt_assert(a->rows == a->n);
    for (uint32_t k = 0; k < a->n; k++)
        sum += a->weight[(size_t)a->row_of[k] * a->n + k];
    return sum;
}
