/* Packed address records from arbitrary bytes: no read goes past an end (sanitizers). Whatever was
 * read is the same after it was packed and read again. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/bytes.h"
#include "base/status.h"
#include "boot/record_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tt_record_entry entry = { .holder = 0 }, before = { .holder = 0 },
                           again = { .holder = 0 };
    uint8_t packed[TT_TREE_CARD_MAX + TT_RECORD_OVERHEAD];
    struct tt_reader r, second;
    struct tt_writer w;

    tt_reader_init(&r, data, bytes);
    while (r.at < r.end) {
        tt_record_read(&entry, &r);
        tt_assert(entry.bytes <= TT_TREE_CARD_MAX);
        if (r.bad)
            break;
        tt_writer_init(&w, packed, sizeof packed);
        tt_record_write(&before, &w, entry.holder, entry.record, entry.bytes);
        tt_assert(!w.bad);
        tt_reader_init(&second, packed, tt_writer_bytes(&w));
        tt_record_read(&again, &second);
        tt_assert(!second.bad && second.at == second.end);
        tt_assert(again.holder == entry.holder && again.bytes == entry.bytes);
        tt_assert(memcmp(again.record, entry.record, sizeof entry.record) == 0);
    }
    return 0;
}
