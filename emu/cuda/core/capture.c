#include "capture.h"

#include "fail.h"
#include "handles.h"
#include "machine.h"

#include <stdlib.h>

struct tt_emu_capture {
    struct tt_emu_capture *next;
    uint64_t  id;
    CUgraph   graph;
    bool      own_graph, invalid;
    CUstream  origin;
    CUstreamCaptureMode mode;
    pthread_t thread;
};

static struct tt_emu_capture *captures;     /* the captures in progress */
static _Atomic unsigned ncaptures;
static uint64_t next_id = 1;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static bool none(void)
{
    return atomic_load(&ncaptures) == 0;
}

static struct tt_emu_capture *capture_of(uint64_t id)
{
    struct tt_emu_capture *c = captures;

    while (c && c->id != id)
        c = c->next;
    return c;
}

/* Makes the capture invalid, and returns the error. */
static CUresult invalidate(struct tt_emu_capture *c, CUresult error)
{
    c->invalid = true;
    return error;
}

/* Search for a capture that work of the device's legacy stream invalidates. */
struct search {
    int device;
    bool all;
    struct tt_emu_capture *found;
};

static void search_stream(void *handle, void *arg)
{
    struct search *q = arg;
    CUstream s = handle;

    if (s->capture && s->device == q->device && (q->all || !(s->flags & CU_STREAM_NON_BLOCKING)))
        q->found = s->capture;
}

static struct tt_emu_capture *disturbed(CUstream s)
{
    struct search q = { .device = s->device };

    if (s->is_default && s->id == 1)
        tt_emu_handle_each(TT_EMU_STREAM, search_stream, &q);
    return q.found;
}

/* Sets *out to the capture that new work of the stream belongs to, or NULL. Fails if the capture is
 * invalid, or if the work invalidates the capture of another stream. */
static CUresult affected_capture(CUstream s, struct tt_emu_capture **out)
{
    *out = s->capture ? s->capture : disturbed(s);
    if (*out && (*out)->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (*out && *out != s->capture)
        return invalidate(*out, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    return CUDA_SUCCESS;
}

/* Adds a node to the stream's capture. Later nodes of the stream depend on it. */
static CUresult add_node(CUstream s, CUgraphNodeType type, struct tt_emu_work *work,
                         CUgraphNode *out)
{
    CUresult st =
        tt_emu_graph_add(s->capture->graph, type, work, s->captured.node, s->captured.n, out);

    if (st)
        return st;
    s->captured.n = 0;
    tt_emu_nodes_add(&s->captured, *out);
    return CUDA_SUCCESS;
}

CUresult tt_emu_capture_work(CUstream s, struct tt_emu_work *work, bool *captured)
{
    struct tt_emu_capture *c;
    CUresult st = CUDA_SUCCESS;
    CUgraphNode node;

    if (none())
        return CUDA_SUCCESS;
    pthread_mutex_lock(&tt_emu_graph_lock);
    st = affected_capture(s, &c);
    if (!st && c && work->kind == TT_EMU_CALLBACK)
        st = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    else if (!st && c)
        st = add_node(s, tt_emu_graph_type(work), work, &node);
    *captured = c && !st;
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return st;
}

CUresult tt_emu_capture_unsupported(CUstream s)
{
    struct tt_emu_capture *c;
    CUresult st = CUDA_SUCCESS;

    if (none())
        return st;
    pthread_mutex_lock(&tt_emu_graph_lock);
    c = s->capture ? s->capture : disturbed(s);
    if (c)
        st = invalidate(c, s->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                      : CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return st;
}

CUresult tt_emu_capture_unsupported_device(int device)
{
    struct search q = { .device = device, .all = true };
    CUresult st = CUDA_SUCCESS;

    if (none())
        return st;
    pthread_mutex_lock(&tt_emu_graph_lock);
    tt_emu_handle_each(TT_EMU_STREAM, search_stream, &q);
    if (q.found)
        st = invalidate(q.found, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return st;
}

CUresult tt_emu_capture_unsafe(void)
{
    CUresult st = CUDA_SUCCESS;

    if (none() || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return st;
    pthread_mutex_lock(&tt_emu_graph_lock);
    for (struct tt_emu_capture *c = captures; c; c = c->next) {
        const bool mine =
            pthread_equal(c->thread, pthread_self()) && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        const bool global = c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                            thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;

        if (mine || global)
            st = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return st;
}

static void leave(CUstream s)
{
    s->capture = NULL;
    tt_emu_nodes_fini(&s->captured);
}

bool tt_emu_stream_captures(CUstream s)
{
    bool captures_now;

    if (none())
        return false;
    pthread_mutex_lock(&tt_emu_graph_lock);
    captures_now = s->capture != NULL;
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return captures_now;
}

/* ---- events ---- */

static void point_put(struct tt_emu_capture_point *p)
{
    if (p)
        tt_emu_nodes_fini(&p->nodes);
    free(p);
}

void tt_emu_capture_point_put(struct tt_emu_capture_point *p)
{
    point_put(p);
}

/* With the lock held. */
static void set_point(CUevent e, CUstream s)
{
    struct tt_emu_capture_point *p = NULL;

    if (s) {
        p = tt_emu_alloc(sizeof(*p));
        p->capture_id = s->capture->id;
        tt_emu_nodes_copy(&p->nodes, &s->captured);
    }
    point_put(atomic_exchange(&e->point, p));
}

/* Adds a node that records the event, or waits for it, at each launch. */
static CUresult add_event_node(CUstream s, CUgraphNodeType type, CUevent e)
{
    struct tt_emu_work work = { .kind = TT_EMU_EMPTY };
    CUgraphNode node;
    const CUresult st = add_node(s, type, &work, &node);

    if (!st)
        node->event = e;
    return st;
}

CUresult tt_emu_capture_record(CUstream s, CUevent e, unsigned flags, bool *captured)
{
    struct tt_emu_capture *c;
    CUresult st = CUDA_SUCCESS;

    if (none() && !atomic_load(&e->point))
        return st;
    pthread_mutex_lock(&tt_emu_graph_lock);
    st = affected_capture(s, &c);
    if (!st && c && flags & CU_EVENT_RECORD_EXTERNAL)
        st = add_event_node(s, CU_GRAPH_NODE_TYPE_EVENT_RECORD, e);
    else if (!st)
        set_point(e, c ? s : NULL);
    *captured = c && !st;
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return st;
}

/* Makes a stream wait for a point of a capture, which the stream joins if necessary. */
static CUresult join(CUstream s, const struct tt_emu_capture_point *p)
{
    struct tt_emu_capture *c = capture_of(p->capture_id);

    if (!c)
        return CUDA_ERROR_INVALID_VALUE;        /* the capture has ended */
    if (c->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s->is_default && s->id == 1)
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (s->capture && s->capture != c) {
        s->capture->invalid = true;
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    s->capture = c;
    for (size_t i = 0; i < p->nodes.n; i++)
        tt_emu_nodes_add(&s->captured, p->nodes.node[i]);
    return CUDA_SUCCESS;
}

CUresult tt_emu_capture_wait(CUstream s, CUevent e, unsigned flags, bool *captured)
{
    const struct tt_emu_capture_point *p;
    CUresult st = CUDA_SUCCESS;

    if (none() && !atomic_load(&e->point))
        return st;
    pthread_mutex_lock(&tt_emu_graph_lock);
    p = atomic_load(&e->point);
    if (s->capture && s->capture->invalid)
        st = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (s->capture && flags & CU_EVENT_WAIT_EXTERNAL)
        st = add_event_node(s, CU_GRAPH_NODE_TYPE_WAIT_EVENT, e);
    else if (p)
        st = join(s, p);
    else if (s->capture)
        st = invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    *captured = !st && (p || s->capture);
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return st;
}

CUresult tt_emu_capture_event_unsupported(CUevent e)
{
    const struct tt_emu_capture_point *p;
    struct tt_emu_capture *c;

    if (!atomic_load(&e->point))
        return CUDA_SUCCESS;
    pthread_mutex_lock(&tt_emu_graph_lock);
    p = atomic_load(&e->point);
    c = p ? capture_of(p->capture_id) : NULL;
    if (c)
        c->invalid = true;
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return CUDA_ERROR_CAPTURED_EVENT;
}

/* ---- the program's calls ---- */

CUresult tt_emu_capture_begin(CUstream s, CUstreamCaptureMode mode, CUgraph graph,
                              const CUgraphNode *before, size_t n)
{
    struct tt_emu_capture *c;
    CUresult st = CUDA_SUCCESS;

    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED || (n && !before))
        return CUDA_ERROR_INVALID_VALUE;
    if (s->is_default && s->id == 1)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (graph && !tt_emu_handle_is(graph, TT_EMU_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&tt_emu_graph_lock);
    for (size_t i = 0; i < n; i++)
        if (!tt_emu_handle_is(before[i], TT_EMU_NODE) || before[i]->graph != graph)
            st = CUDA_ERROR_INVALID_VALUE;
    if (s->capture)
        st = CUDA_ERROR_ILLEGAL_STATE;
    if (!st) {
        c = tt_emu_alloc(sizeof(*c));
        *c =
            (struct tt_emu_capture){ captures, next_id++,     graph ? graph : tt_emu_graph_create(),
                                     !graph,   false,         s,
                                     mode,     pthread_self() };
        captures = c;
        s->capture = c;
        for (size_t i = 0; i < n; i++)
            tt_emu_nodes_add(&s->captured, before[i]);
        atomic_fetch_add(&ncaptures, 1);
    }
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return st;
}

/* Adds all nodes that the nodes of a list depend on. The list grows while it is walked. */
static void add_ancestors(struct tt_emu_nodes *list)
{
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->node[i]->before.n; k++)
            tt_emu_nodes_add(list, list->node[i]->before.node[k]);
}

struct joining {
    struct tt_emu_capture *capture;
    struct tt_emu_nodes reached;
    bool unjoined;
};

static void leave_capture(void *handle, void *arg)
{
    struct joining *j = arg;
    CUstream s = handle;

    if (s->capture != j->capture)
        return;
    for (size_t i = 0; i < s->captured.n; i++)
        if (!tt_emu_nodes_has(&j->reached, s->captured.node[i]))
            j->unjoined = true;
    leave(s);
}

/* With the lock held: removes the capture from its streams and from the list. */
static CUresult finish(struct tt_emu_capture *c)
{
    struct joining j = { .capture = c };
    struct tt_emu_capture **link = &captures;
    CUresult st = CUDA_SUCCESS;

    if (c->origin->capture == c)
        tt_emu_nodes_copy(&j.reached, &c->origin->captured);
    add_ancestors(&j.reached);
    tt_emu_handle_each(TT_EMU_STREAM, leave_capture, &j);
    tt_emu_nodes_fini(&j.reached);
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    atomic_fetch_sub(&ncaptures, 1);
    if (c->invalid)
        st = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (j.unjoined)
        st = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    return st;
}

static void destroy(struct tt_emu_capture *c)
{
    if (c->own_graph)
        tt_emu_graph_destroy(c->graph);
    free(c);
}

/* Without its first stream a capture cannot end: it is dropped with its graph. */
void tt_emu_capture_forget(CUstream s)
{
    struct tt_emu_capture *c;

    if (none())
        return;
    pthread_mutex_lock(&tt_emu_graph_lock);
    c = s->capture;
    if (c)
        c->invalid = true;
    if (c && c->origin == s) {
        finish(c);
        destroy(c);
    }
    leave(s);
    pthread_mutex_unlock(&tt_emu_graph_lock);
}

CUresult tt_emu_capture_end(CUstream s, CUgraph *graph)
{
    struct tt_emu_capture *c;
    CUresult st;

    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = NULL;
    pthread_mutex_lock(&tt_emu_graph_lock);
    c = s->capture;
    if (!c)
        st = CUDA_ERROR_ILLEGAL_STATE;
    else if (c->origin != s)
        st = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    else if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        st = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    else
        st = finish(c);
    if (c && !s->capture && st) {
        destroy(c);
    } else if (c && !s->capture) {
        *graph = c->graph;
        free(c);
    }
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return st;
}

CUresult tt_emu_capture_info(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                             CUgraph *graph, const CUgraphNode **before, size_t *n)
{
    struct tt_emu_capture *c;
    CUresult st = CUDA_SUCCESS;

    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&tt_emu_graph_lock);
    c = s->capture;
    if (!c && disturbed(s))
        st = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = !c          ? CU_STREAM_CAPTURE_STATUS_NONE
              : c->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                           : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        if (id)
            *id = c->id;
        if (graph)
            *graph = c->graph;
        if (before)
            *before = s->captured.node;
        if (n)
            *n = s->captured.n;
    }
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return st;
}

CUresult tt_emu_capture_update(CUstream s, const CUgraphNode *before, size_t n, unsigned flags)
{
    CUresult st = CUDA_SUCCESS;

    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (n && !before))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&tt_emu_graph_lock);
    if (!s->capture)
        st = CUDA_ERROR_ILLEGAL_STATE;
    else if (s->capture->invalid)
        st = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (size_t i = 0; i < n && !st; i++)
        if (!tt_emu_handle_is(before[i], TT_EMU_NODE) || before[i]->graph != s->capture->graph)
            st = CUDA_ERROR_INVALID_VALUE;
    if (!st && flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        s->captured.n = 0;
    for (size_t i = 0; i < n && !st; i++)
        tt_emu_nodes_add(&s->captured, before[i]);
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return st;
}

CUresult tt_emu_capture_mode(CUstreamCaptureMode *mode)
{
    const CUstreamCaptureMode before = thread_mode;

    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
