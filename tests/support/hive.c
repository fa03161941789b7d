#include "support/hive.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/prng.h"
#include "base/status.h"

#define TURN_EVENTS 256
#define QUEUE_MAX 1048576u
#define UNREACHABLE_MAX 64

/* ---- connections ---- */

static struct sockaddr_in parse(const char *address)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    const char *colon = strchr(address, ':');
    char host[INET_ADDRSTRLEN];

    tt_assert(colon && (size_t)(colon - address) < sizeof host);
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    tt_assert(inet_pton(AF_INET, host, &at.sin_addr) == 1);
    at.sin_port = htons((uint16_t)atoi(colon + 1));
    return at;
}

static void drop(struct light *l)
{
    if (!l->channel)
        return;
    snprintf(l->why, sizeof l->why, "%s", tt_stream_why(tt_channel_stream(l->channel)));
    tt_channel_destroy(l->channel);
    l->channel = NULL;
    l->connecting = false;
}

static void lost(struct light *l)
{
    drop(l);
    tt_member_disconnected(&l->m, tt_now_ns());
}

static void watch(struct light *l)
{
    struct epoll_event ev = { .data.ptr = l };

    ev.events = l->connecting ? (uint32_t)EPOLLOUT : l->deaf ? 0u : tt_channel_events(l->channel);
    if (ev.events == l->watched)
        return;
    l->watched = ev.events;
    tt_assert(epoll_ctl(l->hive->epoll, EPOLL_CTL_MOD, tt_stream_fd(tt_channel_stream(l->channel)),
                        &ev) == 0);
}

static void connect_now(struct light *l)
{
    const struct tt_channel_conf conf = { .frame_max = TT_ELMSG_BYTES_MAX, .queue_max = QUEUE_MAX };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;
    const struct sockaddr_in at = parse(l->hive->addresses[l->address++ % l->hive->naddresses]);
    struct epoll_event ev = { .events = EPOLLOUT, .data.ptr = l };
    struct tt_stream *stream;

    l->connect_ns = TT_NEVER;
    tt_assert(fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0);
    if (connect(fd, (const struct sockaddr *)&at, sizeof at) != 0 && errno != EINPROGRESS) {
        close(fd);
        tt_member_disconnected(&l->m, tt_now_ns());
        return;
    }
    tt_assert(tt_stream_create(&stream, l->hive->secure, fd, TT_STREAM_CONNECTS) == TUTTI_OK);
    tt_assert(tt_channel_create(&l->channel, stream, &conf) == TUTTI_OK);
    l->connecting = true;
    l->watched = EPOLLOUT;
    tt_assert(epoll_ctl(l->hive->epoll, EPOLL_CTL_ADD, fd, &ev) == 0);
}

/* ---- actions of the member ---- */

/* Reports that all proposed members are reachable, except those marked unreachable. */
static void reached(struct light *l)
{
    const struct hive *h = l->hive;
    uint64_t failed[UNREACHABLE_MAX];
    uint32_t n = 0;

    for (uint32_t k = 0; k < h->n; k++) {
        if (!h->lights[k].unreachable || &h->lights[k] == l)
            continue;
        for (uint32_t i = 0; i < l->m.nproposed; i++)
            if (l->m.proposed[i].id == h->lights[k].m.id && n < UNREACHABLE_MAX)
                failed[n++] = l->m.proposed[i].id;
    }
    tt_member_reached(&l->m, l->m.proposal, failed, n, l->m.now_ns);
}

static void emit(void *context, const struct tt_member_act *act)
{
    struct light *l = context;

    switch (act->kind) {
    case TT_MEMBER_ACT_CONNECT:
        l->connect_ns = tt_now_ns() + act->delay_ns;
        return;
    case TT_MEMBER_ACT_DISCONNECT:
        drop(l);
        return;
    case TT_MEMBER_ACT_SEND:
        if (l->channel && tt_channel_send(l->channel, act->data, act->bytes) == 0)
            watch(l); /* a closed connection is detected when its socket is polled */
        return;
    case TT_MEMBER_ACT_REACH:
        reached(l);
        return;
    case TT_MEMBER_ACT_VIEW:
        l->views++;
        return;
    case TT_MEMBER_ACT_STOP:
        l->stops++;
        return;
    case TT_MEMBER_ACT_CALL_DONE:
        l->calls++;
        l->what = act->what;
        l->value = act->value;
        return;
    case TT_MEMBER_ACT_OVER:
        l->over = true;
        l->status = act->status;
        snprintf(l->text, sizeof l->text, "%s", act->text);
        return;
    default:
        return; /* operations: not supported by these members */
    }
}

/* ---- the hive ---- */

struct hive *hive_create(const char *run, uint32_t n, uint32_t nroles, uint32_t members_max,
                         bool shared, const struct tt_secure_conf *secure)
{
    struct hive *h = calloc(1, sizeof *h);
    const size_t room = shared ? 0 : members_max;

    tt_assert(h);
    h->lights = calloc(n, sizeof *h->lights);
    h->seats =
        calloc(shared ? 2 * (size_t)members_max : 2 * (size_t)n * members_max, sizeof *h->seats);
    h->scratch = malloc(TT_ELMSG_BYTES_MAX);
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    tt_assert(h->lights && h->seats && h->scratch && h->epoll >= 0);
    tt_assert(tt_secure_create(&h->secure, secure) == TUTTI_OK);
    h->n = n;
    h->nroles = nroles;
    snprintf(h->run, sizeof h->run, "%s", run);
    for (uint32_t i = 0; i < n; i++) {
        struct light *l = &h->lights[i];

        l->hive = h;
        l->connect_ns = TT_NEVER;
        l->m.conf.members_max = members_max;
        l->m.conf.view = h->seats + 2 * i * room;
        l->m.conf.proposed = l->m.conf.view + (shared ? members_max : room);
    }
    return h;
}

void hive_destroy(struct hive *h)
{
    for (uint32_t i = 0; i < h->n; i++)
        drop(&h->lights[i]);
    tt_secure_destroy(h->secure);
    close(h->epoll);
    free(h->lights);
    free(h->seats);
    free(h->scratch);
    free(h);
}

void hive_add_address(struct hive *h, const char *address)
{
    tt_assert(h->naddresses < sizeof h->addresses / sizeof *h->addresses);
    h->addresses[h->naddresses++] = address;
}

void hive_start(struct hive *h, uint32_t i)
{
    struct light *l = &h->lights[i];
    struct tt_member_conf conf = { .group = i / h->nroles,
                                   .role = i % h->nroles,
                                   .nroles = h->nroles,
                                   .card = { .bytes = 40 },
                                   .view = l->m.conf.view,
                                   .proposed = l->m.conf.proposed,
                                   .members_max = l->m.conf.members_max,
                                   .scratch = h->scratch,
                                   .emit = emit,
                                   .context = l };

    snprintf(conf.run, sizeof conf.run, "%s", h->run);
    tt_random_bytes(conf.cookie, sizeof conf.cookie);
    memcpy(conf.card.data, &i, sizeof i);
    l->started = true;
    tt_member_init(&l->m, &conf, tt_now_ns());
}

void hive_cut(struct hive *h, uint32_t i, bool forget)
{
    struct light *l = &h->lights[i];

    drop(l);
    if (forget)
        l->started = false;
    else
        tt_member_disconnected(&l->m, tt_now_ns());
}

void hive_call(struct hive *h, uint32_t i, const struct tt_elmsg *call)
{
    tt_assert(tt_member_call(&h->lights[i].m, call, tt_now_ns()) == TUTTI_OK);
}

void hive_epoch(struct hive *h, uint32_t i, uint32_t least)
{
    hive_call(h, i,
              &(struct tt_elmsg){ .what = TT_CALL_EPOCH, .flags = TT_EPOCH_ADMIT, .least = least });
}

/* ---- time ---- */

static void read_messages(struct light *l)
{
    const void *data;
    size_t bytes;
    int rc;

    while (l->channel && !l->over) {
        rc = tt_channel_next(l->channel, &data, &bytes);
        if (rc < 0)
            lost(l);
        if (rc <= 0)
            return;
        tt_member_frame(&l->m, data, bytes, tt_now_ns());
    }
}

static void ready(struct light *l)
{
    int err = 0;
    socklen_t bytes = sizeof err;

    if (!l->channel || l->deaf)
        return;
    if (l->connecting) {
        tt_assert(getsockopt(tt_stream_fd(tt_channel_stream(l->channel)), SOL_SOCKET, SO_ERROR,
                             &err, &bytes) == 0);
        if (err) {
            lost(l);
            return;
        }
        l->connecting = false;
        l->connections++;
        tt_member_connected(&l->m, tt_now_ns());
    }
    if (l->channel)
        read_messages(l);
    if (l->channel && tt_channel_flush(l->channel) != 0)
        read_messages(l); /* one may state why the connection ended */
    if (l->over)
        drop(l);
    if (l->channel)
        watch(l);
}

static uint64_t due_ns(const struct light *l)
{
    const uint64_t member_ns = tt_member_next_ns(&l->m);

    return !l->started || l->over || l->deaf ? TT_NEVER
           : member_ns < l->connect_ns       ? member_ns
                                             : l->connect_ns;
}

static void due(struct light *l, uint64_t now_ns)
{
    if (due_ns(l) > now_ns)
        return;
    if (l->connect_ns <= now_ns)
        connect_now(l);
    else
        tt_member_tick(&l->m, now_ns);
}

void hive_turn(struct hive *h, int timeout_ms)
{
    struct epoll_event events[TURN_EVENTS];
    uint64_t now_ns = tt_now_ns(), next_ns = now_ns + (uint64_t)timeout_ms * TT_MS;
    int n;

    for (uint32_t i = 0; i < h->n; i++) {
        due(&h->lights[i], now_ns);
        if (due_ns(&h->lights[i]) < next_ns)
            next_ns = due_ns(&h->lights[i]);
    }
    now_ns = tt_now_ns();
    n = epoll_wait(h->epoll, events, TURN_EVENTS,
                   next_ns > now_ns ? (int)((next_ns - now_ns + TT_MS - 1) / TT_MS) : 0);
    for (int i = 0; i < n; i++)
        ready(events[i].data.ptr);
}

bool hive_until(struct hive *h, bool (*holds)(const struct hive *h, uint64_t what), uint64_t what,
                int timeout_ms)
{
    const uint64_t end_ns = tt_now_ns() + (uint64_t)timeout_ms * TT_MS;

    while (!holds(h, what)) {
        if (tt_now_ns() >= end_ns)
            return false;
        hive_turn(h, 20);
    }
    return true;
}

static bool counts(const struct light *l)
{
    return l->started && !l->over && !l->deaf;
}

bool hive_all_in_epoch(const struct hive *h, uint64_t epoch)
{
    for (uint32_t i = 0; i < h->n; i++)
        if (counts(&h->lights[i]) && h->lights[i].m.epoch != epoch)
            return false;
    return true;
}

bool hive_all_called(const struct hive *h, uint64_t calls)
{
    for (uint32_t i = 0; i < h->n; i++)
        if (counts(&h->lights[i]) && h->lights[i].calls < calls)
            return false;
    return true;
}

bool hive_all_welcome(const struct hive *h, uint64_t unused)
{
    (void)unused;
    for (uint32_t i = 0; i < h->n; i++)
        if (counts(&h->lights[i]) && !h->lights[i].m.welcome)
            return false;
    return true;
}

bool hive_light_over(const struct hive *h, uint64_t i)
{
    return h->lights[i].over;
}

static bool all_in_one(const struct hive *h, uint64_t n)
{
    for (uint32_t i = 0; i < h->n; i++)
        if (h->lights[i].m.nranks != n || h->lights[i].m.epoch != h->lights[0].m.epoch)
            return false;
    return true;
}

bool hive_gather(struct hive *h, int timeout_ms)
{
    for (uint32_t i = 0; i < h->n; i++) {
        hive_start(h, i);
        hive_epoch(h, i, h->n);
    }
    return hive_until(h, all_in_one, h->n, timeout_ms);
}
