/* Support for mixtures of experts (MoE): all-to-all exchanges with dynamic sizes, and layers of
 * experts. The sizes of an exchange are read when the exchange starts. A layer dispatches tokens to
 * experts and combines the results.
 *
 * Dynamic exchanges: each rank divides its send buffer into pieces, e.g. one per expert, and sends
 * each piece to zero or more ranks. The lengths and destinations of the pieces are read from memory
 * when the exchange *starts*, which may be after the call has returned. The lengths are sent with
 * the data, so that no rank needs the sizes of other ranks in advance. Only the listed pieces are
 * sent.
 *
 * There are two forms. tutti_alltoallv_dynamic is a collective like those of tutti.h. A *replay*
 * repeats an exchange with the same maximum sizes; the library allocates and registers the receive
 * buffers of a replay once.
 *
 * Example of the layout: the send buffer contains four pieces of 128, 256, 256 and 128 elements,
 * with index_block_lens = {2, 3} and indices = {0, 1 | 0, 2, 3}. Rank 0 receives pieces 0 and 1.
 * Rank 1 receives pieces 0, 2 and 3, each at its offset in the send buffer: elements [0, 128),
 * [384, 640) and [640, 768) of its receive buffer for this sender. The elements [128, 384) of this
 * receive buffer do not change.
 *
 * A layer (tutti_moe) implements dispatch and combine for tokens, experts and weights, with the
 * same kinds of transfers. Kernels can drive a layer with <tutti/moe_device.h>.
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

/* The arguments of this rank in an exchange. Zero the whole struct, then set `size` to
 * sizeof(tutti_dynamic). Lengths are in elements. Fields marked "read at start" are read when the
 * exchange starts. These fields must stay valid until the exchange ends; the caller may change them
 * until *start is set. */
typedef struct tutti_dynamic {
    size_t size;
    const void *sendbuff;           /* [sum of split_lengths] elements: the pieces in order. Read
                                     * from the start of the exchange until its end */
    const size_t *split_lengths;    /* [nsplits] length of each piece, may be 0. Read at start */
    size_t nsplits;                 /* number of pieces, 1 to 65536; the same on all ranks */
    const size_t *indices;          /* Indices of the pieces for rank 0, then for rank 1, and so on,
                                     * in any order within each list. A piece may be sent to several
                                     * ranks, including this one. A piece that is listed twice for a
                                     * rank is sent once. Read at start */
    const size_t *index_block_lens; /* [nranks] number of indices for each rank. Read at start */
    const size_t *nindices;         /* Total number of indices, checked against the sum of
                                     * index_block_lens; NULL: no check. Read at start */
    void *const *recvbuffs;         /* [nranks] recvbuffs[r] receives the pieces of rank r, each at
                                     * its offset in r's send buffer; other elements do not change.
                                     * Each buffer holds max_total elements. The buffers must not
                                     * overlap each other or sendbuff. The array of addresses is
                                     * read during the call only */
    size_t *recv_all_split_lengths; /* [nranks][nsplits] receives the split_lengths of all ranks, on
                                     * TUTTI_OK only; NULL: not needed */
    size_t max_length;              /* maximum length of a piece, at most 2^40; the same on all
                                     * ranks */
    size_t max_total;               /* maximum sum of a rank's split_lengths; 0: nsplits *
                                     * max_length; the same on all ranks */
    const uint64_t *start;          /* The exchange starts when *start is at least start_value;
                                     * NULL: at once. The writer must use release order. Later
                                     * collectives of this rank on the communicator wait until the
                                     * exchange has started. *start may be a flag that a kernel
                                     * raises (tutti_device_flag). A plain store does not wake
                                     * sleeping threads; they detect the store within 1 ms */
    uint64_t start_value;
    uint64_t *over;                 /* Word that is set to over_value, with release order, when the
                                     * exchange has ended on this rank with any status; NULL: none.
                                     * Kernels (tutti_device_flag) and other threads can wait for
                                     * this word. Not set if the call itself returns an error */
    uint64_t over_value;
} tutti_dynamic;

/* ---- the collective -------------------------------------------------------------------------- */

/* Exchanges the pieces described by *what; elements have type `type`. Collective. *what itself is
 * read during the call only.
 * `call` may contain a request and a timeout; the timeout includes the wait for `start`. call->algo
 * selects how the lists of lengths are exchanged: "heads_direct" (each rank sends its list to each
 * peer) or "heads_gathered" (an allgather). call->algo must be the same on all ranks. Any other
 * algorithm, and the options quant, divisor and scale, cause TUTTI_ERR_INVALID.
 *
 * All ranks check the lists of all ranks before any data is written. If a list is invalid, all
 * ranks return the same status, with a message that names the rank and the value:
 *   TUTTI_ERR_RANGE    a piece exceeds max_length, or the pieces of a rank exceed max_total
 *   TUTTI_ERR_INVALID  an index is not below nsplits, nindices is not the sum of index_block_lens,
 *                      or buffers overlap
 * The receive buffers are then unchanged, and the communicator stays usable. Arguments that are
 * checked during the call (NULL, nsplits) cause TUTTI_ERR_INVALID on this rank only. After any
 * other error the contents of the receive buffers are undefined.
 *
 * Memory for each concurrent exchange is allocated at the first call on a communicator, and kept
 * until the communicator is destroyed (tutti_alltoallv_dynamic_bytes). */
TUTTI_API tutti_status tutti_alltoallv_dynamic(const tutti_dynamic *what, tutti_dtype type,
                                               tutti_comm *comm, const tutti_call *call);

/* Sets *bytes to the size of the memory allocated for exchanges on this communicator, initially 0.
 * Any thread. */
TUTTI_API tutti_status tutti_alltoallv_dynamic_bytes(tutti_comm *comm, size_t *bytes);

/* ---- the persistent form --------------------------------------------------------------------- */

/* A replay: an exchange that is run repeatedly. The ranks exchange the addresses of the receive
 * buffers once; each run then consists of puts with signals. No barrier between runs is necessary,
 * because runs use several sets of receive buffers in turn. */
typedef struct tutti_replay tutti_replay;

/* Flags that each disable one optimization, to measure its effect. Must be the same on all
 * ranks. */
enum {
    TUTTI_REPLAY_NO_HANDLES = 1,    /* exchange the receive buffers' addresses in each run */
    TUTTI_REPLAY_NO_BYPASS = 2,     /* send each short piece by its own put, like a long one,
                                     * instead of packing the short pieces and their header into
                                     * one message */
    TUTTI_REPLAY_NO_CHAIN = 4       /* post each put separately, instead of posting all puts to a
                                     * rank (or all packed messages) together */
};

/* Options of a replay; they must be the same on all ranks. Set `size` to sizeof(tutti_replay_conf).
 * A field that is zero takes its default value, if the comment on the field gives one. */
typedef struct tutti_replay_conf {
    size_t size;
    size_t nsplits, max_length, max_total;  /* as in tutti_dynamic */
    tutti_dtype type;
    uint32_t depth;                 /* number of sets of receive buffers, 2 to 8; 0: 2 */
    uint32_t without;               /* TUTTI_REPLAY_NO_...; 0: all optimizations are enabled */
} tutti_replay_conf;

/* Creates a replay. Collective. Allocates depth * nranks receive buffers, each of max_total
 * elements and a few KiB of overhead. Other ranks on this host can map these buffers. The caller
 * owns *out and frees it with tutti_replay_free. */
TUTTI_API tutti_status tutti_replay_create(tutti_comm *comm, const tutti_replay_conf *conf,
                                           tutti_replay **out);

/* Starts the next run: waits for `start`, then sends the data. sendbuff is reusable when the call
 * returns. The call uses the fields sendbuff, split_lengths, indices, index_block_lens, nindices,
 * start and start_value of *what; all other fields except `size` must be zero. Invalid lists are
 * reported by tutti_replay_wait on all ranks, not by this call. Each run must be completed with
 * tutti_replay_wait before the next one starts. timeout_ms: as in tutti_call. */
TUTTI_API tutti_status tutti_replay_start(tutti_replay *replay, const tutti_dynamic *what,
                                          int64_t timeout_ms);

/* The data received in a run, in memory of the library. The data is valid until this rank starts
 * the (depth - 1)-th run after this run; with the default depth, until the next run. With a depth
 * of 3 or more, this memory can be the sendbuff of the next run. */
typedef struct tutti_arrived {
    size_t size;
    void *const *recvbuffs;                 /* [nranks], each [max_total] */
    const size_t *recv_all_split_lengths;   /* [nranks][nsplits] */
} tutti_arrived;

/* Waits until all data of the run for this rank has arrived. *out is written on TUTTI_OK only. If a
 * list is invalid, returns TUTTI_ERR_RANGE or TUTTI_ERR_INVALID on all ranks, like
 * tutti_alltoallv_dynamic. The replay stays usable, but the contents of this run's receive buffers
 * are then undefined. After any other error the replay can only be freed. */
TUTTI_API tutti_status tutti_replay_wait(tutti_replay *replay, tutti_arrived *out,
                                         int64_t timeout_ms);

/* Frees the replay. Collective. The replay is freed even if the call returns an error, except
 * TUTTI_ERR_FORKED. NULL is a no-op. */
TUTTI_API tutti_status tutti_replay_free(tutti_replay *replay);

/* ---- dispatch and combine -------------------------------------------------------------------- */

/* A layer of experts that are distributed over ranks (expert parallelism). Each rank routes each of
 * its tokens to top_k experts. Dispatch sends the tokens to the ranks that hold these experts.
 * These ranks apply the experts and return the results. Combine adds the results of each token t:
 *
 *     out[t] = sum over c = 0 .. top_k - 1 of weights[t][c] * f_experts[t][c](token t)
 *
 * The sum is computed in f32, in the order of c, and rounded once to `type`. If the experts return
 * identical results, the sum is bitwise identical for any number of ranks, any transport and both
 * forms.
 *
 *     create -> { dispatch, (next, give) until no tile remains, combine } repeatedly -> free
 *
 * One iteration is called a *run*; all ranks make the same number of runs. A *tile* contains up to
 * tile_tokens tokens from one rank for experts of another rank, sorted by expert.
 *   TUTTI_MOE_TILES       Each tile is put with a signal. tutti_moe_next returns tiles in order of
 *                         arrival. Results are also put with signals, so computation and
 *                         communication overlap.
 *   TUTTI_MOE_COLLECTIVE  Dispatch is a tutti_alltoallv_dynamic, combine a tutti_alltoallv. Tiles
 *                         are views of the received data.
 * Both forms use the same calls. With TILES, a kernel can perform the whole run
 * (<tutti/moe_device.h>).
 *
 * Encodings on the network, of dispatched tokens (tutti_moe_conf.there) and of returned results
 * (tutti_moe_conf.back):
 *   TUTTI_F32, TUTTI_BF16    hidden elements, rounded to nearest even
 *   TUTTI_F8E4M3             hidden codes, padded to a multiple of 4 bytes, then a float scale for
 *                            each scale_elems elements. value = code * scale. The scale is a power
 *                            of two: the largest magnitude of these elements is between 224 and 448
 *                            times the scale. The scale is at least 2^-126. The error is at most
 *                            2^-4 of the element or 2^-10 of the scale, whichever is larger. If one
 *                            of these elements is an infinity or a NaN, all elements with this
 *                            scale become NaN.
 * An encoded token or result is a row. Rows are 16-byte aligned; row_bytes, the distance between
 * rows, is a multiple of 16.
 *
 * Errors. If the routing of a rank is invalid, a call returns TUTTI_ERR_INVALID on all ranks. The
 * message names the rank, the token and the value. With COLLECTIVE this call is tutti_moe_dispatch.
 * With TILES this call is tutti_moe_dispatch on the rank with the invalid routing, and
 * tutti_moe_next on all others. The run then ends on all ranks without a result, and the layer
 * stays usable. After any other error the layer can only be freed.
 * Threads: only one thread at a time may use a layer.
 *
 * Sources: DeepEP and "DeepSeek-V3 Technical Report" (arXiv 2412.19437), section 3.2, for dispatch
 * in fp8, combine in bf16, and replicated experts; "FlashDMoE" (arXiv 2506.04667) for tiles that
 * are computed on arrival. */
typedef struct tutti_moe tutti_moe;

/* How a layer transfers tokens and results (see tutti_moe). */
typedef enum tutti_moe_form {
    TUTTI_MOE_TILES = 0,
    TUTTI_MOE_COLLECTIVE,
    TUTTI_MOE_FORMS
} tutti_moe_form;

#define TUTTI_MOE_NONE 0xffffffffu      /* unused entry of tutti_moe_routing.experts */

/* Options of a layer. All except held, nheld, device and group_experts must be the same on all
 * ranks. Set `size` to sizeof(tutti_moe_conf). A field that is zero takes its default value, if the
 * comment on the field gives one. */
typedef struct tutti_moe_conf {
    size_t size;
    tutti_moe_form form;
    uint32_t hidden;            /* elements per token, 1 to 65536 */
    uint32_t experts;           /* total number of experts, 1 to 65535 */
    uint32_t top_k;             /* experts per token, 1 to 64 and at most `experts` */
    uint32_t max_tokens;        /* maximum number of tokens of a rank per run, 1 to 2^20 */
    uint32_t tile_tokens;       /* maximum number of tokens per tile, 1 to 4096; 0 means 16 */
    tutti_dtype type;           /* type of tokens and combined results: TUTTI_F32 or TUTTI_BF16 */
    tutti_dtype there, back;    /* encodings of dispatched tokens and of results on the network:
                                 * TUTTI_F32, TUTTI_BF16 or TUTTI_F8E4M3 */
    uint32_t scale_elems;       /* TUTTI_F8E4M3: elements per scale; 0: all elements of a token */
    uint32_t nheld;             /* number of experts in `held` */
    const uint32_t *held;       /* [nheld] the experts of this rank, without duplicates. NULL: rank
                                 * r of n holds [r * experts / n, (r + 1) * experts / n). Each
                                 * expert must be held by at least one rank. If m ranks hold an
                                 * expert, token t of rank r is sent to holder (r + t) mod m; the
                                 * holders are numbered from 0 in rank order */
    const struct tutti_device_conf *device;     /* TILES: options of the device whose proxy sends
                                                 * the tiles (<tutti/device.h>), except `groups`,
                                                 * which the layer sets. NULL: defaults */
    uint32_t group_experts;     /* TILES: number of experts per device group (tutti_device_group_*).
                                 * The signals of a group are sent after the last put of its tiles.
                                 * Experts are assigned to groups rank by rank, in the order of each
                                 * rank's `held`. A group may contain some experts of one rank or
                                 * experts of several ranks, and needs one fence per rank. A tile
                                 * belongs to the group that contains the expert of the tile's first
                                 * row. 0: one group per rank */
} tutti_moe_conf;

/* Creates a layer. Collective. The caller owns *out: free it with tutti_moe_free before the
 * communicator is destroyed.
 * Let n be the number of ranks, and b and c the sizes in bytes of a token row and a result row. Let
 * R be max_tokens * min(top_k, maximum number of experts on a rank). Each rank needs this memory:
 *   TILES       about 2n R (b + c) bytes in a window, which ranks on this host can map, and
 *               max_tokens * top_k * b + n R c bytes of private memory
 *   COLLECTIVE  about n * max_tokens * top_k * b + 2n R c bytes of virtual memory; unused pages are
 *               never touched */
TUTTI_API tutti_status tutti_moe_create(tutti_comm *comm, const tutti_moe_conf *conf,
                                        tutti_moe **out);
/* Frees the layer. Collective. The layer is freed even if the call returns an error, except
 * TUTTI_ERR_FORKED. NULL is a no-op. */
TUTTI_API tutti_status tutti_moe_free(tutti_moe *moe);

/* The tokens of this rank in a run, and their experts. Set `size` to sizeof(tutti_moe_routing). */
typedef struct tutti_moe_routing {
    size_t size;
    const void *tokens;         /* [ntokens][hidden] of tutti_moe_conf.type */
    size_t ntokens;             /* 0 to max_tokens */
    const uint32_t *experts;    /* [ntokens][top_k] experts of each token, all different;
                                 * TUTTI_MOE_NONE: unused entry */
    const float *weights;       /* [ntokens][top_k] weights of the experts; must be finite */
} tutti_moe_routing;

/* Begins a run and sends the tokens. The arrays of `routing` may be reused when the call returns.
 * With COLLECTIVE, the call waits for all ranks. timeout_ms: as in tutti_call. */
TUTTI_API tutti_status tutti_moe_dispatch(tutti_moe *moe, const tutti_moe_routing *routing,
                                          int64_t timeout_ms);

/* Received tokens for experts of this rank, in memory of the library. Valid until
 * tutti_moe_combine. Set `size` to sizeof(tutti_moe_tile). */
typedef struct tutti_moe_tile {
    size_t size;
    uint32_t source, number;    /* the sending rank, and the index of the tile among all tiles from
                                 * that rank */
    uint32_t rows;              /* number of tokens; 0: all tiles of this run have been returned */
    uint32_t row_bytes;
    const uint32_t *experts;    /* [rows] expert of each token; equal experts are adjacent */
    const void *payload;        /* [rows][row_bytes] tokens, encoded as tutti_moe_conf.there */
} tutti_moe_tile;

/* Waits for the next tile of the run. */
TUTTI_API tutti_status tutti_moe_next(tutti_moe *moe, tutti_moe_tile *out, int64_t timeout_ms);
/* Decodes the tile's tokens to floats: out[rows][hidden]. */
TUTTI_API tutti_status tutti_moe_read(tutti_moe *moe, const tutti_moe_tile *tile, float *out);
/* Sends results[rows][hidden] of a tile back to the source rank of the tile. `results` is reusable
 * when the call returns. Call this function exactly once for each tile, in any order. */
TUTTI_API tutti_status tutti_moe_give(tutti_moe *moe, const tutti_moe_tile *tile,
                                      const float *results);

/* Ends the run: waits for the results of this rank's tokens and adds them. out[ntokens][hidden] of
 * tutti_moe_conf.type is written on TUTTI_OK only; the result of a token without experts is 0.
 * TUTTI_ERR_INVALID: the results of some tiles have not been sent; the run then stays active. */
TUTTI_API tutti_status tutti_moe_combine(tutti_moe *moe, void *out, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
