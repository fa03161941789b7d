#include "net.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"

struct net *net_create(uint64_t seed)
{
    struct net *n = calloc(1, sizeof *n);

    tt_assert(n);
    tt_prng_init(&n->prng, seed);
    for (uint32_t r = 0; r < NET_RANKS; r++)
        n->peers[r].takes = UINT32_MAX;
    return n;
}

static tutti_status put(void *arg, const struct tt_command *c, bool ordered, uint64_t *done)
{
    struct net *n = arg;
    struct net_peer *p = &n->peers[c->peer];

    if (c->bytes > sizeof p->items[0].copy)
        n->wrong++;
    if (p->takes == 0 || p->nitems == NET_ITEMS || c->bytes > sizeof p->items[0].copy ||
        (n->choosy && tt_prng_below(&n->prng, 4) == 0))
        return TUTTI_PENDING;
    if (p->takes != UINT32_MAX)
        p->takes--;
    p->items[p->nitems++] = (struct net_item){ .c = *c, .ordered = ordered, .done = done };
    return TUTTI_OK;
}

static bool all_landed(const struct net_peer *p, uint32_t items)
{
    for (uint32_t i = 0; i < items; i++)
        if (!p->items[i].landed)
            return false;
    return true;
}

static tutti_status quiet(void *arg, uint32_t peer)
{
    const struct net *n = arg;
    const struct net_peer *p = &n->peers[peer];

    for (uint32_t i = 0; i < p->nitems; i++)
        if (!p->items[i].landed || (p->items[i].c.op && !p->items[i].raised))
            return TUTTI_PENDING;
    return TUTTI_OK;
}

static tutti_status wake(void *arg, uint32_t peer)
{
    struct net *n = arg;

    if (n->peers[peer].deaf)
        return TUTTI_PENDING;
    n->peers[peer].wakes++;
    return TUTTI_OK;
}

struct tt_proxy_putter net_sink(struct net *n)
{
    return (struct tt_proxy_putter){ .arg = n, .put = put, .quiet = quiet, .wake = wake };
}

static void raise_signal(struct net *n, uint32_t peer, const struct net_item *it)
{
    uint8_t *at = n->peers[peer].mem + it->c.word;
    uint64_t word = it->c.value;

    if (it->c.op == TUTTI_SIGNAL_ADD)
        word += net_word(n, peer, it->c.word);
    memcpy(at, &word, sizeof word);
    if (n->raised)
        n->raised(n->arg, peer, it->c.word);
}

/* A put's source is read, then its bytes arrive, then its signal is raised: each at a separate
 * random time. */
static void advance(struct net *n, uint32_t peer, uint32_t i)
{
    struct net_peer *p = &n->peers[peer];
    struct net_item *it = &p->items[i];

    if (!it->sent) {
        if (it->c.bytes)
            memcpy(it->copy, it->c.src, it->c.bytes);
        it->sent = true;
        __atomic_fetch_add(it->done, 1, __ATOMIC_RELEASE);
    } else if (!it->landed && !p->stopped) {
        if (it->c.bytes)
            memcpy(p->mem + it->c.offset, it->copy, it->c.bytes);
        it->landed = true;
    } else if (it->landed && it->c.op && !it->raised && (!it->ordered || all_landed(p, i))) {
        it->raised = true;
        raise_signal(n, peer, it);
    }
}

void net_turn(struct net *n)
{
    for (uint32_t peer = 0; peer < NET_RANKS; peer++) {
        const uint32_t nitems = n->peers[peer].nitems;

        for (int k = 0; k < 3 && nitems > 0; k++) {
            const uint32_t among = nitems < 24 ? nitems : 24;

            advance(n, peer, nitems - 1 - (uint32_t)tt_prng_below(&n->prng, among));
        }
        if (nitems > 0)         /* so that old items are eventually processed */
            advance(n, peer, (uint32_t)tt_prng_below(&n->prng, nitems));
    }
}

bool net_is_empty(const struct net *n)
{
    for (uint32_t r = 0; r < NET_RANKS; r++)
        if (!n->peers[r].stopped && quiet((void *)(uintptr_t)n, r) != TUTTI_OK)
            return false;
    return true;
}

uint64_t net_word(const struct net *n, uint32_t peer, uint64_t offset)
{
    uint64_t word;

    memcpy(&word, n->peers[peer].mem + offset, sizeof word);
    return word;
}

/* ---- the device ---- */

struct bench *bench_create(uint64_t seed, tutti_device_mode mode, uint32_t slots, uint32_t pending,
                           uint64_t timeout_ns)
{
    struct bench *b = calloc(1, sizeof *b);

    tt_assert(b);
    b->net = net_create(seed);
    b->fifo = calloc(slots, sizeof *b->fifo);
    tt_assert(b->fifo);
    for (uint32_t r = 0; r < NET_RANKS; r++) {
        b->bytes[r] = NET_BYTES;
        b->words[r] = 1;
    }
    if (pending == 0)
        pending = TUTTI_DEVICE_PENDING;
    b->direct[0] = b->net->peers[0].mem;
    b->view = (tutti_device_view){
        .nranks = NET_RANKS,
        .mode = (uint32_t)mode,
        .fifo_slots = slots,
        .ngroups = NET_RANKS,
        .fifo = b->fifo,
        .reserved = &b->reserved,
        .taken_seen = &b->taken_seen,
        .taken = &b->taken,
        .full_waits = &b->full_waits,
        .status = &b->status,
        .clock_ms = &b->clock_ms,
        .timeout_ms = UINT64_MAX,
        .pulse = &b->pulse,
        .tickets = b->tickets,
        .pending = pending,
        .entered = b->entered,
        .given_seen = b->given_seen,
        .given = b->given,
        .room_waits = &b->room_waits,
        .answers = b->answers,
        .groups = b->groups,
        .wake_sent = b->wake_sent,
        .mine = b->net->peers[0].mem,
        .direct = b->direct,
        .bytes = b->bytes,
        .words = b->words,
    };
    const struct tt_proxy_conf conf = {
        .sink = net_sink(b->net),
        .mode = mode,
        .nranks = NET_RANKS,
        .timeout_ns = timeout_ns,
        .fifo = b->fifo,
        .fifo_slots = slots,
        .taken = &b->taken,
        .answers = b->answers,
        .given = b->given,
        .pending = pending,
        .wake_sent = b->wake_sent,
        .bytes = b->bytes,
        .words = b->words,
    };

    tt_assert(tt_proxy_init(&b->proxy, &conf) == TUTTI_OK);
    return b;
}

void bench_destroy(struct bench *b)
{
    tt_proxy_fini(&b->proxy);
    free(b->fifo);
    free(b->net);
    free(b);
}

tutti_status bench_turn(struct bench *b)
{
    bool any = false;
    tutti_status st;

    b->now_ns += TT_MS;
    tt_proxy_take(&b->proxy, &st);
    if (!st && !b->proxy.failed)
        st = tt_proxy_step(&b->proxy, b->now_ns, &any);
    if (st && !b->proxy.failed) {
        b->status = st;
        tt_proxy_fail(&b->proxy, st);
    }
    return st;
}

bool bench_has_room(const struct bench *b, uint32_t peer, uint32_t n)
{
    if (peer != TUTTI_DEVICE_ALL && !tutti_device_has_room(&b->view, peer, n))
        return false;
    return b->reserved - b->taken + n <= b->view.fifo_slots;
}

uint64_t bench_post_question(struct bench *b, uint32_t what, uint32_t peer)
{
    const uint64_t word = (what == TUTTI_TRIGGER_FLUSH) * (NET_RANKS + 1) +
                          (peer == TUTTI_DEVICE_ALL ? NET_RANKS : peer);

    tutti_device_push(&b->view, tutti_trigger_head(what, 0, peer, 0), 0);
    return word << 32 | b->tickets[word]++;
}

bool bench_is_answered(const struct bench *b, uint64_t ticket)
{
    return b->answers[ticket >> 32] > (uint32_t)ticket;
}
