/* Links: set-up, recovery and teardown.
 *
 * When the inner tcp wire has connected two processes, each opens its endpoints. It writes a
 * *hello* with their names into the peer's mailbox (the tcp wire's link region). An end that has
 * the peer's hello adds the peer's endpoints to its own, and sends *ready*. An end that is ready
 * and has received the peer's ready may send.
 *
 * Recovery repeats this with the next *incarnation*. The hello then has the number of messages
 * applied, from which the peer retransmits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "wire/ofi/ofi.h"
#include "wire/tcp/tcp.h"

#define LINGER_NS TT_SECOND
#define SETBACKS_MAX 8      /* consecutive errors after which the peer is lost */
#define TCP_DONES 16

/* The mailbox, written by the peer, in the inner wire's link region. */
struct mailbox {
    uint64_t hello;         /* newest incarnation whose hello is complete */
    uint64_t ready;         /* newest incarnation for which the peer is ready */
    uint64_t refusal;       /* the peer gives up */
    uint64_t reserved;
    uint8_t hellos[2][TT_OFI_HELLO_BYTES];  /* indexed by incarnation modulo 2; older ones are
                                               not needed */
};
_Static_assert(sizeof(struct mailbox) <= TT_OFI_TCP_LINK_BYTES, "the mailbox fits");

/* Layout of a lane's part of the link's local memory. */
enum {
    STAGING_AT = 0,
    RECEIVES_AT = STAGING_AT + TT_OFI_DEPTH * TT_OFI_SLOT_BYTES,
    CHUNKS_AT = RECEIVES_AT + TT_OFI_RECEIVES * TT_OFI_SLOT_BYTES,
    RTS_RECORDS_AT = CHUNKS_AT + TT_OFI_CHUNKS * TT_OFI_CHUNK_BYTES,
    NOTES_AT = RTS_RECORDS_AT + TT_OFI_RTS_MAX * TT_OFI_RECORD_BYTES,
    LANE_BYTES = (NOTES_AT + TT_OFI_NOTES * TT_OFI_RECORD_BYTES + 4095) / 4096 * 4096
};

static uint64_t mailbox_word(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* ---- events for poll ---- */

static void ofi_link_news(struct tt_ofi_link *link)
{
    struct tt_ofi *o = link->ofi;

    if (link->report_up || link->report_lost)
        return;     /* already listed */
    link->next_reported = NULL;
    *o->news_end = link;
    o->news_end = &link->next_reported;
}

static void ofi_link_enter(struct tt_ofi_link *link, enum tt_ofi_state state)
{
    link->ofi->ngreeting += (state == TT_OFI_HANDSHAKE) - (link->state == TT_OFI_HANDSHAKE);
    link->state = state;
}

/* ---- memory of a link ---- */

static uint32_t nends_of(const struct tt_ofi *o, uint32_t lane)
{
    return lane == TT_OFI_DATA ? o->nends : 1;
}

/* For the lanes, and for connecting further endpoints. */
static size_t local_bytes(const struct tt_ofi *o)
{
    return TT_OFI_LANES * (size_t)LANE_BYTES + (o->nends - 1) * (size_t)TT_OFI_PROBE_BYTES;
}

static tutti_status ofi_lane_init(struct tt_ofi_lane *lane, struct tt_ofi_link *link,
                                  uint32_t index)
{
    uint8_t *local = link->local + index * (size_t)LANE_BYTES;

    *lane =
        (struct tt_ofi_lane){ .link = link, .index = index, .nends = nends_of(link->ofi, index) };
    lane->staging = local + STAGING_AT;
    lane->chunks = local + CHUNKS_AT;
    lane->rts_records = local + RTS_RECORDS_AT;
    lane->notes = local + NOTES_AT;
    lane->out = calloc(TT_OFI_DEPTH, sizeof *lane->out);
    lane->sends = calloc(TT_OFI_SENDS, sizeof *lane->sends);
    lane->receives = calloc(TT_OFI_RECEIVES, sizeof *lane->receives);
    lane->end = calloc(lane->nends, sizeof *lane->end);
    if (!lane->out || !lane->sends || !lane->receives || !lane->end)
        return tt_fail(TUTTI_ERR_NOMEM, "ofi: out of memory for a link to rank %u", link->peer);
    for (uint32_t i = 1; i < lane->nends; i++)
        lane->end[i].meeting =
            link->local + TT_OFI_LANES * (size_t)LANE_BYTES + (i - 1) * (size_t)TT_OFI_PROBE_BYTES;
    for (uint32_t i = 0; i < TT_OFI_RECEIVES; i++)
        lane->receives[i] =
            (struct tt_ofi_op){ .kind = TT_OFI_OP_RECEIVE,
                                .lane = lane,
                                .buffer = local + RECEIVES_AT + i * (size_t)TT_OFI_SLOT_BYTES };
    return TUTTI_OK;
}

static void *map(size_t bytes)
{
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return mem == MAP_FAILED ? NULL : mem;
}

/* Allocates what all incarnations use. On failure ofi_link_free_parts cleans up. */
static tutti_status ofi_link_alloc(struct tt_ofi_link *link)
{
    struct tt_ofi *o = link->ofi;
    tutti_status st = TUTTI_OK;

    link->mine = map(o->conf.link_bytes);
    link->local = map(local_bytes(o));
    if (!link->mine || !link->local)
        return tt_fail_errno(errno, "ofi: cannot map memory for the link to rank %u", link->peer);
    if (!o->provider.per_endpoint) {
        link->mine_mr = tt_ofi_mr_open(&o->provider, link->mine, o->conf.link_bytes,
                                       FI_WRITE | FI_REMOTE_WRITE, NULL);
        link->local_mr = tt_ofi_mr_open(&o->provider, link->local, local_bytes(o),
                                        FI_SEND | FI_RECV | FI_WRITE, NULL);
        if (!link->mine_mr || !link->local_mr)
            return TUTTI_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < TT_OFI_LANES && !st; i++)
        st = ofi_lane_init(&link->lanes[i], link, i);
    return st ? st : tt_ofi_ends_open(link);
}

static void log_lane_totals(const struct tt_ofi_lane *lane)
{
    for (uint32_t i = 0; lane->end && i < lane->nends; i++)
        if (lane->end[i].writes > 0)
            tt_log(TT_LOG_DEBUG, "ofi: lane %u to rank %u carried %llu writes of %llu bytes",
                   lane->index + i, lane->link->peer, (unsigned long long)lane->end[i].writes,
                   (unsigned long long)lane->end[i].bytes);
}

/* Frees everything but the link region, which callers may still access. */
static void ofi_link_free_parts(struct tt_ofi_link *link)
{
    tt_ofi_ends_close(link);
    for (uint32_t i = 0; i < TT_OFI_LANES; i++) {
        struct tt_ofi_lane *lane = &link->lanes[i];

        log_lane_totals(lane);
        free(lane->out);
        free(lane->sends);
        free(lane->receives);
        free(lane->end);
        lane->out = NULL;
        lane->sends = lane->receives = NULL;
        lane->end = NULL;
    }
    tt_ofi_close(link->mine_mr ? &link->mine_mr->fid : NULL);
    tt_ofi_close(link->local_mr ? &link->local_mr->fid : NULL);
    link->mine_mr = link->local_mr = NULL;
    if (link->local)
        munmap(link->local, local_bytes(link->ofi));
    link->local = NULL;
}

/* ---- messages to the peer ---- */

/* Writes data[bytes] at `at` of the peer's mailbox, then `word` at `word_at`. Returns false if the
 * tcp wire has no space now. */
static bool ofi_mailbox_write(struct tt_ofi_link *link, size_t word_at, uint64_t word, size_t at,
                              const void *data, size_t bytes)
{
    struct tt_wire *tcp = link->ofi->tcp;
    struct tt_desc d = {
        .kind = TT_DESC_PUT, .flags = TT_DESC_INLINE, .key = &link->tcp.theirs, .offset = at
    };

    d.local = (void *)(uintptr_t)data;
    d.bytes = bytes;
    d.signal_op = TT_SIGNAL_SET;
    d.signal_key = d.key;
    d.signal_offset = word_at;
    d.signal_value = word;
    return tcp->ops->post(tcp, &d, 1) == 1;
}

static void end_name_copy(const struct tt_ofi_end *end, struct tt_ofi_name *out)
{
    out->bytes = tt_ofi_ep_name(end->ep, out->data);
}

static bool ofi_send_hello(struct tt_ofi_link *link)
{
    const struct tt_ofi *o = link->ofi;
    const struct tt_ofi_lane *data = &link->lanes[TT_OFI_DATA];
    struct tt_ofi_hello h = { .incarnation = link->incarnation,
                              .token = link->token,
                              .link_address = tt_ofi_mr_address(&o->provider, link->mine, 0),
                              .link_bytes = o->conf.link_bytes };
    uint8_t out[TT_OFI_HELLO_BYTES];

    for (uint32_t i = 0; i < TT_OFI_LANES; i++) {
        const struct tt_ofi_lane *lane = &link->lanes[i];

        h.lanes[i].applied = lane->applied;
        h.lanes[i].key = fi_mr_key(o->provider.per_endpoint ? lane->mine_mr : link->mine_mr);
        end_name_copy(&lane->end[0], &h.lanes[i].name);
    }
    for (h.nmore = 0; h.nmore + 1u < data->nopen; h.nmore++)
        end_name_copy(&data->end[h.nmore + 1], &h.more[h.nmore]);
    tt_ofi_hello_write(&h, out);
    return ofi_mailbox_write(link, offsetof(struct mailbox, hello), link->incarnation,
                             offsetof(struct mailbox, hellos[link->incarnation % 2]), out,
                             sizeof out);
}

/* Sends pending messages as far as there is space. */
static void ofi_link_send_pending(struct tt_ofi_link *link)
{
    if (link->hello_pending)
        link->hello_pending = !ofi_send_hello(link);
    if (link->ready_pending && !link->hello_pending)
        link->ready_pending = !ofi_mailbox_write(link, offsetof(struct mailbox, ready),
                                                 link->incarnation, 0, NULL, 0);
    if (link->refusal_pending)
        link->refusal_pending =
            !ofi_mailbox_write(link, offsetof(struct mailbox, refusal), 1, 0, NULL, 0);
}

/* ---- teardown ---- */

/* Closes the inner connection, which notifies the peer that there is no link. */
static void tcp_end(struct tt_ofi *o, uint32_t peer, const char *why)
{
    tt_tcp_link_lose(tt_sparse_get(&tt_tcp_of(o->tcp)->links, peer), TUTTI_ERR_PEER_LOST, why);
}

/* Reports the loss by poll. The link region remains until the wire closes. */
static void ofi_link_lose(struct tt_ofi_link *link, tutti_status status, const char *why)
{
    struct tt_ofi *o = link->ofi;

    if (link->state == TT_OFI_LOST)
        return;
    tt_log(status == TUTTI_ERR_PEER_LOST || status == TUTTI_OK ? TT_LOG_INFO : TT_LOG_WARN,
           "ofi: the link to rank %u ended: %s", link->peer, why);
    /* otherwise the peer would wait */
    link->refusal_pending = status != TUTTI_OK && link->tcp.mine;
    link->hello_pending = link->ready_pending = false;
    ofi_link_send_pending(link);
    if (link->refusal_pending)     /* this link is not polled any more */
        tcp_end(o, link->peer, "cannot send the refusal of a link");
    ofi_link_enter(link, TT_OFI_LOST);
    ofi_link_free_parts(link);
    for (uint32_t i = 0; i < o->nactive; i++)
        if (o->active[i] == link)
            o->active[i] = o->active[--o->nactive];
    link->status = status;
    ofi_link_news(link);
    link->report_lost = true;
}

/* ---- set-up ---- */

/* Creates a link and enters it in the table and the active list. NULL: out of memory. */
static struct tt_ofi_link *ofi_link_create(struct tt_ofi *o, uint32_t peer)
{
    struct tt_ofi_link *link = calloc(1, sizeof *link);

    if (link && o->nactive == o->active_depth) {
        const uint32_t depth = 2 * o->active_depth + 8;
        struct tt_ofi_link **grown = realloc(o->active, depth * sizeof *grown);

        if (!grown) {
            free(link);
            link = NULL;
        } else {
            o->active = grown;
            o->active_depth = depth;
        }
    }
    if (link && !tt_sparse_set(&o->links, peer, link)) {
        free(link);
        link = NULL;
    }
    if (!link) {
        tt_log(TT_LOG_WARN, "ofi: out of memory for a link to rank %u", peer);
        return NULL;
    }
    *link = (struct tt_ofi_link){
        .ofi = o, .peer = peer, .state = TT_OFI_LOST, .incarnation = 1, .cq_fd = -1
    };
    o->active[o->nactive++] = link;
    ofi_link_enter(link, TT_OFI_HANDSHAKE);
    return link;
}

/* Adds the link's completion queue to the wire's epoll set. */
static void ofi_link_watch(struct tt_ofi_link *link)
{
    struct epoll_event ev = { .events = EPOLLIN };

    if (link->cq_fd >= 0 && epoll_ctl(link->ofi->epoll_fd, EPOLL_CTL_ADD, link->cq_fd, &ev) != 0)
        link->cq_fd = -1;   /* fallback: periodic polling */
}

/* The tcp wire has connected the peer. */
static void ofi_link_begin(struct tt_ofi *o, uint32_t peer, const struct tt_link *tcp)
{
    struct tt_ofi_link *link = ofi_link_create(o, peer);

    if (!link) {        /* there may be memory when the end of the connection is reported */
        tcp_end(o, peer, "out of memory for the ofi link");
        return;
    }
    link->tcp = *tcp;
    if (ofi_link_alloc(link) != TUTTI_OK) {
        ofi_link_lose(link, TUTTI_ERR_NOMEM, "cannot allocate its resources");
        return;
    }
    ofi_link_watch(link);
    link->hello_pending = true;
    ofi_link_send_pending(link);
}

/* Returns whether the peer's endpoints are compatible with ours. If not, sets `unreached` to the
 * reason, if known. */
static bool is_compatible(struct tt_ofi *o, uint32_t peer, const struct tt_ofi_address *theirs)
{
    struct tt_ofi_address ours;
    const uint32_t rank = o->conf.rank;

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
    else if (o->provider.local ? !tt_wire_shares_host(&o->conf, peer, ours.host == theirs->host)
                               : ours.host != theirs->host)
        snprintf(o->unreached, sizeof o->unreached,
                 "libfabric's provider %s supports one host only, but ranks %u and %u are on "
                 "different hosts",
                 ours.provider, rank, peer);
    else
        return true;
    o->wire.unreached = o->unreached;
    return false;
}

tutti_status tt_ofi_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address)
{
    struct tt_ofi *o = tt_ofi_of(w);
    struct tt_ofi_address a;

    o->wire.unreached = NULL;
    if (!tt_ofi_address_read(&a, address) || !is_compatible(o, peer, &a))
        return TUTTI_ERR_UNSUPPORTED;
    return o->tcp->ops->connect(o->tcp, peer, &a.tcp);
}

/* ---- recovery ---- */

void tt_ofi_link_break(struct tt_ofi_link *link)
{
    if (link->state == TT_OFI_LOST)
        return;
    if (link->status) {
        ofi_link_lose(link, link->status, "protocol error: invalid message");
        return;
    }
    if (link->setbacks > SETBACKS_MAX) {
        ofi_link_lose(link, TUTTI_ERR_PEER_LOST, "its endpoints failed repeatedly");
        return;
    }
    tt_ofi_ends_close(link);
    for (uint32_t i = 0; i < TT_OFI_LANES; i++)
        tt_ofi_lane_halt(&link->lanes[i]);
    tt_log(TT_LOG_DEBUG, "ofi: new endpoints for rank %u, after incarnation %u", link->peer,
           link->incarnation);
    link->broken = link->connected = false;
    link->incarnation++;
    link->ready_pending = false;
    ofi_link_enter(link, TT_OFI_HANDSHAKE);
    if (tt_ofi_ends_open(link) != TUTTI_OK) {
        ofi_link_lose(link, TUTTI_ERR_NOMEM, "cannot open new endpoints");
        return;
    }
    ofi_link_watch(link);
    link->hello_pending = true;
    ofi_link_send_pending(link);
}

void tt_ofi_link_progress(struct tt_ofi_link *link)
{
    const struct mailbox *box = link->tcp.mine;

    if (!link->broken)
        tt_ofi_link_pump(link);
    else if (link->status || mailbox_word(&box->hello) == link->incarnation)
        tt_ofi_link_break(link);
}

/* The peer's hello has arrived: adds its endpoints to ours. */
static void ofi_link_connect(struct tt_ofi_link *link)
{
    const struct mailbox *box = link->tcp.mine;
    struct tt_ofi_hello h;
    uint8_t in[TT_OFI_HELLO_BYTES];

    memcpy(in, box->hellos[link->incarnation % 2], sizeof in);
    if (!tt_ofi_hello_read(&h, in) || h.incarnation != link->incarnation) {
        ofi_link_lose(link, TUTTI_ERR_PROTOCOL, "protocol error: invalid hello");
        return;
    }
    for (uint32_t i = 0; i < TT_OFI_LANES; i++) {
        if (!tt_ofi_lane_again(&link->lanes[i], h.lanes[i].applied)) {
            ofi_link_lose(link, TUTTI_ERR_PROTOCOL,
                          "protocol error: it acknowledged messages that were not sent");
            return;
        }
        link->theirs_key[i] = h.lanes[i].key;
    }
    if (!tt_ofi_ends_connect(link, &h)) {
        ofi_link_lose(link, TUTTI_ERR_SYSTEM,
                      "the provider rejects the addresses of its endpoints");
        return;
    }
    link->theirs_token = h.token;
    link->theirs_address = h.link_address;
    link->theirs_bytes = h.link_bytes;
    link->connected = true;
    link->ready_pending = true;
    ofi_link_send_pending(link);
}

static void ofi_link_up(struct tt_ofi_link *link)
{
    ofi_link_enter(link, TT_OFI_UP);
    if (!link->was_up) {
        ofi_link_news(link);
        link->report_up = true;
    }
    link->was_up = true;
    for (uint32_t i = 0; i < TT_OFI_LANES && link->ofi->conf.rank < link->peer; i++)
        tt_ofi_lane_flush(&link->lanes[i]);     /* connects them now: providers connect at the
                                                   first message */
    tt_ofi_link_pump(link);
}

/* One step of a link that is not lost. */
static void ofi_link_step(struct tt_ofi_link *link)
{
    const struct mailbox *box = link->tcp.mine;
    const uint64_t hello = mailbox_word(&box->hello);

    ofi_link_send_pending(link);
    if (mailbox_word(&box->refusal)) {
        ofi_link_lose(link, TUTTI_ERR_PEER_LOST, "the peer ended the link");
        return;
    }
    if (hello > link->incarnation + 1ull) {
        ofi_link_lose(link, TUTTI_ERR_PROTOCOL,
                      "protocol error: its incarnation is ahead of that of this rank");
        return;
    }
    if (hello > link->incarnation)      /* the peer has new endpoints, so ours are obsolete */
        tt_ofi_link_break(link);
    if (link->state == TT_OFI_HANDSHAKE && !link->connected && hello == link->incarnation)
        ofi_link_connect(link);
    if (link->state == TT_OFI_HANDSHAKE && link->connected && !link->ready_pending &&
        mailbox_word(&box->ready) == link->incarnation)
        ofi_link_up(link);
}

/* The tcp connection has ended: applies what has arrived. */
static void ofi_tcp_lost(struct tt_ofi *o, const struct tt_done *d)
{
    struct tt_ofi_link *link = tt_sparse_get(&o->links, d->peer);

    if (!link)
        link = ofi_link_create(o, d->peer);
    if (!link)
        return;
    while (link->state != TT_OFI_LOST && tt_ofi_collect(link) > 0)
        continue;
    link->tcp.mine = NULL;      /* no further message can be sent */
    ofi_link_lose(link, d->status,
                  d->status ? "the peer has ended, or is unreachable" : "closed by the peer");
}

void tt_ofi_links_step(struct tt_ofi *o)
{
    struct tt_done done[TCP_DONES];
    int n = TCP_DONES;

    while (n == TCP_DONES) {
        n = o->tcp->ops->poll(o->tcp, done, TCP_DONES);
        o->wire.unheard = o->tcp->unheard;       /* events of links */
        for (int i = 0; i < n; i++) {
            if (done[i].kind == TT_DONE_LINK_UP)
                ofi_link_begin(o, done[i].peer, &done[i].link);
            else if (done[i].kind == TT_DONE_LINK_LOST)
                ofi_tcp_lost(o, &done[i]);
        }
    }
    for (uint32_t i = o->nactive; i-- > 0;)
        ofi_link_step(o->active[i]);
}

/* ---- close ---- */

static bool ofi_link_unfinished(const struct tt_ofi_link *link)
{
    for (uint32_t i = 0; i < TT_OFI_LANES; i++)
        if (link->lanes[i].acked != link->lanes[i].tail)
            return true;
    return false;
}

void tt_ofi_links_linger(struct tt_ofi *o)
{
    const uint64_t until_ns = tt_now_ns() + LINGER_NS;
    struct tt_done done[TCP_DONES];
    bool more = true;

    for (uint32_t i = 0; i < o->nactive; i++)
        for (uint32_t k = 0; o->active[i]->was_up && k < TT_OFI_LANES; k++)
            if (o->active[i]->lanes[k].acked != o->active[i]->lanes[k].tail)
                tt_ofi_lane_flush(&o->active[i]->lanes[k]);
    while (more && tt_now_ns() < until_ns) {
        o->wire.ops->poll(&o->wire, done, TCP_DONES);
        more = false;
        for (uint32_t i = 0; i < o->nactive; i++)
            more |= o->active[i]->was_up && ofi_link_unfinished(o->active[i]);
    }
}

void tt_ofi_links_close(struct tt_ofi *o)
{
    struct tt_ofi_link *link;
    uint32_t at = 0;

    while ((link = tt_sparse_next(&o->links, &at))) {
        if (link->state != TT_OFI_LOST)
            ofi_link_free_parts(link);
        if (link->mine)
            munmap(link->mine, o->conf.link_bytes);
        free(link);
    }
    tt_sparse_fini(&o->links);
    free(o->active);
    o->active = NULL;
    o->nactive = 0;
}

/* ---- statistics ---- */

static uint64_t ofi_link_bytes(const struct tt_ofi_link *link)
{
    uint64_t bytes = sizeof *link;

    for (uint32_t i = 0; i < TT_OFI_LANES; i++) {
        const struct tt_ofi_lane *lane = &link->lanes[i];

        bytes += lane->out ? TT_OFI_DEPTH * sizeof *lane->out : 0;
        bytes += lane->sends ? TT_OFI_SENDS * sizeof *lane->sends : 0;
        bytes += lane->receives ? TT_OFI_RECEIVES * sizeof *lane->receives : 0;
        bytes += lane->end ? lane->nends * sizeof *lane->end : 0;
    }
    bytes += link->mine ? link->ofi->conf.link_bytes : 0;
    return bytes + (link->local ? local_bytes(link->ofi) : 0);
}

void tt_ofi_links_memory(const struct tt_ofi *o, tutti_memory *m)
{
    tutti_memory_part links = { .purpose = "ofi: links",
                                .shared = 1,
                                .peer_bytes = tt_sparse_bytes(&o->links) +
                                              o->active_depth * sizeof *o->active };
    const struct tt_ofi_link *link;
    uint32_t at = 0;

    while ((link = tt_sparse_next(&o->links, &at)))
        links.peer_bytes += ofi_link_bytes(link);
    tt_memory_add(m, &links);
    o->tcp->ops->memory(o->tcp, m);
}
