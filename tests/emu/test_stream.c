/* Streams and events: order within a stream, overlap of streams, rules of default streams. */
#include "gpu.h"

#include <stdatomic.h>
#include <string.h>

/* A list to which host functions append. */
struct order {
    _Atomic int n;
    int item[64];
};

struct append {
    struct order *order;
    int value;
};

static void append(void *arg)
{
    struct append *a = arg;

    a->order->item[atomic_fetch_add(&a->order->n, 1)] = a->value;
}

static void streams_run_in_order(void **state)
{
    struct order order = { 0 };
    struct append items[32];
    cudaStream_t s;

    (void)state;
    assert_cuda(cudaStreamCreate(&s));
    for (int i = 0; i < 32; i++) {
        items[i] = (struct append){ &order, i };
        assert_cuda(cudaLaunchHostFunc(s, append, &items[i]));
    }
    assert_cuda(cudaStreamSynchronize(s));
    assert_cuda(cudaStreamQuery(s));
    assert_int_equal(atomic_load(&order.n), 32);
    for (int i = 0; i < 32; i++)
        assert_int_equal(order.item[i], i);
    assert_cuda(cudaStreamDestroy(s));
}

/* Values outside the range become the nearest priority, as in CUDA. */
static void streams_have_priorities(void **state)
{
    int lowest, highest, priority;
    cudaStream_t s;

    (void)state;
    assert_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    assert_true(highest <= lowest);
    for (int asked = highest - 2; asked <= lowest + 2; asked++) {
        const int nearest = asked < highest ? highest : asked > lowest ? lowest : asked;

        assert_cuda(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, asked));
        assert_cuda(cudaStreamGetPriority(s, &priority));
        assert_int_equal(priority, nearest);
        assert_cuda(cudaStreamDestroy(s));
    }
    assert_cuda(cudaDeviceGetStreamPriorityRange(NULL, NULL));
    assert_cuda_error(cudaStreamCreateWithPriority(&s, 0x40, lowest), cudaErrorInvalidValue);
    assert_cuda(cudaStreamGetPriority(NULL, &priority));
    assert_int_equal(priority, 0);
}

static void calls_return_before_their_work(void **state)
{
    struct gate gate;
    cudaStream_t s;
    int *host;
    void *p;

    (void)state;
    assert_cuda(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    assert_cuda(cudaMallocHost((void **)&host, sizeof(int)));
    assert_cuda(cudaMalloc(&p, sizeof(int)));
    *host = 1;
    gate_close_stream(&gate, s);
    assert_cuda(cudaMemsetAsync(p, 0xff, sizeof(int), s));
    assert_cuda(cudaMemcpyAsync(host, p, sizeof(int), cudaMemcpyDeviceToHost, s));
    assert_cuda_error(cudaStreamQuery(s), cudaErrorNotReady);
    assert_int_equal(*host, 1);
    gate_open(&gate);
    assert_cuda(cudaStreamSynchronize(s));
    assert_int_equal(*host, -1);
    assert_cuda(cudaFree(p));
    assert_cuda(cudaFreeHost(host));
    assert_cuda(cudaStreamDestroy(s));
}

static void streams_overlap_and_events_join_them(void **state)
{
    struct order order = { 0 };
    struct append one = { &order, 1 }, two = { &order, 2 };
    cudaStream_t a, b;
    cudaEvent_t held, free_event;
    struct gate gate;

    (void)state;
    assert_cuda(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    assert_cuda(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    assert_cuda(cudaEventCreateWithFlags(&held, cudaEventDisableTiming));
    assert_cuda(cudaEventCreateWithFlags(&free_event, cudaEventDisableTiming));
    assert_cuda(cudaEventQuery(held));          /* never recorded: complete */
    gate_close_stream(&gate, a);
    assert_cuda(cudaLaunchHostFunc(a, append, &one));
    assert_cuda(cudaEventRecord(held, a));
    assert_cuda(cudaEventRecord(free_event, b));
    assert_cuda(cudaEventSynchronize(free_event));      /* b does not wait for a */
    assert_cuda_error(cudaEventQuery(held), cudaErrorNotReady);
    assert_cuda(cudaStreamWaitEvent(b, held, 0));
    assert_cuda(cudaLaunchHostFunc(b, append, &two));
    assert_cuda_error(cudaStreamQuery(b), cudaErrorNotReady);
    gate_open(&gate);
    assert_cuda(cudaStreamSynchronize(b));
    assert_int_equal(order.item[0], 1);
    assert_int_equal(order.item[1], 2);
    assert_cuda(cudaEventQuery(held));
    assert_cuda(cudaEventDestroy(held));
    assert_cuda(cudaEventDestroy(free_event));
    assert_cuda(cudaStreamDestroy(a));
    assert_cuda(cudaStreamDestroy(b));
}

static void the_legacy_stream_waits_for_blocking_streams(void **state)
{
    struct order order = { 0 };
    struct append one = { &order, 1 }, two = { &order, 2 }, three = { &order, 3 };
    cudaStream_t blocking, other;
    struct gate gate;

    (void)state;
    assert_cuda(cudaStreamCreate(&blocking));
    assert_cuda(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    gate_close_stream(&gate, blocking);
    assert_cuda(cudaLaunchHostFunc(blocking, append, &one));
    assert_cuda(cudaLaunchHostFunc(NULL, append, &two));
    assert_cuda(cudaLaunchHostFunc(blocking, append, &three));      /* waits for two */
    assert_cuda(cudaStreamSynchronize(other));                      /* idle: waits for nothing */
    assert_int_equal(atomic_load(&order.n), 0);
    assert_cuda_error(cudaStreamQuery(NULL), cudaErrorNotReady);
    gate_open(&gate);
    assert_cuda(cudaDeviceSynchronize());
    for (int i = 0; i < 3; i++)
        assert_int_equal(order.item[i], i + 1);
    assert_cuda(cudaStreamDestroy(blocking));
    assert_cuda(cudaStreamDestroy(other));
}

static void events_measure_time_and_refuse_to_without_it(void **state)
{
    cudaEvent_t start, end, untimed, fresh;
    cudaStream_t s;
    float ms = -1;

    (void)state;
    assert_cuda(cudaStreamCreate(&s));
    assert_cuda(cudaEventCreate(&start));
    assert_cuda(cudaEventCreate(&end));
    assert_cuda(cudaEventCreate(&fresh));
    assert_cuda(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    assert_cuda(cudaEventRecord(start, s));
    assert_cuda(cudaEventRecord(untimed, s));
    assert_cuda(cudaEventRecord(end, s));
    assert_cuda(cudaEventSynchronize(end));
    assert_cuda(cudaEventElapsedTime(&ms, start, end));
    assert_true(ms >= 0);
    assert_cuda_error(cudaEventElapsedTime(&ms, start, untimed), cudaErrorInvalidResourceHandle);
    assert_cuda_error(cudaEventElapsedTime(&ms, start, fresh), cudaErrorInvalidResourceHandle);
    assert_cuda(cudaEventDestroy(start));
    assert_cuda(cudaEventDestroy(end));
    assert_cuda(cudaEventDestroy(untimed));
    assert_cuda(cudaEventDestroy(fresh));
    assert_cuda(cudaStreamDestroy(s));
}

static cudaError_t in_host_function;

static void call_cuda(void *arg)
{
    in_host_function = cudaMalloc(arg, 16);
}

static void host_functions_must_not_call_cuda(void **state)
{
    cudaStream_t s;
    void *p = NULL;

    (void)state;
    assert_cuda(cudaStreamCreate(&s));
    assert_cuda(cudaLaunchHostFunc(s, call_cuda, &p));
    assert_cuda(cudaStreamSynchronize(s));
    if (gpu_is_emulated())      /* a real runtime may let some calls pass */
        assert_int_equal(in_host_function, cudaErrorNotPermitted);
    assert_cuda(cudaStreamDestroy(s));
    if (gpu_is_emulated())      /* a GPU may also crash */
        assert_cuda_error(cudaStreamQuery((cudaStream_t)(uintptr_t)0x1230),
                          cudaErrorInvalidResourceHandle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_run_in_order),
        cmocka_unit_test(streams_have_priorities),
        cmocka_unit_test(calls_return_before_their_work),
        cmocka_unit_test(streams_overlap_and_events_join_them),
        cmocka_unit_test(the_legacy_stream_waits_for_blocking_streams),
        cmocka_unit_test(events_measure_time_and_refuse_to_without_it),
        cmocka_unit_test(host_functions_must_not_call_cuda),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
