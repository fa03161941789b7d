/* The shared-memory wire: peers on one host write into each other's memory.
 *
 * Each link is a Unix socket (abstract name, sequenced packets), over which the two ends pass descriptors of their
 * memfds: the link region, the bell page, and every segment that is registered later. The socket's end tells a death. A put is a
 * copy and a release store; nothing else happens on the data path.
 *
 * A sleeper sets `asleep` in its bell page, issues an expedited membarrier, looks once more, and blocks on its eventfd. A
 * poster stores the signal, then looks at `asleep`: thanks to the sleeper's barrier it needs none of its own. Where the kernel
 * has no such barrier, posters fence. */
#include <errno.h>
#include <linux/membarrier.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "reduce/reduce.h"
#include "wire/shm_segment.h"
#include "wire/wires.h"

#define MAGIC 0x314d4853u           /* "SHM1" */
#define LOOK_EVERY 8                /* polls between looks at the sockets */
#define STRANGERS_MAX 16            /* connections that have not said hello yet */
#define HELLO_NS (5 * TT_SECOND)    /* how long they may take */
#define RETRY_NS (2 * TT_MS)
#define SEGMENTS_MAX 4096           /* segments one process may share */

enum packet_kind { PACKET_HELLO = 1, PACKET_SEGMENT, PACKET_FORGET, PACKET_BYE };

/* What goes over the socket; one format for all kinds. HELLO carries 3 descriptors, SEGMENT one. */
struct packet {
    uint32_t magic, kind;
    uint32_t rank, nranks;
    uint8_t secret[16];
    uint64_t id, bytes;             /* SEGMENT, FORGET: which; HELLO: bytes of the link region */
    uint32_t fence, pad;            /* HELLO: 1: this process cannot issue the barrier for sleepers */
};

/* One page per process, mapped by all its peers. */
struct bell_page {
    _Atomic uint32_t asleep;
};

/* A segment of ours or of a peer. */
struct shared {
    struct tt_segment seg;
    uint64_t id;
    struct tt_region region;        /* ours only */
    bool used;
};

enum link_state { LINK_NONE, LINK_WANTED, LINK_GREETING, LINK_UP, LINK_LOST };

struct shm_peer {
    enum link_state state;
    bool bye, fence;
    int fd;                         /* the socket; -1 none */
    int bell_fd;
    uint32_t segments_sent;         /* how many of w->shared it has been told of */
    uint64_t retry_ns;
    struct sockaddr_un addr;
    socklen_t addr_len;
    struct tt_segment mine, theirs, bell;
    struct shared *segments;        /* theirs, [nsegments] */
    uint32_t nsegments, segments_cap;
};

/* An accepted connection that has not said hello. */
struct stranger {
    int fd;
    uint64_t until_ns;
};

struct shm_wire {
    struct tt_wire base;
    struct tt_wire_conf conf;
    int listener, epoll, bell_fd;
    uint8_t name[16];
    uint64_t host;
    struct tt_segment bell;
    bool fence;                     /* no expedited membarrier here */
    bool armed;
    uint32_t polls;
    struct stranger strangers[STRANGERS_MAX];
    struct shm_peer *peers;         /* [nranks] */
    uint32_t nwanted;               /* peers in LINK_WANTED */
    struct shared *shared;          /* ours, in order of registration; [nshared] of SEGMENTS_MAX, never moved */
    uint32_t nshared;
    struct tt_done *done;           /* ring of [2 * nranks + 2] */
    uint32_t done_head, done_tail, done_cap;
};

static struct shm_wire *self_of(struct tt_wire *w) { return (struct shm_wire *)w; }

static struct bell_page *bell_of(const struct tt_segment *seg) { return seg->base; }

static void tell(struct shm_wire *w, const struct tt_done *d)
{
    tt_assert(w->done_tail - w->done_head < w->done_cap);
    w->done[w->done_tail++ % w->done_cap] = *d;
}

static void watch(struct shm_wire *w, int fd, uint64_t what, uint32_t events)
{
    struct epoll_event ev = { .events = events, .data.u64 = what };

    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
        tt_fail_errno(errno, "shm: watch a socket");
}

/* What an epoll entry means: a peer's socket, a stranger, the listener, the bell. */
#define WHAT_STRANGER (1ull << 32)
#define WHAT_LISTENER (2ull << 32)
#define WHAT_BELL (3ull << 32)

/* ---- packets ------------------------------------------------------------------------------------- */

/* Sends one packet with descriptors fds[nfds]. False if the socket takes none now (errno says why). */
static bool send_packet(int fd, const struct packet *p, const int *fds, int nfds)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(3 * sizeof(int))];
    } control = { 0 };
    struct iovec iov = { .iov_base = (void *)p, .iov_len = sizeof *p };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (nfds > 0) {
        struct cmsghdr *c;

        msg.msg_control = control.room;
        msg.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)nfds * sizeof(int));
    }
    return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof *p;
}

/* Receives one packet and up to 3 descriptors (-1 where none came). Returns 1: got one; 0: nothing now; -1: the end, or
 * garbage. All descriptors that came belong to the caller. */
static int recv_packet(int fd, struct packet *p, int fds[3])
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(3 * sizeof(int))];
    } control;
    struct iovec iov = { .iov_base = p, .iov_len = sizeof *p };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room,
    };
    ssize_t got;
    int n = 0;

    fds[0] = fds[1] = fds[2] = -1;
    do
        got = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN ? 0 : -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            memcpy(fds, CMSG_DATA(c), (size_t)(n < 3 ? n : 3) * sizeof(int));
        }
    if (got != (ssize_t)sizeof *p || p->magic != MAGIC || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return -1;
    return 1;
}

static void close_fds(int fds[3])
{
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0) {
            close(fds[i]);
            fds[i] = -1;
        }
}

static struct packet packet_of(const struct shm_wire *w, enum packet_kind kind)
{
    struct packet p = { .magic = MAGIC, .kind = kind, .rank = w->conf.rank, .nranks = w->conf.nranks };

    if (w->conf.secret)         /* closing before the job is known */
        memcpy(p.secret, w->conf.secret, sizeof p.secret);
    return p;
}

static bool send_hello(struct shm_wire *w, struct shm_peer *peer, int fd)
{
    struct packet p = packet_of(w, PACKET_HELLO);
    const int fds[3] = { peer->mine.fd, w->bell.fd, w->bell_fd };

    p.bytes = w->conf.link_bytes;
    p.fence = w->fence;
    return send_packet(fd, &p, fds, 3);
}

/* Tells a peer of the segments that it does not know yet; stops when its socket is full and goes on in a later poll. */
static void send_segments(struct shm_wire *w, struct shm_peer *peer)
{
    while (peer->state == LINK_UP && peer->segments_sent < w->nshared) {
        const struct shared *s = &w->shared[peer->segments_sent];

        if (s->used) {
            struct packet p = packet_of(w, PACKET_SEGMENT);

            p.id = s->id;
            p.bytes = s->seg.bytes;
            if (!send_packet(peer->fd, &p, &s->seg.fd, 1))
                return;
        }
        peer->segments_sent++;
    }
}

/* ---- links -------------------------------------------------------------------------------------------- */

static void link_lost(struct shm_wire *w, uint32_t rank, tutti_status why)
{
    struct shm_peer *peer = &w->peers[rank];

    if (peer->state == LINK_LOST)
        return;
    if (peer->state == LINK_WANTED)
        w->nwanted--;
    peer->state = LINK_LOST;
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
    tell(w, &(struct tt_done){ .kind = TT_DONE_LINK_LOST, .peer = rank, .status = peer->bye ? TUTTI_OK : why });
}

/* A valid hello came: maps what it brings. On error the descriptors are closed all the same. */
static tutti_status take_hello(struct shm_wire *w, uint32_t rank, const struct packet *p, int fds[3])
{
    struct shm_peer *peer = &w->peers[rank];
    tutti_status st;
    int fd;

    if (fds[0] < 0 || fds[1] < 0 || fds[2] < 0 || p->bytes != w->conf.link_bytes) {
        close_fds(fds);
        return tt_fail(TUTTI_ERR_PROTOCOL, "shm: rank %u greets without its descriptors, or with a link of %llu bytes, not %llu", rank,
                       (unsigned long long)p->bytes, (unsigned long long)w->conf.link_bytes);
    }
    fd = fds[0];
    fds[0] = -1;
    st = tt_segment_attach(&peer->theirs, fd, p->bytes);
    if (st)
        goto close;
    fd = fds[1];
    fds[1] = -1;
    st = tt_segment_attach(&peer->bell, fd, sizeof(struct bell_page));
    if (st)
        goto detach;
    peer->bell_fd = fds[2];
    peer->fence = w->fence || p->fence;
    return TUTTI_OK;

detach:
    tt_segment_fini(&peer->theirs);
close:
    close_fds(fds);
    return st;
}

static void link_up(struct shm_wire *w, uint32_t rank)
{
    struct shm_peer *peer = &w->peers[rank];

    peer->state = LINK_UP;
    peer->segments_sent = 0;
    send_segments(w, peer);
    tell(w, &(struct tt_done){
        .kind = TT_DONE_LINK_UP, .peer = rank,
        .link = {
            .mine = peer->mine.base,
            .theirs = { .wire = &w->base, .peer = rank, .mapped = peer->theirs.base, .bytes = w->conf.link_bytes },
        },
    });
}

static tutti_status need_mine(struct shm_wire *w, struct shm_peer *peer)
{
    return peer->mine.base ? TUTTI_OK : tt_segment_create(&peer->mine, w->conf.link_bytes);
}

/* Begins (again) to connect. A refused connection means that nobody listens any more: the peer is gone. */
static void try_connect(struct shm_wire *w, uint32_t rank)
{
    struct shm_peer *peer = &w->peers[rank];
    int fd;

    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        link_lost(w, rank, tt_fail_errno(errno, "shm: a socket to rank %u", rank));
        return;
    }
    if (connect(fd, (struct sockaddr *)&peer->addr, peer->addr_len) < 0) {
        const int err = errno;

        close(fd);
        if (err == EAGAIN) {        /* its backlog is full */
            peer->retry_ns = tt_now_ns() + RETRY_NS;
            return;
        }
        tt_log(TT_LOG_INFO, "shm: connect to rank %u: %s", rank, strerror(err));
        link_lost(w, rank, TUTTI_ERR_PEER_LOST);
        return;
    }
    peer->fd = fd;
    if (peer->state == LINK_WANTED)
        w->nwanted--;
    peer->state = LINK_GREETING;
    if (!send_hello(w, peer, fd)) {
        link_lost(w, rank, tt_fail_errno(errno, "shm: greet rank %u", rank));
        return;
    }
    watch(w, fd, rank, EPOLLIN);
}

static tutti_status shm_connect(struct tt_wire *base, uint32_t rank, const struct tt_blob *address)
{
    struct shm_wire *w = self_of(base);
    struct shm_peer *peer = &w->peers[rank];
    struct tt_reader r;
    uint8_t name[16];
    tutti_status st;

    tt_reader_init(&r, address->data, address->bytes);
    if (tt_read_u32(&r) != MAGIC || tt_read_u64(&r) != w->host)
        return TUTTI_ERR_UNSUPPORTED;
    tt_read_bytes(&r, name, sizeof name);
    if (r.bad || rank >= w->conf.nranks || rank == w->conf.rank)
        return TUTTI_ERR_UNSUPPORTED;
    if (peer->state != LINK_NONE)
        return TUTTI_OK;
    st = need_mine(w, peer);
    if (st)
        return st;
    peer->addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(peer->addr.sun_path + 1, "tutti-", 6);
    for (int i = 0; i < 16; i++)
        snprintf(peer->addr.sun_path + 7 + 2 * i, 3, "%02x", name[i]);
    peer->addr_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 7 + 32);
    peer->state = LINK_WANTED;
    w->nwanted++;
    try_connect(w, rank);
    return TUTTI_OK;
}

/* Both ends may connect at once: the lower rank's connection stays. A higher rank whose own attempt is closed waits for the
 * lower one's to come. */
static void greeting_ended(struct shm_wire *w, uint32_t rank)
{
    struct shm_peer *peer = &w->peers[rank];

    close(peer->fd);
    peer->fd = -1;
    peer->state = LINK_WANTED;
    peer->retry_ns = tt_now_ns() + RETRY_NS;
    w->nwanted++;
}

/* A stranger said a valid hello as `rank`: it becomes that peer's link unless another one stands or is preferred. Owns fd and fds. */
static void welcome(struct shm_wire *w, int fd, const struct packet *p, int fds[3])
{
    struct shm_peer *peer = &w->peers[p->rank];
    const bool ours_wins = peer->state == LINK_GREETING && w->conf.rank < p->rank;

    if (peer->state == LINK_UP || peer->state == LINK_LOST || ours_wins || need_mine(w, peer)) {
        close_fds(fds);
        close(fd);
        return;
    }
    if (peer->fd >= 0)
        close(peer->fd);
    if (peer->state == LINK_WANTED)
        w->nwanted--;
    peer->fd = fd;
    if (take_hello(w, p->rank, p, fds) || !send_hello(w, peer, fd)) {
        peer->state = LINK_GREETING;
        link_lost(w, p->rank, TUTTI_ERR_PROTOCOL);
        return;
    }
    watch(w, fd, p->rank, EPOLLIN);
    link_up(w, p->rank);
}

static bool hello_is_valid(const struct shm_wire *w, const struct packet *p)
{
    uint8_t differ = 0;

    for (size_t i = 0; i < sizeof p->secret; i++)
        differ |= p->secret[i] ^ w->conf.secret[i];
    return p->kind == PACKET_HELLO && !differ && p->nranks == w->conf.nranks && p->rank < w->conf.nranks &&
           p->rank != w->conf.rank;
}

static void hear_stranger(struct shm_wire *w, struct stranger *s)
{
    struct packet p;
    int fds[3], got;
    const int fd = s->fd;

    got = recv_packet(fd, &p, fds);
    if (got == 0)
        return;
    s->fd = -1;
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, fd, NULL);
    if (got < 0 || !hello_is_valid(w, &p)) {
        tt_log(TT_LOG_WARN, "shm: dropped a connection that does not belong to this job");
        close_fds(fds);
        close(fd);
        return;
    }
    welcome(w, fd, &p, fds);
}

static void accept_strangers(struct shm_wire *w)
{
    for (int i = 0; i < STRANGERS_MAX; i++) {
        struct stranger *s = &w->strangers[i];

        if (s->fd >= 0)
            continue;
        s->fd = accept4(w->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (s->fd < 0)
            return;
        s->until_ns = tt_now_ns() + HELLO_NS;
        watch(w, s->fd, WHAT_STRANGER | (uint64_t)i, EPOLLIN);
        hear_stranger(w, s);
    }
}

/* Drops strangers that took too long, and tries wanted links again. */
static void keep_time(struct shm_wire *w)
{
    const uint64_t now = tt_now_ns();

    for (int i = 0; i < STRANGERS_MAX; i++)
        if (w->strangers[i].fd >= 0 && now > w->strangers[i].until_ns) {
            close(w->strangers[i].fd);
            w->strangers[i].fd = -1;
        }
    for (uint32_t r = 0; w->nwanted && r < w->conf.nranks; r++)
        if (w->peers[r].state == LINK_WANTED && now > w->peers[r].retry_ns)
            try_connect(w, r);
}

/* ---- a peer's packets ------------------------------------------------------------------------------------- */

static void add_segment(struct shm_wire *w, uint32_t rank, const struct packet *p, int fds[3])
{
    struct shm_peer *peer = &w->peers[rank];
    struct tt_segment seg;
    const int fd = fds[0];

    fds[0] = -1;
    if (fd < 0 || peer->nsegments >= SEGMENTS_MAX) {
        if (fd >= 0)
            close(fd);
        link_lost(w, rank,
                  tt_fail(TUTTI_ERR_PROTOCOL, "shm: rank %u shares a segment without memory, or more than %u", rank,
                          SEGMENTS_MAX));
        return;
    }
    if (tt_segment_attach(&seg, fd, p->bytes)) {
        link_lost(w, rank, TUTTI_ERR_PROTOCOL);
        return;
    }
    if (peer->nsegments == peer->segments_cap) {
        const uint32_t cap = peer->segments_cap ? 2 * peer->segments_cap : 8;
        struct shared *more = realloc(peer->segments, cap * sizeof *more);

        tt_assert(more);
        peer->segments = more;
        peer->segments_cap = cap;
    }
    peer->segments[peer->nsegments++] = (struct shared){ .seg = seg, .id = p->id, .used = true };
}

/* The peer has deregistered it. Keys that were imported may still be in use: what is put through them must land nowhere. */
static void forget_segment(struct shm_peer *peer, uint64_t id)
{
    for (uint32_t i = 0; i < peer->nsegments; i++)
        if (peer->segments[i].id == id) {
            tt_segment_detach(&peer->segments[i].seg);
            peer->segments[i].id = 0;
            return;
        }
}

/* Reads what a peer's socket holds. */
static void hear_peer(struct shm_wire *w, uint32_t rank)
{
    struct shm_peer *peer = &w->peers[rank];

    while (peer->fd >= 0) {
        struct packet p;
        int fds[3];
        const int got = recv_packet(peer->fd, &p, fds);

        if (got == 0)
            return;
        if (got < 0 && peer->state == LINK_GREETING) {
            greeting_ended(w, rank);
        } else if (got < 0) {
            link_lost(w, rank, TUTTI_ERR_PEER_LOST);
        } else if (peer->state == LINK_GREETING) {
            if (!hello_is_valid(w, &p) || p.rank != rank || take_hello(w, rank, &p, fds))
                link_lost(w, rank, TUTTI_ERR_PROTOCOL);
            else {
                fds[0] = fds[1] = fds[2] = -1;
                link_up(w, rank);
            }
        } else if (p.kind == PACKET_SEGMENT) {
            add_segment(w, rank, &p, fds);
        } else if (p.kind == PACKET_FORGET) {
            forget_segment(peer, p.id);
        } else if (p.kind == PACKET_BYE) {
            peer->bye = true;
        }
        close_fds(fds);
    }
}

static void look_at_sockets(struct shm_wire *w)
{
    struct epoll_event ev[32];
    const int n = epoll_wait(w->epoll, ev, 32, 0);

    for (int i = 0; i < n; i++) {
        const uint64_t what = ev[i].data.u64;

        if (what == WHAT_LISTENER) {
            accept_strangers(w);
        } else if (what == WHAT_BELL) {
            uint64_t rings;

            if (read(w->bell_fd, &rings, sizeof rings) < 0 && errno != EAGAIN)
                tt_fail_errno(errno, "shm: read the bell");
        } else if (what & WHAT_STRANGER) {
            if (w->strangers[what & 0xff].fd >= 0)
                hear_stranger(w, &w->strangers[what & 0xff]);
        } else {
            hear_peer(w, (uint32_t)what);
        }
    }
    for (uint32_t r = 0; r < w->conf.nranks; r++)
        if (w->peers[r].state == LINK_UP && w->peers[r].segments_sent < w->nshared)
            send_segments(w, &w->peers[r]);
    keep_time(w);
}

static int shm_poll(struct tt_wire *base, struct tt_done *done, int max)
{
    struct shm_wire *w = self_of(base);
    int n = 0;

    if (w->armed || ++w->polls % LOOK_EVERY == 0 || w->nwanted) {
        if (w->armed)
            atomic_store_explicit(&bell_of(&w->bell)->asleep, 0, memory_order_relaxed);
        w->armed = false;
        look_at_sockets(w);
    }
    while (n < max && w->done_head != w->done_tail)
        done[n++] = w->done[w->done_head++ % w->done_cap];
    return n;
}

static void barrier_for_sleepers(const struct shm_wire *w)
{
    if (w->fence || syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) < 0)
        __sync_synchronize();      /* not the fence of C11: the thread sanitizer has no notion of that */
}

static int shm_arm(struct tt_wire *base)
{
    struct shm_wire *w = self_of(base);

    if (w->done_head != w->done_tail || w->nwanted)
        return -1;
    w->armed = true;
    atomic_store_explicit(&bell_of(&w->bell)->asleep, 1, memory_order_relaxed);
    barrier_for_sleepers(w);
    return w->epoll;
}

/* ---- puts ---------------------------------------------------------------------------------------------------- */

static void ring(struct shm_peer *peer)
{
    const uint64_t one = 1;

    if (peer->fence)
        __sync_synchronize();      /* not the fence of C11: the thread sanitizer has no notion of that */
    else
        atomic_signal_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&bell_of(&peer->bell)->asleep, memory_order_relaxed) == 0)
        return;
    if (atomic_exchange_explicit(&bell_of(&peer->bell)->asleep, 0, memory_order_relaxed))
        if (write(peer->bell_fd, &one, sizeof one) < 0 && errno != EAGAIN)
            tt_fail_errno(errno, "shm: ring a bell");
}

static void put_one(struct shm_wire *w, const struct tt_desc *d)
{
    struct shm_peer *peer;

    if (d->kind == TT_DESC_FENCE)
        return;                     /* stores of one thread are seen in order */
    peer = &w->peers[d->kind == TT_DESC_PUT && d->bytes ? d->key->peer : d->signal_key->peer];
    if (peer->state != LINK_UP)
        return;
    if (d->bytes) {
        tt_assert(d->offset <= d->key->bytes && d->bytes <= d->key->bytes - d->offset);
        tt_copy((char *)d->key->mapped + d->offset, NULL, d->local, d->bytes, d->flags & TT_DESC_STREAM);
    }
    if (d->signal_op != TT_SIGNAL_NONE) {
        _Atomic uint64_t *word = (void *)((char *)d->signal_key->mapped + d->signal_offset);

        tt_assert(d->signal_offset % 8 == 0 && d->signal_offset + 8 <= d->signal_key->bytes);
        if (d->signal_op == TT_SIGNAL_SET)
            atomic_store_explicit(word, d->signal_value, memory_order_release);
        else
            atomic_fetch_add_explicit(word, d->signal_value, memory_order_release);
        ring(peer);
    }
}

static int shm_post(struct tt_wire *base, const struct tt_desc *desc, int n)
{
    struct shm_wire *w = self_of(base);

    for (int i = 0; i < n; i++) {
        if (desc[i].flags & TT_DESC_REMOTE) {
            if (w->done_tail - w->done_head >= w->done_cap - w->conf.nranks - 1)
                return i;
            put_one(w, &desc[i]);
            if (w->peers[desc[i].key->peer].state == LINK_UP)
                tell(w,
                     &(struct tt_done){ .kind = TT_DONE_REMOTE, .peer = desc[i].key->peer, .cookie = desc[i].cookie });
            continue;
        }
        put_one(w, &desc[i]);
    }
    return n;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static tutti_status shm_reg(struct tt_wire *base, void *mem, size_t bytes, struct tt_region **out)
{
    struct shm_wire *w = self_of(base);
    struct tt_writer wr;
    struct shared *s;
    tutti_status st;

    if (mem)
        return TUTTI_ERR_UNSUPPORTED;
    if (w->nshared == SEGMENTS_MAX)
        return tt_fail(TUTTI_ERR_NOMEM, "shm: more than %u segments", SEGMENTS_MAX);
    s = &w->shared[w->nshared];
    st = tt_segment_create(&s->seg, bytes);
    if (st)
        return st;
    s->id = w->nshared + 1;
    s->used = true;
    s->region = (struct tt_region){ .wire = base, .mem = s->seg.base, .bytes = bytes };
    tt_writer_init(&wr, s->region.key.data, TT_KEY_BYTES);
    tt_write_u32(&wr, MAGIC);
    tt_write_u64(&wr, s->id);
    tt_write_u64(&wr, bytes);
    s->region.key.bytes = (uint16_t)tt_writer_bytes(&wr);
    w->nshared++;
    for (uint32_t r = 0; r < w->conf.nranks; r++)
        send_segments(w, &w->peers[r]);
    *out = &s->region;
    return TUTTI_OK;
}

/* Peers may have it mapped and a late writer may still write there; the memory is theirs then, no longer ours: our mapping
 * goes, so nothing of ours can change. */
static void shm_dereg(struct tt_region *region)
{
    struct shm_wire *w = self_of(region->wire);
    struct shared *s = (struct shared *)((char *)region - offsetof(struct shared, region));
    struct packet p = packet_of(w, PACKET_FORGET);

    p.id = s->id;
    for (uint32_t r = 0; r < w->conf.nranks; r++)
        if (w->peers[r].state == LINK_UP && w->peers[r].segments_sent >= s->id)
            send_packet(w->peers[r].fd, &p, NULL, 0);   /* a full socket only means that it stays mapped there longer */
    tt_segment_fini(&s->seg);
    s->used = false;
}

static tutti_status shm_import(struct tt_wire *base, uint32_t rank, const struct tt_blob *key, struct tt_rkey *out)
{
    struct shm_wire *w = self_of(base);
    struct shm_peer *peer = &w->peers[rank];
    struct tt_reader r;
    uint64_t id, bytes;

    tt_reader_init(&r, key->data, key->bytes);
    if (tt_read_u32(&r) != MAGIC)
        r.bad = true;
    id = tt_read_u64(&r);
    bytes = tt_read_u64(&r);
    if (r.bad || id == 0)
        return tt_fail(TUTTI_ERR_PROTOCOL, "shm: rank %u sent a key that is none of shared memory", rank);
    for (int tries = 0; tries < 2; tries++) {
        for (uint32_t i = 0; i < peer->nsegments; i++)
            if (peer->segments[i].id == id) {
                if (bytes > peer->segments[i].seg.bytes)
                    return tt_fail(TUTTI_ERR_PROTOCOL, "shm: rank %u claims more of a segment than there is", rank);
                *out = (struct tt_rkey){
                    .wire = base, .peer = rank, .mapped = peer->segments[i].seg.base, .bytes = bytes
                };
                return TUTTI_OK;
            }
        hear_peer(w, rank);
    }
    return peer->state == LINK_UP ? TUTTI_PENDING : TUTTI_ERR_PEER_LOST;
}

/* ---- open and close --------------------------------------------------------------------------------------------- */

static tutti_status open_listener(struct shm_wire *w)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    const socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 7 + 32);

    tt_random_bytes(w->name, sizeof w->name);
    memcpy(addr.sun_path + 1, "tutti-", 6);
    for (int i = 0; i < 16; i++)
        snprintf(addr.sun_path + 7 + 2 * i, 3, "%02x", w->name[i]);
    w->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (w->listener < 0)
        return tt_fail_errno(errno, "shm: a socket to listen on");
    if (bind(w->listener, (struct sockaddr *)&addr, len) < 0 || listen(w->listener, 128) < 0)
        return tt_fail_errno(errno, "shm: listen on a Unix socket");
    return TUTTI_OK;
}

static void shm_close(struct tt_wire *base)
{
    struct shm_wire *w = self_of(base);
    const struct packet bye = packet_of(w, PACKET_BYE);

    for (uint32_t r = 0; w->peers && r < w->conf.nranks; r++) {
        struct shm_peer *peer = &w->peers[r];

        if (peer->state == LINK_UP)
            send_packet(peer->fd, &bye, NULL, 0);
        if (peer->fd >= 0)
            close(peer->fd);
        for (uint32_t i = 0; i < peer->nsegments; i++)
            tt_segment_fini(&peer->segments[i].seg);
        free(peer->segments);
        if (peer->theirs.base) {
            tt_segment_fini(&peer->theirs);
            tt_segment_fini(&peer->bell);
            close(peer->bell_fd);
        }
        if (peer->mine.base)
            tt_segment_fini(&peer->mine);
    }
    for (uint32_t i = 0; i < w->nshared; i++)
        if (w->shared[i].used)
            tt_segment_fini(&w->shared[i].seg);
    for (int i = 0; i < STRANGERS_MAX; i++)
        if (w->strangers[i].fd >= 0)
            close(w->strangers[i].fd);
    if (w->bell.base)
        tt_segment_fini(&w->bell);
    if (w->listener >= 0)
        close(w->listener);
    if (w->bell_fd >= 0)
        close(w->bell_fd);
    if (w->epoll >= 0)
        close(w->epoll);
    free(w->shared);
    free(w->peers);
    free(w->done);
    free(w);
}

static tutti_status shm_open(struct tt_wire **out, const struct tt_wire_conf *conf)
{
    struct shm_wire *w = calloc(1, sizeof *w);
    tutti_status st;

    if (!w)
        return tt_fail(TUTTI_ERR_NOMEM, "shm: no memory");
    w->base.caps = TT_WIRE_CAP_INSTANT | TT_WIRE_CAP_ORDERED | TT_WIRE_CAP_MAPPED;
    w->conf = *conf;
    w->listener = w->epoll = w->bell_fd = -1;
    for (int i = 0; i < STRANGERS_MAX; i++)
        w->strangers[i].fd = -1;
    w->done_cap = 2 * conf->nranks + 64;
    w->done = calloc(w->done_cap, sizeof *w->done);
    w->peers = calloc(conf->nranks, sizeof *w->peers);
    w->shared = calloc(SEGMENTS_MAX, sizeof *w->shared);    /* regions are handed out by address: never moved */
    if (!w->done || !w->peers || !w->shared) {
        st = tt_fail(TUTTI_ERR_NOMEM, "shm: no memory for %u peers", conf->nranks);
        goto close;
    }
    for (uint32_t r = 0; r < conf->nranks; r++)
        w->peers[r].fd = w->peers[r].bell_fd = -1;
    st = tt_segment_create(&w->bell, sizeof(struct bell_page));
    if (st)
        goto close;
    w->host = tt_host_hash();    /* abstract sockets and memory are reached where this is equal */
    w->fence = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) < 0;
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->epoll < 0 || w->bell_fd < 0) {
        st = tt_fail_errno(errno, "shm: descriptors to wait on");
        goto close;
    }
    st = open_listener(w);
    if (st)
        goto close;
    watch(w, w->listener, WHAT_LISTENER, EPOLLIN);
    watch(w, w->bell_fd, WHAT_BELL, EPOLLIN);
    w->base.ops = &tt_wire_shm;
    *out = &w->base;
    return TUTTI_OK;

close:
    shm_close(&w->base);
    return st;
}

static tutti_status shm_address(struct tt_wire *base, struct tt_blob *out)
{
    struct shm_wire *w = self_of(base);
    struct tt_writer wr;

    tt_writer_init(&wr, out->data, sizeof out->data);
    tt_write_u32(&wr, MAGIC);
    tt_write_u64(&wr, w->host);
    tt_write_bytes(&wr, w->name, sizeof w->name);
    out->bytes = (uint16_t)tt_writer_bytes(&wr);
    return TUTTI_OK;
}

const struct tt_wire_ops tt_wire_shm = {
    .name = "shm", .summary = "shared memory between ranks of one host",
    .open = shm_open, .close = shm_close, .address = shm_address, .connect = shm_connect,
    .reg = shm_reg, .dereg = shm_dereg, .import = shm_import,
    .post = shm_post, .poll = shm_poll, .arm = shm_arm,
};
