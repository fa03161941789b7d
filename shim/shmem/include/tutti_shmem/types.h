/* The type tables of the OpenSHMEM specification as lists. Each list applies X(NAME, TYPE) to all
 * types that a family of functions supports. */
#ifndef TUTTI_SHMEM_TYPES_H
#define TUTTI_SHMEM_TYPES_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SHMEM_API __attribute__((visibility("default")))
#define SHMEM_NORETURN __attribute__((noreturn))
#else
#define SHMEM_API
#define SHMEM_NORETURN
#endif

/* _Complex is not part of C++; gcc and clang support it as an extension. */
__extension__ typedef float _Complex shmemi_complexf;
__extension__ typedef double _Complex shmemi_complexd;

/* clang-format off */
#define SHMEMI_FIXED_TYPES(X)                                                                      \
    X(int8, int8_t) X(int16, int16_t) X(int32, int32_t) X(int64, int64_t) X(uint8, uint8_t)        \
    X(uint16, uint16_t) X(uint32, uint32_t) X(uint64, uint64_t) X(size, size_t)

/* put, get, collectives without reductions */
#define SHMEMI_RMA_TYPES(X)                                                                        \
    X(float, float) X(double, double) X(longdouble, long double) X(char, char)                     \
    X(schar, signed char) X(short, short) X(int, int) X(long, long) X(longlong, long long)         \
    X(uchar, unsigned char) X(ushort, unsigned short) X(uint, unsigned int)                        \
    X(ulong, unsigned long) X(ulonglong, unsigned long long) X(ptrdiff, ptrdiff_t)                 \
    SHMEMI_FIXED_TYPES(X)

/* atomic add, inc and compare_swap; wait and test on arrays */
#define SHMEMI_AMO_TYPES(X)                                                                        \
    X(int, int) X(long, long) X(longlong, long long) X(uint, unsigned int) X(ulong, unsigned long) \
    X(ulonglong, unsigned long long) X(int32, int32_t) X(int64, int64_t) X(uint32, uint32_t)       \
    X(uint64, uint64_t) X(size, size_t) X(ptrdiff, ptrdiff_t)

/* atomic fetch, set and swap */
#define SHMEMI_EXTENDED_AMO_TYPES(X) X(float, float) X(double, double) SHMEMI_AMO_TYPES(X)

/* atomic and, or and xor */
#define SHMEMI_BITWISE_AMO_TYPES(X)                                                                \
    X(uint, unsigned int) X(ulong, unsigned long) X(ulonglong, unsigned long long)                 \
    X(int32, int32_t) X(int64, int64_t) X(uint32, uint32_t) X(uint64, uint64_t)

/* wait_until and test: the types of atomics, and two deprecated types */
#define SHMEMI_WAIT_TYPES(X) X(short, short) X(ushort, unsigned short) SHMEMI_AMO_TYPES(X)

/* reductions of teams */
#define SHMEMI_REDUCE_BITS_TYPES(X)                                                                \
    X(uchar, unsigned char) X(ushort, unsigned short) X(uint, unsigned int)                        \
    X(ulong, unsigned long) X(ulonglong, unsigned long long) SHMEMI_FIXED_TYPES(X)
#define SHMEMI_REDUCE_ORDER_TYPES(X) SHMEMI_RMA_TYPES(X)
#define SHMEMI_REDUCE_SUM_TYPES(X)                                                                 \
    SHMEMI_RMA_TYPES(X) X(complexf, shmemi_complexf) X(complexd, shmemi_complexd)

/* reductions of active sets */
#define SHMEMI_TO_ALL_BITS_TYPES(X) X(short, short) X(int, int) X(long, long) X(longlong, long long)
#define SHMEMI_TO_ALL_ORDER_TYPES(X)                                                               \
    SHMEMI_TO_ALL_BITS_TYPES(X) X(float, float) X(double, double) X(longdouble, long double)
#define SHMEMI_TO_ALL_SUM_TYPES(X)                                                                 \
    SHMEMI_TO_ALL_ORDER_TYPES(X) X(complexf, shmemi_complexf) X(complexd, shmemi_complexd)

/* X(BITS, BYTES) for functions whose names contain the element size in bits. */
#define SHMEMI_SIZES(X) X(8, 1) X(16, 2) X(32, 4) X(64, 8) X(128, 16)
/* clang-format on */

#endif
