/* The first rank binds an abstract Unix socket, whose name is derived from the token, the purpose
 * and the URL. Every other rank finds the name taken, connects, and waits for one message. The
 * first rank responds to all connections whenever it has a result or a failure; until then they
 * wait in the backlog. If the first rank ends, the next rank that finds the name free replaces it.
 *
 * Other users can bind the name, or find it. Therefore each side checks the user ID of its peer. */
#include "boot/host_share.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define PATIENCE_NS (5 * TT_SECOND)
#define EARLY_NS (10 * TT_MS)   /* a timeout of a socket may expire this much too early */
#define MEANWHILE_MS 100        /* interval between calls of tt_share_meanwhile.fd */
#define BACKLOG 4096
#define NAME_BYTES_MAX 512

void tt_host_share_init(struct tt_host_share *s, const char *token, const char *purpose,
                        const char *url, const char *host)
{
    char data[NAME_BYTES_MAX];
    const int n = snprintf(data, sizeof data, "%s %s", url, host);

    *s = (struct tt_host_share){ .listener = -1 };
    tt_mac(s->name, token, strlen(token), purpose, data,
           n < NAME_BYTES_MAX ? (size_t)n : NAME_BYTES_MAX - 1);
}

void tt_host_share_fini(struct tt_host_share *s)
{
    if (s->listener >= 0)
        close(s->listener);
    s->listener = -1;
}

static socklen_t share_name(const struct tt_host_share *s, struct sockaddr_un *out)
{
    char *at = out->sun_path + 1;
    char *const end = out->sun_path + sizeof out->sun_path;

    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    at += snprintf(at, (size_t)(end - at), "tutti-share-");
    for (int i = 0; i < 16; i++)
        at += snprintf(at, (size_t)(end - at), "%02x", s->name[i]);
    return (socklen_t)(at - (char *)out);
}

static bool is_same_user(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

/* ---- the first rank ---- */

bool tt_host_share_is_first(struct tt_host_share *s)
{
    struct sockaddr_un name;
    const socklen_t bytes = share_name(s, &name);
    bool taken;
    int fd;

    if (s->listener >= 0 || s->alone)
        return true;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&name, bytes) == 0 &&
        listen(fd, BACKLOG) == 0) {
        s->listener = fd;
        return true;
    }
    taken = fd >= 0 && errno == EADDRINUSE;
    if (!taken)
        tt_log(TT_LOG_INFO,
               "start-up: cannot bind an abstract Unix socket (%s): this rank shares nothing with "
               "the other ranks of its host",
               strerror(errno));
    s->alone = !taken;
    if (fd >= 0)
        close(fd);
    return s->alone;
}

void tt_host_share_answer(struct tt_host_share *s, enum tt_share_answer answer, const void *data,
                          size_t bytes)
{
    uint8_t message[1 + TT_SHARE_BYTES_MAX] = { (uint8_t)answer };
    const size_t n = bytes < TT_SHARE_BYTES_MAX ? bytes : TT_SHARE_BYTES_MAX;

    if (s->listener < 0)
        return;
    if (n)
        memcpy(message + 1, data, n);
    for (int i = 0; i < BACKLOG; i++) {
        const int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0 && errno != EAGAIN) {    /* e.g. no descriptors: another rank replaces this
                                               one */
            tt_host_share_fini(s);
            s->alone = true;
        }
        if (fd < 0)
            return;
        if (is_same_user(fd))
            (void)send(fd, message, 1 + n, MSG_NOSIGNAL);
        close(fd);
    }
}

void tt_host_share_not_yet(struct tt_host_share *s, const char *why)
{
    tt_host_share_answer(s, TT_SHARE_NOT_YET, why, strlen(why));
}

/* ---- the other ranks ---- */

/* Sets a timeout for connect, which blocks while the backlog is full. */
static void limit_connect(int fd, uint64_t until_ns)
{
    const uint64_t now_ns = tt_now_ns(), ns = until_ns > now_ns + TT_MS ? until_ns - now_ns : TT_MS;
    const struct timeval limit = { .tv_sec = (time_t)(ns / TT_SECOND),
                                   .tv_usec = (suseconds_t)(ns % TT_SECOND / 1000) };

    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* Waits until fd is readable, and returns 0; or errno: EAGAIN at the time limit, EINTR. */
static int share_await(int fd, uint64_t until_ns, const struct tt_share_meanwhile *meanwhile)
{
    for (;;) {
        struct pollfd p[2] = { { .fd = fd, .events = POLLIN },
                               { .fd = meanwhile ? meanwhile->fd(meanwhile->arg) : -1,
                                 .events = POLLIN } };
        const uint64_t now_ns = tt_now_ns(),
                       left_ns = until_ns > now_ns ? until_ns - now_ns : 0,
                       left_ms = (left_ns + TT_MS - 1) / TT_MS;
        const int ms = meanwhile && left_ms > MEANWHILE_MS ? MEANWHILE_MS : (int)left_ms;

        if (poll(p, 2, ms) < 0)
            return errno;
        if (p[0].revents)
            return 0;
        if (p[1].revents)
            meanwhile->serve(meanwhile->arg);
        if (tt_now_ns() >= until_ns)
            return EAGAIN;
    }
}

/* Waits for the message of the first rank. Returns its size; 0: that rank has ended; -1 and
 * errno. */
static ssize_t share_receive(const struct tt_host_share *s, uint64_t deadline_ns, uint8_t *message,
                             size_t most, const struct tt_share_meanwhile *meanwhile)
{
    const uint64_t patience_ns = tt_now_ns() + PATIENCE_NS,
                   until_ns = deadline_ns < patience_ns ? deadline_ns : patience_ns;
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un name;
    const socklen_t bytes = share_name(s, &name);
    ssize_t n = -1;
    int err;

    if (fd < 0)
        return -1;
    limit_connect(fd, until_ns);
    if (connect(fd, (const struct sockaddr *)&name, bytes) != 0)
        err = errno;
    else if (!is_same_user(fd))
        err = EPERM;
    else
        err = share_await(fd, until_ns, meanwhile);
    if (!err)
        err = (n = recv(fd, message, most, MSG_DONTWAIT)) < 0 ? errno : 0;
    close(fd);
    if (err == ECONNREFUSED || err == ECONNRESET)
        return 0;
    errno = err;
    return n;
}

enum tt_share_answer tt_host_share_ask(struct tt_host_share *s, uint64_t deadline_ns, void *found,
                                       size_t bytes, char *why,
                                       const struct tt_share_meanwhile *meanwhile)
{
    uint8_t message[1 + TT_SHARE_BYTES_MAX];
    const uint64_t now_ns = tt_now_ns(), since_ns = s->asked_ns ? s->asked_ns : now_ns;
    const ssize_t n = share_receive(s, deadline_ns, message, sizeof message, meanwhile);

    s->asked_ns = n < 0 ? since_ns : 0;
    if (n == 0 && !*why)
        snprintf(why, TT_SHARE_BYTES_MAX, "the first rank of this host has ended");
    if (n == 0)
        return TT_SHARE_NOT_YET;
    if (n == (ssize_t)(1 + bytes) && message[0] == TT_SHARE_FOUND) {
        memcpy(found, message + 1, bytes);
        return TT_SHARE_FOUND;
    }
    if (n > 0 && message[0] == TT_SHARE_NOT_YET) {
        if (n > 1)
            snprintf(why, TT_SHARE_BYTES_MAX, "%.*s", (int)n - 1, (const char *)message + 1);
        return TT_SHARE_NOT_YET;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR) &&
        (tt_now_ns() >= deadline_ns || tt_now_ns() - since_ns < PATIENCE_NS - EARLY_NS))
        return TT_SHARE_NOT_YET;
    s->alone = true;
    return TT_SHARE_ALONE;
}
