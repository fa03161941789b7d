/* Calls with blocks of different sizes, compared with values that the test computes. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#define N 4
#define GAP 3
#define UNTOUCHED 0x5a

/* Size of each rank's block in elements: short, empty, longer than a piece, and in between. */
static const size_t counts[N] = { 5, 0, 300001, 1700 };

/* Displacements with gaps, in another order than the ranks. */
static size_t displs[N];
static size_t total, spread;

static uint16_t value(int from, int to, size_t i)
{
    return (uint16_t)(1 + from * 1000 + to * 100 + i % 97);
}

static int lay_out(void **state)
{
    (void)state;
    for (int r = N - 1; r >= 0; r--) {
        displs[r] = spread + GAP;
        spread = displs[r] + counts[r];
        total += counts[r];
    }
    return 0;
}

/* Memory of a rank: all `elems` elements are UNTOUCHED bytes. */
static uint16_t *elements(struct world *w, int r, size_t elems)
{
    return world_alloc(w, r, elems * sizeof(uint16_t), UNTOUCHED);
}

static void fill_block(struct world *w, int r, uint16_t *device, size_t at, int from, int to,
                       size_t n)
{
    uint16_t *host = malloc(n * sizeof *host + 1);

    for (size_t i = 0; i < n; i++)
        host[i] = value(from, to, i);
    world_write(w, r, device + at, host, n * sizeof *host);
    free(host);
}

static void assert_block(const uint16_t *host, size_t at, int from, int to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(host[at + i], value(from, to, i));
}

/* Checks all blocks that a rank has gathered, and the gaps between them. */
static void assert_gathered(struct world *w, int r, const uint16_t *device, bool with_gaps)
{
    uint16_t *host = malloc(spread * sizeof *host);
    size_t packed = 0;

    world_read(w, r, host, device, (with_gaps ? spread : total) * sizeof *host);
    for (int from = 0; from < N; from++) {
        assert_block(host, with_gaps ? displs[from] : packed, from, 0, counts[from]);
        packed += counts[from];
        for (int i = 1; with_gaps && i <= GAP; i++)
            assert_int_equal(host[displs[from] - (size_t)i], UNTOUCHED << 8 | UNTOUCHED);
    }
    free(host);
}

static void allgatherv_stores_each_block_at_its_place(void **state)
{
    uint16_t *src[N], *dst[N], *packed[N];
    struct world w;

    (void)state;
    world_open(&w, N, NULL);
    for (int r = 0; r < N; r++) {
        src[r] = elements(&w, r, counts[r] + 1);
        dst[r] = elements(&w, r, spread);
        packed[r] = elements(&w, r, total);
        fill_block(&w, r, src[r], 0, r, 0, counts[r]);
        fill_block(&w, r, dst[r], displs[r], r, 0, counts[r]);
    }
    for (int r = 0; r < N; r++) {
        assert_ok(tutti_gpu_allgatherv(dst[r] + displs[r], dst[r], counts, displs, TUTTI_U16,
                                       w.gpu[r], w.stream[r]));
        assert_ok(tutti_gpu_allgatherv(src[r], packed[r], counts, NULL, TUTTI_U16, w.gpu[r],
                                       w.stream[r]));
    }
    for (int r = 0; r < N; r++) {
        assert_gathered(&w, r, dst[r], true);
        assert_gathered(&w, r, packed[r], false);
        world_free(&w, r, src[r]);
        world_free(&w, r, dst[r]);
        world_free(&w, r, packed[r]);
    }
    world_close(&w);
}

static void gatherv_and_scatterv_are_inverse(void **state)
{
    uint16_t *src[N], *back[N], *gathered;
    struct world w;

    (void)state;
    world_open(&w, N, NULL);
    for (int root = 0; root < N; root++) {
        gathered = elements(&w, root, spread);
        for (int r = 0; r < N; r++) {
            src[r] = elements(&w, r, counts[r] + 1);
            back[r] = elements(&w, r, counts[r] + 1);
            fill_block(&w, r, src[r], 0, r, 0, counts[r]);
            assert_ok(tutti_gpu_gatherv(src[r], r == root ? gathered : NULL, counts, displs,
                                        TUTTI_U16, root, w.gpu[r], w.stream[r]));
            assert_ok(tutti_gpu_scatterv(r == root ? gathered : NULL, back[r], counts, displs,
                                         TUTTI_U16, root, w.gpu[r], w.stream[r]));
        }
        assert_gathered(&w, root, gathered, true);
        for (int r = 0; r < N; r++) {
            uint16_t *host = malloc((counts[r] + 1) * sizeof *host);

            world_read(&w, r, host, back[r], (counts[r] + 1) * sizeof *host);
            assert_block(host, 0, r, 0, counts[r]);
            assert_int_equal(host[counts[r]], UNTOUCHED << 8 | UNTOUCHED);
            free(host);
        }
        for (int r = 0; r < N; r++) {
            world_free(&w, r, src[r]);
            world_free(&w, r, back[r]);
        }
        world_free(&w, root, gathered);
    }
    world_close(&w);
}

/* The root's own block is already in place, and nothing is sent for it. */
static void rooted_calls_work_in_place(void **state)
{
    enum { ROOT = 3 };
    uint16_t *buf[N];
    struct world w;

    (void)state;
    world_open(&w, N, NULL);
    for (int r = 0; r < N; r++) {
        buf[r] = elements(&w, r, spread);
        fill_block(&w, r, buf[r], displs[r], r, 0, counts[r]);
    }
    for (int r = 0; r < N; r++) {
        uint16_t *own = buf[r] + displs[r];

        assert_ok(
            tutti_gpu_gatherv(own, buf[r], counts, displs, TUTTI_U16, ROOT, w.gpu[r], w.stream[r]));
    }
    for (int r = 0; r < N; r++) {
        assert_ok(tutti_gpu_flush(w.gpu[r]));
        if (r != ROOT)
            fill_block(&w, r, buf[r], displs[r], N, N, counts[r]);
    }
    for (int r = 0; r < N; r++)
        assert_ok(tutti_gpu_scatterv(buf[r], buf[r] + displs[r], counts, displs, TUTTI_U16, ROOT,
                                     w.gpu[r], w.stream[r]));
    assert_gathered(&w, ROOT, buf[ROOT], true);
    for (int r = 0; r < N; r++) {
        uint16_t *host = malloc(counts[r] * sizeof *host + 1);

        world_read(&w, r, host, buf[r] + displs[r], counts[r] * sizeof *host);
        assert_block(host, 0, r, 0, counts[r]);
        free(host);
    }
    for (int r = 0; r < N; r++)
        world_free(&w, r, buf[r]);
    world_close(&w);
}

/* Returns the sum over all ranks of an element of the block of `to`. */
static uint16_t sum_of(int to, size_t i)
{
    uint16_t sum = 0;

    for (int from = 0; from < N; from++)
        sum = (uint16_t)(sum + value(from, to, i));
    return sum;
}

/* Out of place, and then in place. */
static void reduce_scatterv_sums_each_block(void **state)
{
    uint16_t *src[N], *dst[N], *host;
    struct world w;

    (void)state;
    world_open(&w, N, NULL);
    for (int r = 0; r < N; r++) {
        size_t at = 0;

        src[r] = elements(&w, r, total);
        dst[r] = elements(&w, r, counts[r] + 1);
        for (int to = 0; to < N; to++) {
            fill_block(&w, r, src[r], at, r, to, counts[to]);
            at += counts[to];
        }
    }
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < N; r++) {
            size_t own = 0;

            for (int before = 0; before < r; before++)
                own += counts[before];
            assert_ok(tutti_gpu_reduce_scatterv(src[r], pass ? src[r] + own : dst[r], counts,
                                                TUTTI_U16, TUTTI_SUM, w.gpu[r], w.stream[r]));
        }
    for (int r = 0; r < N; r++) {
        size_t own = 0;

        for (int before = 0; before < r; before++)
            own += counts[before];
        for (int pass = 0; pass < 2; pass++) {
            host = malloc((counts[r] + 1) * sizeof *host);
            world_read(&w, r, host, pass ? src[r] + own : dst[r], counts[r] * sizeof *host);
            for (size_t i = 0; i < counts[r]; i++)
                assert_int_equal(host[i], sum_of(r, i));
            free(host);
        }
        world_free(&w, r, src[r]);
        world_free(&w, r, dst[r]);
    }
    world_close(&w);
}

/* Rank r sends r + k elements of value 10 r + k to rank k; each call is on its own. Rank 0 sends
 * nothing to itself. */
static void alltoallv_exchanges_blocks(void **state)
{
    enum { RANKS = 3, BLOCKS = 3 * 2 * RANKS };
    unsigned char host[BLOCKS], got[BLOCKS];
    size_t send[RANKS][RANKS], recv[RANKS][RANKS];
    char *src[RANKS], *dst[RANKS];
    struct world w;

    (void)state;
    world_open(&w, RANKS, NULL);
    for (int r = 0; r < RANKS; r++) {
        size_t at = 0;

        for (int k = 0; k < RANKS; k++) {
            send[r][k] = recv[r][k] = (size_t)(r + k);
            memset(host + at, 10 * r + k, send[r][k]);
            at += send[r][k];
        }
        src[r] = world_alloc(&w, r, sizeof host, 0);
        dst[r] = world_alloc(&w, r, sizeof got, 0);
        world_write(&w, r, src[r], host, at);
    }
    for (int r = 0; r < RANKS; r++)
        assert_ok(tutti_gpu_alltoallv(src[r], send[r], NULL, dst[r], recv[r], NULL, TUTTI_U8,
                                      w.gpu[r], w.stream[r]));
    for (int r = 0; r < RANKS; r++) {
        size_t at = 0;

        world_read(&w, r, got, dst[r], sizeof got);
        for (int k = 0; k < RANKS; k++)
            for (size_t i = 0; i < recv[r][k]; i++)
                assert_int_equal(got[at++], 10 * k + r);
        world_free(&w, r, src[r]);
        world_free(&w, r, dst[r]);
    }
    world_close(&w);
}

static void assert_refused(tutti_status st, const char *says)
{
    assert_status(st, TUTTI_ERR_INVALID);
    if (!strstr(tutti_last_error(), says))
        fail_msg("\"%s\" does not contain \"%s\"", tutti_last_error(), says);
}

/* Nothing is enqueued, and the tutti_gpu remains usable. */
static void wrong_arguments_are_named(void **state)
{
    static const size_t one[2] = { 1, 1 }, far[2] = { 0, SIZE_MAX };
    struct world w;
    char *mem;

    (void)state;
    world_open(&w, 1, NULL);
    mem = world_alloc(&w, 0, 64, 0);
    assert_refused(tutti_gpu_allgatherv(mem, mem, NULL, NULL, TUTTI_U8, w.gpu[0], w.stream[0]),
                   "tutti_gpu_allgatherv: counts is NULL");
    assert_refused(tutti_gpu_gatherv(mem, mem, one, NULL, TUTTI_U8, 1, w.gpu[0], w.stream[0]),
                   "tutti_gpu_gatherv: root is 1: must be 0 to 0");
    assert_refused(tutti_gpu_scatterv(mem, mem, one, NULL, TUTTI_U8, -1, w.gpu[0], w.stream[0]),
                   "tutti_gpu_scatterv: root is -1: must be 0 to 0");
    assert_refused(tutti_gpu_scatterv(mem, mem, one, &far[1], TUTTI_U8, 0, w.gpu[0], w.stream[0]),
                   "tutti_gpu_scatterv: counts[0] = 1 at displacement 18446744073709551615");
    assert_refused(
        tutti_gpu_reduce_scatterv(mem, mem, &far[1], TUTTI_U16, TUTTI_SUM, w.gpu[0], w.stream[0]),
        "tutti_gpu_reduce_scatterv: counts[0] = 18446744073709551615");
    assert_refused(
        tutti_gpu_allgatherv(mem, mem, one, NULL, (tutti_dtype)99, w.gpu[0], w.stream[0]),
        "tutti_gpu_allgatherv: type is 99");
    assert_refused(tutti_gpu_allgatherv(mem, mem, one, NULL, TUTTI_U8, NULL, w.stream[0]),
                   "tutti_gpu_allgatherv: gpu is NULL");
    assert_ok(tutti_gpu_allgatherv(mem, mem + 8, one, NULL, TUTTI_U8, w.gpu[0], w.stream[0]));
    assert_ok(tutti_gpu_flush(w.gpu[0]));
    world_free(&w, 0, mem);
    world_close(&w);
}

/* As wrong_arguments_are_named. Two ranks of one thread: rank 0 makes the calls. */
static void overlapping_buffers_are_refused(void **state)
{
    static const size_t two[] = { 2, 2 }, one_and_two[] = { 1, 2 }, back[] = { 4, 0 },
                        close[] = { 3, 2 };
    struct world w;
    tutti_gpu *gpu;
    char *mem;

    (void)state;
    world_open(&w, 2, NULL);
    gpu = w.gpu[0];
    mem = world_alloc(&w, 0, 64, 0);
    assert_refused(tutti_gpu_allgatherv(mem + 1, mem, two, NULL, TUTTI_U8, gpu, NULL),
                   "tutti_gpu_allgatherv: src and dst overlap, but the call is not in place");
    assert_refused(tutti_gpu_allgatherv(mem + 3, mem, two, back, TUTTI_U8, gpu, NULL),
                   "src and dst overlap");
    assert_refused(tutti_gpu_allgatherv(mem + 32, mem, two, close, TUTTI_U8, gpu, NULL),
                   "tutti_gpu_allgatherv: blocks of dst overlap: those of ranks 1 and 0, at "
                   "elements 2 and 3");
    assert_refused(tutti_gpu_gatherv(mem + 2, mem, two, NULL, TUTTI_U8, 0, gpu, NULL),
                   "tutti_gpu_gatherv: src and dst overlap");
    assert_refused(tutti_gpu_gatherv(mem + 32, mem, two, close, TUTTI_U8, 0, gpu, NULL),
                   "tutti_gpu_gatherv: blocks of dst overlap");
    assert_refused(tutti_gpu_scatterv(mem, mem + 2, two, NULL, TUTTI_U8, 0, gpu, NULL),
                   "tutti_gpu_scatterv: src and dst overlap");
    assert_refused(tutti_gpu_reduce_scatterv(mem, mem + 1, two, TUTTI_U8, TUTTI_SUM, gpu, NULL),
                   "tutti_gpu_reduce_scatterv: src and dst overlap");
    assert_refused(
        tutti_gpu_alltoallv(mem, two, NULL, mem + 3, one_and_two, NULL, TUTTI_U8, gpu, NULL),
        "tutti_gpu_alltoallv: src and dst overlap");
    assert_refused(tutti_gpu_alltoallv(mem, two, NULL, mem + 32, two, close, TUTTI_U8, gpu, NULL),
                   "tutti_gpu_alltoallv: blocks of dst overlap");
    world_free(&w, 0, mem);
    world_close(&w);
}

/* A missing buffer is named, even if the displacement is not 0. */
static void missing_buffers_are_named(void **state)
{
    static const size_t two[] = { 2, 2 }, far[] = { 8, 12 };
    struct world w;
    tutti_gpu *gpu;
    char *mem;

    (void)state;
    world_open(&w, 2, NULL);
    gpu = w.gpu[0];
    mem = world_alloc(&w, 0, 64, 0);
    assert_refused(tutti_gpu_allgatherv(mem, NULL, two, far, TUTTI_U8, gpu, NULL),
                   "tutti_gpu_allgatherv: dst is NULL, but counts[0] is 2");
    assert_refused(tutti_gpu_allgatherv(NULL, mem, two, far, TUTTI_U8, gpu, NULL),
                   "tutti_gpu_allgatherv: src is NULL, but counts[0] is 2");
    assert_refused(tutti_gpu_gatherv(NULL, NULL, two, far, TUTTI_U8, 1, gpu, NULL),
                   "tutti_gpu_gatherv: src is NULL");
    assert_refused(tutti_gpu_scatterv(NULL, mem, two, far, TUTTI_U8, 0, gpu, NULL),
                   "tutti_gpu_scatterv: src is NULL");
    assert_refused(tutti_gpu_reduce_scatterv(mem, NULL, two, TUTTI_U8, TUTTI_SUM, gpu, NULL),
                   "tutti_gpu_reduce_scatterv: dst is NULL");
    assert_refused(tutti_gpu_alltoallv(NULL, two, NULL, mem, two, NULL, TUTTI_U8, gpu, NULL),
                   "tutti_gpu_alltoallv: src is NULL, but send_counts[0] is 2");
    world_free(&w, 0, mem);
    world_close(&w);
}

/* A rank without blocks also gets the failure of its tutti_gpu. */
static void ranks_without_blocks_get_the_failure(void **state)
{
    static const size_t none[1] = { 0 };
    struct world w;
    char *mem;

    (void)state;
    world_open(&w, 1, NULL);
    mem = world_alloc(&w, 0, 64, 0);
    assert_ok(tutti_gpu_allgatherv(NULL, NULL, none, NULL, TUTTI_U8, w.gpu[0], w.stream[0]));
    assert_ok(tutti_gpu_abort(w.gpu[0]));
    (void)tutti_gpu_allreduce(mem, mem, 1, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]);
    assert_status(tutti_gpu_flush(w.gpu[0]), TUTTI_ERR_ABORTED);
    assert_status(tutti_gpu_allgatherv(NULL, NULL, none, NULL, TUTTI_U8, w.gpu[0], w.stream[0]),
                  TUTTI_ERR_ABORTED);
    world_free(&w, 0, mem);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allgatherv_stores_each_block_at_its_place),
        cmocka_unit_test(gatherv_and_scatterv_are_inverse),
        cmocka_unit_test(rooted_calls_work_in_place),
        cmocka_unit_test(reduce_scatterv_sums_each_block),
        cmocka_unit_test(alltoallv_exchanges_blocks),
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(overlapping_buffers_are_refused),
        cmocka_unit_test(missing_buffers_are_named),
        cmocka_unit_test(ranks_without_blocks_get_the_failure),
    };

    world_devices();
    return cmocka_run_group_tests(tests, lay_out, NULL);
}
