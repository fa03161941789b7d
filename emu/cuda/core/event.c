#include "event.h"

#include "capture.h"
#include "fail.h"
#include "handles.h"
#include "machine.h"
#include "stream.h"

#include <stdlib.h>

#define EVENT 2u        /* kind of handle, for other processes */

static bool valid(CUevent e)
{
    return tt_emu_handle_is(e, TT_EMU_EVENT);
}

CUresult tt_emu_event_create(int device, unsigned flags, CUevent *out)
{
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    CUresult st = tt_emu_device_ready(device);
    CUevent e;

    if (st)
        return st;
    if (flags & ~known || (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    e = tt_emu_alloc(sizeof(*e));
    e->device = device;
    e->flags = flags;
    pthread_mutex_init(&e->lock, NULL);
    if (flags & CU_EVENT_INTERPROCESS) {
        st = tt_emu_ipc_counters_create(device, &e->ipc);
        if (st) {
            pthread_mutex_destroy(&e->lock);
            free(e);
            return st;
        }
    }
    tt_emu_handle_add(e, TT_EMU_EVENT);
    *out = e;
    return CUDA_SUCCESS;
}

CUresult tt_emu_event_destroy(CUevent e)
{
    if (!tt_emu_handle_remove(e, TT_EMU_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    tt_emu_mark_put(e->mark);
    tt_emu_ipc_counters_put(e->ipc);
    tt_emu_capture_point_put(e->point);
    pthread_mutex_destroy(&e->lock);
    free(e);
    return CUDA_SUCCESS;
}

/* Work on the counters of an event that processes share. Acquires a reference. */
static struct tt_emu_work ipc_work(enum tt_emu_work_kind kind, struct tt_emu_ipc_counters *c,
                                   uint64_t count)
{
    tt_emu_ipc_counters_get(c);
    return (struct tt_emu_work){ .kind = kind, .ipc = { .counters = c, .count = count } };
}

/* The work that completes a new record of the event. */
static struct tt_emu_work record_work(CUevent e)
{
    struct tt_emu_work work = { .kind = TT_EMU_MARK };

    pthread_mutex_lock(&e->lock);
    if (e->ipc) {
        work = ipc_work(TT_EMU_IPC_MARK, e->ipc, tt_emu_ipc_counters_record(e->ipc));
    } else {
        tt_emu_mark_put(e->mark);
        e->mark = tt_emu_mark_create();
        work.mark = tt_emu_mark_get(e->mark);
    }
    pthread_mutex_unlock(&e->lock);
    return work;
}

/* The work that waits for the last record; EMPTY if there is none. */
static struct tt_emu_work wait_work(CUevent e)
{
    struct tt_emu_work work = { .kind = TT_EMU_EMPTY };

    pthread_mutex_lock(&e->lock);
    if (e->ipc) {
        work = ipc_work(TT_EMU_IPC_WAIT, e->ipc, tt_emu_ipc_counters_recorded(e->ipc));
    } else if (e->mark) {
        work.kind = TT_EMU_WAIT;
        work.mark = tt_emu_mark_get(e->mark);
    }
    pthread_mutex_unlock(&e->lock);
    return work;
}

static CUresult push_now(CUstream s, CUevent e, struct tt_emu_work (*work_of)(CUevent e))
{
    struct tt_emu_work work;

    if (!valid(e))
        return CUDA_ERROR_INVALID_HANDLE;
    work = work_of(e);
    tt_emu_stream_push_now(s, &work);
    return CUDA_SUCCESS;
}

CUresult tt_emu_event_record_now(CUevent e, CUstream s)
{
    return push_now(s, e, record_work);
}

CUresult tt_emu_stream_wait_event_now(CUstream s, CUevent e)
{
    return push_now(s, e, wait_work);
}

CUresult tt_emu_event_record(CUevent e, CUstream s, unsigned flags)
{
    bool captured = false;
    CUresult st;

    if (!valid(e) || e->device != s->device)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    st = tt_emu_device_ready(s->device);
    if (!st)
        st = tt_emu_capture_record(s, e, flags, &captured);
    if (!st && !captured)
        st = tt_emu_stream_prepare(s);
    if (!st && !captured)
        st = tt_emu_stream_join_default(s);
    if (st || captured)
        return st;
    return tt_emu_event_record_now(e, s);
}

CUresult tt_emu_event_query(CUevent e)
{
    bool done;
    CUresult st;

    if (!valid(e))
        return CUDA_ERROR_INVALID_HANDLE;
    st = tt_emu_device_ready(e->device);
    if (!st)
        st = tt_emu_capture_event_unsupported(e);
    if (!st)
        st = tt_emu_capture_unsafe();
    if (st)
        return st;
    pthread_mutex_lock(&e->lock);
    if (e->ipc)
        done = tt_emu_ipc_counters_reached(e->ipc, tt_emu_ipc_counters_recorded(e->ipc));
    else
        done = !e->mark || tt_emu_mark_is_done(e->mark);
    pthread_mutex_unlock(&e->lock);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult tt_emu_event_synchronize(CUevent e)
{
    struct tt_emu_ipc_counters *ipc;
    struct tt_emu_mark *m;
    CUresult st;

    if (!valid(e))
        return CUDA_ERROR_INVALID_HANDLE;
    st = tt_emu_capture_event_unsupported(e);
    if (!st)
        st = tt_emu_capture_unsafe();
    if (st)
        return st;
    pthread_mutex_lock(&e->lock);
    m = e->mark ? tt_emu_mark_get(e->mark) : NULL;
    ipc = e->ipc;
    pthread_mutex_unlock(&e->lock);
    if (ipc)
        tt_emu_ipc_counters_wait(ipc, tt_emu_ipc_counters_recorded(ipc), e->device);
    if (m)
        tt_emu_mark_wait(m);
    tt_emu_mark_put(m);
    return tt_emu_device_ready(e->device);
}

/* The time of the last record; CUDA_ERROR_NOT_READY if it is not complete. */
static CUresult time_of(CUevent e, uint64_t *ns)
{
    CUresult st = CUDA_SUCCESS;

    if (!valid(e) || e->flags & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&e->lock);
    if (!e->mark)
        st = CUDA_ERROR_INVALID_HANDLE;
    else if (!tt_emu_mark_is_done(e->mark))
        st = CUDA_ERROR_NOT_READY;
    else
        *ns = tt_emu_mark_time_ns(e->mark);
    pthread_mutex_unlock(&e->lock);
    return st;
}

CUresult tt_emu_event_elapsed(float *ms, CUevent start, CUevent end)
{
    uint64_t from, to;
    CUresult st = time_of(start, &from);

    if (!st)
        st = time_of(end, &to);
    if (!st)
        *ms = (float)(int64_t)(to - from) / 1e6f;
    return st;
}

CUresult tt_emu_stream_wait_event(CUstream s, CUevent e, unsigned flags)
{
    bool captured = false;
    CUresult st;

    if (!valid(e))
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    st = tt_emu_device_ready(s->device);
    if (!st)
        st = tt_emu_capture_wait(s, e, flags, &captured);
    if (!st && !captured)
        st = tt_emu_stream_prepare(s);
    if (!st && !captured)
        st = tt_emu_stream_join_default(s);
    if (st || captured)
        return st;
    return tt_emu_stream_wait_event_now(s, e);
}

/* ---- other processes ---- */

CUresult tt_emu_event_export(CUevent e, struct tt_emu_ipc *out)
{
    if (!valid(e) || !e->ipc)
        return CUDA_ERROR_INVALID_HANDLE;
    return tt_emu_ipc_export(EVENT, tt_emu_ipc_counters_fd(e->ipc), e->device, 0, 0, out);
}

CUresult tt_emu_event_import(const struct tt_emu_ipc *handle, CUevent *out)
{
    struct tt_emu_ipc_counters *c;
    CUresult st;
    CUevent e;
    int fd;

    if (tt_emu_device_of_physical(handle->device) < 0)
        return CUDA_ERROR_INVALID_VALUE;
    st = tt_emu_ipc_import(EVENT, handle, &fd);
    if (!st)
        st = tt_emu_ipc_counters_open(fd, &c);
    if (!st)
        st = tt_emu_event_create(tt_emu_device_of_physical(handle->device), CU_EVENT_DISABLE_TIMING,
                                 &e);
    if (st)
        return st;
    e->flags |= CU_EVENT_INTERPROCESS;
    e->ipc = c;
    *out = e;
    return CUDA_SUCCESS;
}
