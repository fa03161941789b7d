/* The representative rank of a host is found by ranks that start in sequence or concurrently. */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "boot/auth.h"
#include "boot/samehost.h"
#include "support/unit.h"

#define NRANKS 8

static _Atomic uint32_t nconnects;

/* Replaces the function of the C library in this program, and counts its calls. */
int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    nconnects++;
    return (int)syscall(SYS_connect, fd, address, bytes);
}

struct rank {
    pthread_t thread;
    struct tt_samehost_conf conf;
    struct tt_samehost found;
};

static void *find(void *arg)
{
    struct rank *r = arg;

    tt_samehost_find(&r->found, &r->conf);
    return NULL;
}

static void ranks_init(struct rank *ranks, const uint8_t *gathering)
{
    for (uint32_t i = 0; i < NRANKS; i++)
        ranks[i] = (struct rank){ .conf = { .token = "t",
                                            .gathering = gathering,
                                            .rank = i,
                                            .nranks = NRANKS,
                                            .deadline_ns = TT_NEVER } };
}

static void ranks_fini(struct rank *ranks)
{
    for (uint32_t i = 0; i < NRANKS; i++)
        tt_samehost_fini(&ranks[i].found);
}

static void ranks_fini_some(struct rank *ranks, const uint32_t *some, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        tt_samehost_fini(&ranks[some[i]].found);
}

static void first_rank_represents_the_host(void **state)
{
    uint8_t gathering[TT_NONCE_BYTES];
    struct rank ranks[NRANKS];

    (void)state;
    tt_random_bytes(gathering, sizeof gathering);
    ranks_init(ranks, gathering);
    for (uint32_t i = 0; i < NRANKS; i++) {
        const uint32_t r = (i + 5) % NRANKS;

        find(&ranks[r]);
        assert_int_equal(ranks[r].found.holder, 5);
    }
    ranks_fini(ranks);
    find(&ranks[2]);        /* the names are free again */
    assert_int_equal(ranks[2].found.holder, 2);
    tt_samehost_fini(&ranks[2].found);
}

static void concurrent_ranks_agree(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        uint8_t gathering[TT_NONCE_BYTES];
        struct rank ranks[NRANKS];

        tt_random_bytes(gathering, sizeof gathering);
        ranks_init(ranks, gathering);
        for (uint32_t i = 0; i < NRANKS; i++)
            assert_int_equal(pthread_create(&ranks[i].thread, NULL, find, &ranks[i]), 0);
        for (uint32_t i = 0; i < NRANKS; i++)
            pthread_join(ranks[i].thread, NULL);
        for (uint32_t i = 1; i < NRANKS; i++)
            assert_int_equal(ranks[i].found.holder, ranks[0].found.holder);
        ranks_fini(ranks);
    }
}

static void other_jobs_have_separate_hosts(void **state)
{
    uint8_t gathering[TT_NONCE_BYTES];
    struct rank ranks[NRANKS];

    (void)state;
    tt_random_bytes(gathering, sizeof gathering);
    ranks_init(ranks, gathering);
    find(&ranks[0]);
    ranks[1].conf.token = "u";
    find(&ranks[1]);
    assert_int_equal(ranks[1].found.holder, 1);
    tt_samehost_fini(&ranks[0].found);
    tt_samehost_fini(&ranks[1].found);
}

/* The cost does not depend on the distance of the two ranks, or on the bits in their numbers. */
static void any_rank_is_found_with_logarithmic_cost(void **state)
{
    static const uint32_t holders[] = { 0, 1, 6, 127, 1 << 16, (1 << 20) - 1, 0xaaaaa, 0x55555 };
    uint8_t gathering[TT_NONCE_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof holders / sizeof *holders; i++) {
        struct rank ranks[NRANKS];

        tt_random_bytes(gathering, sizeof gathering);
        ranks_init(ranks, gathering);
        ranks[0].conf.nranks = ranks[1].conf.nranks = 1 << 20;
        ranks[0].conf.rank = holders[i];
        ranks[1].conf.rank = holders[i] < 500000 ? 999999 : 2;
        find(&ranks[0]);
        assert_int_equal(ranks[0].found.holder, holders[i]);
        nconnects = 0;
        find(&ranks[1]);
        assert_int_equal(ranks[1].found.holder, holders[i]);
        assert_in_range(nconnects, 1, 21);
        tt_samehost_fini(&ranks[0].found);
        tt_samehost_fini(&ranks[1].found);
    }
}

/* Ranks with one or two set bits can bind some names, but not all of them. */
static void representative_without_all_names_is_not_found(void **state)
{
    uint8_t gathering[TT_NONCE_BYTES];

    (void)state;
    tt_log_set(TT_LOG_NONE);
    for (uint32_t nfree = 1; nfree < 5; nfree++) {
        struct rank ranks[NRANKS];
        struct rlimit before, some;

        tt_random_bytes(gathering, sizeof gathering);
        ranks_init(ranks, gathering);
        before = unit_descriptors_end();
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &some), 0);
        some.rlim_cur += nfree;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &some), 0);
        find(&ranks[3]);    /* needs five descriptors: "first", the listener, two bits, its own
                               name */
        unit_descriptors_again(&before);
        assert_int_equal(ranks[3].found.holder, 3);
        assert_int_equal(ranks[3].found.listener, -1);
        find(&ranks[6]);
        find(&ranks[5]);
        assert_int_equal(ranks[6].found.holder, 6);
        assert_int_equal(ranks[5].found.holder, 6);
        ranks_fini_some(ranks, (const uint32_t[]){ 3, 5, 6 }, 3);
    }
}

/* A rank with one free descriptor binds the first name, but not its own. */
static void unfindable_rank_yields_the_role(void **state)
{
    uint8_t gathering[TT_NONCE_BYTES];
    struct rank ranks[NRANKS];
    struct unit_stderr caught;
    struct rlimit before, one;
    char text[1024];

    (void)state;
    tt_random_bytes(gathering, sizeof gathering);
    ranks_init(ranks, gathering);
    unit_stderr_catch(&caught);
    tt_log_set(TT_LOG_WARN);
    before = unit_descriptors_end();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &one), 0);
    one.rlim_cur++;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &one), 0);
    find(&ranks[0]);
    unit_descriptors_again(&before);
    tt_log_set(TT_LOG_NONE);
    unit_stderr_release(&caught, text, sizeof text);
    assert_int_equal(ranks[0].found.holder, 0);
    find(&ranks[1]);
    find(&ranks[2]);
    assert_int_equal(ranks[1].found.holder, 1);
    assert_int_equal(ranks[2].found.holder, 1);
    assert_non_null(strstr(text, "cannot bind an abstract Unix socket (Too many open files)"));
    for (uint32_t r = 0; r < 3; r++)
        tt_samehost_fini(&ranks[r].found);
}

static void another_network_namespace_is_another_host(void **state)
{
    uint8_t gathering[TT_NONCE_BYTES];
    struct rank ranks[NRANKS];
    int status;
    pid_t pid;

    (void)state;
    tt_random_bytes(gathering, sizeof gathering);
    ranks_init(ranks, gathering);
    find(&ranks[0]);
    pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNET) != 0)
            _exit(77);
        find(&ranks[1]);
        _exit(ranks[1].found.holder == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    tt_samehost_fini(&ranks[0].found);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_rank_represents_the_host),
        cmocka_unit_test(concurrent_ranks_agree),
        cmocka_unit_test(other_jobs_have_separate_hosts),
        cmocka_unit_test(any_rank_is_found_with_logarithmic_cost),
        cmocka_unit_test(representative_without_all_names_is_not_found),
        cmocka_unit_test(unfindable_rank_yields_the_role),
        cmocka_unit_test(another_network_namespace_is_another_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
