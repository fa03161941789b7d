/* The verifier detects every change to a program that changes its result. The reference runs the
 * changed program on real memory, in several adversarial orders; the interpreter is independent of
 * the verifier. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "support/cases.h"
#include "interpreter.h"
#include "support/unit.h"

static struct case_calls calls;

static bool draw_case(struct case_spec *spec, struct tt_prng *p, uint64_t seed)
{
    *spec = (struct case_spec){
        .algo = tt_algos[tt_prng_below(p, tt_nalgos)],
        .nranks = 2 + (uint32_t)tt_prng_below(p, tt_prng_below(p, 8) ? 7 : 15),
        .elem_bytes = 1u << tt_prng_below(p, 3),
        .count = 1 + tt_prng_below(p, 12),
        .place = (enum case_place)tt_prng_below(p, CASE_PLACES),
        .packed = tt_prng_below(p, 2),
        .seed = seed,
    };
    spec->root = (uint32_t)tt_prng_below(p, spec->nranks);
    if (case_sees_layout(spec->algo))
        spec->layout = (enum case_layout)tt_prng_below(p, CASE_LAYOUTS);
    if (!case_exists(spec))
        return false;
    case_make(&calls, spec);
    return spec->algo->fits(&calls.coll[0]);
}

static const char *verified(const struct tt_program *p)
{
    static char why[1024];

    return tt_verify(p, why, sizeof why) == TUTTI_OK ? NULL : why;
}

/* ---- mutations ---- */

enum mutation {
    DROP,
    DOUBLE,
    SWAP,
    MOVE,
    OPERANDS,
    FINISH,
    OPCODE,
    TAG,
    PEER,
    BYTES,
    OFFSET,
    STRIDE,
    BUFFER,
    WAIT_FIRST,
    MUTATIONS
};

static const char *const mutation_names[] = {
    "drop", "double", "swap with the next", "swap with any", "exchange operands", "toggle finish", "opcode", "tag",
    "peer", "bytes", "offset", "stride", "buffer", "both ends wait first",
};

static struct tt_ref *draw_ref(struct tt_step *s, struct tt_prng *p)
{
    switch (tt_prng_below(p, 3)) {
    case 0:
        return &s->out;
    case 1:
        return s->opcode == TT_WAIT ? &s->out : &s->a;
    default:
        return s->opcode == TT_REDUCE_STEP ? &s->b : s->opcode == TT_WAIT ? &s->out : &s->a;
    }
}

/* Returns the first wait for `peer` after step i of rank r in the same round; nsteps[r] if there is
 * none. */
static uint64_t wait_after(const struct tt_program *p, uint32_t r, uint64_t i, uint32_t peer)
{
    const struct tt_step *steps = p->steps[r];
    uint64_t j = i + 1;

    while (j < p->nsteps[r] && steps[j].round == steps[i].round &&
           (steps[j].opcode != TT_WAIT || steps[j].peer != peer))
        j++;
    return j < p->nsteps[r] && steps[j].round == steps[i].round ? j : p->nsteps[r];
}

/* Returns whether a step can be changed like this. */
static bool suits(const struct tt_program *p, uint32_t r, uint64_t i, enum mutation how)
{
    const struct tt_step *s = &p->steps[r][i];

    switch (how) {
    case SWAP: case MOVE:
        return i + 1 < p->nsteps[r];
    case OPERANDS: case FINISH:
        return s->opcode == TT_REDUCE_STEP;
    case TAG: case PEER:
        return s->opcode == TT_PUT || s->opcode == TT_WAIT;
    case BYTES: case OFFSET: case STRIDE: case BUFFER:
        return s->bytes > 0;
    case WAIT_FIRST:
        return s->opcode == TT_PUT && wait_after(p, r, i, s->peer) < p->nsteps[r];
    default:
        return true;
    }
}

static void exchange(void *x, void *y, size_t bytes)
{
    uint8_t held[sizeof(struct tt_step)];

    memcpy(held, x, bytes);
    memcpy(x, y, bytes);
    memcpy(y, held, bytes);
}

/* In the program of rank r, moves the wait for the peer of put i to before the put. */
static void wait_first(struct tt_program *p, uint32_t r, uint64_t i)
{
    struct tt_step *steps = p->steps[r];
    const uint64_t j = wait_after(p, r, i, steps[i].peer);
    const struct tt_step wait = steps[j];

    memmove(&steps[i + 1], &steps[i], (j - i) * sizeof wait);
    steps[i] = wait;
}

/* Returns the first put of rank r to `peer` in a round; nsteps[r] if there is none, or no wait for
 * that peer after it. */
static uint64_t put_to(const struct tt_program *p, uint32_t r, uint32_t peer, uint32_t round)
{
    uint64_t i = 0;

    while (i < p->nsteps[r] && (p->steps[r][i].opcode != TT_PUT || p->steps[r][i].peer != peer ||
                                p->steps[r][i].round != round))
        i++;
    return i < p->nsteps[r] && wait_after(p, r, i, peer) < p->nsteps[r] ? i : p->nsteps[r];
}

/* Changes step i of rank r. */
static void mutate(struct tt_program *p, uint32_t r, uint64_t i, enum mutation how,
                   struct tt_prng *prng)
{
    struct tt_step *steps = p->steps[r], *s = &steps[i];
    const uint32_t elem = p->coll[r].elem_bytes;
    struct tt_ref *ref;

    switch (how) {
    case DROP:
        memmove(s, s + 1, (p->nsteps[r] - i - 1) * sizeof *s);
        p->nsteps[r]--;
        break;
    case DOUBLE:
        steps = realloc(steps, (p->nsteps[r] + 1) * sizeof *steps);
        memmove(steps + i + 1, steps + i, (p->nsteps[r] - i) * sizeof *steps);
        p->steps[r] = steps;
        p->nsteps[r]++;
        break;
    case SWAP:
        exchange(&s[0], &s[1], sizeof *s);
        break;
    case MOVE:
        exchange(&s[0], &s[1 + tt_prng_below(prng, p->nsteps[r] - i - 1)], sizeof *s);
        break;
    case OPCODE:
        s->opcode = (uint8_t)((s->opcode + 1 + tt_prng_below(prng, 3)) % (TT_COPY + 1));
        break;
    case OPERANDS:
        exchange(&s->a, &s->b, sizeof s->a);
        break;
    case FINISH:
        s->finish = !s->finish;
        break;
    case TAG:
        s->tag += 1 + (uint32_t)tt_prng_below(prng, 3);
        break;
    case PEER:
        s->peer = (s->peer + 1 + (uint32_t)tt_prng_below(prng, p->nranks - 1)) % p->nranks;
        break;
    case BYTES:
        s->bytes += tt_prng_below(prng, 2) ? elem : -(uint64_t)elem;
        break;
    case OFFSET:
        draw_ref(s, prng)->offset += (1 + tt_prng_below(prng, 3)) * elem;
        break;
    case STRIDE:
        ref = draw_ref(s, prng);
        ref->stride = ref->block ? ref->stride + elem : 2 * elem;
        ref->block = ref->block ? ref->block : elem;
        break;
    case BUFFER:
        ref = draw_ref(s, prng);
        ref->buf = (uint8_t)((ref->buf + 1 + tt_prng_below(prng, 3)) % TT_BUF_THERE);
        break;
    case WAIT_FIRST: {
        const uint32_t peer = s->peer, round = s->round;
        const uint64_t there = put_to(p, peer, r, round);

        wait_first(p, r, i);
        if (there < p->nsteps[peer])
            wait_first(p, peer, there);
        break;
    }
    case MUTATIONS:
        break;
    }
}

/* Returns whether some order of the steps gives a wrong result. Each run has different inputs, so
 * that a byte that is correct by chance in one is wrong in the next. */
static bool does_harm(const struct case_spec *spec, const struct tt_program *p, char *why,
                      size_t why_bytes)
{
    for (uint32_t i = 0; i < (ORDERS + 1) * MOVES; i++) {
        const struct manner manner = {
            .moves = (enum moves)(i % MOVES),
            .order = (enum order)(i / MOVES % ORDERS),
            .window = 1,
            .seed = spec->seed + i,
        };
        struct case_spec other = *spec;

        other.seed += i;
        if (manner.order == STRAIGHT && manner.moves != AT_ONCE)
            continue;       /* only programs with buffers for their messages can run like this */
        if ((manner.moves != LANDING || !p->direct_unsafe) &&
            !interpret(&other, &calls, p, &manner, why, why_bytes))
            return true;
    }
    return false;
}

/* Draws a suitable step. Returns false if none is found. */
static bool draw_step(const struct tt_program *p, enum mutation how, struct tt_prng *prng,
                      uint32_t *r, uint64_t *i)
{
    for (int tries = 0; tries < 20; tries++) {
        *r = (uint32_t)tt_prng_below(prng, p->nranks);
        *i = p->nsteps[*r] ? tt_prng_below(prng, p->nsteps[*r]) : 0;
        if (p->nsteps[*r] > 0 && suits(p, *r, *i, how))
            return true;
    }
    return false;
}

struct tally {
    uint32_t tried, harmful, caught, harmless_refused;
    uint32_t straight;      /* detected only as a deadlock of the sequential order */
};

/* Builds, changes and checks one program. */
static void try_mutation(const struct case_spec *spec, enum mutation how, struct tt_prng *prng,
                         struct tally *tally)
{
    struct tt_program p;
    uint32_t r;
    uint64_t i;
    char why[256] = "";

    assert_int_equal(tt_program_init(&p, spec->algo, calls.coll, spec->nranks), TUTTI_OK);
    if (draw_step(&p, how, prng, &r, &i)) {
        mutate(&p, r, i, how, prng);

        const char *finding = verified(&p);
        const bool harmful = does_harm(spec, &p, why, sizeof why), refused = finding != NULL;

        if (harmful && !refused)
            case_fail(spec, "accepted though wrong: rank %u step %u: %s: %s", r, (unsigned)i,
                      mutation_names[how], why);
        tally->tried++;
        tally->harmful += harmful;
        tally->caught += harmful && refused;
        tally->straight += harmful && refused && strstr(finding, "program order");
        tally->harmless_refused += !harmful && refused;
    }
    tt_program_fini(&p);
}

/* TUTTI_TEST_LONG=1 tries many more programs, which takes minutes. */
static void every_harmful_mutation_is_noticed(void **state)
{
    const uint64_t nseeds = (case_all() ? 3000000 : 150000) / UNIT_SHARE,
                   first = unit_turn() % UNIT_SHARE * nseeds;
    struct tally tally[MUTATIONS] = { { 0 } }, all = { 0 };

    (void)state;
    for (uint64_t seed = first; seed < first + nseeds; seed++) {
        struct case_spec spec;
        struct tt_prng prng;
        enum mutation how;

        tt_prng_init(&prng, seed);
        if ((case_all() && !unit_part(seed)) || !draw_case(&spec, &prng, seed))
            continue;
        how = (enum mutation)tt_prng_below(&prng, MUTATIONS);
        try_mutation(&spec, how, &prng, &tally[how]);
    }
    for (int how = 0; how < MUTATIONS; how++) {
        const struct tally *t = &tally[how];

        print_message(
            "%-20s %6u tried: %6u harmful, %6u of them noticed; %6u harmless ones refused too\n",
            mutation_names[how], t->tried, t->harmful, t->caught, t->harmless_refused);
        assert_in_range(t->tried, 100 / UNIT_SHARE, nseeds);
        all.tried += t->tried;
        all.harmful += t->harmful;
        all.caught += t->caught;
    }
    print_message("%u of those with both ends waiting first deadlock only step by step\n",
                  tally[WAIT_FIRST].straight);
    assert_in_range(tally[WAIT_FIRST].straight, 100 / UNIT_SHARE, nseeds);
    print_message("of %u harmful ones %u noticed\n", all.harmful, all.caught);
    assert_int_equal(all.caught, all.harmful);
    assert_in_range(all.harmful, all.tried / 2, all.tried);

}

/* No step is redundant. */
static void every_dropped_step_is_noticed(void **state)
{
    uint32_t dropped = 0;

    (void)state;
    for (size_t a = 0; a < tt_nalgos; a++)
        for (uint32_t nranks = 2; nranks <= 7; nranks++) {
            const struct case_spec spec = {
                .algo = tt_algos[a],
                .nranks = nranks,
                .elem_bytes = 4,
                .count = 9,
                .packed = true,
                .seed = a,
                .place = case_is_v(tt_algos[a]->kind) || nranks % 2 ? OUT_OF_PLACE : IN_PLACE,
            };
            struct tt_program p;

            if (!case_exists(&spec) || (spec.algo->kind == TT_BARRIER && (nranks & (nranks - 1))))
                continue;       /* except for powers of two, barriers have redundant messages */
            case_make(&calls, &spec);
            if (!spec.algo->fits(&calls.coll[0]))
                continue;
            assert_int_equal(tt_program_init(&p, spec.algo, calls.coll, nranks), TUTTI_OK);
            for (uint32_t r = 0; r < nranks; r++)
                for (uint64_t i = 0; i < p.nsteps[r]; i++) {
                    const struct tt_step step = p.steps[r][i];

                    mutate(&p, r, i, DROP, NULL);
                    if (!verified(&p))
                        case_fail(&spec, "nobody misses step %u of rank %u", (unsigned)i, r);
                    memmove(&p.steps[r][i + 1], &p.steps[r][i], (p.nsteps[r] - i) * sizeof step);
                    p.steps[r][i] = step;
                    p.nsteps[r]++;
                    dropped++;
                }
            assert_null(verified(&p));
            tt_program_fini(&p);
        }
    assert_in_range(dropped, 1000, 1000000);
}

/* Checks the reference: a wrong program must fail when it runs, otherwise the tests above prove
 * nothing. */
static void running_a_wrong_program_shows(void **state)
{
    const struct case_spec spec = {
        .algo = tt_algo_find(&(struct tt_coll){ .kind = TT_ALLREDUCE, .nranks = 4 }, "ring"),
        .nranks = 4,
        .elem_bytes = 4,
        .count = 8, .packed = true, .seed = 1,
    };
    struct tt_program p;
    char why[256];

    (void)state;
    case_make(&calls, &spec);
    assert_int_equal(tt_program_init(&p, spec.algo, calls.coll, spec.nranks), TUTTI_OK);
    assert_true(interpret(&spec, &calls, &p, &(struct manner){ .window = 1 }, why, sizeof why));
    assert_null(verified(&p));
    for (uint64_t i = 0; i < p.nsteps[1]; i++)
        if (p.steps[1][i].opcode == TT_REDUCE_STEP && p.steps[1][i].b.buf == TT_BUF_SRC) {
            p.steps[1][i].b.offset = (p.steps[1][i].b.offset + 8) % 32;
            break;
        }
    assert_false(interpret(&spec, &calls, &p, &(struct manner){ .window = 1 }, why, sizeof why));
    assert_non_null(verified(&p));
    tt_program_fini(&p);
}

/* In place without pipes: each side's arrival would overwrite data that its own put has not sent
 * yet. */
static void running_into_a_deadlock_shows(void **state)
{
    struct case_spec spec = {
        .algo = tt_algo_find(&(struct tt_coll){ .kind = TT_ALLTOALL, .nranks = 2 }, "direct"),
        .nranks = 2,
        .elem_bytes = 1,
        .count = 3, .packed = true, .place = OUT_OF_PLACE, .seed = 1,
    };
    struct tt_program p;
    char why[256];

    (void)state;
    case_make(&calls, &spec);
    assert_int_equal(tt_program_init(&p, spec.algo, calls.coll, spec.nranks), TUTTI_OK);
    spec.place = IN_PLACE;
    case_make(&calls, &spec);
    for (uint32_t r = 0; r < 2; r++) {
        p.coll[r] = calls.coll[r];
        p.nsteps[r] = 2;        /* without the copy of its own block */
    }
    assert_false(interpret(&spec, &calls, &p, &(struct manner){ .moves = AT_WAIT, .window = 1 },
                           why, sizeof why));
    assert_non_null(strstr(why, "deadlock"));
    assert_non_null(strstr(verified(&p), "deadlock"));
    assert_false(interpret(&spec, &calls, &p, &(struct manner){ .moves = LANDING, .window = 1 },
                           why, sizeof why));

    tt_program_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_harmful_mutation_is_noticed),
        cmocka_unit_test(every_dropped_step_is_noticed),
        cmocka_unit_test(running_a_wrong_program_shows),
        cmocka_unit_test(running_into_a_deadlock_shows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
