/* Memory. */
#include <stdint.h>
#include <stdlib.h>

#include "comm.h"
#include "error.h"

#define NCCL_WINDOW_MAGIC 0x74757477u

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

/* A window has no effect on operations yet, like a registration. Nothing is put into it, because
 * ncclPutSignal is not supported. */
struct ncclWindow {
    uint32_t magic;
    struct ncclComm *comm;
    void *buf;
};
typedef struct ncclWindow *ncclWindow_t;

NCCL_API(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void *buf, size_t bytes,
         ncclWindow_t *out, int flags)
{
    ncclResult_t result = nccl_comm_ready(comm, "ncclCommWindowRegister");
    struct ncclWindow *w;

    if (!result && (!buf || !bytes || !out))
        result =
            nccl_fail(ncclInvalidArgument, "ncclCommWindowRegister: NULL argument, or no bytes");
    if (!result && (uintptr_t)buf % NCCL_WIN_ALIGNMENT)
        result =
            nccl_fail(ncclInvalidArgument, "ncclCommWindowRegister: %p is not aligned to %u bytes",
                      buf, NCCL_WIN_ALIGNMENT);
    if (!result && flags & ~NCCL_WIN_FLAGS)
        result = nccl_fail(ncclInvalidArgument, "ncclCommWindowRegister: unknown flags %#x",
                           (unsigned)flags);
    if (result)
        return result;
    w = malloc(sizeof *w);
    if (!w)
        return nccl_fail(ncclSystemError, "ncclCommWindowRegister: out of memory");
    *w = (struct ncclWindow){ .magic = NCCL_WINDOW_MAGIC, .comm = comm, .buf = buf };
    *out = w;
    return ncclSuccess;
}

static ncclResult_t check_window(ncclComm_t comm, const struct ncclWindow *w, const char *call)
{
    const ncclResult_t result = nccl_comm_check(comm, call);

    if (result)
        return result;
    if (!w || w->magic != NCCL_WINDOW_MAGIC || w->comm != comm)
        return nccl_fail(ncclInvalidArgument, "%s: the window is %s", call,
                         w ? "invalid or of another communicator" : "NULL");
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t window)
{
    const ncclResult_t result = check_window(comm, window, "ncclCommWindowDeregister");

    if (result)
        return result;
    window->magic = 0;
    free(window);
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclWinGetUserPtr, ncclComm_t comm, ncclWindow_t window, void **out)
{
    ncclResult_t result = check_window(comm, window, "ncclWinGetUserPtr");

    if (!result && !out)
        result = nccl_fail(ncclInvalidArgument, "ncclWinGetUserPtr: NULL argument");
    if (!result)
        *out = window->buf;
    return result;
}
