/* The test vectors of docs/hash.md. */
#ifndef TESTS_SUPPORT_HASH_VECTORS_H
#define TESTS_SUPPORT_HASH_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "reduce/hash.h"

/* Tests one vector of the table with its expected hash; data[bytes] is valid only during the call.
 * Returns whether the hash is correct. */
typedef bool hash_vector_try(const uint8_t *data, size_t bytes, const char want[TT_HASH_TEXT_BYTES],
                             void *arg);

/* Calls `try` for each row of the table with at most `most` bytes. Returns the size of the longest
 * vector; 0 if a hash is wrong, there are fewer than twelve rows, or the table cannot be read. Does
 * not exit, so programs that tests start can use it. */
size_t hash_vectors_each(size_t most, hash_vector_try *try, void *arg);

#endif
