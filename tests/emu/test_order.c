/* Random work on several streams, ordered by events and by the legacy stream, has the same result
 * as in the order of the calls. */
#include "gpu.h"

#include <string.h>

#define STREAMS 6
#define WORDS 64
#define STEPS 400

struct random {
    uint64_t state;
};

static unsigned below(struct random *r, unsigned n)
{
    r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(r->state >> 33) % n;
}

/* Buffers of the streams, and what they must contain. The first half of the streams is blocking. */
struct run {
    cudaStream_t stream[STREAMS];
    cudaEvent_t event[2];
    char *device[STREAMS], *pinned[STREAMS];
    char model[STREAMS][WORDS];
};

static void run_init(struct run *r)
{
    for (int i = 0; i < STREAMS; i++) {
        assert_cuda(cudaStreamCreateWithFlags(
            &r->stream[i], i < STREAMS / 2 ? cudaStreamDefault : cudaStreamNonBlocking));
        assert_cuda(cudaMalloc((void **)&r->device[i], WORDS));
        assert_cuda(cudaMallocHost((void **)&r->pinned[i], WORDS));
        assert_cuda(cudaMemset(r->device[i], 0, WORDS));
    }
    memset(r->model, 0, sizeof(r->model));
    for (int i = 0; i < 2; i++)
        assert_cuda(cudaEventCreateWithFlags(&r->event[i], cudaEventDisableTiming));
    assert_cuda(cudaDeviceSynchronize());
}

static void run_fini(struct run *r)
{
    for (int i = 0; i < STREAMS; i++) {
        assert_cuda(cudaStreamDestroy(r->stream[i]));
        assert_cuda(cudaFree(r->device[i]));
        assert_cuda(cudaFreeHost(r->pinned[i]));
    }
    for (int i = 0; i < 2; i++)
        assert_cuda(cudaEventDestroy(r->event[i]));
}

/* Fills part of the buffer of a stream. */
static void fill(struct run *r, struct random *rnd, int i, cudaStream_t s)
{
    const unsigned at = below(rnd, WORDS), n = 1 + below(rnd, WORDS - at), value = below(rnd, 256);

    assert_cuda(cudaMemsetAsync(r->device[i] + at, (int)value, n, s));
    memset(r->model[i] + at, (int)value, n);
}

/* Copies from the buffer of stream `from` on stream `to`; events order the copy after earlier and
 * before later work of `from`. */
static void transfer(struct run *r, struct random *rnd, int to, int from)
{
    const unsigned at = below(rnd, WORDS), n = 1 + below(rnd, WORDS - at);

    assert_cuda(cudaEventRecord(r->event[0], r->stream[from]));
    assert_cuda(cudaStreamWaitEvent(r->stream[to], r->event[0], 0));
    assert_cuda(cudaMemcpyAsync(r->device[to] + at, r->device[from] + at, n,
                                cudaMemcpyDeviceToDevice, r->stream[to]));
    assert_cuda(cudaEventRecord(r->event[1], r->stream[to]));
    assert_cuda(cudaStreamWaitEvent(r->stream[from], r->event[1], 0));
    memmove(r->model[to] + at, r->model[from] + at, n);
}

static void compare(struct run *r, int i, uint64_t seed, int step)
{
    assert_cuda(
        cudaMemcpyAsync(r->pinned[i], r->device[i], WORDS, cudaMemcpyDeviceToHost, r->stream[i]));
    assert_cuda(cudaStreamSynchronize(r->stream[i]));
    if (memcmp(r->pinned[i], r->model[i], WORDS))
        fail_msg("seed %llu, step %d: the buffer of stream %d differs", (unsigned long long)seed,
                 step, i);
}

static void random_work_has_the_result_of_its_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct random rnd = { seed };
        struct run r;

        run_init(&r);
        for (int step = 0; step < STEPS; step++) {
            const int i = (int)below(&rnd, STREAMS), other = (int)below(&rnd, STREAMS);

            switch (below(&rnd, 8)) {
            case 0:
                compare(&r, i, seed, step);
                break;
            case 1:
                fill(&r, &rnd, i % (STREAMS / 2), NULL);    /* ordered with blocking streams */
                break;
            case 2:
            case 3:
                if (i != other)
                    transfer(&r, &rnd, i, other);
                break;
            default:
                fill(&r, &rnd, i, r.stream[i]);
            }
        }
        for (int i = 0; i < STREAMS; i++)
            compare(&r, i, seed, STEPS);
        run_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_work_has_the_result_of_its_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
