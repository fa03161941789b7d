/* Waits and tests, for each type. */
#include <stdio.h>
#include <string.h>

#include "watch.h"

/* clang-format off */
#define COMPARES(NAME, T)                                                              \
    static bool NAME##_compares(const volatile void *ivar, int cmp, const void *value) \
    {                                                                                  \
        const T word = __atomic_load_n((const volatile T *)ivar, __ATOMIC_ACQUIRE);    \
        T with;                                                                        \
                                                                                       \
        memcpy(&with, value, sizeof with);                                             \
        switch (cmp) {                                                                 \
        case SHMEM_CMP_EQ:                                                             \
            return word == with;                                                       \
        case SHMEM_CMP_NE:                                                             \
            return word != with;                                                       \
        case SHMEM_CMP_GT:                                                             \
            return word > with;                                                        \
        case SHMEM_CMP_GE:                                                             \
            return word >= with;                                                       \
        case SHMEM_CMP_LT:                                                             \
            return word < with;                                                        \
        default:                                                                       \
            return word <= with;                                                       \
        }                                                                              \
    }

#define PRINTS(NAME, T)                                                           \
    static void NAME##_print(const volatile void *word, char *out, size_t cap)    \
    {                                                                             \
        const T is = __atomic_load_n((const volatile T *)word, __ATOMIC_ACQUIRE); \
                                                                                  \
        if ((T)-1 < (T)1)                                                         \
            snprintf(out, cap, "%lld", (long long)is);                            \
        else                                                                      \
            snprintf(out, cap, "%llu", (unsigned long long)is);                   \
    }

#define WATCH(NAME, T, n, left_out, with, is_vector) \
    const struct sh_watch watch = {                  \
        .call = __func__,                            \
        .ivars = ivars,                              \
        .nelems = n,                                 \
        .bytes = sizeof(T),                          \
        .status = left_out,                          \
        .cmp = cmp,                                  \
        .values = with,                              \
        .vector = is_vector,                         \
        .compares = NAME##_compares,                 \
        .print = NAME##_print,                       \
    };

#define ONE(NAME, T)                                                        \
    COMPARES(NAME, T)                                                       \
    PRINTS(NAME, T)                                                         \
    void shmem_##NAME##_wait_until(volatile T *ivars, int cmp, T cmp_value) \
    {                                                                       \
        WATCH(NAME, T, 1, NULL, &cmp_value, false)                          \
                                                                            \
        sh_wait_all(&watch);                                                \
    }                                                                       \
    int shmem_##NAME##_test(volatile T *ivars, int cmp, T cmp_value)        \
    {                                                                       \
        WATCH(NAME, T, 1, NULL, &cmp_value, false)                          \
                                                                            \
        return sh_test_all(&watch);                                         \
    }
SHMEMI_WAIT_TYPES(ONE)

/* Defines the six forms with one value (POST empty, VALUE a value, `with` its address) or with one
 * value per word (POST _vector, VALUE an array). */
#define MANY_OF(NAME, T, POST, VALUE, with, is_vector)          \
    void shmem_##NAME##_wait_until_all##POST(volatile T *ivars, size_t nelems, const int *status, int cmp, VALUE) \
    {                                                           \
        WATCH(NAME, T, nelems, status, with, is_vector)         \
                                                                \
        sh_wait_all(&watch);                                    \
    }                                                           \
    size_t shmem_##NAME##_wait_until_any##POST(volatile T *ivars, size_t nelems, const int *status, int cmp, VALUE) \
    {                                                           \
        WATCH(NAME, T, nelems, status, with, is_vector)         \
                                                                \
        return sh_wait_any(&watch);                             \
    }                                                           \
    size_t shmem_##NAME##_wait_until_some##POST(volatile T *ivars, size_t nelems, size_t *indices, const int *status, \
                                                int cmp, VALUE) \
    {                                                           \
        WATCH(NAME, T, nelems, status, with, is_vector)         \
                                                                \
        return sh_wait_some(&watch, indices);                   \
    }                                                           \
    int shmem_##NAME##_test_all##POST(volatile T *ivars, size_t nelems, const int *status, int cmp, VALUE) \
    {                                                           \
        WATCH(NAME, T, nelems, status, with, is_vector)         \
                                                                \
        return sh_test_all(&watch);                             \
    }                                                           \
    size_t shmem_##NAME##_test_any##POST(volatile T *ivars, size_t nelems, const int *status, int cmp, VALUE) \
    {                                                           \
        WATCH(NAME, T, nelems, status, with, is_vector)         \
                                                                \
        return sh_test_any(&watch);                             \
    }                                                           \
    size_t shmem_##NAME##_test_some##POST(volatile T *ivars, size_t nelems, size_t *indices, const int *status, \
                                          int cmp, VALUE)       \
    {                                                           \
        WATCH(NAME, T, nelems, status, with, is_vector)         \
                                                                \
        return sh_test_some(&watch, indices);                   \
    }
#define MANY(NAME, T) \
    MANY_OF(NAME, T, , T cmp_value, &cmp_value, false) MANY_OF(NAME, T, _vector, const T *cmp_values, cmp_values, true)
SHMEMI_AMO_TYPES(MANY)

uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value)
{
    const volatile uint64_t *ivars = sig_addr;
    uint64_t seen;
    WATCH(uint64, uint64_t, 1, NULL, &cmp_value, false)

    do {                        /* the returned value satisfies the comparison, even if the
                                   signal changes concurrently */
        sh_wait_all(&watch);
        seen = __atomic_load_n(sig_addr, __ATOMIC_ACQUIRE);
    } while (!uint64_compares(&seen, cmp, &cmp_value));
    return seen;
}
