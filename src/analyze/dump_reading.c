#include "analyze/dump_reading.h"

#include <stdarg.h>
#include <stdio.h>

void tt_reading_problem(struct tt_dumps *d, const char *fmt, ...)
{
    va_list ap;

    if (d->nproblems < TT_DUMPS_PROBLEMS_MAX) {
        va_start(ap, fmt);
        vsnprintf(d->problems[d->nproblems], sizeof d->problems[0], fmt, ap);
        va_end(ap);
    }
    d->nproblems++;
}

void tt_reading_broken(struct tt_reading *g, const char *why)
{
    g->is_broken = true;
    tt_reading_problem(g->d, "%s:%llu: %s (the rest of this dump is not used)", g->name,
                       (unsigned long long)g->line, why);
}

void tt_reading_reject(struct tt_reading *g, const char *why)
{
    g->status = TUTTI_ERR_INVALID;
    tt_reading_problem(g->d, "%s:%llu: %s", g->name, (unsigned long long)g->line, why);
}

void tt_reading_no_memory(struct tt_reading *g)
{
    g->status = TUTTI_ERR_NOMEM;
    tt_reading_problem(g->d, "%s:%llu: out of memory", g->name, (unsigned long long)g->line);
}

/* ---- values ---- */

uint32_t tt_reading_text_of(struct tt_reading *g, struct tt_line *l, size_t cap)
{
    struct tt_line_text t;
    char text[TT_READING_TEXT_BYTES];

    if (tt_line_null(l) || !tt_line_string(l, &t))
        return TT_INTERN_EMPTY;
    return tt_intern_add(&g->d->texts, text, tt_line_copy(&t, text, cap));
}

uint32_t tt_reading_text(struct tt_reading *g, struct tt_line *l)
{
    return tt_reading_text_of(g, l, TT_READING_TEXT_BYTES);
}

int64_t tt_reading_time(const struct tt_reading *g, struct tt_line *l)
{
    int64_t t;

    if (tt_line_null(l) || !tt_line_i64(l, &t) || __builtin_add_overflow(t, g->offset_ns, &t))
        return TT_DUMPS_NEVER;
    return t;
}

uint32_t tt_reading_below(struct tt_line *l, uint32_t end)
{
    int64_t n;

    if (tt_line_null(l) || !tt_line_i64(l, &n) || n < 0 || n >= end)
        return TT_DUMPS_NONE;
    return (uint32_t)n;
}

uint32_t tt_reading_rank_number(struct tt_reading *g, struct tt_line *l)
{
    const uint32_t rank = tt_reading_below(l, g->d->nranks);

    if (rank != TT_DUMPS_NONE && rank >= g->d->nmentioned)
        g->d->nmentioned = rank + 1;
    return rank;
}

struct tt_dumps_rank *tt_reading_rank(struct tt_reading *g, uint32_t rank)
{
    struct tt_dumps_rank *r = &g->d->ranks[rank];

    if (rank >= g->d->nmentioned)
        g->d->nmentioned = rank + 1;
    if (!r->is_used)
        *r = (struct tt_dumps_rank){ TT_DUMPS_RANK_UNUSED, .is_used = true };
    return r;
}

uint64_t tt_reading_u64(struct tt_line *l)
{
    uint64_t n;

    return tt_line_null(l) || !tt_line_u64(l, &n) ? 0 : n;
}

uint32_t tt_reading_u32(struct tt_line *l)
{
    const uint64_t n = tt_reading_u64(l);

    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}
