/* Times of operations on emulated devices, compared with the same operations on host memory
 * (bench/bench_emu.py). Each mode prints one JSON object per round; times are in microseconds per
 * operation, of the slowest rank.
 *
 *     emu path RANKS BYTES ROUNDS ITERS    {"host", "call", "replay"}: all-reduces of threads
 *     emu graph RANKS BYTES ROUNDS ITERS   {"call", "replay"}: all-to-alls, by one thread
 *     emu link BYTES ROUNDS                {"host", "device", "kernel", "both"}: a rank of a job
 *     emu start                            one all-reduce of a job's rank; no output
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tutti/gpu.h"
#include "tutti_emu.h"

#define RANKS_MAX 16

static void expect(tutti_status st, const char *what)
{
    if (!st)
        return;
    fprintf(stderr, "%s: %s\n", what, tutti_last_error());
    exit(1);
}

static void expect_cuda(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec * 1e-3;
}

/* ---- ranks of one process ---- */

struct rank {
    int rank;
    tutti_comm *comm, *host;
    tutti_gpu *gpu;
    cudaStream_t stream;
    char *src, *dst, *host_src, *host_dst;
    cudaGraphExec_t replay;
    double us[3];
    pthread_t thread;
};

static int nranks, rounds, iters;
static size_t bytes;
static tutti_id id;
static pthread_barrier_t barrier;
static struct rank ranks[RANKS_MAX];

static void open_rank(struct rank *r, size_t buffer)
{
    const tutti_conf conf = { .size = sizeof conf };

    expect(tutti_comm_create_id(&r->comm, &id, nranks, r->rank, &conf), "tutti_comm_create_id");
    expect(tutti_comm_dup(r->comm, &r->host), "tutti_comm_dup");
    expect_cuda(cudaSetDevice(r->rank), "cudaSetDevice");
    expect_cuda(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking), "cudaStreamCreate");
    expect_cuda(cudaMalloc((void **)&r->src, buffer), "cudaMalloc");
    expect_cuda(cudaMalloc((void **)&r->dst, buffer), "cudaMalloc");
    expect_cuda(cudaMemset(r->src, 0, buffer), "cudaMemset");
    expect_cuda(cudaMemset(r->dst, 0, buffer), "cudaMemset");
    expect_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    r->host_src = calloc(1, buffer);
    r->host_dst = calloc(1, buffer);
    expect(tutti_gpu_create(&r->gpu, r->comm, NULL), "tutti_gpu_create");
}

static void close_rank(struct rank *r)
{
    if (r->replay)
        expect_cuda(cudaGraphExecDestroy(r->replay), "cudaGraphExecDestroy");
    expect(tutti_gpu_status(r->gpu), "tutti_gpu_status");
    tutti_gpu_destroy(r->gpu);
    tutti_comm_destroy(r->host);
    tutti_comm_destroy(r->comm);
    free(r->host_src);
    free(r->host_dst);
}

static void begin_capture(struct rank *r)
{
    expect_cuda(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal),
                "cudaStreamBeginCapture");
}

static void end_capture(struct rank *r)
{
    cudaGraph_t graph;

    expect_cuda(cudaStreamEndCapture(r->stream, &graph), "cudaStreamEndCapture");
    expect_cuda(cudaGraphInstantiate(&r->replay, graph, 0), "cudaGraphInstantiate");
    expect_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

static void sync(struct rank *r)
{
    expect_cuda(cudaStreamSynchronize(r->stream), "cudaStreamSynchronize");
}

/* ---- path ---- */

enum { HOST, CALL, REPLAY };

static void run_once(struct rank *r, int how)
{
    if (how == HOST) {
        expect(tutti_allreduce(r->host_src, r->host_dst, bytes, TUTTI_U8, TUTTI_SUM, r->host, NULL),
               "tutti_allreduce");
        return;
    }
    if (how == CALL)
        expect(tutti_gpu_allreduce(r->src, r->dst, bytes, TUTTI_U8, TUTTI_SUM, r->gpu, r->stream),
               "tutti_gpu_allreduce");
    else
        expect_cuda(cudaGraphLaunch(r->replay, r->stream), "cudaGraphLaunch");
    sync(r);
}

static double slowest(int how)
{
    double us = 0;

    for (int i = 0; i < nranks; i++)
        us = ranks[i].us[how] > us ? ranks[i].us[how] : us;
    return us;
}

static void *path_rank(void *arg)
{
    struct rank *r = arg;

    open_rank(r, bytes);
    begin_capture(r);
    expect(tutti_gpu_allreduce(r->src, r->dst, bytes, TUTTI_U8, TUTTI_SUM, r->gpu, r->stream),
           "tutti_gpu_allreduce");
    end_capture(r);
    for (int round = -1; round < rounds; round++) {         /* the first one is not counted */
        for (int turn = 0; turn < 3; turn++) {
            const int how = (turn + round + 3) % 3;
            double begin;

            pthread_barrier_wait(&barrier);
            begin = now_us();
            for (int i = 0; i < iters; i++)
                run_once(r, how);
            r->us[how] = (now_us() - begin) / iters;
        }
        pthread_barrier_wait(&barrier);
        if (!r->rank && round >= 0)
            printf("{\"host\": %.3f, \"call\": %.3f, \"replay\": %.3f}\n", slowest(HOST),
                   slowest(CALL), slowest(REPLAY));
        pthread_barrier_wait(&barrier);
    }
    close_rank(r);
    return NULL;
}

/* ---- graph ---- */

static void *open_rank_of_thread(void *arg)
{
    open_rank(arg, bytes * (size_t)nranks);
    return NULL;
}

/* One all-to-all of all ranks. */
static void exchange(void)
{
    tutti_gpu_op ops[RANKS_MAX];

    for (int i = 0; i < nranks; i++)
        ops[i] = (tutti_gpu_op){ .size = sizeof *ops,
                                 .kind = TUTTI_GPU_ALLTOALL,
                                 .gpu = ranks[i].gpu,
                                 .stream = ranks[i].stream,
                                 .src = ranks[i].src,
                                 .dst = ranks[i].dst,
                                 .count = bytes,
                                 .type = TUTTI_U8 };
    expect(tutti_gpu_group(ops, (size_t)nranks), "tutti_gpu_group");
}

static double exchanges_us(bool replay)
{
    const double begin = now_us();

    for (int k = 0; k < iters; k++) {
        if (!replay)
            exchange();
        for (int i = 0; replay && i < nranks; i++)
            expect_cuda(cudaGraphLaunch(ranks[i].replay, ranks[i].stream), "cudaGraphLaunch");
        for (int i = 0; i < nranks; i++)
            sync(&ranks[i]);
    }
    return (now_us() - begin) / iters;
}

static void run_graph(void)
{
    for (int i = 0; i < nranks; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < nranks; i++)
        begin_capture(&ranks[i]);
    exchange();
    for (int i = 0; i < nranks; i++)
        end_capture(&ranks[i]);
    for (int round = -1; round < rounds; round++) {
        const bool first = round % 2 != 0;
        const double a = exchanges_us(first), b = exchanges_us(!first);

        if (round >= 0)
            printf("{\"call\": %.3f, \"replay\": %.3f}\n", first ? b : a, first ? a : b);
    }
    for (int i = 0; i < nranks; i++)
        close_rank(&ranks[i]);
}

static int run_process(int argc, char **argv)
{
    const bool graph = !strcmp(argv[1], "graph");

    if (argc != 6)
        return 2;
    nranks = atoi(argv[2]);
    bytes = strtoull(argv[3], NULL, 10);
    rounds = atoi(argv[4]);
    iters = atoi(argv[5]);
    if (nranks < 1 || nranks > RANKS_MAX || rounds < 1 || iters < 1)
        return 2;
    pthread_barrier_init(&barrier, NULL, (unsigned)nranks);
    expect(tutti_id_create(&id, NULL), "tutti_id_create");
    for (int i = 0; i < nranks; i++) {
        ranks[i].rank = i;
        if (pthread_create(&ranks[i].thread, NULL, graph ? open_rank_of_thread : path_rank,
                           &ranks[i]))
            return 1;
    }
    if (graph)
        run_graph();
    else
        for (int i = 0; i < nranks; i++)
            pthread_join(ranks[i].thread, NULL);
    return 0;
}

/* ---- a rank of a job ---- */

static const char sleep_key;

static void sleep_kernel(const struct tutti_emu_launch *launch, void **arguments)
{
    const double us = *(double *)arguments[0];
    struct timespec ts = { .tv_sec = (time_t)(us / 1e6),
                           .tv_nsec = (long)((us - (double)(time_t)(us / 1e6) * 1e6) * 1e3) };

    (void)launch;
    while (nanosleep(&ts, &ts))
        ;
}

static void start_kernel(double us, cudaStream_t stream)
{
    void *arguments[] = { &us };

    expect_cuda(
        cudaLaunchKernel(&sleep_key, (dim3){ 1, 1, 1 }, (dim3){ 1, 1, 1 }, arguments, 0, stream),
        "cudaLaunchKernel");
}

struct job {
    tutti_comm *comm, *host;
    tutti_gpu *gpu;
    cudaStream_t stream, other;
    char *src, *dst, *host_src, *host_dst;
};

enum { LINK_HOST, LINK_DEVICE, LINK_KERNEL, LINK_BOTH, LINK_TURNS };

/* The time of the slowest rank. */
static double turn_us(struct job *j, int turn, double kernel_us)
{
    double begin, us;

    expect(tutti_barrier(j->host, NULL), "tutti_barrier");
    begin = now_us();
    if (turn == LINK_HOST)
        expect(tutti_allreduce(j->host_src, j->host_dst, bytes / 4, TUTTI_F32, TUTTI_SUM, j->host,
                               NULL),
               "tutti_allreduce");
    if (turn == LINK_KERNEL || turn == LINK_BOTH)
        start_kernel(kernel_us, j->other);
    if (turn == LINK_DEVICE || turn == LINK_BOTH)
        expect(
            tutti_gpu_allreduce(j->src, j->dst, bytes / 4, TUTTI_F32, TUTTI_SUM, j->gpu, j->stream),
            "tutti_gpu_allreduce");
    expect_cuda(cudaStreamSynchronize(j->stream), "cudaStreamSynchronize");
    expect_cuda(cudaStreamSynchronize(j->other), "cudaStreamSynchronize");
    us = now_us() - begin;
    expect(tutti_allreduce(&us, &us, 1, TUTTI_F64, TUTTI_MAX, j->host, NULL), "tutti_allreduce");
    return us;
}

static void open_job(struct job *j)
{
    const tutti_conf conf = { .size = sizeof conf };

    expect(tutti_comm_create(&j->comm, &conf), "tutti_comm_create");
    expect(tutti_comm_dup(j->comm, &j->host), "tutti_comm_dup");
    expect_cuda(cudaSetDevice(0), "cudaSetDevice");
    expect_cuda(cudaStreamCreateWithFlags(&j->stream, cudaStreamNonBlocking), "cudaStreamCreate");
    expect_cuda(cudaStreamCreateWithFlags(&j->other, cudaStreamNonBlocking), "cudaStreamCreate");
    expect_cuda(cudaMalloc((void **)&j->src, bytes), "cudaMalloc");
    expect_cuda(cudaMalloc((void **)&j->dst, bytes), "cudaMalloc");
    expect_cuda(cudaMemset(j->src, 0, bytes), "cudaMemset");
    expect_cuda(cudaMemset(j->dst, 0, bytes), "cudaMemset");
    expect_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    j->host_src = calloc(1, bytes);
    j->host_dst = malloc(bytes);
    memset(j->host_dst, 1, bytes);
    expect(tutti_gpu_create(&j->gpu, j->comm, NULL), "tutti_gpu_create");
}

static void close_job(struct job *j)
{
    expect(tutti_gpu_status(j->gpu), "tutti_gpu_status");
    tutti_gpu_destroy(j->gpu);
    tutti_comm_destroy(j->host);
    tutti_comm_destroy(j->comm);
    free(j->host_src);
    free(j->host_dst);
}

static int run_link(int argc, char **argv)
{
    static const size_t sizes[] = { sizeof(double) };
    struct job j = { 0 };

    if (argc != 4)
        return 2;
    bytes = strtoull(argv[2], NULL, 10);
    rounds = atoi(argv[3]);
    if (tutti_emu_kernel_register(&sleep_key, sleep_kernel, "sleep", 1, sizes,
                                  TUTTI_EMU_PER_LAUNCH))
        return 1;
    open_job(&j);
    for (int round = -1; round < rounds; round++) {
        double us[LINK_TURNS];

        us[round & 1 ? LINK_HOST : LINK_DEVICE] =
            turn_us(&j, round & 1 ? LINK_HOST : LINK_DEVICE, 0);
        us[round & 1 ? LINK_DEVICE : LINK_HOST] =
            turn_us(&j, round & 1 ? LINK_DEVICE : LINK_HOST, 0);
        us[LINK_KERNEL] = turn_us(&j, LINK_KERNEL, us[LINK_DEVICE]);
        us[LINK_BOTH] = turn_us(&j, LINK_BOTH, us[LINK_DEVICE]);
        if (round >= 0 && tutti_comm_rank(j.host) == 0)
            printf("{\"host\": %.1f, \"device\": %.1f, \"kernel\": %.1f, \"both\": %.1f}\n",
                   us[LINK_HOST], us[LINK_DEVICE], us[LINK_KERNEL], us[LINK_BOTH]);
    }
    close_job(&j);
    return 0;
}

/* Every rank contributes 1. */
static int run_start(void)
{
    struct job j = { 0 };
    int value = 1;

    bytes = sizeof value;
    open_job(&j);
    expect_cuda(cudaMemcpyAsync(j.src, &value, sizeof value, cudaMemcpyHostToDevice, j.stream),
                "cudaMemcpyAsync");
    expect(tutti_gpu_allreduce(j.src, j.dst, 1, TUTTI_I32, TUTTI_SUM, j.gpu, j.stream),
           "tutti_gpu_allreduce");
    expect_cuda(cudaMemcpyAsync(&value, j.dst, sizeof value, cudaMemcpyDeviceToHost, j.stream),
                "cudaMemcpyAsync");
    expect_cuda(cudaStreamSynchronize(j.stream), "cudaStreamSynchronize");
    if (value != tutti_comm_size(j.comm)) {
        fprintf(stderr, "the sum is %d, not %d\n", value, tutti_comm_size(j.comm));
        return 1;
    }
    close_job(&j);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && (!strcmp(argv[1], "path") || !strcmp(argv[1], "graph")))
        return run_process(argc, argv);
    if (argc > 1 && !strcmp(argv[1], "link"))
        return run_link(argc, argv);
    if (argc == 2 && !strcmp(argv[1], "start"))
        return run_start();
    fprintf(stderr, "usage: emu path|graph|link|start ... (see bench/emu.c)\n");
    return 2;
}
