/* Links of the shm transport: sockets, handshake and packets. */
#include "wire/shm/shm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/prng.h"
#include "base/status.h"

#define HELLO_NS (5 * TT_SECOND)    /* timeout of connections before HELLO */
#define RETRY_NS (2 * TT_MS)

enum packet_kind { PACKET_HELLO = 1, PACKET_SEGMENT, PACKET_FORGET, PACKET_BYE };

/* A packet; one format for all kinds. HELLO carries 3 descriptors, SEGMENT one. */
struct packet {
    uint32_t magic, kind;
    uint32_t rank, nranks;
    uint8_t secret[16];
    uint64_t id, bytes;             /* SEGMENT: its id and size; HELLO: bytes of the link region */
    uint32_t fence;                 /* HELLO: 1: this process does not issue the membarrier of a
                                       sleeper */
    uint32_t slot;                  /* SEGMENT, FORGET: slot in the sender's table */
    uint64_t nonce_at, nonce;       /* HELLO: to verify reads of this process's memory; 0: reads
                                       are not allowed */
};

static void shm_watch(struct tt_shm *w, int fd, uint64_t what, uint32_t events)
{
    struct epoll_event ev = { .events = events, .data.u64 = what };

    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
        tt_fail_errno(errno, "shm: cannot watch a socket");
}

/* Meaning of an epoll entry: a peer's socket, a pending connection, the listener or the bell. */
#define WHAT_STRANGER (1ull << 32)
#define WHAT_LISTENER (2ull << 32)
#define WHAT_BELL (3ull << 32)

/* ---- packets ---- */

/* Sends one packet with descriptors fds[nfds]. Returns false if the socket accepts none now (see
 * errno). */
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

/* Stores the received descriptors; closes those past the third. */
static void take_fds(struct msghdr *msg, int fds[3])
{
    size_t n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (n < 3)
                fds[n++] = fd;
            else
                close(fd);
        }
    }
}

/* MSG_CTRUNC is set both if no descriptor is free and if a peer sends too many. */
static bool no_descriptor_is_free(void)
{
    const int fd = dup(STDERR_FILENO);
    const bool none = fd < 0 && (errno == EMFILE || errno == ENFILE);

    if (fd >= 0)
        close(fd);
    return none;
}

/* Receives one packet and up to 3 descriptors (-1 if missing). Returns 1: a packet; 0: none now;
 * -1: end of file or an invalid packet; -2: a packet whose descriptors were dropped because none
 * was free. The caller owns all received descriptors. A peer that closes without having read our
 * packets resets the connection. The kernel reports ECONNRESET once before the peer's last packets,
 * which include its BYE. */
static int recv_packet(int fd, struct packet *p, int fds[3])
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(3 * sizeof(int))];
    } control;
    struct iovec iov = { .iov_base = p, .iov_len = sizeof *p };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room,
        .msg_controllen = CMSG_LEN(3 * sizeof(int)),    /* with the full size, a fourth would fit */
    };
    ssize_t got;

    fds[0] = fds[1] = fds[2] = -1;
    do
        got = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && (errno == EINTR || errno == ECONNRESET));
    if (got < 0)
        return errno == EAGAIN ? 0 : -1;
    take_fds(&msg, fds);
    if (got != (ssize_t)sizeof *p || p->magic != TT_SHM_MAGIC || (msg.msg_flags & MSG_TRUNC))
        return -1;
    return msg.msg_flags & MSG_CTRUNC ? no_descriptor_is_free() ? -2 : -1 : 1;
}

static void close_fds(int fds[3])
{
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0) {
            close(fds[i]);
            fds[i] = -1;
        }
}

static struct packet packet_of(const struct tt_shm *w, enum packet_kind kind)
{
    struct packet p = {
        .magic = TT_SHM_MAGIC, .kind = kind, .rank = w->conf.rank, .nranks = w->conf.nranks
    };

    if (w->conf.secret)         /* NULL while closing before the job is known */
        memcpy(p.secret, w->conf.secret, sizeof p.secret);
    return p;
}

static bool send_hello(struct tt_shm *w, struct tt_shm_peer *peer, int fd)
{
    struct packet p = packet_of(w, PACKET_HELLO);
    const int fds[3] = { peer->mine.fd, w->bell.fd, w->bell_fd };

    p.bytes = w->conf.link_bytes;
    p.fence = tt_shm_posters_fence(w);
    p.nonce = w->nonce;
    p.nonce_at = w->nonce ? (uintptr_t)w->guard : 0;
    return send_packet(fd, &p, fds, 3);
}

/* Returns the slot with the first change after `change`; its intermediate contents are skipped. It
 * always exists, since the newest change is the last of its slot. */
static const struct tt_shm_shared *changed_after(const struct tt_shm *w, uint64_t change)
{
    const struct tt_shm_shared *found = NULL;

    for (uint32_t i = 0; i < w->nshared; i++) {
        const struct tt_shm_shared *s = &w->shared[i];

        if (s->change > change && (!found || s->change < found->change))
            found = s;
    }
    tt_assert(found);
    return found;
}

void tt_shm_send_changes(struct tt_shm *w, struct tt_shm_peer *peer)
{
    while (peer->state == TT_SHM_UP && peer->changes_sent < w->changes) {
        const struct tt_shm_shared *s = changed_after(w, peer->changes_sent);
        struct packet p = packet_of(w, s->used ? PACKET_SEGMENT : PACKET_FORGET);

        p.id = s->id;
        p.slot = (uint32_t)(s - w->shared);
        p.bytes = s->seg.bytes;
        if (!send_packet(peer->fd, &p, &s->seg.fd, s->used ? 1 : 0))
            return;
        peer->changes_sent = s->change;
    }
}

/* ---- links ---- */

void tt_shm_link_lost(struct tt_shm *w, struct tt_shm_peer *peer, tutti_status why)
{
    if (peer->state == TT_SHM_LOST)
        return;
    if (peer->state == TT_SHM_WANTED)
        w->nwanted--;
    peer->state = TT_SHM_LOST;
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
    peer->readable = false;
    tt_shm_share_close(w, peer);
    tt_shm_permits_close(w, peer);
    tt_shm_pulls_lost(w, peer);
    tt_shm_complete(w, &(struct tt_done){ .kind = TT_DONE_LINK_LOST,
                                          .peer = peer->rank,
                                          .status = peer->bye ? TUTTI_OK : why });
}

/* Fails all requested links that are not up, since no descriptor will become free for them. */
static void shm_lose_starved(struct tt_shm *w)
{
    struct tt_shm_peer *peer;
    uint32_t missing = 0;
    tutti_status st;

    for (uint32_t at = 0; (peer = tt_sparse_next(&w->peers, &at));)
        missing += peer->state == TT_SHM_WANTED || peer->state == TT_SHM_HANDSHAKE;
    if (!missing)
        return;
    st = tt_fail_descriptors("shm: cannot connect to ranks on this host",
                             TT_SHM_LINK_DESCRIPTORS * missing);
    for (uint32_t at = 0; (peer = tt_sparse_next(&w->peers, &at));)
        if (peer->state == TT_SHM_WANTED || peer->state == TT_SHM_HANDSHAKE)
            tt_shm_link_lost(w, peer, st);
}

/* Processes a valid HELLO: maps its segments. On error all descriptors are closed. */
static tutti_status take_hello_descriptors(struct tt_shm *w, struct tt_shm_peer *peer,
                                           const struct packet *p, int fds[3])
{
    tutti_status st;
    int fd;

    if (fds[0] < 0 || fds[1] < 0 || fds[2] < 0 || p->bytes != w->conf.link_bytes) {
        close_fds(fds);
        return tt_fail(
            TUTTI_ERR_PROTOCOL,
            "shm: protocol error: the handshake of rank %u lacks descriptors, or has a link "
            "of %llu bytes, not %llu",
            peer->rank, (unsigned long long)p->bytes, (unsigned long long)w->conf.link_bytes);
    }
    fd = fds[0];
    fds[0] = -1;
    st = tt_segment_attach(&peer->theirs, fd, tt_shm_link_bytes(w));
    if (st)
        goto close;
    fd = fds[1];
    fds[1] = -1;
    st = tt_segment_attach(&peer->bell, fd, sizeof(struct tt_shm_bell));
    if (st)
        goto detach;
    peer->bell_fd = fds[2];
    peer->fence = tt_shm_posters_fence(w) || p->fence;
    tt_shm_cma_check_peer(w, peer, p->nonce_at, p->nonce);
    return TUTTI_OK;

detach:
    tt_segment_fini(&peer->theirs);
close:
    close_fds(fds);
    return st;
}

static void shm_link_up(struct tt_shm *w, struct tt_shm_peer *peer)
{
    peer->state = TT_SHM_UP;
    w->links[w->nlinks++] = peer;
    peer->changes_sent = 0;
    tt_shm_send_changes(w, peer);
    tt_shm_complete(w, &(struct tt_done){
        .kind = TT_DONE_LINK_UP, .peer = peer->rank,
        .link = {
            .mine = peer->mine.base,
            .theirs = { .wire = &w->base, .peer = peer->rank, .mapped = peer->theirs.base, .bytes = w->conf.link_bytes },
            .anymem = peer->readable,
        },
    });
}

/* Pages are allocated at their first access: many links carry only a few short messages. */
static tutti_status create_own_segment(struct tt_shm *w, struct tt_shm_peer *peer)
{
    return peer->mine.base ? TUTTI_OK
                           : tt_segment_create(&peer->mine, tt_shm_link_bytes(w), TT_PAGES_LATER);
}

/* Both ends may connect at once: the lower rank's connection is kept. A higher rank whose own
 * attempt was closed waits for the connection of the lower one. */
static void handshake_ended(struct tt_shm *w, struct tt_shm_peer *peer)
{
    close(peer->fd);
    peer->fd = -1;
    peer->state = TT_SHM_WANTED;
    peer->retry_ns = tt_now_ns() + RETRY_NS;
    w->nwanted++;
}

/* The peer's name has no listener. If it had one before, the peer has ended. Otherwise it may be on
 * another host with the same hash. */
static void connect_refused(struct tt_shm *w, struct tt_shm_peer *peer, int err)
{
    tt_log(TT_LOG_INFO, "shm: cannot connect to rank %u: %s", peer->rank, strerror(err));
    if (!peer->first) {
        tt_shm_link_lost(w, peer, TUTTI_ERR_PEER_LOST);
        return;
    }
    peer->state = TT_SHM_NONE;
    w->nwanted--;
    w->base.unreached = "no process listens on its shared-memory socket (it has ended, or runs on "
                        "another host)";
}

/* Starts or repeats a connection attempt. */
static void try_connect(struct tt_shm *w, struct tt_shm_peer *peer)
{
    int fd;

    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        tt_shm_link_lost(
            w, peer,
            errno == EMFILE
                ? tt_fail_descriptors("shm: cannot connect to a rank on this host",
                                      TT_SHM_LINK_DESCRIPTORS)
                : tt_fail_errno(errno, "shm: cannot create a socket for rank %u", peer->rank));
        return;
    }
    if (connect(fd, (struct sockaddr *)&peer->addr, peer->addr_len) < 0) {
        const int err = errno;

        close(fd);
        if (err == EAGAIN) {        /* the peer's backlog is full */
            peer->retry_ns = tt_now_ns() + RETRY_NS;
            return;
        }
        connect_refused(w, peer, err);
        return;
    }
    peer->fd = fd;
    if (peer->state == TT_SHM_WANTED)
        w->nwanted--;
    peer->state = TT_SHM_HANDSHAKE;
    if (!send_hello(w, peer, fd)) {
        if (errno == EPIPE || errno == ECONNRESET)
            handshake_ended(w, peer);    /* the peer dropped pending connections */
        else
            tt_shm_link_lost(
                w, peer,
                tt_fail_errno(errno, "shm: cannot send a handshake to rank %u", peer->rank));
        return;
    }
    shm_watch(w, fd, peer->rank, EPOLLIN);
}

/* Number of peers on this host; 0 if the layout is unknown. */
static uint32_t count_local_peers(const struct tt_shm *w)
{
    const struct tt_layout *l = w->conf.layout;

    return l && l->nranks ? tt_layout_host_ranks(l, tt_layout_host(l, w->conf.rank)) - 1 : 0;
}

static void explain_scarcity(struct tt_shm *w, uint32_t rank, uint32_t theirs, uint32_t npeers)
{
    struct rlimit limit = { 0 };

    getrlimit(RLIMIT_NOFILE, &limit);
    if (w->links_max < npeers)
        snprintf(w->why_scarce, sizeof w->why_scarce,
                 "not enough file descriptors for shared memory between %u ranks: RLIMIT_NOFILE is "
                 "%llu, at least %llu needed (raise it with ulimit -n)",
                 npeers + 1, (unsigned long long)limit.rlim_cur,
                 (unsigned long long)limit.rlim_cur - w->descriptors_free + TT_SHM_RESERVE +
                     TT_SHM_LINK_DESCRIPTORS * (unsigned long long)npeers);
    else
        snprintf(w->why_scarce, sizeof w->why_scarce,
                 "rank %u has file descriptors for shared memory with %u of %u ranks", rank, theirs,
                 npeers);
    w->base.unreached = w->why_scarce;
    if (!w->scarce)
        tt_log(TT_LOG_WARN, "shm: %s", w->why_scarce);
    w->scarce = true;
}

/* Two ranks use shared memory only if both have descriptors for links to all ranks of the host.
 * Both decide from the same values: the layout, and links_max in their addresses. */
static bool descriptors_suffice(struct tt_shm *w, uint32_t rank, uint32_t theirs)
{
    const uint32_t npeers = count_local_peers(w),
                   both = theirs < w->links_max ? theirs : w->links_max;

    if (npeers <= both || both >= TT_SHM_LINKS_COUNTED)
        return true;
    explain_scarcity(w, rank, theirs, npeers);
    return false;
}

tutti_status tt_shm_connect(struct tt_wire *base, uint32_t rank, const struct tt_blob *address)
{
    struct tt_shm *w = tt_shm_of(base);
    struct tt_shm_peer *peer;
    struct tt_reader r;
    uint8_t name[16];
    uint32_t theirs;
    uint64_t host;
    tutti_status st;

    tt_reader_init(&r, address->data, address->bytes);
    w->base.unreached = NULL;
    if (tt_read_u32(&r) != TT_SHM_MAGIC)
        return TUTTI_ERR_UNSUPPORTED;
    host = tt_read_u64(&r);
    tt_read_bytes(&r, name, sizeof name);
    theirs = tt_read_u32(&r);
    if (r.bad || rank >= w->conf.nranks || rank == w->conf.rank ||
        !tt_wire_shares_host(&w->conf, rank, host == w->host) ||
        !descriptors_suffice(w, rank, theirs))
        return TUTTI_ERR_UNSUPPORTED;
    peer = tt_shm_peer_make(w, rank);
    if (!peer)
        return TUTTI_ERR_NOMEM;
    if (peer->state != TT_SHM_NONE)
        return TUTTI_OK;
    st = create_own_segment(w, peer);
    if (st)
        return st;
    peer->addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(peer->addr.sun_path + 1, "tutti-", 6);
    for (int i = 0; i < 16; i++)
        snprintf(peer->addr.sun_path + 7 + 2 * i, 3, "%02x", name[i]);
    peer->addr_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 7 + 32);
    peer->state = TT_SHM_WANTED;
    w->nwanted++;
    peer->first = true;
    try_connect(w, peer);
    peer->first = false;
    return peer->state == TT_SHM_NONE ? TUTTI_ERR_UNSUPPORTED : TUTTI_OK;
}

/* A pending connection sent a valid HELLO as `rank`: it becomes the link of that peer, unless
 * another connection exists or is preferred. Owns fd and fds. */
static void accept_hello(struct tt_shm *w, int fd, const struct packet *p, int fds[3])
{
    struct tt_shm_peer *peer = tt_shm_peer_make(w, p->rank);
    const bool ours_wins = peer && peer->state == TT_SHM_HANDSHAKE && w->conf.rank < p->rank;

    if (!peer || peer->state == TT_SHM_UP || peer->state == TT_SHM_LOST || ours_wins ||
        create_own_segment(w, peer)) {
        close_fds(fds);
        close(fd);
        return;
    }
    if (peer->fd >= 0)
        close(peer->fd);
    if (peer->state == TT_SHM_WANTED)
        w->nwanted--;
    peer->fd = fd;
    if (take_hello_descriptors(w, peer, p, fds) || !send_hello(w, peer, fd)) {
        peer->state = TT_SHM_HANDSHAKE;
        tt_shm_link_lost(w, peer, TUTTI_ERR_PROTOCOL);
        return;
    }
    shm_watch(w, fd, p->rank, EPOLLIN);
    shm_link_up(w, peer);
}

static bool hello_is_valid(const struct tt_shm *w, const struct packet *p)
{
    uint8_t differ = 0;

    for (size_t i = 0; i < sizeof p->secret; i++)
        differ |= p->secret[i] ^ w->conf.secret[i];
    return p->kind == PACKET_HELLO && !differ && p->nranks == w->conf.nranks &&
           p->rank < w->conf.nranks && p->rank != w->conf.rank;
}

static void receive_hello(struct tt_shm *w, struct tt_shm_pending *s)
{
    struct packet p;
    int fds[3], got;
    const int fd = s->fd;

    got = recv_packet(fd, &p, fds);
    if (got == 0)
        return;
    s->fd = -1;
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, fd, NULL);
    if (got == -2 && hello_is_valid(w, &p)) {
        struct tt_shm_peer *const peer = tt_shm_peer_make(w, p.rank);

        close_fds(fds);
        close(fd);
        if (peer && peer->state != TT_SHM_UP && peer->state != TT_SHM_LOST)
            tt_shm_link_lost(w, peer,
                             tt_fail_descriptors("shm: cannot connect to a rank on this host",
                                                 TT_SHM_LINK_DESCRIPTORS));
        return;
    }
    if (got < 0 || !hello_is_valid(w, &p)) {
        tt_log(TT_LOG_WARN, "shm: closed a connection from outside this job");
        close_fds(fds);
        close(fd);
        return;
    }
    accept_hello(w, fd, &p, fds);
}

static bool is_of_another_user(int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || who.uid != geteuid();
}

/* Returns a free entry, or evicts the oldest; first those of other users, which rarely belong to
 * the job. An evicted peer connects again. */
static struct tt_shm_pending *pending_slot(struct tt_shm *w)
{
    struct tt_shm_pending *worst = NULL;

    for (int i = 0; i < TT_SHM_PENDING_MAX; i++) {
        struct tt_shm_pending *s = &w->pending[i];

        if (s->fd < 0)
            return s;
        if (!worst || s->other_user > worst->other_user ||
            (s->other_user == worst->other_user && s->until_ns < worst->until_ns))
            worst = s;
    }
    close(worst->fd);
    worst->fd = -1;
    return worst;
}

static void accept_pending(struct tt_shm *w)
{
    for (int i = 0; i < TT_SHM_PENDING_MAX; i++) {
        const int fd = tt_acceptor_take(&w->acceptor);
        struct tt_shm_pending *s;

        if (fd < 0)
            return;
        s = pending_slot(w);
        *s = (struct tt_shm_pending){
            .fd = fd, .until_ns = tt_now_ns() + HELLO_NS, .other_user = is_of_another_user(fd),
        };
        shm_watch(w, fd, WHAT_STRANGER | (uint64_t)(s - w->pending), EPOLLIN);
        receive_hello(w, s);
    }
}

/* Drops pending connections after their timeout, and retries requested links. */
static void shm_handle_timeouts(struct tt_shm *w)
{
    const uint64_t now = tt_now_ns();
    struct tt_shm_peer *peer;

    for (int i = 0; i < TT_SHM_PENDING_MAX; i++)
        if (w->pending[i].fd >= 0 && now > w->pending[i].until_ns) {
            close(w->pending[i].fd);
            w->pending[i].fd = -1;
        }
    if (tt_acceptor_is_starved(&w->acceptor))
        shm_lose_starved(w);
    for (uint32_t at = 0; w->nwanted && (peer = tt_sparse_next(&w->peers, &at));)
        if (peer->state == TT_SHM_WANTED && now > peer->retry_ns)
            try_connect(w, peer);
}

/* ---- a peer's packets ---- */

static void handle_segment(struct tt_shm *w, struct tt_shm_peer *peer, const struct packet *p,
                           int fds[3])
{
    const int fd = fds[0];
    tutti_status st;

    fds[0] = -1;
    if (fd < 0)
        st =
            tt_fail(TUTTI_ERR_PROTOCOL,
                    "shm: protocol error: rank %u sent a segment without a descriptor", peer->rank);
    else
        st = tt_shm_segment_add(w, peer, p->id, p->slot, fd, p->bytes);
    if (st)
        tt_shm_link_lost(w, peer, st);
}

void tt_shm_receive_packets(struct tt_shm *w, struct tt_shm_peer *peer)
{
    while (peer->fd >= 0) {
        struct packet p;
        int fds[3];
        const int got = recv_packet(peer->fd, &p, fds);

        if (got == 0)
            return;
        if (got == -2) {
            tt_shm_link_lost(w, peer,
                             tt_fail_descriptors("shm: cannot receive from a rank on this host",
                                                 TT_SHM_LINK_DESCRIPTORS));
        } else if (got < 0 && peer->state == TT_SHM_HANDSHAKE) {
            handshake_ended(w, peer);
        } else if (got < 0) {
            tt_shm_link_lost(w, peer, TUTTI_ERR_PEER_LOST);
        } else if (peer->state == TT_SHM_HANDSHAKE) {
            if (!hello_is_valid(w, &p) || p.rank != peer->rank ||
                take_hello_descriptors(w, peer, &p, fds))
                tt_shm_link_lost(w, peer, TUTTI_ERR_PROTOCOL);
            else {
                fds[0] = fds[1] = fds[2] = -1;
                shm_link_up(w, peer);
            }
        } else if (p.kind == PACKET_SEGMENT) {
            handle_segment(w, peer, &p, fds);
        } else if (p.kind == PACKET_FORGET) {
            tt_shm_segment_remove(w, peer, p.slot);
        } else if (p.kind == PACKET_BYE) {
            peer->bye = true;
        }
        close_fds(fds);
    }
}

void tt_shm_poll_sockets(struct tt_shm *w)
{
    struct epoll_event ev[32];
    const int n = epoll_wait(w->epoll, ev, 32, 0);

    for (int i = 0; i < n; i++) {
        const uint64_t what = ev[i].data.u64;

        if (what == WHAT_LISTENER) {
            accept_pending(w);
        } else if (what == WHAT_BELL) {
            uint64_t rings;

            if (read(w->bell_fd, &rings, sizeof rings) < 0 && errno != EAGAIN)
                tt_fail_errno(errno, "shm: cannot read the wake-up descriptor");
        } else if (what & WHAT_STRANGER) {
            if (w->pending[what & 0xff].fd >= 0)
                receive_hello(w, &w->pending[what & 0xff]);
        } else {
            tt_shm_receive_packets(w, tt_shm_peer_of(w, (uint32_t)what));
        }
    }
    for (uint32_t i = 0; i < w->nlinks; i++)
        tt_shm_send_changes(w, w->links[i]);
    shm_handle_timeouts(w);
}

tutti_status tt_shm_listen(struct tt_shm *w)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    const socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 7 + 32);
    tutti_status st;
    int fd;

    tt_random_bytes(w->name, sizeof w->name);
    memcpy(addr.sun_path + 1, "tutti-", 6);
    for (int i = 0; i < 16; i++)
        snprintf(addr.sun_path + 7 + 2 * i, 3, "%02x", w->name[i]);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return tt_fail_errno(errno, "shm: cannot create a listening socket");
    if (bind(fd, (struct sockaddr *)&addr, len) < 0 || listen(fd, 128) < 0)
        st = tt_fail_errno(errno, "shm: cannot listen on a Unix socket");
    else
        st = tt_acceptor_init(&w->acceptor, "shm", fd, w->epoll,
                              (epoll_data_t){ .u64 = WHAT_LISTENER });
    if (st) {
        close(fd);
        return st;
    }
    shm_watch(w, w->bell_fd, WHAT_BELL, EPOLLIN);
    return TUTTI_OK;
}

void tt_shm_memory(const struct tt_wire *base, tutti_memory *m)
{
    const struct tt_shm *w = (const struct tt_shm *)base;
    const tutti_memory_part own = {
        .purpose = "shm: transport",
        .shared = 1,
        .fixed_bytes = sizeof *w + TT_SHM_SEGMENTS_MAX * sizeof *w->shared +
                       w->own_cap * sizeof(struct tt_shm_shared *) + w->gone_cap * sizeof *w->gone +
                       w->bell.bytes,
    };
    tutti_memory_part links = {
        .purpose = "shm: links",
        .shared = 1,
        .peer_bytes = tt_sparse_bytes(&w->peers) + w->peers.n * sizeof *w->links +
                      w->done_cap * sizeof *w->done +
                      (uint64_t)w->peer_slab.npages * TT_SLAB_PAGE_BYTES,
    };

    for (uint32_t i = 0; i < w->nlinks; i++) {
        const struct tt_shm_peer *p = w->links[i];

        links.peer_bytes +=
            p->mine.bytes + p->nsegments * sizeof *p->segments + tt_shm_pulls_bytes(p);
    }
    tt_memory_add(m, &own);
    tt_memory_add(m, &links);
}

void tt_shm_links_close(struct tt_shm *w)
{
    const struct packet bye = packet_of(w, PACKET_BYE);
    struct tt_shm_peer *peer;
    uint32_t at = 0;

    while ((peer = tt_sparse_next(&w->peers, &at))) {
        if (peer->state == TT_SHM_UP)
            send_packet(peer->fd, &bye, NULL, 0);
        if (peer->fd >= 0)
            close(peer->fd);
        if (peer->theirs.base) {
            tt_segment_fini(&peer->theirs);
            tt_segment_fini(&peer->bell);
            close(peer->bell_fd);
        }
        if (peer->mine.base)
            tt_segment_fini(&peer->mine);
    }
}
