/* Gets from the device memory of other ranks, and atomics on it: they read the data of earlier
 * puts, in stream order, without a call of the target. */
#include "graphs.h"
#include "windows.h"

#include <stdlib.h>
#include <string.h>

#define assert_says(part) assert_non_null(strstr(tutti_last_error(), part))

static unsigned char byte_of(int rank, size_t at)
{
    return (unsigned char)((at * 2654435761u >> 13) + (size_t)rank * 37);
}

/* Every rank gets the windows of all ranks, its own included, while the targets call nothing. */
static void gets_return_the_data_of_the_target(void **state)
{
    enum { RANKS = 3 };
    static const size_t sizes[] = { 0, 1, 4096, (256 << 10) + 17, 3 << 20 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t n = sizes[i], all[] = { n + 5, n + 5, n + 5 };
        unsigned char *data = malloc(n + 5), *expected = malloc(n + 5);
        struct windows ws;
        struct world w;
        char *dst;

        world_open(&w, RANKS, NULL);
        windows_open(&ws, &w, all);
        for (int r = 0; r < RANKS; r++) {
            for (size_t k = 0; k < n + 5; k++)
                data[k] = byte_of(r, k);
            world_write(&w, r, ws.mem[r], data, n + 5);
        }
        for (int r = 0; r < RANKS; r++) {
            dst = world_alloc(&w, r, RANKS * n + 1, 0xee);
            for (int t = 0; t < RANKS; t++)
                assert_ok(tutti_gpu_get(dst + (size_t)t * n, n, TUTTI_U8, t, ws.window[r], 5,
                                        w.gpu[r], w.stream[r]));
            for (int t = 0; t < RANKS; t++) {
                world_read(&w, r, data, dst + (size_t)t * n, n);
                for (size_t k = 0; k < n; k++)
                    expected[k] = byte_of(t, k + 5);
                assert_memory_equal(data, expected, n);
            }
            world_read(&w, r, data, dst + RANKS * n, 1);
            assert_int_equal(data[0], 0xee);
            assert_ok(tutti_gpu_status(w.gpu[r]));
            world_free(&w, r, dst);
        }
        windows_close(&ws, &w);
        world_close(&w);
        free(data);
        free(expected);
    }
}

/* The put does not fit into the ring. */
static void a_get_reads_earlier_puts_of_its_rank(void **state)
{
    enum { BYTES = 2000000 };
    static const size_t bytes[] = { 1, BYTES };
    unsigned char *got = malloc(BYTES);
    struct windows ws;
    struct world w;
    void *src, *dst;

    (void)state;
    world_open(&w, 2, NULL);
    windows_open(&ws, &w, bytes);
    src = world_alloc(&w, 0, BYTES, 0);
    dst = world_alloc(&w, 0, BYTES, 0);
    for (int i = 1; i <= 4; i++) {
        memset(got, i, BYTES);
        world_write(&w, 0, src, got, BYTES);
        assert_ok(tutti_gpu_put_signal(src, BYTES, TUTTI_U8, 1, ws.window[0], 0, 0, w.gpu[0],
                                       w.stream[0]));
        assert_ok(tutti_gpu_get(dst, BYTES, TUTTI_U8, 1, ws.window[0], 0, w.gpu[0], w.stream[0]));
        world_read(&w, 0, got, dst, BYTES);
        assert_int_equal(got[0], i);
        assert_memory_equal(got, got + 1, BYTES - 1);
    }
    world_free(&w, 0, src);
    world_free(&w, 0, dst);
    windows_close(&ws, &w);
    world_close(&w);
    free(got);
}

/* ---- atomics ---- */

/* All ranks add to one word of rank 0 and get its previous value: each value is returned once. */
static void additions_are_atomic(void **state)
{
    enum { RANKS = 4, ADDS = 50 };
    static const size_t bytes[] = { 16, 16, 16, 16 };
    bool seen[RANKS * ADDS] = { 0 };
    uint64_t value;
    struct windows ws;
    struct world w;
    uint64_t *old[RANKS];

    (void)state;
    world_open(&w, RANKS, NULL);
    windows_open(&ws, &w, bytes);
    for (int r = 0; r < RANKS; r++) {
        old[r] = world_alloc(&w, r, ADDS * sizeof(uint64_t), 0);
        for (int i = 0; i < ADDS; i++)
            assert_ok(tutti_gpu_atomic(TUTTI_ATOMIC_ADD, 3, 0, old[r] + i, TUTTI_U64, 0,
                                       ws.window[r], 8, w.gpu[r], w.stream[r]));
    }
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < ADDS; i++) {
            world_read(&w, r, &value, old[r] + i, sizeof value);
            assert_int_equal(value % 3, 0);
            assert_true(value / 3 < RANKS * ADDS && !seen[value / 3]);
            seen[value / 3] = true;
        }
    world_read(&w, 0, &value, (char *)ws.mem[0] + 8, sizeof value);
    assert_int_equal(value, 3 * RANKS * ADDS);
    for (int r = 0; r < RANKS; r++)
        world_free(&w, r, old[r]);
    windows_close(&ws, &w);
    world_close(&w);
}

static void each_operation_updates_its_word_only(void **state)
{
    static const struct {
        tutti_atomic_op op;
        uint64_t operand, compare, before, after;
    } cases[] = {
        { TUTTI_ATOMIC_ADD, UINT64_MAX, 0, 5, 4 },
        { TUTTI_ATOMIC_SWAP, 7, 0, 5, 7 },
        { TUTTI_ATOMIC_COMPARE_SWAP, 9, 5, 5, 9 },
        { TUTTI_ATOMIC_COMPARE_SWAP, 9, 6, 5, 5 },
        { TUTTI_ATOMIC_COMPARE_SWAP, 9, 0x100000005, 5, 5 },   /* 4 bytes: equal */
        { TUTTI_ATOMIC_AND, 6, 0, 5, 4 },
        { TUTTI_ATOMIC_OR, 6, 0, 5, 7 },
        { TUTTI_ATOMIC_XOR, 6, 0, 5, 3 },
    };
    static const size_t bytes[] = { 24, 24 };
    struct windows ws;
    struct world w;
    void *old;

    (void)state;
    world_open(&w, 2, NULL);
    windows_open(&ws, &w, bytes);
    old = world_alloc(&w, 0, 8, 0);
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const bool is_short = i % 2;
        const uint64_t mask = is_short ? UINT32_MAX : UINT64_MAX;
        const bool hits = is_short && i / 2 == 4;
        const uint64_t after = hits ? cases[i / 2].operand : cases[i / 2].after;
        uint64_t words[3] = { UINT64_MAX, cases[i / 2].before, UINT64_MAX }, got = 0;

        if (is_short)
            words[1] |= (uint64_t)0xabcd << 32;
        world_write(&w, 1, ws.mem[1], words, sizeof words);
        assert_ok(tutti_gpu_atomic(cases[i / 2].op, cases[i / 2].operand, cases[i / 2].compare,
                                   i % 4 < 2 ? old : NULL, is_short ? TUTTI_U32 : TUTTI_I64, 1,
                                   ws.window[0], 8, w.gpu[0], w.stream[0]));
        if (i % 4 < 2) {
            world_read(&w, 0, &got, old, is_short ? 4 : 8);
            assert_int_equal(got, cases[i / 2].before);
        }
        assert_ok(tutti_gpu_get(old, 8, TUTTI_U8, 1, ws.window[0], 8, w.gpu[0], w.stream[0]));
        world_read(&w, 0, &got, old, 8);
        assert_int_equal(got & mask, after & mask);
        assert_int_equal(got & ~mask, words[1] & ~mask);
        world_read(&w, 1, words, ws.mem[1], sizeof words);
        assert_true(words[0] == UINT64_MAX && words[2] == UINT64_MAX);
    }
    world_free(&w, 0, old);
    windows_close(&ws, &w);
    world_close(&w);
}

/* A graph counts its launches at the peer, and gets the counter. */
static void gets_and_atomics_are_captured(void **state)
{
    static const size_t bytes[] = { 8, 8 };
    struct windows ws;
    struct world w;
    uint64_t got;
    exec_t exec;
    void *dst;

    (void)state;
    world_open(&w, 2, NULL);
    windows_open(&ws, &w, bytes);
    dst = world_alloc(&w, 0, 8, 0);
    capture_begin(&w, 0, CAPTURE_THREAD);
    assert_ok(tutti_gpu_atomic(TUTTI_ATOMIC_ADD, 1, 0, NULL, TUTTI_U64, 1, ws.window[0], 0,
                               w.gpu[0], w.stream[0]));
    assert_ok(tutti_gpu_get(dst, 1, TUTTI_U64, 1, ws.window[0], 0, w.gpu[0], w.stream[0]));
    exec = capture_end_exec(&w, 0);
    for (uint64_t i = 1; i <= 5; i++) {
        exec_launch(&w, 0, exec);
        world_read(&w, 0, &got, dst, 8);
        assert_int_equal(got, i);
    }
    exec_destroy(exec);
    world_free(&w, 0, dst);
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
    void *dst;

    (void)state;
    world_open(&w, 2, NULL);
    dst = world_alloc(&w, 0, 64, 1);
    assert_status(tutti_gpu_get(dst, 1, TUTTI_U8, 1, NULL, 0, w.gpu[0], w.stream[0]),
                  TUTTI_ERR_INVALID);
    assert_says("tutti_gpu_get: the tutti_gpu has no window");
    windows_open(&ws, &w, bytes);
#define GET(to, count, offset)                                                                     \
    tutti_gpu_get(to, count, TUTTI_U8, 1, ws.window[0], offset, w.gpu[0], w.stream[0])
#define ATOMIC(op, type, offset)                                                                   \
    tutti_gpu_atomic(op, 1, 1, dst, type, 1, ws.window[0], offset, w.gpu[0], w.stream[0])
    assert_status(GET(dst, 33, 0), TUTTI_ERR_INVALID);
    assert_says("tutti_gpu_get: 33 bytes at offset 0 are outside the window of rank 1 (32 bytes)");
    assert_status(GET(host, 1, 0), TUTTI_ERR_INVALID);
    assert_says("tutti_gpu_get: dst");
    assert_status(ATOMIC(TUTTI_ATOMIC_XOR + 1, TUTTI_U64, 0), TUTTI_ERR_INVALID);
    assert_says("tutti_gpu_atomic: op is 6");
    assert_status(ATOMIC(TUTTI_ATOMIC_ADD, TUTTI_F32, 0), TUTTI_ERR_INVALID);
    assert_says("tutti_gpu_atomic: type is f32: must be an integer of 4 or 8 bytes");
    assert_status(ATOMIC(TUTTI_ATOMIC_ADD, TUTTI_U16, 0), TUTTI_ERR_INVALID);
    assert_status(ATOMIC(TUTTI_ATOMIC_ADD, TUTTI_U64, 4), TUTTI_ERR_INVALID);
    assert_says("tutti_gpu_atomic: offset is 4: must be a multiple of 8");
    assert_status(ATOMIC(TUTTI_ATOMIC_ADD, TUTTI_U64, 32), TUTTI_ERR_INVALID);
    assert_says("tutti_gpu_atomic: 8 bytes at offset 32 are outside the window of rank 1");
#undef GET
#undef ATOMIC
    assert_ok(tutti_gpu_status(w.gpu[0]));
    world_free(&w, 0, dst);
    windows_close(&ws, &w);
    world_close(&w);
}

/* Rank 1 has destroyed its tutti_gpu, or has freed its window: an error instead of a hang. */
static void a_get_from_a_rank_that_has_left_fails(void **state)
{
    static const size_t bytes[] = { 64, 64 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct windows ws;
        struct world w;
        void *dst;

        world_open(&w, 2, NULL);
        windows_open(&ws, &w, bytes);
        dst = world_alloc(&w, 0, 64, 1);
        assert_ok(tutti_gpu_window_free(ws.window[1]));
        ws.window[1] = NULL;
        if (i) {
            tutti_gpu_destroy(w.gpu[1]);
            w.gpu[1] = NULL;
        }
        assert_ok(tutti_gpu_get(dst, 64, TUTTI_U8, 1, ws.window[0], 0, w.gpu[0], w.stream[0]));
        world_sync(&w, 0);
        assert_int_not_equal(tutti_gpu_status(w.gpu[0]), TUTTI_OK);
        if (i) {
            assert_status(tutti_gpu_status(w.gpu[0]), TUTTI_ERR_PEER_LOST);
            assert_says("tutti_gpu_get: rank 1 has called tutti_gpu_destroy");
        } else {
            assert_status(tutti_gpu_status(w.gpu[1]), TUTTI_ERR_INVALID);
        }
        world_free(&w, 0, dst);
        windows_close(&ws, &w);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gets_return_the_data_of_the_target),
        cmocka_unit_test(a_get_reads_earlier_puts_of_its_rank),
        cmocka_unit_test(additions_are_atomic),
        cmocka_unit_test(each_operation_updates_its_word_only),
        cmocka_unit_test(gets_and_atomics_are_captured),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(a_get_from_a_rank_that_has_left_fails),
    };

    world_devices();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
