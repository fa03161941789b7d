/* The kernel of examples/moe as a CUDA kernel; test_device_cuda.sh compiles it. */
#include "megakernel.h"

__global__ void megakernel(struct mega *m, tutti_status *out)
{
    const tutti_status st = mega_kernel(&m->view.device, blockIdx.x, gridDim.x, m);

    if (threadIdx.x == 0)
        out[blockIdx.x] = st;
}

/* A layer whose kernels run on a GPU. */
tutti_status layer_for_cuda(tutti_comm *comm, tutti_moe **out)
{
    tutti_device_conf device = {};
    tutti_moe_conf conf = {};

    device.size = sizeof device;
    device.no_direct = 1;
    device.alloc = tutti_device_cuda_alloc;
    device.free = tutti_device_cuda_free;
    conf.size = sizeof conf;
    conf.hidden = 2048;
    conf.experts = 128;
    conf.top_k = 8;
    conf.max_tokens = 128;
    conf.type = TUTTI_BF16;
    conf.there = TUTTI_F8E4M3;
    conf.back = TUTTI_BF16;
    conf.scale_elems = 128;
    conf.device = &device;
    return tutti_moe_create(comm, &conf, out);
}
