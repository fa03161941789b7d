#include <arpa/inet.h>
#include <string.h>
#include "base/log.h"
#include "base/status.h"
#include "wire/verbs.h"

#define CHAIN 32            /* work requests given to a queue pair with one doorbell */
#define WATCH_EVERY 16      /* of them, one at least reports its completion */

/* ---- work requests ---- */

/* Some of them, linked. */
struct chain {
    struct tt_verbs_lane *lane;
    struct ibv_send_wr wr[CHAIN];
    struct ibv_sge sge[CHAIN];
    uint32_t n;
};

static bool has_room(const struct tt_verbs_lane *lane, uint32_t reserved)
{
    return lane->wr_tail - lane->wr_head < TT_VERBS_WRS - reserved;
}

static void chain_post(struct chain *c)
{
    struct ibv_send_wr *bad = NULL;
    int err;

    if (c->n == 0)
        return;
    c->wr[c->n - 1].next = NULL;
    err = ibv_post_send(c->lane->qp, c->wr, &bad);
    c->n = 0;
    if (err) {      /* the queue pair is in error already: its completions tell why, or there is no other way than to begin anew */
        c->lane->link->broken = true;
        c->lane->link->verbs->any_broken = true;
    }
}

/* Adds a write of data[bytes] to `target`, which is for a message; watched: its completion is to show. */
static struct ibv_send_wr *chain_add(struct chain *c, const struct tt_verbs_wr *what, const void *data, uint32_t bytes,
                                     uint32_t lkey, uint64_t target, uint32_t rkey, bool watched)
{
    struct tt_verbs_lane *lane = c->lane;
    struct ibv_send_wr *wr;

    if (c->n == CHAIN)
        chain_post(c);
    wr = &c->wr[c->n];
    c->sge[c->n] = (struct ibv_sge){ .addr = (uintptr_t)data, .length = bytes, .lkey = lkey };
    *wr = (struct ibv_send_wr){
        .wr_id = lane->wr_tail,
        .next = wr + 1,
        .sg_list = &c->sge[c->n],
        .num_sge = bytes > 0,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = (watched || lane->unwatched + 1 >= WATCH_EVERY ? IBV_SEND_SIGNALED : 0) |
                      (bytes > 0 && bytes <= lane->inline_bytes ? IBV_SEND_INLINE : 0),
        .wr.rdma = { .remote_addr = target, .rkey = rkey },
    };
    lane->unwatched = wr->send_flags & IBV_SEND_SIGNALED ? 0 : lane->unwatched + 1;
    lane->wrs[lane->wr_tail++ % TT_VERBS_WRS] = *what;
    c->n++;
    return wr;
}

/* The next piece of the payload. */
static void add_segment(struct chain *c, uint64_t message)
{
    struct tt_verbs_out *m = tt_verbs_out_of(c->lane, message);
    const uint64_t left = m->bytes - m->posted;
    const uint32_t bytes = left < TT_VERBS_SEGMENT_BYTES ? (uint32_t)left : TT_VERBS_SEGMENT_BYTES;
    const struct tt_verbs_wr what = { .message = message, .bytes = bytes };

    chain_add(c, &what, m->data + m->posted, bytes, m->lkey, m->target + m->posted, m->rkey,
              bytes == TT_VERBS_SEGMENT_BYTES);
    m->posted += bytes;
    c->lane->outstanding_bytes += bytes;
}

static void add_record(struct chain *c, uint64_t message)
{
    struct tt_verbs_lane *lane = c->lane;
    struct tt_verbs_link *link = lane->link;
    const struct tt_verbs_out *m = tt_verbs_out_of(lane, message);
    const struct tt_verbs_wr what = { .message = message, .record = true };
    uint8_t *slot = tt_verbs_staging(lane, message);
    uint64_t applied[TT_VERBS_LANES];
    struct ibv_send_wr *wr;

    for (uint32_t i = 0; i < TT_VERBS_LANES; i++) {
        applied[i] = link->lanes[i].applied_told = link->lanes[i].applied;
        link->lanes[i].ack_due = false;
    }
    tt_verbs_record_stamp(slot, applied);
    wr = chain_add(c, &what, slot, m->slot_bytes, link->local_mr->lkey,
                   lane->peer_ring + message % TT_VERBS_SLOTS * TT_VERBS_SLOT_BYTES, link->theirs_rkey, m->watched);
    wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr->imm_data = htonl(tt_imm_sequence(message) | TT_IMM_NOTIFY | (m->bytes ? 0 : TT_IMM_FAST));
}

/* Tells how much was applied of what came on another lane, where no record is about to. */
static void add_ack(struct chain *c, struct tt_verbs_lane *of)
{
    const struct tt_verbs_wr what = { .message = TT_VERBS_NO_MESSAGE };
    struct ibv_send_wr *wr = chain_add(c, &what, NULL, 0, 0, 0, 0, false);

    wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr->imm_data = htonl(tt_imm_sequence(of->applied) | of->index << TT_IMM_LANE_SHIFT | TT_IMM_ACK);
    of->applied_told = of->applied;
    of->ack_due = false;
}

/* ---- a lane ---- */

static uint64_t limit_of(const struct tt_verbs_link *link)
{
    const struct tt_layout *l = link->verbs->conf.layout;
    const bool known = l && l->nranks;

    return link->verbs->limits.bytes[known ? tt_layout_distance(l, link->verbs->conf.rank, link->peer) : TT_NEAR_RACK];
}

/* Acknowledgements go on the control lane, whichever they are of. */
static void pump_acks(struct tt_verbs_link *link)
{
    struct tt_verbs_lane *control = &link->lanes[TT_VERBS_CONTROL];
    struct chain c = { .lane = control };

    for (uint32_t i = 0; i < TT_VERBS_LANES; i++)
        if (link->lanes[i].ack_due && has_room(control, 0))
            add_ack(&c, &link->lanes[i]);
    chain_post(&c);
}

void tt_verbs_lane_pump(struct tt_verbs_lane *lane)
{
    const uint64_t limit = limit_of(lane->link);
    struct chain c;

    if (lane->link->state != TT_VERBS_UP || lane->link->broken)
        return;
    c.lane = lane;
    c.n = 0;
    while (lane->sent < lane->tail && has_room(lane, TT_VERBS_WRS_RESERVED)) {
        const struct tt_verbs_out *m = tt_verbs_out_of(lane, lane->sent);

        if (m->posted < m->bytes) {
            if (lane->outstanding_bytes >= limit)
                break;
            add_segment(&c, lane->sent);
        } else {
            if (lane->sent - lane->acked >= TT_VERBS_SLOTS)
                break;
            add_record(&c, lane->sent);
            lane->sent++;
        }
    }
    chain_post(&c);
    pump_acks(lane->link);
}

void tt_verbs_lane_watch(struct tt_verbs_lane *lane)
{
    const struct tt_verbs_wr what = { .message = TT_VERBS_NO_MESSAGE };
    struct chain c;

    if (!lane->qp || lane->unwatched == 0 || !has_room(lane, 0))
        return;
    c.lane = lane;
    c.n = 0;
    chain_add(&c, &what, NULL, 0, 0, 0, 0, true);
    chain_post(&c);
}

void tt_verbs_message_void(struct tt_verbs_lane *lane, uint64_t message)
{
    struct tt_verbs_out *m = tt_verbs_out_of(lane, message);

    m->data = NULL;
    m->bytes = m->posted = 0;
    tt_verbs_record_void(tt_verbs_staging(lane, message));
}

/* ---- completions ---- */

/* The work requests before `end` are over. */
static void wrs_over(struct tt_verbs_lane *lane, uint64_t end)
{
    while (lane->wr_head < end) {
        const struct tt_verbs_wr *w = &lane->wrs[lane->wr_head++ % TT_VERBS_WRS];

        lane->outstanding_bytes -= w->bytes;
        if (w->record && lane->done <= w->message)      /* else its acknowledgement was sooner */
            lane->done = w->message + 1;
    }
    tt_verbs_note(lane);
}

/* What such an error says of: the message, not the way. */
static bool is_of_message(enum ibv_wc_status status)
{
    return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR ||
           status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_LEN_ERR;
}

void tt_verbs_sent(struct tt_verbs_lane *lane, const struct ibv_wc *wc)
{
    struct tt_verbs_link *link = lane->link;
    const struct tt_verbs_wr *w = &lane->wrs[wc->wr_id % TT_VERBS_WRS];

    if (wc->wr_id < lane->wr_head || wc->wr_id >= lane->wr_tail)
        return;
    if (wc->status == IBV_WC_SUCCESS) {
        link->setbacks = 0;
        wrs_over(lane, wc->wr_id + 1);
        return;
    }
    if (wc->status != IBV_WC_WR_FLUSH_ERR && !link->broken) {
        tt_log(TT_LOG_DEBUG, "verbs: a queue pair to rank %u ends: %s", link->peer, ibv_wc_status_str(wc->status));
        if (is_of_message(wc->status) && w->message != TT_VERBS_NO_MESSAGE && !w->record)
            lane->culprit = w->message;
        else
            link->setbacks++;
    }
    lane->wr_head = wc->wr_id + 1;      /* which of those before it have landed, the peer's next hello tells */
    link->broken = true;
    link->verbs->any_broken = true;
}

bool tt_verbs_acked(struct tt_verbs_lane *lane, uint64_t acked)
{
    if (acked > lane->sent)
        return false;
    if (acked <= lane->acked)       /* told twice, or overtaken by a newer one */
        return true;
    lane->acked = acked;
    if (lane->done < acked)
        lane->done = acked;
    tt_verbs_note(lane);
    return true;
}

bool tt_verbs_lane_again(struct tt_verbs_lane *lane, uint64_t applied)
{
    if (applied < lane->done || !tt_verbs_acked(lane, applied))
        return false;
    lane->sent = applied;
    for (uint64_t i = applied; i < lane->tail; i++)
        tt_verbs_out_of(lane, i)->posted = 0;
    return true;
}

bool tt_verbs_source_gone(struct tt_verbs_lane *lane, uint32_t lkey)
{
    bool reading = false;

    for (uint64_t i = lane->done; i < lane->tail; i++) {
        struct tt_verbs_out *m = tt_verbs_out_of(lane, i);

        if (!m->data || m->lkey != lkey || tt_verbs_has_lkey(lane->link->verbs, m->data, m->bytes, lkey))
            continue;       /* the registration may serve another region, too */
        reading |= m->posted > 0 && lane->wr_head != lane->wr_tail;
        if (!tt_verbs_lkey(lane->link->verbs, m->data, m->bytes, &m->lkey))
            tt_verbs_message_void(lane, i);     /* else registered twice, and still once */
    }
    return reading;
}

/* ---- posting ---- */

/* Room in the bounce ring for bytes in one piece; NULL: not now. */
static uint8_t *bounce_take(struct tt_verbs_lane *lane, uint64_t bytes)
{
    uint64_t at = lane->bounce_tail;
    const uint64_t to_end = TT_VERBS_BOUNCE_BYTES - at % TT_VERBS_BOUNCE_BYTES;

    if (to_end < bytes)
        at += to_end;
    if (at + bytes - lane->bounce_head > TT_VERBS_BOUNCE_BYTES)
        return NULL;
    lane->bounce_tail = at + bytes;
    return lane->bounce + at % TT_VERBS_BOUNCE_BYTES;
}

/* Enters a put as the lane's next message. False: no room now. */
static bool put_enter(struct tt_verbs_lane *lane, const struct tt_desc *d)
{
    struct tt_verbs_link *link = lane->link;
    const bool copied = d->flags & TT_DESC_INLINE, small = d->bytes <= TT_VERBS_PAYLOAD_BYTES;
    struct tt_verbs_out *m = tt_verbs_out_of(lane, lane->tail);
    uint8_t *slot = tt_verbs_staging(lane, lane->tail);
    uint8_t *bounced = NULL;
    const struct tt_verbs_record r = {
        .kind = TT_VERBS_PUT,
        .signal_op = d->signal_op,
        .flags = d->flags & TT_DESC_REMOTE ? TT_VERBS_WANT_ACK : 0,
        .payload = small ? (uint8_t)d->bytes : 0,
        .region = d->bytes ? (uint32_t)d->key->handle[1] : 0,
        .generation = d->bytes ? (uint32_t)d->key->handle[2] : 0,
        .offset = d->bytes ? d->offset : 0,
        .bytes = d->bytes,
        .signal_region = d->signal_op ? (uint32_t)d->signal_key->handle[1] : 0,
        .signal_generation = d->signal_op ? (uint32_t)d->signal_key->handle[2] : 0,
        .signal_offset = d->signal_op ? d->signal_offset : 0,
        .signal_value = d->signal_op ? d->signal_value : 0,
    };

    if (lane->tail - lane->retired >= TT_VERBS_DEPTH - (copied ? 0 : TT_VERBS_RESERVED))
        return false;
    if (copied && !small) {
        bounced = bounce_take(lane, d->bytes);
        if (!bounced)
            return false;
        memcpy(bounced, d->local, d->bytes);
    }
    *m = (struct tt_verbs_out){
        .cookie = d->cookie,
        .slot_bytes = TT_VERBS_RECORD_BYTES + r.payload,
        .report_local = !copied,
        .report_remote = d->flags & TT_DESC_REMOTE,
        .bounce_end = bounced ? lane->bounce_tail : 0,
        .watched = !copied || bounced,
    };
    tt_verbs_record_write(&r, slot);
    if (small && d->bytes) {
        memcpy(slot + TT_VERBS_RECORD_BYTES, d->local, d->bytes);
    } else if (d->bytes) {
        m->data = bounced ? bounced : d->local;
        m->lkey = link->local_mr->lkey;
        if (!bounced && !tt_verbs_lkey(link->verbs, d->local, d->bytes, &m->lkey))
            tt_assert(!"a put's source lies in a registered region");
        m->bytes = d->bytes;
        m->target = d->key->handle[0] + d->offset;
        m->rkey = (uint32_t)d->key->handle[3];
    }
    lane->tail++;
    return true;
}

int tt_verbs_post(struct tt_wire *w, const struct tt_desc *desc, int n)
{
    struct tt_verbs *v = tt_verbs_of(w);
    struct tt_verbs_lane *lane, *last = NULL;
    int taken;

    for (taken = 0; taken < n; taken++) {
        const struct tt_desc *d = &desc[taken];
        struct tt_verbs_link *link;

        tt_assert(d->kind == TT_DESC_PUT || d->kind == TT_DESC_FENCE);
        if (d->kind == TT_DESC_FENCE)
            continue;       /* a lane is in order */
        link = v->links[d->key->peer];
        tt_assert(link);
        if (link->state == TT_VERBS_LOST)
            continue;
        lane = &link->lanes[d->flags & TT_DESC_URGENT ? TT_VERBS_CONTROL : TT_VERBS_DATA];
        if (last && last != lane)
            tt_verbs_lane_pump(last);
        last = lane;
        if (!put_enter(lane, d))
            break;
    }
    if (last)
        tt_verbs_lane_pump(last);
    return taken;
}
