/* Every type, operation and collective: in operations of a run, and on the communicator of its
 * view, before and after a member has left. Numbers are so small that each type represents them
 * exactly, so results are compared exactly. Members are threads of this process. */
#include "session/party.h"

#include <stdlib.h>
#include <string.h>

#include "reduce/reduce.h"

#define MEMBERS 3
#define COUNT 5         /* elements of a block; variable collectives: rank r's block has r + 2 */
#define ELEMENTS_MAX 64
#define ROOT 1

/* A call of one member. */
struct call {
    tutti_coll coll;
    tutti_redop op;
    tutti_dtype type;
    int n, rank;
    size_t counts[MEMBERS], sent[MEMBERS], received[MEMBERS];   /* of variable collectives; of
                                                                   alltoallv */
    uint64_t src[ELEMENTS_MAX], dst[ELEMENTS_MAX];              /* space for any type */
};

static void put(void *at, tutti_dtype type, size_t i, double v)
{
    switch (type) {
    case TUTTI_I8:
        ((int8_t *)at)[i] = (int8_t)v;
        return;
    case TUTTI_U8:
        ((uint8_t *)at)[i] = (uint8_t)v;
        return;
    case TUTTI_I16:
        ((int16_t *)at)[i] = (int16_t)v;
        return;
    case TUTTI_U16:
        ((uint16_t *)at)[i] = (uint16_t)v;
        return;
    case TUTTI_I32:
        ((int32_t *)at)[i] = (int32_t)v;
        return;
    case TUTTI_U32:
        ((uint32_t *)at)[i] = (uint32_t)v;
        return;
    case TUTTI_I64:
        ((int64_t *)at)[i] = (int64_t)v;
        return;
    case TUTTI_U64:
        ((uint64_t *)at)[i] = (uint64_t)v;
        return;
    case TUTTI_F16:
        ((uint16_t *)at)[i] = tt_f32_to_f16((float)v);
        return;
    case TUTTI_BF16:
        ((uint16_t *)at)[i] = tt_f32_to_bf16((float)v);
        return;
    case TUTTI_F32:
        ((float *)at)[i] = (float)v;
        return;
    case TUTTI_F64:
        ((double *)at)[i] = v;
        return;
    case TUTTI_F8E4M3:
        ((uint8_t *)at)[i] = tt_f32_to_e4m3((float)v);
        return;
    case TUTTI_F8E5M2:
        ((uint8_t *)at)[i] = tt_f32_to_e5m2((float)v);
        return;
    case TUTTI_DTYPE_COUNT:
        break;
    }
    CHECK(!"a type without a number");
}

static double get(const void *at, tutti_dtype type, size_t i)
{
    switch (type) {
    case TUTTI_I8: return ((const int8_t *)at)[i];
    case TUTTI_U8: return ((const uint8_t *)at)[i];
    case TUTTI_I16: return ((const int16_t *)at)[i];
    case TUTTI_U16: return ((const uint16_t *)at)[i];
    case TUTTI_I32: return ((const int32_t *)at)[i];
    case TUTTI_U32: return ((const uint32_t *)at)[i];
    case TUTTI_I64: return (double)((const int64_t *)at)[i];
    case TUTTI_U64: return (double)((const uint64_t *)at)[i];
    case TUTTI_F16: return tt_f16_to_f32(((const uint16_t *)at)[i]);
    case TUTTI_BF16: return tt_bf16_to_f32(((const uint16_t *)at)[i]);
    case TUTTI_F32: return ((const float *)at)[i];
    case TUTTI_F64: return ((const double *)at)[i];
    case TUTTI_F8E4M3: return tt_e4m3_to_f32(((const uint8_t *)at)[i]);
    case TUTTI_F8E5M2: return tt_e5m2_to_f32(((const uint8_t *)at)[i]);
    case TUTTI_DTYPE_COUNT: break;
    }
    return -1;
}

/* ---- inputs and expected results ---- */

static bool reduces(tutti_coll coll)
{
    return coll == TUTTI_ALLREDUCE || coll == TUTTI_REDUCE || coll == TUTTI_REDUCE_SCATTER ||
           coll == TUTTI_REDUCE_SCATTERV;
}

/* Element j of rank r's input. Inputs of averages are equal on all ranks, so that the quotient is
 * exact, too. */
static double input(const struct call *c, int r, size_t j)
{
    if (!reduces(c->coll))
        return (double)(((size_t)r * 5 + j * 3) % 8);
    return (double)(1 + ((c->op == TUTTI_AVG ? 0 : (size_t)r) + j) % 2);
}

static double join_two(tutti_redop op, double a, double b)
{
    switch (op) {
    case TUTTI_PROD:
        return a * b;
    case TUTTI_MIN:
        return a < b ? a : b;
    case TUTTI_MAX:
        return a > b ? a : b;
    case TUTTI_BAND:
        return (double)((int)a & (int)b);
    case TUTTI_BOR:
        return (double)((int)a | (int)b);
    case TUTTI_BXOR:
        return (double)((int)a ^ (int)b);
    default:
        return a + b;
    }
}

static double reduced(const struct call *c, size_t j)
{
    double v = input(c, 0, j);

    for (int r = 1; r < c->n; r++)
        v = join_two(c->op, v, input(c, r, j));
    return c->op == TUTTI_AVG ? v / c->n : c->op == TUTTI_PREMUL_SUM ? 2 * v : v;
}

/* Returns the number of elements in blocks before `rank`'s. */
static size_t before(int rank)
{
    size_t sum = 0;

    for (int r = 0; r < rank; r++)
        sum += (size_t)r + 2;
    return sum;
}

/* Rank r sends r + s + 1 elements to rank s. */
static size_t before_to(int from, int to)
{
    size_t sum = 0;

    for (int s = 0; s < to; s++)
        sum += (size_t)(from + s + 1);
    return sum;
}

/* Compares the block of `from` at dst[at], of `count` elements, with its input from `first` on. */
static void check_block(const struct call *c, size_t at, int from, size_t first, size_t count)
{
    for (size_t j = 0; j < count; j++)
        CHECK(get(c->dst, c->type, at + j) == input(c, from, first + j));
}

static void check_reduced(const struct call *c, size_t first, size_t count)
{
    for (size_t j = 0; j < count; j++)
        CHECK(get(c->dst, c->type, j) == reduced(c, first + j));
}

static void check_result(const struct call *c)
{
    const size_t mine = (size_t)c->rank * COUNT;
    const bool rooted =
        c->coll == TUTTI_REDUCE || c->coll == TUTTI_GATHER || c->coll == TUTTI_GATHERV;

    if (rooted && c->rank != ROOT)
        return;
    if (c->coll == TUTTI_ALLREDUCE || c->coll == TUTTI_REDUCE)
        check_reduced(c, 0, COUNT);
    else if (c->coll == TUTTI_REDUCE_SCATTER)
        check_reduced(c, mine, COUNT);
    else if (c->coll == TUTTI_REDUCE_SCATTERV)
        check_reduced(c, before(c->rank), c->counts[c->rank]);
    else if (c->coll == TUTTI_BROADCAST)
        check_block(c, 0, ROOT, 0, COUNT);
    else if (c->coll == TUTTI_SCATTER)
        check_block(c, 0, ROOT, mine, COUNT);
    else if (c->coll == TUTTI_SCATTERV)
        check_block(c, 0, ROOT, before(c->rank), c->counts[c->rank]);
    for (int s = 0; s < c->n; s++) {
        if (c->coll == TUTTI_ALLGATHER || c->coll == TUTTI_GATHER)
            check_block(c, (size_t)s * COUNT, s, 0, COUNT);
        else if (c->coll == TUTTI_ALLTOALL)
            check_block(c, (size_t)s * COUNT, s, mine, COUNT);
        else if (c->coll == TUTTI_ALLGATHERV || c->coll == TUTTI_GATHERV)
            check_block(c, before(s), s, 0, c->counts[s]);
        else if (c->coll == TUTTI_ALLTOALLV)
            check_block(c, before_to(c->rank, s), s, before_to(s, c->rank), c->received[s]);
    }
}

static void fill(struct call *c)
{
    memset(c->dst, 0x7a, sizeof c->dst);
    for (size_t j = 0; j < ELEMENTS_MAX; j++)
        put(c->src, c->type, j, input(c, c->rank, j));
    for (int r = 0; r < c->n; r++) {
        c->counts[r] = (size_t)r + 2;
        c->sent[r] = c->received[r] = (size_t)(c->rank + r + 1);
    }
}

/* ---- the two interfaces ---- */

static bool is_v(tutti_coll coll)
{
    return coll == TUTTI_REDUCE_SCATTERV || coll == TUTTI_ALLGATHERV || coll == TUTTI_GATHERV ||
           coll == TUTTI_SCATTERV || coll == TUTTI_ALLTOALLV;
}

static void operate(tutti_run *run, struct call *c)
{
    tutti_elastic op = { .size = sizeof op,
                         .coll = c->coll,
                         .src = c->src,
                         .dst = c->dst,
                         .type = c->type,
                         .op = c->op };

    op.count = is_v(c->coll) || c->coll == TUTTI_BARRIER ? 0 : COUNT;
    if (is_v(c->coll))
        op.counts = c->coll == TUTTI_ALLTOALLV ? c->sent : c->counts;
    op.recv_counts = c->coll == TUTTI_ALLTOALLV ? c->received : NULL;
    op.root = ROOT;
    op.scale = c->op == TUTTI_PREMUL_SUM ? 2 : 0;
    fill(c);
    MUST(tutti_run_collective(run, &op));
    CHECK(op.contributors == (uint32_t)c->n);
    check_result(c);
}

static tutti_status call_v(tutti_comm *comm, struct call *c)
{
    switch (c->coll) {
    case TUTTI_REDUCE_SCATTERV:
        return tutti_reduce_scatterv(c->src, c->dst, c->counts, c->type, c->op, comm, NULL);
    case TUTTI_ALLGATHERV:
        return tutti_allgatherv(c->src, c->dst, c->counts, NULL, c->type, comm, NULL);
    case TUTTI_GATHERV:
        return tutti_gatherv(c->src, c->dst, c->counts, NULL, c->type, ROOT, comm, NULL);
    case TUTTI_SCATTERV:
        return tutti_scatterv(c->src, c->dst, c->counts, NULL, c->type, ROOT, comm, NULL);
    default:
        return tutti_alltoallv(c->src, c->sent, NULL, c->dst, c->received, NULL, c->type, comm,
                               NULL);
    }
}

static tutti_status call_plain(tutti_comm *comm, struct call *c, const tutti_call *how)
{
    switch (c->coll) {
    case TUTTI_ALLREDUCE:
        return tutti_allreduce(c->src, c->dst, COUNT, c->type, c->op, comm, how);
    case TUTTI_REDUCE:
        return tutti_reduce(c->src, c->dst, COUNT, c->type, c->op, ROOT, comm, how);
    case TUTTI_REDUCE_SCATTER:
        return tutti_reduce_scatter(c->src, c->dst, COUNT, c->type, c->op, comm, how);
    case TUTTI_ALLGATHER:
        return tutti_allgather(c->src, c->dst, COUNT, c->type, comm, how);
    case TUTTI_BROADCAST:
        return tutti_broadcast(c->src, c->dst, COUNT, c->type, ROOT, comm, how);
    case TUTTI_GATHER:
        return tutti_gather(c->src, c->dst, COUNT, c->type, ROOT, comm, how);
    case TUTTI_SCATTER:
        return tutti_scatter(c->src, c->dst, COUNT, c->type, ROOT, comm, how);
    case TUTTI_ALLTOALL:
        return tutti_alltoall(c->src, c->dst, COUNT, c->type, comm, how);
    case TUTTI_BARRIER:
        return tutti_barrier(comm, how);
    default:
        return call_v(comm, c);
    }
}

static void call_on_comm(tutti_run *run, struct call *c)
{
    const tutti_call how = { .size = sizeof how, .scale = c->op == TUTTI_PREMUL_SUM ? 2 : 0 };

    fill(c);
    MUST(call_plain(tutti_run_comm(run), c, &how));
    check_result(c);
}

/* ---- all combinations ---- */

static void each_call(tutti_run *run, const tutti_view *view,
                      void (*make)(tutti_run *run, struct call *c))
{
    struct call c = { .n = view->nranks, .rank = view->rank };

    for (c.type = 0; c.type < TUTTI_DTYPE_COUNT; c.type++) {
        for (c.coll = TUTTI_ALLREDUCE; c.coll <= TUTTI_ALLTOALLV; c.coll++)
            make(run, &c);
        c.coll = TUTTI_ALLREDUCE;
        for (c.op = TUTTI_SUM + 1; c.op < TUTTI_REDOP_COUNT; c.op++)
            if (tt_reduce_defined(c.type, c.op))
                make(run, &c);
        c.op = TUTTI_SUM;
    }
}

/* In a group of calls, each member sends to the next one; then rank 0 sends to the last. */
static void from_one_to_another(tutti_run *run, const tutti_view *view)
{
    tutti_comm *comm = tutti_run_comm(run);
    const int n = view->nranks, rank = view->rank;
    int64_t out = 100 + rank, in = 0;
    const tutti_p2p ops[] = {
        { .peer = (rank + 1) % n, .buf = &out, .count = 1, .type = TUTTI_I64 },
        { .is_recv = 1, .peer = (rank + n - 1) % n, .buf = &in, .count = 1, .type = TUTTI_I64 },
    };

    MUST(tutti_group(ops, 2, comm, NULL));
    CHECK(in == 100 + (rank + n - 1) % n);
    if (rank == 0)
        MUST(tutti_send(&out, 1, TUTTI_I64, n - 1, comm, NULL));
    if (rank == n - 1) {
        MUST(tutti_recv(&in, 1, TUTTI_I64, 0, comm, NULL));
        CHECK(in == 100);
    }
}

static void enter(struct guest *g, tutti_view *view)
{
    *view = (tutti_view){ .size = sizeof *view };
    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, MEMBERS, 0, 0, view));
    CHECK(view->nranks == MEMBERS);
}

/* Waits for all members. */
static void wait_for_all(struct guest *g)
{
    uint64_t flags = 0;

    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void operations(struct guest *g)
{
    tutti_view view;

    enter(g, &view);
    each_call(g->run, &view, operate);
    wait_for_all(g);
}

static void calls(struct guest *g)
{
    tutti_view view;
    bool leaves;

    enter(g, &view);
    each_call(g->run, &view, call_on_comm);
    from_one_to_another(g->run, &view);
    leaves = view.rank == 0;
    if (leaves)
        MUST(tutti_run_leave(g->run));
    MUST(tutti_run_epoch(g->run, 0, 0, 0, 0, &view));
    if (leaves)
        return;
    CHECK(view.nranks == MEMBERS - 1);
    each_call(g->run, &view, call_on_comm);
    from_one_to_another(g->run, &view);
    wait_for_all(g);
}

static void play(void (*program)(struct guest *g))
{
    struct party p;

    party_begin(&p, 20000, 100, NULL); /* a lease so long that no member is lost on a slow
                                          machine */
    party_run(&p, MEMBERS, program, NULL);
    party_end(&p);
}

static void run_operations_cover_all_types(void **state)
{
    (void)state;
    play(operations);
}

static void view_communicator_has_every_call(void **state)
{
    (void)state;
    play(calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_operations_cover_all_types),
        cmocka_unit_test(view_communicator_has_every_call),
    };

    return cmocka_run_group_tests_name("types", tests, NULL, NULL);
}
