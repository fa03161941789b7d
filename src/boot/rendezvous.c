/* The server of the rendezvous. */
#include "boot/rendezvous.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "boot/rdv_proof.h"

#define NRANKS_MAX (1u << 20)
#define CHALLENGE_BYTES (2 + 2 * TT_NONCE_BYTES)
#define TABLE_HEAD_BYTES (TT_MAC_BYTES + TT_SECRET_BYTES)

enum conn_stage { CONN_STRANGER, CONN_MEMBER, CONN_ENDED };

/* A rank at the server. */
struct tt_rdv_seat {
    struct tt_rdv_conn *conn;   /* NULL: not connected */
    uint64_t process;
    uint8_t *card;
    uint16_t card_bytes;
    bool left;                  /* it was connected, and left */
};

struct hello {
    uint32_t rank, nranks;
    uint64_t process;
    uint32_t waited_ms, left_ms;
    const uint8_t *card;
    uint16_t card_bytes;
};

size_t tt_rdv_table_bytes_max(uint32_t nranks)
{
    const size_t table = TABLE_HEAD_BYTES + 4 + (size_t)nranks * (2 + TT_RDV_CARD_BYTES);
    const size_t refusal = TT_MAC_BYTES + 1 + 2 + TT_RDV_MESSAGE_BYTES;

    return table > refusal ? table : refusal;
}

void tt_rdv_name_ranks(char *out, size_t cap, uint32_t nranks,
                       bool (*missing)(const void *context, uint32_t rank), const void *context)
{
    const size_t tail = 24;     /* space for "and 1048576 more" */
    size_t n = 0;
    uint32_t more = 0;

    tt_assert(cap > 2 * tail);
    out[0] = '\0';
    for (uint32_t first = 0; first < nranks; first++) {
        uint32_t last = first;

        if (!missing(context, first))
            continue;
        while (last + 1 < nranks && missing(context, last + 1))
            last++;
        if (n + tail + tail > cap)
            more += last - first + 1;
        else if (last == first)
            n += (size_t)snprintf(out + n, cap - n, "%s%" PRIu32, n ? ", " : "", first);
        else
            n += (size_t)snprintf(out + n, cap - n, "%s%" PRIu32 "-%" PRIu32, n ? ", " : "", first,
                                  last);
        first = last;
    }
    if (more)
        snprintf(out + n, cap - n, " and %" PRIu32 " more", more);
}

static void server_emit(struct tt_rdv_server *s, uint8_t kind, struct tt_rdv_conn *conn,
                        const void *data, size_t bytes)
{
    const struct tt_rdv_act act = { .kind = kind, .conn = conn, .data = data, .bytes = bytes };

    s->emit(s->context, &act);
}

void tt_rdv_server_init(struct tt_rdv_server *s, const char *token,
                        const uint8_t secret[TT_SECRET_BYTES], uint32_t nranks, uint64_t began_ns,
                        uint64_t deadline_ns)
{
    tt_assert(nranks <= NRANKS_MAX);
    *s = (struct tt_rdv_server){ .nranks = nranks,
                                 .began_ns = began_ns,
                                 .deadline_ns = deadline_ns };
    snprintf(s->token, sizeof s->token, "%s", token);
    memcpy(s->secret, secret, TT_SECRET_BYTES);
}

void tt_rdv_server_fini(struct tt_rdv_server *s)
{
    for (uint32_t r = 0; s->seats && r < s->nranks; r++)
        free(s->seats[r].card);
    free(s->seats);
    free(s->table);
    s->seats = NULL;
    s->table = NULL;
}

bool tt_rdv_conn_is_unauthenticated(const struct tt_rdv_conn *c, uint64_t now_ns, uint64_t age_ns)
{
    return c->stage == CONN_STRANGER && now_ns - c->opened_ns >= age_ns;
}

static void server_close_conn(struct tt_rdv_server *s, struct tt_rdv_conn *c)
{
    c->stage = CONN_ENDED;
    server_emit(s, TT_RDV_ACT_CLOSE, c, NULL, 0);
}

static void open_conn(struct tt_rdv_server *s, struct tt_rdv_conn *c,
                      const uint8_t nonce[TT_NONCE_BYTES], uint64_t now_ns)
{
    uint8_t frame[TT_FRAME_HEADER_BYTES + CHALLENGE_BYTES], gathering[TT_MAC_BYTES];
    struct tt_writer w;

    *c = (struct tt_rdv_conn){ .stage = CONN_STRANGER, .opened_ns = now_ns };
    memcpy(c->server_nonce, nonce, TT_NONCE_BYTES);
    if (s->state != TT_RDV_GATHERING) {
        server_close_conn(s, c);      /* too late: its gathering starts after this one, or this one has failed */
        return;
    }
    tt_mac(gathering, s->secret, sizeof s->secret, "tutti rendezvous gathering", "", 0);
    tt_frame_header(frame, TT_RDV_CHALLENGE, CHALLENGE_BYTES);
    tt_writer_init(&w, frame + TT_FRAME_HEADER_BYTES, sizeof frame - TT_FRAME_HEADER_BYTES);
    tt_write_u16(&w, TT_RDV_VERSION);
    tt_write_bytes(&w, nonce, TT_NONCE_BYTES);
    tt_write_bytes(&w, gathering, TT_NONCE_BYTES);
    server_emit(s, TT_RDV_ACT_SEND, c, frame, sizeof frame);
}

static void server_send_refusal(struct tt_rdv_server *s, struct tt_rdv_conn *c, tutti_status status,
                                const char *sentence)
{
    uint8_t frame[TT_FRAME_HEADER_BYTES + TT_MAC_BYTES + 1 + 2 + TT_RDV_MESSAGE_BYTES];
    uint8_t *body = frame + TT_FRAME_HEADER_BYTES, *said = body + TT_MAC_BYTES;
    struct tt_writer w;
    size_t bytes;

    tt_writer_init(&w, said, sizeof frame - TT_FRAME_HEADER_BYTES - TT_MAC_BYTES);
    tt_write_u8(&w, (uint8_t)status);
    tt_write_string(&w, sentence);
    tt_assert(!w.bad);
    bytes = tt_writer_bytes(&w);
    tt_rdv_prove(body, s->token, "tutti rendezvous refused", c->server_nonce, c->member_nonce, said,
                 bytes);
    tt_frame_header(frame, TT_RDV_REFUSED, TT_MAC_BYTES + bytes);
    server_emit(s, TT_RDV_ACT_SEND, c, frame, TT_FRAME_HEADER_BYTES + TT_MAC_BYTES + bytes);
    server_close_conn(s, c);
}

/* Refuses one connection while the gathering continues; keeps the reason for later reports. */
static void server_refuse(struct tt_rdv_server *s, struct tt_rdv_conn *c, tutti_status status,
                          const char *sentence)
{
    s->nrefused++;
    snprintf(s->refusal, sizeof s->refusal, "%s", sentence);
    server_send_refusal(s, c, status, sentence);
}

/* Parses the part of a HELLO after the proof. */
static bool read_hello(const uint8_t *said, size_t bytes, struct hello *out)
{
    struct tt_reader r;

    tt_reader_init(&r, said, bytes);
    out->rank = tt_read_u32(&r);
    out->nranks = tt_read_u32(&r);
    out->process = tt_read_u64(&r);
    out->waited_ms = tt_read_u32(&r);
    out->left_ms = tt_read_u32(&r);
    out->card_bytes = tt_read_u16(&r);
    out->card = r.at;
    return !r.bad && out->nranks > 0 && out->nranks <= NRANKS_MAX && out->rank < out->nranks &&
           out->card_bytes <= TT_RDV_CARD_BYTES && (size_t)(r.end - r.at) == out->card_bytes;
}

/* Verifies and parses a HELLO. A wrong proof gets a response, so that a misspelt token is
 * reported. */
static bool authenticate_hello(struct tt_rdv_server *s, struct tt_rdv_conn *c,
                               const struct tt_frame *f, struct hello *out)
{
    uint8_t expected[TT_MAC_BYTES];
    const uint8_t *proof = f->body + TT_NONCE_BYTES, *said = proof + TT_MAC_BYTES;

    if (f->type != TT_RDV_HELLO || f->bytes < TT_NONCE_BYTES + TT_MAC_BYTES ||
        f->bytes > TT_RDV_HELLO_BYTES) {
        server_close_conn(s, c);
        return false;
    }
    memcpy(c->member_nonce, f->body, TT_NONCE_BYTES);
    tt_rdv_prove(expected, s->token, "tutti rendezvous hello", c->server_nonce, c->member_nonce,
                 said, f->bytes - TT_NONCE_BYTES - TT_MAC_BYTES);
    if (!tt_mac_equal(expected, proof)) {
        server_refuse(s, c, TUTTI_ERR_INVALID, "wrong token");
        return false;
    }
    if (!read_hello(said, f->bytes - TT_NONCE_BYTES - TT_MAC_BYTES, out)) {
        server_refuse(s, c, TUTTI_ERR_PROTOCOL, "protocol error: invalid hello");
        return false;
    }
    return true;
}

/* Checks the number of ranks; the first member sets it if it is unknown. */
static bool agree_nranks(struct tt_rdv_server *s, struct tt_rdv_conn *c, const struct hello *h)
{
    char sentence[TT_RDV_REFUSAL_BYTES];

    if (s->nranks != 0 && s->nranks != h->nranks) {
        snprintf(sentence, sizeof sentence,
                 "rank %" PRIu32 " expects %" PRIu32 " rank%s, but the job has %" PRIu32, h->rank,
                 h->nranks, TT_PLURAL(h->nranks), s->nranks);
        server_refuse(s, c, TUTTI_ERR_INVALID, sentence);
        return false;
    }
    if (!s->seats)
        s->seats = calloc(h->nranks, sizeof *s->seats);
    if (!s->seats) {
        server_refuse(
            s, c, TUTTI_ERR_NOMEM,
            "out of memory in the rendezvous server for the address records of all ranks");
        return false;
    }
    s->nranks = h->nranks;
    return true;
}

/* Assigns the rank to the connection. If the same process connects again (its connection broke), it
 * replaces the earlier one. */
static bool server_join_rank(struct tt_rdv_server *s, struct tt_rdv_conn *c, const struct hello *h)
{
    struct tt_rdv_seat *seat = &s->seats[h->rank];
    char sentence[TT_RDV_REFUSAL_BYTES];
    uint8_t *card;

    if (seat->conn && seat->process != h->process) {
        snprintf(sentence, sizeof sentence,
                 "rank %" PRIu32 " joined twice: two processes have this rank", h->rank);
        server_refuse(s, c, TUTTI_ERR_INVALID, sentence);
        return false;
    }
    card = malloc(h->card_bytes ? h->card_bytes : 1);
    if (!card) {
        server_refuse(s, c, TUTTI_ERR_NOMEM,
                      "out of memory in the rendezvous server for another address record");
        return false;
    }
    if (seat->conn)
        server_close_conn(s, seat->conn);
    else
        s->ncame++;
    memcpy(card, h->card, h->card_bytes);
    free(seat->card);
    *seat = (struct tt_rdv_seat){
        .conn = c, .process = h->process, .card = card, .card_bytes = h->card_bytes
    };
    c->stage = CONN_MEMBER;
    c->rank = h->rank;
    return true;
}

/* The server's deadline is the earliest of the members' deadlines. */
static void agree_deadline(struct tt_rdv_server *s, const struct hello *h, uint64_t now_ns)
{
    const uint64_t waited_ns = h->waited_ms * TT_MS;
    const uint64_t deadline_ns =
        h->left_ms == TT_RDV_NO_TIMEOUT ? TT_NEVER : now_ns + h->left_ms * TT_MS;

    if (deadline_ns < s->deadline_ns) {
        s->deadline_ns = deadline_ns;
        s->began_ns = now_ns > waited_ns ? now_ns - waited_ns : 0;
    }
}

/* Calls `send_one` for every member, then closes its connection. */
static void server_send_all(struct tt_rdv_server *s,
                            void (*send_one)(struct tt_rdv_server *s, struct tt_rdv_conn *c,
                                             const void *what),
                            const void *what)
{
    for (uint32_t r = 0; s->seats && r < s->nranks; r++) {
        struct tt_rdv_conn *c = s->seats[r].conn;

        if (!c)
            continue;
        s->seats[r].conn = NULL;
        send_one(s, c, what);
    }
}

static void send_table(struct tt_rdv_server *s, struct tt_rdv_conn *c, const void *what)
{
    uint8_t frame[TT_FRAME_HEADER_BYTES + TABLE_HEAD_BYTES];
    uint8_t *proof = frame + TT_FRAME_HEADER_BYTES, *masked = proof + TT_MAC_BYTES;

    tt_frame_header(frame, TT_RDV_TABLE, TABLE_HEAD_BYTES + s->table_bytes);
    memcpy(masked, s->secret, TT_SECRET_BYTES);
    tt_rdv_mask(masked, s->token, c->server_nonce, c->member_nonce);
    tt_rdv_prove_table(proof, s->token, c->server_nonce, c->member_nonce, masked, what);
    server_emit(s, TT_RDV_ACT_SEND, c, frame, sizeof frame);
    server_emit(s, TT_RDV_ACT_SEND_TABLE, c, s->table, s->table_bytes);
    server_close_conn(s, c);
}

static void send_failure(struct tt_rdv_server *s, struct tt_rdv_conn *c, const void *what)
{
    server_send_refusal(s, c, s->state == TT_RDV_EXPIRED ? TUTTI_ERR_TIMEOUT : TUTTI_ERR_NOMEM,
                        what);
}

static void send_lost(struct tt_rdv_server *s, struct tt_rdv_conn *c, const void *what)
{
    server_send_refusal(s, c, TUTTI_ERR_PEER_LOST, what);
}

/* All ranks have joined: encodes the table once and sends it to all. */
static void server_complete(struct tt_rdv_server *s)
{
    uint8_t digest[TT_MAC_BYTES];
    struct tt_writer w;
    size_t bytes = 4;

    for (uint32_t r = 0; r < s->nranks; r++)
        bytes += 2u + s->seats[r].card_bytes;
    s->state = TT_RDV_COMPLETE;
    s->table = malloc(bytes);
    if (!s->table) {
        server_send_all(s, send_failure, "out of memory in the rendezvous server for the table");
        return;
    }
    s->table_bytes = bytes;
    tt_writer_init(&w, s->table, bytes);
    tt_write_u32(&w, s->nranks);
    for (uint32_t r = 0; r < s->nranks; r++) {
        tt_write_u16(&w, s->seats[r].card_bytes);
        tt_write_bytes(&w, s->seats[r].card, s->seats[r].card_bytes);
    }
    tt_assert(!w.bad && tt_writer_bytes(&w) == bytes);
    tt_digest(digest, s->table, bytes);
    server_send_all(s, send_table, digest);
}

static bool rank_is_missing(const void *context, uint32_t rank)
{
    const struct tt_rdv_server *s = context;

    return !s->seats || !s->seats[rank].conn;
}

static bool rank_has_left(const void *context, uint32_t rank)
{
    const struct tt_rdv_server *s = context;

    return s->seats && !s->seats[rank].conn && s->seats[rank].left;
}

/* The earliest deadline has passed: reports how many joined and which are missing. */
static void server_expire(struct tt_rdv_server *s, uint64_t now_ns)
{
    char sentence[TT_RDV_MESSAGE_BYTES], missing[120], left[120];
    const uint64_t waited_ms = (now_ns - s->began_ns) / TT_MS;

    tt_rdv_name_ranks(missing, sizeof missing, s->nranks, rank_is_missing, s);
    tt_rdv_name_ranks(left, sizeof left, s->nranks, rank_has_left, s);
    snprintf(sentence, sizeof sentence,
             "%" PRIu32 " of %" PRIu32 " ranks joined within %" PRIu64 ".%" PRIu64 " s; missing: %s%s%s%s%s%s",
             s->ncame, s->nranks, waited_ms / 1000, waited_ms % 1000 / 100, missing,
             *left ? " (joined, but left again: " : "", left, *left ? ")" : "",
             s->nrefused ? "; last refused process: " : "", s->refusal);
    s->state = TT_RDV_EXPIRED;
    server_send_all(s, send_failure, sentence);
}

bool tt_rdv_server_waits_for(const struct tt_rdv_server *s, uint32_t nranks, uint32_t rank)
{
    return s->state == TT_RDV_GATHERING && s->ncame > 0 && s->nranks == nranks && rank < nranks &&
           rank_is_missing(s, rank);
}

void tt_rdv_server_name_missing(const struct tt_rdv_server *s, char *out, size_t cap)
{
    tt_rdv_name_ranks(out, cap, s->nranks, rank_is_missing, s);
}

void tt_rdv_server_give_up(struct tt_rdv_server *s, const char *sentence)
{
    if (s->state != TT_RDV_GATHERING)
        return;
    s->state = TT_RDV_EXPIRED;
    server_send_all(s, send_lost, sentence);
}

static void close_conn(struct tt_rdv_server *s, struct tt_rdv_conn *c)
{
    if (c->stage == CONN_MEMBER) {
        s->seats[c->rank].conn = NULL;
        s->seats[c->rank].left = true;
        s->ncame--;
    }
    c->stage = CONN_ENDED;
}

void tt_rdv_server_step(struct tt_rdv_server *s, const struct tt_rdv_event *ev, uint64_t now_ns)
{
    struct tt_rdv_conn *c = ev->conn;
    struct hello h;

    switch ((enum tt_rdv_event_kind)ev->kind) {
    case TT_RDV_EV_OPEN:
        open_conn(s, c, ev->nonce, now_ns);
        break;
    case TT_RDV_EV_CLOSED:
        close_conn(s, c);
        break;
    case TT_RDV_EV_FRAME:
        if (c->stage == CONN_ENDED)
            break;
        if (c->stage == CONN_MEMBER) {      /* a member must not send anything after HELLO */
            close_conn(s, c);
            server_close_conn(s, c);
        } else if (s->state != TT_RDV_GATHERING) {
            server_close_conn(s, c);
        } else if (authenticate_hello(s, c, &ev->frame, &h) && agree_nranks(s, c, &h) &&
                   server_join_rank(s, c, &h)) {
            agree_deadline(s, &h, now_ns);
            if (s->ncame == s->nranks)
                server_complete(s);
        }
        break;
    case TT_RDV_EV_TICK:
        break;
    }
    if (s->state == TT_RDV_GATHERING && now_ns >= s->deadline_ns)
        server_expire(s, now_ns);
}
