#include "sched/sched.h"

#include <string.h>
#include "base/status.h"

static const char *const kind_names[TT_COLL_KINDS] = {
    [TT_ALLREDUCE] = "allreduce",
    [TT_REDUCE] = "reduce",
    [TT_REDUCE_SCATTER] = "reduce_scatter",
    [TT_REDUCE_SCATTERV] = "reduce_scatterv",
    [TT_ALLGATHER] = "allgather",
    [TT_ALLGATHERV] = "allgatherv",
    [TT_BROADCAST] = "broadcast",
    [TT_GATHER] = "gather",
    [TT_GATHERV] = "gatherv",
    [TT_SCATTER] = "scatter",
    [TT_SCATTERV] = "scatterv",
    [TT_ALLTOALL] = "alltoall",
    [TT_ALLTOALLV] = "alltoallv",
    [TT_BARRIER] = "barrier",
    [TT_SEND] = "send",
    [TT_RECV] = "recv",
};

const char *tt_coll_name(enum tt_coll_kind kind)
{
    return (unsigned)kind < TT_COLL_KINDS ? kind_names[kind] : "?";
}

bool tt_coll_parse(const char *name, enum tt_coll_kind *out)
{
    for (unsigned kind = 0; kind < TT_COLL_KINDS; kind++)
        if (strcmp(name, kind_names[kind]) == 0) {
            *out = (enum tt_coll_kind)kind;
            return true;
        }
    return false;
}

static uint64_t rows_extent(const uint64_t *bytes, const uint64_t *displs, uint32_t n)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < n; i++)
        if (bytes[i] > 0 && displs[i] + bytes[i] > end)
            end = displs[i] + bytes[i];
    return end;
}

uint64_t tt_coll_src_bytes(const struct tt_coll *c)
{
    const bool at_root = c->rank == c->root;

    switch (c->kind) {
    case TT_ALLREDUCE: case TT_REDUCE: case TT_ALLGATHER: case TT_GATHER: case TT_SEND:
        return c->bytes;
    case TT_REDUCE_SCATTER: case TT_ALLTOALL:
        return c->bytes * c->nranks;
    case TT_REDUCE_SCATTERV: case TT_ALLTOALLV:
        return rows_extent(c->send_bytes, c->send_displs, c->nranks);
    case TT_ALLGATHERV: case TT_GATHERV:
        return c->recv_bytes[c->rank];
    case TT_BROADCAST:
        return at_root ? c->bytes : 0;
    case TT_SCATTER:
        return at_root ? c->bytes * c->nranks : 0;
    case TT_SCATTERV:
        return at_root ? rows_extent(c->send_bytes, c->send_displs, c->nranks) : 0;
    case TT_BARRIER: case TT_RECV: case TT_COLL_KINDS:
        break;
    }
    return 0;
}

uint64_t tt_coll_dst_bytes(const struct tt_coll *c)
{
    const bool at_root = c->rank == c->root;

    switch (c->kind) {
    case TT_ALLREDUCE: case TT_REDUCE_SCATTER: case TT_BROADCAST: case TT_SCATTER: case TT_RECV:
        return c->bytes;
    case TT_ALLGATHER: case TT_ALLTOALL:
        return c->bytes * c->nranks;
    case TT_REDUCE_SCATTERV: case TT_SCATTERV:
        return c->send_bytes[c->rank];
    case TT_ALLGATHERV: case TT_ALLTOALLV:
        return rows_extent(c->recv_bytes, c->recv_displs, c->nranks);
    case TT_REDUCE:
        return at_root ? c->bytes : 0;
    case TT_GATHER:
        return at_root ? c->bytes * c->nranks : 0;
    case TT_GATHERV:
        return at_root ? rows_extent(c->recv_bytes, c->recv_displs, c->nranks) : 0;
    case TT_BARRIER: case TT_SEND: case TT_COLL_KINDS:
        break;
    }
    return 0;
}

/* Converts a ref to buffer `from` into a ref to buffer `to`, `by` bytes farther; a strided ref
 * keeps its shape. */
static struct tt_ref ref_in_buffer(struct tt_ref ref, enum tt_buf from, enum tt_buf to, uint64_t by)
{
    if (ref.buf == from) {
        ref.buf = (uint8_t)to;
        ref.offset += by;
    }
    return ref;
}

struct tt_ref tt_coll_canonical(const struct tt_coll *c, struct tt_ref ref)
{
    const bool at_root = c->rank == c->root;

    if (!c->in_place)
        return ref;
    switch (c->kind) {
    case TT_ALLREDUCE: case TT_ALLTOALL: case TT_ALLTOALLV:
        return ref_in_buffer(ref, TT_BUF_SRC, TT_BUF_DST, 0);
    case TT_REDUCE: case TT_BROADCAST:
        return at_root ? ref_in_buffer(ref, TT_BUF_SRC, TT_BUF_DST, 0) : ref;
    case TT_ALLGATHER:
        return ref_in_buffer(ref, TT_BUF_SRC, TT_BUF_DST, c->rank * c->bytes);
    case TT_ALLGATHERV:
        return ref_in_buffer(ref, TT_BUF_SRC, TT_BUF_DST, c->recv_displs[c->rank]);
    case TT_GATHER:
        return at_root ? ref_in_buffer(ref, TT_BUF_SRC, TT_BUF_DST, c->rank * c->bytes) : ref;
    case TT_GATHERV:
        return at_root ? ref_in_buffer(ref, TT_BUF_SRC, TT_BUF_DST, c->recv_displs[c->rank]) : ref;
    case TT_REDUCE_SCATTER:
        return ref_in_buffer(ref, TT_BUF_DST, TT_BUF_SRC, c->rank * c->bytes);
    case TT_REDUCE_SCATTERV:
        return ref_in_buffer(ref, TT_BUF_DST, TT_BUF_SRC, c->send_displs[c->rank]);
    case TT_SCATTER:
        return at_root ? ref_in_buffer(ref, TT_BUF_DST, TT_BUF_SRC, c->rank * c->bytes) : ref;
    case TT_SCATTERV:
        return at_root ? ref_in_buffer(ref, TT_BUF_DST, TT_BUF_SRC, c->send_displs[c->rank]) : ref;
    case TT_BARRIER: case TT_SEND: case TT_RECV: case TT_COLL_KINDS:
        break;
    }
    return ref;
}

void tt_ref_extent(const struct tt_ref *ref, uint64_t bytes, uint64_t *begin, uint64_t *end)
{
    *begin = ref->offset;
    if (ref->block == 0 || bytes == 0) {
        *end = ref->offset + bytes;
        return;
    }
    const uint64_t last = (bytes - 1) / ref->block;

    *end = ref->offset + last * ref->stride + (bytes - last * ref->block);
}

uint64_t tt_ref_before(const struct tt_ref *ref, uint64_t bytes, uint64_t end)
{
    uint64_t before, in;

    if (end <= ref->offset)
        return 0;
    before = end - ref->offset;
    if (ref->block && bytes > ref->block) {
        in = before % ref->stride;
        before = before / ref->stride * ref->block + (in < ref->block ? in : ref->block);
    }
    return before < bytes ? before : bytes;
}

/* Returns whether a contiguous range contains bytes of a ref: more bytes of the ref are before its
 * end than before its begin. */
static bool has_bytes_in(const struct tt_ref *ref, uint64_t bytes, uint64_t begin, uint64_t end)
{
    return tt_ref_before(ref, bytes, end) > tt_ref_before(ref, bytes, begin);
}

bool tt_ref_overlap(const struct tt_ref *a, uint64_t a_bytes, const struct tt_ref *b,
                    uint64_t b_bytes)
{
    uint64_t a_begin, a_end, b_begin, b_end, stride, apart;

    if (a->buf != b->buf || a_bytes == 0 || b_bytes == 0)
        return false;
    tt_ref_extent(a, a_bytes, &a_begin, &a_end);
    tt_ref_extent(b, b_bytes, &b_begin, &b_end);
    if (a_end <= b_begin || b_end <= a_begin)
        return false;
    if (!a->block && !b->block)
        return true;
    if (a_end - a_begin == a_bytes)
        return has_bytes_in(b, b_bytes, a_begin, a_end);
    if (b_end - b_begin == b_bytes)
        return has_bytes_in(a, a_bytes, b_begin, b_end);
    stride = a->stride < b->stride ? a->stride : b->stride;
    if (a->stride % stride || b->stride % stride || a->block > stride || b->block > stride)
        return true;
    /* distance from a piece of a to the next piece of b */
    apart = (b_begin % stride + stride - a_begin % stride) % stride;
    return apart < a->block || apart + b->block > stride;
}

static struct tt_step *emit_step(struct tt_sched *s)
{
    tt_assert(s->n < s->cap);
    return &s->steps[s->n++];
}

/* A step of no bytes refers to no memory, so an empty pipe needs no writer. */
static struct tt_ref ref_or_empty(struct tt_ref ref, uint64_t bytes)
{
    return bytes > 0 || ref.buf == TT_BUF_THERE ? ref : tt_dst(0);
}

void tt_sched_put(struct tt_sched *s, uint32_t peer, struct tt_ref from, struct tt_ref to,
                  uint64_t bytes, uint32_t tag)
{
    *emit_step(s) = (struct tt_step){
        .opcode = TT_PUT,
        .peer = peer,
        .tag = tag,
        .bytes = bytes,
        .out = ref_or_empty(to, bytes),
        .a = ref_or_empty(from, bytes),
    };
}

void tt_sched_wait(struct tt_sched *s, uint32_t peer, struct tt_ref to, uint64_t bytes,
                   uint32_t tag)
{
    *emit_step(s) = (struct tt_step){
        .opcode = TT_WAIT, .peer = peer, .tag = tag, .bytes = bytes, .out = ref_or_empty(to, bytes),
    };
}

void tt_sched_reduce(struct tt_sched *s, struct tt_ref out, struct tt_ref a, struct tt_ref b,
                     uint64_t bytes, bool finish)
{
    if (bytes == 0)
        return;
    *emit_step(s) = (struct tt_step){
        .opcode = TT_REDUCE_STEP, .finish = finish, .bytes = bytes, .out = out, .a = a, .b = b,
    };
}

void tt_sched_copy(struct tt_sched *s, struct tt_ref to, struct tt_ref from, uint64_t bytes)
{
    if (bytes == 0)
        return;
    *emit_step(s) = (struct tt_step){ .opcode = TT_COPY, .bytes = bytes, .out = to, .a = from };
}

uint64_t tt_block_offset(uint64_t bytes, uint32_t elem_bytes, uint32_t n, uint32_t i)
{
    const uint64_t count = bytes / elem_bytes;
    const uint64_t longer = count % n;

    return (i * (count / n) + (i < longer ? i : longer)) * elem_bytes;
}

uint64_t tt_block_bytes(uint64_t bytes, uint32_t elem_bytes, uint32_t n, uint32_t i)
{
    return (bytes / elem_bytes / n + (i < bytes / elem_bytes % n)) * elem_bytes;
}
