#include "status/remote.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/hostport.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "base/watched.h"
#include "coordinator/listen.h"

#define ADDRESS "TUTTI_STATUS_LISTEN"
#define TOKEN "TUTTI_STATUS_TOKEN"
#define PROOF_FRAME_MAX 64u     /* body of a frame before the client has proved itself */

/* ---- settings ---- */

static tutti_status check_token(const struct tt_remote_conf *c, size_t length)
{
    if (length >= sizeof c->token)
        return tt_fail(TUTTI_ERR_INVALID,
                       ADDRESS ": the token has %zu characters, at most %zu are allowed", length,
                       sizeof c->token - 1);
    if (length == 0)
        return tt_fail(TUTTI_ERR_INVALID, ADDRESS " needs a token for its clients: set " TOKEN
                                                  ", or the token of the job (TUTTI_TOKEN)");
    if (length < TT_REMOTE_TOKEN_MIN)
        return tt_fail(TUTTI_ERR_INVALID,
                       ADDRESS ": the token has %zu characters, at least %u are needed", length,
                       TT_REMOTE_TOKEN_MIN);
    return TUTTI_OK;
}

tutti_status tt_remote_settings(struct tt_remote_conf *out, const char *job_token)
{
    const char *address = getenv(ADDRESS), *token = getenv(TOKEN), *wrong;
    struct tt_hostport at;
    tutti_status st;

    *out = (struct tt_remote_conf){ .address = NULL };
    if (!address || !*address)
        return TUTTI_OK;
    wrong = tt_hostport_parse(&at, address, strlen(address));
    if (wrong)
        return tt_fail(TUTTI_ERR_INVALID, ADDRESS " is \"%s\": %s", address, wrong);
    if (!token || !*token)
        token = job_token ? job_token : "";
    st = check_token(out, strlen(token));
    if (st)
        return st;
    out->address = address;
    memcpy(out->token, token, strlen(token) + 1);
    return TUTTI_OK;
}

/* ---- open and close ---- */

static epoll_data_t data_of(const struct tt_remote *r, uint32_t event)
{
    return (epoll_data_t){ .u32 = r->about + event };
}

static tutti_status open_listeners(struct tt_remote *r, const char *address)
{
    struct tt_listener listener[TT_REMOTE_LISTENERS];
    uint32_t n = 0;
    tutti_status st = tt_listen_open(listener, TT_REMOTE_LISTENERS, &n, address, ADDRESS);

    for (uint32_t i = 0; i < n; i++) {
        if (!st)
            st = tt_acceptor_init(&r->acceptor[i], "status", listener[i].fd, r->epoll,
                                  data_of(r, i));
        if (st)
            close(listener[i].fd);
        else
            r->n = i + 1;
    }
    if (!st)
        tt_log(TT_LOG_INFO, "status: listens on %s", listener[0].text);
    return st;
}

/* A failure does not change the last error, because the program continues without the port. */
bool tt_remote_open(struct tt_remote *r, const struct tt_remote_conf *conf, int epoll,
                    uint32_t about)
{
    static atomic_bool warned;
    char before[TT_ERROR_BYTES];
    tutti_status st;

    *r = (struct tt_remote){ .epoll = epoll, .about = about };
    memcpy(r->token, conf->token, sizeof r->token);
    for (uint32_t i = 0; i < TT_REMOTE_GUESTS; i++)
        r->guest[i].fd = -1;
    snprintf(before, sizeof before, "%s", tutti_last_error());
    tt_log_hush_errors(true);
    st = open_listeners(r, conf->address);
    tt_log_hush_errors(false);
    if (!st)
        return true;
    /* other worlds of this process may compete for the port */
    tt_log(atomic_exchange(&warned, true) ? TT_LOG_INFO : TT_LOG_WARN,
           "status: clients of other hosts cannot query this process: %s", tutti_last_error());
    tt_fail_again(st, before);
    tt_remote_close(r);
    return false;
}

static void guest_close(struct tt_remote *r, struct tt_remote_guest *g)
{
    tt_watched_close(r->epoll, g->fd);
    g->fd = -1;
    tt_framer_fini(&g->in);
}

void tt_remote_close(struct tt_remote *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        tt_acceptor_fini(&r->acceptor[i]);
    for (struct tt_remote_guest *g = r->guest; r->n > 0 && g < r->guest + TT_REMOTE_GUESTS; g++)
        if (g->fd >= 0)
            guest_close(r, g);
    r->n = 0;
}

/* ---- guests ---- */

/* Returns a free entry, or the entry of the oldest guest, which is dropped. */
static struct tt_remote_guest *guest_place(struct tt_remote *r)
{
    struct tt_remote_guest *oldest = &r->guest[0];

    for (struct tt_remote_guest *g = r->guest; g < r->guest + TT_REMOTE_GUESTS; g++) {
        if (g->fd < 0)
            return g;
        if (g->since_ns < oldest->since_ns)
            oldest = g;
    }
    guest_close(r, oldest);
    return oldest;
}

static void admit(struct tt_remote *r, int fd, uint64_t now_ns)
{
    struct tt_remote_guest *g = guest_place(r);
    struct epoll_event ev = { .events = EPOLLIN,
                              .data = data_of(r, TT_REMOTE_LISTENERS + (uint32_t)(g - r->guest)) };
    uint8_t frame[TT_SEAL_FRAME_MAX];
    size_t bytes;

    *g = (struct tt_remote_guest){ .fd = fd, .since_ns = now_ns };
    tt_framer_init(&g->in, PROOF_FRAME_MAX);
    tt_random_bytes(g->nonces.process, sizeof g->nonces.process);
    bytes = tt_seal_challenge_write(&g->nonces, frame);
    /* the frame fits into an empty socket buffer */
    if (send(fd, frame, bytes, MSG_NOSIGNAL) != (ssize_t)bytes ||
        epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &ev) != 0)
        guest_close(r, g);
}

/* Anyone may connect, so the warnings are rate-limited. */
static void warn_refused(struct tt_remote *r, uint64_t now_ns)
{
    r->nrefused++;
    if (r->warned_ns && now_ns < r->warned_ns + TT_REMOTE_WARN_NS)
        return;
    tt_log(TT_LOG_WARN,
           "status: refused %u client%s: another token, or another version (logged at most once "
           "per minute)",
           r->nrefused, r->nrefused == 1 ? "" : "s");
    r->warned_ns = now_ns;
    r->nrefused = 0;
}

/* Reads the received data. Returns 1: the token is proved; 0: not yet; -1: drop the guest. */
static int guest_receive(struct tt_remote *r, struct tt_remote_guest *g, uint64_t now_ns)
{
    struct tt_frame f;
    size_t room;
    uint8_t *at = tt_framer_space(&g->in, &room);
    const ssize_t n = at ? recv(g->fd, at, room, 0) : 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    tt_framer_added(&g->in, (size_t)n);
    if (!tt_framer_next(&g->in, &f))
        return g->in.bad ? -1 : 0;
    if (!tt_seal_proof_read(&f, r->token, &g->nonces)) {
        warn_refused(r, now_ns);
        return -1;
    }
    return tt_framer_next(&g->in, &f) || g->in.bad ? -1 : 1;    /* the client must await ACCEPT */
}

static int guest_serve(struct tt_remote *r, struct tt_remote_guest *g, uint64_t now_ns,
                       struct tt_seal *seal, uint8_t *accept, size_t *accept_bytes)
{
    const int got = g->fd >= 0 ? guest_receive(r, g, now_ns) : 0, fd = g->fd;

    if (got < 0)
        guest_close(r, g);
    if (got <= 0)
        return -1;
    tt_seal_begin(seal, &g->nonces, r->token, true);
    *accept_bytes = tt_seal_accept_write(&g->nonces, r->token, accept);
    tt_watched_remove(r->epoll, fd);
    tt_framer_fini(&g->in);
    g->fd = -1;
    return fd;
}

int tt_remote_serve(struct tt_remote *r, uint32_t event, uint64_t now_ns, struct tt_seal *seal,
                    uint8_t *accept, size_t *accept_bytes)
{
    int fd;

    if (event >= TT_REMOTE_LISTENERS)
        return guest_serve(r, &r->guest[event - TT_REMOTE_LISTENERS], now_ns, seal, accept,
                           accept_bytes);
    /* one at a time, so that a flood of connections takes little time of each round */
    fd = event < r->n ? tt_acceptor_take(&r->acceptor[event]) : -1;
    if (fd >= 0)
        admit(r, fd, now_ns);
    return -1;
}

/* ---- time ---- */

uint64_t tt_remote_due(const struct tt_remote *r)
{
    uint64_t due_ns = UINT64_MAX;

    for (const struct tt_remote_guest *g = r->guest; r->n > 0 && g < r->guest + TT_REMOTE_GUESTS;
         g++)
        if (g->fd >= 0 && g->since_ns + TT_REMOTE_PROOF_NS < due_ns)
            due_ns = g->since_ns + TT_REMOTE_PROOF_NS;
    return due_ns;
}

void tt_remote_tick(struct tt_remote *r, uint64_t now_ns)
{
    for (struct tt_remote_guest *g = r->guest; r->n > 0 && g < r->guest + TT_REMOTE_GUESTS; g++)
        if (g->fd >= 0 && now_ns >= g->since_ns + TT_REMOTE_PROOF_NS)
            guest_close(r, g);
}
