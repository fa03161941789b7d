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
#include "wire/rput/rput_frame.h"
#include "wire/wire.h"

#define TT_OFI_ENDS_MAX TT_DQPLB_LANES_MAX  /* maximum endpoints of a lane */

/* ---- records: messages between endpoints ---- */

/* token, number, and the record (rput_frame.h) */
#define TT_OFI_HEAD_BYTES 16
#define TT_OFI_RECORD_BYTES (TT_OFI_HEAD_BYTES + TT_RPUT_RECORD_BYTES)
#define TT_OFI_SLOT_BYTES 2048      /* a record and the payload of a short put */
#define TT_OFI_PAYLOAD_BYTES (TT_OFI_SLOT_BYTES - TT_OFI_RECORD_BYTES)
#define TT_OFI_RTS_MAX 16              /* messages per lane with RTS that are not applied */

struct tt_ofi_record {
    uint64_t token;         /* of the receiver's endpoints; records without it are dropped */
    uint32_t number;        /* low bits of the message number */
    struct tt_rput_record put;
};

void tt_ofi_record_write(const struct tt_ofi_record *r, uint8_t out[TT_OFI_RECORD_BYTES]);
/* Parses in[bytes], payload included. Returns false, with *r undefined, if a correct peer cannot
 * have sent it. */
bool tt_ofi_record_read(struct tt_ofi_record *r, const uint8_t *in, size_t bytes);
/* Change a written record: its token and applied counts; its kind. */
void tt_ofi_record_stamp(uint8_t record[TT_OFI_RECORD_BYTES], uint64_t token,
                         const uint64_t applied[TT_RPUT_STREAMS]);
void tt_ofi_record_become(uint8_t record[TT_OFI_RECORD_BYTES], enum tt_rput_kind kind);

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
    struct tt_ofi_hello_lane lanes[TT_RPUT_STREAMS];
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
    uint64_t host;          /* id of the only host that can reach it; 0: any host can */
    uint32_t format;        /* address format of the provider, as a number of libfabric */
    char provider[TT_OFI_PROVIDER_BYTES];   /* printable, without spaces, not empty */
    struct tt_blob tcp;     /* address of the inner tcp wire, at most tt_ofi_address_room bytes */
};

/* Returns the space for `tcp`. */
size_t tt_ofi_address_room(const struct tt_ofi_address *a);

void tt_ofi_address_write(const struct tt_ofi_address *a, struct tt_blob *out);
bool tt_ofi_address_read(struct tt_ofi_address *a, const struct tt_blob *blob);

#define TT_OFI_KEY_MAGIC 0x4b4fu    /* "OK" */

#endif
