#include "comm/chunks.h"

#include <stdbool.h>

#include "base/param.h"
#include "sched/sched.h"

/* Returns whether this is a valid segment size. 0 means the plan's segment size. */
static bool is_segment_size(uint64_t bytes)
{
    return bytes == 0 || (bytes >= TT_REDUCE_BYTES_MIN && (bytes & (bytes - 1)) == 0);
}

tutti_status tt_chunks_get(struct tt_chunks *out)
{
    int64_t bytes = 0, count = 0, piece = 0, reduce = 0;
    tutti_status st = tt_param_get(TT_PARAM_FTAR_CHUNK_BYTES, &bytes);

    if (!st)
        st = tt_param_get(TT_PARAM_FTAR_CHUNKS, &count);
    if (!st)
        st = tt_param_get(TT_PARAM_FTAR_PIECE_BYTES, &piece);
    if (!st)
        st = tt_param_get(TT_PARAM_FTAR_REDUCE_BYTES, &reduce);
    if (st)
        return st;
    if (!is_segment_size((uint64_t)reduce))
        return tt_fail(TUTTI_ERR_INVALID, "%s is %lld: must be 0, or a power of two of at least %u",
                       tt_params[TT_PARAM_FTAR_REDUCE_BYTES].name, (long long)reduce,
                       TT_REDUCE_BYTES_MIN);
    *out = (struct tt_chunks){ .bytes = (uint64_t)bytes,
                               .count = (uint32_t)count,
                               .piece_bytes = (uint64_t)piece,
                               .reduce_bytes = (uint64_t)reduce };
    return TUTTI_OK;
}

void tt_chunks_write(const struct tt_chunks *chunks, struct tt_writer *w)
{
    tt_write_u64(w, chunks->bytes);
    tt_write_u32(w, chunks->count);
    tt_write_u64(w, chunks->piece_bytes);
    tt_write_u64(w, chunks->reduce_bytes);
}

static bool param_accepts(uint64_t v, enum tt_param_id id)
{
    return v >= (uint64_t)tt_params[id].value_min && v <= (uint64_t)tt_params[id].value_max;
}

void tt_chunks_read(struct tt_chunks *chunks, struct tt_reader *r)
{
    chunks->bytes = tt_read_u64(r);
    chunks->count = tt_read_u32(r);
    chunks->piece_bytes = tt_read_u64(r);
    chunks->reduce_bytes = tt_read_u64(r);
    if (!param_accepts(chunks->bytes, TT_PARAM_FTAR_CHUNK_BYTES) ||
        !param_accepts(chunks->count, TT_PARAM_FTAR_CHUNKS) ||
        !param_accepts(chunks->piece_bytes, TT_PARAM_FTAR_PIECE_BYTES) ||
        !param_accepts(chunks->reduce_bytes, TT_PARAM_FTAR_REDUCE_BYTES) ||
        !is_segment_size(chunks->reduce_bytes))
        r->bad = true;
}
