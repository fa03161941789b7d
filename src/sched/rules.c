#include "sched/rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* maximum of any size, offset or stride, so their sums cannot overflow */
#define BYTES_MAX (1ull << 48)

uint32_t tt_step_nreads(const struct tt_step *step)
{
    return step->opcode == TT_WAIT ? 0 : step->opcode == TT_REDUCE_STEP ? 2 : 1;
}

const struct tt_ref *tt_step_read(const struct tt_step *step, uint32_t i)
{
    return i == 0 ? &step->a : &step->b;
}

/* ---- single steps ---- */

static const char *ref_error(const struct tt_program *p, uint32_t rank, const struct tt_ref *ref,
                             uint64_t bytes)
{
    uint64_t begin, end, size;

    if (ref->offset > BYTES_MAX || ref->block > BYTES_MAX || ref->stride > BYTES_MAX)
        return "a value is out of range";
    if (ref->block > 0 && (bytes - 1) / ref->block > 0 &&
        ref->stride > BYTES_MAX / ((bytes - 1) / ref->block))
        return "a value is out of range";
    switch (ref->buf) {
    case TT_BUF_SRC:
        size = tt_coll_src_bytes(&p->coll[rank]);
        break;
    case TT_BUF_DST:
        size = tt_coll_dst_bytes(&p->coll[rank]);
        break;
    case TT_BUF_WORK:
        size = p->work_bytes[rank];
        break;
    case TT_BUF_PIPE:
        return ref->block > 0 ? "a pipe cannot be strided" : NULL;
    default:
        return "invalid buffer";
    }
    tt_ref_extent(ref, bytes, &begin, &end);
    return end > size ? "out of bounds" : NULL;
}

static bool on_elements(const struct tt_coll *c, const struct tt_ref *ref)
{
    return ref->buf == TT_BUF_PIPE ||
           (ref->offset % c->elem_bytes == 0 && ref->block % c->elem_bytes == 0 &&
            ref->stride % c->elem_bytes == 0);
}

static const char *step_error(const struct tt_program *p, uint32_t rank, const struct tt_step *s)
{
    const struct tt_coll *c = &p->coll[rank];
    const char *flaw = NULL;

    if (s->opcode > TT_COPY)
        return "invalid opcode";
    if ((s->opcode == TT_PUT || s->opcode == TT_WAIT) && (s->peer >= p->nranks || s->peer == rank))
        return "invalid peer";
    if (s->bytes > BYTES_MAX)
        return "a value is out of range";
    if (s->bytes == 0)
        return NULL;
    for (uint32_t i = 0; i < tt_step_nreads(s) && !flaw; i++)
        flaw = ref_error(p, rank, tt_step_read(s, i), s->bytes);
    if (flaw || s->opcode == TT_PUT)
        return flaw;
    if (s->out.buf == TT_BUF_SRC)
        return "writes SRC";
    flaw = ref_error(p, rank, &s->out, s->bytes);
    if (flaw || s->opcode != TT_REDUCE_STEP)
        return flaw;
    if (s->bytes % c->elem_bytes || !on_elements(c, &s->out) || !on_elements(c, &s->a) ||
        !on_elements(c, &s->b))
        return "splits an element";
    return NULL;
}

static tutti_status check_steps(const struct tt_program *p, const struct tt_finding *f)
{
    for (uint32_t rank = 0; rank < p->nranks; rank++)
        for (uint64_t i = 0; i < p->nsteps[rank]; i++) {
            const char *flaw = step_error(p, rank, &p->steps[rank][i]);

            if (flaw)
                return tt_finding_step(f, rank, i, "%s", flaw);
        }
    return TUTTI_OK;
}

/* ---- puts and waits ---- */

struct end {
    uint32_t from, to, id, rank, step;
    const struct tt_step *s;
};

static int by_pair(const void *x, const void *y)
{
    const struct end *a = x, *b = y;

    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int by_tag(const void *x, const void *y)
{
    const struct end *a = x, *b = y;

    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return a->s->tag < b->s->tag ? -1 : a->s->tag > b->s->tag;
}

static bool same_pair(const struct end *a, const struct end *b)
{
    return a->from == b->from && a->to == b->to;
}

/* Lists all puts (or all waits) by sender, receiver and program order; returns their number. */
static uint32_t collect_ends(const struct tt_program *p, const struct tt_links *l,
                             enum tt_opcode opcode, struct end *out)
{
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < p->nranks; rank++)
        for (uint32_t i = 0; i < p->nsteps[rank]; i++) {
            const struct tt_step *s = &p->steps[rank][i];

            if (s->opcode == opcode)
                out[n++] = (struct end){
                    .from = opcode == TT_PUT ? rank : s->peer,
                    .to = opcode == TT_PUT ? s->peer : rank,
                    .id = l->first[rank] + i,
                    .rank = rank,
                    .step = i,
                    .s = s,
                };
        }
    qsort(out, n, sizeof *out, by_pair);
    return n;
}

static bool same_ref(const struct tt_ref *a, const struct tt_ref *b)
{
    return a->buf == b->buf && a->offset == b->offset && a->block == b->block &&
           (a->block == 0 || a->stride == b->stride);
}

/* Returns whether the destinations of a put and its wait agree. With THERE, only the wait contains
 * the destination; for stretches, both contain the offset within the block. */
static bool goes_there(const struct tt_program *p, const struct end *put, const struct end *wait)
{
    const struct tt_coll *c = &p->coll[put->to];
    struct tt_ref to = put->s->out;

    if (to.buf == TT_BUF_THERE && !c->stretches)
        return true;
    if (to.buf == TT_BUF_THERE) {
        to.buf = TT_BUF_DST;
        to.offset += c->recv_displs[put->from];
    }
    return same_ref(&to, &wait->s->out);
}

static tutti_status match_pair(const struct end *put, const struct end *wait,
                               const struct tt_finding *f)
{
    if (put->s->tag != wait->s->tag)
        return tt_finding_step(f, wait->rank, wait->step, "the matching put has tag %u",
                               put->s->tag);
    if (put->s->bytes != wait->s->bytes && !(wait->s->at_most && put->s->bytes < wait->s->bytes))
        return tt_finding_step(f, wait->rank, wait->step, "the matching put has %" PRIu64 " B",
                               put->s->bytes);
    if (put->s->round != wait->s->round)
        return tt_finding_step(f, wait->rank, wait->step,
                               "waits in round %u, but the matching put is in round %u",
                               wait->s->round, put->s->round);
    if (put->s->bytes > 0 && !goes_there(f->program, put, wait))
        return tt_finding_step(f, put->rank, put->step,
                               "the matching wait has another destination");
    return TUTTI_OK;
}

static tutti_status match_all(const struct end *put, uint32_t nputs, const struct end *wait,
                              uint32_t nwaits, const struct tt_finding *f)
{
    for (uint32_t i = 0; i < nputs || i < nwaits; i++) {
        if (i == nwaits ||
            (i < nputs && !same_pair(&put[i], &wait[i]) && by_pair(&put[i], &wait[i]) < 0))
            return tt_finding_step(f, put[i].rank, put[i].step, "no matching wait");
        if (i == nputs || !same_pair(&put[i], &wait[i]))
            return tt_finding_step(f, wait[i].rank, wait[i].step, "no matching put");

        const tutti_status st = match_pair(&put[i], &wait[i], f);

        if (st != TUTTI_OK)
            return st;
        if (put[i].s->out.buf == TT_BUF_THERE && !f->program->coll[put[i].from].stretches &&
            ((i > 0 && same_pair(&put[i], &put[i - 1])) ||
             (i + 1 < nputs && same_pair(&put[i], &put[i + 1]))))
            return tt_finding_step(f, put[i].rank, put[i].step,
                                   "put to THERE, but not the only put of the pair");
    }
    return TUTTI_OK;
}

static tutti_status link_pairs(struct tt_links *l, const struct tt_program *p, uint32_t nsteps,
                               const struct tt_finding *f)
{
    struct end *put = calloc(2 * (size_t)nsteps + 1, sizeof *put),
               *wait = put ? put + nsteps : NULL;
    uint32_t nputs, nwaits;
    tutti_status st;

    if (!put)
        return tt_finding_nomem(f);
    nputs = collect_ends(p, l, TT_PUT, put);
    nwaits = collect_ends(p, l, TT_WAIT, wait);
    st = match_all(put, nputs, wait, nwaits, f);
    if (st != TUTTI_OK)
        goto free_ends;
    for (uint32_t i = 0; i < nputs; i++) {
        l->mate[put[i].id] = wait[i].id;
        l->mate[wait[i].id] = put[i].id;
    }
    qsort(put, nputs, sizeof *put, by_tag);
    for (uint32_t i = 1; i < nputs; i++)
        if (same_pair(&put[i - 1], &put[i]) && put[i - 1].s->tag == put[i].s->tag) {
            st = tt_finding_step(f, put[i].rank, put[i].step, "duplicate tag within the pair");
            goto free_ends;
        }

free_ends:
    free(put);
    return st;
}

/* ---- pipes ---- */

struct use {
    uint64_t name;
    uint32_t step, slot;    /* slot: 0, 1: read as a, b; 2: written */
};

#define WRITTEN 2

static int by_pipe_name(const void *x, const void *y)
{
    const struct use *a = x, *b = y;

    if (a->name != b->name)
        return a->name < b->name ? -1 : 1;
    return a->step < b->step ? -1 : a->step > b->step;
}

static uint32_t collect_uses(const struct tt_program *p, uint32_t rank, struct use *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->nsteps[rank]; i++) {
        const struct tt_step *s = &p->steps[rank][i];

        if (s->bytes == 0)
            continue;
        for (uint32_t j = 0; j < tt_step_nreads(s); j++)
            if (tt_step_read(s, j)->buf == TT_BUF_PIPE)
                out[n++] = (struct use){ tt_step_read(s, j)->offset, i, j };
        if (s->opcode != TT_PUT && s->out.buf == TT_BUF_PIPE)
            out[n++] = (struct use){ s->out.offset, i, WRITTEN };
    }
    qsort(out, n, sizeof *out, by_pipe_name);
    return n;
}

static tutti_status link_pipes_of(struct tt_links *l, const struct tt_program *p, uint32_t rank,
                                  struct use *use, const struct tt_finding *f)
{
    const uint32_t n = collect_uses(p, rank, use);
    const struct tt_step *steps = p->steps[rank];

    for (uint32_t i = 0; i < n; i += 2) {
        const struct use *w = &use[i], *r = &use[i + 1];

        if (w->slot != WRITTEN)
            return tt_finding_step(f, rank, w->step, "reads a pipe before it is written");
        if (i + 1 == n || r->name != w->name)
            return tt_finding_step(f, rank, w->step, "the pipe is not read");
        if (r->slot == WRITTEN || r->step == w->step)
            return tt_finding_step(f, rank, r->step, "the pipe is written twice");
        if (i + 2 < n && use[i + 2].name == w->name)
            return tt_finding_step(f, rank, use[i + 2].step, "the pipe is used a second time");
        if (steps[w->step].bytes != steps[r->step].bytes)
            return tt_finding_step(f, rank, r->step, "%" PRIu64 " B were written to the pipe",
                                   steps[w->step].bytes);
        if (steps[w->step].round != steps[r->step].round)
            return tt_finding_step(f, rank, r->step, "the pipe was written in another round, %u",
                                   steps[w->step].round);
        l->pipe_writer[2 * (l->first[rank] + r->step) + r->slot] = l->first[rank] + w->step;
    }
    return TUTTI_OK;
}

static tutti_status link_pipes(struct tt_links *l, const struct tt_program *p,
                               const struct tt_finding *f)
{
    uint64_t longest = 0;
    tutti_status st = TUTTI_OK;
    struct use *use;

    for (uint32_t rank = 0; rank < p->nranks; rank++)
        longest = p->nsteps[rank] > longest ? p->nsteps[rank] : longest;
    use = calloc(3 * longest + 1, sizeof *use);
    if (!use)
        return tt_finding_nomem(f);
    for (uint32_t rank = 0; rank < p->nranks && st == TUTTI_OK; rank++)
        st = link_pipes_of(l, p, rank, use, f);
    free(use);
    return st;
}

tutti_status tt_links_init(struct tt_links *links, const struct tt_program *p,
                           const struct tt_finding *f)
{
    struct tt_links l = { .first = calloc((size_t)p->nranks + 1, sizeof *l.first) };
    tutti_status st;
    uint32_t nsteps;

    if (!l.first)
        return tt_finding_nomem(f);
    for (uint32_t rank = 0; rank < p->nranks; rank++)
        l.first[rank + 1] = l.first[rank] + (uint32_t)p->nsteps[rank];
    nsteps = l.first[p->nranks];
    l.mate = malloc(((size_t)nsteps + 1) * sizeof *l.mate);
    l.pipe_writer = malloc((2 * (size_t)nsteps + 1) * sizeof *l.pipe_writer);
    if (!l.mate || !l.pipe_writer) {
        st = tt_finding_nomem(f);
        goto free_links;
    }
    memset(l.mate, 0xff, nsteps * sizeof *l.mate);
    memset(l.pipe_writer, 0xff, 2 * (size_t)nsteps * sizeof *l.pipe_writer);

    st = check_steps(p, f);
    if (st == TUTTI_OK)
        st = link_pairs(&l, p, nsteps, f);
    if (st == TUTTI_OK)
        st = link_pipes(&l, p, f);
    if (st != TUTTI_OK)
        goto free_links;
    *links = l;
    return TUTTI_OK;

free_links:
    tt_links_fini(&l);
    return st;
}

void tt_links_fini(struct tt_links *links)
{
    free(links->first);
    free(links->mate);
    free(links->pipe_writer);
}
