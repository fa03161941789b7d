/* A member of a run with constantly changing membership (test_churn.py).
 *
 *   prog_churn COORDINATOR LOG     trains until SIGTERM (then leaves with notice), and writes a
 *                                  line to LOG for each committed step
 *
 * The state is a step number, a vector of wrapping sums, and sums of averages. In a step every
 * member contributes vectors that depend only on its id and the step (churn.h). Each member checks
 * every element of every result against the reported contributors. test_churn.py compares the state
 * after each step with a serial reference. Beside a batch of three reductions another thread runs a
 * quantized one with error feedback, on a separate tag. From time to time the order of the ring is
 * optimized, blocking or in the background. LOG has a line for each: whether another order was
 * adopted at once, and the number of members. Exit status: 0: left; 3: the run continued without it
 * (it was stopped for too long); 1: an error, which is printed. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "churn.h"
#include "tutti/elastic.h"

#define WEIGHTS 65536
#define STEPS_AT_MOST 50        /* between two epochs */
#define RETRY_EVERY 4
#define OPTIMIZE_EVERY 32
#define OPTIMIZE_WAITING 2      /* step in each interval for a blocking optimization */
#define OPTIMIZE_BEHIND 18      /* the same, for one in the background */

enum { OPS = 3, BUCKETS = 4, BUCKET = NUMBERS / BUCKETS, SMALL = 8, SMALL_ONES = 12 };
enum { TAG_RETRY = 0, TAG_STEP = 1, TAG_QUANTIZED = TAG_STEP + OPS, TAG_BUCKETS, TAG_SMALL, TAGS };

struct state {
    uint64_t steps;             /* number of committed steps; 0: none known yet */
    uint64_t sum[NUMBERS];
    double averaged[NUMBERS], quantized[NUMBERS];   /* sums of averages; `quantized`: of quantized
                                                       ones */
};

/* A quantized reduction in a separate thread. */
struct quantized {
    tutti_run *run;
    tutti_elastic op;
    tutti_status status;
    char why[200];
    float mine[NUMBERS], average[NUMBERS];
    float residual[NUMBERS], before[NUMBERS];
};

struct trainer {
    tutti_run *run;
    FILE *log;
    struct state state;
    tutti_array arrays[4];
    tutti_state shared;
    uint64_t epoch;
    uint64_t mine[NUMBERS], sum[NUMBERS];
    float weights[WEIGHTS], average[WEIGHTS];
    uint8_t flags[64], all_flags[64];
    uint64_t parts[NUMBERS];
    tutti_elastic buckets[BUCKETS];     /* reductions of parts, each tentative */
    size_t nbuckets;                    /* number of buckets started and not yet checked after
                                           their outcome */
    struct quantized quantized;
};

static volatile sig_atomic_t stopping;

static void on_stop(int signal)
{
    (void)signal;
    stopping = 1;
}

static void wrong(const char *what)
{
    fprintf(stderr, "prog_churn: %s (%s)\n", what, tutti_last_error());
    exit(1);
}

/* Returns whether this member is out of the run: the next call of a lost member reports that. A
 * member that gets no reply from any coordinator in time leaves by itself. */
static bool is_out(tutti_status st)
{
    return st == TUTTI_ERR_ABORTED || st == TUTTI_ERR_TIMEOUT;
}

/* ---- results ---- */

static void check_numbers(const tutti_view *view, const uint64_t *sum, uint64_t step)
{
    for (size_t i = 0; i < NUMBERS; i++) {
        uint64_t expected = 0;

        for (int32_t r = 0; r < view->nranks; r++)
            expected += churn_number(view->members[r].id, step, i);
        if (sum[i] != expected)
            wrong("a sum is not that of the members of its view");
    }
}

static void check_weights(const tutti_view *view, const float *average, uint64_t step)
{
    double expected = 0;

    for (int32_t r = 0; r < view->nranks; r++)
        expected += (double)churn_weight(view->members[r].id, step);
    expected /= view->nranks;
    for (size_t i = 0; i < WEIGHTS; i++)
        if ((double)average[i] > expected * 1.00001 + 1e-5 ||
            (double)average[i] < expected * 0.99999 - 1e-5)
            wrong("an average is not that of the members of its view");
}

static void check_quantized(const tutti_view *view, const float *average, uint64_t step)
{
    const double bound = churn_quantized_bound((size_t)view->nranks);
    double expected = 0;

    for (int32_t r = 0; r < view->nranks; r++)
        expected += (double)churn_weight(view->members[r].id, step);
    expected /= view->nranks;
    for (size_t i = 0; i < NUMBERS; i++) {
        const double here = expected + (double)(i % RAMP);

        if (!((double)average[i] <= here + bound && (double)average[i] >= here - bound))
            wrong("a quantized average is farther from that of the members of its view than it may "
                  "be");
    }
}

/* ---- one step ---- */

static tutti_elastic reduction(const void *src, void *dst, size_t count, tutti_dtype type,
                               tutti_redop op)
{
    return (tutti_elastic){ .size = sizeof(tutti_elastic),
                            .coll = TUTTI_ALLREDUCE,
                            .src = src,
                            .dst = dst,
                            .count = count,
                            .type = type,
                            .op = op };
}

/* Writes a hash of the sums, which the serial reference also computes; a hash of all averages,
 * which is equal on all members; and PLACES averages of each kind. */
static void write_line(struct trainer *t, const tutti_view *view)
{
    const struct state *s = &t->state;
    const uint64_t averages = tt_hash_bytes(s->quantized, sizeof s->quantized,
                                            tt_hash_bytes(s->averaged, sizeof s->averaged, 0));

    fprintf(t->log, "step %" PRIu64 " %" PRIu64 " %016" PRIx64 " %016" PRIx64, s->steps, t->epoch,
            churn_hash(s->steps, s->sum), averages);
    for (size_t k = 0; k < PLACES; k++)
        fprintf(t->log, " %a", s->averaged[churn_places[k]]);
    for (size_t k = 0; k < PLACES; k++)
        fprintf(t->log, " %a", s->quantized[churn_places[k]]);
    for (int32_t r = 0; r < view->nranks; r++)
        fprintf(t->log, " %" PRIu64, view->members[r].id);
    fprintf(t->log, "\n");
    fflush(t->log);
}

/* Reduces the numbers of t->sum, in place and bucket by bucket. Each outcome is returned by the
 * next call: reduction, commit or epoch. */
static tutti_status reduce_buckets(struct trainer *t)
{
    tutti_status st = TUTTI_OK;

    memcpy(t->parts, t->mine, sizeof t->parts);
    for (t->nbuckets = 0; t->nbuckets < BUCKETS && !st; t->nbuckets++) {
        uint64_t *at = t->parts + t->nbuckets * BUCKET;
        tutti_elastic *op = &t->buckets[t->nbuckets];

        *op = reduction(at, at, BUCKET, TUTTI_U64, TUTTI_SUM);
        op->tag = TAG_BUCKETS;
        op->tentative = 1;
        st = tutti_run_collective(t->run, op);
    }
    return st;
}

/* Checks that all have their outcomes: the first ones are final, and later ones have their input
 * restored. */
static void check_buckets(struct trainer *t, bool all_final)
{
    bool final = true;

    for (size_t b = 0; b < t->nbuckets; b++) {
        const uint64_t *expected =
            (t->buckets[b].status == TUTTI_OK ? t->sum : t->mine) + b * BUCKET;

        if (t->buckets[b].status != TUTTI_OK && t->buckets[b].status != TUTTI_ERR_PEER_LOST)
            wrong("a tentative operation has neither of the two outcomes");
        if (t->buckets[b].status == TUTTI_OK && !final)
            wrong("a tentative operation is final after one that is not");
        final &= t->buckets[b].status == TUTTI_OK;
        if (memcmp(t->parts + b * BUCKET, expected, BUCKET * sizeof *expected) != 0)
            wrong("a tentative operation has other numbers than its outcome says");
    }
    if (all_final && !final)
        wrong("a step is committed, and not all that was tentative is final");
    t->nbuckets = 0;
}

/* Reduces some numbers of t->sum repeatedly, in place. A member continues as soon as it has the
 * result. */
static tutti_status reduce_small(struct trainer *t)
{
    tutti_status st = TUTTI_OK;

    for (int k = 0; k < SMALL_ONES && !st; k++) {
        uint64_t v[SMALL];
        tutti_elastic op = reduction(v, v, SMALL, TUTTI_U64, TUTTI_SUM);

        memcpy(v, t->mine, sizeof v);
        op.tag = TAG_SMALL;
        st = tutti_run_collective(t->run, &op);
        if (memcmp(v, st ? t->mine : t->sum, sizeof v) != 0)
            wrong("a small operation has other numbers than its outcome says");
    }
    return st;
}

static void *reduce_quantized(void *arg)
{
    struct quantized *q = arg;

    q->status = tutti_run_collective(q->run, &q->op);
    snprintf(q->why, sizeof q->why, "%s", tutti_last_error());
    return NULL;
}

static pthread_t start_quantized(struct trainer *t, const tutti_view *view, uint64_t n)
{
    struct quantized *q = &t->quantized;
    pthread_t thread;

    for (size_t i = 0; i < NUMBERS; i++)
        q->mine[i] = churn_quantized(view->members[view->rank].id, n, i);
    memcpy(q->before, q->residual, sizeof q->before);
    q->run = t->run;
    q->op = reduction(q->mine, q->average, NUMBERS, TUTTI_F32, TUTTI_AVG);
    q->op.quant = TUTTI_QUANT_MINMAX_U8;
    q->op.error_feedback = q->residual;
    q->op.tag = TAG_QUANTIZED;
    if (pthread_create(&thread, NULL, reduce_quantized, q) != 0)
        wrong("no thread");
    return thread;
}

static tutti_status finish_quantized(struct trainer *t, pthread_t thread)
{
    const struct quantized *q = &t->quantized;

    pthread_join(thread, NULL);
    if (q->status && memcmp(q->residual, q->before, sizeof q->before) != 0)
        wrong("an operation failed, and its error feedback is not what it was");
    if (q->status && q->status != TUTTI_ERR_PEER_LOST && !is_out(q->status))
        wrong(q->why);
    return q->status;
}

/* Gets the view; ABORTED if this member is not in it, as its next call would report. */
static tutti_status look(const struct trainer *t, tutti_view *view)
{
    const tutti_status st = tutti_run_view(t->run, view);

    return !st && view->rank < 0 ? TUTTI_ERR_ABORTED : st;
}

/* Starts four reductions concurrently, and then runs others one by one; all have one outcome.
 * Returns OK if the next step may follow, whether or not this one is committed; otherwise the epoch
 * is over. */
static tutti_status step(struct trainer *t)
{
    const uint64_t n = t->state.steps + 1;
    tutti_view view = { .size = sizeof view };
    tutti_elastic ops[OPS];
    tutti_status st, quantized;
    pthread_t thread;
    int outcome = 0;

    st = look(t, &view);
    if (st)
        return st;
    for (size_t i = 0; i < NUMBERS; i++)
        t->mine[i] = churn_number(view.members[view.rank].id, n, i);
    for (size_t i = 0; i < WEIGHTS; i++)
        t->weights[i] = churn_weight(view.members[view.rank].id, n);
    memset(t->flags, 1, sizeof t->flags);
    memcpy(t->sum, t->mine, sizeof t->sum);
    ops[0] = reduction(t->sum, t->sum, NUMBERS, TUTTI_U64, TUTTI_SUM);     /* in place */
    ops[1] = reduction(t->weights, t->average, WEIGHTS, TUTTI_F32, TUTTI_AVG);
    ops[1].algo = "ftar";
    ops[2] = reduction(t->flags, t->all_flags, sizeof t->flags, TUTTI_U8, TUTTI_SUM);
    thread = start_quantized(t, &view, n);
    st = tutti_run_batch(t->run, ops, OPS, TAG_STEP, OPS);
    quantized = finish_quantized(t, thread);
    if (ops[0].status != TUTTI_OK && memcmp(t->sum, t->mine, sizeof t->sum) != 0)
        wrong("an operation failed, and its input is not what it was");
    if (st || quantized)
        return st ? st : quantized;
    check_quantized(&view, t->quantized.average, n);
    check_numbers(&view, t->sum, n);
    check_weights(&view, t->average, n);
    if (t->all_flags[0] != view.nranks)
        wrong("not as many members as the view has");
    st = reduce_small(t);
    if (!st)
        st = reduce_buckets(t);
    if (!st)
        st = tutti_run_commit(t->run, 1, 0, &outcome);
    if (st)
        return st;
    check_buckets(t, outcome);
    if (outcome) {
        t->state.steps = n;
        for (size_t i = 0; i < NUMBERS; i++) {
            t->state.sum[i] += t->sum[i];
            t->state.averaged[i] += (double)t->average[i];
            t->state.quantized[i] += (double)t->quantized.average[i];
        }
        write_line(t, &view);
    }
    return outcome ? TUTTI_OK : TUTTI_ERR_PEER_LOST;
}

/* Runs an operation that is retried with the remaining members, and checks its result against its
 * contributors. */
static tutti_status retried(struct trainer *t)
{
    const uint64_t n = 1000000 + t->state.steps;
    tutti_view view = { .size = sizeof view };
    tutti_elastic op = reduction(t->mine, t->sum, NUMBERS, TUTTI_U64, TUTTI_SUM);
    tutti_status st = look(t, &view);

    if (st)
        return st;
    for (size_t i = 0; i < NUMBERS; i++)
        t->mine[i] = churn_number(view.members[view.rank].id, n, i);
    op.mode = TUTTI_RETRY;
    op.tag = TAG_RETRY;
    st = tutti_run_collective(t->run, &op);
    if (!st)
        st = look(t, &view);
    if (st)
        return st;
    if (op.contributors != (uint32_t)view.nranks)
        wrong("others contributed than the view has");
    check_numbers(&view, t->sum, n);
    t->epoch = view.epoch;
    return TUTTI_OK;
}

/* ---- the order of the ring ---- */

/* Checks that `after` has no new members, and with `all`, that none is missing. */
static void check_order(const tutti_view *before, const tutti_view *after, bool all)
{
    if (after->nranks > before->nranks || (all && after->nranks != before->nranks))
        wrong("another order has other members");
    for (int32_t r = 0; r < after->nranks; r++) {
        bool was = false;

        for (int32_t k = 0; k < before->nranks && !was; k++)
            was = before->members[k].id == after->members[r].id;
        for (int32_t k = 0; k < r; k++)
            was &= after->members[k].id != after->members[r].id;
        if (!was)
            wrong("another order has other members, or one twice");
    }
}

/* Checks that an adopted order starts an epoch and is predicted to be faster, unless some link of
 * the old order could not be measured. Otherwise the order must be unchanged. */
static void check_gain(const tutti_view *before, const tutti_view *after, const tutti_ring *ring)
{
    const bool good = ring->adopted ? after->epoch > before->epoch &&
                                          (ring->was_ns == 0 || ring->now_ns < ring->was_ns)
                                    : after->epoch == before->epoch && ring->now_ns == ring->was_ns;

    if (good)
        return;
    fprintf(stderr,
            "adopted: %d; predicted before and now: %" PRIu64 " and %" PRIu64 " ns; epochs %" PRIu64
            " and %" PRIu64 ", of %d and %d members\n",
            ring->adopted, ring->was_ns, ring->now_ns, before->epoch, after->epoch, before->nranks,
            after->nranks);
    wrong("what is said of an order that was found, or was not, is not so");
}

/* On a single machine all orders are similar. Therefore every gain counts, and its cost is
 * ignored. */
static tutti_status optimize(struct trainer *t, bool background)
{
    tutti_ring ring = { .size = sizeof ring,
                        .steps = 1000000000,
                        .gain_percent = 1,
                        .burst_ms = 10,
                        .background = background };
    tutti_member members[MEMBERS_MAX];
    tutti_view before = { .size = sizeof before }, after = { .size = sizeof after };
    tutti_status st = look(t, &before);

    if (st)
        return st;
    if (before.nranks > MEMBERS_MAX)
        wrong("more members than there may be");
    memcpy(members, before.members, (size_t)before.nranks * sizeof *members);
    before.members = members; /* pointers into the run are valid only until the next view */
    st = tutti_run_optimize(t->run, &ring, 0, background ? NULL : &after);
    if (st)
        return st;
    if (!background) {
        check_order(&before, &after, !ring.adopted);
        check_gain(&before, &after, &ring);
        t->epoch = after.epoch;
    }
    fprintf(t->log, "%s %d of %d\n", background ? "behind" : "waited", ring.adopted, before.nranks);
    fflush(t->log);
    return TUTTI_OK;
}

/* ---- state transfer to newcomers ---- */

/* Checks the result of a sync: only a later state may replace that of a member that has trained. */
static tutti_status share(struct trainer *t)
{
    const struct state before = t->state;
    const tutti_status st = tutti_run_sync(t->run, &t->shared, 0);

    if ((st || !t->shared.received) && memcmp(&before, &t->state, sizeof before) != 0)
        wrong("a state was overwritten that nobody received");
    if (st || before.steps == 0)
        return st;
    if (t->state.steps < before.steps || (t->state.steps == before.steps && t->shared.received))
        wrong("the state of a member that has one was taken from it");
    return TUTTI_OK;
}

/* Runs between two steps; the same on all members, because all have committed the same steps. */
static tutti_status between(struct trainer *t)
{
    const uint64_t at = t->state.steps % OPTIMIZE_EVERY;

    if (at == OPTIMIZE_WAITING || at == OPTIMIZE_BEHIND)
        return optimize(t, at == OPTIMIZE_BEHIND);
    return t->state.steps % RETRY_EVERY ? TUTTI_OK : retried(t);
}

/* Steps until an update arrives. All members get the same updates at the same step. */
static tutti_status train(struct trainer *t)
{
    tutti_news news = { .size = sizeof news };
    tutti_status st = share(t);

    for (int i = 0; i < STEPS_AT_MOST && !st; i++) {
        st = between(t);
        if (!st)
            st = step(t);
        if (!st)
            st = tutti_run_poll(t->run, &news);
        if (!st && (news.newcomers || news.lost || news.leaving || news.revoked || news.better))
            break;
    }
    return st;
}

static int live(struct trainer *t)
{
    tutti_view view = { .size = sizeof view };
    bool gave_notice = false;

    for (;;) {
        tutti_status st;

        if (stopping && !gave_notice)
            gave_notice = tutti_run_leave(t->run) == TUTTI_OK;
        st = tutti_run_epoch(t->run, TUTTI_ADMIT, 0, 0, 0, &view);
        if (!st && view.nranks == 0)
            return 0;
        t->epoch = view.epoch;
        if (!st)
            check_buckets(t, false);
        if (!st)
            st = train(t);
        if (is_out(st))
            return 3;
        if (st && st != TUTTI_ERR_PEER_LOST)
            wrong("a call failed");
    }
}

static void describe(struct trainer *t)
{
    t->arrays[0] = (tutti_array){ .size = sizeof(tutti_array),
                                  .name = "steps",
                                  .data = &t->state.steps,
                                  .count = 1,
                                  .type = TUTTI_U64 };
    t->arrays[1] = (tutti_array){ .size = sizeof(tutti_array),
                                  .name = "sum",
                                  .data = t->state.sum,
                                  .count = NUMBERS,
                                  .type = TUTTI_U64 };
    t->arrays[2] = (tutti_array){ .size = sizeof(tutti_array),
                                  .name = "averaged",
                                  .data = t->state.averaged,
                                  .count = NUMBERS,
                                  .type = TUTTI_F64 };
    t->arrays[3] = (tutti_array){ .size = sizeof(tutti_array),
                                  .name = "quantized",
                                  .data = t->state.quantized,
                                  .count = NUMBERS,
                                  .type = TUTTI_F64 };
    t->shared = (tutti_state){ .size = sizeof t->shared, .arrays = t->arrays, .narrays = 4 };
}

int main(int argc, char **argv)
{
    static struct trainer t;
    const struct sigaction stop = { .sa_handler = on_stop };
    const tutti_run_conf conf = { .size = sizeof conf, .coordinators = argc > 1 ? argv[1] : NULL };
    int status;

    if (argc != 3) {
        fprintf(stderr, "usage: prog_churn COORDINATOR LOG\n");
        return 2;
    }
    sigaction(SIGTERM, &stop, NULL);
    t.log = fopen(argv[2], "w");
    if (!t.log) {
        perror(argv[2]);
        return 1;
    }
    describe(&t);
    if (tutti_run_join(&t.run, &conf))
        wrong("it could not join");
    puts("joined");
    fflush(stdout);
    status = live(&t);
    tutti_run_destroy(t.run);
    fclose(t.log);
    return status;
}
