/* The public calls of tutti/coordinator.h. */
#include "tutti/coordinator.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/param.h"
#include "base/status.h"
#include "coordinator/coordinator.h"
#include "coordinator/listen.h"
#include "coordinator/web.h"
#include "secure/security.h"

#define LEASE_MS_MAX 3600000
#define CONF_BYTES_FIRST offsetof(tutti_coordinator_conf, store)    /* size in the first release */

struct tutti_coordinator {
    struct tt_coordinator *inside;
    struct tt_web *web;         /* NULL: no status pages */
};

static const char *env_or_default(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value && *value ? value : otherwise;
}

static tutti_status embed_set_security(struct tt_coordinator_conf *out,
                                       const tutti_coordinator_conf *conf)
{
    const int files = !!conf->certificate + !!conf->key + !!conf->authority;
    const char *token = conf->token;
    bool requested;
    tutti_status st;

    if (!files && !token && !conf->insecure) {
        st = tt_security_of_run(&out->secure, &requested);
        out->insecure = !st && requested && out->secure.mode == TT_SECURE_PLAIN;
        return st;
    }
    if (files % 3 != 0)
        return tt_fail(TUTTI_ERR_INVALID,
                       "coordinator: certificate, key and authority must be set together");
    if (!!files + !!token + !!conf->insecure > 1)
        return tt_fail(TUTTI_ERR_INVALID,
                       "coordinator: token, certificates and insecure are mutually exclusive");
    out->insecure = conf->insecure != 0;
    out->secure = (struct tt_secure_conf){ .mode = files   ? TT_SECURE_CERTIFICATE
                                                   : token ? TT_SECURE_TOKEN
                                                           : TT_SECURE_PLAIN,
                                           .token = token,
                                           .certificate = conf->certificate,
                                           .key = conf->key,
                                           .authority = conf->authority };
    return TUTTI_OK;
}

static tutti_status embed_set_timeouts(struct tt_coordinator_conf *out,
                                       const tutti_coordinator_conf *conf)
{
    if (conf->lease_ms < 0 || conf->lease_ms > LEASE_MS_MAX || conf->grace_ms < 0 ||
        conf->grace_ms > LEASE_MS_MAX)
        return tt_fail(TUTTI_ERR_INVALID,
                       "coordinator: conf.lease_ms is %lld and conf.grace_ms is %lld: both must be "
                       "0 to 3600000 (1 hour)",
                       (long long)conf->lease_ms, (long long)conf->grace_ms);
    out->lease_ns = (uint64_t)conf->lease_ms * TT_MS;
    out->grace_ns = (uint64_t)conf->grace_ms * TT_MS;
    return TUTTI_OK;
}

/* Splits "a,b" in place. */
static tutti_status split_addresses(char *text, const char *out[TT_LISTEN_MAX], uint32_t *n)
{
    char *save = NULL;

    for (char *one = strtok_r(text, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
        if (*n == TT_LISTEN_MAX)
            return tt_fail(TUTTI_ERR_INVALID,
                           "coordinator: too many listen addresses: the maximum is %u",
                           TT_LISTEN_MAX);
        out[(*n)++] = one;
    }
    return TUTTI_OK;
}

/* ---- the journal ---- */

/* Creates a descriptor that becomes readable after wait_ms. 0: at once (a timer of 0 would be
 * disabled, so it is 1 ns). Negative: *out is -1, which never becomes readable. */
static tutti_status timer_create_ms(int64_t wait_ms, int *out)
{
    const struct itimerspec after = { .it_value = { .tv_sec = wait_ms / 1000,
                                                    .tv_nsec = wait_ms % 1000 * 1000000 +
                                                               (wait_ms == 0) } };

    *out = -1;
    if (wait_ms < 0)
        return TUTTI_OK;
    *out = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (*out < 0)
        return tt_fail_call(errno, "coordinator", "timerfd_create");
    timerfd_settime(*out, 0, &after, NULL);     /* cannot fail with a valid argument */
    return TUTTI_OK;
}

static void show_leader(void *context, const char *leader)
{
    const tutti_coordinator *c = context;

    if (c->web)
        tt_web_stand_by(c->web, leader);
}

/* Waits until no other coordinator leads. */
static tutti_status open_store(struct tt_journal **out, tutti_coordinator *c,
                               const tutti_coordinator_conf *conf, const char *listen)
{
    char who[TT_COORDINATOR_CALLED_BYTES];
    int64_t wait_ms = conf->stand_by_ms;
    tutti_status st = wait_ms == 0 ? tt_param_get(TT_PARAM_TIMEOUT_MS, &wait_ms) : TUTTI_OK;
    int timer = -1;

    if (!st)
        st = timer_create_ms(wait_ms, &timer);
    if (st)
        return st;
    tt_coordinator_call_it(who, sizeof who, listen);
    st = tt_journal_etcd_open(out, &(struct tt_journal_etcd_conf){ .store = conf->store,
                                                                   .who = who,
                                                                   .stop_fd = timer,
                                                                   .plain = conf->store_plain != 0,
                                                                   .stands_by = show_leader,
                                                                   .context = c });
    if (timer >= 0)
        close(timer);
    if (st == TUTTI_ERR_ABORTED)
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "coordinator: timed out after %" PRId64 " ms: another coordinator still "
                       "leads at %s, or the store does "
                       "not respond",
                       wait_ms, conf->store);
    return st;
}

static tutti_status embed_open_journal(struct tt_journal **out, tutti_coordinator *c,
                                       const tutti_coordinator_conf *conf, const char *listen)
{
    if (conf->journal && conf->store)
        return tt_fail(TUTTI_ERR_INVALID,
                       "coordinator: both a journal (%s) and a store (%s) are set: use one of "
                       "them",
                       conf->journal, conf->store);
    if (conf->journal && !*conf->journal)
        return tt_fail(TUTTI_ERR_INVALID,
                       "coordinator: tutti_coordinator_conf.journal is empty: use a file name, "
                       "or NULL for no journal");
    if (conf->store)
        return open_store(out, c, conf, listen);
    return conf->journal ? tt_journal_sqlite_open(out, conf->journal) : tt_journal_none_open(out);
}

/* ---- creation and destruction ---------------------------------------------------------------- */

static tutti_status embedded_begin(tutti_coordinator *c, const tutti_coordinator_conf *conf,
                                   char *addresses)
{
    const char *listen[TT_LISTEN_MAX];
    struct tt_coordinator_conf inside = { .run = conf->run ? conf->run
                                                           : env_or_default("TUTTI_RUN", "tutti"),
                                          .listen = listen,
                                          .members_max = conf->members_max };
    struct tt_journal *journal;
    tutti_status st = split_addresses(addresses, listen, &inside.nlisten);

    if (st == TUTTI_OK)
        st = embed_set_security(&inside, conf);
    if (st == TUTTI_OK)
        st = embed_set_timeouts(&inside, conf);
    if (st == TUTTI_OK && conf->http)
        st = tt_web_create(&c->web, conf->http, NULL, inside.run);
    if (st == TUTTI_OK)
        st = embed_open_journal(&journal, c, conf, inside.nlisten > 0 ? listen[0] : "nowhere");
    if (st)
        return st;
    st = tt_coordinator_create(&c->inside, &inside, journal);
    if (st)
        journal->ops->close(journal);
    else if (c->web)
        tt_web_show(c->web, tt_coordinator_board(c->inside));
    return st;
}

tutti_status tutti_coordinator_create(tutti_coordinator **out, const tutti_coordinator_conf *given)
{
    tutti_coordinator_conf conf = { .size = sizeof conf };
    tutti_coordinator *c;
    char *addresses;
    tutti_status st;

    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_coordinator_create: out is NULL");
    st = given ? tt_options_take(&conf, sizeof conf, CONF_BYTES_FIRST, given,
                                 "tutti_coordinator_create", "conf", "tutti_coordinator_conf")
               : TUTTI_OK;
    if (!st)
        st = tt_options_flag("tutti_coordinator_create", "conf.insecure", conf.insecure);
    if (!st)
        st = tt_options_flag("tutti_coordinator_create", "conf.store_plain", conf.store_plain);
    if (st)
        return st;
    c = calloc(1, sizeof *c);
    addresses = strdup(conf.listen ? conf.listen : "127.0.0.1:0");
    st = c && addresses ? embedded_begin(c, &conf, addresses)
                        : tt_fail(TUTTI_ERR_NOMEM, "coordinator: out of memory");
    free(addresses);
    if (st) {
        if (c)
            tt_web_destroy(c->web);
        free(c);
        return st;
    }
    *out = c;
    return TUTTI_OK;
}

const char *tutti_coordinator_address(const tutti_coordinator *c, uint32_t i)
{
    return c ? tt_coordinator_address(c->inside, i) : NULL;
}

const char *tutti_coordinator_http(const tutti_coordinator *c)
{
    return c && c->web ? tt_web_address(c->web) : NULL;
}

tutti_status tutti_coordinator_check(tutti_coordinator *c)
{
    char why[256];
    tutti_status st;

    if (!c)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_coordinator_check: coordinator is NULL");
    st = tt_coordinator_error(c->inside, why, sizeof why);
    return st ? tt_fail_again(st, why) : TUTTI_OK;
}

void tutti_coordinator_destroy(tutti_coordinator *c)
{
    if (!c)
        return;
    tt_web_destroy(c->web); /* before the board, which it uses */
    tt_coordinator_destroy(c->inside);
    free(c);
}
