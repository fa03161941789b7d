/* Differences between the calls of two members that had to be equal, and the message of a
 * MISMATCH. */
#ifndef TT_ELASTIC_MISMATCH_H
#define TT_ELASTIC_MISMATCH_H

#include <stddef.h>
#include <stdint.h>
#include "elastic/message.h"

/* Both members have a value of the kind below, except for NOT, OPERATIONS and INSIDE. */
enum tt_difference {
    TT_DIFFERS_NOT,
    TT_DIFFERS_CALL,        /* enum tt_call_kind */
    TT_DIFFERS_FLAGS,       /* of calls of epoch: enum tt_epoch_flags */
    TT_DIFFERS_LEAST,
    TT_DIFFERS_MOST,
    TT_DIFFERS_BYTES,       /* of optimize: bytes of an all-reduce */
    TT_DIFFERS_GAIN,        /* of optimize: percent */
    TT_DIFFERS_OPERATIONS,  /* of commit: the operations begun before it */
    TT_DIFFERS_STRATEGY,    /* of sync: enum tt_sync_strategy */
    TT_DIFFERS_SCOPE,       /* of sync: 0, or 1 + role */
    TT_DIFFERS_INSIDE,      /* one member is in a call, value: enum tt_call_kind; the other is in an
                               operation that the first has not begun */
    TT_DIFFERENCES
};
/* Additional bits: */
/* the epoch was over when all had called, which may explain the different calls */
#define TT_DIFFERS_OVER 0x80u
/* the call is taken back, and its round or sync is still open, because some members had called a
 * sync, which belongs to no round, or were in an operation */
#define TT_DIFFERS_BACK 0x40u

struct tt_mismatch {
    uint8_t differs;        /* enum tt_difference, and the bits above; unknown values come from a
                               later version */
    uint64_t id, value;     /* a member, and its value */
    uint64_t other, also;   /* another member, and its value */
    struct tt_op_name op;   /* for INSIDE: the operation */
};

#define TT_MISMATCH_BYTES 240 /* enough for the longest numbers */

/* Prints "member 3 called epoch with least 2 where member 5 called it with least 3" to out;
 * returns out. */
const char *tt_mismatch_text(char out[TT_MISMATCH_BYTES], const struct tt_mismatch *m);

/* Returns "epoch" etc. for enum tt_call_kind; "?" for unknown values. */
const char *tt_call_name(uint64_t call_kind);

#endif
