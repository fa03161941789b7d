#include "coordinator/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include "coordinator/status.h"
#include "coordinator/text.h"

/* Writes the header of a family. */
static void begin_family(FILE *to, const char *name, const char *type, const char *help)
{
    fprintf(to, "# HELP tutti_%s %s\n# TYPE tutti_%s %s\n", name, help, name, type);
}

static void put_count(FILE *to, const char *name, const char *type, const char *help,
                      uint64_t value)
{
    begin_family(to, name, type, help);
    fprintf(to, "tutti_%s %" PRIu64 "\n", name, value);
}

static void put_real(FILE *to, const char *name, const char *help, double value)
{
    begin_family(to, name, "gauge", help);
    fprintf(to, "tutti_%s %.13g\n", name, value);
}

/* Writes a label's value, escaped: the text may come from an unauthenticated peer. */
static void put_label(FILE *to, const char *text)
{
    char clean[TT_TEXT_CLEAN_BYTES];

    for (const char *c = tt_text_clean(clean, sizeof clean, text); *c; c++) {
        if (*c == '"' || *c == '\\')
            fputc('\\', to);
        fputc(*c, to);
    }
}

static void write_coordinator(const char *run, bool stands_by, FILE *to)
{
    begin_family(to, "coordinator_info", "gauge",
                 "Name of the run, and version of the coordinator.");
    fputs("tutti_coordinator_info{run=\"", to);
    put_label(to, run);
    fprintf(to, "\",version=\"%s\"} 1\n", tutti_version());
    put_count(to, "coordinator_standing_by", "gauge",
              "1 while this coordinator stands by for another one.", stands_by);
}

static void write_run(const struct tt_snapshot *s, FILE *to)
{
    write_coordinator(s->run, false, to);
    put_real(to, "coordinator_start_time_seconds",
             "Start time of this coordinator, in seconds since 1970.",
             (double)s->started_unix_ms / 1e3);
    put_count(to, "coordinator_starts", "gauge",
              "Starts of coordinators in this run, including this one.", s->starts);
    put_count(to, "epoch", "gauge", "Epoch of the view; 0: no view yet.", s->epoch);
    put_count(to, "round", "gauge", "Number of the current round.", s->round);
    put_count(to, "proposing", "gauge", "1 while a view with newcomers is proposed.", s->proposing);
    put_count(to, "querying", "gauge",
              "1 while the coordinator queries the members' operations after a loss.", s->querying);
    put_count(to, "revoked", "gauge", "1 if the epoch is revoked.", s->revoked);
    put_real(to, "lease_seconds", "Silence after which a member is lost.",
             (double)s->lease_ns / 1e9);
}

static void write_lost(const uint64_t lost[TT_LOSSES], FILE *to)
{
    begin_family(to, "members_lost_total", "counter",
                 "Members of views that were lost, by reason.");
    for (uint8_t loss = 0; loss < TT_LOSSES; loss++)
        if (loss != TT_LOSS_LEFT)
            fprintf(to, "tutti_members_lost_total{reason=\"%s\"} %" PRIu64 "\n",
                    tt_status_loss(loss), lost[loss]);
    put_count(to, "members_left_total", "counter", "Members of views that left.",
              lost[TT_LOSS_LEFT]);
}

static void write_members(const struct tt_snapshot *s, FILE *to)
{
    uint64_t connected = 0, leaving = 0, silent_ns = 0;

    for (uint32_t i = 0; i < s->nmembers; i++) {
        const struct tt_snapshot_member *m = &s->members[i];

        connected += m->connected;
        leaving += m->leaving;
        if (m->state != TT_COORD_LOST && m->silent_ns > silent_ns)
            silent_ns = m->silent_ns;
    }
    begin_family(to, "members", "gauge", "Members by state.");
    for (uint8_t state = TT_COORD_WAITING; state < TT_COORD_STATES; state++)
        fprintf(to, "tutti_members{state=\"%s\"} %" PRIu32 "\n", tt_status_state(state),
                tt_status_count(s, state));
    fprintf(to, "tutti_members{state=\"" TT_STATUS_LEFT "\"} %" PRIu32 "\n", tt_status_left(s));
    write_lost(s->counters.lost, to);
    put_count(to, "members_connected", "gauge", "Members with an open connection.", connected);
    put_count(to, "members_leaving", "gauge", "Members that announced leaving.", leaving);
    put_count(to, "members_limit", "gauge", "Maximum number of members in the run.",
              s->members_max);
    put_count(to, "newcomers", "gauge", "Newcomers that wait for admission.", s->news.newcomers);
    put_real(to, "member_longest_silence_seconds",
             "Longest time since the last message of a member that has not "
             "left and is not lost.",
             (double)silent_ns / 1e9);
}

static void write_connections(const struct tt_snapshot *s, FILE *to)
{
    const struct tt_snapshot_counters *c = &s->counters;

    put_count(to, "connections", "gauge", "Open connections.", s->connections);
    put_count(to, "strangers", "gauge", "Open connections that have not joined.", s->strangers);
    put_count(to, "connections_accepted_total", "counter", "Accepted connections.", c->accepted);
    begin_family(to, "connections_refused_total", "counter",
                 "Connections that the coordinator closed, by reason.");
    for (uint8_t i = 0; i < TT_REFUSAL_KINDS; i++)
        fprintf(to, "tutti_connections_refused_total{reason=\"%s\"} %" PRIu64 "\n",
                tt_status_refusal(i), c->refused[i]);
    put_count(to, "connections_slowed_total", "counter",
              "Number of times that a connection exceeded its rate limit "
              "and was delayed.",
              c->slowed);
    put_count(to, "coordinator_stalls_total", "counter",
              "Number of stalls of the coordinator itself.", c->stalls);
}

static void write_kinds(FILE *to, const char *direction, const uint64_t *counts)
{
    for (uint8_t kind = 0; kind < TT_ELMSG_KINDS; kind++)
        if (kind == 0 || counts[kind])
            fprintf(to, "tutti_messages_total{direction=\"%s\",kind=\"%s\"} %" PRIu64 "\n",
                    direction, kind ? tt_elmsg_name(kind) : "none", counts[kind]);
}

static void write_messages(const struct tt_snapshot_counters *c, FILE *to)
{
    begin_family(to, "messages_total", "counter", "Messages by kind; \"none\": invalid messages.");
    write_kinds(to, "taken", c->taken);
    write_kinds(to, "sent", c->sent);
    begin_family(to, "message_bytes_total", "counter", "Bytes of messages.");
    fprintf(to, "tutti_message_bytes_total{direction=\"taken\"} %" PRIu64 "\n", c->taken_bytes);
    fprintf(to, "tutti_message_bytes_total{direction=\"sent\"} %" PRIu64 "\n", c->sent_bytes);
}

static void write_journal(const struct tt_snapshot_counters *c, FILE *to)
{
    uint64_t sum = 0;

    put_count(to, "journal_records_total", "counter", "Records written to the journal.",
              c->records);
    put_count(to, "journal_bytes_total", "counter", "Bytes written to the journal.",
              c->record_bytes);
    put_count(to, "journal_replaced_total", "counter",
              "Number of times that the journal was replaced by a shorter "
              "one.",
              c->replaced);
    begin_family(to, "journal_commit_seconds", "histogram", "Time to make the journal durable.");
    for (uint32_t i = 0; i < TT_SNAPSHOT_BUCKETS; i++) {
        sum += c->commit_buckets[i];
        fprintf(to, "tutti_journal_commit_seconds_bucket{le=\"%g\"} %" PRIu64 "\n",
                (double)tt_snapshot_bucket_ns[i] / 1e9, sum);
    }
    sum += c->commit_buckets[TT_SNAPSHOT_BUCKETS];
    fprintf(to, "tutti_journal_commit_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", sum);
    fprintf(to,
            "tutti_journal_commit_seconds_sum %.9f\ntutti_journal_commit_seconds_count %" PRIu64
            "\n",
            (double)c->commit_ns / 1e9, sum);
    put_real(to, "journal_longest_commit_seconds", "Longest time to make the journal durable.",
             (double)c->commit_most_ns / 1e9);
}

static void write_states(const struct tt_snapshot *s, FILE *to)
{
    if (s->nstates == 0)
        return;
    begin_family(to, "shared_state_revision", "gauge",
                 "Revision of the shared state after its last sync; role \"all\": of "
                 "the whole view.");
    for (uint32_t i = 0; i < s->nstates; i++) {
        fputs("tutti_shared_state_revision{role=\"", to);
        if (s->states[i].scope)
            fprintf(to, "%u", s->states[i].scope - 1u);
        else
            fputs("all", to);
        fprintf(to, "\"} %" PRIu64 "\n", s->states[i].revision);
    }
}

static void write_ring(const struct tt_snapshot_links *l, FILE *to)
{
    put_real(to, "ring_slowest_link_bytes_per_second",
             "Rate of the slowest link of the measured ring.", tt_status_slowest(l));
    begin_family(to, "ring_predicted_seconds", "gauge",
                 "Predicted time of an all-reduce: in the order at the time of the "
                 "measurement (was), and in the order of the ring (ring).");
    fprintf(to,
            "tutti_ring_predicted_seconds{order=\"was\"} "
            "%.9g\ntutti_ring_predicted_seconds{order=\"ring\"} %.9g\n",
            l->was_s, l->now_s);
    put_count(to, "ring_waits", "gauge",
              "1 while the order of the ring waits for the epoch that adopts it.", l->waits);
}

void tt_metrics_write(const struct tt_snapshot *s, FILE *to)
{
    write_run(s, to);
    write_members(s, to);
    write_connections(s, to);
    write_messages(&s->counters, to);
    write_journal(&s->counters, to);
    write_states(s, to);
    if (s->links.n > 1)
        write_ring(&s->links, to);
}

void tt_metrics_write_standby(const struct tt_standby *s, FILE *to)
{
    write_coordinator(s->run, true, to);
}
