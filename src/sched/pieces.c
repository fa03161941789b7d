#include "sched/pieces.h"

#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "sched/expect.h"

#define CUTS_MAX (1u << 22)

enum { OUT, A, B, OPERANDS };

#define NOWHERE UINT64_MAX

/* A part of a step whose operands are each contiguous; at: their addresses in the common address
 * space. */
struct atom {
    uint64_t bytes;
    uint64_t at[OPERANDS];
    uint32_t region[OPERANDS];      /* region that contains the operand */
    uint32_t rank, step;
};

/* A range of the address space. */
struct region {
    uint64_t begin, end;
    uint32_t rank;
    uint8_t of;
    bool fresh, cut;        /* fresh: cut by the last pass; cut: by this pass */
    uint32_t first;         /* index of the cut at its start */
};

struct cutter {
    const struct tt_program *p;
    const struct tt_links *links;
    uint64_t *base;         /* [nranks][3] */
    uint64_t *own;          /* [nsteps], start of the pipe or message that it writes; NOWHERE: it
                               writes memory */
    struct region *region;  /* ascending */
    uint32_t nregions;
    struct atom *atom;
    uint32_t natoms;
    uint64_t *cut;          /* sorted and unique after settle_cuts */
    uint32_t ncuts, cuts_cap;
};

static tutti_status too_many(const struct tt_finding *f)
{
    return tt_finding_rank(f, 0, "too many pieces or overlaps of ranges to verify");
}

/* ---- the address space ---- */

static uint64_t cutter_add_region(struct cutter *k, uint64_t bytes, uint32_t rank,
                                  enum tt_cell_of of)
{
    const uint64_t begin = k->nregions ? k->region[k->nregions - 1].end : 0;

    k->region[k->nregions++] = (struct region){
        .begin = begin, .end = begin + bytes, .rank = rank, .of = (uint8_t)of, .fresh = true,
    };
    return begin;
}

static void cutter_lay_out(struct cutter *k)
{
    for (uint32_t r = 0; r < k->p->nranks; r++) {
        k->base[3 * r + TT_BUF_SRC] =
            cutter_add_region(k, tt_coll_src_bytes(&k->p->coll[r]), r, TT_CELL_SRC);
        k->base[3 * r + TT_BUF_DST] =
            cutter_add_region(k, tt_coll_dst_bytes(&k->p->coll[r]), r, TT_CELL_DST);
        k->base[3 * r + TT_BUF_WORK] = cutter_add_region(k, k->p->work_bytes[r], r, TT_CELL_WORK);
    }
    for (uint32_t r = 0; r < k->p->nranks; r++)
        for (uint32_t i = 0; i < k->p->nsteps[r]; i++) {
            const struct tt_step *s = &k->p->steps[r][i];
            uint64_t *own = &k->own[k->links->first[r] + i];

            *own = NOWHERE;
            if (s->opcode == TT_PUT)
                *own = cutter_add_region(k, s->bytes, r, TT_CELL_MESSAGE);
            else if (s->out.buf == TT_BUF_PIPE)
                *own = cutter_add_region(k, s->bytes, r, TT_CELL_PIPE);
        }
}

static uint64_t address(const uint64_t *base, const struct tt_coll *c, struct tt_ref ref)
{
    ref = tt_coll_canonical(c, ref);
    return base[3 * c->rank + ref.buf] + ref.offset;
}

/* Returns the region that contains an address. */
static uint32_t region_at(const struct cutter *k, uint64_t at)
{
    uint32_t low = 0, high = k->nregions;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (k->region[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- atoms: steps split at strides ---- */

/* Returns the address of byte `pos` of an operand, and the length of the contiguous run from
 * there. */
static uint64_t locate_byte(const struct tt_ref *ref, uint64_t begin, uint64_t pos, uint64_t *run)
{
    if (ref->block == 0) {
        *run = UINT64_MAX;
        return begin + pos;
    }
    *run = ref->block - pos % ref->block;
    return begin + pos / ref->block * ref->stride + pos % ref->block;
}

static uint64_t operand_of_step(const struct cutter *k, uint32_t rank, uint32_t id,
                                const struct tt_step *s, int which)
{
    const struct tt_ref *ref = which == OUT ? &s->out : which == A ? &s->a : &s->b;

    if (which == OUT && k->own[id] != NOWHERE)
        return k->own[id];
    if (which == A && s->opcode == TT_WAIT)
        return k->own[k->links->mate[id]];
    if (which != OUT && (uint32_t)(which - A) >= tt_step_nreads(s))
        return NOWHERE;
    if (ref->buf == TT_BUF_PIPE)
        return k->own[k->links->pipe_writer[2 * id + (uint32_t)(which - A)]];
    return address(k->base, &k->p->coll[rank], *ref);
}

/* Adds the atoms of a step. If k->atom is NULL, only counts them, up to the limit. */
static void add_atoms(struct cutter *k, uint32_t rank, uint32_t step)
{
    const uint32_t id = k->links->first[rank] + step;
    const struct tt_step *s = &k->p->steps[rank][step];
    const struct tt_ref contiguous = { .block = 0 };
    const struct tt_ref *shape[OPERANDS] = {
        s->opcode == TT_PUT ? &contiguous : &s->out,
        s->opcode == TT_WAIT ? &contiguous : &s->a,
        &s->b,
    };
    uint64_t begin[OPERANDS] = { 0 };

    for (int i = 0; i < OPERANDS && k->atom; i++)
        begin[i] = operand_of_step(k, rank, id, s, i);
    for (uint64_t pos = 0; pos < s->bytes && k->natoms <= CUTS_MAX; k->natoms++) {
        struct atom atom = { .bytes = s->bytes - pos, .rank = rank, .step = step };

        for (int i = 0; i < OPERANDS; i++) {
            uint64_t run = UINT64_MAX;

            if (i == B && s->opcode != TT_REDUCE_STEP)
                atom.at[i] = NOWHERE;
            else
                atom.at[i] = locate_byte(shape[i], begin[i], pos, &run);
            if (run < atom.bytes)
                atom.bytes = run;
            if (k->atom && atom.at[i] != NOWHERE)
                atom.region[i] = region_at(k, atom.at[i]);
        }
        if (k->atom)
            k->atom[k->natoms] = atom;
        pos += atom.bytes;
    }
}

static void add_all_atoms(struct cutter *k)
{
    k->natoms = 0;
    for (uint32_t r = 0; r < k->p->nranks; r++)
        for (uint32_t i = 0; i < k->p->nsteps[r]; i++)
            add_atoms(k, r, i);
}

/* ---- cuts ---- */

static int ascending(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

    return a < b ? -1 : a > b;
}

static tutti_status add_cut(struct cutter *k, uint64_t at, const struct tt_finding *f)
{
    if (k->ncuts == k->cuts_cap) {
        const uint32_t cap = k->cuts_cap ? 2 * k->cuts_cap : 1024;
        uint64_t *cut;

        if (cap > 2 * CUTS_MAX)
            return too_many(f);
        cut = realloc(k->cut, cap * sizeof *cut);
        if (!cut)
            return tt_finding_nomem(f);
        k->cut = cut;
        k->cuts_cap = cap;
    }
    k->cut[k->ncuts++] = at;
    return TUTTI_OK;
}

/* Sorts the cuts, of which the first `sorted` are sorted, and removes duplicates. */
static tutti_status settle_cuts(struct cutter *k, uint32_t sorted, const struct tt_finding *f)
{
    const uint32_t added = k->ncuts - sorted;
    uint64_t *fresh = malloc(((size_t)added + 1) * sizeof *fresh);
    uint32_t from = sorted, left = 0, n = 0;

    if (!fresh)
        return tt_finding_nomem(f);
    memcpy(fresh, k->cut + sorted, added * sizeof *fresh);
    qsort(fresh, added, sizeof *fresh, ascending);
    for (uint32_t i = 0; i < added; i++)
        if (left == 0 || fresh[i] != fresh[left - 1])
            fresh[left++] = fresh[i];

    /* Merges from the end, so that no cut is overwritten before it was moved; new cuts differ from
     * old ones. */
    n = sorted + left;
    k->ncuts = n;
    while (left > 0)
        k->cut[--n] =
            from > 0 && k->cut[from - 1] > fresh[left - 1] ? k->cut[--from] : fresh[--left];
    free(fresh);
    return TUTTI_OK;
}

/* Returns the index of the first cut in [low, high) that is not below `at`; high: none. */
static uint32_t cut_from(const uint64_t *cut, uint32_t low, uint32_t high, uint64_t at)
{
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (cut[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Like cut_from, for a position in a region or at its end; the first ncuts cuts are sorted. */
static uint32_t cut_in(const struct cutter *k, uint32_t region, uint64_t at, uint32_t ncuts)
{
    return cut_from(k->cut, k->region[region].first,
                    region + 1 < k->nregions ? k->region[region + 1].first : ncuts, at);
}

/* Finds the cut at which each region begins. Call it after settle_cuts. */
static void find_regions(struct cutter *k)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < k->nregions; i++) {
        while (k->cut[at] < k->region[i].begin)
            at++;
        k->region[i].first = at;
    }
}

/* Adds a cut inside a region; cuts at its ends exist already. */
static tutti_status add_inner_cut(struct cutter *k, uint32_t region, uint64_t at,
                                  const struct tt_finding *f)
{
    return at == k->region[region].begin || at == k->region[region].end ? TUTTI_OK
                                                                        : add_cut(k, at, f);
}

static tutti_status first_cuts(struct cutter *k, const struct tt_finding *f)
{
    tutti_status st = add_cut(k, 0, f);
    uint32_t ends;

    for (uint32_t i = 0; i < k->nregions && st == TUTTI_OK; i++)
        if (k->region[i].end > k->region[i].begin)
            st = add_cut(k, k->region[i].end, f);
    ends = k->ncuts;
    for (uint32_t r = 0; r < k->p->nranks; r++)
        for (uint32_t i = 0; i < tt_nexpects(k->p->coll, r) && st == TUTTI_OK; i++) {
            const struct tt_expect e = tt_expect_of(k->p->coll, r, i);
            const uint64_t at = address(k->base, &k->p->coll[r], tt_dst(e.offset));

            if (e.bytes == 0)
                continue;
            st = add_inner_cut(k, region_at(k, at), at, f);
            if (st == TUTTI_OK)
                st = add_inner_cut(k, region_at(k, at), at + e.bytes, f);
        }
    for (uint32_t i = 0; i < k->natoms; i++)
        for (int o = 0; o < OPERANDS && st == TUTTI_OK; o++) {
            const struct atom *a = &k->atom[i];

            if (a->at[o] == NOWHERE)
                continue;
            st = add_inner_cut(k, a->region[o], a->at[o], f);
            if (st == TUTTI_OK)
                st = add_inner_cut(k, a->region[o], a->at[o] + a->bytes, f);
        }
    return st == TUTTI_OK ? settle_cuts(k, ends, f) : st;
}

/* Cuts operand `to` of an atom where operand `from` is cut, walking through both in parallel. */
static tutti_status spread_to(struct cutter *k, const struct atom *a, int from, int to,
                              uint32_t ncuts, const struct tt_finding *f)
{
    const uint64_t end = a->at[from] + a->bytes;
    uint32_t there = cut_in(k, a->region[to], a->at[to], ncuts);

    for (uint32_t i = cut_in(k, a->region[from], a->at[from] + 1, ncuts); k->cut[i] < end; i++) {
        const uint64_t at = a->at[to] + (k->cut[i] - a->at[from]);
        tutti_status st;

        while (k->cut[there] < at)
            there++;
        if (k->cut[there] == at)
            continue;
        st = add_cut(k, at, f);
        if (st != TUTTI_OK)
            return st;
        k->region[a->region[to]].cut = true;
    }
    return TUTTI_OK;
}

static tutti_status spread_cuts(struct cutter *k, const struct atom *a, uint32_t ncuts,
                                const struct tt_finding *f)
{
    tutti_status st = TUTTI_OK;

    for (int from = 0; from < OPERANDS; from++) {
        if (a->at[from] == NOWHERE || !k->region[a->region[from]].fresh)
            continue;
        for (int to = 0; to < OPERANDS && st == TUTTI_OK; to++)
            if (to != from && a->at[to] != NOWHERE && a->at[to] != a->at[from])
                st = spread_to(k, a, from, to, ncuts, f);
    }
    return st;
}

/* Each pass propagates every cut by one step, and examines only regions that the previous pass has
 * cut. A ring of n ranks needs n passes. */
static tutti_status all_cuts(struct cutter *k, const struct tt_finding *f)
{
    tutti_status st = first_cuts(k, f);
    uint32_t before = 0;

    while (st == TUTTI_OK && before != k->ncuts) {
        before = k->ncuts;
        find_regions(k);
        for (uint32_t i = 0; i < k->natoms && st == TUTTI_OK; i++)
            st = spread_cuts(k, &k->atom[i], before, f);
        if (st == TUTTI_OK)
            st = settle_cuts(k, before, f);
        for (uint32_t i = 0; i < k->nregions; i++) {
            k->region[i].fresh = k->region[i].cut;
            k->region[i].cut = false;
        }
    }
    return st;
}

/* ---- cells and pieces ---- */

static uint32_t npieces_of(const struct cutter *k, const struct atom *a)
{
    return cut_in(k, a->region[OUT], a->at[OUT] + a->bytes, k->ncuts) -
           cut_in(k, a->region[OUT], a->at[OUT], k->ncuts);
}

static void fill_cells(const struct cutter *k, struct tt_pieces *s)
{
    uint32_t region = 0;

    for (uint32_t i = 0; i < s->ncells; i++) {
        while (k->region[region].end <= k->cut[i])
            region++;
        s->cell[i] = (struct tt_cell){
            .offset = k->cut[i] - k->region[region].begin, .bytes = k->cut[i + 1] - k->cut[i],
            .rank = k->region[region].rank, .of = k->region[region].of,
        };
    }
}

static void fill_pieces(const struct cutter *k, struct tt_pieces *s)
{
    for (uint32_t i = 0; i < k->natoms; i++) {
        const struct atom *a = &k->atom[i];
        const uint32_t n = npieces_of(k, a);
        uint32_t cell[OPERANDS];

        for (int o = 0; o < OPERANDS; o++)
            cell[o] =
                a->at[o] == NOWHERE ? TT_NO_CELL : cut_in(k, a->region[o], a->at[o], k->ncuts);
        for (uint32_t j = 0; j < n; j++)
            s->piece[s->npieces++] = (struct tt_piece){
                .rank = a->rank, .step = a->step, .out = cell[OUT] + j, .a = cell[A] + j,
                .b = cell[B] == TT_NO_CELL ? TT_NO_CELL : cell[B] + j,
            };
    }
}

static tutti_status cutter_make_pieces(struct cutter *k, struct tt_pieces *out,
                                       const struct tt_finding *f)
{
    struct tt_pieces s = { .ncells = k->ncuts - 1 };
    uint64_t npieces = 0;

    for (uint32_t i = 0; i < k->natoms; i++)
        npieces += npieces_of(k, &k->atom[i]);
    if (npieces > CUTS_MAX)
        return too_many(f);
    s.piece = calloc(npieces + 1, sizeof *s.piece);
    s.cell = calloc((size_t)s.ncells + 1, sizeof *s.cell);
    if (!s.piece || !s.cell) {
        free(s.piece);
        free(s.cell);
        return tt_finding_nomem(f);
    }
    fill_cells(k, &s);
    fill_pieces(k, &s);
    s.cuts = k->cut;
    s.base = k->base;
    k->cut = NULL;
    k->base = NULL;
    *out = s;
    return TUTTI_OK;
}

tutti_status tt_pieces_init(struct tt_pieces *out, const struct tt_program *p,
                            const struct tt_links *links, const struct tt_finding *f)
{
    const size_t nsteps = links->first[p->nranks];
    struct cutter k = { .p = p, .links = links };
    tutti_status st;

    k.base = calloc(3 * (size_t)p->nranks, sizeof *k.base);
    k.own = calloc(nsteps + 1, sizeof *k.own);
    k.region = calloc(3 * (size_t)p->nranks + nsteps, sizeof *k.region);
    if (!k.base || !k.own || !k.region) {
        st = tt_finding_nomem(f);
        goto free_cutter;
    }
    cutter_lay_out(&k);
    add_all_atoms(&k);
    k.atom = k.natoms <= CUTS_MAX ? calloc((size_t)k.natoms + 1, sizeof *k.atom) : NULL;
    if (!k.atom) {
        st = k.natoms <= CUTS_MAX ? tt_finding_nomem(f) : too_many(f);
        goto free_cutter;
    }
    add_all_atoms(&k);
    st = all_cuts(&k, f);
    if (st == TUTTI_OK)
        st = cutter_make_pieces(&k, out, f);

free_cutter:
    free(k.base);
    free(k.own);
    free(k.region);
    free(k.atom);
    free(k.cut);
    return st;
}

void tt_pieces_fini(struct tt_pieces *s)
{
    free(s->piece);
    free(s->cell);
    free(s->cuts);
    free(s->base);
}

void tt_pieces_cells(const struct tt_pieces *s, const struct tt_coll *c, struct tt_ref ref,
                     uint64_t bytes, uint32_t *first, uint32_t *end)
{
    const uint64_t at = bytes > 0 ? address(s->base, c, ref) : 0;

    *first = cut_from(s->cuts, 0, s->ncells + 1, at);
    *end = cut_from(s->cuts, 0, s->ncells + 1, at + bytes);
    tt_assert(s->cuts[*first] == at && s->cuts[*end] == at + bytes);
}
