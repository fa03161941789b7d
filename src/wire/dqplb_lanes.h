/* Lane selection by fill level: the part of DQPLB (dqplb.h) that all transports with lanes share.
 * Pure.
 *
 * A segment is outstanding on its lane until the transport reports completion: a queue pair by its
 * completions, a TCP connection by the bytes that its kernel has accepted. Each lane has limits on
 * segments and bytes, and is skipped while it is full. A segment longer than the byte limit is sent
 * on an empty lane. */
#ifndef TT_WIRE_DQPLB_LANES_H
#define TT_WIRE_DQPLB_LANES_H

#include <stdbool.h>
#include <stdint.h>

#define TT_DQPLB_LANES_MAX 16
#define TT_DQPLB_NO_LANE UINT32_MAX

enum tt_dqplb_choice {
    TT_DQPLB_IN_TURN,           /* round-robin, skipping full lanes: for tight limits and equal
                                   segment sizes */
    TT_DQPLB_EMPTIEST,          /* the lane with the fewest bytes, round-robin among equal ones:
                                   for wide limits and different sizes */
    TT_DQPLB_FILL               /* the first lane with fewer than fill_bytes; if there is none, the
                                   emptiest: for lanes whose rate grows with use */
};

struct tt_dqplb_lane {
    uint64_t bytes;             /* outstanding bytes */
    uint32_t outstanding;       /* outstanding segments */
    bool down;
};

/* The transport may change bytes_max, fill_bytes, choice and keeps_first at any time. bytes_max
 * applies from the next segment on. */
struct tt_dqplb_lanes {
    struct tt_dqplb_lane lane[TT_DQPLB_LANES_MAX];
    uint32_t n;
    uint32_t outstanding_max;   /* per lane */
    uint64_t bytes_max;         /* per lane */
    uint64_t fill_bytes;        /* of TT_DQPLB_FILL */
    uint8_t turn[TT_DQPLB_LANES_MAX];   /* next lane in round-robin order, indexed by `most` - 1:
                                           a limited message does not affect the order of others */
    enum tt_dqplb_choice choice;
    bool keeps_first;           /* tt_dqplb_lanes_choose never selects the first lane, which is
                                   reserved for explicit use */
};

/* n lanes (1..TT_DQPLB_LANES_MAX), up and empty, round-robin, with only a limit on segments (at
 * least 1). */
void tt_dqplb_lanes_init(struct tt_dqplb_lanes *l, uint32_t n, uint32_t outstanding_max);

/* Returns whether the lane accepts a segment of this length now. */
bool tt_dqplb_lanes_has_room(const struct tt_dqplb_lanes *l, uint32_t lane, uint64_t bytes);

/* Returns the lane for the next segment of `bytes`, among the first `most` lanes that are up and
 * not reserved (0: all of them), and advances the round-robin order among these. TT_DQPLB_NO_LANE:
 * all are full, or none is up. */
uint32_t tt_dqplb_lanes_choose(struct tt_dqplb_lanes *l, uint64_t bytes, uint32_t most);

/* Adds outstanding segments and bytes to the lane. Does not enforce limits: a segment bound to this
 * lane may exceed them. */
void tt_dqplb_lanes_give(struct tt_dqplb_lanes *l, uint32_t lane, uint32_t segments,
                         uint64_t bytes);

/* Subtracts outstanding segments and bytes. Returns false, and changes nothing, if fewer are
 * outstanding. */
bool tt_dqplb_lanes_done(struct tt_dqplb_lanes *l, uint32_t lane, uint32_t segments,
                         uint64_t bytes);

/* Takes the lane down, with nothing outstanding; it is skipped until it is up again. */
void tt_dqplb_lanes_down(struct tt_dqplb_lanes *l, uint32_t lane);
void tt_dqplb_lanes_up(struct tt_dqplb_lanes *l, uint32_t lane);

#endif
