#include "tools/perf/perf_case.h"

#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "comm/call.h"
#include "comm/plugin.h"
#include "tools/perf/perf_work.h"

const struct perf_coll perf_colls[] = {
    { "allreduce", TT_ALLREDUCE, PERF_TWICE, .reduces = true, .in_place = true },
    { "reduce", TT_REDUCE, PERF_WHOLE, .reduces = true, .rooted = true, .in_place = true },
    { "reduce_scatter", TT_REDUCE_SCATTER, PERF_OTHERS, .cut = true, .reduces = true,
      .in_place = true },
    { "reduce_scatterv", TT_REDUCE_SCATTERV, PERF_OTHERS, .cut = true, .uneven = true,
      .reduces = true, .in_place = true },
    { "allgather", TT_ALLGATHER, PERF_OTHERS, .cut = true, .in_place = true },
    { "allgatherv", TT_ALLGATHERV, PERF_OTHERS, .cut = true, .uneven = true, .in_place = true },
    { "broadcast", TT_BROADCAST, PERF_WHOLE, .rooted = true, .in_place = true },
    { "gather", TT_GATHER, PERF_OTHERS, .cut = true, .rooted = true, .in_place = true },
    { "gatherv", TT_GATHERV, PERF_OTHERS, .cut = true, .uneven = true, .rooted = true,
      .in_place = true },
    { "scatter", TT_SCATTER, PERF_OTHERS, .cut = true, .rooted = true, .in_place = true },
    { "scatterv", TT_SCATTERV, PERF_OTHERS, .cut = true, .uneven = true, .rooted = true,
      .in_place = true },
    { "alltoall", TT_ALLTOALL, PERF_OTHERS, .cut = true, .in_place = true },
    { "alltoallv", TT_ALLTOALLV, PERF_OTHERS, .cut = true, .uneven = true, .in_place = true },
    { "barrier", TT_BARRIER, PERF_WHOLE, .in_place = false },
    { "sendrecv", PERF_SENDRECV, PERF_WHOLE, .in_place = false },
    { "pingpong", PERF_PINGPONG, PERF_WHOLE, .in_place = false },
};
const size_t perf_ncolls = sizeof perf_colls / sizeof *perf_colls;

const struct perf_coll *perf_coll_find(const char *name)
{
    for (size_t i = 0; i < perf_ncolls; i++)
        if (strcmp(perf_colls[i].name, name) == 0)
            return &perf_colls[i];
    return NULL;
}

double perf_bus_factor(const struct perf_coll *coll, uint32_t nranks)
{
    const double others = (double)(nranks - 1) / nranks;

    switch (coll->factor) {
    case PERF_OTHERS: return others;
    case PERF_TWICE: return 2 * others;
    default: return 1;
    }
}

/* ---- shapes ---- */

/* Blocks alternate between 0.5 and 1.5 times the mean length. Rows of odd ranks begin with the long
 * block, so that r sends as much to s as s to r. An unpaired last block has the mean length. */
static size_t uneven_count(const struct perf_case *c, uint32_t row, uint32_t r)
{
    const uint32_t paired = c->nranks & ~1u;
    const size_t half = c->block / 2;

    if (row >= paired || r >= paired)
        return c->block;
    return (row + r) % 2 == 0 ? c->block - half : c->block + half;
}

static size_t part_count(const struct perf_case *c, uint32_t row, uint32_t r)
{
    return c->coll->uneven ? uneven_count(c, c->coll->kind == TT_ALLTOALLV ? row : 0, r) : c->block;
}

/* A pair of blocks is as long as two equal blocks, so only the second block of a pair has another
 * offset. */
static size_t part_displ(const struct perf_case *c, uint32_t row, uint32_t r)
{
    return r % 2 == 0 ? r * c->block : (r - 1) * c->block + part_count(c, row, r - 1);
}

static size_t block_of(const struct perf_coll *coll, tutti_dtype dtype, uint32_t nranks,
                       size_t bytes)
{
    const size_t elems = bytes / tutti_dtype_bytes(dtype),
                 block = coll->cut ? elems / nranks : elems;

    if (coll->kind == TT_BARRIER)
        return 0;
    return block > 0 ? block : 1;
}

size_t perf_rounded_bytes(const struct perf_coll *coll, tutti_dtype dtype, uint32_t nranks,
                          size_t bytes)
{
    return block_of(coll, dtype, nranks, bytes) * (coll->cut ? nranks : 1) *
           tutti_dtype_bytes(dtype);
}

bool perf_case_init(struct perf_case *c, size_t bytes)
{
    c->block = block_of(c->coll, c->dtype, c->nranks, bytes);
    c->count = c->coll->cut ? c->block * c->nranks : c->block;
    c->src = c->dst = NULL;
    c->counts = calloc(2 * (size_t)c->nranks, sizeof *c->counts);
    if (!c->counts)
        return false;
    c->displs = c->counts + c->nranks;
    for (uint32_t r = 0; r < c->nranks; r++) {
        c->counts[r] = part_count(c, c->rank, r);
        c->displs[r] = part_displ(c, c->rank, r);
    }
    return true;
}

void perf_case_fini(struct perf_case *c)
{
    free(c->counts);
    c->counts = c->displs = NULL;
}

size_t perf_case_bytes(const struct perf_case *c)
{
    return c->count * tutti_dtype_bytes(c->dtype);
}

void perf_case_place(struct perf_case *c, void *room, void *other)
{
    const size_t mine = c->displs[c->rank] * tutti_dtype_bytes(c->dtype);
    const bool is_root = c->rank == c->root;

    c->src = room;
    c->dst = other;
    if (!c->in_place)
        return;
    switch (c->coll->kind) {
    case TT_ALLREDUCE: case TT_REDUCE: case TT_BROADCAST: case TT_ALLTOALL:
        c->src = other;
        break;
    case TT_ALLGATHER: case TT_ALLGATHERV:
        c->src = (char *)other + mine;
        break;
    case TT_GATHER: case TT_GATHERV:
        c->src = is_root ? (char *)other + mine : room;
        break;
    case TT_REDUCE_SCATTER: case TT_REDUCE_SCATTERV:
        c->dst = (char *)room + mine;
        break;
    case TT_SCATTER: case TT_SCATTERV:
        c->dst = is_root ? (char *)room + mine : other;
        break;
    default:
        break;
    }
}

/* The partner in a pingpong, which may not exist. */
static uint32_t partner_of(const struct perf_case *c) { return c->rank ^ 1u; }

static bool is_in_pingpong(const struct perf_case *c) { return partner_of(c) < c->nranks; }

size_t perf_src_count(const struct perf_case *c)
{
    const bool is_root = c->rank == c->root;

    switch (c->coll->kind) {
    case TT_ALLGATHER:
    case TT_ALLGATHERV:
    case TT_GATHER:
    case TT_GATHERV:
        return c->counts[c->rank];
    case TT_BROADCAST:
    case TT_SCATTER:
    case TT_SCATTERV:
        return is_root ? c->count : 0;
    case PERF_PINGPONG:
        return is_in_pingpong(c) ? c->count : 0;
    case PERF_COMPUTE:
        return 0;
    default:
        return c->count;
    }
}

size_t perf_dst_count(const struct perf_case *c)
{
    const bool is_root = c->rank == c->root;

    switch (c->coll->kind) {
    case TT_REDUCE_SCATTER:
    case TT_REDUCE_SCATTERV:
    case TT_SCATTER:
    case TT_SCATTERV:
        return c->counts[c->rank];
    case TT_REDUCE:
    case TT_GATHER:
    case TT_GATHERV:
        return is_root ? c->count : 0;
    case PERF_PINGPONG:
        return is_in_pingpong(c) ? c->count : 0;
    case PERF_COMPUTE:
        return 0;
    default:
        return c->count;
    }
}

static bool only(struct perf_piece *out, uint32_t i, struct perf_piece piece)
{
    if (i > 0)
        return false;
    *out = piece;
    return true;
}

bool perf_case_piece(const struct perf_case *c, uint32_t i, struct perf_piece *out)
{
    const uint32_t rank = c->rank, n = c->nranks;
    const size_t dst_count = perf_dst_count(c);

    if (dst_count == 0)
        return false;
    switch (c->coll->kind) {
    case TT_ALLREDUCE: case TT_REDUCE: case PERF_OVERLAP:
        return only(out, i, (struct perf_piece){ 0, dst_count, 0, PERF_FROM_ALL });
    case TT_REDUCE_SCATTER: case TT_REDUCE_SCATTERV:
        return only(out, i, (struct perf_piece){ 0, dst_count, c->displs[rank], PERF_FROM_ALL });
    case TT_BROADCAST:
        return only(out, i, (struct perf_piece){ 0, dst_count, 0, c->root });
    case TT_SCATTER: case TT_SCATTERV:
        return only(out, i, (struct perf_piece){ 0, dst_count, c->displs[rank], c->root });
    case PERF_SENDRECV:
        return only(out, i, (struct perf_piece){ 0, dst_count, 0, (rank + n - 1) % n });
    case PERF_PINGPONG:
        return only(out, i, (struct perf_piece){ 0, dst_count, 0, partner_of(c) });
    case TT_ALLTOALL: case TT_ALLTOALLV:
        if (i >= n)
            return false;
        *out = (struct perf_piece){ c->displs[i], c->counts[i], part_displ(c, i, rank), i };
        return true;
    default:    /* every rank's block, in order */
        if (i >= n)
            return false;
        *out = (struct perf_piece){ c->displs[i], c->counts[i], 0, i };
        return true;
    }
}

/* ---- running ---- */

double perf_scale_of(uint32_t rank)
{
    return rank % 2 == 0 ? 1 : 2;
}

static tutti_status run_sendrecv(const struct perf_case *c, tutti_comm *comm)
{
    const tutti_p2p ops[2] = {
        { .peer = (int)((c->rank + 1) % c->nranks),
          .buf = c->src,
          .count = c->count,
          .type = c->dtype },
        { .is_recv = 1,
          .peer = (int)((c->rank + c->nranks - 1) % c->nranks),
          .buf = c->dst,
          .count = c->count,
          .type = c->dtype },
    };

    return tutti_group(ops, 2, comm, NULL);
}

static tutti_status run_pingpong(const struct perf_case *c, tutti_comm *comm)
{
    const int peer = (int)partner_of(c);
    const bool first = c->rank % 2 == 0;
    tutti_status st;

    if (!is_in_pingpong(c))
        return TUTTI_OK;
    if (!first && (st = tutti_recv(c->dst, c->count, c->dtype, peer, comm, NULL)))
        return st;
    st = tutti_send(c->src, c->count, c->dtype, peer, comm, NULL);
    if (st || !first)
        return st;
    return tutti_recv(c->dst, c->count, c->dtype, peer, comm, NULL);
}

static tutti_status run_overlap(const struct perf_case *c, tutti_comm *comm)
{
    tutti_request *request = NULL;
    const tutti_call how = { .size = sizeof how, .request = &request };
    const tutti_status st = tutti_allreduce(c->src, c->dst, c->block, c->dtype, c->op, comm, &how);

    if (st)
        return st;
    perf_work(c->work);
    return tutti_wait(request);
}

tutti_status perf_case_run(const struct perf_case *c, tutti_comm *comm)
{
    const tutti_call how = { .size = sizeof how,
                             .algo = c->algo,
                             .scale = perf_scale_of(c->rank),
                             .quant = c->quant },
                     *call = &how;
    const int root = (int)c->root;
    void *src = c->src, *dst = c->dst;

    switch (c->coll->kind) {
    case TT_ALLREDUCE:
        return tutti_allreduce(src, dst, c->block, c->dtype, c->op, comm, call);
    case TT_REDUCE:
        return tutti_reduce(src, dst, c->block, c->dtype, c->op, root, comm, call);
    case TT_REDUCE_SCATTER:
        return tutti_reduce_scatter(src, dst, c->block, c->dtype, c->op, comm, call);
    case TT_REDUCE_SCATTERV:
        return tutti_reduce_scatterv(src, dst, c->counts, c->dtype, c->op, comm, call);
    case TT_ALLGATHER:
        return tutti_allgather(src, dst, c->block, c->dtype, comm, call);
    case TT_ALLGATHERV:
        return tutti_allgatherv(src, dst, c->counts, c->displs, c->dtype, comm, call);
    case TT_BROADCAST:
        return tutti_broadcast(src, dst, c->block, c->dtype, root, comm, call);
    case TT_GATHER:
        return tutti_gather(src, dst, c->block, c->dtype, root, comm, call);
    case TT_GATHERV:
        return tutti_gatherv(src, dst, c->counts, c->displs, c->dtype, root, comm, call);
    case TT_SCATTER:
        return tutti_scatter(src, dst, c->block, c->dtype, root, comm, call);
    case TT_SCATTERV:
        return tutti_scatterv(src, dst, c->counts, c->displs, c->dtype, root, comm, call);
    case TT_ALLTOALL:
        return tutti_alltoall(src, dst, c->block, c->dtype, comm, call);
    case TT_ALLTOALLV:
        return tutti_alltoallv(src, c->counts, c->displs, dst, c->counts, c->displs, c->dtype, comm,
                               call);
    case TT_BARRIER:
        return tutti_barrier(comm, call);
    case PERF_SENDRECV:
        return run_sendrecv(c, comm);
    case PERF_OVERLAP:
        return run_overlap(c, comm);
    case PERF_COMPUTE:
        perf_work(c->work);
        return TUTTI_OK;
    default:
        return run_pingpong(c, comm);
    }
}

/* ---- algorithms ---- */

/* The algorithm's name without the prefix of its collective. */
static const char *idea_of(const struct tt_algo *algo)
{
    return algo->name + strlen(tt_coll_name(algo->kind)) + 1;
}

struct tt_coll perf_case_call(const struct perf_case *c, const tutti_comm *comm)
{
    const uint64_t elem = tutti_dtype_bytes(c->dtype);
    struct tt_coll coll = { .kind = (enum tt_coll_kind)c->coll->kind,
                            .rank = c->rank,
                            .nranks = c->nranks,
                            .root = c->root,
                            .elem_bytes = (uint32_t)elem,
                            .in_place = c->in_place,
                            .layout = &comm->layout,
                            .bytes = c->coll->uneven ? 0 : c->block * elem };
    struct tt_packed packed;

    tt_chunks_apply(&comm->world->chunks, &coll);
    if (c->quant && tt_packed_init(&packed, (enum tt_quant_codec)(c->quant - 1), c->dtype))
        tt_call_check_pack(&coll, &packed, c->block, false);
    return coll;
}

/* The library's plan for the call; NULL on an error, which rank 0 has reported. */
static struct tt_plan *plan_of(const struct perf_case *c, tutti_comm *comm,
                               const struct tt_coll *coll, bool *refused)
{
    struct tt_plan *plan = NULL;
    tutti_status st;

    tt_log_hush_errors(*refused || (c->rank != 0 && tt_plugin_checks_all(coll)));
    st = tt_plan_of(comm, coll, c->algo, &plan);
    tt_log_hush_errors(false);
    *refused |= st == TUTTI_ERR_INVALID;
    return st ? NULL : plan;
}

/* Returns the algorithm selected for the call, or NULL; *work receives the size of its work buffer
 * on this rank. */
static const struct tt_algo *algo_of(const struct perf_case *c, tutti_comm *comm, bool *refused,
                                     uint64_t *work)
{
    const uint64_t elem = tutti_dtype_bytes(c->dtype);
    struct tt_coll coll = perf_case_call(c, comm);
    const struct tt_algo *algo = NULL;
    struct tt_plan *plan;
    uint64_t *bytes;

    bytes = malloc(2 * (size_t)c->nranks * sizeof *bytes);
    if (!bytes)
        return NULL;
    for (uint32_t r = 0; r < c->nranks; r++) {
        bytes[r] = c->counts[r] * elem;
        bytes[c->nranks + r] = c->displs[r] * elem;
    }
    coll.send_bytes = coll.recv_bytes = c->coll->uneven ? bytes : NULL;
    coll.send_displs = coll.recv_displs = c->coll->uneven ? bytes + c->nranks : NULL;
    plan = !c->algo || tt_algo_find(&coll, c->algo) ? plan_of(c, comm, &coll, refused) : NULL;
    if (plan) {
        algo = plan->algo;
        *work = algo->work_bytes(&coll);
    }
    free(bytes);
    return algo;
}

const char *perf_case_algo(const struct perf_case *c, tutti_comm *comm, bool *refused)
{
    const struct tt_algo *algo;
    uint64_t work;

    if (c->coll->kind >= TT_COLL_KINDS)
        return "direct";
    algo = algo_of(c, comm, refused, &work);
    return algo ? idea_of(algo) : NULL;
}

uint64_t perf_case_work(const struct perf_case *c, tutti_comm *comm, bool *refused)
{
    uint64_t work = 0;

    if (c->coll->kind < TT_COLL_KINDS)
        (void)algo_of(c, comm, refused, &work);
    return work;
}

bool perf_algo_exists(const struct perf_coll *coll, const char *name)
{
    for (size_t i = 0; i < tt_nalgos; i++)
        if ((int)tt_algos[i]->kind == coll->kind &&
            (strcmp(tt_algos[i]->name, name) == 0 || strcmp(idea_of(tt_algos[i]), name) == 0))
            return true;
    return false;
}
