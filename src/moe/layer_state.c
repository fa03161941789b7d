/* Memory, failure and routing of a layer of experts, for both forms. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "moe/layer.h"

void *tt_moe_alloc(tutti_moe *m, uint64_t n, uint64_t bytes, const char *what)
{
    void *mem = NULL;

    tt_assert(m->npieces < sizeof m->pieces / sizeof *m->pieces);
    if (n == 0 || bytes == 0)
        n = bytes = 1;
    if (n <= SIZE_MAX / 2 / bytes)
        mem = m->device.alloc ? m->device.alloc(n * bytes, TUTTI_DEVICE_SHARED, m->device.arg)
                              : calloc(n, bytes);
    if (!mem) {
        tt_fail(TUTTI_ERR_NOMEM, "tutti_moe_create: out of memory for %s: %llu times %llu bytes",
                what, (unsigned long long)n, (unsigned long long)bytes);
        return NULL;
    }
    m->pieces[m->npieces++] = mem;
    return mem;
}

tutti_status tt_moe_set_broken(tutti_moe *m, tutti_status st)
{
    if (st)
        m->broken = st;
    return st;
}

uint64_t tt_moe_deadline_ns(const tutti_moe *m, int64_t timeout_ms)
{
    return tt_deadline_ns(tt_now_ns(), timeout_ms ? timeout_ms : m->comm->timeout_ms);
}

tutti_status tt_moe_check(const tutti_moe *m, enum tt_moe_state state, const char *call)
{
    static const char *const whys[] = {
        [TT_MOE_IDLE] = "the last run has not ended",
        [TT_MOE_RUNS] = "no run has been dispatched",
        [TT_MOE_KERNEL] = "no run has begun",
    };

    if (!m)
        return tt_fail(TUTTI_ERR_INVALID, "%s: moe is NULL", call);
    if (m->broken)
        return tt_fail(m->broken, "%s: run %u of this layer has failed", call, m->view.run);
    return m->state == state ? TUTTI_OK : tt_fail(TUTTI_ERR_INVALID, "%s: %s", call, whys[state]);
}

tutti_status tt_moe_take(tutti_moe *m, const tutti_moe_routing *given, struct tt_route_flaw *flaw,
                         const char *call)
{
    tutti_moe_routing mine = { .size = sizeof mine };
    tutti_moe_view *v = m ? &m->view : NULL;
    tutti_status st = tt_moe_check(m, TT_MOE_IDLE, call);

    if (!st && !given)
        st = tt_fail(TUTTI_ERR_INVALID, "%s: routing is NULL", call);
    if (!st)
        st = tt_options_take(&mine, sizeof mine, sizeof mine, given, call, "routing",
                             "tutti_moe_routing");
    if (st)
        return st;
    *flaw = tt_route_check(&mine, v->experts, v->top_k, m->max_tokens);
    if (flaw->kind)
        mine.ntokens = 0;
    v->run++;
    v->ntokens = (uint32_t)mine.ntokens;
    v->tokens = mine.tokens;
    if (v->ntokens)
        memcpy(m->weights, mine.weights, (size_t)v->ntokens * v->top_k * sizeof *m->weights);
    tt_route_make(&m->route, &m->holding, &mine, v->top_k, v->device.rank, m->stride, m->rows,
                  m->row_experts, m->places);
    for (uint32_t r = 0; r < v->device.nranks; r++)
        m->sources[r] = (struct tt_moe_source){ .ntiles = TT_MOE_UNKNOWN };
    memset(m->tiles, TT_TILE_OUT, (size_t)v->device.nranks * v->tiles_max);
    return TUTTI_OK;
}
