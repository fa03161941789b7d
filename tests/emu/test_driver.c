/* The driver: initialization, contexts, pools, attributes of pointers, values in memory. */
#include "gpu.h"

#include <cuda.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static void without_init(void *arg)
{
    CUdeviceptr p;
    CUdevice d;

    (void)arg;
    if (cuDeviceGet(&d, 0) != CUDA_ERROR_NOT_INITIALIZED)
        _exit(1);
    if (cuInit(0) || cuMemAlloc(&p, 16) != CUDA_ERROR_INVALID_CONTEXT)
        _exit(2);
}

static void contexts_form_a_stack(void **state)
{
    CUcontext primary, own, current;
    CUdevice d, device;
    unsigned flags;
    int active;

    (void)state;
    assert_int_equal(cuDeviceGet(&d, 0), 0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&primary, d), 0);
    assert_int_equal(cuDevicePrimaryCtxGetState(d, &flags, &active), 0);
    assert_int_equal(active, 1);
    assert_int_equal(cuCtxSetCurrent(primary), 0);
    assert_int_equal(cuCtxCreate(&own, NULL, 0, d), 0);
    assert_int_equal(cuCtxGetCurrent(&current), 0);
    assert_ptr_equal(current, own);
    assert_int_equal(cuCtxGetDevice_v2(&device, NULL), 0);
    assert_int_equal(device, d);
    assert_int_equal(cuCtxGetDevice_v2(&device, primary), 0);
    assert_int_equal(device, d);
    assert_int_equal(cuCtxSynchronize_v2(primary), 0);
    assert_int_equal(cuCtxDestroy(own), 0);
    assert_int_equal(cuCtxGetCurrent(&current), 0);
    assert_ptr_equal(current, primary);
    assert_int_equal(cuCtxSetCurrent(own), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuDevicePrimaryCtxRelease(d), 0);
}

static void attributes_describe_an_allocation(void **state)
{
    CUpointer_attribute which[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
    unsigned type, on = 1;
    int ordinal;
    void *out[] = { &type, &ordinal };
    unsigned long long id, other_id;
    CUdeviceptr p, q, base;
    size_t bytes;

    (void)state;
    assert_int_equal(cuMemAlloc(&p, 1000), 0);
    assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 999), 0);
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_int_equal(
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&type),
        CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemGetAddressRange(&base, &bytes, p + 500), 0);
    assert_true(base == p && bytes == 1000);
    assert_int_equal(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), 0);
    assert_int_equal(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p), 0);
    assert_int_equal(cuPointerGetAttributes(2, which, out, p), 0);
    assert_int_equal(ordinal, 0);
    assert_int_equal(cuPointerGetAttributes(2, which, out, (CUdeviceptr)&type), 0);
    assert_int_equal(type, 0);
    assert_int_equal(cuMemFree(p), 0);
    /* possibly at the same address, but with another buffer ID */
    assert_int_equal(cuMemAlloc(&q, 1000), 0);
    assert_int_equal(cuPointerGetAttribute(&other_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, q), 0);
    assert_true(id != other_id);
    assert_int_equal(cuMemFree(q), 0);
}

static void streams_wait_for_values_and_write_them(void **state)
{
    _Atomic uint32_t *flags;
    CUstream s;

    (void)state;
    assert_int_equal(cuMemHostAlloc((void **)&flags, 64, 0), 0);
    memset((void *)flags, 0, 64);
    assert_int_equal(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cuStreamWaitValue32(s, (CUdeviceptr)&flags[0], 2, CU_STREAM_WAIT_VALUE_GEQ),
                     0);
    assert_int_equal(cuStreamWriteValue32(s, (CUdeviceptr)&flags[1], 7, 0), 0);
    assert_int_equal(
        cuStreamWaitValue64(s, (CUdeviceptr)&flags[2], 1u << 4, CU_STREAM_WAIT_VALUE_AND), 0);
    assert_int_equal(cuStreamWriteValue64(s, (CUdeviceptr)&flags[4], UINT64_C(1) << 40, 0), 0);
    assert_int_equal(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    atomic_store(&flags[0], 1);
    assert_int_equal(atomic_load(&flags[1]), 0);
    atomic_store(&flags[0], 3);
    while (atomic_load(&flags[1]) != 7)
        usleep(100);
    assert_int_equal(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    atomic_store(&flags[2], 0x30);
    assert_int_equal(cuStreamSynchronize(s), 0);
    assert_int_equal(atomic_load(&flags[5]), 1 << 8);
    assert_int_equal(cuStreamWaitValue32(s, (CUdeviceptr)&flags[0] + 1, 0, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamWaitValue32(s, 64, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamDestroy(s), 0);
    assert_int_equal(cuMemFreeHost((void *)flags), 0);
}

static void pools_free_in_the_order_of_a_stream(void **state)
{
    uint64_t used, threshold = 1 << 20;
    struct gate gate;
    CUmemoryPool pool;
    char in[256];
    CUdeviceptr p, q;
    CUstream s;

    (void)state;
    assert_int_equal(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cuDeviceGetDefaultMemPool(&pool, 0), 0);
    assert_int_equal(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold), 0);
    gate_close_stream(&gate, s);
    assert_int_equal(cuMemAllocAsync(&p, 256, s), 0);
    assert_int_equal(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), 0);
    assert_int_equal(used, 256);
    assert_int_equal(cuMemsetD8Async(p, 0x31, 256, s), 0);
    assert_int_equal(cuMemAllocAsync(&q, 256, s), 0);
    assert_int_equal(cuMemcpyDtoDAsync(q, p, 256, s), 0);
    assert_int_equal(cuMemFreeAsync(p, s), 0);
    assert_int_equal(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
    gate_open(&gate);
    assert_int_equal(cuMemcpyDtoHAsync(in, q, 256, s), 0);
    assert_int_equal(cuStreamSynchronize(s), 0);
    for (int i = 0; i < 256; i++)
        assert_int_equal(in[i], 0x31);
    assert_int_equal(cuMemFreeAsync(q, s), 0);
    assert_int_equal(cuStreamSynchronize(s), 0);
    assert_int_equal(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), 0);
    assert_int_equal(used, 0);
    assert_int_equal(cuStreamDestroy(s), 0);
}

static void entry_points_are_found_by_name(void **state)
{
    CUdriverProcAddressQueryResult result;
    CUresult (*init)(unsigned);
    void *fn;

    (void)state;
    assert_int_equal(cuGetProcAddress("cuInit", (void **)&init, 13000, 0, &result), 0);
    assert_int_equal(result, CU_GET_PROC_ADDRESS_SUCCESS);
    assert_int_equal(init(0), 0);
    assert_int_equal(cuGetProcAddress("cuMemAlloc", &fn, 13000, 0, &result), 0);
    assert_non_null(fn);
    assert_int_equal(cuGetProcAddress("cuNoSuchCall", &fn, 13000, 0, &result), 0);
    assert_int_equal(result, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_null(fn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_form_a_stack),
        cmocka_unit_test(attributes_describe_an_allocation),
        cmocka_unit_test(streams_wait_for_values_and_write_them),
        cmocka_unit_test(pools_free_in_the_order_of_a_stream),
        cmocka_unit_test(entry_points_are_found_by_name),
    };
    const int status = gpu_in_child(without_init, NULL);
    CUcontext primary;

    if (status) {
        print_error("calls before cuInit: child ended with status %#x\n", (unsigned)status);
        return 1;
    }
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&primary, 0) || cuCtxSetCurrent(primary))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
