/* The address records of all ranks, packed (record_table.h), with access by rank: at most
 * TT_RECORD_GROUP + 1 records are unpacked to read one, and one if ranks are read in order. After
 * start-up the ranks of a host share the memory of the packed records. One thread at a time. */
#ifndef TT_BOOT_RECORD_STORE_H
#define TT_BOOT_RECORD_STORE_H

#include "boot/record_table.h"
#include "tutti/tutti.h"

struct tt_record_store {
    uint32_t nranks, n;             /* the ranks 0 to n - 1 have records */
    bool shared;                    /* `bytes` is mapped, and other ranks of this host share it */
    uint8_t *bytes;                 /* [used] of cap; owned */
    size_t used, cap;
    uint32_t *groups;               /* [nranks / TT_RECORD_GROUP, rounded up] offset of each */
    struct tt_record_stream written;    /* state after the last record */
    struct tt_record_stream read;   /* state after the record that was read last; n 0: none */
    size_t read_at;
};

/* Initializes an empty store. NOMEM (logged). Call tt_record_store_fini afterwards, even on
 * failure. */
tutti_status tt_record_store_init(struct tt_record_store *s, uint32_t nranks);
/* Initializes a store with all records from a valid table bytes[n], which the store then owns: a
 * mapping if `shared`, else from malloc. NOMEM (logged). Call tt_record_store_fini, even on
 * failure. */
tutti_status tt_record_store_use(struct tt_record_store *s, uint32_t nranks, void *bytes, size_t n,
                                 bool shared);
void tt_record_store_fini(struct tt_record_store *s);
/* Adds the record of the next rank; bytes is at most TT_TREE_CARD_MAX. The store must not be
 * shared. NOMEM (logged). */
tutti_status tt_record_store_add(struct tt_record_store *s, uint32_t holder, const void *record,
                                 uint16_t bytes);
/* Frees the memory reserved for further records. */
void tt_record_store_settle(struct tt_record_store *s);
/* Returns the record of a rank, valid until the next call; NULL: there is none. */
const struct tt_record_entry *tt_record_store_get(struct tt_record_store *s, uint32_t rank);
/* Returns the memory of this process, in bytes. Shared memory is divided among `nsharing` ranks. */
uint64_t tt_record_store_bytes(const struct tt_record_store *s, uint32_t nsharing);

#endif
