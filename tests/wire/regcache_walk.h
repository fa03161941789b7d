/* Random histories of a registration cache, compared with a model that searches linearly. */
#ifndef TESTS_WIRE_REGCACHE_WALK_H
#define TESTS_WIRE_REGCACHE_WALK_H

#include <stdint.h>

/* Walks a history drawn from the seed. Returns NULL, or an error message. */
const char *regcache_walk_drawn(uint64_t seed);

#endif
