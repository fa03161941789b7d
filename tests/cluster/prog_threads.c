/* A member of a run in which several threads reduce concurrently, each on a separate tag
 * (test_elastic.py). Start order and pauses are random on each member, so operations of different
 * tags overlap in any order.
 *
 *   prog_threads COORDINATORS LEAST THREADS OPERATIONS SEED DIES
 *
 * Operation k of thread t sums {1, id, t, k, ...}. So the result shows the contributors, and a
 * message delivered to another operation would be detected. Each is retried until it is FINAL. With
 * DIES 1 the process kills itself when each of its threads has done half of its operations; other
 * threads may be anywhere in the second half. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/prng.h"
#include "tutti/elastic.h"

#define THREADS_MAX 8
#define NUMBERS 3000
#define MEMBERS_MAX 8

struct worker {
    tutti_run *run;
    uint32_t tag, noperations;
    uint64_t seed, id;
    uint32_t nids;              /* in its first view */
    uint64_t ids[MEMBERS_MAX];
    atomic_uint *to_half;       /* number of threads that have not done half of their operations */
    bool dies;
    pthread_t thread;
};

static void must(tutti_status st, const char *what)
{
    if (!st)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, tutti_status_name(st), tutti_last_error());
    exit(3);
}

static void wrong(const struct worker *w, uint32_t k, const char *what)
{
    fprintf(stderr, "wrong: tag %" PRIu32 ", operation %" PRIu32 ": %s\n", w->tag, k, what);
    exit(4);
}

/* Returns whether `ids` is the sum of n different initial members. */
static bool is_sum_of(const struct worker *w, uint64_t n, uint64_t ids)
{
    for (uint32_t set = 0; set < 1u << w->nids; set++) {
        uint64_t members = 0, sum = 0;

        for (uint32_t r = 0; r < w->nids; r++)
            if (set & 1u << r) {
                members++;
                sum += w->ids[r];
            }
        if (members == n && sum == ids)
            return true;
    }
    return false;
}

static void reduce(struct worker *w, uint32_t k, struct tt_prng *prng)
{
    /* equal on all members */
    const size_t n = 4 + (size_t)tt_mix64(w->tag * 1000 + k) % (NUMBERS - 4);
    uint64_t v[NUMBERS] = { 1, w->id, w->tag, k };
    tutti_elastic op = { .size = sizeof op,
                         .coll = TUTTI_ALLREDUCE,
                         .src = v,
                         .dst = v,
                         .count = n,
                         .type = TUTTI_U64,
                         .mode = TUTTI_RETRY,
                         .tag = w->tag };

    for (size_t i = 4; i < n; i++)
        v[i] = w->tag * 1000 + k + i;
    if (tt_prng_below(prng, 4) == 0)
        nanosleep(&(struct timespec){ .tv_nsec = (long)tt_prng_below(prng, 1000000) }, NULL);
    must(tutti_run_collective(w->run, &op), "all-reduce");
    if (v[0] != op.contributors || !is_sum_of(w, v[0], v[1]))
        wrong(w, k, "it is not the sum of those who contributed");
    if (v[2] != v[0] * w->tag || v[3] != v[0] * k)
        wrong(w, k, "it has parts of another operation");
    for (size_t i = 4; i < n; i++)
        if (v[i] != v[0] * (w->tag * 1000 + k + i))
            wrong(w, k, "a number is not the sum of its parts");
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct tt_prng prng;

    tt_prng_init(&prng, w->seed);
    for (uint32_t k = 0; k < w->noperations; k++) {
        reduce(w, k, &prng);
        if (k == w->noperations / 2 && atomic_fetch_sub(w->to_half, 1) == 1 && w->dies)
            raise(SIGKILL);
    }
    return NULL;
}

/* Random order. */
static void shuffle(uint32_t *tags, uint32_t n, struct tt_prng *prng)
{
    for (uint32_t i = 0; i < n; i++)
        tags[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t j = (uint32_t)tt_prng_below(prng, i), was = tags[i - 1];

        tags[i - 1] = tags[j];
        tags[j] = was;
    }
}

static void run_threads(tutti_run *run, const tutti_view *view, uint32_t n, uint32_t noperations,
                        uint64_t seed, bool dies)
{
    struct worker workers[THREADS_MAX];
    uint32_t tags[THREADS_MAX];
    atomic_uint to_half = n;
    struct tt_prng prng;

    tt_prng_init(&prng, seed);
    shuffle(tags, n, &prng);
    for (uint32_t i = 0; i < n; i++) {
        struct worker *w = &workers[i];

        *w = (struct worker){ .run = run,
                              .tag = tags[i],
                              .noperations = noperations,
                              .seed = tt_prng_u64(&prng),
                              .id = view->members[view->rank].id,
                              .nids = (uint32_t)view->nranks,
                              .to_half = &to_half,
                              .dies = dies };
        for (int r = 0; r < view->nranks; r++)
            w->ids[r] = view->members[r].id;
    }
    for (uint32_t i = 0; i < n; i++) /* only now, because the first of them may change the view */
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            exit(1);
    for (uint32_t i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
}

int main(int argc, char **argv)
{
    const uint32_t least = argc > 6 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0,
                   nthreads = argc > 6 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0,
                   noperations = argc > 6 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    const tutti_run_conf conf = {
        .size = sizeof conf, .coordinators = argv[1], .timeout_ms = 60000, .tags = (int32_t)nthreads
    };
    tutti_view view = { .size = sizeof view };
    tutti_run *run;
    uint64_t flags;

    if (argc != 7 || nthreads == 0 || nthreads > THREADS_MAX || least > MEMBERS_MAX) {
        fprintf(stderr, "usage: prog_threads COORDINATORS LEAST THREADS OPERATIONS SEED DIES\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(tutti_run_join(&run, &conf), "join");
    must(tutti_run_epoch(run, TUTTI_ADMIT, least, least, 0, &view), "epoch");
    printf("members %d\n", view.nranks);
    run_threads(run, &view, nthreads, noperations, strtoull(argv[5], NULL, 10), argv[6][0] == '1');
    /* no member leaves before all have finished */
    if (tutti_run_agree(run, 1, 0, &flags) == TUTTI_ERR_PEER_LOST)
        puts("somebody was lost after the last operation");
    must(tutti_run_view(run, &view), "view");
    printf("done, members %d\n", view.nranks);
    tutti_run_destroy(run);
    return 0;
}
