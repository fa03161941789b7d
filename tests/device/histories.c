#include "histories.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "net.h"

#define MESSAGES 48             /* per history; each has a separate offset and signal */
#define TILES 4                 /* maximum number of puts per message */
#define TILE_BYTES 64
#define SIGNALS 8192            /* offset of the signal words */
#define TURNS_MAX 200000

/* A message: puts to one peer, and a signal ordered after some of them. */
struct message {
    uint32_t peer, tiles, first;    /* the signal follows the tiles from `first` on */
    uint32_t bytes[TILES];
    uint64_t ticket;                /* ticket of a later flush */
    bool flushes, freed, raised;
    uint8_t *src[TILES];
};

struct history {
    struct bench *b;
    struct message messages[MESSAGES];
    uint32_t nmessages;
    char *why;
    size_t why_bytes;
    bool wrong;
    uint32_t stopped, stopped_for;  /* stopped: a rank that accepts nothing; stopped_for: the number
                                       of remaining steps */
};

static uint64_t place_of(uint32_t m, uint32_t tile) { return (m * TILES + tile) * 32ull; }

static uint8_t byte_of(uint32_t m, uint32_t tile, uint32_t i)
{
    return (uint8_t)(1 + (m * 7 + tile * 3 + i) % 250);
}

static void blame(struct history *h, const char *what, uint32_t m, uint32_t tile)
{
    if (!h->wrong)
        snprintf(h->why, h->why_bytes, "%s: message %u to rank %u, tile %u", what, m,
                 h->messages[m].peer, tile);
    h->wrong = true;
}

static void look_at(struct history *h, uint32_t m)
{
    const struct message *e = &h->messages[m];
    const uint8_t *mem = h->b->net->peers[e->peer].mem;

    for (uint32_t t = e->first; t < e->tiles; t++)
        for (uint32_t i = 0; i < e->bytes[t]; i++)
            if (mem[place_of(m, t) + i] != byte_of(m, t, i)) {
                blame(h, "a signal was seen before its bytes", m, t);
                return;
            }
}

static void raised(void *arg, uint32_t peer, uint64_t word)
{
    struct history *h = arg;
    const uint32_t m = (uint32_t)(word - SIGNALS) / 8;

    if (m >= h->nmessages || h->messages[m].peer != peer || h->messages[m].raised) {
        blame(h, "a signal came that nobody had sent, or twice", m % MESSAGES, 0);
        return;
    }
    h->messages[m].raised = true;
    look_at(h, m);
}

/* Occasionally, one rank accepts nothing for a while. */
static void stop_and_go(struct history *h)
{
    struct net *net = h->b->net;

    if (h->stopped_for > 0 && --h->stopped_for == 0)
        net->peers[h->stopped].takes = UINT32_MAX;
    if (h->stopped_for > 0 || tt_prng_below(&net->prng, 100) > 0)
        return;
    h->stopped = 1 + (uint32_t)tt_prng_below(&net->prng, NET_RANKS - 1);
    h->stopped_for = 1 + (uint32_t)tt_prng_below(&net->prng, 100);
    net->peers[h->stopped].takes = (uint32_t)tt_prng_below(&net->prng, 3);
}

/* Advances the network; flushed sources may be reused from then on. */
static void turn(struct history *h)
{
    stop_and_go(h);
    if (bench_turn(h->b) && !h->wrong) {
        snprintf(h->why, h->why_bytes, "the proxy ended: %s", tutti_last_error());
        h->wrong = true;
    }
    net_turn(h->b->net);
    for (uint32_t m = 0; m < h->nmessages; m++) {
        struct message *e = &h->messages[m];

        if (!e->flushes || e->freed || !bench_is_answered(h->b, e->ticket))
            continue;
        for (uint32_t t = 0; t < e->tiles; t++)
            memset(e->src[t], 0xee, TILE_BYTES);
        e->freed = true;
    }
}

/* Waits until there is space for n triggers, and for as many commands to the peer. */
static bool room(struct history *h, uint32_t peer, uint32_t n)
{
    for (uint32_t i = 0; i < TURNS_MAX && !h->wrong; i++) {
        if (bench_has_room(h->b, peer, n))
            return true;
        turn(h);
    }
    blame(h, "there is no room for ever", h->nmessages - 1, 0);
    return false;
}

static void put_tile(struct history *h, uint32_t m, uint32_t t, const tutti_device_signal_to *s,
                     uint64_t way)
{
    const struct message *e = &h->messages[m];
    const tutti_device_view *v = &h->b->view;

    if (!room(h, e->peer, 3))
        return;
    if (way == 1 && t == e->tiles - 1)
        tutti_device_put_signal(v, e->peer, place_of(m, t), e->src[t], e->bytes[t], s->op,
                                s->offset, s->value);
    else
        tutti_device_put(v, e->peer, place_of(m, t), e->src[t], e->bytes[t]);
}

/* Sends one message by one of three methods: puts, a fence, and a signal; puts, the last of which
 * has a signal; or a group of blocks with one tile each. */
static void send(struct history *h, uint32_t m)
{
    struct message *e = &h->messages[m];
    struct tt_prng *prng = &h->b->net->prng;
    const uint64_t way = tt_prng_below(prng, 3);
    const tutti_device_signal_to s = {
        .peer = e->peer, .op = tt_prng_below(prng, 2) ? TUTTI_SIGNAL_SET : TUTTI_SIGNAL_ADD,
        .offset = SIGNALS + 8ull * m, .value = m + 1,
    };
    const tutti_device_view *v = &h->b->view;
    const uint32_t group = e->peer;

    if (way == 2) {             /* in modes without decoupling, each tile has its own signal, so the
                                   message has one tile */
        e->tiles = v->mode == TUTTI_DEVICE_FULL || v->mode == TUTTI_DEVICE_DECOUPLED ? e->tiles : 1;
        for (uint32_t t = 0; t < e->tiles && room(h, e->peer, 3); t++) {
            tutti_device_group_put(v, place_of(m, t), e->src[t], e->bytes[t], &s);
            tutti_device_group_publish(v, group);
        }
        if (room(h, e->peer, 2))
            tutti_device_group_signal(v, group, h->b->groups[group * 8], &s, 1);
        return;
    }
    e->first = way == 1 ? e->tiles - 1 : 0;
    for (uint32_t t = 0; t < e->tiles; t++)
        put_tile(h, m, t, &s, way);
    if (way == 0 && room(h, e->peer, 2)) {
        tutti_device_fence(v, e->peer);
        tutti_device_signal(v, e->peer, s.op, s.offset, s.value);
    }
}

static void draw(struct history *h, uint32_t m)
{
    struct message *e = &h->messages[m];
    struct tt_prng *prng = &h->b->net->prng;

    *e = (struct message){ .peer = 1 + (uint32_t)tt_prng_below(prng, NET_RANKS - 1),
                           .tiles = 1 + (uint32_t)tt_prng_below(prng, TILES) };
    for (uint32_t t = 0; t < TILES; t++) {
        e->bytes[t] = (uint32_t)tt_prng_below(prng, 33);
        e->src[t] = malloc(TILE_BYTES);
        for (uint32_t i = 0; e->src[t] && i < TILE_BYTES; i++)
            e->src[t][i] = byte_of(m, t, i);
    }
}

/* Checks that all data has arrived completely, and nothing else. */
static void check_end(struct history *h)
{
    for (uint32_t m = 0; m < MESSAGES; m++) {
        const struct message *e = &h->messages[m];

        if (!e->raised || net_word(h->b->net, e->peer, SIGNALS + 8ull * m) != m + 1)
            blame(h, "a signal did not come, or not with its value", m, 0);
        for (uint32_t t = 0; t < e->tiles; t++)
            for (uint32_t i = 0; i < e->bytes[t]; i++)
                if (h->b->net->peers[e->peer].mem[place_of(m, t) + i] != byte_of(m, t, i)) {
                    blame(h, e->freed ? "a source was given back too early" : "bytes did not come",
                          m, t);
                    return;
                }
    }
}

static void check_counters(struct history *h, tutti_device_mode mode)
{
    const struct tt_proxy_counters *c = &h->b->proxy.counters;
    const bool drains = mode == TUTTI_DEVICE_COUPLED || mode == TUTTI_DEVICE_DECOUPLED;

    if (c->triggers != h->b->reserved || c->signals != MESSAGES ||
        (drains ? c->fences > 0 : c->drains > 0) || (drains && c->drains == 0)) {
        snprintf(h->why, h->why_bytes,
                 "counters: %llu of %llu triggers, %llu signals, %llu drains, %llu fences",
                 (unsigned long long)c->triggers, (unsigned long long)h->b->reserved,
                 (unsigned long long)c->signals, (unsigned long long)c->drains,
                 (unsigned long long)c->fences);
        h->wrong = true;
    }
}

bool history_play(uint64_t seed, tutti_device_mode mode, char *why, size_t why_bytes)
{
    struct history h = { .b = bench_create(seed, mode, 8u << seed % 3, 3 + seed % 5, TT_NEVER),
                         .why = why,
                         .why_bytes = why_bytes };
    struct net *net = h.b->net;
    bool done = false;

    net->choosy = seed % 2;
    net->raised = raised;
    net->arg = &h;
    for (uint32_t m = 0; m < MESSAGES && !h.wrong; m++) {
        draw(&h, m);
        h.nmessages = m + 1;
        send(&h, m);
        if (!h.wrong && tt_prng_below(&net->prng, 3) == 0 && room(&h, TUTTI_DEVICE_ALL, 1)) {
            h.messages[m].ticket = bench_post_question(
                h.b, TUTTI_TRIGGER_FLUSH,
                tt_prng_below(&net->prng, 4) ? h.messages[m].peer : TUTTI_DEVICE_ALL);
            h.messages[m].flushes = true;
        }
        for (uint64_t i = tt_prng_below(&net->prng, 12); i > 0; i--)
            turn(&h);
    }
    for (uint32_t i = 0; i < TURNS_MAX && !h.wrong && !done; i++) {
        turn(&h);
        done = h.b->taken == h.b->reserved && tt_proxy_is_idle(&h.b->proxy) && net_is_empty(net);
    }
    if (!h.wrong) {
        check_end(&h);
        check_counters(&h, mode);
    }
    for (uint32_t m = 0; m < h.nmessages; m++)
        for (uint32_t t = 0; t < TILES; t++)
            free(h.messages[m].src[t]);
    bench_destroy(h.b);
    return !h.wrong;
}

bool history_delayed(tutti_device_mode mode, char *why, size_t why_bytes)
{
    static uint8_t bytes[TILE_BYTES] = { 1, 2, 3 };
    struct bench *b = bench_create(5, mode, 64, 0, TT_NEVER);
    const tutti_device_view *v = &b->view;
    const uint64_t word = SIGNALS;
    bool right;

    b->net->peers[1].stopped = true;
    b->net->peers[1].takes = 3;
    for (uint32_t i = 0; i < 8; i++)
        for (uint32_t peer = 1; peer <= 2; peer++)
            tutti_device_put(v, peer, 64 * i, bytes, sizeof bytes);
    tutti_device_fence(v, 1);
    tutti_device_fence(v, 2);
    tutti_device_signal(v, 2, TUTTI_SIGNAL_SET, word, 1);
    tutti_device_signal(v, 1, TUTTI_SIGNAL_SET, word, 1);
    for (uint32_t i = 0; i < 2000; i++) {
        bench_turn(b);
        net_turn(b->net);
    }
    right = net_word(b->net, 2, word) == 1 && net_word(b->net, 1, word) == 0;
    snprintf(why, why_bytes, "while rank 1 takes nothing, rank 2 has %llu and rank 1 %llu",
             (unsigned long long)net_word(b->net, 2, word),
             (unsigned long long)net_word(b->net, 1, word));
    b->net->peers[1].stopped = false;
    b->net->peers[1].takes = UINT32_MAX;
    for (uint32_t i = 0; i < 2000; i++) {
        bench_turn(b);
        net_turn(b->net);
    }
    if (right && net_word(b->net, 1, word) != 1) {
        snprintf(why, why_bytes, "rank 1 goes on, and its signal does not come");
        right = false;
    }
    bench_destroy(b);
    return right;
}

#define PENDING 24u
#define ROUNDS 200u

/* Returns whether a block that pushes n triggers now would return without waiting. */
static bool may_push(const struct bench *b, uint32_t peer, uint32_t n)
{
    return b->status == TUTTI_OK && b->taken <= b->reserved && bench_has_room(b, peer, n);
}

static void few_turns(struct bench *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bench_turn(b);
        net_turn(b->net);
    }
}

bool history_stopped(tutti_device_mode mode, char *why, size_t why_bytes)
{
    static const uint8_t bytes[TILE_BYTES] = { 1, 2, 3 };
    struct bench *b = bench_create(9, mode, 8, PENDING, TT_NEVER);
    const tutti_device_view *v = &b->view;
    uint32_t queued = 0, signalled = 0;
    uint64_t asked;
    bool right;

    b->net->peers[1].takes = 0;
    for (; queued < 10 * PENDING && may_push(b, 1, 2); queued++) {
        tutti_device_put_signal(v, 1, 0, bytes, sizeof bytes, TUTTI_SIGNAL_ADD, SIGNALS, 1);
        tutti_device_fence(v, 1);
        few_turns(b, 2);
    }
    for (uint32_t i = 0; i < 2 && may_push(b, TUTTI_DEVICE_ALL, 1); i++)
        bench_post_question(b, i ? TUTTI_TRIGGER_FLUSH : TUTTI_TRIGGER_QUIET,
                            i ? TUTTI_DEVICE_ALL : 1);
    for (uint32_t i = 0; i < ROUNDS; i++, signalled++) {
        for (uint32_t k = 0; k < 1000 && !may_push(b, 2 + i % 2, 3); k++)
            few_turns(b, 1);
        if (!may_push(b, 2 + i % 2, 3))
            break;
        tutti_device_put_signal(v, 2 + i % 2, 0, bytes, sizeof bytes, TUTTI_SIGNAL_ADD, SIGNALS, 1);
        few_turns(b, 2);
    }
    asked = signalled == ROUNDS ? bench_post_question(b, TUTTI_TRIGGER_QUIET, 2) : 0;
    few_turns(b, 4000);
    right = queued == PENDING / 2 && net_word(b->net, 1, SIGNALS) == 0 && signalled == ROUNDS &&
            net_word(b->net, 2, SIGNALS) + net_word(b->net, 3, SIGNALS) == ROUNDS &&
            bench_is_answered(b, asked);
    snprintf(why, why_bytes,
             "while rank 1 is stopped, with %u messages queued, %llu of %u signals came elsewhere",
             queued,
             (unsigned long long)(net_word(b->net, 2, SIGNALS) + net_word(b->net, 3, SIGNALS)),
             ROUNDS);
    b->net->peers[1].takes = UINT32_MAX;
    few_turns(b, 4000);
    if (right &&
        (net_word(b->net, 1, SIGNALS) != queued || !tutti_device_has_room(v, 1, PENDING))) {
        snprintf(why, why_bytes,
                 "rank 1 goes on, and gets %llu of %u signals, or not all %u commands have room",
                 (unsigned long long)net_word(b->net, 1, SIGNALS), queued, PENDING);
        right = false;
    }
    bench_destroy(b);
    return right;
}
