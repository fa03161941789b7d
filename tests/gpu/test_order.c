/* Stream order, groups, sends and receives, requests. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"

static tutti_gpu_op op_of(struct world *w, int r, tutti_gpu_kind kind, const void *src, void *dst,
                          size_t count)
{
    return (tutti_gpu_op){ .size = sizeof(tutti_gpu_op),
                           .kind = kind,
                           .gpu = w->gpu[r],
                           .stream = w->stream[r],
                           .src = src,
                           .dst = dst,
                           .count = count,
                           .type = TUTTI_U8,
                           .op = TUTTI_SUM };
}

static void assert_all(struct world *w, int r, const void *device, size_t bytes, int value)
{
    unsigned char *got = malloc(bytes);

    world_read(w, r, got, device, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(got[i], value);
    free(got);
}

/* A gate holds rank 0's stream: the calls return, but neither rank can complete. */
static void an_operation_starts_when_the_stream_gets_to_it(void **state)
{
    tutti_gpu_request *requests[2];
    tutti_gpu_op ops[2];
    struct gate gate;
    struct world w;
    void *buf[2];

    (void)state;
    world_open(&w, 2, NULL);
    gate_open(&gate, &w);
    for (int r = 0; r < 2; r++)
        buf[r] = world_alloc(&w, r, 1000, 1 + r);
    gate_hold(&gate, 0);
    for (int r = 0; r < 2; r++) {
        ops[r] = op_of(&w, r, TUTTI_GPU_ALLREDUCE, buf[r], buf[r], 1000);
        ops[r].request = &requests[r];
    }
    assert_ok(tutti_gpu_group(ops, 2));
    for (int i = 0; i < 1000; i++)
        for (int r = 0; r < 2; r++)
            assert_status(tutti_gpu_test(requests[r]), TUTTI_PENDING);
    gate_lift(&gate);
    for (int r = 0; r < 2; r++)
        assert_ok(tutti_gpu_wait(requests[r]));
    for (int r = 0; r < 2; r++) {
        assert_all(&w, r, buf[r], 1000, 3);
        world_free(&w, r, buf[r]);
    }
    gate_close(&gate);
    world_close(&w);
}

/* Later work of the stream uses the operation's result, without synchronization by the host. */
static void a_stream_continues_when_the_operation_is_complete(void **state)
{
    enum { ROUNDS = 50, BYTES = 5000 };
    struct world w;
    void *buf[3], *copy[3];

    (void)state;
    world_open(&w, 3, NULL);
    for (int r = 0; r < 3; r++) {
        buf[r] = world_alloc(&w, r, BYTES, 1);
        copy[r] = world_alloc(&w, r, BYTES, 0);
    }
    for (int i = 0; i < ROUNDS; i++)
        for (int r = 0; r < 3; r++) {
            assert_ok(tutti_gpu_allreduce(buf[r], buf[r], BYTES, TUTTI_U8, TUTTI_SUM, w.gpu[r],
                                          w.stream[r]));
            if (i == 2) {
                w.cu->context_push(w.context[r]);
                assert_int_equal(w.cu->copy(tt_cuda_address_of(copy[r]), tt_cuda_address_of(buf[r]),
                                            BYTES, w.stream[r]),
                                 0);
                w.cu->context_pop(&(tt_cuda_context){ 0 });
            }
        }
    for (int r = 0; r < 3; r++) {
        unsigned char power = 1;

        for (int i = 0; i < ROUNDS; i++)
            power = (unsigned char)(power * 3);
        assert_all(&w, r, buf[r], BYTES, power);
        assert_all(&w, r, copy[r], BYTES, 27);
        assert_ok(tutti_gpu_flush(w.gpu[r]));
        world_free(&w, r, buf[r]);
        world_free(&w, r, copy[r]);
    }
    world_close(&w);
}

/* A group of a ring of long messages, and two messages to the same peer that match in list
 * order. */
static void sends_and_receives_of_a_group_are_concurrent(void **state)
{
    enum { N = 4, BYTES = 3000000 };
    const tutti_gpu_conf conf = { .chunk_bytes = 1 << 20 };
    tutti_gpu_op ops[4 * N];
    char *src[N], *dst[N];
    struct world w;
    size_t n = 0;

    (void)state;
    world_open(&w, N, &conf);
    for (int r = 0; r < N; r++) {
        src[r] = world_alloc(&w, r, 2 * BYTES, 10 + r);
        dst[r] = world_alloc(&w, r, 2 * BYTES, 0);
        for (int k = 0; k < 2; k++) {
            ops[n] = op_of(&w, r, TUTTI_GPU_RECV, NULL, dst[r] + k * BYTES, BYTES - (size_t)k);
            ops[n++].root = (r + N - 1) % N;
            ops[n] = op_of(&w, r, TUTTI_GPU_SEND, src[r] + k * BYTES, NULL, BYTES - (size_t)k);
            ops[n++].root = (r + 1) % N;
        }
    }
    assert_ok(tutti_gpu_group(ops, n));
    for (int r = 0; r < N; r++) {
        assert_all(&w, r, dst[r], 2 * BYTES - 1, 10 + (r + N - 1) % N);
        world_free(&w, r, src[r]);
        world_free(&w, r, dst[r]);
    }
    world_close(&w);
}

static void a_rank_sends_to_itself(void **state)
{
    struct world w;
    tutti_gpu_op ops[2];
    void *src, *dst;

    (void)state;
    world_open(&w, 1, NULL);
    src = world_alloc(&w, 0, 100000, 7);
    dst = world_alloc(&w, 0, 100000, 0);
    ops[0] = op_of(&w, 0, TUTTI_GPU_SEND, src, NULL, 100000);
    ops[1] = op_of(&w, 0, TUTTI_GPU_RECV, NULL, dst, 100000);
    assert_ok(tutti_gpu_group(ops, 2));
    assert_all(&w, 0, dst, 100000, 7);
    world_free(&w, 0, src);
    world_free(&w, 0, dst);
    world_close(&w);
}

/* More operations are pending than there are start words: the caller waits for a free word, and no
 * operation is lost. */
static void many_pending_operations_are_bounded(void **state)
{
    enum { ROUNDS = 2500 };
    struct world w;
    void *buf;

    (void)state;
    world_open(&w, 1, NULL);
    buf = world_alloc(&w, 0, 8, 3);
    for (int i = 0; i < ROUNDS; i++)
        assert_ok(tutti_gpu_allreduce(buf, buf, 8, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]));
    assert_all(&w, 0, buf, 8, 3);
    world_free(&w, 0, buf);
    world_close(&w);
}

/* A gate holds the stream, so short operations use all slots, and further ones are staged. */
static void short_operations_are_right_with_and_without_a_slot(void **state)
{
    enum { ROUNDS = 40, BYTES = 3000 };
    unsigned char power = 1;
    struct gate gate;
    struct world w;
    void *buf[2];

    (void)state;
    world_open(&w, 2, NULL);
    gate_open(&gate, &w);
    for (int r = 0; r < 2; r++)
        buf[r] = world_alloc(&w, r, BYTES, 3);
    gate_hold(&gate, 0);
    for (int i = 0; i < ROUNDS; i++) {
        power = (unsigned char)(power * (i % 7 ? 1 : 2));
        for (int r = 0; r < 2; r++)
            assert_ok(tutti_gpu_allreduce(buf[r], buf[r], BYTES, TUTTI_U8,
                                          i % 7 ? TUTTI_MAX : TUTTI_SUM, w.gpu[r], w.stream[r]));
    }
    gate_lift(&gate);
    for (int r = 0; r < 2; r++) {
        assert_all(&w, r, buf[r], BYTES, (unsigned char)(3 * power));
        world_free(&w, r, buf[r]);
    }
    gate_close(&gate);
    world_close(&w);
}

/* A factor in device memory is read when the operation starts. */
static void a_factor_in_device_memory_is_read_in_stream_order(void **state)
{
    const float input = 3.0f, factor = 2.5f;
    struct gate gate;
    struct world w;
    tutti_gpu_op op;
    float *buf, *scale, *later, got;

    (void)state;
    world_open(&w, 1, NULL);
    gate_open(&gate, &w);
    buf = world_alloc(&w, 0, sizeof *buf, 0);
    scale = world_alloc(&w, 0, sizeof *scale, 0);
    later = world_alloc(&w, 0, sizeof *later, 0);
    world_write(&w, 0, buf, &input, sizeof input);
    world_write(&w, 0, later, &factor, sizeof factor);
    gate_hold(&gate, 0);
    w.cu->context_push(w.context[0]);
    assert_int_equal(w.cu->copy(tt_cuda_address_of(scale), tt_cuda_address_of(later), sizeof factor,
                                w.stream[0]),
                     0);
    w.cu->context_pop(&(tt_cuda_context){ 0 });
    op = op_of(&w, 0, TUTTI_GPU_ALLREDUCE, buf, buf, 1);
    op.type = TUTTI_F32;
    op.op = TUTTI_PREMUL_SUM;
    op.scale_from = scale;
    assert_ok(tutti_gpu_group(&op, 1));
    gate_lift(&gate);
    world_read(&w, 0, &got, buf, sizeof got);
    assert_float_equal(got, 7.5f, 0.0f);
    world_free(&w, 0, buf);
    world_free(&w, 0, scale);
    world_free(&w, 0, later);
    gate_close(&gate);
    world_close(&w);
}

static tutti_status count_and_wait(tutti_comm *comm, void *arg)
{
    *(int *)arg += 1;
    return tutti_barrier(comm, NULL);
}

static void a_job_runs_in_the_order_of_operations(void **state)
{
    struct world w;
    int calls = 0;

    (void)state;
    world_open(&w, 1, NULL);
    assert_ok(tutti_gpu_barrier(w.gpu[0], w.stream[0]));
    assert_ok(tutti_gpu_run(w.gpu[0], count_and_wait, &calls));
    assert_int_equal(calls, 1);
    world_close(&w);
}

/* ---- pinned memory ---- */

enum { SMALLER = 1 << 20, LARGER = 4 << 20 };
static tutti_gpu *other_caller;     /* reserves memory meanwhile; NULL: has done so */

static tt_cuda_result alloc_host(void **out, size_t bytes, unsigned flags)
{
    tutti_gpu *gpu = other_caller;

    (void)flags;
    other_caller = NULL;
    if (gpu)
        assert_ok(tt_gpu_reserve(gpu, LARGER));
    *out = malloc(bytes);
    return 0;
}

/* While a caller pins memory, another one pins a larger block: both use the larger one from then
 * on. */
static void the_largest_memory_is_used(void **state)
{
    static const struct tt_cuda cu = { .host_alloc = alloc_host };
    static tutti_gpu gpu = { .cu = &cu, .lock = PTHREAD_MUTEX_INITIALIZER };
    struct tt_gpu_arena *next;

    (void)state;
    other_caller = &gpu;
    assert_ok(tt_gpu_reserve(&gpu, SMALLER));
    assert_true(gpu.arenas->bytes >= LARGER);
    assert_ptr_equal(tt_gpu_arena(&gpu), gpu.arenas->mem);
    assert_true(gpu.arenas->next && gpu.arenas->next->bytes >= SMALLER);
    for (struct tt_gpu_arena *a = gpu.arenas; a; a = next) {
        next = a->next;
        free(a->mem);
        free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_starts_when_the_stream_gets_to_it),
        cmocka_unit_test(a_stream_continues_when_the_operation_is_complete),
        cmocka_unit_test(sends_and_receives_of_a_group_are_concurrent),
        cmocka_unit_test(a_rank_sends_to_itself),
        cmocka_unit_test(many_pending_operations_are_bounded),
        cmocka_unit_test(short_operations_are_right_with_and_without_a_slot),
        cmocka_unit_test(a_factor_in_device_memory_is_read_in_stream_order),
        cmocka_unit_test(a_job_runs_in_the_order_of_operations),
        cmocka_unit_test(the_largest_memory_is_used),
    };

    world_devices();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
