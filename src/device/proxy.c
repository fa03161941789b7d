#include "device/proxy.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "device/planted.h"

#define DEPTH_FIRST 16u         /* initial size of a peer's queue in commands */
#define TURN 64                 /* commands of one peer before the next peer is served */

static void counter_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static bool decides_by_drain(const struct tt_proxy *p)
{
    return p->conf.mode == TUTTI_DEVICE_COUPLED || p->conf.mode == TUTTI_DEVICE_DECOUPLED;
}

tutti_status tt_proxy_init(struct tt_proxy *p, const struct tt_proxy_conf *conf)
{
    memset(p, 0, sizeof *p);
    p->conf = *conf;
    p->peers = calloc(conf->nranks, sizeof(struct tt_proxy_peer *));
    if (!p->peers)
        return tt_fail(TUTTI_ERR_NOMEM, "device proxy: out of memory for %u ranks", conf->nranks);
    return TUTTI_OK;
}

void tt_proxy_fini(struct tt_proxy *p)
{
    for (uint32_t r = 0; p->peers && r < p->conf.nranks; r++)
        if (p->peers[r]) {
            free(p->peers[r]->ring);
            free(p->peers[r]);
        }
    free(p->peers);
    p->peers = NULL;
}

/* ---- tickets ---- */

static uint32_t ticket_kind(const struct tt_command *c)
{
    return c->what == TUTTI_TRIGGER_FLUSH;
}

static void answer_ticket(struct tt_proxy *p, const struct tt_command *c)
{
    const uint32_t column = c->peer == TUTTI_DEVICE_ALL ? p->conf.nranks : c->peer;
    uint64_t *word = &p->conf.answers[ticket_kind(c) * (p->conf.nranks + 1) + column];

    __atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) + 1, __ATOMIC_RELEASE);
    counter_add(&p->counters.quiets, 1);
}

/* Records one peer's answer to a ticket. A query of all peers is complete with the last answer. */
static void answer_part(struct tt_proxy *p, const struct tt_command *c)
{
    if (c->peer != TUTTI_DEVICE_ALL ||
        --p->parts[ticket_kind(c)][c->ticket % TUTTI_DEVICE_TICKETS] == 0)
        answer_ticket(p, c);
}

/* ---- credits ---- */

/* Returns a command's credit, so that blocks may enter another command for that peer. */
static void return_credit(struct tt_proxy *p, const struct tt_command *c)
{
    uint64_t *given;

    if (!c->credited ||
        (c->what == TUTTI_TRIGGER_FENCE && TT_DEVICE_PLANTED(TT_DEVICE_BUG_CREDIT_LOST)))
        return;
    /* a command for all peers has no credit, and no counter there */
    given = &p->conf.given[c->peer];
    __atomic_store_n(given, __atomic_load_n(given, __ATOMIC_RELAXED) + 1, __ATOMIC_RELEASE);
}

/* ---- queues ---- */

static struct tt_proxy_peer *proxy_peer(struct tt_proxy *p, uint32_t rank)
{
    if (!p->peers[rank]) {
        p->peers[rank] = calloc(1, sizeof(struct tt_proxy_peer));
        if (p->peers[rank])
            p->peers[rank]->rank = rank;
    }
    return p->peers[rank];
}

static bool grow_queue(struct tt_proxy_peer *peer)
{
    const uint32_t depth = peer->depth ? peer->depth * 2 : DEPTH_FIRST;
    struct tt_command *ring = malloc(depth * sizeof *ring);

    if (!ring)
        return false;
    for (uint32_t i = peer->head; i != peer->tail; i++)
        ring[i & (depth - 1)] = peer->ring[i & (peer->depth - 1)];
    free(peer->ring);
    peer->ring = ring;
    peer->depth = depth;
    return true;
}

/* Returns the maximum size of a peer's queue: commands with credits, all possible queries, a
 * wake, and the second half of a split put. */
static uint32_t depth_max(const struct tt_proxy *p)
{
    return p->conf.pending + 4 * TUTTI_DEVICE_TICKETS + 2;
}

/* Returns whether another command fits. This is always true, unless memory is short or a kernel
 * violates tutti/device.h; then the FIFO waits. */
static bool queue_has_room(struct tt_proxy *p, uint32_t rank)
{
    struct tt_proxy_peer *peer = proxy_peer(p, rank);

    if (!peer || peer->tail - peer->head >= depth_max(p))
        return false;
    return peer->tail - peer->head < peer->depth || grow_queue(peer);
}

/* For a planted bug: returns whether some peer has the maximum number of commands. */
static bool is_one_full(const struct tt_proxy *p)
{
    for (const struct tt_proxy_peer *peer = p->busy; peer; peer = peer->next_busy)
        if (peer->tail - peer->head >= p->conf.pending)
            return true;
    return false;
}

static void push_command(struct tt_proxy *p, uint32_t rank, const struct tt_command *c)
{
    struct tt_proxy_peer *peer = p->peers[rank];

    peer->ring[peer->tail++ & (peer->depth - 1)] = *c;
    if (peer->busy)
        return;
    peer->busy = true;
    peer->next_busy = p->busy;
    p->busy = peer;
}

/* ---- from the FIFO to queues ---- */

static void begin_drain(struct tt_proxy *p, const struct tt_command *behind)
{
    if (TT_DEVICE_PLANTED(TT_DEVICE_BUG_DRAIN_SKIPPED)) {
        if (behind->what)
            push_command(p, behind->peer, behind);
        return;
    }
    p->drains = true;
    p->drain_ns = 0;
    p->behind = *behind;
    for (uint32_t r = 0; r < p->conf.nranks; r++)
        if (p->peers[r])
            p->peers[r]->drained = false;
}

/* Splits a put with a signal that a drain must separate: data now, signal after the drain. */
static void split_put(struct tt_proxy *p, const struct tt_command *c)
{
    struct tt_command bytes = *c;
    const struct tt_command signal = {
        .what = TUTTI_TRIGGER_SIGNAL,
        .op = c->op,
        .peer = c->peer,
        .word = c->word,
        .value = c->value,
        .credited = c->credited,
    };

    bytes.op = TUTTI_SIGNAL_NONE;
    bytes.credited = false;     /* the signal returns the credit */
    if (c->bytes > 0)
        push_command(p, c->peer, &bytes);
    begin_drain(p, &signal);
}

/* Accepts a query to all peers that have had commands. */
static bool accept_of_all(struct tt_proxy *p, const struct tt_command *c)
{
    struct tt_command part = *c;
    uint32_t *parts;

    part.ticket = p->next_ticket[ticket_kind(c)];
    parts = &p->parts[ticket_kind(c)][part.ticket % TUTTI_DEVICE_TICKETS];
    if (*parts > 0)             /* more queries than blocks may enter */
        return false;
    for (uint32_t r = 0; r < p->conf.nranks; r++)
        if (p->peers[r] && !queue_has_room(p, r))
            return false;
    p->next_ticket[ticket_kind(c)]++;
    *parts = 1;
    for (uint32_t r = 0; r < p->conf.nranks; r++)
        if (p->peers[r]) {
            (*parts)++;
            push_command(p, r, &part);
        }
    answer_part(p, &part);
    return true;
}

/* Accepts a wake for the host threads of a peer. One wake in its queue covers all signals stored
 * before it is sent. */
static bool accept_wake(struct tt_proxy *p, const struct tt_command *c)
{
    if (!queue_has_room(p, c->peer))
        return false;
    if (!p->peers[c->peer]->wakes)
        push_command(p, c->peer, c);
    p->peers[c->peer]->wakes = true;
    return true;
}

/* Accepts a command. Returns false if there is no room now. */
static bool accept(struct tt_proxy *p, const struct tt_command *c)
{
    const bool is_query = c->what == TUTTI_TRIGGER_QUIET || c->what == TUTTI_TRIGGER_FLUSH;

    if (c->what == TUTTI_TRIGGER_WAKE)      /* signals after it need another wake */
        __atomic_store_n(&p->conf.wake_sent[c->peer], 0, __ATOMIC_SEQ_CST);
    if (p->failed) {
        if (is_query)
            answer_ticket(p, c);
        return_credit(p, c);
        return true;
    }
    if (p->drains || (TT_DEVICE_PLANTED(TT_DEVICE_BUG_ROOM_OF_ALL) && is_one_full(p)))
        return false;
    if (c->peer == TUTTI_DEVICE_ALL)
        return accept_of_all(p, c);
    if (c->what == TUTTI_TRIGGER_WAKE)
        return accept_wake(p, c);
    if (!queue_has_room(p, c->peer))
        return false;
    if (c->what == TUTTI_TRIGGER_PUT && c->op && decides_by_drain(p))
        split_put(p, c);
    else if (c->what == TUTTI_TRIGGER_FENCE &&
             (decides_by_drain(p) || TT_DEVICE_PLANTED(TT_DEVICE_BUG_FENCE_WAITS))) {
        begin_drain(p, &(struct tt_command){ .what = TUTTI_TRIGGER_NONE });
        return_credit(p, c);
    } else
        push_command(p, c->peer, c);
    return true;
}

/* Returns the slot of the next position if it is filled: its parity is that of the lap. */
static const tutti_device_trigger *next_trigger(const struct tt_proxy *p, uint64_t *head)
{
    const tutti_device_trigger *slot = &p->conf.fifo[p->at & (p->conf.fifo_slots - 1)];
    const uint64_t parity = (p->at / p->conf.fifo_slots + 1) & 1;

    *head = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE);
    if (TT_DEVICE_PLANTED(TT_DEVICE_BUG_PARITY_IGNORED))
        return *head ? slot : NULL;
    return (*head & 1) == parity ? slot : NULL;
}

bool tt_proxy_has_trigger(const struct tt_proxy *p)
{
    uint64_t head;

    return next_trigger(p, &head) != NULL;
}

static tutti_status fail_command(const struct tt_proxy *p, const struct tt_command *c)
{
    if (c->what == TUTTI_TRIGGER_PUT && c->bytes && !c->src)
        return tt_fail(
            TUTTI_ERR_INVALID,
            "device FIFO: invalid put before position %llu: its source is NULL (rank %u, "
            "%llu bytes at offset %llu)",
            (unsigned long long)p->at, c->peer, (unsigned long long)c->bytes,
            (unsigned long long)c->offset);
    return tt_fail(
        TUTTI_ERR_INVALID,
        "device FIFO: invalid command before position %llu: outside the window (kind %u, "
        "rank %u, %llu bytes at offset %llu, word %llu)",
        (unsigned long long)p->at, c->what, c->peer, (unsigned long long)c->bytes,
        (unsigned long long)c->offset, (unsigned long long)c->word);
}

/* Checks a command from the FIFO, and accepts it or stores it in `held`. An invalid one ends the
 * device, which then drops all further ones. */
static tutti_status check_and_accept(struct tt_proxy *p, struct tt_command *c)
{
    c->credited = c->what == TUTTI_TRIGGER_PUT || c->what == TUTTI_TRIGGER_SIGNAL ||
                  c->what == TUTTI_TRIGGER_FENCE;
    if (!tt_command_fits(c, p->conf.rank, p->conf.nranks, p->conf.bytes, p->conf.words))
        return p->failed ? TUTTI_OK : fail_command(p, c);
    p->holds = !accept(p, c);
    if (p->holds)
        p->held = *c;
    return TUTTI_OK;
}

uint32_t tt_proxy_take(struct tt_proxy *p, tutti_status *st)
{
    const tutti_device_trigger *slot;
    const uint64_t began = p->at;
    struct tt_command c;
    uint64_t head;

    *st = TUTTI_OK;
    if (p->holds)
        p->holds = !accept(p, &p->held);
    while (!p->holds && !*st && p->at - began < p->conf.fifo_slots &&
           (slot = next_trigger(p, &head))) {
        const uint64_t body = slot->body;
        const enum tt_trigger_found found = tt_trigger_take(&p->reader, head, body, &c);

        p->at++;
        if (found == TT_TRIGGER_WHOLE)
            *st = check_and_accept(p, &c);
        else if (found == TT_TRIGGER_BAD && !p->failed)
            *st = tt_fail(
                TUTTI_ERR_INVALID, "device FIFO: invalid trigger at position %llu (%#llx, %#llx)",
                (unsigned long long)p->at - 1, (unsigned long long)head, (unsigned long long)body);
    }
    if (p->at == began)
        return 0;
    counter_add(&p->counters.triggers, p->at - began);
    __atomic_store_n(p->conf.taken, p->at, __ATOMIC_RELEASE);
    return (uint32_t)(p->at - began);
}

/* ---- from queues to the sink ---- */

static tutti_status pass_put(struct tt_proxy *p, struct tt_proxy_peer *peer,
                             const struct tt_command *c)
{
    const bool ordered = c->op && peer->marked && !TT_DEVICE_PLANTED(TT_DEVICE_BUG_MARK_LOST);
    const tutti_status st = p->conf.sink.put(p->conf.sink.arg, c, ordered, &peer->done);

    if (st)
        return st;
    peer->given++;
    if (c->what == TUTTI_TRIGGER_PUT) {
        counter_add(&p->counters.puts, 1);
        counter_add(&p->counters.put_bytes, c->bytes);
    }
    if (!c->op)
        return TUTTI_OK;
    counter_add(&p->counters.signals, 1);
    if (peer->marked || c->bytes > 0)   /* ordered after its own data, or after earlier puts */
        counter_add(&p->counters.fences, 1);
    peer->marked = false;
    return TUTTI_OK;
}

/* Passes one command to the sink. */
static tutti_status pass_command(struct tt_proxy *p, struct tt_proxy_peer *peer,
                                 const struct tt_command *c)
{
    tutti_status st;

    switch (c->what) {
    case TUTTI_TRIGGER_PUT:
    case TUTTI_TRIGGER_SIGNAL:
        return pass_put(p, peer, c);
    case TUTTI_TRIGGER_FENCE:
        peer->marked = true;
        return TUTTI_OK;
    case TUTTI_TRIGGER_WAKE:
        st = p->conf.sink.wake(p->conf.sink.arg, peer->rank);
        peer->wakes = st == TUTTI_PENDING;
        return st;
    case TUTTI_TRIGGER_FLUSH:
        if (__atomic_load_n(&peer->done, __ATOMIC_ACQUIRE) != peer->given &&
            !TT_DEVICE_PLANTED(TT_DEVICE_BUG_FLUSH_EARLY))
            return TUTTI_PENDING;
        answer_part(p, c);
        return TUTTI_OK;
    default:
        tt_assert(c->what == TUTTI_TRIGGER_QUIET);
        st = p->conf.sink.quiet(p->conf.sink.arg, peer->rank);
        if (!st)
            answer_part(p, c);
        return st;
    }
}

/* Returns whether a wait has exceeded the timeout; records its beginning. */
static bool is_late(const struct tt_proxy *p, uint64_t *since_ns, uint64_t now_ns)
{
    if (*since_ns == 0)
        *since_ns = now_ns;
    return p->conf.timeout_ns != TT_NEVER && now_ns - *since_ns > p->conf.timeout_ns;
}

/* Passes some commands of one peer to the sink. */
static tutti_status serve_peer(struct tt_proxy *p, struct tt_proxy_peer *peer, uint64_t now_ns,
                               bool *any, bool *stalled)
{
    for (int i = 0; i < TURN && peer->head != peer->tail; i++) {
        const struct tt_command *c = &peer->ring[peer->head & (peer->depth - 1)];
        const tutti_status st = pass_command(p, peer, c);

        if (st == TUTTI_PENDING) {
            *stalled |= c->what == TUTTI_TRIGGER_PUT || c->what == TUTTI_TRIGGER_SIGNAL;
            if (!is_late(p, &peer->stuck_ns, now_ns))
                return TUTTI_OK;
            return tt_fail(TUTTI_ERR_TIMEOUT,
                           "device put timed out: rank %u accepted no data for %llu ms", peer->rank,
                           (unsigned long long)(p->conf.timeout_ns / TT_MS));
        }
        if (st)
            return st;
        peer->stuck_ns = 0;
        return_credit(p, c);
        peer->head++;
        *any = true;
    }
    return TUTTI_OK;
}

/* Continues a drain: checks whether everything sent to each peer has landed. All peers are queried
 * before the first wait, so that the drain takes a single round trip. A drained peer is not
 * queried again, since later puts to it do not belong to this drain. */
static tutti_status continue_drain(struct tt_proxy *p, uint64_t now_ns, bool *any)
{
    uint32_t waits_for = UINT32_MAX;

    for (uint32_t r = 0; r < p->conf.nranks; r++) {
        tutti_status st;

        if (!p->peers[r] || p->peers[r]->drained)
            continue;
        st = p->conf.sink.quiet(p->conf.sink.arg, r);
        if (st && st != TUTTI_PENDING)
            return st;
        if (st == TUTTI_PENDING)
            waits_for = r;
        else
            p->peers[r]->drained = true;
    }
    if (waits_for != UINT32_MAX && is_late(p, &p->drain_ns, now_ns))
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "device drain timed out: puts to rank %u did not complete within %llu ms",
                       waits_for, (unsigned long long)(p->conf.timeout_ns / TT_MS));
    if (waits_for != UINT32_MAX)
        return TUTTI_OK;
    counter_add(&p->counters.drains, 1);
    p->drains = false;
    if (p->behind.what)
        push_command(p, p->behind.peer, &p->behind);    /* the peer's queue is empty */
    *any = true;
    return TUTTI_OK;
}

tutti_status tt_proxy_step(struct tt_proxy *p, uint64_t now_ns, bool *any)
{
    struct tt_proxy_peer **at = &p->busy;
    bool stalled = false;

    while (*at) {
        struct tt_proxy_peer *peer = *at;
        const tutti_status st = serve_peer(p, peer, now_ns, any, &stalled);

        if (st)
            return st;
        if (peer->head == peer->tail) {
            peer->busy = false;
            *at = peer->next_busy;
        } else {
            at = &peer->next_busy;
        }
    }
    counter_add(&p->counters.stalls, stalled);
    return p->drains && !p->busy ? continue_drain(p, now_ns, any) : TUTTI_OK;
}

bool tt_proxy_is_idle(const struct tt_proxy *p)
{
    return !p->busy && !p->drains && !p->holds;
}

void tt_proxy_fail(struct tt_proxy *p, tutti_status status)
{
    p->failed = status;
    if (p->drains && p->behind.what)
        return_credit(p, &p->behind);
    p->drains = false;
    while (p->busy) {
        struct tt_proxy_peer *peer = p->busy;

        for (; peer->head != peer->tail; peer->head++) {
            const struct tt_command *c = &peer->ring[peer->head & (peer->depth - 1)];

            if (c->what == TUTTI_TRIGGER_QUIET || c->what == TUTTI_TRIGGER_FLUSH)
                answer_part(p, c);
            return_credit(p, c);
        }
        p->busy = peer->next_busy;
        peer->busy = false;
    }
}
