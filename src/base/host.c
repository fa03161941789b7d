#include "base/host.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/prng.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71      /* Linux 5.14 */
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t hash;

struct identity {
    char boot[64];              /* boot id, or the host name */
    uint64_t device, inode;     /* of the network namespace; or 0 and its cookie */
};

/* Without /proc: the host name and the cookie of the network namespace. */
static void find_without_proc(struct identity *is)
{
    struct utsname host;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = sizeof is->inode;

    *is = (struct identity){ 0 };
    if (uname(&host) == 0)
        memcpy(is->boot, host.nodename, strnlen(host.nodename, sizeof is->boot - 1));
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &is->inode, &bytes) != 0)
        is->inode = 0;
    if (fd >= 0)
        close(fd);
}

static void find_out(void)
{
    struct identity is = { 0 };
    struct stat ns;
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        if (read(fd, is.boot, sizeof is.boot - 1) < 0)
            is.boot[0] = 0;
        close(fd);
    }
    if (stat("/proc/self/ns/net", &ns) == 0) {
        is.device = ns.st_dev;
        is.inode = ns.st_ino;
    }
    if (!is.boot[0] || !is.inode)
        find_without_proc(&is);
    if (!is.boot[0] || !is.inode)
        tt_random_bytes(&is, sizeof is);        /* unknown: no other process is assumed on this
                                                   host */
    hash = tt_hash_bytes(&is, sizeof is, 0);
}

uint64_t tt_host_hash(void)
{
    pthread_once(&once, find_out);
    return hash;
}
