/* Single copy between processes of one host, for memory that they do not share: cross-memory attach
 * (CMA), i.e. process_vm_readv.
 *
 * A put to such memory is a pull request: a line in the receiver's link segment with source and
 * destination. The receiver's poll serves the requests in order. It reads the bytes from the sender
 * directly to their destination, raises the signal, and marks the request as done; the sender's
 * poll reports it. The receiver thus makes one copy. Both processes share long copies
 * (shm_share.c); the sender may copy recently written data (shm_push.c).
 *  - Target memory that is deregistered is safe at once: its owner is the writer, or stops the
 *    writer.
 *  - Source memory that is deregistered is revoked. The sender changes the request from POSTED to
 *    REVOKED. The receiver checks after each slice and commits by changing POSTED to TAKEN; if that
 *    fails, it discards the data and the signal. Neither waits for the other.
 *
 * While pull requests are pending, other puts to that peer also become requests (without bytes), so
 * signals stay in order.
 *
 * Whether a peer is readable is determined by reading: each HELLO has the address of a random
 * number. The kernel may refuse for many reasons (users, dumpable, ptrace scope, seccomp,
 * namespaces), possibly in one direction only. Each later read also reads that number, in the same
 * system call and so from the same address space. This detects a process that has ended, executed
 * another program, or whose pid was reused, before the data is used. */
#include "wire/shm/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "wire/copy_policy.h"

#define WHOLE_BYTES (512u << 10)    /* reading a page takes half as long as a system call */
#define BULK_MAX \
    (TT_SHM_PULLS / 2)             /* pending pull requests with data per peer; the others are
                                       for signals and inline puts */
#define INLINE_BYTES (256u << 10)   /* inline puts to one peer whose copies have not been read */

/* State of one of our pull requests. */
struct pending_pull {
    const uint8_t *from;            /* NULL: no source that dereg could revoke */
    uint64_t bytes, cookie;
    uint64_t inline_end;            /* end of its copy in inline_ring; 0: none */
    bool local, remote;             /* completions still to report */
};

/* Our pull requests to one peer. */
struct tt_shm_pull_queue {
    uint64_t head, tail;            /* numbers: [head, tail) are pending or not yet reported */
    uint64_t inline_head, inline_tail;
    uint8_t *inline_ring;           /* [INLINE_BYTES]; allocated at first use */
    struct pending_pull pending[TT_SHM_PULLS];
};

/* ---- reading a peer ---- */

void tt_shm_cma_open(struct tt_shm *w)
{
    if (!tt_shm_guard_open(w))
        return;
    while (w->nonce == 0)
        tt_random_bytes(&w->nonce, sizeof w->nonce);
    *w->guard = w->nonce;
    if (tt_shm_read(getpid(), (uintptr_t)w->guard, w->nonce, NULL, 0, 0) != 0) {
        w->nonce = 0;
        return;
    }
    w->base.caps |= TT_WIRE_CAP_ANYMEM;
    w->base.whole_bytes = WHOLE_BYTES;
}

void tt_shm_cma_check_peer(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t nonce_at,
                           uint64_t nonce)
{
    struct ucred who = { 0 };
    socklen_t len = sizeof who;
    int err;

    if (w->nonce == 0 || nonce_at == 0)
        return;
    /* pid in our namespace; 0 if the peer's namespace is not visible */
    if (getsockopt(peer->fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || who.pid <= 0)
        err = ESRCH;
    else
        err = tt_shm_read(who.pid, nonce_at, nonce, NULL, 0, 0);
    if (err) {
        tt_log(TT_LOG_INFO, "shm: cannot read the memory of rank %u (%s): data from this rank is copied twice",
               peer->rank, strerror(err));
        return;
    }
    peer->pid = who.pid;
    peer->nonce_at = nonce_at;
    peer->nonce = nonce;
    peer->readable = true;
    tt_shm_writer_check_peer(peer);
    atomic_store_explicit(&tt_shm_pulls_in(w, &peer->mine)->readable, 1, memory_order_release);
}

/* ---- sender ---- */

static struct tt_shm_pull_queue *pull_queue_of(struct tt_shm_peer *peer)
{
    if (!peer->asker)
        peer->asker = calloc(1, sizeof *peer->asker);
    return peer->asker;
}

/* Copies an inline source; the copy is kept until the receiver has read it. NULL: no space now. */
static const uint8_t *keep_copy(struct tt_shm_pull_queue *k, const void *local, uint64_t bytes,
                                uint64_t *end)
{
    const uint64_t at = k->inline_tail % INLINE_BYTES,
                   skip = at + bytes > INLINE_BYTES ? INLINE_BYTES - at : 0;
    uint8_t *to;

    tt_assert(bytes <= TT_INLINE_BYTES);
    if (!k->inline_ring)
        k->inline_ring = malloc(INLINE_BYTES);
    if (!k->inline_ring || k->inline_tail + skip + bytes - k->inline_head > INLINE_BYTES)
        return NULL;
    to = k->inline_ring + (at + skip) % INLINE_BYTES;
    k->inline_tail += skip + bytes;
    *end = k->inline_tail;
    memcpy(to, local, bytes);
    return to;
}

/* Writes the pull request; it becomes visible when the state is set. from NULL: no bytes to
 * read. */
static void write_pull_line(struct tt_shm_pull_line *line, const struct tt_desc *d,
                            const uint8_t *from)
{
    line->request = (struct tt_shm_pull){
        .from = (uintptr_t)from,
        .bytes = from ? d->bytes : 0,
        .region = d->key->handle[0],
        .offset = d->offset,
    };
    if (d->signal_op == TT_SIGNAL_NONE)
        return;
    tt_assert(d->signal_offset % 8 == 0 && d->signal_offset + 8 <= d->signal_key->bytes);
    line->request.signal_region = d->signal_key->handle[0];
    line->request.signal = d->signal_offset | d->signal_op;
    line->request.signal_value = d->signal_value;
}

bool tt_shm_pull(struct tt_shm *w, struct tt_shm_peer *peer, const struct tt_desc *d)
{
    const bool copied = d->flags & TT_DESC_INLINE;
    bool fetched = d->bytes && !d->key->mapped;
    struct tt_shm_pull_queue *k = pull_queue_of(peer);
    struct tt_shm_pull_line *line;
    const uint8_t *from;
    uint64_t inline_end = 0;

    if (!k || k->tail - k->head >= (fetched && !copied ? BULK_MAX : TT_SHM_PULLS))
        return false;
    tt_assert(d->offset <= d->key->bytes && d->bytes <= d->key->bytes - d->offset);
    if (fetched && d->copy == TT_COPY_PUSH && tt_shm_push(w, peer, d))
        fetched = false;
    from = fetched ? d->local : NULL;
    if (fetched && copied) {
        from = keep_copy(k, d->local, d->bytes, &inline_end);
        if (!from)
            return false;
    }
    if (d->bytes && d->key->mapped) /* data is unordered: only the signal is delivered in order */
        tt_copy((char *)d->key->mapped + d->offset, NULL, d->local, d->bytes,
                tt_copy_flag(d->copy));
    k->pending[k->tail % TT_SHM_PULLS] = (struct pending_pull){
        .from = copied ? NULL : from,
        .bytes = d->bytes,
        .cookie = d->cookie,
        .inline_end = inline_end,
        .local = !copied && !d->key->mapped,
        .remote = d->flags & TT_DESC_REMOTE,
    };
    line = tt_shm_pull_line(tt_shm_pulls_in(w, &peer->theirs), k->tail);
    write_pull_line(line, d, from);
    atomic_store_explicit(&line->state, tt_shm_pull_state(k->tail, TT_SHM_POSTED),
                          memory_order_release);
    k->tail++;
    peer->npulls++;
    w->npulls++;
    tt_shm_ring(peer);
    return true;
}

static bool pull_is_done(const struct tt_shm *w, const struct tt_shm_peer *peer, uint64_t number)
{
    return atomic_load_explicit(&tt_shm_pull_line(tt_shm_pulls_in(w, &peer->theirs), number)->state,
                                memory_order_acquire) == tt_shm_pull_state(number, TT_SHM_DONE);
}

/* Reports the completed requests of one peer, up to the first incomplete one. */
static int report_pulls(struct tt_shm *w, struct tt_shm_peer *peer, struct tt_done *done, int max)
{
    struct tt_shm_pull_queue *k = peer->asker;
    int n = 0;

    while (n < max && peer->npulls && pull_is_done(w, peer, k->head)) {
        struct pending_pull *a = &k->pending[k->head % TT_SHM_PULLS];

        if (a->local || a->remote)
            done[n++] = (struct tt_done){
                .kind = a->local ? TT_DONE_LOCAL : TT_DONE_REMOTE,
                .peer = peer->rank,
                .cookie = a->cookie,
            };
        if (a->local && a->remote) {
            a->local = false;   /* REMOTE is reported next */
            continue;
        }
        if (a->inline_end)
            k->inline_head = a->inline_end;
        k->head++;
        peer->npulls--;
        w->npulls--;
    }
    return n;
}

bool tt_shm_pulls_have_news(const struct tt_shm *w, const struct tt_shm_peer *peer)
{
    return peer->npulls && pull_is_done(w, peer, peer->asker->head);
}

int tt_shm_pulls_poll(struct tt_shm *w, struct tt_done *done, int max)
{
    int n = 0;

    for (uint32_t i = 0; i < w->nlinks && w->npulls && n < max; i++)
        if (w->links[i]->npulls)
            n += report_pulls(w, w->links[i], done + n, max - n);
    return n;
}

/* Revokes a request unless it is in state TAKEN or DONE. */
static void pull_revoke(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t number)
{
    struct tt_shm_pull_line *line = tt_shm_pull_line(tt_shm_pulls_in(w, &peer->theirs), number);
    uint64_t posted = tt_shm_pull_state(number, TT_SHM_POSTED);

    atomic_compare_exchange_strong_explicit(&line->state, &posted,
                                            tt_shm_pull_state(number, TT_SHM_REVOKED),
                                            memory_order_acq_rel, memory_order_acquire);
}

void tt_shm_pulls_lost(struct tt_shm *w, struct tt_shm_peer *peer)
{
    uint32_t over = 0;

    while (over < peer->npulls && pull_is_done(w, peer, peer->asker->head + over))
        over++;
    for (uint32_t i = over; i < peer->npulls; i++)      /* the peer may be alive and unaware of
                                                           the loss */
        pull_revoke(w, peer, peer->asker->head + i);
    w->npulls -= peer->npulls - over;
    peer->npulls = over;
}

void tt_shm_revoke_source(struct tt_shm *w, const void *mem, uint64_t bytes)
{
    const uintptr_t begin = (uintptr_t)mem, end = begin + bytes;

    for (uint32_t i = 0; i < w->nlinks && w->npulls; i++) {
        struct tt_shm_peer *peer = w->links[i];
        const struct tt_shm_pull_queue *k = peer->asker;

        for (uint32_t j = 0; j < peer->npulls; j++) {
            const struct pending_pull *a = &k->pending[(k->head + j) % TT_SHM_PULLS];
            const uintptr_t from = (uintptr_t)a->from;

            if (from && from < end && from + a->bytes > begin &&
                !tt_shm_is_registered(w, a->from, a->bytes))
                pull_revoke(w, peer, k->head + j);
        }
    }
}

void tt_shm_revoke_cookies(struct tt_shm *w, uint64_t cookie, uint64_t mask)
{
    for (uint32_t i = 0; i < w->nlinks && w->npulls; i++) {
        struct tt_shm_peer *peer = w->links[i];
        const struct tt_shm_pull_queue *k = peer->asker;

        for (uint32_t j = 0; j < peer->npulls; j++)
            if ((k->pending[(k->head + j) % TT_SHM_PULLS].cookie & mask) == cookie)
                pull_revoke(w, peer, k->head + j);
    }
}

bool tt_shm_pull_of_tag(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t tag, uint64_t *number,
                        const uint8_t **from, uint64_t *bytes)
{
    const struct tt_shm_pull_queue *k = peer->asker;

    for (uint64_t at = k->head; at < k->head + peer->npulls; at++) {
        const struct pending_pull *a = &k->pending[at % TT_SHM_PULLS];

        if (tt_shm_tag_of(at) != tag)
            continue;
        *number = at;
        *from = a->from;
        *bytes = a->bytes;
        return a->from &&
               atomic_load_explicit(&tt_shm_pull_line(tt_shm_pulls_in(w, &peer->theirs), at)->state,
                                    memory_order_acquire) == tt_shm_pull_state(at, TT_SHM_POSTED);
    }
    return false;
}

bool tt_shm_pulls_pending(struct tt_shm *w)
{
    for (uint32_t i = 0; i < w->nlinks; i++) {
        struct tt_shm_peer *peer = w->links[i];

        for (uint32_t j = 0; peer->state == TT_SHM_UP && j < peer->npulls; j++) {
            const uint64_t number = peer->asker->head + j;
            const uint64_t state = atomic_load_explicit(
                &tt_shm_pull_line(tt_shm_pulls_in(w, &peer->theirs), number)->state,
                memory_order_acquire);

            if (state == tt_shm_pull_state(number, TT_SHM_POSTED) ||
                state == tt_shm_pull_state(number, TT_SHM_TAKEN))
                return true;
        }
    }
    return false;
}

void tt_shm_pulls_close(struct tt_shm *w, struct tt_shm_peer *peer)
{
    for (uint32_t j = 0; j < peer->npulls; j++)
        pull_revoke(w, peer, peer->asker->head + j);
    if (peer->asker)
        free(peer->asker->inline_ring);
    free(peer->asker);
}

uint64_t tt_shm_pulls_bytes(const struct tt_shm_peer *peer)
{
    if (!peer->asker)
        return 0;
    return sizeof *peer->asker + (peer->asker->inline_ring ? INLINE_BYTES : 0);
}

uint64_t tt_shm_pulls_pending_bytes(const struct tt_shm_peer *peer)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < peer->npulls; i++)
        bytes += peer->asker->pending[(peer->asker->head + i) % TT_SHM_PULLS].bytes;
    return bytes;
}
