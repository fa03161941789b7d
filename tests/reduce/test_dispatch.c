#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/log.h"
#include "reduce/kernels.h"
#include "reduce/reduce.h"
#include "reference.h"
#include "support/unit.h"

/* Gets the name of the implementation selected in a child process with TUTTI_SIMD=value. */
static void isa_with(const char *value, char name[16])
{
    int pipe_fd[2], status;
    ssize_t n;
    pid_t child;

    assert_int_equal(pipe(pipe_fd), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        tt_log_set(TT_LOG_NONE);
        if (value)
            setenv("TUTTI_SIMD", value, 1);
        else
            unsetenv("TUTTI_SIMD");
        n = write(pipe_fd[1], tt_reduce_isa(), strlen(tt_reduce_isa()));
        _exit(n < 0);
    }
    close(pipe_fd[1]);
    n = read(pipe_fd[0], name, 15);
    close(pipe_fd[0]);
    assert_true(waitpid(child, &status, 0) == child && status == 0 && n > 0);
    name[n] = '\0';
}

static void environment_selects_portable_or_best(void **state)
{
    char best[16], name[16];

    (void)state;
    isa_with(NULL, best);
    isa_with("portable", name);
    assert_string_equal(name, "portable");
    isa_with("", name);
    assert_string_equal(name, best);
    isa_with("no such thing", name);
    assert_string_equal(name, best);
    isa_with(best, name);
    assert_string_equal(name, best);
#if defined(__x86_64__)
    assert_string_equal(best, __builtin_cpu_supports("avx2") ? "avx2" : "portable");
#endif
}

static void float_bitwise_operations_are_undefined(void **state)
{
    (void)state;
    for (int type = 0; type < TUTTI_DTYPE_COUNT; type++)
        for (int op = 0; op < TUTTI_REDOP_COUNT; op++) {
            const bool bitwise = op == TUTTI_BAND || op == TUTTI_BOR || op == TUTTI_BXOR;
            const bool defined = !(bitwise && ref_is_float(type));

            assert_int_equal(tt_reduce_defined(type, op), defined);
            for (int finish = 0; finish < 2; finish++) {
                assert_int_equal(tt_reduce_kernel(type, op, finish) != NULL, defined);
                assert_int_equal(tt_kernels_portable.reduce[type][tt_kernel_of(op, finish)] != NULL,
                                 defined);
            }
        }
}

static void unknown_types_have_no_kernel(void **state)
{
    (void)state;
    assert_null(tt_reduce_kernel(TUTTI_DTYPE_COUNT, TUTTI_SUM, false));
    assert_null(tt_reduce_kernel((tutti_dtype)-1, TUTTI_SUM, false));
    assert_null(tt_reduce_kernel(TUTTI_F32, TUTTI_REDOP_COUNT, true));
    assert_null(tt_reduce_kernel(TUTTI_F32, (tutti_redop)1000, true));
    assert_false(tt_reduce_defined((tutti_dtype)99, TUTTI_SUM));
}

static void only_avg_finishes_differently(void **state)
{
    (void)state;
    for (int type = 0; type < TUTTI_DTYPE_COUNT; type++) {
        for (int op = 0; op < TUTTI_REDOP_COUNT; op++)
            assert_int_equal(tt_reduce_kernel(type, op, true) == tt_reduce_kernel(type, op, false),
                             op != TUTTI_AVG);
        assert_true(tt_reduce_kernel(type, TUTTI_AVG, false) ==
                    tt_reduce_kernel(type, TUTTI_SUM, false));
        assert_true(tt_reduce_kernel(type, TUTTI_PREMUL_SUM, false) ==
                    tt_reduce_kernel(type, TUTTI_SUM, false));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment_selects_portable_or_best),
        cmocka_unit_test(float_bitwise_operations_are_undefined),
        cmocka_unit_test(unknown_types_have_no_kernel),
        cmocka_unit_test(only_avg_finishes_differently),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
