/* Tutti for mixtures of experts (MoE): all-to-all exchanges with late-decided sizes, and layers
 * that dispatch tokens to experts and combine their results.
 *
 * A dynamic exchange. Each rank divides its send buffer into pieces, e.g. one per expert, and sends
 * each piece to zero or more ranks. The lengths and destinations of the pieces are read from memory
 * when the exchange *starts*, not when it is called. They are sent with the data, so no rank needs
 * the sizes of another rank in advance. Only the listed pieces are sent.
 *
 * Two forms: tutti_alltoallv_dynamic is a collective like the others. A *replay* repeats an
 * exchange of one shape, with receive buffers that the library allocates and registers once.
 *
 * Example of the layout. The send buffer has four pieces of 128, 256, 256 and 128 elements, with
 * index_block_lens = {2, 3} and indices = {0, 1 | 0, 2, 3}. Rank 0 receives pieces 0 and 1. Rank 1
 * receives pieces 0, 2 and 3, each at its offset in the send buffer: elements [0, 128), [384, 640)
 * and [640, 768) of its receive buffer for this sender. Its elements [128, 384) do not change.
 *
 * A layer (tutti_moe) is built on the same transfers, in terms of tokens, experts and weights.
 * Kernels use a layer with <tutti/moe_device.h>.
 *
 * Sources: "Collective Communication for 100k+ GPUs" (arXiv 2510.20171), sections 6.1 and 6.2.
 * Details and costs: docs/moe.md. */
#ifndef TUTTI_MOE_H
#define TUTTI_MOE_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the exchange ---------------------------------------------------------------------------- */

/* One rank's part of an exchange. Zero the whole struct and set `size` to sizeof. Lengths are in
 * elements. Arrays marked "at the start" are read when the exchange starts: they must stay valid,
 * and the caller may write them until it raises `start`. */
typedef struct tutti_dynamic {
    size_t size;
    const void *sendbuff;           /* [sum of split_lengths] elements: the pieces in order. Read
                                     * from the start of the exchange until its end */
    const size_t *split_lengths;    /* [nsplits] length of each piece, may be 0. At the start */
    size_t nsplits;                 /* number of pieces, 1 to 65536; the same on all ranks */
    const size_t *indices;          /* The pieces for rank 0, then those for rank 1, and so on, each
                                     * list in any order. A piece may be sent to several ranks, also
                                     * to this one. A repeated index is sent once. At the start */
    const size_t *index_block_lens; /* [nranks] number of indices for each rank. At the start */
    const size_t *nindices;         /* Total number of indices, checked against the sum of
                                     * index_block_lens; NULL: no check. At the start */
    void *const *recvbuffs;         /* [nranks] recvbuffs[r] receives the pieces of rank r, each at
                                     * its offset in r's send buffer; other elements do not change.
                                     * Each has max_total elements. They must not overlap each other
                                     * or sendbuff. The array is read during the call only */
    size_t *recv_all_split_lengths; /* [nranks][nsplits] receives the split_lengths of all ranks, on
                                     * TUTTI_OK only; NULL: not needed */
    size_t max_length;              /* maximum length of a piece, at most 2^40; the same on all
                                     * ranks */
    size_t max_total;               /* maximum sum of a rank's split_lengths; 0: nsplits *
                                     * max_length; the same on all ranks */
    const uint64_t *start;          /* The exchange starts when *start is at least start_value;
                                     * NULL: at once. The writer uses release order. Until then,
                                     * later collectives of the communicator wait on this rank. It
                                     * may be a flag that a kernel raises (tutti_device_flag). A
                                     * plain store does not wake sleeping threads: they notice it
                                     * within 1 ms */
    uint64_t start_value;
    uint64_t *over;                 /* Set to over_value with release order when the exchange has
                                     * ended on this rank, with any status; NULL: not used. For
                                     * waiting kernels (tutti_device_flag) and threads without the
                                     * request. Not set if the call itself returns an error */
    uint64_t over_value;
} tutti_dynamic;

/* ---- the collective -------------------------------------------------------------------------- */

/* Exchanges the pieces described by *what; elements have type `type`. Collective. *what itself is
 * read during the call only.
 * `call` may hold a request and a deadline, which includes the wait for `start`. call.algo, the
 * same on all ranks, may select how heads (the lists of lengths) are exchanged: "heads_direct"
 * (each rank sends its own to each peer) or "heads_gathered" (an allgather). Other names, and
 * quant, divisor and scale, are TUTTI_ERR_INVALID.
 *
 * All ranks check the lists of all ranks before any data is written. All ranks then return the same
 * status, with a message that names the rank and the value:
 *   TUTTI_ERR_RANGE    a piece exceeds max_length, or the pieces of a rank exceed max_total
 *   TUTTI_ERR_INVALID  an index is not below nsplits, sums differ, or buffers overlap
 * The receive buffers are unchanged, and the communicator stays usable. Arguments that are invalid
 * at the call (NULL, nsplits) are TUTTI_ERR_INVALID on this rank only. After any other error the
 * contents of the receive buffers are undefined.
 *
 * Memory: allocated at the first call on a communicator, for each concurrent exchange, and kept
 * until the communicator is destroyed (tutti_alltoallv_dynamic_bytes). */
TUTTI_API tutti_status tutti_alltoallv_dynamic(const tutti_dynamic *what, tutti_dtype type,
                                               tutti_comm *comm, const tutti_call *call);

/* Returns the memory of this communicator's exchanges in bytes, 0 before the first. Any thread. */
TUTTI_API tutti_status tutti_alltoallv_dynamic_bytes(tutti_comm *comm, size_t *bytes);

/* ---- the persistent form --------------------------------------------------------------------- */

/* Repeats an exchange. The ranks exchange the addresses of the receive buffers once; each run then
 * consists of puts with signals. Several sets of receive buffers, used in turn, make a barrier
 * between runs unnecessary. */
typedef struct tutti_replay tutti_replay;

/* Optimizations to disable, to measure the effect of each. Bits; the same on all ranks. */
enum {
    TUTTI_REPLAY_NO_HANDLES = 1,    /* exchange the receive buffers' addresses again in each run */
    TUTTI_REPLAY_NO_BYPASS = 2,     /* put short pieces like long ones, instead of packing them into
                                     * one message with their head */
    TUTTI_REPLAY_NO_CHAIN = 4       /* post each put separately, instead of all puts to a rank (or
                                     * all packed messages) together */
};

/* Options of a replay, the same on all ranks. Zero means default where one is named; set `size` to
 * sizeof. */
typedef struct tutti_replay_conf {
    size_t size;
    size_t nsplits, max_length, max_total;  /* as in tutti_dynamic */
    tutti_dtype type;
    uint32_t depth;                 /* number of sets of receive buffers, 2 to 8; 0: 2 */
    uint32_t without;               /* TUTTI_REPLAY_NO_...; 0: all optimizations are enabled */
} tutti_replay_conf;

/* Creates a replay. Collective. Allocates depth * nranks blocks of max_total elements plus some
 * KiB, which ranks on this host can map. The caller owns *out: free it with tutti_replay_free. */
TUTTI_API tutti_status tutti_replay_create(tutti_comm *comm, const tutti_replay_conf *conf,
                                           tutti_replay **out);

/* Starts the next run: waits for `start`, then sends the data. sendbuff is reusable on return.
 * Reads these fields of *what: sendbuff, split_lengths, indices, index_block_lens,
 * nindices, start and start_value; the others must be zero. Invalid lists are not an error here,
 * but in tutti_replay_wait, on all ranks. Each run must be completed with tutti_replay_wait before
 * the next one starts. timeout_ms: as in tutti_call. */
TUTTI_API tutti_status tutti_replay_start(tutti_replay *replay, const tutti_dynamic *what,
                                          int64_t timeout_ms);

/* The received data, in memory of the library. Valid until this rank starts the run that is
 * depth - 1 after this one: with the default depth, the next run. With a depth of 3 or more, the
 * next run may send from it. */
typedef struct tutti_arrived {
    size_t size;
    void *const *recvbuffs;                 /* [nranks], each [max_total] */
    const size_t *recv_all_split_lengths;   /* [nranks][nsplits] */
} tutti_arrived;

/* Waits until all data for this rank in the run has arrived. *out is written on TUTTI_OK only.
 * TUTTI_ERR_RANGE and TUTTI_ERR_INVALID: on all ranks, as for tutti_alltoallv_dynamic, and the
 * replay stays usable; but ranks with valid lists may have written to the receive buffers of this
 * run, whose contents are then undefined. After any other error the replay can only be freed. */
TUTTI_API tutti_status tutti_replay_wait(tutti_replay *replay, tutti_arrived *out,
                                         int64_t timeout_ms);

/* Frees the replay. Collective. It is freed even if an error is returned, as for tutti_window_free.
 * NULL is a no-op. */
TUTTI_API tutti_status tutti_replay_free(tutti_replay *replay);

/* ---- dispatch and combine -------------------------------------------------------------------- */

/* A layer of experts that are distributed over ranks (expert parallelism). Each rank routes each of
 * its tokens to top_k experts. Tokens are sent to the ranks that hold these experts, which compute
 * their results; the results are sent back and added:
 *
 *     out[t] = sum over c = 0 .. top_k - 1 of weights[t][c] * f_experts[t][c](token t)
 *
 * The sum is computed in f32, from 0, in the order of c, and rounded once to `type`. With the same
 * results f, it has the same bits for any number of ranks, any wire and both forms.
 *
 *     create -> { dispatch, (next, give) until no tile is left, combine } repeatedly -> free
 *
 * One iteration is a *run*; all ranks make the same number of runs. A *tile* holds up to
 * tile_tokens tokens of one rank for the experts of another, sorted by expert.
 *   TUTTI_MOE_TILES       Each tile is put with a signal. tutti_moe_next returns tiles in order of
 *                         arrival. Results are returned in the same way, so computation and
 *                         communication overlap.
 *   TUTTI_MOE_COLLECTIVE  Dispatch is a tutti_alltoallv_dynamic, combine a tutti_alltoallv. Tiles
 *                         are views of the received data.
 * Both forms have the same calls. With TILES a kernel can make all of them (<tutti/moe_device.h>).
 *
 * Encodings of a token on its way to an expert (`there`) and of its result (`back`):
 *   TUTTI_F32, TUTTI_BF16    hidden elements, rounded to nearest even
 *   TUTTI_F8E4M3             hidden codes, padded to a multiple of 4 bytes, then a float scale for
 *                            each scale_elems elements. value = code * scale. The scale is a power
 *                            of two, at least 2^-126, that brings the largest magnitude of these
 *                            elements into 224 to 448. The error is at most 2^-4 of the element or
 *                            2^-10 of the scale, whichever is larger. Elements that share a scale
 *                            with an infinity or a NaN become NaN.
 * Rows start at multiples of 16 and are row_bytes apart, a multiple of 16.
 *
 * Errors. If the routing of a rank is invalid, all ranks return TUTTI_ERR_INVALID with a message
 * that names the rank, the token and the value. That rank returns it from dispatch; the others from
 * dispatch (COLLECTIVE) or from next (TILES). The run ends on all ranks without a result, and the
 * layer stays usable. After any other error the layer can only be freed.
 * Threads: a layer is used by one thread at a time.
 *
 * Sources: DeepEP and "DeepSeek-V3 Technical Report" (arXiv 2412.19437), section 3.2, for dispatch
 * and combine, fp8 to the experts, bf16 back, and replicated experts; "FlashDMoE" (arXiv
 * 2506.04667) for tiles that are computed on arrival. */
typedef struct tutti_moe tutti_moe;

typedef enum tutti_moe_form {
    TUTTI_MOE_TILES = 0,
    TUTTI_MOE_COLLECTIVE,
    TUTTI_MOE_FORMS
} tutti_moe_form;

#define TUTTI_MOE_NONE 0xffffffffu      /* as an expert of a token: no expert for this choice */

/* Options of a layer. All except held, nheld, device and group_experts must be the same on all
 * ranks. Zero means default where one is named; set `size` to sizeof. */
typedef struct tutti_moe_conf {
    size_t size;
    tutti_moe_form form;
    uint32_t hidden;            /* elements per token, 1 to 65536 */
    uint32_t experts;           /* number of experts of all ranks, 1 to 65535 */
    uint32_t top_k;             /* experts per token, 1 to 64 and at most `experts` */
    uint32_t max_tokens;        /* maximum number of tokens of a rank per run, 1 to 2^20 */
    uint32_t tile_tokens;       /* maximum number of tokens per tile, 1 to 4096; 0: 16 */
    tutti_dtype type;           /* of tokens and combined results: TUTTI_F32 or TUTTI_BF16 */
    tutti_dtype there, back;    /* encodings of tokens and of results on the network: TUTTI_F32,
                                 * TUTTI_BF16 or TUTTI_F8E4M3 */
    uint32_t scale_elems;       /* TUTTI_F8E4M3: elements per scale; 0: all elements of a token */
    uint32_t nheld;             /* number of experts in `held` */
    const uint32_t *held;       /* [nheld] the experts of this rank, without duplicates. NULL: rank
                                 * r of n holds [r * experts / n, (r + 1) * experts / n). Each
                                 * expert must be held by some rank. Of m ranks that hold an expert,
                                 * in rank order, token t of rank r goes to number (r + t) mod m */
    const struct tutti_device_conf *device;     /* TILES: options of the device whose proxy sends
                                                 * tiles (<tutti/device.h>), without `groups`, which
                                                 * the layer sets. NULL: defaults */
    uint32_t group_experts;     /* TILES: experts per group of the device; the signals of a group
                                 * are sent after the last put of its tiles. Experts are counted
                                 * rank by rank, in the order of each rank's `held`. A group may
                                 * cover part of a rank's experts, or experts of several ranks, with
                                 * one fence per rank. A tile belongs to the group of its first
                                 * row's expert. 0: one group per rank */
} tutti_moe_conf;

/* Creates a layer. Collective. The caller owns *out: free it with tutti_moe_free before the
 * communicator is destroyed.
 * Memory of each rank, for n ranks, R = max_tokens * min(top_k, the maximum number of experts on a
 * rank), and rows of b bytes to experts and c bytes back:
 *   TILES       about 2n R (b + c) bytes in a window, which ranks on this host can map, and
 *               max_tokens * top_k * b + n R c bytes of private memory
 *   COLLECTIVE  about n * max_tokens * top_k * b + 2n R c bytes; only used pages are touched */
TUTTI_API tutti_status tutti_moe_create(tutti_comm *comm, const tutti_moe_conf *conf,
                                        tutti_moe **out);
/* Frees the layer. Collective. It is freed even if an error is returned, as for tutti_window_free.
 * NULL is a no-op. */
TUTTI_API tutti_status tutti_moe_free(tutti_moe *moe);

/* The tokens of this rank in a run, and their experts. Set `size` to sizeof. */
typedef struct tutti_moe_routing {
    size_t size;
    const void *tokens;         /* [ntokens][hidden] of conf.type */
    size_t ntokens;             /* 0 to max_tokens */
    const uint32_t *experts;    /* [ntokens][top_k] distinct per token, or TUTTI_MOE_NONE */
    const float *weights;       /* [ntokens][top_k], finite */
} tutti_moe_routing;

/* Begins a run and sends the tokens. On return all memory that `routing` refers to is reusable.
 * COLLECTIVE waits for all ranks. timeout_ms: as in tutti_call. */
TUTTI_API tutti_status tutti_moe_dispatch(tutti_moe *moe, const tutti_moe_routing *routing,
                                          int64_t timeout_ms);

/* Received tokens for experts of this rank, in memory of the library. Valid until the run is
 * combined. Set `size` to sizeof. */
typedef struct tutti_moe_tile {
    size_t size;
    uint32_t source, number;    /* the sending rank, and the index of the tile among its tiles */
    uint32_t rows;              /* number of tokens; 0: no tile is left in this run */
    uint32_t row_bytes;
    const uint32_t *experts;    /* [rows] expert of each token; equal experts are adjacent */
    const void *payload;        /* [rows][row_bytes] tokens, encoded as conf.there */
} tutti_moe_tile;

/* Waits for the next tile of the run. */
TUTTI_API tutti_status tutti_moe_next(tutti_moe *moe, tutti_moe_tile *out, int64_t timeout_ms);
/* Decodes the tile's tokens to floats: out[rows][hidden]. */
TUTTI_API tutti_status tutti_moe_read(tutti_moe *moe, const tutti_moe_tile *tile, float *out);
/* Sends results[rows][hidden] of a tile back to its source; `results` is reusable on return. Each
 * tile must be given back once, in any order. */
TUTTI_API tutti_status tutti_moe_give(tutti_moe *moe, const tutti_moe_tile *tile,
                                      const float *results);

/* Ends the run: waits for the results of this rank's tokens and adds them. out[ntokens][hidden] of
 * conf.type is written on TUTTI_OK only; a token without experts becomes 0. TUTTI_ERR_INVALID if
 * tiles were not yet returned by next or given back: the run then continues. */
TUTTI_API tutti_status tutti_moe_combine(tutti_moe *moe, void *out, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
