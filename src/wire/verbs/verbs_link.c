/* Links: set-up and teardown.
 *
 * When the inner tcp wire has connected two processes, each writes a *link hello* into the peer's
 * mailbox (the tcp wire's link region): its number of rails and lanes, and the address of its link
 * region. Then both have the number of lanes, which come up independently (verbs_lane.c). The link
 * is up when each stream has a lane. It is lost when the peer's process has ended, when no local
 * port has been up for long, or after repeated failures of all lanes. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "wire/tcp/tcp.h"
#include "wire/verbs/verbs.h"

#define LINGER_NS TT_SECOND
#define PORTLESS_NS (10 * TT_SECOND)
#define SETBACKS_MAX 3

#define RING_BYTES (TT_VERBS_SLOTS * TT_VERBS_SLOT_BYTES)
#define STAGING_BYTES (TT_VERBS_DEPTH * TT_VERBS_SLOT_BYTES)
#define LOCAL_BYTES (TT_VERBS_STREAMS * (STAGING_BYTES + TT_VERBS_BOUNCE_BYTES))

#define WATCH_EVERY 16

uint64_t tt_verbs_mailbox_read(const struct tt_verbs_link *link, size_t word_at)
{
    return __atomic_load_n(
        (const uint64_t *)(const void *)((const uint8_t *)link->tcp.mine + word_at),
        __ATOMIC_ACQUIRE);
}

/* ---- events for poll ---- */

static void verbs_link_news(struct tt_verbs_link *link)
{
    struct tt_verbs *v = link->verbs;

    if (link->report_up || link->report_lost)
        return;     /* already listed */
    link->next_reported = NULL;
    *v->news_end = link;
    v->news_end = &link->next_reported;
}

/* ---- memory of a link ---- */

static size_t mine_bytes(const struct tt_verbs *v)
{
    return (v->conf.link_bytes + 4095) / 4096 * 4096 + TT_VERBS_STREAMS * RING_BYTES;
}

static tutti_status stream_init(struct tt_verbs_stream *s, struct tt_verbs_link *link,
                                uint32_t index)
{
    s->link = link;
    s->index = index;
    s->ring = (uint8_t *)link->mine + mine_bytes(link->verbs) -
              (TT_VERBS_STREAMS - index) * (size_t)RING_BYTES;
    s->staging = link->local + index * (size_t)STAGING_BYTES;
    s->bounce = link->local + TT_VERBS_STREAMS * (size_t)STAGING_BYTES +
                index * (size_t)TT_VERBS_BOUNCE_BYTES;
    tt_dqplb_receiver_init(&s->receiver, TT_VERBS_WINDOW, 0, s->marks);
    s->out = calloc(TT_VERBS_DEPTH, sizeof *s->out);
    s->segments = calloc(TT_VERBS_WINDOW, sizeof *s->segments);
    if (!s->out || !s->segments)
        return tt_fail(TUTTI_ERR_NOMEM, "verbs: out of memory for a link to rank %u", link->peer);
    return TUTTI_OK;
}

/* Registers the link's memory with every rail, and joins a group there. */
static tutti_status rails_join(struct tt_verbs_link *link)
{
    struct tt_verbs *v = link->verbs;
    tutti_status st = TUTTI_OK;

    for (uint32_t i = 0; i < v->nrails && !st; i++) {
        link->mine_mr[i] = tt_verbs_pin(&v->rail[i], link->mine, mine_bytes(v),
                                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        link->local_mr[i] =
            link->mine_mr[i] ? tt_verbs_pin(&v->rail[i], link->local, LOCAL_BYTES, 0) : NULL;
        st = link->local_mr[i] ? tt_verbs_group_join(link, i) : TUTTI_ERR_NOMEM;
    }
    return st;
}

/* Allocates what all lanes use. On failure verbs_link_free_parts cleans up. */
static tutti_status verbs_link_alloc(struct tt_verbs_link *link)
{
    struct tt_verbs *v = link->verbs;
    tutti_status st = TUTTI_OK;

    link->mine =
        mmap(NULL, mine_bytes(v), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (link->mine == MAP_FAILED) {
        link->mine = NULL;
        return tt_fail_errno(errno, "verbs: cannot map memory for the link to rank %u", link->peer);
    }
    link->local =
        mmap(NULL, LOCAL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (link->local == MAP_FAILED) {
        link->local = NULL;
        return tt_fail_errno(errno, "verbs: cannot map memory for the link to rank %u", link->peer);
    }
    for (uint32_t i = 0; i < TT_VERBS_STREAMS && !st; i++)
        st = stream_init(&link->streams[i], link, i);
    return st ? st : rails_join(link);
}

/* Frees everything but the link region, which callers may still access. */
static void verbs_link_free_parts(struct tt_verbs_link *link)
{
    for (uint32_t i = 0; i < link->nlanes; i++)
        tt_verbs_lane_end(&link->lanes[i]);
    tt_verbs_groups_leave(link);
    for (uint32_t i = 0; i < TT_VERBS_STREAMS; i++) {
        free(link->streams[i].out);
        free(link->streams[i].segments);
        link->streams[i].out = NULL;
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
    if (link->local)
        munmap(link->local, LOCAL_BYTES);
    link->local = NULL;
}

/* ---- number and limits of lanes ---- */

static enum tt_distance link_distance(const struct tt_verbs_link *link)
{
    const struct tt_layout *l = link->verbs->conf.layout;

    return l && l->nranks ? tt_layout_distance(l, link->verbs->conf.rank, link->peer)
                          : TT_NEAR_RACK;
}

/* The user's number; by default that of the distance, and at least one per rail. */
static uint8_t data_lanes_wanted(const struct tt_verbs_link *link)
{
    const struct tt_verbs *v = link->verbs;
    const uint32_t suit = tt_dqplb_lane_count(link_distance(link));
    const uint32_t n = v->conf.lanes ? v->conf.lanes : suit > v->nrails ? suit : v->nrails;

    return (uint8_t)(n < TT_VERBS_DATA_LANES ? n : TT_VERBS_DATA_LANES);
}

struct tt_dqplb_limits tt_verbs_limits(const struct tt_verbs_link *link, uint32_t nlanes)
{
    const struct tt_verbs *v = link->verbs;

    return tt_lane_limits_queues(&v->limits, link_distance(link), nlanes, TT_VERBS_WINDOW,
                                 v->conf.links, link->nrails);
}

static void stream_bound(struct tt_verbs_stream *s, uint32_t nlanes)
{
    const struct tt_dqplb_limits limits = tt_verbs_limits(s->link, nlanes);

    s->watch_every =
        /* of segments without bytes; all others are signaled */
        tt_dqplb_within(limits.outstanding / 2, 1, WATCH_EVERY);
    tt_dqplb_sender_init(&s->sender, &limits, 0, s->segments);
}

/* The link may have been measured (TUTTI_TOPO_MEASURE) since it came up. */
static void stream_rebound(struct tt_verbs_stream *s)
{
    const struct tt_dqplb_limits limits = tt_verbs_limits(s->link, s->nlanes);

    if (!s->sender.cutting)
        tt_dqplb_rebound(&s->sender, limits.segment_bytes, limits.lane_bytes);
}

/* ---- messages to the peer ---- */

bool tt_verbs_mailbox_write(struct tt_verbs_link *link, size_t word_at, uint64_t word, size_t at,
                            const void *data, size_t bytes)
{
    const struct tt_desc d = {
        .kind = TT_DESC_PUT,
        .flags = TT_DESC_INLINE,
        .signal_op = TT_SIGNAL_SET,
        .local = (void *)(uintptr_t)data,
        .bytes = bytes,
        .key = &link->tcp.theirs,
        .offset = at,
        .signal_key = &link->tcp.theirs,
        .signal_offset = word_at,
        .signal_value = word,
    };

    return link->verbs->tcp->ops->post(link->verbs->tcp, &d, 1) == 1;
}

static bool send_link_hello(struct tt_verbs_link *link)
{
    const struct tt_verbs *v = link->verbs;
    struct tt_verbs_link_hello g = {
        .rails = (uint8_t)v->nrails,
        .data_lanes = data_lanes_wanted(link),
        .link_address = (uintptr_t)link->mine,
        .link_bytes = v->conf.link_bytes,
    };
    uint8_t out[TT_VERBS_LINK_HELLO_BYTES];

    for (uint32_t i = 0; i < TT_VERBS_STREAMS; i++)
        g.ring[i] = (uintptr_t)link->streams[i].ring;
    for (uint32_t i = 0; i < v->nrails; i++)
        g.rkey[i] = link->mine_mr[i]->rkey;
    tt_verbs_link_hello_write(&g, out);
    return tt_verbs_mailbox_write(link, offsetof(struct tt_verbs_mailbox, link_hello_received), 1,
                                  offsetof(struct tt_verbs_mailbox, greeting), out, sizeof out);
}

/* Sends pending messages as far as there is space. */
static void verbs_link_send_pending(struct tt_verbs_link *link)
{
    if (link->link_hello_pending)
        link->link_hello_pending = !send_link_hello(link);
    if (link->refusal_pending)
        link->refusal_pending = !tt_verbs_mailbox_write(
            link, offsetof(struct tt_verbs_mailbox, refusal), 1, 0, NULL, 0);
}

/* ---- set-up ---- */

void tt_verbs_link_lose(struct tt_verbs_link *link, tutti_status status, const char *why)
{
    struct tt_verbs *v = link->verbs;

    if (link->state == TT_VERBS_LOST)
        return;
    tt_log(status == TUTTI_ERR_PEER_LOST || status == TUTTI_OK ? TT_LOG_INFO : TT_LOG_WARN,
           "verbs: the link to rank %u ended: %s", link->peer, why);
    link->link_hello_pending = false;
    /* otherwise the peer would wait */
    link->refusal_pending = status != TUTTI_OK && link->tcp.mine;
    verbs_link_send_pending(link);
    if (link->refusal_pending)     /* there is no space for it, and this link is not polled any
                                   more: the end of the connection notifies the peer */
        tt_tcp_link_lose(tt_sparse_get(&tt_tcp_of(v->tcp)->links, link->peer), TUTTI_ERR_PEER_LOST,
                         "cannot send the "
                         "refusal of a "
                         "link");
    link->state = TT_VERBS_LOST;
    verbs_link_free_parts(link);
    for (uint32_t i = 0; i < v->nactive; i++)
        if (v->active[i] == link)
            v->active[i] = v->active[--v->nactive];
    link->status = status;
    verbs_link_news(link);
    link->report_lost = true;
}

/* The tcp wire has connected the peer. */
static void verbs_link_begin(struct tt_verbs *v, uint32_t peer, const struct tt_link *tcp)
{
    struct tt_verbs_link *link = calloc(1, sizeof *link);
    struct tt_verbs_link **grown = v->active;

    if (link && v->nactive == v->active_depth) {
        grown = realloc(v->active, (2 * v->active_depth + 8) * sizeof *grown);
        if (grown) {
            v->active = grown;
            v->active_depth = 2 * v->active_depth + 8;
        }
    }
    if (!link || !grown || !tt_sparse_set(&v->links, peer, link)) {
        free(link);
        tt_log(TT_LOG_WARN, "verbs: out of memory for a link to rank %u", peer);
        return;
    }
    *link = (struct tt_verbs_link){ .verbs = v, .peer = peer, .tcp = *tcp };
    v->active[v->nactive++] = link;
    if (verbs_link_alloc(link) != TUTTI_OK) {
        tt_verbs_link_lose(link, TUTTI_ERR_NOMEM, "cannot allocate its resources");
        return;
    }
    link->link_hello_pending = true;
    verbs_link_send_pending(link);
}

/* Both link hellos are known: creates the lanes. */
static tutti_status lanes_begin(struct tt_verbs_link *link, uint32_t ndata)
{
    struct tt_verbs_stream *control = &link->streams[TT_VERBS_CONTROL],
                           *data = &link->streams[TT_VERBS_DATA];
    tutti_status st = TUTTI_OK;

    link->lanes = calloc(1 + ndata, sizeof *link->lanes);
    if (!link->lanes)
        return tt_fail(TUTTI_ERR_NOMEM, "verbs: out of memory for %u lanes to rank %u", 1 + ndata,
                       link->peer);
    control->lane = link->lanes;
    control->nlanes = 1;
    data->lane = link->lanes + 1;
    data->nlanes = ndata;
    for (uint32_t i = 0; i < TT_VERBS_STREAMS; i++) {
        link->streams[i].peer_ring = link->theirs.ring[i];
        stream_bound(&link->streams[i], link->streams[i].nlanes);
    }
    tt_log(TT_LOG_DEBUG,
           "verbs: %u lane%s to rank %u: segments of %llu bytes, at most %llu bytes "
           "outstanding per lane", ndata, TT_PLURAL(ndata),
           link->peer, (unsigned long long)data->sender.limits.segment_bytes,
           (unsigned long long)data->sender.limits.lane_bytes);
    for (uint32_t i = 0; i < 1 + ndata && !st; i++) {
        struct tt_verbs_stream *s = i ? data : control;

        link->lanes[i] = (struct tt_verbs_lane){
            .link = link, .stream = s, .number = i, .index = i ? i - 1 : 0
        };
        link->nlanes++;
        st = tt_verbs_lane_begin(&link->lanes[i]);
    }
    return st;
}

static void handle_link_hello(struct tt_verbs_link *link)
{
    const struct tt_verbs_mailbox *box = link->tcp.mine;
    const uint32_t wanted = data_lanes_wanted(link);
    uint8_t in[TT_VERBS_LINK_HELLO_BYTES];

    memcpy(in, box->greeting, sizeof in);
    if (!tt_verbs_link_hello_read(&link->theirs, in)) {
        tt_verbs_link_lose(link, TUTTI_ERR_PROTOCOL, "protocol error: invalid handshake");
        return;
    }
    link->link_hello_received = true;
    link->nrails =
        link->theirs.rails < link->verbs->nrails ? link->theirs.rails : link->verbs->nrails;
    if (lanes_begin(link, wanted < link->theirs.data_lanes ? wanted : link->theirs.data_lanes) !=
        TUTTI_OK)
        tt_verbs_link_lose(link, TUTTI_ERR_NOMEM, "cannot allocate its resources");
}

static bool has_lane_up(const struct tt_verbs_stream *s)
{
    bool any = false;

    for (uint32_t i = 0; i < s->nlanes; i++)
        any |= s->lane[i].state == TT_VERBS_LANE_UP;
    return any;
}

void tt_verbs_link_gained(struct tt_verbs_link *link)
{
    if (link->state != TT_VERBS_HANDSHAKE || !has_lane_up(&link->streams[TT_VERBS_CONTROL]) ||
        !has_lane_up(&link->streams[TT_VERBS_DATA]))
        return;
    link->state = TT_VERBS_UP;
    verbs_link_news(link);
    link->report_up = true;
}

tutti_status tt_verbs_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address)
{
    struct tt_verbs *v = tt_verbs_of(w);
    struct tt_verbs_address a;

    if (!tt_verbs_address_read(&a, address) || a.infiniband != v->rail[0].infiniband)
        return TUTTI_ERR_UNSUPPORTED;
    if (a.infiniband && a.subnet != v->rail[0].gid.global.subnet_prefix)
        return TUTTI_ERR_UNSUPPORTED;
    return v->tcp->ops->connect(v->tcp, peer, &a.tcp);
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
    for (uint32_t i = v->nactive; i-- > 0;) {
        struct tt_verbs_link *link = v->active[i];

        if (link->status) {
            tt_verbs_link_lose(link, link->status,
                               link->status == TUTTI_ERR_NOMEM ? "cannot register a source again"
                                                               : "protocol error: invalid write");
            continue;
        }
        for (uint32_t k = 0; k < link->nlanes; k++)
            if (link->lanes[k].broken)
                tt_verbs_lane_break(&link->lanes[k]);
        if (is_exhausted(link))
            tt_verbs_link_lose(link, TUTTI_ERR_PEER_LOST, "its device does not respond");
    }
}

/* One step of a link that is not lost. */
static void verbs_link_step(struct tt_verbs_link *link)
{
    verbs_link_send_pending(link);
    if (tt_verbs_mailbox_read(link, offsetof(struct tt_verbs_mailbox, refusal))) {
        tt_verbs_link_lose(link, TUTTI_ERR_PEER_LOST, "the peer ended the link");
        return;
    }
    if (!link->link_hello_received &&
        tt_verbs_mailbox_read(link, offsetof(struct tt_verbs_mailbox, link_hello_received)))
        handle_link_hello(link);
    for (uint32_t i = 0; i < TT_VERBS_STREAMS && link->nlanes > 0; i++)
        stream_rebound(&link->streams[i]);
    link->verbs->mending |= !link->link_hello_received;
    for (uint32_t i = 0; i < link->nlanes; i++)
        tt_verbs_lane_step(&link->lanes[i]);
    if (is_exhausted(link))
        tt_verbs_link_lose(link, TUTTI_ERR_PEER_LOST, "its device is unreachable");
    else if (is_portless(link))
        tt_verbs_link_lose(link, TUTTI_ERR_PEER_LOST, "no port of the local devices is active");
}

/* The tcp connection has ended: applies what has arrived. */
static void verbs_tcp_lost(struct tt_verbs *v, const struct tt_done *d)
{
    struct tt_verbs_link *link = tt_sparse_get(&v->links, d->peer);

    while (tt_verbs_collect(v) > 0)
        continue;
    if (!link) {        /* the link was never set up */
        link = calloc(1, sizeof *link);
        if (!link || !tt_sparse_set(&v->links, d->peer, link)) {
            free(link);
            return;
        }
        *link = (struct tt_verbs_link){ .verbs = v, .peer = d->peer };
    }
    link->tcp.mine = NULL;      /* no further message can be sent */
    tt_verbs_link_lose(link, d->status,
                       d->status ? "the peer has ended, or is unreachable" : "closed by the peer");
}

static void each_lane(struct tt_verbs *v, uint32_t rail, void (*act)(struct tt_verbs_lane *))
{
    for (uint32_t i = 0; i < v->nactive; i++)
        for (uint32_t k = 0; k < v->active[i]->nlanes; k++)
            if (v->active[i]->lanes[k].rail == rail && v->active[i]->lanes[k].qp)
                act(&v->active[i]->lanes[k]);
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
    struct tt_done done[16];
    int n;

    do {
        n = v->tcp->ops->poll(v->tcp, done, 16);
        v->wire.unheard = v->tcp->unheard;       /* events of links */
        for (int i = 0; i < n; i++) {
            if (done[i].kind == TT_DONE_LINK_UP)
                verbs_link_begin(v, done[i].peer, &done[i].link);
            else if (done[i].kind == TT_DONE_LINK_LOST)
                verbs_tcp_lost(v, &done[i]);
        }
    } while (n == 16);
    rails_step(v);
    v->mending = v->waiting = false;
    for (uint32_t i = v->nactive; i-- > 0;)
        verbs_link_step(v->active[i]);
}

/* ---- close ---- */

/* Returns whether posted data has not arrived yet. */
static bool verbs_link_unfinished(const struct tt_verbs_link *link)
{
    for (uint32_t i = 0; i < TT_VERBS_STREAMS; i++)
        if (link->streams[i].sent != link->streams[i].tail ||
            link->streams[i].done != link->streams[i].tail)
            return true;
    return false;
}

void tt_verbs_links_linger(struct tt_verbs *v)
{
    const uint64_t until_ns = tt_now_ns() + LINGER_NS;
    struct tt_done done[16];
    bool more = true;

    while (more && tt_now_ns() < until_ns) {
        more = false;
        for (uint32_t i = 0; i < v->nactive; i++) {
            for (uint32_t k = 0; k < v->active[i]->nlanes; k++)
                if (v->active[i]->lanes[k].state == TT_VERBS_LANE_UP)
                    tt_verbs_lane_watch(&v->active[i]->lanes[k]);
            more |= v->active[i]->state == TT_VERBS_UP && verbs_link_unfinished(v->active[i]);
        }
        if (more)
            v->wire.ops->poll(&v->wire, done, 16);
    }
}

void tt_verbs_links_close(struct tt_verbs *v)
{
    struct tt_verbs_link *link;
    uint32_t at = 0;

    while (v->nactive > 0)      /* all links before any is freed: processing their completions
                                   links streams in a list */
        verbs_link_free_parts(v->active[--v->nactive]);
    while ((link = tt_sparse_next(&v->links, &at))) {
        if (link->mine)
            munmap(link->mine, mine_bytes(v));
        free(link);
    }
    tt_sparse_fini(&v->links);
    free(v->active);
    v->active = NULL;
}

/* ---- statistics ---- */

static uint64_t verbs_link_bytes(const struct tt_verbs_link *link)
{
    uint64_t bytes = sizeof *link + link->nlanes * sizeof *link->lanes;

    for (uint32_t i = 0; i < link->nlanes; i++)
        bytes += link->lanes[i].wr_depth * sizeof *link->lanes[i].wrs;
    for (uint32_t i = 0; i < TT_VERBS_STREAMS; i++) {
        const struct tt_verbs_stream *s = &link->streams[i];

        bytes += s->out ? TT_VERBS_DEPTH * sizeof *s->out : 0;
        bytes += s->segments ? TT_VERBS_WINDOW * sizeof *s->segments : 0;
    }
    bytes += link->mine ? mine_bytes(link->verbs) : 0;
    return bytes + (link->local ? LOCAL_BYTES : 0);
}

void tt_verbs_links_memory(const struct tt_verbs *v, tutti_memory *m)
{
    tutti_memory_part links = { .purpose = "verbs: links",
                                .shared = 1,
                                .peer_bytes = tt_sparse_bytes(&v->links) +
                                              v->active_depth * sizeof *v->active };
    const struct tt_verbs_link *link;
    uint32_t at = 0;

    while ((link = tt_sparse_next(&v->links, &at)))
        links.peer_bytes += verbs_link_bytes(link);
    for (uint32_t i = 0; i < v->nrails; i++)
        for (const struct tt_verbs_group *g = v->rail[i].groups; g; g = g->next)
            links.peer_bytes += sizeof *g;
    tt_memory_add(m, &links);
    v->tcp->ops->memory(v->tcp, m);
}
