/* The root of the start-up tree: the table of all ranks, and the common result. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "boot/rank_names.h"
#include "boot/tree_state.h"

bool tt_tree_root_begin(struct tt_tree *t, uint32_t nranks)
{
    struct tt_tree_ranks *k = calloc(1, sizeof *k);

    if (!k)
        return false;
    k->nranks = nranks;
    k->owner = calloc(nranks, sizeof *k->owner);
    k->tag = calloc(nranks, sizeof *k->tag);
    k->left = calloc(nranks, sizeof *k->left);
    t->ranks = k;
    if (!k->owner || !k->tag || !k->left) {
        tt_tree_root_fini(t);
        return false;
    }
    t->conf.nranks = nranks;
    return true;
}

void tt_tree_root_fini(struct tt_tree *t)
{
    struct tt_tree_ranks *k = t->ranks;

    if (!k)
        return;
    free(k->owner);
    free(k->tag);
    free(k->left);
    free(k->runs);
    free(k->layout);
    free(k->constants);
    free(k->table);
    free(k);
    t->ranks = NULL;
}

void tt_tree_note_refusal(struct tt_tree *t, const char *sentence)
{
    t->nrefused++;
    free(t->refusal);
    t->refusal = strdup(sentence);
}

/* ---- reports ---- */

struct runs {
    struct tt_tree_report_head head;
    struct tt_reader r;
    uint32_t left;
};

static void runs_begin(struct runs *out, const struct tt_tree *t,
                       const struct tt_tree_report *report)
{
    tt_reader_init(&out->r, report->encoded, report->bytes);
    tt_tree_read_report(&out->r, t->conf.nranks, &out->head);
    out->left = out->head.nruns;
}

static bool runs_next(struct runs *s, const struct tt_tree *t, struct tt_tree_run *out)
{
    if (s->left == 0)
        return false;
    s->left--;
    tt_tree_read_run(&s->r, t->conf.nranks, &s->head, out);
    tt_assert(!s->r.bad);       /* checked when it arrived */
    out->host = s->head.host;
    out->reporter = s->head.reporter;
    return true;
}

static uint32_t tag_of(const struct tt_tree_run *run, uint32_t i)
{
    struct tt_reader r;

    tt_reader_init(&r, run->tags + 4 * (size_t)i, 4);
    return tt_read_u32(&r);
}

static void add_rank(struct tt_tree *t, uint32_t reporter, uint32_t rank, uint32_t tag,
                     tt_tree_reject_fn *reject)
{
    struct tt_tree_ranks *k = t->ranks;
    char sentence[128];

    if (k->owner[rank] && k->owner[rank] != reporter + 1 && k->tag[rank] != tag) {
        snprintf(sentence, sizeof sentence,
                 "rank %" PRIu32 " joined twice: two processes have this rank", rank);
        tt_tree_note_refusal(t, sentence);
        reject(t, reporter, rank, TUTTI_ERR_INVALID, sentence);
        return;
    }
    k->njoined += !k->owner[rank];
    k->owner[rank] = reporter + 1;
    k->tag[rank] = tag;
    k->left[rank] = 0;
}

void tt_tree_root_add(struct tt_tree *t, const struct tt_tree_report *report,
                      tt_tree_reject_fn *reject)
{
    struct tt_tree_run run;
    struct runs s;

    runs_begin(&s, t, report);
    while (runs_next(&s, t, &run))
        for (uint32_t i = 0; i < run.count; i++)
            add_rank(t, run.reporter, run.first + i, tag_of(&run, i), reject);
}

void tt_tree_root_remove(struct tt_tree *t, const struct tt_tree_report *report)
{
    struct tt_tree_ranks *k = t->ranks;
    struct tt_tree_run run;
    struct runs s;

    runs_begin(&s, t, report);
    while (runs_next(&s, t, &run))
        for (uint32_t r = run.first; r < run.first + run.count; r++)
            if (k->owner[r] == run.reporter + 1) {
                k->owner[r] = 0;
                k->left[r] = 1;
                k->njoined--;
            }
}

/* ---- the common result ---- */

static int compare_runs(const void *a, const void *b)
{
    const struct tt_tree_run *x = a, *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

/* Collects the runs of all reports, sorted. A report whose rank was rejected is not complete, so
 * its runs are cut to the ranks that it owns. Returns false if out of memory. */
static bool collect_runs(struct tt_tree *t)
{
    struct tt_tree_ranks *k = t->ranks;
    struct tt_tree_report *report;
    uint32_t at = 0, n = 0;
    struct runs s;

    while ((report = tt_sparse_next(&t->reports, &at))) {
        runs_begin(&s, t, report);
        n += report->gone ? 0 : s.left;
    }
    k->runs = calloc(n ? n : 1, sizeof *k->runs);
    if (!k->runs)
        return false;
    at = 0;
    while ((report = tt_sparse_next(&t->reports, &at))) {
        runs_begin(&s, t, report);
        while (!report->gone && runs_next(&s, t, &k->runs[k->nruns]))
            k->nruns++;
    }
    qsort(k->runs, k->nruns, sizeof *k->runs, compare_runs);
    return true;
}

/* Returns whether the runs cover each rank once. A rank in two reports will soon be removed from
 * one of them: its process changed its server, or was rejected. */
static bool runs_are_exact(const struct tt_tree_ranks *k)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < k->nruns; i++) {
        if (k->runs[i].first != next)
            return false;
        next += k->runs[i].count;
    }
    return next == k->nranks;
}

static bool settings_are_equal(const struct tt_tree_run *a, const struct tt_tree_run *b)
{
    return a->settings_bytes == b->settings_bytes &&
           (a->settings_bytes == 0 || memcmp(a->settings, b->settings, a->settings_bytes) == 0);
}

/* MISMATCH if a rank's settings differ from those of rank 0. */
static tutti_status check_settings(const struct tt_tree *t, char sentence[TT_TREE_SENTENCE_BYTES])
{
    const struct tt_tree_ranks *k = t->ranks;
    const struct tt_tree_run *zero = &k->runs[0], *first = NULL;
    uint32_t ndiffer = 0;

    for (uint32_t i = 0; i < k->nruns; i++)
        if (!settings_are_equal(&k->runs[i], zero)) {
            first = first ? first : &k->runs[i];
            ndiffer += k->runs[i].count;
        }
    if (!first)
        return TUTTI_OK;
    snprintf(sentence, TT_TREE_SENTENCE_BYTES,
             "the settings of rank %" PRIu32 " differ from those of rank 0 (%" PRIu32 " of %" PRIu32
             " rank%s differ%s): rank 0 has %.*s; rank %" PRIu32 " has %.*s",
             first->first, ndiffer, k->nranks, TT_PLURAL(k->nranks), ndiffer == 1 ? "s" : "",
             zero->settings_bytes ? (int)zero->settings_bytes : 4,
             zero->settings_bytes ? (const char *)zero->settings : "none", first->first,
             first->settings_bytes ? (int)first->settings_bytes : 4,
             first->settings_bytes ? (const char *)first->settings : "none");
    return TUTTI_ERR_MISMATCH;
}

/* Finds the lowest of the ranks that cannot start, as reported by each host. Returns false if there
 * is none. */
static bool find_refusal(const struct tt_tree *t, struct tt_tree_refusal *out)
{
    struct tt_tree_report *report;
    uint32_t at = 0;
    struct runs s;

    out->status = TUTTI_OK;
    while ((report = tt_sparse_next(&t->reports, &at))) {
        if (report->gone)
            continue;
        runs_begin(&s, t, report);
        if (s.head.refusal.status && (!out->status || s.head.refusal.rank < out->rank))
            *out = s.head.refusal;
    }
    return out->status != TUTTI_OK;
}

/* If a rank cannot start, describes the cause in `sentence`, and returns its status. */
static tutti_status check_refusals(const struct tt_tree *t, char sentence[TT_TREE_SENTENCE_BYTES])
{
    struct tt_tree_refusal refusal;

    if (find_refusal(t, &refusal))
        snprintf(sentence, TT_TREE_SENTENCE_BYTES, "rank %" PRIu32 " cannot start: %s",
                 refusal.rank, refusal.cause);
    return (tutti_status)refusal.status;
}

/* Copies the constants of the report that contains rank 0. */
static bool copy_constants(struct tt_tree *t)
{
    struct tt_tree_ranks *k = t->ranks;
    struct runs s;

    runs_begin(&s, t, tt_sparse_get(&t->reports, k->runs[0].reporter));
    k->constants = malloc(s.head.constants_bytes ? s.head.constants_bytes : 1u);
    if (!k->constants)
        return false;
    if (s.head.constants_bytes)
        memcpy(k->constants, s.head.constants, s.head.constants_bytes);
    k->constants_bytes = s.head.constants_bytes;
    return true;
}

/* Makes the table (record_table.h) of the records of all ranks, if any rank has one. Returns false
 * if out of memory. */
static bool root_make_table(struct tt_tree_ranks *k)
{
    struct tt_record_stream out = { .n = 0 };
    size_t bytes = 0;
    struct tt_reader r;
    struct tt_writer w;
    uint8_t *smaller;

    for (uint32_t i = 0; i < k->nruns; i++)
        bytes += k->runs[i].records_bytes;
    if (bytes == 0)
        return true;
    bytes += (size_t)k->nranks * TT_RECORD_OVERHEAD;
    k->table = malloc(bytes);
    if (!k->table)
        return false;
    tt_writer_init(&w, k->table, bytes);
    for (uint32_t i = 0; i < k->nruns; i++) {
        struct tt_record_stream in = { .n = 0 };

        tt_reader_init(&r, k->runs[i].cards, k->runs[i].cards_bytes);
        for (uint32_t rank = 0; rank < k->runs[i].count; rank++) {
            if (k->runs[i].cards)
                tt_record_read(&in, &r);
            tt_record_write(&out, &w, k->runs[i].host, in.entry.record, in.entry.bytes);
        }
    }
    tt_assert(!w.bad);
    k->table_bytes = tt_writer_bytes(&w);
    smaller = realloc(k->table, k->table_bytes);
    if (smaller)
        k->table = smaller;
    return true;
}

tutti_status tt_tree_root_check(struct tt_tree *t, char sentence[TT_TREE_SENTENCE_BYTES])
{
    struct tt_tree_ranks *k = t->ranks;
    tutti_status st;

    if (!k || k->njoined < k->nranks)
        return TUTTI_OK;
    free(k->runs);
    k->runs = NULL;
    k->nruns = 0;
    if (!collect_runs(t))
        goto no_memory;
    if (!runs_are_exact(k))
        return TUTTI_OK;
    st = check_refusals(t, sentence);
    if (!st)
        st = check_settings(t, sentence);
    if (st)
        return st;
    k->layout = tt_tree_encode_layout(k->runs, k->nruns, k->nranks, &k->layout_bytes);
    if (!k->layout || !copy_constants(t) || !root_make_table(k))
        goto no_memory;
    t->state = TT_TREE_PLACED;
    return TUTTI_OK;

no_memory:
    snprintf(sentence, TT_TREE_SENTENCE_BYTES,
             "out of memory in the rendezvous server for the layout");
    return TUTTI_ERR_NOMEM;
}

void tt_tree_root_write_entry(const struct tt_tree *t, const struct tt_tree_report *report,
                              struct tt_writer *w)
{
    const struct tt_tree_ranks *k = t->ranks;
    struct tt_tree_run run;
    struct runs s;

    runs_begin(&s, t, report);
    tt_write_u32(w, report->reporter);
    tt_write_u32(w, s.head.nruns);
    while (runs_next(&s, t, &run)) {
        const struct tt_tree_run *found =
            bsearch(&run, k->runs, k->nruns, sizeof *k->runs, compare_runs);
        uint32_t i;

        tt_assert(found && found->reporter == report->reporter);
        i = (uint32_t)(found - k->runs);
        tt_write_u32(w, run.first);
        tt_tree_write_address(w, &k->runs[(i + k->nruns - 1) % k->nruns].after);
        tt_tree_write_address(w, &k->runs[(i + 1) % k->nruns].before);
    }
}

/* ---- deadline ---- */

static bool tree_rank_is_missing(const void *context, uint32_t rank)
{
    const struct tt_tree_ranks *k = context;

    return !k->owner[rank];
}

static bool tree_rank_has_left(const void *context, uint32_t rank)
{
    const struct tt_tree_ranks *k = context;

    return !k->owner[rank] && k->left[rank];
}

bool tt_tree_waits_for(const struct tt_tree *t, uint32_t nranks, uint32_t rank)
{
    const struct tt_tree_ranks *k = t->ranks;

    return t->state == TT_TREE_GATHERING && k && k->njoined > 0 && k->nranks == nranks &&
           rank < nranks && !k->owner[rank];
}

void tt_tree_name_missing(const struct tt_tree *t, char *out, size_t cap)
{
    if (t->ranks)
        tt_ranks_name(out, cap, t->ranks->nranks, tree_rank_is_missing, t->ranks);
    else
        snprintf(out, cap, "all");
}

void tt_tree_root_describe(const struct tt_tree *t, uint64_t now_ns,
                           char sentence[TT_TREE_SENTENCE_BYTES])
{
    char text[1024], missing[160] = "all", left[120] = "";
    const uint64_t ms = (now_ns - t->began_ns) / TT_MS;
    const struct tt_tree_ranks *k = t->ranks;
    struct tt_tree_refusal refusal = { .status = TUTTI_OK };
    char cannot[200] = "";

    if (k && find_refusal(t, &refusal))
        snprintf(cannot, sizeof cannot, "; rank %" PRIu32 " cannot start: %.160s", refusal.rank,
                 refusal.cause);
    if (k) {
        tt_ranks_name(missing, sizeof missing, k->nranks, tree_rank_is_missing, k);
        tt_ranks_name(left, sizeof left, k->nranks, tree_rank_has_left, k);
    }
    snprintf(text, sizeof text,
             "%" PRIu32 " of %" PRIu32 " ranks joined within %" PRIu64 ".%" PRIu64
             " s; missing: %s%s%s%s%s%s%.100s",
             k ? k->njoined : 0, t->conf.nranks, ms / 1000, ms % 1000 / 100, missing,
             *left ? " (joined, but left again: " : "", left, *left ? ")" : "", cannot,
             t->refusal ? "; last refused process: " : "", t->refusal ? t->refusal : "");
    snprintf(sentence, TT_TREE_SENTENCE_BYTES, "%.*s", TT_TREE_SENTENCE_BYTES - 1, text);
}
