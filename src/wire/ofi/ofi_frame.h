/* Formats of the ofi transport: records, the hello of endpoints, addresses and keys. Pure. Input
 * may be from a faulty peer, and records from any process that finds the endpoint, so each reader
 * validates all of it. */
#ifndef TT_WIRE_OFI_FRAME_H
#define TT_WIRE_OFI_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "wire/dqplb_lanes.h"
#include "wire/wire.h"

#define TT_OFI_LANES 2
#define TT_OFI_ENDS_MAX TT_DQPLB_LANES_MAX  /* maximum endpoints of a lane */

/* ---- records: messages between endpoints ---- */

#define TT_OFI_RECORD_BYTES 80
#define TT_OFI_SLOT_BYTES 2048      /* a record and the payload of a short put */
#define TT_OFI_PAYLOAD_BYTES (TT_OFI_SLOT_BYTES - TT_OFI_RECORD_BYTES)
#define TT_OFI_RTS_MAX 16              /* messages per lane with RTS that are not applied */

enum tt_ofi_kind {
    TT_OFI_PUT = 1,         /* end of a message: its payload follows, or was written before */
    TT_OFI_VOID,            /* end of a dropped message: only its number counts */
    TT_OFI_RTS,             /* RTS: requests an address for this message's bytes */
    TT_OFI_CTS,          /* CTS: the response to an RTS */
    TT_OFI_ACK              /* only `applied` counts */
};
enum {
    TT_OFI_WANT_ACK = 1u << 0,
    TT_OFI_YES = 1u << 1    /* ANSWER: granted, with address and key */
};

struct tt_ofi_record {
    uint64_t token;         /* of the receiver's endpoints; records without it are dropped */
    uint8_t kind;           /* enum tt_ofi_kind */
    uint8_t signal_op;      /* enum tt_signal_op */
    uint8_t flags;
    uint8_t lane;           /* ANSWER: lane of the message */
    uint32_t number;        /* low bits of the message number */
    uint16_t payload;       /* bytes after the record: the whole put, or 0 */
    uint32_t applied[TT_OFI_LANES]; /* low bits of the number of messages in the other direction
                                       that the sender has applied, per lane */
    uint32_t region, generation;
    uint64_t offset, bytes; /* ANSWER: address and key to write to */
    uint32_t signal_region, signal_generation;
    uint64_t signal_offset, signal_value;
};

void tt_ofi_record_write(const struct tt_ofi_record *r, uint8_t out[TT_OFI_RECORD_BYTES]);
/* Parses in[bytes], payload included. Returns false, with *r undefined, if a correct peer cannot
 * have sent it. */
bool tt_ofi_record_read(struct tt_ofi_record *r, const uint8_t *in, size_t bytes);
/* Change a written record: set token and applied counts; make it void; make it an RTS. */
void tt_ofi_record_stamp(uint8_t record[TT_OFI_RECORD_BYTES], uint64_t token,
                         const uint64_t applied[TT_OFI_LANES]);
void tt_ofi_record_void(uint8_t record[TT_OFI_RECORD_BYTES]);
void tt_ofi_record_rts(uint8_t record[TT_OFI_RECORD_BYTES]);

/* ---- hello: the endpoints of one end ---- */

/* maximum length of an endpoint's name, in the provider's format */
#define TT_OFI_NAME_BYTES 256
#define TT_OFI_HELLO_BYTES 1984
/* part of the hello for further endpoints: their names, each with a two-byte length */
#define TT_OFI_MORE_BYTES 1396

struct tt_ofi_name {
    uint16_t bytes;
    uint8_t data[TT_OFI_NAME_BYTES + 1];    /* NUL-terminated when read, as the provider shm
                                               needs a string */
};

struct tt_ofi_hello_lane {
    uint64_t applied;       /* messages of the other end applied on earlier endpoints */
    uint64_t key;           /* of its link region, on this lane */
    struct tt_ofi_name name;
};

struct tt_ofi_hello {
    uint32_t incarnation;   /* of the link's endpoints, from 1 */
    uint64_t token;         /* required in records to these endpoints */
    uint64_t link_address, link_bytes;  /* link region of the sender */
    struct tt_ofi_hello_lane lanes[TT_OFI_LANES];
    uint8_t nmore;
    struct tt_ofi_name more[TT_OFI_ENDS_MAX - 1];   /* [nmore], further endpoints of the data
                                                       lane, in TT_OFI_MORE_BYTES */
};

void tt_ofi_hello_write(const struct tt_ofi_hello *h, uint8_t out[TT_OFI_HELLO_BYTES]);
bool tt_ofi_hello_read(struct tt_ofi_hello *h, const uint8_t in[TT_OFI_HELLO_BYTES]);

/* ---- addresses and keys ---- */

/* maximum length of a provider's name with NUL; longer names are truncated at both ends */
#define TT_OFI_PROVIDER_BYTES 32

struct tt_ofi_address {
    uint64_t host;          /* 0: reachable from other hosts; else only from this one */
    uint32_t format;        /* address format of the provider, as a number of libfabric */
    char provider[TT_OFI_PROVIDER_BYTES];   /* printable, without spaces, not empty */
    struct tt_blob tcp;     /* address of the inner tcp wire, at most tt_ofi_address_room bytes */
};

/* Returns the space for `tcp`. */
size_t tt_ofi_address_room(const struct tt_ofi_address *a);

void tt_ofi_address_write(const struct tt_ofi_address *a, struct tt_blob *out);
bool tt_ofi_address_read(struct tt_ofi_address *a, const struct tt_blob *blob);

struct tt_ofi_key {
    uint32_t region, generation;
    uint64_t bytes;
};

void tt_ofi_key_write(const struct tt_ofi_key *k, struct tt_blob *out);
bool tt_ofi_key_read(struct tt_ofi_key *k, const struct tt_blob *blob);

#endif
