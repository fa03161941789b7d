/* The kernel of examples/moe as a CUDA kernel; compiled by test_device_cuda.sh, run by
 * moe_run.cu. */
#include "megakernel.h"

__global__ void megakernel(struct mega *m, tutti_status *out)
{
    const tutti_status st = mega_kernel(&m->view.device, blockIdx.x, gridDim.x, m);

    if (threadIdx.x == 0)
        out[blockIdx.x] = st;
}
