/* Reductions. Tutti performs them if it supports the type and the PEs have a communicator; else
 * this file does. */
#ifndef TUTTI_SHIM_SHMEM_REDUCE_H
#define TUTTI_SHIM_SHMEM_REDUCE_H

#include <limits.h>
#include "party.h"

/* The types of Tutti that exist in C, and types that Tutti does not support. */
enum sh_type {
    SH_I8,
    SH_U8,
    SH_I16,
    SH_U16,
    SH_I32,
    SH_U32,
    SH_I64,
    SH_U64,
    SH_F32,
    SH_F64,
    SH_LONG_DOUBLE,
    SH_COMPLEX_FLOAT,
    SH_COMPLEX_DOUBLE,
    SH_TYPES
};

/* Returns the sh_type of a C type. Integer types are mapped by size and sign; char is signed or
 * unsigned as in the compiler. */
/* clang-format off */
#define SH_SIGNED(T) (sizeof(T) == 1 ? SH_I8 : sizeof(T) == 2 ? SH_I16 : sizeof(T) == 4 ? SH_I32 : SH_I64)
#define SH_UNSIGNED(T) (sizeof(T) == 1 ? SH_U8 : sizeof(T) == 2 ? SH_U16 : sizeof(T) == 4 ? SH_U32 : SH_U64)
#define SH_TYPE(T) \
    _Generic((T)0, float: SH_F32, double: SH_F64, long double: SH_LONG_DOUBLE, shmemi_complexf: SH_COMPLEX_FLOAT, \
             shmemi_complexd: SH_COMPLEX_DOUBLE, unsigned char: SH_UNSIGNED(T), unsigned short: SH_UNSIGNED(T), \
             unsigned int: SH_UNSIGNED(T), unsigned long: SH_UNSIGNED(T), unsigned long long: SH_UNSIGNED(T), \
             char: CHAR_MIN ? SH_I8 : SH_U8, default: SH_SIGNED(T))
/* clang-format on */

enum sh_op { SH_AND, SH_OR, SH_XOR, SH_MAX, SH_MIN, SH_SUM, SH_PROD, SH_OPS };

/* dest[n] = op over the PEs of src[n]. The result is bitwise identical on all PEs: reductions in
 * this file are computed in PE order. */
void sh_reduce(const struct sh_party *p, void *dest, const void *src, size_t n, enum sh_type type,
               enum sh_op op);

#endif
