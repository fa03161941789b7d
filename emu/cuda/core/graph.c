#include "graph.h"

#include "fail.h"
#include "handles.h"

#include <stdlib.h>
#include <string.h>

pthread_mutex_t tt_emu_graph_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- lists ---- */

bool tt_emu_nodes_has(const struct tt_emu_nodes *list, CUgraphNode node)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->node[i] == node)
            return true;
    return false;
}

/* Adds a node without a check for duplicates. */
static void append(struct tt_emu_nodes *list, CUgraphNode node)
{
    if (list->n == list->max) {
        list->max = list->max ? 2 * list->max : 4;
        list->node = realloc(list->node, list->max * sizeof(CUgraphNode));
        if (!list->node)
            abort();
    }
    list->node[list->n++] = node;
}

void tt_emu_nodes_add(struct tt_emu_nodes *list, CUgraphNode node)
{
    if (!tt_emu_nodes_has(list, node))
        append(list, node);
}

void tt_emu_nodes_copy(struct tt_emu_nodes *to, const struct tt_emu_nodes *from)
{
    *to = (struct tt_emu_nodes){ .n = 0 };
    for (size_t i = 0; i < from->n; i++)
        append(to, from->node[i]);
}

void tt_emu_nodes_fini(struct tt_emu_nodes *list)
{
    free(list->node);
    *list = (struct tt_emu_nodes){ .n = 0 };
}

/* ---- graphs ---- */

CUgraph tt_emu_graph_create(void)
{
    CUgraph g = tt_emu_alloc(sizeof(*g));

    tt_emu_handle_add(g, TT_EMU_GRAPH);
    return g;
}

CUresult tt_emu_graph_destroy(CUgraph g)
{
    if (!tt_emu_handle_remove(g, TT_EMU_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < g->nodes.n; i++) {
        CUgraphNode node = g->nodes.node[i];

        tt_emu_handle_remove(node, TT_EMU_NODE);
        tt_emu_work_fini(&node->work);
        if (node->child)
            tt_emu_graph_destroy(node->child);
        tt_emu_nodes_fini(&node->before);
        free(node);
    }
    tt_emu_nodes_fini(&g->nodes);
    tt_emu_held_release(g->held);
    free(g);
    return CUDA_SUCCESS;
}

CUresult tt_emu_graph_add(CUgraph g, CUgraphNodeType type, struct tt_emu_work *work,
                          const CUgraphNode *before, size_t n, CUgraphNode *out)
{
    CUgraphNode node;

    for (size_t i = 0; i < n; i++)
        if (!tt_emu_handle_is(before[i], TT_EMU_NODE) || before[i]->graph != g) {
            tt_emu_work_fini(work);
            return CUDA_ERROR_INVALID_VALUE;
        }
    node = tt_emu_alloc(sizeof(*node));
    node->graph = g;
    node->type = type;
    node->work = *work;
    for (size_t i = 0; i < n; i++)
        tt_emu_nodes_add(&node->before, before[i]);
    append(&g->nodes, node);
    tt_emu_handle_add(node, TT_EMU_NODE);
    *out = node;
    return CUDA_SUCCESS;
}

CUresult tt_emu_graph_add_work(CUgraph g, CUgraphNodeType type, struct tt_emu_work *work,
                               const CUgraphNode *before, size_t n, CUgraphNode *out)
{
    CUresult st;

    if (!tt_emu_handle_is(g, TT_EMU_GRAPH) || !out || (n && !before)) {
        tt_emu_work_fini(work);
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&tt_emu_graph_lock);
    st = tt_emu_graph_add(g, type, work, before, n, out);
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return st;
}

/* With the lock held. The nodes keep their order, so dependencies are already copied. */
static CUgraph copy_graph(CUgraph g)
{
    CUgraph copy = tt_emu_graph_create();

    for (size_t i = 0; i < g->nodes.n; i++) {
        const CUgraphNode from = g->nodes.node[i];
        struct tt_emu_work work;
        CUgraphNode to;

        tt_emu_work_copy(&work, &from->work);
        tt_emu_graph_add(copy, from->type, &work, NULL, 0, &to);
        to->original = from;
        to->event = from->event;
        to->child = from->child ? copy_graph(from->child) : NULL;
        for (size_t k = 0; k < from->before.n; k++)
            for (size_t m = 0; m < i; m++)
                if (g->nodes.node[m] == from->before.node[k])
                    tt_emu_nodes_add(&to->before, copy->nodes.node[m]);
    }
    return copy;
}

CUresult tt_emu_graph_clone(CUgraph g, CUgraph *out)
{
    if (!tt_emu_handle_is(g, TT_EMU_GRAPH) || !out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&tt_emu_graph_lock);
    *out = copy_graph(g);
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return CUDA_SUCCESS;
}

CUresult tt_emu_graph_add_child(CUgraph g, CUgraph child, const CUgraphNode *before, size_t n,
                                CUgraphNode *out)
{
    struct tt_emu_work work = { .kind = TT_EMU_EMPTY };
    CUgraph copy;
    CUresult st;

    st = tt_emu_graph_clone(child, &copy);
    if (st)
        return st;
    st = tt_emu_graph_add_work(g, CU_GRAPH_NODE_TYPE_GRAPH, &work, before, n, out);
    if (st)
        tt_emu_graph_destroy(copy);
    else
        (*out)->child = copy;
    return st;
}

CUresult tt_emu_graph_add_event(CUgraph g, CUgraphNodeType type, CUevent e,
                                const CUgraphNode *before, size_t n, CUgraphNode *out)
{
    struct tt_emu_work work = { .kind = TT_EMU_EMPTY };
    CUresult st;

    if (!tt_emu_handle_is(e, TT_EMU_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    st = tt_emu_graph_add_work(g, type, &work, before, n, out);
    if (!st)
        (*out)->event = e;
    return st;
}

/* The position of a node in its graph, or SIZE_MAX. */
static size_t position(CUgraph g, CUgraphNode node)
{
    for (size_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.node[i] == node)
            return i;
    return SIZE_MAX;
}

CUresult tt_emu_graph_depend(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
    CUresult st = CUDA_SUCCESS;

    if (!tt_emu_handle_is(g, TT_EMU_GRAPH) || (n && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&tt_emu_graph_lock);
    for (size_t i = 0; i < n && !st; i++) {
        const size_t a = position(g, from[i]), b = position(g, to[i]);

        if (a == SIZE_MAX || b == SIZE_MAX || a >= b || tt_emu_nodes_has(&to[i]->before, from[i]))
            st = CUDA_ERROR_INVALID_VALUE;
        else
            tt_emu_nodes_add(&to[i]->before, from[i]);
    }
    pthread_mutex_unlock(&tt_emu_graph_lock);
    return st;
}

CUgraphNodeType tt_emu_graph_type(const struct tt_emu_work *work)
{
    switch (work->kind) {
    case TT_EMU_COPY:
        return CU_GRAPH_NODE_TYPE_MEMCPY;
    case TT_EMU_FILL:
        return CU_GRAPH_NODE_TYPE_MEMSET;
    case TT_EMU_KERNEL:
        return CU_GRAPH_NODE_TYPE_KERNEL;
    case TT_EMU_HOST:
        return CU_GRAPH_NODE_TYPE_HOST;
    case TT_EMU_VALUE_WAIT:
    case TT_EMU_VALUE_WRITE:
        return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    default:
        return CU_GRAPH_NODE_TYPE_EMPTY;
    }
}

/* ---- lists for the program ---- */

static void put(CUgraphNode node, CUgraphNode *out, size_t *found, size_t max)
{
    if (out && *found < max)
        out[*found] = node;
    (*found)++;
}

/* Fills the rest of the program's array with NULL, as CUDA does. */
static void finish(CUgraphNode *out, size_t found, size_t *n)
{
    for (size_t i = found; out && i < *n; i++)
        out[i] = NULL;
    *n = out && found > *n ? *n : found;
}

CUresult tt_emu_graph_list(CUgraph g, bool roots_only, CUgraphNode *out, size_t *n)
{
    size_t found = 0;

    if (!tt_emu_handle_is(g, TT_EMU_GRAPH) || !n)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&tt_emu_graph_lock);
    for (size_t i = 0; i < g->nodes.n; i++)
        if (!roots_only || !g->nodes.node[i]->before.n)
            put(g->nodes.node[i], out, &found, *n);
    pthread_mutex_unlock(&tt_emu_graph_lock);
    finish(out, found, n);
    return CUDA_SUCCESS;
}

CUresult tt_emu_graph_edges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
    size_t found = 0;

    if (!tt_emu_handle_is(g, TT_EMU_GRAPH) || !n || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&tt_emu_graph_lock);
    for (size_t i = 0; i < g->nodes.n; i++)
        for (size_t k = 0; k < g->nodes.node[i]->before.n; k++) {
            if (to && found < *n)
                to[found] = g->nodes.node[i];
            put(g->nodes.node[i]->before.node[k], from, &found, *n);
        }
    pthread_mutex_unlock(&tt_emu_graph_lock);
    if (to)
        finish(to, found, &(size_t){ *n });
    finish(from, found, n);
    return CUDA_SUCCESS;
}

CUresult tt_emu_graph_neighbours(CUgraphNode node, bool after, CUgraphNode *out, size_t *n)
{
    size_t found = 0;

    if (!tt_emu_handle_is(node, TT_EMU_NODE) || !n)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&tt_emu_graph_lock);
    for (size_t i = 0; !after && i < node->before.n; i++)
        put(node->before.node[i], out, &found, *n);
    for (size_t i = 0; after && i < node->graph->nodes.n; i++)
        if (tt_emu_nodes_has(&node->graph->nodes.node[i]->before, node))
            put(node->graph->nodes.node[i], out, &found, *n);
    pthread_mutex_unlock(&tt_emu_graph_lock);
    finish(out, found, n);
    return CUDA_SUCCESS;
}

/* ---- user objects ---- */

struct CUuserObject_st {
    void *p;
    CUhostFn destroy;
    _Atomic unsigned refs;
};

/* References of a graph to an object. */
struct tt_emu_held {
    struct tt_emu_held *next;
    CUuserObject object;
    unsigned n;
};

CUresult tt_emu_object_create(void *p, CUhostFn destroy, unsigned refs, CUuserObject *out)
{
    CUuserObject o;

    if (!destroy || !refs || !out)
        return CUDA_ERROR_INVALID_VALUE;
    o = tt_emu_alloc(sizeof(*o));
    o->p = p;
    o->destroy = destroy;
    atomic_store(&o->refs, refs);
    tt_emu_handle_add(o, TT_EMU_OBJECT);
    *out = o;
    return CUDA_SUCCESS;
}

CUresult tt_emu_object_retain(CUuserObject o, unsigned n)
{
    if (!tt_emu_handle_is(o, TT_EMU_OBJECT) || !n)
        return CUDA_ERROR_INVALID_VALUE;
    atomic_fetch_add(&o->refs, n);
    return CUDA_SUCCESS;
}

CUresult tt_emu_object_release(CUuserObject o, unsigned n)
{
    if (!tt_emu_handle_is(o, TT_EMU_OBJECT) || !n || n > atomic_load(&o->refs))
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_fetch_sub(&o->refs, n) != n)
        return CUDA_SUCCESS;
    tt_emu_handle_remove(o, TT_EMU_OBJECT);
    o->destroy(o->p);
    free(o);
    return CUDA_SUCCESS;
}

void tt_emu_held_release(struct tt_emu_held *held)
{
    struct tt_emu_held *next;

    for (; held; held = next) {
        next = held->next;
        tt_emu_object_release(held->object, held->n);
        free(held);
    }
}

struct tt_emu_held *tt_emu_held_copy(const struct tt_emu_held *held)
{
    struct tt_emu_held *copy = NULL, *h;

    for (const struct tt_emu_held *from = held; from; from = from->next) {
        if (tt_emu_object_retain(from->object, 1))
            continue;
        h = tt_emu_alloc(sizeof(*h));
        *h = (struct tt_emu_held){ copy, from->object, 1 };
        copy = h;
    }
    return copy;
}

CUresult tt_emu_graph_hold(CUgraph g, CUuserObject o, unsigned n, bool move)
{
    struct tt_emu_held *h;
    CUresult st;

    if (!tt_emu_handle_is(g, TT_EMU_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    st = move ? CUDA_SUCCESS : tt_emu_object_retain(o, n);
    if (st || !tt_emu_handle_is(o, TT_EMU_OBJECT))
        return CUDA_ERROR_INVALID_VALUE;
    h = tt_emu_alloc(sizeof(*h));
    *h = (struct tt_emu_held){ g->held, o, n };
    g->held = h;
    return CUDA_SUCCESS;
}

CUresult tt_emu_graph_unhold(CUgraph g, CUuserObject o, unsigned n)
{
    struct tt_emu_held **link, *h;

    if (!tt_emu_handle_is(g, TT_EMU_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    for (link = &g->held; (h = *link) && (h->object != o || h->n < n); link = &h->next)
        ;
    if (!h || !n)
        return CUDA_ERROR_INVALID_VALUE;
    h->n -= n;
    if (!h->n) {
        *link = h->next;
        free(h);
    }
    return tt_emu_object_release(o, n);
}
