/* Members of a run in one process measure their links. All are equally near, so any order is
 * possible (tests/cluster/test_optimize.py plants one); but it must be equal on all. */
#include "session/party.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/run.h"

static void view_of(struct guest *g, uint32_t n, tutti_view *view)
{
    *view = (tutti_view){ .size = sizeof *view };
    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, n, 0, 0, view));
    CHECK(view->nranks == (int)n);
}

/* A hash of all members' ids in the order of ranks is equal on all, and an all-reduce is correct.
 * algo: of this member; NULL: not set. */
static void check_alike(struct guest *g, const tutti_view *view, const char *algo)
{
    uint64_t mixed = 0, flags;
    int64_t *v = malloc((1u << 17) * sizeof *v);
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = v,
                         .dst = v,
                         .count = 1u << 17,
                         .type = TUTTI_I64,
                         .algo = algo };

    CHECK(v != NULL);
    for (int r = 0; r < view->nranks; r++)
        mixed = mixed * 31 + view->members[r].id;
    MUST(tutti_run_agree(g->run, mixed, 0, &flags));
    CHECK(flags == mixed);
    MUST(tutti_run_agree(g->run, ~mixed, 0, &flags));
    CHECK(flags == ~mixed);
    for (int64_t i = 0; i < 1 << 17; i++) /* 1 MiB: the size for which the ring was found */
        v[i] = i * (view->rank + 1);
    MUST(tutti_run_collective(g->run, &op));
    for (int64_t i = 0; i < 1 << 17; i++)
        CHECK(v[i] == i * (view->nranks * (view->nranks + 1) / 2));
    MUST(tutti_run_agree(g->run, 1, 0, &flags)); /* no member leaves before all have their sums */
    free(v);
}

static void measures_twice(struct guest *g)
{
    tutti_ring ring = { .size = sizeof ring, .burst_ms = 50 };
    tutti_view view, before;

    view_of(g, 4, &before);
    for (int times = 0; times < 2; times++) {
        const uint64_t epoch = before.epoch;

        view = (tutti_view){ .size = sizeof view };
        MUST(tutti_run_optimize(g->run, &ring, 0, &view));
        CHECK(view.nranks == 4 && view.changed == ring.adopted &&
              view.epoch == epoch + (uint64_t)ring.adopted);
        CHECK(ring.was_ns > 0 && ring.now_ns > 0 &&
              (ring.adopted ? ring.now_ns < ring.was_ns : ring.now_ns == ring.was_ns));
        CHECK(g->run->survey->reported);
        for (uint32_t r = 0; r < 4 && !ring.adopted; r++)
            /* rate 0: a busy machine left no time to measure the pair */
            CHECK(r == g->run->m.rank || g->run->survey->told[r].rate == 0 ||
                  g->run->survey->told[r].latency > 0);
        check_alike(g, &view, NULL);
        before = view;
    }
}

static void all_find_the_same_order(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, 20000, 5000, NULL);
    party_run(&p, 4, measures_twice, NULL);
    party_end(&p);
    party_begin(&p, 20000, 5000, "0123456789abcdef0123456789abcdef");
    party_run(&p, 4, measures_twice, "0123456789abcdef0123456789abcdef");
    party_end(&p);
}

/* Member 0 names the algorithm that the others derive from the view: a difference would be a
 * mismatch. */
static void goes_as_planned(struct guest *g)
{
    static const char *const algos[TT_RING_PLANS] = { [TT_RING_AS_RING] = "ring",
                                                      [TT_RING_AS_TWO_RINGS] = "two_rings",
                                                      [TT_RING_AS_TREES] = "dtree" };
    tutti_view view;

    view_of(g, 3, &view);
    for (uint8_t plan = TT_RING_AS_RING; plan < TT_RING_PLANS; plan++) {
        tt_run_lock(g->run);
        g->run->m.plan = plan;
        tt_run_unlock(g->run);
        check_alike(g, &view, view.rank == 0 ? algos[plan] : NULL);
    }
}

static void long_all_reduce_uses_the_order(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, 20000, 5000, NULL);
    party_run(&p, 3, goes_as_planned, NULL);
    party_end(&p);
}

static bool has_reported(struct guest *g)
{
    bool reported;

    tt_run_lock(g->run);
    reported = g->run->survey->reported;
    tt_run_unlock(g->run);
    return reported;
}

static void *meet(void *arg)
{
    tutti_elastic op = { .size = sizeof op, .coll = TUTTI_BARRIER, .tag = 1 };

    MUST(tutti_run_collective(arg, &op));
    return NULL;
}

static bool is_in_an_operation(tutti_run *run)
{
    bool is;

    tt_run_lock(run);
    is = run->noperations > 0;
    tt_run_unlock(run);
    return is;
}

/* Guest 0 starts to measure during an operation, in which a blocking measurement would be INVALID;
 * the others reach that operation later. */
static void begin_within_an_operation(struct guest *g, tutti_ring *ring)
{
    tutti_ring waits = { .size = sizeof waits };
    tutti_view view = { .size = sizeof view };
    pthread_t thread;

    if (g->index > 0) {
        party_await(g->party, 1);
        MUST(tutti_run_optimize(g->run, ring, 0, NULL));
        meet(g->run);
        return;
    }
    CHECK(pthread_create(&thread, NULL, meet, g->run) == 0);
    while (!is_in_an_operation(g->run))
        poll(NULL, 0, 1);
    CHECK(tutti_run_optimize(g->run, &waits, 0, &view) == TUTTI_ERR_INVALID);
    MUST(tutti_run_optimize(g->run, ring, 0, NULL));
    CHECK(is_in_an_operation(g->run));
    party_reach(g->party, 1);
    pthread_join(thread, NULL);
}

static void measures_beside_its_work(struct guest *g)
{
    tutti_ring ring = { .size = sizeof ring, .burst_ms = 50, .background = 1 };
    tutti_news news = { .size = sizeof news };
    tutti_view view;
    uint64_t all = 0;

    view_of(g, 3, &view);
    begin_within_an_operation(g, &ring);
    while (all == 0) {
        int64_t one = 1;
        tutti_elastic op = { .size = sizeof op,
                             .coll = TUTTI_ALLREDUCE,
                             .src = &one,
                             .dst = &one,
                             .count = 1,
                             .type = TUTTI_I64 };

        MUST(tutti_run_collective(g->run, &op));
        CHECK(one == 3);
        MUST(tutti_run_agree(g->run, has_reported(g), 0, &all));
    }
    MUST(tutti_run_poll(g->run, &news));
    MUST(tutti_run_agree(g->run, (uint64_t)news.better, 0, &all));
    CHECK(all == (uint64_t)news.better);
    MUST(tutti_run_epoch(g->run, 0, 0, 0, 0, &view));
    check_alike(g, &view, NULL);
}

static void background_optimization_does_not_block(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, 20000, 5000, NULL);
    party_run(&p, 3, measures_beside_its_work, NULL);
    party_end(&p);
}

static void one_does_not_come(struct guest *g)
{
    tutti_ring ring = { .size = sizeof ring, .burst_ms = 50 };
    tutti_view view, got = { .size = sizeof got };

    view_of(g, 3, &view);
    if (g->index == 0) {
        CHECK(tutti_run_optimize(g->run, &ring, 0, NULL) == TUTTI_ERR_INVALID);
        ring.background = 1;
        CHECK(tutti_run_optimize(g->run, &ring, 0, &got) == TUTTI_ERR_INVALID);
        ring.background = 0;
        ring.burst_ms = 1;
        CHECK(tutti_run_optimize(g->run, &ring, 0, &got) == TUTTI_ERR_INVALID);
        ring.burst_ms = 50;
        party_await(g->party, 2);
    } else {
        CHECK(tutti_run_optimize(g->run, &ring, 200, &got) == TUTTI_ERR_TIMEOUT);
        CHECK(strstr(tutti_last_error(), "did not make this call") != NULL);
        atomic_fetch_add(&g->party->step, 1);
        party_await(g->party, 2);
    }
    /* a timeout because of a missing member does not change the view */
    MUST(tutti_run_optimize(g->run, &ring, 0, &got));
    check_alike(g, &got, NULL);
    /* a revoke fails the call */
    if (g->index == 2) {
        party_await(g->party, 4);
        MUST(tutti_run_revoke(g->run));
    } else {
        atomic_fetch_add(&g->party->step, 1);
        CHECK(tutti_run_optimize(g->run, &ring, 0, &got) == TUTTI_ERR_PEER_LOST);
    }
    MUST(tutti_run_epoch(g->run, 0, 0, 0, 0, &view));
    CHECK(view.nranks == 3);
    MUST(tutti_run_agree(g->run, 1, 0, &(uint64_t){ 0 }));
}

static void missing_member_is_named_loss_ends(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, 20000, 5000, NULL);
    party_run(&p, 3, one_does_not_come, NULL);
    party_end(&p);
}

static tutti_run *_Atomic measured; /* the first member's run, set just before its call */

/* Waits until the first member measures. */
static void await_call(void)
{
    bool waits = false;

    for (int ms = 0; ms < 60000 && !waits; ms++) {
        tutti_run *run = atomic_load(&measured);

        if (run) {
            tt_run_lock(run);
            waits = run->m.calling && run->m.call.what == TT_CALL_OPTIMIZE;
            tt_run_unlock(run);
        }
        poll(NULL, 0, 1);
    }
    CHECK(waits);
}

/* The epoch ends while guest 0 waits for its measurement. The others measured in the background,
 * and request the next view at once. */
static void some_still_measure(struct guest *g)
{
    tutti_ring ring = { .size = sizeof ring, .burst_ms = 10, .background = g->index > 0 };
    tutti_view view, got = { .size = sizeof got };

    view_of(g, 3, &view);
    if (g->index == 0) {
        atomic_store(&measured, g->run);
        CHECK(tutti_run_optimize(g->run, &ring, 0, &got) == TUTTI_ERR_PEER_LOST);
    } else {
        MUST(tutti_run_optimize(g->run, &ring, 0, NULL));
        await_call();
        atomic_fetch_add(&g->party->step, 1);
        party_await(g->party, 2); /* both measure, and have seen that guest 0 waits */
        MUST(tutti_run_revoke(g->run));
    }
    MUST(tutti_run_epoch(g->run, 0, 0, 0, 0, &view));
    CHECK(view.nranks == 3);
    MUST(tutti_run_agree(g->run, 1, 0, &(uint64_t){ 0 }));
}

static void loss_is_reported_to_all_measurers(void **state)
{
    struct party p;

    (void)state;
    atomic_store(&measured, NULL);
    party_begin(&p, 20000, 5000, NULL);
    party_run(&p, 3, some_still_measure, NULL);
    party_end(&p);
}

static bool error_contains(const char *what)
{
    return strstr(tutti_last_error(), what) != NULL;
}

static tutti_array one_array = {
    .size = sizeof(tutti_array), .name = "one", .type = TUTTI_F32, .may_differ = 1
};

/* Guest 0 optimizes, and the others make another call, or measure in the background: all errors
 * name two members and their calls, before any measurement. */
static void others_call_otherwise(struct guest *g)
{
    static const char *const calls[] = { "epoch", "agree", "commit", "sync" };
    tutti_ring ring = { .size = sizeof ring, .burst_ms = 50 };
    tutti_state state = { .size = sizeof state, .arrays = &one_array, .narrays = 1 };
    tutti_view view, got = { .size = sizeof got };
    uint64_t flags = 0;
    int outcome = 0;
    char what[40];

    view_of(g, 3, &view);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const tutti_status st = g->index == 0 ? tutti_run_optimize(g->run, &ring, 0, &got)
                                : i == 0      ? tutti_run_epoch(g->run, 0, 0, 0, 0, &view)
                                : i == 1      ? tutti_run_agree(g->run, 1, 0, &flags)
                                : i == 2      ? tutti_run_commit(g->run, 1, 0, &outcome)
                                              : tutti_run_sync(g->run, &state, 0);

        snprintf(what, sizeof what, "called %s", calls[i]);
        CHECK(st == TUTTI_ERR_MISMATCH && error_contains("called optimize") &&
              error_contains(what) && error_contains("this is member"));
    }
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    /* the others measure in the background, and make another call */
    ring.background = g->index > 0;
    if (g->index == 0) {
        CHECK(tutti_run_optimize(g->run, &ring, 0, &got) == TUTTI_ERR_MISMATCH);
    } else {
        MUST(tutti_run_optimize(g->run, &ring, 0, NULL));
        CHECK(tutti_run_agree(g->run, 1, 0, &flags) == TUTTI_ERR_MISMATCH);
    }
    CHECK(error_contains("called optimize") && error_contains("called agree"));
    /* the mismatches have not changed the view */
    ring.background = 0;
    MUST(tutti_run_optimize(g->run, &ring, 0, &got));
    check_alike(g, &got, NULL);
}

static void lone_optimize_is_a_mismatch(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, 20000, 5000, NULL);
    party_run(&p, 3, others_call_otherwise, NULL);
    party_end(&p);
}

static void is_alone(struct guest *g)
{
    tutti_ring ring = { .size = sizeof ring };
    tutti_view view = { .size = sizeof view };

    CHECK(tutti_run_optimize(g->run, &ring, 0, &view) == TUTTI_ERR_INVALID); /* not in a view */
    view_of(g, 1, &view);
    MUST(tutti_run_optimize(g->run, &ring, 0, &view));
    CHECK(view.nranks == 1 && ring.adopted == 0 && ring.was_ns == 0);
}

static void is_of_the_only_group(struct guest *g)
{
    tutti_ring ring = { .size = sizeof ring };
    tutti_view view;

    view_of(g, 2, &view);
    MUST(tutti_run_optimize(g->run, &ring, 0, &view));
    CHECK(view.nranks == 2 && ring.adopted == 0 && ring.was_ns == 0);
    MUST(tutti_run_agree(g->run, 1, 0, &(uint64_t){ 0 }));
}

static void single_member_needs_no_order(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, 20000, 5000, NULL);
    party_run(&p, 1, is_alone, NULL);
    party_end(&p);
    party_begin(&p, 20000, 5000, NULL);
    p.nroles = 2;
    party_run(&p, 2, is_of_the_only_group, NULL);
    party_end(&p);
}

/* ---- replica groups ---- */

#define ROLES 2
#define GROUPS 3

/* An all-reduce in the scope of the role, long enough for the order to apply. */
static void reduce_shards(struct guest *g, const tutti_view *view, const char *algo)
{
    const int64_t role = view->members[view->rank].role;
    int64_t *v = malloc((1u << 17) * sizeof *v);
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = v,
                         .dst = v,
                         .count = 1u << 17,
                         .type = TUTTI_I64,
                         .scope = TUTTI_SCOPE_ROLE,
                         .algo = algo };

    CHECK(v != NULL);
    for (int64_t i = 0; i < 1 << 17; i++)
        v[i] = i * (role + 1);
    MUST(tutti_run_collective(g->run, &op));
    CHECK(op.contributors == GROUPS);
    for (int64_t i = 0; i < 1 << 17; i++)
        CHECK(v[i] == GROUPS * i * (role + 1));
    free(v);
}

/* Members of one role measure each other, all roles concurrently; groups stay together. Then member
 * 0 names the algorithm that the others of its role derive from the view. Operations of all members
 * are unchanged, because the ring does not apply to them. */
static void measures_its_role(struct guest *g)
{
    static const char *const algos[TT_RING_PLANS] = { [TT_RING_AS_RING] = "ring",
                                                      [TT_RING_AS_TWO_RINGS] = "two_rings",
                                                      [TT_RING_AS_TREES] = "dtree" };
    tutti_ring ring = { .size = sizeof ring, .burst_ms = 50 };
    tutti_view view;

    view_of(g, GROUPS * ROLES, &view);
    for (int times = 0; times < 2; times++) {
        MUST(tutti_run_optimize(g->run, &ring, 0, &view));
        CHECK(view.nranks == GROUPS * ROLES && view.changed == ring.adopted);
        CHECK(ring.was_ns > 0 && ring.now_ns > 0);
        CHECK(g->run->survey->reported && g->run->survey->machine.conf.nranks == GROUPS);
        for (int r = 0; r < view.nranks; r++)
            CHECK(view.members[r].role == (uint32_t)r % ROLES &&
                  view.members[r].group == view.members[r - r % ROLES].group);
        check_alike(g, &view, NULL);
        reduce_shards(g, &view, NULL);
    }
    for (uint8_t plan = TT_RING_AS_RING; plan < TT_RING_PLANS; plan++) {
        tt_run_lock(g->run);
        g->run->m.plan = plan;
        tt_run_unlock(g->run);
        reduce_shards(g, &view, view.rank == 0 ? algos[plan] : NULL);
        check_alike(g, &view, NULL);
    }
}

static void groups_are_ordered_by_role_measurements(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, 20000, 5000, NULL);
    p.nroles = ROLES;
    party_run(&p, GROUPS * ROLES, measures_its_role, NULL);
    party_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_find_the_same_order),
        cmocka_unit_test(long_all_reduce_uses_the_order),
        cmocka_unit_test(background_optimization_does_not_block),
        cmocka_unit_test(missing_member_is_named_loss_ends),
        cmocka_unit_test(loss_is_reported_to_all_measurers),
        cmocka_unit_test(lone_optimize_is_a_mismatch),
        cmocka_unit_test(single_member_needs_no_order),
        cmocka_unit_test(groups_are_ordered_by_role_measurements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
