/* The tcp transport: one or more TCP connections per pair of processes; one epoll for all sockets
 * of a process. The polling CPU transfers the data: poll applies arrivals to memory and raises
 * signals. */
#include "wire/tcp/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/param.h"
#include "base/prng.h"
#include "base/status.h"
#include "wire/wires.h"

#define POLLS_WATCHED 64    /* polls in a row without arm, after which epoll is skipped */
#define LOOK_EVERY 32       /* polls between checks of epoll in that state */
#define EVENTS_MAX 64
/* longer than any round trip within a site, or scheduling delay of a busy host */
#define FAR_NS (5 * TT_MS)

/* ---- memory ---- */

static void region_withdraw(struct tt_rput_region *r)
{
    struct tt_tcp *t = tt_tcp_of(r->table->wire);

    tt_tcp_targets_gone(t, r);
    tt_tcp_sources_gone(t, r->public.mem, r->public.bytes);
}

static tutti_status tcp_reg(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out)
{
    return tt_rput_reg(&tt_tcp_of(w)->regions, mem, bytes, true, out);
}

static tutti_status tcp_import(struct tt_wire *w, uint32_t peer, const struct tt_blob *key,
                               struct tt_rkey *out)
{
    return tt_rput_import(&tt_tcp_of(w)->regions, peer, key, out);
}

/* ---- open and close ---- */

static void tcp_close(struct tt_wire *w)
{
    struct tt_tcp *t = tt_tcp_of(w);

    tt_tcp_handshakes_close(t);
    tt_tcp_links_close(t);
    tt_rput_regions_close(&t->regions);
    tt_acceptor_fini(&t->acceptor);
    if (t->timer_fd >= 0)
        close(t->timer_fd);
    if (t->epoll_fd >= 0)
        close(t->epoll_fd);
    free(t->active);
    free(t->dones);
    free(t->trash);
    free(t);
}

static tutti_status tcp_alloc(struct tt_tcp *t)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &t->timer };

    t->dones = malloc(TT_TCP_DONES * sizeof *t->dones);
    t->ndones = TT_TCP_DONES;
    t->trash = malloc(TT_TCP_TRASH_BYTES);
    if (!t->dones || !t->trash)
        return tt_fail(TUTTI_ERR_NOMEM, "tcp: out of memory for the tables of %u ranks",
                       t->conf.nranks);
    t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    t->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (t->epoll_fd < 0 || t->timer_fd < 0 ||
        epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, t->timer_fd, &ev) != 0)
        return tt_fail_call(errno, "tcp", t->epoll_fd < 0 ? "epoll_create1" : "timerfd_create");
    return TUTTI_OK;
}

static void log_addresses(const struct tt_tcp *t)
{
    for (size_t i = 0; i < t->nifaddrs && tt_log_on(TT_LOG_INFO); i++) {
        char text[INET6_ADDRSTRLEN] = "?";

        inet_ntop(t->ifaddrs[i].family, t->ifaddrs[i].ip, text, sizeof text);
        tt_log(TT_LOG_INFO, "tcp: address for peers: %s (%s)", text, t->ifaddrs[i].name);
    }
}

static tutti_status no_interface(const char *rule)
{
    char sentence[512];

    if (rule && *rule)
        snprintf(
            sentence, sizeof sentence,
            "tcp: no active interface matches \"%s\" (set TUTTI_INTERFACES or conf.interfaces)",
            rule);
    else
        snprintf(sentence, sizeof sentence, "tcp: no interface is active");
    return tt_fail_again(TUTTI_ERR_UNSUPPORTED, sentence);
}

/* Lists the addresses at which peers may connect. */
static tutti_status list_addresses(struct tt_tcp *t)
{
    static const uint8_t loopback[4] = { 127, 0, 0, 1 };
    const char *rule = t->outside.near ? NULL : t->conf.interfaces;
    const tutti_status st =
        tt_ifaddr_list(rule, t->ifaddrs, sizeof t->ifaddrs / sizeof *t->ifaddrs, &t->nifaddrs);
    size_t n = 0;

    if (st)
        return st;
    for (size_t i = 0; i < t->nifaddrs; i++)
        if (!t->outside.near || (t->ifaddrs[i].family == AF_INET &&
                                 memcmp(t->ifaddrs[i].ip, loopback, sizeof loopback) == 0))
            t->ifaddrs[n++] = t->ifaddrs[i];
    t->nifaddrs = n;
    return n > 0 ? TUTTI_OK : no_interface(rule);
}

static tutti_status tcp_open(struct tt_wire **out, const struct tt_wire_conf *conf)
{
    struct tt_tcp *t;
    int64_t far_lanes;
    tutti_status st = tt_param_get(TT_PARAM_FAR_LANES, &far_lanes);

    if (st)
        return st;
    t = calloc(1, sizeof *t);
    if (!t)
        return tt_fail(TUTTI_ERR_NOMEM, "tcp: out of memory for the transport");
    t->conf = *conf;
    if (tt_secure_is_plain(conf->secure))
        t->conf.secure = NULL;
    t->lanes_free = t->conf.lanes == 0;
    if (t->lanes_free)
        t->conf.lanes = 1;      /* raised once the layout is known */
    t->far_ns = FAR_NS;
    t->far_lanes = (uint32_t)far_lanes;
    if (t->conf.lanes > TT_TCP_LANES_MAX)
        t->conf.lanes = TT_TCP_LANES_MAX;
    if (conf->outside)
        t->outside = *conf->outside;
    if (t->outside.near)
        t->conf.rails = NULL;
    t->limits = conf->lane_limits ? *conf->lane_limits : tt_lane_limits_default;
    t->rail = TT_TCP_NO_RAIL;
    t->wire.ops = &tt_wire_tcp;
    t->wire.caps = TT_WIRE_CAP_GET | TT_WIRE_CAP_ATOMIC | TT_WIRE_CAP_ANYMEM |
                   (t->conf.lanes == 1 ? TT_WIRE_CAP_ORDERED : 0);
    t->regions = (struct tt_rput_regions){ .wire = &t->wire,
                                           .region_bytes = sizeof(struct tt_rput_region),
                                           .key_magic = TT_TCP_KEY_MAGIC,
                                           .withdraw = region_withdraw };
    t->listener = TT_TCP_LISTENER;
    t->timer = TT_TCP_TIMER;
    t->acceptor.listener = t->timer_fd = t->epoll_fd = -1;
    t->host = tt_host_hash();
    t->link_lost = tt_tcp_handshakes_end;
    t->lane_lost = tt_tcp_lane_retry;

    st = list_addresses(t);
    if (st == TUTTI_OK)
        st = tcp_alloc(t);
    if (st == TUTTI_OK)
        st = tt_tcp_listen(t);
    if (st != TUTTI_OK) {
        tcp_close(&t->wire);
        return st;
    }
    log_addresses(t);
    *out = &t->wire;
    return TUTTI_OK;
}

/* Adds the external address that forwards our port, if any. */
static void add_outside(const struct tt_tcp *t, struct tt_tcp_address *a)
{
    const uint8_t before = a->count;

    if (!t->outside.family)
        return;
    tt_tcp_address_add(a, t->outside.family, t->outside.ip);
    if (a->count > before)
        a->outside = a->count;
}

/* Order: our rails, the external address, then the best of the other allowed addresses that the
 * listener serves, first a loopback one. */
static tutti_status tcp_address(struct tt_wire *w, struct tt_blob *out)
{
    const struct tt_tcp *t = tt_tcp_of(w);
    struct tt_tcp_address a = { .host = t->host, .port = t->port };
    bool loopback = false;

    tt_tcp_rails_address(t, &a);
    add_outside(t, &a);
    for (size_t i = 0; i < t->nifaddrs; i++) {
        const struct tt_ifaddr *from = &t->ifaddrs[i];

        if ((from->family == AF_INET6 && t->listen_family != AF_INET6) ||
            (from->loopback && loopback))
            continue;
        loopback |= from->loopback;
        tt_tcp_address_add(&a, from->family == AF_INET ? 4 : 6, from->ip);
    }
    tt_tcp_address_write(&a, out);
    return TUTTI_OK;
}

/* ---- progress ---- */

static void lane_event(struct tt_tcp_lane *lane, uint32_t events)
{
    if (lane->fd >= 0 && events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        tt_tcp_lane_write(lane);
    if (lane->fd >= 0 && events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        tt_tcp_lane_receive(lane);
}

/* Handles all events of epoll. */
static void tcp_poll_epoll(struct tt_tcp *t)
{
    struct epoll_event events[EVENTS_MAX];
    const int n = epoll_wait(t->epoll_fd, events, EVENTS_MAX, 0);
    uint64_t expirations;

    for (int i = 0; i < n; i++) {
        void *what = events[i].data.ptr;

        switch (*(enum tt_tcp_watched *)what) {
        case TT_TCP_LISTENER:
            tt_tcp_accept(t);
            break;
        case TT_TCP_TIMER:
            if (read(t->timer_fd, &expirations, sizeof expirations) < 0)
                break;  /* a deadline: handled below */
            break;
        case TT_TCP_HANDSHAKE:
            tt_tcp_handshake_step(what);
            break;
        case TT_TCP_LANE:
            lane_event(what, events[i].events);
            break;
        }
    }
    if (t->greetings)
        tt_tcp_handshakes_expire(t, tt_now_ns());
    if (t->nactive)
        tt_tcp_links_expire(t, tt_now_ns());
}

/* With few lanes, reads each without epoll. */
static void receive_few(struct tt_tcp *t)
{
    struct tt_tcp_lane *lanes[TT_TCP_FEW_LANES];
    const uint32_t n = t->nactive;

    for (uint32_t i = 0; i < n; i++)    /* losing a link changes the list */
        lanes[i] = t->active[i];
    for (uint32_t i = 0; i < n; i++)
        if (lanes[i]->fd >= 0)
            tt_tcp_lane_receive(lanes[i]);
}

/* Reads lanes whose stream may hold received data. */
static void receive_secure(struct tt_tcp *t)
{
    for (uint32_t i = t->nactive; i-- > 0;)
        if (i < t->nactive && t->active[i]->more)   /* losing a link changes the list */
            tt_tcp_lane_receive(t->active[i]);
}

/* Stops watching lanes by epoll if no thread has slept for a while. On loopback, the wake-up for
 * each packet takes a tenth of the time of a short exchange, on the sender's CPU. */
static void stop_watching_idle_epoll(struct tt_tcp *t)
{
    if (!t->wire.unheard && !t->wire.crowded && ++t->polls == POLLS_WATCHED)
        tt_tcp_lanes_watch(t, false);
}

/* Reports completions first: no completion of a link may follow its loss. */
static int tcp_report(struct tt_tcp *t, struct tt_done *done, int max)
{
    int n = 0;

    for (; n < max && t->done_head != t->done_tail; n++) {
        const struct tt_tcp_done *d = &t->dones[t->done_head++ & (t->ndones - 1)];

        t->reserved--;
        done[n] = (struct tt_done){
            .kind = d->kind, .peer = d->peer, .cookie = d->cookie, .status = d->status
        };
    }
    return n + tt_rput_news_report(&t->news, done + n, max - n);
}

static int tcp_poll(struct tt_wire *w, struct tt_done *done, int max)
{
    struct tt_tcp *t = tt_tcp_of(w);
    /* then lanes are read by epoll, whose cost does not depend on their number */
    const bool watched = t->wire.crowded && !t->wire.unheard;
    const bool few = t->nactive <= (watched ? 1u : TT_TCP_FEW_LANES);

    t->npolls++;
    if (t->lost)
        tt_tcp_links_strip(t);
    if (!t->settled)
        tt_tcp_settle(t);
    if (few) {
        receive_few(t);
        stop_watching_idle_epoll(t);
    } else if (t->nmore)
        receive_secure(t);
    if (!few || t->nblocked || t->nopening || t->armed || t->nactive == 0 ||
        ++t->tick % LOOK_EVERY == 0) {
        t->armed = false;
        tcp_poll_epoll(t);
    }
    if (t->nfar_blocked)
        tt_tcp_pacing_try(t, tt_now_ns());
    if (t->lanes_wanted)
        tt_tcp_request_lanes(t);
    if (t->dirty)
        tt_tcp_flush(t, false);
    return tcp_report(t, done, max);
}

/* Returns the next time at which poll has work without an event. */
static uint64_t tcp_deadline(const struct tt_tcp *t)
{
    const uint64_t greetings_ns = t->greetings ? tt_tcp_handshakes_deadline(t) : TT_NEVER;
    const uint64_t far_ns = t->nfar_blocked ? tt_tcp_pacing_deadline(t) : TT_NEVER;

    return greetings_ns < far_ns ? greetings_ns : far_ns;
}

/* Empties the sockets of peeked data, which would otherwise wake a sleeper at once. */
static void take_peeked(struct tt_tcp *t)
{
    for (uint32_t i = t->nactive; i-- > 0;) {
        /* losing a link changes the list */
        struct tt_tcp_lane *lane = i < t->nactive ? t->active[i] : NULL;

        if (lane && !tt_tcp_peeked_take(lane))
            tt_tcp_link_lose(lane->link, TUTTI_ERR_PEER_LOST, strerror(errno));
    }
}

static int tcp_arm(struct tt_wire *w)
{
    struct tt_tcp *t = tt_tcp_of(w);
    struct itimerspec when = { 0 };
    uint64_t deadline_ns;

    take_peeked(t);
    tt_tcp_lanes_watch(t, true);
    if (t->done_head != t->done_tail || t->news.first || t->nmore || t->dirty || t->lanes_wanted)
        return -1;
    t->armed = true;
    deadline_ns = tcp_deadline(t);
    if (deadline_ns != TT_NEVER) {
        when.it_value.tv_sec = (time_t)(deadline_ns / TT_SECOND);
        when.it_value.tv_nsec = (long)(deadline_ns % TT_SECOND);
        timerfd_settime(t->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    }
    return t->epoll_fd;
}

const struct tt_wire_ops tt_wire_tcp = {
    .name = "tcp",
    .summary = "TCP connections, one or more per peer",
    .open = tcp_open,
    .close = tcp_close,
    .address = tcp_address,
    .connect = tt_tcp_connect,
    .reg = tcp_reg,
    .dereg = tt_rput_dereg,
    .import = tcp_import,
    .post = tt_tcp_post,
    .poll = tcp_poll,
    .arm = tcp_arm,
    .memory = tt_tcp_memory,
    .lanes = tt_tcp_lanes,
};
