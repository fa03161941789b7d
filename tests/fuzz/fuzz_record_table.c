/* Packed address records from arbitrary bytes: no read goes past an end (sanitizers). Whatever was
 * read is the same after it was packed and read again, in order and by rank. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/status.h"
#include "boot/record_store.h"

#define NRECORDS_MAX (2 * TT_RECORD_GROUP + 3)

static void check_equal(const struct tt_record_entry *a, const struct tt_record_entry *b)
{
    tt_assert(a->holder == b->holder && a->bytes == b->bytes);
    tt_assert(memcmp(a->record, b->record, sizeof a->record) == 0);
}

/* Reads records[n] of a valid table, the last one first. */
static void read_by_rank(const uint8_t *table, size_t bytes, const struct tt_record_entry *records,
                         uint32_t n)
{
    struct tt_record_store s;
    uint8_t *copy = malloc(bytes);

    tt_assert(copy);
    memcpy(copy, table, bytes);
    tt_assert(tt_record_store_use(&s, n, copy, bytes, false) == TUTTI_OK);
    for (uint32_t rank = n; rank-- > 0;)
        check_equal(tt_record_store_get(&s, rank), &records[rank]);
    tt_record_store_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct tt_record_entry records[NRECORDS_MAX];
    static uint8_t packed[NRECORDS_MAX * (TT_TREE_CARD_MAX + TT_RECORD_OVERHEAD)];
    struct tt_record_stream in = { .n = 0 }, out = { .n = 0 }, again = { .n = 0 };
    struct tt_reader r, second;
    struct tt_writer w;
    uint32_t n = 0;

    tt_reader_init(&r, data, bytes);
    tt_writer_init(&w, packed, sizeof packed);
    while (r.at < r.end && n < NRECORDS_MAX) {
        tt_record_read(&in, &r);
        tt_assert(in.entry.bytes <= TT_TREE_CARD_MAX);
        if (r.bad)
            break;
        records[n++] = in.entry;
        tt_record_write(&out, &w, in.entry.holder, in.entry.record, in.entry.bytes);
        tt_assert(!w.bad);
    }
    tt_reader_init(&second, packed, tt_writer_bytes(&w));
    for (uint32_t i = 0; i < n; i++) {
        tt_record_read(&again, &second);
        check_equal(&again.entry, &records[i]);
    }
    tt_assert(!second.bad && second.at == second.end);
    if (n > 0)
        read_by_rank(packed, tt_writer_bytes(&w), records, n);
    return 0;
}
