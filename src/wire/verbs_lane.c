/* How lanes come up, break and mend.
 *
 * Each end makes a queue pair and writes a *hello* with its number into the other's mailbox (the link region of the tcp wire). Who has the other's
 * hello connects its queue pair and says that it is *ready*; who is ready and hears that the other is may send.
 *
 * An error ends a queue pair at both ends: a write into memory that is registered no more, a source that is taken back, a way that is
 * gone. Then each end ends its queue pair, collects what had come by it, and begins the next *incarnation*. Its hello reports what has come in the
 * lane's stream, over all lanes: so the other end learns which of the segments that were on the lane are to be sent again, and sends
 * them over the stream's other lanes at once. Nothing is lost or applied twice, as nothing can come by the old queue pair any more.
 *
 * A lane is on a rail. Where a stream has as many lanes as there are rails, each stays on its own, and waits while the port there is down: its hello
 * then brings no queue pair. Else lanes go from rail to rail, the next with each incarnation; both ends count alike. From the second incarnation on
 * a lane carries nothing before a write of no bytes has found its way. */
#include "wire/verbs.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"

#define DRAIN_NS TT_SECOND
#define AGAIN_NS (200 * TT_MS)     /* after each setback so much longer */
#define WALK_NS (20 * TT_MS)       /* between rails that are down */
#define WALKS_PER_SETBACK 16

static bool roams(const struct tt_verbs_lane *lane)
{
    return lane->stream->nlanes < lane->link->nrails;
}

/* The same at both ends. */
static uint32_t rail_of(const struct tt_verbs_lane *lane, uint32_t incarnation)
{
    const struct tt_verbs_link *link = lane->link;
    const uint32_t first = link->verbs->conf.rank + link->peer + lane->index;

    return (roams(lane) ? first + incarnation : first) % link->nrails;
}

/* Whether a rail that the lane can be on is up. */
static bool has_rail(const struct tt_verbs_lane *lane)
{
    const struct tt_verbs_link *link = lane->link;
    bool any = false;

    for (uint32_t i = 0; i < link->nrails; i++)
        any |= link->verbs->rail[i].up && (roams(lane) || i == lane->rail);
    return any;
}

/* ---- telling the peer ---- */

static bool tell_hello(struct tt_verbs_lane *lane)
{
    const struct tt_verbs_rail *rail = &lane->link->verbs->rail[lane->rail];
    struct tt_verbs_hello h = {
        .incarnation = lane->incarnation,
        .qp = lane->qp ? lane->qpn : 0,
        .psn = lane->psn,
        .mtu = rail->mtu,
        .lid = rail->lid,
    };
    uint8_t out[TT_VERBS_HELLO_BYTES];

    memcpy(h.gid, rail->gid.raw, sizeof h.gid);
    tt_dqplb_report(&lane->stream->receiver, h.report);
    tt_verbs_hello_write(&h, out);
    return tt_verbs_tell(lane->link, offsetof(struct tt_verbs_mailbox, hello) + 8ull * lane->number, lane->incarnation,
                         offsetof(struct tt_verbs_mailbox, hellos) +
                             (2ull * lane->number + lane->incarnation % 2) * TT_VERBS_HELLO_BYTES,
                         out, sizeof out);
}

/* Says what is owed, as far as there is room. */
static void say(struct tt_verbs_lane *lane)
{
    if (lane->owes_hello)
        lane->owes_hello = !tell_hello(lane);
    if (lane->owes_ready && !lane->owes_hello)
        lane->owes_ready = !tt_verbs_tell(lane->link, offsetof(struct tt_verbs_mailbox, ready) + 8ull * lane->number,
                                          lane->incarnation, 0, NULL, 0);
}

/* ---- incarnations ---- */

/* After setbacks it is not tried again at once; one that has other rails tries those first. */
static void hold_back(struct tt_verbs_lane *lane)
{
    if (!roams(lane) || lane->setbacks % lane->link->nrails == 0)
        lane->again_ns = tt_now_ns() + lane->setbacks * AGAIN_NS;
}

static void setback(struct tt_verbs_lane *lane)
{
    lane->setbacks++;
    hold_back(lane);
}

static void open_next(struct tt_verbs_lane *lane)
{
    struct tt_verbs *v = lane->link->verbs;

    lane->incarnation++;
    lane->rail = rail_of(lane, lane->incarnation);
    lane->state = TT_VERBS_LANE_DOWN;
    lane->heard = false;
    lane->owes_hello = true;
    lane->owes_ready = false;
    if (!v->rail[lane->rail].up) {
        if (roams(lane) && ++lane->walks % WALKS_PER_SETBACK == 0)
            lane->setbacks++;
        if (roams(lane))
            lane->again_ns = tt_now_ns() + WALK_NS;
    } else if (tt_now_ns() >= lane->again_ns && tt_verbs_qp_create(lane) != TUTTI_OK) {
        setback(lane);
    }
    v->mending = true;
    say(lane);
}

tutti_status tt_verbs_lane_begin(struct tt_verbs_lane *lane)
{
    lane->culprit = TT_VERBS_NO_MESSAGE;
    lane->wr_depth = lane->stream->index == TT_VERBS_CONTROL
                         ? TT_VERBS_WRS
                         : 2 * lane->stream->sender.limits.outstanding + TT_VERBS_WRS_TO_ASK;
    lane->wrs = calloc(lane->wr_depth, sizeof *lane->wrs);
    if (!lane->wrs)
        return tt_fail(TUTTI_ERR_NOMEM, "verbs: out of memory for a lane to rank %u", lane->link->peer);
    tt_dqplb_lane_down(&lane->stream->sender, lane->index);
    open_next(lane);
    return TUTTI_OK;
}

void tt_verbs_lane_end(struct tt_verbs_lane *lane)
{
    if (lane->segments > 0)
        tt_log(TT_LOG_DEBUG, "verbs: lane %u to rank %u carried %llu segments and %llu bytes of payload, last on %s",
               lane->number, lane->link->peer, (unsigned long long)lane->segments, (unsigned long long)lane->bytes,
               lane->link->verbs->rail[lane->rail].name);
    tt_verbs_qp_destroy(lane);
    free(lane->wrs);
    lane->wrs = NULL;
}

void tt_verbs_lane_mark(struct tt_verbs_lane *lane)
{
    lane->broken = true;
    lane->link->verbs->any_broken = true;
}

/* Ends the queue pair; afterwards no device touches what it was given, and all that came by it is applied. A device that failed for good completes nothing
 * any more. */
static void queue_pair_end(struct tt_verbs_lane *lane)
{
    const uint64_t until_ns = tt_now_ns() + (lane->link->verbs->rail[lane->rail].dead ? 0 : DRAIN_NS);

    if (!lane->qp)
        return;
    tt_verbs_qp_stop(lane);
    tt_verbs_lane_watch(lane);
    while ((tt_verbs_collect(lane->link->verbs) > 0 || lane->wr_head != lane->wr_tail) && tt_now_ns() < until_ns)
        continue;
    tt_verbs_qp_destroy(lane);
}

/* After a failure that is the way's: whether the others still work is not left to chance. */
static void others_probe(struct tt_verbs_lane *lane)
{
    struct tt_verbs_link *link = lane->link;

    for (uint32_t i = 0; i < link->nlanes; i++)
        if (&link->lanes[i] != lane && link->lanes[i].state == TT_VERBS_LANE_UP && !link->lanes[i].broken)
            tt_verbs_lane_check(&link->lanes[i]);
}

/* `again`: the peer has gone on to the next incarnation, or will when it hears of ours. Only who has failed itself is held back: where each end of a lane
 * that has failed before were held back by the other's going on, they would take turns for ever. */
static void take_down(struct tt_verbs_lane *lane, bool again)
{
    const bool has_failed = lane->setbacks > 0, fails = has_failed && lane->broken;
    struct tt_verbs_stream *s = lane->stream;

    queue_pair_end(lane);
    if (lane->culprit != TT_VERBS_NO_MESSAGE && lane->culprit >= s->done)
        tt_verbs_message_void(s, lane->culprit);
    lane->culprit = TT_VERBS_NO_MESSAGE;
    lane->wr_head = lane->wr_tail;
    lane->unwatched = 0;
    lane->broken = false;
    lane->state = TT_VERBS_LANE_DOWN;
    tt_dqplb_lane_down(&s->sender, lane->index);
    if (fails)
        hold_back(lane);
    tt_log(TT_LOG_DEBUG, "verbs: lane %u to rank %u is down, after incarnation %u", lane->number, lane->link->peer,
           lane->incarnation);
    if (again)
        open_next(lane);
    if (has_failed)
        others_probe(lane);
}

void tt_verbs_lane_break(struct tt_verbs_lane *lane)
{
    take_down(lane, lane->heard);   /* else the peer may not have come as far as this incarnation: it is gone on from when it has */
}

/* ---- the peer's part ---- */

static void come_up(struct tt_verbs_lane *lane)
{
    struct tt_verbs_link *link = lane->link;

    lane->state = TT_VERBS_LANE_UP;
    lane->walks = 0;
    tt_dqplb_lane_up(&lane->stream->sender, lane->index);
    if (lane->incarnation > 1)
        tt_log(TT_LOG_INFO, "verbs: lane %u to rank %u is up again, on %s", lane->number, link->peer,
               link->verbs->rail[lane->rail].name);
    if (lane->stream->index == TT_VERBS_CONTROL)    /* acknowledgements may have been lost with the one before */
        for (uint32_t i = 0; i < TT_VERBS_STREAMS; i++)
            link->streams[i].ack_due = true;
    tt_verbs_link_gained(link);
    tt_verbs_note(lane->stream);
}

/* What has come there: of the lane's segments that were in doubt, the others are sent again. */
static bool take_report(struct tt_verbs_lane *lane, const uint8_t report[TT_VERBS_REPORT_BYTES])
{
    struct tt_verbs_stream *s = lane->stream;
    struct tt_reader r;
    int32_t ahead;

    tt_reader_init(&r, report, TT_VERBS_REPORT_BYTES);
    ahead = tt_dqplb_ahead(s->acked_segments, tt_read_u32(&r));
    if (!tt_dqplb_resolve(&s->sender, lane->index, report, TT_VERBS_REPORT_BYTES) ||
        (ahead > 0 && !tt_verbs_acked(s, s->acked_segments + (uint32_t)ahead)))
        return false;
    tt_verbs_settle(s);
    return true;
}

/* The peer's hello of this incarnation has come: our queue pair is joined to its, if both have one. */
static void hear(struct tt_verbs_lane *lane)
{
    const struct tt_verbs_mailbox *box = lane->link->tcp.mine;
    struct tt_verbs_hello h;
    uint8_t in[TT_VERBS_HELLO_BYTES];

    memcpy(in, box->hellos[lane->number][lane->incarnation % 2], sizeof in);
    if (!tt_verbs_hello_read(&h, in) || h.incarnation != lane->incarnation) {
        tt_verbs_link_lose(lane->link, TUTTI_ERR_PROTOCOL, "protocol error: invalid hello");
        return;
    }
    if (!take_report(lane, h.report)) {
        tt_verbs_link_lose(lane->link, TUTTI_ERR_PROTOCOL,
                           "protocol error: it acknowledged segments that were not sent");
        return;
    }
    lane->heard = true;
    if (!lane->qp || h.qp == 0)
        return;     /* who has none begins the next incarnation, when it can have one */
    if (tt_verbs_qp_connect(lane, &h) != TUTTI_OK) {
        tt_verbs_qp_destroy(lane);
        setback(lane);
        return;
    }
    lane->state = TT_VERBS_LANE_CONNECTED;
    lane->owes_ready = true;
    say(lane);
}

/* Both ends can receive. Of rail 0 it is known that it leads to the peer's; another one may be of a network of its own. */
static void joined(struct tt_verbs_lane *lane)
{
    if (lane->incarnation == 1 && lane->rail == 0) {
        come_up(lane);
        return;
    }
    lane->state = TT_VERBS_LANE_PROBING;
    tt_verbs_lane_probe(lane);
}

void tt_verbs_lane_step(struct tt_verbs_lane *lane)
{
    struct tt_verbs_link *link = lane->link;
    const uint64_t hello = tt_verbs_heard(link, offsetof(struct tt_verbs_mailbox, hello) + 8ull * lane->number);

    say(lane);
    if (hello > lane->incarnation + 1ull) {
        tt_verbs_link_lose(link, TUTTI_ERR_PROTOCOL, "protocol error: its incarnation is ahead of that of this rank");
        return;
    }
    if (hello > lane->incarnation)      /* the peer has a new queue pair: ours is of no use any more */
        take_down(lane, true);
    if (hello == lane->incarnation && !lane->heard)
        hear(lane);
    if (link->state == TT_VERBS_LOST)
        return;
    if (lane->state == TT_VERBS_LANE_DOWN && lane->heard && !lane->qp && has_rail(lane) &&
        tt_now_ns() >= lane->again_ns)
        open_next(lane);
    else if (lane->state == TT_VERBS_LANE_CONNECTED && !lane->owes_ready &&
             tt_verbs_heard(link, offsetof(struct tt_verbs_mailbox, ready) + 8ull * lane->number) == lane->incarnation)
        joined(lane);
    else if (lane->state == TT_VERBS_LANE_PROBING && !lane->broken && lane->wr_head == lane->wr_tail)
        come_up(lane);
    if (lane->state != TT_VERBS_LANE_UP)
        *(lane->state == TT_VERBS_LANE_DOWN && lane->heard ? &link->verbs->waiting : &link->verbs->mending) = true;
}
