#include "comm/call.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/options.h"
#include "base/status.h"
#include "engine/link.h"
#include "wire/registry.h"

/* ---- arguments ------------------------------------------------------------------------------- */

#define CALL_BYTES_FIRST (offsetof(tutti_call, scale) + sizeof(double))    /* size in release 0.1 */

tutti_status tt_call_check_begin(struct tt_call_check *t, const char *name, enum tt_coll_kind kind,
                                 tutti_comm *comm, const tutti_call *call, tutti_dtype type)
{
    const size_t elem = tutti_dtype_bytes(type);
    tutti_status st = tt_comm_check(comm, name);

    if (st)
        return st;
    if (!elem)
        return tt_fail(TUTTI_ERR_INVALID, "%s: unknown type %d", name, (int)type);
    *t = (struct tt_call_check){ .name = name, .comm = comm, .call = call, .op = TUTTI_SUM };
    if (call && call->size != sizeof *call) {
        st = tt_options_take(&t->mine, sizeof t->mine, CALL_BYTES_FIRST, call, name, "call",
                             "tutti_call");
        if (st)
            return st;
        t->call = &t->mine;
    }
    t->conf.coll = (struct tt_coll){ .kind = kind,
                                     .rank = comm->rank,
                                     .nranks = comm->nranks,
                                     .elem_bytes = (uint32_t)elem,
                                     .layout = &comm->layout };
    tt_chunks_apply(&comm->world->chunks, &t->conf.coll);
    t->conf.dtype = type;
    return TUTTI_OK;
}

tutti_status tt_call_check_root(struct tt_call_check *t, int root)
{
    if (root < 0 || (uint32_t)root >= t->comm->nranks)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: rank %d is out of range: the communicator has %u ranks", t->name, root,
                       t->comm->nranks);
    t->conf.coll.root = (uint32_t)root;
    return TUTTI_OK;
}

bool tt_call_check_is_self(const struct tt_call_check *t)
{
    const struct tt_coll *c = &t->conf.coll;

    return (c->kind == TT_SEND || c->kind == TT_RECV) && c->root == c->rank;
}

tutti_status tt_call_check_op(struct tt_call_check *t, tutti_redop op)
{
    if ((unsigned)op >= TUTTI_REDOP_COUNT)
        return tt_fail(TUTTI_ERR_INVALID, "%s: unknown reduction operation %d", t->name, (int)op);
    if (!tt_reduce_defined(t->conf.dtype, op))
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is not defined for type %s", t->name,
                       tutti_redop_name(op), tutti_dtype_name(t->conf.dtype));
    if (op == TUTTI_PREMUL_SUM && (!t->call || tt_reduce_scale_is_zero(t->call->scale)))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: premul_sum requires tutti_call.scale: %s", t->name,
                       t->call ? "it is 0" : "call is NULL");
    if (t->call && t->call->divisor && (op != TUTTI_AVG || t->call->divisor > UINT32_MAX))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: tutti_call.divisor is %llu with op %s: it must be at most 2^32 - 1, "
                       "and 0 unless op is avg",
                       t->name, (unsigned long long)t->call->divisor, tutti_redop_name(op));
    t->conf.divisor = t->call ? (uint32_t)t->call->divisor : 0;
    t->op = op;
    t->conf.redop = op;
    return TUTTI_OK;
}

tutti_status tt_call_check_count(struct tt_call_check *t, size_t count)
{
    struct tt_coll *c = &t->conf.coll;

    if (count > TT_DESC_COUNT_MAX / c->elem_bytes ||
        count > (SIZE_MAX >> 1) / c->elem_bytes / c->nranks)
        return tt_fail(TUTTI_ERR_INVALID, "%s: count %zu does not fit in the address space",
                       t->name, count);
    c->bytes = (uint64_t)count * c->elem_bytes;
    t->conf.count = count;
    return TUTTI_OK;
}

tutti_status tt_call_check_need(const struct tt_call_check *t, const void *buf, uint64_t bytes,
                                const char *what)
{
    if (!buf && bytes)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is NULL: %llu bytes are required", t->name, what,
                       (unsigned long long)bytes);
    if (!tt_memory_can_be(buf, bytes))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: %s at %p with %llu bytes does not fit in the address space", t->name,
                       what, buf, (unsigned long long)bytes);
    return TUTTI_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Scales this rank's input for a pre-multiplied sum, into a buffer of the call. */
static tutti_status scale_input(struct tt_call_check *t, void **scaled)
{
    struct tt_coll *c = &t->conf.coll;
    const uint64_t bytes = tt_coll_src_bytes(c);
    void *room;

    *scaled = NULL;
    if (t->op != TUTTI_PREMUL_SUM || !bytes)
        return TUTTI_OK;
    room = malloc(bytes);
    if (!room)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "%s: out of memory for a scaled copy of the input (%llu bytes)", t->name,
                       (unsigned long long)bytes);
    tt_reduce_scale(room, t->conf.src, bytes / c->elem_bytes, t->conf.dtype, t->call->scale);
    t->conf.src = room;
    c->in_place = false;
    *scaled = room;
    return TUTTI_OK;
}

/* Divides the input of an average on a single rank, into a buffer of the call. Without other
 * ranks there is no reduction step that could divide. */
static tutti_status divide_input(struct tt_call_check *t, void **divided)
{
    static const uint64_t zeros[512];
    struct tt_coll *c = &t->conf.coll;
    const uint64_t bytes = tt_coll_src_bytes(c);
    uint8_t *room;

    *divided = NULL;
    if (t->op != TUTTI_AVG || t->conf.divisor <= 1 || c->nranks > 1 || !bytes)
        return TUTTI_OK;
    room = malloc(bytes);
    if (!room)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "%s: out of memory for a copy of the input that is divided for the average "
                       "(%llu bytes)",
                       t->name, (unsigned long long)bytes);
    for (uint64_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < sizeof zeros ? bytes - at : sizeof zeros;
        tt_reduce_kernel(t->conf.dtype, TUTTI_AVG, true)(room + at, NULL,
                                                         (const uint8_t *)t->conf.src + at, zeros,
                                                         n / c->elem_bytes, 0, t->conf.divisor);
    }
    t->conf.src = room;
    c->in_place = false;
    *divided = room;
    return TUTTI_OK;
}

/* ---- quantized calls ------------------------------------------------------------------------- */

bool tt_call_check_can_quantize(enum tt_coll_kind kind)
{
    return kind == TT_ALLREDUCE || kind == TT_REDUCE || kind == TT_REDUCE_SCATTER ||
           kind == TT_ALLGATHER || kind == TT_BROADCAST;
}

void tt_call_check_pack(struct tt_coll *c, const struct tt_packed *packed, uint64_t count,
                        bool feedback)
{
    c->elem_bytes = packed->bytes;
    c->bytes = tt_packed_blocks(packed, count) * packed->bytes;
    c->in_place = false;
    c->quantized = feedback ? TT_QUANTIZED_FEEDBACK : TT_QUANTIZED;
}

/* Checks that the residuals of error feedback are given and do not overlap the buffers. */
static tutti_status check_feedback(const struct tt_call_check *t)
{
    const struct tt_coll *c = &t->conf.coll;
    const uint64_t src_bytes = t->conf.src ? tt_coll_src_bytes(c) : 0,
                   dst_bytes = t->conf.dst ? tt_coll_dst_bytes(c) : 0;
    const uintptr_t f = (uintptr_t)t->call->error_feedback, s = (uintptr_t)t->conf.src,
                    d = (uintptr_t)t->conf.dst;
    const uint64_t bytes = src_bytes / c->elem_bytes * sizeof(float);

    if ((src_bytes && f < s + src_bytes && s < f + bytes) ||
        (dst_bytes && f < d + dst_bytes && d < f + bytes))
        return tt_fail(TUTTI_ERR_INVALID, "%s: error_feedback (%llu bytes) overlaps src or dst",
                       t->name, (unsigned long long)bytes);
    return TUTTI_OK;
}

/* Converts the call to packed blocks, if it is quantized. */
static tutti_status quantize(struct tt_call_check *t)
{
    const tutti_call *call = t->call;
    struct tt_coll *c = &t->conf.coll;
    struct tt_op_quant *q = &t->conf.quant;
    tutti_status st;

    if (!call || (!call->quant && !call->error_feedback))
        return TUTTI_OK;
    if ((unsigned)call->quant >= TUTTI_QUANT_COUNT)
        return tt_fail(TUTTI_ERR_INVALID, "%s: call.quant is %d: must be 0 to %d", t->name,
                       (int)call->quant, TUTTI_QUANT_COUNT - 1);
    if (!call->quant)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: call.error_feedback is set, but call.quant is TUTTI_QUANT_NONE",
                       t->name);
    if (!tt_call_check_can_quantize(c->kind))
        return tt_fail(TUTTI_ERR_UNSUPPORTED,
                       "%s: this call does not support quantization (call.quant is %s)", t->name,
                       tutti_quant_name(call->quant));
    if (tt_coll_reduces(c->kind) && t->op != TUTTI_SUM && t->op != TUTTI_AVG)
        return tt_fail(TUTTI_ERR_UNSUPPORTED,
                       "%s: quantization %s supports only sum and avg, not %s", t->name,
                       tutti_quant_name(call->quant), tutti_redop_name(t->op));
    if (!tt_packed_init(&q->packed, (enum tt_quant_codec)(call->quant - 1), t->conf.dtype))
        return tt_fail(TUTTI_ERR_UNSUPPORTED,
                       "%s: type %s cannot be quantized: must be f16, bf16, f32 or f64", t->name,
                       tutti_dtype_name(t->conf.dtype));
    if (call->error_feedback && (st = check_feedback(t)))
        return st;
    q->quant = call->quant;
    q->residual = call->error_feedback;
    q->count = t->conf.count;
    q->ahead = c->kind == TT_ALLREDUCE && !t->conf.restore;
    tt_call_check_pack(c, &q->packed, q->count, call->error_feedback != NULL);
    t->conf.restore = false;        /* dst is written last in any case */
    return TUTTI_OK;
}

/* ---- calls that reuse an operation ----------------------------------------------------------- */

#define RECENT_WAYS 2

static bool is_p2p(enum tt_coll_kind kind)
{
    return kind == TT_SEND || kind == TT_RECV;
}

static int64_t timeout_of(const tutti_comm *comm, const tutti_call *call)
{
    return call && call->timeout_ms ? call->timeout_ms : comm->timeout_ms;
}

/* Returns the RECENT_WAYS entries for plans of such calls. Two entries let a loop of calls with two
 * shapes find both. */
static struct tt_plan **recent_plans(tutti_comm *comm, enum tt_coll_kind kind, size_t count,
                                     int root)
{
    const uint64_t h =
        (count ^ (uint64_t)kind << 32 ^ (uint64_t)(unsigned)root << 40) * 0x9e3779b97f4a7c15ull;

    return &comm->recent[(h >> 60) * RECENT_WAYS];
}
_Static_assert(TT_RECENT == 16 * RECENT_WAYS, "the index has four bits of the hash");

/* Returns whether a call differs from shape f only in its buffers, and these need no further
 * check. */
static bool shape_fits(const struct tt_shape *f, enum tt_coll_kind kind, const void *src, void *dst,
                       size_t count, tutti_dtype type, tutti_redop op, int root)
{
    const uintptr_t s = (uintptr_t)src, d = (uintptr_t)dst;

    if (f->kind != kind || f->count != count || f->dtype != type || f->redop != op ||
        f->root != (unsigned)root)
        return false;
    if ((f->src_bytes && !src) || (f->dst_bytes && !dst))
        return false;
    if (!f->src_bytes || !f->dst_bytes)
        return true;
    return f->in_place ? d - s == f->shift : s >= d + f->dst_bytes || d >= s + f->src_bytes;
}

/* Returns whether a call and the plan force the same algorithm, or both force none. */
static bool same_force(const struct tt_plan *p, const tutti_call *call)
{
    const char *name = call ? call->algo : NULL;

    return p->forced ? name && strcmp(name, p->algo->name) == 0 : !name;
}

/* Returns whether the operation of a plan is kept, and can run this call. */
static bool can_reuse(const struct tt_plan *p, const tutti_call *call, enum tt_coll_kind kind,
                      const void *src, void *dst, size_t count, tutti_dtype type, tutti_redop op,
                      int root)
{
    return p && tt_op_is_kept(&p->kept) && same_force(p, call) &&
           shape_fits(&p->shape, kind, src, dst, count, type, op, root);
}

static tutti_status start_again(tutti_comm *comm, struct tt_plan *plan, const void *src, void *dst,
                                int64_t timeout_ms, tutti_request **request)
{
    struct tt_op *op;
    const tutti_status st =
        tt_op_start_again(comm->context, &plan->kept, src, dst, timeout_ms, &op);

    if (!st)
        *request = (tutti_request *)op;
    return st;
}

/* Returns the plan whose kept operation can run this call, or NULL. */
static struct tt_plan *reusable_plan(enum tt_coll_kind kind, const void *src, void *dst,
                                     size_t count, tutti_dtype type, tutti_redop op, int root,
                                     tutti_comm *comm, const tutti_call *call)
{
    struct tt_plan *p = NULL, *const *at = recent_plans(comm, kind, count, root);

    for (int way = 0; way < RECENT_WAYS && !p; way++)
        if (can_reuse(at[way], call, kind, src, dst, count, type, op, root))
            p = at[way];
    if (!p || tt_registry_is_device(src, p->shape.src_bytes) ||
        tt_registry_is_device(dst, p->shape.dst_bytes))
        return NULL;
    return p;
}

bool tt_call_check_again(tutti_status *st, enum tt_coll_kind kind, const void *src, void *dst,
                         size_t count, tutti_dtype type, tutti_redop op, int root, tutti_comm *comm,
                         const tutti_call *call)
{
    struct tt_plan *p;

    if (!comm || tt_engine_is_inherited(comm->world->engine) ||
        (call &&
         (call->size != sizeof *call || call->quant || call->error_feedback || call->divisor)) ||
        (call && call->request && is_p2p(kind)))
        return false;
    p = reusable_plan(kind, src, dst, count, type, op, root, comm, call);
    if (!p)
        return false;
    src = p->shape.src_bytes ? src : NULL;
    dst = p->shape.dst_bytes ? dst : NULL;
    if (call && call->request)
        *st = start_again(comm, p, src, dst, timeout_of(comm, call), call->request);
    else
        *st = tt_op_again(comm->context, &p->kept, src, dst, call ? call->tag : 0,
                          timeout_of(comm, call));
    return true;
}

bool tt_call_check_group_again(struct tt_group_call *out, const tutti_p2p *op, tutti_comm *comm)
{
    const bool receives = op->is_recv == 1;
    struct tt_plan *p;

    if (op->is_recv != receives)
        return false;
    p = reusable_plan(receives ? TT_RECV : TT_SEND, receives ? NULL : op->buf,
                      receives ? op->buf : NULL, op->count, op->type, TUTTI_SUM, op->peer, comm,
                      NULL);
    if (!p)
        return false;
    *out = (struct tt_group_call){ .kept = &p->kept,
                                   .src = p->shape.src_bytes ? op->buf : NULL,
                                   .dst = p->shape.dst_bytes ? op->buf : NULL,
                                   .tag = op->tag };
    return true;
}

int64_t tt_call_check_timeout(const tutti_comm *comm, const tutti_call *call)
{
    return timeout_of(comm, call);
}

/* Inserts the plan before the previous one. */
static void insert_plan(struct tt_plan **at, struct tt_plan *plan)
{
    if (at[0] != plan)
        at[1] = at[0];
    at[0] = plan;
}

static tutti_status start(struct tt_call_check *t, tutti_request **request)
{
    struct tt_op *op;
    const tutti_status st = tt_op_start(t->comm->context, &t->conf, &op);

    if (!st)
        *request = (tutti_request *)op;
    return st;
}

static struct tt_shape shape_of(const struct tt_op_conf *conf, tutti_redop op)
{
    const struct tt_coll *c = &conf->coll;

    return (struct tt_shape){
        .kind = c->kind,
        .dtype = conf->dtype,
        .redop = op,
        .root = c->root,
        .count = c->bytes / c->elem_bytes,
        .src_bytes = conf->src ? tt_coll_src_bytes(c) : 0,
        .dst_bytes = conf->dst ? tt_coll_dst_bytes(c) : 0,
        .in_place = c->in_place,
        .shift = (uintptr_t)conf->dst - (uintptr_t)conf->src,
    };
}

/* Returns whether the operation of this call can serve later calls of its shape. */
static bool can_keep(const struct tt_call_check *t, const struct tt_plan *plan)
{
    return plan->keeps && !tt_call_check_is_self(t) && t->conf.coll.root != TT_ROOT_ANY &&
           !t->conf.divisor && t->op != TUTTI_PREMUL_SUM && !t->conf.quant.quant;
}

/* Runs a call whose operation is kept in its plan, or can be. It is kept from the second
 * consecutive call of a shape, so that communicators with few calls use little memory. request:
 * NULL if the call blocks. */
static tutti_status submit_kept(struct tt_call_check *t, struct tt_plan *plan,
                                tutti_request **request)
{
    const struct tt_coll *c = &t->conf.coll;
    const uint64_t count = c->bytes / c->elem_bytes;
    const bool fits = shape_fits(&plan->shape, c->kind, t->conf.src, t->conf.dst, count,
                                 t->conf.dtype, t->op, (int)c->root);

    if (fits && tt_op_is_kept(&plan->kept))
        return request ? start_again(t->comm, plan, t->conf.src, t->conf.dst, t->conf.timeout_ms,
                                     request)
                       : tt_op_again(t->comm->context, &plan->kept, t->conf.src, t->conf.dst,
                                     t->conf.tag, t->conf.timeout_ms);
    if (fits) {
        insert_plan(recent_plans(t->comm, c->kind, count, (int)c->root), plan);
        t->conf.kept = &plan->kept;
    } else {
        tt_op_drop(t->comm->context, &plan->kept);
        plan->shape = shape_of(&t->conf, t->op);
    }
    return request ? start(t, request) : tt_op_blocking(t->comm->context, &t->conf);
}

/* Returns whether a buffer is device memory, which the processor must not access. */
static bool is_of_device(const struct tt_op_conf *conf)
{
    const struct tt_coll *c = &conf->coll;

    return (conf->src && tt_registry_is_device(conf->src, tt_coll_src_bytes(c))) ||
           (conf->dst && tt_registry_is_device(conf->dst, tt_coll_dst_bytes(c)));
}

static tutti_status refuse_device(const struct tt_call_check *t)
{
    if (!is_of_device(&t->conf))
        return TUTTI_OK;
    return tt_fail(
        TUTTI_ERR_UNSUPPORTED,
        "%s: a buffer is in device memory (tutti_mem_register_device), which only windows support "
        "(tutti/rma.h)",
        t->name);
}

/* Looks up the plan for the call's shape, and copies it into the operation. */
static tutti_status take_plan(struct tt_call_check *t, const char *force, struct tt_plan **out)
{
    struct tt_plan *plan;
    const tutti_status st = tt_plan_of(t->comm, &t->conf.coll, force, &plan);

    if (st)
        return st;
    t->conf.algo = plan->algo;
    t->conf.algo_id = plan->algo_id;
    t->conf.segment_bytes = plan->segment_bytes;
    t->conf.eager_bytes = t->comm->sizes.eager_bytes;
    t->conf.streams = plan->streams;
    t->conf.depth = plan->depth;
    t->conf.lanes = plan->lanes;
    t->conf.timeout_ms = timeout_of(t->comm, t->call);
    *out = plan;
    return TUTTI_OK;
}

tutti_status tt_call_check_plan(struct tt_call_check *t, struct tt_plan **keeper)
{
    struct tt_plan *plan;
    tutti_status st = refuse_device(t);

    if (!st)
        st = take_plan(t, NULL, &plan);
    if (!st)
        *keeper = can_keep(t, plan) ? plan : NULL;
    return st;
}

/* Returns whether a send or receive has the shape of the plan. */
static bool p2p_fits(const struct tt_plan *plan, const struct tt_op_conf *conf)
{
    const struct tt_coll *c = &conf->coll;

    return shape_fits(&plan->shape, c->kind, conf->src, conf->dst, c->bytes / c->elem_bytes,
                      conf->dtype, TUTTI_SUM, (int)c->root);
}

void tt_call_check_keep(struct tt_op_conf *conf, struct tt_plan *plan, tutti_comm *comm)
{
    const struct tt_coll *c = &conf->coll;

    if (p2p_fits(plan, conf)) {
        insert_plan(recent_plans(comm, c->kind, c->bytes / c->elem_bytes, (int)c->root), plan);
        conf->kept = tt_op_is_kept(&plan->kept) ? NULL : &plan->kept;
        return;
    }
    tt_op_drop(comm->context, &plan->kept);
    plan->shape = shape_of(conf, TUTTI_SUM);
}

void tt_call_check_keep_settle(struct tt_op_conf *conf, const struct tt_plan *plan)
{
    if (conf->kept && !p2p_fits(plan, conf))
        conf->kept = NULL;
}

/* Requests huge pages for the buffers: they speed up direct copies from another process's memory,
 * and sequential access to own memory. */
static void request_huge_pages(const struct tt_call_check *t)
{
    const struct tt_coll *c = &t->conf.coll;

    /* blocks may be scattered, and the memory between them may have other uses */
    if (!t->comm->shares_memory || c->send_bytes || c->recv_bytes)
        return;
    if (t->conf.src)
        tt_pages_hot_use(&t->comm->world->hot, t->conf.src, tt_coll_src_bytes(c));
    if (t->conf.dst && t->conf.dst != t->conf.src)
        tt_pages_hot_use(&t->comm->world->hot, t->conf.dst, tt_coll_dst_bytes(c));
}

static tutti_status call_submit(struct tt_call_check *t)
{
    const tutti_call *call = t->call;
    tutti_request **request = call ? call->request : NULL;
    struct tt_plan *plan;
    void *own;
    tutti_status st;

    st = refuse_device(t);
    if (st)
        return st;
    request_huge_pages(t);
    t->conf.restore = t->comm->restore && t->conf.coll.in_place;
    st = t->op == TUTTI_AVG ? divide_input(t, &own) : scale_input(t, &own);
    if (st)
        return st;
    st = quantize(t);
    /* last, since a call whose input was copied into a buffer above is no longer in place */
    if (!st)
        st = take_plan(t, call ? call->algo : NULL, &plan);
    if (st) {
        free(own);
        return st;
    }
    t->conf.owned = own;
    if (can_keep(t, plan) && !(request && is_p2p(t->conf.coll.kind)))
        return submit_kept(t, plan, request);
    return request ? start(t, request) : tt_op_blocking(t->comm->context, &t->conf);
}

tutti_status tt_call_check_finish(struct tt_call_check *t, tutti_status st)
{
    if (!st)
        st = call_submit(t);
    free(t->arrays);
    return st;
}
