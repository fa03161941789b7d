#include "wire/verbs/verbs_frame.h"

#include <string.h>

/* ---- hellos ---- */

#define GREETING_MAGIC 0x47565454u  /* "TTVG" */
#define HELLO_MAGIC 0x48565454u     /* "TTVH" */
#define VERSION 3
#define NUMBER_MAX 0xffffffu        /* maximum of queue pair and packet sequence numbers */

_Static_assert(32 + TT_VERBS_REPORT_BYTES <= TT_VERBS_HELLO_BYTES,
               "a hello has room for the report");

void tt_verbs_link_hello_write(const struct tt_verbs_link_hello *g,
                               uint8_t out[TT_VERBS_LINK_HELLO_BYTES])
{
    struct tt_writer w;

    memset(out, 0, TT_VERBS_LINK_HELLO_BYTES);
    tt_writer_init(&w, out, TT_VERBS_LINK_HELLO_BYTES);
    tt_write_u32(&w, GREETING_MAGIC);
    tt_write_u8(&w, VERSION);
    tt_write_u8(&w, g->rails);
    tt_write_u8(&w, g->data_lanes);
    tt_write_u8(&w, 0);
    tt_write_u64(&w, g->link_address);
    tt_write_u64(&w, g->link_bytes);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++)
        tt_write_u64(&w, g->ring[i]);
    for (uint32_t i = 0; i < TT_VERBS_RAILS; i++)
        tt_write_u32(&w, g->rkey[i]);
}

bool tt_verbs_link_hello_read(struct tt_verbs_link_hello *g,
                              const uint8_t in[TT_VERBS_LINK_HELLO_BYTES])
{
    struct tt_reader r;
    uint64_t end;
    bool good;

    tt_reader_init(&r, in, TT_VERBS_LINK_HELLO_BYTES);
    good = tt_read_u32(&r) == GREETING_MAGIC;
    good &= tt_read_u8(&r) == VERSION;
    g->rails = tt_read_u8(&r);
    g->data_lanes = tt_read_u8(&r);
    good &= tt_read_u8(&r) == 0;
    g->link_address = tt_read_u64(&r);
    g->link_bytes = tt_read_u64(&r);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++)
        g->ring[i] = tt_read_u64(&r);
    for (uint32_t i = 0; i < TT_VERBS_RAILS; i++)
        g->rkey[i] = tt_read_u32(&r);
    return good && g->rails >= 1 && g->rails <= TT_VERBS_RAILS && g->data_lanes >= 1 &&
           g->data_lanes <= TT_VERBS_DATA_LANES &&
           !__builtin_add_overflow(g->link_address, g->link_bytes, &end);
}

void tt_verbs_hello_write(const struct tt_verbs_hello *h, uint8_t out[TT_VERBS_HELLO_BYTES])
{
    struct tt_writer w;

    memset(out, 0, TT_VERBS_HELLO_BYTES);
    tt_writer_init(&w, out, TT_VERBS_HELLO_BYTES);
    tt_write_u32(&w, HELLO_MAGIC);
    tt_write_u8(&w, VERSION);
    tt_write_u8(&w, h->mtu);
    tt_write_u16(&w, h->lid);
    tt_write_u32(&w, h->incarnation);
    tt_write_u32(&w, h->qp);
    tt_write_u32(&w, h->psn);
    tt_write_bytes(&w, h->gid, sizeof h->gid);
    tt_write_bytes(&w, h->report, sizeof h->report);
}

bool tt_verbs_hello_read(struct tt_verbs_hello *h, const uint8_t in[TT_VERBS_HELLO_BYTES])
{
    struct tt_reader r;
    bool good;

    tt_reader_init(&r, in, TT_VERBS_HELLO_BYTES);
    good = tt_read_u32(&r) == HELLO_MAGIC;
    good &= tt_read_u8(&r) == VERSION;
    h->mtu = tt_read_u8(&r);
    h->lid = tt_read_u16(&r);
    h->incarnation = tt_read_u32(&r);
    h->qp = tt_read_u32(&r);
    h->psn = tt_read_u32(&r);
    tt_read_bytes(&r, h->gid, sizeof h->gid);
    tt_read_bytes(&r, h->report, sizeof h->report);
    return good && h->incarnation > 0 && h->qp <= NUMBER_MAX && h->psn <= NUMBER_MAX &&
           h->mtu >= 1 && h->mtu <= 5;
}

/* ---- addresses and keys ---- */

#define ADDRESS_MAGIC 0x4156u   /* "VA" */
#define KEY_MAGIC 0x4bu         /* "K" */
#define KEY_ADDRESS_BITS 56

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

/* 0 magic  1 region[3]  4 generation  8 address[7]  15 bytes[6]  21 rkey[2]         all
 * little-endian */
void tt_verbs_key_write(const struct tt_verbs_key *k, struct tt_blob *out)
{
    struct tt_writer w;

    tt_writer_init(&w, out->data, sizeof out->data);
    tt_write_u32(&w, KEY_MAGIC | k->region << 8);
    tt_write_u32(&w, k->generation);
    tt_write_u64(&w, k->address | k->bytes << KEY_ADDRESS_BITS);
    tt_write_u32(&w, (uint32_t)(k->bytes >> 8));
    tt_write_u8(&w, (uint8_t)(k->bytes >> 40));
    for (uint32_t i = 0; i < TT_VERBS_RAILS; i++)
        tt_write_u32(&w, k->rkey[i]);
    out->bytes = (uint16_t)tt_writer_bytes(&w);
}

bool tt_verbs_key_read(struct tt_verbs_key *k, const struct tt_blob *blob)
{
    struct tt_reader r;
    uint32_t first;

    if (blob->bytes > TT_BLOB_BYTES)
        return false;
    tt_reader_init(&r, blob->data, blob->bytes);
    first = tt_read_u32(&r);
    k->region = first >> 8;
    k->generation = tt_read_u32(&r);
    k->address = tt_read_u64(&r);
    k->bytes = k->address >> KEY_ADDRESS_BITS | (uint64_t)tt_read_u32(&r) << 8;
    k->bytes |= (uint64_t)tt_read_u8(&r) << 40;
    k->address &= (1ull << KEY_ADDRESS_BITS) - 1;
    for (uint32_t i = 0; i < TT_VERBS_RAILS; i++)
        k->rkey[i] = tt_read_u32(&r);
    return !r.bad && r.at == r.end && (first & 0xff) == KEY_MAGIC;
}
