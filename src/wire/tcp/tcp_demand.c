/* Lanes to far peers, opened on demand, if the user has not set their number.
 *
 * One connection over a long-distance link is slow: after a loss it reduces its window, which then
 * grows over many round trips. With several connections, a loss affects only one of them. But short
 * data on many connections is slower than on one, since their windows grow with use.
 *
 * Lanes are therefore opened when there is data for them: whenever a put waits because the existing
 * ones have MOST_BYTES each that the kernel has not accepted. Data is sent on the first lanes with
 * less than FILL_BYTES (TT_DQPLB_FILL), so that short operations use few lanes, whose windows have
 * grown. Since a lane has little queued, the end of an operation does not wait long for the slowest
 * one. Once bulk data has another lane, lane 0 is left to urgent frames and responses, which would
 * wait behind it.
 *
 * The initiator opens lanes, as it may be the only end that can connect; the other end requests
 * lanes from it (TT_FRAME_LANES). Lanes stay open until the link ends. */
#include "wire/tcp/tcp.h"

/* Approximate bytes per round trip of a connection that loses one packet in 5000, or after four
 * round trips without loss. */
#define FILL_BYTES (256u << 10)
#define MOST_BYTES (2 * FILL_BYTES)
#define FIRST_LANES 4u      /* the first step, of which three carry bulk data */

void tt_tcp_fill_lanes(struct tt_tcp_link *link)
{
    link->load.fill_bytes = FILL_BYTES;
    link->load.choice = link->tcp->alone ? TT_DQPLB_EMPTIEST : TT_DQPLB_FILL;
}

uint64_t tt_tcp_lane_bytes(const struct tt_tcp_link *link)
{
    const struct tt_tcp *t = link->tcp;
    const enum tt_distance d = tt_rput_distance(&t->conf, link->peer);

    return link->on_demand && !t->limits.user_set[d] ? MOST_BYTES : t->limits.bytes[d];
}

void tt_tcp_want_lanes(struct tt_tcp_link *link)
{
    uint32_t up = 0, wanted;
    uint64_t bytes = 0;

    link->tcp->lanes_wanted |= link->untried;
    if (!link->on_demand || link->requested == link->nlanes)
        return;
    for (uint32_t i = 0; i < link->requested; i++) {
        up += !link->load.lane[i].down;
        bytes += link->load.lane[i].bytes;
    }
    if (up < link->requested || bytes < FILL_BYTES)
        return;     /* lanes that are being opened may suffice; or the put waits for something
                       else */
    wanted = 2 * up > FIRST_LANES ? 2 * up : FIRST_LANES;
    if (wanted > link->nlanes)
        wanted = link->nlanes;
    if (wanted > link->wanted)
        link->wanted = wanted;
    link->tcp->lanes_wanted = true;
}
