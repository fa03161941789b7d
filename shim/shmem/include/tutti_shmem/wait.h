/* OpenSHMEM: wait until symmetric words of this PE satisfy a comparison with a value, or test them
 * without waiting. Any put, atomic or signal may update a word. Data that was put before the update
 * is visible when the call returns.
 *
 *     all       waits for, or tests, all words
 *     any       returns the index of one word that satisfies the comparison
 *     some      writes the indices of all words that satisfy it to indices[], returns their number
 *     vector    compares word i with cmp_values[i]
 *
 * Words with a nonzero status[] are ignored; status may be NULL. If all words are ignored, waits
 * return at once, `any` returns SIZE_MAX and `some` returns 0. */
#ifndef TUTTI_SHMEM_WAIT_H
#define TUTTI_SHMEM_WAIT_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHMEM_CMP_EQ 1
#define SHMEM_CMP_NE 2
#define SHMEM_CMP_GT 3
#define SHMEM_CMP_GE 4
#define SHMEM_CMP_LT 5
#define SHMEM_CMP_LE 6

#define SHMEMI_DECLARE_WAIT_ONE(NAME, T)                                              \
    SHMEM_API void shmem_##NAME##_wait_until(volatile T *ivar, int cmp, T cmp_value); \
    SHMEM_API int shmem_##NAME##_test(volatile T *ivar, int cmp, T cmp_value);
SHMEMI_WAIT_TYPES(SHMEMI_DECLARE_WAIT_ONE)
#undef SHMEMI_DECLARE_WAIT_ONE

#define SHMEMI_DECLARE_WAIT_MANY(NAME, T)                                                          \
    SHMEM_API void shmem_##NAME##_wait_until_all(volatile T *ivars, size_t nelems,                 \
                                                 const int *status, int cmp, T cmp_value);         \
    SHMEM_API size_t shmem_##NAME##_wait_until_any(volatile T *ivars, size_t nelems,               \
                                                   const int *status, int cmp, T cmp_value);       \
    SHMEM_API size_t shmem_##NAME##_wait_until_some(volatile T *ivars, size_t nelems,              \
                                                    size_t *indices, const int *status, int cmp,   \
                                                    T cmp_value);                                  \
    SHMEM_API void shmem_##NAME##_wait_until_all_vector(                                           \
        volatile T *ivars, size_t nelems, const int *status, int cmp, const T *cmp_values);        \
    SHMEM_API size_t shmem_##NAME##_wait_until_any_vector(                                         \
        volatile T *ivars, size_t nelems, const int *status, int cmp, const T *cmp_values);        \
    SHMEM_API size_t shmem_##NAME##_wait_until_some_vector(volatile T *ivars, size_t nelems,       \
                                                           size_t *indices, const int *status,     \
                                                           int cmp, const T *cmp_values);          \
    SHMEM_API int shmem_##NAME##_test_all(volatile T *ivars, size_t nelems, const int *status,     \
                                          int cmp, T cmp_value);                                   \
    SHMEM_API size_t shmem_##NAME##_test_any(volatile T *ivars, size_t nelems, const int *status,  \
                                             int cmp, T cmp_value);                                \
    SHMEM_API size_t shmem_##NAME##_test_some(volatile T *ivars, size_t nelems, size_t *indices,   \
                                              const int *status, int cmp, T cmp_value);            \
    SHMEM_API int shmem_##NAME##_test_all_vector(volatile T *ivars, size_t nelems,                 \
                                                 const int *status, int cmp, const T *cmp_values); \
    SHMEM_API size_t shmem_##NAME##_test_any_vector(                                               \
        volatile T *ivars, size_t nelems, const int *status, int cmp, const T *cmp_values);        \
    SHMEM_API size_t shmem_##NAME##_test_some_vector(volatile T *ivars, size_t nelems,             \
                                                     size_t *indices, const int *status, int cmp,  \
                                                     const T *cmp_values);
SHMEMI_AMO_TYPES(SHMEMI_DECLARE_WAIT_MANY)
#undef SHMEMI_DECLARE_WAIT_MANY

/* Returns the value of the signal that satisfied the comparison. */
SHMEM_API uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value);

#ifdef __cplusplus
}
#endif
#endif
