#include "coordinator/page.h"

#include <inttypes.h>
#include "coordinator/page_frame.h"
#include "coordinator/ring_svg.h"
#include "coordinator/status.h"

/* ---- small functions ------------------------------------------------------------------------- */

static void put_span(FILE *to, uint64_t ns)
{
    const double s = (double)ns / 1e9;

    if (s < 60)
        fprintf(to, "%.1f s", s);
    else if (s < 3600)
        fprintf(to, "%.0f min %.0f s", (double)(uint64_t)(s / 60), (double)((uint64_t)s % 60));
    else if (s < 86400)
        fprintf(to, "%.0f h %.0f min", (double)(uint64_t)(s / 3600),
                (double)((uint64_t)(s / 60) % 60));
    else
        fprintf(to, "%.0f d %.0f h", (double)(uint64_t)(s / 86400),
                (double)((uint64_t)(s / 3600) % 24));
}

static void put_bytes(FILE *to, uint64_t bytes)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    double value = (double)bytes;
    int unit = 0;

    for (; value >= 1000 && unit < 4; unit++)
        value /= 1000;
    fprintf(to, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

/* ---- content --------------------------------------------------------------------------------- */

#define WHO_BYTES 64

static const char *who_revoked(char out[WHO_BYTES], const struct tt_snapshot *s)
{
    if (s->revoker)
        snprintf(out, WHO_BYTES, "Member %" PRIu64 " revoked the epoch", s->revoker);
    else
        snprintf(out, WHO_BYTES, "The epoch was revoked");
    return out;
}

/* Writes a summary of the run's state. */
static void write_sentence(const struct tt_snapshot *s, FILE *to)
{
    const uint32_t nview = tt_status_count(s, TT_COORD_IN_VIEW),
                   nlost = tt_status_count(s, TT_COORD_LOST), nleft = tt_status_left(s);
    uint32_t away = 0;
    char who[WHO_BYTES];

    for (uint32_t i = 0; i < s->nmembers; i++)
        away += s->members[i].state == TT_COORD_IN_VIEW && !s->members[i].connected;
    if (s->nmembers == 0)
        fputs("<p class=\"soft\">No member has joined yet.</p>\n", to);
    else if (s->querying && !nlost && !nleft)
        fprintf(to, "<p class=\"wait\">%s; the coordinator is querying all members.</p>\n",
                who_revoked(who, s));
    else if (s->querying)
        fprintf(to, "<p class=\"wait\">Members %s; the coordinator is querying the others.</p>\n",
                nlost ? "were lost" : "left");
    else if (s->proposing)
        fputs("<p class=\"wait\">A view with newcomers is proposed; the members are connecting to "
              "them.</p>\n",
              to);
    else if (away)
        fprintf(to, "<p class=\"wait\">%" PRIu32 " members of the view are disconnected.</p>\n",
                away);
    else if (nlost)
        fprintf(to, "<p class=\"wait\">%s lost; the next epoch excludes %s.</p>\n",
                nlost == 1 ? "A member was" : "Members were", nlost == 1 ? "it" : "them");
    else if (nleft)
        fprintf(to, "<p class=\"wait\">%s left; the next epoch excludes %s.</p>\n",
                nleft == 1 ? "A member" : "Members", nleft == 1 ? "it" : "them");
    else if (s->revoked)
        fprintf(to, "<p class=\"wait\">%s: no operation starts before the next epoch.</p>\n",
                who_revoked(who, s));
    else if (nview == 0)
        fputs("<p class=\"wait\">All members wait for the first view.</p>\n", to);
    else
        fputs("<p class=\"good\">All members of the view are connected.</p>\n", to);
}

/* Writes nothing if the cause is unknown. */
static void write_cause(const struct tt_snapshot *s, FILE *to)
{
    char why[TT_STATUS_CAUSE_BYTES];

    if (*tt_status_cause(why, &s->cause))
        fprintf(to, "<p class=\"soft\">Epoch %" PRIu64 " began; cause: %s.</p>\n", s->epoch, why);
}

static void begin_figure(FILE *to, const char *what)
{
    fprintf(to, "<div><dt>%s</dt><dd>", what);
}

static void put_figure(FILE *to, const char *what, uint64_t n)
{
    begin_figure(to, what);
    fprintf(to, "%" PRIu64 "</dd></div>\n", n);
}

static void write_figures(const struct tt_snapshot *s, FILE *to)
{
    fputs("<dl class=\"figures\">\n", to);
    put_figure(to, "epoch", s->epoch);
    put_figure(to, "round", s->round);
    put_figure(to, "in the view", tt_status_count(s, TT_COORD_IN_VIEW));
    put_figure(to, "waiting",
               (uint64_t)tt_status_count(s, TT_COORD_WAITING) +
                   tt_status_count(s, TT_COORD_CANDIDATE));
    put_figure(to, "left", tt_status_left(s));
    put_figure(to, "lost", tt_status_count(s, TT_COORD_LOST));
    begin_figure(to, "running for");
    put_span(to, s->unix_ms > s->started_unix_ms
                     ? (uint64_t)(s->unix_ms - s->started_unix_ms) / 1000 * 1000000000ull
                     : 0);
    fputs("</dd></div>\n", to);
    fputs("</dl>\n", to);
}

static void html_member(const struct tt_snapshot_member *m, FILE *to)
{
    static const char *const colours[TT_COORD_STATES] = { "soft", "wait", "wait", "good", "bad" };

    fprintf(to, "<tr><td class=\"n\">%" PRIu64 "</td><td class=\"%s\">%s%s%s</td><td class=\"n\">",
            m->id, m->left ? "soft" : colours[m->state < TT_COORD_STATES ? m->state : 0],
            tt_status_of(m), m->leaving && m->state != TT_COORD_LOST ? ", leaving" : "",
            m->connected || m->state == TT_COORD_LOST ? ""
                                                      : ", "
                                                        "disconnected");
    if (m->rank != TT_COORD_NO_RANK)
        fprintf(to, "%" PRIu32, m->rank);
    fprintf(to,
            "</td><td class=\"n\">%" PRIu32 "</td><td class=\"n\">%" PRIu32 "</td><td class=\"n\">",
            m->group, m->role);
    put_span(to, m->silent_ns);
    fprintf(to, "</td><td>%s</td><td>", m->called ? tt_call_name(m->what) : "");
    tt_page_frame_text(m->address, to);
    fputs("</td></tr>\n", to);
}

static void html_members(const struct tt_snapshot *s, FILE *to)
{
    const uint32_t n = s->nmembers < TT_PAGE_MEMBERS ? s->nmembers : TT_PAGE_MEMBERS;

    fprintf(to,
            "<section id=\"members\"><h2>Members <small>%" PRIu32 " of at most %" PRIu32 ", lease ",
            s->nmembers, s->members_max);
    put_span(to, s->lease_ns);
    fputs("</small></h2>\n", to);
    if (n) {
        fputs("<div class=\"wide tall\"><table><thead><tr><th class=\"n\">id</th><th>state</th><th "
              "class=\"n\">rank</th><th class=\"n\">group</th><th class=\"n\">role</th><th "
              "class=\"n\">last "
              "message</th><th>waits in</th><th>address</th></tr></thead><tbody>\n",
              to);
        for (uint32_t i = 0; i < n; i++)
            html_member(&s->members[i], to);
        fputs("</tbody></table></div>\n", to);
    } else {
        fputs("<p class=\"soft\">none</p>\n", to);
    }
    if (n < s->nmembers)
        fprintf(to,
                "<p class=\"soft\">and %" PRIu32
                " more: <a href=\"status.json\">status.json</a> lists all</p>\n",
                s->nmembers - n);
    fputs("</section>\n", to);
}

/* Writes nothing if nothing was synced. */
static void html_states(const struct tt_snapshot *s, FILE *to)
{
    if (s->nstates == 0)
        return;
    fputs("<section id=\"states\"><h2>Shared state</h2><div "
          "class=\"wide\"><table><thead><tr><th>of</th><th class=\"n\">revision</th>"
          "<th>hash</th><th></th></tr></thead><tbody>\n",
          to);
    for (uint32_t i = 0; i < s->nstates; i++) {
        if (s->states[i].scope)
            fprintf(to, "<tr><td>role %u", s->states[i].scope - 1u);
        else
            fputs("<tr><td>all", to);
        fprintf(to, "</td><td class=\"n\">%" PRIu64 "</td><td><code>", s->states[i].revision);
        tt_page_frame_text(s->states[i].hash, to);
        fprintf(to, "</code></td><td>%s</td></tr>\n", s->states[i].moving ? "is being sent" : "");
    }
    fputs("</tbody></table></div></section>\n", to);
}

static void html_ring(const struct tt_snapshot_links *l, FILE *to)
{
    fputs("<section id=\"ring\" class=\"ring\"><h2>Ring", to);
    if (l->n > 1)
        fprintf(to, " <small>%" PRIu32 " members, slowest link %.3g Mbit/s</small>", l->n,
                tt_status_slowest(l) / 125000);
    fputs("</h2>\n", to);
    if (l->was_s > 0 && l->now_s > 0 && l->now_s < l->was_s)
        fprintf(to,
                "<p class=\"soft\">An all-reduce is predicted to take %.3g s in this order, as %s, "
                "and %.3g s in the "
                "previous one.%s</p>\n",
                l->now_s, l->shape, l->was_s, l->waits ? " The next epoch adopts it." : "");
    if (l->n == 0)
        fputs("<p class=\"soft\">The bandwidth between members has not been measured yet.</p>\n",
              to);
    else if (l->n > TT_PAGE_RING_MEMBERS || !tt_ring_svg_ring(l, to))
        fputs("<p><a href=\"ring.svg\">the ring on the measured bandwidth</a></p>\n", to);
    fputs("</section>\n", to);
}

static void write_events(const struct tt_snapshot *s, FILE *to)
{
    fputs("<section id=\"events\"><h2>Events <small>the latest first, UTC</small></h2>\n", to);
    if (s->nevents == 0)
        fputs("<p class=\"soft\">none yet</p>\n", to);
    fputs("<ol class=\"events tall\">\n", to);
    for (uint32_t i = s->nevents; i > 0; i--) {
        fputs("<li>", to);
        tt_page_frame_time(s->events[i - 1].unix_ms, to);
        fputs("<span>", to);
        tt_page_frame_text(s->events[i - 1].text, to);
        fputs("</span></li>\n", to);
    }
    fputs("</ol></section>\n", to);
}

static void put_row(FILE *to, const char *what, uint64_t n)
{
    fprintf(to, "<tr><td>%s</td><td class=\"n\">%" PRIu64 "</td></tr>\n", what, n);
}

static void html_kinds(FILE *to, const char *title, const uint64_t *counts, uint64_t bytes)
{
    fprintf(to, "<table><thead><tr><th>%s</th><th class=\"n\">", title);
    put_bytes(to, bytes);
    fputs("</th></tr></thead><tbody>\n", to);
    for (uint8_t kind = 0; kind < TT_ELMSG_KINDS; kind++)
        if (counts[kind])
            put_row(to, kind ? tt_elmsg_name(kind) : "(none)", counts[kind]);
    fputs("</tbody></table>\n", to);
}

static void html_connections(const struct tt_snapshot *s, FILE *to)
{
    fputs("<table><thead><tr><th>connections</th><th></th></tr></thead><tbody>\n", to);
    put_row(to, "open", s->connections);
    put_row(to, "not joined yet", s->strangers);
    put_row(to, "accepted", s->counters.accepted);
    for (uint8_t i = 0; i < TT_REFUSAL_KINDS; i++)
        if (s->counters.refused[i]) {
            fputs("<tr><td>ended: ", to);
            fprintf(to, "%s</td><td class=\"n\">%" PRIu64 "</td></tr>\n", tt_status_refusal(i),
                    s->counters.refused[i]);
        }
    put_row(to, "slowed", s->counters.slowed);
    fputs("</tbody></table>\n", to);
}

static void html_lost(const uint64_t lost[TT_LOSSES], FILE *to)
{
    fputs("<table><thead><tr><th>members of views</th><th></th></tr></thead><tbody>\n", to);
    put_row(to, tt_status_loss(TT_LOSS_LEFT), lost[TT_LOSS_LEFT]);
    for (uint8_t loss = 0; loss < TT_LOSSES; loss++)
        if (loss != TT_LOSS_LEFT && lost[loss])
            fprintf(to, "<tr><td>lost: %s</td><td class=\"n\">%" PRIu64 "</td></tr>\n",
                    tt_status_loss(loss), lost[loss]);
    fputs("</tbody></table>\n", to);
}

static void html_journal(const struct tt_snapshot_counters *c, FILE *to)
{
    fputs("<table><thead><tr><th>journal</th><th class=\"n\">", to);
    put_bytes(to, c->record_bytes);
    fputs("</th></tr></thead><tbody>\n", to);
    put_row(to, "records", c->records);
    put_row(to, "commits", c->commits);
    if (c->commits)
        fprintf(to, "<tr><td>mean, longest</td><td class=\"n\">%.2f, %.2f ms</td></tr>\n",
                (double)c->commit_ns / (double)c->commits / 1e6, (double)c->commit_most_ns / 1e6);
    put_row(to, "replaced by a shorter one", c->replaced);
    fputs("</tbody></table>\n", to);
}

static void write_counters(const struct tt_snapshot *s, FILE *to)
{
    fputs("<section><details id=\"counters\"><summary>Counters of this start</summary>\n<div "
          "class=\"columns wide\">\n",
          to);
    html_connections(s, to);
    html_lost(s->counters.lost, to);
    html_journal(&s->counters, to);
    html_kinds(to, "messages taken", s->counters.taken, s->counters.taken_bytes);
    html_kinds(to, "messages sent", s->counters.sent, s->counters.sent_bytes);
    fputs("</div></details></section>\n", to);
}

static void begin_live(const char *run, FILE *to)
{
    fputs("<main id=\"live\">\n<h1><small>Run</small> ", to);
    tt_page_frame_text(run, to);
    fputs("</h1>\n", to);
}

static void end_live(int64_t unix_ms, FILE *to)
{
    fputs(", as of ", to);
    tt_page_frame_time(unix_ms, to);
    fputs(" UTC. <a href=\"status.json\">JSON</a>, <a "
          "href=\"metrics\">metrics</a></footer>\n</main>\n",
          to);
}

static void write_live(const struct tt_snapshot *s, FILE *to)
{
    begin_live(s->run, to);
    write_sentence(s, to);
    write_cause(s, to);
    write_figures(s, to);
    html_members(s, to);
    html_states(s, to);
    html_ring(&s->links, to);
    write_events(s, to);
    write_counters(s, to);
    fprintf(to, "<footer>Tutti %s, coordinator %" PRIu64 " of this run", tutti_version(),
            s->starts);
    end_live(s->unix_ms, to);
}

static void write_standby(const struct tt_standby *s, FILE *to)
{
    begin_live(s->run, to);
    fputs("<p class=\"wait\">This coordinator stands by", to);
    if (*s->leader) {
        fputs(": <b>", to);
        tt_page_frame_text(s->leader, to);
        fputs("</b> leads.</p>\n", to);
    } else {
        fputs("; the leader is unknown.</p>\n", to);
    }
    fputs("<p class=\"soft\">The leading coordinator shows the state of the run.</p>\n", to);
    fprintf(to, "<footer>Tutti %s, standing by for ", tutti_version());
    put_span(to, s->unix_ms > s->since_unix_ms
                     ? (uint64_t)(s->unix_ms - s->since_unix_ms) / 1000 * 1000000000ull
                     : 0);
    end_live(s->unix_ms, to);
}

void tt_page_write(const struct tt_snapshot *s, FILE *to)
{
    const char *rest = tt_page_frame_begin(s->run, to);

    write_live(s, to);
    fputs(rest, to);
}

void tt_page_write_standby(const struct tt_standby *s, FILE *to)
{
    const char *rest = tt_page_frame_begin(s->run, to);

    write_standby(s, to);
    fputs(rest, to);
}
