/* Calls with more than 4 GiB: counts, offsets and segment numbers that exceed 32 bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "job.h"
#include "support/unit.h"

#define SEED 20260406
#define SKIPPED 77
/* the blocks of two ranks, and a reserve for other processes */
#define NEEDED_BYTES ((uint64_t)14 << 30)
/* maximum bytes of one rank; exactly 4 GiB would be 0 in 32 bits */
#define BLOCK_BYTES (((size_t)4 << 30) + 12345)
#define LINE_BYTES 4096

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static const char *const wires[] = { "shm", "tcp" };

/* Every word of a line is a hash of the line's index: a misplaced or duplicate line is detected. */
static uint64_t word_of(uint64_t line, uint32_t salt) { return tt_mix64(line * 8 + salt + 1); }

static uint8_t *map(struct rank *r, size_t bytes)
{
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    CHECK(r, mem != MAP_FAILED);
    madvise(mem, bytes, MADV_HUGEPAGE);     /* a million page faults take longer than the call */
    return mem;
}

/* Marks the first words of every line. */
static void fill(uint8_t *mem, size_t bytes, uint32_t salt)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += LINE_BYTES) {
        const uint64_t word = word_of(at / LINE_BYTES, salt);

        memcpy(mem + at, &word, sizeof word);
    }
    mem[bytes - 1] = (uint8_t)(100 + salt);
}

static void check_filled(struct rank *r, const uint8_t *mem, size_t bytes, uint32_t salt)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += LINE_BYTES) {
        const uint64_t word = word_of(at / LINE_BYTES, salt);

        if (memcmp(mem + at, &word, sizeof word) != 0)
            job_fail(r, __FILE__, __LINE__, "the line at byte %zu of %zu of rank %u is wrong", at,
                     bytes, salt);
    }
    CHECK(r, mem[bytes - 1] == (uint8_t)(100 + salt));
}

/* Rank 0's block is large, so that rank 1's short block is at an offset above 4 GiB. */
static void gather_role(struct rank *r)
{
    const size_t counts[2] = { BLOCK_BYTES, 4 * LINE_BYTES }, displs[2] = { 0, BLOCK_BYTES + 7 };
    uint8_t *mem = map(r, BLOCK_BYTES + 7 + counts[1]);

    job_open(r);
    fill(mem + displs[r->rank], counts[r->rank], r->rank);
    job_step(r, "gather %zu bytes", BLOCK_BYTES);
    CHECK_OK(r,
             tutti_allgatherv(mem + displs[r->rank], mem, counts, displs, TUTTI_U8, r->comm, NULL));
    check_filled(r, mem + displs[!r->rank], counts[!r->rank], !r->rank);
    munmap(mem, BLOCK_BYTES + 7 + counts[1]);
}

/* Rank 0 sends its block to rank 1 in a message and then, with other content, in an all-to-all, in
 * which rank 1 sends a short block. */
static void pass_role(struct rank *r)
{
    static const size_t zero[2];
    const size_t rows[2][2] = { { 0, BLOCK_BYTES }, { 4 * LINE_BYTES, 0 } };    /* [from][to] */
    const size_t received[2] = { rows[0][r->rank], rows[1][r->rank] };
    uint8_t *mem = map(r, BLOCK_BYTES + rows[1][0]), *few = mem + BLOCK_BYTES;
    uint8_t *src = r->rank ? few : mem, *dst = r->rank ? mem : few;

    job_open(r);
    job_step(r, "send %zu bytes", BLOCK_BYTES);
    if (r->rank == 0) {
        fill(mem, BLOCK_BYTES, 2);
        CHECK_OK(r, tutti_send(mem, BLOCK_BYTES, TUTTI_U8, 1, r->comm, NULL));
    } else {
        CHECK_OK(r, tutti_recv(mem, BLOCK_BYTES, TUTTI_U8, 0, r->comm, NULL));
        check_filled(r, mem, BLOCK_BYTES, 2);
    }
    fill(src, rows[r->rank][!r->rank], r->rank);
    job_step(r, "all-to-all of %zu bytes", BLOCK_BYTES);
    CHECK_OK(
        r, tutti_alltoallv(src, rows[r->rank], zero, dst, received, zero, TUTTI_U8, r->comm, NULL));
    check_filled(r, dst, rows[!r->rank][r->rank], !r->rank);
    munmap(mem, BLOCK_BYTES + rows[1][0]);
}

/* In place and without restoration, because memory suffices for only one copy. */
static void sum_role(struct rank *r)
{
    const size_t count = BLOCK_BYTES;
    uint8_t *mem = map(r, count);

    job_open(r);
    for (size_t at = 0; at < count; at += LINE_BYTES)
        mem[at] = (uint8_t)(word_of(at / LINE_BYTES, 0) + r->rank);
    mem[count - 1] = (uint8_t)(50 + r->rank);
    job_step(r, "sum %zu bytes", count);
    CHECK_OK(r, tutti_allreduce(mem, mem, count, TUTTI_U8, TUTTI_SUM, r->comm, NULL));
    for (size_t at = 0; at < count; at += LINE_BYTES)
        if (mem[at] != (uint8_t)(2 * word_of(at / LINE_BYTES, 0) + 1))
            job_fail(r, __FILE__, __LINE__, "byte %zu of %zu is wrong", at, count);
    CHECK(r, mem[count - 1] == 101);
    munmap(mem, count);
}

static void blocks_above_4_gib_arrive_complete(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof wires / sizeof *wires; w++) {
        const struct job job = { .wires = wires[w], .nranks = 2, .seed = SEED };

        if (!unit_has_turn((uint32_t)w, 2))
            continue;
        job_run(&job, gather_role);
        job_run(&job, pass_role);
    }
}

static void more_than_4_gib_are_summed(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof wires / sizeof *wires; w++) {
        const struct job job = { .wires = wires[w], .nranks = 2, .seed = SEED };

        if (unit_has_turn((uint32_t)w, 2))
            job_run(&job, sum_role);
    }
}

static uint64_t available_bytes(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    unsigned long long kib = 0;
    char line[128];

    while (f && kib == 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) != 1)
            kib = 0;
    if (f)
        fclose(f);
    return kib * 1024;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_above_4_gib_arrive_complete),
        cmocka_unit_test(more_than_4_gib_are_summed),
    };

    if (SANITIZED) {
        printf("skipped: the sanitizers would need several bytes for each of ours\n");
        return SKIPPED;
    }
    if (available_bytes() < NEEDED_BYTES) {
        printf("skipped: %.1f GiB of memory are available, %.1f are needed\n",
               (double)available_bytes() / (1 << 30), (double)NEEDED_BYTES / (1 << 30));
        return SKIPPED;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
