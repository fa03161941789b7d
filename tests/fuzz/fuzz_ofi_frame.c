/* Input of the ofi transport: records, which any process that finds the endpoint can send, hellos,
 * and the blobs of addresses. No read goes outside of them, and accepted data has the
 * properties that the transport relies on: it is written back to the same bytes, no range wraps, no
 * payload exceeds the received data or a slot, no name exceeds its space. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "wire/ofi/ofi_frame.h"

/* In memory of exactly that size, so that sanitizers detect overruns. */
static void record(const uint8_t *data, size_t bytes)
{
    static const uint64_t applied[TT_RPUT_STREAMS] = { 7, UINT64_MAX };
    uint8_t *in = malloc(bytes ? bytes : 1), out[TT_OFI_RECORD_BYTES];
    struct tt_ofi_record r;

    tt_assert(in);
    memcpy(in, data, bytes);
    if (tt_ofi_record_read(&r, in, bytes)) {
        tt_assert(bytes == TT_OFI_RECORD_BYTES + (size_t)r.put.payload &&
                  bytes <= TT_OFI_SLOT_BYTES);
        tt_ofi_record_write(&r, out);
        tt_assert(memcmp(in, out, sizeof out) == 0);
        tt_ofi_record_stamp(out, 5, applied);
        if (r.put.kind == TT_RPUT_PUT && r.put.payload == 0) {
            tt_ofi_record_become(out, TT_RPUT_RTS);
            tt_assert(tt_ofi_record_read(&r, out, sizeof out) && r.put.kind == TT_RPUT_RTS);
            tt_assert(r.token == 5 && r.put.applied[0] == 7 && r.put.applied[1] == UINT32_MAX);
        }
    }
    free(in);
}

static void hello(const uint8_t *data, size_t bytes)
{
    uint8_t in[TT_OFI_HELLO_BYTES] = { 0 }, out[TT_OFI_HELLO_BYTES];
    static struct tt_ofi_hello h, again;

    memcpy(in, data, bytes < sizeof in ? bytes : sizeof in);
    if (!tt_ofi_hello_read(&h, in))
        return;
    tt_assert(h.incarnation > 0 && h.link_address + h.link_bytes >= h.link_address);
    for (int i = 0; i < TT_RPUT_STREAMS; i++)
        tt_assert(h.lanes[i].name.bytes > 0 && h.lanes[i].name.bytes <= TT_OFI_NAME_BYTES);
    tt_assert(h.nmore < TT_OFI_ENDS_MAX);
    for (int i = 0; i < h.nmore; i++)
        tt_assert(h.more[i].bytes > 0 && h.more[i].bytes <= TT_OFI_NAME_BYTES &&
                  h.more[i].data[h.more[i].bytes] == 0);
    tt_ofi_hello_write(&h, out);
    tt_assert(tt_ofi_hello_read(&again, out));
    tt_assert(memcmp(&again, &h, sizeof h) == 0);
}

static void blobs(const uint8_t *data, size_t bytes)
{
    struct tt_blob in = { .bytes = (uint16_t)bytes }, out = { 0 };
    struct tt_ofi_address a;

    memcpy(in.data, data, bytes < sizeof in.data ? bytes : sizeof in.data);
    if (tt_ofi_address_read(&a, &in)) {
        tt_assert(a.tcp.bytes <= tt_ofi_address_room(&a) && *a.provider);
        for (const char *s = a.provider; *s; s++)
            tt_assert(*s > ' ' && *s <= '~');
        tt_ofi_address_write(&a, &out);
        tt_assert(out.bytes == in.bytes && memcmp(out.data, in.data, in.bytes) == 0);
    }
}

/* The first byte selects the parser. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    switch (data[0] % 3) {
    case 0:
        record(data + 1, bytes - 1);
        break;
    case 1:
        hello(data + 1, bytes - 1);
        break;
    default:
        blobs(data + 1, bytes - 1);
        break;
    }
    return 0;
}
