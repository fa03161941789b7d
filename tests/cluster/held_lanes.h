/* Lanes of a rank that take nothing for a while, at random: so what goes over one comes long after what goes over another. Connections may also take a
 * part of what they are given, and queue pairs of RDMA devices get it late (held_posts.h). A test that uses it has send and sendmsg from here, and some of libibverbs. */
#ifndef TESTS_CLUSTER_HELD_LANES_H
#define TESTS_CLUSTER_HELD_LANES_H

#include "job.h"

/* From now on lanes of this process are held up, by draws of the job's seed and the rank. Only once the job has started. */
void held_lanes_begin(const struct rank *r);
/* A draw below n, of those; any thread. */
uint64_t held_lanes_draw(uint64_t n);
/* How often this thread has called send or sendmsg. */
uint32_t held_lanes_calls(void);
/* The same of all threads of this process. */
uint32_t held_lanes_all_calls(void);

#endif
