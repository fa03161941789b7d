/* How messages between processes of one host travel: through slots, in two copies that overlap, or in a single copy from the sender's memory.
 * Which is faster depends on the processor (what one core pays for what another one has written, against what the kernel takes for a
 * page), on the length, and on what the collective does meanwhile; so both are tried. Pure. */
#ifndef TUTTI_ENGINE_COPIES_H
#define TUTTI_ENGINE_COPIES_H

#include <stdbool.h>
#include <stdint.h>

#define TT_COPIES_KEPT 8u
#define TT_COPIES_BYTES_MIN (16u << 10)     /* shorter messages go through slots */
#define TT_COPIES_CLASSES 12u               /* by powers of two from there on */

/* What one kind of operation of one class of lengths has learnt. All zero: nothing yet. Ranks call collectives in the same order, so that they try
 * the same thing at the same time. */
struct tt_copies {
    bool single;                            /* the way in use */
    uint32_t ops;
    uint32_t known[2];                      /* operations timed, of either way */
    uint32_t cost[2][TT_COPIES_KEPT];      /* what the last ones took, in ps a byte */
};

/* 0 <= the class of messages of so many bytes < TT_COPIES_CLASSES; bytes >= TT_COPIES_BYTES_MIN. */
uint32_t tt_copies_class(uint64_t bytes);
/* Whether the next operation goes in a single copy. */
bool tt_copies_next(struct tt_copies *c);
/* Learns that an operation that went this way took ns for messages of so many bytes. */
void tt_copies_learn(struct tt_copies *c, bool single, uint64_t bytes, uint64_t ns);

#endif
