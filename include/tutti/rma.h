/* Tutti, one-sided: windows into the memory of other ranks.
 *
 * A window is memory that each rank of a communicator exposes. Any rank puts bytes there, gets them, adds to words, and raises *signals*: 64-bit
 * words of the window on which their owner waits. The owner takes no part in it: its progress thread serves what its memory and wires do not.
 *
 *     create -> put, get, signal, wait, atomic, fence, quiet ... -> free
 *
 * What holds on every wire, from one rank to one other:
 *  - A put promises no order. Its source is reusable at *local completion*; it has landed at *remote completion*, which tutti_window_quiet waits for.
 *  - A put with a signal: who sees the signal's value (tutti_window_wait or _test, or an acquire load) sees all bytes of that put, also where it has many
 *    pieces. A put of no bytes still signals.
 *  - tutti_window_fence orders puts and atomics to one rank before the signals, gets and atomics that are called later: a
 *    signal is seen after them, a get or atomic sees what they wrote. It takes constant time and never waits. Later puts
 *    without a signal are not ordered.
 *  - Without a fence or tutti_window_quiet, a get or atomic may read before earlier puts have landed.
 * docs/one-sided.md tells how each wire keeps this, and what it costs.
 *
 * Offsets and sizes are bytes; `rank` is one of the window's communicator, this rank itself too. What lies outside the window of that rank is
 * TUTTI_ERR_INVALID, as is a window that was freed: nothing is sent. After a rank is lost, or the communicator aborted, every call returns that status;
 * so does one that waits. A rank that destroys its communicator while it has windows there is lost (TUTTI_ERR_PEER_LOST) to the others.
 *
 * Threads: all calls but create and free may be made by any threads at once. Words that several ranks or threads change at the same time must be
 * changed by atomics or signals. Not in the child of a fork.
 *
 * Deadlines: calls that may wait end by `timeout_ms` (0: the communicator's; negative: none) with TUTTI_ERR_TIMEOUT. The window stays usable; what was
 * begun goes on: a put's source and a get's destination may be used again when tutti_window_quiet has returned TUTTI_OK, or the window is freed. A put that
 * timed out may have written part of its bytes; its counter does not grow.
 *
 * Sources: the words and their meaning are those of OpenSHMEM 1.5 (put with signal, fence, quiet; chapters 9.5 to 9.12) and of MPI-4.0, chapter 12 (windows);
 * windows of a collective library: NCCLX (arXiv 2510.20171, section 5.2). */
#ifndef TUTTI_RMA_H
#define TUTTI_RMA_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A handle, valid from create to free; used afterwards it is told as such. */
typedef struct tutti_window tutti_window;

#define TUTTI_ALL_RANKS (-1)        /* for fence and quiet */

/* ---- windows ------------------------------------------------------------------------------------- */

/* Exposes mem[bytes] of this rank. Collective; ranks may give different sizes, also 0. mem NULL: the library allocates (zeroed, page
 * aligned), and ranks on this host can load and store there (tutti_window_pointer). Memory of the caller's stays the caller's and must
 * outlive the window; where signals and atomics shall go it begins at a multiple of 8. When it returns, all ranks have the window. If it fails on
 * one rank it fails on all. Caller owns *out and ends it with tutti_window_free, before the communicator is destroyed. At most 1024 at a time in a
 * process. */
TUTTI_API tutti_status tutti_window_create(tutti_comm *comm, void *mem, size_t bytes, tutti_window **out);

/* Collective: what this rank has put has landed and all ranks have called it when it returns; allocated memory is gone. It frees the window also when it returns
 * an error: then nothing of other ranks touches this rank's memory any more, and unless it only tells that something was not done at a rank that had taken
 * its window back (TUTTI_ERR_ABORTED), the communicator fails on all ranks. Waits no longer than the communicator's deadline. NULL is fine. */
TUTTI_API tutti_status tutti_window_free(tutti_window *window);

/* This rank's part: *mem (NULL: do not care) and *bytes (likewise). Local. */
TUTTI_API tutti_status tutti_window_memory(tutti_window *window, void **mem, size_t *bytes);
/* How large the part of `rank` is. Local. */
TUTTI_API tutti_status tutti_window_bytes(tutti_window *window, int rank, size_t *bytes);
/* Where the part of `rank` can be loaded and stored by this process itself: *out is NULL where it cannot (another host, the caller's memory). Valid
 * until free. May connect to the rank. A plain store wakes nobody that waits: tell of it with tutti_window_signal, after which it is seen. */
TUTTI_API tutti_status tutti_window_pointer(tutti_window *window, int rank, void **out);

/* ---- puts and gets ---------------------------------------------------------------------------------- */

typedef enum tutti_signal_op { TUTTI_SIGNAL_NONE = 0, TUTTI_SIGNAL_SET, TUTTI_SIGNAL_ADD } tutti_signal_op;

/* Options of one put or get. Zero (or NULL) means default everywhere; set `size` to sizeof. */
typedef struct tutti_rma {
    size_t size;
    tutti_signal_op signal_op;  /* puts only: what is done to the signal when the bytes are there */
    uint64_t signal_value;
    size_t signal_offset;       /* a multiple of 8 */
    tutti_window *signal_window;    /* where the signal is, of the same communicator; NULL: in the window of the put */
    uint64_t *counter;          /* 1 is added (atomically) at local completion: the source of a put is reusable, the bytes of a get are there. NULL: the call
                                   waits for that. It must live until then */
    int64_t timeout_ms;
    uint32_t no_wait;           /* Puts with a counter only. 1: if the queue of that rank is full the call returns
                                 * TUTTI_PENDING, and nothing was sent; 0: it waits for room. */
    uint32_t pad;
} tutti_rma;

/* src[bytes] to the window of `rank` at `offset`. Up to 32 KiB, and to memory that is mapped, its source is reusable at once. Waits only for room: a
 * wire takes a bounded number of bytes. */
TUTTI_API tutti_status tutti_window_put(tutti_window *window, int rank, size_t offset, const void *src, size_t bytes,
                                        const tutti_rma *rma);
/* The bytes at `offset` of the window of `rank` to dst[bytes]. */
TUTTI_API tutti_status tutti_window_get(tutti_window *window, int rank, size_t offset, void *dst, size_t bytes,
                                        const tutti_rma *rma);

/* `rows` rows of row_bytes, src_stride bytes from one to the next in src and stride bytes in the window (each at least row_bytes). One put: one signal
 * after all rows, and one local completion. */
typedef struct tutti_rows {
    size_t rows, row_bytes, src_stride, stride;
} tutti_rows;
TUTTI_API tutti_status tutti_window_put_rows(tutti_window *window, int rank, size_t offset, const void *src,
                                             const tutti_rows *rows, const tutti_rma *rma);

/* pieces[n], each from and to where it says. One put, as above; all pieces are checked before the first is sent. */
typedef struct tutti_piece {
    size_t offset;              /* in the window */
    const void *src;
    size_t bytes;
} tutti_piece;
TUTTI_API tutti_status tutti_window_put_pieces(tutti_window *window, int rank, const tutti_piece *pieces, size_t n,
                                               const tutti_rma *rma);

/* Until *counter (of tutti_rma) is at least `value`. Makes progress. */
TUTTI_API tutti_status tutti_window_wait_counter(tutti_window *window, const uint64_t *counter, uint64_t value,
                                                 int64_t timeout_ms);

/* ---- order --------------------------------------------------------------------------------------------- */

/* Orders operations of this process to `rank` (or to each of TUTTI_ALL_RANKS). Puts and atomics before the call take effect
 * before signals, gets and atomics after it. Takes constant time and never waits; a later get or atomic may wait for the
 * earlier puts. Ranks are independent: operations to one rank never wait for another rank. */
TUTTI_API tutti_status tutti_window_fence(tutti_window *window, int rank);
/* Waits until all that this process has put to `rank` (or TUTTI_ALL_RANKS: of the window's communicator) before the call has landed, and its gets and atomics
 * are done. What other threads put meanwhile it does not wait for. The only call that drains. */
TUTTI_API tutti_status tutti_window_quiet(tutti_window *window, int rank, int64_t timeout_ms);

/* ---- signals --------------------------------------------------------------------------------------------- */

/* A put of no bytes with that signal. */
TUTTI_API tutti_status tutti_window_signal(tutti_window *window, int rank, size_t offset, tutti_signal_op op,
                                           uint64_t value);

typedef enum tutti_compare {
    TUTTI_EQUAL = 0,
    TUTTI_AT_LEAST,             /* as unsigned numbers */
    TUTTI_NOT_EQUAL
} tutti_compare;

/* Until the word at `offset` of this rank's own part compares so; *seen (or NULL) is what it was. What was put before the signal is seen then.
 * TUTTI_ERR_PEER_LOST if all other ranks have called tutti_window_free meanwhile and this one has never signalled to itself in the window: nobody raises
 * the word any more. (A rank tells that to those with which it has a link; of another it is noticed at the deadline.) */
TUTTI_API tutti_status tutti_window_wait(tutti_window *window, size_t offset, tutti_compare compare, uint64_t value,
                                         int64_t timeout_ms, uint64_t *seen);
/* The same until one of offsets[n] does: *index says which (the first by index). n at least 1. */
TUTTI_API tutti_status tutti_window_wait_any(tutti_window *window, const size_t *offsets, size_t n,
                                             tutti_compare compare, uint64_t value, int64_t timeout_ms, size_t *index,
                                             uint64_t *seen);
/* Until is_there(arg) is not 0, whatever words of this rank's parts it looks at, by acquire loads: it is looked at again whenever a put, a signal or an
 * atomic of another rank may have come, or one of this process to itself. Any thread that makes progress may call it, until this call returns; it is short
 * and calls nothing of Tutti. */
TUTTI_API tutti_status tutti_window_wait_until(tutti_window *window, int (*is_there)(const void *arg), const void *arg,
                                               int64_t timeout_ms);
/* TUTTI_OK if it compares so, else TUTTI_PENDING, or an error as of wait. Makes a little progress; never waits. */
TUTTI_API tutti_status tutti_window_test(tutti_window *window, size_t offset, tutti_compare compare, uint64_t value,
                                         uint64_t *seen);

/* ---- atomics ------------------------------------------------------------------------------------------------- */

typedef enum tutti_atomic_op {
    TUTTI_ATOMIC_ADD = 0,       /* wraps */
    TUTTI_ATOMIC_SWAP,
    TUTTI_ATOMIC_COMPARE_SWAP,  /* becomes `operand` if it is `compare` */
    TUTTI_ATOMIC_AND, TUTTI_ATOMIC_OR, TUTTI_ATOMIC_XOR
} tutti_atomic_op;

/* A word of `bytes` (4 or 8) at `offset`, a multiple of that, of the window of `rank`. *old is what it was before, and the call waits for that; old NULL: it does
 * not wait, and the word is changed at the latest when tutti_window_quiet returns. Of 4 bytes the lower half of operand, compare and *old counts. Atomic
 * towards all atomics and ADD signals of all ranks to that word, of one width, and towards atomic instructions of its owner and through
 * tutti_window_pointer. */
TUTTI_API tutti_status tutti_window_atomic(tutti_window *window, int rank, size_t offset, size_t bytes,
                                           tutti_atomic_op op, uint64_t operand, uint64_t compare, uint64_t *old);

#ifdef __cplusplus
}
#endif
#endif
