/* Simulated time and a queue of what will happen: the world in which protocol machines are tested. */
#ifndef TESTS_SUPPORT_WORLD_H
#define TESTS_SUPPORT_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/prng.h"

struct happening {
    uint64_t at_ns, order;      /* order: of what was planned for the same time */
    int kind, a, b;             /* the test's own meaning */
    uint8_t *data;              /* the world's; freed when the next happening is taken */
    size_t bytes;
};

struct world {
    struct tt_prng prng;
    uint64_t now_ns, order;
    struct happening *planned;
    size_t n, cap;
    uint8_t *current;           /* data of the happening that was taken last */
};

void world_init(struct world *w, uint64_t seed);
void world_fini(struct world *w);
/* Plans something for `at_ns`, with a copy of data[bytes]. */
void world_plan(struct world *w, uint64_t at_ns, int kind, int a, int b, const void *data, size_t bytes);
/* Takes the next happening and moves time there; false if nothing is planned. */
bool world_next(struct world *w, struct happening *out);

/* Seeds to try: `tries` of them, from 1 or those after TUTTI_TEST_SEED_AFTER, or only TUTTI_TEST_SEED. Returns 0 when there are no more. */
uint64_t next_seed(uint64_t seed, uint64_t tries);

#endif
