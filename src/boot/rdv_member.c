/* The member of the rendezvous. */
#include "boot/rendezvous.h"

#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "boot/rdv_proof.h"

void tt_rdv_member_init(struct tt_rdv_member *m, const char *token, uint32_t rank, uint32_t nranks,
                        uint64_t process, const void *card, size_t card_bytes, uint64_t began_ns,
                        uint64_t deadline_ns)
{
    tt_assert(card_bytes <= TT_RDV_CARD_BYTES && rank < nranks);
    *m = (struct tt_rdv_member){ .state = TT_RDV_DISCONNECTED,
                                 .rank = rank,
                                 .nranks = nranks,
                                 .process = process,
                                 .began_ns = began_ns,
                                 .deadline_ns = deadline_ns,
                                 .card_bytes = (uint16_t)card_bytes };
    snprintf(m->token, sizeof m->token, "%s", token);
    memcpy(m->card, card, card_bytes);
}

static void member_refused(struct tt_rdv_member *m, bool final, tutti_status status,
                           const char *sentence)
{
    m->state = TT_RDV_MEMBER_REFUSED;
    m->final = final;
    m->status = status;
    snprintf(m->sentence, sizeof m->sentence, "%s", sentence);
}

static uint32_t clamp_ms(uint64_t ns)
{
    return ns / TT_MS < TT_RDV_NO_TIMEOUT ? (uint32_t)(ns / TT_MS) : TT_RDV_NO_TIMEOUT - 1;
}

static void member_send_hello(struct tt_rdv_member *m, uint64_t now_ns)
{
    uint8_t frame[TT_FRAME_HEADER_BYTES + TT_RDV_HELLO_BYTES];
    uint8_t *body = frame + TT_FRAME_HEADER_BYTES, *proof = body + TT_NONCE_BYTES,
            *said = proof + TT_MAC_BYTES;
    const uint64_t left_ns = m->deadline_ns > now_ns ? m->deadline_ns - now_ns : 0;
    struct tt_rdv_act act = { .kind = TT_RDV_ACT_SEND, .data = frame };
    struct tt_writer w;
    size_t bytes;

    tt_writer_init(&w, said, TT_RDV_HELLO_BYTES - TT_NONCE_BYTES - TT_MAC_BYTES);
    tt_write_u32(&w, m->rank);
    tt_write_u32(&w, m->nranks);
    tt_write_u64(&w, m->process);
    tt_write_u32(&w, clamp_ms(now_ns - m->began_ns));
    tt_write_u32(&w, m->deadline_ns == TT_NEVER ? TT_RDV_NO_TIMEOUT : clamp_ms(left_ns));
    tt_write_u16(&w, m->card_bytes);
    tt_write_bytes(&w, m->card, m->card_bytes);
    tt_assert(!w.bad);
    bytes = tt_writer_bytes(&w);
    memcpy(body, m->member_nonce, TT_NONCE_BYTES);
    tt_rdv_prove(proof, m->token, "tutti rendezvous hello", m->server_nonce, m->member_nonce, said,
                 bytes);
    act.bytes = TT_FRAME_HEADER_BYTES + TT_NONCE_BYTES + TT_MAC_BYTES + bytes;
    tt_frame_header(frame, TT_RDV_HELLO, act.bytes - TT_FRAME_HEADER_BYTES);
    m->state = TT_RDV_WAITING;
    m->emit(m->context, &act);
}

static void read_challenge(struct tt_rdv_member *m, const struct tt_frame *f, uint64_t now_ns)
{
    uint8_t gathering[TT_NONCE_BYTES];
    char sentence[TT_RDV_MESSAGE_BYTES];
    struct tt_reader r;
    uint16_t version;

    tt_reader_init(&r, f->body, f->bytes);
    version = tt_read_u16(&r);
    tt_read_bytes(&r, m->server_nonce, TT_NONCE_BYTES);
    if (f->type != TT_RDV_CHALLENGE || r.bad) {
        m->state = TT_RDV_DISCONNECTED;     /* not our server (yet) */
        return;
    }
    tt_read_bytes(&r, gathering, sizeof gathering);
    if (version != TT_RDV_VERSION) {
        snprintf(
            sentence, sizeof sentence,
            "rendezvous protocol mismatch: the server has version %u, this rank has version %u",
            version, TT_RDV_VERSION);
        member_refused(m, true, TUTTI_ERR_PROTOCOL, sentence);
    } else if (r.bad) {
        m->state = TT_RDV_DISCONNECTED;
    } else {
        if (m->prepare)
            m->prepare(m->context, gathering);
        member_send_hello(m, now_ns);
    }
}

/* A refusal without a valid proof comes from a server with another token. */
static void read_refused(struct tt_rdv_member *m, const struct tt_frame *f)
{
    char sentence[TT_RDV_MESSAGE_BYTES];
    uint8_t proof[TT_MAC_BYTES], expected[TT_MAC_BYTES];
    struct tt_reader r;
    const uint8_t *said;
    uint8_t status;

    tt_reader_init(&r, f->body, f->bytes);
    tt_read_bytes(&r, proof, sizeof proof);
    said = r.at;
    status = tt_read_u8(&r);
    tt_read_string(&r, sentence, sizeof sentence);
    if (r.bad || f->bytes > TT_MAC_BYTES + 1 + 2 + TT_RDV_MESSAGE_BYTES) {
        m->state = TT_RDV_DISCONNECTED;
        return;
    }
    tt_rdv_prove(expected, m->token, "tutti rendezvous refused", m->server_nonce, m->member_nonce,
                 said, (size_t)(r.end - said));
    if (!tt_mac_equal(proof, expected) || status < TUTTI_ERR_INVALID ||
        status >= TUTTI_STATUS_COUNT)
        member_refused(m, false, TUTTI_ERR_INVALID, "the server rejected this rank's token");
    else
        member_refused(m, true, (tutti_status)status, sentence);
}

/* Checks every card before the table is accepted. */
static bool check_cards(struct tt_reader *r, uint32_t nranks)
{
    struct tt_reader look = *r;

    for (uint32_t i = 0; i < nranks; i++) {
        const uint16_t bytes = tt_read_u16(&look);

        if (bytes > TT_RDV_CARD_BYTES || bytes > (size_t)(look.end - look.at))
            return false;
        look.at += bytes;
    }
    return !look.bad && look.at == look.end;
}

static void read_table(struct tt_rdv_member *m, const struct tt_frame *f)
{
    uint8_t proof[TT_MAC_BYTES], expected[TT_MAC_BYTES], digest[TT_MAC_BYTES],
        masked[TT_SECRET_BYTES];
    struct tt_reader r;
    uint32_t nranks;

    tt_reader_init(&r, f->body, f->bytes);
    tt_read_bytes(&r, proof, sizeof proof);
    tt_read_bytes(&r, masked, sizeof masked);
    if (r.bad) {
        m->state = TT_RDV_DISCONNECTED;
        return;
    }
    tt_digest(digest, r.at, (size_t)(r.end - r.at));
    tt_rdv_prove_table(expected, m->token, m->server_nonce, m->member_nonce, masked, digest);
    nranks = tt_read_u32(&r);
    if (!tt_mac_equal(proof, expected)) {
        member_refused(m, false, TUTTI_ERR_INVALID,
                       "the server has a different token than this rank");
        return;
    }
    if (r.bad || nranks != m->nranks || !check_cards(&r, nranks)) {
        member_refused(m, true, TUTTI_ERR_PROTOCOL,
                       "protocol error: invalid table from the server");
        return;
    }
    tt_rdv_mask(masked, m->token, m->server_nonce, m->member_nonce);
    memcpy(m->secret, masked, TT_SECRET_BYTES);
    m->cards = r;
    m->state = TT_RDV_HAVE_TABLE;
}

void tt_rdv_member_step(struct tt_rdv_member *m, const struct tt_rdv_event *ev, uint64_t now_ns)
{
    if (m->state == TT_RDV_HAVE_TABLE || (m->state == TT_RDV_MEMBER_REFUSED && m->final))
        return;

    switch ((enum tt_rdv_event_kind)ev->kind) {
    case TT_RDV_EV_OPEN:
        memcpy(m->member_nonce, ev->nonce, TT_NONCE_BYTES);
        m->state = TT_RDV_CONNECTED;
        break;
    case TT_RDV_EV_CLOSED:
        if (m->state != TT_RDV_MEMBER_REFUSED)
            m->state = TT_RDV_DISCONNECTED;
        break;
    case TT_RDV_EV_FRAME:
        if (m->state == TT_RDV_CONNECTED)
            read_challenge(m, &ev->frame, now_ns);
        else if (m->state == TT_RDV_WAITING && ev->frame.type == TT_RDV_TABLE)
            read_table(m, &ev->frame);
        else if (m->state == TT_RDV_WAITING && ev->frame.type == TT_RDV_REFUSED)
            read_refused(m, &ev->frame);
        else
            m->state = TT_RDV_DISCONNECTED;
        break;
    case TT_RDV_EV_TICK:
        break;
    }
}
