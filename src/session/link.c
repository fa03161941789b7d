/* The connection to the coordinator. Addresses are tried in turn when the state machine requests
 * a connection. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/control_socket.h"
#include "base/log.h"
#include "session/run.h"

#define CONNECT_NS (5 * TT_SECOND) /* timeout per address */
#define MEASUREMENTS_PER_LEASE 8
#define QUEUE_BYTES (2 * (size_t)TT_ELMSG_BYTES_MAX)

void tt_link_connect(tutti_run *run, uint64_t delay_ns)
{
    struct tt_coordinator_link *l = &run->link;

    l->state = TT_LINK_WAITS;
    l->connect_ns = tt_now_ns() + delay_ns;
    tt_run_wake(run);
}

/* Closes the connection; the caller sets the state. */
static void link_drop(tutti_run *run)
{
    struct tt_coordinator_link *l = &run->link;

    if (l->channel) {
        tt_poller_unwatch(run, tt_stream_fd(tt_channel_stream(l->channel)));
        tt_channel_destroy(l->channel);
        l->channel = NULL;
    } else if (l->fd >= 0) {
        tt_poller_unwatch(run, l->fd);
        close(l->fd);
    }
    l->fd = -1;
    l->events = 0;
}

/* Records the failure, and selects the next address for the next attempt. */
static void select_next_address(tutti_run *run, const char *how)
{
    struct tt_coordinator_link *l = &run->link;
    char where[TT_ADDRESS_TEXT_BYTES];

    tt_address_text(&run->coordinators[l->at], where);
    snprintf(l->why, sizeof l->why, "%s: %s", where, how);
    l->at = (l->at + 1) % run->ncoordinators;
}

void tt_link_disconnect(tutti_run *run)
{
    /* the coordinator hangs, although its kernel still accepts connections */
    if (!run->m.over && run->link.channel)
        select_next_address(run, "it sent nothing for too long, or an invalid message");
    link_drop(run);
    run->link.state = TT_LINK_DOWN;
}

void tt_link_close(tutti_run *run)
{
    tt_link_disconnect(run);
}

/* Handles the end of a connection. The machine is notified in tt_link_settle, because this may
 * run inside a call of the machine. */
static void link_broke(tutti_run *run, const char *how)
{
    select_next_address(run, how);
    run->link.state = TT_LINK_BROKEN;
    tt_run_wake(run);
}

/* The peer is not a valid coordinator. If it has the only address, and has never accepted this
 * member, the waiting call fails with the reason. */
static void link_refused(tutti_run *run, const char *why)
{
    char text[TT_ERROR_BYTES];

    link_broke(run, why);
    if (run->m.id != 0 || run->ncoordinators > 1 || run->over)
        return;
    snprintf(text, sizeof text, "the coordinator at %s", run->link.why);
    run->over = true;
    run->over_status = TUTTI_ERR_PROTOCOL;
    snprintf(run->over_why, sizeof run->over_why, "%s", text);
    pthread_cond_broadcast(&run->changed);
}

static void link_ended(tutti_run *run, int err)
{
    const char *why = tt_stream_why(tt_channel_stream(run->link.channel));

    if (err == -EPROTO && *why)
        link_refused(run, why);
    else
        link_broke(run, err == -EPIPE ? "it closed the connection" : strerror(-err));
}

static void coordinator_link_update_events(tutti_run *run)
{
    struct tt_coordinator_link *l = &run->link;
    const uint32_t events = tt_channel_events(l->channel);

    if (events == l->events)
        return;
    l->events = events;
    tt_poller_change(run, tt_stream_fd(tt_channel_stream(l->channel)), events, l);
}

void tt_link_send(tutti_run *run, const void *data, size_t bytes)
{
    struct tt_coordinator_link *l = &run->link;
    int err;

    if (l->state != TT_LINK_UP)
        return;
    err = tt_channel_send(l->channel, data, bytes);
    if (err)
        link_ended(run, err);
    else
        coordinator_link_update_events(run);
}

static void coordinator_link_begin(tutti_run *run, uint64_t now_ns)
{
    struct tt_coordinator_link *l = &run->link;

    l->fd = tt_connect_begin(&run->coordinators[l->at]);
    if (l->fd < 0 || !tt_poller_watch(run, l->fd, EPOLLOUT, l)) {
        link_broke(run, strerror(errno));
        return;
    }
    tt_control_socket(l->fd);
    l->state = TT_LINK_CONNECTS;
    l->give_up_ns = now_ns + CONNECT_NS;
}

static void link_connected(tutti_run *run)
{
    static const struct tt_channel_conf conf = { .frame_max = TT_ELMSG_BYTES_MAX,
                                                 .queue_max = QUEUE_BYTES };
    struct tt_coordinator_link *l = &run->link;
    const int err = tt_connect_result(l->fd);
    struct tt_stream *stream;

    if (err) {
        link_broke(run, strerror(err));
        return;
    }
    if (tt_stream_create(&stream, run->secure, l->fd, TT_STREAM_CONNECTS)) {
        link_broke(run, tutti_last_error());
        return;
    }
    if (tt_channel_create(&l->channel, stream, &conf)) {
        tt_poller_unwatch(run, l->fd);
        tt_stream_destroy(stream);
        l->fd = -1;
        link_broke(run, tutti_last_error());
        return;
    }
    l->fd = -1;
    l->state = TT_LINK_UP;
    run->stats.connects++;
    tt_member_connected(&run->m, tt_now_ns());
}

static void measure_round_trip(tutti_run *run, uint64_t now_ns)
{
    struct tt_coordinator_link *l = &run->link;

    if (now_ns - l->measured_ns < run->m.lease_ns / MEASUREMENTS_PER_LEASE)
        return;
    l->measured_ns = now_ns;
    tt_member_round_trip(&run->m,
                         tt_control_round_trip_ns(tt_stream_fd(tt_channel_stream(l->channel))));
}

void tt_link_event(tutti_run *run)
{
    struct tt_coordinator_link *l = &run->link;
    const void *data;
    size_t bytes;
    int sent, got = 0;

    if (l->state == TT_LINK_CONNECTS)
        link_connected(run);
    if (l->state != TT_LINK_UP)
        return;
    sent = tt_channel_flush(l->channel);
    while (l->state == TT_LINK_UP && (got = tt_channel_next(l->channel, &data, &bytes)) > 0)
        tt_member_frame(&run->m, data, bytes, tt_now_ns());
    if (got == 0)
        got = sent;     /* handle the coordinator's last messages first: they may contain the
                           reason */
    /* tutti_run_join waits for the id, for which the machine emits no action */
    pthread_cond_broadcast(&run->changed);
    if (l->state != TT_LINK_UP)
        return;
    measure_round_trip(run, tt_now_ns());
    if (got < 0)
        link_ended(run, got);
    else
        coordinator_link_update_events(run);
}

void tt_link_tried(const tutti_run *run, char tried[TT_LINK_TRIED_BYTES])
{
    size_t n = 0;

    tried[0] = 0;
    for (uint32_t i = 0; i < run->ncoordinators && n < TT_LINK_TRIED_BYTES; i++) {
        char where[TT_ADDRESS_TEXT_BYTES];

        tt_address_text(&run->coordinators[i], where);
        n += (size_t)snprintf(tried + n, TT_LINK_TRIED_BYTES - n, "%s%s", i ? ", " : "", where);
    }
}

/* Logs at intervals that the member waits for a coordinator, which may be started or restarted
 * later. */
static void log_absence(tutti_run *run, uint64_t now_ns)
{
    struct tt_coordinator_link *l = &run->link;
    char tried[TT_LINK_TRIED_BYTES];
    const bool away = !run->m.welcome && !run->m.over && !run->over;
    uint64_t waited_ns;

    if (!tt_run_should_log_wait(&l->away, away, now_ns, &waited_ns))
        return;
    tt_link_tried(run, tried);
    tt_log(TT_LOG_WARN,
           "no coordinator of run \"%s\" has responded for %llu s (tried: %s); last "
           "attempt: %s",
           run->m.conf.run, (unsigned long long)(waited_ns / TT_SECOND), tried,
           *l->why ? l->why : "no answer yet");
}

void tt_link_tick(tutti_run *run, uint64_t now_ns)
{
    struct tt_coordinator_link *l = &run->link;

    log_absence(run, now_ns);
    if (l->state == TT_LINK_WAITS && now_ns >= l->connect_ns)
        coordinator_link_begin(run, now_ns);
    else if (l->state == TT_LINK_CONNECTS && now_ns >= l->give_up_ns)
        link_broke(run, "it does not respond");
}

uint64_t tt_link_next_ns(const tutti_run *run)
{
    const struct tt_coordinator_link *l = &run->link;

    const uint64_t next = l->state == TT_LINK_WAITS      ? l->connect_ns
                          : l->state == TT_LINK_CONNECTS ? l->give_up_ns
                                                         : TT_NEVER;

    return l->away.since_ns && l->away.tell_ns < next ? l->away.tell_ns : next;
}

/* Handles the coordinator's last messages before the disconnect: they may contain the reason. */
void tt_link_settle(tutti_run *run)
{
    struct tt_coordinator_link *l = &run->link;
    const void *data;
    size_t bytes;

    while (l->state == TT_LINK_BROKEN && l->channel &&
           tt_channel_next(l->channel, &data, &bytes) > 0)
        tt_member_frame(&run->m, data, bytes, tt_now_ns());
    if (l->state != TT_LINK_BROKEN)
        return;
    link_drop(run);
    run->link.state = TT_LINK_DOWN;
    tt_member_disconnected(&run->m, tt_now_ns());
}
