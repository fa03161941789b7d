/* How full each of several lanes to a peer is, and which one is next: the part of DQPLB (dqplb.h) that all wires with lanes share. Pure.
 *
 * What is given to a lane is outstanding on it until the wire says that it is done: a queue pair tells by completions, a TCP connection by what its
 * kernel has taken. Each lane has bounds, on segments and on bytes, and a full one is skipped until it drains; so a slow path carries what it can.
 * A segment that is longer than the bound on bytes goes to a lane that has nothing else. */
#ifndef TT_WIRE_DQPLB_LANES_H
#define TT_WIRE_DQPLB_LANES_H

#include <stdbool.h>
#include <stdint.h>

#define TT_DQPLB_LANES_MAX 16
#define TT_DQPLB_NO_LANE UINT32_MAX

enum tt_dqplb_choice {
    TT_DQPLB_IN_TURN,           /* the next in turn that has room: for bounds that are tight, and segments of one size */
    TT_DQPLB_EMPTIEST           /* of those that have room the one with the fewest bytes, and those alike in turn: where bounds are wide, and sizes differ */
};

struct tt_dqplb_lane {
    uint64_t bytes;             /* outstanding */
    uint32_t outstanding;       /* segments */
    bool down;
};

/* bytes_max, choice and keeps_first are the wire's to change at any time; bytes_max counts from the next segment on. */
struct tt_dqplb_lanes {
    struct tt_dqplb_lane lane[TT_DQPLB_LANES_MAX];
    uint32_t n;
    uint32_t outstanding_max;   /* segments of a lane */
    uint64_t bytes_max;         /* bytes of a lane */
    uint8_t turn[TT_DQPLB_LANES_MAX];   /* the lane that is looked at first, by how many may be taken, less 1: who may take few disturbs no others' turns */
    enum tt_dqplb_choice choice;
    bool keeps_first;           /* tt_dqplb_lanes_choose leaves the first lane to those who name it */
};

/* n lanes (1..TT_DQPLB_LANES_MAX) that are up and empty, dealt out in turn, with bounds on segments (at least 1) alone. */
void tt_dqplb_lanes_init(struct tt_dqplb_lanes *l, uint32_t n, uint32_t outstanding_max);

/* Whether the lane takes a segment of so many bytes now. */
bool tt_dqplb_lanes_has_room(const struct tt_dqplb_lanes *l, uint32_t lane, uint64_t bytes);

/* The lane for the next segment, which has so many bytes, among the first `most` of those that are up and not kept (0: among all); then it is the turn of
 * the lane after it, among those. TT_DQPLB_NO_LANE: all of these are full, or none is up. */
uint32_t tt_dqplb_lanes_choose(struct tt_dqplb_lanes *l, uint64_t bytes, uint32_t most);

/* So many segments and bytes are outstanding on the lane from now on. Bounds are the caller's business: what has to go over this lane may exceed them. */
void tt_dqplb_lanes_give(struct tt_dqplb_lanes *l, uint32_t lane, uint32_t segments, uint64_t bytes);

/* And so many no longer. False: there are not so many, and nothing has changed. */
bool tt_dqplb_lanes_done(struct tt_dqplb_lanes *l, uint32_t lane, uint32_t segments, uint64_t bytes);

/* The lane takes nothing until it is up, and nothing is outstanding on it. */
void tt_dqplb_lanes_down(struct tt_dqplb_lanes *l, uint32_t lane);
void tt_dqplb_lanes_up(struct tt_dqplb_lanes *l, uint32_t lane);

#endif
