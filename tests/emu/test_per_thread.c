/* Programs that are compiled for default streams of threads: NULL is the stream of the thread. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1

#include "gpu.h"

#include <pthread.h>
#include <string.h>

/* Another thread uses its default stream while that of the first thread is blocked. */
static void *copy_on_default_stream(void *arg)
{
    char *const host = arg;
    void *p;

    if (cudaMalloc(&p, 64) || cudaMemsetAsync(p, 0x2b, 64, NULL) ||
        cudaMemcpyAsync(host, p, 64, cudaMemcpyDeviceToHost, NULL) || cudaStreamSynchronize(NULL))
        host[0] = 0;
    return NULL;
}

static void default_streams_of_threads_overlap(void **state)
{
    pthread_t thread;
    struct gate gate;
    char *host;

    (void)state;
    assert_cuda(cudaMallocHost((void **)&host, 64));
    memset(host, 0, 64);
    gate_close_stream(&gate, cudaStreamPerThread);
    assert_cuda_error(cudaStreamQuery(NULL), cudaErrorNotReady);
    assert_int_equal(pthread_create(&thread, NULL, copy_on_default_stream, host), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (int i = 0; i < 64; i++)
        assert_int_equal(host[i], 0x2b);
    assert_cuda_error(cudaStreamQuery(NULL), cudaErrorNotReady);
    gate_open(&gate);
    assert_cuda(cudaStreamSynchronize(NULL));
    assert_cuda(cudaStreamQuery(NULL));
    assert_cuda(cudaFreeHost(host));
}

static void the_legacy_stream_still_exists(void **state)
{
    struct gate gate;

    (void)state;
    gate_close_stream(&gate, cudaStreamPerThread);
    assert_cuda_error(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);    /* it blocks */
    gate_open(&gate);
    assert_cuda(cudaStreamSynchronize(cudaStreamLegacy));
    assert_cuda(cudaStreamQuery(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_streams_of_threads_overlap),
        cmocka_unit_test(the_legacy_stream_still_exists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
