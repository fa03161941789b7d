/* The form of a layer that puts each tile with a signal. It uses a window, a device, and the
 * calls of tutti/moe_device.h, made by kernels, or by the calling thread for programs without
 * kernels.
 *
 * tutti/moe_device.h explains why nothing is overwritten too soon. A run with an invalid routing
 * also ends only after a word of every rank was received. Before that, all its puts have landed,
 * so that none arrives later. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "moe/layer.h"
#include "reduce/float_env.h"

#define WINDOW_BYTES_MAX (1ull << 36)   /* maximum size accessible by devices */

struct tiles {
    tutti_window *window;
    tutti_device *device;
    void *owned;                /* the window's memory, if allocated by the device */
    uint64_t set_bytes;
    uint64_t words_at, result_words_at, tiles_at, results_at;   /* offsets in a set */
    tutti_moe_send_tile *sends;
    tutti_device_signal_to *signals;
    uint32_t *first_send, *group_first;
    uint32_t ngroups, begun;    /* begun: number of groups with a value in group_first, during
                                   planning */
    uint64_t *complete, *staged;
};

static struct tiles *tiles_own(const tutti_moe *m)
{
    return m->own;
}

/* ---- creation -------------------------------------------------------------------------------- */

static uint64_t pad_to_lines(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Computes the layout of a set. */
static void set_layout(tutti_moe *m, struct tiles *t)
{
    const tutti_moe_view *v = &m->view;
    const uint64_t places = (uint64_t)v->device.nranks * v->tiles_max;

    t->words_at = 0;
    t->result_words_at = t->words_at + pad_to_lines(8 * places);
    t->tiles_at = t->result_words_at + pad_to_lines(8 * places);
    t->results_at = t->tiles_at + pad_to_lines(places * v->tile_bytes);
    t->set_bytes = t->results_at + pad_to_lines(places * v->tile_tokens * v->back.bytes);
}

/* Returns the group of a tile for rank `peer` whose first row belongs to `slot`. */
static uint32_t group_of(const tutti_moe *m, uint32_t peer, uint32_t slot)
{
    return m->group_experts ? slot / m->group_experts : peer;
}

/* Allocates the memory that only this rank writes. */
static tutti_status make_memory(tutti_moe *m, struct tiles *t)
{
    const uint32_t n = m->view.device.nranks, nsends = m->route.nrows_max / m->view.tile_tokens + n;
    tutti_moe_view *v = &m->view;

    t->sends = tt_moe_alloc(m, nsends, sizeof *t->sends, "tiles to send");
    t->signals = tt_moe_alloc(m, nsends, sizeof *t->signals, "signals");
    t->first_send = tt_moe_alloc(m, n + 1, sizeof *t->first_send, "destinations of tiles");
    t->group_first = tt_moe_alloc(m, t->ngroups + 1ull, sizeof *t->group_first, "groups");
    t->complete = tt_moe_alloc(m, t->ngroups, sizeof *t->complete, "counters");
    t->staged = tt_moe_alloc(m, t->ngroups, sizeof *t->staged, "counters");
    v->staging = tt_moe_alloc(m, nsends, v->tile_bytes, "staged tiles");
    if (!t->sends || !t->signals || !t->first_send || !t->group_first || !t->complete ||
        !t->staged || !v->staging)
        return TUTTI_ERR_NOMEM;
    v->sends = t->sends;
    v->signals = t->signals;
    v->first_send = t->first_send;
    v->group_first = t->group_first;
    v->complete = t->complete;
    v->staged = t->staged;
    return TUTTI_OK;
}

/* Allocates the window's memory with the device, if it has an allocator. */
static tutti_status make_window_memory(tutti_moe *m, struct tiles *t)
{
    const uint64_t bytes = 2 * t->set_bytes;

    if (bytes > WINDOW_BYTES_MAX)
        return tt_fail(
            TUTTI_ERR_INVALID,
            "tutti_moe_create: the window of this rank needs %llu bytes: the maximum is %llu",
            (unsigned long long)bytes, WINDOW_BYTES_MAX);
    if (m->device.alloc) {
        t->owned = tt_moe_alloc(m, bytes, 1, "a window");
        if (!t->owned)
            return TUTTI_ERR_NOMEM;
    }
    return TUTTI_OK;
}

static tutti_status tiles_init(tutti_moe *m)
{
    struct tiles *t = calloc(1, sizeof *t);
    uint32_t mine, worst = 0;
    tutti_status st, got;

    if (!t)
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_moe_create: out of memory for a layer");
    m->own = t;
    m->device.groups = t->ngroups = group_of(m, m->view.device.nranks - 1, m->holding.nslots) + 1;
    set_layout(m, t);
    st = make_memory(m, t);
    if (!st)
        st = make_window_memory(m, t);
    mine = (uint32_t)st;
    /* all ranks open the window, or none */
    got = tutti_allreduce(&mine, &worst, 1, TUTTI_U32, TUTTI_MAX, m->comm, NULL);
    if (st || got)
        return st ? st : got;
    if (worst)
        return tt_fail(
            TUTTI_ERR_NOMEM,
            "tutti_moe_create: another rank failed to create its part (see the log of that rank)");
    st = tutti_window_create(m->comm, t->owned, 2 * t->set_bytes, &t->window);
    return st ? st : tutti_device_create(t->window, &m->device, &t->device);
}

static tutti_status tiles_fini(tutti_moe *m)
{
    struct tiles *t = tiles_own(m);
    tutti_status st, freed;

    if (!t)
        return TUTTI_OK;
    st = tutti_device_destroy(t->device);
    freed = tutti_window_free(t->window);
    free(t);
    return st ? st : freed;
}

/* ---- beginning of a run ---------------------------------------------------------------------- */

/* Adds a message to the status of device code: that of the device, if the device has ended. */
static tutti_status with_device_message(const tutti_moe *m, tutti_status st, const char *call)
{
    if (!st || st == TUTTI_PENDING || tutti_device_status(tiles_own(m)->device) == st)
        return st;
    return tt_fail(st, "%s: device code returned %s in run %u", call, tutti_status_name(st),
                   m->view.run);
}

/* Updates the view for this run: its set, and the device's current view, because modes may have
 * changed. */
static tutti_status refresh_view(tutti_moe *m)
{
    const struct tiles *t = tiles_own(m);
    const uint64_t set = m->view.run % 2 * t->set_bytes;
    tutti_moe_view *v = &m->view;
    const tutti_status st = tutti_device_view_of(t->device, &v->device);

    v->words_at = set + t->words_at;
    v->result_words_at = set + t->result_words_at;
    v->tiles_at = set + t->tiles_at;
    v->results_at = set + t->results_at;
    v->results = v->device.mine + v->results_at;
    return st;
}

static uint32_t tiles_for(const tutti_moe *m, uint32_t peer)
{
    const uint32_t rows = m->route.first[peer + 1] - m->route.first[peer],
                   each = m->view.tile_tokens;

    return rows / each + (rows % each != 0);
}

/* Adds tile n to its group. Groups are in order, and some have no tiles. */
static void add_to_group(struct tiles *t, uint32_t group, uint32_t n)
{
    while (t->begun <= group)
        t->group_first[t->begun++] = n;
    t->complete[group]++;
}

/* Plans the tiles for a rank, beginning with index n. Returns their number. */
static uint32_t plan_peer(tutti_moe *m, uint32_t peer, uint32_t n)
{
    struct tiles *t = tiles_own(m);
    const tutti_moe_view *v = &m->view;
    const uint32_t first = m->route.first[peer], end = m->route.first[peer + 1],
                   ntiles = tiles_for(m, peer);
    const uint32_t nsends = ntiles ? ntiles : 1;
    /* row slot_end belongs to `slot` or a later slot */
    uint32_t slot = m->holding.first[peer], slot_end = first;

    for (uint32_t i = 0; i < nsends; i++) {
        const uint32_t at = first + i * v->tile_tokens, left = end - at;

        while (left > 0 && slot_end + m->route.counts[slot] <= at)
            slot_end += m->route.counts[slot++];
        t->sends[n + i] = (tutti_moe_send_tile){
            .peer = peer,
            .number = i,
            .first = at,
            .rows = left < v->tile_tokens ? left : v->tile_tokens,
            .group = group_of(m, peer, slot),
        };
        add_to_group(t, t->sends[n + i].group, n + i);
        t->signals[n + i] = (tutti_device_signal_to){
            .peer = peer,
            .op = TUTTI_SIGNAL_SET,
            .offset = v->words_at + 8 * tutti_moe_place(v, v->device.rank, i),
            .value = (uint64_t)v->run << 32 | ntiles,
        };
    }
    t->first_send[peer + 1] = n + nsends;
    return nsends;
}

static void tiles_plan(tutti_moe *m)
{
    struct tiles *t = tiles_own(m);

    m->view.nsends = 0;
    t->begun = 0;
    memset(t->staged, 0, t->ngroups * sizeof *t->staged);
    for (uint32_t peer = 0; peer < m->view.device.nranks; peer++)
        m->view.nsends += plan_peer(m, peer, m->view.nsends);
    while (t->begun <= t->ngroups)
        t->group_first[t->begun++] = m->view.nsends;
}

/* ---- a run with an invalid routing ----------------------------------------------------------- */

/* Sends the error to all ranks, in place of the first tile. */
static tutti_status send_flaw(tutti_moe *m, const struct tt_route_flaw *flaw)
{
    const tutti_moe_view *v = &m->view;
    const tutti_moe_head head = {
        .flaw = flaw->kind, .token = flaw->token, .choice = flaw->choice, .value = flaw->value,
    };
    const uint64_t at = tutti_moe_place(v, v->device.rank, 0);
    const tutti_rma rma = {
        .size = sizeof rma,
        .signal_op = TUTTI_SIGNAL_SET,
        .signal_value = (uint64_t)v->run << 32 | 1,
        .signal_offset = v->words_at + 8 * at,
    };
    tutti_status st = TUTTI_OK;

    for (uint32_t r = 0; r < v->device.nranks && !st; r++)
        st = tutti_window_put(tiles_own(m)->window, (int)r, v->tiles_at + at * v->tile_bytes, &head,
                              sizeof head, &rma);
    return st;
}

/* Returns whether the word of that rank's first tile is set. The host reads it, even if the blocks
 * run on a GPU. */
static bool is_begun(const tutti_moe *m, uint32_t source)
{
    const uint64_t *word =
        (const uint64_t *)(const void *)(m->view.device.mine + m->view.words_at +
                                         8 * tutti_moe_place(&m->view, source, 0));

    return __atomic_load_n(word, __ATOMIC_ACQUIRE) >> 32 >= m->view.run;
}

/* Waits until all ranks have begun the run. */
static tutti_status await_all(tutti_moe *m, int64_t timeout_ms)
{
    const uint64_t deadline_ns = tt_moe_deadline_ns(m, timeout_ms);

    for (uint32_t r = 0, turn = 0; r < m->view.device.nranks; turn++) {
        tutti_status st;

        if (is_begun(m, r)) {
            r++;
            turn = 0;
            continue;
        }
        st = tutti_device_status(tiles_own(m)->device);
        if (st)
            return st;
        if (tt_now_ns() >= deadline_ns)
            return tt_fail(TUTTI_ERR_TIMEOUT, "timed out: rank %u has not begun run %u", r,
                           m->view.run);
        tutti_device_rest(tiles_own(m)->device, turn);
    }
    return TUTTI_OK;
}

/* Returns the error of the first rank with an invalid routing; OK: none. */
static tutti_status find_flaw(const tutti_moe *m, const char *call)
{
    for (uint32_t r = 0; r < m->view.device.nranks; r++) {
        const tutti_moe_head *h =
            (const tutti_moe_head *)(const void *)tutti_moe_tile_at(&m->view, r, 0);
        const uint64_t *word =
            (const uint64_t *)(const void *)(m->view.device.mine + m->view.words_at +
                                             8 * tutti_moe_place(&m->view, r, 0));
        const struct tt_route_flaw f = { h->flaw, h->token, h->choice, h->value };

        if ((uint32_t)__atomic_load_n(word, __ATOMIC_ACQUIRE) != 0 && f.kind)
            return tt_route_flaw_status(&f, m->view.experts, m->max_tokens, r, call);
    }
    return TUTTI_OK;
}

/* Ends the run after all ranks have begun it, and all puts of this rank have landed. */
static tutti_status end_flawed(tutti_moe *m, const char *call, int64_t timeout_ms)
{
    tutti_status st = await_all(m, timeout_ms);

    if (!st)
        st = tutti_window_quiet(tiles_own(m)->window, TUTTI_ALL_RANKS, timeout_ms);
    if (st)
        return tt_moe_set_broken(m, st);
    m->state = TT_MOE_IDLE;
    st = find_flaw(m, call);
    return st ? st
              : tt_moe_set_broken(
                    m,
                    tt_fail(
                        TUTTI_ERR_PROTOCOL,
                        "%s: protocol error: run %u failed, but no rank reports an invalid routing",
                        call, m->view.run));
}

static tutti_status tiles_refuse(tutti_moe *m, int64_t timeout_ms)
{
    const tutti_status st = with_device_message(
        m, tutti_device_quiet(&m->view.device, TUTTI_DEVICE_ALL), "tutti_moe_next");

    return st ? tt_moe_set_broken(m, st) : end_flawed(m, "tutti_moe_next", timeout_ms);
}

/* ---- a run by the calling thread ------------------------------------------------------------- */

static tutti_status tiles_dispatch(tutti_moe *m, const struct tt_route_flaw *flaw,
                                   int64_t timeout_ms)
{
    const tutti_moe_view *v = &m->view;
    tutti_status st = refresh_view(m);
    tt_float_env kept;

    if (!st && flaw->kind) {
        st = send_flaw(m, flaw);
        return st ? tt_moe_set_broken(m, st) : end_flawed(m, "tutti_moe_dispatch", timeout_ms);
    }
    if (st)
        return tt_moe_set_broken(m, st);
    tiles_plan(m);
    kept = tt_float_env_enter();
    for (uint32_t i = 0; i < v->nsends && !st; i++)     /* other ranks first */
        st = tutti_moe_send(v, (v->first_send[v->device.rank + 1] + i) % v->nsends);
    tt_float_env_leave(kept);
    return tt_moe_set_broken(m, with_device_message(m, st, "tutti_moe_dispatch"));
}

static tutti_status tiles_look(tutti_moe *m, uint32_t source, uint32_t tile)
{
    struct tt_moe_source *s = &m->sources[source];
    uint32_t ntiles = 0;
    tutti_status st = tutti_moe_poll(&m->view, source, tile, &ntiles);

    if (st)
        return with_device_message(m, st, "tutti_moe_next");
    st = ntiles || tile
             ? tutti_moe_check(&m->view, tutti_moe_tile_at(&m->view, source, tile), ntiles)
             : TUTTI_OK;
    if (st == TUTTI_ERR_PROTOCOL)
        return tt_fail(st, "tutti_moe_next: protocol error: rank %u sent an invalid tile %u",
                       source, tile);
    if (!st && s->ntiles == TT_MOE_UNKNOWN)
        s->ntiles = ntiles;
    return st;
}

static void tiles_show(const tutti_moe *m, tutti_moe_tile *tile)
{
    const uint8_t *at = tutti_moe_tile_at(&m->view, tile->source, tile->number);
    const uint32_t rows = ((const tutti_moe_head *)(const void *)at)->rows;

    tile->rows = rows < m->view.tile_tokens ? rows : m->view.tile_tokens;
    tile->experts = tutti_moe_tile_experts(at);
    tile->payload = tutti_moe_row_at(&m->view, at, 0);
}

static tutti_status tiles_give(tutti_moe *m, const tutti_moe_tile *tile)
{
    return with_device_message(
        m, tutti_moe_give_back(&m->view, tile->source, tile->number, tile->rows), "tutti_moe_give");
}

static tutti_status tiles_collect(tutti_moe *m, int64_t timeout_ms)
{
    const uint64_t deadline_ns = tt_moe_deadline_ns(m, timeout_ms);
    const tutti_moe_view *v = &m->view;

    for (uint32_t i = 0, turn = 0; i < v->nsends; turn++) {
        const tutti_moe_send_tile *s = &v->sends[i];
        const tutti_status st = s->rows ? tutti_moe_poll_result(v, s->peer, s->number) : TUTTI_OK;

        if (!st) {
            i++;
            turn = 0;
            continue;
        }
        if (st != TUTTI_PENDING)
            return with_device_message(m, st, "tutti_moe_combine");
        if (tt_now_ns() >= deadline_ns)
            return tt_fail(TUTTI_ERR_TIMEOUT,
                           "tutti_moe_combine: timed out: rank %u has not sent the results of "
                           "tile %u",
                           s->peer, s->number);
        tutti_device_rest(tiles_own(m)->device, turn);
    }
    return with_device_message(m, tutti_device_flush(&v->device, TUTTI_DEVICE_ALL),
                               "tutti_moe_combine");
}

const struct tt_moe_ops tt_moe_tiles = {
    .init = tiles_init,
    .fini = tiles_fini,
    .dispatch = tiles_dispatch,
    .look = tiles_look,
    .show = tiles_show,
    .give = tiles_give,
    .refuse = tiles_refuse,
    .collect = tiles_collect,
};

/* ---- a run by a kernel ----------------------------------------------------------------------- */

tutti_device *tutti_moe_device(tutti_moe *m)
{
    return m && m->ops == &tt_moe_tiles ? tiles_own(m)->device : NULL;
}

tutti_status tutti_moe_refuse(const tutti_moe_view *view, const uint8_t *tile, uint32_t ntiles,
                              tutti_status status)
{
    const uint64_t at = (uint64_t)(tile - (view->device.mine + view->tiles_at));
    const uint32_t source = (uint32_t)(at / ((uint64_t)view->tiles_max * view->tile_bytes));
    const tutti_moe_head *head = (const tutti_moe_head *)(const void *)tile;
    char why[TT_ERROR_BYTES];

    if (status == TUTTI_ERR_INVALID) {  /* the end of the run logs the error with its token */
        snprintf(why, sizeof why, "tutti_moe_check: the routing of rank %u is invalid", source);
        return tt_fail_again(status, why);
    }
    return tt_fail(
        status,
        "tutti_moe_check: invalid tile from rank %u (%u tiles, maximum %u; %u rows, maximum %u)",
        source, ntiles, view->tiles_max, head->rows, view->tile_tokens);
}

tutti_status tutti_moe_begin(tutti_moe *m, const tutti_moe_routing *routing, void *out,
                             tutti_moe_view *view, int64_t timeout_ms)
{
    struct tt_route_flaw flaw;
    tutti_status st;

    if (!tutti_moe_device(m) || !view)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_moe_begin: %s",
                       view ? "only layers of form TUTTI_MOE_TILES have a "
                              "device"
                            : "view is NULL");
    st = tt_moe_take(m, routing, &flaw, "tutti_moe_begin");
    if (st)
        return st;
    m->state = TT_MOE_KERNEL;
    st = refresh_view(m);
    if (!st && flaw.kind) {
        st = send_flaw(m, &flaw);
        return st ? tt_moe_set_broken(m, st) : end_flawed(m, "tutti_moe_begin", timeout_ms);
    }
    if (st)
        return tt_moe_set_broken(m, st);
    tiles_plan(m);
    m->view.out = out;
    *view = m->view;
    return TUTTI_OK;
}

tutti_status tutti_moe_end(tutti_moe *m, tutti_status kernel, int64_t timeout_ms)
{
    if (!tutti_moe_device(m) || m->state != TT_MOE_KERNEL)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_moe_end: no run has begun");
    if (m->broken)
        return tt_fail(m->broken, "tutti_moe_end: run %u of this layer has failed", m->view.run);
    if (kernel == TUTTI_ERR_INVALID)
        return end_flawed(m, "tutti_moe_end", timeout_ms);
    if (kernel)
        return tt_moe_set_broken(m, with_device_message(m, kernel, "tutti_moe_end"));
    for (uint32_t r = 0; r < m->view.device.nranks; r++)
        if (!is_begun(m, r))
            return tt_moe_set_broken(
                m, tt_fail(TUTTI_ERR_INVALID, "tutti_moe_end: the kernel did not wait for rank %u",
                           r));
    m->state = TT_MOE_IDLE;
    return TUTTI_OK;
}
