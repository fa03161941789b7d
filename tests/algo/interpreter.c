#include "interpreter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "support/memory.h"
#include "support/unit.h"

#define STEPS_MAX 256       /* of one rank's program */

struct node {
    struct tt_step s;       /* refs as the memory sees them */
    uint64_t round;
    bool ran, done;         /* done: others that conflict with it may run */
    uint8_t *carried;       /* put: the bytes on their way; pipe's writer: the pipe */
    struct node *mate;      /* put: its wait; wait: its put; NULL if it has none */
};

struct rank {
    const struct tt_coll *c;
    uint8_t *mem[3];        /* SRC, DST, WORK */
    uint64_t bytes[3];
    struct node node[STEPS_MAX];
    uint32_t n, oldest;     /* oldest: the first that is not done */
};

struct world {
    const struct case_spec *spec;
    const struct case_calls *calls;
    struct case_memory memory;
    struct rank *rank;
    enum moves moves;
    uint32_t window;
    struct tt_prng prng;
    char *why;
    size_t why_bytes;
};

/* ---- the memory ------------------------------------------------------------------------------------- */

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

static uint64_t at(const struct tt_ref *ref, uint64_t i)
{
    return ref->block ? ref->offset + i / ref->block * ref->stride + i % ref->block : ref->offset + i;
}

/* Bytes i .. of a ref to or from contiguous ones; runs that are contiguous on both sides at a time. */
static void move(struct rank *me, const struct tt_ref *ref, uint8_t *bytes, uint64_t n, bool store)
{
    for (uint64_t i = 0, run; i < n; i += run) {
        uint8_t *there = me->mem[ref->buf] + at(ref, i);

        run = ref->block && ref->block - i % ref->block < n - i ? ref->block - i % ref->block : n - i;
        assert_true(at(ref, i) + run <= me->bytes[ref->buf]);
        memcpy(store ? there : bytes + i, store ? bytes + i : there, run);
    }
}

static struct node *pipe_writer(struct rank *me, uint64_t name)
{
    for (uint32_t i = 0; i < me->n; i++)
        if (me->node[i].s.opcode != TT_PUT && me->node[i].s.out.buf == TT_BUF_PIPE && me->node[i].s.out.offset == name)
            return &me->node[i];
    return NULL;
}

/* The caller frees it. A pipe can be read once. */
static uint8_t *load(struct rank *me, const struct tt_ref *ref, uint64_t n)
{
    uint8_t *bytes;

    if (n > 0 && ref->buf == TT_BUF_PIPE) {
        struct node *writer = pipe_writer(me, ref->offset);

        assert_non_null(writer);
        assert_non_null(writer->carried);
        bytes = writer->carried;
        writer->carried = NULL;
        return bytes;
    }
    bytes = malloc(n + 1);
    move(me, ref, bytes, n, false);
    return bytes;
}

/* Takes over `bytes`. */
static void store(struct rank *me, struct node *writer, uint8_t *bytes)
{
    if (writer->s.bytes > 0 && writer->s.out.buf == TT_BUF_PIPE) {
        writer->carried = bytes;
        return;
    }
    move(me, &writer->s.out, bytes, writer->s.bytes, true);
    free(bytes);
}

/* ---- which steps can run ---------------------------------------------------------------------------- */

static bool overlap(const struct tt_ref *x, const struct tt_ref *y, uint64_t x_bytes, uint64_t y_bytes)
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
    if (s->opcode != TT_PUT && (reads(earlier, &s->out, s->bytes) || writes(earlier, &s->out, s->bytes)))
        return true;
    if (s->opcode != TT_WAIT && writes(earlier, &s->a, s->bytes))
        return true;
    return s->opcode == TT_REDUCE_STEP && writes(earlier, &s->b, s->bytes);
}

static bool can_run(struct world *w, uint32_t r, uint32_t i)
{
    struct rank *me = &w->rank[r];
    const struct node *node = &me->node[i];

    if (node->ran || node->round >= me->node[me->oldest].round + w->window)
        return false;
    if (node->s.opcode == TT_WAIT) {
        const struct node *put = node->mate;

        if (!put || !put->ran)
            return false;
        assert_true(put->s.bytes == node->s.bytes);
    }
    for (uint32_t j = me->oldest; j < i; j++)
        if (!me->node[j].done && conflict(&me->node[j].s, &node->s))
            return false;
    return true;
}

/* ---- running them ------------------------------------------------------------------------------------- */

static void run_put(struct world *w, uint32_t r, struct node *node)
{
    struct node *wait = node->mate;

    if (w->moves == AT_WAIT)
        return;
    node->carried = load(&w->rank[r], &node->s.a, node->s.bytes);
    node->done = true;
    assert_non_null(wait);
    if (w->moves == LANDING && wait->s.out.buf != TT_BUF_PIPE)
        move(&w->rank[node->s.peer], &wait->s.out, node->carried, node->s.bytes, true);
}

static void run_wait(struct world *w, uint32_t r, struct node *node)
{
    struct node *put = node->mate;
    uint8_t *bytes = put->carried;

    if (w->moves == AT_WAIT)
        bytes = load(&w->rank[node->s.peer], &put->s.a, put->s.bytes);
    put->carried = NULL;
    put->done = true;
    if (w->moves == LANDING && node->s.out.buf != TT_BUF_PIPE)
        free(bytes);        /* they are there since the put */
    else
        store(&w->rank[r], node, bytes);
    node->done = true;
}

static void run(struct world *w, uint32_t r, struct node *node)
{
    struct rank *me = &w->rank[r];
    uint8_t *a, *b;

    node->ran = true;
    if (node->s.opcode == TT_PUT) {
        run_put(w, r, node);
        return;
    }
    if (node->s.opcode == TT_WAIT) {
        run_wait(w, r, node);
        return;
    }
    a = load(me, &node->s.a, node->s.bytes);
    if (node->s.opcode == TT_REDUCE_STEP) {
        b = load(me, &node->s.b, node->s.bytes);
        case_kernel(me->c->elem_bytes, node->s.finish)(a, NULL, a, b, node->s.bytes / me->c->elem_bytes, false, 1);
        free(b);
    }
    store(me, node, a);
    node->done = true;
}

static void load_step(struct rank *me, const struct tt_step *s, uint64_t round)
{
    struct node *node = &me->node[me->n++];

    assert_true(me->n <= STEPS_MAX);
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

                if (wait->s.opcode == TT_WAIT && wait->s.peer == r && wait->s.tag == put->s.tag) {
                    put->mate = wait;
                    wait->mate = put;
                }
            }
        }
}

/* Runs one step of one rank, both as the dice fall; false if none can run. */
static bool run_some(struct world *w)
{
    const uint32_t nranks = w->spec->nranks, first = (uint32_t)tt_prng_below(&w->prng, nranks);

    for (uint32_t k = 0; k < nranks; k++) {
        const uint32_t r = (first + k) % nranks;
        struct rank *me = &w->rank[r];
        uint32_t chosen = UINT32_MAX, found = 0;

        while (me->oldest < me->n && me->node[me->oldest].done)
            me->oldest++;
        for (uint32_t i = me->oldest; i < me->n && me->node[i].round < me->node[me->oldest].round + w->window; i++)
            if (can_run(w, r, i) && tt_prng_below(&w->prng, ++found) == 0)
                chosen = i;
        if (chosen != UINT32_MAX) {
            run(w, r, &me->node[chosen]);
            return true;
        }
    }
    return false;
}

static bool all_done(const struct world *w)
{
    for (uint32_t r = 0; r < w->spec->nranks; r++)
        for (uint32_t i = 0; i < w->rank[r].n; i++)
            if (!w->rank[r].node[i].done) {
                snprintf(w->why, w->why_bytes, "deadlock: rank %u, step %u", r, i);
                return false;
            }
    return true;
}

bool interpret(const struct case_spec *spec, const struct case_calls *calls, const struct tt_program *program,
               enum moves moves, uint32_t window, char *why, size_t why_bytes)
{
    struct world w = {
        .spec = spec, .calls = calls, .moves = moves, .window = window, .why = why, .why_bytes = why_bytes,
        .rank = calloc(spec->nranks, sizeof *w.rank),
    };
    bool fine;

    tt_prng_init(&w.prng, spec->seed);
    set_up(&w);
    for (uint32_t r = 0; r < spec->nranks; r++) {
        if (!program)
            load_rounds(&w.rank[r], spec->algo);
        for (uint64_t i = 0; program && i < program->nsteps[r]; i++)
            load_step(&w.rank[r], &program->steps[r][i], 0);
    }
    find_mates(&w);
    while (run_some(&w))
        ;
    fine = all_done(&w);
    for (uint32_t r = 0; r < spec->nranks && fine; r++)
        fine = case_memory_right(&w.memory, r, why, why_bytes);

    for (uint32_t r = 0; r < spec->nranks; r++) {
        for (uint32_t i = 0; i < w.rank[r].n; i++)
            free(w.rank[r].node[i].carried);
        free(w.rank[r].mem[TT_BUF_WORK]);
    }
    case_memory_fini(&w.memory);
    free(w.rank);
    return fine;
}
