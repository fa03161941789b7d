/* Ranges of addresses that may overlap: a tree by where they begin, each node with the furthest end below it. A treap, with
 * priorities that are hashed. The nodes are the caller's, and no call allocates, blocks or
 * looks at a clock. One thread at a time.
 *
 * Source: R. Seidel, C. Aragon, "Randomized Search Trees", Algorithmica 16 (1996); the furthest end as in Cormen et al., "Introduction to
 * Algorithms", interval trees. */
#ifndef TT_WIRE_SPANS_H
#define TT_WIRE_SPANS_H

#include <stdbool.h>
#include <stdint.h>

struct tt_span {
    uint64_t begin, end;            /* begin < end; not changed while it is in a tree */
    uint64_t last;                  /* the rest is the tree's own: the furthest end here and below */
    uint64_t priority;
    struct tt_span *left, *right;
};

/* Adds s, of which begin and end are set. The tree is its root, NULL at first. */
void tt_spans_add(struct tt_span **tree, struct tt_span *s);
/* s must be in it. */
void tt_spans_remove(struct tt_span **tree, struct tt_span *s);
/* One that has all of [begin, end) and for which `fits` holds; NULL: there is none. fits may be NULL. */
struct tt_span *tt_spans_covering(struct tt_span *tree, uint64_t begin, uint64_t end,
                                  bool (*fits)(const struct tt_span *s, const void *arg), const void *arg);
/* Whether those for which `fits` holds have all of [begin, end) together. *from and *till: what the ones have that were needed for that. */
bool tt_spans_cover(struct tt_span *tree, uint64_t begin, uint64_t end,
                    bool (*fits)(const struct tt_span *s, const void *arg), const void *arg, uint64_t *from,
                    uint64_t *till);
/* The one that begins first of those that have some of [begin, end) and for which `fits` holds; NULL: there is none. */
struct tt_span *tt_spans_touching(struct tt_span *tree, uint64_t begin, uint64_t end,
                                  bool (*fits)(const struct tt_span *s, const void *arg), const void *arg);

#endif
