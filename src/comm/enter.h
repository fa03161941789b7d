/* Begin and end of calls on a communicator. */
#ifndef TT_COMM_ENTER_H
#define TT_COMM_ENTER_H

#include "tutti/tutti.h"

/* For a communicator that another thread than its callers' destroys (at the end of a view). Must
 * precede the first call on it. The destruction waits until no thread is in a call. */
void tt_comm_guard(tutti_comm *comm);
/* Begin and end a call that one thread at a time may make; calls of one thread nest. `call` must
 * be valid until the end. INVALID: another thread is in such a call, or the view of a guarded
 * communicator is changing. comm may be NULL. */
tutti_status tt_comm_enter(tutti_comm *comm, const char *call);
void tt_comm_leave(tutti_comm *comm);
/* Begins and ends a call that several threads may make at once. Meanwhile a guarded communicator
 * does not change. NULL is allowed. INVALID: its view is changing. */
tutti_status tt_comm_hold(tutti_comm *comm, const char *call);
void tt_comm_unhold(tutti_comm *comm);

/* Returns OK; FORKED (logged) in the child of a fork; INVALID (logged) if comm is NULL. */
tutti_status tt_comm_check(const tutti_comm *comm, const char *call);

#endif
