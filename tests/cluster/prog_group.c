/* A member of a run with replica groups of two roles (test_elastic.py), until SIGTERM.
 *
 *   prog_group COORDINATORS GROUP ROLE LEAST
 *
 * Each role has a shard of the state. In each step, the members of this role add their
 * contributions to it, by the ring with bounded bytes in flight, in mode TUTTI_RETRY. Then the
 * group's members compare their steps. A group's contribution is the same in each step, so the
 * shard depends only on the number of steps of each group, which is part of the state; every
 * element is checked after every step. A newcomer receives the shard of its role. Prints "view
 * epoch E groups N", "steps N" periodically, and "out" when its group has left the view. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/elastic.h"

#define NUMBERS 50000
#define ROLES 2
#define GROUPS 4

enum { TAG_STEP = 0, TAG_GROUP = 1 };

struct shard {
    uint64_t steps;
    uint64_t parts[GROUPS];     /* number of contributions of each group */
    int64_t sum[NUMBERS];
};

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

static void wrong(const char *what)
{
    fprintf(stderr, "wrong: %s\n", what);
    exit(4);
}

static int64_t contribution(uint32_t group, uint32_t role, size_t i)
{
    return (int64_t)((group + 1) * (i + 1) + role);
}

static void check(const struct shard *s, uint32_t role)
{
    for (size_t i = 0; i < NUMBERS; i++) {
        int64_t expected = 0;

        for (uint32_t k = 0; k < GROUPS; k++)
            expected += (int64_t)s->parts[k] * contribution(k, role, i);
        if (s->sum[i] != expected)
            wrong("the shard is not the sum of what its groups contributed");
    }
}

/* Finds the groups in the view, which contribute to the next step. */
static uint32_t groups_of(tutti_run *run, bool has[GROUPS])
{
    tutti_view view = { .size = sizeof view };
    uint32_t n = 0;

    must(tutti_run_view(run, &view), "view");
    memset(has, 0, GROUPS * sizeof *has);
    for (int r = 0; r < view.nranks; r++) {
        n += !has[view.members[r].group];
        has[view.members[r].group] = true;
    }
    if ((uint32_t)view.nranks != n * ROLES)
        wrong("a group is in the view that is not whole");
    return n;
}

static tutti_status step(tutti_run *run, struct shard *s, uint32_t group, uint32_t role)
{
    static int64_t part[NUMBERS];
    uint64_t all[ROLES] = { 0 };
    bool has[GROUPS];
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = part,
                         .dst = part,
                         .count = NUMBERS,
                         .type = TUTTI_I64,
                         .tag = TAG_STEP,
                         .mode = TUTTI_RETRY,
                         .scope = TUTTI_SCOPE_ROLE,
                         .algo = "ftar" };
    tutti_status st;

    for (size_t i = 0; i < NUMBERS; i++)
        part[i] = contribution(group, role, i);
    st = tutti_run_collective(run, &op);
    if (st)
        return st;
    if (groups_of(run, has) != op.contributors)
        wrong("not as many groups contributed as the view has");
    s->steps++;
    for (uint32_t k = 0; k < GROUPS; k++)
        s->parts[k] += has[k];
    for (size_t i = 0; i < NUMBERS; i++)
        s->sum[i] += part[i];
    check(s, role);
    op = (tutti_elastic){ .size = sizeof op,
                          .coll = TUTTI_ALLGATHER,
                          .src = &s->steps,
                          .dst = all,
                          .count = 1,
                          .type = TUTTI_U64,
                          .tag = TAG_GROUP,
                          .mode = TUTTI_RETRY,
                          .scope = TUTTI_SCOPE_GROUP };
    st = tutti_run_collective(run, &op);
    for (uint32_t k = 0; k < ROLES && !st; k++)
        if (all[k] != s->steps)
            wrong("the roles of a group are not at one step");
    return st;
}

/* Steps until an update arrives. */
static tutti_status train(tutti_run *run, struct shard *s, tutti_state *shared, uint32_t group,
                          uint32_t role)
{
    bool gave_notice = false;
    tutti_news news = { .size = sizeof news };
    tutti_status st = tutti_run_sync(run, shared, 0);

    if (!st)
        check(s, role);
    while (!st && !news.newcomers && !news.leaving && !news.revoked) {
        if (asked_to_leave && !gave_notice)
            gave_notice = tutti_run_leave(run) == TUTTI_OK;
        st = step(run, s, group, role);
        if (!st)
            must(tutti_run_poll(run, &news), "poll");
        if (!st && s->steps % 20 == 0)
            printf("steps %" PRIu64 "\n", s->steps);
    }
    return st;
}

int main(int argc, char **argv)
{
    static struct shard s;
    const uint32_t group = argc > 4 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0,
                   role = argc > 4 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0,
                   least = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    const tutti_run_conf conf = { .size = sizeof conf,
                                  .coordinators = argv[1],
                                  .group = group,
                                  .role = role,
                                  .nroles = ROLES,
                                  .tags = 2,
                                  .timeout_ms = 60000 };
    tutti_array arrays[] = {
        { .size = sizeof *arrays, .name = "counts", .data = &s, .count = 1 + GROUPS, .type = TUTTI_U64 },
        { .size = sizeof *arrays, .name = "shard", .data = s.sum, .count = NUMBERS, .type = TUTTI_I64 },
    };
    tutti_state shared = {
        .size = sizeof shared, .arrays = arrays, .narrays = 2, .scope = TUTTI_SYNC_ROLE
    };
    tutti_view view = { .size = sizeof view };
    tutti_run *run;
    bool first = true;

    if (argc != 5 || group >= GROUPS || role >= ROLES) {
        fprintf(stderr, "usage: prog_group COORDINATORS GROUP ROLE LEAST\n");
        return 2;
    }
    signal(SIGTERM, on_term);
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(tutti_run_join(&run, &conf), "join");
    for (;;) {
        tutti_status st;

        st = tutti_run_epoch(run, TUTTI_ADMIT, first ? least : 0, 0, 0, &view);
        if (!st && view.nranks == 0)
            break;
        if (!st) {
            first = false;
            printf("view epoch %" PRIu64 " groups %d\n", view.epoch, view.nranks / ROLES);
            st = train(run, &s, &shared, group, role);
        }
        if (st != TUTTI_OK && st != TUTTI_ERR_PEER_LOST)
            must(st, "training");
        if (st == TUTTI_ERR_PEER_LOST && strstr(tutti_last_error(), "became incomplete"))
            printf("out\n");
    }
    printf("left\n");
    tutti_run_destroy(run);
    return 0;
}
