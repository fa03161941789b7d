/* The ranks of a communicator, in its rank order, as ranges: "0-14:2,16". */
#ifndef TT_ANALYZE_MEMBERS_H
#define TT_ANALYZE_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_members_range {
    uint32_t first, n, step;    /* first, first + step, ...: n ranks */
};

struct tt_members {
    struct tt_members_range *ranges;
    uint32_t nranges;
    uint32_t n;                 /* ranks in all ranges */
};

/* Parses text: comma-separated N, A-B or A-B:STEP. Each rank must be below `ranks`, and there can
 * be at most `ranks` of them. Returns NULL, or the error; then *m is unchanged. On success the
 * caller must call tt_members_fini. */
const char *tt_members_parse(struct tt_members *m, const char *text, size_t bytes, uint32_t ranks);
void tt_members_fini(struct tt_members *m);

/* Returns the member at position (*range, *i), and advances it. The first position is 0, 0. Returns
 * false at the end. */
bool tt_members_next(const struct tt_members *m, uint32_t *range, uint32_t *i, uint32_t *rank);

#endif
