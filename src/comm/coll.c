/* The collectives and point-to-point calls of tutti.h: checks the arguments, says it as a tt_coll, and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/prng.h"
#include "base/status.h"
#include "comm/comm.h"

/* One call on its way: what every function below fills in, piece by piece. */
struct attempt {
    const char *name;
    tutti_comm *comm;
    const tutti_call *call;     /* NULL, the caller's, or mine: what this release knows of the caller's */
    tutti_call mine;
    tutti_redop op;
    uint64_t *arrays;           /* [4][nranks] of the v calls, freed at the end */
    struct tt_op_conf conf;
};

/* ---- arguments --------------------------------------------------------------------------------------------- */

#define CALL_BYTES_FIRST (offsetof(tutti_call, scale) + sizeof(double))    /* of release 0.1 */

static tutti_status begin(struct attempt *t, const char *name, enum tt_coll_kind kind, tutti_comm *comm,
                          const tutti_call *call, tutti_dtype type)
{
    const size_t elem = tutti_dtype_bytes(type);
    tutti_status st = tt_comm_check(comm, name);

    if (st)
        return st;
    if (!elem)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %d is no type", name, (int)type);
    *t = (struct attempt){ .name = name, .comm = comm, .call = call, .op = TUTTI_SUM };
    if (call && call->size != sizeof *call) {
        st = tt_options_take(&t->mine, sizeof t->mine, CALL_BYTES_FIRST, call, name, "call");
        if (st)
            return st;
        t->call = &t->mine;
    }
    t->conf.coll = (struct tt_coll){
        .kind = kind, .rank = comm->rank, .nranks = comm->nranks, .elem_bytes = (uint32_t)elem, .layout = &comm->layout
    };
    t->conf.dtype = type;
    return TUTTI_OK;
}

static tutti_status set_root(struct attempt *t, int root)
{
    if (root < 0 || (uint32_t)root >= t->comm->nranks)
        return tt_fail(TUTTI_ERR_INVALID, "%s: there is no rank %d among %u", t->name, root, t->comm->nranks);
    t->conf.coll.root = (uint32_t)root;
    return TUTTI_OK;
}

static tutti_status set_op(struct attempt *t, tutti_redop op)
{
    if ((unsigned)op >= TUTTI_REDOP_COUNT)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %d is no operation", t->name, (int)op);
    if (!tt_reduce_defined(t->conf.dtype, op))
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is not defined for type %s", t->name, tutti_redop_name(op),
                       tutti_dtype_name(t->conf.dtype));
    if (op == TUTTI_PREMUL_SUM && (!t->call || t->call->scale == 0))
        return tt_fail(TUTTI_ERR_INVALID, "%s: premul_sum multiplies by tutti_call.scale, %s", t->name,
                       t->call ? "which is 0" : "and no tutti_call is given");
    t->op = op;
    t->conf.redop = op;
    return TUTTI_OK;
}

static tutti_status set_count(struct attempt *t, size_t count)
{
    struct tt_coll *c = &t->conf.coll;

    if (count > (SIZE_MAX >> 1) / c->elem_bytes / c->nranks)
        return tt_fail(TUTTI_ERR_INVALID, "%s: count %zu does not fit the address space", t->name, count);
    c->bytes = (uint64_t)count * c->elem_bytes;
    t->conf.count = count;
    return TUTTI_OK;
}

static tutti_status need_arrays(struct attempt *t)
{
    t->arrays = calloc(4 * (size_t)t->comm->nranks, sizeof *t->arrays);
    return t->arrays ? TUTTI_OK : tt_fail(TUTTI_ERR_NOMEM, "%s: no memory for counts", t->name);
}

/* Takes counts and displacements (NULL: packed) in elements to bytes, at bytes[nranks] and displs[nranks]. */
static tutti_status take_counts(struct attempt *t, const size_t *counts, const size_t *displs, uint64_t *bytes,
                                uint64_t *at, const char *what)
{
    const uint32_t elem = t->conf.coll.elem_bytes;
    uint64_t end = 0;

    if (!counts)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is NULL", t->name, what);
    for (uint32_t r = 0; r < t->comm->nranks; r++) {
        const size_t displ = displs ? displs[r] : end / elem;

        if (counts[r] > (SIZE_MAX >> 2) / elem || displ > (SIZE_MAX >> 2) / elem)
            return tt_fail(TUTTI_ERR_INVALID, "%s: %s[%u] = %zu at %zu does not fit the address space", t->name, what, r, counts[r], displ);
        bytes[r] = (uint64_t)counts[r] * elem;
        at[r] = (uint64_t)displ * elem;
        end = at[r] + bytes[r];
    }
    return TUTTI_OK;
}

/* Where the two buffers are the same memory as tutti.h allows, the call is in place; any other overlap is an error. Sides that a rank
 * does not use are passed as NULL. */
static tutti_status set_buffers(struct attempt *t, const void *src, void *dst, uint64_t src_in_dst, uint64_t dst_in_src)
{
    struct tt_coll *c = &t->conf.coll;
    const uint64_t src_bytes = src ? tt_coll_src_bytes(c) : 0, dst_bytes = dst ? tt_coll_dst_bytes(c) : 0;
    const uint8_t *s = src, *d = dst;

    t->conf.src = src;
    t->conf.dst = dst;
    if (!src_bytes || !dst_bytes)
        return TUTTI_OK;
    if (s == d + src_in_dst && d == s - src_in_dst && !dst_in_src) {
        c->in_place = true;
        return TUTTI_OK;
    }
    if (dst_in_src != UINT64_MAX && s + dst_in_src == d && !src_in_dst) {
        c->in_place = true;
        return TUTTI_OK;
    }
    if (s < d + dst_bytes && d < s + src_bytes)
        return tt_fail(TUTTI_ERR_INVALID, "%s: src (%llu bytes) and dst (%llu bytes) overlap other than in place",
                       t->name, (unsigned long long)src_bytes, (unsigned long long)dst_bytes);
    return TUTTI_OK;
}

static tutti_status need(struct attempt *t, const void *buf, uint64_t bytes, const char *what)
{
    return buf || !bytes ? TUTTI_OK : tt_fail(TUTTI_ERR_INVALID, "%s: %s is NULL, and %llu bytes belong there", t->name, what, (unsigned long long)bytes);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

/* The first pass of a pre-multiplied sum: this rank's input times its scale, in memory of its own (allreduce: in dst). */
static tutti_status scale_input(struct attempt *t, void **scaled)
{
    struct tt_coll *c = &t->conf.coll;
    const uint64_t bytes = tt_coll_src_bytes(c);
    void *room;

    *scaled = NULL;
    if (t->op != TUTTI_PREMUL_SUM || !bytes)
        return TUTTI_OK;
    room = malloc(bytes);
    if (!room)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: no memory for %llu scaled bytes", t->name, (unsigned long long)bytes);
    tt_reduce_scale(room, t->conf.src, bytes / c->elem_bytes, t->conf.dtype, t->call->scale);
    t->conf.src = room;
    c->in_place = false;
    *scaled = room;
    return TUTTI_OK;
}

static int64_t timeout_of(const tutti_comm *comm, const tutti_call *call)
{
    return call && call->timeout_ms ? call->timeout_ms : comm->timeout_ms;
}

static struct tt_plan **recent_of(tutti_comm *comm, enum tt_coll_kind kind, size_t count, int root)
{
    const uint64_t h = (count ^ (uint64_t)kind << 32 ^ (uint64_t)(unsigned)root << 40) * 0x9e3779b97f4a7c15ull;

    return &comm->recent[h >> 60];
}
_Static_assert(TT_RECENT == 16, "four bits of the hash");

/* Whether a call is like those of shape f, but for its buffers, and these are such that there is nothing more to check. */
static bool fits(const struct tt_shape *f, enum tt_coll_kind kind, const void *src, void *dst, size_t count,
                 tutti_dtype type, tutti_redop op, int root)
{
    const uintptr_t s = (uintptr_t)src, d = (uintptr_t)dst;

    if (f->kind != kind || f->count != count || f->dtype != type || f->redop != op || f->root != (unsigned)root)
        return false;
    if ((f->src_bytes && !src) || (f->dst_bytes && !dst))
        return false;
    if (!f->src_bytes || !f->dst_bytes)
        return true;
    return f->in_place ? d - s == f->shift : s >= d + f->dst_bytes || d >= s + f->src_bytes;
}

/* A blocking call like one before, whose operation was kept, goes at once. False: it is none, and takes the long way. */
static bool again(tutti_status *st, enum tt_coll_kind kind, const void *src, void *dst, size_t count, tutti_dtype type,
                  tutti_redop op, int root, tutti_comm *comm, const tutti_call *call)
{
    struct tt_plan *p;

    if (!comm || tt_engine_is_inherited(comm->world->engine) ||
        (call && (call->size != sizeof *call || call->algo || call->request)))
        return false;
    p = *recent_of(comm, kind, count, root);
    if (!p || !p->kept || p->forced || !fits(&p->shape, kind, src, dst, count, type, op, root))
        return false;
    *st = tt_op_again(&p->kept, p->shape.src_bytes ? src : NULL, p->shape.dst_bytes ? dst : NULL, call ? call->tag : 0,
                      timeout_of(comm, call));
    return true;
}

/* Runs a call whose operation is kept in its plan, or may be. */
static tutti_status submit_kept(struct attempt *t, struct tt_plan *plan)
{
    const struct tt_coll *c = &t->conf.coll;
    const uint64_t count = c->bytes / c->elem_bytes;

    if (plan->kept && fits(&plan->shape, c->kind, t->conf.src, t->conf.dst, count, t->conf.dtype, t->op, (int)c->root))
        return tt_op_again(&plan->kept, t->conf.src, t->conf.dst, t->conf.tag, t->conf.timeout_ms);
    tt_op_drop(plan->kept);
    plan->kept = NULL;
    plan->shape = (struct tt_shape){
        .kind = c->kind, .dtype = t->conf.dtype, .redop = t->op, .root = c->root, .count = count,
        .src_bytes = t->conf.src ? tt_coll_src_bytes(c) : 0, .dst_bytes = t->conf.dst ? tt_coll_dst_bytes(c) : 0,
        .in_place = c->in_place, .shift = (uintptr_t)t->conf.dst - (uintptr_t)t->conf.src,
    };
    if (!plan->forced)
        *recent_of(t->comm, c->kind, count, (int)c->root) = plan;
    t->conf.kept = &plan->kept;
    return tt_op_blocking(t->comm->context, &t->conf);
}

static tutti_status submit(struct attempt *t)
{
    const tutti_call *call = t->call;
    tutti_request **request = call ? call->request : NULL;
    struct tt_op *op;
    struct tt_plan *plan;
    void *scaled;
    tutti_status st;

    t->conf.restore = t->comm->restore && t->conf.coll.in_place;
    st = scale_input(t, &scaled);       /* before the plan: a program that reads this is not in place */
    if (st)
        return st;
    st = tt_plan_of(t->comm, &t->conf.coll, call ? call->algo : NULL, &plan);
    if (st) {
        free(scaled);
        return st;
    }
    t->conf.algo = plan->algo;
    t->conf.algo_id = plan->algo_id;
    t->conf.segment_bytes = plan->segment_bytes;
    t->conf.eager_bytes = t->comm->sizes.eager_bytes;
    t->conf.streams = plan->streams;
    t->conf.depth = plan->depth;
    t->conf.timeout_ms = timeout_of(t->comm, call);
    t->conf.owned = scaled;
    if (!request && plan->keeps && t->op != TUTTI_PREMUL_SUM)
        return submit_kept(t, plan);
    if (!request)
        return tt_op_blocking(t->comm->context, &t->conf);
    st = tt_op_start(t->comm->context, &t->conf, &op);
    if (!st)
        *request = (tutti_request *)op;
    return st;
}

/* Submits unless an argument was wrong, and frees what the attempt holds. */
static tutti_status finish(struct attempt *t, tutti_status st)
{
    if (!st)
        st = submit(t);
    free(t->arrays);
    return st;
}

/* ---- the calls ----------------------------------------------------------------------------------------------------- */

tutti_status tutti_allreduce(const void *src, void *dst, size_t count, tutti_dtype type, tutti_redop op,
                             tutti_comm *comm, const tutti_call *call)
{
    struct attempt t;
    tutti_status st;

    if (again(&st, TT_ALLREDUCE, src, dst, count, type, op, 0, comm, call))
        return st;
    st = begin(&t, "tutti_allreduce", TT_ALLREDUCE, comm, call, type);

    if (st)
        return st;
    if (!(st = set_op(&t, op)) && !(st = set_count(&t, count)) && !(st = need(&t, src, t.conf.coll.bytes, "src")) &&
        !(st = need(&t, dst, t.conf.coll.bytes, "dst")))
        st = set_buffers(&t, src, dst, 0, 0);
    return finish(&t, st);
}

tutti_status tutti_reduce(const void *src, void *dst, size_t count, tutti_dtype type, tutti_redop op, int root,
                          tutti_comm *comm, const tutti_call *call)
{
    struct attempt t;
    tutti_status st;

    if (again(&st, TT_REDUCE, src, dst, count, type, op, root, comm, call))
        return st;
    st = begin(&t, "tutti_reduce", TT_REDUCE, comm, call, type);

    if (st)
        return st;
    if ((int)comm->rank != root)
        dst = NULL;
    if (!(st = set_op(&t, op)) && !(st = set_root(&t, root)) && !(st = set_count(&t, count)) &&
        !(st = need(&t, src, t.conf.coll.bytes, "src")) &&
        !(st = need(&t, dst, (int)comm->rank == root ? t.conf.coll.bytes : 0, "dst")))
        st = set_buffers(&t, src, dst, 0, 0);
    return finish(&t, st);
}

tutti_status tutti_reduce_scatter(const void *src, void *dst, size_t count, tutti_dtype type, tutti_redop op,
                                  tutti_comm *comm, const tutti_call *call)
{
    struct attempt t;
    tutti_status st;

    if (again(&st, TT_REDUCE_SCATTER, src, dst, count, type, op, 0, comm, call))
        return st;
    st = begin(&t, "tutti_reduce_scatter", TT_REDUCE_SCATTER, comm, call, type);

    if (st)
        return st;
    if (!(st = set_op(&t, op)) && !(st = set_count(&t, count)) && !(st = need(&t, src, t.conf.coll.bytes, "src")) &&
        !(st = need(&t, dst, t.conf.coll.bytes, "dst")))
        st = set_buffers(&t, src, dst, 0, comm->rank * t.conf.coll.bytes);
    return finish(&t, st);
}

/* What ranks must agree on where counts are many. */
static uint64_t hash_counts(const struct attempt *t, const uint64_t *bytes)
{
    return tt_hash_bytes(bytes, t->comm->nranks * sizeof *bytes, 0);
}

tutti_status tutti_reduce_scatterv(const void *src, void *dst, const size_t *counts, tutti_dtype type, tutti_redop op,
                                   tutti_comm *comm, const tutti_call *call)
{
    struct attempt t;
    tutti_status st = begin(&t, "tutti_reduce_scatterv", TT_REDUCE_SCATTERV, comm, call, type);
    struct tt_coll *c = &t.conf.coll;

    if (st)
        return st;
    if (!(st = set_op(&t, op)) && !(st = need_arrays(&t)) &&
        !(st = take_counts(&t, counts, NULL, t.arrays, t.arrays + comm->nranks, "counts"))) {
        c->send_bytes = t.arrays;
        c->send_displs = t.arrays + comm->nranks;
        t.conf.count = hash_counts(&t, c->send_bytes);
        if (!(st = need(&t, src, tt_coll_src_bytes(c), "src")) && !(st = need(&t, dst, tt_coll_dst_bytes(c), "dst")))
            st = set_buffers(&t, src, dst, 0, c->send_displs[comm->rank]);
    }
    return finish(&t, st);
}

tutti_status tutti_allgather(const void *src, void *dst, size_t count, tutti_dtype type, tutti_comm *comm,
                             const tutti_call *call)
{
    struct attempt t;
    tutti_status st;

    if (again(&st, TT_ALLGATHER, src, dst, count, type, TUTTI_SUM, 0, comm, call))
        return st;
    st = begin(&t, "tutti_allgather", TT_ALLGATHER, comm, call, type);

    if (st)
        return st;
    if (!(st = set_count(&t, count)) && !(st = need(&t, src, t.conf.coll.bytes, "src")) &&
        !(st = need(&t, dst, t.conf.coll.bytes, "dst")))
        st = set_buffers(&t, src, dst, comm->rank * t.conf.coll.bytes, 0);
    return finish(&t, st);
}

tutti_status tutti_allgatherv(const void *src, void *dst, const size_t *counts, const size_t *displs, tutti_dtype type,
                              tutti_comm *comm, const tutti_call *call)
{
    struct attempt t;
    tutti_status st = begin(&t, "tutti_allgatherv", TT_ALLGATHERV, comm, call, type);
    struct tt_coll *c = &t.conf.coll;

    if (st)
        return st;
    if (!(st = need_arrays(&t)) && !(st = take_counts(&t, counts, displs, t.arrays, t.arrays + comm->nranks, "counts"))) {
        c->recv_bytes = t.arrays;
        c->recv_displs = t.arrays + comm->nranks;
        t.conf.count = hash_counts(&t, c->recv_bytes);
        if (!(st = need(&t, src, tt_coll_src_bytes(c), "src")) && !(st = need(&t, dst, tt_coll_dst_bytes(c), "dst")))
            st = set_buffers(&t, src, dst, c->recv_displs[comm->rank], 0);
    }
    return finish(&t, st);
}

tutti_status tutti_broadcast(const void *src, void *dst, size_t count, tutti_dtype type, int root, tutti_comm *comm,
                             const tutti_call *call)
{
    struct attempt t;
    tutti_status st;

    if (again(&st, TT_BROADCAST, src, dst, count, type, TUTTI_SUM, root, comm, call))
        return st;
    st = begin(&t, "tutti_broadcast", TT_BROADCAST, comm, call, type);

    if (st)
        return st;
    if ((int)comm->rank != root)
        src = NULL;
    if (!(st = set_root(&t, root)) && !(st = set_count(&t, count)) &&
        !(st = need(&t, src, (int)comm->rank == root ? t.conf.coll.bytes : 0, "src")) &&
        !(st = need(&t, dst, t.conf.coll.bytes, "dst")))
        st = set_buffers(&t, src, dst, 0, 0);
    return finish(&t, st);
}

tutti_status tutti_gather(const void *src, void *dst, size_t count, tutti_dtype type, int root, tutti_comm *comm,
                          const tutti_call *call)
{
    struct attempt t;
    tutti_status st;

    if (again(&st, TT_GATHER, src, dst, count, type, TUTTI_SUM, root, comm, call))
        return st;
    st = begin(&t, "tutti_gather", TT_GATHER, comm, call, type);

    if (st)
        return st;
    if ((int)comm->rank != root)
        dst = NULL;
    if (!(st = set_root(&t, root)) && !(st = set_count(&t, count)) && !(st = need(&t, src, t.conf.coll.bytes, "src")) &&
        !(st = need(&t, dst, (int)comm->rank == root ? t.conf.coll.bytes : 0, "dst")))
        st = set_buffers(&t, src, dst, comm->rank * t.conf.coll.bytes, 0);
    return finish(&t, st);
}

tutti_status tutti_gatherv(const void *src, void *dst, const size_t *counts, const size_t *displs, tutti_dtype type,
                           int root, tutti_comm *comm, const tutti_call *call)
{
    struct attempt t;
    tutti_status st = begin(&t, "tutti_gatherv", TT_GATHERV, comm, call, type);
    struct tt_coll *c = &t.conf.coll;

    if (st)
        return st;
    if ((int)comm->rank != root)
        dst = NULL;
    if (!(st = set_root(&t, root)) && !(st = need_arrays(&t)) &&
        !(st = take_counts(&t, counts, displs, t.arrays, t.arrays + comm->nranks, "counts"))) {
        c->recv_bytes = t.arrays;
        c->recv_displs = t.arrays + comm->nranks;
        t.conf.count = hash_counts(&t, c->recv_bytes);
        if (!(st = need(&t, src, tt_coll_src_bytes(c), "src")) &&
            !(st = need(&t, dst, (int)comm->rank == root ? tt_coll_dst_bytes(c) : 0, "dst")))
            st = set_buffers(&t, src, dst, c->recv_displs[comm->rank], 0);
    }
    return finish(&t, st);
}

tutti_status tutti_scatter(const void *src, void *dst, size_t count, tutti_dtype type, int root, tutti_comm *comm,
                           const tutti_call *call)
{
    struct attempt t;
    tutti_status st;

    if (again(&st, TT_SCATTER, src, dst, count, type, TUTTI_SUM, root, comm, call))
        return st;
    st = begin(&t, "tutti_scatter", TT_SCATTER, comm, call, type);

    if (st)
        return st;
    if ((int)comm->rank != root)
        src = NULL;
    if (!(st = set_root(&t, root)) && !(st = set_count(&t, count)) &&
        !(st = need(&t, src, (int)comm->rank == root ? t.conf.coll.bytes : 0, "src")) &&
        !(st = need(&t, dst, t.conf.coll.bytes, "dst")))
        st = set_buffers(&t, src, dst, 0, comm->rank * t.conf.coll.bytes);
    return finish(&t, st);
}

tutti_status tutti_scatterv(const void *src, void *dst, const size_t *counts, const size_t *displs, tutti_dtype type,
                            int root, tutti_comm *comm, const tutti_call *call)
{
    struct attempt t;
    tutti_status st = begin(&t, "tutti_scatterv", TT_SCATTERV, comm, call, type);
    struct tt_coll *c = &t.conf.coll;

    if (st)
        return st;
    if ((int)comm->rank != root)
        src = NULL;
    if (!(st = set_root(&t, root)) && !(st = need_arrays(&t)) &&
        !(st = take_counts(&t, counts, displs, t.arrays, t.arrays + comm->nranks, "counts"))) {
        c->send_bytes = t.arrays;
        c->send_displs = t.arrays + comm->nranks;
        t.conf.count = hash_counts(&t, c->send_bytes);
        if (!(st = need(&t, src, (int)comm->rank == root ? tt_coll_src_bytes(c) : 0, "src")) &&
            !(st = need(&t, dst, tt_coll_dst_bytes(c), "dst")))
            st = set_buffers(&t, src, dst, 0, c->send_displs[comm->rank]);
    }
    return finish(&t, st);
}

tutti_status tutti_alltoall(const void *src, void *dst, size_t count, tutti_dtype type, tutti_comm *comm,
                            const tutti_call *call)
{
    struct attempt t;
    tutti_status st;

    if (again(&st, TT_ALLTOALL, src, dst, count, type, TUTTI_SUM, 0, comm, call))
        return st;
    st = begin(&t, "tutti_alltoall", TT_ALLTOALL, comm, call, type);

    if (st)
        return st;
    if (!(st = set_count(&t, count)) && !(st = need(&t, src, t.conf.coll.bytes, "src")) &&
        !(st = need(&t, dst, t.conf.coll.bytes, "dst")))
        st = set_buffers(&t, src, dst, 0, 0);
    return finish(&t, st);
}

tutti_status tutti_alltoallv(const void *src, const size_t *send_counts, const size_t *send_displs, void *dst,
                             const size_t *recv_counts, const size_t *recv_displs, tutti_dtype type, tutti_comm *comm,
                             const tutti_call *call)
{
    struct attempt t;
    tutti_status st = begin(&t, "tutti_alltoallv", TT_ALLTOALLV, comm, call, type);
    struct tt_coll *c = &t.conf.coll;
    const uint32_t n = st ? 0 : comm->nranks;

    if (st)
        return st;
    if (!(st = need_arrays(&t)) && !(st = take_counts(&t, send_counts, send_displs, t.arrays, t.arrays + n, "send_counts")) &&
        !(st = take_counts(&t, recv_counts, recv_displs, t.arrays + 2 * n, t.arrays + 3 * n, "recv_counts"))) {
        c->send_bytes = t.arrays;
        c->send_displs = t.arrays + n;
        c->recv_bytes = t.arrays + 2 * n;
        c->recv_displs = t.arrays + 3 * n;
        if (!(st = need(&t, src, tt_coll_src_bytes(c), "src")) && !(st = need(&t, dst, tt_coll_dst_bytes(c), "dst")))
            st = set_buffers(&t, src, dst, UINT64_MAX, UINT64_MAX);
        if (!st && c->send_bytes[comm->rank] != c->recv_bytes[comm->rank])
            st = tt_fail(TUTTI_ERR_INVALID, "tutti_alltoallv: rank %u sends itself %llu bytes but receives %llu",
                         comm->rank, (unsigned long long)c->send_bytes[comm->rank],
                         (unsigned long long)c->recv_bytes[comm->rank]);
    }
    return finish(&t, st);
}

tutti_status tutti_barrier(tutti_comm *comm, const tutti_call *call)
{
    struct attempt t;
    tutti_status st;

    if (again(&st, TT_BARRIER, NULL, NULL, 0, TUTTI_U8, TUTTI_SUM, 0, comm, call))
        return st;
    st = begin(&t, "tutti_barrier", TT_BARRIER, comm, call, TUTTI_U8);

    return st ? st : finish(&t, TUTTI_OK);
}

/* ---- point to point ---------------------------------------------------------------------------------------------------- */

static tutti_status prepare_p2p(struct attempt *t, enum tt_coll_kind kind, const void *src, void *dst, size_t count,
                                int peer, uint32_t tag)
{
    tutti_status st;

    if ((st = set_root(t, peer)) || (st = set_count(t, count)))
        return st;
    if ((uint32_t)peer == t->comm->rank)
        return tt_fail(TUTTI_ERR_INVALID, "%s: rank %d is this rank", t->name, peer);
    st = need(t, kind == TT_SEND ? src : dst, t->conf.coll.bytes, "buf");
    if (st)
        return st;
    t->conf.src = src;
    t->conf.dst = dst;
    t->conf.count = t->conf.coll.bytes;
    t->conf.tag = tag;
    return TUTTI_OK;
}

tutti_status tutti_send(const void *buf, size_t count, tutti_dtype type, int peer, tutti_comm *comm,
                        const tutti_call *call)
{
    struct attempt t;
    tutti_status st;

    if (again(&st, TT_SEND, buf, NULL, count, type, TUTTI_SUM, peer, comm, call))
        return st;
    st = begin(&t, "tutti_send", TT_SEND, comm, call, type);

    return st ? st : finish(&t, prepare_p2p(&t, TT_SEND, buf, NULL, count, peer, t.call ? t.call->tag : 0));
}

tutti_status tutti_recv(void *buf, size_t count, tutti_dtype type, int peer, tutti_comm *comm, const tutti_call *call)
{
    struct attempt t;
    tutti_status st;

    if (again(&st, TT_RECV, NULL, buf, count, type, TUTTI_SUM, peer, comm, call))
        return st;
    st = begin(&t, "tutti_recv", TT_RECV, comm, call, type);

    return st ? st : finish(&t, prepare_p2p(&t, TT_RECV, NULL, buf, count, peer, t.call ? t.call->tag : 0));
}

static tutti_status start_member(const tutti_p2p *op, tutti_comm *comm, const tutti_call *call, tutti_request **request)
{
    const tutti_call mine = {
        .size = sizeof mine, .request = request, .timeout_ms = call ? call->timeout_ms : 0, .tag = op->tag,
    };

    return op->is_recv ? tutti_recv(op->buf, op->count, op->type, op->peer, comm, &mine)
                       : tutti_send(op->buf, op->count, op->type, op->peer, comm, &mine);
}

/* Whether a member can be started, as far as its arguments say: then all are checked before the first one starts. */
static tutti_status check_member(const tutti_p2p *op, size_t i, tutti_comm *comm, const tutti_call *call)
{
    const enum tt_coll_kind kind = op->is_recv ? TT_RECV : TT_SEND;
    struct attempt t = { .comm = comm };
    char name[48];
    tutti_status st;

    snprintf(name, sizeof name, "tutti_group: ops[%zu]", i);
    st = begin(&t, name, kind, comm, call, op->type);
    return st ? st : prepare_p2p(&t, kind, op->buf, op->buf, op->count, op->peer, op->tag);
}

tutti_status tutti_group(const tutti_p2p *ops, size_t n, tutti_comm *comm, const tutti_call *call)
{
    tutti_status st = tt_comm_check(comm, "tutti_group"), waited;
    tutti_request **requests;
    size_t started = 0;

    if (st || n == 0)
        return st;
    if (!ops || (call && call->request))
        return tt_fail(TUTTI_ERR_INVALID, "tutti_group: %s", ops ? "call.request must be NULL" : "ops is NULL");
    for (size_t i = 0; i < n && !st; i++)
        st = check_member(&ops[i], i, comm, call);
    if (st)
        return st;
    requests = calloc(n, sizeof *requests);
    if (!requests)
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_group: no memory for %zu members", n);
    while (started < n && !st) {
        st = start_member(&ops[started], comm, call, &requests[started]);
        started += !st;
    }
    if (st && started) {
        char why[TT_ERROR_BYTES];

        snprintf(why, sizeof why, "a member of a group could not be started: %s", tutti_last_error());
        tt_context_fail(comm->context, TUTTI_ERR_ABORTED, why);
    }
    waited = tutti_wait_all(requests, started);
    free(requests);
    return st ? st : waited;
}

/* ---- requests ------------------------------------------------------------------------------------------------------------- */

static tutti_status check_request(const tutti_request *request, const char *call)
{
    if (!request)
        return tt_fail(TUTTI_ERR_INVALID, "%s: the request is NULL", call);
    if (tt_op_is_inherited((const struct tt_op *)request))
        return tt_fail(TUTTI_ERR_FORKED, "%s: this process is the child of a fork; requests stay with the parent", call);
    return TUTTI_OK;
}

tutti_status tutti_test(tutti_request *request)
{
    struct tt_op *op = (struct tt_op *)request;
    const tutti_status st = check_request(request, "tutti_test");

    if (st)
        return st;
    return tt_op_test(op) ? tt_op_status(op) : TUTTI_PENDING;
}

tutti_status tutti_wait(tutti_request *request)
{
    struct tt_op *op = (struct tt_op *)request;
    tutti_status st = check_request(request, "tutti_wait");

    if (st)
        return st;
    tt_op_wait(op);
    st = tt_op_status(op);
    tt_op_free(op);
    return st;
}

tutti_status tutti_wait_all(tutti_request **requests, size_t n)
{
    char why[TT_ERROR_BYTES];
    tutti_status first = TUTTI_OK;

    if (!requests && n)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_wait_all: requests is NULL");
    for (size_t i = 0; i < n; i++) {
        tutti_status st;

        if (!requests[i])
            continue;
        st = tutti_wait(requests[i]);
        requests[i] = NULL;
        if (st && !first) {
            first = st;
            snprintf(why, sizeof why, "%s", tutti_last_error());
        }
    }
    return first ? tt_fail_again(first, why) : TUTTI_OK;
}

tutti_status tutti_wait_any(tutti_request **requests, size_t n, size_t *index)
{
    tutti_request *over;
    bool any = false;
    size_t i;

    if (!requests || !index)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_wait_any: %s is NULL", requests ? "index" : "requests");
    for (i = 0; i < n; i++) {
        const tutti_status st = requests[i] ? check_request(requests[i], "tutti_wait_any") : TUTTI_OK;

        if (st)
            return st;
        any |= requests[i] != NULL;
    }
    if (!any)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_wait_any: there is no request");
    i = tt_op_wait_any((struct tt_op **)requests, n);
    *index = i;
    over = requests[i];
    requests[i] = NULL;
    return tutti_wait(over);
}
