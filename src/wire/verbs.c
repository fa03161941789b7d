/* The verbs wire: RDMA devices, InfiniBand and RoCE, by libibverbs. Puts are RDMA writes from the caller's memory to where they shall be;
 * the receiver's poll raises their signals. verbs.h tells how. */
#include "wire/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/log.h"
#include "base/status.h"
#include "secure/secure.h"
#include "wire/tcp_frame.h"
#include "wire/wires.h"

#define TCP_LINK_BYTES 4096
#define LOOK_EVERY 64           /* polls, then the tcp wire is asked even so: it tells of ends and new incarnations only */

static void verbs_close(struct tt_wire *w)
{
    struct tt_verbs *v = tt_verbs_of(w);

    if (v->links)
        tt_verbs_links_linger(v);
    if (v->tcp)
        v->tcp->ops->close(v->tcp);     /* says goodbye: all that was sent is there */
    v->tcp = NULL;
    tt_verbs_links_close(v);
    tt_verbs_regions_close(v);
    tt_verbs_groups_close(v);
    if (v->epoll_fd >= 0)
        close(v->epoll_fd);
    if (v->channel)
        ibv_destroy_comp_channel(v->channel);
    if (v->pd)
        ibv_dealloc_pd(v->pd);
    tt_verbs_device_close(&v->device);
    free(v);
}

/* What cannot be here says so without an error: jobs go on over other wires. */
static tutti_status unsupported(const char *sentence)
{
    tt_log(TT_LOG_INFO, "%s", sentence);
    return tt_fail_again(TUTTI_ERR_UNSUPPORTED, sentence);
}

static tutti_status device_furnish(struct tt_verbs *v)
{
    const uint32_t by_receives = (uint32_t)v->device.attr.max_srq_wr / TT_VERBS_LINK_RECEIVES;
    const uint32_t by_completions = (uint32_t)v->device.attr.max_cqe / (TT_VERBS_LANES * TT_VERBS_WRS);
    int flags;

    v->group_links = TT_VERBS_GROUP_LINKS;
    if (v->group_links > by_receives)
        v->group_links = by_receives;
    if (v->group_links > by_completions)
        v->group_links = by_completions;
    v->pd = ibv_alloc_pd(v->device.context);
    v->channel = v->pd ? ibv_create_comp_channel(v->device.context) : NULL;
    if (!v->channel)
        return tt_fail_errno(errno, "verbs: begin to use %s", v->device.name);
    flags = fcntl(v->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(v->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return tt_fail_errno(errno, "verbs: begin to use %s", v->device.name);
    return TUTTI_OK;
}

/* The wire that greets peers. It listens at a port of its own. */
static tutti_status tcp_furnish(struct tt_verbs *v)
{
    struct tt_wire_conf conf = v->conf;
    struct epoll_event ev = { .events = EPOLLIN };
    tutti_status st;

    conf.link_bytes = TCP_LINK_BYTES;
    conf.lanes = 1;
    st = tt_wire_tcp.open(&v->tcp, &conf);
    if (st)
        return st;
    v->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (v->epoll_fd < 0 || epoll_ctl(v->epoll_fd, EPOLL_CTL_ADD, v->channel->fd, &ev) != 0)
        return tt_fail_errno(errno, "verbs: create an epoll");
    return TUTTI_OK;
}

static tutti_status verbs_open(struct tt_wire **out, const struct tt_wire_conf *conf)
{
    struct tt_verbs *v;
    tutti_status st;

    if (!tt_secure_is_plain(conf->secure))
        return unsupported("verbs: RDMA devices do not encrypt what they send, and connections are to be secured");
    if (conf->outside && (conf->outside->family || conf->outside->port_first))
        return unsupported("verbs: members that are reached at forwarded or chosen ports have no RDMA network in common");
    v = calloc(1, sizeof *v);
    if (!v)
        return tt_fail(TUTTI_ERR_NOMEM, "verbs: no memory");
    v->conf = *conf;
    v->limits = conf->lane_limits ? *conf->lane_limits : tt_lane_limits_default;
    v->wire.ops = &tt_wire_verbs;
    v->wire.caps = TT_WIRE_CAP_ORDERED | TT_WIRE_CAP_ANYMEM | TT_WIRE_CAP_PINS;
    v->epoll_fd = -1;
    v->news_end = &v->news;
    v->noted_end = &v->noted;
    st = tt_verbs_device_open(&v->device, conf->rdma_devices);
    if (!st)
        st = device_furnish(v);
    if (!st)
        st = tt_verbs_regions_open(v);
    if (!st && !(v->links = calloc(conf->nranks, sizeof *v->links)))
        st = tt_fail(TUTTI_ERR_NOMEM, "verbs: no memory for the tables of %u ranks", conf->nranks);
    if (!st)
        st = tcp_furnish(v);
    if (st) {
        verbs_close(&v->wire);
        return st;
    }
    *out = &v->wire;
    return TUTTI_OK;
}

/* That of the tcp wire, with as many of its endpoints as fit, the best first; and what network the device is in. */
static tutti_status verbs_address(struct tt_wire *w, struct tt_blob *out)
{
    const struct tt_verbs *v = tt_verbs_of(w);
    struct tt_verbs_address a = { .infiniband = v->device.infiniband };
    struct tt_tcp_address tcp;
    tutti_status st = v->tcp->ops->address(v->tcp, &a.tcp);

    if (st)
        return st;
    while (a.tcp.bytes > TT_BLOB_BYTES - TT_VERBS_ADDRESS_HEAD_BYTES) {
        tt_assert(tt_tcp_address_read(&tcp, &a.tcp) && tcp.count > 1);
        tcp.count--;
        if (tcp.rails > tcp.count)
            tcp.rails = tcp.count;
        tt_tcp_address_write(&tcp, &a.tcp);
    }
    if (v->device.infiniband)
        a.subnet = v->device.gid.global.subnet_prefix;
    tt_verbs_address_write(&a, out);
    return TUTTI_OK;
}

/* ---- progress ---- */

void tt_verbs_note(struct tt_verbs_lane *lane)
{
    struct tt_verbs *v = lane->link->verbs;

    if (lane->noted)
        return;
    lane->noted = true;
    lane->next_noted = NULL;
    *v->noted_end = lane;
    v->noted_end = &lane->next_noted;
}

static struct tt_done link_done(struct tt_verbs_link *link, uint8_t kind)
{
    struct tt_done done = { .kind = kind, .peer = link->peer, .status = link->status };

    if (kind == TT_DONE_LINK_UP) {
        done.status = TUTTI_OK;
        done.link.mine = link->mine;
        done.link.theirs = (struct tt_rkey){ .wire = &link->verbs->wire,
                                             .peer = link->peer,
                                             .bytes = link->theirs_bytes,
                                             .handle = { link->theirs_address, 0, 0, link->theirs_rkey } };
        done.link.anymem = true;
        done.link.round_trip_ns = link->tcp.round_trip_ns;
    }
    return done;
}

/* What is over of a lane's messages. Returns how many entries it made; retires what is of no interest any more. */
static int lane_report(struct tt_verbs_lane *lane, struct tt_done *done, int max)
{
    int n = 0;

    for (; lane->told < lane->done; lane->told++) {
        const struct tt_verbs_out *m = tt_verbs_out_of(lane, lane->told);

        if (m->report_local && n == max)
            return n;
        if (m->report_local)
            done[n++] = (struct tt_done){ .kind = TT_DONE_LOCAL, .peer = lane->link->peer, .cookie = m->cookie };
        if (m->bounce_end)
            lane->bounce_head = m->bounce_end;
    }
    for (; lane->retired < lane->acked; lane->retired++) {
        const struct tt_verbs_out *m = tt_verbs_out_of(lane, lane->retired);

        if (m->report_remote && n == max)
            return n;
        if (m->report_remote)
            done[n++] = (struct tt_done){ .kind = TT_DONE_REMOTE, .peer = lane->link->peer, .cookie = m->cookie };
    }
    return n;
}

/* Lanes with news: they go on, and what is over is reported. */
static int lanes_report(struct tt_verbs *v, struct tt_done *done, int max)
{
    int n = 0;

    while (v->noted) {
        struct tt_verbs_lane *lane = v->noted;

        if (lane->link->state != TT_VERBS_LOST) {
            n += lane_report(lane, done + n, max - n);
            tt_verbs_lane_pump(lane);
            if (lane->told < lane->done || lane->retired < lane->acked)
                break;      /* done[] is full */
        }
        v->noted = lane->next_noted;
        if (!v->noted)
            v->noted_end = &v->noted;
        lane->noted = false;
    }
    return n;
}

/* Ups and losses. */
static int news_report(struct tt_verbs *v, struct tt_done *done, int max)
{
    int n = 0;

    while (n < max && v->news) {
        struct tt_verbs_link *link = v->news;

        if (link->tell_up) {
            link->tell_up = false;
            done[n++] = link_done(link, TT_DONE_LINK_UP);
        } else {
            link->tell_lost = false;
            done[n++] = link_done(link, TT_DONE_LINK_LOST);
        }
        if (link->tell_up || link->tell_lost)
            continue;
        v->news = link->next_news;
        if (!v->news)
            v->news_end = &v->news;
    }
    return n;
}

/* What woke the sleeper is taken note of; the queues themselves are looked at in any case. */
static void disarm(struct tt_verbs *v)
{
    struct ibv_cq *cq;
    void *context;

    while (ibv_get_cq_event(v->channel, &cq, &context) == 0)
        ibv_ack_cq_events(cq, 1);
    v->armed = false;
}

static void break_links(struct tt_verbs *v)
{
    v->any_broken = false;
    for (uint32_t i = v->nactive; i-- > 0;)
        if (v->active[i]->broken)
            tt_verbs_link_break(v->active[i]);
}

static int verbs_poll(struct tt_wire *w, struct tt_done *done, int max)
{
    struct tt_verbs *v = tt_verbs_of(w);
    int n;

    tt_verbs_collect(v);
    if (v->armed || v->ngreeting || v->nactive == 0 || ++v->tick % LOOK_EVERY == 0) {
        if (v->armed)
            disarm(v);
        tt_verbs_links_step(v);
    }
    if (v->any_broken)
        break_links(v);
    n = lanes_report(v, done, max);
    return n + news_report(v, done + n, max - n);
}

static int verbs_arm(struct tt_wire *w)
{
    struct tt_verbs *v = tt_verbs_of(w);
    struct epoll_event ev = { .events = EPOLLIN };
    int fd;

    v->armed = true;
    if (v->news || v->noted || v->any_broken)
        return -1;
    fd = v->tcp->ops->arm(v->tcp);
    if (fd < 0)
        return -1;
    if (!v->tcp_watched && epoll_ctl(v->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0)
        return -1;
    v->tcp_watched = true;
    for (struct tt_verbs_group *g = v->groups; g; g = g->next)
        if (ibv_req_notify_cq(g->send_cq, 0) != 0 || ibv_req_notify_cq(g->recv_cq, 0) != 0)
            return -1;
    /* What came before the request gives no event. */
    return tt_verbs_collect(v) > 0 ? -1 : v->epoll_fd;
}

const struct tt_wire_ops tt_wire_verbs = {
    .name = "verbs",
    .summary = "RDMA devices: InfiniBand and RoCE",
    .by_name = true,        /* no network card has run it yet, and it needs the right to lock memory */
    .open = verbs_open,
    .close = verbs_close,
    .address = verbs_address,
    .connect = tt_verbs_connect,
    .reg = tt_verbs_reg,
    .source = tt_verbs_source,
    .dereg = tt_verbs_dereg,
    .import = tt_verbs_import,
    .post = tt_verbs_post,
    .poll = verbs_poll,
    .arm = verbs_arm,
};
