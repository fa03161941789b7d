/* Delays lanes of a rank at random, so that data on one lane arrives much later than on another.
 * Connections may also accept only a part of the data, and queue pairs of RDMA devices receive
 * requests late (held_posts.h). Tests that use it are linked with its send, sendmsg, and some
 * functions of libibverbs. */
#ifndef TESTS_CLUSTER_HELD_LANES_H
#define TESTS_CLUSTER_HELD_LANES_H

#include "job.h"

/* Starts to delay the lanes of this process, at random from the job's seed and the rank. Call it
 * only after the job has started. */
void held_lanes_begin(const struct rank *r);
/* Returns a random number below n from the same generator; any thread. */
uint64_t held_lanes_draw(uint64_t n);
/* Returns how many times this thread has called send or sendmsg. */
uint32_t held_lanes_calls(void);
/* The same for all threads of this process. */
uint32_t held_lanes_all_calls(void);

#endif
