#include <arpa/inet.h>
#include <string.h>
#include "base/status.h"
#include "wire/verbs/verbs.h"

#define COLLECT_MAX 64      /* completions read from one queue at once */
#define ACK_EVERY (TT_VERBS_SLOTS / 4)        /* segments */

/* ---- immediates ---- */

/* Processes the peer's counts of applied segments: the low bits of numbers close to the known
 * ones. */
static bool verbs_handle_applied(struct tt_verbs_link *link, const struct tt_rput_record *r)
{
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        struct tt_verbs_stream *s = &link->streams[i];

        if (!tt_verbs_acked(s, tt_rput_later(s->acked_segments, r->applied[i])))
            return false;
    }
    return true;
}

/* Applies the next message in order, which must be complete. Returns false if a correct peer cannot
 * have sent it. */
static bool verbs_message_arrived(struct tt_verbs_stream *s)
{
    uint8_t *slot = s->ring + s->applied % TT_VERBS_SLOTS * TT_VERBS_SLOT_BYTES;
    uint8_t copy[TT_RPUT_RECORD_BYTES];     /* the peer can write to the slot */
    struct tt_rput_record r;

    memcpy(copy, slot, sizeof copy);
    if (!tt_rput_record_read(&r, copy, TT_RPUT_VOID, TT_VERBS_PAYLOAD_BYTES) ||
        !verbs_handle_applied(s->link, &r))
        return false;
    if (r.payload == 0 && slot[TT_VERBS_MARK_AT] == TT_RPUT_VOID)
        r.kind = TT_RPUT_VOID;
    if (!tt_rput_apply(&s->link->verbs->base.regions, s->link->base.mine,
                       s->link->verbs->base.conf.link_bytes, &r, slot + TT_RPUT_RECORD_BYTES))
        return false;
    slot[TT_VERBS_MARK_AT] = 0;     /* the slot is the peer's again after the acknowledgement */
    s->applied++;
    s->ack_due |= r.flags & TT_RPUT_WANT_ACK;
    return true;
}

/* A segment has arrived, which completes zero or more messages. */
static bool segment_arrived(struct tt_verbs_lane *lane, uint32_t imm)
{
    struct tt_verbs_stream *s = lane->stream;
    int whole = tt_dqplb_received(&s->receiver, lane->index, imm);

    if (whole < 0)
        return false;
    if (tt_trace_is_enabled())
        tt_verbs_trace(lane, TT_TRACE_ARRIVED, imm & TT_DQPLB_SEQ_MASK, 0);
    for (; whole > 0; whole--)
        if (!verbs_message_arrived(s))
            return false;
    s->ack_due |= s->receiver.expected - s->acked_segments_sent >= ACK_EVERY;
    if (s->ack_due)
        tt_verbs_note(s);
    return true;
}

static bool immediate_arrived(struct tt_verbs_lane *lane, uint32_t imm)
{
    struct tt_verbs_stream *of;
    uint32_t index;
    int32_t ahead;

    if (!(imm & TT_IMM_ACK))
        return segment_arrived(lane, imm);
    index = imm >> TT_IMM_STREAM_SHIFT & 31;
    if (index >= TT_RPUT_STREAMS)
        return false;
    of = &lane->link->streams[index];
    ahead = tt_dqplb_ahead(of->acked_segments, imm);
    /* a record may have acknowledged more already */
    return ahead <= 0 || tt_verbs_acked(of, of->acked_segments + (uint32_t)ahead);
}

/* ---- completion queues ---- */

static struct tt_verbs_lane *lane_of_qp(const struct tt_verbs *v, uint32_t rail, uint32_t qpn)
{
    struct tt_verbs_lane *lane = v->lanes[rail][qpn % TT_VERBS_BUCKETS];

    while (lane && lane->qpn != qpn)
        lane = lane->next;
    return lane;
}

static void completion_received(struct tt_verbs_lane *lane, const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_SUCCESS || lane->link->base.status)
        return;
    if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM || !immediate_arrived(lane, ntohl(wc->imm_data))) {
        lane->link->base.status = TUTTI_ERR_PROTOCOL;
        lane->link->verbs->any_broken = true;
    }
}

static uint32_t collect_group(struct tt_verbs *v, uint32_t rail, struct tt_verbs_group *g)
{
    struct ibv_wc wc[COLLECT_MAX];
    const int sent = ibv_poll_cq(g->send_cq, COLLECT_MAX, wc);
    struct tt_verbs_lane *lane;
    int came;

    for (int i = 0; i < sent; i++) {
        lane = lane_of_qp(v, rail, wc[i].qp_num);
        if (lane)
            tt_verbs_sent(lane, &wc[i]);
    }
    came = ibv_poll_cq(g->recv_cq, COLLECT_MAX, wc);
    for (int i = 0; i < came; i++) {
        lane = lane_of_qp(v, rail, wc[i].qp_num);
        if (lane)
            completion_received(lane, &wc[i]);
    }
    if (came > 0) {     /* before any of these segments is acknowledged */
        g->posted -= (uint32_t)came;
        tt_verbs_receives(g);
    }
    return (uint32_t)((sent > 0 ? sent : 0) + (came > 0 ? came : 0));
}

uint32_t tt_verbs_collect(struct tt_verbs *v)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < v->nrails; i++)
        for (struct tt_verbs_group *g = v->rail[i].groups; g; g = g->next)
            n += collect_group(v, i, g);
    return n;
}

void tt_verbs_qp_destroy(struct tt_verbs_lane *lane)
{
    struct tt_verbs *v = lane->link->verbs;
    struct tt_verbs_lane **at;

    if (!lane->qp)
        return;
    ibv_destroy_qp(lane->qp);
    lane->qp = NULL;
    while (tt_verbs_collect(v) > 0)
        continue;
    at = &v->lanes[lane->rail][lane->qpn % TT_VERBS_BUCKETS];
    while (*at != lane)
        at = &(*at)->next;
    *at = lane->next;
}
