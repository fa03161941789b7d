#include "coordinator/ring_svg.h"

#include <inttypes.h>
#include <stdlib.h>
#include "ringorder/ring_svg.h"

struct canvas {
    uint64_t *rate;                     /* [n][n] */
    uint64_t *cap;                      /* [n] unlimited, so that the links' own rates are drawn */
    char (*name)[TT_RING_NAME_BYTES];   /* [n] */
};

static void fill_picture(struct canvas *v, const struct tt_snapshot_links *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        v->cap[i] = TT_RING_RATE_MAX;
        snprintf(v->name[i], sizeof v->name[i], "#%" PRIu64, l->ids[i]);
        for (uint32_t k = 0; k < l->n; k++) {
            const double rate = l->bytes_per_s[(size_t)i * l->n + k];

            v->rate[(size_t)i * l->n + k] =
                rate > 0 ? rate < (double)TT_RING_RATE_MAX ? (uint64_t)rate : TT_RING_RATE_MAX : 0;
        }
    }
}

bool tt_ring_svg_ring(const struct tt_snapshot_links *l, FILE *to)
{
    struct canvas v;
    struct tt_ring_matrix m;
    bool ok;

    if (l->n == 0)
        return false;
    v = (struct canvas){ .rate = calloc((size_t)l->n * l->n, sizeof *v.rate),
                         .cap = calloc(l->n, sizeof *v.cap),
                         .name = calloc(l->n, sizeof *v.name) };
    ok = v.rate && v.cap && v.name;
    if (ok) {
        fill_picture(&v, l);
        m = (struct tt_ring_matrix){ .n = l->n, .rate = v.rate, .up = v.cap, .down = v.cap };
        tt_ring_svg_draw(&(struct tt_ring_picture){ &m, v.name, l->order }, to);
    }
    free(v.rate);
    free(v.cap);
    free(v.name);
    return ok;
}
