/* Tutti, for mixtures of experts: all-to-all exchanges whose sizes are decided late, and layers that dispatch tokens to experts and combine what these return.
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
 * A layer (tutti_moe) stands on top: it knows of tokens, experts and weights, not of pieces. Kernels run one by <tutti/moe_device.h>.
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
 * start is awaited); algo, the same on all ranks, may say how heads go (docs/moe.md): "heads_direct", each rank's own to each, or "heads_gathered", all to all. Other
 * names are TUTTI_ERR_INVALID, as are quant, divisor and scale. *what itself is read when it is called.
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

/* ---- dispatch and combine ---------------------------------------------------------------------------------- */

/* A layer of experts that are spread over ranks (expert parallelism). Each rank routes its tokens to top_k experts each; they travel to who holds those, are computed there, and
 * the results travel back and are added up:
 *
 *     out[t] = sum over c = 0 .. top_k - 1 of weights[t][c] * f_experts[t][c](token t)
 *
 * in f32, from 0, in the order of c, and rounded once to `type`: on any number of ranks, over any wire and in both forms the same bits, if the f are.
 *
 *     create -> { dispatch, next and give until nothing is left, combine } again and again -> free
 *
 * That is one *run*; all ranks make the same number of them. A *tile* is up to tile_tokens tokens of one rank for the experts of another, sorted by expert. In
 * the form TUTTI_MOE_TILES each tile is put with a signal, and is there for tutti_moe_next when it has come, in any order; results go back the same way, so
 * computing and communicating overlap. In the form TUTTI_MOE_COLLECTIVE dispatch is a tutti_alltoallv_dynamic, combine a tutti_alltoallv, and tiles are how what came is
 * looked at. Programs are the same in both. Kernels do all this themselves with <tutti/moe_device.h>.
 *
 * How a token travels ("there": to its expert, "back": its expert's result):
 *   TUTTI_F32, TUTTI_BF16    hidden elements, rounded to nearest even
 *   TUTTI_F8E4M3             hidden codes; behind them, from the next multiple of 4 on, a float for each scale_elems elements: the scale, a power of two that brings
 *                            the largest magnitude of those elements into 224 to 448 (2^-126 at least). Value = code * scale; error at most 2^-4 of the element, or
 *                            2^-10 of the scale if that is more. Elements that share a scale with an infinity or a NaN come out as NaN.
 * Rows are row_bytes apart, a multiple of 16; they begin at a multiple of 16.
 *
 * If the routing of a rank is wrong, all ranks return TUTTI_ERR_INVALID with a sentence that names the rank, the token and the value: that rank from dispatch, the others
 * from dispatch (COLLECTIVE) or from next (TILES). Nothing is combined, the run is over on all ranks, and the layer is good for the next. After any other error it is good only
 * for tutti_moe_free. A layer is used by one thread at a time.
 *
 * Sources: dispatch and combine as in DeepEP and in "DeepSeek-V3 Technical Report" (arXiv 2412.19437, section 3.2: fp8 there, bf16 back, an expert held several
 * times); tiles that are computed as they arrive: "FlashDMoE" (arXiv 2506.04667). */
typedef struct tutti_moe tutti_moe;

typedef enum tutti_moe_form { TUTTI_MOE_TILES = 0, TUTTI_MOE_COLLECTIVE, TUTTI_MOE_FORMS } tutti_moe_form;

#define TUTTI_MOE_NONE 0xffffffffu      /* as an expert of a token: this choice is left out */

/* How a layer is made. All but held, nheld, device and group_experts the same on all ranks. Zero means default where one is named; set `size` to sizeof. */
typedef struct tutti_moe_conf {
    size_t size;
    tutti_moe_form form;
    uint32_t hidden;            /* elements of a token, 1 to 65536 */
    uint32_t experts;           /* of all ranks, 1 to 65535 */
    uint32_t top_k;             /* experts of each token, 1 to 64 and at most `experts` */
    uint32_t max_tokens;        /* the most that a rank dispatches in a run, 1 to 2^20 */
    uint32_t tile_tokens;       /* of a tile, 1 to 4096; 0: 16 */
    tutti_dtype type;           /* of the caller's tokens and of what is combined: TUTTI_F32 or TUTTI_BF16 */
    tutti_dtype there, back;    /* as which tokens and results travel: TUTTI_F32, TUTTI_BF16 or TUTTI_F8E4M3 */
    uint32_t scale_elems;       /* TUTTI_F8E4M3: elements that share a scale; 0: all of a token */
    uint32_t nheld;             /* experts that this rank holds, with `held` */
    const uint32_t *held;       /* [nheld]: which, each once. Every expert must be held by some rank; where several hold it, token t of rank r goes to the one
                                   that is (r + t) mod their number in the order of ranks. NULL: rank r of n holds [r * experts / n, (r + 1) * experts / n) */
    const struct tutti_device_conf *device;     /* TILES: of the device (<tutti/device.h>) whose proxy carries tiles; `groups` is the layer's. NULL: defaults */
    uint32_t group_experts;     /* TILES: the tiles for so many experts, counted rank by rank in the order in which each holds them, are a group of the device, whose signals
                                   follow when the last of its tiles has been put. A group may be part of a rank's experts, or those of several ranks, which get one
                                   fence each; a tile belongs with the expert of its first row. 0: the tiles for each rank are a group */
} tutti_moe_conf;

/* Collective. Memory of each rank, with n ranks, R = max_tokens * min(top_k, the most experts that a rank holds) and rows of b bytes there and c back: TILES about 2n R (b + c) in
 * a window, which ranks on this host can map, and max_tokens * top_k * b + n R c of its own; COLLECTIVE about n * max_tokens * top_k * b + 2n R c, of which only what is used is
 * touched. Caller owns *out: tutti_moe_free, before the communicator is destroyed. */
TUTTI_API tutti_status tutti_moe_create(tutti_comm *comm, const tutti_moe_conf *conf, tutti_moe **out);
/* Collective; frees in any case, as tutti_window_free. NULL is fine. */
TUTTI_API tutti_status tutti_moe_free(tutti_moe *moe);

/* This rank's tokens of a run and where they go. Set `size` to sizeof. */
typedef struct tutti_moe_routing {
    size_t size;
    const void *tokens;         /* [ntokens][hidden] of conf.type */
    size_t ntokens;             /* 0 to max_tokens */
    const uint32_t *experts;    /* [ntokens][top_k]: those of a token are different, or TUTTI_MOE_NONE */
    const float *weights;       /* [ntokens][top_k], finite */
} tutti_moe_routing;

/* Begins a run: tokens are on their way, and all that `routing` points to is the caller's again, when it returns. COLLECTIVE waits for all ranks. timeout_ms as
 * in tutti_call. */
TUTTI_API tutti_status tutti_moe_dispatch(tutti_moe *moe, const tutti_moe_routing *routing, int64_t timeout_ms);

/* Tokens that have come for experts of this rank; the library's memory, until the run is combined. Set `size` to sizeof. */
typedef struct tutti_moe_tile {
    size_t size;
    uint32_t source, number;    /* the rank whose tokens they are, and which of its tiles */
    uint32_t rows;              /* tokens; 0: nothing is left in this run */
    uint32_t row_bytes;
    const uint32_t *experts;    /* [rows], those of one expert together */
    const void *payload;        /* [rows][row_bytes], as they travelled */
} tutti_moe_tile;

/* The next tile; waits for one. */
TUTTI_API tutti_status tutti_moe_next(tutti_moe *moe, tutti_moe_tile *out, int64_t timeout_ms);
/* out[rows][hidden]: the tile's tokens as floats. */
TUTTI_API tutti_status tutti_moe_read(tutti_moe *moe, const tutti_moe_tile *tile, float *out);
/* results[rows][hidden] of a tile's tokens: they are on their way back, and `results` is the caller's again. Tiles may be given back in any order, each once. */
TUTTI_API tutti_status tutti_moe_give(tutti_moe *moe, const tutti_moe_tile *tile, const float *results);

/* Ends the run: waits for the results of this rank's tokens, and adds them up: out[ntokens][hidden] of conf.type, written on TUTTI_OK; a token without any expert is 0.
 * TUTTI_ERR_INVALID, and the run goes on, while tiles have not been taken and given back. */
TUTTI_API tutti_status tutti_moe_combine(tutti_moe *moe, void *out, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
