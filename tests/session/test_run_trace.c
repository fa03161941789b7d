/* The calls of an elastic run in the trace, and in dumps after failures. */
#include "session/party.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyze/dumps.h"
#include "base/clock.h"
#include "comm/comm_trace.h"
#include "session/run.h"
#include "trace/departures.h"
#include "trace/dump.h"
#include "tutti/trace.h"

#define PATIENCE_NS (60 * TT_SECOND)

static char folder[] = "/tmp/tutti-run-trace-XXXXXX";

struct counted {
    const char *kind;
    tutti_status status;
    uint32_t n;
};

static int count_op(void *arg, const tutti_trace_op *op)
{
    struct counted *c = arg;

    c->n += strcmp(op->kind, c->kind) == 0 && strcmp(op->of, "run") == 0 && op->status == c->status;
    return 0;
}

/* Returns the number of records of a kind, on runs, with this status. */
static uint32_t count_records(const char *kind, tutti_status status)
{
    struct counted c = { .kind = kind, .status = status };
    uint64_t lost;

    MUST(tutti_trace_read(count_op, &c, &lost));
    CHECK(lost == 0);
    return c.n;
}

/* ---- records ---- */

static void call_all(struct guest *g)
{
    static const char *const collectives[] = { "run_allreduce", "run_broadcast", "run_barrier" };
    tutti_view view = { .size = sizeof view };
    tutti_elastic op = { .size = sizeof op, .count = 2, .type = TUTTI_I64, .mode = TUTTI_RETRY };
    int64_t in[2] = { 1, 2 }, out[2];
    uint64_t flags;
    int all;

    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 2, 0, 0, &view));
    op.src = in;
    op.dst = out;
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        op.coll = i == 0 ? TUTTI_ALLREDUCE : i == 1 ? TUTTI_BROADCAST : TUTTI_BARRIER;
        MUST(tutti_run_collective(g->run, &op));
        CHECK(count_records(collectives[i], TUTTI_OK) >= 1);
    }
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
    MUST(tutti_run_commit(g->run, 1, 0, &all));
    CHECK(count_records("run_epoch", TUTTI_OK) >= 1);
    CHECK(count_records("run_agree", TUTTI_OK) >= 1);
    CHECK(count_records("run_commit", TUTTI_OK) >= 1);
    atomic_fetch_add(&g->party->step, 1);
    party_await(g->party, 2);           /* both have made their calls before one leaves */
}

static void each_call_of_a_run_is_recorded(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, call_all, NULL);
    party_end(&p);
}

/* ---- departures ---- */

/* Returns whether a member of the guest's run has departed, with *out. */
static bool find_departure(const struct guest *g, struct tt_departure *out)
{
    static struct tt_departure list[TT_DEPARTURES_MAX];
    const uint64_t run = tt_comm_trace_job(g->run->m.secret);
    const uint32_t n = tt_departures_read(list);
    uint32_t found = 0;

    for (uint32_t i = 0; i < n; i++)
        if (list[i].run == run) {
            *out = list[i];
            found++;
        }
    CHECK(found <= 1);
    return found > 0;
}

/* Guest 1 leaves after the first epoch. */
static void remain(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    struct tt_departure d = { .run = 0 };
    uint64_t epoch, other;
    tutti_status st;

    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 2, 0, 0, &view));
    CHECK(view.nranks == 2);
    epoch = view.epoch;
    other = view.members[1 - view.rank].id;
    atomic_fetch_add(&g->party->step, 1);
    party_await(g->party, 2);
    if (g->index == 1)
        return;
    do
        st = tutti_run_epoch(g->run, 0, 1, 0, 0, &view);
    while (st == TUTTI_ERR_PEER_LOST || (!st && view.nranks == 2));
    CHECK(st == TUTTI_OK);
    CHECK(find_departure(g, &d));
    CHECK(d.member == other && d.epoch == epoch && d.why == TT_DEPARTURE_LEFT);
    CHECK(d.replaced_ns >= d.at_ns);
}

static void departures_are_recorded(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, remain, NULL);
    party_end(&p);
}

/* ---- dumps ---- */

/* Removes the dump in the folder, after it was read into *d. Returns false if there is none. */
static bool take_dump(struct tt_dumps *d)
{
    DIR *dir = opendir(folder);
    bool found = false;

    assert_non_null(dir);
    for (const struct dirent *e; !found && (e = readdir(dir));) {
        const size_t n = strlen(e->d_name);
        char path[512];

        if (n < 6 || strcmp(e->d_name + n - 6, ".jsonl") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        tt_dumps_read(d, path);
        assert_int_equal(unlink(path), 0);
        found = true;
    }
    closedir(dir);
    return found;
}

static void members_that_leave_write_no_dump(void **state)
{
    struct tt_dumps d;

    (void)state;
    tt_dump_await();            /* the members of the test before have left */
    assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
    assert_false(take_dump(&d));
    tt_dumps_fini(&d);
}

/* The coordinator does not respond. No communicator fails, so the run must write the dump. */
static void call_without_a_coordinator_leaves_a_dump(void **state)
{
    const uint64_t end_ns = tt_now_ns() + PATIENCE_NS;
    tutti_view view = { .size = sizeof view };
    uint64_t flags, nfailed = 0;
    struct tt_dumps d;
    struct party p;
    tutti_run *run;

    (void)state;
    assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
    party_begin(&p, PARTY_LEASE_MS, PARTY_GRACE_MS, NULL);
    run = party_join(&p, 0, NULL);
    MUST(tutti_run_epoch(run, TUTTI_ADMIT, 1, 0, 0, &view));
    party_end(&p);
    run->timeout_ms = 200;
    assert_int_equal(tutti_run_agree(run, 1, 50, &flags), TUTTI_ERR_TIMEOUT);
    while (!take_dump(&d)) {
        assert_true(tt_now_ns() < end_ns);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    assert_int_equal(tt_dumps_index(&d), TUTTI_OK);
    assert_true(d.is_elastic && d.ndumps == 1 && d.ncomplete == 1);
    for (size_t i = 0; i < d.nops; i++)
        nfailed += strcmp(tt_dumps_text(&d, d.ops[i].kind), "run_agree") == 0 &&
                   strcmp(tt_dumps_text(&d, d.ops[i].status), "TIMEOUT") == 0;
    assert_int_equal(nfailed, 1);
    for (uint32_t r = 0; r < d.nranks; r++)
        if (d.ranks[r].has_dump)
            assert_string_equal(tt_dumps_text(&d, d.ranks[r].reason), "timeout");
    tt_dumps_fini(&d);
    tutti_run_destroy(run);
}

/* Removes the dumps of the other tests. */
static void take_all(void)
{
    struct tt_dumps d;
    bool more = tt_dumps_init(&d) == TUTTI_OK;

    tt_dump_await();
    while (more && take_dump(&d))
        ;
    tt_dumps_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_of_a_run_is_recorded),
        cmocka_unit_test(members_that_leave_write_no_dump),
        cmocka_unit_test(call_without_a_coordinator_leaves_a_dump),
        cmocka_unit_test(departures_are_recorded),
    };
    int failed;

    if (!mkdtemp(folder))
        return 1;
    setenv("TUTTI_TRACE_DIR", folder, 1);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    take_all();
    rmdir(folder);
    return failed;
}
