/* OpenSHMEM: atomic memory operations on a symmetric word of `pe`. Fetching operations return the
 * previous value of the word; their nbi forms have written it to *fetch when shmem_quiet returns.
 * Other operations are complete when shmem_quiet returns. Each operation is atomic with respect to
 * all atomics and signals of the same width. */
#ifndef TUTTI_SHMEM_ATOMICS_H
#define TUTTI_SHMEM_ATOMICS_H

#include "rma.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHMEMI_DECLARE_FETCH_SET_SWAP(NAME, T)                                                     \
    SHMEM_API T shmem_##NAME##_atomic_fetch(const T *source, int pe);                              \
    SHMEM_API T shmem_ctx_##NAME##_atomic_fetch(shmem_ctx_t ctx, const T *source, int pe);         \
    SHMEM_API void shmem_##NAME##_atomic_fetch_nbi(T *fetch, const T *source, int pe);             \
    SHMEM_API void shmem_ctx_##NAME##_atomic_fetch_nbi(shmem_ctx_t ctx, T *fetch, const T *source, \
                                                       int pe);                                    \
    SHMEM_API void shmem_##NAME##_atomic_set(T *dest, T value, int pe);                            \
    SHMEM_API void shmem_ctx_##NAME##_atomic_set(shmem_ctx_t ctx, T *dest, T value, int pe);       \
    SHMEM_API T shmem_##NAME##_atomic_swap(T *dest, T value, int pe);                              \
    SHMEM_API T shmem_ctx_##NAME##_atomic_swap(shmem_ctx_t ctx, T *dest, T value, int pe);         \
    SHMEM_API void shmem_##NAME##_atomic_swap_nbi(T *fetch, T *dest, T value, int pe);             \
    SHMEM_API void shmem_ctx_##NAME##_atomic_swap_nbi(shmem_ctx_t ctx, T *fetch, T *dest, T value, \
                                                      int pe);
SHMEMI_EXTENDED_AMO_TYPES(SHMEMI_DECLARE_FETCH_SET_SWAP)
#undef SHMEMI_DECLARE_FETCH_SET_SWAP

#define SHMEMI_DECLARE_COMPARE_SWAP_INC(NAME, T)                                                  \
    SHMEM_API T shmem_##NAME##_atomic_compare_swap(T *dest, T cond, T value, int pe);             \
    SHMEM_API T shmem_ctx_##NAME##_atomic_compare_swap(shmem_ctx_t ctx, T *dest, T cond, T value, \
                                                       int pe);                                   \
    SHMEM_API void shmem_##NAME##_atomic_compare_swap_nbi(T *fetch, T *dest, T cond, T value,     \
                                                          int pe);                                \
    SHMEM_API void shmem_ctx_##NAME##_atomic_compare_swap_nbi(shmem_ctx_t ctx, T *fetch, T *dest, \
                                                              T cond, T value, int pe);           \
    SHMEM_API void shmem_##NAME##_atomic_inc(T *dest, int pe);                                    \
    SHMEM_API void shmem_ctx_##NAME##_atomic_inc(shmem_ctx_t ctx, T *dest, int pe);               \
    SHMEM_API T shmem_##NAME##_atomic_fetch_inc(T *dest, int pe);                                 \
    SHMEM_API T shmem_ctx_##NAME##_atomic_fetch_inc(shmem_ctx_t ctx, T *dest, int pe);            \
    SHMEM_API void shmem_##NAME##_atomic_fetch_inc_nbi(T *fetch, T *dest, int pe);                \
    SHMEM_API void shmem_ctx_##NAME##_atomic_fetch_inc_nbi(shmem_ctx_t ctx, T *fetch, T *dest,    \
                                                           int pe);
SHMEMI_AMO_TYPES(SHMEMI_DECLARE_COMPARE_SWAP_INC)
#undef SHMEMI_DECLARE_COMPARE_SWAP_INC

/* OP is add, and, or, xor. */
#define SHMEMI_DECLARE_OP(NAME, OP, T)                                                            \
    SHMEM_API void shmem_##NAME##_atomic_##OP(T *dest, T value, int pe);                          \
    SHMEM_API void shmem_ctx_##NAME##_atomic_##OP(shmem_ctx_t ctx, T *dest, T value, int pe);     \
    SHMEM_API T shmem_##NAME##_atomic_fetch_##OP(T *dest, T value, int pe);                       \
    SHMEM_API T shmem_ctx_##NAME##_atomic_fetch_##OP(shmem_ctx_t ctx, T *dest, T value, int pe);  \
    SHMEM_API void shmem_##NAME##_atomic_fetch_##OP##_nbi(T *fetch, T *dest, T value, int pe);    \
    SHMEM_API void shmem_ctx_##NAME##_atomic_fetch_##OP##_nbi(shmem_ctx_t ctx, T *fetch, T *dest, \
                                                              T value, int pe);
#define SHMEMI_DECLARE_ADD(NAME, T) SHMEMI_DECLARE_OP(NAME, add, T)
#define SHMEMI_DECLARE_BITWISE(NAME, T) \
    SHMEMI_DECLARE_OP(NAME, and, T) SHMEMI_DECLARE_OP(NAME, or, T) SHMEMI_DECLARE_OP(NAME, xor, T)
SHMEMI_AMO_TYPES(SHMEMI_DECLARE_ADD)
SHMEMI_BITWISE_AMO_TYPES(SHMEMI_DECLARE_BITWISE)
#undef SHMEMI_DECLARE_BITWISE
#undef SHMEMI_DECLARE_ADD
#undef SHMEMI_DECLARE_OP

#ifdef __cplusplus
}
#endif
#endif
