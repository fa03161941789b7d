/* The cost of library calls in GPU kernels: a put with signal, through the FIFO and the proxy,
 * between two ranks in one process, whose kernels run concurrently on one GPU; and the hash of
 * shared state.
 *
 *   gpu [wires]                            as TUTTI_WIRES; default shm
 *
 * Prints one JSON object per measurement, {"what", "wires", "mode", "bytes", "tiles", "us": [...]},
 * with the microseconds of each of ROUNDS launches:
 *   flag     half a round trip of a word of pinned memory between two kernels, without a processor
 *   bounce   a round trip between a kernel and a thread that polls one word and writes another: the
 *            minimum cost of any proxy
 *   trip     half a round trip of put_signal of that many bytes
 *   burst    from the first put to the last observed signal, for `tiles` tiles by 8 blocks, each
 *            block a member of the group: by mode of the proxy
 *   copy     of that many bytes within the GPU's memory
 *   hash     of that many bytes, in place
 * Exit status 77: there is no GPU. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tutti/hash_device.h"

#define SKIPPED 77
#define RANKS 2
#define THREADS 128
#define BLOCKS 8u
#define ROUNDS 9u
#define TRIPS 300u
#define SLOT_BYTES (1u << 20)
#define TIMEOUT_MS 60000
#define HASHED_BYTES (1ull << 30)

#define CHECK(cond) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: %s does not hold; %s; %s\n", __FILE__, __LINE__, #cond, tutti_last_error(), \
                    cudaGetErrorString(cudaPeekAtLastError())); \
            exit(1); \
        } \
    } while (0)

/* State shared by both ranks. */
struct play {
    char address[128];
    const char *wires;
    pthread_barrier_t both;
    uint64_t *ping, *pong;      /* pinned words of FLAG and BOUNCE */
};

struct side {
    struct play *play;
    int rank;
    tutti_comm *comm;
    tutti_window *window;
    tutti_device *device;
    tutti_device_view view;
    cudaStream_t stream;
    uint8_t *mem, *src;         /* pinned: signals in the first 4 KiB, then bytes */
    uint64_t *took_ns;          /* pinned: of a kernel */
    tutti_status *out;          /* pinned, [BLOCKS] */
    uint64_t turn, bursts, tiles;       /* expected values of the signals */
};

static void *have(size_t bytes)
{
    void *mem = tutti_device_cuda_alloc(bytes, TUTTI_DEVICE_SHARED, NULL);

    CHECK(mem);
    return mem;
}

__device__ uint64_t gpu_now_ns(void)
{
    uint64_t ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* ---- kernels ---- */

/* Passes words in turn up to `last`; the serving side writes first. The first trip synchronizes
 * both sides and is not timed. */
__global__ void rally_words(const uint64_t *mine, uint64_t *theirs, int serves, uint64_t first, uint64_t trips, uint64_t *took_ns)
{
    uint64_t began = 0;

    for (uint64_t i = 0; i <= trips; i++) {
        if (i == 1)
            began = gpu_now_ns();
        if (serves)
            tutti_device_store_release(theirs, first + i);
        while (tutti_device_load_acquire(mine) < first + i)
            ;
        if (!serves)
            tutti_device_store_release(theirs, first + i);
    }
    *took_ns = gpu_now_ns() - began;
}

__global__ void rally_puts(tutti_device_view v, const uint8_t *src, uint64_t bytes, uint64_t first, uint64_t *took_ns, tutti_status *out)
{
    const uint32_t other = 1 - v.rank;
    tutti_status st = TUTTI_OK;
    uint64_t began = 0;

    for (uint64_t i = 0; i <= TRIPS && !st; i++) {
        if (i == 1)
            began = gpu_now_ns();
        if (v.rank == 1)
            st = tutti_device_wait(&v, 0, TUTTI_EQUAL, first + i, NULL);
        if (!st)
            st = tutti_device_put_signal(&v, other, 4096, src, bytes, TUTTI_SIGNAL_SET, 0, first + i);
        if (!st && v.rank == 0)
            st = tutti_device_wait(&v, 0, TUTTI_EQUAL, first + i, NULL);
    }
    if (!st)
        st = tutti_device_flush(&v, other);
    if (tutti_device_thread() == 0) {
        *took_ns = gpu_now_ns() - began;
        out[blockIdx.x] = st;
    }
}

/* Each block of rank 0 puts `tiles` tiles as a member of one group, after `before` earlier ones.
 * Each block of rank 1 waits for those with its number, and reports when all have arrived. */
__global__ void burst(tutti_device_view v, const uint8_t *src, uint64_t bytes, uint64_t before, uint32_t tiles, uint64_t turn, uint64_t *took_ns, tutti_status *out)
{
    const uint32_t nblocks = gridDim.x, block = blockIdx.x;
    const uint64_t word = 64ull * (1 + block);
    const uint64_t began = gpu_now_ns();
    tutti_device_signal_to signals[BLOCKS];
    tutti_status st = TUTTI_OK;

    for (uint32_t b = 0; b < nblocks; b++) {
        signals[b].peer = 1;
        signals[b].op = TUTTI_SIGNAL_ADD;
        signals[b].offset = 64ull * (1 + b);
        signals[b].value = 1;
    }
    for (uint32_t i = 0; i < tiles && !st; i++) {
        if (v.rank == 0) {
            st = tutti_device_group_put(&v, 4096 + bytes * block, src + bytes * block, bytes, &signals[block]);
            if (!st)
                st = tutti_device_group_publish(&v, 0);
            if (!st && block == 0)
                st = tutti_device_group_signal(&v, 0, nblocks * (before + i + 1), signals, nblocks);
        } else {
            st = tutti_device_wait(&v, word, TUTTI_AT_LEAST, before + i + 1, NULL);
        }
    }
    if (!st && v.rank == 1)
        st = tutti_device_signal(&v, 0, TUTTI_SIGNAL_ADD, 2048, 1);
    if (!st && v.rank == 0 && block == 0)
        st = tutti_device_wait(&v, 2048, TUTTI_AT_LEAST, nblocks * turn, NULL);
    if (tutti_device_thread() == 0) {
        if (block == 0)
            *took_ns = gpu_now_ns() - began;
        out[block] = st;
    }
}

/* ---- one launch of each ---- */

static void finish(const struct side *s, uint32_t nblocks)
{
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(cudaStreamSynchronize(s->stream) == cudaSuccess);
    for (uint32_t b = 0; b < nblocks; b++)
        CHECK(s->out[b] == TUTTI_OK);
}

static void meet(const struct side *s)
{
    pthread_barrier_wait(&s->play->both);
}

static double flag_us(struct side *s)
{
    uint64_t *mine = s->rank ? s->play->pong : s->play->ping, *theirs = s->rank ? s->play->ping : s->play->pong;
    const uint64_t first = *mine + 1;

    meet(s);
    rally_words<<<1, 1, 0, s->stream>>>(mine, theirs, s->rank == 0, first, TRIPS, s->took_ns);
    finish(s, 0);
    return (double)*s->took_ns * 1e-3 / (2.0 * TRIPS);
}

/* The other side is a thread of rank 1. */
static double bounce_us(struct side *s)
{
    const uint64_t first = *s->play->ping + 1;

    meet(s);
    if (s->rank == 0)
        rally_words<<<1, 1, 0, s->stream>>>(s->play->ping, s->play->pong, 1, first, TRIPS, s->took_ns);
    else
        for (uint64_t i = first; i <= first + TRIPS; i++) {
            while (__atomic_load_n(s->play->pong, __ATOMIC_ACQUIRE) < i)
                ;
            __atomic_store_n(s->play->ping, i, __ATOMIC_RELEASE);
        }
    finish(s, 0);
    return (double)*s->took_ns * 1e-3 / TRIPS;
}

static double trip_us(struct side *s, uint64_t bytes)
{
    meet(s);
    rally_puts<<<1, THREADS, 0, s->stream>>>(s->view, s->src, bytes, s->turn + 1, s->took_ns, s->out);
    finish(s, 1);
    s->turn += TRIPS + 1;
    return (double)*s->took_ns * 1e-3 / (2.0 * TRIPS);
}

static double burst_us(struct side *s, uint64_t bytes, uint32_t tiles)
{
    meet(s);
    s->bursts++;
    burst<<<BLOCKS, THREADS, 0, s->stream>>>(s->view, s->src, bytes, s->tiles, tiles, s->bursts, s->took_ns, s->out);
    finish(s, BLOCKS);
    s->tiles += tiles;
    return (double)*s->took_ns * 1e-3;
}

/* ---- the whole ---- */

static void say(const struct side *s, const char *what, const char *mode, uint64_t bytes, uint32_t tiles, const double *us)
{
    if (s->rank != 0)
        return;
    printf("{\"what\": \"%s\", \"wires\": \"%s\", \"mode\": \"%s\", \"bytes\": %llu, \"tiles\": "
           "%u, \"us\": [",
           what, s->play->wires, mode, (unsigned long long)bytes, tiles);
    for (uint32_t i = 0; i < ROUNDS; i++)
        printf("%s%.3f", i ? ", " : "", us[i]);
    printf("]}\n");
    fflush(stdout);
}

static void make_device(struct side *s)
{
    tutti_device_conf conf = {};

    conf.size = sizeof conf;
    conf.groups = 1;
    conf.no_direct = 1;
    conf.alloc = tutti_device_cuda_alloc;
    conf.free = tutti_device_cuda_free;
    s->mem = (uint8_t *)have(4096 + BLOCKS * SLOT_BYTES);
    s->src = (uint8_t *)have(BLOCKS * SLOT_BYTES);
    s->took_ns = (uint64_t *)have(sizeof *s->took_ns);
    s->out = (tutti_status *)have(BLOCKS * sizeof *s->out);
    CHECK(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(tutti_window_create(s->comm, s->mem, 4096 + BLOCKS * SLOT_BYTES, &s->window) == TUTTI_OK);
    CHECK(tutti_device_create(s->window, &conf, &s->device) == TUTTI_OK);
    CHECK(tutti_device_view_of(s->device, &s->view) == TUTTI_OK);
}

static void measure_trips(struct side *s)
{
    static const uint64_t sizes[] = { 0, 8, 1024, 16384, 131072, 1048576 };
    double us[ROUNDS];

    for (uint32_t i = 0; i < ROUNDS; i++)
        us[i] = flag_us(s);
    say(s, "flag", "", 8, 1, us);
    for (uint32_t i = 0; i < ROUNDS; i++)
        us[i] = bounce_us(s);
    say(s, "bounce", "", 8, 1, us);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (uint32_t i = 0; i < ROUNDS; i++)
            us[i] = trip_us(s, sizes[k]);
        say(s, "trip", "default", sizes[k], 1, us);
    }
}

/* Runs all modes in turn in each round. */
static void measure_bursts(struct side *s, uint64_t bytes, uint32_t tiles)
{
    double us[TUTTI_DEVICE_MODES][ROUNDS];

    for (uint32_t i = 0; i < ROUNDS; i++)
        for (int mode = TUTTI_DEVICE_COUPLED; mode < TUTTI_DEVICE_MODES; mode++) {
            CHECK(tutti_device_set_mode(s->device, (tutti_device_mode)mode, TUTTI_DEVICE_SEQUENCED) == TUTTI_OK);
            CHECK(tutti_device_view_of(s->device, &s->view) == TUTTI_OK);
            us[mode][i] = burst_us(s, bytes, tiles);
        }
    for (int mode = TUTTI_DEVICE_COUPLED; mode < TUTTI_DEVICE_MODES; mode++)
        say(s, "burst", tutti_device_mode_name((tutti_device_mode)mode), bytes, BLOCKS * tiles,
            us[mode]);
}

/* Runs on one rank, while no other kernel runs. */
static void measure_hash(const struct side *s)
{
    double us[2][ROUNDS];
    uint32_t *sum;
    uint8_t *from, *to;
    cudaEvent_t events[3];
    float ms;

    for (int i = 0; i < 3; i++)
        CHECK(cudaEventCreate(&events[i]) == cudaSuccess);
    CHECK(cudaMalloc((void **)&from, HASHED_BYTES) == cudaSuccess && cudaMalloc((void **)&to, HASHED_BYTES) == cudaSuccess);
    CHECK(cudaMalloc((void **)&sum, 4 * sizeof *sum) == cudaSuccess);
    CHECK(cudaMemset(from, 0x5a, HASHED_BYTES) == cudaSuccess && cudaMemset(sum, 0, 4 * sizeof *sum) == cudaSuccess);
    for (uint32_t i = 0; i <= ROUNDS; i++) {        /* the first warms up */
        CHECK(cudaEventRecord(events[0], s->stream) == cudaSuccess);
        CHECK(cudaMemcpyAsync(to, from, HASHED_BYTES, cudaMemcpyDeviceToDevice, s->stream) == cudaSuccess);
        CHECK(cudaEventRecord(events[1], s->stream) == cudaSuccess);
        CHECK(tutti_hash_on(s->stream, from, HASHED_BYTES, 0, sum) == cudaSuccess);
        CHECK(cudaEventRecord(events[2], s->stream) == cudaSuccess);
        CHECK(cudaStreamSynchronize(s->stream) == cudaSuccess);
        for (int k = 0; k < 2 && i > 0; k++) {
            CHECK(cudaEventElapsedTime(&ms, events[k], events[k + 1]) == cudaSuccess);
            us[k][i - 1] = ms * 1e3;
        }
    }
    say(s, "copy", "", HASHED_BYTES, 1, us[0]);
    say(s, "hash", "", HASHED_BYTES, 1, us[1]);
    CHECK(cudaFree(from) == cudaSuccess && cudaFree(to) == cudaSuccess && cudaFree(sum) == cudaSuccess);
}

static void *run(void *arg)
{
    struct side *s = (struct side *)arg;
    tutti_conf conf = {};

    conf.size = sizeof conf;
    conf.rendezvous = s->play->address;
    conf.nranks = RANKS;
    conf.rank = s->rank;
    conf.wires = s->play->wires;
    conf.timeout_ms = TIMEOUT_MS;
    CHECK(tutti_comm_create(&s->comm, &conf) == TUTTI_OK);
    make_device(s);
    measure_trips(s);
    measure_bursts(s, 256, 8);
    measure_bursts(s, 16384, 8);
    measure_bursts(s, SLOT_BYTES, 2);
    if (s->rank == 0)
        measure_hash(s);
    CHECK(tutti_device_destroy(s->device) == TUTTI_OK);
    CHECK(tutti_barrier(s->comm, NULL) == TUTTI_OK);
    CHECK(tutti_window_free(s->window) == TUTTI_OK);
    tutti_comm_destroy(s->comm);
    return NULL;
}

int main(int argc, char **argv)
{
    struct play play = {};
    struct side sides[RANKS] = {};
    pthread_t thread;
    int ndevices = 0;

    if (cudaGetDeviceCount(&ndevices) != cudaSuccess || ndevices == 0) {
        printf("there is no GPU here\n");
        return SKIPPED;
    }
    play.wires = argc > 1 ? argv[1] : "shm";
    snprintf(play.address, sizeof play.address, "file:///tmp/tutti_bench_gpu.%d", (int)getpid());
    play.ping = (uint64_t *)have(sizeof *play.ping);
    play.pong = (uint64_t *)have(sizeof *play.pong);
    CHECK(pthread_barrier_init(&play.both, NULL, RANKS) == 0);
    for (int r = 0; r < RANKS; r++) {
        sides[r].play = &play;
        sides[r].rank = r;
    }
    CHECK(pthread_create(&thread, NULL, run, &sides[1]) == 0);
    run(&sides[0]);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
