/* The kernels of the device tests as CUDA kernels; compiled by test_device_cuda.sh. */
#include "device_kernels.h"
#include "tutti/elastic_cuda.h"

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

__global__ void add_to_all(tutti_device_view v, uint32_t times, tutti_status *out)
{
    const tutti_status st = add_to_all_kernel(&v, times);

    if (threadIdx.x == 0)
        out[blockIdx.x] = st;
}

__global__ void await_word(tutti_device_view v, tutti_status *out)
{
    const tutti_status st = tutti_device_wait(&v, 0, TUTTI_EQUAL, 1, NULL);

    if (threadIdx.x == 0)
        out[blockIdx.x] = st;
}

__global__ void route(tutti_device_view v, struct route *x, tutti_status *out)
{
    const tutti_status st = route_kernel(&v, blockIdx.x, gridDim.x, x);

    if (threadIdx.x == 0)
        out[blockIdx.x] = st;
}

__global__ void route_lists(tutti_device_view v, struct route *x)
{
    route_write(&v, x);
}

__global__ void route_results(tutti_device_view v, struct route *x)
{
    for (uint32_t from = 0; from < v.nranks; from++)
        route_look(&v, x, from);
}

/* The same as three launches in a stream, with the exchange between them. */
cudaError_t route_on(cudaStream_t stream, const tutti_device_view *v, struct route *x)
{
    cudaError_t err;

    route_lists<<<1, 128, 0, stream>>>(*v, x);
    err = tutti_device_raise_flag_on(stream, v, x->start, x->turn);
    if (err == cudaSuccess)
        err = tutti_device_await_flag_on(stream, v, x->over, x->turn);
    route_results<<<1, 128, 0, stream>>>(*v, x);
    return err == cudaSuccess ? cudaGetLastError() : err;
}

__global__ void hashing(tutti_device_view v, struct hashing *h, tutti_status *out)
{
    const tutti_status st = hashing_kernel(&v, blockIdx.x, gridDim.x, h);

    if (threadIdx.x == 0)
        out[blockIdx.x] = st;
}

/* Creates an array of shared state on a GPU, which is copied and hashed there. */
tutti_array array_for_cuda(float *on_device, size_t n, tutti_array_cuda *where, tutti_array_memory *memory)
{
    tutti_array array = {};

    *memory = tutti_array_memory_cuda(where);
    array.size = sizeof array;
    array.name = "weights";
    array.data = on_device;
    array.count = n;
    array.type = TUTTI_F32;
    array.memory = memory;
    return array;
}

/* Creates a device whose kernels run on a GPU. */
tutti_status device_for_cuda(tutti_window *window, int64_t timeout_ms, tutti_device **out)
{
    tutti_device_conf conf = {};

    conf.size = sizeof conf;
    conf.groups = 64;
    conf.timeout_ms = timeout_ms;
    conf.flags = 2;
    conf.no_direct = 1;
    conf.alloc = tutti_device_cuda_alloc;
    conf.free = tutti_device_cuda_free;
    return tutti_device_create(window, &conf, out);
}
