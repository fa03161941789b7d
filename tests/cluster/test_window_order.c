/* Windows: the order in which data becomes visible, and which operations wait, for all access
 * methods; also with randomly delayed lanes. TUTTI_TEST_PUTS=100000 makes the streams over verbs,
 * and those with delayed lanes, as long as the others. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "held_lanes.h"
#include "support/pattern.h"
#include "support/unit.h"
#include "tutti/moe.h"
#include "windows.h"

#define MIB ((size_t)1 << 20)

/* ---- order ---- */

#define STREAM_SLOTS 8
#define STREAM_BYTES (4 * MIB)
#ifdef __OPTIMIZE__
#define STREAM_PUTS (UNIT_SHARE > 1 ? 1000u : 100000u)       /* per job */
#else
#define STREAM_PUTS (UNIT_SHARE > 1 ? 1000u : 10000u)
#endif
/* per job over verbs: software devices are slow */
#define STREAM_PUTS_SLOW (UNIT_SHARE > 1 ? 25u : 500u)
#define STREAM_PUTS_HELD (UNIT_SHARE > 1 ? 200u : 4000u)     /* per job with delayed lanes */
#define STREAM_TOLD 20000                       /* interval of progress messages */

/* Mostly short, some long. */
static size_t stream_bytes(struct tt_prng *p)
{
    const uint64_t kind = tt_prng_below(p, 4096);
    const size_t most = kind == 0     ? STREAM_BYTES
                        : kind < 16   ? 300000
                        : kind < 80   ? 40000
                        : kind < 1000 ? 4096
                                      : 64;

    return kind % 64 == 1 ? 0 : 1 + tt_prng_below(p, most);
}

/* Sends a message of rank 0 with its signal, in one of four ways: as one put; as one whose source
 * is overwritten after local completion; as pieces; or as separate puts, a fence, and a signal. */
static void send_message(struct rank *r, tutti_window *w, size_t at, uint8_t *src, size_t bytes,
                         uint64_t way, tutti_rma *rma)
{
    tutti_piece pieces[5];
    uint64_t counter = 0;

    if (way == 0) {
        CHECK_OK(r, tutti_window_put(w, 1, at, src, bytes, rma));
        return;
    }
    if (way == 1) {
        rma->counter = &counter;
        CHECK_OK(r, tutti_window_put(w, 1, at, src, bytes, rma));
        CHECK_OK(r, tutti_window_wait_counter(w, &counter, 1, 0));
        memset(src, 0xee, bytes);
        return;
    }
    for (size_t k = 0; k < 5; k++) {
        const size_t from = bytes * k / 5, end = bytes * (k + 1) / 5;

        pieces[4 - k] = (tutti_piece){ at + from, src + from, end - from };
        if (way == 3)
            CHECK_OK(r, tutti_window_put(w, 1, at + from, src + from, end - from, NULL));
    }
    if (way == 2) {
        CHECK_OK(r, tutti_window_put_pieces(w, 1, pieces, 5, rma));
    } else {
        CHECK_OK(r, tutti_window_fence(w, bytes % 2 ? 1 : TUTTI_ALL_RANKS));
        CHECK_OK(r, tutti_window_signal(rma->signal_window, 1, rma->signal_offset, rma->signal_op,
                                        rma->signal_value));
    }
}

/* Rank 0 streams to rank 1, which checks each message as soon as its signal arrives; a slot is
 * reused after an acknowledgement. Signals are in a separate window, which may use another access
 * method. */
static void stream(struct rank *r, uint32_t nputs, bool held_up)
{
    uint8_t *src = job_have(r, malloc(STREAM_SLOTS * STREAM_BYTES));
    tutti_window *bells;
    struct window_side s;

    window_side_init(r, &s, STREAM_SLOTS * STREAM_BYTES);
    CHECK_OK(r, tutti_window_create(r->comm, NULL, 64 * STREAM_SLOTS, &bells));
    if (held_up)
        held_lanes_begin(r);
    for (uint32_t i = 0; i < nputs; i++) {
        const uint32_t slot = i % STREAM_SLOTS, turn = i / STREAM_SLOTS + 1;
        const size_t at = slot * STREAM_BYTES;
        const size_t bytes = stream_bytes(&r->common);
        const uint64_t way = tt_prng_below(&r->common, 4);
        tutti_rma rma = {
            .size = sizeof rma,
            .signal_op = TUTTI_SIGNAL_SET,
            .signal_value = turn,
            .signal_offset = 64 * slot,
            .signal_window = bells,
        };

        job_step(r, "message %u of %zu bytes, way %u", i, bytes, (uint32_t)way);
        if (r->rank == 0) {
            if (turn > 1)
                CHECK_OK(r, tutti_window_wait(bells, 64 * slot, TUTTI_AT_LEAST, turn - 1, 0, NULL));
            pattern_fill(src + at, bytes, i);
            send_message(r, s.window, at, src + at, bytes, way, &rma);
        } else {
            CHECK_OK(r, tutti_window_wait(bells, 64 * slot, TUTTI_EQUAL, turn, 0, NULL));
            window_check_pattern(r, s.mem + at, bytes, i, "message");
            CHECK_OK(r, tutti_window_signal(bells, 0, 64 * slot, TUTTI_SIGNAL_SET, turn));
        }
    }
    CHECK_OK(r, tutti_window_free(bells));
    window_side_fini(r, &s);
    free(src);
}

static uint32_t puts_of_job(const struct window_way *m)
{
    /* each message takes as long as ten over TCP on loopback */
    const bool other = getenv("TUTTI_TEST_IN_PLACE_OF_TCP") != NULL;

    return strcmp(m->wires, "verbs") == 0 ? STREAM_PUTS_SLOW
           : other                        ? STREAM_PUTS / 5
                                          : STREAM_PUTS;
}

/* Returns the number of puts of a job with delayed lanes. */
static uint32_t puts_of_job_held(const struct window_way *m)
{
    return strcmp(m->wires, "verbs") == 0 ? STREAM_PUTS_SLOW / 5 : STREAM_PUTS_HELD;
}

/* Number of puts per method and test: TUTTI_TEST_PUTS, or that of one job. */
static uint64_t puts_wanted(uint32_t of_job)
{
    const char *text = getenv("TUTTI_TEST_PUTS");
    char *end = NULL;
    uint64_t n;

    if (!text)
        return of_job;
    n = strtoull(text, &end, 10);
    if (n == 0 || *end)
        fail_msg("TUTTI_TEST_PUTS=%s: it must be a number of puts", text);
    return n;
}

/* Runs jobs with one method, each with another seed, until the number of puts is reached. */
static void play_stream(uint32_t way, void (*role)(struct rank *), uint32_t of_job)
{
    const uint64_t begin_ns = tt_now_ns(), wanted = puts_wanted(of_job);
    uint64_t played = 0;

    for (uint64_t turn = 0; played < wanted; turn++, played += of_job) {
        const struct job job = {
            .wires = window_ways[way].wires,
            .nranks = 2,
            .seed = job_seed(WINDOW_SEED) + way + turn * WINDOW_WAYS,
            .arg = &window_ways[way],
        };

        job_run(&job, role);
        if (played / STREAM_TOLD != (played + of_job) / STREAM_TOLD && played + of_job < wanted)
            print_message("%s: %llu puts so far\n", window_ways[way].name,
                          (unsigned long long)(played + of_job));
    }
    print_message("%s: %llu puts in %.1f s\n", window_ways[way].name, (unsigned long long)played,
                  (double)(tt_now_ns() - begin_ns) * 1e-9);
}

static void stream_role(struct rank *r)
{
    window_job_open(r);
    stream(r, puts_of_job(r->job->arg), false);
}

static void data_is_visible_before_its_signal(void **state)
{
    uint32_t wanted = 0;

    (void)state;
    for (uint32_t i = 0; i < WINDOW_WAYS; i++) {
        if (!window_way_is_wanted(&window_ways[i]))
            continue;
        wanted++;
        if (unit_has_turn(i, 2))
            play_stream(i, stream_role, puts_of_job(&window_ways[i]));
    }
    assert_true(wanted > 0);    /* TUTTI_WIRES names none of these methods */
}

static void held_up_role(struct rank *r)
{
    window_job_open(r);
    stream(r, puts_of_job_held(r->job->arg), true);
}

static void same_order_with_delayed_lanes(void **state)
{
    uint32_t wanted = 0;

    (void)state;
    for (uint32_t i = 0; i < WINDOW_WAYS; i++) {
        if (strcmp(window_ways[i].wires, "shm") == 0 || !window_way_is_wanted(&window_ways[i]))
            continue;
        wanted++;
        play_stream(i, held_up_role, puts_of_job_held(&window_ways[i]));
    }
    if (!wanted)                /* TUTTI_WIRES names shm */
        skip();
}

#define FENCED_PUTS 64
#define FENCED_BYTES 5000
#define FLAG_B 1                /* job_go_on_after waits for it */

/* While A (rank 1) is stopped, rank 0 puts to A and B (rank 2) and then executes fence A, fence B,
 * signal B, signal A. B gets its signal at once; A sees all bytes with its signal. */
static void fence_role(struct rank *r)
{
    uint8_t *src = job_have(r, malloc(FENCED_PUTS * FENCED_BYTES));
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, 64 + FENCED_PUTS * FENCED_BYTES);
    pattern_fill(src, FENCED_PUTS * FENCED_BYTES, 9);
    for (int to = 1; r->rank == 0 && to <= 2; to++)     /* links are created on first use */
        CHECK_OK(r, tutti_window_signal(s.window, to, 8, TUTTI_SIGNAL_SET, 1));
    CHECK_OK(r, r->rank == 0 ? TUTTI_OK : tutti_window_wait(s.window, 8, TUTTI_EQUAL, 1, 0, NULL));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);                /* a thread of rank 1 may still send data of the barrier, and stops
                                   with the process */
    if (r->rank == 1) {
        job_step(r, "stand still");
        kill(getpid(), SIGSTOP);
    }
    if (r->rank == 0) {
        CHECK(r, job_await(r->board, 0, 1));        /* A is stopped */
        for (int i = 0; i < FENCED_PUTS; i++)
            for (int to = 2; to >= 1; to--) {
                const size_t at = (size_t)i * FENCED_BYTES;

                if (to == 1 && i >= 8)
                    continue;   /* the amount of data sent to a stopped rank is limited */
                job_step(r, "put %d to rank %d", i, to);
                CHECK_OK(r, tutti_window_put(s.window, to, 64 + at, src + at, FENCED_BYTES, NULL));
            }
        job_step(r, "fences and signals");
        CHECK_OK(r, tutti_window_fence(s.window, 1));
        CHECK_OK(r, tutti_window_fence(s.window, 2));
        CHECK_OK(r, tutti_window_signal(s.window, 2, 0, TUTTI_SIGNAL_SET, 1));
        CHECK_OK(r, tutti_window_signal(s.window, 1, 0, TUTTI_SIGNAL_SET, 1));
    } else {
        const size_t bytes = (r->rank == 1 ? 8 : FENCED_PUTS) * FENCED_BYTES;

        CHECK_OK(r, tutti_window_wait(s.window, 0, TUTTI_EQUAL, 1, 0, NULL));
        CHECK(r, r->rank == 2 || r->board->flag[FLAG_B]);
        CHECK(r, memcmp(s.mem + 64, src, bytes) == 0);
        if (r->rank == 2)
            job_raise(r->board, FLAG_B);
    }
    window_side_fini(r, &s);
    free(src);
}

static void fence_does_not_delay_other_ranks(void **state)
{
    (void)state;
    over_all_ways(fence_role, 3, job_go_on_after);
}

/* ---- gets and atomics behind a fence ---- */

#define FETCH_BYTES ((size_t)2 * MIB)
#define FETCH_ROUNDS (UNIT_SHARE > 1 ? 200u : 2000u)
/* over verbs and ofi: software devices are slow */
#define FETCH_ROUNDS_SLOW (UNIT_SHARE > 1 ? 20u : 200u)

static const struct window_way two_lanes = { "tcp, 2 lanes", "tcp", "0", "2", true, false };

/* Sizes that grow and shrink from round to round, all multiples of 8. */
static size_t fetch_bytes(struct tt_prng *p, uint32_t round)
{
    static const size_t most[] = { 64, FETCH_BYTES, 4096, 300000, 8, 40000 };

    return 8 + tt_prng_below(p, most[round % 6]) / 8 * 8;
}

/* Puts src[bytes] to the start of rank 1's window in `nparts` parts, the longest first. *counter
 * counts local completions; NULL: each call waits for its own. */
static void put_parts(struct rank *r, tutti_window *w, const uint8_t *src, size_t bytes,
                      uint32_t nparts, uint64_t *counter)
{
    const tutti_rma rma = { .size = sizeof rma, .counter = counter };
    size_t at = 0;

    for (uint32_t k = 1; k <= nparts; k++) {
        const size_t part = k < nparts ? (bytes - at) / 16 * 8 : bytes - at;

        CHECK_OK(r, tutti_window_put(w, 1, at, src + at, part, &rma));
        at += part;
    }
}

/* Reads back the data put before the fence: by a get, by a get with a counter, or only its last
 * word by an atomic. */
static void fetch_back(struct rank *r, tutti_window *w, const uint8_t *src, uint8_t *dst,
                       size_t bytes, uint32_t kind)
{
    uint64_t counter = 0, old = 0;
    const tutti_rma rma = { .size = sizeof rma, .counter = &counter };

    if (kind == 2) {
        CHECK_OK(r, tutti_window_atomic(w, 1, bytes - 8, 8, TUTTI_ATOMIC_ADD, 0, 0, &old));
        CHECK(r, memcmp(&old, src + bytes - 8, sizeof old) == 0);
        return;
    }
    CHECK_OK(r, tutti_window_get(w, 1, 0, dst, bytes, kind == 1 ? &rma : NULL));
    if (kind == 1)
        CHECK_OK(r, tutti_window_wait_counter(w, &counter, 1, 0));
    CHECK(r, memcmp(src, dst, bytes) == 0);
}

/* Rank 0 puts to rank 1, fences, and reads the same bytes back, in the second half with delayed
 * lanes. */
static void fetch_role(struct rank *r)
{
    const struct window_way *way = r->job->arg;
    const bool slow = strcmp(way->wires, "verbs") == 0 || getenv("TUTTI_TEST_IN_PLACE_OF_TCP");
    const uint32_t rounds = slow ? FETCH_ROUNDS_SLOW : FETCH_ROUNDS;
    uint8_t *src = job_have(r, malloc(FETCH_BYTES + 8)),
            *dst = job_have(r, calloc(1, FETCH_BYTES + 8));
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, FETCH_BYTES + 8);
    for (uint32_t i = 0; r->rank == 0 && i < rounds; i++) {
        const size_t bytes = fetch_bytes(&r->prng, i);
        uint64_t sent = 0;
        const uint32_t kind = (uint32_t)tt_prng_below(&r->prng, 3);

        if (i == rounds / 2 && strcmp(way->wires, "shm") != 0)
            held_lanes_begin(r);
        job_step(r, "round %u of %zu bytes, kind %u", i, bytes, kind);
        pattern_fill(src, bytes, i);
        put_parts(r, s.window, src, bytes, 1 + i % 3, i % 5 ? &sent : NULL);
        CHECK_OK(r, tutti_window_fence(s.window, i % 2 ? 1 : TUTTI_ALL_RANKS));
        if (i % 4 == 3)         /* the fence still applies to later operations */
            CHECK_OK(r, tutti_window_signal(s.window, 1, FETCH_BYTES, TUTTI_SIGNAL_ADD, 1));
        fetch_back(r, s.window, src, dst, bytes, kind);
        if (i % 5)
            CHECK_OK(r, tutti_window_wait_counter(s.window, &sent, 1 + i % 3, 0));
    }
    window_side_fini(r, &s);
    free(src);
    free(dst);
}

static void get_after_fence_sees_puts(void **state)
{
    const struct job job = {
        .wires = two_lanes.wires, .nranks = 2, .seed = job_seed(WINDOW_SEED), .arg = &two_lanes,
    };
    const char *lanes = getenv("TUTTI_LANES");

    (void)state;
    if (!lanes || strcmp(lanes, two_lanes.lanes) != 0)
        over_all_ways(fetch_role, 2, NULL);
    if (window_way_is_wanted(&two_lanes)) {
        print_message("%s\n", two_lanes.name);
        job_run(&job, fetch_role);
    }
}

/* ---- gets and atomics behind queued puts ---- */

#define QUEUED_BYTES 65536
#define QUEUED_PUTS 320u        /* more than the connections to a stopped rank accept */

/* Rank 0 queues puts for rank 1, which is stopped, with some to rank 2 between them, and fences
 * both. Gets and atomics to rank 2 do not wait for rank 1. Those to rank 1 complete when it
 * continues, and see all puts. */
static void queued_role(struct rank *r)
{
    enum { ALL = QUEUED_PUTS * QUEUED_BYTES };
    const bool mapped = window_is_mapped(r), counts = tt_prng_below(&r->common, 2);
    const int fenced = tt_prng_below(&r->common, 2) ? TUTTI_ALL_RANKS : 1;
    uint8_t *src = job_have(r, malloc(ALL)), *dst = job_have(r, calloc(1, ALL));
    uint64_t sent[3] = { 0 }, after = 0, got = 0, old = 0, wanted[3] = { 0 };
    const tutti_rma brief = { .size = sizeof brief,
                              .timeout_ms = mapped ? 0 : 20 }; /* reached only if memory is not
                                                                  mapped */
    const tutti_rma late = { .size = sizeof late, .counter = &after },
                    get = { .size = sizeof get, .counter = &got };
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, ALL + QUEUED_BYTES + 8);
    pattern_fill(src, ALL, 12);
    for (int to = 1; r->rank == 0 && to <= 2; to++)     /* links are created on first use */
        CHECK_OK(r, tutti_window_get(s.window, to, 0, &old, sizeof old, NULL));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    if (r->rank == 1) {
        job_step(r, "stand still");
        kill(getpid(), SIGSTOP);
    }
    if (r->rank == 0) {
        CHECK(r, job_await(r->board, 0, 1));
        if (strcmp(r->job->wires, "shm") != 0)
            held_lanes_begin(r);
        for (uint32_t i = 0; i < QUEUED_PUTS; i++)
            for (int to = 1; to <= 2; to++) {
                const size_t at = i * (size_t)QUEUED_BYTES;
                const tutti_rma rma = {
                    .size = sizeof rma,
                    .counter = &sent[to],
                    .signal_offset = ALL + QUEUED_BYTES,
                    .signal_value = 1,
                    /* includes its own fence */
                    .signal_op = i % 8 == 1 ? TUTTI_SIGNAL_ADD : TUTTI_SIGNAL_NONE,
                };

                if (to == 2 && i % 16 != 0)
                    continue;
                job_step(r, "put %u to rank %d", i, to);
                CHECK_OK(r, tutti_window_put(s.window, to, at, src + at, QUEUED_BYTES, &rma));
                wanted[to]++;
            }
        CHECK(r, mapped || sent[1] < wanted[1]);
        CHECK_OK(r, tutti_window_fence(s.window, fenced));
        if (fenced == 1)
            CHECK_OK(r, tutti_window_fence(s.window, 2));
        /* the fence precedes this one */
        CHECK_OK(r, tutti_window_put(s.window, 1, ALL, src, QUEUED_BYTES, &late));
        job_step(r, "get from rank 2");
        CHECK_OK(r, tutti_window_get(s.window, 2, 0, dst, QUEUED_BYTES, NULL));
        CHECK(r, memcmp(dst, src, QUEUED_BYTES) == 0);
        CHECK_OK(
            r, tutti_window_atomic(s.window, 2, QUEUED_BYTES - 8, 8, TUTTI_ATOMIC_ADD, 0, 0, &old));
        CHECK(r, memcmp(&old, src + QUEUED_BYTES - 8, sizeof old) == 0);
        job_step(r, "get from rank 1, which stands still");
        CHECK_STATUS(r, tutti_window_get(s.window, 1, ALL - 64, dst, 64, &brief),
                     mapped ? TUTTI_OK : TUTTI_ERR_TIMEOUT);
        job_raise(r->board, FLAG_B);
        job_step(r, "get from rank 1, which goes on");
        if (tt_prng_below(&r->common, 2)) {
            CHECK_OK(r, tutti_window_atomic(s.window, 1, ALL - 8, 8, TUTTI_ATOMIC_ADD, 0, 0, &old));
            CHECK(r, memcmp(&old, src + ALL - 8, sizeof old) == 0);
        } else {
            CHECK_OK(r, tutti_window_get(s.window, 1, ALL - 64, dst, 64, NULL));
            CHECK(r, memcmp(dst, src + ALL - 64, 64) == 0);
        }
        CHECK_OK(r, tutti_window_get(s.window, 1, 0, dst, ALL, counts ? &get : NULL));
        if (counts)
            CHECK_OK(r, tutti_window_wait_counter(s.window, &got, 1, 0));
        CHECK(r, memcmp(dst, src, ALL) == 0);
        for (int to = 1; to <= 2; to++)
            CHECK_OK(r, tutti_window_wait_counter(s.window, &sent[to], wanted[to], 0));
        CHECK_OK(r, tutti_window_wait_counter(s.window, &after, 1, 0));
    }
    window_side_fini(r, &s);
    free(src);
    free(dst);
}

static void get_after_fence_sees_queued_puts(void **state)
{
    (void)state;
    over_all_ways(queued_role, 3, job_go_on_after);
}

/* Rank 0 puts, fences and starts a run of a replay, whose short data goes to several ranks at once:
 * a rank that has received it also sees the puts. */
static void replay_role(struct rank *r)
{
    enum { RUNS = UNIT_SHARE > 1 ? 20 : 200, BYTES = 300000 };
    static const size_t length = 8, indices[3] = { 0, 0, 0 }, lens[3] = { 1, 1, 1 };
    const tutti_replay_conf conf = {
        .size = sizeof conf, .nsplits = 1, .max_length = 8, .type = TUTTI_U8
    };
    uint8_t *src = job_have(r, malloc(BYTES)), piece[8] = { 0 };
    const tutti_dynamic what = {
        .size = sizeof what,
        .sendbuff = piece,
        .split_lengths = &length,
        .indices = indices,
        .index_block_lens = lens,
    };
    tutti_arrived arrived = { .size = sizeof arrived };
    tutti_replay *replay;
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, BYTES);
    CHECK_OK(r, tutti_replay_create(r->comm, &conf, &replay));
    if (r->rank == 0 && strcmp(r->job->wires, "shm") != 0)
        held_lanes_begin(r);
    for (uint32_t i = 0; i < RUNS; i++) {
        uint64_t sent = 0;
        const tutti_rma rma = { .size = sizeof rma, .counter = &sent };

        job_step(r, "run %u", i);
        pattern_fill(src, BYTES, i);
        for (int to = 1; r->rank == 0 && to <= 2; to++)
            CHECK_OK(r, tutti_window_put(s.window, to, 0, src, BYTES, &rma));
        if (r->rank == 0)
            CHECK_OK(r, tutti_window_fence(s.window, TUTTI_ALL_RANKS));
        CHECK_OK(r, tutti_replay_start(replay, &what, 0));
        CHECK_OK(r, tutti_replay_wait(replay, &arrived, 0));
        if (r->rank != 0)
            window_check_pattern(r, s.mem, BYTES, i, "put before the run");
        else
            CHECK_OK(r, tutti_window_wait_counter(s.window, &sent, 2, 0));
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
    }
    CHECK_OK(r, tutti_replay_free(replay));
    window_side_fini(r, &s);
    free(src);
}

static void replay_follows_the_fence(void **state)
{
    (void)state;
    over_all_ways(replay_role, 3, NULL);
}

#define LOAD_BYTES 20000

/* Rank 1 is stopped. A put to memory that only rank 1 itself can write cannot complete. So neither
 * a get nor an atomic behind a fence can complete, although their target memory is mapped. */
static void load_role(struct rank *r)
{
    uint8_t *src = job_have(r, calloc(1, LOAD_BYTES));
    const tutti_rma brief = { .size = sizeof brief, .timeout_ms = 50 };
    struct window_way far = *(const struct window_way *)r->job->arg;
    struct window_side s;
    tutti_window *mapped;
    uint64_t word = 7;
    void *at = NULL;

    window_job_open(r);
    window_side_init(r, &s, LOAD_BYTES);
    CHECK_OK(r, tutti_window_create(r->comm, NULL, 64, &mapped));
    if (r->rank == 0) {
        CHECK_OK(r, tutti_window_pointer(mapped, 1, &at));
        CHECK_OK(r, tutti_window_get(mapped, 1, 0, &word, sizeof word, NULL));
        CHECK(r, at && far.own && word == 0);
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    if (r->rank == 1) {
        job_step(r, "stand still");
        kill(getpid(), SIGSTOP);
    } else {
        CHECK(r, job_await(r->board, 0, 1));
        CHECK_OK(r, tutti_window_put(s.window, 1, 0, src, LOAD_BYTES, NULL));
        /* no fence yet */
        CHECK_OK(r, tutti_window_get(mapped, 1, 0, &word, sizeof word, &brief));
        CHECK_OK(r, tutti_window_fence(s.window, 1));
        CHECK(r, tutti_window_get(mapped, 1, 0, &word, sizeof word, &brief) == TUTTI_ERR_TIMEOUT);
        job_raise(r->board, FLAG_B);
        CHECK_OK(r, tutti_window_atomic(mapped, 1, 0, 8, TUTTI_ATOMIC_ADD, 3, 0, &word));
        CHECK_OK(r, tutti_window_get(mapped, 1, 0, &word, sizeof word, &brief));
        CHECK(r, word == 3);
    }
    CHECK_OK(r, tutti_window_free(mapped));
    window_side_fini(r, &s);
    free(src);
}

static void fence_orders_loads_after_puts(void **state)
{
    uint32_t wanted = 0;

    (void)state;
    for (uint32_t i = 0; i < WINDOW_WAYS; i++) {
        const struct job job = {
            .wires = "shm", .nranks = 2, .seed = job_seed(WINDOW_SEED) + i, .arg = &window_ways[i],
            .direct = job_go_on_after,
        };

        if (strcmp(window_ways[i].wires, "shm") != 0 || !window_ways[i].own ||
            !window_way_is_wanted(&window_ways[i]))
            continue;
        wanted++;
        job_run(&job, load_role);
    }
    if (!wanted)
        skip();
}

/* ---- a stopped rank ---- */

#define STILL_BYTES 65536
#define STILL_PLACES 16u
#define STILL_PUTS_MAX 2000u    /* mapped memory has no limit */
#define STILL_ROUNDS 200u
#define FLAG_DONE 1             /* job_go_on_after waits for it */

/* Puts as much as rank 1, which is stopped, has space for, and some more, which reach their
 * deadlines. Returns the number of accepted puts; 0 if rank 1 must read them itself. */
static uint32_t fill_up(struct rank *r, struct window_side *s, const uint8_t *src)
{
    const tutti_rma rma = { .size = sizeof rma, .timeout_ms = 20 };
    uint32_t n = 0, late = 0;

    while (late < 3 && n < STILL_PUTS_MAX) {
        const size_t at = n % STILL_PLACES * STILL_BYTES;
        const tutti_status st =
            tutti_window_put(s->window, 1, 64 + at, src + at, STILL_BYTES, &rma);

        job_step(r, "put %u to a rank that stands still", n);
        CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_TIMEOUT);
        late += st == TUTTI_ERR_TIMEOUT;
        n++;
    }
    return n - late;
}

/* Rank 0 has filled the space for rank 1. Rank 2 still responds, for signals, puts and quiets. */
static void still_role(struct rank *r)
{
    uint8_t *src = job_have(r, malloc(STILL_PLACES * STILL_BYTES));
    const int other = r->rank == 0 ? 2 : 0;
    struct window_side s;
    uint64_t taken = 0;

    window_job_open(r);
    window_side_init(r, &s, 64 + STILL_PLACES * STILL_BYTES);
    pattern_fill(src, STILL_PLACES * STILL_BYTES, 4);
    for (int to = 1; r->rank == 0 && to <= 2; to++)     /* links are created on first use */
        CHECK_OK(r, tutti_window_signal(s.window, to, 8, TUTTI_SIGNAL_SET, 1));
    CHECK_OK(r, r->rank == 0 ? TUTTI_OK : tutti_window_wait(s.window, 8, TUTTI_EQUAL, 1, 0, NULL));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);                /* a thread of rank 1 may still send data of the barrier, and stops
                                   with the process */
    if (r->rank == 1) {
        job_step(r, "stand still");
        kill(getpid(), SIGSTOP);
    }
    if (r->rank == 0) {
        CHECK(r, job_await(r->board, 0, 1));
        taken = fill_up(r, &s, src);
    }
    for (uint64_t i = 1; r->rank != 1 && i <= STILL_ROUNDS; i++) {
        const tutti_rma rma = {
            .size = sizeof rma, .signal_op = TUTTI_SIGNAL_SET, .signal_value = i, .signal_offset = 0
        };

        job_step(r, "round %u", (uint32_t)i);
        if (r->rank == 2)
            CHECK_OK(r, tutti_window_wait(s.window, 0, TUTTI_EQUAL, i, 0, NULL));
        CHECK_OK(r, tutti_window_put(s.window, other, 64, src, 1 + i * 300, &rma));
        CHECK_OK(r, tutti_window_quiet(s.window, other, 0));
        if (r->rank == 0)
            CHECK_OK(r, tutti_window_wait(s.window, 0, TUTTI_EQUAL, i, 0, NULL));
    }
    if (r->rank == 0) {
        job_raise(r->board, FLAG_DONE);
        job_step(r, "wait for rank 1, which goes on");
        CHECK_OK(r, tutti_window_quiet(s.window, 1, 0));
        CHECK_OK(r, tutti_window_signal(s.window, 1, 0, TUTTI_SIGNAL_SET, 1 + taken));
    } else if (r->rank == 1) {
        CHECK_OK(r, tutti_window_wait(s.window, 0, TUTTI_AT_LEAST, 1, 0, &taken));
        taken = taken - 1 < STILL_PLACES ? taken - 1 : STILL_PLACES;
        CHECK(r, memcmp(s.mem + 64, src, taken * STILL_BYTES) == 0);
    }
    window_side_fini(r, &s);
    free(src);
}

static void stopped_rank_does_not_delay_others(void **state)
{
    (void)state;
    over_all_ways(still_role, 3, job_go_on_after);
}

/* ---- system calls ---- */

#define CALLS_TRIES 20
#define CALLS_PIECES 100u
#define CALLS_STRIDE 4096u

/* Puts n pieces of this size, with a signal. Returns the lowest number of system calls over several
 * tries: some tries also acknowledge received data. */
static uint32_t fewest_calls(struct rank *r, struct window_side *s, const uint8_t *src, size_t n,
                             size_t bytes, bool rows)
{
    const tutti_rma rma = {
        .size = sizeof rma, .signal_op = TUTTI_SIGNAL_ADD, .signal_value = 1, .signal_offset = 8
    };
    const tutti_rows shape = { n, bytes, CALLS_STRIDE, CALLS_STRIDE };
    tutti_piece pieces[CALLS_PIECES];
    uint32_t fewest = UINT32_MAX;

    for (size_t k = 0; k < n; k++)
        pieces[n - 1 - k] = (tutti_piece){ 64 + k * CALLS_STRIDE, src + k * CALLS_STRIDE, bytes };
    for (uint32_t i = 0; i < CALLS_TRIES; i++) {
        const uint32_t before = held_lanes_calls();

        if (rows)
            CHECK_OK(r, tutti_window_put_rows(s->window, 1, 64, src, &shape, &rma));
        else
            CHECK_OK(r, tutti_window_put_pieces(s->window, 1, pieces, n, &rma));
        fewest = held_lanes_calls() - before < fewest ? held_lanes_calls() - before : fewest;
        CHECK_OK(r, tutti_window_quiet(s->window, 1, 0));
    }
    return fewest;
}

/* Data that fits into one doorbell, and into one system call of a connection. */
static void calls_role(struct rank *r)
{
    static const struct {
        size_t n, bytes;
        uint32_t calls;
    } shapes[] = { { 1, 64, 1 },   { 2, 64, 1 },  { 31, 8, 1 },
                   { 31, 64, 1 },  { 32, 64, 2 }, { CALLS_PIECES, 40, 4 },
                   { 16, 2500, 1 } };
    uint8_t *src = job_have(r, malloc(CALLS_PIECES * CALLS_STRIDE));
    struct window_side s;

    window_job_open(r);
    window_side_init(r, &s, 64 + CALLS_PIECES * CALLS_STRIDE);
    pattern_fill(src, CALLS_PIECES * CALLS_STRIDE, 11);
    CHECK_OK(r, r->rank == 0 ? tutti_window_signal(s.window, 1, 0, TUTTI_SIGNAL_SET, 1) : TUTTI_OK);
    for (size_t i = 0; r->rank == 0 && i < 2 * sizeof shapes / sizeof *shapes; i++) {
        const size_t n = shapes[i / 2].n, bytes = shapes[i / 2].bytes;
        const bool rows = i % 2;
        const uint32_t wanted = shapes[i / 2].calls,
                       took = fewest_calls(r, &s, src, n, bytes, rows);

        if (took != wanted)
            job_fail(r, __FILE__, __LINE__, "%zu %s of %zu bytes took %u system calls, not %u", n,
                     rows ? "rows" : "pieces", bytes, took, wanted);
    }
    if (r->rank == 1) {
        CHECK_OK(r, tutti_window_wait(s.window, 8, TUTTI_EQUAL,
                                      2 * CALLS_TRIES * sizeof shapes / sizeof *shapes, 0, NULL));
        for (size_t k = 0; k < CALLS_PIECES; k++)
            CHECK(r, memcmp(s.mem + 64 + k * CALLS_STRIDE, src + k * CALLS_STRIDE, 40) == 0);
    }
    window_side_fini(r, &s);
    free(src);
}

static void many_pieces_need_one_system_call(void **state)
{
    uint32_t wanted = 0;

    (void)state;
    for (uint32_t i = 0; i < WINDOW_WAYS && !getenv("TUTTI_TEST_IN_PLACE_OF_TCP"); i++) {
        const struct job job = {
            .wires = "tcp", .nranks = 2, .seed = job_seed(WINDOW_SEED) + i, .arg = &window_ways[i],
        };

        if (strcmp(window_ways[i].wires, "tcp") != 0 || !window_way_is_wanted(&window_ways[i]))
            continue;
        wanted++;
        job_run(&job, calls_role);
    }
    if (!wanted)                /* another transport is tested */
        skip();
}

/* ---- quiet ---- */

#define BUSY_BYTES 100000
#define BUSY_DEPTH 3            /* minimum number of puts in flight at any time */
#define QUIETS (UNIT_SHARE > 1 ? 10u : 50u)

struct putter {
    struct rank *r;
    struct window_side *s;
    const uint8_t *src;
    atomic_bool *stop;
};

/* Puts to rank 1 until stopped. */
static void *put_on(void *arg)
{
    const struct putter *p = arg;
    struct rank *r = p->r;
    uint64_t counter = 0;
    const tutti_rma rma = { .size = sizeof rma, .counter = &counter };

    for (uint64_t i = 0; !*p->stop; i++) {
        CHECK_OK(r, tutti_window_put(p->s->window, 1, 64, p->src, BUSY_BYTES, &rma));
        if (i >= BUSY_DEPTH)
            CHECK_OK(r, tutti_window_wait_counter(p->s->window, &counter, i - BUSY_DEPTH + 1, 0));
    }
    CHECK_OK(r, tutti_window_quiet(p->s->window, 1, 0));        /* so that the counter may be
                                                                   freed */
    return NULL;
}

/* While two threads put without a break, quiets of a third thread return, and its earlier puts have
 * arrived. */
static void busy_role(struct rank *r)
{
    uint8_t *src = job_have(r, calloc(1, BUSY_BYTES));
    atomic_bool stop = false;
    struct window_side s;
    struct putter putter = { .r = r, .s = &s, .src = src, .stop = &stop };
    pthread_t threads[2];
    uint64_t back;

    window_job_open(r);
    window_side_init(r, &s, 64 + BUSY_BYTES);
    for (int k = 0; r->rank == 0 && k < 2; k++)
        CHECK(r, pthread_create(&threads[k], NULL, put_on, &putter) == 0);
    for (uint64_t i = 1; r->rank == 0 && i <= QUIETS; i++) {
        job_step(r, "quiet %u", (uint32_t)i);
        CHECK_OK(r, tutti_window_put(s.window, 1, 0, &i, sizeof i, NULL));
        CHECK_OK(r, tutti_window_quiet(s.window, i % 2 ? 1 : TUTTI_ALL_RANKS, 0));
        CHECK_OK(r, tutti_window_get(s.window, 1, 0, &back, sizeof back, NULL));
        CHECK(r, back == i);
    }
    stop = true;
    for (int k = 0; r->rank == 0 && k < 2; k++)
        CHECK(r, pthread_join(threads[k], NULL) == 0);
    window_side_fini(r, &s);
    free(src);
}

static void quiet_waits_only_for_earlier_puts(void **state)
{
    (void)state;
    over_all_ways(busy_role, 2, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_visible_before_its_signal),
        cmocka_unit_test(same_order_with_delayed_lanes),
        cmocka_unit_test(fence_does_not_delay_other_ranks),
        cmocka_unit_test(get_after_fence_sees_puts),
        cmocka_unit_test(get_after_fence_sees_queued_puts),
        cmocka_unit_test(replay_follows_the_fence),
        cmocka_unit_test(fence_orders_loads_after_puts),
        cmocka_unit_test(stopped_rank_does_not_delay_others),
        cmocka_unit_test(many_pieces_need_one_system_call),
        cmocka_unit_test(quiet_waits_only_for_earlier_puts),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
