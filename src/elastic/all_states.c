#include "elastic/states.h"

const struct tt_states *const tt_all_states[] = { &tt_coord_member_states, &tt_coord_round_states,
                                                  &tt_coord_sync_states, &tt_op_states };
const uint32_t tt_nall_states = sizeof tt_all_states / sizeof *tt_all_states;
