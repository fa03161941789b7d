/* Quantized collectives, by the public calls on real ranks: results are within the bound of
 * tutti.h, and bitwise identical everywhere. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include "algo/algos.h"
#include "base/prng.h"
#include "job.h"
#include "reduce/quant_packed.h"
#include "reduce/reduce.h"
#include "sched/sched.h"
#include "support/unit.h"

#define SEED 20261122
#define GUARD 64                /* bytes around a result, which must not change */

static const char *const wires[] = { "shm", "tcp" };
static const tutti_dtype types[] = { TUTTI_F32, TUTTI_F16, TUTTI_BF16, TUTTI_F64 };
static const enum tt_coll_kind kinds[] = { TT_ALLREDUCE, TT_REDUCE_SCATTER, TT_ALLGATHER,
                                           TT_BROADCAST, TT_REDUCE };

#define NWIRES (sizeof wires / sizeof *wires)
#define NTYPES (sizeof types / sizeof *types)
#define NKINDS (sizeof kinds / sizeof *kinds)

/* Distributions of numbers. */
enum like { EVEN, NEGATIVE, CONSTANT, DENORMAL, SPIKES, ZEROS, UNLIKE_BY_RANK, POISONED, LIKES };

struct call {
    enum tt_coll_kind kind;
    tutti_quant quant;
    tutti_dtype type;
    tutti_redop op;
    enum like like;
    int exponent;               /* of their magnitudes */
    size_t count;
    bool in_place;
    uint32_t root, skew;        /* skew: offset of buffers from alignment, in bytes */
    const char *algo;
    uint64_t salt;
};

/* ---- numbers ---- */

static double even(uint64_t salt, uint32_t rank, size_t i)
{
    return (double)(tt_mix64(salt ^ (uint64_t)rank << 48 ^ i) >> 11) * 0x1p-52 - 1;
}

static double number(const struct call *c, uint32_t rank, size_t i)
{
    const double u = even(c->salt, rank, i);
    const uint64_t dice = tt_mix64(c->salt + 1 + i * 7 + rank);

    switch (c->like) {
    case NEGATIVE:
        return ldexp(-1 - fabs(u), c->exponent);
    case CONSTANT:
        return ldexp(rank + 1.5, c->exponent);
    case DENORMAL:
        return u * 0x1p-130;
    case SPIKES:
        return ldexp(dice % 97 == 0 ? 1000 * u : u, c->exponent);
    case ZEROS:
        return dice % 2 ? 0 : -0.0;
    case UNLIKE_BY_RANK:
        return ldexp(u, c->exponent + 3 * (int)rank);
    case POISONED:
        return dice % 1500 ? ldexp(u, c->exponent) : dice / 1500 % 2 ? NAN : -INFINITY;
    default:
        return ldexp(u, c->exponent);
    }
}

static void store(tutti_dtype type, uint8_t *at, size_t i, double x)
{
    const float f = (float)x;
    uint16_t h;

    if (type == TUTTI_F64) {
        memcpy(at + i * 8, &x, 8);
    } else if (type == TUTTI_F32) {
        memcpy(at + i * 4, &f, 4);
    } else {
        h = type == TUTTI_F16 ? tt_f32_to_f16(f) : tt_f32_to_bf16(f);
        memcpy(at + i * 2, &h, 2);
    }
}

static double load(tutti_dtype type, const uint8_t *at, size_t i)
{
    double d;
    float f;
    uint16_t h;

    if (type == TUTTI_F64) {
        memcpy(&d, at + i * 8, 8);
        return d;
    }
    if (type == TUTTI_F32) {
        memcpy(&f, at + i * 4, 4);
        return (double)f;
    }
    memcpy(&h, at + i * 2, 2);
    return (double)(type == TUTTI_F16 ? tt_f16_to_f32(h) : tt_bf16_to_f32(h));
}

/* The input as stored on a rank. */
static double input(const struct call *c, uint32_t rank, size_t i)
{
    uint8_t at[8];

    store(c->type, at, 0, number(c, rank, i));
    return load(c->type, at, 0);
}

/* ---- shapes ---- */

static bool reduces(const struct call *c)
{
    return tt_coll_reduces(c->kind);
}
static size_t src_rows(const struct call *c, uint32_t n)
{
    return c->kind == TT_REDUCE_SCATTER ? n : 1;
}
static size_t dst_rows(const struct call *c, uint32_t n)
{
    return c->kind == TT_ALLGATHER ? n : 1;
}
static bool has_src(const struct call *c, uint32_t rank)
{
    return c->kind != TT_BROADCAST || rank == c->root;
}
static bool has_dst(const struct call *c, uint32_t rank)
{
    return c->kind != TT_REDUCE || rank == c->root;
}

/* One rank's side. */
struct side {
    struct call call;
    uint32_t rank, nranks;
    uint8_t *mem, *src, *dst;   /* mem: memory of src and dst, with guards */
    size_t src_bytes, dst_bytes;
    tutti_request *request;
};

static void fill_src(struct side *s)
{
    const struct call *c = &s->call;

    for (size_t i = 0; has_src(c, s->rank) && i < src_rows(c, s->nranks) * c->count; i++)
        store(c->type, s->src, i, number(c, s->rank, i));
}

static void side_init(struct rank *r, struct side *s, const struct call *c)
{
    const size_t element = tutti_dtype_bytes(c->type), n = r->nranks;
    const size_t larger =
        (src_rows(c, r->nranks) > 1 || dst_rows(c, r->nranks) > 1 ? n : 1) * c->count * element;

    *s = (struct side){ .call = *c, .rank = r->rank, .nranks = r->nranks };
    s->src_bytes = src_rows(c, r->nranks) * c->count * element;
    s->dst_bytes = dst_rows(c, r->nranks) * c->count * element;
    s->mem = job_have(r, malloc(2 * (larger + GUARD) + GUARD + c->skew));
    memset(s->mem, 0xa5, 2 * (larger + GUARD) + GUARD + c->skew);
    s->dst = s->mem + GUARD + c->skew;
    s->src = s->dst + larger + GUARD;
    if (c->in_place && c->kind == TT_ALLGATHER)
        s->src = s->dst + r->rank * s->src_bytes;
    else if (c->in_place && c->kind == TT_REDUCE_SCATTER) {
        s->src = s->dst;
        s->dst = s->src + r->rank * s->dst_bytes;
    } else if (c->in_place) {
        s->src = s->dst;
    }
    fill_src(s);
}

static tutti_status go(struct side *s, tutti_comm *comm, float *feedback, bool with_request)
{
    const struct call *c = &s->call;
    const tutti_call how = {
        .size = sizeof how,
        .request = with_request ? &s->request : NULL,
        .algo = c->algo,
        .quant = c->quant,
        .error_feedback = feedback,
    };
    const int root = (int)c->root;

    switch (c->kind) {
    case TT_ALLREDUCE:
        return tutti_allreduce(s->src, s->dst, c->count, c->type, c->op, comm, &how);
    case TT_REDUCE:
        return tutti_reduce(s->src, s->dst, c->count, c->type, c->op, root, comm, &how);
    case TT_REDUCE_SCATTER:
        return tutti_reduce_scatter(s->src, s->dst, c->count, c->type, c->op, comm, &how);
    case TT_ALLGATHER:
        return tutti_allgather(s->src, s->dst, c->count, c->type, comm, &how);
    default:
        return tutti_broadcast(s->src, s->dst, c->count, c->type, root, comm, &how);
    }
}

/* ---- expected results ---- */

/* The inputs of element i of row `row` of this rank's result: the ranks, and the offset in their
 * src. */
struct origin {
    uint32_t first, end;
    size_t at;
};

static struct origin origin_of(const struct side *s, size_t row)
{
    const struct call *c = &s->call;

    if (c->kind == TT_ALLGATHER)
        return (struct origin){ (uint32_t)row, (uint32_t)row + 1, 0 };
    if (c->kind == TT_BROADCAST)
        return (struct origin){ c->root, c->root + 1, 0 };
    return (struct origin){ 0, s->nranks, c->kind == TT_REDUCE_SCATTER ? s->rank * c->count : 0 };
}

/* S, R and whether all values are finite, for a block of a row. */
struct span {
    double magnitude, range;
    bool finite;
};

static struct span span_of(const struct side *s, const struct origin *from, size_t begin,
                           size_t end)
{
    const bool zero = s->call.quant == TUTTI_QUANT_ZERO_U8 || s->call.quant == TUTTI_QUANT_ZERO_U4;
    struct span span = { .finite = true };

    for (uint32_t r = from->first; r < from->end; r++) {
        double low = zero ? 0 : INFINITY, high = zero ? 0 : -INFINITY;

        for (size_t i = begin; i < end; i++) {
            const double x = input(&s->call, r, from->at + i);

            span.finite = span.finite && isfinite(x);
            low = x < low ? x : low;
            high = x > high ? x : high;
        }
        span.magnitude += fmax(fabs(low), fabs(high));
        span.range += high - low;
    }
    return span;
}

static void check_block(struct rank *r, const struct side *s, const struct tt_packed *p, size_t row,
                        size_t begin, size_t end)
{
    const struct origin from = origin_of(s, row);
    const struct span span = span_of(s, &from, begin, end);
    const uint32_t n = s->nranks, times = reduces(&s->call) && n > 1 ? 2 * (n - 1) : 1;
    const double parts = s->call.op == TUTTI_AVG && reduces(&s->call) ? n : 1;

    for (size_t i = begin; i < end; i++) {
        const double got = load(s->call.type, s->dst, row * s->call.count + i);
        double sum = 0;

        if (!span.finite) {
            if (!isnan(got))
                job_fail(r, __FILE__, __LINE__, "element %zu of a poisoned block is %a", i, got);
            continue;
        }
        for (uint32_t k = from.first; k < from.end; k++)
            sum += input(&s->call, k, from.at + i);
        sum /= parts;
        if (!(fabs(got - sum) <=
              tt_packed_bound(p, span.magnitude / parts, span.range / parts, times, sum)))
            job_fail(r, __FILE__, __LINE__,
                     "element %zu of row %zu is %a, not %a: off by %g, more than %g", i, row, got,
                     sum, fabs(got - sum),
                     tt_packed_bound(p, span.magnitude / parts, span.range / parts, times, sum));
    }
}

static void check_right(struct rank *r, const struct side *s)
{
    const struct call *c = &s->call;
    struct tt_packed p;

    CHECK(r, tt_packed_init(&p, (enum tt_quant_codec)(c->quant - 1), c->type));
    for (size_t row = 0; has_dst(c, r->rank) && row < dst_rows(c, r->nranks); row++)
        for (size_t i = 0; i < c->count; i += p.block)
            check_block(r, s, &p, row, i, i + p.block < c->count ? i + p.block : c->count);
    if (c->in_place)
        return;
    for (size_t i = 0; i < GUARD; i++)
        CHECK(r, s->dst[-1 - (ptrdiff_t)i] == 0xa5 && s->dst[s->dst_bytes + i] == 0xa5);
    for (size_t i = 0; has_src(c, r->rank) && i < src_rows(c, r->nranks) * c->count; i++) {
        uint8_t before[8];

        store(c->type, before, 0, number(c, r->rank, i));
        CHECK(r, memcmp(before, s->src + i * tutti_dtype_bytes(c->type),
                        tutti_dtype_bytes(c->type)) == 0);
    }
}

static void step(struct rank *r, const struct call *c)
{
    job_step(r, "%s of %zu %s as %s, op %s, like %d * 2^%d%s, algorithm %s", tt_coll_name(c->kind),
             c->count, tutti_dtype_name(c->type), tutti_quant_name(c->quant),
             tutti_redop_name(c->op), (int)c->like, c->exponent, c->in_place ? ", in place" : "",
             c->algo ? c->algo : "of its choice");
}

/* Makes the call twice. The results must be bitwise identical, also on all ranks that have the
 * whole result. */
static void check_call(struct rank *r, const struct call *c, uint32_t number)
{
    const uint32_t word = number % 2;
    struct side s;
    uint64_t hash = 0;

    step(r, c);
    for (int turn = 0; turn < 2; turn++) {
        side_init(r, &s, c);
        CHECK_OK(r, go(&s, r->comm, NULL, false));
        if (turn == 0)
            check_right(r, &s);
        if (has_dst(c, r->rank)) {
            const uint64_t now = tt_hash_bytes(s.dst, s.dst_bytes, 1);

            CHECK(r, turn == 0 || now == hash);
            hash = now;
        }
        free(s.mem);
    }
    r->board->word[r->rank][word] = hash;
    job_meet(r);
    for (uint32_t peer = 0; peer < r->nranks; peer++)
        CHECK(r, c->kind == TT_REDUCE || c->kind == TT_REDUCE_SCATTER ||
                     r->board->word[peer][word] == hash);
}

static struct call draw(struct rank *r, enum tt_coll_kind kind, tutti_quant quant, tutti_dtype type,
                        size_t count)
{
    struct tt_prng *p = &r->common;
    const bool narrow = type == TUTTI_F16;

    return (struct call){
        .kind = kind, .quant = quant, .type = type, .count = count,
        .op = tt_prng_below(p, 2) ? TUTTI_SUM : TUTTI_AVG,
        .like = (enum like)tt_prng_below(p, LIKES),
        .exponent = narrow ? (int)tt_prng_below(p, 8) - 16 : (int)tt_prng_below(p, 220) - 120,
        .in_place = tt_prng_below(p, 2), .root = (uint32_t)tt_prng_below(p, r->nranks),
        .skew = (uint32_t)tt_prng_below(p, 9), .salt = tt_prng_u64(p),
    };
}

/* ---- tests ---- */

static void over_jobs(uint32_t least, uint32_t most, void (*role)(struct rank *))
{
    for (uint32_t n = least; n <= most; n++)
        for (size_t w = 0; w < NWIRES; w++) {
            const struct job job = { .wires = wires[w],
                                     .nranks = n,
                                     .seed = job_seed(SEED + n * 2 + w) };

            job_run(&job, role);
        }
}

static void bounds_role(struct rank *r)
{
    static const size_t counts[] = { 1, 247, 2000, 0, 30011 };
    uint32_t number = 0;

    job_open(r);
    for (size_t k = 0; k < NKINDS; k++)
        for (int q = 1; q < TUTTI_QUANT_COUNT; q++)
            for (size_t t = 0; t < NTYPES; t++) {
                const struct call c = draw(r, kinds[k], (tutti_quant)q, types[t],
                                           counts[tt_prng_below(&r->common, 5)]);

                if ((k + (size_t)q + t + r->nranks + r->job->seed) % 4 == 0 &&
                    unit_has_turn(k + (size_t)q, 4))
                    check_call(r, &c, number++);
            }
    CHECK(r, number > 0);
}

static void results_are_bounded_and_bitwise_identical(void **state)
{
    (void)state;
    over_jobs(1, 5, bounds_role);
}

static void algos_role(struct rank *r)
{
    uint32_t number = 0, nrefused = 0;

    job_open(r);
    for (size_t a = 0; a < tt_nalgos; a++) {
        bool known = false;

        for (size_t k = 0; k < NKINDS; k++)
            known |= kinds[k] == tt_algos[a]->kind;
        for (size_t i = 0; known && i < 2; i++) {
            struct call c = draw(r, tt_algos[a]->kind,
                                 TUTTI_QUANT_MINMAX_U8 + (tutti_quant)tt_prng_below(&r->common, 6),
                                 TUTTI_F32, i ? 40013 : 700);
            struct side s;
            tutti_status st;

            if (!unit_has_turn(a + i, 2))
                continue;
            c.algo = tt_algos[a]->name;
            side_init(r, &s, &c);
            step(r, &c);
            st = go(&s, r->comm, NULL, false);
            free(s.mem);
            if (st == TUTTI_OK) {
                check_call(r, &c, number++);
                continue;
            }
            CHECK_STATUS(r, st, TUTTI_ERR_INVALID);
            CHECK(r, strstr(tutti_last_error(), c.algo));
            nrefused++;
        }
    }
    CHECK(r, number > 2 * nrefused);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
}

static void algorithms_are_bounded_or_not_quantizable(void **state)
{
    (void)state;
    over_jobs(3, 4, algos_role);
}

/* ---- requests ---- */

static void requests_role(struct rank *r)
{
    enum { TOGETHER = 6 };
    struct side s[TOGETHER];

    job_open(r);
    for (uint32_t i = 0; i < TOGETHER; i++) {
        const struct call c = draw(r, kinds[i % NKINDS], (tutti_quant)(1 + i % 6),
                                   types[i % NTYPES], i % 2 ? 60000 : 300);

        side_init(r, &s[i], &c);
        step(r, &c);
        CHECK_OK(r, go(&s[i], r->comm, NULL, true));
    }
    for (uint32_t i = TOGETHER; i-- > 0;) {
        CHECK_OK(r, tutti_wait(s[i].request));
        step(r, &s[i].call);
        check_right(r, &s[i]);
        free(s[i].mem);
    }
}

static void several_can_run_at_once(void **state)
{
    (void)state;
    over_jobs(2, 3, requests_role);
}

/* ---- feedback ---- */

/* Repeated steps with the same inputs: the residuals contain the difference to the exact sum so
 * far, which is at most the error of some steps. */
static void feedback_role(struct rank *r)
{
    static const char *const algos[] = { "ring", "rabenseifner", "parallel_rings", NULL };
    enum { STEPS = 24, COUNT = 1000 };
    float *residual = job_have(r, malloc(COUNT * sizeof *residual)),
          *lost = job_have(r, malloc(COUNT * sizeof *lost));
    double *total = job_have(r, malloc(COUNT * sizeof *total));

    job_open(r);
    for (int q = 1; q < TUTTI_QUANT_COUNT; q++)
        for (size_t a = 0; a < sizeof algos / sizeof *algos; a++) {
            struct call c = draw(r, TT_ALLREDUCE, (tutti_quant)q, TUTTI_F32, COUNT);
            double worst = 0, first = 0;
            struct side s;

            if (!unit_has_turn((size_t)q + a, 4))
                continue;
            c.like = EVEN;
            c.exponent = 0;
            c.algo = algos[a];
            memset(residual, 0, COUNT * sizeof *residual);
            memset(total, 0, COUNT * sizeof *total);
            step(r, &c);
            side_init(r, &s, &c);
            for (uint32_t k = 0; k < STEPS; k++) {
                fill_src(&s);
                CHECK_OK(r, go(&s, r->comm, residual, false));
                for (size_t i = 0; i < COUNT; i++) {
                    double sum = 0;

                    for (uint32_t peer = 0; peer < r->nranks; peer++)
                        sum += input(&c, peer, i);
                    total[i] += load(c.type, s.dst, i) - sum / (c.op == TUTTI_AVG ? r->nranks : 1);
                    if (k == 0)
                        first = fmax(first, fabs(total[i]));
                }
            }
            CHECK_OK(r, tutti_allreduce(residual, lost, COUNT, TUTTI_F32, c.op, r->comm, NULL));
            for (size_t i = 0; i < COUNT; i++) {
                worst = fmax(worst, fabs(total[i]) / STEPS);
                if (!(fabs(total[i] + (double)lost[i]) <= STEPS * 1e-5))
                    job_fail(r, __FILE__, __LINE__,
                             "element %zu: %g is missing after %d steps, and residuals have %g", i,
                             -total[i], STEPS, (double)lost[i]);
            }
            if (!(worst < first / 4))
                job_fail(r, __FILE__, __LINE__, "the mean error is %g, that of one step %g", worst,
                         first);
            free(s.mem);
        }
    free(residual);
    free(lost);
    free(total);
}

static void error_feedback_removes_the_mean_error(void **state)
{
    (void)state;
    over_jobs(2, 4, feedback_role);
}

/* ---- failures ---- */

/* An input that kills the encoding rank: its last third is unmapped. So the call cannot have
 * completed when the rank dies. */
static void poison(struct rank *r, struct side *s)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), there = s->src_bytes * 2 / 3 / page * page;
    const struct rlimit none = { 0 };
    uint8_t *mem =
        mmap(NULL, s->src_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(r, mem != MAP_FAILED);
    CHECK(r, mprotect(mem + there, s->src_bytes - there, PROT_NONE) == 0);
    memcpy(mem, s->src, there);
    s->src = mem;
    CHECK(r, setrlimit(RLIMIT_CORE, &none) == 0);
    signal(SIGSEGV, SIG_DFL);   /* a sanitizer's handler would report it */
    r->board->dies[r->rank] = SIGSEGV;
}

static void failure_role(struct rank *r)
{
    const size_t count = 3000000;
    struct call c = draw(r, TT_ALLREDUCE, TUTTI_QUANT_MINMAX_U8, TUTTI_F32, count);
    float *residual = job_have(r, malloc(count * sizeof *residual));
    struct side s;

    c.in_place = true;
    c.like = EVEN;
    c.exponent = 0;
    for (size_t i = 0; i < count; i++)
        residual[i] = (float)i * 1e-9f;
    job_open_restoring(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    side_init(r, &s, &c);
    step(r, &c);
    if (r->rank == r->nranks - 1)
        poison(r, &s);
    CHECK_STATUS(r, go(&s, r->comm, residual, false), TUTTI_ERR_PEER_LOST);
    for (size_t i = 0; i < count; i++) {
        const float before = (float)number(&c, r->rank, i), kept = (float)i * 1e-9f;

        CHECK(r, memcmp(s.src + i * sizeof before, &before, sizeof before) == 0 &&
                     residual[i] == kept);
    }
    free(s.mem);
    free(residual);
    job_close(r);
}

static void failed_call_keeps_input_and_residuals(void **state)
{
    (void)state;
    over_jobs(3, 3, failure_role);
}

static void mismatch_role(struct rank *r)
{
    const bool feedback = r->job->arg != NULL;
    struct call c = draw(r, TT_ALLREDUCE, TUTTI_QUANT_MINMAX_U8, TUTTI_F32, 1000);
    float residual[1000] = { 0 };
    struct side s;
    tutti_status st;

    c.algo = "ring";
    if (r->rank && !feedback)
        c.quant = TUTTI_QUANT_F8E5M2;
    job_open(r);
    side_init(r, &s, &c);
    step(r, &c);
    st = go(&s, r->comm, feedback && r->rank ? residual : NULL, false);
    if (st == TUTTI_OK)
        st = tutti_barrier(r->comm, NULL);
    CHECK_STATUS(r, st, TUTTI_ERR_MISMATCH);
    CHECK(r, strstr(tutti_last_error(), "quantized as minmax8"));
    CHECK(r, strstr(tutti_last_error(),
                    feedback ? "minmax8 with error feedback" : "quantized as e5m2"));
    free(s.mem);
}

static void different_encodings_are_both_reported(void **state)
{
    (void)state;
    for (size_t w = 0; w < 2 * NWIRES; w++) {
        const struct job job = { .wires = wires[w % NWIRES],
                                 .nranks = 2,
                                 .seed = SEED,
                                 .arg = w / NWIRES ? "feedback" : NULL };

        job_run(&job, mismatch_role);
    }
}

static void refusals_role(struct rank *r)
{
    float src[8] = { 0 }, dst[8], residual[8] = { 0 };
    const size_t counts[2] = { 2, 2 };
    tutti_call how = { .size = sizeof how, .quant = TUTTI_QUANT_MINMAX_U8 };

    job_open(r);
    CHECK_SAYS(r, tutti_allreduce(src, dst, 8, TUTTI_F32, TUTTI_MAX, r->comm, &how),
               TUTTI_ERR_UNSUPPORTED, "not max");
    CHECK_SAYS(r, tutti_allreduce(src, dst, 8, TUTTI_I32, TUTTI_SUM, r->comm, &how),
               TUTTI_ERR_UNSUPPORTED, "type i32");
    CHECK_SAYS(r, tutti_alltoall(src, dst, 2, TUTTI_F32, r->comm, &how), TUTTI_ERR_UNSUPPORTED,
               "does not support quantization");
    CHECK_SAYS(r, tutti_allgatherv(src, dst, counts, NULL, TUTTI_F32, r->comm, &how),
               TUTTI_ERR_UNSUPPORTED, "does not support quantization");
    CHECK_SAYS(r, tutti_barrier(r->comm, &how), TUTTI_ERR_UNSUPPORTED,
               "does not support quantization");
    how.error_feedback = src + 1;
    CHECK_SAYS(r, tutti_allreduce(src, dst, 4, TUTTI_F32, TUTTI_SUM, r->comm, &how),
               TUTTI_ERR_INVALID, "overlaps");
    how.error_feedback = residual;
    how.algo = "doubling";
    CHECK_SAYS(r, tutti_allreduce(src, dst, 8, TUTTI_F32, TUTTI_SUM, r->comm, &how),
               TUTTI_ERR_INVALID, "results of its ranks would differ");
    how.algo = "dtree";
    CHECK_SAYS(r, tutti_allreduce(src, dst, 8, TUTTI_F32, TUTTI_SUM, r->comm, &how),
               TUTTI_ERR_INVALID, "error feedback");
    how.algo = NULL;
    how.quant = TUTTI_QUANT_NONE;
    CHECK_SAYS(r, tutti_allreduce(src, dst, 8, TUTTI_F32, TUTTI_SUM, r->comm, &how),
               TUTTI_ERR_INVALID, "quant is TUTTI_QUANT_NONE");
    how.quant = TUTTI_QUANT_COUNT;
    CHECK_SAYS(r, tutti_allreduce(src, dst, 8, TUTTI_F32, TUTTI_SUM, r->comm, &how),
               TUTTI_ERR_INVALID, "call.quant is ");
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
}

static void unsupported_quantization_is_refused_by_name(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 2, .seed = SEED };

    (void)state;
    job_run(&job, refusals_role);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_bounded_and_bitwise_identical),
        cmocka_unit_test(algorithms_are_bounded_or_not_quantizable),
        cmocka_unit_test(several_can_run_at_once),
        cmocka_unit_test(error_feedback_removes_the_mean_error),
        cmocka_unit_test(failed_call_keeps_input_and_residuals),
        cmocka_unit_test(different_encodings_are_both_reported),
        cmocka_unit_test(unsupported_quantization_is_refused_by_name),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
