#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "wire/ofi/ofi.h"

/* ---- space ---- */

static uint8_t *chunk_at(const struct tt_ofi_lane *lane, uint32_t index)
{
    return lane->chunks + index * (size_t)TT_OFI_CHUNK_BYTES;
}

static uint8_t *staging_at(const struct tt_ofi_lane *lane, uint64_t message)
{
    return lane->staging + message % TT_OFI_DEPTH * TT_OFI_SLOT_BYTES;
}

/* Allocates one of n buffers, whose bits are in *used. Returns false if none is free. */
static bool buffer_take(uint32_t *used, uint32_t n, uint8_t *index)
{
    const int at = __builtin_ffs((int)~*used);      /* from 1; 0: all are used */

    if (at == 0 || (uint32_t)at > n)
        return false;
    *index = (uint8_t)(at - 1);
    *used |= 1u << *index;
    return true;
}

static uint64_t limit_of(const struct tt_ofi_link *link)
{
    const struct tt_rput *r = link->base.rput;

    return r->limits.bytes[tt_rput_distance(&r->conf, link->base.peer)];
}

/* Completes a record before it is sent: the receiver's token, and the applied counts. */
static void stamp_record(struct tt_ofi_link *link, uint8_t *record)
{
    uint64_t applied[TT_RPUT_STREAMS];

    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        applied[i] = link->lanes[i].applied_sent = link->lanes[i].applied;
        link->lanes[i].ack_due = false;
    }
    tt_ofi_record_stamp(record, link->theirs_token, applied);
}

/* ---- acknowledgements and CTS ---- */

/* Sends an acknowledgement or CTS on the control lane. Returns false if not possible now. */
static bool note_send(struct tt_ofi_link *link, const struct tt_ofi_record *r)
{
    struct tt_ofi_lane *control = &link->lanes[TT_RPUT_CONTROL];
    struct tt_ofi_op *op = tt_ofi_op_take(control, 0);
    uint8_t *note;

    if (!op)
        return false;
    if (!buffer_take(&control->notes_used, TT_OFI_NOTES, &op->buffer_index)) {
        tt_ofi_op_give(op);
        return false;
    }
    op->kind = TT_OFI_OP_NOTE;
    note = control->notes + op->buffer_index * (size_t)TT_OFI_RECORD_BYTES;
    tt_ofi_record_write(r, note);
    stamp_record(link, note);
    if (tt_ofi_post_record(op, note, TT_OFI_RECORD_BYTES))
        return true;
    control->notes_used &= ~(1u << op->buffer_index);
    return false;
}

/* Sends a CTS with the address, or a refusal. Returns false if not possible now. */
static bool send_cts(struct tt_ofi_lane *lane, struct tt_ofi_rts *a)
{
    struct tt_ofi_link *link = lane->link;
    struct tt_rput_region *region;
    struct fid_mr *mr = NULL;
    struct tt_ofi_record r = { .number = a->number,
                               .put = { .kind = TT_RPUT_CTS, .stream = (uint8_t)lane->index } };
    uint8_t *mem;

    if (a->data.bytes > 0 &&
        tt_rput_find(&link->ofi->base.regions, link->base.mine, link->ofi->base.conf.link_bytes,
                     &a->data, false, &mem, &region) == TT_RPUT_FOUND &&
        region)
        mr = tt_ofi_region_grant(lane, (struct tt_ofi_region *)region);
    if (mr) {
        r.put.flags = TT_RPUT_YES;
        r.put.data.offset = tt_ofi_region_address(link->ofi, region, a->data.offset);
        r.put.data.bytes = fi_mr_key(mr);
    }
    if (!note_send(link, &r))
        return false;
    a->state = mr ? TT_OFI_RTS_GRANTED : TT_OFI_RTS_REFUSED;
    lane->nrts_unanswered--;
    return true;
}

/* Sends pending acknowledgements and CTS. */
static void notes_pump(struct tt_ofi_link *link)
{
    const struct tt_ofi_record ack = { .put.kind = TT_RPUT_ACK };

    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        struct tt_ofi_lane *lane = &link->lanes[i];

        for (uint32_t k = 0; k < TT_OFI_RTS_MAX && lane->nrts_unanswered > 0; k++)
            if (lane->in[k].state == TT_OFI_RTS_RECEIVED && !send_cts(lane, &lane->in[k]))
                return;
    }
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++)
        if (link->lanes[i].ack_due && !note_send(link, &ack)) {
            link->lanes[i].ack_due = true;
            return;
        }
}

/* ---- send, in this order ---- */

/* Sends the RTS of the next messages. */
static void pump_rts(struct tt_ofi_lane *lane)
{
    for (; lane->rts_sent < lane->q.tail; lane->rts_sent++) {
        const struct tt_ofi_out *m = tt_ofi_out_of(lane, lane->rts_sent);
        struct tt_ofi_op *op;
        uint8_t *record;

        if (!m->needs_cts)
            continue;
        if (lane->nrts == TT_OFI_RTS_MAX || !(op = tt_ofi_op_take(lane, TT_OFI_SENDS_RESERVED)))
            return;
        if (!buffer_take(&lane->asking_used, TT_OFI_RTS_MAX, &op->buffer_index)) {
            tt_ofi_op_give(op);
            return;
        }
        op->kind = TT_OFI_OP_RTS;
        record = lane->rts_records + op->buffer_index * (size_t)TT_OFI_RECORD_BYTES;
        memcpy(record, staging_at(lane, lane->rts_sent), TT_OFI_RECORD_BYTES);
        tt_ofi_record_become(record, TT_RPUT_RTS);
        stamp_record(lane->link, record);
        if (!tt_ofi_post_record(op, record, TT_OFI_RECORD_BYTES)) {
            lane->asking_used &= ~(1u << op->buffer_index);
            return;
        }
        lane->nrts++;
    }
}

/* Returns the registration of a message's source. */
static struct fid_mr *source_mr(const struct tt_ofi_lane *lane, const struct tt_ofi_out *m,
                                bool chunk)
{
    const struct tt_ofi *o = lane->link->ofi;

    if (chunk)
        return lane->link->local_mr;
    if (m->source)
        return m->source->handle;
    for (uint32_t i = 0; i < o->base.nactive; i++) {
        const uint8_t *mine = tt_ofi_link_at(o, i)->base.mine;

        if (m->base.data >= mine && m->base.data < mine + o->base.conf.link_bytes)
            return tt_ofi_link_at(o, i)->mine_mr;
    }
    return NULL;
}

/* Copies the source of a write to a chunk, held until the write is complete. NULL: none is free. */
static const uint8_t *chunk_lend(struct tt_ofi_lane *lane, struct tt_ofi_op *op,
                                 const uint8_t *data)
{
    uint8_t chunk = 0;

    if (!buffer_take(&lane->chunks_used, TT_OFI_CHUNKS, &chunk))
        return NULL;
    op->buffer_index = (uint8_t)(chunk + 1);
    lane->chunks_lent |= 1u << chunk;
    return memcpy(chunk_at(lane, chunk), data, op->bytes);
}

/* Number of chunks that messages hold until they are acknowledged. */
static uint32_t chunks_held(const struct tt_ofi_lane *lane)
{
    return (uint32_t)__builtin_popcount(lane->chunks_used & ~lane->chunks_lent);
}

static void chunk_take_back(struct tt_ofi_op *op)
{
    const uint32_t bit = op->buffer_index ? 1u << (op->buffer_index - 1) : 0;

    op->lane->chunks_used &= ~bit;
    op->lane->chunks_lent &= ~bit;
}

void tt_ofi_trace(const struct tt_ofi_lane *lane, uint32_t end, enum tt_trace_kind kind,
                  uint64_t message, uint32_t part, uint64_t bytes, uint64_t at_ns)
{
    tt_trace_add(&(struct tt_trace_event){ .at_ns = at_ns,
                                           .wire = "ofi",
                                           .bytes = bytes,
                                           .peer = lane->link->base.peer,
                                           .number = (uint32_t)message,
                                           .part = part,
                                           .kind = (uint8_t)kind,
                                           .lane = (uint8_t)(lane->index + end),
                                           .rail = TT_TRACE_NO_RAIL });
}

/* Time before a post, since the peer may receive it before the call returns; 0 without a trace. */
static uint64_t time_of_post(void)
{
    return tt_trace_is_enabled() ? tt_now_ns() : 0;
}

/* Returns the endpoint for a piece of a message, or TT_DQPLB_NO_LANE if all are full. */
static uint32_t choose_end(struct tt_ofi_lane *lane, const struct tt_ofi_out *m, uint64_t bytes)
{
    const uint32_t named = m->base.lane ? (m->base.lane - 1u) % lane->nboth : 0;

    if (m->base.few_lanes || m->base.lane == 0)
        return tt_dqplb_lanes_choose(&lane->load, bytes, m->base.few_lanes ? m->base.lane : 0);
    return tt_dqplb_lanes_has_room(&lane->load, named, bytes) ? named : TT_DQPLB_NO_LANE;
}

/* Returns the length of a message's pieces. */
static uint64_t message_piece_bytes(const struct tt_ofi_lane *lane, const struct tt_ofi_out *m)
{
    const struct tt_ofi_provider *p = &lane->link->ofi->provider;

    return p->copies && !m->chunk ? TT_OFI_CHUNK_BYTES : p->segment_bytes;
}

/* Returns the length of the piece at `posted`. */
static uint64_t piece_at(const struct tt_ofi_lane *lane, const struct tt_ofi_out *m,
                         uint64_t posted)
{
    const uint64_t most = message_piece_bytes(lane, m);

    return m->base.bytes - posted < most ? m->base.bytes - posted : most;
}

/* All operations posted together have FI_MORE, except the last. A provider may delay an operation
 * with FI_MORE until the next one, which must therefore certainly follow in this pump. These
 * functions return whether it does: the next write after a piece of `bytes`; the record; any
 * operation of `message` after an earlier record. The operation about to be posted is already
 * taken. */
static bool write_follows(const struct tt_ofi_lane *lane, const struct tt_ofi_out *m,
                          uint64_t bytes)
{
    const uint64_t posted = m->posted + bytes;

    return posted < m->base.bytes && lane->nboth == 1 &&
           (!lane->link->ofi->provider.copies || m->chunk) &&
           lane->nfree_sends > TT_OFI_SENDS_RESERVED &&
           lane->load.lane[0].bytes + bytes + piece_at(lane, m, posted) <= lane->load.bytes_max;
}

static bool record_follows(const struct tt_ofi_lane *lane, uint64_t message)
{
    const struct tt_ofi_out *m = tt_ofi_out_of((struct tt_ofi_lane *)(uintptr_t)lane, message);

    return message - lane->q.acked < TT_OFI_SLOTS && lane->nfree_sends > TT_OFI_SENDS_RESERVED &&
           m->away == 0 && (lane->link->ofi->provider.ordered || m->writes == 0);
}

static bool message_follows(const struct tt_ofi_lane *lane, uint64_t message)
{
    const struct tt_ofi_out *m = tt_ofi_out_of((struct tt_ofi_lane *)(uintptr_t)lane, message);

    if (message < lane->written)
        return record_follows(lane, message);
    if (message == lane->rts_sent || (m->needs_cts && !m->has_cts) || lane->stuck)
        return false;
    return m->posted < m->base.bytes ? write_follows(lane, m, 0) : record_follows(lane, message);
}

/* Posts the next piece of a message over that endpoint. Returns false if not possible now. */
static bool write_over(struct tt_ofi_lane *lane, struct tt_ofi_out *m, uint32_t end, uint64_t bytes)
{
    const struct tt_ofi_link *link = lane->link;
    const bool copy = link->ofi->provider.copies && !m->chunk;
    const uint8_t *data = m->base.data + m->posted;
    const uint64_t target = m->target + m->posted + (m->needs_cts ? 0 : link->theirs_address);
    const uint64_t post_ns = time_of_post();
    struct tt_ofi_op *op = tt_ofi_op_take(lane, TT_OFI_SENDS_RESERVED);

    if (!op)
        return false;
    op->kind = TT_OFI_OP_WRITE;
    op->end = (uint8_t)end;
    op->message = lane->written;
    op->part = 1 + (uint32_t)(m->posted / message_piece_bytes(lane, m));
    op->bytes = (uint32_t)bytes;
    op->more = end == 0 && (write_follows(lane, m, bytes) ||
                            (m->posted + bytes == m->base.bytes && lane->sent == lane->written &&
                             link->ofi->provider.ordered && record_follows(lane, lane->sent)));
    if (copy) {
        data = chunk_lend(lane, op, data);
        if (!data) {
            tt_ofi_op_give(op);
            return false;
        }
    }
    if (!tt_ofi_post_write(op, data, source_mr(lane, m, copy || m->chunk), target,
                           m->needs_cts ? m->key : link->theirs_key[lane->index])) {
        chunk_take_back(op);
        return false;
    }
    if (post_ns)
        tt_ofi_trace(lane, end, TT_TRACE_POSTED, op->message, op->part, op->bytes, post_ns);
    m->posted += op->bytes;
    m->writes++;
    m->away += end > 0;
    tt_wire_posts_add(&lane->end[end].posts, bytes);
    tt_dqplb_lanes_give(&lane->load, end, 1, bytes);
    return true;
}

/* Posts the next piece over any endpoint that accepts it; skips stuck ones. */
static bool write_segment(struct tt_ofi_lane *lane, struct tt_ofi_out *m)
{
    const uint64_t bytes = piece_at(lane, m, m->posted);

    for (uint32_t tries = 0; tries < lane->nboth && !lane->link->broken; tries++) {
        const uint32_t end = choose_end(lane, m, bytes);

        if (end == TT_DQPLB_NO_LANE)
            return false;
        if (write_over(lane, m, end, bytes)) {
            lane->stuck = false;
            return true;
        }
        if (!lane->stuck)
            return false;       /* the endpoint has space; another resource is exhausted */
    }
    return false;
}

/* Posts writes of one message. Returns false if some remain, or if there is no message. */
static bool pump_writes(struct tt_ofi_lane *lane)
{
    struct tt_ofi_out *m = tt_ofi_out_of(lane, lane->written);

    if (lane->written == lane->rts_sent || (m->needs_cts && !m->has_cts))
        return false;
    while (m->posted < m->base.bytes)
        if (!write_segment(lane, m))
            return false;
    lane->written++;
    return true;
}

/* Posts the records of messages whose writes are posted. */
static void pump_records(struct tt_ofi_lane *lane)
{
    while (lane->sent < lane->written && lane->sent - lane->q.acked < TT_OFI_SLOTS) {
        struct tt_ofi_out *m = tt_ofi_out_of(lane, lane->sent);
        uint8_t *record = staging_at(lane, lane->sent);
        const uint64_t post_ns = time_of_post();
        struct tt_ofi_op *op;

        if (m->away > 0 || (!lane->link->ofi->provider.ordered && m->writes > 0))
            return;
        op = tt_ofi_op_take(lane, TT_OFI_SENDS_RESERVED);
        if (!op)
            return;
        op->kind = TT_OFI_OP_RECORD;
        op->message = lane->sent;
        op->part = 0;
        op->more = lane->sent + 1 < lane->q.tail && message_follows(lane, lane->sent + 1);
        stamp_record(lane->link, record);
        if (!tt_ofi_post_record(op, record, m->base.slot_bytes))
            return;
        if (post_ns)
            tt_ofi_trace(lane, 0, TT_TRACE_POSTED, op->message, 0,
                         m->base.slot_bytes - TT_OFI_RECORD_BYTES, post_ns);
        m->records++;
        tt_wire_posts_add(&lane->end[0].posts, m->base.slot_bytes - TT_OFI_RECORD_BYTES);
        lane->sent++;
    }
}

/* With providers that use connections, the lower rank's first message on each lane connects. If
 * both ends connected simultaneously, one would be refused, and its operations would fail. */
static bool lane_may_send(const struct tt_ofi_lane *lane)
{
    return lane->met || lane->link->ofi->base.conf.rank < lane->link->base.peer;
}

static void lane_pump(struct tt_ofi_lane *lane, uint64_t limit)
{
    bool more = true;

    lane->stuck = false;
    lane->load.bytes_max = limit;
    tt_ofi_post_receives(lane);
    if (!lane_may_send(lane))
        return;
    while (more && lane->sent < lane->q.tail) {
        pump_rts(lane);
        more = pump_writes(lane);
        pump_records(lane);
        more &= !lane->stuck && !lane->link->broken;
    }
    tt_ofi_connect_endpoints(lane);
}

void tt_ofi_link_pump(struct tt_ofi_link *link)
{
    const uint64_t limit = limit_of(link);

    if (link->base.state != TT_RPUT_UP || link->broken)
        return;
    if (lane_may_send(&link->lanes[TT_RPUT_CONTROL]))
        notes_pump(link);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS && !link->broken; i++)
        lane_pump(&link->lanes[i], limit);
}

/* ---- completions and responses ---- */

void tt_ofi_wrote(struct tt_ofi_op *op)
{
    struct tt_ofi_lane *lane = op->lane;
    struct tt_ofi_out *m = tt_ofi_out_of(lane, op->message);

    if (tt_trace_is_enabled())
        tt_ofi_trace(lane, op->end, TT_TRACE_COMPLETED, op->message, op->part, 0, 0);
    m->writes--;
    m->away -= op->end > 0;
    tt_assert(tt_dqplb_lanes_done(&lane->load, op->end, 1, op->bytes));
    chunk_take_back(op);
    tt_ofi_op_give(op);
}

void tt_ofi_sent(struct tt_ofi_op *op)
{
    struct tt_ofi_lane *lane = op->lane;

    if (op->kind == TT_OFI_OP_RECORD && tt_trace_is_enabled())
        tt_ofi_trace(lane, 0, TT_TRACE_COMPLETED, op->message, 0, 0, 0);
    if (op->kind == TT_OFI_OP_RECORD)
        tt_ofi_out_of(lane, op->message)->records--;
    else if (op->kind == TT_OFI_OP_RTS)
        lane->asking_used &= ~(1u << op->buffer_index);
    else
        lane->notes_used &= ~(1u << op->buffer_index);
    tt_ofi_op_give(op);
}

bool tt_ofi_acked(struct tt_ofi_lane *lane, uint64_t acked)
{
    if (acked > lane->sent)
        return false;
    lane->met |= lane->q.acked < acked;
    for (; lane->q.acked < acked; lane->q.acked++)
        lane->nrts -= tt_ofi_out_of(lane, lane->q.acked)->needs_cts && lane->nrts > 0;
    lane->q.done = lane->q.acked;
    return true;
}

static void message_void(struct tt_ofi_lane *lane, uint64_t message)
{
    struct tt_ofi_out *m = tt_ofi_out_of(lane, message);

    m->base.data = NULL;
    m->source = NULL;
    m->base.bytes = m->posted = 0;
    m->orphan = false;
    m->has_cts = true;     /* no CTS is needed any more */
    tt_ofi_record_become(staging_at(lane, message), TT_RPUT_VOID);
}

bool tt_ofi_cts_received(struct tt_ofi_lane *lane, const struct tt_ofi_record *r)
{
    const uint64_t message = lane->q.acked + (uint32_t)(r->number - (uint32_t)lane->q.acked);
    struct tt_ofi_out *m = tt_ofi_out_of(lane, message);

    if ((int32_t)(r->number - (uint32_t)lane->q.acked) < 0)
        return true;        /* the message was sent without CTS and applied: there is no order among
                               endpoints */
    if (message >= lane->rts_sent || !m->needs_cts)
        return false;
    if (m->has_cts)        /* the message became void while it waited */
        return true;
    m->has_cts = true;
    m->target = r->put.data.offset;
    m->key = r->put.data.bytes;
    if (!(r->put.flags & TT_RPUT_YES))
        message_void(lane, message);
    return true;
}

void tt_ofi_lane_halt(struct tt_ofi_lane *lane)
{
    for (uint64_t i = lane->retired; i < lane->q.tail; i++)
        tt_ofi_out_of(lane, i)->writes = tt_ofi_out_of(lane, i)->away =
            tt_ofi_out_of(lane, i)->records = 0;
    lane->chunks_used &= ~lane->chunks_lent;
    lane->chunks_lent = lane->notes_used = lane->asking_used = 0;
    memset(lane->in, 0, sizeof lane->in);
    lane->nrts_unanswered = 0;
    lane->ack_due = false;      /* the hello has the counts */
}

bool tt_ofi_lane_again(struct tt_ofi_lane *lane, uint64_t applied)
{
    if (applied < lane->q.acked || !tt_ofi_acked(lane, applied))
        return false;
    lane->met = false;      /* earlier acknowledgements were for the old endpoints */
    lane->sent = lane->written = lane->rts_sent = lane->q.acked;
    lane->nrts = 0;
    for (uint64_t i = lane->q.acked; i < lane->q.tail; i++) {
        struct tt_ofi_out *m = tt_ofi_out_of(lane, i);

        m->posted = 0;
        if (m->orphan)
            message_void(lane, i);
        if (!m->base.data)
            m->needs_cts = false;
        m->has_cts = false;
    }
    return true;
}

bool tt_ofi_source_gone(struct tt_ofi_lane *lane, const struct tt_rput_region *r)
{
    bool reading = false;

    for (uint64_t i = lane->q.acked; i < lane->q.tail; i++) {
        struct tt_ofi_out *m = tt_ofi_out_of(lane, i);

        if (m->source != r)
            continue;
        reading |= m->writes > 0 && !lane->link->ofi->provider.copies;
        m->source = tt_rput_source(&lane->link->ofi->base.regions, m->base.data, m->base.bytes);
        if (m->source)
            continue;       /* the bytes are also in another region */
        if (i < lane->sent && m->writes == 0)
            m->orphan = true;
        else
            message_void(lane, i);
    }
    return reading;
}

static void lane_retire(struct tt_ofi_lane *lane)
{
    for (; lane->retired < lane->q.remote; lane->retired++) {
        const struct tt_ofi_out *m = tt_ofi_out_of(lane, lane->retired);

        if (m->writes || m->records)
            return;
        if (m->chunk)
            lane->chunks_used &= ~(1u << (m->chunk - 1));
    }
}

int tt_ofi_lane_report(struct tt_ofi_lane *lane, struct tt_done *done, int max)
{
    const int n =
        tt_rput_queue_has_reports(&lane->q) ? tt_rput_queue_report(&lane->q, done, max) : 0;

    lane_retire(lane);
    return n;
}

/* ---- post ---- */

/* Sets the source of a long message: a chunk if it is copied. Returns false if there is no space
 * now. */
static bool source_enter(struct tt_ofi_lane *lane, struct tt_ofi_out *m, const struct tt_desc *d)
{
    struct tt_ofi *o = lane->link->ofi;
    uint8_t chunk;

    m->base.data = d->local;
    if (!(d->flags & TT_DESC_INLINE)) {
        m->source = tt_rput_source(&o->base.regions, d->local, d->bytes);
        /* a put's source is registered */
        tt_assert(m->source || source_mr(lane, m, false) || o->provider.per_endpoint);
        return true;
    }
    tt_assert(d->bytes <= TT_OFI_CHUNK_BYTES);
    if (o->provider.copies && chunks_held(lane) >= TT_OFI_CHUNKS / 2)
        return false;       /* an earlier message needs chunks for its writes; otherwise both
                               would wait forever */
    if (!buffer_take(&lane->chunks_used, TT_OFI_CHUNKS, &chunk))
        return false;
    m->chunk = (uint8_t)(chunk + 1);
    m->base.data = memcpy(chunk_at(lane, chunk), d->local, d->bytes);
    return true;
}

/* Enters a put as the lane's next message. Returns false if there is no space now. */
static bool ofi_put_enter(struct tt_rput_link *base, uint32_t index, const struct tt_desc *d)
{
    struct tt_ofi_lane *lane = &((struct tt_ofi_link *)base)->lanes[index];
    const bool copied = d->flags & TT_DESC_INLINE,
               small = d->bytes <= TT_OFI_PAYLOAD_BYTES && !(d->flags & TT_DESC_DIRECT);
    uint8_t *slot = staging_at(lane, lane->q.tail);
    struct tt_ofi_out m = { .base = tt_rput_out_of(d) };
    const struct tt_ofi_record r = {
        .number = (uint32_t)lane->q.tail,
        .put = tt_rput_record_of(d, small, m.base.report_local || m.base.report_remote || !small),
    };

    if (lane->q.tail - lane->retired >= TT_OFI_DEPTH - (copied ? 0 : TT_OFI_RESERVED))
        return false;
    if (!small) {
        if (!source_enter(lane, &m, d))
            return false;
        m.base.bytes = d->bytes;
        m.target = d->offset;
        m.needs_cts = r.put.data.region != 0;
    }
    tt_ofi_record_write(&r, slot);
    if (small && d->bytes)
        memcpy(slot + TT_OFI_RECORD_BYTES, d->local, d->bytes);
    m.base.slot_bytes = TT_OFI_RECORD_BYTES + r.put.payload;
    *tt_ofi_out_of(lane, lane->q.tail++) = m;
    return true;
}

void tt_ofi_lane_flush(struct tt_ofi_lane *lane)
{
    const struct tt_ofi_record r = { .number = (uint32_t)lane->q.tail,
                                     .put = { .kind = TT_RPUT_VOID, .flags = TT_RPUT_WANT_ACK } };

    if (lane->q.tail - lane->retired >= TT_OFI_DEPTH)
        return;
    tt_ofi_record_write(&r, staging_at(lane, lane->q.tail));
    *tt_ofi_out_of(lane, lane->q.tail++) =
        (struct tt_ofi_out){ .base.slot_bytes = TT_OFI_RECORD_BYTES };
}

/* Acknowledgements and CTS of both lanes use the control lane, so all of the link is pumped. */
static void ofi_pump(struct tt_rput_link *base, uint32_t index)
{
    (void)index;
    tt_ofi_link_pump((struct tt_ofi_link *)base);
}

int tt_ofi_post(struct tt_wire *w, const struct tt_desc *desc, int n)
{
    struct tt_ofi *o = tt_ofi_of(w);
    int taken;

    pthread_mutex_lock(&o->lock);
    taken = tt_rput_post(&o->base, desc, n, ofi_put_enter, ofi_pump);
    pthread_mutex_unlock(&o->lock);
    return taken;
}
