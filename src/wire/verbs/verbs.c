/* The verbs transport: RDMA over InfiniBand and RoCE by libibverbs. Puts are RDMA writes from the
 * caller's memory to their destination; the receiver's poll raises their signals. See verbs.h. */
#include "wire/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "secure/secure.h"
#include "wire/tcp/tcp_frame.h"
#include "wire/wires.h"

#define TCP_LINK_BYTES 4096
_Static_assert(sizeof(struct tt_verbs_mailbox) <= TCP_LINK_BYTES, "the mailbox fits");

#define LOOK_NS (50 * TT_MS)
/* polls between polls of the inner tcp wire, which reports only ends and new incarnations */
#define LOOK_EVERY 1024

static void verbs_close(struct tt_wire *w)
{
    struct tt_verbs *v = tt_verbs_of(w);

    if (v->nactive > 0)
        tt_verbs_links_linger(v);
    if (v->tcp)
        v->tcp->ops->close(v->tcp);     /* sends BYE, so everything sent arrives */
    v->tcp = NULL;
    tt_verbs_links_close(v);
    tt_verbs_regions_close(v);
    if (v->epoll_fd >= 0)
        close(v->epoll_fd);
    if (v->timer_fd >= 0)
        close(v->timer_fd);
    for (uint32_t i = 0; i < v->nrails; i++)
        tt_verbs_rail_close(&v->rail[i]);
    free(v);
}

/* Opens the inner tcp wire, which listens at its own port. */
static tutti_status open_inner_tcp(struct tt_verbs *v)
{
    struct tt_wire_conf conf = v->conf;

    conf.link_bytes = TCP_LINK_BYTES;
    conf.lanes = 1;
    return tt_wire_tcp.open(&v->tcp, &conf);
}

static bool verbs_watch(struct tt_verbs *v, int fd)
{
    struct epoll_event ev = { .events = EPOLLIN };

    return epoll_ctl(v->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

/* Creates the epoll set of a sleeper; the tcp wire's descriptor is added when it is first armed. */
static tutti_status verbs_open_epoll(struct tt_verbs *v)
{
    bool good;

    v->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    v->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    good = v->epoll_fd >= 0 && v->timer_fd >= 0 && verbs_watch(v, v->timer_fd);
    for (uint32_t i = 0; i < v->nrails && good; i++)
        good =
            verbs_watch(v, v->rail[i].channel->fd) && verbs_watch(v, v->rail[i].context->async_fd);
    return good
               ? TUTTI_OK
               : tt_fail_call(errno, "verbs", v->epoll_fd < 0 ? "epoll_create1" : "timerfd_create");
}

static tutti_status verbs_open(struct tt_wire **out, const struct tt_wire_conf *conf)
{
    struct tt_verbs *v;
    tutti_status st;

    if (!tt_secure_is_plain(conf->secure))
        return tt_fail_again(TUTTI_ERR_UNSUPPORTED, "verbs: not usable with secured connections: "
                                                    "RDMA devices do not encrypt data");
    if (conf->outside && (conf->outside->family || conf->outside->port_first))
        return tt_fail_again(TUTTI_ERR_UNSUPPORTED,
                             "verbs: not usable with forwarded or "
                             "configured ports: RDMA devices cannot use them");
    if (conf->outside && conf->outside->near)
        return tt_fail_again(
            TUTTI_ERR_UNSUPPORTED,
            "verbs: not usable: without access control, connections are limited to this host "
            "(conf.insecure or TUTTI_SECURITY=plain allows unencrypted connections to other "
            "hosts)");
    v = calloc(1, sizeof *v);
    if (!v)
        return tt_fail(TUTTI_ERR_NOMEM, "verbs: out of memory for the transport");
    v->conf = *conf;
    v->limits = conf->lane_limits ? *conf->lane_limits : tt_lane_limits_default;
    v->wire.ops = &tt_wire_verbs;
    v->wire.caps = TT_WIRE_CAP_ORDERED | TT_WIRE_CAP_ANYMEM | TT_WIRE_CAP_PINS | TT_WIRE_CAP_DEVICE;
    v->epoll_fd = v->timer_fd = -1;
    v->news_end = &v->news;
    v->noted_end = &v->noted;
    st = tt_verbs_rails_open(v->rail, &v->nrails, conf->rdma_devices, conf->rdma_gid);
    if (!st)
        st = tt_verbs_regions_open(v);
    if (!st)
        st = open_inner_tcp(v);
    if (!st)
        st = verbs_open_epoll(v);
    if (st) {
        verbs_close(&v->wire);
        return st;
    }
    *out = &v->wire;
    return TUTTI_OK;
}

/* The address of the tcp wire, with as many endpoints as fit, best first, and the device's
 * network. */
static tutti_status verbs_address(struct tt_wire *w, struct tt_blob *out)
{
    const struct tt_verbs *v = tt_verbs_of(w);
    struct tt_verbs_address a = { .infiniband = v->rail[0].infiniband };
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
    if (v->rail[0].infiniband)
        a.subnet = v->rail[0].gid.global.subnet_prefix;
    tt_verbs_address_write(&a, out);
    return TUTTI_OK;
}

/* ---- progress ---- */

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

static struct tt_done verbs_link_done(struct tt_verbs_link *link, uint8_t kind)
{
    struct tt_done done = { .kind = kind, .peer = link->peer, .status = link->status };

    if (kind == TT_DONE_LINK_UP) {
        done.status = TUTTI_OK;
        done.link.mine = link->mine;
        done.link.theirs =
            (struct tt_rkey){ .wire = &link->verbs->wire,
                              .peer = link->peer,
                              .bytes = link->theirs.link_bytes,
                              .handle = { link->theirs.link_address, 0, 0,
                                          link->theirs.rkey[0] | (uint64_t)link->theirs.rkey[1]
                                                                     << 32 } };
        done.link.anymem = true;
        done.link.round_trip_ns = link->tcp.round_trip_ns;
    }
    return done;
}

/* Reports completed messages of a stream. Returns the number of entries; retires messages that need
 * no further report. */
static int stream_report(struct tt_verbs_stream *s, struct tt_done *done, int max)
{
    int n = 0;

    for (; s->reported < s->done; s->reported++) {
        const struct tt_verbs_out *m = tt_verbs_out_of(s, s->reported);

        if (m->report_local && n == max)
            return n;
        if (m->report_local)
            done[n++] = (struct tt_done){ .kind = TT_DONE_LOCAL,
                                          .peer = s->link->peer,
                                          .cookie = m->cookie };
        if (m->bounce_end)
            s->bounce_head = m->bounce_end;
    }
    for (; s->retired < s->acked; s->retired++) {
        const struct tt_verbs_out *m = tt_verbs_out_of(s, s->retired);

        if (m->report_remote && n == max)
            return n;
        if (m->report_remote)
            done[n++] = (struct tt_done){ .kind = TT_DONE_REMOTE,
                                          .peer = s->link->peer,
                                          .cookie = m->cookie };
    }
    return n;
}

/* Continues noted streams, and reports their completed messages. */
static int streams_report(struct tt_verbs *v, struct tt_done *done, int max)
{
    int n = 0;

    while (v->noted) {
        struct tt_verbs_stream *s = v->noted;

        if (s->link->state != TT_VERBS_LOST) {
            n += stream_report(s, done + n, max - n);
            tt_verbs_stream_pump(s);
            if (s->reported < s->done || s->retired < s->acked)
                break;      /* done[] is full */
        }
        v->noted = s->next_noted;
        if (!v->noted)
            v->noted_end = &v->noted;
        s->noted = false;
    }
    return n;
}

/* Reports LINK_UP and LINK_LOST. */
static int verbs_news_report(struct tt_verbs *v, struct tt_done *done, int max)
{
    int n = 0;

    while (n < max && v->news) {
        struct tt_verbs_link *link = v->news;

        if (link->report_up) {
            link->report_up = false;
            done[n++] = verbs_link_done(link, TT_DONE_LINK_UP);
        } else {
            link->report_lost = false;
            done[n++] = verbs_link_done(link, TT_DONE_LINK_LOST);
        }
        if (link->report_up || link->report_lost)
            continue;
        v->news = link->next_reported;
        if (!v->news)
            v->news_end = &v->news;
    }
    return n;
}

/* Consumes the events that woke the sleeper; the queues are polled anyway. */
static void disarm(struct tt_verbs *v)
{
    struct ibv_cq *cq;
    uint64_t times;
    void *context;

    for (uint32_t i = 0; i < v->nrails; i++)
        while (ibv_get_cq_event(v->rail[i].channel, &cq, &context) == 0)
            ibv_ack_cq_events(cq, 1);
    if (read(v->timer_fd, &times, sizeof times) < 0 && errno != EAGAIN)
        tt_log(TT_LOG_WARN, "verbs: cannot read the timer: %s", strerror(errno));
    v->armed = false;
}

static int verbs_poll(struct tt_wire *w, struct tt_done *done, int max)
{
    struct tt_verbs *v = tt_verbs_of(w);
    int n;

    tt_verbs_collect(v);
    if (v->armed || v->mending || v->nactive == 0 || ++v->tick % LOOK_EVERY == 0) {
        if (v->armed)
            disarm(v);
        tt_verbs_links_step(v);
    }
    if (v->any_broken)
        tt_verbs_links_break(v);
    n = streams_report(v, done, max);
    return n + verbs_news_report(v, done + n, max - n);
}

/* Sets a timer while lanes wait, so a sleeper checks them periodically. */
static bool timer_set(struct tt_verbs *v)
{
    const struct itimerspec soon = { .it_value.tv_nsec = v->waiting || v->mending ? LOOK_NS : 0 };

    return timerfd_settime(v->timer_fd, 0, &soon, NULL) == 0;
}

static int verbs_arm(struct tt_wire *w)
{
    struct tt_verbs *v = tt_verbs_of(w);
    int fd;

    v->armed = true;
    if (v->news || v->noted || v->any_broken || !timer_set(v))
        return -1;
    fd = v->tcp->ops->arm(v->tcp);
    w->unheard = v->tcp->unheard;
    if (fd < 0 || (!v->tcp_watched && !verbs_watch(v, fd)))
        return -1;
    v->tcp_watched = true;
    for (uint32_t i = 0; i < v->nrails; i++)
        for (struct tt_verbs_group *g = v->rail[i].groups; g; g = g->next)
            if (ibv_req_notify_cq(g->send_cq, 0) != 0 || ibv_req_notify_cq(g->recv_cq, 0) != 0)
                return -1;
    /* Completions before the request cause no event. */
    return tt_verbs_collect(v) > 0 ? -1 : v->epoll_fd;
}

/* Excludes memory of devices and their libraries. */
static void verbs_memory(const struct tt_wire *w, tutti_memory *m)
{
    const struct tt_verbs *v = (const struct tt_verbs *)w;
    tutti_memory_part own = { .purpose = "verbs: transport",
                              .shared = 1,
                              .fixed_bytes = sizeof *v + v->nregions * sizeof *v->regions };

    for (uint32_t i = 1; i < v->nregions; i++)
        own.fixed_bytes += v->regions[i] ? sizeof *v->regions[i] : 0;
    tt_memory_add(m, &own);
    tt_verbs_links_memory(v, m);
}

const struct tt_wire_ops tt_wire_verbs = {
    .name = "verbs",
    .summary = "RDMA devices: InfiniBand and RoCE",
    .by_name = true,        /* not yet used with a network card, and needs permission to lock
                               memory */
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
    .memory = verbs_memory,
};
