/* Point-to-point calls: send, recv, and groups of them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/options.h"
#include "base/status.h"
#include "comm/call.h"

static tutti_status prepare_p2p(struct tt_call_check *t, enum tt_coll_kind kind, const void *src,
                                void *dst, size_t count, int peer, uint32_t tag)
{
    tutti_status st = TUTTI_OK;

    if (kind == TT_RECV && peer == TUTTI_ANY_RANK)
        t->conf.coll.root = TT_ROOT_ANY;
    else
        st = tt_call_check_root(t, peer);
    if (st || (st = tt_call_check_count(t, count)))
        return st;
    st = tt_call_check_need(t, kind == TT_SEND ? src : dst, t->conf.coll.bytes, "buf");
    if (st)
        return st;
    t->conf.src = src;
    t->conf.dst = dst;
    t->conf.count = t->conf.coll.bytes;
    t->conf.tag = tag;
    return TUTTI_OK;
}

/* Returns whether only this rank can make the matching call. */
static bool only_self_matches(const struct tt_call_check *t)
{
    return tt_call_check_is_self(t) || (t->conf.coll.root == TT_ROOT_ANY && t->comm->nranks == 1);
}

/* Prepares a single call. If only this rank can match it, it may block only if the matching call
 * was made before. */
static tutti_status prepare_single(struct tt_call_check *t, enum tt_coll_kind kind, const void *src,
                                   void *dst, size_t count, int peer)
{
    const uint32_t tag = t->call ? t->call->tag : 0;
    const tutti_status st = prepare_p2p(t, kind, src, dst, count, peer, tag);

    if (st)
        return st;
    if ((t->call && t->call->request) || peer == TUTTI_ANY_RANK)
        t->conf.source = t->call && kind == TT_RECV ? t->call->source : NULL;
    if ((t->call && t->call->request) || !only_self_matches(t) ||
        tt_op_would_match_self(t->comm->context, kind, tag))
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID,
                   "%s: rank %d is the calling rank: it has not started the matching %s with tag "
                   "%u (start one of the two with a request first, or both in a group)",
                   t->name, (int)t->comm->rank, kind == TT_SEND ? "receive" : "send", tag);
}

static tutti_status p2p_run(const char *name, enum tt_coll_kind kind, const void *src, void *dst,
                            size_t count, tutti_dtype type, int peer, tutti_comm *comm,
                            const tutti_call *call)
{
    struct tt_call_check t;
    tutti_status st = tt_comm_enter(comm, name);

    if (st)
        return st;
    if (!tt_call_check_again(&st, kind, src, dst, count, type, TUTTI_SUM, peer, comm, call)) {
        st = tt_call_check_begin(&t, name, kind, comm, call, type);
        call = st ? NULL : t.call;
        st = st ? st : tt_call_check_finish(&t, prepare_single(&t, kind, src, dst, count, peer));
    }
    if (!st && kind == TT_RECV && call && call->source && !call->request && peer != TUTTI_ANY_RANK)
        *call->source = peer;   /* the engine writes it for all other calls */
    tt_comm_leave(comm);
    return st;
}

tutti_status tutti_send(const void *buf, size_t count, tutti_dtype type, int peer, tutti_comm *comm,
                        const tutti_call *call)
{
    return p2p_run("tutti_send", TT_SEND, buf, NULL, count, type, peer, comm, call);
}

tutti_status tutti_recv(void *buf, size_t count, tutti_dtype type, int peer, tutti_comm *comm,
                        const tutti_call *call)
{
    return p2p_run("tutti_recv", TT_RECV, NULL, buf, count, type, peer, comm, call);
}

/* Prepares and checks a member: all are checked before the first one starts. *keeper becomes the
 * plan that can keep its operation, or NULL. */
static tutti_status prepare_member(struct tt_op_conf *out, struct tt_plan **keeper,
                                   const tutti_p2p *op, size_t i, tutti_comm *comm,
                                   const tutti_call *call)
{
    const enum tt_coll_kind kind = op->is_recv ? TT_RECV : TT_SEND;
    struct tt_call_check t;
    char name[48], field[48];
    tutti_status st;

    snprintf(name, sizeof name, "tutti_group: ops[%zu]", i);
    snprintf(field, sizeof field, "ops[%zu].is_recv", i);
    st = tt_options_flag("tutti_group", field, op->is_recv);
    if (!st)
        st = tt_call_check_begin(&t, name, kind, comm, call, op->type);
    if (!st)
        st = prepare_p2p(&t, kind, op->is_recv ? NULL : op->buf, op->is_recv ? op->buf : NULL,
                         op->count, op->peer, op->tag);
    if (!st)
        st = tt_call_check_plan(&t, keeper);
    if (!st)
        *out = t.conf;
    return st;
}

/* Starts a group with a request. */
static tutti_status start_group(struct tt_op **out, const tutti_p2p *ops, size_t n,
                                tutti_comm *comm, const tutti_call *call)
{
    struct tt_op_conf *conf = n ? calloc(n, sizeof *conf) : NULL;
    struct tt_plan *keeper;
    tutti_status st = TUTTI_OK;

    if (n && !conf)
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_group: out of memory for %zu operations", n);
    for (size_t i = 0; i < n && !st; i++)
        st = prepare_member(&conf[i], &keeper, &ops[i], i, comm, call);
    if (!st)
        st = tt_op_start_group(comm->context, conf, n, out);
    free(conf);
    return st;
}

/* Runs a short group that blocks. The operations of its members are kept if possible. */
static tutti_status run_short_group(const tutti_p2p *ops, size_t n, tutti_comm *comm,
                                    const tutti_call *call)
{
    struct tt_op_conf conf[TT_GROUP_CALLS_MAX];
    struct tt_plan *keeper[TT_GROUP_CALLS_MAX];
    struct tt_group_call calls[TT_GROUP_CALLS_MAX];
    tutti_status st = TUTTI_OK;

    for (size_t i = 0; i < n && !st; i++)
        st = prepare_member(&conf[i], &keeper[i], &ops[i], i, comm, call);
    if (st)
        return st;
    for (size_t i = 0; i < n; i++)
        if (keeper[i])
            tt_call_check_keep(&conf[i], keeper[i], comm);
    for (size_t i = 0; i < n; i++) {
        if (keeper[i])
            tt_call_check_keep_settle(&conf[i], keeper[i]);
        calls[i] = (struct tt_group_call){ .conf = &conf[i] };
    }
    return tt_op_blocking_group(comm->context, calls, n, 0);
}

/* Runs a short group that blocks, if all its members are calls whose operations were kept. */
static bool run_group_again(tutti_status *st, const tutti_p2p *ops, size_t n, tutti_comm *comm,
                            const tutti_call *call)
{
    struct tt_group_call calls[TT_GROUP_CALLS_MAX];

    if (call && call->size != sizeof *call)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!tt_call_check_group_again(&calls[i], &ops[i], comm))
            return false;
    *st = tt_op_blocking_group(comm->context, calls, n, tt_call_check_timeout(comm, call));
    return true;
}

static tutti_status run_group(const tutti_p2p *ops, size_t n, tutti_comm *comm,
                              const tutti_call *call)
{
    tutti_status st = tt_comm_check(comm, "tutti_group");
    struct tt_op *group;

    if (st)
        return st;
    if (n && !ops)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_group: ops is NULL");
    if (!tt_array_can_be(ops, n, sizeof *ops))
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_group: %zu operations do not fit in the address space", n);
    if (n <= TT_GROUP_CALLS_MAX && !(call && call->request))
        return run_group_again(&st, ops, n, comm, call) ? st : run_short_group(ops, n, comm, call);
    st = start_group(&group, ops, n, comm, call);
    if (st)
        return st;
    if (call && call->request) {
        *call->request = (tutti_request *)group;
        return TUTTI_OK;
    }
    return tutti_wait((tutti_request *)group);
}

tutti_status tutti_group(const tutti_p2p *ops, size_t n, tutti_comm *comm, const tutti_call *call)
{
    tutti_status st = tt_comm_enter(comm, "tutti_group");

    if (st)
        return st;
    st = run_group(ops, n, comm, call);
    tt_comm_leave(comm);
    return st;
}
