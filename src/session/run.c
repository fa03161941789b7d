/* Joining, leaving, and what the machine wants done. */
#include "session/run.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/options.h"
#include "base/param.h"

#define TAGS_DEFAULT 8
#define TAGS_OF_GROUPS_MAX 128      /* with three communicators each, twice while the view changes: an engine has room for 1024 */

/* ---- waiting ---- */

bool tt_run_wait(tutti_run *run, uint64_t deadline_ns)
{
    struct timespec at = { .tv_sec = (time_t)(deadline_ns / TT_SECOND), .tv_nsec = (long)(deadline_ns % TT_SECOND) };

    if (deadline_ns == TT_NEVER)
        return pthread_cond_wait(&run->changed, &run->lock) == 0;
    return pthread_cond_timedwait(&run->changed, &run->lock, &at) != ETIMEDOUT;
}

uint64_t tt_run_deadline(const tutti_run *run, int64_t timeout_ms)
{
    return tt_deadline_ns(tt_now_ns(), timeout_ms ? timeout_ms : run->timeout_ms);
}

tutti_status tt_run_check(tutti_run *run)
{
    if (!run->over)
        return TUTTI_OK;
    if (run->over_status == TUTTI_OK)
        return tt_fail_again(TUTTI_ERR_INVALID, "this member has left the run");
    return tt_fail_again(run->over_status, run->over_why);
}

void tt_run_give_up(tutti_run *run, const char *what)
{
    run->over_status = TUTTI_ERR_TIMEOUT;
    snprintf(run->over_why, sizeof run->over_why,
             "no coordinator told before the deadline what became of %s, so this member left the run: %s", what,
             run->link.why);
    tt_member_leave(&run->m, TT_LEAVE_NOW, tt_now_ns());
}

/* ---- what the machine emits ---- */

static void enter_view(tutti_run *run)
{
    run->reach = 0;
    run->offered = false;
    run->heard = (struct tt_news){ .number = 0 };
    *run->stop_why = 0;
    tt_peers_want(run, tt_now_ns());
    tt_run_wake(run);
}

/* Nothing of the epoch may go on: whoever is in the engine for it comes back. */
static void stop(tutti_run *run)
{
    run->put_out |= run->m.epoch == 0;
    run->dropped |= run->recovering && run->m.epoch == 0;
    if (run->home.world && run->space.epoch == run->m.epoch)
        tt_engine_fail_all(run->home.world->engine, TUTTI_ERR_PEER_LOST,
                           *run->stop_why ? run->stop_why : "the epoch is over: a member was lost, or it was revoked");
}

static void end(tutti_run *run, const struct tt_member_act *act)
{
    if (!*run->over_why) {
        run->over_status = act->status;
        snprintf(run->over_why, sizeof run->over_why, "%s", act->text);
    }
    run->over = true;
    if (run->home.world)
        tt_engine_fail_all(run->home.world->engine, act->status ? act->status : TUTTI_ERR_ABORTED, act->text);
    if (act->status)
        tt_log(TT_LOG_ERROR, "%s: this member is out of the run: %s", tutti_status_name(act->status), run->over_why);
}

static void op_done(tutti_run *run, const struct tt_member_act *act)
{
    struct tt_tag *t = &run->tags[act->tag];

    t->done = true;
    t->state = act->state;
    t->news = act->news;
}

void tt_run_act(void *context, const struct tt_member_act *act)
{
    tutti_run *run = context;

    switch (act->kind) {
    case TT_MEMBER_ACT_CONNECT:
        tt_link_connect(run, act->delay_ns);
        return;
    case TT_MEMBER_ACT_DISCONNECT:
        tt_link_disconnect(run);
        return;
    case TT_MEMBER_ACT_SEND:
        tt_link_send(run, act->data, act->bytes);
        return;
    case TT_MEMBER_ACT_SEND_PEER: /* operations go by tt_member_complete_alone */
        tt_assert(!"members say this in their all-gathers");
        return;
    case TT_MEMBER_ACT_REACH:
        tt_peers_reach(run, tt_now_ns());
        return;
    case TT_MEMBER_ACT_SYNC_PLAN:
        tt_state_plan(run);
        return;
    case TT_MEMBER_ACT_VIEW:
        enter_view(run);
        break;
    case TT_MEMBER_ACT_STOP:
        stop(run);
        break;
    case TT_MEMBER_ACT_OP_DONE:
        op_done(run, act);
        if (act->state == TT_OP_FINAL && !run->m.stopped)
            return; /* its own thread makes it final */
        break;
    case TT_MEMBER_ACT_CALL_DONE:
        run->call_done = true;
        run->result = *act;
        break;
    default:
        end(run, act);
        break;
    }
    pthread_cond_broadcast(&run->changed);
}

/* ---- settings ---- */

/* One "host:port" of a list, its names looked up. */
static tutti_status add_coordinator(tutti_run *run, const char *text, size_t bytes)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found, *a;
    char one[300], *port, *host = one;
    int err;

    snprintf(one, sizeof one, "%.*s", (int)bytes, text);
    port = strrchr(one, ':');
    if (bytes >= sizeof one || !port || port == one || !port[1])
        return tt_fail(TUTTI_ERR_INVALID, "\"%.*s\" in the list of coordinators is no host:port", (int)bytes, text);
    *port++ = 0;
    if (*host == '[' && host[strlen(host) - 1] == ']') {
        host[strlen(host) - 1] = 0;
        host++;
    }
    err = getaddrinfo(host, port, &hints, &found);
    if (err)
        return tt_fail(TUTTI_ERR_INVALID, "the coordinator \"%.*s\": %s", (int)bytes, text, gai_strerror(err));
    for (a = found; a && run->ncoordinators < TT_RUN_COORDINATORS; a = a->ai_next) {
        struct tt_address *at = &run->coordinators[run->ncoordinators++];

        memset(at, 0, sizeof *at);
        memcpy(&at->storage, a->ai_addr, a->ai_addrlen);
        at->bytes = a->ai_addrlen;
    }
    freeaddrinfo(found);
    return TUTTI_OK;
}

static tutti_status take_coordinators(tutti_run *run, const char *list)
{
    tutti_status st = TUTTI_OK;

    if (!list || !*list)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_join: where is the coordinator? conf.coordinators and TUTTI_COORDINATOR are empty");
    while (!st && *list) {
        const size_t bytes = strcspn(list, ",");

        st = add_coordinator(run, list, bytes);
        list += bytes + (list[bytes] == ',');
    }
    return st;
}

static bool is_loopback(const struct tt_address *a)
{
    static const uint8_t one[16] = { [15] = 1 }, mapped[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };

    if (a->storage.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)&a->storage)->sin_addr.s_addr) >> 24 == 127;
    return memcmp(&((const struct sockaddr_in6 *)&a->storage)->sin6_addr, one, 16) == 0 ||
           memcmp(&((const struct sockaddr_in6 *)&a->storage)->sin6_addr, mapped, 13) == 0;
}

static tutti_status take_security(tutti_run *run, const tutti_run_conf *conf)
{
    struct tt_secure_conf secure = { .token = conf->token && *conf->token ? conf->token : getenv("TUTTI_TOKEN"),
                                     .certificate = conf->certificate,
                                     .key = conf->key,
                                     .authority = conf->authority };
    bool loopback = true;

    for (uint32_t i = 0; i < run->ncoordinators; i++)
        loopback &= is_loopback(&run->coordinators[i]);
    if (conf->insecure)
        secure.mode = TT_SECURE_PLAIN;
    else if (conf->certificate || conf->key || conf->authority)
        secure.mode = TT_SECURE_CERTIFICATE;
    else if (secure.token && *secure.token)
        secure.mode = TT_SECURE_TOKEN;
    else if (!loopback)
        return tt_fail(
            TUTTI_ERR_INVALID,
            "tutti_run_join: a coordinator is not on loopback, and there is neither a token (conf.token, TUTTI_TOKEN) nor a "
            "certificate; conf.insecure asks for plain connections");
    return tt_secure_create(&run->secure, &secure);
}

static tutti_status parse_address(const char *text, const char *what, int flags, struct tt_address *out)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
    struct addrinfo *found;
    char one[300], *port, *host = one;
    int err;

    snprintf(one, sizeof one, "%s", text);
    port = strrchr(one, ':');
    if (strlen(text) >= sizeof one || !port || !port[1])
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_join: conf.%s is \"%s\", which is no address:port", what, text);
    *port++ = 0;
    if (*host == '[' && host[strlen(host) - 1] == ']') {
        host[strlen(host) - 1] = 0;
        host++;
    }
    err = getaddrinfo(*host ? host : NULL, port, &hints, &found);
    if (err)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_join: conf.%s is \"%s\": %s", what, text, gai_strerror(err));
    memset(out, 0, sizeof *out);
    memcpy(&out->storage, found->ai_addr, found->ai_addrlen);
    out->bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return TUTTI_OK;
}

static void card_of_one(struct tt_member_card *c, const struct tt_address *a, uint16_t port)
{
    struct tt_endpoint *e = &c->inside;

    *e = (struct tt_endpoint){ .port = port, .naddrs = 1 };
    getrandom(&e->host, sizeof e->host, 0); /* nobody's: it does not listen on loopback */
    if (a->storage.ss_family == AF_INET) {
        e->addrs[0].family = 4;
        e->addrs[0].prefix_bits = 32;
        memcpy(e->addrs[0].bytes, &((const struct sockaddr_in *)&a->storage)->sin_addr, 4);
    } else {
        e->addrs[0].family = 6;
        e->addrs[0].prefix_bits = 128;
        memcpy(e->addrs[0].bytes, &((const struct sockaddr_in6 *)&a->storage)->sin6_addr, 16);
    }
}

static tutti_status take_addresses(tutti_run *run, const tutti_run_conf *conf)
{
    struct tt_address at;
    uint16_t port = 0;
    const bool some = conf->listen && *conf->listen, one = some && *conf->listen != ':';
    tutti_status st = some ? parse_address(conf->listen, "listen", AI_PASSIVE, &at) : TUTTI_OK;
    int fd;

    if (st)
        return st;
    if (some && at.storage.ss_family == AF_INET6)
        port = ntohs(((struct sockaddr_in6 *)&at.storage)->sin6_port);
    else if (some)
        port = ntohs(((struct sockaddr_in *)&at.storage)->sin_port);
    fd = tt_listen(one ? &at : NULL, port, &port);
    if (fd < 0)
        return tt_fail_errno(errno, "tutti_run_join: listen for other members at \"%s\"", some ? conf->listen : "any port");
    st = tt_acceptor_init(&run->acceptor, "session", fd, run->epoll, (epoll_data_t){ .ptr = &run->acceptor });
    if (st) {
        close(fd);
        return st;
    }
    if (one)
        card_of_one(&run->card, &at, port);
    else
        st = tt_endpoint_init(&run->card.inside, port, conf->interfaces);
    if (!st && conf->announce && *conf->announce) {
        st = parse_address(conf->announce, "announce", 0, &run->card.outside);
        run->card.has_outside = !st;
    }
    return st;
}

/* ---- life ---- */

static void fini(tutti_run *run)
{
    tt_home_leave(&run->home);
    tt_space_close(&run->space, run->ntags); /* the world, too */
    tt_link_close(run);
    tt_peers_close(run);
    tt_acceptor_fini(&run->acceptor);
    if (run->wake_fd >= 0)
        close(run->wake_fd);
    if (run->epoll >= 0)
        close(run->epoll);
    tt_secure_destroy(run->secure);
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++) {
        free(run->tags[tag].copy);
        free(run->tags[tag].gathered);
    }
    free(run->members);
    free(run->asked);
    free(run->seats);
    free(run->scratch);
    free(run->wires);
    free(run->interfaces);
    pthread_cond_destroy(&run->changed);
    pthread_mutex_destroy(&run->lock);
    pthread_mutex_destroy(&run->trouble_lock);
    free(run);
}

static tutti_run *make(void)
{
    tutti_run *run = calloc(1, sizeof *run);
    pthread_condattr_t clock;

    if (!run)
        return NULL;
    pthread_mutex_init(&run->lock, NULL);
    pthread_mutex_init(&run->trouble_lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&run->changed, &clock);
    pthread_condattr_destroy(&clock);
    run->acceptor = (struct tt_acceptor){ .listener = -1, .timer = -1 };
    run->link.fd = -1;
    run->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    run->epoll = epoll_create1(EPOLL_CLOEXEC);
    run->seats = calloc(2 * (size_t)TT_ELASTIC_MEMBERS_MAX, sizeof *run->seats);
    run->scratch = malloc(TT_ELMSG_BYTES_MAX);
    return run;
}

static tutti_status take_conf(tutti_run *run, const tutti_run_conf *conf)
{
    int64_t timeout_ms = conf->timeout_ms, lanes = conf->lanes;
    tutti_status st = TUTTI_OK;

    if (conf->tags < 0 || conf->tags > (int)TT_ELASTIC_TAGS || lanes < 0 || lanes > 16)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_join: conf.tags is %d, conf.lanes %d; 0 to %u and 0 to 16 are possible", conf->tags,
                       conf->lanes, TT_ELASTIC_TAGS);
    if (conf->nroles > 1 && conf->tags > TAGS_OF_GROUPS_MAX)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_run_join: conf.tags is %d; with replica groups (conf.nroles) there are at most %d",
                       conf->tags, TAGS_OF_GROUPS_MAX);
    if (conf->nroles > TT_ELASTIC_MEMBERS_MAX || conf->role >= (conf->nroles ? conf->nroles : 1))
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_join: there is no role %u of %u", conf->role, conf->nroles);
    if (!timeout_ms)
        st = tt_param_get(TT_PARAM_TIMEOUT_MS, &timeout_ms);
    if (!st && !lanes)
        st = tt_param_get(TT_PARAM_LANES, &lanes);
    if (st)
        return st;
    run->timeout_ms = timeout_ms;
    run->lanes = (uint32_t)lanes;
    run->ntags = conf->tags ? (uint32_t)conf->tags : TAGS_DEFAULT;
    run->wires = conf->wires ? strdup(conf->wires) : getenv("TUTTI_WIRES") ? strdup(getenv("TUTTI_WIRES")) : NULL;
    run->interfaces = conf->interfaces            ? strdup(conf->interfaces)
                      : getenv("TUTTI_INTERFACES") ? strdup(getenv("TUTTI_INTERFACES"))
                                                   : NULL;
    st = take_coordinators(run, conf->coordinators && *conf->coordinators ? conf->coordinators : getenv("TUTTI_COORDINATOR"));
    if (!st)
        st = take_security(run, conf);
    if (!st)
        st = take_addresses(run, conf);
    return st;
}

static tutti_status init_member(tutti_run *run, const tutti_run_conf *conf)
{
    const char *name = conf->run && *conf->run ? conf->run : getenv("TUTTI_RUN");
    struct tt_member_conf mc = { .group = conf->group,
                                 .role = conf->role,
                                 .nroles = conf->nroles ? conf->nroles : 1,
                                 .view = run->seats,
                                 .proposed = run->seats + TT_ELASTIC_MEMBERS_MAX,
                                 .members_max = TT_ELASTIC_MEMBERS_MAX,
                                 .scratch = run->scratch,
                                 .emit = tt_run_act,
                                 .context = run };

    name = name && *name ? name : "tutti";
    if (strlen(name) >= sizeof mc.run)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_join: the run's name \"%.40s...\" is longer than %zu bytes", name, sizeof mc.run - 1);
    snprintf(mc.run, sizeof mc.run, "%s", name);
    if (getrandom(mc.cookie, sizeof mc.cookie, 0) != sizeof mc.cookie)
        return tt_fail_errno(errno, "tutti_run_join: draw a cookie");
    tt_member_card_write(&run->card, &mc.card);
    tt_member_init(&run->m, &mc, tt_now_ns());
    return TUTTI_OK;
}

/* Until the coordinator knows us. */
static tutti_status wait_welcome(tutti_run *run)
{
    const uint64_t deadline_ns = tt_run_deadline(run, 0);
    tutti_status st = TUTTI_OK;

    tt_run_lock(run);
    while (run->m.id == 0 && !run->over && !st)
        if (!tt_run_wait(run, deadline_ns) && run->m.id == 0)
            st = tt_fail(TUTTI_ERR_TIMEOUT, "tutti_run_join: no coordinator took this member within %lld ms; the last attempt: %s",
                         (long long)run->timeout_ms, *run->link.why ? run->link.why : "no answer");
    if (!st)
        st = run->over ? tt_fail(run->over_status ? run->over_status : TUTTI_ERR_PROTOCOL, "tutti_run_join: %s",
                                 run->over_why)
                       : TUTTI_OK;
    tt_run_unlock(run);
    return st;
}

#define CONF_BYTES_FIRST (offsetof(tutti_run_conf, timeout_ms) + sizeof(int64_t))

tutti_status tutti_run_join(tutti_run **out, const tutti_run_conf *of_caller)
{
    tutti_run_conf conf = { .size = sizeof conf };
    tutti_status st = TUTTI_OK;
    tutti_run *run;

    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_join: out is NULL");
    if (of_caller)
        st = tt_options_take(&conf, sizeof conf, CONF_BYTES_FIRST, of_caller, "tutti_run_join", "conf");
    if (!st)
        st = tt_plugins_load();
    if (st)
        return st;
    tt_space_constants();
    run = make();
    if (!run)
        return tt_fail(TUTTI_ERR_NOMEM, "no memory for a run");
    if (run->wake_fd < 0 || run->epoll < 0 || !run->seats || !run->scratch)
        st = tt_fail(TUTTI_ERR_NOMEM, "no memory or descriptors for a run");
    if (!st)
        st = take_conf(run, &conf);
    if (!st)
        st = init_member(run, &conf);
    if (!st)
        st = tt_service_start(run);
    if (!st)
        st = wait_welcome(run);
    if (st) {
        char why[TT_ERROR_BYTES];

        snprintf(why, sizeof why, "%s", tutti_last_error());
        tt_service_stop(run);
        fini(run);
        return tt_fail_again(st, why);
    }
    *out = run;
    return TUTTI_OK;
}

tutti_status tutti_run_leave(tutti_run *run)
{
    tutti_status st;

    if (!run)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_leave: run is NULL");
    tt_run_lock(run);
    st = tt_run_check(run);
    if (!st)
        tt_member_leave(&run->m, TT_LEAVE_NOTICE, tt_now_ns());
    tt_run_unlock(run);
    return st;
}

void tutti_run_destroy(tutti_run *run)
{
    if (!run)
        return;
    tt_run_lock(run);
    tt_assert(run->noperations == 0 && !run->calling); /* nothing may be running in it */
    if (!run->over)
        tt_member_leave(&run->m, TT_LEAVE_NOW, tt_now_ns());
    tt_run_unlock(run);
    tt_service_stop(run);
    fini(run);
}

tutti_status tutti_run_revoke(tutti_run *run)
{
    tutti_status st;

    if (!run)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_revoke: run is NULL");
    tt_run_lock(run);
    st = tt_run_check(run);
    if (!st && run->m.epoch == 0)
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_run_revoke: this member is in no view");
    if (!st)
        tt_member_revoke(&run->m, tt_now_ns());
    tt_run_unlock(run);
    return st;
}

tutti_status tutti_run_poll(tutti_run *run, tutti_news *out)
{
    if (!run || !out || out->size != sizeof *out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_poll: %s", !run ? "run is NULL" : !out ? "out is NULL" : "out.size is not that of tutti_news");
    tt_run_lock(run);
    *out = (tutti_news){ .size = sizeof *out,
                         .number = run->heard.number,
                         .epoch = run->space.epoch,
                         .newcomers = run->heard.newcomers,
                         .lost = run->heard.lost,
                         .leaving = run->heard.leaving,
                         .revoked = run->heard.revoked != 0 };
    tt_run_unlock(run);
    return TUTTI_OK;
}

tutti_status tutti_run_stats(tutti_run *run, tutti_run_stats_t *out)
{
    if (!run || !out || out->size != sizeof *out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_stats: %s", !run ? "run is NULL" : !out ? "out is NULL" : "out.size is not that of tutti_run_stats_t");
    tt_run_lock(run);
    *out = run->stats;
    out->size = sizeof *out;
    out->id = run->m.id;
    tt_run_unlock(run);
    return TUTTI_OK;
}
