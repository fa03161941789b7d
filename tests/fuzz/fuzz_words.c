/* Messages of other ranks at the level of communicators: their places, their cards, and words over
 * the control overlay. The first byte selects {place}, {u8, card} or many {origin u8, bytes u8,
 * word}. Accepted places are read again as they were written. Accepted cards are within the range
 * of settings. A word for an existing context ends it with an error, and no other one. */
#include "comm/control.h"
#include "comm/offer.h"
#include "comm/rank_place.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/param.h"
#include "boot/endpoint.h"
#include "boot/overlay.h"
#include "engine/progress.h"

#define NRANKS 5u

/* One of five ranks, whose overlay has no links. */
static struct tt_world *make_world(void)
{
    static const uint8_t secret[16];
    struct tt_world *w = calloc(1, sizeof *w);
    const struct tt_engine_conf conf = {
        .rank = 2, .nranks = NRANKS, .wires = "tcp", .interfaces = "=lo"
    };
    struct tt_overlay_conf alone = { .nranks = 1, .secret = secret, .near = -1 };
    struct tt_endpoint own;
    uint16_t port = 0;

    tt_assert(w);
    pthread_mutex_init(&w->overlay_lock, NULL);
    pthread_mutex_init(&w->probe_lock, NULL);
    pthread_mutex_init(&w->cards_lock, NULL);
    tt_assert(tt_record_store_init(&w->records, NRANKS) == TUTTI_OK);
    tt_blame_search_init(&w->probe, calloc(NRANKS, sizeof(struct tt_blame_search_rank)), NRANKS);
    w->rank = conf.rank;
    w->nranks = NRANKS;
    w->places = calloc(NRANKS, sizeof *w->places);
    w->shares = calloc(NRANKS / 8 + 1, 1);
    tt_assert(w->places && w->shares);
    tt_assert(tt_engine_create(&w->engine, &conf) == TUTTI_OK);
    alone.listener = tt_listen(NULL, 0, &port);
    tt_assert(alone.listener >= 0 && tt_endpoint_init(&own, port, "=lo") == TUTTI_OK);
    alone.own = &own;
    tt_assert(tt_overlay_open(&w->overlay, &alone) == TUTTI_OK);
    return w;
}

static void check_sizes(const struct tt_sizes *s, enum tt_param_id segment, enum tt_param_id eager)
{
    tt_assert((int64_t)s->segment_bytes >= tt_params[segment].value_min &&
              (int64_t)s->segment_bytes <= tt_params[segment].value_max);
    tt_assert((int64_t)s->eager_bytes >= tt_params[eager].value_min &&
              (int64_t)s->eager_bytes <= tt_params[eager].value_max);
}

/* Adds cards in the order of ranks; after the last rank, the next card begins a new store. */
static void read_one_card(struct tt_world *w, const uint8_t *data, size_t bytes)
{
    static const uint32_t all[] = { 0, 1, 2, 3, 4 };
    static const uint8_t secret[16];
    const struct tt_layout *l = &w->layout;
    uint32_t rank;

    if (w->records.n == NRANKS) {
        tt_record_store_fini(&w->records);
        tt_assert(tt_record_store_init(&w->records, NRANKS) == TUTTI_OK);
    }
    rank = w->records.n;
    if (tt_world_add_offer(w, rank, data + 1,
                           bytes - 1 < TT_CARD_BYTES ? bytes - 1 : TT_CARD_BYTES) != TUTTI_OK)
        return;
    tt_layout_fini(&w->layout);
    tt_assert(tt_world_complete(w, secret) == TUTTI_OK);
    if (rank == 0) {
        check_sizes(&w->shm_sizes, TT_PARAM_SEGMENT_BYTES, TT_PARAM_EAGER_BYTES);
        check_sizes(&w->tcp_sizes, TT_PARAM_TCP_SEGMENT_BYTES, TT_PARAM_TCP_EAGER_BYTES);
    }
    tt_assert(tt_engine_wire_of(w->engine, rank));
    (void)tt_world_all_local(w, all, NRANKS);
    tt_assert(w->places[rank].nrails <= TT_RAILS_MAX);
    for (uint32_t r = 0; r < NRANKS; r++) {
        tt_assert(tt_layout_host(l, r) < l->nhosts && tt_layout_rail(l, r) < TT_RAILS_MAX &&
                  l->nrails >= 1);
        tt_assert(tt_layout_rank(l, tt_layout_host(l, r), tt_layout_local(l, r)) == r);
    }
}

static void receive_words(struct tt_world *w, const uint8_t *data, size_t bytes)
{
    static const uint32_t all[] = { 0, 1, 2, 3, 4 };
    struct tt_context *c;
    struct tt_reader r;
    tutti_status st;
    char why[TT_ERROR_BYTES];

    tt_assert(tt_context_open(w->engine, 7, all, NRANKS, w->rank, &c) == TUTTI_OK);
    tt_reader_init(&r, data, bytes);
    while (r.at < r.end) {
        struct tt_overlay_event ev = { .kind = TT_OVERLAY_FRAME };
        struct tt_waiting of = { .context = 7 };
        struct tt_blamed guilty = { 0 };
        const size_t left = (size_t)(r.end - r.at) < 2 ? 0 : (size_t)(r.end - r.at) - 2;

        ev.origin = tt_read_u8(&r) % NRANKS;
        ev.bytes = tt_read_u8(&r);
        if (ev.bytes > left)
            ev.bytes = (uint16_t)left;
        tt_read_bytes(&r, ev.data, ev.bytes);
        tt_control_handle(w, &ev);
        of.rank = ev.origin;
        of.op = ev.data[0];
        tt_assert(tt_control_find_silent(w, &of, tt_now_ns(), &guilty) != TT_BLAME_RANK ||
                  guilty.silent < NRANKS);
    }
    tt_progress_lock(w->engine);
    tt_engine_progress(w->engine);
    tt_progress_unlock(w->engine);
    st = tt_context_status(c, why, sizeof why);
    tt_assert((st == TUTTI_OK || st > TUTTI_PENDING) && st < TUTTI_STATUS_COUNT &&
              strlen(why) < sizeof why);
    tt_context_close(c);
}

static void read_one_place(const uint8_t *data, size_t bytes)
{
    uint8_t written[TT_BOOT_PLACE_BYTES], again[TT_BOOT_PLACE_BYTES];
    struct tt_rank_place place, same;
    size_t n;

    if (bytes > TT_BOOT_PLACE_BYTES || !tt_rank_place_read(&place, data, bytes))
        return;
    n = tt_rank_place_write(&place, written);
    tt_assert(tt_rank_place_read(&same, written, n));
    tt_assert(tt_rank_place_write(&same, again) == n && memcmp(again, written, n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct tt_world *w;

    if (bytes < 2)
        return 0;
    if (!w) {
        tt_log_set(TT_LOG_NONE);
        w = make_world();
    }
    if (data[0] & 2)
        read_one_place(data + 1, bytes - 1);
    else if (data[0] & 1)
        read_one_card(w, data + 1, bytes - 1);
    else
        receive_words(w, data + 1, bytes - 1);
    return 0;
}
