/* Ranks of one host share a secret that their first rank has received. Each rank has its own state,
 * as in a separate process. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/prng.h"
#include "boot/host_share.h"
#include "support/unit.h"

#define NRANKS 16
#define OTHER_USER 65534

static char url[64];        /* unique to a test of this process */

static void new_url(void)
{
    uint64_t number;

    tt_random_bytes(&number, sizeof number);
    snprintf(url, sizeof url, "etcd://h:1/%016llx", (unsigned long long)number);
}

static struct tt_host_share share_of(const char *token, const char *host)
{
    struct tt_host_share s;

    tt_host_share_init(&s, token, "test", url, host);
    return s;
}

/* A first rank, and another rank of its host. */
static void share_pair(struct tt_host_share *first, struct tt_host_share *other)
{
    new_url();
    *first = share_of("token", "");
    *other = share_of("token", "");
    assert_true(tt_host_share_is_first(first));
    assert_false(tt_host_share_is_first(other));
}

static const char secret[16] = "known to a host";

struct asker {
    pthread_t thread;
    enum tt_share_answer answer;
    char found[sizeof secret];
    char why[TT_SHARE_BYTES_MAX];
};

static atomic_uint nanswered;

static void *ask(void *arg)
{
    struct asker *a = arg;
    struct tt_host_share s = share_of("token", "");

    a->answer = tt_host_share_is_first(&s)
                    ? TT_SHARE_ALONE
                    : tt_host_share_ask(&s, TT_NEVER, a->found, sizeof a->found, a->why, NULL);
    atomic_fetch_add(&nanswered, 1);
    return NULL;
}

/* All ranks request the secret. The first rank replies until each has an answer: the secret, or the
 * reason for a failure. */
static void share_among(struct tt_host_share *first, struct asker askers[NRANKS], const char *why)
{
    atomic_store(&nanswered, 0);
    for (int i = 0; i < NRANKS; i++)
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
    while (atomic_load(&nanswered) < NRANKS) {
        struct pollfd p = { .fd = first->listener, .events = POLLIN };

        poll(&p, 1, 1);
        if (why)
            tt_host_share_not_yet(first, why);
        else
            tt_host_share_answer(first, TT_SHARE_FOUND, secret, sizeof secret);
    }
    for (int i = 0; i < NRANKS; i++)
        pthread_join(askers[i].thread, NULL);
}

static void all_get_what_the_first_has(void **state)
{
    struct asker askers[NRANKS] = { 0 };
    struct tt_host_share first;

    (void)state;
    new_url();
    first = share_of("token", "");
    assert_true(tt_host_share_is_first(&first));
    assert_true(tt_host_share_is_first(&first));
    share_among(&first, askers, NULL);
    for (int i = 0; i < NRANKS; i++) {
        assert_int_equal(askers[i].answer, TT_SHARE_FOUND);
        assert_memory_equal(askers[i].found, secret, sizeof secret);
    }
    tt_host_share_fini(&first);
}

static void reason_of_the_first_reaches_all(void **state)
{
    struct asker askers[NRANKS] = { 0 };
    struct tt_host_share first;

    (void)state;
    new_url();
    first = share_of("token", "");
    assert_true(tt_host_share_is_first(&first));
    share_among(&first, askers, "rank 0 is late");
    for (int i = 0; i < NRANKS; i++) {
        assert_int_equal(askers[i].answer, TT_SHARE_NOT_YET);
        assert_string_equal(askers[i].why, "rank 0 is late");
    }
    tt_host_share_fini(&first);
}

static void next_rank_replaces_an_ended_first(void **state)
{
    struct tt_host_share first, second;
    char found[sizeof secret], why[TT_SHARE_BYTES_MAX] = "";

    (void)state;
    share_pair(&first, &second);
    tt_host_share_fini(&first);
    assert_int_equal(tt_host_share_ask(&second, TT_NEVER, found, sizeof found, why, NULL),
                     TT_SHARE_NOT_YET);
    assert_string_not_equal(why, "");
    assert_true(tt_host_share_is_first(&second));
    tt_host_share_fini(&second);
}

static void other_hosts_tokens_and_purposes_have_their_own_first(void **state)
{
    struct tt_host_share all[4];

    (void)state;
    new_url();
    all[0] = share_of("token", "");
    all[1] = share_of("token", "another host");
    all[2] = share_of("another token", "");
    tt_host_share_init(&all[3], "token", "another purpose", url, "");
    for (int i = 0; i < 4; i++)
        assert_true(tt_host_share_is_first(&all[i]));
    for (int i = 0; i < 4; i++)
        tt_host_share_fini(&all[i]);
}

static void rank_of_a_silent_first_is_alone(void **state)
{
    struct tt_host_share first, other;
    char found[sizeof secret], why[TT_SHARE_BYTES_MAX];

    (void)state;
    share_pair(&first, &other);
    assert_int_equal(tt_host_share_ask(&other, TT_NEVER, found, sizeof found, why, NULL),
                     TT_SHARE_ALONE);
    assert_true(tt_host_share_is_first(&other));
    assert_int_equal(other.listener, -1);
    tt_host_share_not_yet(&first, "nobody waits any more");
    tt_host_share_fini(&first);
}

struct crossed {
    pthread_t thread;
    struct tt_host_share key, challenge;    /* this rank requests the key, and provides the
                                               challenge */
    enum tt_share_answer answer;
};

/* Waits for the key, and only then provides the challenge to the rank that provides the key. */
static void *wait_for_key(void *arg)
{
    char found[sizeof secret], why[TT_SHARE_BYTES_MAX] = "";
    struct crossed *c = arg;
    struct pollfd p = { .fd = c->challenge.listener, .events = POLLIN };

    c->answer = tt_host_share_ask(&c->key, TT_NEVER, found, sizeof found, why, NULL);
    while (poll(&p, 1, -1) < 0)
        ;
    tt_host_share_answer(&c->challenge, TT_SHARE_FOUND, secret, sizeof secret);
    return NULL;
}

static int key_listener(void *arg)
{
    const struct tt_host_share *key = arg;

    return key->listener;
}

static void serve_key(void *arg)
{
    tt_host_share_answer(arg, TT_SHARE_FOUND, secret, sizeof secret);
}

/* Each rank is the first rank for the other one, for different secrets. */
static void ranks_that_wait_for_each_other_both_get_a_response(void **state)
{
    struct tt_host_share key, challenge;
    const struct tt_share_meanwhile meanwhile = { key_listener, serve_key, &key };
    struct crossed other = { .answer = TT_SHARE_NOT_YET };
    char found[sizeof secret], why[TT_SHARE_BYTES_MAX] = "";

    (void)state;
    share_pair(&key, &other.key);
    share_pair(&other.challenge, &challenge);
    assert_int_equal(pthread_create(&other.thread, NULL, wait_for_key, &other), 0);
    assert_int_equal(tt_host_share_ask(&challenge, TT_NEVER, found, sizeof found, why, &meanwhile),
                     TT_SHARE_FOUND);
    assert_memory_equal(found, secret, sizeof secret);
    pthread_join(other.thread, NULL);
    assert_int_equal(other.answer, TT_SHARE_FOUND);
    tt_host_share_fini(&key);
    tt_host_share_fini(&other.challenge);
}

static void deadline_ends_the_wait(void **state)
{
    struct tt_host_share first, other;
    char found[sizeof secret], why[TT_SHARE_BYTES_MAX] = "an earlier reason";

    (void)state;
    share_pair(&first, &other);
    assert_int_equal(
        tt_host_share_ask(&other, tt_now_ns() + 2 * TT_MS, found, sizeof found, why, NULL),
        TT_SHARE_NOT_YET);
    assert_string_equal(why, "an earlier reason");
    tt_host_share_fini(&first);
}

/* In a child process: another user requests the secret. The first rank must not reply to it. */
static int ask_as_other_user(void)
{
    struct tt_host_share s = share_of("token", "");
    char found[sizeof secret], why[TT_SHARE_BYTES_MAX];

    if (setuid(OTHER_USER) != 0 || tt_host_share_is_first(&s))
        return 2;
    return tt_host_share_ask(&s, TT_NEVER, found, sizeof found, why, NULL) == TT_SHARE_FOUND;
}

static void other_user_gets_nothing(void **state)
{
    struct tt_host_share first;
    int status = -1;
    pid_t pid;

    (void)state;
    if (geteuid() != 0)
        skip();
    new_url();
    first = share_of("token", "");
    assert_true(tt_host_share_is_first(&first));
    pid = fork();
    if (pid == 0) {
        close(first.listener);
        _exit(ask_as_other_user());
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        struct pollfd p = { .fd = first.listener, .events = POLLIN };

        poll(&p, 1, 1);
        tt_host_share_answer(&first, TT_SHARE_FOUND, secret, sizeof secret);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    tt_host_share_fini(&first);
}

static void first_of_another_user_is_not_used(void **state)
{
    struct tt_host_share s;
    int ready[2], end[2];
    char byte, found[sizeof secret], why[TT_SHARE_BYTES_MAX];
    pid_t pid;

    (void)state;
    if (geteuid() != 0)
        skip();
    new_url();
    s = share_of("token", "");
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(end), 0);
    pid = fork();
    if (pid == 0) {
        close(end[1]);
        if (setuid(OTHER_USER) != 0 || !tt_host_share_is_first(&s) || write(ready[1], "", 1) != 1)
            _exit(2);
        _exit(read(end[0], &byte, 1) != 0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_false(tt_host_share_is_first(&s));
    assert_int_equal(tt_host_share_ask(&s, TT_NEVER, found, sizeof found, why, NULL),
                     TT_SHARE_ALONE);
    close(end[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(end[0]);
    close(ready[0]);
    close(ready[1]);
    tt_host_share_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_what_the_first_has),
        cmocka_unit_test(reason_of_the_first_reaches_all),
        cmocka_unit_test(next_rank_replaces_an_ended_first),
        cmocka_unit_test(other_hosts_tokens_and_purposes_have_their_own_first),
        cmocka_unit_test(rank_of_a_silent_first_is_alone),
        cmocka_unit_test(ranks_that_wait_for_each_other_both_get_a_response),
        cmocka_unit_test(deadline_ends_the_wait),
        cmocka_unit_test(other_user_gets_nothing),
        cmocka_unit_test(first_of_another_user_is_not_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
