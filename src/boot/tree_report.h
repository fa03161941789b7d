/* Contents of the frames of the start-up tree: reports of hosts, and proofs.
 * All parsers accept any bytes. */
#ifndef TT_BOOT_TREE_REPORT_H
#define TT_BOOT_TREE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "boot/auth.h"
#include "boot/endpoint.h"
#include "boot/record_table.h"

#define TT_TREE_SETTINGS_MAX 255        /* characters of the settings of a rank */
#define TT_TREE_CAUSE_MAX 447           /* characters of the cause for which a rank cannot start */
#define TT_TREE_SECRET_BYTES 16
#define TT_TREE_CONSTANTS_MAX 1024
#define TT_TREE_PLACE_MAX 240           /* maximum size of the place of a rank (tree_layout.h) */
#define TT_TREE_NONE UINT32_MAX

/* An encoded struct tt_endpoint, opaque here. */
struct tt_tree_address {
    uint8_t bytes, data[TT_ENDPOINT_BYTES];
};

/* A rank of a host at its leader. */
struct tt_tree_seat {
    uint32_t rank, tag;             /* tag: 32-bit hash of tt_tree_conf.process */
    bool live, undone;              /* undone: lost without DONE */
    uint8_t settings_bytes;
    uint8_t status;                 /* of a rank that cannot start; else TUTTI_OK */
    char settings[TT_TREE_SETTINGS_MAX];
    struct tt_tree_address address;
    uint8_t place_bytes, place[TT_TREE_PLACE_MAX];      /* in its host; 0 bytes: none */
    uint16_t card_bytes, constants_bytes;
    const uint8_t *card;            /* [card_bytes]; this and the next are owned by the leader's
                                       node; NULL: none */
    const uint8_t *constants;       /* [constants_bytes]; of rank 0 */
    const char *cause;              /* cannot start: why */
};

/* A rank that cannot start, and why. */
struct tt_tree_refusal {
    uint32_t rank;
    uint8_t status;                 /* TUTTI_OK: there is none */
    char cause[TT_TREE_CAUSE_MAX + 1];
};

/* Consecutive ranks of one host with equal settings. */
struct tt_tree_run {
    uint32_t first, count;
    const uint8_t *settings;        /* [settings_bytes]; text that must be equal on all ranks */
    uint8_t settings_bytes;
    struct tt_tree_address before, after;   /* in a report: of the first and of the last rank */
    const uint8_t *tags;            /* [count], little-endian 32 bits each */
    const uint8_t *places;          /* [count] entries of record_table.h; NULL: none */
    size_t places_bytes;            /* packed */
    const uint8_t *cards;           /* [count] entries of record_table.h; NULL: none */
    size_t cards_bytes;             /* packed */
    size_t records_bytes;           /* size of the unpacked cards */
    uint32_t host, reporter;        /* set by the reader of a report */
};

/* The head of a report. */
struct tt_tree_report_head {
    uint32_t reporter, generation, host, nruns;
    uint64_t process;
    bool gone;
    bool cards, places;             /* the runs contain address records, places */
    /* set by the writer, from the ranks */
    const uint8_t *constants;           /* of rank 0, if it is one of them */
    uint16_t constants_bytes;
    struct tt_tree_refusal refusal;     /* of the lowest rank that cannot start */
};

void tt_tree_write_address(struct tt_writer *w, const struct tt_tree_address *a);
void tt_tree_read_address(struct tt_reader *r, struct tt_tree_address *out);

/* A refusal: its status, and its cause. A cause that is too long, or an invalid status, sets
 * r->bad. */
void tt_tree_write_refusal(struct tt_writer *w, uint8_t status, const char *cause);
void tt_tree_read_refusal(struct tt_reader *r, struct tt_tree_refusal *out);

/* Returns the maximum size of a report of seats[n]. */
size_t tt_tree_report_bytes_max(const struct tt_tree_seat *seats, uint32_t n);
/* Writes the report of the live seats in seats[n], which it sorts by rank. */
void tt_tree_write_report(struct tt_writer *w, const struct tt_tree_report_head *head,
                          struct tt_tree_seat *seats, uint32_t n);
/* Reads the head, then head.nruns runs. Any invalid value sets r->bad: ranks outside of nranks,
 * empty runs, and runs out of order. */
void tt_tree_read_report(struct tt_reader *r, uint32_t nranks, struct tt_tree_report_head *out);
void tt_tree_read_run(struct tt_reader *r, uint32_t nranks, const struct tt_tree_report_head *head,
                      struct tt_tree_run *out);

/* Proof of frame number `number` of a connection; `up` is its direction. */
struct tt_tree_proof {
    const char *token;
    const uint8_t *server_nonce, *client_nonce;
    bool up;
    uint32_t number;
    uint8_t type;
};
void tt_tree_prove(uint8_t out[TT_MAC_BYTES], const struct tt_tree_proof *p, const void *said,
                   size_t bytes);
/* Masks or unmasks the secret: the HMAC of the nonces is a one-time pad, so the secret is not
 * readable in transit. */
void tt_tree_mask(uint8_t secret[TT_TREE_SECRET_BYTES], const char *token,
                  const uint8_t *server_nonce, const uint8_t *client_nonce);

#endif
