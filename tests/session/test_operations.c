/* Operations of a run other than an all-reduce of all members: variable collectives, quantized
 * ones, partial ones, and those of replica groups and roles. Members are threads of this
 * process. */
#include "session/party.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "reduce/reduce.h"
#include "session/run.h"

static void enter(struct guest *g, uint32_t n, tutti_view *view)
{
    *view = (tutti_view){ .size = sizeof *view };
    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, n, 0, 0, view));
    CHECK(view->nranks == (int)n);
}

/* Waits for all members. */
static void wait_for_all(struct guest *g)
{
    uint64_t flags = 0;

    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static tutti_elastic operation(tutti_coll coll, const void *src, void *dst, size_t count,
                               tutti_dtype type)
{
    return (tutti_elastic){ .size = sizeof(tutti_elastic),
                            .coll = coll,
                            .src = src,
                            .dst = dst,
                            .count = count,
                            .type = type };
}

/* Checks that `number` is equal on all members. */
static void check_alike(struct guest *g, uint64_t number)
{
    uint64_t ones = 0, zeros = 0;

    MUST(tutti_run_agree(g->run, number, 0, &ones));
    MUST(tutti_run_agree(g->run, ~number, 0, &zeros));
    CHECK(ones == number && zeros == ~number);
}

static void play(uint32_t n, uint32_t nroles, void (*program)(struct guest *g))
{
    struct party p;

    party_begin(&p, 20000, 100, NULL); /* a lease so long that no member is lost on a slow
                                          machine */
    p.nroles = nroles;
    party_run(&p, n, program, NULL);
    party_end(&p);
}

/* ---- blocks of different sizes ---- */

#define MEMBERS 3
#define ROOT 2
#define ALL 9               /* elements of all blocks */
#define APART 16            /* distance between blocks with gaps */

static const size_t counts[MEMBERS] = { 4, 0, 5 }, apart[MEMBERS] = { 0, APART, 2 * APART };

static int32_t element(int from, int to, size_t i)
{
    return from * 10000 + to * 100 + (int32_t)i;
}

static void gathers(struct guest *g, int rank)
{
    int32_t mine[5], all[ALL];

    for (int rooted = 0; rooted < 2; rooted++) {
        tutti_elastic op =
            operation(rooted ? TUTTI_GATHERV : TUTTI_ALLGATHERV, mine, all, 0, TUTTI_I32);

        op.counts = counts;
        op.root = ROOT;
        for (size_t i = 0; i < counts[rank]; i++)
            mine[i] = element(rank, 0, i);
        memset(all, 0, sizeof all);
        MUST(tutti_run_collective(g->run, &op));
        CHECK(op.contributors == MEMBERS);
        for (size_t i = 0; i < ALL && (!rooted || rank == ROOT); i++)
            CHECK(all[i] == (i < 4 ? element(0, 0, i) : element(2, 0, i - 4)));
    }
}

static void scatters(struct guest *g, int rank)
{
    int32_t all[ALL], mine[5];
    tutti_elastic op = operation(TUTTI_SCATTERV, all, mine, 0, TUTTI_I32);

    op.counts = counts;
    op.root = ROOT;
    for (size_t i = 0; i < ALL; i++)
        all[i] = (int32_t)i;
    MUST(tutti_run_collective(g->run, &op));
    for (size_t i = 0; i < counts[rank]; i++)
        CHECK(mine[i] == (int32_t)(rank == 0 ? i : 4 + i));
    op.coll = TUTTI_REDUCE_SCATTERV;
    op.dst = all + (rank == 0 ? 0 : 4); /* in place */
    MUST(tutti_run_collective(g->run, &op));
    for (size_t i = 0; i < counts[rank]; i++)
        CHECK(all[(rank == 0 ? 0 : 4) + i] == 3 * (int32_t)((rank == 0 ? 0 : 4) + i));
}

/* Rank r sends r + s + 1 elements to rank s. */
static void exchanges(struct guest *g, int rank)
{
    int32_t src[MEMBERS * 8], dst[MEMBERS * 8];
    size_t n[MEMBERS];
    static const size_t displs[MEMBERS] = { 0, 8, 16 };
    tutti_elastic op = operation(TUTTI_ALLTOALLV, src, dst, 0, TUTTI_I32);

    op.counts = op.recv_counts = n;
    op.displs = op.recv_displs = displs;
    for (int s = 0; s < MEMBERS; s++) {
        n[s] = (size_t)(rank + s + 1);
        for (size_t i = 0; i < n[s]; i++)
            src[displs[s] + i] = element(rank, s, i);
    }
    MUST(tutti_run_collective(g->run, &op));
    for (int s = 0; s < MEMBERS; s++)
        for (size_t i = 0; i < n[s]; i++)
            CHECK(dst[displs[s] + i] == element(s, rank, i));
}

/* Rank 0 has left; the remaining members still index by the ranks of the view. */
static void gathers_of_who_is_left(struct guest *g, int rank)
{
    int32_t mine[5], all[3 * APART];

    for (int rooted = 0; rooted < 2; rooted++) {
        tutti_elastic op =
            operation(rooted ? TUTTI_GATHERV : TUTTI_ALLGATHERV, mine, all, 0, TUTTI_I32);

        op.counts = counts;
        op.displs = apart;
        op.root = ROOT;
        op.mode = TUTTI_RETRY;
        for (size_t i = 0; i < counts[rank]; i++)
            mine[i] = element(rank, 7, i);
        memset(all, 0xff, sizeof all);
        MUST(tutti_run_collective(g->run, &op));
        CHECK(op.contributors == 2);
        for (size_t i = 0; i < 3 * APART && (!rooted || rank == ROOT); i++)
            CHECK(all[i] ==
                  (i >= 2 * APART && i < 2 * APART + 5 ? element(2, 7, i - 2 * APART) : -1));
        op.displs = NULL; /* packed, with space for all ranks */
        memset(all, 0xff, sizeof all);
        MUST(tutti_run_collective(g->run, &op));
        for (size_t i = 0; i < ALL && (!rooted || rank == ROOT); i++)
            CHECK(all[i] == (i >= 4 ? element(2, 7, i - 4) : -1));
    }
}

static void of_any_sizes(struct guest *g)
{
    int32_t src[ALL] = { 0 }, dst[ALL];
    tutti_elastic op = operation(TUTTI_ALLTOALLV, src, dst, 0, TUTTI_I32);
    tutti_view view;
    int rank;

    enter(g, MEMBERS, &view);
    rank = view.rank;
    gathers(g, rank);
    scatters(g, rank);
    exchanges(g, rank);
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          strstr(tutti_last_error(), "op.counts is NULL"));
    op.counts = counts;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          strstr(tutti_last_error(), "recv_counts is NULL"));
    op.recv_counts = counts;
    op.mode = TUTTI_RETRY;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          strstr(tutti_last_error(), "cannot be retried with fewer"));
    for (tutti_coll coll = TUTTI_ALLREDUCE; coll < TUTTI_COLL_COUNT; coll++) {
        const bool retried = coll == TUTTI_ALLREDUCE || coll == TUTTI_REDUCE ||
                             coll == TUTTI_BROADCAST || coll == TUTTI_BARRIER ||
                             coll == TUTTI_ALLGATHERV || coll == TUTTI_GATHERV;

        op.coll = coll;
        CHECK(tt_operation_check(g->run, &op, 0) == (retried ? TUTTI_OK : TUTTI_ERR_INVALID));
    }
    wait_for_all(g);
    if (rank == 0)
        return;
    gathers_of_who_is_left(g, rank);
    op = operation(TUTTI_REDUCE_SCATTERV, src, dst, 0, TUTTI_I32);
    op.counts = counts;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_PEER_LOST &&
          strstr(tutti_last_error(), "only 2 of 3 members remain"));
    MUST(tutti_run_shrink(g->run, 0, 0, &view)); /* changes nothing; it returns the remaining
                                                    members to the program */
    CHECK(view.nranks == 2);
    op.counts = counts + 1;
    MUST(tutti_run_collective(g->run, &op));
    wait_for_all(g);
}

static void v_collectives_work_after_a_loss(void **state)
{
    (void)state;
    play(MEMBERS, 0, of_any_sizes);
}

/* ---- quantized ---- */

#define NUMBERS 3000

struct numbers {
    float in[NUMBERS], v[NUMBERS], before[NUMBERS], residual[NUMBERS], residual_before[NUMBERS];
    double given[NUMBERS], got[NUMBERS];    /* totals of inputs and outputs of all successful
                                               calls */
};

static void draw(struct numbers *x, uint64_t seed)
{
    struct tt_prng prng;

    tt_prng_init(&prng, seed);
    for (size_t i = 0; i < NUMBERS; i++)
        x->v[i] = x->in[i] = (float)tt_prng_below(&prng, 1 << 20) / (1 << 20) - 0.5f;
    memcpy(x->before, x->v, sizeof x->v);
    memcpy(x->residual_before, x->residual, sizeof x->residual);
}

static tutti_elastic quantized(struct numbers *x, tutti_quant quant)
{
    tutti_elastic op = operation(TUTTI_ALLREDUCE, x->v, x->v, NUMBERS, TUTTI_F32);

    op.quant = quant;
    op.error_feedback = x->residual;
    return op;
}

static uint64_t hash_of(const struct numbers *x)
{
    return tt_hash_bytes(x->v, sizeof x->v, 1);
}

/* The operation completes on all members, but this one fails it, with the timeout of another
 * member, before it reports completion. Its own deadline has not passed, so it returns the cause
 * that the coordinator would have sent. */
static void fails_after_the_data(struct guest *g, tutti_elastic *op)
{
    struct tt_operation o;
    tutti_status st;

    tt_run_lock(g->run);
    MUST(tt_operation_begin(g->run, &o, op, op->tag, TT_NEVER));
    tt_run_unlock(g->run);
    MUST(tt_operation_perform(&o, NULL));
    tt_run_lock(g->run);
    tt_operation_fail(g->run, &o, tt_fail(TUTTI_ERR_TIMEOUT, "the test has it fail"));
    st = tt_operation_judge(g->run, &o);
    tt_run_unlock(g->run);
    CHECK(st == TUTTI_ERR_PEER_LOST && strstr(tutti_last_error(), "the test has it fail"));
}

/* Totals of outputs and inputs differ only by the residuals of all members. All sums are f64. */
static void check_nothing_is_lost(struct guest *g, struct numbers *x, double parts)
{
    double missing[NUMBERS];
    tutti_elastic op = operation(TUTTI_ALLREDUCE, x->given, x->given, NUMBERS, TUTTI_F64);

    MUST(tutti_run_collective(g->run, &op));
    for (size_t i = 0; i < NUMBERS; i++)
        missing[i] = (double)x->residual[i];
    op.src = op.dst = missing;
    MUST(tutti_run_collective(g->run, &op));
    for (size_t i = 0; i < NUMBERS; i++)
        CHECK(fabs(x->got[i] + missing[i] - x->given[i]) < 1e-4 * parts);
}

static void with_feedback(struct guest *g)
{
    struct numbers *x = calloc(1, sizeof *x);
    tutti_view view;
    tutti_elastic op = quantized(x, TUTTI_QUANT_MINMAX_U4);

    enter(g, MEMBERS, &view);
    for (int k = 0; k < 4; k++) {
        draw(x, (uint64_t)(view.members[view.rank].id * 100) + (uint64_t)k);
        if (k % 2) { /* this operation fails, and must have no effect */
            if (view.rank == 1)
                fails_after_the_data(g, &op);
            else
                CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_PEER_LOST);
            CHECK(memcmp(x->v, x->before, sizeof x->v) == 0);
            CHECK(memcmp(x->residual, x->residual_before, sizeof x->residual) == 0);
            MUST(tutti_run_shrink(g->run, MEMBERS, 0, &view));
        }
        MUST(tutti_run_collective(g->run, &op));
        CHECK(memcmp(x->residual, x->residual_before, sizeof x->residual) != 0);
        for (size_t i = 0; i < NUMBERS; i++) {
            x->given[i] += (double)x->in[i];
            x->got[i] += (double)x->v[i];
        }
        check_alike(g, hash_of(x));
    }
    check_nothing_is_lost(g, x, 4 * MEMBERS);
    free(x);
    wait_for_all(g);
}

static void restored_quantized_sum_keeps_feedback(void **state)
{
    (void)state;
    play(MEMBERS, 0, with_feedback);
}

/* In a quantized broadcast or allgather, in-place input becomes the quantized data, as on the
 * receivers. If the operation fails, the input is restored. */
static void what_is_given(struct guest *g)
{
    struct numbers *x = calloc(1, sizeof *x);
    float *all = calloc(MEMBERS * (size_t)NUMBERS, sizeof *all);
    tutti_elastic cast = operation(TUTTI_BROADCAST, x->v, x->v, NUMBERS, TUTTI_F32);
    tutti_view view;

    enter(g, MEMBERS, &view);
    cast.quant = TUTTI_QUANT_MINMAX_U4;
    for (int k = 0; k < 2; k++) {
        float *own = all + (size_t)view.rank * NUMBERS;
        tutti_elastic gather = operation(TUTTI_ALLGATHER, own, all, NUMBERS, TUTTI_F32);
        tutti_elastic *op = k ? &gather : &cast;

        gather.quant = cast.quant;
        draw(x, 7);
        memcpy(own, x->v, sizeof x->v);
        if (view.rank == 1)
            fails_after_the_data(g, op);
        else
            CHECK(tutti_run_collective(g->run, op) == TUTTI_ERR_PEER_LOST);
        CHECK((k || view.rank != 0) || memcmp(x->v, x->before, sizeof x->v) == 0);
        CHECK(!k || memcmp(own, x->before, sizeof x->v) == 0);
        MUST(tutti_run_shrink(g->run, MEMBERS, 0, &view));
        MUST(tutti_run_collective(g->run, op));
        CHECK(memcmp(k ? own : x->v, x->before, sizeof x->v) != 0);
    }
    free(all);
    free(x);
    wait_for_all(g);
}

static void quantized_in_place_input_is_restored(void **state)
{
    (void)state;
    play(MEMBERS, 0, what_is_given);
}

/* One member leaves, and the retry returns the sum of the other two. The bounded ring (ftar) does
 * not support quantization; the operation stays usable. */
static void retried_quantized(struct guest *g)
{
    struct numbers *x = calloc(1, sizeof *x);
    tutti_elastic op = quantized(x, TUTTI_QUANT_MINMAX_U8);
    tutti_view view;

    enter(g, MEMBERS, &view);
    wait_for_all(g);
    if (view.rank == 1) {
        free(x);
        return;
    }
    op.mode = TUTTI_RETRY;
    draw(x, 5);         /* equal on both */
    MUST(tutti_run_collective(g->run, &op));
    CHECK(op.contributors == 2);
    for (size_t i = 0; i < NUMBERS; i++)    /* values span 1 and sums 2; at most two encodings with
                                               255 steps */
        CHECK(fabsf(x->v[i] - 2 * x->in[i]) < 2 * (2 / 510.0f) + 1e-5f);
    check_alike(g, hash_of(x));
    op.type = TUTTI_I32;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_UNSUPPORTED); /* the epoch continues */
    op.type = TUTTI_F32;
    op.algo = "ftar";
    CHECK(tutti_run_collective(g->run, &op) != TUTTI_OK);
    op.quant = TUTTI_QUANT_NONE;
    op.error_feedback = NULL;
    draw(x, 5);
    MUST(tutti_run_collective(g->run, &op));
    for (size_t i = 0; i < NUMBERS; i++)
        CHECK(x->v[i] == 2 * x->in[i]);
    free(x);
    wait_for_all(g);
}

static void quantized_retry_needs_supported_ring(void **state)
{
    (void)state;
    play(MEMBERS, 0, retried_quantized);
}

/* ---- contributors ---- */

/* Rank 1 of three contributes nothing; later the last rank is lost. */
static void partial_step(struct guest *g, int rank, uint32_t givers, bool by_batch)
{
    const bool withholds = rank == 1;
    float in[300], out[300];
    int64_t whole = 100 + rank;
    tutti_elastic ops[3];

    for (int i = 0; i < 300; i++)
        in[i] = withholds ? NAN : (float)(rank + i);
    ops[0] = operation(TUTTI_ALLREDUCE, in, out, 300, TUTTI_F32);
    ops[0].op = TUTTI_AVG;
    ops[1] = operation(TUTTI_ALLREDUCE, &whole, &whole, 1, TUTTI_I64);
    ops[1].tag = 1;
    ops[2] = ops[0];
    ops[2].divisor = 8; /* as for a fixed world size */
    for (int k = 0; k < 3; k++) {
        ops[k].mode = TUTTI_PARTIAL;
        ops[k].withholds = withholds;
    }
    if (withholds)
        ops[0].src = ops[1].src = NULL;
    if (by_batch)
        MUST(tutti_run_batch(g->run, ops, 2, 0, 2));
    for (int k = 0; k < 2 && !by_batch; k++)
        MUST(tutti_run_collective(g->run, &ops[k]));
    for (int i = 0; i < 300; i++)
        CHECK(out[i] == (float)i + (givers == 2 ? 1.0f : 0.0f));
    CHECK(whole == (givers == 2 ? 202 : 100) && ops[0].contributors == givers &&
          ops[1].contributors == givers);
    MUST(tutti_run_collective(g->run, &ops[2]));
    for (int i = 0; i < 300; i++)
        CHECK(out[i] == (givers == 2 ? (float)(2 * i + 2) : (float)i) / 8);
}

static void some_withhold(struct guest *g)
{
    float v = 1;
    tutti_elastic op = operation(TUTTI_ALLREDUCE, &v, &v, 1, TUTTI_F32);
    tutti_view view;

    enter(g, 3, &view);
    op.withholds = 1;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          strstr(tutti_last_error(), "requires op.mode TUTTI_PARTIAL"));
    op.mode = TUTTI_PARTIAL;
    op.op = TUTTI_MAX;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          strstr(tutti_last_error(), "sum or avg"));
    op.op = TUTTI_AVG;
    op.error_feedback = &v;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          strstr(tutti_last_error(), "error_feedback"));
    op.error_feedback = NULL;
    MUST(tutti_run_collective(g->run, &op)); /* without contributors */
    CHECK(v == 0 && op.contributors == 0);
    for (int k = 0; k < 4; k++)
        partial_step(g, view.rank, 2, k % 2);
    if (view.rank == 2)
        return;
    for (int k = 0; k < 4; k++)
        partial_step(g, view.rank, 1, k % 2);
    wait_for_all(g);
}

static void result_includes_only_contributors(void **state)
{
    (void)state;
    play(3, 0, some_withhold);
}

/* The sum exceeds the range of f16, but its average does not: values are divided before they are
 * rounded. */
static void averages_of_large_numbers(struct guest *g)
{
    uint16_t v[64];
    tutti_elastic op = operation(TUTTI_ALLREDUCE, v, v, 64, TUTTI_F16);
    tutti_view view;

    enter(g, 2, &view);
    op.op = TUTTI_AVG;
    op.mode = TUTTI_PARTIAL;
    op.divisor = 4;
    for (int i = 0; i < 64; i++)
        v[i] = tt_f32_to_f16(60000);
    MUST(tutti_run_collective(g->run, &op));
    for (int i = 0; i < 64; i++)
        CHECK(tt_f16_to_f32(v[i]) == 30000);
    wait_for_all(g);
}

static void average_divides_before_rounding(void **state)
{
    (void)state;
    play(2, 0, averages_of_large_numbers);
}

/* The last remaining member has no other contribution, but its average is still divided. */
static void alone_by_a_divisor(struct guest *g)
{
    float v[5] = { 8, -4, 2, 0, 1 }, out[5];
    tutti_elastic op = operation(TUTTI_ALLREDUCE, v, out, 5, TUTTI_F32);
    tutti_view view;

    enter(g, 1, &view);
    op.op = TUTTI_AVG;
    op.divisor = 4;
    for (int k = 0; k < 3; k++) { /* out of place, in place, quantized */
        op.dst = k == 1 ? v : out;
        op.quant = k == 2 ? TUTTI_QUANT_F8E4M3 : TUTTI_QUANT_NONE;
        MUST(tutti_run_collective(g->run, &op));
        for (int i = 0; i < 5; i++) {
            static const float in[5] = { 8, -4, 2, 0, 1 };

            CHECK(((float *)op.dst)[i] == in[i] / (k == 2 ? 16 : 4));
        }
    }
    op.op = TUTTI_SUM;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          strstr(tutti_last_error(), "tutti_run_collective: op.divisor is 4 with op.op sum"));
    op.op = TUTTI_AVG;
    op.divisor = 1ull << 32;
    CHECK(tutti_run_batch(g->run, &op, 1, 0, 1) == TUTTI_ERR_INVALID &&
          strstr(tutti_last_error(), "tutti_run_batch: op.divisor is 4294967296 with op.op avg"));
    op.op = TUTTI_PREMUL_SUM;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          strstr(tutti_last_error(),
                 "tutti_run_collective: TUTTI_PREMUL_SUM requires op.scale: it is 0"));
}

static void fixed_divisor_applies_to_one_member(void **state)
{
    (void)state;
    play(1, 0, alone_by_a_divisor);
}

/* In each mode, the operation fails on all members and has no effect. The detecting member reports
 * both divisors. */
static void averages_over_different_numbers(struct guest *g)
{
    tutti_elastic op = operation(TUTTI_ALLREDUCE, NULL, NULL, 300, TUTTI_F32);
    float v[300] = { 3, -1 }, was[300];
    uint64_t flags = 0;
    tutti_view view;

    enter(g, 3, &view);
    memcpy(was, v, sizeof v);
    op.src = op.dst = v;
    op.op = TUTTI_AVG;
    for (int k = 0; k < 8; k++) {
        const uint64_t other = k < 4 ? 8 : 0;
        tutti_status st;

        op.mode = (tutti_mode)(k % 4 % 3);
        op.tentative = k % 4 == 3;
        op.divisor = view.rank == 2 ? other : 4;
        st = tutti_run_collective(g->run, &op);
        CHECK(st == TUTTI_ERR_MISMATCH || st == TUTTI_ERR_PEER_LOST);
        if (strstr(tutti_last_error(), "op avg, divisor 4") &&
            strstr(tutti_last_error(), "member 3 called allreduce") &&
            strstr(tutti_last_error(), other ? "op avg, divisor 8" : "op avg, no divisor"))
            atomic_fetch_or(&g->party->step, 1 << k);
        do { /* others may retry the operation; none starts the next one before all have finished
                this one */
            st = tutti_run_shrink(g->run, 3, 0, &view);
            st = st ? st : tutti_run_agree(g->run, 1, 0, &flags);
        } while (st == TUTTI_ERR_MISMATCH || st == TUTTI_ERR_PEER_LOST);
        MUST(st);
        CHECK(memcmp(v, was, sizeof v) == 0);
    }
    CHECK(atomic_load(&g->party->step) == 0xff);
}

static void different_divisors_are_a_mismatch(void **state)
{
    (void)state;
    play(3, 0, averages_over_different_numbers);
}

/* ---- replica groups ---- */

#define ROLES 2
#define SHARD 5000

/* The sum over the members of a role. Each role has a shard of its own length; the algorithm is the
 * bounded ring (ftar). */
static tutti_elastic sum_of_shards(const tutti_member *own, int64_t *v)
{
    const size_t n = SHARD + own->role;
    tutti_elastic op = operation(TUTTI_ALLREDUCE, v, v, n, TUTTI_I64);

    for (size_t i = 0; i < n; i++)
        v[i] = (int64_t)((own->group + 1) * (i + own->role));
    op.scope = TUTTI_SCOPE_ROLE;
    op.algo = "ftar";
    op.mode = TUTTI_RETRY;
    return op;
}

static void sum_of_roles(struct guest *g, const tutti_view *view, uint32_t groups,
                         uint64_t expected)
{
    const tutti_member member = view->members[view->rank], *own = &member; /* the view may change */
    const size_t n = SHARD + own->role;
    int64_t v[SHARD + ROLES];
    tutti_elastic op = sum_of_shards(own, v);

    MUST(tutti_run_collective(g->run, &op));
    CHECK(op.contributors == groups);
    for (size_t i = 0; i < n; i++)
        CHECK(v[i] == (int64_t)(expected * (i + own->role)));
}

/* As sum_of_roles, with the timers of the ring's steps. */
static void sum_of_roles_timed(struct guest *g, const tutti_view *view, uint32_t groups,
                               uint64_t expected)
{
    tutti_times t = { .size = sizeof t };

    MUST(tutti_comm_time(tutti_run_comm(g->run), 1));
    sum_of_roles(g, view, groups, expected);
    MUST(tutti_comm_times(tutti_run_comm(g->run), &t));
    CHECK(t.calls >= 1 && t.call_ns > 0 && t.send_ns > 0 && t.copy_ns > 0);
    CHECK(t.forward_ns > 0 && t.reduce_ns > 0); /* each rank reduces one piece, and forwards another
                                                   one */
    CHECK(t.call_ns >= t.send_ns + t.forward_ns + t.reduce_ns + t.copy_ns);
    MUST(tutti_comm_time(tutti_run_comm(g->run), 0));
    MUST(tutti_comm_times(tutti_run_comm(g->run), &t));
    CHECK(t.calls == 0 && t.call_ns == 0);
    t.size--;
    CHECK(tutti_comm_times(tutti_run_comm(g->run), &t) == TUTTI_ERR_INVALID);
    CHECK(tutti_comm_times(tutti_run_comm(g->run), NULL) == TUTTI_ERR_INVALID);
    CHECK(tutti_comm_time(NULL, 1) == TUTTI_ERR_INVALID);
}

/* The members of a group exchange their values. A view has all members of a group or none, so this
 * operation may be retried. */
static void gather_of_group(struct guest *g, const tutti_view *view)
{
    const tutti_member *own = &view->members[view->rank];
    uint32_t mine[2] = { own->group, own->role }, all[ROLES][2];
    tutti_elastic op = operation(TUTTI_ALLGATHER, mine, all, 2, TUTTI_U32);

    op.scope = TUTTI_SCOPE_GROUP;
    op.mode = TUTTI_RETRY;
    op.tag = 1;
    MUST(tutti_run_collective(g->run, &op));
    CHECK(op.contributors == ROLES);
    for (uint32_t k = 0; k < ROLES; k++)
        CHECK(all[k][0] == own->group && all[k][1] == k);
}

/* Root: the last group's member of this role. */
static void broadcast_of_role(struct guest *g, const tutti_view *view)
{
    const tutti_member *own = &view->members[view->rank];
    uint32_t v[2] = { own->group, own->role };
    tutti_elastic op = operation(TUTTI_BROADCAST, v, v, 2, TUTTI_U32);

    op.scope = TUTTI_SCOPE_ROLE;
    op.root = view->nranks / ROLES - 1;
    MUST(tutti_run_collective(g->run, &op));
    CHECK(v[0] == view->members[view->nranks - 1].group && v[1] == own->role);
}

/* The second of three groups loses a member, which is then replaced. */
static void groups_go_and_come(struct guest *g)
{
    int64_t v[SHARD + ROLES];
    tutti_elastic op;
    tutti_view view;

    enter(g, 3 * ROLES, &view);
    sum_of_roles_timed(g, &view, 3, 1 + 2 + 3);
    gather_of_group(g, &view);
    broadcast_of_role(g, &view);
    wait_for_all(g);
    if (g->index == 1 * ROLES + 1) { /* exits without notice; a new member replaces it */
        tutti_run_destroy(g->run);
        party_await(g->party, 2);
        g->run = party_join(g->party, g->index, NULL);
    } else if (g->index == 1 * ROLES) { /* its group is incomplete, so its operation is not
                                           retried */
        op = sum_of_shards(&view.members[view.rank], v);
        CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_PEER_LOST && v[1] == 2);
        CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_PEER_LOST && v[1] == 2);
    } else {
        sum_of_roles(g, &view, 2, 1 + 3); /* the other groups continue */
        MUST(tutti_run_view(g->run, &view));
        CHECK(view.nranks == 2 * ROLES);
        gather_of_group(g, &view);
        wait_for_all(g);
        party_reach(g->party, 2);
    }
    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, 3 * ROLES, 0, 0, &view));
    CHECK(view.nranks == 3 * ROLES && view.changed);
    sum_of_roles(g, &view, 3, 1 + 2 + 3);
    gather_of_group(g, &view);
    broadcast_of_role(g, &view);
    wait_for_all(g);
}

static void replica_groups_leave_and_return(void **state)
{
    (void)state;
    play(3 * ROLES, ROLES, groups_go_and_come);
}

/* ---- tentative operations of a role or a group ---- */

#define PART 6

static tutti_elastic part_of(int64_t *v, size_t n, tutti_scope scope, uint32_t tag, int64_t value)
{
    tutti_elastic op = operation(TUTTI_ALLREDUCE, v, v, n, TUTTI_I64);

    for (size_t i = 0; i < n; i++)
        v[i] = value + (int64_t)i;
    op.scope = scope;
    op.tag = tag;
    op.tentative = 1;
    return op;
}

static void check_part(const int64_t *v, size_t n, int64_t members, int64_t values)
{
    for (size_t i = 0; i < n; i++)
        CHECK(v[i] == values + members * (int64_t)i);
}

/* One operation per tag. Roles have parts of different lengths, one of them empty. A commit, or an
 * operation of all members, makes all of them FINAL. */
static void parts_are_committed(struct guest *g)
{
    int64_t a[PART], b[PART], c[PART], d[1];
    tutti_elastic ops[3], other;
    int outcome = 0;
    tutti_view view;
    size_t n;

    enter(g, 2 * ROLES, &view);
    n = PART - view.members[view.rank].role;
    ops[0] = part_of(a, n, TUTTI_SCOPE_ROLE, 0, 10 * view.rank);
    ops[1] = part_of(b, PART, TUTTI_SCOPE_GROUP, 1, 10 * view.rank);
    ops[2] = part_of(c, n == PART ? 3 : 0, TUTTI_SCOPE_ROLE, 2, 10 * view.rank);
    for (int k = 0; k < 3; k++) {
        MUST(tutti_run_collective(g->run, &ops[k]));
        CHECK(ops[k].status == TUTTI_PENDING && ops[k].contributors == 2);
    }
    check_part(a, n, 2, 10 * (2 * (view.rank % ROLES) + ROLES));
    check_part(b, PART, 2, 10 * (2 * (view.rank - view.rank % ROLES) + 1));
    other = part_of(d, 1, TUTTI_SCOPE_GROUP, 0, 1);
    CHECK(tutti_run_collective(g->run, &other) == TUTTI_ERR_INVALID &&
          strstr(tutti_last_error(), "cannot follow it"));
    CHECK(ops[0].status == TUTTI_PENDING);
    MUST(tutti_run_commit(g->run, 1, 0, &outcome));
    CHECK(outcome == 1);
    for (int k = 0; k < 3; k++)
        CHECK(ops[k].status == TUTTI_OK);
    for (int all = 0; all < 2; all++) {
        ops[0] = part_of(a, n, TUTTI_SCOPE_ROLE, 0, 10 * view.rank);
        MUST(tutti_run_collective(g->run, &ops[0]));
        CHECK(ops[0].status == TUTTI_PENDING);
        other = part_of(d, 1, all ? TUTTI_SCOPE_ALL : TUTTI_SCOPE_GROUP, 0, 1);
        other.tentative = all;
        MUST(tutti_run_collective(g->run, &other));
        CHECK(ops[0].status == TUTTI_OK && other.status == (all ? TUTTI_PENDING : TUTTI_OK));
        CHECK(d[0] == (all ? 2 * ROLES : ROLES));
    }
    MUST(tutti_run_commit(g->run, 1, 0, &outcome));
    CHECK(outcome == 1 && other.status == TUTTI_OK);
    wait_for_all(g);
}

/* Member 3 exits after all have the sums of their roles. Then members 0 and 2 commit, and member 1
 * requests the next view. */
static void one_goes_after_its_part(struct guest *g)
{
    int64_t a[PART];
    tutti_elastic op;
    int outcome = 1;
    tutti_view view;

    enter(g, 2 * ROLES, &view);
    op = part_of(a, PART, TUTTI_SCOPE_ROLE, 1, 7);
    MUST(tutti_run_collective(g->run, &op));
    check_part(a, PART, 2, 14);
    atomic_fetch_add(&g->party->step, 1);
    party_await(g->party, 2 * ROLES);
    if (g->index == 3)
        return;
    if (g->index != 1) {
        MUST(tutti_run_commit(g->run, 1, 0, &outcome));
        CHECK(outcome == 0 && op.status == TUTTI_ERR_PEER_LOST);
        check_part(a, PART, 1, 7);
    }
    if (g->index == 2)
        return; /* its group has lost a member */
    do
        MUST(tutti_run_shrink(g->run, 0, 0, &view));
    while (view.nranks > ROLES);
    CHECK(op.status == TUTTI_ERR_PEER_LOST);
    check_part(a, PART, 1, 7);
    MUST(tutti_run_collective(g->run, &op)); /* again, with the remaining group */
    CHECK(op.status == TUTTI_PENDING && op.contributors == 1);
    MUST(tutti_run_commit(g->run, 1, 0, &outcome));
    CHECK(outcome == 1 && op.status == TUTTI_OK);
    wait_for_all(g);
}

/* Role 1 omits the operation that role 0 has completed: a commit does not make it FINAL. */
static void one_role_leaves_it_out(struct guest *g)
{
    int64_t a[PART];
    tutti_elastic op;
    int outcome = 7;
    tutti_view view;
    bool makes;

    enter(g, 2 * ROLES, &view);
    makes = view.members[view.rank].role == 0;
    op = part_of(a, PART, TUTTI_SCOPE_ROLE, 1, 7);
    if (makes)
        MUST(tutti_run_collective(g->run, &op));
    CHECK(tutti_run_commit(g->run, 1, 0, &outcome) == TUTTI_ERR_MISMATCH && outcome == 7);
    CHECK(strstr(tutti_last_error(), "after different operations") != NULL);
    CHECK(strstr(tutti_last_error(),
                 " (to roll back tentative operations, call tutti_run_revoke") != NULL);
    CHECK(!makes || op.status == TUTTI_PENDING);
    MUST(tutti_run_revoke(g->run));
    MUST(tutti_run_epoch(g->run, 0, 0, 0, 0, &view));
    /* the other members' programs called commit, not epoch */
    CHECK(strstr(tutti_last_error(), "tutti_run_epoch commits tentative operations first") != NULL);
    CHECK(view.nranks == 2 * ROLES && view.changed);
    CHECK(!makes || op.status == TUTTI_ERR_PEER_LOST);
    check_part(a, PART, 1, 7);
    wait_for_all(g);
}

/* Role 1 passes invalid arguments, which end the epoch. Another member of the role that calls later
 * gets only that end. */
static void one_role_is_refused(struct guest *g)
{
    int64_t a[PART];
    tutti_elastic op;
    tutti_status st;
    tutti_view view;
    uint64_t all = 1;
    bool refused;

    enter(g, 2 * ROLES, &view);
    wait_for_all(g); /* no member learns of the epoch's end before it is in the epoch */
    refused = view.members[view.rank].role == 1;
    op = part_of(a, PART, TUTTI_SCOPE_ROLE, 1, 7);
    if (refused)
        op.type = (tutti_dtype)99;
    st = tutti_run_collective(g->run, &op);
    CHECK(st == TUTTI_ERR_PEER_LOST || st == (refused ? TUTTI_ERR_INVALID : TUTTI_OK));
    CHECK(st != TUTTI_ERR_INVALID || strstr(tutti_last_error(), "unknown type 99"));
    MUST(tutti_run_epoch(g->run, 0, 0, 0, 0, &view));
    CHECK(view.nranks == 2 * ROLES && view.changed);
    CHECK(op.status == (st == TUTTI_ERR_INVALID ? st : TUTTI_ERR_PEER_LOST));
    check_part(a, PART, 1, 7);
    MUST(tutti_run_agree(g->run, st != TUTTI_ERR_INVALID, 0, &all));
    CHECK(all == 0); /* at least one member has reported the cause */
}

static void scoped_tentative_operations_have_one_outcome(void **state)
{
    (void)state;
    play(2 * ROLES, ROLES, parts_are_committed);
    play(2 * ROLES, ROLES, one_goes_after_its_part);
    play(2 * ROLES, ROLES, one_role_leaves_it_out);
    play(2 * ROLES, ROLES, one_role_is_refused);
}

/* The result depends on the number of members, so it is not retried with fewer. Within a group it
 * is: groups are complete. */
static void what_depends_on_their_number(struct guest *g)
{
    static const tutti_coll colls[] = { TUTTI_ALLGATHER, TUTTI_GATHER,   TUTTI_REDUCE_SCATTER,
                                        TUTTI_SCATTER,   TUTTI_ALLTOALL, TUTTI_REDUCE_SCATTERV,
                                        TUTTI_SCATTERV,  TUTTI_ALLTOALLV };
    const size_t ones[2 * ROLES] = { 1, 1, 1, 1 };
    int64_t in[2 * ROLES] = { 1, 2, 3, 4 }, out[2 * ROLES] = { 0 };
    tutti_view view;

    enter(g, 2 * ROLES, &view);
    for (size_t k = 0; k < sizeof colls / sizeof *colls; k++) {
        tutti_elastic op = operation(colls[k], in, out, 1, TUTTI_I64);

        op.counts = op.recv_counts = ones;
        op.mode = TUTTI_RETRY;
        for (int role = 0; role < 2; role++) {
            op.scope = role ? TUTTI_SCOPE_ROLE : TUTTI_SCOPE_ALL;
            CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID);
            CHECK(strstr(tutti_last_error(), "cannot be retried with fewer") != NULL &&
                  out[0] == 0);
        }
        op.scope = TUTTI_SCOPE_GROUP;
        MUST(tutti_run_collective(g->run, &op));
        CHECK(op.contributors == ROLES);
        memset(out, 0, sizeof out);
    }
    wait_for_all(g);
}

static void size_dependent_operation_is_not_retried(void **state)
{
    (void)state;
    play(2 * ROLES, ROLES, what_depends_on_their_number);
}

static void without_groups(struct guest *g)
{
    int64_t v = 3;
    tutti_elastic op = operation(TUTTI_ALLREDUCE, &v, &v, 1, TUTTI_I64);
    tutti_view view;

    enter(g, 2, &view);
    op.scope = TUTTI_SCOPE_GROUP;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          strstr(tutti_last_error(), "requires replica groups"));
    op.scope = (tutti_scope)3;
    CHECK(tutti_run_collective(g->run, &op) == TUTTI_ERR_INVALID &&
          strstr(tutti_last_error(), "op.scope is 3"));
    op.scope = TUTTI_SCOPE_ROLE;
    MUST(tutti_run_collective(g->run, &op)); /* without groups, all members have the same role */
    CHECK(v == 6 && op.contributors == 2);
    wait_for_all(g);
}

static void without_groups_all_share_a_role(void **state)
{
    (void)state;
    play(2, 0, without_groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v_collectives_work_after_a_loss),
        cmocka_unit_test(restored_quantized_sum_keeps_feedback),
        cmocka_unit_test(quantized_in_place_input_is_restored),
        cmocka_unit_test(quantized_retry_needs_supported_ring),
        cmocka_unit_test(result_includes_only_contributors),
        cmocka_unit_test(average_divides_before_rounding),
        cmocka_unit_test(fixed_divisor_applies_to_one_member),
        cmocka_unit_test(different_divisors_are_a_mismatch),
        cmocka_unit_test(replica_groups_leave_and_return),
        cmocka_unit_test(scoped_tentative_operations_have_one_outcome),
        cmocka_unit_test(size_dependent_operation_is_not_retried),
        cmocka_unit_test(without_groups_all_share_a_role),
    };

    return cmocka_run_group_tests_name("operations", tests, NULL, NULL);
}
