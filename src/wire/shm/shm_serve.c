/* The receiver of pull requests: copies the bytes from the sender to their destination, and raises
 * the signals (shm_cma.c). */
#include "wire/shm/shm.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"

/* maximum copied by one poll, which should stay short: about 50 us */
#define SERVE_BYTES (512u << 10)
#define LINGER_NS TT_SECOND         /* time that closing waits for peers */

static void pull_raise_signal(struct tt_shm *w, const struct tt_shm_peer *peer)
{
    const uint64_t op = peer->request.signal & 7;
    _Atomic uint64_t *word = (void *)tt_shm_memory_of(w, peer, peer->request.signal_region,
                                                      peer->request.signal - op, 8);

    if (op == TT_SIGNAL_NONE || !word)
        return;
    if (op == TT_SIGNAL_SET)
        atomic_store_explicit(word, peer->request.signal_value, memory_order_release);
    else
        atomic_fetch_add_explicit(word, peer->request.signal_value, memory_order_release);
}

enum outcome { FETCHED, DROPPED, LATER };

/* Reads n bytes at `at` of the request to their destination. */
static enum outcome pull_fetch_piece(struct tt_shm *w, struct tt_shm_peer *peer,
                                     const struct tt_shm_pull_line *line, uint8_t *to, uint64_t at,
                                     uint64_t n)
{
    const int err =
        tt_shm_read(peer->pid, peer->nonce_at, peer->nonce, to + at, peer->request.from + at, n);

    if (atomic_load_explicit(&line->state, memory_order_acquire) !=
        tt_shm_pull_state(peer->served, TT_SHM_POSTED))
        return DROPPED;         /* revoked: data and error are meaningless */
    if (err == ESRCH) {         /* the process has ended; the socket will report it */
        peer->readable = false;
        return LATER;
    }
    if (err) {
        tt_fail_errno(
            err,
            "shm: cannot read %llu bytes of rank %u, whose memory was readable before (TUTTI_CMA=0 "
            "disables direct copies)",
            (unsigned long long)n, peer->rank);
        tt_shm_link_lost(w, peer, TUTTI_ERR_SYSTEM);
        return LATER;
    }
    return FETCHED;
}

/* Returns the next part to read, within the budget: n bytes at `at`; n 0: none now. Returns false
 * if the request is complete. */
static bool pull_next_part(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t budget,
                           uint64_t *at, uint64_t *n)
{
    const uint64_t left = peer->request.bytes - peer->fetched;

    if (!peer->sharing) {
        *at = peer->fetched;
        *n = left < budget ? left : budget;
        return left;
    }
    if (tt_shm_share_take(w, peer, budget, at, n))
        return true;
    *n = 0;
    switch (tt_shm_share_rest(w, peer, at, n)) {
    case TT_SHM_REST_NONE:
        return false;
    case TT_SHM_REST_FAILED:
        peer->fetched = peer->request.bytes - *n;
        return true;
    default:
        return true;
    }
}

/* Reads the remaining bytes of the request, within the budget. */
static enum outcome pull_fetch(struct tt_shm *w, struct tt_shm_peer *peer,
                               const struct tt_shm_pull_line *line, uint64_t *budget)
{
    const struct tt_shm_pull *request = &peer->request;

    for (;;) {
        uint8_t *to = tt_shm_memory_of(w, peer, request->region, request->offset, request->bytes);
        enum outcome o;
        uint64_t at, n;

        if (!to)
            return DROPPED;     /* the target is deregistered */
        if (!request->bytes)
            return FETCHED;     /* a request without data */
        if (!pull_next_part(w, peer, *budget, &at, &n))
            return FETCHED;
        if (n == 0)
            return LATER;
        o = pull_fetch_piece(w, peer, line, to, at, n);
        if (o != FETCHED)
            return o;
        peer->fetched += n;
        *budget -= n < *budget ? n : *budget;
    }
}

/* Reads a new request and tries to share it. */
static void pull_begin(struct tt_shm *w, struct tt_shm_peer *peer,
                       const struct tt_shm_pull_line *line)
{
    uint8_t *to;

    peer->begun = true;
    peer->request = line->request;
    to = tt_shm_memory_of(w, peer, peer->request.region, peer->request.offset, peer->request.bytes);
    if (to)
        tt_shm_share_open(w, peer, to);
}

/* Serves the peer's oldest request. Returns true if it completed. */
static bool serve_pull(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t *budget)
{
    struct tt_shm_pull_line *line = tt_shm_pull_line(tt_shm_pulls_in(w, &peer->mine), peer->served);
    uint64_t state = atomic_load_explicit(&line->state, memory_order_acquire);

    if (state == tt_shm_pull_state(peer->served, TT_SHM_POSTED)) {
        enum outcome o;

        if (!peer->begun)
            pull_begin(w, peer, line);
        o = pull_fetch(w, peer, line, budget);
        if (o == LATER)
            return false;
        if (o == FETCHED && atomic_compare_exchange_strong_explicit(
                                &line->state, &state, tt_shm_pull_state(peer->served, TT_SHM_TAKEN),
                                memory_order_acq_rel, memory_order_relaxed))
            pull_raise_signal(w, peer);
    } else if (state != tt_shm_pull_state(peer->served, TT_SHM_REVOKED)) {
        return false;
    }
    tt_shm_share_close(w, peer);
    atomic_store_explicit(&line->state, tt_shm_pull_state(peer->served, TT_SHM_DONE),
                          memory_order_release);
    peer->served++;
    peer->fetched = 0;
    peer->begun = false;
    tt_shm_ring(peer);
    return true;
}

bool tt_shm_serve(struct tt_shm *w)
{
    uint64_t budget = SERVE_BYTES;

    for (uint32_t i = 0; i < w->nlinks && budget; i++) {
        struct tt_shm_peer *peer = w->links[(w->first + i) % w->nlinks];

        while (peer->readable && budget && serve_pull(w, peer, &budget))
            ;
    }
    if (budget == SERVE_BYTES)
        return false;
    w->first++;                 /* the next poll starts with another peer */
    return true;
}

bool tt_shm_serve_has_news(const struct tt_shm *w)
{
    for (uint32_t i = 0; i < w->nlinks; i++) {
        const struct tt_shm_peer *peer = w->links[i];
        uint64_t state;

        if (tt_shm_pulls_have_news(w, peer))
            return true;
        if (!peer->readable)
            continue;
        state = atomic_load_explicit(
            &tt_shm_pull_line(tt_shm_pulls_in(w, &peer->mine), peer->served)->state,
            memory_order_acquire);
        if (state == tt_shm_pull_state(peer->served, TT_SHM_REVOKED) ||
            (state == tt_shm_pull_state(peer->served, TT_SHM_POSTED) &&
             !tt_shm_share_waits(w, peer)))
            return true;
    }
    return false;
}

void tt_shm_serve_close(struct tt_shm *w)
{
    const uint64_t until_ns = tt_now_ns() + LINGER_NS;

    while (w->npulls && tt_shm_pulls_pending(w) && tt_now_ns() < until_ns) {
        tt_shm_serve(w);        /* the peer may be closing too */
        tt_shm_poll_sockets(w);
        poll(NULL, 0, 1);
    }
    for (uint32_t i = 0; i < w->nlinks; i++) {
        tt_shm_share_close(w, w->links[i]);
        tt_shm_permits_close(w, w->links[i]);
        tt_shm_pulls_close(w, w->links[i]);
    }
    free(w->links);
}
