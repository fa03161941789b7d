/* A member of an elastic run that reduces until it is told to leave (SIGTERM), and checks every number: each member contributes 1, its id, and a
 * ramp of `count` values. Prints a line "step K epoch E members N ms T" for each operation that took part of a change, and every 100th.
 *
 * prog_member COORDINATORS COUNT LEAST */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tutti/elastic.h"

static volatile sig_atomic_t asked_to_leave;

static void on_term(int sig)
{
    (void)sig;
    asked_to_leave = 1;
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
    if (v[0] != (int64_t)op->contributors || (op->epoch == now->epoch && v[1] != ids)) {
        printf("wrong: %" PRId64 " contributions, ids %" PRId64 "; %u and %" PRId64 " expected\n", v[0], v[1], op->contributors, ids);
        exit(4);
    }
    for (size_t i = 2; i < count; i++)
        if (v[i] != (int64_t)i * v[0]) {
            printf("wrong: value %zu is %" PRId64 "\n", i, v[i]);
            exit(4);
        }
}

int main(int argc, char **argv)
{
    const size_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
    const uint32_t least = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 1;
    const tutti_run_conf conf = { .size = sizeof conf, .coordinators = argv[1], .timeout_ms = 60000, .tags = 2 };
    tutti_view view = { .size = sizeof view };
    tutti_news news = { .size = sizeof news };
    tutti_run_stats_t stats = { .size = sizeof stats };
    int64_t *v = calloc(count, sizeof *v);
    tutti_run *run;
    bool leaving = false;

    signal(SIGTERM, on_term);
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(tutti_run_join(&run, &conf), "join");
    epoch(run, least, &view);
    must(tutti_run_stats(run, &stats), "stats");
    printf("member %" PRIu64 " epoch %" PRIu64 " members %d\n", stats.id, view.epoch, view.nranks);
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

        if (asked_to_leave && !leaving)
            must(tutti_run_leave(run), "leave");
        leaving |= asked_to_leave != 0;
        fill(v, count, stats.id);
        before_ns = tt_now_ns();
        must(tutti_run_collective(run, &op), "all-reduce");
        must(tutti_run_view(run, &view), "view");
        check(v, count, &op, &view);
        if (op.attempts > 1 || k % 100 == 0)
            printf("step %d epoch %" PRIu64 " members %u ms %.1f\n", k, op.epoch, op.contributors,
                   (double)(tt_now_ns() - before_ns) / 1e6);
        must(tutti_run_poll(run, &news), "poll");
        if (news.newcomers || news.leaving || news.revoked) {
            epoch(run, 0, &view);
            k = -1; /* newcomers begin to count, too: tags are alike */
            printf("view epoch %" PRIu64 " members %d\n", view.epoch, view.nranks);
        }
    }
    tutti_run_destroy(run);
    free(v);
    printf("left\n");
    return 0;
}
