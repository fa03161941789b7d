#include "coordinator/etcd_lead.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "reduce/float_env.h"

#define FIRST_S 5                       /* timeout of the first request, in seconds */
/* seconds without a response of etcd after which a warning is logged */
#define UNREACHABLE_LOG_S 1
#define CALL_NS TT_SECOND
#define STANDBY_POLL_MS 200             /* interval between a standby's checks for the leader */
#define WHO_BYTES 128
#define WHY_BYTES 160

struct tt_etcd_lead {
    struct tt_etcd *etcd;               /* used by tt_etcd_lead_begin, then only by the thread */
    const struct tt_etcd_lead_conf *conf;   /* valid during tt_etcd_lead_begin */
    char *key;
    int64_t lease, ttl_s, term;
    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock;               /* protects the following fields */
    pthread_cond_t ends;
    bool ending, lost;
    char why[WHY_BYTES];                /* if lost: the reason */
    uint64_t until_ns;                  /* end of the lease, by a clock that includes suspension */
};

/* Includes the time in which the host was suspended, since etcd's lease expires meanwhile. */
static uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * TT_SECOND + (uint64_t)now.tv_nsec;
}

/* ---- lease ----------------------------------------------------------------------------------- */

/* The lease counts from the time at which the request was sent, because etcd counts from a later
 * time, its receipt. A tenth is subtracted for differences in clock rate. */
static void extend_lease(struct tt_etcd_lead *l, uint64_t asked_ns)
{
    pthread_mutex_lock(&l->lock);
    l->until_ns = asked_ns + (uint64_t)l->ttl_s * TT_SECOND * 9 / 10;
    pthread_mutex_unlock(&l->lock);
}

static tutti_status grant(struct tt_etcd_lead *l)
{
    struct json_object *request = json_object_new_object(), *answer;
    const uint64_t asked_ns = clock_ns();
    tutti_status st;

    tt_etcd_add_number(request, "TTL", l->conf->lease_s ? l->conf->lease_s : TT_ETCD_LEASE_S);
    st = tt_etcd_call(l->etcd, "lease/grant", request, tt_now_ns() + CALL_NS, &answer);
    if (st)
        return st;
    l->lease = tt_etcd_number(answer, "ID");
    l->ttl_s = tt_etcd_number(answer, "TTL");
    json_object_put(answer);
    extend_lease(l, asked_ns);
    return TUTTI_OK;
}

/* OK: extended; INVALID: the lease does not exist any more; otherwise no response. */
static tutti_status lease_extend(struct tt_etcd_lead *l)
{
    struct json_object *request = json_object_new_object(), *answer;
    const uint64_t asked_ns = clock_ns();
    tutti_status st;
    int64_t ttl_s;

    tt_etcd_add_number(request, "ID", l->lease);
    st = tt_etcd_call(l->etcd, "lease/keepalive", request, tt_now_ns() + CALL_NS, &answer);
    if (st)
        return st;
    ttl_s = tt_etcd_number(tt_etcd_at(answer, "result"), "TTL");
    json_object_put(answer);
    if (ttl_s <= 0)
        return TUTTI_ERR_INVALID;
    extend_lease(l, asked_ns);
    return TUTTI_OK;
}

static void give_up_lease(struct tt_etcd_lead *l)
{
    struct json_object *request = json_object_new_object(), *answer;

    tt_etcd_add_number(request, "ID", l->lease);
    if (tt_etcd_call(l->etcd, "lease/revoke", request, tt_now_ns() + CALL_NS, &answer) == TUTTI_OK)
        json_object_put(answer);
}

static void *lease_thread(void *lead)
{
    struct tt_etcd_lead *l = lead;
    uint64_t next_ns = tt_now_ns();
    bool done = false;

    (void)tt_float_env_enter();     /* not the floating-point environment of the creating thread */
    while (!done) {
        struct timespec at;

        next_ns += (uint64_t)l->ttl_s * TT_SECOND / 4;
        at = (struct timespec){ .tv_sec = (time_t)(next_ns / TT_SECOND),
                                .tv_nsec = (long)(next_ns % TT_SECOND) };
        pthread_mutex_lock(&l->lock);
        while (!l->ending && !l->lost &&
               pthread_cond_timedwait(&l->ends, &l->lock, &at) != ETIMEDOUT)
            ;
        done = l->ending || l->lost;
        pthread_mutex_unlock(&l->lock);
        if (!done && lease_extend(l) == TUTTI_ERR_INVALID)
            tt_etcd_lead_lose(l, "its lease expired");
    }
    return NULL;
}

/* ---- election ---- */

static struct json_object *one_of(struct json_object *what)
{
    struct json_object *list = json_object_new_array();

    json_object_array_add(list, what);
    return list;
}

static struct json_object *condition(const char *key, int64_t create_revision)
{
    struct json_object *c = json_object_new_object();

    tt_etcd_add_text(c, "key", key);
    json_object_object_add(c, "target", json_object_new_string("CREATE"));
    json_object_object_add(c, "result", json_object_new_string("EQUAL"));
    tt_etcd_add_number(c, "create_revision", create_revision);
    return c;
}

/* Creates the key if it does not exist. *term: 0 if it already exists. */
static tutti_status claim(struct tt_etcd_lead *l, int64_t *term)
{
    struct json_object *request = json_object_new_object(), *put = json_object_new_object(),
                       *op = json_object_new_object(), *answer;
    tutti_status st;

    tt_etcd_add_text(put, "key", l->key);
    tt_etcd_add_text(put, "value", l->conf->who);
    tt_etcd_add_number(put, "lease", l->lease);
    json_object_object_add(op, "request_put", put);
    json_object_object_add(request, "compare", one_of(condition(l->key, 0)));
    json_object_object_add(request, "success", one_of(op));
    st = tt_etcd_call(l->etcd, "kv/txn", request, tt_now_ns() + CALL_NS, &answer);
    if (st)
        return st;
    *term = json_object_get_boolean(tt_etcd_at(answer, "succeeded"))
                ? tt_etcd_number(tt_etcd_at(answer, "header"), "revision")
                : 0;
    json_object_put(answer);
    return TUTTI_OK;
}

struct leader {
    char who[WHO_BYTES];        /* "": none */
    int64_t term, lease;
};

static tutti_status get_leader(struct tt_etcd_lead *l, uint64_t patience_ns, struct leader *out)
{
    struct json_object *request = json_object_new_object(), *answer, *kvs, *kv;
    tutti_status st;
    size_t bytes;
    char *who;

    tt_etcd_add_text(request, "key", l->key);
    st = tt_etcd_call(l->etcd, "kv/range", request, tt_now_ns() + patience_ns, &answer);
    if (st)
        return st;
    kvs = tt_etcd_at(answer, "kvs");
    kv = json_object_is_type(kvs, json_type_array) && json_object_array_length(kvs)
             ? json_object_array_get_idx(kvs, 0)
             : NULL;
    *out = (struct leader){ .term = tt_etcd_number(kv, "create_revision"),
                            .lease = tt_etcd_number(kv, "lease") };
    who = kv ? tt_etcd_bytes(kv, "value", &bytes) : NULL;
    if (kv)
        snprintf(out->who, sizeof out->who, "%s", who && *who ? who : "unknown");
    free(who);
    json_object_put(answer);
    return TUTTI_OK;
}

/* Makes one attempt to become leader, if there is none; *term: 0 if it failed. An earlier attempt
 * without a response may have succeeded: then the key has this process's lease. */
static tutti_status try_once(struct tt_etcd_lead *l, struct leader *leader, int64_t *term)
{
    tutti_status st = get_leader(l, CALL_NS, leader);

    *term = 0;
    if (st)
        return st;
    if (leader->who[0]) {
        if (l->lease && leader->lease == l->lease)
            *term = leader->term;
        return TUTTI_OK;
    }
    if (l->lease == 0 || lease_extend(l) != TUTTI_OK)
        st = grant(l);
    return st ? st : claim(l, term);
}

static bool is_stopped(const struct tt_etcd_lead *l, int wait_ms)
{
    struct pollfd fd = { .fd = l->conf->stop_fd, .events = POLLIN };

    return poll(&fd, 1, wait_ms) > 0;
}

/* reported: the last reported leader. The leader may be this process, from the time before it lost
 * its connection to the store. */
static void report_leader(const struct tt_etcd_lead *l, const char *leader,
                          char reported[WHO_BYTES])
{
    if (strcmp(reported, leader) == 0)
        return;
    if (strcmp(leader, l->conf->who) == 0)
        tt_log(TT_LOG_WARN, "coordinator: no leader; waiting for this coordinator's previous lease "
                            "in the store to expire");
    else if (*leader)
        tt_log(TT_LOG_WARN, "coordinator: %s is the leader; standing by", leader);
    l->conf->stands_by(l->conf->context, strcmp(leader, l->conf->who) == 0 ? "" : leader);
    snprintf(reported, WHO_BYTES, "%s", leader);
}

static tutti_status wait_for_term(struct tt_etcd_lead *l)
{
    char reported[WHO_BYTES] = "";
    struct leader leader;
    bool told_silence = false;
    tutti_status st;

    for (;;) {
        st = try_once(l, &leader, &l->term);
        if (st == TUTTI_ERR_INVALID)
            return tt_fail(TUTTI_ERR_SYSTEM, "%s", tt_etcd_error(l->etcd));
        if (st == TUTTI_OK && l->term)
            return TUTTI_OK;
        if (st && !told_silence)
            tt_log(TT_LOG_WARN, "%s; waiting for the store", tt_etcd_error(l->etcd));
        told_silence = st != TUTTI_OK;
        report_leader(l, st == TUTTI_OK ? leader.who : "", reported);
        if (is_stopped(l, STANDBY_POLL_MS))
            return tt_fail_again(TUTTI_ERR_ABORTED,
                                 "etcd: stopped while another coordinator leads");
    }
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static tutti_status lead_start_thread(struct tt_etcd_lead *l)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&l->thread, NULL, lease_thread, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    l->threaded = err == 0;
    return err ? tt_fail_errno(err, "etcd: cannot start a thread") : TUTTI_OK;
}

/* Checks whether etcd responds at all. */
static tutti_status find_etcd(struct tt_etcd_lead *l)
{
    struct leader leader;
    tutti_status st = get_leader(l, UNREACHABLE_LOG_S * TT_SECOND, &leader);

    if (st == TUTTI_ERR_TIMEOUT) {
        tt_log(TT_LOG_WARN, "%s; retrying for %d s", tt_etcd_error(l->etcd),
               FIRST_S - UNREACHABLE_LOG_S);
        st = get_leader(l, (FIRST_S - UNREACHABLE_LOG_S) * TT_SECOND, &leader);
    }
    return st ? tt_fail(TUTTI_ERR_SYSTEM, "%s", tt_etcd_error(l->etcd)) : TUTTI_OK;
}

static tutti_status lead_begin(struct tt_etcd_lead *l)
{
    tutti_status st;

    l->key = strdup(l->conf->key);
    if (!l->key)
        return tt_fail(TUTTI_ERR_NOMEM, "etcd: out of memory for the leader's key");
    st = tt_etcd_create(&l->etcd, l->conf->servers);
    if (st)
        return st;
    st = l->conf->patient ? TUTTI_OK : find_etcd(l);
    if (!st)
        st = wait_for_term(l);
    return st ? st : lead_start_thread(l);
}

tutti_status tt_etcd_lead_begin(struct tt_etcd_lead **out, const struct tt_etcd_lead_conf *conf)
{
    struct tt_etcd_lead *l = calloc(1, sizeof *l);
    pthread_condattr_t attr;
    tutti_status st;

    if (!l)
        return tt_fail(TUTTI_ERR_NOMEM, "etcd: out of memory for the leader's lease");
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&l->ends, &attr);
    pthread_condattr_destroy(&attr);
    l->conf = conf;
    st = lead_begin(l);
    l->conf = NULL;
    if (st) {
        tt_etcd_lead_end(l);
        return st;
    }
    *out = l;
    return TUTTI_OK;
}

uint64_t tt_etcd_lead_until_ns(struct tt_etcd_lead *l)
{
    const uint64_t now_ns = clock_ns();
    uint64_t left_ns;

    pthread_mutex_lock(&l->lock);
    left_ns = !l->lost && l->until_ns > now_ns ? l->until_ns - now_ns : 0;
    pthread_mutex_unlock(&l->lock);
    return tt_now_ns() + left_ns;
}

tutti_status tt_etcd_lead_lose(struct tt_etcd_lead *l, const char *why)
{
    bool first;

    pthread_mutex_lock(&l->lock);
    first = !l->lost;
    l->lost = true;
    if (first)
        snprintf(l->why, sizeof l->why, "coordinator: lost leadership: %s", why);
    pthread_mutex_unlock(&l->lock);
    return first ? tt_fail(TUTTI_ERR_ABORTED, "%s", l->why)
                 : tt_fail_again(TUTTI_ERR_ABORTED, l->why);
}

tutti_status tt_etcd_lead_check(struct tt_etcd_lead *l)
{
    bool lost, late;

    pthread_mutex_lock(&l->lock);
    lost = l->lost;
    late = clock_ns() >= l->until_ns;
    pthread_mutex_unlock(&l->lock);
    return lost || late ? tt_etcd_lead_lose(l, "etcd did not renew the lease in time") : TUTTI_OK;
}

struct json_object *tt_etcd_lead_condition(const struct tt_etcd_lead *l)
{
    return condition(l->key, l->term);
}

int64_t tt_etcd_lead_term(const struct tt_etcd_lead *l)
{
    return l->term;
}

void tt_etcd_lead_end(struct tt_etcd_lead *l)
{
    if (l->threaded) {
        pthread_mutex_lock(&l->lock);
        l->ending = true;
        pthread_cond_signal(&l->ends);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    if (l->etcd && l->lease && !l->lost)
        give_up_lease(l);
    tt_etcd_destroy(l->etcd);
    pthread_cond_destroy(&l->ends);
    pthread_mutex_destroy(&l->lock);
    free(l->key);
    free(l);
}
