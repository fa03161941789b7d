/* The verifier notices every change to a program that changes its result: programs altered at random that it still
 * accepts are run on real memory and must be right. */
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
        .algo = tt_algos[tt_prng_below(p, tt_nalgos)], .nranks = 2 + (uint32_t)tt_prng_below(p, 7),
        .elem_bytes = 1u << tt_prng_below(p, 3), .count = 1 + tt_prng_below(p, 12),
        .place = (enum case_place)tt_prng_below(p, CASE_PLACES), .packed = tt_prng_below(p, 2), .seed = seed,
    };
    spec->root = (uint32_t)tt_prng_below(p, spec->nranks);
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

/* ---- mutations ------------------------------------------------------------------------------------------ */

enum mutation { DROP, DOUBLE, SWAP, OPERANDS, FINISH, TAG, PEER, BYTES, OFFSET, BUFFER, MUTATIONS };

static const char *const mutation_names[] = {
    "drop", "double", "swap with the next", "exchange operands", "toggle finish", "tag", "peer", "bytes", "offset",
    "buffer",
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

/* Whether a step can be changed so. */
static bool suits(const struct tt_program *p, uint32_t r, uint64_t i, enum mutation how)
{
    const struct tt_step *s = &p->steps[r][i];

    switch (how) {
    case DROP:      /* unless a power of two, barriers hear some things twice */
        return p->coll[r].kind != TT_BARRIER || (p->nranks & (p->nranks - 1)) == 0;
    case SWAP:
        return i + 1 < p->nsteps[r];
    case OPERANDS: case FINISH:
        return s->opcode == TT_REDUCE_STEP;
    case TAG: case PEER:
        return s->opcode == TT_PUT || s->opcode == TT_WAIT;
    case BYTES: case OFFSET: case BUFFER:
        return s->bytes > 0;
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

/* Changes step i of rank r. */
static void mutate(struct tt_program *p, uint32_t r, uint64_t i, enum mutation how, struct tt_prng *prng)
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
    case BUFFER:
        ref = draw_ref(s, prng);
        ref->buf = (uint8_t)((ref->buf + 1 + tt_prng_below(prng, 3)) % TT_BUF_THERE);
        break;
    case MUTATIONS:
        break;
    }
}

static void run_accepted(const struct case_spec *spec, const struct tt_program *p, const char *what)
{
    char why[256];

    for (int moves = 0; moves < MOVES; moves++)
        if (!interpret(spec, &calls, p, (enum moves)moves, 1, why, sizeof why))
            case_fail(spec, "accepted though wrong: %s: %s", what, why);
}

/* Draws a step that suits; false if there is none where it looks. */
static bool draw_step(const struct tt_program *p, enum mutation how, struct tt_prng *prng, uint32_t *r, uint64_t *i)
{
    for (int tries = 0; tries < 20; tries++) {
        *r = (uint32_t)tt_prng_below(prng, p->nranks);
        *i = p->nsteps[*r] ? tt_prng_below(prng, p->nsteps[*r]) : 0;
        if (p->nsteps[*r] > 0 && suits(p, *r, *i, how))
            return true;
    }
    return false;
}

/* Builds, changes and judges one program. */
static void try_mutation(const struct case_spec *spec, enum mutation how, struct tt_prng *prng, uint32_t *tried,
                         uint32_t *noticed)
{
    struct tt_program p;
    uint32_t r;
    uint64_t i;
    char what[128];

    assert_int_equal(tt_program_init(&p, spec->algo, calls.coll, spec->nranks), TUTTI_OK);
    if (draw_step(&p, how, prng, &r, &i)) {
        snprintf(what, sizeof what, "rank %u step %u: %s", r, (unsigned)i, mutation_names[how]);
        mutate(&p, r, i, how, prng);
        tried[how]++;
        if (verified(&p))
            noticed[how]++;
        else
            run_accepted(spec, &p, what);
    }
    tt_program_fini(&p);
}

static void every_mutation_that_changes_a_result_is_noticed(void **state)
{
    uint32_t tried[MUTATIONS] = { 0 }, noticed[MUTATIONS] = { 0 };

    (void)state;
    for (uint64_t seed = 0; seed < 30000; seed++) {
        struct case_spec spec;
        struct tt_prng prng;

        tt_prng_init(&prng, seed);
        if (draw_case(&spec, &prng, seed))
            try_mutation(&spec, (enum mutation)tt_prng_below(&prng, MUTATIONS), &prng, tried, noticed);
    }
    for (int how = 0; how < MUTATIONS; how++) {
        print_message("%-20s %5u tried, %5u noticed\n", mutation_names[how], tried[how], noticed[how]);
        assert_in_range(tried[how], 100, 30000);
        assert_in_range(noticed[how], 100, tried[how]);
    }
    assert_int_equal(noticed[DROP], tried[DROP]);
    assert_int_equal(noticed[TAG], tried[TAG]);
    assert_int_equal(noticed[OPERANDS], tried[OPERANDS]);
    assert_int_equal(noticed[FINISH], tried[FINISH]);
    assert_int_equal(noticed[BYTES], tried[BYTES]);
}

/* No step is there for nothing. */
static void dropping_any_step_of_any_program_is_noticed(void **state)
{
    uint32_t dropped = 0;

    (void)state;
    for (size_t a = 0; a < tt_nalgos; a++)
        for (uint32_t nranks = 2; nranks <= 7; nranks++) {
            const struct case_spec spec = {
                .algo = tt_algos[a], .nranks = nranks, .elem_bytes = 4, .count = 9, .packed = true, .seed = a,
                .place = case_is_v(tt_algos[a]->kind) || nranks % 2 ? OUT_OF_PLACE : IN_PLACE,
            };
            struct tt_program p;

            if (!case_exists(&spec) || (spec.algo->kind == TT_BARRIER && (nranks & (nranks - 1))))
                continue;       /* see suits() */
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

/* The canary: a wrong program must be seen to be wrong when it runs, or the tests above prove nothing. */
static void running_a_wrong_program_shows(void **state)
{
    const struct case_spec spec = {
        .algo = tt_algo_find(&(struct tt_coll){ .kind = TT_ALLREDUCE, .nranks = 4 }, "ring"), .nranks = 4,
        .elem_bytes = 4,
        .count = 8, .packed = true, .seed = 1,
    };
    struct tt_program p;
    char why[256];

    (void)state;
    case_make(&calls, &spec);
    assert_int_equal(tt_program_init(&p, spec.algo, calls.coll, spec.nranks), TUTTI_OK);
    assert_true(interpret(&spec, &calls, &p, AT_ONCE, 1, why, sizeof why));
    assert_null(verified(&p));
    for (uint64_t i = 0; i < p.nsteps[1]; i++)
        if (p.steps[1][i].opcode == TT_REDUCE_STEP && p.steps[1][i].b.buf == TT_BUF_SRC) {
            p.steps[1][i].b.offset = (p.steps[1][i].b.offset + 8) % 32;
            break;
        }
    assert_false(interpret(&spec, &calls, &p, AT_ONCE, 1, why, sizeof why));
    assert_non_null(verified(&p));
    tt_program_fini(&p);
}

/* In place without pipes: each side's arrival would overwrite what its own put has not given away yet. */
static void running_into_a_deadlock_shows(void **state)
{
    struct case_spec spec = {
        .algo = tt_algo_find(&(struct tt_coll){ .kind = TT_ALLTOALL, .nranks = 2 }, "direct"), .nranks = 2,
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
    assert_false(interpret(&spec, &calls, &p, AT_WAIT, 1, why, sizeof why));
    assert_non_null(strstr(why, "deadlock"));
    assert_non_null(strstr(verified(&p), "deadlock"));
    assert_false(interpret(&spec, &calls, &p, LANDING, 1, why, sizeof why));    /* nor may it land early */
    tt_program_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mutation_that_changes_a_result_is_noticed),
        cmocka_unit_test(dropping_any_step_of_any_program_is_noticed),
        cmocka_unit_test(running_a_wrong_program_shows),
        cmocka_unit_test(running_into_a_deadlock_shows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
