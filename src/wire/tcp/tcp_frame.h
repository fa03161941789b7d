/* Formats of the tcp transport: frames, the handshake, addresses, keys. Pure. All input may be from
 * an unauthenticated or faulty peer, so each reader validates it. */
#ifndef TT_WIRE_TCP_FRAME_H
#define TT_WIRE_TCP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "wire/dqplb.h"

/* ---- frames: a header of one cache line, then the payload ---- */

#define TT_FRAME_BYTES 64

enum tt_frame_kind {
    TT_FRAME_PUT = 1,   /* payload for region + offset, then the signal */
    TT_FRAME_VOID,      /* a put whose source was revoked before it was sent; only its sequence
                           number is used */
    TT_FRAME_ACK,       /* all messages before the number `word` have arrived */
    TT_FRAME_GET,       /* requests `bytes` bytes at region + offset */
    TT_FRAME_GOT,       /* response to the get `token`; with TT_FRAME_GONE: the region does not
                           exist, no payload */
    TT_FRAME_ATOMIC,    /* adds `bytes` to the word at region + offset, then the signal */
    TT_FRAME_OLD,       /* response to the atomic `token`: `bytes` is the old value */
    TT_FRAME_BYE,       /* last frame of a connection that closes in order */
    TT_FRAME_LANES,     /* requests from the link's initiator all lanes with an index below
                           `token` */
    TT_FRAME_READY,     /* first frame to the initiator on a lane after the first: this end has the
                           lane, so data may be sent on it */
    TT_FRAME_KINDS
};

enum {
    TT_FRAME_WANT_ACK = 1u << 0,
    TT_FRAME_FENCED = 1u << 1,  /* the signal, or the get, waits until all messages before
                                   `after` have arrived */
    TT_FRAME_GONE = 1u << 2,
    TT_FRAME_FLAGS = 7
};

struct tt_frame {
    uint8_t kind, flags;
    uint8_t signal_op;          /* enum tt_signal_op */
    uint32_t word;              /* put, void, atomic: sequence number of the message, in the format
                                   of dqplb.h for a message of one segment */
    uint32_t after;             /* a number, as in a word */
    uint32_t region, generation;
    uint32_t signal_region, signal_generation;
    uint32_t token;             /* of a get or atomic */
    uint64_t offset, bytes;
    uint64_t signal_offset, signal_value;
};

/* Writes the header of *f. */
void tt_frame_write(const struct tt_frame *f, uint8_t header[TT_FRAME_BYTES]);
/* Parses a header. Returns false, with *f undefined, if a correct peer cannot have sent it. */
bool tt_frame_read(struct tt_frame *f, const uint8_t header[TT_FRAME_BYTES]);
/* Returns the number of bytes that follow the header. */
uint64_t tt_frame_payload(const struct tt_frame *f);

/* ---- the handshake: HELLO, WELCOME, CONFIRM, each of one fixed size ---- */

#define TT_HELLO_BYTES 64

enum tt_hello_kind { TT_HELLO = 1, TT_WELCOME, TT_CONFIRM };

struct tt_hello {
    uint8_t kind;
    uint16_t lane;              /* index of this connection among the link's lanes */
    uint16_t lanes;             /* number of lanes that the sender offers */
    uint32_t from, to, nranks;
    uint64_t nonce;             /* of the link, chosen by its initiator; other messages repeat it */
    uint64_t link_bytes;        /* of the sender's link region */
};

void tt_hello_write(const struct tt_hello *h, const uint8_t secret[16],
                    uint8_t out[TT_HELLO_BYTES]);
/* Returns false, with *h undefined, unless protocol, version and secret match. The time does not
 * depend on which bytes of the secret are wrong. */
bool tt_hello_read(struct tt_hello *h, const uint8_t secret[16], const uint8_t in[TT_HELLO_BYTES]);

/* ---- addresses and keys ---- */

#define TT_TCP_ENDPOINTS 16     /* up to the capacity of a blob: 6 of IPv6, 21 of IPv4 */

struct tt_tcp_endpoint {
    uint8_t family;             /* 4 or 6 */
    uint8_t ip[16];             /* network order; 4 bytes used by family 4 */
};

struct tt_tcp_address {
    uint64_t host;              /* equal if loopback connects them: same machine, same network
                                   namespace */
    uint16_t port;
    uint8_t count;
    uint8_t rails;              /* the first endpoints are the rails, in their order */
    uint8_t outside;            /* 1 + index of an external endpoint that forwards the same port;
                                   0: none */
    struct tt_tcp_endpoint endpoints[TT_TCP_ENDPOINTS];
};

/* Adds an endpoint, unless it is present or does not fit. */
void tt_tcp_address_add(struct tt_tcp_address *a, uint8_t family, const uint8_t *ip);
void tt_tcp_address_write(const struct tt_tcp_address *a, struct tt_blob *out);
/* Removes endpoints from a valid address until it fits bytes_max, which must suffice for one. */
void tt_tcp_address_shorten(struct tt_blob *address, size_t bytes_max);
/* Returns false if the blob is not an address of this wire. */
bool tt_tcp_address_read(struct tt_tcp_address *a, const struct tt_blob *blob);

#define TT_TCP_KEY_MAGIC 0x4b54u    /* "TK" */

#endif
