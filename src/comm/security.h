/* How connections between the hosts of a job are secured: what the settings say. */
#ifndef TT_COMM_SECURITY_H
#define TT_COMM_SECURITY_H

#include "secure/secure.h"

/* "plain", "token" or "certificate" ("" is plain); INVALID with the name of the setting if it is none. */
tutti_status tt_security_parse(enum tt_secure_mode *out, const char *text);
const char *tt_security_name(enum tt_secure_mode mode);
/* What it takes: the job's token, or the files that TUTTI_CERTIFICATE, TUTTI_KEY and TUTTI_AUTHORITY name. *out is the caller's; NULL for
 * PLAIN. */
tutti_status tt_security_create(struct tt_secure **out, enum tt_secure_mode mode, const char *token);

#endif
