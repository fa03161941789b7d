/* Whether there is a ring of allowed links alone, depth first: for few links, of which most ways soon come to an end. In slices. Pure. */
#ifndef TT_ELASTIC_RING_DIG_H
#define TT_ELASTIC_RING_DIG_H

#include <stddef.h>
#include "base/prng.h"
#include "elastic/ring_matrix.h"

/* In memory of the caller's. */
struct tt_ring_dig {
    uint32_t n, words, length;
    uint64_t *to, *from;    /* [n][words] whom each can send to, get from */
    uint64_t *left;         /* [n][words] at each place, who was not tried there yet */
    uint64_t *free;         /* [words] who is not on the way */
    uint32_t *way;          /* [n] peers, `length` of them */
};

enum tt_ring_dug { TT_RING_DIGGING, TT_RING_DUG, TT_RING_NO_RING };

size_t tt_ring_dig_bytes(uint32_t n);
/* Begins, in memory[tt_ring_dig_bytes(c->n)], aligned to 8, with the links of slow <= limit, at a peer that is drawn; n from 2 to PEERS_MAX. */
void tt_ring_dig_init(struct tt_ring_dig *d, const struct tt_ring_costs *c, uint64_t limit, struct tt_prng *random,
                      void *memory);
/* One peer further, or back: n^2 / 16 operations. DUG: way[n] is a ring; NO_RING: proven. Not to be called after either. */
enum tt_ring_dug tt_ring_dig_step(struct tt_ring_dig *d);

#endif
