#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "base/status.h"

static uint8_t input_byte(const struct case_memory *m, uint32_t rank, uint64_t offset)
{
    return (uint8_t)tt_mix64(m->spec->seed * 1000003 + ((uint64_t)rank << 40) + offset);
}

static uint8_t *bytes_of(const struct case_memory *m, uint32_t r, int buf)
{
    return buf == TT_BUF_SRC ? m->src[r] : m->dst[r];
}

static void *room_for(uint64_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);

    tt_assert(p);
    return p;
}

static uint8_t *copy_of(const uint8_t *from, uint64_t bytes)
{
    uint8_t *copy = room_for(bytes);

    memcpy(copy, from, bytes);
    return copy;
}

void case_memory_init(struct case_memory *m, const struct case_spec *spec,
                      const struct case_calls *calls)
{
    m->spec = spec;
    m->calls = calls;
    for (uint32_t r = 0; r < spec->nranks; r++) {
        const struct tt_coll *c = &calls->coll[r];

        m->bytes[r][TT_BUF_SRC] = tt_coll_src_bytes(c);
        m->bytes[r][TT_BUF_DST] = tt_coll_dst_bytes(c);
        m->src[r] = room_for(m->bytes[r][TT_BUF_SRC]);
        m->dst[r] = room_for(m->bytes[r][TT_BUF_DST]);
        for (int b = 0; b < 2; b++)
            memset(bytes_of(m, r, b), 0xd5 + b, m->bytes[r][b]);
        for (uint64_t i = 0; i < m->bytes[r][TT_BUF_SRC]; i++) {
            const struct tt_ref at = tt_coll_canonical(c, tt_src(i));

            bytes_of(m, r, at.buf)[at.offset] = input_byte(m, r, i);
        }
        for (int b = 0; b < 2; b++)
            m->before[r][b] = copy_of(bytes_of(m, r, b), m->bytes[r][b]);
    }
}

void case_memory_fini(struct case_memory *m)
{
    for (uint32_t r = 0; r < m->spec->nranks; r++) {
        free(m->src[r]);
        free(m->dst[r]);
        free(m->before[r][0]);
        free(m->before[r][1]);
    }
}

/* ---- the definition ---- */

/* The operation: the lower half of an element is a sum, and the upper half is copied from the left
 * operand. So the result shows the leftmost operand and the number of contributions. Finishing
 * changes the lower half. */
static uint64_t combine(uint32_t elem_bytes, uint64_t x, uint64_t y)
{
    const uint64_t lower = (1ull << 4 * elem_bytes) - 1;

    return (x & ~lower) | ((x + y) & lower);
}

static uint64_t finished(uint32_t elem_bytes, uint64_t x)
{
    const uint64_t lower = (1ull << 4 * elem_bytes) - 1;

    return (x & ~lower) | ((2 * x + 1) & lower);
}

/* Returns byte `offset` of the reduction over all ranks of elements of SRC. */
static uint8_t reduced_byte(const struct case_memory *m, uint64_t offset)
{
    const uint32_t elem = m->spec->elem_bytes, n = m->spec->nranks;
    uint64_t sum = 0;

    for (uint32_t r = 0; r < n; r++) {
        uint64_t x = 0;

        for (uint32_t i = 0; i < elem; i++)
            x |= (uint64_t)input_byte(m, r, offset - offset % elem + i) << 8 * i;
        sum = r == 0 ? x : combine(elem, sum, x);
    }
    if (n > 1)
        sum = finished(elem, sum);
    return (uint8_t)(sum >> 8 * (offset % elem));
}

/* Copies the data of a stretch that rank `from` sends to its position in DST. */
static void define_stretch(const struct case_memory *m, uint32_t r, uint32_t from,
                           const struct tt_stretch *t, uint8_t *want)
{
    const struct tt_coll *colls = m->calls->coll;

    for (uint64_t i = t->offset; i < t->offset + t->bytes; i++)
        want[colls[r].recv_displs[from] + i] = input_byte(m, from, colls[from].send_displs[r] + i);
}

/* Copies all stretches that rank r receives, from the lists of the senders. */
static void define_stretches(const struct case_memory *m, uint32_t r, uint8_t *want)
{
    const struct tt_coll *colls = m->calls->coll;

    for (uint32_t from = 0; from < colls[r].nranks; from++) {
        const struct tt_stretches *x = colls[from].stretches;

        for (uint64_t i = x->send_first[r]; i < x->send_first[r + 1]; i++)
            define_stretch(m, r, from, &x->send[i], want);
    }
}

/* Writes the expected DST of rank r to want[]; bytes outside the result are unchanged. */
static void define(const struct case_memory *m, uint32_t r, uint8_t *want)
{
    const struct tt_coll *c = &m->calls->coll[r];
    const uint32_t n = c->nranks;

    switch (c->kind) {
    case TT_ALLREDUCE: case TT_REDUCE:
        for (uint64_t i = 0; i < c->bytes && (c->kind == TT_ALLREDUCE || r == c->root); i++)
            want[i] = reduced_byte(m, i);
        break;
    case TT_REDUCE_SCATTER:
        for (uint64_t i = 0; i < c->bytes; i++)
            want[i] = reduced_byte(m, r * c->bytes + i);
        break;
    case TT_REDUCE_SCATTERV:
        for (uint64_t i = 0; i < c->send_bytes[r]; i++)
            want[i] = reduced_byte(m, c->send_displs[r] + i);
        break;
    case TT_ALLGATHER: case TT_GATHER:
        for (uint64_t i = 0; i < n * c->bytes && (c->kind == TT_ALLGATHER || r == c->root); i++)
            want[i] = input_byte(m, (uint32_t)(i / c->bytes), i % c->bytes);
        break;
    case TT_ALLGATHERV: case TT_GATHERV:
        for (uint32_t from = 0; from < n && (c->kind == TT_ALLGATHERV || r == c->root); from++)
            for (uint64_t i = 0; i < c->recv_bytes[from]; i++)
                want[c->recv_displs[from] + i] = input_byte(m, from, i);
        break;
    case TT_BROADCAST: case TT_RECV:
        for (uint64_t i = 0; i < c->bytes; i++)
            want[i] = input_byte(m, c->root, i);
        break;
    case TT_SCATTER:
        for (uint64_t i = 0; i < c->bytes; i++)
            want[i] = input_byte(m, c->root, r * c->bytes + i);
        break;
    case TT_SCATTERV:
        for (uint64_t i = 0; i < c->send_bytes[r]; i++)
            want[i] = input_byte(m, c->root, c->send_displs[r] + i);
        break;
    case TT_ALLTOALL:
        for (uint64_t i = 0; i < n * c->bytes; i++)
            want[i] = input_byte(m, (uint32_t)(i / c->bytes), r * c->bytes + i % c->bytes);
        break;
    case TT_ALLTOALLV:
        if (c->stretches)
            define_stretches(m, r, want);
        for (uint32_t from = 0; from < n && !c->stretches; from++)
            for (uint64_t i = 0; i < c->recv_bytes[from]; i++)
                want[c->recv_displs[from] + i] =
                    input_byte(m, from, m->calls->coll[from].send_displs[r] + i);
        break;
    case TT_BARRIER: case TT_SEND: case TT_COLL_KINDS:
        break;
    }
}

bool case_memory_right(const struct case_memory *m, uint32_t r, char *why, size_t why_bytes)
{
    const struct tt_coll *c = &m->calls->coll[r];
    const uint64_t bytes = m->bytes[r][TT_BUF_DST];
    uint8_t *expected[2], *want = copy_of(m->before[r][TT_BUF_DST], bytes);
    bool same = true;

    for (int b = 0; b < 2; b++)
        expected[b] = copy_of(m->before[r][b], m->bytes[r][b]);
    define(m, r, want);
    for (uint64_t i = 0; i < bytes; i++) {
        const struct tt_ref ref = tt_coll_canonical(c, tt_dst(i));

        expected[ref.buf][ref.offset] = want[i];
    }
    for (int b = 0; b < 2; b++)
        for (uint64_t i = 0; i < m->bytes[r][b] && same; i++)
            if (bytes_of(m, r, b)[i] != expected[b][i]) {
                snprintf(why, why_bytes, "rank %u, byte %" PRIu64 " of %s is %02x, not %02x", r, i,
                         b ? "DST" : "SRC", bytes_of(m, r, b)[i], expected[b][i]);
                same = false;
            }
    free(want);
    free(expected[0]);
    free(expected[1]);
    return same;
}

/* ---- the reduction ---- */

static void reduce(uint32_t elem_bytes, bool finish, uint8_t *out, uint8_t *out2, const uint8_t *a,
                   const uint8_t *b, size_t count)
{
    for (size_t i = 0; i < count * elem_bytes; i += elem_bytes) {
        uint64_t x = 0, y = 0;

        memcpy(&x, a + i, elem_bytes);
        memcpy(&y, b + i, elem_bytes);
        x = combine(elem_bytes, x, y);
        if (finish)
            x = finished(elem_bytes, x);
        memcpy(out + i, &x, elem_bytes);
        if (out2)
            memcpy(out2 + i, &x, elem_bytes);
    }
}

#define KERNEL(name, elem_bytes, finish) \
    static void name(void *o, void *o2, const void *a, const void *b, size_t count, \
                     uint32_t stream, uint32_t finish_n)                            \
    { \
        (void)stream; \
        (void)finish_n; \
        reduce(elem_bytes, finish, o, o2, a, b, count); \
    }
KERNEL(sum_1, 1, false)
KERNEL(sum_2, 2, false)
KERNEL(sum_4, 4, false)
KERNEL(sum_8, 8, false)
KERNEL(finish_1, 1, true)
KERNEL(finish_2, 2, true)
KERNEL(finish_4, 4, true)
KERNEL(finish_8, 8, true)

tt_reduce_fn *case_kernel(uint32_t elem_bytes, bool finish)
{
    static tt_reduce_fn *const kernels[2][4] = {
        { sum_1, sum_2, sum_4, sum_8 },
        { finish_1, finish_2, finish_4, finish_8 },
    };

    return kernels[finish][__builtin_ctz(elem_bytes)];
}
