/* Formats that the network transports share: records and keys, written by a faulty peer. Accepted
 * data has the properties that the transports rely on: it is written back to the same bytes, no
 * range wraps, and no payload exceeds the limit. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/status.h"
#include "wire/rput/rput_frame.h"

#define MAGIC 0x4b52u
#define PAYLOAD_MAX 200

static void check(const struct tt_rput_record *r)
{
    tt_assert(r->payload <= PAYLOAD_MAX && (r->payload == 0 || r->payload == r->data.bytes));
    tt_assert(r->payload == 0 || r->kind == TT_RPUT_PUT || r->kind == TT_RPUT_VOID);
    tt_assert(r->kind == TT_RPUT_CTS || r->data.offset + r->data.bytes >= r->data.offset);
    tt_assert(!(r->flags & TT_RPUT_YES) || r->kind == TT_RPUT_CTS);
    tt_assert(r->signal_offset % 8 == 0 && r->signal_offset + 8 > r->signal_offset);
    tt_assert(r->stream < TT_RPUT_STREAMS);
}

static void record(const uint8_t *data, size_t bytes)
{
    static const uint64_t applied[TT_RPUT_STREAMS] = { 7, UINT64_MAX };
    uint8_t in[TT_RPUT_RECORD_BYTES] = { 0 }, out[TT_RPUT_RECORD_BYTES];
    struct tt_rput_record r;

    memcpy(in, data, bytes < sizeof in ? bytes : sizeof in);
    if (!tt_rput_record_read(&r, in, TT_RPUT_ACK, PAYLOAD_MAX))
        return;
    check(&r);
    tt_rput_record_write(&r, out);
    tt_assert(memcmp(in, out, sizeof in) == 0);
    if (r.kind != TT_RPUT_PUT)
        return;
    tt_rput_record_stamp(out, applied);
    tt_rput_record_become(out, TT_RPUT_VOID);
    tt_assert(tt_rput_record_read(&r, out, TT_RPUT_VOID, PAYLOAD_MAX) && r.kind == TT_RPUT_VOID);
    tt_assert(r.applied[0] == 7 && r.applied[1] == UINT32_MAX);
}

static void key(const uint8_t *data, size_t bytes)
{
    struct tt_blob in = { .bytes = (uint16_t)bytes }, out = { 0 };
    struct tt_rput_key k;

    memcpy(in.data, data, bytes < sizeof in.data ? bytes : sizeof in.data);
    if (!tt_rput_key_read(&k, MAGIC, &in))
        return;
    tt_rput_key_write(&k, MAGIC, &out);
    tt_assert(out.bytes <= TT_KEY_BYTES && out.bytes == in.bytes &&
              memcmp(out.data, in.data, in.bytes) == 0);
}

/* The first byte selects the parser. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (data[0] % 2)
        key(data + 1, bytes - 1);
    else
        record(data + 1, bytes - 1);
    return 0;
}
