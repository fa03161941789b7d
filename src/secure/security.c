#include "secure/security.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static const char *const names[] = {
    [TT_SECURE_PLAIN] = "plain",
    [TT_SECURE_TOKEN] = "token",
    [TT_SECURE_CERTIFICATE] = "certificate",
};
#define NNAMES (sizeof names / sizeof *names)

const char *tt_security_name(enum tt_secure_mode mode)
{
    return names[mode];
}

tutti_status tt_security_parse(enum tt_secure_mode *out, const char *text)
{
    for (size_t i = 0; i < NNAMES; i++)
        if (strcmp(names[i], text) == 0 || (i == TT_SECURE_PLAIN && !*text)) {
            *out = (enum tt_secure_mode)i;
            return TUTTI_OK;
        }
    return tt_fail(TUTTI_ERR_INVALID,
                   "TUTTI_SECURITY (or conf.security) is \"%s\": must be \"plain\", "
                   "\"token\" or \"certificate\"",
                   text);
}

/* Returns a variable, or NULL if it is unset or empty. */
static const char *environment_setting(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

/* Checks that the settings of the mode are present. */
static tutti_status check_credentials(const struct tt_secure_conf *conf)
{
    if (conf->mode == TT_SECURE_TOKEN && (!conf->token || !*conf->token))
        return tt_fail(TUTTI_ERR_INVALID,
                       "TUTTI_SECURITY (or conf.security) is \"token\": no token is set (set "
                       "TUTTI_TOKEN)");
    if (conf->mode == TT_SECURE_CERTIFICATE &&
        (!conf->certificate || !conf->key || !conf->authority))
        return tt_fail(TUTTI_ERR_INVALID,
                       "TUTTI_SECURITY (or conf.security) is \"certificate\": %s is not set",
                       !conf->certificate ? "TUTTI_CERTIFICATE"
                       : !conf->key       ? "TUTTI_KEY"
                                          : "TUTTI_AUTHORITY");
    return TUTTI_OK;
}

static struct tt_secure_conf conf_of(enum tt_secure_mode mode, const char *token)
{
    return (struct tt_secure_conf){
        .mode = mode,
        .token = token,
        .certificate = environment_setting("TUTTI_CERTIFICATE"),
        .key = environment_setting("TUTTI_KEY"),
        .authority = environment_setting("TUTTI_AUTHORITY"),
    };
}

tutti_status tt_security_create(struct tt_secure **out, enum tt_secure_mode mode, const char *token)
{
    const struct tt_secure_conf conf = conf_of(mode, token);
    const tutti_status st = check_credentials(&conf);

    if (st)
        return st;
    if (mode != TT_SECURE_PLAIN)
        return tt_secure_create(out, &conf);
    *out = NULL;
    return TUTTI_OK;
}

tutti_status tt_security_of_run(struct tt_secure_conf *out, bool *asked)
{
    const char *security = environment_setting("TUTTI_SECURITY"),
               *token = environment_setting("TUTTI_TOKEN");
    enum tt_secure_mode mode = token ? TT_SECURE_TOKEN : TT_SECURE_PLAIN;
    tutti_status st = security ? tt_security_parse(&mode, security) : TUTTI_OK;

    if (st)
        return st;
    *out = conf_of(mode, token);
    *asked = security || token;
    return check_credentials(out);
}
