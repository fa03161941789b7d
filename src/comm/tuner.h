/* What a communicator's choices depend on, all of it agreed by its ranks: for src/tune. */
#ifndef TT_COMM_TUNER_H
#define TT_COMM_TUNER_H

#include "comm/comm.h"
#include "tune/tune.h"

/* Whether ranks of one host reach each other through shared memory; the same answer on every rank, as their cards tell it. */
bool tt_comm_near_is_shm(const tutti_comm *comm);
/* Whether its ranks are on one host, share its cores, and no memory: then what a short call takes is its messages. The same on all ranks. */
bool tt_comm_shares_cores(const tutti_comm *comm);

/* Points into the communicator: good as long as that is. */
void tt_comm_tune_conf(const tutti_comm *comm, struct tt_tune_conf *out);

/* TUTTI_TUNE: "sim" (also where it is not set): candidates are simulated; "model": closed forms alone. INVALID (logged) for another word. */
tutti_status tt_tune_mode(bool *simulates);

#endif
