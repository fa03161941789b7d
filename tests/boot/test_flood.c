/* Flooding over the control overlay, in a simulated world: ordered links with random delays, and
 * ranks that die or leave. A failure prints its seed; TUTTI_TEST_SEED replays it. */
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/flood.h"
#include "support/unit.h"
#include "support/world.h"

#define RANKS_MAX 64
#define FLOODS_MAX 3        /* per rank */
#define SEEDS (40 / UNIT_SHARE)

enum { ARRIVE, END, FLOOD, DIE, LEAVE };

struct node {
    struct tt_flood flood;
    bool dead, left;
    uint64_t arrives_ns[TT_FLOOD_LINKS_MAX];    /* arrival of the last frame: no overtaking on a
                                                   link */
    uint32_t said;
    uint32_t heard[RANKS_MAX];                  /* [origin] number of received words */
    uint32_t lost[RANKS_MAX];                   /* [rank] number of LOST notifications */
};

struct net {
    struct world w;
    uint32_t n;
    struct node nodes[RANKS_MAX];
    uint64_t nframes;
};

static uint32_t link_to(const struct node *from, uint32_t peer)
{
    for (uint32_t i = 0; i < from->flood.nlinks; i++)
        if (from->flood.peers[i] == peer)
            return i;
    fail_msg("no link to %u", peer);
    return 0;
}

/* Returns the arrival time of a frame: a random delay, but in order. */
static uint64_t arrival(struct net *net, uint32_t from, uint32_t link)
{
    struct node *node = &net->nodes[from];
    const uint64_t at = net->w.now_ns + 1 + tt_prng_below(&net->w.prng, 1000000);

    if (at > node->arrives_ns[link])
        node->arrives_ns[link] = at;
    return node->arrives_ns[link];
}

static void deliver(struct net *net, uint32_t rank, const struct tt_overlay_event *ev)
{
    struct node *node = &net->nodes[rank];
    uint32_t number;

    if (ev->kind == TT_OVERLAY_LOST) {
        node->lost[ev->origin]++;
        return;
    }
    assert_int_equal(ev->bytes, sizeof number);
    memcpy(&number, ev->data, sizeof number);
    assert_int_equal(number, node->heard[ev->origin]);      /* once each, and in order */
    node->heard[ev->origin]++;
}

static void step(struct net *net, uint32_t rank, const struct tt_flood_event *ev)
{
    struct node *node = &net->nodes[rank];
    struct tt_flood_act act;

    if (node->dead || node->left)
        return;
    tt_flood_step(&node->flood, ev, &act);
    for (uint32_t i = 0; i < node->flood.nlinks; i++) {
        const uint32_t peer = node->flood.peers[i];

        if (act.send & 1ull << i) {
            net->nframes++;
            world_plan(&net->w, arrival(net, rank, i), ARRIVE, (int)peer, (int)rank, act.out,
                       act.out_bytes);
        }
        if (act.drop & 1ull << i)       /* the peer, if alive, detects that the connection was
                                           closed */
            world_plan(&net->w, arrival(net, rank, i), END, (int)peer, (int)rank, NULL, 0);
    }
    if (act.deliver)
        deliver(net, rank, &act.event);
}

static void arrive(struct net *net, const struct happening *h)
{
    struct tt_flood_event ev = { .kind = TT_FLOOD_EV_FRAME };
    struct node *node = &net->nodes[h->a];

    ev.link = link_to(node, (uint32_t)h->b);
    ev.frame = (struct tt_frame){ .type = h->data[2], .body = h->data + TT_FRAME_HEADER_BYTES,
                                  .bytes = h->bytes - TT_FRAME_HEADER_BYTES };
    step(net, (uint32_t)h->a, &ev);
}

static void flood(struct net *net, uint32_t rank)
{
    struct node *node = &net->nodes[rank];
    const struct tt_flood_event ev = { .kind = TT_FLOOD_EV_ORIGINATE,
                                       .payload = &node->said,
                                       .bytes = sizeof node->said };

    if (node->dead || node->left)
        return;
    step(net, rank, &ev);
    node->said++;
}

/* Closes all connections of the rank, after the data that it has sent. */
static void end_all(struct net *net, uint32_t rank, bool goodbye)
{
    struct node *node = &net->nodes[rank];
    uint8_t frame[TT_FRAME_HEADER_BYTES];

    tt_frame_header(frame, TT_FLOOD_GOODBYE, 0);
    for (uint32_t i = 0; i < node->flood.nlinks; i++) {
        const int peer = (int)node->flood.peers[i];

        if (goodbye)
            world_plan(&net->w, arrival(net, rank, i), ARRIVE, peer, (int)rank, frame,
                       sizeof frame);
        world_plan(&net->w, arrival(net, rank, i), END, peer, (int)rank, NULL, 0);
    }
}

static void happen(struct net *net, const struct happening *h)
{
    struct node *node = &net->nodes[h->a];

    switch (h->kind) {
    case ARRIVE:
        arrive(net, h);
        break;
    case END:
        step(net, (uint32_t)h->a,
             &(struct tt_flood_event){ .kind = TT_FLOOD_EV_ENDED,
                                       .link = link_to(node, (uint32_t)h->b) });
        break;
    case FLOOD:
        flood(net, (uint32_t)h->a);
        break;
    case DIE:
        node->dead = true;
        end_all(net, (uint32_t)h->a, false);
        break;
    case LEAVE:
        end_all(net, (uint32_t)h->a, true);
        node->left = true;
        break;
    }
}

static struct net *net_create(uint64_t seed, uint32_t n)
{
    struct net *net = calloc(1, sizeof *net);

    tt_assert(net);
    world_init(&net->w, seed);
    net->n = n;
    for (uint32_t r = 0; r < n; r++)
        tt_assert(tt_flood_init(&net->nodes[r].flood, r, n) == TUTTI_OK);
    return net;
}

static void net_destroy(struct net *net)
{
    for (uint32_t r = 0; r < net->n; r++)
        tt_flood_fini(&net->nodes[r].flood);
    world_fini(&net->w);
    free(net);
}

static void run(struct net *net)
{
    struct happening h;

    while (world_next(&net->w, &h))
        happen(net, &h);
}

static uint32_t reach(const struct net *net, const bool *gone, uint32_t from, bool *seen)
{
    uint32_t count = 1;

    seen[from] = true;
    for (uint32_t i = 0; i < net->nodes[from].flood.nlinks; i++) {
        const uint32_t peer = net->nodes[from].flood.peers[i];

        if (!gone[peer] && !seen[peer])
            count += reach(net, gone, peer, seen);
    }
    return count;
}

/* Returns whether the remaining ranks are connected with each other. */
static bool is_connected(const struct net *net, const bool *gone)
{
    bool seen[RANKS_MAX] = { false };
    uint32_t living = 0, first = 0;

    for (uint32_t r = 0; r < net->n; r++) {
        living += !gone[r];
        if (!gone[r])
            first = r;
    }
    return living > 0 && reach(net, gone, first, seen) == living;
}

static void overlay_graph_is_mutual_and_small(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 300; n++) {
        uint32_t peers[TT_FLOOD_LINKS_MAX], back[TT_FLOOD_LINKS_MAX], log2n = 0;
        uint8_t hops[300], frontier = 0;

        while (1u << log2n < n)
            log2n++;
        for (uint32_t r = 0; r < n; r++) {
            const uint32_t k = tt_flood_neighbours(r, n, peers);

            assert_true(k <= 2 * log2n);
            for (uint32_t i = 0; i < k; i++) {
                const uint32_t m = tt_flood_neighbours(peers[i], n, back);
                bool mutual = false;

                assert_int_not_equal(peers[i], r);
                for (uint32_t j = 0; j < m; j++)
                    mutual |= back[j] == r;
                assert_true(mutual);
            }
        }
        memset(hops, 0xff, sizeof hops);
        hops[0] = 0;
        for (; frontier < log2n; frontier++)
            for (uint32_t r = 0; r < n; r++)
                for (uint32_t i = 0, k = tt_flood_neighbours(r, n, peers);
                     hops[r] == frontier && i < k; i++)
                    if (hops[peers[i]] == 0xff)
                        hops[peers[i]] = (uint8_t)(frontier + 1);
        for (uint32_t r = 0; r < n; r++)
            assert_true(hops[r] != 0xff);
    }
    assert_true(tt_flood_neighbours(0, 1u << 20, (uint32_t[TT_FLOOD_LINKS_MAX]){ 0 }) <=
                TT_FLOOD_LINKS_MAX);
}

/* Some ranks never start, or die before the floods. Each living rank gets each flood of the living
 * ranks, and one LOST for each dead rank. */
static void floods_arrive_exactly_once(void **state)
{
    uint32_t checked = 0;

    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, SEEDS));) {
        struct tt_prng choose;
        uint32_t n, chance;
        bool gone[RANKS_MAX] = { false };
        struct net *net;

        tt_prng_init(&choose, seed ^ 0xabcdef);
        n = 2 + (uint32_t)tt_prng_below(&choose, RANKS_MAX - 1);
        chance = 2 + (uint32_t)tt_prng_below(&choose, 20);
        net = net_create(seed, n);
        print_message("seed %llu, %u ranks\n", (unsigned long long)seed, n);
        for (uint32_t r = 0; r < n; r++)
            gone[r] = tt_prng_below(&choose, chance) == 0;

        for (uint32_t r = 0; r < n; r++) {
            if (gone[r])
                world_plan(&net->w, 1, DIE, (int)r, 0, NULL, 0);
            for (int f = 0; f < FLOODS_MAX && !gone[r]; f++)
                world_plan(&net->w, 2 + tt_prng_below(&choose, 2000000), FLOOD, (int)r, 0, NULL, 0);
        }
        run(net);
        for (uint32_t r = 0; r < n && is_connected(net, gone); r++)
            for (uint32_t o = 0; o < n && !gone[r]; o++) {
                assert_int_equal(net->nodes[r].lost[o], gone[o]);
                assert_int_equal(net->nodes[r].heard[o], o == r || gone[o] ? 0 : FLOODS_MAX);
                checked++;
            }
        net_destroy(net);
    }
    assert_true(checked > 0);
}

/* Ranks die during floods. Words are received once and in order, and all remaining ranks agree on
 * the lost ranks. */
static void death_during_floods_is_reported_once(void **state)
{
    uint32_t checked = 0;

    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, SEEDS));) {
        const uint32_t n = 3 + (uint32_t)(seed * 7 % (RANKS_MAX - 2));
        struct net *net = net_create(seed, n);
        bool gone[RANKS_MAX] = { false };

        print_message("seed %llu, %u ranks\n", (unsigned long long)seed, n);
        for (uint32_t r = 0; r < n; r++) {
            gone[r] = tt_prng_below(&net->w.prng, 6) == 0;
            if (gone[r])
                world_plan(&net->w, 1 + tt_prng_below(&net->w.prng, 3000000), DIE, (int)r, 0, NULL,
                           0);
            for (int f = 0; f < FLOODS_MAX; f++)
                world_plan(&net->w, 1 + tt_prng_below(&net->w.prng, 3000000), FLOOD, (int)r, 0,
                           NULL, 0);
        }
        run(net);
        for (uint32_t r = 0; r < n && is_connected(net, gone); r++)
            for (uint32_t o = 0; o < n && !gone[r]; o++) {
                assert_int_equal(net->nodes[r].lost[o], gone[o]);
                if (!gone[o] && o != r)
                    assert_int_equal(net->nodes[r].heard[o], FLOODS_MAX);
                checked++;
            }
        net_destroy(net);
    }
    assert_true(checked > 0);
}

static void goodbye_is_no_loss(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, SEEDS));) {
        const uint32_t n = 2 + (uint32_t)(seed % 30);
        struct net *net = net_create(seed, n);

        print_message("seed %llu, %u ranks\n", (unsigned long long)seed, n);
        for (uint32_t r = 0; r < n; r++) {
            world_plan(&net->w, 1, FLOOD, (int)r, 0, NULL, 0);
            world_plan(&net->w, 100000000 + tt_prng_below(&net->w.prng, 3000000), LEAVE, (int)r, 0,
                       NULL, 0);
        }
        run(net);
        for (uint32_t r = 0; r < n; r++)
            for (uint32_t o = 0; o < n; o++) {
                assert_int_equal(net->nodes[r].lost[o], 0);
                assert_int_equal(net->nodes[r].heard[o], o != r);
            }
        net_destroy(net);
    }
}

static void invalid_frame_ends_only_its_link(void **state)
{
    static const struct {
        uint8_t type, body[16];
        size_t bytes;
    } bad[] = {
        { 0, { 0 }, 0 }, { 99, { 0 }, 4 }, { TT_FLOOD_LOST, { 0 }, 3 }, { TT_FLOOD_LOST, { 8 }, 4 },
        { TT_FLOOD_DATA, { 0 }, 11 }, { TT_FLOOD_DATA, { 200 }, 12 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tt_flood f;
        struct tt_flood_act act;
        struct tt_flood_event ev = {
            .kind = TT_FLOOD_EV_FRAME,
            .link = 1,
            .frame = { .type = bad[i].type, .body = bad[i].body, .bytes = bad[i].bytes }
        };

        assert_int_equal(tt_flood_init(&f, 0, 8), TUTTI_OK);
        tt_flood_step(&f, &ev, &act);
        assert_int_equal(act.drop, 1u << 1);
        assert_true(act.deliver);
        assert_int_equal(act.event.kind, TT_OVERLAY_LOST);
        assert_int_equal(act.event.origin, f.peers[1]);
        tt_flood_fini(&f);
    }
}

/* A direct frame reaches one neighbour, is not forwarded, and does not change the numbers of
 * floods. */
static void direct_frame_reaches_one_neighbour(void **state)
{
    const uint8_t payload[] = { 1, 2, 3 };
    struct tt_flood_event ev = {
        .kind = TT_FLOOD_EV_DIRECT, .link = 2, .payload = payload, .bytes = sizeof payload
    };
    struct tt_flood_act act;
    struct tt_flood from, to;

    (void)state;
    assert_int_equal(tt_flood_init(&from, 0, 8), TUTTI_OK);
    assert_int_equal(tt_flood_init(&to, from.peers[2], 8), TUTTI_OK);
    tt_flood_step(&from, &ev, &act);
    assert_int_equal(act.send, 1u << 2);
    assert_false(act.deliver);
    assert_int_equal(from.sequence, 0);
    assert_int_equal(act.out_bytes, TT_FRAME_HEADER_BYTES + sizeof payload);
    ev = (struct tt_flood_event){
        .kind = TT_FLOOD_EV_FRAME,
        .link = 0,
        .frame = { .type = TT_FLOOD_DIRECT, .body = payload, .bytes = sizeof payload },
    };
    tt_flood_step(&to, &ev, &act);
    assert_true(act.deliver && !act.send && !act.drop);
    assert_int_equal(act.event.kind, TT_OVERLAY_DIRECT);
    assert_int_equal(act.event.origin, to.peers[0]);
    assert_int_equal(act.event.bytes, sizeof payload);
    assert_memory_equal(act.event.data, payload, sizeof payload);
    from.open = 0;              /* the neighbour has left */
    ev = (struct tt_flood_event){ .kind = TT_FLOOD_EV_DIRECT, .link = 2, .payload = payload };
    tt_flood_step(&from, &ev, &act);
    assert_int_equal(act.send, 0);
    tt_flood_fini(&from);
    tt_flood_fini(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlay_graph_is_mutual_and_small),
        cmocka_unit_test(floods_arrive_exactly_once),
        cmocka_unit_test(death_during_floods_is_reported_once),
        cmocka_unit_test(goodbye_is_no_loss),
        cmocka_unit_test(invalid_frame_ends_only_its_link),
        cmocka_unit_test(direct_frame_reaches_one_neighbour),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
