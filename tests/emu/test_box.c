/* Copies of boxes of pitched memory, within a device and between devices, change only the box. The
 * emulation has no arrays. */
#include "gpu.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 60, HEIGHT = 5, DEPTH = 4, BYTES = WIDTH * HEIGHT * DEPTH };
/* The copied box, and its places in the source and in the destination. */
enum { W = 17, H = 3, D = 2, SX = 5, SY = 1, SZ = 2, TX = 30, TY = 2, TZ = 1 };

static unsigned char value_at(int x, int y, int z)
{
    return (unsigned char)(x * 7 + y * 61 + z * 131);
}

/* Allocates memory of the current device, filled by value_at, or with 0xee. */
static struct cudaPitchedPtr box_alloc(bool filled)
{
    const struct cudaExtent extent = { WIDTH, HEIGHT, DEPTH };
    unsigned char host[BYTES];
    struct cudaPitchedPtr p;
    struct cudaMemcpy3DParms copy = { .extent = extent, .kind = cudaMemcpyHostToDevice };

    for (int i = 0; i < BYTES; i++)
        host[i] = filled ? value_at(i % WIDTH, i / WIDTH % HEIGHT, i / WIDTH / HEIGHT) : 0xee;
    assert_cuda(cudaMalloc3D(&p, extent));
    copy.srcPtr = (struct cudaPitchedPtr){ host, WIDTH, WIDTH, HEIGHT };
    copy.dstPtr = p;
    assert_cuda(cudaMemcpy3D(&copy));
    return p;
}

/* Compares the destination with the expected values, and frees it. */
static void check_box(struct cudaPitchedPtr p)
{
    unsigned char host[BYTES];
    const struct cudaMemcpy3DParms copy = { .srcPtr = p,
                                            .dstPtr = { host, WIDTH, WIDTH, HEIGHT },
                                            .extent = { WIDTH, HEIGHT, DEPTH },
                                            .kind = cudaMemcpyDeviceToHost };

    assert_cuda(cudaMemcpy3D(&copy));
    for (int i = 0; i < BYTES; i++) {
        const int x = i % WIDTH - TX, y = i / WIDTH % HEIGHT - TY, z = i / WIDTH / HEIGHT - TZ;
        const bool inside = x >= 0 && x < W && y >= 0 && y < H && z >= 0 && z < D;

        assert_int_equal(host[i], inside ? value_at(x + SX, y + SY, z + SZ) : 0xee);
    }
    assert_cuda(cudaFree(p.ptr));
}

static void boxes_within_a_device(void **state)
{
    struct cudaMemcpy3DParms copy = { .srcPos = { SX, SY, SZ },
                                      .dstPos = { TX, TY, TZ },
                                      .extent = { W, H, D },
                                      .kind = cudaMemcpyDeviceToDevice };

    (void)state;
    for (int async = 0; async < 2; async++) {
        copy.srcPtr = box_alloc(true);
        copy.dstPtr = box_alloc(false);
        assert_cuda(async ? cudaMemcpy3DAsync(&copy, NULL) : cudaMemcpy3D(&copy));
        check_box(copy.dstPtr);
        assert_cuda(cudaFree(copy.srcPtr.ptr));
    }
}

static void boxes_between_devices(void **state)
{
    struct cudaMemcpy3DPeerParms copy = {
        .srcPos = { SX, SY, SZ }, .dstPos = { TX, TY, TZ }, .srcDevice = 1, .extent = { W, H, D }
    };

    (void)state;
    for (int async = 0; async < 2; async++) {
        assert_cuda(cudaSetDevice(1));
        copy.srcPtr = box_alloc(true);
        assert_cuda(cudaSetDevice(0));
        copy.dstPtr = box_alloc(false);
        assert_cuda(async ? cudaMemcpy3DPeerAsync(&copy, NULL) : cudaMemcpy3DPeer(&copy));
        check_box(copy.dstPtr);
        assert_cuda(cudaFree(copy.srcPtr.ptr));
    }
    copy.srcDevice = 77;
    assert_cuda_error(cudaMemcpy3DPeer(&copy), cudaErrorInvalidDevice);
    assert_cuda_error(cudaMemcpy3DPeerAsync(NULL, NULL), cudaErrorInvalidValue);
}

/* Returns the driver's description of the copy from `src` to `dst`. */
static CUDA_MEMCPY3D driver_box(struct cudaPitchedPtr src, struct cudaPitchedPtr dst)
{
    return (CUDA_MEMCPY3D){ .srcXInBytes = SX,
                            .srcY = SY,
                            .srcZ = SZ,
                            .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                            .srcDevice = (CUdeviceptr)src.ptr,
                            .srcPitch = src.pitch,
                            .srcHeight = src.ysize,
                            .dstXInBytes = TX,
                            .dstY = TY,
                            .dstZ = TZ,
                            .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                            .dstDevice = (CUdeviceptr)dst.ptr,
                            .dstPitch = dst.pitch,
                            .dstHeight = dst.ysize,
                            .WidthInBytes = W,
                            .Height = H,
                            .Depth = D };
}

static void boxes_of_the_driver(void **state)
{
    (void)state;
    for (int async = 0; async < 2; async++) {
        const struct cudaPitchedPtr src = box_alloc(true), dst = box_alloc(false);
        CUDA_MEMCPY3D copy = driver_box(src, dst);

        assert_int_equal(async ? cuMemcpy3DAsync(&copy, NULL) : cuMemcpy3D(&copy), 0);
        copy.dstPitch = TX + W - 1;
        assert_int_equal(cuMemcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
        copy = driver_box(src, dst);
        copy.srcHeight = SY + H - 1;
        assert_int_equal(cuMemcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
        copy = driver_box(src, dst);
        copy.srcMemoryType = CU_MEMORYTYPE_HOST;        /* but it is device memory */
        copy.srcHost = src.ptr;
        assert_int_equal(cuMemcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(cuMemcpy3D(NULL), CUDA_ERROR_INVALID_VALUE);
        check_box(dst);
        assert_cuda(cudaFree(src.ptr));
    }
}

static void boxes_of_the_driver_between_devices(void **state)
{
    struct cudaPitchedPtr src, dst;
    CUDA_MEMCPY3D_PEER copy;
    CUDA_MEMCPY3D box;
    CUcontext context[2];

    (void)state;
    for (int d = 0; d < 2; d++)
        assert_int_equal(cuDevicePrimaryCtxRetain(&context[d], d), 0);
    assert_cuda(cudaSetDevice(1));
    src = box_alloc(true);
    assert_cuda(cudaSetDevice(0));
    for (int async = 0; async < 2; async++) {
        dst = box_alloc(false);
        box = driver_box(src, dst);
        copy = (CUDA_MEMCPY3D_PEER){ .srcXInBytes = SX,
                                     .srcY = SY,
                                     .srcZ = SZ,
                                     .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                     .srcDevice = box.srcDevice,
                                     .srcContext = context[1],
                                     .srcPitch = box.srcPitch,
                                     .srcHeight = box.srcHeight,
                                     .dstXInBytes = TX,
                                     .dstY = TY,
                                     .dstZ = TZ,
                                     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                     .dstDevice = box.dstDevice,
                                     .dstContext = context[0],
                                     .dstPitch = box.dstPitch,
                                     .dstHeight = box.dstHeight,
                                     .WidthInBytes = W,
                                     .Height = H,
                                     .Depth = D };
        assert_int_equal(async ? cuMemcpy3DPeerAsync(&copy, NULL) : cuMemcpy3DPeer(&copy), 0);
        copy.srcContext = NULL;
        assert_int_equal(cuMemcpy3DPeer(&copy), CUDA_ERROR_INVALID_CONTEXT);
        check_box(dst);
    }
    assert_cuda(cudaFree(src.ptr));
    for (int d = 0; d < 2; d++)
        assert_int_equal(cuDevicePrimaryCtxRelease(d), 0);
}

static void arrays_are_refused(void **state)
{
    const struct cudaChannelFormatDesc desc = { 8, 0, 0, 0, cudaChannelFormatKindUnsigned };
    struct cudaMemcpy3DParms copy = { .extent = { 1, 1, 1 }, .kind = cudaMemcpyDefault };
    struct cudaMemcpy3DPeerParms peer = { .extent = { 1, 1, 1 } };
    CUDA_MEMCPY3D box = { .srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .WidthInBytes = 1,
                          .Height = 1,
                          .Depth = 1 };
    const CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = 4, .Height = 1, .NumChannels = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8
    };
    cudaArray_t array = NULL;
    CUarray of_driver;

    (void)state;
    if (!gpu_is_emulated())
        skip();
    assert_cuda_error(cudaMallocArray(&array, &desc, 4, 4, 0), cudaErrorNotSupported);
    assert_cuda_error(cudaMalloc3DArray(&array, &desc, (struct cudaExtent){ 4, 4, 4 }, 0),
                      cudaErrorNotSupported);
    copy.dstArray = (cudaArray_t)&copy;
    assert_cuda_error(cudaMemcpy3D(&copy), cudaErrorNotSupported);
    peer.srcArray = (cudaArray_t)&peer;
    assert_cuda_error(cudaMemcpy3DPeer(&peer), cudaErrorNotSupported);
    assert_int_equal(cuArrayCreate(&of_driver, &shape), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuMemcpy3D(&box), CUDA_ERROR_NOT_SUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_within_a_device),
        cmocka_unit_test(boxes_between_devices),
        cmocka_unit_test(boxes_of_the_driver),
        cmocka_unit_test(boxes_of_the_driver_between_devices),
        cmocka_unit_test(arrays_are_refused),
    };

    setenv("TUTTI_EMU_DEVICES", "2", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
