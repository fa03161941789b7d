/* What the verbs wire writes into a peer's memory or tells it: immediates, records, the hello of queue pairs, and the blobs of addresses and
 * keys. Pure: bytes in, values out. All of it may come from a broken peer, so each reader checks all of it. */
#ifndef TT_WIRE_VERBS_FRAME_H
#define TT_WIRE_VERBS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "wire/wire.h"

#define TT_VERBS_LANES 2

/* ---- the 32 bits that come with a write: as in "Collective Communication for 100k+ GPUs" (2025), section 4.4, and one of ours ----
 *
 *   0-23 sequence number, wraps     24 of which lane (ACK)     29 ACK     30 FAST     31 NOTIFY */
#define TT_IMM_SEQUENCES (1u << 24)
#define TT_IMM_LANE_SHIFT 24
enum {
    TT_IMM_ACK = 1u << 29,      /* no segment: all messages before the sequence number have been applied */
    TT_IMM_FAST = 1u << 30,     /* the message is this one write */
    TT_IMM_NOTIFY = 1u << 31    /* of a message's last segment */
};

static inline uint32_t tt_imm_sequence(uint64_t number)
{
    return (uint32_t)number & (TT_IMM_SEQUENCES - 1);
}

/* How far the number with these 24 bits is ahead of `near`; negative: behind. Valid while it is less than half the space away. */
static inline int32_t tt_imm_ahead(uint64_t near, uint32_t imm)
{
    const uint32_t ahead = tt_imm_sequence(tt_imm_sequence(imm) - near);

    return ahead < TT_IMM_SEQUENCES / 2 ? (int32_t)ahead : (int32_t)ahead - (int32_t)TT_IMM_SEQUENCES;
}

/* ---- records: a message's last segment ---- */

#define TT_VERBS_RECORD_BYTES 64
#define TT_VERBS_SLOT_BYTES 256     /* a record, and behind it the bytes of a put that has few */
#define TT_VERBS_PAYLOAD_BYTES (TT_VERBS_SLOT_BYTES - TT_VERBS_RECORD_BYTES)

enum tt_verbs_kind { TT_VERBS_PUT = 1, TT_VERBS_VOID /* only its number counts */ };
enum { TT_VERBS_WANT_ACK = 1u << 0 };

struct tt_verbs_record {
    uint8_t kind;               /* enum tt_verbs_kind */
    uint8_t signal_op;          /* enum tt_signal_op */
    uint8_t flags;
    uint8_t payload;            /* bytes behind the record: all of the put's, or 0, and they were written to their place before */
    uint32_t region, generation;
    uint64_t offset, bytes;
    uint32_t signal_region, signal_generation;
    uint64_t signal_offset, signal_value;
    uint32_t applied[TT_VERBS_LANES];   /* low bits: as many of the other direction's messages as the sender has applied, per lane */
};

void tt_verbs_record_write(const struct tt_verbs_record *r, uint8_t out[TT_VERBS_RECORD_BYTES]);
/* False, and *r undefined, if no honest peer can have written it. */
bool tt_verbs_record_read(struct tt_verbs_record *r, const uint8_t in[TT_VERBS_RECORD_BYTES]);
/* Changes one that is written: what was applied; that it is void. */
void tt_verbs_record_stamp(uint8_t record[TT_VERBS_RECORD_BYTES], const uint64_t applied[TT_VERBS_LANES]);
void tt_verbs_record_void(uint8_t record[TT_VERBS_RECORD_BYTES]);

/* ---- the hello: one end's queue pairs ---- */

#define TT_VERBS_HELLO_BYTES 192

struct tt_verbs_hello_lane {
    uint32_t qp, psn;           /* 24 bits each */
    uint64_t applied;           /* messages of the other end that were, on earlier queue pairs */
    uint64_t ring;              /* address of the slots for its records */
};

struct tt_verbs_hello {
    uint32_t incarnation;       /* of the link's queue pairs, from 1 */
    uint8_t mtu;                /* as enum ibv_mtu: 1 to 5 for 256 to 4096 bytes */
    uint16_t lid;
    uint8_t gid[16];
    uint64_t link_address, link_bytes;  /* its link region */
    uint32_t rkey;              /* of link region and rings */
    struct tt_verbs_hello_lane lanes[TT_VERBS_LANES];
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

struct tt_verbs_key {
    uint32_t region, generation, rkey;
    uint64_t address, bytes;
};

void tt_verbs_key_write(const struct tt_verbs_key *k, struct tt_blob *out);
bool tt_verbs_key_read(struct tt_verbs_key *k, const struct tt_blob *blob);

#endif
