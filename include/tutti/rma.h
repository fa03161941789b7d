/* Tutti, one-sided communication: windows into the memory of other ranks.
 *
 * A window is memory that each rank of a communicator exposes. Any rank can put data into it, get
 * data from it, update words atomically, and raise signals: 64-bit words on which the owner waits.
 * The owner takes no part in a transfer; its progress thread serves what the wire cannot do alone.
 *
 *     create -> put, get, signal, wait, atomic, fence, quiet ... -> free
 *
 * Ordering from one rank to one other rank, on every wire:
 *  - Puts are unordered. At local completion the source buffer is reusable; at remote completion
 *    the data is in the window. tutti_window_quiet waits for remote completion.
 *  - A put with a signal: once the target observes the value of the signal (tutti_window_wait or
 *    _test, or an acquire load), all bytes of that put are visible. A put of 0 bytes still signals.
 *  - tutti_window_fence orders earlier puts and atomics to a rank before later signals, gets and
 *    atomics: a signal becomes visible after them, a get or atomic reads what they wrote. Later
 *    puts without a signal are not ordered.
 *  - Without a fence or tutti_window_quiet, a get or atomic may read before earlier puts landed.
 *
 * Blocking and non-blocking. Without tutti_rma.counter a put or get returns at local completion.
 * With a counter it is non-blocking: it returns at once, and 1 is added to the counter at local
 * completion. Data for which the wire has no room is queued per target rank, up to 1,024 puts and
 * 4 MiB of copied short sources. A rank that accepts no data therefore affects only its senders:
 * a non-blocking put waits only if the queue of its own target is full (or, with no_wait, returns
 * TUTTI_PENDING). Fences, signals and quiets take queued puts into account. A non-blocking get
 * waits for room in the wire.
 *
 * Offsets and sizes are in bytes. `rank` is a rank of the window's communicator, which may be the
 * calling rank. An access outside the window of that rank, or a freed window, is TUTTI_ERR_INVALID,
 * and nothing is sent. After a rank failure or an abort of the communicator every call, including
 * pending waits, returns that status. If a rank destroys its communicator while it has windows, the
 * other ranks get TUTTI_ERR_PEER_LOST.
 *
 * Threads: all calls except create and free are thread-safe. Words that several ranks or threads
 * update concurrently must be updated with atomics or signals. Not usable in a forked child.
 *
 * Deadlines: calls that wait return TUTTI_ERR_TIMEOUT after `timeout_ms` (0: the communicator's
 * timeout; negative: none). The window stays usable, and the operation continues: the buffers of a
 * put or get are reusable after tutti_window_quiet returned TUTTI_OK, or the window was freed. A
 * put that timed out may have written part of its data; its counter does not change.
 *
 * Sources: OpenSHMEM 1.5, sections 9.5 to 9.12 (put with signal, fence, quiet); MPI-4.0, chapter 12
 * (windows); NCCLX (arXiv 2510.20171, section 5.2). Details: docs/one-sided.md. */
#ifndef TUTTI_RMA_H
#define TUTTI_RMA_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A handle, valid from create to free; later calls with it return TUTTI_ERR_INVALID. */
typedef struct tutti_window tutti_window;

#define TUTTI_ALL_RANKS (-1)        /* for fence and quiet */

/* ---- windows --------------------------------------------------------------------------------- */

/* Exposes mem[bytes] of this rank. Collective; sizes may differ between ranks and may be 0.
 * mem NULL: the library allocates zeroed, page-aligned memory, which ranks on this host can map
 * (tutti_window_pointer). Otherwise the caller owns mem and keeps it until the window is freed;
 * signals and atomics need an address that is a multiple of 8. On return all ranks have the
 * window. A failure on one rank is a failure on all. The caller owns *out: free it with
 * tutti_window_free before the communicator is destroyed. At most 1,024 windows per process. */
TUTTI_API tutti_status tutti_window_create(tutti_comm *comm, void *mem, size_t bytes,
                                           tutti_window **out);

/* Frees the window. Collective: returns when this rank's puts are complete and all ranks have
 * called it. The window is freed even if an error is returned; no rank accesses this rank's memory
 * afterwards. On an error the communicator fails on all ranks, except for TUTTI_ERR_ABORTED, which
 * reports an operation on a rank that had freed its window. Waits at most for the timeout of the
 * communicator. INVALID while devices use the window. NULL is a no-op. */
TUTTI_API tutti_status tutti_window_free(tutti_window *window);

/* Returns the address and size of this rank's memory; mem and bytes may be NULL. Local. */
TUTTI_API tutti_status tutti_window_memory(tutti_window *window, void **mem, size_t *bytes);
/* Returns the size of the window of `rank`, in bytes. Local. */
TUTTI_API tutti_status tutti_window_bytes(tutti_window *window, int rank, size_t *bytes);
/* Returns an address at which this process can load and store the memory of `rank`, or NULL where
 * it cannot (another host, or memory of the caller). Valid until free. May connect to the rank.
 * A plain store does not wake waiting threads: follow it with tutti_window_signal. */
TUTTI_API tutti_status tutti_window_pointer(tutti_window *window, int rank, void **out);

/* ---- puts and gets --------------------------------------------------------------------------- */

typedef enum tutti_signal_op {
    TUTTI_SIGNAL_NONE = 0,
    TUTTI_SIGNAL_SET,
    TUTTI_SIGNAL_ADD
} tutti_signal_op;

/* Options of a put or get. Zero (or NULL) means default; set `size` to sizeof. */
typedef struct tutti_rma {
    size_t size;
    tutti_signal_op signal_op;  /* puts only: update of the signal after the data */
    uint64_t signal_value;
    size_t signal_offset;       /* a multiple of 8 */
    tutti_window *signal_window;    /* window of the signal, same communicator; NULL: the put's */
    uint64_t *counter;          /* Non-NULL: the call is non-blocking, and 1 is added atomically
                                 * at local completion. Must stay valid until then. */
    int64_t timeout_ms;
    uint32_t no_wait;           /* Puts with a counter only. 1: if the queue of that rank is full
                                 * the call returns TUTTI_PENDING, and nothing was sent; 0: it
                                 * waits for room. */
    uint32_t pad;
} tutti_rma;

/* Puts src[bytes] into the window of `rank` at `offset`. A source of up to 32 KiB is reusable on
 * return; a longer one at local completion. Blocking puts wait until the wire has accepted all
 * data; see "Blocking and non-blocking" above for puts with a counter. */
TUTTI_API tutti_status tutti_window_put(tutti_window *window, int rank, size_t offset,
                                        const void *src, size_t bytes, const tutti_rma *rma);
/* Gets dst[bytes] from the window of `rank` at `offset`. */
TUTTI_API tutti_status tutti_window_get(tutti_window *window, int rank, size_t offset, void *dst,
                                        size_t bytes, const tutti_rma *rma);

/* Puts `rows` rows of row_bytes; rows are src_stride bytes apart in src and stride bytes apart in
 * the window, each at least row_bytes. One put: one signal after all rows, one local completion. */
typedef struct tutti_rows {
    size_t rows, row_bytes, src_stride, stride;
} tutti_rows;
TUTTI_API tutti_status tutti_window_put_rows(tutti_window *window, int rank, size_t offset,
                                             const void *src, const tutti_rows *rows,
                                             const tutti_rma *rma);

/* Puts pieces[n], each with its own source and offset, as one put. All pieces are checked before
 * the first is sent. The array is read during the call only. */
typedef struct tutti_piece {
    size_t offset;              /* in the window */
    const void *src;
    size_t bytes;
} tutti_piece;
TUTTI_API tutti_status tutti_window_put_pieces(tutti_window *window, int rank,
                                               const tutti_piece *pieces, size_t n,
                                               const tutti_rma *rma);

/* Waits until *counter (see tutti_rma) is at least `value`. Makes progress. */
TUTTI_API tutti_status tutti_window_wait_counter(tutti_window *window, const uint64_t *counter,
                                                 uint64_t value, int64_t timeout_ms);

/* ---- order ----------------------------------------------------------------------------------- */

/* Orders earlier puts and atomics of this process to `rank` (or TUTTI_ALL_RANKS) before its later
 * signals, gets and atomics to it. Takes constant time and never waits; a later get or atomic may
 * wait for the earlier puts. A fence for one rank does not affect others. */
TUTTI_API tutti_status tutti_window_fence(tutti_window *window, int rank);
/* Waits for remote completion of all puts, gets and atomics that this process called before for
 * `rank` (or TUTTI_ALL_RANKS: all ranks of the communicator). Operations that other threads call
 * meanwhile are not waited for. */
TUTTI_API tutti_status tutti_window_quiet(tutti_window *window, int rank, int64_t timeout_ms);

/* ---- signals --------------------------------------------------------------------------------- */

/* Signals without data: a put of 0 bytes. */
TUTTI_API tutti_status tutti_window_signal(tutti_window *window, int rank, size_t offset,
                                           tutti_signal_op op, uint64_t value);

typedef enum tutti_compare {
    TUTTI_EQUAL = 0,
    TUTTI_AT_LEAST,             /* as unsigned numbers */
    TUTTI_NOT_EQUAL
} tutti_compare;

/* Waits until the word at `offset` of this rank's own window satisfies the comparison; *seen (or
 * NULL) receives its value. Data that was put before the signal is then visible.
 * TUTTI_ERR_PEER_LOST if all other ranks have called tutti_window_free meanwhile and this rank has
 * never raised a signal in its own window. A rank that is not connected to this one is detected
 * only at the deadline. */
TUTTI_API tutti_status tutti_window_wait(tutti_window *window, size_t offset, tutti_compare compare,
                                         uint64_t value, int64_t timeout_ms, uint64_t *seen);
/* The same for any of offsets[n], n >= 1; *index receives the lowest index that satisfies it. */
TUTTI_API tutti_status tutti_window_wait_any(tutti_window *window, const size_t *offsets, size_t n,
                                             tutti_compare compare, uint64_t value,
                                             int64_t timeout_ms, size_t *index, uint64_t *seen);
/* Waits until is_there(arg) returns nonzero. It reads words of this rank's windows with acquire
 * loads, and is called again after each put, signal or atomic that may have arrived. Any thread
 * that makes progress may call it until this call returns; it must be short and must not call
 * Tutti. */
TUTTI_API tutti_status tutti_window_wait_until(tutti_window *window,
                                               int (*is_there)(const void *arg), const void *arg,
                                               int64_t timeout_ms);
/* Tests without waiting: TUTTI_OK, TUTTI_PENDING, or an error as of tutti_window_wait. Makes a
 * little progress. */
TUTTI_API tutti_status tutti_window_test(tutti_window *window, size_t offset, tutti_compare compare,
                                         uint64_t value, uint64_t *seen);

/* ---- atomics --------------------------------------------------------------------------------- */

typedef enum tutti_atomic_op {
    TUTTI_ATOMIC_ADD = 0,       /* wraps */
    TUTTI_ATOMIC_SWAP,
    TUTTI_ATOMIC_COMPARE_SWAP,  /* becomes `operand` if it is `compare` */
    TUTTI_ATOMIC_AND, TUTTI_ATOMIC_OR, TUTTI_ATOMIC_XOR
} tutti_atomic_op;

/* Updates the word of `bytes` (4 or 8) at `offset` (a multiple of `bytes`) in the window of `rank`.
 * old non-NULL: waits, and *old receives the previous value. old NULL: does not wait, and the
 * update is complete after tutti_window_quiet. With 4 bytes the low halves of operand, compare and
 * *old are used. Atomic with respect to all atomics and ADD signals of the same width on that word,
 * and to atomic instructions of its owner and through tutti_window_pointer. */
TUTTI_API tutti_status tutti_window_atomic(tutti_window *window, int rank, size_t offset,
                                           size_t bytes, tutti_atomic_op op, uint64_t operand,
                                           uint64_t compare, uint64_t *old);

#ifdef __cplusplus
}
#endif
#endif
