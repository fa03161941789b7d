/* A node of the start-up tree: its children. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "boot/tree_state.h"

#define NRANKS_MAX (1u << 20)
#define UNDONE_NS (5 * TT_SECOND)
#define NO_TIMEOUT UINT32_MAX
#define GONE_AT 20u                     /* position of `gone` in an encoded report */

struct join {
    uint8_t kind, flags;
    uint32_t rank, nranks, leader, avoid, tag, waited_ms, left_ms;
    uint8_t settings_bytes;
    const uint8_t *settings;
    struct tt_tree_address address;
    uint16_t serve_port;
    uint8_t place_bytes;
    const uint8_t *place;
    const uint8_t *card;
    const uint8_t *constants;
    uint16_t card_bytes, constants_bytes;
    struct tt_tree_refusal refusal;
};

bool tt_tree_conn_is_unauthenticated(const struct tt_tree_conn *c, uint64_t now_ns, uint64_t age_ns)
{
    return c->stage == TT_TREE_STRANGER && now_ns - c->opened_ns >= age_ns;
}

void tt_tree_child_open(struct tt_tree *t, struct tt_tree_conn *c,
                        const uint8_t nonce[TT_NONCE_BYTES], uint64_t now_ns)
{
    uint8_t frame[TT_FRAME_HEADER_BYTES + 2 + 2 * TT_NONCE_BYTES];
    const struct tt_tree_act act = {
        .kind = TT_TREE_ACT_SEND, .conn = c, .data = frame, .bytes = sizeof frame
    };
    struct tt_writer w;

    *c = (struct tt_tree_conn){ .stage = TT_TREE_STRANGER,
                                .opened_ns = now_ns,
                                .body_max = TT_TREE_JOIN_BYTES };
    memcpy(c->server_nonce, nonce, TT_NONCE_BYTES);
    if (t->conf.refuses_late && t->state != TT_TREE_GATHERING) {
        tt_tree_close(t, c);
        return;
    }
    tt_frame_header(frame, TT_TREE_CHALLENGE, sizeof frame - TT_FRAME_HEADER_BYTES);
    tt_writer_init(&w, frame + TT_FRAME_HEADER_BYTES, sizeof frame - TT_FRAME_HEADER_BYTES);
    tt_write_u16(&w, TT_TREE_VERSION);
    tt_write_bytes(&w, nonce, TT_NONCE_BYTES);
    tt_write_bytes(&w, t->conf.gathering, TT_NONCE_BYTES);
    t->emit(t->context, &act);
}

void tt_tree_sweep(struct tt_tree *t)
{
    struct tt_tree_conn **at = &t->children;

    if (!t->children_ended)
        return;
    t->children_ended = false;
    while (*at)
        if ((*at)->stage == TT_TREE_ENDED)
            *at = (*at)->next;
        else
            at = &(*at)->next;
}

/* ---- frames ---- */

static struct tt_tree_conn *for_caller(struct tt_tree *t, struct tt_tree_conn *c)
{
    return c == &t->up ? NULL : c;
}

struct tt_tree_proof tt_tree_proof_of(const struct tt_tree *t, const struct tt_tree_conn *c,
                                      bool sends, uint8_t type)
{
    return (struct tt_tree_proof){ .token = t->conf.token,
                                   .server_nonce = c->server_nonce,
                                   .client_nonce = c->client_nonce,
                                   .up = (c == &t->up) == sends,
                                   .number = sends ? c->nsent : c->nreceived,
                                   .type = type };
}

void tt_tree_send(struct tt_tree *t, struct tt_tree_conn *c, uint8_t type, const void *said,
                  size_t bytes)
{
    const struct tt_tree_proof p = tt_tree_proof_of(t, c, true, type);
    struct tt_tree_act act = { .kind = TT_TREE_ACT_SEND,
                               .conn = for_caller(t, c),
                               .shares = type == TT_TREE_DOWN && tt_tree_shares_with(t, c) };
    uint8_t *frame = malloc(TT_FRAME_HEADER_BYTES + TT_MAC_BYTES + bytes);

    if (!frame) {
        tt_tree_close(t, c);
        return;
    }
    tt_frame_header(frame, type, TT_MAC_BYTES + bytes);
    tt_tree_prove(frame + TT_FRAME_HEADER_BYTES, &p, said, bytes);
    if (bytes)
        memcpy(frame + TT_FRAME_HEADER_BYTES + TT_MAC_BYTES, said, bytes);
    c->nsent++;
    act.data = frame;
    act.bytes = TT_FRAME_HEADER_BYTES + TT_MAC_BYTES + bytes;
    t->emit(t->context, &act);
    free(frame);
}

bool tt_tree_check(const struct tt_tree *t, struct tt_tree_conn *c, const struct tt_frame *f,
                   struct tt_reader *said)
{
    const struct tt_tree_proof p = tt_tree_proof_of(t, c, false, f->type);
    uint8_t expected[TT_MAC_BYTES];

    if (f->bytes < TT_MAC_BYTES)
        return false;
    tt_tree_prove(expected, &p, f->body + TT_MAC_BYTES, f->bytes - TT_MAC_BYTES);
    tt_reader_init(said, f->body + TT_MAC_BYTES, f->bytes - TT_MAC_BYTES);
    c->nreceived++;
    return tt_mac_equal(expected, f->body);
}

void tt_tree_close(struct tt_tree *t, struct tt_tree_conn *c)
{
    const struct tt_tree_act act = { .kind = TT_TREE_ACT_CLOSE, .conn = for_caller(t, c) };

    if (c == &t->up)
        t->up_stage = TT_TREE_UP_NONE;
    else
        tt_tree_child_lost(t, c);
    t->emit(t->context, &act);
}

bool tt_tree_reports(const struct tt_tree *t)
{
    return !t->conf.root && (t->alone || t->conf.leader == t->conf.rank);
}

void tt_tree_wait_for(struct tt_tree *t, bool *undone)
{
    if (t->conf.refuses_late)       /* it cannot reconnect */
        return;
    t->nundone += !*undone;
    *undone = true;
    t->undone_ns = t->now_ns + UNDONE_NS;
}

/* The lost part has reconnected. */
static void came_back(struct tt_tree *t, bool *undone)
{
    t->nundone -= *undone && t->nundone > 0;
    *undone = false;
}

/* ---- refusals ---- */

static size_t write_refusal(struct tt_writer *w, tutti_status status, const char *sentence)
{
    tt_write_u8(w, (uint8_t)status);
    tt_write_string(w, sentence);
    tt_assert(!w->bad);
    return tt_writer_bytes(w);
}

void tt_tree_refuse(struct tt_tree *t, struct tt_tree_conn *c, tutti_status status,
                    const char *sentence, uint8_t scope)
{
    uint8_t said[4 + TT_TREE_SENTENCE_BYTES];
    struct tt_writer w;
    size_t bytes;

    tt_writer_init(&w, said, sizeof said);
    tt_write_u8(&w, scope);
    bytes = write_refusal(&w, status, sentence);
    tt_tree_send(t, c, TT_TREE_REFUSED, said, bytes);
    if (c->stage != TT_TREE_ENDED)
        tt_tree_close(t, c);
}

/* Refuses one rank while the start-up continues; the root keeps the cause for its report. */
static void refuse_rank(struct tt_tree *t, struct tt_tree_conn *c, tutti_status status,
                        const char *sentence)
{
    tt_tree_note_refusal(t, sentence);
    tt_tree_refuse(t, c, status, sentence, TT_TREE_OF_RANK);
}

static void send_reject(struct tt_tree *t, struct tt_tree_conn *c, uint32_t reporter, uint32_t rank,
                        tutti_status status, const char *sentence)
{
    uint8_t said[12 + TT_TREE_SENTENCE_BYTES];
    struct tt_writer w;
    size_t bytes;

    tt_writer_init(&w, said, sizeof said);
    tt_write_u32(&w, reporter);
    tt_write_u32(&w, rank);
    bytes = write_refusal(&w, status, sentence);
    tt_tree_send(t, c, TT_TREE_REJECT, said, bytes);
}

static struct tt_tree_conn *find_child(const struct tt_tree *t, uint8_t kind, uint32_t rank)
{
    struct tt_tree_conn *c = t->children;

    while (c && !(c->stage == TT_TREE_CHILD && c->kind == kind && c->rank == rank))
        c = c->next;
    return c;
}

void tt_tree_reject(struct tt_tree *t, uint32_t reporter, uint32_t rank, tutti_status status,
                    const char *sentence)
{
    const struct tt_tree_report *report = tt_sparse_get(&t->reports, reporter);
    struct tt_tree_conn *c;

    if (t->conf.root || reporter != t->conf.rank) {
        if (report && report->nclaims > 0)
            send_reject(t, report->claims[report->nclaims - 1], reporter, rank, status, sentence);
        return;
    }
    c = find_child(t, TT_TREE_LOCAL, rank);
    if (c)
        refuse_rank(t, c, status, sentence);
}

/* ---- loss of a child ---- */

static void drop_claim(struct tt_tree_report *report, const struct tt_tree_conn *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < report->nclaims; i++)
        if (report->claims[i] != c)
            report->claims[n++] = report->claims[i];
    report->nclaims = n;
}

/* Appends a claim. Above the maximum, the oldest one is dropped. */
static void add_claim(struct tt_tree_report *report, struct tt_tree_conn *c)
{
    drop_claim(report, c);
    if (report->nclaims == TT_TREE_CLAIMS)
        drop_claim(report, report->claims[0]);
    report->claims[report->nclaims++] = c;
}

/* No child claims this report any more; `done`: its ranks have their places. */
static void report_gone(struct tt_tree *t, struct tt_tree_report *report, bool done)
{
    if (report->gone)
        return;
    if (t->state == TT_TREE_PLACED && !done)
        tt_tree_wait_for(t, &report->undone);
    if (t->ranks && t->state == TT_TREE_GATHERING)
        tt_tree_root_remove(t, report);
    if (t->state != TT_TREE_GATHERING)
        return;
    report->gone = report->changed = true;
    report->encoded[GONE_AT] |= 1;
    t->pending = true;
}

void tt_tree_child_lost(struct tt_tree *t, struct tt_tree_conn *c)
{
    const bool child = c->stage == TT_TREE_CHILD;
    struct tt_tree_report *report;
    struct tt_tree_seat *seat;
    uint32_t at = 0;

    c->stage = TT_TREE_ENDED;
    if (!child)
        return;
    t->children_ended = true;
    if (c->kind == TT_TREE_LOCAL) {
        seat = tt_tree_find_seat(t, c->rank);
        if (seat)
            seat->live = false;
        if (seat && t->state == TT_TREE_PLACED && !c->done)
            tt_tree_wait_for(t, &seat->undone);
        t->host_changed = true;
        return;
    }
    t->nleaders--;
    while ((report = tt_sparse_next(&t->reports, &at)))
        if (tt_tree_has_claim(report, c)) {
            drop_claim(report, c);
            if (report->nclaims == 0)
                report_gone(t, report, c->done);
        }
}

/* ---- places ---- */

/* Sends the place to a child, if its ranks are known. */
static void send_down(struct tt_tree *t, struct tt_tree_conn *c)
{
    uint8_t *said;
    size_t bytes;

    if (c->kind == TT_TREE_LEADER && !tt_tree_has_place(t, c))
        return;
    said = tt_tree_encode_place(t, c, &bytes);
    if (!said)
        tt_tree_close(t, c);
    else if (bytes > 0)
        tt_tree_send(t, c, TT_TREE_DOWN, said, bytes);
    free(said);
}

/* Returns whether the place of this leader was sent to its previous server: the report over the new
 * path did not reach the root in time. */
static bool is_misplaced(const struct tt_tree *t, const struct tt_tree_conn *c)
{
    const struct tt_tree_report *report = tt_sparse_get(&t->reports, c->rank);

    return !t->conf.root && c->kind == TT_TREE_LEADER && report && tt_tree_has_claim(report, c) &&
           !tt_tree_has_place(t, c);
}

void tt_tree_distribute(struct tt_tree *t)
{
    for (struct tt_tree_conn *c = t->children; c; c = c->next) {
        if (c->stage != TT_TREE_CHILD)
            continue;
        if (is_misplaced(t, c))
            tt_tree_close(t, c);        /* it connects to the root */
        else
            send_down(t, c);
    }
}

/* ---- JOIN ---- */

static bool read_join(struct tt_reader *r, struct join *out)
{
    out->kind = tt_read_u8(r);
    out->flags = tt_read_u8(r);
    out->rank = tt_read_u32(r);
    out->nranks = tt_read_u32(r);
    out->leader = tt_read_u32(r);
    out->avoid = tt_read_u32(r);
    out->tag = tt_read_u32(r);
    out->waited_ms = tt_read_u32(r);
    out->left_ms = tt_read_u32(r);
    out->settings_bytes = tt_read_u8(r);
    out->settings = tt_reader_take(r, out->settings_bytes);
    tt_tree_read_address(r, &out->address);
    out->serve_port = out->flags & TT_TREE_JOIN_SERVES ? tt_read_u16(r) : 0;
    out->place = NULL;
    out->place_bytes = 0;
    if (out->flags & TT_TREE_JOIN_PLACE) {
        out->place_bytes = tt_read_u8(r);
        out->place = tt_reader_take(r, out->place_bytes);
    }
    out->card = NULL;
    out->card_bytes = 0;
    if (out->flags & TT_TREE_JOIN_CARD) {
        out->card_bytes = tt_read_u16(r);
        out->card = tt_reader_take(r, out->card_bytes);
    }
    out->refusal = (struct tt_tree_refusal){ .status = TUTTI_OK };
    if (out->flags & TT_TREE_JOIN_REFUSES)
        tt_tree_read_refusal(r, &out->refusal);
    out->constants = NULL;
    out->constants_bytes = 0;
    if (out->flags & TT_TREE_JOIN_CONSTANTS) {
        out->constants_bytes = tt_read_u16(r);
        out->constants = tt_reader_take(r, out->constants_bytes);
    }
    return !r->bad && out->card_bytes <= TT_TREE_CARD_MAX && r->at == r->end &&
           out->kind <= TT_TREE_LEADER &&
           out->flags <= (TT_TREE_JOIN_SERVES | TT_TREE_JOIN_CARD | TT_TREE_JOIN_REFUSES |
                          TT_TREE_JOIN_CONSTANTS | TT_TREE_JOIN_PLACE) &&
           out->place_bytes <= TT_TREE_PLACE_MAX && out->constants_bytes <= TT_TREE_CONSTANTS_MAX &&
           out->nranks > 0 && out->nranks <= NRANKS_MAX && out->rank < out->nranks &&
           out->leader < out->nranks;
}

/* Verifies and parses a JOIN. A wrong proof gets a response, so that a misspelt token is
 * reported. */
static bool child_authenticate(struct tt_tree *t, struct tt_tree_conn *c, const struct tt_frame *f,
                               struct join *out)
{
    struct tt_frame rest = *f;
    struct tt_reader r;

    if (f->type != TT_TREE_JOIN || f->bytes < TT_NONCE_BYTES + TT_MAC_BYTES ||
        f->bytes > TT_TREE_JOIN_BYTES) {
        tt_tree_close(t, c);
        return false;
    }
    memcpy(c->client_nonce, f->body, TT_NONCE_BYTES);
    rest.body += TT_NONCE_BYTES;
    rest.bytes -= TT_NONCE_BYTES;
    if (!tt_tree_check(t, c, &rest, &r)) {
        refuse_rank(t, c, TUTTI_ERR_INVALID, "wrong token");
        return false;
    }
    if (!read_join(&r, out)) {
        refuse_rank(t, c, TUTTI_ERR_PROTOCOL, "protocol error: invalid join message");
        return false;
    }
    return true;
}

static bool tree_agree_nranks(struct tt_tree *t, struct tt_tree_conn *c, const struct join *j)
{
    char sentence[128];

    if (t->conf.nranks != 0 && t->conf.nranks != j->nranks) {
        snprintf(sentence, sizeof sentence,
                 "rank %" PRIu32 " expects %" PRIu32 " rank%s, but the job has %" PRIu32, j->rank,
                 j->nranks, TT_PLURAL(j->nranks), t->conf.nranks);
        refuse_rank(t, c, TUTTI_ERR_INVALID, sentence);
        return false;
    }
    if (t->conf.root && !t->ranks && !tt_tree_root_begin(t, j->nranks)) {
        refuse_rank(t, c, TUTTI_ERR_NOMEM,
                    "out of memory in the rendezvous server for the table of all ranks");
        return false;
    }
    return true;
}

static void tree_agree_deadline(struct tt_tree *t, uint32_t waited_ms, uint32_t left_ms,
                                uint64_t now_ns)
{
    const uint64_t waited_ns = waited_ms * TT_MS;
    const uint64_t deadline_ns = left_ms == NO_TIMEOUT ? TT_NEVER : now_ns + left_ms * TT_MS;

    if (deadline_ns >= t->deadline_ns)
        return;
    t->deadline_ns = deadline_ns;
    t->began_ns = now_ns > waited_ns ? now_ns - waited_ns : 0;
    t->pending = true;
}

static void accept_child(struct tt_tree *t, struct tt_tree_conn *c, const struct join *j)
{
    c->stage = TT_TREE_CHILD;
    c->kind = j->kind;
    c->rank = j->rank;
    c->serve_port = j->address.bytes > 0 ? j->serve_port : 0;
    c->address = j->address;
    c->body_max =
        j->kind == TT_TREE_LEADER ? tt_tree_up_bytes_max(t->conf.nranks) : TT_TREE_JOIN_BYTES;
    c->next = t->children;
    t->children = c;
    t->nleaders += j->kind == TT_TREE_LEADER;
    tt_tree_send(t, c, TT_TREE_WELCOME, NULL, 0);
}

void tt_tree_seat_fini(struct tt_tree_seat *seat)
{
    free((void *)seat->card);
    free((void *)seat->constants);
    free((void *)seat->cause);
    seat->card = seat->constants = NULL;
    seat->cause = NULL;
}

/* Copies data[bytes]; NULL stays NULL. Returns false if out of memory. */
static bool copy_bytes(const uint8_t **out, const void *data, size_t bytes)
{
    uint8_t *copy = data ? malloc(bytes ? bytes : 1) : NULL;

    if (copy && bytes)
        memcpy(copy, data, bytes);
    *out = copy;
    return copy || !data;
}

/* Copies *seat and all that it refers to. *out need not be initialized. */
static bool seat_copy(struct tt_tree_seat *out, const struct tt_tree_seat *seat)
{
    *out = *seat;
    out->card = out->constants = NULL;
    out->cause = seat->cause ? strdup(seat->cause) : NULL;
    out->live = true;
    if ((seat->cause && !out->cause) || !copy_bytes(&out->card, seat->card, seat->card_bytes) ||
        !copy_bytes(&out->constants, seat->constants, seat->constants_bytes)) {
        tt_tree_seat_fini(out);
        return false;
    }
    return true;
}

bool tt_tree_take_seat(struct tt_tree *t, const struct tt_tree_seat *seat)
{
    struct tt_tree_seat *at = tt_tree_find_seat(t, seat->rank), copy;

    if (!at && t->nseats == t->seats_cap) {
        const uint32_t cap = t->seats_cap ? 2 * t->seats_cap : 8;
        struct tt_tree_seat *seats = realloc(t->seats, cap * sizeof *seats);

        if (!seats)
            return false;
        t->seats = seats;
        t->seats_cap = cap;
    }
    if (!seat_copy(&copy, seat))
        return false;
    if (at)
        tt_tree_seat_fini(at);
    else
        at = &t->seats[t->nseats++];
    *at = copy;
    return true;
}

static void join_local(struct tt_tree *t, struct tt_tree_conn *c, const struct join *j)
{
    struct tt_tree_seat seat = { .rank = j->rank,
                                 .tag = j->tag,
                                 .address = j->address,
                                 .settings_bytes = j->settings_bytes,
                                 .status = j->refusal.status,
                                 .place_bytes = j->place_bytes,
                                 .card_bytes = j->card_bytes,
                                 .constants_bytes = j->constants_bytes,
                                 .card = j->card,
                                 .constants = j->constants,
                                 .cause = j->refusal.status ? j->refusal.cause : NULL };
    struct tt_tree_seat *old = tt_tree_find_seat(t, j->rank);
    struct tt_tree_conn *earlier = find_child(t, TT_TREE_LOCAL, j->rank);
    char sentence[128];

    if (!tt_tree_reports(t) || j->leader != t->conf.leader) {
        refuse_rank(t, c, TUTTI_ERR_PROTOCOL,
                    "protocol error: this rank is not the first of the host");
        return;
    }
    if (j->rank == t->conf.rank || (old && old->live && old->tag != j->tag)) {
        snprintf(sentence, sizeof sentence,
                 "rank %" PRIu32 " joined twice: two processes have this rank", j->rank);
        refuse_rank(t, c, TUTTI_ERR_INVALID, sentence);
        return;
    }
    if (earlier)
        tt_tree_close(t, earlier);
    memcpy(seat.settings, j->settings, j->settings_bytes);
    if (j->place_bytes)
        memcpy(seat.place, j->place, j->place_bytes);
    if (old)
        came_back(t, &old->undone);
    if (!tt_tree_take_seat(t, &seat)) {
        refuse_rank(t, c, TUTTI_ERR_NOMEM, "out of memory in the first rank of this host");
        return;
    }
    t->host_changed = true;
    accept_child(t, c, j);
    if (t->state == TT_TREE_PLACED && c->stage == TT_TREE_CHILD)
        send_down(t, c);
}

/* Returns the server with the fewest redirections, or NULL. */
static struct tt_tree_conn *choose_server(const struct tt_tree *t, const struct join *j)
{
    struct tt_tree_conn *best = NULL;

    for (struct tt_tree_conn *c = t->children; c; c = c->next)
        if (c->stage == TT_TREE_CHILD && c->kind == TT_TREE_LEADER && c->serve_port &&
            c->rank != j->rank && (!best || c->nredirected < best->nredirected))
            best = c;
    return best;
}

static void child_redirect(struct tt_tree *t, struct tt_tree_conn *c, struct tt_tree_conn *server)
{
    uint8_t said[4 + 1 + TT_ENDPOINT_BYTES + 2];
    struct tt_writer w;

    server->nredirected++;
    tt_writer_init(&w, said, sizeof said);
    tt_write_u32(&w, server->rank);
    tt_tree_write_address(&w, &server->address);
    tt_write_u16(&w, server->serve_port);
    tt_tree_send(t, c, TT_TREE_REDIRECT, said, tt_writer_bytes(&w));
    if (c->stage != TT_TREE_ENDED)
        tt_tree_close(t, c);
}

static void join_leader(struct tt_tree *t, struct tt_tree_conn *c, const struct join *j)
{
    struct tt_tree_conn *server = NULL;

    if (!t->conf.root && (!tt_tree_reports(t) || j->rank == t->conf.rank)) {
        refuse_rank(t, c, TUTTI_ERR_PROTOCOL, "protocol error: this rank serves no other hosts");
        return;
    }
    /* a leader that could not reach a server stays here: it may not reach any other, either */
    if (t->nleaders >= t->conf.children_max && t->state == TT_TREE_GATHERING &&
        j->avoid == TT_TREE_NONE)
        server = choose_server(t, j);
    if (server)
        child_redirect(t, c, server);
    else
        accept_child(t, c, j);
}

static void child_join(struct tt_tree *t, struct tt_tree_conn *c, const struct tt_frame *f,
                       uint64_t now_ns)
{
    struct join j;

    if (!child_authenticate(t, c, f, &j) || !tree_agree_nranks(t, c, &j))
        return;
    if (t->state == TT_TREE_FAILED && !t->job_failed) {
        tt_tree_close(t, c);
        return;
    }
    if (t->state == TT_TREE_FAILED) {
        tt_tree_refuse(t, c, t->status, t->sentence ? t->sentence : "start-up failed",
                       TT_TREE_OF_JOB);
        return;
    }
    tree_agree_deadline(t, j.waited_ms, j.left_ms, now_ns);
    if (j.kind == TT_TREE_LOCAL)
        join_local(t, c, &j);
    else
        join_leader(t, c, &j);
}

/* ---- UP ---- */

/* Returns whether all runs are valid and in order. */
static bool check_report(struct tt_reader r, uint32_t nranks,
                         const struct tt_tree_report_head *head)
{
    struct tt_tree_run run;
    uint64_t end = 0;

    for (uint32_t i = 0; i < head->nruns && !r.bad; i++) {
        tt_tree_read_run(&r, nranks, head, &run);
        if (run.first < end)
            return false;
        end = (uint64_t)run.first + run.count;
    }
    return !r.bad && r.at == r.end;
}

/* Replaces the stored report of this reporter. Returns false if out of memory. */
static bool store_report(struct tt_tree *t, struct tt_tree_conn *c,
                         const struct tt_tree_report_head *head, const uint8_t *encoded,
                         size_t bytes)
{
    struct tt_tree_report *report = tt_sparse_get(&t->reports, head->reporter);
    uint8_t *copy = malloc(bytes);

    if (!report && copy) {
        report = calloc(1, sizeof *report);
        if (report && !tt_sparse_set(&t->reports, head->reporter, report)) {
            free(report);
            report = NULL;
        }
    }
    if (!report || !copy) {
        free(copy);
        return false;
    }
    memcpy(copy, encoded, bytes);
    if (t->ranks && report->encoded && !report->gone)
        tt_tree_root_remove(t, report);
    free(report->encoded);
    if (report->gone)
        report->nclaims = 0;
    report->reporter = head->reporter;
    report->generation = head->generation;
    report->process = head->process;
    report->gone = false;
    report->changed = true;
    report->encoded = copy;
    report->bytes = bytes;
    add_claim(report, c);
    t->pending = true;
    if (t->ranks)
        tt_tree_root_add(t, report, tt_tree_reject);
    return true;
}

/* Handles one report of a child. Returns false if the child must be disconnected. */
static bool take_report(struct tt_tree *t, struct tt_tree_conn *c, const uint8_t *encoded,
                        size_t bytes)
{
    struct tt_tree_report_head head;
    struct tt_tree_report *old;
    char sentence[128];
    struct tt_reader r;

    tt_reader_init(&r, encoded, bytes);
    tt_tree_read_report(&r, t->conf.nranks, &head);
    if (r.bad || !check_report(r, t->conf.nranks, &head) ||
        (!t->conf.root && head.reporter == t->conf.rank))      /* a cycle */
        return false;
    old = tt_sparse_get(&t->reports, head.reporter);
    if (head.gone) {
        if (old && tt_tree_has_claim(old, c) && old->process == head.process) {
            drop_claim(old, c);
            if (old->nclaims == 0)
                report_gone(t, old, true);
        }
        return true;
    }
    if (t->state != TT_TREE_GATHERING) {        /* it lost its connection before it had its place */
        const bool known = old && !old->gone && old->process == head.process &&
                           (t->conf.root || tt_sparse_get(&t->entries, head.reporter));

        if (!known && !t->conf.root)
            return false;       /* it connects to the root */
        if (!known) {
            refuse_rank(t, c, TUTTI_ERR_PEER_LOST,
                        "the first rank of this host was lost during the start-up of this rank");
            return true;
        }
        add_claim(old, c);
        came_back(t, &old->undone);
        return true;
    }
    if (old && !old->gone && old->process != head.process) {
        snprintf(sentence, sizeof sentence,
                 "rank %" PRIu32 " joined twice: two processes have this rank", head.reporter);
        send_reject(t, c, head.reporter, head.reporter, TUTTI_ERR_INVALID, sentence);
        return true;
    }
    if (old && !old->gone && head.generation <= old->generation) {
        add_claim(old, c);      /* the same report, or an older one, over another path */
        return true;
    }
    return store_report(t, c, &head, encoded, bytes);
}

static void handle_up(struct tt_tree *t, struct tt_tree_conn *c, struct tt_reader *r,
                      uint64_t now_ns)
{
    const uint32_t waited_ms = tt_read_u32(r), left_ms = tt_read_u32(r), n = tt_read_u32(r);

    tree_agree_deadline(t, waited_ms, left_ms, now_ns);
    for (uint32_t i = 0; i < n && c->stage == TT_TREE_CHILD; i++) {
        const uint32_t bytes = tt_read_u32(r);
        const uint8_t *encoded = tt_reader_take(r, bytes);

        if (r->bad || !take_report(t, c, encoded, bytes))
            tt_tree_close(t, c);
    }
    if (t->state == TT_TREE_PLACED && c->stage == TT_TREE_CHILD)
        send_down(t, c);
}

void tt_tree_child_frame(struct tt_tree *t, struct tt_tree_conn *c, const struct tt_frame *f,
                         uint64_t now_ns)
{
    struct tt_reader r;

    if (c->stage == TT_TREE_ENDED)
        return;
    if (c->stage == TT_TREE_STRANGER)
        child_join(t, c, f, now_ns);
    else if (!tt_tree_check(t, c, f, &r))
        tt_tree_close(t, c);
    else if (f->type == TT_TREE_UP && c->kind == TT_TREE_LEADER)
        handle_up(t, c, &r, now_ns);
    else if (f->type == TT_TREE_DONE && t->state == TT_TREE_PLACED)
        c->done = true;
    else
        tt_tree_close(t, c);
}
