/* The list of members, messages to them, and records for the journal. */
#include "base/status.h"
#include "elastic/coord_state.h"
#include "elastic/states.h"

static const char *const states[] = {
    [TT_COORD_UNKNOWN] = "unknown",     [TT_COORD_WAITING] = "waiting",
    [TT_COORD_CANDIDATE] = "candidate", [TT_COORD_IN_VIEW] = "in the view",
    [TT_COORD_LOST] = "lost",
};
static const struct tt_state_change changes[] = {
    { TT_COORD_UNKNOWN, TT_COORD_WAITING, "it joins" },
    { TT_COORD_WAITING, TT_COORD_CANDIDATE, "a view with it is proposed" },
    { TT_COORD_CANDIDATE, TT_COORD_WAITING, "the proposal is abandoned" },
    { TT_COORD_CANDIDATE, TT_COORD_IN_VIEW, "all members of the proposed view are connected" },
    { TT_COORD_WAITING, TT_COORD_UNKNOWN, "it leaves, is lost, or is refused" },
    { TT_COORD_CANDIDATE, TT_COORD_UNKNOWN, "it leaves, is lost, or is refused" },
    { TT_COORD_IN_VIEW, TT_COORD_LOST,
      "it disconnects, is silent, is unreachable, leaves, or violates the protocol" },
    { TT_COORD_IN_VIEW, TT_COORD_WAITING, "its group becomes incomplete" },
    { TT_COORD_LOST, TT_COORD_UNKNOWN, "the view changes" },
};
const struct tt_states tt_coord_member_states = {
    .name = "members",
    .of = "a member; states in the coordinator",
    .states = states,
    .nstates = TT_COORD_STATES,
    .changes = changes,
    .nchanges = sizeof changes / sizeof *changes,
};

struct tt_coord_member *tt_coord_member_of(struct tt_coord *c, uint64_t id)
{
    uint32_t low = 0, high = c->nmembers;

    while (low < high) {
        const uint32_t mid = (low + high) / 2;

        if (c->conf.members[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == c->nmembers || c->conf.members[low].id != id ||
        c->conf.members[low].state == TT_COORD_UNKNOWN)
        return NULL;
    return &c->conf.members[low];
}

const struct tt_coord_member *tt_coord_find(const struct tt_coord *c, uint64_t id)
{
    return tt_coord_member_of((struct tt_coord *)c, id);
}

uint32_t tt_coord_count(const struct tt_coord *c, uint8_t state)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->nmembers; i++)
        n += c->conf.members[i].state == state;
    return n;
}

void tt_coord_due(struct tt_coord *c, uint64_t at_ns)
{
    if (at_ns < c->due_ns)
        c->due_ns = at_ns;
}

/* The numbers increase even over restarts, although they are not logged. */
uint64_t tt_coord_numbered(const struct tt_coord *c, uint64_t last)
{
    return last >> 32 == c->starts ? last + 1 : c->starts << 32 | 1;
}

static void emit_act(struct tt_coord *c, uint8_t kind, struct tt_coord_conn *conn, const void *data,
                     size_t bytes)
{
    const struct tt_coord_act a = { .kind = kind, .conn = conn, .data = data, .bytes = bytes };

    c->conf.emit(c->conf.context, &a);
}

void tt_coord_send(struct tt_coord *c, struct tt_coord_member *m, size_t bytes)
{
    tt_assert(bytes > 0);
    if (m->conn)
        emit_act(c, TT_COORD_ACT_SEND, m->conn, c->conf.scratch, bytes);
}

void tt_coord_send_msg(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg)
{
    if (m->conn)
        tt_coord_send(c, m, tt_elmsg_write(c->conf.scratch, TT_ELMSG_BYTES_MAX, msg));
}

void tt_coord_log(struct tt_coord *c, size_t bytes)
{
    tt_assert(bytes > 0);
    emit_act(c, TT_COORD_ACT_LOG, NULL, c->conf.scratch, bytes);
}

void tt_coord_log_msg(struct tt_coord *c, const struct tt_elmsg *msg)
{
    tt_coord_log(c, tt_elmsg_write(c->conf.scratch, TT_ELMSG_BYTES_MAX, msg));
}

void tt_coord_close(struct tt_coord *c, struct tt_coord_conn *conn)
{
    emit_act(c, TT_COORD_ACT_CLOSE, conn, NULL, 0);
}

void tt_coord_refuse_as(struct tt_coord *c, struct tt_coord_conn *conn, uint8_t version,
                        uint8_t status, const char *text)
{
    emit_act(c, TT_COORD_ACT_SEND, conn, c->conf.scratch,
             tt_elmsg_write_refusal(c->conf.scratch, TT_ELMSG_BYTES_MAX, version, status, text));
    emit_act(c, TT_COORD_ACT_CLOSE, conn, NULL, 0);
}

void tt_coord_refuse(struct tt_coord *c, struct tt_coord_conn *conn, uint8_t status,
                     const char *text)
{
    tt_coord_refuse_as(c, conn, TT_ELASTIC_VERSION, status, text);
}

void tt_coord_set(struct tt_coord *c, struct tt_coord_member *m, uint8_t to)
{
    c->covered |= 1ull << tt_states_change(&tt_coord_member_states, m->state, to);
    c->stale_news = true;
    c->gone |= to == TT_COORD_UNKNOWN;
    m->state = to;
}
