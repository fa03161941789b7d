/* Bytes that only one message has. Built without the thread sanitizer, as most of a test's time would go into watching how they are computed;
 * memcpy and memcmp, by which the buffer itself is touched, are watched all the same. */
#ifndef TESTS_SUPPORT_PATTERN_H
#define TESTS_SUPPORT_PATTERN_H

#include <stdint.h>

void pattern_fill(void *mem, uint64_t bytes, uint64_t salt);
/* The first byte that is not pattern_fill's; `bytes` if all are. */
uint64_t pattern_differs(const void *mem, uint64_t bytes, uint64_t salt);

#endif
