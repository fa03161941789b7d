/* Shared state in GPU memory: a member of a run at TUTTI_COORDINATOR. MEMBERS of these sync arrays
 * whose copies differ; the most common content wins, and the other members receive it. Without
 * differences no bytes leave the GPU. test_device_gpu.sh starts it with its index. Exit status 77:
 * there is no GPU. */
#include "cuda_check.h"
#include "tutti/elastic_cuda.h"

#define MEMBERS 3u
#define COUNT (3u << 20)
#define SYNCS 4u
#define TIMEOUT_MS 60000

static float element(uint32_t content, uint32_t i) { return (float)((i * 31 + content * 7) % 8191); }

static void fill(float *on_gpu, float *here, uint32_t content)
{
    for (uint32_t i = 0; i < COUNT; i++)
        here[i] = element(content, i);
    CHECK(cudaMemcpy(on_gpu, here, COUNT * sizeof *here, cudaMemcpyHostToDevice) == cudaSuccess);
}

static void check(const float *on_gpu, float *here, uint32_t content)
{
    CHECK(cudaMemcpy(here, on_gpu, COUNT * sizeof *here, cudaMemcpyDeviceToHost) == cudaSuccess);
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK(here[i] == element(content, i));
}

/* In sync k, member k mod MEMBERS has unique content. Finally all sync once more, without
 * transfers. */
static void play(tutti_run *run, tutti_state *state, float *on_gpu, float *here, uint32_t number)
{
    for (uint32_t k = 0; k < SYNCS; k++) {
        const bool odd = k % MEMBERS == number;

        fill(on_gpu, here, odd ? 1000 + k : k);
        CHECK(tutti_run_sync(run, state, TIMEOUT_MS) == TUTTI_OK);
        CHECK((state->received != 0) == odd);
        check(on_gpu, here, k);
        CHECK(tutti_run_sync(run, state, TIMEOUT_MS) == TUTTI_OK);
        CHECK(!state->received);
        check(on_gpu, here, k);
    }
}

int main(int argc, char **argv)
{
    tutti_array_cuda where = {};
    tutti_array_memory memory = tutti_array_memory_cuda(&where);
    tutti_array array = {};
    tutti_state state = {};
    tutti_view view = {};
    tutti_run *run;
    float *on_gpu, *here = (float *)malloc(COUNT * sizeof *here);
    const uint32_t number = argc == 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : MEMBERS;
    int ndevices = 0;

    if (cudaGetDeviceCount(&ndevices) != cudaSuccess || ndevices == 0) {
        printf("there is no GPU here\n");
        return SKIPPED;
    }
    CHECK(number < MEMBERS && here);
    where.device = (int)number % ndevices;
    CHECK(cudaSetDevice(where.device) == cudaSuccess);
    CHECK(cudaStreamCreate(&where.stream) == cudaSuccess);
    CHECK(cudaMalloc((void **)&on_gpu, COUNT * sizeof *on_gpu) == cudaSuccess);
    array.size = sizeof array;
    array.name = "weights";
    array.data = on_gpu;
    array.count = COUNT;
    array.type = TUTTI_F32;
    array.memory = &memory;
    state.size = sizeof state;
    state.arrays = &array;
    state.narrays = 1;
    view.size = sizeof view;
    CHECK(tutti_run_join(&run, NULL) == TUTTI_OK);
    CHECK(tutti_run_epoch(run, TUTTI_ADMIT, MEMBERS, 0, TIMEOUT_MS, &view) == TUTTI_OK);
    play(run, &state, on_gpu, here, number);
    tutti_run_leave(run);
    CHECK(tutti_run_epoch(run, TUTTI_ADMIT, 0, 0, TIMEOUT_MS, &view) == TUTTI_OK);
    tutti_run_destroy(run);
    CHECK(cudaFree(on_gpu) == cudaSuccess);
    free(here);
    printf("member %u: state in a GPU's memory was synced %u times\n", number, 2 * SYNCS);
    return 0;
}
