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

enum { FRAME, WANT, ENDED, KILL };

struct node {
    struct tt_records machine;
    struct sim *sim;
    bool dead;
    bool doubles;               /* connects its links one after the other, as at start-up */
    uint64_t doubled;           /* links that did so */
    uint64_t nfound, nfailed, nwrong, received;
    uint64_t arrives_ns[TT_FLOOD_LINKS_MAX];
};

struct sim {
    struct world w;
    uint32_t nranks;
    struct node *nodes;
    uint64_t nframes;
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

static bool doubles(uint32_t distance, uint32_t nranks)
{
    return (distance & (distance - 1)) == 0 && 2 * distance < nranks;
}

/* A neighbour's record arrived: connects to it, and requests that of twice the distance. */
static void node_double(struct node *n, uint32_t target)
{
    const uint32_t rank = n->machine.rank, nranks = n->sim->nranks;
    const uint32_t up = (target + nranks - rank) % nranks, down = nranks - up;

    if (n->doubled >> tt_records_link(&n->machine, target) & 1)
        return;
    n->doubled |= 1ull << tt_records_link(&n->machine, target);
    link_up(n->sim, rank, target);
    if (doubles(up, nranks))
        plan_want(n->sim, rank, (rank + 2 * up) % nranks, n->sim->w.now_ns);
    if (doubles(down, nranks))
        plan_want(n->sim, rank, (rank + nranks - 2 * down) % nranks, n->sim->w.now_ns);
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
        at_ns = s->w.now_ns + 1 + tt_prng_below(&s->w.prng, 100000);
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
            node_double(n, act->rank);
        break;
    case TT_RECORDS_ACT_FAILED:
        n->nfailed++;
        break;
    }
}

static void receive(struct sim *s, const struct happening *h)
{
    struct node *n = &s->nodes[h->b];
    const uint32_t link = tt_records_link(&n->machine, (uint32_t)h->a);

    if (n->dead || !(n->machine.open >> link & 1))
        return;
    n->received += h->bytes;
    step(n, (struct tt_records_event){ .kind = TT_RECORDS_EV_FRAME,
                                       .link = link,
                                       .frame = { .type = h->data[2],
                                                  .body = h->data + TT_FRAME_HEADER_BYTES,
                                                  .bytes = h->bytes - TT_FRAME_HEADER_BYTES } });
}

/* Its neighbours learn of its end after different times. */
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

static void run(struct sim *s)
{
    struct happening h;

    while (world_next(&s->w, &h)) {
        struct node *n = &s->nodes[h.a];

        if (h.kind == FRAME)
            receive(s, &h);
        else if (h.kind == WANT && !n->dead)
            step(n,
                 (struct tt_records_event){ .kind = TT_RECORDS_EV_WANTED, .rank = (uint32_t)h.b });
        else if (h.kind == KILL)
            node_kill(s, (uint32_t)h.a);
        else if (h.kind == ENDED)
            step(&s->nodes[h.b],
                 (struct tt_records_event){
                     .kind = TT_RECORDS_EV_ENDED,
                     .link = tt_records_link(&s->nodes[h.b].machine, (uint32_t)h.a) });
    }
}

/* whole: all links are up; otherwise those to the ranks before and after. */
static struct sim *sim_create(uint64_t seed, uint32_t nranks, uint32_t kept_max, bool whole)
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

            if (r < peer && (whole || peer - r == 1 || peer - r == nranks - 1))
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
        s = sim_create(seed, nranks, 0, true);
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

/* All ranks request the record of one: it sends one response over each link. */
static void all_to_one_does_not_flood_the_owner(void **state)
{
    const uint32_t nranks = UNIT_SHARE > 1 ? 1024 : 16384;
    struct sim *s = sim_create(3, nranks, 1, true);
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

/* Start-up: a rank has links to the ranks before and after it. It gets the records of the ranks at
 * distance 2, 4, 8 and so on over the links that it already has. */
static void neighbours_are_found_by_doubling(void **state)
{
    const uint32_t sizes[] = { 3, 8, 100, UNIT_SHARE > 1 ? 256 : 6144 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct sim *s = sim_create(5, sizes[i], 0, false);
        uint64_t most = 0;

        for (uint32_t r = 0; r < s->nranks; r++) {
            s->nodes[r].doubles = true;
            plan_want(s, r, (r + 1) % s->nranks, 1);
            plan_want(s, r, (r + s->nranks - 1) % s->nranks, 1);
        }
        run(s);
        for (uint32_t r = 0; r < s->nranks; r++) {
            const struct node *n = &s->nodes[r];

            assert_int_equal(n->machine.open, (1ull << n->machine.nlinks) - 1);
            assert_int_equal(n->nfailed + n->nwrong, 0);
            most = n->received > most ? n->received : most;
        }
        print_message("%u ranks: a rank receives at most %llu B\n", s->nranks,
                      (unsigned long long)most);
        assert_true(most <= 65536);
        sim_destroy(s);
    }
}

/* Ranks die at any time. Each request ends. A record is found if its owner and a nearer link of
 * each rank on the path live; with few deaths, that is nearly always. */
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
        s = sim_create(seed, nranks, 1 + (uint32_t)tt_prng_below(&prng, 8), true);
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
    struct sim *s = sim_create(1, 8, 0, true);
    struct tt_records_event ev = { .kind = TT_RECORDS_EV_FRAME };
    uint8_t body[TT_RECORDS_FRAME_BYTES + 1] = { 8 };

    (void)state;
    ev.frame = (struct tt_frame){ .type = TT_RECORDS_REQUEST, .body = body, .bytes = 4 };
    assert_false(tt_records_step(&s->nodes[0].machine, &ev));       /* rank 8 of 8 */
    body[0] = 3;
    ev.frame.bytes = 3;
    assert_false(tt_records_step(&s->nodes[0].machine, &ev));
    ev.frame.bytes = 5;
    assert_false(tt_records_step(&s->nodes[0].machine, &ev));
    ev.frame = (struct tt_frame){ .type = TT_RECORDS_RESPONSE, .body = body, .bytes = 7 };
    assert_false(tt_records_step(&s->nodes[0].machine, &ev));       /* not found, with data */
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
        cmocka_unit_test(requests_end_despite_deaths),
        cmocka_unit_test(invalid_frames_are_rejected),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
