/* Quantized operations on device memory: the same bits as on host memory, chunk by chunk, and error
 * feedback, by which the next operation corrects errors. */
#include "world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define assert_says(part) assert_non_null(strstr(tutti_last_error(), part))

enum { RANKS = 3, CHUNK = 4096 };       /* CHUNK: bytes */

/* The same operation on all ranks: on the device, and chunk by chunk on the host. */
struct both {
    struct world w;
    tutti_gpu_op op;            /* of rank 0, without memory */
    size_t nsrc, ndst;          /* elements */
    float *src[RANKS], *dst[RANKS], *feedback[RANKS];       /* on the device */
    float *host_src[RANKS], *expected[RANKS], *host_feedback[RANKS];
};

/* Sums depend on the algorithm. Other results do not: they are quantized once. */
static const char *algo_of(tutti_gpu_kind kind)
{
    return kind == TUTTI_GPU_ALLREDUCE || kind == TUTTI_GPU_REDUCE_SCATTER ? "ring" : NULL;
}

static size_t blocks_of(tutti_gpu_kind kind, bool dst)
{
    return (kind == TUTTI_GPU_REDUCE_SCATTER && !dst) || (kind == TUTTI_GPU_ALLGATHER && dst)
               ? RANKS
               : 1;
}

static void both_open(struct both *b, tutti_gpu_kind kind, size_t count, tutti_quant quant)
{
    const tutti_gpu_conf conf = { .chunk_bytes = CHUNK };

    *b = (struct both){ .op = { .size = sizeof b->op, .kind = kind, .count = count,
                                .type = TUTTI_F32, .op = TUTTI_SUM, .quant = quant,
                                .algo = algo_of(kind) },
                        .nsrc = blocks_of(kind, false) * count,
                        .ndst = blocks_of(kind, true) * count };
    world_open(&b->w, RANKS, &conf);
    for (int r = 0; r < RANKS; r++) {
        b->host_src[r] = malloc((b->nsrc + 1) * sizeof(float));
        b->expected[r] = calloc(b->ndst + 1, sizeof(float));
        b->host_feedback[r] = calloc(b->nsrc + 1, sizeof(float));
        b->src[r] = world_alloc(&b->w, r, (b->nsrc + 1) * sizeof(float), 0);
        b->dst[r] = world_alloc(&b->w, r, (b->ndst + 1) * sizeof(float), 0);
        b->feedback[r] = world_alloc(&b->w, r, (b->nsrc + 1) * sizeof(float), 0);
        for (size_t i = 0; i < b->nsrc; i++)
            b->host_src[r][i] = sinf((float)i * 0.37f + (float)r) * (float)(1 + i % 50);
        world_write(&b->w, r, b->src[r], b->host_src[r], b->nsrc * sizeof(float));
    }
}

static void both_close(struct both *b)
{
    for (int r = 0; r < RANKS; r++) {
        world_free(&b->w, r, b->src[r]);
        world_free(&b->w, r, b->dst[r]);
        world_free(&b->w, r, b->feedback[r]);
        free(b->host_src[r]);
        free(b->expected[r]);
        free(b->host_feedback[r]);
    }
    world_close(&b->w);
}

static void run_on_device(struct both *b, bool feedback)
{
    tutti_gpu_op ops[RANKS];

    for (int r = 0; r < RANKS; r++) {
        ops[r] = b->op;
        ops[r].gpu = b->w.gpu[r];
        ops[r].stream = b->w.stream[r];
        ops[r].src = b->src[r];
        ops[r].dst = b->dst[r];
        ops[r].error_feedback = feedback ? b->feedback[r] : NULL;
    }
    assert_ok(tutti_gpu_group(ops, RANKS));
}

/* Runs elements [first, first + n) of each block, on all ranks. */
static void run_chunk_on_host(struct both *b, size_t first, size_t n, bool feedback)
{
    const size_t count = b->op.count, nsrc = b->nsrc / count, ndst = b->ndst / count;
    float *src[RANKS], *dst[RANKS], *error[RANKS];
    tutti_request *request[RANKS];

    for (int r = 0; r < RANKS; r++) {
        tutti_call call = {
            .size = sizeof call, .request = &request[r], .quant = b->op.quant, .algo = b->op.algo
        };
        tutti_comm *comm = b->w.host[r];

        src[r] = malloc((nsrc * n + 1) * sizeof(float));
        dst[r] = calloc(ndst * n + 1, sizeof(float));
        error[r] = malloc((nsrc * n + 1) * sizeof(float));
        for (size_t k = 0; k < nsrc; k++) {
            memcpy(src[r] + k * n, b->host_src[r] + k * count + first, n * sizeof(float));
            memcpy(error[r] + k * n, b->host_feedback[r] + k * count + first, n * sizeof(float));
        }
        call.error_feedback = feedback ? error[r] : NULL;
        switch (b->op.kind) {
        case TUTTI_GPU_ALLREDUCE:
            assert_ok(tutti_allreduce(src[r], dst[r], n, TUTTI_F32, TUTTI_SUM, comm, &call));
            break;
        case TUTTI_GPU_REDUCE_SCATTER:
            assert_ok(tutti_reduce_scatter(src[r], dst[r], n, TUTTI_F32, TUTTI_SUM, comm, &call));
            break;
        case TUTTI_GPU_ALLGATHER:
            assert_ok(tutti_allgather(src[r], dst[r], n, TUTTI_F32, comm, &call));
            break;
        default:
            assert_ok(tutti_broadcast(src[r], dst[r], n, TUTTI_F32, 0, comm, &call));
        }
    }
    for (int r = 0; r < RANKS; r++) {
        assert_ok(tutti_wait(request[r]));
        for (size_t k = 0; k < ndst; k++)
            memcpy(b->expected[r] + k * count + first, dst[r] + k * n, n * sizeof(float));
        for (size_t k = 0; k < nsrc && feedback; k++)
            memcpy(b->host_feedback[r] + k * count + first, error[r] + k * n, n * sizeof(float));
        free(src[r]);
        free(dst[r]);
        free(error[r]);
    }
}

static void run_on_host(struct both *b, bool feedback)
{
    const size_t rows = b->nsrc + b->ndst > 2 * b->op.count ? RANKS : 1;
    const size_t each = CHUNK / rows / sizeof(float);

    for (size_t first = 0; first < b->op.count; first += each)
        run_chunk_on_host(b, first, b->op.count - first < each ? b->op.count - first : each,
                          feedback);
}

static void compare(struct both *b, bool feedback)
{
    float *got = malloc((b->nsrc + b->ndst) * sizeof *got);

    for (int r = 0; r < RANKS; r++) {
        world_read(&b->w, r, got, b->dst[r], b->ndst * sizeof *got);
        assert_memory_equal(got, b->expected[r], b->ndst * sizeof *got);
        world_read(&b->w, r, got, b->feedback[r], b->nsrc * sizeof *got);
        for (size_t i = 0; i < b->nsrc; i++)
            assert_true(got[i] == (feedback ? b->host_feedback[r][i] : 0));
        assert_ok(tutti_gpu_status(b->w.gpu[r]));
    }
    free(got);
}

/* Sizes: one chunk, and several chunks with a shorter last one. */
static void results_have_the_bits_of_the_host(void **state)
{
    static const tutti_gpu_kind kinds[] = { TUTTI_GPU_ALLREDUCE, TUTTI_GPU_REDUCE_SCATTER,
                                            TUTTI_GPU_ALLGATHER, TUTTI_GPU_BROADCAST };
    static const size_t counts[] = { 1, 300, 5001 };

    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            const tutti_quant quant = 1 + (tutti_quant)(k + c) % (TUTTI_QUANT_COUNT - 1);
            struct both b;

            both_open(&b, kinds[k], counts[c], quant);
            for (int feedback = 0; feedback < 2; feedback++)
                for (int round = 0; round < 1 + 2 * feedback; round++) {
                    run_on_device(&b, feedback);
                    run_on_host(&b, feedback);
                    compare(&b, feedback);
                }
            both_close(&b);
        }
}

/* Transfers must be quantized: the results differ from the exact sums, but not by much. */
static void transfers_are_quantized(void **state)
{
    enum { COUNT = 5000 };
    float *got = malloc(COUNT * sizeof *got);
    struct both b;
    size_t ndiffer = 0;

    (void)state;
    both_open(&b, TUTTI_GPU_ALLREDUCE, COUNT, TUTTI_QUANT_MINMAX_U8);
    run_on_device(&b, false);
    world_read(&b.w, 0, got, b.dst[0], COUNT * sizeof *got);
    for (size_t i = 0; i < COUNT; i++) {
        const float exact = b.host_src[0][i] + b.host_src[1][i] + b.host_src[2][i];

        assert_true(fabsf(got[i] - exact) < 10);        /* sums of magnitudes: 150 */
        ndiffer += got[i] != exact;
    }
    assert_true(ndiffer > COUNT / 2);
    both_close(&b);
    free(got);
}

static void bad_arguments_are_refused(void **state)
{
    float host[8] = { 0 };
    tutti_gpu_op op;
    struct both b;

    (void)state;
    both_open(&b, TUTTI_GPU_ALLREDUCE, 8, TUTTI_QUANT_MINMAX_U8);
    op = b.op;
    op.gpu = b.w.gpu[0];
    op.stream = b.w.stream[0];
    op.src = b.src[0];
    op.dst = b.dst[0];
    op.op = TUTTI_MAX;
    assert_status(tutti_gpu_group(&op, 1), TUTTI_ERR_UNSUPPORTED);
    assert_says("tutti_gpu_allreduce: quantization supports only sum and avg, not max");
    op.op = TUTTI_SUM;
    op.type = TUTTI_I32;
    assert_status(tutti_gpu_group(&op, 1), TUTTI_ERR_UNSUPPORTED);
    assert_says("type i32 cannot be quantized");
    op.type = TUTTI_F32;
    op.kind = TUTTI_GPU_SEND;
    assert_status(tutti_gpu_group(&op, 1), TUTTI_ERR_UNSUPPORTED);
    assert_says("tutti_gpu_send: does not support quantization");
    op.kind = TUTTI_GPU_ALLREDUCE;
    op.error_feedback = host;
    assert_status(tutti_gpu_group(&op, 1), TUTTI_ERR_INVALID);
    assert_says("tutti_gpu_allreduce: error_feedback");
    op.error_feedback = b.dst[0];
    assert_status(tutti_gpu_group(&op, 1), TUTTI_ERR_INVALID);
    assert_says("error_feedback (32 bytes) overlaps src or dst");
    op.quant = TUTTI_QUANT_NONE;
    assert_status(tutti_gpu_group(&op, 1), TUTTI_ERR_INVALID);
    assert_says("error_feedback is set, but quant is TUTTI_QUANT_NONE");
    op.quant = TUTTI_QUANT_COUNT;
    assert_status(tutti_gpu_group(&op, 1), TUTTI_ERR_INVALID);
    assert_says("quant is 7: must be 0 to 6");
    assert_ok(tutti_gpu_status(b.w.gpu[0]));
    both_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_have_the_bits_of_the_host),
        cmocka_unit_test(transfers_are_quantized),
        cmocka_unit_test(bad_arguments_are_refused),
    };

    world_devices();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
