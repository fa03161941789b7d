/* Puts into the device memory of other ranks, and signals: data arrives before its signal, in the
 * order of the calls, without a call of the target. Failures end waits. */
#include "graphs.h"
#include "windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "gpu/slots.h"

#define assert_says(part) assert_non_null(strstr(tutti_last_error(), part))

static void fill(unsigned char *buf, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1103515245u + 12345u;
        buf[i] = (unsigned char)(seed >> 16);
    }
}

/* Each rank puts a part of the window of each rank, itself included. All puts complete before any
 * rank waits, even those that are longer than a ring. */
static void puts_need_no_call_of_the_target(void **state)
{
    enum { RANKS = 3 };
    static const size_t sizes[] = { 0, 1, 4096, (256 << 10) + 17, 3 << 20 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t n = sizes[i], all[] = { RANKS * n + 1, RANKS * n + 1, RANKS * n + 1 };
        unsigned char *data = malloc(RANKS * n + 1), *got = malloc(RANKS * n + 1);
        void *src[RANKS];
        struct windows ws;
        struct world w;

        world_open(&w, RANKS, NULL);
        windows_open(&ws, &w, all);
        for (int r = 0; r < RANKS; r++) {
            src[r] = world_alloc(&w, r, RANKS * n + 1, 0);
            fill(data, RANKS * n, (unsigned)(i * 10 + (size_t)r));
            world_write(&w, r, src[r], data, RANKS * n);
            for (int t = 0; t < RANKS; t++)
                assert_ok(tutti_gpu_put_signal((char *)src[r] + (size_t)t * n, n, TUTTI_U8, t,
                                               ws.window[r], (size_t)r * n, 0, w.gpu[r],
                                               w.stream[r]));
            world_sync(&w, r);
        }
        for (int t = 0; t < RANKS; t++) {
            for (int r = 0; r < RANKS; r++)
                assert_ok(tutti_gpu_wait_signal(r, 0, 1, w.gpu[t], w.stream[t]));
            world_read(&w, t, got, ws.mem[t], RANKS * n + 1);
            for (int r = 0; r < RANKS; r++) {
                fill(data, RANKS * n, (unsigned)(i * 10 + (size_t)r));
                assert_memory_equal(got + (size_t)r * n, data + (size_t)t * n, n);
            }
            assert_int_equal(got[RANKS * n], 0);
        }
        for (int r = 0; r < RANKS; r++) {
            assert_ok(tutti_gpu_status(w.gpu[r]));
            world_free(&w, r, src[r]);
        }
        windows_close(&ws, &w);
        world_close(&w);
        free(data);
        free(got);
    }
}

/* All puts have the same target. After k signals it contains the k-th or a later value, and after
 * all signals the last one. One wait consumes several signals. Indices and peers have separate
 * counters. */
static void signals_follow_all_earlier_puts(void **state)
{
    enum { PUTS = 60, BYTES = 100000 };
    static const size_t bytes[] = { BYTES, BYTES };
    unsigned char *got = malloc(BYTES);
    struct windows ws;
    struct world w;
    void *src;

    (void)state;
    world_open(&w, 2, NULL);
    windows_open(&ws, &w, bytes);
    src = world_alloc(&w, 0, BYTES, 0);
    for (int i = 1; i <= PUTS; i++) {
        memset(got, i, BYTES);
        world_write(&w, 0, src, got, BYTES);
        assert_ok(tutti_gpu_put_signal(src, BYTES, TUTTI_U8, 1, ws.window[0], 0, 0, w.gpu[0],
                                       w.stream[0]));
        assert_ok(tutti_gpu_signal(1, 1 + (uint32_t)i % 2, w.gpu[0], w.stream[0]));
        if (i % 10)
            continue;
        assert_ok(tutti_gpu_wait_signal(0, 0, 10, w.gpu[1], w.stream[1]));
        assert_ok(tutti_gpu_wait_signal(0, 1, 5, w.gpu[1], w.stream[1]));
        assert_ok(tutti_gpu_wait_signal(0, 2, 5, w.gpu[1], w.stream[1]));
        world_read(&w, 1, got, ws.mem[1], BYTES);
        for (size_t k = 0; k < BYTES; k++)
            assert_int_equal(got[k], i);
    }
    assert_ok(tutti_gpu_status(w.gpu[1]));
    world_free(&w, 0, src);
    windows_close(&ws, &w);
    world_close(&w);
    free(got);
}

static tutti_gpu_op op_of(struct world *w, int r, tutti_gpu_kind kind, int peer)
{
    return (tutti_gpu_op){ .size = sizeof(tutti_gpu_op),
                           .kind = kind,
                           .gpu = w->gpu[r],
                           .stream = w->stream[r],
                           .root = peer,
                           .type = TUTTI_U8 };
}

/* One thread drives both ranks: each puts and waits for the other, in one group. Replays of a graph
 * do the same with the data of their time. */
static void a_group_exchanges_puts_and_is_captured(void **state)
{
    enum { BYTES = 1000, ROUNDS = 5 };
    static const size_t bytes[] = { BYTES, BYTES };
    unsigned char data[BYTES];
    struct windows ws;
    struct world w;
    tutti_gpu_op ops[4];
    exec_t exec[2];
    void *src[2];

    (void)state;
    world_open(&w, 2, NULL);
    windows_open(&ws, &w, bytes);
    for (int r = 0; r < 2; r++) {
        src[r] = world_alloc(&w, r, BYTES, 0);
        ops[2 * r] = op_of(&w, r, TUTTI_GPU_WAIT_SIGNAL, 1 - r);
        ops[2 * r].count = 1;
        ops[2 * r + 1] = op_of(&w, r, TUTTI_GPU_PUT_SIGNAL, 1 - r);
        ops[2 * r + 1].src = src[r];
        ops[2 * r + 1].count = BYTES;
        ops[2 * r + 1].window = ws.window[r];
    }
    for (int r = 0; r < 2; r++)
        capture_begin(&w, r, CAPTURE_THREAD);
    assert_ok(tutti_gpu_group(ops, 4));
    for (int r = 0; r < 2; r++)
        exec[r] = capture_end_exec(&w, r);
    for (int i = 0; i < ROUNDS; i++) {
        for (int r = 0; r < 2; r++) {
            memset(data, 1 + 2 * i + r, BYTES);
            world_write(&w, r, src[r], data, BYTES);
        }
        if (i % 2)
            assert_ok(tutti_gpu_group(ops, 4));
        for (int r = 0; r < 2 && i % 2 == 0; r++)
            exec_launch(&w, r, exec[r]);
        for (int r = 0; r < 2; r++) {
            world_read(&w, r, data, ws.mem[r], BYTES);
            for (int k = 0; k < BYTES; k++)
                assert_int_equal(data[k], 1 + 2 * i + (1 - r));
        }
    }
    for (int r = 0; r < 2; r++) {
        assert_ok(tutti_gpu_status(w.gpu[r]));
        exec_destroy(exec[r]);
        world_free(&w, r, src[r]);
    }
    windows_close(&ws, &w);
    world_close(&w);
}

/* ---- failures ---- */

static void bad_arguments_are_refused(void **state)
{
    static const size_t bytes[] = { 64, 32 };
    struct windows ws;
    struct world w;
    char host[64];
    void *src;

    (void)state;
    world_open(&w, 2, NULL);
    src = world_alloc(&w, 0, 64, 1);
    assert_status(tutti_gpu_signal(1, 0, w.gpu[0], w.stream[0]), TUTTI_ERR_INVALID);
    assert_says("has no window");
    windows_open(&ws, &w, bytes);
#define PUT(count, peer, win, offset, signal)                                                      \
    tutti_gpu_put_signal(src, count, TUTTI_U8, peer, win, offset, signal, w.gpu[0], w.stream[0])
    assert_status(PUT(33, 1, ws.window[0], 0, 0), TUTTI_ERR_INVALID);
    assert_says("window of rank 1 (32 bytes)");
    assert_status(PUT(1, 1, ws.window[0], 32, 0), TUTTI_ERR_INVALID);
    assert_status(PUT(1, 1, ws.window[0], SIZE_MAX, 0), TUTTI_ERR_INVALID);
    assert_status(PUT(1, 2, ws.window[0], 0, 0), TUTTI_ERR_INVALID);
    assert_says("peer is 2");
    assert_status(PUT(1, 1, ws.window[0], 0, TUTTI_GPU_SIGNALS), TUTTI_ERR_INVALID);
    assert_says("signal is 64");
    assert_status(PUT(1, 1, ws.window[1], 0, 0), TUTTI_ERR_INVALID);
    assert_says("belongs to another tutti_gpu");
    assert_status(PUT(1, 1, NULL, 0, 0), TUTTI_ERR_INVALID);
    assert_says("window is NULL");
#undef PUT
    assert_status(
        tutti_gpu_put_signal(host, 1, TUTTI_U8, 1, ws.window[0], 0, 0, w.gpu[0], w.stream[0]),
        TUTTI_ERR_INVALID);
    assert_ok(tutti_gpu_status(w.gpu[0]));
    world_free(&w, 0, src);
    windows_close(&ws, &w);
    world_close(&w);
}

/* Rank `bad` passes memory that is not of its device. All ranks return an error that names it, and
 * can create windows afterwards. */
static void a_rank_that_cannot_create_a_window_fails_all(void **state)
{
    static const size_t bytes[] = { 64, 64, 64 };
    char host[64], named[32];
    struct creator c[3];
    struct windows ws;
    struct world w;

    (void)state;
    world_open(&w, 3, NULL);
    for (int bad = 0; bad < 3; bad++) {
        void *mem[3];

        for (int r = 0; r < 3; r++)
            mem[r] = r == bad ? host : world_alloc(&w, r, 64, 0);
        windows_create(c, &w, mem, bytes);
        snprintf(named, sizeof named, "rank %d failed", bad);
        for (int r = 0; r < 3; r++) {
            const char *part = r == bad ? "tutti_gpu_window_create: mem" : named;

            assert_int_equal(c[r].status, TUTTI_ERR_INVALID);
            assert_non_null(strstr(c[r].why, part));
            assert_null(c[r].window);
            if (r != bad)
                world_free(&w, r, mem[r]);
        }
        if (bad == 1)                       /* the third case runs with windows open */
            windows_open(&ws, &w, bytes);
    }
    for (int r = 0; r < 3; r++)
        assert_ok(tutti_gpu_status(w.gpu[r]));
    windows_close(&ws, &w);
    world_close(&w);
}

static void a_deadline_ends_a_wait_for_a_signal_of_another_index(void **state)
{
    static const size_t bytes[] = { 64, 64 };
    const tutti_gpu_conf conf = { .timeout_ms = 50 };
    struct windows ws;
    struct world w;

    (void)state;
    world_open(&w, 2, &conf);
    windows_open(&ws, &w, bytes);
    assert_ok(tutti_gpu_signal(1, 3, w.gpu[0], w.stream[0]));
    world_sync(&w, 0);
    assert_ok(tutti_gpu_wait_signal(0, 4, 1, w.gpu[1], w.stream[1]));
    world_sync(&w, 1);
    assert_status(tutti_gpu_status(w.gpu[1]), TUTTI_ERR_TIMEOUT);
    assert_says("signal 4 of rank 0: 0 of 1 arrived");
    windows_close(&ws, &w);
    world_close(&w);
}

/* Rank 0 waits for a signal that never comes: rank 1 aborts, or fails in another operation. */
static void a_failure_of_the_peer_ends_a_wait(void **state)
{
    static const size_t bytes[] = { 64, 64 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct windows ws;
        struct world w;

        world_open(&w, 2, NULL);
        if (i)
            w.gpu[1]->conf.timeout_ms = 50;
        windows_open(&ws, &w, bytes);
        assert_ok(tutti_gpu_wait_signal(1, 0, 1, w.gpu[0], w.stream[0]));
        if (i)
            assert_ok(tutti_gpu_recv(ws.mem[1], 64, TUTTI_U8, 0, w.gpu[1], w.stream[1]));
        else
            assert_ok(tutti_gpu_abort(w.gpu[1]));
        world_sync(&w, 0);
        assert_int_not_equal(tutti_gpu_status(w.gpu[0]), TUTTI_OK);
        windows_close(&ws, &w);
        world_close(&w);
    }
}

/* Rank 1 puts and destroys its tutti_gpu at once. Its data still arrives, and the other ranks can
 * still put to each other. */
static void a_rank_may_end_before_the_others(void **state)
{
    enum { BYTES = 2 << 20 };
    static const size_t bytes[] = { BYTES, 1, BYTES };
    unsigned char *got = malloc(BYTES);
    struct windows ws;
    struct world w;
    void *src[3];

    (void)state;
    world_open(&w, 3, NULL);
    windows_open(&ws, &w, bytes);
    for (int r = 0; r < 3; r++)
        src[r] = world_alloc(&w, r, BYTES, 7 + r);
    assert_ok(tutti_gpu_put_signal(src[1], BYTES, TUTTI_U8, 0, ws.window[1], 0, 0, w.gpu[1],
                                   w.stream[1]));
    assert_ok(tutti_gpu_window_free(ws.window[1]));
    ws.window[1] = NULL;
    tutti_gpu_destroy(w.gpu[1]);
    w.gpu[1] = NULL;
    assert_ok(tutti_gpu_wait_signal(1, 0, 1, w.gpu[0], w.stream[0]));
    world_read(&w, 0, got, ws.mem[0], BYTES);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(got[i], 8);
    for (int r = 0; r < 3; r += 2)
        assert_ok(tutti_gpu_put_signal(src[r], BYTES, TUTTI_U8, 2 - r, ws.window[r], 0, 0, w.gpu[r],
                                       w.stream[r]));
    for (int r = 0; r < 3; r += 2) {
        assert_ok(tutti_gpu_wait_signal(2 - r, 0, 1, w.gpu[r], w.stream[r]));
        world_read(&w, r, got, ws.mem[r], BYTES);
        for (size_t i = 0; i < BYTES; i++)
            assert_int_equal(got[i], 9 - r);
        assert_ok(tutti_gpu_status(w.gpu[r]));
    }
    for (int r = 0; r < 3; r++)
        world_free(&w, r, src[r]);
    windows_close(&ws, &w);
    world_close(&w);
    free(got);
}

/* Other processes write the headers, so each field is checked. */
static void pieces_are_checked(void **state)
{
    const struct tt_gpu_layout l = tt_gpu_layout_of(3);
    const struct tt_gpu_piece good = {
        .offset = 10, .window = 0, .bytes = 90, .signal = 63, .is_last = 1
    };
    const struct {
        struct tt_gpu_piece piece;
        int known;
        tutti_status expected;
    } cases[] = {
        { good, 1, TUTTI_OK },
        { good, 0, TUTTI_ERR_INVALID },
        { { .offset = 10, .bytes = 91 }, 1, TUTTI_ERR_PROTOCOL },
        { { .offset = 101 }, 1, TUTTI_ERR_PROTOCOL },
        { { .offset = UINT64_MAX, .bytes = 2 }, 1, TUTTI_ERR_PROTOCOL },
        { { .bytes = UINT32_MAX }, 1, TUTTI_ERR_PROTOCOL },
        { { .signal = 64 }, 1, TUTTI_ERR_PROTOCOL },
        { { .is_last = 2 }, 1, TUTTI_ERR_PROTOCOL },
        { { .window = TT_GPU_NO_WINDOW, .offset = 5 }, 0, TUTTI_OK },
        { { .window = TT_GPU_NO_WINDOW, .bytes = 1 }, 0, TUTTI_ERR_INVALID },
        { { .kind = 3 }, 1, TUTTI_ERR_PROTOCOL },
        { { .kind = TT_GPU_PIECE_GET, .length = 100, .reply = 2 }, 1, TUTTI_OK },
        { { .kind = TT_GPU_PIECE_GET, .length = 100, .reply = 3 }, 1, TUTTI_ERR_PROTOCOL },
        { { .kind = TT_GPU_PIECE_GET, .length = 100 }, 1, TUTTI_ERR_PROTOCOL },
        { { .kind = TT_GPU_PIECE_GET, .length = 101, .reply = 1 }, 1, TUTTI_ERR_PROTOCOL },
        { { .kind = TT_GPU_PIECE_GET, .length = UINT32_MAX, .reply = 1 }, 1, TUTTI_ERR_PROTOCOL },
        { { .kind = TT_GPU_PIECE_GET, .length = 1, .reply = 1 }, 0, TUTTI_ERR_INVALID },
        { { .kind = TT_GPU_PIECE_GET, .bytes = 1, .reply = 1 }, 1, TUTTI_ERR_PROTOCOL },
        { { .kind = TT_GPU_PIECE_GET, .is_last = 1, .reply = 1 }, 1, TUTTI_ERR_PROTOCOL },
        { { .kind = TT_GPU_PIECE_ATOMIC, .length = 8, .offset = 8 }, 1, TUTTI_OK },
        { { .kind = TT_GPU_PIECE_ATOMIC, .length = 8, .offset = 12 }, 1, TUTTI_ERR_PROTOCOL },
        { { .kind = TT_GPU_PIECE_ATOMIC, .length = 8, .offset = 96 }, 1, TUTTI_ERR_PROTOCOL },
        { { .kind = TT_GPU_PIECE_ATOMIC, .length = 2 }, 1, TUTTI_ERR_PROTOCOL },
        { { .kind = TT_GPU_PIECE_ATOMIC, .length = 4, .op = 6 }, 1, TUTTI_ERR_PROTOCOL },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_status(tt_gpu_piece_check(&l, &cases[i].piece, 1, cases[i].known, 100),
                      cases[i].expected);
    for (uint32_t n = 1; n < 5000; n = 3 * n + 1) {
        const struct tt_gpu_layout of = tt_gpu_layout_of(n);

        assert_true(tt_gpu_layout_slot(&of, n - 1, TT_GPU_RING_DEPTH - 1) + of.slot_bytes <=
                    of.replies);
        assert_true(tt_gpu_layout_reply(&of, TT_GPU_REPLIES - 1) + of.piece_bytes <= of.bytes);
        assert_true(tt_gpu_layout_count(&of, n - 1, TUTTI_GPU_SIGNALS - 1) + 8 <= of.wake);
        assert_true(of.piece_bytes >= 4096);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_need_no_call_of_the_target),
        cmocka_unit_test(signals_follow_all_earlier_puts),
        cmocka_unit_test(a_group_exchanges_puts_and_is_captured),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(a_rank_that_cannot_create_a_window_fails_all),
        cmocka_unit_test(a_deadline_ends_a_wait_for_a_signal_of_another_index),
        cmocka_unit_test(a_failure_of_the_peer_ends_a_wait),
        cmocka_unit_test(a_rank_may_end_before_the_others),
        cmocka_unit_test(pieces_are_checked),
    };

    world_devices();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
