/* The kernels of the device tests on a GPU, in a job of three ranks: tutti run -n 3 -- device_run
 * (test_device_gpu.sh). Windows, sources, lists and the FIFO are in pinned host memory; hashed data
 * is in GPU memory. Ranks share GPUs if there are fewer. Exit status 77: there is no GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_check.h"
#include "device_kernels.cu"
#include "tutti/moe.h"

#define RANKS 3
#define THREADS 64
#define BLOCKS 4u
#define CROWD 32u
#define ROUNDS 12u
#define SLOT_BYTES (1u << 20)
#define PIECES 8u
#define PIECE_BYTES 5000u
#define TURNS 12u
#define PATIENCE_MS 300
#define START 0
#define OVER 1
#define HASHED_BYTES (40ull << 20)
#define SHIFTS 16u
#define HASHES 200u

/* State of a rank. */
struct here {
    tutti_comm *comm;
    tutti_window *window;
    tutti_device *device;
    uint8_t *mem;
    tutti_status *out;          /* [blocks] */
    uint32_t rank;
};

/* Allocates pinned, zeroed memory, which stays allocated until the process ends. */
static void *have(size_t bytes)
{
    void *mem = tutti_device_cuda_alloc(bytes, TUTTI_DEVICE_SHARED, NULL);

    CHECK(mem);
    return mem;
}

static tutti_device_view begin(struct here *h, size_t bytes)
{
    tutti_device_view v;

    h->mem = (uint8_t *)have(bytes);
    CHECK(tutti_window_create(h->comm, h->mem, bytes, &h->window) == TUTTI_OK);
    CHECK(device_for_cuda(h->window, 0, &h->device) == TUTTI_OK);
    CHECK(tutti_device_view_of(h->device, &v) == TUTTI_OK);
    return v;
}

static void end(struct here *h)
{
    CHECK(tutti_barrier(h->comm, NULL) == TUTTI_OK);
    CHECK(tutti_device_destroy(h->device) == TUTTI_OK);
    CHECK(tutti_window_free(h->window) == TUTTI_OK);
}

/* Waits for the end of a kernel, and checks the status of all its blocks. */
static void await(const struct here *h, uint32_t nblocks)
{
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    for (uint32_t i = 0; i < nblocks; i++)
        CHECK(h->out[i] == TUTTI_OK);
}

/* No signal arrives before its bytes: all ranks to all, in all modes. */
static void play_exchange(struct here *h)
{
    const size_t slots = BLOCKS * RANKS;
    struct exchange *x = (struct exchange *)have(sizeof *x);
    tutti_device_counters c = {};

    c.size = sizeof c;
    begin(h, 2 * 64 * slots + slots * SLOT_BYTES);
    x->rounds = ROUNDS;
    x->flush_every = 4;
    x->seed = 20261125;
    x->slot_bytes = SLOT_BYTES;
    x->src = (uint8_t *)have(slots * SLOT_BYTES);
    x->published = (uint64_t *)have(RANKS * sizeof *x->published);
    for (int mode = 0; mode < TUTTI_DEVICE_MODES; mode++) {
        const bool drains = mode == TUTTI_DEVICE_COUPLED || mode == TUTTI_DEVICE_DECOUPLED;
        tutti_device_view v;

        CHECK(tutti_device_set_mode(h->device, (tutti_device_mode)mode, TUTTI_DEVICE_SEQUENCED) == TUTTI_OK);
        CHECK(tutti_device_counters_reset(h->device) == TUTTI_OK);
        CHECK(tutti_device_view_of(h->device, &v) == TUTTI_OK);
        exchange<<<BLOCKS, THREADS>>>(v, x, h->out);
        await(h, BLOCKS);
        CHECK(x->wrong == 0);
        CHECK(tutti_device_read_counters(h->device, &c) == TUTTI_OK);
        CHECK(c.puts > 0 && c.signals > 0 && (drains ? c.drains > 0 && c.fences == 0 : c.drains == 0 && c.fences > 0));
        x->first += x->rounds;
    }
    end(h);
}

/* Many blocks add to one word of rank 1. */
static void play_crowd(struct here *h)
{
    const uint64_t sum = (uint64_t)CROWD * (CROWD + 1) / 2 * ROUNDS;
    struct crowd *c = (struct crowd *)have(sizeof *c);
    const tutti_device_view v = begin(h, 64 + 8 * CROWD);

    c->times = ROUNDS;
    c->src = (uint64_t *)have(CROWD * sizeof *c->src);
    if (h->rank == 0) {
        crowd<<<CROWD, THREADS>>>(v, c, h->out);
        await(h, CROWD);
    } else if (h->rank == 1) {
        CHECK(tutti_window_wait(h->window, 0, TUTTI_EQUAL, sum, 0, NULL) == TUTTI_OK);
        for (uint64_t i = 0; i < CROWD; i++)
            CHECK(((const uint64_t *)(const void *)(h->mem + 64))[i] == i + 1);
    }
    end(h);
}

/* Puts, fences, and signals in the opposite order. */
static void play_fences(struct here *h)
{
    const size_t bytes = PIECES * PIECE_BYTES;
    struct fences *f = (struct fences *)have(sizeof *f);
    uint8_t *src = (uint8_t *)have(bytes);
    const tutti_device_view v = begin(h, 64 + bytes);

    for (size_t i = 0; i < bytes; i++)
        src[i] = exchange_byte(9ull << 40, i);
    f->npieces = PIECES;
    f->piece_bytes = PIECE_BYTES;
    f->src = src;
    if (h->rank == 0) {
        fences<<<1, THREADS>>>(v, f, h->out);
        await(h, 1);
    } else {
        CHECK(tutti_window_wait(h->window, 0, TUTTI_EQUAL, 1, 0, NULL) == TUTTI_OK);
        CHECK(memcmp(h->mem + 64, src, bytes) == 0);
    }
    end(h);
}

/* A kernel adds to signals of its own rank while others add to the same word. The proxy must
 * execute each: atomic instructions of a GPU are not atomic for the host. */
static void play_own_words(struct here *h)
{
    const uint64_t sum = (uint64_t)RANKS * CROWD * ROUNDS;
    const tutti_device_view v = begin(h, 64);

    add_to_all<<<CROWD, THREADS>>>(v, ROUNDS, h->out);
    await(h, CROWD);
    CHECK(tutti_window_wait(h->window, 0, TUTTI_EQUAL, sum, 0, NULL) == TUTTI_OK);
    end(h);
}

/* Blocks whose waits fail: at the timeout, and when the host aborts the device. */
static void play_ends(struct here *h)
{
    tutti_device_view v = begin(h, 64);

    CHECK(tutti_device_destroy(h->device) == TUTTI_OK);
    CHECK(device_for_cuda(h->window, PATIENCE_MS, &h->device) == TUTTI_OK);
    CHECK(tutti_device_view_of(h->device, &v) == TUTTI_OK);
    await_word<<<BLOCKS, THREADS>>>(v, h->out);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    for (uint32_t i = 0; i < BLOCKS; i++)
        CHECK(h->out[i] == TUTTI_ERR_TIMEOUT);
    CHECK(tutti_device_destroy(h->device) == TUTTI_OK);     /* a timeout has no further effect */
    CHECK(device_for_cuda(h->window, -1, &h->device) == TUTTI_OK);
    CHECK(tutti_device_view_of(h->device, &v) == TUTTI_OK);
    await_word<<<BLOCKS, THREADS>>>(v, h->out);
    usleep(PATIENCE_MS * 1000);
    CHECK(cudaStreamQuery(0) == cudaErrorNotReady);
    CHECK(tutti_device_abort(h->device) == TUTTI_OK);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    for (uint32_t i = 0; i < BLOCKS; i++)
        CHECK(h->out[i] == TUTTI_ERR_ABORTED);
    CHECK(tutti_barrier(h->comm, NULL) == TUTTI_OK);
    CHECK(tutti_device_destroy(h->device) == TUTTI_ERR_ABORTED);
    CHECK(tutti_window_free(h->window) == TUTTI_OK);
}

/* An exchange that starts when a kernel has written its lists: within one kernel, and as successive
 * launches in a stream. */
static void play_route(struct here *h)
{
    const size_t bytes = ROUTE_SPLITS * ROUTE_LENGTH_MAX;
    struct route *x = (struct route *)have(sizeof *x);
    void **recv = (void **)have(RANKS * sizeof *recv);
    tutti_device_view v = begin(h, 64);
    tutti_dynamic what = {};
    tutti_call call = {};
    cudaStream_t stream;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    for (int k = 0; k < RANKS; k++)
        recv[k] = have(bytes);
    x->start = START;
    x->over = OVER;
    x->lengths = (size_t *)have(ROUTE_SPLITS * sizeof *x->lengths);
    x->indices = (size_t *)have(RANKS * ROUTE_SPLITS * sizeof *x->indices);
    x->block_lens = (size_t *)have(RANKS * sizeof *x->block_lens);
    x->send = (uint8_t *)have(bytes);
    x->recv = recv;
    what.size = sizeof what;
    what.sendbuff = x->send;
    what.split_lengths = x->lengths;
    what.nsplits = ROUTE_SPLITS;
    what.indices = x->indices;
    what.index_block_lens = x->block_lens;
    what.recvbuffs = recv;
    what.max_length = ROUTE_LENGTH_MAX;
    CHECK(tutti_device_flag(h->device, START, (uint64_t **)&what.start) == TUTTI_OK);
    CHECK(tutti_device_flag(h->device, OVER, &what.over) == TUTTI_OK);
    call.size = sizeof call;
    for (uint64_t turn = 1; turn <= TURNS; turn++) {
        tutti_request *request = NULL;

        x->turn = what.start_value = what.over_value = turn;
        call.request = &request;
        /* reads of unwritten lists would be detected */
        memset(x->lengths, 0xff, ROUTE_SPLITS * sizeof *x->lengths);
        memset(x->block_lens, 0xff, RANKS * sizeof *x->block_lens);
        CHECK(tutti_alltoallv_dynamic(&what, TUTTI_U8, h->comm, &call) == TUTTI_OK);
        if (turn % 2) {
            route<<<2, THREADS, 0, stream>>>(v, x, h->out);
            CHECK(cudaGetLastError() == cudaSuccess);
        } else {
            CHECK(route_on(stream, &v, x) == cudaSuccess);
        }
        CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
        CHECK(h->out[0] == TUTTI_OK && h->out[1] == TUTTI_OK && x->wrong == 0);
        CHECK(tutti_wait(request) == TUTTI_OK);
    }
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    end(h);
}

/* Computes the hash on this processor, in one block with one thread. */
static void hash_here(const uint8_t *data, uint64_t bytes, uint32_t value[4])
{
    uint32_t sum[4] = { 0, 0, 0, 0 };

    CHECK(tutti_hash_blocks(0, 1, data, bytes, 0, sum) == TUTTI_OK);
    tutti_hash_end(value, sum, bytes);
}

/* Hashes of GPU memory equal those of the same bytes on the host, for any size and alignment, in
 * one launch or several. */
static void play_hash(struct here *h)
{
    uint8_t *data = (uint8_t *)malloc(HASHED_BYTES), *on_gpu;
    uint32_t want[4], got[4], *sum;
    uint64_t draw = h->rank;

    CHECK(data != NULL);
    CHECK(cudaMalloc((void **)&on_gpu, HASHED_BYTES) == cudaSuccess);
    CHECK(cudaMalloc((void **)&sum, sizeof got) == cudaSuccess);
    for (uint64_t i = 0; i < HASHED_BYTES / 8; i++)
        ((uint64_t *)(void *)data)[i] = exchange_mix(i + draw);
    CHECK(cudaMemcpy(on_gpu, data, HASHED_BYTES, cudaMemcpyHostToDevice) == cudaSuccess);
    for (uint32_t i = 0; i < HASHES; i++) {
        const uint64_t shift = (draw = exchange_mix(draw)) % SHIFTS, most = i % 4 ? 1ull << (8 + i % 14) : HASHED_BYTES;
        const uint64_t bytes = i ? (draw >> 8) % (most - shift) : 0;
        const uint64_t half = bytes / 2 / TUTTI_HASH_BLOCK_BYTES * TUTTI_HASH_BLOCK_BYTES;

        hash_here(data + shift, bytes, want);
        CHECK(tutti_hash_cuda(0, on_gpu + shift, bytes, got) == cudaSuccess);
        CHECK(memcmp(got, want, sizeof got) == 0);
        CHECK(cudaMemset(sum, 0, sizeof got) == cudaSuccess);
        CHECK(tutti_hash_on(0, on_gpu + shift, half, 0, sum) == cudaSuccess);
        CHECK(tutti_hash_on(0, on_gpu + shift + half, bytes - half, half / TUTTI_HASH_BLOCK_BYTES, sum) == cudaSuccess);
        CHECK(cudaMemcpy(got, sum, sizeof got, cudaMemcpyDeviceToHost) == cudaSuccess);
        tutti_hash_end(got, got, bytes);
        CHECK(memcmp(got, want, sizeof got) == 0);
    }
    CHECK(cudaFree(sum) == cudaSuccess);
    CHECK(cudaFree(on_gpu) == cudaSuccess);
    free(data);
}

int main(void)
{
    struct cudaDeviceProp what;
    struct here h = {};
    int ndevices = 0;

    if (cudaGetDeviceCount(&ndevices) != cudaSuccess || ndevices == 0) {
        printf("there is no GPU here\n");
        return SKIPPED;
    }
    CHECK(tutti_comm_create(&h.comm, NULL) == TUTTI_OK);
    CHECK(tutti_comm_size(h.comm) == RANKS);
    h.rank = (uint32_t)tutti_comm_rank(h.comm);
    CHECK(cudaSetDevice((int)h.rank % ndevices) == cudaSuccess);
    CHECK(cudaGetDeviceProperties(&what, (int)h.rank % ndevices) == cudaSuccess);
    h.out = (tutti_status *)have(CROWD * sizeof *h.out);
    play_exchange(&h);
    play_crowd(&h);
    play_fences(&h);
    play_own_words(&h);
    play_ends(&h);
    play_route(&h);
    play_hash(&h);
    printf("rank %u: exchange, crowd, fences, own words, ends, exchanges by flags and hashes ran "
           "on %s\n",
           h.rank, what.name);
    tutti_comm_destroy(h.comm);
    return 0;
}
