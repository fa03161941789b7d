/* Byte patterns that are unique per message. Built without TSan, because their computation would
 * take most of a test's time. memcpy and memcmp, which access the buffer itself, are still
 * intercepted. */
#ifndef TESTS_SUPPORT_PATTERN_H
#define TESTS_SUPPORT_PATTERN_H

#include <stdint.h>

void pattern_fill(void *mem, uint64_t bytes, uint64_t salt);
/* Returns the index of the first byte that differs from pattern_fill; `bytes` if none does. */
uint64_t pattern_differs(const void *mem, uint64_t bytes, uint64_t salt);

#endif
