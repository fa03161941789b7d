/* Overflow-checked sizes and address ranges that a program passes. */
#ifndef TT_BASE_CHECKED_H
#define TT_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* exclusive upper bound of user addresses, with five-level page tables too */
#define TT_ADDRESS_MAX ((uint64_t)1 << 57)

/* Sets *out = n * each. Returns false on overflow, or if the product does not fit in the address
 * space. */
static inline bool tt_bytes_of(uint64_t n, uint64_t each, uint64_t *out)
{
    return !__builtin_mul_overflow(n, each, out) && *out <= TT_ADDRESS_MAX;
}

/* Exclusive upper bound of the addresses that the kernel assigns by default: no memory begins below
 * and ends beyond it. 0: unknown. */
#if defined(__x86_64__)
#define TT_ADDRESS_DEFAULT_MAX ((uint64_t)1 << 47)
#elif defined(__aarch64__)
#define TT_ADDRESS_DEFAULT_MAX ((uint64_t)1 << 48)
#else
#define TT_ADDRESS_DEFAULT_MAX ((uint64_t)0)
#endif

/* Returns whether mem[bytes] lies within the address space of a process. */
static inline bool tt_memory_can_be(const void *mem, uint64_t bytes)
{
    const uint64_t begin = (uintptr_t)mem;
    uint64_t end;

    if (__builtin_add_overflow(begin, bytes, &end) || end > TT_ADDRESS_MAX)
        return false;
    return begin >= TT_ADDRESS_DEFAULT_MAX || end <= TT_ADDRESS_DEFAULT_MAX;
}

/* Returns whether an array of n elements of `each` bytes at mem lies within the address space. */
static inline bool tt_array_can_be(const void *mem, uint64_t n, uint64_t each)
{
    uint64_t bytes;

    return tt_bytes_of(n, each, &bytes) && tt_memory_can_be(mem, bytes);
}

/* Returns whether a[a_bytes] and b[b_bytes] share a byte. NULL overlaps nothing. */
static inline bool tt_overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    const uint64_t from = (uintptr_t)a, other = (uintptr_t)b;

    if (!a || !b || !a_bytes || !b_bytes)
        return false;
    return from < other ? other - from < a_bytes : from - other < b_bytes;
}

#endif
