/* Virtual memory management: memory that is mapped, remapped and shared by file descriptors. */
#include "gpu.h"

#include <cuda.h>
#include <string.h>
#include <unistd.h>

#define GRANULE ((size_t)2 << 20)

static CUmemAllocationProp shareable(void)
{
    CUmemAllocationProp p = { 0 };

    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return p;
}

static void allow(CUdeviceptr p, size_t bytes)
{
    CUmemAccessDesc access = { .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    assert_int_equal(cuMemSetAccess(p, bytes, &access, 1), CUDA_SUCCESS);
}

static void a_buffer_grows_in_place(void **state)
{
    const CUmemAllocationProp prop = shareable();
    CUmemGenericAllocationHandle first, second;
    char out[64], in[64];
    size_t granule;
    CUdeviceptr p;

    (void)state;
    memset(out, 0x21, sizeof(out));
    assert_int_equal(
        cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM), 0);
    assert_int_equal(granule, GRANULE);
    assert_int_equal(cuMemAddressReserve(&p, 4 * GRANULE, 0, 0, 0), 0);
    assert_int_equal(cuMemCreate(&first, GRANULE, &prop, 0), 0);
    assert_int_equal(cuMemCreate(&second, GRANULE, &prop, 0), 0);
    assert_int_equal(cuMemMap(p, GRANULE, 0, first, 0), 0);
    assert_int_equal(cuMemcpyHtoD(p, out, 64), CUDA_ERROR_INVALID_VALUE);       /* no access yet */
    allow(p, GRANULE);
    assert_int_equal(cuMemMap(p + GRANULE, GRANULE, 0, second, 0), 0);
    allow(p + GRANULE, GRANULE);
    assert_int_equal(cuMemcpyHtoD(p + GRANULE - 32, out, 64), 0);       /* across both mappings */
    assert_int_equal(cuMemcpyDtoH(in, p + GRANULE - 32, 64), 0);
    assert_memory_equal(in, out, 64);
    assert_int_equal(cuMemcpyHtoD(p + 2 * GRANULE - 32, out, 64), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemMap(p, GRANULE, 0, second, 0), CUDA_ERROR_INVALID_VALUE);     /* in use */
    assert_int_equal(cuMemAddressFree(p, 4 * GRANULE), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemUnmap(p, 2 * GRANULE), 0);
    assert_int_equal(cuMemRelease(first), 0);
    assert_int_equal(cuMemMap(p, GRANULE, 0, second, 0), 0);        /* maps the second memory */
    allow(p, GRANULE);
    assert_int_equal(cuMemcpyDtoH(in, p, 32), 0);
    assert_memory_equal(in, out, 32);
    assert_int_equal(cuMemUnmap(p, GRANULE), 0);
    assert_int_equal(cuMemRelease(second), 0);
    assert_int_equal(cuMemRelease(second), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAddressFree(p, 4 * GRANULE), 0);
}

static void descriptors_share_memory(void **state)
{
    const CUmemAllocationProp prop = shareable();
    CUmemGenericAllocationHandle owner, imported, none;
    CUdeviceptr p, q;
    char in[16];
    int fd;

    (void)state;
    assert_int_equal(cuMemCreate(&owner, GRANULE, &prop, 0), 0);
    assert_int_equal(
        cuMemExportToShareableHandle(&fd, owner, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), 0);
    assert_int_equal(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
                                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                     0);
    close(fd);
    assert_int_equal(cuMemAddressReserve(&p, GRANULE, 0, 0, 0), 0);
    assert_int_equal(cuMemAddressReserve(&q, GRANULE, 0, 0, 0), 0);
    assert_int_equal(cuMemMap(p, GRANULE, 0, owner, 0), 0);
    assert_int_equal(cuMemMap(q, GRANULE, 0, imported, 0), 0);
    allow(p, GRANULE);
    allow(q, GRANULE);
    assert_int_equal(cuMemsetD8(p, 0x44, 16), 0);
    assert_int_equal(cuMemcpyDtoH(in, q, 16), 0);
    for (int i = 0; i < 16; i++)
        assert_int_equal(in[i], 0x44);
    assert_int_equal(cuMemUnmap(p, GRANULE), 0);
    assert_int_equal(cuMemUnmap(q, GRANULE), 0);
    assert_int_equal(cuMemAddressFree(p, GRANULE), 0);
    assert_int_equal(cuMemAddressFree(q, GRANULE), 0);
    assert_int_equal(cuMemRelease(owner), 0);
    assert_int_equal(cuMemRelease(imported), 0);
    assert_int_not_equal(
        cuMemImportFromShareableHandle(&none, (void *)0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_grows_in_place),
        cmocka_unit_test(descriptors_share_memory),
    };

    if (cuInit(0) || cudaSetDevice(0))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
