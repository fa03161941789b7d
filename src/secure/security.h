/* The security mode of connections, from settings and the environment. */
#ifndef TT_SECURE_SECURITY_H
#define TT_SECURE_SECURITY_H

#include "secure/secure.h"

/* Parses "plain", "token" or "certificate" ("" is plain). INVALID names the setting. */
tutti_status tt_security_parse(enum tt_secure_mode *out, const char *text);
const char *tt_security_name(enum tt_secure_mode mode);
/* Uses the job's token, or the files of TUTTI_CERTIFICATE, TUTTI_KEY and TUTTI_AUTHORITY. The
 * caller owns *out; NULL for PLAIN. */
tutti_status tt_security_create(struct tt_secure **out, enum tt_secure_mode mode,
                                const char *token);
/* Reads the defaults of an elastic run: TUTTI_SECURITY with TUTTI_TOKEN or the files, or
 * TUTTI_TOKEN alone. *out points into the environment. *asked: whether anything was set, including
 * PLAIN. INVALID (logged): a setting is invalid or missing. */
tutti_status tt_security_of_run(struct tt_secure_conf *out, bool *asked);

#endif
