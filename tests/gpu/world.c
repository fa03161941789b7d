#include "world.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define assert_cuda(call) assert_int_equal(call, 0)

struct joiner {
    struct world *w;
    const tutti_id *id;
    int rank;
    tutti_status status;
    pthread_t thread;
};

int world_devices(void)
{
    const struct tt_cuda *cu;
    int count = 0;

    if (tt_cuda_load(&cu))
        exit(77);
    assert_cuda(cu->device_count(&count));
    return count;
}

static void *join_ranks(void *arg)
{
    struct joiner *j = arg;
    const tutti_conf conf = { .size = sizeof conf };

    j->status = tutti_comm_create_id(&j->w->comm[j->rank], j->id, j->w->n, j->rank, &conf);
    if (!j->status)
        j->status = tutti_comm_dup(j->w->comm[j->rank], &j->w->host[j->rank]);
    return NULL;
}

static void open_comms(struct world *w)
{
    struct joiner joiner[WORLD_RANKS];
    tutti_id id;

    assert_ok(tutti_id_create(&id, NULL));
    for (int r = 0; r < w->n; r++) {
        joiner[r] = (struct joiner){ .w = w, .id = &id, .rank = r };
        assert_int_equal(pthread_create(&joiner[r].thread, NULL, join_ranks, &joiner[r]), 0);
    }
    for (int r = 0; r < w->n; r++) {
        pthread_join(joiner[r].thread, NULL);
        assert_ok(joiner[r].status);
    }
}

static void enter(struct world *w, int rank)
{
    assert_cuda(w->cu->context_push(w->context[rank]));
}

static void leave(struct world *w)
{
    tt_cuda_context was;

    assert_cuda(w->cu->context_pop(&was));
}

void world_create_gpu(struct world *w, int rank, const tutti_gpu_conf *conf)
{
    tutti_gpu_conf mine = { 0 };

    if (conf)
        mine = *conf;
    mine.size = sizeof mine;
    mine.has_device = 1;
    mine.device = rank % world_devices();
    assert_ok(tutti_gpu_create(&w->gpu[rank], w->comm[rank], &mine));
}

void world_open(struct world *w, int n, const tutti_gpu_conf *conf)
{
    const int ndevices = world_devices();

    *w = (struct world){ .n = n };
    assert_ok(tt_cuda_load(&w->cu));
    open_comms(w);
    for (int r = 0; r < n; r++) {
        world_create_gpu(w, r, conf);
        assert_cuda(w->cu->primary_retain(&w->context[r], r % ndevices));
        enter(w, r);
        assert_cuda(w->cu->stream_create(&w->stream[r], TT_CUDA_STREAM_NON_BLOCKING));
        leave(w);
    }
}

void world_close(struct world *w)
{
    for (int r = 0; r < w->n; r++) {
        tutti_gpu_destroy(w->gpu[r]);
        enter(w, r);
        assert_cuda(w->cu->stream_synchronize(w->stream[r]));
        assert_cuda(w->cu->stream_destroy(w->stream[r]));
        leave(w);
        assert_cuda(w->cu->primary_release(r % world_devices()));
    }
    for (int r = 0; r < w->n; r++) {
        tutti_comm_destroy(w->host[r]);
        tutti_comm_destroy(w->comm[r]);
    }
}

void *world_alloc(struct world *w, int rank, size_t bytes, int fill)
{
    tt_cuda_address mem = 0;
    void *host = malloc(bytes);

    assert_non_null(host);
    memset(host, fill, bytes);
    enter(w, rank);
    assert_cuda(w->cu->mem_alloc(&mem, bytes));
    leave(w);
    world_write(w, rank, (void *)(uintptr_t)mem, host, bytes);
    free(host);
    return (void *)(uintptr_t)mem;
}

void world_free(struct world *w, int rank, void *mem)
{
    enter(w, rank);
    assert_cuda(w->cu->mem_free(tt_cuda_address_of(mem)));
    leave(w);
}

static void copy(struct world *w, int rank, void *dst, const void *src, size_t bytes)
{
    enter(w, rank);
    assert_cuda(
        w->cu->copy(tt_cuda_address_of(dst), tt_cuda_address_of(src), bytes, w->stream[rank]));
    assert_cuda(w->cu->stream_synchronize(w->stream[rank]));
    leave(w);
}

void world_write(struct world *w, int rank, void *dst, const void *src, size_t bytes)
{
    copy(w, rank, dst, src, bytes);
}

void world_read(struct world *w, int rank, void *dst, const void *src, size_t bytes)
{
    copy(w, rank, dst, src, bytes);
}

void world_sync(struct world *w, int rank)
{
    enter(w, rank);
    assert_cuda(w->cu->stream_synchronize(w->stream[rank]));
    leave(w);
}

void gate_open(struct gate *g, struct world *w)
{
    g->w = w;
    enter(w, 0);
    assert_cuda(w->cu->host_alloc((void **)&g->word, sizeof *g->word,
                                  TT_CUDA_HOST_PORTABLE | TT_CUDA_HOST_DEVICE_MAP));
    leave(w);
    *g->word = 0;
}

void gate_hold(struct gate *g, int rank)
{
    tt_cuda_address word;

    enter(g->w, rank);
    assert_cuda(g->w->cu->host_address(&word, g->word, 0));
    assert_cuda(g->w->cu->stream_wait_value(g->w->stream[rank], word, 1, 0));
    leave(g->w);
}

void gate_lift(struct gate *g)
{
    __atomic_store_n(g->word, 1, __ATOMIC_RELEASE);
}

void gate_close(struct gate *g)
{
    enter(g->w, 0);
    assert_cuda(g->w->cu->host_free(g->word));
    leave(g->w);
}
