/* Cleaning of untrusted text: the result is always valid, printable UTF-8 that fits; and cleaning
 * it again changes nothing. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "coordinator/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const size_t cap = bytes ? data[0] % 64 + 1u : 1;
    char *in = malloc(bytes + 1), *out = malloc(cap), *whole = malloc(3 * bytes + 1),
         *again = malloc(3 * bytes + 1);

    tt_assert(in && out && whole && again);
    memcpy(in, data, bytes);
    in[bytes] = '\0';
    tt_text_clean(whole, 3 * bytes + 1, in);
    tt_text_clean(again, 3 * bytes + 1, whole);
    tt_assert(strcmp(whole, again) == 0);
    tt_text_clean(out, cap, in);
    tt_assert(strlen(out) < cap && strncmp(out, whole, strlen(out)) == 0);
    for (const char *at = whole; *at; at++)
        tt_assert((unsigned char)*at >= 0x20 && *at != 0x7f);
    free(in);
    free(out);
    free(whole);
    free(again);
    return 0;
}
