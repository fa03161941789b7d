/* Snapshots of runs that never were, for tests of what is shown of them. */
#ifndef TESTS_COORDINATOR_SNAPSHOTS_H
#define TESTS_COORDINATOR_SNAPSHOTS_H

#include "coordinator/snapshot.h"

/* What somebody says who wants to be taken for markup, for a second metric, or for nothing at all. */
extern const char snapshots_hostile[];

/* A run named `name` with n members: every fifth waits, the second is lost, the fourth left, the others are in the view; each has said something since i tenths of
 * a second. Three events, the last of them says `name`. */
struct tt_snapshot *snapshots_run(const char *name, uint32_t n);

/* Adds links between the members: in the ring i to i + 7 (mod n, which must not be a multiple of 7) i + 1 MB/s more than 10 MB/s, else 1 MB/s; none
 * from 0 to 1. A latency of 2.5 ms everywhere; an all-reduce is predicted to take 1.25 s in that ring, which waits, and took 3.5 s. */
void snapshots_measure(struct tt_snapshot *s);

/* Adds shared state: of all revision 41; of role 1 revision 7, which is being sent, with a hash that is none. */
void snapshots_sync(struct tt_snapshot *s);

#endif
