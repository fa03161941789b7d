/* Throughput of the reduction and copy kernels, compared with memcpy on the same memory. Prints GB
 * of dst per second.
 *
 *   micro_reduce [all|tiny|copy]     TUTTI_SIMD=portable measures the portable kernels
 *
 * Columns of `all`:
 *   hot       operands and dst of 8 KiB each: the arithmetic
 *   cold      all three move through 64 MiB
 *   stream    the same with non-temporal stores
 *   slot      as in the engine: a moves through 64 MiB, b is a slot of 32 KiB, dst moves
 *   slot nt   the same with non-temporal stores
 *   slot2 nt  the same, and a second slot of 32 KiB as dst2
 * Each number is the median of several runs, interleaved with memcpy's. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "reduce/reduce.h"
#include "micro.h"

#define BIG ((size_t)64 << 20)
#define SLOT ((size_t)32 << 10)
#define HOT ((size_t)8 << 10)
#define ARRAY_LEN(a) (sizeof(a) / sizeof(a)[0])

enum { RUNS = 7 };

struct memory {
    uint8_t *a, *b, *dst, *slot, *slot2;
};

/* Memory access of a kernel: each pointer moves through memory, or stays in its slot. */
struct walk {
    const char *name;
    size_t piece, bytes;        /* bytes per call; range of the moving pointers */
    bool hot, b_slot, dst2, stream;
};

static const struct walk walks[] = {
    { "hot", HOT, (size_t)4 << 20, true, false, false, false },
    { "cold", SLOT, BIG, false, false, false, false },
    { "stream", SLOT, BIG, false, false, false, true },
    { "slot", SLOT, BIG, false, true, false, false },
    { "slot nt", SLOT, BIG, false, true, false, true },
    { "slot2 nt", SLOT, BIG, false, true, true, true },
};

/* Maps memory in 4 KiB pages, like malloc, unless MICRO_HUGE is set. Touches it. */
static uint8_t *map(size_t bytes)
{
    uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        abort();
    if (getenv("MICRO_HUGE"))
        madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

/* Runs one pass of the kernel (memcpy from a to dst if NULL). Returns GB of dst per second. */
static double pass(const struct memory *m, const struct walk *w, tt_reduce_fn *fn, size_t element)
{
    const double start = now_s();

    for (size_t at = 0; at < w->bytes; at += w->piece) {
        const size_t walking = w->hot ? 0 : at;
        void *dst = m->dst + walking;
        const void *a = m->a + walking, *b = w->b_slot ? m->slot : m->b + walking;

        if (fn)
            fn(dst, w->dst2 ? m->slot2 : NULL, a, b, w->piece / element, w->stream, 2);
        else
            memcpy(dst, a, w->piece);
    }
    return (double)w->bytes / (now_s() - start) * 1e-9;
}

static void row(const struct memory *m, const char *type, const char *op, tt_reduce_fn *fn,
                size_t element)
{
    double gbs[RUNS];

    printf("%-6s %-6s", type, op);
    for (size_t i = 0; i < ARRAY_LEN(walks); i++) {
        for (int run = 0; run < RUNS; run++)
            gbs[run] = pass(m, &walks[i], fn, element);
        printf(" %9.1f", median(gbs, RUNS));
        fflush(stdout);
    }
    printf("\n");
}

static void measure_all(const struct memory *m)
{
    static const struct {
        const char *name;
        tutti_dtype type;
        size_t element;
    } types[] = {
        { "f32", TUTTI_F32, 4 },   { "f64", TUTTI_F64, 8 },     { "f16", TUTTI_F16, 2 },
        { "bf16", TUTTI_BF16, 2 }, { "e4m3", TUTTI_F8E4M3, 1 }, { "e5m2", TUTTI_F8E5M2, 1 },
        { "i8", TUTTI_I8, 1 },     { "i16", TUTTI_I16, 2 },     { "i32", TUTTI_I32, 4 },
        { "i64", TUTTI_I64, 8 },
    };
    static const struct {
        const char *name;
        tutti_redop op;
    } ops[] = {
        { "sum", TUTTI_SUM }, { "prod", TUTTI_PROD }, { "min", TUTTI_MIN },
        { "avg", TUTTI_AVG }, { "bxor", TUTTI_BXOR },
    };

    printf("# %s; GB of dst per second, medians of %d\n%-6s %-6s", tt_reduce_isa(), RUNS, "type",
           "op");
    for (size_t i = 0; i < ARRAY_LEN(walks); i++)
        printf(" %9s", walks[i].name);
    printf("\n");
    for (size_t t = 0; t < ARRAY_LEN(types); t++)
        for (size_t o = 0; o < ARRAY_LEN(ops); o++)
            if (tt_reduce_defined(types[t].type, ops[o].op)) {
                if (o == 0)
                    row(m, "memcpy", "", NULL, 1);
                row(m, types[t].name, ops[o].name, tt_reduce_kernel(types[t].type, ops[o].op, true),
                    types[t].element);
            }
}

/* Measures nanoseconds per call for small counts of f32, with all data in the nearest cache. */
static void measure_tiny(const struct memory *m)
{
    static const size_t counts[] = { 1, 2, 3, 4, 7, 8, 9, 16, 31, 32, 64, 128, 256, 1024 };
    tt_reduce_fn *sum = tt_reduce_kernel(TUTTI_F32, TUTTI_SUM, false);
    const int calls = 200000;

    printf("# f32 sum, ns per call\n%6s %8s %8s %8s\n", "count", "sum", "dst2", "memcpy");
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        double plain[RUNS], two[RUNS], copy[RUNS];
        void *(*volatile copy_fn)(void *, const void *, size_t) = memcpy;

        for (int run = 0; run < RUNS; run++) {
            double start = now_s();
            for (int k = 0; k < calls; k++)
                sum(m->dst, NULL, m->a, m->b, counts[i], false, 0);
            plain[run] = (now_s() - start) / calls * 1e9;
            start = now_s();
            for (int k = 0; k < calls; k++)
                sum(m->dst, m->slot2, m->a, m->b, counts[i], false, 0);
            two[run] = (now_s() - start) / calls * 1e9;
            start = now_s();
            for (int k = 0; k < calls; k++)
                copy_fn(m->dst, m->a, counts[i] * 4);
            copy[run] = (now_s() - start) / calls * 1e9;
        }
        printf("%6zu %8.1f %8.1f %8.1f\n", counts[i], median(plain, RUNS), median(two, RUNS),
               median(copy, RUNS));
    }
}

enum copier { MEMCPY, PLAIN, STREAM, TWO, STREAM_TWO, NCOPIERS };

static void copy_once(enum copier how, uint8_t *dst, uint8_t *dst2, const uint8_t *src,
                      size_t bytes)
{
    if (how == MEMCPY)
        memcpy(dst, src, bytes);
    else
        tt_copy(dst, how >= TWO ? dst2 : NULL, src, bytes, how == STREAM || how == STREAM_TWO);
}

/* Copies `bytes` at a time through `reach` bytes of source and destination: a small reach is hot, a
 * large one cold. dst2 is a slot. */
static double copy_pass(const struct memory *m, enum copier how, size_t bytes, size_t reach)
{
    const size_t total = bytes > ((size_t)16 << 20) ? bytes : (size_t)16 << 20;
    const double start = now_s();
    size_t at = 0;

    for (size_t done = 0; done < total; done += bytes) {
        for (size_t part = 0; part < bytes; part += SLOT)
            copy_once(how, m->dst + at + part, m->slot2, m->a + at + part,
                      bytes - part < SLOT ? bytes - part : SLOT);
        at = at + 2 * bytes <= reach ? at + bytes : 0;
    }
    return (double)total / (now_s() - start) * 1e-9;
}

static void measure_copy(const struct memory *m)
{
    static const char *const names[NCOPIERS] = { "memcpy", "tt_copy", "stream", "dst2",
                                                 "stream+2" };

    printf("# GB/s in pieces of at most 32 KiB\n%10s %5s", "bytes", "");
    for (int how = 0; how < NCOPIERS; how++)
        printf(" %9s", names[how]);
    printf("\n");
    for (size_t bytes = 8; bytes <= BIG; bytes *= 4)
        for (int cold = 0; cold < 2; cold++) {
            double gbs[NCOPIERS][RUNS];

            for (int run = 0; run < RUNS; run++)
                for (int how = 0; how < NCOPIERS; how++)
                    gbs[how][run] = copy_pass(m, (enum copier)how, bytes, cold ? BIG : 0);
            printf("%10zu %5s", bytes, cold ? "cold" : "hot");
            for (int how = 0; how < NCOPIERS; how++)
                printf(" %9.2f", median(gbs[how], RUNS));
            printf("\n");
        }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    const struct memory m = { map(BIG), map(BIG), map(BIG), map(SLOT), map(SLOT) };

    if (strcmp(what, "tiny") == 0)
        measure_tiny(&m);
    else if (strcmp(what, "copy") == 0)
        measure_copy(&m);
    else
        measure_all(&m);
    return 0;
}
