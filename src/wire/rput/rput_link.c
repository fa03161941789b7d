#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "wire/rput/rput.h"
#include "wire/tcp/tcp.h"

#define TCP_DONES 16

static const char *name_of(const struct tt_rput *r)
{
    return r->wire.ops->name;
}

/* Closes the inner connection, which notifies the peer that there is no link. */
static void tcp_end(struct tt_rput *r, uint32_t peer, const char *why)
{
    tt_tcp_link_lose(tt_sparse_get(&tt_tcp_of(r->tcp)->links, peer), TUTTI_ERR_PEER_LOST, why);
}

/* ---- set-up ---- */

/* Returns whether the list of active links has space for another one. */
static bool active_grow(struct tt_rput *r)
{
    const uint32_t depth = 2 * r->active_depth + 8;
    struct tt_rput_link **grown;

    if (r->nactive < r->active_depth)
        return true;
    grown = realloc(r->active, depth * sizeof *grown);
    if (!grown)
        return false;
    r->active = grown;
    r->active_depth = depth;
    return true;
}

/* Creates a link and enters it in the table and the active list. NULL: out of memory. */
static struct tt_rput_link *link_create(struct tt_rput *r, uint32_t peer)
{
    struct tt_rput_link *link = calloc(1, r->ops->link_bytes);

    if (!link || !active_grow(r) || !tt_sparse_set(&r->links, peer, link)) {
        free(link);
        tt_log(TT_LOG_WARN, "%s: out of memory for a link to rank %u", name_of(r), peer);
        return NULL;
    }
    link->rput = r;
    link->peer = link->news.peer = peer;
    r->active[r->nactive++] = link;
    return link;
}

static void *map(size_t bytes)
{
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return mem == MAP_FAILED ? NULL : mem;
}

static tutti_status link_map(struct tt_rput_link *link)
{
    const struct tt_rput *r = link->rput;

    link->mine = map(r->mine_bytes);
    link->local = r->local_bytes ? map(r->local_bytes) : NULL;
    if (link->mine && (link->local || r->local_bytes == 0))
        return TUTTI_OK;
    return tt_fail_errno(errno, "%s: cannot map memory for the link to rank %u", name_of(r),
                         link->peer);
}

/* The tcp wire has connected the peer. */
static void tcp_connected(struct tt_rput *r, uint32_t peer, const struct tt_link *tcp)
{
    struct tt_rput_link *link = link_create(r, peer);

    if (!link) {        /* tcp_lost tries again to create the link, to report its loss */
        tcp_end(r, peer, "out of memory for the link");
        return;
    }
    link->tcp = *tcp;
    r->mending = true;
    if (link_map(link) || r->ops->begin(link))
        tt_rput_link_lose(link, TUTTI_ERR_NOMEM, "cannot allocate its resources");
}

void tt_rput_link_up(struct tt_rput_link *link, const struct tt_rkey *theirs)
{
    const struct tt_link up = { .mine = link->mine,
                                .theirs = *theirs,
                                .anymem = true,
                                .round_trip_ns = link->tcp.round_trip_ns };

    link->state = TT_RPUT_UP;
    if (!link->was_up)
        tt_rput_news_up(&link->rput->news, &link->news, &up);
    link->was_up = true;
}

/* ---- loss ---- */

/* Frees everything but mine, which callers may still access. */
static void link_end(struct tt_rput_link *link)
{
    link->rput->ops->end(link);
    if (link->local)
        munmap(link->local, link->rput->local_bytes);
    link->local = NULL;
}

void tt_rput_link_lose(struct tt_rput_link *link, tutti_status status, const char *why)
{
    struct tt_rput *r = link->rput;

    if (link->state == TT_RPUT_LOST)
        return;
    tt_log(status == TUTTI_ERR_PEER_LOST || status == TUTTI_OK ? TT_LOG_INFO : TT_LOG_WARN,
           "%s: the link to rank %u ended: %s", name_of(r), link->peer, why);
    /* The peer would otherwise wait. This link is not polled any more; so if there is no space now,
     * closing the connection notifies the peer. */
    if (status != TUTTI_OK && link->tcp.mine && !tt_rput_refuse(link))
        tcp_end(r, link->peer, "cannot send the refusal of a link");
    link->state = TT_RPUT_LOST;
    link_end(link);
    for (uint32_t i = 0; i < r->nactive; i++)
        if (r->active[i] == link)
            r->active[i] = r->active[--r->nactive];
    link->status = status;
    tt_rput_news_lost(&r->news, &link->news, status);
}

/* The tcp connection has ended: applies what has arrived. */
static void tcp_lost(struct tt_rput *r, const struct tt_done *d)
{
    struct tt_rput_link *link = tt_sparse_get(&r->links, d->peer);

    if (!link)          /* the link was never set up */
        link = link_create(r, d->peer);
    else if (link->state != TT_RPUT_LOST)
        r->ops->drain(link);
    if (!link)
        return;
    link->tcp.mine = NULL;      /* no further message can be sent */
    tt_rput_link_lose(link, d->status,
                      d->status ? "the peer has ended, or is unreachable" : "closed by the peer");
}

/* ---- progress ---- */

void tt_rput_tcp_step(struct tt_rput *r)
{
    struct tt_done done[TCP_DONES];
    int n = TCP_DONES;

    while (n == TCP_DONES) {
        n = r->tcp->ops->poll(r->tcp, done, TCP_DONES);
        r->wire.unheard = r->tcp->unheard;       /* events of links */
        for (int i = 0; i < n; i++) {
            if (done[i].kind == TT_DONE_LINK_UP)
                tcp_connected(r, done[i].peer, &done[i].link);
            else if (done[i].kind == TT_DONE_LINK_LOST)
                tcp_lost(r, &done[i]);
        }
    }
}

void tt_rput_links_step(struct tt_rput *r)
{
    r->mending = false;
    for (uint32_t i = r->nactive; i-- > 0;) {
        struct tt_rput_link *link = r->active[i];

        if (tt_rput_is_refused(link))
            tt_rput_link_lose(link, TUTTI_ERR_PEER_LOST, "the peer ended the link");
        else
            r->ops->step(link);
        r->mending |= link->state == TT_RPUT_HANDSHAKE;
    }
}

/* ---- close, statistics ---- */

void tt_rput_links_free(struct tt_rput *r)
{
    struct tt_rput_link *link;
    uint32_t at = 0;

    while (r->nactive > 0)      /* all links before any is freed: processing their completions may
                                   touch other links */
        link_end(r->active[--r->nactive]);
    while ((link = tt_sparse_next(&r->links, &at))) {
        if (link->mine)
            munmap(link->mine, r->mine_bytes);
        free(link);
    }
    tt_sparse_fini(&r->links);
    free(r->active);
    r->active = NULL;
}

void tt_rput_links_memory(const struct tt_rput *r, tutti_memory *m)
{
    tutti_memory_part links = { .purpose = r->ops->purpose,
                                .shared = 1,
                                .peer_bytes = tt_sparse_bytes(&r->links) +
                                              r->active_depth * sizeof *r->active };
    const struct tt_rput_link *link;
    uint32_t at = 0;

    while ((link = tt_sparse_next(&r->links, &at))) {
        links.peer_bytes += r->ops->link_bytes + r->ops->bytes(link);
        links.peer_bytes += link->mine ? r->mine_bytes : 0;
        links.peer_bytes += link->local ? r->local_bytes : 0;
    }
    tt_memory_add(m, &links);
    r->tcp->ops->memory(r->tcp, m);
}

void tt_rput_lanes(struct tt_wire *w, bool next, tt_wire_lane_fn *add, void *arg)
{
    const struct tt_rput *r = (const struct tt_rput *)w;

    for (uint32_t i = 0; i < r->nactive; i++)
        if (r->active[i]->was_up)
            r->ops->lanes(r->active[i], next, add, arg);
}
