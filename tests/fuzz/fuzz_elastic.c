/* The state machines of elastic runs with arbitrary peers. The first byte selects the target:
 *   a coordinator     with several connections, any frames, and valid messages
 *   a member          with a coordinator and peers that send anything
 *   a journal         with any contents
 *   a transfer        of shared state, with holders and receivers that send anything
 *   a survey          of links, with peers that send anything
 * For the first two some inputs start within a view, and many messages have the expected numbers:
 * otherwise they would be dropped early. No read goes past an end (sanitizers), and accepted data
 * is valid. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "elastic/coord.h"
#include "elastic/member.h"
#include "elastic/survey.h"
#include "elastic/transfer.h"

#define NCONNS 4u
#define MEMBERS 8u
#define ARRAYS 3u
#define ARRAY_BYTES (TT_HASH_BLOCK_BYTES + 100u)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct conn {
    struct tt_coord_conn machine;
    bool open;
};

struct world {
    struct tt_coord_member members[MEMBERS];
    uint32_t order[MEMBERS];
    struct tt_surroundings_seat view[MEMBERS], proposed[MEMBERS];
    struct conn conns[NCONNS];
    uint8_t scratch[TT_ELMSG_BYTES_MAX], results[TT_ELASTIC_TAGS][TT_SETTLED_BYTES];
    struct tt_coord c;
    struct tt_member m;
    struct tt_transfer t;
    struct tt_transfer_item items[ARRAYS];
    struct tt_survey p;
    struct tt_survey_peer peers[MEMBERS];
    struct tt_ring_link links[MEMBERS];
    struct tt_ring_sample samples[TT_SURVEY_SAMPLES];
    uint8_t filler[TT_SURVEY_CHUNK_BYTES];
    uint64_t attempts;          /* number of members' calls */
    uint8_t list[16 * ARRAYS], coming[16 * ARRAYS], arrays[ARRAYS][ARRAY_BYTES],
        stages[ARRAYS][ARRAY_BYTES];
};

static volatile uint8_t sink;

static void touch(const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        sink = (uint8_t)(sink + ((const uint8_t *)data)[i]);
}

static void on_coord_act(void *context, const struct tt_coord_act *act)
{
    (void)context;
    touch(act->data, act->bytes);
    if (act->kind == TT_COORD_ACT_CLOSE)
        ((struct conn *)act->conn)->open = false;
}

static void on_member_act(void *context, const struct tt_member_act *act)
{
    const struct world *w = context;

    touch(act->data, act->bytes);
    if (act->text)
        touch(act->text, strlen(act->text));
    if (act->kind == TT_MEMBER_ACT_CALL_DONE || act->kind == TT_MEMBER_ACT_STOP) {
        const struct tt_mismatch m = { .differs = act->differs,
                                       .id = act->id,
                                       .value = act->value,
                                       .other = act->other,
                                       .also = act->also,
                                       .op = act->op };
        char text[TT_MISMATCH_BYTES];

        tt_assert(strlen(tt_mismatch_text(text, &m)) > 0);
    }
    if (act->kind == TT_MEMBER_ACT_LOST)
        tt_assert(act->what < TT_LOSSES);
    if (act->kind == TT_MEMBER_ACT_VIEW)
        tt_assert(w->m.nranks <= MEMBERS && w->m.rank < w->m.nranks &&
                  w->m.view[w->m.rank].id == w->m.id);
    if (act->kind == TT_MEMBER_ACT_SEND_PEER)
        tt_assert(act->rank < w->m.nranks);
    if (act->kind == TT_MEMBER_ACT_SYNC_PLAN && w->m.sync.part == TT_SYNC_RECEIVES) {
        for (uint32_t i = 0; i < w->m.sync.nholders; i++)
            tt_assert(w->m.sync.holders[i] < w->m.nranks);
        tt_member_vote(&((struct world *)context)->m, TT_SYNC_GOT, w->m.now_ns);
    }
}

static void coord_init(struct world *w)
{
    static void *ring; /* kept between inputs */
    const struct tt_coord_conf conf = {
        .run = "r",
        .lease_ns = TT_SECOND,
        .grace_ns = TT_SECOND / 4,
        .members = w->members,
        .members_max = MEMBERS,
        .order = w->order,
        .scratch = w->scratch,
        .ring_memory = ring ? ring : (ring = malloc(tt_coord_ring_bytes(MEMBERS))),
        .ring_peers_max = MEMBERS,
        .emit = on_coord_act,
        .context = w
    };

    tt_assert(ring != NULL);
    tt_coord_init(&w->c, &conf, 1);
}

static void coord_event(struct world *w, uint8_t kind, struct conn *c, const void *data,
                        size_t bytes, uint64_t now_ns)
{
    const struct tt_coord_event ev = {
        .kind = kind, .conn = c ? &c->machine : NULL, .data = data, .bytes = bytes
    };

    tt_coord_step(&w->c, &ev, now_ns);
}

typedef void fit_fn(struct world *w, struct tt_elmsg *m, uint8_t byte);

/* Adapts a message to the state of the coordinator. */
static void fit_coordinator(struct world *w, struct tt_elmsg *m, uint8_t byte)
{
    static const uint8_t kinds[] = {
        TT_ELMSG_JOIN,  TT_ELMSG_CALL,   TT_ELMSG_CALL,    TT_ELMSG_CALL,     TT_ELMSG_CANCEL,
        TT_ELMSG_READY, TT_ELMSG_READY,  TT_ELMSG_ANSWER,  TT_ELMSG_LEAVE,    TT_ELMSG_OFFER,
        TT_ELMSG_OFFER, TT_ELMSG_VOTE,   TT_ELMSG_SUSPECT, TT_ELMSG_WITHDRAW, TT_ELMSG_LINKS,
        TT_ELMSG_LINKS, TT_ELMSG_REVOKE, TT_ELMSG_INSIDE,  TT_ELMSG_ANSWER,   TT_ELMSG_NOT_BEGUN
    };
    static const uint8_t ends[TT_ELMSG_KINDS] = {
        [TT_ELMSG_LEAVE] = TT_LEAVE_NOW + 1,  [TT_ELMSG_SUSPECT] = TT_SUSPECT_GONE + 1,
        [TT_ELMSG_REVOKE] = TT_REVOKED_APART, [TT_ELMSG_OFFER] = TT_SYNC_STRATEGIES,
        [TT_ELMSG_VOTE] = TT_SYNC_VOTES,      [TT_ELMSG_CALL] = TT_CALL_SYNC
    };
    const struct tt_coord *c = &w->c;
    const struct tt_coord_scope *scope = &c->scopes[m->scope];

    m->kind = kinds[byte % sizeof kinds];
    m->what = ends[m->kind] ? m->what % ends[m->kind] : 0;
    m->nroles = c->nroles ? c->nroles : 1;
    m->group = byte / 2u % 3;
    m->role = byte % m->nroles;
    m->epoch = c->epoch;
    m->number = c->round;
    if (m->kind == TT_ELMSG_CALL || m->kind == TT_ELMSG_OFFER)
        m->also = ++w->attempts;
    if (m->kind == TT_ELMSG_READY)
        m->number = c->proposal;
    if (m->kind == TT_ELMSG_ANSWER)
        m->number = c->question;
    if (m->kind == TT_ELMSG_LINKS)
        m->number = 1 + byte / 64u;
    if (m->kind == TT_ELMSG_OFFER || m->kind == TT_ELMSG_WITHDRAW || m->kind == TT_ELMSG_VOTE) {
        m->number = scope->epoch == c->epoch ? scope->number + 1 : 1;
        m->value = scope->revision + byte / 64u % 2;
        m->other = scope->plan;
    }
    m->op = (struct tt_op_name){ .n = 1, .tag = byte / 64u };
}

/* Adapts a message to the state of the member. */
static void fit_member(struct world *w, struct tt_elmsg *m, uint8_t byte)
{
    static const uint8_t kinds[] = { TT_ELMSG_WELCOME,  TT_ELMSG_ALIVE,  TT_ELMSG_UPDATE,
                                     TT_ELMSG_PROPOSE,  TT_ELMSG_VIEW,   TT_ELMSG_VIEW,
                                     TT_ELMSG_RESULT,   TT_ELMSG_RESULT, TT_ELMSG_LOST,
                                     TT_ELMSG_OUTCOMES, TT_ELMSG_PLAN,   TT_ELMSG_SYNCED,
                                     TT_ELMSG_BEGUN,   TT_ELMSG_DROPPED };
    static const uint8_t ends[TT_ELMSG_KINDS] = { [TT_ELMSG_VIEW] = TT_RING_PLANS,
                                                  [TT_ELMSG_RESULT] = TT_ROUND_STATUSES,
                                                  [TT_ELMSG_SYNCED] = TT_ROUND_STATUSES,
                                                  [TT_ELMSG_LOST] = TT_REVOCATIONS,
                                                  [TT_ELMSG_PLAN] = TT_SYNC_PARTS };
    const struct tt_member *to = &w->m;

    m->kind = kinds[byte % sizeof kinds];
    m->what = ends[m->kind] ? m->what % ends[m->kind] : 0;
    m->epoch = to->epoch + (m->kind == TT_ELMSG_VIEW);
    m->number = to->round;
    if (m->kind == TT_ELMSG_WELCOME) {
        m->id = to->id ? to->id : 1;
        m->value = TT_SECOND;
        memcpy(m->cookie, to->secret, TT_COOKIE_BYTES);
    } else if (m->kind == TT_ELMSG_PROPOSE) {
        m->number = to->proposal + 1;
    } else if (m->kind == TT_ELMSG_LOST || m->kind == TT_ELMSG_OUTCOMES) {
        m->number = to->question + (m->kind == TT_ELMSG_LOST);
    } else if (m->kind == TT_ELMSG_PLAN || m->kind == TT_ELMSG_SYNCED) {
        m->scope = 0;
        m->number = to->sync.number[0];
        m->other = to->sync.plan + 1;
    }
    m->op = (struct tt_op_name){ .n = 1, .tag = byte / 64u };
}

/* Creates a message of a kind, with the input's bytes as fields. fit: adapts it; NULL: no
 * adaptation. */
static size_t shaped(uint8_t *out, size_t cap, const uint8_t *data, size_t bytes, struct world *to,
                     fit_fn *fit)
{
    struct tt_elmsg m = { .nroles = 1, .text = "r" };
    const uint8_t b[8] = { bytes > 0 ? data[0] : 0, bytes > 1 ? data[1] : 0,
                           bytes > 2 ? data[2] : 0, bytes > 3 ? data[3] : 0,
                           bytes > 4 ? data[4] : 0, bytes > 5 ? data[5] : 0 };
    uint32_t n, first = b[5] % 3;
    bool is_view;
    struct tt_elmsg_writer w;

    m.kind = (uint8_t)(1 + b[0] % (TT_ELMSG_KINDS - 1));
    m.what = b[1] % 8;
    m.flags = m.kind == TT_ELMSG_RESULT || m.kind == TT_ELMSG_SYNCED ? b[3] : b[1] >> 7;
    m.also = b[2];
    m.epoch = b[2];
    m.number = b[3] | (uint64_t)(b[4] & 1) << 32;
    m.id = b[5] % 10;
    m.value = b[4];
    m.cookie[0] = b[2] % 6;
    m.scope = b[1] % 3;
    m.other = (uint64_t)b[5] << 32 | b[4];
    m.most = b[4] >> 6;
    m.hash.word[0] = m.keys.word[0] = b[5] % 2;
    n = b[4] >> 4;
    if (fit) {
        fit(to, &m, b[0]);
        is_view = m.kind == TT_ELMSG_VIEW || m.kind == TT_ELMSG_PROPOSE;
        n = is_view ? 1 + n % 4 : m.kind == TT_ELMSG_LINKS && n > 1 ? NCONNS : n % 3;
        first = 1 + (is_view ? 0 : b[5] / 64u);
        m.hash.word[0] = m.keys.word[0] = b[5] % 8 == 0; /* otherwise calls hardly ever match */
        m.most = 0;
    }
    tt_elmsg_begin(&w, out, cap, &m);
    for (uint32_t i = 0; i < n && w.count_at; i++)
        if (m.kind == TT_ELMSG_LOST)
            tt_elmsg_add_loss(&w, &(struct tt_loss_name){ .id = i + first, .why = b[2] % 16 });
        else if (m.kind == TT_ELMSG_READY || m.kind == TT_ELMSG_LOG_VIEW ||
                 m.kind == TT_ELMSG_PLAN || m.kind == TT_ELMSG_LOG_PLAN ||
                 m.kind == TT_ELMSG_LOG_SYNC)
            tt_elmsg_add_id(&w, i + first);
        else if (m.kind == TT_ELMSG_LINKS)
            tt_elmsg_add_link(
                &w, &(struct tt_ring_link){ .rate = (uint64_t)b[5] << b[1] % 40, .latency = b[2] });
        else if (m.kind == TT_ELMSG_LOG_BACK)
            tt_elmsg_add_call(&w, &(struct tt_call_name){ .id = i + first, .attempt = b[2] });
        else if (m.kind == TT_ELMSG_ANSWER || m.kind == TT_ELMSG_OUTCOMES)
            tt_elmsg_add_op(&w, &(struct tt_op_entry){ .state = (uint8_t)(1 + (b[1] + i) % 5),
                                                       .before = (b[5] >> 6) % 3,
                                                       .nresult = 8,
                                                       .result = (const uint8_t *)"a result",
                                                       .tag = (uint16_t)i,
                                                       .n = 1 + b[3] % (fit ? 7u : 3u) });
        else
            tt_elmsg_add_seat(&w, &(struct tt_surroundings_seat){ .id = i + first });
    return tt_elmsg_end(&w);
}

static void say(struct world *w, struct conn *c, const struct tt_elmsg *m, uint64_t now_ns)
{
    uint8_t message[256];

    coord_event(w, TT_COORD_EV_FRAME, c, message, tt_elmsg_write(message, sizeof message, m),
                now_ns);
}

/* Adds a member for each connection, and admits all of them to the first view. */
static void gather(struct world *w, uint32_t nroles, uint64_t now_ns)
{
    for (uint32_t i = 0; i < NCONNS; i++) {
        struct tt_elmsg join = { .kind = TT_ELMSG_JOIN,
                                 .group = i / nroles,
                                 .role = i % nroles,
                                 .nroles = nroles,
                                 .text = "r" };

        join.cookie[0] = (uint8_t)(i + 1);
        w->conns[i].open = true;
        coord_event(w, TT_COORD_EV_OPEN, &w->conns[i], NULL, 0, now_ns);
        say(w, &w->conns[i], &join, now_ns);
    }
    for (uint32_t i = 0; i < NCONNS; i++)
        say(w, &w->conns[i],
            &(struct tt_elmsg){ .kind = TT_ELMSG_CALL,
                                .what = TT_CALL_EPOCH,
                                .flags = TT_EPOCH_ADMIT,
                                .least = NCONNS,
                                .also = 1 },
            now_ns);
    w->attempts = 1;
    for (uint32_t i = 0; i < NCONNS; i++)
        say(w, &w->conns[i], &(struct tt_elmsg){ .kind = TT_ELMSG_READY, .number = w->c.proposal },
            now_ns);
    tt_assert(w->c.epoch == 1 && tt_coord_count(&w->c, TT_COORD_IN_VIEW) == NCONNS);
}

/* {what u8, bytes u8, data}: what's lower bits select the connection, the upper ones the event.
 * within: the first view, with this number of roles; 0: initial state. */
static void attack_coordinator(struct world *w, uint32_t within, const uint8_t *data, size_t bytes)
{
    uint8_t message[1024];
    uint64_t now_ns = 1;
    struct tt_reader r;

    tt_coord_start(&w->c, now_ns);
    if (within)
        gather(w, within, now_ns);
    tt_reader_init(&r, data, bytes);
    while (r.at < r.end) {
        const uint8_t what = tt_read_u8(&r), n = tt_read_u8(&r);
        const size_t asked = within && what >> 7 ? 6 : n,
                     have = asked < (size_t)(r.end - r.at) ? asked : (size_t)(r.end - r.at);
        struct conn *c = &w->conns[what % NCONNS];

        now_ns += (uint64_t)n * (within ? TT_MS / 8 : TT_MS);
        if (!c->open) {
            c->open = true;
            coord_event(w, TT_COORD_EV_OPEN, c, NULL, 0, now_ns);
        }
        if (what >> 6 == 0) {
            coord_event(w, TT_COORD_EV_FRAME, c, r.at, have, now_ns);
        } else if (what >> 6 == 1) {
            c->open = false;
            coord_event(w, TT_COORD_EV_CLOSED, c, NULL, 0, now_ns);
        } else {
            coord_event(
                w, TT_COORD_EV_FRAME, c, message,
                shaped(message, sizeof message, r.at, have, w, within ? fit_coordinator : NULL),
                now_ns);
        }
        r.at += have;
        tt_assert(w->c.nmembers <= MEMBERS);
    }
}

/* A message of another member about an operation: the current one, or the next. */
static size_t peer_message(const struct world *w, uint8_t *out, uint8_t what, uint8_t n)
{
    const uint16_t tag = n % 4;
    struct tt_writer to;

    tt_writer_init(&to, out, TT_PEERMSG_BYTES);
    tt_write_u8(&to, TT_ELASTIC_VERSION);
    tt_write_u8(&to, what >> 6);
    tt_write_u16(&to, tag);
    tt_write_u64(&to, w->m.epoch + (n >> 7));
    tt_write_u64(&to, w->m.ops[tag].n + (n >> 6 & 1));
    tt_write_u64(&to, what);
    for (int i = 0; i < 5; i++)
        tt_write_u32(&to, n >> i & 1);
    return tt_writer_bytes(&to);
}

/* Events from the member's own program and connections, except calls and operations. */
static void member_event(struct world *w, uint8_t what, uint8_t n, uint64_t now_ns)
{
    static const struct tt_ring_link links[MEMBERS];
    const struct tt_elmsg head = { .number = 1 + n % 4u, .value = 1 << 20 };
    const uint64_t id = 1 + n / 8 % 4u;
    struct tt_membership news = { 0 };

    switch (n % 8) {
    case 0:
        tt_member_reached(&w->m, w->m.proposal, &id, what >> 7, now_ns);
        break;
    case 1:
        tt_member_suspect(&w->m, id, now_ns);
        break;
    case 2:
        tt_member_unreachable(&w->m, id, now_ns);
        break;
    case 3:
        tt_member_send_links(&w->m, &head, links, now_ns);
        break;
    case 4:
        tt_member_revoke(&w->m, now_ns);
        break;
    case 5:
        if (w->m.ops[id].state == TT_OP_PENDING &&
            tt_member_complete_alone(&w->m, (uint32_t)id, &news, now_ns))
            tt_member_all_complete(&w->m, (uint32_t)id, &news, now_ns);
        break;
    case 6:
        tt_member_disconnected(&w->m, now_ns);
        break;
    default:
        if (n == UINT8_MAX)
            tt_member_leave(&w->m, what >> 7 ? TT_LEAVE_NOTICE : TT_LEAVE_NOW, now_ns);
    }
}

/* Admits the member to a view of four. */
static void admit(struct world *w, uint64_t now_ns)
{
    const struct tt_elmsg welcome = { .kind = TT_ELMSG_WELCOME, .id = 1, .value = TT_SECOND },
                          view = { .kind = TT_ELMSG_VIEW, .epoch = 1, .number = 1 },
                          epoch = { .what = TT_CALL_EPOCH, .flags = TT_EPOCH_ADMIT };
    struct tt_elmsg_writer to;
    uint8_t message[512];

    tt_member_connected(&w->m, now_ns);
    tt_member_frame(&w->m, message, tt_elmsg_write(message, sizeof message, &welcome), now_ns);
    tt_assert(tt_member_call(&w->m, &epoch, now_ns) == TUTTI_OK);
    tt_elmsg_begin(&to, message, sizeof message, &view);
    for (uint32_t i = 0; i < 4; i++)
        tt_elmsg_add_seat(&to, &(struct tt_surroundings_seat){ .id = 1 + i });
    tt_member_frame(&w->m, message, tt_elmsg_end(&to), now_ns);
    tt_assert(w->m.epoch == 1 && w->m.nranks == 4 && !w->m.over);
}

/* {what u8, bytes u8, data}: what's lower bits select the event. */
static void attack_member(struct world *w, bool within, const uint8_t *data, size_t bytes)
{
    struct tt_member_conf conf = { .run = "r",
                                   .nroles = 1,
                                   .view = w->view,
                                   .proposed = w->proposed,
                                   .members_max = MEMBERS,
                                   .scratch = w->scratch,
                                   .results = w->results,
                                   .emit = on_member_act,
                                   .context = w };
    const struct tt_sync_offer offer = { .strategy = TT_SYNC_POPULAR, .revision = 1 };
    const struct tt_elmsg epoch = { .what = TT_CALL_EPOCH, .flags = TT_EPOCH_ADMIT },
                          commit = { .what = TT_CALL_COMMIT },
                          optimize = { .what = TT_CALL_OPTIMIZE, .other = 1 };
    uint8_t message[1024];
    uint64_t now_ns = 1;
    struct tt_reader r;

    tt_member_init(&w->m, &conf, now_ns);
    if (within)
        admit(w, now_ns);
    tt_reader_init(&r, data, bytes);
    while (r.at < r.end && !w->m.over) {
        const uint8_t what = tt_read_u8(&r), n = tt_read_u8(&r);
        const bool fits = within && what % 8 == 7, mail = within && what % 8 == 1;
        const size_t asked = fits                 ? 6
                             : within && what % 8 ? 0
                                                  : n, /* no other event in a view has data */
            have = asked < (size_t)(r.end - r.at) ? asked : (size_t)(r.end - r.at);

        now_ns += (uint64_t)n * (within ? TT_MS / 8 : TT_MS);
        if (!w->m.connected)
            tt_member_connected(&w->m, now_ns);
        if (what % 8 == 0)
            tt_member_frame(&w->m, r.at, have, now_ns);
        else if (mail)
            tt_member_peer(&w->m, what >> 4 & 3, message, peer_message(w, message, what, n),
                           now_ns);
        else if (what % 8 == 1)
            tt_member_peer(&w->m, what >> 4, r.at, have, now_ns);
        else if (what % 8 == 2)
            tt_member_call(&w->m, what & 0x80 ? &commit : what & 0x40 ? &optimize : &epoch, now_ns);
        else if (what % 8 == 6 && what & 0x80)
            tt_member_revoke_as(&w->m, TT_REVOKED_LATE, 0, now_ns);
        else if (what % 8 == 6 && what & 0x40)
            tt_member_report_wait(&w->m, &(struct tt_op_name){ .tag = n }, now_ns);
        else if (what % 8 == 6 && within)
            member_event(w, what, n, now_ns);
        else if (what % 8 == 3 && tt_member_begin(&w->m, n, now_ns) == TUTTI_OK && what & 0x40)
            tt_member_may_settle(&w->m, n, 8);
        else if (what % 8 == 3 && w->m.ops[n].may_settle && w->m.ops[n].state == TT_OP_PENDING)
            tt_member_settle(&w->m, n, "a result", now_ns);
        else if (what % 8 == 3 && what & 0x80 && w->m.ops[n].state == TT_OP_PENDING)
            tt_member_complete_tentative(&w->m, n, now_ns);
        else if (what % 8 == 3 && w->m.ops[n].state == TT_OP_PENDING)
            tt_member_complete(&w->m, n, now_ns);
        else if (what % 8 == 4)
            tt_member_tick(&w->m, now_ns);
        else if (what % 8 == 5 && what & 0x80)
            tt_member_sync(&w->m, &offer, now_ns);
        else if (what % 8 == 5 && what & 0x40)
            tt_member_cancel(&w->m, now_ns);
        else
            tt_member_frame(
                &w->m, message,
                shaped(message, sizeof message, r.at, have, w, fits ? fit_member : NULL), now_ns);
        r.at += have;
    }
}

static void attack_journal(struct world *w, const uint8_t *data, size_t bytes)
{
    const struct tt_elmsg begin = { .kind = TT_ELMSG_LOG_START, .number = 1, .text = "r" };
    uint8_t message[1024];
    struct tt_reader r;
    bool good = tt_coord_replay(&w->c, message, tt_elmsg_write(message, sizeof message, &begin));

    tt_reader_init(&r, data, bytes);
    while (r.at < r.end && good) {
        const uint8_t what = tt_read_u8(&r), n = tt_read_u8(&r);
        const size_t have = n < (size_t)(r.end - r.at) ? n : (size_t)(r.end - r.at);

        good = what % 2 ? tt_coord_replay(&w->c, r.at, have)
                        : tt_coord_replay(&w->c, message,
                                          shaped(message, sizeof message, r.at, have, w, NULL));
        r.at += have;
    }
    tt_assert(w->c.nmembers <= MEMBERS);
    if (!good)
        return;
    tt_coord_snapshot(&w->c);
    tt_coord_start(&w->c, 1);
    coord_event(w, TT_COORD_EV_TICK, NULL, NULL, 0, 2 * TT_SECOND);
}

static void *stage(void *context, uint32_t array, uint64_t bytes)
{
    struct world *w = context;

    tt_assert(array < ARRAYS && bytes <= ARRAY_BYTES);
    return w->stages[array];
}

static void on_transfer_act(void *context, const struct tt_transfer_act *act)
{
    struct world *w = context;

    touch(act->head, act->head_bytes);
    touch(act->body, act->body_bytes);
    if (act->kind == TT_TRANSFER_ACT_VOTE && act->vote == TT_SYNC_GOT)
        for (uint32_t i = 0; i < ARRAYS; i++)
            tt_assert(w->items[i].here && w->items[i].got <= w->items[i].bytes);
}

/* A message as sent by members: {flags, array, offset, bytes u8}. The winning content is arrays of
 * zeros. Returns its size. */
static size_t shaped_piece(uint8_t *out, size_t cap, const uint8_t *theirs, const uint8_t *data,
                           size_t have)
{
    const uint8_t flags = have > 0 ? data[0] : 0;
    const uint32_t array = have > 1 && data[1] < 8 ? data[1] : TT_TRANSFER_LIST;
    const uint64_t offset = have > 2 ? (uint64_t)data[2] * (TT_HASH_BLOCK_BYTES / 2) : 0;
    const uint32_t bytes =
        have > 3 ? data[3] * (flags & 4 ? TT_HASH_BLOCK_BYTES / 128 : 1u) : 16 * ARRAYS;
    struct tt_hash_stream h;
    struct tt_hash_sum sum;
    struct tt_writer w;
    uint8_t *body;

    tt_writer_init(&w, out, cap);
    tt_write_u8(&w, TT_ELASTIC_VERSION);
    tt_write_u8(&w, flags & 1 ? 0xc1 : 0xc2);
    tt_write_u16(&w, 0);
    tt_write_u64(&w, 0);
    tt_write_u64(&w, 0);
    tt_write_u32(&w, array);
    tt_write_u64(&w, offset);
    tt_write_u32(&w, bytes);
    if (flags & 1)
        return tt_writer_bytes(&w);
    body = w.at + 16;
    memset(body, 0, bytes);
    if (array == TT_TRANSFER_LIST)
        memcpy(body, theirs, bytes < 16 * ARRAYS ? bytes : 16 * ARRAYS);
    tt_hash_begin(&h, offset / TT_HASH_BLOCK_BYTES);
    tt_hash_add(&h, body, bytes);
    sum = tt_hash_end(&h);
    for (int i = 0; i < 4; i++)
        tt_write_u32(&w, flags & 2 ? flags : sum.word[i]);
    return tt_writer_bytes(&w) + bytes;
}

/* {what u8, bytes u8, data}: a plan, time, anything, or something similar to a message. */
static void attack_transfer(struct world *w, const uint8_t *data, size_t bytes)
{
    static uint8_t message[TT_TRANSFER_HEAD_BYTES + 2 * TT_HASH_BLOCK_BYTES];
    static const uint8_t zeros[ARRAY_BYTES];
    const struct tt_transfer_conf conf = { .narrays = ARRAYS,
                                           .items = w->items,
                                           .list = w->list,
                                           .coming = w->coming,
                                           .piece_bytes = TT_HASH_BLOCK_BYTES,
                                           .patience_ns = TT_SECOND,
                                           .stage = stage,
                                           .emit = on_transfer_act,
                                           .context = w };
    static const uint64_t sizes[ARRAYS] = { ARRAY_BYTES, 0, 10 };
    struct tt_sync_array arrays[ARRAYS] = { { .bytes = 0 } };
    struct tt_hash hashes[ARRAYS], content;
    uint8_t theirs[16 * ARRAYS];
    struct tt_reader r;
    uint64_t now_ns = 1;

    for (uint32_t i = 0; i < ARRAYS; i++) {
        w->items[i] = (struct tt_transfer_item){ .bytes = sizes[i], .data = w->arrays[i] };
        hashes[i] = tt_hash_of(zeros, sizes[i]);
    }
    tt_sync_list(theirs, arrays, hashes, ARRAYS);
    memcpy(w->list, theirs, sizeof theirs);
    w->list[0] ^= 1;
    w->list[16 * (ARRAYS - 1)] ^= 1;
    content = tt_sync_content(theirs, ARRAYS);
    tt_transfer_init(&w->t, &conf, now_ns);
    tt_reader_init(&r, data, bytes);
    while (r.at < r.end) {
        const uint8_t what = tt_read_u8(&r), n = tt_read_u8(&r);
        const size_t have = n < (size_t)(r.end - r.at) ? n : (size_t)(r.end - r.at);
        const uint32_t holders[2] = { what >> 4, 1 + (what >> 5) };

        now_ns += (uint64_t)n * TT_MS;
        if (what % 4 == 0) {
            tt_transfer_plan(&w->t, (uint8_t)(1 + n % 3),
                             n & 8 ? &content : &(struct tt_hash){ { n } }, holders, n & 16 ? 2 : 1,
                             now_ns);
        } else if (what % 4 == 1) {
            tt_transfer_tick(&w->t, now_ns);
        } else if (what % 4 == 2) {
            tt_transfer_peer(&w->t, what >> 4, r.at, have, now_ns);
        } else {
            tt_transfer_peer(&w->t, what >> 4, message,
                             shaped_piece(message, sizeof message, theirs, r.at, have), now_ns);
        }
        r.at += have;
    }
}

static void on_survey_act(void *context, const struct tt_survey_act *act)
{
    const struct world *w = context;

    touch(act->head, act->head_bytes);
    touch(act->body, act->body_bytes);
    tt_assert(act->rank < w->p.conf.nranks && act->rank != w->p.conf.rank);
}

/* {what u8, bytes u8, data}: what's lower bits select the sender, the upper ones the event. */
static void attack_survey(struct world *w, const uint8_t *data, size_t bytes)
{
    const struct tt_survey_conf conf = { .epoch = 1,
                                         .rank = 1,
                                         .nranks = MEMBERS / 2,
                                         .burst_ns = TT_SECOND,
                                         .far_burst_ns = 2 * TT_SECOND,
                                         .peers = w->peers,
                                         .links = w->links,
                                         .samples = w->samples,
                                         .filler = w->filler,
                                         .emit = on_survey_act,
                                         .context = w };
    uint64_t now_ns = 1;
    struct tt_reader r;

    tt_survey_begin(&w->p, &conf, 1, now_ns);
    tt_reader_init(&r, data, bytes);
    while (r.at < r.end) {
        const uint8_t what = tt_read_u8(&r), n = tt_read_u8(&r);
        const size_t have = n < (size_t)(r.end - r.at) ? n : (size_t)(r.end - r.at);
        const uint32_t rank = what % conf.nranks;
        uint8_t message[TT_SURVEY_HEAD_BYTES + 256] = { TT_ELASTIC_VERSION };
        struct tt_writer w2;

        now_ns += (uint64_t)n * TT_MS / 4;
        switch (what >> 5) {
        case 0:
            tt_survey_tick(&w->p, now_ns);
            break;
        case 1:
            tt_survey_again(&w->p, rank, now_ns);
            break;
        case 2:
            tt_survey_room(&w->p, rank, now_ns);
            break;
        case 3:
            tt_survey_receive(&w->p, rank, r.at, have, now_ns);
            break;
        default: /* {kind, number, value} as in members' messages, with this number of data bytes */
            tt_writer_init(&w2, message, sizeof message);
            tt_write_u8(&w2, TT_ELASTIC_VERSION);
            tt_write_u8(&w2, (uint8_t)(0xa0 + (have > 0 ? r.at[0] % 10 : 0)));
            tt_write_u64(&w2, 1);
            tt_write_u64(&w2, w->p.number + (have > 1 ? r.at[1] / 64 : 0));
            tt_write_u32(&w2, have > 2 ? (uint32_t)(r.at[2] & 0x7f) | (uint32_t)(r.at[2] >> 7) << 31
                                       : 0);
            tt_write_u32(&w2, n);
            tt_survey_receive(&w->p, rank, message,
                              TT_SURVEY_HEAD_BYTES + (have > 0 && r.at[0] % 10 == 5 ? have : 0),
                              now_ns);
        }
        r.at += have;
    }
    for (uint32_t rank = 0; rank < conf.nranks; rank++)
        tt_assert(w->links[rank].rate <= TT_RING_RATE_MAX &&
                  w->links[rank].latency <= TT_RING_LATENCY_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct world w;

    if (bytes < 1)
        return 0;
    memset(w.conns, 0, sizeof w.conns);
    coord_init(&w);
    if (data[0] == 0xb0)
        attack_survey(&w, data + 1, bytes - 1);
    else if (data[0] % 4 == 0)
        attack_coordinator(&w, data[0] & 4 ? 1 + (data[0] >> 3 & 1) : 0, data + 1, bytes - 1);
    else if (data[0] % 4 == 1)
        attack_member(&w, data[0] & 4, data + 1, bytes - 1);
    else if (data[0] % 4 == 3)
        attack_transfer(&w, data + 1, bytes - 1);
    else
        attack_journal(&w, data + 1, bytes - 1);
    return 0;
}
