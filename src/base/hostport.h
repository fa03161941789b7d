/* Addresses as users write them: "host:29401", "192.0.2.7:29401", "[2001:db8::7]:29401". Pure: no name is looked up. */
#ifndef TT_BASE_HOSTPORT_H
#define TT_BASE_HOSTPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_HOST_BYTES 256               /* a name, with its NUL */

struct tt_hostport {
    char host[TT_HOST_BYTES];           /* without brackets; "": there was none before the colon */
    char port[6];                       /* decimal digits, */
    uint16_t number;                    /* and what they say */
};

/* Cuts text[bytes] in two, at its last colon. NULL; else why it is no such address, as the end of a sentence, and *out is as it was.
 * An IPv6 address has brackets, so that its end is not taken for a port; and nothing else has. */
const char *tt_hostport_parse(struct tt_hostport *out, const char *text, size_t bytes);

/* "40000-40007": ports from first to last, each from 1 to 65535. False: it is none, and *first and *last are as they were. */
bool tt_ports_parse(uint16_t *first, uint16_t *last, const char *text);

#endif
