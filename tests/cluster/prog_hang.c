/* A rank of a training loop with tensor, data and pipeline groups, of which one rank has a fault
 * (test_hangs.py):
 *
 *   prog_hang FAULT RANK TENSOR ITERATION CALL COUNT TIMEOUT_MS DIRECTORY
 *
 * TENSOR: size of the tensor groups. The fault is in ITERATION (from 0), at CALL (from 0). Calls
 * from there on have the timeout. FAULT is one of:
 *
 *   never      RANK does not make the call, nor any later one
 *   outside    the same, with an annotation
 *   stop       RANK is stopped (SIGSTOP)
 *   kill       RANK is killed (SIGKILL)
 *   order      RANK makes the call on the world before the one on its tensor group
 *   mismatch   RANK calls with one element more
 *   cut        rank 0 creates DIRECTORY/cut before the call; all ranks continue when the test has
 *              created DIRECTORY/is-cut
 *   late       RANK makes the call when the dumps of the others are written (DIRECTORY/dumped)
 *
 * A rank whose call failed waits for DIRECTORY/done, so that its end does not disturb others,
 * unless EXITS is in the environment. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tutti/trace.h"
#include "tutti/tutti.h"

#define CALLS 6
#define ITERATIONS 6
#define RANKS_MAX 64

struct hang {
    const char *fault, *directory;
    int rank, n, culprit, tensor_size, iteration, call;
    size_t count;
    int64_t timeout_ms;
    tutti_comm *world, *tensor, *data;
    float *in, *out;            /* [count + 1], [RANKS_MAX * (count + 1)] */
};

static bool exists(const struct hang *h, const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", h->directory, name);
    return access(path, F_OK) == 0;
}

static void await_file(const struct hang *h, const char *name)
{
    while (!exists(h, name))
        usleep(10000);
}

static void create_file(const struct hang *h, const char *name)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", h->directory, name);
    f = fopen(path, "w");
    if (!f || fclose(f))
        abort();
}

static void end_here(struct hang *h, tutti_status st)
{
    printf("%s: %s\n", tutti_status_name(st), tutti_last_error());
    fflush(stdout);
    if (!getenv("EXITS"))
        await_file(h, "done");
    tutti_comm_destroy(h->data);
    tutti_comm_destroy(h->tensor);
    tutti_comm_destroy(h->world);
    free(h->in);
    free(h->out);
    exit(0);                    /* which waits for the dump */
}

static void must(struct hang *h, tutti_status st)
{
    if (st)
        end_here(h, st);
}

static bool is(const struct hang *h, const char *fault)
{
    return strcmp(h->fault, fault) == 0;
}

/* ---- calls ---- */

/* A step of the pipeline: to the next rank, from the previous one. */
static tutti_status pass_on(struct hang *h, size_t count, const tutti_call *how)
{
    const tutti_p2p ops[] = {
        { .is_recv = 1, .peer = (h->rank + h->n - 1) % h->n, .buf = h->out, .count = count,
          .type = TUTTI_F32 },
        { .peer = (h->rank + 1) % h->n, .buf = h->in, .count = count, .type = TUTTI_F32 },
    };

    return tutti_group(ops, 2, h->world, how);
}

/* Two calls in flight at once, as with gradients. */
static tutti_status overlap(struct hang *h, size_t count, const tutti_call *how)
{
    tutti_request *requests[2] = { NULL, NULL };
    tutti_call call = *how;
    tutti_status st, second;

    call.request = &requests[0];
    st = tutti_allreduce(h->in, h->out, count, TUTTI_F32, TUTTI_SUM, h->data, &call);
    if (st)
        return st;
    call.request = &requests[1];
    second = tutti_allgather(h->in, h->out + count, count, TUTTI_F32, h->data, &call);
    st = tutti_wait_all(requests, 2);
    return st ? st : second;
}

static tutti_status call_one(struct hang *h, int i, size_t count, const tutti_call *how)
{
    switch (i) {
    case 0: return tutti_allreduce(h->in, h->out, count, TUTTI_F32, TUTTI_SUM, h->tensor, how);
    case 1: return overlap(h, count, how);
    case 2: return pass_on(h, count, how);
    case 3: return tutti_allgather(h->in, h->out, count, TUTTI_F32, h->tensor, how);
    case 4: return tutti_allreduce(h->in, h->out, count, TUTTI_F32, TUTTI_SUM, h->world, how);
    default: return tutti_barrier(h->world, how);
    }
}

/* ---- faults ---- */

/* Injects the fault before or instead of the call. */
static void fault_begin(struct hang *h, const tutti_call *how)
{
    if (is(h, "cut")) {
        must(h, tutti_barrier(h->world, NULL));
        if (h->rank == 0)
            create_file(h, "cut");
        await_file(h, "is-cut");
    }
    if (h->rank != h->culprit)
        return;
    if (is(h, "outside"))
        must(h, tutti_trace_annotate("reads a shard of the data set"));
    if (is(h, "never") || is(h, "outside")) {
        await_file(h, "done");
        _exit(0);
    }
    if (is(h, "late"))
        await_file(h, "dumped");
    if (is(h, "stop"))
        raise(SIGSTOP);
    if (is(h, "kill"))
        raise(SIGKILL);
    if (is(h, "order"))
        must(h, call_one(h, 4, h->count, how));
}

static void iterate(struct hang *h, int iteration)
{
    for (int i = 0; i < CALLS; i++) {
        const bool begins = iteration == h->iteration && i == h->call;
        const bool is_past =
            iteration > h->iteration || (iteration == h->iteration && i >= h->call);
        const tutti_call how = { .size = sizeof how, .timeout_ms = is_past ? h->timeout_ms : 0 };
        size_t count = h->count;

        if (begins)
            fault_begin(h, &how);
        if (begins && is(h, "mismatch") && h->rank == h->culprit)
            count++;
        must(h, call_one(h, i, count, &how));
    }
}

int main(int argc, char **argv)
{
    struct hang h;

    if (argc != 9)
        return 2;
    h = (struct hang){
        .fault = argv[1],
        .culprit = atoi(argv[2]),
        .tensor_size = atoi(argv[3]),
        .iteration = atoi(argv[4]),
        .call = atoi(argv[5]),
        .count = strtoul(argv[6], NULL, 10),
        .timeout_ms = atoll(argv[7]),
        .directory = argv[8],
    };
    h.in = calloc(h.count + 1, sizeof *h.in);
    h.out = calloc(RANKS_MAX * (h.count + 1), sizeof *h.out);
    if (!h.in || !h.out ||
        tutti_comm_create(&h.world, &(tutti_conf){ .size = sizeof(tutti_conf), .name = "world" })) {
        fprintf(stderr, "failed: %s\n", tutti_last_error());
        return 1;
    }
    h.rank = tutti_comm_rank(h.world);
    h.n = tutti_comm_size(h.world);
    must(&h, tutti_comm_split(h.world, h.rank / h.tensor_size, h.rank, &h.tensor));
    must(&h, tutti_comm_split(h.world, h.rank % h.tensor_size, h.rank, &h.data));
    must(&h, tutti_comm_set_name(h.tensor, "tensor"));
    must(&h, tutti_comm_set_name(h.data, "data"));
    for (int i = 0; i < ITERATIONS; i++)
        iterate(&h, i);
    end_here(&h, TUTTI_OK);
}
