/* Dumps of the trace: when they are written, and by which thread. A dump blocks its cause for at
 * most TT_DUMP_AWAIT_NS: a thread writes it, and another process stores it (dump_store.h). Only
 * these wait for the disk, and neither delays the exit of this process.
 *
 * Automatic dumps, after failures, need TUTTI_TRACE_DIR. There are at most TT_DUMP_AUTO_MAX of
 * them, TT_DUMP_AUTO_NS apart: failures that follow a failure are part of the same event. */
#ifndef TT_TRACE_DUMP_H
#define TT_TRACE_DUMP_H

#include "base/clock.h"
#include "trace/dump_state.h"
#include "tutti/tutti.h"

#define TT_DUMP_AUTO_MAX 64u
#define TT_DUMP_AUTO_NS (5 * TT_SECOND)
#define TT_DUMP_WAIT_NS (5 * TT_SECOND)     /* maximum wait of a call for its file */
#define TT_DUMP_AWAIT_NS (4 * TT_SECOND)    /* the same for a failed call, and at process exit */

enum tt_dump_reason {
    TT_DUMP_TIMEOUT,
    TT_DUMP_ABORTED,
    TT_DUMP_PEER_LOST,
    TT_DUMP_SIGNAL,
    TT_DUMP_CALL,
    TT_DUMP_COMMAND
};

/* Reads TUTTI_TRACE_DIR, and installs the handler of TUTTI_TRACE_SIGNAL. Called before each job;
 * only the first call has an effect. INVALID (logged). */
tutti_status tt_dump_start(void);
/* Sets the job of this process, which determines the names of its files. Only the first call has an
 * effect, and returns true. */
bool tt_dump_set_job(uint64_t job, uint64_t rank, uint32_t nranks);
/* Sets the function that adds the state of all engines to a dump. It may wait for some seconds. */
void tt_dump_set_source(void (*collect)(struct tt_dump_state *s));

/* Returns whether this failure requires a dump; the caller then calls tt_dump_post. Any thread. */
bool tt_dump_is_due(void);
/* Starts an automatic dump with the state *s, whose memory it takes over. Never waits. Any thread,
 * also under a progress lock. */
void tt_dump_post(enum tt_dump_reason reason, const char *message, struct tt_dump_state *s);
enum tt_dump_answer {
    TT_DUMP_REFUSED,            /* there is no directory, or too many dumps are incomplete */
    TT_DUMP_STARTED,
    TT_DUMP_SHARED              /* another rank of this process has started it for this command */
};

/* Starts a dump by a command for the whole job, unless a dump to the same file is still queued.
 * `dir`: its directory; "": TUTTI_TRACE_DIR. number: identifies the command, which all ranks of
 * this process receive. Never waits, as tt_dump_post. */
enum tt_dump_answer tt_dump_command(const char *dir, uint64_t number);
/* Waits until automatic dumps are written, at most TT_DUMP_AWAIT_NS. No lock may be held. */
void tt_dump_await(void);
/* As tutti_trace_dump. */
tutti_status tt_dump_call(const char *path, const char *message);

#endif
