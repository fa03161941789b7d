/* Dependences between steps, and how much of a step they need: the fast search of the executor
 * agrees with a comparison of every byte. */
#include <stdio.h>
#include <string.h>

#include "base/prng.h"
#include "engine/exec.h"
#include "support/unit.h"

#define SEGMENT_MIN 8u
#define BYTES_MAX 400u          /* per step */
#define SPAN 131072u            /* addresses per buffer */

struct rig {
    struct tt_algo algo;
    struct tt_coll coll;
    struct tt_exec_conf conf;
    struct tt_exec x;
    struct tt_exec_peer peers[4];
};

static uint64_t nrounds;

static uint64_t rounds(const struct tt_coll *c)
{
    (void)c;
    return nrounds;
}

static void begin(struct rig *g, void (*round)(struct tt_sched *, const struct tt_coll *, uint64_t),
                  uint64_t eager_bytes, uint64_t segment_bytes)
{
    *g = (struct rig){
        .algo = { .name = "program", .kind = TT_ALLREDUCE, .nrounds = rounds, .round = round },
        .coll = { .kind = TT_ALLREDUCE, .rank = 0, .nranks = 4, .elem_bytes = 1, .bytes = SPAN },
        .conf = { .segment_bytes = segment_bytes,
                  .eager_bytes = eager_bytes,
                  .streams = 1,
                  .depth = 16 },
    };
    g->conf.algo = &g->algo;
    g->conf.coll = &g->coll;
    tt_exec_init(&g->x, &g->conf, g->peers, 4);
}

/* Returns the address of byte k. */
static uint64_t at(const struct tt_ref *r, uint64_t k)
{
    const uint64_t address = r->offset + (r->block ? k / r->block * r->stride + k % r->block : k);

    assert_in_range(address, 0, SPAN - 1);
    return address;
}

/* Draws a reference: contiguous, or with any block and stride; often on the same grid as `like`. */
static struct tt_ref draw_ref(struct tt_prng *p, uint8_t buf, const struct tt_ref *like)
{
    struct tt_ref r = { .buf = buf, .offset = tt_prng_below(p, 300) };

    if (like && like->block && tt_prng_below(p, 4)) {
        const uint64_t apart = like->stride / like->block;

        r.block = like->block;
        r.stride = tt_prng_below(p, 2) ? like->stride * (1 + tt_prng_below(p, 4))
                                       : r.block * (1 + tt_prng_below(p, apart + 3));
        r.offset = like->offset % r.block + r.block * tt_prng_below(p, 24);
        return r;
    }
    if (tt_prng_below(p, 4) == 0)
        return r;
    r.block = 1 + tt_prng_below(p, 20);
    r.stride =
        tt_prng_below(p, 2) ? r.block * (1 + tt_prng_below(p, 6)) : r.block + tt_prng_below(p, 60);
    return r;
}

static const char *ref_text(const struct tt_ref *r, uint64_t bytes)
{
    static char text[2][100];
    static int turn;

    turn = !turn;
    snprintf(text[turn], sizeof text[turn],
             "%llu bytes of buffer %u at %llu, pieces of %llu, %llu apart",
             (unsigned long long)bytes, r->buf, (unsigned long long)r->offset,
             (unsigned long long)r->block, (unsigned long long)r->stride);
    return text[turn];
}

/* ---- extent of a dependence ---- */

enum later { SENDS, COPIES, OVERWRITES, LATERS };

/* A wait that writes `first` of DST, and a step that accesses `then` of it. */
static struct {
    struct tt_ref first, then;
    uint64_t first_bytes, then_bytes, segment_bytes;
    enum later later;
} two;

static void two_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_wait(s, 1, two.first, two.first_bytes, 0);
    if (two.later == SENDS)
        tt_sched_put(s, 2, two.then, tt_dst(0), two.then_bytes, 0);
    else if (two.later == COPIES)
        tt_sched_copy(s, tt_work(0), two.then, two.then_bytes);
    else
        tt_sched_copy(s, two.then, tt_src(0), two.then_bytes);
}

static void draw_two(struct tt_prng *p)
{
    two.later = (enum later)tt_prng_below(p, LATERS);
    two.first = draw_ref(p, TT_BUF_DST, NULL);
    two.then = tt_prng_below(p, 8) ? draw_ref(p, TT_BUF_DST, &two.first) : two.first;
    two.first_bytes = 1 + tt_prng_below(p, BYTES_MAX);
    two.segment_bytes = SEGMENT_MIN << tt_prng_below(p, 4);
    two.then_bytes = two.segment_bytes + 1 + tt_prng_below(p, BYTES_MAX - two.segment_bytes);
    if (two.first.block == two.then.block && two.first.stride == two.then.stride &&
        two.first.offset == two.then.offset &&
        two.then_bytes > two.first_bytes)       /* beyond the last common byte, more bytes than
                                                   necessary may be required */
        two.first_bytes = two.then_bytes;
}

/* needs[i]: number of bytes of the first step required before segment i of the later one. Returns
 * the number of segments. */
static uint32_t needs_of(uint64_t needs[BYTES_MAX / SEGMENT_MIN + 1])
{
    static uint16_t made_by[SPAN];      /* the byte of the first step at this address, from 1 on;
                                           0: none */
    uint32_t n = 0;

    for (uint64_t k = 0; k < two.first_bytes; k++)
        made_by[at(&two.first, k)] = (uint16_t)(k + 1);
    for (uint64_t pos = 0; pos < two.then_bytes; pos += two.segment_bytes, n++) {
        needs[n] = 0;
        for (uint64_t k = pos; k < pos + two.segment_bytes && k < two.then_bytes; k++)
            if (made_by[at(&two.then, k)] > needs[n])
                needs[n] = made_by[at(&two.then, k)];
    }
    for (uint64_t k = 0; k < two.first_bytes; k++)
        made_by[at(&two.first, k)] = 0;
    return n;
}

static void go(struct rig *g)
{
    struct tt_action a;

    while (tt_exec_next(&g->x, &a))
        if (a.kind == TT_ACT_OPEN)
            tt_exec_opened(&g->x, a.peer, false);
        else
            tt_exec_taken(&g->x, &a, true);
}

static void check_two(struct rig *g, uint64_t number)
{
    uint64_t needs[BYTES_MAX / SEGMENT_MIN + 1];
    const uint32_t n = needs_of(needs),
                   nfirst = tt_exec_segments(two.first_bytes, two.segment_bytes);
    uint32_t may = 0;

    begin(g, two_round, 0, two.segment_bytes);
    if (two.later == SENDS)
        tt_exec_ready(&g->x, (uint16_t)tt_exec_peer_of(&g->x, 2), true, false);
    for (uint32_t arrived = 0; arrived <= nfirst; arrived++) {
        const uint64_t there = arrived * two.segment_bytes < two.first_bytes
                                   ? arrived * two.segment_bytes
                                   : two.first_bytes;

        if (arrived)
            tt_exec_arrived(&g->x, (uint16_t)tt_exec_peer_of(&g->x, 1), 0, arrived);
        go(g);
        while (may < n && needs[may] <= there)
            may++;
        if (g->x.step[1].done != (may < n ? may * two.segment_bytes : two.then_bytes))
            fail_msg("case %llu: %s is there up to byte %llu, and of %s %llu were touched, not %u "
                     "segments",
                     (unsigned long long)number, ref_text(&two.first, two.first_bytes),
                     (unsigned long long)there, ref_text(&two.then, two.then_bytes),
                     (unsigned long long)g->x.step[1].done, may);
    }
    assert_true(tt_exec_finished(&g->x));
}

/* Up to the last common byte: less would be wrong, and more could cause circular waits. */
static void segment_waits_for_last_common_byte(void **state)
{
    static struct rig g;
    struct tt_prng p;

    (void)state;
    nrounds = 1;
    for (uint64_t i = 0; i < 60000; i++) {
        if (!unit_draw())
            continue;
        tt_prng_init(&p, i);
        draw_two(&p);
        check_two(&g, i);
    }
}

/* ---- the earlier steps of a dependence ---- */

#define MANY_ROUNDS 30

/* Draws pieces of very different lengths, near to each other and far apart. Empty steps are always
 * messages. */
static void draw_step(struct tt_sched *s, struct tt_prng *p, uint64_t name)
{
    const uint64_t bytes = 1 + tt_prng_below(p, 1ull << tt_prng_below(p, 9));
    struct tt_ref ref[3];

    for (int i = 0; i < 3; i++) {
        ref[i] = draw_ref(p, (uint8_t)tt_prng_below(p, 3), i ? &ref[0] : NULL);
        ref[i].offset += tt_prng_below(p, 2) ? 0 : tt_prng_below(p, 8000);
    }
    switch (tt_prng_below(p, 5)) {
    case 0:
        tt_sched_put(s, 1, ref[0], tt_dst(0), tt_prng_below(p, 9) ? bytes : 0, (uint32_t)name);
        break;
    case 1:
        tt_sched_copy(s, ref[0], ref[1], bytes);
        break;
    case 2:
        tt_sched_reduce(s, ref[0], ref[1], ref[2], bytes, false);
        break;
    case 3:
        tt_sched_wait(s, 2, ref[0], tt_prng_below(p, 9) ? bytes : 0, (uint32_t)name);
        break;
    default:
        tt_sched_reduce(s, tt_pipe(name * 1000), ref[1], ref[2], bytes, false);
        tt_sched_put(s, 1, tt_pipe(name * 1000), tt_dst(0), bytes, (uint32_t)name);
    }
}

static uint64_t many_seed;

static void many_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    struct tt_prng p;

    (void)c;
    tt_prng_init(&p, many_seed * MANY_ROUNDS + k);
    for (uint64_t n = tt_prng_below(&p, TT_ROUND_STEPS_MAX - 1); s->n < n;)
        draw_step(s, &p, k * TT_ROUND_STEPS_MAX + s->n);
}

/* Marks the bytes of all buffers that step t reads (bit 0) and writes (bit 1). */
static void mark(uint8_t bytes[3][SPAN], const struct tt_step *t, bool on)
{
    const struct {
        const struct tt_ref *ref;
        uint8_t bit;
    } refs[] = {
        { t->opcode != TT_WAIT ? &t->a : NULL, 1 },
        { t->opcode == TT_REDUCE_STEP ? &t->b : NULL, 1 },
        { t->opcode != TT_PUT ? &t->out : NULL, 2 },
    };

    for (size_t i = 0; i < 3; i++)
        for (uint64_t k = 0; refs[i].ref && refs[i].ref->buf <= TT_BUF_WORK && k < t->bytes; k++) {
            uint8_t *b = &bytes[refs[i].ref->buf][at(refs[i].ref, k)];

            *b = on ? *b | refs[i].bit : 0;
        }
}

/* Returns whether a byte marked by another step is accessed by this one, and one of them writes
 * it. */
static bool meets(const uint8_t bytes[3][SPAN], const struct tt_step *t)
{
    for (uint64_t k = 0; k < t->bytes; k++) {
        if (t->opcode != TT_PUT && t->out.buf <= TT_BUF_WORK && bytes[t->out.buf][at(&t->out, k)])
            return true;
        if (t->opcode != TT_WAIT && t->a.buf <= TT_BUF_WORK && bytes[t->a.buf][at(&t->a, k)] & 2)
            return true;
        if (t->opcode == TT_REDUCE_STEP && t->b.buf <= TT_BUF_WORK &&
            bytes[t->b.buf][at(&t->b, k)] & 2)
            return true;
    }
    return false;
}

/* Of each two steps in the window the later one depends on the earlier one if they conflict.
 * Returns the number of conflicts. */
static uint32_t check_window(const struct tt_exec *x)
{
    static uint8_t bytes[3][SPAN];
    uint32_t n = 0;

    for (uint32_t e = x->head; e != x->tail; e++) {
        const struct tt_exec_step *earlier = &x->step[e % TT_EXEC_STEPS];

        if (earlier->over)
            continue;
        mark(bytes, &earlier->s, true);
        for (uint32_t i = e + 1; i != x->tail; i++)
            if (meets(bytes, &x->step[i % TT_EXEC_STEPS].s)) {
                n++;
                if (!(x->step[i % TT_EXEC_STEPS].deps >> e % TT_EXEC_STEPS & 1))
                    fail_msg("seed %llu: steps %u and %u of rounds before %llu meet, and the later "
                             "one does not wait",
                             (unsigned long long)many_seed, e, i, (unsigned long long)x->round);
            }
        mark(bytes, &earlier->s, false);
    }
    return n;
}

/* Executes a few actions, some of which are refused. Returns false if there are no more. */
static bool go_on(struct rig *g, struct tt_prng *p)
{
    struct tt_action a;

    for (uint32_t i = 0; i < 12; i++) {
        if (!tt_exec_next(&g->x, &a)) {
            const struct tt_step *at = tt_exec_at(&g->x);

            if (!at)
                return false;
            for (uint32_t n = g->x.head; n != g->x.tail; n++) {
                const struct tt_exec_step *t = &g->x.step[n % TT_EXEC_STEPS];

                if (t->s.opcode == TT_WAIT && !t->over && !t->arrived &&
                    (&t->s == at || tt_prng_below(p, 3) == 0))
                    assert_int_equal(tt_exec_eager(&g->x, t->peer, t->s.tag, t->s.bytes), TUTTI_OK);
            }
            continue;
        }
        if (tt_prng_below(p, 4))
            tt_exec_taken(&g->x, &a, true);
        else
            tt_exec_left(&g->x, &a);
    }
    return true;
}

static void overlapping_steps_depend_on_each_other(void **state)
{
    static struct rig g;
    uint32_t met = 0;
    struct tt_prng p;

    (void)state;
    nrounds = MANY_ROUNDS;
    for (many_seed = 1; many_seed <= 400; many_seed++) {
        if (!unit_draw())
            continue;
        tt_prng_init(&p, many_seed);
        begin(&g, many_round, 512, 512);
        do
            met += check_window(&g.x);
        while (go_on(&g, &p));
        assert_true(tt_exec_finished(&g.x));
    }
    assert_in_range(met, 1, UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapping_steps_depend_on_each_other),
        cmocka_unit_test(segment_waits_for_last_common_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
