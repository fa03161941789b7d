/* A peer of the shm transport: its state, events for poll, and its process. */
#include "wire/shm/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"

void tt_shm_complete(struct tt_shm *w, const struct tt_done *d)
{
    tt_assert(w->done_tail - w->done_head < w->done_cap);
    w->done[w->done_tail++ % w->done_cap] = *d;
}

/* Grows the queue for the events of one more peer, and the array of links. */
static bool reserve_events(struct tt_shm *w)
{
    const uint32_t cap = 2 * (w->peers.n + 1) + TT_SHM_DONES, n = w->done_tail - w->done_head;
    struct tt_shm_peer **links = realloc(w->links, (w->peers.n + 1) * sizeof *links);
    struct tt_done *done;

    if (!links)
        return false;
    w->links = links;
    done = calloc(cap, sizeof *done);
    if (!done)
        return false;
    for (uint32_t i = 0; i < n; i++)
        done[i] = w->done[(w->done_head + i) % w->done_cap];
    free(w->done);
    w->done = done;
    w->done_cap = cap;
    w->done_head = 0;
    w->done_tail = n;
    return true;
}

struct tt_shm_peer *tt_shm_peer_make(struct tt_shm *w, uint32_t rank)
{
    struct tt_shm_peer *peer = tt_shm_peer_of(w, rank);

    if (peer)
        return peer;
    peer = reserve_events(w) ? tt_slab_take(&w->peer_slab) : NULL;
    if (!peer || !tt_sparse_set(&w->peers, rank, peer)) {
        tt_fail(TUTTI_ERR_NOMEM, "shm: out of memory for the link to rank %u", rank);
        return NULL;
    }
    peer->rank = rank;
    peer->fd = peer->bell_fd = -1;
    return peer;
}

void tt_shm_ring(struct tt_shm_peer *peer)
{
    const uint64_t one = 1;

    if (peer->fence)
        __sync_synchronize();      /* not C11's fence, which the thread sanitizer does not model */
    else
        atomic_signal_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&tt_shm_bell_of(&peer->bell)->asleep, memory_order_relaxed) == 0)
        return;
    if (atomic_exchange_explicit(&tt_shm_bell_of(&peer->bell)->asleep, 0, memory_order_relaxed))
        if (write(peer->bell_fd, &one, sizeof one) < 0 && errno != EAGAIN)
            tt_fail_errno(errno, "shm: cannot wake rank %u", peer->rank);
}

/* ---- reading its memory ---- */

int tt_shm_read(pid_t pid, uint64_t nonce_at, uint64_t nonce, void *to, uint64_t from,
                uint64_t bytes)
{
    uint64_t seen = 0;
    struct iovec here[2] = { { &seen, sizeof seen }, { to, bytes } };
    struct iovec there[2] = { { (void *)(uintptr_t)nonce_at, sizeof seen },
                              { (void *)(uintptr_t)from, bytes } };
    const unsigned long parts = bytes ? 2 : 1;
    const ssize_t got = process_vm_readv(pid, here, parts, there, parts, 0);

    if (got < 0 && errno != EFAULT)
        return errno;
    if (seen != nonce)
        return ESRCH;
    return got == (ssize_t)(sizeof seen + bytes) ? 0 : EFAULT;
}

bool tt_shm_is_another(const struct tt_shm_peer *peer)
{
    return tt_shm_read(peer->pid, peer->nonce_at, peer->nonce, NULL, 0, 0) == ESRCH;
}
