/* Formats of the verbs transport: immediates, hellos of links and queue pairs, addresses
 * and keys. Pure. All input may be from a faulty peer, so each reader validates it. */
#ifndef TT_WIRE_VERBS_FRAME_H
#define TT_WIRE_VERBS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "wire/dqplb.h"
#include "wire/rput/rput_frame.h"
#include "wire/wire.h"

#define TT_VERBS_DATA_LANES TT_DQPLB_LANES_MAX
#define TT_VERBS_LANES (1 + TT_VERBS_DATA_LANES)    /* maximum; the first is that of control */
/* maximum devices of a process: keys have space for this number */
#define TT_VERBS_RAILS 2
#define TT_VERBS_WINDOW 256u        /* segments of a stream that are not acknowledged as applied */

/* ---- immediates: as in dqplb.h, plus ACK ----
 *
 *  0-23 sequence number of the segment, wraps   24 stream (ACK)   29 ACK   30 FAST   31 NOTIFY */
#define TT_IMM_STREAM_SHIFT 24
/* not a segment: all segments before the number have been applied */
#define TT_IMM_ACK (1u << 29)

/* ---- slots: records (rput_frame.h), of which this transport uses PUT and VOID ---- */

#define TT_VERBS_SLOT_BYTES 256     /* a record and the payload of a short put */
#define TT_VERBS_PAYLOAD_BYTES (TT_VERBS_SLOT_BYTES - TT_RPUT_RECORD_BYTES)

/* Byte after a record without payload. TT_RPUT_VOID marks the message as void, overriding a record
 * that may have arrived before the message became void. It is written with each segment of a void
 * message except the last. The receiver clears it when it has applied the message. */
#define TT_VERBS_MARK_AT TT_RPUT_RECORD_BYTES

/* ---- link hello: properties of one end of a link, sent once ---- */

#define TT_VERBS_LINK_HELLO_BYTES 48

struct tt_verbs_link_hello {
    uint8_t rails;              /* 1..TT_VERBS_RAILS */
    uint8_t data_lanes;         /* 1..TT_VERBS_DATA_LANES, offered; the lesser number is used */
    uint64_t link_address, link_bytes;  /* link region of the sender */
    uint64_t ring[TT_RPUT_STREAMS];    /* addresses of the slots for records */
    uint32_t rkey[TT_VERBS_RAILS];      /* of link region and rings; 0 for missing rails */
};

void tt_verbs_link_hello_write(const struct tt_verbs_link_hello *g,
                               uint8_t out[TT_VERBS_LINK_HELLO_BYTES]);
bool tt_verbs_link_hello_read(struct tt_verbs_link_hello *g,
                              const uint8_t in[TT_VERBS_LINK_HELLO_BYTES]);

/* ---- lane hello: a queue pair of one end, and what has arrived in its stream ---- */

#define TT_VERBS_REPORT_BYTES TT_DQPLB_REPORT_BYTES(TT_VERBS_WINDOW)
#define TT_VERBS_HELLO_BYTES 80

struct tt_verbs_hello {
    uint32_t incarnation;       /* of the lane, from 1 */
    uint32_t qp, psn;           /* 24 bits each; qp 0: none at present */
    uint8_t mtu;                /* as enum ibv_mtu: 1 to 5 for 256 to 4096 bytes */
    uint16_t lid;
    uint8_t gid[16];
    uint8_t report[TT_VERBS_REPORT_BYTES];  /* of the stream's receiver (tt_dqplb_report), made
                                               when nothing more could arrive on this lane */
};

void tt_verbs_hello_write(const struct tt_verbs_hello *h, uint8_t out[TT_VERBS_HELLO_BYTES]);
bool tt_verbs_hello_read(struct tt_verbs_hello *h, const uint8_t in[TT_VERBS_HELLO_BYTES]);

/* ---- addresses and keys ---- */

#define TT_VERBS_ADDRESS_HEAD_BYTES 11

struct tt_verbs_address {
    bool infiniband;            /* otherwise Ethernet (RoCE) */
    uint64_t subnet;            /* InfiniBand: prefix of its subnet; other subnets are
                                   unreachable */
    struct tt_blob tcp;         /* address of the inner tcp wire, at most TT_BLOB_BYTES -
                                   TT_VERBS_ADDRESS_HEAD_BYTES */
};

void tt_verbs_address_write(const struct tt_verbs_address *a, struct tt_blob *out);
bool tt_verbs_address_read(struct tt_verbs_address *a, const struct tt_blob *blob);

#define TT_VERBS_REGIONS_MAX (1u << 24)

struct tt_verbs_key {
    uint32_t region, generation;        /* region: below TT_VERBS_REGIONS_MAX */
    uint32_t rkey[TT_VERBS_RAILS];
    uint64_t address, bytes;            /* below 2^56 and 2^48, the limits of user addresses */
};

void tt_verbs_key_write(const struct tt_verbs_key *k, struct tt_blob *out);
bool tt_verbs_key_read(struct tt_verbs_key *k, const struct tt_blob *blob);

#endif
