/* Operations with blocks of different sizes: groups of sends and receives, or of reductions. Empty
 * blocks are not sent, on both sides. */
#include <stdlib.h>

#include "base/checked.h"
#include "gpu/gpu.h"

/* Tag of their messages. */
#define BLOCK_TAG 0xffffffffu

/* The operations of a call. */
struct blocks {
    const char *call;
    tutti_gpu_op like;          /* fields that all of them share */
    tutti_gpu_op *ops;
    size_t n, cap;
    size_t nranks, rank, elem;
};

static tutti_status blocks_open(struct blocks *b, const char *call, tutti_dtype type,
                                tutti_gpu *gpu, void *stream)
{
    if (!gpu)
        return tt_fail(TUTTI_ERR_INVALID, "%s: gpu is NULL", call);
    *b = (struct blocks){
        .call = call,
        .like = { .size = sizeof b->like, .gpu = gpu, .stream = stream, .type = type },
        .nranks = (size_t)tutti_comm_size(gpu->comm),
        .rank = (size_t)tutti_comm_rank(gpu->comm),
        .elem = tutti_dtype_bytes(type),
    };
    if (!b->elem)
        return tt_fail(TUTTI_ERR_INVALID, "%s: type is %d: must be 0 to %d", call, (int)type,
                       TUTTI_DTYPE_COUNT - 1);
    b->cap = 2 * b->nranks;
    b->ops = calloc(b->cap, sizeof *b->ops);
    return b->ops ? TUTTI_OK : tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory", call);
}

/* Starts the operations unless st is an error. */
static tutti_status blocks_start(struct blocks *b, tutti_status st)
{
    if (!st)
        st = tutti_gpu_group(b->ops, b->n);
    free(b->ops);
    return st;
}

static tutti_status blocks_need(const struct blocks *b, const char *name, const size_t *array)
{
    return array ? TUTTI_OK : tt_fail(TUTTI_ERR_INVALID, "%s: %s is NULL", b->call, name);
}

static tutti_status blocks_check_root(const struct blocks *b, int root)
{
    if (root >= 0 && (size_t)root < b->nranks)
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID, "%s: root is %d: must be 0 to %zu", b->call, root,
                   b->nranks - 1);
}

static tutti_gpu_op *add_op(struct blocks *b, tutti_gpu_kind kind, size_t peer, size_t count)
{
    tutti_gpu_op *op = &b->ops[b->n++];

    *op = b->like;
    op->kind = kind;
    op->root = (int)peer;
    op->tag = BLOCK_TAG;
    op->count = count;
    return op;
}

/* Sets *at to the address of a block. Empty blocks are not accessed. */
static tutti_status block_at(const struct blocks *b, const char *counts, const void *buf, size_t r,
                             size_t displ, size_t count, const void **at)
{
    uint64_t end;

    *at = buf;
    if (!count)
        return TUTTI_OK;
    if (__builtin_add_overflow(displ, count, &end) || !tt_array_can_be(buf, end, b->elem))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: %s[%zu] = %zu at displacement %zu does not fit in the address space",
                       b->call, counts, r, count, displ);
    *at = (const char *)buf + displ * b->elem;
    return TUTTI_OK;
}

static void add_send(struct blocks *b, size_t peer, const void *at, size_t count)
{
    if (count)
        add_op(b, TUTTI_GPU_SEND, peer, count)->src = at;
}

static void add_receive(struct blocks *b, size_t peer, const void *at, size_t count)
{
    if (count)
        add_op(b, TUTTI_GPU_RECV, peer, count)->dst = (void *)(uintptr_t)at;
}

/* Returns the displacement of block r, and adds its size to *packed. */
static size_t displacement(const size_t *displs, const size_t *counts, size_t r, size_t *packed)
{
    const size_t at = displs ? displs[r] : *packed;

    *packed += counts[r];
    return at;
}

tutti_status tutti_gpu_alltoallv(const void *src, const size_t *send_counts,
                                 const size_t *send_displs, void *dst, const size_t *recv_counts,
                                 const size_t *recv_displs, tutti_dtype type, tutti_gpu *gpu,
                                 void *stream)
{
    size_t sent = 0, received = 0;
    struct blocks b;
    tutti_status st = blocks_open(&b, "tutti_gpu_alltoallv", type, gpu, stream);

    if (st)
        return st;
    st = blocks_need(&b, "send_counts", send_counts);
    if (!st)
        st = blocks_need(&b, "recv_counts", recv_counts);
    for (size_t r = 0; r < b.nranks && !st; r++) {
        const void *from, *to;

        st = block_at(&b, "send_counts", src, r, displacement(send_displs, send_counts, r, &sent),
                      send_counts[r], &from);
        if (!st)
            st =
                block_at(&b, "recv_counts", dst, r,
                         displacement(recv_displs, recv_counts, r, &received), recv_counts[r], &to);
        if (st)
            break;
        add_send(&b, r, from, send_counts[r]);
        add_receive(&b, r, to, recv_counts[r]);
    }
    return blocks_start(&b, st);
}

/* Adds the receives of all blocks, but not of the one that is in its place already. */
static tutti_status receive_all(struct blocks *b, const void *own, void *dst, const size_t *counts,
                                const size_t *displs, bool *in_place)
{
    size_t packed = 0;

    *in_place = false;
    for (size_t r = 0; r < b->nranks; r++) {
        const void *to;
        const tutti_status st =
            block_at(b, "counts", dst, r, displacement(displs, counts, r, &packed), counts[r], &to);

        if (st)
            return st;
        if (r == b->rank && to == own)
            *in_place = true;
        else
            add_receive(b, r, to, counts[r]);
    }
    return TUTTI_OK;
}

tutti_status tutti_gpu_allgatherv(const void *src, void *dst, const size_t *counts,
                                  const size_t *displs, tutti_dtype type, tutti_gpu *gpu,
                                  void *stream)
{
    struct blocks b;
    bool in_place;
    tutti_status st = blocks_open(&b, "tutti_gpu_allgatherv", type, gpu, stream);

    if (st)
        return st;
    st = blocks_need(&b, "counts", counts);
    if (!st)
        st = receive_all(&b, src, dst, counts, displs, &in_place);
    for (size_t r = 0; r < b.nranks && !st; r++)
        if (r != b.rank || !in_place)
            add_send(&b, r, src, counts[b.rank]);
    return blocks_start(&b, st);
}

tutti_status tutti_gpu_gatherv(const void *src, void *dst, const size_t *counts,
                               const size_t *displs, tutti_dtype type, int root, tutti_gpu *gpu,
                               void *stream)
{
    struct blocks b;
    bool in_place = false;
    tutti_status st = blocks_open(&b, "tutti_gpu_gatherv", type, gpu, stream);

    if (st)
        return st;
    st = blocks_need(&b, "counts", counts);
    if (!st)
        st = blocks_check_root(&b, root);
    if (!st && b.rank == (size_t)root)
        st = receive_all(&b, src, dst, counts, displs, &in_place);
    if (!st && !in_place)
        add_send(&b, (size_t)root, src, counts[b.rank]);
    return blocks_start(&b, st);
}

/* Adds the sends of all blocks, but not of the one that is in its place already. */
static tutti_status send_all(struct blocks *b, const void *src, const void *own,
                             const size_t *counts, const size_t *displs, bool *in_place)
{
    size_t packed = 0;

    for (size_t r = 0; r < b->nranks; r++) {
        const void *from;
        const tutti_status st = block_at(
            b, "counts", src, r, displacement(displs, counts, r, &packed), counts[r], &from);

        if (st)
            return st;
        if (r == b->rank && from == own)
            *in_place = true;
        else
            add_send(b, r, from, counts[r]);
    }
    return TUTTI_OK;
}

tutti_status tutti_gpu_scatterv(const void *src, void *dst, const size_t *counts,
                                const size_t *displs, tutti_dtype type, int root, tutti_gpu *gpu,
                                void *stream)
{
    struct blocks b;
    bool in_place = false;
    tutti_status st = blocks_open(&b, "tutti_gpu_scatterv", type, gpu, stream);

    if (st)
        return st;
    st = blocks_need(&b, "counts", counts);
    if (!st)
        st = blocks_check_root(&b, root);
    if (!st && b.rank == (size_t)root)
        st = send_all(&b, src, dst, counts, displs, &in_place);
    if (!st && !in_place)
        add_receive(&b, (size_t)root, dst, counts[b.rank]);
    return blocks_start(&b, st);
}

/* One reduction per block. In place, dst is a block of src, which only its own reduction reads. */
tutti_status tutti_gpu_reduce_scatterv(const void *src, void *dst, const size_t *counts,
                                       tutti_dtype type, tutti_redop op, tutti_gpu *gpu,
                                       void *stream)
{
    size_t packed = 0;
    struct blocks b;
    tutti_status st = blocks_open(&b, "tutti_gpu_reduce_scatterv", type, gpu, stream);

    if (st)
        return st;
    st = blocks_need(&b, "counts", counts);
    for (size_t r = 0; r < b.nranks && !st; r++) {
        const void *from;
        tutti_gpu_op *reduce;

        st = block_at(&b, "counts", src, r, displacement(NULL, counts, r, &packed), counts[r],
                      &from);
        if (st || !counts[r])
            continue;
        reduce = add_op(&b, TUTTI_GPU_REDUCE, r, counts[r]);
        reduce->tag = 0;
        reduce->src = from;
        reduce->dst = r == b.rank ? dst : NULL;
        reduce->op = op;
    }
    return blocks_start(&b, st);
}
