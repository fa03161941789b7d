/* Connections of a rank that take nothing for a while, or a part of what they are given, at random: so what goes over one lane comes long after what
 * goes over another. A test that uses it has send and sendmsg from here. */
#ifndef TESTS_CLUSTER_HELD_LANES_H
#define TESTS_CLUSTER_HELD_LANES_H

#include "job.h"

/* From now on connections of this process are held up, by draws of the job's seed and the rank. Only once the job has started. */
void held_lanes_begin(const struct rank *r);
/* How often this thread has called send or sendmsg. */
uint32_t held_lanes_calls(void);

#endif
