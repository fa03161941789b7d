#include "comm/planfile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "algo/algos.h"
#include "base/prng.h"
#include "base/status.h"
#include "base/jsonread.h"
#include "comm/placement.h"
#include "comm/plugin_trampolines.h"
#include "sched/rounds.h"
#include "sched/verify.h"

/* ---- as an algorithm ------------------------------------------------------------------------- */

/* Returns the ratio of the call's size to the plan's. */
static uint64_t times(const struct tt_plan_file *p, const struct tt_coll *c)
{
    return p->bytes ? c->bytes / p->bytes : 1;
}

static uint64_t longest_work(const struct tt_plan_file *p)
{
    uint64_t longest = 0;

    for (uint32_t r = 0; r < p->nranks; r++)
        longest = p->work_bytes[r] > longest ? p->work_bytes[r] : longest;
    return longest;
}

static bool plan_fits(const void *self, const struct tt_coll *c)
{
    const struct tt_plan_file *p = self;
    const uint64_t m = times(p, c), work = longest_work(p);

    if (c->nranks != p->nranks || (tt_plan_has_root(p->kind) && c->root != p->root))
        return false;
    if (p->bytes && c->bytes % p->bytes != 0)
        return false;
    return m * p->elem_bytes % c->elem_bytes == 0 &&
           (work == 0 || m <= TT_PLAN_WORK_BYTES_MAX / work);
}

static uint64_t plan_nrounds(const void *self, const struct tt_coll *c)
{
    const struct tt_plan_file *p = self;

    (void)c;
    return p->nrounds;
}

static struct tt_ref ref_scaled(struct tt_ref ref, uint64_t m)
{
    if (ref.buf != TT_BUF_PIPE)
        ref.offset *= m;
    ref.block *= m;
    ref.stride *= m;
    return ref;
}

static bool ref_is_same(const struct tt_ref *a, const struct tt_ref *b)
{
    return a->buf == b->buf && a->offset == b->offset && a->block == b->block &&
           a->stride == b->stride;
}

/* Emits a copy, unless its source and destination are equal (in place). */
static void plan_emit_copy(struct tt_sched *s, const struct tt_coll *c, struct tt_ref to,
                           struct tt_ref from, uint64_t bytes)
{
    const struct tt_ref out = tt_coll_canonical(c, to), a = tt_coll_canonical(c, from);

    if (!ref_is_same(&out, &a))
        tt_sched_copy(s, to, from, bytes);
}

static void plan_round(const void *self, struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const struct tt_plan_file *p = self;
    const uint64_t *first = &p->first[c->rank * (p->nrounds + 1)], m = times(p, c);

    for (uint64_t i = first[k]; i < first[k + 1]; i++) {
        const struct tt_step *t = &p->step[i];
        const struct tt_ref out = ref_scaled(t->out, m), a = ref_scaled(t->a, m),
                            b = ref_scaled(t->b, m);

        if (t->opcode == TT_PUT)
            tt_sched_put(s, t->peer, a, out, t->bytes * m, t->tag);
        else if (t->opcode == TT_WAIT)
            tt_sched_wait(s, t->peer, out, t->bytes * m, t->tag);
        else if (t->opcode == TT_REDUCE_STEP)
            tt_sched_reduce(s, out, a, b, t->bytes * m, t->finish);
        else
            plan_emit_copy(s, c, out, a, t->bytes * m);
    }
}

static uint64_t plan_work_bytes(const void *self, const struct tt_coll *c)
{
    const struct tt_plan_file *p = self;

    return p->work_bytes[c->rank] * times(p, c);
}

static uint32_t plan_npeers(const void *self, const struct tt_coll *c)
{
    return ((const struct tt_plan_file *)self)->npeers[c->rank];
}

/* Infinite: such plans are used by name only, since their costs are unknown. */
static struct tt_cost plan_cost(const void *self, const struct tt_coll *c)
{
    (void)self;
    (void)c;
    return (struct tt_cost){ .messages = INFINITY };
}

static void free_plan(void *self) { tt_plan_file_free(self); }

static const struct tt_slot_ops ops = {
    .fits = plan_fits,
    .nrounds = plan_nrounds,
    .round = plan_round,
    .work_bytes = plan_work_bytes,
    .npeers = plan_npeers,
    .cost = plan_cost,
    .free = free_plan,
};

/* ---- verification ---------------------------------------------------------------------------- */

static tutti_status plan_prove(const struct tt_algo *algo, struct tt_coll *coll, uint32_t nranks,
                               enum tt_placement placement, const char *from)
{
    struct tt_program program;
    char why[1024] = "";
    tutti_status st;

    for (uint32_t r = 0; r < nranks; r++)
        coll[r].in_place = tt_placement_of(placement, r);
    st = tt_program_init(&program, algo, coll, nranks);
    if (st)
        return st;
    st = tt_verify(&program, why, sizeof why);
    tt_program_fini(&program);
    if (!st)
        st = tt_rounds_check(algo, coll, nranks, why, sizeof why);
    return st ? tt_fail(st, "plan %s is invalid: %s%s", from, tt_placement_text(placement), why)
              : TUTTI_OK;
}

static tutti_status prove_all(const struct tt_algo *algo, const struct tt_plan_file *p,
                              const char *from)
{
    struct tt_coll *coll = calloc(p->nranks, sizeof *coll);
    tutti_status st = TUTTI_OK;

    if (!coll)
        return tt_fail(TUTTI_ERR_NOMEM, "plan %s: out of memory for its verification", from);
    for (uint32_t r = 0; r < p->nranks; r++)
        coll[r] = (struct tt_coll){
            .kind = p->kind,
            .rank = r,
            .nranks = p->nranks,
            .root = p->root,
            .elem_bytes = p->elem_bytes,
            .bytes = p->bytes,
        };
    for (int i = TT_OUT_OF_PLACE; i < (p->kind == TT_BARRIER ? TT_IN_PLACE : TT_PLACEMENTS) && !st;
         i++)
        st = plan_prove(algo, coll, p->nranks, (enum tt_placement)i, from);
    free(coll);
    return st;
}

tutti_status tt_plan_file_add(struct tt_plan_file *p, const char *from)
{
    const uint32_t before = tt_trampolines_used();
    const size_t nalgos = tt_nalgos;
    const struct tt_algo *algo;
    struct tt_algo like = {
        .name = p->name,
        .summary = "a plan from a file; by name only",
        .needs = p->needs,
        .kind = p->kind,
    };
    tutti_status st;
    char root[32];

    root[0] = 0;
    if (tt_plan_has_root(p->kind))
        snprintf(root, sizeof root, ", root %u", p->root);
    snprintf(p->needs, sizeof p->needs,
             "%u rank%s%s, and a multiple of %llu bytes that is a whole number of elements",
             p->nranks, TT_PLURAL(p->nranks), root, (unsigned long long)p->bytes);
    algo = tt_slot_take(&like, &ops, p);
    if (!algo)
        return tt_fail(TUTTI_ERR_NOMEM, "plan %s: too many external algorithms: the maximum is %d",
                       from, TT_SLOTS);
    st = tt_algo_add(algo, from);       /* first, since it is faster than a proof */
    if (!st) {
        st = prove_all(algo, p, from);
        if (st)
            tt_algo_remove_from(nalgos);
    }
    if (st)
        tt_trampolines_drop(before);
    return st;
}

tutti_status tt_plan_file_load(const char *path, uint64_t *hash)
{
    struct tt_plan_file *p = NULL;
    char *text = NULL;
    size_t bytes = 0;
    tutti_status st = tt_json_load(&text, &bytes, "plan", path, TT_PLAN_FILE_BYTES_MAX);

    if (!st)
        st = tt_plan_file_read(&p, text, bytes, path);
    if (!st)
        st = tt_plan_file_add(p, path);
    if (!st)
        *hash = tt_hash_bytes(text, bytes, *hash);
    else if (p)
        tt_plan_file_free(p);
    free(text);
    return st;
}
