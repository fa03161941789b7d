/* Contributions of the members of a run with changing membership (prog_churn.c), and their results,
 * which one process recomputes later (prog_churn_serial.c). They depend only on the member's id and
 * the step's number. */
#ifndef TESTS_CLUSTER_CHURN_H
#define TESTS_CLUSTER_CHURN_H

#include <stddef.h>
#include <stdint.h>
#include "base/prng.h"

#define NUMBERS 4096
#define MEMBERS_MAX 16          /* of a view, including members that are about to leave */
#define RAMP 256                /* range of the numbers in a quantized sum */
#define PLACES 2                /* averages recorded with each step */

static const size_t churn_places[PLACES] = { 1000, NUMBERS - 1 };

static inline uint64_t churn_number(uint64_t id, uint64_t step, size_t i)
{
    return tt_mix64(id * 1000003 + step * 31 + i);
}

/* Below 1024: sums, and averages over powers of two, are exact; other averages round once. */
static inline float churn_weight(uint64_t id, uint64_t step)
{
    return (float)(tt_mix64(id * 524287 + step) % 1024);
}

/* Returns element i of a member's contribution to the quantized average. */
static inline float churn_quantized(uint64_t id, uint64_t step, size_t i)
{
    return churn_weight(id, step) + (float)(i % RAMP);
}

/* Returns the maximum error of a quantized average of n members (docs/quantization.md). Each
 * member's numbers have the range RAMP. Each of at most 2 (n - 1) encodings for an average of n
 * loses half a step of 1/255 of that. Error feedback also adds earlier errors: two encodings at
 * each member, each of a sum of at most MEMBERS_MAX. */
static inline double churn_quantized_bound(size_t n)
{
    return 1.1 * (double)(n - 1) + MEMBERS_MAX + 1;
}

/* Returns a hash of the exact part of a state: its step and sums[NUMBERS]. */
static inline uint64_t churn_hash(uint64_t step, const uint64_t *sums)
{
    uint64_t hash = step;

    for (size_t i = 0; i < NUMBERS; i++)
        hash = tt_mix64(hash ^ sums[i]);
    return hash;
}

#endif
