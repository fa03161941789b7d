/* Interval tree of address ranges that may overlap, ordered by begin; each node stores the maximum
 * end of its subtree. A treap with hashed priorities. The caller owns the nodes. No call allocates,
 * blocks or reads a clock. One thread at a time.
 *
 * Source: R. Seidel, C. Aragon, "Randomized Search Trees", Algorithmica 16 (1996); the maximum end
 * as in Cormen et al., "Introduction to Algorithms", interval trees. */
#ifndef TT_WIRE_SPANS_H
#define TT_WIRE_SPANS_H

#include <stdbool.h>
#include <stdint.h>

struct tt_span {
    uint64_t begin, end;            /* begin < end; constant while in a tree */
    uint64_t last;                  /* private from here: maximum end in this subtree */
    uint64_t priority;
    struct tt_span *left, *right;
};

/* Inserts s, whose begin and end are set. *tree is the root, NULL if empty. */
void tt_spans_add(struct tt_span **tree, struct tt_span *s);
/* Removes s, which must be in the tree. */
void tt_spans_remove(struct tt_span **tree, struct tt_span *s);
/* Returns a range that contains all of [begin, end) and for which `fits` holds, or NULL. fits may
 * be NULL. */
struct tt_span *tt_spans_covering(struct tt_span *tree, uint64_t begin, uint64_t end,
                                  bool (*fits)(const struct tt_span *s, const void *arg),
                                  const void *arg);
/* Returns whether the ranges for which `fits` holds cover [begin, end) together. *from and *till:
 * the union of the ranges that were needed. */
bool tt_spans_cover(struct tt_span *tree, uint64_t begin, uint64_t end,
                    bool (*fits)(const struct tt_span *s, const void *arg), const void *arg,
                    uint64_t *from, uint64_t *till);
/* Returns the first range by begin that overlaps [begin, end) and for which `fits` holds, or
 * NULL. */
struct tt_span *tt_spans_touching(struct tt_span *tree, uint64_t begin, uint64_t end,
                                  bool (*fits)(const struct tt_span *s, const void *arg),
                                  const void *arg);

#endif
