#include "gpu/pull.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "gpu/peer.h"
#include "gpu/staged.h"

struct pull {
    tutti_gpu *gpu;
    const tutti_gpu_op *op;
    size_t block;               /* bytes */
    uint32_t rank, nranks;
    uint64_t began_ns;
    struct tt_gpu_card *cards;  /* [nranks], of the sources */
};

static bool can_be_pulled(const tutti_gpu *gpu, const tutti_gpu_op *op)
{
    const bool copies_only = op->kind == TUTTI_GPU_ALLGATHER || op->kind == TUTTI_GPU_ALLTOALL ||
                             op->kind == TUTTI_GPU_BROADCAST || op->kind == TUTTI_GPU_GATHER ||
                             op->kind == TUTTI_GPU_SCATTER;

    return copies_only && !gpu->no_pull && !op->algo && !op->quant &&
           !tt_gpu_staged_is_single(gpu, op) && tutti_comm_size(gpu->comm) > 1;
}

static tutti_call call_of(const struct pull *p)
{
    return (tutti_call){ .size = sizeof(tutti_call),
                         .timeout_ms = tt_gpu_timeout_left(p->gpu, p->began_ns) };
}

static tutti_status exchange_cards(struct pull *p)
{
    const struct tt_gpu_blocks blocks = tt_gpu_blocks_of(p->op, (int)p->rank, (int)p->nranks);
    const tutti_call call = call_of(p);
    struct tt_gpu_card mine;

    tt_gpu_card_make(&mine, p->op, p->op->src, blocks.nsrc * p->block);
    return tutti_allgather(&mine, p->cards, sizeof mine, TUTTI_U8, p->gpu->comm, &call);
}

/* Checks that all ranks make the same call. */
static tutti_status check_cards(const struct pull *p)
{
    const struct tt_gpu_card *mine = &p->cards[p->rank];

    for (uint32_t r = 0; r < p->nranks; r++) {
        const struct tt_gpu_card *c = &p->cards[r];

        if (!tt_gpu_card_is_valid(c))
            return tt_fail(TUTTI_ERR_PROTOCOL,
                           "protocol error: rank %u sent an invalid buffer descriptor", r);
        if (c->kind != mine->kind || c->count != mine->count || c->type != mine->type ||
            c->root != mine->root)
            return tt_fail(TUTTI_ERR_MISMATCH,
                           "gpu: collective calls do not match: rank %u: kind %u, count %llu, type "
                           "%u, root %u; this rank: kind %u, count %llu, type %u, root %u",
                           r, c->kind, (unsigned long long)c->count, c->type, c->root, mine->kind,
                           (unsigned long long)mine->count, mine->type, mine->root);
    }
    return TUTTI_OK;
}

/* Returns whether all ranks can copy from all others, by the cards; equal on all ranks. */
static bool all_are_near(const struct pull *p)
{
    bool one_process = true, one_host = true, have_handles = true;

    for (uint32_t r = 0; r < p->nranks; r++) {
        const struct tt_gpu_card *c = &p->cards[r];

        if (c->in_place && p->op->kind == TUTTI_GPU_ALLTOALL)
            return false;
        one_process &= c->process == p->cards[0].process;
        one_host &= c->host == p->cards[0].host;
        have_handles &= c->reach == TT_GPU_REACH_HOST;
    }
    if (!one_host) {
        p->gpu->no_pull = true;
        tt_log(TT_LOG_INFO, "gpu: collectives are staged: the ranks are on several hosts");
    }
    return one_process || (one_host && have_handles);
}

/* Sets the offset of a block in the source of rank r, and in this rank's destination, in bytes.
 * Returns false if there is none. */
static bool block_of(const struct pull *p, uint32_t r, size_t *src, size_t *dst)
{
    const bool is_root = r == (uint32_t)p->op->root;

    *src = *dst = 0;
    switch (p->op->kind) {
    case TUTTI_GPU_ALLTOALL:
        *src = p->rank * p->block;
        *dst = r * p->block;
        return true;
    case TUTTI_GPU_ALLGATHER:
        *dst = r * p->block;
        return true;
    case TUTTI_GPU_GATHER:
        *dst = r * p->block;
        return p->rank == (uint32_t)p->op->root;
    case TUTTI_GPU_SCATTER:
        *src = p->rank * p->block;
        return is_root;
    default:
        return is_root;         /* broadcast */
    }
}

/* Result of a rank; the largest value of all ranks decides. */
enum outcome { DONE, IS_FULL, CANNOT_OPEN };

/* Opens all needed memory. */
static enum outcome open_all(const struct pull *p)
{
    enum outcome outcome = DONE;
    size_t from, to;

    for (uint32_t r = 0; r < p->nranks; r++) {
        enum outcome one;

        if (!block_of(p, r, &from, &to) || tt_gpu_card_open(p->gpu, &p->cards[r]))
            continue;
        one = tt_gpu_peer_is_full(p->gpu) ? IS_FULL : CANNOT_OPEN;
        outcome = one > outcome ? one : outcome;
    }
    return outcome;
}

/* Starts the copies, beginning with the next rank, unless some memory cannot be opened. */
static tutti_status start_copies(const struct pull *p, enum outcome *outcome)
{
    const struct tt_cuda *cu = p->gpu->cu;
    tt_cuda_result error = 0;

    *outcome = open_all(p);
    for (uint32_t i = 1; i <= p->nranks && !error && *outcome == DONE; i++) {
        const uint32_t r = (p->rank + i) % p->nranks;
        const tt_cuda_address dst = tt_cuda_address_of(p->op->dst);
        tt_cuda_address src;
        size_t from, to;

        if (!block_of(p, r, &from, &to))
            continue;
        src = tt_gpu_card_open(p->gpu, &p->cards[r]);
        if (src + from != dst + to)         /* otherwise it is in place */
            error = cu->copy(dst + to, src + from, p->block, p->gpu->out);
    }
    if (!error)
        error = cu->event_record(p->gpu->out_done[0], p->gpu->out);
    return error ? tt_cuda_fail(cu, error,
                                "gpu: cannot copy from another device to device %d",
                                p->gpu->device)
                 : TUTTI_OK;
}

/* Copies, and waits until all ranks have done so. */
static tutti_status copy_all(const struct pull *p, bool *done)
{
    const struct tt_cuda *cu = p->gpu->cu;
    uint64_t mine, worst = DONE;
    enum outcome outcome;
    tt_cuda_result error;
    tutti_call call;
    tutti_status st = start_copies(p, &outcome);

    if (st)
        return st;
    error = cu->event_synchronize(p->gpu->out_done[0]);
    if (error)
        return tt_cuda_fail(cu, error,
                            "gpu: cannot copy from another device to device %d",
                            p->gpu->device);
    mine = outcome;
    call = call_of(p);
    st = tutti_allreduce(&mine, &worst, 1, TUTTI_U64, TUTTI_MAX, p->gpu->comm, &call);
    *done = !st && worst == DONE;
    if (!st && worst == CANNOT_OPEN) {
        p->gpu->no_pull = true;
        tt_log(TT_LOG_INFO, "gpu: collectives are staged: a rank cannot open the device memory of "
                            "another one");
    }
    return st;
}

/* Waits for the copies in progress. A local failure aborts the communicator, so that no rank
 * waits. */
static tutti_status abandon(tutti_gpu *gpu, tutti_status st)
{
    char why[TT_ERROR_BYTES];

    snprintf(why, sizeof why, "%s", tutti_last_error());
    if (!tutti_comm_status(gpu->comm))
        tutti_comm_abort(gpu->comm);
    gpu->cu->stream_synchronize(gpu->out);
    return tt_fail_again(st, why);
}

tutti_status tt_gpu_pull_run(tutti_gpu *gpu, const tutti_gpu_op *op, bool *done)
{
    struct pull p = { .gpu = gpu,
                      .op = op,
                      .block = op->count * tutti_dtype_bytes(op->type),
                      .rank = (uint32_t)tutti_comm_rank(gpu->comm),
                      .nranks = (uint32_t)tutti_comm_size(gpu->comm),
                      .began_ns = tt_now_ns() };
    tutti_status st;

    *done = false;
    if (!can_be_pulled(gpu, op))
        return TUTTI_OK;
    p.cards = calloc(p.nranks, sizeof *p.cards);
    st = p.cards ? exchange_cards(&p) : tt_fail(TUTTI_ERR_NOMEM, "gpu: out of memory");
    if (!st)
        st = check_cards(&p);
    if (!st && all_are_near(&p))
        st = copy_all(&p, done);
    free(p.cards);
    gpu->npulled += *done;
    return st ? abandon(gpu, st) : TUTTI_OK;
}
