#include "calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "reduce/reduce.h"

#define AROUND 64               /* guard bytes on each side of a buffer */
#define UNTOUCHED 0xa5

bool call_reduces(enum tt_coll_kind kind)
{
    return kind == TT_ALLREDUCE || kind == TT_REDUCE || kind == TT_REDUCE_SCATTER ||
           kind == TT_REDUCE_SCATTERV;
}

bool call_has_root(enum tt_coll_kind kind)
{
    return kind == TT_REDUCE || kind == TT_BROADCAST || kind == TT_GATHER || kind == TT_GATHERV ||
           kind == TT_SCATTER || kind == TT_SCATTERV;
}

bool call_is_v(enum tt_coll_kind kind)
{
    return kind == TT_REDUCE_SCATTERV || kind == TT_ALLGATHERV || kind == TT_GATHERV ||
           kind == TT_SCATTERV || kind == TT_ALLTOALLV;
}

bool call_exists(const struct call *c)
{
    if (c->in_place && c->kind == TT_BARRIER)
        return false;
    return !call_reduces(c->kind) || tt_reduce_defined(c->type, c->op);
}

struct call call_draw(struct tt_prng *p, enum tt_coll_kind kind, size_t count, uint32_t nranks)
{
    struct call c = { .kind = kind, .count = count, .nranks = nranks };

    do {
        c.type = (tutti_dtype)tt_prng_below(p, TUTTI_DTYPE_COUNT);
        c.op = (tutti_redop)tt_prng_below(p, TUTTI_REDOP_COUNT);
        c.in_place = tt_prng_below(p, 2);
    } while (!call_exists(&c));
    c.root = call_has_root(kind) ? (uint32_t)tt_prng_below(p, nranks) : 0;
    c.src_skew = tt_prng_below(p, 2) ? (uint32_t)tt_prng_below(p, 9) : 0;
    c.dst_skew = tt_prng_below(p, 2) ? (uint32_t)tt_prng_below(p, 9) : 0;
    c.salt = tt_prng_u64(p);
    return c;
}

void call_print(const struct call *c, char out[CALL_TEXT_BYTES])
{
    snprintf(out, CALL_TEXT_BYTES,
             "%s of %zu x %s, op %s, root %u, algorithm %s, %s, skewed by %u and %u, salt %llx%s",
             tt_coll_name(c->kind), c->count, tutti_dtype_name(c->type),
             call_reduces(c->kind) ? tutti_redop_name(c->op) : "none", c->root,
             c->algo ? c->algo : "chosen", c->in_place ? "in place" : "out of place", c->src_skew,
             c->dst_skew, (unsigned long long)c->salt, c->rough ? ", rough" : "");
}

/* ---- elements ---- */

static uint64_t noise(const struct call *c, uint32_t rank, uint64_t index)
{
    return tt_mix64(c->salt ^ tt_mix64(index * CALL_RANKS_MAX + rank));
}

static bool is_f8(tutti_dtype t) { return t == TUTTI_F8E4M3 || t == TUTTI_F8E5M2; }

static bool is_float(tutti_dtype t)
{
    return t == TUTTI_F16 || t == TUTTI_BF16 || t == TUTTI_F32 || t == TUTTI_F64 || is_f8(t);
}

static bool is_unsigned(tutti_dtype t)
{
    return t == TUTTI_U8 || t == TUTTI_U16 || t == TUTTI_U32 || t == TUTTI_U64;
}

/* Returns the scale of a rank in a pre-multiplied sum. */
static double scale_of(const struct call *c, uint32_t rank)
{
    return is_f8(c->type) ? 2 : rank + 1;
}

/* Small values, so that no result rounds or overflows, with any number and order of ranks. */
static double small_value(const struct call *c, uint32_t rank, uint64_t index)
{
    const uint64_t h = noise(c, rank, index);
    const bool negative = !is_unsigned(c->type) && h >> 63;
    double v;

    switch (c->op) {
    case TUTTI_PROD:
        v = 1 + (double)(h % 2);
        break;
    case TUTTI_MIN:
    case TUTTI_MAX:
        v = (double)(h % 9);
        break;
    case TUTTI_BAND:
    case TUTTI_BOR:
    case TUTTI_BXOR:
        return (double)(h % 128);
    default:
        v = (double)(h % (is_f8(c->type) ? 2 : 5));
        break;
    }
    return negative ? 0 - v : v;     /* never -0, whose order with +0 is undefined */
}

/* Uniform in [1, 2) with the precision of f64; rounded to the type when stored. So sums round in
 * every type. */
static double rough_value(const struct call *c, uint32_t rank, uint64_t index)
{
    return 1 + (double)(noise(c, rank, index) >> 12) * 0x1p-52;
}

static uint64_t bits_of(tutti_dtype type, double v)
{
    const float f = (float)v;
    uint32_t f_bits;
    uint64_t v_bits;

    switch (type) {
    case TUTTI_F16:
        return tt_f32_to_f16(f);
    case TUTTI_BF16:
        return tt_f32_to_bf16(f);
    case TUTTI_F8E4M3:
        return tt_f32_to_e4m3(f);
    case TUTTI_F8E5M2:
        return tt_f32_to_e5m2(f);
    case TUTTI_F32:
        memcpy(&f_bits, &f, sizeof f_bits);
        return f_bits;
    case TUTTI_F64:
        memcpy(&v_bits, &v, sizeof v_bits);
        return v_bits;
    default:
        return (uint64_t)(int64_t)v; /* the low bytes are the narrower integer */
    }
}

static double value_of(tutti_dtype type, uint64_t bits)
{
    const uint32_t f_bits = (uint32_t)bits;
    float f;
    double v;

    switch (type) {
    case TUTTI_F16:
        return tt_f16_to_f32((uint16_t)bits);
    case TUTTI_BF16:
        return tt_bf16_to_f32((uint16_t)bits);
    case TUTTI_F8E4M3:
        return tt_e4m3_to_f32((uint8_t)bits);
    case TUTTI_F8E5M2:
        return tt_e5m2_to_f32((uint8_t)bits);
    case TUTTI_F32:
        memcpy(&f, &f_bits, sizeof f);
        return f;
    case TUTTI_F64:
        memcpy(&v, &bits, sizeof v);
        return v;
    default:
        return (double)(int64_t)bits;
    }
}

static uint64_t input(const struct call *c, uint32_t rank, uint64_t index)
{
    if (!call_reduces(c->kind))
        return noise(c, rank, index);
    return bits_of(c->type, c->rough ? rough_value(c, rank, index) : small_value(c, rank, index));
}

static double combine(const struct call *c, double a, double b)
{
    switch (c->op) {
    case TUTTI_PROD:
        return a * b;
    case TUTTI_MIN:
        return a < b ? a : b;
    case TUTTI_MAX:
        return a > b ? a : b;
    case TUTTI_BAND:
        return (double)((uint64_t)a & (uint64_t)b);
    case TUTTI_BOR:
        return (double)((uint64_t)a | (uint64_t)b);
    case TUTTI_BXOR:
        return (double)((uint64_t)a ^ (uint64_t)b);
    default:
        return a + b;
    }
}

/* Returns the divisor of an average; 0: the number of ranks. */
static uint64_t divisor_of(const struct call *c)
{
    return call_reduces(c->kind) && c->op == TUTTI_AVG && c->salt % 3 == 0 ? 1 + c->salt / 3 % 9
                                                                           : 0;
}

/* Returns element `index` of the reduction over all ranks, by definition and in f64. */
static double reduced(const struct call *c, uint64_t index)
{
    const uint64_t divisor = divisor_of(c) ? divisor_of(c) : c->nranks;
    double all = 0;

    for (uint32_t r = 0; r < c->nranks; r++) {
        double v = small_value(c, r, index);

        if (c->op == TUTTI_PREMUL_SUM)
            v *= scale_of(c, r);
        all = r ? combine(c, all, v) : v;
    }
    if (c->op != TUTTI_AVG)
        return all;
    if (!is_float(c->type))
        return trunc(all / (double)divisor);
    return c->type == TUTTI_F64 ? all / (double)divisor : (double)((float)all / (float)divisor);
}

/* ---- shapes ---- */

/* Returns the number of elements that `from` sends to `to` in a v call; some send none. In place,
 * the opposite direction has the same number. */
static size_t block_of(const struct call *c, uint32_t from, uint32_t to)
{
    const bool turned = c->in_place && c->kind == TT_ALLTOALLV && to < from;
    const uint64_t h =
        tt_mix64(c->salt + 1 + (turned ? to * CALL_RANKS_MAX + from : from * CALL_RANKS_MAX + to));

    return h % 5 == 0 ? 0 : (size_t)(h >> 8) % (c->count + 1);
}

/* Places blocks of count[n] in sequence, with gaps unless the call is packed. Returns the end of
 * the last block. */
static size_t lay_out(const struct call *c, bool packed, const size_t *count, size_t *displ)
{
    size_t at = 0, end = 0;

    for (uint32_t r = 0; r < c->nranks; r++) {
        displ[r] = at;
        end = at + count[r];
        at = end + (packed ? 0 : (c->salt >> r) % 3);
    }
    return end;
}

static bool is_packed(const struct call *c)
{
    return c->kind == TT_REDUCE_SCATTERV || !call_is_v(c->kind) || c->salt % 2;
}

/* Computes counts and displacements of both sides of a rank, and the total elements src_n and
 * dst_n. */
static void shape(struct call_side *s, const struct call *c, uint32_t rank, size_t *src_n,
                  size_t *dst_n)
{
    const bool blocks_from = c->kind == TT_SCATTER || c->kind == TT_SCATTERV ||
                             c->kind == TT_REDUCE_SCATTER || c->kind == TT_REDUCE_SCATTERV;
    const bool blocks_to = c->kind == TT_GATHER || c->kind == TT_GATHERV ||
                           c->kind == TT_ALLGATHER || c->kind == TT_ALLGATHERV;
    const bool all = c->kind == TT_ALLTOALL || c->kind == TT_ALLTOALLV;

    s->packed = is_packed(c);
    for (uint32_t r = 0; r < c->nranks; r++) {
        if (call_is_v(c->kind)) {
            s->send_count[r] = all ? block_of(c, rank, r) : block_of(c, 0, r);
            s->recv_count[r] = all ? block_of(c, r, rank) : block_of(c, 0, r);
        } else {
            s->send_count[r] = s->recv_count[r] = c->count;
        }
    }
    *src_n = lay_out(c, s->packed, s->send_count, s->send_displ);
    *dst_n = lay_out(c, s->packed, s->recv_count, s->recv_displ);
    if (!all && !blocks_from)
        *src_n = blocks_to ? s->recv_count[rank] : c->count;
    if (!all && !blocks_to)
        *dst_n = blocks_from ? s->send_count[rank] : c->count;
    if (c->kind == TT_BARRIER)
        *src_n = *dst_n = 0;
}

static bool has_src(const struct call *c, uint32_t rank)
{
    const bool of_root = c->kind == TT_BROADCAST || c->kind == TT_SCATTER || c->kind == TT_SCATTERV;

    return !of_root || rank == c->root;
}

static bool has_dst(const struct call *c, uint32_t rank)
{
    const bool of_root = c->kind == TT_REDUCE || c->kind == TT_GATHER || c->kind == TT_GATHERV;

    return !of_root || rank == c->root;
}

/* Returns whether src and dst of this rank are one buffer (in place). */
static bool is_shared(const struct call *c, uint32_t rank)
{
    return c->in_place && has_src(c, rank) && has_dst(c, rank);
}

/* Returns whether dst is the whole shared buffer, and src a part of it. */
static bool dst_is_whole(enum tt_coll_kind kind)
{
    return kind == TT_ALLGATHER || kind == TT_ALLGATHERV || kind == TT_GATHER || kind == TT_GATHERV;
}

struct tt_coll call_coll(const struct call_side *s, uint64_t *bytes)
{
    const struct call *c = &s->call;
    const uint32_t elem = (uint32_t)tutti_dtype_bytes(c->type);
    struct tt_coll coll = {
        .kind = c->kind,
        .rank = s->rank,
        .nranks = c->nranks,
        .root = c->root,
        .elem_bytes = elem,
        .in_place = is_shared(c, s->rank),
        .bytes = call_is_v(c->kind) ? 0 : c->count * elem,
        .send_bytes = bytes, .send_displs = bytes + CALL_RANKS_MAX,
        .recv_bytes = bytes + 2 * CALL_RANKS_MAX, .recv_displs = bytes + 3 * CALL_RANKS_MAX,
    };

    for (uint32_t r = 0; r < c->nranks; r++) {
        bytes[r] = s->send_count[r] * elem;
        bytes[CALL_RANKS_MAX + r] = s->send_displ[r] * elem;
        bytes[2 * CALL_RANKS_MAX + r] = s->recv_count[r] * elem;
        bytes[3 * CALL_RANKS_MAX + r] = s->recv_displ[r] * elem;
    }
    return coll;
}

/* ---- one side ---- */

static uint8_t *make_room(uint64_t bytes, uint32_t skew, uint64_t *mem_bytes)
{
    uint8_t *mem;

    *mem_bytes = bytes + skew + 2 * AROUND;
    mem = aligned_alloc(64, (*mem_bytes + 63) / 64 * 64);
    tt_assert(mem);
    memset(mem, UNTOUCHED, *mem_bytes);
    return mem;
}

/* Constant sizes for the compiler: calls of memcpy per element would take most of a test's time
 * under a sanitizer. */
static void put_bits(uint8_t *at, uint64_t bits, size_t elem)
{
    switch (elem) {     /* little endian, as everywhere in Tutti */
    case 1:
        *at = (uint8_t)bits;
        break;
    case 2:
        memcpy(at, &bits, 2);
        break;
    case 4:
        memcpy(at, &bits, 4);
        break;
    default:
        memcpy(at, &bits, 8);
        break;
    }
}

static void put_input(uint8_t *at, const struct call *c, uint32_t rank, size_t first, size_t n)
{
    const size_t elem = tutti_dtype_bytes(c->type);

    for (size_t i = 0; i < n; i++)
        put_bits(at + i * elem, input(c, rank, first + i), elem);
}

/* Sets src or dst from the other one, for a shared buffer. */
static void share(struct call_side *s, size_t elem)
{
    if (dst_is_whole(s->call.kind)) {
        s->src = s->dst + s->recv_displ[s->rank] * elem;
        return;
    }
    switch (s->call.kind) {
    case TT_REDUCE_SCATTER:
    case TT_REDUCE_SCATTERV:
    case TT_SCATTER:
    case TT_SCATTERV:
        s->dst = s->src + s->send_displ[s->rank] * elem;
        break;
    default:
        s->dst = s->src;
        break;
    }
}

void call_init(struct call_side *s, const struct call *c, uint32_t rank)
{
    const size_t elem = tutti_dtype_bytes(c->type);
    const bool shared = is_shared(c, rank);
    size_t src_n, dst_n;

    *s = (struct call_side){ .call = *c, .rank = rank, .scale = scale_of(c, rank) };
    shape(s, c, rank, &src_n, &dst_n);
    s->src_bytes = has_src(c, rank) ? src_n * elem : 0;
    s->dst_bytes = has_dst(c, rank) ? dst_n * elem : 0;
    s->src = s->dst = c->salt % 4 < 2 ? NULL : (uint8_t *)16;       /* ignored by the call */
    if (has_src(c, rank) && !(shared && dst_is_whole(c->kind))) {
        s->src_mem = make_room(s->src_bytes, c->src_skew, &s->src_mem_bytes);
        s->src = s->src_mem + AROUND + c->src_skew;
    }
    if (has_dst(c, rank) && !(shared && !dst_is_whole(c->kind))) {
        s->dst_mem = make_room(s->dst_bytes, c->dst_skew, &s->dst_mem_bytes);
        s->dst = s->dst_mem + AROUND + c->dst_skew;
    }
    if (shared)
        share(s, elem);
    if (has_src(c, rank))
        put_input(s->src, c, rank, 0, src_n);
}

void call_fini(struct call_side *s)
{
    free(s->src_mem);
    free(s->dst_mem);
    s->src_mem = s->dst_mem = NULL;
}

tutti_status call_go(struct call_side *s, tutti_comm *comm, bool with_request)
{
    const struct call *c = &s->call;
    const tutti_call how = { .size = sizeof how,
                             .request = with_request ? &s->request : NULL,
                             .timeout_ms = c->timeout_ms,
                             .algo = c->algo,
                             .scale = c->op == TUTTI_PREMUL_SUM ? s->scale : 0,
                             .divisor = divisor_of(c) };
    const size_t *send_displ = s->packed ? NULL : s->send_displ,
                 *recv_displ = s->packed ? NULL : s->recv_displ;
    const int root = (int)c->root;

    switch (c->kind) {
    case TT_ALLREDUCE:
        return tutti_allreduce(s->src, s->dst, c->count, c->type, c->op, comm, &how);
    case TT_REDUCE:
        return tutti_reduce(s->src, s->dst, c->count, c->type, c->op, root, comm, &how);
    case TT_REDUCE_SCATTER:
        return tutti_reduce_scatter(s->src, s->dst, c->count, c->type, c->op, comm, &how);
    case TT_REDUCE_SCATTERV:
        return tutti_reduce_scatterv(s->src, s->dst, s->send_count, c->type, c->op, comm, &how);
    case TT_ALLGATHER:
        return tutti_allgather(s->src, s->dst, c->count, c->type, comm, &how);
    case TT_ALLGATHERV:
        return tutti_allgatherv(s->src, s->dst, s->recv_count, recv_displ, c->type, comm, &how);
    case TT_BROADCAST:
        return tutti_broadcast(s->src, s->dst, c->count, c->type, root, comm, &how);
    case TT_GATHER:
        return tutti_gather(s->src, s->dst, c->count, c->type, root, comm, &how);
    case TT_GATHERV:
        return tutti_gatherv(s->src, s->dst, s->recv_count, recv_displ, c->type, root, comm, &how);
    case TT_SCATTER:
        return tutti_scatter(s->src, s->dst, c->count, c->type, root, comm, &how);
    case TT_SCATTERV:
        return tutti_scatterv(s->src, s->dst, s->send_count, send_displ, c->type, root, comm, &how);
    case TT_ALLTOALL:
        return tutti_alltoall(s->src, s->dst, c->count, c->type, comm, &how);
    case TT_ALLTOALLV:
        return tutti_alltoallv(s->src, s->send_count, send_displ, s->dst, s->recv_count, recv_displ,
                               c->type, comm, &how);
    default:
        return tutti_barrier(comm, &how);
    }
}

/* ---- expected output ---- */

/* Writes the n elements that rank's call receives from `from`'s input at `first`, or their
 * reduction. */
static void put_output(uint8_t *at, const struct call *c, uint32_t from, size_t first, size_t n)
{
    const size_t elem = tutti_dtype_bytes(c->type);

    if (!call_reduces(c->kind)) {
        put_input(at, c, from, first, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        put_bits(at + i * elem, bits_of(c->type, reduced(c, first + i)), elem);
}

/* Writes the output by definition to out[dst_bytes], except gaps. */
static void define(const struct call_side *s, uint8_t *out)
{
    const struct call *c = &s->call;
    const size_t elem = tutti_dtype_bytes(c->type);
    struct call_side there;
    size_t src_n, dst_n;

    switch (c->kind) {
    case TT_ALLREDUCE:
    case TT_REDUCE:
    case TT_BROADCAST:
        put_output(out, c, c->root, 0, c->count);
        break;
    case TT_REDUCE_SCATTER:
    case TT_REDUCE_SCATTERV:
    case TT_SCATTER:
    case TT_SCATTERV:
        put_output(out, c, c->root, s->send_displ[s->rank], s->send_count[s->rank]);
        break;
    case TT_BARRIER:
        break;
    default:
        for (uint32_t r = 0; r < c->nranks; r++) {
            const bool all = c->kind == TT_ALLTOALL || c->kind == TT_ALLTOALLV;

            shape(&there, c, r, &src_n, &dst_n);
            put_output(out + s->recv_displ[r] * elem, c, r, all ? there.send_displ[s->rank] : 0,
                       s->recv_count[r]);
        }
    }
}

/* Compares mem[bytes] with the expected bytes; the buffer begins at offset `at`. */
static bool same(const uint8_t *mem, const uint8_t *should, uint64_t bytes, uint64_t at,
                 const char *what, char *why)
{
    uint64_t i = 0;

    if (memcmp(mem, should, bytes) == 0)
        return true;
    while (mem[i] == should[i])
        i++;
    snprintf(why, CALL_TEXT_BYTES, "byte %lld of %s is %02x, not %02x", (long long)(i - at), what,
             mem[i], should[i]);
    return false;
}

/* Returns the unit roundoff u: the relative error of a sum of n values of one sign is at most
 * (n-1)*u. */
static double rounding_unit(tutti_dtype type)
{
    switch (type) {
    case TUTTI_F16: return 0x1p-11;
    case TUTTI_BF16: return 0x1p-8;
    case TUTTI_F8E4M3: return 0x1p-4;
    case TUTTI_F8E5M2: return 0x1p-3;
    case TUTTI_F32: return 0x1p-24;
    default: return 0x1p-53;
    }
}

/* Returns the sum of rough inputs, which f64 cannot represent exactly. */
static long double rough_sum(const struct call *c, uint64_t index)
{
    long double all = 0;

    for (uint32_t r = 0; r < c->nranks; r++)
        all += value_of(c->type, input(c, r, index));
    return all;
}

static bool is_near(const struct call_side *s, char *why)
{
    const struct call *c = &s->call;
    const size_t elem = tutti_dtype_bytes(c->type);
    const size_t first =
        c->kind == TT_REDUCE_SCATTER || c->kind == TT_REDUCE_SCATTERV ? s->send_displ[s->rank] : 0;

    for (size_t i = 0; i < s->dst_bytes / elem; i++) {
        const long double exact = rough_sum(c, first + i),
                          bound = (c->nranks - 1) * rounding_unit(c->type) * exact * (1 + 0x1p-40L);
        uint64_t bits = 0;
        double got;

        memcpy(&bits, s->dst + i * elem, elem);
        got = value_of(c->type, bits);
        if (fabsl(got - exact) <= bound)
            continue;
        snprintf(why, CALL_TEXT_BYTES, "element %zu is %.17g, which is more than %.3Lg from %.19Lg",
                 i, got, bound, exact);
        return false;
    }
    return true;
}

static bool is_exact(const struct call_side *s, char *why)
{
    const struct call *c = &s->call;
    uint64_t bytes;
    uint8_t *src = make_room(s->src_mem_bytes, 0, &bytes),
            *dst = make_room(s->dst_mem_bytes, 0, &bytes);
    const uint64_t src_at = AROUND + c->src_skew, dst_at = AROUND + c->dst_skew,
                   elem = tutti_dtype_bytes(c->type);
    const bool shared = is_shared(c, s->rank);
    bool good;

    if (s->src_mem)
        put_input(src + src_at, c, s->rank, 0, s->src_bytes / elem);
    if (has_dst(c, s->rank))
        define(s, s->dst_mem ? dst + dst_at : src + (s->dst - s->src_mem));
    good = (!s->src_mem ||
            same(s->src_mem, src, s->src_mem_bytes, src_at, shared ? "the buffer" : "src", why)) &&
           (!s->dst_mem ||
            same(s->dst_mem, dst, s->dst_mem_bytes, dst_at, shared ? "the buffer" : "dst", why));
    free(src);
    free(dst);
    return good;
}

bool call_is_right(const struct call_side *s, char *why)
{
    return s->call.rough ? is_near(s, why) : is_exact(s, why);
}

bool call_is_restored(const struct call_side *s, char *why)
{
    const struct call *c = &s->call;
    const size_t elem = tutti_dtype_bytes(c->type);
    uint64_t bytes;
    uint8_t *src = make_room(s->src_bytes, 0, &bytes);
    bool good = true;

    if (has_src(c, s->rank)) {
        put_input(src, c, s->rank, 0, s->src_bytes / elem);
        good = same(s->src, src, s->src_bytes, 0, "the input", why);
    }
    free(src);
    return good;
}

uint64_t call_result_hash(const struct call_side *s)
{
    return has_dst(&s->call, s->rank) ? tt_hash_bytes(s->dst, s->dst_bytes, 1) : 0;
}
