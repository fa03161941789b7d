/* Dumps of the trace: when they are written, and by which thread. A dump never blocks its cause for
 * more than TT_DUMP_AWAIT_NS: a thread writes it, and a process stores it (dump_store.h). Only they
 * wait for the disk, and neither delays the end of this process.
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
#define TT_DUMP_WAIT_NS (5 * TT_SECOND)     /* of a call for its file */
#define TT_DUMP_AWAIT_NS (4 * TT_SECOND)    /* of a failed call, and of the end of the process */

enum tt_dump_reason {
    TT_DUMP_TIMEOUT,
    TT_DUMP_ABORTED,
    TT_DUMP_PEER_LOST,
    TT_DUMP_SIGNAL,
    TT_DUMP_CALL,
    TT_DUMP_COMMAND
};

/* Reads TUTTI_TRACE_DIR, and installs the handler of TUTTI_TRACE_SIGNAL. Call it before each job;
 * only the first call has an effect. INVALID (logged). */
tutti_status tt_dump_start(void);
/* Sets the job of this process: the name of its files. Only the first call has an effect, and
 * returns true. */
bool tt_dump_set_job(uint64_t job, uint64_t rank, uint32_t nranks);
/* Sets the function that adds the state of all engines to a dump. It may wait for some seconds. */
void tt_dump_set_source(void (*collect)(struct tt_dump_state *s));

/* Returns whether this failure requires a dump; the caller then calls tt_dump_post. Any thread. */
bool tt_dump_is_due(void);
/* Starts an automatic dump, which contains *s; takes its memory. Never waits. Any thread, also
 * under a progress lock. */
void tt_dump_post(enum tt_dump_reason reason, const char *message, struct tt_dump_state *s);
enum tt_dump_answer {
    TT_DUMP_REFUSED,            /* there is no directory, or too many dumps are not complete */
    TT_DUMP_STARTED,
    TT_DUMP_SHARED              /* another rank of this process has started it for this command */
};

/* Starts a dump by a command for the whole job, unless one for the same file has not begun. `dir`:
 * its directory; "": TUTTI_TRACE_DIR. number: identifies the command, which all ranks of this
 * process receive. Never waits, as tt_dump_post. */
enum tt_dump_answer tt_dump_command(const char *dir, uint64_t number);
/* Waits until automatic dumps are written, at most TT_DUMP_AWAIT_NS. Not under a lock. */
void tt_dump_await(void);
/* As tutti_trace_dump. */
tutti_status tt_dump_call(const char *path, const char *message);

#endif
