/* Operations with blocks of different sizes: groups of sends and receives, or of reductions. Empty
 * blocks are neither sent nor received. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/status.h"
#include "gpu/gpu.h"

/* Tag of the messages with blocks. */
#define BLOCK_TAG 0xffffffffu

/* The operations of a call. */
struct blocks {
    const char *call;
    tutti_gpu_op like;          /* fields common to all operations */
    tutti_gpu_op *ops;          /* [2 * nranks] */
    size_t n;
    size_t nranks, rank, elem;
};

/* Blocks of src or dst, as the caller describes them. displs NULL: without gaps. */
struct array {
    const char *name;           /* "src" or "dst" */
    const char *counts_name;
    const void *mem;
    const size_t *counts, *displs;
    uint64_t begin, end;        /* of all elements between the first and the last one; set by
                                   array_check */
};

/* A block: elements [at, end). */
struct block {
    uint64_t at, end;
    size_t rank;
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
    b->ops = calloc(2 * b->nranks, sizeof *b->ops);
    return b->ops ? TUTTI_OK : tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory", call);
}

/* Starts the operations unless st is an error. If the tutti_gpu has failed, a rank without blocks
 * fails, too. */
static tutti_status blocks_start(struct blocks *b, tutti_status st)
{
    if (!st)
        st = tt_gpu_failure(b->like.gpu);
    if (!st)
        st = tutti_gpu_group(b->ops, b->n);
    free(b->ops);
    return st;
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

/* ---- checks ---- */

static int by_position(const void *a, const void *b)
{
    const struct block *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* INVALID if two of the n blocks overlap. Sorts them. */
static tutti_status check_apart(const struct blocks *b, const struct array *a, struct block *block,
                                size_t n)
{
    qsort(block, n, sizeof *block, by_position);
    for (size_t i = 1; i < n; i++)
        if (block[i].at < block[i - 1].end)
            return tt_fail(
                TUTTI_ERR_INVALID,
                "%s: blocks of %s overlap: those of ranks %zu and %zu, at elements %" PRIu64
                " and %" PRIu64,
                b->call, a->name, block[i - 1].rank, block[i].rank, block[i - 1].at, block[i].at);
    return TUTTI_OK;
}

/* Returns the displacement of block r, and adds its size to *packed. */
static size_t displacement(const struct array *a, size_t r, size_t *packed)
{
    const size_t at = a->displs ? a->displs[r] : *packed;

    *packed += a->counts[r];
    return at;
}

/* Sets block[*n] to the blocks that are not empty, and the extent of the array. */
static tutti_status array_blocks(const struct blocks *b, struct array *a, struct block *block,
                                 size_t *n)
{
    size_t packed = 0;

    a->begin = UINT64_MAX;
    for (size_t r = 0; r < b->nranks; r++) {
        const size_t at = displacement(a, r, &packed);
        uint64_t end;

        if (!a->counts[r])
            continue;
        if (!a->mem)
            return tt_fail(TUTTI_ERR_INVALID, "%s: %s is NULL, but %s[%zu] is %zu", b->call,
                           a->name, a->counts_name, r, a->counts[r]);
        if (__builtin_add_overflow(at, a->counts[r], &end) ||
            !tt_array_can_be(a->mem, end, b->elem))
            return tt_fail(
                TUTTI_ERR_INVALID,
                "%s: %s[%zu] = %zu at displacement %zu does not fit in the address space", b->call,
                a->counts_name, r, a->counts[r], at);
        block[(*n)++] = (struct block){ .at = at, .end = end, .rank = r };
        a->begin = at < a->begin ? at : a->begin;
        a->end = end > a->end ? end : a->end;
    }
    a->begin = a->begin < a->end ? a->begin : a->end;
    return TUTTI_OK;
}

/* Checks an array. If it receives, its blocks must not overlap. */
static tutti_status array_check(const struct blocks *b, struct array *a, bool receives)
{
    struct block *block;
    size_t n = 0;
    tutti_status st;

    if (!a->counts)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is NULL", b->call, a->counts_name);
    block = calloc(b->nranks, sizeof *block);
    if (!block)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory", b->call);
    st = array_blocks(b, a, block, &n);
    if (!st && receives)
        st = check_apart(b, a, block, n);
    free(block);
    return st;
}

static const void *element(const struct blocks *b, const void *mem, uint64_t at)
{
    return mem ? (const char *)mem + at * b->elem : NULL;
}

/* Checks this rank's block at mem, with the size of its block in the array. Sets *in_place if it is
 * that block. Otherwise it must not overlap the array. */
static tutti_status check_own(const struct blocks *b, const struct array *a, const char *name,
                              const void *mem, bool *in_place)
{
    const uint64_t count = a->counts[b->rank];
    size_t packed = 0;

    *in_place = false;
    if (!count)
        return TUTTI_OK;
    if (!mem)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is NULL, but %s[%zu] is %" PRIu64, b->call, name,
                       a->counts_name, b->rank, count);
    if (!tt_array_can_be(mem, count, b->elem))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: %s[%zu] = %" PRIu64 " does not fit in the address space", b->call,
                       a->counts_name, b->rank, count);
    for (size_t r = 0; r < b->rank; r++)
        packed += a->counts[r];
    *in_place = mem == element(b, a->mem, displacement(a, b->rank, &packed));
    if (!*in_place && tt_overlap(mem, count * b->elem, element(b, a->mem, a->begin),
                                 (a->end - a->begin) * b->elem))
        return tt_fail(TUTTI_ERR_INVALID, "%s: src and dst overlap, but the call is not in place",
                       b->call);
    return TUTTI_OK;
}

/* ---- operations ---- */

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

/* Adds the sends of all blocks to their ranks, except this rank's block if it is in place. */
static void send_all(struct blocks *b, const struct array *a, bool in_place)
{
    size_t packed = 0;

    for (size_t r = 0; r < b->nranks; r++) {
        const size_t at = displacement(a, r, &packed);

        if (a->counts[r] && (r != b->rank || !in_place))
            add_send(b, r, element(b, a->mem, at), a->counts[r]);
    }
}

/* Adds the receives of all blocks from their ranks, with the same exception. */
static void receive_all(struct blocks *b, const struct array *a, bool in_place)
{
    size_t packed = 0;

    for (size_t r = 0; r < b->nranks; r++) {
        const size_t at = displacement(a, r, &packed);

        if (a->counts[r] && (r != b->rank || !in_place))
            add_receive(b, r, element(b, a->mem, at), a->counts[r]);
    }
}

/* ---- calls ---- */

tutti_status tutti_gpu_alltoallv(const void *src, const size_t *send_counts,
                                 const size_t *send_displs, void *dst, const size_t *recv_counts,
                                 const size_t *recv_displs, tutti_dtype type, tutti_gpu *gpu,
                                 void *stream)
{
    struct array from = { "src", "send_counts", src, send_counts, send_displs, 0, 0 };
    struct array to = { "dst", "recv_counts", dst, recv_counts, recv_displs, 0, 0 };
    struct blocks b;
    tutti_status st = blocks_open(&b, "tutti_gpu_alltoallv", type, gpu, stream);

    if (st)
        return st;
    st = array_check(&b, &from, false);
    if (!st)
        st = array_check(&b, &to, true);
    if (!st && tt_overlap(element(&b, src, from.begin), (from.end - from.begin) * b.elem,
                          element(&b, dst, to.begin), (to.end - to.begin) * b.elem))
        st = tt_fail(TUTTI_ERR_INVALID, "%s: src and dst overlap", b.call);
    if (!st) {
        send_all(&b, &from, false);
        receive_all(&b, &to, false);
    }
    return blocks_start(&b, st);
}

tutti_status tutti_gpu_allgatherv(const void *src, void *dst, const size_t *counts,
                                  const size_t *displs, tutti_dtype type, tutti_gpu *gpu,
                                  void *stream)
{
    struct array to = { "dst", "counts", dst, counts, displs, 0, 0 };
    struct blocks b;
    bool in_place = false;
    tutti_status st = blocks_open(&b, "tutti_gpu_allgatherv", type, gpu, stream);

    if (st)
        return st;
    st = array_check(&b, &to, true);
    if (!st)
        st = check_own(&b, &to, "src", src, &in_place);
    if (!st)
        receive_all(&b, &to, in_place);
    for (size_t r = 0; r < b.nranks && !st; r++)
        if (r != b.rank || !in_place)
            add_send(&b, r, src, counts[b.rank]);
    return blocks_start(&b, st);
}

/* Checks the block of a rank other than the root; the array exists at the root only. */
static tutti_status check_alone(const struct blocks *b, const struct array *a, const char *name,
                                const void *mem)
{
    const struct array nowhere = { a->name, a->counts_name, NULL, a->counts, NULL, 0, 0 };
    bool in_place;

    if (!a->counts)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is NULL", b->call, a->counts_name);
    return check_own(b, &nowhere, name, mem, &in_place);
}

tutti_status tutti_gpu_gatherv(const void *src, void *dst, const size_t *counts,
                               const size_t *displs, tutti_dtype type, int root, tutti_gpu *gpu,
                               void *stream)
{
    struct array to = { "dst", "counts", dst, counts, displs, 0, 0 };
    struct blocks b;
    bool in_place = false;
    tutti_status st = blocks_open(&b, "tutti_gpu_gatherv", type, gpu, stream);

    if (st)
        return st;
    st = blocks_check_root(&b, root);
    if (!st && b.rank != (size_t)root)
        st = check_alone(&b, &to, "src", src);
    else if (!st && !(st = array_check(&b, &to, true)) &&
             !(st = check_own(&b, &to, "src", src, &in_place)))
        receive_all(&b, &to, in_place);
    if (!st && !in_place)
        add_send(&b, (size_t)root, src, counts[b.rank]);
    return blocks_start(&b, st);
}

tutti_status tutti_gpu_scatterv(const void *src, void *dst, const size_t *counts,
                                const size_t *displs, tutti_dtype type, int root, tutti_gpu *gpu,
                                void *stream)
{
    struct array from = { "src", "counts", src, counts, displs, 0, 0 };
    struct blocks b;
    bool in_place = false;
    tutti_status st = blocks_open(&b, "tutti_gpu_scatterv", type, gpu, stream);

    if (st)
        return st;
    st = blocks_check_root(&b, root);
    if (!st && b.rank != (size_t)root)
        st = check_alone(&b, &from, "dst", dst);
    else if (!st && !(st = array_check(&b, &from, false)) &&
             !(st = check_own(&b, &from, "dst", dst, &in_place)))
        send_all(&b, &from, in_place);
    if (!st && !in_place)
        add_receive(&b, (size_t)root, dst, counts[b.rank]);
    return blocks_start(&b, st);
}

/* One reduction per block. In place, dst is a block of src, which only its reduction reads. */
tutti_status tutti_gpu_reduce_scatterv(const void *src, void *dst, const size_t *counts,
                                       tutti_dtype type, tutti_redop op, tutti_gpu *gpu,
                                       void *stream)
{
    struct array from = { "src", "counts", src, counts, NULL, 0, 0 };
    size_t packed = 0;
    struct blocks b;
    bool in_place;
    tutti_status st = blocks_open(&b, "tutti_gpu_reduce_scatterv", type, gpu, stream);

    if (st)
        return st;
    st = array_check(&b, &from, false);
    if (!st)
        st = check_own(&b, &from, "dst", dst, &in_place);
    for (size_t r = 0; r < b.nranks && !st; r++) {
        const size_t at = displacement(&from, r, &packed);
        tutti_gpu_op *reduce;

        if (!counts[r])
            continue;
        reduce = add_op(&b, TUTTI_GPU_REDUCE, r, counts[r]);
        reduce->tag = 0;
        reduce->src = element(&b, src, at);
        reduce->dst = r == b.rank ? dst : NULL;
        reduce->op = op;
    }
    return blocks_start(&b, st);
}
