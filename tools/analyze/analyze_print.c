/* The diagnosis as text. */
#include <stdio.h>
#include <string.h>

#include "tools/analyze/analyze.h"

#define COLUMNS 100
#define OTHERS_MAX 4u
#define OPERATIONS_MAX 12u
#define MISSING_MAX 6u

/* Prints text in lines of at most COLUMNS columns; `indent` for all lines after the first. */
static void print_wrapped(const char *text, int column, int indent)
{
    while (*text) {
        const int n = (int)strcspn(text, " ");

        if (column > indent && column + 1 + n > COLUMNS) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", n, text);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
    putchar('\n');
}

const char *analyze_words(const struct analysis *a, char *out, size_t cap)
{
    const struct tt_dumps *d = &a->dumps;
    const uint32_t n = d->nmembers - d->ncomplete;

    if (tt_diagnoses_lack_dumps(&a->found, d))
        snprintf(out, cap,
                 "The dumps show no rank that has waited for %.1f s or longer, but those of %u "
                 "rank%s are missing or incomplete.",
                 1e-9 * (double)d->hung_ns, n, n == 1 ? "" : "s");
    else if (a->found.n == 0 && d->hung_ns > 0)
        snprintf(out, cap, "No rank has waited for %.1f s or longer, and no rank is lost.",
                 1e-9 * (double)d->hung_ns);
    else if (a->found.n == 0)
        snprintf(out, cap, "No operation is incomplete, and no rank is lost.");
    else
        tt_diagnosis_words(&a->found.list[0], d, out, cap);
    return out;
}

/* A full stop ends a sentence only before a blank: numbers and host names contain stops, too. */
size_t analyze_first_sentence(const char *words)
{
    const char *end = strstr(words, ". ");
    const size_t n = end ? (size_t)(end - words) : strlen(words);

    return n > 0 && words[n - 1] == '.' ? n - 1 : n;
}

static void print_words(const struct analysis *a)
{
    char words[4096];

    print_wrapped(analyze_words(a, words, sizeof words), 0, 0);
    if (a->found.nall > 1)
        printf("\nOther chains of waits end elsewhere (%u):\n", a->found.nall - 1);
    for (uint32_t i = 1; i < a->found.n && i <= OTHERS_MAX; i++) {
        printf("  - ");
        print_wrapped(tt_diagnosis_words(&a->found.list[i], &a->dumps, words, sizeof words), 4, 4);
    }
}

static void print_ranks_list(const struct tt_dumps *d, bool has_dump)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < d->nranks; r++) {
        if (!d->ranks[r].is_member || d->ranks[r].has_dump != has_dump)
            continue;
        if (n < 16)
            printf("%s%u", n ? ", " : "", r);
        n++;
    }
    if (n > 16)
        printf(" and %u others", n - 16);
}

static void print_counts(const struct analysis *a)
{
    const struct tt_dumps *d = &a->dumps;

    printf("\njob %s: %u %s, %u dumps", d->job, d->nmembers,
           d->is_elastic ? "members of an elastic run" : "ranks", d->ndumps);
    if (d->ndumps > d->ncomplete)
        printf(" (%u incomplete)", d->ndumps - d->ncomplete);
    if (d->nrejected > 0)
        printf(", %u files rejected", d->nrejected);
    if (d->ndumps < d->nmembers) {
        printf("; no dump of rank%s ", d->nmembers - d->ndumps == 1 ? "" : "s");
        print_ranks_list(d, false);
    }
    printf("\n");
}

/* ---- table of ranks ---- */

static const char *age(int64_t from, int64_t to, char out[24])
{
    if (from == TT_DUMPS_NEVER || to == TT_DUMPS_NEVER)
        snprintf(out, 24, "-");
    else
        snprintf(out, 24, "%.3f s", 1e-9 * ((double)to - (double)from));
    return out;
}

void analyze_row_of(const struct analysis *a, uint32_t rank, struct analyze_row *out)
{
    const struct tt_dumps_rank *r = &a->dumps.ranks[rank];
    const uint32_t record = analyze_record_of(a, rank);
    const struct tt_dumps_op *op = record == TT_DUMPS_NONE ? NULL : tt_waits_op(&a->waits, record);

    *out = (struct analyze_row){ .since = "-" };
    snprintf(out->what, sizeof out->what, "%s", r->has_dump ? "in no operation" : "-");
    if (!op)
        return;
    tt_diagnosis_op_words(&a->dumps, op, out->what, sizeof out->what);
    age(op->called, op->ended != TT_DUMPS_NEVER ? op->ended : r->now, out->since);
    if (op->steps > 0)
        snprintf(out->step, sizeof out->step, "%u/%u", op->step, op->steps);
    if (op->waits_rank != TT_DUMPS_NONE)
        snprintf(out->waits, sizeof out->waits, "%u (%s)", op->waits_rank,
                 analyze_wait_name(tt_waits_reason(&a->waits, record)));
}

static void print_row(const struct analysis *a, uint32_t rank)
{
    const struct tt_dumps_rank *r = &a->dumps.ranks[rank];
    struct analyze_row row;

    analyze_row_of(a, rank, &row);
    printf("%c%6u  %-10.10s  %-10s  %-30.30s  %9s  %10s%s%s\n",
           analyze_is_culprit(a, rank) ? '*' : ' ', rank,
           r->has_dump ? tt_dumps_text(&a->dumps, r->host) : "-", analyze_state(a, rank), row.what,
           row.step, row.since, *row.waits ? "  " : "", row.waits);
}

static void print_ranks(const struct analysis *a)
{
    printf("\n%7s  %-10s  %-10s  %-30s  %9s  %10s  %s\n", "rank", "host", "state", "operation",
           "step", "in it for", "waits for");
    for (uint32_t i = 0; i < a->nrows; i++)
        print_row(a, a->rows[i]);
    if (a->nrows < a->dumps.nmembers)
        printf("%7s  (%u other ranks; --rows shows more)\n", "...", a->dumps.nmembers - a->nrows);
}

/* ---- table of operations ---- */

/* Prints the ranks that have not called, after two blanks. */
static void print_missing(const struct analysis *a, const struct tt_waits_instance *o)
{
    for (uint32_t k = 0; k < o->nmissing && k < MISSING_MAX; k++)
        printf("%s%u", k ? ", " : "  ", a->waits.missing[o->missing_first + k]);
    if (o->nmissing > MISSING_MAX)
        printf(" and %u others", o->nmissing - MISSING_MAX);
    if (o->nmissing > 0 && !o->is_proven)
        printf(" (no complete dump)");
    if (o->differs)
        printf("  (different arguments)");
    printf("\n");
}

static void print_operation(const struct analysis *a, uint32_t i)
{
    const struct tt_waits *w = &a->waits;
    const struct tt_waits_instance *o = &w->instances[i];
    const struct tt_dumps_op *op = tt_waits_op(w, w->by_instance[o->first]);
    const uint32_t members = op->class == TT_OP_P2P ? 2 : a->dumps.comms[op->comm].members.n;
    char what[96];

    printf("%-40.40s  %8u  %8u", tt_diagnosis_op_words(&a->dumps, op, what, sizeof what), members,
           o->n);
    print_missing(a, o);
}

/* Returns the instance of the first diagnosis, or NONE. */
static uint32_t diagnosed_instance(const struct analysis *a)
{
    for (uint32_t i = 0; a->found.n > 0 && i < a->waits.nrecords; i++)
        if (a->waits.records[i].op == a->found.list[0].op)
            return a->waits.records[i].instance;
    return TT_DUMPS_NONE;
}

static void print_operations(const struct analysis *a)
{
    const uint32_t n = a->waits.ninstances, first = diagnosed_instance(a);
    uint32_t shown = 0;

    if (n == 0)
        return;
    printf("\n%-40s  %8s  %8s  %s\n", "incomplete operation", "members", "in it", "not called by");
    if (first != TT_DUMPS_NONE)
        print_operation(a, first);
    shown += first != TT_DUMPS_NONE;
    for (uint32_t i = 0; i < n && shown < OPERATIONS_MAX; i++) {
        if (i == first)
            continue;
        print_operation(a, i);
        shown++;
    }
    if (shown < n)
        printf("... (%u other incomplete operations)\n", n - shown);
}

void analyze_print(const struct analysis *a)
{
    print_words(a);
    print_counts(a);
    print_ranks(a);
    print_operations(a);
}
