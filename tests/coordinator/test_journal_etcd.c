/* The journal in a real etcd: readers find the committed records, and a process that is not the
 * leader writes nothing. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/etcd.h"
#include "coordinator/journal.h"
#include "etcd_server.h"
#include "relay.h"

#define LONG_BYTES 1500000u     /* more than etcd accepts at once */

static struct etcd_server server;
static unsigned nstores;
static char store[128], prefix[64];
static uint32_t lease_s;        /* so long in some tests that no lease expires */

/* Each test has separate keys. */
static int new_store(void **state)
{
    (void)state;
    snprintf(prefix, sizeof prefix, "/test/%u", ++nstores);
    snprintf(store, sizeof store, "etcd://%s%s", server.address, prefix);
    lease_s = 60;
    return 0;
}

static int new_store_whose_leases_end(void **state)
{
    new_store(state);
    lease_s = 0;
    return 0;
}

static tutti_status open_as(struct tt_journal **out, const char *who, int stop_fd)
{
    return tt_journal_etcd_open(
        out, &(struct tt_journal_etcd_conf){
                 .store = store, .who = who, .lease_s = lease_s, .stop_fd = stop_fd });
}

static struct tt_journal *opened(const char *who)
{
    struct tt_journal *j = NULL;

    assert_int_equal(open_as(&j, who, -1), TUTTI_OK);
    return j;
}

/* ---- records ---- */

/* The bytes of record i: with different lengths, one of them in several pieces. */
static size_t fill(uint64_t i, uint8_t **data)
{
    struct tt_prng random;
    const size_t bytes = i == 7 ? LONG_BYTES : i % 40;

    *data = malloc(bytes + 1);
    assert_non_null(*data);
    tt_prng_init(&random, i);
    for (size_t at = 0; at < bytes; at++)
        (*data)[at] = (uint8_t)tt_prng_u64(&random);
    return bytes;
}

static tutti_status append(struct tt_journal *j, uint64_t first, uint64_t n)
{
    tutti_status st = TUTTI_OK;
    uint8_t *data;

    for (uint64_t i = first; i < first + n && !st; i++) {
        const size_t bytes = fill(i, &data);

        st = j->ops->append(j, data, bytes);
        free(data);
    }
    return st;
}

static tutti_status write_some(struct tt_journal *j, uint64_t first, uint64_t n)
{
    const tutti_status st = append(j, first, n);

    return st ? st : j->ops->commit(j);
}

struct heard {
    const uint64_t *expected;   /* [n] */
    uint32_t n, at;
};

static bool record_read(void *context, const void *data, size_t bytes)
{
    struct heard *h = context;
    uint8_t *same;

    assert_true(h->at < h->n);
    assert_int_equal(bytes, fill(h->expected[h->at++], &same));
    if (bytes)
        assert_memory_equal(data, same, bytes);
    free(same);
    return true;
}

static void assert_has(struct tt_journal *j, const uint64_t *expected, uint32_t n)
{
    struct heard h = { expected, n, 0 };

    assert_int_equal(j->ops->read(j, record_read, &h), TUTTI_OK);
    assert_int_equal(h.at, n);
}

/* ---- direct changes in etcd ---- */

static void etcd_request(const char *method, struct json_object *request)
{
    struct json_object *answer;
    struct tt_etcd *e;

    assert_int_equal(tt_etcd_create(&e, server.address), TUTTI_OK);
    assert_int_equal(tt_etcd_call(e, method, request, tt_now_ns() + 30 * TT_SECOND, &answer),
                     TUTTI_OK);
    json_object_put(answer);
    tt_etcd_destroy(e);
}

static struct json_object *key_request(const char *what)
{
    struct json_object *request = json_object_new_object();
    char key[128];

    snprintf(key, sizeof key, "%s/%s", prefix, what);
    tt_etcd_add_text(request, "key", key);
    return request;
}

/* Deletes the leader's key, as if its lease had expired without notification. */
static void depose(void)
{
    etcd_request("kv/deleterange", key_request("leader"));
}

static void put(const char *what, const char *value)
{
    struct json_object *request = key_request(what);

    tt_etcd_add_text(request, "value", value);
    etcd_request("kv/put", request);
}

/* ---- tests ---- */

static void next_leader_reads_committed_records(void **state)
{
    const uint64_t all[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    struct tt_journal *j = opened("a");

    (void)state;
    assert_has(j, all, 0);
    assert_int_equal(write_some(j, 0, 5), TUTTI_OK);
    assert_int_equal(j->ops->commit(j), TUTTI_OK);     /* an empty commit */
    j->ops->close(j);
    j = opened("b");
    assert_has(j, all, 5);
    assert_int_equal(write_some(j, 5, 5), TUTTI_OK);
    assert_int_equal(write_some(j, 10, 2), TUTTI_OK);
    assert_int_equal(append(j, 50, 9), TUTTI_OK);      /* never committed */
    j->ops->close(j);
    j = opened("c");
    assert_has(j, all, 12);
    assert_int_equal(j->ops->check(j), TUTTI_OK);
    j->ops->close(j);
}

static void shorter_journal_replaces_at_commit(void **state)
{
    const uint64_t before[] = { 0, 1, 2, 3 }, after[] = { 20, 21, 6, 7, 8 };
    struct tt_journal *j = opened("a");

    (void)state;
    assert_int_equal(write_some(j, 0, 4), TUTTI_OK);
    assert_int_equal(j->ops->replace(j), TUTTI_OK);
    assert_int_equal(append(j, 20, 2), TUTTI_OK);
    j->ops->close(j);
    j = opened("b");
    assert_has(j, before, 4);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(j->ops->replace(j), TUTTI_OK);
        assert_int_equal(write_some(j, 20, 2), TUTTI_OK);
    }
    assert_int_equal(write_some(j, 6, 3), TUTTI_OK);
    j->ops->close(j);
    j = opened("c");
    assert_has(j, after, 5);
    j->ops->close(j);
}

static void old_leader_cannot_write(void **state)
{
    const uint64_t expected[] = { 1, 2, 30, 31, 32 };
    struct tt_journal *a = opened("a"), *b;

    (void)state;
    assert_int_equal(write_some(a, 1, 2), TUTTI_OK);
    depose();
    b = opened("b");
    assert_has(b, expected, 2);
    assert_int_equal(write_some(b, 30, 1), TUTTI_OK);
    assert_int_equal(write_some(a, 10, 3), TUTTI_ERR_ABORTED);
    assert_non_null(strstr(tutti_last_error(), "another coordinator has taken over"));
    assert_int_equal(a->ops->check(a), TUTTI_ERR_ABORTED);
    assert_int_equal(write_some(b, 31, 2), TUTTI_OK);
    a->ops->close(a);           /* without effect on b */
    assert_int_equal(b->ops->check(b), TUTTI_OK);
    b->ops->close(b);
    b = opened("c");
    assert_has(b, expected, 5);
    b->ops->close(b);
}

static void deposed_leader_writes_nothing(void **state)
{
    const uint64_t expected[] = { 1 };
    struct tt_journal *j = opened("a");

    (void)state;
    assert_int_equal(write_some(j, 1, 1), TUTTI_OK);
    depose();
    assert_int_equal(j->ops->replace(j), TUTTI_OK);
    assert_int_equal(write_some(j, 10, 1), TUTTI_ERR_ABORTED);
    j->ops->close(j);
    j = opened("b");
    assert_has(j, expected, 1);
    j->ops->close(j);
}

/* The reply to an executed request is lost. The request is sent again, but has only one effect. */
static void lost_reply_costs_nothing(void **state)
{
    const uint64_t expected[] = { 1, 2, 3, 7, 8, 20, 21 };
    struct tt_journal *j;
    struct relay relay;

    (void)state;
    relay_begin(&relay, server.port, "\"succeeded\"");
    snprintf(store, sizeof store, "etcd://127.0.0.1:%u%s", relay.port, prefix);
    atomic_store(&relay.lose, 1);
    j = opened("a");                    /* to become leader */
    assert_int_equal(atomic_load(&relay.lose), 0);
    assert_int_equal(write_some(j, 1, 2), TUTTI_OK);
    atomic_store(&relay.lose, 1);
    assert_int_equal(write_some(j, 3, 1), TUTTI_OK);
    assert_int_equal(atomic_load(&relay.lose), 0);
    atomic_store(&relay.lose, 2);       /* a record of several pieces */
    assert_int_equal(write_some(j, 7, 2), TUTTI_OK);
    assert_int_equal(atomic_load(&relay.lose), 0);
    j->ops->close(j);
    j = opened("b");
    assert_has(j, expected, 5);
    assert_int_equal(j->ops->replace(j), TUTTI_OK);
    atomic_store(&relay.lose, 1);
    assert_int_equal(write_some(j, 20, 2), TUTTI_OK);
    assert_int_equal(atomic_load(&relay.lose), 0);
    j->ops->close(j);
    j = opened("c");
    assert_has(j, expected + 5, 2);
    j->ops->close(j);
    relay_end(&relay);
}

static void standby_can_be_ended(void **state)
{
    struct tt_journal *a = opened("a"), *b = NULL;
    const int stop = eventfd(1, EFD_CLOEXEC);

    (void)state;
    assert_int_equal(open_as(&b, "b", stop), TUTTI_ERR_ABORTED);
    assert_null(b);
    close(stop);
    assert_int_equal(a->ops->check(a), TUTTI_OK);
    a->ops->close(a);
}

static void note_leader(void *context, const char *leader)
{
    snprintf(context, 32, "%s", leader);
}

/* A coordinator that has lost its connection to etcd may find its own former key. */
static void own_former_lease_is_no_lead(void **state)
{
    struct tt_journal *a = opened("a"), *again = NULL;
    const int stop = eventfd(1, EFD_CLOEXEC);
    char leader[32] = "not told", text[1000];
    struct unit_stderr c;

    (void)state;
    tt_log_set(TT_LOG_WARN);
    unit_stderr_catch(&c);
    assert_int_equal(
        tt_journal_etcd_open(&again, &(struct tt_journal_etcd_conf){ .store = store,
                                                                     .who = "a",
                                                                     .lease_s = lease_s,
                                                                     .stop_fd = stop,
                                                                     .stands_by = note_leader,
                                                                     .context = leader }),
        TUTTI_ERR_ABORTED);
    unit_stderr_release(&c, text, sizeof text);
    assert_string_equal(leader, "");
    assert_non_null(strstr(text, "previous lease in the store"));
    assert_null(strstr(text, "standing by"));
    close(stop);
    a->ops->close(a);
}

static void etcd_may_restart_between_commits(void **state)
{
    const uint64_t expected[] = { 1, 2, 3 };
    struct tt_journal *j = opened("a");

    (void)state;
    assert_int_equal(write_some(j, 1, 1), TUTTI_OK);
    etcd_server_kill(&server);
    etcd_server_start(&server);
    if (write_some(j, 2, 2) == TUTTI_OK) {      /* it was restarted before its lease expired, by our
                                                   clock */
        j->ops->close(j);
        j = opened("b");
        assert_has(j, expected, 3);
    } else {
        assert_int_equal(j->ops->check(j), TUTTI_ERR_ABORTED);
        j->ops->close(j);
        j = opened("b");
        assert_has(j, expected, 1);
    }
    j->ops->close(j);
}

static void lost_etcd_ends_the_lead(void **state)
{
    const uint64_t expected[] = { 1 }, deadline_ns = tt_now_ns() + 60 * TT_SECOND;
    struct tt_journal *j = opened("a"), *other = NULL;

    (void)state;
    assert_int_equal(write_some(j, 1, 1), TUTTI_OK);
    etcd_server_kill(&server);
    assert_int_equal(write_some(j, 2, 1), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), server.address));
    while (j->ops->check(j) == TUTTI_OK)
        assert_true(tt_now_ns() < deadline_ns);
    j->ops->close(j);
    assert_int_equal(open_as(&other, "b", -1), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "does not respond"));
    etcd_server_start(&server);
    j = opened("c");
    assert_has(j, expected, 1);
    j->ops->close(j);
}

static bool ignore(void *context, const void *data, size_t bytes)
{
    (void)context;
    (void)data;
    (void)bytes;
    return true;
}

static void damaged_or_missing_data_is_reported(void **state)
{
    static const struct {
        const char *key, *value, *why;
    } cases[] = {
        { "journal", "quatsch", "not a coordinator's journal" },
        { "journal", "tutti 2 0000000000000001.00000000 1 0000000000000000", "another version" },
        { "journal", "tutti 1 0000000000000001.00000000 4294967295 0000000000000000",
          "are missing" },
        { "journal", "tutti 1 0000000000000001.00000000 0 0000000000000000 ",
          "not a coordinator's journal" },
        { "journal", "tutti 1 0000000000000001.00000000 0 0000000000000000", "were modified" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_journal *j;

        new_store(state);
        put(cases[i].key, cases[i].value);
        j = opened("a");
        assert_int_equal(j->ops->read(j, ignore, NULL), TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), cases[i].why));
        j->ops->close(j);
    }
}

static void foreign_changes_are_reported(void **state)
{
    struct tt_journal *j = opened("a");

    (void)state;
    assert_int_equal(write_some(j, 1, 3), TUTTI_OK);
    put("journal", "tutti 1 0000000000000001.00000000 0 0000000000000000");
    assert_int_equal(write_some(j, 4, 1), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "a client other than a coordinator"));
    j->ops->close(j);
}

static void invalid_store_text_is_reported(void **state)
{
    static const struct {
        const char *store, *why;
    } cases[] = {
        { "", "invalid store" },
        { "http://127.0.0.1:1/x", "invalid store" },
        { "etcd://127.0.0.1:1", "invalid store" },
        { "etcd:///x", "invalid store" },
        { "etcd://127.0.0.1:1/", "invalid store" },
        { "etcd://127.0.0.1/x", "invalid server address" },
        { "etcd://localhost:/x", "invalid server address" },
        { "etcd://127.0.0.1:1,/x", "invalid server address" },
        { "etcd://127.0.0.1:99999/x", "invalid server address" },
        { "etcd://127.0.0.1@evil:80/x", "invalid server address" },
        { "etcd://192.0.2.1:2379/x", "unencrypted" },
        { "etcd://127.evil.example:80/x", "unencrypted" },
    };
    struct tt_journal *j = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(
            tt_journal_etcd_open(&j, &(struct tt_journal_etcd_conf){ .store = cases[i].store,
                                                                     .who = "a",
                                                                     .stop_fd = -1 }),
            TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), cases[i].why));
        assert_int_equal(
            tt_journal_etcd_check(&(struct tt_journal_etcd_conf){ .store = cases[i].store }),
            TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), cases[i].why));
        assert_null(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(next_leader_reads_committed_records, new_store),
        cmocka_unit_test_setup(shorter_journal_replaces_at_commit, new_store),
        cmocka_unit_test_setup(old_leader_cannot_write, new_store),
        cmocka_unit_test_setup(deposed_leader_writes_nothing, new_store),
        cmocka_unit_test_setup(lost_reply_costs_nothing, new_store),
        cmocka_unit_test_setup(standby_can_be_ended, new_store),
        cmocka_unit_test_setup(own_former_lease_is_no_lead, new_store),
        cmocka_unit_test_setup(etcd_may_restart_between_commits, new_store_whose_leases_end),
        cmocka_unit_test_setup(lost_etcd_ends_the_lead, new_store_whose_leases_end),
        cmocka_unit_test_setup(damaged_or_missing_data_is_reported, new_store),
        cmocka_unit_test_setup(foreign_changes_are_reported, new_store),
        cmocka_unit_test(invalid_store_text_is_reported),
    };
    int failed;

    if (!etcd_server_is_here()) {
        printf("skipped: there is no /usr/bin/etcd (Debian: etcd-server)\n");
        return 77;
    }
    tt_log_set(TT_LOG_NONE);
    etcd_server_create(&server);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    etcd_server_destroy(&server);
    return failed;
}
