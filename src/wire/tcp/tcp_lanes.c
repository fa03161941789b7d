/* Counters of lanes, for dumps. They are read from the kernel, so sending needs no counting. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <linux/sockios.h>

#include "base/clock.h"
#include "wire/tcp/tcp.h"

/* Returns a time some milliseconds ago. */
static uint64_t before(uint64_t now_ns, uint32_t ms)
{
    return now_ns > ms * TT_MS ? now_ns - ms * TT_MS : 1;
}

/* Fields that an older kernel does not provide are 0. */
static void count_segments(struct tt_wire_lane *out, const struct tcp_info *info, uint64_t unsent,
                           uint32_t nqueued)
{
    const bool is_overdue = info->tcpi_retransmits > 0 && info->tcpi_unacked > 0;
    const uint32_t nsent = info->tcpi_data_segs_out > info->tcpi_total_retrans
                               ? info->tcpi_data_segs_out - info->tcpi_total_retrans
                               : 0;

    out->posts = nsent + (is_overdue ? nqueued : 0);
    out->completions =
        nsent - (is_overdue ? (nsent < info->tcpi_unacked ? nsent : info->tcpi_unacked) : 0);
    out->completed_bytes = info->tcpi_bytes_acked;
    out->posted_bytes = info->tcpi_bytes_acked + unsent;
    if (!is_overdue)
        out->completed_bytes = out->posted_bytes;
    out->outstanding = out->posts - out->completions;
    out->outstanding_bytes = out->posted_bytes - out->completed_bytes;
}

static bool count_lane(const struct tt_tcp_lane *lane, struct tt_wire_lane *out)
{
    const struct tt_tcp_link *link = lane->link;
    const uint64_t now_ns = tt_now_ns();
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    int unsent = 0;

    memset(&info, 0, sizeof info);
    *out = (struct tt_wire_lane){ .peer = link->peer, .lane = lane->number };
    if (lane->fd < 0 || lane->unready)
        return lane->failures >= TT_TCP_TRIES;      /* else it is being opened */
    if (getsockopt(lane->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        ioctl(lane->fd, SIOCOUTQ, &unsent) != 0)
        return false;
    out->is_up = info.tcpi_state != 7 && !lane->ended;          /* 7: closed */
    out->last_post_ns = before(now_ns, info.tcpi_last_data_sent);
    out->last_completion_ns = before(now_ns, info.tcpi_last_ack_recv);
    count_segments(out, &info, (uint64_t)(unsent > 0 ? unsent : 0) + tt_tcp_queued(lane),
                   link->load.lane[lane->number].outstanding);
    return true;
}

void tt_tcp_lanes(struct tt_wire *w, bool next, tt_wire_lane_fn *add, void *arg)
{
    const struct tt_tcp *t = (const struct tt_tcp *)w;
    struct tt_tcp_link *link;
    struct tt_wire_lane lane;
    uint32_t at = 0;

    while ((link = tt_sparse_next(&t->links, &at)))
        for (uint32_t i = 0; link->state == TT_TCP_UP && i < link->requested; i++)
            if (count_lane(&link->lanes[i], &lane)) {
                lane.depth = i == 0 ? tt_dqplb_depth(&link->receiver, next) : 0;
                add(arg, &lane);
            }
}
