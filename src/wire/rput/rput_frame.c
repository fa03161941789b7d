#include "wire/rput/rput_frame.h"

#include <endian.h>
#include <string.h>

/* ---- keys ---- */

void tt_rput_key_write(const struct tt_rput_key *k, uint16_t magic, struct tt_blob *out)
{
    struct tt_writer w;

    tt_writer_init(&w, out->data, sizeof out->data);
    tt_write_u16(&w, magic);
    tt_write_u32(&w, k->region);
    tt_write_u32(&w, k->generation);
    tt_write_u64(&w, k->bytes);
    out->bytes = (uint16_t)tt_writer_bytes(&w);
}

bool tt_rput_key_read(struct tt_rput_key *k, uint16_t magic, const struct tt_blob *blob)
{
    struct tt_reader r;
    uint16_t got;

    if (blob->bytes > TT_BLOB_BYTES)
        return false;
    tt_reader_init(&r, blob->data, blob->bytes);
    got = tt_read_u16(&r);
    k->region = tt_read_u32(&r);
    k->generation = tt_read_u32(&r);
    k->bytes = tt_read_u64(&r);
    return !r.bad && r.at == r.end && got == magic;
}

/* ---- records ----
 *
 *   0 kind  1 signal op  2 flags  3 stream  4 payload  6 mark  8 region  12 generation  16 offset
 *  24 bytes  32 signal region  36 signal generation  40 signal offset  48 signal value
 *  56 applied[2]                                                        all little-endian */

#define MARK 0x5054u        /* "TP" */
#define APPLIED_AT 56

void tt_rput_record_write(const struct tt_rput_record *r, uint8_t *out)
{
    struct tt_writer w;

    tt_writer_init(&w, out, TT_RPUT_RECORD_BYTES);
    tt_write_u8(&w, r->kind);
    tt_write_u8(&w, r->signal_op);
    tt_write_u8(&w, r->flags);
    tt_write_u8(&w, r->stream);
    tt_write_u16(&w, r->payload);
    tt_write_u16(&w, MARK);
    tt_write_u32(&w, r->data.region);
    tt_write_u32(&w, r->data.generation);
    tt_write_u64(&w, r->data.offset);
    tt_write_u64(&w, r->data.bytes);
    tt_write_u32(&w, r->signal_region);
    tt_write_u32(&w, r->signal_generation);
    tt_write_u64(&w, r->signal_offset);
    tt_write_u64(&w, r->signal_value);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++)
        tt_write_u32(&w, r->applied[i]);
}

/* Checks that no range wraps around, that signals are words, and that only puts have a payload. */
static bool record_is_valid(const struct tt_rput_record *r)
{
    uint64_t end;

    if (r->signal_op > TT_SIGNAL_ADD || r->stream >= TT_RPUT_STREAMS ||
        r->flags & ~(TT_RPUT_WANT_ACK | TT_RPUT_YES))
        return false;
    if (r->flags & TT_RPUT_YES && r->kind != TT_RPUT_CTS)
        return false;
    if (r->payload && (r->kind > TT_RPUT_VOID || r->payload != r->data.bytes))
        return false;
    if (r->signal_offset % 8 || r->signal_offset > UINT64_MAX - 8)
        return false;
    return r->kind == TT_RPUT_CTS || !__builtin_add_overflow(r->data.offset, r->data.bytes, &end);
}

bool tt_rput_record_read(struct tt_rput_record *r, const uint8_t in[TT_RPUT_RECORD_BYTES],
                         enum tt_rput_kind kind_max, uint16_t payload_max)
{
    struct tt_reader at;
    uint16_t mark;

    tt_reader_init(&at, in, TT_RPUT_RECORD_BYTES);
    r->kind = tt_read_u8(&at);
    r->signal_op = tt_read_u8(&at);
    r->flags = tt_read_u8(&at);
    r->stream = tt_read_u8(&at);
    r->payload = tt_read_u16(&at);
    mark = tt_read_u16(&at);
    r->data.region = tt_read_u32(&at);
    r->data.generation = tt_read_u32(&at);
    r->data.offset = tt_read_u64(&at);
    r->data.bytes = tt_read_u64(&at);
    r->signal_region = tt_read_u32(&at);
    r->signal_generation = tt_read_u32(&at);
    r->signal_offset = tt_read_u64(&at);
    r->signal_value = tt_read_u64(&at);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++)
        r->applied[i] = tt_read_u32(&at);
    return mark == MARK && r->kind >= TT_RPUT_PUT && r->kind <= kind_max &&
           r->payload <= payload_max && record_is_valid(r);
}

void tt_rput_record_become(uint8_t record[TT_RPUT_RECORD_BYTES], enum tt_rput_kind kind)
{
    record[0] = (uint8_t)kind;
}

void tt_rput_record_stamp(uint8_t record[TT_RPUT_RECORD_BYTES],
                          const uint64_t applied[TT_RPUT_STREAMS])
{
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        const uint32_t low = htole32((uint32_t)applied[i]);

        memcpy(record + APPLIED_AT + sizeof low * i, &low, sizeof low);
    }
}
