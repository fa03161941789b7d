/* A rank of a job of an even number of ranks, whose pairs of neighbours reduce in turns
 * (test_slow_links.py):
 *
 *   prog_pace ITERATIONS COUNT
 *
 * Each iteration has an allreduce of COUNT floats in pairs {0, 1}, {2, 3}, ..., and then one in
 * pairs {1, 2}, {3, 4}, ..., and the last rank with rank 0. Each rank then writes its dump to
 * TUTTI_TRACE_DIR. */
#include <stdio.h>
#include <stdlib.h>

#include "tutti/trace.h"
#include "tutti/tutti.h"

static void must(tutti_status st)
{
    if (!st)
        return;
    fprintf(stderr, "%s: %s\n", tutti_status_name(st), tutti_last_error());
    exit(1);
}

int main(int argc, char **argv)
{
    const int iterations = argc == 3 ? atoi(argv[1]) : 0;
    const size_t count = argc == 3 ? (size_t)atol(argv[2]) : 0;
    tutti_comm *world, *pair[2];
    float *in, *out;
    int rank, n;

    if (iterations < 1 || count < 1)
        return 2;
    must(tutti_comm_create(&world, NULL));
    rank = tutti_comm_rank(world);
    n = tutti_comm_size(world);
    must(tutti_comm_split(world, rank / 2, rank, &pair[0]));
    must(tutti_comm_split(world, (rank + 1) % n / 2, rank, &pair[1]));
    in = calloc(count, sizeof *in);
    out = calloc(count, sizeof *out);
    if (!in || !out)
        return 1;
    for (int i = 0; i < 2 * iterations; i++)
        must(tutti_allreduce(in, out, count, TUTTI_F32, TUTTI_SUM, pair[i % 2], NULL));
    must(tutti_barrier(world, NULL));           /* the clocks are compared without other traffic */
    must(tutti_trace_dump(NULL, "end of the job"));
    must(tutti_barrier(world, NULL));
    free(in);
    free(out);
    tutti_comm_destroy(pair[1]);
    tutti_comm_destroy(pair[0]);
    tutti_comm_destroy(world);
    return 0;
}
