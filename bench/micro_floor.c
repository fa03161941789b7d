/* Lower bounds for long collectives of two processes of one host: only the transfer and the sums,
 * on one core each.
 *
 *   micro_floor [huge] [MiB...]
 *
 *   By hand: gcc -O3 -D_GNU_SOURCE -Iinclude -Isrc -Ibench bench/micro_floor.c, with all of
 *   src/reduce and src/base, and -ljson-c
 *
 * Prints milliseconds for a buffer of each size in MiB (1, 16, 128), in small pages (huge: in huge
 * pages, except `mapped`), written once before. An iteration is a barrier, then the operation; its
 * time is that of the slower side. Values are medians of ROUNDS medians of alternating methods.
 *   once      each side reads all of its source and writes all of its destination with non-temporal
 *             stores: a bound for all-reduce and all-to-all by any method
 *   slots     all-reduce through slots in shared memory, half of it summed by each side: the method
 *             of the library, without the library
 *   mapped    all-reduce in memory mapped by both: each side sums half and writes it to both
 *             destinations
 *   sums      a reduce_scatter: the first half of `slots`
 *   fetch     all-to-all: a copy of the own half, and the peer's half by process_vm_readv
 *   fetchsum  a reduce_scatter with operands fetched by process_vm_readv, one piece at a time
 *   push      an all-reduce: fetchsum, and each piece of sums written to the peer's destination by
 *             process_vm_writev while it is in the cache */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "micro.h"
#include "micro_pair.h"
#include "reduce/reduce.h"

#define MIB ((size_t)1 << 20)
#define BYTES_MAX (128 * MIB)
#define SLOT ((size_t)64 << 10)
#define SLOTS 4u                /* per side and pass */
#define PIECE ((size_t)128 << 10)   /* bytes per call */
#define ROUNDS 5
#define ITERATIONS 400
#define ITERATIONS_BYTES (2048 * MIB)

/* Shared by both sides; each word is written by the side of its index. */
struct shared {
    struct word barrier[2], took[2], source[2], destination[2], put[2], summed[2], taken[2];
    _Alignas(4096) uint8_t operand[2][SLOTS][SLOT], sum[2][SLOTS][SLOT];
};

struct side {
    struct shared *s;
    tt_reduce_fn *add;
    int me;
    pid_t peer;
    uint8_t *src, *dst;         /* of this side */
    uint8_t *mapped[2][2];      /* [side][source, destination] */
    uint64_t n, pieces;         /* counts so far: barriers, and pieces through each slot */
};

static uint32_t streamed(size_t bytes)
{
    return bytes > 8 * MIB ? TT_STREAM_DST : 0;
}

static void once(struct side *e, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += SLOT)
        tt_copy(e->dst + at, NULL, e->src + at, SLOT, streamed(bytes));
}

/* Adds the piece that the peer has stored to this side's half of the sources. With `whole`, also
 * sends the sum to the peer. */
static void add_piece(struct side *e, uint64_t n, size_t at, size_t bytes, bool whole)
{
    struct shared *s = e->s;
    const uint64_t i = n % SLOTS;

    await(&s->put[!e->me], n + 1);
    if (whole && n >= SLOTS)
        await(&s->taken[!e->me], n + 1 - SLOTS);
    e->add(e->dst + at, whole ? s->sum[e->me][i] : NULL,
           e->me ? s->operand[1 - e->me][i] : e->src + at,
           e->me ? e->src + at : s->operand[!e->me][i], SLOT / sizeof(float), streamed(bytes), 1);
    say(&s->summed[e->me], n + 1);
}

static void through_slots(struct side *e, size_t bytes, bool whole)
{
    struct shared *s = e->s;
    const size_t half = bytes / 2, mine = (size_t)e->me * half, theirs = half - mine;
    const uint64_t first = e->pieces, npieces = half / SLOT;

    for (uint64_t k = 0; k < npieces + SLOTS - 1; k++) {
        const uint64_t n = first + k, before = n - (SLOTS - 1);

        if (k < npieces) {
            if (n >= SLOTS)
                await(&s->summed[!e->me], n + 1 - SLOTS);
            tt_copy(s->operand[e->me][n % SLOTS], NULL, e->src + theirs + k * SLOT, SLOT, 0);
            say(&s->put[e->me], n + 1);
        }
        if (k < npieces)
            add_piece(e, n, mine + k * SLOT, bytes, whole);
        if (whole && k >= SLOTS - 1) {
            await(&s->summed[!e->me], before + 1);
            tt_copy(e->dst + theirs + (k - (SLOTS - 1)) * SLOT, NULL,
                    s->sum[!e->me][before % SLOTS], SLOT, streamed(bytes));
            say(&s->taken[e->me], before + 1);
        }
    }
    if (!whole) {
        await(&s->summed[!e->me], first + npieces);
        say(&s->taken[e->me], first + npieces);
    }
    e->pieces = first + npieces;
}

static void slots(struct side *e, size_t bytes)
{
    through_slots(e, bytes, true);
}

static void sums(struct side *e, size_t bytes)
{
    through_slots(e, bytes, false);
}

static void mapped(struct side *e, size_t bytes)
{
    const size_t half = bytes / 2, from = (size_t)e->me * half;

    for (size_t at = from; at < from + half; at += SLOT)
        e->add(e->mapped[0][1] + at, e->mapped[1][1] + at, e->mapped[0][0] + at,
               e->mapped[1][0] + at, SLOT / sizeof(float),
               streamed(bytes) ? TT_STREAM_DST | TT_STREAM_DST2 : 0, 1);
}

static void must_move(const struct side *e, ssize_t moved, size_t bytes)
{
    if (moved == (ssize_t)bytes)
        return;
    perror("process_vm_readv, or process_vm_writev");
    kill(e->peer, SIGTERM); /* the peer would wait forever */
    _exit(1);
}

static void fetch_to(const struct side *e, void *to, size_t at, size_t bytes)
{
    const struct iovec here = { to, bytes };
    const struct iovec there = { (void *)(uintptr_t)(atomic_load(&e->s->source[!e->me].v) + at),
                                 bytes };

    must_move(e, process_vm_readv(e->peer, &here, 1, &there, 1, 0), bytes);
}

static void write_from(const struct side *e, const void *from, size_t at, size_t bytes)
{
    const struct iovec here = { (void *)(uintptr_t)from, bytes };
    const struct iovec there = {
        (void *)(uintptr_t)(atomic_load(&e->s->destination[!e->me].v) + at), bytes
    };

    must_move(e, process_vm_writev(e->peer, &here, 1, &there, 1, 0), bytes);
}

static void fetch(struct side *e, size_t bytes)
{
    const size_t half = bytes / 2, mine = (size_t)e->me * half, theirs = half - mine;

    tt_copy(e->dst + mine, NULL, e->src + mine, half, streamed(bytes));
    fetch_to(e, e->dst + theirs, mine, half);
}

static void by_fetching(struct side *e, size_t bytes, bool whole)
{
    static _Alignas(4096) uint8_t operand[PIECE], sum[PIECE];
    const size_t half = bytes / 2, mine = (size_t)e->me * half;

    for (size_t at = mine; at < mine + half; at += PIECE) {
        fetch_to(e, operand, at, PIECE);
        e->add(e->dst + at, whole ? sum : NULL, e->me ? operand : e->src + at,
               e->me ? e->src + at : operand, PIECE / sizeof(float), streamed(bytes), 1);
        if (whole)
            write_from(e, sum, at, PIECE);
    }
}

static void fetchsum(struct side *e, size_t bytes)
{
    by_fetching(e, bytes, false);
}

static void push(struct side *e, size_t bytes)
{
    by_fetching(e, bytes, true);
}

static const struct way {
    const char *name;
    void (*go)(struct side *, size_t);
} ways[] = { { "once", once },   { "slots", slots },       { "mapped", mapped }, { "sums", sums },
             { "fetch", fetch }, { "fetchsum", fetchsum }, { "push", push } };
#define WAYS (sizeof ways / sizeof *ways)

/* Returns the time of the slower side in milliseconds. */
static double iteration(struct side *e, const struct way *way, size_t bytes)
{
    struct shared *s = e->s;
    const uint64_t n = ++e->n;
    uint64_t begin, mine, theirs;

    say(&s->barrier[e->me], n);
    await(&s->barrier[!e->me], n);
    begin = clock_ns();
    way->go(e, bytes);
    mine = clock_ns() - begin;
    say(&s->took[e->me], n << 32 | (mine & UINT32_MAX));
    await(&s->took[!e->me], n << 32);
    theirs = atomic_load(&s->took[!e->me].v) & UINT32_MAX;
    return (double)(mine > theirs ? mine : theirs) / 1e6;
}

static void measure(struct side *e, size_t bytes)
{
    static double ms[ITERATIONS];
    double rounds[WAYS][ROUNDS];
    const size_t fit = ITERATIONS_BYTES / bytes, n = fit < ITERATIONS ? fit : ITERATIONS;

    for (int round = 0; round < ROUNDS; round++)
        for (size_t way = 0; way < WAYS; way++) {
            for (size_t i = 0; i < n; i++)
                ms[i] = iteration(e, &ways[way], bytes);
            rounds[way][round] = median(ms, n);
        }
    if (e->me)
        return;
    printf("%8zu", bytes / MIB);
    for (size_t way = 0; way < WAYS; way++)
        printf(" %9.3f", median(rounds[way], ROUNDS));
    printf("\n");
    fflush(stdout);
}

static void meet(struct side *e)
{
    say(&e->s->barrier[e->me], ++e->n);
    await(&e->s->barrier[!e->me], e->n);
}

/* Checks the sums of slots, of mapped memory and of fetched and pushed data. */
static bool is_right(struct side *e, size_t bytes)
{
    const float *sum = (const float *)e->dst, *also = (const float *)e->mapped[e->me][1];

    through_slots(e, bytes, true);
    mapped(e, bytes);
    meet(e);
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        if (sum[i] != 3 || also[i] != 3)
            return false;
    memset(e->dst, 0, bytes);
    meet(e);
    push(e, bytes);
    meet(e);
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        if (sum[i] != 3)
            return false;
    return true;
}

static bool wants_huge;

static void *memory(size_t bytes, int flags)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    if (wants_huge && flags == MAP_PRIVATE)
        madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static void fill(void *to, float value)
{
    for (size_t i = 0; i < BYTES_MAX / sizeof value; i++)
        ((float *)to)[i] = value;
}

static void begin(struct side *e)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(e->me, &set);
    sched_setaffinity(0, sizeof set, &set);
    e->add = tt_reduce_kernel(TUTTI_F32, TUTTI_SUM, false);
    e->src = memory(BYTES_MAX, MAP_PRIVATE);
    e->dst = memory(BYTES_MAX, MAP_PRIVATE);
    fill(e->src, (float)(1 + e->me));
    fill(e->dst, 0);
    fill(e->mapped[e->me][0], (float)(1 + e->me));
    fill(e->mapped[e->me][1], 0);
    say(&e->s->source[e->me], (uintptr_t)e->src);
    say(&e->s->destination[e->me], (uintptr_t)e->dst);
    meet(e);
}

int main(int argc, char **argv)
{
    struct side e = { .s = memory(sizeof(struct shared), MAP_SHARED) };
    const pid_t parent = getpid();
    pid_t child;
    int status;

    for (int i = 0; i < 4; i++)
        e.mapped[i / 2][i % 2] = memory(BYTES_MAX, MAP_SHARED);
    child = fork();
    if (child < 0)
        return 1;
    e.me = child == 0;
    if (e.me)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    e.peer = e.me ? parent : child;
    if (argc > 1 && strcmp(argv[1], "huge") == 0) {
        wants_huge = true;
        argc--;
        argv++;
    }
    begin(&e);
    if (!is_right(&e, 16 * MIB)) {
        fprintf(stderr, "micro_floor: a sum is wrong\n");
        kill(e.peer, SIGTERM);
        return 1;
    }
    if (e.me == 0) {
        printf("%8s", "MiB");
        for (size_t way = 0; way < WAYS; way++)
            printf(" %9s", ways[way].name);
        printf("\n");
    }
    for (int i = 1; i < (argc > 1 ? argc : 4); i++) {
        const size_t mib = argc > 1 ? strtoul(argv[i], NULL, 10) : (size_t[]){ 0, 1, 16, 128 }[i];

        if (mib == 0 || mib > BYTES_MAX / MIB) {
            fprintf(stderr, "micro_floor: %s: say MiB, 1 to %zu\n", argv[i], BYTES_MAX / MIB);
            kill(e.peer, SIGTERM);
            return 2;
        }
        measure(&e, mib * MIB);
    }
    if (e.me)
        _exit(0);
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
