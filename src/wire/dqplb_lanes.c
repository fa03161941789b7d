#include "wire/dqplb_lanes.h"

#include "base/status.h"
#include "wire/planted.h"

void tt_dqplb_lanes_init(struct tt_dqplb_lanes *l, uint32_t n, uint32_t outstanding_max)
{
    tt_assert(n >= 1 && n <= TT_DQPLB_LANES_MAX && outstanding_max >= 1);
    *l = (struct tt_dqplb_lanes){ .n = n,
                                  .outstanding_max = outstanding_max,
                                  .bytes_max = UINT64_MAX };
}

bool tt_dqplb_lanes_has_room(const struct tt_dqplb_lanes *l, uint32_t lane, uint64_t bytes)
{
    const struct tt_dqplb_lane *at = &l->lane[lane];

    if (at->down ||
        (at->outstanding >= l->outstanding_max && !TT_PLANTED(TT_DQPLB_BUG_LANE_OVERFULL)))
        return false;
    return at->bytes == 0 || at->bytes + bytes <= l->bytes_max ||
           TT_PLANTED(TT_DQPLB_BUG_LANE_OVERWEIGHT);
}

/* Returns whether lane a is preferred to b, which precedes it in round-robin order. */
static bool is_better(const struct tt_dqplb_lanes *l, uint32_t a, uint32_t b)
{
    return l->choice != TT_DQPLB_IN_TURN && l->lane[a].bytes < l->lane[b].bytes &&
           !TT_PLANTED(TT_DQPLB_BUG_NOT_EMPTIEST);
}

/* Returns the first lane before `end` with fewer than fill_bytes, or TT_DQPLB_NO_LANE. */
static uint32_t first_unfilled(const struct tt_dqplb_lanes *l, uint64_t bytes, uint32_t end)
{
    for (uint32_t lane = l->keeps_first; lane < end; lane++)
        if (l->lane[lane].bytes < l->fill_bytes && tt_dqplb_lanes_has_room(l, lane, bytes))
            return lane;
    return TT_DQPLB_NO_LANE;
}

/* Returns the end of the first `most` usable lanes. Lanes that are down are skipped, so the limit
 * leaves at least one usable lane if any is up. */
static uint32_t usable_end(const struct tt_dqplb_lanes *l, uint32_t most)
{
    uint32_t lane = 0;

    for (uint32_t n = 0; lane < l->n && n < most; lane++)
        n += !l->lane[lane].down && !(lane == 0 && l->keeps_first);
    return lane;
}

uint32_t tt_dqplb_lanes_choose(struct tt_dqplb_lanes *l, uint64_t bytes, uint32_t most)
{
    const uint32_t end = most == 0 || most >= l->n ? l->n : usable_end(l, most);
    uint8_t *turn = &l->turn[end - 1];
    uint32_t best = TT_DQPLB_NO_LANE, lane = *turn;

    if (l->choice == TT_DQPLB_FILL)
        best = first_unfilled(l, bytes, end);
    if (best != TT_DQPLB_NO_LANE)
        return best;
    for (uint32_t i = 0; i < end; i++, lane = lane + 1 < end ? lane + 1 : 0) {
        if ((lane == 0 && l->keeps_first) ||
            (best != TT_DQPLB_NO_LANE && !is_better(l, lane, best)) ||
            !tt_dqplb_lanes_has_room(l, lane, bytes))
            continue;
        best = lane;
        if (l->choice == TT_DQPLB_IN_TURN)
            break;
    }
    if (best != TT_DQPLB_NO_LANE)
        *turn = (uint8_t)(best + 1 < end ? best + 1 : 0);
    return best;
}

void tt_dqplb_lanes_give(struct tt_dqplb_lanes *l, uint32_t lane, uint32_t segments, uint64_t bytes)
{
    l->lane[lane].outstanding += segments;
    l->lane[lane].bytes += bytes;
}

bool tt_dqplb_lanes_done(struct tt_dqplb_lanes *l, uint32_t lane, uint32_t segments, uint64_t bytes)
{
    struct tt_dqplb_lane *at = &l->lane[lane];

    if (segments > at->outstanding || bytes > at->bytes)
        return false;
    at->outstanding -= segments;
    at->bytes -= bytes;
    return true;
}

void tt_dqplb_lanes_down(struct tt_dqplb_lanes *l, uint32_t lane)
{
    l->lane[lane] = (struct tt_dqplb_lane){ .down = true };
}

void tt_dqplb_lanes_up(struct tt_dqplb_lanes *l, uint32_t lane)
{
    l->lane[lane].down = false;
}
