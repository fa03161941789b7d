/* Memory. */
#include <stdlib.h>

#include "comm.h"
#include "error.h"

NCCL_API(ncclResult_t, ncclMemAlloc, void **out, size_t bytes)
{
    return nccl_result(tutti_gpu_mem_alloc(bytes, out));
}

NCCL_API(ncclResult_t, ncclMemFree, void *mem)
{
    return nccl_result(tutti_gpu_mem_free(mem));
}

/* Registration has no effect yet: transfers are staged through pinned memory. The handle only
 * detects a wrong ncclCommDeregister. */
struct registration {
    uint32_t magic;
};

NCCL_API(ncclResult_t, ncclCommRegister, ncclComm_t comm, void *buf, size_t bytes, void **handle)
{
    ncclResult_t result = nccl_comm_check(comm, "ncclCommRegister");
    struct registration *r;

    if (!result && (!buf || !bytes || !handle))
        result = nccl_fail(ncclInvalidArgument, "ncclCommRegister: NULL argument, or no bytes");
    if (result)
        return result;
    r = malloc(sizeof *r);
    if (!r)
        return nccl_fail(ncclSystemError, "ncclCommRegister: out of memory");
    r->magic = NCCL_COMM_MAGIC;
    *handle = r;
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommDeregister, ncclComm_t comm, void *handle)
{
    struct registration *r = handle;
    const ncclResult_t result = nccl_comm_check(comm, "ncclCommDeregister");

    if (result || !r)
        return result;
    if (r->magic != NCCL_COMM_MAGIC)
        return nccl_fail(ncclInvalidArgument, "ncclCommDeregister: invalid handle");
    r->magic = 0;
    free(r);
    return ncclSuccess;
}
