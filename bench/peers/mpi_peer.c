/* An MPI library as a contestant: the same source for Open MPI, MPICH and Intel MPI. All select
 * their algorithms themselves. Open MPI also accepts a name of one of its algorithms, if started
 * with
 * --mca coll_tuned_use_dynamic_rules 1. */
#include "peer.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

/* Parses "Open MPI v5.0.11, package: ...", "MPICH Version:\t5.0.2\n..." and "Intel(R) MPI Library
 * 2021.19.0 ..." into a name and a version. */
static void library(char version[64], const char **name)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    const char *digits;
    int len;

    MPI_Get_library_version(text, &len);
    *name = strstr(text, "Open MPI") ? "Open MPI"
            : strstr(text, "Intel")  ? "Intel MPI"
            : strstr(text, "MPICH")  ? "MPICH"
                                     : "MPI";
    digits = strpbrk(text, "0123456789");
    snprintf(version, 64, "%.*s", digits ? (int)strspn(digits, "0123456789.abrc") : 0,
             digits ? digits : "");
}

/* A communicator that uses the requested algorithm, or MPI_COMM_WORLD. */
struct mpi {
    MPI_Comm comm;
    MPI_Request request;
};

/* Returns the value of an MPI_T setting that has this name, or -1. */
static int value_of(int setting, const char *word)
{
    char name[256], item[64];
    int name_len = sizeof(name), verbosity, binding, scope, nitems, value, len;
    MPI_Datatype type;
    MPI_T_enum words;

    if (MPI_T_cvar_get_info(setting, name, &name_len, &verbosity, &type, &words, NULL, NULL,
                            &binding, &scope) ||
        type != MPI_INT || words == MPI_T_ENUM_NULL)
        return -1;
    len = sizeof(item);
    if (MPI_T_enum_get_info(words, &nitems, item, &len))
        return -1;
    for (int i = 0; i < nitems; i++) {
        len = sizeof(item);
        if (MPI_T_enum_get_item(words, i, &value, item, &len) == MPI_SUCCESS && !strcmp(item, word))
            return value;
    }
    return -1;
}

/* Forces an algorithm: Open MPI reads the setting when a communicator is created. Returns NULL or
 * an error message. */
static const char *force(const char *coll, const char *algo)
{
    char name[64];
    int setting, value, count;
    MPI_T_cvar_handle handle;

    snprintf(name, sizeof(name), "coll_tuned_%s_algorithm", coll);
    if (MPI_T_cvar_get_index(name, &setting))
        return "this peer chooses its algorithms itself";
    value = value_of(setting, algo);
    if (value < 0)
        return "this peer has no algorithm of that name";
    if (MPI_T_cvar_handle_alloc(setting, NULL, &handle, &count))
        return "this peer's choice of algorithm cannot be reached";
    count = MPI_T_cvar_write(handle, &value);
    MPI_T_cvar_handle_free(&handle);
    return count ? "this peer's choice of algorithm cannot be written" : NULL;
}

static const char *prepare(void *ctx, const struct peer_job *job, int fresh)
{
    struct mpi *mpi = ctx;
    const char *why;

    if (job->count > INT_MAX)
        return "too many elements for an int";
    if (!fresh)
        return NULL;
    if (mpi->comm != MPI_COMM_WORLD)
        MPI_Comm_free(&mpi->comm);
    mpi->comm = MPI_COMM_WORLD;
    if (!job->algo[0])
        return NULL;
    why = force(peer_coll_name(job->coll), job->algo);
    if (!why)
        MPI_Comm_dup(MPI_COMM_WORLD, &mpi->comm);
    return why;
}

/* Pairs of ranks, 2i and 2i + 1. */
static void pingpong(const struct peer_job *job, int count)
{
    int rank, nranks, partner;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    partner = rank ^ 1;
    if (partner >= nranks)
        return;
    if (rank % 2 == 0)
        MPI_Send(job->src, count, MPI_FLOAT, partner, 0, MPI_COMM_WORLD);
    MPI_Recv(job->dst, count, MPI_FLOAT, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank % 2)
        MPI_Send(job->src, count, MPI_FLOAT, partner, 0, MPI_COMM_WORLD);
}

static void sendrecv(const struct peer_job *job, int count)
{
    int rank, nranks;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    MPI_Sendrecv(job->src, count, MPI_FLOAT, (rank + 1) % nranks, 0, job->dst, count, MPI_FLOAT,
                 (rank + nranks - 1) % nranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void run(void *ctx, const struct peer_job *job)
{
    const int n = (int)job->count, b = (int)job->block;
    const MPI_Comm comm = ((struct mpi *)ctx)->comm;
    void *src = job->in_place ? MPI_IN_PLACE : job->src, *root_src = src, *root_dst = job->dst;
    int rank;

    MPI_Comm_rank(comm, &rank);
    if (rank != 0)
        root_src = job->src;
    else if (job->in_place)
        root_dst = MPI_IN_PLACE;
    switch (job->coll) {
    case PEER_ALLREDUCE:
        MPI_Allreduce(src, job->dst, n, MPI_FLOAT, MPI_SUM, comm);
        break;
    case PEER_REDUCE:
        MPI_Reduce(root_src, job->dst, n, MPI_FLOAT, MPI_SUM, 0, comm);
        break;
    case PEER_REDUCE_SCATTER:
        MPI_Reduce_scatter_block(src, job->dst, b, MPI_FLOAT, MPI_SUM, comm);
        break;
    case PEER_ALLGATHER:
        MPI_Allgather(src, b, MPI_FLOAT, job->dst, b, MPI_FLOAT, comm);
        break;
    case PEER_BROADCAST:
        MPI_Bcast(job->dst, n, MPI_FLOAT, 0, comm);
        break;
    case PEER_GATHER:
        MPI_Gather(root_src, b, MPI_FLOAT, job->dst, b, MPI_FLOAT, 0, comm);
        break;
    case PEER_SCATTER:
        MPI_Scatter(job->src, b, MPI_FLOAT, root_dst, b, MPI_FLOAT, 0, comm);
        break;
    case PEER_ALLTOALL:
        MPI_Alltoall(src, b, MPI_FLOAT, job->dst, b, MPI_FLOAT, comm);
        break;
    case PEER_BARRIER:
        MPI_Barrier(comm);
        break;
    case PEER_PINGPONG:
        pingpong(job, n);
        break;
    case PEER_SENDRECV:
        sendrecv(job, n);
        break;
    case PEER_OVERLAP:
    case PEER_COMPUTE:
    case PEER_NCOLLS:
        break;
    }
}

static void start(void *ctx, const struct peer_job *job)
{
    struct mpi *mpi = ctx;

    MPI_Iallreduce(job->src, job->dst, (int)job->count, MPI_FLOAT, MPI_SUM, mpi->comm,
                   &mpi->request);
}

static void finish(void *ctx)
{
    MPI_Wait(&((struct mpi *)ctx)->request, MPI_STATUS_IGNORE);
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
    MPI_Reduce(rank ? values : MPI_IN_PLACE, values, (int)n, MPI_DOUBLE, MPI_MAX, 0,
               MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    struct peer_ops ops = { .prepare = prepare,
                            .run = run,
                            .barrier = barrier,
                            .max = max,
                            .start = start,
                            .finish = finish,
                            .in_place = 1 };
    struct mpi mpi = { .comm = MPI_COMM_WORLD };
    char version[64];
    int status, level;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
    MPI_Init(&argc, &argv);
    if (argc != 2) {
        fprintf(stderr, "usage: mpi_peer DIR (see PROTOCOL.md)\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    library(version, &ops.name);
    ops.version = version;
    MPI_Comm_rank(MPI_COMM_WORLD, &ops.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ops.nranks);
    status = peer_serve(argv[1], &ops, &mpi);
    MPI_Finalize();
    MPI_T_finalize();
    return status;
}
