/* Internal to the coordinator. Each event changes members and sets flags. Then the steps below run
 * until no further decision is possible; each depends on the state alone. Thus the handler of an
 * event need not consider its consequences.
 *
 * The sections are in the order of the calls: a file calls functions of earlier ones only. coord.c
 * and coord_replay.c call all of them. */
#ifndef TT_ELASTIC_COORD_STATE_H
#define TT_ELASTIC_COORD_STATE_H

#include "elastic/coord.h"

/* ---- coord_members.c: members, and messages to them ---- */

/* Changes the member's state; asserts that the table permits it. UNKNOWN: removed after the
 * step. */
void tt_coord_set(struct tt_coord *c, struct tt_coord_member *m, uint8_t to);
struct tt_coord_member *tt_coord_member_of(struct tt_coord *c, uint64_t id);
/* Returns whether the member is in the view, and live. */
static inline bool tt_coord_is_live(const struct tt_coord_member *m)
{
    return m->state == TT_COORD_IN_VIEW;
}
/* Sends the scratch buffer; no effect if the member is not connected. */
void tt_coord_send(struct tt_coord *c, struct tt_coord_member *m, size_t bytes);
void tt_coord_send_msg(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
void tt_coord_log(struct tt_coord *c, size_t bytes);
void tt_coord_log_msg(struct tt_coord *c, const struct tt_elmsg *msg);
void tt_coord_close(struct tt_coord *c, struct tt_coord_conn *conn);
/* Sends the reason, and closes the connection. */
void tt_coord_refuse(struct tt_coord *c, struct tt_coord_conn *conn, uint8_t status,
                     const char *text);
/* Like tt_coord_refuse, with a message of this protocol version. */
void tt_coord_refuse_as(struct tt_coord *c, struct tt_coord_conn *conn, uint8_t version,
                        uint8_t status, const char *text);
/* Schedules a tick at that time. */
void tt_coord_due(struct tt_coord *c, uint64_t at_ns);
uint64_t tt_coord_numbered(const struct tt_coord *c, uint64_t last);

/* ---- coord_journal.c: records for the journal ---- */

void tt_coord_log_start(struct tt_coord *c);
void tt_coord_log_view(struct tt_coord *c);
void tt_coord_log_result(struct tt_coord *c);
/* Logs the calls taken back, and the reason. */
void tt_coord_log_back(struct tt_coord *c, const struct tt_coord_result *why);
void tt_coord_log_gone(struct tt_coord *c, const struct tt_coord_member *m);
/* Logs the loss, with the reports of all members that left this view. */
void tt_coord_log_lost(struct tt_coord *c, const struct tt_coord_member *m, uint8_t loss);
void tt_coord_log_member(struct tt_coord *c, const struct tt_coord_member *m);
void tt_coord_log_sync(struct tt_coord *c, const struct tt_coord_scope *s);
void tt_coord_log_plan(struct tt_coord *c, const struct tt_coord_scope *s);

/* ---- coord_sync_state.c: the state of a sync ---- */

/* Returns whether the member is live and belongs to the scope. */
static inline bool tt_coord_is_in(const struct tt_coord_member *m, uint16_t scope)
{
    return tt_coord_is_live(m) && (scope == 0 || m->role + 1u == scope);
}

static inline uint16_t tt_coord_scope_index(const struct tt_coord *c,
                                            const struct tt_coord_scope *s)
{
    return (uint16_t)(s - c->scopes);
}

/* Returns the scope's bit in a member's `synced`. */
static inline uint8_t tt_coord_scope_bit(uint16_t scope)
{
    return (uint8_t)(1u << (scope == 0 ? TT_SYNC_OF_VIEW : TT_SYNC_OF_ROLE));
}

/* Returns the number of the last sync of this scope that ended in this epoch; 0: none. */
static inline uint64_t tt_coord_last_sync(const struct tt_coord *c, const struct tt_coord_scope *s)
{
    return s->epoch == c->epoch ? s->number : 0;
}

/* Sets whether the member was in the scope's last successful sync. */
static inline void tt_coord_set_synced(struct tt_coord_member *m, uint16_t scope, bool synced)
{
    if (scope == 0 || m->role + 1u == scope)
        m->synced = (uint8_t)((m->synced & ~tt_coord_scope_bit(scope)) |
                              (synced ? tt_coord_scope_bit(scope) : 0));
}

/* Changes the state of the scope's sync; no effect if it is in that state already. */
void tt_coord_set_sync(struct tt_coord *c, struct tt_coord_scope *s, uint8_t to);
/* Call at each new view: ends all syncs. */
void tt_coord_reset_syncs(struct tt_coord *c);
/* Mark the sync of a scope, or those of all scopes of a member, as possibly decidable. */
void tt_coord_touch_scope(struct tt_coord *c, struct tt_coord_scope *s);
void tt_coord_touch_scopes(struct tt_coord *c, const struct tt_coord_member *m);
/* Returns whether the member can send the state selected by the sync. */
bool tt_coord_is_source(const struct tt_coord_member *m);
/* Call when a member was lost: syncs of its scopes may be decidable. */
void tt_coord_lose_sync(struct tt_coord *c, const struct tt_coord_member *m);
void tt_coord_send_synced(struct tt_coord *c, struct tt_coord_member *m, uint16_t scope,
                          uint64_t number, const struct tt_coord_result *r);
/* Notifies the member that its offer, of a sync that is not moving yet, was taken back. */
void tt_coord_send_offer_back(struct tt_coord *c, struct tt_coord_member *m);

/* ---- coord_round_state.c: the state of a round ---- */

/* Changes the state of the round; asserts that the table permits it. */
void tt_coord_set_round(struct tt_coord *c, uint8_t to);
/* Ends the current round, which is decided, and opens the next one. */
void tt_coord_end_round(struct tt_coord *c);
void tt_coord_send_result(struct tt_coord *c, struct tt_coord_member *m,
                          const struct tt_coord_result *r);
/* Notifies the member that its call in this round was taken back. */
void tt_coord_send_back(struct tt_coord *c, struct tt_coord_member *m,
                        const struct tt_coord_result *why, uint64_t round);
/* Call if members made different calls: takes back the calls of members marked goes_back, without
 * effect. Rounds and syncs keep their numbers. */
void tt_coord_take_back(struct tt_coord *c, const struct tt_coord_result *why);
/* Returns whether this is the call, or offer, that was taken back last. If so, the member has
 * missed the notification, which is in back_why. */
bool tt_coord_comes_again(const struct tt_coord_member *m, const struct tt_elmsg *call);

/* ---- coord_removal.c ---- */

/* Removes a member of the run. loss: enum tt_loss, the reason. */
void tt_coord_lose(struct tt_coord *c, struct tt_coord_member *m, uint8_t loss);
/* Cancels the proposal; its newcomers wait again. */
void tt_coord_abandon(struct tt_coord *c);

/* ---- coord_view.c: proposals and views ---- */

/* Chooses the members of the next view (next_rank of each). These are the remaining members, and
 * newcomers within `most` that accept a view of that size. Returns the number. */
uint32_t tt_coord_choose(struct tt_coord *c, bool admit, uint32_t most);
void tt_coord_propose(struct tt_coord *c);
void tt_coord_on_ready(struct tt_coord *c, struct tt_coord_member *m, struct tt_elmsg *msg);
/* Call if not all members have answered the proposal in time. */
void tt_coord_overdue(struct tt_coord *c);
/* Concludes a proposal that all have answered; returns whether it did. */
bool tt_coord_conclude(struct tt_coord *c);
void tt_coord_send_proposal(struct tt_coord *c, struct tt_coord_member *m);
void tt_coord_send_view(struct tt_coord *c, struct tt_coord_member *m);
/* Installs and logs the view of the members with a next_rank. */
void tt_coord_install(struct tt_coord *c);
/* Sends an update to all members of the view, if anything has changed. */
void tt_coord_send_updates(struct tt_coord *c);

/* ---- coord_round.c: calls that all members make ---- */

void tt_coord_call(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
void tt_coord_cancel(struct tt_coord *c, struct tt_coord_member *m, uint64_t round);
bool tt_coord_decide_round(struct tt_coord *c);
/* A member has waited in an operation: queries another one, which is in a call, whether it has
 * begun the operation. */
void tt_coord_inside(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
/* Call if the queried member has not begun the operation. Neither the operation nor the call can
 * end: takes back all such calls, and ends the epoch. */
void tt_coord_not_begun(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
/* Call when a member has reconnected after a restart: records the round that it reports. */
void tt_coord_take_round(struct tt_coord *c, struct tt_coord_member *m,
                         const struct tt_elmsg *join);
/* Determines the round when all live members have reconnected; returns whether anything has
 * changed. */
bool tt_coord_catch_up(struct tt_coord *c);
void tt_coord_send_last(struct tt_coord *c, struct tt_coord_member *m);

/* ---- coord_ring.c: the ring order ---- */

void tt_coord_init_ring(struct tt_coord *c);
void tt_coord_links(struct tt_coord *c, struct tt_coord_member *m, struct tt_elmsg *msg);
/* Runs a slice of the search, if due, and handles its result at the end. */
void tt_coord_search_ring(struct tt_coord *c);
/* Returns the time of the next slice, or TT_NEVER. */
uint64_t tt_coord_ring_next_ns(const struct tt_coord *c);
/* Returns the purpose of the pending order: enum tt_ring_plan. */
uint8_t tt_coord_ring_plan(const struct tt_coord *c);
/* Call at each new view: discards measurements and the pending order. */
void tt_coord_reset_ring(struct tt_coord *c);

/* ---- coord_loss.c: questions and outcomes ---- */

void tt_coord_answer(struct tt_coord *c, struct tt_coord_member *m, struct tt_elmsg *msg);
bool tt_coord_query(struct tt_coord *c);
bool tt_coord_judge(struct tt_coord *c);
void tt_coord_send_lost(struct tt_coord *c, struct tt_coord_member *m);
/* Merges the final operations in msg's list, from a member that leaves, or left before a
 * restart. */
void tt_coord_take_words(struct tt_coord *c, struct tt_elmsg *msg);

/* ---- coord_choice.c: selection of the state ---- */

struct tt_coord_choice {
    bool fresh;             /* any revision and any state are permitted */
    bool cohort;            /* no member of the last sync remains: only its state may be selected */
    uint64_t legal;
    struct tt_hash keys;
};

bool tt_coord_is_candidate(const struct tt_coord_scope *s, const struct tt_coord_choice *choice,
                           const struct tt_coord_member *m);
/* Call only if all members of the scope have offered. Returns TT_ROUND_OK, with the selected state
 * in s->next_*; or the reason why no state was selected, with nothing changed. */
uint8_t tt_coord_choose_state(const struct tt_coord *c, struct tt_coord_scope *s,
                              struct tt_coord_choice *choice);

/* ---- coord_sync.c: shared state ---- */

void tt_coord_offer(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
void tt_coord_withdraw(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
void tt_coord_vote(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
bool tt_coord_decide_sync(struct tt_coord *c);
/* Call only if all members of the view have called, and all possible decisions were made. Returns
 * whether a sync cannot take place because not all members of its scope called it; *mismatch has
 * the calls of two members. */
bool tt_coord_is_torn(const struct tt_coord *c, struct tt_coord_result *mismatch);

#endif
