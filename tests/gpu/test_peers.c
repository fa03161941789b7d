/* Ranks of several processes copy from each other's device memory. Data is correct, also after
 * memory was freed and allocated again. Memory without an IPC handle is staged through host memory.
 *
 *     the test -- fork --> rank 0 -- id through a pipe --> ranks 1, 2
 *
 * Only the ranks use CUDA: the test forks them before any use of it. */
#include "support/unit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/gpu.h"

#define RANKS 3
#define COUNT 5000              /* bytes of a block: longer than a chunk */
#define SKIP 77

/* A rank, in its process. */
struct rank {
    int r;
    const struct tt_cuda *cu;
    tutti_comm *comm;
    tutti_gpu *gpu;
    tt_cuda_context context;
    tt_cuda_stream stream;
    unsigned char *src, *dst;           /* [RANKS][COUNT], on the device or pinned */
};

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s (%s)\n", __FILE__, __LINE__, #condition,          \
                    tutti_last_error());                                                           \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* ---- ranks ---- */

static void share_id(int r, const int *pipe_ends, tutti_id *id)
{
    if (r) {
        EXPECT(read(pipe_ends[0], id, sizeof *id) == (ssize_t)sizeof *id);
        return;
    }
    EXPECT(!tutti_id_create(id, NULL));
    for (int i = 1; i < RANKS; i++)
        EXPECT(write(pipe_ends[1], id, sizeof *id) == (ssize_t)sizeof *id);
}

static void rank_open(struct rank *k, int r, const int *pipe_ends)
{
    const tutti_conf conf = { .size = sizeof conf };
    tutti_gpu_conf gpu = { .size = sizeof gpu, .has_device = 1, .chunk_bytes = 4096 };
    tutti_id id;
    int count = 0;

    *k = (struct rank){ .r = r };
    if (tt_cuda_load(&k->cu))
        _exit(SKIP);
    share_id(r, pipe_ends, &id);
    EXPECT(!k->cu->device_count(&count));
    gpu.device = r % count;
    EXPECT(!tutti_comm_create_id(&k->comm, &id, RANKS, r, &conf));
    EXPECT(!tutti_gpu_create(&k->gpu, k->comm, &gpu));
    EXPECT(!k->cu->primary_retain(&k->context, gpu.device));
    EXPECT(!k->cu->context_push(k->context));
    EXPECT(!k->cu->stream_create(&k->stream, TT_CUDA_STREAM_NON_BLOCKING));
}

static void rank_close(struct rank *k)
{
    tutti_gpu_destroy(k->gpu);
    EXPECT(!k->cu->stream_destroy(k->stream));
    tutti_comm_destroy(k->comm);
}

static unsigned char *allocate(struct rank *k, bool pinned)
{
    tt_cuda_address mem = 0;
    void *host = NULL;

    if (pinned)
        EXPECT(!k->cu->host_alloc(&host, RANKS * COUNT, TT_CUDA_HOST_PORTABLE));
    else
        EXPECT(!k->cu->mem_alloc(&mem, RANKS * COUNT));
    return pinned ? host : (unsigned char *)(uintptr_t)mem;
}

static void release(struct rank *k, unsigned char *mem, bool pinned)
{
    EXPECT(!(pinned ? k->cu->host_free(mem) : k->cu->mem_free(tt_cuda_address_of(mem))));
}

static void copy(struct rank *k, void *dst, const void *src)
{
    EXPECT(
        !k->cu->copy(tt_cuda_address_of(dst), tt_cuda_address_of(src), RANKS * COUNT, k->stream));
    EXPECT(!k->cu->stream_synchronize(k->stream));
}

/* The bytes of block b of rank r's source. */
static int value_of(int r, int b, int round)
{
    return (1 + r + RANKS * b + 20 * round) % 256;
}

static void fill(struct rank *k, int round)
{
    unsigned char host[RANKS * COUNT];

    for (int b = 0; b < RANKS; b++)
        memset(host + b * COUNT, value_of(k->r, b, round), COUNT);
    copy(k, k->src, host);
    memset(host, 0, sizeof host);
    copy(k, k->dst, host);
}

/* Compares the result: block b consists of values[b]. */
static void compare(struct rank *k, const int *values)
{
    unsigned char host[RANKS * COUNT];

    copy(k, host, k->dst);
    EXPECT(!tutti_gpu_status(k->gpu));
    for (int b = 0; b < RANKS; b++)
        for (int i = 0; i < COUNT; i++)
            EXPECT(host[b * COUNT + i] == values[b]);
}

/* ---- operations ---- */

static void exchange(struct rank *k)
{
    const int right = (k->r + 1) % RANKS, left = (k->r + RANKS - 1) % RANKS;
    tutti_gpu_op ops[2] = { { .kind = TUTTI_GPU_SEND, .src = k->src, .root = right },
                            { .kind = TUTTI_GPU_RECV, .dst = k->dst, .root = left } };

    for (int i = 0; i < 2; i++) {
        ops[i].size = sizeof *ops;
        ops[i].gpu = k->gpu;
        ops[i].stream = k->stream;
        ops[i].count = COUNT;
        ops[i].type = TUTTI_U8;
    }
    EXPECT(!tutti_gpu_group(ops, 2));
}

/* Runs all operations with one pair of buffers, and compares the results. */
static void run_all(struct rank *k, int round)
{
    int all[RANKS], transposed[RANKS], left[RANKS] = { 0 }, root[RANKS] = { 0 };

    for (int b = 0; b < RANKS; b++) {
        all[b] = value_of(b, 0, round);
        transposed[b] = value_of(b, k->r, round);
    }
    left[0] = value_of((k->r + RANKS - 1) % RANKS, 0, round);
    root[0] = value_of(1, 0, round);
    fill(k, round);
    EXPECT(!tutti_gpu_allgather(k->src, k->dst, COUNT, TUTTI_U8, k->gpu, k->stream));
    compare(k, all);
    fill(k, round);
    EXPECT(!tutti_gpu_alltoall(k->src, k->dst, COUNT, TUTTI_U8, k->gpu, k->stream));
    compare(k, transposed);
    fill(k, round);
    EXPECT(!tutti_gpu_broadcast(k->src, k->dst, COUNT, TUTTI_U8, 1, k->gpu, k->stream));
    compare(k, root);
    fill(k, round);
    exchange(k);
    compare(k, left);
}

#define PULLED 5                /* pulls in run_all: three collectives, a send and a receive */

static uint64_t pulled(const struct rank *k)
{
    return atomic_load(&k->gpu->npulled);
}

/* The driver, with counted calls; called by the worker. */
static struct tt_cuda counting;
static const struct tt_cuda *driver;
static _Atomic int opened, closed;
static _Atomic bool fails;              /* opening fails */

static tt_cuda_result count_open(tt_cuda_address *out, tt_cuda_ipc handle, unsigned flags)
{
    opened++;
    if (fails)
        return 1;
    return driver->ipc_open(out, handle, flags);
}

static tt_cuda_result count_close(tt_cuda_address mem)
{
    closed++;
    return driver->ipc_close(mem);
}

/* Replaces the driver's functions; run by the worker. */
static tutti_status count_calls(tutti_comm *comm, void *gpu)
{
    (void)comm;
    driver = ((tutti_gpu *)gpu)->cu;
    counting = *driver;
    counting.ipc_open = count_open;
    counting.ipc_close = count_close;
    ((tutti_gpu *)gpu)->cu = &counting;
    return TUTTI_OK;
}

/* Each allocation is opened once. A new allocation at the same address is opened again. */
static void copy_from_devices(struct rank *k)
{
    EXPECT(!tutti_gpu_run(k->gpu, count_calls, k->gpu));
    for (int round = 0; round < 4; round++) {
        k->src = allocate(k, false);
        k->dst = allocate(k, false);
        run_all(k, round);
        EXPECT(pulled(k) == (uint64_t)PULLED * (unsigned)(round + 1));
        EXPECT(opened == (RANKS - 1) * (round + 1));
        EXPECT(closed == 0);        /* closing would wait for the streams */
        release(k, k->src, false);
        release(k, k->dst, false);
    }
}

/* Rank 1 cannot open memory: collectives and the messages that it receives are staged. It does not
 * repeat failed attempts. */
static void stage_what_cannot_be_opened(struct rank *k)
{
    static const uint64_t messages[RANKS] = { 1, 1, 2 };

    fails = k->r == 1;
    EXPECT(!tutti_gpu_run(k->gpu, count_calls, k->gpu));
    for (int round = 0; round < 3; round++) {
        k->src = allocate(k, false);
        k->dst = allocate(k, false);
        run_all(k, round);
        EXPECT(pulled(k) == messages[k->r] * (unsigned)(round + 1));
        EXPECT(k->r != 1 || opened == RANKS);
        release(k, k->src, false);
        release(k, k->dst, false);
    }
}

#define OPEN_MAX 64             /* allocations that a tutti_gpu can have open */

/* More allocations than a tutti_gpu can open: further ones are staged, but data of the open ones is
 * still copied directly. */
static void fill_the_table(struct rank *k)
{
    unsigned char *first;
    uint64_t before;

    EXPECT(!tutti_gpu_run(k->gpu, count_calls, k->gpu));
    first = k->src = allocate(k, false);
    k->dst = allocate(k, false);
    for (int round = 0; round < OPEN_MAX / (RANKS - 1) + 3; round++) {
        int all[RANKS];

        if (round)
            k->src = allocate(k, false);
        for (int b = 0; b < RANKS; b++)
            all[b] = value_of(b, 0, round);
        fill(k, round);
        EXPECT(!tutti_gpu_allgather(k->src, k->dst, COUNT, TUTTI_U8, k->gpu, k->stream));
        compare(k, all);
        exchange(k);
        EXPECT(!k->cu->stream_synchronize(k->stream));
        if (round)
            release(k, k->src, false);
    }
    EXPECT(opened == OPEN_MAX);
    before = pulled(k);
    k->src = first;
    run_all(k, 0);
    EXPECT(pulled(k) == before + PULLED);
    release(k, first, false);
    release(k, k->dst, false);
}

/* Emulated devices that cannot access each other: everything is staged. */
static void stage_without_peer_access(struct rank *k)
{
    for (int round = 0; round < 2; round++) {
        k->src = allocate(k, false);
        k->dst = allocate(k, false);
        run_all(k, round);
        release(k, k->src, false);
        release(k, k->dst, false);
    }
    EXPECT(pulled(k) == 0);
}

/* Pinned memory has no IPC handle, so it is staged. In the last round all buffers are device
 * memory, which is not staged. */
static void stage_memory_without_handle(struct rank *k)
{
    for (int round = 0; round < 3; round++) {
        const bool pinned = round < 2 && (k->r == 1 || round == 0);

        k->src = allocate(k, pinned);
        k->dst = allocate(k, false);
        run_all(k, round);
        release(k, k->src, pinned);
        release(k, k->dst, false);
    }
    EXPECT(pulled(k) >= PULLED);
}

/* The receiver expects another size. Both ranks get an error. */
static void expect_another_size(struct rank *k)
{
    k->src = allocate(k, false);
    if (k->r < 2) {
        if (k->r)
            EXPECT(!tutti_gpu_recv(k->src, COUNT + 1, TUTTI_U8, 0, k->gpu, k->stream));
        else
            EXPECT(!tutti_gpu_send(k->src, COUNT, TUTTI_U8, 1, k->gpu, k->stream));
        EXPECT(!k->cu->stream_synchronize(k->stream));
        if (tutti_gpu_status(k->gpu) == TUTTI_ERR_ABORTED)
            return;         /* the other rank aborted the communicator first */
        EXPECT(tutti_gpu_status(k->gpu) == TUTTI_ERR_MISMATCH);
        EXPECT(strstr(tutti_last_error(), "5000") && strstr(tutti_last_error(), "5001"));
    }
}

/* ---- the test ---- */

static void run_ranks(void (*run)(struct rank *k))
{
    int pipe_ends[2], status, skipped = 0;
    pid_t child[RANKS];
    struct rank k;

    assert_int_equal(pipe(pipe_ends), 0);
    for (int r = 0; r < RANKS; r++) {
        child[r] = fork();
        if (!child[r]) {
            rank_open(&k, r, pipe_ends);
            run(&k);
            rank_close(&k);
            _exit(0);
        }
    }
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(waitpid(child[r], &status, 0), child[r]);
        assert_true(WIFEXITED(status));
        skipped += WEXITSTATUS(status) == SKIP;
        if (WEXITSTATUS(status) != SKIP)
            assert_int_equal(WEXITSTATUS(status), 0);
    }
    if (skipped)
        exit(SKIP);
}

static void data_of_other_processes_is_copied_and_never_stale(void **state)
{
    (void)state;
    run_ranks(copy_from_devices);
}

static void memory_that_cannot_be_opened_is_staged(void **state)
{
    (void)state;
    run_ranks(stage_what_cannot_be_opened);
}

static void a_full_table_does_not_end_copies(void **state)
{
    (void)state;
    run_ranks(fill_the_table);
}

/* A GPU's driver ignores the variable. */
static void devices_without_peer_access_are_staged(void **state)
{
    void *const library = dlopen("libcuda.so.1", RTLD_NOW);
    const bool is_emulated = library && dlsym(library, "tutti_emu_host_alias");

    (void)state;
    if (!is_emulated)
        skip();
    setenv("TUTTI_EMU_PEERS", "0", 1);
    run_ranks(stage_without_peer_access);
    unsetenv("TUTTI_EMU_PEERS");
}

static void memory_without_a_handle_is_staged(void **state)
{
    (void)state;
    run_ranks(stage_memory_without_handle);
}

static void different_sizes_are_an_error_of_both_ranks(void **state)
{
    (void)state;
    run_ranks(expect_another_size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_of_other_processes_is_copied_and_never_stale),
        cmocka_unit_test(memory_that_cannot_be_opened_is_staged),
        cmocka_unit_test(a_full_table_does_not_end_copies),
        cmocka_unit_test(devices_without_peer_access_are_staged),
        cmocka_unit_test(memory_without_a_handle_is_staged),
        cmocka_unit_test(different_sizes_are_an_error_of_both_ranks),
    };

    setenv("TUTTI_GPU_PEER_COPIES", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
