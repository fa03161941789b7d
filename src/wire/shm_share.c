/* Two processes move one ask (shm_cma.c): its receiver reads from the front, and its sender, if it only waits, writes from the back. Each takes
 * pieces from what is left, until nothing is; two cores carry about twice what one does.
 *
 * Writing into another process needs care that reading does not:
 *  - The receiver may want its memory back while a piece is being written. It closes the share, so that no other piece is taken, and
 *    zeroes the length that the system call will be given: that vector lies in memory of both, and the kernel reads it when the call begins. So
 *    a call that has not begun writes nothing, however late it comes; and one that has begun is over as soon as its thread does anything else. The
 *    receiver waits for that, as long as a copy of a piece takes: until the sender says so, or its thread is stopped, or sleeps, but not in that
 *    call, or is gone (so nobody waits for a process that was stopped). A thread that keeps running and does not come to say so (as it handles a
 *    signal), or is frozen in the middle, is waited for: whether it is in the call, the system does not tell.
 *  - The pid may be another process's by then. The call writes first to a page that the receiver has at a random address; where that is not
 *    there, or not to be written to, the call ends before it has changed anything.
 * A sender that cannot write (any more) says so, and the receiver reads the rest. */
#include "wire/shm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"

#define UNIT_SHIFT 12u                      /* pieces are of whole pages, counted from the beginning of the ask */
#define UNITS_MAX ((1u << 24) - 1)
#define PIECE_UNITS_MIN (32768u >> UNIT_SHIFT)
#define PIECE_UNITS_MAX (524288u >> UNIT_SHIFT)
#define ALONE_MAX 2u                        /* shares in a row that nobody helped with, until they are tried seldom … */
#define SELDOM 16u                          /* … once in so many asks */
#define GUARD_WRITE 1               /* which word of the guard page peers write */
#define LOOKS_PER_STATE 64u                 /* looks at memory between two looks at a thread's state */

/* The words of a share. The ask's tag is never 0, so 0 is a share that is closed. */
#define FAILED (1u << 23)

static uint64_t claim_word(uint64_t tag, uint64_t front, uint64_t back) { return tag << 48 | front << 24 | back; }
static uint64_t tag_in(uint64_t word) { return word >> 48; }
static uint64_t front_in(uint64_t word) { return word >> 24 & UNITS_MAX; }
static uint64_t back_in(uint64_t word) { return word & UNITS_MAX; }

static uint64_t units_of(uint64_t bytes) { return (bytes + (1u << UNIT_SHIFT) - 1) >> UNIT_SHIFT; }

/* Half of what is left: the other takes half of the rest, and so on, so that both end at about the same time. */
static uint64_t piece_of(uint64_t left)
{
    const uint64_t n = left / 2;

    if (n > PIECE_UNITS_MAX)
        return PIECE_UNITS_MAX;
    return n >= PIECE_UNITS_MIN ? n : left < PIECE_UNITS_MIN ? left : PIECE_UNITS_MIN;
}

static struct tt_shm_share *share_in(const struct tt_shm *w, const struct tt_segment *link)
{
    return &tt_shm_asks_in(w, link)->share;
}

/* ---- the receiver's side ------------------------------------------------------------------------------------- */

bool tt_shm_guard_open(struct tt_shm *w)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t at;

    tt_random_bytes(&at, sizeof at);
    at = (at >> 18 | 1ull << 32) / page * page;     /* below 2^46: a wish, which the kernel grants where nothing is */
    w->guard = mmap((void *)(uintptr_t)at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (w->guard == MAP_FAILED)
        w->guard = NULL;
    return w->guard;
}

void tt_shm_guard_close(struct tt_shm *w)
{
    if (w->guard)
        munmap(w->guard, (size_t)sysconf(_SC_PAGESIZE));
}

void tt_shm_share_meet(struct tt_shm_peer *peer)
{
    char path[64];
    struct stat here, there;

    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)peer->pid);
    peer->threads_seen = stat("/proc/self/ns/pid", &here) == 0 && stat(path, &there) == 0 &&
                         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

bool tt_shm_share_open(struct tt_shm *w, struct tt_shm_peer *peer, uint8_t *to)
{
    struct tt_shm_share *s = share_in(w, &peer->mine);
    const uint64_t units = units_of(peer->ask.bytes);

    if (peer->ask.bytes < TT_SHM_SHARE_BYTES || units > UNITS_MAX || peer->nasked || !peer->threads_seen)
        return false;           /* with asks of ours out it has something to fetch itself: both cores are busy */
    if (peer->alone >= ALONE_MAX && ++peer->alone % SELDOM)
        return false;
    peer->sharing = true;
    peer->taken = 0;
    s->to = (uintptr_t)to;
    atomic_store_explicit(&s->written, 0, memory_order_relaxed);    /* tags come again */
    atomic_store_explicit(&s->claim, claim_word(tt_shm_tag_of(peer->served), 0, units), memory_order_release);
    return true;
}

/* The claim of what is being served: the peer only lowers its end. Anything else in its place counts as if the peer had taken nothing, and as nothing
 * left: the rest is then fetched as if it had failed. */
static bool is_sound(const struct tt_shm_peer *peer, uint64_t word)
{
    return tag_in(word) == tt_shm_tag_of(peer->served) && front_in(word) == peer->taken &&
           back_in(word) >= peer->taken && back_in(word) <= units_of(peer->ask.bytes);
}

bool tt_shm_share_take(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t most, uint64_t *at, uint64_t *bytes)
{
    struct tt_shm_share *s = share_in(w, &peer->mine);
    uint64_t word = atomic_load_explicit(&s->claim, memory_order_acquire), n;

    do {
        if (!is_sound(peer, word))
            return false;
        n = piece_of(back_in(word) - peer->taken);
        if (n > most >> UNIT_SHIFT)
            n = most >> UNIT_SHIFT;
        if (n == 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&s->claim, &word,
                                                    claim_word(tag_in(word), peer->taken + n, back_in(word)),
                                                    memory_order_acq_rel, memory_order_acquire));
    *at = (uint64_t)peer->taken << UNIT_SHIFT;
    *bytes = n << UNIT_SHIFT;
    peer->taken += (uint32_t)n;
    if (*bytes > peer->ask.bytes - *at)
        *bytes = peer->ask.bytes - *at;
    return true;
}

/* From where on the sender, which took all from `back` on, has written it, in units; *failed: and will not write more. */
static uint64_t written_from(const struct tt_shm_share *s, const struct tt_shm_peer *peer, uint64_t back, bool *failed)
{
    const uint64_t word = atomic_load_explicit(&s->written, memory_order_acquire), units = units_of(peer->ask.bytes);
    const bool is_of_this = tag_in(word) == tt_shm_tag_of(peer->served);

    *failed = is_of_this && front_in(word) & FAILED;
    return is_of_this && back_in(word) >= back && back_in(word) <= units ? back_in(word) : units;
}

enum tt_shm_rest tt_shm_share_rest(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t *at, uint64_t *bytes)
{
    struct tt_shm_share *s = share_in(w, &peer->mine);
    const uint64_t word = atomic_load_explicit(&s->claim, memory_order_relaxed), units = units_of(peer->ask.bytes);
    bool failed, sound = is_sound(peer, word);
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
    *bytes = (from == units ? peer->ask.bytes : from << UNIT_SHIFT) - *at;
    return TT_SHM_REST_FAILED;
}

bool tt_shm_share_waits(const struct tt_shm *w, const struct tt_shm_peer *peer)
{
    const struct tt_shm_share *s = share_in(w, &peer->mine);
    const uint64_t word = atomic_load_explicit(&s->claim, memory_order_acquire);
    bool failed;

    return peer->sharing && is_sound(peer, word) && back_in(word) == peer->taken &&
           written_from(s, peer, back_in(word), &failed) != back_in(word) && !failed;
}

/* Whether a thread that sleeps may do so in the middle of a copy, for a page of a file of its own. */
static bool is_writing(pid_t pid, uint32_t tid)
{
    char path[64];
    long call = SYS_process_vm_writev;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/task/%u/syscall", (int)pid, tid);
    f = fopen(path, "re");
    if (!f)
        return true;
    if (fscanf(f, "%ld", &call) != 1)
        call = SYS_process_vm_writev;   /* "running", by now */
    fclose(f);
    return call == SYS_process_vm_writev;
}

/* Whether the thread that writes is anything but in the middle of a copy: stopped, asleep elsewhere, or gone. */
static bool is_elsewhere(pid_t pid, uint32_t tid)
{
    char path[64], line[128] = "";
    const char *at;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/task/%u/stat", (int)pid, tid);
    f = fopen(path, "re");
    if (!f)
        return errno == ENOENT;
    if (!fgets(line, sizeof line, f))
        line[0] = 0;
    fclose(f);
    at = strrchr(line, ')');    /* of its name, which may hold anything */
    if (!at || at[1] != ' ')
        return false;
    return at[2] == 'S' ? !is_writing(pid, tid) : at[2] && !strchr("RD", at[2]);
}

void tt_shm_share_close(struct tt_shm *w, struct tt_shm_peer *peer)
{
    struct tt_shm_share *s = share_in(w, &peer->mine);
    uint64_t word;

    if (!peer->sharing)
        return;
    peer->sharing = false;
    word = atomic_exchange(&s->claim, 0);
    atomic_store(&s->there[0].iov_len, 0);
    atomic_store(&s->there[1].iov_len, 0);
    for (uint64_t looks = 1, began_ns = tt_now_ns();; looks++) {
        bool failed;

        if (!is_sound(peer, word) || written_from(s, peer, back_in(word), &failed) == back_in(word) || failed)
            return;
        if (looks % LOOKS_PER_STATE == 0 && (is_elsewhere(peer->pid, atomic_load(&s->tid)) || tt_shm_is_another(peer)))
            return;
        if (began_ns && looks % LOOKS_PER_STATE == 0 && tt_now_ns() - began_ns > TT_SECOND) {
            tt_log(TT_LOG_WARN, "shm: waiting for thread %u of process %d, which began to write into this one and does not go on",
                   atomic_load(&s->tid), (int)peer->pid);
            began_ns = 0;
        }
        sched_yield();
    }
}

void tt_shm_share_close_of(struct tt_shm *w, uint64_t region)
{
    for (uint32_t i = 0; i < w->nlinks; i++)
        if (w->links[i]->ask.region == region)
            tt_shm_share_close(w, w->links[i]);
}

/* ---- the sender's side -------------------------------------------------------------------------------------------- */

/* Writes bytes [at, at + bytes) of the ask; false if they did not all get there. */
static bool write_process(struct tt_shm *w, struct tt_shm_peer *peer, struct tt_shm_share *s, uint64_t tag,
                          const uint8_t *from, uint64_t at, uint64_t bytes)
{
    uint64_t greeting = w->nonce;
    struct iovec here[2] = { { &greeting, sizeof greeting }, { (void *)(uintptr_t)(from + at), bytes } };
    static _Thread_local uint32_t tid;

    if (!tid)
        tid = (uint32_t)syscall(SYS_gettid);
    atomic_store_explicit(&s->tid, tid, memory_order_relaxed);
    atomic_store_explicit(&s->there[0].iov_base, peer->nonce_at + GUARD_WRITE * sizeof *w->guard, memory_order_relaxed);
    atomic_store_explicit(&s->there[1].iov_base, s->to + at, memory_order_relaxed);
    atomic_store_explicit(&s->there[0].iov_len, sizeof greeting, memory_order_relaxed);
    atomic_store(&s->there[1].iov_len, bytes);
    if (tag_in(atomic_load(&s->claim)) != tag)  /* closed before the lengths were there: they would stay */
        return false;
    return process_vm_writev(peer->pid, here, 2, (const struct iovec *)(const void *)s->there, 2, 0) ==
           (ssize_t)(sizeof greeting + bytes);
}

/* Takes and writes one piece of the ask `number`. True: done so. */
static bool write_piece(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t number, const uint8_t *from,
                        uint64_t bytes)
{
    struct tt_shm_share *s = share_in(w, &peer->theirs);
    const uint64_t tag = tt_shm_tag_of(number), units = units_of(bytes);
    uint64_t word = atomic_load_explicit(&s->claim, memory_order_acquire), n, at, end;
    bool failed;

    do {
        if (tag_in(word) != tag || back_in(word) > units || front_in(word) >= back_in(word))
            return false;
        n = piece_of(back_in(word) - front_in(word));
    } while (
        !atomic_compare_exchange_weak_explicit(&s->claim, &word, word - n, memory_order_acq_rel, memory_order_acquire));
    at = (back_in(word) - n) << UNIT_SHIFT;
    end = back_in(word) == units ? bytes : back_in(word) << UNIT_SHIFT;
    failed = !write_process(w, peer, s, tag, from, at, end - at);
    if (failed && tag_in(atomic_load(&s->claim)) == tag)    /* not for the receiver's wish */
        peer->unwritable = true;
    atomic_store_explicit(&s->written,
                          failed ? claim_word(tag, FAILED, back_in(word)) : claim_word(tag, 0, back_in(word) - n),
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

        if (!peer->nasked || !peer->readable || peer->unwritable)
            continue;
        tag = tag_in(atomic_load_explicit(&share_in(w, &peer->theirs)->claim, memory_order_relaxed));
        if (tag && tt_shm_ask_of_tag(w, peer, tag, &number, &from, &bytes) && write_piece(w, peer, number, from, bytes))
            return true;
    }
    return false;
}
