/* Arbitrary descriptions of machines, and labels. Accepted ones have bounded shapes, and every
 * query of them has a result. The first byte selects a description or labels. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "topo/labels.h"
#include "topo/topo.h"

static void check(const struct tt_topo *t)
{
    const uint32_t n = tt_topo_nranks(t);
    struct tt_layout l;
    char label[TT_TOPO_LABEL_BYTES];

    tt_assert(n >= 1 && n <= TT_TOPO_RANKS_MAX && t->nrails >= 1 && t->nrules <= TT_TOPO_HOSTS_MAX);
    tt_assert(t->has_shape || n == 1);
    tt_topo_is_complete(t, n);
    for (int d = TT_NEAR_ZONE; d <= TT_NEAR_WAN; d++)
        tt_assert(tt_topo_uplink(t, (enum tt_distance)d) >= 0);
    for (uint32_t i = 0; i < t->nrules; i++)
        for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
            tt_topo_label(t, t->rules[i].host, (enum tt_distance)d, label);
    if (tt_topo_layout(t, n, &l) != TUTTI_OK)
        return;
    tt_assert(tt_layout_distance(&l, 0, n - 1) < TT_NEAR_WAN);
    tt_assert(tt_layout_host(&l, n - 1) == l.nhosts - 1 && tt_layout_rail(&l, n - 1) < l.nrails);
}

static void label(const uint8_t *data, size_t bytes)
{
    struct tt_labels labels = { 0 };
    char *text = calloc(1, bytes + 1);
    size_t bad_at = 0;

    tt_assert(text);
    memcpy(text, data, bytes);
    if (!tt_labels_parse(&labels, text, &bad_at))
        tt_assert(bad_at <= strlen(text));
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tt_topo t;

    if (bytes < 1)
        return 0;
    tt_log_set(TT_LOG_NONE);
    if (data[0] == '=') {
        label(data + 1, bytes - 1);
    } else if (tt_topo_parse(&t, (const char *)data, bytes, "fuzz") == TUTTI_OK) {
        check(&t);
        tt_topo_fini(&t);
    }
    return 0;
}
