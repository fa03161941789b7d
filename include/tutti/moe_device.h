/* Mixtures of experts in kernels: dispatch tokens, poll for received tiles, return results and
 * combine them.
 *
 * A layer of form TUTTI_MOE_TILES (<tutti/moe.h>) has a window and a device (<tutti/device.h>). The
 * host begins a run, one kernel executes the run, and the host ends the run. The kernel may divide
 * the work among its blocks in any way:
 *
 *     host      tutti_moe_begin(moe, &routing, out, &view, 0);
 *     kernel    for each i in [0, nsends):             tutti_moe_send(&view, i)
 *               for each source, tile by tile:         tutti_moe_poll(...) until TUTTI_OK,
 *                                                      tutti_moe_check, compute,
 *                                                      tutti_moe_result_write for each row,
 *                                                      tutti_moe_give_back
 *               for each tile sent, with rows:         tutti_moe_poll_result(...) until TUTTI_OK
 *               for each token with all results:       tutti_moe_combine_token
 *               between two unsuccessful polls:        tutti_device_pause
 *               each block, before it returns:         tutti_moe_close
 *     host      tutti_moe_end(moe, status of the kernel, 0);
 *
 * examples/moe contains such a kernel. All threads of a block call a function marked TUTTI_DEVICE
 * together, unless the comment of the function states otherwise. A block of the CPU device has one
 * thread. Like <tutti/device.h>, this header compiles as C, C++ and CUDA.
 *
 * The window contains two sets of buffers, and successive runs alternate between them. Each set
 * contains, for each rank and tile number:
 *     tile          the tile from that rank: tutti_moe_head, the expert of each row, the rows
 *     results       the results from that rank for this rank's tile with that number
 *     tile word     run << 32 | number of tiles from that rank in this run; set after the tile
 *     results word  run << 32 | 1; set after the results
 * A rank without tiles sets the word of tile 0 only. No barrier is needed to reuse a set. A rank
 * begins run k + 2 only after it has received a word of run k + 1 from every rank. Each rank sets
 * the words of run k + 1 only after it has ended run k. */
#ifndef TUTTI_MOE_DEVICE_H
#define TUTTI_MOE_DEVICE_H

#include <string.h>

#include "tutti/device.h"
#include "tutti/moe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The layout of an encoded row (see tutti_moe, <tutti/moe.h>). */
typedef struct tutti_moe_row {
    uint32_t type;              /* tutti_dtype: F32, BF16, F8E4M3 */
    uint32_t elems;
    uint32_t scale_elems;       /* elements per scale; F32, BF16: equal to elems */
    uint32_t scales_at;         /* offset of the scales in the row, in bytes */
    uint64_t bytes;             /* size of the row */
} tutti_moe_row;

/* The header of a tile. The array experts[tile_tokens], with the expert of each row, follows the
 * header. The rows begin at the offset tutti_moe_view.head_bytes in the tile. */
typedef struct tutti_moe_head {
    uint32_t rows;
    uint32_t flaw;              /* nonzero: the sender's routing is invalid; the tile has no rows,
                                 * and the next three fields describe the error */
    uint32_t token, choice, value, pad[3];
} tutti_moe_head;

/* A tile that this rank sends. */
typedef struct tutti_moe_send_tile {
    uint32_t peer, number;      /* destination rank, and index among the tiles for that rank */
    uint32_t first, rows;       /* range of tutti_moe_view.rows; 0 rows: signal only */
    uint32_t group;             /* device group that counts this tile (tutti_device_group_*) */
} tutti_moe_send_tile;

/* The view of a run that kernels use, passed by value. Kernels may read the fields. The layer owns
 * all memory except tokens and out, which belong to the caller. */
typedef struct tutti_moe_view {
    tutti_device_view device;
    uint32_t run;
    uint32_t hidden, experts, top_k, nheld, ntokens;
    uint32_t tile_tokens, tiles_max;    /* maximum number of rows of a tile, and of tiles from one
                                         * rank to another */
    uint32_t type;                      /* tutti_dtype of tokens and out */
    tutti_moe_row there, back;          /* layouts of rows for experts, and of result rows */
    uint64_t head_bytes, tile_bytes;
    /* offsets of this run's set of buffers in the window, in bytes */
    uint64_t words_at, result_words_at, tiles_at, results_at;
    const void *tokens;                 /* [ntokens][hidden] of type */
    const float *weights;               /* [ntokens][top_k] */
    void *out;                          /* [ntokens][hidden] of type */
    uint32_t nsends;
    const tutti_moe_send_tile *sends;   /* [nsends] tiles to send, by peer; at least one per peer */
    const tutti_device_signal_to *signals;      /* [nsends] the signal of each tile of `sends` */
    const uint32_t *first_send;         /* [nranks + 1] the tiles for peer p are
                                         * sends[first_send[p]] to sends[first_send[p + 1] - 1] */
    const uint32_t *rows;               /* token * top_k + choice of each sent row, tile by tile */
    const uint32_t *row_experts;        /* the expert of each sent row */
    const uint32_t *places;             /* [ntokens][top_k] index of the row of `results` for each
                                         * choice, or TUTTI_MOE_NONE */
    const uint32_t *held_at;            /* [experts] index of each expert among the experts of this
                                         * rank, or TUTTI_MOE_NONE */
    const uint32_t *group_first;        /* [groups + 1] the tiles of group g are
                                         * sends[group_first[g]] to sends[group_first[g + 1] - 1];
                                         * a group may be empty */
    const uint64_t *complete;           /* [groups] value of the device group's counter when all
                                         * tiles of the run are published */
    uint64_t *staged;                   /* [groups] number of tiles put in this run */
    uint8_t *staging;                   /* [nsends][tile_bytes] source buffers of the tiles */
    uint8_t *giving;                    /* [nranks][tiles_max][tile_tokens][back.bytes] source
                                         * buffers of the results to send */
    const uint8_t *results;             /* [nranks][tiles_max][tile_tokens][back.bytes] received
                                         * results */
} tutti_moe_view;

/* Begins a run for a kernel. This call reads the experts and weights of `routing` and plans the
 * tiles. The kernel reads tokens[ntokens][hidden] and writes out[ntokens][hidden], both of
 * tutti_moe_conf.type. These arrays must stay valid until tutti_moe_end. Errors: as for
 * tutti_moe_dispatch. If the routing is invalid, this call also ends the run. */
TUTTI_API tutti_status tutti_moe_begin(tutti_moe *moe, const tutti_moe_routing *routing, void *out,
                                       tutti_moe_view *view, int64_t timeout_ms);
/* Ends a run; `kernel` is the status that the kernel of the run returned. If this status is
 * TUTTI_ERR_INVALID, tutti_moe_end also returns TUTTI_ERR_INVALID, with a message that names the
 * rank with the invalid routing, and the layer stays usable. tutti_moe_end also returns
 * TUTTI_ERR_INVALID if the kernel returned TUTTI_OK too early: before it had received all tiles, or
 * the signal of a rank without tiles. The layer can then only be freed. */
TUTTI_API tutti_status tutti_moe_end(tutti_moe *moe, tutti_status kernel, int64_t timeout_ms);
/* Returns the device of the layer, or NULL if the layer has no device. The layer owns the device.
 * The device can be passed to tutti_device_run and, between runs, to tutti_device_set_mode. */
TUTTI_API tutti_device *tutti_moe_device(tutti_moe *moe);
/* Internal: tutti_moe_check calls this function on the CPU device. Returns `status` and sets the
 * error message. */
TUTTI_API tutti_status tutti_moe_refuse(const tutti_moe_view *view, const uint8_t *tile,
                                        uint32_t ntiles, tutti_status status);

#ifdef __cplusplus
}
#endif

/* ---- numbers --------------------------------------------------------------------------------- */

/* Each thread calls the functions of this section independently. */

/* Returns the float with these bits. tutti_moe_bits is the inverse. */
TUTTI_DEVICE float tutti_moe_float(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

TUTTI_DEVICE uint32_t tutti_moe_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Rounds to the nearest bf16, ties to even. */
TUTTI_DEVICE uint16_t tutti_moe_to_bf16(float x)
{
    const uint32_t bits = tutti_moe_bits(x);
    const uint32_t quiet = (bits >> 16) | 0x40,
                   rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;

    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

TUTTI_DEVICE float tutti_moe_from_bf16(uint16_t h)
{
    return tutti_moe_float((uint32_t)h << 16);
}

/* Rounds to the nearest e4m3, ties to even; saturates at 448. Magnitudes below 2^-6, the smallest
 * normal number, are rounded by adding 2^14: like the subnormals of e4m3, floats between 2^14 and
 * 2^15 are multiples of 2^-9. */
TUTTI_DEVICE uint8_t tutti_moe_to_e4m3(float x)
{
    const uint32_t bits = tutti_moe_bits(x), magnitude = bits & 0x7fffffff;
    const uint32_t normal = ((magnitude + 0x7ffff + ((magnitude >> 20) & 1)) >> 20) - (120u << 3);
    const uint32_t small = tutti_moe_bits(tutti_moe_float(magnitude) + 16384.0f) - (141u << 23);
    uint32_t code = magnitude < 121u << 23 ? small : normal;

    code = code < 0x7e ? code : 0x7e;
    code = magnitude > 0x7f800000 ? 0x7f : code;
    return (uint8_t)((bits >> 24 & 0x80) | code);
}

TUTTI_DEVICE float tutti_moe_from_e4m3(uint8_t v)
{
    const uint32_t magnitude = (uint32_t)(v & 0x7f) << 20, sign = (uint32_t)(v & 0x80) << 24;
    const uint32_t finite =
        tutti_moe_bits(tutti_moe_float(magnitude) * tutti_moe_float(247u << 23));

    return tutti_moe_float(sign | (magnitude == 0x07f00000 ? 0x7fc00000u : finite));
}

/* Returns the scale, as a biased exponent e, for elements with the largest magnitude `largest`.
 * largest / 2^(e - 127) is in (224, 448], but e is at least 1 (2^-126). Returns 0 if `largest` is
 * NaN or infinite. */
TUTTI_DEVICE uint32_t tutti_moe_scale_exponent(float largest)
{
    const uint32_t bits = tutti_moe_bits(largest), exponent = bits >> 23;
    const uint32_t wanted = exponent + ((bits & 0x7fffff) > 0x600000);

    if (exponent >= 255)
        return 0;
    return wanted > 9 ? wanted - 8 : 1;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Returns element i of an array of type F32, BF16 or F8E4M3. Each thread makes this call
 * independently. */
TUTTI_DEVICE float tutti_moe_get(uint32_t type, const void *from, uint64_t i)
{
    if (type == TUTTI_F32)
        return ((const float *)from)[i];
    return type == TUTTI_BF16 ? tutti_moe_from_bf16(((const uint16_t *)from)[i])
                              : tutti_moe_from_e4m3(((const uint8_t *)from)[i]);
}

/* Writes element i of an array of type F32, BF16 or F8E4M3. Each thread makes this call
 * independently. */
TUTTI_DEVICE void tutti_moe_set(uint32_t type, void *to, uint64_t i, float x)
{
    if (type == TUTTI_F32)
        ((float *)to)[i] = x;
    else if (type == TUTTI_BF16)
        ((uint16_t *)to)[i] = tutti_moe_to_bf16(x);
    else
        ((uint8_t *)to)[i] = tutti_moe_to_e4m3(x);
}

/* Returns the layout of rows of `elems` elements, encoded as `type`. For TUTTI_F8E4M3, scale_elems
 * 0 means one scale per row. */
TUTTI_DEVICE tutti_moe_row tutti_moe_row_of(uint32_t type, uint32_t elems, uint32_t scale_elems)
{
    const uint32_t share =
        type != TUTTI_F8E4M3 || scale_elems == 0 || scale_elems > elems ? elems : scale_elems;
    const uint64_t each = type == TUTTI_F32 ? 4 : type == TUTTI_BF16 ? 2 : 1;
    const uint64_t scales_at = (elems * each + 3) / 4 * 4;
    const uint64_t nscales = type == TUTTI_F8E4M3 ? (elems + (uint64_t)share - 1) / share : 0;
    tutti_moe_row row;

    row.type = type;
    row.elems = elems;
    row.scale_elems = share;
    row.scales_at = (uint32_t)scales_at;
    row.bytes = (scales_at + 4 * nscales + 15) / 16 * 16;
    return row;
}

/* Elements [at, end) of a row, which share a scale. */
typedef struct tutti_moe_span {
    uint32_t at, end;
} tutti_moe_span;

/* Returns the span that begins at element `at`, a multiple of scale_elems. */
TUTTI_DEVICE tutti_moe_span tutti_moe_span_of(const tutti_moe_row *row, uint32_t at)
{
    tutti_moe_span s;

    s.at = at;
    s.end = row->elems - at > row->scale_elems ? at + row->scale_elems : row->elems;
    return s;
}

/* Returns the address of the scale of element `at`. */
TUTTI_DEVICE float *tutti_moe_scale_at(const tutti_moe_row *row, const uint8_t *from, uint32_t at)
{
    return (float *)(uintptr_t)(from + row->scales_at) + at / row->scale_elems;
}

/* Encodes x[elems] of `type` (F32 or BF16) as a row at `to`. x and `to` must not overlap. */
TUTTI_DEVICE void tutti_moe_row_write(const tutti_moe_row *row, uint8_t *to, const void *x,
                                      uint32_t type)
{
    for (tutti_moe_span s = tutti_moe_span_of(row, 0); s.at < row->elems;
         s = tutti_moe_span_of(row, s.end)) {
        float by = 1;

        if (row->type == TUTTI_F8E4M3) {
            uint32_t largest = 0, exponent;

            for (uint32_t i = s.at; i < s.end; i++) {       /* each thread computes the maximum */
                const uint32_t magnitude = tutti_moe_bits(tutti_moe_get(type, x, i)) & 0x7fffffff;

                largest = magnitude > largest ? magnitude : largest;    /* NaN is the largest */
            }
            exponent = tutti_moe_scale_exponent(tutti_moe_float(largest));
            by = tutti_moe_float(exponent ? (254 - exponent) << 23 : 0x7fc00000);
            if (tutti_device_thread() == 0)
                *tutti_moe_scale_at(row, to, s.at) =
                    tutti_moe_float(exponent ? exponent << 23 : 0x7fc00000);
        }
        for (uint32_t i = s.at + tutti_device_thread(); i < s.end; i += tutti_device_threads())
            tutti_moe_set(row->type, to, i, tutti_moe_get(type, x, i) * by);
    }
}

/* Decodes a row to out[elems]. */
TUTTI_DEVICE void tutti_moe_row_read(const tutti_moe_row *row, const uint8_t *from, float *out)
{
    for (tutti_moe_span s = tutti_moe_span_of(row, 0); s.at < row->elems;
         s = tutti_moe_span_of(row, s.end)) {
        const float by = row->type == TUTTI_F8E4M3 ? *tutti_moe_scale_at(row, from, s.at) : 1;

        for (uint32_t i = s.at + tutti_device_thread(); i < s.end; i += tutti_device_threads())
            out[i] = tutti_moe_get(row->type, from, i) * by;
    }
}

/* Adds a row: sum[elems] += weight * row. */
TUTTI_DEVICE void tutti_moe_row_add(const tutti_moe_row *row, const uint8_t *from, float weight,
                                    float *sum)
{
    for (tutti_moe_span s = tutti_moe_span_of(row, 0); s.at < row->elems;
         s = tutti_moe_span_of(row, s.end)) {
        const float by = row->type == TUTTI_F8E4M3 ? *tutti_moe_scale_at(row, from, s.at) : 1;

        for (uint32_t i = s.at + tutti_device_thread(); i < s.end; i += tutti_device_threads())
            sum[i] += weight * (tutti_moe_get(row->type, from, i) * by);
    }
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* Returns the index of a tile from or for `rank` in an array [nranks][tiles_max]. */
TUTTI_DEVICE uint64_t tutti_moe_place(const tutti_moe_view *v, uint32_t rank, uint32_t tile)
{
    return (uint64_t)rank * v->tiles_max + tile;
}

/* Returns the address of a received tile. */
TUTTI_DEVICE const uint8_t *tutti_moe_tile_at(const tutti_moe_view *v, uint32_t source,
                                              uint32_t tile)
{
    return v->device.mine + v->tiles_at + tutti_moe_place(v, source, tile) * v->tile_bytes;
}

/* Returns the address of a row of a tile. */
TUTTI_DEVICE const uint8_t *tutti_moe_row_at(const tutti_moe_view *v, const uint8_t *tile,
                                             uint32_t row)
{
    return tile + v->head_bytes + row * v->there.bytes;
}

/* Returns experts[rows] of a tile: the expert of each row. */
TUTTI_DEVICE const uint32_t *tutti_moe_tile_experts(const uint8_t *tile)
{
    return (const uint32_t *)(const void *)(tile + sizeof(tutti_moe_head));
}

/* Returns the address of the buffer for the results of a received tile. */
TUTTI_DEVICE uint8_t *tutti_moe_giving_at(const tutti_moe_view *v, uint32_t source, uint32_t tile)
{
    return v->giving + tutti_moe_place(v, source, tile) * v->tile_tokens * v->back.bytes;
}

/* ---- dispatch -------------------------------------------------------------------------------- */

/* Broadcasts a value in the block: returns the argument of thread 0 in all threads. */
TUTTI_DEVICE uint64_t tutti_moe_share(uint64_t mine)
{
#if defined(__CUDA_ARCH__)
    __shared__ unsigned long long shared;

    __syncthreads();
    if (tutti_device_thread() == 0)
        shared = mine;
    __syncthreads();
    return shared;
#else
    return mine;
#endif
}

/* Writes tile i of tutti_moe_view.sends to the staging buffer of this tile. Returns the size of the
 * tile in bytes. */
TUTTI_DEVICE uint64_t tutti_moe_stage(const tutti_moe_view *v, uint32_t i)
{
    const tutti_moe_send_tile *s = &v->sends[i];
    const uint64_t token_bytes = (uint64_t)v->hidden * (v->type == TUTTI_F32 ? 4 : 2);
    uint8_t *tile = v->staging + i * v->tile_bytes;
    uint32_t *experts = (uint32_t *)(void *)(tile + sizeof(tutti_moe_head));

    if (tutti_device_thread() == 0) {
        tutti_moe_head *head = (tutti_moe_head *)(void *)tile;

        memset(head, 0, sizeof *head);
        head->rows = s->rows;
    }
    for (uint32_t r = tutti_device_thread(); r < s->rows; r += tutti_device_threads())
        experts[r] = v->row_experts[s->first + r];
    for (uint32_t r = 0; r < s->rows; r++)
        tutti_moe_row_write(
            &v->there, tile + v->head_bytes + r * v->there.bytes,
            (const uint8_t *)v->tokens + v->rows[s->first + r] / v->top_k * token_bytes, v->type);
    return v->head_bytes + s->rows * v->there.bytes;
}

/* Puts tile i of tutti_moe_view.sends. Each tile must be sent once, by any block. The block that
 * puts the last tile of a group is the leader of the group and raises all signals of the group (see
 * <tutti/device.h>). */
TUTTI_DEVICE tutti_status tutti_moe_send(const tutti_moe_view *v, uint32_t i)
{
    const tutti_moe_send_tile *s = &v->sends[i];
    const uint32_t first = v->group_first[s->group], n = v->group_first[s->group + 1] - first;
    const uint64_t at = v->tiles_at + tutti_moe_place(v, v->device.rank, s->number) * v->tile_bytes;
    uint64_t bytes = 0, before = 0;
    tutti_status st;

    if (s->rows)
        bytes = tutti_moe_stage(v, i);
    tutti_device_sync();
    st = tutti_device_group_put(&v->device, at, v->staging + i * v->tile_bytes, bytes,
                                &v->signals[i]);
    if (!st)
        st = tutti_device_group_publish(&v->device, s->group);
    if (st)
        return st;
    if (tutti_device_thread() == 0)
        before = tutti_device_add_own(&v->staged[s->group], 1);
    if (tutti_moe_share(before) + 1 < n)
        return TUTTI_OK;
    return tutti_device_group_signal(&v->device, s->group, v->complete[s->group],
                                     &v->signals[first], n);
}

/* ---- received tiles -------------------------------------------------------------------------- */

/* Tests whether a tile of `source` has arrived. Returns TUTTI_OK, TUTTI_PENDING, or the error
 * status of a failed device. On TUTTI_OK *ntiles is the number of tiles of that source in this run.
 * A source without tiles sets only the word of tile 0; *ntiles is then 0. May be called by one
 * thread or by all threads of a block. */
TUTTI_DEVICE tutti_status tutti_moe_poll(const tutti_moe_view *v, uint32_t source, uint32_t tile,
                                         uint32_t *ntiles)
{
    uint64_t seen = 0;
    const tutti_status st =
        tutti_device_poll(&v->device, v->words_at + 8 * tutti_moe_place(v, source, tile),
                          TUTTI_AT_LEAST, (uint64_t)v->run << 32, &seen);

    if (!st)
        *ntiles = (uint32_t)seen;
    return st;
}

/* Checks a received tile; ntiles is the value from tutti_moe_poll. TUTTI_OK: the number of rows is
 * valid, and this rank holds the experts of the rows. TUTTI_ERR_INVALID: the routing of the sender
 * is invalid, so the run has failed. TUTTI_ERR_PROTOCOL: the tile is malformed. May be called by
 * one thread or by all threads of a block. */
TUTTI_DEVICE tutti_status tutti_moe_check_tile(const tutti_moe_view *v, const uint8_t *tile,
                                               uint32_t ntiles)
{
    const tutti_moe_head *head = (const tutti_moe_head *)(const void *)tile;
    const uint32_t *experts = tutti_moe_tile_experts(tile);

    if (ntiles > v->tiles_max)
        return TUTTI_ERR_PROTOCOL;
    if (head->flaw)
        return TUTTI_ERR_INVALID;
    if (head->rows < 1 || head->rows > v->tile_tokens)
        return TUTTI_ERR_PROTOCOL;
    for (uint32_t r = 0; r < head->rows; r++)
        if (experts[r] >= v->experts || v->held_at[experts[r]] == TUTTI_MOE_NONE)
            return TUTTI_ERR_PROTOCOL;
    return TUTTI_OK;
}

/* Like tutti_moe_check_tile; on the CPU device an error also sets the error message. */
TUTTI_DEVICE tutti_status tutti_moe_check(const tutti_moe_view *v, const uint8_t *tile,
                                          uint32_t ntiles)
{
    const tutti_status st = tutti_moe_check_tile(v, tile, ntiles);

#if defined(__CUDA_ARCH__)
    return st;
#else
    return st ? tutti_moe_refuse(v, tile, ntiles, st) : TUTTI_OK;
#endif
}

/* ---- results --------------------------------------------------------------------------------- */

/* Encodes x[hidden], the result for one row of a received tile, into the buffer for the results of
 * that tile. */
TUTTI_DEVICE void tutti_moe_result_write(const tutti_moe_view *v, uint32_t source, uint32_t tile,
                                         uint32_t row, const float *x)
{
    tutti_moe_row_write(&v->back, tutti_moe_giving_at(v, source, tile) + row * v->back.bytes, x,
                        TUTTI_F32);
}

/* Puts the results of a received tile to the source rank of the tile. tutti_moe_result_write must
 * have been called for all rows. */
TUTTI_DEVICE tutti_status tutti_moe_give_back(const tutti_moe_view *v, uint32_t source,
                                              uint32_t tile, uint32_t rows)
{
    const uint64_t place = tutti_moe_place(v, v->device.rank, tile);

    tutti_device_sync();
    return tutti_device_put_signal(
        &v->device, source, v->results_at + place * v->tile_tokens * v->back.bytes,
        tutti_moe_giving_at(v, source, tile), rows * v->back.bytes, TUTTI_SIGNAL_SET,
        v->result_words_at + 8 * place, (uint64_t)v->run << 32 | 1);
}

/* Tests whether the results of this rank's tile for `peer` have arrived. Returns the same statuses
 * as tutti_moe_poll. */
TUTTI_DEVICE tutti_status tutti_moe_poll_result(const tutti_moe_view *v, uint32_t peer,
                                                uint32_t tile)
{
    return tutti_device_poll(&v->device, v->result_words_at + 8 * tutti_moe_place(v, peer, tile),
                             TUTTI_AT_LEAST, (uint64_t)v->run << 32, NULL);
}

/* Ends a block's part of the run. Each block must make this call last, with the status `st` of the
 * block's work. Returns `st`, or the error of the following wait. If `st` is TUTTI_OK, waits for
 * local completion of all puts, so that their sources are reusable. If `st` is TUTTI_ERR_INVALID
 * (invalid routing), waits for remote completion of all puts. */
TUTTI_DEVICE tutti_status tutti_moe_close(const tutti_moe_view *v, tutti_status st)
{
    const int flawed = st == TUTTI_ERR_INVALID;
    tutti_status closed = TUTTI_OK;

    if (!st)
        closed = tutti_device_flush(&v->device, TUTTI_DEVICE_ALL);
    else if (flawed)
        closed = tutti_device_quiet(&v->device, TUTTI_DEVICE_ALL);
    return closed ? closed : st;
}

/* Combines the results of a token into out[token]. All results of the token must have arrived.
 * sum[hidden] is scratch memory of the block. */
TUTTI_DEVICE void tutti_moe_combine_token(const tutti_moe_view *v, uint32_t token, float *sum)
{
    const uint64_t token_bytes = (uint64_t)v->hidden * (v->type == TUTTI_F32 ? 4 : 2);
    uint8_t *to = (uint8_t *)v->out + token * token_bytes;

    for (uint32_t i = tutti_device_thread(); i < v->hidden; i += tutti_device_threads())
        sum[i] = 0;
    tutti_device_sync();
    for (uint32_t c = 0; c < v->top_k; c++) {
        const uint32_t place = v->places[token * (uint64_t)v->top_k + c];

        if (place != TUTTI_MOE_NONE)
            tutti_moe_row_add(&v->back, v->results + place * v->back.bytes,
                              v->weights[token * (uint64_t)v->top_k + c], sum);
    }
    tutti_device_sync();
    for (uint32_t i = tutti_device_thread(); i < v->hidden; i += tutti_device_threads())
        tutti_moe_set(v->type, to, i, sum[i]);
    tutti_device_sync();
}

#endif
