/* The launchers' key-value stores, with a PMIx and a PMI library of this test: which store is used,
 * and concurrent use by several threads. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

#define tt_pmix_broadcast fake_pmix_tell
#define tt_pmi1_broadcast fake_pmi1_tell
#define tt_pmi1_join fake_pmi1_join
#include "boot/kv.c"
#undef tt_pmix_broadcast
#undef tt_pmi1_broadcast
#undef tt_pmi1_join

#include "support/unit.h"

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static bool silent;             /* PMI does not respond */
static unsigned npmix, npmi;    /* number of calls so far */

static tutti_status respond(void)
{
    pthread_mutex_lock(&gate);
    npmi++;
    pthread_cond_broadcast(&change);
    while (silent)
        pthread_cond_wait(&change, &gate);
    pthread_mutex_unlock(&gate);
    return TUTTI_OK;
}

tutti_status fake_pmix_tell(uint32_t rank, char *value, size_t cap, unsigned timeout_s,
                            bool *not_all)
{
    (void)rank, (void)timeout_s, (void)not_all;
    npmix++;
    snprintf(value, cap, "pmix");
    return TUTTI_OK;
}

tutti_status fake_pmi1_tell(uint32_t rank, char *value, size_t cap, uint64_t deadline_ns)
{
    (void)rank, (void)deadline_ns;
    snprintf(value, cap, "pmi");
    return respond();
}

tutti_status fake_pmi1_join(uint32_t *rank, uint32_t *nranks, uint64_t deadline_ns)
{
    (void)deadline_ns;
    *rank = 1;
    *nranks = 2;
    return respond();
}

static void set_silent(bool silent_now)
{
    pthread_mutex_lock(&gate);
    silent = silent_now;
    npmi = npmix = 0;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&gate);
}

static void await_call(void)
{
    pthread_mutex_lock(&gate);
    while (npmi == 0)
        pthread_cond_wait(&change, &gate);
    pthread_mutex_unlock(&gate);
}

static int begin(void **state)
{
    (void)state;
    tt_kv_reset();
    queried_nranks = 0;
    set_silent(false);
    setenv("PMI_PORT", "host:4711", 1);
    return setenv("PMI_ID", "1", 1);
}

static int end(void **state)
{
    (void)state;
    unsetenv("PMIX_NAMESPACE");
    unsetenv("PMI_PORT");
    return unsetenv("PMI_ID");
}

static tutti_status exchange_as(const char *launcher, uint64_t deadline_ns, struct tt_launch *out)
{
    int listener;

    *out = (struct tt_launch){ .rank = 1, .nranks = 2, .launcher = launcher };
    return tt_kv_rendezvous(out, &listener, &deadline_ns);
}

static void *exchange_thread(void *arg)
{
    struct tt_launch launch;

    (void)arg;
    return exchange_as("mpich", TT_NEVER, &launch) == TUTTI_OK ? NULL : &silent;
}

static void *launch_whenever(void *arg)
{
    const tutti_conf conf = { .size = sizeof conf, .timeout_ms = -1 };
    struct tt_launch launch;

    (void)arg;
    return tt_boot_launch(&launch, &conf) == TUTTI_OK ? NULL : &silent;
}

static void exchange_wait_respects_own_deadline(void **state)
{
    struct tt_launch launch;
    pthread_t thread;
    void *failed;

    (void)state;
    set_silent(true);
    assert_int_equal(pthread_create(&thread, NULL, exchange_thread, NULL), 0);
    await_call();
    assert_int_equal(exchange_as("mpich", tt_now_ns() + 10 * TT_MS, &launch), TUTTI_ERR_TIMEOUT);
    assert_non_null(strstr(tutti_last_error(), "already in progress"));
    set_silent(false);
    pthread_join(thread, &failed);
    assert_null(failed);
    /* an immediate deadline suffices if the lock is free */
    assert_int_equal(exchange_as("mpich", tt_now_ns(), &launch), TUTTI_OK);
    assert_string_equal(launch.rendezvous, "pmi");
}

static void query_wait_respects_own_deadline(void **state)
{
    const tutti_conf conf = { .size = sizeof conf, .timeout_ms = 10 };
    struct tt_launch launch;
    pthread_t thread;
    void *failed;

    (void)state;
    set_silent(true);
    assert_int_equal(pthread_create(&thread, NULL, launch_whenever, NULL), 0);
    await_call();
    assert_int_equal(tt_boot_launch(&launch, &conf), TUTTI_ERR_TIMEOUT);
    set_silent(false);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(tt_boot_launch(&launch, &conf), TUTTI_OK);
    assert_int_equal(launch.nranks, 2);
}

/* The PMIx server of an outer launcher is not used, because it serves other ranks. */
static void server_of_the_rank_is_used(void **state)
{
    struct tt_launch launch;

    (void)state;
    setenv("PMIX_NAMESPACE", "outer", 1);
    assert_int_equal(exchange_as("mpich", TT_NEVER, &launch), TUTTI_OK);
    assert_string_equal(launch.rendezvous, "pmi");
    assert_int_equal(npmix, 0);
    tt_kv_reset();
    assert_int_equal(exchange_as("openmpi", TT_NEVER, &launch), TUTTI_OK);
    assert_string_equal(launch.rendezvous, "pmix");
    assert_int_equal(npmi, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exchange_wait_respects_own_deadline, begin, end),
        cmocka_unit_test_setup_teardown(query_wait_respects_own_deadline, begin, end),
        cmocka_unit_test_setup_teardown(server_of_the_rank_is_used, begin, end),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
