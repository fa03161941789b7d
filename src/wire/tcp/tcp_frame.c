#include "wire/tcp/tcp_frame.h"

#include <endian.h>
#include <string.h>
#include "wire/wire.h"

/* ---- frames ----
 *
 *   0 mark        1 kind           2 flags              3 signal op  4 word  8 after  12 region
 *  16 generation  20 signal region  24 signal generation  28 token
 *  32 offset      40 bytes        48 signal offset     56 signal value       all little-endian
 *
 * One frame is written and read per message, so direct loads and stores are used, not a
 * tt_reader. */

#define MARK 0x54 /* detects a misaligned stream at the next header */

static void store32(uint8_t *at, uint32_t v)
{
    v = htole32(v);
    memcpy(at, &v, sizeof v);
}

static void store64(uint8_t *at, uint64_t v)
{
    v = htole64(v);
    memcpy(at, &v, sizeof v);
}

static uint32_t load32(const uint8_t *at)
{
    uint32_t v;

    memcpy(&v, at, sizeof v);
    return le32toh(v);
}

static uint64_t load64(const uint8_t *at)
{
    uint64_t v;

    memcpy(&v, at, sizeof v);
    return le64toh(v);
}

void tt_frame_write(const struct tt_frame *f, uint8_t header[TT_FRAME_BYTES])
{
    header[0] = MARK;
    header[1] = f->kind;
    header[2] = f->flags;
    header[3] = f->signal_op;
    store32(header + 4, f->word);
    store32(header + 8, f->after);
    store32(header + 12, f->region);
    store32(header + 16, f->generation);
    store32(header + 20, f->signal_region);
    store32(header + 24, f->signal_generation);
    store32(header + 28, f->token);
    store64(header + 32, f->offset);
    store64(header + 40, f->bytes);
    store64(header + 48, f->signal_offset);
    store64(header + 56, f->signal_value);
}

/* Checks that flags and signals are used only where they are defined, and that no range wraps
 * around. */
static bool frame_is_valid(const struct tt_frame *f)
{
    const bool message = f->kind == TT_FRAME_PUT || f->kind == TT_FRAME_ATOMIC;
    const bool numbered = message || f->kind == TT_FRAME_VOID;
    const uint32_t marks = f->word & ~TT_DQPLB_SEQ_MASK;
    uint64_t end;

    if (f->kind < TT_FRAME_PUT || f->kind >= TT_FRAME_KINDS || f->flags & ~TT_FRAME_FLAGS)
        return false;
    if (numbered ? (marks & ~TT_DQPLB_FAST) != TT_DQPLB_NOTIFY : marks != 0)
        return false; /* each message is one segment; other frames have no segment */
    if (f->signal_op > TT_SIGNAL_ADD || (f->signal_op != TT_SIGNAL_NONE && !message))
        return false;
    if (f->flags & TT_FRAME_GONE && f->kind != TT_FRAME_GOT && f->kind != TT_FRAME_OLD)
        return false;
    if (f->flags & TT_FRAME_FENCED && f->signal_op == TT_SIGNAL_NONE && f->kind != TT_FRAME_GET)
        return false;
    if (f->flags & TT_FRAME_FENCED && f->kind != TT_FRAME_GET &&
        ((f->word - f->after) & TT_DQPLB_SEQ_MASK) > TT_DQPLB_WINDOW_MAX)
        return false; /* the frame would wait for itself, or for messages that arrived long ago */
    if (f->signal_offset % 8 || f->signal_offset > UINT64_MAX - 8)
        return false;
    if (f->kind == TT_FRAME_LANES && (f->token < 2 || f->token > TT_DQPLB_LANES_MAX))
        return false;
    if (f->kind == TT_FRAME_ATOMIC)
        return f->offset % 8 == 0 && f->offset <= UINT64_MAX - 8;
    return f->kind == TT_FRAME_OLD || !__builtin_add_overflow(f->offset, f->bytes, &end);
}

bool tt_frame_read(struct tt_frame *f, const uint8_t header[TT_FRAME_BYTES])
{
    f->kind = header[1];
    f->flags = header[2];
    f->signal_op = header[3];
    f->word = load32(header + 4);
    f->after = load32(header + 8);
    f->region = load32(header + 12);
    f->generation = load32(header + 16);
    f->signal_region = load32(header + 20);
    f->signal_generation = load32(header + 24);
    f->token = load32(header + 28);
    f->offset = load64(header + 32);
    f->bytes = load64(header + 40);
    f->signal_offset = load64(header + 48);
    f->signal_value = load64(header + 56);
    return header[0] == MARK && frame_is_valid(f);
}

uint64_t tt_frame_payload(const struct tt_frame *f)
{
    if (f->kind == TT_FRAME_PUT || (f->kind == TT_FRAME_GOT && !(f->flags & TT_FRAME_GONE)))
        return f->bytes;
    return 0;
}

/* ---- the handshake ---- */

#define HELLO_MAGIC 0x49545554u /* "TUTI" */
#define HELLO_VERSION 5

void tt_hello_write(const struct tt_hello *h, const uint8_t secret[16], uint8_t out[TT_HELLO_BYTES])
{
    struct tt_writer w;

    memset(out, 0, TT_HELLO_BYTES);
    tt_writer_init(&w, out, TT_HELLO_BYTES);
    tt_write_u32(&w, HELLO_MAGIC);
    tt_write_u8(&w, HELLO_VERSION);
    tt_write_u8(&w, h->kind);
    tt_write_u16(&w, h->lane);
    tt_write_bytes(&w, secret, 16);
    tt_write_u16(&w, h->lanes);
    tt_write_u32(&w, h->from);
    tt_write_u32(&w, h->to);
    tt_write_u32(&w, h->nranks);
    tt_write_u64(&w, h->nonce);
    tt_write_u64(&w, h->link_bytes);
}

bool tt_hello_read(struct tt_hello *h, const uint8_t secret[16], const uint8_t in[TT_HELLO_BYTES])
{
    struct tt_reader r;
    uint8_t theirs[16], differ = 0;
    uint32_t magic;
    uint8_t version;

    tt_reader_init(&r, in, TT_HELLO_BYTES);
    magic = tt_read_u32(&r);
    version = tt_read_u8(&r);
    h->kind = tt_read_u8(&r);
    h->lane = tt_read_u16(&r);
    tt_read_bytes(&r, theirs, sizeof theirs);
    h->lanes = tt_read_u16(&r);
    h->from = tt_read_u32(&r);
    h->to = tt_read_u32(&r);
    h->nranks = tt_read_u32(&r);
    h->nonce = tt_read_u64(&r);
    h->link_bytes = tt_read_u64(&r);

    for (size_t i = 0; i < sizeof theirs; i++)
        differ |= (uint8_t)(theirs[i] ^ secret[i]);
    return !r.bad && magic == HELLO_MAGIC && version == HELLO_VERSION && differ == 0 &&
           h->kind >= TT_HELLO && h->kind <= TT_CONFIRM && h->lanes > 0 && h->lane < h->lanes;
}

/* ---- addresses and keys ---- */

#define ADDRESS_MAGIC 0x4154u /* "TA" */

static size_t ip_bytes(uint8_t family)
{
    return family == 4 ? 4 : 16;
}

void tt_tcp_address_add(struct tt_tcp_address *a, uint8_t family, const uint8_t *ip)
{
    size_t bytes = 2 + 2 + 8 + 1 + 1 + 1;   /* total of the fields that tt_tcp_address_write
                                               writes first */

    for (size_t i = 0; i < a->count; i++) {
        if (a->endpoints[i].family == family &&
            memcmp(a->endpoints[i].ip, ip, ip_bytes(family)) == 0)
            return;
        bytes += 1 + ip_bytes(a->endpoints[i].family);
    }
    if (a->count == TT_TCP_ENDPOINTS || bytes + 1 + ip_bytes(family) > TT_BLOB_BYTES)
        return;
    a->endpoints[a->count].family = family;
    memcpy(a->endpoints[a->count++].ip, ip, ip_bytes(family));
}

void tt_tcp_address_write(const struct tt_tcp_address *a, struct tt_blob *out)
{
    struct tt_writer w;

    tt_writer_init(&w, out->data, sizeof out->data);
    tt_write_u16(&w, ADDRESS_MAGIC);
    tt_write_u16(&w, a->port);
    tt_write_u64(&w, a->host);
    tt_write_u8(&w, a->count);
    tt_write_u8(&w, a->rails);
    tt_write_u8(&w, a->outside);
    for (size_t i = 0; i < a->count; i++) {
        tt_write_u8(&w, a->endpoints[i].family);
        tt_write_bytes(&w, a->endpoints[i].ip, ip_bytes(a->endpoints[i].family));
    }
    out->bytes = (uint16_t)tt_writer_bytes(&w);
}

void tt_tcp_address_shorten(struct tt_blob *address, size_t bytes_max)
{
    struct tt_tcp_address a;

    while (address->bytes > bytes_max && tt_tcp_address_read(&a, address) && a.count > 1) {
        a.count--;
        if (a.rails > a.count)
            a.rails = a.count;
        if (a.outside > a.count)
            a.outside = 0;
        tt_tcp_address_write(&a, address);
    }
}

bool tt_tcp_address_read(struct tt_tcp_address *a, const struct tt_blob *blob)
{
    struct tt_reader r;

    if (blob->bytes > TT_BLOB_BYTES)
        return false;
    memset(a, 0, sizeof *a);
    tt_reader_init(&r, blob->data, blob->bytes);
    if (tt_read_u16(&r) != ADDRESS_MAGIC)
        return false;
    a->port = tt_read_u16(&r);
    a->host = tt_read_u64(&r);
    a->count = tt_read_u8(&r);
    a->rails = tt_read_u8(&r);
    a->outside = tt_read_u8(&r);
    if (a->count > TT_TCP_ENDPOINTS || a->rails > a->count || a->outside > a->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        a->endpoints[i].family = tt_read_u8(&r);
        if (a->endpoints[i].family != 4 && a->endpoints[i].family != 6)
            return false;
        tt_read_bytes(&r, a->endpoints[i].ip, ip_bytes(a->endpoints[i].family));
    }
    return !r.bad && r.at == r.end;
}
