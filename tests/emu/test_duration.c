/* Work takes at least as long as on the device that the settings describe. */
#include "gpu.h"

#include <stdlib.h>

#define BYTES ((size_t)1 << 20)

static void copies_take_the_time_of_the_described_link(void **state)
{
    cudaEvent_t start, end;
    cudaStream_t s;
    void *host, *p;
    float ms;

    (void)state;
    if (!gpu_is_emulated())
        skip();
    assert_cuda(cudaStreamCreate(&s));
    assert_cuda(cudaMallocHost(&host, BYTES));
    assert_cuda(cudaMalloc(&p, BYTES));
    assert_cuda(cudaEventCreate(&start));
    assert_cuda(cudaEventCreate(&end));
    assert_cuda(cudaEventRecord(start, s));
    assert_cuda(cudaMemcpyAsync(p, host, BYTES, cudaMemcpyHostToDevice, s));
    assert_cuda(cudaMemsetAsync(p, 1, BYTES, s));
    assert_cuda(cudaEventRecord(end, s));
    assert_cuda(cudaStreamSynchronize(s));
    assert_cuda(cudaEventElapsedTime(&ms, start, end));
    assert_true(ms >= 1.048f + 0.524f + 2.0f);      /* 1 MiB at 1000 MB/s and at 2000 MB/s, and
                                                       twice 1 ms */
    assert_cuda(cudaEventDestroy(start));
    assert_cuda(cudaEventDestroy(end));
    assert_cuda(cudaFree(p));
    assert_cuda(cudaFreeHost(host));
    assert_cuda(cudaStreamDestroy(s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_take_the_time_of_the_described_link),
    };

    setenv("TUTTI_EMU_COPY_MBPS", "1000", 1);
    setenv("TUTTI_EMU_DEVICE_MBPS", "2000", 1);
    setenv("TUTTI_EMU_LAUNCH_NS", "1000000", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
