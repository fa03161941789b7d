/* A node of the start-up tree: its parent, and its result. */
#include "boot/tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "boot/tree_state.h"

#define ATTEMPT_NS (5 * TT_SECOND)      /* from the connection attempt to WELCOME */
#define RETRY_FIRST_NS (5 * TT_MS)
#define RETRY_LAST_NS (500 * TT_MS)
#define LEADER_NS (3 * TT_SECOND)       /* then a rank without a leader reports itself */
#define FLUSH_MIN_NS (2 * TT_MS)        /* between two frames of reports: 1 / FLUSH_PART of the */
#define FLUSH_MAX_NS (100 * TT_MS)      /* time since joining, so their number is logarithmic */
#define FLUSH_PART 4
#define HOST_NS (500 * TT_MS)           /* time for the other ranks of a host to join */
#define OUTCOME_NS TT_SECOND            /* time for the root's error after the deadline */
#define UP_FRAME_BYTES (32u << 10)      /* reports are sent in frames of about this size */
#define NO_TIMEOUT UINT32_MAX

static const char ended[] = "the connection to the server ended";

static uint32_t process_tag(uint64_t process)
{
    return (uint32_t)tt_mix64(process);
}

/* ---- connection to the parent ---- */

static void up_connect(struct tt_tree *t, uint64_t now_ns)
{
    const struct tt_tree_act act = { .kind = TT_TREE_ACT_CONNECT,
                                     .where = t->where,
                                     .address = &t->up.address,
                                     .port = t->up.serve_port };

    t->up_stage = TT_TREE_UP_CONNECTING;
    t->attempt_ns = now_ns;
    t->emit(t->context, &act);
}

/* Schedules the next attempt after a random pause: 0.5 to 1.5 times the growing backoff. */
static void up_retry(struct tt_tree *t, uint64_t now_ns)
{
    const uint64_t pause_ns = t->backoff_ns / 2 + tt_prng_below(&t->prng, t->backoff_ns);

    t->up_stage = TT_TREE_UP_NONE;
    t->retry_ns = now_ns + pause_ns;
    t->backoff_ns = 2 * t->backoff_ns < RETRY_LAST_NS ? 2 * t->backoff_ns : RETRY_LAST_NS;
    if (t->where == TT_TREE_TO_SERVER) {
        t->avoid = t->up.rank;
        t->where = TT_TREE_TO_ROOT;
    }
    if (t->where == TT_TREE_TO_LEADER && now_ns >= t->leader_ns) {
        t->alone = true;
        t->host_changed = true;
        t->where = TT_TREE_TO_ROOT;
    }
}

static void up_lost(struct tt_tree *t, const char *why, uint64_t now_ns)
{
    if (t->up_stage > TT_TREE_UP_OPEN && t->where == TT_TREE_TO_LEADER)     /* it had responded */
        t->leader_ns = now_ns + LEADER_NS;
    if (!t->why || why != ended)
        t->why = why;
    up_retry(t, now_ns);
}

static void up_drop(struct tt_tree *t, const char *why, uint64_t now_ns)
{
    const struct tt_tree_act act = { .kind = TT_TREE_ACT_CLOSE };

    t->emit(t->context, &act);
    up_lost(t, why, now_ns);
}

static uint32_t tree_clamp_ms(uint64_t ns)
{
    return ns / TT_MS < NO_TIMEOUT ? (uint32_t)(ns / TT_MS) : NO_TIMEOUT - 1;
}

static void write_deadline(const struct tt_tree *t, struct tt_writer *w, uint64_t now_ns)
{
    const uint64_t left_ns = t->deadline_ns > now_ns ? t->deadline_ns - now_ns : 0;

    tt_write_u32(w, tree_clamp_ms(now_ns - t->began_ns));
    tt_write_u32(w, t->deadline_ns == TT_NEVER ? NO_TIMEOUT : tree_clamp_ms(left_ns));
}

static uint8_t settings_bytes(const struct tt_tree *t)
{
    return t->conf.settings ? (uint8_t)strnlen(t->conf.settings, TT_TREE_SETTINGS_MAX) : 0;
}

/* Returns whether JOIN contains the constants. A leader's report contains them instead. */
static bool sends_constants(const struct tt_tree *t)
{
    return t->where == TT_TREE_TO_LEADER && t->conf.constants_bytes > 0;
}

/* Returns the cause for which this rank cannot start, cut to the maximum, in out. */
static const char *cut_cause(const struct tt_tree *t, char out[TT_TREE_CAUSE_MAX + 1])
{
    snprintf(out, TT_TREE_CAUSE_MAX + 1, "%s", t->conf.cause ? t->conf.cause : "");
    return out;
}

/* JOIN has the child's nonce before the proof. */
static void send_join(struct tt_tree *t, uint64_t now_ns)
{
    uint8_t frame[TT_FRAME_HEADER_BYTES + TT_TREE_JOIN_BYTES];
    uint8_t *body = frame + TT_FRAME_HEADER_BYTES, *proof = body + TT_NONCE_BYTES,
            *said = proof + TT_MAC_BYTES;
    const struct tt_tree_proof p = tt_tree_proof_of(t, &t->up, true, TT_TREE_JOIN);
    char cause[TT_TREE_CAUSE_MAX + 1];
    struct tt_tree_act act = { .kind = TT_TREE_ACT_SEND, .data = frame };
    struct tt_writer w;
    size_t bytes;

    tt_writer_init(&w, said, TT_TREE_JOIN_BYTES - TT_NONCE_BYTES - TT_MAC_BYTES);
    tt_write_u8(&w, t->where == TT_TREE_TO_LEADER ? TT_TREE_LOCAL : TT_TREE_LEADER);
    tt_write_u8(&w, (uint8_t)((t->conf.serve_port ? TT_TREE_JOIN_SERVES : 0) |
                              (t->conf.card_bytes ? TT_TREE_JOIN_CARD : 0) |
                              (t->conf.refuses ? TT_TREE_JOIN_REFUSES : 0) |
                              (sends_constants(t) ? TT_TREE_JOIN_CONSTANTS : 0) |
                              (t->conf.place_bytes ? TT_TREE_JOIN_PLACE : 0)));
    tt_write_u32(&w, t->conf.rank);
    tt_write_u32(&w, t->conf.nranks);
    tt_write_u32(&w, t->conf.leader);
    tt_write_u32(&w, t->avoid);
    tt_write_u32(&w, process_tag(t->conf.process));
    write_deadline(t, &w, now_ns);
    tt_write_u8(&w, settings_bytes(t));
    tt_write_bytes(&w, t->conf.settings, settings_bytes(t));
    tt_tree_write_address(&w, &t->conf.address);
    if (t->conf.serve_port)
        tt_write_u16(&w, t->conf.serve_port);
    if (t->conf.place_bytes) {
        tt_write_u8(&w, t->conf.place_bytes);
        tt_write_bytes(&w, t->conf.place, t->conf.place_bytes);
    }
    if (t->conf.card_bytes) {
        tt_write_u16(&w, t->conf.card_bytes);
        tt_write_bytes(&w, t->conf.card, t->conf.card_bytes);
    }
    if (t->conf.refuses)
        tt_tree_write_refusal(&w, (uint8_t)t->conf.refuses, cut_cause(t, cause));
    if (sends_constants(t)) {
        tt_write_u16(&w, t->conf.constants_bytes);
        tt_write_bytes(&w, t->conf.constants, t->conf.constants_bytes);
    }
    tt_assert(!w.bad);
    bytes = tt_writer_bytes(&w);
    memcpy(body, t->up.client_nonce, TT_NONCE_BYTES);
    tt_tree_prove(proof, &p, said, bytes);
    act.bytes = TT_FRAME_HEADER_BYTES + TT_NONCE_BYTES + TT_MAC_BYTES + bytes;
    tt_frame_header(frame, TT_TREE_JOIN, act.bytes - TT_FRAME_HEADER_BYTES);
    t->up.nsent = 1;
    t->up_stage = TT_TREE_UP_JOINING;
    t->emit(t->context, &act);
}

/* ---- result ---- */

static void set_failed(struct tt_tree *t, tutti_status status, const char *sentence)
{
    t->state = TT_TREE_FAILED;
    t->status = status;
    t->sentence = strdup(sentence);
}

static void refuse_children(struct tt_tree *t, const char *sentence)
{
    for (struct tt_tree_conn *c = t->children; c; c = c->next)
        if (c->stage == TT_TREE_CHILD)
            tt_tree_refuse(t, c, t->status, sentence, TT_TREE_OF_JOB);
}

static void end_up(struct tt_tree *t)
{
    const struct tt_tree_act act = { .kind = TT_TREE_ACT_CLOSE };

    if (t->up_stage != TT_TREE_UP_NONE)
        t->emit(t->context, &act);
    t->up_stage = TT_TREE_UP_NONE;
}

static void fail_job(struct tt_tree *t, tutti_status status, const char *sentence)
{
    if (t->state != TT_TREE_GATHERING)
        return;
    t->job_failed = true;
    set_failed(t, status, sentence);
    refuse_children(t, sentence);
    end_up(t);
}

/* Fails only this rank. Its children are disconnected and join elsewhere. */
static void fail_rank(struct tt_tree *t, tutti_status status, const char *sentence)
{
    if (t->state != TT_TREE_GATHERING)
        return;
    set_failed(t, status, sentence);
    for (struct tt_tree_conn *c = t->children; c; c = c->next)
        if (c->stage == TT_TREE_CHILD)
            tt_tree_close(t, c);
    end_up(t);
}

void tt_tree_give_up(struct tt_tree *t, const char *sentence)
{
    fail_job(t, TUTTI_ERR_PEER_LOST, sentence);
}

static void node_fail_unreached(struct tt_tree *t, uint64_t now_ns)
{
    const uint64_t ms = (now_ns - t->began_ns) / TT_MS;
    char sentence[TT_TREE_SENTENCE_BYTES];

    snprintf(sentence, sizeof sentence,
             "rank %" PRIu32 ": no result from the rendezvous server within %" PRIu64 ".%" PRIu64
             " s (last error: %s)",
             t->conf.rank, ms / 1000, ms % 1000 / 100, t->why ? t->why : "no answer");
    t->unreached = true;
    fail_job(t, TUTTI_ERR_TIMEOUT, sentence);
}

/* Waits for ranks that have a place, but whose disconnection was not yet reported. */
static void wait_for_missing(struct tt_tree *t)
{
    struct tt_tree_report *report;
    uint32_t at = 0;

    for (uint32_t i = 0; i < t->nseats; i++)
        if (t->seats[i].rank != t->conf.rank && !t->seats[i].live)
            tt_tree_wait_for(t, &t->seats[i].undone);
    while ((report = tt_sparse_next(&t->reports, &at)))
        if (report->gone && tt_sparse_get(&t->entries, report->reporter)) {
            report->gone = false;
            tt_tree_wait_for(t, &report->undone);
        }
}

static void handle_down(struct tt_tree *t, const struct tt_reader *said)
{
    const size_t bytes = (size_t)(said->end - said->at);

    t->down = malloc(bytes ? bytes : 1);
    if (!t->down) {
        fail_rank(t, TUTTI_ERR_NOMEM, "out of memory for the layout of the job");
        return;
    }
    memcpy(t->down, said->at, bytes);
    t->down_bytes = bytes;
    if (!tt_tree_read_place(t)) {
        fail_rank(t, TUTTI_ERR_PROTOCOL, "protocol error: invalid layout from the server");
        return;
    }
    t->state = TT_TREE_PLACED;
    wait_for_missing(t);
    tt_tree_around(t, t->conf.rank, &t->place.before, &t->place.after);
    tt_tree_distribute(t);
}

/* ---- frames of the parent ---- */

/* Handles a wrong proof: the ends have different tokens. */
static void reject_token(struct tt_tree *t, const struct tt_frame *f, uint64_t now_ns)
{
    const char *why = f->type == TT_TREE_REFUSED ? "the server rejected this rank's token"
                                                 : "the server has a different token";

    if (t->conf.token_is_final && t->where != TT_TREE_TO_LEADER) {
        t->token_rejected = true;
        fail_rank(t, TUTTI_ERR_INVALID, why);
    } else {
        up_drop(t, why, now_ns);
    }
}

static void handle_challenge(struct tt_tree *t, const struct tt_frame *f, uint64_t now_ns)
{
    char sentence[128];
    struct tt_reader r;
    uint16_t version;

    tt_reader_init(&r, f->body, f->bytes);
    version = tt_read_u16(&r);
    tt_read_bytes(&r, t->up.server_nonce, TT_NONCE_BYTES);      /* the caller reads the rest */
    if (f->type != TT_TREE_CHALLENGE || r.bad) {
        up_drop(t, "protocol error: not a rendezvous server", now_ns);
    } else if (version != TT_TREE_VERSION) {
        snprintf(sentence, sizeof sentence,
                 "rendezvous protocol mismatch: the server has version %u, this rank has version "
                 "%u",
                 version, TT_TREE_VERSION);
        fail_rank(t, TUTTI_ERR_PROTOCOL, sentence);
    } else {
        send_join(t, now_ns);
    }
}

static void handle_welcome(struct tt_tree *t)
{
    const struct tt_tree_report *report;
    uint32_t at = 0;

    t->up_stage = TT_TREE_UP_JOINED;
    t->backoff_ns = RETRY_FIRST_NS;
    t->avoid = TT_TREE_NONE;
    t->why = NULL;
    t->host_changed = t->pending = true;
    t->flush_ns = 0;
    t->joined_ns = t->now_ns;
    while ((report = tt_sparse_next(&t->reports, &at)))
        ((struct tt_tree_report *)report)->changed = !report->gone;
}

static void handle_redirect(struct tt_tree *t, struct tt_reader *r, uint64_t now_ns)
{
    const uint32_t server = tt_read_u32(r);
    struct tt_tree_address address;
    uint16_t port;

    tt_tree_read_address(r, &address);
    port = tt_read_u16(r);
    if (r->bad || port == 0 || server == t->conf.rank) {
        up_drop(t, "protocol error: invalid redirection", now_ns);
        return;
    }
    end_up(t);
    t->up.rank = server;
    t->up.address = address;
    t->up.serve_port = port;
    t->where = TT_TREE_TO_SERVER;
    t->retry_ns = now_ns;
}

static void handle_refused(struct tt_tree *t, struct tt_reader *r, uint64_t now_ns)
{
    const uint8_t scope = tt_read_u8(r), status = tt_read_u8(r);
    char sentence[TT_TREE_SENTENCE_BYTES];

    tt_read_string(r, sentence, sizeof sentence);
    if (r->bad || status < TUTTI_ERR_INVALID || status >= TUTTI_STATUS_COUNT)
        up_drop(t, "protocol error: invalid refusal", now_ns);
    else if (scope == TT_TREE_OF_JOB)
        fail_job(t, (tutti_status)status, sentence);
    else
        fail_rank(t, (tutti_status)status, sentence);
}

/* Handles the rejection of a rank of this node, or of a node below it. */
static void handle_reject(struct tt_tree *t, struct tt_reader *r, uint64_t now_ns)
{
    const uint32_t reporter = tt_read_u32(r), rank = tt_read_u32(r);
    const uint8_t status = tt_read_u8(r);
    char sentence[TT_TREE_SENTENCE_BYTES];

    tt_read_string(r, sentence, sizeof sentence);
    if (r->bad || status < TUTTI_ERR_INVALID || status >= TUTTI_STATUS_COUNT)
        up_drop(t, "protocol error: invalid rejection", now_ns);
    else if (reporter == t->conf.rank && rank == t->conf.rank)
        fail_rank(t, (tutti_status)status, sentence);
    else
        tt_tree_reject(t, reporter, rank, (tutti_status)status, sentence);
}

static void up_frame(struct tt_tree *t, const struct tt_frame *f, uint64_t now_ns)
{
    struct tt_reader r;

    if (t->up_stage == TT_TREE_UP_OPEN) {
        handle_challenge(t, f, now_ns);
        return;
    }
    if (t->up_stage < TT_TREE_UP_JOINING || t->state != TT_TREE_GATHERING)
        return;
    if (!tt_tree_check(t, &t->up, f, &r)) {
        reject_token(t, f, now_ns);
        return;
    }
    if (f->type == TT_TREE_WELCOME && t->up_stage == TT_TREE_UP_JOINING)
        handle_welcome(t);
    else if (f->type == TT_TREE_REDIRECT && t->up_stage == TT_TREE_UP_JOINING &&
             t->where != TT_TREE_TO_LEADER)
        handle_redirect(t, &r, now_ns);
    else if (f->type == TT_TREE_REFUSED)
        handle_refused(t, &r, now_ns);
    else if (f->type == TT_TREE_DOWN && t->up_stage == TT_TREE_UP_JOINED)
        handle_down(t, &r);
    else if (f->type == TT_TREE_REJECT && t->up_stage == TT_TREE_UP_JOINED)
        handle_reject(t, &r, now_ns);
    else
        up_drop(t, "protocol error: unexpected message", now_ns);
}

/* ---- reports to the parent ---- */

/* Makes the report of this node's host. */
static bool report_own_host(struct tt_tree *t)
{
    struct tt_tree_report *own = tt_sparse_get(&t->reports, t->conf.rank);
    const struct tt_tree_report_head head = {
        .reporter = t->conf.rank,
        .process = t->conf.process,
        .generation = ++t->generation,
        .host = t->conf.leader,
    };
    struct tt_tree_seat seat = { .rank = t->conf.rank,
                                 .tag = process_tag(t->conf.process),
                                 .address = t->conf.address,
                                 .settings_bytes = settings_bytes(t),
                                 .status = (uint8_t)t->conf.refuses,
                                 .place_bytes = t->conf.place_bytes,
                                 .card_bytes = t->conf.card_bytes,
                                 .constants_bytes = t->conf.constants_bytes,
                                 .card = t->conf.card,
                                 .constants = t->conf.constants };
    char cause[TT_TREE_CAUSE_MAX + 1];
    struct tt_writer w;
    uint8_t *encoded;
    size_t cap;

    if (seat.settings_bytes)
        memcpy(seat.settings, t->conf.settings, seat.settings_bytes);
    if (seat.place_bytes)
        memcpy(seat.place, t->conf.place, seat.place_bytes);
    seat.cause = t->conf.refuses ? cut_cause(t, cause) : NULL;
    if (!tt_tree_take_seat(t, &seat))
        return false;
    if (!own) {
        own = calloc(1, sizeof *own);
        if (!own || !tt_sparse_set(&t->reports, t->conf.rank, own)) {
            free(own);
            return false;
        }
    }
    cap = tt_tree_report_bytes_max(t->seats, t->nseats);
    encoded = malloc(cap);
    if (!encoded)
        return false;
    tt_writer_init(&w, encoded, cap);
    tt_tree_write_report(&w, &head, t->seats, t->nseats);
    tt_assert(!w.bad);
    free(own->encoded);
    *own = (struct tt_tree_report){ .reporter = t->conf.rank,
                                    .generation = t->generation,
                                    .process = t->conf.process,
                                    .changed = true,
                                    .encoded = encoded,
                                    .bytes = tt_writer_bytes(&w) };
    t->host_changed = false;
    return true;
}

/* Sends one frame of changed reports. Returns false if there are none. */
static bool send_reports(struct tt_tree *t, uint64_t now_ns)
{
    struct tt_tree_report *list[UP_FRAME_BYTES / 64], *report;
    uint32_t n = 0, at = 0;
    size_t bytes = 12;
    struct tt_writer w;
    uint8_t *said;

    while (bytes < UP_FRAME_BYTES && n < sizeof list / sizeof *list &&
           (report = tt_sparse_next(&t->reports, &at)))
        if (report->changed) {
            bytes += 4 + report->bytes;
            list[n++] = report;
        }
    said = n > 0 ? malloc(bytes) : NULL;
    if (!said)
        return false;
    tt_writer_init(&w, said, bytes);
    write_deadline(t, &w, now_ns);
    tt_write_u32(&w, n);
    for (uint32_t i = 0; i < n; i++) {
        tt_write_u32(&w, (uint32_t)list[i]->bytes);
        tt_write_bytes(&w, list[i]->encoded, list[i]->bytes);
        list[i]->changed = false;
    }
    tt_assert(!w.bad);
    tt_tree_send(t, &t->up, TT_TREE_UP, said, bytes);
    free(said);
    return true;
}

/* Returns whether more ranks of this host may join soon: then its report is delayed. */
static bool host_is_filling(const struct tt_tree *t, uint64_t now_ns)
{
    uint32_t nlive = 1;         /* this rank, whose seat may not exist yet */

    for (uint32_t i = 0; i < t->nseats; i++)
        nlive += t->seats[i].live && t->seats[i].rank != t->conf.rank;
    return !t->alone && nlive < t->conf.nlocal && now_ns < t->joined_ns + HOST_NS;
}

static uint64_t flush_pause_ns(const struct tt_tree *t, uint64_t now_ns)
{
    const uint64_t part_ns = (now_ns - t->joined_ns) / FLUSH_PART;

    return part_ns < FLUSH_MIN_NS ? FLUSH_MIN_NS : part_ns > FLUSH_MAX_NS ? FLUSH_MAX_NS : part_ns;
}

static void reports_flush(struct tt_tree *t, uint64_t now_ns)
{
    if (t->up_stage != TT_TREE_UP_JOINED || t->state != TT_TREE_GATHERING || !tt_tree_reports(t) ||
        !(t->host_changed || t->pending) || now_ns < t->flush_ns)
        return;
    t->flush_ns = now_ns + flush_pause_ns(t, now_ns);
    if (t->host_changed && !host_is_filling(t, now_ns) && !report_own_host(t))
        return;     /* out of memory: retry after the pause */
    while (t->up_stage == TT_TREE_UP_JOINED && send_reports(t, now_ns))
        ;
    t->pending = false;
}

/* ---- steps ---- */

/* Completes a node with a result once all nodes below it have theirs. */
static void node_finish(struct tt_tree *t, uint64_t now_ns)
{
    if (t->state != TT_TREE_PLACED || t->conf.root || t->up_stage != TT_TREE_UP_JOINED)
        return;
    for (const struct tt_tree_conn *c = t->children; c; c = c->next)
        if (c->stage == TT_TREE_CHILD && !c->done)
            return;
    if (t->nundone > 0 && now_ns < t->undone_ns)
        return;
    tt_tree_send(t, &t->up, TT_TREE_DONE, NULL, 0);
    end_up(t);
}

/* The root: completes or fails the start-up once all ranks have joined, or the deadline has
 * passed. */
static void root_finish(struct tt_tree *t, bool expired)
{
    tutti_status st = TUTTI_ERR_TIMEOUT;
    char sentence[TT_TREE_SENTENCE_BYTES];

    if (expired)
        tt_tree_root_describe(t, t->now_ns, sentence);
    else
        st = tt_tree_root_check(t, sentence);
    if (st)
        fail_job(t, st, sentence);
    else if (t->state == TT_TREE_PLACED)
        tt_tree_distribute(t);
}

static void node_tick(struct tt_tree *t, uint64_t now_ns)
{
    if (t->nundone > 0 && now_ns >= t->undone_ns)
        t->nundone = 0;
    if (t->state != TT_TREE_GATHERING)
        return;
    if (t->conf.root) {
        if (now_ns >= t->deadline_ns)
            root_finish(t, true);
        return;
    }
    if (t->deadline_ns != TT_NEVER &&
        now_ns >= t->deadline_ns + (t->up_stage == TT_TREE_UP_JOINED ? OUTCOME_NS : 0)) {
        node_fail_unreached(t, now_ns);
        return;
    }
    if (t->up_stage != TT_TREE_UP_NONE && t->up_stage != TT_TREE_UP_JOINED &&
        now_ns - t->attempt_ns >= ATTEMPT_NS)
        up_drop(t, "no answer from the server", now_ns);
    if (t->up_stage == TT_TREE_UP_NONE && now_ns >= t->retry_ns)
        up_connect(t, now_ns);
}

static void open_connection(struct tt_tree *t, const struct tt_tree_event *ev, uint64_t now_ns)
{
    if (ev->conn) {
        tt_tree_child_open(t, ev->conn, ev->nonce, now_ns);
        return;
    }
    memcpy(t->up.client_nonce, ev->nonce, TT_NONCE_BYTES);
    t->up.nsent = t->up.nreceived = 0;
    t->up_stage = TT_TREE_UP_OPEN;
}

void tt_tree_step(struct tt_tree *t, const struct tt_tree_event *ev, uint64_t now_ns)
{
    struct tt_tree_conn *c = ev->conn;

    t->now_ns = now_ns;
    switch ((enum tt_tree_event_kind)ev->kind) {
    case TT_TREE_EV_OPEN:
        open_connection(t, ev, now_ns);
        break;
    case TT_TREE_EV_FRAME:
        if (c)
            tt_tree_child_frame(t, c, &ev->frame, now_ns);
        else
            up_frame(t, &ev->frame, now_ns);
        break;
    case TT_TREE_EV_CLOSED:
        if (c)
            tt_tree_child_lost(t, c);
        else if (t->up_stage != TT_TREE_UP_NONE && t->state == TT_TREE_GATHERING) {
            if (ev->absent)
                t->leader_ns = now_ns;      /* the leader has ended */
            up_lost(t, ended, now_ns);
        } else
            t->up_stage = TT_TREE_UP_NONE;
        break;
    case TT_TREE_EV_TICK:
        break;
    }
    node_tick(t, now_ns);
    if (t->conf.root && t->state == TT_TREE_GATHERING)
        root_finish(t, false);
    reports_flush(t, now_ns);
    node_finish(t, now_ns);
    tt_tree_sweep(t);
}

uint64_t tt_tree_wake_ns(const struct tt_tree *t)
{
    uint64_t at_ns = t->deadline_ns;

    if (t->state != TT_TREE_GATHERING)
        return t->nundone > 0 ? t->undone_ns : TT_NEVER;
    if (t->conf.root)
        return at_ns;
    if (at_ns != TT_NEVER && t->up_stage == TT_TREE_UP_JOINED)
        at_ns += OUTCOME_NS;
    if (t->up_stage == TT_TREE_UP_NONE && t->retry_ns < at_ns)
        at_ns = t->retry_ns;
    if (t->up_stage != TT_TREE_UP_NONE && t->up_stage != TT_TREE_UP_JOINED &&
        t->attempt_ns + ATTEMPT_NS < at_ns)
        at_ns = t->attempt_ns + ATTEMPT_NS;
    if (t->up_stage == TT_TREE_UP_JOINED && tt_tree_reports(t) && (t->host_changed || t->pending) &&
        t->flush_ns < at_ns)
        at_ns = t->flush_ns;
    return at_ns;
}

bool tt_tree_is_joined(const struct tt_tree *t)
{
    return t->up_stage == TT_TREE_UP_JOINED;
}

bool tt_tree_is_over(const struct tt_tree *t)
{
    return t->state != TT_TREE_GATHERING && !t->children && t->up_stage == TT_TREE_UP_NONE &&
           t->nundone == 0;
}

uint32_t tt_tree_njoined(const struct tt_tree *t)
{
    return t->ranks ? t->ranks->njoined : 0;
}

void tt_tree_init(struct tt_tree *t, const struct tt_tree_conf *conf, uint64_t seed)
{
    tt_assert(conf->root || (conf->rank < conf->nranks && conf->leader < conf->nranks));
    tt_assert(conf->constants_bytes <= TT_TREE_CONSTANTS_MAX);
    tt_assert(conf->place_bytes <= TT_TREE_PLACE_MAX);
    tt_assert(conf->card_bytes <= TT_TREE_CARD_MAX);
    *t = (struct tt_tree){ .conf = *conf,
                           .began_ns = conf->began_ns,
                           .deadline_ns = conf->deadline_ns,
                           .leader_ns = conf->began_ns + LEADER_NS,
                           .avoid = TT_TREE_NONE,
                           .backoff_ns = RETRY_FIRST_NS,
                           .host_changed = true };
    if (t->conf.children_max == 0)
        t->conf.children_max = TT_TREE_CHILDREN;
    t->where = conf->leader == conf->rank ? TT_TREE_TO_ROOT : TT_TREE_TO_LEADER;
    tt_prng_init(&t->prng, seed);
}

void tt_tree_fini(struct tt_tree *t)
{
    struct tt_tree_report *report;
    uint32_t at = 0;

    while ((report = tt_sparse_next(&t->reports, &at))) {
        free(report->encoded);
        free(report);
    }
    tt_sparse_fini(&t->reports);
    tt_sparse_fini(&t->entries);
    tt_tree_root_fini(t);
    for (uint32_t i = 0; i < t->nseats; i++)
        tt_tree_seat_fini(&t->seats[i]);
    free(t->seats);
    free(t->down);
    free(t->sentence);
    free(t->refusal);
    t->seats = NULL;
    t->down = NULL;
    t->sentence = t->refusal = NULL;
}
