#include "coordinator/status.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <string.h>
#include "coordinator/text.h"

static const char *word(const char *const *words, size_t n, size_t at)
{
    return at < n && words[at] ? words[at] : "?";
}
#define WORD(words, at) word(words, sizeof(words) / sizeof *(words), at)

const char *tt_status_state(uint8_t coord_state)
{
    static const char *const words[TT_COORD_STATES] = { [TT_COORD_WAITING] = "waiting",
                                                        [TT_COORD_CANDIDATE] = "candidate",
                                                        [TT_COORD_IN_VIEW] = "in the view",
                                                        [TT_COORD_LOST] = "lost" };

    return WORD(words, coord_state);
}

const char *tt_status_of(const struct tt_snapshot_member *m)
{
    return m->left ? TT_STATUS_LEFT : tt_status_state(m->state);
}

const char *tt_status_loss(uint8_t loss)
{
    static const char *const words[TT_LOSSES] = {
        [TT_LOSS_DIED] = "died",         [TT_LOSS_SILENT] = "silent",
        [TT_LOSS_CUT] = "unreached",     [TT_LOSS_ILLEGAL] = "illegal",
        [TT_LOSS_AHEAD] = "ahead",       [TT_LOSS_KEYS] = "other arrays",
        [TT_LOSS_LEFT] = TT_STATUS_LEFT, [TT_LOSS_NOT_TAKEN] = "not taken",
        [TT_LOSS_FALSE] = "false",
    };

    return WORD(words, loss);
}

/* Returns the text of an enum tt_round_status, e.g. "too few". */
static const char *round_outcome(uint8_t round_status)
{
    static const char *const words[TT_ROUND_STATUSES] = {
        [TT_ROUND_OK] = "done",
        [TT_ROUND_SAME] = "same view",
        [TT_ROUND_TIMEOUT] = "timeout",
        [TT_ROUND_MISMATCH] = "mismatch",
        [TT_ROUND_TOO_FEW] = "too few",
        [TT_ROUND_LOST] = "of the remaining members",
    };

    return WORD(words, round_status);
}

const char *tt_status_refusal(uint8_t refusal)
{
    static const char *const words[TT_REFUSAL_KINDS] = {
        [TT_REFUSAL_HANDSHAKE] = "stranger", [TT_REFUSAL_GARBAGE] = "garbage",
        [TT_REFUSAL_SLOW] = "slow",          [TT_REFUSAL_TOO_MANY] = "crowd",
        [TT_REFUSAL_UNREAD] = "unread",      [TT_REFUSAL_PROTOCOL] = "protocol",
    };

    return WORD(words, refusal);
}

/* Longer texts are truncated. */
__attribute__((format(printf, 2, 3))) static void append(char out[TT_STATUS_CAUSE_BYTES],
                                                         const char *fmt, ...)
{
    const size_t at = strlen(out);
    char part[64];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(part, sizeof part, fmt, ap);
    va_end(ap);
    snprintf(out + at, TT_STATUS_CAUSE_BYTES - at, "%s%s", at > 0 ? ", " : "", part);
}

static const char *was(uint32_t n)
{
    return n == 1 ? "was" : "were";
}

const char *tt_status_cause(char out[TT_STATUS_CAUSE_BYTES], const struct tt_coord_cause *cause)
{
    out[0] = '\0';
    if (cause->came)
        append(out, "%" PRIu32 " joined", cause->came);
    if (cause->lost)
        append(out, "%" PRIu32 " %s lost", cause->lost, was(cause->lost));
    if (cause->left)
        append(out, "%" PRIu32 " left", cause->left);
    if (cause->out)
        append(out, "%" PRIu32 " %s in an incomplete group", cause->out, was(cause->out));
    if (cause->revoker)
        append(out, "member %" PRIu64 " revoked the previous epoch", cause->revoker);
    else if (cause->revoked)
        append(out, "the previous epoch was revoked");
    if (cause->ordered)
        append(out, "a better order of the ring");
    return out;
}

uint32_t tt_status_count(const struct tt_snapshot *s, uint8_t coord_state)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->nmembers; i++)
        n += s->members[i].state == coord_state && !s->members[i].left;
    return n;
}

uint32_t tt_status_left(const struct tt_snapshot *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->nmembers; i++)
        n += s->members[i].left;
    return n;
}

double tt_status_slowest(const struct tt_snapshot_links *l)
{
    double least = 0;

    for (uint32_t k = 0; l->n > 1 && k < l->n; k++) {
        const double rate = l->bytes_per_s[(size_t)l->order[k] * l->n + l->order[(k + 1) % l->n]];

        if (k == 0 || rate < least)
            least = rate;
    }
    return least;
}

/* ---- JSON ---- */

static void json_add(struct json_object *to, const char *key, struct json_object *value)
{
    json_object_object_add(to, key, value);
}

static struct json_object *json_number(uint64_t n)
{
    return json_object_new_uint64(n);
}

static struct json_object *truth(bool is)
{
    return json_object_new_boolean(is);
}

static struct json_object *json_seconds(uint64_t ns)
{
    char text[32];

    snprintf(text, sizeof text, "%.6f", (double)ns / 1e9);
    return json_object_new_double_s((double)ns / 1e9, text);
}

static struct json_object *text(const char *of_anybody)
{
    char clean[TT_TEXT_CLEAN_BYTES];

    return json_object_new_string(tt_text_clean(clean, sizeof clean, of_anybody));
}

static void add_mismatch(struct json_object *o, const struct tt_coord_result *r)
{
    const struct tt_mismatch m = {
        .differs = r->differs, .id = r->id, .value = r->value, .other = r->other, .also = r->also
    };
    struct json_object *members = json_object_new_array();
    char sentence[TT_MISMATCH_BYTES];

    json_object_array_add(members, json_number(r->id));
    json_object_array_add(members, json_number(r->other));
    json_add(o, "members", members);
    json_add(o, "why", json_object_new_string(tt_mismatch_text(sentence, &m)));
}

static struct json_object *json_last(const struct tt_coord_result *r)
{
    struct json_object *o;

    if (r->round == 0)
        return NULL;
    o = json_object_new_object();
    json_add(o, "round", json_number(r->round));
    json_add(o, "outcome", json_object_new_string(r->is_view ? "view" : round_outcome(r->what)));
    json_add(o, "epoch", json_number(r->epoch));
    if (!r->is_view && r->what != TT_ROUND_MISMATCH)
        json_add(o, "value", json_number(r->value));
    if (r->what == TT_ROUND_MISMATCH)
        add_mismatch(o, r);
    return o;
}

/* null before the first epoch, and from a restart until the next epoch. */
static struct json_object *json_cause(const struct tt_coord_cause *cause)
{
    char why[TT_STATUS_CAUSE_BYTES];
    struct json_object *o;

    if (*tt_status_cause(why, cause) == '\0')
        return NULL;
    o = json_object_new_object();
    json_add(o, "came", json_number(cause->came));
    json_add(o, "lost", json_number(cause->lost));
    json_add(o, "left", json_number(cause->left));
    json_add(o, "out", json_number(cause->out));
    json_add(o, "revoked_by", cause->revoker ? json_number(cause->revoker) : NULL);
    json_add(o, "ordered", truth(cause->ordered));
    json_add(o, "why", json_object_new_string(why));
    return o;
}

/* The result of poll, except that lost members and those that left are separate. */
static struct json_object *json_news(const struct tt_membership *n, uint32_t left)
{
    struct json_object *o = json_object_new_object();

    json_add(o, "newcomers", json_number(n->newcomers));
    json_add(o, "lost", json_number(n->lost > left ? n->lost - left : 0));
    json_add(o, "left", json_number(left));
    json_add(o, "leaving", json_number(n->leaving));
    json_add(o, "revoked", truth(n->revoked));
    return o;
}

static struct json_object *json_member(const struct tt_snapshot_member *m)
{
    struct json_object *o = json_object_new_object();

    json_add(o, "id", json_number(m->id));
    json_add(o, "state", json_object_new_string(tt_status_of(m)));
    json_add(o, "connected", truth(m->connected));
    json_add(o, "leaving", truth(m->leaving));
    json_add(o, "call", m->called ? json_object_new_string(tt_call_name(m->what)) : NULL);
    json_add(o, "group", json_number(m->group));
    json_add(o, "role", json_number(m->role));
    json_add(o, "rank", m->rank == TT_COORD_NO_RANK ? NULL : json_number(m->rank));
    json_add(o, "silent_s", json_seconds(m->silent_ns));
    json_add(o, "address", text(m->address));
    return o;
}

/* Returns null for 0. */
static struct json_object *real(double s)
{
    char text[32];

    snprintf(text, sizeof text, "%.9f", s);
    return s > 0 ? json_object_new_double_s(s, text) : NULL;
}

static struct json_object *json_latency(const struct tt_snapshot_links *l)
{
    struct json_object *rows = l->latency_s ? json_object_new_array() : NULL;

    for (uint32_t i = 0; rows && i < l->n; i++) {
        struct json_object *row = json_object_new_array();

        for (uint32_t k = 0; k < l->n; k++)
            json_object_array_add(row, i == k ? NULL : real(l->latency_s[(size_t)i * l->n + k]));
        json_object_array_add(rows, row);
    }
    return rows;
}

static struct json_object *json_links(const struct tt_snapshot_links *l)
{
    struct json_object *o, *ids, *rows, *order;

    if (l->n == 0)
        return NULL;
    o = json_object_new_object();
    ids = json_object_new_array();
    rows = json_object_new_array();
    order = json_object_new_array();
    for (uint32_t i = 0; i < l->n; i++) {
        struct json_object *row = json_object_new_array();

        json_object_array_add(ids, json_number(l->ids[i]));
        json_object_array_add(order, json_number(l->order[i]));
        for (uint32_t k = 0; k < l->n; k++)
            json_object_array_add(
                row, i == k ? NULL : json_number((uint64_t)l->bytes_per_s[(size_t)i * l->n + k]));
        json_object_array_add(rows, row);
    }
    json_add(o, "ids", ids);
    json_add(o, "bytes_per_s", rows);
    json_add(o, "order", order);
    json_add(o, "latency_s", json_latency(l));
    json_add(o, "was_s", real(l->was_s));
    json_add(o, "now_s", real(l->now_s));
    json_add(o, "waits", truth(l->waits));
    json_add(o, "shape", text(l->shape));
    return o;
}

static struct json_object *json_states(const struct tt_snapshot *s)
{
    struct json_object *all = json_object_new_array();

    for (uint32_t i = 0; i < s->nstates; i++) {
        struct json_object *o = json_object_new_object();

        json_add(o, "role", s->states[i].scope ? json_number(s->states[i].scope - 1u) : NULL);
        json_add(o, "revision", json_number(s->states[i].revision));
        json_add(o, "hash", text(s->states[i].hash));
        json_add(o, "moving", truth(s->states[i].moving));
        json_object_array_add(all, o);
    }
    return all;
}

static struct json_object *json_by_kind(const uint64_t *counts)
{
    struct json_object *o = json_object_new_object();

    if (counts[0])
        json_add(o, "none", json_number(counts[0]));
    for (uint8_t kind = 1; kind < TT_ELMSG_KINDS; kind++)
        if (counts[kind])
            json_add(o, tt_elmsg_name(kind), json_number(counts[kind]));
    return o;
}

static struct json_object *json_journal(const struct tt_snapshot_counters *c)
{
    struct json_object *o = json_object_new_object();

    json_add(o, "records", json_number(c->records));
    json_add(o, "bytes", json_number(c->record_bytes));
    json_add(o, "commits", json_number(c->commits));
    json_add(o, "commit_s", json_seconds(c->commit_ns));
    json_add(o, "longest_commit_s", json_seconds(c->commit_most_ns));
    json_add(o, "replaced", json_number(c->replaced));
    return o;
}

static struct json_object *json_counters(const struct tt_snapshot_counters *c)
{
    struct json_object *o = json_object_new_object(), *refused = json_object_new_object(),
                       *lost = json_object_new_object();

    for (uint8_t i = 0; i < TT_REFUSAL_KINDS; i++)
        json_add(refused, tt_status_refusal(i), json_number(c->refused[i]));
    for (uint8_t i = 0; i < TT_LOSSES; i++)
        if (i != TT_LOSS_LEFT)
            json_add(lost, tt_status_loss(i), json_number(c->lost[i]));
    json_add(o, "left", json_number(c->lost[TT_LOSS_LEFT]));
    json_add(o, "lost", lost);
    json_add(o, "accepted", json_number(c->accepted));
    json_add(o, "refused", refused);
    json_add(o, "taken", json_by_kind(c->taken));
    json_add(o, "sent", json_by_kind(c->sent));
    json_add(o, "taken_bytes", json_number(c->taken_bytes));
    json_add(o, "sent_bytes", json_number(c->sent_bytes));
    json_add(o, "slowed", json_number(c->slowed));
    json_add(o, "stalls", json_number(c->stalls));
    json_add(o, "journal", json_journal(c));
    return o;
}

static struct json_object *json_events(const struct tt_snapshot *s)
{
    struct json_object *all = json_object_new_array();

    for (uint32_t i = 0; i < s->nevents; i++) {
        struct json_object *o = json_object_new_object();

        json_add(o, "number", json_number(s->events[i].number));
        json_add(o, "unix_ms", json_object_new_int64(s->events[i].unix_ms));
        json_add(o, "text", text(s->events[i].text));
        json_object_array_add(all, o);
    }
    return all;
}

static void add_state(struct json_object *all, const struct tt_snapshot *s)
{
    json_add(all, "run", text(s->run));
    json_add(all, "version", json_object_new_string(tutti_version()));
    json_add(all, "unix_ms", json_object_new_int64(s->unix_ms));
    json_add(all, "standing_by", truth(false));
    json_add(all, "started_unix_ms", json_object_new_int64(s->started_unix_ms));
    json_add(all, "starts", json_number(s->starts));
    json_add(all, "epoch", json_number(s->epoch));
    json_add(all, "round", json_number(s->round));
    json_add(all, "lease_s", json_seconds(s->lease_ns));
    json_add(all, "grace_s", json_seconds(s->grace_ns));
    json_add(all, "nroles", json_number(s->nroles));
    json_add(all, "members_max", json_number(s->members_max));
    json_add(all, "proposing", truth(s->proposing));
    json_add(all, "querying", truth(s->querying));
    json_add(all, "revoked", truth(s->revoked));
    json_add(all, "revoked_by", s->revoked && s->revoker ? json_number(s->revoker) : NULL);
    json_add(all, "began", json_cause(&s->cause));
    json_add(all, "last", json_last(&s->last));
    json_add(all, "news", json_news(&s->news, tt_status_left(s)));
    json_add(all, "connections", json_number(s->connections));
    json_add(all, "strangers", json_number(s->strangers));
}

static bool write_object(struct json_object *all, FILE *to)
{
    const char *text = json_object_to_json_string_ext(all, JSON_C_TO_STRING_NOSLASHESCAPE);

    if (text)
        fprintf(to, "%s\n", text);
    json_object_put(all);
    return text;
}

bool tt_status_json(const struct tt_snapshot *s, FILE *to)
{
    struct json_object *all = json_object_new_object(), *members = json_object_new_array();

    add_state(all, s);
    for (uint32_t i = 0; i < s->nmembers; i++)
        json_object_array_add(members, json_member(&s->members[i]));
    json_add(all, "members", members);
    json_add(all, "shared_state", json_states(s));
    json_add(all, "links", json_links(&s->links));
    json_add(all, "counters", json_counters(&s->counters));
    json_add(all, "events", json_events(s));
    return write_object(all, to);
}

bool tt_status_standby_json(const struct tt_standby *s, FILE *to)
{
    struct json_object *all = json_object_new_object();

    json_add(all, "run", text(s->run));
    json_add(all, "version", json_object_new_string(tutti_version()));
    json_add(all, "unix_ms", json_object_new_int64(s->unix_ms));
    json_add(all, "standing_by", truth(true));
    json_add(all, "since_unix_ms", json_object_new_int64(s->since_unix_ms));
    json_add(all, "leader", *s->leader ? text(s->leader) : NULL);
    return write_object(all, to);
}
