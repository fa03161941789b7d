#include "fold.h"

/* Integers wrap: they are added as unsigned. */
/* clang-format off */
#define FOLD(NAME, T, expression)                            \
    static void NAME(void *into, const void *with, size_t n) \
    {                                                        \
        T *x = into;                                         \
        const T *y = with;                                   \
                                                             \
        for (size_t i = 0; i < n; i++)                       \
            x[i] = (T)(expression);                          \
    }
#define ORDER(NAME, T) FOLD(NAME##_max, T, x[i] < y[i] ? y[i] : x[i]) FOLD(NAME##_min, T, y[i] < x[i] ? y[i] : x[i])
#define SUM(NAME, T) FOLD(NAME##_sum, T, x[i] + y[i]) FOLD(NAME##_prod, T, x[i] * y[i])
#define INTEGER(NAME, T)                                                \
    FOLD(NAME##_and, T, x[i] & y[i]) FOLD(NAME##_or, T, x[i] | y[i]) FOLD(NAME##_xor, T, x[i] ^ y[i]) \
    ORDER(NAME, T) FOLD(NAME##_sum, T, (uint64_t)x[i] + (uint64_t)y[i]) \
    FOLD(NAME##_prod, T, (uint64_t)x[i] * (uint64_t)y[i])
#define REAL(NAME, T) ORDER(NAME, T) SUM(NAME, T)
/* clang-format on */

INTEGER(i8, int8_t)
INTEGER(u8, uint8_t)
INTEGER(i16, int16_t)
INTEGER(u16, uint16_t)
INTEGER(i32, int32_t)
INTEGER(u32, uint32_t)
INTEGER(i64, int64_t)
INTEGER(u64, uint64_t)
REAL(f32, float)
REAL(f64, double)
REAL(ld, long double)
SUM(cf, shmemi_complexf)
SUM(cd, shmemi_complexd)

#define OF_SUM(NAME) [SH_SUM] = NAME##_sum, [SH_PROD] = NAME##_prod
#define OF_REAL(NAME) [SH_MAX] = NAME##_max, [SH_MIN] = NAME##_min, OF_SUM(NAME)
#define OF_INTEGER(NAME) \
    [SH_AND] = NAME##_and, [SH_OR] = NAME##_or, [SH_XOR] = NAME##_xor, OF_REAL(NAME)

static const struct {
    size_t bytes;
    sh_fold_fn *fold[SH_OPS];
} types[SH_TYPES] = {
    [SH_I8] = { 1, { OF_INTEGER(i8) } },
    [SH_U8] = { 1, { OF_INTEGER(u8) } },
    [SH_I16] = { 2, { OF_INTEGER(i16) } },
    [SH_U16] = { 2, { OF_INTEGER(u16) } },
    [SH_I32] = { 4, { OF_INTEGER(i32) } },
    [SH_U32] = { 4, { OF_INTEGER(u32) } },
    [SH_I64] = { 8, { OF_INTEGER(i64) } },
    [SH_U64] = { 8, { OF_INTEGER(u64) } },
    [SH_F32] = { sizeof(float), { OF_REAL(f32) } },
    [SH_F64] = { sizeof(double), { OF_REAL(f64) } },
    [SH_LONG_DOUBLE] = { sizeof(long double), { OF_REAL(ld) } },
    [SH_COMPLEX_FLOAT] = { sizeof(shmemi_complexf), { OF_SUM(cf) } },
    [SH_COMPLEX_DOUBLE] = { sizeof(shmemi_complexd), { OF_SUM(cd) } },
};

sh_fold_fn *sh_fold_of(enum sh_type type, enum sh_op op)
{
    return types[type].fold[op];
}

size_t sh_type_bytes(enum sh_type type)
{
    return types[type].bytes;
}
