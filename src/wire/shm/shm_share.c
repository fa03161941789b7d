/* Two processes copy one pull request (shm_cma.c). The receiver reads from the front. The sender,
 * if it is otherwise idle, writes from the back (shm_writer.c). Each takes pieces of the remaining
 * range until none remains. Two cores copy about twice as fast as one.
 *
 * The receiver may revoke its memory while a piece is being written. It then closes the share, so
 * that no further piece is taken, stops the writer, and waits for the current piece. A sender that
 * cannot write (any more) reports that, and the receiver reads the rest. */
#include "wire/shm/shm.h"

/* pieces are whole pages, counted from the start of the request */
#define UNIT_SHIFT 12u
#define UNITS_MAX ((1u << 24) - 1)
#define PIECE_UNITS_MIN (32768u >> UNIT_SHIFT)
#define PIECE_UNITS_MAX (524288u >> UNIT_SHIFT)
/* after this many consecutive shared requests without help, sharing is tried rarely: */
#define ALONE_MAX 2u
#define SELDOM 16u                          /* then one request in this many is shared */

/* Words of a share. A request's tag is never 0, so 0 is a closed share. */
#define FAILED (1u << 23)

static uint64_t claim_word(uint64_t tag, uint64_t front, uint64_t back)
{
    return tag << 48 | front << 24 | back;
}
static uint64_t tag_in(uint64_t word)
{
    return word >> 48;
}
static uint64_t front_in(uint64_t word)
{
    return word >> 24 & UNITS_MAX;
}
static uint64_t back_in(uint64_t word)
{
    return word & UNITS_MAX;
}

static uint64_t units_of(uint64_t bytes) { return (bytes + (1u << UNIT_SHIFT) - 1) >> UNIT_SHIFT; }

/* Returns half of the remaining units: both sides halve the rest in turn, so they finish at about
 * the same time. */
static uint64_t half_of(uint64_t left)
{
    const uint64_t n = left / 2;

    if (n > PIECE_UNITS_MAX)
        return PIECE_UNITS_MAX;
    return n >= PIECE_UNITS_MIN ? n : left < PIECE_UNITS_MIN ? left : PIECE_UNITS_MIN;
}

static struct tt_shm_share *share_in(const struct tt_shm *w, const struct tt_segment *link)
{
    return &tt_shm_pulls_in(w, link)->share;
}

/* ---- receiver ---- */

bool tt_shm_share_open(struct tt_shm *w, struct tt_shm_peer *peer, uint8_t *to)
{
    struct tt_shm_share *s = share_in(w, &peer->mine);
    const uint64_t units = units_of(peer->request.bytes);

    if (peer->request.bytes < TT_SHM_SHARE_BYTES || units > UNITS_MAX || peer->npulls ||
        !peer->threads_seen)
        return false;           /* with our own requests pending, the peer reads data itself:
                                   both cores are busy */
    if (peer->alone >= ALONE_MAX && ++peer->alone % SELDOM)
        return false;
    peer->sharing = true;
    peer->taken = 0;
    s->to = (uintptr_t)to;
    atomic_store_explicit(&s->written, 0, memory_order_relaxed);    /* tags repeat */
    atomic_store_explicit(&s->claim, claim_word(tt_shm_tag_of(peer->served), 0, units),
                          memory_order_release);
    return true;
}

/* Checks the claim word of the current request, of which the peer may only lower `back`. An invalid
 * word counts as a failure of the peer: nothing more is taken, none of its writes counts, and the
 * receiver reads the rest. */
static bool claim_is_valid(const struct tt_shm_peer *peer, uint64_t word)
{
    return tag_in(word) == tt_shm_tag_of(peer->served) && front_in(word) == peer->taken &&
           back_in(word) >= peer->taken && back_in(word) <= units_of(peer->request.bytes);
}

bool tt_shm_share_take(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t most, uint64_t *at,
                       uint64_t *bytes)
{
    struct tt_shm_share *s = share_in(w, &peer->mine);
    uint64_t word = atomic_load_explicit(&s->claim, memory_order_acquire), n;

    do {
        if (!claim_is_valid(peer, word))
            return false;
        n = half_of(back_in(word) - peer->taken);
        if (n > most >> UNIT_SHIFT)
            n = most >> UNIT_SHIFT;
        if (n == 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(
        &s->claim, &word, claim_word(tag_in(word), peer->taken + n, back_in(word)),
        memory_order_acq_rel, memory_order_acquire));
    *at = (uint64_t)peer->taken << UNIT_SHIFT;
    *bytes = n << UNIT_SHIFT;
    peer->taken += (uint32_t)n;
    if (*bytes > peer->request.bytes - *at)
        *bytes = peer->request.bytes - *at;
    return true;
}

/* Returns the first unit that the sender, which took all from `back` on, has written; *failed: it
 * will not write more. */
static uint64_t written_from(const struct tt_shm_share *s, const struct tt_shm_peer *peer,
                             uint64_t back, bool *failed)
{
    const uint64_t word = atomic_load_explicit(&s->written, memory_order_acquire),
                   units = units_of(peer->request.bytes);
    const bool is_of_this = tag_in(word) == tt_shm_tag_of(peer->served);

    *failed = is_of_this && front_in(word) & FAILED;
    return is_of_this && back_in(word) >= back && back_in(word) <= units ? back_in(word) : units;
}

enum tt_shm_rest tt_shm_share_rest(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t *at,
                                   uint64_t *bytes)
{
    struct tt_shm_share *s = share_in(w, &peer->mine);
    const uint64_t word = atomic_load_explicit(&s->claim, memory_order_relaxed),
                   units = units_of(peer->request.bytes);
    bool failed, sound = claim_is_valid(peer, word);
    const uint64_t from = sound ? written_from(s, peer, back_in(word), &failed) : units;

    if (sound && back_in(word) != peer->taken)
        return TT_SHM_REST_MORE;
    if (sound && from != back_in(word) && !failed)
        return TT_SHM_REST_LATER;
    peer->sharing = false;
    if (sound && back_in(word) < units && !failed)
        peer->alone = 0;
    else if (peer->alone < ALONE_MAX)
        peer->alone++;
    atomic_store_explicit(&s->claim, 0, memory_order_relaxed);
    if (from == peer->taken)
        return TT_SHM_REST_NONE;
    *at = (uint64_t)peer->taken << UNIT_SHIFT;
    *bytes = (from == units ? peer->request.bytes : from << UNIT_SHIFT) - *at;
    return TT_SHM_REST_FAILED;
}

bool tt_shm_share_waits(const struct tt_shm *w, const struct tt_shm_peer *peer)
{
    const struct tt_shm_share *s = share_in(w, &peer->mine);
    const uint64_t word = atomic_load_explicit(&s->claim, memory_order_acquire);
    bool failed;

    return peer->sharing && claim_is_valid(peer, word) && back_in(word) == peer->taken &&
           written_from(s, peer, back_in(word), &failed) != back_in(word) && !failed;
}

void tt_shm_share_close(struct tt_shm *w, struct tt_shm_peer *peer)
{
    struct tt_shm_share *s = share_in(w, &peer->mine);
    struct tt_shm_writing wait = { 0 };
    uint64_t word;
    bool failed;

    if (!peer->sharing)
        return;
    peer->sharing = false;
    word = atomic_exchange(&s->claim, 0);
    tt_shm_writer_stop(&s->writer);
    while (claim_is_valid(peer, word) &&
           written_from(s, peer, back_in(word), &failed) != back_in(word) && !failed &&
           tt_shm_writer_may_be_in(&s->writer, peer, &wait))
        ;
}

void tt_shm_share_close_of(struct tt_shm *w, uint64_t region)
{
    for (uint32_t i = 0; i < w->nlinks; i++)
        if (w->links[i]->request.region == region)
            tt_shm_share_close(w, w->links[i]);
}

/* ---- sender ---- */

/* Writes bytes [at, at + bytes) of the request. Returns false unless all were written. */
static bool share_write_part(struct tt_shm *w, struct tt_shm_peer *peer, struct tt_shm_share *s,
                             uint64_t tag, const uint8_t *from, uint64_t at, uint64_t bytes)
{
    tt_shm_writer_aim(&s->writer, peer, s->to + at, bytes);
    if (tag_in(atomic_load(&s->claim)) != tag)  /* the share was closed before the lengths were set,
                                                   so closing did not zero them */
        return false;
    return tt_shm_writer_go(&s->writer, w, peer, from + at, bytes);
}

/* Returns how many units the sender takes: normally as the receiver does. If it is idle, and the
 * receiver began with half or more, the sender takes the whole rest, up to 512 KiB: each side then
 * makes one system call. */
static uint64_t writers_piece(const struct tt_shm *w, uint64_t front, uint64_t back, uint64_t units)
{
    const uint64_t left = back - front;
    const bool other_half = back == units && front >= units / 2 && left <= PIECE_UNITS_MAX;

    return other_half && !w->base.busy ? left : half_of(left);
}

/* Takes and writes one piece of the request `number`. Returns true on success. */
static bool share_write_piece(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t number,
                              const uint8_t *from, uint64_t bytes)
{
    struct tt_shm_share *s = share_in(w, &peer->theirs);
    const uint64_t tag = tt_shm_tag_of(number), units = units_of(bytes);
    uint64_t word = atomic_load_explicit(&s->claim, memory_order_acquire), n, at, end;
    bool failed;

    do {
        if (tag_in(word) != tag || back_in(word) > units || front_in(word) >= back_in(word))
            return false;
        n = writers_piece(w, front_in(word), back_in(word), units);
    } while (!atomic_compare_exchange_weak_explicit(&s->claim, &word, word - n,
                                                    memory_order_acq_rel, memory_order_acquire));
    at = (back_in(word) - n) << UNIT_SHIFT;
    end = back_in(word) == units ? bytes : back_in(word) << UNIT_SHIFT;
    failed = !share_write_part(w, peer, s, tag, from, at, end - at);
    if (failed && tag_in(atomic_load(&s->claim)) == tag)    /* not because the receiver closed it */
        peer->unwritable = true;
    atomic_store_explicit(&s->written,
                          failed ? claim_word(tag, FAILED, back_in(word))
                                 : claim_word(tag, 0, back_in(word) - n),
                          memory_order_release);
    tt_shm_ring(peer);
    return !failed;
}

bool tt_shm_share_help(struct tt_shm *w)
{
    for (uint32_t i = 0; i < w->nlinks; i++) {
        struct tt_shm_peer *peer = w->links[(w->first + i) % w->nlinks];
        const uint8_t *from;
        uint64_t tag, number, bytes;

        if (!peer->npulls || !peer->readable || peer->unwritable)
            continue;
        tag =
            tag_in(atomic_load_explicit(&share_in(w, &peer->theirs)->claim, memory_order_relaxed));
        if (tag && tt_shm_pull_of_tag(w, peer, tag, &number, &from, &bytes) &&
            share_write_piece(w, peer, number, from, bytes))
            return true;
    }
    return false;
}
