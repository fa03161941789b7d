/* All operations, types and reductions of NCCL, in the shape of its performance tests:
 *
 *     operations PROCESSES PROCESS THREADS DEVICES FILE [graphs]
 *
 * Each thread of each process drives DEVICES ranks; process 0 writes the id to FILE. With `graphs`,
 * the operations are captured in CUDA graphs, which are launched twice. Every result is compared
 * with values that are computed here. Prints "N cases" and exits with 0 if all are right. */
#include "nccl_calls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 8
#define COUNT 1500
#define NTYPES 12
#define NOPS 6                  /* of which the last is a premultiplied sum */

enum kind {
    ALLREDUCE, REDUCE, REDUCE_SCATTER, BROADCAST, ALLGATHER, GATHER, SCATTER, ALLTOALL, SENDRECV,
    KINDS
};

static const char *const kinds[] = { "AllReduce", "Reduce",    "ReduceScatter",
                                     "Broadcast", "AllGather", "Gather",
                                     "Scatter",   "AlltoAll",  "SendRecv" };
static const size_t sizes[NTYPES] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

static int nranks, nthreads, ndevices, first_rank, use_graphs;
static ncclUniqueId id;

/* The ranks of one thread. */
struct driver {
    int first;                  /* rank */
    ncclComm_t comm[DEVICES_MAX];
    cudaStream_t stream[DEVICES_MAX];
    char *src[DEVICES_MAX], *dst[DEVICES_MAX];
    char *host;
    unsigned long cases;
    pthread_t thread;
};

static void expect(int result, const char *what)
{
    if (!result)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(result), ncclGetLastError(NULL));
    exit(1);
}

static void expect_cuda(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

/* ---- values: small numbers that every type represents, with exact sums and products ---- */

/* Bits of a number of 0 to 16 as a float with `mantissa` bits and an exponent bias. */
static uint64_t float_bits(unsigned value, int mantissa, int bias)
{
    int exponent = 0;

    if (!value)
        return 0;
    while (value >> (exponent + 1))
        exponent++;
    return (uint64_t)(exponent + bias) << mantissa |
           ((uint64_t)(value - (1u << exponent)) << mantissa) >> exponent;
}

static uint64_t bits_of(unsigned value, int type)
{
    switch (type) {
    case 6: return float_bits(value, 10, 15);
    case 7: return float_bits(value, 23, 127);
    case 8: return float_bits(value, 52, 1023);
    case 9: return float_bits(value, 7, 127);
    case 10: return float_bits(value, 3, 7);
    case 11: return float_bits(value, 2, 15);
    default: return value;
    }
}

/* Element i of a rank's input: 0 or 1, and 1 or 2 for products of at most two ranks. */
static unsigned input(int rank, size_t i)
{
    return (unsigned)((i * 7 + (size_t)rank * 3) / 5 % 2);
}

/* Element i of the reduction over all ranks. e5m2 represents 0 to 8 exactly. */
static unsigned reduced(int op, size_t i)
{
    unsigned sum = 0, product = 1, max = 0, min = 1;

    for (int r = 0; r < nranks; r++) {
        const unsigned v = input(r, i);

        sum += v;
        product *= v;
        max = v > max ? v : max;
        min = v < min ? v : min;
    }
    switch (op) {
    case 1: return product;
    case 2: return max;
    case 3: return min;
    case 5: return 2 * sum;
    default: return sum;
    }
}

/* Expected element i of a rank's output; *defined is 0 if the rank has none. Average: inputs are
 * all equal, see fill. */
static unsigned expected(enum kind kind, int op, int root, int rank, size_t i, int *defined)
{
    const int block = (int)(i / COUNT);
    const size_t at = i % COUNT;

    *defined = 1;
    switch (kind) {
    case ALLREDUCE:
        return reduced(op, i);
    case REDUCE:
        *defined = rank == root;
        return reduced(op, i);
    case REDUCE_SCATTER:
        return reduced(op, (size_t)rank * COUNT + i);
    case BROADCAST:
        return input(root, i);
    case ALLGATHER:
        return input(block, at);
    case GATHER:
        *defined = rank == root;
        return input(block, at);
    case SCATTER:
        return input(root, (size_t)rank * COUNT + i);
    case ALLTOALL:
        return input(block, (size_t)rank * COUNT + at);
    case SENDRECV:
        return input((rank + nranks - 1) % nranks, i);
    case KINDS:
        break;
    }
    return 0;
}

static size_t src_count(enum kind kind)
{
    return kind == REDUCE_SCATTER || kind == SCATTER || kind == ALLTOALL ? (size_t)nranks * COUNT
                                                                         : COUNT;
}

static size_t dst_count(enum kind kind)
{
    return kind == ALLGATHER || kind == GATHER || kind == ALLTOALL ? (size_t)nranks * COUNT : COUNT;
}

/* ---- one case ---- */

struct scenario {
    enum kind kind;
    int type, op, root, in_place;
};

/* Return the addresses of the input and the output of a rank. */
static char *input_of(const struct driver *d, const struct scenario *s, int k)
{
    const size_t own = (size_t)(d->first + k) * COUNT * sizes[s->type];

    if (!s->in_place)
        return d->src[k];
    return d->dst[k] + (dst_count(s->kind) > src_count(s->kind) ? own : 0);
}

static char *output_of(const struct driver *d, const struct scenario *s, int k)
{
    const size_t own = (size_t)(d->first + k) * COUNT * sizes[s->type];

    return d->dst[k] + (s->in_place && src_count(s->kind) > dst_count(s->kind) ? own : 0);
}

static void fill(struct driver *d, const struct scenario *s, int k)
{
    const size_t n = src_count(s->kind), elem = sizes[s->type];

    for (size_t i = 0; i < n; i++) {
        const uint64_t bits =
            bits_of(s->op == 4 ? (unsigned)(i % 2) : input(d->first + k, i), s->type);

        memcpy(d->host + i * elem, &bits, elem);
    }
    expect_cuda(
        cudaMemcpyAsync(input_of(d, s, k), d->host, n * elem, cudaMemcpyHostToDevice, d->stream[k]),
        "cudaMemcpyAsync");
    expect_cuda(cudaStreamSynchronize(d->stream[k]), "cudaStreamSynchronize");
}

static int call(struct driver *d, const struct scenario *s, int k, int op)
{
    const void *src = input_of(d, s, k);
    void *dst = output_of(d, s, k);
    ncclComm_t c = d->comm[k];
    cudaStream_t stream = d->stream[k];
    const int rank = d->first + k;

    switch (s->kind) {
    case ALLREDUCE: return ncclAllReduce(src, dst, COUNT, s->type, op, c, stream);
    case REDUCE: return ncclReduce(src, dst, COUNT, s->type, op, s->root, c, stream);
    case REDUCE_SCATTER: return ncclReduceScatter(src, dst, COUNT, s->type, op, c, stream);
    case BROADCAST: return ncclBroadcast(src, dst, COUNT, s->type, s->root, c, stream);
    case ALLGATHER: return ncclAllGather(src, dst, COUNT, s->type, c, stream);
    case GATHER: return ncclGather(src, dst, COUNT, s->type, s->root, c, stream);
    case SCATTER: return ncclScatter(src, dst, COUNT, s->type, s->root, c, stream);
    case ALLTOALL: return ncclAlltoAll(src, dst, COUNT, s->type, c, stream);
    case SENDRECV:
        expect(ncclSend(src, COUNT, s->type, (rank + 1) % nranks, c, stream), "ncclSend");
        return ncclRecv(dst, COUNT, s->type, (rank + nranks - 1) % nranks, c, stream);
    case KINDS: break;
    }
    return 1;
}

static void compare(struct driver *d, const struct scenario *s, int k)
{
    const size_t n = dst_count(s->kind), elem = sizes[s->type];

    expect_cuda(cudaMemcpyAsync(d->host, output_of(d, s, k), n * elem, cudaMemcpyDeviceToHost,
                                d->stream[k]),
                "cudaMemcpyAsync");
    expect_cuda(cudaStreamSynchronize(d->stream[k]), "cudaStreamSynchronize");
    for (size_t i = 0; i < n; i++) {
        int defined = 1;
        unsigned value = expected(s->kind, s->op, s->root, d->first + k, i, &defined);
        uint64_t bits, got = 0;

        if (s->op == 4)         /* inputs are 0 and 1 in turn on all ranks */
            value =
                (unsigned)((s->kind == REDUCE_SCATTER ? (size_t)(d->first + k) * COUNT + i : i) %
                           2);
        bits = bits_of(value, s->type);
        memcpy(&got, d->host + i * elem, elem);
        if (defined && memcmp(&got, &bits, elem)) {
            fprintf(stderr,
                    "nccl%s, type %d, op %d, root %d, in place %d: rank %d, element %zu is "
                    "%llx, not %llx\n",
                    kinds[s->kind], s->type, s->op, s->root, s->in_place, d->first + k, i,
                    (unsigned long long)got, (unsigned long long)bits);
            exit(1);
        }
    }
}

/* Calls the operation on all ranks of the thread. */
static void call_all(struct driver *d, const struct scenario *s)
{
    const uint64_t two = bits_of(2, s->type);
    int op[DEVICES_MAX];

    for (int k = 0; k < ndevices; k++) {
        op[k] = s->op;
        if (s->op == 5)
            expect(ncclRedOpCreatePreMulSum(&op[k], (void *)&two, s->type, 1, d->comm[k]),
                   "ncclRedOpCreatePreMulSum");
    }
    expect(ncclGroupStart(), "ncclGroupStart");
    for (int k = 0; k < ndevices; k++)
        expect(call(d, s, k, op[k]), kinds[s->kind]);
    for (int k = 0; k < ndevices; k++)
        if (s->op == 5)
            expect(ncclRedOpDestroy(op[k], d->comm[k]), "ncclRedOpDestroy");
    expect(ncclGroupEnd(), kinds[s->kind]);
}

static void fill_all(struct driver *d, const struct scenario *s)
{
    for (int k = 0; k < ndevices; k++)
        fill(d, s, k);
}

static void compare_all(struct driver *d, const struct scenario *s)
{
    int error;

    for (int k = 0; k < ndevices; k++) {
        compare(d, s, k);
        expect(ncclCommGetAsyncError(d->comm[k], &error), "ncclCommGetAsyncError");
        expect(error, "asynchronous error");
    }
}

static void capture_all(struct driver *d, const struct scenario *s, cudaGraphExec_t *exec)
{
    cudaGraph_t graph;

    for (int k = 0; k < ndevices; k++)
        expect_cuda(cudaStreamBeginCapture(d->stream[k], cudaStreamCaptureModeThreadLocal),
                    "cudaStreamBeginCapture");
    call_all(d, s);
    for (int k = 0; k < ndevices; k++) {
        expect_cuda(cudaStreamEndCapture(d->stream[k], &graph), "cudaStreamEndCapture");
        expect_cuda(cudaGraphInstantiate(&exec[k], graph, 0), "cudaGraphInstantiate");
        expect_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
    }
}

static void replay_all(struct driver *d, const struct scenario *s)
{
    cudaGraphExec_t exec[DEVICES_MAX];

    capture_all(d, s, exec);
    for (int launch = 0; launch < 2; launch++) {
        fill_all(d, s);
        for (int k = 0; k < ndevices; k++)
            expect_cuda(cudaGraphLaunch(exec[k], d->stream[k]), "cudaGraphLaunch");
        compare_all(d, s);
    }
    for (int k = 0; k < ndevices; k++)
        expect_cuda(cudaGraphExecDestroy(exec[k]), "cudaGraphExecDestroy");
}

static void run_case(struct driver *d, const struct scenario *s)
{
    if (use_graphs) {
        replay_all(d, s);
    } else {
        fill_all(d, s);
        call_all(d, s);
        compare_all(d, s);
    }
    d->cases++;
}

/* ---- a thread ---- */

static void open_ranks(struct driver *d)
{
    const size_t bytes = (size_t)nranks * COUNT * 8;

    d->host = malloc(bytes);
    expect(ncclGroupStart(), "ncclGroupStart");
    for (int k = 0; k < ndevices; k++) {
        expect_cuda(cudaSetDevice((d->first + k) % DEVICES_MAX), "cudaSetDevice");
        expect(ncclCommInitRank(&d->comm[k], nranks, id, d->first + k), "ncclCommInitRank");
    }
    expect(ncclGroupEnd(), "ncclCommInitRank");
    for (int k = 0; k < ndevices; k++) {
        expect_cuda(cudaSetDevice((d->first + k) % DEVICES_MAX), "cudaSetDevice");
        expect_cuda(cudaStreamCreate(&d->stream[k]), "cudaStreamCreate");
        expect_cuda(cudaMalloc((void **)&d->src[k], bytes), "cudaMalloc");
        expect_cuda(cudaMalloc((void **)&d->dst[k], bytes), "cudaMalloc");
    }
}

static void close_ranks(struct driver *d)
{
    for (int k = 0; k < ndevices; k++) {
        expect(ncclCommFinalize(d->comm[k]), "ncclCommFinalize");
        expect(ncclCommDestroy(d->comm[k]), "ncclCommDestroy");
        expect_cuda(cudaFree(d->src[k]), "cudaFree");
        expect_cuda(cudaFree(d->dst[k]), "cudaFree");
        expect_cuda(cudaStreamDestroy(d->stream[k]), "cudaStreamDestroy");
    }
    free(d->host);
}

static void *drive(void *arg)
{
    struct driver *d = arg;

    open_ranks(d);
    for (int kind = 0; kind < KINDS; kind++)
        for (int type = 0; type < NTYPES; type++)
            for (int op = 0; op < (kind <= REDUCE_SCATTER ? NOPS : 1); op++) {
                const struct scenario s = { .kind = kind, .type = type, .op = op,
                                            .root = (type + op) % nranks,
                                            .in_place = kind != SENDRECV && (type + op) % 2 };

                run_case(d, &s);
            }
    close_ranks(d);
    return NULL;
}

/* Passes the id from process 0 to the others, which are started when the file exists. */
static void share_id(int process, const char *path)
{
    char part[1024];
    FILE *f;

    if (process) {
        f = fopen(path, "rb");
        if (!f || fread(&id, sizeof id, 1, f) != 1) {
            perror(path);
            exit(1);
        }
        fclose(f);
        return;
    }
    expect(ncclGetUniqueId(&id), "ncclGetUniqueId");
    snprintf(part, sizeof part, "%s.part", path);
    f = fopen(part, "wb");
    if (!f || fwrite(&id, sizeof id, 1, f) != 1 || fclose(f) || rename(part, path)) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct driver drivers[DEVICES_MAX] = { 0 };
    unsigned long cases = 0;
    int process;

    use_graphs = argc == 7 && !strcmp(argv[6], "graphs");
    if (argc != 6 + use_graphs) {
        fprintf(stderr, "usage: operations PROCESSES PROCESS THREADS DEVICES FILE [graphs]\n");
        return 2;
    }
    process = atoi(argv[2]);
    nthreads = atoi(argv[3]);
    ndevices = atoi(argv[4]);
    nranks = atoi(argv[1]) * nthreads * ndevices;
    if (nthreads < 1 || nthreads > DEVICES_MAX || ndevices < 1 || nranks > DEVICES_MAX)
        return 2;
    first_rank = process * nthreads * ndevices;
    share_id(process, argv[5]);
    for (int t = 0; t < nthreads; t++) {
        drivers[t].first = first_rank + t * ndevices;
        if (pthread_create(&drivers[t].thread, NULL, drive, &drivers[t]))
            return 1;
    }
    for (int t = 0; t < nthreads; t++) {
        pthread_join(drivers[t].thread, NULL);
        cases += drivers[t].cases;
    }
    printf("%lu cases\n", cases);
    return 0;
}
