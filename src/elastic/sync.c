/* The two hashes that represent a shared state. */
#include "elastic/sync.h"

#include <string.h>
#include "base/bytes.h"

static void hash_add(struct tt_hash_stream *h, uint64_t *total, const void *data, size_t bytes)
{
    tt_hash_add(h, data, bytes);
    *total += bytes;
}

static void add_u64(struct tt_hash_stream *h, uint64_t *total, uint64_t value)
{
    uint8_t data[8];
    struct tt_writer w;

    tt_writer_init(&w, data, sizeof data);
    tt_write_u64(&w, value);
    hash_add(h, total, data, sizeof data);
}

/* Each length precedes its data, so that different lists have different bytes. */
struct tt_hash tt_sync_keys(const struct tt_sync_array *arrays, uint32_t n)
{
    struct tt_hash_stream h;
    struct tt_hash_sum sum;
    uint64_t total = 0;

    tt_hash_begin(&h, 0);
    for (uint32_t i = 0; i < n; i++) {
        const struct tt_sync_array *a = &arrays[i];

        add_u64(&h, &total, strlen(a->name));
        hash_add(&h, &total, a->name, strlen(a->name));
        add_u64(&h, &total, a->dtype);
        add_u64(&h, &total, a->ndims);
        for (uint32_t d = 0; d < a->ndims; d++)
            add_u64(&h, &total, a->dims[d]);
        add_u64(&h, &total, a->bytes);
        add_u64(&h, &total, a->may_differ);
    }
    sum = tt_hash_end(&h);
    return tt_hash_value(&sum, total);
}

void tt_sync_list(uint8_t *list, const struct tt_sync_array *arrays, const struct tt_hash *hashes,
                  uint32_t n)
{
    struct tt_writer w;

    tt_writer_init(&w, list, 16 * (size_t)n);
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < 4; k++)
            tt_write_u32(&w, arrays[i].may_differ ? 0 : hashes[i].word[k]);
}

struct tt_hash tt_sync_content(const uint8_t *list, uint32_t n)
{
    return tt_hash_of(list, 16 * (size_t)n);
}

struct tt_hash tt_sync_entry(const uint8_t *list, uint32_t i)
{
    struct tt_hash hash;
    struct tt_reader r;

    tt_reader_init(&r, list + 16 * (size_t)i, 16);
    for (int k = 0; k < 4; k++)
        hash.word[k] = tt_read_u32(&r);
    return hash;
}
