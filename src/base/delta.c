#include "base/delta.h"

#include <string.h>

#define AGAIN 128u
#define AGAIN_MIN 4u                /* minimum length of a repetition: shorter ones save nothing */
#define AGAIN_FAR 255u              /* maximum distance */

static size_t min_bytes(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns the length of the common prefix (same = 1), or of the prefix that differs in every
 * byte. */
static uint32_t run_length(const uint8_t *a, const uint8_t *b, size_t most, int same)
{
    uint32_t n = 0;

    while (n < most && (a[n] == b[n]) == same)
        n++;
    return n;
}

void tt_delta_repeats(const uint8_t *data, size_t bytes, uint8_t *back)
{
    uint16_t last[256] = { 0 };     /* by hash; position + 1 */

    memset(back, 0, bytes);
    for (size_t at = 0; at + AGAIN_MIN <= bytes; at++) {
        uint32_t word;
        uint16_t *before;

        memcpy(&word, data + at, sizeof word);
        before = &last[word * 2654435761u >> 24];
        if (*before && at + 1 - *before <= AGAIN_FAR &&
            memcmp(data + at, data + *before - 1, AGAIN_MIN) == 0)
            back[at] = (uint8_t)(at + 1 - *before);
        *before = (uint16_t)(at + 1);
    }
}

size_t tt_delta_pack(const uint8_t *data, size_t bytes, const uint8_t *back, const uint8_t *base,
                     uint8_t *out)
{
    size_t n = 0;

    for (size_t at = 0; at < bytes;) {
        const uint32_t same = run_length(data + at, base + at, min_bytes(bytes - at, 255), 1);
        uint32_t differ = 0, most;

        at += same;
        most = run_length(data + at, base + at, min_bytes(bytes - at, AGAIN - 1), 0);
        while (differ < most && !back[at + differ])
            differ++;
        out[n++] = (uint8_t)same;
        if (differ == 0 && most > 0) {
            const uint32_t again =
                run_length(data + at, data + at - back[at], min_bytes(bytes - at, AGAIN - 1), 1);

            out[n++] = (uint8_t)(AGAIN | again);
            out[n++] = back[at];
            at += again;
        } else {
            out[n++] = (uint8_t)differ;
            memcpy(out + n, data + at, differ);
            n += differ;
            at += differ;
        }
    }
    return n;
}

void tt_delta_unpack(struct tt_reader *r, uint8_t *data, size_t bytes)
{
    for (size_t at = 0; at < bytes && !r->bad;) {
        const uint8_t same = tt_read_u8(r), further = tt_read_u8(r);
        const uint32_t n = further & (AGAIN - 1);

        if (same + n == 0 || n + same > bytes - at) {
            r->bad = true;
            return;
        }
        at += same;
        if (further & AGAIN) {
            const uint8_t distance = tt_read_u8(r);

            if (distance == 0 || distance > at) {
                r->bad = true;
                return;
            }
            for (uint32_t i = 0; i < n; i++)        /* source and target may overlap */
                data[at + i] = data[at + i - distance];
        } else {
            tt_read_bytes(r, data + at, n);
        }
        at += n;
    }
}
