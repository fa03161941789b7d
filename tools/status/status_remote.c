/* Connections over TCP, to a process with TUTTI_STATUS_LISTEN. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hostport.h"
#include "base/prng.h"
#include "base/resolve.h"
#include "boot/endpoint.h"
#include "tools/status/status.h"

/* ---- the address and the token ---- */

static const char *token_of_user(void)
{
    const char *token = getenv("TUTTI_STATUS_TOKEN");

    return token && *token ? token : getenv("TUTTI_TOKEN");
}

bool status_remote_find(const char *address, struct status_where *out, const char *who)
{
    const char *token = token_of_user(), *wrong;
    struct tt_hostport at;

    wrong = tt_hostport_parse(&at, address, strlen(address));
    if (!wrong && strlen(address) >= sizeof out->address)
        wrong = "it is too long";
    if (wrong) {
        fprintf(stderr, "%s: invalid address \"%s\": %s\n", who, address, wrong);
        return false;
    }
    if (!token || !*token || strlen(token) >= sizeof out->token) {
        fprintf(stderr,
                "%s: %s (set TUTTI_STATUS_TOKEN or TUTTI_TOKEN to the token that the job uses for "
                "TUTTI_STATUS_LISTEN)\n",
                who, token && *token ? "the token is too long" : "an address needs a token");
        return false;
    }
    memcpy(out->address, address, strlen(address) + 1);
    memcpy(out->token, token, strlen(token) + 1);
    return true;
}

/* ---- connecting ---- */

/* Returns a connected descriptor, or -1 and errno. */
static int connect_one(const struct addrinfo *a, uint64_t due_ns, const atomic_bool *stop)
{
    struct tt_address at = { .bytes = a->ai_addrlen };
    int fd, err = EINPROGRESS;

    memcpy(&at.storage, a->ai_addr, a->ai_addrlen);
    fd = tt_connect_begin(&at);
    if (fd < 0)
        return -1;
    while (err == EINPROGRESS && tt_now_ns() < due_ns && !status_is_stopped(stop)) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };

        if (status_poll(&p, 1, due_ns, stop) > 0)
            err = tt_connect_result(fd);
    }
    if (err == 0)
        return fd;
    close(fd);
    errno = err == EINPROGRESS ? ETIMEDOUT : err;
    return -1;
}

/* Returns the deadline for connecting to address a: the remaining time is divided equally among it
 * and the addresses after it. */
static uint64_t share_of(const struct addrinfo *a, uint64_t due_ns)
{
    const uint64_t now_ns = tt_now_ns();
    uint64_t n = 0;

    for (; a; a = a->ai_next)
        n++;
    return now_ns < due_ns ? now_ns + (due_ns - now_ns) / n : due_ns;
}

/* Returns a connected descriptor, or -1 with the cause. */
static int connect_any(const struct status_where *w, uint64_t due_ns, char *why)
{
    struct addrinfo *list = NULL;
    struct tt_hostport at;
    const char *cause = tt_hostport_parse(&at, w->address, strlen(w->address));
    int fd = -1, err = 0;

    if (cause ||
        tt_resolve(at.host[0] ? at.host : NULL, at.port, 0, false, due_ns, &list, &cause)) {
        snprintf(why, STATUS_WHY_BYTES, "cannot resolve %s: %s", w->address, cause);
        return -1;
    }
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = connect_one(a, share_of(a, due_ns), w->stop);
        err = errno;
    }
    freeaddrinfo(list);
    if (fd < 0)
        snprintf(why, STATUS_WHY_BYTES,
                 "cannot connect to %s: %s (the first rank of each host listens, if the job was "
                 "started with TUTTI_STATUS_LISTEN)",
                 w->address, strerror(err));
    return fd;
}

/* ---- the handshake ---- */

/* Waits for the next frame. Returns false with errno at the deadline or the end. */
static bool await_frame(struct status_link *l, uint64_t due_ns, struct tt_frame *f)
{
    while (!tt_framer_next(&l->in, f)) {
        struct pollfd p = { .fd = l->fd, .events = POLLIN };
        size_t room;
        uint8_t *at = tt_framer_space(&l->in, &room);
        ssize_t n;

        errno = l->in.bad ? EPROTO : at ? ETIMEDOUT : ENOMEM;
        if (l->in.bad || !at || tt_now_ns() >= due_ns || status_is_stopped(l->stop))
            return false;
        if (status_poll(&p, 1, due_ns, l->stop) <= 0)
            continue;
        n = recv(l->fd, at, room, 0);
        if (n > 0)
            tt_framer_added(&l->in, (size_t)n);
        errno = n == 0 ? ECONNRESET : errno;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
    }
    return true;
}

static bool send_proof(struct status_link *l, const char *token, struct tt_seal_nonces *n)
{
    uint8_t frame[TT_SEAL_FRAME_MAX];
    size_t bytes;

    tt_random_bytes(n->client, sizeof n->client);
    bytes = tt_seal_proof_write(n, token, frame);
    return send(l->fd, frame, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

/* Runs the handshake. Returns the cause of a failure, or NULL. */
static const char *greet(struct status_link *l, const char *token, uint64_t due_ns)
{
    struct tt_seal_nonces n = { .client = { 0 } };
    struct tt_frame f;

    if (!await_frame(l, due_ns, &f))
        return errno == ETIMEDOUT ? "it does not respond (is its process stopped?)"
                                  : "it closed the connection";
    if (!tt_seal_challenge_read(&f, &n))
        return "it is no status port of Tutti, or of another version";
    if (!send_proof(l, token, &n) || !await_frame(l, due_ns, &f))
        return errno == ETIMEDOUT ? "it does not respond (is its process stopped?)"
                                  : "it refused the token, or is too busy";
    if (!tt_seal_accept_read(&f, token, &n))
        return "it does not have the token";
    tt_seal_begin(&l->seal, &n, token, false);
    l->is_sealed = true;
    if (!await_frame(l, due_ns, &f))
        return "it closed the connection (it is serving other queries)";
    if (!tt_seal_check(&l->seal, &f))
        return "protocol error (another version of Tutti?)";
    if (f.type == TT_TALK_REFUSED)
        return "it is serving other queries";
    if (!tt_talk_hello_read(&f, &l->hello))
        return "protocol error (another version of Tutti?)";
    return NULL;
}

bool status_remote_connect(const struct status_where *w, uint32_t timeout_ms,
                           struct status_link *out, char *why)
{
    const uint64_t due_ns = tt_now_ns() + timeout_ms * TT_MS;
    const char *wrong;

    *out = (struct status_link){ .stop = w->stop };
    out->fd = connect_any(w, due_ns, why);
    if (out->fd < 0)
        return false;
    tt_framer_init(&out->in, TT_TALK_BODY_MAX + TT_SEAL_BYTES);
    wrong = greet(out, w->token, due_ns);
    if (!wrong)
        return true;
    snprintf(why, STATUS_WHY_BYTES, "cannot query %s: %s", w->address, wrong);
    status_disconnect(out);
    return false;
}
