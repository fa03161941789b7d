/* A member of an elastic run that reduces until SIGTERM, or until SIGINT (then it exits after the
 * operation), and checks every number. Each member contributes 1, its id, and a ramp of `count`
 * values. Prints a line "step K epoch E members N ms T" for each operation after a membership
 * change, and every 100th.
 *
 * prog_member COORDINATORS COUNT LEAST [tentative]
 *
 * tentative: each operation is in place, in two buffers in turn, and its outcome comes with the
 * next one. After a loss it prints "epoch E ended after N final, M taken back", and has checked
 * that the input of these is restored. */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tutti/elastic.h"

static volatile sig_atomic_t asked_to_leave, asked_to_go;

static void on_signal(int sig)
{
    *(sig == SIGTERM ? &asked_to_leave : &asked_to_go) = 1;
}

__attribute__((format(printf, 1, 2), noreturn)) static void wrong(const char *format, ...)
{
    va_list args;

    printf("wrong: ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    exit(4);
}

static void must(tutti_status st, const char *what)
{
    if (!st)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, tutti_status_name(st), tutti_last_error());
    exit(3);
}

static void epoch(tutti_run *run, uint32_t least, tutti_view *view)
{
    tutti_status st;

    do
        st = tutti_run_epoch(run, TUTTI_ADMIT, least, 0, 0, view);
    while (st == TUTTI_ERR_PEER_LOST);
    must(st, "epoch");
}

static void fill(int64_t *v, size_t count, uint64_t id)
{
    v[0] = 1;
    v[1] = (int64_t)id;
    for (size_t i = 2; i < count; i++)
        v[i] = (int64_t)i;
}

static void check(const int64_t *v, size_t count, const tutti_elastic *op, const tutti_view *now)
{
    int64_t ids = 0;

    for (int r = 0; r < now->nranks; r++)
        ids += (int64_t)now->members[r].id;
    if (v[0] != (int64_t)op->contributors)
        wrong("%" PRId64 " contributions", v[0]);
    if (op->epoch == now->epoch && v[1] != ids)
        wrong("ids that sum up to %" PRId64, v[1]);
    for (size_t i = 2; i < count; i++)
        if (v[i] != (int64_t)i * v[0])
            wrong("a value is %" PRId64, v[i]);
}

static void leave_on_signal(tutti_run *run)
{
    static bool leaving;

    if (asked_to_leave && !leaving)
        must(tutti_run_leave(run), "leave");
    leaving |= asked_to_leave != 0;
}

/* Checks, after the epoch ended at operation k, that this operation and possibly the previous one
 * were restored. */
static void check_taken_back(const int64_t *v[2], const tutti_elastic *ops, size_t count,
                             uint64_t id, uint64_t k, uint64_t epoch)
{
    const bool both = k > 0 && ops[(k - 1) % 2].status == TUTTI_ERR_PEER_LOST;

    if (k > 0 && !both && ops[(k - 1) % 2].status != TUTTI_OK)
        wrong("the operation before the one that failed has status %d",
              (int)ops[(k - 1) % 2].status);
    for (uint64_t at = k - both; at <= k; at++)
        for (size_t i = 0; i < count; i++)
            if (v[at % 2][i] != (i == 0 ? 1 : i == 1 ? (int64_t)id : (int64_t)i))
                wrong("an operation was taken back, and its input has the value %" PRId64,
                      v[at % 2][i]);
    printf("epoch %" PRIu64 " ended after %" PRIu64 " final, %d taken back\n", epoch, k - both,
           1 + both);
}

/* Runs operations of one view, until it ends or an update arrives. Each 16th operation is not
 * tentative, and delivers updates. */
static void tentatively(tutti_run *run, const tutti_view *view, size_t count, uint64_t id)
{
    tutti_news news = { .size = sizeof news };
    int64_t *v[2] = { calloc(count, sizeof **v), calloc(count, sizeof **v) };
    tutti_elastic ops[2];
    tutti_status st = TUTTI_OK;

    for (uint64_t k = 0; !st && !news.newcomers && !news.leaving && !news.revoked; k++) {
        tutti_elastic *op = &ops[k % 2];
        const uint64_t before_ns = tt_now_ns();

        leave_on_signal(run);
        *op = (tutti_elastic){ .size = sizeof *op,
                               .coll = TUTTI_ALLREDUCE,
                               .src = v[k % 2],
                               .dst = v[k % 2],
                               .count = count,
                               .type = TUTTI_I64,
                               .tentative = k % 16 != 15 };
        fill(v[k % 2], count, id);
        st = tutti_run_collective(run, op);
        if (st == TUTTI_ERR_PEER_LOST) {
            check_taken_back((const int64_t *[]){ v[0], v[1] }, ops, count, id, k, view->epoch);
            break;
        }
        must(st, "a tentative all-reduce");
        if (op->status != (op->tentative && view->nranks > 1 ? TUTTI_PENDING : TUTTI_OK) ||
            (k > 0 && ops[(k - 1) % 2].status != TUTTI_OK))
            wrong("it has status %d, the one before it %d", (int)op->status,
                  k > 0 ? (int)ops[(k - 1) % 2].status : 0);
        check(v[k % 2], count, op, view);
        if (k % 100 == 0)
            printf("step %" PRIu64 " epoch %" PRIu64 " members %u ms %.1f\n", k, op->epoch,
                   op->contributors, (double)(tt_now_ns() - before_ns) / 1e6);
        must(tutti_run_poll(run, &news), "poll");
    }
    free(v[0]);
    free(v[1]);
}

int main(int argc, char **argv)
{
    const size_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
    const uint32_t least = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 1;
    const bool tentative = argc > 4 && strcmp(argv[4], "tentative") == 0;
    const tutti_run_conf conf = { .size = sizeof conf,
                                  .coordinators = argv[1],
                                  .timeout_ms = getenv("TUTTI_TIMEOUT_MS") ? 0 : 60000,
                                  .tags = 2 };
    tutti_view view = { .size = sizeof view };
    tutti_news news = { .size = sizeof news };
    tutti_run_stats_t stats = { .size = sizeof stats };
    int64_t *v = calloc(count, sizeof *v);
    tutti_run *run;

    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(tutti_run_join(&run, &conf), "join");
    epoch(run, least, &view);
    must(tutti_run_stats(run, &stats), "stats");
    printf("member %" PRIu64 " epoch %" PRIu64 " members %d\n", stats.id, view.epoch, view.nranks);
    while (tentative && view.nranks > 0) {
        tentatively(run, &view, count, stats.id);
        epoch(run, 0, &view);
        printf("view epoch %" PRIu64 " members %d\n", view.epoch, view.nranks);
    }
    for (int k = 0; view.nranks > 0; k++) {
        tutti_elastic op = { .size = sizeof op,
                             .coll = TUTTI_ALLREDUCE,
                             .src = v,
                             .dst = v,
                             .count = count,
                             .type = TUTTI_I64,
                             .mode = TUTTI_RETRY,
                             .tag = (uint32_t)k % 2 };
        uint64_t before_ns;

        leave_on_signal(run);
        fill(v, count, stats.id);
        before_ns = tt_now_ns();
        must(tutti_run_collective(run, &op), "all-reduce");
        must(tutti_run_view(run, &view), "view");
        check(v, count, &op, &view);
        if (op.attempts > 1 || k % 100 == 0)
            printf("step %d epoch %" PRIu64 " members %u ms %.1f\n", k, op.epoch, op.contributors,
                   (double)(tt_now_ns() - before_ns) / 1e6);
        if (asked_to_go) {
            printf("goes after step %d epoch %" PRIu64 "\n", k, op.epoch);
            break;
        }
        must(tutti_run_poll(run, &news), "poll");
        if (news.newcomers || news.leaving || news.revoked) {
            epoch(run, 0, &view);
            k = -1; /* newcomers count from 0, and tags must be equal */
            printf("view epoch %" PRIu64 " members %d\n", view.epoch, view.nranks);
        }
    }
    tutti_run_destroy(run);
    free(v);
    printf("left\n");
    return 0;
}
