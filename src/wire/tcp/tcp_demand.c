/* Lanes to far peers, opened on demand, if the user has not set their number.
 *
 * One connection over a long line is slow: after a loss it reduces its window, which then grows
 * over many round trips. Several connections lose less each. But short data on many connections is
 * slower than on one, since their windows grow with use.
 *
 * Lanes are therefore opened when there is data for them: whenever the existing ones have not
 * accepted FILL_BYTES each. Data is sent on the first lanes with less than that
 * (TT_DQPLB_FILL), so that short operations use few lanes, whose windows have grown. Once bulk data
 * has another lane, lane 0 is left to urgent frames and responses, which would wait behind it.
 *
 * The initiator opens lanes, as it may be the only end that can connect; the other end asks it to
 * (TT_FRAME_LANES). Lanes stay open until the link ends. */
#include "wire/tcp/tcp.h"

/* About what a connection carries per round trip over a line that loses a packet in 5000, or after
 * four round trips over one that does not. */
#define FILL_BYTES (256u << 10)

void tt_tcp_fill_lanes(struct tt_tcp_link *link)
{
    link->load.fill_bytes = FILL_BYTES;
    link->load.choice = link->tcp->alone ? TT_DQPLB_EMPTIEST : TT_DQPLB_FILL;
}

void tt_tcp_want_lanes(struct tt_tcp_link *link)
{
    uint64_t bytes = 0, wanted;     /* never lowered: the peer may want more, too */

    if (!link->on_demand || link->requested == link->nlanes)
        return;
    for (uint32_t i = 0; i < link->requested; i++)
        bytes += link->load.lane[i].bytes;
    if (bytes < FILL_BYTES)
        return;
    wanted = 2 + bytes / FILL_BYTES;        /* one remains for urgent frames */
    if (wanted > link->nlanes)
        wanted = link->nlanes;
    if (wanted > link->wanted)
        link->wanted = (uint32_t)wanted;
    link->tcp->lanes_wanted |= link->wanted > link->requested;
}
