/* Throughput of the data hash compared with memcpy on the same memory, and the throughput and the
 * error of the codecs of quantized collectives.
 *
 *   micro_codec hash|quant|blocks|sums     TUTTI_SIMD=portable measures the portable kernels
 *
 * quant: blocks of the default size; GB of floats per second. blocks: f32 in blocks of each size,
 * with the encoded bytes per element, and the relative root-mean-square error. sums: the rate of
 * the steps of a quantized all-reduce, and the error of a sum of n ranks by three methods: a ring
 * in which each rank adds its unencoded part, a ring in which all parts are encoded first, and
 * recursive halving.
 *
 * GB per second are medians of several runs, interleaved with those of memcpy.
 *
 * By hand: gcc -O3 -D_GNU_SOURCE -ffp-contract=off -Iinclude -Isrc bench/micro_codec.c
 * src/reduce/(all).c src/base/(all).c -ljson-c -lm */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "reduce/hash.h"
#include "reduce/quant.h"
#include "reduce/quant_packed.h"
#include "reduce/reduce.h"
#include "micro.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof(a)[0])

enum { RUNS = 9 };

/* Allocates and touches memory, in 4 KiB pages like malloc. */
static uint8_t *memory(size_t bytes)
{
    uint8_t *p = malloc(bytes);

    if (!p)
        abort();
    memset(p, 1, bytes);
    return p;
}

/* Hashes inputs of `bytes` each, consecutively within `reach` bytes. A small reach measures data in
 * the caches. */
static void hash_row(const uint8_t *from, uint8_t *to, size_t bytes, size_t reach, size_t total)
{
    double copy[RUNS], hash[RUNS], ratio[RUNS];
    uint32_t seen = 0;

    for (int run = 0; run < RUNS; run++) {
        double start = now_s();

        for (size_t done = 0; done < total; done += bytes)
            memcpy(to + done % reach, from + done % reach, bytes);
        copy[run] = (double)total / (now_s() - start) * 1e-9;
        start = now_s();
        for (size_t done = 0; done < total; done += bytes)
            seen ^= tt_hash_of(from + done % reach, bytes).word[0];
        hash[run] = (double)total / (now_s() - start) * 1e-9;
        ratio[run] = hash[run] / copy[run];
    }
    printf("%10zu %8s %9.2f %9.2f %9.2f   (%08x)\n", bytes, reach == bytes ? "hot" : "cold",
           median(copy, RUNS), median(hash, RUNS), median(ratio, RUNS), seen);
}

static void measure_hash(void)
{
    static const size_t hot[] = { 64, 1024, 16384, 262144 };
    const size_t big = (size_t)256 << 20;
    const uint8_t *from = memory(big);
    uint8_t *to = memory(big);

    printf("# hash, %s; GB/s\n%10s %8s %9s %9s %9s\n", tt_reduce_isa(), "bytes", "", "memcpy",
           "hash", "ratio");
    for (size_t i = 0; i < ARRAY_LEN(hot); i++)
        hash_row(from, to, hot[i], hot[i], (size_t)32 << 20);
    hash_row(from, to, (size_t)1 << 20, big, big);
    hash_row(from, to, (size_t)64 << 20, big, big);
}

/* Parameters of one row. */
struct pass {
    struct tt_quant q;
    tutti_dtype type;
    size_t count;       /* elements per call; they fit in the cache, like a segment */
    const void *src;
    uint8_t *encoded;
    void *dst;
};

enum what { COPY, ENCODE, DECODE, DECODE_ADD, NWHATS };

static double quant_pass(const struct pass *p, enum what what)
{
    const size_t bytes = p->count * tutti_dtype_bytes(p->type),
                 encoded = tt_quant_bytes(&p->q, p->count);
    const int calls = (int)(((size_t)16 << 20) / bytes);
    const double start = now_s();
    tutti_status st = TUTTI_OK;

    for (int i = 0; i < calls; i++) {
        if (what == COPY)
            memcpy(p->dst, p->src, bytes);
        else if (what == ENCODE)
            tt_quant_encode(&p->q, p->encoded, p->src, p->count, p->type);
        else if (what == DECODE)
            st |= tt_quant_decode(&p->q, p->dst, p->encoded, encoded, p->count, p->type);
        else
            st |=
                tt_quant_decode_add(&p->q, p->dst, p->src, p->encoded, encoded, p->count, p->type);
    }
    if (st)
        abort();
    return (double)bytes * calls / (now_s() - start) * 1e-9;
}

static void quant_rates(const struct pass *p, double rate[NWHATS])
{
    double samples[NWHATS][RUNS];

    quant_pass(p, ENCODE);
    for (int run = 0; run < RUNS; run++)
        for (int what = 0; what < NWHATS; what++)
            samples[what][run] = quant_pass(p, (enum what)what);
    for (int what = 0; what < NWHATS; what++)
        rate[what] = median(samples[what], RUNS);
}

enum { SEGMENT_BYTES = 131072 };

static void measure_quant(void)
{
    static const tutti_dtype types[] = { TUTTI_F32, TUTTI_F16, TUTTI_BF16, TUTTI_F64 };
    uint8_t *src = memory(SEGMENT_BYTES), *encoded = memory(SEGMENT_BYTES),
            *dst = memory(SEGMENT_BYTES);

    printf("# %s; GB/s of the floats, in segments of 128 KiB\n%-8s %-5s %9s %9s %9s %9s\n",
           tt_reduce_isa(), "codec", "type", "memcpy", "encode", "decode", "add");
    for (int codec = 0; codec < TT_QUANT_CODEC_COUNT; codec++)
        for (size_t t = 0; t < ARRAY_LEN(types); t++) {
            const struct pass p = {
                { (enum tt_quant_codec)codec, TT_QUANT_BLOCK_DEFAULT },   types[t],
                SEGMENT_BYTES / tutti_dtype_bytes(types[t]), src, encoded, dst,
            };
            double rate[NWHATS];

            quant_rates(&p, rate);
            printf("%-8s %-5s %9.2f %9.2f %9.2f %9.2f\n", tt_quant_name(p.q.codec),
                   tutti_dtype_name(types[t]), rate[COPY], rate[ENCODE], rate[DECODE],
                   rate[DECODE_ADD]);
        }
}

/* Normal random numbers by Box and Muller. `tails`: one number in a hundred is ten times as large,
 * and each run of 1024 has another scale, like the layers of a gradient. */
static void fill_numbers(float *x, size_t n, bool tails)
{
    struct tt_prng p;
    double size = 1;

    tt_prng_init(&p, 1);
    for (size_t i = 0; i < n; i++) {
        const double u = (double)((tt_prng_u64(&p) >> 11) + 1) * 0x1p-53,
                     v = (double)(tt_prng_u64(&p) >> 11) * 0x1p-53;
        const double normal = sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);

        if (tails && i % 1024 == 0)
            size = exp(2 * (double)(tt_prng_u64(&p) >> 11) * 0x1p-53);
        x[i] = (float)(size * normal * (tails && tt_prng_below(&p, 100) == 0 ? 10 : 1));
    }
}

static double rms_error(const struct pass *p)
{
    const float *x = p->src, *y = p->dst;
    double lost = 0, all = 0;

    tt_quant_encode(&p->q, p->encoded, x, p->count, p->type);
    if (tt_quant_decode(&p->q, p->dst, p->encoded, tt_quant_bytes(&p->q, p->count), p->count,
                        p->type))
        abort();
    for (size_t i = 0; i < p->count; i++) {
        lost += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        all += (double)x[i] * (double)x[i];
    }
    return sqrt(lost / all);
}

static void measure_blocks(void)
{
    enum { COUNT = SEGMENT_BYTES / 4 };
    float *normal = (float *)memory(SEGMENT_BYTES), *tails = (float *)memory(SEGMENT_BYTES);
    uint8_t *encoded = memory(SEGMENT_BYTES), *dst = memory(SEGMENT_BYTES);

    fill_numbers(normal, COUNT, false);
    fill_numbers(tails, COUNT, true);
    printf("# f32, %s\n%-8s %6s %9s %9s %9s %9s %9s %9s\n", tt_reduce_isa(), "codec", "block",
           "wire", "normal", "tails", "encode", "decode", "add");
    for (int codec = 0; codec < TT_QUANT_CODEC_COUNT; codec++)
        for (uint32_t block = TT_QUANT_BLOCK_MIN; block <= TT_QUANT_BLOCK_MAX; block *= 2) {
            struct pass p = {
                { (enum tt_quant_codec)codec, block }, TUTTI_F32, COUNT, normal, encoded, dst
            };
            const double plain = rms_error(&p), wild = (p.src = tails, rms_error(&p));
            double rate[NWHATS];

            quant_rates(&p, rate);
            printf("%-8s %6u %9.3f %9.5f %9.5f %9.2f %9.2f %9.2f\n", tt_quant_name(p.q.codec),
                   block, (double)tt_quant_bytes(&p.q, COUNT) / COUNT, plain, wild, rate[ENCODE],
                   rate[DECODE], rate[DECODE_ADD]);
        }
}

/* ---- sums ---- */

enum { SUM_COUNT = 248 * 240, SUM_RANKS = 32, SUM_BYTES = 4 * SUM_COUNT, TURNS = 20 };
enum sum_step { STEP_OWN, STEP_PACKED, STEP_PACK, STEP_UNPACK, SUM_STEPS };

static void sum_step(const struct tt_packed *p, enum sum_step what, const float *own, uint8_t *a,
                     const uint8_t *b, float *out)
{
    const struct tt_packed_step step = {
        .out = a,
        .a = a,
        .b = what == STEP_OWN ? NULL : b,
        .own = own,
        .count = SUM_COUNT,
        .divide_by = 1,
    };

    if (what == STEP_PACK)
        tt_packed_encode(p, a, own, NULL, SUM_COUNT);
    else if (what == STEP_UNPACK)
        tt_packed_decode(p, out, b, SUM_COUNT);
    else
        tt_packed_add(p, &step);
}

static double sum_rate(const struct tt_packed *p, enum sum_step what, const float *own, uint8_t *a,
                       const uint8_t *b, float *out)
{
    double samples[RUNS];

    for (int run = 0; run < RUNS; run++) {
        double began;

        tt_packed_encode(p, a, own, NULL, SUM_COUNT);
        began = now_s();
        for (int turn = 0; turn < TURNS; turn++)
            sum_step(p, what, own, a, b, out);
        samples[run] = 1e-9 * TURNS * SUM_BYTES / (now_s() - began);
    }
    return median(samples, RUNS);
}

/* Sums x[n] into out, with the encodings of a ring. */
static void ring_sum(const struct tt_packed *p, float *const *x, int n, bool all_packed,
                     uint8_t *sum, uint8_t *part, float *out)
{
    tt_packed_encode(p, sum, x[0], NULL, SUM_COUNT);
    for (int r = 1; r < n; r++) {
        tt_packed_encode(p, part, x[r], NULL, SUM_COUNT);
        sum_step(p, all_packed ? STEP_PACKED : STEP_OWN, x[r], sum, part, out);
    }
    tt_packed_decode(p, out, sum, SUM_COUNT);
}

/* Sums pairs of ranks, then pairs of pairs. One rank of each first pair adds its unencoded part. */
static void halving_sum(const struct tt_packed *p, float *const *x, int n, uint8_t *const *room,
                        float *out)
{
    for (int r = 0; r < n; r += 2) {
        tt_packed_encode(p, room[r], x[r], NULL, SUM_COUNT);
        sum_step(p, STEP_OWN, x[r + 1], room[r], NULL, out);
    }
    for (int away = 2; away < n; away *= 2)
        for (int r = 0; r < n; r += 2 * away)
            sum_step(p, STEP_PACKED, NULL, room[r], room[r + away], out);
    tt_packed_decode(p, out, room[0], SUM_COUNT);
}

static double sum_error(float *const *x, int n, const float *got)
{
    double lost = 0, all = 0;

    for (size_t i = 0; i < SUM_COUNT; i++) {
        double sum = 0;

        for (int r = 0; r < n; r++)
            sum += (double)x[r][i];
        lost += (sum - (double)got[i]) * (sum - (double)got[i]);
        all += sum * sum;
    }
    return sqrt(lost / all);
}

static void measure_sums(void)
{
    float *x[SUM_RANKS], *out = (float *)memory(SUM_BYTES),
                         *all = (float *)memory((size_t)SUM_RANKS * SUM_BYTES);
    uint8_t *room[SUM_RANKS];

    fill_numbers(all, (size_t)SUM_RANKS * SUM_COUNT, false);
    for (int r = 0; r < SUM_RANKS; r++) {
        x[r] = all + (size_t)r * SUM_COUNT;
        room[r] = memory(SUM_BYTES);
    }
    printf("# f32, %s\n%-8s %9s %9s %9s %9s   n: ring, ring of packed parts, halving\n",
           tt_reduce_isa(), "codec", "add own", "add", "pack", "unpack");
    for (int codec = 0; codec < TT_QUANT_CODEC_COUNT; codec++) {
        struct tt_packed p;

        if (!tt_packed_init(&p, (enum tt_quant_codec)codec, TUTTI_F32))
            abort();
        tt_packed_encode(&p, room[1], x[1], NULL, SUM_COUNT);
        printf("%-8s", tt_quant_name(p.codec));
        for (int what = 0; what < SUM_STEPS; what++)
            printf(" %9.2f", sum_rate(&p, (enum sum_step)what, x[0], room[0], room[1], out));
        for (int n = 2; n <= SUM_RANKS; n *= 2) {
            ring_sum(&p, x, n, false, room[0], room[1], out);
            printf("   %d: %.4f", n, sum_error(x, n, out));
            ring_sum(&p, x, n, true, room[0], room[1], out);
            printf(" %.4f", sum_error(x, n, out));
            halving_sum(&p, x, n, room, out);
            printf(" %.4f", sum_error(x, n, out));
        }
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*measure)(void);
    } all[] = { { "hash", measure_hash },
                { "quant", measure_quant },
                { "blocks", measure_blocks },
                { "sums", measure_sums } };

    for (size_t i = 0; argc == 2 && i < ARRAY_LEN(all); i++)
        if (strcmp(argv[1], all[i].name) == 0) {
            all[i].measure();
            return 0;
        }
    fprintf(stderr, "usage: %s hash|quant|blocks|sums\n", argv[0]);
    return 2;
}
