/* The verbs transport: RDMA over InfiniBand and RoCE by libibverbs. Puts are RDMA writes from the
 * caller's memory to their destination; the receiver's poll raises their signals. See verbs.h. */
#include "wire/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "wire/wires.h"

#define LOOK_NS (50 * TT_MS)
/* polls between polls of the inner tcp wire, which reports only ended processes and new
 * incarnations */
#define LOOK_EVERY 1024

/* ---- memory ---- */

/* Regions that share r's registration get another registration of their memory, or none if that
 * fails. */
static void region_unshare(struct tt_verbs *v, const struct tt_rput_region *r)
{
    struct tt_rput_region *other;
    uint32_t at = 0;

    tt_registry_revoke(r->pin);
    v->base.regions.last_source = NULL;
    while ((other = tt_rput_region_next(&v->base.regions, &at))) {
        struct tt_reg *shared = r->pin;

        if (other->pin != shared)
            continue;
        if (tt_rput_region_pin(other))
            tt_log(TT_LOG_WARN, "verbs: cannot register the source of a transfer again: links that "
                                "still send from this memory will fail");
        tt_registry_put(v->base.regions.domain, shared, false);
    }
}

/* Queue pairs that read the region are stopped first. If peers may still write to it, its
 * registration ends: writes in flight then fail and break their queue pairs, and the senders make
 * these messages void. */
static void verbs_region_withdraw(struct tt_rput_region *r)
{
    struct tt_verbs *v = tt_verbs_of(r->public.wire);
    const struct tt_verbs_mrs *mrs = r->handle;

    if (r->pin && r->exposed && !r->public.settled)
        region_unshare(v, r);
    for (uint32_t i = mrs ? v->base.nactive : 0; i-- > 0;)
        for (uint32_t k = 0; k < TT_RPUT_STREAMS; k++)
            tt_verbs_source_gone(&tt_verbs_link_at(v, i)->streams[k], mrs->rail[0]->lkey);
    if (v->any_broken)
        tt_verbs_links_break(v);
}

/* ---- open and close ---- */

static void verbs_close(struct tt_wire *w)
{
    struct tt_verbs *v = tt_verbs_of(w);

    tt_rput_close_tcp(&v->base);
    tt_rput_links_free(&v->base);
    tt_rput_close(&v->base);
    for (uint32_t i = 0; i < v->nrails; i++)
        tt_verbs_rail_close(&v->rail[i]);
    free(v);
}

static tutti_status rails_watch(struct tt_verbs *v)
{
    for (uint32_t i = 0; i < v->nrails; i++)
        if (!tt_rput_watch(&v->base, v->rail[i].channel->fd) ||
            !tt_rput_watch(&v->base, v->rail[i].context->async_fd))
            return tt_fail_call(errno, "verbs", "epoll_ctl");
    return TUTTI_OK;
}

static tutti_status verbs_open(struct tt_wire **out, const struct tt_wire_conf *conf)
{
    struct tt_verbs *v;
    tutti_status st = tt_rput_check("verbs", "RDMA devices", conf);

    if (st)
        return st;
    v = calloc(1, sizeof *v);
    if (!v)
        return tt_fail(TUTTI_ERR_NOMEM, "verbs: out of memory for the transport");
    tt_rput_init(&v->base, &tt_wire_verbs, &tt_verbs_link_ops, conf);
    v->base.wire.caps |= TT_WIRE_CAP_PINS | TT_WIRE_CAP_DEVICE;
    v->base.mine_bytes = tt_verbs_mine_bytes(v);
    v->base.local_bytes = tt_verbs_local_bytes();
    v->noted_end = &v->noted;
    v->base.regions.withdraw = verbs_region_withdraw;
    st = tt_verbs_rails_open(v->rail, &v->nrails, conf->rdma_devices, conf->rdma_gid);
    if (!st)
        st = tt_verbs_regions_open(v);
    if (!st)
        st = tt_rput_open(&v->base);
    if (!st)
        st = rails_watch(v);
    if (st) {
        verbs_close(&v->base.wire);
        return st;
    }
    *out = &v->base.wire;
    return TUTTI_OK;
}

/* The address of the tcp wire and the device's network. */
static tutti_status verbs_address(struct tt_wire *w, struct tt_blob *out)
{
    const struct tt_verbs *v = tt_verbs_of(w);
    struct tt_verbs_address a = { .infiniband = v->rail[0].infiniband };
    const tutti_status st =
        tt_rput_address(&v->base, TT_BLOB_BYTES - TT_VERBS_ADDRESS_HEAD_BYTES, &a.tcp);

    if (st)
        return st;
    if (v->rail[0].infiniband)
        a.subnet = v->rail[0].gid.global.subnet_prefix;
    tt_verbs_address_write(&a, out);
    return TUTTI_OK;
}

/* ---- progress ---- */

/* Reports completed messages of a stream. Returns the number of entries. */
static int stream_report(struct tt_verbs_stream *s, struct tt_done *done, int max)
{
    const uint64_t before = s->q.reported;
    const int n = tt_rput_queue_report(&s->q, done, max);

    for (uint64_t i = before; i < s->q.reported; i++)
        if (tt_verbs_out_of(s, i)->bounce_end)
            s->bounce_head = tt_verbs_out_of(s, i)->bounce_end;
    return n;
}

/* Continues noted streams, and reports their completed messages. */
static int streams_report(struct tt_verbs *v, struct tt_done *done, int max)
{
    int n = 0;

    while (v->noted) {
        struct tt_verbs_stream *s = v->noted;

        if (s->link->base.state != TT_RPUT_LOST) {
            n += stream_report(s, done + n, max - n);
            tt_verbs_stream_pump(s);
            if (tt_rput_queue_has_reports(&s->q))
                break;      /* done[] is full */
        }
        v->noted = s->next_noted;
        if (!v->noted)
            v->noted_end = &v->noted;
        s->noted = false;
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
    if (read(v->base.timer_fd, &times, sizeof times) < 0 && errno != EAGAIN)
        tt_log(TT_LOG_WARN, "verbs: cannot read the timer: %s", strerror(errno));
    v->base.armed = false;
}

static int verbs_poll(struct tt_wire *w, struct tt_done *done, int max)
{
    struct tt_verbs *v = tt_verbs_of(w);
    int n;

    tt_verbs_collect(v);
    if (v->base.armed || v->base.mending || v->base.nactive == 0 ||
        ++v->base.tick % LOOK_EVERY == 0) {
        if (v->base.armed)
            disarm(v);
        tt_verbs_links_step(v);
    }
    if (v->any_broken)
        tt_verbs_links_break(v);
    n = streams_report(v, done, max);
    return n + tt_rput_news_report(&v->base.news, done + n, max - n);
}

/* Sets a timer while lanes wait, so a sleeper checks them periodically. */
static bool timer_set(struct tt_verbs *v)
{
    const struct itimerspec soon = { .it_value.tv_nsec =
                                         v->waiting || v->base.mending ? LOOK_NS : 0 };

    return timerfd_settime(v->base.timer_fd, 0, &soon, NULL) == 0;
}

static int verbs_arm(struct tt_wire *w)
{
    struct tt_verbs *v = tt_verbs_of(w);

    if (v->noted || v->any_broken || !timer_set(v) || tt_rput_arm(&v->base) < 0)
        return -1;
    for (uint32_t i = 0; i < v->nrails; i++)
        for (struct tt_verbs_group *g = v->rail[i].groups; g; g = g->next)
            if (ibv_req_notify_cq(g->send_cq, 0) != 0 || ibv_req_notify_cq(g->recv_cq, 0) != 0)
                return -1;
    /* Completions before the request cause no event. */
    return tt_verbs_collect(v) > 0 ? -1 : v->base.epoll_fd;
}

/* Excludes memory of devices and their libraries. */
static void verbs_memory(const struct tt_wire *w, tutti_memory *m)
{
    const struct tt_verbs *v = (const struct tt_verbs *)w;
    tutti_memory_part own = { .purpose = "verbs: transport",
                              .shared = 1,
                              .fixed_bytes = sizeof *v + tt_rput_regions_bytes(&v->base.regions) };

    for (uint32_t i = 0; i < v->nrails; i++)
        for (const struct tt_verbs_group *g = v->rail[i].groups; g; g = g->next)
            own.peer_bytes += sizeof *g;
    tt_memory_add(m, &own);
    tt_rput_links_memory(&v->base, m);
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
    .reg = tt_rput_wire_reg,
    .source = tt_rput_wire_source,
    .dereg = tt_rput_dereg,
    .import = tt_verbs_import,
    .post = tt_verbs_post,
    .poll = verbs_poll,
    .arm = verbs_arm,
    .memory = verbs_memory,
    .lanes = tt_rput_lanes,
};
