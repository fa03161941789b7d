/* Arbitrary packets sent by a host of a WAN testbed: arrivals and drops add up, and no access is
 * out of bounds. The first byte selects the net, the second the size of pieces. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "support/wan_net.h"
#include "support/wan_packet.h"

static uint8_t piece[WAN_FRAME_BYTES_MAX];

static void check_pieces(const uint8_t *frame, size_t bytes, uint32_t n)
{
    struct wan_shape s;

    if (!wan_shape_read(&s, frame, bytes, 3))
        return;
    (void)wan_flow(frame, bytes);
    tt_assert(s.to < 3 && s.nsegments >= 1);
    n = 1 + n % s.nsegments;
    for (uint32_t first = 0, i = 0; first < s.nsegments && i < 64; first += n, i++) {
        const uint32_t count = first + n < s.nsegments ? n : s.nsegments - first;
        const size_t length = wan_piece_write(piece, &s, frame, first, count);
        struct wan_shape part;

        tt_assert(length <= bytes && wan_shape_read(&part, piece, length, 3));
        tt_assert(part.to == s.to && part.nsegments == count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct wan_matrix m;
    const struct wan_count *c;
    struct wan_arrival a;
    struct wan_shape s;
    struct wan_net *net;

    if (bytes < 2)
        return 0;
    tt_log_set(TT_LOG_NONE);
    check_pieces(data + 2, bytes - 2, data[1]);
    m.nhosts = 3;
    for (uint32_t to = 1; to < 3; to++) {
        m.pair[0][to].loss = (data[0] & 3) / 4.0;
        m.pair[0][to].line.bit_s = data[0] & 4 ? 1000 : 0;
        m.pair[0][to].line.queue_bytes = 1000;
        m.pair[0][to].line.discipline = (enum wan_discipline)((data[0] >> 4 & 3) % 3);
        m.pair[0][to].burst = (data[0] >> 6) * 2;
        m.host[to].down.bit_s = data[0] & 8 ? 1000 : 0;
        m.host[to].down.queue_bytes = 500;
    }
    tt_assert(wan_net_create(&net, &m, 1u << 20) == TUTTI_OK);
    for (uint64_t t = 0; t < 3; t++)
        wan_net_send(net, t, 0, data + 2, bytes - 2);
    while (wan_net_take(net, TT_NEVER - 1, &a))
        tt_assert(a.bytes <= bytes - 2 && wan_shape_read(&s, a.frame, a.bytes, 3) && s.to == a.to);
    for (uint32_t to = 1; to < 3; to++) {
        c = wan_net_count(net, 0, to);
        tt_assert(c->segments == c->arrived_segments + c->lost + c->dropped_pair + c->dropped_down +
                                     c->dropped_room);
    }
    wan_net_destroy(net);
    return 0;
}
