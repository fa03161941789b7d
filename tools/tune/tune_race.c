#include "tools/tune/tune_race.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "comm/comm.h"
#include "comm/tuner.h"
#include "tools/perf/perf_measure.h"

#define SAMPLE_US 3000.0        /* time of a candidate per round, unless one call takes longer */
#define ITERS_MIN 2
#define ITERS_MAX 200
#define FAR_BEHIND 1.5          /* slower candidates are dropped: factor of the best time */
/* number of the best algorithms that are also tried with other segment settings */
#define VARIED 3
#define SEGMENT_MIN 4096u
#define SEGMENT_MAX (4u << 20)

/* ---- candidates ---- */

static struct tt_tune_conf conf_of(const tutti_comm *comm)
{
    struct tt_tune_conf conf;

    tt_comm_tune_conf(comm, &conf);
    return conf;
}

static bool is_same(const struct tune_candidate *c, const struct tt_algo *algo,
                    struct tt_segments s)
{
    return c->algo == algo && c->segments.segment_bytes == s.segment_bytes &&
           c->segments.streams == s.streams && c->segments.depth == s.depth &&
           c->segments.lanes == s.lanes;
}

static void add(struct tune_race *r, const struct tt_algo *algo, struct tt_segments s)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (is_same(&r->candidate[i], algo, s))
            return;
    if (r->n < TUNE_CANDIDATES_MAX)
        r->candidate[r->n++] = (struct tune_candidate){ .algo = algo, .segments = s };
}

/* Adds the choice without a tune file, and all algorithms that support the call, with their default
 * segments. */
static tutti_status add_all_candidates(struct tune_race *r)
{
    const struct tt_segment_limits limits = conf_of(r->comm).limits;
    struct tt_plan *plan;
    tutti_status st;

    r->comm->tune = NULL;
    tt_plans_discard(r->comm);
    st = tt_plan_of(r->comm, &r->coll, NULL, &plan);
    if (st)
        return st;
    add(r, plan->algo,
        (struct tt_segments){ .segment_bytes = plan->segment_bytes,
                              .streams = plan->streams,
                              .depth = plan->depth,
                              .lanes = plan->lanes });
    r->candidate[0].untuned = true;
    for (size_t i = 0; i < tt_nalgos; i++)
        if (tt_algos[i]->kind == r->coll.kind && tt_algos[i]->fits(&r->coll))
            add(r, tt_algos[i], tt_segments_choose(tt_algos[i], &r->coll, &limits));
    return TUTTI_OK;
}

/* Adds variants with 1/4, 1/2, 2 and 4 times the segment size, another number of streams, and fewer
 * lanes, if they differ. */
static void vary(struct tune_race *r, const struct tune_candidate *of)
{
    const struct tt_tune_conf conf = conf_of(r->comm);
    const struct tt_segment_limits limits = conf.limits;
    const struct tt_algo *algo = of->algo;
    const struct tt_segments s = of->segments;
    struct tt_segments other = s;

    for (uint64_t bytes = s.segment_bytes / 4; bytes <= s.segment_bytes * 4; bytes *= 2) {
        other.segment_bytes = bytes;
        if (bytes >= SEGMENT_MIN && bytes <= SEGMENT_MAX && bytes < 2 * r->coll.bytes)
            add(r, algo, tt_segments_fit(algo, &r->coll, &limits, other));
    }
    other = s;
    other.streams = s.streams == 1 ? 2 : 1;
    add(r, algo, tt_segments_fit(algo, &r->coll, &limits, other));
    other = s;
    for (uint32_t lanes = conf.lanes / 2; lanes > 0; lanes /= 2) {
        other.lanes = (uint8_t)lanes;
        add(r, algo, tt_segments_fit(algo, &r->coll, &limits, other));
    }
}

/* ---- measuring ---- */

/* Makes the communicator run the call as this candidate, by a tune file of one row, so that the
 * measurement matches a job that uses the file. */
static void force_candidate(struct tune_race *r, const struct tune_candidate *c,
                            struct tt_tune_row *row, struct tt_tunefile *file)
{
    *row = (struct tt_tune_row){
        .algo = c->algo, .kind = r->coll.kind, .bytes = r->coll.bytes, .segments = c->segments
    };
    *file = (struct tt_tunefile){ .nrows = 1, .row = row };
    r->comm->tune = file;
    tt_plans_discard(r->comm);
}

static tutti_status sample(struct tune_race *r, struct tune_candidate *c, double *us)
{
    struct perf_effort effort = { .warmup = 1, .iters = c->iters ? c->iters : 1 };
    tutti_status st = perf_sample(r->c, r->comm, &effort, us);

    if (!st && !c->iters) {     /* number of iterations that fit into the time */
        c->iters =
            us[0] > 0 && us[0] * ITERS_MAX > SAMPLE_US ? (long)(SAMPLE_US / us[0]) : ITERS_MAX;
        c->iters = c->iters < ITERS_MIN ? ITERS_MIN : c->iters;
        effort.iters = c->iters;
        st = perf_sample(r->c, r->comm, &effort, us);
    }
    if (!st)
        c->us[c->nus++] = perf_summary(us, effort.iters).median_us;
    return st;
}

/* *over: whether any rank was interrupted. */
static tutti_status any_rank_interrupted(struct tune_race *r, bool *over)
{
    uint64_t wish = r->is_over(r->arg);
    const tutti_status st = tutti_allreduce(&wish, &wish, 1, TUTTI_U64, TUTTI_MAX, r->comm, NULL);

    *over = wish != 0;
    return st;
}

/* Runs one round of all remaining candidates. Each round begins with a different one, so that their
 * order changes. */
static tutti_status run_round(struct tune_race *r, uint32_t round, double *us, bool *over)
{
    struct tt_tunefile file;
    struct tt_tune_row row;
    tutti_status st = TUTTI_OK;

    for (uint32_t i = 0; i < r->n && !st && !*over; i++) {
        struct tune_candidate *c = &r->candidate[(i + round) % r->n];

        if (c->dropped)
            continue;
        force_candidate(r, c, &row, &file);
        st = sample(r, c, us);
        if (!st)
            st = any_rank_interrupted(r, over);
    }
    r->comm->tune = NULL;
    tt_plans_discard(r->comm);
    return st;
}

/* Returns the time of the candidate's fastest round. */
static double fastest_us(const struct tune_candidate *c)
{
    double us = INFINITY;

    for (uint32_t i = 0; i < c->nus; i++)
        us = fmin(us, c->us[i]);
    return us;
}

static void drop_slow(struct tune_race *r)
{
    double best = INFINITY;

    for (uint32_t i = 0; i < r->n; i++)
        if (!r->candidate[i].dropped)
            best = fmin(best, fastest_us(&r->candidate[i]));
    for (uint32_t i = 0; i < r->n; i++)
        r->candidate[i].dropped |= fastest_us(&r->candidate[i]) > FAR_BEHIND * best;
}

/* Adds variants of the best algorithms, and discards the times of all remaining candidates. */
static void add_variants(struct tune_race *r)
{
    const uint32_t n = r->n;
    uint32_t better;

    for (uint32_t i = 0; i < n && r->coll.bytes > r->comm->sizes.eager_bytes; i++) {
        better = 0;
        for (uint32_t j = 0; j < n; j++)
            better += fastest_us(&r->candidate[j]) < fastest_us(&r->candidate[i]);
        if (!r->candidate[i].dropped && better < VARIED)
            vary(r, &r->candidate[i]);
    }
    for (uint32_t i = 0; i < r->n; i++)
        if (!r->candidate[i].dropped)
            r->candidate[i].nus = 0;
}

static uint32_t nleft(const struct tune_race *r)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n; i++)
        n += !r->candidate[i].dropped;
    return n;
}

tutti_status tune_race_run(struct tune_race *r, bool *over)
{
    const uint32_t all = TUNE_SCOUTING + r->rounds;
    double *us = malloc((ITERS_MAX + 1) * sizeof *us);
    tutti_status st;

    if (!us)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %d samples", ITERS_MAX);
    r->coll = perf_case_call(r->c, r->comm);
    r->n = 0;
    *over = false;
    st = add_all_candidates(r);
    for (uint32_t k = 0; k < all && !st && !*over; k++) {
        if (k == TUNE_SCOUTING)
            add_variants(r);
        r->round(r->arg, k, all, nleft(r));
        st = run_round(r, k, us, over);
        if (k + 1 == TUNE_SCOUTING || k + 1 == 2 * TUNE_SCOUTING)
            drop_slow(r);
    }
    free(us);
    return st;
}

double tune_race_weight(const struct perf_case *c, const tutti_comm *comm, uint32_t rounds)
{
    const struct tt_coll coll = perf_case_call(c, comm);
    double best = INFINITY, weight = 0;
    uint32_t n = 0;

    for (size_t i = 0; i < tt_nalgos; i++) {
        const struct tt_algo *algo = tt_algos[i];
        struct tt_cost cost;
        double us;

        if (algo->kind != coll.kind || !algo->fits(&coll))
            continue;
        cost = algo->cost(&coll);
        us = tt_cost_ns(&cost, &comm->model) / 1000;
        if (!isfinite(us))
            us = 0;
        best = fmin(best, us);
        weight += TUNE_SCOUTING * fmax(SAMPLE_US, (ITERS_MIN + 1) * us);
        n++;
    }
    n = (n < VARIED ? n : VARIED) * (coll.bytes > comm->sizes.eager_bytes ? 4 : 1);
    return weight + n * rounds * fmax(SAMPLE_US, (ITERS_MIN + 1) * best);
}

/* ---- results ---- */

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Rounds as in the tune file. */
static double whole_ns(double us) { return round(us * 1000) / 1000; }

static struct tt_tune_row row_of(const struct tune_race *r, struct tune_candidate *c)
{
    struct tt_tune_row row = {
        .algo = c->algo,
        .kind = r->coll.kind,
        .rounds = c->nus,
        .untuned = c->untuned,
        .dropped = c->dropped,
        .bytes = r->coll.bytes,
        .segments = c->segments,
    };

    snprintf(row.name, sizeof row.name, "%s", c->algo->name);
    qsort(c->us, c->nus, sizeof *c->us, ascending);
    row.min_us = whole_ns(c->us[0]);
    row.median_us = whole_ns((c->us[(c->nus - 1) / 2] + c->us[c->nus / 2]) / 2);
    row.max_us = whole_ns(c->us[c->nus - 1]);
    return row;
}

/* Candidates that were not dropped come first. */
static int best_first(const void *a, const void *b)
{
    const struct tt_tune_row *x = a, *y = b;

    if (x->dropped != y->dropped)
        return x->dropped ? 1 : -1;
    if (x->median_us != y->median_us)
        return x->median_us < y->median_us ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

uint32_t tune_race_rows(struct tune_race *r, struct tt_tune_row *rows)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        rows[i] = row_of(r, &r->candidate[i]);
        rows[i].index = i;
    }
    qsort(rows, r->n, sizeof *rows, best_first);
    for (uint32_t i = 0; i < r->n; i++) {
        bool known = false;

        for (uint32_t j = 0; j < n; j++)
            known |= rows[j].algo == rows[i].algo;
        if (!known || rows[i].untuned)
            rows[n++] = rows[i];
    }
    return n;
}
