#include "comm/plugin.h"

#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "algo/algos.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "comm/placement.h"
#include "comm/plugin_trampolines.h"
#include "sched/print.h"
#include "sched/rounds.h"
#include "sched/verify.h"

#define NAME_BYTES_MAX 60u
#define NEEDS_BYTES 256u                /* longer texts are truncated */
#define ALGORITHMS_MAX TT_SLOTS         /* per shared object */
#define PROVEN_RANKS_MAX 64u
#define PROVEN_STEPS_MAX (1u << 20)     /* in all ranks' schedules together */
#define ROUNDS_MAX (1u << 24)
#define PROOFS_KEPT 64u
#define SIZE_FIRST sizeof(tutti_algorithm)      /* size in version 1 */

_Static_assert((int)TUTTI_COLL_BARRIER == (int)TT_BARRIER &&
                   (int)TUTTI_COLL_ALLTOALLV == (int)TT_ALLTOALLV &&
                   (int)TUTTI_COLL_SCATTERV == (int)TT_SCATTERV &&
                   (int)TUTTI_COLL_REDUCE_SCATTERV == (int)TT_REDUCE_SCATTERV,
               "kinds are numbered alike");
_Static_assert((int)TUTTI_BUFFER_THERE == (int)TT_BUF_THERE &&
                   (int)TUTTI_BUFFER_PIPE == (int)TT_BUF_PIPE,
               "buffers are numbered alike");
_Static_assert(TUTTI_ROUND_STEPS == TT_ROUND_STEPS_MAX, "the public bound equals the internal one");

static tutti_algorithm_call public_call(const struct tt_coll *c)
{
    return (tutti_algorithm_call){
        .size = sizeof(tutti_algorithm_call),
        .collective = c->kind,
        .rank = c->rank,
        .nranks = c->nranks,
        .root = c->root,
        .elem_bytes = c->elem_bytes,
        .in_place = c->in_place,
        .bytes = c->bytes,
        .send_bytes = c->send_bytes,
        .send_displs = c->send_displs,
        .recv_bytes = c->recv_bytes,
        .recv_displs = c->recv_displs,
    };
}

/* ---- steps of a plug-in ---------------------------------------------------------------------- */

/* A round that a plug-in is emitting. Steps that violate a bound are omitted, and the first
 * violation is recorded. */
struct emitter {
    tutti_schedule schedule;    /* first: the plug-in's view */
    struct tt_sched *to;
    const struct tt_coll *c;
    uint64_t work_bytes;
    const char *flaw;
    uint32_t step;              /* number of emitted steps */
};

static struct tt_ref ref_of(tutti_ref ref)
{
    return (struct tt_ref){
        .offset = ref.offset,
        .block = ref.block,
        .stride = ref.stride,
        .buf = ref.buffer <= TT_BUF_THERE ? (uint8_t)ref.buffer : 0xff,
    };
}

/* Returns the size of a buffer in bytes; pipes are unlimited. */
static uint64_t buffer_size(const struct emitter *e, const struct tt_ref *ref)
{
    switch (ref->buf) {
    case TT_BUF_SRC: return tt_coll_src_bytes(e->c);
    case TT_BUF_DST: return tt_coll_dst_bytes(e->c);
    case TT_BUF_WORK: return e->work_bytes;
    default: return UINT64_MAX;
    }
}

static const char *ref_flaw(const struct emitter *e, const struct tt_ref *ref, uint64_t bytes,
                            bool written)
{
    const uint64_t most = 1ull << 48;
    uint64_t begin, end;

    if (ref->buf > TT_BUF_PIPE)
        return "invalid buffer of this rank";
    if (written && ref->buf == TT_BUF_SRC)
        return "writes SRC";
    if (bytes > most || ref->block > most || ref->stride > most)
        return "a value is out of range";
    if (ref->buf == TT_BUF_PIPE)
        return ref->block ? "a pipe cannot be strided" : NULL;
    if (ref->offset > most ||
        (ref->block && bytes && ref->stride && (bytes - 1) / ref->block > most / ref->stride))
        return "a value is out of range";
    if (ref->block && ref->stride < ref->block && bytes > ref->block)
        return "overlapping blocks";
    tt_ref_extent(ref, bytes, &begin, &end);
    return bytes && end > buffer_size(e, ref) ? "out of bounds" : NULL;
}

/* Returns whether another step with `peer` (UINT32_MAX: none) is permitted; otherwise records
 * `flaw`. */
static bool accepts_step(struct emitter *e, uint32_t peer, const char *flaw)
{
    if (!flaw && e->to->n == e->to->cap)
        flaw = "too many steps in a round";
    if (!flaw && peer != UINT32_MAX && (peer >= e->c->nranks || peer == e->c->rank))
        flaw = "invalid peer";
    if (flaw && !e->flaw) {
        e->flaw = flaw;
        e->step = e->to->n;
    }
    return !e->flaw;
}

static void emit_put(tutti_schedule *s, uint32_t peer, tutti_ref from, tutti_ref to, uint64_t bytes,
                     uint32_t tag)
{
    struct emitter *e = (struct emitter *)s;
    const struct tt_ref a = ref_of(from), out = ref_of(to);
    const char *flaw = ref_flaw(e, &a, bytes, false);

    if (!flaw && out.buf > TT_BUF_THERE)
        flaw = "invalid buffer of the peer";
    if (!flaw && out.buf == TT_BUF_SRC)
        flaw = "writes the peer's SRC";
    if (accepts_step(e, peer, flaw))
        tt_sched_put(e->to, peer, a, out, bytes, tag);
}

static void emit_wait(tutti_schedule *s, uint32_t peer, tutti_ref to, uint64_t bytes, uint32_t tag)
{
    struct emitter *e = (struct emitter *)s;
    const struct tt_ref out = ref_of(to);

    if (accepts_step(e, peer, ref_flaw(e, &out, bytes, true)))
        tt_sched_wait(e->to, peer, out, bytes, tag);
}

static void emit_reduce(tutti_schedule *s, tutti_ref out, tutti_ref a, tutti_ref b, uint64_t bytes,
                        int finish)
{
    struct emitter *e = (struct emitter *)s;
    const struct tt_ref to = ref_of(out), left = ref_of(a), right = ref_of(b);
    const char *flaw = ref_flaw(e, &to, bytes, true);

    if (!flaw)
        flaw = ref_flaw(e, &left, bytes, false);
    if (!flaw)
        flaw = ref_flaw(e, &right, bytes, false);
    if (accepts_step(e, UINT32_MAX, flaw))
        tt_sched_reduce(e->to, to, left, right, bytes, finish != 0);
}

static void plugin_emit_copy(tutti_schedule *s, tutti_ref to, tutti_ref from, uint64_t bytes)
{
    struct emitter *e = (struct emitter *)s;
    const struct tt_ref out = ref_of(to), a = ref_of(from);
    const char *flaw = ref_flaw(e, &out, bytes, true);

    if (!flaw)
        flaw = ref_flaw(e, &a, bytes, false);
    if (accepts_step(e, UINT32_MAX, flaw))
        tt_sched_copy(e->to, out, a, bytes);
}

static uint64_t plugin_work_bytes(const void *self, const struct tt_coll *c)
{
    const tutti_algorithm *a = self;
    const tutti_algorithm_call call = public_call(c);

    return a->work_bytes ? a->work_bytes(&call) : 0;
}

/* Emits round k into s. Returns NULL, or the error in step *step. */
static const char *emit_round(const tutti_algorithm *a, struct tt_sched *s, const struct tt_coll *c,
                              uint64_t k, uint32_t *step)
{
    const tutti_algorithm_call call = public_call(c);
    struct emitter e = {
        .schedule = { .size = sizeof e.schedule,
                      .put = emit_put,
                      .wait = emit_wait,
                      .reduce = emit_reduce,
                      .copy = plugin_emit_copy },
        .to = s,
        .c = c,
        .work_bytes = plugin_work_bytes(a, c),
    };

    a->round(&e.schedule, &call, k);
    *step = e.step;
    return e.flaw;
}

/* ---- as a tt_algo ---------------------------------------------------------------------------- */

static bool plugin_fits(const void *self, const struct tt_coll *c)
{
    const tutti_algorithm *a = self;
    const tutti_algorithm_call call = public_call(c);

    if (c->kind == TT_ALLTOALLV && c->in_place)
        /* not in version 1; a proof would not detect rows that are overwritten before they are
         * read */
        return false;
    return !a->fits || a->fits(&call) != 0;
}

static uint64_t plugin_nrounds(const void *self, const struct tt_coll *c)
{
    const tutti_algorithm *a = self;
    const tutti_algorithm_call call = public_call(c);

    return a->nrounds(&call);
}

/* Called only after tt_plugin_check: a deterministic plug-in has no errors then. */
static void emit_checked(const void *self, struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    uint32_t step;

    tt_assert(emit_round(self, s, c, k, &step) == NULL);
}

static uint32_t plugin_npeers(const void *self, const struct tt_coll *c)
{
    const tutti_algorithm *a = self;
    const tutti_algorithm_call call = public_call(c);
    const uint32_t all = c->nranks - 1, n = a->npeers ? a->npeers(&call) : all;

    return n < all ? n : all;
}

static struct tt_cost plugin_cost(const void *self, const struct tt_coll *c)
{
    const tutti_algorithm *a = self;
    const tutti_algorithm_call call = public_call(c);
    tutti_algorithm_cost out = { .messages = INFINITY };

    if (a->cost)
        a->cost(&call, &out);
    return (struct tt_cost){
        .messages = out.messages, .bytes = out.bytes, .reduced = out.reduced, .copied = out.copied
    };
}

static void plugin_keep(void *self) { (void)self; }    /* owned by the shared object */

static const struct tt_slot_ops ops = {
    .fits = plugin_fits,
    .nrounds = plugin_nrounds,
    .round = emit_checked,
    .work_bytes = plugin_work_bytes,
    .npeers = plugin_npeers,
    .cost = plugin_cost,
    .free = plugin_keep,
};

/* ---- checks ---------------------------------------------------------------------------------- */

/* Emits one rank's schedule within the bounds, and adds its number of steps to *nsteps. */
static const char *try_rank(const tutti_algorithm *a, const struct tt_coll *c, uint64_t *nsteps,
                            uint64_t *round, uint32_t *step)
{
    const uint64_t n = plugin_nrounds(a, c);

    *round = 0;
    *step = 0;
    if (n > ROUNDS_MAX)
        return "more than 2^24 rounds";
    if (plugin_work_bytes(a, c) > TUTTI_ALGORITHM_WORK)
        return "more than 1 MiB of WORK";
    for (*round = 0; *round < n; (*round)++) {
        struct tt_step steps[TT_ROUND_STEPS_MAX];
        struct tt_sched s = { .steps = steps, .cap = TT_ROUND_STEPS_MAX };
        const char *flaw = emit_round(a, &s, c, *round, step);

        if (flaw)
            return flaw;
        *nsteps += s.n;
    }
    return NULL;
}

static tutti_status plugin_refuse(const struct tt_algo *algo, const struct tt_coll *c,
                                  const char *why)
{
    return tt_fail(TUTTI_ERR_INVALID,
                   "algorithm \"%s\" is invalid for %s of %llu bytes on %u rank%s: %s", algo->name,
                   tt_coll_name(c->kind), (unsigned long long)c->bytes, c->nranks,
                   TT_PLURAL(c->nranks), why);
}

/* Verifies the schedules of all ranks with nsteps steps; skipped above PROVEN_STEPS_MAX. */
static tutti_status plugin_prove(const struct tt_algo *algo, struct tt_coll *coll,
                                 enum tt_placement placement, uint64_t nsteps)
{
    struct tt_program p;
    char why[1024] = "", said[1100];
    tutti_status st;

    if (nsteps > PROVEN_STEPS_MAX) {
        tt_log(TT_LOG_INFO,
               "algorithm \"%s\" runs unverified for %s of %llu bytes on %u ranks: its programs "
               "have %llu steps, the verifier's maximum is %u",
               algo->name, tt_coll_name(coll->kind), (unsigned long long)coll->bytes, coll->nranks,
               (unsigned long long)nsteps, PROVEN_STEPS_MAX);
        return TUTTI_OK;
    }
    st = tt_program_init(&p, algo, coll, coll->nranks);
    if (st)
        return st;
    st = tt_verify(&p, why, sizeof why);
    tt_program_fini(&p);
    if (!st)
        st = tt_rounds_check(algo, coll, coll->nranks, why, sizeof why);
    snprintf(said, sizeof said, "%s%s", tt_placement_text(placement), why);
    return st ? plugin_refuse(algo, &coll[0], said) : TUTTI_OK;
}

/* Emits the schedules of ranks [first, end), and verifies them if these are all ranks. coll has
 * room for them. */
static tutti_status check_placement(const struct tt_algo *algo, const struct tt_coll *c,
                                    enum tt_placement placement, bool all, struct tt_coll *coll)
{
    const tutti_algorithm *a = tt_slot_self(algo, &ops);
    const uint32_t first = all ? 0 : c->rank, n = all ? c->nranks : 1;
    uint64_t nsteps = 0, round;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t step;
        const char *flaw;
        char why[256];

        coll[i] = *c;
        coll[i].rank = first + i;
        coll[i].in_place = tt_placement_of(placement, first + i);
        flaw = try_rank(a, &coll[i], &nsteps, &round, &step);
        if (flaw) {
            snprintf(why, sizeof why, "%srank %u, round %llu, step %u: %s",
                     tt_placement_text(placement), first + i, (unsigned long long)round, step,
                     flaw);
            return plugin_refuse(algo, c, why);
        }
    }
    return all ? plugin_prove(algo, coll, placement, nsteps) : TUTTI_OK;
}

/* Returns a hash of all inputs of a proof. */
static uint64_t proof_hash(const struct tt_algo *algo, const struct tt_coll *c)
{
    const uint64_t *const arrays[] = { c->send_bytes, c->send_displs, c->recv_bytes,
                                       c->recv_displs };
    const uint64_t call[] = {
        (uintptr_t)algo, c->bytes, c->elem_bytes, c->nranks, c->root, c->kind
    };
    uint64_t h = tt_hash_bytes(call, sizeof call, 1);

    for (int i = 0; i < 4; i++)
        if (arrays[i])
            h = tt_hash_bytes(arrays[i], c->nranks * sizeof *arrays[i], h);
    return h | 1;
}

bool tt_plugin_checks_all(const struct tt_coll *c)
{
    return c->nranks <= PROVEN_RANKS_MAX && c->kind != TT_ALLTOALLV;
}

tutti_status tt_plugin_check(const struct tt_algo *algo, const struct tt_coll *c)
{
    static _Atomic uint64_t proven[PROOFS_KEPT];    /* v calls are planned each time */
    const tutti_algorithm *a = tt_slot_self(algo, &ops);
    const bool all = a && tt_plugin_checks_all(c);
    struct tt_coll coll[PROVEN_RANKS_MAX];
    const uint64_t hash = all ? proof_hash(algo, c) : 0;
    tutti_status st = TUTTI_OK;

    if (!a || (all && proven[hash % PROOFS_KEPT] == hash))
        return TUTTI_OK;
    if (!all)
        return check_placement(algo, c, c->in_place ? TT_IN_PLACE : TT_OUT_OF_PLACE, false, coll);
    for (int i = TT_OUT_OF_PLACE; i < (c->kind == TT_BARRIER ? TT_IN_PLACE : TT_PLACEMENTS) && !st;
         i++)
        st = check_placement(algo, c, (enum tt_placement)i, true, coll);
    if (!st)
        proven[hash % PROOFS_KEPT] = hash;
    return st;
}

/* ---- loading --------------------------------------------------------------------------------- */

static bool is_identifier(const char *name)
{
    return name && *name && strlen(name) <= NAME_BYTES_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
               strlen(name);
}

/* Returns the requirements of the next slot's algorithm: its own text, and those checked by
 * `fits`. */
static const char *needs_text(const tutti_algorithm *a)
{
    static char text[TT_SLOTS][NEEDS_BYTES];
    char *needs = text[tt_trampolines_used() % TT_SLOTS];

    if (a->collective != TUTTI_COLL_ALLTOALLV)
        return a->needs;
    snprintf(needs, NEEDS_BYTES, "%s%ssrc and dst in separate memory", a->needs ? a->needs : "",
             a->needs ? ", and " : "");
    return needs;
}

static tutti_status plugin_add(const char *path, size_t index, const tutti_algorithm *a,
                               uint64_t *hash)
{
    const struct tt_algo *algo;

    if (a->size < SIZE_FIRST || a->version != TUTTI_ALGORITHM_VERSION)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: algorithm %zu has version %u with %zu bytes: this library supports "
                       "version %u with %zu",
                       path, index,
                       a->size >= offsetof(tutti_algorithm, collective) ? a->version : 0, a->size,
                       TUTTI_ALGORITHM_VERSION, SIZE_FIRST);
    if (!is_identifier(a->name))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: invalid name of algorithm %zu: must be 1 to %u letters, digits and _",
                       path, index, NAME_BYTES_MAX);
    if (a->collective >= TUTTI_COLL_COUNT)
        return tt_fail(TUTTI_ERR_INVALID, "%s: algorithm \"%s\" has unknown collective %u", path,
                       a->name, a->collective);
    if (!a->nrounds || !a->round || !a->summary)
        return tt_fail(TUTTI_ERR_INVALID, "%s: algorithm \"%s\" has no %s", path, a->name,
                       !a->nrounds ? "nrounds"
                       : !a->round ? "round"
                                   : "summary");
    algo = tt_slot_take(
        &(struct tt_algo){
            .name = a->name,
            .summary = a->summary,
            .needs = needs_text(a),
            .kind = (enum tt_coll_kind)a->collective,
            /* a rank cannot determine whether others call in place, which the algorithm does not
             * support */
            .by_name = a->collective == TUTTI_COLL_ALLTOALLV,
            .direct_unsafe = a->direct_unsafe != 0,
        },
        &ops, (void *)(uintptr_t)a);
    if (!algo)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: too many external algorithms: the maximum is %d", path,
                       TT_SLOTS);
    *hash = tt_hash_bytes(a->name, strlen(a->name), tt_mix64(*hash ^ a->revision));
    return tt_algo_add(algo, path);
}

tutti_status tt_plugin_load(const char *path, uint64_t *hash)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    tutti_algorithm_at_fn *at;
    tutti_status st = TUTTI_OK;
    void *symbol;
    size_t i = 0;

    if (!object)
        return tt_fail(TUTTI_ERR_INVALID, "TUTTI_ALGORITHMS: cannot load %s: %s", path, dlerror());
    symbol = dlsym(object, "tutti_algorithm_at");
    if (!symbol)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s is not a plug-in: it does not define tutti_algorithm_at "
                       "(tutti/algorithm.h)",
                       path);
    memcpy(&at, &symbol, sizeof at);
    for (const tutti_algorithm *a; !st && i < ALGORITHMS_MAX && (a = at(i)) != NULL; i++)
        st = plugin_add(path, i, a, hash);
    if (!st && i == 0)
        return tt_fail(TUTTI_ERR_INVALID, "%s has no algorithms: tutti_algorithm_at(0) is NULL",
                       path);
    return st;
}
