#include "engine/quantized.h"

#include <stdlib.h>
#include <string.h>

struct tt_op_rooms {
    uint8_t *src, *dst;         /* packed; NULL where the operation has none */
    uint64_t *packed;           /* a bit for each block of src: whether it is */
    uint64_t *unpacked;         /* a bit for each block of dst: whether the caller has it */
    float *residual;            /* new ones; NULL: without feedback */
    uint64_t src_bytes, dst_bytes, words, dst_words, nresidual;
    uint64_t src_cap, dst_cap, words_cap, dst_words_cap, residual_cap;
    struct {
        uint64_t offset, at;    /* how far what the step at `offset` of dst wrote has been unpacked */
    } ahead[TT_EXEC_STEPS];
};

#define AHEAD_BYTES (32u << 10)     /* packed, that are unpacked between two looks at what has arrived */

/* ---- rooms ------------------------------------------------------------------------------------------------- */

/* Room for `n` things of `size` bytes, from the operation before if that had as much; NULL: there is none, or none is needed. */
static void *take_room(void *room, uint64_t *cap, uint64_t n, size_t size)
{
    if (n <= *cap)
        return room;
    free(room);
    room = malloc(n * size);
    *cap = room ? n : 0;
    return room;
}

/* Elements in all rows of so many packed bytes. */
static uint64_t elements_of(const struct tt_op *op, uint64_t bytes)
{
    const struct tt_op_quant *q = &op->conf.quant;
    const uint64_t row = tt_packed_blocks(&q->packed, q->count) * q->packed.bytes;

    return row ? bytes / row * q->count : 0;
}

static bool take_rooms(struct tt_op *op)
{
    const struct tt_op_quant *q = &op->conf.quant;
    struct tt_op_rooms *r = op->rooms;

    r->src_bytes = op->conf.src ? tt_coll_src_bytes(&op->conf.coll) : 0;
    r->dst_bytes = op->conf.dst ? tt_coll_dst_bytes(&op->conf.coll) : 0;
    r->words = (r->src_bytes / q->packed.bytes + 63) / 64;
    r->dst_words = (r->dst_bytes / q->packed.bytes + 63) / 64;
    r->nresidual = q->residual ? elements_of(op, r->src_bytes) : 0;
    r->src = take_room(r->src, &r->src_cap, r->src_bytes, 1);
    r->dst = take_room(r->dst, &r->dst_cap, r->dst_bytes, 1);
    r->packed = take_room(r->packed, &r->words_cap, r->words, sizeof *r->packed);
    r->unpacked = take_room(r->unpacked, &r->dst_words_cap, r->dst_words, sizeof *r->unpacked);
    r->residual = take_room(r->residual, &r->residual_cap, r->nresidual, sizeof *r->residual);
    return (r->src || !r->src_bytes) && (r->dst || !r->dst_bytes) && (r->packed || !r->words) &&
           (r->unpacked || !r->dst_words) && (r->residual || !r->nresidual);
}

bool tt_op_quantized_begin(struct tt_op *op)
{
    struct tt_op_rooms *r;

    if (!op->rooms)
        op->rooms = calloc(1, sizeof *op->rooms);
    if (!op->rooms || !take_rooms(op))
        return false;
    r = op->rooms;
    if (r->words)
        memset(r->packed, 0, r->words * sizeof *r->packed);
    if (r->dst_words)
        memset(r->unpacked, 0, r->dst_words * sizeof *r->unpacked);
    memset(r->ahead, 0, sizeof r->ahead);
    if (r->nresidual)
        memcpy(r->residual, op->conf.quant.residual, r->nresidual * sizeof *r->residual);
    op->own_src = op->conf.src;
    op->own_dst = op->conf.dst;
    op->conf.src = r->src_bytes ? r->src : NULL;
    op->conf.dst = r->dst_bytes ? r->dst : NULL;
    return true;
}

void tt_op_quantized_free(struct tt_op *op)
{
    if (!op->rooms)
        return;
    free(op->rooms->src);
    free(op->rooms->dst);
    free(op->rooms->packed);
    free(op->rooms->unpacked);
    free(op->rooms->residual);
    free(op->rooms);
    op->rooms = NULL;
}

/* ---- where elements are --------------------------------------------------------------------------------------- */

/* Some blocks of one row, and the elements that are packed in them. */
struct run {
    uint64_t bytes;             /* of the blocks */
    uint64_t first, count;      /* elements, of all rows */
};

/* What of [at, at + bytes) of a packed buffer lies in the row that it begins in. */
static struct run run_at(const struct tt_op *op, uint64_t at, uint64_t bytes)
{
    const struct tt_op_quant *q = &op->conf.quant;
    const uint64_t block = q->packed.bytes, row_bytes = tt_packed_blocks(&q->packed, q->count) * block;
    const uint64_t row = at / row_bytes, in_row = at % row_bytes;
    const uint64_t first = in_row / block * q->packed.block;
    struct run run = { .bytes = bytes < row_bytes - in_row ? bytes : row_bytes - in_row,
                       .first = row * q->count + first };

    tt_assert(at % block == 0 && bytes % block == 0);
    run.count = run.bytes / block * q->packed.block;
    if (run.count > q->count - first)
        run.count = q->count - first;
    return run;
}

static const char *own_elements(const struct tt_op *op, const struct run *run)
{
    return (const char *)op->own_src + run->first * tutti_dtype_bytes(op->conf.dtype);
}

static bool is_in(const uint8_t *at, const uint8_t *room, uint64_t bytes)
{
    return bytes && at >= room && at < room + bytes;
}

/* The end of the blocks from `first` on that are, or are not, in the set; at most `end`. */
static uint64_t end_of_run(const uint64_t *set, uint64_t first, uint64_t end, bool in)
{
    while (first < end && (set[first / 64] >> first % 64 & 1) == in)
        first++;
    return first;
}

static void add_run(uint64_t *set, uint64_t first, uint64_t end)
{
    for (; first < end; first++)
        set[first / 64] |= 1ull << first % 64;
}

/* ---- packing ---------------------------------------------------------------------------------------------------- */

static void pack(struct tt_op *op, uint64_t at, uint64_t end)
{
    const struct tt_op_quant *q = &op->conf.quant;
    struct tt_op_rooms *r = op->rooms;

    while (at < end) {
        const struct run run = run_at(op, at, end - at);

        tt_packed_encode(&q->packed, r->src + at, own_elements(op, &run), r->nresidual ? r->residual + run.first : NULL,
                         run.count);
        at += run.bytes;
    }
}

void tt_op_quantized_need(struct tt_op *op, const uint8_t *at, uint64_t bytes)
{
    struct tt_op_rooms *r = op->rooms;
    const uint64_t block = op->conf.quant.packed.bytes;
    uint64_t first = (uint64_t)(at - r->src) / block;
    const uint64_t end = first + bytes / block;

    tt_assert(is_in(at, r->src, r->src_bytes) && end * block <= r->src_bytes);
    while ((first = end_of_run(r->packed, first, end, true)) < end) {
        const uint64_t to = end_of_run(r->packed, first, end, false);

        pack(op, first * block, to * block);
        add_run(r->packed, first, to);
        first = to;
    }
}

/* ---- reducing --------------------------------------------------------------------------------------------------- */

/* Whose error the step makes, as far as that is known: the elements' place in SRC, or in a DST of this rank's own row or the whole. */
static float *residual_of(const struct tt_op *op, const uint8_t *out, const struct run *run)
{
    const struct tt_op_rooms *r = op->rooms;
    const bool scattered = op->conf.coll.kind == TT_REDUCE_SCATTER;

    if (!r->nresidual || !is_in(out, r->dst, r->dst_bytes))
        return NULL;
    return r->residual + run->first + (scattered ? op->conf.coll.rank * op->conf.quant.count : 0);
}

/* This rank's part, as it is, is added to what is packed. */
static void reduce_own(struct tt_op *op, struct tt_packed_step step, const uint8_t *own, uint64_t bytes)
{
    const struct tt_op_rooms *r = op->rooms;

    for (uint64_t done = 0; done < bytes;) {
        const struct run run = run_at(op, (uint64_t)(own - r->src) + done, bytes - done);

        step.own = own_elements(op, &run);
        step.count = run.count;
        step.residual = r->nresidual ? r->residual + run.first : NULL;
        tt_packed_add(&op->conf.quant.packed, &step);
        done += run.bytes;
        step.out = (uint8_t *)step.out + run.bytes;
        step.out2 = step.out2 ? (uint8_t *)step.out2 + run.bytes : NULL;
        step.a = (const uint8_t *)step.a + run.bytes;
    }
}

static void reduce_packed(struct tt_op *op, struct tt_packed_step step, uint64_t bytes)
{
    const struct tt_packed *p = &op->conf.quant.packed;
    const struct tt_op_rooms *r = op->rooms;
    const uint8_t *out = step.out;
    struct run run = { .bytes = bytes, .count = bytes / p->bytes * p->block };

    if (r->nresidual && is_in(out, r->dst, r->dst_bytes)) {
        run = run_at(op, (uint64_t)(out - r->dst), bytes);
        tt_assert(run.bytes == bytes);      /* DST of a reduction has one row */
        step.residual = residual_of(op, out, &run);
    }
    step.count = run.count;
    tt_packed_add(p, &step);
}

void tt_op_quantized_reduce(struct tt_op *op, void *out, void *out2, const uint8_t *a, const uint8_t *b, uint64_t bytes,
                            bool finish)
{
    const struct tt_op_rooms *r = op->rooms;
    struct tt_packed_step step = {
        .out = out, .out2 = out2,
        .divide_by = finish && op->conf.redop == TUTTI_AVG ? tt_op_divisor(op) : 1,
    };

    if (is_in(a, r->src, r->src_bytes)) {       /* which of them is left does not matter: only a NaN could tell */
        const uint8_t *own = a;

        a = b;
        b = own;
    }
    step.a = a;
    if (is_in(b, r->src, r->src_bytes)) {
        tt_assert(!is_in(a, r->src, r->src_bytes));
        reduce_own(op, step, b, bytes);
    } else {
        step.b = b;
        reduce_packed(op, step, bytes);
    }
}

/* ---- unpacking ---------------------------------------------------------------------------------------------------- */

static void unpack(struct tt_op *op, uint64_t at, uint64_t end)
{
    const struct tt_op_quant *q = &op->conf.quant;

    while (at < end) {
        const struct run run = run_at(op, at, end - at);

        tt_packed_decode(&q->packed, (char *)op->own_dst + run.first * tutti_dtype_bytes(op->conf.dtype),
                         op->rooms->dst + at, run.count);
        at += run.bytes;
    }
}

/* Unpacks what of the blocks from `first` to `end` - 1 has not been. */
static void unpack_new(struct tt_op *op, uint64_t first, uint64_t end)
{
    const uint64_t block = op->conf.quant.packed.bytes;
    struct tt_op_rooms *r = op->rooms;

    while ((first = end_of_run(r->unpacked, first, end, true)) < end) {
        const uint64_t to = end_of_run(r->unpacked, first, end, false);

        unpack(op, first * block, to * block);
        add_run(r->unpacked, first, to);
        first = to;
    }
}

/* Whether what a step writes is final. */
static bool is_final(const struct tt_exec_step *t)
{
    const bool last = t->s.opcode == TT_WAIT || (t->s.opcode == TT_REDUCE_STEP && t->s.finish);

    return last && t->s.out.buf == TT_BUF_DST && !t->s.out.block;
}

bool tt_op_quantized_ahead(struct tt_op *op)
{
    const struct tt_exec *x = &op->exec;
    const uint64_t block = op->conf.quant.packed.bytes;
    const uint32_t n = x->loaded < TT_EXEC_STEPS ? x->loaded : TT_EXEC_STEPS;
    struct tt_op_rooms *r = op->rooms;

    for (uint32_t i = 0; op->conf.quant.ahead && i < n; i++) {      /* also those that are over, as long as they are there */
        const struct tt_exec_step *t = &x->step[i];
        const uint64_t from = t->s.out.offset, there = from + t->done / block * block;
        uint64_t to;

        if (!is_final(t))
            continue;
        if (r->ahead[i].offset != from || r->ahead[i].at < from) {
            r->ahead[i].offset = from;
            r->ahead[i].at = from;
        }
        if (r->ahead[i].at >= there)
            continue;
        to = there - r->ahead[i].at < AHEAD_BYTES ? there : r->ahead[i].at + AHEAD_BYTES;
        unpack_new(op, r->ahead[i].at / block, to / block);
        r->ahead[i].at = to;
        return true;
    }
    return false;
}

void tt_op_quantized_end(struct tt_op *op)
{
    const struct tt_op_rooms *r = op->rooms;

    unpack_new(op, 0, r->dst_bytes / op->conf.quant.packed.bytes);
    if (r->nresidual)
        memcpy(op->conf.quant.residual, r->residual, r->nresidual * sizeof *r->residual);
}
