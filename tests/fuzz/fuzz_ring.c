/* Arbitrary matrices. Accepted ones are valid, and an order with each peer once is found in few
 * steps. */
#include <stddef.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/status.h"
#include "ringorder/ring_file.h"
#include "ringorder/ring_order.h"
#include "ringorder/ring_predict.h"

#define PEERS_MAX 24u       /* maximum to be ordered: larger matrices take too long */

static void order(const struct tt_ring_matrix *m)
{
    const struct tt_ring_load load = { 1000000, 1000 };
    void *memory = malloc(tt_ring_order_bytes(m->n));
    struct tt_ring_order *o;
    struct tt_ring_ordered found;
    uint32_t list[PEERS_MAX], seen = 0;

    tt_assert(memory);
    o = tt_ring_order_init(memory, m, &load, NULL, 1);
    tt_ring_order_step(o, 300);
    found = tt_ring_order_found(o, list);
    for (uint32_t k = 0; found.any && k < m->n; k++)
        seen |= 1u << list[k];
    if (found.any) {
        tt_assert(seen == (1u << m->n) - 1 &&
                  found.predicted_ns == tt_ring_predict(m, &load, list));
        tt_assert(found.bound_ns <= found.predicted_ns);
        tt_ring_predict_trees(m, &load, list);
    }
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tt_ring_file f;

    tt_log_set(TT_LOG_NONE);
    if (tt_ring_file_parse(&f, (const char *)data, bytes, "fuzz") != TUTTI_OK)
        return 0;
    tt_assert(tt_ring_matrix_check(&f.m) == TUTTI_OK);
    for (uint32_t k = 0; k < f.m.n; k++)
        tt_assert(f.name[k][0] != '\0' && f.name[k][TT_RING_NAME_BYTES - 1] == '\0');
    if (f.m.n <= PEERS_MAX)
        order(&f.m);
    tt_ring_file_fini(&f);
    return 0;
}
