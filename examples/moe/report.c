#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t rounds_of(const struct report *r) { return (size_t)r->o->rounds; }

/* ---- text ---- */

static const char *const what_forms_are[FORMS] = {
    [COLLECTIVE] = "dispatch, experts, combine, as separate calls",
    [PADDED] = ("two allgathers, an alltoall padded to the largest possible size, the experts, and "
               "an alltoall of the results"),
    [FULL] = "one kernel; its proxy fences once per group of tiles, before their signals",
    [COUPLED] = "one kernel; its proxy drains before each tile's signal",
    [DECOUPLED] = "one kernel; its proxy drains once per group of tiles",
    [ORDERED] = "one kernel; its proxy fences before each tile's signal",
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Prints median, minimum and maximum over rounds. */
static void print_spread(const struct report *r, const char *name, int line)
{
    const size_t n = rounds_of(r);
    double sorted[ROUNDS_MAX];

    memcpy(sorted, r->ms + (size_t)line * n, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    printf("%-14s %10.3f %10.3f %10.3f", name,
           n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2, sorted[0],
           sorted[n - 1]);
}

void report_table(const struct report *r)
{
    const struct shape *s = r->shape;

    printf("%s with widths scaled by 1/%u: hidden %u, intermediate %u; %u experts, %u per token\n",
           s->name, s->scale, s->hidden, s->inner, s->experts, s->top_k);
    printf("%u ranks with %ld tokens each; encoding of tokens %s, of results %s; %u blocks per "
           "kernel; at most %llu bytes put by a proxy per round\n",
           r->nranks, r->o->tokens, tutti_dtype_name(r->o->there), tutti_dtype_name(r->o->back),
           r->nblocks, (unsigned long long)r->put_bytes);
    printf("all results are bitwise equal to a dense reference\n\n");
    printf("%-14s %10s %10s %10s %8s %8s %8s\n", "form", "median ms", "min ms", "max ms", "puts",
           "drains", "fences");
    for (int form = 0; form < FORMS; form++) {
        const tutti_device_counters *c = &r->proxy[form];

        if (!options_want(r->o, form))
            continue;
        print_spread(r, options_forms[form], form);
        if (form == COLLECTIVE) {
            printf("\n");
            print_spread(r, "  computation", FORMS);
        } else if (form >= FULL) {
            printf(" %8llu %8llu %8llu", (unsigned long long)c->puts, (unsigned long long)c->drains,
                   (unsigned long long)c->fences);
        }
        printf("\n");
    }
    printf("\nms: time of a round on the slowest rank, over %ld rounds. puts, drains, fences: by "
           "the proxy of rank 0 in the last round. A drain\n"
           "waits until all puts are complete. A fence orders the next signal to a rank after "
           "earlier puts.\n",
           r->o->rounds);
    for (int form = 0; form < FORMS; form++)
        if (options_want(r->o, form))
            printf("%s: %s\n", options_forms[form], what_forms_are[form]);
}

/* ---- JSON ---- */

static void print_times(const struct report *r, const char *name, int line)
{
    printf(", \"%s_ms\": [", name);
    for (size_t i = 0; i < rounds_of(r); i++)
        printf("%s%.3f", i ? ", " : "", r->ms[(size_t)line * rounds_of(r) + i]);
    printf("]");
}

void report_json(const struct report *r)
{
    const struct shape *s = r->shape;
    const char *between = "";

    printf("{\"shape\": \"%s\", \"hidden\": %u, \"intermediate\": %u, \"experts\": %u, \"top_k\": "
           "%u, \"ranks\": %u, \"tokens\": %ld, "
           "\"there\": \"%s\", \"back\": \"%s\", \"blocks\": %u, \"put_bytes\": %llu",
           s->name, s->hidden, s->inner, s->experts, s->top_k, r->nranks, r->o->tokens,
           tutti_dtype_name(r->o->there), tutti_dtype_name(r->o->back), r->nblocks,
           (unsigned long long)r->put_bytes);
    for (int form = 0; form < FORMS; form++)
        if (options_want(r->o, form))
            print_times(r, options_forms[form], form);
    if (options_want(r->o, COLLECTIVE))
        print_times(r, "compute", FORMS);
    printf(", \"proxy\": {");
    for (int form = FULL; form < FORMS; form++)
        if (options_want(r->o, form)) {
            printf("%s\"%s\": {\"puts\": %llu, \"drains\": %llu, \"fences\": %llu}", between,
                   options_forms[form], (unsigned long long)r->proxy[form].puts,
                   (unsigned long long)r->proxy[form].drains,
                   (unsigned long long)r->proxy[form].fences);
            between = ", ";
        }
    printf("}}\n");
}
