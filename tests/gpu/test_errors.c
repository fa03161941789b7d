/* Bad arguments are refused before anything starts; failures release streams and are reported. */
#include "world.h"

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
    assert_says("root 1");
    assert_status(tutti_gpu_send(mem, 16, TUTTI_F32, -1, w.gpu[0], w.stream[0]), TUTTI_ERR_INVALID);
    assert_status(
        tutti_gpu_allreduce(mem, mem, SIZE_MAX, TUTTI_F32, TUTTI_SUM, w.gpu[0], w.stream[0]),
        TUTTI_ERR_INVALID);
    assert_status(tutti_gpu_allreduce(mem, mem, 16, TUTTI_F32, TUTTI_SUM, NULL, w.stream[0]),
                  TUTTI_ERR_INVALID);
    world_free(&w, 0, mem);
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

/* Rank 1 never calls: rank 0 waits in the operation, and rank 1's abort ends it. */
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

/* The stream is held by a gate: the abort does not wait for it, and the stream is not held
 * later. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_memory_is_refused_by_name),
        cmocka_unit_test(invalid_values_are_refused),
        cmocka_unit_test(a_group_is_checked_before_it_starts),
        cmocka_unit_test(a_device_that_does_not_exist_is_refused),
        cmocka_unit_test(an_abort_releases_the_streams),
        cmocka_unit_test(an_abort_ends_an_operation_that_has_not_started),
        cmocka_unit_test(a_deadline_releases_the_stream),
        cmocka_unit_test(a_lost_rank_releases_the_stream),
    };

    world_devices();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
