/* The start-up tree in a simulated world (sim/start.h). Connections break; processes die, start
 * late, or have a wrong token or the rank of another process. A failure prints its seed;
 * TUTTI_TEST_SEED replays it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/rank_names.h"
#include "boot/tree.h"
#include "sim/start_central.h"
#include "sim/start_levels.h"
#include "support/unit.h"
#include "support/world.h"

#define TIMEOUT_NS (20 * TT_SECOND)     /* default of the simulation */

static struct tt_start *sim_create(uint64_t seed, const struct tt_start_conf *plan)
{
    struct tt_start_conf conf = *plan;

    conf.seed = seed;
    return tt_start_create(&conf);
}

/* ---- checks ---- */

/* Decodes the layout, and compares it with the places and with the hosts, which are numbered by
 * their first ranks. */
static void check_layout(const struct tt_start *s, const struct tt_tree_place *place)
{
    uint32_t *index = calloc(s->nranks, sizeof *index), nhosts = 0;
    struct tt_tree_walk w;

    tt_assert(index);
    assert_true(tt_tree_layout_is_valid(place->layout, place->layout_bytes, s->nranks));
    assert_int_equal(tt_tree_walk_init(&w, place->layout, place->layout_bytes), TUTTI_OK);
    for (uint32_t rank = 0; rank < s->nranks; rank++) {
        const uint8_t *found;
        uint8_t bytes;
        const uint32_t host = tt_tree_walk_next(&w, &found, &bytes);

        if (!index[s->leader[rank]])
            index[s->leader[rank]] = ++nhosts;
        assert_int_equal(index[s->leader[rank]] - 1, host);
        assert_int_equal(bytes, s->places ? s->places[rank].bytes : 0);
        if (bytes)
            assert_memory_equal(found, s->places[rank].data, bytes);
    }
    tt_tree_walk_fini(&w);
    free(index);
}

static uint32_t rank_at(const struct tt_tree_address *a)
{
    uint32_t rank;

    assert_int_equal(a->bytes, 23);
    memcpy(&rank, a->data, sizeof rank);
    return rank;
}

static void check_place(const struct tt_start *s, uint32_t rank)
{
    const struct tt_start_process *p = &s->processes[rank];
    const struct tt_tree_place *place = &p->tree.place;

    if (p->tree.state == TT_TREE_FAILED)
        print_message("rank %u: %s\n", rank, p->tree.sentence);
    assert_int_equal(p->tree.state, TT_TREE_PLACED);
    assert_memory_equal(place->secret, s->secret, sizeof s->secret);
    assert_int_equal(place->constants_bytes, s->conf.constants_bytes);
    assert_memory_equal(place->constants, s->constants, s->conf.constants_bytes);
    assert_int_equal(rank_at(&place->before), (rank + s->nranks - 1) % s->nranks);
    assert_int_equal(rank_at(&place->after), (rank + 1) % s->nranks);
}

/* Checks that the table has the record of each rank, and the first rank of its host. */
static void check_table(const struct tt_start *s, const struct tt_tree_place *place)
{
    struct tt_record_stream records = { .n = 0 };
    struct tt_reader r;

    tt_reader_init(&r, place->table, place->table_bytes);
    for (uint32_t rank = 0; s->cards && rank < s->nranks; rank++) {
        tt_record_read(&records, &r);
        assert_int_equal(records.entry.holder, s->leader[rank]);
        assert_int_equal(records.entry.bytes, tt_start_card_bytes(rank));
        assert_memory_equal(records.entry.record, s->cards[rank], records.entry.bytes);
    }
    assert_true(!r.bad && r.at == r.end);
}

static void check_all_placed(const struct tt_start *s)
{
    const struct tt_tree_place *first = &s->processes[0].tree.place;

    for (uint32_t r = 0; r < s->nranks; r++) {
        const struct tt_tree_place *place = &s->processes[r].tree.place;

        check_place(s, r);
        if (r == 0)
            check_layout(s, place);
        check_table(s, place);
        assert_int_equal(place->layout_bytes, first->layout_bytes);
        assert_memory_equal(place->layout, first->layout, first->layout_bytes);
    }
}

static struct tt_start_conf draw_plan(uint64_t seed)
{
    struct tt_prng prng;
    struct tt_start_conf plan;

    tt_prng_init(&prng, ~seed);
    plan =
        (struct tt_start_conf){ .nranks = 64 + (uint32_t)tt_prng_below(&prng, seed % 10 ? 64 : 961),
                                .per_host = 1 + (uint32_t)tt_prng_below(&prng, 16),
                                .children_max = 1 + (uint32_t)tt_prng_below(&prng, 12),
                                .cyclic = tt_prng_below(&prng, 2),
                                .hinted = tt_prng_below(&prng, 2),
                                .cards = seed % 2,
                                .leader = (uint32_t)(seed / 2 % 4),
                                .places = (enum tt_start_places)(seed / 8 % 4),
                                .latency_ns = 1000 + tt_prng_below(&prng, 2) * 20 * TT_MS,
                                .start_ns = 1 + tt_prng_below(&prng, 2 * TT_SECOND) };
    return plan;
}

static void add_strangers(struct tt_start *s)
{
    for (uint64_t i = tt_prng_below(&s->prng, 40); i > 0; i--) {
        const uint64_t at_ns = tt_prng_below(&s->prng, 3 * TT_SECOND);

        tt_start_plan(s, at_ns, TT_START_STRANGER,
                      (uint32_t)tt_prng_below(&s->prng, s->nranks + 1));
    }
}

static void add_resets(struct tt_start *s)
{
    s->resets_in = tt_prng_below(&s->prng, 2) * (20 + tt_prng_below(&s->prng, 200));
    for (uint64_t i = tt_prng_below(&s->prng, 20); i > 0; i--)
        tt_start_plan(s, tt_prng_below(&s->prng, 3 * TT_SECOND), TT_START_RESET, 0);
}

/* ---- tests ---- */

static void print_case(uint64_t seed, const struct tt_start_conf *plan)
{
    print_message("seed %llu, %u ranks, %u per host%s, %u children, places %d\n",
                  (unsigned long long)seed, plan->nranks, plan->per_host,
                  plan->cyclic ? " in turn" : "", plan->children_max, plan->places);
}

static uint64_t ncases(uint64_t n)
{
    return n / unit_share() > 0 ? n / unit_share() : 1;
}

static void all_get_one_place_despite_faults(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, ncases(1000)));) {
        const struct tt_start_conf plan = draw_plan(seed);
        struct tt_start *s = sim_create(seed, &plan);

        print_case(seed, &plan);
        add_strangers(s);
        add_resets(s);
        tt_start_run(s);
        check_all_placed(s);
        assert_true(tt_tree_is_over(&s->processes[s->root].tree));
        tt_start_destroy(s);
    }
}

/* One process has a wrong token. Another one has the rank of another process, on that rank's host
 * or on its own. Only these two are refused. */
static void offenders_alone_are_refused(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, ncases(200)));) {
        struct tt_start_conf plan = draw_plan(seed);
        const uint32_t last = plan.nranks - 1;
        const struct tt_start_process *token, *twice;
        struct tt_tree_conf conf;
        struct tt_start *s;

        plan.nextra = 2;
        print_case(seed, &plan);
        s = sim_create(seed, &plan);
        token = &s->processes[s->root + 1];
        twice = &s->processes[s->root + 2];
        conf = tt_start_conf_of(s, 1);
        conf.token = "tokem";
        conf.process = 1;
        tt_start_init_process(s, s->root + 1, &conf, tt_prng_below(&s->prng, plan.start_ns));
        conf = tt_start_conf_of(s, last / 2);
        conf.process = 2;
        conf.serve_port = 0;
        if (tt_prng_below(&s->prng, 2) || conf.leader == last)     /* that leader starts too late */
            conf.leader = conf.rank;
        tt_start_init_process(s, s->root + 2, &conf, 5 * TT_SECOND);     /* the process with this
                                                                            rank has joined */
        tt_tree_fini(&s->processes[last].tree);
        conf = tt_start_conf_of(s, last);
        tt_start_init_process(s, last, &conf, 7 * TT_SECOND);   /* all other ranks wait for the last
                                                                   one */
        tt_start_run(s);
        check_all_placed(s);
        assert_int_equal(token->tree.state, TT_TREE_FAILED);
        assert_int_equal(twice->tree.state, TT_TREE_FAILED);
        assert_non_null(strstr(token->tree.sentence, "token"));
        assert_non_null(strstr(twice->tree.sentence, "joined twice"));
        tt_start_destroy(s);
    }
}

struct missing {
    const struct tt_start *s;
};

static bool rank_is_dead(const void *context, uint32_t rank)
{
    const struct missing *m = context;

    return m->s->processes[rank].dead;
}

/* Ranks never start, or die at any time. All others fail within two seconds of the deadline, and
 * the error of the root lists exactly the missing ranks. If all had joined before, they complete
 * earlier, with their places. */
static void deadline_reports_all_missing_ranks(void **state)
{
    uint64_t nnamed = 0, nlocal = 0;

    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, ncases(1000)));) {
        const struct tt_start_conf plan = draw_plan(seed);
        struct tt_start *s = sim_create(seed, &plan);
        char list[160], expected[200];

        print_case(seed, &plan);
        add_strangers(s);
        add_resets(s);
        for (uint64_t n = 1 + tt_prng_below(&s->prng, 6); n > 0; n--)
            tt_start_plan(s,
                          tt_prng_below(&s->prng, 2) ? 0 : tt_prng_below(&s->prng, 3 * TT_SECOND),
                          TT_START_KILL, (uint32_t)tt_prng_below(&s->prng, s->nranks));
        tt_start_run(s);
        tt_ranks_name(list, sizeof list, s->nranks, rank_is_dead, &(struct missing){ s });
        snprintf(expected, sizeof expected, "missing: %s", list);
        for (uint32_t r = 0; r < s->nranks; r++) {
            const struct tt_start_process *p = &s->processes[r];

            if (p->dead || s->processes[s->root].tree.state == TT_TREE_PLACED)
                continue;
            assert_int_equal(p->tree.state, TT_TREE_FAILED);
            assert_int_equal(p->tree.status, TUTTI_ERR_TIMEOUT);
            assert_true(p->ended_ns <= TIMEOUT_NS + plan.start_ns + 2 * TT_SECOND);
            if (strstr(p->tree.sentence, expected))
                nnamed++;
            else
                nlocal++;
        }
        tt_start_destroy(s);
    }
    print_message("%llu ranks have the list, %llu were not connected at the deadline\n",
                  (unsigned long long)nnamed, (unsigned long long)nlocal);
    assert_true(nnamed > 20 * nlocal);
}

/* A rank dies when the root has the result, perhaps before it has forwarded the result to its
 * children. They get it from the root, or fail with the cause. */
static void nobody_hangs_if_a_rank_dies_at_the_end(void **state)
{
    uint64_t nplaced = 0, nfailed = 0;

    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, ncases(300)));) {
        const struct tt_start_conf plan = draw_plan(seed);
        struct tt_start *s = sim_create(seed, &plan);
        bool killed = false;

        print_case(seed, &plan);
        while (tt_start_next(s)) {
            if (!killed && s->processes[s->root].tree.state == TT_TREE_PLACED) {
                killed = true;
                tt_start_plan(s, s->now_ns + tt_prng_below(&s->prng, TT_MS), TT_START_KILL,
                              (uint32_t)tt_prng_below(&s->prng, s->nranks));
            }
        }
        for (uint32_t r = 0; r < s->nranks; r++) {
            const struct tt_start_process *p = &s->processes[r];

            if (p->dead)
                continue;
            assert_int_not_equal(p->tree.state, TT_TREE_GATHERING);
            if (p->tree.state == TT_TREE_PLACED)
                check_place(s, r);
            nplaced += p->tree.state == TT_TREE_PLACED;
            nfailed += p->tree.state == TT_TREE_FAILED;
        }
        tt_start_destroy(s);
    }
    assert_true(nplaced > 20 * nfailed);
}

static void different_settings_fail_everywhere(void **state)
{
    const struct tt_start_conf plan = {
        .nranks = 60, .per_host = 4, .children_max = 3, .latency_ns = TT_MS, .start_ns = TT_SECOND
    };
    struct tt_start *s = sim_create(1, &plan);

    (void)state;
    s->processes[17].tree.conf.settings = "TUTTI_SECURITY=secret";
    s->processes[40].tree.conf.settings = NULL;
    tt_start_run(s);
    for (uint32_t r = 0; r < s->nranks; r++) {
        assert_int_equal(s->processes[r].tree.state, TT_TREE_FAILED);
        assert_int_equal(s->processes[r].tree.status, TUTTI_ERR_MISMATCH);
        assert_non_null(strstr(s->processes[r].tree.sentence,
                               "rank 17 differ from those of rank 0 (2 of 60 ranks differ): "
                               "rank 0 has equal on all; rank 17 has TUTTI_SECURITY=secret"));
    }
    tt_start_destroy(s);
}

/* Several ranks cannot start, among them first ranks of their hosts. When all have joined, the
 * lowest of these ranks is reported. */
static void rank_that_cannot_start_is_reported_to_all(void **state)
{
    (void)state;
    for (uint32_t lowest = 0; lowest < 20; lowest++) {
        const struct tt_start_conf plan = { .nranks = 60,
                                            .per_host = 4,
                                            .children_max = 3,
                                            .cyclic = lowest % 2,
                                            .latency_ns = TT_MS,
                                            .start_ns = TT_SECOND };
        struct tt_start *s = sim_create(lowest + 1, &plan);
        char expected[80], longest[2 * TT_TREE_CAUSE_MAX];

        memset(longest, 'x', sizeof longest);
        longest[sizeof longest - 1] = 0;
        s->processes[lowest].tree.conf.refuses = TUTTI_ERR_NOMEM;
        s->processes[lowest].tree.conf.cause = lowest % 3 ? "out of memory" : longest;
        s->processes[lowest].tree.conf.settings = NULL;
        s->processes[57].tree.conf.refuses = TUTTI_ERR_INVALID;
        s->processes[57].tree.conf.cause = "something else";
        add_strangers(s);
        tt_start_run(s);
        snprintf(expected, sizeof expected, "rank %u cannot start: %s", lowest,
                 lowest % 3 ? "out of memory" : "xxxx");
        for (uint32_t r = 0; r < s->nranks; r++) {
            const struct tt_tree *t = &s->processes[r].tree;

            assert_int_equal(t->state, TT_TREE_FAILED);
            assert_int_equal(t->status, TUTTI_ERR_NOMEM);
            assert_memory_equal(t->sentence, expected, strlen(expected));
        }
        tt_start_destroy(s);
    }
}

/* If a rank is missing, too, the error at the deadline contains the cause of the rank that cannot
 * start. */
static void deadline_reports_a_rank_that_cannot_start(void **state)
{
    const struct tt_start_conf plan = {
        .nranks = 6, .per_host = 2, .children_max = 3, .latency_ns = TT_MS, .start_ns = TT_SECOND
    };
    struct tt_start *s = sim_create(1, &plan);

    (void)state;
    s->processes[3].tree.conf.refuses = TUTTI_ERR_INVALID;
    s->processes[3].tree.conf.cause = "no such plan";
    tt_start_kill(s, 5);
    tt_start_run(s);
    for (uint32_t r = 0; r < 5; r++) {
        assert_int_equal(s->processes[r].tree.state, TT_TREE_FAILED);
        assert_int_equal(s->processes[r].tree.status, TUTTI_ERR_TIMEOUT);
        assert_non_null(
            strstr(s->processes[r].tree.sentence, "missing: 5; rank 3 cannot start: no such plan"));
    }
    tt_start_destroy(s);
}

static void different_size_is_refused(void **state)
{
    const struct tt_start_conf plan = { .nranks = 8,
                                        .per_host = 2,
                                        .children_max = 2,
                                        .nextra = 1,
                                        .latency_ns = TT_MS,
                                        .start_ns = TT_SECOND };
    struct tt_start *s = sim_create(1, &plan);
    struct tt_tree_conf conf = tt_start_conf_of(s, 3);

    (void)state;
    tt_tree_fini(&s->processes[6].tree);
    conf.nranks = 9;
    conf.leader = 3;
    tt_start_init_process(s, s->root + 1, &conf, 2 * TT_SECOND);
    conf = tt_start_conf_of(s, 6);
    tt_start_init_process(s, 6, &conf, 4 * TT_SECOND);
    tt_start_run(s);
    check_all_placed(s);
    assert_non_null(strstr(s->processes[s->root + 1].tree.sentence,
                           "rank 3 expects 9 ranks, but the job has 8"));
    tt_start_destroy(s);
}

static void ignore_act(void *context, const struct tt_tree_act *act)
{
    int *kinds = context;

    *kinds |= 1 << act->kind;
}

static void different_version_is_reported(void **state)
{
    const uint8_t challenge[18] = { TT_TREE_VERSION + 1 };
    const struct tt_tree_conf conf = { .token = "token", .nranks = 2, .deadline_ns = TT_NEVER };
    struct tt_tree_event ev = { .kind = TT_TREE_EV_TICK };
    char versions[80];
    struct tt_tree t;
    int kinds = 0;

    (void)state;
    snprintf(versions, sizeof versions, "the server has version %u, this rank has version %u",
             TT_TREE_VERSION + 1, TT_TREE_VERSION);
    tt_tree_init(&t, &conf, 1);
    t.emit = ignore_act;
    t.context = &kinds;
    tt_tree_step(&t, &ev, 1);
    assert_int_equal(kinds, 1 << TT_TREE_ACT_CONNECT);
    ev.kind = TT_TREE_EV_OPEN;
    tt_tree_step(&t, &ev, 2);
    ev.kind = TT_TREE_EV_FRAME;
    ev.frame = (struct tt_frame){ .type = 1, .body = challenge, .bytes = sizeof challenge };
    tt_tree_step(&t, &ev, 3);
    assert_int_equal(t.state, TT_TREE_FAILED);
    assert_int_equal(t.status, TUTTI_ERR_PROTOCOL);
    assert_non_null(strstr(t.sentence, versions));
    tt_tree_fini(&t);
}

/* Costs of one fault-free start-up. */
struct sizes {
    double virtual_s;
    uint64_t received_max, busiest, layout_bytes, root_conns, conns_max, ndropped;
};

static struct sizes measure(uint32_t nranks, uint32_t per_host, bool cyclic,
                            enum tt_start_places places)
{
    const struct tt_start_conf plan = { .nranks = nranks,
                                        .per_host = per_host,
                                        .cyclic = cyclic,
                                        .hinted = true,
                                        .places = places,
                                        .latency_ns = 100000,
                                        .start_ns = TT_SECOND / 2 };
    struct tt_start *s = sim_create(7, &plan);
    struct sizes out = { .root_conns = 0 };
    struct tt_start_report r;

    tt_start_run(s);
    tt_start_report_of(s, &r);
    for (uint32_t i = 0; i < s->nranks; i++)
        if (s->processes[i].nconns > out.conns_max)
            out.conns_max = s->processes[i].nconns;
    out.busiest = r.busiest_bytes;
    out.received_max = r.received_most;
    out.virtual_s = (double)r.time_ns / 1e9;
    out.root_conns = s->processes[s->root].nconns;
    out.ndropped = s->ndropped;
    out.layout_bytes = s->processes[0].tree.place.layout_bytes;
    print_message("%6u ranks, %2u per host%s: %.3f s, a rank receives %llu B, the layout has %llu "
                  "B, the busiest process moves %llu B, connections: root %llu, server %llu, "
                  "dropped %llu\n",
                  nranks, per_host, cyclic ? " in turn" : "", out.virtual_s,
                  (unsigned long long)out.received_max, (unsigned long long)out.layout_bytes,
                  (unsigned long long)out.busiest, (unsigned long long)out.root_conns,
                  (unsigned long long)out.conns_max, (unsigned long long)out.ndropped);
    check_all_placed(s);
    tt_start_destroy(s);
    return out;
}

/* Returns the time of a central server without a limit on its backlog, with the same times per
 * message. */
static double central_s(uint32_t nranks)
{
    const struct tt_central_conf conf = { .nranks = nranks,
                                          .per_host = 8,
                                          .backlog = nranks,
                                          .ngathers = 7,
                                          .record_bytes = 512,
                                          .latency_min_ns = TT_START_LATENCY_NS,
                                          .latency_ns = 100000,
                                          .start_ns = TT_SECOND / 2,
                                          .message_ns = TT_START_MESSAGE_NS,
                                          .seed = 7 };
    struct tt_central_result r;

    tt_central_run(&conf, &r);
    assert_int_equal(r.nlost, 0);
    return (double)r.gathered_ns / 1e9;
}

/* docs/start-up.md states these numbers. */
static void cost_is_bounded_at_98304_ranks(void **state)
{
    const uint32_t nranks = UNIT_SHARE > 1 ? 6144 : 98304;
    struct sizes half, whole;

    (void)state;
    half = measure(nranks / 2, 8, false, TT_START_PLACES_ALIKE);
    whole = measure(nranks, 8, false, TT_START_PLACES_ALIKE);
    assert_true(whole.virtual_s < 23);
    print_message("central server: %.1f s\n", central_s(nranks));
    if (nranks == 98304)
        assert_true(central_s(nranks) >= 11 * whole.virtual_s);
    assert_true(whole.received_max <= 65536);
    assert_true((double)whole.busiest <= 2.1 * (double)half.busiest);
    assert_int_equal(whole.layout_bytes, half.layout_bytes);
    measure(nranks / 4, 8, true, TT_START_PLACES_ALIKE);
}

/* The layout grows with the number of racks, not of hosts or ranks. */
static void places_of_equal_hosts_are_sent_once(void **state)
{
    const uint32_t nracks = 16, per_rack = TT_START_RACK_HOSTS * 8;
    struct sizes none, alike, racks;

    (void)state;
    none = measure(nracks * per_rack, 8, false, TT_START_PLACES_NONE);
    alike = measure(nracks * per_rack, 8, false, TT_START_PLACES_ALIKE);
    racks = measure(nracks * per_rack, 8, false, TT_START_PLACES_IN_RACKS);
    assert_true(alike.layout_bytes <= none.layout_bytes + 4 + TT_TREE_PLACE_MAX);
    assert_true(racks.layout_bytes <= alike.layout_bytes + (nracks - 1) * 80);
}

static bool is_odd_or_above_20(const void *context, uint32_t rank)
{
    (void)context;
    return rank % 2 == 1 || rank > 20;
}

static void rank_list_has_ranges_and_end(void **state)
{
    char list[160];

    (void)state;
    tt_ranks_name(list, sizeof list, 8, is_odd_or_above_20, NULL);
    assert_string_equal(list, "1, 3, 5, 7");
    tt_ranks_name(list, sizeof list, 100, is_odd_or_above_20, NULL);
    assert_string_equal(list, "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21-99");
    tt_ranks_name(list, 60, 21, is_odd_or_above_20, NULL);
    assert_string_equal(list, "1, 3, 5, 7, 9 and 5 more");
    tt_ranks_name(list, sizeof list, 1, is_odd_or_above_20, NULL);
    assert_string_equal(list, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_one_place_despite_faults),
        cmocka_unit_test(offenders_alone_are_refused),
        cmocka_unit_test(deadline_reports_all_missing_ranks),
        cmocka_unit_test(nobody_hangs_if_a_rank_dies_at_the_end),
        cmocka_unit_test(different_settings_fail_everywhere),
        cmocka_unit_test(rank_that_cannot_start_is_reported_to_all),
        cmocka_unit_test(deadline_reports_a_rank_that_cannot_start),
        cmocka_unit_test(different_size_is_refused),
        cmocka_unit_test(different_version_is_reported),
        cmocka_unit_test(rank_list_has_ranges_and_end),
        cmocka_unit_test(places_of_equal_hosts_are_sent_once),
        cmocka_unit_test(cost_is_bounded_at_98304_ranks),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
