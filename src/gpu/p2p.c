/* Sends and receives through pinned pieces. A lane is one direction to one peer; its operations run
 * in list order, as ranks match them in order, and lanes run concurrently. */
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/clock.h"
#include "gpu/offer.h"
#include "gpu/post.h"
#include "gpu/staged.h"

/* A piece of an operation in one slot of a lane. */
struct piece {
    const struct tt_gpu_item *item;
    size_t first, n;
    char *mem;
    tutti_request *request;
    tt_cuda_event copied;
    bool copying;
};

/* Pieces are counted over all operations of the lane. A send is copied, posted, freed; a receive
 * is posted, copied, freed. `next` is the first operation that is not completely cut into pieces.
 * If it is long, it is first offered for a direct copy, when no piece is in flight. */
struct lane {
    int peer;
    bool is_recv;
    size_t next, next_first;
    struct tt_gpu_offer offer;
    bool was_offered;           /* the next operation was offered: it is staged */
    size_t begun, posted, received, freed;
    struct piece pieces[TT_GPU_P2P_DEPTH];
};

struct exchange {
    tutti_gpu *gpu;
    const struct tt_gpu_item *items;
    size_t nitems, nlanes, piece_bytes;
    struct lane *lanes;
    tutti_request **waits;      /* [nlanes], for tutti_wait_any */
    uint64_t began_ns;
};

static bool is_p2p(const struct tt_gpu_item *item)
{
    return item->op.kind == TUTTI_GPU_SEND || item->op.kind == TUTTI_GPU_RECV;
}

static bool is_of(const struct lane *l, const struct tt_gpu_item *item)
{
    return is_p2p(item) && item->op.root == l->peer &&
           (item->op.kind == TUTTI_GPU_RECV) == l->is_recv;
}

/* Piece size: equal on both ranks of a transfer, and a multiple of every element's size. */
static size_t piece_bytes(const tutti_gpu *gpu)
{
    const size_t bytes = gpu->conf.chunk_bytes / TT_GPU_P2P_SHARE;

    return bytes & ~(size_t)63;
}

/* Lists the lanes of the items in lanes[n], or counts them if lanes is NULL. */
static size_t find_lanes(const struct tt_gpu_item *items, size_t n, struct lane *lanes)
{
    size_t nlanes = 0;

    for (size_t i = 0; i < n; i++) {
        struct lane l = { .peer = items[i].op.root, .is_recv = items[i].op.kind == TUTTI_GPU_RECV };
        size_t k = 0;

        if (!is_p2p(&items[i]))
            continue;
        while (k < i && !is_of(&l, &items[k]))
            k++;
        if (k < i)
            continue;
        l.next = i;
        if (lanes)
            lanes[nlanes] = l;
        nlanes++;
    }
    return nlanes;
}

size_t tt_gpu_p2p_bytes(const tutti_gpu *gpu, const struct tt_gpu_item *items, size_t n)
{
    return find_lanes(items, n, NULL) * TT_GPU_P2P_DEPTH * piece_bytes(gpu);
}

bool tt_gpu_p2p_is_single(const tutti_gpu *gpu, const tutti_gpu_op *op)
{
    return op->count <= piece_bytes(gpu) / tutti_dtype_bytes(op->type);
}

static tutti_status copy_piece(const struct exchange *x, struct piece *p, bool to_device)
{
    const struct tt_cuda *cu = x->gpu->cu;
    const tutti_gpu_op *op = &p->item->op;
    const size_t elem = tutti_dtype_bytes(op->type);
    const tt_cuda_address device = tt_cuda_address_of(to_device ? op->dst : op->src);
    const tt_cuda_address host = tt_cuda_address_of(p->mem);
    const tt_cuda_stream stream = to_device ? x->gpu->out : x->gpu->in;
    tt_cuda_result error = 0;

    if (p->n && to_device)
        error = cu->copy(device + p->first * elem, host, p->n * elem, stream);
    else if (p->n)
        error = cu->copy(host, device + p->first * elem, p->n * elem, stream);
    if (!error)
        error = cu->event_record(p->copied, stream);
    p->copying = !error;
    return error ? tt_cuda_fail(cu, error, "gpu: cannot copy a message %s device %d",
                                to_device ? "to" : "from", x->gpu->device)
                 : TUTTI_OK;
}

static tutti_status post_piece(const struct exchange *x, struct piece *p)
{
    const tutti_call call = { .size = sizeof call, .request = &p->request,
                              .timeout_ms = tt_gpu_timeout_left(x->gpu, x->began_ns) };

    return tt_gpu_post(&p->item->op, p->mem, p->mem, p->n, &call);
}

/* Whether the piece's copy is complete. */
static tutti_status piece_copied(const struct exchange *x, struct piece *p, bool *done)
{
    const tt_cuda_result error = x->gpu->cu->event_query(p->copied);

    *done = !error;
    if (error && error != TT_CUDA_NOT_READY)
        return tt_cuda_fail(x->gpu->cu, error, "gpu: cannot copy a message");
    p->copying = !*done;
    return TUTTI_OK;
}

/* Advances to the following operation: the next one is complete, or completely cut into pieces. */
static void next_operation(struct lane *l)
{
    l->next++;
    l->next_first = 0;
    l->was_offered = false;
}

/* Cuts off the next piece of the next operation, if a slot is free. */
static tutti_status begin_piece(struct exchange *x, struct lane *l, bool *moved)
{
    const struct tt_gpu_item *item = &x->items[l->next];
    struct piece *p = &l->pieces[l->begun % TT_GPU_P2P_DEPTH];
    size_t each, left;

    if (l->begun - l->freed == TT_GPU_P2P_DEPTH)
        return TUTTI_OK;
    each = x->piece_bytes / tutti_dtype_bytes(item->op.type);
    left = item->op.count - l->next_first;
    p->item = item;
    p->first = l->next_first;
    p->n = left < each ? left : each;
    p->copying = false;
    l->begun++;
    l->next_first += p->n;
    if (l->next_first == item->op.count)
        next_operation(l);
    *moved = true;
    return l->is_recv ? TUTTI_OK : copy_piece(x, p, false);
}

/* Continues the offer of the next operation. */
static tutti_status step_offer(struct exchange *x, struct lane *l, bool *moved)
{
    enum tt_gpu_offer_result result;
    const tutti_status st =
        tt_gpu_offer_step(&l->offer, tt_gpu_timeout_left(x->gpu, x->began_ns), &result, moved);

    if (st)
        return st;
    if (result == TT_GPU_OFFER_COPIED)
        next_operation(l);
    else if (result == TT_GPU_OFFER_STAGED)
        l->was_offered = true;
    return TUTTI_OK;
}

/* Starts the next operation's offer or its next piece. */
static tutti_status step_begin(struct exchange *x, struct lane *l, bool *moved)
{
    const tutti_gpu_op *op;

    while (l->next < x->nitems && !is_of(l, &x->items[l->next]))
        l->next++;
    if (l->next == x->nitems)
        return TUTTI_OK;
    op = &x->items[l->next].op;
    if (l->next_first || l->was_offered || tt_gpu_p2p_is_single(x->gpu, op) ||
        tt_gpu_offer_is_useless(x->gpu, op))
        return begin_piece(x, l, moved);
    if (l->freed < l->begun)
        return TUTTI_OK;
    *moved = true;
    return tt_gpu_offer_begin(&l->offer, op, l->pieces[0].copied,
                              tt_gpu_timeout_left(x->gpu, x->began_ns));
}

static tutti_status step_post(struct exchange *x, struct lane *l, bool *moved)
{
    struct piece *p = &l->pieces[l->posted % TT_GPU_P2P_DEPTH];
    bool done = true;
    tutti_status st = TUTTI_OK;

    if (l->posted == l->begun)
        return TUTTI_OK;
    if (!l->is_recv)
        st = piece_copied(x, p, &done);
    if (st || !done)
        return st;
    st = post_piece(x, p);
    l->posted += !st;
    *moved = true;
    return st;
}

static tutti_status step_receive(struct exchange *x, struct lane *l, bool *moved)
{
    struct piece *p = &l->pieces[l->received % TT_GPU_P2P_DEPTH];
    tutti_status st = TUTTI_OK;

    if (l->received == l->posted)
        return TUTTI_OK;
    if (p->request) {           /* otherwise tutti_wait_any has completed it */
        if (tutti_test(p->request) == TUTTI_PENDING)
            return TUTTI_OK;
        st = tutti_wait(p->request);
        p->request = NULL;
    }
    l->received++;
    *moved = true;
    return st || !l->is_recv ? st : copy_piece(x, p, true);
}

static tutti_status step_free(struct exchange *x, struct lane *l, bool *moved)
{
    struct piece *p = &l->pieces[l->freed % TT_GPU_P2P_DEPTH];
    bool done = true;
    tutti_status st = TUTTI_OK;

    if (l->freed == l->received)
        return TUTTI_OK;
    if (l->is_recv)
        st = piece_copied(x, p, &done);
    if (st || !done)
        return st;
    l->freed++;
    *moved = true;
    return TUTTI_OK;
}

static tutti_status step_lane(struct exchange *x, struct lane *l, bool *moved)
{
    tutti_status st = l->offer.op ? step_offer(x, l, moved) : step_begin(x, l, moved);

    if (!st)
        st = step_post(x, l, moved);
    if (!st)
        st = step_receive(x, l, moved);
    if (!st)
        st = step_free(x, l, moved);
    return st;
}

static bool is_complete(const struct exchange *x, const struct lane *l)
{
    size_t next = l->next;

    while (next < x->nitems && !is_of(l, &x->items[next]))
        next++;
    return next == x->nitems && l->freed == l->begun && !l->offer.op;
}

/* Returns a copy in progress of a lane, or NULL. */
static tt_cuda_event copy_of(const struct lane *l)
{
    if (l->offer.op)
        return l->offer.state == TT_GPU_OFFER_COPY ? l->offer.copied : NULL;
    for (size_t k = 0; k < TT_GPU_P2P_DEPTH; k++)
        if (l->pieces[k].copying)
            return l->pieces[k].copied;
    return NULL;
}

/* Returns the address of the request that a lane waits for. */
static tutti_request **request_of(struct lane *l)
{
    return l->offer.op ? &l->offer.request : &l->pieces[l->received % TT_GPU_P2P_DEPTH].request;
}

/* Waits until some lane can continue: for a copy if there is one, otherwise for any request. */
static tutti_status wait_for_some(struct exchange *x)
{
    tutti_status st;
    size_t index;

    for (size_t i = 0; i < x->nlanes; i++) {
        tt_cuda_event copy = copy_of(&x->lanes[i]);

        if (copy) {
            x->gpu->cu->event_synchronize(copy);
            return TUTTI_OK;
        }
    }
    for (size_t i = 0; i < x->nlanes; i++) {
        struct lane *l = &x->lanes[i];

        x->waits[i] = l->offer.op || l->received < l->posted ? *request_of(l) : NULL;
    }
    st = tutti_wait_any(x->waits, x->nlanes, &index);
    *request_of(&x->lanes[index]) = NULL;
    return st;
}

static tutti_status run(struct exchange *x)
{
    for (;;) {
        bool moved = false, complete = true;

        for (size_t i = 0; i < x->nlanes; i++) {
            const tutti_status st = step_lane(x, &x->lanes[i], &moved);

            if (st)
                return st;
            complete &= is_complete(x, &x->lanes[i]);
        }
        if (complete)
            return TUTTI_OK;
        if (!moved) {
            const tutti_status st = wait_for_some(x);

            if (st)
                return st;
        }
    }
}

static void abandon(struct exchange *x)
{
    char why[TT_ERROR_BYTES];

    snprintf(why, sizeof why, "%s", tutti_last_error());
    if (!tutti_comm_status(x->gpu->comm))
        tutti_comm_abort(x->gpu->comm);
    for (size_t i = 0; i < x->nlanes; i++) {
        for (size_t k = 0; k < TT_GPU_P2P_DEPTH; k++)
            if (x->lanes[i].pieces[k].request)
                tutti_wait(x->lanes[i].pieces[k].request);
        if (x->lanes[i].offer.request)
            tutti_wait(x->lanes[i].offer.request);
    }
    x->gpu->cu->stream_synchronize(x->gpu->in);
    x->gpu->cu->stream_synchronize(x->gpu->out);
    tt_fail_again(TUTTI_ERR_ABORTED, why);
}

static void close_exchange(struct exchange *x)
{
    for (size_t i = 0; x->lanes && i < x->nlanes; i++)
        for (size_t k = 0; k < TT_GPU_P2P_DEPTH; k++)
            if (x->lanes[i].pieces[k].copied)
                x->gpu->cu->event_destroy(x->lanes[i].pieces[k].copied);
    free(x->lanes);
    free(x->waits);
}

/* Prepares the lanes, with slots in the arena. */
static tutti_status open_exchange(struct exchange *x, char *arena)
{
    const struct tt_cuda *cu = x->gpu->cu;

    x->lanes = calloc(x->nlanes, sizeof *x->lanes);
    x->waits = calloc(x->nlanes, sizeof(tutti_request *));
    if (!x->lanes || !x->waits)
        return tt_fail(TUTTI_ERR_NOMEM, "gpu: out of memory");
    find_lanes(x->items, x->nitems, x->lanes);
    for (size_t i = 0; i < x->nlanes; i++)
        for (size_t k = 0; k < TT_GPU_P2P_DEPTH; k++) {
            struct piece *p = &x->lanes[i].pieces[k];
            const tt_cuda_result error =
                cu->event_create(&p->copied, TT_CUDA_EVENT_BLOCKING_SYNC | TT_CUDA_EVENT_NO_TIMING);

            if (error)
                return tt_cuda_fail(cu, error, "gpu: cannot create an event");
            p->mem = arena + (i * TT_GPU_P2P_DEPTH + k) * x->piece_bytes;
        }
    return TUTTI_OK;
}

tutti_status tt_gpu_p2p_run(tutti_gpu *gpu, const struct tt_gpu_item *items, size_t n, char *arena)
{
    struct exchange x = { .gpu = gpu, .items = items, .nitems = n,
                          .nlanes = find_lanes(items, n, NULL), .piece_bytes = piece_bytes(gpu),
                          .began_ns = tt_now_ns() };
    tutti_status st;

    if (!x.nlanes)
        return TUTTI_OK;
    st = open_exchange(&x, arena);
    if (!st) {
        st = run(&x);
        if (st)
            abandon(&x);
    }
    close_exchange(&x);
    return st;
}
