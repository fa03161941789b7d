/* Snapshots of artificial runs, for tests of their presentation. */
#ifndef TESTS_COORDINATOR_SNAPSHOTS_H
#define TESTS_COORDINATOR_SNAPSHOTS_H

#include "coordinator/snapshot.h"

/* A string that could be interpreted as markup, as a second metric, or as empty. */
extern const char snapshots_hostile[];

/* Creates a run named `name` with n members: every fifth one waits, the second was lost, the fourth
 * has left, and the others are in the view. The last message of member i was i tenths of a second
 * ago. There are three events, the last of which contains `name`. */
struct tt_snapshot *snapshots_run(const char *name, uint32_t n);

/* Adds links between the members: in the ring i to i + 7 (mod n, which must not be a multiple of 7)
 * i + 1 MB/s above 10 MB/s, else 1 MB/s; none from 0 to 1. All latencies are 2.5 ms. An all-reduce
 * is predicted to take 1.25 s in that ring, which is pending, and took 3.5 s. */
void snapshots_measure(struct tt_snapshot *s);

/* Adds shared state: revision 41 for all; for role 1 revision 7, which is being sent, without a
 * hash. */
void snapshots_sync(struct tt_snapshot *s);

#endif
