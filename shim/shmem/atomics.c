/* Atomics for each type. A word is passed to the windows as the unsigned integer with the same
 * bits. */
#include <string.h>

#include "move.h"

#define DEF SHMEM_CTX_DEFAULT

/* clang-format off */
/* Every type of this file has 4 or 8 bytes. */
#define BITS(NAME, T)                                                                      \
    _Static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a word");                            \
    static inline uint64_t NAME##_bits(T value)                                            \
    {                                                                                      \
        uint32_t narrow = 0;                                                               \
        uint64_t wide = 0;                                                                 \
                                                                                           \
        memcpy(sizeof value == 4 ? (void *)&narrow : (void *)&wide, &value, sizeof value); \
        return wide | narrow;                                                              \
    }                                                                                      \
    static inline T NAME##_of(uint64_t bits)                                               \
    {                                                                                      \
        const uint32_t narrow = (uint32_t)bits;                                            \
        T value;                                                                           \
                                                                                           \
        memcpy(&value, sizeof value == 4 ? (const void *)&narrow : (const void *)&bits, sizeof value); \
        return value;                                                                      \
    }
SHMEMI_EXTENDED_AMO_TYPES(BITS)

/* The four forms of a call that returns the previous value. PARAMS is its parameter list, in
 * parentheses, without the context, fetch and pe. */
#define UNWRAP(...) __VA_ARGS__
#define FETCH(NAME, CALL, T, DEST, PARAMS, op, operand, compare)                                \
    T shmem_##NAME##_atomic_##CALL(DEST UNWRAP PARAMS, int pe)                                  \
    {                                                                                           \
        return NAME##_of(sh_fetch(__func__, DEF, dest, sizeof(T), op, operand, compare, pe));   \
    }                                                                                           \
    T shmem_ctx_##NAME##_atomic_##CALL(shmem_ctx_t ctx, DEST UNWRAP PARAMS, int pe)             \
    {                                                                                           \
        return NAME##_of(sh_fetch(__func__, ctx, dest, sizeof(T), op, operand, compare, pe));   \
    }                                                                                           \
    void shmem_##NAME##_atomic_##CALL##_nbi(T *fetch, DEST UNWRAP PARAMS, int pe)               \
    {                                                                                           \
        *fetch = NAME##_of(sh_fetch(__func__, DEF, dest, sizeof(T), op, operand, compare, pe)); \
    }                                                                                           \
    void shmem_ctx_##NAME##_atomic_##CALL##_nbi(shmem_ctx_t ctx, T *fetch, DEST UNWRAP PARAMS, int pe) \
    {                                                                                           \
        *fetch = NAME##_of(sh_fetch(__func__, ctx, dest, sizeof(T), op, operand, compare, pe)); \
    }
#define CHANGE(NAME, CALL, T, PARAMS, op, operand)                                        \
    void shmem_##NAME##_atomic_##CALL(T *dest UNWRAP PARAMS, int pe)                      \
    {                                                                                     \
        sh_change(__func__, DEF, dest, sizeof(T), op, operand, pe);                       \
    }                                                                                     \
    void shmem_ctx_##NAME##_atomic_##CALL(shmem_ctx_t ctx, T *dest UNWRAP PARAMS, int pe) \
    {                                                                                     \
        sh_change(__func__, ctx, dest, sizeof(T), op, operand, pe);                       \
    }

#define EXTENDED(NAME, T)                                                                \
    FETCH(NAME, fetch, T, const T *dest, (), TUTTI_ATOMIC_OR, 0, 0)                      \
    FETCH(NAME, swap, T, T *dest, (, T value), TUTTI_ATOMIC_SWAP, NAME##_bits(value), 0) \
    CHANGE(NAME, set, T, (, T value), TUTTI_ATOMIC_SWAP, NAME##_bits(value))
SHMEMI_EXTENDED_AMO_TYPES(EXTENDED)

/* Defines CALL and fetch_CALL. */
#define OP(NAME, CALL, T, op)                                  \
    CHANGE(NAME, CALL, T, (, T value), op, NAME##_bits(value)) \
    FETCH(NAME, fetch_##CALL, T, T *dest, (, T value), op, NAME##_bits(value), 0)
#define STANDARD(NAME, T)                                          \
    FETCH(NAME, compare_swap, T, T *dest, (, T cond, T value), TUTTI_ATOMIC_COMPARE_SWAP, NAME##_bits(value), \
          NAME##_bits(cond))                                       \
    CHANGE(NAME, inc, T, (), TUTTI_ATOMIC_ADD, 1)                  \
    FETCH(NAME, fetch_inc, T, T *dest, (), TUTTI_ATOMIC_ADD, 1, 0) \
    OP(NAME, add, T, TUTTI_ATOMIC_ADD)
SHMEMI_AMO_TYPES(STANDARD)

#define BITWISE(NAME, T) \
    OP(NAME, and, T, TUTTI_ATOMIC_AND) OP(NAME, or, T, TUTTI_ATOMIC_OR) OP(NAME, xor, T, TUTTI_ATOMIC_XOR)
SHMEMI_BITWISE_AMO_TYPES(BITWISE)
