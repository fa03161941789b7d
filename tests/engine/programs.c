#include "programs.h"

#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "sched/order.h"
#include "sched/segments.h"

#define CHAINS_MAX 6
#define VISIT_STEPS 4
#define MEMORY_SEGMENTS 60

/* The part of a chain at one rank, in a round. */
struct visit {
    struct tt_step step[VISIT_STEPS];
    struct tt_sched s;
    uint32_t taken;
};

struct rank_round {
    struct visit visit[CHAINS_MAX];
    uint32_t nvisits, nsteps;
};

struct drawing {
    struct program *out;
    struct tt_prng *p;
    struct rank_round at[ADVERSARY_RANKS_MAX];
    uint64_t segment_bytes, less; /* less: bytes missing from the last segments of some messages */
    uint64_t free;                /* start of memory that no step uses */
    uint32_t depth, pipe, tag;
    uint32_t memory_of_8, used_of_8; /* probability of memory instead of a pipe, and of memory
                                        that other steps use */
    uint32_t strided_of_8;           /* probability of strided memory */
    uint32_t shuffled_of_8;          /* probability that the messages of a pair are in random
                                        order */
    uint64_t salt;
};

static bool drawn(struct drawing *d, uint32_t one_in)
{
    return tt_prng_below(d->p, one_in) == 0;
}

static bool drawn_of_8(struct drawing *d, uint32_t n)
{
    return tt_prng_below(d->p, 8) < n;
}

/* ---- the algorithm that emits a program ---- */

static const struct program *current;

static uint64_t rounds_of(const struct tt_coll *c)
{
    (void)c;
    return current->nrounds;
}

static void round_k(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    tt_assert(s->cap - s->n >= current->nsteps[c->rank][k]);
    memcpy(&s->steps[s->n], current->step[c->rank][k],
           current->nsteps[c->rank][k] * sizeof s->steps[0]);
    s->n += current->nsteps[c->rank][k];
}

static uint64_t work_bytes(const struct tt_coll *c)
{
    (void)c;
    return current->bytes;
}

static uint32_t npeers(const struct tt_coll *c)
{
    return c->nranks - 1;
}

const struct tt_algo *program_algo(const struct program *program)
{
    current = program;
    return &program->algo;
}

static void begin(struct program *out, uint32_t nranks)
{
    memset(out, 0, sizeof *out);
    out->nranks = nranks;
    out->algo = (struct tt_algo){
        .name = "allreduce_program",
        .kind = TT_ALLREDUCE,
        .nrounds = rounds_of,
        .round = round_k,
        .work_bytes = work_bytes,
        .npeers = npeers,
    };
}

static void end(struct program *out, uint64_t bytes)
{
    out->bytes = bytes;
    for (uint32_t r = 0; r < out->nranks; r++)
        out->coll[r] = (struct tt_coll){
            .kind = TT_ALLREDUCE,
            .rank = r,
            .nranks = out->nranks,
            .elem_bytes = 8,
            .bytes = bytes,
        };
}

/* ---- chains ---- */

/* Draws memory to write: fresh, or used by other steps; contiguous, or in pieces that need not end
 * with segments. */
static struct tt_ref draw_memory(struct drawing *d, uint64_t bytes)
{
    struct tt_ref ref = drawn(d, 4) ? tt_work(d->free) : tt_dst(d->free);
    uint64_t begin, end;

    if (d->free > 0 &&
        (drawn_of_8(d, d->used_of_8) || d->free > MEMORY_SEGMENTS * d->segment_bytes))
        ref.offset = tt_prng_below(d->p, d->free / d->segment_bytes + 1) * d->segment_bytes;
    if (drawn_of_8(d, d->strided_of_8)) {
        ref.block = 8 * (1 + tt_prng_below(d->p, bytes / 8));
        ref.stride = ref.block + 8 * tt_prng_below(d->p, d->segment_bytes);
    }
    tt_ref_extent(&ref, bytes, &begin, &end);
    if (end > d->free)
        d->free = (end + d->segment_bytes - 1) / d->segment_bytes * d->segment_bytes;
    return ref;
}

/* Draws what a rank does with received data. Returns its location afterwards. */
static struct tt_ref draw_middle(struct drawing *d, struct tt_sched *s, struct tt_ref at,
                                 uint64_t bytes, bool last)
{
    struct tt_ref to;

    if (at.buf != TT_BUF_PIPE && drawn(d, 2))
        return at; /* data in memory is forwarded from there */
    if (at.buf == TT_BUF_PIPE && !last && drawn(d, 4))
        return at;
    to = last || drawn_of_8(d, d->memory_of_8) ? draw_memory(d, bytes) : tt_pipe(d->pipe++);
    if (drawn(d, 3))
        tt_sched_copy(s, to, at, bytes);
    else
        tt_sched_reduce(s, to, at, drawn_of_8(d, d->used_of_8) ? draw_memory(d, bytes) : tt_src(0),
                        bytes, false);
    return to;
}

/* Draws an order of ranks; a chain passes through the first `hops` + 1. */
static void draw_path(struct drawing *d, uint32_t path[ADVERSARY_RANKS_MAX])
{
    const uint32_t n = d->out->nranks, first = (uint32_t)tt_prng_below(d->p, n);
    const bool ring = drawn(d, 2), left = drawn(d, 2);

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t j = (uint32_t)tt_prng_below(d->p, i + 1);

        path[i] = ring ? (left ? first + n - i : first + i) % n : path[j];
        if (!ring)
            path[j] = i;
    }
}

static bool has_room(const struct drawing *d, const uint32_t *path, uint32_t hops)
{
    for (uint32_t i = 0; i <= hops; i++)
        if (d->at[path[i]].nvisits == CHAINS_MAX ||
            d->at[path[i]].nsteps + VISIT_STEPS > TT_ROUND_STEPS_MAX)
            return false;
    return true;
}

static void draw_chain(struct drawing *d)
{
    const uint32_t n = d->out->nranks, hops = 1 + (uint32_t)tt_prng_below(d->p, n - 1),
                   tag = d->tag++;
    const uint64_t segments = 1 + tt_prng_below(d->p, 3 * d->depth);
    const uint64_t bytes = segments * d->segment_bytes - (drawn(d, 2) ? 0 : d->less);
    uint32_t path[ADVERSARY_RANKS_MAX];
    struct tt_ref at = tt_src(0), to = at;

    draw_path(d, path);
    if (!has_room(d, path, hops))
        return;
    if (drawn_of_8(d, d->used_of_8))
        at = draw_memory(d, bytes);
    for (uint32_t i = 0; i <= hops; i++) {
        struct rank_round *rr = &d->at[path[i]];
        struct visit *v = &rr->visit[rr->nvisits++];

        *v = (struct visit){ .s = { .cap = VISIT_STEPS } };
        v->s.steps = v->step;
        if (i > 0) {
            tt_sched_wait(&v->s, path[i - 1], to, bytes, tag);
            if (i < hops || to.buf == TT_BUF_PIPE)
                at = draw_middle(d, &v->s, to, bytes, i == hops);
        }
        if (i < hops) {
            to = drawn_of_8(d, d->memory_of_8) ? draw_memory(d, bytes) : tt_pipe(d->pipe++);
            tt_sched_put(&v->s, path[i + 1], at, to, bytes, tag);
        }
        rr->nsteps += v->s.n;
    }
    if (d->free < bytes)
        d->free = bytes;
}

/* The order of the messages of a pair: that of their chains, or random for some pairs. */
static uint64_t place_of(const struct drawing *d, uint32_t rank, const struct tt_step *s)
{
    const uint64_t pair = s->opcode == TT_PUT ? rank * ADVERSARY_RANKS_MAX + s->peer
                                              : s->peer * ADVERSARY_RANKS_MAX + rank;
    const uint64_t hash = tt_mix64(d->salt ^ pair);

    return hash % 8 < d->shuffled_of_8 ? tt_mix64(hash ^ s->tag) : s->tag;
}

/* Returns whether no other visit must send or wait before this step. */
static bool has_turn(const struct drawing *d, uint32_t rank, const struct tt_step *s)
{
    const struct rank_round *rr = &d->at[rank];

    for (uint32_t i = 0; i < rr->nvisits && (s->opcode == TT_PUT || s->opcode == TT_WAIT); i++)
        for (uint32_t j = rr->visit[i].taken; j < rr->visit[i].s.n; j++) {
            const struct tt_step *o = &rr->visit[i].step[j];

            if (o->opcode == s->opcode && o->peer == s->peer &&
                place_of(d, rank, o) < place_of(d, rank, s))
                return false;
        }
    return true;
}

/* Emits the visits in sequence, where possible, or with their steps interleaved. */
static void emit(struct drawing *d, uint32_t rank, uint64_t k, bool mixed)
{
    struct rank_round *rr = &d->at[rank];
    uint32_t *n = &d->out->nsteps[rank][k];

    for (uint32_t left = rr->nsteps, i = 0; left > 0;
         i = mixed ? (uint32_t)tt_prng_below(d->p, rr->nvisits) : i + 1) {
        struct visit *v = &rr->visit[i % rr->nvisits];

        while (v->taken < v->s.n && has_turn(d, rank, &v->step[v->taken])) {
            d->out->step[rank][k][(*n)++] = v->step[v->taken++];
            left--;
            if (mixed)
                break;
        }
    }
}

void program_draw(struct program *out, struct tt_prng *p, uint64_t segment_bytes, uint32_t depth)
{
    static struct drawing d;
    const bool mixed = tt_prng_below(p, 2);

    begin(out, 2 + (uint32_t)tt_prng_below(p, ADVERSARY_RANKS_MAX - 1));
    d.out = out;
    d.p = p;
    d.segment_bytes = segment_bytes;
    d.depth = depth;
    d.less = 8 * tt_prng_below(p, segment_bytes / 8);
    d.free = 0;
    d.memory_of_8 = (uint32_t)tt_prng_below(p, 5);
    d.shuffled_of_8 = tt_prng_below(p, 2) ? 0 : (uint32_t)tt_prng_below(p, 5);
    d.salt = tt_prng_u64(p);
    d.used_of_8 = (uint32_t)tt_prng_below(p, 4);
    d.strided_of_8 = tt_prng_below(p, 2) ? 0 : (uint32_t)tt_prng_below(p, 5);
    d.pipe = d.tag = 0;
    out->nrounds = 1 + tt_prng_below(p, 1u << tt_prng_below(p, 3));
    for (uint64_t k = 0; k < out->nrounds; k++) {
        for (uint32_t r = 0; r < out->nranks; r++)
            d.at[r].nvisits = d.at[r].nsteps = 0;
        for (uint64_t chains = 1 + tt_prng_below(p, 2 * out->nranks); chains > 0; chains--)
            draw_chain(&d);
        for (uint32_t r = 0; r < out->nranks; r++)
            emit(&d, r, k, mixed);
    }
    end(out, d.free);
}

void program_ring_of_pipes(struct program *out, uint32_t nranks, uint64_t bytes)
{
    begin(out, nranks);
    out->nrounds = 1;
    for (uint32_t r = 0; r < nranks; r++) {
        struct tt_sched s = { .steps = out->step[r][0], .cap = TT_ROUND_STEPS_MAX };

        for (uint32_t hop = 0; hop < nranks - 1; hop++) {
            const bool last = hop == nranks - 2;

            tt_sched_put(&s, (r + 1) % nranks, hop == 0 ? tt_src(0) : tt_pipe(2 * hop - 1),
                         tt_pipe(2 * hop), bytes, hop);
            tt_sched_wait(&s, (r + nranks - 1) % nranks, tt_pipe(2 * hop), bytes, hop);
            tt_sched_reduce(&s, last ? tt_dst(0) : tt_pipe(2 * hop + 1), tt_pipe(2 * hop),
                            tt_src(0), bytes, last);
        }
        out->nsteps[r][0] = s.n;
    }
    end(out, bytes);
}

void program_funnel(struct program *out, uint32_t nranks, uint32_t nrounds, uint64_t bytes)
{
    begin(out, nranks);
    out->nrounds = nrounds;
    for (uint32_t k = 0; k < nrounds; k++) {
        struct tt_sched s[ADVERSARY_RANKS_MAX];

        for (uint32_t r = 0; r < nranks; r++)
            s[r] = (struct tt_sched){ .steps = out->step[r][k], .cap = TT_ROUND_STEPS_MAX };
        for (uint32_t r = 2; r < nranks; r++) {
            const struct tt_ref in = tt_pipe(2 * (k * nranks + r)),
                                sum = tt_pipe(2 * (k * nranks + r) + 1);
            const struct tt_ref to = tt_dst((k * nranks + r) * bytes);

            tt_sched_put(&s[r], 0, tt_src(0), in, bytes, k);
            tt_sched_wait(&s[0], r, in, bytes, k);
            tt_sched_reduce(&s[0], sum, tt_src(0), in, bytes, false);
            tt_sched_put(&s[0], 1, sum, to, bytes, k * nranks + r);
            tt_sched_wait(&s[1], 0, to, bytes, k * nranks + r);
        }
        for (uint32_t r = 0; r < nranks; r++)
            out->nsteps[r][k] = s[r].n;
    }
    end(out, (uint64_t)nrounds * nranks * bytes);
}

/* The program of rank 0; no segment of memory is longer than `s` bytes. */
static void gather_and_pass_on(struct tt_sched *r, uint64_t s)
{
    tt_sched_copy(r, tt_work(0), tt_src(0), 4 * s);
    tt_sched_put(r, 2, tt_work(0), tt_pipe(1), 4 * s, 0);
    tt_sched_wait(r, 1, tt_work(10 * s), 2 * s, 1);
    tt_sched_wait(r, 1, tt_pipe(2), 9 * s, 2);
    tt_sched_copy(r, tt_work(0), tt_pipe(2), 9 * s);
    tt_sched_put(r, 1, tt_strided(tt_work(0), 2 * s, 10 * s), tt_pipe(4), 4 * s, 3);
}

void program_gap(struct program *out, uint64_t bytes)
{
    struct tt_sched s[3];

    begin(out, 3);
    out->nrounds = 1;
    for (uint32_t r = 0; r < 3; r++)
        s[r] = (struct tt_sched){ .steps = out->step[r][0], .cap = TT_ROUND_STEPS_MAX };
    gather_and_pass_on(&s[0], bytes);
    tt_sched_put(&s[1], 0, tt_src(0), tt_work(10 * bytes), 2 * bytes, 1);
    tt_sched_put(&s[1], 0, tt_src(0), tt_pipe(2), 9 * bytes, 2);
    tt_sched_wait(&s[1], 2, tt_pipe(3), 4 * bytes, 0);
    tt_sched_wait(&s[1], 0, tt_pipe(4), 4 * bytes, 3);
    tt_sched_reduce(&s[1], tt_work(0), tt_pipe(3), tt_pipe(4), 4 * bytes, false);
    tt_sched_wait(&s[2], 0, tt_pipe(1), 4 * bytes, 0);
    tt_sched_put(&s[2], 1, tt_pipe(1), tt_pipe(3), 4 * bytes, 0);
    for (uint32_t r = 0; r < 3; r++)
        out->nsteps[r][0] = s[r].n;
    end(out, 12 * bytes);
}

/* ---- verification ---- */

enum program_order program_order(const struct program *program)
{
    enum program_order order = ORDER_BAD;
    struct tt_program p;
    struct tt_links links;
    struct tt_pieces pieces;
    struct tt_order o;
    char why[512];
    const struct tt_finding f = { .program = &p, .text = why, .bytes = sizeof why };

    tt_assert(tt_program_init(&p, program_algo(program), program->coll, program->nranks) ==
              TUTTI_OK);
    if (tt_links_init(&links, &p, &f) != TUTTI_OK)
        goto fini_program;
    if (tt_pieces_init(&pieces, &p, &links, &f) != TUTTI_OK)
        goto fini_links;
    if (tt_order_init(&o, &pieces, &f) == TUTTI_OK) {
        order =
            tt_segments_check(&p, &links, &f) == TUTTI_OK ? ORDER_SOUND : ORDER_STUCK_IN_SEGMENTS;
        tt_order_fini(&o);
    }
    tt_pieces_fini(&pieces);
fini_links:
    tt_links_fini(&links);
fini_program:
    tt_program_fini(&p);
    return order;
}
