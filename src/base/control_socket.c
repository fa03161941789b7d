#include "base/control_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* signalling traffic in the field of differentiated services: class selector 5 (RFC 4594, section
 * 3.2) */
#define DSCP_SIGNALLING (40 << 2)
/* of the system's own queue: interactive traffic. Higher values need a privilege */
#define PRIORITY 6

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

uint64_t tt_control_round_trip_ns(int fd)
{
    struct tcp_info info = { 0 };
    socklen_t bytes = sizeof info;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
        return 0;
    return (uint64_t)info.tcpi_rtt * 1000;
}
