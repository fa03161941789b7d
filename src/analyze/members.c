#include "analyze/members.h"

#include <stdlib.h>

/* Reads a number at text[*at]. Returns false without digits or beyond UINT32_MAX. */
static bool members_number(const char *text, size_t bytes, size_t *at, uint32_t *out)
{
    uint64_t n = 0;
    const size_t begin = *at;

    for (; *at < bytes && text[*at] >= '0' && text[*at] <= '9'; ++*at) {
        n = 10 * n + (uint64_t)(text[*at] - '0');
        if (n > UINT32_MAX)
            return false;
    }
    *out = (uint32_t)n;
    return *at > begin;
}

static const char *members_range(const char *text, size_t bytes, size_t *at, uint32_t ranks,
                                 struct tt_members_range *out)
{
    uint32_t first, last, step = 1;

    if (!members_number(text, bytes, at, &first))
        return "a rank is expected";
    last = first;
    if (*at < bytes && text[*at] == '-') {
        ++*at;
        if (!members_number(text, bytes, at, &last) || last < first)
            return "a range must end with a rank that is not below its first rank";
        if (*at < bytes && text[*at] == ':') {
            ++*at;
            if (!members_number(text, bytes, at, &step) || step == 0)
                return "a step must be at least 1";
        }
    }
    if (last >= ranks)
        return "a rank is outside the job";
    *out =
        (struct tt_members_range){ .first = first, .n = 1 + (last - first) / step, .step = step };
    return NULL;
}

const char *tt_members_parse(struct tt_members *m, const char *text, size_t bytes, uint32_t ranks)
{
    struct tt_members made = { NULL, 0, 0 };
    const char *wrong = NULL;
    size_t commas = 0, at = 0;

    for (size_t i = 0; i < bytes; i++)
        commas += text[i] == ',';
    if (bytes > 0)
        made.ranges = calloc(commas + 1, sizeof *made.ranges);
    if (bytes > 0 && !made.ranges)
        return "out of memory";
    while (!wrong && at < bytes) {
        struct tt_members_range *r = &made.ranges[made.nranges++];

        wrong = members_range(text, bytes, &at, ranks, r);
        if (!wrong && r->n > ranks - made.n)
            wrong = "more members than ranks in the job";
        if (!wrong && at < bytes && (text[at++] != ',' || at == bytes))
            wrong = "a comma and a rank are expected";
        made.n += wrong ? 0 : r->n;
    }
    if (wrong)
        tt_members_fini(&made);
    else
        *m = made;
    return wrong;
}

void tt_members_fini(struct tt_members *m)
{
    free(m->ranges);
    *m = (struct tt_members){ NULL, 0, 0 };
}

bool tt_members_next(const struct tt_members *m, uint32_t *range, uint32_t *i, uint32_t *rank)
{
    if (*range == m->nranges)
        return false;
    *rank = m->ranges[*range].first + *i * m->ranges[*range].step;
    if (++*i == m->ranges[*range].n) {
        *i = 0;
        ++*range;
    }
    return true;
}
