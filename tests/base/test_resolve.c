/* The resolver, with a getaddrinfo of this test: a query can be left unanswered until the test
 * answers it. */
#include <dirent.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"

static int fake_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                            struct addrinfo **out);
static uint32_t fake_forks(void);
static uint64_t fake_now_ns(void);
static int fake_poll(struct pollfd *p, nfds_t n, int timeout_ms);
static void interfere(void);
#undef atomic_load
#undef atomic_store
#undef atomic_exchange
#undef atomic_compare_exchange_weak
#define atomic_load(a) (interfere(), atomic_load_explicit(a, memory_order_seq_cst))
#define atomic_store(a, v) (interfere(), atomic_store_explicit(a, v, memory_order_seq_cst))
#define atomic_exchange(a, v) (interfere(), atomic_exchange_explicit(a, v, memory_order_seq_cst))
#define atomic_compare_exchange_weak(a, e, v) \
    (interfere(),                             \
     atomic_compare_exchange_weak_explicit(a, e, v, memory_order_seq_cst, memory_order_seq_cst))
#define getaddrinfo fake_getaddrinfo
#define tt_forks fake_forks
#define tt_now_ns fake_now_ns
#define poll fake_poll
#include "base/resolve.c"
#undef getaddrinfo
#undef tt_forks
#undef tt_now_ns
#undef poll

#include "support/unit.h"

#define PATIENCE_NS (120 * TT_SECOND)   /* never reached on success */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static unsigned asked, waiting;     /* number of queries so far, and of unanswered ones */
static bool silent;                 /* the name servers do not reply */
static unsigned generation;         /* incremented by set_servers: pending queries are answered
                                       as well */
static int failure;                 /* reply of the servers if not silent; 0: an address */
static int failures_left = -1;      /* number of such replies; -1: unlimited */

static atomic_uint more_forks;         /* as if the process were a child after this number of
                                          additional forks */
static _Atomic uint64_t later_ns;       /* offset of the clock */
static _Atomic uint64_t question_ns;            /* duration of a query by that clock */
static uint64_t paused_ns;              /* duration of the last pauses without a descriptor, if
                                           skips_pauses */
static bool skips_pauses;

static uint32_t fake_forks(void)
{
    return tt_forks() + atomic_load(&more_forks);
}

static uint64_t fake_now_ns(void)
{
    return tt_now_ns() + atomic_load(&later_ns);
}

static int fake_poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
    if (p || !skips_pauses)
        return poll(p, n, timeout_ms);
    paused_ns = (uint64_t)timeout_ms * TT_MS;
    atomic_fetch_add(&later_ns, paused_ns);
    return 0;
}

static _Thread_local unsigned interferes_at;    /* the other thread runs before this thread's next
                                                   atomic operation of this index, from 1; 0:
                                                   never */

/* Runs the actions of another thread if the selected atomic operation is next. */
static void interfere(void)
{
    if (interferes_at && --interferes_at == 0)
        reserve_helper();
}

static unsigned nhelpers(void)
{
    return (unsigned)(atomic_load(&helpers) & UINT32_MAX);
}

static int literal(const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    struct addrinfo numbers = *hints;

    numbers.ai_flags |= AI_NUMERICHOST;
    return getaddrinfo("192.0.2.7", port, &numbers, out);
}

static int fake_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                            struct addrinfo **out)
{
    bool was_silent;
    unsigned mine;
    int err;

    if (!host || (hints->ai_flags & AI_NUMERICHOST))
        return getaddrinfo(host, port, hints, out);
    pthread_mutex_lock(&lock);
    asked++;
    waiting++;
    mine = generation;
    was_silent = silent;
    pthread_cond_broadcast(&change);
    while (was_silent && generation == mine)
        pthread_cond_wait(&change, &lock);
    err = failures_left ? failure : 0;
    failures_left -= failures_left > 0;
    waiting--;
    atomic_fetch_add(&later_ns, question_ns);
    pthread_mutex_unlock(&lock);
    return err ? err : literal(port, hints, out);
}

/* Sets the replies of servers from now on; pending queries are answered, too. */
static void set_servers(bool silent_now, int failure_now)
{
    pthread_mutex_lock(&lock);
    silent = silent_now;
    failure = failure_now;
    failures_left = -1;
    generation++;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
}

static unsigned questions(void)
{
    unsigned n;

    pthread_mutex_lock(&lock);
    n = asked;
    pthread_mutex_unlock(&lock);
    return n;
}

/* Waits until all helpers have ended: none may remain for the next test. */
static void await_no_helper(void)
{
    const uint64_t end_ns = tt_now_ns() + PATIENCE_NS;

    while (nhelpers() > 0) {
        assert_true(tt_now_ns() < end_ns);
        poll(NULL, 0, 1);
    }
}

static int answer_all(void **state)
{
    (void)state;
    set_servers(false, 0);
    await_no_helper();
    return 0;
}

static tutti_status resolve_within(int64_t ms, bool retry, struct addrinfo **list, const char **why)
{
    return tt_resolve("host", "4711", 0, retry, tt_deadline_ns(fake_now_ns(), ms), list, why);
}

static void check_address(struct addrinfo *list)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)list->ai_addr;

    assert_int_equal(list->ai_family, AF_INET);
    assert_int_equal(ntohs(in->sin_port), 4711);
    assert_int_equal(ntohl(in->sin_addr.s_addr), 0xc0000207);
    freeaddrinfo(list);
}

static void a_name_is_resolved(void **state)
{
    struct addrinfo *list = NULL;
    const char *why;

    (void)state;
    assert_int_equal(resolve_within(-1, false, &list, &why), TUTTI_OK);
    check_address(list);
}

static void literal_addresses_need_no_thread(void **state)
{
    static const char *const hosts[] = { "192.0.2.7", "2001:db8::7", NULL };
    const unsigned before = questions();
    struct addrinfo *list = NULL;
    const char *why;

    (void)state;
    set_servers(true, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tt_resolve(hosts[i], "1", AI_PASSIVE, false, 0, &list, &why), TUTTI_OK);
        freeaddrinfo(list);
    }
    assert_int_equal(nhelpers(), 0);
    assert_int_equal(questions(), before);
}

static void silent_servers_time_out(void **state)
{
    struct addrinfo *list = NULL;
    const char *why;

    (void)state;
    set_servers(true, 0);
    assert_int_equal(resolve_within(20, true, &list, &why), TUTTI_ERR_TIMEOUT);
    assert_string_equal(why, "no answer before the deadline");
}

/* The first query stays unanswered; later ones are answered. */
static void *make_it_appear(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    while (waiting == 0)
        pthread_cond_wait(&change, &lock);
    silent = false;             /* for later queries: the pending one stays pending */
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void name_appearing_during_silence_is_found(void **state)
{
    struct addrinfo *list = NULL;
    const char *why;
    pthread_t thread;
    unsigned before;

    (void)state;
    set_servers(true, 0);
    before = questions();
    assert_int_equal(pthread_create(&thread, NULL, make_it_appear, NULL), 0);
    assert_int_equal(tt_resolve("host", "4711", 0, false, fake_now_ns() + PATIENCE_NS, &list, &why),
                     TUTTI_OK);
    check_address(list);
    pthread_join(thread, NULL);
    assert_true(questions() >= before + 2);
}

static void the_number_of_helpers_is_bounded(void **state)
{
    struct addrinfo *list = NULL;
    const char *why;

    (void)state;
    set_servers(true, 0);
    for (unsigned i = 0; i < 3 * TT_LOOKUP_HELPERS_MAX; i++)
        assert_int_equal(resolve_within(1, false, &list, &why), TUTTI_ERR_TIMEOUT);
    assert_int_equal(nhelpers(), TT_LOOKUP_HELPERS_MAX);
    set_servers(false, 0);
    await_no_helper();
    assert_int_equal(resolve_within(-1, false, &list, &why), TUTTI_OK);
    check_address(list);
}

#ifndef __SANITIZE_THREAD__
static unsigned threads_of_process(void)
{
    DIR *d = opendir("/proc/self/task");
    unsigned n = 0;

    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Waits until the only threads are this one and n helpers that wait for an answer. A thread that
 * starts or ends may hold a lock of the C library or of the sanitizer, and a fork at that moment
 * would leave the lock taken in the child. */
static void await_waiting_helpers(unsigned n)
{
    const uint64_t end_ns = tt_now_ns() + PATIENCE_NS;

    pthread_mutex_lock(&lock);
    while (waiting < n)
        pthread_cond_wait(&change, &lock);
    pthread_mutex_unlock(&lock);
    while (threads_of_process() > n + 1) {
        assert_true(tt_now_ns() < end_ns);
        poll(NULL, 0, 1);
    }
}

/* The child has none of the parent's threads, so none counts there. */
static void child_of_fork_has_own_helpers(void **state)
{
    struct addrinfo *list = NULL;
    const char *why;
    int status;
    pid_t child;

    (void)state;
    set_servers(true, 0);
    for (unsigned i = 0; i < TT_LOOKUP_HELPERS_MAX; i++)
        assert_int_equal(resolve_within(1, false, &list, &why), TUTTI_ERR_TIMEOUT);
    await_waiting_helpers(TT_LOOKUP_HELPERS_MAX);
    pthread_mutex_lock(&lock);      /* no helper holds it in the child */
    child = fork();
    pthread_mutex_unlock(&lock);
    assert_true(child >= 0);
    if (child == 0) {
        silent = false;
        pthread_cond_init(&change, NULL);   /* the copy counts waiting threads that the child
                                               does not have, and may block */
        alarm(120);
        _exit(resolve_within(-1, false, &list, &why) == TUTTI_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

/* In the child of a fork, threads start to count concurrently: none may clear the count of another.
 * The second thread counts between two atomic operations of the first, at each position in turn. */
static void concurrent_counts_after_fork_are_kept(void **state)
{
    unsigned nplaces = 0, n;

    (void)state;
    for (bool all = false; !all; nplaces++) {
        atomic_fetch_add(&more_forks, 1);
        interferes_at = nplaces + 1;
        assert_true(reserve_helper());
        all = interferes_at > 0;        /* the first thread has fewer operations: the second counts
                                           afterwards */
        interferes_at = 0;
        if (all)
            reserve_helper();
        n = nhelpers();
        atomic_fetch_sub(&helpers, n);
        assert_int_equal(n, 2);
    }
    assert_true(nplaces > 2);
}

/* A lookup that could not start its query has not timed out: it looks for a free helper four times
 * a second. */
static void lookup_without_helper_retries_soon(void **state)
{
    struct addrinfo *list = NULL;
    struct tt_lookup *l;
    const char *why;
    uint64_t now_ns = TT_SECOND;
    unsigned before;

    (void)state;
    set_servers(true, 0);
    for (unsigned i = 0; i < TT_LOOKUP_HELPERS_MAX; i++)
        assert_int_equal(resolve_within(1, false, &list, &why), TUTTI_ERR_TIMEOUT);
    l = tt_lookup_begin("host", "1", 0, now_ns);
    assert_non_null(l);
    for (int i = 0; i < 20; i++) {
        assert_true(tt_lookup_wake_ns(l) <= now_ns + PAUSE_NS);
        now_ns = tt_lookup_wake_ns(l);
        assert_false(tt_lookup_step(l, now_ns));
    }
    set_servers(false, 0);      /* queries that start later are answered, too */
    await_no_helper();
    set_servers(true, 0);
    before = questions();
    now_ns = tt_lookup_wake_ns(l);
    tt_lookup_step(l, now_ns);
    /* the thread has started its query */
    assert_int_equal(tt_lookup_wake_ns(l), now_ns + AGAIN_FIRST_NS);
    for (const uint64_t end_ns = tt_now_ns() + PATIENCE_NS; questions() == before;)
        assert_true(tt_now_ns() < end_ns);
    tt_lookup_end(l);
}

static void pause_ends_at_the_deadline(void **state)
{
    const uint64_t deadline_ns = fake_now_ns() + 100 * TT_SECOND;
    struct addrinfo *list = NULL;
    const char *why;

    (void)state;
    set_servers(false, EAI_AGAIN);
    question_ns = 100 * TT_SECOND - 2 * PAUSE_NS / 3;
    skips_pauses = true;
    assert_int_equal(tt_resolve("host", "4711", 0, true, deadline_ns, &list, &why),
                     TUTTI_ERR_TIMEOUT);
    skips_pauses = false;
    question_ns = 0;
    assert_true(paused_ns <= 2 * PAUSE_NS / 3);
}

static void only_temporary_failures_are_retried(void **state)
{
    struct addrinfo *list = NULL;
    const char *why;
    unsigned before;

    (void)state;
    set_servers(false, EAI_NONAME);
    assert_int_equal(resolve_within(-1, true, &list, &why), TUTTI_ERR_INVALID);
    assert_string_equal(why, gai_strerror(EAI_NONAME));
    set_servers(false, EAI_AGAIN);
    assert_int_equal(resolve_within(-1, false, &list, &why), TUTTI_ERR_SYSTEM);
    assert_string_equal(why, gai_strerror(EAI_AGAIN));
    assert_int_equal(resolve_within(1, true, &list, &why), TUTTI_ERR_TIMEOUT);
    await_no_helper();      /* the lookup that timed out may have left one, which must not consume a
                               failure */
    before = questions();
    pthread_mutex_lock(&lock);
    failures_left = 2;
    pthread_mutex_unlock(&lock);
    assert_int_equal(resolve_within(-1, true, &list, &why), TUTTI_OK);
    check_address(list);
    assert_true(questions() >= before + 3);
}

/* Whether the caller or the helper finishes first, nothing is freed twice or leaked (checked by
 * ASan). */
static void abandoned_lookup_cleans_up(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct tt_lookup *l = tt_lookup_begin("host", "1", 0, tt_now_ns());

        assert_non_null(l);
        if (i % 2)
            while (!tt_lookup_step(l, 0))
                ;
        tt_lookup_end(l);
    }
    tt_lookup_end(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_name_is_resolved, answer_all),
        cmocka_unit_test_teardown(literal_addresses_need_no_thread, answer_all),
        cmocka_unit_test_teardown(silent_servers_time_out, answer_all),
        cmocka_unit_test_teardown(name_appearing_during_silence_is_found, answer_all),
        cmocka_unit_test_teardown(the_number_of_helpers_is_bounded, answer_all),
#ifndef __SANITIZE_THREAD__     /* ThreadSanitizer ends the child of a fork that starts a thread */
        cmocka_unit_test_teardown(child_of_fork_has_own_helpers, answer_all),
#endif
        cmocka_unit_test_teardown(concurrent_counts_after_fork_are_kept, answer_all),
        cmocka_unit_test_teardown(lookup_without_helper_retries_soon, answer_all),
        cmocka_unit_test_teardown(pause_ends_at_the_deadline, answer_all),
        cmocka_unit_test_teardown(only_temporary_failures_are_retried, answer_all),
        cmocka_unit_test_teardown(abandoned_lookup_cleans_up, answer_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
