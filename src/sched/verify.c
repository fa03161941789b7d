#include "sched/verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "sched/expect.h"
#include "sched/order.h"
#include "sched/segments.h"
#include "sched/in_order.h"

/* ---- programs ---- */

/* Returns all rounds of one rank in one array, which the caller frees; NULL if out of memory. */
static struct tt_step *flatten(const struct tt_algo *algo, const struct tt_coll *c,
                               uint64_t *nsteps)
{
    const uint64_t nrounds = algo->nrounds(c);
    uint64_t n = 0, cap = 4 * TT_ROUND_STEPS_MAX;
    struct tt_step *steps = malloc(cap * sizeof *steps), *more;

    for (uint64_t k = 0; k < nrounds && steps; k++) {
        struct tt_sched s = { .steps = steps + n, .cap = TT_ROUND_STEPS_MAX };

        algo->round(&s, c, k);
        for (uint32_t i = 0; i < s.n; i++)
            s.steps[i].round = (uint32_t)k;
        n += s.n;
        if (n + TT_ROUND_STEPS_MAX <= cap)
            continue;
        cap *= 2;
        more = realloc(steps, cap * sizeof *steps);
        if (!more)
            free(steps);
        steps = more;
    }
    *nsteps = n;
    return steps;
}

tutti_status tt_program_init(struct tt_program *p, const struct tt_algo *algo,
                             const struct tt_coll *coll, uint32_t nranks)
{
    struct tt_program made = { .nranks = nranks,
                               .direct_unsafe = algo->direct_unsafe,
                               .pads = algo->pads };

    made.coll = calloc(nranks, sizeof *made.coll);
    made.steps = calloc(nranks, sizeof *made.steps);
    made.nsteps = calloc(nranks, sizeof *made.nsteps);
    made.work_bytes = calloc(nranks, sizeof *made.work_bytes);
    if (!made.coll || !made.steps || !made.nsteps || !made.work_bytes)
        goto free_made;
    for (uint32_t r = 0; r < nranks; r++) {
        made.coll[r] = coll[r];
        made.work_bytes[r] = algo->work_bytes(&coll[r]);
        if (algo->nrounds(&coll[r]) > made.nrounds)
            made.nrounds = algo->nrounds(&coll[r]);
        made.steps[r] = flatten(algo, &coll[r], &made.nsteps[r]);
        if (!made.steps[r])
            goto free_made;
    }
    *p = made;
    return TUTTI_OK;

free_made:
    tt_program_fini(&made);
    return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the programs of %u ranks of %s", nranks,
                   algo->name);
}

void tt_program_fini(struct tt_program *p)
{
    for (uint32_t r = 0; r < p->nranks && p->steps; r++)
        free(p->steps[r]);
    free(p->coll);
    free(p->steps);
    free(p->nsteps);
    free(p->work_bytes);
}

/* ---- values ---- */

/* Contents of a cell: bytes from `offset` of the input of the rank in its set, or their reduction
 * over several ranks. */
struct value {
    uint64_t offset;
    bool known, finished, written;      /* known: may be read; written: by a step */
};

struct values {
    const struct tt_program *p;
    const struct tt_pieces *s;
    const struct tt_finding *f;
    bool reduces;
    size_t words;           /* of a set */
    struct value *value;    /* [ncells] */
    uint64_t *set;          /* [ncells][words] */
};

static uint64_t *set_of_cell(const struct values *v, uint32_t cell)
{
    return v->set + cell * v->words;
}

/* Returns the lowest rank of a set; UINT32_MAX: empty. */
static uint32_t set_lowest(const uint64_t *set, size_t words)
{
    for (size_t i = 0; i < words; i++)
        if (set[i])
            return (uint32_t)(64 * i) + (uint32_t)__builtin_ctzll(set[i]);
    return UINT32_MAX;
}

static uint32_t set_count(const uint64_t *set, size_t words)
{
    uint32_t n = 0;

    for (size_t i = 0; i < words; i++)
        n += (uint32_t)__builtin_popcountll(set[i]);
    return n;
}

/* Sets the inputs before the first step. WORK may be read only by barriers and by algorithms that
 * pad messages, because its initial bytes are no rank's input, and would be wrong in a result. */
static void set_inputs(struct values *v)
{
    for (uint32_t r = 0; r < v->p->nranks; r++) {
        const struct tt_coll *c = &v->p->coll[r];
        uint32_t cell, end;
        uint64_t offset = 0;

        tt_pieces_cells(v->s, c, tt_src(0), tt_coll_src_bytes(c), &cell, &end);
        for (; cell < end; cell++) {
            v->value[cell] =
                (struct value){ .offset = offset, .known = true, .finished = v->p->nranks == 1 };
            set_of_cell(v, cell)[r / 64] |= 1ull << r % 64;
            offset += v->s->cell[cell].bytes;
        }
        if (c->kind != TT_BARRIER && !v->p->pads)
            continue;
        tt_pieces_cells(v->s, c, tt_work(0), v->p->work_bytes[r], &cell, &end);
        for (; cell < end; cell++)
            v->value[cell].known = true;
    }
}

static tutti_status fail_value(const struct values *v, const struct tt_piece *piece, uint32_t cell,
                               const char *what)
{
    const struct tt_cell *at = &v->s->cell[cell];

    return tt_finding_step(v->f, piece->rank, piece->step,
                           "%s (%" PRIu64 " B from %" PRIu64 " of %s)", what, at->bytes, at->offset,
                           at->of == TT_CELL_SRC    ? "SRC"
                           : at->of == TT_CELL_DST  ? "DST"
                           : at->of == TT_CELL_WORK ? "WORK"
                           : at->of == TT_CELL_PIPE ? "the pipe"
                                                    : "the message");
}

static tutti_status run_reduce(struct values *v, const struct tt_piece *piece, bool finish)
{
    const struct value *a = &v->value[piece->a], *b = &v->value[piece->b];
    uint64_t *out = set_of_cell(v, piece->out), *set_a = set_of_cell(v, piece->a),
             *set_b = set_of_cell(v, piece->b);
    bool full;

    if (!v->reduces)
        return fail_value(v, piece, piece->out, "reduces in a collective without reduction");
    if (a->finished || b->finished)
        return fail_value(v, piece, a->finished ? piece->a : piece->b, "reduces a finished result");
    if (a->offset != b->offset)
        return fail_value(v, piece, piece->out, "reduces different elements");
    for (size_t i = 0; i < v->words; i++)
        if (set_a[i] & set_b[i])
            return fail_value(v, piece, piece->out, "reduces a contribution twice");
    if (set_lowest(set_a, v->words) > set_lowest(set_b, v->words))
        return fail_value(v, piece, piece->out, "the right operand has the lowest rank");
    full = set_count(set_a, v->words) + set_count(set_b, v->words) == v->p->nranks;
    if (finish && !full)
        return fail_value(v, piece, piece->out, "finishes before all contributions are reduced");
    for (size_t i = 0; i < v->words; i++)
        out[i] = set_a[i] | set_b[i];
    v->value[piece->out] =
        (struct value){ .offset = a->offset, .known = true, .finished = finish, .written = true };
    return TUTTI_OK;
}

static tutti_status run_piece(struct values *v, const struct tt_piece *piece)
{
    const struct tt_step *s = &v->p->steps[piece->rank][piece->step];

    if (!v->value[piece->a].known)
        return fail_value(v, piece, piece->a, "reads unwritten bytes");
    if (s->opcode == TT_REDUCE_STEP) {
        if (!v->value[piece->b].known)
            return fail_value(v, piece, piece->b, "reads unwritten bytes");
        return run_reduce(v, piece, s->finish);
    }
    v->value[piece->out] = v->value[piece->a];
    v->value[piece->out].written = true;
    memmove(set_of_cell(v, piece->out), set_of_cell(v, piece->a), v->words * sizeof *v->set);
    return TUTTI_OK;
}

/* ---- results ---- */

#define RANGE "[%" PRIu64 ", %" PRIu64 ")"

/* Checks a cell of rank's result, which must be input from `offset` of rank `origin`, or of all
 * ranks. */
static tutti_status check_cell(const struct values *v, uint32_t rank, uint32_t cell,
                               uint64_t offset, uint32_t origin)
{
    const struct value *got = &v->value[cell];
    const uint64_t *set = set_of_cell(v, cell), at = v->s->cell[cell].offset,
                   end = at + v->s->cell[cell].bytes;

    if (!got->known)
        return tt_finding_rank(v->f, rank, RANGE " of its result is not written", at, end);
    if (got->offset != offset)
        return tt_finding_rank(v->f, rank,
                               RANGE " of its result comes from %" PRIu64 ", not from %" PRIu64, at,
                               end, got->offset, offset);
    if (!v->reduces && set_lowest(set, v->words) != origin)
        return tt_finding_rank(v->f, rank,
                               RANGE " of its result comes from rank %u, not from rank %u", at, end,
                               set_lowest(set, v->words), origin);
    for (uint32_t r = 0; r < v->p->nranks && v->reduces; r++)
        if (!(set[r / 64] >> r % 64 & 1))
            return tt_finding_rank(
                v->f, rank, RANGE " of its result lacks the contribution of rank %u", at, end, r);
    if (v->reduces && !got->finished)
        return tt_finding_rank(v->f, rank, RANGE " of its result is not finished", at, end);
    return TUTTI_OK;
}

static tutti_status check_results(struct values *v)
{
    for (uint32_t r = 0; r < v->p->nranks; r++)
        for (uint32_t i = 0; i < tt_nexpects(v->p->coll, r); i++) {
            const struct tt_expect e = tt_expect_of(v->p->coll, r, i);
            uint64_t offset = e.origin_offset;
            uint32_t cell, end;

            if (e.bytes == 0)
                continue;
            tt_pieces_cells(v->s, &v->p->coll[r], tt_dst(e.offset), e.bytes, &cell, &end);
            for (; cell < end; cell++) {
                const tutti_status st = check_cell(v, r, cell, offset, e.origin);

                if (st != TUTTI_OK)
                    return st;
                v->value[cell].written = false;     /* expected: see check_rest */
                offset += v->s->cell[cell].bytes;
            }
        }
    return TUTTI_OK;
}

/* Checks that nothing outside of the result is written. */
static tutti_status check_rest(const struct values *v)
{
    for (uint32_t i = 0; i < v->s->ncells; i++) {
        const struct tt_cell *cell = &v->s->cell[i];

        if ((cell->of == TT_CELL_SRC || cell->of == TT_CELL_DST) && v->value[i].written)
            return tt_finding_rank(
                v->f, cell->rank, RANGE " of %s is written, but is not part of the result",
                cell->offset, cell->offset + cell->bytes, cell->of == TT_CELL_SRC ? "SRC" : "DST");
    }
    return TUTTI_OK;
}

/* Callback for the contents of messages. */
struct listener {
    tt_carried_fn *fn;
    void *arg;
};

/* A message is written once, by its put, so it is still available at the end. */
static void report_messages(const struct values *v, const struct listener *to)
{
    for (uint32_t i = 0; i < v->s->npieces; i++) {
        const struct tt_piece *piece = &v->s->piece[i];

        if (v->p->steps[piece->rank][piece->step].opcode != TT_PUT)
            continue;
        const struct tt_carried carried = {
            .rank = piece->rank, .step = piece->step, .offset = v->value[piece->out].offset,
            .bytes = v->s->cell[piece->out].bytes, .set = set_of_cell(v, piece->out),
        };

        to->fn(&carried, to->arg);
    }
}

/* listener: may be NULL. */
static tutti_status follow_values(const struct tt_program *p, const struct tt_order *o,
                                  const struct listener *listener, const struct tt_finding *f)
{
    const struct tt_pieces *s = o->pieces;
    struct values v = {
        .p = p,
        .s = s,
        .f = f,
        .reduces = tt_coll_reduces(p->coll[0].kind),
        .words = (p->nranks + 63) / 64,
    };
    tutti_status st = TUTTI_OK;

    v.value = calloc((size_t)s->ncells + 1, sizeof *v.value);
    v.set = calloc((s->ncells + 1) * v.words, sizeof *v.set);
    if (!v.value || !v.set) {
        st = tt_finding_nomem(f);
        goto free_values;
    }
    set_inputs(&v);
    for (uint32_t i = 0; i < s->npieces && st == TUTTI_OK; i++)
        st = run_piece(&v, &s->piece[o->sequence[i]]);
    if (st == TUTTI_OK)
        st = check_results(&v);
    if (st == TUTTI_OK)
        st = check_rest(&v);
    if (st == TUTTI_OK && listener)
        report_messages(&v, listener);

free_values:
    free(v.value);
    free(v.set);
    return st;
}

/* ---- the proof ---- */

static bool takes_less(const struct tt_program *p)
{
    for (uint32_t r = 0; r < p->nranks; r++)
        for (uint64_t i = 0; i < p->nsteps[r]; i++)
            if (p->steps[r][i].at_most)
                return true;
    return false;
}

/* Copies the program, with actual instead of maximum lengths of waits. The caller frees its steps
 * and their array. */
static tutti_status fit_waits(struct tt_program *out, const struct tt_program *p,
                              const struct tt_links *links, const struct tt_finding *f)
{
    const size_t nsteps = links->first[p->nranks];
    struct tt_step *steps = malloc((nsteps + 1) * sizeof *steps),
                   **of = calloc(p->nranks, sizeof *of);

    if (!steps || !of) {
        free(steps);
        free(of);
        return tt_finding_nomem(f);
    }
    for (uint32_t r = 0; r < p->nranks; r++) {
        of[r] = steps + links->first[r];
        for (uint64_t i = 0; i < p->nsteps[r]; i++)
            of[r][i] = p->steps[r][i];
    }
    for (size_t id = 0; id < nsteps; id++)
        if (steps[id].opcode == TT_WAIT)
            steps[id].bytes = steps[links->mate[id]].bytes;
    *out = *p;
    out->steps = of;
    return TUTTI_OK;
}

static tutti_status prove_linked(const struct tt_program *p, const struct tt_links *links,
                                 struct tt_early *early, const struct listener *listener,
                                 const struct tt_finding *f)
{
    struct tt_pieces pieces;
    struct tt_order order;
    tutti_status st;

    st = tt_pieces_init(&pieces, p, links, f);
    if (st != TUTTI_OK)
        return st;
    st = tt_order_init(&order, &pieces, f);
    if (st != TUTTI_OK)
        goto fini_pieces;
    st = tt_segments_check(p, links, f);
    if (st == TUTTI_OK)
        st = tt_in_order_check(p, links, f);
    if (st == TUTTI_OK)
        st = follow_values(p, &order, listener, f);
    if (st == TUTTI_OK && p->coll[0].kind == TT_BARRIER)
        st = tt_order_synchronizes(&order, f);
    if (st == TUTTI_OK)
        st = tt_order_early(&order, early, f);

    tt_order_fini(&order);
fini_pieces:
    tt_pieces_fini(&pieces);
    return st;
}

static tutti_status prove_fitted(const struct tt_program *p, const struct tt_links *links,
                                 struct tt_early *early, const struct listener *listener,
                                 const struct tt_finding *f)
{
    struct tt_program fitted;
    tutti_status st = fit_waits(&fitted, p, links, f);

    if (st != TUTTI_OK)
        return st;
    st = prove_linked(
        &fitted, links, early, listener,
        &(struct tt_finding){ .program = &fitted, .text = f->text, .bytes = f->bytes });
    free(fitted.steps[0]);
    free(fitted.steps);
    return st;
}

static tutti_status prove_program(const struct tt_program *p, struct tt_early *early,
                                  const struct listener *listener, const struct tt_finding *f)
{
    struct tt_links links;
    tutti_status st = tt_links_init(&links, p, f);

    if (st != TUTTI_OK)
        return st;
    st = takes_less(p) ? prove_fitted(p, &links, early, listener, f)
                       : prove_linked(p, &links, early, listener, f);
    tt_links_fini(&links);
    return st;
}

tutti_status tt_verify_early(const struct tt_program *p, struct tt_early *out, char *why,
                             size_t why_bytes)
{
    return prove_program(p, out, NULL,
                         &(struct tt_finding){ .program = p, .text = why, .bytes = why_bytes });
}

static tutti_status verify(const struct tt_program *p, const struct listener *listener, char *why,
                           size_t why_bytes)
{
    const struct tt_finding f = { .program = p, .text = why, .bytes = why_bytes };
    struct tt_early early;
    const tutti_status st = prove_program(p, &early, listener, &f);

    if (st != TUTTI_OK || early.unsafe == 0 || p->direct_unsafe)
        return st;
    return tt_finding_step(&f, early.rank, early.step,
                           "its bytes may arrive while earlier steps use the destination, and the "
                           "algorithm does not set direct_unsafe");
}

tutti_status tt_verify(const struct tt_program *p, char *why, size_t why_bytes)
{
    return verify(p, NULL, why, why_bytes);
}

tutti_status tt_verify_traffic(const struct tt_program *p, tt_carried_fn *fn, void *arg, char *why,
                               size_t why_bytes)
{
    return verify(p, &(struct listener){ fn, arg }, why, why_bytes);
}
