#include "coordinator/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

/* Decodes the first character of `in`, and returns its size; 0: invalid. Shortest forms only, no
 * surrogates. */
static size_t utf8_decode(const unsigned char *in, uint32_t *out)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const size_t bytes = in[0] < 0x80       ? 1
                         : in[0] >> 5 == 6  ? 2
                         : in[0] >> 4 == 14 ? 3
                         : in[0] >> 3 == 30 ? 4
                                            : 0;
    uint32_t c = bytes < 2 ? in[0] : in[0] & (0x7fu >> bytes);

    for (size_t i = 1; i < bytes; i++) {
        if (in[i] >> 6 != 2)        /* also true for the NUL at the end */
            return 0;
        c = c << 6 | (in[i] & 0x3f);
    }
    if (bytes == 0 || c < least[bytes] || c > 0x10ffff || c >> 11 == 0x1b)
        return 0;
    *out = c;
    return bytes;
}

static bool is_printable(uint32_t c)
{
    const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029;
    const bool turns = c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
                       (c >= 0x2066 && c <= 0x2069);

    return !control && !turns;
}

const char *tt_text_clean(char *out, size_t cap, const char *in)
{
    const unsigned char *at = (const unsigned char *)in;
    size_t filled = 0;

    while (*at) {
        uint32_t c = 0;
        const size_t bytes = utf8_decode(at, &c);
        const bool shown = bytes > 0 && is_printable(c);
        const void *what = shown ? (const void *)at : REPLACEMENT;
        const size_t n = shown ? bytes : strlen(REPLACEMENT);

        if (filled + n >= cap)
            break;
        memcpy(out + filled, what, n);
        filled += n;
        at += bytes > 0 ? bytes : 1;
    }
    out[filled] = '\0';
    return out;
}
