/* Graphs: capture, replay, branches, updates, and captures that are aborted. */
#include "gpu.h"
#include "kernels.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

struct fixture {
    cudaStream_t a, b;
    cudaEvent_t fork, join;
    void *p;
};

static void setup(struct fixture *f)
{
    assert_cuda(cudaStreamCreateWithFlags(&f->a, cudaStreamNonBlocking));
    assert_cuda(cudaStreamCreateWithFlags(&f->b, cudaStreamNonBlocking));
    assert_cuda(cudaEventCreateWithFlags(&f->fork, cudaEventDisableTiming));
    assert_cuda(cudaEventCreateWithFlags(&f->join, cudaEventDisableTiming));
    assert_cuda(cudaMalloc(&f->p, 2 * sizeof(int)));
    assert_cuda(cudaMemset(f->p, 0, 2 * sizeof(int)));
    assert_cuda(cudaDeviceSynchronize());   /* the streams below do not wait for the legacy one */
}

static void teardown(struct fixture *f)
{
    assert_cuda(cudaFree(f->p));
    assert_cuda(cudaEventDestroy(f->fork));
    assert_cuda(cudaEventDestroy(f->join));
    assert_cuda(cudaStreamDestroy(f->a));
    assert_cuda(cudaStreamDestroy(f->b));
}

static cudaError_t launch_add(void *p, int n, int value, cudaStream_t s)
{
    void *arguments[] = { &p, &n, &value };

    return cudaLaunchKernel(&kernel_add, (dim3){ 1, 1, 1 }, (dim3){ 32, 1, 1 }, arguments, 0, s);
}

static void read_words(const struct fixture *f, int out[2])
{
    assert_cuda(cudaDeviceSynchronize());
    assert_cuda(cudaMemcpy(out, f->p, 2 * sizeof(int), cudaMemcpyDeviceToHost));
}

static void captured_work_runs_at_each_launch_only(void **state)
{
    enum cudaStreamCaptureStatus status;
    cudaGraphExec_t exec;
    struct fixture f;
    cudaGraph_t graph;
    int words[2];
    size_t n = 0;

    (void)state;
    setup(&f);
    assert_cuda(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeGlobal));
    assert_cuda(cudaStreamIsCapturing(f.a, &status));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    assert_cuda(launch_add(f.p, 2, 3, f.a));
    assert_cuda(launch_add(f.p, 1, 100, f.a));
    assert_cuda(cudaStreamEndCapture(f.a, &graph));
    assert_cuda(cudaStreamIsCapturing(f.a, &status));
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    read_words(&f, words);
    assert_int_equal(words[0], 0);
    assert_cuda(cudaGraphGetNodes(graph, NULL, &n));
    assert_int_equal(n, 2);
    assert_cuda(cudaGraphInstantiate(&exec, graph, 0));
    assert_cuda(cudaGraphDestroy(graph));
    for (int i = 0; i < 5; i++)
        assert_cuda(cudaGraphLaunch(exec, f.a));
    assert_cuda(cudaStreamSynchronize(f.a));
    read_words(&f, words);
    assert_int_equal(words[0], 515);
    assert_int_equal(words[1], 15);
    assert_cuda(cudaGraphExecDestroy(exec));
    teardown(&f);
}

/* Opens the gate of another branch: the graph completes only if branches overlap. */
static void open_gate(void *arg)
{
    gate_open(arg);
}

static void capture_branches(struct fixture *f, struct gate *gate)
{
    assert_cuda(cudaStreamBeginCapture(f->a, cudaStreamCaptureModeThreadLocal));
    assert_cuda(cudaEventRecord(f->fork, f->a));
    assert_cuda(cudaStreamWaitEvent(f->b, f->fork, 0));
    gate_close_stream(gate, f->a);
    assert_cuda(cudaLaunchHostFunc(f->b, open_gate, gate));
    assert_cuda(launch_add(f->p, 1, 1, f->b));
    assert_cuda(cudaEventRecord(f->join, f->b));
    assert_cuda(cudaStreamWaitEvent(f->a, f->join, 0));
    assert_cuda(launch_add(f->p, 2, 10, f->a));
}

static void branches_overlap_and_join(void **state)
{
    struct gate gate;
    cudaGraphExec_t exec;
    struct fixture f;
    cudaGraph_t graph;
    int words[2];

    (void)state;
    setup(&f);
    capture_branches(&f, &gate);
    assert_cuda_error(cudaEventQuery(f.join), cudaErrorCapturedEvent);
    assert_cuda_error(cudaStreamEndCapture(f.a, &graph), cudaErrorStreamCaptureInvalidated);
    assert_null(graph);

    capture_branches(&f, &gate);
    assert_cuda(cudaStreamEndCapture(f.a, &graph));
    assert_cuda(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        atomic_store(&gate.open, 0);
        assert_cuda(cudaGraphLaunch(exec, f.a));
        assert_cuda(cudaStreamSynchronize(f.a));
    }
    read_words(&f, words);
    assert_int_equal(words[0], 33);
    assert_int_equal(words[1], 30);
    assert_cuda(cudaGraphExecDestroy(exec));
    assert_cuda(cudaGraphDestroy(graph));
    teardown(&f);
}

static void what_cannot_be_captured_ends_the_capture(void **state)
{
    struct fixture f;
    cudaGraph_t graph;
    void *p;

    (void)state;
    setup(&f);
    assert_cuda(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeGlobal));
    assert_cuda_error(cudaStreamSynchronize(f.a), cudaErrorStreamCaptureUnsupported);
    assert_cuda_error(launch_add(f.p, 1, 1, f.a), cudaErrorStreamCaptureInvalidated);
    assert_cuda_error(cudaStreamEndCapture(f.a, &graph), cudaErrorStreamCaptureInvalidated);

    assert_cuda(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeGlobal));
    assert_cuda_error(cudaMalloc(&p, 16), cudaErrorStreamCaptureUnsupported);
    assert_cuda_error(cudaStreamEndCapture(f.a, &graph), cudaErrorStreamCaptureInvalidated);

    assert_cuda(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeRelaxed));
    assert_cuda(cudaMalloc(&p, 16));
    assert_cuda(cudaStreamEndCapture(f.a, &graph));
    assert_cuda(cudaGraphDestroy(graph));
    assert_cuda(cudaFree(p));

    assert_cuda(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeGlobal));
    assert_cuda(cudaEventRecord(f.fork, f.a));
    assert_cuda(cudaStreamWaitEvent(f.b, f.fork, 0));
    assert_cuda(launch_add(f.p, 1, 1, f.b));        /* this branch is never joined */
    assert_cuda_error(cudaStreamEndCapture(f.a, &graph), cudaErrorStreamCaptureUnjoined);

    assert_cuda(cudaEventRecord(f.join, f.b));      /* outside of the capture */
    assert_cuda(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeGlobal));
    assert_cuda_error(cudaStreamWaitEvent(f.a, f.join, 0), cudaErrorStreamCaptureIsolation);
    assert_cuda_error(cudaStreamEndCapture(f.a, &graph), cudaErrorStreamCaptureInvalidated);
    assert_cuda_error(cudaStreamEndCapture(f.a, &graph), cudaErrorIllegalState);
    assert_cuda_error(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal),
                      cudaErrorStreamCaptureUnsupported);
    teardown(&f);
}

static void graphs_are_built_and_updated_by_calls(void **state)
{
    cudaGraphExecUpdateResultInfo info;
    cudaGraph_t graph, child;
    cudaGraphNode_t first, second, nested;
    cudaGraphExec_t exec;
    struct fixture f;
    int n = 2, value = 5, words[2];
    void *arguments[3];
    struct cudaKernelNodeParams k = { .func = (void *)(uintptr_t)&kernel_add,
                                      .gridDim = { 1, 1, 1 },
                                      .blockDim = { 1, 1, 1 },
                                      .kernelParams = arguments };

    (void)state;
    setup(&f);
    arguments[0] = &f.p;
    arguments[1] = &n;
    arguments[2] = &value;
    assert_cuda(cudaGraphCreate(&child, 0));
    assert_cuda(cudaGraphAddKernelNode(&nested, child, NULL, 0, &k));
    assert_cuda(cudaGraphCreate(&graph, 0));
    assert_cuda(cudaGraphAddChildGraphNode(&first, graph, NULL, 0, child));
    assert_cuda(cudaGraphAddKernelNode(&second, graph, &first, 1, &k));
    assert_cuda_error(cudaGraphAddDependencies(graph, &second, &first, NULL, 1),
                      cudaErrorInvalidValue);
    assert_cuda(cudaGraphInstantiate(&exec, graph, 0));
    assert_cuda(cudaGraphLaunch(exec, f.a));
    value = 100;
    assert_cuda(cudaGraphExecKernelNodeSetParams(exec, second, &k));
    assert_cuda(cudaGraphLaunch(exec, f.a));
    read_words(&f, words);
    assert_int_equal(words[0], 10 + 105);
    assert_cuda_error(cudaGraphExecUpdate(exec, child, &info), cudaErrorGraphExecUpdateFailure);
    assert_int_equal(info.result, cudaGraphExecUpdateErrorTopologyChanged);
    assert_cuda(cudaGraphExecUpdate(exec, graph, &info));
    assert_cuda(cudaGraphLaunch(exec, f.a));
    read_words(&f, words);
    assert_int_equal(words[0], 10 + 105 + 10);
    assert_cuda(cudaGraphExecDestroy(exec));
    assert_cuda(cudaGraphDestroy(graph));
    assert_cuda(cudaGraphDestroy(child));
    teardown(&f);
}

static void count_down(void *arg)
{
    __atomic_fetch_sub((int *)arg, 1, __ATOMIC_RELEASE);
}

static void user_objects_live_as_long_as_their_graphs(void **state)
{
    cudaUserObject_t object;
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    int alive = 1;

    (void)state;
    assert_cuda(cudaGraphCreate(&graph, 0));
    assert_cuda(
        cudaUserObjectCreate(&object, &alive, count_down, 1, cudaUserObjectNoDestructorSync));
    assert_cuda(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    assert_cuda(cudaGraphInstantiate(&exec, graph, 0));
    assert_cuda(cudaGraphDestroy(graph));
    assert_int_equal(alive, 1);
    assert_cuda(cudaGraphExecDestroy(exec));
    assert_int_equal(alive, 0);
    if (gpu_is_emulated())      /* the handle is stale */
        assert_cuda_error(cudaUserObjectRelease(object, 1), cudaErrorInvalidValue);
}

static void hold_count(cudaGraph_t graph, int *alive)
{
    cudaUserObject_t object;

    *alive = 1;
    assert_cuda(
        cudaUserObjectCreate(&object, alive, count_down, 1, cudaUserObjectNoDestructorSync));
    assert_cuda(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
}

/* A running launch keeps its user objects, although the executable graph is destroyed. */
static void user_objects_outlive_a_running_launch(void **state)
{
    struct gate gate;
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    struct fixture f;
    int alive;

    (void)state;
    setup(&f);
    assert_cuda(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeThreadLocal));
    assert_cuda(cudaMemsetAsync(f.p, 0, sizeof(int), f.a));
    assert_cuda(cudaStreamEndCapture(f.a, &graph));
    hold_count(graph, &alive);
    assert_cuda(cudaGraphInstantiate(&exec, graph, 0));
    assert_cuda(cudaGraphDestroy(graph));
    gate_close_stream(&gate, f.a);
    assert_cuda(cudaGraphLaunch(exec, f.a));
    assert_cuda(cudaGraphExecDestroy(exec));
    assert_int_equal(__atomic_load_n(&alive, __ATOMIC_ACQUIRE), 1);
    gate_open(&gate);
    assert_cuda(cudaStreamSynchronize(f.a));
    while (__atomic_load_n(&alive, __ATOMIC_ACQUIRE))
        sched_yield();
    teardown(&f);
}

static void an_update_replaces_the_user_objects(void **state)
{
    cudaGraphExecUpdateResultInfo why;
    cudaGraph_t graph, other;
    cudaGraphExec_t exec;
    int first, second;

    (void)state;
    assert_cuda(cudaGraphCreate(&graph, 0));
    assert_cuda(cudaGraphCreate(&other, 0));
    hold_count(graph, &first);
    hold_count(other, &second);
    assert_cuda(cudaGraphInstantiate(&exec, graph, 0));
    assert_cuda(cudaGraphExecUpdate(exec, other, &why));
    assert_cuda(cudaGraphDestroy(graph));
    assert_cuda(cudaGraphDestroy(other));
    assert_int_equal(first, 0);
    assert_int_equal(second, 1);
    assert_cuda(cudaGraphExecDestroy(exec));
    assert_int_equal(second, 0);
}

/* The graph of a capture is destroyed with the capture's first stream; the other stream can be used
 * again. */
static void a_destroyed_stream_ends_its_capture(void **state)
{
    enum cudaStreamCaptureStatus status;
    cudaStream_t stream;
    cudaGraph_t graph;
    struct fixture f;
    int alive;

    (void)state;
    setup(&f);
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_cuda(cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, NULL, NULL, NULL));
    hold_count(graph, &alive);
    assert_cuda(cudaEventRecord(f.fork, stream));
    assert_cuda(cudaStreamWaitEvent(f.b, f.fork, 0));
    assert_cuda(cudaStreamDestroy(stream));
    assert_int_equal(alive, 0);
    assert_cuda(cudaStreamIsCapturing(f.b, &status));
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captured_work_runs_at_each_launch_only),
        cmocka_unit_test(branches_overlap_and_join),
        cmocka_unit_test(what_cannot_be_captured_ends_the_capture),
        cmocka_unit_test(graphs_are_built_and_updated_by_calls),
        cmocka_unit_test(user_objects_live_as_long_as_their_graphs),
        cmocka_unit_test(user_objects_outlive_a_running_launch),
        cmocka_unit_test(an_update_replaces_the_user_objects),
        cmocka_unit_test(a_destroyed_stream_ends_its_capture),
    };

    kernels_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
