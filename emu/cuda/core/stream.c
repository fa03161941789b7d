#include "stream.h"

#include "capture.h"
#include "context.h"
#include "fail.h"
#include "handles.h"
#include "machine.h"

#include <signal.h>
#include <stdlib.h>

struct tt_emu_op {
    struct tt_emu_op *next;
    struct tt_emu_work work;
};

static _Atomic uint64_t next_id = 3;        /* 1 and 2 are the default streams */
static _Thread_local bool in_worker, null_per_thread;

/* ---- the worker ---- */

static void stream_free(CUstream s)
{
    tt_emu_handle_remove(s, TT_EMU_ENDING_STREAM);
    tt_emu_mark_put(s->last);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->arrived);
    free(s);
}

/* Takes the next operation; NULL when the stream ends. */
static struct tt_emu_op *next_op(CUstream s)
{
    struct tt_emu_op *op;

    pthread_mutex_lock(&s->lock);
    s->busy = false;
    if (!s->head && !s->stopping) {
        const unsigned changes = atomic_load(&s->changes);
        uint64_t until_ns = 0;

        pthread_mutex_unlock(&s->lock);
        while (atomic_load(&s->changes) == changes && tt_emu_spin(&until_ns))
            ;
        pthread_mutex_lock(&s->lock);
    }
    while (!s->head && !s->stopping)
        pthread_cond_wait(&s->arrived, &s->lock);
    op = s->head;
    if (op) {
        s->head = op->next;
        if (!s->head)
            s->tail = &s->head;
        s->busy = true;
    }
    pthread_mutex_unlock(&s->lock);
    return op;
}

/* Called before a mark completes: a program that waited for it must see an idle stream. */
static void no_longer_busy(CUstream s)
{
    pthread_mutex_lock(&s->lock);
    s->busy = false;
    pthread_mutex_unlock(&s->lock);
}

/* After a sticky error, marks still run because others wait for them, and so do host functions. */
static bool still_runs(enum tt_emu_work_kind kind)
{
    return kind == TT_EMU_MARK || kind == TT_EMU_IPC_MARK || kind == TT_EMU_CALLBACK;
}

static void *worker(void *arg)
{
    CUstream s = arg;
    struct tt_emu_op *op;
    CUresult st;

    in_worker = true;
    while ((op = next_op(s))) {
        if (op->work.kind == TT_EMU_MARK || op->work.kind == TT_EMU_IPC_MARK)
            no_longer_busy(s);
        if (!tt_emu_device_ready(s->device) || still_runs(op->work.kind)) {
            st = tt_emu_work_run(&op->work, s->device);
            if (st)
                tt_emu_device_break(s->device, st);
        }
        tt_emu_work_fini(&op->work);
        free(op);
    }
    stream_free(s);
    return NULL;
}

/* Starts the worker, if it does not run; returns false if there is no memory for a thread. With the
 * stream's lock held. Signals go to the threads of the program. */
static bool start_worker(CUstream s)
{
    sigset_t all, before;

    if (s->started)
        return true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s->started = !pthread_create(&s->thread, NULL, worker, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (s->started)
        pthread_detach(s->thread);
    return s->started;
}

CUresult tt_emu_stream_prepare(CUstream s)
{
    bool started;

    pthread_mutex_lock(&s->lock);
    started = start_worker(s);
    pthread_mutex_unlock(&s->lock);
    if (started)
        return CUDA_SUCCESS;
    tt_emu_note("cannot create the thread of a stream");
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void tt_emu_stream_push_list(CUstream s, const struct tt_emu_work *work, size_t n)
{
    struct tt_emu_op *first = NULL, **tail = &first;

    if (!n)
        return;
    for (size_t i = 0; i < n; i++) {
        *tail = tt_emu_alloc(sizeof(**tail));
        (*tail)->work = work[i];
        tail = &(*tail)->next;
    }
    pthread_mutex_lock(&s->lock);
    if (!start_worker(s)) {
        tt_emu_note("cannot create the thread of a stream");
        abort();
    }
    *s->tail = first;
    s->tail = tail;
    s->last_valid = false;
    atomic_fetch_add(&s->changes, 1);
    pthread_cond_signal(&s->arrived);
    pthread_mutex_unlock(&s->lock);
}

void tt_emu_stream_push_now(CUstream s, const struct tt_emu_work *work)
{
    tt_emu_stream_push_list(s, work, 1);
}

struct tt_emu_mark *tt_emu_stream_tail(CUstream s)
{
    struct tt_emu_mark *m = NULL;
    struct tt_emu_op *op;

    pthread_mutex_lock(&s->lock);
    if (s->head || s->busy) {
        if (!s->last_valid) {
            op = tt_emu_alloc(sizeof(*op));
            tt_emu_mark_put(s->last);
            s->last = tt_emu_mark_create();
            s->last_valid = true;
            op->work =
                (struct tt_emu_work){ .kind = TT_EMU_MARK, .mark = tt_emu_mark_get(s->last) };
            *s->tail = op;
            s->tail = &op->next;
        }
        m = tt_emu_mark_get(s->last);
    }
    pthread_mutex_unlock(&s->lock);
    return m;
}

struct tt_emu_mark *tt_emu_stream_mark(CUstream s)
{
    struct tt_emu_mark *m = tt_emu_stream_tail(s);

    if (!m) {
        m = tt_emu_mark_create();
        tt_emu_mark_done(m);
    }
    return m;
}

void tt_emu_stream_wait(CUstream s, struct tt_emu_mark *mark)
{
    const struct tt_emu_work work = { .kind = TT_EMU_WAIT, .mark = mark };

    if (tt_emu_mark_is_done(mark))
        return;
    tt_emu_mark_get(mark);
    tt_emu_stream_push_now(s, &work);
}

/* ---- default streams ---- */

static bool blocking(CUstream s)
{
    return !(s->flags & CU_STREAM_NON_BLOCKING);
}

/* The last marks of all other blocking streams of a device. */
struct tails {
    CUstream self;
    int device;
    bool all;               /* also of non-blocking streams */
    struct tt_emu_mark **marks;
    size_t n, max;
};

static void collect(void *handle, void *arg)
{
    struct tails *t = arg;
    CUstream s = handle;
    struct tt_emu_mark *m;

    if (s == t->self || s->device != t->device || (!t->all && !blocking(s)))
        return;
    m = tt_emu_stream_tail(s);
    if (!m)
        return;
    if (t->n == t->max) {
        t->max = t->max ? 2 * t->max : 8;
        t->marks = realloc(t->marks, t->max * sizeof(struct tt_emu_mark *));
        if (!t->marks)
            abort();
    }
    t->marks[t->n++] = m;
}

/* Makes the stream wait for marks[n], and releases them. */
static CUresult wait_for_all(CUstream s, struct tt_emu_mark **marks, size_t n)
{
    const CUresult st = n ? tt_emu_stream_prepare(s) : CUDA_SUCCESS;

    for (size_t i = 0; i < n; i++) {
        if (!st)
            tt_emu_stream_wait(s, marks[i]);
        tt_emu_mark_put(marks[i]);
    }
    return st;
}

/* Work of the legacy stream waits for all blocking streams, and their work for the legacy one. */
CUresult tt_emu_stream_join_default(CUstream s)
{
    CUstream legacy = atomic_load(&tt_emu_machine()->device[s->device].legacy);
    struct tails t = { .self = s, .device = s->device };
    struct tt_emu_mark *m;
    CUresult st;

    if (!legacy || !blocking(s))
        return CUDA_SUCCESS;
    if (s != legacy) {
        m = tt_emu_stream_tail(legacy);
        return wait_for_all(s, &m, m != NULL);
    }
    tt_emu_handle_each(TT_EMU_STREAM, collect, &t);
    tt_emu_handle_each(TT_EMU_ENDING_STREAM, collect, &t);
    st = wait_for_all(s, t.marks, t.n);
    free(t.marks);
    return st;
}

CUresult tt_emu_stream_push(CUstream s, struct tt_emu_work *work)
{
    CUresult st = tt_emu_device_ready(s->device);
    bool captured = false;

    if (!st)
        st = tt_emu_capture_work(s, work, &captured);
    if (st) {
        tt_emu_work_fini(work);
        return st;
    }
    if (captured)
        return CUDA_SUCCESS;
    st = tt_emu_stream_prepare(s);
    if (!st)
        st = tt_emu_stream_join_default(s);
    if (st) {
        tt_emu_work_fini(work);
        return st;
    }
    tt_emu_stream_push_now(s, work);
    return CUDA_SUCCESS;
}

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

static void end_streams(void *arg)
{
    CUstream *streams = arg;

    for (int d = 0; d < TT_EMU_DEVICES_MAX; d++)
        if (streams[d]) {
            streams[d]->is_default = false;
            tt_emu_stream_destroy(streams[d]);
        }
    free(streams);
}

static void create_key(void)
{
    pthread_key_create(&thread_key, end_streams);
}

CUstream tt_emu_stream_per_thread(int device)
{
    CUstream *streams;

    pthread_once(&thread_once, create_key);
    streams = pthread_getspecific(thread_key);
    if (!streams) {
        streams = tt_emu_alloc(TT_EMU_DEVICES_MAX * sizeof(CUstream));
        pthread_setspecific(thread_key, streams);
    }
    if (!streams[device]) {
        tt_emu_stream_create(tt_emu_context_primary(device), 0, 0, &streams[device]);
        streams[device]->is_default = true;
    }
    return streams[device];
}

CUstream tt_emu_stream_legacy(int device)
{
    struct tt_emu_device *dev = &tt_emu_machine()->device[device];
    CUcontext primary = tt_emu_context_primary(device);
    CUstream s;

    s = atomic_load(&dev->legacy);
    if (s)
        return s;
    pthread_mutex_lock(&tt_emu_machine()->lock);
    s = atomic_load(&dev->legacy);
    if (!s) {
        tt_emu_stream_create(primary, 0, 0, &s);
        s->is_default = true;
        s->id = 1;
        atomic_store(&dev->legacy, s);
    }
    pthread_mutex_unlock(&tt_emu_machine()->lock);
    return s;
}

/* ---- interface ---- */

CUresult tt_emu_stream_create(CUcontext context, unsigned flags, int priority, CUstream *out)
{
    CUstream s;

    if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    s = tt_emu_alloc(sizeof(*s));
    if (priority > TT_EMU_PRIORITY_LOWEST)
        priority = TT_EMU_PRIORITY_LOWEST;
    if (priority < TT_EMU_PRIORITY_HIGHEST)
        priority = TT_EMU_PRIORITY_HIGHEST;
    s->device = context->device;
    s->context = context;
    s->flags = flags;
    s->priority = priority;
    s->id = atomic_fetch_add(&next_id, 1);
    s->tail = &s->head;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->arrived, NULL);
    tt_emu_handle_add(s, TT_EMU_STREAM);
    *out = s;
    return CUDA_SUCCESS;
}

CUresult tt_emu_stream_destroy(CUstream s)
{
    bool started;

    if (!tt_emu_handle_is(s, TT_EMU_STREAM) || s->is_default)
        return CUDA_ERROR_INVALID_HANDLE;
    tt_emu_capture_forget(s);
    if (!tt_emu_handle_remove(s, TT_EMU_STREAM))
        return CUDA_ERROR_INVALID_HANDLE;
    tt_emu_handle_add(s, TT_EMU_ENDING_STREAM);
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    atomic_fetch_add(&s->changes, 1);
    started = s->started;
    pthread_cond_signal(&s->arrived);
    pthread_mutex_unlock(&s->lock);
    if (!started)
        stream_free(s);
    return CUDA_SUCCESS;
}

bool tt_emu_stream_null_per_thread(bool on)
{
    const bool before = null_per_thread;

    null_per_thread = on;
    return before;
}

CUresult tt_emu_stream_of(CUstream handle, CUstream *out)
{
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (st)
        return st;
    if (!handle && null_per_thread)
        handle = CU_STREAM_PER_THREAD;
    if (!handle || handle == CU_STREAM_LEGACY)
        *out = tt_emu_stream_legacy(device);
    else if (handle == CU_STREAM_PER_THREAD)
        *out = tt_emu_stream_per_thread(device);
    else if (tt_emu_handle_is(handle, TT_EMU_STREAM))
        *out = handle;
    else
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

CUresult tt_emu_stream_synchronize(CUstream s)
{
    CUresult st = tt_emu_capture_unsupported(s);
    struct tt_emu_mark *m;

    if (st)
        return st;
    if (in_worker)
        return CUDA_ERROR_NOT_PERMITTED;
    st = tt_emu_stream_join_default(s);
    if (st)
        return st;
    m = tt_emu_stream_tail(s);
    if (m)
        tt_emu_mark_wait(m);
    tt_emu_mark_put(m);
    return tt_emu_device_ready(s->device);
}

CUresult tt_emu_stream_query(CUstream s)
{
    CUresult st = tt_emu_capture_unsupported(s);
    bool idle;

    if (!st)
        st = tt_emu_stream_join_default(s);
    if (st)
        return st;
    pthread_mutex_lock(&s->lock);
    idle = !s->head && !s->busy;
    pthread_mutex_unlock(&s->lock);
    st = tt_emu_device_ready(s->device);
    return st ? st : idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult tt_emu_device_synchronize(int device)
{
    struct tails t = { .device = device, .all = true };
    const CUresult st = tt_emu_capture_unsupported_device(device);

    if (st || in_worker)
        return st ? st : CUDA_ERROR_NOT_PERMITTED;
    tt_emu_handle_each(TT_EMU_STREAM, collect, &t);
    tt_emu_handle_each(TT_EMU_ENDING_STREAM, collect, &t);
    for (size_t i = 0; i < t.n; i++) {
        tt_emu_mark_wait(t.marks[i]);
        tt_emu_mark_put(t.marks[i]);
    }
    free(t.marks);
    return tt_emu_device_ready(device);
}

bool tt_emu_stream_in_worker(void)
{
    return in_worker;
}
