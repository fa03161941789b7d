#include "tools/perf/perf_own.h"

#include "comm/comm.h"

/* Receive memory is allocated in regions of 8 MiB, of two kinds. */
#define REGIONS_BYTES (16u << 20)
/* A link takes 0.4 MiB, and over TCP also queues and buffers for up to 16 lanes. */
#define LINK_BYTES (2u << 20)

uint64_t perf_own_base(uint32_t nranks)
{
    return REGIONS_BYTES + (uint64_t)(nranks - 1) * LINK_BYTES;
}

/* Returns whether the library copies the input, to multiply or divide it. */
static bool copies_input(const struct perf_case *c)
{
    if (!c->coll->reduces)
        return false;
    return c->op == TUTTI_PREMUL_SUM || (c->op == TUTTI_AVG && c->nranks == 1);
}

uint64_t perf_own_call(const struct perf_case *c, tutti_comm *comm, bool *refused)
{
    const uint64_t elem = tutti_dtype_bytes(c->dtype);
    struct tt_coll coll;
    uint64_t bytes = 0;

    if (copies_input(c))
        bytes = perf_src_count(c) * elem;
    if (c->coll->kind >= TT_COLL_KINDS)
        return bytes;
    coll = perf_case_call(c, comm);
    if (c->quant && (__builtin_add_overflow(bytes, tt_coll_src_bytes(&coll), &bytes) ||
                     __builtin_add_overflow(bytes, tt_coll_dst_bytes(&coll), &bytes)))
        return UINT64_MAX;
    if (__builtin_add_overflow(bytes, perf_case_work(c, comm, refused), &bytes))
        return UINT64_MAX;
    return bytes;
}
