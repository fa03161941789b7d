/* The trace of operations. Tutti records each operation of the process in a ring buffer. Operations
 * are collectives, sends and receives, one-sided calls, the creation of communicators and windows,
 * and operations of elastic runs. The ring holds the newest 65,536 operations
 * (TUTTI_TRACE_RECORDS). Tracing is on by default (TUTTI_TRACE). After a failure, or on request,
 * the ring is written to a file (docs/trace-format.md) that `tutti analyze` reads. See
 * docs/observability.md.
 *
 * Names, shapes and errors follow the conventions of tutti/tutti.h. All calls are local, and any
 * thread may make them.
 *
 * Sources: the flight recorder of PyTorch and the profiler plug-ins of NCCL (what is recorded);
 * "Collective Communication for 100k+ GPUs" (arXiv 2510.20171), 7.3 and 7.4 (what a trace must
 * contain to find the cause of a hang). */
#ifndef TUTTI_TRACE_H
#define TUTTI_TRACE_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading --------------------------------------------------------------------------------- */

/* One operation. All strings are valid only during the callback that receives the struct. Fields
 * that do not apply to the kind of operation are -1, NULL or "". */
typedef struct tutti_trace_op {
    size_t size;                /* sizeof(tutti_trace_op) in the library; newer fields are at the
                                   end */
    uint64_t number;            /* number of the record, from 1; unique in this process */
    uint64_t comm;              /* identifies the communicator, window or elastic run: equal on all
                                   of its ranks, unique in the job. 0: unknown */
    const char *comm_name;      /* as set by tutti_comm_set_name; "": none */
    const char *of;             /* "comm", "window", "run" or "": what `comm` identifies */
    uint64_t seq;               /* collectives: number of the call on the communicator, equal on all
                                   ranks. Send and recv: number per peer, tag and direction.
                                   Others: number of calls of this kind, or 0 */
    const char *kind;           /* "allreduce", "send", "put", "comm_split", ...
                                   (docs/trace-format.md) */
    const char *algo;           /* e.g. "allreduce_ring" */
    uint64_t count;             /* elements per rank, as passed to the call; bytes if type is -1 */
    uint64_t bytes;             /* size of `count` elements */
    int type;                   /* tutti_dtype */
    int redop;                  /* tutti_redop */
    int64_t root;               /* rank in the communicator */
    int64_t peer;               /* sends, receives and one-sided calls: rank of the peer in the
                                   job */
    int64_t tag;
    uint64_t called_ns;         /* time of the call, in nanoseconds of CLOCK_MONOTONIC, like the
                                   next two fields. For a short repeated collective, the time is
                                   taken after its first messages have been sent, some tens of
                                   nanoseconds later */
    uint64_t started_ns;        /* time at which the operation became visible to peers; later than
                                   called_ns if the operation waited for earlier operations; 0: not
                                   yet */
    uint64_t ended_ns;          /* time of completion or failure; 0: not yet */
    tutti_status status;        /* TUTTI_PENDING: not ended. TUTTI_STATUS_COUNT: ended, but the
                                   status was lost, because the record has been overwritten */
    const char *note;           /* the current annotation at the time of the call
                                   (tutti_trace_annotate) */
} tutti_trace_op;

/* Callback that receives one operation. Returns 0 to continue, another value to stop. */
typedef int tutti_trace_visit(void *arg, const tutti_trace_op *op);

/* Copies the ring, and calls visit(arg, op) for each recorded operation, in order of their calls.
 * Other threads may start and complete operations during the call. The callback may call Tutti.
 * *lost   number of older operations that the ring no longer holds; may be NULL
 * INVALID: visit is NULL. UNSUPPORTED: nothing is recorded, because TUTTI_TRACE is 0 or no
 * communicator has been created yet. */
TUTTI_API tutti_status tutti_trace_read(tutti_trace_visit *visit, void *arg, uint64_t *lost);

/* ---- naming ---------------------------------------------------------------------------------- */

/* Annotates all operations that this process begins after this call, e.g. with "iteration 120,
 * forward".
 * text   is copied, at most 103 bytes; "" ends the annotation. The newest 1,024 annotations are
 *        kept
 * INVALID: text is NULL. */
TUTTI_API tutti_status tutti_trace_annotate(const char *text);

/* Names the communicator in traces, e.g. "tensor parallel". A communicator that is created with
 * tutti_conf.name has this name from the start. Local: ranks may use different names.
 * name   is copied, at most 63 bytes
 * INVALID: comm or name is NULL. */
TUTTI_API tutti_status tutti_comm_set_name(tutti_comm *comm, const char *name);

/* ---- subscribing ----------------------------------------------------------------------------- */

/* Callbacks for profilers. Set `size` to sizeof(tutti_trace_subscriber). The callbacks run in the
 * thread that begins or ends the operation, which may be an internal thread of Tutti. The callbacks
 * must return quickly and must not call Tutti. Either callback may be NULL. */
typedef struct tutti_trace_subscriber {
    size_t size;
    void *arg;
    void (*began)(void *arg, const tutti_trace_op *op);
    void (*ended)(void *arg, const tutti_trace_op *op);
} tutti_trace_subscriber;

/* Calls the callbacks for each operation that is recorded after this call. Without subscribers, the
 * cost is one branch per operation.
 * *id   identifies the subscription, for tutti_trace_unsubscribe
 * INVALID: an argument is NULL. NOMEM: there are 8 subscribers already. UNSUPPORTED: as in
 * tutti_trace_read. */
TUTTI_API tutti_status tutti_trace_subscribe(const tutti_trace_subscriber *subscriber, int *id);
/* Removes a subscription. When the call returns, the callbacks of the subscription are not running
 * and will not be called again. Must not be called by a callback. INVALID: no such subscription. */
TUTTI_API tutti_status tutti_trace_unsubscribe(int id);

/* ---- dumps ----------------------------------------------------------------------------------- */

/* Writes the trace of this process to a file. The file contains all recorded operations. For each
 * operation in progress, the file also contains the current step, and the rank that the operation
 * waits for. A child process (/bin/sh) writes the file under a temporary name and renames it. The
 * program receives SIGCHLD when the child process ends. The call returns after at most 5 s, even if
 * the disk does not respond.
 * path      the file; NULL: tutti-trace.JOB.RANK.jsonl in the directory TUTTI_TRACE_DIR
 * message   is stored in the file, at most 1,023 bytes; NULL: none
 * INVALID: path is NULL and TUTTI_TRACE_DIR is not set, or path exists and is not a regular file.
 * SYSTEM: the file cannot be written. TIMEOUT: this dump or an earlier one was not complete after
 * 5 s. */
TUTTI_API tutti_status tutti_trace_dump(const char *path, const char *message);

#ifdef __cplusplus
}
#endif

#endif
