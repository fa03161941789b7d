/* Listening addresses of a process, as sent to other processes, and the sockets for them. */
#ifndef TT_BOOT_ENDPOINT_H
#define TT_BOOT_ENDPOINT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include "base/acceptor.h"
#include "base/bytes.h"
#include "tutti/tutti.h"

#define TT_ENDPOINT_ADDRS 4
#define TT_ENDPOINT_BYTES (8 + 2 + 1 + TT_ENDPOINT_ADDRS * 18)     /* maximum encoded size */
#define TT_ADDRESS_TEXT_BYTES 64

struct tt_endpoint {
    uint64_t host;                  /* tt_host_hash: equal for two processes that can connect
                                       over loopback */
    uint16_t port;
    uint8_t naddrs;
    struct {
        uint8_t family;             /* 4 or 6 */
        uint8_t prefix_bits;
        uint8_t bytes[16];
    } addrs[TT_ENDPOINT_ADDRS];
};

/* A socket address as a value. */
struct tt_address {
    struct sockaddr_storage storage;
    socklen_t bytes;
};

/* Describes a listener at `port` on the interfaces that `rule` allows. */
tutti_status tt_endpoint_init(struct tt_endpoint *out, uint16_t port, const char *rule);
void tt_endpoint_write(struct tt_writer *w, const struct tt_endpoint *e);
/* Sets r->bad if the encoding is invalid. */
void tt_endpoint_read(struct tt_reader *r, struct tt_endpoint *out);
/* Lists the addresses at which `own` should try to reach `peer`, in order: loopback if the hosts
 * seem equal, then addresses in a common subnet, then others. A link-local address is listed once
 * for each interface of this host. Fills out[1 + TT_ENDPOINT_ADDRS] and returns the count, which
 * may be 0. */
size_t tt_endpoint_candidates(const struct tt_endpoint *own, const struct tt_endpoint *peer,
                              struct tt_address *out);

/* Removes loopback addresses, which are invalid on another host. */
void tt_endpoint_without_loopback(struct tt_endpoint *e);

/* Returns the number of leading candidates that are on the same host or in a common subnet. */
size_t tt_endpoint_near(const struct tt_endpoint *own, const struct tt_endpoint *peer);

/* "192.0.2.7:4000", "[2001:db8::7]:4000". */
void tt_address_text(const struct tt_address *a, char out[TT_ADDRESS_TEXT_BYTES]);

/* Opens a non-blocking listener on `a`, or if `a` is NULL on every IPv4 and IPv6 address of this
 * host. port 0: the kernel chooses. Returns the descriptor, and its port in *port_out; or -1 and
 * errno. */
int tt_listen(const struct tt_address *a, uint16_t port, uint16_t *port_out);
/* Accepts one connection; see tt_acceptor_take. */
int tt_accept(struct tt_acceptor *acceptor);
/* Starts to connect. Returns a non-blocking descriptor that becomes writable with the result, or -1
 * and errno. */
int tt_connect_begin(const struct tt_address *a);
/* Returns 0, or the errno of the failed attempt. */
int tt_connect_result(int fd);

#endif
