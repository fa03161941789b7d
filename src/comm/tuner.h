/* Inputs of a communicator's choices, all equal on its ranks: for src/tune. */
#ifndef TT_COMM_TUNER_H
#define TT_COMM_TUNER_H

#include "comm/comm.h"
#include "tune/tune.h"

/* Returns whether ranks of one host use shared memory; equal on every rank, since it follows
 * from their cards. */
bool tt_comm_near_is_shm(const tutti_comm *comm);
/* Returns whether its ranks share a host and its cores, but no memory: then messages dominate
 * the time of short calls. Equal on all ranks. */
bool tt_comm_shares_cores(const tutti_comm *comm);

/* Returns the configuration. It points into the communicator, and is valid as long as the
 * communicator. */
void tt_comm_tune_conf(const tutti_comm *comm, struct tt_tune_conf *out);

/* Reads TUTTI_TUNE. "sim" (default): candidates are simulated; "model": closed forms only.
 * INVALID (logged) for other values. */
tutti_status tt_tune_mode(bool *simulates);

#endif
