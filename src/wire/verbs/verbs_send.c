#include <arpa/inet.h>
#include <string.h>
#include "base/log.h"
#include "base/status.h"
#include "wire/verbs/verbs.h"

#define WRS_PER_SEGMENT 2   /* maximum */

/* ---- marks for poll ---- */

void tt_verbs_note(struct tt_verbs_stream *s)
{
    struct tt_verbs *v = s->link->verbs;

    if (s->noted)
        return;
    s->noted = true;
    s->next_noted = NULL;
    *v->noted_end = s;
    v->noted_end = &s->next_noted;
}

void tt_verbs_lane_mark(struct tt_verbs_lane *lane)
{
    lane->broken = true;
    lane->link->verbs->any_broken = true;
}

/* ---- work requests ---- */

/* Streams post in turn: between them all chains are empty. */
static struct tt_verbs_chain *chain_of(struct tt_verbs_lane *lane)
{
    struct tt_verbs_chain *c = &lane->link->verbs->chain[lane->index];

    tt_assert(c->n == 0 || c->lane == lane);
    c->lane = lane;
    return c;
}

/* Returns whether the lane has space for a work request that is not part of a segment; segments
 * always have space. */
static bool lane_has_room(const struct tt_verbs_lane *lane)
{
    const struct tt_dqplb_sender *d = &lane->stream->sender;

    return lane->wr_tail - lane->wr_head <
           lane->wr_depth -
               WRS_PER_SEGMENT * (d->limits.outstanding - d->lanes.lane[lane->index].outstanding);
}

/* Work requests that the device refuses are already numbered. Later ones must not succeed, since
 * their completions would also complete the refused ones. */
static void chain_post(struct tt_verbs_chain *c)
{
    struct ibv_send_wr *bad = NULL;
    int err;

    if (c->n == 0)
        return;
    c->wr[c->n - 1].next = NULL;
    err = ibv_post_send(c->lane->qp, c->wr, &bad);
    c->n = 0;
    if (err) {
        c->lane->unwatched++;       /* so that taking it down posts one more, whose completion
                                       ends the wait for these */
        tt_verbs_qp_stop(c->lane);
        tt_verbs_lane_mark(c->lane);
    }
}

/* Adds a write of data[bytes] to `target` for a message; watched: signaled. */
static struct ibv_send_wr *chain_add(struct tt_verbs_chain *c, const struct tt_verbs_wr *what,
                                     const void *data, uint32_t bytes, uint32_t lkey,
                                     uint64_t target, uint32_t rkey, bool watched)
{
    struct tt_verbs_lane *lane = c->lane;
    struct ibv_send_wr *wr;

    if (c->n == TT_VERBS_CHAIN)
        chain_post(c);
    wr = &c->wr[c->n];
    c->sge[c->n] = (struct ibv_sge){ .addr = (uintptr_t)data, .length = bytes, .lkey = lkey };
    *wr = (struct ibv_send_wr){
        .wr_id = lane->wr_tail,
        .next = wr + 1,
        .sg_list = &c->sge[c->n],
        .num_sge = bytes > 0,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags =
            (watched || lane->unwatched + 1 >= lane->stream->watch_every ? IBV_SEND_SIGNALED : 0) |
            (bytes > 0 && bytes <= lane->inline_bytes ? IBV_SEND_INLINE : 0),
        .wr.rdma = { .remote_addr = target, .rkey = rkey },
    };
    lane->unwatched = wr->send_flags & IBV_SEND_SIGNALED ? 0 : lane->unwatched + 1;
    lane->wrs[lane->wr_tail++ % lane->wr_depth] = *what;
    c->n++;
    return wr;
}

static void with_immediate(struct ibv_send_wr *wr, uint32_t imm)
{
    wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr->imm_data = htonl(imm);
}

/* Adds the record of a message. With several lanes it is always signaled, since later messages on
 * other lanes complete only after it. */
static void add_record(struct tt_verbs_chain *c, const struct tt_dqplb_segment *g)
{
    struct tt_verbs_stream *s = c->lane->stream;
    struct tt_verbs_link *link = s->link;
    const struct tt_verbs_out *m = tt_verbs_out_of(s, g->message);
    const struct tt_verbs_wr what = { .message = g->message,
                                      .number = g->word & TT_DQPLB_SEQ_MASK,
                                      .segment = true };
    const uint32_t rail = c->lane->rail;
    uint8_t *slot = tt_verbs_staging(s, g->message);
    uint64_t applied[TT_RPUT_STREAMS];

    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        applied[i] = link->streams[i].acked_segments_sent = link->streams[i].receiver.expected;
        link->streams[i].ack_due = false;
    }
    tt_rput_record_stamp(slot, applied);
    with_immediate(chain_add(c, &what, slot, m->base.slot_bytes, link->local_mr[rail]->lkey,
                             s->peer_ring + g->message % TT_VERBS_SLOTS * TT_VERBS_SLOT_BYTES,
                             link->theirs.rkey[rail], m->watched || s->nlanes > 1),
                   g->word);
}

/* The message's record may have arrived, or be in flight over another lane, without being void. The
 * mark next to it arrives before the following segment on the same lane is counted, and so before
 * the message is complete. */
static void add_void_mark(struct tt_verbs_chain *c, const struct tt_dqplb_segment *g)
{
    struct tt_verbs_stream *s = c->lane->stream;
    struct tt_verbs_link *link = s->link;
    const struct tt_verbs_wr what = { .message = g->message };
    const uint32_t rail = c->lane->rail;

    /* the first byte of the staged record is its kind, TT_RPUT_VOID */
    chain_add(c, &what, tt_verbs_staging(s, g->message), 1, link->local_mr[rail]->lkey,
              s->peer_ring + g->message % TT_VERBS_SLOTS * TT_VERBS_SLOT_BYTES + TT_VERBS_MARK_AT,
              link->theirs.rkey[rail], false);
}

void tt_verbs_trace(const struct tt_verbs_lane *lane, enum tt_trace_kind kind, uint32_t number,
                    uint64_t bytes)
{
    tt_trace_add(&(struct tt_trace_event){ .wire = "verbs",
                                           .bytes = bytes,
                                           .peer = lane->link->base.peer,
                                           .number = number,
                                           .queue = lane->qpn,
                                           .kind = (uint8_t)kind,
                                           .lane = (uint8_t)lane->number,
                                           .rail = (uint8_t)lane->rail });
}

/* The segments of a void message are still counted, but carry no data. */
static void chain_add_segment(struct tt_verbs_chain *c, const struct tt_dqplb_segment *g)
{
    struct tt_verbs_lane *lane = c->lane;
    const struct tt_verbs_out *m = tt_verbs_out_of(lane->stream, g->message);
    const uint32_t bytes = m->base.data ? (uint32_t)g->bytes : 0;
    const struct tt_verbs_wr what = { .message = g->message,
                                      .number = g->word & TT_DQPLB_SEQ_MASK,
                                      .payload = bytes > 0,
                                      .segment = !g->last };
    struct ibv_send_wr *wr;

    if (tt_trace_is_enabled())
        tt_verbs_trace(lane, TT_TRACE_POSTED, what.number,
                       m->base.data ? g->bytes : m->base.slot_bytes - TT_RPUT_RECORD_BYTES);
    if (!m->base.data && m->base.bytes > 0 && !g->last)
        add_void_mark(c, g);
    if (bytes > 0 || !g->last) {
        wr = chain_add(c, &what, bytes > 0 ? m->base.data + g->offset : NULL, bytes,
                       m->lkey[lane->rail], m->target + g->offset, m->rkey[lane->rail], !g->last);
        if (m->direct)
            wr->send_flags &= ~(unsigned)IBV_SEND_INLINE;   /* libibverbs would copy it by the
                                                               CPU */
        if (!g->last)
            with_immediate(wr, g->word);
    }
    if (g->last)
        add_record(c, g);
    tt_wire_posts_add(&lane->posts, bytes);
}

/* Acknowledges a stream if no record is about to do so. */
static void add_ack(struct tt_verbs_chain *c, struct tt_verbs_stream *of)
{
    const struct tt_verbs_wr what = { .message = TT_VERBS_NO_MESSAGE };

    with_immediate(chain_add(c, &what, NULL, 0, 0, 0, 0, false),
                   tt_dqplb_word(of->receiver.expected, false, false) |
                       of->index << TT_IMM_STREAM_SHIFT | TT_IMM_ACK);
    of->acked_segments_sent = of->receiver.expected;
    of->ack_due = false;
}

/* ---- a stream ---- */

/* Acknowledgements of both streams use the control lane. */
static void pump_acks(struct tt_verbs_link *link)
{
    struct tt_verbs_lane *lane = link->streams[TT_RPUT_CONTROL].lane;
    struct tt_verbs_chain *c = chain_of(lane);

    if (lane->state != TT_VERBS_LANE_UP || lane->broken)
        return;
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++)
        if (link->streams[i].ack_due && lane_has_room(lane))
            add_ack(c, &link->streams[i]);
    chain_post(c);
}

/* Returns whether there is a segment and the receiver has space for it. */
static bool stream_has_sendable(struct tt_verbs_stream *s)
{
    const struct tt_verbs_out *m;

    if (s->sender.resend > 0)
        return true;
    if (s->sender.head - s->acked_segments >= TT_VERBS_WINDOW)
        return false;
    if (s->sender.cutting)
        return true;
    if (s->sent == s->q.tail || s->sent - s->q.acked >= TT_VERBS_SLOTS)
        return false;
    m = tt_verbs_out_of(s, s->sent);
    if (!tt_dqplb_begin(&s->sender, s->sent, m->base.bytes, m->base.bytes == 0))
        return false;
    if (m->base.few_lanes)
        tt_dqplb_keep_within(&s->sender, m->base.lane);
    else if (m->base.lane)
        tt_dqplb_keep_to(&s->sender, (m->base.lane - 1u) % s->nlanes);
    return true;
}

/* Posts the work requests of each lane with one doorbell, up to TT_VERBS_CHAIN at a time. */
void tt_verbs_stream_pump(struct tt_verbs_stream *s)
{
    struct tt_dqplb_segment g;

    if (s->link->base.state != TT_RPUT_UP)
        return;
    while (stream_has_sendable(s) && tt_dqplb_next(&s->sender, &g)) {
        if (g.last && g.message == s->sent) {
            tt_verbs_out_of(s, g.message)->end = s->sender.head;
            s->sent++;
        }
        chain_add_segment(chain_of(&s->lane[g.lane]), &g);
    }
    for (uint32_t i = 0; i < s->nlanes; i++)
        chain_post(chain_of(&s->lane[i]));
    pump_acks(s->link);
}

void tt_verbs_lane_probe(struct tt_verbs_lane *lane)
{
    const struct tt_verbs_wr what = { .message = TT_VERBS_NO_MESSAGE };
    struct tt_verbs_chain *c = chain_of(lane);

    if (!lane->qp || !lane_has_room(lane))
        return;
    chain_add(c, &what, NULL, 0, 0, 0, 0, true);
    chain_post(c);
}

void tt_verbs_lane_watch(struct tt_verbs_lane *lane)
{
    if (lane->unwatched > 0)
        tt_verbs_lane_probe(lane);
}

void tt_verbs_lane_check(struct tt_verbs_lane *lane)
{
    if (lane->wr_head == lane->wr_tail)
        tt_verbs_lane_probe(lane);
    else
        tt_verbs_lane_watch(lane);
}

void tt_verbs_message_void(struct tt_verbs_stream *s, uint64_t message)
{
    tt_verbs_out_of(s, message)->base.data = NULL;
    tt_rput_record_become(tt_verbs_staging(s, message), TT_RPUT_VOID);
}

/* ---- completions ---- */

void tt_verbs_settle(struct tt_verbs_stream *s)
{
    uint64_t message;

    while (tt_dqplb_over(&s->sender, &message))
        if (s->q.done <= message)     /* otherwise its acknowledgement came first */
            s->q.done = message + 1;
    tt_verbs_note(s);
}

/* The work requests before `end` are complete. */
static void wrs_over(struct tt_verbs_lane *lane, uint64_t end)
{
    uint32_t segments = 0;

    while (lane->wr_head < end) {
        const struct tt_verbs_wr *w = &lane->wrs[lane->wr_head++ % lane->wr_depth];

        segments += w->segment;
        if (w->segment && tt_trace_is_enabled())
            tt_verbs_trace(lane, TT_TRACE_COMPLETED, w->number, 0);
    }
    if (segments > 0 && !tt_dqplb_completed(&lane->stream->sender, lane->index, segments))
        tt_assert(!"a lane that is up completes what was posted on it");
    tt_verbs_settle(lane->stream);
}

/* Returns whether the error is caused by the message, not the path. */
static bool is_of_message(enum ibv_wc_status status)
{
    return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
           status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_LEN_ERR;
}

void tt_verbs_sent(struct tt_verbs_lane *lane, const struct ibv_wc *wc)
{
    const struct tt_verbs_wr *w = &lane->wrs[wc->wr_id % lane->wr_depth];

    if (wc->wr_id < lane->wr_head || wc->wr_id >= lane->wr_tail)
        return;
    if (wc->status == IBV_WC_SUCCESS) {
        lane->setbacks = 0;
        wrs_over(lane, wc->wr_id + 1);
        return;
    }
    if (wc->status != IBV_WC_WR_FLUSH_ERR) {
        tt_log(TT_LOG_DEBUG, "verbs: lane %u to rank %u on %s failed: %s", lane->number,
               lane->link->base.peer, lane->link->verbs->rail[lane->rail].name,
               ibv_wc_status_str(wc->status));
        if (is_of_message(wc->status) && w->payload)
            lane->culprit = w->message;
        else
            lane->setbacks += !lane->broken;
    }
    lane->wr_head = wc->wr_id + 1;      /* the peer's next hello reports which earlier ones have
                                           arrived */
    tt_verbs_lane_mark(lane);
}

bool tt_verbs_acked(struct tt_verbs_stream *s, uint64_t acked)
{
    if (acked > s->sender.head)
        return false;
    if (acked <= s->acked_segments)     /* a duplicate, or overtaken by a newer one */
        return true;
    s->acked_segments = acked;
    while (s->q.acked < s->sent && tt_verbs_out_of(s, s->q.acked)->end <= acked)
        s->q.acked++;
    if (s->q.done < s->q.acked)
        s->q.done = s->q.acked;
    tt_verbs_note(s);
    return true;
}

/* Marks the lanes that may be reading the message's source as broken. */
static void readers_mark(struct tt_verbs_stream *s, uint64_t message)
{
    for (uint32_t i = 0; i < s->nlanes; i++) {
        struct tt_verbs_lane *lane = &s->lane[i];

        for (uint64_t at = lane->wr_head; at < lane->wr_tail; at++) {
            const struct tt_verbs_wr *w = &lane->wrs[at % lane->wr_depth];

            if (w->payload && w->message == message)
                tt_verbs_lane_mark(lane);
        }
    }
}

/* A region could not be registered again. Its data is still needed and the peer may wait for it, so
 * the link fails at both ends. */
static void source_lost(struct tt_verbs_stream *s)
{
    s->link->base.status = TUTTI_ERR_NOMEM;
    s->link->verbs->any_broken = true;
}

void tt_verbs_source_gone(struct tt_verbs_stream *s, uint32_t lkey)
{
    for (uint64_t i = s->q.done; i < s->q.tail; i++) {
        struct tt_verbs_out *m = tt_verbs_out_of(s, i);

        if (!m->base.data || m->lkey[0] != lkey ||
            tt_verbs_has_lkey(s->link->verbs, m->base.data, m->base.bytes, lkey))
            continue;       /* the registration may also serve another region */
        readers_mark(s, i);
        if (tt_verbs_lkey(s->link->verbs, m->base.data, m->base.bytes, m->lkey))
            continue;       /* the bytes are also in another region */
        if (tt_rput_covers(&s->link->verbs->base.regions, m->base.data, m->base.bytes))
            source_lost(s);
        tt_verbs_message_void(s, i);
    }
}

/* ---- post ---- */

/* Returns contiguous space in the bounce ring, or NULL if there is none now. */
static uint8_t *bounce_take(struct tt_verbs_stream *s, uint64_t bytes)
{
    uint64_t at = s->bounce_tail;
    const uint64_t to_end = TT_VERBS_BOUNCE_BYTES - at % TT_VERBS_BOUNCE_BYTES;

    if (to_end < bytes)
        at += to_end;
    if (at + bytes - s->bounce_head > TT_VERBS_BOUNCE_BYTES)
        return NULL;
    s->bounce_tail = at + bytes;
    return s->bounce + at % TT_VERBS_BOUNCE_BYTES;
}

/* Sets a message's source and local keys. Returns false if the source is not registered any
 * more. */
static bool source_set(struct tt_verbs_stream *s, struct tt_verbs_out *m, const struct tt_desc *d,
                       uint8_t *bounced)
{
    struct tt_verbs *v = s->link->verbs;

    m->base.data = bounced ? bounced : d->local;
    m->base.bytes = d->bytes;
    m->target = d->key->handle[2] + d->offset;
    for (uint32_t i = 0; i < v->nrails; i++) {
        m->rkey[i] = (uint32_t)(d->key->handle[3] >> 32 * i);
        m->lkey[i] = s->link->local_mr[i]->lkey;
    }
    if (bounced || tt_verbs_lkey(v, d->local, d->bytes, m->lkey))
        return true;
    tt_assert(tt_rput_covers(&v->base.regions, d->local, d->bytes));
    source_lost(s);
    return false;
}

/* Enters a put as the stream's next message. Returns false if there is no space now. */
static bool verbs_put_enter(struct tt_rput_link *base, uint32_t index, const struct tt_desc *d)
{
    struct tt_verbs_stream *s = &((struct tt_verbs_link *)base)->streams[index];
    const bool copied = d->flags & TT_DESC_INLINE, direct = d->flags & TT_DESC_DIRECT,
               small = d->bytes <= TT_VERBS_PAYLOAD_BYTES && !direct;
    struct tt_verbs_out *m = tt_verbs_out_of(s, s->q.tail);
    uint8_t *slot = tt_verbs_staging(s, s->q.tail);
    uint8_t *bounced = NULL;
    const struct tt_rput_record r = tt_rput_record_of(d, small, d->flags & TT_DESC_REMOTE);

    if (s->q.tail - s->q.remote >= TT_VERBS_DEPTH - (copied ? 0 : TT_VERBS_RESERVED))
        return false;
    if (copied && !small) {
        bounced = bounce_take(s, d->bytes);
        if (!bounced)
            return false;
        memcpy(bounced, d->local, d->bytes);
    }
    *m = (struct tt_verbs_out){ .base = tt_rput_out_of(d),
                                .bounce_end = bounced ? s->bounce_tail : 0,
                                .watched = !copied || bounced,
                                .direct = direct };
    m->base.slot_bytes = TT_RPUT_RECORD_BYTES + r.payload;
    tt_rput_record_write(&r, slot);
    if (small && d->bytes)
        memcpy(slot + TT_RPUT_RECORD_BYTES, d->local, d->bytes);
    else if (d->bytes && !source_set(s, m, d, bounced))
        tt_verbs_message_void(s, s->q.tail);
    s->q.tail++;
    return true;
}

static void verbs_pump(struct tt_rput_link *base, uint32_t index)
{
    tt_verbs_stream_pump(&((struct tt_verbs_link *)base)->streams[index]);
}

int tt_verbs_post(struct tt_wire *w, const struct tt_desc *desc, int n)
{
    return tt_rput_post(tt_rput_of(w), desc, n, verbs_put_enter, verbs_pump);
}
