/* Address records of consecutive ranks, in reports of hosts and in the table of all ranks. Each is
 * packed as a difference to the one before, since records of one job differ in few bytes. The first
 * one of each group of TT_RECORD_GROUP records is a difference to the very first one, so that a
 * record can be read without those of earlier groups (record_store.h).
 *   flags     8 bits
 *   holder    32 bits; without HAS_HOLDER: that of the base
 *   size      16 bits; without HAS_SIZE: that of the base
 *   record    IS_WHOLE: its bytes; else its difference to the base (base/delta.h)
 * One thread at a time. */
#ifndef TT_BOOT_RECORD_TABLE_H
#define TT_BOOT_RECORD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"

#define TT_TREE_CARD_MAX 1408           /* maximum size of the address record of a rank */
#define TT_RECORD_OVERHEAD 7u       /* maximum bytes of an entry besides the record */
#define TT_RECORD_GROUP 32u

struct tt_record_entry {
    uint32_t holder;                /* first rank of its host */
    uint16_t bytes;
    uint8_t record[TT_TREE_CARD_MAX];   /* zeros after `bytes` */
};

/* The state of a writer or reader; initially zero. */
struct tt_record_stream {
    struct tt_record_entry entry;   /* the last one */
    struct tt_record_entry first;
    uint32_t n;                     /* number of entries so far */
};

/* Writes the next entry. bytes is at most TT_TREE_CARD_MAX; `record` may be NULL if it is 0. */
void tt_record_write(struct tt_record_stream *s, struct tt_writer *w, uint32_t holder,
                     const void *record, uint16_t bytes);
/* Reads the next entry into s->entry. Accepts any input; sets r->bad if it is invalid. */
void tt_record_read(struct tt_record_stream *s, struct tt_reader *r);

#endif
