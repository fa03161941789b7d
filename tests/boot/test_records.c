/* Address records on demand in a simulated world of links with random delays. A failure prints its
 * seed; TUTTI_TEST_SEED replays it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/status.h"
#include "boot/records.h"
#include "support/unit.h"
#include "support/world.h"

#define RECORD_BYTES 553u

#define TABLE_NS 2000000000u        /* time after which a rank uses the table */

enum { FRAME, WANT, ENDED, KILL, CALL, TABLE };
enum links { NO_LINKS, ALL_LINKS };

struct node {
    struct tt_records machine;
    struct sim *sim;
    bool dead;
    bool silent;                /* alive, but does nothing */
    bool doubles;               /* connects its links in sequence, as at start-up */
    uint64_t decided;           /* links that are up or have failed */
    uint64_t requested, called;
    uint64_t nfound, nfailed, nwrong, received;
    uint64_t arrives_ns[TT_FLOOD_LINKS_MAX];
};

struct sim {
    struct world w;
    uint32_t nranks;
    struct node *nodes;
    uint64_t nframes;
    uint64_t hop_ns;            /* time of each frame; 0: random */
    uint64_t up_ns;             /* from the start until the last link was up */
    uint64_t begin_ns;
};

static void make_record(uint32_t rank, uint8_t out[RECORD_BYTES])
{
    for (uint32_t i = 0; i < RECORD_BYTES; i++)
        out[i] = (uint8_t)(rank * 31 + (rank >> 8) * 7 + i);
}

static void step(struct node *n, struct tt_records_event ev)
{
    assert_true(tt_records_step(&n->machine, &ev));
}

static void link_up(struct sim *s, uint32_t a, uint32_t b)
{
    struct tt_records_event ev = { .kind = TT_RECORDS_EV_UP };

    ev.link = tt_records_link(&s->nodes[a].machine, b);
    step(&s->nodes[a], ev);
    ev.link = tt_records_link(&s->nodes[b].machine, a);
    step(&s->nodes[b], ev);
}

static void plan_want(struct sim *s, uint32_t rank, uint32_t target, uint64_t at_ns)
{
    world_plan(&s->w, at_ns, WANT, (int)rank, (int)target, NULL, 0);
}

/* Requests the records that are due, as overlay.c does. */
static void node_double(struct node *n)
{
    const uint64_t due =
        tt_records_due(&n->machine, n->decided) & ~(n->requested | n->called | n->decided);

    n->requested |= due;
    for (uint32_t i = 0; i < n->machine.nlinks; i++)
        if (due >> i & 1)
            plan_want(n->sim, n->machine.rank, n->machine.peers[i], n->sim->w.now_ns);
}

static void node_decide(struct node *n, uint32_t link)
{
    n->decided |= 1ull << link;
    if (n->doubles)
        node_double(n);
}

/* This rank has the address of a neighbour. Only the lower rank of a pair connects. */
static void node_call(struct node *n, uint32_t link)
{
    const uint32_t rank = n->machine.rank, peer = n->machine.peers[link];
    struct world *w = &n->sim->w;

    if (n->called >> link & 1)
        return;
    n->called |= 1ull << link;
    if (rank < peer)
        world_plan(w, w->now_ns + (n->sim->hop_ns ? 0 : tt_prng_below(&w->prng, 1000000)), CALL,
                   (int)rank, (int)peer, NULL, 0);
}

/* Connects the link of two ranks. A dead callee refuses. */
static void call(struct sim *s, uint32_t caller, uint32_t callee)
{
    struct node *a = &s->nodes[caller], *b = &s->nodes[callee];
    const uint32_t there = tt_records_link(&a->machine, callee),
                   here = tt_records_link(&b->machine, caller);

    if (a->dead || a->silent || b->silent || a->decided >> there & 1)
        return;
    if (b->dead) {
        world_plan(&s->w, s->w.now_ns, ENDED, (int)callee, (int)caller, NULL, 0);
        return;
    }
    link_up(s, caller, callee);
    s->up_ns = s->w.now_ns - s->begin_ns;
    node_decide(a, there);
    node_decide(b, here);
}

static void use_table(struct node *n)
{
    for (uint32_t i = 0; i < n->machine.nlinks; i++)
        if (!(n->decided >> i & 1))
            node_call(n, i);
}

static void on_act(void *context, const struct tt_records_act *act)
{
    struct node *n = context;
    struct sim *s = n->sim;
    uint8_t expected[RECORD_BYTES];
    uint64_t at_ns;

    switch ((enum tt_records_act_kind)act->kind) {
    case TT_RECORDS_ACT_SEND:
        assert_true(n->machine.open >> act->link & 1);
        at_ns = s->w.now_ns + (s->hop_ns ? s->hop_ns : 1 + tt_prng_below(&s->w.prng, 100000));
        if (at_ns > n->arrives_ns[act->link])
            n->arrives_ns[act->link] = at_ns;
        s->nframes++;
        world_plan(&s->w, n->arrives_ns[act->link], FRAME, (int)n->machine.rank,
                   (int)n->machine.peers[act->link], act->data, act->bytes);
        break;
    case TT_RECORDS_ACT_FOUND:
        make_record(act->rank, expected);
        n->nfound++;
        n->nwrong += act->bytes != RECORD_BYTES || memcmp(act->data, expected, RECORD_BYTES) != 0;
        if (n->doubles)
            node_call(n, tt_records_link(&n->machine, act->rank));
        break;
    case TT_RECORDS_ACT_FAILED:
        n->nfailed++;
        if (n->doubles)
            node_call(n, tt_records_link(&n->machine, act->rank));
        break;
    }
}

static void receive(struct sim *s, const struct happening *h)
{
    struct node *n = &s->nodes[h->b];
    const uint32_t link = tt_records_link(&n->machine, (uint32_t)h->a);

    if (n->dead || n->silent || !(n->machine.open >> link & 1))
        return;
    n->received += h->bytes;
    step(n, (struct tt_records_event){ .kind = TT_RECORDS_EV_FRAME,
                                       .link = link,
                                       .frame = { .type = h->data[2],
                                                  .body = h->data + TT_FRAME_HEADER_BYTES,
                                                  .bytes = h->bytes - TT_FRAME_HEADER_BYTES } });
}

/* The neighbours detect the rank's death after different times. */
static void node_kill(struct sim *s, uint32_t rank)
{
    struct node *n = &s->nodes[rank];

    if (n->dead)
        return;
    n->dead = true;
    for (uint32_t i = 0; i < n->machine.nlinks; i++)
        world_plan(&s->w, s->w.now_ns + tt_prng_below(&s->w.prng, 1000000), ENDED, (int)rank,
                   (int)n->machine.peers[i], NULL, 0);
}

static void end_link(struct sim *s, uint32_t dead, uint32_t rank)
{
    struct node *n = &s->nodes[rank];
    const uint32_t link = tt_records_link(&n->machine, dead);

    if (n->dead || n->silent)
        return;
    step(n, (struct tt_records_event){ .kind = TT_RECORDS_EV_ENDED, .link = link });
    node_decide(n, link);
}

static void run(struct sim *s)
{
    struct happening h;

    while (world_next(&s->w, &h)) {
        struct node *n = &s->nodes[h.a];

        if (h.kind == FRAME)
            receive(s, &h);
        else if (h.kind == WANT && !n->dead && !n->silent)
            step(n,
                 (struct tt_records_event){ .kind = TT_RECORDS_EV_WANTED, .rank = (uint32_t)h.b });
        else if (h.kind == KILL)
            node_kill(s, (uint32_t)h.a);
        else if (h.kind == ENDED)
            end_link(s, (uint32_t)h.a, (uint32_t)h.b);
        else if (h.kind == CALL)
            call(s, (uint32_t)h.a, (uint32_t)h.b);
        else if (h.kind == TABLE && !n->dead && !n->silent)
            use_table(n);
    }
}

static struct sim *sim_create(uint64_t seed, uint32_t nranks, uint32_t kept_max, enum links links)
{
    struct sim *s = calloc(1, sizeof *s);
    uint8_t record[RECORD_BYTES];

    tt_assert(s);
    world_init(&s->w, seed);
    s->nranks = nranks;
    s->nodes = calloc(nranks, sizeof *s->nodes);
    tt_assert(s->nodes);
    for (uint32_t r = 0; r < nranks; r++) {
        struct node *n = &s->nodes[r];

        make_record(r, record);
        n->sim = s;
        assert_int_equal(tt_records_init(&n->machine, r, nranks, record, RECORD_BYTES, kept_max),
                         TUTTI_OK);
        n->machine.emit = on_act;
        n->machine.context = n;
    }
    for (uint32_t r = 0; r < nranks; r++)
        for (uint32_t i = 0; i < s->nodes[r].machine.nlinks; i++) {
            const uint32_t peer = s->nodes[r].machine.peers[i];

            if (r < peer && links == ALL_LINKS)
                link_up(s, r, peer);
        }
    return s;
}

static void sim_destroy(struct sim *s)
{
    for (uint32_t r = 0; r < s->nranks; r++)
        tt_records_fini(&s->nodes[r].machine);
    free(s->nodes);
    world_fini(&s->w);
    free(s);
}

static uint32_t log2_up(uint32_t n)
{
    uint32_t k = 0;

    while (1ull << k < n)
        k++;
    return k;
}

/* ---- tests ---- */

static void every_record_is_found_within_log2_hops(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, 100));) {
        struct tt_prng prng;
        struct sim *s;
        uint32_t nranks;

        tt_prng_init(&prng, seed);
        nranks = 2 + (uint32_t)tt_prng_below(&prng, seed % 10 ? 100 : 3000);
        print_message("seed %llu, %u ranks\n", (unsigned long long)seed, nranks);
        s = sim_create(seed, nranks, 0, ALL_LINKS);
        for (uint32_t i = 0; i < 50; i++) {
            const uint32_t from = (uint32_t)tt_prng_below(&prng, nranks),
                           to = (uint32_t)tt_prng_below(&prng, nranks);
            const uint64_t before = s->nframes, found = s->nodes[from].nfound;

            plan_want(s, from, to, s->w.now_ns);
            run(s);
            assert_int_equal(s->nodes[from].nfound, found + 1);
            assert_int_equal(s->nodes[from].nwrong, 0);
            assert_true(s->nframes - before <= 2 * log2_up(nranks));
        }
        sim_destroy(s);
    }
}

/* All ranks request the record of one rank, which sends one response over each link. */
static void all_to_one_does_not_flood_the_owner(void **state)
{
    const uint32_t nranks = UNIT_SHARE > 1 ? 1024 : 16384;
    struct sim *s = sim_create(3, nranks, 1, ALL_LINKS);
    uint64_t most = 0;

    (void)state;
    for (uint32_t r = 0; r < nranks; r++)
        plan_want(s, r, 77, 1 + tt_prng_below(&s->w.prng, 1000000));
    run(s);
    for (uint32_t r = 0; r < nranks; r++) {
        const struct node *n = &s->nodes[r];

        assert_int_equal(n->nfound, 1);
        assert_int_equal(n->nwrong, 0);
        most = n->machine.nresponses > most ? n->machine.nresponses : most;
    }
    assert_true(s->nodes[77].machine.nresponses <= s->nodes[77].machine.nlinks);
    assert_true(most <= s->nodes[77].machine.nlinks);
    assert_int_equal(s->nframes, 2 * (nranks - 1));     /* each rank requests it once */
    sim_destroy(s);
}

/* Start-up: each rank has the addresses of the adjacent ranks. It requests the records of the ranks
 * at distance 2, 4, 8 and so on over the links that it already has. */
static struct sim *begin_doubling(uint64_t seed, uint32_t nranks, uint64_t hop_ns)
{
    struct sim *s = sim_create(seed, nranks, 0, NO_LINKS);

    s->hop_ns = hop_ns;
    s->begin_ns = s->w.now_ns;
    for (uint32_t r = 0; r < nranks; r++) {
        struct node *n = &s->nodes[r];

        n->doubles = true;
        node_call(n, tt_records_link(&n->machine, (r + 1) % nranks));
        node_call(n, tt_records_link(&n->machine, (r + nranks - 1) % nranks));
        world_plan(&s->w, TABLE_NS, TABLE, (int)r, 0, NULL, 0);
    }
    return s;
}

static uint64_t check_doubled(const struct sim *s)
{
    uint64_t most = 0;

    for (uint32_t r = 0; r < s->nranks; r++) {
        const struct node *n = &s->nodes[r];

        assert_int_equal(n->machine.open, (1ull << n->machine.nlinks) - 1);
        assert_int_equal(n->machine.connecting, 0);
        assert_int_equal(n->nfailed + n->nwrong, 0);
        most = n->received > most ? n->received : most;
    }
    return most;
}

/* The deadline: links to a silent rank fail. */
static void give_up(struct sim *s)
{
    for (uint32_t r = 0; r < s->nranks; r++)
        for (uint32_t i = 0; s->nodes[r].silent && i < s->nodes[r].machine.nlinks; i++)
            world_plan(&s->w, s->w.now_ns, ENDED, (int)r, (int)s->nodes[r].machine.peers[i], NULL,
                       0);
    run(s);
}

/* Exactly the links to living ranks are up, and no request is open. */
static void check_links(const struct sim *s, const struct node *n)
{
    for (uint32_t i = 0; i < n->machine.nlinks; i++) {
        const struct node *peer = &s->nodes[n->machine.peers[i]];

        assert_int_equal(n->machine.open >> i & 1, !peer->dead && !peer->silent);
    }
    assert_int_equal(n->nwrong, 0);
    assert_int_equal(n->machine.wanted.n, 0);
}

static void neighbours_are_found_by_doubling(void **state)
{
    const uint32_t sizes[] = { 3, 8, 100, UNIT_SHARE > 1 ? 256 : 6144 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct sim *s = begin_doubling(5, sizes[i], 0);
        uint64_t most;

        run(s);
        most = check_doubled(s);
        print_message("%u ranks: a rank receives at most %llu B\n", s->nranks,
                      (unsigned long long)most);
        assert_true(most <= 65536);
        sim_destroy(s);
    }
}

/* Each frame takes the same time, and connecting takes none, so the time is the number of
 * sequential frames. The rank at half the distance has the record, except at distance 2. If the
 * number of ranks is not a power of two, a request may be sent to a nearer rank, which requests the
 * record itself. */
static void doubling_takes_few_round_trips(void **state)
{
    (void)state;
    for (uint32_t nranks = 4; nranks <= 4096; nranks += nranks < 256 ? 1 : nranks) {
        const uint32_t most = (nranks & (nranks - 1) ? 3 : 2) * log2_up(nranks);
        struct sim *s = begin_doubling(5, nranks, 1);

        run(s);
        check_doubled(s);
        if (s->up_ns > most)
            fail_msg("%u ranks: %llu frames in sequence", nranks, (unsigned long long)s->up_ns);
        sim_destroy(s);
    }
}

/* At start-up, ranks die at any time, and at most one rank does nothing, so that its links do not
 * come up. All other living neighbours are finally connected: by doubling, or from the table where
 * the path is interrupted. */
static void doubling_connects_all_living_neighbours(void **state)
{
    uint64_t nfound = 0, nfailed = 0;

    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, 300));) {
        struct tt_prng prng;
        struct sim *s;
        uint32_t nranks;

        tt_prng_init(&prng, seed);
        nranks = 3 + (uint32_t)tt_prng_below(&prng, 200);
        print_message("seed %llu, %u ranks\n", (unsigned long long)seed, nranks);
        s = begin_doubling(seed, nranks, 0);
        for (uint64_t n = tt_prng_below(&prng, 1 + nranks / 8); n > 0; n--)
            world_plan(&s->w, tt_prng_below(&prng, 3000000), KILL,
                       (int)tt_prng_below(&prng, nranks), 0, NULL, 0);
        s->nodes[tt_prng_below(&prng, nranks)].silent = tt_prng_below(&prng, 2);
        run(s);
        give_up(s);
        for (uint32_t r = 0; r < nranks; r++) {
            struct node *n = &s->nodes[r];

            if (n->dead || n->silent)
                continue;
            check_links(s, n);
            nfound += n->nfound;
            nfailed += n->nfailed;
        }
        sim_destroy(s);
    }
    assert_true(nfound > 5 * nfailed && nfailed > 0);
}

/* A request of another rank waits for a link that is still connecting, and fails if that link
 * fails. */
static void requests_wait_for_connecting_links(void **state)
{
    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        struct sim *s = sim_create(1, 8, 0, NO_LINKS);

        link_up(s, 2, 3);
        plan_want(s, 2, 4, 1);
        run(s);
        assert_int_equal(s->nodes[2].nfound + s->nodes[2].nfailed, 0);
        assert_int_equal(s->nframes, 1);
        if (ends)
            world_plan(&s->w, s->w.now_ns, ENDED, 4, 3, NULL, 0);
        else
            link_up(s, 3, 4);
        run(s);
        assert_int_equal(s->nodes[2].nfound, !ends);
        assert_int_equal(s->nodes[2].nfailed, ends);
        assert_int_equal(s->nodes[3].machine.wanted.n, 0);
        sim_destroy(s);
    }
}

/* A rank needs a record itself, while a request of another rank for that record waits for a link.
 * The rank's own request fails instead of waiting, because it may be for this link. */
static void own_requests_do_not_wait(void **state)
{
    struct sim *s = sim_create(1, 8, 0, NO_LINKS);

    (void)state;
    link_up(s, 2, 3);
    plan_want(s, 2, 4, 1);
    run(s);
    plan_want(s, 3, 4, s->w.now_ns);
    run(s);
    assert_int_equal(s->nodes[3].nfailed, 1);
    assert_int_equal(s->nodes[2].nfailed, 1);
    sim_destroy(s);
}

/* Ranks die at any time. Each request completes or fails. A record is found if its owner is alive,
 * and each rank on the path has a living nearer link; with few deaths, nearly all are. */
static void requests_end_despite_deaths(void **state)
{
    uint64_t nfound = 0, nfailed = 0;

    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, 100));) {
        struct tt_prng prng;
        struct sim *s;
        uint32_t nranks, nwanted = 0;

        tt_prng_init(&prng, seed);
        nranks = 8 + (uint32_t)tt_prng_below(&prng, 200);
        print_message("seed %llu, %u ranks\n", (unsigned long long)seed, nranks);
        s = sim_create(seed, nranks, 1 + (uint32_t)tt_prng_below(&prng, 8), ALL_LINKS);
        for (uint64_t n = tt_prng_below(&prng, nranks / 8); n > 0; n--)
            world_plan(&s->w, tt_prng_below(&prng, 3000000), KILL,
                       (int)tt_prng_below(&prng, nranks), 0, NULL, 0);
        for (uint32_t i = 0; i < 4 * nranks; i++)
            plan_want(s, (uint32_t)tt_prng_below(&prng, nranks),
                      (uint32_t)tt_prng_below(&prng, nranks), tt_prng_below(&prng, 3000000));
        run(s);
        for (uint32_t r = 0; r < nranks; r++) {
            struct node *n = &s->nodes[r];

            if (n->dead)
                continue;
            assert_int_equal(n->machine.wanted.n, 0);
            assert_int_equal(n->nwrong, 0);
            assert_true(n->machine.nkept <= n->machine.kept_max);
            nfound += n->nfound;
            nfailed += n->nfailed;
            nwanted++;
        }
        assert_true(nwanted > 0);
        sim_destroy(s);
    }
    assert_true(nfound > 5 * nfailed);
}

static void invalid_frames_are_rejected(void **state)
{
    struct sim *s = sim_create(1, 8, 0, ALL_LINKS);
    struct tt_records_event ev = { .kind = TT_RECORDS_EV_FRAME };
    uint8_t body[TT_RECORDS_FRAME_BYTES + 1] = { 8 };

    (void)state;
    ev.frame = (struct tt_frame){ .type = TT_RECORDS_REQUEST, .body = body, .bytes = 4 };
    assert_false(tt_records_step(&s->nodes[0].machine, &ev));       /* rank 8 of 8 ranks */
    body[0] = 3;
    ev.frame.bytes = 3;
    assert_false(tt_records_step(&s->nodes[0].machine, &ev));
    ev.frame.bytes = 5;
    assert_false(tt_records_step(&s->nodes[0].machine, &ev));
    ev.frame = (struct tt_frame){ .type = TT_RECORDS_RESPONSE, .body = body, .bytes = 7 };
    assert_false(tt_records_step(&s->nodes[0].machine, &ev));       /* not found, but with data */
    body[4] = 2;
    assert_false(tt_records_step(&s->nodes[0].machine, &ev));
    body[4] = 1;
    ev.frame.bytes = sizeof body;
    assert_false(tt_records_step(&s->nodes[0].machine, &ev));       /* too long */
    ev.frame.bytes = 7;
    assert_true(tt_records_step(&s->nodes[0].machine, &ev));        /* not requested: ignored */
    ev.frame.type = 9;
    assert_false(tt_records_step(&s->nodes[0].machine, &ev));
    sim_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_found_within_log2_hops),
        cmocka_unit_test(all_to_one_does_not_flood_the_owner),
        cmocka_unit_test(neighbours_are_found_by_doubling),
        cmocka_unit_test(doubling_takes_few_round_trips),
        cmocka_unit_test(doubling_connects_all_living_neighbours),
        cmocka_unit_test(requests_wait_for_connecting_links),
        cmocka_unit_test(own_requests_do_not_wait),
        cmocka_unit_test(requests_end_despite_deaths),
        cmocka_unit_test(invalid_frames_are_rejected),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
