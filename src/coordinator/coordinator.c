/* The coordinator's thread. Each iteration of its loop waits, passes all events to the state
 * machine, and makes its records durable. Then it performs the machine's actions, and reports the
 * connections that have closed meanwhile.
 *
 * The state machine has its own time, which advances by at most a quarter of a lease per iteration.
 * If this process was suspended, or its disk slow, messages of members are waiting in their
 * sockets. All of them are read in the next iteration, before any member is considered silent. */
#include "coordinator/coordinator.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "coordinator/internal.h"
#include "reduce/float_env.h"
#include "secure/ending.h"

/* an iteration advances the machine's time by at most a lease / TURN_LEASES, and waits for at most
 * half of that */
#define TURN_LEASES 4u
#define LEASE_MIN_NS (10 * TT_MS)
#define LEASE_MAX_NS (3600 * TT_SECOND)

/* ---- the loop ---- */

static void coordinator_fail(struct tt_coordinator *c)
{
    const uint64_t one = 1;

    pthread_mutex_lock(&c->lock);
    c->why = c->failed;
    snprintf(c->why_text, sizeof c->why_text, "%.*s", (int)sizeof c->why_text - 1,
             tutti_last_error());
    pthread_mutex_unlock(&c->lock);
    if (write(c->ended, &one, sizeof one) != sizeof one)
        tt_log(TT_LOG_ERROR, "coordinator: cannot notify the program of the failure");
}

static void wake(void *context)
{
    struct tt_coordinator *c = context;
    const uint64_t one = 1;

    if (write(c->wake, &one, sizeof one) != sizeof one)
        return; /* already readable */
}

/* Advances both clocks. */
static void advance_clocks(struct tt_coordinator *c)
{
    const uint64_t now_ns = tt_now_ns(), worth_ns = c->conf.lease_ns / TURN_LEASES;
    const uint64_t passed_ns = now_ns - c->clock_ns;

    c->clock_ns = now_ns;
    c->core_ns += passed_ns < worth_ns ? passed_ns : worth_ns;
    if (passed_ns > 2 * worth_ns) {
        c->chronicle.counters.stalls++;
        tt_event_log_add(
            &c->chronicle,
            "the coordinator was stalled for %llu ms, which do not count towards leases",
            (unsigned long long)(passed_ns / TT_MS));
    }
}

static int timeout_ms(const struct tt_coordinator *c)
{
    const uint64_t core_ns = tt_coord_next_ns(&c->core), conns_ns = tt_conns_next_ns(c);
    uint64_t wait_ns = c->conf.lease_ns / TURN_LEASES / 2;

    if (core_ns < c->core_ns + wait_ns)
        wait_ns = core_ns > c->core_ns ? core_ns - c->core_ns : 0;
    if (conns_ns < c->clock_ns + wait_ns)
        wait_ns = conns_ns > c->clock_ns ? conns_ns - c->clock_ns : 0;
    return (int)((wait_ns + TT_MS - 1) / TT_MS);
}

static void take_event(struct tt_coordinator *c, const struct epoll_event *ev)
{
    uint64_t count;

    switch (*(const enum tt_source *)ev->data.ptr) {
    case TT_SOURCE_WAKE:
        if (read(c->wake, &count, sizeof count) != sizeof count)
            return;
        return;
    case TT_SOURCE_DOOR:
        tt_conns_accept(c, ev->data.ptr);
        return;
    case TT_SOURCE_CONN:
        tt_conns_on_events(c, ev->data.ptr, ev->events);
        return;
    }
}

/* Handles received messages before the TICK, which may declare silent members lost. */
static void loop_turn(struct tt_coordinator *c)
{
    const int n = epoll_wait(c->epoll, c->events, c->nevents_max, timeout_ms(c));

    if (n < 0 && errno != EINTR) {
        c->failed = tt_fail_errno(errno, "coordinator: epoll_wait failed");
        return;
    }
    advance_clocks(c);
    c->failed = c->journal->ops->check(c->journal);
    for (int i = 0; i < n && !c->failed; i++)
        take_event(c, &c->events[i]);
    tt_conns_due(c);
    if (tt_coord_next_ns(&c->core) <= c->core_ns)
        tt_group_commit_step(c, &(struct tt_coord_event){ .kind = TT_COORD_EV_TICK });
    do {
        if (tt_group_commit_records(c))
            tt_conns_perform(c);
        tt_group_commit_finish(c);
    } while (!c->failed && tt_conns_report_ended(c));
    tt_conns_free_ended(c);
    if (tt_board_has_waiters(c->board))
        tt_show(c);
}

static void *loop(void *context)
{
    struct tt_coordinator *c = context;

    (void)tt_float_env_enter();     /* not the floating-point environment of the creating thread */
    while (!atomic_load(&c->stop) && !c->failed)
        loop_turn(c);
    tt_conns_drop_all(c);
    tt_group_commit_drop(c);
    for (uint32_t i = 0; i < c->ndoors; i++)
        tt_acceptor_fini(&c->doors[i].acceptor);
    if (c->failed)
        coordinator_fail(c);
    tt_board_end(c->board);
    return NULL;
}

/* ---- settings ---- */

/* Returns INVALID if other hosts can reach the address without authentication, and this was not
 * requested. */
static tutti_status check_listener(const struct tt_coordinator_conf *conf, const char *text,
                                   bool loopback)
{
    if (loopback || conf->secure.mode != TT_SECURE_PLAIN || conf->insecure)
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID,
                   "coordinator: %s is reachable from other hosts (" TT_LISTEN_FOR_MEMBERS
                   ") without authentication: set a token or certificates, or allow it with "
                   "--insecure (tutti_coordinator_conf.insecure)",
                   text);
}

static tutti_status check_listeners(const struct tt_coordinator_conf *conf)
{
    bool loopback = false;
    tutti_status st = TUTTI_OK;

    for (uint32_t i = 0; i < conf->nlisten && !st; i++) {
        st = tt_listen_check(conf->listen[i], TT_LISTEN_FOR_MEMBERS, &loopback);
        if (!st)
            st = check_listener(conf, conf->listen[i], loopback);
    }
    return st;
}

static tutti_status coordinator_check_conf(const struct tt_coordinator_conf *conf)
{
    if (!conf->run || !*conf->run || strlen(conf->run) >= TT_ELASTIC_TEXT_BYTES)
        return tt_fail(TUTTI_ERR_INVALID,
                       "coordinator: the run's name must be 1 to %d bytes long (--run, TUTTI_RUN; "
                       "tutti_coordinator_conf.run)",
                       TT_ELASTIC_TEXT_BYTES - 1);
    if (conf->nlisten == 0)
        return tt_fail(TUTTI_ERR_INVALID,
                       "coordinator: no listen address (" TT_LISTEN_FOR_MEMBERS ")");
    if (conf->lease_ns < LEASE_MIN_NS || conf->lease_ns > LEASE_MAX_NS)
        return tt_fail(TUTTI_ERR_INVALID,
                       "coordinator: invalid lease of %llu ms: must be %llu ms to 1 hour",
                       (unsigned long long)(conf->lease_ns / TT_MS),
                       (unsigned long long)(LEASE_MIN_NS / TT_MS));
    if (conf->grace_ns > conf->lease_ns)
        return tt_fail(TUTTI_ERR_INVALID,
                       "coordinator: grace of %llu ms (--grace, conf.grace_ms) is longer than "
                       "the lease of %llu ms (--lease, conf.lease_ms)",
                       (unsigned long long)(conf->grace_ns / TT_MS),
                       (unsigned long long)(conf->lease_ns / TT_MS));
    if (conf->members_max > TT_ELASTIC_MEMBERS_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "coordinator: members_max is %u: the maximum is %u",
                       conf->members_max, TT_ELASTIC_MEMBERS_MAX);
    return conf->secure.mode == TT_SECURE_TOKEN ? tt_secure_check_token(conf->secure.token)
                                                : TUTTI_OK;
}

static void coordinator_set_defaults(struct tt_coordinator_conf *conf)
{
    if (conf->lease_ns == 0)
        conf->lease_ns = TT_COORDINATOR_LEASE_NS;
    if (conf->grace_ns == 0)
        conf->grace_ns =
            conf->lease_ns < TT_COORDINATOR_LEASE_NS ? conf->lease_ns / 4 : TT_COORDINATOR_GRACE_NS;
    if (conf->join_ns == 0)
        conf->join_ns = TT_COORDINATOR_JOIN_NS;
    if (conf->members_max == 0)
        conf->members_max = TT_ELASTIC_MEMBERS_MAX;
}

/* Reads the certificate files in the same way as the coordinator does later. */
static tutti_status check_secure(const struct tt_coordinator_conf *conf)
{
    struct tt_secure *secure;
    const tutti_status st = tt_secure_create(&secure, &conf->secure);

    if (!st)
        tt_secure_destroy(secure);
    return st;
}

tutti_status tt_coordinator_check(const struct tt_coordinator_conf *given)
{
    struct tt_coordinator_conf conf = *given;
    tutti_status st;

    coordinator_set_defaults(&conf);
    st = coordinator_check_conf(&conf);
    if (!st)
        st = check_listeners(&conf);
    return st ? st : check_secure(&conf);
}

/* ---- set-up ---------------------------------------------------------------------------------- */

/* On success takes ownership of the listener. */
static tutti_status add_listener(struct tt_coordinator *c, const struct tt_listener *l)
{
    struct tt_door *door = &c->doors[c->ndoors];
    tutti_status st = check_listener(&c->conf, l->text, l->loopback);

    if (st)
        return st;
    door->source = TT_SOURCE_DOOR;
    memcpy(door->text, l->text, sizeof door->text);
    st = tt_acceptor_init(&door->acceptor, "coordinator", l->fd, c->epoll,
                          (epoll_data_t){ .ptr = door });
    if (st == TUTTI_OK)
        c->ndoors++;
    return st;
}

static tutti_status coordinator_listen(struct tt_coordinator *c)
{
    struct tt_listener found[TT_LISTEN_MAX];
    uint32_t n, opened;
    tutti_status st;

    for (uint32_t i = 0; i < c->conf.nlisten; i++) {
        st = tt_listen_open(found, TT_LISTEN_MAX - c->ndoors, &n, c->conf.listen[i],
                            TT_LISTEN_FOR_MEMBERS);
        if (st)
            return st;
        for (opened = 0; opened < n && st == TUTTI_OK; opened++)
            st = add_listener(c, &found[opened]);
        if (st)
            for (opened--; opened < n; opened++)
                close(found[opened].fd);
        if (st)
            return st;
    }
    return TUTTI_OK;
}

static tutti_status open_epoll(struct tt_coordinator *c)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &c->wake_source };

    c->wake_source = TT_SOURCE_WAKE;
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->epoll < 0 || c->wake < 0 || c->ended < 0 ||
        epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->wake, &ev) != 0)
        return tt_fail_call(errno, "coordinator", c->epoll < 0 ? "epoll_create1" : "eventfd");
    return TUTTI_OK;
}

static tutti_status set_up_core(struct tt_coordinator *c)
{
    struct tt_coord_conf conf = { .lease_ns = c->conf.lease_ns,
                                  .grace_ns = c->conf.grace_ns,
                                  /* until the journal is read */
                                  .members_max = TT_ELASTIC_MEMBERS_MAX,
                                  .ring_peers_max = c->conf.members_max < TT_RING_PEERS_MAX
                                                        ? c->conf.members_max
                                                        : TT_RING_PEERS_MAX,
                                  .emit = tt_group_commit_emit,
                                  .context = c };

    /* calloc'ed pages are mapped only for actual members */
    conf.members = calloc(conf.members_max, sizeof *conf.members);
    conf.order = calloc(conf.members_max, sizeof *conf.order);
    conf.scratch = malloc(TT_ELMSG_BYTES_MAX);
    /* accessed only after a measurement */
    conf.ring_memory = malloc(tt_coord_ring_bytes(conf.ring_peers_max));
    c->core.conf = conf; /* so that coordinator_release frees them */
    c->last = malloc(TT_ELMSG_BYTES_MAX);
    c->nevents_max = (int)(c->conf.members_max + TT_STRANGERS_MAX + TT_LEAVERS_MAX + TT_LISTEN_MAX);
    c->events = calloc((size_t)c->nevents_max, sizeof *c->events);
    if (!conf.members || !conf.order || !conf.scratch || !conf.ring_memory || !c->last ||
        !c->events)
        return tt_fail(TUTTI_ERR_NOMEM, "coordinator: out of memory for %u members",
                       c->conf.members_max);
    memcpy(conf.run, c->run, sizeof conf.run);
    tt_random_bytes(conf.secret, sizeof conf.secret);
    tt_coord_init(&c->core, &conf, c->core_ns);
    return TUTTI_OK;
}

/* Signals belong to the program's threads. */
static tutti_status coordinator_start_thread(struct tt_coordinator *c)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&c->thread, NULL, loop, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err ? tt_fail_errno(err, "coordinator: cannot start the coordinator thread") : TUTTI_OK;
}

/* Frees everything except the thread and the journal. */
static void coordinator_release(struct tt_coordinator *c)
{
    tt_conns_drop_all(c);
    tt_group_commit_drop(c);
    for (uint32_t i = 0; i < c->ndoors; i++)
        tt_acceptor_fini(&c->doors[i].acceptor);
    if (c->epoll >= 0)
        close(c->epoll);
    if (c->wake >= 0)
        close(c->wake);
    if (c->ended >= 0)
        close(c->ended);
    tt_secure_destroy(c->secure);
    tt_board_destroy(c->board);
    free(c->core.conf.members);
    free(c->core.conf.order);
    free(c->core.conf.scratch);
    free(c->core.conf.ring_memory);
    free(c->last);
    free(c->events);
    free(c->deeds);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

tutti_status tt_coordinator_create(struct tt_coordinator **out,
                                   const struct tt_coordinator_conf *given,
                                   struct tt_journal *journal)
{
    struct tt_coordinator_conf conf = *given;
    struct tt_coordinator *c;
    tutti_status st;

    coordinator_set_defaults(&conf);
    st = coordinator_check_conf(&conf);
    if (st)
        return st;
    c = calloc(1, sizeof *c);
    if (!c)
        return tt_fail(TUTTI_ERR_NOMEM, "coordinator: out of memory");
    c->conf = conf;
    c->journal = journal;
    c->epoll = c->wake = c->ended = -1;
    c->clock_ns = c->core_ns = tt_now_ns();
    c->started_unix_ms = tt_event_log_unix_ms();
    snprintf(c->run, sizeof c->run, "%s", conf.run);
    pthread_mutex_init(&c->lock, NULL);
    TAILQ_INIT(&c->waiting);
    for (int state = 0; state < TT_CONN_STATES; state++)
        TAILQ_INIT(&c->conns[state]);
    st = tt_board_create(&c->board, wake, c);
    if (st == TUTTI_OK)
        st = tt_secure_create(&c->secure, &conf.secure);
    if (st == TUTTI_OK)
        st = open_epoll(c);
    if (st == TUTTI_OK)
        st = set_up_core(c);
    if (st == TUTTI_OK)
        st = coordinator_listen(c);
    if (st == TUTTI_OK)
        st = tt_group_commit_begin(c);
    c->conf.run = c->run;
    c->conf.listen = NULL; /* belongs to the caller, and is not needed any longer */
    c->conf.secure = (struct tt_secure_conf){ .mode = conf.secure.mode };
    if (st == TUTTI_OK)
        st = coordinator_start_thread(c);
    if (st) {
        coordinator_release(c);
        return st;
    }
    *out = c;
    return TUTTI_OK;
}

void tt_coordinator_destroy(struct tt_coordinator *c)
{
    /* the process is exiting: the thread may be blocked forever */
    if (!c || (tt_openssl_is_over() && !tt_secure_is_plain(c->secure)))
        return;
    atomic_store(&c->stop, true);
    wake(c);
    pthread_join(c->thread, NULL);
    c->journal->ops->close(c->journal);
    coordinator_release(c);
}

/* ---- accessors ------------------------------------------------------------------------------- */

void tt_coordinator_call_it(char *out, size_t bytes, const char *listen)
{
    char host[HOST_NAME_MAX + 1] = "?";

    gethostname(host, sizeof host - 1);
    snprintf(out, bytes, "process %ld on %s (%.60s)", (long)getpid(), host, listen);
}

const char *tt_coordinator_address(const struct tt_coordinator *c, uint32_t i)
{
    return i < c->ndoors ? c->doors[i].text : NULL;
}

struct tt_board *tt_coordinator_board(struct tt_coordinator *c)
{
    return c->board;
}

int tt_coordinator_ended_fd(const struct tt_coordinator *c)
{
    return c->ended;
}

tutti_status tt_coordinator_error(struct tt_coordinator *c, char *text, size_t bytes)
{
    tutti_status why;

    pthread_mutex_lock(&c->lock);
    why = c->why;
    snprintf(text, bytes, "%s", c->why_text);
    pthread_mutex_unlock(&c->lock);
    return why;
}
