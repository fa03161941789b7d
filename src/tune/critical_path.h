/* Predicted time of a call with too many ranks to simulate. The programs of some ranks are walked,
 * round by round, and the cost of each message is added by its distance. Pure: the same inputs give
 * the same time on every rank.
 *
 * Model. Ranks, paths and links cost the same as in a simulation (sim/des.h, sim/net.h), but there
 * are no queues. A rank's thread does one thing at a time; later steps of its program that can run
 * earlier use its idle time. A step has its inputs when the steps that wrote them have them, the
 * first segment earlier than the last. A message passes the rail and the uplinks of its path.
 * Messages that share one of these in a round, counted over the walked ranks, delay each other
 * there. A round thus takes as long as its slowest message, and messages of different rounds do not
 * interleave.
 *
 * Walked ranks. Up to TT_WALK_RANKS ranks, all are walked, and each message leaves when its sender
 * reaches it. With more, some are: the root, those on both sides of the first border of each level,
 * some spread over all, and the ranks that these wait for, as far as there is space. Other ranks
 * are assumed to be in step: their message leaves when the receiver itself sends the corresponding
 * one.
 *
 * Rounds. All are walked, or only some in each quarter of the program if all have more than
 * steps_max steps. The skipped rounds take the rate of the walked rounds before them. */
#ifndef TT_TUNE_CRITICAL_PATH_H
#define TT_TUNE_CRITICAL_PATH_H

#include "tune/predict.h"

#define TT_WALK_RANKS 1024u

struct tt_critical_path;

/* Allocates the state for walks of calls on conf's ranks, some MiB; conf and its parts must stay
 * valid until tt_critical_path_close. NULL: out of memory. */
struct tt_critical_path *tt_critical_path_open(const struct tt_tune_conf *conf);
void tt_critical_path_close(struct tt_critical_path *w);

/* Walks one candidate for a call: at most about steps_max steps of programs, or until the call is
 * known to take longer than time_max_ns (0: no limit). out->events: the number of steps.
 * UNSUPPORTED (not logged): the result depends on ranks that are not walked. *out on OK only. */
tutti_status tt_critical_path_run(struct tt_critical_path *w, const struct tt_coll *coll,
                                  const struct tt_algo *algo, const struct tt_segments *segments,
                                  uint64_t steps_max, double time_max_ns,
                                  struct tt_prediction *out);

#endif
