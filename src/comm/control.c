#include "comm/control.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "boot/loss_cause.h"
#include "comm/roll_call.h"
#include "comm/world_status.h"

void tt_control_flood(struct tt_world *w, const void *frame, size_t bytes)
{
    if (!w->overlay)
        return;
    pthread_mutex_lock(&w->overlay_lock);
    tt_overlay_flood(w->overlay, frame, (uint16_t)bytes);
    pthread_mutex_unlock(&w->overlay_lock);
}

void tt_control_notify_failure(void *arg, uint32_t id, tutti_status st, const char *sentence)
{
    uint8_t frame[TT_OVERLAY_BYTES];
    char cut[TT_OVERLAY_BYTES - 32];
    struct tt_writer wr;

    snprintf(cut, sizeof cut, "%s", sentence);
    tt_writer_init(&wr, frame, sizeof frame);
    tt_write_u8(&wr, TT_FRAME_FAILED);
    tt_write_u32(&wr, id);
    tt_write_u32(&wr, (uint32_t)st);
    tt_write_string(&wr, cut);
    tt_control_flood(arg, frame, tt_writer_bytes(&wr));
}

/* ---- probes ---- */

#define QUERY_BYTES 25
#define RESPONSE_BYTES (26 + 17 * TT_WAITINGS)

/* now_ns serves as the ID of the query, which the response repeats. */
static void write_query(uint8_t frame[QUERY_BYTES], const struct tt_waiting *about, uint64_t now_ns)
{
    struct tt_writer wr;

    tt_writer_init(&wr, frame, QUERY_BYTES);
    tt_write_u8(&wr, TT_FRAME_QUERY);
    tt_write_u32(&wr, about->rank);
    tt_write_u32(&wr, about->context);
    tt_write_u64(&wr, about->op);
    tt_write_u64(&wr, now_ns);
}

static size_t write_response(uint8_t frame[RESPONSE_BYTES], uint32_t to,
                             const struct tt_waiting *about, uint64_t number,
                             const struct tt_waiting *waits, uint32_t n)
{
    struct tt_writer wr;

    tt_writer_init(&wr, frame, RESPONSE_BYTES);
    tt_write_u8(&wr, TT_FRAME_RESPONSE);
    tt_write_u32(&wr, to);
    tt_write_u32(&wr, about->context);
    tt_write_u64(&wr, about->op);
    tt_write_u64(&wr, number);
    tt_write_u8(&wr, (uint8_t)n);
    for (uint32_t i = 0; i < n; i++) {
        tt_write_u32(&wr, waits[i].context);
        tt_write_u64(&wr, waits[i].op);
        tt_write_u32(&wr, waits[i].rank);
        tt_write_u8(&wr, waits[i].ended);
    }
    return tt_writer_bytes(&wr);
}

void tt_control_query(void *arg, const struct tt_waiting *about)
{
    struct tt_world *w = arg;
    const uint64_t now_ns = tt_now_ns();
    uint8_t frame[QUERY_BYTES];
    bool ask;

    pthread_mutex_lock(&w->probe_lock);
    ask = tt_blame_search_should_query(&w->probe, about->rank, now_ns);
    pthread_mutex_unlock(&w->probe_lock);
    write_query(frame, about, now_ns);
    if (ask)
        tt_control_flood(w, frame, sizeof frame);
    tt_roll_call_query(w);
}

enum tt_blame tt_control_find_silent(void *arg, const struct tt_waiting *of, uint64_t since_ns,
                                     struct tt_blamed *out)
{
    struct tt_world *w = arg;
    uint8_t frame[QUERY_BYTES];
    struct tt_waiting ask;
    enum tt_blame blame;
    uint64_t now_ns;

    do {
        now_ns = tt_now_ns();
        pthread_mutex_lock(&w->probe_lock);
        blame = tt_blame_search_blame(&w->probe, of, since_ns, now_ns, out, &ask);
        pthread_mutex_unlock(&w->probe_lock);
        write_query(frame, &ask, now_ns);
        if (ask.rank != UINT32_MAX)
            tt_control_flood(w, frame, sizeof frame);
    } while (ask.rank != UINT32_MAX && blame != TT_BLAME_RANK);
    return blame;
}

/* Responds to a query at once, in the progress thread, also while the application computes. The
 * caller holds the overlay's lock. */
static void handle_query(struct tt_world *w, uint32_t from, struct tt_reader *r)
{
    struct tt_waiting about = { .context = tt_read_u32(r), .rank = w->rank }, waits[TT_WAITINGS];
    uint8_t frame[RESPONSE_BYTES];
    uint64_t number;
    uint32_t n;

    about.op = tt_read_u64(r);
    number = tt_read_u64(r);
    if (r->bad)
        return;
    n = tt_engine_list_waits(w->engine, about.context, about.op, waits);
    tt_overlay_flood(w->overlay, frame,
                     (uint16_t)write_response(frame, from, &about, number, waits, n));
}

/* Handles a response. An entry that waits for this rank is cleared, since this rank responds. */
static void handle_response(struct tt_world *w, uint32_t from, struct tt_reader *r)
{
    struct tt_waiting about = { .context = tt_read_u32(r), .rank = from }, waits[TT_WAITINGS],
                      ask[TT_WAITINGS];
    const uint64_t now_ns = tt_now_ns();
    uint8_t frame[QUERY_BYTES];
    uint64_t number;
    uint32_t n, nask;

    about.op = tt_read_u64(r);
    number = tt_read_u64(r);
    n = tt_read_u8(r);
    if (n > TT_WAITINGS)
        r->bad = true;
    for (uint32_t i = 0; i < n && !r->bad; i++) {
        waits[i].context = tt_read_u32(r);
        waits[i].op = tt_read_u64(r);
        waits[i].rank = tt_read_u32(r);
        waits[i].ended = tt_read_u8(r) != 0;
        if (waits[i].rank == w->rank)
            waits[i].rank = UINT32_MAX;
    }
    if (r->bad)
        return;
    pthread_mutex_lock(&w->probe_lock);
    nask = tt_blame_search_answer(&w->probe, from, &about, waits, n, number, now_ns, ask);
    pthread_mutex_unlock(&w->probe_lock);
    for (uint32_t i = 0; i < nask; i++) {
        write_query(frame, &ask[i], now_ns);
        tt_overlay_flood(w->overlay, frame, sizeof frame);
    }
}

/* Handles another rank's report of a failed context. */
static void world_handle_failure(struct tt_world *w, uint32_t from, uint32_t id,
                                 struct tt_reader *r)
{
    char sentence[TT_OVERLAY_BYTES] = "";
    const uint32_t status = tt_read_u32(r);

    tt_read_string(r, sentence, sizeof sentence);
    if (status <= TUTTI_PENDING || status >= TUTTI_STATUS_COUNT)
        r->bad = true;
    if (r->bad)
        return;
    pthread_mutex_lock(&w->probe_lock);
    tt_blame_search_failed(&w->probe, from);
    pthread_mutex_unlock(&w->probe_lock);
    tt_engine_fail_context(w->engine, from, id, (tutti_status)status, sentence);
}

/* Handles a frame; the caller holds the overlay's lock. */
void tt_control_handle(struct tt_world *w, const struct tt_overlay_event *ev)
{
    struct tt_reader r;
    uint8_t kind;
    uint32_t to;

    tt_reader_init(&r, ev->data, ev->bytes);
    kind = tt_read_u8(&r);
    to = tt_read_u32(&r);
    if (r.bad)
        kind = 0;
    if (kind == TT_FRAME_FAILED)
        world_handle_failure(w, ev->origin, to, &r);
    else if (kind == TT_FRAME_QUERY && to == w->rank)
        handle_query(w, ev->origin, &r);
    else if (kind == TT_FRAME_RESPONSE && to == w->rank)
        handle_response(w, ev->origin, &r);
    else if (kind == TT_FRAME_PAIR && ev->origin == 0)
        w->pair_ns = to;
    if (r.bad)
        tt_log(TT_LOG_WARN, "protocol error: rank %u sent an invalid control frame", ev->origin);
}

static void handle_loss(struct tt_world *w, const struct tt_overlay_event *ev)
{
    char how[200];

    tt_loss_cause(ev, how, sizeof how);
    tt_engine_lost(w->engine, ev->origin, how);
    if (w->service)
        tt_service_lose(w->service, ev->origin);
}

static void handle_event(struct tt_world *w, const struct tt_overlay_event *ev)
{
    if (ev->kind == TT_OVERLAY_LOST)
        handle_loss(w, ev);
    else if (ev->kind == TT_OVERLAY_DIRECT && ev->topic == TT_OVERLAY_STATUS)
        tt_world_handle_status(w, ev);
    else if (ev->kind == TT_OVERLAY_DIRECT)
        tt_roll_call_handle(w, ev);
    else
        tt_control_handle(w, ev);
}

void tt_control_read(void *arg)
{
    struct tt_world *w = arg;
    struct tt_overlay_event ev;

    pthread_mutex_lock(&w->overlay_lock);
    while (w->overlay && tt_overlay_next(w->overlay, &ev))
        handle_event(w, &ev);
    if (w->service)
        tt_service_serve(w->service);
    pthread_cond_broadcast(&w->frame_signal);
    pthread_mutex_unlock(&w->overlay_lock);
}
