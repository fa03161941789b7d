/* Launches of captured all-to-alls, allgathers and barriers between ranks of this process. After
 * the first launch they need no worker, but have the same results and errors. */
#include "graphs.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/captured.h"
#include "gpu/exchange.h"

#define RANKS 4
#define assert_says(part) assert_non_null(strstr(tutti_last_error(), part))

static uint64_t exchanged(tutti_gpu *gpu)
{
    uint64_t n;

    pthread_mutex_lock(&gpu->lock);
    n = gpu->nexchanged;
    pthread_mutex_unlock(&gpu->lock);
    return n;
}

static void launch_all(struct world *w, exec_t *exec, int first)
{
    for (int i = 0; i < w->n; i++)
        exec_launch(w, (first + i) % w->n, exec[(first + i) % w->n]);
}

static void sync_all(struct world *w)
{
    for (int r = 0; r < w->n; r++) {
        world_sync(w, r);
        assert_ok(tutti_gpu_status(w->gpu[r]));
    }
}

/* ---- results ---- */

/* An all-to-all of `bytes` per rank. Each launch sends the blocks that the previous one received,
 * rotated by one, so all launches have different data. */
static exec_t capture_rotation(struct world *w, int r, char *src, char *dst, size_t bytes)
{
    const size_t others = (RANKS - 1) * bytes;
    exec_t exec;

    capture_begin(w, r, CAPTURE_THREAD);
    assert_ok(tutti_gpu_alltoall(src, dst, bytes, TUTTI_U8, w->gpu[r], w->stream[r]));
    w->cu->context_push(w->context[r]);
    assert_int_equal(
        w->cu->copy(tt_cuda_address_of(src), tt_cuda_address_of(dst + bytes), others, w->stream[r]),
        0);
    assert_int_equal(
        w->cu->copy(tt_cuda_address_of(src + others), tt_cuda_address_of(dst), bytes, w->stream[r]),
        0);
    w->cu->context_pop(&(tt_cuda_context){ 0 });
    exec = capture_end_exec(w, r);
    return exec;
}

/* Computes the values of the blocks after a launch. */
static void rotate(unsigned char value[RANKS][RANKS])
{
    unsigned char was[RANKS][RANKS];

    memcpy(was, value, sizeof was);
    for (int r = 0; r < RANKS; r++)
        for (int b = 0; b < RANKS; b++)
            value[r][b] = was[(b + 1) % RANKS][r];
}

/* Up to seven launches of each rank are queued, and the order of the ranks varies. */
static void queued_launches_do_not_overwrite_each_other(void **state)
{
    static const size_t sizes[] = { 1, 1000, 8192 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t bytes = sizes[i];
        unsigned char value[RANKS][RANKS], *host = malloc(RANKS * bytes);
        char *src[RANKS], *dst[RANKS];
        exec_t exec[RANKS];
        uint64_t launches = 0;
        struct world w;

        world_open(&w, RANKS, NULL);
        for (int r = 0; r < RANKS; r++) {
            src[r] = world_alloc(&w, r, RANKS * bytes, 0);
            dst[r] = world_alloc(&w, r, RANKS * bytes, 0);
            for (int b = 0; b < RANKS; b++) {
                value[r][b] = (unsigned char)(1 + 10 * r + b);
                memset(host + (size_t)b * bytes, value[r][b], bytes);
            }
            world_write(&w, r, src[r], host, RANKS * bytes);
            exec[r] = capture_rotation(&w, r, src[r], dst[r], bytes);
        }
        for (int burst = 1; burst <= 21; burst++) {
            for (int r = 0; r < RANKS; r++)
                for (int k = 0; k < 1 + burst % 7; k++)
                    exec_launch(&w, (r + burst) % RANKS, exec[(r + burst) % RANKS]);
            for (int k = 0; k < 1 + burst % 7; k++, launches++)
                rotate(value);
            sync_all(&w);
        }
        for (int r = 0; r < RANKS; r++) {
            world_read(&w, r, host, src[r], RANKS * bytes);
            for (size_t at = 0; at < RANKS * bytes; at++)
                assert_int_equal(host[at], value[r][at / bytes]);
            assert_int_equal(exchanged(w.gpu[r]), launches - 1);
            exec_destroy(exec[r]);
            world_free(&w, r, src[r]);
            world_free(&w, r, dst[r]);
        }
        world_close(&w);
        free(host);
    }
}

/* The graph doubles buf by sums, with exchanges before, between and after them. */
static void exchanges_and_other_operations_share_a_graph(void **state)
{
    enum { BYTES = 300, LAUNCHES = 3 };
    char *buf[2], *all[2], *back[2];
    unsigned char power = 1;
    exec_t exec[2];
    struct world w;

    (void)state;
    world_open(&w, 2, NULL);
    for (int r = 0; r < 2; r++) {
        tutti_gpu *gpu = w.gpu[r];
        void *stream = w.stream[r];

        buf[r] = world_alloc(&w, r, BYTES, 3);
        all[r] = world_alloc(&w, r, (size_t)2 * BYTES, 0);
        back[r] = world_alloc(&w, r, (size_t)2 * BYTES, 0);
        capture_begin(&w, r, CAPTURE_THREAD);
        assert_ok(tutti_gpu_barrier(gpu, stream));
        assert_ok(tutti_gpu_allreduce(buf[r], buf[r], BYTES, TUTTI_U8, TUTTI_SUM, gpu, stream));
        assert_ok(tutti_gpu_allgather(buf[r], all[r], BYTES, TUTTI_U8, gpu, stream));
        assert_ok(tutti_gpu_allreduce(buf[r], buf[r], BYTES, TUTTI_U8, TUTTI_SUM, gpu, stream));
        assert_ok(tutti_gpu_alltoall(all[r], back[r], BYTES, TUTTI_U8, gpu, stream));
        exec[r] = capture_end_exec(&w, r);
    }
    for (int i = 0; i < LAUNCHES; i++) {
        launch_all(&w, exec, i);
        if (i % 3 == 0)
            for (int r = 0; r < 2; r++)
                assert_ok(tutti_gpu_broadcast(buf[r], buf[r], BYTES, TUTTI_U8, i % 2, w.gpu[r],
                                              w.stream[r]));
        power = (unsigned char)(power * 4);
    }
    sync_all(&w);
    for (int r = 0; r < 2; r++) {
        unsigned char got[2 * BYTES];

        world_read(&w, r, got, buf[r], BYTES);
        for (int i = 0; i < BYTES; i++)
            assert_int_equal(got[i], (unsigned char)(3 * power));
        world_read(&w, r, got, back[r], sizeof got);
        for (int i = 0; i < 2 * BYTES; i++)
            assert_int_equal(got[i], (unsigned char)(3 * power / 2));
        assert_int_equal(exchanged(w.gpu[r]), 3 * (LAUNCHES - 1));
        exec_destroy(exec[r]);
        world_free(&w, r, buf[r]);
        world_free(&w, r, all[r]);
        world_free(&w, r, back[r]);
    }
    world_close(&w);
}

/* No exchanges: a call on one rank that another one replays, long blocks, and a group of two
 * operations. */
static void other_operations_stay_with_the_workers(void **state)
{
    enum { LONG = 200000, LAUNCHES = 3 };
    char *src[2], *dst[2];
    exec_t exec[2], mixed;
    struct world w;

    (void)state;
    world_open(&w, 2, NULL);
    for (int r = 0; r < 2; r++) {
        tutti_gpu_op ops[2];

        src[r] = world_alloc(&w, r, (size_t)2 * LONG, 1 + r);
        dst[r] = world_alloc(&w, r, (size_t)2 * LONG, 0);
        ops[0] = (tutti_gpu_op){ .size = sizeof *ops,
                                 .kind = TUTTI_GPU_ALLTOALL,
                                 .gpu = w.gpu[r],
                                 .stream = w.stream[r],
                                 .src = src[r],
                                 .dst = dst[r],
                                 .count = 8,
                                 .type = TUTTI_U8 };
        ops[1] = ops[0];
        capture_begin(&w, r, CAPTURE_THREAD);
        assert_ok(tutti_gpu_alltoall(src[r], dst[r], LONG, TUTTI_U8, w.gpu[r], w.stream[r]));
        assert_ok(tutti_gpu_group(ops, 2));
        exec[r] = capture_end_exec(&w, r);
    }
    capture_begin(&w, 1, CAPTURE_THREAD);
    assert_ok(tutti_gpu_allgather(src[1], dst[1], 100, TUTTI_U8, w.gpu[1], w.stream[1]));
    mixed = capture_end_exec(&w, 1);
    for (int i = 0; i < LAUNCHES; i++) {
        launch_all(&w, exec, i);
        assert_ok(tutti_gpu_allgather(src[0], dst[0], 100, TUTTI_U8, w.gpu[0], w.stream[0]));
        exec_launch(&w, 1, mixed);
    }
    sync_all(&w);
    for (int r = 0; r < 2; r++) {
        unsigned char got[201];

        world_read(&w, r, got, dst[r], sizeof got);
        for (int i = 0; i < 200; i++)
            assert_int_equal(got[i], 1 + i / 100);
        assert_int_equal(exchanged(w.gpu[r]), 0);
        exec_destroy(exec[r]);
    }
    exec_destroy(mixed);
    for (int r = 0; r < 2; r++) {
        world_free(&w, r, src[r]);
        world_free(&w, r, dst[r]);
    }
    world_close(&w);
}

/* ---- failures ---- */

/* Two ranks with a captured all-to-all that has become an exchange. */
struct pair {
    struct world w;
    void *src[2], *dst[2];
    graph_t graph[2];
    exec_t exec[2];
};

static void pair_open(struct pair *p)
{
    struct world *w = &p->w;

    world_open(w, 2, NULL);
    for (int r = 0; r < 2; r++) {
        p->src[r] = world_alloc(w, r, 64, 1 + r);
        p->dst[r] = world_alloc(w, r, 64, 0);
        capture_begin(w, r, CAPTURE_THREAD);
        assert_ok(tutti_gpu_alltoall(p->src[r], p->dst[r], 32, TUTTI_U8, w->gpu[r], w->stream[r]));
        p->graph[r] = capture_end(w, r);
        p->exec[r] = graph_instantiate(w, r, p->graph[r]);
    }
    for (int i = 0; i < 2; i++)
        launch_all(w, p->exec, 0);
    sync_all(w);
    assert_int_equal(exchanged(w->gpu[0]), 1);
}

static void pair_close(struct pair *p)
{
    for (int r = 0; r < 2; r++) {
        if (p->graph[r])
            graph_destroy(p->graph[r]);
        if (p->exec[r])
            exec_destroy(p->exec[r]);
        world_free(&p->w, r, p->src[r]);
        world_free(&p->w, r, p->dst[r]);
    }
    world_close(&p->w);
}

static void a_deadline_names_the_rank_that_did_not_launch(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p);
    pthread_mutex_lock(&p.w.gpu[0]->lock);
    p.w.gpu[0]->conf.timeout_ms = 50;
    pthread_mutex_unlock(&p.w.gpu[0]->lock);
    exec_launch(&p.w, 0, p.exec[0]);
    world_sync(&p.w, 0);
    assert_status(tutti_gpu_status(p.w.gpu[0]), TUTTI_ERR_TIMEOUT);
    assert_says("tutti_gpu_alltoall: rank 1 has not reached the operation");
    assert_says("(graphs that match at their first launch must match at all later ones)");
    exec_launch(&p.w, 1, p.exec[1]);            /* its communicator was aborted */
    world_sync(&p.w, 1);
    exec_launch(&p.w, 0, p.exec[0]);            /* released at once */
    world_sync(&p.w, 0);
    pair_close(&p);
}

static void an_abort_releases_an_exchange(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p);
    exec_launch(&p.w, 0, p.exec[0]);
    assert_ok(tutti_gpu_abort(p.w.gpu[1]));
    for (int r = 0; r < 2; r++) {
        world_sync(&p.w, r);
        exec_launch(&p.w, r, p.exec[r]);        /* later launches are released as well */
        world_sync(&p.w, r);
    }
    assert_status(tutti_gpu_status(p.w.gpu[0]), TUTTI_ERR_ABORTED);
    pair_close(&p);
}

/* Rank 1 destroys its tutti_gpu, or its graph. */
static void a_rank_that_leaves_releases_an_exchange(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pair p;

        pair_open(&p);
        exec_launch(&p.w, 0, p.exec[0]);
        if (i) {
            graph_destroy(p.graph[1]);
            exec_destroy(p.exec[1]);
            p.graph[1] = p.exec[1] = NULL;
        } else {
            tutti_gpu_destroy(p.w.gpu[1]);
            p.w.gpu[1] = NULL;
        }
        world_sync(&p.w, 0);
        assert_status(tutti_gpu_status(p.w.gpu[0]), TUTTI_ERR_PEER_LOST);
        assert_says("rank 1 has destroyed the CUDA graph");
        pair_close(&p);
    }
}

/* Rank 0 has joined the exchange of its first collective, and has not yet seen that rank 1 did not
 * join. Meanwhile rank 1 completes this collective, creates its tutti_gpu again, and runs the same
 * operation as the first one of a graph. */
static void a_new_gpu_does_not_join_an_exchange_of_the_old_one(void **state)
{
    struct tt_gpu_exchange *x;
    void *src[2], *dst[2];
    tutti_gpu_op op;
    unsigned char got[64];
    struct world w;
    exec_t exec;

    (void)state;
    world_open(&w, 2, NULL);
    for (int r = 0; r < 2; r++) {
        src[r] = world_alloc(&w, r, 64, 1 + r);
        dst[r] = world_alloc(&w, r, 64, 0);
    }
    op = (tutti_gpu_op){
        .kind = TUTTI_GPU_ALLTOALL, .gpu = w.gpu[0], .count = 32, .type = TUTTI_U8
    };
    x = tt_gpu_exchange_join(w.gpu[0], &op, &w);
    assert_non_null(x);
    for (int r = 0; r < 2; r++)
        assert_ok(tutti_gpu_alltoall(src[r], dst[r], 32, TUTTI_U8, w.gpu[r], w.stream[r]));
    sync_all(&w);
    tutti_gpu_destroy(w.gpu[1]);
    world_create_gpu(&w, 1, NULL);
    capture_begin(&w, 1, CAPTURE_THREAD);
    assert_ok(tutti_gpu_alltoall(src[1], dst[1], 32, TUTTI_U8, w.gpu[1], w.stream[1]));
    exec = capture_end_exec(&w, 1);
    for (int i = 0; i < 3; i++) {
        exec_launch(&w, 1, exec);
        assert_ok(tutti_gpu_alltoall(src[0], dst[0], 32, TUTTI_U8, w.gpu[0], w.stream[0]));
        sync_all(&w);
    }
    assert_false(tt_gpu_exchange_is_complete(x));
    assert_int_equal(exchanged(w.gpu[1]), 0);
    tt_gpu_exchange_leave(x, 0);
    world_read(&w, 1, got, dst[1], sizeof got);
    for (int i = 0; i < 64; i++)
        assert_int_equal(got[i], 1 + i / 32);
    exec_destroy(exec);
    for (int r = 0; r < 2; r++) {
        world_free(&w, r, src[r]);
        world_free(&w, r, dst[r]);
    }
    world_close(&w);
}

/* The second launch arrives while the first one waits for rank 1. */
static void overlapping_exchanges_are_an_error(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p);
    exec_launch(&p.w, 0, p.exec[0]);
    while (exchanged(p.w.gpu[0]) < 2)
        sched_yield();
    tt_gpu_captured_arrive(tt_gpu_captured_handle(p.w.gpu[0]->captured, 0));
    world_sync(&p.w, 0);
    assert_status(tutti_gpu_status(p.w.gpu[0]), TUTTI_ERR_INVALID);
    assert_says("tutti_gpu_alltoall: overlapping launches of CUDA graphs from the same capture");
    pair_close(&p);
}

static void *destroy(void *gpu)
{
    tutti_gpu_destroy(gpu);
    return NULL;
}

/* Rank 1 launches after rank 0 has begun to destroy its tutti_gpu. */
static void destroy_waits_for_an_exchange(void **state)
{
    unsigned char got[64];
    pthread_t thread;
    struct pair p;

    (void)state;
    pair_open(&p);
    memset(got, 7, sizeof got);
    world_write(&p.w, 1, p.src[1], got, sizeof got);
    exec_launch(&p.w, 0, p.exec[0]);
    while (exchanged(p.w.gpu[0]) < 2)
        sched_yield();
    assert_int_equal(pthread_create(&thread, NULL, destroy, p.w.gpu[0]), 0);
    exec_launch(&p.w, 1, p.exec[1]);
    pthread_join(thread, NULL);
    p.w.gpu[0] = NULL;
    world_read(&p.w, 0, got, p.dst[0], sizeof got);
    assert_int_equal(got[31], 1);
    assert_int_equal(got[32], 7);
    world_sync(&p.w, 1);
    assert_ok(tutti_gpu_status(p.w.gpu[1]));
    assert_ok(tutti_gpu_graph_status());
    pair_close(&p);
}

/* All ranks have sent their blocks, but rank 0's device fails before rank 0 has received them. Its
 * tutti_gpu reports the error (i = 0), or is destroyed first (i = 1). */
static void a_device_error_ends_an_exchange(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        bool broken;
        struct pair p;

        pair_open(&p);
        exec_launch(&p.w, 0, p.exec[0]);
        while (exchanged(p.w.gpu[0]) < 2)
            sched_yield();
        broken = device_break(&p.w, 0);
        exec_launch(&p.w, 1, p.exec[1]);
        world_sync(&p.w, 1);
        if (!broken) {
            pair_close(&p);
            skip();
        }
        if (!i) {
            while (!tutti_gpu_status(p.w.gpu[0]))
                sched_yield();
            assert_status(tutti_gpu_status(p.w.gpu[0]), TUTTI_ERR_SYSTEM);
            assert_says("gpu: device 0 failed during the launch of a CUDA graph: CUDA error");
        }
        tutti_gpu_destroy(p.w.gpu[0]);
        device_reset(0);
        p.w.gpu[0] = NULL;
        p.src[0] = p.dst[0] = NULL;
        pair_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queued_launches_do_not_overwrite_each_other),
        cmocka_unit_test(exchanges_and_other_operations_share_a_graph),
        cmocka_unit_test(other_operations_stay_with_the_workers),
        cmocka_unit_test(a_deadline_names_the_rank_that_did_not_launch),
        cmocka_unit_test(an_abort_releases_an_exchange),
        cmocka_unit_test(a_rank_that_leaves_releases_an_exchange),
        cmocka_unit_test(a_new_gpu_does_not_join_an_exchange_of_the_old_one),
        cmocka_unit_test(overlapping_exchanges_are_an_error),
        cmocka_unit_test(destroy_waits_for_an_exchange),
        cmocka_unit_test(a_device_error_ends_an_exchange),
    };

    world_devices();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
