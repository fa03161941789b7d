/* Messages that an operation receives from its peers, and the probes that it sends. */
#include "engine/receive.h"

#include <string.h>

#include "engine/context.h"
#include "engine/context_end.h"
#include "engine/exec_actions.h"
#include "engine/mismatch.h"
#include "engine/op.h"
#include "engine/op_lists.h"
#include "engine/op_trace.h"

#define PADDED_TAG 0    /* tag of messages that contain lengths (tt_algo.pads) */

/* Compares the block size that a peer expects in an alltoallv with this rank's; each block is one
 * put (TT_BUF_THERE). Stretches have the same lists at both ends. If the algorithm pads,
 * tt_op_check_lengths compares the sizes instead. Returns false if the sizes differ; then the
 * context has failed. */
static bool check_send_size(struct tt_op *op, uint32_t peer, uint64_t expected)
{
    const struct tt_coll *c = &op->conf.coll;

    if (c->kind != TT_ALLTOALLV || c->stretches || c->send_bytes[peer] == expected)
        return true;
    tt_op_sizes_differ(op, peer, false, expected, c->send_bytes[peer]);
    return false;
}

bool tt_op_check_receive_size(struct tt_op *op, uint32_t peer, uint64_t sent)
{
    const struct tt_coll *c = &op->conf.coll;

    if (c->kind != TT_ALLTOALLV || c->stretches || c->recv_bytes[peer] == sent)
        return true;
    tt_op_sizes_differ(op, peer, true, sent, c->recv_bytes[peer]);
    return false;
}

/* Returns whether the streams between two ranks contain exactly one row. */
static bool streams_rows(const struct tt_op *op)
{
    const struct tt_algo *algo = op->conf.algo;

    return !algo->pads || (algo->length_rounds && algo->length_rounds(&op->conf.coll) == 0);
}

bool tt_op_check_probe_sizes(struct tt_op *op, uint32_t peer, const void *payload, uint32_t bytes)
{
    struct tt_probe_msg msg;

    if (bytes != sizeof msg)
        return true;            /* a probe without sizes */
    memcpy(&msg, payload, sizeof msg);
    return check_send_size(op, peer, msg.expects) && tt_op_check_receive_size(op, peer, msg.sends);
}

tutti_status tt_op_handle_cts(struct tt_op *op, uint16_t i, const uint8_t *payload, uint32_t bytes)
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
        msg.copies > TT_COPY_WAYS * TT_COPY_CLASSES)
        return TUTTI_ERR_PROTOCOL;
    if (streams_rows(op) && !check_send_size(op, op->exec_peers[i].rank, msg.bytes))
        return TUTTI_OK;
    tt_op_trace_message(f);
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
        tt_copy_trial_receive(&op->copies, op->conf.coll.rank, op->exec_peers[i].rank, msg.copies);
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

void tt_op_handle_probe(struct tt_op *op, struct tt_flow *f)
{
    f->probe_received = true;
    if (!op->exec.straight)
        tt_op_trace_message(f);
    op->retry = true;
    if (op->desc.kind == TT_RECV)
        tt_op_use_streams(op);
    else if (op->desc.kind == TT_SEND)
        tt_op_send_probe(op);
}

void tt_op_scan_again(struct tt_op *op)
{
    op->scanned = UINT32_MAX;
    op->retry = true;
    tt_op_wake(op);
}

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
            const tutti_status st = tt_op_handle_cts(op, (uint16_t)i, m->payload, m->bytes);

            if (tt_op_is_over(op))
                return;
            if (st == TUTTI_PENDING) {
                tt_op_scan_again(op);
                continue;
            }
            tt_unexpected_drop(f->cp, m);
            if (st) {
                tt_op_mismatch(op, op->exec_peers[i].rank, &m->desc,
                               ": protocol error: invalid READY message");
                return;         /* the operation is over, and its flows are freed */
            }
        }
        for (at = 0;
             (m = tt_unexpected_find(f->cp, &at, op->seq, op->p2p, op->desc.kind, TT_CELL_PROBE));
             at++) {
            tt_unexpected_drop(f->cp, m);        /* its descriptor was compared on arrival */
            if (!tt_op_check_probe_sizes(op, op->exec_peers[i].rank, m->payload, m->bytes))
                return;
            tt_op_handle_probe(op, f);
            if (tt_op_is_over(op))
                return;
        }
        for (at = 0;
             (m = tt_unexpected_find(f->cp, &at, op->seq, op->p2p, op->desc.kind, TT_CELL_EAGER));
             at++) {
            tutti_status st;

            if (m->claimed)
                continue;
            if (tt_op_is_whole_row(op, m->tag) &&
                !tt_op_check_receive_size(op, op->exec_peers[i].rank, m->bytes))
                return;
            st = tt_exec_eager(&op->exec, (uint16_t)i, m->tag, m->bytes);
            m->claimed = st == TUTTI_OK;
            if (st == TUTTI_ERR_MISMATCH) {
                tt_op_mismatch(op, op->exec_peers[i].rank, &m->desc,
                               ": their message sizes differ");
                return;
            }
        }
    }
}

/* Handles a new number of arrived segments of a stream. */
static void segments_arrived(struct tt_op *op, struct tt_flow *f, uint16_t peer, uint8_t stream,
                             uint32_t arrived)
{
    const uint32_t before = op->exec_peers[peer].stream[stream].arrived;

    if (!tt_exec_arrived(&op->exec, peer, stream, arrived))
        return;
    f->cp->peer->progress_ns = op->context->engine->now_ns;
    tt_op_trace_received(f, (uint64_t)(arrived - before) << op->exec.segment_shift);
}

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
                tt_op_mismatch(op, tt_context_index_of(c, cp), &m->desc, "");
                return true;
            }
        }
    }
    return false;
}

/* ---- probes ---------------------------------------------------------------------------------- */

void tt_op_use_streams(struct tt_op *op)
{
    if (op->kept && !tt_op_take_slot(op->context->engine, op)) {
        tt_context_fail_here(op->context, TUTTI_ERR_NOMEM,
                             "cannot stream a message: too many operations are in progress", true);
        return;
    }
    op->kept = op->eager.tried = false;
    tt_exec_stream(&op->exec);
    op->retry = true;
    tt_op_wake(op);
}

void tt_op_send_probe(struct tt_op *op)
{
    const uint32_t r = !op->exposed || op->oneself || op->unmatched ? UINT32_MAX
                       : op->p2p                                    ? op->conf.coll.root
                                                                    : tt_exec_waits_for(&op->exec);
    const int i = r == UINT32_MAX ? -1 : tt_exec_peer_of(&op->exec, r);
    struct tt_flow *f = i < 0 ? NULL : tt_op_flow(op, (uint16_t)i);
    struct tt_probe_msg sizes = { 0 };
    uint32_t bytes = 0;

    if (!f || f->probe_sent || f->cp->peer->state != TT_PEER_UP ||
        (!f->probe_received && f->cp->probes >= TT_PROBES_MAX))
        return;
    if (op->conf.coll.kind == TT_ALLTOALLV && !op->conf.coll.stretches) {
        sizes.sends = op->conf.coll.send_bytes[r];
        sizes.expects = op->conf.coll.recv_bytes[r];
        bytes = sizeof sizes;
    }
    f->probe_sent = tt_op_send_cell(op, f, TT_CELL_PROBE, 0, &sizes, bytes);
    f->cp->probes += f->probe_sent;
    if (f->probe_sent && op->desc.kind == TT_SEND)
        /* the receiver also switches to streams, and sends a CTS */
        tt_op_use_streams(op);
}

/* ---- row lengths ----------------------------------------------------------------------------- */

void tt_op_write_lengths(struct tt_op *op)
{
    const struct tt_algo *algo = op->conf.algo;
    const struct tt_coll *c = &op->conf.coll;

    op->lengths_due = algo->length_at && algo->length_rounds(c) > 0;
    for (uint32_t r = 0; op->lengths_due && r < c->nranks; r++)
        if (r != c->rank)
            memcpy(op->work + algo->length_at(c, r, true), &c->send_bytes[r],
                   sizeof c->send_bytes[r]);
}

bool tt_op_check_lengths(struct tt_op *op)
{
    const struct tt_algo *algo = op->conf.algo;
    const struct tt_coll *c = &op->conf.coll;

    if (!op->lengths_due || !tt_exec_has_reached(&op->exec, algo->length_rounds(c), PADDED_TAG))
        return true;
    op->lengths_due = false;
    for (uint32_t r = 0; r < c->nranks; r++) {
        uint64_t sent;

        if (r == c->rank)
            continue;
        memcpy(&sent, op->work + algo->length_at(c, r, false), sizeof sent);
        if (sent == c->recv_bytes[r])
            continue;
        tt_op_sizes_differ(op, r, true, sent, c->recv_bytes[r]);
        return false;
    }
    return true;
}
