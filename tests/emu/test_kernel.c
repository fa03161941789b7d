/* Kernels that the program registers: arguments, order, concurrent blocks, and sticky errors. */
#include "gpu.h"
#include "kernels.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static cudaError_t launch_add(void *p, int n, int value, cudaStream_t s)
{
    void *arguments[] = { &p, &n, &value };

    return cudaLaunchKernel(&kernel_add, (dim3){ 1, 1, 1 }, (dim3){ 32, 1, 1 }, arguments, 0, s);
}

static void kernels_run_in_the_order_of_their_stream(void **state)
{
    int host[64];
    cudaStream_t s;
    void *p;

    (void)state;
    assert_cuda(cudaStreamCreate(&s));
    assert_cuda(cudaMalloc(&p, sizeof(host)));
    assert_cuda(cudaMemsetAsync(p, 0, sizeof(host), s));
    for (int i = 1; i <= 10; i++)
        assert_cuda(launch_add(p, 64, i, s));       /* the arguments are copied at the launch */
    assert_cuda(cudaMemcpyAsync(host, p, sizeof(host), cudaMemcpyDeviceToHost, s));
    assert_cuda(cudaStreamSynchronize(s));
    for (int i = 0; i < 64; i++)
        assert_int_equal(host[i], 55);
    assert_cuda(cudaFree(p));
    assert_cuda(cudaStreamDestroy(s));
}

static void concurrent_blocks_can_wait_for_each_other(void **state)
{
    int host[8];
    void *p, *arguments[] = { &p };

    (void)state;
    assert_cuda(cudaMalloc(&p, sizeof(host)));
    assert_cuda(cudaMemset(p, 0, sizeof(host)));
    assert_cuda(
        cudaLaunchKernel(&kernel_blocks, (dim3){ 8, 1, 1 }, (dim3){ 1, 1, 1 }, arguments, 0, NULL));
    assert_cuda(cudaMemcpy(host, p, sizeof(host), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++)
        assert_int_equal(host[i], 8);
    assert_cuda(cudaFree(p));
}

static void bad_launches_give_errors(void **state)
{
    int value = 0;
    void *p = NULL, *arguments[] = { &p, &value, &value };
    const dim3 one = { 1, 1, 1 };

    (void)state;
    assert_cuda_error(cudaLaunchKernel(&value, one, one, arguments, 0, NULL),
                      cudaErrorInvalidDeviceFunction);
    assert_cuda_error(cudaLaunchKernel(&kernel_add, one, (dim3){ 2048, 1, 1 }, arguments, 0, NULL),
                      cudaErrorInvalidConfiguration);
    assert_cuda_error(cudaLaunchKernel(&kernel_add, (dim3){ 0, 1, 1 }, one, arguments, 0, NULL),
                      cudaErrorInvalidConfiguration);
    assert_cuda_error(cudaLaunchKernel(&kernel_add, one, one, arguments, 1 << 20, NULL),
                      cudaErrorInvalidConfiguration);
}

/* In a child that starts before this process uses CUDA: after the error, the device cannot be used
 * any more. */
static void break_device(void *arg)
{
    const dim3 one = { 1, 1, 1 };
    cudaStream_t other;
    void *p;

    (void)arg;
    kernels_register();
    if (cudaStreamCreate(&other) || cudaLaunchKernel(&kernel_fail, one, one, NULL, 0, NULL))
        _exit(1);
    if (cudaDeviceSynchronize() != cudaErrorAssert)
        _exit(2);
    if (cudaMalloc(&p, 16) != cudaErrorAssert || cudaStreamSynchronize(other) != cudaErrorAssert)
        _exit(3);
    if (cudaGetLastError() != cudaErrorAssert || cudaGetLastError() != cudaErrorAssert)
        _exit(4);           /* the error remains after it was read */
    if (cudaDeviceReset() || cudaMalloc(&p, 16))
        _exit(5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_run_in_the_order_of_their_stream),
        cmocka_unit_test(concurrent_blocks_can_wait_for_each_other),
        cmocka_unit_test(bad_launches_give_errors),
    };
    const int status = gpu_in_child(break_device, NULL);

    if (status) {
        print_error("errors of kernels stick: child ended with status %#x\n", (unsigned)status);
        return 1;
    }
    kernels_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
