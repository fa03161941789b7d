/* Dispatch of arriving messages and flow words, and of unexpected messages when their operation
 * can take them. */
#include "engine/rx_dispatch.h"

#include <stdio.h>
#include <string.h>

#include "engine/any.h"
#include "engine/context.h"
#include "engine/context_teardown.h"
#include "engine/op.h"
#include "engine/op_trace.h"
#include "engine/exec_actions.h"

/* Prints a rank of the context; in an elastic run, as a member. */
static const char *rank_text(const struct tt_context *c, uint32_t rank,
                             char out[TT_RANK_TEXT_BYTES])
{
    if (c->engine->members)
        return tt_rank_text(c->engine, c->ranks[rank], out);
    snprintf(out, TT_RANK_TEXT_BYTES, "rank %u", rank);
    return out;
}

/* Prints the operation's number, and "of the communicator" outside of elastic runs. */
static const char *operation_text(const struct tt_op *op, char out[TT_OP_NUMBER_BYTES])
{
    tt_op_number(op, out);
    if (op->desc.mode == TT_MODE_NONE)
        snprintf(out + strlen(out), TT_OP_NUMBER_BYTES - strlen(out), " of the communicator");
    return out;
}

/* Handle contradictions between a peer's call and this rank's. Each of these functions fails the
 * context, which ends its operations. */
static void fail_mismatch(struct tt_context *c, uint32_t peer, const struct tt_opdesc *theirs,
                          const struct tt_opdesc *ours, const char *which, const char *more)
{
    char a[240], b[240], why[TT_ERROR_BYTES], other[TT_RANK_TEXT_BYTES], own[TT_RANK_TEXT_BYTES];

    tt_opdesc_print(theirs, a, sizeof a);
    tt_opdesc_print(ours, b, sizeof b);
    snprintf(why, sizeof why, "%s called %s where %s called %s%s (%s)%s", rank_text(c, peer, other),
             a, rank_text(c, c->rank, own), b, tt_opdesc_differ_in(theirs, ours), which, more);
    tt_context_fail_here(c, TUTTI_ERR_MISMATCH, why, true);
}

static void op_mismatch(struct tt_op *op, uint32_t peer, const struct tt_opdesc *theirs,
                        const char *more)
{
    char which[TT_OP_NUMBER_BYTES];

    fail_mismatch(op->context, peer, theirs, &op->desc, operation_text(op, which), more);
}

void tt_op_mismatch(struct tt_op *op, uint32_t peer, const struct tt_opdesc *theirs)
{
    op_mismatch(op, peer, theirs, "");
}

void tt_op_sizes_differ(struct tt_op *op, uint32_t peer, bool sends, uint64_t theirs, uint64_t ours)
{
    struct tt_context *c = op->context;
    char why[TT_ERROR_BYTES], from[TT_RANK_TEXT_BYTES], to[TT_RANK_TEXT_BYTES],
        which[TT_OP_NUMBER_BYTES];

    snprintf(why, sizeof why, "%s: %s sends %llu bytes to %s, which expects %llu (%s)",
             tt_coll_name((enum tt_coll_kind)op->desc.kind),
             rank_text(c, sends ? peer : c->rank, from),
             (unsigned long long)(sends ? theirs : ours), rank_text(c, sends ? c->rank : peer, to),
             (unsigned long long)(sends ? ours : theirs), operation_text(op, which));
    tt_context_fail_here(c, TUTTI_ERR_MISMATCH, why, true);
}

/* Ranks of an alltoallv pass their own block sizes, and each block is one put (TT_BUF_THERE). If
 * the algorithm pads, row_check.c compares the sizes instead; stretches have the same lists on
 * both ends. Returns false if the peer's size differs; then the context has failed. */
static bool check_send_size(struct tt_op *op, uint32_t peer, uint64_t expected)
{
    const struct tt_coll *c = &op->conf.coll;

    if (c->kind != TT_ALLTOALLV || c->stretches || c->send_bytes[peer] == expected)
        return true;
    tt_op_sizes_differ(op, peer, false, expected, c->send_bytes[peer]);
    return false;
}

static bool check_receive_size(struct tt_op *op, uint32_t peer, uint64_t sent)
{
    const struct tt_coll *c = &op->conf.coll;

    if (c->kind != TT_ALLTOALLV || c->stretches || c->recv_bytes[peer] == sent)
        return true;
    tt_op_sizes_differ(op, peer, true, sent, c->recv_bytes[peer]);
    return false;
}

/* Returns whether an eager message contains exactly the data that the sender has for the
 * receiver. */
static bool is_whole_row(const struct tt_op *op, uint32_t tag)
{
    return !op->conf.algo->pads || tag != 0;
}

/* Returns whether the streams between two ranks contain exactly that. */
static bool streams_rows(const struct tt_op *op)
{
    const struct tt_algo *algo = op->conf.algo;

    return !algo->pads || (algo->length_rounds && algo->length_rounds(&op->conf.coll) == 0);
}

static bool check_probe_sizes(struct tt_op *op, uint32_t peer, const void *payload, uint32_t bytes)
{
    struct tt_probe_msg msg;

    if (bytes != sizeof msg)
        return true;            /* a probe without sizes */
    memcpy(&msg, payload, sizeof msg);
    return check_send_size(op, peer, msg.expects) && check_receive_size(op, peer, msg.sends);
}

/* Handles a CTS: the peer has opened a flow to this rank. The operation may be over afterwards.
 * PENDING: the memory it refers to cannot be imported yet. PROTOCOL: the message is invalid. */
static tutti_status handle_cts(struct tt_op *op, uint16_t i, const uint8_t *payload, uint32_t bytes)
{
    struct tt_flow *f = tt_op_flow(op, i);
    struct tt_blob key = { 0 };
    struct tt_cts_msg msg;
    struct tt_wire *w;
    uint64_t need;
    tutti_status st;

    if (!f || bytes != sizeof msg)
        return TUTTI_ERR_PROTOCOL;
    memcpy(&msg, payload, sizeof msg);
    if (f->ready)
        return TUTTI_OK;
    if (msg.handle >= TT_HANDLES || msg.landing_bytes > TT_KEY_BYTES ||
        msg.direct_bytes > TT_KEY_BYTES || msg.depth == 0 || (msg.depth & (msg.depth - 1)) ||
        msg.copies > TT_COPIES_WAYS * TT_COPIES_CLASSES)
        return TUTTI_ERR_PROTOCOL;
    if (streams_rows(op) && !check_send_size(op, op->exec_peers[i].rank, msg.bytes))
        return TUTTI_OK;
    need = tt_op_landing_bytes(op, msg.depth);
    w = f->cp->peer->wire;
    key.bytes = msg.landing_bytes;
    memcpy(key.data, msg.landing_key, TT_KEY_BYTES);
    st = w->ops->import(w, f->cp->peer->rank, &key, &f->landing_key);
    if (!st && (f->landing_key.bytes < need || msg.landing_offset > f->landing_key.bytes - need))
        return TUTTI_ERR_PROTOCOL;
    if (!st && msg.direct) {
        key.bytes = msg.direct_bytes;
        memcpy(key.data, msg.direct_key, TT_KEY_BYTES);
        st = w->ops->import(w, f->cp->peer->rank, &key, &f->direct_key);
    }
    if (st)
        return st == TUTTI_PENDING ? st : st == TUTTI_ERR_PEER_LOST ? TUTTI_OK : TUTTI_ERR_PROTOCOL;
    tt_link_clear(&f->cp->peer->mail, TT_LINK_CREDIT, msg.handle, op->conf.streams);
    f->ready = true;
    if (w->caps & TT_WIRE_CAP_INSTANT)
        tt_op_copy_method_receive(op, op->exec_peers[i].rank, msg.copies);
    f->out_handle = msg.handle;
    f->out_gen = msg.gen;
    f->landing_offset = msg.landing_offset;
    f->direct_offset = msg.direct_offset;
    tt_exec_deepen(&op->exec, i, false, msg.depth);
    if (!tt_put_is_instant(w, &f->landing_key) ||
        (msg.direct && !tt_put_is_instant(w, &f->direct_key)))
        tt_exec_lengthen(&op->exec, i, w->whole_bytes);
    tt_exec_ready(&op->exec, i, msg.direct, f->landing_key.mapped != NULL);
    return TUTTI_OK;
}

/* Handles a probe: the peer waits for this rank in this operation. After probing, a send must
 * use rendezvous. A probed send without credit answers at once that it uses rendezvous. */
static void handle_probe(struct tt_op *op, struct tt_flow *f)
{
    f->probe_received = true;
    op->retry = true;
    if (op->desc.kind == TT_RECV)
        tt_op_choose_nontemporal(op);
    else if (op->desc.kind == TT_SEND)
        tt_op_send_probe(op);
}

/* Schedules another scan, because a message could not be taken yet. */
static void scan_again(struct tt_op *op)
{
    op->scanned = UINT32_MAX;
    op->retry = true;
    tt_op_wake(op);
}

/* Scans the unexpected messages for those that this operation can use now. */
void tt_op_take_unexpected(struct tt_op *op)
{
    op->scanned = op->exec.loaded;
    for (uint32_t i = 0; i < op->exec.npeers; i++) {
        struct tt_flow *f = tt_op_flow(op, (uint16_t)i);
        struct tt_unexpected *m;
        uint32_t at = 0;

        if (!f)
            return;
        if (!f->cp->kept)
            continue;
        for (; (m = tt_unexpected_find(f->cp, &at, op->seq, op->p2p, op->desc.kind, TT_CELL_CTS));
             at++) {
            const tutti_status st = handle_cts(op, (uint16_t)i, m->payload, m->bytes);

            if (tt_op_is_over(op))
                return;
            if (st == TUTTI_PENDING) {
                scan_again(op);
                continue;
            }
            tt_unexpected_drop(f->cp, m);
            if (st) {
                op_mismatch(op, op->exec_peers[i].rank, &m->desc,
                            ": protocol error: invalid READY message");
                return;         /* the operation is over, and its flows are freed */
            }
        }
        for (at = 0;
             (m = tt_unexpected_find(f->cp, &at, op->seq, op->p2p, op->desc.kind, TT_CELL_PROBE));
             at++) {
            tt_unexpected_drop(f->cp, m);        /* its descriptor was compared on arrival */
            if (!check_probe_sizes(op, op->exec_peers[i].rank, m->payload, m->bytes))
                return;
            handle_probe(op, f);
            if (tt_op_is_over(op))
                return;
        }
        for (at = 0;
             (m = tt_unexpected_find(f->cp, &at, op->seq, op->p2p, op->desc.kind, TT_CELL_EAGER));
             at++) {
            tutti_status st;

            if (m->claimed)
                continue;
            if (is_whole_row(op, m->tag) &&
                !check_receive_size(op, op->exec_peers[i].rank, m->bytes))
                return;
            st = tt_exec_eager(&op->exec, (uint16_t)i, m->tag, m->bytes);
            m->claimed = st == TUTTI_OK;
            if (st == TUTTI_ERR_MISMATCH) {
                op_mismatch(op, op->exec_peers[i].rank, &m->desc, ": their message sizes differ");
                return;
            }
        }
    }
}

/* In total `arrived` segments of a stream are here. */
static void segments_arrived(struct tt_op *op, struct tt_flow *f, uint16_t peer, uint8_t stream,
                             uint32_t arrived)
{
    const uint32_t before = op->exec_peers[peer].stream[stream].arrived;

    if (!tt_exec_arrived(&op->exec, peer, stream, arrived))
        return;
    f->cp->peer->progress_ns = op->context->engine->now_ns;
    tt_op_trace_received(f, (uint64_t)(arrived - before) << op->exec.segment_shift);
}

/* Reads the flow words: segments that arrived here, and segments consumed by the peers. */
void tt_op_read_flows(struct tt_op *op)
{
    for (uint32_t i = 0; i < op->exec.npeers; i++) {
        struct tt_flow *f = &op->flow[i];
        const struct tt_mailbox *m;

        if (!f->cp || (!f->ready && f->in_handle < 0))
            continue;
        m = &f->cp->peer->mail;
        for (uint8_t s = 0; s < op->conf.streams; s++) {
            uint64_t v;

            if (f->in_handle >= 0) {
                v = atomic_load_explicit(
                    tt_link_word(m, TT_LINK_ARRIVED, (uint32_t)f->in_handle, s),
                    memory_order_acquire);
                if ((uint32_t)(v >> 32) == f->in_gen)
                    segments_arrived(op, f, (uint16_t)i, s, (uint32_t)v);
            }
            if (f->ready) {
                v = atomic_load_explicit(tt_link_word(m, TT_LINK_CREDIT, f->out_handle, s),
                                         memory_order_acquire);
                if ((uint32_t)(v >> 32) == f->out_gen)
                    tt_exec_credit(&op->exec, (uint16_t)i, s, (uint32_t)v);
            }
        }
    }
}

bool tt_op_has_flow_updates(const struct tt_op *op)
{
    for (uint32_t i = 0; i < op->exec.npeers; i++) {
        const struct tt_flow *f = &op->flow[i];
        const struct tt_mailbox *m;

        if (!f->cp || (!f->ready && f->in_handle < 0))
            continue;
        m = &f->cp->peer->mail;
        for (uint8_t s = 0; s < op->conf.streams; s++) {
            const struct tt_exec_stream *st = &op->exec_peers[i].stream[s];

            if (f->in_handle >= 0) {
                const uint64_t v = atomic_load_explicit(
                    tt_link_word(m, TT_LINK_ARRIVED, (uint32_t)f->in_handle, s),
                    memory_order_acquire);

                if ((uint32_t)(v >> 32) == f->in_gen && (uint32_t)v != st->arrived)
                    return true;
            }
            if (f->ready) {
                const uint64_t v = atomic_load_explicit(
                    tt_link_word(m, TT_LINK_CREDIT, f->out_handle, s), memory_order_acquire);

                if ((uint32_t)(v >> 32) == f->out_gen && (uint32_t)v != st->credit)
                    return true;
            }
        }
    }
    return false;
}

/* Returns whether an unexpected message shows that another rank made a different call. Then the
 * context has failed. */
bool tt_op_find_mismatch(struct tt_op *op)
{
    struct tt_context *c = op->context;

    for (struct tt_peer *p = c->engine->up; p; p = p->next_up) {
        struct tt_context_peer *cp = tt_sparse_get(&c->peers, p->rank);

        if (cp && op->p2p && tt_context_index_of(c, cp) != op->conf.coll.root)
            continue;           /* pairs are numbered separately */
        for (uint64_t left = cp ? cp->kept : 0; left; left &= left - 1) {
            const struct tt_unexpected *m = tt_unexpected_at(cp, (uint32_t)__builtin_ctzll(left));

            if (m->opseq != op->seq || tt_is_p2p(m->desc.kind) != op->p2p ||
                (op->p2p && m->desc.kind == op->desc.kind))
                continue;
            if (!tt_same_desc(&m->desc, &op->desc)) {
                tt_op_mismatch(op, tt_context_index_of(c, cp), &m->desc);
                return true;
            }
        }
    }
    return false;
}

/* ---- delivery -------------------------------------------------------------------------------- */

struct tt_op *tt_op_find(struct tt_context *c, uint32_t from, uint64_t opseq, bool p2p,
                         uint8_t kind)
{
    for (struct tt_op *op = c->active; op; op = op->next)
        if (op->seq == opseq && op->p2p == p2p &&
            (!p2p || (op->desc.kind != kind && op->conf.coll.root == from && !op->unmatched)))
            return op;
    return NULL;
}

/* Handles a message for a collective that is over on this rank: its descriptor must have been
 * the same. */
static void check_history(struct tt_context *c, uint32_t index, const struct tt_mail *mail)
{
    const struct tt_history *h = &c->history[mail->cell.opseq % TT_HISTORY];
    char which[TT_OP_NUMBER_BYTES];

    if (!h->used || h->opseq != mail->cell.opseq || tt_same_desc(&mail->cell.desc, &h->desc))
        return;
    if (h->desc.mode == TT_MODE_NONE)
        snprintf(which, sizeof which, "operation %llu of the communicator",
                 (unsigned long long)h->opseq);
    else
        snprintf(which, sizeof which, "an operation of tag %u", c->tag);
    fail_mismatch(c, index, &mail->cell.desc, &h->desc, which, "");
}

static bool deliver_eager(struct tt_op *op, struct tt_context_peer *cp, uint32_t index,
                          const struct tt_mail *mail)
{
    const int i = tt_exec_peer_of(&op->exec, index);
    tutti_status st = TUTTI_ERR_INVALID;

    if (is_whole_row(op, mail->cell.tag) && !check_receive_size(op, index, mail->bytes))
        return true;
    if (i >= 0 && tt_op_flow(op, (uint16_t)i))
        st = tt_exec_eager(&op->exec, (uint16_t)i, mail->cell.tag, mail->bytes);
    if (st == TUTTI_ERR_MISMATCH) {
        op_mismatch(op, index, &mail->cell.desc, ": their message sizes differ");
        return true;
    }
    if (st == TUTTI_OK) {
        if (!op->exec.straight)
            tt_op_trace_received(&op->flow[i], mail->bytes);
        op->now = mail;
        op->now_from = cp;
        tt_op_run(op);
        if (tt_op_is_over(op) || !op->now)
            return true;
        op->now = NULL;
    }
    return tt_unexpected_keep(cp, mail, st == TUTTI_OK) == TUTTI_OK;
}

static bool deliver_cts(struct tt_op *op, uint32_t index, struct tt_context_peer *cp,
                        const struct tt_mail *mail)
{
    const int i = tt_exec_peer_of(&op->exec, index);
    const tutti_status st =
        i < 0 ? TUTTI_PENDING : handle_cts(op, (uint16_t)i, mail->payload, mail->bytes);

    if (st == TUTTI_PENDING) {
        if (i >= 0)
            scan_again(op);
        return tt_unexpected_keep(cp, mail, false) == TUTTI_OK;
    }
    if (st)
        return false;
    if (!tt_op_is_over(op))
        tt_op_run(op);
    return true;
}

static void deliver_probe(struct tt_op *op, uint32_t index, const struct tt_mail *mail)
{
    const int i = tt_exec_peer_of(&op->exec, index);
    struct tt_flow *f;

    if (!check_probe_sizes(op, index, mail->payload, mail->bytes))
        return;
    f = i < 0 ? NULL : tt_op_flow(op, (uint16_t)i);
    if (!f)
        return;
    handle_probe(op, f);
    if (!tt_op_is_over(op))
        tt_op_run(op);
}

static bool has_second_part(const struct tt_op *op, uint64_t opseq)
{
    return op->conf.parts && !op->second && op->seq + 1 == opseq;
}

/* Returns whether the collective with this number was called and is not exposed yet, or is the
 * second part of one. */
static bool is_waiting(const struct tt_context *c, uint64_t opseq)
{
    for (const struct tt_op *op = c->waiting; op; op = op->next)
        if (!op->p2p && (op->seq == opseq || has_second_part(op, opseq)))
            return true;
    for (const struct tt_op *op = c->active; op; op = op->next)
        if (has_second_part(op, opseq))
            return true;
    return false;
}

/* Returns whether the probed send or receive has begun here. If no operation is found, it is
 * over: the probe and a short message crossed. */
static bool has_begun(const struct tt_context_peer *cp, const struct tt_mail *mail)
{
    const struct tt_tag_counter *t = tt_context_counter_find(cp, (uint32_t)(mail->cell.opseq >> 32),
                                                             mail->cell.desc.kind == TT_SEND);

    return t && mail->cell.opseq < tt_tag_key(t);
}

static bool is_of_operation(const struct tt_mail *mail)
{
    if (mail->type == TT_CELL_STARTED)
        return mail->cell.desc.kind == TT_SEND;
    return mail->type >= TT_CELL_EAGER && mail->type <= TT_CELL_PROBE &&
           mail->cell.desc.kind < TT_COLL_KINDS;
}

static bool deliver_to_context(struct tt_engine *e, struct tt_peer *p, const struct tt_mail *mail)
{
    struct tt_context *c = tt_context_find(e, mail->cell.context);
    struct tt_context_peer *cp = c ? tt_context_peer_of(c, p->rank) : NULL;
    const bool p2p = tt_is_p2p(mail->cell.desc.kind);
    struct tt_op *op;
    uint32_t index;

    if (mail->type == TT_CELL_ENDED) {
        tt_peer_context_ended(e, p, mail->cell.context);
        return true;
    }
    if (mail->type == TT_CELL_CTS && (!c || atomic_load(&c->status)))
        tt_context_notify_ended(e, p, mail->cell.context);
    if (!c)
        return true;            /* the context was closed here: drop the message */
    if (!cp) {
        tt_fail(TUTTI_ERR_NOMEM, "out of memory for messages from rank %u", p->rank);
        return false;
    }
    cp->eager_out -= mail->credits < cp->eager_out ? mail->credits : cp->eager_out;
    if (mail->type == TT_CELL_CREDIT || atomic_load(&c->status))
        return true;
    if (mail->type == TT_CELL_RECEIVES_ANY) {
        tt_any_peer_receives(c, cp);
        return true;
    }
    if (!is_of_operation(mail)) {
        tt_fail(TUTTI_ERR_PROTOCOL, "protocol error: rank %u sent a message of unknown type %u",
                p->rank, mail->type);
        return false;
    }
    cp->must_notify_end |= mail->type == TT_CELL_CTS;
    index = tt_context_index_of(c, cp);
    op = tt_op_find(c, index, mail->cell.opseq, p2p, mail->cell.desc.kind);
    if (!op && c->receives_any && index != UINT32_MAX && mail->cell.desc.kind == TT_SEND) {
        if (tt_any_started(c, cp, mail->cell.opseq))
            return false;
        if (atomic_load(&c->status))
            return true;
        op = tt_op_find(c, index, mail->cell.opseq, p2p, mail->cell.desc.kind);
    }
    if (op && index != UINT32_MAX) {
        if (!tt_same_desc(&mail->cell.desc, &op->desc))
            tt_op_mismatch(op, index, &mail->cell.desc);
        else if (mail->type == TT_CELL_EAGER)
            return deliver_eager(op, cp, index, mail);
        else if (mail->type == TT_CELL_CTS)
            return deliver_cts(op, index, cp, mail);
        else if (mail->type == TT_CELL_PROBE)
            deliver_probe(op, index, mail);
        return true;
    }
    if (mail->type == TT_CELL_STARTED)
        return true;            /* tt_any_started has recorded it */
    if (!p2p && mail->cell.opseq < c->next_seq && !is_waiting(c, mail->cell.opseq)) {
        check_history(c, index, mail);
        return true;
    }
    if (p2p && mail->type == TT_CELL_PROBE && has_begun(cp, mail))
        return true;
    return tt_unexpected_keep(cp, mail, false) == TUTTI_OK;
}

bool tt_rx_dispatch(struct tt_engine *e, struct tt_peer *p, const struct tt_mail *mail)
{
    p->heard_ns = e->now_ns;
    if (mail->type == TT_CELL_EAGER)
        p->progress_ns = e->now_ns;
    if (mail->type == TT_CELL_FENCE)
        return true;            /* a fence only orders the messages after it */
    if (mail->type != TT_CELL_CLIENT)
        return deliver_to_context(e, p, mail);
    return !e->guest || e->guest->mail(e->guest->arg, p->rank, mail->payload, mail->bytes);
}
