/* Determines which ranks share a host, by names of Unix sockets. An abstract name exists in one
 * network namespace of one kernel only, and can be bound once. Of the ranks on a host, exactly one
 * binds the job's name "first". That rank represents the host, and binds a second name with its
 * rank. Before that, it binds a listener, to which the others connect. Every other rank finds
 * "first" taken and searches for the representative. It tries to connect to the second name of each
 * rank, nearest ranks first. Connecting a datagram socket sends nothing and needs no response, so a
 * stopped or busy process is found, too.
 *
 * Cost: a few system calls for the first rank of a host, and one more for each rank between two
 * ranks of a host.
 *
 * Two machines restored from one snapshot have the same boot id and namespace numbers, but not the
 * same names. The names are derived from a random number of the rendezvous server and from the
 * job's token, so they are unique to a start-up. Another user who binds them can make ranks seem to
 * share a host; connections are authenticated and fall back to the network. */
#include "boot/samehost.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "boot/auth.h"

#define PATIENCE_NS \
    (5 * TT_SECOND)      /* wait for a rank that has bound one name and not yet
                                           the other: two system calls */
#define FIRST UINT32_MAX                /* in place of a rank */
#define BACKLOG 4096

struct search {
    const struct tt_samehost_conf *conf;
    const uint8_t *key;
};

static void make_key(uint8_t key[TT_MAC_BYTES], const struct tt_samehost_conf *conf)
{
    uint8_t data[TT_NONCE_BYTES + 64] = { 0 };
    const char *host = conf->host ? conf->host : "";
    const size_t bytes = strnlen(host, sizeof data - TT_NONCE_BYTES);

    memcpy(data, conf->gathering, TT_NONCE_BYTES);
    memcpy(data + TT_NONCE_BYTES, host, bytes);
    tt_mac(key, conf->token, strlen(conf->token), "tutti host", data, TT_NONCE_BYTES + bytes);
}

/* The name of a rank, or of "first", or with `listens` of its listener. */
static socklen_t samehost_name(const uint8_t *key, uint32_t rank, bool listens,
                               struct sockaddr_un *out)
{
    char *at = out->sun_path + 1;
    char *const end = out->sun_path + sizeof out->sun_path;

    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    at += snprintf(at, (size_t)(end - at), "tutti-host-");
    for (int i = 0; i < 16; i++)
        at += snprintf(at, (size_t)(end - at), "%02x", key[i]);
    at += rank == FIRST ? snprintf(at, (size_t)(end - at), "-first")
                        : snprintf(at, (size_t)(end - at), "-%u%s", rank, listens ? "-node" : "");
    return (socklen_t)(at - (char *)out);
}

static socklen_t samehost_name_of(const struct search *s, uint32_t rank, struct sockaddr_un *out)
{
    return samehost_name(s->key, rank, false, out);
}

socklen_t tt_samehost_address(const struct tt_samehost *s, struct sockaddr_un *out)
{
    return samehost_name(s->key, s->holder, true, out);
}

/* Opens the listener of this rank. Returns -1 and errno on failure. */
static int bind_listener(const struct search *s)
{
    struct sockaddr_un name;
    const socklen_t bytes = samehost_name(s->key, s->conf->rank, true, &name);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err;

    if (fd < 0 ||
        (bind(fd, (const struct sockaddr *)&name, bytes) == 0 && listen(fd, BACKLOG) == 0))
        return fd;
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

/* Returns a socket bound to the name, or -1 and errno. */
static int bind_name(const struct search *s, uint32_t rank)
{
    struct sockaddr_un name;
    const socklen_t bytes = samehost_name_of(s, rank, &name);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err;

    if (fd < 0 || bind(fd, (const struct sockaddr *)&name, bytes) == 0)
        return fd;
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

static bool is_bound(const struct search *s, int fd, uint32_t rank)
{
    struct sockaddr_un name;
    const socklen_t bytes = samehost_name_of(s, rank, &name);

    return rank < s->conf->nranks && rank != s->conf->rank &&
           connect(fd, (const struct sockaddr *)&name, bytes) == 0;
}

/* Returns the rank that holds "first", or our own if none is found. Ranks of a host usually have
 * close numbers. */
static uint32_t find_representative(const struct search *s)
{
    const uint32_t rank = s->conf->rank, nranks = s->conf->nranks;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    uint32_t found = rank;

    for (uint32_t d = 1; fd >= 0 && d < nranks && found == rank; d++) {
        if (d <= rank && is_bound(s, fd, rank - d))
            found = rank - d;
        else if (d < nranks - rank && is_bound(s, fd, rank + d))
            found = rank + d;
    }
    if (fd >= 0)
        close(fd);
    return found;
}

static bool count_as_alone(enum tt_log_level level)
{
    tt_log(level,
           "start-up: cannot bind an abstract Unix socket (%s): this rank is treated as "
           "the only one on its host",
           strerror(errno));
    return true;
}

/* Binds all names, or finds the rank that has. Returns true once decided. A rank that cannot bind
 * the others releases the first, since other ranks could not find its holder. */
static bool samehost_step(const struct search *s, struct tt_samehost *out)
{
    out->first = bind_name(s, FIRST);
    if (out->first >= 0) {
        out->listener = bind_listener(s);
        out->mark = out->listener >= 0 ? bind_name(s, s->conf->rank) : -1;
        if (out->mark >= 0)
            return true;
        count_as_alone(TT_LOG_WARN);
        tt_samehost_fini(out);
        return true;
    }
    if (errno != EADDRINUSE)
        return count_as_alone(TT_LOG_INFO);
    out->holder = find_representative(s);
    return out->holder != s->conf->rank;
}

void tt_samehost_find(struct tt_samehost *out, const struct tt_samehost_conf *conf)
{
    struct search s = { .conf = conf, .key = out->key };
    const uint64_t patience_ns = tt_now_ns() + PATIENCE_NS;
    const uint64_t until_ns = patience_ns < conf->deadline_ns ? patience_ns : conf->deadline_ns;

    *out = (struct tt_samehost){ .first = -1, .mark = -1, .listener = -1, .holder = conf->rank };
    make_key(out->key, conf);
    while (!samehost_step(&s, out)) {
        if (tt_now_ns() >= until_ns) {
            tt_log(TT_LOG_INFO,
                   "start-up: another process on this host has bound the socket name of this job: "
                   "this rank is treated as the only one on its host");
            return;
        }
        poll(NULL, 0, 1);
    }
}

void tt_samehost_fini(struct tt_samehost *s)
{
    if (s->first >= 0)
        close(s->first);
    if (s->mark >= 0)
        close(s->mark);
    if (s->listener >= 0)
        close(s->listener);
    s->first = s->mark = s->listener = -1;
}
