/* What there is of some ranks and of most is not: a table by rank that holds only what was set, so that a rank without costs nothing. Open
 * addressing, at least half of it free. One thread at a time. */
#ifndef TT_BASE_SPARSE_H
#define TT_BASE_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_sparse_slot {
    uint32_t rank;
    void *what;                 /* NULL: the slot is free */
};

/* All zero: empty. What it points to is the caller's. */
struct tt_sparse {
    struct tt_sparse_slot *slot;    /* [cap] */
    uint32_t n, cap;                /* cap: a power of two, or 0 */
};

/* NULL: nothing was set for that rank. */
void *tt_sparse_get(const struct tt_sparse *s, uint32_t rank);
/* Sets what there is of a rank, not NULL. False: out of memory; never for a rank that has something. */
bool tt_sparse_set(struct tt_sparse *s, uint32_t rank, void *what);
/* Goes over what there is, in no order: *at is 0 at first. NULL: that was all. Nothing may be set in between. */
void *tt_sparse_next(const struct tt_sparse *s, uint32_t *at);
/* Frees the table, and not what it points to; it is empty then. */
void tt_sparse_fini(struct tt_sparse *s);
/* That the table takes. */
size_t tt_sparse_bytes(const struct tt_sparse *s);

#endif
