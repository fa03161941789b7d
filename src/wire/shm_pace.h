/* Which kind of store to use towards a peer. Where the two processes share a cache, ordinary stores are best: the reader finds the
 * bytes there. Where they do not, every line has first to be taken back from the other's cache, and then to be fetched from there,
 * and stores past the cache are twice as fast for both. Which of the two it is, the hardware does not tell, and in a virtual machine it
 * changes within a second. So long copies are timed, and now and then the other kind is tried. */
#ifndef TT_WIRE_SHM_PACE_H
#define TT_WIRE_SHM_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define TT_SHM_PACE_TRIES 3

struct tt_shm_pace {
    bool past_cache;                        /* the kind in use */
    uint8_t tries;                          /* copies of the other kind still to be timed before they are compared */
    uint32_t copies;
    uint32_t used[TT_SHM_PACE_TRIES];       /* what the last copies cost, in ps a KiB */
    uint32_t tried[TT_SHM_PACE_TRIES];      /* and those of the other kind */
};

/* Copies src[bytes] to dst, 16 KiB or more. */
void tt_shm_pace_copy(struct tt_shm_pace *pace, void *dst, const void *src, uint64_t bytes);

/* Learns that a copy with the kind of store `past_cache` cost so much. Pure, for tests; whether to try the other kind next: see
 * tt_shm_pace_next. */
void tt_shm_pace_learn(struct tt_shm_pace *pace, bool past_cache, uint32_t cost);
/* The kind of store for the next copy. */
bool tt_shm_pace_next(struct tt_shm_pace *pace);

#endif
