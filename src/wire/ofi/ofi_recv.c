#include "base/log.h"
#include "base/status.h"
#include "wire/ofi/ofi.h"

#define ACK_EVERY (TT_OFI_SLOTS / 4)
#define COLLECT_MAX 16      /* completions read at once */
#define COLLECT_ROUNDS 8

/* ---- RTS ---- */

static struct tt_ofi_rts *find_rts(struct tt_ofi_lane *lane, uint32_t number)
{
    for (uint32_t i = 0; i < TT_OFI_RTS_MAX; i++)
        if (lane->in[i].state != TT_OFI_RTS_NONE && lane->in[i].number == number)
            return &lane->in[i];
    return NULL;
}

bool tt_ofi_target_is_open(const struct tt_ofi_lane *lane, const struct tt_rput_region *r)
{
    for (uint32_t i = 0; i < TT_OFI_RTS_MAX; i++)
        if (lane->in[i].state == TT_OFI_RTS_GRANTED && lane->in[i].data.region == r->id &&
            lane->in[i].data.generation == r->generation)
            return true;
    return false;
}

static bool handle_rts(struct tt_ofi_lane *lane, const struct tt_ofi_record *r)
{
    if (find_rts(lane, r->number))
        return false;
    for (uint32_t i = 0; i < TT_OFI_RTS_MAX; i++)
        if (lane->in[i].state == TT_OFI_RTS_NONE) {
            lane->in[i] = (struct tt_ofi_rts){ .state = TT_OFI_RTS_RECEIVED,
                                               .number = r->number,
                                               .data = r->put.data };
            lane->nrts_unanswered++;
            return true;
        }
    return false;       /* more RTS than allowed */
}

/* ---- records ---- */

static bool is_same(const struct tt_rput_target *a, const struct tt_rput_target *b)
{
    return a->region == b->region && a->generation == b->generation && a->offset == b->offset &&
           a->bytes == b->bytes;
}

/* Data written to a region is dropped with its signal unless a CTS granted the write. Returns false
 * if a correct peer cannot have sent the record. */
static bool ofi_apply_record(struct tt_ofi_lane *lane, const struct tt_ofi_record *r,
                             const uint8_t *payload)
{
    struct tt_ofi_link *link = lane->link;
    struct tt_ofi_rts *a = find_rts(lane, r->number);
    const bool written = r->put.data.bytes && r->put.data.region && !r->put.payload,
               allowed = !written ||
                         (a && a->state == TT_OFI_RTS_GRANTED && is_same(&a->data, &r->put.data));

    if (a) {
        lane->nrts_unanswered -= a->state == TT_OFI_RTS_RECEIVED;
        a->state = TT_OFI_RTS_NONE;
    }
    return !allowed || tt_rput_apply(&link->ofi->base.regions, link->base.mine,
                                     link->ofi->base.conf.link_bytes, &r->put, payload);
}

/* Processes the end of a message. Returns false if a correct peer cannot have sent it. */
static bool ofi_message_arrived(struct tt_ofi_lane *lane, const struct tt_ofi_record *r,
                                const uint8_t *payload)
{
    if (r->number != (uint32_t)lane->applied)
        return false;
    if (tt_trace_is_enabled())
        tt_ofi_trace(lane, 0, TT_TRACE_ARRIVED, r->number, 0, 0, 0);
    if (!ofi_apply_record(lane, r, payload))
        return false;
    lane->applied++;
    lane->ack_due |=
        r->put.flags & TT_RPUT_WANT_ACK || lane->applied - lane->applied_sent >= ACK_EVERY;
    return true;
}

/* Processes the applied counts: low bits of numbers close to the known ones. */
static bool ofi_handle_applied(struct tt_ofi_link *link, const struct tt_ofi_record *r)
{
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        struct tt_ofi_lane *lane = &link->lanes[i];
        const uint64_t acked = tt_rput_later(lane->q.acked, r->put.applied[i]);

        if (acked == lane->q.acked)     /* already known from another lane */
            continue;
        if (!tt_ofi_acked(lane, acked))
            return false;
        link->setbacks = 0;
    }
    return true;
}

static bool record_arrived(struct tt_ofi_lane *lane, const struct tt_ofi_record *r,
                           const uint8_t *payload)
{
    if (!ofi_handle_applied(lane->link, r))
        return false;
    switch (r->put.kind) {
    case TT_RPUT_RTS:
        return handle_rts(lane, r);
    case TT_RPUT_CTS:
        return tt_ofi_cts_received(&lane->link->lanes[r->put.stream], r);
    case TT_RPUT_ACK:
        return true;
    default:
        return ofi_message_arrived(lane, r, payload);
    }
}

/* Any process can send to the endpoint: data without the token is not from the peer. */
static bool is_ours(const struct tt_ofi_link *link, const uint8_t *record, size_t bytes)
{
    struct tt_reader r;

    tt_reader_init(&r, record, bytes);
    return tt_read_u64(&r) == link->token && !r.bad;
}

/* Processes the bytes[] of a receive. */
static void data_arrived(struct tt_ofi_lane *lane, const uint8_t *record, size_t bytes)
{
    struct tt_ofi_link *link = lane->link;
    struct tt_ofi_record r;

    if (link->base.status || link->base.state == TT_RPUT_LOST || !is_ours(link, record, bytes))
        return;
    lane->met = true;
    if (tt_ofi_record_read(&r, record, bytes) &&
        record_arrived(lane, &r, record + TT_OFI_RECORD_BYTES))
        return;
    link->base.status = TUTTI_ERR_PROTOCOL;
    link->broken = true;
}

/* ---- completions ---- */

static void op_received(struct tt_ofi_op *op, size_t bytes)
{
    struct tt_ofi_lane *lane = op->lane;

    data_arrived(lane, op->buffer, bytes < TT_OFI_SLOT_BYTES ? bytes : TT_OFI_SLOT_BYTES);
    lane->unposted[lane->nunposted++] = (uint16_t)(op - lane->receives);
    tt_ofi_post_receives(lane);
}

/* A further endpoint has received data, from the peer or another process. */
static void end_connected(struct tt_ofi_op *op, size_t bytes)
{
    struct tt_ofi_lane *lane = op->lane;

    if (!is_ours(lane->link, op->buffer, bytes < TT_OFI_SLOT_BYTES ? bytes : TT_OFI_SLOT_BYTES))
        lane->link->broken |= !tt_ofi_connect_receive(lane, &lane->end[op->end]);
    else if (op->end < lane->nboth)
        tt_dqplb_lanes_up(&lane->load, op->end);
}

static void op_completed(const struct fi_cq_msg_entry *e)
{
    struct tt_ofi_op *op = e->op_context;

    switch (op->kind) {
    case TT_OFI_OP_RECEIVE:
        op_received(op, e->len);
        break;
    case TT_OFI_OP_PROBE_RECEIVE:
        end_connected(op, e->len);
        break;
    case TT_OFI_OP_WRITE:
        tt_ofi_wrote(op);
        break;
    case TT_OFI_OP_PROBE:
        tt_ofi_op_give(op);
        break;
    default:
        tt_ofi_sent(op);
        break;
    }
}

/* An operation failed. A receive may fail because of foreign data and is posted again; any other
 * failure breaks the link. */
static void op_failed(struct tt_ofi_link *link)
{
    struct fi_cq_err_entry e = { 0 };
    const struct tt_ofi_op *op;

    if (fi_cq_readerr(link->cq, &e, 0) < 0)
        return;
    op = e.op_context;
    if (op && op->kind == TT_OFI_OP_PROBE_RECEIVE && (e.err == FI_ETRUNC || e.err == FI_EMSGSIZE)) {
        end_connected(e.op_context, 0);
        return;
    }
    if (op && op->kind == TT_OFI_OP_RECEIVE && (e.err == FI_ETRUNC || e.err == FI_EMSGSIZE)) {
        op_received(e.op_context, 0);
        return;
    }
    if (!link->broken)
        tt_log(TT_LOG_DEBUG, "ofi: an operation with rank %u failed: %s", link->base.peer,
               tt_ofi_strerror(e.err));
    link->setbacks += !link->broken;
    link->broken = true;
}

uint32_t tt_ofi_collect(struct tt_ofi_link *link)
{
    struct fi_cq_msg_entry entries[COLLECT_MAX];
    uint32_t all = 0;

    for (uint32_t round = 0; link->cq && round < COLLECT_ROUNDS; round++) {
        const ssize_t n = fi_cq_read(link->cq, entries, COLLECT_MAX);

        if (n == -FI_EAVAIL) {
            op_failed(link);
            continue;
        }
        if (n <= 0)
            break;
        for (ssize_t i = 0; i < n; i++)
            op_completed(&entries[i]);
        all += (uint32_t)n;
        if (n < COLLECT_MAX)
            break;
    }
    return all;
}
