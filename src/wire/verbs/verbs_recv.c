#include <arpa/inet.h>
#include <string.h>
#include "base/status.h"
#include "wire/verbs/verbs.h"

#define COLLECT_MAX 64      /* completions read from one queue at once */
#define ACK_EVERY (TT_VERBS_SLOTS / 4)        /* segments */

/* ---- receives ---- */

bool tt_verbs_receives(struct tt_verbs_group *g)
{
    struct ibv_recv_wr wrs[COLLECT_MAX], *bad;

    while (g->posted < g->wanted) {
        const uint32_t n = g->wanted - g->posted, now = n < COLLECT_MAX ? n : COLLECT_MAX;

        for (uint32_t i = 0; i < now; i++)      /* a write with immediate consumes a receive, but
                                                   needs no buffer */
            wrs[i] = (struct ibv_recv_wr){ .next = i + 1 < now ? &wrs[i + 1] : NULL };
        if (ibv_post_srq_recv(g->srq, wrs, &bad) != 0)
            return false;
        g->posted += now;
    }
    return true;
}

/* ---- immediates ---- */

/* Returns the memory of region + offset [bytes]. NULL: the region does not exist (any more), or is
 * device memory that the CPU would have to access. */
static uint8_t *verbs_target_memory(struct tt_verbs_link *link, uint32_t region,
                                    uint32_t generation, uint64_t offset, uint64_t bytes,
                                    bool by_processor)
{
    const struct tt_verbs_region *r =
        region ? tt_verbs_region_find(link->verbs, region, generation) : NULL;
    uint8_t *mem = r ? r->public.mem : region ? NULL : link->mine;
    const uint64_t size = r ? r->public.bytes : link->verbs->conf.link_bytes;

    if (r && r->device && by_processor)
        return NULL;
    return mem && offset <= size && bytes <= size - offset ? mem + offset : NULL;
}

static void verbs_raise_signal(struct tt_verbs_link *link, const struct tt_verbs_record *r)
{
    uint64_t *word = (uint64_t *)(void *)verbs_target_memory(
        link, r->signal_region, r->signal_generation, r->signal_offset, sizeof *word, true);

    if (!word)
        return;
    if (r->signal_op == TT_SIGNAL_SET)
        __atomic_store_n(word, r->signal_value, __ATOMIC_RELEASE);
    else
        __atomic_fetch_add(word, r->signal_value, __ATOMIC_ACQ_REL);
}

/* A put whose target is deregistered is dropped with its signal. */
static void verbs_apply_record(struct tt_verbs_link *link, const struct tt_verbs_record *r,
                               const uint8_t *payload)
{
    uint8_t *to = r->bytes ? verbs_target_memory(link, r->region, r->generation, r->offset,
                                                 r->bytes, r->payload > 0)
                           : NULL;

    if (r->kind == TT_VERBS_VOID || (r->bytes && !to))
        return;
    if (r->payload)
        memcpy(to, payload, r->payload);
    if (r->signal_op != TT_SIGNAL_NONE)
        verbs_raise_signal(link, r);
}

/* Processes the peer's counts of applied segments: the low bits of numbers close to the known
 * ones. */
static bool verbs_handle_applied(struct tt_verbs_link *link, const struct tt_verbs_record *r)
{
    for (uint32_t i = 0; i < TT_VERBS_STREAMS; i++) {
        struct tt_verbs_stream *s = &link->streams[i];
        const uint32_t ahead = r->applied[i] - (uint32_t)s->acked_segments;

        if (ahead < UINT32_MAX / 2 && !tt_verbs_acked(s, s->acked_segments + ahead))
            return false;
    }
    return true;
}

/* Call only if the next message in order is complete: applies it. Returns false if a correct peer
 * cannot have sent it. */
static bool verbs_message_arrived(struct tt_verbs_stream *s)
{
    uint8_t *slot = s->ring + s->applied % TT_VERBS_SLOTS * TT_VERBS_SLOT_BYTES;
    uint8_t copy[TT_VERBS_RECORD_BYTES];     /* the peer can write to the slot */
    struct tt_verbs_record r;

    memcpy(copy, slot, sizeof copy);
    if (!tt_verbs_record_read(&r, copy) || !verbs_handle_applied(s->link, &r))
        return false;
    if (r.payload == 0 && slot[TT_VERBS_MARK_AT] == TT_VERBS_VOID)
        r.kind = TT_VERBS_VOID;
    verbs_apply_record(s->link, &r, slot + TT_VERBS_RECORD_BYTES);
    slot[TT_VERBS_MARK_AT] = 0;     /* the slot is the peer's again after the acknowledgement */
    s->applied++;
    s->ack_due |= r.flags & TT_VERBS_WANT_ACK;
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
    if (index >= TT_VERBS_STREAMS)
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
    if (wc->status != IBV_WC_SUCCESS || lane->link->status)
        return;
    if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM || !immediate_arrived(lane, ntohl(wc->imm_data))) {
        lane->link->status = TUTTI_ERR_PROTOCOL;
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
    if (came > 0) {     /* before anything of it is acknowledged */
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
