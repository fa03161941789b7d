/* Communicators: their start, end and queries. */
#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "group.h"

ncclResult_t nccl_config_check(const ncclConfig_t *config, const char *call)
{
    if (!config)
        return ncclSuccess;
    if (config->magic != NCCL_MAGIC || config->size < offsetof(ncclConfig_t, cga_cluster_size))
        return nccl_fail(ncclInvalidArgument,
                         "%s: the configuration was not initialized with "
                         "NCCL_CONFIG_INITIALIZER",
                         call);
    if (config->blocking != NCCL_UNDEFINED && config->blocking != 0 && config->blocking != 1)
        return nccl_fail(ncclInvalidArgument, "%s: config.blocking is %d, but must be 0 or 1", call,
                         config->blocking);
    return ncclSuccess;
}

struct ncclComm *nccl_comm_new(int nranks, int rank, int device, const ncclConfig_t *config)
{
    struct ncclComm *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->magic = NCCL_COMM_MAGIC;
    c->nranks = nranks;
    c->rank = rank;
    c->device = device;
    c->blocking = !config || config->blocking != 0;
    atomic_store(&c->state, ncclInProgress);
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

static void join(struct ncclComm *c)
{
    pthread_mutex_lock(&c->lock);
    if (c->has_thread)
        pthread_join(c->thread, NULL);
    c->has_thread = false;
    pthread_mutex_unlock(&c->lock);
}

void nccl_comm_free(struct ncclComm *c, bool abort)
{
    join(c);
    if (abort && c->gpu)
        tutti_gpu_abort(c->gpu);
    tutti_gpu_destroy(c->gpu);
    tutti_comm_destroy(c->comm);
    pthread_mutex_destroy(&c->lock);
    free(c->factors);
    c->magic = 0;
    free(c);
}

ncclResult_t nccl_comm_check(const struct ncclComm *c, const char *call)
{
    if (c && c->magic == NCCL_COMM_MAGIC)
        return ncclSuccess;
    return nccl_fail(ncclInvalidArgument, "%s: the communicator %s", call,
                     c ? "is invalid or was destroyed" : "is NULL");
}

ncclResult_t nccl_comm_ready(struct ncclComm *c, const char *call)
{
    ncclResult_t state = nccl_comm_check(c, call);

    if (state)
        return state;
    join(c);
    state = atomic_load(&c->state);
    if (state == ncclInProgress)
        return nccl_fail(ncclInvalidUsage, "%s: the communicator is started by the open group",
                         call);
    return state ? nccl_fail(state, "%s", c->why) : ncclSuccess;
}

/* ---- start ---- */

static tutti_status split_job(tutti_comm *comm, void *arg)
{
    struct nccl_start *s = arg;

    if (s->members)
        return tutti_comm_create_group(comm, s->members, s->nmembers, 0, &s->comm->comm);
    return tutti_comm_split(comm, s->color, s->key, &s->comm->comm);
}

/* Creates the communicator of Tutti, and binds it. */
static tutti_status connect_comm(struct nccl_start *s)
{
    struct ncclComm *c = s->comm;
    const tutti_conf conf = { .size = sizeof conf };
    const tutti_gpu_conf gpu = {
        .size = sizeof gpu, .has_device = 1, .device = c->device, .timeout_ms = -1
    };
    tutti_status st;

    if (s->parent)
        st = tutti_gpu_run(s->parent->gpu, split_job, s);
    else
        st = tutti_comm_create_id(&c->comm, &s->id, c->nranks, c->rank, &conf);
    if (!st && c->comm)
        st = tutti_gpu_create(&c->gpu, c->comm, &gpu);
    if (!st && s->parent) {
        c->rank = tutti_comm_rank(c->comm);
        c->nranks = tutti_comm_size(c->comm);
    }
    return st;
}

void nccl_start_run(struct nccl_start *s)
{
    const ncclResult_t result = nccl_result(connect_comm(s));

    if (result)
        snprintf(s->comm->why, sizeof s->comm->why, "%s", nccl_last_error());
    atomic_store(&s->comm->state, result);
    free(s->members);
    free(s);
}

static void *start_thread(void *arg)
{
    nccl_start_run(arg);
    return NULL;
}

ncclResult_t nccl_start_thread(struct nccl_start *s)
{
    struct ncclComm *c = s->comm;

    pthread_mutex_lock(&c->lock);
    c->has_thread = !pthread_create(&c->thread, NULL, start_thread, s);
    pthread_mutex_unlock(&c->lock);
    if (c->has_thread)
        return ncclSuccess;
    snprintf(c->why, sizeof c->why, "cannot start a thread");
    atomic_store(&c->state, ncclSystemError);
    free(s->members);
    free(s);
    return nccl_fail(ncclSystemError, "cannot start a thread");
}

ncclResult_t nccl_start(struct nccl_start *s)
{
    struct ncclComm *c = s->comm;
    ncclResult_t result;

    if (nccl_group_is_open())
        return nccl_group_add_start(s);
    if (!c->blocking) {
        result = nccl_start_thread(s);
        return result ? result : ncclInProgress;
    }
    nccl_start_run(s);
    result = nccl_comm_ready(c, "NCCL communicator");
    if (c->none)
        nccl_comm_free(c, false);
    return result;
}

/* ---- end and queries ---- */

NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm)
{
    ncclResult_t result = nccl_comm_ready(comm, "ncclCommFinalize");

    return result ? result : nccl_result(tutti_gpu_flush(comm->gpu));
}

NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm)
{
    const ncclResult_t result = comm ? nccl_comm_check(comm, "ncclCommDestroy") : ncclSuccess;

    if (comm && !result)
        nccl_comm_free(comm, false);
    return result;
}

NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm)
{
    const ncclResult_t result = comm ? nccl_comm_check(comm, "ncclCommAbort") : ncclSuccess;

    if (comm && !result)
        nccl_comm_free(comm, true);
    return result;
}

NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t *out)
{
    ncclResult_t result = nccl_comm_check(comm, "ncclCommGetAsyncError");

    if (result || !out)
        return result ? result
                      : nccl_fail(ncclInvalidArgument, "ncclCommGetAsyncError: NULL argument");
    result = atomic_load(&comm->state);
    if (!result)
        result = nccl_result(tutti_gpu_status(comm->gpu));
    *out = result;
    return ncclSuccess;
}

/* Writes the int at `offset` of a communicator. */
static ncclResult_t query(struct ncclComm *c, size_t offset, int *out, const char *call)
{
    const ncclResult_t result = nccl_comm_ready(c, call);

    if (result || !out)
        return result ? result : nccl_fail(ncclInvalidArgument, "%s: NULL argument", call);
    memcpy(out, (const char *)c + offset, sizeof *out);
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommCount, ncclComm_t comm, int *out)
{
    return query(comm, offsetof(struct ncclComm, nranks), out, "ncclCommCount");
}

NCCL_API(ncclResult_t, ncclCommUserRank, ncclComm_t comm, int *out)
{
    return query(comm, offsetof(struct ncclComm, rank), out, "ncclCommUserRank");
}

NCCL_API(ncclResult_t, ncclCommCuDevice, ncclComm_t comm, int *out)
{
    return query(comm, offsetof(struct ncclComm, device), out, "ncclCommCuDevice");
}
