/* The guarantees of a journal, tested with a file. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/prng.h"
#include "coordinator/journal.h"
#include "support/unit.h"

#define RECORDS_MAX 4096

static char path[64];

/* The records read. */
struct heard {
    uint32_t n, stop_at;
    uint64_t hash[RECORDS_MAX];
};

static bool take(void *context, const void *data, size_t bytes)
{
    struct heard *h = context;

    assert_true(h->n < RECORDS_MAX);
    h->hash[h->n++] = tt_hash_bytes(data, bytes, 1);
    return h->n != h->stop_at;
}

/* Returns record i of seed: its bytes, with a varying length. */
static size_t record_of(uint64_t seed, uint32_t i, uint8_t out[600])
{
    struct tt_prng p;
    size_t bytes;

    tt_prng_init(&p, seed * 100003 + i);
    bytes = 1 + tt_prng_below(&p, 600);
    for (size_t k = 0; k < bytes; k++)
        out[k] = (uint8_t)tt_prng_u64(&p);
    return bytes;
}

static void append(struct tt_journal *j, uint64_t seed, uint32_t i)
{
    uint8_t data[600];
    const size_t bytes = record_of(seed, i, data);

    assert_int_equal(j->ops->append(j, data, bytes), TUTTI_OK);
}

static void assert_holds(const struct heard *h, uint64_t seed, uint32_t n)
{
    uint8_t data[600];

    assert_int_equal(h->n, n);
    for (uint32_t i = 0; i < n; i++) {
        const size_t bytes = record_of(seed, i, data);

        if (h->hash[i] != tt_hash_bytes(data, bytes, 1))
            fail_msg("seed %llu: record %u of %u is another one", (unsigned long long)seed, i, n);
    }
}

static struct tt_journal *open_journal(void)
{
    struct tt_journal *j = NULL;

    assert_int_equal(tt_journal_sqlite_open(&j, path), TUTTI_OK);
    return j;
}

static void assert_read(uint64_t seed, uint32_t n)
{
    struct tt_journal *j = open_journal();
    struct heard *h = calloc(1, sizeof *h);

    assert_non_null(h);
    assert_int_equal(j->ops->read(j, take, h), TUTTI_OK);
    assert_holds(h, seed, n);
    j->ops->close(j);
    free(h);
}

static void remove_files(void)
{
    char beside[80];

    unlink(path);
    snprintf(beside, sizeof beside, "%s-wal", path);
    unlink(beside);
    snprintf(beside, sizeof beside, "%s-journal", path);
    unlink(beside);
}

static int set_up(void **state)
{
    static uint32_t turn;

    (void)state;
    snprintf(path, sizeof path, "/tmp/tutti-journal-%d-%u", (int)getpid(), turn++);
    remove_files();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_files();
    return 0;
}

/* ---- contents ---- */

static void committed_records_are_read_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct tt_journal *j = open_journal();
        uint32_t n = 0;

        for (; n < 300; n++) {
            append(j, seed, n);
            if (n % 7 == seed)
                assert_int_equal(j->ops->commit(j), TUTTI_OK);
        }
        assert_int_equal(j->ops->commit(j), TUTTI_OK);
        assert_int_equal(j->ops->check(j), TUTTI_OK);
        j->ops->close(j);
        assert_read(seed, n);
        assert_read(seed, n); /* reading changes nothing */
        remove_files();
    }
}

static void uncommitted_records_are_dropped(void **state)
{
    struct tt_journal *j = open_journal();

    (void)state;
    append(j, 1, 0);
    append(j, 1, 1);
    assert_int_equal(j->ops->commit(j), TUTTI_OK);
    append(j, 1, 2);
    j->ops->close(j);
    assert_read(1, 2);
}

static void new_records_follow_read_ones(void **state)
{
    struct tt_journal *j = open_journal();
    struct heard h = { 0 };

    (void)state;
    append(j, 1, 0);
    assert_int_equal(j->ops->commit(j), TUTTI_OK);
    j->ops->close(j);
    j = open_journal();
    assert_int_equal(j->ops->read(j, take, &h), TUTTI_OK);
    append(j, 1, 1);
    assert_int_equal(j->ops->commit(j), TUTTI_OK);
    j->ops->close(j);
    assert_read(1, 2);
}

static void a_reader_may_stop(void **state)
{
    struct tt_journal *j = open_journal();
    struct heard h = { .stop_at = 2 };

    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        append(j, 1, i);
    assert_int_equal(j->ops->commit(j), TUTTI_OK);
    j->ops->close(j);
    j = open_journal();
    assert_int_equal(j->ops->read(j, take, &h), TUTTI_OK);
    assert_int_equal(h.n, 2);
    j->ops->close(j);
}

static void replacement_is_atomic_at_commit(void **state)
{
    struct tt_journal *j = open_journal();

    (void)state;
    for (uint32_t i = 0; i < 50; i++)
        append(j, 1, i);
    assert_int_equal(j->ops->commit(j), TUTTI_OK);
    assert_int_equal(j->ops->replace(j), TUTTI_OK);
    append(j, 2, 0);
    j->ops->close(j); /* as in a crash */
    assert_read(1, 50);

    j = open_journal();
    assert_int_equal(j->ops->read(j, take, &(struct heard){ 0 }), TUTTI_OK);
    assert_int_equal(j->ops->replace(j), TUTTI_OK);
    append(j, 2, 0);
    append(j, 2, 1);
    assert_int_equal(j->ops->commit(j), TUTTI_OK);
    append(j, 2, 2);
    assert_int_equal(j->ops->commit(j), TUTTI_OK);
    j->ops->close(j);
    assert_read(2, 3);
}

/* ---- ownership ---- */

static void second_coordinator_sees_the_lock(void **state)
{
    struct tt_journal *j = open_journal(), *other = NULL;

    (void)state;
    append(j, 1, 0);
    assert_int_equal(j->ops->commit(j), TUTTI_OK);
    tt_log_set(TT_LOG_NONE);
    assert_int_equal(tt_journal_sqlite_open(&other, path), TUTTI_ERR_INVALID);
    tt_log_set(TT_LOG_WARN);
    assert_non_null(strstr(tutti_last_error(), "another coordinator has it open"));
    assert_null(other);
    append(j, 1, 1);
    assert_int_equal(j->ops->commit(j), TUTTI_OK);
    j->ops->close(j);
    assert_read(1, 2);
}

/* Another process owns the journal, and is killed while it writes: the committed records remain,
 * but not its lock. */
static void killed_writer_keeps_commits_without_lock(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 20; round++) {
        int pipes[2], status;
        uint32_t told = 0, n;
        struct tt_journal *j;
        struct heard h = { 0 };
        pid_t child;

        assert_int_equal(pipe(pipes), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (tt_journal_sqlite_open(&j, path))
                _exit(1);
            for (uint32_t i = 0;; i++) {
                uint8_t data[600];
                const size_t bytes = record_of(5, i, data);

                if (j->ops->append(j, data, bytes) || (i % 3 == 2 && j->ops->commit(j)))
                    _exit(2);
                if (i % 3 == 2 && write(pipes[1], &i, sizeof i) != sizeof i)
                    _exit(3);
            }
        }
        close(pipes[1]);
        for (uint32_t k = 0; k <= round; k++)
            assert_int_equal(read(pipes[0], &told, sizeof told), sizeof told);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        while (read(pipes[0], &told, sizeof told) == sizeof told)
            ;
        close(pipes[0]);
        j = open_journal();
        assert_int_equal(j->ops->read(j, take, &h), TUTTI_OK);
        n = h.n;
        if (n % 3 != 0 || n < told + 1)
            fail_msg("round %u: %u records are there, %u were committed", round, n, told + 1);
        assert_holds(&h, 5, n);
        j->ops->close(j);
        remove_files();
    }
}

static void others_cannot_read_the_file(void **state)
{
    struct tt_journal *j = open_journal();
    struct stat st;

    (void)state;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    j->ops->close(j);
    assert_int_equal(chmod(path, 0644), 0); /* as if copied, or created manually */
    j = open_journal();
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    j->ops->close(j);
}

/* ---- invalid or damaged files ---- */

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

static void assert_refused(const char *why)
{
    struct tt_journal *j = NULL;
    tutti_status st;

    tt_log_set(TT_LOG_NONE);
    st = tt_journal_sqlite_open(&j, path);
    if (st == TUTTI_OK) {
        st = j->ops->read(j, take, &(struct heard){ 0 });
        j->ops->close(j);
    }
    tt_log_set(TT_LOG_WARN);
    assert_int_equal(st, TUTTI_ERR_INVALID);
    if (!strstr(tutti_last_error(), why))
        fail_msg("\"%s\" was expected in \"%s\"", why, tutti_last_error());
}

static void sql(const char *text)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void foreign_file_is_reported_and_untouched(void **state)
{
    static const char letter[] = "Not a journal, but somebody's letter. It is longer than the "
                                 "header of a database, which is 100 bytes.";
    struct stat st;

    (void)state;
    write_file(letter);
    assert_refused("not a coordinator's journal");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, strlen(letter));
    remove_files();
    sql("CREATE TABLE letters(text); INSERT INTO letters VALUES('dear')");
    assert_refused("of another program");
    sql("INSERT INTO letters VALUES('reader')");
}

static void altered_or_missing_record_is_reported(void **state)
{
    struct tt_journal *j = open_journal();

    (void)state;
    for (uint32_t i = 0; i < 20; i++)
        append(j, 1, i);
    assert_int_equal(j->ops->commit(j), TUTTI_OK);
    j->ops->close(j);
    assert_read(1, 20);
    sql("UPDATE record SET data = zeroblob(3) WHERE n = 11");
    assert_refused("damaged: record 11");
    sql("DELETE FROM record WHERE n = 11");
    assert_refused("damaged: record 12");
    sql("DELETE FROM record WHERE n > 10");
    assert_read(1, 10); /* the records end at a commit */
    sql("PRAGMA user_version=7");
    assert_refused("format 7 is unsupported");
}

/* Bytes of the file are changed: the damage is reported, or has no effect. */
static void damage_is_reported_or_harmless(void **state)
{
    struct tt_journal *j = open_journal();
    struct stat st;
    uint32_t found = 0;
    struct tt_prng p;

    (void)state;
    for (uint32_t i = 0; i < 60; i++)
        append(j, 1, i);
    assert_int_equal(j->ops->commit(j), TUTTI_OK);
    j->ops->close(j);
    assert_int_equal(stat(path, &st), 0);
    tt_prng_init(&p, 77);
    tt_log_set(TT_LOG_NONE);
    for (uint32_t i = 0; i < 200; i++) {
        const off_t at = (off_t)tt_prng_below(&p, (uint64_t)st.st_size);
        const int fd = open(path, O_RDWR);
        struct heard h = { 0 };
        tutti_status got;
        uint8_t was = 0, is;

        assert_true(fd >= 0 && pread(fd, &was, 1, at) == 1);
        is = (uint8_t)(was ^ (1u << tt_prng_below(&p, 8)));
        assert_int_equal(pwrite(fd, &is, 1, at), 1);
        got = tt_journal_sqlite_open(&j, path);
        if (got == TUTTI_OK) {
            got = j->ops->read(j, take, &h);
            j->ops->close(j);
        }
        if (got == TUTTI_OK)
            assert_holds(&h, 1, 60);
        found += got != TUTTI_OK;
        assert_int_equal(pwrite(fd, &was, 1, at), 1);
        close(fd);
    }
    tt_log_set(TT_LOG_WARN);
    assert_true(found > 100);
}

/* On a full disk, the failing commit is reported, and all earlier records remain. */
static void full_disk_is_reported_without_loss(void **state)
{
    int pipes[2], status;
    struct heard h = { 0 };
    struct tt_journal *j;
    uint32_t committed = 0;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit small = { .rlim_cur = 100000, .rlim_max = 100000 };
        uint8_t data[600];

        signal(SIGXFSZ, SIG_IGN);
        tt_log_set(TT_LOG_NONE);
        if (tt_journal_sqlite_open(&j, path) || setrlimit(RLIMIT_FSIZE, &small))
            _exit(1);
        for (uint32_t i = 0; i < 1000; i++)
            if (j->ops->append(j, data, record_of(5, i, data)) || j->ops->commit(j))
                _exit(strstr(tutti_last_error(), path) ? 9 : 8);
            else if (write(pipes[1], &i, sizeof i) != sizeof i)
                _exit(2);
        _exit(3);
    }
    close(pipes[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 9);
    for (uint32_t i; read(pipes[0], &i, sizeof i) == sizeof i; committed = i + 1)
        assert_int_equal(i, committed);
    close(pipes[0]);
    assert_true(committed > 3);
    j = open_journal();
    assert_int_equal(j->ops->read(j, take, &h), TUTTI_OK);
    assert_true(h.n == committed || h.n == committed + 1);
    assert_holds(&h, 5, h.n);
    j->ops->close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(committed_records_are_read_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(uncommitted_records_are_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(new_records_follow_read_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reader_may_stop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(replacement_is_atomic_at_commit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(second_coordinator_sees_the_lock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_writer_keeps_commits_without_lock, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(others_cannot_read_the_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(foreign_file_is_reported_and_untouched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(altered_or_missing_record_is_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_is_reported_or_harmless, set_up, tear_down),
        cmocka_unit_test_setup_teardown(full_disk_is_reported_without_loss, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
