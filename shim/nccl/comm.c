/* Communicators: creation, destruction and queries. */
#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "group.h"
#include "window.h"

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
        return nccl_fail(ncclInvalidArgument, "%s: config.blocking is %d: must be 0 or 1", call,
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
    pthread_cond_init(&c->turn_changed, NULL);
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
    else if (c->gpu)
        tutti_gpu_flush(c->gpu);    /* operations in progress need the windows */
    nccl_windows_free(c);
    tutti_gpu_destroy(c->gpu);
    tutti_comm_destroy(c->comm);
    tutti_comm_destroy(c->base);
    pthread_cond_destroy(&c->turn_changed);
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
        return nccl_fail(ncclInvalidUsage,
                         "%s: the open group has not started the communicator "
                         "yet (call ncclGroupEnd first)",
                         call);
    return state ? nccl_fail(state, "%s", c->why) : ncclSuccess;
}

ncclResult_t nccl_comm_usable(struct ncclComm *c, const char *call)
{
    const ncclResult_t result = nccl_comm_ready(c, call);

    if (result)
        return result;
    if (atomic_load(&c->revoked))
        return nccl_fail(ncclInvalidUsage, "%s: the communicator was revoked", call);
    if (atomic_load(&c->suspended))
        return nccl_fail(ncclInvalidUsage, "%s: the communicator is suspended", call);
    return ncclSuccess;
}

/* ---- start ---- */

/* Distributes the id of the root of a grow. */
static ncclResult_t share_id(struct nccl_start *s)
{
    struct {
        uint8_t id[sizeof(tutti_id)];
        uint8_t nroots;
    } mine = { .nroots = s->has_id };
    ncclResult_t result;

    if (s->has_id)
        memcpy(mine.id, &s->id, sizeof mine.id);
    result = nccl_result(
        tutti_allreduce(&mine, &mine, sizeof mine, TUTTI_U8, TUTTI_SUM, s->parent->base, NULL));
    if (!result && mine.nroots != 1)
        result = nccl_fail(ncclInvalidUsage,
                           "ncclCommGrow: %d ranks of the communicator passed an id: exactly one "
                           "must do so",
                           mine.nroots);
    memcpy(&s->id, mine.id, sizeof s->id);
    return result;
}

static ncclResult_t start_from_parent(struct nccl_start *s)
{
    tutti_comm *base = s->parent->base;

    if (s->grows)
        return share_id(s);
    if (s->members)
        return nccl_result(
            tutti_comm_create_group(base, s->members, s->nmembers, 0, &s->comm->base));
    return nccl_result(tutti_comm_split(base, s->color, s->key, &s->comm->base));
}

/* Derives the communicator from its parent. Calls on a parent run in their order. */
static ncclResult_t derive_in_turn(struct nccl_start *s)
{
    struct ncclComm *parent = s->parent;
    ncclResult_t result;
    bool lost;

    pthread_mutex_lock(&parent->lock);
    while (parent->turn != s->number && !parent->turn_lost)
        pthread_cond_wait(&parent->turn_changed, &parent->lock);
    lost = parent->turn_lost;
    pthread_mutex_unlock(&parent->lock);
    if (lost)
        return nccl_fail(ncclSystemError, "an earlier call on the communicator could not start");
    result = start_from_parent(s);
    pthread_mutex_lock(&parent->lock);
    parent->turn++;
    pthread_cond_broadcast(&parent->turn_changed);
    pthread_mutex_unlock(&parent->lock);
    return result;
}

/* Creates the communicators of Tutti, and binds one. */
static ncclResult_t connect_comm(struct nccl_start *s)
{
    struct ncclComm *c = s->comm;
    const tutti_conf conf = { .size = sizeof conf };
    const tutti_gpu_conf gpu = {
        .size = sizeof gpu, .has_device = 1, .device = c->device, .timeout_ms = -1
    };
    const ncclResult_t derived = s->parent ? derive_in_turn(s) : ncclSuccess;
    tutti_status st = TUTTI_OK;

    if (derived)
        return derived;
    if (!s->parent || s->grows)
        st = tutti_comm_create_id(&c->base, &s->id, c->nranks, c->rank, &conf);
    if (!st && c->base)
        st = tutti_comm_dup(c->base, &c->comm);
    if (!st && c->comm)
        st = tutti_gpu_create(&c->gpu, c->comm, &gpu);
    if (!st && c->comm) {
        c->rank = tutti_comm_rank(c->comm);
        c->nranks = tutti_comm_size(c->comm);
    }
    return nccl_result(st);
}

void nccl_start_drop(struct nccl_start *s)
{
    if (s->parent) {
        pthread_mutex_lock(&s->parent->lock);
        s->parent->turn_lost = true;
        pthread_cond_broadcast(&s->parent->turn_changed);
        pthread_mutex_unlock(&s->parent->lock);
    }
    free(s->members);
    free(s);
}

void nccl_start_run(struct nccl_start *s)
{
    const ncclResult_t result = connect_comm(s);

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
    nccl_start_drop(s);
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
    ncclResult_t result = nccl_comm_usable(comm, "ncclCommFinalize");

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

/* All operations of this rank have completed or failed when the call returns. */
NCCL_API(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int flags)
{
    ncclResult_t result = nccl_comm_ready(comm, "ncclCommRevoke");

    if (!result && flags)
        result =
            nccl_fail(ncclInvalidArgument, "ncclCommRevoke: revokeFlags is %d: must be 0", flags);
    if (result)
        return result;
    atomic_store(&comm->revoked, true);
    tutti_gpu_abort(comm->gpu);
    tutti_gpu_flush(comm->gpu);
    return ncclSuccess;
}

/* A communicator has no device memory that could be released. */
NCCL_API(ncclResult_t, ncclCommSuspend, ncclComm_t comm, int flags)
{
    ncclResult_t result = nccl_comm_usable(comm, "ncclCommSuspend");

    if (!result && flags != NCCL_SUSPEND_MEM)
        result = nccl_fail(ncclInvalidArgument, "ncclCommSuspend: flags is %d: must be %d", flags,
                           NCCL_SUSPEND_MEM);
    if (!result)
        result = nccl_result(tutti_gpu_flush(comm->gpu));
    if (!result)
        atomic_store(&comm->suspended, true);
    return result;
}

NCCL_API(ncclResult_t, ncclCommResume, ncclComm_t comm)
{
    ncclResult_t result = nccl_comm_ready(comm, "ncclCommResume");

    if (!result && !atomic_exchange(&comm->suspended, false))
        result = nccl_fail(ncclInvalidUsage, "ncclCommResume: the communicator is not suspended");
    return result;
}

/* Device memory in bytes, which is always 0, or whether the communicator is suspended. */
NCCL_API(ncclResult_t, ncclCommMemStats, ncclComm_t comm, int stat, uint64_t *value)
{
    ncclResult_t result = nccl_comm_ready(comm, "ncclCommMemStats");

    if (!result && (!value || stat < 0 || stat > NCCL_STAT_TOTAL))
        result = nccl_fail(ncclInvalidArgument, "ncclCommMemStats: %s",
                           value ? "unknown statistic" : "NULL argument");
    if (!result)
        *value = stat == NCCL_STAT_SUSPENDED && atomic_load(&comm->suspended);
    return result;
}

NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t *out)
{
    ncclResult_t result = nccl_comm_check(comm, "ncclCommGetAsyncError");

    if (result || !out)
        return result ? result
                      : nccl_fail(ncclInvalidArgument, "ncclCommGetAsyncError: NULL argument");
    result = atomic_load(&comm->state);
    if (!result && !atomic_load(&comm->revoked))
        result = nccl_result(tutti_gpu_status(comm->gpu));
    *out = result;
    return ncclSuccess;
}

/* Writes the int field at `offset` of struct ncclComm to *out. */
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
