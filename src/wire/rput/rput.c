#include "wire/rput/rput.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/status.h"
#include "secure/secure.h"
#include "wire/tcp/tcp_frame.h"
#include "wire/wires.h"

#define LINGER_NS TT_SECOND
#define DONES 16

/* ---- open ---- */

tutti_status tt_rput_check(const char *name, const char *what, const struct tt_wire_conf *conf)
{
    char why[256];

    if (!tt_secure_is_plain(conf->secure))
        snprintf(why, sizeof why,
                 "%s: not usable with secured connections: data over %s is not encrypted", name,
                 what);
    else if (conf->outside && (conf->outside->family || conf->outside->port_first))
        snprintf(why, sizeof why,
                 "%s: not usable with forwarded or configured ports: %s cannot use them", name,
                 what);
    else if (conf->outside && conf->outside->near)
        snprintf(why, sizeof why,
                 "%s: not usable: without access control, connections are limited to this host "
                 "(conf.insecure or TUTTI_SECURITY=plain allows unencrypted connections to other "
                 "hosts)",
                 name);
    else
        return TUTTI_OK;
    return tt_fail_again(TUTTI_ERR_UNSUPPORTED, why);
}

void tt_rput_init(struct tt_rput *r, const struct tt_wire_ops *wire_ops,
                  const struct tt_rput_ops *ops, const struct tt_wire_conf *conf)
{
    r->conf = *conf;
    r->ops = ops;
    r->limits = conf->lane_limits ? *conf->lane_limits : tt_lane_limits_default;
    r->wire.ops = wire_ops;
    r->wire.caps = TT_WIRE_CAP_ORDERED | TT_WIRE_CAP_ANYMEM;
    r->regions.wire = &r->wire;
    r->epoll_fd = r->timer_fd = -1;
}

bool tt_rput_watch(struct tt_rput *r, int fd)
{
    struct epoll_event ev = { .events = EPOLLIN };

    return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

tutti_status tt_rput_open(struct tt_rput *r)
{
    struct tt_wire_conf conf = r->conf;

    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    r->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (r->epoll_fd < 0 || r->timer_fd < 0 || !tt_rput_watch(r, r->timer_fd))
        return tt_fail_call(errno, r->wire.ops->name,
                            r->epoll_fd < 0 ? "epoll_create1" : "timerfd_create");
    conf.link_bytes = TT_RPUT_MAILBOX_BYTES;
    conf.lanes = 1;
    return tt_wire_tcp.open(&r->tcp, &conf);
}

tutti_status tt_rput_address(const struct tt_rput *r, size_t bytes_max, struct tt_blob *out)
{
    const tutti_status st = r->tcp->ops->address(r->tcp, out);

    if (!st)
        tt_tcp_address_shorten(out, bytes_max);
    return st;
}

tutti_status tt_rput_connect(struct tt_rput *r, uint32_t peer, const struct tt_blob *tcp)
{
    return r->tcp->ops->connect(r->tcp, peer, tcp);
}

tutti_status tt_rput_wire_reg(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out)
{
    return tt_rput_reg(&tt_rput_of(w)->regions, mem, bytes, true, out);
}

tutti_status tt_rput_wire_source(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out)
{
    return tt_rput_reg(&tt_rput_of(w)->regions, mem, bytes, false, out);
}

/* ---- sleep ---- */

int tt_rput_arm(struct tt_rput *r)
{
    int fd;

    r->armed = true;
    if (r->news.first)
        return -1;
    fd = r->tcp->ops->arm(r->tcp);
    r->wire.unheard = r->tcp->unheard;
    if (fd < 0 || (!r->tcp_watched && !tt_rput_watch(r, fd)))
        return -1;
    r->tcp_watched = true;
    return r->epoll_fd;
}

/* ---- close ---- */

/* Waits until posted puts have arrived. */
static void links_linger(struct tt_rput *r)
{
    const uint64_t until_ns = tt_now_ns() + LINGER_NS;
    struct tt_done done[DONES];
    bool first = true, more = r->nactive > 0;

    while (more && tt_now_ns() < until_ns) {
        more = false;
        for (uint32_t i = 0; i < r->nactive; i++)
            more |= r->active[i]->was_up && r->ops->linger(r->active[i], first);
        first = false;
        if (more)
            r->wire.ops->poll(&r->wire, done, DONES);
    }
}

void tt_rput_close_tcp(struct tt_rput *r)
{
    links_linger(r);
    if (r->tcp)
        r->tcp->ops->close(r->tcp);     /* sends BYE, so everything sent arrives */
    r->tcp = NULL;
}

void tt_rput_close(struct tt_rput *r)
{
    tt_rput_regions_close(&r->regions);
    if (r->timer_fd >= 0)
        close(r->timer_fd);
    if (r->epoll_fd >= 0)
        close(r->epoll_fd);
}
