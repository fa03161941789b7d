/* The megakernel of examples/moe on a GPU, in each mode of the proxy: tutti run -n 2 -- moe_run
 * [options of examples/moe] (test_moe_gpu.sh). Weights, tokens, results and the kernel's own memory
 * are in GPU memory; the window and the other memory of the layer are in pinned host memory. Exit
 * status 77: there is no GPU.
 *
 * Every result must equal the host's dense reference bit by bit. The source is the same, ffn_exp
 * does not use a library, and divisions are correctly rounded on both. Therefore it must be
 * compiled with --fmad=false, because the host's compiler does not fuse multiplications and
 * additions either.
 *
 * Ranks share GPUs if there are fewer. Then kernels of different processes run in time slices of
 * milliseconds, and one that waits for another uses its whole slice, so a round takes many slices.
 * It still ends, because each kernel makes progress in its slices; times are meaningless then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_check.h"
#include "moe_kernels.cu"
#include "rank.h"

#define THREADS 128
#define PROCESSORS 3            /* default */

/* State of a rank. */
struct here {
    struct rank me;
    struct mega *mega;          /* the GPU's copy */
    tutti_status *out;          /* [nblocks], in GPU memory */
    tutti_status *came_to;      /* [nblocks], in host memory */
};

/* Ends the process, which notifies the other ranks, if a CUDA call failed. */
static void must(cudaError_t err, const char *what)
{
    if (err == cudaSuccess)
        return;
    fprintf(stderr, "moe: %s: %s (%s)\n", what, cudaGetErrorString(err), cudaGetErrorName(err));
    exit(1);
}

/* ---- memory used only by kernels ---- */

static void *gpu_have(size_t bytes) { return tutti_device_cuda_alloc(bytes, TUTTI_DEVICE_LOCAL, NULL); }

static void gpu_drop(void *mem) { tutti_device_cuda_free(mem, TUTTI_DEVICE_LOCAL, NULL); }

static void gpu_copy(void *to, const void *from, size_t bytes)
{
    must(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
}

static void gpu_fill(void *mem, int byte, size_t bytes)
{
    must(cudaMemset(mem, byte, bytes), "cudaMemset");
    must(cudaDeviceSynchronize(), "cudaMemset");
}

static const struct reach reach_gpu = { gpu_have, gpu_drop, gpu_copy, gpu_fill };

/* ---- a run ---- */

/* Checks that all blocks fit on the GPU at the same time, because they wait for each other. */
static void check_room(const struct here *h)
{
    int device = 0, each = 0;
    struct cudaDeviceProp what;

    must(cudaGetDevice(&device), "cudaGetDevice");
    must(cudaGetDeviceProperties(&what, device), "cudaGetDeviceProperties");
    must(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, megakernel, THREADS, 0),
         "the room for blocks");
    if (h->me.rank == 0 && !h->me.o->json)
        printf("%s: %d multiprocessors, each with room for %d blocks of %d threads\n", what.name,
               what.multiProcessorCount, each, THREADS);
    if ((uint64_t)each * (uint64_t)what.multiProcessorCount >= h->me.nblocks)
        return;
    fprintf(stderr, "moe: %u blocks must run at once, and %s has room for %d times %d\n",
            h->me.nblocks, what.name, each, what.multiProcessorCount);
    exit(1);
}

/* Launches the kernel, and waits for its end. Returns the first status that is not TUTTI_OK. */
static tutti_status launch(struct here *h)
{
    const uint32_t nblocks = h->me.nblocks;
    tutti_status first = TUTTI_OK;

    gpu_copy(h->mega, &h->me.mega, sizeof *h->mega);
    megakernel<<<nblocks, THREADS>>>(h->mega, h->out);
    must(cudaGetLastError(), "the launch");
    must(cudaDeviceSynchronize(), "the kernel");
    gpu_copy(h->came_to, h->out, nblocks * sizeof *h->out);
    for (uint32_t i = 0; i < nblocks && !first; i++)
        first = h->came_to[i];
    return first;
}

static tutti_status run_form(void *arg, enum form form, const tutti_moe_routing *routing)
{
    struct here *h = (struct here *)arg;
    const tutti_status st = rank_begin(&h->me, routing);

    (void)form;                 /* the mode is set */
    return st ? st : tutti_moe_end(h->me.tiles, launch(h), 0);
}

/* ---- the program ---- */

static tutti_status make_layer(struct here *h)
{
    tutti_device_conf device = {};
    tutti_moe_conf conf;

    device.size = sizeof device;
    device.no_direct = 1;       /* mapped memory of other ranks is not pinned here */
    device.alloc = tutti_device_cuda_alloc;
    device.free = tutti_device_cuda_free;
    conf = rank_conf(&h->me, TUTTI_MOE_TILES, &device);
    return tutti_moe_create(h->me.comm, &conf, &h->me.tiles);
}

static int run(struct here *h)
{
    double *times = (double *)rank_have((FORMS + 1) * (size_t)h->me.o->rounds, sizeof *times);
    tutti_status st;
    int status = 1;

    rank_make(&h->me);
    check_room(h);
    h->mega = (struct mega *)gpu_have(sizeof *h->mega);
    h->out = (tutti_status *)gpu_have(h->me.nblocks * sizeof *h->out);
    h->came_to = (tutti_status *)rank_have(h->me.nblocks, sizeof *h->came_to);
    if (!h->mega || !h->out) {
        fprintf(stderr, "moe: out of GPU memory\n");
        exit(1);
    }
    st = make_layer(h);
    if (!st)
        status = h->me.o->wrong && !rank_is_refused(&h->me) ? 1 : rank_measure(&h->me, times);
    if (!st && !status)
        st = rank_report(&h->me, times);
    rank_forget(&h->me);
    gpu_drop(h->out);
    gpu_drop(h->mega);
    free(h->came_to);
    free(times);
    return st ? 1 : status;
}

int main(int argc, char **argv)
{
    struct options o = options_default;
    struct here h = {};
    int ndevices = 0, status;

    if (cudaGetDeviceCount(&ndevices) != cudaSuccess || ndevices == 0) {
        printf("there is no GPU here\n");
        return SKIPPED;
    }
    o.processors = PROCESSORS;
    if (!options_take(argc, argv, &o, &h.me.model.shape, &status))
        return status;
    o.forms &= 1u << FULL | 1u << COUPLED | 1u << DECOUPLED | 1u << ORDERED;
    if (!o.forms) {
        fprintf(
            stderr,
            "moe_run: none of --forms runs on a GPU: full, coupled, decoupled and ordered do\n");
        return 1;
    }
    h.me.o = &o;
    h.me.reach = &reach_gpu;
    h.me.run = run_form;
    h.me.arg = &h;
    if (tutti_comm_create(&h.me.comm, NULL))
        return 1;       /* Tutti has logged the error */
    must(cudaSetDevice(tutti_comm_rank(h.me.comm) % ndevices), "cudaSetDevice");
    status = run(&h);
    tutti_comm_destroy(h.me.comm);
    return status;
}
