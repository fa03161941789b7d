#include "base/control_socket.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* signalling traffic in the field of differentiated services: class selector 5 (RFC 4594, section
 * 3.2) */
#define DSCP_SIGNALLING (40 << 2)
/* of the kernel's packet queue: interactive traffic. Higher values need a privilege */
#define PRIORITY 6
/* maximum delay of an acknowledgement by a peer without data to send */
#define DELAYED_ACK_US 40000

void tt_control_socket(int fd)
{
    const int one = 1, dscp = DSCP_SIGNALLING, priority = PRIORITY;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    /* Few packets are in flight, so a lost one is detected only by the timer. The timer does not
     * double for the first losses in a row. */
    setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &one, sizeof one);
    setsockopt(fd, IPPROTO_IP, IP_TOS, &dscp, sizeof dscp);
    setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &dscp, sizeof dscp);
    setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority); /* after IP_TOS */
}

uint64_t tt_control_round_trip_of(uint32_t smoothed_us, uint32_t min_us)
{
    const uint32_t queued_us = smoothed_us > DELAYED_ACK_US ? smoothed_us - DELAYED_ACK_US : 0;

    if (min_us == UINT32_MAX)
        min_us = 0;     /* not measured yet */
    return 1000 * (uint64_t)(queued_us > min_us ? queued_us : min_us);
}

uint64_t tt_control_round_trip_ns(int fd)
{
    struct tcp_info info = { 0 };
    socklen_t bytes = sizeof info;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
        return 0;
    return tt_control_round_trip_of(info.tcpi_rtt, info.tcpi_min_rtt);
}
