/* Calls of NCCL 2.32 that this library does not support. They return ncclInvalidUsage; the message
 * names the call. Their arguments are not read, so they are not declared. */
#include <stdlib.h>

#include "error.h"

#define UNSUPPORTED(name, hint)                                                                    \
    NCCL_API(ncclResult_t, name, void)                                                             \
    {                                                                                              \
        return nccl_fail(ncclInvalidUsage, #name " is not supported by Tutti (" hint ")");         \
    }

UNSUPPORTED(ncclSetEncryption, "set TUTTI_SECURITY")

#define NO_DEVICE_API "there is no device API"
UNSUPPORTED(ncclDevCommCreate, NO_DEVICE_API)
UNSUPPORTED(ncclDevCommDestroy, NO_DEVICE_API)
UNSUPPORTED(ncclGetCftDeviceLeInfo, NO_DEVICE_API)
UNSUPPORTED(ncclGetMultimemDeviceLeInfo, NO_DEVICE_API)
UNSUPPORTED(ncclGetPeerDeviceLeInfo, NO_DEVICE_API)
UNSUPPORTED(ncclGetLsaDevicePointer, NO_DEVICE_API)
UNSUPPORTED(ncclGetLsaMultimemDevicePointer, NO_DEVICE_API)
UNSUPPORTED(ncclGetMultimemDevicePointer, NO_DEVICE_API)
UNSUPPORTED(ncclGetPeerDevicePointer, NO_DEVICE_API)
UNSUPPORTED(ncclGinBarrierCreateRequirement, NO_DEVICE_API)
UNSUPPORTED(ncclGinInboxA2ACreateRequirement, NO_DEVICE_API)
UNSUPPORTED(ncclGinOutboxCreateRequirement, NO_DEVICE_API)
UNSUPPORTED(ncclLLA2ACreateRequirement, NO_DEVICE_API)
UNSUPPORTED(ncclLsaBarrierCreateRequirement, NO_DEVICE_API)

#define NO_PARAMETERS "parameters of Tutti are environment variables: tutti info --params"
UNSUPPORTED(ncclParamBind, NO_PARAMETERS)
UNSUPPORTED(ncclParamGet, NO_PARAMETERS)
UNSUPPORTED(ncclParamGetI8, NO_PARAMETERS)
UNSUPPORTED(ncclParamGetI16, NO_PARAMETERS)
UNSUPPORTED(ncclParamGetI32, NO_PARAMETERS)
UNSUPPORTED(ncclParamGetI64, NO_PARAMETERS)
UNSUPPORTED(ncclParamGetU8, NO_PARAMETERS)
UNSUPPORTED(ncclParamGetU16, NO_PARAMETERS)
UNSUPPORTED(ncclParamGetU32, NO_PARAMETERS)
UNSUPPORTED(ncclParamGetU64, NO_PARAMETERS)
UNSUPPORTED(ncclParamGetStr, NO_PARAMETERS)
UNSUPPORTED(ncclParamGetParameter, NO_PARAMETERS)

/* There are no parameters: an empty table, which the caller frees. */
NCCL_API(ncclResult_t, ncclParamGetAllParameterKeys, const char ***table, int *length)
{
    if (!table || !length)
        return nccl_fail(ncclInvalidArgument, "ncclParamGetAllParameterKeys: NULL argument");
    *table = NULL;
    *length = 0;
    return ncclSuccess;
}

NCCL_API(void, ncclParamDumpAll, void)
{
}

NCCL_API(void, ncclResetDebugInit, void)
{
}

/* Teams of counted transfers: empty. */
#define NO_TEAM(name)                                                                              \
    NCCL_API(ncclTeam_t, name, void)                                                               \
    {                                                                                              \
        nccl_fail(ncclInvalidUsage, #name " is not supported by Tutti (" NO_DEVICE_API ")");       \
        return (ncclTeam_t){ 0 };                                                                  \
    }
NO_TEAM(ncclTeamCft)
NO_TEAM(ncclTeamCftMultimem)

#define NO_NUMBER(name)                                                                            \
    NCCL_API(int, name, void)                                                                      \
    {                                                                                              \
        nccl_fail(ncclInvalidUsage, #name " is not supported by Tutti (" NO_DEVICE_API ")");       \
        return -1;                                                                                 \
    }
NO_NUMBER(ncclLLA2ACalcSlots)
