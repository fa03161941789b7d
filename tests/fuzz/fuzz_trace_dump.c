/* Arbitrary trace dumps, separated by form feeds. What is read stays consistent, and the diagnosis
 * and the profile name only ranks of the job. */
#include <string.h>

#include "analyze/diagnosis.h"
#include "analyze/pace_dumps.h"
#include "analyze/profile.h"
#include "base/log.h"
#include "base/status.h"

static void check_dumps(const struct tt_dumps *d)
{
    tt_assert(d->ndumps <= d->nranks && d->ncomplete <= d->ndumps);
    tt_assert(d->ndumps <= d->nmembers && d->nmembers <= d->nranks);
    for (uint32_t r = 0; r < d->nranks; r++)
        for (uint32_t k = 0; k < d->ranks[r].nops; k++) {
            const struct tt_dumps_op *op = &d->ops[d->ranks[r].ops_first + k];

            tt_assert(d->ranks[r].ops_first + k < d->nops && op->rank == r && op->comm < d->ncomms);
            tt_assert(op->peers_first + op->npeers <= d->npeers || op->npeers == 0);
            tt_assert(op->waits_rank == TT_DUMPS_NONE || op->waits_rank < d->nranks);
        }
}

static void check_diagnosis(const struct tt_dumps *d, const struct tt_diagnosis *x)
{
    char words[4096];

    tt_assert(x->kind < TT_DIAGNOSIS_KINDS && (x->op == TT_DUMPS_NONE || x->op < d->nops));
    for (uint32_t i = 0; i < x->nculprits && i < TT_DIAGNOSIS_CULPRITS; i++)
        tt_assert(x->culprits[i] < d->nranks);
    tt_diagnosis_words(x, d, words, sizeof words);
    tt_assert(strlen(words) > 0 && strlen(words) < sizeof words);
}

static void diagnose(const struct tt_dumps *d)
{
    static struct tt_diagnoses found;
    struct tt_waits w;

    if (tt_waits_init(&w, d))
        return;
    tt_assert(tt_diagnose(&found, &w) == TUTTI_OK);
    for (uint32_t i = 0; i < found.n; i++)
        check_diagnosis(d, &found.list[i]);
    tt_waits_fini(&w);
}

static void judge_pace(const struct tt_instances *in)
{
    struct tt_pace_dumps p;
    const struct tt_pace_found *f;
    uint32_t n;

    tt_assert(tt_pace_dumps_init(&p, in, 0) == TUTTI_OK);
    f = tt_pace_found(p.pace, &n);
    for (uint32_t i = 0; i < n; i++)
        tt_assert((f[i].rank == TT_PACE_NONE || f[i].rank < in->d->nranks) &&
                  f[i].last < p.nwindows && f[i].group < p.ngroups);
    tt_pace_dumps_fini(&p);
}

static void profile(const struct tt_dumps *d)
{
    struct tt_instances in;
    struct tt_profile p;

    if (tt_instances_init(&in, d))
        return;
    tt_assert(tt_profile_init(&p, &in) == TUTTI_OK);
    tt_assert(p.calls <= d->nops && p.nrows <= p.calls && p.nknown <= p.ninstances);
    for (size_t i = 0; i < p.nrows; i++)
        tt_assert(p.rows[i].comm < d->ncomms && p.rows[i].calls > 0 && p.rows[i].total_ns >= 0);
    for (size_t i = 0; i < p.nlate; i++)
        tt_assert(p.late[i].rank < d->nranks && p.late[i].times <= p.late[i].of);
    tt_profile_fini(&p);
    judge_pace(&in);
    tt_instances_fini(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *at = (const char *)data, *end = at + bytes;
    struct tt_dumps d;

    tt_log_set(TT_LOG_NONE);
    if (tt_dumps_init(&d))
        return 0;
    while (at < end) {
        const char *next = memchr(at, '\f', (size_t)(end - at));

        next = next ? next : end;
        tt_dumps_read_text(&d, "fuzz", at, (size_t)(next - at));
        at = next + (next < end);
    }
    if (tt_dumps_index(&d) == TUTTI_OK) {
        check_dumps(&d);
        diagnose(&d);
        profile(&d);
    }
    tt_dumps_fini(&d);
    return 0;
}
