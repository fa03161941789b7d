/* Members measure their links, which are simulated: each direction has a rate, a latency and a
 * queue at its sender. The results equal the simulated values; no member sends or receives two
 * bursts at once; and the survey ends after any losses. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/prng.h"
#include "elastic/survey.h"
#include "support/world.h"

#define PEERS 9u
#define BURST_NS (300 * TT_MS)
#define FAR_BURST_NS (2 * TT_SECOND)
#define WINDOW 14600u   /* bytes per round trip of a new connection */
#define GIVE_UP_NS(n) (((n)-1) * (FAR_BURST_NS + 2 * TT_SECOND))
#define SHARE(n) \
    (((n) + UNIT_SHARE - 1) / UNIT_SHARE) /* for that number of seeds, at least
                                                            one */
#define CHUNK 0xa5u     /* the second byte of a chunk's message */

enum { ARRIVES, ROOM, TICK, BEGINS };

struct member {
    struct tt_survey p;
    struct tt_survey_peer peers[PEERS];
    struct tt_ring_link links[PEERS];
    struct tt_ring_sample samples[TT_SURVEY_SAMPLES];
    bool begun, deaf;
    uint32_t receives_from;     /* sender of the last chunk */
    uint64_t began_ns, ended_ns;
};

static struct net {
    struct world w;
    uint32_t n;
    struct member members[PEERS];
    uint64_t rate[PEERS][PEERS], latency[PEERS][PEERS];
    uint64_t free_ns[PEERS][PEERS];     /* time at which all sent data has left the queue */
    uint32_t generation[PEERS][PEERS];  /* of the connection */
    uint32_t changes[PEERS];            /* changes of a member's sender */
    uint64_t chunks;
    uint32_t unsent_most;
    bool windows;                       /* connections start with small windows, which double
                                           with each round trip */
} net;

static uint8_t filler[TT_SURVEY_CHUNK_BYTES];

/* Returns the current rate of a chunk. */
static uint64_t rate_now(const struct member *m, uint32_t from, uint32_t to)
{
    const uint64_t round_trip_ns = net.latency[from][to] + net.latency[to][from],
                   rate = net.rate[from][to];
    uint64_t window = WINDOW;

    if (!net.windows)
        return rate;
    for (uint64_t ns = round_trip_ns; ns < net.w.now_ns - m->p.sent_ns && window < rate;
         ns += round_trip_ns)
        window *= 2;
    window = window * TT_SECOND / round_trip_ns;
    return window < rate ? window : rate;
}

static void emit(void *context, const struct tt_survey_act *act)
{
    struct member *m = context;
    const uint32_t from = (uint32_t)(m - net.members), to = act->rank;
    uint8_t data[TT_SURVEY_HEAD_BYTES + TT_SURVEY_CHUNK_BYTES];
    const size_t bytes = act->head_bytes + act->body_bytes;
    uint64_t *free_ns = &net.free_ns[from][to];

    assert_true(to < net.n && to != from);
    memcpy(data, act->head, act->head_bytes);
    memcpy(data + act->head_bytes, act->body, act->body_bytes);
    if (*free_ns < net.w.now_ns)
        *free_ns = net.w.now_ns;
    *free_ns += bytes * TT_SECOND / (act->body_bytes ? rate_now(m, from, to) : net.rate[from][to]);
    world_plan(&net.w, *free_ns + net.latency[from][to], ARRIVES, (int)(from * PEERS + to),
               (int)net.generation[from][to], data, bytes);
    world_plan(&net.w, *free_ns, ROOM, (int)from, (int)to, NULL, 0);
}

static void begin(uint32_t i, uint64_t number)
{
    struct member *m = &net.members[i];
    const struct tt_survey_conf conf = { .epoch = 7,
                                         .rank = i,
                                         .nranks = net.n,
                                         .burst_ns = BURST_NS,
                                         .far_burst_ns = FAR_BURST_NS,
                                         .peers = m->peers,
                                         .links = m->links,
                                         .samples = m->samples,
                                         .filler = filler,
                                         .emit = emit,
                                         .context = m };

    m->begun = true;
    m->began_ns = net.w.now_ns;
    tt_survey_begin(&m->p, &conf, number, net.w.now_ns);
}

static void net_init(uint32_t n, uint64_t seed)
{
    world_init(&net.w, seed);
    net = (struct net){ .w = net.w, .n = n };
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++) {
            net.rate[i][k] = 100000 + tt_prng_below(&net.w.prng, 1000) * 100000;
            net.latency[i][k] = 100000 + tt_prng_below(&net.w.prng, 20 * TT_MS);
        }
    for (uint32_t i = 0; i < n; i++)
        world_plan(&net.w, net.w.now_ns + tt_prng_below(&net.w.prng, 50 * TT_MS), BEGINS, (int)i, 1,
                   NULL, 0);
}

/* Cuts a connection, and establishes another one at both ends. */
static void cut(uint32_t a, uint32_t b)
{
    net.generation[a][b]++;
    net.generation[b][a]++;
    for (int side = 0; side < 2; side++) {
        struct member *m = &net.members[side ? a : b];

        if (m->begun && m->p.state != TT_SURVEY_DONE)
            tt_survey_again(&m->p, side ? b : a, net.w.now_ns);
    }
}

static void arrives(const struct happening *h)
{
    const uint32_t from = (uint32_t)h->a / PEERS, to = (uint32_t)h->a % PEERS;
    struct member *m = &net.members[to];

    if (!m->begun || m->deaf || net.members[from].deaf ||
        (uint32_t)h->b != net.generation[from][to])
        return;
    if (h->data[1] == CHUNK) {
        net.chunks++;
        net.changes[to] += m->receives_from != from;
        m->receives_from = from;
    }
    assert_true(tt_survey_receive(&m->p, from, h->data, h->bytes, net.w.now_ns));
}

static void after(struct member *m)
{
    const uint64_t next_ns = m->begun && !m->deaf ? tt_survey_next_ns(&m->p) : TT_NEVER;

    if (m->begun && m->p.state == TT_SURVEY_DONE && m->ended_ns == 0)
        m->ended_ns = net.w.now_ns;
    if (next_ns != TT_NEVER && next_ns > net.w.now_ns)
        world_plan(&net.w, next_ns, TICK, (int)(m - net.members), 0, NULL, 0);
}

/* Returns whether all responsive members are done. */
static bool is_over(void)
{
    for (uint32_t i = 0; i < net.n; i++)
        if (!net.members[i].deaf &&
            (!net.members[i].begun || net.members[i].p.state != TT_SURVEY_DONE))
            return false;
    return true;
}

/* Runs until all are done, or this number of chunks has arrived. */
/* The socket buffer grows with the sent data. */
static void check_room(struct tt_survey *p, uint32_t rank)
{
    uint32_t unsent;

    if (!tt_survey_room(p, rank, net.w.now_ns))
        return;
    unsent = tt_survey_unsent(p, rank);
    assert_true((unsent & (unsent - 1)) == 0 && unsent <= TT_SURVEY_UNSENT_MAX);
    assert_true(unsent == TT_SURVEY_UNSENT_MIN || unsent <= p->sent_bytes);
    assert_true(unsent == TT_SURVEY_UNSENT_MAX || 2 * unsent > p->sent_bytes);
    if (unsent > net.unsent_most)
        net.unsent_most = unsent;
}

static void play(uint64_t chunks)
{
    struct happening h;

    while (!is_over() && net.chunks < chunks) {
        struct member *m;

        assert_true(world_next(&net.w, &h));
        m = &net.members[h.kind == ARRIVES ? (uint32_t)h.a % PEERS : (uint32_t)h.a];
        if (h.kind == BEGINS)
            begin((uint32_t)h.a, (uint64_t)h.b);
        else if (h.kind == ARRIVES)
            arrives(&h);
        else if (h.kind == ROOM && !m->deaf && net.free_ns[h.a][h.b] <= net.w.now_ns)
            check_room(&m->p, (uint32_t)h.b);
        else if (h.kind == TICK && !m->deaf)
            tt_survey_tick(&m->p, net.w.now_ns);
        after(m);
    }
}

static void check_pair(uint32_t from, uint32_t to, uint64_t seed)
{
    const struct tt_ring_link *l = &net.members[to].links[from];
    const double rate = (double)net.rate[from][to],
                 latency = (double)(net.latency[from][to] + net.latency[to][from]) / 2;

    if ((double)l->rate < 0.9 * rate || (double)l->rate > 1.1 * rate)
        fail_msg("seed %llu: from %u to %u: %llu bytes/s were found, %.0f are there",
                 (unsigned long long)seed, from, to, (unsigned long long)l->rate, rate);
    /* plus the time to send the ping itself */
    if ((double)l->latency < latency || (double)l->latency > 1.1 * latency + 1e6)
        fail_msg("seed %llu: from %u to %u: a latency of %llu ns was found, %.0f is there",
                 (unsigned long long)seed, from, to, (unsigned long long)l->latency, latency);
}

static void survey_finds_all_planted_links(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, SHARE(24))) != 0;) {
        net_init(2 + (uint32_t)(seed % (PEERS - 1)), seed);
        play(UINT64_MAX);
        for (uint32_t i = 0; i < net.n; i++) {
            for (uint32_t k = 0; k < net.n; k++)
                if (i != k)
                    check_pair(i, k, seed);
            /* bursts are received one after the other, each completely */
            assert_in_range(net.changes[i], net.n - 2, net.n - 1);
            assert_true(net.members[i].ended_ns > 0);
            assert_true(net.members[i].ended_ns - net.members[i].began_ns < GIVE_UP_NS(net.n));
        }
        world_fini(&net.w);
    }
}

static void steady_links_are_measured_briefly(void **state)
{
    uint64_t last_ns = 0, end_ns = 0;

    (void)state;
    net_init(4, 1);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 0; k < 4; k++) {
            net.rate[i][k] = 20000000;
            net.latency[i][k] = 2 * TT_MS;
        }
    play(UINT64_MAX);
    for (uint32_t i = 0; i < 4; i++) {
        last_ns = net.members[i].began_ns > last_ns ? net.members[i].began_ns : last_ns;
        end_ns = net.members[i].ended_ns > end_ns ? net.members[i].ended_ns : end_ns;
    }
    /* pings, then 3 rounds: a burst of 80 ms, and round trips for its request, its end and the data
     * in flight */
    assert_in_range(end_ns - last_ns, 3 * 80 * TT_MS,
                    3 * (100 * TT_MS + 5 * 4 * TT_MS) + 20 * TT_MS);
    assert_int_equal(net.unsent_most, TT_SURVEY_UNSENT_MAX);     /* 1.6 MB each */
    world_fini(&net.w);
}

/* 80 Mbit/s over 120 ms: a burst of 300 ms would end before the window is a tenth of the
 * bandwidth-delay product. */
static void distant_links_wait_for_windows(void **state)
{
    (void)state;
    net_init(4, 2);
    net.windows = true;
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 0; k < 4; k++) {
            net.rate[i][k] = i / 2 == k / 2 ? 20000000 : 10000000;
            net.latency[i][k] = i / 2 == k / 2 ? TT_MS : 60 * TT_MS;
        }
    play(UINT64_MAX);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 0; k < 4; k++)
            if (i != k)
                check_pair(i, k, 2);
    world_fini(&net.w);
}

static void cut_connection_affects_only_its_pair(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, SHARE(24))) != 0;) {
        uint32_t a, b, wrong = 0;

        net_init(3 + (uint32_t)(seed % (PEERS - 2)), seed);
        a = (uint32_t)tt_prng_below(&net.w.prng, net.n);
        b = (a + 1 + (uint32_t)tt_prng_below(&net.w.prng, net.n - 1)) % net.n;
        play(tt_prng_below(&net.w.prng, 200));
        cut(a, b);
        after(&net.members[a]);
        after(&net.members[b]);
        play(UINT64_MAX);
        for (uint32_t i = 0; i < net.n; i++)
            for (uint32_t k = 0; k < net.n; k++) {
                if (i != k && !((i == a && k == b) || (i == b && k == a)))
                    check_pair(i, k, seed);
                wrong += i != k && net.members[k].links[i].rate == 0;
            }
        assert_in_range(wrong, 0, 2);
        world_fini(&net.w);
    }
}

static void silent_member_delays_nobody_forever(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, SHARE(12))) != 0;) {
        const uint32_t n = 3 + (uint32_t)(seed % (PEERS - 2)), who = (uint32_t)(seed % n);

        net_init(n, seed);
        play(1 + tt_prng_below(&net.w.prng, 100));
        net.members[who].deaf = true;
        play(UINT64_MAX);
        for (uint32_t i = 0; i < n; i++)
            assert_true(i == who || net.members[i].ended_ns < 2 * GIVE_UP_NS(n) + TT_SECOND);
        world_fini(&net.w);
    }
}

static void skipping_member_joins_the_next(void **state)
{
    struct happening h;

    (void)state;
    net_init(3, 5);
    while (world_next(&net.w, &h)) /* drops the scheduled starts: the members start differently
                                      here */
        ;
    for (uint32_t order = 0; order < 2; order++) {
        net.members[0].ended_ns = net.members[1].ended_ns = net.members[2].ended_ns = 0;
        for (uint32_t i = 0; i < 3; i++) {
            const uint32_t who = order ? 2 - i : i;

            world_plan(&net.w, net.w.now_ns + (1 + i) * 30 * TT_MS, BEGINS, (int)who,
                       who == 0 ? 1 + (int)order : 5 + 5 * (int)order, NULL, 0);
        }
        for (uint32_t i = 0; i < 3; i++)
            net.members[i].begun = false;
        play(UINT64_MAX);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(net.members[i].p.number, 5 + 5 * order);
            for (uint32_t k = 0; k < 3; k++)
                if (i != k)
                    check_pair(i, k, 5);
        }
    }
    world_fini(&net.w);
}

static void invalid_and_old_messages_differ(void **state)
{
    struct member *m = &net.members[0];
    uint8_t data[TT_SURVEY_HEAD_BYTES] = { TT_ELASTIC_VERSION, 0xa1, 7, [10] = 1 };

    (void)state;
    net_init(2, 1);
    begin(0, 1);
    assert_true(tt_survey_is_mine(data, sizeof data));
    assert_false(tt_survey_is_mine(data, 1));
    assert_true(tt_survey_receive(&m->p, 1, data, sizeof data, net.w.now_ns));
    assert_false(tt_survey_receive(&m->p, 1, data, sizeof data - 1, net.w.now_ns));
    data[1] = 0xa9; /* an unknown kind */
    assert_false(tt_survey_receive(&m->p, 1, data, sizeof data, net.w.now_ns));
    data[1] = 0xa3;
    data[2] = 8; /* another epoch */
    assert_true(tt_survey_receive(&m->p, 1, data, sizeof data, net.w.now_ns));
    assert_false(m->peers[1].ready);
    data[2] = 7;
    data[17] = 1; /* an impossible number */
    assert_false(tt_survey_receive(&m->p, 1, data, sizeof data, net.w.now_ns));
    world_fini(&net.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survey_finds_all_planted_links),
        cmocka_unit_test(steady_links_are_measured_briefly),
        cmocka_unit_test(distant_links_wait_for_windows),
        cmocka_unit_test(cut_connection_affects_only_its_pair),
        cmocka_unit_test(silent_member_delays_nobody_forever),
        cmocka_unit_test(skipping_member_joins_the_next),
        cmocka_unit_test(invalid_and_old_messages_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
