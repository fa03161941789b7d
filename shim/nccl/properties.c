/* Properties of communicators, and teams. There is no device API: each rank is alone in its LSA
 * (load/store accessible) team. */
#include <stddef.h>
#include <string.h>

#include "comm.h"
#include "error.h"

_Static_assert(sizeof(ncclCommProperties_t) == 152, "the layout of NCCL 2.32");

/* Writes the fields that the program's struct has. */
NCCL_API(ncclResult_t, ncclCommQueryProperties, ncclComm_t comm, ncclCommProperties_t *out)
{
    const ncclResult_t result = nccl_comm_ready(comm, "ncclCommQueryProperties");
    ncclCommProperties_t p = { 0 };

    if (result)
        return result;
    if (!out || out->magic != NCCL_MAGIC || out->size < offsetof(ncclCommProperties_t, device_api))
        return nccl_fail(ncclInvalidArgument, "ncclCommQueryProperties: the properties %s",
                         out ? "were not initialized with NCCL_COMM_PROPERTIES_INITIALIZER"
                             : "are NULL");
    p.size = out->size;
    p.magic = out->magic;
    p.version = out->version;
    p.rank = comm->rank;
    p.nranks = comm->nranks;
    p.cuda_device = comm->device;
    p.nvml_device = comm->device;
    p.lsa_teams = comm->nranks;
    p.host_rma = true;
    memcpy(out, &p, p.size < sizeof p ? p.size : sizeof p);
    return ncclSuccess;
}

static ncclTeam_t whole_team(ncclComm_t comm, const char *call)
{
    if (nccl_comm_ready(comm, call))
        return (ncclTeam_t){ 0 };
    return (ncclTeam_t){ comm->nranks, comm->rank, 1 };
}

NCCL_API(ncclTeam_t, ncclTeamWorld, ncclComm_t comm)
{
    return whole_team(comm, "ncclTeamWorld");
}

NCCL_API(ncclTeam_t, ncclTeamRail, ncclComm_t comm)
{
    return whole_team(comm, "ncclTeamRail");
}

NCCL_API(ncclTeam_t, ncclTeamLsa, ncclComm_t comm)
{
    return nccl_comm_ready(comm, "ncclTeamLsa") ? (ncclTeam_t){ 0 } : (ncclTeam_t){ 1, 0, 1 };
}

/* Convert a rank of a team that contains the calling rank to its rank in the communicator (World),
 * or in the LSA team. */
NCCL_API(int, ncclTeamRankToWorld, ncclComm_t comm, ncclTeam_t team, int rank)
{
    return nccl_comm_ready(comm, "ncclTeamRankToWorld")
               ? -1
               : comm->rank + (rank - team.rank) * team.stride;
}

NCCL_API(int, ncclTeamRankToLsa, ncclComm_t comm, ncclTeam_t team, int rank)
{
    return nccl_comm_ready(comm, "ncclTeamRankToLsa") ? -1 : (rank - team.rank) * team.stride;
}
