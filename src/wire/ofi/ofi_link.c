/* Links: set-up, recovery and teardown.
 *
 * When the inner tcp wire has connected two processes, each opens its endpoints. It sends a
 * *hello* with their names (rput.h). An end that has
 * the peer's hello adds the peer's endpoints to its own, and sends *ready*. An end that is ready
 * and has received the peer's ready may send.
 *
 * Recovery repeats this with the next *incarnation*. The hello then has the number of messages
 * applied, from which the peer retransmits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/status.h"
#include "wire/ofi/ofi.h"

#define SETBACKS_MAX 8      /* consecutive errors after which the peer is lost */

/* Layout of a lane's part of the link's local memory. */
enum {
    STAGING_AT = 0,
    RECEIVES_AT = STAGING_AT + TT_OFI_DEPTH * TT_OFI_SLOT_BYTES,
    CHUNKS_AT = RECEIVES_AT + TT_OFI_RECEIVES * TT_OFI_SLOT_BYTES,
    RTS_RECORDS_AT = CHUNKS_AT + TT_OFI_CHUNKS * TT_OFI_CHUNK_BYTES,
    NOTES_AT = RTS_RECORDS_AT + TT_OFI_RTS_MAX * TT_OFI_RECORD_BYTES,
    LANE_BYTES = (NOTES_AT + TT_OFI_NOTES * TT_OFI_RECORD_BYTES + 4095) / 4096 * 4096
};

/* ---- memory of a link ---- */

static uint32_t nends_of(const struct tt_ofi *o, uint32_t lane)
{
    return lane == TT_RPUT_DATA ? o->nends : 1;
}

/* Memory of the lanes, and buffers to connect further endpoints. */
size_t tt_ofi_local_bytes(const struct tt_ofi *o)
{
    return TT_RPUT_STREAMS * (size_t)LANE_BYTES + (o->nends - 1) * (size_t)TT_OFI_PROBE_BYTES;
}

static tutti_status ofi_lane_init(struct tt_ofi_lane *lane, struct tt_ofi_link *link,
                                  uint32_t index)
{
    uint8_t *local = link->base.local + index * (size_t)LANE_BYTES;

    *lane =
        (struct tt_ofi_lane){ .link = link, .index = index, .nends = nends_of(link->ofi, index) };
    lane->staging = local + STAGING_AT;
    lane->chunks = local + CHUNKS_AT;
    lane->rts_records = local + RTS_RECORDS_AT;
    lane->notes = local + NOTES_AT;
    lane->sends = calloc(TT_OFI_SENDS, sizeof *lane->sends);
    lane->receives = calloc(TT_OFI_RECEIVES, sizeof *lane->receives);
    lane->end = calloc(lane->nends, sizeof *lane->end);
    if (!tt_rput_queue_init(&lane->q, link->base.peer, TT_OFI_DEPTH, sizeof(struct tt_ofi_out)) ||
        !lane->sends || !lane->receives || !lane->end)
        return tt_fail(TUTTI_ERR_NOMEM, "ofi: out of memory for a link to rank %u",
                       link->base.peer);
    for (uint32_t i = 1; i < lane->nends; i++)
        lane->end[i].meeting = link->base.local + TT_RPUT_STREAMS * (size_t)LANE_BYTES +
                               (i - 1) * (size_t)TT_OFI_PROBE_BYTES;
    for (uint32_t i = 0; i < TT_OFI_RECEIVES; i++)
        lane->receives[i] =
            (struct tt_ofi_op){ .kind = TT_OFI_OP_RECEIVE,
                                .lane = lane,
                                .buffer = local + RECEIVES_AT + i * (size_t)TT_OFI_SLOT_BYTES };
    return TUTTI_OK;
}

/* Registers the memory that all incarnations use, and opens the first endpoints. */
static tutti_status link_alloc(struct tt_ofi_link *link)
{
    struct tt_ofi *o = link->ofi;
    tutti_status st = TUTTI_OK;

    if (!o->provider.per_endpoint) {
        link->mine_mr = tt_ofi_mr_open(&o->provider, link->base.mine, o->base.mine_bytes,
                                       FI_WRITE | FI_REMOTE_WRITE, NULL);
        link->local_mr = tt_ofi_mr_open(&o->provider, link->base.local, o->base.local_bytes,
                                        FI_SEND | FI_RECV | FI_WRITE, NULL);
        if (!link->mine_mr || !link->local_mr)
            return TUTTI_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < TT_RPUT_STREAMS && !st; i++)
        st = ofi_lane_init(&link->lanes[i], link, i);
    return st ? st : tt_ofi_ends_open(link);
}

static void log_lane_totals(const struct tt_ofi_lane *lane)
{
    for (uint32_t i = 0; lane->end && i < lane->nends; i++)
        if (lane->end[i].posts.n > 0)
            tt_log(TT_LOG_DEBUG,
                   "ofi: lane %u to rank %u carried %llu writes and records of %llu bytes",
                   lane->index + i, lane->link->base.peer,
                   (unsigned long long)lane->end[i].posts.n,
                   (unsigned long long)lane->end[i].posts.bytes);
}

static void ofi_link_end(struct tt_rput_link *base)
{
    struct tt_ofi_link *link = (struct tt_ofi_link *)base;

    tt_ofi_ends_close(link);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        struct tt_ofi_lane *lane = &link->lanes[i];

        log_lane_totals(lane);
        tt_rput_queue_fini(&lane->q);
        free(lane->sends);
        free(lane->receives);
        free(lane->end);
        lane->sends = lane->receives = NULL;
        lane->end = NULL;
    }
    tt_ofi_close(link->mine_mr ? &link->mine_mr->fid : NULL);
    tt_ofi_close(link->local_mr ? &link->local_mr->fid : NULL);
    link->mine_mr = link->local_mr = NULL;
}

/* ---- set-up ---- */

static void end_name_copy(const struct tt_ofi_end *end, struct tt_ofi_name *out)
{
    out->bytes = tt_ofi_ep_name(end->ep, out->data);
}

static size_t ofi_hello(struct tt_rput_link *base, const struct tt_rput_session *session,
                        uint8_t *out)
{
    const struct tt_ofi_link *link = (const struct tt_ofi_link *)base;
    const struct tt_ofi *o = link->ofi;
    const struct tt_ofi_lane *data = &link->lanes[TT_RPUT_DATA];
    struct tt_ofi_hello h = { .incarnation = session->incarnation,
                              .token = link->token,
                              .link_address = tt_ofi_mr_address(&o->provider, base->mine, 0),
                              .link_bytes = o->base.conf.link_bytes };

    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        const struct tt_ofi_lane *lane = &link->lanes[i];

        h.lanes[i].applied = lane->applied;
        h.lanes[i].key = fi_mr_key(o->provider.per_endpoint ? lane->mine_mr : link->mine_mr);
        end_name_copy(&lane->end[0], &h.lanes[i].name);
    }
    for (h.nmore = 0; h.nmore + 1u < data->nopen; h.nmore++)
        end_name_copy(&data->end[h.nmore + 1], &h.more[h.nmore]);
    tt_ofi_hello_write(&h, out);
    return TT_OFI_HELLO_BYTES;
}

/* Announces the endpoints, which are open, as the next incarnation. */
static void ofi_link_announce(struct tt_ofi_link *link)
{
    tt_rput_session_next(&link->session);
    tt_rput_session_send(&link->base, &link->session);
}

/* Adds the link's completion queue to the wire's epoll set. */
static void ofi_link_watch(struct tt_ofi_link *link)
{
    if (link->cq_fd >= 0 && !tt_rput_watch(link->base.rput, link->cq_fd))
        link->cq_fd = -1;   /* fallback: periodic polling */
}

static tutti_status ofi_link_begin(struct tt_rput_link *base)
{
    struct tt_ofi_link *link = (struct tt_ofi_link *)base;
    tutti_status st;

    link->ofi = (struct tt_ofi *)base->rput;
    link->cq_fd = -1;
    st = link_alloc(link);
    if (st)
        return st;
    ofi_link_watch(link);
    ofi_link_announce(link);
    return TUTTI_OK;
}

/* Returns whether the peer's endpoints are compatible with ours. If not, sets `unreached` to the
 * reason, if known. */
static bool is_compatible(struct tt_ofi *o, uint32_t peer, const struct tt_ofi_address *theirs)
{
    struct tt_ofi_address ours;
    const uint32_t rank = o->base.conf.rank;

    tt_ofi_provider_address(&o->provider, &ours);
    if (strcmp(ours.provider, theirs->provider) != 0)
        snprintf(
            o->unreached, sizeof o->unreached,
            "libfabric's provider is %s on rank %u, but %s on rank %u (set TUTTI_OFI_PROVIDER)",
            ours.provider, rank, theirs->provider, peer);
    else if (ours.format != theirs->format)
        snprintf(o->unreached, sizeof o->unreached,
                 "libfabric's provider %s has addresses of different formats on ranks %u and %u "
                 "(set TUTTI_INTERFACES)",
                 ours.provider, rank, peer);
    else if (o->provider.local
                 ? !tt_wire_shares_host(&o->base.conf, peer, ours.host == theirs->host)
                 : ours.host != theirs->host)
        snprintf(o->unreached, sizeof o->unreached,
                 "libfabric's provider %s supports one host only, but ranks %u and %u are on "
                 "different hosts",
                 ours.provider, rank, peer);
    else
        return true;
    o->base.wire.unreached = o->unreached;
    return false;
}

tutti_status tt_ofi_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address)
{
    struct tt_ofi *o = tt_ofi_of(w);
    struct tt_ofi_address a;

    o->base.wire.unreached = NULL;
    if (!tt_ofi_address_read(&a, address) || !is_compatible(o, peer, &a))
        return TUTTI_ERR_UNSUPPORTED;
    return tt_rput_connect(&o->base, peer, &a.tcp);
}

/* ---- recovery ---- */

void tt_ofi_link_break(struct tt_ofi_link *link)
{
    if (link->base.state == TT_RPUT_LOST)
        return;
    if (link->base.status) {
        tt_rput_link_lose(&link->base, link->base.status, "protocol error: invalid message");
        return;
    }
    if (link->setbacks > SETBACKS_MAX) {
        tt_rput_link_lose(&link->base, TUTTI_ERR_PEER_LOST, "its endpoints failed repeatedly");
        return;
    }
    tt_ofi_ends_close(link);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++)
        tt_ofi_lane_halt(&link->lanes[i]);
    tt_log(TT_LOG_DEBUG, "ofi: new endpoints for rank %u, after incarnation %u", link->base.peer,
           link->session.incarnation);
    link->broken = false;
    link->base.state = TT_RPUT_HANDSHAKE;
    link->base.rput->mending = true;
    if (tt_ofi_ends_open(link) != TUTTI_OK) {
        tt_rput_link_lose(&link->base, TUTTI_ERR_NOMEM, "cannot open new endpoints");
        return;
    }
    ofi_link_watch(link);
    ofi_link_announce(link);
}

void tt_ofi_link_progress(struct tt_ofi_link *link)
{
    if (!link->broken)
        tt_ofi_link_pump(link);
    else if (link->base.status ||
             tt_rput_session_hello(&link->base, &link->session) == link->session.incarnation)
        tt_ofi_link_break(link);
}

/* The peer's hello has arrived: adds its endpoints to ours. */
static void ofi_link_connect(struct tt_ofi_link *link)
{
    struct tt_ofi_hello h;
    uint8_t in[TT_OFI_HELLO_BYTES];

    tt_rput_session_read(&link->base, &link->session, in);
    if (!tt_ofi_hello_read(&h, in) || h.incarnation != link->session.incarnation) {
        tt_rput_link_lose(&link->base, TUTTI_ERR_PROTOCOL, "protocol error: invalid hello");
        return;
    }
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        if (!tt_ofi_lane_again(&link->lanes[i], h.lanes[i].applied)) {
            tt_rput_link_lose(&link->base, TUTTI_ERR_PROTOCOL,
                              "protocol error: it acknowledged messages that were not sent");
            return;
        }
        link->theirs_key[i] = h.lanes[i].key;
    }
    if (!tt_ofi_ends_connect(link, &h)) {
        tt_rput_link_lose(&link->base, TUTTI_ERR_SYSTEM,
                          "the provider rejects the addresses of its endpoints");
        return;
    }
    link->theirs_token = h.token;
    link->theirs_address = h.link_address;
    link->theirs = (struct tt_rkey){ .wire = &link->ofi->base.wire,
                                     .peer = link->base.peer,
                                     .bytes = h.link_bytes };
    link->session.hello_received = link->session.ready_pending = true;
    tt_rput_session_send(&link->base, &link->session);
}

static void ofi_link_up(struct tt_ofi_link *link)
{
    tt_rput_link_up(&link->base, &link->theirs);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS && link->ofi->base.conf.rank < link->base.peer; i++)
        tt_ofi_lane_flush(&link->lanes[i]);     /* connects the endpoints now: providers connect at
                                                   the first message */
    tt_ofi_link_pump(link);
}

static void ofi_link_step(struct tt_rput_link *base)
{
    struct tt_ofi_link *link = (struct tt_ofi_link *)base;
    struct tt_rput_session *s = &link->session;
    const uint64_t hello = tt_rput_session_hello(base, s);

    tt_rput_session_send(base, s);
    if (hello > s->incarnation + 1ull) {
        tt_rput_link_lose(base, TUTTI_ERR_PROTOCOL,
                          "protocol error: its incarnation is ahead of that of this rank");
        return;
    }
    if (hello > s->incarnation)      /* the peer has new endpoints, so ours are obsolete */
        tt_ofi_link_break(link);
    if (base->state == TT_RPUT_HANDSHAKE && !s->hello_received && hello == s->incarnation)
        ofi_link_connect(link);
    if (base->state == TT_RPUT_HANDSHAKE && s->hello_received && !s->ready_pending &&
        tt_rput_session_ready(base, s) == s->incarnation)
        ofi_link_up(link);
}

static void ofi_drain(struct tt_rput_link *base)
{
    while (tt_ofi_collect((struct tt_ofi_link *)base) > 0)
        continue;
}

/* ---- close ---- */

/* A flush also requests an acknowledgement of all earlier messages. */
static bool ofi_linger(struct tt_rput_link *base, bool first)
{
    struct tt_ofi_link *link = (struct tt_ofi_link *)base;
    bool more = false;

    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        const bool unfinished = link->lanes[i].q.acked != link->lanes[i].q.tail;

        if (first && unfinished)
            tt_ofi_lane_flush(&link->lanes[i]);
        more |= unfinished;
    }
    return more;
}

/* ---- statistics ---- */

static uint64_t ofi_link_bytes(const struct tt_rput_link *base)
{
    const struct tt_ofi_link *link = (const struct tt_ofi_link *)base;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        const struct tt_ofi_lane *lane = &link->lanes[i];

        bytes += tt_rput_queue_bytes(&lane->q);
        bytes += lane->sends ? TT_OFI_SENDS * sizeof *lane->sends : 0;
        bytes += lane->receives ? TT_OFI_RECEIVES * sizeof *lane->receives : 0;
        bytes += lane->end ? lane->nends * sizeof *lane->end : 0;
    }
    return bytes;
}

static void ofi_lanes(struct tt_rput_link *base, bool next, tt_wire_lane_fn *add, void *arg)
{
    struct tt_ofi_link *link = (struct tt_ofi_link *)base;
    uint32_t number = 0;

    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        struct tt_ofi_lane *lane = &link->lanes[i];

        for (uint32_t k = 0; k < lane->nboth; k++) {
            struct tt_wire_lane out =
                tt_wire_posts_read(&lane->end[k].posts, base->peer, number + k, next);

            out.is_up = base->state == TT_RPUT_UP && !link->broken && !lane->load.lane[k].down;
            out.outstanding =
                lane->load.lane[k].outstanding + (k == 0 ? lane->sent - lane->q.acked : 0);
            out.outstanding_bytes = lane->load.lane[k].bytes;
            add(arg, &out);
        }
        number += lane->nboth;
    }
}

const struct tt_rput_ops tt_ofi_link_ops = {
    .link_bytes = sizeof(struct tt_ofi_link),
    .hello_bytes = TT_OFI_HELLO_BYTES,
    .nsessions = 1,
    .purpose = "ofi: links",
    .begin = ofi_link_begin,
    .end = ofi_link_end,
    .step = ofi_link_step,
    .drain = ofi_drain,
    .hello = ofi_hello,
    .linger = ofi_linger,
    .bytes = ofi_link_bytes,
    .lanes = ofi_lanes,
};
