/* Reductions by definition, one element at a time and without optimizations: integers in 128 bits,
 * narrow floats by the formula of their format. Elements are passed as bits in a uint64_t. */
#ifndef TESTS_REDUCE_REFERENCE_H
#define TESTS_REDUCE_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/prng.h"
#include "tutti/tutti.h"

/* A binary float of sign, exponent and mantissa bits. */
struct ref_format {
    int exponent_bits, mantissa_bits;
    bool saturates;     /* e4m3: no infinity, and NaN only if exponent and mantissa are all ones */
};

extern const struct ref_format ref_f16, ref_bf16, ref_e4m3, ref_e5m2;

bool ref_is_float(tutti_dtype type);
size_t ref_bytes(tutti_dtype type);
const char *ref_name(tutti_dtype type);
const char *ref_redop_name(tutti_redop op);
/* NULL for f32, f64 and integers. */
const struct ref_format *ref_format_of(tutti_dtype type);

/* Returns the value of a code, or the code of a value rounded to nearest, ties to even. NaN becomes
 * the canonical one. */
double ref_decode(const struct ref_format *f, uint32_t code);
uint32_t ref_encode(const struct ref_format *f, double value);

/* Returns a op b; with `finish`, AVG divides by n. Only for defined operations. */
uint64_t ref_reduce(tutti_dtype type, tutti_redop op, bool finish, uint32_t n, uint64_t a,
                    uint64_t b);
uint64_t ref_scale(tutti_dtype type, uint64_t x, double scale);

/* Returns random bits of an element: arbitrary ones, special values, and values near each other, so
 * that ties, overflow, NaN, infinity and subnormals all occur often. */
uint64_t ref_random(struct tt_prng *p, tutti_dtype type);

uint64_t ref_load(const void *at, size_t bytes);
void ref_store(void *at, size_t bytes, uint64_t bits);

#endif
