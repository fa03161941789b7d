/* Misuse and failures of operations in CUDA graphs. Inspects the state of the library: memory is
 * kept until the worker no longer uses it, is limited, and survives a reset of the device. */
#include "graphs.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/captured.h"

#define assert_says(part) assert_non_null(strstr(tutti_last_error(), part))

static void add_allreduce(struct world *w, int r, void *mem, size_t bytes, tt_cuda_stream stream)
{
    assert_ok(tutti_gpu_allreduce(mem, mem, bytes, TUTTI_U8, TUTTI_SUM, w->gpu[r], stream));
}

/* An allreduce in place, as a graph of one operation. */
static exec_t captured_allreduce(struct world *w, int r, void *mem, size_t bytes)
{
    capture_begin(w, r, CAPTURE_THREAD);
    add_allreduce(w, r, mem, bytes, w->stream[r]);
    return capture_end_exec(w, r);
}

static void hold(struct world *w, const struct gate *gate, int r, tt_cuda_stream stream)
{
    tt_cuda_address word;

    w->cu->context_push(w->context[r]);
    assert_int_equal(w->cu->host_address(&word, gate->word, 0), 0);
    assert_int_equal(w->cu->stream_wait_value(stream, word, 1, 0), 0);
    w->cu->context_pop(&(tt_cuda_context){ 0 });
}

static bool is_running(tutti_gpu *gpu)
{
    bool is;

    pthread_mutex_lock(&gpu->lock);
    is = gpu->captured->is_running;
    pthread_mutex_unlock(&gpu->lock);
    return is;
}

static bool has_ended(const struct tt_gpu_captured *c)
{
    return __atomic_load_n(c->word, __ATOMIC_ACQUIRE) == c->generation;
}

/* The worker copies from the device on a stream that a gate holds. Neither an abort nor a later
 * launch may release the stream of the first launch before the worker has finished: the program may
 * then free the memory. */
static void an_abort_keeps_the_stream_until_the_worker_has_ended(void **state)
{
    enum { BYTES = 40000 };     /* more chunks than a direct unit has */
    const tutti_gpu_conf conf = { .chunk_bytes = 4096 };
    struct gate gate;
    struct world w;
    exec_t exec;
    void *mem;

    (void)state;
    world_open(&w, 1, &conf);
    gate_open(&gate, &w);
    mem = world_alloc(&w, 0, BYTES, 1);
    exec = captured_allreduce(&w, 0, mem, BYTES);
    hold(&w, &gate, 0, w.gpu[0]->in);
    exec_launch(&w, 0, exec);
    while (!is_running(w.gpu[0]))
        sched_yield();
    assert_ok(tutti_gpu_abort(w.gpu[0]));
    assert_false(has_ended(w.gpu[0]->captured));
    tt_gpu_captured_arrive(tt_gpu_captured_handle(w.gpu[0]->captured, 0));
    assert_false(has_ended(w.gpu[0]->captured));
    gate_lift(&gate);
    world_sync(&w, 0);
    assert_true(has_ended(w.gpu[0]->captured));
    assert_status(tutti_gpu_status(w.gpu[0]), TUTTI_ERR_ABORTED);
    exec_destroy(exec);
    world_free(&w, 0, mem);
    gate_close(&gate);
    world_close(&w);
}

/* ---- memory ---- */

static void assert_all(struct world *w, int r, const void *device, size_t bytes, int value)
{
    unsigned char *got = malloc(bytes);

    world_read(w, r, got, device, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(got[i], value);
    free(got);
}

/* Twice as many operations as the limit allows: the operations above the limit are staged, with the
 * same result. */
static void pinned_memory_of_captured_operations_is_limited(void **state)
{
    enum { BYTES = 4 << 20, PER_OP = 2 * BYTES };
    const int n = 2 * (int)(TT_GPU_CAPTURED_BYTES_MAX / PER_OP);
    unsigned char power = 1;
    exec_t exec[2];
    void *mem[2];
    struct world w;

    (void)state;
    world_open(&w, 2, NULL);
    for (int r = 0; r < 2; r++) {
        mem[r] = world_alloc(&w, r, BYTES, 3);
        capture_begin(&w, r, CAPTURE_THREAD);
        for (int i = 0; i < n; i++)
            add_allreduce(&w, r, mem[r], BYTES, w.stream[r]);
        exec[r] = capture_end_exec(&w, r);
        assert_in_range(w.gpu[r]->captured_bytes, PER_OP, TT_GPU_CAPTURED_BYTES_MAX);
    }
    for (int i = 0; i < n; i++)
        power = (unsigned char)(2 * power);
    for (int r = 0; r < 2; r++)
        exec_launch(&w, r, exec[r]);
    for (int r = 0; r < 2; r++) {
        assert_all(&w, r, mem[r], BYTES, (unsigned char)(3 * power));
        exec_destroy(exec[r]);
        assert_int_equal(w.gpu[r]->captured_bytes, 0);
        world_free(&w, r, mem[r]);
    }
    world_close(&w);
}

static tt_cuda_result refuse_to_pin(void *mem, size_t bytes, unsigned flags)
{
    (void)mem, (void)bytes, (void)flags;
    return 2;       /* CUDA_ERROR_OUT_OF_MEMORY */
}

/* The first operation allocates the memory of staged operations, and the table of captured
 * operations, before pinning fails. */
static void a_capture_without_pinned_memory_is_staged(void **state)
{
    enum { BYTES = 5000 };
    exec_t exec, first;
    struct tt_cuda *cu;
    struct world w;
    void *mem;

    (void)state;
    world_open(&w, 1, NULL);
    cu = (struct tt_cuda *)w.cu;
    mem = world_alloc(&w, 0, BYTES, 7);
    first = captured_allreduce(&w, 0, mem, 1);
    cu->host_register = refuse_to_pin;
    capture_begin(&w, 0, CAPTURE_THREAD);
    add_allreduce(&w, 0, mem, BYTES, w.stream[0]);
    exec = capture_end_exec(&w, 0);
    assert_int_equal(tutti_gpu_status(w.gpu[0]), TUTTI_OK);
    assert_null(w.gpu[0]->captured->unit->memory);
    exec_launch(&w, 0, exec);
    assert_all(&w, 0, mem, BYTES, 7);
    assert_ok(tutti_gpu_status(w.gpu[0]));
    exec_destroy(exec);
    exec_destroy(first);
    world_free(&w, 0, mem);
    world_close(&w);
}

/* Calls and replays before and after a reset; the library keeps pinned memory in between. */
static void pinned_memory_survives_a_reset_of_the_device(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        exec_t exec[2];
        void *mem[2];
        struct world w;

        world_open(&w, 2, NULL);
        for (int r = 0; r < 2; r++) {
            mem[r] = world_alloc(&w, r, 64, 1);
            exec[r] = captured_allreduce(&w, r, mem[r], 64);
        }
        for (int i = 0; i < 2; i++) {
            for (int r = 0; r < 2; r++)
                exec_launch(&w, r, exec[r]);
            for (int r = 0; r < 2; r++)
                add_allreduce(&w, r, mem[r], 64, w.stream[r]);
        }
        for (int r = 0; r < 2; r++) {
            assert_all(&w, r, mem[r], 64, 16);
            exec_destroy(exec[r]);
            world_free(&w, r, mem[r]);
        }
        world_close(&w);
        for (int d = 0; d < world_devices() && d < 2; d++)
            device_reset(d);
    }
}

/* ---- launches ---- */

/* The second operation of the capture has arrived, and waits for the first, which a gate holds. */
static void a_launch_that_destroy_ends_is_an_error(void **state)
{
    tt_cuda_stream second;
    tt_cuda_event event;
    struct gate gate;
    struct world w;
    void *mem[2];
    exec_t exec;

    (void)state;
    world_open(&w, 1, NULL);
    gate_open(&gate, &w);
    for (int i = 0; i < 2; i++)
        mem[i] = world_alloc(&w, 0, 64, 1);
    w.cu->context_push(w.context[0]);
    assert_int_equal(w.cu->stream_create(&second, TT_CUDA_STREAM_NON_BLOCKING), 0);
    assert_int_equal(w.cu->event_create(&event, TT_CUDA_EVENT_NO_TIMING), 0);
    capture_begin(&w, 0, CAPTURE_THREAD);
    assert_int_equal(w.cu->event_record(event, w.stream[0]), 0);
    assert_int_equal(w.cu->stream_wait_event(second, event, 0), 0);
    hold(&w, &gate, 0, second);
    add_allreduce(&w, 0, mem[0], 64, second);
    add_allreduce(&w, 0, mem[1], 64, w.stream[0]);
    assert_int_equal(w.cu->event_record(event, second), 0);
    assert_int_equal(w.cu->stream_wait_event(w.stream[0], event, 0), 0);
    exec = capture_end_exec(&w, 0);
    exec_launch(&w, 0, exec);
    while (!atomic_load(&w.gpu[0]->has_arrived))
        sched_yield();
    tutti_gpu_destroy(w.gpu[0]);
    w.gpu[0] = NULL;
    assert_status(tutti_gpu_graph_status(), TUTTI_ERR_INVALID);
    assert_says("after tutti_gpu_destroy");
    gate_lift(&gate);
    world_sync(&w, 0);
    assert_status(tutti_gpu_graph_status(), TUTTI_ERR_INVALID);     /* of the first operation */
    exec_destroy(exec);
    w.cu->event_destroy(event);
    w.cu->stream_destroy(second);
    w.cu->context_pop(&(tt_cuda_context){ 0 });
    for (int i = 0; i < 2; i++)
        world_free(&w, 0, mem[i]);
    gate_close(&gate);
    world_close(&w);
}

/* Two executable graphs of one capture, on two streams. Rank 1 launches after the second launch has
 * failed, and is released. The operation is staged, so that the streams copy nothing. */
static void overlapping_launches_of_one_capture_are_an_error(void **state)
{
    enum { BYTES = 40000 };
    const tutti_gpu_conf conf = { .chunk_bytes = 4096 };
    tt_cuda_stream second;
    exec_t exec[3];
    struct world w;
    graph_t graph;
    void *mem[2];

    (void)state;
    world_open(&w, 2, &conf);
    for (int r = 0; r < 2; r++)
        mem[r] = world_alloc(&w, r, BYTES, 1);
    capture_begin(&w, 0, CAPTURE_THREAD);
    add_allreduce(&w, 0, mem[0], BYTES, w.stream[0]);
    graph = capture_end(&w, 0);
    for (int i = 0; i < 2; i++)
        exec[i] = graph_instantiate(&w, 0, graph);
    graph_destroy(graph);
    exec[2] = captured_allreduce(&w, 1, mem[1], BYTES);
    w.cu->context_push(w.context[0]);
    assert_int_equal(w.cu->stream_create(&second, TT_CUDA_STREAM_NON_BLOCKING), 0);
    exec_launch(&w, 0, exec[0]);
    exec_launch_on(&w, 0, exec[1], second);
    world_sync(&w, 0);
    assert_int_equal(w.cu->stream_synchronize(second), 0);
    assert_status(tutti_gpu_status(w.gpu[0]), TUTTI_ERR_INVALID);
    assert_says("tutti_gpu_allreduce: overlapping launches of CUDA graphs");
    exec_launch(&w, 1, exec[2]);
    world_sync(&w, 1);          /* the result may lack rank 0's data */
    w.cu->stream_destroy(second);
    w.cu->context_pop(&(tt_cuda_context){ 0 });
    for (int i = 0; i < 3; i++)
        exec_destroy(exec[i]);
    for (int r = 0; r < 2; r++)
        world_free(&w, r, mem[r]);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_abort_keeps_the_stream_until_the_worker_has_ended),
        cmocka_unit_test(pinned_memory_of_captured_operations_is_limited),
        cmocka_unit_test(pinned_memory_survives_a_reset_of_the_device),
        cmocka_unit_test(a_launch_that_destroy_ends_is_an_error),
        cmocka_unit_test(overlapping_launches_of_one_capture_are_an_error),
        /* must be last: it replaces a function of the driver */
        cmocka_unit_test(a_capture_without_pinned_memory_is_staged),
    };

    world_devices();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
