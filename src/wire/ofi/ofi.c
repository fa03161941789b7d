/* The ofi transport: networks by libfabric (EFA, Slingshot, Omni-Path, and TCP for tests). A put is
 * an RMA write from the caller's memory to its destination, then a message with its signal, which
 * the receiver's poll raises. See ofi.h. */
#include "wire/ofi/ofi.h"

#include <stdlib.h>
#include <sys/timerfd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "wire/wires.h"

/* polls between polls of the inner tcp wire, which reports only ended processes and new
 * incarnations */
#define LOOK_EVERY 64
/* polling interval of a sleeper for completion queues that do not wake it */
#define NAP_NS TT_MS

/* ---- memory ---- */

/* Closes the endpoints that read the region's memory, or whose peers may write it. */
static void endpoints_withdraw(struct tt_ofi *o, struct tt_ofi_region *r)
{
    for (uint32_t i = o->base.nactive; i-- > 0;) {
        bool touched = false;

        for (uint32_t k = 0; k < TT_RPUT_STREAMS; k++) {
            touched |= tt_ofi_source_gone(&tt_ofi_link_at(o, i)->lanes[k], &r->base);
            touched |= tt_ofi_target_is_open(&tt_ofi_link_at(o, i)->lanes[k], &r->base);
        }
        if (!touched)
            continue;
        for (uint32_t k = 0; k < TT_RPUT_STREAMS; k++)     /* an endpoint with registrations cannot
                                                           be closed, and the region is not in
                                                           the table any more */
            tt_ofi_grant_end(r, &tt_ofi_link_at(o, i)->lanes[k]);
        tt_ofi_link_break(tt_ofi_link_at(o, i));
    }
    while (r->grants)
        tt_ofi_grant_end(r, r->grants->lane);
}

/* The registration may remain, even if peers have the key. Peers write only after a CTS, and
 * endpoints with such a CTS are closed. */
static void ofi_region_withdraw(struct tt_rput_region *r)
{
    struct tt_ofi *o = tt_ofi_of(r->public.wire);

    pthread_mutex_lock(&o->lock);
    endpoints_withdraw(o, (struct tt_ofi_region *)r);
    pthread_mutex_unlock(&o->lock);
}

/* ---- open and close ---- */

static void ofi_close(struct tt_wire *w)
{
    struct tt_ofi *o = tt_ofi_of(w);

    tt_rput_close_tcp(&o->base);
    pthread_mutex_lock(&o->lock);
    tt_rput_links_free(&o->base);
    pthread_mutex_unlock(&o->lock);
    tt_rput_close(&o->base);
    tt_ofi_provider_close(&o->provider);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

static tutti_status ofi_open(struct tt_wire **out, const struct tt_wire_conf *conf)
{
    const char *why = tt_ofi_library_why_not();
    tutti_status st = tt_rput_check("ofi", "libfabric", conf);
    struct tt_ofi *o;

    if (st)
        return st;
    if (why)
        return tt_fail_again(TUTTI_ERR_UNSUPPORTED, why);
    o = calloc(1, sizeof *o);
    if (!o)
        return tt_fail(TUTTI_ERR_NOMEM, "ofi: out of memory for the transport");
    tt_rput_init(&o->base, &tt_wire_ofi, &tt_ofi_link_ops, conf);
    pthread_mutex_init(&o->lock, NULL);
    st = tt_ofi_provider_open(&o->provider, conf);
    o->nends = !o->provider.delivers           ? 1
               : conf->lanes < TT_OFI_ENDS_MAX ? conf->lanes
                                               : TT_OFI_ENDS_MAX;
    o->base.mine_bytes = conf->link_bytes;
    o->base.regions.withdraw = ofi_region_withdraw;
    o->base.local_bytes = tt_ofi_local_bytes(o);
    if (!st)
        st = tt_ofi_regions_open(o);
    if (!st)
        st = tt_rput_open(&o->base);
    if (st) {
        ofi_close(&o->base.wire);
        return st;
    }
    o->base.wire.about = o->provider.about;
    *out = &o->base.wire;
    return TUTTI_OK;
}

/* The address of the tcp wire and the provider. */
static tutti_status ofi_address(struct tt_wire *w, struct tt_blob *out)
{
    const struct tt_ofi *o = tt_ofi_of(w);
    struct tt_ofi_address a;
    tutti_status st;

    tt_ofi_provider_address(&o->provider, &a);
    st = tt_rput_address(&o->base, tt_ofi_address_room(&a), &a.tcp);
    if (!st)
        tt_ofi_address_write(&a, out);
    return st;
}

/* ---- progress ---- */

/* Reports completed descriptors; each poll starts with another link. */
static int completions_report(struct tt_ofi *o, struct tt_done *done, int max)
{
    int n = 0;

    o->turn++;
    for (uint32_t i = 0; i < o->base.nactive; i++) {
        struct tt_ofi_link *link = tt_ofi_link_at(o, (o->turn + i) % o->base.nactive);

        for (uint32_t k = 0; k < TT_RPUT_STREAMS; k++)
            n += tt_ofi_lane_report(&link->lanes[k], done + n, max - n);
    }
    return n;
}

static int ofi_poll(struct tt_wire *w, struct tt_done *done, int max)
{
    struct tt_ofi *o = tt_ofi_of(w);
    int n;

    pthread_mutex_lock(&o->lock);
    for (uint32_t i = 0; i < o->base.nactive; i++)
        tt_ofi_collect(tt_ofi_link_at(o, i));
    if (o->base.armed || o->base.mending || o->base.nactive == 0 ||
        ++o->base.tick % LOOK_EVERY == 0) {
        o->base.armed = false;
        tt_rput_tcp_step(&o->base);
        tt_rput_links_step(&o->base);
    }
    for (uint32_t i = o->base.nactive; i-- > 0;)
        tt_ofi_link_progress(tt_ofi_link_at(o, i));
    pthread_mutex_unlock(&o->lock);
    n = completions_report(o, done, max);
    return n + tt_rput_news_report(&o->base.news, done + n, max - n);
}

/* Returns whether a sleeper must poll the link: its completion queue does not wake a sleeper; an
 * operation is incomplete or was not accepted, which no queue reports; or nothing was received yet,
 * so the provider may still be connecting. */
static bool ofi_link_needs_polling(const struct tt_ofi_link *link)
{
    bool must = link->ofi->provider.unwoken || link->cq_fd < 0;

    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
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

    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++)
        if (tt_rput_queue_has_reports(&link->lanes[i].q))
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

    if (tt_rput_arm(&o->base) < 0)
        return -1;
    for (uint32_t i = 0; i < o->base.nactive; i++) {
        if (ofi_link_has_work(tt_ofi_link_at(o, i)))
            return -1;
        if (ofi_link_needs_polling(tt_ofi_link_at(o, i)))
            nap.it_value.tv_nsec = (long)NAP_NS;
    }
    timerfd_settime(o->base.timer_fd, 0, &nap, NULL);    /* zero disarms it; in both cases it is not
                                                       readable now */
    return o->base.epoll_fd;
}

/* Excludes libfabric's memory. */
static void ofi_memory(const struct tt_wire *w, tutti_memory *m)
{
    const struct tt_ofi *o = (const struct tt_ofi *)w;
    const tutti_memory_part own = { .purpose = "ofi: transport",
                                    .shared = 1,
                                    .fixed_bytes =
                                        sizeof *o + tt_rput_regions_bytes(&o->base.regions) };

    tt_memory_add(m, &own);
    tt_rput_links_memory(&o->base, m);
}

const struct tt_wire_ops tt_wire_ofi = {
    .name = "ofi",
    .summary = "networks by libfabric: EFA, Slingshot, Omni-Path",
    .by_name = true,        /* not yet used with a network card */
    .open = ofi_open,
    .close = ofi_close,
    .address = ofi_address,
    .connect = tt_ofi_connect,
    .reg = tt_rput_wire_reg,
    .source = tt_rput_wire_source,
    .dereg = tt_rput_dereg,
    .import = tt_ofi_import,
    .post = tt_ofi_post,
    .poll = ofi_poll,
    .arm = ofi_arm,
    .memory = ofi_memory,
    .lanes = tt_rput_lanes,
};
