/* Arbitrary lists of the contributors to exchanges of a training run (examples/train/replay.h):
 * accepted exchanges have increasing steps, and distinct members. */
#include "../../examples/train/replay.c"

#include "base/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct exchange e;
    static FILE *nowhere;
    struct replay r = { .name = "fuzz" };
    uint64_t before = 0;

    if (bytes == 0)
        return 0;
    if (!nowhere)
        stderr = nowhere = fopen("/dev/null", "w");     /* messages of the parser; sanitizers write
                                                           to the descriptor */
    r.file = fmemopen((void *)(uintptr_t)data, bytes, "r");
    tt_assert(r.file);
    while (replay_next(&r, &e) > 0) {
        tt_assert(e.step > before && e.step <= STEP_MAX && e.n > 0 && e.n <= WORKERS_MAX);
        for (size_t i = 1; i < e.n; i++)
            tt_assert(e.worker[i] != e.worker[i - 1]);
        before = e.step;
    }
    fclose(r.file);
    return 0;
}
