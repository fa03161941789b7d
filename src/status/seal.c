#include "status/seal.h"

#include <string.h>
#include "base/bytes.h"
#include "base/status.h"

#define VERSION 1u
#define CHALLENGE_BYTES (1u + TT_NONCE_BYTES)
#define PROOF_BYTES (TT_NONCE_BYTES + TT_MAC_BYTES)
#define SEALED_MAX (TT_MAC_INPUT_MAX - 16u)     /* maximum size of a body */

_Static_assert(TT_FRAME_HEADER_BYTES + CHALLENGE_BYTES <= TT_SEAL_FRAME_MAX &&
                   TT_FRAME_HEADER_BYTES + PROOF_BYTES <= TT_SEAL_FRAME_MAX,
               "a frame of the handshake fits");

/* ---- the handshake ---- */

static void token_mac(uint8_t out[TT_MAC_BYTES], const struct tt_seal_nonces *n, const char *token,
                      const char *purpose)
{
    uint8_t said[2 * TT_NONCE_BYTES];

    memcpy(said, n->process, TT_NONCE_BYTES);
    memcpy(said + TT_NONCE_BYTES, n->client, TT_NONCE_BYTES);
    tt_mac(out, token, strlen(token), purpose, said, sizeof said);
}

static size_t seal_frame(uint8_t *out, uint8_t type, size_t bytes)
{
    tt_frame_header(out, type, bytes);
    return TT_FRAME_HEADER_BYTES + bytes;
}

size_t tt_seal_challenge_write(const struct tt_seal_nonces *n, uint8_t *out)
{
    out[TT_FRAME_HEADER_BYTES] = VERSION;
    memcpy(out + TT_FRAME_HEADER_BYTES + 1, n->process, TT_NONCE_BYTES);
    return seal_frame(out, TT_SEAL_CHALLENGE, CHALLENGE_BYTES);
}

bool tt_seal_challenge_read(const struct tt_frame *f, struct tt_seal_nonces *n)
{
    if (f->type != TT_SEAL_CHALLENGE || f->bytes != CHALLENGE_BYTES || f->body[0] != VERSION)
        return false;
    memcpy(n->process, f->body + 1, TT_NONCE_BYTES);
    return true;
}

size_t tt_seal_proof_write(const struct tt_seal_nonces *n, const char *token, uint8_t *out)
{
    memcpy(out + TT_FRAME_HEADER_BYTES, n->client, TT_NONCE_BYTES);
    token_mac(out + TT_FRAME_HEADER_BYTES + TT_NONCE_BYTES, n, token, "tutti status client");
    return seal_frame(out, TT_SEAL_PROOF, PROOF_BYTES);
}

bool tt_seal_proof_read(const struct tt_frame *f, const char *token, struct tt_seal_nonces *n)
{
    uint8_t expected[TT_MAC_BYTES];

    if (f->type != TT_SEAL_PROOF || f->bytes != PROOF_BYTES)
        return false;
    memcpy(n->client, f->body, TT_NONCE_BYTES);
    token_mac(expected, n, token, "tutti status client");
    return tt_mac_equal(expected, f->body + TT_NONCE_BYTES);
}

size_t tt_seal_accept_write(const struct tt_seal_nonces *n, const char *token, uint8_t *out)
{
    token_mac(out + TT_FRAME_HEADER_BYTES, n, token, "tutti status process");
    return seal_frame(out, TT_SEAL_ACCEPT, TT_MAC_BYTES);
}

bool tt_seal_accept_read(const struct tt_frame *f, const char *token,
                         const struct tt_seal_nonces *n)
{
    uint8_t expected[TT_MAC_BYTES];

    if (f->type != TT_SEAL_ACCEPT || f->bytes != TT_MAC_BYTES)
        return false;
    token_mac(expected, n, token, "tutti status process");
    return tt_mac_equal(expected, f->body);
}

/* ---- sealed frames ---- */

void tt_seal_begin(struct tt_seal *s, const struct tt_seal_nonces *n, const char *token,
                   bool is_process)
{
    *s = (struct tt_seal){ .is_process = is_process };
    token_mac(s->key, n, token, "tutti status key");
}

/* The frame number prevents replays and omissions. */
static void frame_mac(uint8_t out[TT_MAC_BYTES], const struct tt_seal *s, bool from_process,
                      uint64_t number, uint8_t type, const uint8_t *body, size_t bytes)
{
    uint8_t said[9 + SEALED_MAX];
    struct tt_writer w;

    tt_writer_init(&w, said, sizeof said);
    tt_write_u64(&w, number);
    tt_write_u8(&w, type);
    tt_write_bytes(&w, body, bytes);
    tt_assert(!w.bad);
    tt_mac(out, s->key, sizeof s->key,
           from_process ? "tutti status from process" : "tutti status from client", said,
           tt_writer_bytes(&w));
}

size_t tt_seal_add(struct tt_seal *s, uint8_t *frame, size_t bytes)
{
    uint8_t *body = frame + TT_FRAME_HEADER_BYTES;
    const size_t plain = bytes - TT_FRAME_HEADER_BYTES;
    const uint8_t type = frame[2];

    frame_mac(body + plain, s, s->is_process, s->sent++, type, body, plain);
    tt_frame_header(frame, type, plain + TT_SEAL_BYTES);
    return bytes + TT_SEAL_BYTES;
}

bool tt_seal_check(struct tt_seal *s, struct tt_frame *f)
{
    uint8_t expected[TT_MAC_BYTES];

    if (f->bytes < TT_SEAL_BYTES || f->bytes - TT_SEAL_BYTES > SEALED_MAX)
        return false;
    f->bytes -= TT_SEAL_BYTES;
    frame_mac(expected, s, !s->is_process, s->received, f->type, f->body, f->bytes);
    s->received++;
    return tt_mac_equal(expected, f->body + f->bytes);
}
