/* Determines which ranks share a host, by names of Unix sockets. An abstract name exists in one
 * network namespace of one kernel only, and can be bound once. Of the ranks on a host, exactly one
 * binds the job's name "first". That rank represents the host. It then binds a listener for the
 * other ranks, a name for each set bit of its rank, and last a name with its rank. Every other rank
 * finds "first" taken. It tries to connect to the name of each bit, and so reads the rank of the
 * representative. The rank is complete if the name with that rank exists. Connecting a datagram
 * socket sends nothing and needs no response, so a stopped or busy process is found, too.
 *
 * Cost: log2(nranks) system calls for each rank, and as many descriptors for the representative,
 * until the end of the start-up.
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
    (5 * TT_SECOND)      /* wait for a rank that has bound "first" and not yet all
                                           other names: some system calls */
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

/* A name is that of a rank, of its listener, of a bit of the representative's rank, or "first". */
enum name_kind { NAME_FIRST, NAME_BIT, NAME_RANK, NAME_LISTENER };

static socklen_t samehost_name(const uint8_t *key, enum name_kind kind, uint32_t number,
                               struct sockaddr_un *out)
{
    static const char *const formats[] = { [NAME_FIRST] = "-first",
                                           [NAME_BIT] = "-bit%u",
                                           [NAME_RANK] = "-%u",
                                           [NAME_LISTENER] = "-%u-node" };
    char *at = out->sun_path + 1;
    char *const end = out->sun_path + sizeof out->sun_path;

    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    at += snprintf(at, (size_t)(end - at), "tutti-host-");
    for (int i = 0; i < 16; i++)
        at += snprintf(at, (size_t)(end - at), "%02x", key[i]);
    at += snprintf(at, (size_t)(end - at), formats[kind], number);
    return (socklen_t)(at - (char *)out);
}

socklen_t tt_samehost_address(const struct tt_samehost *s, struct sockaddr_un *out)
{
    return samehost_name(s->key, NAME_LISTENER, s->holder, out);
}

/* Opens the listener of this rank. Returns -1 and errno on failure. */
static int bind_listener(const struct search *s)
{
    struct sockaddr_un name;
    const socklen_t bytes = samehost_name(s->key, NAME_LISTENER, s->conf->rank, &name);
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
static int bind_name(const struct search *s, enum name_kind kind, uint32_t number)
{
    struct sockaddr_un name;
    const socklen_t bytes = samehost_name(s->key, kind, number, &name);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err;

    if (fd < 0 || bind(fd, (const struct sockaddr *)&name, bytes) == 0)
        return fd;
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

static bool is_bound(const struct search *s, int fd, enum name_kind kind, uint32_t number)
{
    struct sockaddr_un name;
    const socklen_t bytes = samehost_name(s->key, kind, number, &name);

    return connect(fd, (const struct sockaddr *)&name, bytes) == 0;
}

/* Returns whether this bit can be set in a rank of this job. */
static bool rank_has_bit(const struct search *s, unsigned bit)
{
    return bit < TT_SAMEHOST_BITS && (s->conf->nranks - 1) >> bit != 0;
}

/* Returns the rank that represents this host, or this rank if that one has not yet bound all
 * names. */
static uint32_t find_representative(const struct search *s)
{
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    uint32_t found = 0;

    if (fd < 0)
        return s->conf->rank;
    for (unsigned bit = 0; rank_has_bit(s, bit); bit++)
        found |= (uint32_t)is_bound(s, fd, NAME_BIT, bit) << bit;
    if (found >= s->conf->nranks || !is_bound(s, fd, NAME_RANK, found))
        found = s->conf->rank;
    close(fd);
    return found;
}

/* Binds the names of this rank's bits. */
static bool bind_bits(const struct search *s, struct tt_samehost *out)
{
    for (unsigned bit = 0; rank_has_bit(s, bit); bit++) {
        if (!(s->conf->rank >> bit & 1))
            continue;
        out->bits[bit] = bind_name(s, NAME_BIT, bit);
        if (out->bits[bit] < 0)
            return false;
    }
    return true;
}

static bool count_as_alone(enum tt_log_level level)
{
    tt_log(level,
           "start-up: cannot bind an abstract Unix socket (%s): this rank is treated as "
           "the only one on its host",
           strerror(errno));
    return true;
}

/* Binds all names, or finds the rank that has bound them. Returns false if the caller must retry. A
 * rank that cannot bind all names releases "first", since other ranks could not find it. */
static bool samehost_step(const struct search *s, struct tt_samehost *out)
{
    out->first = bind_name(s, NAME_FIRST, 0);
    if (out->first >= 0) {
        out->listener = bind_listener(s);
        if (out->listener >= 0 && bind_bits(s, out))
            out->mark = bind_name(s, NAME_RANK, s->conf->rank);
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

void tt_samehost_init(struct tt_samehost *out)
{
    *out = (struct tt_samehost){ .first = -1, .mark = -1, .listener = -1 };
    for (unsigned bit = 0; bit < TT_SAMEHOST_BITS; bit++)
        out->bits[bit] = -1;
}

void tt_samehost_find(struct tt_samehost *out, const struct tt_samehost_conf *conf)
{
    struct search s = { .conf = conf, .key = out->key };
    const uint64_t patience_ns = tt_now_ns() + PATIENCE_NS;
    const uint64_t until_ns = patience_ns < conf->deadline_ns ? patience_ns : conf->deadline_ns;

    tt_samehost_init(out);
    out->holder = conf->rank;
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

static void close_socket(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void tt_samehost_fini(struct tt_samehost *s)
{
    close_socket(&s->mark);
    close_socket(&s->listener);
    for (unsigned bit = 0; bit < TT_SAMEHOST_BITS; bit++)
        close_socket(&s->bits[bit]);
    close_socket(&s->first);        /* last: its next holder binds the other names again */
}
