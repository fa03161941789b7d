#include "comm/chunks.h"

#include "base/param.h"

tutti_status tt_chunks_get(struct tt_chunks *out)
{
    int64_t bytes = 0, count = 0;
    tutti_status st = tt_param_get(TT_PARAM_FTAR_CHUNK_BYTES, &bytes);

    if (!st)
        st = tt_param_get(TT_PARAM_FTAR_CHUNKS, &count);
    if (!st)
        *out = (struct tt_chunks){ .bytes = (uint64_t)bytes, .count = (uint32_t)count };
    return st;
}

void tt_chunks_write(const struct tt_chunks *chunks, struct tt_writer *w)
{
    tt_write_u64(w, chunks->bytes);
    tt_write_u32(w, chunks->count);
}

static bool is_within(uint64_t v, enum tt_param_id id)
{
    return v >= (uint64_t)tt_params[id].value_min && v <= (uint64_t)tt_params[id].value_max;
}

void tt_chunks_read(struct tt_chunks *chunks, struct tt_reader *r)
{
    chunks->bytes = tt_read_u64(r);
    chunks->count = tt_read_u32(r);
    if (!is_within(chunks->bytes, TT_PARAM_FTAR_CHUNK_BYTES) || !is_within(chunks->count, TT_PARAM_FTAR_CHUNKS))
        r->bad = true;
}
