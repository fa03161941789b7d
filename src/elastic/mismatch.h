/* What the calls of two members differ in that had to call alike, and how a MISMATCH says it. */
#ifndef TT_ELASTIC_MISMATCH_H
#define TT_ELASTIC_MISMATCH_H

#include <stddef.h>
#include <stdint.h>
#include "elastic/message.h"

/* Of both members there is a value, of the kind that is said here, but for NOT, OPERATIONS and INSIDE. */
enum tt_difference {
    TT_DIFFERS_NOT,
    TT_DIFFERS_CALL,        /* enum tt_call_kind */
    TT_DIFFERS_FLAGS,       /* of epoch: enum tt_epoch_flags */
    TT_DIFFERS_LEAST,
    TT_DIFFERS_MOST,
    TT_DIFFERS_BYTES,       /* of optimize: of an all-reduce */
    TT_DIFFERS_GAIN,        /* likewise: percent */
    TT_DIFFERS_OPERATIONS,  /* of commit: those that were begun before it */
    TT_DIFFERS_STRATEGY,    /* of sync: enum tt_sync_strategy */
    TT_DIFFERS_SCOPE,       /* likewise: 0, or 1 + role */
    TT_DIFFERS_INSIDE,      /* one calls, value: enum tt_call_kind, and the other is in an operation that this one has not begun */
    TT_DIFFERENCES
};
/* Bits beside it: */
#define TT_DIFFERS_OVER 0x80u   /* the epoch was over when they had all called, which may be why they called different things */
#define TT_DIFFERS_BACK 0x40u   /* the call is taken back, and its round, or sync, still to come: some had called a sync, which is in no round, with others, or were in an operation */

struct tt_mismatch {
    uint8_t differs;        /* enum tt_difference, and these bits; what is none is one that a later version knows */
    uint64_t id, value;     /* a member, and what it called with */
    uint64_t other, also;   /* the same of another one */
    struct tt_op_name op;   /* of INSIDE */
};

#define TT_MISMATCH_BYTES 240 /* with the longest numbers, too */

/* "member 3 called epoch with least 2 where member 5 called it with least 3", into out; returns that. */
const char *tt_mismatch_text(char out[TT_MISMATCH_BYTES], const struct tt_mismatch *m);

/* "epoch", of enum tt_call_kind; "?" for none. */
const char *tt_call_name(uint64_t call_kind);

#endif
