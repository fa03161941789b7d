/* Compares the error message of a failed call (comm/blame_search.c) with the diagnosis of the dumps
 * (src/analyze), for the same simulated jobs with one fault each. Each waiting rank queries the
 * others as after its deadline, and receives their state at that time. The message names no
 * innocent rank, and no rank that the diagnosis does not name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/unit.h"

#include "analyze/diagnosis.h"
#include "analyze/job.h"
#include "base/clock.h"
#include "base/status.h"
#include "comm/blame_search.h"

#define HISTORIES 300u
#define RANKS_MAX 64u
#define START (1000 * TT_SECOND)
#define TURNS_MAX 10000u

struct state {
    struct tt_waiting waits[TT_WAITINGS];
    uint32_t n;
    bool responds;
};

struct history {
    struct job_conf conf;
    struct job *job;
    struct tt_dumps dumps;
    struct tt_waits waits;
    struct tt_diagnoses found;
    uint32_t nranks;
    struct state ranks[RANKS_MAX];
};

/* ---- the job ---- */

static struct tt_waiting waiting_of(const struct tt_dumps_op *op)
{
    return (struct tt_waiting){ .context = op->comm + 1,
                                .rank = op->waits_rank,
                                .op = op->class == TT_OP_COLLECTIVE ? op->seq : UINT64_MAX };
}

/* Sets what each rank was in when the first deadline passed. */
static void set_states(struct history *h)
{
    const bool is_gone = h->conf.fault == JOB_DIED || h->conf.fault == JOB_STOPPED;

    for (uint32_t r = 0; r < h->nranks; r++) {
        struct state *s = &h->ranks[r];

        *s = (struct state){ .responds = !is_gone || r != job_culprit(h->job) };
        for (uint32_t i = h->waits.rank_first[r]; i < h->waits.rank_first[r + 1]; i++)
            if (s->n < TT_WAITINGS)
                s->waits[s->n++] = waiting_of(tt_waits_op(&h->waits, i));
    }
}

static bool begin(struct history *h, uint64_t seed)
{
    static char name[] = "dump";

    h->conf = job_draw(seed, RANKS_MAX);
    h->conf.lost_percent = h->conf.late_percent = h->conf.cut_percent = 0;
    h->job = job_create(&h->conf);
    assert_non_null(h->job);
    h->nranks = job_nranks(h->job);
    assert_in_range(h->nranks, 1, RANKS_MAX);
    if (!job_has_fault(h->job)) {
        job_destroy(h->job);
        return false;
    }
    assert_int_equal(tt_dumps_init(&h->dumps), TUTTI_OK);
    for (uint32_t r = 0; r < h->nranks; r++) {
        size_t bytes;
        char *text = job_dump(h->job, r, &bytes);

        if (text)
            assert_int_equal(tt_dumps_read_text(&h->dumps, name, text, bytes), TUTTI_OK);
        free(text);
    }
    assert_int_equal(tt_dumps_index(&h->dumps), TUTTI_OK);
    assert_int_equal(tt_waits_init(&h->waits, &h->dumps), TUTTI_OK);
    assert_int_equal(tt_diagnose(&h->found, &h->waits), TUTTI_OK);
    set_states(h);
    return true;
}

static void end(struct history *h)
{
    tt_waits_fini(&h->waits);
    tt_dumps_fini(&h->dumps);
    job_destroy(h->job);
}

/* ---- queries ---- */

/* Queries a rank, and the ranks that it waits for. */
static void query(const struct history *h, struct tt_blame_search *p,
                  const struct tt_waiting *about, uint64_t now)
{
    const struct state *s = &h->ranks[about->rank];
    struct tt_waiting ask[TT_WAITINGS];
    uint32_t n;

    if (!s->responds)
        return;
    n = tt_blame_search_answer(p, about->rank, about, s->waits, s->n, p->rank[about->rank].asked_ns,
                               now + TT_MS, ask);
    for (uint32_t i = 0; i < n; i++)
        query(h, p, &ask[i], now);
}

/* Returns the rank that is named for a rank that waits as in *w, or NONE. */
static uint32_t named_by(const struct history *h, const struct tt_waiting *w, bool *is_silent)
{
    static struct tt_blame_search_rank ranks[RANKS_MAX];
    struct tt_blame_search p;
    struct tt_blamed b;
    struct tt_waiting ask;
    enum tt_blame blame = TT_BLAME_OPEN;
    uint64_t now = START;

    memset(ranks, 0, sizeof ranks);
    tt_blame_search_init(&p, ranks, h->nranks);
    for (uint32_t turn = 0; blame == TT_BLAME_OPEN; turn++, now += 2 * TT_MS) {
        assert_true(turn < TURNS_MAX);
        blame = tt_blame_search_blame(&p, w, START, now, &b, &ask);
        if (ask.rank != UINT32_MAX)
            query(h, &p, &ask, now);
    }
    *is_silent = blame == TT_BLAME_RANK;
    return *is_silent ? b.silent : b.idle;
}

/* ---- the property ---- */

static bool diagnosis_names(const struct history *h, uint32_t rank)
{
    for (uint32_t i = 0; i < h->found.n; i++)
        for (uint32_t k = 0; k < h->found.list[i].nculprits && k < TT_DIAGNOSIS_CULPRITS; k++)
            if (h->found.list[i].culprits[k] == rank)
                return true;
    return false;
}

/* Returns whether rank r, which waits, names the culprit. */
static bool check_rank(const struct history *h, uint32_t r, const struct tt_waiting *w)
{
    bool is_silent;
    const uint32_t named = named_by(h, w, &is_silent);
    const char *how = is_silent ? "silent" : "in no operation";
    const char *fault = job_fault_name(h->conf.fault);

    if (named == UINT32_MAX)
        return false;
    if (named != job_culprit(h->job))
        fail_msg("seed %llu, %s of rank %u: rank %u names rank %u, %s",
                 (unsigned long long)h->conf.seed, fault, job_culprit(h->job), r, named, how);
    if (!diagnosis_names(h, named))
        fail_msg("seed %llu, %s of rank %u: rank %u names it as %s, but the diagnosis does not",
                 (unsigned long long)h->conf.seed, fault, named, r, how);
    return true;
}

static void check_history(const struct history *h, uint32_t *nmust, uint32_t *nmissed)
{
    const enum job_fault f = h->conf.fault;
    const bool must =
        f == JOB_DIED || f == JOB_STOPPED || f == JOB_NEVER_CALLED || f == JOB_OUTSIDE;
    bool is_named = false;

    for (uint32_t r = 0; r < h->nranks; r++)
        for (uint32_t i = 0; i < h->ranks[r].n && h->ranks[r].responds; i++)
            if (h->ranks[r].waits[i].rank != UINT32_MAX)
                is_named |= check_rank(h, r, &h->ranks[r].waits[i]);
    *nmust += must;
    *nmissed += must && !is_named;
}

/* BLAME_SEED=N runs one history. */
static void failed_calls_name_no_innocent_rank(void **state)
{
    const char *one = getenv("BLAME_SEED");
    static struct history h;
    uint32_t n = 0, nmust = 0, nmissed = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
        if ((one && strtoull(one, NULL, 10) != seed) || !begin(&h, seed))
            continue;
        check_history(&h, &nmust, &nmissed);
        end(&h);
        n++;
    }
    print_message("%u histories; of %u with a silent or idle rank, %u name no rank\n", n, nmust,
                  nmissed);
    assert_true(one || (n > HISTORIES / 2 && nmust > HISTORIES / 6));
    assert_int_equal(nmissed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_calls_name_no_innocent_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
