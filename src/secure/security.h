/* How connections are to be secured, as settings and the environment say it. */
#ifndef TT_SECURE_SECURITY_H
#define TT_SECURE_SECURITY_H

#include "secure/secure.h"

/* "plain", "token" or "certificate" ("" is plain); INVALID with the name of the setting if it is none. */
tutti_status tt_security_parse(enum tt_secure_mode *out, const char *text);
const char *tt_security_name(enum tt_secure_mode mode);
/* What it takes: the job's token, or the files that TUTTI_CERTIFICATE, TUTTI_KEY and TUTTI_AUTHORITY name. *out is the caller's; NULL for
 * PLAIN. */
tutti_status tt_security_create(struct tt_secure **out, enum tt_secure_mode mode, const char *token);
/* What an elastic run is told by the environment where nothing else says it: TUTTI_SECURITY with TUTTI_TOKEN or the files, or TUTTI_TOKEN alone. *out
 * points into the environment; *asked: whether anything was said, PLAIN too. INVALID (logged): it makes no sense, or something is missing. */
tutti_status tt_security_of_run(struct tt_secure_conf *out, bool *asked);

#endif
