/* Tutti, for mixtures of experts: all-to-all exchanges whose sizes are decided late.
 *
 * Each rank cuts its send buffer into pieces, one for each expert say, and sends each piece to none, one or several ranks. How long the pieces are and
 * who gets which is read from memory when the exchange *starts*, not when it is called, and travels with the data: no rank needs to know another
 * one's sizes before. Only the bytes that are meant travel.
 *
 * Two forms: tutti_alltoallv_dynamic, a collective like others; and a *replay*, for the same exchange again and again: its receive buffers are the
 * library's, known to all ranks from the beginning.
 *
 * Example of the layout. Four pieces of 128, 256, 256 and 128 elements; index_block_lens = {2, 3}, indices = {0, 1 | 0, 2, 3}. Rank 0 gets pieces 0 and 1. Rank 1
 * gets pieces 0, 2 and 3, each where it lies in the sender's buffer: [0, 128), [384, 640) and [640, 768) of its receive buffer for this sender. Its elements
 * [128, 384) stay as they are.
 *
 * docs/moe.md tells what it costs, and how a call goes. Sources: "Collective Communication for 100k+ GPUs" (arXiv 2510.20171), sections 6.1 and 6.2. */
#ifndef TUTTI_MOE_H
#define TUTTI_MOE_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what is exchanged ---------------------------------------------------------------------------- */

/* One rank's part of an exchange. Zero the whole struct and set `size` to sizeof. Lengths are elements. "Read at the start" means: by reference when the exchange
 * starts, so the memory must stay, and may be written until `start` says so. */
typedef struct tutti_dynamic {
    size_t size;
    const void *sendbuff;           /* [sum of split_lengths] elements, piece after piece. Read from the start on */
    const size_t *split_lengths;    /* [nsplits]: how long each piece is; 0 is fine. Read at the start */
    size_t nsplits;                 /* pieces, 1 to 65536; the same on all ranks */
    const size_t *indices;          /* the pieces that go to rank 0, then those to rank 1, ...: in any order, a piece to any number of ranks, this one
                                       too. One that is listed twice for a rank goes there once. Read at the start */
    const size_t *index_block_lens; /* [nranks]: how many indices each rank has. Read at the start */
    const size_t *nindices;         /* how many there are in all, which must be the sum of index_block_lens. NULL: that sum. Read at the start */
    void *const *recvbuffs;         /* [nranks]: recvbuffs[r] gets what rank r sends here, each piece at its place in r's send buffer; what is not sent
                                       stays as it is. Each has room for max_total elements, and overlaps neither another one nor sendbuff. The
                                       array is read when the exchange is called */
    size_t *recv_all_split_lengths; /* [nranks][nsplits]: everybody's split_lengths; NULL: not wanted. Written on TUTTI_OK only */
    size_t max_length;              /* the longest that a piece may be, at most 2^40; the same on all ranks */
    size_t max_total;               /* the most that all pieces of a rank may be together; 0: nsplits * max_length. The same on all ranks */
    const uint64_t *start;          /* the exchange starts when *start, written with release order, is at least start_value; NULL: at once. Until then
                                       later collectives of the communicator wait here. It may be a flag of a device (tutti_device_flag), which a kernel raises
                                       when it has written the lists. A plain store wakes nobody: where nobody spins it is seen within a millisecond */
    uint64_t start_value;
    uint64_t *over;                 /* becomes over_value, with release order, when the exchange has ended here, well or not: for kernels that wait for it
                                       (a flag of a device) and who else has no request. NULL: nobody does. Not written if the call is refused at once */
    uint64_t over_value;
} tutti_dynamic;

/* ---- the collective ---------------------------------------------------------------------------------- */

/* Exchanges pieces as `what` says; elements of `type`. Collective. `call` may hold a request, a deadline (which runs from the call, also while the
 * start is awaited); an algorithm by name is TUTTI_ERR_INVALID, as are quant, divisor and scale. *what itself is read when it is called.
 *
 * All ranks look at all lists before anything is written, so they agree on what is wrong:
 *   TUTTI_ERR_RANGE    on some rank a piece is longer than max_length, or all are together longer than max_total
 *   TUTTI_ERR_INVALID  on some rank an index is none of a piece, sums disagree, or send and receive buffers overlap
 * on all ranks, with a sentence that names the rank and the value; no receive buffer was touched, and the communicator is good as before. What can be seen
 * when it is called (NULL, nsplits) is TUTTI_ERR_INVALID there alone, as elsewhere. After other errors the contents of receive buffers are undefined.
 *
 * Memory: none until the first call on a communicator; then for each exchange that runs at once what tutti_alltoallv_dynamic_bytes tells, kept until
 * the communicator is destroyed. */
TUTTI_API tutti_status tutti_alltoallv_dynamic(const tutti_dynamic *what, tutti_dtype type, tutti_comm *comm,
                                               const tutti_call *call);

/* *bytes is what the exchanges of this communicator hold now: 0 before the first. Any thread. */
TUTTI_API tutti_status tutti_alltoallv_dynamic_bytes(tutti_comm *comm, size_t *bytes);

/* ---- the persistent form ------------------------------------------------------------------------------- */

/* The same exchange again and again. Ranks tell each other once where the receive buffers are; a run is then puts with signals and nothing else. Instead of a
 * barrier between runs there are several sets of receive buffers, which take turns. */
typedef struct tutti_replay tutti_replay;

/* Which of its savings a replay goes without, to measure what each is worth. Bits; the same on all ranks. */
enum {
    TUTTI_REPLAY_NO_HANDLES = 1,    /* ranks tell each other anew, in each run, where the receive buffers are */
    TUTTI_REPLAY_NO_BYPASS = 2,     /* short pieces are not packed into one message with their head, but put like long ones */
    TUTTI_REPLAY_NO_CHAIN = 4       /* each put is handed to the wire alone, not with the others for its rank (or, packed, for all ranks) */
};

/* How a replay is made; the same on all ranks. Zero means default where one is named; set `size` to sizeof. */
typedef struct tutti_replay_conf {
    size_t size;
    size_t nsplits, max_length, max_total;  /* as in tutti_dynamic */
    tutti_dtype type;
    uint32_t depth;                 /* sets of receive buffers, 2 to 8; 0: 2 */
    uint32_t without;               /* TUTTI_REPLAY_NO_...; 0: nothing */
} tutti_replay_conf;

/* Collective. Takes depth * nranks * (max_total elements and some KiB) of memory, which ranks on this host can map. Caller owns *out and ends it with
 * tutti_replay_free. */
TUTTI_API tutti_status tutti_replay_create(tutti_comm *comm, const tutti_replay_conf *conf, tutti_replay **out);

/* Starts the next run: what is sent is on its way, and sendbuff is the caller's again, when it returns. Of *what the replay reads sendbuff,
 * split_lengths, indices, index_block_lens, nindices, start and start_value (for which it waits); the others must be zero. Lists that are wrong are no
 * error here but of tutti_replay_wait, on all ranks. One run at a time: tutti_replay_wait comes before the next start. timeout_ms as in tutti_call. */
TUTTI_API tutti_status tutti_replay_start(tutti_replay *replay, const tutti_dynamic *what, int64_t timeout_ms);

/* What has come. The library's memory, valid until this rank starts the run that is depth - 1 after this one: with the default depth, the next. With a
 * depth of 3 or more the next run may send from it. */
typedef struct tutti_arrived {
    size_t size;
    void *const *recvbuffs;                 /* [nranks], each [max_total] */
    const size_t *recv_all_split_lengths;   /* [nranks][nsplits] */
} tutti_arrived;

/* Waits until the run is over here: all that others send here has come. *out is written on TUTTI_OK. TUTTI_ERR_RANGE and TUTTI_ERR_INVALID on all ranks as
 * of tutti_alltoallv_dynamic, but ranks whose own lists are right may have written into the receive buffers of this run: these hold nothing
 * then. The replay is good as before. After other errors it is good only for tutti_replay_free. */
TUTTI_API tutti_status tutti_replay_wait(tutti_replay *replay, tutti_arrived *out, int64_t timeout_ms);

/* Collective; frees in any case, as tutti_window_free. NULL is fine. */
TUTTI_API tutti_status tutti_replay_free(tutti_replay *replay);

#ifdef __cplusplus
}
#endif
#endif
