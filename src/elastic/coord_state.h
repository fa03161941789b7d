/* What the files of the coordinator share; nobody else includes this. Each event changes members and marks; then the steps below run
 * until nothing is left to decide, each looking at the state alone. So an event needs not know what follows from it. */
#ifndef TT_ELASTIC_COORD_STATE_H
#define TT_ELASTIC_COORD_STATE_H

#include "elastic/coord.h"

/* coord.c */
/* Changes the member's state; asserts that the table has it. UNKNOWN: it is swept out after the step. */
void tt_coord_set(struct tt_coord *c, struct tt_coord_member *m, uint8_t to);
/* The member is dead, gone, or not to be believed. */
void tt_coord_lose(struct tt_coord *c, struct tt_coord_member *m, uint8_t loss);
struct tt_coord_member *tt_coord_member_of(struct tt_coord *c, uint64_t id);
/* Whether it counts: in the view, and alive. */
static inline bool tt_coord_is_live(const struct tt_coord_member *m)
{
    return m->state == TT_COORD_IN_VIEW;
}
/* Sends what is in the scratch; nothing if the member has no connection now. */
void tt_coord_send(struct tt_coord *c, struct tt_coord_member *m, size_t bytes);
void tt_coord_send_msg(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
void tt_coord_log(struct tt_coord *c, size_t bytes);
void tt_coord_log_msg(struct tt_coord *c, const struct tt_elmsg *msg);
/* Says why and closes; m may be NULL for a stranger. */
void tt_coord_refuse(struct tt_coord *c, struct tt_coord_conn *conn, uint8_t status, const char *text);
/* Something is due then. */
void tt_coord_due(struct tt_coord *c, uint64_t at_ns);
uint64_t tt_coord_numbered(const struct tt_coord *c, uint64_t last);

/* Tells all members of the view, if there is anything new. */
void tt_coord_tell_news(struct tt_coord *c);

/* coord_view.c: proposals and views */
/* Chooses who would be in the next view (next_rank of each member): the members that are left, and as many newcomers as `most` leaves room for and accept
 * a view of so many; returns how many. */
uint32_t tt_coord_choose(struct tt_coord *c, bool admit, uint32_t most);
void tt_coord_propose(struct tt_coord *c);
void tt_coord_abandon(struct tt_coord *c);
void tt_coord_ready(struct tt_coord *c, struct tt_coord_member *m, struct tt_elmsg *msg);
/* It is not answered by all in time. */
void tt_coord_overdue(struct tt_coord *c);
/* Concludes a proposal that all have answered; whether it did. */
bool tt_coord_conclude(struct tt_coord *c);
void tt_coord_send_proposal(struct tt_coord *c, struct tt_coord_member *m);
void tt_coord_send_view(struct tt_coord *c, struct tt_coord_member *m);
/* Makes those with a next_rank the view, logged. */
void tt_coord_install(struct tt_coord *c);

/* coord_round.c: calls that all members make */
/* Changes the state of the round; asserts that the table has it. */
void tt_coord_set_round(struct tt_coord *c, uint8_t to);
/* It is decided, and the next one is open. */
void tt_coord_end_round(struct tt_coord *c);
void tt_coord_call(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
void tt_coord_cancel(struct tt_coord *c, struct tt_coord_member *m, uint64_t round);
bool tt_coord_decide_round(struct tt_coord *c);
/* Members called different things: the calls of those that are marked goes_back are, and nothing has happened. Rounds and syncs keep their numbers. */
void tt_coord_take_back(struct tt_coord *c, const struct tt_coord_result *why);
/* Whether this is the call, or offer, that was taken back last: its member missed the word of it, and has it in back_why. */
bool tt_coord_comes_again(const struct tt_coord_member *m, const struct tt_elmsg *call);
/* A member has waited in an operation: one that waits in a call is asked whether it has begun it. */
void tt_coord_inside(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
/* It has not. So neither the operation nor the call ever ends: all such calls are taken back, and the epoch is over. */
void tt_coord_not_begun(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
/* It is back after a restart, and says in which round it is. */
void tt_coord_take_round(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *join);
/* Finds out which round it is, once all that live are back; whether it did something. */
bool tt_coord_catch_up(struct tt_coord *c);
void tt_coord_send_last(struct tt_coord *c, struct tt_coord_member *m);

/* coord_ring.c: the order of the ring */
void tt_coord_init_ring(struct tt_coord *c);
void tt_coord_links(struct tt_coord *c, struct tt_coord_member *m, struct tt_elmsg *msg);
/* A slice of the search, if it is time for one, and at its end what comes of it. */
void tt_coord_search_ring(struct tt_coord *c);
/* When the next one is due; TT_NEVER. */
uint64_t tt_coord_ring_next_ns(const struct tt_coord *c);
/* What the order that waits is for: enum tt_ring_plan. */
uint8_t tt_coord_ring_plan(const struct tt_coord *c);
/* A new view: nothing is measured in it, and no order waits. */
void tt_coord_reset_ring(struct tt_coord *c);

/* coord_loss.c: questions and verdicts */
void tt_coord_answer(struct tt_coord *c, struct tt_coord_member *m, struct tt_elmsg *msg);
bool tt_coord_ask(struct tt_coord *c);
bool tt_coord_judge(struct tt_coord *c);
void tt_coord_send_lost(struct tt_coord *c, struct tt_coord_member *m);
/* What somebody knows to be final who leaves, or left before a restart: msg's list. */
void tt_coord_take_words(struct tt_coord *c, struct tt_elmsg *msg);

/* coord_choice.c: which state wins */
struct tt_coord_choice {
    bool fresh;             /* any revision may be carried, and it may be any state */
    bool cohort;            /* nobody is left of who was in the last sync: its state, or none */
    uint64_t legal;
    struct tt_hash keys;
};

bool tt_coord_is_candidate(const struct tt_coord_scope *s, const struct tt_coord_choice *choice,
                           const struct tt_coord_member *m);
/* All of the scope have offered. TT_ROUND_OK, and what wins in s->next_*; else why nothing does, with nothing changed. */
uint8_t tt_coord_choose_state(const struct tt_coord *c, struct tt_coord_scope *s, struct tt_coord_choice *choice);

/* coord_sync.c: shared state */
/* Whether it counts for the scope. */
static inline bool tt_coord_is_in(const struct tt_coord_member *m, uint16_t scope)
{
    return tt_coord_is_live(m) && (scope == 0 || m->role + 1u == scope);
}

static inline uint16_t tt_coord_scope_index(const struct tt_coord *c, const struct tt_coord_scope *s)
{
    return (uint16_t)(s - c->scopes);
}

/* The scope's bit in a member's `synced`. */
static inline uint8_t tt_coord_scope_bit(uint16_t scope)
{
    return (uint8_t)(1u << (scope == 0 ? TT_SYNC_OF_VIEW : TT_SYNC_OF_ROLE));
}

/* Of the last sync of this scope that ended in this epoch; 0: there was none. */
static inline uint64_t tt_coord_last_sync(const struct tt_coord *c, const struct tt_coord_scope *s)
{
    return s->epoch == c->epoch ? s->number : 0;
}

/* Whether it was in the scope's last sync that ended well. */
static inline void tt_coord_set_synced(struct tt_coord_member *m, uint16_t scope, bool synced)
{
    if (scope == 0 || m->role + 1u == scope)
        m->synced = (uint8_t)((m->synced & ~tt_coord_scope_bit(scope)) | (synced ? tt_coord_scope_bit(scope) : 0));
}

void tt_coord_offer(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
void tt_coord_withdraw(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
void tt_coord_vote(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg);
/* A member is lost: syncs of its scopes may be decided now. */
void tt_coord_lose_sync(struct tt_coord *c, const struct tt_coord_member *m);
bool tt_coord_decide_sync(struct tt_coord *c);
/* All of the view have called, and what can be decided is: whether some sync cannot come about, as not all of its scope have called it. Then *mismatch says what two
 * members called. */
bool tt_coord_is_torn(const struct tt_coord *c, struct tt_coord_result *mismatch);
/* Its offer, of a sync that is not yet moving, was taken back: it is told why. */
void tt_coord_send_offer_back(struct tt_coord *c, struct tt_coord_member *m);
/* Nothing happens where it is in that state already. */
void tt_coord_set_sync(struct tt_coord *c, struct tt_coord_scope *s, uint8_t to);
/* A new view: no sync is under way. */
void tt_coord_reset_syncs(struct tt_coord *c);

/* coord_sync_log.c: its journal */
void tt_coord_log_sync(struct tt_coord *c, const struct tt_coord_scope *s);
void tt_coord_log_plan(struct tt_coord *c, const struct tt_coord_scope *s);
bool tt_coord_replay_plan(struct tt_coord *c, struct tt_elmsg *msg);
bool tt_coord_replay_sync(struct tt_coord *c, struct tt_elmsg *msg);
void tt_coord_resume_syncs(struct tt_coord *c);

/* coord_journal.c */
void tt_coord_log_view(struct tt_coord *c);
void tt_coord_log_result(struct tt_coord *c);
/* Whose calls go back, and why. */
void tt_coord_log_back(struct tt_coord *c, const struct tt_coord_result *why);
void tt_coord_log_gone(struct tt_coord *c, const struct tt_coord_member *m);
/* It is lost; with the words of all who left this view. */
void tt_coord_log_lost(struct tt_coord *c, const struct tt_coord_member *m, uint8_t loss);
void tt_coord_log_member(struct tt_coord *c, const struct tt_coord_member *m);

#endif
