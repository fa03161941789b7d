/* Addresses on which a coordinator listens. "192.0.2.7:4000", "[2001:db8::7]:4000", "name:4000"
 * (each address of that name), ":4000" or "*:4000" (every address of this host, IPv4 and IPv6).
 * Port 0: selected by the kernel, the same for all addresses of the text. */
#ifndef TT_COORDINATOR_LISTEN_H
#define TT_COORDINATOR_LISTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "tutti/tutti.h"

#define TT_LISTEN_TEXT_BYTES 64
#define TT_LISTEN_MAX 16u

struct tt_listener {
    int fd;                             /* non-blocking, closed on exec */
    bool loopback;                      /* reachable from this host only */
    char text[TT_LISTEN_TEXT_BYTES];    /* the address, with its actual port */
};

/* The options that set such a text, for messages. */
#define TT_LISTEN_FOR_MEMBERS "--listen; tutti_coordinator_conf.listen"
#define TT_LISTEN_FOR_HTTP "--http; tutti_coordinator_conf.http"

/* Listens on the addresses of `text`: fills out[max]; *n is the number of sockets. Errors: INVALID,
 * SYSTEM, or TIMEOUT (no response of name servers within TUTTI_TIMEOUT_MS); the message contains
 * the text, its option, and the cause. On error all sockets are closed. */
tutti_status tt_listen_open(struct tt_listener *out, uint32_t max, uint32_t *n, const char *text,
                            const char *given);
/* Checks `text` without listening; *loopback: reachable from this host only. INVALID as above;
 * SYSTEM: a name cannot be resolved now. */
tutti_status tt_listen_check(const char *text, const char *given, bool *loopback);
/* Prints "[2001:db8::7]:4000"; an IPv4 address from an IPv6 socket as IPv4. */
void tt_listen_text(const struct sockaddr_storage *at, char out[TT_LISTEN_TEXT_BYTES]);
/* Returns the address for rate limits: 16 bytes, an IPv4 address, or the /64 of an IPv6 address. */
void tt_listen_origin(const struct sockaddr_storage *at, uint8_t out[16]);

#endif
