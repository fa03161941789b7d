/* A non-commutative reduction of 4-byte words, to test the order of operands. */
#ifndef TESTS_SIM_LEFT_HEAVY_H
#define TESTS_SIM_LEFT_HEAVY_H

#include <stddef.h>
#include <stdint.h>

/* The result depends on both operands and on their order. */
void left_heavy(void *dst, void *dst2, const void *a, const void *b, size_t count, uint32_t stream,
                uint32_t finish_n);

#endif
