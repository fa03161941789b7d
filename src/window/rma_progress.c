/* Transfers in progress, and requests of peers: the engine's client. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "reduce/reduce.h"
#include "window/queue.h"
#include "window/window.h"
#include "wire/registry.h"

/* Cookies of windows: a transfer's index and generation, or a mark of a peer. */
#define COOKIE_MARK (1ull << 50)
#define COOKIE_INDEX_BITS 18
#define COOKIE_GENERATION_BITS 32
#define TRANSFERS_FIRST 64u     /* initial size of the table, which doubles */
#define TRANSFERS_MAX (1u << COOKIE_INDEX_BITS)
_Static_assert(COOKIE_INDEX_BITS + COOKIE_GENERATION_BITS <= 50 && 2 * TT_MARK_BITS <= 50,
               "a cookie fits");

/* ---- transfers ---- */

static void list_transfer(struct tt_window_transfer *t)
{
    struct tt_window_peer *p = t->peer;
    struct tt_window_transfer *older = p->newest;

    while (older && older->tick > t->tick)      /* a queued put begins late */
        older = older->older;
    t->older = older;
    t->newer = older ? older->newer : p->oldest;
    *(older ? &older->newer : &p->oldest) = t;
    *(t->newer ? &t->newer->older : &p->newest) = t;
}

static void unlist_transfer(struct tt_window_transfer *t)
{
    struct tt_window_peer *p = t->peer;

    *(t->older ? &t->older->newer : &p->oldest) = t->newer;
    *(t->newer ? &t->newer->older : &p->newest) = t->older;
}

/* Returns a free entry of the table, which grows if necessary. UINT32_MAX: no room now, or out
 * of memory (NOMEM in *st, logged). */
static uint32_t free_entry(struct tt_windows *home, tutti_status *st)
{
    const uint32_t n = home->ntransfers, more = n ? 2 * n : TRANSFERS_FIRST;
    struct tt_window_transfer **grown;
    uint32_t i = home->next_transfer;

    if (home->transfers_busy < n) {
        while (home->transfers[i])
            i = (i + 1) % n;
        return i;
    }
    if (more > TRANSFERS_MAX)
        return UINT32_MAX;
    grown = realloc(home->transfers, more * sizeof(struct tt_window_transfer *));
    if (!grown) {
        *st = tt_fail(TUTTI_ERR_NOMEM, "window: out of memory for %u transfers", more);
        return UINT32_MAX;
    }
    memset(grown + n, 0, (more - n) * sizeof(struct tt_window_transfer *));
    home->transfers = grown;
    home->ntransfers = more;
    return n;
}

struct tt_window_transfer *tt_transfer_begin(struct tt_window *w, struct tt_window_peer *peer,
                                             tutti_status *failed, uint64_t *counter, uint64_t tick,
                                             tutti_status *st)
{
    struct tt_windows *home = w->home;
    struct tt_window_transfer *t;
    uint32_t i;

    *st = TUTTI_PENDING;
    i = peer->ntransfers < TT_WINDOW_TRANSFERS ? free_entry(home, st) : UINT32_MAX;
    if (i == UINT32_MAX)
        return NULL;
    t = calloc(1, sizeof *t);
    if (!t) {
        *st = tt_fail(TUTTI_ERR_NOMEM, "window: out of memory for a transfer");
        return NULL;
    }
    *t = (struct tt_window_transfer){
        .window = w,
        .peer = peer,
        .tick = tick,
        .index = i,
        .generation = home->generation++,
        .open = true,
        .waited = !counter,
        .counter = counter,
        .failed = failed,
    };
    home->transfers[i] = t;
    home->next_transfer = (i + 1) % home->ntransfers;
    home->transfers_busy++;
    peer->ntransfers++;
    list_transfer(t);
    *st = TUTTI_OK;
    return t;
}

tutti_status tt_transfer_register(struct tt_window_transfer *t, struct tt_wire *wire,
                                  const void *mem, uint64_t bytes)
{
    struct tt_region **more = realloc(t->regions, (t->nregions + 1) * sizeof(struct tt_region *));
    tutti_status st;

    if (!more)
        return tt_fail(TUTTI_ERR_NOMEM, "window: out of memory for a transfer");
    t->regions = more;
    st = wire->caps & TT_WIRE_CAP_PINS ? tt_registry_check_use(mem, bytes) : TUTTI_OK;
    if (st == TUTTI_OK)
        st = tt_wire_source(wire, (void *)(uintptr_t)mem, bytes, &t->regions[t->nregions]);
    if (st == TUTTI_OK)
        t->nregions++;
    return st;
}

uint64_t tt_transfer_cookie(const struct tt_window_transfer *t)
{
    return TT_CLIENT_COOKIE | (uint64_t)t->generation << COOKIE_INDEX_BITS | t->index;
}

static void free_transfer(struct tt_window_transfer *t)
{
    t->window->home->transfers[t->index] = NULL;
    t->window->home->transfers_busy--;
    t->peer->ntransfers--;
    free(t);
}

/* Releases the caller's memory. */
static void release_memory(struct tt_window_transfer *t)
{
    for (uint32_t i = 0; i < t->nregions; i++)
        t->regions[i]->wire->ops->dereg(t->regions[i]);
    free(t->regions);
    t->regions = NULL;
    t->nregions = 0;
}

static void end_if_done(struct tt_window_transfer *t)
{
    if (t->open || t->left > 0)
        return;
    release_memory(t);
    t->over = true;
    unlist_transfer(t);
    if (t->status)
        *t->failed = t->status;
    else if (t->counter)
        tt_window_count(t->counter);
    if (!t->waited)
        free_transfer(t);
}

void tt_transfer_part(struct tt_window_transfer *t, tutti_status status)
{
    t->left--;
    if (status && !t->status)
        t->status = status;
    end_if_done(t);
}

void tt_transfer_close(struct tt_window_transfer *t)
{
    t->open = false;
    if (!t->waited && t->left > 0)
        tt_engine_client_left_unfinished(t->window->home->engine);
    end_if_done(t);
}

void tt_transfer_leave(struct tt_window_transfer *t)
{
    if (t->over) {
        free_transfer(t);
        return;
    }
    t->waited = false;
    if (t->open)
        tt_transfer_close(t);
}

void tt_transfers_drop(struct tt_window *w)
{
    struct tt_windows *home = w->home;

    tt_window_queue_drop(w);
    for (uint32_t r = 0; r < home->nranks; r++)
        for (uint32_t i = 0; home->peers[r] && i < TT_WINDOW_REQUESTS_MAX; i++) {
            struct tt_window_pending *a = &home->peers[r]->asked[i];

            if (a->busy && a->window == w->id) {
                a->to = NULL;
                a->transfer = NULL;
                a->failed = NULL;
            }
        }
    for (uint32_t i = 0; i < home->ntransfers; i++) {
        struct tt_window_transfer *t = home->transfers[i];

        if (!t || t->window != w)
            continue;
        release_memory(t);
        if (!t->over)
            unlist_transfer(t);
        free_transfer(t);
    }
}

static void home_handle_completion(void *arg, const struct tt_done *d)
{
    struct tt_windows *home = arg;
    struct tt_window_peer *p;
    struct tt_window_transfer *t;

    if (d->cookie & COOKIE_MARK) {
        const uint32_t rank = (uint32_t)(d->cookie >> TT_MARK_BITS) & TT_MARK_MASK;

        p = rank < home->nranks ? home->peers[rank] : NULL;
        if (p && d->kind == TT_DONE_REMOTE)
            tt_flush_landed(&p->marks, (uint32_t)d->cookie & TT_MARK_MASK);
        return;
    }
    t = d->cookie % TRANSFERS_MAX < home->ntransfers ? home->transfers[d->cookie % TRANSFERS_MAX]
                                                     : NULL;
    if (t && d->kind == TT_DONE_LOCAL &&
        t->generation == (uint32_t)(d->cookie >> COOKIE_INDEX_BITS) && t->left)
        tt_transfer_part(t, d->status);
}

/* ---- marks ---- */

bool tt_window_mark(struct tt_windows *home, struct tt_window_peer *p,
                    const struct tt_engine_client_link *link)
{
    struct tt_wire *w = link->wire;
    const uint32_t number = tt_flush_next(&p->marks);
    const struct tt_desc d[2] = {
        { .kind = TT_DESC_FENCE, .peer = p->rank },
        {
            .kind = TT_DESC_PUT,
            .flags = TT_DESC_INLINE | TT_DESC_REMOTE,
            .peer = p->rank,
            .key = link->theirs,
            .signal_op = TT_SIGNAL_ADD,
            .signal_key = link->theirs,
            .signal_offset = link->word,
            .cookie = TT_CLIENT_COOKIE | COOKIE_MARK | (uint64_t)p->rank << TT_MARK_BITS | number,
        },
    };

    if (w->ops->post(w, d, 2) != 2)
        return false;
    /* the mark precedes the queued puts */
    tt_flush_posted(&p->marks, p->oldest_queued < home->tick ? p->oldest_queued : home->tick);
    return true;
}

/* Puts older than their mark have landed, but their local completion may not have been reported
 * yet. */
bool tt_window_is_under_way(const struct tt_window_peer *p, uint64_t tick)
{
    if (p->oldest && p->oldest->tick < tick)
        return true;
    for (uint32_t i = 0; p->nasked && i < TT_WINDOW_REQUESTS_MAX; i++)
        if (p->asked[i].busy && p->asked[i].tick < tick)
            return true;
    return false;
}

/* ---- fences ---- */

void tt_window_peer_mark(struct tt_window_peer *p)
{
    p->fenced = p->wire_fenced = true;
    p->mail_fenced = p->nmail_changes > 0;
}

void tt_window_peer_fence(struct tt_windows *home, struct tt_window_peer *p)
{
    tt_window_peer_mark(p);
    tt_window_queue_fence(p);
    p->fence_tick = ++home->tick;
}

void tt_window_check_fences(struct tt_windows *home, struct tt_window_peer *p)
{
    if (p->fences_seen == home->fences)
        return;
    p->fences_seen = home->fences;
    tt_window_peer_fence(home, p);
}

bool tt_window_hold_mail(struct tt_windows *home, struct tt_window_peer *p)
{
    /* transfers may be in progress */
    if (p->wire_fenced && !tt_flush_is_quiet(&p->marks, UINT64_MAX) &&
        !tt_engine_client_fence(home->engine, p->rank))
        return false;
    p->wire_fenced = false;
    return true;
}

bool tt_window_may_load(struct tt_windows *home, struct tt_window_peer *p,
                        const struct tt_engine_client_link *link, uint64_t fence_tick)
{
    if (fence_tick && tt_flush_needs_mark(&p->marks, fence_tick))
        tt_window_mark(home, p, link);
    if (fence_tick &&
        (!tt_flush_is_quiet(&p->marks, fence_tick) || tt_window_is_under_way(p, fence_tick)))
        return false;
    if (p->fence_tick == fence_tick)
        p->fence_tick = 0;
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

bool tt_window_send_request(struct tt_windows *home, struct tt_window_peer *p,
                            struct tt_window_message *m, const void *payload, void *to,
                            struct tt_window_transfer *t, tutti_status *failed)
{
    struct tt_window_pending *a = &p->asked[p->next_token % TT_WINDOW_REQUESTS_MAX];
    const uint64_t follow = m->verb == TT_WINDOW_PUT ? m->bytes : 0;

    if (a->busy)
        return false;
    m->token = p->next_token;
    tt_window_message_write(m, home->message);
    if (follow)
        tt_copy(home->message + TT_WINDOW_HEADER_BYTES, NULL, payload, follow, 0);
    if (!tt_engine_client_send(home->engine, p->rank, home->message,
                               (uint32_t)(TT_WINDOW_HEADER_BYTES + follow)))
        return false;
    *a = (struct tt_window_pending){
        .busy = true,
        .verb = m->verb,
        .token = m->token,
        .window = m->window,
        .tick = home->tick,
        .to = to,
        .bytes = m->bytes,
        .transfer = t,
        .failed = failed,
    };
    p->next_token++;
    p->nasked++;
    p->nmail_changes += m->verb != TT_WINDOW_GET;
    if (t)
        t->left++;
    return true;
}

bool tt_window_send_message(struct tt_windows *home, uint32_t rank,
                            const struct tt_window_message *m)
{
    uint8_t header[TT_WINDOW_HEADER_BYTES];

    tt_window_message_write(m, header);
    return tt_engine_client_send(home->engine, rank, header, sizeof header);
}

/* Handles a reply. False: it has no request. */
static bool handle_reply(struct tt_window_peer *p, const struct tt_window_message *m,
                         const void *payload)
{
    struct tt_window_pending *a = &p->asked[m->token % TT_WINDOW_REQUESTS_MAX];

    if (!a->busy || a->token != m->token)
        return false;
    if (m->bytes != (a->verb == TT_WINDOW_GET && !m->gone ? a->bytes : 0))
        return false;
    if (m->bytes && a->to)
        tt_copy(a->to, NULL, payload, m->bytes, 0);
    a->busy = false;
    p->nasked--;
    if (a->verb != TT_WINDOW_GET) {
        p->nmail_changes--;
        p->mail_fenced &= p->nmail_changes > 0;
    }
    if (m->gone && a->failed)
        *a->failed = TUTTI_ERR_ABORTED;
    if (a->transfer) {
        a->transfer->old = m->operand;
        tt_transfer_part(a->transfer, m->gone ? TUTTI_ERR_ABORTED : TUTTI_OK);
    }
    return true;
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Sends a reply. The data of a get is read when there is room for the reply. */
static bool send_reply(struct tt_windows *home, struct tt_window_peer *p,
                       const struct tt_window_message *ask)
{
    const struct tt_window *w = tt_window_find(home, ask->window);
    struct tt_window_message m = { .verb = TT_WINDOW_ANSWER,
                                   .token = ask->token,
                                   .operand = ask->operand };
    bool has = w || ask->verb != TT_WINDOW_GET;

    if (ask->gone || !has) {
        m.gone = 1;
    } else if (ask->verb == TT_WINDOW_GET) {
        m.bytes = ask->bytes;
        if (m.bytes)
            tt_copy(home->message + TT_WINDOW_HEADER_BYTES, NULL, w->mem + ask->offset, m.bytes, 0);
    }
    tt_window_message_write(&m, home->message);
    return tt_engine_client_send(home->engine, p->rank, home->message,
                                 (uint32_t)(TT_WINDOW_HEADER_BYTES + m.bytes));
}

/* Sends pending replies. Returns whether any was sent. */
static bool send_replies(struct tt_windows *home, struct tt_window_peer *p)
{
    struct tt_engine_client_link link;
    bool any = false;
    tutti_status st;

    if (p->answers_head == p->answers_tail)
        return false;
    st = tt_engine_client_reach(home->engine, p->rank, &link);
    if (st > TUTTI_PENDING) {
        home->nanswers -= p->answers_tail - p->answers_head;
        p->answers_head = p->answers_tail;
    }
    while (st == TUTTI_OK && p->answers_head != p->answers_tail &&
           send_reply(home, p, &p->answers[p->answers_head % TT_WINDOW_REQUESTS_MAX])) {
        p->answers_head++;
        home->nanswers--;
        any = true;
    }
    return any;
}

/* Executes a put or an atomic, and its signal. False: out of bounds. */
static bool execute(struct tt_windows *home, struct tt_window_message *m, const void *payload)
{
    const struct tt_window *w = tt_window_find(home, m->window);
    const struct tt_window *signals = m->signal_op ? tt_window_find(home, m->signal_window) : w;
    uint64_t *word = NULL;

    m->gone = !w || !signals || (w->device && (m->bytes || m->verb != TT_WINDOW_PUT)) ||
              (m->signal_op && signals->device);
    if (m->gone)
        return true;
    if (m->signal_op) {
        word = tt_window_word(signals->mem, signals->bytes, m->signal_offset, sizeof *word);
        if (!word)
            return false;
    }
    if (m->verb == TT_WINDOW_GET)
        return tt_window_holds(w->bytes, m->offset, m->bytes);
    if (!tt_window_apply(m, payload, w->mem, w->bytes, &m->operand))
        return false;
    if (word)
        tt_window_raise(word, m->signal_op, m->signal_value);
    return true;
}

/* Handles the message that a rank frees its window: its last signal has landed. False: it is not
 * a member of the window. */
static bool home_handle_leave(struct tt_windows *home, uint32_t from,
                              const struct tt_window_message *m)
{
    struct tt_window *w = tt_window_find(home, m->window);

    for (uint32_t r = 0; w && r < w->comm->nranks; r++)
        if (tt_window_job_rank(w, r) == from) {
            if (!w->ways[r].left)
                atomic_fetch_add(&w->nleft, 1);
            w->ways[r].left = true;
            return true;
        }
    return !w;                  /* freed here, too */
}

static bool home_handle_message(void *arg, uint32_t from, const void *payload, uint32_t bytes)
{
    struct tt_windows *home = arg;
    struct tt_window_peer *p = tt_window_peer_of(home, from);
    struct tt_window_message m;
    const uint8_t *follows = (const uint8_t *)payload + TT_WINDOW_HEADER_BYTES;

    if (!p)
        return false;
    if (!tt_window_message_read(&m, payload, bytes)) {
        tt_fail(TUTTI_ERR_PROTOCOL,
                "protocol error: rank %u sent an invalid window message of %u bytes", from, bytes);
        return false;
    }
    if (m.verb == TT_WINDOW_ANSWER) {
        if (!handle_reply(p, &m, follows)) {
            tt_fail(TUTTI_ERR_PROTOCOL,
                    "protocol error: rank %u sent a window reply without a request", from);
            return false;
        }
        return true;
    }
    if (m.verb == TT_WINDOW_LEAVE) {
        if (!home_handle_leave(home, from, &m)) {
            tt_fail(TUTTI_ERR_PROTOCOL,
                    "protocol error: rank %u sent LEAVE for window %u, of which it is not a member",
                    from, m.window);
            return false;
        }
        return true;
    }
    if (p->answers_tail - p->answers_head == TT_WINDOW_REQUESTS_MAX) {
        tt_fail(TUTTI_ERR_PROTOCOL,
                "protocol error: rank %u has more than %u window requests outstanding", from,
                TT_WINDOW_REQUESTS_MAX);
        return false;
    }
    if (!execute(home, &m, follows)) {
        tt_fail(TUTTI_ERR_PROTOCOL,
                "protocol error: rank %u accessed window %u out of bounds: %llu bytes at offset "
                "%llu, signal at offset %llu",
                from, m.window, (unsigned long long)m.bytes, (unsigned long long)m.offset,
                (unsigned long long)m.signal_offset);
        return false;
    }
    p->answers[p->answers_tail++ % TT_WINDOW_REQUESTS_MAX] = m;
    home->nanswers++;
    send_replies(home, p);
    return true;
}

/* ---- callbacks of the engine ----------------------------------------------------------------- */

/* Wakes waiters whose condition is true: they may sleep while another thread makes progress. */
static bool wake_ready_waiters(struct tt_windows *home)
{
    bool any = false;

    for (struct tt_window_waiter *w = home->waiters; w; w = w->next) {
        const bool ready = w->is_ready(w);

        any |= ready && !w->told;
        w->told = ready;
    }
    if (any)
        tt_engine_client_wake(home->engine);
    return any;
}

static bool home_run(void *arg)
{
    struct tt_windows *home = arg;
    bool any = wake_ready_waiters(home);

    any |= tt_window_queue_run(home);

    for (uint32_t r = 0; home->nanswers > 0 && r < home->nranks; r++)
        if (home->peers[r])
            any |= send_replies(home, home->peers[r]);
    return any;
}

static bool has_news(void *arg)
{
    const struct tt_windows *home = arg;

    for (const struct tt_window_waiter *w = home->waiters; w; w = w->next)
        if (!w->told && w->is_ready(w))
            return true;
    return false;
}

static bool is_stuck(void *arg)
{
    const struct tt_windows *home = arg;

    return home->nattempts > 0 || home->nanswers > 0 || home->queued;
}

static bool uses(void *arg, const void *mem, size_t bytes)
{
    return tt_windows_use(arg, mem, bytes);
}

static void window_end(struct tt_window *w)
{
    if (w->ndevices > 0)
        tt_log(TT_LOG_ERROR, "a window, or its communicator, was destroyed while a device uses it "
                             "(call tutti_device_destroy first)");
    tt_assert(w->ndevices == 0);
    tt_window_invalidate(w);
    tt_transfers_drop(w);
    tt_window_destroy(w);
}

/* A communicator was destroyed before its windows: destroys them as well. */
static bool close_context(void *arg, const struct tt_context *c)
{
    struct tt_windows *home = arg;
    struct tt_window **at = &home->first;
    bool any = false;

    while (*at) {
        struct tt_window *w = *at;

        if (w->comm->context != c) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        tt_engine_client_expects(home->engine, false);
        window_end(w);
        any = true;
    }
    return any;
}

static void close_windows(void *arg)
{
    struct tt_windows *home = arg;

    while (home->first) {
        struct tt_window *w = home->first;

        home->first = w->next;
        window_end(w);
    }
    for (uint32_t r = 0; r < home->nranks; r++)
        free(home->peers[r]);
    free(home->peers);
    free(home->transfers);
    free(home);
}

tutti_status tt_windows_of(struct tt_world *world, struct tt_windows **out)
{
    const struct tt_engine_client *there = tt_engine_client_of(world->engine);
    struct tt_windows *home;

    if (there) {
        *out = there->arg;
        return TUTTI_OK;
    }
    if (world->nranks > TT_MARK_MASK)
        return tt_fail(
            TUTTI_ERR_UNSUPPORTED,
            "tutti_window_create: a job of %u ranks is too large: windows support at most %u",
            world->nranks, TT_MARK_MASK);
    home = calloc(1, sizeof *home);
    if (home)
        home->peers = calloc(world->nranks, sizeof(struct tt_window_peer *));
    if (!home || !home->peers) {
        free(home);
        return tt_fail(TUTTI_ERR_NOMEM, "window: out of memory for a job of %u ranks",
                       world->nranks);
    }
    home->engine = world->engine;
    home->rank = world->rank;
    home->nranks = world->nranks;
    home->guest = (struct tt_engine_client){
        .arg = home,
        .run = home_run,
        .has_news = has_news,
        .is_stuck = is_stuck,
        .mail = home_handle_message,
        .done = home_handle_completion,
        .uses = uses,
        .close_context = close_context,
        .close = close_windows,
    };
    there = tt_engine_register_client(world->engine, &home->guest);
    if (there != &home->guest) {    /* another thread was faster */
        free(home->peers);
        free(home);
    }
    *out = there->arg;
    return TUTTI_OK;
}

struct tt_window_peer *tt_window_peer_of(struct tt_windows *home, uint32_t rank)
{
    if (!home->peers[rank]) {
        home->peers[rank] = calloc(1, sizeof(struct tt_window_peer));
        if (!home->peers[rank])
            tt_fail(TUTTI_ERR_NOMEM, "window: out of memory for the state of rank %u", rank);
        else
            *home->peers[rank] =
                (struct tt_window_peer){ .rank = rank, .oldest_queued = UINT64_MAX };
    }
    return home->peers[rank];
}

struct tt_window *tt_window_find(const struct tt_windows *home, uint32_t id)
{
    struct tt_window *w = home->first;

    while (w && w->id != id)
        w = w->next;
    return w;
}
