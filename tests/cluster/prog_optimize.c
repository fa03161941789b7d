/* A member of an elastic run that optimizes the order of the ring until it is as expected, because
 * measurements on a busy machine vary. Prints "joined ID", then "order ID ID ...", and "right"
 * after a correct all-reduce in that order. In the background variant it reduces meanwhile, and
 * updates report that a better order is available.
 *
 * prog_optimize COORDINATORS wait|background ROLES SEAT ID...
 *
 * ID...: the members in the expected order. With ROLES above 1 this is role SEAT % ROLES of replica
 * group SEAT / ROLES, and reduces with members of its role. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/elastic.h"

#define TIMES 100
#define STEPS 100      /* in the background, before the next measurement */
#define COUNT (1u << 18) /* 2 MiB: long enough that the optimized ring is used */

static void must(tutti_status st, const char *what)
{
    if (!st)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, tutti_status_name(st), tutti_last_error());
    exit(3);
}

static void reduce(tutti_run *run, int64_t *v, size_t count)
{
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = v,
                         .dst = v,
                         .count = count,
                         .type = TUTTI_I64,
                         .scope = TUTTI_SCOPE_ROLE };

    must(tutti_run_collective(run, &op), "all-reduce");
}

/* All members do the same, because updates are equal on all. */
static void optimize(tutti_run *run, bool background, tutti_view *view)
{
    tutti_ring ring = { .size = sizeof ring, .background = background };
    tutti_news news = { .size = sizeof news };
    int64_t one = 1;

    if (!background) {
        must(tutti_run_optimize(run, &ring, 0, view), "optimize");
        return;
    }
    must(tutti_run_optimize(run, &ring, 0, NULL), "optimize");
    for (int step = 0; step < STEPS && !news.better; step++) {
        reduce(run, &one, 1);
        one = 1;
        must(tutti_run_poll(run, &news), "poll");
    }
    if (news.better)
        must(tutti_run_epoch(run, 0, 0, 0, 0, view), "epoch");
}

static bool is_expected(const tutti_view *view, char **ids)
{
    bool same = true;

    for (int r = 0; r < view->nranks; r++)
        same &= view->members[r].id == strtoull(ids[r], NULL, 10);
    return same;
}

static void show(const tutti_view *view)
{
    printf("order");
    for (int r = 0; r < view->nranks; r++)
        printf(" %" PRIu64, view->members[r].id);
    printf("\n");
}

static void check(tutti_run *run, const tutti_view *view, int roles)
{
    const int64_t n = view->nranks / roles;
    int64_t *v = malloc(COUNT * sizeof *v), ranks = 0;

    if (!v)
        exit(3);
    for (int r = view->rank % roles; r < view->nranks; r += roles)
        ranks += r;
    for (int64_t i = 0; i < COUNT; i++)
        v[i] = i + view->rank;
    reduce(run, v, COUNT);
    for (int64_t i = 0; i < COUNT; i++)
        if (v[i] != n * i + ranks) {
            printf("wrong: value %" PRId64 " is %" PRId64 "\n", i, v[i]);
            exit(4);
        }
    free(v);
    printf("right\n");
}

int main(int argc, char **argv)
{
    const uint32_t members = argc > 5 ? (uint32_t)argc - 5 : 0,
                   roles = members ? (uint32_t)atoi(argv[3]) : 0,
                   seat = members ? (uint32_t)atoi(argv[4]) : 0;
    tutti_run_conf conf = {
        .size = sizeof conf, .coordinators = argv[1], .timeout_ms = 60000, .insecure = 1, .tags = 2
    };
    tutti_run_stats_t stats = { .size = sizeof stats };
    tutti_view view = { .size = sizeof view };
    uint64_t all;
    tutti_run *run;

    if (members < 2 || roles == 0)
        return 2;
    conf.group = seat / roles;
    conf.role = seat % roles;
    conf.nroles = roles;
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(tutti_run_join(&run, &conf), "join");
    must(tutti_run_stats(run, &stats), "stats");
    printf("joined %" PRIu64 "\n", stats.id);
    must(tutti_run_epoch(run, TUTTI_ADMIT, members, members, 0, &view), "epoch");
    for (int times = 0; times < TIMES && !is_expected(&view, argv + 5); times++)
        optimize(run, strcmp(argv[2], "background") == 0, &view);
    show(&view);
    check(run, &view, (int)roles);
    must(tutti_run_agree(run, 1, 0, &all), "agree"); /* no member leaves before all have their
                                                        sums */
    tutti_run_destroy(run);
    return 0;
}
