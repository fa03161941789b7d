/* Copies the coordinator's state to a snapshot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/internal.h"
#include "ringorder/ring_predict.h"
#include "reduce/hash.h"

_Static_assert(TT_HASH_TEXT_BYTES <= TT_SNAPSHOT_HASH_BYTES, "a hash must fit");

static const char *member_address(const struct tt_coord_member *m)
{
    const struct tt_conn *conn;

    if (!m->conn)
        return "";
    conn = (const struct tt_conn *)(const void *)((const char *)m->conn -
                                                  offsetof(struct tt_conn, core));
    return conn->address;
}

static void show_member(const struct tt_coordinator *c, const struct tt_coord_member *m,
                        struct tt_snapshot_member *out)
{
    out->id = m->id;
    out->state = m->state;
    out->left = m->state == TT_COORD_LOST && m->loss == TT_LOSS_LEFT;
    out->connected = m->conn != NULL;
    out->leaving = m->leaving;
    out->called = m->called && m->state != TT_COORD_LOST;
    out->what = m->what;
    out->group = m->group;
    out->role = m->role;
    out->rank = m->rank;
    out->silent_ns = c->core_ns - m->heard_ns;
    snprintf(out->address, sizeof out->address, "%s", member_address(m));
}

/* Copies the first scopes that have a state. */
static void show_states(const struct tt_coord *core, struct tt_snapshot *s)
{
    for (uint16_t i = 0; i < TT_SYNC_SCOPES && s->nstates < TT_SNAPSHOT_STATES; i++) {
        const struct tt_coord_scope *scope = &core->scopes[i];
        struct tt_snapshot_state *out = &s->states[s->nstates];

        if (!scope->known)
            continue;
        out->scope = i;
        out->moving = scope->state == TT_COORD_SYNC_MOVING;
        out->revision = scope->revision;
        tt_hash_text(&scope->hash, out->hash);
        s->nstates++;
    }
}

static double ring_seconds(uint64_t ns)
{
    return ns == TT_RING_NONE ? 0 : (double)ns / 1e9;
}

/* Without memory, no links are shown. */
static void show_links(const struct tt_coord_ring *r, struct tt_snapshot_links *out)
{
    const size_t n = r->n;

    if (!r->ordered)
        return;
    out->ids = malloc(n * sizeof *out->ids);
    out->order = malloc(n * sizeof *out->order);
    out->bytes_per_s = malloc(n * n * sizeof *out->bytes_per_s);
    out->latency_s = malloc(n * n * sizeof *out->latency_s);
    if (!out->ids || !out->order || !out->bytes_per_s || !out->latency_s)
        return;
    for (size_t i = 0; i < n * n; i++) {
        out->bytes_per_s[i] = (double)r->rate[i];
        out->latency_s[i] = ring_seconds(r->latency[i]);
    }
    memcpy(out->ids, r->ids, n * sizeof *out->ids);
    memcpy(out->order, r->worth ? r->order : r->now, n * sizeof *out->order);
    out->was_s = ring_seconds(r->was_ns);
    out->now_s = ring_seconds(r->worth ? r->best_ns : r->was_ns);
    out->waits = r->waits;
    out->shape = tt_ring_shape_name((enum tt_ring_shape)(r->worth ? r->shape : r->was_shape));
    out->n = r->n;
}

void tt_show(struct tt_coordinator *c)
{
    const struct tt_coord *core = &c->core;
    struct tt_snapshot *s = tt_snapshot_create(core->nmembers, TT_SNAPSHOT_EVENTS);

    if (!s)
        return; /* readers get the previous snapshot */
    memcpy(s->run, c->run, sizeof s->run);
    s->unix_ms = tt_event_log_unix_ms();
    s->started_unix_ms = c->started_unix_ms;
    s->starts = core->starts;
    s->epoch = core->epoch;
    s->round = core->round;
    s->lease_ns = c->conf.lease_ns;
    s->grace_ns = c->conf.grace_ns;
    s->nroles = core->nroles;
    s->members_max = c->conf.members_max;
    s->proposing = tt_coord_is_proposing(core);
    s->querying = core->querying && !core->decided;
    s->revoked = core->revoked;
    s->revoker = core->revoker;
    s->cause = core->cause;
    s->last = core->last;
    s->news = core->news;
    for (int state = 0; state < TT_CONN_STATES; state++)
        s->connections += c->counts[state];
    s->strangers = c->counts[TT_CONN_UNAUTHENTICATED];
    s->counters = c->chronicle.counters;
    for (uint32_t i = 0; i < core->nmembers; i++)
        show_member(c, &core->conf.members[i], &s->members[i]);
    show_states(core, s);
    show_links(&core->ring, &s->links);
    s->nevents = tt_event_log_events(&c->chronicle, s->events);
    tt_board_hang(c->board, s);
}
