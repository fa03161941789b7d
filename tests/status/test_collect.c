/* Collections in a simulated world of links with ordering and random delays: ranks that stop, die
 * or leave, several roots, and jobs of up to 98,304 ranks. A failure prints its seed;
 * TUTTI_TEST_SEED replays it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "boot/flood.h"
#include "status/collect.h"
#include "support/unit.h"
#include "support/world.h"

#define WAY_NS 100000u          /* maximum latency of a link */
#define SEEDS (60 / UNIT_SHARE + 2)
#define MEMORY_MAX (64u << 20)
#define BIG_RANKS 98304u
#define BIG_DUE_NS (10 * TT_SECOND)

enum { FRAME, TICK };

enum fate { LIVES, STOPPED, DEAD, GONE };

struct node {
    struct tt_collect machine;
    struct sim *sim;
    enum fate fate;
    uint64_t ticks_ns;          /* planned tick */
    uint64_t *arrives_ns;       /* [nlinks] */
    uint32_t nsnapshots;        /* of the current collection */
};

struct sim {
    struct world w;
    uint32_t nranks, group;     /* group: ranks per communicator, besides that of all ranks */
    struct node *nodes;
    uint64_t nframes;
    size_t most_bytes;          /* of one node */
    uint32_t ndone;
    struct tt_status_report done;       /* the last one */
    uint64_t done_ns;
};

static uint32_t link_number(uint32_t rank, uint32_t nranks, uint32_t peer)
{
    uint32_t peers[TT_FLOOD_LINKS_MAX];
    const uint32_t n = tt_flood_neighbours(rank, nranks, peers);

    for (uint32_t i = 0; i < n; i++)
        if (peers[i] == peer)
            return i;
    fail_msg("rank %u has no link to %u", rank, peer);
    return 0;
}

static bool sim_send(void *arg, uint32_t to, const void *data, uint16_t bytes)
{
    struct node *n = arg;
    struct sim *s = n->sim;
    uint64_t *last = &n->arrives_ns[link_number(n->machine.rank, s->nranks, to)];
    const uint64_t at_ns = s->w.now_ns + 1 + tt_prng_below(&s->w.prng, WAY_NS);

    if (s->nodes[to].fate == DEAD || s->nodes[to].fate == GONE)
        return false;
    assert_true(bytes <= TT_OVERLAY_BYTES);
    *last = at_ns > *last ? at_ns : *last;
    s->nframes++;
    world_plan(&s->w, *last, FRAME, (int)to, (int)n->machine.rank, data, bytes);
    return true;
}

static uint32_t sim_neighbours(void *arg, uint32_t *out)
{
    const struct node *n = arg;
    uint32_t peers[TT_FLOOD_LINKS_MAX], k = 0;
    const uint32_t all = tt_flood_neighbours(n->machine.rank, n->sim->nranks, peers);

    for (uint32_t i = 0; i < all; i++)
        if (n->sim->nodes[peers[i]].fate <= STOPPED)
            out[k++] = peers[i];
    return k;
}

static bool sim_is_lost(void *arg, uint32_t rank)
{
    return ((const struct node *)arg)->sim->nodes[rank].fate == DEAD;
}

/* Adds this rank to a communicator: in operation 7, or, if it never called, after operation 6. */
static void add_membership(struct tt_status_report *r, uint64_t hash, uint32_t nranks,
                           uint32_t rank, bool called)
{
    struct tt_status_comm c = { .hash = hash, .nranks = nranks, .nreported = 1, .name = "group" };
    struct tt_status_group g = {
        .key = { .seq = called ? 7 : 6, .kind = 1, .state = called ? TT_STATUS_IN : TT_STATUS_OUT },
        .nranks = 1,
        .nlisted = 1,
        .ranks = { rank },
        .waits = { TT_STATUS_NO_RANK }
    };
    struct tt_status_comm *mine;

    g.age_max_ns = g.age_min_ns = rank;
    mine = tt_status_add_comm(r, &c);
    if (mine)
        tt_status_add_group(mine, &g);
}

static void sim_snapshot(void *arg, const struct tt_collect_query *q, struct tt_status_report *r)
{
    struct node *n = arg;
    const struct sim *s = n->sim;
    const uint32_t rank = n->machine.rank;

    n->nsnapshots++;
    if (q->what == TT_COLLECT_RANK) {
        if (rank == q->target)
            r->detail = (struct tt_status_detail){ .present = true, .rank = rank };
        return;
    }
    r->nactive = 1;
    r->ops_per_s = rank;
    add_membership(r, 1, s->nranks, rank, rank != 5);
    if (s->group)
        add_membership(r, 1000 + rank / s->group, s->group, rank, rank != 5);
}

static void sim_done(void *arg, struct tt_status_report *r)
{
    struct sim *s = ((struct node *)arg)->sim;

    tt_status_report_fini(&s->done);
    s->done = *r;
    tt_status_report_init(r);
    s->ndone++;
    s->done_ns = s->w.now_ns;
}

static const struct tt_collect_ops ops = {
    .send = sim_send,
    .neighbours = sim_neighbours,
    .is_lost = sim_is_lost,
    .snapshot = sim_snapshot,
    .done = sim_done,
};

/* ---- the world ---- */

static struct sim *sim_create(uint64_t seed, uint32_t nranks, uint32_t group)
{
    struct sim *s = calloc(1, sizeof *s);

    assert_non_null(s);
    world_init(&s->w, seed);
    s->nranks = nranks;
    s->group = group;
    s->nodes = calloc(nranks, sizeof *s->nodes);
    assert_non_null(s->nodes);
    for (uint32_t r = 0; r < nranks; r++) {
        struct node *n = &s->nodes[r];

        tt_collect_init(&n->machine, r, nranks, &ops, n);
        n->sim = s;
        n->ticks_ns = TT_COLLECT_NEVER;
        n->arrives_ns = calloc(TT_FLOOD_LINKS_MAX, sizeof *n->arrives_ns);
        assert_non_null(n->arrives_ns);
    }
    return s;
}

static void sim_destroy(struct sim *s)
{
    for (uint32_t r = 0; r < s->nranks; r++) {
        tt_collect_fini(&s->nodes[r].machine);
        free(s->nodes[r].arrives_ns);
    }
    tt_status_report_fini(&s->done);
    free(s->nodes);
    world_fini(&s->w);
    free(s);
}

/* Plans a tick for the node's next deadline, and measures its memory. */
static void after_step(struct sim *s, struct node *n)
{
    const uint64_t due_ns = tt_collect_due(&n->machine);
    const size_t bytes = tt_collect_bytes(&n->machine);

    s->most_bytes = bytes > s->most_bytes ? bytes : s->most_bytes;
    if (due_ns == TT_COLLECT_NEVER || due_ns == n->ticks_ns)
        return;
    n->ticks_ns = due_ns;
    world_plan(&s->w, due_ns, TICK, (int)n->machine.rank, 0, NULL, 0);
}

static bool begin(struct sim *s, uint32_t root, const struct tt_collect_query *q)
{
    const bool good = tt_collect_begin(&s->nodes[root].machine, q, s->w.now_ns);

    after_step(s, &s->nodes[root]);
    return good;
}

static void run(struct sim *s)
{
    struct happening h;

    while (world_next(&s->w, &h)) {
        struct node *n = &s->nodes[h.a];

        if (n->fate != LIVES)
            continue;
        if (h.kind == FRAME)
            assert_true(
                tt_collect_receive(&n->machine, (uint32_t)h.b, h.data, h.bytes, s->w.now_ns));
        else
            tt_collect_tick(&n->machine, s->w.now_ns);
        after_step(s, n);
    }
}

/* ---- checks ---- */

static uint32_t count_fate(const struct sim *s, enum fate fate)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < s->nranks; r++)
        n += s->nodes[r].fate == fate;
    return n;
}

/* Checks that no list has a wrong rank. */
static void check_lists(const struct sim *s)
{
    static const enum fate fates[] = {
        [TT_STATUS_SILENT] = STOPPED, [TT_STATUS_LEFT] = GONE, [TT_STATUS_LOST] = DEAD
    };

    for (uint32_t list = 0; list < TT_STATUS_LISTS; list++)
        for (uint32_t i = 0; i < s->done.lists[list].n && list != TT_STATUS_LATE; i++)
            assert_int_equal(s->nodes[s->done.lists[list].rank[i]].fate, fates[list]);
}

/* Every live rank reported once. */
static void check_complete(const struct sim *s)
{
    const uint32_t live = count_fate(s, LIVES);
    const struct tt_status_comm *all = tt_status_find_comm(&s->done, 1);

    assert_int_equal(s->ndone, 1);
    assert_int_equal(s->done.nreported, live);
    assert_int_equal(s->done.nactive, live);
    assert_non_null(all);
    assert_int_equal(all->nreported, live);
    assert_int_equal(s->done.lists[TT_STATUS_LATE].n, 0);
    assert_int_equal(s->done.lists[TT_STATUS_SILENT].n, count_fate(s, STOPPED));
    assert_int_equal(s->done.lists[TT_STATUS_LOST].n, count_fate(s, DEAD));
    check_lists(s);
    for (uint32_t r = 0; r < s->nranks; r++) {
        assert_int_equal(s->nodes[r].nsnapshots, s->nodes[r].fate == LIVES);
        if (s->nodes[r].fate == LIVES)
            assert_int_equal(tt_collect_bytes(&s->nodes[r].machine), 0);
    }
}

/* The rank that never called is the only one in its group. */
static void check_missing(const struct tt_status_comm *c, uint32_t missing)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < c->ngroups; i++) {
        const struct tt_status_group *g = &c->groups[i];

        if (g->key.seq != 6)
            continue;
        found++;
        assert_int_equal(g->nranks, 1);
        assert_int_equal(g->ranks[0], missing);
    }
    assert_int_equal(found, 1);
}

/* ---- tests ---- */

static const struct tt_collect_query everything = { .what = TT_COLLECT_ALL, .timeout_ms = 2000 };

static void every_live_rank_reports_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, SEEDS));) {
        struct tt_prng prng;
        struct sim *s;
        uint32_t nranks, root;

        tt_prng_init(&prng, seed);
        nranks = 1 + (uint32_t)tt_prng_below(&prng, 200);
        root = (uint32_t)tt_prng_below(&prng, nranks);
        print_message("seed %llu, %u ranks\n", (unsigned long long)seed, nranks);
        s = sim_create(seed, nranks, 0);
        assert_true(begin(s, root, &everything));
        run(s);
        check_complete(s);
        assert_int_equal(s->done.ops_per_s, (uint64_t)nranks * (nranks - 1) / 2);
        if (nranks > 5)
            check_missing(tt_status_find_comm(&s->done, 1), 5);
        sim_destroy(s);
    }
}

/* Few of many ranks stop, die or leave, so the overlay stays connected. */
static void stopped_ranks_are_named_and_hide_no_others(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, SEEDS));) {
        struct tt_prng prng;
        struct sim *s;
        uint32_t nranks;

        tt_prng_init(&prng, seed);
        nranks = 16 + (uint32_t)tt_prng_below(&prng, 300);
        print_message("seed %llu, %u ranks\n", (unsigned long long)seed, nranks);
        s = sim_create(seed, nranks, 0);
        for (uint32_t n = 1 + (uint32_t)tt_prng_below(&prng, 3); n > 0; n--)
            s->nodes[1 + tt_prng_below(&prng, nranks - 1)].fate =
                (enum fate)(STOPPED + tt_prng_below(&prng, 3));
        assert_true(begin(s, 0, &everything));
        run(s);
        check_complete(s);
        assert_true(s->done_ns <= 2 * TT_SECOND + 64 * WAY_NS);
        sim_destroy(s);
    }
}

/* Half of the ranks stop, so the overlay may be partitioned. No rank that responds is reported as
 * silent. */
static void nobody_is_silent_who_answers(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, SEEDS));) {
        struct tt_prng prng;
        struct sim *s;

        tt_prng_init(&prng, seed);
        print_message("seed %llu\n", (unsigned long long)seed);
        s = sim_create(seed, 100, 0);
        for (uint32_t r = 1; r < 100; r++)
            if (tt_prng_below(&prng, 2))
                s->nodes[r].fate = (enum fate)(STOPPED + tt_prng_below(&prng, 3));
        assert_true(begin(s, 0, &everything));
        run(s);
        assert_int_equal(s->ndone, 1);
        assert_true(s->done.nreported >= 1 && s->done.nreported <= count_fate(s, LIVES));
        check_lists(s);
        sim_destroy(s);
    }
}

static void several_roots_do_not_disturb_each_other(void **state)
{
    struct sim *s = sim_create(11, 64, 0);

    (void)state;
    for (uint32_t root = 0; root < TT_COLLECT_MAX; root++)
        assert_true(begin(s, root * 13, &everything));
    assert_false(begin(s, 0, &everything));     /* one of each rank */
    run(s);
    assert_int_equal(s->ndone, TT_COLLECT_MAX);
    assert_int_equal(s->done.nreported, 64);
    for (uint32_t r = 0; r < 64; r++)
        assert_int_equal(s->nodes[r].nsnapshots, TT_COLLECT_MAX);
    sim_destroy(s);
}

/* More roots than a rank serves at once: each collection ends, and counts no rank twice. */
static void too_many_roots_get_incomplete_reports(void **state)
{
    struct sim *s = sim_create(12, 64, 0);

    (void)state;
    for (uint32_t root = 0; root < 4 * TT_COLLECT_MAX; root++)
        assert_true(begin(s, root, &everything));
    run(s);
    assert_int_equal(s->ndone, 4 * TT_COLLECT_MAX);
    assert_true(s->done.nreported <= 64);
    check_lists(s);
    sim_destroy(s);
}

static void one_rank_is_queried_in_depth(void **state)
{
    const struct tt_collect_query q = { .what = TT_COLLECT_RANK, .target = 42, .timeout_ms = 2000 };
    struct sim *s = sim_create(13, 64, 0);

    (void)state;
    assert_true(begin(s, 3, &q));
    run(s);
    assert_int_equal(s->done.nreported, 64);
    assert_true(s->done.detail.present);
    assert_int_equal(s->done.detail.rank, 42);
    assert_int_equal(s->done.ncomms, 0);
    sim_destroy(s);
}

/* A queried child dies: its parent does not wait for it until the deadline. */
static void a_lost_child_is_not_awaited(void **state)
{
    struct sim *s = sim_create(14, 2, 0);

    (void)state;
    assert_true(begin(s, 0, &everything));
    s->nodes[1].fate = DEAD;
    tt_collect_lose(&s->nodes[0].machine, 1);
    assert_int_equal(s->ndone, 1);
    assert_int_equal(s->done.nreported, 1);
    assert_int_equal(s->done.lists[TT_STATUS_LOST].n, 1);
    assert_int_equal(s->done.lists[TT_STATUS_SILENT].n, 0);
    run(s);
    sim_destroy(s);
}

static uint32_t count_open(const struct tt_collect *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < TT_COLLECT_MAX; i++)
        n += c->open[i] != NULL;
    return n;
}

/* A query arrives from a neighbour, as send_query writes it. */
static void receive_query(struct sim *s, uint32_t rank, uint32_t root, uint64_t number)
{
    uint32_t peers[TT_FLOOD_LINKS_MAX];
    uint8_t frame[64];
    struct tt_writer w;

    tt_flood_neighbours(rank, s->nranks, peers);
    tt_writer_init(&w, frame, sizeof frame);
    tt_write_u8(&w, 1);
    tt_write_u32(&w, root);
    tt_write_u64(&w, number);
    tt_write_u8(&w, TT_COLLECT_ALL);
    tt_write_u32(&w, 0);        /* target */
    tt_write_u32(&w, 2000);     /* ack_ms, step_ms, left_ms */
    tt_write_u32(&w, 100);
    tt_write_u32(&w, 8000);
    tt_write_string(&w, "");    /* dir */
    assert_true(tt_collect_receive(&s->nodes[rank].machine, peers[0], frame, tt_writer_bytes(&w),
                                   s->w.now_ns));
}

/* Each root has one collection at a time. Abandoned ones, e.g. on a busy host, occupy no entry, so
 * later queries are not refused. */
static void a_newer_query_replaces_older_ones_of_its_root(void **state)
{
    const uint32_t rank = 5;
    struct sim *s = sim_create(16, 64, 0);
    struct tt_collect *c = &s->nodes[rank].machine;

    (void)state;
    for (uint64_t number = 1; number <= 3 * TT_COLLECT_MAX; number++) {
        receive_query(s, rank, 9, number);
        assert_int_equal(count_open(c), 1);
    }
    receive_query(s, rank, 10, 1);
    assert_int_equal(count_open(c), 2);
    receive_query(s, rank, 9, 1);       /* a late one */
    assert_int_equal(count_open(c), 2);
    sim_destroy(s);
}

/* The whole job in one communicator, and in groups of eight: more of them than a report has room
 * for. One rank of the job never called, one is stopped. */
static void big_jobs_are_collected_in_time_and_memory(void **state)
{
    const struct tt_collect_query q = { .what = TT_COLLECT_ALL, .timeout_ms = 10000 };
    const uint32_t nranks = UNIT_SHARE > 1 ? 3072 : unit_has_turn(0, 4) ? BIG_RANKS : 12288;
    struct sim *s = sim_create(15, nranks, 8);
    const struct tt_status_comm *all;

    (void)state;
    s->nodes[nranks / 2].fate = STOPPED;
    assert_true(begin(s, 17, &q));
    run(s);
    print_message("%u ranks: %.3f s, %.1f frames a rank, at most %.1f MiB at a rank\n", nranks,
                  (double)s->done_ns / 1e9, (double)s->nframes / nranks,
                  (double)s->most_bytes / (1 << 20));
    assert_int_equal(s->ndone, 1);
    assert_int_equal(s->done.nreported, nranks - 1);
    assert_true(s->done_ns < BIG_DUE_NS);
    assert_true(s->most_bytes < MEMORY_MAX);
    assert_int_equal(s->done.lists[TT_STATUS_SILENT].n, 1);
    assert_int_equal(s->done.lists[TT_STATUS_SILENT].rank[0], nranks / 2);
    all = tt_status_find_comm(&s->done, 1);
    assert_non_null(all);
    assert_int_equal(all->nreported, nranks - 1);
    check_missing(all, 5);
    assert_true(s->done.ncomms <= TT_STATUS_COMMS_MAX);
    assert_true(s->done.ncomms + s->done.left_out >= 1 + nranks / 8);
    sim_destroy(s);
}

static void invalid_frames_are_refused(void **state)
{
    struct sim *s = sim_create(16, 8, 0);
    uint8_t frame[TT_OVERLAY_BYTES] = { 0 };
    struct tt_collect *c = &s->nodes[0].machine;

    (void)state;
    assert_false(tt_collect_receive(c, 1, frame, 0, 1));
    assert_false(tt_collect_receive(c, 1, frame, 13, 1));        /* type 0 */
    frame[0] = 7;
    assert_false(tt_collect_receive(c, 1, frame, 13, 1));
    frame[0] = 2;
    assert_false(tt_collect_receive(c, 1, frame, 14, 1));        /* an END with a body */
    assert_true(tt_collect_receive(c, 1, frame, 13, 1));         /* of no collection */
    frame[0] = 1;
    assert_false(tt_collect_receive(c, 1, frame, 30, 1));        /* number 0 */
    assert_int_equal(tt_collect_bytes(c), 0);
    sim_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_live_rank_reports_once),
        cmocka_unit_test(stopped_ranks_are_named_and_hide_no_others),
        cmocka_unit_test(nobody_is_silent_who_answers),
        cmocka_unit_test(several_roots_do_not_disturb_each_other),
        cmocka_unit_test(too_many_roots_get_incomplete_reports),
        cmocka_unit_test(one_rank_is_queried_in_depth),
        cmocka_unit_test(a_lost_child_is_not_awaited),
        cmocka_unit_test(a_newer_query_replaces_older_ones_of_its_root),
        cmocka_unit_test(big_jobs_are_collected_in_time_and_memory),
        cmocka_unit_test(invalid_frames_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
