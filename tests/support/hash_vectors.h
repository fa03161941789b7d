/* The test vectors of docs/hash.md. */
#ifndef TESTS_SUPPORT_HASH_VECTORS_H
#define TESTS_SUPPORT_HASH_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "reduce/hash.h"

/* A content of the table and its hash as it stands there; data[bytes] lives until it returns. Whether that is its hash. */
typedef bool hash_vector_try(const uint8_t *data, size_t bytes, const char want[TT_HASH_TEXT_BYTES], void *arg);

/* Calls it for each row of the table with at most `most` bytes. Returns the bytes of the longest; 0: it is not the hash of one, or there are fewer than twelve
 * rows, or they cannot be read. Also for processes that a test starts: nothing ends it. */
size_t hash_vectors_each(size_t most, hash_vector_try *try, void *arg);

#endif
