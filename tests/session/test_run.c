/* Members of a run in one process: views, operations, collective calls, and how these fail. */
#include "session/party.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/state.h"
#include "session/run.h"

static void first_view(struct guest *g, uint32_t n)
{
    tutti_view view = { .size = sizeof view };

    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, n, 0, 0, &view));
    CHECK(view.nranks == (int)n && view.changed == 1 && view.rank >= 0 && view.rank < (int)n);
    CHECK(view.members[view.rank].id > 0);
}

/* ---- common calls ---- */

static void all_calls(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    tutti_news news = { .size = sizeof news };
    uint64_t flags = 0;
    int outcome = 0;
    float in[100], out[100];

    first_view(g, 3);
    MUST(tutti_run_view(g->run, &view));
    for (int k = 0; k < 50; k++) {
        for (int i = 0; i < 100; i++)
            in[i] = (float)(view.rank + i + k);
        MUST(tutti_run_allreduce(g->run, in, out, 100, TUTTI_F32, TUTTI_SUM, (uint32_t)k % 4));
        for (int i = 0; i < 100; i++)
            CHECK(out[i] == (float)(3 * (i + k) + 3));
    }
    MUST(tutti_run_poll(g->run, &news));
    CHECK(news.lost == 0 && news.newcomers == 0 && news.epoch == view.epoch);
    MUST(tutti_run_agree(g->run, 7u ^ 1u << view.rank, 0, &flags));
    CHECK(flags == 0);
    MUST(tutti_run_agree(g->run, 0xff0u, 0, &flags));
    CHECK(flags == 0xff0u);
    MUST(tutti_run_commit(g->run, 1, 0, &outcome));
    CHECK(outcome == 1);
    MUST(tutti_run_commit(g->run, view.rank != 1, 0, &outcome));
    CHECK(outcome == 0);
    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 0, 0, 0, &view));
    CHECK(view.changed == 0 && view.nranks == 3);
    MUST(tutti_barrier(tutti_run_comm(g->run), NULL));
    MUST(tutti_run_agree(g->run, 1, 0, &flags)); /* no member leaves before all have finished */
}

static void members_reduce_agree_and_commit(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, all_calls, NULL);
    party_end(&p);
}

static void members_work_with_a_token(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, "0123456789abcdef0123456789abcdef");
    party_run(&p, 3, all_calls, "0123456789abcdef0123456789abcdef");
    party_end(&p);
}

/* ---- losses ---- */

#define VALUES 5000

static void fill(int64_t *v, int32_t who)
{
    for (int i = 0; i < VALUES; i++)
        v[i] = (int64_t)i * 3 + who;
}

/* Checks that v is the result of `n` members whose numbers sum to `sum`. */
static void check_sum(const int64_t *v, uint32_t n, int64_t sum)
{
    for (int i = 0; i < VALUES; i++)
        CHECK(v[i] == (int64_t)n * i * 3 + sum);
}

/* One of three members exits without notice; the in-place operations of the others are retried. */
static void one_goes(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t v[VALUES], mine, ids[3];    /* ids: copied from the first view, whose members are freed
                                           with it */

    first_view(g, 3);
    MUST(tutti_run_view(g->run, &view));
    mine = (int64_t)view.members[view.rank].id;
    for (int r = 0; r < 3; r++)
        ids[r] = (int64_t)view.members[r].id;
    for (int k = 0; k < 40; k++) {
        tutti_elastic op = { .size = sizeof op,
                             .coll = TUTTI_ALLREDUCE,
                             .src = v,
                             .dst = v,
                             .count = VALUES,
                             .type = TUTTI_I64,
                             .mode = TUTTI_RETRY,
                             .tag = (uint32_t)k % 3 };
        int64_t sum = 0;

        if (view.rank == 1 && k == 20)
            return; /* operations that are FINAL here stay FINAL, also if others do not know it
                       yet */
        fill(v, (int32_t)mine);
        MUST(tutti_run_collective(g->run, &op));
        CHECK(op.contributors == (k < 20 ? 3 : 2) && op.attempts >= 1);
        for (int32_t r = 0; r < 3; r++)
            sum += k < 20 || r != 1 ? ids[r] : 0;
        check_sum(v, op.contributors, sum);
        if (k == 20) { /* tutti_run_view returns the new members */
            tutti_view now = { .size = sizeof now };

            MUST(tutti_run_view(g->run, &now));
            CHECK(now.nranks == 2 && now.members[now.rank].id == (uint64_t)mine);
            MUST(tutti_run_epoch(g->run, 0, 0, 0, 0, &view)); /* the view that the retry has
                                                                 formed */
            CHECK(view.changed == 0 && view.nranks == 2 && view.epoch == now.epoch);
            return;
        }
    }
}

static void interrupted_operation_is_retried_in_place(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, one_goes, NULL);
    party_end(&p);
}

#define LEAVERS 4

/* The members leave one by one, each directly after an operation, when others may not know yet that
 * all have completed it. */
static void each_goes_after_an_operation(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t v[VALUES];

    first_view(g, LEAVERS);
    MUST(tutti_run_view(g->run, &view));
    for (int32_t left = LEAVERS; left > 1; left--) {
        tutti_elastic op = { .size = sizeof op,
                             .coll = TUTTI_ALLREDUCE,
                             .src = v,
                             .dst = v,
                             .count = VALUES,
                             .type = TUTTI_I64 };

        fill(v, 1);
        MUST(tutti_run_collective(g->run, &op));
        CHECK(op.contributors == (uint32_t)left && op.status == TUTTI_OK);
        check_sum(v, (uint32_t)left, left);
        if (view.rank == left / 2)
            return;
        MUST(tutti_run_shrink(g->run, (uint32_t)left - 1, 0, &view));
        CHECK(view.nranks == left - 1);
    }
}

static void leaving_after_operation_restores_nothing(void **state)
{
    struct party p;

    (void)state;
    for (int times = 0; times < (UNIT_SHARE > 1 ? 2 : 8); times++) {
        party_begin(&p, 20000, 20000, NULL); /* so long that leaving is the only loss */
        party_run(&p, LEAVERS, each_goes_after_an_operation, NULL);
        party_end(&p);
    }
}

/* In mode abort the loss is reported, the input is restored, and the next epoch continues. */
static void one_exits_and_all_fail(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t v[VALUES];
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = v,
                         .dst = v,
                         .count = VALUES,
                         .type = TUTTI_I64 };
    uint64_t flags = 0;

    first_view(g, 3);
    MUST(tutti_run_view(g->run, &view));
    fill(v, 7);
    MUST(tutti_run_collective(g->run, &op));
    check_sum(v, 3, 21);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    if (view.rank == 2)
        return;
    fill(v, 8);
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_PEER_LOST &&
          op.status == TUTTI_ERR_PEER_LOST);
    check_sum(v, 1, 8);
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_PEER_LOST);
    CHECK(tutti_run_shrink(g->run, 3, 0, &view) == TUTTI_ERR_PEER_LOST);
    MUST(tutti_run_shrink(g->run, 2, 0, &view));
    CHECK(view.nranks == 2);
    MUST(tutti_run_collective(g->run, &op));
    check_sum(v, 2, 16);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void loss_is_reported_and_input_restored(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, one_exits_and_all_fail, NULL);
    party_end(&p);
}

/* ---- tentative operations ---- */

static tutti_elastic tentative(int64_t *v, uint32_t tag)
{
    return (tutti_elastic){ .size = sizeof(tutti_elastic),
                            .coll = TUTTI_ALLREDUCE,
                            .src = v,
                            .dst = v,
                            .count = VALUES,
                            .type = TUTTI_I64,
                            .tag = tag,
                            .tentative = 1 };
}

/* A tentative operation gets its outcome with the next one of its tag, of any kind, or with a
 * commit; meanwhile other calls are invalid. */
static void all_kinds(struct guest *g)
{
    static const tutti_coll colls[] = { TUTTI_ALLREDUCE, TUTTI_ALLGATHER, TUTTI_BARRIER,
                                        TUTTI_REDUCE_SCATTER, TUTTI_ALLTOALL };
    enum { KINDS = sizeof colls / sizeof *colls };
    tutti_view view = { .size = sizeof view };
    tutti_run_stats_t stats = { .size = sizeof stats };
    int64_t v[VALUES], in[30], out[30], one = 1;
    tutti_elastic ops[KINDS], op;
    uint64_t flags = 0;
    int outcome = 0;

    first_view(g, 3);
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < KINDS; k++) {
            for (int i = 0; i < 30; i++)
                in[i] = i;
            ops[k] = (tutti_elastic){ .size = sizeof ops[k],
                                      .coll = colls[k],
                                      .src = in,
                                      .dst = out,
                                      .count = colls[k] == TUTTI_BARRIER ? 0 : 10,
                                      .type = TUTTI_I64,
                                      .tentative = 1 };
            MUST(tutti_run_collective(g->run, &ops[k]));
            CHECK(ops[k].status == TUTTI_PENDING && ops[k].contributors == 3);
            CHECK(k == 0 || ops[k - 1].status == TUTTI_OK);
            CHECK(colls[k] != TUTTI_ALLREDUCE || out[9] == 27);
            CHECK(colls[k] != TUTTI_ALLGATHER || out[29] == 9);
        }
        /* the struct belongs to the run */
        CHECK(tutti_run_collective(g->run, &ops[KINDS - 1]) == TUTTI_ERR_INVALID);
        CHECK(ops[KINDS - 1].status == TUTTI_PENDING);
        CHECK(tutti_run_agree(g->run, 1, 0, &flags) == TUTTI_ERR_INVALID);
        /* the new operation has mode retry */
        CHECK(tutti_run_allreduce(g->run, &one, out, 1, TUTTI_I64, TUTTI_SUM, 1) ==
              TUTTI_ERR_INVALID);
        if (round == 0) {
            MUST(tutti_run_commit(g->run, 1, 0, &outcome));
            CHECK(outcome == 1);
        } else if (round == 1) {
            MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 0, 0, 0, &view));
            CHECK(view.changed == 0 && view.nranks == 3);
        } else { /* its result does not need all members, but its outcome does */
            op = (tutti_elastic){ .size = sizeof op,
                                  .coll = TUTTI_BROADCAST,
                                  .src = &one,
                                  .dst = &one,
                                  .count = 1,
                                  .type = TUTTI_I64 };
            MUST(tutti_run_collective(g->run, &op));
        }
        CHECK(ops[KINDS - 1].status == TUTTI_OK);
        MUST(tutti_run_agree(g->run, 1, 0, &flags));
    }
    op = tentative(v, 0);
    op.count = 0; /* an empty operation needs no other member: its outcome is immediate */
    MUST(tutti_run_collective(g->run, &op));
    CHECK(op.status == TUTTI_OK);
    op = tentative(v, 0);
    op.mode = TUTTI_RETRY;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID);
    op = tentative(v, 0);
    op.coll = TUTTI_BROADCAST;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID);
    op = tentative(v, 0);
    CHECK(tutti_run_batch(g->run, &op, 1, 0, 1) == TUTTI_ERR_INVALID);
    for (int before = 0; before < 2; before++) { /* if all members refuse an operation, it is not
                                                    pending; an earlier one stays pending */
        if (before)
            MUST(tutti_run_collective(g->run, &ops[0]));
        op = tentative(v, 0);
        op.type = (tutti_dtype)99;
        CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
              strstr(tutti_last_error(), "unknown type 99"));
        CHECK(tutti_run_agree(g->run, 1, 0, &flags) == (before ? TUTTI_ERR_INVALID : TUTTI_OK));
        if (before)
            MUST(tutti_run_commit(g->run, 1, 0, &outcome));
    }
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID);
    MUST(tutti_run_allreduce(g->run, &one, out, 1, TUTTI_I64, TUTTI_SUM, 1)); /* in mode retry */
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID);
    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 0, 0, 0, &view));
    MUST(tutti_run_stats(g->run, &stats));
    CHECK(stats.restored == 0 && stats.final == 3 * KINDS + 4);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void later_operation_delivers_tentative_outcome(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, 1000, 100, NULL);
    party_run(&p, 3, all_kinds, NULL);
    party_end(&p);
}

/* The arguments of one member are invalid: it has nothing pending, as if all had refused the
 * operation. The others wait for it until they fail. All then enter the next view. No deadline
 * passes too early on a slow machine: the others start only after guest 2 was refused. */
static void one_is_refused(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t v[VALUES];
    tutti_elastic op = tentative(v, 0);
    uint64_t flags = 0;
    tutti_status st;

    first_view(g, 3);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    fill(v, 7);
    op.timeout_ms = 50;
    if (g->index == 2)
        op.type = (tutti_dtype)99;
    else
        party_await(g->party, 1);
    st = tutti_run_collective(g->run, &op);
    if (g->index == 2)
        party_reach(g->party, 1);
    CHECK(g->index == 2 ? st == TUTTI_ERR_INVALID
                        : st == TUTTI_ERR_TIMEOUT || st == TUTTI_ERR_PEER_LOST);
    check_sum(v, 1, 7);
    MUST(tutti_run_epoch(g->run, 0, 3, 0, 0, &view));
    CHECK(view.nranks == 3);
    op = tentative(v, 0);
    op.tentative = 0;
    MUST(tutti_run_collective(g->run, &op));
    check_sum(v, 3, 21);
}

static void refused_member_meets_waiting_ones(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, one_is_refused, NULL);
    party_end(&p);
}

static void meet(struct guest *g, int n)
{
    atomic_fetch_add(&g->party->step, 1);
    party_await(g->party, n);
}

/* Two operations in place on the same data; the second has no outcome yet. Then guest 2 exits. Each
 * remaining member gets the loss from a different call, also on another tag, and continues. */
static void one_goes_after_two(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t v[VALUES], w[VALUES];
    tutti_elastic ops[3] = { tentative(v, 0), tentative(v, 0), tentative(v, 0) },
                  other = tentative(w, 1);
    uint64_t flags = 0;
    int outcome = 1;

    first_view(g, 3);
    fill(v, 7);
    fill(w, 8);
    MUST(tutti_run_collective(g->run, &ops[0]));
    MUST(tutti_run_collective(g->run, &other));
    check_sum(v, 3, 21);
    MUST(tutti_run_collective(g->run, &ops[1]));
    check_sum(v, 9, 63);
    CHECK(ops[0].status == TUTTI_OK && ops[1].status == TUTTI_PENDING &&
          other.status == TUTTI_PENDING);
    meet(g, 3);
    if (g->index == 2)
        return;
    if (g->index == 0) {
        CHECK(tutti_run_collective(g->run, &ops[2]) == TUTTI_ERR_PEER_LOST);
        CHECK(ops[1].status == TUTTI_ERR_PEER_LOST && ops[2].status == TUTTI_ERR_PEER_LOST);
        check_sum(v, 3, 21);
        CHECK(other.status == TUTTI_PENDING);
    } else {
        MUST(tutti_run_commit(g->run, 1, 0, &outcome));
        CHECK(outcome == 0);
    }
    do
        MUST(tutti_run_shrink(g->run, 0, 0, &view));
    while (view.nranks == 3);
    CHECK(view.nranks == 2);
    CHECK(ops[1].status == TUTTI_ERR_PEER_LOST && other.status == TUTTI_ERR_PEER_LOST);
    check_sum(v, 3, 21);
    check_sum(w, 1, 8);
    MUST(tutti_run_collective(g->run, &ops[2]));
    MUST(tutti_run_commit(g->run, 1, 0, &outcome));
    CHECK(outcome == 1 && ops[2].status == TUTTI_OK && ops[2].contributors == 2);
    check_sum(v, 6, 42);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void loss_restores_tentative_operations(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, 1000, 100, NULL);
    party_run(&p, 3, one_goes_after_two, NULL);
    party_end(&p);
}

/* Two operations of one tag are open, in place on the same data: a tentative one, and the next one,
 * which guest 2 does not start. */
static void one_goes_between_two(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t v[VALUES];
    tutti_elastic ops[3] = { tentative(v, 0), tentative(v, 0), tentative(v, 0) };
    uint64_t flags = 0;

    first_view(g, 3);
    fill(v, 7);
    MUST(tutti_run_collective(g->run, &ops[0]));
    MUST(tutti_run_collective(g->run, &ops[1]));
    check_sum(v, 9, 63);
    meet(g, 3);
    if (g->index == 2)
        return;
    ops[2].tentative = 0; /* op 2 never completes */
    CHECK(tutti_run_collective(g->run, &ops[2]) == TUTTI_ERR_PEER_LOST);
    CHECK(ops[0].status == TUTTI_OK && ops[1].status == TUTTI_ERR_PEER_LOST &&
          ops[2].status == TUTTI_ERR_PEER_LOST);
    check_sum(v, 3, 21); /* ops[2] was restored first, then ops[1] */
    MUST(tutti_run_epoch(g->run, 0, 2, 0, 0, &view));
    CHECK(view.nranks == 2);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void two_open_operations_restore_in_reverse(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, 1000, 100, NULL);
    party_run(&p, 3, one_goes_between_two, NULL);
    party_end(&p);
}

/* ---- small operations ---- */

static tutti_elastic small_sum(const int64_t *src, int64_t *dst)
{
    return (tutti_elastic){ .size = sizeof(tutti_elastic),
                            .coll = TUTTI_ALLREDUCE,
                            .src = src,
                            .dst = dst,
                            .count = 2,
                            .type = TUTTI_I64,
                            .mode = TUTTI_RETRY };
}

static bool is_settled(tutti_run *run)
{
    bool settled;

    tt_run_lock(run);
    settled = run->m.ops[0].state == TT_OP_SETTLED;
    tt_run_unlock(run);
    return settled;
}

static void await_stop(tutti_run *run)
{
    bool stopped = false;

    while (!stopped) {
        nanosleep(&(struct timespec){ .tv_nsec = TT_MS }, NULL);
        tt_run_lock(run);
        stopped = run->m.stopped;
        tt_run_unlock(run);
    }
}

/* Runs an operation that does not complete here before the epoch ends. Its output is erased, so the
 * result can only be another member's. */
static void is_given_its_result(struct guest *g, tutti_elastic *op, int64_t *dst)
{
    tutti_request *request = NULL;
    struct tt_operation o;
    tutti_status st;

    tt_run_lock(g->run);
    MUST(tt_operation_begin(g->run, &o, op, op->tag, TT_NEVER));
    tt_run_unlock(g->run);
    MUST(tt_operation_perform(&o, &request));
    await_stop(g->run);
    st = tutti_wait(request);
    memset(dst, 0, op->count * sizeof *dst);
    tt_run_lock(g->run);
    if (st)
        tt_operation_fail(g->run, &o, st);
    else
        CHECK(!tt_operation_complete(g->run, &o));
    MUST(tt_operation_judge(g->run, &o));
    tt_run_unlock(g->run);
}

/* The first operation of the epoch carries news, the second one is settled. Guest 0 has its result,
 * and revokes the epoch; guest 1 lacks the result. */
static void one_lacks_what_others_have(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    const int64_t src[2] = { 5, (int64_t)g->index };
    int64_t dst[2] = { 0, 0 };
    tutti_elastic op = small_sum(src, dst);

    first_view(g, 3);
    MUST(tutti_run_collective(g->run, &op));
    CHECK(!is_settled(g->run));
    if (g->index == 1) {
        is_given_its_result(g, &op, dst);
    } else {
        MUST(tutti_run_collective(g->run, &op));
        CHECK(is_settled(g->run));
        meet(g, 2);
        if (g->index == 0)
            MUST(tutti_run_revoke(g->run));
    }
    CHECK(dst[0] == 15 && dst[1] == 3 && op.status == TUTTI_OK && op.contributors == 3);
    MUST(tutti_run_epoch(g->run, 0, 0, 0, 0, &view));
    MUST(tutti_run_collective(g->run, &op));
    CHECK(view.nranks == 3 && dst[0] == 15 && op.attempts == 1);
}

static void missing_small_result_comes_with_outcome(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, one_lacks_what_others_have, NULL);
    party_end(&p);
}

/* A small operation in place follows a tentative one in place. Guest 1 lacks the small result; it
 * gets that, and the outcome of the tentative operation. */
static void one_lacks_what_follows_a_tentative_one(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t v[VALUES], w[VALUES];
    tutti_elastic first = tentative(v, 0), after = small_sum(w, w), last = tentative(v, 0);
    int outcome;

    after.mode = TUTTI_ABORT;
    first_view(g, 3);
    fill(v, 7);
    fill(w, 8);
    MUST(tutti_run_collective(g->run, &after));
    MUST(tutti_run_collective(g->run, &first));
    fill(w, 8);
    if (g->index == 1) {
        is_given_its_result(g, &after, w);
    } else {
        MUST(tutti_run_collective(g->run, &after));
        CHECK(is_settled(g->run));
        meet(g, 2);
        if (g->index == 0)
            MUST(tutti_run_revoke(g->run));
    }
    CHECK(first.status == TUTTI_OK && w[0] == 24);
    check_sum(v, 3, 21);
    CHECK(tutti_run_collective(g->run, &last) == TUTTI_ERR_PEER_LOST);
    MUST(tutti_run_epoch(g->run, 0, 0, 0, 0, &view));
    CHECK(view.nranks == 3);
    MUST(tutti_run_collective(g->run, &after));
    MUST(tutti_run_collective(g->run, &after));
    MUST(tutti_run_collective(g->run, &last));
    CHECK(last.status == TUTTI_PENDING);
    check_sum(v, 9, 63);
    MUST(tutti_run_commit(g->run, 1, 0, &outcome));
    CHECK(outcome == 1 && last.status == TUTTI_OK);
}

static void delivered_result_finalizes_the_earlier_one(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, one_lacks_what_follows_a_tentative_one, NULL);
    party_end(&p);
}

/* Guest 2 exits during the others' batch. Both get the same result of each operation, which shows
 * its number of contributors. */
static void one_goes_in_a_batch(struct guest *g)
{
    enum { OPS = 60, WITH_THREE = 23 };
    tutti_elastic ops[OPS];
    int64_t v[OPS], all[OPS + 1];
    tutti_elastic check = small_sum(v, all);

    for (int i = 0; i < OPS; i++) {
        v[i] = 1;
        ops[i] = small_sum(&v[i], &v[i]);
        ops[i].count = 1;
    }
    first_view(g, 3);
    MUST(tutti_run_batch(g->run, ops, g->index == 2 ? WITH_THREE : OPS, 0, 4));
    if (g->index == 2)
        return;
    check.count = OPS;
    check.tag = 3;
    MUST(tutti_run_collective(g->run, &check));
    for (int i = 0; i < OPS; i++) {
        CHECK(ops[i].status == TUTTI_OK && v[i] == (int64_t)ops[i].contributors &&
              all[i] == 2 * v[i]);
        CHECK(v[i] == (i < WITH_THREE ? 3 : 2));
    }
}

static void small_batch_has_one_result(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct party p;

        party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
        party_run(&p, 3, one_goes_in_a_batch, NULL);
        party_end(&p);
    }
}

/* Runs two operations with results of maximum size on each tag except the last. All members keep
 * the second results. */
static void settle_all_tags(struct guest *g, const int64_t *src, int64_t *dst)
{
    tutti_elastic op = small_sum(src, dst);

    op.count = TT_SETTLED_BYTES / sizeof *src;
    for (op.tag = 0; op.tag + 1 < TT_ELASTIC_TAGS; op.tag++) {
        MUST(tutti_run_collective(g->run, &op));
        MUST(tutti_run_collective(g->run, &op));
    }
}

/* The epoch is revoked; then guest 2 leaves, with results that the others lack. The long messages
 * with all results cause no other loss. */
static void all_tags_have_results(struct guest *g)
{
    int64_t src[TT_SETTLED_BYTES / sizeof(int64_t)] = { 0 },
                                   dst[TT_SETTLED_BYTES / sizeof(int64_t)];
    tutti_view view = { .size = sizeof view };
    tutti_elastic op = small_sum(src, dst);
    uint64_t flags = 0;

    first_view(g, 3);
    settle_all_tags(g, src, dst);
    meet(g, 3);
    if (g->index == 0)
        MUST(tutti_run_revoke(g->run));
    MUST(tutti_run_epoch(g->run, 0, 0, 0, 0, &view));
    CHECK(view.nranks == 3 && view.changed == 1);

    src[127] = 5;
    op.count = 128;
    op.tag = TT_ELASTIC_TAGS - 1;
    settle_all_tags(g, src, dst);
    MUST(tutti_run_collective(g->run, &op));
    if (g->index == 2) {
        MUST(tutti_run_collective(g->run, &op));
        CHECK(dst[127] == 15);
        return;
    }
    is_given_its_result(g, &op, dst);
    CHECK(dst[127] == 15 && op.status == TUTTI_OK);
    MUST(tutti_run_epoch(g->run, 0, 0, 0, 0, &view));
    CHECK(view.nranks == 2);
    MUST(tutti_run_agree(g->run, 1, 0, &flags)); /* both are in the epoch before one leaves */
}

static void small_results_of_all_tags_arrive(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    p.tags = TT_ELASTIC_TAGS;
    party_run(&p, 3, all_tags_have_results, NULL);
    party_end(&p);
}

/* Operations of up to 1 KiB in modes abort and retry are settled, except those that carry news: the
 * first of a tag, and the eighth after one with news. */
static void some_are_settled(struct guest *g)
{
    static const int64_t src[130];
    int64_t dst[130];
    tutti_elastic op = small_sum(src, dst), next = small_sum(src, dst);

    first_view(g, 2);
    for (int k = 0; k < 20; k++) {
        MUST(tutti_run_collective(g->run, &op));
        CHECK(is_settled(g->run) == (k % 8 != 0));
    }
    next.count = 128;
    next.mode = TUTTI_ABORT;
    MUST(tutti_run_collective(g->run, &next));
    CHECK(is_settled(g->run));
    next.count = 129;
    MUST(tutti_run_collective(g->run, &next)); /* carries news */
    CHECK(!is_settled(g->run));
    next.count = 0;
    MUST(tutti_run_collective(g->run, &next));
    CHECK(!is_settled(g->run));
    next.coll = TUTTI_ALLGATHER;
    next.count = 64;
    MUST(tutti_run_collective(g->run, &next));
    CHECK(is_settled(g->run));
    next.count = 65;
    MUST(tutti_run_collective(g->run, &next));
    CHECK(!is_settled(g->run));
    next.coll = TUTTI_BARRIER;
    MUST(tutti_run_collective(g->run, &next));
    CHECK(is_settled(g->run));
    next.coll = TUTTI_ALLTOALL; /* results differ between members */
    next.count = 1;
    MUST(tutti_run_collective(g->run, &next));
    CHECK(!is_settled(g->run));
    next.coll = TUTTI_ALLREDUCE;
    next.count = 2;
    next.mode = TUTTI_PARTIAL;
    MUST(tutti_run_collective(g->run, &next));
    CHECK(!is_settled(g->run));
    for (int k = 0; k < 9; k++) {
        MUST(tutti_run_collective(g->run, &op));
        CHECK(is_settled(g->run) == (k != 7));
    }
}

static void small_operations_settle_and_bring_news(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, some_are_settled, NULL);
    party_end(&p);
}

/* ---- joining and leaving ---- */

/* Starts three operations concurrently, which may end in any order. */
static void three_at_once(struct guest *g, uint32_t first_tag)
{
    tutti_elastic ops[3];

    for (size_t i = 0; i < 3; i++)
        ops[i] = (tutti_elastic){ .size = sizeof ops[i], .coll = TUTTI_BARRIER };
    MUST(tutti_run_batch(g->run, ops, 3, first_tag, 3));
}

/* Two members run until they get news of a third, in the same iteration and from the same
 * operation. Then three run, until one gives notice. */
static void one_comes_and_one_leaves(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    tutti_news news = { .size = sizeof news };
    bool told = false;
    uint64_t all = 0, steps = 0, number, with;
    int64_t one, sum;

    if (g->index == 2)
        party_await(g->party, 1);
    else
        first_view(g, 2);
    if (g->index == 2)
        MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 0, 0, 0, &view));
    else
        MUST(tutti_run_view(g->run, &view));
    while (g->index != 2) {
        one = 1;
        MUST(tutti_run_allreduce(g->run, &one, &sum, 1, TUTTI_I64, TUTTI_SUM, 0));
        CHECK(sum == 2);
        three_at_once(g, 1);
        steps++;
        party_reach(g->party, 1);
        MUST(tutti_run_poll(g->run, &news));
        CHECK((news.operation == 0) == (news.number == 0) && news.operation <= steps &&
              news.tag <= 3);
        if (news.newcomers == 1)
            break;
    }
    if (g->index != 2) {
        MUST(tutti_run_agree(g->run, news.number, 0, &all));
        CHECK(all == news.number);
        number = news.number;
        with = news.operation << 8 | news.tag;
        MUST(tutti_run_agree(g->run, with, 0, &all));
        CHECK(all == with && news.operation == steps); /* the previous step did not carry this
                                                          news */
        three_at_once(g, 1);
        MUST(tutti_run_poll(g->run, &news));
        /* operations that repeat the news do not count as the first one that carried it */
        CHECK(news.number != number || with == (news.operation << 8 | news.tag));
        MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 0, 0, 0, &view));
    }
    CHECK(view.nranks == 3 && view.changed == 1);
    for (;;) {
        one = 1;
        MUST(tutti_run_allreduce(g->run, &one, &sum, 1, TUTTI_I64, TUTTI_SUM, 0));
        CHECK(sum == 3);
        MUST(tutti_run_poll(g->run, &news));
        if (news.leaving == 1)
            break;
        if (view.rank == 0 && !told)
            MUST(tutti_run_leave(g->run));
        told = true;
    }
    MUST(tutti_run_epoch(g->run, 0, 0, 0, 0, &view));
    if (told && view.nranks == 0)
        return;
    CHECK(view.nranks == 2);
    MUST(tutti_run_agree(g->run, 1, 0, &all));
}

static void newcomers_are_admitted_and_members_leave(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, one_comes_and_one_leaves, NULL);
    party_end(&p);
}

/* One cancels its call, as when an operation is retried after its replica group becomes incomplete,
 * but too late: it is in the view by then. */
static void one_is_admitted_too_late(struct guest *g)
{
    const struct tt_elmsg call = { .what = TT_CALL_EPOCH, .flags = TT_EPOCH_ADMIT, .least = 3 };
    tutti_view view = { .size = sizeof view };
    struct tt_member_act result;
    int64_t one = 1, sum;
    uint64_t all = 0;

    if (g->index == 1) {
        tt_run_lock(g->run);
        g->run->calling = true;
        MUST(tt_round_call(g->run, &call, TT_NEVER, "the test", &result));
        g->run->calling = false;
        g->run->expected = g->run->m.epoch;
        tt_run_unlock(g->run);
        CHECK(tutti_run_allreduce(g->run, &one, &sum, 1, TUTTI_I64, TUTTI_SUM, 0) ==
              TUTTI_ERR_INVALID);
    }
    first_view(g, 3);
    MUST(tutti_run_allreduce(g->run, &one, &sum, 1, TUTTI_I64, TUTTI_SUM, 0));
    CHECK(sum == 3);
    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 0, 0, 0, &view));
    CHECK(view.epoch == 1 && view.changed == 0);
    MUST(tutti_run_agree(g->run, 1, 0, &all));
}

static void late_admission_joins_the_next_call(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, 1000, 100, NULL);
    party_run(&p, 3, one_is_admitted_too_late, NULL);
    party_end(&p);
}

/* ---- a lost connection ---- */

/* The data connection between two living members ends: no member is evicted, and the operation is
 * retried in a new communicator. */
static void a_connection_is_cut(struct guest *g)
{
    tutti_run_stats_t stats = { .size = sizeof stats };
    tutti_view view = { .size = sizeof view };
    int64_t v[VALUES];
    uint64_t flags = 0;

    first_view(g, 3);
    MUST(tutti_run_view(g->run, &view));
    for (int k = 0; k < 20; k++) {
        tutti_elastic op = { .size = sizeof op,
                             .coll = TUTTI_ALLREDUCE,
                             .src = v,
                             .dst = v,
                             .count = VALUES,
                             .type = TUTTI_I64,
                             .mode = TUTTI_RETRY };

        if (k == 10 && view.rank == 1)
            tt_engine_lost(g->run->home.world->engine, 2, "the test cut the connection");
        fill(v, 5);
        MUST(tutti_run_collective(g->run, &op));
        CHECK(op.contributors == 3);
        check_sum(v, 3, 15);
    }
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    MUST(tutti_run_stats(g->run, &stats));
    CHECK(stats.worlds == 2 && stats.retries == 1 && stats.views == 2);
}

static void cut_connection_evicts_nobody(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, a_connection_is_cut, NULL);
    party_end(&p);
}

/* ---- the view's communicator ---- */

/* Waits until n calls or requests of the communicator are open. */
static void await_inside(const tutti_comm *comm, unsigned n)
{
    const uint64_t deadline_ns = tt_now_ns() + 60 * TT_SECOND;

    while (atomic_load(&comm->context->inside) + atomic_load(&comm->context->pins) != n) {
        CHECK(tt_now_ns() < deadline_ns);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

static void epoch_is_refused(tutti_run *run)
{
    tutti_view view = { .size = sizeof view };
    tutti_ring ring = { .size = sizeof ring };

    CHECK(tutti_run_epoch(run, 0, 0, 0, 0, &view) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "a call on the view's communicator is already in progress") !=
          NULL);
    CHECK(tutti_run_shrink(run, 0, 0, &view) == TUTTI_ERR_INVALID);
    CHECK(tutti_run_optimize(run, &ring, 0, &view) == TUTTI_ERR_INVALID);
}

struct receiver {
    tutti_comm *comm;
    int peer;
    tutti_request *request;     /* request to wait for; NULL: creates one */
    tutti_status status;
    int64_t value;
    pthread_t thread;
};

static void *receive(void *arg)
{
    struct receiver *r = arg;

    r->status = r->request ? tutti_wait(r->request)
                           : tutti_recv(&r->value, 1, TUTTI_I64, r->peer, r->comm, NULL);
    return NULL;
}

/* Rank 0 has a thread in a receive, and then an open request. It cannot change the view until these
 * have completed. */
static void one_is_in_a_call(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t one = 1, sum = 0, got = 0;
    tutti_request *request = NULL;
    const tutti_call open = { .size = sizeof open, .request = &request };
    struct receiver r = { .peer = 1 };

    first_view(g, 2);
    MUST(tutti_run_view(g->run, &view));
    r.comm = tutti_run_comm(g->run);
    if (view.rank == 0) {
        CHECK(pthread_create(&r.thread, NULL, receive, &r) == 0);
        await_inside(r.comm, 1);
        epoch_is_refused(g->run);
        party_reach(g->party, 1);
        pthread_join(r.thread, NULL);
        CHECK(r.status == TUTTI_OK && r.value == 1);
        MUST(tutti_recv(&got, 1, TUTTI_I64, 1, r.comm, &open));
        epoch_is_refused(g->run);
        party_reach(g->party, 2);
        while (tutti_test(request) == TUTTI_PENDING)
            ;
    } else {
        party_await(g->party, 1);
        MUST(tutti_send(&one, 1, TUTTI_I64, 0, r.comm, NULL));
        party_await(g->party, 2);
        MUST(tutti_send(&one, 1, TUTTI_I64, 0, r.comm, NULL));
    }
    MUST(tutti_run_epoch(g->run, 0, 0, 0, 0, &view));
    CHECK(view.nranks == 2 && view.changed == 0);
    if (request)
        MUST(tutti_wait(request));
    CHECK(got == (request != NULL));
    MUST(tutti_allreduce(&one, &sum, 1, TUTTI_I64, TUTTI_SUM, tutti_run_comm(g->run), NULL));
    CHECK(sum == 2);
}

static void call_on_communicator_delays_view_change(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, one_is_in_a_call, NULL);
    party_end(&p);
}

/* One of three members exits. Each other member has a thread in a receive from it, a thread that
 * waits for such a request, and a request without a waiter. Then a retried operation forms the next
 * view. All of these calls fail before the old communicator is torn down. */
static void one_goes_under_calls(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t got[2], v[VALUES];
    tutti_request *request[2];
    uint64_t flags;
    struct receiver in[2] = { { .peer = 2 }, { .peer = 2 } };

    first_view(g, 3);
    MUST(tutti_run_view(g->run, &view));
    if (view.rank == 2) {
        party_await(g->party, 2);
        return;
    }
    in[0].comm = in[1].comm = tutti_run_comm(g->run);
    for (uint32_t i = 0; i < 2; i++) {
        const tutti_call open = { .size = sizeof open, .tag = 1 + i, .request = &request[i] };

        MUST(tutti_recv(&got[i], 1, TUTTI_I64, 2, in[0].comm, &open));
    }
    in[1].request = request[0];
    for (uint32_t i = 0; i < 2; i++)
        CHECK(pthread_create(&in[i].thread, NULL, receive, &in[i]) == 0);
    await_inside(in[0].comm, 2);
    atomic_fetch_add(&g->party->step, 1);
    fill(v, 5);
    MUST(tutti_run_allreduce(g->run, v, v, VALUES, TUTTI_I64, TUTTI_SUM, 0));
    check_sum(v, 2, 10);
    for (uint32_t i = 0; i < 2; i++) {
        pthread_join(in[i].thread, NULL);
        CHECK(in[i].status != TUTTI_OK && in[i].status != TUTTI_PENDING);
    }
    CHECK(tutti_wait(request[1]) != TUTTI_OK);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void old_view_ends_after_its_calls(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, one_goes_under_calls, NULL);
    party_end(&p);
}

/* ---- unauthenticated peers ---- */

/* Opens one more silent connection than a listener keeps unauthenticated: the first one is dropped
 * for the last. */
static void crowd(int fds[TT_RUN_STRANGERS + 1], uint16_t port)
{
    const struct sockaddr_in at = { .sin_family = AF_INET,
                                    .sin_port = htons(port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct pollfd ends[2];

    for (uint32_t i = 0; i <= TT_RUN_STRANGERS; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fds[i] >= 0 && connect(fds[i], (const struct sockaddr *)&at, sizeof at) == 0);
    }
    for (uint32_t i = 0; i < 2; i++)
        ends[i] = (struct pollfd){ .fd = fds[i * TT_RUN_STRANGERS], .events = POLLRDHUP };
    CHECK(poll(ends, 2, 60000) > 0 && ends[0].revents != 0);
}

static void disperse(int fds[TT_RUN_STRANGERS + 1])
{
    for (uint32_t i = 0; i <= TT_RUN_STRANGERS; i++)
        close(fds[i]);
}

/* Cuts the connection to the other member, like a network failure. */
static void cut(tutti_run *run)
{
    tt_run_lock(run);
    for (const struct tt_peer_link *p = run->peers; p; p = p->next)
        if (p->conn)
            shutdown(tt_stream_fd(tt_channel_stream(p->conn->channel)), SHUT_RDWR);
    tt_run_unlock(run);
}

/* Both listeners have the maximum of unauthenticated connections. A newcomer is still admitted, and
 * then a cut connection is re-established. */
static void unauthenticated_connections_pend(struct guest *g)
{
    const uint64_t deadline_ns = tt_now_ns() + 60 * TT_SECOND;
    tutti_run_stats_t stats = { .size = sizeof stats };
    tutti_view view = { .size = sizeof view };
    int first[TT_RUN_STRANGERS + 1], later[TT_RUN_STRANGERS + 1];
    uint64_t flags;

    if (g->index == 0) {
        MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 1, 1, 0, &view));
        crowd(first, g->run->card.inside.port);
        party_reach(g->party, 1);
        MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 2, 0, 0, &view));
    } else {
        party_await(g->party, 1);
        crowd(first, g->run->card.inside.port);
        MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 1, 0, 0, &view));
    }
    CHECK(view.nranks == 2);
    crowd(later, g->run->card.inside.port);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    if (g->index == 0)
        cut(g->run);
    while (stats.cuts == 0) {
        CHECK(tt_now_ns() < deadline_ns);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        MUST(tutti_run_stats(g->run, &stats));
    }
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    disperse(first);
    disperse(later);
}

static void strangers_keep_no_member_out(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, unauthenticated_connections_pend, NULL);
    party_end(&p);
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, "a token of the run, long enough");
    party_run(&p, 2, unauthenticated_connections_pend, "a token of the run, long enough");
    party_end(&p);
}

/* ---- batches ---- */

static void a_batch(struct guest *g)
{
    enum { N = 23 };
    int64_t v[N][100];
    tutti_elastic ops[N];
    tutti_view view = { .size = sizeof view };
    uint64_t flags = 0;

    first_view(g, 3);
    MUST(tutti_run_view(g->run, &view));
    for (int round = 0; round < 10; round++) {
        if (round == 5)
            MUST(tutti_run_agree(g->run, 1, 0, &flags));
        if (round == 5 && view.rank == 0)
            return;
        for (int k = 0; k < N; k++) {
            ops[k] = (tutti_elastic){ .size = sizeof ops[k],
                                      .coll = TUTTI_ALLREDUCE,
                                      .src = v[k],
                                      .dst = v[k],
                                      .count = (size_t)k + 1,
                                      .type = TUTTI_I64,
                                      .mode = TUTTI_RETRY };
            for (int i = 0; i < 100; i++)
                v[k][i] = i + k + round;
        }
        MUST(tutti_run_batch(g->run, ops, N, 1, 3));
        for (int k = 0; k < N; k++) {
            CHECK(ops[k].status == TUTTI_OK && ops[k].contributors == (round < 5 ? 3 : 2));
            for (int i = 0; i < 100; i++)
                CHECK(v[k][i] == (i <= k ? ops[k].contributors : 1) * (int64_t)(i + k + round));
        }
    }
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void batch_is_final_as_a_whole(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, a_batch, NULL);
    party_end(&p);
}

/* One of three members exits. The last operation of the batch requires three, so it is not retried
 * with two. */
static void a_batch_of_which_one_wants_three(struct guest *g)
{
    int64_t v[2] = { 3, 5 };
    tutti_elastic ops[2];
    tutti_view view = { .size = sizeof view };
    uint64_t flags = 0;

    first_view(g, 3);
    for (int k = 0; k < 2; k++)
        ops[k] = (tutti_elastic){ .size = sizeof ops[k],
                                  .coll = TUTTI_ALLREDUCE,
                                  .src = &v[k],
                                  .dst = &v[k],
                                  .count = 1,
                                  .type = TUTTI_I64,
                                  .mode = TUTTI_RETRY,
                                  .least = k ? 3 : 0 };
    MUST(tutti_run_batch(g->run, ops, 2, 0, 2));
    CHECK(v[0] == 9 && v[1] == 15);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    if (g->index == 0)
        return;
    CHECK(tutti_run_batch(g->run, ops, 2, 0, 2) == TUTTI_ERR_PEER_LOST &&
          strstr(tutti_last_error(), "only 2 members remain"));
    for (int k = 0; k < 2; k++)
        CHECK(ops[k].status == TUTTI_ERR_PEER_LOST && v[k] == (k ? 15 : 9));
    MUST(tutti_run_shrink(g->run, 2, 0, &view));
    CHECK(view.nranks == 2);
    ops[1].least = 2;
    MUST(tutti_run_batch(g->run, ops, 2, 0, 2));
    CHECK(v[0] == 18 && v[1] == 30);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void size_dependent_batch_is_not_retried(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, a_batch_of_which_one_wants_three, NULL);
    party_end(&p);
}

/* ---- operations of several threads ---- */

#define TRIERS 4u

struct trier {
    tutti_run *run;
    tutti_elastic op;
    int64_t value;
    tutti_status status;
    char error[200];             /* its thread's last error */
    pthread_t thread;
};

static void *try_one(void *arg)
{
    struct trier *t = arg;

    t->status = tutti_run_collective(t->run, &t->op);
    snprintf(t->error, sizeof t->error, "%s", tutti_last_error());
    return NULL;
}

static uint32_t operations_of(tutti_run *run)
{
    uint32_t n;

    tt_run_lock(run);
    n = run->noperations;
    tt_run_unlock(run);
    return n;
}

/* One of three members exits while the others have operations in several threads. One operation
 * requires three members, so it is not retried with two. Any thread may form the next view. */
static void threads_of_which_one_wants_three(struct guest *g)
{
    struct trier tries[TRIERS];
    uint64_t flags = 0;

    first_view(g, 3);
    if (g->index == 0) {
        party_await(g->party, 2);
        return;
    }
    for (uint32_t k = 0; k < TRIERS; k++) {
        struct trier *t = &tries[k];

        *t = (struct trier){ .run = g->run, .value = 3 + k };
        t->op = (tutti_elastic){ .size = sizeof t->op,
                                 .coll = TUTTI_ALLREDUCE,
                                 .src = &t->value,
                                 .dst = &t->value,
                                 .count = 1,
                                 .type = TUTTI_I64,
                                 .tag = k,
                                 .mode = TUTTI_RETRY,
                                 .least = k ? 0 : 3 };
        CHECK(pthread_create(&t->thread, NULL, try_one, t) == 0);
    }
    while (operations_of(g->run) < TRIERS)
        poll(NULL, 0, 1);
    atomic_fetch_add(&g->party->step, 1);
    for (uint32_t k = 0; k < TRIERS; k++)
        pthread_join(tries[k].thread, NULL);
    CHECK(tries[0].status == TUTTI_ERR_PEER_LOST &&
          strstr(tries[0].error, "only 2 members remain"));
    CHECK(tries[0].op.status == TUTTI_ERR_PEER_LOST && tries[0].value == 3);
    for (uint32_t k = 1; k < TRIERS; k++)
        CHECK(tries[k].status == TUTTI_OK && tries[k].op.contributors == 2 &&
              tries[k].value == 2 * (3 + k));
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void other_threads_view_respects_size(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, threads_of_which_one_wants_three, NULL);
    party_end(&p);
}

/* Guest 1 calls after the others have timed out and continued. */
static void a_late_retry(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t v = 3;
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = &v,
                         .dst = &v,
                         .count = 1,
                         .type = TUTTI_I64,
                         .mode = TUTTI_RETRY,
                         .timeout_ms = g->index == 1 ? 0 : 300 };
    tutti_status st;

    first_view(g, 3);
    if (g->index == 1)
        party_await(g->party, 1);
    st = tutti_run_collective(g->run, &op);
    CHECK(st == TUTTI_ERR_PEER_LOST || (st == TUTTI_ERR_TIMEOUT && g->index != 1));
    CHECK(v == 3);
    if (g->index == 0)
        party_reach(g->party, 1);
    do
        st = tutti_run_epoch(g->run, TUTTI_ADMIT, 3, 0, 0, &view);
    while (st == TUTTI_ERR_PEER_LOST || st == TUTTI_ERR_MISMATCH);
    MUST(st);
    op.timeout_ms = 0;
    MUST(tutti_run_collective(g->run, &op));
    CHECK(v == 9);
}

static void late_retry_follows_the_others(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, a_late_retry, NULL);
    party_end(&p);
}

/* Guest 1 times out while guest 2 is absent, and retries. Guest 0 has no deadline, so its call
 * continues, whichever member reported the timeout first. */
static void a_hurried_one(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t v = 3;
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = &v,
                         .dst = &v,
                         .count = 1,
                         .type = TUTTI_I64,
                         .op = TUTTI_SUM,
                         .mode = TUTTI_RETRY,
                         .timeout_ms = g->index == 1 ? 200 : 0 };

    first_view(g, 3);
    if (g->index == 1) {
        CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_TIMEOUT && v == 3);
        op.timeout_ms = 0;
        party_reach(g->party, 1);
    } else if (g->index == 2) {
        party_await(g->party, 1);
    }
    MUST(tutti_run_collective(g->run, &op));
    CHECK(v == 9 && op.contributors == 3);
    CHECK(g->index != 0 || op.attempts == 2);
}

static void remaining_time_allows_a_retry(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, a_hurried_one, NULL);
    party_end(&p);
}

/* Calls in the child of a fork. Returns 0 if the result is as expected. */
static int in_the_child(tutti_run *run)
{
    tutti_elastic op = { .size = sizeof op, .coll = TUTTI_BARRIER };
    tutti_news news = { .size = sizeof news };
    uint64_t flags;
    const bool told = tutti_run_agree(run, 1, 100, &flags) == TUTTI_ERR_FORKED &&
                      tutti_run_collective(run, &op) == TUTTI_ERR_FORKED &&
                      tutti_run_poll(run, &news) == TUTTI_ERR_FORKED &&
                      tutti_run_leave(run) == TUTTI_ERR_FORKED &&
                      tutti_run_revoke(run) == TUTTI_ERR_FORKED && !tutti_run_comm(run);

    tutti_run_destroy(run);
    return !told;
}

/* Guest 0 forks; then guest 1 leaves. */
static void forks_and_leaves(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    uint64_t flags;
    int status;
    pid_t child;

    first_view(g, 2);
    if (g->index == 0) {
        child = fork();
        if (child == 0)
            _exit(in_the_child(g->run));
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    CHECK(tutti_run_comm(g->run) != NULL);
    if (g->index == 1)
        MUST(tutti_run_leave(g->run));
    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 0, 0, 0, &view));
    CHECK(view.nranks == (g->index == 0) && !tutti_run_comm(g->run) == (g->index == 1));
}

static void fork_and_leave_end_their_objects(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, forks_and_leaves, NULL);
    party_end(&p);
}

/* All n members enter a common view, from any state. */
static void reach_common_view(struct guest *g, int32_t n)
{
    tutti_view view = { .size = sizeof view };
    uint64_t flags = 0;
    tutti_status st;

    do {
        st = tutti_run_shrink(g->run, 0, 0, &view);
        st = st ? st : tutti_run_agree(g->run, 1, 0, &flags);
    } while (st == TUTTI_ERR_PEER_LOST || st == TUTTI_ERR_MISMATCH);
    MUST(st);
    CHECK(view.nranks == n);
}

/* Guest 1 revokes every epoch, so that the batch of guest 0 never completes. */
static void a_batch_without_end(struct guest *g)
{
    const uint64_t deadline_ns = tt_now_ns() + 60 * TT_SECOND;
    tutti_view view = { .size = sizeof view };
    int64_t v = 3;
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = &v,
                         .dst = &v,
                         .count = 1,
                         .type = TUTTI_I64,
                         .mode = TUTTI_RETRY,
                         .timeout_ms = 300 };
    tutti_status st;

    first_view(g, 2);
    if (g->index == 0) {
        CHECK(tutti_run_batch(g->run, &op, 1, 0, 1) == TUTTI_ERR_TIMEOUT);
        CHECK(op.status == TUTTI_ERR_TIMEOUT && op.attempts > 1 && v == 3);
        party_reach(g->party, 1);
    }
    while (g->index == 1 && atomic_load(&g->party->step) == 0) {
        CHECK(tt_now_ns() < deadline_ns);
        MUST(tutti_run_revoke(g->run));
        st = tutti_run_shrink(g->run, 0, 0, &view);
        CHECK(st == TUTTI_OK || st == TUTTI_ERR_PEER_LOST || st == TUTTI_ERR_MISMATCH);
    }
    reach_common_view(g, 2);
}

static void batch_has_one_deadline(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, a_batch_without_end, NULL);
    party_end(&p);
}

/* ---- a delayed outcome ---- */

static tutti_run *first_of_three;
static uint64_t late_ns;

static bool is_inside(tutti_run *run)
{
    bool inside;

    tt_run_lock(run);
    inside = run->ninside > 0;
    tt_run_unlock(run);
    return inside;
}

struct within {
    tutti_run *run;
    tutti_status st;
};

static void *be_in_an_operation(void *arg)
{
    tutti_elastic op = { .size = sizeof op, .coll = TUTTI_BARRIER, .tag = 1 };
    struct within *w = arg;

    w->st = tutti_run_collective(w->run, &op);
    return NULL;
}

/* Starts a thread in an operation that the others have not reached. */
static pthread_t enter(struct within *w, tutti_run *run)
{
    pthread_t thread;

    *w = (struct within){ .run = run };
    CHECK(pthread_create(&thread, NULL, be_in_an_operation, w) == 0);
    while (!is_inside(run))
        nanosleep(&(struct timespec){ .tv_nsec = TT_MS }, NULL);
    return thread;
}

/* Queries news, including the operation that carried them, while another thread is in an operation;
 * finally fails that operation. */
static void queries_meanwhile(struct guest *g)
{
    tutti_news before = { .size = sizeof before }, now = { .size = sizeof now };
    tutti_run_stats_t stats = { .size = sizeof stats };
    tutti_view view = { .size = sizeof view };
    struct within w;
    pthread_t thread;

    MUST(tutti_run_poll(g->run, &before));
    thread = enter(&w, g->run);
    for (int times = 0; times < 1000; times++) {
        MUST(tutti_run_poll(g->run, &now));
        CHECK(memcmp(&now, &before, sizeof now) == 0);
    }
    MUST(tutti_run_stats(g->run, &stats));
    MUST(tutti_run_view(g->run, &view));
    CHECK(stats.final == 1 && view.nranks == 2 && is_inside(g->run));
    party_reach(g->party, 1);
    pthread_join(thread, NULL);
    MUST(w.st);
    thread = enter(&w, g->run);
    MUST(tutti_run_revoke(g->run));
    pthread_join(thread, NULL);
    CHECK(w.st == TUTTI_ERR_PEER_LOST);
    party_reach(g->party, 2);
}

static void one_asks_meanwhile(struct guest *g)
{
    tutti_elastic op = { .size = sizeof op, .coll = TUTTI_BARRIER };
    tutti_view view = { .size = sizeof view };
    uint64_t flags = 0;

    first_view(g, 2);
    MUST(tutti_run_collective(g->run, &op));
    if (g->index == 0) {
        queries_meanwhile(g);
    } else {
        op.tag = 1;
        party_await(g->party, 1);
        MUST(tutti_run_collective(g->run, &op));
        party_await(g->party, 2);
    }
    MUST(tutti_run_shrink(g->run, 2, 0, &view));
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void run_answers_during_an_operation(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, one_asks_meanwhile, NULL);
    party_end(&p);
}

/* Guest 2 revokes the epoch, and guest 1 does not reply before guest 0's deadline. */
static void one_answers_late(struct guest *g)
{
    int64_t v = 3;
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = &v,
                         .dst = &v,
                         .count = 1,
                         .type = TUTTI_I64,
                         .mode = TUTTI_RETRY,
                         .timeout_ms = 2000 };
    uint64_t flags = 0;

    first_view(g, 3);
    MUST(tutti_run_agree(g->run, 1, 0, &flags)); /* all are in the epoch */
    if (g->index == 0) {
        party_await(g->party, 1);
        first_of_three = g->run;
        party_reach(g->party, 2);
        CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_TIMEOUT);
        CHECK(strstr(tutti_last_error(),
                     "tutti_run_collective: the outcome arrived after the deadline"));
        CHECK(op.status == TUTTI_ERR_TIMEOUT && op.attempts == 1 && v == 3);
    } else if (g->index == 1) {
        tt_run_lock(g->run);
        party_reach(g->party, 1);
        party_await(g->party, 3);
        while (tt_now_ns() < late_ns)
            nanosleep(&(struct timespec){ .tv_nsec = TT_MS }, NULL);
        tt_run_unlock(g->run);
    } else {
        party_await(g->party, 2);
        while (!is_inside(first_of_three))
            nanosleep(&(struct timespec){ .tv_nsec = TT_MS }, NULL);
        late_ns = tt_now_ns() + 2200 * TT_MS;    /* after guest 0's deadline, on a machine of any
                                                    speed */
        MUST(tutti_run_revoke(g->run));
        party_reach(g->party, 3);
    }
    reach_common_view(g, 3);
}

static void expired_operation_is_not_retried(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, one_answers_late, NULL);
    party_end(&p);
}

/* ---- errors ---- */

static bool error_contains(const char *what)
{
    return strstr(tutti_last_error(), what) != NULL;
}

static void wrong_calls(struct guest *g)
{
    tutti_view view = { .size = sizeof view }, small = { .size = 4 };
    tutti_run_stats_t stats = { .size = 6 };
    tutti_news news = { .size = 5 };
    int64_t v[4] = { 1, 2, 3, 4 };
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = v,
                         .dst = v,
                         .count = 4,
                         .type = TUTTI_I64 };
    uint64_t flags = 0;
    tutti_status st;

    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          error_contains("tutti_run_collective: this member is not in a view"));
    CHECK(tutti_run_batch(g->run, &op, 1, 0, 1) == TUTTI_ERR_INVALID &&
          error_contains("tutti_run_batch: this member is not in a view"));
    CHECK(tutti_run_allreduce(g->run, v, v, 4, TUTTI_I64, TUTTI_SUM, 0) == TUTTI_ERR_INVALID &&
          error_contains("tutti_run_allreduce: this member is not in a view"));
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          error_contains("tutti_run_collective: this member is not in a view"));
    CHECK(tutti_run_agree(g->run, 1, 0, &flags) == TUTTI_ERR_INVALID);
    CHECK(tutti_run_comm(g->run) == NULL);
    CHECK(tutti_run_epoch(g->run, TUTTI_ADMIT, 3, 0, 50, &view) == TUTTI_ERR_TIMEOUT);
    CHECK(error_contains("no view was formed") && error_contains("`least` is 3"));
    first_view(g, 2);
    CHECK(tutti_run_shrink(g->run, 3, 0, &view) == TUTTI_ERR_PEER_LOST &&
          error_contains("only 2 members remain, but least is 3"));
    CHECK(tutti_run_view(g->run, &small) == TUTTI_ERR_INVALID && error_contains("out.size is 4"));
    CHECK(tutti_run_poll(g->run, &news) == TUTTI_ERR_INVALID &&
          error_contains("out.size is 5: must be sizeof(tutti_news)"));
    CHECK(tutti_run_stats(g->run, &stats) == TUTTI_ERR_INVALID &&
          error_contains("out.size is 6: must be sizeof(tutti_run_stats_t)"));
    CHECK(tutti_run_epoch(g->run, 9, 0, 0, 0, &view) == TUTTI_ERR_INVALID &&
          error_contains("0x9 contain unknown bits 0x8"));
    CHECK(tutti_run_epoch(g->run, 0, 3, 2, 0, &view) == TUTTI_ERR_INVALID &&
          error_contains("least (3 members) exceeds most (2)"));
    op.coll = (tutti_coll)99;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          error_contains("op.coll is 99"));
    op.coll = TUTTI_BARRIER;
    op.mode = (tutti_mode)9;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          error_contains("op.mode of barrier is 9"));
    op.coll = TUTTI_ALLREDUCE;
    op.mode = TUTTI_ABORT;
    op.tag = 4;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          error_contains("tag is 4: must be 0 to 3"));
    op.tag = 0;
    op.type = 99;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID);
    op.type = TUTTI_I64;
    op.coll = TUTTI_ALLGATHER;
    op.mode = TUTTI_RETRY;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          error_contains("allgather cannot be retried"));
    CHECK(op.status == TUTTI_ERR_INVALID);
    CHECK(tutti_run_batch(g->run, &op, 1, 0, 1) == TUTTI_ERR_INVALID &&
          op.status == TUTTI_ERR_INVALID);
    CHECK(error_contains("tutti_run_batch: op.mode is TUTTI_RETRY"));
    op.status = TUTTI_OK;
    CHECK(tutti_run_batch(g->run, &op, 1, 3000000000u, 1) == TUTTI_ERR_INVALID &&
          op.status == TUTTI_ERR_INVALID);
    op.coll = TUTTI_ALLREDUCE;
    MUST(tutti_run_collective(g->run, &op)); /* the errors had no effect */
    CHECK(v[0] == 2 && v[3] == 8);
    op.mode = TUTTI_ABORT;
    op.count = g->index ? 3 : 4; /* members make different calls */
    v[0] = 5;
    CHECK(tutti_run_collective(g->run, &op) != TUTTI_OK);
    CHECK(v[0] == 5 && v[3] == 8);
    MUST(tutti_run_shrink(g->run, 2, 0, &view));
    CHECK(view.nranks == 2);
    op.count = 1;
    op.mode = g->index ? TUTTI_RETRY : TUTTI_ABORT; /* or in different modes */
    CHECK(tutti_run_collective(g->run, &op) != TUTTI_OK);
    CHECK(v[0] == 5);
    if (strstr(tutti_last_error(), "mode retry") && strstr(tutti_last_error(), "mode abort"))
        party_reach(g->party, 1);
    /* the other member may have retried its operation */
    while ((st = tutti_run_shrink(g->run, 2, 0, &view)) == TUTTI_ERR_MISMATCH)
        ;
    MUST(st);
    CHECK(view.nranks == 2);
    op.mode = TUTTI_ABORT;
    MUST(tutti_run_collective(g->run, &op));
    CHECK(v[0] == 10);
    CHECK(atomic_load(&g->party->step) == 1);
    CHECK(tutti_run_agree(g->run, 1, g->index ? 50 : 51, &flags) == TUTTI_OK);
    MUST(tutti_run_revoke(g->run));
    while (tutti_run_collective(g->run, &op) == TUTTI_OK)
        ;
    MUST(tutti_run_shrink(g->run, 2, 0, &view));
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    op.count = 1;
    news.size = sizeof news;
    /* the end of the previous epoch may be reported late */
    for (int tries = 0; tries == 0 || news.revoked; tries++) {
        CHECK(tries < 100000);
        MUST(tutti_run_collective(g->run, &op));
        MUST(tutti_run_poll(g->run, &news));
    }
}

static void *wait_in_tag_2(void *run)
{
    MUST(tutti_run_collective(
        run, &(tutti_elastic){ .size = sizeof(tutti_elastic), .coll = TUTTI_BARRIER, .tag = 2 }));
    return NULL;
}

static bool operates(tutti_run *run)
{
    bool does;

    tt_run_lock(run);
    does = run->noperations > 0;
    tt_run_unlock(run);
    return does;
}

/* Guest 0 calls while another of its threads waits in an operation. */
static void calls_that_collide(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    uint64_t flags = 0;
    pthread_t other;

    first_view(g, 2);
    if (g->index == 1) {
        party_await(g->party, 1);
        wait_in_tag_2(g->run);
        return;
    }
    CHECK(pthread_create(&other, NULL, wait_in_tag_2, g->run) == 0);
    while (!operates(g->run))
        nanosleep(&(struct timespec){ .tv_nsec = TT_MS }, NULL);
    CHECK(tutti_run_agree(g->run, 1, 0, &flags) == TUTTI_ERR_INVALID &&
          error_contains("tutti_run_agree: an operation with tag 2 is already in progress"));
    CHECK(tutti_run_epoch(g->run, 0, 0, 0, 0, &view) == TUTTI_ERR_INVALID &&
          error_contains("tutti_run_epoch: an operation with tag 2 is already in progress"));
    party_reach(g->party, 1);
    CHECK(pthread_join(other, NULL) == 0);
}

static void colliding_call_is_reported(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, calls_that_collide, NULL);
    party_end(&p);
}

static void wrong_calls_are_reported_without_effect(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, wrong_calls, NULL);
    party_end(&p);
}

/* Two members make a call with different arguments, or different calls: both errors name both. */
static void arguments_differ(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    tutti_ring ring = { .size = sizeof ring, .gain_percent = 5 + g->index };
    uint64_t flags = 0;

    first_view(g, 2);
    CHECK(tutti_run_epoch(g->run, TUTTI_ADMIT, 1 + g->index, 0, 0, &view) == TUTTI_ERR_MISMATCH);
    CHECK(error_contains("member 1 called epoch with least ") &&
          error_contains("member 2 called it with least "));
    CHECK(error_contains("least 1") && error_contains("least 2") &&
          error_contains("this is member"));
    CHECK(tutti_run_epoch(g->run, 0, 0, 4 * g->index, 0, &view) == TUTTI_ERR_MISMATCH &&
          error_contains("most 0") && error_contains("most 4"));
    CHECK(tutti_run_epoch(g->run, g->index ? 0 : TUTTI_ADMIT, 0, 0, 0, &view) ==
          TUTTI_ERR_MISMATCH);
    CHECK(error_contains("flags 0x1") && error_contains("flags 0"));
    CHECK((g->index ? tutti_run_agree(g->run, 1, 0, &flags)
                    : tutti_run_shrink(g->run, 0, 0, &view)) == TUTTI_ERR_MISMATCH);
    CHECK(error_contains("called agree") && error_contains("called epoch"));
    CHECK(tutti_run_optimize(g->run, &ring, 0, &view) == TUTTI_ERR_MISMATCH);
    CHECK(error_contains("gain_percent 5") && error_contains("gain_percent 6"));
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    /* again, as the last call: one member leaves as soon as it is notified, and the other must
     * still fail instead of waiting for newcomers */
    CHECK(tutti_run_epoch(g->run, TUTTI_ADMIT, 2 + g->index, 0, 0, &view) == TUTTI_ERR_MISMATCH);
}

/* In a role with one member an operation completes at once, and its outcome is an all-reduce of
 * three numbers. That does not match the other member's all-reduce of three numbers. */
static void one_has_ended_what_another_begins(struct guest *g)
{
    static const uint64_t three[3] = { 1, 2, 3 };
    uint64_t greatest[3] = { 0 };
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = three,
                         .dst = greatest,
                         .count = 3,
                         .scope = g->index ? TUTTI_SCOPE_ALL : TUTTI_SCOPE_ROLE,
                         .type = TUTTI_U64,
                         .op = TUTTI_MAX,
                         .mode = TUTTI_RETRY };

    first_view(g, 2);
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_MISMATCH);
    if (error_contains("called the outcome exchange of a completed operation") &&
        error_contains("called allreduce(count 3, "))
        party_reach(g->party, 1);       /* the detecting member names both; the other may be
                                           notified first */
    else
        CHECK(error_contains("found that members called different operations"));
}

static void operation_is_no_outcome_on_another(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    p.nroles = 2;
    party_run(&p, 2, one_has_ended_what_another_begins, NULL);
    assert_int_equal(atomic_load(&p.step), 1);
    party_end(&p);
}

static void differing_arguments_are_reported(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, arguments_differ, NULL);
    party_end(&p);
}

/* One member revokes the epoch, or reaches its deadline: the errors of the others name it. */
static void one_ends_the_epoch(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t v = 1;
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = &v,
                         .dst = &v,
                         .count = 1,
                         .type = TUTTI_I64 };
    uint64_t flags = 0;
    char what[80];

    first_view(g, 3);
    MUST(tutti_run_view(g->run, &view));
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    snprintf(what, sizeof what, "is over: member %llu revoked the epoch",
             (unsigned long long)view.members[0].id);
    if (view.rank == 0)
        MUST(tutti_run_revoke(g->run));
    while (tutti_run_collective(g->run, &op) == TUTTI_OK)
        ;
    CHECK(op.status == TUTTI_ERR_PEER_LOST && error_contains(what));
    MUST(tutti_run_shrink(g->run, 3, 0, &view));
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    op.timeout_ms = 50;
    snprintf(what, sizeof what, "member %llu reached ", (unsigned long long)view.members[0].id);
    if (view.rank == 0) { /* the others have not called */
        CHECK(tutti_run_collective(g->run, &op) != TUTTI_OK);
        party_reach(g->party, 1);
    } else {
        party_await(g->party, 1);
        CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_PEER_LOST);
    }
    CHECK(error_contains(what) && error_contains(" deadline"));
    MUST(tutti_run_shrink(g->run, 3, 0, &view));
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void epoch_end_names_its_member(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, one_ends_the_epoch, NULL);
    party_end(&p);
}

/* ---- some members call, and others are in an operation ---- */

/* All errors name the call and the operation, at once. The operation is restored and not
 * retried. */
static void one_calls_where_others_operate(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t v[VALUES];
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = v,
                         .dst = v,
                         .count = VALUES,
                         .type = TUTTI_I64,
                         .tag = 1,
                         .mode = TUTTI_RETRY };
    uint64_t flags = 0;
    char caller[40], what[80];

    first_view(g, 3);
    for (int times = 0; times < 2; times++) {
        MUST(tutti_run_view(g->run, &view));
        fill(v, 5);
        MUST(tutti_run_collective(g->run, &op));
        snprintf(caller, sizeof caller, "member %llu called %s where member ",
                 (unsigned long long)view.members[times].id, times ? "agree" : "epoch");
        snprintf(what, sizeof what, " is in operation 2 of tag 1, allreduce(count %d, type i64)",
                 VALUES);
        fill(v, 7);
        if (view.rank == times)
            CHECK((times ? tutti_run_agree(g->run, 1, 0, &flags)
                         : tutti_run_shrink(g->run, 3, 0, &view)) == TUTTI_ERR_MISMATCH);
        else
            CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_MISMATCH && op.attempts == 1);
        CHECK(error_contains(caller) && error_contains(what));
        check_sum(v, 1, 7);
        MUST(tutti_run_shrink(g->run, 3, 0, &view));
        CHECK(view.nranks == 3 && view.changed);
    }
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void call_against_operation_is_a_mismatch(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, one_calls_where_others_operate, NULL);
    party_end(&p);
}

/* ---- a killed member ---- */

/* A member in a separate process, which runs until it is killed. It receives the address of the
 * coordinator, and sends its ID. */
static void live_until_killed(int hear, int tell)
{
    struct party p = { .nroles = 0 };
    tutti_run_stats_t stats = { .size = sizeof stats };
    struct guest g = { .party = &p };
    int32_t v = 1;

    CHECK(read(hear, p.address, sizeof p.address) == sizeof p.address);
    g.run = party_join(&p, 2, NULL);
    MUST(tutti_run_stats(g.run, &stats));
    CHECK(write(tell, &stats.id, sizeof stats.id) == sizeof stats.id);
    first_view(&g, 3);
    MUST(tutti_send(&v, 1, TUTTI_I32, 1, tutti_run_comm(g.run), NULL));
    for (;;)
        pause();
}

static struct {
    pid_t pid;
    uint64_t id;
} killed;

/* Only rank 1 has a data connection to the killed member. Rank 2's error names both ends of that
 * connection, or the loss, if the coordinator detects it first. */
static void one_is_killed(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    uint64_t flags = 0;
    char told[80], lost[80];
    int32_t v = 0;

    first_view(g, 3);
    MUST(tutti_run_view(g->run, &view));
    CHECK(view.members[0].id == killed.id); /* it joined first */
    snprintf(told, sizeof told, "member %llu lost its connection to member %llu",
             (unsigned long long)view.members[1].id, (unsigned long long)killed.id);
    snprintf(lost, sizeof lost, "member %llu was lost", (unsigned long long)killed.id);
    if (view.rank == 1) {
        MUST(tutti_recv(&v, 1, TUTTI_I32, 0, tutti_run_comm(g->run), NULL));
        CHECK(kill(killed.pid, SIGKILL) == 0);
    }
    CHECK(tutti_run_agree(g->run, 1, 0, &flags) == TUTTI_ERR_PEER_LOST &&
          (error_contains(lost) || (view.rank == 2 && error_contains(told))));
    MUST(tutti_run_shrink(g->run, 2, 0, &view));
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void unreachable_pair_is_named(void **state)
{
    int to[2], from[2], status;
    struct party p;

    (void)state;
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    killed.pid = fork();
    assert_true(killed.pid >= 0);
    if (killed.pid == 0) {
        live_until_killed(to[0], from[1]);
        _exit(1);
    }
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    assert_int_equal(write(to[1], p.address, sizeof p.address), sizeof p.address);
    assert_int_equal(read(from[0], &killed.id, sizeof killed.id), sizeof killed.id);
    party_run(&p, 2, one_is_killed, NULL);
    assert_int_equal(waitpid(killed.pid, &status, 0), killed.pid);
    party_end(&p);
    for (int i = 0; i < 2; i++) {
        close(to[i]);
        close(from[i]);
    }
}

/* The view already has the maximum number of members that a newcomer accepts: its error states
 * this. The newcomer does not wait for members of the view. */
static void one_wants_fewer(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    uint64_t flags = 0;

    if (g->index == 2) {
        party_await(g->party, 1);
        CHECK(tutti_run_epoch(g->run, TUTTI_ADMIT, 0, 2, 50, &view) == TUTTI_ERR_TIMEOUT);
        CHECK(error_contains("the view already has 2 members, and this member's `most` is 2"));
        party_reach(g->party, 2);
        return;
    }
    first_view(g, 2);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    party_reach(g->party, 1);
    party_await(g->party, 2);
    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 0, 0, 0, &view));
    CHECK(view.changed == 0 && view.nranks == 2);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void newcomer_gets_the_reason(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, one_wants_fewer, NULL);
    party_end(&p);
}

/* Two calls with long descriptions: at least the error of the detecting member has both members'
 * IDs and both descriptions in full. */
static void calls_are_long(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    float v[8] = { 0 }, kept[8] = { 0 };
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = v,
                         .dst = v,
                         .count = 7 + g->index,
                         .type = TUTTI_F32,
                         .quant = TUTTI_QUANT_MINMAX_U8,
                         .error_feedback = kept };

    first_view(g, 2);
    CHECK(tutti_run_collective(g->run, &op) != TUTTI_OK);
    if (error_contains("member 1 called allreduce(count ") ||
        error_contains("member 2 called allreduce(count ")) {
        CHECK(error_contains("count 7") && error_contains("count 8") &&
              error_contains("where member ") && !error_contains("rank "));
        CHECK(error_contains("(operation 1 of tag 0)"));
        party_reach(g->party, 1);
    } else {
        /* the other member has detected it */
        CHECK(error_contains("found that members called different operations"));
    }
    MUST(tutti_run_shrink(g->run, 2, 0, &view));
    MUST(tutti_run_agree(g->run, 1, 0, &(uint64_t){ 0 }));
    CHECK(atomic_load(&g->party->step) == 1);
}

static void long_messages_are_complete(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, calls_are_long, NULL);
    party_end(&p);
}

/* Only operations that had started before the end of the epoch are named. */
static bool error_names_operation(const char *operation)
{
    return error_contains(operation) || error_contains("(call tutti_run_epoch for the next view)");
}

static void *in_tag_3(void *run)
{
    CHECK(tutti_run_collective(run, &(tutti_elastic){ .size = sizeof(tutti_elastic),
                                                      .coll = TUTTI_BARRIER,
                                                      .tag = 3 }) == TUTTI_ERR_PEER_LOST);
    CHECK(error_names_operation(", operation 1 of tag 3, "));
    return NULL;
}

/* Both members wait for each other on different tags, and guest 0 also on a third one: the errors
 * name the tags. */
static void in_tags_apart(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    pthread_t other;
    int64_t v = 1;
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = &v,
                         .dst = &v,
                         .count = 1,
                         .type = TUTTI_I64,
                         .tag = 1 };
    tutti_status st;

    first_view(g, 2);
    MUST(tutti_run_collective(g->run, &op));
    op.tag += g->index;
    op.timeout_ms = g->index == 0 ? 200 : 0;
    if (g->index == 0)
        CHECK(pthread_create(&other, NULL, in_tag_3, g->run) == 0);
    st = tutti_run_collective(g->run, &op);
    CHECK(v == 2);
    if (g->index == 0)
        CHECK(st == TUTTI_ERR_TIMEOUT && error_contains(", operation 2 of tag 1, in wait of ") &&
              pthread_join(other, NULL) == 0);
    else
        CHECK(st == TUTTI_ERR_PEER_LOST && error_contains("reached ") &&
              error_names_operation(", operation 1 of tag 2, "));
    MUST(tutti_run_epoch(g->run, 0, 2, 0, 0, &view));
    MUST(
        tutti_run_collective(g->run, &(tutti_elastic){ .size = sizeof op, .coll = TUTTI_BARRIER }));
}

/* Both members are in this process. Each logs its failure once, and not again for other tags that
 * failed with it. */
static void operations_on_other_tags_log_once(void **state)
{
    struct unit_stderr caught;
    struct party p;
    char text[16384];
    uint32_t lines = 0;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    unit_stderr_catch(&caught);
    party_run(&p, 2, in_tags_apart, NULL);
    unit_stderr_release(&caught, text, sizeof text);
    party_end(&p);
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    if (lines != 2 || !strstr(text, "operation 2 of tag 1"))
        fail_msg("two lines were expected, not \"%s\"", text);
}

/* A member in mode partial first exchanges the contributors. The error names this exchange as part
 * of the program's all-reduce. */
static void one_is_partial(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t v = 1;
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = &v,
                         .dst = &v,
                         .count = 1,
                         .type = TUTTI_I64,
                         .mode = g->index == 0 ? TUTTI_PARTIAL : TUTTI_RETRY };

    first_view(g, 2);
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_MISMATCH && v == 1);
    if (error_contains(" where member ")) /* otherwise the other member has detected it */
        CHECK(error_contains("called allreduce(mode partial, contributors)") &&
              error_contains("called allreduce(count 1, ") && error_contains("mode retry)"));
    MUST(tutti_run_epoch(g->run, 0, 2, 0, 0, &view));
    MUST(tutti_run_agree(g->run, 1, 0, &(uint64_t){ 0 }));
}

static void exchange_before_partial_is_named_so(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, one_is_partial, NULL);
    party_end(&p);
}

/* Guest 0 waits for newcomers after guest 1 has left: error and log contain the number of members.
 * Then guest 2 joins. */
static tutti_run *lonely;

static bool log_was_written(void)
{
    bool told;

    tt_run_lock(lonely);
    told = lonely->lacking.since_ns > 0 &&
           lonely->lacking.tell_ns >= lonely->lacking.since_ns + 2 * TT_SECOND;
    tt_run_unlock(lonely);
    return told;
}

static void one_stays_alone(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    uint64_t flags = 0;

    if (g->index < 2) {
        first_view(g, 2);
        MUST(tutti_run_agree(g->run, 1, 0, &flags));    /* both are in the view before one leaves */
    }
    if (g->index == 1)
        return;
    if (g->index == 0) {
        do
            CHECK(tutti_run_epoch(g->run, TUTTI_ADMIT, 2, 0, 100, &view) == TUTTI_ERR_TIMEOUT);
        while (!error_contains("remaining members: 1; least: 2; waiting newcomers: 0"));
        lonely = g->run;
        party_reach(g->party, 1);
    } else {
        party_await(g->party, 1);
        for (int tries = 0; !log_was_written(); tries++) {
            CHECK(tries < 60000);
            nanosleep(&(struct timespec){ .tv_nsec = TT_MS }, NULL);
        }
    }
    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 2, 0, 0, &view));
    CHECK(view.nranks == 2);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void waiting_for_newcomers_is_reported(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, one_stays_alone, NULL);
    party_end(&p);
}

/* The join fails with one line in the log, which equals the last error. */
static tutti_status join_in_vain(const tutti_run_conf *conf)
{
    char printed[4 * TT_ERROR_BYTES], line[TT_ERROR_BYTES + 64];
    struct unit_stderr caught;
    const char *told;
    tutti_run *run;
    tutti_status st;

    unit_stderr_catch(&caught);
    st = tutti_run_join(&run, conf);
    unit_stderr_release(&caught, printed, sizeof printed);
    snprintf(line, sizeof line, "tutti error: %s\n", tutti_last_error());
    told = strstr(printed, "tutti error: "); /* the coordinator, in this process, may log
                                                warnings */
    if (st == TUTTI_OK || !told || strncmp(told, line, strlen(line)) != 0 ||
        strstr(told + 1, "tutti error: "))
        fail_msg("status %d, and the log has not \"%s\" alone: \"%s\"", (int)st, line, printed);
    return st;
}

static void wrong_token_is_reported(void **state)
{
    tutti_run_conf conf = { .size = sizeof conf,
                            .run = "test",
                            .token = "fedcba9876543210fedcba9876543210",
                            .timeout_ms = 60000 };
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, "0123456789abcdef0123456789abcdef");
    conf.coordinators = p.address;
    assert_int_equal(join_in_vain(&conf), TUTTI_ERR_PROTOCOL);
    assert_non_null(strstr(tutti_last_error(), "token"));
    conf.token = "0123456789abcdef0123456789abcdef";
    conf.run = "other";
    assert_int_equal(join_in_vain(&conf), TUTTI_ERR_INVALID);
    assert_non_null(
        strstr(tutti_last_error(), "this coordinator leads the run \"test\", not \"other\""));
    conf.coordinators = "nonsense";
    assert_int_equal(join_in_vain(&conf), TUTTI_ERR_INVALID);
    conf.coordinators = "192.0.2.1:29401";
    conf.token = NULL;
    assert_int_equal(join_in_vain(&conf), TUTTI_ERR_INVALID);
    conf.coordinators = "127.0.0.1:1";
    conf.timeout_ms = 100;
    assert_int_equal(join_in_vain(&conf), TUTTI_ERR_TIMEOUT);
    party_end(&p);
}

/* One end has a token, the other does not. */
static void plain_member_gets_the_mismatch(void **state)
{
    static const char *const tokens[] = { NULL, "0123456789abcdef0123456789abcdef" };
    static const char *const why[] = { "uses TLS, but this process does not", "does not use TLS" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        tutti_run_conf conf = {
            .size = sizeof conf, .run = "test", .token = tokens[i], .timeout_ms = 20000
        };
        struct party p;
        tutti_run *run;

        party_begin(&p, 1000, 100, tokens[!i]);
        conf.coordinators = p.address;
        assert_int_equal(tutti_run_join(&run, &conf), TUTTI_ERR_PROTOCOL);
        if (!strstr(tutti_last_error(), why[i]))
            fail_msg("\"%s\" does not say that the other end %s", tutti_last_error(), why[i]);
        party_end(&p);
    }
}

/* ---- unresponsive coordinators ---- */

/* The kernel of a hung coordinator accepts connections, but there are no replies. */
static void hanging_coordinator_is_skipped(void **state)
{
    tutti_run_conf conf = { .size = sizeof conf, .run = "test", .timeout_ms = 60000 };
    char both[200];
    uint16_t port;
    struct party p;
    tutti_run *run;
    const int fd = tt_listen(NULL, 0, &port);

    (void)state;
    assert_true(fd >= 0);
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    snprintf(both, sizeof both, "127.0.0.1:%u,%s", port, p.address);
    conf.coordinators = both;
    MUST(tutti_run_join(&run, &conf));
    tutti_run_destroy(run);
    close(fd);
    party_end(&p);
}

/* Without a coordinator there are no decisions: calls still time out, and the member can be
 * destroyed. */
static void call_ends_without_a_coordinator(void **state)
{
    tutti_view view = { .size = sizeof view };
    uint64_t flags = 0;
    struct party p;
    tutti_run *run;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    run = party_join(&p, 0, NULL);
    MUST(tutti_run_epoch(run, TUTTI_ADMIT, 1, 0, 0, &view));
    party_end(&p);
    run->timeout_ms = 200;
    assert_int_equal(tutti_run_agree(run, 1, 50, &flags), TUTTI_ERR_TIMEOUT);
    assert_non_null(strstr(tutti_last_error(), "tutti_run_agree"));
    assert_int_equal(tutti_run_agree(run, 1, 50, &flags), TUTTI_ERR_TIMEOUT);
    tutti_run_destroy(run);
}

/* Another thread forms the next view, or is in an operation, and does not return: threads that wait
 * for it return at their deadlines. */
static void wait_for_threads_has_a_deadline(void **state)
{
    tutti_elastic op = {
        .size = sizeof op, .coll = TUTTI_BARRIER, .mode = TUTTI_RETRY, .timeout_ms = 50
    };
    const char *told = "another thread did not form the next view before the deadline";
    tutti_view view = { .size = sizeof view };
    struct party p;
    tutti_run *run;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    run = party_join(&p, 0, NULL);
    MUST(tutti_run_epoch(run, TUTTI_ADMIT, 1, 0, 0, &view));
    tt_run_lock(run);
    run->recovering = true;
    tt_run_unlock(run);
    assert_int_equal(tutti_run_collective(run, &op), TUTTI_ERR_TIMEOUT);
    assert_non_null(strstr(tutti_last_error(), told));
    tt_run_lock(run);
    assert_int_equal(tt_operation_recover(run, &op, view.epoch, tt_now_ns() + 50 * TT_MS),
                     TUTTI_ERR_TIMEOUT);
    assert_non_null(strstr(tutti_last_error(), told));
    run->recovering = false;
    run->ninside = 1;
    assert_int_equal(tt_operation_recover(run, &op, view.epoch, tt_now_ns() + 50 * TT_MS),
                     TUTTI_ERR_TIMEOUT);
    assert_non_null(strstr(tutti_last_error(),
                           "operations of other threads did not complete before the deadline"));
    run->ninside = 0;
    tt_run_unlock(run);
    op.timeout_ms = 0;
    MUST(tutti_run_collective(run, &op)); /* the timeouts had no effect */
    tutti_run_destroy(run);
    party_end(&p);
}

/* ---- hostile members ---- */

/* One sends many messages that no engine sends: only the epoch ends. */
static void one_says_what_is_not_so(struct guest *g)
{
    struct tt_message s = { .kind = TT_MESSAGE_FAILED,
                            .status = TUTTI_ERR_INVALID,
                            .text = "nonsense" };
    tutti_view view = { .size = sizeof view };
    int64_t v = 1;
    uint64_t flags = 0;

    first_view(g, 3);
    MUST(tutti_run_view(g->run, &view));
    tt_run_lock(g->run);
    s.epoch = g->run->space.epoch;
    tt_run_unlock(g->run);
    for (int k = 0; k < 100000; k++) {
        tutti_elastic op = { .size = sizeof op,
                             .coll = TUTTI_ALLREDUCE,
                             .src = &v,
                             .dst = &v,
                             .count = 1,
                             .type = TUTTI_I64 };

        if (view.rank == 0 && k == 50) {
            tt_run_lock(g->run);
            for (uint32_t i = 0; i < 300; i++) { /* each of the view's communicators, and
                                                    nonexistent ones */
                s.context = TT_ENGINE_CONTEXTS_OWN + ((uint32_t)s.epoch << 10) + i % 8;
                tt_peers_broadcast(g->run, &s);
            }
            tt_run_unlock(g->run);
        }
        v = 1;
        if (tutti_run_collective(g->run, &op) == TUTTI_OK) {
            CHECK(v == 3);
            continue;
        }
        CHECK(v == 1 && k >= 50);
        break;
    }
    MUST(tutti_run_shrink(g->run, 3, 0, &view));
    MUST(tutti_run_allreduce(g->run, &v, &v, 1, TUTTI_I64, TUTTI_SUM, 0));
    CHECK(v == 3);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void false_failure_ends_one_epoch(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 3, one_says_what_is_not_so, NULL);
    party_end(&p);
}

/* ---- a stopped process ---- */

/* Returns whether a wait with this timeout continues after this process was stopped for longer. The
 * parent stops it when it has received a byte through the pipe. */
static bool waits_on(int tell, uint64_t wait_ns)
{
    tutti_run run = { .lock = PTHREAD_MUTEX_INITIALIZER, .timeout_ms = 3600000 };
    uint64_t deadline_ns = tt_now_ns() + wait_ns;
    pthread_condattr_t clock;

    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&run.changed, &clock);
    tt_run_lock(&run);
    return write(tell, "", 1) == 1 && tt_run_wait_awake(&run, &deadline_ns) &&
           deadline_ns > tt_now_ns() + 1800 * TT_SECOND;
}

static void stopped_time_restarts_the_deadline(void **state)
{
    bool good = false;

    (void)state;
    /* the stop may come after the deadline: retry with a longer wait */
    for (uint64_t wait_ms = 200; wait_ms < 10000 && !good; wait_ms *= 2) {
        int tell[2], status;
        char byte;
        pid_t child;

        assert_int_equal(pipe(tell), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(waits_on(tell[1], wait_ms * TT_MS) ? 0 : 1);
        assert_int_equal(read(tell[0], &byte, 1), 1);
        usleep((useconds_t)(wait_ms * 500)); /* time for the child to start its wait */
        kill(child, SIGSTOP);
        usleep((useconds_t)(wait_ms * 1000 + 1200000));
        kill(child, SIGCONT);
        assert_int_equal(waitpid(child, &status, 0), child);
        close(tell[0]);
        close(tell[1]);
        good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    assert_true(good);
}

/* ---- objects that outlive a run ---- */

/* The connections of the split communicator use the run's security settings, and outlive the
 * run. */
static void splits_and_goes(struct guest *g)
{
    tutti_comm *own;
    uint64_t flags = 0;
    int32_t v = 1;

    first_view(g, 3);
    MUST(tutti_comm_split(tutti_run_comm(g->run), 0, 0, &own));
    MUST(tutti_allreduce(&v, &v, 1, TUTTI_I32, TUTTI_SUM, own, NULL));
    CHECK(v == 3);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    tutti_run_destroy(g->run);
    g->run = NULL;
    CHECK(tutti_barrier(own, NULL) != TUTTI_OK); /* its members have left */
    tutti_comm_destroy(own);
}

static void split_communicator_outlives_its_run(void **state)
{
    struct party p;

    (void)state;
    setenv("TUTTI_WIRES", "tcp", 1);
    party_begin(&p, 1000, 100, "0123456789abcdef0123456789abcdef");
    party_run(&p, 3, splits_and_goes, "0123456789abcdef0123456789abcdef");
    party_end(&p);
    unsetenv("TUTTI_WIRES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_reduce_agree_and_commit),
        cmocka_unit_test(members_work_with_a_token),
        cmocka_unit_test(interrupted_operation_is_retried_in_place),
        cmocka_unit_test(leaving_after_operation_restores_nothing),
        cmocka_unit_test(loss_is_reported_and_input_restored),
        cmocka_unit_test(later_operation_delivers_tentative_outcome),
        cmocka_unit_test(refused_member_meets_waiting_ones),
        cmocka_unit_test(loss_restores_tentative_operations),
        cmocka_unit_test(two_open_operations_restore_in_reverse),
        cmocka_unit_test(missing_small_result_comes_with_outcome),
        cmocka_unit_test(delivered_result_finalizes_the_earlier_one),
        cmocka_unit_test(small_batch_has_one_result),
        cmocka_unit_test(small_results_of_all_tags_arrive),
        cmocka_unit_test(small_operations_settle_and_bring_news),
        cmocka_unit_test(newcomers_are_admitted_and_members_leave),
        cmocka_unit_test(late_admission_joins_the_next_call),
        cmocka_unit_test(cut_connection_evicts_nobody),
        cmocka_unit_test(call_on_communicator_delays_view_change),
        cmocka_unit_test(old_view_ends_after_its_calls),
        cmocka_unit_test(strangers_keep_no_member_out),
        cmocka_unit_test(batch_is_final_as_a_whole),
        cmocka_unit_test(size_dependent_batch_is_not_retried),
        cmocka_unit_test(other_threads_view_respects_size),
        cmocka_unit_test(batch_has_one_deadline),
        cmocka_unit_test(run_answers_during_an_operation),
        cmocka_unit_test(expired_operation_is_not_retried),
        cmocka_unit_test(late_retry_follows_the_others),
        cmocka_unit_test(remaining_time_allows_a_retry),
        cmocka_unit_test(fork_and_leave_end_their_objects),
        cmocka_unit_test(wrong_calls_are_reported_without_effect),
        cmocka_unit_test(colliding_call_is_reported),
        cmocka_unit_test(differing_arguments_are_reported),
        cmocka_unit_test(operation_is_no_outcome_on_another),
        cmocka_unit_test(epoch_end_names_its_member),
        cmocka_unit_test(call_against_operation_is_a_mismatch),
        cmocka_unit_test(unreachable_pair_is_named),
        cmocka_unit_test(newcomer_gets_the_reason),
        cmocka_unit_test(long_messages_are_complete),
        cmocka_unit_test(operations_on_other_tags_log_once),
        cmocka_unit_test(exchange_before_partial_is_named_so),
        cmocka_unit_test(waiting_for_newcomers_is_reported),
        cmocka_unit_test(wrong_token_is_reported),
        cmocka_unit_test(plain_member_gets_the_mismatch),
        cmocka_unit_test(hanging_coordinator_is_skipped),
        cmocka_unit_test(call_ends_without_a_coordinator),
        cmocka_unit_test(wait_for_threads_has_a_deadline),
        cmocka_unit_test(false_failure_ends_one_epoch),
        cmocka_unit_test(stopped_time_restarts_the_deadline),
        cmocka_unit_test(split_communicator_outlives_its_run),
    };

    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
