/* Puts, with or without a signal. Pieces become descriptors for the wire, many of them posted with
 * one doorbell, or messages. */
#include "window/put.h"

#include <string.h>

#include "base/checked.h"
#include "base/options.h"
#include "base/status.h"
#include "window/queue.h"
#include "window/fence.h"
#include "window/handle.h"
#include "window/peer.h"
#include "window/request.h"
#include "window/transfer.h"
#include "wire/registry.h"

/* Descriptors with data in one doorbell. With the signal's, this is the length of a verbs chain.
 * Processor time of a row of 64 bytes over TCP (1,024 rows, an Intel Xeon): 1.0 us with 8
 * descriptors, 0.5 us with 16, 0.4 us with 32, and hardly less with 64 or 128. */
#define BATCH 31
#define RMA_BYTES_FIRST offsetof(tutti_rma, no_wait)   /* size in the first release with it */

_Static_assert((int)TUTTI_SIGNAL_SET == (int)TT_SIGNAL_SET &&
                   (int)TUTTI_SIGNAL_ADD == (int)TT_SIGNAL_ADD,
               "public signals are the wire's");

/* ---- begin ----------------------------------------------------------------------------------- */

static bool is_instant(const struct tt_window_put *p)
{
    return tt_put_is_instant(p->link.wire, &p->way->key);
}

/* Returns whether the source of such a piece must stay valid until the wire has sent it. */
static bool outlasts_call(const struct tt_window_put *p, uint64_t bytes)
{
    return bytes > 0 && (p->direct || bytes > TT_INLINE_BYTES) && !is_instant(p);
}

/* Registers sources that wires read after the call: rows as a whole, pieces one by one. */
static tutti_status register_sources(struct tt_window_put *p)
{
    const struct tt_window_shape *s = &p->shape;
    tutti_status st = TUTTI_OK;

    if (!s->pieces)
        return tt_transfer_register(p->transfer, p->link.wire, s->src,
                                    (s->n - 1) * s->src_stride + s->bytes);
    for (size_t i = 0; i < s->n && !st; i++)
        if (outlasts_call(p, s->pieces[i].bytes))
            st = tt_transfer_register(p->transfer, p->link.wire, s->pieces[i].src,
                                      s->pieces[i].bytes);
    return st;
}

/* Records fences, except for a queued put: earlier fences are already recorded, and later ones do
 * not apply. */
static void record_fences(const struct tt_window_put *p)
{
    const struct tt_window *w = p->attempt.window;
    struct tt_window_peer *peer = w->home->peers[tt_window_job_rank(w, p->attempt.rank)];

    if (!p->queued && peer)
        tt_window_check_fences(w->home, peer);
}

static tutti_status *failed_of(const struct tt_window_put *p)
{
    return p->failed ? p->failed : &p->way->failed;
}

/* Returns the tick of the put: later quiets wait for it. */
static uint64_t put_tick(const struct tt_window_put *p)
{
    return p->queued ? p->tick : p->attempt.window->home->tick;
}

static bool has_bytes(const struct tt_window_shape *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (tt_window_piece_of(s, i).bytes)
            return true;
    return false;
}

/* Returns whether the put reads or writes device memory. */
static bool is_direct(const struct tt_window_put *p)
{
    const struct tt_window_shape *s = &p->shape;
    bool direct = has_bytes(s) && p->attempt.window->cards[p->attempt.rank].device;

    if (!s->pieces)
        return direct ||
               (s->n && tt_registry_is_device(s->src, (s->n - 1) * s->src_stride + s->bytes));
    for (size_t i = 0; i < s->n && !direct; i++)
        direct = tt_registry_is_device(s->pieces[i].src, s->pieces[i].bytes);
    return direct;
}

/* Begins the put. Without data it needs no key of the target window. */
static tutti_status put_begin(struct tt_window_put *p)
{
    struct tt_window *w = p->attempt.window;
    const bool bytes = has_bytes(&p->shape), signal = p->rma.signal_op != TUTTI_SIGNAL_NONE;
    bool late = false;
    tutti_status st = tt_window_reach(w, p->attempt.rank, &p->way, &p->link);

    p->signal_way = p->way;
    if (!st && p->signals != w)
        st = tt_window_reach(p->signals, p->attempt.rank, &p->signal_way, &p->link);
    if (st)
        return st;
    p->peer = tt_window_peer_of(w->home, tt_window_job_rank(w, p->attempt.rank));
    if (!p->peer)
        return TUTTI_ERR_NOMEM;
    record_fences(p);
    p->signalled = !signal;
    p->by_mail = (bytes && p->way->by_mail) || (signal && p->signal_way->by_mail);
    if (p->direct && (p->by_mail || !(p->link.wire->caps & TT_WIRE_CAP_DEVICE)))
        return tt_fail(TUTTI_ERR_UNSUPPORTED, "%s: device memory cannot be put to rank %u: %s",
                       p->attempt.call, p->attempt.rank,
                       p->by_mail ? "no transport reaches the window of this rank"
                                  : "the transport to this rank "
                                    "does not support device memory");
    if (signal && p->peer->mail_fenced) {
        if (p->direct)
            /* its data cannot be sent by message: waits until the messages before the fence are
             * answered */
            return TUTTI_PENDING;
        p->by_mail = true;
    }
    for (size_t i = 0; i < p->shape.n && bytes && !p->by_mail && !late; i++)
        late = outlasts_call(p, tt_window_piece_of(&p->shape, i).bytes);
    if (late) {
        p->transfer = tt_transfer_begin(w, p->peer, failed_of(p), p->rma.counter, put_tick(p), &st);
        if (p->transfer)
            st = register_sources(p);
    }
    p->begun = st != TUTTI_PENDING;
    return st;
}

/* ---- puts by the wire ------------------------------------------------------------------------ */

/* Returns the next descriptor with data, and advances *at and *within; false: none. */
static bool next_desc(const struct tt_window_put *p, size_t *at, uint64_t *within,
                      struct tt_desc *d)
{
    for (; *at < p->shape.n; (*at)++, *within = 0) {
        const tutti_piece piece = tt_window_piece_of(&p->shape, *at);
        const uint64_t left = piece.bytes - *within;
        const bool instant = is_instant(p);

        if (left == 0)
            continue;
        *d = (struct tt_desc){
            .kind = TT_DESC_PUT,
            .flags = instant                    ? TT_DESC_WAKE
                     : p->direct                ? TT_DESC_DIRECT
                     : outlasts_call(p, piece.bytes) ? 0
                                                : TT_DESC_INLINE,
            .lane = p->lane,
            .peer = p->peer->rank,
            .local = (uint8_t *)(uintptr_t)piece.src + *within,
            .bytes = instant || left < TT_WINDOW_SLICE_BYTES ? left : TT_WINDOW_SLICE_BYTES,
            .key = &p->way->key,
            .offset = piece.offset + *within,
            .cookie = p->transfer ? tt_transfer_cookie(p->transfer) : TT_CLIENT_COOKIE,
        };
        *within += d->bytes;
        return true;
    }
    return false;
}

/* Completes the put: sets the signal in the last descriptor. Adds a fence if other data precedes
 * the signal, or after a call of fence. Returns the number of descriptors. */
static int add_signal(const struct tt_window_put *p, struct tt_desc *d, int n)
{
    const bool alone = n <= 1 && !p->split;
    const bool fence = (!alone || p->peer->fenced) && !(p->link.wire->caps & TT_WIRE_CAP_ORDERED);
    struct tt_desc last = {
        .kind = TT_DESC_PUT,
        .flags = TT_DESC_INLINE,
        .lane = p->lane,
        .peer = p->peer->rank,
        .key = &p->signal_way->key,
        .cookie = TT_CLIENT_COOKIE,
    };

    if (alone && n == 1)
        last = d[--n];
    last.signal_op = (uint8_t)p->rma.signal_op;
    last.signal_key = &p->signal_way->key;
    last.signal_offset = p->rma.signal_offset;
    last.signal_value = p->rma.signal_value;
    if (fence)
        d[n++] = (struct tt_desc){ .kind = TT_DESC_FENCE, .peer = p->peer->rank };
    d[n++] = last;
    return n;
}

/* Records that the wire has taken a descriptor. */
static void descriptor_taken(struct tt_window_put *p, const struct tt_desc *d)
{
    const bool instant = is_instant(p);

    if (d->kind == TT_DESC_FENCE)
        return;
    if (!instant || d->signal_op != TT_SIGNAL_NONE)
        tt_flush_put(&p->peer->marks, put_tick(p));
    if (d->bytes && !instant && !(d->flags & TT_DESC_INLINE))
        p->transfer->left++;
    if (d->signal_op != TT_SIGNAL_NONE) {
        p->signalled = true;
        p->peer->fenced = false;
    } else {
        p->split = true;
    }
}

/* Posts one doorbell. PENDING: more follows, or there was no room. *any: data or a signal was
 * taken. Accepted fences are not counted: a wire takes them without room, so a caller that repeats
 * while *any is set would never return. */
static tutti_status put_post(struct tt_window_put *p, bool *any)
{
    struct tt_wire *wire = p->link.wire;
    struct tt_desc d[BATCH + 2];
    struct {
        size_t at;
        uint64_t within;
    } behind[BATCH], end = { p->at, p->within };    /* position after each descriptor with data */
    bool more = false;
    int n = 0, carried = 0, done;

    while (!more && next_desc(p, &end.at, &end.within, &d[n])) {
        more = n == BATCH;      /* this piece belongs to the next doorbell */
        if (!more)
            behind[n++] = end;
    }
    if (!more && !p->signalled)
        n = add_signal(p, d, n);
    done = n ? wire->ops->post(wire, d, n) : 0;
    for (int i = 0; i < done; i++) {
        descriptor_taken(p, &d[i]);
        *any |= d[i].kind != TT_DESC_FENCE;
        if (!d[i].bytes)
            continue;
        p->at = behind[carried].at;
        p->within = behind[carried++].within;
    }
    return !more && done == n ? TUTTI_OK : TUTTI_PENDING;
}

/* ---- puts by message ------------------------------------------------------------------------- */

static tutti_status put_send_message(struct tt_window_put *p, bool *any)
{
    struct tt_window *w = p->attempt.window;
    struct tt_window_message m = { .verb = TT_WINDOW_PUT, .window = w->id };
    const uint8_t *from = NULL;

    while (p->at < p->shape.n && p->within == tt_window_piece_of(&p->shape, p->at).bytes) {
        p->at++;
        p->within = 0;
    }
    if (p->at < p->shape.n) {
        const tutti_piece piece = tt_window_piece_of(&p->shape, p->at);
        const uint64_t left = piece.bytes - p->within;

        from = (const uint8_t *)piece.src + p->within;
        m.offset = piece.offset + p->within;
        m.bytes = left < TT_WINDOW_CHUNK_BYTES ? left : TT_WINDOW_CHUNK_BYTES;
    } else if (p->signalled) {
        return TUTTI_OK;
    } else if (!tt_window_hold_mail(w->home, p->peer)) {
        return TUTTI_PENDING;
    } else {                    /* after all data: messages are executed in order */
        m.signal_op = (uint8_t)p->rma.signal_op;
        m.signal_window = p->signals->id;
        m.signal_offset = p->rma.signal_offset;
        m.signal_value = p->rma.signal_value;
    }
    if (!tt_window_send_request(w->home, p->peer, &m, from, NULL, NULL, failed_of(p)))
        return TUTTI_PENDING;
    p->peer->asked[m.token % TT_WINDOW_REQUESTS_MAX].tick = put_tick(p);
    p->within += m.bytes;
    p->signalled |= m.signal_op != 0;
    *any = true;
    return TUTTI_PENDING;
}

/* ---- atomics without their old value --------------------------------------------------------- */

/* Performs the atomic, or sends it by message. PENDING: not possible yet. */
static tutti_status put_atomic_step(struct tt_window_put *p)
{
    struct tt_window *w = p->attempt.window;
    struct tt_window_message *m = &p->atomic;
    tutti_status st = tt_window_reach(w, p->attempt.rank, &p->way, &p->link);

    if (st)
        return st;
    p->peer = tt_window_peer_of(w->home, tt_window_job_rank(w, p->attempt.rank));
    if (!p->peer)
        return TUTTI_ERR_NOMEM;
    record_fences(p);
    if (!p->queued)
        p->fence_tick = p->peer->fence_tick;
    if (!p->way->by_mail && p->way->key.mapped) {
        if (!tt_window_may_load(w->home, p->peer, &p->link, p->fence_tick))
            return TUTTI_PENDING;
        tt_window_change_mapped(m, p->way->key.mapped, &p->link);
        return TUTTI_OK;
    }
    if (!tt_window_hold_mail(w->home, p->peer) ||
        !tt_window_send_request(w->home, p->peer, m, NULL, NULL, NULL, failed_of(p)))
        return TUTTI_PENDING;
    p->peer->asked[m->token % TT_WINDOW_REQUESTS_MAX].tick = put_tick(p);
    return TUTTI_OK;
}

/* ---- steps of a put -------------------------------------------------------------------------- */

static tutti_status put_step(struct tt_call_check *a)
{
    struct tt_window_put *p = (struct tt_window_put *)a;
    tutti_status st = TUTTI_PENDING;
    bool any = true;

    record_fences(p);
    if (tt_window_queue_precedes(p))
        return TUTTI_PENDING;
    if (p->atomic.verb)
        return put_atomic_step(p);
    if (!p->begun)
        st = put_begin(p);
    else
        st = tt_engine_client_reach(a->window->home->engine, p->peer->rank, &p->link);
    if (st)
        return st;
    if (p->transfer && !p->transfer->open)
        return p->transfer->over ? p->transfer->status : TUTTI_PENDING;
    st = TUTTI_PENDING;
    while (any && st == TUTTI_PENDING) {
        any = false;
        st = p->by_mail ? put_send_message(p, &any) : put_post(p, &any);
    }
    if (st || !p->transfer)
        return st;
    if (p->rma.counter) {       /* the transfer completes and increments the counter without the
                                   call */
        tt_transfer_close(p->transfer);
        p->transfer = NULL;
        p->rma.counter = NULL;
        return TUTTI_OK;
    }
    tt_transfer_close(p->transfer);
    return p->transfer->over ? p->transfer->status : TUTTI_PENDING;
}

static bool put_uses(const struct tt_call_check *a, const void *mem, size_t bytes)
{
    return tt_window_put_uses((const struct tt_window_put *)a, mem, bytes);
}

tutti_status tt_window_put_go_on(struct tt_window_put *p)
{
    return put_step(&p->attempt);
}

/* A non-blocking call does not wait for room in the wire: the rest of the put is queued. A put that
 * was begun has an empty queue, which has room for any put. */
static tutti_status put_or_queue_step(struct tt_call_check *a)
{
    struct tt_window_put *p = (struct tt_window_put *)a;
    tutti_status st = put_step(a);

    if (st != TUTTI_PENDING)
        return st;
    st = tt_window_queue_add(p);
    if (!st)
        p->rma.counter = NULL;  /* the queue increments it */
    p->full = st == TUTTI_PENDING && p->rma.no_wait;
    return p->full ? TUTTI_OK : st;
}

static void set_own_signal(struct tt_window *w, uint64_t offset, uint8_t op, uint64_t value)
{
    tt_window_raise((uint64_t *)(void *)(w->mem + offset), op, value);
    atomic_store(&w->signals_itself, true);
}

void tt_window_raise_own(struct tt_window *w, uint64_t offset, uint8_t op, uint64_t value)
{
    set_own_signal(w, offset, op, value);
    tt_engine_client_wake(w->home->engine);
}

/* Puts to this rank, with the processor. Taking the progress lock wakes a waiter that sleeps
 * while holding it. */
static void put_self(struct tt_window_put *p)
{
    struct tt_window *w = p->attempt.window;

    for (size_t i = 0; i < p->shape.n; i++) {
        const tutti_piece piece = tt_window_piece_of(&p->shape, i);

        if (piece.bytes)
            memmove(w->mem + piece.offset, piece.src, piece.bytes);
    }
    if (p->rma.signal_op != TUTTI_SIGNAL_NONE)
        set_own_signal(p->signals, p->rma.signal_offset, (uint8_t)p->rma.signal_op,
                       p->rma.signal_value);
    tt_engine_client_touch(w->home->engine);
}

static uint64_t shape_bytes(const struct tt_window_shape *s)
{
    uint64_t bytes = 0;

    if (!s->pieces)
        return s->n * s->bytes;
    for (size_t i = 0; i < s->n; i++)
        bytes += s->pieces[i].bytes;
    return bytes;
}

static void put_self_traced(struct tt_window_put *p)
{
    const uint64_t record =
        tt_window_trace_begin(p->attempt.window, (enum tt_oplog_kind)p->attempt.trace.kind,
                              p->attempt.rank, p->attempt.trace.count);

    put_self(p);
    tt_oplog_end(record, TUTTI_OK);
}

static tutti_status put_run(struct tt_window_put *p)
{
    struct tt_window *w = p->attempt.window;
    tutti_status st = TUTTI_OK;

    p->direct = is_direct(p);
    if (p->rma.counter)
        p->attempt.step = put_or_queue_step;
    if (p->atomic.verb)
        tt_call_check_trace(&p->attempt, TT_OPLOG_ATOMIC, p->atomic.bytes);
    else
        tt_call_check_trace(&p->attempt, has_bytes(&p->shape) ? TT_OPLOG_PUT : TT_OPLOG_SIGNAL,
                            shape_bytes(&p->shape));
    if (p->attempt.rank == w->comm->rank && p->direct)
        st = tt_fail(TUTTI_ERR_UNSUPPORTED,
                     "%s: device memory is not supported for a put to the calling rank",
                     p->attempt.call);
    else if (p->attempt.rank == w->comm->rank)
        put_self_traced(p);
    else if (has_bytes(&p->shape) || p->rma.signal_op != TUTTI_SIGNAL_NONE || p->atomic.verb)
        st = tt_call_check_run_transfer(&p->attempt, &p->transfer);
    if (p->full)
        return TUTTI_PENDING;
    if (!st && p->rma.counter)
        tt_window_count(p->rma.counter);
    return st;
}

/* ---- puts in steps --------------------------------------------------------------------------- */

void tt_window_put_init(struct tt_window_put *p, struct tt_window *w, uint32_t rank,
                        uint64_t offset, const void *src, uint64_t bytes, const tutti_rma *rma,
                        uint8_t lane, tutti_status *failed, const char *call)
{
    const struct tt_window_peer *peer = w->home->peers[tt_window_job_rank(w, rank)];

    *p = (struct tt_window_put){
        .attempt = { .window = w, .call = call, .rank = rank },
        .shape = { .src = src, .n = 1, .bytes = bytes, .offset = offset },
        .rma = *rma, .signals = w, .lane = lane, .failed = failed,
    };
    p->direct = is_direct(p);
    record_fences(p);
    if (peer)
        p->fence_tick = peer->fence_tick;
}

void tt_window_disown(struct tt_window *w, uint32_t rank, const uint64_t *counter,
                      const tutti_status *failed)
{
    struct tt_window_peer *p = w->home->peers[tt_window_job_rank(w, rank)];
    tutti_status *hosts = &w->ways[rank].failed;

    if (*failed)
        *hosts = *failed;
    for (uint32_t i = 0; p && i < TT_WINDOW_REQUESTS_MAX; i++)
        if (p->asked[i].busy && p->asked[i].failed == failed)
            p->asked[i].failed = hosts;
    for (uint32_t i = 0; i < w->home->ntransfers; i++) {
        struct tt_window_transfer *t = w->home->transfers[i];

        if (t && t->failed == failed)
            t->failed = hosts;
        if (t && t->counter == counter)
            t->counter = NULL;
    }
}

tutti_status tt_window_put_step(struct tt_window_put *p)
{
    tutti_status st = tt_window_status(p->attempt.window);

    if (!st) {
        st = put_step(&p->attempt);
        if (st == TUTTI_ERR_PEER_LOST)
            tt_fail(st, "%s: rank %u has destroyed its communicator", p->attempt.call,
                    p->attempt.rank);
    }
    if (st == TUTTI_PENDING)
        return st;
    if (!st && p->rma.counter)      /* else the transfer increments it */
        tt_window_count(p->rma.counter);
    tt_window_put_leave(p);
    return st;
}

/* ---- calls ---- */

tutti_status tt_rma_take(const tutti_rma *rma, tutti_rma *out, const char *call)
{
    tutti_status st = TUTTI_OK;

    *out = (tutti_rma){ .size = sizeof *out };
    if (rma)
        st = tt_options_take(out, sizeof *out, RMA_BYTES_FIRST, rma, call, "rma", "tutti_rma");
    if (!st && out->counter && (uintptr_t)out->counter % sizeof *out->counter)
        st =
            tt_fail(TUTTI_ERR_INVALID, "%s: rma.counter = %p is misaligned: must be 8-byte aligned",
                    call, (void *)out->counter);
    return st;
}

/* Finds the window and the word of the signal, if there is one. */
static tutti_status find_signal(struct tt_window_put *p)
{
    struct tt_window *w = p->attempt.window;
    const char *call = p->attempt.call;
    char word[96];
    tutti_status st;

    p->signals = w;
    st = tt_options_enum(call, "rma.signal_op", (int)p->rma.signal_op, TUTTI_SIGNAL_ADD);
    if (!st)
        st = tt_options_flag(call, "rma.no_wait", p->rma.no_wait);
    if (st)
        return st;
    if (p->rma.signal_op == TUTTI_SIGNAL_NONE)
        return TUTTI_OK;
    if (p->rma.signal_window) {
        st = tt_window_take(p->rma.signal_window, call, &p->signals);
        if (st)
            return st;
        if (p->signals->comm != w->comm)
            return tt_fail(TUTTI_ERR_INVALID,
                           "%s: rma.signal_window belongs to another communicator", call);
    }
    snprintf(word, sizeof word, "%s: rma.signal_offset", call);
    return tt_window_check_word(p->signals, p->attempt.rank, p->rma.signal_offset, sizeof(uint64_t),
                                word);
}

/* Finds the window of the call, and reads the options and the signal. */
static tutti_status put_take_arguments(struct tt_window_put *p, tutti_window *handle, int rank,
                                       const tutti_rma *rma, const char *call)
{
    tutti_status st = tt_window_take_rank(handle, rank, call, &p->attempt.window);

    p->attempt.call = call;
    p->attempt.rank = (uint32_t)rank;
    p->attempt.step = put_step;
    p->attempt.uses = put_uses;
    if (!st)
        st = tt_rma_take(rma, &p->rma, call);
    p->attempt.timeout_ms = p->rma.timeout_ms;
    return st ? st : find_signal(p);
}

tutti_status tt_window_signal(struct tt_window *w, uint32_t rank, uint64_t offset,
                              tutti_signal_op op, uint64_t value, const char *call)
{
    struct tt_window_put p = {
        .attempt = { .window = w, .call = call, .rank = rank, .step = put_or_queue_step },
        .rma = { .signal_op = op, .signal_offset = offset, .signal_value = value },
        .signals = w,
    };

    return put_run(&p);
}

tutti_status tt_window_put_atomic(struct tt_window *w, uint32_t rank,
                                  const struct tt_window_message *atomic, const char *call)
{
    struct tt_window_put p = {
        .attempt = { .window = w, .call = call, .rank = rank, .step = put_or_queue_step },
        .signals = w,
        .atomic = *atomic,
    };

    return put_run(&p);
}

tutti_status tutti_window_put(tutti_window *window, int rank, size_t offset, const void *src,
                              size_t bytes, const tutti_rma *rma)
{
    struct tt_window_put p = { .shape = { .src = src, .n = 1, .bytes = bytes, .offset = offset } };
    tutti_status st = put_take_arguments(&p, window, rank, rma, "tutti_window_put");

    if (!st && !src && bytes)
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_window_put: src is NULL");
    if (!st)
        st = tt_window_check_own(src, bytes, "tutti_window_put: src");
    if (!st)
        st = tt_window_check(p.attempt.window, p.attempt.rank, offset, bytes, p.attempt.call);
    return st ? st : put_run(&p);
}

/* Checks that rows do not overlap, and that the end is representable. */
static tutti_status check_rows(const struct tt_window_put *p, const tutti_rows *rows, size_t offset,
                               const void *src)
{
    const char *call = p->attempt.call;
    size_t last = 0, end = 0, src_end = 0;

    if (rows->rows > 1 && (rows->stride < rows->row_bytes || rows->src_stride < rows->row_bytes))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: rows overlap: row_bytes is %zu, src_stride is %zu and stride is %zu",
                       call, rows->row_bytes, rows->src_stride, rows->stride);
    if (rows->rows == 0 || rows->row_bytes == 0)
        return TUTTI_OK;
    if (!src)
        return tt_fail(TUTTI_ERR_INVALID, "%s: src is NULL", call);
    if (__builtin_mul_overflow(rows->rows - 1, rows->stride, &last) ||
        __builtin_add_overflow(last, rows->row_bytes, &end) ||
        __builtin_mul_overflow(rows->rows - 1, rows->src_stride, &src_end) ||
        __builtin_add_overflow(src_end, rows->row_bytes, &src_end) ||
        !tt_memory_can_be(src, src_end))
        return tt_fail(
            TUTTI_ERR_INVALID,
            "%s: %zu rows with src_stride %zu and stride %zu do not fit in the address space", call,
            rows->rows, rows->src_stride, rows->stride);
    return tt_window_check(p->attempt.window, p->attempt.rank, offset, end, call);
}

tutti_status tutti_window_put_rows(tutti_window *window, int rank, size_t offset, const void *src,
                                   const tutti_rows *rows, const tutti_rma *rma)
{
    struct tt_window_put p = { 0 };
    tutti_status st = put_take_arguments(&p, window, rank, rma, "tutti_window_put_rows");

    if (!st && !rows)
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_window_put_rows: rows is NULL");
    if (!st)
        st = check_rows(&p, rows, offset, src);
    if (st)
        return st;
    p.shape = (struct tt_window_shape){
        .src = src,
        .n = rows->row_bytes ? rows->rows : 0,
        .bytes = rows->row_bytes,
        .src_stride = rows->src_stride,
        .stride = rows->stride,
        .offset = offset,
    };
    return put_run(&p);
}

tutti_status tutti_window_put_pieces(tutti_window *window, int rank, const tutti_piece *pieces,
                                     size_t n, const tutti_rma *rma)
{
    struct tt_window_put p = { .shape = { .n = n, .pieces = pieces } };
    tutti_status st = put_take_arguments(&p, window, rank, rma, "tutti_window_put_pieces");

    if (!st && !pieces && n)
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_window_put_pieces: pieces is NULL");
    if (!st && !tt_array_can_be(pieces, n, sizeof *pieces))
        st = tt_fail(TUTTI_ERR_INVALID,
                     "tutti_window_put_pieces: %zu pieces do not fit in the address space", n);
    for (size_t i = 0; i < n && !st; i++) {
        if (!pieces[i].src && pieces[i].bytes)
            st = tt_fail(TUTTI_ERR_INVALID, "tutti_window_put_pieces: pieces[%zu].src is NULL", i);
        else
            st = tt_window_check_own(pieces[i].src, pieces[i].bytes,
                                     "tutti_window_put_pieces: a piece's src");
        if (!st)
            st = tt_window_check(p.attempt.window, p.attempt.rank, pieces[i].offset,
                                 pieces[i].bytes, p.attempt.call);
    }
    return st ? st : put_run(&p);
}

tutti_status tutti_window_signal(tutti_window *window, int rank, size_t offset, tutti_signal_op op,
                                 uint64_t value)
{
    const tutti_rma rma = {
        .size = sizeof rma, .signal_op = op, .signal_offset = offset, .signal_value = value,
    };
    struct tt_window_put p = { 0 };
    tutti_status st = put_take_arguments(&p, window, rank, &rma, "tutti_window_signal");

    if (!st && op == TUTTI_SIGNAL_NONE)
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_window_signal: op is TUTTI_SIGNAL_NONE (pass "
                                        "TUTTI_SIGNAL_SET or TUTTI_SIGNAL_ADD)");
    p.attempt.step = put_or_queue_step;
    return st ? st : put_run(&p);
}
