/* An MPI library as a contestant: the same source for Open MPI and MPICH, at their defaults. */
#include "peer.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

/* "Open MPI v4.1.4, package: …" and "MPICH Version:\t4.0.2\n…" become a name and a number. */
static void library(char version[64], const char **name)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    const char *digits;
    int len;

    MPI_Get_library_version(text, &len);
    *name = strstr(text, "Open MPI") ? "Open MPI" : strstr(text, "MPICH") ? "MPICH" : "MPI";
    digits = strpbrk(text, "0123456789");
    snprintf(version, 64, "%.*s", digits ? (int)strspn(digits, "0123456789.abrc") : 0, digits ? digits : "");
}

static const char *prepare(void *ctx, const struct peer_job *job, int fresh)
{
    (void)ctx;
    (void)fresh;
    if (job->algo[0])
        return "this peer chooses its algorithms itself";
    if (job->count > INT_MAX)
        return "too many elements for an int";
    return NULL;
}

static void pingpong(const struct peer_job *job, int count)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Send(job->src, count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(job->dst, count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(job->dst, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(job->src, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
    }
}

static void run(void *ctx, const struct peer_job *job)
{
    const int n = (int)job->count, b = (int)job->block;
    const MPI_Comm comm = MPI_COMM_WORLD;

    (void)ctx;
    switch (job->coll) {
    case PEER_ALLREDUCE:
        MPI_Allreduce(job->src, job->dst, n, MPI_FLOAT, MPI_SUM, comm);
        break;
    case PEER_REDUCE:
        MPI_Reduce(job->src, job->dst, n, MPI_FLOAT, MPI_SUM, 0, comm);
        break;
    case PEER_REDUCE_SCATTER:
        MPI_Reduce_scatter_block(job->src, job->dst, b, MPI_FLOAT, MPI_SUM, comm);
        break;
    case PEER_ALLGATHER:
        MPI_Allgather(job->src, b, MPI_FLOAT, job->dst, b, MPI_FLOAT, comm);
        break;
    case PEER_BROADCAST:
        MPI_Bcast(job->dst, n, MPI_FLOAT, 0, comm);
        break;
    case PEER_GATHER:
        MPI_Gather(job->src, b, MPI_FLOAT, job->dst, b, MPI_FLOAT, 0, comm);
        break;
    case PEER_SCATTER:
        MPI_Scatter(job->src, b, MPI_FLOAT, job->dst, b, MPI_FLOAT, 0, comm);
        break;
    case PEER_ALLTOALL:
        MPI_Alltoall(job->src, b, MPI_FLOAT, job->dst, b, MPI_FLOAT, comm);
        break;
    case PEER_BARRIER:
        MPI_Barrier(comm);
        break;
    case PEER_PINGPONG:
        pingpong(job, n);
        break;
    case PEER_NCOLLS:
        break;
    }
}

static void barrier(void *ctx)
{
    (void)ctx;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void max(void *ctx, double *values, size_t n)
{
    int rank;

    (void)ctx;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Reduce(rank ? values : MPI_IN_PLACE, values, (int)n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    struct peer_ops ops = { .prepare = prepare, .run = run, .barrier = barrier, .max = max };
    char version[64];
    int status;

    MPI_Init(&argc, &argv);
    if (argc != 2) {
        fprintf(stderr, "usage: mpi_peer DIR (see PROTOCOL.md)\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    library(version, &ops.name);
    ops.version = version;
    MPI_Comm_rank(MPI_COMM_WORLD, &ops.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ops.nranks);
    status = peer_serve(argv[1], &ops, NULL);
    MPI_Finalize();
    return status;
}
