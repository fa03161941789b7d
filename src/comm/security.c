#include "comm/security.h"

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
    return tt_fail(TUTTI_ERR_INVALID, "TUTTI_SECURITY (or conf.security) is \"%s\", but must be \"plain\", \"token\" or \"certificate\"", text);
}

/* What a variable says; NULL if it is not set, or to nothing. */
static const char *setting(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

tutti_status tt_security_create(struct tt_secure **out, enum tt_secure_mode mode, const char *token)
{
    const struct tt_secure_conf conf = {
        .mode = mode,
        .token = token,
        .certificate = setting("TUTTI_CERTIFICATE"),
        .key = setting("TUTTI_KEY"),
        .authority = setting("TUTTI_AUTHORITY"),
    };

    if (mode == TT_SECURE_TOKEN && !*token)
        return tt_fail(TUTTI_ERR_INVALID, "TUTTI_SECURITY (or conf.security) is \"token\", but there is no token: set TUTTI_TOKEN");
    if (mode == TT_SECURE_CERTIFICATE && (!conf.certificate || !conf.key || !conf.authority))
        return tt_fail(TUTTI_ERR_INVALID, "TUTTI_SECURITY (or conf.security) is \"certificate\", but %s is not set",
                       !conf.certificate ? "TUTTI_CERTIFICATE"
                       : !conf.key       ? "TUTTI_KEY"
                                         : "TUTTI_AUTHORITY");
    if (mode != TT_SECURE_PLAIN)
        return tt_secure_create(out, &conf);
    *out = NULL;
    return TUTTI_OK;
}
