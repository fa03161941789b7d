/* Collectives through pinned chunks. */
#include "gpu/staged.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gpu/post.h"

#define WAIT_MS 1000
#define ALIGN 64u
#define EACH_BYTES_MIN 256u     /* least bytes of a block in a chunk, for very many ranks */

/* A chunk in flight. */
struct chunk {
    size_t first, n;            /* elements of each block */
    char *src, *dst;            /* [nsrc][n] and [ndst][n], pinned */
    char *feedback;             /* [nsrc][n] floats, pinned, if the operation has any */
    tutti_request *request;
};

/* One collective. Chunks with an index below `freed` are complete, those below `received` have
 * their result in pinned memory, and so on; chunk k uses chunks[k % depth]. */
struct staged {
    tutti_gpu *gpu;
    const tutti_gpu_op *op;
    double scale;
    struct tt_gpu_blocks blocks;
    size_t elem, each, nchunks;
    size_t copied, posted, received, freed;
    uint32_t depth;
    uint64_t began_ns;
    struct chunk chunks[TT_GPU_CHUNKS_MAX];
};

struct tt_gpu_blocks tt_gpu_blocks_of(const tutti_gpu_op *op, int rank, int nranks)
{
    const size_t all = (size_t)nranks, at_root = rank == op->root;

    switch (op->kind) {
    case TUTTI_GPU_REDUCE:
        return (struct tt_gpu_blocks){ 1, at_root };
    case TUTTI_GPU_BROADCAST:
        return (struct tt_gpu_blocks){ at_root, 1 };
    case TUTTI_GPU_REDUCE_SCATTER:
        return (struct tt_gpu_blocks){ all, 1 };
    case TUTTI_GPU_ALLGATHER:
        return (struct tt_gpu_blocks){ 1, all };
    case TUTTI_GPU_GATHER:
        return (struct tt_gpu_blocks){ 1, at_root ? all : 0 };
    case TUTTI_GPU_SCATTER:
        return (struct tt_gpu_blocks){ at_root ? all : 0, 1 };
    case TUTTI_GPU_ALLTOALL:
        return (struct tt_gpu_blocks){ all, all };
    case TUTTI_GPU_BARRIER:
    case TUTTI_GPU_ALLTOALLV_DYNAMIC:
    case TUTTI_GPU_WAIT_SIGNAL:
        return (struct tt_gpu_blocks){ 0, 0 };
    case TUTTI_GPU_SEND:
    case TUTTI_GPU_PUT_SIGNAL:
        return (struct tt_gpu_blocks){ 1, 0 };
    case TUTTI_GPU_RECV:
    case TUTTI_GPU_GET:
        return (struct tt_gpu_blocks){ 0, 1 };
    case TUTTI_GPU_ATOMIC:
        return (struct tt_gpu_blocks){ 0, op->dst != NULL };
    case TUTTI_GPU_ALLREDUCE:
    case TUTTI_GPU_KIND_COUNT:
        break;
    }
    return (struct tt_gpu_blocks){ 1, 1 };
}

/* Returns whether the buffers of some rank have a block per rank: equal on all ranks. */
static bool has_rows(tutti_gpu_kind kind)
{
    return kind == TUTTI_GPU_REDUCE_SCATTER || kind == TUTTI_GPU_ALLGATHER ||
           kind == TUTTI_GPU_GATHER || kind == TUTTI_GPU_SCATTER || kind == TUTTI_GPU_ALLTOALL;
}

/* Elements of each block in a chunk; equal on all ranks. */
static size_t elements_each(const tutti_gpu *gpu, const tutti_gpu_op *op)
{
    const size_t rows = has_rows(op->kind) ? (size_t)tutti_comm_size(gpu->comm) : 1;
    const size_t elem = tutti_dtype_bytes(op->type);
    const size_t bytes = gpu->conf.chunk_bytes / rows;
    const size_t each = (bytes > EACH_BYTES_MIN ? bytes : EACH_BYTES_MIN) / elem;

    return op->count < each ? op->count : each;
}

static void plan(struct staged *s, tutti_gpu *gpu, const tutti_gpu_op *op)
{
    memset(s, 0, sizeof *s);
    s->gpu = gpu;
    s->op = op;
    s->blocks = tt_gpu_blocks_of(op, tutti_comm_rank(gpu->comm), tutti_comm_size(gpu->comm));
    s->elem = tutti_dtype_bytes(op->type);
    s->each = elements_each(gpu, op);
    s->nchunks = s->each ? (op->count - 1) / s->each + 1 : 1;
    s->depth = (uint32_t)gpu->conf.chunks;
    if (s->nchunks < s->depth)
        s->depth = (uint32_t)s->nchunks;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Pinned memory of a chunk for the error feedback. */
static size_t feedback_bytes(const struct staged *s)
{
    return s->op->error_feedback ? aligned(s->blocks.nsrc * s->each * sizeof(float)) : 0;
}

/* Pinned memory of all chunks for the data. */
static size_t data_bytes(const struct staged *s)
{
    return aligned(s->depth * (s->blocks.nsrc + s->blocks.ndst) * s->each * s->elem);
}

size_t tt_gpu_staged_bytes(const tutti_gpu *gpu, const tutti_gpu_op *op)
{
    struct staged s;

    plan(&s, (tutti_gpu *)gpu, op);
    return data_bytes(&s) + s.depth * feedback_bytes(&s);
}

bool tt_gpu_staged_is_single(const tutti_gpu *gpu, const tutti_gpu_op *op)
{
    return op->count == elements_each(gpu, op);
}

int64_t tt_gpu_timeout_left(const tutti_gpu *gpu, uint64_t began_ns)
{
    uint64_t until, now;

    if (gpu->conf.timeout_ms <= 0)
        return gpu->conf.timeout_ms;
    until = tt_deadline_ns(began_ns, gpu->conf.timeout_ms);
    now = tt_now_ns();
    return until > now + TT_MS ? (int64_t)((until - now) / TT_MS) : 1;
}

/* Memory of an operation on both sides: device [nblocks][count], and host [nblocks][n] for a
 * chunk. */
struct sides {
    const void *device, *host;
    size_t nblocks, elem;
};

/* Copies the chunk's part of the blocks. */
static tt_cuda_result copy_sides(const struct staged *s, const struct chunk *c,
                                 const struct sides *m, bool to_device)
{
    const struct tt_cuda *cu = s->gpu->cu;
    const tt_cuda_address device = tt_cuda_address_of(m->device),
                          host = tt_cuda_address_of(m->host);
    const tt_cuda_stream stream = to_device ? s->gpu->out : s->gpu->in;
    const bool whole = c->n == s->op->count;        /* the blocks are contiguous on both sides */
    const size_t ncopies = whole && m->nblocks ? 1 : m->nblocks;
    const size_t bytes = (whole ? m->nblocks : 1) * c->n * m->elem;
    tt_cuda_result error = 0;

    for (size_t b = 0; b < ncopies && bytes && !error; b++) {
        const tt_cuda_address far = device + (b * s->op->count + c->first) * m->elem;
        const tt_cuda_address near = host + b * c->n * m->elem;

        error = to_device ? cu->copy(far, near, bytes, stream) : cu->copy(near, far, bytes, stream);
    }
    return error;
}

/* Copies the inputs of a chunk from the device, or its outputs to it. */
static tutti_status copy_blocks(const struct staged *s, const struct chunk *c, bool to_device,
                                tt_cuda_event done)
{
    const struct tt_cuda *cu = s->gpu->cu;
    const struct sides data = { .device = to_device ? s->op->dst : s->op->src,
                                .host = to_device ? c->dst : c->src,
                                .nblocks = to_device ? s->blocks.ndst : s->blocks.nsrc,
                                .elem = s->elem };
    const struct sides feedback = { .device = s->op->error_feedback,
                                    .host = c->feedback,
                                    .nblocks = s->op->error_feedback ? s->blocks.nsrc : 0,
                                    .elem = sizeof(float) };
    tt_cuda_result error = copy_sides(s, c, &data, to_device);

    if (!error)
        error = copy_sides(s, c, &feedback, to_device);
    if (!error)
        error = cu->event_record(done, to_device ? s->gpu->out : s->gpu->in);
    return error ? tt_cuda_fail(cu, error, "gpu: cannot copy a chunk %s device %d",
                                to_device ? "to" : "from", s->gpu->device)
                 : TUTTI_OK;
}

static tutti_status post(const struct staged *s, struct chunk *c)
{
    const tutti_call call = { .size = sizeof call,
                              .request = &c->request,
                              .error_feedback =
                                  s->op->error_feedback ? (float *)(void *)c->feedback : NULL,
                              .timeout_ms = tt_gpu_timeout_left(s->gpu, s->began_ns) };
    tutti_gpu_op op = *s->op;

    op.scale = s->scale;
    return tt_gpu_post(&op, c->src, c->dst, c->n, &call);
}

/* Whether a copy is complete. A failed copy returns an error. */
static tutti_status copy_done(const struct staged *s, tt_cuda_event event, bool *done)
{
    const tt_cuda_result error = s->gpu->cu->event_query(event);

    *done = !error;
    if (error && error != TT_CUDA_NOT_READY)
        return tt_cuda_fail(s->gpu->cu, error, "gpu: cannot copy a chunk");
    return TUTTI_OK;
}

/* Starts the next chunk's copy from the device, if a slot is free. */
static tutti_status step_copy(struct staged *s, bool *moved)
{
    struct chunk *c = &s->chunks[s->copied % s->depth];
    const uint32_t slot = (uint32_t)(s->copied % s->depth);
    const size_t first = s->copied * s->each;
    tutti_status st;

    if (s->copied == s->nchunks || s->copied - s->freed == s->depth)
        return TUTTI_OK;
    c->first = first;
    c->n = s->op->count - first < s->each ? s->op->count - first : s->each;
    st = copy_blocks(s, c, false, s->gpu->in_done[slot]);
    s->copied += !st;
    *moved = true;
    return st;
}

static tutti_status step_post(struct staged *s, bool *moved)
{
    const uint32_t slot = (uint32_t)(s->posted % s->depth);
    tutti_status st;
    bool done;

    if (s->posted == s->copied)
        return TUTTI_OK;
    st = copy_done(s, s->gpu->in_done[slot], &done);
    if (st || !done)
        return st;
    st = post(s, &s->chunks[slot]);
    s->posted += !st;
    *moved = true;
    return st;
}

static tutti_status step_receive(struct staged *s, bool *moved)
{
    const uint32_t slot = (uint32_t)(s->received % s->depth);
    struct chunk *c = &s->chunks[slot];
    tutti_status st;

    if (s->received == s->posted || tutti_test(c->request) == TUTTI_PENDING)
        return TUTTI_OK;
    st = tutti_wait(c->request);
    c->request = NULL;
    s->received++;
    *moved = true;
    return st ? st : copy_blocks(s, c, true, s->gpu->out_done[slot]);
}

static tutti_status step_free(struct staged *s, bool *moved)
{
    tutti_status st;
    bool done;

    if (s->freed == s->received)
        return TUTTI_OK;
    st = copy_done(s, s->gpu->out_done[s->freed % s->depth], &done);
    s->freed += done;
    *moved |= done;
    return st;
}

/* Waits until some chunk can continue: first for copies, which depend on no other rank. */
static void wait_for_oldest(struct staged *s)
{
    tutti_gpu *gpu = s->gpu;

    if (s->freed < s->received)
        gpu->cu->event_synchronize(gpu->out_done[s->freed % s->depth]);
    else if (s->posted < s->copied)
        gpu->cu->event_synchronize(gpu->in_done[s->posted % s->depth]);
    else if (s->received < s->posted)
        tutti_test_for(s->chunks[s->received % s->depth].request, WAIT_MS);
}

/* Waits for everything in progress. A local failure aborts the communicator, so that no rank
 * waits. */
static void abandon(struct staged *s)
{
    if (!tutti_comm_status(s->gpu->comm))
        tutti_comm_abort(s->gpu->comm);
    for (; s->received < s->posted; s->received++) {
        tutti_request **request = &s->chunks[s->received % s->depth].request;

        if (*request)
            tutti_wait(*request);
        *request = NULL;
    }
    s->gpu->cu->stream_synchronize(s->gpu->in);
    s->gpu->cu->stream_synchronize(s->gpu->out);
}

static tutti_status run(struct staged *s)
{
    tutti_status st = TUTTI_OK;

    while (s->freed < s->nchunks && !st) {
        bool moved = false;

        st = step_copy(s, &moved);
        if (!st)
            st = step_post(s, &moved);
        if (!st)
            st = step_receive(s, &moved);
        if (!st)
            st = step_free(s, &moved);
        if (!st && !moved)
            wait_for_oldest(s);
    }
    return st;
}

tutti_status tt_gpu_staged_run(tutti_gpu *gpu, const tutti_gpu_op *op, char *arena, double scale)
{
    struct staged s;
    char why[TT_ERROR_BYTES];
    tutti_status st;

    plan(&s, gpu, op);
    s.scale = scale;
    s.began_ns = tt_now_ns();
    for (uint32_t i = 0; i < s.depth; i++)
        s.chunks[i].feedback = arena + data_bytes(&s) + i * feedback_bytes(&s);
    for (uint32_t i = 0; i < s.depth; i++) {
        s.chunks[i].src = arena;
        arena += s.blocks.nsrc * s.each * s.elem;
        s.chunks[i].dst = arena;
        arena += s.blocks.ndst * s.each * s.elem;
    }
    st = run(&s);
    if (st) {
        snprintf(why, sizeof why, "%s", tutti_last_error());
        abandon(&s);
        tt_fail_again(st, why);
    }
    return st;
}
