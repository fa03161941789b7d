/* Point to point: send, recv, and groups of them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "comm/attempt.h"

static tutti_status prepare_p2p(struct tt_attempt *t, enum tt_coll_kind kind, const void *src, void *dst, size_t count,
                                int peer, uint32_t tag)
{
    tutti_status st;

    if ((st = tt_attempt_root(t, peer)) || (st = tt_attempt_count(t, count)))
        return st;
    if ((uint32_t)peer == t->comm->rank)
        return tt_fail(TUTTI_ERR_INVALID, "%s: rank %d is this rank", t->name, peer);
    st = tt_attempt_need(t, kind == TT_SEND ? src : dst, t->conf.coll.bytes, "buf");
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
    struct tt_attempt t;
    tutti_status st;

    if (tt_attempt_again(&st, TT_SEND, buf, NULL, count, type, TUTTI_SUM, peer, comm, call))
        return st;
    st = tt_attempt_begin(&t, "tutti_send", TT_SEND, comm, call, type);

    return st ? st : tt_attempt_finish(&t, prepare_p2p(&t, TT_SEND, buf, NULL, count, peer, t.call ? t.call->tag : 0));
}

tutti_status tutti_recv(void *buf, size_t count, tutti_dtype type, int peer, tutti_comm *comm, const tutti_call *call)
{
    struct tt_attempt t;
    tutti_status st;

    if (tt_attempt_again(&st, TT_RECV, NULL, buf, count, type, TUTTI_SUM, peer, comm, call))
        return st;
    st = tt_attempt_begin(&t, "tutti_recv", TT_RECV, comm, call, type);

    return st ? st : tt_attempt_finish(&t, prepare_p2p(&t, TT_RECV, NULL, buf, count, peer, t.call ? t.call->tag : 0));
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
    struct tt_attempt t = { .comm = comm };
    char name[48];
    tutti_status st;

    snprintf(name, sizeof name, "tutti_group: ops[%zu]", i);
    st = tt_attempt_begin(&t, name, kind, comm, call, op->type);
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
