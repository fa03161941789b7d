/* Tutti, experts from devices: what kernels call to dispatch tokens, to see which tiles have come, to send results back and to combine them.
 *
 * A layer of the form TUTTI_MOE_TILES (<tutti/moe.h>) has a window and a device (<tutti/device.h>). A run is begun by the host, done by one kernel whose blocks share its
 * work as they like, and ended by the host:
 *
 *     host      tutti_moe_begin(moe, &routing, out, &view, 0);
 *     kernel    each of nsends:                     tutti_moe_send(&view, i)
 *               each source, tile by tile:          tutti_moe_poll(...) until there, tutti_moe_check, compute, tutti_moe_result_write, tutti_moe_give_back
 *               each rank that has tiles of ours:   tutti_moe_poll_result(...) until there
 *               each token whose results are here:  tutti_moe_combine_token
 *               who polls in vain:                  tutti_device_pause, between two polls
 *               each block, at its end:             tutti_moe_close
 *     host      tutti_moe_end(moe, what the kernel returned, 0);
 *
 * examples/moe is such a kernel. Functions marked TUTTI_DEVICE are called by all threads of a block together, unless they say otherwise; on the CPU device a block is one
 * thread. They are one source for C, C++ and CUDA, as those of <tutti/device.h>.
 *
 * The window has two sets, which runs take in turn. In each set, for each rank and each number of a tile:
 *     tiles      from that rank: a head (struct tutti_moe_head, then the expert of each row), and rows
 *     results    of this rank's tile of that number to that rank: rows
 *     two words  run << 32 | tiles of that rank in this run, when the tile is there; run << 32 | 1, when the results are
 * A rank without tiles raises the word of tile 0 alone. Who begins run k + 2 has seen such a word of run k + 1 from all, and these were raised by ranks that had
 * ended run k: nobody waits for a barrier. */
#ifndef TUTTI_MOE_DEVICE_H
#define TUTTI_MOE_DEVICE_H

#include <string.h>

#include "tutti/device.h"
#include "tutti/moe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One row as it travels. */
typedef struct tutti_moe_row {
    uint32_t type;              /* tutti_dtype: F32, BF16, F8E4M3 */
    uint32_t elems;
    uint32_t scale_elems;       /* elements that share a scale; of F32 and BF16 all do, and it is 1 and does not travel */
    uint32_t scales_at;         /* bytes from the row's beginning */
    uint64_t bytes;
} tutti_moe_row;

/* What a tile begins with; behind it the expert of each of its tile_tokens rows, then, from tutti_moe_view.head_bytes on, rows. */
typedef struct tutti_moe_head {
    uint32_t rows;
    uint32_t flaw;              /* not 0: the sender's routing is wrong; then there are no rows, and the others say what is wrong */
    uint32_t token, choice, value, pad[3];
} tutti_moe_head;

/* A tile that this rank sends. */
typedef struct tutti_moe_send_tile {
    uint32_t peer, number;      /* to whom, and which of those for it */
    uint32_t first, rows;       /* in tutti_moe_view.rows; 0 rows: nothing goes there in this run */
    uint32_t group;             /* of the device's groups */
} tutti_moe_send_tile;

/* What a kernel needs of a run, given to it by value. Fields may be read; all memory but tokens and out is the layer's. */
typedef struct tutti_moe_view {
    tutti_device_view device;
    uint32_t run;
    uint32_t hidden, experts, top_k, nheld, ntokens;
    uint32_t tile_tokens, tiles_max;    /* rows of a tile, and tiles of one rank for another, at most */
    uint32_t type;                      /* tutti_dtype of tokens and out */
    tutti_moe_row there, back;
    uint64_t head_bytes, tile_bytes;
    uint64_t words_at, result_words_at, tiles_at, results_at;   /* in the window: of the run's set */
    const void *tokens;                 /* [ntokens][hidden] of type */
    const float *weights;               /* [ntokens][top_k] */
    void *out;                          /* likewise as tokens */
    uint32_t nsends;
    const tutti_moe_send_tile *sends;   /* [nsends], those of one rank together; each rank has one at least */
    const tutti_device_signal_to *signals;      /* [nsends] */
    const uint32_t *first_send;         /* [nranks + 1] */
    const uint32_t *rows;               /* token * top_k + choice of each row that is sent, tile by tile */
    const uint32_t *row_experts;        /* likewise: its expert */
    const uint32_t *places;             /* [ntokens][top_k]: which row of `results` is its result; TUTTI_MOE_NONE: there is none */
    const uint32_t *held_at;            /* [experts]: the number of an expert among those that this rank holds; TUTTI_MOE_NONE: it does not */
    const uint32_t *group_first;        /* [groups + 1]: the tiles of group g are sends[group_first[g]] to sends[group_first[g + 1]]; none is fine */
    const uint64_t *complete;           /* [groups]: of the device's groups */
    uint64_t *staged;                   /* [groups]: tiles of the run that have been put */
    uint8_t *staging;                   /* [nsends][tile_bytes] */
    uint8_t *giving;                    /* [nranks][tiles_max][tile_tokens][back.bytes] */
    const uint8_t *results;             /* [nranks][tiles_max][tile_tokens][back.bytes]: what came back */
} tutti_moe_view;

/* Begins a run for a kernel, and takes the plan of what goes where from the routing, which the host reads: the kernel reads tokens[ntokens][hidden], and writes out (the same). Both
 * must stay until tutti_moe_end. Errors as tutti_moe_dispatch: after TUTTI_ERR_INVALID the run is over. */
TUTTI_API tutti_status tutti_moe_begin(tutti_moe *moe, const tutti_moe_routing *routing, void *out,
                                       tutti_moe_view *view, int64_t timeout_ms);
/* Ends a run whose kernel has returned `kernel`. TUTTI_ERR_INVALID if that says so, with the sentence of the rank whose routing is wrong; or, and then the layer is
 * good only for tutti_moe_free, if the kernel has returned TUTTI_OK without having seen how many tiles come from each rank. */
TUTTI_API tutti_status tutti_moe_end(tutti_moe *moe, tutti_status kernel, int64_t timeout_ms);
/* The layer's device, for tutti_device_run and _set_mode between runs; NULL: it has none. The layer keeps owning it. */
TUTTI_API tutti_device *tutti_moe_device(tutti_moe *moe);
/* Called by tutti_moe_check on the CPU device: writes the sentence of `status`, which it returns. */
TUTTI_API tutti_status tutti_moe_refuse(const tutti_moe_view *view, const uint8_t *tile, uint32_t ntiles,
                                        tutti_status status);

#ifdef __cplusplus
}
#endif

/* ---- numbers ------------------------------------------------------------------------------------------------- */

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

/* To the nearest bf16, ties to even. */
TUTTI_DEVICE uint16_t tutti_moe_to_bf16(float x)
{
    const uint32_t bits = tutti_moe_bits(x);
    const uint32_t quiet = (bits >> 16) | 0x40, rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;

    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

TUTTI_DEVICE float tutti_moe_from_bf16(uint16_t h)
{
    return tutti_moe_float((uint32_t)h << 16);
}

/* To the nearest e4m3, ties to even; what is larger than 448 is 448. Below 2^-6, the smallest normal one, an addition to 2^14, whose last bit is worth 2^-9, rounds. */
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
    const uint32_t finite = tutti_moe_bits(tutti_moe_float(magnitude) * tutti_moe_float(247u << 23));

    return tutti_moe_float(sign | (magnitude == 0x07f00000 ? 0x7fc00000u : finite));
}

/* The scale of elements whose largest magnitude that is, as a biased exponent: largest / 2^(scale - 127) is in (224, 448], unless the scale would be below 2^-126. 0: NaN. */
TUTTI_DEVICE uint32_t tutti_moe_scale_exponent(float largest)
{
    const uint32_t bits = tutti_moe_bits(largest), exponent = bits >> 23;
    const uint32_t wanted = exponent + ((bits & 0x7fffff) > 0x600000);

    if (exponent >= 255)
        return 0;
    return wanted > 9 ? wanted - 8 : 1;
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* Element i of values of a type that is F32, BF16 or F8E4M3. */
TUTTI_DEVICE float tutti_moe_get(uint32_t type, const void *from, uint64_t i)
{
    if (type == TUTTI_F32)
        return ((const float *)from)[i];
    return type == TUTTI_BF16 ? tutti_moe_from_bf16(((const uint16_t *)from)[i])
                              : tutti_moe_from_e4m3(((const uint8_t *)from)[i]);
}

TUTTI_DEVICE void tutti_moe_set(uint32_t type, void *to, uint64_t i, float x)
{
    if (type == TUTTI_F32)
        ((float *)to)[i] = x;
    else if (type == TUTTI_BF16)
        ((uint16_t *)to)[i] = tutti_moe_to_bf16(x);
    else
        ((uint8_t *)to)[i] = tutti_moe_to_e4m3(x);
}

/* How rows of so many elements travel as that type. scale_elems 0: all. */
TUTTI_DEVICE tutti_moe_row tutti_moe_row_of(uint32_t type, uint32_t elems, uint32_t scale_elems)
{
    const uint32_t share = type != TUTTI_F8E4M3 || scale_elems == 0 || scale_elems > elems ? elems : scale_elems;
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

/* Elements of a row that share a scale: [at, end). */
typedef struct tutti_moe_span {
    uint32_t at, end;
} tutti_moe_span;

TUTTI_DEVICE tutti_moe_span tutti_moe_span_of(const tutti_moe_row *row, uint32_t at)
{
    tutti_moe_span s;

    s.at = at;
    s.end = row->elems - at > row->scale_elems ? at + row->scale_elems : row->elems;
    return s;
}

TUTTI_DEVICE float *tutti_moe_scale_at(const tutti_moe_row *row, const uint8_t *from, uint32_t at)
{
    return (float *)(uintptr_t)(from + row->scales_at) + at / row->scale_elems;
}

/* Writes a row of x[elems] of a type (F32 or BF16). x and `to` do not overlap. */
TUTTI_DEVICE void tutti_moe_row_write(const tutti_moe_row *row, uint8_t *to, const void *x, uint32_t type)
{
    for (tutti_moe_span s = tutti_moe_span_of(row, 0); s.at < row->elems; s = tutti_moe_span_of(row, s.end)) {
        float by = 1;

        if (row->type == TUTTI_F8E4M3) {
            uint32_t largest = 0, exponent;

            for (uint32_t i = s.at; i < s.end; i++) {       /* by each thread: the reference's way */
                const uint32_t magnitude = tutti_moe_bits(tutti_moe_get(type, x, i)) & 0x7fffffff;

                largest = magnitude > largest ? magnitude : largest;    /* those of a NaN are the largest */
            }
            exponent = tutti_moe_scale_exponent(tutti_moe_float(largest));
            by = tutti_moe_float(exponent ? (254 - exponent) << 23 : 0x7fc00000);
            if (tutti_device_thread() == 0)
                *tutti_moe_scale_at(row, to, s.at) = tutti_moe_float(exponent ? exponent << 23 : 0x7fc00000);
        }
        for (uint32_t i = s.at + tutti_device_thread(); i < s.end; i += tutti_device_threads())
            tutti_moe_set(row->type, to, i, tutti_moe_get(type, x, i) * by);
    }
}

/* out[elems] of a row. */
TUTTI_DEVICE void tutti_moe_row_read(const tutti_moe_row *row, const uint8_t *from, float *out)
{
    for (tutti_moe_span s = tutti_moe_span_of(row, 0); s.at < row->elems; s = tutti_moe_span_of(row, s.end)) {
        const float by = row->type == TUTTI_F8E4M3 ? *tutti_moe_scale_at(row, from, s.at) : 1;

        for (uint32_t i = s.at + tutti_device_thread(); i < s.end; i += tutti_device_threads())
            out[i] = tutti_moe_get(row->type, from, i) * by;
    }
}

/* sum[elems] += weight * a row. */
TUTTI_DEVICE void tutti_moe_row_add(const tutti_moe_row *row, const uint8_t *from, float weight, float *sum)
{
    for (tutti_moe_span s = tutti_moe_span_of(row, 0); s.at < row->elems; s = tutti_moe_span_of(row, s.end)) {
        const float by = row->type == TUTTI_F8E4M3 ? *tutti_moe_scale_at(row, from, s.at) : 1;

        for (uint32_t i = s.at + tutti_device_thread(); i < s.end; i += tutti_device_threads())
            sum[i] += weight * (tutti_moe_get(row->type, from, i) * by);
    }
}

/* ---- where things are ------------------------------------------------------------------------------------------- */

/* Which of the n * tiles_max places is that of a tile of, or for, a rank. */
TUTTI_DEVICE uint64_t tutti_moe_place(const tutti_moe_view *v, uint32_t rank, uint32_t tile)
{
    return (uint64_t)rank * v->tiles_max + tile;
}

/* A tile that has come; its rows. */
TUTTI_DEVICE const uint8_t *tutti_moe_tile_at(const tutti_moe_view *v, uint32_t source, uint32_t tile)
{
    return v->device.mine + v->tiles_at + tutti_moe_place(v, source, tile) * v->tile_bytes;
}

TUTTI_DEVICE const uint8_t *tutti_moe_row_at(const tutti_moe_view *v, const uint8_t *tile, uint32_t row)
{
    return tile + v->head_bytes + row * v->there.bytes;
}

/* [rows] of a tile: for which experts its rows are. */
TUTTI_DEVICE const uint32_t *tutti_moe_tile_experts(const uint8_t *tile)
{
    return (const uint32_t *)(const void *)(tile + sizeof(tutti_moe_head));
}

/* Where the results of a tile that has come are made ready to be given back. */
TUTTI_DEVICE uint8_t *tutti_moe_giving_at(const tutti_moe_view *v, uint32_t source, uint32_t tile)
{
    return v->giving + tutti_moe_place(v, source, tile) * v->tile_tokens * v->back.bytes;
}

/* ---- dispatch ------------------------------------------------------------------------------------------------------ */

/* The value that thread 0 has, for all threads of the block. */
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

/* Writes tile i of the plan where it is put from. Returns its bytes. */
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
        tutti_moe_row_write(&v->there, tile + v->head_bytes + r * v->there.bytes,
                            (const uint8_t *)v->tokens + v->rows[s->first + r] / v->top_k * token_bytes, v->type);
    return v->head_bytes + s->rows * v->there.bytes;
}

/* Puts tile i of the plan. Every tile of the plan once, by any block; the one that completes a group's signals for it, where signals are the leader's (groups,
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
    st = tutti_device_group_put(&v->device, at, v->staging + i * v->tile_bytes, bytes, &v->signals[i]);
    if (!st)
        st = tutti_device_group_publish(&v->device, s->group);
    if (st)
        return st;
    if (tutti_device_thread() == 0)
        before = tutti_device_add_own(&v->staged[s->group], 1);
    if (tutti_moe_share(before) + 1 < n)
        return TUTTI_OK;
    return tutti_device_group_signal(&v->device, s->group, v->complete[s->group], &v->signals[first], n);
}

/* ---- what has come --------------------------------------------------------------------------------------------------- */

/* OK if that tile of the source has come, and with it *ntiles: how many come from there in this run. How many, tile 0 tells, whose word is raised by all. Else TUTTI_PENDING, or what has ended the device. For one thread,
 * or for all. */
TUTTI_DEVICE tutti_status tutti_moe_poll(const tutti_moe_view *v, uint32_t source, uint32_t tile, uint32_t *ntiles)
{
    uint64_t seen = 0;
    const tutti_status st = tutti_device_poll(&v->device, v->words_at + 8 * tutti_moe_place(v, source, tile),
                                              TUTTI_AT_LEAST, (uint64_t)v->run << 32, &seen);

    if (!st)
        *ntiles = (uint32_t)seen;
    return st;
}

/* OK if a tile that has come can be worked on: its rows are no more than there can be, for experts that this rank holds. TUTTI_ERR_INVALID: the routing of its sender is
 * wrong, and the run with it. TUTTI_ERR_PROTOCOL: no layer writes such a tile. ntiles is what tutti_moe_poll said. For one thread, or for all. */
TUTTI_DEVICE tutti_status tutti_moe_check_tile(const tutti_moe_view *v, const uint8_t *tile, uint32_t ntiles)
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

/* The same; on the CPU device an error leaves a sentence. */
TUTTI_DEVICE tutti_status tutti_moe_check(const tutti_moe_view *v, const uint8_t *tile, uint32_t ntiles)
{
    const tutti_status st = tutti_moe_check_tile(v, tile, ntiles);

#if defined(__CUDA_ARCH__)
    return st;
#else
    return st ? tutti_moe_refuse(v, tile, ntiles, st) : TUTTI_OK;
#endif
}

/* ---- results ----------------------------------------------------------------------------------------------------------- */

/* The result x[hidden] of one row of a tile that has come, made ready to be given back. */
TUTTI_DEVICE void tutti_moe_result_write(const tutti_moe_view *v, uint32_t source, uint32_t tile, uint32_t row,
                                         const float *x)
{
    tutti_moe_row_write(&v->back, tutti_moe_giving_at(v, source, tile) + row * v->back.bytes, x, TUTTI_F32);
}

/* Puts the results of all rows of a tile, which have been written, back to its source. */
TUTTI_DEVICE tutti_status tutti_moe_give_back(const tutti_moe_view *v, uint32_t source, uint32_t tile, uint32_t rows)
{
    const uint64_t place = tutti_moe_place(v, v->device.rank, tile);

    tutti_device_sync();
    return tutti_device_put_signal(&v->device, source, v->results_at + place * v->tile_tokens * v->back.bytes,
                                   tutti_moe_giving_at(v, source, tile), rows * v->back.bytes, TUTTI_SIGNAL_SET,
                                   v->result_words_at + 8 * place, (uint64_t)v->run << 32 | 1);
}

/* OK if the results of this rank's tile for `peer` have come back; as tutti_moe_poll. */
TUTTI_DEVICE tutti_status tutti_moe_poll_result(const tutti_moe_view *v, uint32_t peer, uint32_t tile)
{
    return tutti_device_poll(&v->device, v->result_words_at + 8 * tutti_moe_place(v, peer, tile), TUTTI_AT_LEAST,
                             (uint64_t)v->run << 32, NULL);
}

/* By every block before it returns, with what it came to, which it returns: the sources of all that it has put are free again; after TUTTI_ERR_INVALID, of a run
 * whose routing is wrong, all of it has landed. */
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

/* Writes out[token], all of whose results are here. sum[hidden] is the block's own memory. */
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
            tutti_moe_row_add(&v->back, v->results + place * v->back.bytes, v->weights[token * (uint64_t)v->top_k + c],
                              sum);
    }
    tutti_device_sync();
    for (uint32_t i = tutti_device_thread(); i < v->hidden; i += tutti_device_threads())
        tutti_moe_set(v->type, to, i, sum[i]);
    tutti_device_sync();
}

#endif
