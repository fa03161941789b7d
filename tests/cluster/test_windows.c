/* Windows: puts, gets, signals and atomics, for all access methods. test_window_order.c tests their
 * order. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>
#include "comm/comm.h"
#include "engine/engine_client.h"
#include "engine/progress.h"
#include "support/pattern.h"
#include "support/unit.h"
#include "window/window.h"
#include "windows.h"

#define MIB ((size_t)1 << 20)

/* ---- content ---- */

#define PART_BYTES (2 * MIB)    /* of a window, for each putting rank */
#define NSIZES (sizeof put_sizes / sizeof *put_sizes)

static const size_t put_sizes[] = { 0, 1, 7, 64, 4096, 32768, 32769, 300001, 1200000 };

static uint64_t salt_of(uint32_t from, uint32_t to, size_t i) { return from * 1000 + to * 100 + i; }

/* Offset of put i of a rank within its part, behind a header of signals. */
static size_t place_of(struct rank *r, uint32_t from, size_t i)
{
    size_t at = 64 * r->nranks + from * PART_BYTES;

    for (size_t k = 0; k < i; k++)
        at += put_sizes[k] + 3;
    return at;
}

/* Every rank puts to every other, with signals, and checks its own window. Windows differ in size:
 * that of rank r has r pages more. */
static void content_role(struct rank *r)
{
    uint8_t *src = job_have(r, malloc(put_sizes[NSIZES - 1])),
            *back = job_have(r, malloc(put_sizes[NSIZES - 1]));
    uint64_t counter = 0;
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, 64 * r->nranks + r->nranks * PART_BYTES + 4096 * r->rank);
    for (uint32_t to = 0; to < r->nranks; to++)
        for (size_t i = 0; i < NSIZES; i++) {
            const tutti_rma rma = {
                .size = sizeof rma,
                .signal_op = TUTTI_SIGNAL_ADD,
                .signal_value = 1,
                .signal_offset = 64 * r->rank,
                .counter = i % 2 ? &counter : NULL,
            };
            const uint64_t counted = counter;
            size_t bytes;

            job_step(r, "put %zu bytes to rank %u", put_sizes[i], to);
            CHECK_OK(r, tutti_window_bytes(s.window, (int)to, &bytes));
            CHECK(r, bytes == 64 * r->nranks + r->nranks * PART_BYTES + 4096 * to);
            pattern_fill(src, put_sizes[i], salt_of(r->rank, to, i));
            CHECK_OK(r, tutti_window_put(s.window, (int)to, place_of(r, r->rank, i), src,
                                         put_sizes[i], &rma));
            if (rma.counter)
                CHECK_OK(r, tutti_window_wait_counter(s.window, &counter, counted + 1, 0));
            memset(src, 0xff, put_sizes[i]);        /* the buffer belongs to this rank again */
        }
    for (uint32_t from = 0; from < r->nranks; from++) {
        job_step(r, "wait for rank %u", from);
        CHECK_OK(r, tutti_window_wait(s.window, 64 * from, TUTTI_EQUAL, NSIZES, 0, NULL));
        for (size_t i = 0; i < NSIZES; i++)
            window_check_pattern(r, s.mem + place_of(r, from, i), put_sizes[i],
                                 salt_of(from, r->rank, i), "put");
    }
    CHECK_OK(r, tutti_window_quiet(s.window, TUTTI_ALL_RANKS, 0));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    for (uint32_t of = 0; of < r->nranks; of++)
        for (size_t i = 0; i < NSIZES; i++) {
            const uint32_t from = (of + 1) % r->nranks;
            const tutti_rma rma = { .size = sizeof rma, .counter = &counter };
            const uint64_t counted = counter;

            job_step(r, "get %zu bytes of rank %u", put_sizes[i], of);
            memset(back, 0xff, put_sizes[i]);
            CHECK_OK(r, tutti_window_get(s.window, (int)of, place_of(r, from, i), back,
                                         put_sizes[i], i % 2 ? &rma : NULL));
            if (i % 2)
                CHECK_OK(r, tutti_window_wait_counter(s.window, &counter, counted + 1, 0));
            window_check_pattern(r, back, put_sizes[i], salt_of(from, of, i), "get");
        }
    window_side_fini(r, &s);
    free(src);
    free(back);
}

static void puts_and_gets_transfer_every_byte(void **state)
{
    (void)state;
    over_all_ways(content_role, 3, NULL);
}

/* ---- parts of different sizes, for some of the ranks in another order ---- */

#define OUTSIDER 1u             /* of four ranks: not in the window's communicator */
#define PARTS_BYTES 4096u

/* Size of each rank's part of the window: allocated by the library, owned by the caller, and
 * none. */
static const size_t parts[] = { PARTS_BYTES, 2 * PARTS_BYTES, 0 };

/* A window of three of four ranks, numbered in reverse. Each puts a page to those with memory,
 * fetches a ticket of one, and gets errors for accesses out of range. */
static void parts_role(struct rank *r)
{
    uint8_t *own = job_have(r, aligned_alloc(64, 2 * PARTS_BYTES)), src[PARTS_BYTES / 8];
    const uint64_t ranks = sizeof parts / sizeof *parts;
    uint64_t tickets = 0, old = 0;
    tutti_window *w;
    tutti_comm *part;
    void *mem;
    uint32_t me;

    window_job_open(r);
    memset(own, 0, 2 * PARTS_BYTES);
    CHECK_OK(r, tutti_comm_split(r->comm, r->rank == OUTSIDER ? -1 : 0, -(int)r->rank, &part));
    if (!part) {
        free(own);
        return;
    }
    me = (uint32_t)tutti_comm_rank(part);
    CHECK_OK(r, tutti_window_create(part, me == 1 ? own : NULL, parts[me], &w));
    CHECK_OK(r, tutti_window_memory(w, &mem, NULL));
    for (uint32_t to = 0; to < ranks; to++) {
        const tutti_rma rma = { .size = sizeof rma,
                                .signal_op = TUTTI_SIGNAL_ADD,
                                .signal_value = 1 };

        job_step(r, "put from %u to %u of the window", me, to);
        pattern_fill(src, sizeof src, salt_of(me, to, 0));
        CHECK_SAYS(r, tutti_window_put(w, (int)to, parts[to], src, 1, NULL), TUTTI_ERR_INVALID,
                   "1 bytes at offset");
        if (!parts[to]) {
            CHECK_SAYS(r, tutti_window_signal(w, (int)to, 0, TUTTI_SIGNAL_SET, 1),
                       TUTTI_ERR_INVALID, "offset 0");
            continue;
        }
        CHECK_OK(r, tutti_window_put(w, (int)to, parts[to] - (me + 1) * sizeof src, src, sizeof src,
                                     &rma));
        CHECK_OK(r, tutti_window_atomic(w, (int)to, 8, 4, TUTTI_ATOMIC_ADD, 1, 0, &old));
        tickets += old;
    }
    for (uint32_t from = 0; from < ranks && parts[me]; from++) {
        CHECK_OK(r, tutti_window_wait(w, 0, TUTTI_EQUAL, ranks, 0, NULL));
        window_check_pattern(r, (uint8_t *)mem + parts[me] - (from + 1) * sizeof src, sizeof src,
                             salt_of(from, me, 0), "put");
    }
    CHECK_OK(r, tutti_window_quiet(w, TUTTI_ALL_RANKS, 0));
    CHECK_OK(r, tutti_allreduce(&tickets, &tickets, 1, TUTTI_U64, TUTTI_SUM, part, NULL));
    CHECK(r, tickets == 2 * (0 + 1 + 2));
    CHECK_OK(r, tutti_window_free(w));
    tutti_comm_destroy(part);
    free(own);
}

static void parts_and_rank_order_may_differ(void **state)
{
    (void)state;
    over_all_ways(parts_role, 4, NULL);
}

/* Rows and pieces, short and long; the bytes between them are unchanged. */
static void pieces_role(struct rank *r)
{
    static const tutti_rows shapes[] = {
        { 1, 100, 0, 0 },  { 50, 100, 128, 200 }, { 3, 70000, 70000, 80000 },
        { 0, 10, 10, 10 }, { 10, 0, 3, 3 },
    };
    const tutti_rma rma = {
        .size = sizeof rma, .signal_op = TUTTI_SIGNAL_SET, .signal_value = 1, .signal_offset = 0
    };
    uint8_t *src = job_have(r, malloc(MIB)), *expected = job_have(r, malloc(MIB));
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, MIB);
    pattern_fill(src, MIB, 5);
    for (size_t i = 0; i <= sizeof shapes / sizeof *shapes; i++) {
        const bool rows = i < sizeof shapes / sizeof *shapes;
        tutti_piece pieces[100];
        size_t n = rows ? shapes[i].rows : 100;

        for (size_t k = 0; k < n; k++)
            pieces[k] = rows ? (tutti_piece){ 64 + k * shapes[i].stride,
                                              src + k * shapes[i].src_stride, shapes[i].row_bytes }
                             : (tutti_piece){ 64 + k * 9000, src + (99 - k) * 1000,
                                              k == 50   ? 0
                                              : k == 70 ? 40000
                                                        : k * 30 };
        if (!rows)              /* the long piece overlaps the places of the pieces after it */
            n = 71;
        memset(s.mem, 0, MIB);
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
        job_step(r, "shape %zu", i);
        if (r->rank == 1) {
            memset(expected, 0, MIB);
            for (size_t k = 0; k < n; k++)
                memcpy(expected + pieces[k].offset, pieces[k].src, pieces[k].bytes);
            CHECK_OK(r, tutti_window_wait(s.window, 0, TUTTI_EQUAL, 1, 0, NULL));
            CHECK(r, memcmp(s.mem + 64, expected + 64, MIB - 64) == 0);
        } else if (rows) {
            CHECK_OK(r, tutti_window_put_rows(s.window, 1, 64, src, &shapes[i], &rma));
        } else {
            CHECK_OK(r, tutti_window_put_pieces(s.window, 1, pieces, n, &rma));
        }
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
    }
    window_side_fini(r, &s);
    free(src);
    free(expected);
}

static void rows_and_pieces_are_one_put(void **state)
{
    (void)state;
    over_all_ways(pieces_role, 2, NULL);
}

/* ---- atomics ---- */

#define ADDS (UNIT_SHARE > 1 ? 100u : 1000u)

/* All ranks access the words of rank 0, including itself: 0 adds, 8 signals, 16 tickets, 24 a lock
 * (4 bytes), 32 the protected word, 40 swaps. */
static void atomics_role(struct rank *r)
{
    uint64_t tickets = 0, swapped = 0, old;
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, 64);
    for (uint32_t i = 0; i < ADDS; i++) {
        job_step(r, "round %u", i);
        CHECK_OK(r, tutti_window_atomic(s.window, 0, 0, 8, TUTTI_ATOMIC_ADD, i, 0, NULL));
        CHECK_OK(r, tutti_window_signal(s.window, 0, 8, TUTTI_SIGNAL_ADD, 3));
        CHECK_OK(r, tutti_window_atomic(s.window, 0, 20, 4, TUTTI_ATOMIC_ADD, 1, 0, &old));
        tickets += old;
        CHECK_OK(r, tutti_window_atomic(s.window, 0, 40, 8, TUTTI_ATOMIC_SWAP,
                                        1 + r->rank * ADDS + i, 0, &old));
        swapped += old;
        if (i % 10)
            continue;
        do {
            CHECK_OK(r, tutti_window_atomic(s.window, 0, 24, 4, TUTTI_ATOMIC_COMPARE_SWAP,
                                            1 + r->rank, 0, &old));
            if (old)
                sched_yield();
        } while (old);
        CHECK_OK(r, tutti_window_get(s.window, 0, 32, &old, sizeof old, NULL));
        old++;
        CHECK_OK(r, tutti_window_put(s.window, 0, 32, &old, sizeof old, NULL));
        CHECK_OK(r, tutti_window_quiet(s.window, 0, 0));
        CHECK_OK(r, tutti_window_atomic(s.window, 0, 24, 4, TUTTI_ATOMIC_COMPARE_SWAP, 0,
                                        1 + r->rank, &old));
        CHECK(r, old == 1 + r->rank);
    }
    CHECK_OK(r, tutti_window_quiet(s.window, TUTTI_ALL_RANKS, 0));
    CHECK_OK(r, tutti_allreduce(&tickets, &tickets, 1, TUTTI_U64, TUTTI_SUM, r->comm, NULL));
    CHECK_OK(r, tutti_allreduce(&swapped, &swapped, 1, TUTTI_U64, TUTTI_SUM, r->comm, NULL));
    if (r->rank == 0) {
        const uint64_t *word = (const uint64_t *)(const void *)s.mem,
                       n = (uint64_t)r->nranks * ADDS;

        CHECK(r, word[0] == r->nranks * (uint64_t)ADDS * (ADDS - 1) / 2);
        CHECK(r, word[1] == 3 * n);
        CHECK(r, word[2] == n << 32);                   /* only the upper half was added to */
        CHECK(r, word[3] == 0);
        CHECK(r, word[4] == r->nranks * ((ADDS + 9) / 10));
        CHECK(r, tickets == n * (n - 1) / 2);           /* each exactly once */
        CHECK(r, swapped + word[5] == n * (n + 1) / 2); /* each number was returned to a rank, or
                                                           is still there */
    }
    window_side_fini(r, &s);
}

static void atomics_of_all_ranks_add_up(void **state)
{
    (void)state;
    over_all_ways(atomics_role, 4, NULL);
}

/* Every rank changes bits of rank 0's words: sets its bit in the first, clears it in the second,
 * and flips the third. */
static void bits_role(struct rank *r)
{
    const uint64_t bit = 1ull << (8 * r->rank + 7);
    uint64_t old = 0, whole = UINT64_MAX;
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, 64);
    if (r->rank == 0)
        CHECK_OK(r, tutti_window_put(s.window, 0, 8, &whole, sizeof whole, NULL));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    CHECK_OK(r, tutti_window_atomic(s.window, 0, 0, 8, TUTTI_ATOMIC_OR, bit, 0, &old));
    CHECK(r, (old & bit) == 0);
    CHECK_OK(r, tutti_window_atomic(s.window, 0, 8, 8, TUTTI_ATOMIC_AND, ~bit, 0, &old));
    CHECK(r, (old & bit) == bit);
    /* 4 bytes, without a result */
    CHECK_OK(r, tutti_window_atomic(s.window, 0, 20, 4, TUTTI_ATOMIC_XOR, bit | 1, 0, NULL));
    CHECK_OK(r, tutti_window_quiet(s.window, 0, 0));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (r->rank == 0) {
        const uint64_t *word = (const uint64_t *)(const void *)s.mem;

        CHECK(r, word[0] == 0x808080 && word[1] == ~word[0]);
        CHECK(r, word[2] == 0x808081ull << 32);
    }
    window_side_fini(r, &s);
}

static void bit_operations_are_atomic(void **state)
{
    (void)state;
    over_all_ways(bits_role, 3, NULL);
}

/* ---- conditions ---- */

#define TURNS (UNIT_SHARE > 1 ? 50u : 500u)

struct turn {
    const uint32_t *word;
    uint32_t at_least;
};

static int is_my_turn(const void *arg)
{
    const struct turn *t = arg;

    return __atomic_load_n(t->word, __ATOMIC_ACQUIRE) >= t->at_least;
}

/* Two ranks take turns by puts without signals, of words whose size signals do not support. */
static void turns_role(struct rank *r)
{
    const int other = 1 - (int)r->rank;
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, 64);
    for (uint32_t i = 1; i <= TURNS; i++) {
        const struct turn t = { .word = (const uint32_t *)(const void *)(s.mem + 4),
                                .at_least = i };

        job_step(r, "turn %u", i);
        if (r->rank == 0)
            CHECK_OK(r, tutti_window_put(s.window, other, 4, &i, sizeof i, NULL));
        CHECK_OK(r, tutti_window_wait_until(s.window, is_my_turn, &t, 0));
        if (r->rank == 1)
            CHECK_OK(r, tutti_window_put(s.window, other, 4, &i, sizeof i, NULL));
    }
    CHECK_SAYS(r, tutti_window_wait_until(s.window, NULL, NULL, 0), TUTTI_ERR_INVALID, "is_there");
    CHECK_SAYS(r,
               tutti_window_wait_until(s.window, is_my_turn,
                                       &(struct turn){ (const uint32_t *)(const void *)s.mem, 1 },
                                       20),
               TUTTI_ERR_TIMEOUT, "deadline");
    window_side_fini(r, &s);
}

/* TSan would report a race if a thread of this process receives the word while another one reads
 * it. */
static void plain_put_ends_a_condition_wait(void **state)
{
#if defined(__SANITIZE_THREAD__)
    const struct job job = { .wires = window_ways[0].wires,
                             .nranks = 2,
                             .seed = job_seed(WINDOW_SEED),
                             .arg = &window_ways[0] };

    (void)state;
    job_run(&job, turns_role);
#else
    (void)state;
    over_all_ways(turns_role, 2, NULL);
#endif
}

/* ---- passive targets ---- */

/* Rank 1 computes: it makes no Tutti call while rank 0 uses its memory. */
static void passive_role(struct rank *r)
{
    uint8_t *src = job_have(r, malloc(MIB)), *back = job_have(r, malloc(MIB));
    uint64_t old;
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, MIB + 64);
    if (r->rank == 0) {
        pattern_fill(src, MIB, 3);
        for (uint64_t i = 0; i < 20; i++) {
            job_step(r, "round %u", (uint32_t)i);
            CHECK_OK(r, tutti_window_put(s.window, 1, 64, src, MIB, NULL));
            CHECK_OK(r, tutti_window_quiet(s.window, 1, 0));
            memset(back, 0, MIB);
            CHECK_OK(r, tutti_window_get(s.window, 1, 64, back, MIB, NULL));
            CHECK(r, memcmp(src, back, MIB) == 0);
            CHECK_OK(r, tutti_window_atomic(s.window, 1, 0, 8, TUTTI_ATOMIC_ADD, 5, 0, &old));
            CHECK(r, old == 5 * i);
            src[i] ^= 0xff;
        }
        job_raise(r->board, 0);
    } else {
        CHECK(r, job_await(r->board, 0, 1));
    }
    window_side_fini(r, &s);
    free(src);
    free(back);
}

static void computing_rank_serves_its_memory(void **state)
{
    (void)state;
    over_all_ways(passive_role, 2, NULL);
}

/* ---- waiting, and the memory itself ---- */

static void waiting_role(struct rank *r)
{
    const size_t words[3] = { 16, 0, 8 };
    const struct window_way *m = r->job->arg;
    uint64_t seen = 0;
    size_t index = 9;
    void *there;
    tutti_status st;
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, 64);
    CHECK_STATUS(r, tutti_window_test(s.window, 0, TUTTI_NOT_EQUAL, 0, NULL), TUTTI_PENDING);
    CHECK_STATUS(r, tutti_window_test_for(s.window, 8, TUTTI_AT_LEAST, 40, 20, &seen),
                 TUTTI_PENDING);
    CHECK(r, seen == 0);
    CHECK_STATUS(r, tutti_window_test_counter_for(s.window, &seen, 1, 20), TUTTI_PENDING);
    CHECK_OK(r, tutti_window_test_counter_for(s.window, &seen, 0, 20));
    CHECK_SAYS(r, tutti_window_wait(s.window, 0, TUTTI_NOT_EQUAL, 0, 20, NULL), TUTTI_ERR_TIMEOUT,
               "had the value 0 at the deadline, expected other than 0");
    CHECK_SAYS(r, tutti_window_wait(s.window, 8, TUTTI_EQUAL, 7, 20, NULL), TUTTI_ERR_TIMEOUT,
               "had the value 0 at the deadline, expected 7");
    CHECK_SAYS(r, tutti_window_wait_any(s.window, words, 3, TUTTI_AT_LEAST, 40, 20, &index, &seen),
               TUTTI_ERR_TIMEOUT,
               "expected at least 40 (the first word, at offset 16, had the value 0)");
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (r->rank == 0) {
        CHECK_OK(r, tutti_window_signal(s.window, 1, 8, TUTTI_SIGNAL_SET, 44));
        CHECK_OK(r, tutti_window_wait(s.window, 0, TUTTI_AT_LEAST, 2, 0, &seen));
        CHECK(r, seen == 2);
    } else {
        do {
            st = tutti_window_test_for(s.window, 8, TUTTI_AT_LEAST, 40, 5, &seen);
        } while (st == TUTTI_PENDING);
        CHECK_OK(r, st);
        CHECK(r, seen == 44);
        seen = 0;
        CHECK_OK(r,
                 tutti_window_wait_any(s.window, words, 3, TUTTI_AT_LEAST, 40, 0, &index, &seen));
        CHECK(r, index == 2 && seen == 44);
        CHECK_OK(r, tutti_window_test(s.window, 8, TUTTI_EQUAL, 44, NULL));
        CHECK_OK(r, tutti_window_signal(s.window, 0, 0, TUTTI_SIGNAL_ADD, 2));
    }
    CHECK_OK(r, tutti_window_pointer(s.window, !r->rank, &there));
    CHECK(r, !there == (m->own || strcmp(m->wires, "shm") != 0));
    if (there) {
        ((volatile uint64_t *)there)[5] = 70 + r->rank;
        CHECK_OK(r, tutti_window_signal(s.window, !r->rank, 48, TUTTI_SIGNAL_SET, 1));
        CHECK_OK(r, tutti_window_wait(s.window, 48, TUTTI_EQUAL, 1, 0, NULL));
        CHECK(r, ((volatile uint64_t *)(void *)s.mem)[5] == 70 + !r->rank);
    }
    CHECK_OK(r, tutti_window_pointer(s.window, (int)r->rank, &there));
    CHECK(r, there == s.mem);
    window_side_fini(r, &s);
}

static void waits_and_mapped_memory_work(void **state)
{
    (void)state;
    over_all_ways(waiting_role, 2, NULL);
}

/* ---- threads ---- */

#define THREADS 3
#define ROUNDS (UNIT_SHARE > 1 ? 20u : 100u)
#define BALL_BYTES 50000

struct player {
    struct rank *r;
    struct window_side *s;
    uint32_t lane;
};

/* Threads k of both ranks exchange signals in turn, as do all other pairs of threads; and all
 * threads add to one word. */
static void *play(void *arg)
{
    const struct player *p = arg;
    struct rank *r = p->r;
    const int other = !r->rank;
    const size_t word = 64 * (1 + p->lane), at = 64 * (1 + THREADS) + p->lane * BALL_BYTES;
    uint8_t *ball = job_have(r, malloc(BALL_BYTES));
    const tutti_rma rma = {
        .size = sizeof rma, .signal_op = TUTTI_SIGNAL_ADD, .signal_value = 1, .signal_offset = word
    };
    uint64_t old;

    for (uint32_t i = 1; i <= ROUNDS; i++) {
        if (r->rank == 1) {
            CHECK_OK(r, tutti_window_wait(p->s->window, word, TUTTI_EQUAL, i, 0, NULL));
            window_check_pattern(r, p->s->mem + at, BALL_BYTES, 100 * p->lane + i, "ball");
        }
        pattern_fill(ball, BALL_BYTES, 100 * p->lane + i);
        CHECK_OK(r, tutti_window_put(p->s->window, other, at, ball, BALL_BYTES, &rma));
        if (r->rank == 0) {
            CHECK_OK(r, tutti_window_wait(p->s->window, word, TUTTI_EQUAL, i, 0, NULL));
            window_check_pattern(r, p->s->mem + at, BALL_BYTES, 100 * p->lane + i, "ball");
        }
        CHECK_OK(r, tutti_window_atomic(p->s->window, 0, 0, 8, TUTTI_ATOMIC_ADD, 1, 0,
                                        i % 2 ? &old : NULL));
    }
    CHECK_OK(r, tutti_window_quiet(p->s->window, 0, 0));
    free(ball);
    return NULL;
}

static void threads_role(struct rank *r)
{
    struct player players[THREADS];
    pthread_t threads[THREADS];
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, 64 * (1 + THREADS) + THREADS * BALL_BYTES);
    for (uint32_t k = 0; k < THREADS; k++) {
        players[k] = (struct player){ .r = r, .s = &s, .lane = k };
        CHECK(r, pthread_create(&threads[k], NULL, play, &players[k]) == 0);
    }
    for (uint32_t k = 0; k < THREADS; k++)
        CHECK(r, pthread_join(threads[k], NULL) == 0);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    CHECK(r, r->rank == 1 || *(const uint64_t *)(const void *)s.mem == 2 * THREADS * ROUNDS);
    window_side_fini(r, &s);
}

static void threads_use_a_window_at_once(void **state)
{
    (void)state;
    over_all_ways(threads_role, 2, NULL);
}

/* ---- errors ---- */

/* A failure after a call has returned is reported by quiet, once, with the message of its
 * status. */
static void check_quiet_error(struct rank *r, const struct window_side *s, int other)
{
    static const struct {
        tutti_status status;
        const char *text;
    } cases[] = {
        { TUTTI_ERR_ABORTED, "freed its window before all operations to it were complete" },
        { TUTTI_ERR_NOMEM, "failed after the call that started it had returned" },
    };
    struct tt_windows *home = tt_engine_client_of(r->comm->world->engine)->arg;

    CHECK_OK(r, tutti_window_signal(s->window, other, 0, TUTTI_SIGNAL_ADD, 0));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tt_engine_client_enter(home->engine);
        for (struct tt_window *w = home->first; w; w = w->next)
            if (w->handle == s->window)
                w->ways[other].failed = cases[i].status;
        tt_engine_client_leave(home->engine);
        CHECK_SAYS(r, tutti_window_quiet(s->window, other, 0), cases[i].status, cases[i].text);
        CHECK_OK(r, tutti_window_quiet(s->window, other, 0));
    }
}

static void mistakes_role(struct rank *r)
{
    const tutti_rma outside = { .size = sizeof outside,
                                .signal_op = TUTTI_SIGNAL_SET,
                                .signal_offset = 32 + 8 * !r->rank };
    const tutti_rma odd = { .size = sizeof odd, .signal_op = TUTTI_SIGNAL_SET, .signal_offset = 4 };
    const tutti_rma strange = { .size = sizeof strange, .signal_op = (tutti_signal_op)9 };
    const tutti_rows many = { SIZE_MAX, 8, 8, 8 }, folded = { 2, 16, 8, 16 },
                     beyond = { 5, 8, 8, 8 };
    const tutti_piece pieces[2] = { { 0, "12345678", 8 }, { 33, "x", 0 } };
    const int other = !r->rank;
    const size_t theirs = other ? 40 : 32;
    tutti_window *w, *freed, *odd_window;
    uint64_t out[8] = { 0 }, old = 5;
    uint8_t *odd_memory = job_have(r, malloc(40));
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, r->rank ? 40 : 32);
    w = s.window;
    CHECK_SAYS(r, tutti_window_put(w, other, theirs - 7, out, 8, NULL), TUTTI_ERR_INVALID,
               other ? "40 bytes" : "32 bytes");
    CHECK_SAYS(r, tutti_window_put(w, other, SIZE_MAX, out, 8, NULL), TUTTI_ERR_INVALID, "offset");
    CHECK_SAYS(r, tutti_window_put(w, other, 0, out, SIZE_MAX, NULL), TUTTI_ERR_INVALID, "bytes");
    CHECK_SAYS(r, tutti_window_put(w, 2, 0, out, 8, NULL), TUTTI_ERR_INVALID,
               "rank 2 is out of range");
    CHECK_SAYS(r, tutti_window_put(w, -1, 0, out, 8, NULL), TUTTI_ERR_INVALID,
               "rank -1 is out of range");
    CHECK_SAYS(r, tutti_window_put(w, other, 0, NULL, 8, NULL), TUTTI_ERR_INVALID, "NULL");
    CHECK_SAYS(r, tutti_window_put(NULL, other, 0, out, 8, NULL), TUTTI_ERR_INVALID, "NULL");
    CHECK_SAYS(r, tutti_window_put(w, other, 0, out, 8, &outside), TUTTI_ERR_INVALID,
               "rma.signal_offset: 8 bytes at offset");
    CHECK_SAYS(r, tutti_window_put(w, other, 0, out, 8, &odd), TUTTI_ERR_INVALID,
               "rma.signal_offset: offset 4 is misaligned: must be a multiple of 8");
    CHECK_SAYS(r, tutti_window_put(w, other, 0, out, 8, &strange), TUTTI_ERR_INVALID, "9");
    CHECK_SAYS(r, tutti_window_put_rows(w, other, 0, out, &many, NULL), TUTTI_ERR_INVALID, "rows");
    CHECK_SAYS(r, tutti_window_put_rows(w, other, 0, out, &folded, NULL), TUTTI_ERR_INVALID,
               "overlap");
    CHECK_SAYS(r, tutti_window_put_rows(w, other, 8, out, &beyond, NULL), TUTTI_ERR_INVALID,
               "offset 8");
    CHECK_SAYS(r, tutti_window_put_pieces(w, 0, pieces, 2, NULL), TUTTI_ERR_INVALID, "offset 33");
    CHECK_SAYS(r, tutti_window_get(w, other, theirs, out, 1, NULL), TUTTI_ERR_INVALID, "1 bytes");
    CHECK_SAYS(r, tutti_window_signal(w, other, 0, TUTTI_SIGNAL_NONE, 1), TUTTI_ERR_INVALID,
               "op is TUTTI_SIGNAL_NONE");
    CHECK_SAYS(r, tutti_window_wait(w, 40, TUTTI_EQUAL, 0, 0, NULL), TUTTI_ERR_INVALID,
               "offset 40");
    CHECK_SAYS(r, tutti_window_wait(w, 0, (tutti_compare)7, 0, 0, NULL), TUTTI_ERR_INVALID, "7");
    CHECK_SAYS(r, tutti_window_atomic(w, other, 0, 2, TUTTI_ATOMIC_ADD, 1, 0, &old),
               TUTTI_ERR_INVALID, "4 or 8");
    CHECK_SAYS(r, tutti_window_atomic(w, other, 4, 8, TUTTI_ATOMIC_ADD, 1, 0, &old),
               TUTTI_ERR_INVALID, "multiple");
    CHECK_SAYS(r, tutti_window_atomic(w, other, 0, 8, (tutti_atomic_op)6, 1, 0, &old),
               TUTTI_ERR_INVALID, "6");
    CHECK_SAYS(r, tutti_window_fence(w, 7), TUTTI_ERR_INVALID, "rank 7 is out of range");
    CHECK_SAYS(r, tutti_window_quiet(w, -2, 0), TUTTI_ERR_INVALID, "rank -2 is out of range");
    check_quiet_error(r, &s, other);
    CHECK(r, old == 5);
    CHECK_OK(r, tutti_window_create(r->comm, NULL, 0, &freed));
    CHECK_SAYS(r, tutti_window_put(freed, other, 0, out, 1, NULL), TUTTI_ERR_INVALID, "0 bytes");
    CHECK_OK(r, tutti_window_put(freed, other, 0, out, 0, NULL));
    CHECK_OK(r, tutti_window_free(freed));
    CHECK_SAYS(r, tutti_window_put(freed, other, 0, out, 0, NULL), TUTTI_ERR_INVALID, "freed");
    CHECK_SAYS(r, tutti_window_free(freed), TUTTI_ERR_INVALID, "freed");
    CHECK_OK(r, tutti_window_free(NULL));
    CHECK_OK(r, tutti_window_create(r->comm, odd_memory + 1, 39, &odd_window));
    CHECK_SAYS(r, tutti_window_signal(odd_window, other, 8, TUTTI_SIGNAL_SET, 1), TUTTI_ERR_INVALID,
               "must be 8-byte aligned");
    CHECK_OK(r, tutti_window_free(odd_window));
    free(odd_memory);
    CHECK_SAYS(r, tutti_window_create(r->comm, NULL, r->rank ? SIZE_MAX : 64, &freed),
               TUTTI_ERR_NOMEM,
               r->rank ? "not fit in the address space" : "rank 1 failed to create its part");
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_check_all(r, s.mem, s.bytes, 0);
    window_side_fini(r, &s);
}

static void invalid_calls_have_no_effect(void **state)
{
    (void)state;
    over_all_ways(mistakes_role, 2, NULL);
}

/* ---- memory of devices ---- */

#define DEVICE_BYTES (64u << 10)

static const size_t device_sizes[] = { 8, 100, 4096, 40000 };

/* Returns whether this method must support device memory. */
static bool must_carry_devices(const char *wires)
{
    return strstr(wires, "verbs") || (strstr(wires, "ofi") && !getenv("TUTTI_OFI_PROVIDER"));
}

/* Emulates device memory. With verbs, no processor can access it while it is in use. libfabric's
 * TCP provider accesses it by processor, so it remains accessible. */
static void lend(struct rank *r, uint8_t *mem, bool to_device)
{
    if (strstr(getenv("TUTTI_WIRES"), "verbs"))
        CHECK(r, mprotect(mem, DEVICE_BYTES, to_device ? PROT_NONE : PROT_READ | PROT_WRITE) == 0);
}

/* Operations of processors are refused. */
static void check_refusals(struct rank *r, tutti_window *window, uint8_t *device, int other)
{
    const tutti_rma signal = { .size = sizeof signal, .signal_op = TUTTI_SIGNAL_SET };
    uint64_t word = 0;

    CHECK_STATUS(r, tutti_window_put(window, (int)r->rank, 0, &word, 8, NULL),
                 TUTTI_ERR_UNSUPPORTED);
    CHECK_STATUS(r, tutti_window_put(window, other, 0, &word, 8, &signal), TUTTI_ERR_UNSUPPORTED);
    CHECK_STATUS(r, tutti_window_signal(window, other, 0, TUTTI_SIGNAL_ADD, 1),
                 TUTTI_ERR_UNSUPPORTED);
    CHECK_STATUS(r, tutti_window_get(window, other, 0, &word, 8, NULL), TUTTI_ERR_UNSUPPORTED);
    CHECK_STATUS(r, tutti_window_atomic(window, other, 0, 8, TUTTI_ATOMIC_ADD, 1, 0, &word),
                 TUTTI_ERR_UNSUPPORTED);
    CHECK_STATUS(r, tutti_window_wait(window, 0, TUTTI_EQUAL, 0, 0, NULL), TUTTI_ERR_UNSUPPORTED);
    CHECK_STATUS(r, tutti_allreduce(device, device, 16, TUTTI_F32, TUTTI_SUM, r->comm, NULL),
                 TUTTI_ERR_UNSUPPORTED);
    CHECK(r, strstr(tutti_last_error(), "device memory"));
}

/* A file that is not a dma-buf is refused: verbs passes it to the device's driver, which refuses it
 * or supports no dma-bufs. A part of a page is invalid. */
static void check_dmabuf_refusal(struct rank *r, uint8_t *pages, const tutti_mem_device *what)
{
    tutti_mem_device file = *what;
    tutti_status st;

    file.has_dmabuf = 1;
    file.dmabuf = memfd_create("no dma-buf", 0);
    CHECK(r, file.dmabuf >= 0 && ftruncate(file.dmabuf, DEVICE_BYTES) == 0);
    if (strstr(getenv("TUTTI_WIRES"), "verbs")) {
        st = tutti_mem_register_device(r->comm, pages, DEVICE_BYTES, &file);
        CHECK(r, st == TUTTI_ERR_UNSUPPORTED || st == TUTTI_ERR_INVALID);
        CHECK(r, strstr(tutti_last_error(), "by its dma-buf"));
    }
    close(file.dmabuf);
    CHECK_SAYS(r, tutti_mem_register_device(r->comm, pages + 8, DEVICE_BYTES - 8, what),
               TUTTI_ERR_INVALID, "must be multiples of the page size");
    CHECK_SAYS(r, tutti_mem_register_device(r->comm, pages, 0, what), TUTTI_ERR_INVALID, "0 bytes");
    CHECK_SAYS(r, tutti_mem_register_device(r->comm, pages, DEVICE_BYTES, NULL), TUTTI_ERR_INVALID,
               "NULL");
    file = *what;
    file.kind = (tutti_mem_kind)9;
    CHECK_SAYS(r, tutti_mem_register_device(r->comm, pages, DEVICE_BYTES, &file), TUTTI_ERR_INVALID,
               "what.kind is 9: must be 0 to 3");
}

/* A window that no transport reaches, e.g. because its memory cannot be locked: puts use
 * messages. */
static tutti_window *make_unreached(struct rank *r, void *mem, size_t bytes)
{
    struct tt_engine *e = r->comm->world->engine;
    struct tt_wire *wire;
    tutti_window *window;

    for (int able = 0; able < 2; able++) {
        tt_engine_client_enter(e);
        for (uint32_t i = 0; (wire = tt_engine_client_wire(e, i)); i++)
            wire->caps = able ? wire->caps | TT_WIRE_CAP_ANYMEM : wire->caps & ~TT_WIRE_CAP_ANYMEM;
        tt_engine_client_leave(e);
        if (!able)
            CHECK_OK(r, tutti_window_create(r->comm, mem, bytes, &window));
    }
    return window;
}

/* ---- windows with different access methods ---- */

#define MIXED_ROUNDS (UNIT_SHARE > 1 ? 10u : 40u)
#define MIXED_BYTES (MIB + 4096)

/* Long puts to a window that the transport reaches, a fence, and a signal in a window that it does
 * not reach: the signal is visible after the bytes. Then the next round may start. */
static void mixed_role(struct rank *r)
{
    uint8_t *src = job_have(r, malloc(MIXED_BYTES));
    const int other = !r->rank;
    tutti_window *unreached;
    struct window_side s;
    uint64_t word[8] = { 0 };

    window_job_open(r);
    window_side_init(r, &s, 64 + MIXED_BYTES);
    unreached = make_unreached(r, word, sizeof word);
    for (uint64_t i = 1; i <= MIXED_ROUNDS; i++) {
        uint64_t counter = 0;
        const tutti_rma later = { .size = sizeof later, .counter = &counter };

        job_step(r, "round %u", (uint32_t)i);
        if (r->rank == 0) {
            pattern_fill(src, MIXED_BYTES, i);
            CHECK_OK(r, tutti_window_put(s.window, other, 64, src, MIXED_BYTES, &later));
            CHECK_OK(r, tutti_window_fence(s.window, i % 2 ? other : TUTTI_ALL_RANKS));
            if (i % 4 >= 2)         /* a signal sent by the transport does not complete the fence
                                       for messages */
                CHECK_OK(r, tutti_window_signal(s.window, other, 8, TUTTI_SIGNAL_SET, i));
            CHECK_OK(r, tutti_window_signal(unreached, other, 8, TUTTI_SIGNAL_SET, i));
            CHECK_OK(r, tutti_window_wait_counter(s.window, &counter, 1, 0));
            CHECK_OK(r, tutti_window_wait(unreached, 8, TUTTI_EQUAL, i, 0, NULL));
        } else {
            CHECK_OK(r, tutti_window_wait(unreached, 8, TUTTI_EQUAL, i, 0, NULL));
            window_check_pattern(r, s.mem + 64, MIXED_BYTES, i, "put before a fence");
            CHECK_OK(r, tutti_window_signal(unreached, other, 8, TUTTI_SIGNAL_SET, i));
        }
    }
    CHECK_OK(r, tutti_window_free(unreached));
    window_side_fini(r, &s);
    free(src);
}

static void fence_orders_messages_behind_puts(void **state)
{
    (void)state;
    over_all_ways(mixed_role, 2, NULL);
}

/* ---- several fences behind queued puts ---- */

/* One more message than the limit of unacknowledged ones, so the last one is queued. */
#define FENCES_BYTES ((size_t)(TT_WINDOW_REQUESTS_MAX + 1) * TT_WINDOW_CHUNK_BYTES)
#define FENCES_PASSES 100

/* Rank 1 executes the received messages before rank 0 gets a reply: both hold their progress
 * locks. */
static void execute_first_messages(struct rank *r, const uint8_t *host, const uint8_t *src)
{
    struct tt_engine *e = r->comm->world->engine;

    job_meet(r);
    if (r->rank == 1)
        while (memcmp(host, src, TT_WINDOW_CHUNK_BYTES) != 0)
            tt_engine_progress(e);
    for (int i = 0; r->rank == 1 && i < FENCES_PASSES; i++)
        tt_engine_progress(e);
    job_meet(r);
}

/* Rank 0 puts by messages, the last of which is queued. Behind this message, rank 0 queues signals
 * for the transport, with a fence before and after each. When the last message is sent, all others
 * are acknowledged; the signals still wait for its acknowledgement. */
static void fences_role(struct rank *r)
{
    uint8_t *src = job_have(r, malloc(FENCES_BYTES)), *host = job_have(r, calloc(1, FENCES_BYTES));
    const int fenced = tt_prng_below(&r->common, 2) ? TUTTI_ALL_RANKS : 1;
    struct tt_engine *e;
    tutti_window *unreached;
    struct window_side s;
    uint64_t sent = 0, told = 0;
    const tutti_rma put = { .size = sizeof put, .counter = &sent };
    tutti_rma tell = {
        .size = sizeof tell, .counter = &told, .signal_op = TUTTI_SIGNAL_SET, .signal_value = 1
    };

    window_job_open(r);
    e = r->comm->world->engine;
    window_side_init(r, &s, 64);
    unreached = make_unreached(r, host, FENCES_BYTES);
    pattern_fill(src, FENCES_BYTES, 13);
    if (r->rank == 0) {         /* links are created on first use */
        CHECK_OK(r, tutti_window_put(unreached, 1, 0, src, 1, NULL));
        CHECK_OK(r, tutti_window_quiet(unreached, 1, 0));
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    if (r->rank == 1)
        tt_engine_client_enter(e);
    job_meet(r);
    if (r->rank == 0) {
        CHECK_OK(r, tutti_window_put(unreached, 1, 0, src, FENCES_BYTES, &put));
        CHECK(r, sent == 0);
        for (tell.signal_offset = 0; tell.signal_offset < 32; tell.signal_offset += 8) {
            CHECK_OK(r, tutti_window_fence(s.window, fenced));
            CHECK_OK(r, tutti_window_put(s.window, 1, 0, NULL, 0, &tell));
        }
        CHECK_OK(r, tutti_window_fence(s.window, fenced));
        tt_engine_client_enter(e);
    }
    execute_first_messages(r, host, src);
    if (r->rank == 0) {
        tt_engine_client_leave(e);
        job_step(r, "send the last message");
        CHECK_OK(r, tutti_window_wait_counter(unreached, &sent, 1, 0));
        tt_engine_client_enter(e);      /* the pass that sent it is over */
        tt_engine_client_leave(e);
    }
    job_meet(r);
    if (r->rank == 1) {
        const uint64_t *word = (const uint64_t *)(const void *)s.mem;

        for (int i = 0; i < 4; i++)
            CHECK(r, __atomic_load_n(&word[i], __ATOMIC_ACQUIRE) == 0);
        tt_engine_client_leave(e);
        for (size_t i = 0; i < 4; i++)
            CHECK_OK(r, tutti_window_wait(s.window, 8 * i, TUTTI_EQUAL, 1, 0, NULL));
        window_check_pattern(r, host, FENCES_BYTES, 13, "put by messages, before fences");
    } else {
        CHECK_OK(r, tutti_window_wait_counter(s.window, &told, 4, 0));
    }
    CHECK_OK(r, tutti_window_quiet(s.window, TUTTI_ALL_RANKS, 0));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    CHECK_OK(r, tutti_window_free(unreached));
    window_side_fini(r, &s);
    free(host);
    free(src);
}

static void each_fence_orders_queued_puts(void **state)
{
    (void)state;
    over_all_ways(fences_role, 2, NULL);
}

/* ---- a stopped rank ---- */

#define LONG_BYTES (64 * MIB)
#define SHORT_AT (64 + LONG_BYTES)
#define SHORTS_MAX 5000u        /* more than a queue holds */
#define FLAG_GO_ON 1            /* job_go_on_after waits for it */

/* Rank 1 is stopped. Puts with a counter still return, even with 64 MiB; with no_wait and a full
 * queue they return PENDING. Meanwhile rank 2 is served. Then all data arrives, and no signal
 * before the puts that a fence orders before it. */
static void stopped_role(struct rank *r)
{
    uint8_t *src = job_have(r, malloc(LONG_BYTES));
    uint64_t counter = 0, puts = 1, value = 0;
    tutti_rma later = { .size = sizeof later, .counter = &counter };
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, SHORT_AT + 8 * SHORTS_MAX);
    pattern_fill(src, LONG_BYTES, 3);
    for (int to = 1; r->rank == 0 && to <= 2; to++)
        CHECK_OK(r, tutti_window_signal(s.window, to, 56, TUTTI_SIGNAL_SET, 1));
    CHECK_OK(r, r->rank == 0 ? TUTTI_OK : tutti_window_wait(s.window, 56, TUTTI_EQUAL, 1, 0, NULL));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    if (r->rank == 1) {
        job_step(r, "stand still");
        kill(getpid(), SIGSTOP);
        CHECK(r, r->board->flag[FLAG_GO_ON] == 1);
        CHECK_OK(r, tutti_window_wait(s.window, 8, TUTTI_EQUAL, 1, 0, NULL));
        window_check_pattern(r, s.mem + 64, LONG_BYTES, 3, "put before a fence");
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
        for (uint64_t i = 2; i <= r->board->word[0][0]; i++)
            CHECK(r, ((const uint64_t *)(const void *)(s.mem + SHORT_AT))[i] == i);
    } else if (r->rank == 2) {
        CHECK_OK(r, tutti_window_wait(s.window, 8, TUTTI_EQUAL, 1, 0, NULL));
        CHECK_OK(r, tutti_window_signal(s.window, 0, 8, TUTTI_SIGNAL_SET, 1));
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
    } else {
        tutti_status st = TUTTI_OK;

        CHECK(r, job_await(r->board, 0, 1));
        job_step(r, "a long put to a stopped rank");
        CHECK_OK(r, tutti_window_put(s.window, 1, 64, src, LONG_BYTES, &later));
        CHECK_OK(r, tutti_window_fence(s.window, r->job->seed % 2 ? 1 : TUTTI_ALL_RANKS));
        later.signal_op = TUTTI_SIGNAL_SET;
        later.signal_value = 1;
        later.signal_offset = 8;
        CHECK_OK(r, tutti_window_put(s.window, 1, SHORT_AT, &value, sizeof value, &later));
        puts++;
        later.signal_op = TUTTI_SIGNAL_NONE;
        later.no_wait = 1;
        for (; puts < SHORTS_MAX && st == TUTTI_OK; puts += st == TUTTI_OK) {
            value = puts;
            st = tutti_window_put(s.window, 1, SHORT_AT + 8 * puts, &value, sizeof value, &later);
        }
        CHECK(r, st == TUTTI_OK || st == TUTTI_PENDING);
        r->board->word[0][0] = puts - 1;
        value = 0;              /* short sources are reusable at once */
        job_step(r, "another rank meanwhile");
        CHECK_OK(r, tutti_window_signal(s.window, 2, 8, TUTTI_SIGNAL_SET, 1));
        CHECK_OK(r, tutti_window_wait(s.window, 8, TUTTI_EQUAL, 1, 0, NULL));
        job_raise(r->board, FLAG_GO_ON);
        job_step(r, "all of it arrives");
        CHECK_OK(r, tutti_window_wait_counter(s.window, &counter, puts, 0));
        CHECK_OK(r, tutti_window_quiet(s.window, r->job->seed % 2 ? 1 : TUTTI_ALL_RANKS, 0));
        CHECK(r, counter == puts);
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
    }
    window_side_fini(r, &s);
    free(src);
}

static void nonblocking_put_to_stopped_rank_returns(void **state)
{
    (void)state;
    over_all_ways(stopped_role, 3, job_go_on_after);
}

#define ROWS 1024u
#define ROW_BYTES 32768u        /* a short source: copied if the transport cannot accept it */
#define ATOMICS 40u             /* more than the maximum of unanswered messages */
#define CALLS_TIMEOUT_MS "20000"
enum { AT_SIGNAL = 0, AT_SUM = 8, AT_SWAP = 16, AT_SERVED = 24, AT_START = 32, AT_ROWS = 64 };

/* Rank 1 is stopped until rank 0 has made all these calls, which therefore cannot wait for it. */
static void call_stopped_rank(struct rank *r, const struct window_side *s, const uint8_t *src,
                              uint64_t *counter)
{
    const tutti_rows rows = {
        .rows = ROWS, .row_bytes = ROW_BYTES, .src_stride = ROW_BYTES, .stride = ROW_BYTES
    };
    tutti_rma how = { .size = sizeof how, .counter = counter, .no_wait = 1 };
    tutti_status st;

    job_step(r, "rows with short sources");
    CHECK_OK(r, tutti_window_put_rows(s->window, 1, AT_ROWS, src, &rows, &how));
    job_step(r, "signals and atomics");
    CHECK_OK(r, tutti_window_fence(s->window, 1));
    for (uint32_t i = 1; i <= ATOMICS; i++) {
        CHECK_OK(r, tutti_window_signal(s->window, 1, AT_SIGNAL, TUTTI_SIGNAL_ADD, 1));
        CHECK_OK(r, tutti_window_atomic(s->window, 1, AT_SUM, 8, TUTTI_ATOMIC_ADD, 1, 0, NULL));
        CHECK_OK(r, tutti_window_atomic(s->window, 1, AT_SWAP, 4, TUTTI_ATOMIC_SWAP, i, 0, NULL));
    }
    job_step(r, "rows, PENDING if the queue is not empty");
    st = tutti_window_put_rows(s->window, 1, AT_ROWS, src, &rows, &how);
    CHECK(r, st == TUTTI_OK || st == TUTTI_PENDING);
    r->board->word[0][0] = 1 + (st == TUTTI_OK);
    job_step(r, "another rank meanwhile");
    CHECK_OK(r, tutti_window_signal(s->window, 2, AT_SERVED, TUTTI_SIGNAL_SET, 1));
    CHECK_OK(r, tutti_window_wait(s->window, AT_SERVED, TUTTI_EQUAL, 1, 0, NULL));
}

static void nonblocking_role(struct rank *r)
{
    uint8_t *src = job_have(r, malloc((size_t)ROWS * ROW_BYTES));
    uint64_t counter = 0, first = 0;
    struct window_side s;

    setenv("TUTTI_TIMEOUT_MS", CALLS_TIMEOUT_MS, 1);
    window_job_open(r);
    window_side_init(r, &s, AT_ROWS + (size_t)ROWS * ROW_BYTES);
    pattern_fill(src, (size_t)ROWS * ROW_BYTES, 5);
    for (int to = 1; r->rank == 0 && to <= 2; to++)
        CHECK_OK(r, tutti_window_atomic(s.window, to, AT_START, 8, TUTTI_ATOMIC_OR, 1, 0, &first));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    if (r->rank == 0) {
        CHECK(r, job_await(r->board, 0, 1));
        call_stopped_rank(r, &s, src, &counter);
        pattern_fill(src, (size_t)ROWS * ROW_BYTES, 6);     /* short sources are reusable */
        job_raise(r->board, FLAG_GO_ON);
        CHECK_OK(r, tutti_window_wait_counter(s.window, &counter, r->board->word[0][0], 0));
        CHECK_OK(r, tutti_window_quiet(s.window, 1, 0));
    } else if (r->rank == 1) {
        kill(getpid(), SIGSTOP);
        CHECK(r, r->board->flag[FLAG_GO_ON] == 1);
        CHECK_OK(r, tutti_window_wait(s.window, AT_SIGNAL, TUTTI_EQUAL, ATOMICS, 0, NULL));
        window_check_pattern(r, s.mem + AT_ROWS, (size_t)ROWS * ROW_BYTES, 5, "rows");
    } else {
        CHECK_OK(r, tutti_window_wait(s.window, AT_SERVED, TUTTI_EQUAL, 1, 0, NULL));
        CHECK_OK(r, tutti_window_signal(s.window, 0, AT_SERVED, TUTTI_SIGNAL_SET, 1));
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (r->rank == 1) {
        CHECK(r, *(const uint64_t *)(const void *)(s.mem + AT_SUM) == ATOMICS);
        CHECK(r, *(const uint32_t *)(const void *)(s.mem + AT_SWAP) == ATOMICS);
    }
    window_side_fini(r, &s);
    free(src);
}

static void nonblocking_calls_to_stopped_rank_return(void **state)
{
    (void)state;
    over_all_ways(nonblocking_role, 3, job_go_on_after);
}

#define BLOCKED_AT (64 + LONG_BYTES)
#define BLOCKED_PUTS 4
#define BLOCKED_MS 200

/* A wait with queued puts must not scan all peers: nranks is raised by 1000, and the array of peers
 * ends at an unreadable page, so a scan would fault. */
static void check_looks_at_queues_only(struct rank *r, tutti_window *window)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE),
                 bytes = r->nranks * sizeof(struct tt_window_peer *);
    uint8_t *mem = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct tt_engine *e = r->comm->world->engine;
    struct tt_windows *home = tt_engine_client_of(e)->arg;
    struct tt_window_peer **peers = home->peers;
    const uint64_t never = 0;

    CHECK(r, mem != MAP_FAILED && mprotect(mem + page, page, PROT_NONE) == 0);
    tt_engine_client_enter(e);
    home->peers = memcpy(mem + page - bytes, peers, bytes);
    home->nranks += 1000;
    tt_engine_client_leave(e);
    CHECK_STATUS(r, tutti_window_wait_counter(window, &never, 1, BLOCKED_MS), TUTTI_ERR_TIMEOUT);
    tt_engine_client_enter(e);
    memcpy(peers, home->peers, bytes);
    home->peers = peers;
    home->nranks -= 1000;
    tt_engine_client_leave(e);
    munmap(mem, 2 * page);
}

/* Rank 1 is stopped and the transport has no space. Puts with signals behind fences still return: a
 * blocking one at its deadline, one with a counter at once. So does a wait while such puts are
 * queued. Then the queued puts arrive, and none of their signals before the puts that the fences
 * order before it. */
static void blocked_role(struct rank *r)
{
    uint8_t *src = job_have(r, malloc(LONG_BYTES));
    const int fenced = r->job->seed % 2 ? 1 : TUTTI_ALL_RANKS;
    uint64_t counter = 0;
    tutti_rma brief = { .size = sizeof brief, .timeout_ms = BLOCKED_MS };
    tutti_rma later = {
        .size = sizeof later,
        .counter = &counter,
        .signal_op = TUTTI_SIGNAL_SET,
        .signal_value = 1,
        .signal_offset = 0,
    };
    struct window_side s;
    tutti_status st;

    window_job_open(r);
    window_side_init(r, &s, BLOCKED_AT + BLOCKED_PUTS * MIB);
    pattern_fill(src, LONG_BYTES, 3);
    CHECK_OK(r, r->rank == 0 ? tutti_window_signal(s.window, 1, 56, TUTTI_SIGNAL_SET, 1)
                             : tutti_window_wait(s.window, 56, TUTTI_EQUAL, 1, 0, NULL));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    if (r->rank == 1) {
        job_step(r, "stand still");
        kill(getpid(), SIGSTOP);
        for (size_t i = BLOCKED_PUTS; i-- > 0;) {
            CHECK_OK(r, tutti_window_wait(s.window, 8 * i, TUTTI_EQUAL, 1, 0, NULL));
            for (size_t k = 0; k <= i; k++)
                CHECK(r, memcmp(s.mem + BLOCKED_AT + k * MIB, src + k * MIB, MIB) == 0);
        }
    } else {
        CHECK(r, job_await(r->board, 0, 1));
        job_step(r, "a long put to a stopped rank");
        st = tutti_window_put(s.window, 1, 64, src, LONG_BYTES, &brief);
        CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_TIMEOUT);
        CHECK_OK(r, tutti_window_fence(s.window, fenced));
        job_step(r, "a put with a signal behind a fence");
        brief.signal_op = TUTTI_SIGNAL_SET;
        brief.signal_offset = 48;
        st = tutti_window_put(s.window, 1, BLOCKED_AT, src, MIB, &brief);
        CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_TIMEOUT);
        for (size_t i = 0; i < BLOCKED_PUTS; i++) {
            job_step(r, "put %zu with a counter", i);
            later.signal_offset = 8 * i;
            CHECK_OK(
                r, tutti_window_put(s.window, 1, BLOCKED_AT + i * MIB, src + i * MIB, MIB, &later));
            CHECK_OK(r, tutti_window_fence(s.window, fenced));
        }
        job_step(r, "make progress while puts are queued");
        check_looks_at_queues_only(r, s.window);
        job_raise(r->board, FLAG_GO_ON);
        job_step(r, "all of it arrives");
        CHECK_OK(r, tutti_window_wait_counter(s.window, &counter, BLOCKED_PUTS, 0));
        CHECK_OK(r, tutti_window_quiet(s.window, 1, 0));
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    window_side_fini(r, &s);
    free(src);
}

static void full_queue_keeps_deadlines_of_signals(void **state)
{
    (void)state;
    over_all_ways(blocked_role, 2, job_go_on_after);
}

/* ---- a computing process ---- */

/* the progress thread sleeps this long or longer only if it waits for nothing but events */
#define PARKED_MS 1000
#define PARKED_ROUNDS (UNIT_SHARE > 1 ? 2 : 6)
#define PARKED_BYTES (16 * MIB)

static atomic_uint parked;      /* number of threads that sleep like this, or are about to */
static atomic_bool parks_for_ever;

/* The library is linked statically; this function replaces that of the C library. */
int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
    const bool parks = timeout_ms >= PARKED_MS;
    int n;

    parked += parks;
    n = epoll_pwait(fd, events, max, parks && parks_for_ever ? -1 : timeout_ms, NULL);
    parked -= parks;
    return n;
}

/* Rank 0 puts while its progress thread sleeps without a timeout, and then makes no call: the
 * counters are still updated. */
static void parked_role(struct rank *r)
{
    static const size_t bytes[] = { 100000, PARKED_BYTES, 64 };
    uint8_t *src = job_have(r, calloc(1, PARKED_BYTES));
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, 64 + PARKED_BYTES);
    CHECK_OK(r, r->rank == 0 ? tutti_window_signal(s.window, 1, 0, TUTTI_SIGNAL_SET, 1)
                             : tutti_window_wait(s.window, 0, TUTTI_EQUAL, 1, 0, NULL));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    parks_for_ever = r->rank == 0;
    for (size_t i = 0; r->rank == 0 && i < PARKED_ROUNDS * sizeof bytes / sizeof *bytes; i++) {
        uint64_t counter = 0;
        const tutti_rma rma = { .size = sizeof rma, .counter = &counter };

        job_step(r, "round %zu: the progress thread falls asleep", i);
        while (parked == 0)
            usleep(1000);
        CHECK_OK(r, tutti_window_put(s.window, 1, 64, src, bytes[i % 3], &rma));
        job_step(r, "round %zu: the counter grows without further calls", i);
        while (__atomic_load_n(&counter, __ATOMIC_ACQUIRE) == 0)
            usleep(1000);
    }
    parks_for_ever = false;
    job_step(r, "end");
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    window_side_fini(r, &s);
    free(src);
}

static void counters_grow_without_calls(void **state)
{
    (void)state;
    over_all_ways(parked_role, 2, NULL);
}

/* The signal of a put from device memory waits for messages that a fence orders before it: messages
 * cannot carry its bytes. Rank 1 acknowledges none while it holds the progress lock itself. */
static void check_waits_behind_messages(struct rank *r, tutti_window *window, tutti_window *signals,
                                        const uint8_t *source, int other)
{
    tutti_rma rma = {
        .size = sizeof rma,
        .signal_op = TUTTI_SIGNAL_SET,
        .signal_value = UINT64_MAX,
        .signal_window = signals,
        .timeout_ms = 50,
    };
    uint8_t *host = job_have(r, calloc(1, 1000)), mailed[1000];
    tutti_window *unreached = make_unreached(r, host, sizeof mailed);

    job_step(r, "put a device's memory behind messages");
    pattern_fill(mailed, sizeof mailed, 7);
    if (r->rank == 1)
        tt_engine_client_enter(r->comm->world->engine);
    job_meet(r);
    if (r->rank == 0) {
        CHECK_OK(r, tutti_window_put(unreached, other, 0, mailed, sizeof mailed, NULL));
        CHECK_OK(r, tutti_window_fence(window, other));
        CHECK_STATUS(r, tutti_window_put(window, other, 0, source, DEVICE_BYTES, &rma),
                     TUTTI_ERR_TIMEOUT);
    }
    job_meet(r);
    rma.timeout_ms = 0;
    if (r->rank == 0) {
        CHECK_OK(r, tutti_window_put(window, other, 0, source, DEVICE_BYTES, &rma));
    } else {
        tt_engine_client_leave(r->comm->world->engine);
        CHECK_OK(r, tutti_window_wait(signals, 0, TUTTI_EQUAL, UINT64_MAX, 0, NULL));
        window_check_pattern(r, host, sizeof mailed, 7,
                             "put by message, before a put of a device's memory");
    }
    CHECK_OK(r, tutti_window_quiet(window, TUTTI_ALL_RANKS, 0));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    CHECK_OK(r, tutti_window_free(unreached));
    free(host);
}

/* Puts from device memory and from host memory to another device's, short and long, with signals in
 * host memory. */
static void device_role(struct rank *r)
{
    uint8_t *mem = mmap(NULL, 3 * DEVICE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0),
            *source, *host_pages;
    const tutti_mem_device what = { .size = sizeof what, .kind = TUTTI_MEM_MAPPED };
    uint8_t *host = job_have(r, malloc(DEVICE_BYTES));
    const int other = (int)(1 - r->rank);
    tutti_window *window, *signals;
    uint64_t puts = 0;
    tutti_status st;

    CHECK(r, mem != MAP_FAILED);
    source = mem + DEVICE_BYTES;
    host_pages = source + DEVICE_BYTES;
    window_job_open(r);
    st = tutti_mem_register_device(r->comm, mem, 2 * DEVICE_BYTES, &what);
    if (st == TUTTI_ERR_UNSUPPORTED && !must_carry_devices(getenv("TUTTI_WIRES"))) {
        CHECK(r, strstr(tutti_last_error(), "TUTTI_WIRES=verbs or ofi"));
        job_close(r);
        free(host);
        return;
    }
    CHECK_OK(r, st);
    check_dmabuf_refusal(r, host_pages, &what);
    CHECK_OK(r, tutti_window_create(r->comm, mem, DEVICE_BYTES, &window));
    CHECK_OK(r, tutti_window_create(r->comm, NULL, 64, &signals));
    check_refusals(r, window, source, other);
    for (size_t i = 0; i < sizeof device_sizes / sizeof *device_sizes; i++)
        for (int from_host = 0; from_host < 2; from_host++) {
            const size_t bytes = device_sizes[i];
            const tutti_rma rma = {
                .size = sizeof rma,
                .signal_op = TUTTI_SIGNAL_SET,
                .signal_value = ++puts,
                .signal_window = signals,
            };

            job_step(r, "put %zu bytes, from_host %d", bytes, from_host);
            pattern_fill(from_host ? host : source, bytes, salt_of(r->rank, (uint32_t)other, puts));
            memset(mem, 0, DEVICE_BYTES);
            lend(r, mem, true);
            lend(r, source, true);
            CHECK_OK(r, tutti_barrier(r->comm, NULL));
            CHECK_OK(r,
                     tutti_window_put(window, other, 64, from_host ? host : source, bytes, &rma));
            CHECK_OK(r, tutti_window_wait(signals, 0, TUTTI_EQUAL, puts, 0, NULL));
            lend(r, mem, false);
            lend(r, source, false);
            window_check_pattern(r, mem + 64, bytes, salt_of((uint32_t)other, r->rank, puts),
                                 "put to a device");
            CHECK(r, mem[63] == 0 && mem[64 + bytes] == 0);
            CHECK_OK(r, tutti_window_quiet(window, TUTTI_ALL_RANKS, 0));
            CHECK_OK(r, tutti_barrier(r->comm, NULL));
        }
    pattern_fill(source, DEVICE_BYTES, salt_of(r->rank, (uint32_t)other, ++puts));
    lend(r, mem, true);
    lend(r, source, true);
    check_waits_behind_messages(r, window, signals, source, other);
    lend(r, mem, false);
    lend(r, source, false);
    if (r->rank == 1)
        window_check_pattern(r, mem, DEVICE_BYTES, salt_of((uint32_t)other, r->rank, puts),
                             "put behind messages");
    CHECK_OK(r, tutti_window_free(window));
    CHECK_OK(r, tutti_window_free(signals));
    CHECK_OK(r, tutti_mem_deregister(r->comm, mem));
    /* host memory again */
    CHECK_OK(r, tutti_allreduce(mem, mem, 16, TUTTI_F32, TUTTI_SUM, r->comm, NULL));
    job_close(r);
    free(host);
    munmap(mem, 3 * DEVICE_BYTES);
}

static void device_memory_is_supported_or_refused(void **state)
{
    (void)state;
    over_all_ways(device_role, 2, NULL);
}

/* ---- failures ---- */

/* Rank 2 dies while rank 0 waits for its signal and rank 1 continues to put to it. */
static void death_role(struct rank *r)
{
    uint8_t *src = job_have(r, calloc(1, 100000));
    tutti_status st = TUTTI_OK;
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, 100000);
    if (r->rank == 1) {
        CHECK_OK(r, tutti_window_put(s.window, 2, 0, src, 100000, NULL));
        CHECK_OK(r, tutti_window_quiet(s.window, 2, 0));
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    job_step(r, "rank 2 dies");
    if (r->rank == 2) {
        r->board->dies[2] = 1;
        kill(getpid(), SIGKILL);
    }
    if (r->rank == 0)
        st = tutti_window_wait(s.window, 0, TUTTI_EQUAL, 1, 0, NULL);
    while (r->rank == 1 && st == TUTTI_OK) {
        st = tutti_window_put(s.window, 2, 0, src, 100000, NULL);
        if (!st)
            st = tutti_window_quiet(s.window, 2, 0);
    }
    CHECK_STATUS(r, st, TUTTI_ERR_PEER_LOST);
    CHECK(r, job_names(tutti_last_error(), 2));
    CHECK_STATUS(r, tutti_window_put(s.window, !r->rank, 0, src, 8, NULL), TUTTI_ERR_PEER_LOST);
    CHECK_STATUS(r, tutti_window_free(s.window), TUTTI_ERR_PEER_LOST);
    CHECK_SAYS(r, tutti_window_put(s.window, 0, 0, src, 8, NULL), TUTTI_ERR_INVALID, "freed");
    free(s.owned);
    free(src);
    job_close(r);
}

static void lost_rank_ends_pending_waits(void **state)
{
    (void)state;
    over_all_ways(death_role, 3, NULL);
}

static void abort_role(struct rank *r)
{
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, 64);
    job_meet(r);
    if (r->rank == 0)
        CHECK_OK(r, tutti_comm_abort(r->comm));
    CHECK_STATUS(r, tutti_window_wait(s.window, 0, TUTTI_EQUAL, 1, 0, NULL), TUTTI_ERR_ABORTED);
    CHECK_STATUS(r, tutti_window_signal(s.window, !r->rank, 0, TUTTI_SIGNAL_SET, 1),
                 TUTTI_ERR_ABORTED);
    CHECK_STATUS(r, tutti_window_free(s.window), TUTTI_ERR_ABORTED);
    free(s.owned);
    job_close(r);
}

static void abort_ends_waits(void **state)
{
    (void)state;
    over_all_ways(abort_role, 2, NULL);
}

#define FLAG_GONE 0

/* Prevents this process from receiving failure notifications until rank 0 has exited; and then for
 * another moment, in which its exit is detected. */
static void *block_notifications(void *arg)
{
    const struct rank *r = arg;

    pthread_mutex_lock(&r->comm->world->overlay_lock);
    job_raise(r->board, FLAG_GONE + r->rank);
    job_await(r->board, FLAG_GONE, 1);
    usleep(100000);
    pthread_mutex_unlock(&r->comm->world->overlay_lock);
    return NULL;
}

/* Rank 0 aborts and exits at once, while the others put to it and wait: they report the abort,
 * although they receive it late, and not a loss. */
static void abort_and_go_role(struct rank *r)
{
    uint8_t *src = job_have(r, calloc(1, 100000));
    tutti_status st = TUTTI_OK;
    struct window_side s;
    pthread_t deaf;

    window_job_open(r);
    window_side_init(r, &s, 100000);
    CHECK_OK(r, r->rank ? tutti_window_put(s.window, 0, 0, src, 100000, NULL) : TUTTI_OK);
    CHECK_OK(r, tutti_window_quiet(s.window, TUTTI_ALL_RANKS, 0));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_step(r, "rank 0 aborts and goes");
    if (r->rank == 0) {
        CHECK(r, job_await(r->board, FLAG_GONE + 1, 1) && job_await(r->board, FLAG_GONE + 2, 1));
        CHECK_OK(r, tutti_comm_abort(r->comm));
        job_close(r);
        job_raise(r->board, FLAG_GONE);
    } else {
        CHECK(r, pthread_create(&deaf, NULL, block_notifications, r) == 0);
        while (st == TUTTI_OK) {
            st = tutti_window_put(s.window, 0, 0, src, 100000, NULL);
            if (!st)
                st = tutti_window_quiet(s.window, r->rank == 1 ? 0 : TUTTI_ALL_RANKS, 0);
        }
        CHECK_STATUS(r, st, TUTTI_ERR_ABORTED);
        CHECK(r, strstr(tutti_last_error(), "rank 0 aborted"));
        pthread_join(deaf, NULL);
        CHECK_STATUS(r, tutti_window_free(s.window), TUTTI_ERR_ABORTED);
        job_close(r);
    }
    free(s.owned);
    free(src);
}

static void abort_of_exited_rank_is_reported(void **state)
{
    (void)state;
    over_all_ways(abort_and_go_role, 3, NULL);
}

/* Ranks 1 and 2 raise their signals and free the window; rank 0 waits for one more signal, which
 * cannot come. It has no deadline, but gets an error. */
static void deserted_role(struct rank *r)
{
    const size_t words[2] = { 8, 0 };
    struct window_side s;
    uint64_t seen = 0;
    size_t index = 0;
    tutti_status st;

    window_job_open(r);
    window_side_init(r, &s, 64);
    if (r->rank != 0) {
        CHECK_OK(r, tutti_window_signal(s.window, 0, 0, TUTTI_SIGNAL_ADD, 1));
        job_step(r, "free the window");
        window_side_fini(r, &s);
        return;
    }
    CHECK_OK(r, tutti_window_wait(s.window, 0, TUTTI_EQUAL, 2, -1, NULL));
    job_step(r, "wait for a third signal");
    CHECK_SAYS(r, tutti_window_wait(s.window, 0, TUTTI_EQUAL, 3, -1, NULL), TUTTI_ERR_PEER_LOST,
               "have called tutti_window_free");
    CHECK_SAYS(r, tutti_window_wait_any(s.window, words, 2, TUTTI_AT_LEAST, 3, -1, &index, &seen),
               TUTTI_ERR_PEER_LOST, "offset 8 (or others)");
    do
        st = tutti_window_test(s.window, 0, TUTTI_EQUAL, 3, NULL);
    while (st == TUTTI_PENDING);
    CHECK_STATUS(r, st, TUTTI_ERR_PEER_LOST);
    /* signals that have arrived satisfy the wait */
    CHECK_OK(r, tutti_window_wait(s.window, 0, TUTTI_EQUAL, 2, -1, NULL));
    /* from here on this rank itself may signal */
    CHECK_OK(r, tutti_window_signal(s.window, 0, 0, TUTTI_SIGNAL_ADD, 1));
    CHECK_OK(r, tutti_window_wait(s.window, 0, TUTTI_EQUAL, 3, -1, NULL));
    CHECK_STATUS(r, tutti_window_test(s.window, 0, TUTTI_EQUAL, 4, NULL), TUTTI_PENDING);
    CHECK_STATUS(r, tutti_window_wait(s.window, 0, TUTTI_EQUAL, 4, 20, NULL), TUTTI_ERR_TIMEOUT);
    window_side_fini(r, &s);
}

static void wait_without_possible_signal_ends(void **state)
{
    (void)state;
    over_all_ways(deserted_role, 3, NULL);
}

/* Rank 2 destroys its communicator, and the window with it. The others wait for a signal without a
 * deadline, and for a quiet. */
static void destroyed_role(struct rank *r)
{
    tutti_comm *comm;
    tutti_window *w;

    window_job_open(r);
    CHECK_OK(r, tutti_comm_dup(r->comm, &comm));
    CHECK_OK(r, tutti_window_create(comm, NULL, 64, &w));
    job_meet(r);                /* all have received it */
    if (r->rank == 2) {
        job_step(r, "destroy the communicator");
        tutti_comm_destroy(comm);
        CHECK_SAYS(r, tutti_window_signal(w, 0, 0, TUTTI_SIGNAL_SET, 1), TUTTI_ERR_INVALID,
                   "freed");
        CHECK_SAYS(r, tutti_window_free(w), TUTTI_ERR_INVALID, "freed");
        return;
    }
    CHECK_SAYS(r, tutti_window_wait(w, 0, TUTTI_EQUAL, 1, -1, NULL), TUTTI_ERR_PEER_LOST,
               "rank 2 destroyed a communicator before freeing its windows");
    CHECK_SAYS(r, tutti_window_free(w), TUTTI_ERR_PEER_LOST, "rank 2 destroyed a communicator");
    CHECK_OK(r, tutti_comm_status(r->comm));            /* the other communicator still works */
    tutti_comm_destroy(comm);
}

static void destroyed_communicator_ends_waits(void **state)
{
    (void)state;
    over_all_ways(destroyed_role, 3, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_and_gets_transfer_every_byte),
        cmocka_unit_test(parts_and_rank_order_may_differ),
        cmocka_unit_test(rows_and_pieces_are_one_put),
        cmocka_unit_test(atomics_of_all_ranks_add_up),
        cmocka_unit_test(bit_operations_are_atomic),
        cmocka_unit_test(plain_put_ends_a_condition_wait),
        cmocka_unit_test(computing_rank_serves_its_memory),
        cmocka_unit_test(waits_and_mapped_memory_work),
        cmocka_unit_test(threads_use_a_window_at_once),
        cmocka_unit_test(invalid_calls_have_no_effect),
        cmocka_unit_test(fence_orders_messages_behind_puts),
        cmocka_unit_test(each_fence_orders_queued_puts),
        cmocka_unit_test(nonblocking_put_to_stopped_rank_returns),
        cmocka_unit_test(nonblocking_calls_to_stopped_rank_return),
        cmocka_unit_test(full_queue_keeps_deadlines_of_signals),
        cmocka_unit_test(counters_grow_without_calls),
        cmocka_unit_test(device_memory_is_supported_or_refused),
        cmocka_unit_test(lost_rank_ends_pending_waits),
        cmocka_unit_test(abort_ends_waits),
        cmocka_unit_test(abort_of_exited_rank_is_reported),
        cmocka_unit_test(wait_without_possible_signal_ends),
        cmocka_unit_test(destroyed_communicator_ends_waits),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
