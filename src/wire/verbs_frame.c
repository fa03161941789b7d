#include "wire/verbs_frame.h"

#include <endian.h>
#include <string.h>

/* ---- records ----
 *
 *   0 kind  1 signal op  2 flags  3 payload  4 mark  8 region  12 generation  16 offset  24 bytes
 *  32 signal region  36 signal generation  40 signal offset  48 signal value  56 applied[2]          all little-endian */

#define MARK 0x52565454u    /* "TTVR" */
#define APPLIED_AT 56

void tt_verbs_record_write(const struct tt_verbs_record *r, uint8_t out[TT_VERBS_RECORD_BYTES])
{
    struct tt_writer w;

    tt_writer_init(&w, out, TT_VERBS_RECORD_BYTES);
    tt_write_u8(&w, r->kind);
    tt_write_u8(&w, r->signal_op);
    tt_write_u8(&w, r->flags);
    tt_write_u8(&w, r->payload);
    tt_write_u32(&w, MARK);
    tt_write_u32(&w, r->region);
    tt_write_u32(&w, r->generation);
    tt_write_u64(&w, r->offset);
    tt_write_u64(&w, r->bytes);
    tt_write_u32(&w, r->signal_region);
    tt_write_u32(&w, r->signal_generation);
    tt_write_u64(&w, r->signal_offset);
    tt_write_u64(&w, r->signal_value);
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++)
        tt_write_u32(&w, r->applied[i]);
}

/* No range wraps around, and signals are words. */
static bool honest(const struct tt_verbs_record *r)
{
    uint64_t end;

    if (r->kind != TT_VERBS_PUT && r->kind != TT_VERBS_VOID)
        return false;
    if (r->signal_op > TT_SIGNAL_ADD || r->flags & ~TT_VERBS_WANT_ACK)
        return false;
    if (r->payload > TT_VERBS_PAYLOAD_BYTES || (r->payload && r->payload != r->bytes))
        return false;
    if (r->signal_offset % 8 || r->signal_offset > UINT64_MAX - 8)
        return false;
    return !__builtin_add_overflow(r->offset, r->bytes, &end);
}

bool tt_verbs_record_read(struct tt_verbs_record *r, const uint8_t in[TT_VERBS_RECORD_BYTES])
{
    struct tt_reader at;
    uint32_t mark;

    tt_reader_init(&at, in, TT_VERBS_RECORD_BYTES);
    r->kind = tt_read_u8(&at);
    r->signal_op = tt_read_u8(&at);
    r->flags = tt_read_u8(&at);
    r->payload = tt_read_u8(&at);
    mark = tt_read_u32(&at);
    r->region = tt_read_u32(&at);
    r->generation = tt_read_u32(&at);
    r->offset = tt_read_u64(&at);
    r->bytes = tt_read_u64(&at);
    r->signal_region = tt_read_u32(&at);
    r->signal_generation = tt_read_u32(&at);
    r->signal_offset = tt_read_u64(&at);
    r->signal_value = tt_read_u64(&at);
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++)
        r->applied[i] = tt_read_u32(&at);
    return mark == MARK && honest(r);
}

void tt_verbs_record_stamp(uint8_t record[TT_VERBS_RECORD_BYTES], const uint64_t applied[TT_VERBS_LANES])
{
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++) {
        const uint32_t low = htole32((uint32_t)applied[i]);

        memcpy(record + APPLIED_AT + sizeof low * i, &low, sizeof low);
    }
}

void tt_verbs_record_void(uint8_t record[TT_VERBS_RECORD_BYTES])
{
    record[0] = TT_VERBS_VOID;
}

/* ---- the hello ---- */

#define HELLO_MAGIC 0x48565454u     /* "TTVH" */
#define HELLO_VERSION 1
#define NUMBER_MAX 0xffffffu        /* queue pair and packet sequence numbers */

void tt_verbs_hello_write(const struct tt_verbs_hello *h, uint8_t out[TT_VERBS_HELLO_BYTES])
{
    struct tt_writer w;

    memset(out, 0, TT_VERBS_HELLO_BYTES);
    tt_writer_init(&w, out, TT_VERBS_HELLO_BYTES);
    tt_write_u32(&w, HELLO_MAGIC);
    tt_write_u8(&w, HELLO_VERSION);
    tt_write_u8(&w, h->mtu);
    tt_write_u16(&w, h->lid);
    tt_write_u32(&w, h->incarnation);
    tt_write_u32(&w, h->rkey);
    tt_write_bytes(&w, h->gid, sizeof h->gid);
    tt_write_u64(&w, h->link_address);
    tt_write_u64(&w, h->link_bytes);
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++) {
        tt_write_u32(&w, h->lanes[i].qp);
        tt_write_u32(&w, h->lanes[i].psn);
        tt_write_u64(&w, h->lanes[i].applied);
        tt_write_u64(&w, h->lanes[i].ring);
    }
}

bool tt_verbs_hello_read(struct tt_verbs_hello *h, const uint8_t in[TT_VERBS_HELLO_BYTES])
{
    struct tt_reader r;
    bool good;

    tt_reader_init(&r, in, TT_VERBS_HELLO_BYTES);
    good = tt_read_u32(&r) == HELLO_MAGIC;
    good &= tt_read_u8(&r) == HELLO_VERSION;
    h->mtu = tt_read_u8(&r);
    h->lid = tt_read_u16(&r);
    h->incarnation = tt_read_u32(&r);
    h->rkey = tt_read_u32(&r);
    tt_read_bytes(&r, h->gid, sizeof h->gid);
    h->link_address = tt_read_u64(&r);
    h->link_bytes = tt_read_u64(&r);
    for (uint32_t i = 0; i < TT_VERBS_LANES; i++) {
        h->lanes[i].qp = tt_read_u32(&r);
        h->lanes[i].psn = tt_read_u32(&r);
        h->lanes[i].applied = tt_read_u64(&r);
        h->lanes[i].ring = tt_read_u64(&r);
        good &= h->lanes[i].qp <= NUMBER_MAX && h->lanes[i].psn <= NUMBER_MAX;
    }
    return good && h->incarnation > 0 && h->mtu >= 1 && h->mtu <= 5;
}

/* ---- addresses and keys ---- */

#define ADDRESS_MAGIC 0x4156u   /* "VA" */
#define KEY_MAGIC 0x4b56u       /* "VK" */

void tt_verbs_address_write(const struct tt_verbs_address *a, struct tt_blob *out)
{
    struct tt_writer w;

    tt_writer_init(&w, out->data, sizeof out->data);
    tt_write_u16(&w, ADDRESS_MAGIC);
    tt_write_u8(&w, a->infiniband);
    tt_write_u64(&w, a->subnet);
    tt_write_bytes(&w, a->tcp.data, a->tcp.bytes);
    out->bytes = (uint16_t)tt_writer_bytes(&w);
}

bool tt_verbs_address_read(struct tt_verbs_address *a, const struct tt_blob *blob)
{
    struct tt_reader r;
    uint16_t magic;
    uint8_t infiniband;

    if (blob->bytes > TT_BLOB_BYTES)
        return false;
    memset(a, 0, sizeof *a);
    tt_reader_init(&r, blob->data, blob->bytes);
    magic = tt_read_u16(&r);
    infiniband = tt_read_u8(&r);
    a->infiniband = infiniband;
    a->subnet = tt_read_u64(&r);
    if (r.bad || magic != ADDRESS_MAGIC || infiniband > 1)
        return false;
    a->tcp.bytes = (uint16_t)(r.end - r.at);
    tt_read_bytes(&r, a->tcp.data, a->tcp.bytes);
    return true;
}

void tt_verbs_key_write(const struct tt_verbs_key *k, struct tt_blob *out)
{
    struct tt_writer w;

    tt_writer_init(&w, out->data, sizeof out->data);
    tt_write_u16(&w, KEY_MAGIC);
    tt_write_u32(&w, k->region);
    tt_write_u32(&w, k->generation);
    tt_write_u32(&w, k->rkey);
    tt_write_u64(&w, k->address);
    tt_write_u64(&w, k->bytes);
    out->bytes = (uint16_t)tt_writer_bytes(&w);
}

bool tt_verbs_key_read(struct tt_verbs_key *k, const struct tt_blob *blob)
{
    struct tt_reader r;
    uint64_t end;
    uint16_t magic;

    if (blob->bytes > TT_BLOB_BYTES)
        return false;
    tt_reader_init(&r, blob->data, blob->bytes);
    magic = tt_read_u16(&r);
    k->region = tt_read_u32(&r);
    k->generation = tt_read_u32(&r);
    k->rkey = tt_read_u32(&r);
    k->address = tt_read_u64(&r);
    k->bytes = tt_read_u64(&r);
    return !r.bad && r.at == r.end && magic == KEY_MAGIC && !__builtin_add_overflow(k->address, k->bytes, &end);
}
