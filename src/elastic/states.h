/* The state machines of the protocol. Every legal change of a state is in a table. Changes are
 * asserted against the table; the simulation must cover it; and the pictures and tables of
 * docs/elastic-protocol.md are generated from it (scripts/draw-states.py). */
#ifndef TT_ELASTIC_STATES_H
#define TT_ELASTIC_STATES_H

#include <stdint.h>

struct tt_state_change {
    uint8_t from, to;
    const char *when;           /* "joins": the event that changes the state */
};

#define TT_STATE_CHANGES_MAX 64u

struct tt_states {
    const char *name;           /* name of the picture's file */
    const char *of;             /* object of the states */
    const char *const *states;  /* [nstates] names. State 0 means that the object does not exist:
                                   the initial state, and in some tables the final one */
    uint32_t nstates;
    const struct tt_state_change *changes;  /* [nchanges], at most TT_STATE_CHANGES_MAX */
    uint32_t nchanges;
};

/* All tables. */
extern const struct tt_states *const tt_all_states[];
extern const uint32_t tt_nall_states;

extern const struct tt_states tt_coord_member_states;   /* coord_members.c: enum tt_coord_state */
extern const struct tt_states tt_coord_round_states;    /* coord_round_state.c:
                                                           tt_coord_round_state */
extern const struct tt_states tt_coord_sync_states;     /* coord_sync_state.c:
                                                           tt_coord_sync_state */
extern const struct tt_states tt_op_states;             /* member_ops.c: enum tt_op_state */

/* Returns the index of this change; asserts that it is legal. */
uint32_t tt_states_change(const struct tt_states *s, uint8_t from, uint8_t to);

#endif
