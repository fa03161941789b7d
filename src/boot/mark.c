/* An abstract name exists in one network namespace of one kernel only. Connecting a datagram socket
 * to it sends nothing, so a stopped process is found, too. The number is random, so no process can
 * bind the name before its owner. A process that binds it on another host makes that host look like
 * the owner's; connections are authenticated and fall back to the network. */
#include "boot/mark.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/prng.h"

static socklen_t mark_name_of(uint64_t number, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) +
           (socklen_t)snprintf(out->sun_path + 1, sizeof out->sun_path - 1,
                               "tutti-mark-%016" PRIx64, number);
}

static int make_mark_socket(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

void tt_mark_init(struct tt_mark *out)
{
    struct tt_mark m = { .fd = make_mark_socket() };
    struct sockaddr_un name;
    socklen_t bytes;

    do
        tt_random_bytes(&m.number, sizeof m.number);
    while (m.number == 0);
    bytes = mark_name_of(m.number, &name);
    if (m.fd < 0 || bind(m.fd, (const struct sockaddr *)&name, bytes) != 0) {
        tt_log(TT_LOG_INFO,
               "cannot bind an abstract Unix socket (%s): processes on this host are not detected",
               strerror(errno));
        tt_mark_fini(&m);
    }
    *out = m;
}

void tt_mark_fini(struct tt_mark *m)
{
    if (m->fd >= 0)
        close(m->fd);
    *m = (struct tt_mark){ .fd = -1 };
}

enum tt_mark_place tt_mark_find(uint64_t number)
{
    struct sockaddr_un name;
    const socklen_t bytes = mark_name_of(number, &name);
    enum tt_mark_place place = TT_MARK_UNKNOWN;
    int fd;

    if (number == 0)
        return TT_MARK_UNKNOWN;
    fd = make_mark_socket();
    if (fd < 0)
        return TT_MARK_UNKNOWN;
    if (connect(fd, (const struct sockaddr *)&name, bytes) == 0)
        place = TT_MARK_HERE;
    else if (errno == ECONNREFUSED)
        place = TT_MARK_ELSEWHERE;
    close(fd);
    return place;
}
