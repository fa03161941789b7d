/* Work requests that RDMA devices are given late, at random: so what goes over one queue pair comes long after what goes over another. */
#ifndef TESTS_CLUSTER_HELD_POSTS_H
#define TESTS_CLUSTER_HELD_POSTS_H

/* From now on; devices that this process opened before count, too. Without libibverbs: nothing. */
void held_posts_begin(void);

#endif
