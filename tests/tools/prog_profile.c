/* A rank of a job whose trace dump is profiled (test_profile.py):
 *
 *   prog_profile ITERATIONS LATE COUNT [SLEEP_US]
 *
 * Each iteration has an allreduce of COUNT floats on the world, an allgather in each half of the
 * ranks, and a message to the next rank. Rank LATE calls the allreduce after all others (with
 * SLEEP_US, it sleeps before its call instead of waiting for theirs). Each rank then writes its
 * dump to TUTTI_TRACE_DIR. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tutti/trace.h"
#include "tutti/tutti.h"

struct job {
    tutti_comm *world, *half;
    int rank, n, late, sleep_us;
    size_t count;
    float *in, *out;            /* [count], [n * count] */
};

static void must(tutti_status st)
{
    if (!st)
        return;
    fprintf(stderr, "%s: %s\n", tutti_status_name(st), tutti_last_error());
    exit(1);
}

/* The others call the allreduce, and then send a message to the late rank, which awaits all of
 * them. */
static void reduce_late(struct job *j)
{
    tutti_request *request = NULL;
    const tutti_call how = { .size = sizeof how, .request = &request };
    const tutti_call signal = { .size = sizeof signal, .tag = 7 };
    char byte = 0;

    for (int r = 0; j->rank == j->late && r < j->n; r++)
        if (r != j->rank)
            must(tutti_recv(&byte, 1, TUTTI_U8, r, j->world, &signal));
    must(tutti_allreduce(j->in, j->out, j->count, TUTTI_F32, TUTTI_SUM, j->world, &how));
    if (j->rank != j->late)
        must(tutti_send(&byte, 1, TUTTI_U8, j->late, j->world, &signal));
    must(tutti_wait(request));
}

/* A message to the next rank, from the previous one. */
static void pass_on(struct job *j)
{
    const tutti_p2p ops[] = {
        { .is_recv = 1, .peer = (j->rank + j->n - 1) % j->n, .buf = j->out, .count = j->count,
          .type = TUTTI_F32 },
        { .peer = (j->rank + 1) % j->n, .buf = j->in, .count = j->count, .type = TUTTI_F32 },
    };

    must(tutti_group(ops, 2, j->world, NULL));
}

static void reduce(struct job *j)
{
    if (j->rank == j->late)
        usleep((useconds_t)j->sleep_us);
    must(tutti_allreduce(j->in, j->out, j->count, TUTTI_F32, TUTTI_SUM, j->world, NULL));
}

int main(int argc, char **argv)
{
    struct job j = { .late = argc > 2 ? atoi(argv[2]) : 0 };
    const int iterations = argc > 1 ? atoi(argv[1]) : 1;

    if (argc != 4 && argc != 5)
        return 2;
    j.sleep_us = argc == 5 ? atoi(argv[4]) : 0;
    j.count = (size_t)atol(argv[3]);
    must(tutti_comm_create(&j.world, NULL));
    j.rank = tutti_comm_rank(j.world);
    j.n = tutti_comm_size(j.world);
    must(tutti_comm_set_name(j.world, "world"));
    must(tutti_comm_split(j.world, j.rank < j.n / 2, j.rank, &j.half));
    must(tutti_comm_set_name(j.half, j.rank < j.n / 2 ? "low" : "high"));
    j.in = calloc(j.count, sizeof *j.in);
    j.out = calloc((size_t)j.n * j.count, sizeof *j.out);
    if (!j.in || !j.out)
        return 1;
    for (int i = 0; i < iterations; i++) {
        if (j.sleep_us)
            reduce(&j);
        else
            reduce_late(&j);
        must(tutti_allgather(j.in, j.out, j.count, TUTTI_F32, j.half, NULL));
        pass_on(&j);
    }
    must(tutti_trace_dump(NULL, "end of the job"));
    must(tutti_barrier(j.world, NULL));
    free(j.in);
    free(j.out);
    tutti_comm_destroy(j.half);
    tutti_comm_destroy(j.world);
    return 0;
}
