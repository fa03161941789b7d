/* Addresses in user notation: "host:29401", "192.0.2.7:29401", "[2001:db8::7]:29401". Pure: no name
 * resolution. */
#ifndef TT_BASE_HOSTPORT_H
#define TT_BASE_HOSTPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_HOST_BYTES 256               /* maximum length of a host name, with NUL */

struct tt_hostport {
    char host[TT_HOST_BYTES];           /* without brackets; "" if nothing precedes the colon */
    char port[6];                       /* decimal digits */
    uint16_t number;                    /* the value of port */
};

/* Splits text[bytes] at its last colon. Returns NULL, or the reason why it is invalid, to end an
 * error message; then *out is unchanged. IPv6 addresses, and only these, need brackets: otherwise
 * their last group could be read as a port. */
const char *tt_hostport_parse(struct tt_hostport *out, const char *text, size_t bytes);

/* Parses a port range such as "40000-40007", each port from 1 to 65535. Returns false if it is
 * invalid; *first and *last are then unchanged. */
bool tt_ports_parse(uint16_t *first, uint16_t *last, const char *text);

#endif
