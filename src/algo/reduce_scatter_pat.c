/* Parallel aggregated trees reduce_scatter. Shapes: src[nranks][block], dst[block].
 * The reverse of allgather_pat: each row is reduced up a binomial tree to its rank, near ranks
 * first. A rank adds the sums of its children to its own running value, and sends the result on in
 * its step (src/algo/pat.h). Fully aggregated: ceil(log2 n) latencies for any number of ranks,
 * every byte is sent once; the running values of all trees are in WORK at once. Bounded: only A
 * rows of each level of the trees are in progress, so WORK holds A (levels + 1) pieces for any
 * size; rows are split into slabs if necessary. n / A - 1 near steps, then log2(A) far ones. Near
 * steps do not wait for each other, except for their tree's depth. S. Jeaugey, "PAT: a new
 * algorithm for all-gather and reduce-scatter operations at scale", 2025 (arXiv 2506.20252). */
#include "algo/algos.h"
#include "algo/pat.h"

#define STEPS_MAX (1u << 29)    /* tags hold numbers of step parts in 32 bits */
#define PARTS_MAX 4             /* maximum parts of one step's message */
#define SLAB_MULTIPLE 4096u

/* The trees, and the slabs of rows: each slab passes through all steps. */
struct shape {
    struct tt_pat p;
    uint64_t slab, nslabs;
};

static struct shape reduce_scatter_pat_all_of(const struct tt_coll *c)
{
    return (struct shape){ tt_pat_of(c->nranks, UINT64_MAX), c->bytes, 1 };
}

static struct shape reduce_scatter_pat_bounded_of(const struct tt_coll *c)
{
    const uint32_t levels = tt_log2_up(c->nranks);
    const uint64_t bound = TT_WORK_MAX / (levels + 1) / SLAB_MULTIPLE * SLAB_MULTIPLE,
                   half = 1ull << levels >> 1;
    const uint64_t slab = c->bytes < bound ? c->bytes : bound, blocks = bound / (slab ? slab : 1);

    return (struct shape){
        tt_pat_of(c->nranks, blocks < half ? blocks : half),
        slab,
        c->bytes > bound ? (c->bytes - 1) / bound + 1 : 1,
    };
}

/* One slab of one step. */
struct slab_step {
    const struct tt_coll *c;
    const struct shape *shape;
    struct tt_pat_step step;
    uint64_t offset, bytes;     /* offset and length of the slab in a row */
    bool last;                  /* the last step, whose sum is the result */
};

/* Pieces of WORK or rows of SRC for trees [from, to), in ascending order of address, which is the
 * descending order of trees. */
static struct tt_ref pieces(struct tt_ref first, const struct slab_step *t, uint64_t stride,
                            uint32_t from, uint32_t to)
{
    return to - from > 1 && t->bytes < stride ? tt_strided(first, t->bytes, stride) : first;
}

static struct tt_ref reduce_scatter_pat_rows(const struct slab_step *t, uint32_t rank,
                                             uint32_t first, uint32_t from, uint32_t to)
{
    const uint32_t root = tt_pat_root(&t->shape->p, rank, first + (to - 1) * t->step.apart);

    return pieces(tt_src(root * t->c->bytes + t->offset), t, t->step.apart * t->c->bytes, from, to);
}

/* The running values of offsets first + i * apart: by the level of the offset, and by its index q
 * in that level. */
static struct tt_ref values(const struct slab_step *t, uint32_t first, uint32_t from, uint32_t to)
{
    const struct tt_pat *p = &t->shape->p;
    const bool upper = first % p->apart == 0;
    const uint32_t level = upper ? p->levels - p->far_steps : (uint32_t)__builtin_ctz(first);
    const uint32_t q = (first + (to - 1) * t->step.apart) / p->apart;

    return pieces(
        tt_work(((uint64_t)level * p->aggregated + p->aggregated - 1 - q) * t->shape->slab), t,
        t->step.apart / p->apart * t->shape->slab, from, to);
}

static uint32_t count_from(const struct slab_step *t, uint32_t offset)
{
    return offset < t->c->nranks ? (t->c->nranks - 1 - offset) / t->step.apart + 1 : 0;
}

/* Number of trees whose child already has a running value (otherwise it sends its row), and of
 * trees whose parent has one. The near steps of a parent go from its farthest child to the nearest,
 * then the far steps outward. */
static uint32_t children_summed(const struct slab_step *t)
{
    return t->step.distance == 1 ? 0 : count_from(t, t->step.child + 1);
}

static uint32_t span_of(const struct slab_step *t)
{
    const uint32_t parent = t->step.parent;

    return t->step.far ? 2 * t->step.distance : parent ? parent & -parent : t->shape->p.apart;
}

static uint32_t parents_summed(const struct slab_step *t)
{
    const struct tt_pat_step *step = &t->step;

    if (step->far)
        return step->distance == 1 ? 0 : step->count;
    return 2 * step->distance < span_of(t) ? count_from(t, step->child + step->distance) : 0;
}

/* Splits the trees of a step into uniform parts: cut[0] = 0 .. cut[returned] = count. Both ends
 * split equally. */
static uint32_t cut_parts(const struct slab_step *t, uint32_t sender, uint32_t cut[PARTS_MAX + 1])
{
    const struct tt_pat_step *step = &t->step;
    const uint32_t count = step->count;
    const bool short_end =
        (uint64_t)step->parent + (count - 1) * (uint64_t)step->apart + span_of(t) > t->c->nranks;
    const uint32_t at[] = {
        step->parent == 0 ? 1 : 0,
        tt_pat_wrap(sender, step->child, step->apart, count),
        children_summed(t),
        parents_summed(t),
        short_end ? count - 1 : count,
    };
    uint32_t n = 0;

    for (cut[0] = 0; cut[n] < count; n++) {
        uint32_t next = count;

        for (uint32_t i = 0; i < sizeof at / sizeof *at; i++)
            if (at[i] > cut[n] && at[i] < next)
                next = at[i];
        cut[n + 1] = next;
    }
    return n;
}

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Adds trees [from, to) of the child's message in `theirs`. In tree i the operands are this rank's
 * running value, and that of the child's subtree. */
static void reduce_scatter_pat_take(struct tt_sched *s, const struct slab_step *t,
                                    struct tt_ref theirs, uint32_t from, uint32_t to)
{
    const struct tt_pat_step *step = &t->step;
    const uint32_t n = t->c->nranks, r = t->c->rank, d = step->parent + from * step->apart;
    const uint32_t begin = step->far ? 0 : 2 * step->distance,
                   end = min_u32(step->far ? step->distance : span_of(t), n - d);
    const uint32_t child =
        tt_lowest(r + step->distance, min_u32(2 * step->distance, n - d) - step->distance, n);
    const uint32_t below = begin < end ? tt_lowest(r + begin, end - begin, n) : r;
    const bool own = step->parent == 0 && from == 0;
    const struct tt_ref sum = own ? tt_dst(t->offset) : values(t, step->parent, from, to);
    const struct tt_ref ours =
        from < parents_summed(t) ? sum : reduce_scatter_pat_rows(t, r, step->parent, from, to);

    tt_sched_reduce_ordered(s, sum, ours, min_u32(r, below), theirs, child, (to - from) * t->bytes,
                            t->last);
}

static void reduce_scatter_pat_emit(struct tt_sched *s, const struct slab_step *t, uint32_t tag)
{
    const struct tt_pat_step *step = &t->step;
    const uint32_t n = t->c->nranks, r = t->c->rank, up = (r + n - step->distance) % n,
                   down = (r + step->distance) % n;
    uint32_t cut[PARTS_MAX + 1];
    uint32_t nparts = cut_parts(t, r, cut);

    for (uint32_t i = 0; i < nparts; i++) {
        const bool summed = cut[i] < children_summed(t);

        tt_sched_put(s, up,
                     summed ? values(t, step->child, cut[i], cut[i + 1])
                            : reduce_scatter_pat_rows(t, r, step->child, cut[i], cut[i + 1]),
                     tt_pipe(tag + i), (cut[i + 1] - cut[i]) * t->bytes, tag + i);
    }
    nparts = cut_parts(t, down, cut);
    for (uint32_t i = 0; i < nparts; i++)
        tt_sched_wait(s, down, tt_pipe(tag + i), (cut[i + 1] - cut[i]) * t->bytes, tag + i);
    for (uint32_t i = 0; i < nparts; i++)
        reduce_scatter_pat_take(s, t, tt_pipe(tag + i), cut[i], cut[i + 1]);
}

static void reduce_scatter_pat_round_of(struct tt_sched *s, const struct tt_coll *c, uint64_t k,
                                        const struct shape *shape)
{
    const uint32_t steps = shape->p.steps;

    if (c->nranks == 1) {
        tt_sched_own(s, c);
        return;
    }
    const uint32_t forward = steps - 1 - (uint32_t)(k % steps);
    const uint64_t offset = k / steps * shape->slab, left = c->bytes - offset;
    const struct slab_step t = {
        .c = c, .shape = shape, .step = tt_pat_step(&shape->p, forward), .offset = offset,
        .bytes = left < shape->slab ? left : shape->slab, .last = forward == 0,
    };

    reduce_scatter_pat_emit(s, &t, (uint32_t)k * PARTS_MAX);
}

static uint64_t reduce_scatter_pat_nrounds_of(const struct shape *shape)
{
    return shape->p.steps > 0 ? shape->p.steps * shape->nslabs : 1;
}

static uint64_t reduce_scatter_pat_work_of(const struct tt_coll *c, const struct shape *shape)
{
    return c->nranks > 2
               ? (shape->p.levels - shape->p.far_steps + 1ull) * shape->p.aggregated * shape->slab
               : 0;
}

/* The depth of the trees in latencies; further steps overlap. */
static struct tt_cost reduce_scatter_pat_cost_of(const struct tt_coll *c, const struct shape *shape)
{
    const double bytes = (double)c->bytes * (c->nranks - 1),
                 beyond = (double)reduce_scatter_pat_nrounds_of(shape) - shape->p.levels;

    return (struct tt_cost){
        .messages = tt_cost_burst(2) * (shape->p.levels + (beyond > 0 ? 0.4 * beyond : 0)),
        .bytes = bytes,
        .reduced = bytes,
        .copied = shape->p.aggregated > 1 ? bytes : 0,
    };
}

static bool reduce_scatter_pat_fits(const struct tt_coll *c)
{
    return c->bytes <= tt_work_max(c) >> tt_log2_up(c->nranks);
}

static uint64_t reduce_scatter_pat_nrounds(const struct tt_coll *c)
{
    const struct shape shape = reduce_scatter_pat_all_of(c);

    return reduce_scatter_pat_nrounds_of(&shape);
}

static void reduce_scatter_pat_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const struct shape shape = reduce_scatter_pat_all_of(c);

    reduce_scatter_pat_round_of(s, c, k, &shape);
}

static uint64_t reduce_scatter_pat_work_bytes(const struct tt_coll *c)
{
    const struct shape shape = reduce_scatter_pat_all_of(c);

    return reduce_scatter_pat_work_of(c, &shape);
}

static struct tt_cost reduce_scatter_pat_cost(const struct tt_coll *c)
{
    const struct shape shape = reduce_scatter_pat_all_of(c);

    return reduce_scatter_pat_cost_of(c, &shape);
}

static uint64_t reduce_scatter_pat_nrounds_bounded(const struct tt_coll *c)
{
    const struct shape shape = reduce_scatter_pat_bounded_of(c);

    return reduce_scatter_pat_nrounds_of(&shape);
}

static bool fits_bounded(const struct tt_coll *c)
{
    return reduce_scatter_pat_nrounds_bounded(c) <= STEPS_MAX;
}

static void reduce_scatter_pat_round_bounded(struct tt_sched *s, const struct tt_coll *c,
                                             uint64_t k)
{
    const struct shape shape = reduce_scatter_pat_bounded_of(c);

    reduce_scatter_pat_round_of(s, c, k, &shape);
}

static uint64_t work_bounded(const struct tt_coll *c)
{
    const struct shape shape = reduce_scatter_pat_bounded_of(c);

    return reduce_scatter_pat_work_of(c, &shape);
}

static struct tt_cost reduce_scatter_pat_cost_bounded(const struct tt_coll *c)
{
    const struct shape shape = reduce_scatter_pat_bounded_of(c);

    return reduce_scatter_pat_cost_of(c, &shape);
}

const struct tt_algo tt_algo_reduce_scatter_pat = {
    .name = "reduce_scatter_pat",
    .summary = "short rows, if distant ranks are slow to reach; any number of ranks",
    .needs = "all rows together, ranks rounded up to a power of two, within " TT_WORK_MAX_TEXT,
    .quantizes = TT_QUANTIZED,
    .kind = TT_REDUCE_SCATTER,
    .fits = reduce_scatter_pat_fits,
    .fits_named = tt_fits_always,
    .nrounds = reduce_scatter_pat_nrounds,
    .round = reduce_scatter_pat_round,
    .work_bytes = reduce_scatter_pat_work_bytes,
    .npeers = tt_npeers_log,
    .cost = reduce_scatter_pat_cost,
};

const struct tt_algo tt_algo_reduce_scatter_pat_bounded = {
    .name = "reduce_scatter_pat_bounded",
    .summary = "rows of any size, if distant ranks are slow to reach; any number of ranks",
    .needs = "fewer than 2^29 steps of a slab of all rows",
    .quantizes = TT_QUANTIZED,
    .kind = TT_REDUCE_SCATTER,
    .fits = fits_bounded,
    .nrounds = reduce_scatter_pat_nrounds_bounded,
    .round = reduce_scatter_pat_round_bounded,
    .work_bytes = work_bounded,
    .npeers = tt_npeers_log,
    .cost = reduce_scatter_pat_cost_bounded,
};
