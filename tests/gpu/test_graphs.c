/* Operations in CUDA graphs: each replay uses the data at that time; launches and calls run in
 * stream order; a graph never blocks a stream after its tutti_gpu has failed or was freed. */
#include "graphs.h"

#include <stdlib.h>
#include <string.h>

#define RANKS 3
#define assert_says(part) assert_non_null(strstr(tutti_last_error(), part))

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

static void fill(unsigned char *buf, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1103515245u + 12345u;
        buf[i] = (unsigned char)(seed >> 16);
    }
}

static void assert_all(struct world *w, int r, const void *device, size_t bytes, int value)
{
    unsigned char *got = malloc(bytes);

    world_read(w, r, got, device, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(got[i], value);
    free(got);
}

/* One operation on all ranks. Buffers have RANKS blocks each, for the replay and the reference. */
struct scenario {
    struct world *w;
    size_t count;
    void *src[RANKS], *dst[RANKS], *expected[RANKS];
};

/* Calls the operation on all ranks. Kind GPU_KIND_COUNT: a ring of sends and receives. */
static void call(struct scenario *s, tutti_gpu_kind kind, void *const *dst)
{
    tutti_gpu_op ops[2 * RANKS];
    size_t n = 0;

    for (int r = 0; r < RANKS; r++) {
        if (kind < TUTTI_GPU_SEND) {
            ops[n++] = op_of(s->w, r, kind, s->src[r], dst[r], s->count);
            continue;
        }
        ops[n] = op_of(s->w, r, TUTTI_GPU_SEND, s->src[r], NULL, s->count);
        ops[n++].root = (r + 1) % RANKS;
        ops[n] = op_of(s->w, r, TUTTI_GPU_RECV, NULL, dst[r], s->count);
        ops[n++].root = (r + RANKS - 1) % RANKS;
    }
    assert_ok(tutti_gpu_group(ops, n));
}

static void assert_replays_as_call(struct scenario *s, tutti_gpu_kind kind)
{
    const size_t bytes = RANKS * s->count;
    unsigned char *data = malloc(bytes), *expected = malloc(bytes);
    exec_t exec[RANKS];

    for (int r = 0; r < RANKS; r++)
        capture_begin(s->w, r, CAPTURE_GLOBAL);
    call(s, kind, s->dst);
    for (int r = 0; r < RANKS; r++)
        exec[r] = capture_end_exec(s->w, r);
    for (unsigned round = 0; round < 3; round++) {
        for (int r = 0; r < RANKS; r++) {
            fill(data, bytes, 100 * round + (unsigned)r + 7 * (unsigned)kind);
            world_write(s->w, r, s->src[r], data, bytes);
            memset(data, 0, bytes);
            world_write(s->w, r, s->dst[r], data, bytes);
            world_write(s->w, r, s->expected[r], data, bytes);
        }
        for (int r = 0; r < RANKS; r++)
            exec_launch(s->w, r, exec[r]);
        call(s, kind, s->expected);
        for (int r = 0; r < RANKS; r++) {
            world_read(s->w, r, data, s->dst[r], bytes);
            world_read(s->w, r, expected, s->expected[r], bytes);
            assert_memory_equal(data, expected, bytes);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        assert_ok(tutti_gpu_status(s->w->gpu[r]));
        exec_destroy(exec[r]);
    }
    free(data);
    free(expected);
}

/* The graph copies the data of short operations itself; long operations are transferred in
 * chunks. */
static void every_operation_replays_as_a_call(void **state)
{
    static const size_t counts[] = { 0, 1, 500, 20000 };
    const tutti_gpu_conf conf = { .chunk_bytes = 4096 };
    struct world w;

    (void)state;
    world_open(&w, RANKS, &conf);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct scenario s = { .w = &w, .count = counts[i] };

        for (int r = 0; r < RANKS; r++) {
            s.src[r] = world_alloc(&w, r, RANKS * s.count + 1, 0);
            s.dst[r] = world_alloc(&w, r, RANKS * s.count + 1, 0);
            s.expected[r] = world_alloc(&w, r, RANKS * s.count + 1, 0);
        }
        for (unsigned kind = 0; kind < TUTTI_GPU_RECV; kind++)
            assert_replays_as_call(&s, (tutti_gpu_kind)kind);
        for (int r = 0; r < RANKS; r++) {
            world_free(&w, r, s.src[r]);
            world_free(&w, r, s.dst[r]);
            world_free(&w, r, s.expected[r]);
        }
    }
    world_close(&w);
}

static void blocks_of_different_sizes_are_replayed(void **state)
{
    const size_t counts[2][2] = { { 1, 2 }, { 2, 3000 } };
    exec_t exec[2];
    void *src[2], *dst[2];
    struct world w;

    (void)state;
    world_open(&w, 2, NULL);
    for (int r = 0; r < 2; r++) {
        src[r] = world_alloc(&w, r, 4000, 1 + r);
        dst[r] = world_alloc(&w, r, 4000, 0);
        capture_begin(&w, r, CAPTURE_THREAD);
        assert_ok(tutti_gpu_alltoallv(src[r], counts[r], NULL, dst[r], counts[r], NULL, TUTTI_U8,
                                      w.gpu[r], w.stream[r]));
        exec[r] = capture_end_exec(&w, r);
    }
    for (int i = 0; i < 3; i++)
        for (int r = 0; r < 2; r++)
            exec_launch(&w, r, exec[r]);
    for (int r = 0; r < 2; r++) {
        unsigned char got[4000];

        world_read(&w, r, got, dst[r], sizeof got);
        for (size_t i = 0; i < counts[r][0] + counts[r][1]; i++)
            assert_int_equal(got[i], i < counts[r][0] ? 1 : 2);
        assert_int_equal(got[counts[r][0] + counts[r][1]], 0);
        exec_destroy(exec[r]);
        world_free(&w, r, src[r]);
        world_free(&w, r, dst[r]);
    }
    world_close(&w);
}

/* The sum is multiplied by 2 at each call and each replay; a graph has two of them. */
static void launches_and_calls_run_in_stream_order(void **state)
{
    enum { ROUNDS = 40, BYTES = 3000 };
    unsigned char power = 1;
    exec_t exec[2];
    void *buf[2];
    struct world w;

    (void)state;
    world_open(&w, 2, NULL);
    for (int r = 0; r < 2; r++) {
        buf[r] = world_alloc(&w, r, BYTES, 3);
        capture_begin(&w, r, CAPTURE_THREAD);
        for (int i = 0; i < 2; i++)
            assert_ok(tutti_gpu_allreduce(buf[r], buf[r], BYTES, TUTTI_U8, TUTTI_SUM, w.gpu[r],
                                          w.stream[r]));
        exec[r] = capture_end_exec(&w, r);
    }
    for (int i = 0; i < ROUNDS; i++)
        for (int r = 0; r < 2; r++) {
            exec_launch(&w, r, exec[r]);
            if (i % 3 == 0)
                assert_ok(tutti_gpu_broadcast(buf[r], buf[r], BYTES, TUTTI_U8, i % 2, w.gpu[r],
                                              w.stream[r]));
        }
    for (int i = 0; i < 2 * ROUNDS; i++)
        power = (unsigned char)(power * 2);
    for (int r = 0; r < 2; r++) {
        assert_all(&w, r, buf[r], BYTES, (unsigned char)(3 * power));
        assert_ok(tutti_gpu_status(w.gpu[r]));
        exec_destroy(exec[r]);
        world_free(&w, r, buf[r]);
    }
    world_close(&w);
}

/* A captured operation of two streams starts when both have reached it, and both continue after it.
 * On parallel branches, operations run in the order of their calls: the last sum includes all
 * others. */
static void branches_of_a_graph_keep_the_order_of_calls(void **state)
{
    enum { ROUNDS = 30, BYTES = 100 };
    unsigned char power = 1;
    tt_cuda_stream second[2];
    tt_cuda_event event[2];
    exec_t exec[2];
    char *buf[2], *other[2];
    struct world w;

    (void)state;
    world_open(&w, 2, NULL);
    for (int r = 0; r < 2; r++) {
        tutti_gpu_op ops[2];
        tt_cuda_result (*wait_event)(tt_cuda_stream stream, tt_cuda_event event, unsigned flags);
        tt_cuda_result error;

        wait_event = w.cu->stream_wait_event;
        buf[r] = world_alloc(&w, r, BYTES, 1);
        other[r] = world_alloc(&w, r, BYTES, 1);
        w.cu->context_push(w.context[r]);
        error = w.cu->stream_create(&second[r], TT_CUDA_STREAM_NON_BLOCKING);
        assert_int_equal(error, 0);
        assert_int_equal(w.cu->event_create(&event[r], TT_CUDA_EVENT_NO_TIMING), 0);
        capture_begin(&w, r, CAPTURE_THREAD);
        assert_int_equal(w.cu->event_record(event[r], w.stream[r]), 0);
        assert_int_equal(wait_event(second[r], event[r], 0), 0);
        assert_ok(
            tutti_gpu_allreduce(buf[r], buf[r], BYTES, TUTTI_U8, TUTTI_SUM, w.gpu[r], second[r]));
        assert_ok(tutti_gpu_allreduce(other[r], other[r], BYTES, TUTTI_U8, TUTTI_SUM, w.gpu[r],
                                      w.stream[r]));
        ops[0] = op_of(&w, r, TUTTI_GPU_ALLREDUCE, buf[r], buf[r], BYTES);
        ops[1] = op_of(&w, r, TUTTI_GPU_ALLREDUCE, other[r], other[r], BYTES);
        ops[1].stream = second[r];
        assert_ok(tutti_gpu_group(ops, 2));
        assert_int_equal(w.cu->event_record(event[r], second[r]), 0);
        assert_int_equal(wait_event(w.stream[r], event[r], 0), 0);
        exec[r] = capture_end_exec(&w, r);
        w.cu->context_pop(&(tt_cuda_context){ 0 });
    }
    for (int i = 0; i < ROUNDS; i++) {
        power = (unsigned char)(power * 4);
        for (int r = 0; r < 2; r++)
            exec_launch(&w, r, exec[r]);
    }
    for (int r = 0; r < 2; r++) {
        assert_all(&w, r, buf[r], BYTES, power);
        assert_all(&w, r, other[r], BYTES, power);
        exec_destroy(exec[r]);
        w.cu->context_push(w.context[r]);
        w.cu->event_destroy(event[r]);
        w.cu->stream_destroy(second[r]);
        w.cu->context_pop(&(tt_cuda_context){ 0 });
        world_free(&w, r, buf[r]);
        world_free(&w, r, other[r]);
    }
    world_close(&w);
}

/* An update replaces buffers; the first graph and its operations no longer exist. */
static void an_updated_graph_runs_the_new_operations(void **state)
{
    char *first[2], *second[2];
    exec_t exec[2];
    struct world w;

    (void)state;
    world_open(&w, 2, NULL);
    for (int r = 0; r < 2; r++) {
        graph_t graph;

        first[r] = world_alloc(&w, r, 64, 1);
        second[r] = world_alloc(&w, r, 64, 2);
        capture_begin(&w, r, CAPTURE_THREAD);
        assert_ok(tutti_gpu_allreduce(first[r], first[r], 64, TUTTI_U8, TUTTI_SUM, w.gpu[r],
                                      w.stream[r]));
        exec[r] = capture_end_exec(&w, r);
        capture_begin(&w, r, CAPTURE_THREAD);
        assert_ok(tutti_gpu_allreduce(second[r], second[r], 64, TUTTI_U8, TUTTI_SUM, w.gpu[r],
                                      w.stream[r]));
        graph = capture_end(&w, r);
        assert_int_equal(exec_update(exec[r], graph), 0);
        graph_destroy(graph);
    }
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < 2; r++)
            exec_launch(&w, r, exec[r]);
    for (int r = 0; r < 2; r++) {
        assert_all(&w, r, first[r], 64, 1);
        assert_all(&w, r, second[r], 64, 8);
        exec_destroy(exec[r]);
        world_free(&w, r, first[r]);
        world_free(&w, r, second[r]);
    }
    assert_ok(tutti_gpu_graph_status());
    world_close(&w);
}

/* A gate holds the launch while its executable graph is destroyed: the launch still completes. */
static void a_running_launch_outlives_its_graph(void **state)
{
    struct gate gate;
    struct world w;
    exec_t exec;
    void *src, *dst;

    (void)state;
    world_open(&w, 1, NULL);
    gate_open(&gate, &w);
    src = world_alloc(&w, 0, 64, 5);
    dst = world_alloc(&w, 0, 64, 0);
    capture_begin(&w, 0, CAPTURE_THREAD);
    assert_ok(tutti_gpu_allreduce(src, dst, 64, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]));
    exec = capture_end_exec(&w, 0);
    gate_hold(&gate, 0);
    exec_launch(&w, 0, exec);
    exec_destroy(exec);
    gate_lift(&gate);
    assert_all(&w, 0, dst, 64, 5);
    world_free(&w, 0, src);
    world_free(&w, 0, dst);
    gate_close(&gate);
    world_close(&w);
}

/* A capture of mode "global" forbids calls of other threads that may disturb it, such as queries of
 * events. Operations that run meanwhile must not invalidate it. */
static void operations_in_progress_do_not_disturb_a_capture(void **state)
{
    enum { BYTES = 3000000 };
    tutti_gpu_request *requests[2];
    tutti_gpu_op ops[2];
    struct gate gate;
    struct world w;
    exec_t exec;
    void *buf[2], *mem;

    (void)state;
    world_open(&w, 3, NULL);
    gate_open(&gate, &w);
    for (int r = 0; r < 2; r++) {
        buf[r] = world_alloc(&w, r, BYTES, 1 + r);
        ops[r] = op_of(&w, r, r ? TUTTI_GPU_RECV : TUTTI_GPU_SEND, buf[r], buf[r], BYTES);
        ops[r].root = 1 - r;
        ops[r].request = &requests[r];
    }
    mem = world_alloc(&w, 2, 64, 1);
    gate_hold(&gate, 0);
    assert_ok(tutti_gpu_group(ops, 2));
    capture_begin(&w, 2, CAPTURE_GLOBAL);
    gate_lift(&gate);
    for (int r = 0; r < 2; r++)
        assert_ok(tutti_gpu_wait(requests[r]));
    assert_ok(tutti_gpu_send(mem, 64, TUTTI_U8, 2, w.gpu[2], w.stream[2]));
    exec = capture_end_exec(&w, 2);
    exec_destroy(exec);
    assert_all(&w, 1, buf[1], BYTES, 1);
    for (int r = 0; r < 2; r++)
        world_free(&w, r, buf[r]);
    world_free(&w, 2, mem);
    gate_close(&gate);
    world_close(&w);
}

/* ---- failures ---- */

static void a_launch_after_the_end_of_the_communicator_is_an_error(void **state)
{
    struct world w;
    exec_t exec;
    void *mem;

    (void)state;
    world_open(&w, 1, NULL);
    mem = world_alloc(&w, 0, 64, 1);
    capture_begin(&w, 0, CAPTURE_THREAD);
    assert_ok(tutti_gpu_allreduce(mem, mem, 64, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]));
    exec = capture_end_exec(&w, 0);
    exec_launch(&w, 0, exec);
    world_sync(&w, 0);
    assert_ok(tutti_gpu_graph_status());
    tutti_gpu_destroy(w.gpu[0]);
    w.gpu[0] = NULL;
    exec_launch(&w, 0, exec);
    world_sync(&w, 0);
    assert_status(tutti_gpu_graph_status(), TUTTI_ERR_INVALID);
    assert_says("tutti_gpu_allreduce");
    assert_says("after tutti_gpu_destroy");
    assert_ok(tutti_gpu_graph_status());
    exec_destroy(exec);
    world_free(&w, 0, mem);
    world_close(&w);
}

/* The executable graph does not need the stream of the capture. */
static void a_graph_outlives_the_stream_of_its_capture(void **state)
{
    tt_cuda_stream stream;
    struct world w;
    exec_t exec;
    void *mem;

    (void)state;
    world_open(&w, 1, NULL);
    mem = world_alloc(&w, 0, 64, 1);
    capture_begin(&w, 0, CAPTURE_THREAD);
    assert_ok(tutti_gpu_broadcast(mem, mem, 64, TUTTI_U8, 0, w.gpu[0], w.stream[0]));
    exec = capture_end_exec(&w, 0);
    w.cu->context_push(w.context[0]);
    assert_int_equal(w.cu->stream_create(&stream, TT_CUDA_STREAM_NON_BLOCKING), 0);
    assert_int_equal(w.cu->stream_destroy(w.stream[0]), 0);
    w.cu->context_pop(&(tt_cuda_context){ 0 });
    w.stream[0] = stream;
    exec_launch(&w, 0, exec);
    world_sync(&w, 0);
    assert_ok(tutti_gpu_status(w.gpu[0]));
    assert_ok(tutti_gpu_graph_status());
    exec_destroy(exec);
    world_free(&w, 0, mem);
    world_close(&w);
}

/* Rank 1 never launches: rank 0 waits in the replay until the abort. */
static void an_abort_releases_a_replay(void **state)
{
    exec_t exec[2];
    struct world w;
    char *mem[2];

    (void)state;
    world_open(&w, 2, NULL);
    for (int r = 0; r < 2; r++) {
        mem[r] = world_alloc(&w, r, 64, 1);
        capture_begin(&w, r, CAPTURE_THREAD);
        assert_ok(
            tutti_gpu_allreduce(mem[r], mem[r], 64, TUTTI_U8, TUTTI_SUM, w.gpu[r], w.stream[r]));
        exec[r] = capture_end_exec(&w, r);
    }
    exec_launch(&w, 0, exec[0]);
    assert_ok(tutti_gpu_abort(w.gpu[1]));
    for (int r = 0; r < 2; r++) {
        world_sync(&w, r);
        exec_launch(&w, r, exec[r]);        /* later launches are released as well */
        world_sync(&w, r);
    }
    assert_status(tutti_gpu_status(w.gpu[0]), TUTTI_ERR_ABORTED);
    for (int r = 0; r < 2; r++) {
        exec_destroy(exec[r]);
        world_free(&w, r, mem[r]);
    }
    world_close(&w);
}

static void a_lost_rank_and_a_deadline_release_a_replay(void **state)
{
    static const tutti_status expected[] = { TUTTI_ERR_PEER_LOST, TUTTI_ERR_TIMEOUT };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const tutti_gpu_conf conf = { .timeout_ms = i ? 50 : 0 };
        struct world w;
        exec_t exec;
        char *mem;

        world_open(&w, 2, &conf);
        mem = world_alloc(&w, 0, 64, 1);
        capture_begin(&w, 0, CAPTURE_THREAD);
        assert_ok(tutti_gpu_recv(mem, 64, TUTTI_U8, 1, w.gpu[0], w.stream[0]));
        exec = capture_end_exec(&w, 0);
        exec_launch(&w, 0, exec);
        if (!i) {
            tutti_gpu_destroy(w.gpu[1]);
            tutti_comm_destroy(w.comm[1]);
            tutti_comm_destroy(w.host[1]);
            w.gpu[1] = NULL;
            w.comm[1] = w.host[1] = NULL;
        }
        world_sync(&w, 0);
        assert_status(tutti_gpu_status(w.gpu[0]), expected[i]);
        exec_destroy(exec);
        world_free(&w, 0, mem);
        world_close(&w);
    }
}

static void requests_and_mixed_groups_are_refused(void **state)
{
    tutti_gpu_request *request = NULL;
    tutti_gpu_op ops[2];
    struct world w;
    char *mem[2];

    (void)state;
    world_open(&w, 2, NULL);
    for (int r = 0; r < 2; r++) {
        mem[r] = world_alloc(&w, r, 64, 1);
        ops[r] = op_of(&w, r, TUTTI_GPU_ALLREDUCE, mem[r], mem[r], 64);
    }
    capture_begin(&w, 0, CAPTURE_THREAD);
    assert_status(tutti_gpu_group(ops, 2), TUTTI_ERR_INVALID);
    assert_says("1 of 2 communicators are being captured");
    ops[0].request = &request;
    assert_status(tutti_gpu_group(ops, 1), TUTTI_ERR_INVALID);
    assert_says("no request");
    assert_null(request);
    ops[0].request = NULL;
    ops[1].gpu = w.gpu[0];
    ops[1].src = ops[1].dst = mem[0];
    if (world_devices() == 1) {         /* otherwise the stream belongs to another device */
        assert_status(tutti_gpu_group(ops, 2), TUTTI_ERR_INVALID);
        assert_says("same capture");
    }
    graph_destroy(capture_end(&w, 0));
    for (int r = 0; r < 2; r++)
        world_free(&w, r, mem[r]);
    world_close(&w);
}

/* Synchronization invalidates a capture: calls report this, and the communicator stays usable. */
static void a_broken_capture_is_named(void **state)
{
    graph_t graph = NULL;
    struct world w;
    char *mem;

    (void)state;
    world_open(&w, 1, NULL);
    mem = world_alloc(&w, 0, 64, 1);
    capture_begin(&w, 0, CAPTURE_THREAD);
    assert_ok(tutti_gpu_allreduce(mem, mem, 64, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]));
    w.cu->context_push(w.context[0]);
    assert_int_not_equal(w.cu->stream_synchronize(w.stream[0]), 0);
    w.cu->context_pop(&(tt_cuda_context){ 0 });
    assert_status(tutti_gpu_allreduce(mem, mem, 64, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]),
                  TUTTI_ERR_INVALID);
    assert_says("an invalidated capture");
    assert_int_not_equal(capture_end_error(&w, 0, &graph), 0);
    assert_ok(tutti_gpu_allreduce(mem, mem, 64, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]));
    assert_all(&w, 0, mem, 64, 1);
    world_free(&w, 0, mem);
    world_close(&w);
}

/* The tutti_gpu, or the stream, is destroyed during a capture. */
static void a_capture_may_lose_its_communicator_or_its_stream(void **state)
{
    struct world w;
    exec_t exec;
    char *mem;

    (void)state;
    world_open(&w, 2, NULL);
    mem = world_alloc(&w, 0, 64, 1);
    capture_begin(&w, 0, CAPTURE_THREAD);
    assert_ok(tutti_gpu_allreduce(mem, mem, 64, TUTTI_U8, TUTTI_SUM, w.gpu[0], w.stream[0]));
    tutti_gpu_destroy(w.gpu[0]);
    w.gpu[0] = NULL;
    exec = capture_end_exec(&w, 0);
    exec_launch(&w, 0, exec);
    world_sync(&w, 0);
    assert_status(tutti_gpu_graph_status(), TUTTI_ERR_INVALID);
    exec_destroy(exec);
    world_free(&w, 0, mem);
    mem = world_alloc(&w, 1, 64, 1);
    capture_begin(&w, 1, CAPTURE_THREAD);
    assert_ok(tutti_gpu_barrier(w.gpu[1], w.stream[1]));
    w.cu->context_push(w.context[1]);
    assert_int_equal(w.cu->stream_destroy(w.stream[1]), 0);
    assert_int_equal(w.cu->stream_create(&w.stream[1], TT_CUDA_STREAM_NON_BLOCKING), 0);
    w.cu->context_pop(&(tt_cuda_context){ 0 });
    assert_ok(tutti_gpu_status(w.gpu[1]));
    world_free(&w, 1, mem);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_replays_as_a_call),
        cmocka_unit_test(blocks_of_different_sizes_are_replayed),
        cmocka_unit_test(launches_and_calls_run_in_stream_order),
        cmocka_unit_test(branches_of_a_graph_keep_the_order_of_calls),
        cmocka_unit_test(an_updated_graph_runs_the_new_operations),
        cmocka_unit_test(a_running_launch_outlives_its_graph),
        cmocka_unit_test(operations_in_progress_do_not_disturb_a_capture),
        cmocka_unit_test(a_launch_after_the_end_of_the_communicator_is_an_error),
        cmocka_unit_test(a_graph_outlives_the_stream_of_its_capture),
        cmocka_unit_test(an_abort_releases_a_replay),
        cmocka_unit_test(a_lost_rank_and_a_deadline_release_a_replay),
        cmocka_unit_test(requests_and_mixed_groups_are_refused),
        cmocka_unit_test(a_broken_capture_is_named),
        cmocka_unit_test(a_capture_may_lose_its_communicator_or_its_stream),
    };

    world_devices();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
