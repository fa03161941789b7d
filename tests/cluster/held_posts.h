/* Delays work requests of RDMA devices at random, so that data on one queue pair arrives much later
 * than on another. */
#ifndef TESTS_CLUSTER_HELD_POSTS_H
#define TESTS_CLUSTER_HELD_POSTS_H

/* Starts the delays, also for devices that are already open. Without libibverbs it has no
 * effect. */
void held_posts_begin(void);

#endif
