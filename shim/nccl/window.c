/* Registration of windows. It is collective: in a group, it takes place when the group ends. */
#include "window.h"

#include <stdint.h>
#include <stdlib.h>

#include "error.h"
#include "group.h"

#define NCCL_WINDOW_MAGIC 0x74757477u

struct ncclWindow {
    struct ncclWindow *next;        /* of the communicator; protected by its lock */
    uint32_t magic;
    struct ncclComm *comm;
    void *buf;
    size_t bytes;
    tutti_gpu_window *window;       /* NULL: not yet */
};

/* Removes w from the list of its communicator. Returns whether it was there. */
static bool unlist(struct ncclComm *c, const struct ncclWindow *w)
{
    struct ncclWindow **at = &c->windows;
    bool found;

    pthread_mutex_lock(&c->lock);
    while (*at && *at != w)
        at = &(*at)->next;
    found = *at != NULL;
    if (found)
        *at = w->next;
    pthread_mutex_unlock(&c->lock);
    return found;
}

static void free_window(struct ncclWindow *w)
{
    tutti_gpu_window_free(w->window);
    w->magic = 0;
    free(w);
}

void nccl_windows_free(struct ncclComm *comm)
{
    struct ncclWindow *next;

    for (struct ncclWindow *w = comm->windows; w; w = next) {
        next = w->next;
        free_window(w);
    }
    comm->windows = NULL;
}

/* Runs the collective part on a rank that cannot register its memory. It passes NULL, which is not
 * device memory, so the registration fails on all ranks. Returns that error. */
static tutti_status fail_for_all(struct ncclComm *comm)
{
    const bool is_ready = !nccl_comm_ready(comm, "ncclCommWindowRegister");
    tutti_gpu_window *none;

    return is_ready && comm->gpu ? tutti_gpu_window_create(comm->gpu, NULL, 1, &none)
                                 : TUTTI_ERR_INVALID;
}

static ncclResult_t register_none(void *arg)
{
    return nccl_result(fail_for_all(arg));
}

/* Returns `result`, after the registration has failed on all ranks. In a group, this happens when
 * the group ends. */
static ncclResult_t refuse_for_all(struct ncclComm *comm, ncclResult_t result)
{
    if (nccl_group_is_open())
        nccl_group_add_job(comm, register_none, comm);
    else
        fail_for_all(comm);
    return nccl_group_refuse(result);
}

/* The collective part. */
static ncclResult_t register_now(void *arg)
{
    struct ncclWindow *w = arg;
    ncclResult_t result = nccl_comm_usable(w->comm, "ncclCommWindowRegister");

    if (result)
        fail_for_all(w->comm);
    else
        result = nccl_result(tutti_gpu_window_create(w->comm->gpu, w->buf, w->bytes, &w->window));
    return result;
}

static ncclResult_t check_arguments(const void *buf, size_t bytes, const ncclWindow_t *out,
                                    int flags)
{
    const char *call = "ncclCommWindowRegister";

    if (!buf || !bytes || !out)
        return nccl_fail(ncclInvalidArgument, "%s: NULL argument, or size is 0", call);
    if ((uintptr_t)buf % NCCL_WIN_ALIGNMENT)
        return nccl_fail(ncclInvalidArgument, "%s: %p is not aligned to %u bytes", call, buf,
                         NCCL_WIN_ALIGNMENT);
    if (flags & ~NCCL_WIN_FLAGS)
        return nccl_fail(ncclInvalidArgument, "%s: unknown flags %#x", call, (unsigned)flags);
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void *buf, size_t bytes,
         ncclWindow_t *out, int flags)
{
    ncclResult_t result = nccl_comm_check(comm, "ncclCommWindowRegister");
    struct ncclWindow *w;

    if (result)
        return nccl_group_refuse(result);
    result = check_arguments(buf, bytes, out, flags);
    if (result)
        return refuse_for_all(comm, result);
    w = malloc(sizeof *w);
    if (!w)
        return refuse_for_all(comm,
                              nccl_fail(ncclSystemError, "ncclCommWindowRegister: out of memory"));
    *w =
        (struct ncclWindow){ .magic = NCCL_WINDOW_MAGIC, .comm = comm, .buf = buf, .bytes = bytes };
    result = nccl_group_is_open() ? nccl_group_add_job(comm, register_now, w) : register_now(w);
    if (result) {
        free(w);
        return result;
    }
    pthread_mutex_lock(&comm->lock);
    w->next = comm->windows;
    comm->windows = w;
    pthread_mutex_unlock(&comm->lock);
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

tutti_gpu_window *nccl_window_of(struct ncclComm *comm, const struct ncclWindow *w)
{
    return w && w->magic == NCCL_WINDOW_MAGIC && w->comm == comm ? w->window : NULL;
}

NCCL_API(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t window)
{
    ncclResult_t result = check_window(comm, window, "ncclCommWindowDeregister");

    if (!result && nccl_group_is_open())
        result = nccl_fail(ncclInvalidUsage, "ncclCommWindowDeregister: not allowed in a group");
    if (result)
        return nccl_group_refuse(result);
    if (unlist(comm, window))
        free_window(window);
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
