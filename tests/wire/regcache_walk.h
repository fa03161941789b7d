/* Drawn histories of a cache of registrations, compared with a model that looks at all of them each time. */
#ifndef TESTS_WIRE_REGCACHE_WALK_H
#define TESTS_WIRE_REGCACHE_WALK_H

#include <stdint.h>

/* Walks a history that is drawn from the seed. NULL, or what went wrong. */
const char *regcache_walk_drawn(uint64_t seed);

#endif
