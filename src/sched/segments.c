/* Idea: segment j of a step waits for other steps for one of three reasons:
 *  - for their progress up to segment j: it needs data, or bytes that they still use (as_far);
 *  - for space: the reader of a pipe or the receiver of a message must have consumed a segment
 *    before j (room);
 *  - for their completion: e.g. before the next message of a pair, or before reading from the
 *    middle of another step's output (end).
 * If steps wait in a cycle, segment numbers cannot decrease along the whole cycle. Therefore one of
 * the steps waits for a completion, or none waits for space. There is thus no deadlock, with any
 * segmentation and any space, if no cycle has an edge of the third kind and every cycle has one of
 * the second. This is also necessary: a cycle with an edge of the third kind is a deadlock as soon
 * as there are more segments than space. */
#include "sched/segments.h"

#include <stdlib.h>
#include "base/status.h"

enum waits_for { AS_FAR, ROOM, END };

/* `to` waits for `from`. */
struct edge {
    uint32_t from, to;
    enum waits_for what;
};

struct graph {
    const struct tt_program *p;
    const struct tt_links *links;
    uint32_t nsteps;
    uint32_t *reader; /* [nsteps], reader of the pipe that the step writes; UINT32_MAX: none */
    struct edge *edge;
    size_t nedges, cap;
    bool full; /* out of memory */
};

static void graph_add_edge(struct graph *g, uint32_t from, uint32_t to, enum waits_for what)
{
    if (g->nedges == g->cap && !g->full) {
        const size_t cap = g->cap ? 2 * g->cap : 1024;
        struct edge *more = realloc(g->edge, cap * sizeof *more);

        g->full = !more;
        g->edge = more ? more : g->edge;
        g->cap = more ? cap : g->cap;
    }
    if (!g->full)
        g->edge[g->nedges++] = (struct edge){ from, to, what };
}

/* Returns the step whose progress implies, with minimal space, that step `id` no longer needs its
 * operands. */
static uint32_t step_releasing_operands(const struct graph *g, uint32_t id, const struct tt_step *s)
{
    return s->opcode == TT_PUT ? g->links->mate[id] : id;
}

/* ---- memory ---- */

static bool ref_is_memory(const struct tt_ref *r)
{
    return r->buf != TT_BUF_PIPE && r->buf != TT_BUF_THERE;
}

/* Returns the lowest address of a ref that is not below `at`; there must be one. */
static uint64_t covered_from(const struct tt_ref *ref, uint64_t at)
{
    uint64_t in;

    if (at < ref->offset || !ref->block)
        return at < ref->offset ? ref->offset : at;
    in = (at - ref->offset) % ref->stride;
    return in < ref->block ? at : at + ref->stride - in;
}

/* Returns whether a step at `then` may have to wait until an earlier step at `first` has progressed
 * further than itself. The difference is largest where a piece of `then` first overlaps `first`;
 * from there on both advance together. */
static bool needs_more(const struct tt_ref *first, uint64_t fbytes, const struct tt_ref *then,
                       uint64_t tbytes)
{
    const uint64_t piece = then->block ? then->block : tbytes;
    uint64_t fb, fe;

    tt_ref_extent(first, fbytes, &fb, &fe);
    for (uint64_t pos = 0; pos < tbytes; pos += piece) {
        const uint64_t begin = then->offset + (then->block ? pos / piece * then->stride : 0);
        const uint64_t bytes = tbytes - pos < piece ? tbytes - pos : piece,
                       meets = covered_from(first, begin);

        if (meets < begin + bytes && meets < fe &&
            tt_ref_before(first, fbytes, meets + 1) > pos + (meets - begin) + 1)
            return true;
    }
    return false;
}

/* Memory that a step of a rank reads or writes. */
struct use {
    uint64_t begin, end;    /* range of bytes */
    struct tt_ref ref;
    uint32_t step;
    bool written;
};

static uint32_t add_use(struct use *use, uint32_t n, const struct tt_program *p, uint32_t rank,
                        uint32_t step, const struct tt_ref *ref, bool written)
{
    struct use *u = &use[n];

    *u = (struct use){ .ref = tt_coll_canonical(&p->coll[rank], *ref),
                       .step = step,
                       .written = written };
    if (!ref_is_memory(&u->ref))
        return n;
    tt_ref_extent(&u->ref, p->steps[rank][step].bytes, &u->begin, &u->end);
    return n + 1;
}

/* Lists all uses of a rank, in step order; returns their number. */
static uint32_t uses_of(const struct tt_program *p, uint32_t rank, struct use *use)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->nsteps[rank]; i++) {
        const struct tt_step *s = &p->steps[rank][i];

        for (uint32_t k = 0; s->bytes && k < tt_step_nreads(s); k++)
            n = add_use(use, n, p, rank, i, tt_step_read(s, k), false);
        if (s->bytes && s->opcode != TT_PUT)
            n = add_use(use, n, p, rank, i, &s->out, true);
    }
    return n;
}

static void add_conflict(struct graph *g, uint32_t rank, const struct use *first,
                         const struct use *then)
{
    const struct tt_step *f = &g->p->steps[rank][first->step], *t = &g->p->steps[rank][then->step];
    const uint32_t id = g->links->first[rank] + first->step;

    if (tt_ref_overlap(&first->ref, f->bytes, &then->ref, t->bytes))
        graph_add_edge(g, first->written ? id : step_releasing_operands(g, id, f),
                       g->links->first[rank] + then->step,
                       needs_more(&first->ref, f->bytes, &then->ref, t->bytes) ? END : AS_FAR);
}

static void add_conflicts(struct graph *g, uint32_t rank, struct use *use)
{
    const uint32_t n = uses_of(g->p, rank, use);

    for (uint32_t j = 0; j < n; j++)
        for (uint32_t i = 0; i < j; i++)
            if (use[i].begin < use[j].end && use[j].begin < use[i].end &&
                use[i].ref.buf == use[j].ref.buf && (use[i].written || use[j].written) &&
                use[i].step != use[j].step)
                add_conflict(g, rank, &use[i], &use[j]);
}

/* ---- pipes and messages ---- */

/* Adds the edges of a pipe or message: data forward, space backward. */
static void tie(struct graph *g, uint32_t writer, uint32_t reader, uint32_t makes_room)
{
    graph_add_edge(g, writer, reader, AS_FAR);
    graph_add_edge(g, makes_room, writer, ROOM);
}

static void add_ties(struct graph *g, uint32_t rank, uint32_t i)
{
    const uint32_t id = g->links->first[rank] + i;
    const struct tt_step *s = &g->p->steps[rank][i];

    if (s->opcode == TT_PUT)
        tie(g, id, g->links->mate[id], g->links->mate[id]);
    for (uint32_t k = 0; k < 2; k++)
        if (g->links->pipe_writer[2 * id + k] != UINT32_MAX)
            tie(g, g->links->pipe_writer[2 * id + k], id, step_releasing_operands(g, id, s));
}

/* A pair delivers one message at a time, each after the previous one was used. */
static void add_turns(struct graph *g, uint32_t rank, uint32_t *before)
{
    for (uint32_t i = 0; i < g->p->nranks; i++)
        before[i] = UINT32_MAX;
    for (uint32_t i = 0; i < g->p->nsteps[rank]; i++) {
        const uint32_t id = g->links->first[rank] + i, reader = g->reader[id];
        const struct tt_step *s = &g->p->steps[rank][i];

        if (s->opcode != TT_WAIT || s->bytes == 0)
            continue;
        if (before[s->peer] != UINT32_MAX)
            graph_add_edge(g, before[s->peer], id, END);
        before[s->peer] = reader == UINT32_MAX
                              ? id
                              : step_releasing_operands(
                                    g, reader, &g->p->steps[rank][reader - g->links->first[rank]]);
    }
}

static void add_edges(struct graph *g, uint32_t *before, struct use *use)
{
    for (uint32_t id = 0; id < g->nsteps; id++)
        g->reader[id] = UINT32_MAX;
    for (uint32_t i = 0; i < 2 * g->nsteps; i++)
        if (g->links->pipe_writer[i] != UINT32_MAX)
            g->reader[g->links->pipe_writer[i]] = i / 2;
    for (uint32_t r = 0; r < g->p->nranks; r++) {
        add_turns(g, r, before);
        add_conflicts(g, r, use);
        for (uint32_t i = 0; i < g->p->nsteps[r]; i++)
            if (g->p->steps[r][i].bytes)
                add_ties(g, r, i);
    }
}

/* ---- cycles ---- */

/* Tarjan's strongly connected components, with an explicit stack. */
struct search {
    const struct graph *g;
    size_t *first; /* [nsteps + 1], edges by `from`: to[first[i] .. first[i + 1]) */
    uint32_t *to;
    size_t *next;           /* [nsteps], the next edge to follow */
    uint32_t *number, *low; /* [nsteps], 0: not visited */
    uint32_t *circle;       /* [nsteps], the component; UINT32_MAX: unknown */
    uint32_t *path, *open;  /* [nsteps], the current path; and the steps whose component is
                               unknown */
    uint32_t npath, nopen, counter, ncircles;
};

static void search_enter(struct search *s, uint32_t id)
{
    s->number[id] = s->low[id] = ++s->counter;
    s->next[id] = s->first[id];
    s->path[s->npath++] = s->open[s->nopen++] = id;
}

static void search_leave(struct search *s, uint32_t id)
{
    uint32_t last;

    s->npath--;
    if (s->npath && s->low[id] < s->low[s->path[s->npath - 1]])
        s->low[s->path[s->npath - 1]] = s->low[id];
    if (s->low[id] != s->number[id])
        return;
    do {
        last = s->open[--s->nopen];
        s->circle[last] = s->ncircles;
    } while (last != id);
    s->ncircles++;
}

static void search_follow(struct search *s, uint32_t from)
{
    search_enter(s, from);
    while (s->npath) {
        const uint32_t id = s->path[s->npath - 1];
        uint32_t to;

        if (s->next[id] == s->first[id + 1]) {
            search_leave(s, id);
            continue;
        }
        to = s->to[s->next[id]++];
        if (!s->number[to])
            search_enter(s, to);
        else if (s->circle[to] == UINT32_MAX && s->number[to] < s->low[id])
            s->low[id] = s->number[to];
    }
}

/* Indexes the edges of all kinds (room), or of all kinds except space. */
static void index_step_edges(struct search *s, bool room)
{
    const struct graph *g = s->g;

    for (size_t e = 0; e < g->nedges; e++)
        s->first[g->edge[e].from + 1] += room || g->edge[e].what != ROOM;
    for (uint32_t i = 0; i < g->nsteps; i++) {
        s->first[i + 1] += s->first[i];
        s->next[i] = s->first[i];
        s->circle[i] = UINT32_MAX;
    }
    for (size_t e = 0; e < g->nedges; e++)
        if (room || g->edge[e].what != ROOM)
            s->to[s->next[g->edge[e].from]++] = g->edge[e].to;
}

static tutti_status found(const struct graph *g, uint32_t id, const struct tt_finding *f,
                          const char *what)
{
    uint32_t rank = 0;

    while (g->links->first[rank + 1] <= id)
        rank++;
    return tt_finding_step(f, rank, id - g->links->first[rank], "%s", what);
}

/* room: finds cycles with a completion edge; otherwise finds cycles without a space edge. */
static tutti_status find_circles(const struct graph *g, bool room, const struct tt_finding *f)
{
    const size_t n = (size_t)g->nsteps + 1;
    struct search s = { .g = g,
                        .first = calloc(n + 1, sizeof *s.first),
                        .to = calloc(g->nedges + 1, sizeof *s.to),
                        .next = calloc(n, sizeof *s.next) };
    uint32_t *words = calloc(5 * n, sizeof *words);
    tutti_status st = TUTTI_OK;

    if (!s.first || !s.to || !s.next || !words) {
        st = tt_finding_nomem(f);
        goto free_all;
    }
    s.number = words;
    s.low = words + n;
    s.circle = words + 2 * n;
    s.path = words + 3 * n;
    s.open = words + 4 * n;
    index_step_edges(&s, room);
    for (uint32_t id = 0; id < g->nsteps; id++)
        if (!s.number[id])
            search_follow(&s, id);
    for (size_t e = 0; e < g->nedges && st == TUTTI_OK; e++)
        if (s.circle[g->edge[e].from] == s.circle[g->edge[e].to] &&
            g->edge[e].what == (room ? END : AS_FAR))
            st = found(g, g->edge[e].to, f,
                       room ? "deadlock with segments: it waits for a step that depends on it"
                            : "deadlock without segments: circular wait");

free_all:
    free(s.first);
    free(s.to);
    free(s.next);
    free(words);
    return st;
}

tutti_status tt_segments_check(const struct tt_program *p, const struct tt_links *links,
                               const struct tt_finding *f)
{
    struct graph g = { .p = p, .links = links, .nsteps = links->first[p->nranks] };
    uint32_t *before = calloc(p->nranks, sizeof *before);
    uint64_t most = 0;
    struct use *use;
    tutti_status st;

    for (uint32_t r = 0; r < p->nranks; r++)
        most = p->nsteps[r] > most ? p->nsteps[r] : most;
    use = calloc(3 * most + 1, sizeof *use);
    g.reader = malloc(((size_t)g.nsteps + 1) * sizeof *g.reader);
    if (before && use && g.reader)
        add_edges(&g, before, use);
    st = !before || !use || !g.reader || g.full ? tt_finding_nomem(f) : find_circles(&g, true, f);
    if (st == TUTTI_OK)
        st = find_circles(&g, false, f);
    free(before);
    free(use);
    free(g.reader);
    free(g.edge);
    return st;
}
