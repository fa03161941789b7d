/* Arbitrary commands to `tutti perf --interactive`; the first byte is the number of ranks. An
 * accepted command has a known collective and bounded parameters; otherwise the reply has the
 * cause. */
#include "tools/perf/perf_command.c"
#include "tools/perf/perf_case.c"
#include "tools/perf/perf_work.c"

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

#define TEXT_BYTES_MAX 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char line[TEXT_BYTES_MAX + 1];
    struct perf_command c;
    const char *wrong;

    if (bytes < 1 || bytes > TEXT_BYTES_MAX)
        return 0;
    memcpy(line, data + 1, bytes - 1);
    line[bytes - 1] = 0;
    wrong = perf_command_parse(line, 1 + data[0] % 4, &c);
    if (wrong) {
        tt_assert(*wrong);
        return 0;
    }
    tt_assert(c.coll && c.coll == coll_of(c.coll->name) && memchr(c.algo, 0, sizeof c.algo));
    tt_assert(c.coll->kind != PERF_PINGPONG || data[0] % 4 > 0);
    tt_assert(c.effort.iters >= 1 && c.effort.iters <= PERF_COMMAND_ITERS_MAX &&
              c.effort.warmup >= 0 && c.effort.loops >= 0);
    return 0;
}
