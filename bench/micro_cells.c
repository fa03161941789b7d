/* The cost of a short message between two processes of one host, by the number and the spacing of
 * the cells of a mailbox.
 *
 *   micro_cells     By hand: gcc -O3 -march=native -D_GNU_SOURCE -Ibench bench/micro_cells.c
 *
 * Nanoseconds in one direction: half of a ping-pong's round trip, median of ROUNDS; one column per
 * layout. The layouts are measured alternately.
 *   near       cells of one cache line, adjacent, and payloads in a separate ring: as in
 *              src/engine/link.h for cells that are not mapped
 *   apart      the same, one cell per two lines
 *   together   cells of four lines, with the payload behind the header: as in link.h for mapped
 *              cells */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "micro.h"
#include "micro_pair.h"

#define CELLS_MAX 256u
#define UNIT 64u
#define HEAD 32u                /* header size of a cell, behind its word */
#define ROUNDS 7
#define ITERATIONS 60000
#define WARM 2000

enum way { NEAR, APART, TOGETHER, WAYS };

static const uint32_t strides[WAYS] = { [NEAR] = UNIT, [APART] = 2 * UNIT, [TOGETHER] = 4 * UNIT };

/* Memory written by one side. */
struct box {
    _Alignas(4096) uint8_t cells[CELLS_MAX * 4 * UNIT];
    uint8_t ring[CELLS_MAX * 4 * UNIT];
};

struct mail {
    enum way way;
    uint32_t cells;
    size_t bytes;
    uint64_t n;                 /* index of the round: one message in each direction, in separate
                                   cells */
};

static struct word *cell_of(const struct mail *m, struct box *b)
{
    return (struct word *)&b->cells[m->n % m->cells * strides[m->way]];
}

static uint8_t *payload_of(const struct mail *m, struct box *b)
{
    const uint64_t units = (m->bytes + UNIT - 1) / UNIT;

    return m->way == TOGETHER ? (uint8_t *)cell_of(m, b) + 8 + HEAD
                              : &b->ring[m->n * units % (m->cells * 4) * UNIT];
}

static void put(const struct mail *m, struct box *b, const uint8_t *src)
{
    const uint64_t head[HEAD / 8] = { m->n };

    memcpy((uint8_t *)cell_of(m, b) + 8, head, HEAD);
    memcpy(payload_of(m, b), src, m->bytes);
    say(cell_of(m, b), m->n);
}

static void get(const struct mail *m, struct box *b, uint8_t *dst)
{
    uint64_t head[HEAD / 8];

    await(cell_of(m, b), m->n);
    memcpy(head, (uint8_t *)cell_of(m, b) + 8, HEAD);
    memcpy(dst, payload_of(m, b), m->bytes);
    if (head[0] != m->n)
        abort();
}

static double one_way_ns(struct mail *m, int me, struct box boxes[2])
{
    static uint8_t src[4 * UNIT], dst[4 * UNIT];
    uint64_t began_ns = 0;

    for (int i = -WARM; i < ITERATIONS; i++) {
        if (i == 0)
            began_ns = clock_ns();
        m->n++;
        if (me == 0)
            put(m, &boxes[0], src);
        get(m, &boxes[!me], dst);
        if (me == 1)
            put(m, &boxes[1], src);
    }
    return (double)(clock_ns() - began_ns) / ITERATIONS / 2;
}

static void measure(int me, struct box boxes[2])
{
    static const uint32_t cells[] = { 8, 16, 32, 64, 256 };
    static const size_t bytes[] = { 16, 32, 128, 200 };
    uint64_t n = 0;

    for (size_t b = 0; b < sizeof bytes / sizeof *bytes; b++) {
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++) {
            double ns[WAYS][ROUNDS];

            for (int round = 0; round < ROUNDS; round++) {
                for (int way = 0; way < WAYS; way++) {
                    struct mail m = {
                        .way = (enum way)way, .cells = cells[c], .bytes = bytes[b], .n = n
                    };

                    ns[way][round] = one_way_ns(&m, me, boxes);
                    n = m.n;
                }
            }
            if (me == 0)
                printf("%4zu bytes, %3u cells  %5.0f %5.0f %5.0f\n", bytes[b], cells[c],
                       median(ns[NEAR], ROUNDS), median(ns[APART], ROUNDS),
                       median(ns[TOGETHER], ROUNDS));
            fflush(stdout);
        }
    }
}

int main(void)
{
    struct box *boxes =
        mmap(NULL, 2 * sizeof *boxes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int me, status = 0;
    cpu_set_t core;
    pid_t child;

    if (boxes == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    puts("                        near apart together, ns");
    fflush(stdout);
    child = fork();
    if (child < 0) {
        perror("fork");
        return 1;
    }
    me = child == 0;
    if (me)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    CPU_ZERO(&core);
    CPU_SET(me, &core);
    sched_setaffinity(0, sizeof core, &core);
    measure(me, boxes);
    if (me == 0)
        wait(&status);
    return status != 0;
}
