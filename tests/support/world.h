/* Simulated time and a queue of events, for tests of protocol state machines. */
#ifndef TESTS_SUPPORT_WORLD_H
#define TESTS_SUPPORT_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/prng.h"

struct happening {
    uint64_t at_ns, order;      /* order: of events at the same time */
    int kind, a, b;             /* defined by the test */
    uint8_t *data;              /* owned by the world; freed by the next world_next */
    size_t bytes;
};

struct world {
    struct tt_prng prng;
    uint64_t now_ns, order;
    struct happening *planned;
    size_t n, cap;
    uint8_t *current;           /* data of the last event */
};

void world_init(struct world *w, uint64_t seed);
void world_fini(struct world *w);
/* Schedules an event at `at_ns`, with a copy of data[bytes]. */
void world_plan(struct world *w, uint64_t at_ns, int kind, int a, int b, const void *data,
                size_t bytes);
/* Removes the next event and advances the time to it. Returns false if there are no events. */
bool world_next(struct world *w, struct happening *out);

/* Returns the next seed to run: `tries` of them, starting with 1 or after TUTTI_TEST_SEED_AFTER, or
 * only TUTTI_TEST_SEED. Returns 0 after the last one. */
uint64_t next_seed(uint64_t seed, uint64_t tries);

#endif
