/* A job for tests of the live view: prog_status MODE [RANK]. Each rank prints "rank R pid P"
 * before the last call.
 *   never R      rank R never makes the last call
 *   mismatch R   rank R makes it with another count
 *   receive R    rank R receives a message that nobody sends
 *   run          all ranks make calls until they are killed
 *   late R       the same, but rank R sleeps for 50 ms before each call
 * A rank whose call has failed waits until it is killed. PROG_STATUS_NAME names the world,
 * PROG_STATUS_COUNT is the number of elements (default 256). */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tutti/trace.h"
#include "tutti/tutti.h"

#define COUNT_MAX 65536ul

static float in[2 * COUNT_MAX], out[2 * COUNT_MAX];
static size_t count = 256;

/* Ends only with the process. */
static void wait_for_end(void)
{
    for (;;)
        pause();
}

static void last_call(const char *mode, int rank, int chosen, tutti_comm *world)
{
    const bool mine = rank == chosen;
    tutti_status st = TUTTI_OK;

    if (strcmp(mode, "never") == 0 && mine)
        wait_for_end();
    if (strcmp(mode, "receive") == 0 && mine)
        st = tutti_recv(in, count, TUTTI_F32, 0, world, NULL);
    else if (strcmp(mode, "receive") == 0)
        wait_for_end();
    do {
        if (strcmp(mode, "late") == 0 && mine)
            usleep(50000);
        st = tutti_allreduce(in, out, strcmp(mode, "mismatch") == 0 && mine ? 2 * count : count,
                             TUTTI_F32, TUTTI_MAX, world, NULL);
    } while (st == TUTTI_OK && (strcmp(mode, "run") == 0 || strcmp(mode, "late") == 0));
    wait_for_end();
}

int main(int argc, char **argv)
{
    const char *name = getenv("PROG_STATUS_NAME"), *n = getenv("PROG_STATUS_COUNT");
    const tutti_conf conf = { .size = sizeof conf,
                              .timeout_ms = 3600000,
                              .name = name ? name : "world" };
    const char *mode = argc > 1 ? argv[1] : "run";
    const int chosen = argc > 2 ? atoi(argv[2]) : -1;
    tutti_comm *world, *half;
    int rank;

    if (n)
        count = strtoul(n, NULL, 10);
    if (count > COUNT_MAX || tutti_comm_create(&world, &conf) != TUTTI_OK)
        return 1;
    rank = tutti_comm_rank(world);
    if (tutti_comm_split(world, rank % 2, 0, &half) != TUTTI_OK ||
        tutti_comm_set_name(half, rank % 2 ? "odd" : "even") != TUTTI_OK ||
        tutti_allreduce(in, out, count, TUTTI_F32, TUTTI_SUM, half, NULL) != TUTTI_OK)
        return 1;
    tutti_trace_annotate("the last iteration");
    printf("rank %d pid %d\n", rank, (int)getpid());
    fflush(stdout);
    last_call(mode, rank, chosen, world);
    return 0;
}
