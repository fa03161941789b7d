/* PMI-1 against a launcher that says anything, line by line. It always ends, and what we say stays one line. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/status.h"
#include "boot/pmi1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char answer[TT_PMI1_LINE_BYTES], line[TT_PMI1_LINE_BYTES];
    struct tt_pmi1 p;

    if (bytes == 0)
        return 0;
    tt_pmi1_begin(&p, data[0] % 2 ? "id:0123456789abcdef" : NULL, line);
    for (size_t at = 1; at < bytes && p.state < TT_PMI1_DONE;) {
        const uint8_t *newline = memchr(data + at, '\n', bytes - at);
        const size_t n = newline ? (size_t)(newline - data) - at : bytes - at;

        if (n >= sizeof answer)
            break;
        memcpy(answer, data + at, n);
        answer[n] = '\0';
        at += n + 1;
        tt_pmi1_step(&p, answer, line);
        tt_assert(strlen(line) < sizeof line);
        if (*line) {
            tt_assert(line[strlen(line) - 1] == '\n');
            tt_assert(strchr(line, '\n') == line + strlen(line) - 1);
        }
    }
    tt_assert(strlen(p.value) < sizeof p.value && strlen(p.why) < sizeof p.why);
    return 0;
}
