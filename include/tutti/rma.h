/* Tutti, one-sided communication: windows into the memory of other ranks.
 *
 * A window is memory that each rank of a communicator exposes. Any rank can put data into the
 * window, get data from it, update words atomically, and send signals. A signal updates a 64-bit
 * word that the owner can wait for. The owner need not call Tutti for a transfer. If the transport
 * does not support an operation, the owner's progress thread executes it.
 *
 *     create -> put, get, signal, wait, atomic, fence, quiet ... -> free
 *
 * Ordering from one rank to another, on all transports:
 *  - Puts are unordered. After local completion the source buffer is reusable; after remote
 *    completion the data is in the window. tutti_window_quiet waits for remote completion.
 *  - Put with a signal: after the target has observed the value of the signal (tutti_window_wait,
 *    tutti_window_test or an acquire load), all bytes of the put are visible. A put of 0 bytes also
 *    signals.
 *  - tutti_window_fence orders earlier puts and atomics to a rank before later signals, gets and
 *    atomics to the same rank. A signal then becomes visible after the data of the earlier puts,
 *    and a get or atomic reads this data. The data of later puts is not ordered.
 *  - A get or atomic without an earlier fence or tutti_window_quiet may return old data, because
 *    earlier puts may still be in flight.
 *
 * Blocking and non-blocking. Without tutti_rma.counter a put or get returns at local completion.
 * With a counter, the call is non-blocking: it returns at once, and Tutti adds 1 to the counter at
 * local completion. tutti_window_signal, and tutti_window_atomic without `old`, are always
 * non-blocking. Operations that the transport cannot accept yet are queued. Each target rank has
 * its own queue, so that a slow or stopped target delays only transfers to itself:
 *  - A queue holds up to 1,024 puts, signals and atomics. The queue also stores copies of short
 *    sources and of lists of rows or pieces, up to 4 MiB. An empty queue accepts a put of any size.
 *  - If the queue of the target is full, a non-blocking put waits for space, for at most
 *    tutti_rma.timeout_ms. With tutti_rma.no_wait, the put returns TUTTI_PENDING instead, and
 *    nothing is sent.
 *  - A signal or atomic waits for space up to the communicator's timeout. To send a signal without
 *    waiting, use a put of 0 bytes with a counter and no_wait.
 *  - Fences, signals and quiets also apply to queued puts. tutti_window_quiet reports failures that
 *    occur after a non-blocking call has returned.
 *  - A non-blocking get waits until the transport accepts it.
 *
 * Offsets and sizes are in bytes. `rank` is a rank of the window's communicator, which may be the
 * calling rank. An access outside that rank's window, or to a freed window, returns
 * TUTTI_ERR_INVALID, and nothing is sent. After a rank failure or an abort of the communicator, all
 * calls, including pending waits, return TUTTI_ERR_PEER_LOST or TUTTI_ERR_ABORTED. If a rank
 * destroys its communicator before it frees its windows, the other ranks get TUTTI_ERR_PEER_LOST.
 *
 * Threads: all calls except create and free are thread-safe. Words that several ranks or threads
 * update concurrently must be updated with atomics or signals. Not usable in a forked child.
 *
 * Deadlines: calls that wait return TUTTI_ERR_TIMEOUT after `timeout_ms` (0: the communicator's
 * timeout; negative: none). They may return late, as described for tutti_call.timeout_ms. After a
 * timeout the window stays usable, and the operation continues: its buffers must stay valid until
 * tutti_window_quiet returns TUTTI_OK, or until the window is freed. A put that timed out may have
 * written part of its data; the counter of that put does not change.
 *
 * Sources: OpenSHMEM 1.5, sections 9.5 to 9.12 (put with signal, fence, quiet); MPI-4.0, chapter 12
 * (windows); NCCLX (arXiv 2510.20171, section 5.2). Details: docs/one-sided.md. */
#ifndef TUTTI_RMA_H
#define TUTTI_RMA_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Handle of a window. After tutti_window_free, calls with this handle return TUTTI_ERR_INVALID. */
typedef struct tutti_window tutti_window;

#define TUTTI_ALL_RANKS (-1)        /* `rank` of fence and quiet: all ranks */

/* ---- windows --------------------------------------------------------------------------------- */

/* Exposes mem[bytes] of this rank. Collective; sizes may differ between ranks and may be 0.
 * mem NULL: the library allocates zeroed, page-aligned memory, which ranks on this host can map
 * (tutti_window_pointer). Otherwise the caller owns mem, which must stay valid until the window is
 * freed; signals and atomics require an 8-byte aligned mem. When the call returns, the window
 * is usable on all ranks. If the call fails on one rank, it fails on all. The caller owns *out and
 * frees it with tutti_window_free before the communicator is destroyed. A process can have up to
 * 1,024 windows. */
TUTTI_API tutti_status tutti_window_create(tutti_comm *comm, void *mem, size_t bytes,
                                           tutti_window **out);

/* Frees the window. Collective. Waits, up to the communicator's timeout, until this rank's puts are
 * complete and all ranks have made the call. Afterwards no rank accesses this rank's memory. NULL
 * is a no-op.
 * INVALID: a device still uses the window, which is not freed. After any other error the window is
 * freed.
 * ABORTED: an operation targeted a rank that had already freed its window, or the communicator was
 * aborted. In the first case the communicator stays usable. After any other error except INVALID,
 * the communicator fails on all ranks. */
TUTTI_API tutti_status tutti_window_free(tutti_window *window);

/* Returns the address and size of this rank's memory; mem and bytes may be NULL. Local. */
TUTTI_API tutti_status tutti_window_memory(tutti_window *window, void **mem, size_t *bytes);
/* Returns the size of the window of `rank`, in bytes. Local. */
TUTTI_API tutti_status tutti_window_bytes(tutti_window *window, int rank, size_t *bytes);
/* Sets *out to an address for loads and stores to the memory of `rank`, or to NULL if this memory
 * is not mapped. Memory is not mapped if the rank is on another host, or if the rank passed memory
 * to tutti_window_create that tutti_mem_alloc did not allocate. The address is valid until the
 * window is freed. The call may connect to the rank. Stores do not wake waiting threads: call
 * tutti_window_signal after the stores.
 * If a collective that receives into memory from tutti_mem_alloc fails, other ranks may lose their
 * mapping of this memory. Their stores then have no effect. In this case, free the window. */
TUTTI_API tutti_status tutti_window_pointer(tutti_window *window, int rank, void **out);

/* ---- puts and gets --------------------------------------------------------------------------- */

/* How a signal updates its word: no signal, store the value, or add the value. */
typedef enum tutti_signal_op {
    TUTTI_SIGNAL_NONE = 0,
    TUTTI_SIGNAL_SET,
    TUTTI_SIGNAL_ADD
} tutti_signal_op;

/* Options of a put or get. Set `size` to sizeof(tutti_rma). A field that is zero (or NULL) takes
 * its default value. */
typedef struct tutti_rma {
    size_t size;
    tutti_signal_op signal_op;  /* puts only: how the signal word is updated after the data has
                                   arrived */
    uint64_t signal_value;
    size_t signal_offset;       /* offset of the signal word, a multiple of 8 */
    tutti_window *signal_window;    /* window of the signal word, on the same communicator; NULL:
                                     * the window of the put */
    uint64_t *counter;          /* non-NULL: the call is non-blocking, and Tutti atomically adds 1
                                 * to the counter at local completion; the counter must stay valid
                                 * until then */
    int64_t timeout_ms;
    uint32_t no_wait;           /* puts with a counter only. 1: if the queue of the target is full,
                                 * return TUTTI_PENDING without sending; 0: wait for space in the
                                 * queue */
    uint32_t pad;
} tutti_rma;

/* Puts src[bytes] into the window of `rank` at `offset`. A source of up to 32 KiB is reusable when
 * the call returns, a longer source at local completion. A blocking put waits until the transport
 * has accepted all data. For puts with a counter see "Blocking and non-blocking" above. */
TUTTI_API tutti_status tutti_window_put(tutti_window *window, int rank, size_t offset,
                                        const void *src, size_t bytes, const tutti_rma *rma);
/* Gets dst[bytes] from the window of `rank` at `offset`. For gets with a counter see "Blocking and
 * non-blocking" above. */
TUTTI_API tutti_status tutti_window_get(tutti_window *window, int rank, size_t offset, void *dst,
                                        size_t bytes, const tutti_rma *rma);

/* Puts `rows` rows of row_bytes bytes each. The distance between row starts is src_stride bytes in
 * src and stride bytes in the window; both strides are at least row_bytes. All rows form one put,
 * with one signal after the last row and one local completion. */
typedef struct tutti_rows {
    size_t rows, row_bytes, src_stride, stride;
} tutti_rows;
TUTTI_API tutti_status tutti_window_put_rows(tutti_window *window, int rank, size_t offset,
                                             const void *src, const tutti_rows *rows,
                                             const tutti_rma *rma);

/* Puts pieces[n], each with a source and an offset, as one put. All pieces are checked before the
 * first one is sent. The array may be reused when the call returns. */
typedef struct tutti_piece {
    size_t offset;              /* in the window */
    const void *src;
    size_t bytes;
} tutti_piece;
TUTTI_API tutti_status tutti_window_put_pieces(tutti_window *window, int rank,
                                               const tutti_piece *pieces, size_t n,
                                               const tutti_rma *rma);

/* Waits until *counter (tutti_rma.counter) is at least `value`. Makes progress. */
TUTTI_API tutti_status tutti_window_wait_counter(tutti_window *window, const uint64_t *counter,
                                                 uint64_t value, int64_t timeout_ms);

/* ---- order ----------------------------------------------------------------------------------- */

/* Orders earlier puts and atomics of this process to `rank` (or TUTTI_ALL_RANKS) before later
 * signals, gets and atomics of this process to the same rank. Takes constant time and never waits,
 * but a later get or atomic may wait for the earlier puts. Transfers to other ranks are not
 * affected. */
TUTTI_API tutti_status tutti_window_fence(tutti_window *window, int rank);
/* Waits for remote completion of all earlier puts, gets and atomics of this process to `rank`, or
 * with TUTTI_ALL_RANKS to all ranks of the communicator. Does not wait for operations that other
 * threads start during the call. */
TUTTI_API tutti_status tutti_window_quiet(tutti_window *window, int rank, int64_t timeout_ms);

/* ---- signals --------------------------------------------------------------------------------- */

/* Sends a signal without data: the same as a non-blocking put of 0 bytes with a signal. Waits only
 * if the queue of `rank` is full; see "Blocking and non-blocking". */
TUTTI_API tutti_status tutti_window_signal(tutti_window *window, int rank, size_t offset,
                                           tutti_signal_op op, uint64_t value);

/* Comparison of a word with the value passed to a wait or test. */
typedef enum tutti_compare {
    TUTTI_EQUAL = 0,
    TUTTI_AT_LEAST,             /* unsigned comparison */
    TUTTI_NOT_EQUAL
} tutti_compare;

/* Waits until the word at `offset` of this rank's own window satisfies the comparison. *seen
 * receives the value of the word; seen may be NULL. Data that was put before the signal is then
 * visible.
 * PEER_LOST: a rank failed, or all other ranks have called tutti_window_free and this rank has
 * never signalled its own window, so that no signal can arrive. The failure of a rank without a
 * connection to this rank is detected only at the deadline. */
TUTTI_API tutti_status tutti_window_wait(tutti_window *window, size_t offset, tutti_compare compare,
                                         uint64_t value, int64_t timeout_ms, uint64_t *seen);
/* Like tutti_window_wait, but waits until any of the words at offsets[n] (n >= 1) satisfies the
 * comparison. *index is set to the lowest index of such a word. */
TUTTI_API tutti_status tutti_window_wait_any(tutti_window *window, const size_t *offsets, size_t n,
                                             tutti_compare compare, uint64_t value,
                                             int64_t timeout_ms, size_t *index, uint64_t *seen);
/* Waits until the predicate is_there(arg) returns nonzero. The predicate reads words of this rank's
 * windows with acquire loads. The predicate is called whenever a put, signal or atomic may have
 * arrived, by any thread that makes progress. The predicate must be short and must not call
 * Tutti. */
TUTTI_API tutti_status tutti_window_wait_until(tutti_window *window,
                                               int (*is_there)(const void *arg), const void *arg,
                                               int64_t timeout_ms);
/* Like tutti_window_wait, but tests the word without waiting. Returns TUTTI_OK, TUTTI_PENDING, or
 * the errors of tutti_window_wait. Makes progress once. */
TUTTI_API tutti_status tutti_window_test(tutti_window *window, size_t offset, tutti_compare compare,
                                         uint64_t value, uint64_t *seen);
/* Like tutti_window_wait and tutti_window_wait_counter, but return TUTTI_PENDING at the deadline,
 * without an error message. Use them to wait in slices, for example to handle process signals in
 * between. In traces, each call that waits has its own record. */
TUTTI_API tutti_status tutti_window_test_for(tutti_window *window, size_t offset,
                                             tutti_compare compare, uint64_t value,
                                             int64_t timeout_ms, uint64_t *seen);
TUTTI_API tutti_status tutti_window_test_counter_for(tutti_window *window, const uint64_t *counter,
                                                     uint64_t value, int64_t timeout_ms);

/* ---- atomics --------------------------------------------------------------------------------- */

/* Operations of tutti_window_atomic. */
typedef enum tutti_atomic_op {
    TUTTI_ATOMIC_ADD = 0,       /* wraps on overflow */
    TUTTI_ATOMIC_SWAP,
    TUTTI_ATOMIC_COMPARE_SWAP,  /* stores `operand` if the word equals `compare` */
    TUTTI_ATOMIC_AND, TUTTI_ATOMIC_OR, TUTTI_ATOMIC_XOR
} tutti_atomic_op;

/* Applies `op` to the word at `offset` in the window of `rank`. `bytes` is the size of the word, 4
 * or 8. `offset` must be a multiple of this size. If old is not NULL, the call waits, and *old
 * receives the previous value. If old is NULL, the call waits only if the queue for `rank` is full
 * (see "Blocking and non-blocking"). The update is then complete after tutti_window_quiet. With 4
 * bytes, the low halves of operand, compare and *old are used. The update is atomic with respect to
 * other atomics and ADD signals of the same width on that word. The update is also atomic with
 * respect to atomic CPU instructions of the owner, and of ranks that map the word
 * (tutti_window_pointer). */
TUTTI_API tutti_status tutti_window_atomic(tutti_window *window, int rank, size_t offset,
                                           size_t bytes, tutti_atomic_op op, uint64_t operand,
                                           uint64_t compare, uint64_t *old);

#ifdef __cplusplus
}
#endif
#endif
