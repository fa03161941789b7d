/* The shared-memory transport: processes of one host write into each other's memory. For memory
 * that is not shared, the receiver reads from the sender: shm_cma.c.
 *
 * Each link is a Unix socket (abstract name, sequenced packets). Over it both ends pass descriptors
 * of their memfds: the link region, the bell page, and each segment registered later. Its
 * end-of-file signals the peer's death. A put is a copy and a release store; the data path has
 * nothing else.
 *
 * A sleeper sets `asleep` in its bell page, issues an expedited membarrier, checks once more, and
 * blocks on its eventfd. A poster stores the signal, then reads `asleep`. The sleeper's barrier
 * saves the poster its own. If the kernel has no such barrier, or many ranks share a core
 * (tt_wire.sleepy), posters issue a fence instead. The membarrier interrupts all cores: it took a
 * quarter of the time to start 1,024 ranks on two cores. */
#include "wire/shm/shm.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/host.h"
#include "base/prng.h"
#include "base/status.h"
#include "wire/copy_policy.h"

#define LOOK_EVERY 64               /* polls between checks of the sockets */
/* maximum polls in a row that serve no pull requests while other work is urgent: a copy takes long,
 * and a peer may wait for that work */
#define PUT_OFF_MAX 4
/* ---- progress ---- */

static int shm_poll(struct tt_wire *base, struct tt_done *done, int max)
{
    struct tt_shm *w = tt_shm_of(base);
    int n = 0;

    if (w->armed || ++w->polls % LOOK_EVERY == 0 || w->nwanted) {
        if (w->armed)
            atomic_store_explicit(&tt_shm_bell_of(&w->bell)->asleep, 0, memory_order_relaxed);
        w->armed = false;
        tt_shm_poll_sockets(w);
    }
    if (!w->base.busy || ++w->put_off >= PUT_OFF_MAX) {
        w->put_off = 0;
        if (!tt_shm_serve(w) && w->npulls && !w->base.crowded)
            tt_shm_share_help(w);
    }
    if (w->npulls)
        n = tt_shm_pulls_poll(w, done, max);     /* before the report that the link is lost */
    while (n < max && w->done_head != w->done_tail)
        done[n++] = w->done[w->done_head++ % w->done_cap];
    return n;
}

static void barrier_for_sleepers(const struct tt_shm *w)
{
    if (tt_shm_posters_fence(w) ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) < 0)
        __sync_synchronize();      /* not C11's fence, which the thread sanitizer does not model */
}

static int shm_arm(struct tt_wire *base)
{
    struct tt_shm *w = tt_shm_of(base);

    if (w->done_head != w->done_tail || w->nwanted)
        return -1;
    w->armed = true;
    atomic_store_explicit(&tt_shm_bell_of(&w->bell)->asleep, 1, memory_order_relaxed);
    barrier_for_sleepers(w);
    return tt_shm_serve_has_news(w) ? -1 : w->epoll;
}

/* ---- puts ---- */

/* Copies, then signals. */
static void put_mapped(struct tt_shm_peer *peer, const struct tt_desc *d)
{
    if (d->bytes) {
        char *dst = (char *)d->key->mapped + d->offset;

        tt_assert(d->offset <= d->key->bytes && d->bytes <= d->key->bytes - d->offset);
        tt_copy_to_peer(&peer->stores, d->copy, dst, d->local, d->bytes);
    }
    if (d->signal_op != TT_SIGNAL_NONE) {
        _Atomic uint64_t *word = (void *)((char *)d->signal_key->mapped + d->signal_offset);

        tt_assert(d->signal_offset % 8 == 0 && d->signal_offset + 8 <= d->signal_key->bytes);
        if (d->signal_op == TT_SIGNAL_SET)
            atomic_store_explicit(word, d->signal_value, memory_order_release);
        else
            atomic_fetch_add_explicit(word, d->signal_value, memory_order_release);
    }
    if (d->signal_op != TT_SIGNAL_NONE || d->flags & TT_DESC_WAKE)
        tt_shm_ring(peer);
}

/* Returns whether the put needs a pull request: the target is not mapped, or, to keep the order, a
 * signal follows pending requests. */
static bool needs_pull(const struct tt_shm_peer *peer, const struct tt_desc *d)
{
    if (!d->key->mapped)
        return true;
    return d->signal_op != TT_SIGNAL_NONE &&
           (!d->signal_key->mapped || (peer->npulls && !(d->flags & TT_DESC_URGENT)));
}

/* Returns false if there is no space now. */
static bool shm_post_one(struct tt_shm *w, const struct tt_desc *d)
{
    struct tt_shm_peer *peer;

    if (d->kind == TT_DESC_FENCE)
        return true;            /* stores of one thread are visible in order */
    peer = tt_shm_peer_of(w, d->key->peer);
    if (!peer || peer->state != TT_SHM_UP)
        return true;
    if (needs_pull(peer, d)) {
        if (!tt_shm_pull(w, peer, d))
            return false;
        tt_wire_posts_add(&peer->posts, d->bytes + d->operand);
        return true;
    }
    if (d->flags & TT_DESC_REMOTE &&
        w->done_tail - w->done_head >= w->done_cap - 2 * w->peers.n - 1)
        return false;
    put_mapped(peer, d);
    tt_wire_posts_add(&peer->posts, d->bytes + d->operand);
    if (d->flags & TT_DESC_REMOTE)
        tt_shm_complete(w, &(struct tt_done){
                               .kind = TT_DONE_REMOTE, .peer = d->key->peer, .cookie = d->cookie });
    return true;
}

static int shm_post(struct tt_wire *base, const struct tt_desc *desc, int n)
{
    int i = 0;

    while (i < n && shm_post_one(tt_shm_of(base), &desc[i]))
        i++;
    return i;
}

static void shm_take_back(struct tt_wire *base, uint64_t cookie, uint64_t mask)
{
    tt_shm_revoke_cookies(tt_shm_of(base), cookie, mask);
}

/* A link is one lane. Only pull requests are outstanding; other puts complete at once. */
static void shm_lanes(struct tt_wire *base, bool next, tt_wire_lane_fn *add, void *arg)
{
    const struct tt_shm *w = tt_shm_of(base);

    for (uint32_t i = 0; i < w->nlinks; i++) {
        struct tt_shm_peer *peer = w->links[i];
        struct tt_wire_lane lane = tt_wire_posts_read(&peer->posts, peer->rank, 0, next);

        if (peer->state != TT_SHM_UP)
            continue;
        lane.is_up = true;
        lane.outstanding = peer->npulls;
        lane.outstanding_bytes = tt_shm_pulls_pending_bytes(peer);
        add(arg, &lane);
    }
}

/* ---- open and close ---- */

static void shm_close(struct tt_wire *base)
{
    struct tt_shm *w = tt_shm_of(base);

    tt_shm_serve_close(w);
    tt_shm_guard_close(w);
    tt_shm_links_close(w);
    tt_shm_regions_close(w);
    for (int i = 0; i < TT_SHM_PENDING_MAX; i++)
        if (w->pending[i].fd >= 0)
            close(w->pending[i].fd);
    if (w->bell.base)
        tt_segment_fini(&w->bell);
    tt_acceptor_fini(&w->acceptor);
    if (w->bell_fd >= 0)
        close(w->bell_fd);
    if (w->epoll >= 0)
        close(w->epoll);
    free(w->shared);
    tt_sparse_fini(&w->peers);
    tt_slab_fini(&w->peer_slab);
    free(w->done);
    free(w);
}

/* Counts the free descriptors, and the links for which they suffice. */
static void count_possible_links(struct tt_shm *w, uint32_t npeers)
{
    const uint32_t most = npeers < TT_SHM_LINKS_COUNTED ? npeers : TT_SHM_LINKS_COUNTED;
    const uint32_t free = tt_descriptors_free(TT_SHM_RESERVE + TT_SHM_LINK_DESCRIPTORS * most);

    w->descriptors_free = free;
    w->links_max = free > TT_SHM_RESERVE ? (free - TT_SHM_RESERVE) / TT_SHM_LINK_DESCRIPTORS : 0;
}

static tutti_status shm_open(struct tt_wire **out, const struct tt_wire_conf *conf)
{
    struct tt_shm *w = calloc(1, sizeof *w);
    tutti_status st;

    if (!w)
        return tt_fail(TUTTI_ERR_NOMEM, "shm: out of memory for the transport");
    w->base.caps = TT_WIRE_CAP_INSTANT | TT_WIRE_CAP_ORDERED | TT_WIRE_CAP_MAPPED;
    w->conf = *conf;
    w->acceptor.listener = w->epoll = w->bell_fd = -1;
    for (int i = 0; i < TT_SHM_PENDING_MAX; i++)
        w->pending[i].fd = -1;
    w->peer_slab.bytes = sizeof(struct tt_shm_peer);
    w->done_cap = TT_SHM_DONES;
    w->done = calloc(w->done_cap, sizeof *w->done);
    /* regions are used by address, so the array never moves */
    w->shared = calloc(TT_SHM_SEGMENTS_MAX, sizeof *w->shared);
    if (!w->done || !w->shared) {
        st = tt_fail(TUTTI_ERR_NOMEM, "shm: out of memory for the transport");
        goto close;
    }
    if (tt_segment_create(&w->bell, sizeof(struct tt_shm_bell), TT_PAGES_LATER) != TUTTI_OK) {
        st = TUTTI_ERR_UNSUPPORTED;     /* whatever the cause, other transports may work */
        goto close;
    }
    w->host = tt_host_hash();    /* equal hashes: abstract sockets and memory are reachable */
    w->fence = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) < 0;
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->epoll < 0 || w->bell_fd < 0) {
        st = tt_fail_call(errno, "shm", w->epoll < 0 ? "epoll_create1" : "eventfd");
        goto close;
    }
    if (conf->cma)
        tt_shm_cma_open(w);
    st = tt_shm_listen(w);
    if (st)
        goto close;
    count_possible_links(w, conf->nranks - 1);
    w->base.ops = &tt_wire_shm;
    *out = &w->base;
    return TUTTI_OK;

close:
    shm_close(&w->base);
    return st;
}

static tutti_status shm_address(struct tt_wire *base, struct tt_blob *out)
{
    struct tt_shm *w = tt_shm_of(base);
    struct tt_writer wr;

    tt_writer_init(&wr, out->data, sizeof out->data);
    tt_write_u32(&wr, TT_SHM_MAGIC);
    tt_write_u64(&wr, w->host);
    tt_write_bytes(&wr, w->name, sizeof w->name);
    tt_write_u32(&wr, w->links_max);
    out->bytes = (uint16_t)tt_writer_bytes(&wr);
    return TUTTI_OK;
}

const struct tt_wire_ops tt_wire_shm = {
    .name = "shm",
    .summary = "shared memory between ranks of one host",
    .open = shm_open,
    .close = shm_close,
    .address = shm_address,
    .connect = tt_shm_connect,
    .reg = tt_shm_reg,
    .dereg = tt_shm_dereg,
    .take_back = shm_take_back,
    .withdraw = tt_shm_withdraw,
    .admit = tt_shm_admit,
    .import = tt_shm_import,
    .post = shm_post,
    .poll = shm_poll,
    .arm = shm_arm,
    .memory = tt_shm_memory,
    .lanes = shm_lanes,
};
