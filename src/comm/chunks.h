/* Parameters of algorithms with bounded bytes in flight (tt_algo.bounded): rank 0's, equal on
 * all ranks. */
#ifndef TT_COMM_CHUNKS_H
#define TT_COMM_CHUNKS_H

#include "base/bytes.h"
#include "base/status.h"
#include "sched/sched.h"

struct tt_chunks {
    uint64_t bytes;
    uint32_t count;
    uint64_t piece_bytes, reduce_bytes;
};

/* Reads the environment of this process. INVALID: the chunk size is not a power of two. */
tutti_status tt_chunks_get(struct tt_chunks *out);
/* Write and read the card format. Reading sets r->bad for values out of bounds. */
void tt_chunks_write(const struct tt_chunks *chunks, struct tt_writer *w);
void tt_chunks_read(struct tt_chunks *chunks, struct tt_reader *r);

static inline void tt_chunks_apply(const struct tt_chunks *chunks, struct tt_coll *c)
{
    c->chunk_bytes = chunks->bytes;
    c->chunks = chunks->count;
    c->piece_bytes = chunks->piece_bytes;
    c->reduce_bytes = chunks->reduce_bytes;
}

#endif
