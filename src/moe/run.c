/* Runs of a layer of experts: the part of the calls that is common to both forms. */
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "moe/layer.h"
#include "reduce/float_env.h"

tutti_status tutti_moe_dispatch(tutti_moe *m, const tutti_moe_routing *routing, int64_t timeout_ms)
{
    struct tt_route_flaw flaw;
    tutti_status st;

    if (m && m->device.alloc)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_moe_dispatch: the layer uses conf.device.alloc: "
                                          "dispatch from its kernels (tutti_moe_begin)");
    st = tt_moe_take(m, routing, &flaw, "tutti_moe_dispatch");
    if (st)
        return st;
    m->state = TT_MOE_RUNS;
    return m->ops->dispatch(m, &flaw, timeout_ms);
}

/* Finds the next arrived tile of a rank. OK: *tile is set. PENDING: no tile has arrived; *over is
 * set if all were taken. */
static tutti_status next_tile_of(tutti_moe *m, uint32_t source, uint32_t *tile, bool *over)
{
    struct tt_moe_source *s = &m->sources[source];
    const uint8_t *states = m->tiles + (size_t)source * m->view.tiles_max;
    tutti_status st = s->ntiles == TT_MOE_UNKNOWN ? m->ops->look(m, source, 0) : TUTTI_OK;

    *over = false;
    if (st)
        return st;
    while (s->low < s->ntiles && states[s->low] != TT_TILE_OUT)
        s->low++;
    *over = s->low == s->ntiles;
    for (*tile = s->low; *tile < s->ntiles; (*tile)++) {
        if (states[*tile] != TT_TILE_OUT)
            continue;
        st = m->ops->look(m, source, *tile);
        if (st != TUTTI_PENDING)
            return st;
    }
    return TUTTI_PENDING;
}

/* Checks all ranks once; with *over, out->rows is 0. */
static tutti_status next_tile(tutti_moe *m, tutti_moe_tile *out, bool *over)
{
    const uint32_t n = m->view.device.nranks;
    uint32_t nover = 0, tile = 0;
    tutti_status st;
    bool ended;

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t source = (m->turn + i) % n;

        st = next_tile_of(m, source, &tile, &ended);
        nover += ended;
        if (st == TUTTI_PENDING)
            continue;
        if (st)
            return st;
        m->turn = (source + 1) % n;     /* round-robin */
        m->tiles[tutti_moe_place(&m->view, source, tile)] = TT_TILE_TAKEN;
        *out = (tutti_moe_tile){ .size = sizeof *out,
                                 .source = source,
                                 .number = tile,
                                 .row_bytes = (uint32_t)m->view.there.bytes };
        m->ops->show(m, out);
        return TUTTI_OK;
    }
    *over = nover == n;
    return TUTTI_PENDING;
}

/* INVALID (logged): the tile is NULL, or has a wrong size. */
static tutti_status fail_tile(const char *call, const char *name, const tutti_moe_tile *tile)
{
    if (!tile)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is NULL", call, name);
    return tt_fail(TUTTI_ERR_INVALID, "%s: %s.size is %zu: must be sizeof(tutti_moe_tile), %zu",
                   call, name, tile->size, sizeof *tile);
}

tutti_status tutti_moe_next(tutti_moe *m, tutti_moe_tile *out, int64_t timeout_ms)
{
    tutti_status st = tt_moe_check(m, TT_MOE_RUNS, "tutti_moe_next");
    uint64_t deadline_ns;
    bool over = false;

    if (!st && (!out || out->size != sizeof *out))
        st = fail_tile("tutti_moe_next", "out", out);
    if (st)
        return st;
    deadline_ns = tt_moe_deadline_ns(m, timeout_ms);
    for (uint32_t turn = 0;; turn++) {
        st = next_tile(m, out, &over);
        if (st == TUTTI_ERR_INVALID)    /* the routing of some rank is invalid */
            return m->ops->refuse(m, timeout_ms);
        if (st != TUTTI_PENDING)
            return tt_moe_set_broken(m, st);
        if (over) {
            *out = (tutti_moe_tile){ .size = sizeof *out };
            return TUTTI_OK;
        }
        if (tt_now_ns() >= deadline_ns)
            return tt_moe_set_broken(
                m, tt_fail(TUTTI_ERR_TIMEOUT,
                           "tutti_moe_next: timed out: no tile arrived in run %u", m->view.run));
        tutti_device_rest(tutti_moe_device(m), turn);
    }
}

/* Checks that the tile was taken and not returned yet. */
static tutti_status check_tile(const tutti_moe *m, const tutti_moe_tile *tile, const char *call)
{
    const tutti_status st = tt_moe_check(m, TT_MOE_RUNS, call);

    if (st)
        return st;
    if (!tile || tile->size != sizeof *tile)
        return fail_tile(call, "tile", tile);
    if (tile->source >= m->view.device.nranks || tile->number >= m->view.tiles_max ||
        m->tiles[tutti_moe_place(&m->view, tile->source, tile->number)] != TT_TILE_TAKEN)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: tile %u of rank %u was not returned by tutti_moe_next, or its results "
                       "were already sent",
                       call, tile->number, tile->source);
    return TUTTI_OK;
}

tutti_status tutti_moe_read(tutti_moe *m, const tutti_moe_tile *tile, float *out)
{
    tutti_status st = check_tile(m, tile, "tutti_moe_read");
    tt_float_env kept;

    if (!st && !out)
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_moe_read: out is NULL");
    kept = tt_float_env_enter();
    for (uint32_t r = 0; !st && r < tile->rows; r++)
        tutti_moe_row_read(&m->view.there, (const uint8_t *)tile->payload + r * m->view.there.bytes,
                           out + (size_t)r * m->view.hidden);
    tt_float_env_leave(kept);
    return st;
}

tutti_status tutti_moe_give(tutti_moe *m, const tutti_moe_tile *tile, const float *results)
{
    tutti_status st = check_tile(m, tile, "tutti_moe_give");
    tutti_moe_tile own;
    tt_float_env kept;

    if (!st && !results)
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_moe_give: results is NULL");
    if (st)
        return st;
    own = *tile;
    m->ops->show(m, &own);              /* ignore changes by the caller */
    kept = tt_float_env_enter();
    for (uint32_t r = 0; r < own.rows; r++)
        tutti_moe_result_write(&m->view, own.source, own.number, r,
                               results + (size_t)r * m->view.hidden);
    tt_float_env_leave(kept);
    m->tiles[tutti_moe_place(&m->view, own.source, own.number)] = TT_TILE_GIVEN;
    return tt_moe_set_broken(m, m->ops->give(m, &own));
}

/* Checks that all tiles of all ranks were returned. */
static tutti_status check_given(const tutti_moe *m)
{
    for (uint32_t r = 0; r < m->view.device.nranks; r++) {
        const struct tt_moe_source *s = &m->sources[r];

        if (s->ntiles == TT_MOE_UNKNOWN)
            return tt_fail(TUTTI_ERR_INVALID,
                           "tutti_moe_combine: not all tiles of rank %u have arrived (call "
                           "tutti_moe_next until no tile remains)",
                           r);
        for (uint32_t t = 0; t < s->ntiles; t++)
            if (m->tiles[tutti_moe_place(&m->view, r, t)] != TT_TILE_GIVEN)
                return tt_fail(TUTTI_ERR_INVALID,
                               "tutti_moe_combine: the results of tile %u of rank %u have not "
                               "been sent (call tutti_moe_give)",
                               t, r);
    }
    return TUTTI_OK;
}

tutti_status tutti_moe_combine(tutti_moe *m, void *out, int64_t timeout_ms)
{
    tutti_status st = tt_moe_check(m, TT_MOE_RUNS, "tutti_moe_combine");
    tt_float_env kept;

    if (!st && !out && m->view.ntokens)
        st = tt_fail(TUTTI_ERR_INVALID,
                     "tutti_moe_combine: out is NULL, but there are results of %u token%s",
                     m->view.ntokens, TT_PLURAL(m->view.ntokens));
    if (!st)
        st = check_given(m);
    if (st)
        return st;
    st = m->ops->collect(m, timeout_ms);
    if (st)
        return tt_moe_set_broken(m, st);
    m->view.out = out;
    kept = tt_float_env_enter();
    for (uint32_t t = 0; t < m->view.ntokens; t++)
        tutti_moe_combine_token(&m->view, t, m->sum);
    tt_float_env_leave(kept);
    m->state = TT_MOE_IDLE;
    return TUTTI_OK;
}
