#include "sched/order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"

/* Maximum edges of a piece: two reads after writes, two writes after reads (added by the reader), a
 * write after a write, a message, and one each for the order within a step, a pair and a pipe. */
#define EDGES_PER_PIECE 10

/* A reader of a cell since its last write. */
struct reader {
    uint32_t piece, next;
};

struct builder {
    const struct tt_program *p;
    const struct tt_pieces *s;
    const struct tt_finding *f;
    struct tt_edge *edge;
    uint32_t nedges;
    uint32_t *mate;
    uint32_t *writer;       /* [ncells], last piece that wrote it */
    uint32_t *readers;      /* [ncells], head of its list, an index into reader[] */
    uint32_t *last_reader;  /* [ncells], for pipes and messages, valid when all pieces were added */
    struct reader *reader;
    uint32_t nreaders;
    uint32_t *before;       /* [nranks], last piece that each rank delivered to the current rank */
};

static const struct tt_step *step_of_piece(const struct builder *b, uint32_t piece)
{
    return &b->p->steps[b->s->piece[piece].rank][b->s->piece[piece].step];
}

static bool is_opcode(const struct builder *b, uint32_t piece, enum tt_opcode opcode)
{
    return step_of_piece(b, piece)->opcode == opcode;
}

static bool same_step(const struct tt_pieces *s, uint32_t x, uint32_t y)
{
    return s->piece[x].rank == s->piece[y].rank && s->piece[x].step == s->piece[y].step;
}

static void add_edge(struct builder *b, uint32_t from, uint32_t to, bool sure, bool strict,
                     bool lands)
{
    tt_assert(b->nedges < EDGES_PER_PIECE * b->s->npieces);
    b->edge[b->nedges++] = (struct tt_edge){ from, to, sure, strict, lands };
}

/* Returns the piece after which, with minimal buffering, `piece` no longer needs its operands. */
static uint32_t piece_releasing_operands(const struct builder *b, uint32_t piece)
{
    return is_opcode(b, piece, TT_PUT) ? b->mate[piece] : piece;
}

static tutti_status fail_operand_overlap(const struct builder *b, uint32_t piece)
{
    return tt_finding_step(b->f, b->s->piece[piece].rank, b->s->piece[piece].step,
                           "the operands overlap");
}

static tutti_status read_cell(struct builder *b, uint32_t piece, uint32_t cell)
{
    const uint32_t writer = b->writer[cell];

    if (writer != TT_NO_PIECE) {
        if (same_step(b->s, writer, piece))
            return fail_operand_overlap(b, piece);
        add_edge(b, writer, piece, true, true, false);
    }
    if (cell != b->s->piece[piece].out) {
        b->reader[b->nreaders] = (struct reader){ piece, b->readers[cell] };
        b->readers[cell] = b->nreaders++;
    }
    return TUTTI_OK;
}

static tutti_status write_cell(struct builder *b, uint32_t piece, uint32_t cell)
{
    const bool lands = is_opcode(b, piece, TT_WAIT);

    if (b->writer[cell] != TT_NO_PIECE) {
        if (same_step(b->s, b->writer[cell], piece))
            return fail_operand_overlap(b, piece);
        add_edge(b, b->writer[cell], piece, true, true, lands);
    }
    for (uint32_t i = b->readers[cell]; i != UINT32_MAX; i = b->reader[i].next) {
        const uint32_t reader = b->reader[i].piece;

        if (same_step(b->s, reader, piece))
            return fail_operand_overlap(b, piece);
        if (is_opcode(b, reader, TT_PUT)) {
            add_edge(b, reader, piece, true, false, lands);
            add_edge(b, b->mate[reader], piece, false, true, false);
        } else {
            add_edge(b, reader, piece, true, true, lands);
        }
    }
    b->writer[cell] = piece;
    b->readers[cell] = UINT32_MAX;
    return TUTTI_OK;
}

static void find_mates(struct builder *b)
{
    memset(b->mate, 0xff, b->s->npieces * sizeof *b->mate);
    for (uint32_t i = 0; i < b->s->npieces; i++)
        if (is_opcode(b, i, TT_PUT))
            b->writer[b->s->piece[i].out] = i;
    for (uint32_t i = 0; i < b->s->npieces; i++)
        if (is_opcode(b, i, TT_WAIT)) {
            b->mate[i] = b->writer[b->s->piece[i].a];
            b->mate[b->mate[i]] = i;
        }
    memset(b->writer, 0xff, b->s->ncells * sizeof *b->writer);
}

/* Adds the sure edges: conflicts within ranks, and messages. */
static tutti_status add_sure(struct builder *b)
{
    for (uint32_t i = 0; i < b->s->npieces; i++) {
        const struct tt_piece *piece = &b->s->piece[i];
        tutti_status st = TUTTI_OK;

        if (is_opcode(b, i, TT_WAIT))
            add_edge(b, b->mate[i], i, true, true, false);
        else
            st = read_cell(b, i, piece->a);
        if (st == TUTTI_OK && piece->b != TT_NO_CELL && piece->b != piece->a)
            st = read_cell(b, i, piece->b);
        if (st == TUTTI_OK && !is_opcode(b, i, TT_PUT))
            st = write_cell(b, i, piece->out);
        if (st != TUTTI_OK)
            return st;
    }
    return TUTTI_OK;
}

/* Returns the piece that frees the buffer of `writer` for its successor in the pair or pipe. */
static uint32_t piece_freeing_buffer(const struct builder *b, uint32_t writer)
{
    const uint32_t out = b->s->piece[writer].out;

    return b->s->cell[out].of == TT_CELL_PIPE ? piece_releasing_operands(b, b->last_reader[out])
                                              : writer;
}

static void add_strict(struct builder *b)
{
    for (uint32_t i = 0; i < b->s->npieces; i++) {
        if (b->s->piece[i].a != TT_NO_CELL)
            b->last_reader[b->s->piece[i].a] = i;
        if (b->s->piece[i].b != TT_NO_CELL)
            b->last_reader[b->s->piece[i].b] = i;
    }
    for (uint32_t i = 0; i < b->s->npieces; i++) {
        const uint32_t rank = b->s->piece[i].rank;

        if (i == 0 || b->s->piece[i - 1].rank != rank)
            memset(b->before, 0xff, b->p->nranks * sizeof *b->before);
        if (i > 0 && same_step(b->s, i - 1, i)) {
            add_edge(b, i - 1, i, false, true, false);
            if (!is_opcode(b, i, TT_PUT) && !is_opcode(b, i, TT_WAIT) &&
                piece_freeing_buffer(b, i - 1) != i - 1)
                add_edge(b, piece_freeing_buffer(b, i - 1), i, false, true, false);
        }
        if (is_opcode(b, i, TT_WAIT)) {
            uint32_t *before = &b->before[step_of_piece(b, i)->peer];

            if (*before != TT_NO_PIECE)
                add_edge(b, piece_freeing_buffer(b, *before), i, false, true, false);
            *before = i;
        }
    }
}

/* ---- an execution order ---- */

static bool counts(const struct tt_edge *e, bool strict)
{
    return strict ? e->strict : e->sure;
}

/* Indexes the edges of one relation by their origin or destination, as first[n + 1] and list[]. */
static bool index_piece_edges(const struct tt_edge *edge, uint32_t nedges, uint32_t n, bool strict,
                              bool by_from, uint32_t **first, uint32_t **list)
{
    uint32_t *at = calloc((size_t)n + 2, sizeof *at),
             *other = calloc((size_t)nedges + 1, sizeof *other);

    if (!at || !other) {
        free(at);
        free(other);
        return false;
    }
    for (uint32_t i = 0; i < nedges; i++)
        if (counts(&edge[i], strict))
            at[(by_from ? edge[i].from : edge[i].to) + 2]++;
    for (uint32_t i = 2; i < n + 2; i++)
        at[i] += at[i - 1];
    for (uint32_t i = 0; i < nedges; i++)
        if (counts(&edge[i], strict))
            other[at[(by_from ? edge[i].from : edge[i].to) + 1]++] =
                by_from ? edge[i].to : edge[i].from;
    *first = at;
    *list = other;
    return true;
}

/* Finds a piece on a cycle: repeatedly follows blocked predecessors, from a blocked piece. */
static tutti_status fail_deadlock(const struct builder *b, const uint32_t *waiting)
{
    uint32_t *first, *before, at = 0;

    if (!index_piece_edges(b->edge, b->nedges, b->s->npieces, true, false, &first, &before))
        return tt_finding_nomem(b->f);
    while (waiting[at] == 0)
        at++;
    for (uint32_t i = 0; i < b->s->npieces; i++) {
        uint32_t e = first[at];

        while (waiting[before[e]] == 0)
            e++;
        at = before[e];
    }
    free(first);
    free(before);
    return tt_finding_step(b->f, b->s->piece[at].rank, b->s->piece[at].step,
                           "deadlock: circular wait");
}

static tutti_status order_sequence(const struct builder *b, struct tt_order *o)
{
    const uint32_t n = b->s->npieces;
    uint32_t *first = NULL, *next = NULL, *waiting = calloc((size_t)n + 1, sizeof *waiting),
             done = 0, ready = 0;
    tutti_status st = TUTTI_OK;

    o->sequence = calloc((size_t)n + 1, sizeof *o->sequence);
    o->place = calloc((size_t)n + 1, sizeof *o->place);
    if (!waiting || !o->sequence || !o->place ||
        !index_piece_edges(b->edge, b->nedges, n, true, true, &first, &next)) {
        st = tt_finding_nomem(b->f);
        goto free_all;
    }
    for (uint32_t i = 0; i < b->nedges; i++)
        waiting[b->edge[i].to] += b->edge[i].strict;
    for (uint32_t i = 0; i < n; i++)
        if (waiting[i] == 0)
            o->sequence[ready++] = i;
    while (done < ready) {
        const uint32_t i = o->sequence[done];

        o->place[i] = done++;
        for (uint32_t e = first[i]; e < first[i + 1]; e++)
            if (--waiting[next[e]] == 0)
                o->sequence[ready++] = next[e];
    }
    if (done < n)
        st = fail_deadlock(b, waiting);

free_all:
    free(waiting);
    free(first);
    free(next);
    return st;
}

tutti_status tt_order_init(struct tt_order *out, const struct tt_pieces *pieces,
                           const struct tt_finding *f)
{
    const size_t n = pieces->npieces, cells = pieces->ncells;
    struct builder b = { .p = f->program, .s = pieces, .f = f };
    struct tt_order o = { .pieces = pieces };
    tutti_status st;

    b.edge = calloc(EDGES_PER_PIECE * n + 1, sizeof *b.edge);
    b.mate = calloc(n + 1, sizeof *b.mate);
    b.writer = malloc((cells + 1) * sizeof *b.writer);
    b.readers = malloc((cells + 1) * sizeof *b.readers);
    b.last_reader = calloc(cells + 1, sizeof *b.last_reader);
    b.reader = calloc(2 * n + 1, sizeof *b.reader);
    b.before = calloc(b.p->nranks, sizeof *b.before);
    if (!b.edge || !b.mate || !b.writer || !b.readers || !b.last_reader || !b.reader || !b.before) {
        st = tt_finding_nomem(f);
        goto free_builder;
    }
    memset(b.readers, 0xff, cells * sizeof *b.readers);
    find_mates(&b);
    st = add_sure(&b);
    if (st != TUTTI_OK)
        goto free_builder;
    add_strict(&b);
    st = order_sequence(&b, &o);
    if (st == TUTTI_OK &&
        !index_piece_edges(b.edge, b.nedges, pieces->npieces, false, false, &o.sure_first, &o.sure))
        st = tt_finding_nomem(f);
    if (st != TUTTI_OK)
        goto free_builder;
    o.edge = b.edge;
    o.nedges = b.nedges;
    o.mate = b.mate;
    b.edge = NULL;
    b.mate = NULL;
    *out = o;
    o = (struct tt_order){ 0 };

free_builder:
    tt_order_fini(&o);
    free(b.edge);
    free(b.mate);
    free(b.writer);
    free(b.readers);
    free(b.last_reader);
    free(b.reader);
    free(b.before);
    return st;
}

void tt_order_fini(struct tt_order *o)
{
    free(o->edge);
    free(o->mate);
    free(o->sequence);
    free(o->place);
    free(o->sure_first);
    free(o->sure);
}

/* ---- early arrival ---- */

/* Marks with `stamp` all sure predecessors of `piece`, back to position `oldest` in the
 * sequence. */
static void look_back(const struct tt_order *o, uint32_t piece, uint32_t oldest, uint32_t *mark,
                      uint32_t stamp, uint32_t *stack)
{
    uint32_t depth = 0;

    stack[depth++] = piece;
    mark[piece] = stamp;
    while (depth > 0) {
        const uint32_t at = stack[--depth];

        for (uint32_t e = o->sure_first[at]; e < o->sure_first[at + 1]; e++) {
            const uint32_t before = o->sure[e];

            if (mark[before] == stamp || o->place[before] < oldest)
                continue;
            mark[before] = stamp;
            stack[depth++] = before;
        }
    }
}

/* Returns whether the put of a wait certainly follows every access that conflicts with its arrival.
 * edge[n]: the edges from these accesses. A put is complete when its peer's wait has run. */
static bool lands_late(const struct tt_order *o, const struct tt_program *p,
                       const struct tt_edge *edge, uint32_t n, uint32_t *mark, uint32_t stamp,
                       uint32_t *stack)
{
    uint32_t oldest = UINT32_MAX;
    bool late = true;

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < n; i++) {
            const struct tt_piece *from = &o->pieces->piece[edge[i].from];
            const bool is_put = p->steps[from->rank][from->step].opcode == TT_PUT;
            const uint32_t over = is_put ? o->mate[edge[i].from] : edge[i].from;

            if (pass == 0)
                oldest = o->place[over] < oldest ? o->place[over] : oldest;
            else
                late = late && mark[over] == stamp;
        }
        if (pass == 0)
            look_back(o, o->mate[edge[0].to], oldest, mark, stamp, stack);
    }
    return late;
}

static int by_landing(const void *x, const void *y)
{
    const struct tt_edge *a = x, *b = y;

    return a->to < b->to ? -1 : a->to > b->to;
}

tutti_status tt_order_early(const struct tt_order *o, struct tt_early *out,
                            const struct tt_finding *f)
{
    const uint32_t n = o->pieces->npieces;
    struct tt_early early = { 0 };
    struct tt_edge *lands = calloc((size_t)o->nedges + 1, sizeof *lands);
    uint32_t *mark = calloc((size_t)n + 1, sizeof *mark),
             *stack = calloc((size_t)n + 1, sizeof *stack), nlands = 0;
    tutti_status st = TUTTI_OK;

    if (!lands || !mark || !stack) {
        st = tt_finding_nomem(f);
        goto free_all;
    }
    for (uint32_t i = 0; i < o->nedges; i++)
        if (o->edge[i].lands)
            lands[nlands++] = o->edge[i];
    qsort(lands, nlands, sizeof *lands, by_landing);
    for (uint32_t first = 0, end; first < nlands; first = end) {
        const struct tt_piece *wait = &o->pieces->piece[lands[first].to];

        for (end = first + 1; end < nlands && lands[end].to == lands[first].to; end++)
            ;
        if (lands_late(o, f->program, &lands[first], end - first, mark, first + 1, stack))
            continue;
        if (early.unsafe++ == 0) {
            early.rank = wait->rank;
            early.step = wait->step;
        }
    }
    *out = early;

free_all:
    free(lands);
    free(mark);
    free(stack);
    return st;
}

/* ---- barriers ---- */

tutti_status tt_order_synchronizes(const struct tt_order *o, const struct tt_finding *f)
{
    const uint32_t n = o->pieces->npieces, nranks = f->program->nranks;
    const size_t words = (nranks + 63) / 64;
    uint64_t *begun = calloc(n * words + 1, sizeof *begun),
             *ended = calloc(nranks * words, sizeof *ended);
    tutti_status st = TUTTI_OK;

    if (!begun || !ended) {
        st = tt_finding_nomem(f);
        goto free_all;
    }
    for (uint32_t j = 0; j < n; j++) {
        const uint32_t i = o->sequence[j], rank = o->pieces->piece[i].rank;

        begun[i * words + rank / 64] |= 1ull << rank % 64;
        for (uint32_t e = o->sure_first[i]; e < o->sure_first[i + 1]; e++)
            for (size_t w = 0; w < words; w++)
                begun[i * words + w] |= begun[o->sure[e] * words + w];
        for (size_t w = 0; w < words; w++)
            ended[rank * words + w] |= begun[i * words + w];
    }
    for (uint32_t rank = 0; rank < nranks && nranks > 1 && st == TUTTI_OK; rank++)
        for (uint32_t other = 0; other < nranks && st == TUTTI_OK; other++)
            if (!(ended[rank * words + other / 64] >> other % 64 & 1))
                st = tt_finding_rank(f, rank, "may end before rank %u has started", other);

free_all:
    free(begun);
    free(ended);
    return st;
}
