/* What members of a churning run (prog_churn.c) contribute to a step, and what one process makes of it afterwards (prog_churn_serial.c): anybody
 * can compute it from a member's id and the step's number. */
#ifndef TESTS_CLUSTER_CHURN_H
#define TESTS_CLUSTER_CHURN_H

#include <stddef.h>
#include <stdint.h>
#include "base/prng.h"

#define NUMBERS 4096
#define MEMBERS_MAX 16          /* of a view, with those that are about to leave it */
#define RAMP 256                /* what numbers of a quantized sum range over */
#define PLACES 2                /* of averages that are written down with each step */

static const size_t churn_places[PLACES] = { 1000, NUMBERS - 1 };

static inline uint64_t churn_number(uint64_t id, uint64_t step, size_t i)
{
    return tt_mix64(id * 1000003 + step * 31 + i);
}

/* Below 1024: sums and averages over powers of two are exact, other averages round once. */
static inline float churn_weight(uint64_t id, uint64_t step)
{
    return (float)(tt_mix64(id * 524287 + step) % 1024);
}

/* Element i of what a member gives to the quantized average. */
static inline float churn_quantized(uint64_t id, uint64_t step, size_t i)
{
    return churn_weight(id, step) + (float)(i % RAMP);
}

/* How far a quantized average of n members may be from that of their numbers (docs/quantization.md). Each member's numbers range over RAMP. Of an
 * average of n at most 2 (n - 1) packings lose half a step of 1 in 255 of that; and what was lost before is made up for: two packings at each member, each
 * of a sum of at most MEMBERS_MAX. */
static inline double churn_quantized_bound(size_t n)
{
    return 1.1 * (double)(n - 1) + MEMBERS_MAX + 1;
}

/* A state's part that is exact, as one number: its step and sums[NUMBERS]. */
static inline uint64_t churn_hash(uint64_t step, const uint64_t *sums)
{
    uint64_t hash = step;

    for (size_t i = 0; i < NUMBERS; i++)
        hash = tt_mix64(hash ^ sums[i]);
    return hash;
}

#endif
