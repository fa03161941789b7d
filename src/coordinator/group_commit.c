/* The machine's actions in an iteration of the loop are deferred until the records of the iteration
 * are durable. One commit includes all steps. Then the actions are performed in order. Nothing is
 * sent before that, so a failed commit has the same effect as a crash before the iteration. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "coordinator/internal.h"

/* A journal that is longer than the state by this factor is replaced by a shorter one. */
#define LONG_JOURNAL 4u
#define SHORT_JOURNAL 256u

static struct tt_conn *conn_of(struct tt_coord_conn *core)
{
    return (struct tt_conn *)(void *)((char *)core - offsetof(struct tt_conn, core));
}

/* ---- collecting ---- */

static void push(struct tt_coordinator *c, const struct tt_deed *deed)
{
    if (c->ndeeds == c->deeds_room) {
        const size_t room = c->deeds_room ? 2 * c->deeds_room : 1024;
        struct tt_deed *more = realloc(c->deeds, room * sizeof *more);

        if (!more) {
            c->failed =
                tt_fail(TUTTI_ERR_NOMEM, "coordinator: out of memory for outgoing messages");
            if (deed->owns)
                tt_parcel_drop(deed->parcel);
            return;
        }
        c->deeds = more;
        c->deeds_room = room;
    }
    c->deeds[c->ndeeds++] = *deed;
}

/* A view is sent to all its members: equal consecutive messages share a parcel. */
static void defer_send(struct tt_coordinator *c, const struct tt_coord_act *act)
{
    struct tt_deed deed = { .conn = conn_of(act->conn), .parcel = c->last_parcel };
    const bool same = c->last_parcel && c->last_bytes == act->bytes &&
                      memcmp(c->last, act->data, act->bytes) == 0;

    tt_event_log_sent(&c->chronicle, act->data, act->bytes);
    if (!same) {
        deed.parcel = tt_parcel_new(act->data, act->bytes);
        deed.owns = true;
        if (!deed.parcel) {
            c->failed =
                tt_fail(TUTTI_ERR_NOMEM, "coordinator: out of memory for a message of %zu bytes",
                        act->bytes);
            return;
        }
        memcpy(c->last, act->data, act->bytes);
        c->last_bytes = act->bytes;
        c->last_parcel = deed.parcel;
    }
    push(c, &deed);
}

/* Called before other events of the same step are added, e.g. a failed round. */
static void report_revoked(struct tt_coordinator *c)
{
    if (c->revoked_epoch == c->core.revoked_epoch)
        return;
    c->revoked_epoch = c->core.revoked_epoch;
    if (c->core.revocation == TT_REVOKED_APART)
        tt_event_log_mismatch(&c->chronicle, &c->core.apart);
    else
        tt_event_log_revoked(&c->chronicle, c->core.revoked_epoch, c->core.revoker);
}

static void append_record(struct tt_coordinator *c, const struct tt_coord_act *act)
{
    report_revoked(c);
    if (!c->replacing)
        tt_event_log_record(&c->chronicle, act->data, act->bytes,
                            c->sender ? c->sender->address : "", &c->core.cause);
    c->failed = c->journal->ops->append(c->journal, act->data, act->bytes);
    c->nrecords++;
    c->journal_records++;
}

void tt_group_commit_emit(void *context, const struct tt_coord_act *act)
{
    struct tt_coordinator *c = context;

    if (c->failed)
        return;
    switch (act->kind) {
    case TT_COORD_ACT_LOG:
        append_record(c, act);
        return;
    case TT_COORD_ACT_SEND:
        defer_send(c, act);
        return;
    case TT_COORD_ACT_CLOSE:
        conn_of(act->conn)->let_go = true;
        push(c, &(struct tt_deed){ .conn = conn_of(act->conn) });
        return;
    default:
        tt_assert(!"invalid action of the coordinator");
    }
}

void tt_group_commit_step(struct tt_coordinator *c, const struct tt_coord_event *ev)
{
    c->sender = ev->conn ? conn_of(ev->conn) : NULL;
    tt_coord_step(&c->core, ev, c->core_ns);
    c->sender = NULL;
    report_revoked(c);
}

/* ---- execution ------------------------------------------------------------------------------- */

static void commit(struct tt_coordinator *c)
{
    const uint64_t begin_ns = tt_now_ns();

    if (c->nrecords == 0 || c->failed)
        return;
    c->failed = c->journal->ops->commit(c->journal);
    c->nrecords = 0;
    if (!c->failed)
        tt_event_log_commit(&c->chronicle, tt_now_ns() - begin_ns);
}

/* The state needs about one record per member. */
static void shorten_journal(struct tt_coordinator *c)
{
    if (c->failed || c->journal_records < SHORT_JOURNAL + LONG_JOURNAL * (uint64_t)c->core.nmembers)
        return;
    c->failed = c->journal->ops->replace(c->journal);
    if (c->failed)
        return;
    c->journal_records = 0;
    c->replacing = true;
    tt_coord_snapshot(&c->core);
    c->replacing = false;
    commit(c);
    c->chronicle.counters.replaced++;
}

bool tt_group_commit_records(struct tt_coordinator *c)
{
    commit(c);
    return !c->failed;
}

void tt_group_commit_finish(struct tt_coordinator *c)
{
    tt_group_commit_drop(c);
    shorten_journal(c);
}

void tt_group_commit_drop(struct tt_coordinator *c)
{
    for (size_t i = 0; i < c->ndeeds; i++)
        if (c->deeds[i].owns)
            tt_parcel_drop(c->deeds[i].parcel);
    c->ndeeds = 0;
    c->last_parcel = NULL;
}

/* ---- start ----------------------------------------------------------------------------------- */

struct reading {
    struct tt_coordinator *c;
    uint64_t n;
    tutti_status st;
};

static bool take_record(void *context, const void *data, size_t bytes)
{
    struct reading *r = context;
    struct tt_elmsg m;

    r->n++;
    if (tt_elmsg_version(data, bytes) != TT_ELASTIC_VERSION)
        r->st = tt_fail(TUTTI_ERR_INVALID,
                        "coordinator: the journal has protocol version %u, but this coordinator "
                        "has version %u: use "
                        "the version of Tutti that wrote it, or restart the run with a new journal",
                        tt_elmsg_version(data, bytes), TT_ELASTIC_VERSION);
    else if (r->n == 1 && tt_elmsg_read(&m, data, bytes) && m.kind == TT_ELMSG_LOG_START &&
             strcmp(m.text, r->c->run) != 0)
        r->st =
            tt_fail(TUTTI_ERR_INVALID, "coordinator: the journal belongs to run \"%s\", not \"%s\"",
                    m.text, r->c->run);
    else if (!tt_coord_replay(&r->c->core, data, bytes))
        r->st = tt_fail(TUTTI_ERR_INVALID,
                        "coordinator: journal damaged: record %llu is inconsistent with the "
                        "records before it",
                        (unsigned long long)r->n);
    return r->st == TUTTI_OK;
}

/* The journal is read without the configured limit on members, so that the error can state their
 * number. */
static tutti_status bound_members(struct tt_coordinator *c)
{
    if (c->core.nmembers > c->conf.members_max)
        return tt_fail(TUTTI_ERR_INVALID,
                       "coordinator: the journal holds %" PRIu32
                       " member%s, but the limit of the run is %" PRIu32
                       " (--members; tutti_coordinator_conf.members_max)",
                       c->core.nmembers, TT_PLURAL(c->core.nmembers), c->conf.members_max);
    c->core.conf.members_max = c->conf.members_max;
    return TUTTI_OK;
}

tutti_status tt_group_commit_begin(struct tt_coordinator *c)
{
    struct reading r = { .c = c };
    tutti_status st = c->journal->ops->read(c->journal, take_record, &r);

    if (!st)
        st = r.st ? r.st : bound_members(c);
    if (st)
        return st;
    c->journal_records = r.n;
    tt_coord_start(&c->core, c->core_ns);
    (void)tt_group_commit_records(c);
    tt_group_commit_finish(c); /* there are no connections yet */
    return c->failed;
}
