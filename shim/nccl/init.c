/* Calls that create communicators, and those that work without a driver. */
#include <stdlib.h>
#include <string.h>

#include "comm.h"
#include "error.h"
#include "group.h"

_Static_assert(sizeof(ncclUniqueId) == sizeof(tutti_id), "an id of NCCL carries one of Tutti");

NCCL_API(ncclResult_t, ncclGetVersion, int *version)
{
    if (!version)
        return nccl_fail(ncclInvalidArgument, "ncclGetVersion: NULL argument");
    *version = NCCL_VERSION;
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId *out)
{
    tutti_id id;
    ncclResult_t result;

    if (!out)
        return nccl_fail(ncclInvalidArgument, "ncclGetUniqueId: NULL argument");
    result = nccl_result(tutti_id_create(&id, NULL));
    if (!result)
        memcpy(out, &id, sizeof id);
    return result;
}

/* Prepares the start of a rank on the calling thread's device. */
static ncclResult_t prepare(struct nccl_start **out, ncclComm_t *comm, int nranks,
                            const ncclUniqueId *id, int rank, const ncclConfig_t *config,
                            const char *call)
{
    struct nccl_start *s;
    ncclResult_t result = nccl_config_check(config, call);
    int device;

    if (!comm)
        return nccl_fail(ncclInvalidArgument, "%s: comm is NULL", call);
    if (!result && nranks < 1)
        return nccl_fail(ncclInvalidArgument, "%s: nranks is %d: must be at least 1", call, nranks);
    if (!result && (rank < 0 || rank >= nranks))
        return nccl_fail(ncclInvalidArgument, "%s: rank is %d: must be 0 to %d", call, rank,
                         nranks - 1);
    if (!result && tutti_gpu_current_device(&device))
        return nccl_fail(ncclUnhandledCudaError, "%s: %s", call, tutti_last_error());
    if (result)
        return result;
    s = calloc(1, sizeof *s);
    if (s)
        s->comm = nccl_comm_new(nranks, rank, device, config);
    if (!s || !s->comm) {
        free(s);
        return nccl_fail(ncclSystemError, "%s: out of memory", call);
    }
    memcpy(&s->id, id, sizeof s->id);
    *comm = s->comm;
    *out = s;
    return ncclSuccess;
}

static ncclResult_t init_rank(ncclComm_t *comm, int nranks, const ncclUniqueId *id, int rank,
                              const ncclConfig_t *config, const char *call)
{
    struct nccl_start *s = NULL;
    ncclResult_t result = prepare(&s, comm, nranks, id, rank, config, call);

    if (result)
        return result;
    result = nccl_start(s);
    if (result && result != ncclInProgress && !nccl_group_is_open()) {
        nccl_comm_free(*comm, true);
        *comm = NULL;
    }
    return result;
}

NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    return init_rank(comm, nranks, &id, rank, NULL, "ncclCommInitRank");
}

NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t *comm, int nranks, ncclUniqueId id,
         int rank, ncclConfig_t *config)
{
    return init_rank(comm, nranks, &id, rank, config, "ncclCommInitRankConfig");
}

/* All ranks have the same ids; the rendezvous of one serves them all. */
NCCL_API(ncclResult_t, ncclCommInitRankScalable, ncclComm_t *comm, int nranks, int rank, int nids,
         ncclUniqueId *ids, ncclConfig_t *config)
{
    if (!ids)
        return nccl_fail(ncclInvalidArgument, "ncclCommInitRankScalable: commIds is NULL");
    if (nids < 1)
        return nccl_fail(ncclInvalidArgument,
                         "ncclCommInitRankScalable: nId is %d: must be at least 1", nids);
    return init_rank(comm, nranks, ids, rank, config, "ncclCommInitRankScalable");
}

/* Starts n ranks of this process, rank i on devices[i] (NULL: device i), each in a thread. */
static ncclResult_t init_all(ncclComm_t *comms, int n, const int *devices)
{
    struct nccl_start **starts = calloc((size_t)n, sizeof(struct nccl_start *));
    ncclUniqueId id;
    ncclResult_t result = starts ? pncclGetUniqueId(&id)
                                 : nccl_fail(ncclSystemError, "ncclCommInitAll: out of memory");

    for (int i = 0; i < n && !result; i++) {
        result = prepare(&starts[i], &comms[i], n, &id, i, NULL, "ncclCommInitAll");
        if (!result)
            starts[i]->comm->device = devices ? devices[i] : i;
    }
    for (int i = 0; starts && i < n; i++) {
        if (!result)
            nccl_start_thread(starts[i]);
        else
            free(starts[i]);
    }
    free(starts);
    for (int i = 0; i < n && !result; i++)
        result = nccl_comm_ready(comms[i], "ncclCommInitAll");
    return result;
}

NCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t *comms, int n, const int *devices)
{
    ncclResult_t result;
    int device;

    if (!comms)
        return nccl_fail(ncclInvalidArgument, "ncclCommInitAll: comm is NULL");
    if (n < 1)
        return nccl_fail(ncclInvalidArgument, "ncclCommInitAll: ndev is %d: must be at least 1", n);
    if (nccl_group_is_open())
        return nccl_fail(ncclInvalidUsage, "ncclCommInitAll: not allowed in a group");
    if (tutti_gpu_current_device(&device))
        return nccl_fail(ncclUnhandledCudaError, "ncclCommInitAll: %s", tutti_last_error());
    memset(comms, 0, (size_t)n * sizeof *comms);
    result = init_all(comms, n, devices);
    for (int i = 0; result && i < n; i++) {
        if (comms[i])
            nccl_comm_free(comms[i], true);
        comms[i] = NULL;
    }
    return result;
}

/* Starts a communicator from ranks of another one; s is owned by the callee. */
static ncclResult_t derive(struct nccl_start *s, ncclComm_t parent, ncclComm_t *out,
                           const ncclConfig_t *config, bool none, const char *call)
{
    ncclResult_t result;

    s->parent = parent;
    s->comm = nccl_comm_new(s->grows ? s->nranks : 0, parent->rank, parent->device, config);
    if (!s->comm) {
        free(s->members);
        free(s);
        return nccl_fail(ncclSystemError, "%s: out of memory", call);
    }
    if (!config || config->blocking == NCCL_UNDEFINED)
        s->comm->blocking = parent->blocking;
    pthread_mutex_lock(&parent->lock);
    s->number = parent->derived++;
    pthread_mutex_unlock(&parent->lock);
    s->comm->none = none;
    s->comm->blocking |= none;
    *out = none ? NULL : s->comm;
    result = nccl_start(s);
    if (result && result != ncclInProgress && !nccl_group_is_open() && *out) {
        nccl_comm_free(*out, true);
        *out = NULL;
    }
    return result;
}

NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t *out,
         ncclConfig_t *config)
{
    struct nccl_start *s;
    ncclResult_t result = nccl_comm_ready(comm, "ncclCommSplit");

    if (!result)
        result = nccl_config_check(config, "ncclCommSplit");
    if (!result && (!out || color < NCCL_NO_COLOR))
        result = nccl_fail(ncclInvalidArgument, "ncclCommSplit: %s",
                           out ? "the color is negative" : "newcomm is NULL");
    if (result)
        return result;
    s = calloc(1, sizeof *s);
    if (!s)
        return nccl_fail(ncclSystemError, "ncclCommSplit: out of memory");
    s->color = color;
    s->key = key;
    return derive(s, comm, out, config, color == NCCL_NO_COLOR, "ncclCommSplit");
}

static bool is_excluded(int rank, const int *excluded, int n)
{
    for (int i = 0; i < n; i++)
        if (excluded[i] == rank)
            return true;
    return false;
}

/* Lists the ranks that remain after a shrink. */
static ncclResult_t list_members(struct nccl_start *s, const struct ncclComm *c,
                                 const int *excluded, int n)
{
    s->members = calloc((size_t)c->nranks, sizeof *s->members);
    if (!s->members)
        return nccl_fail(ncclSystemError, "ncclCommShrink: out of memory");
    for (int r = 0; r < c->nranks; r++)
        if (!is_excluded(r, excluded, n))
            s->members[s->nmembers++] = r;
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommShrink, ncclComm_t comm, int *excluded, int n, ncclComm_t *out,
         ncclConfig_t *config, int flags)
{
    struct nccl_start *s;
    ncclResult_t result = nccl_comm_ready(comm, "ncclCommShrink");

    if (!result)
        result = nccl_config_check(config, "ncclCommShrink");
    if (!result && (!out || !excluded))
        result = nccl_fail(ncclInvalidArgument, "ncclCommShrink: NULL argument");
    if (!result && n < 1)
        result = nccl_fail(ncclInvalidArgument,
                           "ncclCommShrink: excludeRanksCount is %d: must be at least 1", n);
    if (!result && flags)
        result = nccl_fail(ncclInvalidUsage, "ncclCommShrink: NCCL_SHRINK_ABORT is not supported; "
                                             "create a new communicator of the surviving ranks");
    if (!result && is_excluded(comm->rank, excluded, n))
        result = nccl_fail(ncclInvalidArgument, "ncclCommShrink: called by the excluded rank %d",
                           comm->rank);
    if (result)
        return result;
    s = calloc(1, sizeof *s);
    result = s ? list_members(s, comm, excluded, n)
               : nccl_fail(ncclSystemError, "ncclCommShrink: out of memory");
    if (result) {
        free(s);
        return result;
    }
    return derive(s, comm, out, config, false, "ncclCommShrink");
}

/* The id is one of a new rendezvous; it does not depend on comm. */
NCCL_API(ncclResult_t, ncclCommGetUniqueId, ncclComm_t comm, ncclUniqueId *id)
{
    const ncclResult_t result = nccl_comm_ready(comm, "ncclCommGetUniqueId");

    return result ? result : pncclGetUniqueId(id);
}

static ncclResult_t grow_existing(ncclComm_t comm, int nranks, const ncclUniqueId *id,
                                  ncclComm_t *out, const ncclConfig_t *config)
{
    struct nccl_start *s;
    ncclResult_t result = nccl_comm_ready(comm, "ncclCommGrow");

    if (!result)
        result = nccl_config_check(config, "ncclCommGrow");
    if (!result && !out)
        result = nccl_fail(ncclInvalidArgument, "ncclCommGrow: newcomm is NULL");
    if (!result && nranks <= comm->nranks)
        result = nccl_fail(ncclInvalidArgument,
                           "ncclCommGrow: nRanks is %d: must be above %d, the present number",
                           nranks, comm->nranks);
    if (result)
        return result;
    s = calloc(1, sizeof *s);
    if (!s)
        return nccl_fail(ncclSystemError, "ncclCommGrow: out of memory");
    s->grows = true;
    s->nranks = nranks;
    s->has_id = id != NULL;
    if (id)
        memcpy(&s->id, id, sizeof s->id);
    return derive(s, comm, out, config, false, "ncclCommGrow");
}

/* Members of the parent keep their ranks. One of them, the root, passes the id of
 * ncclCommGetUniqueId, as all new ranks do. */
NCCL_API(ncclResult_t, ncclCommGrow, ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank,
         ncclComm_t *out, ncclConfig_t *config)
{
    if (comm && rank != -1)
        return nccl_fail(ncclInvalidArgument,
                         "ncclCommGrow: rank is %d: must be -1 for a rank of the communicator",
                         rank);
    if (comm)
        return grow_existing(comm, nranks, id, out, config);
    if (!id)
        return nccl_fail(ncclInvalidArgument, "ncclCommGrow: a new rank needs an id");
    return init_rank(out, nranks, id, rank, config, "ncclCommGrow");
}
