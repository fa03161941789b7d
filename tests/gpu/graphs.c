#include "graphs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define assert_cuda(call) assert_int_equal(call, 0)

static struct {
    tt_cuda_result (*begin)(tt_cuda_stream stream, int mode);
    tt_cuda_result (*end)(tt_cuda_stream stream, graph_t *graph);
    tt_cuda_result (*instantiate)(exec_t *exec, graph_t graph, unsigned long long flags);
    tt_cuda_result (*update)(exec_t exec, graph_t graph, void *info);
    tt_cuda_result (*launch)(exec_t exec, tt_cuda_stream stream);
    tt_cuda_result (*graph_destroy)(graph_t graph);
    tt_cuda_result (*exec_destroy)(exec_t exec);
    tt_cuda_result (*reset)(int device);
    tt_cuda_result (*free_async)(tt_cuda_address mem, tt_cuda_stream stream);
    bool is_emulated;
} driver;

static void load(void)
{
    static const char *const names[] = { "cuStreamBeginCapture_v2",
                                         "cuStreamEndCapture",
                                         "cuGraphInstantiateWithFlags",
                                         "cuGraphExecUpdate_v2",
                                         "cuGraphLaunch",
                                         "cuGraphDestroy",
                                         "cuGraphExecDestroy",
                                         "cuDevicePrimaryCtxReset_v2",
                                         "cuMemFreeAsync" };
    void *library, *function;

    if (driver.begin)
        return;
    library = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(library);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        function = dlsym(library, names[i]);
        assert_non_null(function);
        memcpy((char *)&driver + i * sizeof function, &function, sizeof function);
    }
    driver.is_emulated = dlsym(library, "tutti_emu_host_alias") != NULL;
    dlclose(library);           /* Tutti keeps it loaded */
}

static void enter(struct world *w, int rank)
{
    load();
    assert_cuda(w->cu->context_push(w->context[rank]));
}

static void leave(struct world *w)
{
    tt_cuda_context was;

    assert_cuda(w->cu->context_pop(&was));
}

void capture_begin(struct world *w, int rank, int mode)
{
    enter(w, rank);
    assert_cuda(driver.begin(w->stream[rank], mode));
    leave(w);
}

tt_cuda_result capture_end_error(struct world *w, int rank, graph_t *graph)
{
    tt_cuda_result error;

    enter(w, rank);
    error = driver.end(w->stream[rank], graph);
    leave(w);
    return error;
}

graph_t capture_end(struct world *w, int rank)
{
    graph_t graph = NULL;

    assert_cuda(capture_end_error(w, rank, &graph));
    assert_non_null(graph);
    return graph;
}

exec_t graph_instantiate(struct world *w, int rank, graph_t graph)
{
    exec_t exec = NULL;

    enter(w, rank);
    assert_cuda(driver.instantiate(&exec, graph, 0));
    leave(w);
    return exec;
}

void graph_destroy(graph_t graph)
{
    assert_cuda(driver.graph_destroy(graph));
}

void exec_destroy(exec_t exec)
{
    assert_cuda(driver.exec_destroy(exec));
}

tt_cuda_result exec_update(exec_t exec, graph_t graph)
{
    uint64_t info[8];           /* at least as large as CUgraphExecUpdateResultInfo */

    return driver.update(exec, graph, info);
}

void exec_launch_on(struct world *w, int rank, exec_t exec, tt_cuda_stream stream)
{
    enter(w, rank);
    assert_cuda(driver.launch(exec, stream));
    leave(w);
}

void exec_launch(struct world *w, int rank, exec_t exec)
{
    exec_launch_on(w, rank, exec, w->stream[rank]);
}

void device_reset(int device)
{
    load();
    assert_cuda(driver.reset(device));
}

exec_t capture_end_exec(struct world *w, int rank)
{
    graph_t graph = capture_end(w, rank);
    exec_t exec = graph_instantiate(w, rank, graph);

    graph_destroy(graph);
    return exec;
}

/* Copies from memory that is freed before the copy runs. */
bool device_break(struct world *w, int rank)
{
    tt_cuda_stream streams[2];
    tt_cuda_address mem, address;
    uint32_t *word;

    enter(w, rank);
    if (!driver.is_emulated) {
        leave(w);
        return false;
    }
    for (int i = 0; i < 2; i++)
        assert_cuda(w->cu->stream_create(&streams[i], TT_CUDA_STREAM_NON_BLOCKING));
    assert_cuda(w->cu->mem_alloc(&mem, 64));
    assert_cuda(w->cu->host_alloc((void **)&word, sizeof *word, TT_CUDA_HOST_DEVICE_MAP));
    *word = 0;
    assert_cuda(w->cu->host_address(&address, word, 0));
    assert_cuda(w->cu->stream_wait_value(streams[0], address, 1, 0));
    assert_cuda(w->cu->copy(mem, mem + 32, 32, streams[0]));
    assert_cuda(driver.free_async(mem, streams[1]));
    assert_cuda(w->cu->stream_synchronize(streams[1]));
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    assert_int_not_equal(w->cu->stream_synchronize(streams[0]), 0);
    for (int i = 0; i < 2; i++)
        assert_cuda(w->cu->stream_destroy(streams[i]));
    leave(w);
    return true;
}
