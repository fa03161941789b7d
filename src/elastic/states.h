/* What the protocol's state machines may do: every legal change of a state stands in a table, which is asserted where the state changes, which says what the
 * simulated histories have to come to, and of which docs/elastic-protocol.md and its pictures are made (scripts/draw-states.py). */
#ifndef TT_ELASTIC_STATES_H
#define TT_ELASTIC_STATES_H

#include <stdint.h>

struct tt_state_change {
    uint8_t from, to;
    const char *when;           /* "joins": what happens to that whose state it is */
};

#define TT_STATE_CHANGES_MAX 64u

struct tt_states {
    const char *name;           /* a word; the picture's file */
    const char *of;             /* whose states they are */
    const char *const *states;  /* [nstates] their names. State 0 is that of what is not there: the beginning, and where it says so, the end */
    uint32_t nstates;
    const struct tt_state_change *changes;  /* [nchanges], at most TT_STATE_CHANGES_MAX */
    uint32_t nchanges;
};

/* The register of all. */
extern const struct tt_states *const tt_all_states[];
extern const uint32_t tt_nall_states;

extern const struct tt_states tt_coord_member_states;   /* enum tt_coord_state, in coord.c */
extern const struct tt_states tt_coord_round_states;    /* enum tt_coord_round_state, in coord_round.c */
extern const struct tt_states tt_coord_sync_states;     /* enum tt_coord_sync_state, in coord_sync.c */
extern const struct tt_states tt_op_states;             /* enum tt_op_state, in member_ops.c */

/* Which of the changes this is. It is one of them: else it asserts, with what was to change. */
uint32_t tt_states_change(const struct tt_states *s, uint8_t from, uint8_t to);

#endif
