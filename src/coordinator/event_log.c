#include "coordinator/event_log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "coordinator/status.h"

int64_t tt_event_log_unix_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void tt_event_log_add(struct tt_event_log *c, const char *fmt, ...)
{
    struct tt_snapshot_event *e = &c->ring[++c->nevents % TT_SNAPSHOT_EVENTS];
    va_list ap;

    e->number = c->nevents;
    e->unix_ms = tt_event_log_unix_ms();
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    tt_log(TT_LOG_INFO, "coordinator: %s", e->text);
}

/* A member that leaves is not reported as a loss. */
static void add_loss(struct tt_event_log *c, const struct tt_elmsg *m)
{
    static const char *const texts[] = {
        [TT_LOSS_DIED] = "its connection closed, and it did not reconnect",
        [TT_LOSS_SILENT] = "it was silent for longer than the lease (distant ones have more time)",
        [TT_LOSS_CUT] = "other members could not reach it",
        [TT_LOSS_ILLEGAL] = "it violated the protocol",
        [TT_LOSS_AHEAD] = "the revision of its shared state is ahead of that of the other members",
        [TT_LOSS_KEYS] = "the arrays of its shared state differ from those of the other members",
        [TT_LOSS_NOT_TAKEN] =
            "it could only send its shared state (strategy send), but another state was selected",
        [TT_LOSS_FALSE] = "the shared state that it sent did not match its offer",
    };

    _Static_assert(sizeof texts / sizeof *texts == TT_LOSSES, "each loss has a text");

    c->counters.lost[m->what]++; /* below TT_LOSSES in a record */
    if (m->what == TT_LOSS_LEFT)
        tt_event_log_add(c, "member %" PRIu64 " left", m->id);
    else
        tt_event_log_add(c, "member %" PRIu64 " is lost: %s", m->id, texts[m->what]);
}

/* Rounds with the requested result are not reported. */
static void add_result(struct tt_event_log *c, const struct tt_elmsg *m)
{
    const struct tt_mismatch mismatch = {
        .differs = m->flags, .id = m->id, .value = m->value, .other = m->other, .also = m->also
    };
    char text[TT_MISMATCH_BYTES];

    if (m->what == TT_ROUND_MISMATCH)
        tt_event_log_add(c, "round %" PRIu64 ": %s", m->number, tt_mismatch_text(text, &mismatch));
    else if (m->what == TT_ROUND_TOO_FEW)
        tt_event_log_add(
            c, "round %" PRIu64 ": only %" PRIu64 " members would remain, fewer than `least`",
            m->number, m->value);
}

static void add_view(struct tt_event_log *c, const struct tt_elmsg *m,
                     const struct tt_coord_cause *cause)
{
    char why[TT_STATUS_CAUSE_BYTES];

    tt_event_log_add(c, "epoch %" PRIu64 " begins with %" PRIu32 " member%s: %s", m->epoch,
                     m->nlist, m->nlist == 1 ? "" : "s", tt_status_cause(why, cause));
}

void tt_event_log_revoked(struct tt_event_log *c, uint64_t epoch, uint64_t revoker)
{
    if (revoker)
        tt_event_log_add(c, "member %" PRIu64 " revoked epoch %" PRIu64, revoker, epoch);
    else
        tt_event_log_add(c, "epoch %" PRIu64 " was revoked", epoch);
}

void tt_event_log_mismatch(struct tt_event_log *c, const struct tt_coord_result *apart)
{
    const struct tt_mismatch mismatch = { .differs = apart->differs,
                                          .id = apart->id,
                                          .value = apart->value,
                                          .other = apart->other,
                                          .op = apart->op };
    char text[TT_MISMATCH_BYTES];

    tt_event_log_add(c, "epoch %" PRIu64 " is over: %s", apart->epoch,
                     tt_mismatch_text(text, &mismatch));
}

void tt_event_log_record(struct tt_event_log *c, const void *data, size_t bytes, const char *from,
                         const struct tt_coord_cause *cause)
{
    struct tt_elmsg m;

    c->counters.records++;
    c->counters.record_bytes += bytes;
    if (!tt_elmsg_read(&m, data, bytes))
        return;
    switch (m.kind) {
    case TT_ELMSG_LOG_START:
        tt_event_log_add(c, "the coordinator of run \"%s\" started; start number %" PRIu64, m.text,
                         m.number);
        return;
    case TT_ELMSG_LOG_MEMBER:
        tt_event_log_add(c,
                         "member %" PRIu64 " joined from %s (group %" PRIu32 ", role %" PRIu32 ")",
                         m.id, from, m.group, m.role);
        return;
    case TT_ELMSG_LOG_GONE:
        tt_event_log_add(c, "member %" PRIu64 " was removed before its admission", m.id);
        return;
    case TT_ELMSG_LOG_LOST:
        add_loss(c, &m);
        return;
    case TT_ELMSG_LOG_VIEW:
        add_view(c, &m, cause);
        return;
    case TT_ELMSG_LOG_RESULT:
        add_result(c, &m);
        return;
    default:
        return;
    }
}

static uint8_t message_kind(const void *data, size_t bytes)
{
    const uint8_t *b = data;

    if (bytes < 2 || b[1] >= TT_ELMSG_KINDS ||
        (b[0] != TT_ELASTIC_VERSION && b[1] != TT_ELMSG_REFUSED))
        return 0;
    return b[1]; /* other versions are refused with a message of that version */
}

void tt_event_log_taken(struct tt_event_log *c, const void *data, size_t bytes)
{
    c->counters.taken[message_kind(data, bytes)]++;
    c->counters.taken_bytes += bytes;
}

void tt_event_log_sent(struct tt_event_log *c, const void *data, size_t bytes)
{
    const uint8_t kind = message_kind(data, bytes);

    c->counters.sent[kind]++;
    c->counters.sent_bytes += bytes;
    c->counters.refused[TT_REFUSAL_PROTOCOL] +=
        kind == TT_ELMSG_REFUSED && ((const uint8_t *)data)[2] != TUTTI_OK;
}

void tt_event_log_commit(struct tt_event_log *c, uint64_t took_ns)
{
    uint32_t at = 0;

    while (at < TT_SNAPSHOT_BUCKETS && took_ns > tt_snapshot_bucket_ns[at])
        at++;
    c->counters.commits++;
    c->counters.commit_ns += took_ns;
    c->counters.commit_buckets[at]++;
    if (took_ns > c->counters.commit_most_ns)
        c->counters.commit_most_ns = took_ns;
}

uint32_t tt_event_log_events(const struct tt_event_log *c, struct tt_snapshot_event *out)
{
    const uint32_t n = c->nevents < TT_SNAPSHOT_EVENTS ? (uint32_t)c->nevents : TT_SNAPSHOT_EVENTS;

    for (uint32_t i = 0; i < n; i++)
        out[i] = c->ring[(c->nevents - n + 1 + i) % TT_SNAPSHOT_EVENTS];
    return n;
}
