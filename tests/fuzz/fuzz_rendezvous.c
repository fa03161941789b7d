/* The rendezvous with arbitrary peers. The first byte selects the target:
 *   a server      with several connections, any frames, and hellos with the right token
 *   a member      with a server that sends anything, and with one that has the right token
 * No read goes past an end (sanitizers), and accepted data is valid. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "boot/rendezvous.h"

#define TOKEN "token"
#define NCONNS 4u

struct conn {
    struct tt_rdv_conn machine;
    bool open;
};

static void on_act(void *context, const struct tt_rdv_act *act)
{
    volatile uint8_t sum = 0;

    (void)context;
    for (size_t i = 0; i < act->bytes; i++)     /* all of it is readable */
        sum = (uint8_t)(sum + ((const uint8_t *)act->data)[i]);
    if (act->kind == TT_RDV_ACT_CLOSE)
        ((struct conn *)act->conn)->open = false;
}

/* Writes a body that starts with the proof of a peer that has the token: {nonce, mac, said}. */
static size_t prove_hello(uint8_t *body, const uint8_t *server_nonce, const uint8_t *said,
                          size_t bytes)
{
    uint8_t input[2 * TT_NONCE_BYTES + 2048];

    memset(body, 0x33, TT_NONCE_BYTES);
    memcpy(input, server_nonce, TT_NONCE_BYTES);
    memcpy(input + TT_NONCE_BYTES, body, TT_NONCE_BYTES);
    memcpy(input + 2 * TT_NONCE_BYTES, said, bytes);
    tt_mac(body + TT_NONCE_BYTES, TOKEN, strlen(TOKEN), "tutti rendezvous hello", input,
           2 * TT_NONCE_BYTES + bytes);
    memcpy(body + TT_NONCE_BYTES + TT_MAC_BYTES, said, bytes);
    return TT_NONCE_BYTES + TT_MAC_BYTES + bytes;
}

/* {what u8, bytes u8, data}: what's lower bits select the connection, the upper ones the event. */
static void attack_server(const uint8_t *data, size_t bytes)
{
    static const uint8_t secret[TT_SECRET_BYTES] = { 1 };
    struct conn conns[NCONNS] = { { .open = false } };
    struct tt_rdv_server s;
    uint8_t body[TT_RDV_HELLO_BYTES + 256];
    uint64_t now_ns = 1;
    struct tt_reader r;

    tt_rdv_server_init(&s, TOKEN, secret, 0, 1, 60 * TT_SECOND);
    s.emit = on_act;
    tt_reader_init(&r, data, bytes);
    while (r.at < r.end) {
        const uint8_t what = tt_read_u8(&r);
        const size_t n = tt_read_u8(&r), left = (size_t)(r.end - r.at), said = n < left ? n : left;
        struct conn *c = &conns[what % NCONNS];
        struct tt_rdv_event ev = { .conn = &c->machine,
                                   .frame = { .type = what >> 5, .body = r.at, .bytes = said } };

        now_ns += n * TT_MS * 10;
        if (!c->open) {
            ev.kind = TT_RDV_EV_OPEN;
            memset(ev.nonce, what, sizeof ev.nonce);
            c->open = true;
        } else if (what & 0x10) {
            ev.kind = TT_RDV_EV_FRAME;
            ev.frame.type = TT_RDV_HELLO;
            ev.frame.bytes = prove_hello(body, c->machine.server_nonce, r.at, said);
            ev.frame.body = body;
        } else {
            ev.kind = what & 0x08 ? TT_RDV_EV_CLOSED : TT_RDV_EV_FRAME;
            c->open = ev.kind == TT_RDV_EV_FRAME;
        }
        tt_rdv_server_step(&s, &ev, now_ns);
        tt_assert(s.ncame <= s.nranks && s.nranks <= 1u << 20);
        r.at += said;
        if (s.nranks > 4096)
            break;      /* valid, and slow */
    }
    tt_rdv_server_fini(&s);
}

static void on_member_act(void *context, const struct tt_rdv_act *act)
{
    (void)context;
    tt_assert(act->kind == TT_RDV_ACT_SEND &&
              act->bytes <= TT_FRAME_HEADER_BYTES + TT_RDV_HELLO_BYTES);
}

static void feed_member(struct tt_rdv_member *m, uint8_t type, const uint8_t *body, size_t bytes)
{
    const struct tt_rdv_event ev = { .kind = TT_RDV_EV_FRAME,
                                     .frame = { .type = type, .body = body, .bytes = bytes } };

    tt_rdv_member_step(m, &ev, 2);
}

static void check_member(const struct tt_rdv_member *m, uint32_t nranks)
{
    struct tt_reader r = m->cards;

    if (m->state == TT_RDV_MEMBER_REFUSED)
        tt_assert(strlen(m->sentence) < sizeof m->sentence && m->status > TUTTI_PENDING &&
                  m->status < TUTTI_STATUS_COUNT);
    if (m->state != TT_RDV_HAVE_TABLE)
        return;
    for (uint32_t i = 0; i < nranks; i++) {
        const uint16_t bytes = tt_read_u16(&r);

        tt_assert(bytes <= TT_RDV_CARD_BYTES && bytes <= (size_t)(r.end - r.at));
        r.at += bytes;
    }
    tt_assert(!r.bad && r.at == r.end);
}

/* The server has the token: {mac, masked secret, table}, where the table is the input. */
static size_t prove_table(const struct tt_rdv_member *m, uint8_t *body, const uint8_t *table,
                          size_t bytes)
{
    uint8_t said[2 * TT_NONCE_BYTES + TT_SECRET_BYTES + TT_MAC_BYTES] = { 0 };

    memcpy(said, m->server_nonce, TT_NONCE_BYTES);
    memcpy(said + TT_NONCE_BYTES, m->member_nonce, TT_NONCE_BYTES);
    tt_digest(said + 2 * TT_NONCE_BYTES + TT_SECRET_BYTES, table, bytes);
    tt_mac(body, TOKEN, strlen(TOKEN), "tutti rendezvous table", said, sizeof said);
    memset(body + TT_MAC_BYTES, 0, TT_SECRET_BYTES);
    memcpy(body + TT_MAC_BYTES + TT_SECRET_BYTES, table, bytes);
    return TT_MAC_BYTES + TT_SECRET_BYTES + bytes;
}

static void attack_member(const uint8_t *data, size_t bytes, bool knows_token)
{
    static const uint8_t challenge[2 + 2 * TT_NONCE_BYTES] = { TT_RDV_VERSION };
    const struct tt_rdv_event open = { .kind = TT_RDV_EV_OPEN };
    const uint32_t nranks = 3;
    uint8_t body[8192];
    struct tt_rdv_member m;
    struct tt_framer in;
    struct tt_frame f;

    tt_rdv_member_init(&m, TOKEN, 1, nranks, 9, "card", 4, 1, TT_SECOND);
    m.emit = on_member_act;
    tt_rdv_member_step(&m, &open, 1);
    if (knows_token && bytes < sizeof body - 64) {
        feed_member(&m, TT_RDV_CHALLENGE, challenge, sizeof challenge);
        feed_member(&m, TT_RDV_TABLE, body, prove_table(&m, body, data, bytes));
        check_member(&m, nranks);
        return;
    }
    tt_framer_init(&in, tt_rdv_table_bytes_max(nranks));
    while (bytes > 0 && !in.bad) {
        size_t room;
        uint8_t *at = tt_framer_space(&in, &room);
        const size_t n = bytes < room ? bytes : room;

        memcpy(at, data, n);
        tt_framer_added(&in, n);
        data += n;
        bytes -= n;
        while (m.state < TT_RDV_HAVE_TABLE && tt_framer_next(&in, &f))
            feed_member(&m, f.type, f.body, f.bytes);
        check_member(&m, nranks);
        if (m.state >= TT_RDV_HAVE_TABLE)
            break;
    }
    tt_framer_fini(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (data[0] % 4 < 2)
        attack_server(data + 1, bytes - 1);
    else
        attack_member(data + 1, bytes - 1, data[0] % 4 == 2);
    return 0;
}
