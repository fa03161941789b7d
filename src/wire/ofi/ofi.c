/* The ofi transport: networks by libfabric (EFA, Slingshot, Omni-Path, and TCP for tests). A put is
 * an RMA write from the caller's memory to its destination, then a message with its signal, which
 * the receiver's poll raises. See ofi.h. */
#include "wire/ofi/ofi.h"

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

/* polls between polls of the inner tcp wire, which reports only ends and new incarnations */
#define LOOK_EVERY 64
/* polling interval of a sleeper for completion queues that do not wake it */
#define NAP_NS TT_MS

static void ofi_close(struct tt_wire *w)
{
    struct tt_ofi *o = tt_ofi_of(w);

    if (o->nactive > 0)
        tt_ofi_links_linger(o);
    if (o->tcp)
        o->tcp->ops->close(o->tcp);     /* sends BYE, so everything sent arrives */
    o->tcp = NULL;
    pthread_mutex_lock(&o->lock);
    tt_ofi_links_close(o);
    pthread_mutex_unlock(&o->lock);
    tt_ofi_regions_close(o);
    tt_ofi_provider_close(&o->provider);
    if (o->timer_fd >= 0)
        close(o->timer_fd);
    if (o->epoll_fd >= 0)
        close(o->epoll_fd);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

static tutti_status ofi_furnish(struct tt_ofi *o)
{
    struct epoll_event ev = { .events = EPOLLIN };
    struct tt_wire_conf conf = o->conf;     /* configuration of the inner wire, which listens at its
                                               own port */

    o->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    o->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (o->epoll_fd < 0 || o->timer_fd < 0 ||
        epoll_ctl(o->epoll_fd, EPOLL_CTL_ADD, o->timer_fd, &ev) != 0)
        return tt_fail_call(errno, "ofi", o->epoll_fd < 0 ? "epoll_create1" : "timerfd_create");
    conf.link_bytes = TT_OFI_TCP_LINK_BYTES;
    conf.lanes = 1;
    return tt_wire_tcp.open(&o->tcp, &conf);
}

static tutti_status ofi_open(struct tt_wire **out, const struct tt_wire_conf *conf)
{
    const char *why = tt_ofi_library_why_not();
    struct tt_ofi *o;
    tutti_status st;

    if (!tt_secure_is_plain(conf->secure))
        why = "ofi: not usable with secured connections: libfabric does not encrypt data";
    else if (conf->outside && (conf->outside->family || conf->outside->port_first))
        why = "ofi: not usable with forwarded or configured ports: libfabric cannot use them";
    else if (conf->outside && conf->outside->near)
        why = "ofi: not usable: without access control, connections are limited to this host "
              "(conf.insecure or "
              "TUTTI_SECURITY=plain allows unencrypted connections to other hosts)";
    if (why)
        return tt_fail_again(TUTTI_ERR_UNSUPPORTED, why);
    o = calloc(1, sizeof *o);
    if (!o)
        return tt_fail(TUTTI_ERR_NOMEM, "ofi: out of memory for the transport");
    o->conf = *conf;
    o->limits = conf->lane_limits ? *conf->lane_limits : tt_lane_limits_default;
    o->wire.ops = &tt_wire_ofi;
    o->wire.caps = TT_WIRE_CAP_ORDERED | TT_WIRE_CAP_ANYMEM;
    pthread_mutex_init(&o->lock, NULL);
    o->epoll_fd = o->timer_fd = -1;
    o->news_end = &o->news;
    st = tt_ofi_provider_open(&o->provider, conf);
    o->nends = !o->provider.delivers           ? 1
               : conf->lanes < TT_OFI_ENDS_MAX ? conf->lanes
                                               : TT_OFI_ENDS_MAX;
    if (!st)
        st = tt_ofi_regions_open(o);
    if (!st)
        st = ofi_furnish(o);
    if (st) {
        ofi_close(&o->wire);
        return st;
    }
    o->wire.about = o->provider.about;
    *out = &o->wire;
    return TUTTI_OK;
}

/* As many of the tcp wire's endpoints as fit, best first, and the provider. */
static tutti_status ofi_address(struct tt_wire *w, struct tt_blob *out)
{
    const struct tt_ofi *o = tt_ofi_of(w);
    struct tt_ofi_address a;
    tutti_status st;

    tt_ofi_provider_address(&o->provider, &a);
    st = o->tcp->ops->address(o->tcp, &a.tcp);
    if (st)
        return st;
    tt_tcp_address_shorten(&a.tcp, tt_ofi_address_room(&a));
    tt_ofi_address_write(&a, out);
    return TUTTI_OK;
}

/* ---- progress ---- */

static struct tt_done ofi_link_done(const struct tt_ofi_link *link, uint8_t kind)
{
    struct tt_done done = { .kind = kind, .peer = link->peer, .status = link->status };

    if (kind == TT_DONE_LINK_UP) {
        done.status = TUTTI_OK;
        done.link = (struct tt_link){ .mine = link->mine,
                                      .anymem = true,
                                      .round_trip_ns = link->tcp.round_trip_ns };
        done.link.theirs = (struct tt_rkey){ .wire = &link->ofi->wire,
                                             .peer = link->peer,
                                             .bytes = link->theirs_bytes };
    }
    return done;
}

/* Reports completed descriptors; each poll starts with another link. */
static int completions_report(struct tt_ofi *o, struct tt_done *done, int max)
{
    int n = 0;

    o->turn++;
    for (uint32_t i = 0; i < o->nactive; i++) {
        struct tt_ofi_link *link = o->active[(o->turn + i) % o->nactive];

        for (uint32_t k = 0; k < TT_OFI_LANES; k++)
            n += tt_ofi_lane_report(&link->lanes[k], done + n, max - n);
    }
    return n;
}

/* Reports LINK_UP and LINK_LOST. */
static int ofi_news_report(struct tt_ofi *o, struct tt_done *done, int max)
{
    int n = 0;

    while (n < max && o->news) {
        struct tt_ofi_link *link = o->news;

        done[n++] = ofi_link_done(link, link->report_up ? TT_DONE_LINK_UP : TT_DONE_LINK_LOST);
        if (link->report_up && link->report_lost) {
            link->report_up = false;
            continue;
        }
        link->report_up = link->report_lost = false;
        o->news = link->next_reported;
        if (!o->news)
            o->news_end = &o->news;
    }
    return n;
}

static int ofi_poll(struct tt_wire *w, struct tt_done *done, int max)
{
    struct tt_ofi *o = tt_ofi_of(w);
    int n;

    pthread_mutex_lock(&o->lock);
    for (uint32_t i = 0; i < o->nactive; i++)
        tt_ofi_collect(o->active[i]);
    if (o->armed || o->ngreeting || o->nactive == 0 || ++o->tick % LOOK_EVERY == 0) {
        o->armed = false;
        tt_ofi_links_step(o);
    }
    for (uint32_t i = o->nactive; i-- > 0;)
        tt_ofi_link_progress(o->active[i]);
    pthread_mutex_unlock(&o->lock);
    n = completions_report(o, done, max);
    return n + ofi_news_report(o, done + n, max - n);
}

/* Returns whether the link needs polling while asleep: its completion queue does not wake; or an
 * operation is incomplete or was not accepted, which no queue reports; or nothing was received yet,
 * so the provider may still be connecting. */
static bool ofi_link_needs_polling(const struct tt_ofi_link *link)
{
    bool must = link->ofi->provider.unwoken || link->cq_fd < 0;

    for (uint32_t i = 0; i < TT_OFI_LANES; i++) {
        const struct tt_ofi_lane *lane = &link->lanes[i];

        must |= lane->stuck || lane->nunposted > 0 || lane->nfree_sends < TT_OFI_SENDS ||
                !lane->met || tt_ofi_ends_wait(lane);
    }
    return must;
}

/* Returns whether the link has work now. */
static bool ofi_link_has_work(struct tt_ofi_link *link)
{
    struct fid *fid = &link->cq->fid;
    bool came;

    for (uint32_t i = 0; i < TT_OFI_LANES; i++)
        if (link->lanes[i].reported < link->lanes[i].acked)
            return true;
    if (link->broken || link->cq_fd < 0)
        return link->broken;
    pthread_mutex_lock(&link->ofi->lock);
    came = fi_trywait(link->ofi->provider.fabric, &fid, 1) != 0;
    pthread_mutex_unlock(&link->ofi->lock);
    return came;
}

static int ofi_arm(struct tt_wire *w)
{
    struct tt_ofi *o = tt_ofi_of(w);
    struct itimerspec nap = { 0 };
    struct epoll_event ev = { .events = EPOLLIN };
    int fd;

    o->armed = true;
    if (o->news)
        return -1;
    fd = o->tcp->ops->arm(o->tcp);
    w->unheard = o->tcp->unheard;
    if (fd < 0 || (!o->tcp_watched && epoll_ctl(o->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0))
        return -1;
    o->tcp_watched = true;
    for (uint32_t i = 0; i < o->nactive; i++) {
        if (ofi_link_has_work(o->active[i]))
            return -1;
        if (ofi_link_needs_polling(o->active[i]))
            nap.it_value.tv_nsec = (long)NAP_NS;
    }
    timerfd_settime(o->timer_fd, 0, &nap, NULL);    /* zero disarms it; in both cases it is not
                                                       readable now */
    return o->epoll_fd;
}

/* Excludes libfabric's memory. */
static void ofi_memory(const struct tt_wire *w, tutti_memory *m)
{
    const struct tt_ofi *o = (const struct tt_ofi *)w;
    tutti_memory_part own = { .purpose = "ofi: transport",
                              .shared = 1,
                              .fixed_bytes = sizeof *o + o->nregions * sizeof *o->regions };

    for (uint32_t i = 1; i < o->nregions; i++)
        own.fixed_bytes += o->regions[i] ? sizeof *o->regions[i] : 0;
    tt_memory_add(m, &own);
    tt_ofi_links_memory(o, m);
}

const struct tt_wire_ops tt_wire_ofi = {
    .name = "ofi",
    .summary = "networks by libfabric: EFA, Slingshot, Omni-Path",
    .by_name = true,        /* not yet used with a network card */
    .open = ofi_open,
    .close = ofi_close,
    .address = ofi_address,
    .connect = tt_ofi_connect,
    .reg = tt_ofi_reg,
    .source = tt_ofi_source,
    .dereg = tt_ofi_dereg,
    .import = tt_ofi_import,
    .post = tt_ofi_post,
    .poll = ofi_poll,
    .arm = ofi_arm,
    .memory = ofi_memory,
};
