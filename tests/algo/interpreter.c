#include "interpreter.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "support/memory.h"
#include "support/unit.h"

#define BYTES_MAX (1u << 24)        /* maximum bytes of a step */

struct node {
    struct tt_step s;       /* references into memory */
    uint64_t round;
    bool ran, done;         /* done: conflicting later steps may run */
    uint8_t *carried;       /* put: bytes in flight; writer of a pipe: its contents */
    struct node *mate;      /* put: its wait; wait: its put; otherwise NULL */
};

struct rank {
    const struct tt_coll *c;
    uint8_t *mem[3];        /* SRC, DST, WORK */
    uint64_t bytes[3];
    struct node *node;
    uint32_t n, cap, oldest;        /* oldest: first step that is not done */
};

struct world {
    const struct case_spec *spec;
    const struct case_calls *calls;
    struct case_memory memory;
    struct rank *rank;
    struct manner manner;
    uint32_t last;          /* for ONE_RANK_LAST: that rank */
    struct tt_prng prng;
    bool broken;            /* `why` contains the error */
    char *why;
    size_t why_bytes;
};

/* Fails the run with an error; only the first one is kept. */
static void broke(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void broke(struct world *w, const char *fmt, ...)
{
    va_list ap;

    if (w->broken)
        return;
    va_start(ap, fmt);
    vsnprintf(w->why, w->why_bytes, fmt, ap);
    va_end(ap);
    w->broken = true;
}

/* ---- the memory ---- */

static void set_up(struct world *w)
{
    case_memory_init(&w->memory, w->spec, w->calls);
    for (uint32_t r = 0; r < w->spec->nranks; r++) {
        struct rank *me = &w->rank[r];

        me->c = &w->calls->coll[r];
        me->bytes[TT_BUF_SRC] = w->memory.bytes[r][TT_BUF_SRC];
        me->bytes[TT_BUF_DST] = w->memory.bytes[r][TT_BUF_DST];
        me->bytes[TT_BUF_WORK] = w->spec->algo->work_bytes(me->c);
        me->mem[TT_BUF_SRC] = w->memory.src[r];
        me->mem[TT_BUF_DST] = w->memory.dst[r];
        me->mem[TT_BUF_WORK] = malloc(me->bytes[TT_BUF_WORK] + 1);
        memset(me->mem[TT_BUF_WORK], 0xd7, me->bytes[TT_BUF_WORK]);
    }
}

/* Returns whether the length of each row is sent with it, as in the engine. */
static bool sends_lengths(const struct tt_algo *algo, const struct tt_coll *c)
{
    return algo->length_at && algo->length_rounds(c) > 0;
}

static void write_lengths(struct world *w, const struct rank *me)
{
    const struct tt_algo *algo = w->spec->algo;

    for (uint32_t r = 0; sends_lengths(algo, me->c) && r < me->c->nranks; r++) {
        const uint64_t there = r == me->c->rank ? 0 : algo->length_at(me->c, r, true);

        if (r == me->c->rank)
            continue;
        if (there + sizeof(uint64_t) > me->bytes[TT_BUF_WORK])
            broke(w, "rank %u writes a length out of bounds", me->c->rank);
        else
            memcpy(me->mem[TT_BUF_WORK] + there, &me->c->send_bytes[r], sizeof(uint64_t));
    }
}

static void compare_lengths(struct world *w, const struct rank *me)
{
    const struct tt_algo *algo = w->spec->algo;

    for (uint32_t r = 0; sends_lengths(algo, me->c) && r < me->c->nranks; r++) {
        const uint64_t there = r == me->c->rank ? 0 : algo->length_at(me->c, r, false);
        uint64_t came = 0;

        if (r == me->c->rank)
            continue;
        if (there + sizeof came > me->bytes[TT_BUF_WORK])
            broke(w, "rank %u reads a length out of bounds", me->c->rank);
        else
            memcpy(&came, me->mem[TT_BUF_WORK] + there, sizeof came);
        if (came != w->rank[r].c->send_bytes[me->c->rank])
            broke(w, "rank %u hears that rank %u sends %" PRIu64 " B, not %" PRIu64, me->c->rank, r,
                  came, w->rank[r].c->send_bytes[me->c->rank]);
    }
}

static uint64_t at(const struct tt_ref *ref, uint64_t i)
{
    return ref->block ? ref->offset + i / ref->block * ref->stride + i % ref->block
                      : ref->offset + i;
}

/* Copies bytes between a reference and contiguous memory, in runs that are contiguous on both
 * sides. */
static void move(struct world *w, struct rank *me, const struct tt_ref *ref, uint8_t *bytes,
                 uint64_t n, bool store)
{
    for (uint64_t i = 0, run; i < n; i += run) {
        run =
            ref->block && ref->block - i % ref->block < n - i ? ref->block - i % ref->block : n - i;
        if (ref->buf > TT_BUF_WORK || at(ref, i) + run > me->bytes[ref->buf]) {
            broke(w, "rank %u goes out of bounds", me->c->rank);
            return;
        }
        uint8_t *there = me->mem[ref->buf] + at(ref, i);

        memcpy(store ? there : bytes + i, store ? bytes + i : there, run);
    }
}

static struct node *pipe_writer(struct rank *me, uint64_t name)
{
    for (uint32_t i = 0; i < me->n; i++)
        if (me->node[i].s.opcode != TT_PUT && me->node[i].s.bytes > 0 &&
            me->node[i].s.out.buf == TT_BUF_PIPE && me->node[i].s.out.offset == name)
            return &me->node[i];
    return NULL;
}

/* Returns a copy owned by the caller. A pipe can be read once. */
static uint8_t *load(struct world *w, struct rank *me, const struct tt_ref *ref, uint64_t n)
{
    uint8_t *bytes = calloc(1, n + 1);

    if (n > 0 && ref->buf == TT_BUF_PIPE) {
        struct node *writer = pipe_writer(me, ref->offset);

        if (!writer || !writer->carried || writer->s.bytes != n) {
            broke(w, "rank %u reads %" PRIu64 " B that are not in pipe %" PRIu64, me->c->rank, n,
                  ref->offset);
            return bytes;
        }
        free(bytes);
        bytes = writer->carried;
        writer->carried = NULL;
        return bytes;
    }
    move(w, me, ref, bytes, n, false);
    return bytes;
}

/* Takes ownership of `bytes`. */
static void store(struct world *w, struct rank *me, struct node *writer, uint8_t *bytes)
{
    if (writer->s.bytes > 0 && writer->s.out.buf == TT_BUF_PIPE) {
        writer->carried = bytes;
        return;
    }
    move(w, me, &writer->s.out, bytes, writer->s.bytes, true);
    free(bytes);
}

/* ---- which steps can run ---- */

static bool overlap(const struct tt_ref *x, const struct tt_ref *y, uint64_t x_bytes,
                    uint64_t y_bytes)
{
    uint64_t x_begin, x_end, y_begin, y_end;

    if (x->buf != y->buf || x_bytes == 0 || y_bytes == 0 || x->buf == TT_BUF_THERE)
        return false;
    if (x->buf == TT_BUF_PIPE)
        return x->offset == y->offset;
    tt_ref_extent(x, x_bytes, &x_begin, &x_end);
    tt_ref_extent(y, y_bytes, &y_begin, &y_end);
    if (x_begin >= y_end || y_begin >= x_end)
        return false;
    for (uint64_t i = 0; i < x_bytes && (x->block || y->block); i++)
        for (uint64_t j = 0; j < y_bytes; j += y->block ? y->block : y_bytes) {
            const uint64_t begin = at(y, j), run = y->block ? y->block : y_bytes;

            if (at(x, i) >= begin && at(x, i) < begin + (run < y_bytes - j ? run : y_bytes - j))
                return true;
        }
    return !x->block && !y->block;
}

static bool reads(const struct tt_step *s, const struct tt_ref *ref, uint64_t bytes)
{
    return (s->opcode != TT_WAIT && overlap(&s->a, ref, s->bytes, bytes)) ||
           (s->opcode == TT_REDUCE_STEP && overlap(&s->b, ref, s->bytes, bytes));
}

static bool writes(const struct tt_step *s, const struct tt_ref *ref, uint64_t bytes)
{
    return s->opcode != TT_PUT && overlap(&s->out, ref, s->bytes, bytes);
}

static bool conflict(const struct tt_step *earlier, const struct tt_step *s)
{
    if (s->opcode != TT_PUT &&
        (reads(earlier, &s->out, s->bytes) || writes(earlier, &s->out, s->bytes)))
        return true;
    if (s->opcode != TT_WAIT && writes(earlier, &s->a, s->bytes))
        return true;
    return s->opcode == TT_REDUCE_STEP && writes(earlier, &s->b, s->bytes);
}

static bool can_run(struct world *w, uint32_t r, uint32_t i)
{
    struct rank *me = &w->rank[r];
    const struct node *node = &me->node[i];

    if (w->manner.order == STRAIGHT && i > 0 && !me->node[i - 1].ran)
        return false;
    if (node->ran || node->round >= me->node[me->oldest].round + w->manner.window)
        return false;
    if (node->s.opcode == TT_WAIT) {
        const struct node *put = node->mate;

        if (!put || !put->ran)
            return false;
    }
    for (uint32_t j = me->oldest; j < i; j++)
        if (!me->node[j].done && conflict(&me->node[j].s, &node->s))
            return false;
    return true;
}

/* ---- execution ---- */

static void run_put(struct world *w, uint32_t r, struct node *node)
{
    struct node *wait = node->mate;

    if (!wait || wait->s.bytes != node->s.bytes) {
        broke(w, "rank %u puts what rank %u does not wait for", r, node->s.peer);
        return;
    }
    if (w->manner.moves == AT_WAIT)
        return;
    node->carried = load(w, &w->rank[r], &node->s.a, node->s.bytes);
    node->done = true;
    if (w->manner.moves == LANDING && wait->s.out.buf != TT_BUF_PIPE)
        move(w, &w->rank[node->s.peer], &wait->s.out, node->carried, node->s.bytes, true);
}

static void run_wait(struct world *w, uint32_t r, struct node *node)
{
    struct node *put = node->mate;
    uint8_t *bytes = put->carried;

    if (w->manner.moves == AT_WAIT)
        bytes = load(w, &w->rank[node->s.peer], &put->s.a, put->s.bytes);
    put->carried = NULL;
    put->done = true;
    if (w->manner.moves == LANDING && node->s.out.buf != TT_BUF_PIPE)
        free(bytes);        /* the bytes were stored by the put */
    else
        store(w, &w->rank[r], node, bytes);
    node->done = true;
}

static void run(struct world *w, uint32_t r, struct node *node)
{
    struct rank *me = &w->rank[r];
    uint8_t *a, *b;

    node->ran = true;
    if (node->s.bytes > BYTES_MAX) {
        broke(w, "rank %u moves an absurd number of bytes", r);
        return;
    }
    if (node->s.opcode == TT_PUT) {
        run_put(w, r, node);
        return;
    }
    if (node->s.opcode == TT_WAIT) {
        run_wait(w, r, node);
        return;
    }
    a = load(w, me, &node->s.a, node->s.bytes);
    if (node->s.opcode == TT_REDUCE_STEP) {
        b = load(w, me, &node->s.b, node->s.bytes);
        case_kernel(me->c->elem_bytes, node->s.finish)(a, NULL, a, b,
                                                       node->s.bytes / me->c->elem_bytes, false, 1);
        free(b);
    }
    store(w, me, node, a);
    node->done = true;
}

static void load_step(struct rank *me, const struct tt_step *s, uint64_t round)
{
    struct node *node;

    if (me->n == me->cap) {
        me->cap = me->cap ? 2 * me->cap : 64;
        me->node = realloc(me->node, me->cap * sizeof *me->node);
    }
    node = &me->node[me->n++];
    *node = (struct node){ .s = *s, .round = round };
    node->s.a = tt_coll_canonical(me->c, node->s.a);
    node->s.b = tt_coll_canonical(me->c, node->s.b);
    if (node->s.opcode != TT_PUT)
        node->s.out = tt_coll_canonical(me->c, node->s.out);
}

static void load_rounds(struct rank *me, const struct tt_algo *algo)
{
    for (uint64_t k = 0; k < algo->nrounds(me->c); k++) {
        struct tt_step steps[TT_ROUND_STEPS_MAX];
        struct tt_sched s = { .steps = steps, .cap = TT_ROUND_STEPS_MAX };

        algo->round(&s, me->c, k);
        for (uint32_t i = 0; i < s.n; i++)
            load_step(me, &steps[i], k);
    }
}

static void find_mates(struct world *w)
{
    for (uint32_t r = 0; r < w->spec->nranks; r++)
        for (uint32_t i = 0; i < w->rank[r].n; i++) {
            struct node *put = &w->rank[r].node[i];
            struct rank *to = &w->rank[put->s.peer];

            for (uint32_t j = 0; j < to->n && put->s.opcode == TT_PUT && !put->mate; j++) {
                struct node *wait = &to->node[j];

                if (wait->s.opcode == TT_WAIT && wait->s.peer == r && wait->s.tag == put->s.tag &&
                    !wait->mate) {
                    put->mate = wait;
                    wait->mate = put;
                }
            }
        }
}

/* Runs one step of one rank. Returns false if none can run. */
static bool run_one_of(struct world *w, uint32_t r)
{
    struct rank *me = &w->rank[r];
    uint32_t chosen = UINT32_MAX, found = 0;

    while (me->oldest < me->n && me->node[me->oldest].done)
        me->oldest++;
    for (uint32_t i = me->oldest;
         i < me->n && me->node[i].round < me->node[me->oldest].round + w->manner.window; i++)
        if (can_run(w, r, i) &&
            (w->manner.order == NEWEST_FIRST || tt_prng_below(&w->prng, ++found) == 0))
            chosen = i;
    if (chosen != UINT32_MAX)
        run(w, r, &me->node[chosen]);
    return chosen != UINT32_MAX;
}

static bool run_some(struct world *w)
{
    const uint32_t nranks = w->spec->nranks, first = (uint32_t)tt_prng_below(&w->prng, nranks);
    const bool one_last = w->manner.order == ONE_RANK_LAST;

    for (uint32_t k = 0; k < nranks; k++) {
        const uint32_t r = (first + k) % nranks;

        if ((!one_last || r != w->last) && run_one_of(w, r))
            return true;
    }
    return one_last && run_one_of(w, w->last);
}

static void look_for_what_is_left(struct world *w)
{
    for (uint32_t r = 0; r < w->spec->nranks; r++)
        for (uint32_t i = 0; i < w->rank[r].n; i++) {
            const struct node *node = &w->rank[r].node[i];

            if (!node->done)
                broke(w, "deadlock: rank %u, step %u", r, i);
            else if (node->carried)
                broke(w, "nobody takes what rank %u made in step %u", r, i);
        }
}

static void load_programs(struct world *w, const struct tt_program *program)
{
    for (uint32_t r = 0; r < w->spec->nranks; r++) {
        if (!program)
            load_rounds(&w->rank[r], w->spec->algo);
        for (uint64_t i = 0; program && i < program->nsteps[r]; i++)
            load_step(&w->rank[r], &program->steps[r][i], 0);
    }
    find_mates(w);
}

bool interpret(const struct case_spec *spec, const struct case_calls *calls,
               const struct tt_program *program, const struct manner *manner, char *why,
               size_t why_bytes)
{
    struct world w = {
        .spec = spec, .calls = calls, .manner = *manner, .why = why, .why_bytes = why_bytes,
        .rank = calloc(spec->nranks, sizeof *w.rank),
    };
    bool fine;

    tt_prng_init(&w.prng, manner->seed);
    w.last = (uint32_t)tt_prng_below(&w.prng, spec->nranks);
    set_up(&w);
    load_programs(&w, program);
    for (uint32_t r = 0; r < spec->nranks; r++)
        write_lengths(&w, &w.rank[r]);
    while (!w.broken && run_some(&w))
        ;
    look_for_what_is_left(&w);
    for (uint32_t r = 0; r < spec->nranks && !program; r++)
        compare_lengths(&w, &w.rank[r]);
    fine = !w.broken;
    for (uint32_t r = 0; r < spec->nranks && fine; r++)
        fine = case_memory_right(&w.memory, r, why, why_bytes);

    for (uint32_t r = 0; r < spec->nranks; r++) {
        for (uint32_t i = 0; i < w.rank[r].n; i++)
            free(w.rank[r].node[i].carried);
        free(w.rank[r].node);
        free(w.rank[r].mem[TT_BUF_WORK]);
    }
    case_memory_fini(&w.memory);
    free(w.rank);
    return fine;
}
