/* PMI-1, and the handshake of PMI_PORT, with a launcher that sends any lines. Both always
 * terminate, and the lines that we send stay single lines. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/status.h"
#include "boot/pmi1.h"

/* Takes the next line of data[*at..bytes). Returns false if there is none, or if it is too long. */
static bool next_line(const uint8_t *data, size_t bytes, size_t *at,
                      char answer[TT_PMI1_LINE_BYTES])
{
    const uint8_t *newline;
    size_t n;

    if (*at >= bytes)
        return false;
    newline = memchr(data + *at, '\n', bytes - *at);
    n = newline ? (size_t)(newline - data) - *at : bytes - *at;
    if (n >= TT_PMI1_LINE_BYTES)
        return false;
    memcpy(answer, data + *at, n);
    answer[n] = '\0';
    *at += n + 1;
    return true;
}

static void check_join(const uint8_t *data, size_t bytes)
{
    char answer[TT_PMI1_LINE_BYTES], line[TT_PMI1_LINE_BYTES];
    unsigned nlines = 0;
    struct tt_pmi1_join j;
    size_t at = 1;

    tt_pmi1_join_begin(&j, UINT32_MAX, line);
    tt_assert(strchr(line, '\n') == line + strlen(line) - 1);
    while (!j.done && !j.failed && next_line(data, bytes, &at, answer)) {
        tt_pmi1_join_step(&j, answer);
        tt_assert(++nlines <= 64);
    }
    tt_assert(!(j.done && j.failed) && strlen(j.why) < sizeof j.why);
    if (j.done)
        tt_assert(j.rank < j.nranks && j.nranks <= 1u << 20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char answer[TT_PMI1_LINE_BYTES], line[TT_PMI1_LINE_BYTES];
    struct tt_pmi1 p;
    size_t at = 1;

    if (bytes == 0)
        return 0;
    check_join(data, bytes);
    if (data[0] % 4 == 3)
        tt_pmi1_begin_leave(&p, line);
    else
        tt_pmi1_begin(&p, data[0] % 2 ? "id:0123456789abcdef" : NULL, line);
    while (p.state < TT_PMI1_DONE && next_line(data, bytes, &at, answer)) {
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
