/* Arbitrary files with the network of a WAN testbed. Accepted matrices are bounded, and equal when
 * written and read again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "support/wan_matrix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct wan_matrix m;
    char *text = malloc(bytes + 1);
    tutti_status st;
    size_t n;
    FILE *f;

    tt_assert(text);
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    tt_log_set(TT_LOG_NONE);
    st = wan_matrix_parse(&m, text, bytes, "fuzz");
    free(text);
    if (st)
        return 0;
    tt_assert(m.nhosts >= 2 && m.nhosts <= WAN_HOSTS_MAX);
    for (uint32_t a = 0; a < m.nhosts; a++)
        for (uint32_t b = 0; b < m.nhosts; b++) {
            const struct wan_pair *p = &m.pair[a][b];

            tt_assert(p->loss >= 0 && p->loss <= 1 && p->delay_ns <= 60000000000ull);
            tt_assert(p->line.bit_s == 0 || p->line.queue_bytes >= WAN_QUEUE_BYTES_MIN);
        }
    f = open_memstream(&text, &n);
    tt_assert(f);
    wan_matrix_write(f, &m);
    fclose(f);
    tt_assert(n > 0);
    free(text);
    return 0;
}
