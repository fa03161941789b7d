#include "session/messages.h"

#include <string.h>

#include "base/bytes.h"

#define VERSION 1

size_t tt_message_write(const struct tt_message *s, uint8_t out[TT_MESSAGE_BYTES_MAX])
{
    struct tt_writer w;

    tt_writer_init(&w, out, TT_MESSAGE_BYTES_MAX);
    tt_write_u8(&w, VERSION);
    tt_write_u8(&w, s->kind);
    switch (s->kind) {
    case TT_MESSAGE_HELLO:
        tt_write_u64(&w, s->id);
        tt_write_bytes(&w, s->nonce, sizeof s->nonce);
        break;
    case TT_MESSAGE_PROOF:
        tt_write_bytes(&w, s->proof, sizeof s->proof);
        break;
    case TT_MESSAGE_OFFER:
        tt_write_u64(&w, s->epoch);
        tt_write_u64(&w, s->world);
        tt_write_u8(&w, s->keep);
        tt_write_u16(&w, s->card_bytes);
        tt_write_bytes(&w, s->card, s->card_bytes);
        break;
    case TT_MESSAGE_FAILED:
        tt_write_u64(&w, s->epoch);
        tt_write_u32(&w, s->context);
        tt_write_u32(&w, s->status);
        tt_write_string(&w, s->text);
        break;
    default:
        tt_assert(!"no such message");
    }
    tt_assert(!w.bad);
    return tt_writer_bytes(&w);
}

static void read_offer(struct tt_message *s, struct tt_reader *r)
{
    uint8_t keep;

    s->epoch = tt_read_u64(r);
    s->world = tt_read_u64(r);
    keep = tt_read_u8(r);
    s->keep = keep;
    s->card_bytes = tt_read_u16(r);
    if (keep > 1 || s->card_bytes > TT_CARD_BYTES || (keep && s->card_bytes > 0)) {
        r->bad = true;
        return;
    }
    tt_read_bytes(r, s->card, s->card_bytes);
}

static void read_failed(struct tt_message *s, struct tt_reader *r)
{
    s->epoch = tt_read_u64(r);
    s->context = tt_read_u32(r);
    s->status = tt_read_u32(r);
    tt_read_string(r, s->text, sizeof s->text);
    if (s->status <= TUTTI_PENDING || s->status >= TUTTI_STATUS_COUNT)
        r->bad = true;
}

bool tt_message_read(struct tt_message *s, const void *data, size_t bytes)
{
    struct tt_reader r;

    memset(s, 0, sizeof *s);
    tt_reader_init(&r, data, bytes);
    if (tt_read_u8(&r) != VERSION)
        return false;
    s->kind = tt_read_u8(&r);
    switch (s->kind) {
    case TT_MESSAGE_HELLO:
        s->id = tt_read_u64(&r);
        tt_read_bytes(&r, s->nonce, sizeof s->nonce);
        r.bad |= s->id == 0;
        break;
    case TT_MESSAGE_PROOF:
        tt_read_bytes(&r, s->proof, sizeof s->proof);
        break;
    case TT_MESSAGE_OFFER:
        read_offer(s, &r);
        break;
    case TT_MESSAGE_FAILED:
        read_failed(s, &r);
        break;
    default:
        return false;
    }
    return !r.bad && r.at == r.end;
}

void tt_message_prove(uint8_t out[TT_MAC_BYTES], const uint8_t secret[TT_COOKIE_BYTES],
                      bool connects, const struct tt_message_end *by,
                      const struct tt_message_end *to)
{
    uint8_t data[2 * (8 + TT_NONCE_BYTES)];
    struct tt_writer w;

    tt_writer_init(&w, data, sizeof data);
    tt_write_u64(&w, by->id);
    tt_write_bytes(&w, by->nonce, sizeof by->nonce);
    tt_write_u64(&w, to->id);
    tt_write_bytes(&w, to->nonce, sizeof to->nonce);
    tt_mac(out, secret, TT_COOKIE_BYTES,
           connects ? "tutti member connects" : "tutti member is called", data,
           tt_writer_bytes(&w));
}
