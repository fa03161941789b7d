/* The reader of received bytes: no read goes past the end, an error persists, and a valid message
 * is written back to the same bytes. The first half of the input selects what to read from the
 * second half. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/bytes.h"
#include "base/status.h"

static void read_and_write_back(struct tt_reader *r, struct tt_writer *w, uint8_t what)
{
    char text[32];
    uint8_t raw[16];

    switch (what % 6) {
    case 0:
        tt_write_u8(w, tt_read_u8(r));
        break;
    case 1:
        tt_write_u16(w, tt_read_u16(r));
        break;
    case 2:
        tt_write_u32(w, tt_read_u32(r));
        break;
    case 3:
        tt_write_u64(w, tt_read_u64(r));
        break;
    case 4:
        tt_read_bytes(r, raw, what % sizeof raw);
        tt_write_bytes(w, raw, what % sizeof raw);
        break;
    default:
        tt_read_string(r, text, 1 + what % sizeof text);
        tt_assert(strlen(text) < sizeof text);
        tt_write_string(w, text);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const size_t half = bytes / 2;
    uint8_t copy[8192];
    struct tt_reader r;
    struct tt_writer w;

    if (bytes > sizeof copy)
        return 0;
    tt_reader_init(&r, data + half, bytes - half);
    tt_writer_init(&w, copy, sizeof copy);
    for (size_t i = 0; i < half && !r.bad; i++) {
        const size_t before = tt_writer_bytes(&w);

        read_and_write_back(&r, &w, data[i]);
        tt_assert(r.at <= r.end);
        if (!r.bad)
            tt_assert(memcmp(copy + before, data + half + before, tt_writer_bytes(&w) - before) ==
                      0);
    }
    if (r.bad) {
        tt_assert(tt_read_u64(&r) == 0);
        tt_assert(r.bad);
    }
    return 0;
}
