/* Lanes: set-up, failure and recovery.
 *
 * Each end creates a queue pair and writes a *hello* with its number into the peer's mailbox (the
 * tcp wire's link region). An end that has the peer's hello connects its queue pair and sends
 * *ready*. An end that is ready and has received the peer's ready may send.
 *
 * An error ends a queue pair at both ends, e.g. a write to deregistered memory, a revoked source,
 * or a lost path. Each end then closes its queue pair, processes what it has received, and starts
 * the next *incarnation*. Its hello reports what has arrived in the lane's stream, over all lanes.
 * The other end then retransmits the missing segments of this lane over the stream's other lanes at
 * once. Nothing is lost or applied twice, since nothing can arrive by the old queue pair.
 *
 * A lane is on a rail. If a stream has as many lanes as there are rails, each lane stays on its
 * rail and waits while the port is down: its hello then has no queue pair. Otherwise lanes change
 * to the next rail with each incarnation, equally at both ends. From the second incarnation on, a
 * lane carries data only after an empty write has succeeded. */
#include "wire/verbs/verbs.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"

#define DRAIN_NS TT_SECOND
#define AGAIN_NS (200 * TT_MS)     /* additional delay after each failure */
#define WALK_NS (20 * TT_MS)       /* between rails that are down */
#define WALKS_PER_SETBACK 16

static bool changes_rails(const struct tt_verbs_lane *lane)
{
    return lane->stream->nlanes < lane->link->nrails;
}

/* Returns the rail of an incarnation, which is the same at both ends. */
static uint32_t rail_of_incarnation(const struct tt_verbs_lane *lane, uint32_t incarnation)
{
    const struct tt_verbs_link *link = lane->link;
    const uint32_t first = link->verbs->base.conf.rank + link->base.peer + lane->index;

    return (changes_rails(lane) ? first + incarnation : first) % link->nrails;
}

/* Returns whether a rail that the lane can use is up. */
static bool has_rail(const struct tt_verbs_lane *lane)
{
    const struct tt_verbs_link *link = lane->link;
    bool any = false;

    for (uint32_t i = 0; i < link->nrails; i++)
        any |= link->verbs->rail[i].up && (changes_rails(lane) || i == lane->rail);
    return any;
}

void tt_verbs_lane_hello(const struct tt_verbs_lane *lane, uint8_t *out)
{
    const struct tt_verbs_rail *rail = &lane->link->verbs->rail[lane->rail];
    struct tt_verbs_hello h = {
        .incarnation = lane->session.incarnation,
        .qp = lane->qp ? lane->qpn : 0,
        .psn = lane->psn,
        .mtu = rail->mtu,
        .lid = rail->lid,
    };

    memcpy(h.gid, rail->gid.raw, sizeof h.gid);
    tt_dqplb_report(&lane->stream->receiver, h.report);
    tt_verbs_hello_write(&h, out);
}

static void lane_send_pending(struct tt_verbs_lane *lane)
{
    tt_rput_session_send(&lane->link->base, &lane->session);
}

/* ---- incarnations ---- */

/* Delays the retry after failures; a lane with several rails first tries the others. */
static void delay_retry(struct tt_verbs_lane *lane)
{
    if (!changes_rails(lane) || lane->setbacks % lane->link->nrails == 0)
        lane->again_ns = tt_now_ns() + lane->setbacks * AGAIN_NS;
}

static void count_setback(struct tt_verbs_lane *lane)
{
    lane->setbacks++;
    delay_retry(lane);
}

static void open_next(struct tt_verbs_lane *lane)
{
    struct tt_verbs *v = lane->link->verbs;

    tt_rput_session_next(&lane->session);
    lane->rail = rail_of_incarnation(lane, lane->session.incarnation);
    lane->state = TT_VERBS_LANE_DOWN;
    if (!v->rail[lane->rail].up) {
        if (changes_rails(lane) && ++lane->walks % WALKS_PER_SETBACK == 0)
            lane->setbacks++;
        if (changes_rails(lane))
            lane->again_ns = tt_now_ns() + WALK_NS;
    } else if (tt_now_ns() >= lane->again_ns && tt_verbs_qp_create(lane) != TUTTI_OK) {
        count_setback(lane);
    }
    v->base.mending = true;
    lane_send_pending(lane);
}

tutti_status tt_verbs_lane_begin(struct tt_verbs_lane *lane)
{
    lane->culprit = TT_VERBS_NO_MESSAGE;
    lane->wr_depth = lane->stream->index == TT_RPUT_CONTROL
                         ? TT_VERBS_WRS
                         : 2 * lane->stream->sender.limits.outstanding + TT_VERBS_WRS_TO_ASK;
    lane->wrs = calloc(lane->wr_depth, sizeof *lane->wrs);
    if (!lane->wrs)
        return tt_fail(TUTTI_ERR_NOMEM, "verbs: out of memory for a lane to rank %u",
                       lane->link->base.peer);
    tt_dqplb_lane_down(&lane->stream->sender, lane->index);
    open_next(lane);
    return TUTTI_OK;
}

void tt_verbs_lane_end(struct tt_verbs_lane *lane)
{
    if (lane->posts.n > 0)
        tt_log(
            TT_LOG_DEBUG,
            "verbs: lane %u to rank %u carried %llu segments and %llu bytes of payload, last on %s",
            lane->number, lane->link->base.peer, (unsigned long long)lane->posts.n,
            (unsigned long long)lane->posts.bytes, lane->link->verbs->rail[lane->rail].name);
    tt_verbs_qp_destroy(lane);
    free(lane->wrs);
    lane->wrs = NULL;
}

/* Closes the queue pair. Afterwards no device accesses its memory, and everything received is
 * applied. A permanently failed device completes nothing any more. */
static void queue_pair_end(struct tt_verbs_lane *lane)
{
    const uint64_t until_ns =
        tt_now_ns() + (lane->link->verbs->rail[lane->rail].dead ? 0 : DRAIN_NS);

    if (!lane->qp)
        return;
    tt_verbs_qp_stop(lane);
    tt_verbs_lane_watch(lane);
    while ((tt_verbs_collect(lane->link->verbs) > 0 || lane->wr_head != lane->wr_tail) &&
           tt_now_ns() < until_ns)
        continue;
    tt_verbs_qp_destroy(lane);
}

/* After a path failure, probes the other lanes. */
static void others_probe(struct tt_verbs_lane *lane)
{
    struct tt_verbs_link *link = lane->link;

    for (uint32_t i = 0; i < link->nlanes; i++)
        if (&link->lanes[i] != lane && link->lanes[i].state == TT_VERBS_LANE_UP &&
            !link->lanes[i].broken)
            tt_verbs_lane_check(&link->lanes[i]);
}

/* Takes the lane down. `again`: the peer has started the next incarnation, or will after our hello.
 * Only an end with its own failure delays its retry. If each end of a failed lane were delayed by
 * the other's progress, they would alternate forever. */
static void take_down(struct tt_verbs_lane *lane, bool again)
{
    const bool has_failed = lane->setbacks > 0, fails = has_failed && lane->broken;
    struct tt_verbs_stream *s = lane->stream;

    queue_pair_end(lane);
    if (lane->culprit != TT_VERBS_NO_MESSAGE && lane->culprit >= s->q.done)
        tt_verbs_message_void(s, lane->culprit);
    lane->culprit = TT_VERBS_NO_MESSAGE;
    lane->wr_head = lane->wr_tail;
    lane->unwatched = 0;
    lane->broken = false;
    lane->state = TT_VERBS_LANE_DOWN;
    tt_dqplb_lane_down(&s->sender, lane->index);
    if (fails)
        delay_retry(lane);
    tt_log(TT_LOG_DEBUG, "verbs: lane %u to rank %u is down, after incarnation %u", lane->number,
           lane->link->base.peer, lane->session.incarnation);
    if (again)
        open_next(lane);
    if (has_failed)
        others_probe(lane);
}

void tt_verbs_lane_break(struct tt_verbs_lane *lane)
{
    take_down(lane, lane->session.hello_received);  /* without its hello, the peer may not have
                                                       reached this incarnation; the lane continues
                                                       when the peer has */
}

/* ---- messages from the peer ---- */

static bool has_lane_up(const struct tt_verbs_stream *s)
{
    bool any = false;

    for (uint32_t i = 0; i < s->nlanes; i++)
        any |= s->lane[i].state == TT_VERBS_LANE_UP;
    return any;
}

/* A lane of the link has come up. */
static void link_gained(struct tt_verbs_link *link)
{
    const struct tt_verbs_link_hello *h = &link->theirs;
    const struct tt_rkey theirs = {
        .wire = &link->verbs->base.wire,
        .peer = link->base.peer,
        .bytes = h->link_bytes,
        .handle = { 0, 0, h->link_address, h->rkey[0] | (uint64_t)h->rkey[1] << 32 },
    };

    if (link->base.state == TT_RPUT_HANDSHAKE && has_lane_up(&link->streams[TT_RPUT_CONTROL]) &&
        has_lane_up(&link->streams[TT_RPUT_DATA]))
        tt_rput_link_up(&link->base, &theirs);
}

static void lane_come_up(struct tt_verbs_lane *lane)
{
    struct tt_verbs_link *link = lane->link;

    lane->state = TT_VERBS_LANE_UP;
    lane->walks = 0;
    tt_dqplb_lane_up(&lane->stream->sender, lane->index);
    if (lane->session.incarnation > 1)
        tt_log(TT_LOG_INFO, "verbs: lane %u to rank %u is up again, on %s", lane->number,
               link->base.peer, link->verbs->rail[lane->rail].name);
    if (lane->stream->index == TT_RPUT_CONTROL)    /* acknowledgements may have been lost with
                                                       the previous queue pair */
        for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++)
            link->streams[i].ack_due = true;
    link_gained(link);
    tt_verbs_note(lane->stream);
}

/* Processes the peer's report: retransmits the lane's segments in doubt that have not arrived. */
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

/* The peer's hello of this incarnation has arrived: connects our queue pair to its, if both have
 * one. */
static void lane_handle_hello(struct tt_verbs_lane *lane)
{
    struct tt_verbs_hello h;
    uint8_t in[TT_VERBS_HELLO_BYTES];

    tt_rput_session_read(&lane->link->base, &lane->session, in);
    if (!tt_verbs_hello_read(&h, in) || h.incarnation != lane->session.incarnation) {
        tt_rput_link_lose(&lane->link->base, TUTTI_ERR_PROTOCOL, "protocol error: invalid hello");
        return;
    }
    if (!take_report(lane, h.report)) {
        tt_rput_link_lose(&lane->link->base, TUTTI_ERR_PROTOCOL,
                          "protocol error: it acknowledged segments that were not sent");
        return;
    }
    lane->session.hello_received = true;
    if (!lane->qp || h.qp == 0)
        return;     /* an end without a queue pair starts the next incarnation when it can have
                       one */
    if (tt_verbs_qp_connect(lane, &h) != TUTTI_OK) {
        tt_verbs_qp_destroy(lane);
        count_setback(lane);
        return;
    }
    lane->state = TT_VERBS_LANE_CONNECTED;
    lane->session.ready_pending = true;
    lane_send_pending(lane);
}

/* Both ends can receive. Rail 0 is known to reach the peer; others may be in a separate network and
 * are probed. */
static void lane_joined(struct tt_verbs_lane *lane)
{
    if (lane->session.incarnation == 1 && lane->rail == 0) {
        lane_come_up(lane);
        return;
    }
    lane->state = TT_VERBS_LANE_PROBING;
    tt_verbs_lane_probe(lane);
}

void tt_verbs_lane_step(struct tt_verbs_lane *lane)
{
    struct tt_verbs_link *link = lane->link;
    const uint64_t hello = tt_rput_session_hello(&link->base, &lane->session);

    lane_send_pending(lane);
    if (hello > lane->session.incarnation + 1ull) {
        tt_rput_link_lose(&link->base, TUTTI_ERR_PROTOCOL,
                          "protocol error: its incarnation is ahead of that of this rank");
        return;
    }
    if (hello > lane->session.incarnation)  /* the peer has a new queue pair: ours is obsolete */
        take_down(lane, true);
    if (hello == lane->session.incarnation && !lane->session.hello_received)
        lane_handle_hello(lane);
    if (link->base.state == TT_RPUT_LOST)
        return;
    if (lane->state == TT_VERBS_LANE_DOWN && lane->session.hello_received && !lane->qp &&
        has_rail(lane) && tt_now_ns() >= lane->again_ns)
        open_next(lane);
    else if (lane->state == TT_VERBS_LANE_CONNECTED && !lane->session.ready_pending &&
             tt_rput_session_ready(&link->base, &lane->session) == lane->session.incarnation)
        lane_joined(lane);
    else if (lane->state == TT_VERBS_LANE_PROBING && !lane->broken &&
             lane->wr_head == lane->wr_tail)
        lane_come_up(lane);
    if (lane->state != TT_VERBS_LANE_UP)
        *(lane->state == TT_VERBS_LANE_DOWN && lane->session.hello_received
              ? &link->verbs->waiting
              : &link->verbs->base.mending) = true;
}
