/* The all-to-all with sizes that are not known in advance: an operation of the engine in two
 * parts.
 *
 * In the first part, each rank sends every other rank a head (pieces.h) with all its lengths,
 * and a bitmap of the pieces that follow. If all pieces and the head fit in one eager message,
 * the pieces are included. If that is unlikely, and the simulation predicts a gain, all ranks
 * gather common heads instead (exchange.h): ceil(log2 nranks) messages per rank instead of
 * nranks - 1.
 *
 * When all heads have arrived, every rank has the same lengths and errors. Therefore all ranks
 * agree whether the call is valid; if it is not, nothing is written. Otherwise packed pieces are
 * copied to their places. The other pieces follow as stretches of an alltoallv; without other
 * pieces, the call is complete.
 *
 * Cost: one latency (alpha) for short calls. Long calls take an alltoallv, plus alpha for the heads
 * or a short allgather. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/options.h"
#include "base/prng.h"
#include "base/status.h"
#include "comm/call.h"
#include "moe/exchange.h"
#include "wire/registry.h"

#define CALL "tutti_alltoallv_dynamic"

/* ---- first part: heads ----------------------------------------------------------------------- */

static bool start_signalled(void *arg)
{
    const tutti_dynamic *w = &((struct tt_exchange *)arg)->what;

    return !w->start || __atomic_load_n(w->start, __ATOMIC_ACQUIRE) >= w->start_value;
}

/* Checks sendbuff, whose length is known after the lists were read. */
static void check_sendbuff(const struct tt_exchange *x, const uint64_t *lengths, struct tt_head *h)
{
    const struct tt_pieces_shape *s = &x->shape;
    const uint64_t total = tt_pieces_total(s, lengths, NULL);

    tt_pieces_read_src(s, &x->what, lengths, h);
    for (uint32_t r = 0; r < s->nranks && !h->flaw; r++)
        if (tt_overlap(x->what.sendbuff, total * s->elem_bytes, x->recvbuffs[r],
                       s->max_total * s->elem_bytes)) {
            h->flaw = TT_FLAW_OVERLAP;
            h->at = r;
        }
}

/* Decides which pieces are sent with their head. Returns the maximum number of stretches to one
 * rank for the other pieces. */
static uint32_t choose_packed(struct tt_exchange *x, const uint64_t *lengths)
{
    const struct tt_pieces_shape *s = &x->shape;
    const uint64_t room = x->slot_bytes - tt_pieces_head_bytes(s);
    uint64_t most = 0;

    for (uint32_t r = 0; r < s->nranks; r++) {
        const uint8_t *wanted = x->wanted + r * tt_pieces_requested_bytes(s);
        uint64_t n;

        x->packed[r] = x->packs && tt_pieces_total(s, lengths, wanted) * s->elem_bytes <= room;
        n = x->packed[r] ? 0 : tt_pieces_stretches(s, lengths, wanted, NULL);
        most = n > most ? n : most;
    }
    return (uint32_t)most;
}

/* Sets up one message with one stretch to and from each other rank. */
static void list_heads(struct tt_exchange *x)
{
    const uint32_t n = x->shape.nranks;
    struct tt_stretch *send = x->list, *recv = x->list + n;
    uint64_t at = 0;

    for (uint32_t r = 0; r < n; r++) {
        x->send_first[r] = x->recv_first[r] = at;
        x->send_displs[r] = x->recv_displs[r] = r * x->slot_bytes;
        x->recv_bytes[r] = x->slot_bytes;
        if (r == x->rank)
            continue;
        send[at] = (struct tt_stretch){ .bytes = x->send_bytes[r] };
        recv[at++] = (struct tt_stretch){ .bytes = x->slot_bytes };
    }
    x->send_first[n] = x->recv_first[n] = at;
    x->stretches = (struct tt_stretches){
        .send = send,
        .recv = recv,
        .send_first = x->send_first,
        .recv_first = x->recv_first,
        .most = 1,
        .at_most = x->packs,
    };
}

static void heads_begin(void *arg, struct tt_op_conf *conf)
{
    struct tt_exchange *x = arg;
    const struct tt_pieces_shape *s = &x->shape;
    uint64_t *lengths = x->lengths + (size_t)x->rank * s->nsplits;
    struct tt_head *h = &x->heads[x->rank];

    (void)conf;
    tt_pieces_read(s, &x->what, lengths, x->wanted, h);
    if (!h->flaw)
        check_sendbuff(x, lengths, h);
    if (!h->flaw)
        h->most = choose_packed(x, lengths);
    if (s->to_all) {
        tt_head_write(s, h, lengths, x->wanted, NULL, x->out);
        return;
    }
    for (uint32_t r = 0; r < s->nranks; r++) {
        struct tt_head to = *h;

        to.packed = !h->flaw && x->packed[r];
        x->send_bytes[r] = 0;
        if (r != x->rank)
            x->send_bytes[r] =
                tt_head_write(s, &to, lengths, x->wanted + r * tt_pieces_requested_bytes(s),
                              x->what.sendbuff, x->out + r * x->slot_bytes);
    }
    list_heads(x);
}

/* ---- between the parts: common decisions ----------------------------------------------------- */

/* Reads the heads of the other ranks. Returns the error of the lowest rank that has one; equal
 * on all ranks. */
static tutti_status read_heads(struct tt_exchange *x, uint64_t *most)
{
    const struct tt_pieces_shape *s = &x->shape;
    tutti_status st = TUTTI_OK;

    *most = 0;
    for (uint32_t r = 0; r < s->nranks; r++) {
        struct tt_head *h = &x->heads[r];

        if (r != x->rank &&
            !tt_head_read(s, x->in + r * x->slot_bytes, x->slot_bytes, h,
                          x->lengths + (size_t)r * s->nsplits, &x->wanted_in[r], &x->pieces_in[r]))
            return tt_fail(TUTTI_ERR_PROTOCOL,
                           CALL ": protocol error: rank %u sent an invalid header", r);
        *most = h->most > *most ? h->most : *most;
    }
    for (uint32_t r = 0; r < s->nranks && !st; r++)
        st = tt_head_status(s, &x->heads[r], r, CALL);
    return st;
}

/* Copies the packed pieces to their places. */
static void unpack_all(const struct tt_exchange *x)
{
    const struct tt_pieces_shape *s = &x->shape;
    const uint64_t *own = x->lengths + (size_t)x->rank * s->nsplits;
    const uint8_t *to_self = x->wanted + x->rank * tt_pieces_requested_bytes(s);

    for (uint32_t r = 0; r < s->nranks; r++)
        if (r != x->rank && x->heads[r].packed)
            tt_pieces_unpack(s, x->lengths + (size_t)r * s->nsplits, x->wanted_in[r],
                             x->pieces_in[r], x->recvbuffs[r]);
    if (!x->packed[x->rank])
        return;
    for (uint64_t i = 0, at = 0; i < s->nsplits; at += own[i] * s->elem_bytes, i++)
        if (to_self[i / 8] >> i % 8 & 1 && own[i])
            tt_copy(x->recvbuffs[x->rank] + at, NULL, (const uint8_t *)x->what.sendbuff + at,
                    own[i] * s->elem_bytes, false);
}

/* ---- second part: stretches ------------------------------------------------------------------ */

/* Return the pieces to rank r, and from rank r, that were not packed. */
static const uint8_t *unpacked_to(const struct tt_exchange *x, uint32_t r)
{
    return x->packed[r] ? NULL : x->wanted + r * tt_pieces_requested_bytes(&x->shape);
}

static const uint8_t *unpacked_from(const struct tt_exchange *x, uint32_t r)
{
    return r == x->rank || x->heads[r].packed ? NULL : x->wanted_in[r];
}

static bool list_stretches(struct tt_exchange *x, uint64_t most)
{
    const struct tt_pieces_shape *s = &x->shape;
    const uint32_t n = s->nranks;
    const uint64_t *own = x->lengths + (size_t)x->rank * s->nsplits;
    uint64_t sends = 0, recvs = 0;

    for (uint32_t r = 0; r < n; r++) {
        x->send_first[r] = sends;
        x->recv_first[r] = recvs;
        if (unpacked_to(x, r))
            sends += tt_pieces_stretches(s, own, unpacked_to(x, r), NULL);
        if (unpacked_from(x, r))
            recvs += tt_pieces_stretches(s, x->lengths + (size_t)r * s->nsplits,
                                         unpacked_from(x, r), NULL);
    }
    x->send_first[n] = sends;
    x->recv_first[n] = recvs;
    if (!tt_exchange_need(x, sends + recvs))
        return false;
    for (uint32_t r = 0; r < n; r++) {
        if (unpacked_to(x, r))
            tt_pieces_stretches(s, own, unpacked_to(x, r), x->list + x->send_first[r]);
        if (unpacked_from(x, r))
            tt_pieces_stretches(s, x->lengths + (size_t)r * s->nsplits, unpacked_from(x, r),
                                x->list + sends + x->recv_first[r]);
    }
    x->stretches = (struct tt_stretches){
        .send = x->list,
        .recv = x->list + sends,
        .send_first = x->send_first,
        .recv_first = x->recv_first,
        .most = most,
    };
    return true;
}

/* Describes the receive buffers as parts of one address range that begins with the lowest of
 * them. */
static uint8_t *place_buffers(struct tt_exchange *x)
{
    const struct tt_pieces_shape *s = &x->shape;
    const uint64_t own_bytes =
        tt_pieces_total(s, x->lengths + (size_t)x->rank * s->nsplits, NULL) * s->elem_bytes;
    uint8_t *base = x->recvbuffs[0];

    for (uint32_t r = 1; r < s->nranks; r++)
        base = (uintptr_t)x->recvbuffs[r] < (uintptr_t)base ? x->recvbuffs[r] : base;
    for (uint32_t r = 0; r < s->nranks; r++) {
        x->send_displs[r] = 0;
        x->send_bytes[r] = own_bytes;
        x->recv_displs[r] = (uintptr_t)x->recvbuffs[r] - (uintptr_t)base;
        x->recv_bytes[r] =
            tt_pieces_total(s, x->lengths + (size_t)r * s->nsplits, NULL) * s->elem_bytes;
    }
    return base;
}

/* Sets up the second part; or the first part if each rank gets its own head. */
static void exchange_stretches(struct tt_exchange *x, struct tt_op_conf *conf)
{
    conf->coll.kind = TT_ALLTOALLV;
    conf->coll.elem_bytes = x->shape.elem_bytes;
    conf->coll.bytes = 0;
    conf->coll.send_bytes = x->send_bytes;
    conf->coll.send_displs = x->send_displs;
    conf->coll.recv_bytes = x->recv_bytes;
    conf->coll.recv_displs = x->recv_displs;
    conf->coll.stretches = &x->stretches;
    conf->algo = &tt_algo_alltoallv_stretches;
    conf->segment_bytes = x->of->segment_bytes;
    conf->streams = x->of->streams;
    conf->depth = x->of->depth;
    conf->lanes = 0;
}

/* Sets up the first part with common heads. */
static void gather_heads(struct tt_exchange *x, struct tt_op_conf *conf)
{
    conf->coll.kind = TT_ALLGATHER;
    conf->coll.elem_bytes = 1;
    conf->coll.bytes = x->slot_bytes;
    conf->algo = x->gathering.algo;
    conf->segment_bytes = x->gathering.segment_bytes;
    conf->streams = x->gathering.streams;
    conf->depth = x->gathering.depth;
    conf->lanes = x->gathering.lanes;
}

static tutti_status heads_done(void *arg, struct tt_op_conf *conf)
{
    struct tt_exchange *x = arg;
    uint64_t most;
    tutti_status st = read_heads(x, &most);

    if (st)
        return st;
    unpack_all(x);
    if (most == 0)
        return TUTTI_OK;
    if (!list_stretches(x, most))
        return tt_fail(TUTTI_ERR_NOMEM, CALL ": out of memory for lists of ranges");
    exchange_stretches(x, conf);
    conf->src = x->what.sendbuff;
    conf->dst = place_buffers(x);
    return TUTTI_PENDING;
}

static void exchange_end(void *arg, tutti_status status)
{
    struct tt_exchange *x = arg;
    size_t *all = x->what.recv_all_split_lengths;

    for (size_t i = 0; !status && all && i < (size_t)x->shape.nranks * x->shape.nsplits; i++)
        all[i] = x->lengths[i];
    if (x->what.over)
        __atomic_store_n(x->what.over, x->what.over_value, __ATOMIC_RELEASE);
    tt_exchange_put(x);
}

static const struct tt_op_parts parts = { .kind = TT_ALLTOALLV,
                                          .second = &tt_algo_alltoallv_stretches,
                                          .may_begin = start_signalled,
                                          .begin = heads_begin,
                                          .then = heads_done,
                                          .end = exchange_end };

/* ---- the call -------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

    return (x > y) - (x < y);
}

/* Checks that receive buffers are not NULL and do not overlap. sorted[nranks] is scratch memory. */
static tutti_status check_recvbuffs(const tutti_dynamic *what, const struct tt_pieces_shape *s,
                                    uintptr_t *sorted)
{
    const uint64_t bytes = s->max_total * s->elem_bytes;

    for (uint32_t r = 0; r < s->nranks; r++) {
        sorted[r] = (uintptr_t)what->recvbuffs[r];
        if (!sorted[r] && bytes)
            return tt_fail(TUTTI_ERR_INVALID, CALL ": recvbuffs[%u] is NULL", r);
        if (!tt_memory_can_be(what->recvbuffs[r], bytes))
            return tt_fail(TUTTI_ERR_INVALID,
                           CALL ": recvbuffs[%u] at %p with %llu bytes (max_total) does not fit in "
                                "the address space",
                           r, what->recvbuffs[r], (unsigned long long)bytes);
    }
    qsort(sorted, s->nranks, sizeof *sorted, by_address);
    for (uint32_t r = 1; r < s->nranks; r++)
        if (bytes && sorted[r] - sorted[r - 1] < bytes)
            return tt_fail(
                TUTTI_ERR_INVALID,
                CALL ": the receive buffers at %p and %p overlap: each has %llu bytes (max_total)",
                (void *)sorted[r - 1], (void *)sorted[r], (unsigned long long)bytes);
    return TUTTI_OK;
}

/* Rejects call options that an exchange does not support. */
static tutti_status check_call(const tutti_call *call)
{
    if (call->quant)
        return tt_fail(TUTTI_ERR_INVALID, CALL ": call.quant is %d: must be 0", (int)call->quant);
    if (call->error_feedback)
        return tt_fail(TUTTI_ERR_INVALID, CALL ": call.error_feedback is %p: must be NULL",
                       (const void *)call->error_feedback);
    if (call->divisor)
        return tt_fail(TUTTI_ERR_INVALID, CALL ": call.divisor is %llu: must be 0",
                       (unsigned long long)call->divisor);
    if (call->scale != 0)
        return tt_fail(TUTTI_ERR_INVALID, CALL ": call.scale is %g: must be 0", call->scale);
    return TUTTI_OK;
}

/* Checks the arguments that do not depend on data. */
static tutti_status dynamic_check(const tutti_dynamic *what, const struct tt_call_check *t)
{
    if (!what->split_lengths || !what->index_block_lens || !what->recvbuffs)
        return tt_fail(TUTTI_ERR_INVALID, CALL ": %s is NULL",
                       !what->split_lengths      ? "split_lengths"
                       : !what->index_block_lens ? "index_block_lens"
                                                 : "recvbuffs");
    if ((what->start && (uintptr_t)what->start % sizeof *what->start) ||
        (what->over && (uintptr_t)what->over % sizeof *what->over))
        return tt_fail(TUTTI_ERR_INVALID,
                       CALL ": start = %p or over = %p is misaligned: both must be 8-byte aligned",
                       (const void *)what->start, (void *)what->over);
    return t->call ? check_call(t->call) : TUTTI_OK;
}

/* Returns value if it fits in bits - 1 bits, otherwise a hash with the highest bit set. */
static uint64_t declared(uint64_t value, uint32_t bits)
{
    const uint64_t high = 1ull << (bits - 1);

    return value < high ? value : high | (tt_hash_bytes(&value, sizeof value, 0) & (high - 1));
}

/* Fills in the descriptor: different declarations are a mismatch, which tt_opdesc_print
 * describes. */
static void fill_conf(struct tt_op_conf *conf, struct tt_exchange *x, tutti_comm *comm,
                      int64_t timeout_ms)
{
    const struct tt_pieces_shape *s = &x->shape;

    if (s->to_all)
        gather_heads(x, conf);
    else
        exchange_stretches(x, conf);
    conf->coll.root = s->nsplits;
    conf->algo_id = tt_algo_index(&tt_algo_alltoallv_stretches);
    conf->count = declared(s->max_total, TT_DYNAMIC_TOTAL_BITS);
    conf->divisor = (uint32_t)declared(s->max_length, TT_DYNAMIC_LENGTH_BITS);
    conf->redop = s->to_all;
    conf->src = x->out;
    conf->dst = x->in;
    conf->eager_bytes = comm->sizes.eager_bytes;
    conf->timeout_ms = timeout_ms;
    conf->parts = &parts;
    conf->parts_arg = x;
}

static tutti_status submit(struct tt_call_check *t, struct tt_exchange *x)
{
    tutti_comm *comm = t->comm;
    const int64_t timeout_ms =
        t->call && t->call->timeout_ms ? t->call->timeout_ms : comm->timeout_ms;
    struct tt_op *op;
    tutti_status st;

    fill_conf(&t->conf, x, comm, timeout_ms);
    if (!t->call || !t->call->request) {
        st = tt_op_blocking(comm->context, &t->conf);
        tt_exchange_put(x);            /* in case it was not started */
        return st;
    }
    st = tt_op_start(comm->context, &t->conf, &op);
    if (st)
        tt_exchange_put(x);
    else
        *t->call->request = (tutti_request *)op;
    return st;
}

/* Checks that no buffer is device memory, because the CPU copies the pieces. */
static tutti_status check_processor_may(const tutti_dynamic *what, uint32_t nranks)
{
    bool device = tt_registry_is_device(what->sendbuff, 1);

    for (uint32_t r = 0; r < nranks; r++)
        device |= tt_registry_is_device(what->recvbuffs[r], 1);
    return device
               ? tt_fail(TUTTI_ERR_UNSUPPORTED, CALL ": device memory is not supported for buffers")
               : TUTTI_OK;
}

/* Prepares an exchange with the caller's receive buffers. */
static tutti_status dynamic_prepare(const tutti_dynamic *what, const char *algo,
                                    struct tt_pieces_shape *shape, tutti_comm *comm,
                                    struct tt_exchange **out)
{
    const uint64_t eager_bytes = comm->sizes.eager_bytes;
    struct tt_exchanges *of = NULL;
    struct tt_exchange *x = NULL;
    struct tt_plan gathering = { .key = 0 };
    uint64_t head_bytes;
    bool packs;
    tutti_status st = tt_exchanges_of(comm, &of);

    if (!st)
        st = tt_exchange_choose_heads(comm, of, algo, shape, &gathering);
    if (st)
        return st;
    head_bytes = tt_pieces_head_bytes(shape);
    packs = !shape->to_all && head_bytes <= eager_bytes;
    x = tt_exchange_get(of, shape, packs ? eager_bytes : head_bytes);
    if (!x)
        return tt_fail(TUTTI_ERR_NOMEM,
                       CALL ": out of memory for an exchange of %u ranks and %u pieces",
                       shape->nranks, shape->nsplits);
    x->packs = packs;
    x->gathering = gathering;
    x->rank = comm->rank;
    st = check_processor_may(what, shape->nranks);
    if (!st)
        st = check_recvbuffs(what, shape, (uintptr_t *)x->recv_first);
    if (st) {
        tt_exchange_put(x);
        return st;
    }
    x->what = *what;
    for (uint32_t r = 0; r < shape->nranks; r++)
        x->recvbuffs[r] = what->recvbuffs[r];
    *out = x;
    return TUTTI_OK;
}

static tutti_status dynamic_run(const tutti_dynamic *what, tutti_dtype type, tutti_comm *comm,
                                const tutti_call *call)
{
    tutti_dynamic mine = { .size = sizeof mine };
    struct tt_pieces_shape shape;
    struct tt_call_check t;
    struct tt_exchange *x = NULL;
    tutti_status st = tt_call_check_begin(&t, CALL, TT_ALLTOALLV, comm, call, type);

    if (!st && !what)
        st = tt_fail(TUTTI_ERR_INVALID, CALL ": what is NULL");
    if (!st)
        st = tt_options_take(&mine, sizeof mine, sizeof mine, what, CALL, "what", "tutti_dynamic");
    if (!st)
        st = dynamic_check(&mine, &t);
    if (!st)
        st = tt_pieces_shape_take(&shape, comm->nranks, type, mine.nsplits, mine.max_length,
                                  mine.max_total, CALL);
    if (!st)
        st = dynamic_prepare(&mine, t.call ? t.call->algo : NULL, &shape, comm, &x);
    return st ? st : submit(&t, x);
}

tutti_status tutti_alltoallv_dynamic(const tutti_dynamic *what, tutti_dtype type, tutti_comm *comm,
                                     const tutti_call *call)
{
    tutti_status st = tt_comm_enter(comm, CALL);

    if (st)
        return st;
    st = dynamic_run(what, type, comm, call);
    tt_comm_leave(comm);
    return st;
}
