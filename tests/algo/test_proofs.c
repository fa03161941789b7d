/* Every algorithm, proven by the verifier. */
#include <stdio.h>
#include <time.h>
#include "support/cases.h"
#include "sched/verify.h"
#include "support/unit.h"

static void prove(const struct case_spec *spec, const struct case_calls *calls)
{
    struct tt_program p;
    char why[1024] = "";

    assert_int_equal(tt_program_init(&p, spec->algo, calls->coll, spec->nranks), TUTTI_OK);
    if (tt_verify(&p, why, sizeof why) != TUTTI_OK)
        case_fail(spec, "%s", why);
    tt_program_fini(&p);
}

static void every_algorithm_is_proven_for_1_to_17_ranks_and_awkward_sizes(void **state)
{
    static const uint64_t counts[] = { 0, 1, 7, 4096, 65537 };

    (void)state;
    assert_in_range(case_for_each(17, counts, 5, 1, prove), 10000, 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_is_proven_for_1_to_17_ranks_and_awkward_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
