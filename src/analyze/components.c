/* Tarjan, "Depth-first search and linear graph algorithms" (1972), without recursion. Components
 * are numbered in reverse topological order: an edge leads to the same or a lower number. */
#include "analyze/components.h"

#include <stdlib.h>

struct search {
    struct tt_waits *w;
    uint32_t *index, *low, *next;       /* [nnodes]; index: counted from 1; 0: not visited */
    uint32_t *stack, *path;             /* [nnodes] */
    uint32_t nstack, npath, nindex;
};

static void visit(struct search *s, uint32_t node)
{
    s->index[node] = s->low[node] = ++s->nindex;
    s->next[node] = 0;
    s->stack[s->nstack++] = node;
    s->path[s->npath++] = node;
}

/* Makes a new component of the nodes on the stack from its top down to `node`. */
static void close_component(struct search *s, uint32_t node)
{
    struct tt_waits *w = s->w;
    const uint32_t c = w->ncomponents++;
    uint32_t top = s->nstack, member, to;

    do
        w->component[s->stack[--top]] = c;
    while (s->stack[top] != node);
    w->is_end[c] = true;
    w->end_of[c] = c;
    for (uint32_t i = top; i < s->nstack; i++) {
        member = s->stack[i];
        for (uint32_t k = 0; (to = tt_waits_edge(w, member, k)) != TT_DUMPS_NONE; k++)
            if (w->component[to] != c && w->is_end[c]) {
                w->is_end[c] = false;
                w->end_of[c] = w->end_of[w->component[to]];
            }
    }
    s->nstack = top;
}

static void leave(struct search *s, uint32_t node)
{
    if (s->low[node] == s->index[node])
        close_component(s, node);
    s->npath--;
    if (s->npath > 0 && s->low[node] < s->low[s->path[s->npath - 1]])
        s->low[s->path[s->npath - 1]] = s->low[node];
}

static void search_from(struct search *s, uint32_t root)
{
    visit(s, root);
    while (s->npath > 0) {
        const uint32_t node = s->path[s->npath - 1];
        const uint32_t to = tt_waits_edge(s->w, node, s->next[node]++);

        if (to == TT_DUMPS_NONE)
            leave(s, node);
        else if (s->index[to] == 0)
            visit(s, to);
        else if (s->w->component[to] == TT_DUMPS_NONE && s->index[to] < s->low[node])
            s->low[node] = s->index[to];
    }
}

bool tt_waits_components(struct tt_waits *w)
{
    const size_t n = (size_t)w->nnodes + 1;
    uint32_t *memory = calloc(5 * n, sizeof *memory);
    struct search s = { .w = w };

    w->component = malloc(n * sizeof *w->component);
    w->end_of = calloc(n, sizeof *w->end_of);
    w->is_end = calloc(n, sizeof *w->is_end);
    if (!memory || !w->component || !w->end_of || !w->is_end) {
        free(memory);
        return false;
    }
    s.index = memory;
    s.low = memory + n;
    s.next = memory + 2 * n;
    s.stack = memory + 3 * n;
    s.path = memory + 4 * n;
    for (uint32_t i = 0; i < w->nnodes; i++)
        w->component[i] = TT_DUMPS_NONE;
    for (uint32_t i = 0; i < w->nnodes; i++)
        if (s.index[i] == 0)
            search_from(&s, i);
    free(memory);
    return true;
}
