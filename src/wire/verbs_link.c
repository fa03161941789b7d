/* How links come to be, break, mend and end.
 *
 * When the tcp wire inside has connected two processes, each makes its queue pairs and writes a *hello* with their numbers into the other's
 * mailbox (the link region of the tcp wire). Who has the other's hello connects its queue pairs and says that it is *ready*; who is
 * ready and hears that the other is may send.
 *
 * An error ends a queue pair at both ends: a write into memory that is registered no more, or a source that is taken back. Then all of the
 * link's queue pairs are ended, whatever had come is collected, and the same begins anew with the next *incarnation*: the hello tells how many of
 * the other's messages have been applied, from where on it sends again. So nothing is lost or applied twice. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "wire/tcp.h"
#include "wire/verbs.h"

#define LINGER_NS TT_SECOND
#define DRAIN_NS TT_SECOND
#define SETBACKS_MAX 3

/* The mailbox: what the peer writes. */
struct mailbox {
    uint64_t hello;         /* newest incarnation of which the hello is there */
    uint64_t ready;         /* newest incarnation from which the peer can receive */
    uint64_t refusal;       /* it gives up */
    uint64_t reserved[5];
    uint8_t hellos[2][TT_VERBS_HELLO_BYTES];    /* by incarnation; the one before the last is not needed any more */
};

#define RING_BYTES (TT_VERBS_SLOTS * TT_VERBS_SLOT_BYTES)
#define STAGING_BYTES (TT_VERBS_DEPTH * TT_VERBS_SLOT_BYTES)
#define LOCAL_BYTES (TT_VERBS_LANES * (STAGING_BYTES + TT_VERBS_BOUNCE_BYTES))

static uint64_t heard(const struct tt_verbs_link *link, size_t word_at)
{
    return __atomic_load_n((const uint64_t *)((const uint8_t *)link->tcp.mine + word_at), __ATOMIC_ACQUIRE);
}

/* ---- news ---- */

static void news(struct tt_verbs_link *link)
{
    struct tt_verbs *v = link->verbs;

    if (link->tell_up || link->tell_lost)
        return;     /* listed already */
    link->next_news = NULL;
    *v->news_end = link;
    v->news_end = &link->next_news;
}

static void set_state(struct tt_verbs_link *link, enum tt_verbs_state state)
{
    link->verbs->ngreeting += (state == TT_VERBS_GREETING) - (link->state == TT_VERBS_GREETING);
    link->state = state;
}

/* ---- what a link consists of ---- */

static size_t mine_bytes(const struct tt_verbs *v)
{
    return (v->conf.link_bytes + 4095) / 4096 * 4096 + TT_VERBS_LANES * RING_BYTES;
}

static tutti_status lane_init(struct tt_verbs_lane *lane, struct tt_verbs_link *link, uint32_t index)
{
    *lane = (struct tt_verbs_lane){ .link = link, .index = index, .culprit = TT_VERBS_NO_MESSAGE };
    lane->ring = (uint8_t *)link->mine + mine_bytes(link->verbs) - (TT_VERBS_LANES - index) * (size_t)RING_BYTES;
    lane->staging = link->local + index * (size_t)STAGING_BYTES;
    lane->bounce = link->local + TT_VERBS_LANES * (size_t)STAGING_BYTES + index * (size_t)TT_VERBS_BOUNCE_BYTES;
    lane->out = calloc(TT_VERBS_DEPTH, sizeof *lane->out);
    lane->wrs = calloc(TT_VERBS_WRS, sizeof *lane->wrs);
    if (!lane->out || !lane->wrs)
        return tt_fail(TUTTI_ERR_NOMEM, "verbs: no memory for a link to rank %u", link->peer);
    return TUTTI_OK;
}

/* What all incarnations use. On failure link_strip cleans up. */
static tutti_status link_furnish(struct tt_verbs_link *link)
{
    struct tt_verbs *v = link->verbs;
    tutti_status st = TUTTI_OK;

    link->mine = mmap(NULL, mine_bytes(v), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (link->mine == MAP_FAILED) {
        link->mine = NULL;
        return tt_fail_errno(errno, "verbs: map a link to rank %u", link->peer);
    }
    link->local = mmap(NULL, LOCAL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (link->local == MAP_FAILED) {
        link->local = NULL;
        return tt_fail_errno(errno, "verbs: map a link to rank %u", link->peer);
    }
    link->mine_mr = tt_verbs_pin(v, link->mine, mine_bytes(v), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    link->local_mr = link->mine_mr ? tt_verbs_pin(v, link->local, LOCAL_BYTES, 0) : NULL;
    if (!link->local_mr)
        return TUTTI_ERR_NOMEM;
    for (uint32_t i = 0; i < TT_VERBS_LANES && !st; i++)
        st = lane_init(&link->lanes[i], link, i);
    return st ? st : tt_verbs_group_join(link);
}

/* Gives back all but the link region, which callers may still look at. */
static void link_strip(struct tt_verbs_link *link)
{
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++)
        tt_verbs_qp_destroy(&link->lanes[i]);
    tt_verbs_group_leave(link);
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++) {
        free(link->lanes[i].out);
        free(link->lanes[i].wrs);
        link->lanes[i].out = NULL;
        link->lanes[i].wrs = NULL;
    }
    tt_verbs_unpin(link->mine_mr);
    tt_verbs_unpin(link->local_mr);
    link->mine_mr = link->local_mr = NULL;
    if (link->local)
        munmap(link->local, LOCAL_BYTES);
    link->local = NULL;
}

static bool queue_pairs_create(struct tt_verbs_link *link)
{
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++)
        if (tt_verbs_qp_create(&link->lanes[i]) != TUTTI_OK)
            return false;
    return true;
}

/* ---- telling the peer ---- */

/* Puts `word` at `word_at` of the peer's mailbox, after data[bytes] at `at`. False: the tcp wire has no room now. */
static bool tell(struct tt_verbs_link *link, size_t word_at, uint64_t word, size_t at, const void *data, size_t bytes)
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

static bool tell_hello(struct tt_verbs_link *link)
{
    const struct tt_verbs *v = link->verbs;
    struct tt_verbs_hello h = {
        .incarnation = link->incarnation,
        .mtu = v->device.mtu,
        .lid = v->device.lid,
        .link_address = (uintptr_t)link->mine,
        .link_bytes = v->conf.link_bytes,
        .rkey = link->mine_mr->rkey,
    };
    uint8_t out[TT_VERBS_HELLO_BYTES];

    memcpy(h.gid, v->device.gid.raw, sizeof h.gid);
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++)
        h.lanes[i] = (struct tt_verbs_hello_lane){
            .qp = link->lanes[i].qpn,
            .psn = link->lanes[i].psn,
            .applied = link->lanes[i].applied,
            .ring = (uintptr_t)link->lanes[i].ring,
        };
    tt_verbs_hello_write(&h, out);
    return tell(link, offsetof(struct mailbox, hello), link->incarnation,
                offsetof(struct mailbox, hellos[link->incarnation % 2]), out, sizeof out);
}

/* Says what is owed, as far as there is room. */
static void link_say(struct tt_verbs_link *link)
{
    if (link->owes_hello)
        link->owes_hello = !tell_hello(link);
    if (link->owes_ready && !link->owes_hello)
        link->owes_ready = !tell(link, offsetof(struct mailbox, ready), link->incarnation, 0, NULL, 0);
    if (link->owes_refusal)
        link->owes_refusal = !tell(link, offsetof(struct mailbox, refusal), 1, 0, NULL, 0);
}

/* ---- beginning ---- */

void tt_verbs_link_lose(struct tt_verbs_link *link, tutti_status status, const char *why)
{
    struct tt_verbs *v = link->verbs;

    if (link->state == TT_VERBS_LOST)
        return;
    tt_log(status == TUTTI_ERR_PEER_LOST || status == TUTTI_OK ? TT_LOG_INFO : TT_LOG_WARN,
           "verbs: the link to rank %u is lost: %s", link->peer, why);
    link->owes_refusal = status != TUTTI_OK && link->tcp.mine;     /* or else the peer would wait for us */
    link_say(link);
    if (link->owes_refusal)     /* there is no room for it, and nobody looks after this link any more: the connection's end says it */
        tt_tcp_link_lose(tt_tcp_of(v->tcp)->links[link->peer], TUTTI_ERR_PEER_LOST, "a refusal had no room");
    set_state(link, TT_VERBS_LOST);
    link_strip(link);
    for (uint32_t i = 0; i < v->nactive; i++)
        if (v->active[i] == link)
            v->active[i] = v->active[--v->nactive];
    link->status = status;
    news(link);
    link->tell_lost = true;
}

/* The tcp wire has connected the peer. */
static void link_begin(struct tt_verbs *v, uint32_t peer, const struct tt_link *tcp)
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
    if (!link || !grown) {
        free(link);
        tt_log(TT_LOG_WARN, "verbs: no memory for a link to rank %u", peer);
        return;
    }
    *link = (struct tt_verbs_link){ .verbs = v, .peer = peer, .state = TT_VERBS_LOST, .incarnation = 1, .tcp = *tcp };
    v->links[peer] = link;
    v->active[v->nactive++] = link;
    set_state(link, TT_VERBS_GREETING);
    if (link_furnish(link) != TUTTI_OK || !queue_pairs_create(link)) {
        tt_verbs_link_lose(link, TUTTI_ERR_NOMEM, "what it needs cannot be had");
        return;
    }
    link->owes_hello = true;
    link_say(link);
}

tutti_status tt_verbs_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address)
{
    struct tt_verbs *v = tt_verbs_of(w);
    struct tt_verbs_address a;

    if (!tt_verbs_address_read(&a, address) || a.infiniband != v->device.infiniband)
        return TUTTI_ERR_UNSUPPORTED;
    if (a.infiniband && a.subnet != v->device.gid.global.subnet_prefix)
        return TUTTI_ERR_UNSUPPORTED;
    return v->tcp->ops->connect(v->tcp, peer, &a.tcp);
}

/* ---- breaking and mending ---- */

/* Ends the queue pairs; afterwards no device touches what they were given, and all that came is applied. */
static void queue_pairs_end(struct tt_verbs_link *link)
{
    struct tt_verbs *v = link->verbs;
    const uint64_t until_ns = tt_now_ns() + DRAIN_NS;
    bool more = true;

    for (uint32_t i = 0; i < TT_VERBS_LANES; i++) {
        tt_verbs_qp_stop(&link->lanes[i]);
        tt_verbs_lane_watch(&link->lanes[i]);
    }
    while (more && tt_now_ns() < until_ns) {
        more = tt_verbs_collect(v) > 0;
        for (uint32_t i = 0; i < TT_VERBS_LANES; i++)
            more |= link->lanes[i].wr_head != link->lanes[i].wr_tail;
    }
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++)
        tt_verbs_qp_destroy(&link->lanes[i]);
}

void tt_verbs_link_break(struct tt_verbs_link *link)
{
    if (link->state == TT_VERBS_LOST)
        return;
    if (link->status) {
        tt_verbs_link_lose(link, link->status, "it writes what no honest peer does");
        return;
    }
    if (link->setbacks > SETBACKS_MAX) {
        tt_verbs_link_lose(link, TUTTI_ERR_PEER_LOST, "its device answers nothing any more");
        return;
    }
    queue_pairs_end(link);
    link->broken = link->connected = false;
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++) {
        struct tt_verbs_lane *lane = &link->lanes[i];

        if (lane->culprit != TT_VERBS_NO_MESSAGE && lane->culprit >= lane->done)
            tt_verbs_message_void(lane, lane->culprit);
        lane->culprit = TT_VERBS_NO_MESSAGE;
        lane->wr_head = lane->wr_tail;
        lane->outstanding_bytes = 0;
        lane->unwatched = 0;
        lane->ack_due = false;      /* the hello tells */
    }
    tt_log(TT_LOG_DEBUG, "verbs: new queue pairs for rank %u, after %u", link->peer, link->incarnation);
    link->incarnation++;
    link->owes_ready = false;
    set_state(link, TT_VERBS_GREETING);
    if (!queue_pairs_create(link)) {
        tt_verbs_link_lose(link, TUTTI_ERR_NOMEM, "there are no more queue pairs");
        return;
    }
    link->owes_hello = true;
    link_say(link);
}

/* The peer's hello has come: our queue pairs are joined to its. */
static void link_connect(struct tt_verbs_link *link)
{
    const struct mailbox *box = link->tcp.mine;
    struct tt_verbs_hello h;
    uint8_t in[TT_VERBS_HELLO_BYTES];

    memcpy(in, box->hellos[link->incarnation % 2], sizeof in);
    if (!tt_verbs_hello_read(&h, in) || h.incarnation != link->incarnation) {
        tt_verbs_link_lose(link, TUTTI_ERR_PROTOCOL, "its hello is none of this wire's");
        return;
    }
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++) {
        link->lanes[i].peer_ring = h.lanes[i].ring;
        if (!tt_verbs_lane_again(&link->lanes[i], h.lanes[i].applied)) {
            tt_verbs_link_lose(link, TUTTI_ERR_PROTOCOL, "it claims messages that were never sent");
            return;
        }
        if (tt_verbs_qp_connect(&link->lanes[i], &h) != TUTTI_OK) {
            tt_verbs_link_lose(link, TUTTI_ERR_SYSTEM, "its queue pairs cannot be connected");
            return;
        }
    }
    link->theirs_address = h.link_address;
    link->theirs_bytes = h.link_bytes;
    link->theirs_rkey = h.rkey;
    link->connected = true;
    link->owes_ready = true;
    link_say(link);
}

static void link_up(struct tt_verbs_link *link)
{
    set_state(link, TT_VERBS_UP);
    if (!link->was_up) {
        news(link);
        link->tell_up = true;
    }
    link->was_up = true;
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++)
        tt_verbs_lane_pump(&link->lanes[i]);
}

/* One step of a link that is not lost. */
static void link_step(struct tt_verbs_link *link)
{
    const uint64_t hello = heard(link, offsetof(struct mailbox, hello));

    link_say(link);
    if (heard(link, offsetof(struct mailbox, refusal))) {
        tt_verbs_link_lose(link, TUTTI_ERR_PEER_LOST, "the peer gave it up");
        return;
    }
    if (hello > link->incarnation + 1ull) {
        tt_verbs_link_lose(link, TUTTI_ERR_PROTOCOL, "it is further than it can be");
        return;
    }
    if (hello > link->incarnation)      /* the peer has new queue pairs: ours are of no use any more */
        tt_verbs_link_break(link);
    if (link->state == TT_VERBS_GREETING && !link->connected && hello == link->incarnation)
        link_connect(link);
    if (link->state == TT_VERBS_GREETING && link->connected && !link->owes_ready &&
        heard(link, offsetof(struct mailbox, ready)) == link->incarnation)
        link_up(link);
}

/* The tcp connection is over: what had come by then is applied. */
static void tcp_lost(struct tt_verbs *v, const struct tt_done *d)
{
    struct tt_verbs_link *link = v->links[d->peer];

    while (tt_verbs_collect(v) > 0)
        continue;
    if (!link) {        /* it never came to be */
        link = calloc(1, sizeof *link);
        if (!link)
            return;
        *link = (struct tt_verbs_link){ .verbs = v, .peer = d->peer, .state = TT_VERBS_GREETING };
        v->ngreeting++;
        v->links[d->peer] = link;
    }
    link->tcp.mine = NULL;      /* nothing can be told any more */
    tt_verbs_link_lose(link, d->status, d->status ? "its process is gone, or cannot be reached" : "the peer closed it in order");
}

void tt_verbs_links_step(struct tt_verbs *v)
{
    struct tt_done done[16];
    int n;

    do {
        n = v->tcp->ops->poll(v->tcp, done, 16);
        for (int i = 0; i < n; i++) {
            if (done[i].kind == TT_DONE_LINK_UP)
                link_begin(v, done[i].peer, &done[i].link);
            else if (done[i].kind == TT_DONE_LINK_LOST)
                tcp_lost(v, &done[i]);
        }
    } while (n == 16);
    for (uint32_t i = v->nactive; i-- > 0;)
        link_step(v->active[i]);
}

/* ---- ending ---- */

/* Whether something that was posted has not landed yet. */
static bool unfinished(const struct tt_verbs_link *link)
{
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++)
        if (link->lanes[i].sent != link->lanes[i].tail || link->lanes[i].wr_head != link->lanes[i].wr_tail)
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
            for (uint32_t k = 0; v->active[i]->state == TT_VERBS_UP && k < TT_VERBS_LANES; k++)
                tt_verbs_lane_watch(&v->active[i]->lanes[k]);
            more |= v->active[i]->was_up && unfinished(v->active[i]);
        }
        if (more)
            v->wire.ops->poll(&v->wire, done, 16);
    }
}

void tt_verbs_links_close(struct tt_verbs *v)
{
    for (uint32_t i = 0; v->links && i < v->conf.nranks; i++) {
        struct tt_verbs_link *link = v->links[i];

        if (!link)
            continue;
        if (link->state != TT_VERBS_LOST)
            link_strip(link);
        if (link->mine)
            munmap(link->mine, mine_bytes(v));
        free(link);
    }
    free(v->links);
    free(v->active);
    v->links = NULL;
    v->active = NULL;
    v->nactive = 0;
}
