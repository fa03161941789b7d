/* What the verbs wire writes into a peer's memory or tells it: immediates, records, greetings of links, hellos of queue pairs, and the blobs of
 * addresses and keys. Pure: bytes in, values out. All of it may come from a broken peer, so each reader checks all of it. */
#ifndef TT_WIRE_VERBS_FRAME_H
#define TT_WIRE_VERBS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "wire/dqplb.h"
#include "wire/wire.h"

#define TT_VERBS_STREAMS 2          /* of messages, each in order */
#define TT_VERBS_DATA_LANES TT_DQPLB_LANES_MAX
#define TT_VERBS_LANES (1 + TT_VERBS_DATA_LANES)    /* at most; the first is that of urgent messages */
#define TT_VERBS_RAILS 2            /* devices that a process uses, at most: keys have room for so many */
#define TT_VERBS_WINDOW 256u        /* segments of a stream that the receiver has not told to be applied */

/* ---- the 32 bits that come with a write: dqplb.h, and one of ours ----
 *
 *   0-23 sequence number of the segment, wraps     24 of which stream (ACK)     29 ACK     30 FAST     31 NOTIFY */
#define TT_IMM_STREAM_SHIFT 24
#define TT_IMM_ACK (1u << 29)   /* no segment: all segments before the number have been applied */

/* ---- records: the end of a message ---- */

#define TT_VERBS_RECORD_BYTES 64
#define TT_VERBS_SLOT_BYTES 256     /* a record, and behind it the bytes of a put that has few */
#define TT_VERBS_PAYLOAD_BYTES (TT_VERBS_SLOT_BYTES - TT_VERBS_RECORD_BYTES)

enum tt_verbs_kind { TT_VERBS_PUT = 1, TT_VERBS_VOID /* only its number counts */ };
enum { TT_VERBS_WANT_ACK = 1u << 0 };

/* A slot's byte behind a record without payload: TT_VERBS_VOID says that the message is void, whatever the record says, which may have come before
 * the message became so. It comes with each segment of a void message but the last, and the receiver clears it when it has applied the message. */
#define TT_VERBS_MARK_AT TT_VERBS_RECORD_BYTES

struct tt_verbs_record {
    uint8_t kind;               /* enum tt_verbs_kind */
    uint8_t signal_op;          /* enum tt_signal_op */
    uint8_t flags;
    uint8_t payload;            /* bytes behind the record: all of the put's, or 0, and they were written to their place before */
    uint32_t region, generation;
    uint64_t offset, bytes;
    uint32_t signal_region, signal_generation;
    uint64_t signal_offset, signal_value;
    uint32_t applied[TT_VERBS_STREAMS]; /* low bits: all before these of the other direction's segments the sender has applied */
};

void tt_verbs_record_write(const struct tt_verbs_record *r, uint8_t out[TT_VERBS_RECORD_BYTES]);
/* False, and *r undefined, if no honest peer can have written it. */
bool tt_verbs_record_read(struct tt_verbs_record *r, const uint8_t in[TT_VERBS_RECORD_BYTES]);
/* Changes one that is written: what was applied; that it is void. */
void tt_verbs_record_stamp(uint8_t record[TT_VERBS_RECORD_BYTES], const uint64_t applied[TT_VERBS_STREAMS]);
void tt_verbs_record_void(uint8_t record[TT_VERBS_RECORD_BYTES]);

/* ---- the greeting: what one end of a link has, once ---- */

#define TT_VERBS_GREETING_BYTES 48

struct tt_verbs_greeting {
    uint8_t rails;              /* 1..TT_VERBS_RAILS */
    uint8_t data_lanes;         /* 1..TT_VERBS_DATA_LANES that it would have; both have the lesser number */
    uint64_t link_address, link_bytes;  /* its link region */
    uint64_t ring[TT_VERBS_STREAMS];    /* addresses of the slots for records */
    uint32_t rkey[TT_VERBS_RAILS];      /* of link region and rings; of rails that it has not, 0 */
};

void tt_verbs_greeting_write(const struct tt_verbs_greeting *g, uint8_t out[TT_VERBS_GREETING_BYTES]);
bool tt_verbs_greeting_read(struct tt_verbs_greeting *g, const uint8_t in[TT_VERBS_GREETING_BYTES]);

/* ---- the hello: one end's queue pair of a lane, and what has come in the lane's stream ---- */

#define TT_VERBS_REPORT_BYTES TT_DQPLB_REPORT_BYTES(TT_VERBS_WINDOW)
#define TT_VERBS_HELLO_BYTES 80

struct tt_verbs_hello {
    uint32_t incarnation;       /* of the lane, from 1 */
    uint32_t qp, psn;           /* 24 bits each; qp 0: it can have none now */
    uint8_t mtu;                /* as enum ibv_mtu: 1 to 5 for 256 to 4096 bytes */
    uint16_t lid;
    uint8_t gid[16];
    uint8_t report[TT_VERBS_REPORT_BYTES];  /* of the stream's receiver, made when nothing more could come on this lane: tt_dqplb_report */
};

void tt_verbs_hello_write(const struct tt_verbs_hello *h, uint8_t out[TT_VERBS_HELLO_BYTES]);
bool tt_verbs_hello_read(struct tt_verbs_hello *h, const uint8_t in[TT_VERBS_HELLO_BYTES]);

/* ---- addresses and keys ---- */

#define TT_VERBS_ADDRESS_HEAD_BYTES 11

struct tt_verbs_address {
    bool infiniband;            /* else Ethernet (RoCE) */
    uint64_t subnet;            /* InfiniBand: the prefix of its subnet, which is all it reaches */
    struct tt_blob tcp;         /* where the tcp wire greets; at most TT_BLOB_BYTES - TT_VERBS_ADDRESS_HEAD_BYTES */
};

void tt_verbs_address_write(const struct tt_verbs_address *a, struct tt_blob *out);
bool tt_verbs_address_read(struct tt_verbs_address *a, const struct tt_blob *blob);

#define TT_VERBS_REGIONS_MAX (1u << 24)

struct tt_verbs_key {
    uint32_t region, generation;        /* region: below TT_VERBS_REGIONS_MAX */
    uint32_t rkey[TT_VERBS_RAILS];
    uint64_t address, bytes;            /* below 2^56 and 2^48, as addresses of programs are */
};

void tt_verbs_key_write(const struct tt_verbs_key *k, struct tt_blob *out);
bool tt_verbs_key_read(struct tt_verbs_key *k, const struct tt_blob *blob);

#endif
