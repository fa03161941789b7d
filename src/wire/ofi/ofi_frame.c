#include "wire/ofi/ofi_frame.h"

#include <string.h>
#include "base/status.h"

/* ---- records: 0 token  8 number  12 zero  16 record, all little-endian ---- */

void tt_ofi_record_write(const struct tt_ofi_record *r, uint8_t out[TT_OFI_RECORD_BYTES])
{
    struct tt_writer w;

    tt_writer_init(&w, out, TT_OFI_HEAD_BYTES);
    tt_write_u64(&w, r->token);
    tt_write_u32(&w, r->number);
    tt_write_u32(&w, 0);
    tt_rput_record_write(&r->put, out + TT_OFI_HEAD_BYTES);
}

bool tt_ofi_record_read(struct tt_ofi_record *r, const uint8_t *in, size_t bytes)
{
    struct tt_reader at;

    if (bytes < TT_OFI_RECORD_BYTES)
        return false;
    tt_reader_init(&at, in, TT_OFI_HEAD_BYTES);
    r->token = tt_read_u64(&at);
    r->number = tt_read_u32(&at);
    return tt_read_u32(&at) == 0 &&
           tt_rput_record_read(&r->put, in + TT_OFI_HEAD_BYTES, TT_RPUT_ACK,
                               TT_OFI_PAYLOAD_BYTES) &&
           bytes == TT_OFI_RECORD_BYTES + (size_t)r->put.payload;
}

void tt_ofi_record_stamp(uint8_t record[TT_OFI_RECORD_BYTES], uint64_t token,
                         const uint64_t applied[TT_RPUT_STREAMS])
{
    struct tt_writer w;

    tt_writer_init(&w, record, sizeof token);
    tt_write_u64(&w, token);
    tt_rput_record_stamp(record + TT_OFI_HEAD_BYTES, applied);
}

void tt_ofi_record_become(uint8_t record[TT_OFI_RECORD_BYTES], enum tt_rput_kind kind)
{
    tt_rput_record_become(record + TT_OFI_HEAD_BYTES, kind);
}

/* ---- the hello ---- */

#define HELLO_MAGIC 0x48464f54u     /* "TOFH" */
#define HELLO_VERSION 2

_Static_assert(3 * 4 + 3 * 8 + TT_RPUT_STREAMS * (2 * 8 + 2 + TT_OFI_NAME_BYTES) + 1 +
                       TT_OFI_MORE_BYTES <=
                   TT_OFI_HELLO_BYTES,
               "a hello has room for what it names");

static void name_write(struct tt_writer *w, const struct tt_ofi_name *n)
{
    tt_write_u16(w, n->bytes);
    tt_write_bytes(w, n->data, n->bytes);
}

static bool name_read(struct tt_reader *r, struct tt_ofi_name *n)
{
    n->bytes = tt_read_u16(r);
    if (n->bytes == 0 || n->bytes > TT_OFI_NAME_BYTES)
        return false;
    tt_read_bytes(r, n->data, n->bytes);
    return !r->bad;
}

void tt_ofi_hello_write(const struct tt_ofi_hello *h, uint8_t out[TT_OFI_HELLO_BYTES])
{
    struct tt_writer w;

    memset(out, 0, TT_OFI_HELLO_BYTES);
    tt_writer_init(&w, out, TT_OFI_HELLO_BYTES);
    tt_write_u32(&w, HELLO_MAGIC);
    tt_write_u32(&w, HELLO_VERSION);
    tt_write_u32(&w, h->incarnation);
    tt_write_u64(&w, h->token);
    tt_write_u64(&w, h->link_address);
    tt_write_u64(&w, h->link_bytes);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        tt_write_u64(&w, h->lanes[i].applied);
        tt_write_u64(&w, h->lanes[i].key);
        name_write(&w, &h->lanes[i].name);
    }
    tt_write_u8(&w, h->nmore);
    for (uint8_t i = 0; i < h->nmore; i++)
        name_write(&w, &h->more[i]);
    tt_assert(!w.bad);
}

bool tt_ofi_hello_read(struct tt_ofi_hello *h, const uint8_t in[TT_OFI_HELLO_BYTES])
{
    struct tt_reader r;
    uint64_t end;
    bool good;

    memset(h, 0, sizeof *h);
    tt_reader_init(&r, in, TT_OFI_HELLO_BYTES);
    good = tt_read_u32(&r) == HELLO_MAGIC;
    good &= tt_read_u32(&r) == HELLO_VERSION;
    h->incarnation = tt_read_u32(&r);
    h->token = tt_read_u64(&r);
    h->link_address = tt_read_u64(&r);
    h->link_bytes = tt_read_u64(&r);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS && good; i++) {
        struct tt_ofi_hello_lane *lane = &h->lanes[i];

        lane->applied = tt_read_u64(&r);
        lane->key = tt_read_u64(&r);
        good = name_read(&r, &lane->name);
    }
    h->nmore = tt_read_u8(&r);
    good &= h->nmore < TT_OFI_ENDS_MAX;
    for (uint8_t i = 0; good && i < h->nmore; i++)
        good = name_read(&r, &h->more[i]);
    return good && !r.bad && h->incarnation > 0 &&
           !__builtin_add_overflow(h->link_address, h->link_bytes, &end);
}

/* ---- addresses and keys ---- */

#define ADDRESS_MAGIC 0x414fu   /* "OA" */

size_t tt_ofi_address_room(const struct tt_ofi_address *a)
{
    /* total of the other fields that tt_ofi_address_write writes */
    return TT_BLOB_BYTES - (2 + 8 + 4 + 2 + strlen(a->provider));
}

void tt_ofi_address_write(const struct tt_ofi_address *a, struct tt_blob *out)
{
    struct tt_writer w;

    tt_writer_init(&w, out->data, sizeof out->data);
    tt_write_u16(&w, ADDRESS_MAGIC);
    tt_write_u64(&w, a->host);
    tt_write_u32(&w, a->format);
    tt_write_string(&w, a->provider);
    tt_write_bytes(&w, a->tcp.data, a->tcp.bytes);
    out->bytes = (uint16_t)tt_writer_bytes(&w);
}

/* Checks that it is printable, since it is displayed. */
static bool is_provider_name(const char *s)
{
    bool good = *s;

    for (; *s; s++)
        good &= *s > ' ' && *s <= '~';
    return good;
}

bool tt_ofi_address_read(struct tt_ofi_address *a, const struct tt_blob *blob)
{
    struct tt_reader r;
    uint16_t magic;

    if (blob->bytes > TT_BLOB_BYTES)
        return false;
    memset(a, 0, sizeof *a);
    tt_reader_init(&r, blob->data, blob->bytes);
    magic = tt_read_u16(&r);
    a->host = tt_read_u64(&r);
    a->format = tt_read_u32(&r);
    tt_read_string(&r, a->provider, sizeof a->provider);
    if (r.bad || magic != ADDRESS_MAGIC || !is_provider_name(a->provider))
        return false;
    a->tcp.bytes = (uint16_t)(r.end - r.at);
    tt_read_bytes(&r, a->tcp.data, a->tcp.bytes);
    return true;
}
