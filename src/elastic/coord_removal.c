/* Removal of members, which also cancels a proposal that contains them. */
#include <inttypes.h>
#include <stdio.h>
#include "elastic/coord_state.h"

void tt_coord_abandon(struct tt_coord *c)
{
    tt_coord_set_round(c, TT_COORD_ROUND_OPEN);
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (c->conf.members[i].state == TT_COORD_CANDIDATE)
            tt_coord_set(c, &c->conf.members[i], TT_COORD_WAITING);
}

/* Returns the revision that the member's program passed: a member of the scope's last sync
 * offers one more (tutti_state.revision). */
static uint64_t passed_revision(const struct tt_coord_member *m)
{
    return m->value - ((m->synced & tt_coord_scope_bit(m->scope)) != 0);
}

/* Returns the revision passed by programs whose offer has the legal revision. */
static uint64_t legal_revision(const struct tt_coord *c, uint16_t scope)
{
    const uint64_t legal = c->scopes[scope].next_revision;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (tt_coord_is_in(m, scope) && m->scope == scope && m->value == legal)
            return passed_revision(m);
    }
    return legal;
}

/* Sends the reason, and closes the member's connection, if any. */
static void disconnect_member(struct tt_coord *c, struct tt_coord_member *m, uint8_t loss)
{
    static const char *const why[] = {
        [TT_LOSS_DIED] = "the coordinator declared this member lost: its connection had closed",
        [TT_LOSS_SILENT] =
            "the coordinator declared this member lost: it was silent for longer than the lease "
            "(distant members have more time)",
        [TT_LOSS_CUT] = "members of the view could not reach this member",
        [TT_LOSS_LEFT] = "the coordinator confirmed that this member left",
        [TT_LOSS_ILLEGAL] = "this member violated the protocol",
        [TT_LOSS_KEYS] =
            "the arrays of this member's shared state differ from those of the other members",
        [TT_LOSS_NOT_TAKEN] = "this member could only send its shared state (strategy send), but "
                              "another state was selected",
        [TT_LOSS_FALSE] = "the shared state that this member sent did not match its offer",
    };
    const bool illegal = loss == TT_LOSS_ILLEGAL || loss == TT_LOSS_FALSE;
    char ahead[TT_ELASTIC_TEXT_BYTES];

    if (!m->conn)
        return;
    if (loss == TT_LOSS_AHEAD)
        snprintf(ahead, sizeof ahead,
                 "the revision of this member's shared state, %" PRIu64
                 ", is ahead of that of the other members, %" PRIu64,
                 passed_revision(m), legal_revision(c, m->scope));
    tt_coord_refuse(c, m->conn,
                    loss == TT_LOSS_LEFT ? TUTTI_OK
                    : illegal            ? TUTTI_ERR_PROTOCOL
                                         : TUTTI_ERR_ABORTED,
                    loss == TT_LOSS_AHEAD ? ahead : why[loss]);
    m->conn = NULL;
}

void tt_coord_lose(struct tt_coord *c, struct tt_coord_member *m, uint8_t loss)
{
    if (m->state == TT_COORD_LOST || m->state == TT_COORD_UNKNOWN)
        return;
    if (tt_coord_is_live(m)) {
        tt_coord_set(c, m, TT_COORD_LOST);
        m->loss = loss;
        c->changed = true;
        tt_coord_lose_sync(c, m);
        tt_coord_log_lost(c, m, loss);
    } else {
        tt_coord_set(c, m, TT_COORD_UNKNOWN);
        tt_coord_log_gone(c, m);
    }
    disconnect_member(c, m, loss);
    if (tt_coord_is_proposing(c) && m->next_rank != TT_COORD_NO_RANK)
        tt_coord_abandon(c);
}
