/* Results and messages. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "comm.h"

static _Thread_local char last[NCCL_WHY_BYTES];

ncclResult_t nccl_fail(ncclResult_t result, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(last, sizeof last, fmt, args);
    va_end(args);
    return result;
}

const char *nccl_last_error(void)
{
    return last;
}

static ncclResult_t result_of(tutti_status status)
{
    switch (status) {
    case TUTTI_OK:
    case TUTTI_PENDING:
        return ncclSuccess;
    case TUTTI_ERR_INVALID:
        return ncclInvalidArgument;
    case TUTTI_ERR_NOMEM:
        return ncclSystemError;
    case TUTTI_ERR_SYSTEM:
        return strstr(tutti_last_error(), "CUDA error") ? ncclUnhandledCudaError : ncclSystemError;
    case TUTTI_ERR_TIMEOUT:
        return ncclTimeout;
    case TUTTI_ERR_PEER_LOST:
    case TUTTI_ERR_ABORTED:
        return ncclRemoteError;
    case TUTTI_ERR_MISMATCH:
    case TUTTI_ERR_UNSUPPORTED:
    case TUTTI_ERR_FORKED:
    case TUTTI_ERR_RANGE:
        return ncclInvalidUsage;
    case TUTTI_ERR_PROTOCOL:
    case TUTTI_STATUS_COUNT:
        break;
    }
    return ncclInternalError;
}

ncclResult_t nccl_result(tutti_status status)
{
    const ncclResult_t result = result_of(status);

    return result ? nccl_fail(result, "%s", tutti_last_error()) : ncclSuccess;
}

NCCL_API(const char *, ncclGetErrorString, ncclResult_t result)
{
    static const char *const words[ncclNumResults] = {
        "no error", "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage", "remote process exited or there was a network error",
        "operation in progress", "timeout",
    };

    return (unsigned)result < ncclNumResults ? words[result] : "unknown result code";
}

NCCL_API(const char *, ncclGetLastError, struct ncclComm *comm)
{
    if (comm && comm->magic == NCCL_COMM_MAGIC && atomic_load(&comm->state) != ncclSuccess &&
        atomic_load(&comm->state) != ncclInProgress)
        return comm->why;
    return last;
}
