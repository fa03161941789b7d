/* Map from ranks to pointers, for data that few ranks have; other ranks take no memory. Open
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

/* All zero: empty. Does not own the pointed-to data. */
struct tt_sparse {
    struct tt_sparse_slot *slot;    /* [cap] */
    uint32_t n, cap;                /* cap: a power of two, or 0 */
};

/* Returns NULL if nothing is set for the rank. */
void *tt_sparse_get(const struct tt_sparse *s, uint32_t rank);
/* Sets the pointer of a rank; not NULL. Returns false if out of memory, which cannot occur for a
 * rank that has one. */
bool tt_sparse_set(struct tt_sparse *s, uint32_t rank, void *what);
/* Removes the pointer of a rank, if it has one. */
void tt_sparse_remove(struct tt_sparse *s, uint32_t rank);
/* Iterates in unspecified order; *at is 0 at first. Returns NULL at the end. The map must not
 * change in between. */
void *tt_sparse_next(const struct tt_sparse *s, uint32_t *at);
/* Frees the table, not the pointed-to data. The map is then empty. */
void tt_sparse_fini(struct tt_sparse *s);
/* Returns the bytes allocated by the table. */
size_t tt_sparse_bytes(const struct tt_sparse *s);

#endif
