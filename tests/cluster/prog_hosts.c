/* Ranks of several hosts, during network failures:
 *
 *   prog_hosts ROUNDS
 *   prog_hosts ROUNDS DEVICE CUT JOIN
 *
 * In a round all ranks sum vectors, and each puts bytes with a signal to its right neighbour; sizes
 * are random, and every element and byte is checked. If an RDMA device is given, rank 0 runs the
 * shell command CUT after ROUNDS rounds. ROUNDS more rounds follow; in the last ones the device
 * must be silent. Then rank 0 runs JOIN, and rounds continue until the device has sent packets
 * again. Prints a line at the end; the exit status is 0 on success. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tutti/rma.h"
#include "tutti/tutti.h"

#define BYTES_MAX ((uint64_t)1 << 20)
#define SIGNAL_BYTES 64         /* of a window, before the data */
#define PACKETS 500             /* number of packets that shows that a device carries data again */
#define COME_BACK_S 120
#define SILENT_ROUNDS \
    3 /* last ones after the cut; before them, a lane may retry for
                                   seconds */

#define MUST(call) must((call), #call)
static void must(tutti_status st, const char *what)
{
    if (st == TUTTI_OK)
        return;
    fprintf(stderr, "prog_hosts: %s: %s: %s\n", what, tutti_status_name(st), tutti_last_error());
    exit(1);
}

static void fail(const char *why)
{
    fprintf(stderr, "prog_hosts: %s\n", why);
    exit(1);
}

/* The generator SplitMix64. */
static uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Sizes of all magnitudes, with more long ones. */
static uint64_t bytes_of(uint64_t round, uint64_t which)
{
    const uint64_t draw = mixed(2 * round + which), most = draw % 4 ? BYTES_MAX : 4096;

    return 1 + mixed(draw) % most;
}

static uint8_t byte_of(uint64_t round, int rank, uint64_t i)
{
    return (uint8_t)(i * 31 + (i >> 8) + round * 7 + (uint64_t)rank * 101);
}

/* ---- a round ---- */

struct ranks {
    tutti_comm *comm;
    tutti_window *window;
    uint8_t *theirs;            /* [SIGNAL_BYTES + BYTES_MAX], the window */
    uint8_t *bytes;             /* [BYTES_MAX]: source */
    int32_t *terms, *sums;      /* [BYTES_MAX / 4] */
    int rank, n;
};

static void add_up(const struct ranks *r, uint64_t round)
{
    const uint64_t count = (bytes_of(round, 0) + 3) / 4;

    for (uint64_t i = 0; i < count; i++)
        r->terms[i] = (int32_t)((i + round) % 1000) + r->rank;
    MUST(tutti_allreduce(r->terms, r->sums, count, TUTTI_I32, TUTTI_SUM, r->comm, NULL));
    for (uint64_t i = 0; i < count; i++)
        if (r->sums[i] != (int32_t)((i + round) % 1000) * r->n + r->n * (r->n - 1) / 2)
            fail("an element of a sum is wrong");
}

static void put_around(const struct ranks *r, uint64_t round)
{
    const int left = (r->rank + r->n - 1) % r->n;
    const uint64_t bytes = bytes_of(round, 1);
    const tutti_rma rma = { .size = sizeof rma,
                            .signal_op = TUTTI_SIGNAL_SET,
                            .signal_value = round + 1 };

    for (uint64_t i = 0; i < bytes; i++)
        r->bytes[i] = byte_of(round, r->rank, i);
    MUST(tutti_window_put(r->window, (r->rank + 1) % r->n, SIGNAL_BYTES, r->bytes, bytes, &rma));
    MUST(tutti_window_wait(r->window, 0, TUTTI_EQUAL, round + 1, 0, NULL));
    for (uint64_t i = 0; i < bytes; i++)
        if (r->theirs[SIGNAL_BYTES + i] != byte_of(round, left, i))
            fail("a byte that was put is wrong");
    MUST(tutti_barrier(r->comm, NULL));
}

/* ---- actions of rank 0 between rounds ---- */

struct plan {
    uint64_t rounds;
    const char *device, *cut, *join;    /* NULL: no failure */
    uint64_t begun_sent, cut_sent, silent_from; /* packets sent by the device before the job, before
                                                   the cut, and before the silent rounds */
    uint64_t joined_sent;
    time_t joined_s;
};

static uint64_t packets_sent(const char *device)
{
    char path[160];
    uint64_t n = 0;
    FILE *f;

    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/hw_counters/sent_pkts", device);
    f = fopen(path, "re");
    if (!f || fscanf(f, "%" SCNu64, &n) != 1)
        fail("the device does not tell how many packets it has sent");
    fclose(f);
    return n;
}

static void run(const char *command)
{
    if (system(command) != 0)
        fail("a command failed");
}

/* Returns whether another round follows round `round`, counted from 0. */
static bool goes_on(struct plan *p, uint64_t round)
{
    if (!p->device)
        return round + 1 < p->rounds;
    if (round + 1 == p->rounds) {
        p->cut_sent = packets_sent(p->device);
        if (p->cut_sent - p->begun_sent < PACKETS)
            fail("the device carries nothing even before it is cut off");
        run(p->cut);
    } else if (round + 1 == 2 * p->rounds - SILENT_ROUNDS) {
        p->silent_from = packets_sent(p->device);
    } else if (round + 1 == 2 * p->rounds) {
        if (packets_sent(p->device) - p->silent_from >= PACKETS)
            fail("the device still carries data after it was cut off");
        run(p->join);
        p->joined_sent = packets_sent(p->device);
        p->joined_s = time(NULL);
    } else if (round + 1 > 2 * p->rounds) {
        if (packets_sent(p->device) - p->joined_sent >= PACKETS)
            return false;
        if (time(NULL) - p->joined_s > COME_BACK_S)
            fail("the device carries nothing after it was joined again");
    }
    return true;
}

int main(int argc, char **argv)
{
    struct plan plan = { 0 };
    struct ranks r = { 0 };
    uint64_t round = 0;
    uint8_t more = 1;

    if (argc == 5)
        plan = (struct plan){ .device = argv[2], .cut = argv[3], .join = argv[4] };
    if (argc == 2 || argc == 5)
        plan.rounds = strtoull(argv[1], NULL, 10);
    if (plan.rounds <= SILENT_ROUNDS)
        fail("usage: prog_hosts ROUNDS [DEVICE CUT JOIN], with more than 3 rounds");
    r.theirs = aligned_alloc(64, SIGNAL_BYTES + BYTES_MAX);
    r.bytes = malloc(BYTES_MAX);
    r.terms = malloc(BYTES_MAX);
    r.sums = malloc(BYTES_MAX);
    if (!r.theirs || !r.bytes || !r.terms || !r.sums)
        fail("no memory");
    memset(r.theirs, 0, SIGNAL_BYTES + BYTES_MAX);
    MUST(tutti_comm_create(&r.comm, NULL));
    r.rank = tutti_comm_rank(r.comm);
    r.n = tutti_comm_size(r.comm);
    MUST(tutti_window_create(r.comm, r.theirs, SIGNAL_BYTES + BYTES_MAX, &r.window));
    plan.begun_sent = plan.device && r.rank == 0 ? packets_sent(plan.device) : 0;
    for (; more; round++) {
        add_up(&r, round);
        put_around(&r, round);
        if (r.rank == 0)
            more = goes_on(&plan, round);
        MUST(tutti_broadcast(&more, &more, sizeof more, TUTTI_U8, 0, r.comm, NULL));
    }
    MUST(tutti_window_free(r.window));
    tutti_comm_destroy(r.comm);
    if (r.rank == 0)
        printf("%" PRIu64 " rounds of %d ranks: every element and byte is right\n", round, r.n);
    free(r.theirs);
    free(r.bytes);
    free(r.terms);
    free(r.sums);
    return 0;
}
