/* The diagnosis of simulated jobs with one fault each: the rank and the kind are right in at least
 * 99 % of a thousand histories, and no other rank is named in any of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/unit.h"

#include "analyze/diagnosis.h"
#include "analyze/job.h"
#include "base/status.h"

#define HISTORIES 1000u
#define RANKS_MAX 8192u
#define MISSED_PERCENT 1u

struct answer {
    struct tt_dumps dumps;
    struct tt_waits waits;
    struct tt_diagnoses found;
};

static void diagnose(const struct job *j, struct answer *a)
{
    assert_int_equal(tt_dumps_init(&a->dumps), TUTTI_OK);
    for (uint32_t rank = 0; rank < job_nranks(j); rank++) {
        char name[64];
        size_t bytes;
        char *text = job_dump(j, rank, &bytes);

        if (!text)
            continue;
        snprintf(name, sizeof name, "tutti-trace.9f3c.%u.jsonl", rank);
        assert_int_equal(tt_dumps_read_text(&a->dumps, name, text, bytes), TUTTI_OK);
        free(text);
    }
    assert_int_equal(tt_dumps_index(&a->dumps), TUTTI_OK);
    assert_int_equal(tt_waits_init(&a->waits, &a->dumps), TUTTI_OK);
    assert_int_equal(tt_diagnose(&a->found, &a->waits), TUTTI_OK);
}

static void answer_fini(struct answer *a)
{
    tt_waits_fini(&a->waits);
    tt_dumps_fini(&a->dumps);
}

/* ---- the expected answer ---- */

/* Kinds that describe a fault. A rank that leaves out a call either never makes it, or its next
 * calls differ, or it waits in another communicator: the dumps are the same as those of these. */
static bool kind_fits(enum job_fault fault, enum tt_diagnosis_kind kind)
{
    switch (fault) {
    case JOB_NEVER_CALLED: return kind == TT_DIAGNOSIS_NEVER_CALLED;
    case JOB_OUTSIDE: return kind == TT_DIAGNOSIS_OUTSIDE;
    case JOB_SKIPPED:
        return kind == TT_DIAGNOSIS_NEVER_CALLED || kind == TT_DIAGNOSIS_MISMATCH ||
               kind == TT_DIAGNOSIS_ORDER;
    case JOB_DIED:
        return kind == TT_DIAGNOSIS_DIED;
    case JOB_STOPPED:
        return kind == TT_DIAGNOSIS_STOPPED;
    case JOB_ORDER:
        return kind == TT_DIAGNOSIS_ORDER;
    case JOB_MISMATCH:
        return kind == TT_DIAGNOSIS_MISMATCH;
    case JOB_LINK:
    case JOB_NIC: return kind == TT_DIAGNOSIS_LINK;
    case JOB_SLOW_LINK:
    case JOB_SLOW_RANK: return kind == TT_DIAGNOSIS_SLOW;
    default: return kind == TT_DIAGNOSIS_DEADLINE;
    }
}

/* Returns whether the dumps can show the rank at fault: it and the ranks that exchange data with it
 * wrote one, and between two ranks with different calls a third one decides. */
static bool is_provable(const struct job *j, enum job_fault fault)
{
    const bool here = job_has_whole_dump(j, job_culprit(j));
    const bool left = job_has_whole_dump(j, job_left(j)),
               right = job_has_whole_dump(j, job_right(j));

    switch (fault) {
    case JOB_DIED:
    case JOB_STOPPED: return true;
    case JOB_ORDER:
    case JOB_MISMATCH:
    case JOB_SKIPPED: return here && job_group_dumps(j) > 2;
    case JOB_NEVER_CALLED:
    case JOB_OUTSIDE: return here;
    case JOB_NIC: return here && left && right;
    case JOB_DEADLINE: return false;        /* no rank is at fault */
    default: return here && right;
    }
}

/* Returns whether a diagnosis without proof is right. A rank without dump whose network failed is
 * as silent as one that stopped. */
static bool is_right_without_proof(const struct job *j, enum job_fault fault,
                                   const struct tt_diagnosis *x)
{
    if (kind_fits(fault, x->kind) || x->kind == TT_DIAGNOSIS_UNKNOWN)
        return true;
    return fault == JOB_NIC && x->kind == TT_DIAGNOSIS_STOPPED &&
           !job_has_whole_dump(j, job_culprit(j));
}

static bool names(const struct tt_diagnosis *x, uint32_t rank)
{
    for (uint32_t i = 0; i < x->nculprits && i < TT_DIAGNOSIS_CULPRITS; i++)
        if (x->culprits[i] == rank)
            return true;
    return false;
}

/* A diagnosis of a link names two ranks, one of which is at fault if its NIC failed. */
static bool names_innocent(const struct job *j, enum job_fault fault, const struct tt_diagnosis *x)
{
    if (fault == JOB_DEADLINE)
        return x->nculprits > 0;
    if (x->nculprits == 1 && x->to != TT_DUMPS_NONE && fault == JOB_NIC)
        return x->culprits[0] != job_culprit(j) && x->to != job_culprit(j);
    if (x->nculprits == 1 && x->to != TT_DUMPS_NONE)
        return x->culprits[0] != job_culprit(j) || x->to != job_other_end(j);
    return x->nculprits > 1 || (x->nculprits == 1 && x->culprits[0] != job_culprit(j));
}

struct score {
    uint32_t run, right, unproven, innocent, nothing;
    uint32_t by_fault[JOB_FAULTS], missed[JOB_FAULTS];
};

static void print_case(const struct job_conf *c, const struct job *j, const struct answer *a,
                       const char *what)
{
    char words[2048];

    print_message("seed %llu: %s: %s of rank %u (other %u), %u x %u/%u x %u ranks\n",
                  (unsigned long long)c->seed, what, job_fault_name(c->fault), job_culprit(j),
                  job_other_end(j), c->tensor, c->data, c->expert, c->stages);
    for (uint32_t i = 0; i < a->found.n && i < 3; i++)
        print_message("    %s: %s\n", tt_diagnosis_kind_name(a->found.list[i].kind),
                      tt_diagnosis_words(&a->found.list[i], &a->dumps, words, sizeof words));
}

static void judge(const struct job_conf *c, const struct job *j, const struct answer *a,
                  struct score *s)
{
    const struct tt_diagnosis *x = a->found.n > 0 ? &a->found.list[0] : NULL;
    bool right;

    s->run++;
    s->by_fault[c->fault]++;
    for (uint32_t i = 0; i < a->found.n; i++)
        if (names_innocent(j, c->fault, &a->found.list[i])) {
            print_case(c, j, a, "an innocent rank is named");
            s->innocent++;
            break;
        }
    if (is_provable(j, c->fault)) {
        right = x && kind_fits(c->fault, x->kind) && names(x, job_culprit(j));
    } else {
        right = c->fault == JOB_DEADLINE ? x && x->kind == TT_DIAGNOSIS_DEADLINE
                                         : x && is_right_without_proof(j, c->fault, x);
        s->unproven += c->fault != JOB_DEADLINE;
    }
    s->right += right;
    if (!right) {
        s->missed[c->fault]++;
        print_case(c, j, a, "not found");
    }
}

static void try_seed(uint64_t seed, struct score *s)
{
    const struct job_conf c = job_draw(seed, RANKS_MAX);
    struct job *j = job_create(&c);
    struct answer a;

    assert_non_null(j);
    if (job_has_fault(j)) {
        diagnose(j, &a);
        judge(&c, j, &a, s);
        answer_fini(&a);
    } else {
        s->nothing++;
    }
    job_destroy(j);
}

/* ANALYZE_SEED=N runs one history and prints it. */
static void culprit_and_kind_are_right(void **state)
{
    const char *one = getenv("ANALYZE_SEED");
    struct score s = { .run = 0 };

    (void)state;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++)
        if (one ? strtoull(one, NULL, 10) == seed : unit_draw())
            try_seed(seed, &s);
    for (int f = 0; f < JOB_FAULTS; f++)
        print_message("%-14s %4u histories, %u missed\n", job_fault_name((enum job_fault)f),
                      s.by_fault[f], s.missed[f]);
    print_message("%u histories: %u right (%u without proof in the dumps), %u name an innocent "
                  "rank; %u without effect\n",
                  s.run, s.right, s.unproven, s.innocent, s.nothing);
    assert_true(one || s.run > HISTORIES / (2 * unit_share()));
    assert_int_equal(s.innocent, 0);
    /* all of the few missed histories may be in this share */
    assert_true(s.run - s.right <= MISSED_PERCENT * s.run / 100 + (unit_share() > 1 ? 2 : 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(culprit_and_kind_are_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
