/* Links: set-up and teardown.
 *
 * When the inner tcp wire has connected two processes, each sends a *link hello* (rput.h): its
 * number of rails and lanes, and the address of its link region. Both ends then derive the same
 * number of lanes, which come up independently (verbs_lane.c). The link is up when each stream has
 * a lane. It is lost when the peer's process has ended, when no local port has been up for long, or
 * after repeated failures of all lanes. */
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "wire/verbs/verbs.h"

#define PORTLESS_NS (10 * TT_SECOND)
#define SETBACKS_MAX 3

#define RING_BYTES (TT_VERBS_SLOTS * TT_VERBS_SLOT_BYTES)
#define STAGING_BYTES (TT_VERBS_DEPTH * TT_VERBS_SLOT_BYTES)
#define LOCAL_BYTES (TT_RPUT_STREAMS * (STAGING_BYTES + TT_VERBS_BOUNCE_BYTES))

#define WATCH_EVERY 16

/* ---- memory of a link ---- */

size_t tt_verbs_mine_bytes(const struct tt_verbs *v)
{
    return (v->base.conf.link_bytes + 4095) / 4096 * 4096 + TT_RPUT_STREAMS * RING_BYTES;
}

size_t tt_verbs_local_bytes(void)
{
    return LOCAL_BYTES;
}

static tutti_status stream_init(struct tt_verbs_stream *s, struct tt_verbs_link *link,
                                uint32_t index)
{
    s->link = link;
    s->index = index;
    s->ring = (uint8_t *)link->base.mine + link->base.rput->mine_bytes -
              (TT_RPUT_STREAMS - index) * (size_t)RING_BYTES;
    s->staging = link->base.local + index * (size_t)STAGING_BYTES;
    s->bounce = link->base.local + TT_RPUT_STREAMS * (size_t)STAGING_BYTES +
                index * (size_t)TT_VERBS_BOUNCE_BYTES;
    tt_dqplb_receiver_init(&s->receiver, TT_VERBS_WINDOW, 0, s->marks);
    s->segments = calloc(TT_VERBS_WINDOW, sizeof *s->segments);
    if (!s->segments ||
        !tt_rput_queue_init(&s->q, link->base.peer, TT_VERBS_DEPTH, sizeof(struct tt_verbs_out)))
        return tt_fail(TUTTI_ERR_NOMEM, "verbs: out of memory for a link to rank %u",
                       link->base.peer);
    return TUTTI_OK;
}

/* Registers the link's memory with every rail, and joins a group there. */
static tutti_status rails_join(struct tt_verbs_link *link)
{
    struct tt_verbs *v = link->verbs;
    tutti_status st = TUTTI_OK;

    for (uint32_t i = 0; i < v->nrails && !st; i++) {
        link->mine_mr[i] = tt_verbs_pin(&v->rail[i], link->base.mine, v->base.mine_bytes,
                                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        link->local_mr[i] =
            link->mine_mr[i] ? tt_verbs_pin(&v->rail[i], link->base.local, LOCAL_BYTES, 0) : NULL;
        st = link->local_mr[i] ? tt_verbs_group_join(link, i) : TUTTI_ERR_NOMEM;
    }
    return st;
}

static void verbs_link_end(struct tt_rput_link *base)
{
    struct tt_verbs_link *link = (struct tt_verbs_link *)base;

    for (uint32_t i = 0; i < link->nlanes; i++)
        tt_verbs_lane_end(&link->lanes[i]);
    tt_verbs_groups_leave(link);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        tt_rput_queue_fini(&link->streams[i].q);
        free(link->streams[i].segments);
        link->streams[i].segments = NULL;
    }
    link->nlanes = 0;
    free(link->lanes);
    link->lanes = NULL;
    for (uint32_t i = 0; i < TT_VERBS_RAILS; i++) {
        tt_verbs_unpin(link->mine_mr[i]);
        tt_verbs_unpin(link->local_mr[i]);
        link->mine_mr[i] = link->local_mr[i] = NULL;
    }
}

/* ---- number and limits of lanes ---- */

static enum tt_distance link_distance(const struct tt_verbs_link *link)
{
    return tt_rput_distance(&link->verbs->base.conf, link->base.peer);
}

/* Returns the user's number of lanes; by default the number for the distance, and at least one per
 * rail. */
static uint8_t data_lanes_wanted(const struct tt_verbs_link *link)
{
    const struct tt_verbs *v = link->verbs;
    const uint32_t suit = tt_dqplb_lane_count(link_distance(link));
    const uint32_t n = v->base.conf.lanes ? v->base.conf.lanes
                       : suit > v->nrails ? suit
                                          : v->nrails;

    return (uint8_t)(n < TT_VERBS_DATA_LANES ? n : TT_VERBS_DATA_LANES);
}

struct tt_dqplb_limits tt_verbs_limits(const struct tt_verbs_link *link, uint32_t nlanes)
{
    const struct tt_verbs *v = link->verbs;

    return tt_lane_limits_queues(&v->base.limits, link_distance(link), nlanes, TT_VERBS_WINDOW,
                                 v->base.conf.links, link->nrails);
}

static void stream_bound(struct tt_verbs_stream *s, uint32_t nlanes)
{
    const struct tt_dqplb_limits limits = tt_verbs_limits(s->link, nlanes);

    s->watch_every =
        /* for segments without bytes; all others are signaled */
        tt_dqplb_within(limits.outstanding / 2, 1, WATCH_EVERY);
    tt_dqplb_sender_init(&s->sender, &limits, 0, s->segments);
}

/* Updates the limits: the link may have been measured (TUTTI_TOPO_MEASURE) since it came up. */
static void stream_rebound(struct tt_verbs_stream *s)
{
    const struct tt_dqplb_limits limits = tt_verbs_limits(s->link, s->nlanes);

    if (!s->sender.cutting)
        tt_dqplb_rebound(&s->sender, limits.segment_bytes, limits.lane_bytes);
}

/* ---- set-up ---- */

static void link_hello_write(const struct tt_verbs_link *link, uint8_t *out)
{
    const struct tt_verbs *v = link->verbs;
    struct tt_verbs_link_hello g = {
        .rails = (uint8_t)v->nrails,
        .data_lanes = data_lanes_wanted(link),
        .link_address = (uintptr_t)link->base.mine,
        .link_bytes = v->base.conf.link_bytes,
    };

    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++)
        g.ring[i] = (uintptr_t)link->streams[i].ring;
    for (uint32_t i = 0; i < v->nrails; i++)
        g.rkey[i] = link->mine_mr[i]->rkey;
    tt_verbs_link_hello_write(&g, out);
}

/* The first session is that of the link hello, the others are those of the lanes. */
static size_t verbs_hello(struct tt_rput_link *base, const struct tt_rput_session *session,
                          uint8_t *out)
{
    struct tt_verbs_link *link = (struct tt_verbs_link *)base;

    if (session->index == 0) {
        link_hello_write(link, out);
        return TT_VERBS_LINK_HELLO_BYTES;
    }
    tt_verbs_lane_hello(&link->lanes[session->index - 1], out);
    return TT_VERBS_HELLO_BYTES;
}

/* Allocates what all lanes use. */
static tutti_status verbs_link_begin(struct tt_rput_link *base)
{
    struct tt_verbs_link *link = (struct tt_verbs_link *)base;
    tutti_status st = TUTTI_OK;

    link->verbs = (struct tt_verbs *)base->rput;
    for (uint32_t i = 0; i < TT_RPUT_STREAMS && !st; i++)
        st = stream_init(&link->streams[i], link, i);
    if (!st)
        st = rails_join(link);
    if (!st) {
        tt_rput_session_next(&link->session);
        tt_rput_session_send(base, &link->session);
    }
    return st;
}

/* Both link hellos are known: creates the lanes. */
static tutti_status lanes_begin(struct tt_verbs_link *link, uint32_t ndata)
{
    struct tt_verbs_stream *control = &link->streams[TT_RPUT_CONTROL],
                           *data = &link->streams[TT_RPUT_DATA];
    tutti_status st = TUTTI_OK;

    link->lanes = calloc(1 + ndata, sizeof *link->lanes);
    if (!link->lanes)
        return tt_fail(TUTTI_ERR_NOMEM, "verbs: out of memory for %u lanes to rank %u", 1 + ndata,
                       link->base.peer);
    control->lane = link->lanes;
    control->nlanes = 1;
    data->lane = link->lanes + 1;
    data->nlanes = ndata;
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        link->streams[i].peer_ring = link->theirs.ring[i];
        stream_bound(&link->streams[i], link->streams[i].nlanes);
    }
    tt_log(TT_LOG_DEBUG,
           "verbs: %u lane%s to rank %u: segments of %llu bytes, at most %llu bytes "
           "outstanding per lane", ndata, TT_PLURAL(ndata),
           link->base.peer, (unsigned long long)data->sender.limits.segment_bytes,
           (unsigned long long)data->sender.limits.lane_bytes);
    for (uint32_t i = 0; i < 1 + ndata && !st; i++) {
        struct tt_verbs_stream *s = i ? data : control;

        link->lanes[i] = (struct tt_verbs_lane){
            .link = link,
            .stream = s,
            .number = i,
            .index = i ? i - 1 : 0,
            .session = { .index = 1 + i },
        };
        link->nlanes++;
        st = tt_verbs_lane_begin(&link->lanes[i]);
    }
    return st;
}

static void handle_link_hello(struct tt_verbs_link *link)
{
    const uint32_t wanted = data_lanes_wanted(link);
    uint8_t in[TT_VERBS_HELLO_BYTES];

    tt_rput_session_read(&link->base, &link->session, in);
    if (!tt_verbs_link_hello_read(&link->theirs, in)) {
        tt_rput_link_lose(&link->base, TUTTI_ERR_PROTOCOL, "protocol error: invalid handshake");
        return;
    }
    link->session.hello_received = true;
    link->nrails =
        link->theirs.rails < link->verbs->nrails ? link->theirs.rails : link->verbs->nrails;
    if (lanes_begin(link, wanted < link->theirs.data_lanes ? wanted : link->theirs.data_lanes) !=
        TUTTI_OK)
        tt_rput_link_lose(&link->base, TUTTI_ERR_NOMEM, "cannot allocate its resources");
}

tutti_status tt_verbs_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address)
{
    struct tt_verbs *v = tt_verbs_of(w);
    struct tt_verbs_address a;

    if (!tt_verbs_address_read(&a, address) || a.infiniband != v->rail[0].infiniband)
        return TUTTI_ERR_UNSUPPORTED;
    if (a.infiniband && a.subnet != v->rail[0].gid.global.subnet_prefix)
        return TUTTI_ERR_UNSUPPORTED;
    return tt_rput_connect(&v->base, peer, &a.tcp);
}

/* ---- progress ---- */

/* Returns whether no lane remains: all have failed too often in a row. */
static bool is_exhausted(const struct tt_verbs_link *link)
{
    for (uint32_t i = 0; i < link->nlanes; i++)
        if (link->lanes[i].setbacks <= SETBACKS_MAX)
            return false;
    return link->nlanes > 0;
}

/* Returns whether this process has had no port for too long. */
static bool is_portless(struct tt_verbs_link *link)
{
    const struct tt_verbs *v = link->verbs;

    for (uint32_t i = 0; i < v->nrails; i++)
        if (v->rail[i].up) {
            link->portless_ns = 0;
            return false;
        }
    if (link->portless_ns == 0)
        link->portless_ns = tt_now_ns();
    return tt_now_ns() - link->portless_ns > PORTLESS_NS;
}

void tt_verbs_links_break(struct tt_verbs *v)
{
    v->any_broken = false;
    for (uint32_t i = v->base.nactive; i-- > 0;) {
        struct tt_verbs_link *link = tt_verbs_link_at(v, i);

        if (link->base.status) {
            tt_rput_link_lose(&link->base, link->base.status,
                              link->base.status == TUTTI_ERR_NOMEM
                                  ? "cannot register a source again"
                                  : "protocol error: invalid write");
            continue;
        }
        for (uint32_t k = 0; k < link->nlanes; k++)
            if (link->lanes[k].broken)
                tt_verbs_lane_break(&link->lanes[k]);
        if (is_exhausted(link))
            tt_rput_link_lose(&link->base, TUTTI_ERR_PEER_LOST, "its device does not respond");
    }
}

static void verbs_link_step(struct tt_rput_link *base)
{
    struct tt_verbs_link *link = (struct tt_verbs_link *)base;

    tt_rput_session_send(base, &link->session);
    if (!link->session.hello_received && tt_rput_session_hello(base, &link->session))
        handle_link_hello(link);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS && link->nlanes > 0; i++)
        stream_rebound(&link->streams[i]);
    for (uint32_t i = 0; i < link->nlanes; i++)
        tt_verbs_lane_step(&link->lanes[i]);
    if (is_exhausted(link))
        tt_rput_link_lose(base, TUTTI_ERR_PEER_LOST, "its device is unreachable");
    else if (is_portless(link))
        tt_rput_link_lose(base, TUTTI_ERR_PEER_LOST, "no port of the local devices is active");
}

static void verbs_drain(struct tt_rput_link *base)
{
    while (tt_verbs_collect((struct tt_verbs *)base->rput) > 0)
        continue;
}

static void each_lane(struct tt_verbs *v, uint32_t rail, void (*act)(struct tt_verbs_lane *))
{
    for (uint32_t i = 0; i < v->base.nactive; i++)
        for (uint32_t k = 0; k < tt_verbs_link_at(v, i)->nlanes; k++)
            if (tt_verbs_link_at(v, i)->lanes[k].rail == rail &&
                tt_verbs_link_at(v, i)->lanes[k].qp)
                act(&tt_verbs_link_at(v, i)->lanes[k]);
}

static void check_if_up(struct tt_verbs_lane *lane)
{
    if (lane->state == TT_VERBS_LANE_UP && !lane->broken)
        tt_verbs_lane_check(lane);
}

/* Lanes on a failed port do not wait for an error of their queue pairs. */
static void rails_step(struct tt_verbs *v)
{
    for (uint32_t i = 0; i < v->nrails; i++) {
        struct tt_verbs_rail *rail = &v->rail[i];
        bool doubtful;
        const bool changed = tt_verbs_rail_events(rail, &doubtful);

        if (changed)
            tt_log(TT_LOG_INFO, "verbs: %s, port %u, is %s", rail->name, rail->port,
                   rail->up ? "up" : "down");
        if (changed && !rail->up)
            each_lane(v, i, tt_verbs_lane_mark);
        else if (doubtful)
            each_lane(v, i, check_if_up);
    }
}

void tt_verbs_links_step(struct tt_verbs *v)
{
    tt_rput_tcp_step(&v->base);
    rails_step(v);
    v->waiting = false;
    tt_rput_links_step(&v->base);
}

/* ---- close ---- */

static bool verbs_linger(struct tt_rput_link *base, bool first)
{
    struct tt_verbs_link *link = (struct tt_verbs_link *)base;

    (void)first;
    for (uint32_t i = 0; i < link->nlanes; i++)
        if (link->lanes[i].state == TT_VERBS_LANE_UP)
            tt_verbs_lane_watch(&link->lanes[i]);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++)
        if (link->streams[i].sent != link->streams[i].q.tail ||
            link->streams[i].q.done != link->streams[i].q.tail)
            return true;
    return false;
}

/* ---- statistics ---- */

static uint64_t verbs_link_bytes(const struct tt_rput_link *base)
{
    const struct tt_verbs_link *link = (const struct tt_verbs_link *)base;
    uint64_t bytes = link->nlanes * sizeof *link->lanes;

    for (uint32_t i = 0; i < link->nlanes; i++)
        bytes += link->lanes[i].wr_depth * sizeof *link->lanes[i].wrs;
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        const struct tt_verbs_stream *s = &link->streams[i];

        bytes += tt_rput_queue_bytes(&s->q);
        bytes += s->segments ? TT_VERBS_WINDOW * sizeof *s->segments : 0;
    }
    return bytes;
}

static void verbs_lanes(struct tt_rput_link *base, bool next, tt_wire_lane_fn *add, void *arg)
{
    struct tt_verbs_link *link = (struct tt_verbs_link *)base;

    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        struct tt_verbs_stream *s = &link->streams[i];

        for (uint32_t k = 0; k < s->nlanes; k++) {
            struct tt_verbs_lane *lane = &s->lane[k];
            struct tt_wire_lane out =
                tt_wire_posts_read(&lane->posts, base->peer, lane->number, next);

            out.is_up = lane->state == TT_VERBS_LANE_UP;
            out.depth = k == 0 ? tt_dqplb_depth(&s->receiver, next) : 0;
            out.outstanding = s->sender.lanes.lane[k].outstanding;
            out.outstanding_bytes = s->sender.lanes.lane[k].bytes;
            add(arg, &out);
        }
    }
}

const struct tt_rput_ops tt_verbs_link_ops = {
    .link_bytes = sizeof(struct tt_verbs_link),
    .hello_bytes = TT_VERBS_HELLO_BYTES,
    .nsessions = 1 + TT_VERBS_LANES,
    .purpose = "verbs: links",
    .begin = verbs_link_begin,
    .end = verbs_link_end,
    .step = verbs_link_step,
    .drain = verbs_drain,
    .hello = verbs_hello,
    .linger = verbs_linger,
    .bytes = verbs_link_bytes,
    .lanes = verbs_lanes,
};
