#include "engine/quantized.h"

#include <stdlib.h>
#include <string.h>

struct tt_op_quant_buffers {
    uint8_t *src, *dst;         /* packed; NULL: the operation has none */
    uint64_t *packed;           /* bitmap of the packed blocks of src */
    uint64_t *unpacked;         /* bitmap of the blocks of dst that were unpacked to the caller */
    float *residual;            /* new residuals; NULL: no error feedback */
    uint64_t src_bytes, dst_bytes, words, dst_words, nresidual;
    uint64_t src_cap, dst_cap, words_cap, dst_words_cap, residual_cap;
    struct {
        uint64_t offset, at;    /* progress of unpacking the output of the step at `offset` of
                                   dst */
    } ahead[TT_EXEC_STEPS];
};

/* packed bytes that are unpacked between two checks for arrivals */
#define AHEAD_BYTES (32u << 10)

/* ---- buffers --------------------------------------------------------------------------------- */

/* Returns a buffer for n items of `size` bytes; reuses the given one if it is large enough.
 * NULL: out of memory, or n is 0. */
static void *reserve_buffer(void *room, uint64_t *cap, uint64_t n, size_t size)
{
    if (n <= *cap)
        return room;
    free(room);
    room = malloc(n * size);
    *cap = room ? n : 0;
    return room;
}

/* Returns the number of elements in the rows of `bytes` packed bytes. */
static uint64_t elements_of(const struct tt_op *op, uint64_t bytes)
{
    const struct tt_op_quant *q = &op->conf.quant;
    const uint64_t row = tt_packed_blocks(&q->packed, q->count) * q->packed.bytes;

    return row ? bytes / row * q->count : 0;
}

static bool reserve_buffers(struct tt_op *op)
{
    const struct tt_op_quant *q = &op->conf.quant;
    struct tt_op_quant_buffers *r = op->rooms;

    r->src_bytes = op->conf.src ? tt_coll_src_bytes(&op->conf.coll) : 0;
    r->dst_bytes = op->conf.dst ? tt_coll_dst_bytes(&op->conf.coll) : 0;
    r->words = (r->src_bytes / q->packed.bytes + 63) / 64;
    r->dst_words = (r->dst_bytes / q->packed.bytes + 63) / 64;
    r->nresidual = q->residual ? elements_of(op, r->src_bytes) : 0;
    r->src = reserve_buffer(r->src, &r->src_cap, r->src_bytes, 1);
    r->dst = reserve_buffer(r->dst, &r->dst_cap, r->dst_bytes, 1);
    r->packed = reserve_buffer(r->packed, &r->words_cap, r->words, sizeof *r->packed);
    r->unpacked = reserve_buffer(r->unpacked, &r->dst_words_cap, r->dst_words, sizeof *r->unpacked);
    r->residual = reserve_buffer(r->residual, &r->residual_cap, r->nresidual, sizeof *r->residual);
    return (r->src || !r->src_bytes) && (r->dst || !r->dst_bytes) && (r->packed || !r->words) &&
           (r->unpacked || !r->dst_words) && (r->residual || !r->nresidual);
}

bool tt_op_quantized_begin(struct tt_op *op)
{
    struct tt_op_quant_buffers *r;

    if (!op->rooms)
        op->rooms = calloc(1, sizeof *op->rooms);
    if (!op->rooms || !reserve_buffers(op))
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

/* ---- positions of elements ------------------------------------------------------------------- */

/* Consecutive blocks of one row, and their elements. */
struct run {
    uint64_t bytes;             /* size of the blocks */
    uint64_t first, count;      /* elements, counted over all rows */
};

/* Returns the part of [at, at + bytes) of a packed buffer that lies in its first row. */
static struct run packed_run_at(const struct tt_op *op, uint64_t at, uint64_t bytes)
{
    const struct tt_op_quant *q = &op->conf.quant;
    const uint64_t block = q->packed.bytes,
                   row_bytes = tt_packed_blocks(&q->packed, q->count) * block;
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

static bool is_within(const uint8_t *at, const uint8_t *room, uint64_t bytes)
{
    return bytes && at >= room && at < room + bytes;
}

/* Returns the end of the run of blocks from `first` that are in the set (in), or not in it (!in);
 * at most `end`. */
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

/* ---- packing --------------------------------------------------------------------------------- */

static void pack_blocks(struct tt_op *op, uint64_t at, uint64_t end)
{
    const struct tt_op_quant *q = &op->conf.quant;
    struct tt_op_quant_buffers *r = op->rooms;

    while (at < end) {
        const struct run run = packed_run_at(op, at, end - at);

        tt_packed_encode(&q->packed, r->src + at, own_elements(op, &run),
                         r->nresidual ? r->residual + run.first : NULL, run.count);
        at += run.bytes;
    }
}

void tt_op_quantized_need(struct tt_op *op, const uint8_t *at, uint64_t bytes)
{
    struct tt_op_quant_buffers *r = op->rooms;
    const uint64_t block = op->conf.quant.packed.bytes;
    uint64_t first = (uint64_t)(at - r->src) / block;
    const uint64_t end = first + bytes / block;

    tt_assert(is_within(at, r->src, r->src_bytes) && end * block <= r->src_bytes);
    while ((first = end_of_run(r->packed, first, end, true)) < end) {
        const uint64_t to = end_of_run(r->packed, first, end, false);

        pack_blocks(op, first * block, to * block);
        add_run(r->packed, first, to);
        first = to;
    }
}

/* ---- reducing -------------------------------------------------------------------------------- */

/* Returns the residuals of a step's elements, or NULL if there are none, or if the step's output is
 * not in DST. DST is this rank's row or the whole result. */
static float *residual_of(const struct tt_op *op, const uint8_t *out, const struct run *run)
{
    const struct tt_op_quant_buffers *r = op->rooms;
    const bool scattered = op->conf.coll.kind == TT_REDUCE_SCATTER;

    if (!r->nresidual || !is_within(out, r->dst, r->dst_bytes))
        return NULL;
    return r->residual + run->first + (scattered ? op->conf.coll.rank * op->conf.quant.count : 0);
}

/* Adds this rank's own input, unquantized, to packed data. */
static void reduce_own(struct tt_op *op, struct tt_packed_step step, const uint8_t *own,
                       uint64_t bytes)
{
    const struct tt_op_quant_buffers *r = op->rooms;

    for (uint64_t done = 0; done < bytes;) {
        const struct run run = packed_run_at(op, (uint64_t)(own - r->src) + done, bytes - done);

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
    const struct tt_op_quant_buffers *r = op->rooms;
    const uint8_t *out = step.out;
    struct run run = { .bytes = bytes, .count = bytes / p->bytes * p->block };

    if (r->nresidual && is_within(out, r->dst, r->dst_bytes)) {
        run = packed_run_at(op, (uint64_t)(out - r->dst), bytes);
        tt_assert(run.bytes == bytes);      /* DST of a reduction has one row */
        step.residual = residual_of(op, out, &run);
    }
    step.count = run.count;
    tt_packed_add(p, &step);
}

void tt_op_quantized_reduce(struct tt_op *op, void *out, void *out2, const uint8_t *a,
                            const uint8_t *b, uint64_t bytes, bool finish)
{
    const struct tt_op_quant_buffers *r = op->rooms;
    struct tt_packed_step step = {
        .out = out, .out2 = out2,
        .divide_by = finish && op->conf.redop == TUTTI_AVG ? tt_op_divisor(op) : 1,
    };

    /* the order of operands matters only for NaN payloads */
    if (is_within(a, r->src, r->src_bytes)) {
        const uint8_t *own = a;

        a = b;
        b = own;
    }
    step.a = a;
    if (is_within(b, r->src, r->src_bytes)) {
        tt_assert(!is_within(a, r->src, r->src_bytes));
        reduce_own(op, step, b, bytes);
    } else {
        step.b = b;
        reduce_packed(op, step, bytes);
    }
}

/* ---- unpacking ------------------------------------------------------------------------------- */

static void unpack_blocks(struct tt_op *op, uint64_t at, uint64_t end)
{
    const struct tt_op_quant *q = &op->conf.quant;

    while (at < end) {
        const struct run run = packed_run_at(op, at, end - at);

        tt_packed_decode(&q->packed,
                         (char *)op->own_dst + run.first * tutti_dtype_bytes(op->conf.dtype),
                         op->rooms->dst + at, run.count);
        at += run.bytes;
    }
}

/* Unpacks the blocks in [first, end) that were not unpacked before. */
static void unpack_new(struct tt_op *op, uint64_t first, uint64_t end)
{
    const uint64_t block = op->conf.quant.packed.bytes;
    struct tt_op_quant_buffers *r = op->rooms;

    while ((first = end_of_run(r->unpacked, first, end, true)) < end) {
        const uint64_t to = end_of_run(r->unpacked, first, end, false);

        unpack_blocks(op, first * block, to * block);
        add_run(r->unpacked, first, to);
        first = to;
    }
}

/* Returns whether the output of a step is final. */
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
    struct tt_op_quant_buffers *r = op->rooms;

    /* including completed steps that are still in the window */
    for (uint32_t i = 0; op->conf.quant.ahead && i < n; i++) {
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
    const struct tt_op_quant_buffers *r = op->rooms;

    unpack_new(op, 0, r->dst_bytes / op->conf.quant.packed.bytes);
    if (r->nresidual)
        memcpy(op->conf.quant.residual, r->residual, r->nresidual * sizeof *r->residual);
}
