/* Bad arguments are refused before anything starts; failures release streams and are reported. */
#include "graphs.h"

#include <stdlib.h>
#include <string.h>

#define assert_says(part) assert_non_null(strstr(tutti_last_error(), part))

/* An allreduce of mem[64] on rank 0, in place. */
static tutti_gpu_op allreduce_in_place(struct world *w, char *mem, tutti_gpu_request **request)
{
    return (tutti_gpu_op){ .size = sizeof(tutti_gpu_op),
                           .kind = TUTTI_GPU_ALLREDUCE,
                           .gpu = w->gpu[0],
                           .stream = w->stream[0],
                           .src = mem,
                           .dst = mem,
                           .count = 64,
                           .type = TUTTI_U8,
                           .request = request };
}

static void wrong_memory_is_refused_by_name(void **state)
{
    struct world w;
    char host[64], *mem, *other;

    (void)state;
    world_open(&w, 2, NULL);
    mem = world_alloc(&w, 0, 64, 1);
    other = world_alloc(&w, 1, 64, 1);
    assert_status(tutti_gpu_allreduce(host, mem, 64, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]),
                  TUTTI_ERR_INVALID);
    assert_says("src");
    assert_says("is not device memory");
    assert_status(tutti_gpu_allreduce(mem, host, 64, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]),
                  TUTTI_ERR_INVALID);
    assert_says("dst");
    assert_status(tutti_gpu_allreduce(NULL, mem, 64, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]),
                  TUTTI_ERR_INVALID);
    assert_says("src is NULL");
    assert_status(tutti_gpu_allreduce(mem, mem + 1, 32, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]),
                  TUTTI_ERR_INVALID);
    assert_says("overlap");
    if (world_devices() > 1) {
        assert_status(
            tutti_gpu_allreduce(other, other, 64, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]),
            TUTTI_ERR_INVALID);
        assert_says("memory of device 1");
        assert_status(tutti_gpu_allreduce(mem, mem, 64, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[1]),
                      TUTTI_ERR_INVALID);
        assert_says("another device");
    }
    world_free(&w, 0, mem);
    assert_status(tutti_gpu_allreduce(mem, mem, 64, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]),
                  TUTTI_ERR_INVALID);
    assert_says("was freed");
    world_free(&w, 1, other);
    assert_ok(tutti_gpu_status(w.gpu[0]));
    world_close(&w);
}

/* The buffer spans two adjacent allocations. */
static void a_buffer_of_two_allocations_is_refused(void **state)
{
    enum { N = 12, BYTES = 2 << 20 };
    char *mem[N], *first = NULL;
    struct world w;

    (void)state;
    world_open(&w, 1, NULL);
    for (int i = 0; i < N; i++)
        mem[i] = world_alloc(&w, 0, BYTES, 1);
    for (int i = 0; i < N * N && !first; i++)
        if (mem[i / N] + BYTES == mem[i % N])
            first = mem[i / N];
    assert_non_null(first);
    assert_status(tutti_gpu_broadcast(first, first, BYTES + 1, TUTTI_U8, 0, w.gpu[0], w.stream[0]),
                  TUTTI_ERR_INVALID);
    assert_says("beyond the end of its allocation");
    assert_ok(tutti_gpu_status(w.gpu[0]));
    assert_ok(tutti_gpu_broadcast(first, first, BYTES, TUTTI_U8, 0, w.gpu[0], w.stream[0]));
    world_sync(&w, 0);
    assert_ok(tutti_gpu_status(w.gpu[0]));
    for (int i = 0; i < N; i++)
        world_free(&w, 0, mem[i]);
    world_close(&w);
}

#define PIECE ((tt_cuda_address)1 << 20)
static tt_cuda_address hole;            /* a piece that is not mapped */

/* Returns the attributes of memory that was mapped in pieces, in the order of the query: kind,
 * device, start, size, IPC. */
static tt_cuda_result describe_pieces(unsigned n, const int *attributes, void **out,
                                      tt_cuda_address p)
{
    (void)attributes;
    assert_int_equal(n, 5);
    *(unsigned *)out[0] = p - hole < PIECE ? 0 : TT_CUDA_MEMORY_DEVICE;
    *(int *)out[1] = 0;
    *(tt_cuda_address *)out[2] = p / PIECE * PIECE;
    *(size_t *)out[3] = PIECE;
    *(unsigned *)out[4] = 0;
    return 0;
}

static void a_hole_between_mapped_pieces_is_refused(void **state)
{
    tt_cuda_result (*was)(unsigned n, const int *attributes, void **out, tt_cuda_address p);
    enum { BYTES = 8 << 20 };
    struct tt_cuda *cu;
    struct world w;
    char *mem;

    (void)state;
    world_open(&w, 1, NULL);
    cu = (struct tt_cuda *)w.cu;
    mem = world_alloc(&w, 0, BYTES, 1);
    was = cu->pointer_attributes;
    cu->pointer_attributes = describe_pieces;
    assert_ok(tutti_gpu_broadcast(mem, mem, BYTES, TUTTI_U8, 0, w.gpu[0], w.stream[0]));
    world_sync(&w, 0);
    hole = (tt_cuda_address_of(mem) + BYTES / 2) / PIECE * PIECE;
    assert_status(tutti_gpu_broadcast(mem, mem, BYTES, TUTTI_U8, 0, w.gpu[0], w.stream[0]),
                  TUTTI_ERR_INVALID);
    assert_says("was freed");
    cu->pointer_attributes = was;
    assert_ok(tutti_gpu_status(w.gpu[0]));
    world_free(&w, 0, mem);
    world_close(&w);
}

static void invalid_values_are_refused(void **state)
{
    struct world w;
    char *mem;

    (void)state;
    world_open(&w, 1, NULL);
    mem = world_alloc(&w, 0, 64, 1);
    assert_status(
        tutti_gpu_allreduce(mem, mem, 64, (tutti_dtype)99, TUTTI_SUM, w.gpu[0], w.stream[0]),
        TUTTI_ERR_INVALID);
    assert_status(tutti_gpu_allreduce(mem, mem, 16, TUTTI_F32, TUTTI_BAND, w.gpu[0], w.stream[0]),
                  TUTTI_ERR_INVALID);
    assert_status(tutti_gpu_broadcast(mem, mem, 16, TUTTI_F32, 1, w.gpu[0], w.stream[0]),
                  TUTTI_ERR_INVALID);
    assert_says("root is 1");
    assert_status(tutti_gpu_send(mem, 16, TUTTI_F32, -1, w.gpu[0], w.stream[0]), TUTTI_ERR_INVALID);
    assert_status(
        tutti_gpu_allreduce(mem, mem, SIZE_MAX, TUTTI_F32, TUTTI_SUM, w.gpu[0], w.stream[0]),
        TUTTI_ERR_INVALID);
    assert_status(tutti_gpu_allreduce(mem, mem, 16, TUTTI_F32, TUTTI_SUM, NULL, w.stream[0]),
                  TUTTI_ERR_INVALID);
    world_free(&w, 0, mem);
    world_close(&w);
}

/* Calls collectives with one block per rank, and puts, with sizes that overflow: the last byte
 * would be in another part of the same allocation. */
static void refuse_blocks(tutti_gpu *gpu, char *mem, size_t n, tutti_dtype type, void *stream)
{
    assert_status(tutti_gpu_reduce(mem, mem, n, type, TUTTI_SUM, 0, gpu, stream),
                  TUTTI_ERR_INVALID);
    assert_says("address space");
    assert_status(tutti_gpu_reduce_scatter(mem, mem, n, type, TUTTI_SUM, gpu, stream),
                  TUTTI_ERR_INVALID);
    assert_says("address space");
    assert_status(tutti_gpu_allgather(mem, mem, n, type, gpu, stream), TUTTI_ERR_INVALID);
    assert_says("address space");
    assert_status(tutti_gpu_gather(mem, mem, n, type, 0, gpu, stream), TUTTI_ERR_INVALID);
    assert_says("address space");
    assert_status(tutti_gpu_scatter(mem, mem, n, type, 0, gpu, stream), TUTTI_ERR_INVALID);
    assert_says("address space");
    assert_status(tutti_gpu_alltoall(mem, mem, n, type, gpu, stream), TUTTI_ERR_INVALID);
    assert_says("address space");
}

static void wrapping_sizes_are_refused(void **state)
{
    const size_t wraps[] = { SIZE_MAX, SIZE_MAX - 15, SIZE_MAX / 2 + 1, (size_t)1 << 60 };
    const size_t one[1] = { 1 }, zero[1] = { 0 };
    struct world w;
    void *out = NULL;
    char *mem;

    (void)state;
    world_open(&w, 1, NULL);
    mem = (char *)world_alloc(&w, 0, 256, 1) + 128;
    for (size_t i = 0; i < sizeof wraps / sizeof *wraps; i++) {
        const size_t n[1] = { wraps[i] };
        tutti_gpu *gpu = w.gpu[0];
        tutti_gpu_op op = { .size = sizeof op, .kind = TUTTI_GPU_BARRIER, .gpu = gpu };

        for (int type = TUTTI_U8; type <= TUTTI_F64; type += TUTTI_F64 - TUTTI_U8) {
            assert_status(
                tutti_gpu_allreduce(mem, mem, n[0], (tutti_dtype)type, TUTTI_SUM, gpu, w.stream[0]),
                TUTTI_ERR_INVALID);
            assert_says("address space");
            assert_status(
                tutti_gpu_broadcast(mem, mem, n[0], (tutti_dtype)type, 0, gpu, w.stream[0]),
                TUTTI_ERR_INVALID);
            assert_status(tutti_gpu_send(mem, n[0], (tutti_dtype)type, 0, gpu, w.stream[0]),
                          TUTTI_ERR_INVALID);
            assert_says("address space");
            assert_status(tutti_gpu_recv(mem, n[0], (tutti_dtype)type, 0, gpu, w.stream[0]),
                          TUTTI_ERR_INVALID);
            assert_status(tutti_gpu_alltoallv(mem, n, zero, mem, n, zero, (tutti_dtype)type, gpu,
                                              w.stream[0]),
                          TUTTI_ERR_INVALID);
            assert_says("send_counts[0]");
            assert_status(tutti_gpu_alltoallv(mem, one, zero, mem, one, n, (tutti_dtype)type, gpu,
                                              w.stream[0]),
                          TUTTI_ERR_INVALID);
            assert_says("recv_counts[0] = 1 at displacement");
            refuse_blocks(gpu, mem, n[0], (tutti_dtype)type, w.stream[0]);
        }
        assert_status(tutti_gpu_group(&op, wraps[i]), TUTTI_ERR_INVALID);
        assert_true(tutti_gpu_mem_alloc(wraps[i], &out) != TUTTI_OK);
        assert_null(out);
    }
    assert_ok(tutti_gpu_status(w.gpu[0]));
    world_free(&w, 0, mem - 128);
    world_close(&w);
}

/* A group with one bad operation starts none of them. */
static void a_group_is_checked_before_it_starts(void **state)
{
    tutti_gpu_op ops[2];
    struct world w;
    char *mem[2];

    (void)state;
    world_open(&w, 2, NULL);
    for (int r = 0; r < 2; r++) {
        mem[r] = world_alloc(&w, r, 64, 1);
        ops[r] = (tutti_gpu_op){ .size = sizeof *ops,
                                 .kind = TUTTI_GPU_ALLREDUCE,
                                 .gpu = w.gpu[r],
                                 .stream = w.stream[r],
                                 .src = mem[r],
                                 .dst = mem[r],
                                 .count = 64,
                                 .type = TUTTI_U8 };
    }
    ops[1].type = (tutti_dtype)-1;
    assert_status(tutti_gpu_group(ops, 2), TUTTI_ERR_INVALID);
    ops[1].type = TUTTI_U8;
    ops[1].size = 3;
    assert_status(tutti_gpu_group(ops, 2), TUTTI_ERR_INVALID);
    ops[1].size = sizeof *ops;
    assert_ok(tutti_gpu_group(ops, 2));
    for (int r = 0; r < 2; r++) {
        char got[64];

        world_read(&w, r, got, mem[r], sizeof got);
        assert_int_equal(got[0], 2);
        world_free(&w, r, mem[r]);
    }
    world_close(&w);
}

/* Each field of the option structs with a limited range is checked: the message names the field and
 * its value. */
static void options_out_of_range_are_named(void **state)
{
    static const struct {
        tutti_gpu_conf conf;
        const char *says;
    } confs[] = {
        { { .has_device = 2 }, "conf.has_device is 2" },
        { { .has_device = -1 }, "conf.has_device is -1" },
        { { .has_device = 1, .device = -1 }, "conf.device is -1" },
        { { .chunk_bytes = 4095 }, "conf.chunk_bytes is 4095" },
        { { .chunk_bytes = (1u << 30) + 1 }, "conf.chunk_bytes is 1073741825" },
        { { .chunk_bytes = UINT64_MAX }, "conf.chunk_bytes is 18446744073709551615" },
        { { .chunks = 65 }, "conf.chunks is 65" },
        { { .chunks = -1 }, "conf.chunks is -1" },
    };
    static const struct {
        tutti_gpu_kind kind;
        tutti_dtype type;
        tutti_redop op;
        int root;
        uint64_t divisor;
        const char *algo, *says;
    } ops[] = {
        { .kind = TUTTI_GPU_KIND_COUNT, .says = "op.kind is 16" },
        { .kind = (tutti_gpu_kind)-1, .says = "op.kind is -1" },
        { .type = TUTTI_DTYPE_COUNT, .says = "type is 14" },
        { .type = (tutti_dtype)-1, .says = "type is -1" },
        { .op = TUTTI_REDOP_COUNT, .says = "op is 9" },
        { .op = (tutti_redop)-1, .says = "op is -1" },
        { .kind = TUTTI_GPU_BROADCAST, .root = 1, .says = "root is 1" },
        { .kind = TUTTI_GPU_BROADCAST, .root = -1, .says = "root is -1" },
        { .kind = TUTTI_GPU_SEND, .root = 1, .says = "peer is 1" },
        { .divisor = 2, .says = "divisor is 2" },
        { .op = TUTTI_AVG, .divisor = UINT64_MAX, .says = "divisor is 18446744073709551615" },
    };
    tutti_gpu *gpu = NULL;
    struct world w;
    char *mem;

    (void)state;
    world_open(&w, 1, NULL);
    mem = world_alloc(&w, 0, 64, 1);
    for (size_t i = 0; i < sizeof confs / sizeof *confs; i++) {
        tutti_gpu_conf conf = confs[i].conf;

        conf.size = sizeof conf;
        assert_status(tutti_gpu_create(&gpu, w.host[0], &conf), TUTTI_ERR_INVALID);
        assert_says(confs[i].says);
        assert_null(gpu);
    }
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        tutti_gpu_op op = allreduce_in_place(&w, mem, NULL);

        op.kind = ops[i].kind;
        op.type = ops[i].type ? ops[i].type : TUTTI_U8;
        op.op = ops[i].op;
        op.root = ops[i].root;
        op.divisor = ops[i].divisor;
        op.algo = ops[i].algo;
        assert_status(tutti_gpu_group(&op, 1), TUTTI_ERR_INVALID);
        assert_says(ops[i].says);
    }
    assert_ok(tutti_gpu_status(w.gpu[0]));
    world_free(&w, 0, mem);
    world_close(&w);
}

static void a_device_that_does_not_exist_is_refused(void **state)
{
    tutti_gpu_conf conf = { .size = sizeof conf, .has_device = 1, .device = 4711 };
    tutti_gpu *gpu = NULL;
    struct world w;

    (void)state;
    world_open(&w, 1, NULL);
    assert_status(tutti_gpu_create(&gpu, w.host[0], &conf), TUTTI_ERR_INVALID);
    assert_says("4711");
    conf.device = 0;
    conf.chunk_bytes = 1;
    assert_status(tutti_gpu_create(&gpu, w.host[0], &conf), TUTTI_ERR_INVALID);
    assert_says("chunk_bytes");
    assert_null(gpu);
    world_close(&w);
}

/* Rank 1 never calls: rank 0 waits in the operation until rank 1 aborts. */
static void an_abort_releases_the_streams(void **state)
{
    tutti_gpu_request *request;
    struct world w;
    tutti_gpu_op op;
    char *mem;

    (void)state;
    world_open(&w, 2, NULL);
    mem = world_alloc(&w, 0, 64, 1);
    op = allreduce_in_place(&w, mem, &request);
    assert_ok(tutti_gpu_group(&op, 1));
    assert_ok(tutti_gpu_abort(w.gpu[1]));
    assert_status(tutti_gpu_wait(request), TUTTI_ERR_ABORTED);
    world_sync(&w, 0);
    assert_status(tutti_gpu_status(w.gpu[0]), TUTTI_ERR_ABORTED);
    op.request = NULL;
    assert_status(tutti_gpu_group(&op, 1), TUTTI_ERR_ABORTED);
    world_free(&w, 0, mem);
    world_close(&w);
}

/* A gate holds the stream. The abort does not wait for it, and the operation does not block the
 * stream later. */
static void an_abort_ends_an_operation_that_has_not_started(void **state)
{
    tutti_gpu_request *request;
    struct world w;
    struct gate gate;
    tutti_gpu_op op;
    char *mem;

    (void)state;
    world_open(&w, 1, NULL);
    gate_open(&gate, &w);
    mem = world_alloc(&w, 0, 64, 1);
    gate_hold(&gate, 0);
    op = allreduce_in_place(&w, mem, &request);
    assert_ok(tutti_gpu_group(&op, 1));
    assert_ok(tutti_gpu_abort(w.gpu[0]));
    assert_status(tutti_gpu_wait(request), TUTTI_ERR_ABORTED);
    gate_lift(&gate);
    world_sync(&w, 0);
    world_free(&w, 0, mem);
    gate_close(&gate);
    world_close(&w);
}

static void a_deadline_releases_the_stream(void **state)
{
    const tutti_gpu_conf conf = { .timeout_ms = 50 };
    struct world w;
    char *mem;

    (void)state;
    world_open(&w, 2, &conf);
    mem = world_alloc(&w, 0, 64, 1);
    assert_ok(tutti_gpu_allreduce(mem, mem, 64, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]));
    world_sync(&w, 0);
    assert_status(tutti_gpu_flush(w.gpu[0]), TUTTI_ERR_TIMEOUT);
    world_free(&w, 0, mem);
    world_close(&w);
}

static void a_lost_rank_releases_the_stream(void **state)
{
    struct world w;
    char *mem;

    (void)state;
    world_open(&w, 2, NULL);
    mem = world_alloc(&w, 0, 64, 1);
    assert_ok(tutti_gpu_recv(mem, 64, TUTTI_U8, 1, w.gpu[0], w.stream[0]));
    tutti_gpu_destroy(w.gpu[1]);
    tutti_comm_destroy(w.comm[1]);
    tutti_comm_destroy(w.host[1]);
    w.gpu[1] = NULL;
    w.comm[1] = w.host[1] = NULL;
    world_sync(&w, 0);
    assert_status(tutti_gpu_flush(w.gpu[0]), TUTTI_ERR_PEER_LOST);
    world_free(&w, 0, mem);
    world_close(&w);
}

/* The stream waits for a gate, so it does not reach the operation. */
static void a_device_error_ends_an_operation_that_has_not_started(void **state)
{
    tutti_gpu_request *request;
    tutti_gpu_op op;
    struct gate gate;
    struct world w;

    (void)state;
    world_open(&w, 2, NULL);
    gate_open(&gate, &w);
    op = allreduce_in_place(&w, world_alloc(&w, 0, 64, 1), &request);
    gate_hold(&gate, 0);
    assert_ok(tutti_gpu_group(&op, 1));
    if (device_break(&w, 0)) {
        assert_status(tutti_gpu_wait(request), TUTTI_ERR_SYSTEM);
        assert_says("gpu: device 0 failed before the stream reached the operation: CUDA error");
        assert_status(tutti_gpu_flush(w.gpu[0]), TUTTI_ERR_SYSTEM);
        tutti_gpu_destroy(w.gpu[0]);
        w.gpu[0] = NULL;
        device_reset(0);            /* also frees the device's memory */
    } else {
        tutti_gpu_abort(w.gpu[0]);
        gate_lift(&gate);
        tutti_gpu_wait(request);
    }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_memory_is_refused_by_name),
        cmocka_unit_test(a_buffer_of_two_allocations_is_refused),
        cmocka_unit_test(a_hole_between_mapped_pieces_is_refused),
        cmocka_unit_test(invalid_values_are_refused),
        cmocka_unit_test(wrapping_sizes_are_refused),
        cmocka_unit_test(options_out_of_range_are_named),
        cmocka_unit_test(a_group_is_checked_before_it_starts),
        cmocka_unit_test(a_device_that_does_not_exist_is_refused),
        cmocka_unit_test(an_abort_releases_the_streams),
        cmocka_unit_test(an_abort_ends_an_operation_that_has_not_started),
        cmocka_unit_test(a_deadline_releases_the_stream),
        cmocka_unit_test(a_lost_rank_releases_the_stream),
        cmocka_unit_test(a_device_error_ends_an_operation_that_has_not_started),
    };

    world_devices();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
