/* The state of a round, its result as sent to members, and calls that are taken back. */
#include "elastic/coord_state.h"
#include "elastic/planted.h"
#include "elastic/states.h"

static const char *const states[] = {
    [TT_COORD_ROUND_NONE] = "not begun",  [TT_COORD_ROUND_UNSURE] = "unsure",
    [TT_COORD_ROUND_OPEN] = "open",       [TT_COORD_ROUND_PROPOSED] = "proposed",
    [TT_COORD_ROUND_DECIDED] = "decided",
};
static const struct tt_state_change changes[] = {
    { TT_COORD_ROUND_NONE, TT_COORD_ROUND_OPEN,
      "the previous round is decided, or the run begins" },
    { TT_COORD_ROUND_NONE, TT_COORD_ROUND_UNSURE,
      "a new coordinator starts after a failure, and this is the next "
      "round" },
    { TT_COORD_ROUND_UNSURE, TT_COORD_ROUND_OPEN,
      "no member that has reconnected received a result of the round" },
    { TT_COORD_ROUND_UNSURE, TT_COORD_ROUND_DECIDED,
      "a member that has reconnected received the result SAME" },
    { TT_COORD_ROUND_OPEN, TT_COORD_ROUND_PROPOSED,
      "all members call an epoch that admits newcomers" },
    { TT_COORD_ROUND_PROPOSED, TT_COORD_ROUND_OPEN,
      "the proposal fails: a member was lost, was not reached, or "
      "cancelled its call" },
    { TT_COORD_ROUND_OPEN, TT_COORD_ROUND_DECIDED,
      "all members have called: a result, or a view without newcomers" },
    { TT_COORD_ROUND_PROPOSED, TT_COORD_ROUND_DECIDED,
      "all members of the proposed view are connected" },
};
const struct tt_states tt_coord_round_states = {
    .name = "rounds",
    .of = "a round; states in the coordinator",
    .states = states,
    .nstates = TT_COORD_ROUND_STATES,
    .changes = changes,
    .nchanges = sizeof changes / sizeof *changes,
};

void tt_coord_set_round(struct tt_coord *c, uint8_t to)
{
    c->rounds_covered |= 1ull << tt_states_change(&tt_coord_round_states, c->round_state, to);
    c->round_state = to;
}

void tt_coord_end_round(struct tt_coord *c)
{
    tt_coord_set_round(c, TT_COORD_ROUND_DECIDED);
    c->round++;
    c->round_state = TT_COORD_ROUND_NONE; /* the next round */
    tt_coord_set_round(c, TT_COORD_ROUND_OPEN);
}

bool tt_coord_comes_again(const struct tt_coord_member *m, const struct tt_elmsg *call)
{
    return m->back != 0 && m->back == call->also && !TT_PLANTED(TT_BUG_BACK_FORGOTTEN);
}

void tt_coord_send_result(struct tt_coord *c, struct tt_coord_member *m,
                          const struct tt_coord_result *r)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_RESULT,
                                  .what = r->what,
                                  .flags = r->differs,
                                  .id = r->id,
                                  .other = r->other,
                                  .epoch = r->epoch,
                                  .number = r->round,
                                  .value = r->value,
                                  .also = r->also,
                                  .op = r->op };

    tt_coord_send_msg(c, m, &msg);
}

void tt_coord_send_back(struct tt_coord *c, struct tt_coord_member *m,
                        const struct tt_coord_result *why, uint64_t round)
{
    struct tt_coord_result result = *why;

    result.round = round;
    result.epoch = c->epoch;
    tt_coord_send_result(c, m, &result);
}

/* Logged first: a member that missed the notification receives it when its call is repeated,
 * even from a restarted coordinator. */
void tt_coord_take_back(struct tt_coord *c, const struct tt_coord_result *why)
{
    struct tt_coord_result back = *why;

    back.differs |= TT_DIFFERS_BACK;
    tt_coord_log_back(c, &back);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (!m->goes_back)
            continue;
        m->goes_back = m->called = false;
        m->back = m->attempt;
        m->back_why = back;
        if (m->what == TT_CALL_SYNC)
            tt_coord_send_offer_back(c, m);
        else
            tt_coord_send_back(c, m, &back, c->round);
    }
}
