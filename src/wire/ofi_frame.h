/* What the ofi wire sends a peer or tells it: records, the hello of endpoints, and the blobs of addresses and keys. Pure: bytes in, values out.
 * All of it may come from a broken peer, and records from anybody who finds the endpoint, so each reader checks all of it. */
#ifndef TT_WIRE_OFI_FRAME_H
#define TT_WIRE_OFI_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "wire/dqplb_lanes.h"
#include "wire/wire.h"

#define TT_OFI_LANES 2
#define TT_OFI_ENDS_MAX TT_DQPLB_LANES_MAX  /* endpoints of a lane */

/* ---- records: messages between endpoints ---- */

#define TT_OFI_RECORD_BYTES 80
#define TT_OFI_SLOT_BYTES 2048      /* a record, and behind it the bytes of a put that has few */
#define TT_OFI_PAYLOAD_BYTES (TT_OFI_SLOT_BYTES - TT_OFI_RECORD_BYTES)
#define TT_OFI_ASKS 16              /* messages per lane that may have asked, and are not applied */

enum tt_ofi_kind {
    TT_OFI_PUT = 1,         /* the last of a message: its bytes are behind it, or in their place */
    TT_OFI_VOID,            /* the last of a message that is dropped: only its number counts */
    TT_OFI_ASK,             /* may this message's bytes be written there? */
    TT_OFI_ANSWER,          /* to an ask of the other end's */
    TT_OFI_ACK              /* only `applied` counts */
};
enum {
    TT_OFI_WANT_ACK = 1u << 0,
    TT_OFI_YES = 1u << 1    /* ANSWER: where, is in it */
};

struct tt_ofi_record {
    uint64_t token;         /* of the receiver's endpoints: who does not know it is a stranger */
    uint8_t kind;           /* enum tt_ofi_kind */
    uint8_t signal_op;      /* enum tt_signal_op */
    uint8_t flags;
    uint8_t lane;           /* ANSWER: of the message */
    uint32_t number;        /* of the message: low bits */
    uint16_t payload;       /* bytes behind the record: all of the put's, or 0 */
    uint32_t applied[TT_OFI_LANES]; /* low bits: as many of the other direction's messages as the sender has applied, per lane */
    uint32_t region, generation;
    uint64_t offset, bytes; /* ANSWER: address and key by which to write */
    uint32_t signal_region, signal_generation;
    uint64_t signal_offset, signal_value;
};

void tt_ofi_record_write(const struct tt_ofi_record *r, uint8_t out[TT_OFI_RECORD_BYTES]);
/* Of bytes[] that have come, payload included. False, and *r undefined, if no honest peer can have sent it. */
bool tt_ofi_record_read(struct tt_ofi_record *r, const uint8_t *in, size_t bytes);
/* Changes one that is written: whom it is for and what was applied; that it is void, or asks. */
void tt_ofi_record_stamp(uint8_t record[TT_OFI_RECORD_BYTES], uint64_t token, const uint64_t applied[TT_OFI_LANES]);
void tt_ofi_record_void(uint8_t record[TT_OFI_RECORD_BYTES]);
void tt_ofi_record_ask(uint8_t record[TT_OFI_RECORD_BYTES]);

/* ---- the hello: one end's endpoints ---- */

#define TT_OFI_NAME_BYTES 256       /* of an endpoint, in the provider's own format, at most */
#define TT_OFI_HELLO_BYTES 1984
#define TT_OFI_MORE_BYTES 1396      /* of it for further endpoints: their names, each with two bytes before it */

struct tt_ofi_name {
    uint16_t bytes;
    uint8_t data[TT_OFI_NAME_BYTES + 1];    /* one that was read ends with a zero: shm takes it as a string */
};

struct tt_ofi_hello_lane {
    uint64_t applied;       /* messages of the other end that were, on earlier endpoints */
    uint64_t key;           /* of its link region, on this lane */
    struct tt_ofi_name name;
};

struct tt_ofi_hello {
    uint32_t incarnation;   /* of the link's endpoints, from 1 */
    uint64_t token;         /* records to these endpoints have it */
    uint64_t link_address, link_bytes;  /* its link region */
    struct tt_ofi_hello_lane lanes[TT_OFI_LANES];
    uint8_t nmore;
    struct tt_ofi_name more[TT_OFI_ENDS_MAX - 1];   /* [nmore] further endpoints of the data lane, in TT_OFI_MORE_BYTES */
};

void tt_ofi_hello_write(const struct tt_ofi_hello *h, uint8_t out[TT_OFI_HELLO_BYTES]);
bool tt_ofi_hello_read(struct tt_ofi_hello *h, const uint8_t in[TT_OFI_HELLO_BYTES]);

/* ---- addresses and keys ---- */

#define TT_OFI_PROVIDER_BYTES 32    /* of a provider's name, with a zero behind it; a longer one is cut, at both ends alike */

struct tt_ofi_address {
    uint64_t host;          /* 0: reached from other hosts, too; else only from this one */
    uint32_t format;        /* of the provider's addresses, in libfabric's numbers */
    char provider[TT_OFI_PROVIDER_BYTES];   /* printable, without spaces, and not empty */
    struct tt_blob tcp;     /* where the tcp wire greets; at most tt_ofi_address_room bytes */
};

/* What there is for tcp beside the rest. */
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
