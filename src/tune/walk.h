/* What a call would take where ranks are too many to be simulated: the programs of some of them are walked, round by round, and what each
 * message costs is added up by how far it goes. Pure: the same inputs give the same time on every rank.
 *
 * Model. Ranks, ways and links cost what they do in a simulation (sim/des.h, sim/net.h), but nothing queues. A rank's thread does one thing after
 * another, and what comes later in its program but could be done sooner fits into the time that it waited. A step has what it reads when
 * the steps have it that wrote it, the first segment of it sooner than the last. A message passes the rail and the uplinks of its way; what
 * shares one of them in a round, counted over the ranks that are walked, takes its time there for each of them. So a round is as long as the
 * slowest of its messages, and nothing is known of how one round's messages come in between those of another.
 *
 * Who is walked. Up to TT_WALK_RANKS ranks all are, and each message leaves when its sender has come to it. Of more, some are: the root, those at both
 * sides of the first border of each level, some that are spread over all, and those that these wait for, as far as there is room. Whoever is
 * not walked is in step: what it sends leaves when the receiver itself sends what is like it.
 *
 * Which rounds. All, or some in each quarter of the program where that is more than steps_max steps; those between go on as fast as the half before them. */
#ifndef TT_TUNE_WALK_H
#define TT_TUNE_WALK_H

#include "tune/predict.h"

#define TT_WALK_RANKS 1024u

struct tt_walk;

/* What walks of calls on conf's ranks need, some MiB; conf and its parts stay where they are until tt_walk_close. NULL: there is no memory. */
struct tt_walk *tt_walk_open(const struct tt_tune_conf *conf);
void tt_walk_close(struct tt_walk *w);

/* Walks one candidate for a call. At most about steps_max steps of programs, or until it is known to take longer than time_max_ns (0: any
 * time). out->events: the steps that were. UNSUPPORTED (not logged): what is not walked decides it. *out on OK only. */
tutti_status tt_walk_run(struct tt_walk *w, const struct tt_coll *coll, const struct tt_algo *algo,
                         const struct tt_segments *segments, uint64_t steps_max, double time_max_ns,
                         struct tt_prediction *out);

#endif
