/* Devices: kernels of real ranks on all transports, in all modes. No signal arrives before its
 * bytes, between any blocks; also with randomly delayed lanes. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "device/device.h"
#include "device_kernels.h"
#include "held_lanes.h"
#include "job.h"
#include "support/hash_vectors.h"
#include "support/pattern.h"
#include "support/unit.h"
#include "window/handle.h"

#define SEED 20261122

/* Configuration of devices and windows. */
struct way {
    const char *name, *wires, *cma, *lanes;
    bool own;                   /* windows are memory of the caller */
    bool no_direct;
    bool polls;                 /* devices are like GPUs: only their proxies change words of
                                   windows */
};

static const struct way ways[] = {
    { "stored to", "shm", "1", "1", false, false, false },
    { "mapped, through the FIFO", "shm", "1", "1", false, true, false },
    { "single copies", "shm", "1", "1", true, false, false },
    { "messages", "shm", "0", "1", true, false, false },
    { "tcp", "tcp", "0", "1", false, false, true },
    { "tcp, 4 lanes", "tcp", "0", "4", true, false, false },
    { "stored to, words by the proxy", "shm", "1", "1", false, false, true },
};
#define NWAYS (sizeof ways / sizeof *ways)
#define MESSAGES 3
#define TCP_4_LANES 5

/* A rank with a window and a device. */
struct here {
    tutti_window *window;
    tutti_device *device;
    uint8_t *mem, *owned;
};

static void here_init(struct rank *r, struct here *h, size_t bytes, const tutti_device_conf *conf)
{
    const struct way *w = r->job->arg;
    tutti_device_conf mine = *conf;
    void *mem;

    setenv("TUTTI_CMA", w->cma, 1);
    setenv("TUTTI_LANES", w->lanes, 1);
    job_open(r);
    *h = (struct here){ 0 };
    if (w->own) {
        h->owned = job_have(r, aligned_alloc(64, (bytes / 64 + 1) * 64));
        memset(h->owned, 0, bytes);
    }
    CHECK_OK(r, tutti_window_create(r->comm, h->owned, bytes, &h->window));
    CHECK_OK(r, tutti_window_memory(h->window, &mem, NULL));
    h->mem = mem;
    mine.size = sizeof mine;
    mine.no_direct |= w->no_direct;
    CHECK_OK(r, tutti_device_create(h->window, &mine, &h->device));
}

static void here_fini(struct rank *r, struct here *h)
{
    CHECK_OK(r, tutti_device_destroy(h->device));
    CHECK_OK(r, tutti_window_free(h->window));
    free(h->owned);
}

static tutti_device_counters counters_of(struct rank *r, const struct here *h)
{
    tutti_device_counters c = { .size = sizeof c };

    CHECK_OK(r, tutti_device_read_counters(h->device, &c));
    return c;
}

/* The configurations of this run. */
static void over_ways(void (*role)(struct rank *), uint32_t nranks,
                      void (*direct)(const struct job *, struct job_board *))
{
    for (uint32_t i = 0; i < NWAYS; i++) {
        const struct job job = {
            .wires = ways[i].wires,
            .nranks = nranks,
            .seed = job_seed(SEED) + i,
            .arg = &ways[i],
            .direct = direct,
        };

        print_message("%s\n", ways[i].name);
        if (unit_has_turn(i, 2))
            job_run(&job, role);
    }
}

/* ---- order ---- */

#define BLOCKS 4u
/* a long tile fills a lane, and a signal without a fence would overtake it */
#define SLOT_BYTES (1u << 20)
#define ROUNDS (job_tries_few() ? 6u : 24u)
#define ROUNDS_HELD (ROUNDS / 3)
#ifdef __SANITIZE_THREAD__
/* the sanitizer does not see that another process has read the data */
#define FLUSH_EVERY 1u
#else
#define FLUSH_EVERY 4u
#endif

/* Returns whether the device stores directly to the memory of all other ranks. */
static bool is_stored_to(const struct way *w)
{
    return strcmp(w->wires, "shm") == 0 && !w->own && !w->no_direct;
}

static void check_costs(struct rank *r, const struct here *h, tutti_device_mode mode)
{
    const tutti_device_counters c = counters_of(r, h);
    const bool drains = mode == TUTTI_DEVICE_COUPLED || mode == TUTTI_DEVICE_DECOUPLED;

    if (is_stored_to(r->job->arg)) {
        CHECK(r, c.puts == 0 && (c.signals > 0) == ((const struct way *)r->job->arg)->polls);
        return;
    }
    CHECK(r, c.puts > 0 && c.signals > 0 && c.quiets >= BLOCKS && c.put_bytes > 0);
    CHECK(r, drains ? c.drains > 0 && c.fences == 0 : c.drains == 0 && c.fences > 0);
}

/* Runs one kernel after another: in all modes, and with several lanes under all lane policies. */
static void exchange(struct rank *r, uint32_t nrounds, bool held_up)
{
    const struct way *w = r->job->arg;
    const uint32_t nlanes = w == &ways[TCP_4_LANES] ? TUTTI_DEVICE_LANES : 1;
    const size_t slots = BLOCKS * r->nranks;
    const tutti_device_conf conf = { .groups = r->nranks, .fifo_slots = 64, .polls = w->polls };
    uint64_t published[JOB_RANKS_MAX] = { 0 };
    struct exchange x = {
        .rounds = nrounds,
        .flush_every = FLUSH_EVERY,
        .seed = r->job->seed,
        .slot_bytes = SLOT_BYTES,
        .published = published,
    };
    struct here h;

    x.src = job_have(r, malloc(slots * SLOT_BYTES));
    here_init(r, &h, 2 * 64 * slots + slots * SLOT_BYTES, &conf);
    if (held_up)
        held_lanes_begin(r);
    for (uint32_t i = 0; i < TUTTI_DEVICE_MODES * nlanes; i++) {
        const tutti_device_mode mode = (tutti_device_mode)(i % TUTTI_DEVICE_MODES);
        const tutti_device_lanes lanes = (tutti_device_lanes)(i / TUTTI_DEVICE_MODES);

        if (!unit_has_turn(i, 2))
            continue;
        job_step(r, "%s, lanes %s", tutti_device_mode_name(mode), tutti_device_lanes_name(lanes));
        CHECK_OK(r, tutti_device_set_mode(h.device, mode, lanes));
        CHECK_OK(r, tutti_device_counters_reset(h.device));
        CHECK_OK(r, tutti_device_run(h.device, BLOCKS, exchange_kernel, &x));
        if (x.wrong)
            job_fail(r, __FILE__, __LINE__, "%s, lanes %s: round %u of rank %u is not what it sent",
                     tutti_device_mode_name(mode), tutti_device_lanes_name(lanes),
                     (uint32_t)x.wrong - 1, (uint32_t)(x.wrong >> 32));
        check_costs(r, &h, mode);
        x.first += x.rounds;
    }
    here_fini(r, &h);
    free(x.src);
}

static void exchange_role(struct rank *r) { exchange(r, ROUNDS, false); }

static void data_is_visible_before_its_signal(void **state)
{
    (void)state;
    over_ways(exchange_role, 3, NULL);
}

static void held_up_role(struct rank *r) { exchange(r, ROUNDS_HELD, true); }

static void same_order_with_delayed_lanes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWAYS; i++) {
        const struct job job = {
            .wires = ways[i].wires, .nranks = 3, .seed = job_seed(SEED) + i, .arg = &ways[i]
        };

        if (strcmp(ways[i].wires, "tcp") == 0)
            job_run(&job, held_up_role);
    }
}

#define PIECES 8u
#define PIECE_BYTES 5000u
#define FLAG_B 1                /* job_go_on_after waits for it */

/* While A (rank 1) is stopped, rank 0's device executes fence A, fence B, signal B, signal A. B
 * (rank 2) gets its signal at once; A gets everything when it continues. */
static void fences_role(struct rank *r)
{
    const tutti_device_conf conf = {
        .mode = r->job->seed % 2 ? TUTTI_DEVICE_ORDERED : TUTTI_DEVICE_FULL, .wakes_hosts = 1,
    };
    uint8_t *src = job_have(r, malloc(PIECES * PIECE_BYTES));
    struct fences f = { .npieces = PIECES, .piece_bytes = PIECE_BYTES, .src = src };
    struct here h;

    here_init(r, &h, 64 + PIECES * PIECE_BYTES, &conf);
    pattern_fill(src, PIECES * PIECE_BYTES, 9);
    for (int to = 1; r->rank == 0 && to <= 2; to++)     /* links are created on first use */
        CHECK_OK(r, tutti_window_signal(h.window, to, 8, TUTTI_SIGNAL_SET, 1));
    CHECK_OK(r, r->rank == 0 ? TUTTI_OK : tutti_window_wait(h.window, 8, TUTTI_EQUAL, 1, 0, NULL));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);                /* a thread of rank 1 may still send data of the barrier, and stops
                                   with the process */
    if (r->rank == 1) {
        job_step(r, "stand still");
        kill(getpid(), SIGSTOP);
    }
    if (r->rank == 0) {
        CHECK(r, job_await(r->board, 0, 1));            /* A is stopped */
        job_step(r, "fences and signals");
        CHECK_OK(r, tutti_device_run(h.device, 1, fences_kernel, &f));
    } else {
        CHECK_OK(r, tutti_window_wait(h.window, 0, TUTTI_EQUAL, 1, 0, NULL));
        CHECK(r, r->rank == 2 || r->board->flag[FLAG_B]);
        CHECK(r, memcmp(h.mem + 64, src, PIECES * PIECE_BYTES) == 0);
        if (r->rank == 2)
            job_raise(r->board, FLAG_B);
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    here_fini(r, &h);
    free(src);
}

static void fence_does_not_delay_other_ranks(void **state)
{
    (void)state;
    over_ways(fences_role, 3, job_go_on_after);
}

/* ---- a stopped rank ---- */

#define TILES 4096u
#define TILE_BYTES 16384u
#define TILE_SLOTS 256u
#define RALLIES 200u

/* Rank 1 is stopped. Block 0 queues tiles for it. Blocks 1 and 2 exchange with ranks 2 and 3
 * meanwhile, and raise the flag that continues rank 1 when both have finished. */
struct tiles {
    struct rank *rank;
    const uint8_t *src;         /* [TILE_SLOTS][TILE_BYTES] */
    atomic_uint done;
};

static uint64_t tile_at(uint32_t slot) { return 64 + (uint64_t)slot * TILE_BYTES; }

static tutti_status queue_tiles(const tutti_device_view *v, const struct tiles *t)
{
    tutti_status st = TUTTI_OK;

    for (uint32_t i = 0; i < TILES && !st; i++) {
        const uint32_t slot = i % TILE_SLOTS;

        st = tutti_device_put_signal(v, 1, tile_at(slot), t->src + (size_t)slot * TILE_BYTES,
                                     TILE_BYTES, TUTTI_SIGNAL_ADD, 0, 1);
    }
    return st;
}

/* Makes round trips between rank 0 and rank 1 + block, one after another. */
static tutti_status rally(const tutti_device_view *v, uint32_t peer, uint64_t out, uint64_t in,
                          const uint8_t *src)
{
    tutti_status st = TUTTI_OK;

    for (uint64_t i = 1; i <= RALLIES && !st; i++) {
        if (v->rank > 0)
            st = tutti_device_wait(v, in, TUTTI_EQUAL, i, NULL);
        if (!st)
            st = tutti_device_put_signal(v, peer, tile_at(0), src, 4096, TUTTI_SIGNAL_SET, out, i);
        if (!st && v->rank == 0)
            st = tutti_device_wait(v, in, TUTTI_EQUAL, i, NULL);
    }
    return st ? st : tutti_device_quiet(v, peer);
}

static tutti_status tiles_kernel(const tutti_device_view *v, uint32_t block, uint32_t nblocks,
                                 void *arg)
{
    struct tiles *t = arg;
    tutti_status st;

    (void)nblocks;
    if (v->rank == 0 && block == 0)
        return queue_tiles(v, t);
    if (v->rank > 0)
        return rally(v, 0, 8 * v->rank, 8, t->src);
    st = rally(v, 1 + block, 8, 8 * (1 + block), t->src);
    if (!st && atomic_fetch_add(&t->done, 1) == 1)
        job_raise(t->rank->board, FLAG_B);
    return st;
}

/* Odd seed: the limit of commands per peer is far below the number of tiles, so block 0 waits. */
static void stopped_role(struct rank *r)
{
    const tutti_device_conf conf = { .wakes_hosts = 1,
                                     .fifo_slots = 64,
                                     .pending = r->job->seed % 2 ? 64 : 0 };
    uint8_t *src = job_have(r, malloc((size_t)TILE_SLOTS * TILE_BYTES));
    struct tiles t = { .rank = r, .src = src };
    struct here h;

    here_init(r, &h, tile_at(TILE_SLOTS), &conf);
    pattern_fill(src, (size_t)TILE_SLOTS * TILE_BYTES, 11);
    for (int to = 1; r->rank == 0 && to <= 3; to++)
        CHECK_OK(r, tutti_window_signal(h.window, to, 56, TUTTI_SIGNAL_SET, 1));
    CHECK_OK(r, r->rank == 0 ? TUTTI_OK : tutti_window_wait(h.window, 56, TUTTI_EQUAL, 1, 0, NULL));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    if (r->rank == 1) {
        job_step(r, "stand still");
        kill(getpid(), SIGSTOP);
        CHECK(r, r->board->flag[FLAG_B] == 1);
        CHECK_OK(r, tutti_window_wait(h.window, 0, TUTTI_EQUAL, TILES, 0, NULL));
        CHECK(r, memcmp(h.mem + tile_at(0), src, (size_t)TILE_SLOTS * TILE_BYTES) == 0);
    } else {
        CHECK(r, job_await(r->board, 0, 1));
        job_step(r, "exchange beside a stopped rank");
        CHECK_OK(r, tutti_device_run(h.device, r->rank == 0 ? 3 : 1, tiles_kernel, &t));
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    here_fini(r, &h);
    free(src);
}

static void stopped_rank_stops_only_its_senders(void **state)
{
    (void)state;
    over_ways(stopped_role, 4, job_go_on_after);
}

/* ---- many blocks ---- */

#define CROWD 64u
#define TIMES (job_tries_few() ? 5u : 20u)

/* 64 blocks, a FIFO of 8 slots, and a peer that counts; hosts may wait for signals of devices. */
static void crowd_role(struct rank *r)
{
    const tutti_device_conf conf = { .fifo_slots = 8, .wakes_hosts = 1 };
    const uint64_t sum = (uint64_t)CROWD * (CROWD + 1) / 2 * TIMES;
    uint64_t src[CROWD] = { 0 };
    struct crowd c = { .times = TIMES, .src = src };
    struct here h;

    here_init(r, &h, 64 + 8 * CROWD, &conf);
    job_step(r, "a crowd");
    if (r->rank == 0) {
        CHECK_OK(r, tutti_device_run(h.device, CROWD, crowd_kernel, &c));
        if (!is_stored_to(r->job->arg)) {
            const tutti_device_counters n = counters_of(r, &h);

            CHECK(r, n.triggers == CROWD * (3 * TIMES + 1) && n.puts == CROWD * TIMES &&
                         n.signals == CROWD * TIMES);
            CHECK(r, n.put_bytes == 8 * n.puts && n.fences == n.signals && n.quiets == CROWD &&
                         n.drains == 0);
        }
    } else {
        CHECK_OK(r, tutti_window_wait(h.window, 0, TUTTI_EQUAL, sum, 0, NULL));
        for (uint64_t i = 0; i < CROWD; i++)
            CHECK(r, ((const uint64_t *)(const void *)(h.mem + 64))[i] == i + 1);
    }
    here_fini(r, &h);
}

static void sixty_four_blocks_share_eight_slots(void **state)
{
    (void)state;
    over_ways(crowd_role, 2, NULL);
}

static tutti_status add_block(const tutti_device_view *v, uint32_t block, uint32_t nblocks,
                              void *arg)
{
    const uint64_t own = 8 * (1 + block);
    tutti_status st = tutti_device_signal(v, v->rank, TUTTI_SIGNAL_SET, own, 1);

    (void)nblocks;
    if (!st)
        st = tutti_device_quiet(v, v->rank);
    if (!st && tutti_device_poll(v, own, TUTTI_EQUAL, 1, NULL) != TUTTI_OK)
        return TUTTI_ERR_PROTOCOL;
    return st ? st : add_to_all_kernel(v, *(const uint32_t *)arg);
}

/* Each block sets a word of its own rank, which is visible after quiet. Then the blocks of all
 * ranks add to one word of every rank, including their own. */
static void add_to_all_role(struct rank *r)
{
    const tutti_device_conf conf = { .fifo_slots = 64,
                                     .wakes_hosts = 1,
                                     .polls = ((const struct way *)r->job->arg)->polls };
    struct here h;

    here_init(r, &h, 8 * (1 + CROWD), &conf);
    job_step(r, "add");
    CHECK_OK(r, tutti_device_run(h.device, CROWD, add_block, &(uint32_t){ TIMES }));
    CHECK_OK(r, tutti_window_wait(h.window, 0, TUTTI_EQUAL, (uint64_t)r->nranks * CROWD * TIMES, 0,
                                  NULL));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    here_fini(r, &h);
}

static void no_atomic_add_is_lost(void **state)
{
    (void)state;
    over_ways(add_to_all_role, 3, NULL);
}

/* ---- errors and teardown ---- */

static tutti_status wrong_kernel(const tutti_device_view *v, uint32_t block, uint32_t nblocks,
                                 void *arg)
{
    struct rank *r = arg;
    const uint8_t bytes[8] = { 0 };
    const tutti_device_signal_to nobody = { .peer = 9, .op = TUTTI_SIGNAL_SET };
    const volatile uint64_t endless = UINT64_MAX;       /* prevents optimization by the compiler */

    (void)block, (void)nblocks;
    CHECK_SAYS(r, tutti_device_put(v, 2, 0, bytes, 8), TUTTI_ERR_INVALID, "invalid rank 2");
    CHECK_SAYS(r, tutti_device_put(v, 1, 57, bytes, 8), TUTTI_ERR_INVALID, "8 bytes at offset 57");
    CHECK_SAYS(r, tutti_device_put(v, 1, UINT64_MAX, bytes, 8), TUTTI_ERR_INVALID, "offset");
    CHECK_SAYS(r, tutti_device_put(v, 1, 8, bytes, endless), TUTTI_ERR_INVALID, "bytes");
    CHECK_SAYS(r, tutti_device_put(v, 1, 0, NULL, 8), TUTTI_ERR_INVALID, "src is NULL");
    CHECK_SAYS(r, tutti_device_put_signal(v, 1, 0, NULL, 8, TUTTI_SIGNAL_SET, 8, 1),
               TUTTI_ERR_INVALID, "src is NULL");
    CHECK_SAYS(r, tutti_device_put_signal(v, 1, 0, bytes, 8, TUTTI_SIGNAL_SET, 60, 1),
               TUTTI_ERR_INVALID, "offset 60");
    CHECK_SAYS(r, tutti_device_put_signal(v, 1, 0, bytes, 8, TUTTI_SIGNAL_NONE, 0, 1),
               TUTTI_ERR_INVALID, "signal");
    CHECK_SAYS(r, tutti_device_signal(v, 1, TUTTI_SIGNAL_SET, 4, 1), TUTTI_ERR_INVALID,
               "multiple of 8");
    CHECK_SAYS(r, tutti_device_signal(v, 1, (tutti_signal_op)7, 8, 1), TUTTI_ERR_INVALID,
               "operation");
    CHECK_SAYS(r, tutti_device_fence(v, 77), TUTTI_ERR_INVALID, "invalid rank 77");
    CHECK_SAYS(r, tutti_device_quiet(v, 77), TUTTI_ERR_INVALID, "invalid rank 77");
    CHECK_SAYS(r, tutti_device_wait(v, 64, TUTTI_EQUAL, 1, NULL), TUTTI_ERR_INVALID, "offset 64");
    CHECK_SAYS(r, tutti_device_group_put(v, 0, bytes, 8, &nobody), TUTTI_ERR_INVALID,
               "invalid rank 9");
    CHECK_SAYS(r, tutti_device_group_publish(v, 3), TUTTI_ERR_INVALID, "invalid group 3");
    CHECK_SAYS(r, tutti_device_group_signal(v, 1, 0, &nobody, 1), TUTTI_ERR_INVALID,
               "invalid group 1");
    CHECK_SAYS(r, tutti_device_raise_flag(v, 2, 1), TUTTI_ERR_INVALID, "invalid flag 2");
    CHECK_SAYS(r, tutti_device_await_flag(v, 2, 1), TUTTI_ERR_INVALID, "invalid flag 2");
    CHECK_SAYS(r, tutti_device_await_flag(v, 1, 1), TUTTI_ERR_TIMEOUT,
               "timed out: the flag 1 has the value 0, expected at least 1");
    CHECK_SAYS(r, tutti_device_group_signal(v, 0, 3, NULL, 0), TUTTI_ERR_TIMEOUT,
               "group 0 has the value 0, expected at least 3");
    CHECK(r, tutti_device_poll(v, 0, TUTTI_EQUAL, 1, NULL) == TUTTI_PENDING);
    /* timeout of 50 ms */
    CHECK_SAYS(r, tutti_device_wait(v, 8, TUTTI_NOT_EQUAL, 0, NULL), TUTTI_ERR_TIMEOUT,
               "offset 8 has the value 0, expected other than 0");
    return TUTTI_ERR_TIMEOUT;
}

static void mistakes_role(struct rank *r)
{
    const tutti_device_conf conf = { .groups = 1, .flags = 2, .timeout_ms = 50 };
    tutti_device_counters few = { .size = 8 };
    tutti_device_conf bad;
    tutti_device *d;
    struct here h;

    here_init(r, &h, 64, &conf);
    bad = (tutti_device_conf){ .size = 3 };
    CHECK_SAYS(r, tutti_device_create(h.window, &bad, &d), TUTTI_ERR_INVALID,
               "sizeof(tutti_device_conf)");
    bad = (tutti_device_conf){ .size = sizeof bad, .lanes = TUTTI_DEVICE_LANES };
    CHECK_SAYS(r, tutti_device_create(h.window, &bad, &d), TUTTI_ERR_INVALID,
               "conf.lanes is 3: must be 0 to");
    bad = (tutti_device_conf){ .size = sizeof bad, .fifo_slots = 12 };
    CHECK_SAYS(r, tutti_device_create(h.window, &bad, &d), TUTTI_ERR_INVALID, "12");
    bad = (tutti_device_conf){ .size = sizeof bad, .mode = TUTTI_DEVICE_MODES };
    CHECK_SAYS(r, tutti_device_create(h.window, &bad, &d), TUTTI_ERR_INVALID,
               "conf.mode is 5: must be 0 to");
    bad = (tutti_device_conf){ .size = sizeof bad, .groups = 1u << 30 };
    CHECK_SAYS(r, tutti_device_create(h.window, &bad, &d), TUTTI_ERR_INVALID, "groups");
    bad = (tutti_device_conf){ .size = sizeof bad, .flags = (1u << 16) + 1 };
    CHECK_SAYS(r, tutti_device_create(h.window, &bad, &d), TUTTI_ERR_INVALID,
               "conf.flags is 65537");
    bad = (tutti_device_conf){ .size = 3 };
    CHECK_SAYS(r, tutti_device_create(h.window, &bad, &d), TUTTI_ERR_INVALID, "conf");
    CHECK_SAYS(r, tutti_device_create(NULL, NULL, &d), TUTTI_ERR_INVALID, "NULL");
    CHECK_SAYS(r, tutti_device_set_mode(h.device, TUTTI_DEVICE_FULL, TUTTI_DEVICE_LANES),
               TUTTI_ERR_INVALID, "lanes");
    CHECK_SAYS(r, tutti_device_read_counters(h.device, &few), TUTTI_ERR_INVALID, "size");
    CHECK_SAYS(r, tutti_device_run(h.device, 0, wrong_kernel, r), TUTTI_ERR_INVALID,
               "invalid nblocks 0");
    CHECK_OK(r, tutti_device_destroy(NULL));
    if (r->rank == 0)
        CHECK_SAYS(
            r, tutti_device_run(h.device, 1, wrong_kernel, r), TUTTI_ERR_TIMEOUT,
            "block 0 of 1 returned TIMEOUT: tutti_device_wait: timed out: the word at offset 8");
    CHECK_OK(r, tutti_device_status(h.device));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_check_all(r, h.mem, 64, 0);
    here_fini(r, &h);
}

static void invalid_calls_have_no_effect(void **state)
{
    (void)state;
    over_ways(mistakes_role, 2, NULL);
}

static tutti_status waiting_kernel(const tutti_device_view *v, uint32_t block, uint32_t nblocks,
                                   void *arg)
{
    (void)nblocks, (void)arg;
    return tutti_device_wait(v, 8 * (block % 4), TUTTI_EQUAL, 1, NULL);
}

/* Rank 1 dies while blocks of rank 0 wait for it. */
static void death_role(struct rank *r)
{
    const tutti_device_conf conf = { 0 };
    struct here h;

    here_init(r, &h, 64, &conf);
    CHECK_OK(r, tutti_window_signal(h.window, !r->rank, 56, TUTTI_SIGNAL_SET, 1));
    CHECK_OK(r, tutti_window_wait(h.window, 56, TUTTI_EQUAL, 1, 0, NULL));
    job_meet(r);
    job_step(r, "rank 1 dies");
    if (r->rank == 1) {
        r->board->dies[1] = 1;
        kill(getpid(), SIGKILL);
    }
    CHECK_STATUS(r, tutti_device_run(h.device, 8, waiting_kernel, NULL), TUTTI_ERR_PEER_LOST);
    CHECK_STATUS(r, tutti_device_status(h.device), TUTTI_ERR_PEER_LOST);
    CHECK(r, job_names(tutti_last_error(), 1));
    CHECK_STATUS(r, tutti_device_destroy(h.device), TUTTI_ERR_PEER_LOST);
    CHECK_STATUS(r, tutti_window_free(h.window), TUTTI_ERR_PEER_LOST);
    free(h.owned);
    job_close(r);
}

static void lost_rank_ends_pending_waits(void **state)
{
    (void)state;
    over_ways(death_role, 2, NULL);
}

static tutti_status aborting_kernel(const tutti_device_view *v, uint32_t block, uint32_t nblocks,
                                    void *arg)
{
    if (block == nblocks - 1 && tutti_device_abort(arg))
        return TUTTI_ERR_INVALID;
    return tutti_device_wait(v, 8, TUTTI_EQUAL, 1, NULL);
}

/* The device is aborted; the communicator and its windows are not. */
static void abort_role(struct rank *r)
{
    const tutti_device_conf conf = { 0 };
    struct here h;

    here_init(r, &h, 64, &conf);
    CHECK_STATUS(r, tutti_device_run(h.device, 4, aborting_kernel, h.device), TUTTI_ERR_ABORTED);
    CHECK_SAYS(r, tutti_window_free(h.window), TUTTI_ERR_INVALID, "in use by 1 device (call");
    CHECK_STATUS(r, tutti_device_destroy(h.device), TUTTI_ERR_ABORTED);
    h.device = NULL;
    CHECK_OK(r, tutti_window_signal(h.window, !r->rank, 0, TUTTI_SIGNAL_SET, 1));
    CHECK_OK(r, tutti_window_wait(h.window, 0, TUTTI_EQUAL, 1, 0, NULL));
    here_fini(r, &h);
}

static void a_device_is_ended_by_hand(void **state)
{
    (void)state;
    over_ways(abort_role, 2, NULL);
}

/* ---- attribution of failures ---- */

/* Hides a window internally: peers that request it by message are notified that it was revoked. */
static void hide(struct rank *r, tutti_window *window, bool hidden)
{
    struct tt_window *w = NULL, **at;

    CHECK_OK(r, tt_window_take(window, "hide", &w));
    tt_engine_client_enter(w->home->engine);
    for (at = &w->home->first; *at && *at != w;)
        at = &(*at)->next;
    if (hidden) {
        *at = w->next;
    } else {
        w->next = NULL;
        *at = w;
    }
    tt_engine_client_leave(w->home->engine);
}

static tutti_status putting_kernel(const tutti_device_view *v, uint32_t block, uint32_t nblocks,
                                   void *arg)
{
    (void)block, (void)nblocks;
    return tutti_device_put(v, 1, 0, arg, 8);
}

static tutti_status asking_kernel(const tutti_device_view *v, uint32_t block, uint32_t nblocks,
                                  void *arg)
{
    const tutti_status st = arg ? tutti_device_put(v, 1, 0, arg, 8) : TUTTI_OK;

    (void)block, (void)nblocks;
    return st ? st : tutti_device_quiet(v, 1);
}

#define FLAG_HIDDEN 0
#define FLAG_ASKED 1

/* Rank 1's window is unavailable for a while. Puts of rank 0 and of its device fail, and each of
 * them gets its own errors. */
static void whose_role(struct rank *r)
{
    const tutti_device_conf conf = { 0 };
    tutti_window *other;
    uint64_t src = 5;
    struct here h;

    here_init(r, &h, 64, &conf);
    CHECK_OK(r, tutti_window_create(r->comm, NULL, 64, &other));
    if (r->rank == 0) {
        CHECK_OK(r, tutti_device_run(h.device, 1, asking_kernel, &src));
        job_raise(r->board, FLAG_ASKED);
        CHECK(r, job_await(r->board, FLAG_HIDDEN, 1));
        job_step(r, "the host's put is not done");
        CHECK_OK(r, tutti_window_put(h.window, 1, 0, &src, 8, NULL));
        CHECK_OK(r, tutti_device_run(h.device, 1, asking_kernel, NULL));
        CHECK_OK(r, tutti_window_quiet(other, 1, 0));
        CHECK_SAYS(r, tutti_window_quiet(h.window, 1, 0), TUTTI_ERR_ABORTED,
                   "rank 1 freed its window");
        CHECK_OK(r, tutti_window_quiet(h.window, 1, 0));        /* reported once */
        job_step(r, "the device's put is not done");
        CHECK_STATUS(r, tutti_device_run(h.device, 1, asking_kernel, &src), TUTTI_ERR_ABORTED);
        CHECK_OK(r, tutti_window_quiet(h.window, 1, 0));
        CHECK_STATUS(r, tutti_device_destroy(h.device), TUTTI_ERR_ABORTED);
        CHECK_OK(r, tutti_device_create(h.window, NULL, &h.device));
        CHECK_OK(r, tutti_device_run(h.device, 1, putting_kernel, &src));
        CHECK_OK(r, tutti_device_destroy(h.device));    /* the host gets the errors that the
                                                           device did not query */
        h.device = NULL;
        CHECK_STATUS(r, tutti_window_quiet(h.window, TUTTI_ALL_RANKS, 0), TUTTI_ERR_ABORTED);
        job_raise(r->board, FLAG_ASKED);
    } else {
        CHECK(r, job_await(r->board, FLAG_ASKED, 1));
        hide(r, h.window, true);
        job_raise(r->board, FLAG_HIDDEN);
        CHECK(r, job_await(r->board, FLAG_ASKED, 2));
        hide(r, h.window, false);
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    CHECK_OK(r, tutti_window_free(other));
    here_fini(r, &h);
}

static void failed_puts_are_reported_at_source(void **state)
{
    const struct job job = {
        .wires = ways[MESSAGES].wires, .nranks = 2, .seed = job_seed(SEED), .arg = &ways[MESSAGES]
    };

    (void)state;
    job_run(&job, whose_role);
}

/* ---- timeouts ---- */

/* Blocks the device's thread: another thread holds the progress lock that it needs for puts. */
struct holder {
    struct tt_engine *engine;
    pthread_t thread;
    atomic_bool holds, over;
};

static void *hold(void *arg)
{
    struct holder *h = arg;

    tt_engine_client_enter(h->engine);
    atomic_store(&h->holds, true);
    while (!atomic_load(&h->over))
        usleep(100);
    tt_engine_client_leave(h->engine);
    return NULL;
}

static void holder_init(struct rank *r, struct holder *h)
{
    *h = (struct holder){ .engine = r->comm->world->engine };
    CHECK(r, pthread_create(&h->thread, NULL, hold, h) == 0);
    while (!atomic_load(&h->holds))
        usleep(100);
}

static void holder_fini(struct holder *h)
{
    atomic_store(&h->over, true);
    pthread_join(h->thread, NULL);
}

/* A mode change waits for earlier puts, which are blocked here, but at most for the device's
 * timeout. */
static void patience_role(struct rank *r)
{
    const tutti_device_conf conf = { .mode = TUTTI_DEVICE_FULL, .no_direct = 1 };
    uint64_t src = 5;
    tutti_device_view view;
    struct here h;

    here_init(r, &h, 64, &conf);
    if (r->rank == 0) {
        const int64_t patience_ms = h.device->conf.timeout_ms;
        struct holder holder;

        holder_init(r, &holder);
        CHECK_OK(r, tutti_device_run(h.device, 1, putting_kernel, &src));
        h.device->conf.timeout_ms = 100;        /* only for this call: later puts may take longer */
        CHECK_SAYS(r, tutti_device_set_mode(h.device, TUTTI_DEVICE_ORDERED, TUTTI_DEVICE_PINNED),
                   TUTTI_ERR_TIMEOUT, "100 ms");
        CHECK_OK(r, tutti_device_view_of(h.device, &view));
        CHECK(r, view.mode == TUTTI_DEVICE_FULL);
        holder_fini(&holder);
        h.device->conf.timeout_ms = patience_ms;
        CHECK_OK(r, tutti_device_set_mode(h.device, TUTTI_DEVICE_ORDERED, TUTTI_DEVICE_PINNED));
        CHECK_OK(r, tutti_device_view_of(h.device, &view));
        CHECK(r, view.mode == TUTTI_DEVICE_ORDERED);
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    here_fini(r, &h);
}

static void mode_change_has_a_time_limit(void **state)
{
    (void)state;
    over_ways(patience_role, 2, NULL);
}

/* The default is ORDERED if signals stay behind data at no cost, and FULL if marks are needed: with
 * several lanes of tcp, or with a provider of libfabric that does not order messages. */
static void default_role(struct rank *r)
{
    const struct way *w = r->job->arg;
    const tutti_device_conf conf = { .no_direct = w->no_direct, .polls = w->polls };
    tutti_device_view view;
    uint32_t expected;
    const char *wire;
    struct here h;

    here_init(r, &h, 64, &conf);
    CHECK_OK(r, tutti_device_view_of(h.device, &view));
    expected = w == &ways[TCP_4_LANES] ? TUTTI_DEVICE_FULL : TUTTI_DEVICE_ORDERED;
    wire = tt_engine_wire_of(r->comm->world->engine, r->comm->ranks[!r->rank]);
    if (strcmp(wire, "verbs") == 0)
        expected = TUTTI_DEVICE_ORDERED;
    else if (strcmp(wire, "ofi") == 0)      /* by default, the tests use an ordered provider */
        expected = getenv("TUTTI_OFI_PROVIDER") ? view.mode : TUTTI_DEVICE_ORDERED;
    CHECK(r, view.mode == expected);
    CHECK_OK(r, tutti_device_set_mode(h.device, TUTTI_DEVICE_COUPLED, TUTTI_DEVICE_SEQUENCED));
    CHECK_OK(r, tutti_device_set_mode(h.device, TUTTI_DEVICE_DEFAULT, TUTTI_DEVICE_SEQUENCED));
    CHECK_OK(r, tutti_device_view_of(h.device, &view));
    CHECK(r, view.mode == expected && view.mode != TUTTI_DEVICE_DEFAULT);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    here_fini(r, &h);
}

static void default_mode_follows_the_transport(void **state)
{
    (void)state;
    over_ways(default_role, 2, NULL);
}

/* ---- system calls ---- */

#define SIGNALS 64u

static tutti_status signals_kernel(const tutti_device_view *v, uint32_t block, uint32_t nblocks,
                                   void *arg)
{
    tutti_status st = TUTTI_OK;

    (void)block, (void)nblocks, (void)arg;
    for (uint32_t i = 0; i < SIGNALS && !st; i++)
        st = tutti_device_signal(v, 1, TUTTI_SIGNAL_SET, 8ull * i, 1);
    return st;
}

/* Signals that are in the FIFO together are sent with few system calls, like those of a group in
 * mode FULL. */
static void signals_role(struct rank *r)
{
    const tutti_device_conf conf = { 0 };
    struct here h;

    here_init(r, &h, 8 * SIGNALS, &conf);
    CHECK_OK(r, tutti_window_signal(h.window, !r->rank, 0, TUTTI_SIGNAL_SET, 2));
    CHECK_OK(r, tutti_window_wait(h.window, 0, TUTTI_EQUAL, 2, 0, NULL));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (r->rank == 0) {
        struct holder holder;
        uint32_t before;

        holder_init(r, &holder);
        CHECK_OK(r, tutti_device_run(h.device, 1, signals_kernel, NULL));
        before = held_lanes_all_calls();
        holder_fini(&holder);
        CHECK_OK(r, tutti_device_run(h.device, 1, asking_kernel, NULL));
        if (held_lanes_all_calls() - before > SIGNALS / 2)
            job_fail(r, __FILE__, __LINE__, "%u signals took %u calls", SIGNALS,
                     held_lanes_all_calls() - before);
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    for (uint32_t i = 0; i < SIGNALS && r->rank == 1; i++)
        CHECK_OK(r, tutti_window_wait(h.window, 8ull * i, TUTTI_EQUAL, 1, 0, NULL));
    here_fini(r, &h);
}

static void group_signals_share_system_calls(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWAYS; i++) {
        const struct job job = {
            .wires = ways[i].wires, .nranks = 2, .seed = job_seed(SEED) + i, .arg = &ways[i]
        };

        if (strcmp(ways[i].wires, "tcp") == 0 && !getenv("TUTTI_TEST_IN_PLACE_OF_TCP"))
            job_run(&job, signals_role);
    }
}

/* ---- hashes computed by kernels ---- */

/* Returns the hash of data[bytes], computed by `nblocks` blocks of the device. */
static struct tt_hash hash_by_blocks(struct rank *r, struct here *h, const uint8_t *data,
                                     size_t bytes, uint32_t nblocks)
{
    struct hashing x = { .data = data, .bytes = bytes };
    struct tt_hash value;

    CHECK_OK(r, tutti_device_run(h->device, nblocks, hashing_kernel, &x));
    tutti_hash_end(value.word, x.sum, bytes);
    return value;
}

struct hash_try {
    struct rank *rank;
    struct here *here;
};

static bool try_hash_vector(const uint8_t *data, size_t bytes, const char want[TT_HASH_TEXT_BYTES],
                            void *arg)
{
    const struct hash_try *t = arg;
    const struct tt_hash got =
        hash_by_blocks(t->rank, t->here, data, bytes, 1 + (uint32_t)(bytes % 5));
    char text[TT_HASH_TEXT_BYTES];

    tt_hash_text(&got, text);
    return strcmp(text, want) == 0;
}

/* Computes the hash in ranges of whole blocks, with one launch each. */
static struct tt_hash hash_by_ranges(struct rank *r, struct here *h, const uint8_t *data,
                                     size_t bytes)
{
    struct hashing x = { .sum = { 0 } };
    struct tt_hash value;

    for (size_t at = 0, length; at < bytes; at += length) {
        length = (1 + at % 3) * TT_HASH_BLOCK_BYTES;
        length = length < bytes - at ? length : bytes - at;
        x.data = data + at;
        x.bytes = length;
        x.first_block = at / TT_HASH_BLOCK_BYTES;
        CHECK_OK(r, tutti_device_run(h->device, 2, hashing_kernel, &x));
    }
    tutti_hash_end(value.word, x.sum, bytes);
    return value;
}

static void hash_role(struct rank *r)
{
    enum { BYTES = 3 * TT_HASH_BLOCK_BYTES, SHIFTS = 8, RANDOM = 150 };
    const tutti_device_conf conf = { 0 };
    struct here h;
    struct hash_try try = { r, &h };
    const size_t longest = (size_t)1 << (UNIT_SHARE > 1 ? 20 : 26);
    uint8_t *data = job_have(r, malloc(BYTES + SHIFTS)), *exact;
    struct tt_prng p;

    here_init(r, &h, 4096, &conf);
    tt_prng_init(&p, SEED);
    for (size_t i = 0; i < BYTES + SHIFTS; i++)
        data[i] = (uint8_t)tt_prng_u64(&p);
    job_step(r, "the vectors of the documentation");
    CHECK(r, hash_vectors_each(longest, try_hash_vector, &try) == longest);
    job_step(r, "any size and alignment");
    for (int i = 0; i < RANDOM; i++) {
        const size_t shift = tt_prng_below(&p, SHIFTS), most = i % 2 ? 300 : BYTES,
                     bytes = tt_prng_below(&p, most);
        const uint32_t nblocks = 1 + (uint32_t)tt_prng_below(&p, 5);
        struct tt_hash want, got;

        exact = job_have(r, malloc(bytes + shift + 1));     /* reads beyond the end are detected
                                                               by sanitizers */
        memcpy(exact + shift, data, bytes);
        want = tt_hash_of(exact + shift, bytes);
        got = hash_by_blocks(r, &h, exact + shift, bytes, nblocks);
        CHECK(r, tt_hash_equal(&got, &want));
        got = hash_by_ranges(r, &h, exact + shift, bytes);
        CHECK(r, tt_hash_equal(&got, &want));
        free(exact);
    }
    free(data);
    here_fini(r, &h);
}

static void blocks_hash_as_processors_do(void **state)
{
    const struct job job = {
        .wires = ways[0].wires, .nranks = 1, .seed = job_seed(SEED), .arg = &ways[0]
    };

    (void)state;
    job_run(&job, hash_role);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_visible_before_its_signal),
        cmocka_unit_test(same_order_with_delayed_lanes),
        cmocka_unit_test(fence_does_not_delay_other_ranks),
        cmocka_unit_test(stopped_rank_stops_only_its_senders),
        cmocka_unit_test(sixty_four_blocks_share_eight_slots),
        cmocka_unit_test(no_atomic_add_is_lost),
        cmocka_unit_test(invalid_calls_have_no_effect),
        cmocka_unit_test(lost_rank_ends_pending_waits),
        cmocka_unit_test(a_device_is_ended_by_hand),
        cmocka_unit_test(failed_puts_are_reported_at_source),
        cmocka_unit_test(default_mode_follows_the_transport),
        cmocka_unit_test(mode_change_has_a_time_limit),
        cmocka_unit_test(group_signals_share_system_calls),
        cmocka_unit_test(blocks_hash_as_processors_do),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
