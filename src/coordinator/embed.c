/* The public calls of tutti/coordinator.h. */
#include "tutti/coordinator.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "coordinator/coordinator.h"
#include "coordinator/listen.h"
#include "secure/security.h"

#define LEASE_MS_MAX 3600000

struct tutti_coordinator {
    struct tt_coordinator *inside;
};

static const char *from_environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value && *value ? value : otherwise;
}

static tutti_status set_security(struct tt_coordinator_conf *out, const tutti_coordinator_conf *conf)
{
    const int files = !!conf->certificate + !!conf->key + !!conf->authority;
    const char *token = conf->token;
    bool asked;
    tutti_status st;

    if (!files && !token && !conf->insecure) {
        st = tt_security_of_run(&out->secure, &asked);
        out->insecure = !st && asked && out->secure.mode == TT_SECURE_PLAIN;
        return st;
    }
    if (files % 3 != 0)
        return tt_fail(TUTTI_ERR_INVALID, "coordinator: certificate, key and authority go together");
    if (!!files + !!token + !!conf->insecure > 1)
        return tt_fail(TUTTI_ERR_INVALID, "coordinator: a token, certificates and insecure exclude each other");
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

static tutti_status set_patience(struct tt_coordinator_conf *out, const tutti_coordinator_conf *conf)
{
    if (conf->lease_ms < 0 || conf->lease_ms > LEASE_MS_MAX || conf->grace_ms < 0 || conf->grace_ms > LEASE_MS_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "coordinator: a lease of %lld ms, a grace of %lld ms: they must be 0 to an hour",
                       (long long)conf->lease_ms, (long long)conf->grace_ms);
    out->lease_ns = (uint64_t)conf->lease_ms * TT_MS;
    out->grace_ns = (uint64_t)conf->grace_ms * TT_MS;
    return TUTTI_OK;
}

/* "a,b" in place. */
static tutti_status split_addresses(char *text, const char *out[TT_LISTEN_MAX], uint32_t *n)
{
    char *save = NULL;

    for (char *one = strtok_r(text, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
        if (*n == TT_LISTEN_MAX)
            return tt_fail(TUTTI_ERR_INVALID, "coordinator: more than %u addresses to listen on", TT_LISTEN_MAX);
        out[(*n)++] = one;
    }
    return TUTTI_OK;
}

static tutti_status begin(struct tt_coordinator **out, const tutti_coordinator_conf *conf, char *addresses)
{
    const char *listen[TT_LISTEN_MAX];
    struct tt_coordinator_conf inside = { .run = conf->run ? conf->run : from_environment("TUTTI_RUN", "tutti"),
                                          .listen = listen,
                                          .members_max = conf->members_max };
    struct tt_journal *journal;
    tutti_status st = split_addresses(addresses, listen, &inside.nlisten);

    if (st == TUTTI_OK)
        st = set_security(&inside, conf);
    if (st == TUTTI_OK)
        st = set_patience(&inside, conf);
    if (st == TUTTI_OK)
        st = conf->journal ? tt_journal_sqlite_open(&journal, conf->journal) : tt_journal_none_open(&journal);
    if (st)
        return st;
    st = tt_coordinator_create(out, &inside, journal);
    if (st)
        journal->ops->close(journal);
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
    st = given ? tt_options_take(&conf, sizeof conf, sizeof conf, given, "tutti_coordinator_create", "conf") : TUTTI_OK;
    if (st)
        return st;
    c = calloc(1, sizeof *c);
    addresses = strdup(conf.listen ? conf.listen : "127.0.0.1:0");
    st = c && addresses ? begin(&c->inside, &conf, addresses) : tt_fail(TUTTI_ERR_NOMEM, "coordinator: no memory");
    free(addresses);
    if (st) {
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

tutti_status tutti_coordinator_check(tutti_coordinator *c)
{
    char why[256];
    tutti_status st;

    if (!c)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_coordinator_check: there is no coordinator");
    st = tt_coordinator_why(c->inside, why, sizeof why);
    return st ? tt_fail_again(st, why) : TUTTI_OK;
}

void tutti_coordinator_destroy(tutti_coordinator *c)
{
    if (!c)
        return;
    tt_coordinator_destroy(c->inside);
    free(c);
}
