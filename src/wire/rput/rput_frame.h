/* Formats that network transports share. Pure. Input may be from a faulty peer, so each reader
 * validates all of it. */
#ifndef TT_WIRE_RPUT_RPUT_FRAME_H
#define TT_WIRE_RPUT_RPUT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "wire/wire.h"

/* ---- keys of regions that peers name by region and offset ---- */

struct tt_rput_key {
    uint32_t region, generation;
    uint64_t bytes;
};

/* magic: differs between transports, so that a key of another one is refused. */
void tt_rput_key_write(const struct tt_rput_key *k, uint16_t magic, struct tt_blob *out);
bool tt_rput_key_read(struct tt_rput_key *k, uint16_t magic, const struct tt_blob *blob);

/* Memory as a peer names it. */
struct tt_rput_target {
    uint32_t region, generation;    /* region 0: the link region */
    uint64_t offset, bytes;
};

/* ---- records: messages of a link, each the end of a put unless its kind says otherwise ---- */

#define TT_RPUT_STREAMS \
    2 /* streams of messages of a link, each ordered: control for
                                       urgent messages, data for all others */
#define TT_RPUT_RECORD_BYTES 64

enum { TT_RPUT_CONTROL, TT_RPUT_DATA };

enum tt_rput_kind {
    TT_RPUT_PUT = 1,                /* end of a message: its payload follows, or was written
                                       before */
    TT_RPUT_VOID,                   /* end of a dropped message: only its sequence number is used */
    TT_RPUT_RTS,                    /* RTS: requests an address for this message's bytes */
    TT_RPUT_CTS,                    /* CTS: the response to an RTS */
    TT_RPUT_ACK                     /* only `applied` is used */
};
enum {
    TT_RPUT_WANT_ACK = 1u << 0,
    TT_RPUT_YES = 1u << 1           /* CTS: granted, with address and key */
};

struct tt_rput_record {
    uint8_t kind;                   /* enum tt_rput_kind */
    uint8_t signal_op;              /* enum tt_signal_op */
    uint8_t flags;
    uint8_t stream;                 /* CTS: stream of the message */
    uint16_t payload;               /* bytes after the record: the whole put, or 0 */
    struct tt_rput_target data;     /* CTS: offset and bytes are address and key to write to */
    uint32_t signal_region, signal_generation;
    uint64_t signal_offset, signal_value;
    uint32_t applied[TT_RPUT_STREAMS];  /* low bits of the number of messages (verbs: segments) that
                                           the sender has applied of each opposite stream */
};

/* Describes a put; whole: the payload follows the record. */
static inline struct tt_rput_record tt_rput_record_of(const struct tt_desc *d, bool whole,
                                                      bool want_ack)
{
    struct tt_rput_record r = { .kind = TT_RPUT_PUT,
                                .signal_op = d->signal_op,
                                .flags = want_ack ? TT_RPUT_WANT_ACK : 0,
                                .payload = whole ? (uint16_t)d->bytes : 0 };

    if (d->bytes)
        r.data = (struct tt_rput_target){ .region = (uint32_t)d->key->handle[0],
                                          .generation = (uint32_t)d->key->handle[1],
                                          .offset = d->offset,
                                          .bytes = d->bytes };
    if (d->signal_op) {
        r.signal_region = (uint32_t)d->signal_key->handle[0];
        r.signal_generation = (uint32_t)d->signal_key->handle[1];
        r.signal_offset = d->signal_offset;
        r.signal_value = d->signal_value;
    }
    return r;
}

/* Writes out[TT_RPUT_RECORD_BYTES]. */
void tt_rput_record_write(const struct tt_rput_record *r, uint8_t *out);
/* Returns false, with *r undefined, if a correct peer cannot have sent it. kind_max: the last kind
 * that this transport uses; payload_max: its longest payload. */
bool tt_rput_record_read(struct tt_rput_record *r, const uint8_t in[TT_RPUT_RECORD_BYTES],
                         enum tt_rput_kind kind_max, uint16_t payload_max);
/* Change a written record: its kind; its applied counts. */
void tt_rput_record_become(uint8_t record[TT_RPUT_RECORD_BYTES], enum tt_rput_kind kind);
void tt_rput_record_stamp(uint8_t record[TT_RPUT_RECORD_BYTES],
                          const uint64_t applied[TT_RPUT_STREAMS]);

#endif
