/* The kernels of the device tests as CUDA kernels; test_device_cuda.sh compiles them. */
#include "device_kernels.h"

__global__ void exchange(tutti_device_view v, struct exchange *x, tutti_status *out)
{
    const tutti_status st = exchange_kernel(&v, blockIdx.x, gridDim.x, x);

    if (threadIdx.x == 0)
        out[blockIdx.x] = st;
}

__global__ void crowd(tutti_device_view v, struct crowd *c, tutti_status *out)
{
    const tutti_status st = crowd_kernel(&v, blockIdx.x, gridDim.x, c);

    if (threadIdx.x == 0)
        out[blockIdx.x] = st;
}

__global__ void fences(tutti_device_view v, struct fences *f, tutti_status *out)
{
    const tutti_status st = fences_kernel(&v, blockIdx.x, gridDim.x, f);

    if (threadIdx.x == 0)
        out[blockIdx.x] = st;
}

/* A device whose kernels run on a GPU. */
tutti_status device_for_cuda(tutti_window *window, tutti_device **out)
{
    tutti_device_conf conf = {};

    conf.size = sizeof conf;
    conf.groups = 64;
    conf.no_direct = 1;
    conf.alloc = tutti_device_cuda_alloc;
    conf.free = tutti_device_cuda_free;
    return tutti_device_create(window, &conf, out);
}
