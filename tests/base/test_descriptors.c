#include "base/descriptors.h"

#include <sys/resource.h>
#include <unistd.h>
#include "support/unit.h"

static void set_limit(rlim_t soft)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = soft;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static rlim_t soft_limit(void)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur;
}

/* Opens the descriptors from 3 on until none is left. */
static void free_count_matches_possible_opens(void **state)
{
    static const rlim_t limits[] = { 16, 255, 256, 257, 700 };
    int fds[1024];

    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        uint32_t n = 0, said;

        set_limit(limits[i]);
        said = tt_descriptors_free(10000);
        assert_int_equal(tt_descriptors_free(5), 5);
        while ((fds[n] = dup(STDERR_FILENO)) >= 0) {
            n++;
            assert_int_equal(tt_descriptors_free(10000), said - n);
        }
        assert_int_equal(n, said);
        assert_int_equal(tt_descriptors_free(5), 0);
        close(fds[n / 2]);
        assert_int_equal(tt_descriptors_free(5), 1);
        for (uint32_t k = 0; k < n; k++)
            if (k != n / 2)
                close(fds[k]);
    }
}

static void the_soft_limit_is_raised_once(void **state)
{
    struct rlimit limit;
    rlim_t most;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    most = limit.rlim_max < 1u << 20 ? limit.rlim_max : 1u << 20;
    set_limit(64);
    tt_descriptors_raise();
    assert_int_equal(soft_limit(), most);
    set_limit(64);
    tt_descriptors_raise();
    assert_int_equal(soft_limit(), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_count_matches_possible_opens),
        cmocka_unit_test(the_soft_limit_is_raised_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
