/* The environment of the state machines: processes, connections, the coordinator's disk, time, and
 * faults. */
#include "run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/prng.h"
#include "base/status.h"
#include "run_state.h"

#define FIRST_KINDS 13u /* number of kinds of faults in RUN_FAULTS_FIRST */
#define FAULTS_LEAST 2u /* effective faults in a history of RUN_FAULTS_ALL */
/* number of processes needed for a round of faults and for filling the groups afterwards: a
 * newcomer without mates would wait forever */
#define PEERS_FOR_FAULTS 12u
#define GRACE_NS (30 * MS)
/* time limit for all to make progress after the last fault */
#define PATIENCE_NS (30 * TT_SECOND)

void broken(struct run *r, const char *fmt, ...)
{
    va_list args;

    if (r->failed)
        return;
    va_start(args, fmt);
    vsnprintf(r->why, sizeof r->why, fmt, args);
    va_end(args);
    r->failed = true;
}

uint64_t delay(struct run *r, const struct peer *p, uint64_t most_ns)
{
    return (most_ns / 20 + tt_prng_below(&r->w.prng, most_ns)) * p->slowness;
}

int index_of(const struct run *r, const struct peer *p)
{
    return (int)(p - r->peers);
}

struct peer *peer_of_id(struct run *r, uint64_t id)
{
    for (uint32_t i = 0; i < r->npeers; i++)
        if (r->peers[i].m.id == id)
            return &r->peers[i];
    return NULL;
}

static uint64_t below(struct run *r, uint64_t bound)
{
    return tt_prng_below(&r->w.prng, bound);
}

static void plan(struct run *r, uint64_t after_ns, int kind, int a)
{
    world_plan(&r->w, r->w.now_ns + after_ns, kind, a, 0, NULL, 0);
}

/* ---- messages in flight ---- */

static size_t *waiting_of(struct run *r, int kind, int to)
{
    if (kind == TO_MEMBER)
        return &r->conns[to].down_bytes;
    if (kind == TO_COORD)
        return &r->conns[to].up_bytes;
    return kind == PEER || kind == CONTRIBUTION || kind == TRANSFER ? &r->peers[to].waiting_bytes
                                                                    : NULL;
}

void send_along(struct run *r, uint64_t at_ns, int kind, int to, const void *data, size_t bytes)
{
    const bool on_conn = kind == TO_MEMBER || kind == TO_COORD;
    size_t *waiting = waiting_of(r, kind, to),
           *most = on_conn ? &r->conn_bytes_most : &r->peer_bytes_most;

    *waiting += bytes;
    *most = *waiting > *most ? *waiting : *most;
    if (*waiting > (on_conn ? CONN_BYTES_MAX : PEER_BYTES_MAX))
        broken(r, "%zu bytes wait %s %d", *waiting, on_conn ? "on connection" : "for peer", to);
    world_plan(&r->w, at_ns, kind, to, 0, data, bytes);
}

/* Subtracts a message from the waiting bytes. */
static void arrives(struct run *r, const struct happening *h)
{
    size_t *waiting = waiting_of(r, h->kind, h->a);

    if (!waiting)
        return;
    tt_assert(*waiting >= h->bytes);
    *waiting -= h->bytes;
}

static void trace(struct run *r, const struct happening *h, struct run_sum *sum)
{
    uint64_t hash = tt_mix64(r->trace ^ h->at_ns);

    hash = tt_mix64(hash ^ ((uint64_t)(uint32_t)h->a << 32 | (uint32_t)h->b));
    hash = tt_mix64(hash ^ ((uint64_t)h->kind << 48 | h->bytes));
    for (size_t i = 0; i < h->bytes; i++)
        hash = (hash ^ h->data[i]) * 0x100000001b3ull;
    r->trace = hash;
    if (r->events <= sum->trace_max)
        sum->trace[r->events - 1] = hash;
}

uint64_t past_parting(const struct peer *from, const struct peer *to, uint64_t at_ns)
{
    const uint64_t until_ns = from->parted_ns[index_of(from->run, to)];

    return at_ns < until_ns ? until_ns : at_ns;
}

/* ---- the coordinator ---- */

static void crash(struct run *r);

/* The disk reports a failed write. The data may be stored nevertheless, if only the sync failed. */
static bool is_refused(struct run *r)
{
    if (r->w.now_ns >= r->disk_ns || below(r, 2))
        return false;
    r->disk_errors++;
    r->crashing = true;
    return below(r, 2);
}

/* Notes the calls that a record of the journal takes back. */
static void note_backs(struct run *r, const struct tt_coord_act *act)
{
    struct tt_call_name call;
    struct tt_elmsg msg;

    if (!tt_elmsg_read(&msg, act->data, act->bytes) || msg.kind != TT_ELMSG_LOG_BACK)
        return;
    for (uint32_t i = 0; i < msg.nlist; i++) {
        struct peer *p;

        tt_elmsg_next_call(&msg, &call);
        p = peer_of_id(r, call.id);
        if (p)
            p->back = call.attempt;
    }
}

/* If a record cannot be written, the coordinator crashes, and none of the following actions is
 * executed. */
static void log_record(struct run *r, const struct tt_coord_act *act)
{
    const uint32_t bytes = (uint32_t)act->bytes;

    if (is_refused(r))
        return;

    if (r->nrecords + 4 + bytes > RECORDS_BYTES) {
        broken(r, "the journal grows beyond %u bytes", RECORDS_BYTES);
        return;
    }
    memcpy(r->records + r->nrecords, &bytes, 4);
    memcpy(r->records + r->nrecords + 4, act->data, bytes);
    r->nrecords += 4 + bytes;
    note_backs(r, act);
}

/* Checks that no call that was taken back counts as a new call. */
static void check_backs(struct run *r)
{
    for (uint32_t i = 0; i < r->c.nmembers; i++) {
        const struct tt_coord_member *m = &r->members[i];
        const struct peer *p = m->called && m->attempt > 0 ? peer_of_id(r, m->id) : NULL;

        if (p && m->attempt == p->back)
            broken(r, "call %llu of member %llu was taken back, and waits for others",
                   (unsigned long long)m->attempt, (unsigned long long)m->id);
    }
}

static void on_coord_act(void *context, const struct tt_coord_act *act)
{
    struct run *r = context;
    struct conn *c = (struct conn *)act->conn;
    uint64_t at_ns;

    if (r->crash_after > 0 && --r->crash_after == 0)
        r->crashing = true;
    if (r->crashing)
        return;
    if (act->kind == TT_COORD_ACT_LOG) {
        log_record(r, act);
        return;
    }
    if (!c->coord_open)
        return;
    at_ns = r->w.now_ns + MS / 10 + below(r, 2 * MS);
    c->down_ns = at_ns > c->down_ns ? at_ns : c->down_ns; /* messages of a connection arrive in
                                                             order */
    if (c->down_ns < c->mute_down_ns)
        c->down_ns = c->mute_down_ns;
    if (act->kind == TT_COORD_ACT_SEND) {
        send_along(r, c->down_ns, TO_MEMBER, (int)(c - r->conns), act->data, act->bytes);
        if (c->peer >= 0)
            picture_message(r, COORDINATOR, c->peer, c->down_ns,
                            tt_elmsg_name(((const uint8_t *)act->data)[1]));
    } else {
        c->coord_open = false;
        world_plan(&r->w, c->down_ns, MEMBER_CLOSED, (int)(c - r->conns), 0, NULL, 0);
    }
}

static void after_coord(struct run *r)
{
    const uint64_t next_ns = tt_coord_next_ns(&r->c);

    if (r->crashing) {
        crash(r);
        return;
    }
    check_backs(r);
    if (next_ns < r->coord_tick_ns || r->coord_tick_ns <= r->w.now_ns) {
        r->coord_tick_ns = next_ns > r->w.now_ns ? next_ns : r->w.now_ns + 1;
        if (next_ns != TT_NEVER)
            world_plan(&r->w, r->coord_tick_ns, COORD_TICK, 0, 0, NULL, 0);
    }
}

static void coord_step(struct run *r, uint8_t kind, struct conn *c, const void *data, size_t bytes)
{
    const struct tt_coord_event ev = {
        .kind = kind, .conn = c ? &c->machine : NULL, .data = data, .bytes = bytes
    };

    if (!r->coord_up)
        return;
    tt_coord_step(&r->c, &ev, r->w.now_ns);
    after_coord(r);
}

/* A shorter journal replaces the longer one, atomically. */
static void shorten(struct run *r)
{
    const size_t nrecords = r->nrecords;

    memcpy(r->longer, r->records, nrecords);
    r->nrecords = 0;
    tt_coord_snapshot(&r->c);
    if (!r->crashing)
        return;
    memcpy(r->records, r->longer, nrecords);
    r->nrecords = nrecords;
}

static void start(struct run *r)
{
    struct tt_coord_conf conf = { .run = "run",
                                  .lease_ns = LEASE_NS,
                                  .grace_ns = GRACE_NS,
                                  .members = r->members,
                                  .order = r->order,
                                  .members_max = PEERS_MAX + 8,
                                  .scratch = r->scratch,
                                  .ring_memory = r->ring_memory,
                                  .ring_peers_max = PEERS_MAX,
                                  .emit = on_coord_act,
                                  .context = r };
    const uint64_t covered = r->c.covered, rounds_covered = r->c.rounds_covered,
                   syncs_covered = r->c.syncs_covered;

    memcpy(conf.secret, &r->w.now_ns, sizeof r->w.now_ns); /* differs after each start: the secret
                                                              in the journal is used */
    tt_coord_init(&r->c, &conf, r->w.now_ns);
    for (size_t at = 0; at < r->nrecords;) {
        uint32_t bytes;

        memcpy(&bytes, r->records + at, 4);
        if (!tt_coord_replay(&r->c, r->records + at + 4, bytes)) {
            broken(r, "the coordinator cannot read its own journal: a %s",
                   tt_elmsg_name(r->records[at + 5]));
            return;
        }
        at += 4 + bytes;
    }
    r->c.covered = covered;
    r->c.rounds_covered = rounds_covered;
    r->c.syncs_covered |= syncs_covered; /* reading a record is such a change, too */
    r->coord_up = true;
    if (r->nrecords > 0 && below(r, 3) == 0)
        shorten(r);
    picture_mark(r, COORDINATOR, PICTURE_UP, "starts");
    tt_coord_start(&r->c, r->w.now_ns);
    if (r->nrecords > 100 && r->w.now_ns < r->quiet_ns && below(r, 4) == 0)
        r->crash_after = 1 + below(r, 12); /* crashes again, while members reconnect and are
                                              queried */
    after_coord(r);
}

/* Closes the coordinator's connections, unless its machine failed: then members just receive
 * nothing. */
static void crash(struct run *r)
{
    const bool silent = below(r, 4) == 0;

    picture_mark(r, COORDINATOR, PICTURE_DOWN, silent ? "is gone, silently" : "crashes");
    r->faults++;
    r->coord_up = r->crashing = false;
    r->crash_after = 0;
    r->coord_tick_ns = TT_NEVER;
    for (int i = 0; i < r->nconns; i++) {
        if (r->conns[i].coord_open && !silent)
            plan(r, below(r, 5 * MS), MEMBER_CLOSED, i);
        r->conns[i].coord_open = false;
    }
    plan(r, below(r, 100 * MS), COORD_START, 0);
}

/* ---- members ---- */

void after_member(struct run *r, struct peer *p)
{
    const uint64_t next_ns = tt_member_next_ns(&p->m);

    if (next_ns == TT_NEVER || (p->tick_ns > r->w.now_ns && p->tick_ns <= next_ns))
        return;
    p->tick_ns = next_ns > r->w.now_ns ? next_ns : r->w.now_ns + 1;
    world_plan(&r->w, p->tick_ns, MEMBER_TICK, index_of(r, p), 0, NULL, 0);
}

/* Assigns a seat without a live member: the first one in existing groups, or else one in a new
 * group. */
static void take_seat(const struct run *r, struct peer *p)
{
    for (uint32_t seat = 0;; seat++) {
        bool taken = false;

        p->group = seat / r->nroles;
        p->role = seat % r->nroles;
        for (uint32_t i = 0; i + 1 < r->npeers; i++)
            taken |= r->peers[i].alive && !r->peers[i].over && r->peers[i].group == p->group &&
                     r->peers[i].role == p->role;
        if (!taken)
            return;
    }
}

void spawn(struct run *r)
{
    struct peer *p = &r->peers[r->npeers];
    struct tt_member_conf conf = { .run = "run",
                                   .nroles = r->nroles,
                                   .members_max = PEERS_MAX,
                                   .scratch = r->member_scratch,
                                   .emit = on_member_act,
                                   .context = p };
    struct tt_surroundings_seat *view = p->view, *proposed = p->proposed;
    uint8_t(*results)[TT_SETTLED_BYTES] = p->results;

    if (r->npeers == PEERS_MAX)
        return;
    *p = (struct peer){ .run = r,
                        .view = view,
                        .proposed = proposed,
                        .results = results,
                        .alive = true,
                        .conn = -1,
                        .slowness = below(r, 8) == 0 ? 8 : 1 };
    conf.view = view;
    conf.proposed = proposed;
    conf.results = results;
    p->liar = r->nroles == 1 && below(r, 40) == 0;
    p->strays = r->faults_of == RUN_FAULTS_ALL && r->nroles == 1 && below(r, 30) == 0;
    p->most = r->nroles == 1 && below(r, 10) == 0 ? r->least + (uint32_t)below(r, 5) : 0;
    memcpy(conf.cookie, &(uint64_t){ tt_mix64(r->npeers + 1) }, 8);
    r->npeers++;
    take_seat(r, p);
    sync_spawn(r, p);
    picture_mark(r, index_of(r, p), PICTURE_UP, "starts");
    p->m.conf.group = conf.group = p->group;
    conf.role = p->role;
    tt_member_init(&p->m, &conf, r->w.now_ns);
    plan_program(r, p, 10 * MS);
}

static void connect_now(struct run *r, struct peer *p)
{
    struct conn *c = &r->conns[r->nconns];

    if (!r->coord_up || (r->w.now_ns < r->quiet_ns && below(r, 10) == 0)) {
        tt_member_disconnected(&p->m, r->w.now_ns);
        after_member(r, p);
        return;
    }
    if (r->nconns == CONNS_MAX) {
        broken(r, "more than %d connections", CONNS_MAX);
        return;
    }
    *c = (struct conn){ .peer = index_of(r, p),
                        .member_open = true,
                        .coord_open = true,
                        .up_ns = r->w.now_ns,
                        .down_ns = r->w.now_ns };
    p->conn = r->nconns++;
    coord_step(r, TT_COORD_EV_OPEN, c, NULL, 0);
    tt_member_connected(&p->m, r->w.now_ns);
    after_member(r, p);
}

static void member_closed(struct run *r, struct conn *c)
{
    struct peer *p = c->peer >= 0 ? &r->peers[c->peer] : NULL;

    if (!c->member_open)
        return;
    c->member_open = false;
    if (p && p->conn == (int)(c - r->conns)) {
        p->conn = -1;
        tt_member_disconnected(&p->m, r->w.now_ns);
        after_member(r, p);
    }
}

/* ---- faults ---- */

static struct peer *any_alive(struct run *r)
{
    for (int tries = 0; tries < 20 && r->npeers > 0; tries++) {
        struct peer *p = &r->peers[below(r, r->npeers)];

        if (p->alive && !p->over)
            return p;
    }
    return NULL;
}

/* Members whose connections to the dead process were closed, and refused afterwards, report it. */
static void report_gone(struct run *r, const struct peer *dead)
{
    for (uint32_t i = 0; i < r->npeers; i++) {
        const struct peer *p = &r->peers[i];

        for (uint32_t rank = 0; p->alive && rank < p->m.nranks; rank++)
            if (p->m.view[rank].id == dead->m.id && below(r, 4) > 0)
                world_plan(&r->w, r->w.now_ns + delay(r, p, 10 * MS), GONE, (int)i,
                           index_of(r, dead), NULL, 0);
    }
}

static void kill_peer(struct run *r, struct peer *p)
{
    r->faults++;
    p->alive = false;
    picture_mark(r, index_of(r, p), PICTURE_DOWN, "is killed");
    if (below(r, 3) > 0) /* the peer's machine is running */
        report_gone(r, p);
    if (p->conn < 0)
        return;
    r->conns[p->conn].member_open = false;
    if (below(r, 5) > 0) /* otherwise its machine failed, and its end is not reported */
        plan(r, below(r, 3 * MS), COORD_CLOSED, p->conn);
}

bool is_killed_before(struct run *r, struct peer *p)
{
    if (p->die_after > 0 && r->w.now_ns >= r->quiet_ns)
        p->die_after = 0;
    if (p->die_after > 0 && --p->die_after == 0)
        p->dying = true;
    return p->dying;
}

/* Removes the members that were killed during the event that has ended. */
static void bury(struct run *r)
{
    for (uint32_t i = 0; i < r->npeers; i++) {
        struct peer *p = &r->peers[i];

        if (!p->dying)
            continue;
        p->dying = false;
        r->killed_between++;
        kill_peer(r, p);
        if (below(r, 2))
            plan(r, below(r, 200 * MS), SPAWN, 0);
    }
}

/* Each of two members reports, after each lease, that it received no data or acknowledgements from
 * the other; one of both reports may be wrong. */
static void suspects(struct run *r, struct peer *p, struct peer *other)
{
    const uint64_t until_ns = past_parting(p, other, past_parting(other, p, 0));

    if (!p->alive || p->over || until_ns <= r->w.now_ns)
        return;
    if (p->halted_ns <= r->w.now_ns) {
        tt_member_suspect(&p->m, other->m.id, r->w.now_ns);
        after_member(r, p);
    }
    world_plan(&r->w, r->w.now_ns + LEASE_NS, SUSPECTS, index_of(r, p), index_of(r, other), NULL,
               0);
}

static void plan_suspects(struct run *r, const struct peer *p, const struct peer *other)
{
    world_plan(&r->w, r->w.now_ns + LEASE_NS + delay(r, p, 10 * MS), SUSPECTS, index_of(r, p),
               index_of(r, other), NULL, 0);
}

/* The connection between two members is lost, and cannot be re-established for a while: no data
 * passes in one direction, or in both. Messages are sent again on the next connection. Sometimes
 * their communicator fails, and the epoch with it. */
static void part_ways(struct run *r, struct peer *p)
{
    struct peer *other = any_alive(r);
    const uint64_t until_ns = r->w.now_ns + below(r, below(r, 2) ? 20 * MS : 4 * LEASE_NS);
    const bool both = below(r, 2);

    if (!other || other == p)
        return;
    if (until_ns > r->quiet_ns)
        return;
    r->faults++;
    r->parted_ways++;
    p->parted_ns[index_of(r, other)] = until_ns;
    if (both)
        other->parted_ns[index_of(r, p)] = until_ns;
    plan_suspects(r, p, other);
    plan_suspects(r, other, p);
    if (below(r, 4) == 0)
        tt_member_revoke(&p->m, r->w.now_ns);
    after_member(r, p);
}

static void cut(struct run *r, struct peer *p)
{
    if (p->conn < 0)
        return;
    r->faults++;
    plan(r, below(r, 20 * MS), MEMBER_CLOSED, p->conn);
    plan(r, below(r, 20 * MS), COORD_CLOSED, p->conn);
}

static void mute(struct run *r, struct peer *p)
{
    const uint64_t until_ns = r->w.now_ns + below(r, LEASE_NS);

    if (p->conn < 0)
        return;
    r->faults++;
    if (below(r, 2))
        r->conns[p->conn].mute_up_ns = until_ns;
    else
        r->conns[p->conn].mute_down_ns = until_ns;
}

static void add_stray_connection(struct run *r)
{
    struct conn *c = &r->conns[r->nconns];
    uint8_t data[64];

    if (!r->coord_up || r->nconns == CONNS_MAX)
        return;
    r->faults++;
    *c = (struct conn){ .peer = -1, .coord_open = true };
    r->nconns++;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)below(r, 256);
    data[0] = TT_ELASTIC_VERSION;
    data[1] = (uint8_t)below(r, TT_ELMSG_KINDS);
    coord_step(r, TT_COORD_EV_OPEN, c, NULL, 0);
    coord_step(r, TT_COORD_EV_FRAME, c, data, below(r, sizeof data));
    if (r->coord_up && c->coord_open)
        broken(r, "a peer that sent nonsense is still connected");
}

/* Leaves with notice, immediately, or in order after an operation has become final locally, when
 * others may not know that yet. */
static void leave(struct run *r, struct peer *p)
{
    const uint64_t how = below(r, 5);

    if (how < 2)
        p->parts_at_final = true;
    else
        tt_member_leave(&p->m, how < 4 ? TT_LEAVE_NOTICE : TT_LEAVE_NOW, r->w.now_ns);
}

void part_soon(struct run *r, struct peer *p)
{
    p->parts_at_final = false;
    plan(r, 0, LEAVE, index_of(r, p));
}

static void mark_fault(struct run *r, int kind, const struct peer *p)
{
    static const char *const names[] = { [HALT] = "stands still",
                                         [CUT] = "is cut off",
                                         [MUTE] = "is mute in one direction",
                                         [LEAVE] = "wants to leave",
                                         [REVOKE] = "revokes",
                                         [SUSPECT] = "suspects somebody",
                                         [GARBAGE] = "an unauthenticated peer connects",
                                         [KILL_BETWEEN] = "is about to be killed",
                                         [PART_WAYS] = "loses its connection to another" };

    if (kind < (int)(sizeof names / sizeof *names) && names[kind] && (p || kind == GARBAGE))
        picture_mark(r, kind == GARBAGE ? COORDINATOR : index_of(r, p), PICTURE_FAULT, "%s",
                     names[kind]);
}

static void inject_fault(struct run *r, int kind)
{
    struct peer *p = any_alive(r);

    mark_fault(r, kind, p);
    if (kind == COORD_CRASH) {
        if (r->coord_up)
            r->crash_after = 1 + below(r, 30);
    } else if (kind == SPAWN) {
        spawn(r);
    } else if (kind == GARBAGE) {
        add_stray_connection(r);
    } else if (kind == DISK) {
        r->disk_ns = r->w.now_ns + below(r, 200 * MS);
    } else if (!p) {
        return;
    } else if (kind == KILL) {
        kill_peer(r, p);
        if (below(r, 2))
            plan(r, below(r, 200 * MS), SPAWN, 0);
    } else if (kind == HALT) {
        const uint64_t until_ns = r->w.now_ns + below(r, 2 * LEASE_NS);

        if (p->halted_ns > r->w.now_ns) /* a halted member stays halted until the same time: all its
                                           events are postponed to that time, in order */
            return;
        r->faults++;
        p->halted_ns = until_ns;
    } else if (kind == KILL_BETWEEN) {
        p->die_after = 1 + below(r, 40);
    } else if (kind == PART_WAYS) {
        part_ways(r, p);
    } else if (kind == CUT) {
        cut(r, p);
    } else if (kind == MUTE) {
        mute(r, p);
    } else if (kind == LEAVE) {
        leave(r, p);
    } else if (kind == REVOKE) {
        tt_member_revoke_as(
            &p->m,
            (uint8_t)(TT_REVOKED_BY_CALL + r->w.now_ns % (TT_REVOKED_APART - TT_REVOKED_BY_CALL)),
            r->w.now_ns % 3, r->w.now_ns);
    } else if (kind == SUSPECT && p->m.nranks > 0) {
        const uint64_t id = p->m.view[below(r, p->m.nranks)].id;

        if (p->liar && below(r, 2))
            tt_member_unreachable(&p->m, id, r->w.now_ns);
        else
            tt_member_suspect(&p->m, id, r->w.now_ns);
    }
}

static bool fills_again(const struct run *r)
{
    return r->nroles > 1 || r->least > 1;
}

/* After the last fault: incomplete groups get replacements until all are complete; if no process
 * remains for that, the waiting members of these groups exit. */
static void fill_groups(struct run *r)
{
    struct peer *without = NULL;
    uint32_t alive = 0;
    bool missing;

    for (uint32_t i = 0; i < r->npeers; i++)
        alive += r->peers[i].alive && !r->peers[i].over;
    missing = alive < r->least;
    for (uint32_t i = 0; i < r->npeers; i++) {
        uint32_t mates = 0;

        for (uint32_t j = 0; j < r->npeers; j++)
            mates +=
                r->peers[j].alive && !r->peers[j].over && r->peers[j].group == r->peers[i].group;
        if (r->peers[i].alive && !r->peers[i].over && mates < r->nroles)
            without = &r->peers[i];
    }
    if (without && r->npeers == PEERS_MAX)
        kill_peer(r, without);
    else if (missing || without)
        spawn(r);
    if (fills_again(r))
        plan(r, 200 * MS, FILL, 0);
}

/* Schedules faults. Some have no effect when they occur, e.g. because the connection to cut is not
 * established. */
static void plan_faults(struct run *r)
{
    static const int kinds[] = {
        KILL,  KILL,         HALT,         COORD_CRASH, COORD_CRASH, CUT,
        MUTE,  GARBAGE,      LEAVE,        REVOKE,      SUSPECT,     SPAWN,
        SPAWN, KILL_BETWEEN, KILL_BETWEEN, PART_WAYS,   PART_WAYS,   DISK
    };
    const uint64_t nkinds =
        r->faults_of == RUN_FAULTS_FIRST ? FIRST_KINDS : sizeof kinds / sizeof *kinds;
    const uint64_t n = 2 + below(r, 4);
    uint64_t last_ns = 0;

    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at_ns = 5 * MS + below(r, 500 * MS);

        last_ns = at_ns > last_ns ? at_ns : last_ns;
        plan(r, at_ns, kinds[below(r, nkinds)], -1);
    }
    r->quiet_ns = r->w.now_ns + last_ns + 2 * LEASE_NS;
    if (r->events == 0 || !fills_again(r))
        world_plan(&r->w, r->quiet_ns + 2 * LEASE_NS, FILL, 0, 0, NULL, 0);
}

/* ---- the history ---- */

/* Returns whether this event is for a member that is dead, finished or halted; those of halted
 * members are postponed. */
static bool is_not_now(struct run *r, const struct happening *h, struct peer *p)
{
    if (!p->alive)
        return true;
    if (p->halted_ns > r->w.now_ns) {
        if (waiting_of(r, h->kind, h->a))
            send_along(r, p->halted_ns, h->kind, h->a, h->data, h->bytes);
        else
            world_plan(&r->w, p->halted_ns, h->kind, h->a, h->b, h->data, h->bytes);
        picture_later(r, h);
        return true;
    }
    return false;
}

/* failed[0] is the proposal's number. */
static void on_reached(struct peer *p, const uint64_t *failed, uint32_t n)
{
    if (failed[0] != p->m.proposal)
        return;
    if (p->reached_in != failed[0]) /* otherwise it was queried again, and either of the replies may
                                       have arrived */
        p->reached = 0;
    p->reached_in = failed[0];
    for (uint32_t i = 0; i < p->m.nproposed; i++) {
        const struct peer *other = peer_of_id(p->run, p->m.proposed[i].id);
        bool reached = other != NULL;

        for (uint32_t k = 1; k < n; k++)
            reached &= failed[k] != p->m.proposed[i].id;
        if (reached)
            p->reached |= 1u << index_of(p->run, other);
    }
}

static void on_member_event(struct run *r, const struct happening *h, struct peer *p)
{
    if (is_not_now(r, h, p))
        return;
    if (h->kind == TO_MEMBER || h->kind == PEER || h->kind == CONTRIBUTION || h->kind == TRANSFER)
        picture_arrived(r, h);
    if (h->kind == TO_MEMBER)
        tt_member_frame(&p->m, h->data, h->bytes, r->w.now_ns);
    else if (h->kind == MEMBER_CLOSED)
        member_closed(r, &r->conns[h->a]);
    else if (h->kind == CONNECT && !p->over && (uint32_t)h->b == p->attempt)
        connect_now(r, p);
    else if (h->kind == MEMBER_TICK)
        tt_member_tick(&p->m, r->w.now_ns);
    else if (h->kind == PROGRAM)
        on_program(r, p);
    else if (h->kind == INSIDE && !p->over)
        on_inside(r, p, (const struct begun *)h->data);
    else if (h->kind == LEAVE && !p->over)
        tt_member_part(&p->m, r->w.now_ns);
    else if (h->kind == GONE && !p->over) {
        tt_member_unreachable(&p->m, r->peers[h->b].m.id, r->w.now_ns);
        r->gone++;
    } else if (h->kind == CANCEL)
        tt_member_cancel(&p->m, r->w.now_ns);
    else if ((h->kind == PEER || h->kind == CONTRIBUTION) && !p->over)
        on_peer_message(r, p, (const struct held *)h->data);
    else if (h->kind == TRANSFER && !p->over)
        on_transfer(r, p, h->data, h->bytes);
    else if (h->kind == TRANSFER_TICK && !p->over)
        on_transfer_tick(r, p);
    else if (h->kind == REACHED && !p->over) {
        on_reached(p, (const uint64_t *)h->data, (uint32_t)(h->bytes / 8));
        tt_member_reached(&p->m, *(const uint64_t *)h->data, (const uint64_t *)h->data + 1,
                          (uint32_t)(h->bytes / 8 - 1), r->w.now_ns);
    }
    after_member(r, p);
}

static void on_event(struct run *r, const struct happening *h)
{
    struct conn *c = h->kind == TO_MEMBER || h->kind == MEMBER_CLOSED || h->kind == TO_COORD ||
                             h->kind == COORD_CLOSED
                         ? &r->conns[h->a]
                         : NULL;

    if (h->kind == COORD_START) {
        start(r);
    } else if (h->kind == COORD_TICK) {
        if (h->at_ns == r->coord_tick_ns)
            coord_step(r, TT_COORD_EV_TICK, NULL, NULL, 0);
    } else if (h->kind == TO_COORD) {
        if (c->coord_open && r->coord_up)
            picture_arrived(r, h);
        if (c->coord_open)
            coord_step(r, TT_COORD_EV_FRAME, c, h->data, h->bytes);
    } else if (h->kind == COORD_CLOSED) {
        if (c->coord_open) {
            c->coord_open = false;
            coord_step(r, TT_COORD_EV_CLOSED, c, NULL, 0);
        }
    } else if (h->kind == FILL) {
        fill_groups(r);
    } else if (h->kind == SUSPECTS) {
        suspects(r, &r->peers[h->a], &r->peers[h->b]);
    } else if (h->kind == SPAWN && h->a >= 0) {
        spawn(r);
    } else if (h->kind == KILL && h->a >= 0) {
        kill_peer(r, &r->peers[h->a]);
        plan(r, below(r, 200 * MS), SPAWN, 0);
    } else if (h->kind == KILL_BETWEEN || h->kind == PART_WAYS || h->kind == DISK) {
        inject_fault(r, h->kind);
    } else if (h->kind >= SPAWN && h->kind < FILL && (h->kind != LEAVE || h->a < 0)) {
        inject_fault(r, h->kind);
    } else if (c && (c->peer < 0 || !c->member_open || r->peers[c->peer].conn != h->a)) {
        return;
    } else {
        on_member_event(r, h, &r->peers[c ? c->peer : h->a]);
    }
}

/* Returns whether all remaining members are in one view and have made progress since the last
 * fault. */
static bool is_well(const struct run *r)
{
    uint32_t n = 0;
    uint64_t epoch = 0;

    for (uint32_t i = 0; i < r->npeers; i++)
        n += r->peers[i].alive && !r->peers[i].over;
    for (uint32_t i = 0; i < r->npeers; i++) {
        const struct peer *p = &r->peers[i];

        if (!p->alive || p->over)
            continue;
        if (p->finals_quiet < 2 || p->m.nranks != n || (epoch && p->m.epoch != epoch))
            return false;
        if (p->m.news.newcomers != r->c.news.newcomers || p->m.news.lost != r->c.news.lost ||
            p->m.news.leaving != r->c.news.leaving || p->m.news.revoked != r->c.news.revoked ||
            p->m.news.better != r->c.news.better)
            return false; /* the peer would call `epoch` without effect, or not at all */
        epoch = p->m.epoch;
    }
    return true;
}

/* Returns whether too few faults had an effect, and processes for more faults remain. */
static bool needs_faults(const struct run *r)
{
    return r->faults < FAULTS_LEAST && r->faults_of != RUN_FAULTS_FIRST &&
           r->npeers + PEERS_FOR_FAULTS <= PEERS_MAX;
}

/* Returns whether the history has ended. If all members make progress but faults are missing, more
 * are injected first. */
static bool is_over(struct run *r)
{
    if (r->w.now_ns <= r->quiet_ns || !r->coord_up || !is_well(r))
        return false;
    if (!needs_faults(r))
        return true;
    for (uint32_t i = 0; i < r->npeers; i++)
        r->peers[i].finals_quiet = 0;
    plan_faults(r);
    return false;
}

/* Prints the state of all processes of a stuck history. */
static void stuck(struct run *r)
{
    size_t at;

    broken(r, "no progress for %llu s after the last fault:",
           (unsigned long long)(PATIENCE_NS / TT_SECOND));
    at = strlen(r->why);
    at += (size_t)snprintf(
        r->why + at, sizeof r->why - at, " coordinator %s, epoch %llu, round %llu%s%s;",
        r->coord_up ? "up" : "down", (unsigned long long)r->c.epoch, (unsigned long long)r->c.round,
        tt_coord_is_proposing(&r->c) ? ", proposing" : "",
        r->c.querying && !r->c.decided ? ", asking" : "");
    for (uint32_t i = 0; i < r->npeers && at < sizeof r->why; i++) {
        static const char *const phases[] = { "epoch", "sync",  "step", "in step",
                                              "value", "close", "out" };
        const struct peer *p = &r->peers[i];
        const struct tt_coord_member *m = tt_coord_find(&r->c, p->m.id);

        if (p->alive && !p->over)
            at += (size_t)snprintf(
                r->why + at, sizeof r->why - at,
                " %llu: %s, epoch %llu, round %llu%s%s%s%s, coordinator has it as %d%s;",
                (unsigned long long)p->m.id, phases[p->phase], (unsigned long long)p->m.epoch,
                (unsigned long long)p->m.round, p->m.calling ? ", calling" : "",
                p->m.stopped ? ", stopped" : "", p->m.welcome ? "" : ", away",
                p->liar ? ", a liar" : "", m ? m->state : -1, m && m->called ? ", called" : "");
    }
}

static struct run *run_create(uint64_t seed, enum run_faults faults)
{
    struct run *r = calloc(1, sizeof *r);
    struct tt_surroundings_seat *seats = calloc(PEERS_MAX, 2 * PEERS_MAX * sizeof *seats);
    uint8_t(*results)[TT_SETTLED_BYTES] = malloc(PEERS_MAX * TT_ELASTIC_TAGS * sizeof *results);

    tt_assert(r && seats && results);
    world_init(&r->w, seed);
    r->scratch = malloc(TT_ELMSG_BYTES_MAX);
    r->member_scratch = malloc(TT_ELMSG_BYTES_MAX);
    r->records = malloc(RECORDS_BYTES);
    r->longer = malloc(RECORDS_BYTES);
    r->ops = malloc(OPS_MAX * sizeof *r->ops);
    r->ring_memory = malloc(tt_coord_ring_bytes(PEERS_MAX));
    tt_assert(r->ring_memory && r->scratch && r->member_scratch && r->records && r->longer &&
              r->ops);
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        r->peers[i].view = seats + 2 * i * PEERS_MAX;
        r->peers[i].proposed = r->peers[i].view + PEERS_MAX;
        r->peers[i].results = results + i * TT_ELASTIC_TAGS;
    }
    r->least = 1;
    r->faults_of = faults;
    r->coord_tick_ns = TT_NEVER;
    return r;
}

static void run_destroy(struct run *r)
{
    world_fini(&r->w);
    free(r->peers[0].view);
    free(r->peers[0].results);
    free(r->scratch);
    free(r->ring_memory);
    free(r->member_scratch);
    free(r->records);
    free(r->longer);
    free(r->ops);
    free(r->blocks);
    free(r);
}

bool run_play(uint64_t seed, enum run_faults faults, struct run_sum *sum, char *why, size_t bytes)
{
    struct run *r = run_create(seed, faults);
    struct happening h;
    const uint32_t npeers = 2 + (uint32_t)below(r, 7);
    bool good;

    r->nroles = below(r, 4) == 0 ? 2 : 1;
    r->least = below(r, 4) == 0 ? 2 : 1;
    r->votes = faults == RUN_FAULTS_ALL && tt_mix64(seed) & 1;
    sync_begin(r);
    picture_begin(r, seed);

    for (uint32_t i = 0; i < npeers; i++)
        plan(r, below(r, 20 * MS), SPAWN, 0);
    plan_faults(r);
    start(r);
    while (!r->failed && !is_over(r) && world_next(&r->w, &h)) {
        r->events++;
        arrives(r, &h);
        if (sum->trace)
            trace(r, &h, sum);
        if (r->w.now_ns > r->quiet_ns + PATIENCE_NS)
            stuck(r);
        else
            on_event(r, &h);
        bury(r);
    }
    good = !r->failed;
    if (sum->event_counts && sum->histories < sum->histories_max)
        sum->event_counts[sum->histories] = (uint32_t)r->events;
    sum->histories++;
    sum->events += r->events;
    sum->faults += r->faults;
    sum->few_faults += good && needs_faults(r);
    sum->used_up +=
        good && !needs_faults(r) && faults == RUN_FAULTS_ALL && r->faults < FAULTS_LEAST;
    sum->finals += r->finals;
    sum->restored += r->restored;
    sum->voted += r->voted;
    sum->settled += r->settled;
    sum->given += r->given;
    sum->tentative_finals += r->tentative_finals;
    sum->tentative_restored += r->tentative_restored;
    sum->scoped_finals += r->scoped_finals;
    sum->scoped_restored += r->scoped_restored;
    sum->left_out += r->left_out;
    sum->parted += r->parted;
    sum->kept_for += r->kept_for;
    sum->gone += r->gone;
    sum->shrunk += r->shrunk;
    sum->bounded += r->bounded;
    sum->received += r->received;
    sum->outcomes |= r->outcomes;
    sum->orders += r->orders;
    sum->backs += r->backs;
    sum->backs_again += r->backs_again;
    sum->revokers += r->revokers;
    sum->strayed += r->strayed;
    sum->aparts += r->aparts;
    sum->killed_between += r->killed_between;
    sum->parted_ways += r->parted_ways;
    sum->disk_errors += r->disk_errors;
    sum->conn_bytes_most =
        r->conn_bytes_most > sum->conn_bytes_most ? r->conn_bytes_most : sum->conn_bytes_most;
    sum->peer_bytes_most =
        r->peer_bytes_most > sum->peer_bytes_most ? r->peer_bytes_most : sum->peer_bytes_most;
    sum->views += r->nepochs;
    sum->rounds += r->nrounds;
    sum->covered |= r->c.covered;
    sum->rounds_covered |= r->c.rounds_covered;
    sum->syncs_covered |= r->c.syncs_covered;
    for (uint32_t i = 0; i < r->npeers; i++)
        sum->ops_covered |= r->peers[i].m.covered;
    picture_end(r, seed);
    snprintf(why, bytes, "after %llu events, %.3f ms: %s", (unsigned long long)r->events,
             (double)r->w.now_ns / 1e6, r->why);
    run_destroy(r);
    return good;
}
