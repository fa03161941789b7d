#include "exec.h"

#include "capture.h"
#include "context.h"
#include "event.h"
#include "fail.h"
#include "handles.h"
#include "machine.h"
#include "stream.h"

#include <stdlib.h>

/* A node of the flat graph: child graphs are expanded. */
struct step {
    CUgraphNode origin;         /* compared only: it may no longer exist */
    CUgraphNodeType type;
    struct tt_emu_work work;
    CUevent event;
    size_t *before, nbefore, before_max;    /* indices of earlier steps */
    unsigned lane;
    bool marked;                /* another lane, or the end of the launch, waits for it */
    struct tt_emu_mark *mark;   /* during a launch */
};

struct CUgraphExec_st {
    struct step *steps;
    size_t n, max;
    unsigned nlanes;
    CUstream *lanes;            /* created at the first launch, unless there is one lane */
    int lanes_device;
    struct tt_emu_mark *end;    /* of the last launch */
    struct tt_emu_held *held;   /* user objects of the graph */
};

/* ---- flattening ---- */

static void depend(struct step *s, size_t on)
{
    for (size_t i = 0; i < s->nbefore; i++)
        if (s->before[i] == on)
            return;
    if (s->nbefore == s->before_max) {
        s->before_max = s->before_max ? 2 * s->before_max : 4;
        s->before = realloc(s->before, s->before_max * sizeof(*s->before));
        if (!s->before)
            abort();
    }
    s->before[s->nbefore++] = on;
}

static size_t step_add(CUgraphExec x, CUgraphNode node)
{
    struct step *s;

    if (x->n == x->max) {
        x->max = x->max ? 2 * x->max : 16;
        x->steps = realloc(x->steps, x->max * sizeof(*x->steps));
        if (!x->steps)
            abort();
    }
    s = &x->steps[x->n];
    *s = (struct step){ .origin = node, .type = node->type, .event = node->event };
    tt_emu_work_copy(&s->work, &node->work);
    return x->n++;
}

/* Appends the steps of g. Dependents of a node wait for its last step, which is an empty one for a
 * child graph. */
static void flatten(CUgraphExec x, CUgraph g, const size_t *entry)
{
    size_t *last = tt_emu_alloc(g->nodes.n * sizeof(*last));

    for (size_t i = 0; i < g->nodes.n; i++) {
        const CUgraphNode node = g->nodes.node[i];
        const size_t first = step_add(x, node);

        if (entry && !node->before.n)
            depend(&x->steps[first], *entry);
        for (size_t k = 0; k < node->before.n; k++)
            for (size_t m = 0; m < i; m++)
                if (g->nodes.node[m] == node->before.node[k])
                    depend(&x->steps[first], last[m]);
        last[i] = first;
        if (node->child) {
            flatten(x, node->child, &first);
            last[i] = step_add(x, node);
            for (size_t k = first; k < last[i]; k++)
                depend(&x->steps[last[i]], k);
        }
    }
    free(last);
}

/* A step continues the lane of a dependency that no other step continues; else it opens a lane. */
static void assign_lanes(CUgraphExec x)
{
    bool *continued = tt_emu_alloc(x->n * sizeof(*continued));
    bool *awaited = tt_emu_alloc(x->n * sizeof(*awaited));

    x->nlanes = 0;
    for (size_t i = 0; i < x->n; i++) {
        struct step *s = &x->steps[i];
        size_t k = 0;

        while (k < s->nbefore && continued[s->before[k]])
            k++;
        if (k < s->nbefore) {
            continued[s->before[k]] = true;
            s->lane = x->steps[s->before[k]].lane;
        } else {
            s->lane = x->nlanes++;
        }
        for (k = 0; k < s->nbefore; k++) {
            awaited[s->before[k]] = true;
            if (x->steps[s->before[k]].lane != s->lane)
                x->steps[s->before[k]].marked = true;
        }
    }
    for (size_t i = 0; i < x->n; i++)
        if (!awaited[i])
            x->steps[i].marked = true;
    free(continued);
    free(awaited);
}

static void fini_steps(CUgraphExec x)
{
    for (size_t i = 0; i < x->n; i++) {
        tt_emu_work_fini(&x->steps[i].work);
        free(x->steps[i].before);
    }
    free(x->steps);
}

CUresult tt_emu_exec_create(CUgraph g, CUgraphExec *out)
{
    CUgraphExec x;

    if (!tt_emu_handle_is(g, TT_EMU_GRAPH) || !out)
        return CUDA_ERROR_INVALID_VALUE;
    x = tt_emu_alloc(sizeof(*x));
    pthread_mutex_lock(&tt_emu_graph_lock);
    flatten(x, g, NULL);
    x->held = tt_emu_held_copy(g->held);
    pthread_mutex_unlock(&tt_emu_graph_lock);
    assign_lanes(x);
    tt_emu_handle_add(x, TT_EMU_EXEC);
    *out = x;
    return CUDA_SUCCESS;
}

static void destroy_lanes(CUgraphExec x)
{
    for (unsigned i = 0; x->lanes && i < x->nlanes; i++)
        tt_emu_stream_destroy(x->lanes[i]);
    free(x->lanes);
    x->lanes = NULL;
}

/* A launch in progress completes: streams own its operations and its references to user
 * objects. */
CUresult tt_emu_exec_destroy(CUgraphExec x)
{
    if (!tt_emu_handle_remove(x, TT_EMU_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    destroy_lanes(x);
    tt_emu_mark_put(x->end);
    tt_emu_held_release(x->held);
    fini_steps(x);
    free(x);
    return CUDA_SUCCESS;
}

/* ---- changes ---- */

static CUgraphExecUpdateResult difference(CUgraphExec a, CUgraphExec b)
{
    if (a->n != b->n)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < a->n; i++) {
        if (a->steps[i].type != b->steps[i].type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (a->steps[i].nbefore != b->steps[i].nbefore)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        for (size_t k = 0; k < a->steps[i].nbefore; k++)
            if (a->steps[i].before[k] != b->steps[i].before[k])
                return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult tt_emu_exec_update(CUgraphExec x, CUgraph g, CUgraphExecUpdateResult *why)
{
    CUgraphExec other;
    CUresult st;

    if (!tt_emu_handle_is(x, TT_EMU_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    st = tt_emu_exec_create(g, &other);
    if (st)
        return st;
    pthread_mutex_lock(&tt_emu_graph_lock);
    *why = difference(x, other);
    for (size_t i = 0; i < x->n && *why == CU_GRAPH_EXEC_UPDATE_SUCCESS; i++) {
        const struct tt_emu_work work = x->steps[i].work;

        x->steps[i].work = other->steps[i].work;
        other->steps[i].work = work;
        x->steps[i].event = other->steps[i].event;
    }
    if (*why == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        struct tt_emu_held *const held = x->held;

        x->held = other->held;
        other->held = held;
    }
    pthread_mutex_unlock(&tt_emu_graph_lock);
    tt_emu_exec_destroy(other);
    return *why == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult tt_emu_exec_set(CUgraphExec x, CUgraphNode node, struct tt_emu_work *work)
{
    CUresult st = CUDA_ERROR_INVALID_VALUE;

    if (tt_emu_handle_is(x, TT_EMU_EXEC)) {
        pthread_mutex_lock(&tt_emu_graph_lock);
        for (size_t i = 0; i < x->n; i++)
            if (x->steps[i].origin == node && x->steps[i].work.kind == work->kind) {
                tt_emu_work_fini(&x->steps[i].work);
                x->steps[i].work = *work;
                work->kind = TT_EMU_EMPTY;
                st = CUDA_SUCCESS;
                break;
            }
        pthread_mutex_unlock(&tt_emu_graph_lock);
    }
    tt_emu_work_fini(work);
    return st;
}

/* ---- launches ---- */

static CUresult push_step(struct step *s, CUstream stream)
{
    struct tt_emu_work work;

    if (s->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
        return tt_emu_event_record_now(s->event, stream);
    if (s->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
        return tt_emu_stream_wait_event_now(stream, s->event);
    if (s->work.kind != TT_EMU_EMPTY) {
        tt_emu_work_copy(&work, &s->work);
        tt_emu_stream_push_now(stream, &work);
    }
    return CUDA_SUCCESS;
}

static void create_lanes(CUgraphExec x, int device)
{
    destroy_lanes(x);
    x->lanes = tt_emu_alloc(x->nlanes * sizeof(CUstream));
    x->lanes_device = device;
    for (unsigned i = 0; i < x->nlanes; i++)
        tt_emu_stream_create(tt_emu_context_primary(device), CU_STREAM_NON_BLOCKING, 0,
                             &x->lanes[i]);
}

/* Creates the lanes on the device, and starts their threads, unless this was done before. */
static CUresult prepare_lanes(CUgraphExec x, int device)
{
    CUresult st = CUDA_SUCCESS;

    if (!x->lanes || x->lanes_device != device)
        create_lanes(x, device);
    for (unsigned i = 0; i < x->nlanes && !st; i++)
        st = tt_emu_stream_prepare(x->lanes[i]);
    return st;
}

/* All lanes wait for earlier work of the stream; the stream waits for all branches. */
static CUresult launch_lanes(CUgraphExec x, CUstream stream)
{
    CUresult st = prepare_lanes(x, stream->device);
    struct tt_emu_mark *start;

    if (st)
        return st;
    start = tt_emu_stream_tail(stream);
    for (unsigned i = 0; start && i < x->nlanes; i++)
        tt_emu_stream_wait(x->lanes[i], start);
    tt_emu_mark_put(start);
    for (size_t i = 0; i < x->n && !st; i++) {
        struct step *s = &x->steps[i];
        CUstream lane = x->lanes[s->lane];

        for (size_t k = 0; k < s->nbefore; k++)
            if (x->steps[s->before[k]].lane != s->lane)
                tt_emu_stream_wait(lane, x->steps[s->before[k]].mark);
        st = push_step(s, lane);
        if (s->marked)
            s->mark = tt_emu_stream_mark(lane);
    }
    for (size_t i = 0; i < x->n; i++) {
        if (x->steps[i].mark)
            tt_emu_stream_wait(stream, x->steps[i].mark);
        tt_emu_mark_put(x->steps[i].mark);
        x->steps[i].mark = NULL;
    }
    return st;
}
/* Runs all steps on one stream. Consecutive steps with work are pushed in one call. */
/* Pushes consecutive steps to one stream; their work is pushed together. */
static CUresult push_line(CUgraphExec x, CUstream stream)
{
    struct tt_emu_work *work = tt_emu_alloc((x->n + 1) * sizeof(*work));
    CUresult st = CUDA_SUCCESS;
    size_t n = 0;

    for (size_t i = 0; i < x->n && !st; i++) {
        struct step *s = &x->steps[i];

        if (s->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ||
            s->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
            tt_emu_stream_push_list(stream, work, n);
            n = 0;
            st = push_step(s, stream);
        } else if (s->work.kind != TT_EMU_EMPTY) {
            tt_emu_work_copy(&work[n++], &s->work);
        }
    }
    tt_emu_stream_push_list(stream, work, n);
    free(work);
    return st;
}

/* User objects live until the launch has completed. */
static void hold_objects(CUgraphExec x, CUstream stream)
{
    struct tt_emu_work work = { .kind = TT_EMU_HELD };

    if (!x->held)
        return;
    work.held = tt_emu_held_copy(x->held);
    tt_emu_stream_push_now(stream, &work);
}

/* Launches of one executable graph do not overlap. */
static CUresult launch(CUgraphExec x, CUstream stream)
{
    CUresult st = CUDA_SUCCESS;

    if (x->end)
        tt_emu_stream_wait(stream, x->end);
    if (x->nlanes > 1)
        st = launch_lanes(x, stream);
    else
        st = push_line(x, stream);
    hold_objects(x, stream);
    tt_emu_mark_put(x->end);
    x->end = tt_emu_stream_tail(stream);
    return st;
}

CUresult tt_emu_exec_launch(CUgraphExec x, CUstream stream)
{
    CUresult st = tt_emu_device_ready(stream->device);

    if (!tt_emu_handle_is(x, TT_EMU_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    if (!st)
        st = tt_emu_capture_unsupported(stream);
    if (!st)
        st = tt_emu_stream_prepare(stream);
    if (!st)
        st = tt_emu_stream_join_default(stream);
    if (st)
        return st;
    pthread_mutex_lock(&tt_emu_graph_lock);
    st = launch(x, stream);
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return st;
}
