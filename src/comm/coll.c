/* The collectives of tutti.h: each checks its arguments, describes the call as a tt_coll, and
 * runs it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/status.h"
#include "comm/call.h"

/* ---- buffers --------------------------------------------------------------------------------- */

/* How src and dst may coincide: the position of this rank's block. */
enum in_place { NEVER, WHOLE, SRC_IN_DST, DST_IN_SRC };

/* Sets the buffers that this rank uses. own_at: offset of its block in the larger one. If they
 * coincide as tutti.h permits, the call is in place; any other overlap is an error. */
static tutti_status take_buffers(struct tt_call_check *t, const void *src, void *dst,
                                 enum in_place how, uint64_t own_at)
{
    struct tt_coll *c = &t->conf.coll;
    const uint64_t src_bytes = tt_coll_src_bytes(c), dst_bytes = tt_coll_dst_bytes(c);
    const uintptr_t s = (uintptr_t)src, d = (uintptr_t)dst;
    tutti_status st;

    if ((st = tt_call_check_need(t, src, src_bytes, "src")) ||
        (st = tt_call_check_need(t, dst, dst_bytes, "dst")))
        return st;
    t->conf.src = src_bytes ? src : NULL;
    t->conf.dst = dst_bytes ? dst : NULL;
    if (!src_bytes || !dst_bytes)
        return TUTTI_OK;
    c->in_place = how != NEVER &&
                  s + (how == DST_IN_SRC ? own_at : 0) == d + (how == SRC_IN_DST ? own_at : 0);
    if (!c->in_place && s < d + dst_bytes && d < s + src_bytes)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: src (%llu bytes) and dst (%llu bytes) overlap, but are not in place",
                       t->name, (unsigned long long)src_bytes, (unsigned long long)dst_bytes);
    return TUTTI_OK;
}

/* ---- blocks of one size ---------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool rooted;
    enum in_place in_place;
} forms[TT_COLL_KINDS] = {
    [TT_ALLREDUCE] = { "tutti_allreduce", false, WHOLE },
    [TT_REDUCE] = { "tutti_reduce", true, WHOLE },
    [TT_REDUCE_SCATTER] = { "tutti_reduce_scatter", false, DST_IN_SRC },
    [TT_REDUCE_SCATTERV] = { "tutti_reduce_scatterv", false, DST_IN_SRC },
    [TT_ALLGATHER] = { "tutti_allgather", false, SRC_IN_DST },
    [TT_ALLGATHERV] = { "tutti_allgatherv", false, SRC_IN_DST },
    [TT_BROADCAST] = { "tutti_broadcast", true, WHOLE },
    [TT_GATHER] = { "tutti_gather", true, SRC_IN_DST },
    [TT_GATHERV] = { "tutti_gatherv", true, SRC_IN_DST },
    [TT_SCATTER] = { "tutti_scatter", true, DST_IN_SRC },
    [TT_SCATTERV] = { "tutti_scatterv", true, DST_IN_SRC },
    [TT_ALLTOALL] = { "tutti_alltoall", false, WHOLE },
    [TT_ALLTOALLV] = { "tutti_alltoallv", false, WHOLE },
};

/* Checks that are common to all calls. */
static tutti_status coll_begin(struct tt_call_check *t, enum tt_coll_kind kind, tutti_dtype type,
                               tutti_redop op, int root, tutti_comm *comm, const tutti_call *call)
{
    tutti_status st = tt_call_check_begin(t, forms[kind].name, kind, comm, call, type);

    if (!st && tt_coll_reduces(kind))
        st = tt_call_check_op(t, op);
    if (!st && forms[kind].rooted)
        st = tt_call_check_root(t, root);
    return st;
}

static tutti_status coll_run_blocks(enum tt_coll_kind kind, const void *src, void *dst,
                                    size_t count, tutti_dtype type, tutti_redop op, int root,
                                    tutti_comm *comm, const tutti_call *call)
{
    struct tt_call_check t;
    tutti_status st = coll_begin(&t, kind, type, op, root, comm, call);

    if (st || (st = tt_call_check_count(&t, count)) ||
        (st = take_buffers(&t, src, dst, forms[kind].in_place, comm->rank * t.conf.coll.bytes)))
        return st;
    return tt_call_check_finish(&t, TUTTI_OK);
}

/* Short repeated calls only use the fast path of tt_call_check_again. */
static tutti_status coll_run(enum tt_coll_kind kind, const void *src, void *dst, size_t count,
                             tutti_dtype type, tutti_redop op, int root, tutti_comm *comm,
                             const tutti_call *call)
{
    tutti_status st = tt_comm_enter(comm, forms[kind].name);

    if (st)
        return st;
    if (!tt_call_check_again(&st, kind, src, dst, count, type, op, root, comm, call))
        st = coll_run_blocks(kind, src, dst, count, type, op, root, comm, call);
    tt_comm_leave(comm);
    return st;
}

tutti_status tutti_allreduce(const void *src, void *dst, size_t count, tutti_dtype type,
                             tutti_redop op, tutti_comm *comm, const tutti_call *call)
{
    return coll_run(TT_ALLREDUCE, src, dst, count, type, op, 0, comm, call);
}

tutti_status tutti_reduce(const void *src, void *dst, size_t count, tutti_dtype type,
                          tutti_redop op, int root, tutti_comm *comm, const tutti_call *call)
{
    return coll_run(TT_REDUCE, src, dst, count, type, op, root, comm, call);
}

tutti_status tutti_reduce_scatter(const void *src, void *dst, size_t count, tutti_dtype type,
                                  tutti_redop op, tutti_comm *comm, const tutti_call *call)
{
    return coll_run(TT_REDUCE_SCATTER, src, dst, count, type, op, 0, comm, call);
}

tutti_status tutti_allgather(const void *src, void *dst, size_t count, tutti_dtype type,
                             tutti_comm *comm, const tutti_call *call)
{
    return coll_run(TT_ALLGATHER, src, dst, count, type, TUTTI_SUM, 0, comm, call);
}

tutti_status tutti_broadcast(const void *src, void *dst, size_t count, tutti_dtype type, int root,
                             tutti_comm *comm, const tutti_call *call)
{
    return coll_run(TT_BROADCAST, src, dst, count, type, TUTTI_SUM, root, comm, call);
}

tutti_status tutti_gather(const void *src, void *dst, size_t count, tutti_dtype type, int root,
                          tutti_comm *comm, const tutti_call *call)
{
    return coll_run(TT_GATHER, src, dst, count, type, TUTTI_SUM, root, comm, call);
}

tutti_status tutti_scatter(const void *src, void *dst, size_t count, tutti_dtype type, int root,
                           tutti_comm *comm, const tutti_call *call)
{
    return coll_run(TT_SCATTER, src, dst, count, type, TUTTI_SUM, root, comm, call);
}

tutti_status tutti_alltoall(const void *src, void *dst, size_t count, tutti_dtype type,
                            tutti_comm *comm, const tutti_call *call)
{
    return coll_run(TT_ALLTOALL, src, dst, count, type, TUTTI_SUM, 0, comm, call);
}

tutti_status tutti_barrier(tutti_comm *comm, const tutti_call *call)
{
    struct tt_call_check t;
    tutti_status st = tt_comm_enter(comm, "tutti_barrier");

    if (st)
        return st;
    if (!tt_call_check_again(&st, TT_BARRIER, NULL, NULL, 0, TUTTI_U8, TUTTI_SUM, 0, comm, call)) {
        st = tt_call_check_begin(&t, "tutti_barrier", TT_BARRIER, comm, call, TUTTI_U8);
        st = st ? st : tt_call_check_finish(&t, TUTTI_OK);
    }
    tt_comm_leave(comm);
    return st;
}

/* ---- blocks of any sizes --------------------------------------------------------------------- */

static tutti_status need_arrays(struct tt_call_check *t)
{
    t->arrays = calloc(4 * (size_t)t->comm->nranks, sizeof *t->arrays);
    return t->arrays ? TUTTI_OK : tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for counts", t->name);
}

/* Converts counts and displacements (NULL: packed) from elements to bytes: bytes[nranks] and
 * displs[nranks]. */
static tutti_status take_counts(struct tt_call_check *t, const size_t *counts, const size_t *displs,
                                uint64_t *bytes, uint64_t *at, const char *what)
{
    const uint32_t elem = t->conf.coll.elem_bytes;
    uint64_t end = 0;

    if (!counts)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is NULL", t->name, what);
    for (uint32_t r = 0; r < t->comm->nranks; r++) {
        const size_t displ = displs ? displs[r] : end / elem;

        if (counts[r] > (SIZE_MAX >> 2) / elem || displ > (SIZE_MAX >> 2) / elem)
            return tt_fail(TUTTI_ERR_INVALID,
                           "%s: %s[%u] = %zu at displacement %zu does not fit in the address space",
                           t->name, what, r, counts[r], displ);
        bytes[r] = (uint64_t)counts[r] * elem;
        at[r] = (uint64_t)displ * elem;
        end = at[r] + bytes[r];
    }
    return TUTTI_OK;
}

struct block {
    uint64_t at, end;
    uint32_t rank;
};

static int by_position(const void *a, const void *b)
{
    const struct block *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static tutti_status fail_overlap(const struct tt_call_check *t, const struct block *a,
                                 const struct block *b)
{
    const uint64_t elem = t->conf.coll.elem_bytes;
    const struct block *low = a->rank < b->rank ? a : b, *high = low == a ? b : a;

    return tt_fail(TUTTI_ERR_INVALID,
                   "%s: blocks of dst overlap: rank %u has elements %" PRIu64 " to %" PRIu64
                   ", rank %u has elements %" PRIu64 " to %" PRIu64,
                   t->name, low->rank, low->at / elem, low->end / elem - 1, high->rank,
                   high->at / elem, high->end / elem - 1);
}

/* Checks blocks that are not in ascending order: sorts them by offset, and fails if two overlap. */
static tutti_status check_sorted(const struct tt_call_check *t, const uint64_t *bytes,
                                 const uint64_t *at)
{
    struct block *blocks = malloc(t->comm->nranks * sizeof *blocks);
    tutti_status st = TUTTI_OK;
    uint32_t n = 0;

    if (!blocks)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for the overlap check of %u blocks",
                       t->name, t->comm->nranks);
    for (uint32_t r = 0; r < t->comm->nranks; r++)
        if (bytes[r])
            blocks[n++] = (struct block){ .at = at[r], .end = at[r] + bytes[r], .rank = r };
    qsort(blocks, n, sizeof *blocks, by_position);
    for (uint32_t i = 1; i < n && !st; i++)
        if (blocks[i].at < blocks[i - 1].end)
            st = fail_overlap(t, &blocks[i - 1], &blocks[i]);
    free(blocks);
    return st;
}

/* INVALID if two of the blocks that dst receives overlap. Blocks in ascending order need one
 * pass. */
static tutti_status check_apart(const struct tt_call_check *t, const uint64_t *bytes,
                                const uint64_t *at)
{
    uint64_t end = 0;

    for (uint32_t r = 0; r < t->comm->nranks; r++) {
        if (!bytes[r])
            continue;
        if (at[r] < end)
            return check_sorted(t, bytes, at);
        end = at[r] + bytes[r];
    }
    return TUTTI_OK;
}

/* Returns the hash that ranks compare instead of their counts. */
static uint64_t hash_counts(const struct tt_call_check *t, const uint64_t *bytes)
{
    return tt_hash_bytes(bytes, t->comm->nranks * sizeof *bytes, 0);
}

/* Sets the blocks: those of src if it contains dst in place, else those of dst. */
static tutti_status take_blocks(struct tt_call_check *t, const void *src, void *dst,
                                const size_t *counts, const size_t *displs)
{
    struct tt_coll *c = &t->conf.coll;
    const uint32_t n = t->comm->nranks;
    const enum in_place in_place = forms[c->kind].in_place;
    tutti_status st;

    if ((st = need_arrays(t)) ||
        (st = take_counts(t, counts, displs, t->arrays, t->arrays + n, "counts")))
        return st;
    if (in_place != DST_IN_SRC && (st = check_apart(t, t->arrays, t->arrays + n)))
        return st;
    *(in_place == DST_IN_SRC ? &c->send_bytes : &c->recv_bytes) = t->arrays;
    *(in_place == DST_IN_SRC ? &c->send_displs : &c->recv_displs) = t->arrays + n;
    t->conf.count = hash_counts(t, t->arrays);
    return take_buffers(t, src, dst, in_place, t->arrays[n + c->rank]);
}

static tutti_status coll_run_v(enum tt_coll_kind kind, const void *src, void *dst,
                               const size_t *counts, const size_t *displs, tutti_dtype type,
                               tutti_redop op, int root, tutti_comm *comm, const tutti_call *call)
{
    struct tt_call_check t;
    tutti_status st = tt_comm_enter(comm, forms[kind].name);

    if (st)
        return st;
    st = coll_begin(&t, kind, type, op, root, comm, call);
    st = st ? st : tt_call_check_finish(&t, take_blocks(&t, src, dst, counts, displs));
    tt_comm_leave(comm);
    return st;
}

tutti_status tutti_reduce_scatterv(const void *src, void *dst, const size_t *counts,
                                   tutti_dtype type, tutti_redop op, tutti_comm *comm,
                                   const tutti_call *call)
{
    return coll_run_v(TT_REDUCE_SCATTERV, src, dst, counts, NULL, type, op, 0, comm, call);
}

tutti_status tutti_allgatherv(const void *src, void *dst, const size_t *counts,
                              const size_t *displs, tutti_dtype type, tutti_comm *comm,
                              const tutti_call *call)
{
    return coll_run_v(TT_ALLGATHERV, src, dst, counts, displs, type, TUTTI_SUM, 0, comm, call);
}

tutti_status tutti_gatherv(const void *src, void *dst, const size_t *counts, const size_t *displs,
                           tutti_dtype type, int root, tutti_comm *comm, const tutti_call *call)
{
    return coll_run_v(TT_GATHERV, src, dst, counts, displs, type, TUTTI_SUM, root, comm, call);
}

tutti_status tutti_scatterv(const void *src, void *dst, const size_t *counts, const size_t *displs,
                            tutti_dtype type, int root, tutti_comm *comm, const tutti_call *call)
{
    return coll_run_v(TT_SCATTERV, src, dst, counts, displs, type, TUTTI_SUM, root, comm, call);
}

/* Sets the blocks of an alltoallv, whose sizes may differ between sends and receives. */
static tutti_status take_both_blocks(struct tt_call_check *t, const size_t *send_counts,
                                     const size_t *send_displs, const size_t *recv_counts,
                                     const size_t *recv_displs)
{
    struct tt_coll *c = &t->conf.coll;
    const uint32_t n = t->comm->nranks;
    tutti_status st;

    if ((st = need_arrays(t)) ||
        (st = take_counts(t, send_counts, send_displs, t->arrays, t->arrays + n, "send_counts")) ||
        (st = take_counts(t, recv_counts, recv_displs, t->arrays + 2 * n, t->arrays + 3 * n,
                          "recv_counts")) ||
        (st = check_apart(t, t->arrays + 2 * n, t->arrays + 3 * n)))
        return st;
    c->send_bytes = t->arrays;
    c->send_displs = t->arrays + n;
    c->recv_bytes = t->arrays + 2 * n;
    c->recv_displs = t->arrays + 3 * n;
    if (c->send_bytes[c->rank] != c->recv_bytes[c->rank])
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_alltoallv: rank %u sends %llu bytes to itself, but receives %llu "
                       "bytes from itself",
                       c->rank, (unsigned long long)c->send_bytes[c->rank],
                       (unsigned long long)c->recv_bytes[c->rank]);
    return TUTTI_OK;
}

/* In place, a received block replaces the block sent to the same rank. */
static enum in_place in_place_of_both(const struct tt_coll *c)
{
    const size_t bytes = c->nranks * sizeof *c->send_bytes;
    const bool alike = memcmp(c->send_bytes, c->recv_bytes, bytes) == 0 &&
                       memcmp(c->send_displs, c->recv_displs, bytes) == 0;

    return alike ? forms[TT_ALLTOALLV].in_place : NEVER;
}

tutti_status tutti_alltoallv(const void *src, const size_t *send_counts, const size_t *send_displs,
                             void *dst, const size_t *recv_counts, const size_t *recv_displs,
                             tutti_dtype type, tutti_comm *comm, const tutti_call *call)
{
    struct tt_call_check t;
    tutti_status st = tt_comm_enter(comm, forms[TT_ALLTOALLV].name);

    if (st)
        return st;
    st = coll_begin(&t, TT_ALLTOALLV, type, TUTTI_SUM, 0, comm, call);
    if (!st) {
        st = take_both_blocks(&t, send_counts, send_displs, recv_counts, recv_displs);
        if (!st)
            st = take_buffers(&t, src, dst, in_place_of_both(&t.conf.coll), 0);
        st = tt_call_check_finish(&t, st);
    }
    tt_comm_leave(comm);
    return st;
}
