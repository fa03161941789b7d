/* Input of a TCP connection: a handshake, then frames; and the blobs of addresses. No read
 * goes outside of them, and accepted data has the properties that the transport relies on: it is
 * written back to the same bytes, no range wraps, and there are only permitted signals. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/status.h"
#include "wire/tcp/tcp_frame.h"
#include "wire/wire.h"

/* The first byte selects the parser; the secret is all zeros, so that a fuzzer may find it. */
static const uint8_t secret[16];

static void hello(const uint8_t *data, size_t bytes)
{
    uint8_t in[TT_HELLO_BYTES] = { 0 }, out[TT_HELLO_BYTES];
    struct tt_hello h, again;

    memcpy(in, data, bytes < sizeof in ? bytes : sizeof in);
    if (!tt_hello_read(&h, secret, in))
        return;
    tt_assert(h.kind >= TT_HELLO && h.kind <= TT_CONFIRM && h.lane < h.lanes);
    tt_hello_write(&h, secret, out);
    tt_assert(tt_hello_read(&again, secret, out));
    tt_assert(again.from == h.from && again.to == h.to && again.nonce == h.nonce &&
              again.link_bytes == h.link_bytes);
}

/* As in a lane: header, payload, header, ... */
static void frames(const uint8_t *data, size_t bytes)
{
    uint8_t header[TT_FRAME_BYTES];
    struct tt_frame f;
    uint64_t payload;

    while (bytes >= TT_FRAME_BYTES) {
        if (!tt_frame_read(&f, data))
            return;
        tt_frame_write(&f, header);
        tt_assert(memcmp(header, data, sizeof header) == 0);
        payload = tt_frame_payload(&f);
        tt_assert(payload == 0 || f.offset + payload > f.offset || f.kind == TT_FRAME_GOT);
        tt_assert(f.signal_op == TT_SIGNAL_NONE || f.kind == TT_FRAME_PUT ||
                  f.kind == TT_FRAME_ATOMIC);
        tt_assert(!(f.flags & TT_FRAME_FENCED) || f.kind == TT_FRAME_GET ||
                  (tt_dqplb_ahead(f.word, f.after) <= 0 &&
                   tt_dqplb_ahead(f.after, f.word) <= (int32_t)TT_DQPLB_WINDOW_MAX));
        tt_assert(f.signal_offset % 8 == 0 && f.signal_offset + 8 > f.signal_offset);
        data += TT_FRAME_BYTES;
        bytes -= TT_FRAME_BYTES;
        if (payload > bytes)
            return;
        data += payload;
        bytes -= payload;
    }
}

static void blobs(const uint8_t *data, size_t bytes)
{
    struct tt_blob in = { .bytes = (uint16_t)bytes }, out = { 0 };
    struct tt_tcp_address a;

    memcpy(in.data, data, bytes < sizeof in.data ? bytes : sizeof in.data);
    if (tt_tcp_address_read(&a, &in)) {
        tt_assert(a.count <= TT_TCP_ENDPOINTS && a.rails <= a.count && a.outside <= a.count);
        tt_tcp_address_write(&a, &out);
        tt_assert(out.bytes == in.bytes && memcmp(out.data, in.data, in.bytes) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    switch (data[0] % 3) {
    case 0:
        hello(data + 1, bytes - 1);
        break;
    case 1:
        frames(data + 1, bytes - 1);
        break;
    default:
        blobs(data + 1, bytes - 1);
        break;
    }
    return 0;
}
