#include "base/bytes.h"

void tt_read_bytes(struct tt_reader *r, void *out, size_t n)
{
    const uint8_t *at = tt_reader_take(r, n);

    if (n == 0)
        return;
    if (at)
        memcpy(out, at, n);
    else
        memset(out, 0, n);
}

/* On failure out is "" (if cap > 0). */
void tt_read_string(struct tt_reader *r, char *out, size_t cap)
{
    const size_t n = tt_read_u16(r);
    const uint8_t *at = tt_reader_take(r, n);

    if (!at || n >= cap || memchr(at, '\0', n)) {
        r->bad = true;
        if (cap > 0)
            out[0] = '\0';
        return;
    }
    memcpy(out, at, n);
    out[n] = '\0';
}

void tt_write_bytes(struct tt_writer *w, const void *data, size_t n)
{
    uint8_t *at = tt_writer_reserve(w, n);

    if (at && n > 0)
        memcpy(at, data, n);
}

/* Writes length and characters together or not at all. A string too long for a u16 length sets
 * bad. */
void tt_write_string(struct tt_writer *w, const char *s)
{
    const size_t n = strlen(s);
    uint8_t *at = n > UINT16_MAX ? NULL : tt_writer_reserve(w, 2 + n);

    if (!at) {
        w->bad = true;
        return;
    }
    at[0] = (uint8_t)n;
    at[1] = (uint8_t)(n >> 8);
    memcpy(at + 2, s, n);
}
