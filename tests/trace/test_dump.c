/* Dumps of the trace: contents, and files that cannot be written. */
#include <errno.h>
#include <json-c/json.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/unit.h"
#include "trace/comms.h"
#include "trace/departures.h"
#include "trace/dump.h"
#include "trace/oplog.h"
#include "tutti/trace.h"

static char folder[] = "/tmp/tutti-dump-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static uint64_t record_one(uint32_t i, uint16_t comm)
{
    return tt_oplog_begin(NULL,
                          &(struct tt_oplog_call){ .seq = i,
                                                   .count = 256,
                                                   .peer = TT_OPLOG_NONE,
                                                   .tag = TT_OPLOG_NONE,
                                                   .comm = comm,
                                                   .kind = 0,
                                                   .type = TUTTI_F32,
                                                   .redop = TUTTI_SUM,
                                                   .algo = TT_OPLOG_NO_ALGO,
                                                   .flags = TT_OPLOG_STARTED | TT_OPLOG_REDUCES });
}

static struct json_object *member(struct json_object *o, const char *key)
{
    struct json_object *v = NULL;

    assert_true(json_object_object_get_ex(o, key, &v));
    return v;
}

/* Reads the next line, which must be a JSON object, or returns NULL. The caller frees it. */
static struct json_object *next_line(FILE *f)
{
    static char line[8192];
    struct json_object *o;

    if (!fgets(line, sizeof line, f))
        return NULL;
    assert_int_equal(line[strlen(line) - 1], '\n');
    o = json_tokener_parse(line);
    assert_non_null(o);
    return o;
}

static void a_dump_contains_what_was_recorded(void **state)
{
    const uint32_t ranks[] = { 4, 6, 8, 10 };
    const uint16_t comm = tt_comms_add(&(struct tt_comms_info){
        .hash = 0xabcdef, .rank = 1, .nranks = 4, .ranks = ranks, .name = "a \"name\"\n\xff" });
    const uint64_t now = tt_now_ns();
    struct json_object *o;
    uint32_t lines = 0, ops = 0, notes = 0, departures = 0;
    bool has_comm = false, ended = false;
    FILE *f;

    (void)state;
    tt_departure_add(0x1f, 17, 4, TT_DEPARTURE_LEFT);
    tt_departures_replace(0x1f, 9, NULL, 0);
    tt_departure_add(0x1f, 18, 5, TT_DEPARTURE_DIED);
    assert_int_equal(tutti_trace_annotate("step \\ 1"), TUTTI_OK);
    tt_oplog_end(record_one(0, comm), TUTTI_OK);
    tt_oplog_end(record_one(1, comm), TUTTI_ERR_TIMEOUT);
    record_one(2, comm);
    assert_int_equal(tutti_trace_dump(path_of("whole.jsonl"), "as \"asked\""), TUTTI_OK);
    f = fopen(path_of("whole.jsonl"), "r");
    assert_non_null(f);
    o = next_line(f);
    assert_int_equal(json_object_get_int(member(o, "tutti_trace")), 1);
    assert_string_equal(json_object_get_string(member(o, "reason")), "call");
    assert_string_equal(json_object_get_string(member(o, "message")), "as \"asked\"");
    assert_int_equal(json_object_get_int(member(o, "pid")), getpid());
    assert_true(json_object_get_int64(member(o, "now")) >= (int64_t)now);
    assert_int_equal(json_object_get_int(member(o, "records")), tt_oplog_depth());
    assert_null(member(member(o, "clock"), "offset_ns"));
    assert_null(member(o, "failed"));
    json_object_put(o);
    for (lines = 1; (o = next_line(f)); lines++) {
        struct json_object *v;

        assert_false(ended);
        if (json_object_object_get_ex(o, "op", &v)) {
            assert_string_equal(json_object_get_string(member(o, "kind")), "allreduce");
            assert_string_equal(json_object_get_string(member(o, "comm")), "0000000000abcdef");
            assert_string_equal(json_object_get_string(member(o, "type")), "f32");
            assert_string_equal(json_object_get_string(member(o, "redop")), "sum");
            assert_int_equal(json_object_get_int64(member(o, "bytes")), 1024);
            assert_int_equal(json_object_get_int64(member(o, "seq")), ops);
            assert_true(json_object_get_int64(member(o, "called")) + 10000 >= (int64_t)now);
            assert_string_equal(json_object_get_string(member(o, "status")), ops == 0 ? "OK"
                                                                             : ops == 1
                                                                                 ? "TIMEOUT"
                                                                                 : "PENDING");
            assert_true((member(o, "ended") == NULL) == (ops == 2));
            assert_null(member(o, "root"));
            assert_int_equal(json_object_get_int64(member(o, "note")), 1);
            ops++;
        } else if (json_object_object_get_ex(o, "comm", &v)) {
            has_comm = true;
            assert_string_equal(json_object_get_string(member(o, "members")), "4-10:2");
            assert_string_equal(json_object_get_string(member(o, "name")), "a \"name\"\n?");
        } else if (json_object_object_get_ex(o, "note", &v)) {
            notes++;
            assert_string_equal(json_object_get_string(member(o, "text")), "step \\ 1");
        } else if (json_object_object_get_ex(o, "departed", &v)) {
            assert_int_equal(json_object_get_int(v), 17 + departures);
            assert_string_equal(json_object_get_string(member(o, "run")), "000000000000001f");
            assert_int_equal(json_object_get_int(member(o, "epoch")), 4 + departures);
            assert_string_equal(json_object_get_string(member(o, "why")),
                                departures == 0 ? "left" : "died");
            assert_true(json_object_get_int64(member(o, "at")) >= (int64_t)now);
            assert_true((member(o, "replaced") == NULL) == (departures == 1));
            departures++;
        } else if (json_object_object_get_ex(o, "end", &v)) {
            assert_int_equal(json_object_get_int(v), lines);
            ended = true;
        }
        json_object_put(o);
    }
    fclose(f);
    assert_true(ended && has_comm);
    assert_int_equal(ops, 3);
    assert_int_equal(notes, 1);
    assert_int_equal(departures, 2);
}

static void a_file_that_cannot_be_written_is_an_error(void **state)
{
    char path[300];

    (void)state;
    assert_int_equal(tutti_trace_dump("/nonexistent-folder/x.jsonl", NULL), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "/nonexistent-folder/x.jsonl"));
    assert_non_null(strstr(tutti_last_error(), "No such file or directory"));
    snprintf(path, sizeof path, "%s", path_of("pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(tutti_trace_dump(path, NULL), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "not a regular file"));
    snprintf(path, sizeof path, "%s/inside", path_of("pipe"));
    assert_int_equal(tutti_trace_dump(path, NULL), TUTTI_ERR_SYSTEM);
    assert_int_equal(tutti_trace_dump(folder, NULL), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_trace_dump("/dev/full", NULL), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_trace_dump(NULL, NULL), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "TUTTI_TRACE_DIR"));
    memset(path, 'x', sizeof path);
    path[299] = 0;
    assert_int_equal(tutti_trace_dump(path, NULL), TUTTI_ERR_SYSTEM);
}

static void a_file_is_not_writable_by_others(void **state)
{
    const mode_t mask = umask(0);
    char path[300];
    struct stat st;

    (void)state;
    snprintf(path, sizeof path, "%s", path_of("mode.jsonl"));
    assert_int_equal(tutti_trace_dump(path, NULL), TUTTI_OK);
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    assert_int_equal(unlink(path), 0);
}

/* A file system of 64 KiB is too small for the dump: the old file stays, and no part of a new
 * one. */
static void a_full_disk_leaves_the_old_file(void **state)
{
    char text[16] = "";
    FILE *f;
    int n;

    (void)state;
    if (geteuid() != 0 || mkdir(path_of("small"), 0700) != 0 ||
        mount("none", path_of("small"), "tmpfs", 0, "size=64k") != 0)
        skip();
    f = fopen(path_of("small/x.jsonl"), "w");
    assert_non_null(f);
    fputs("old\n", f);
    fclose(f);
    for (uint32_t i = 0; i < 2000; i++)
        tt_oplog_end(record_one(i, 0), TUTTI_OK);
    assert_int_equal(tutti_trace_dump(path_of("small/x.jsonl"), NULL), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "No space left"));
    f = fopen(path_of("small/x.jsonl"), "r");
    assert_non_null(f);
    n = (int)fread(text, 1, sizeof text - 1, f);
    fclose(f);
    assert_int_equal(n, 4);
    assert_int_equal(umount(path_of("small")), 0);
    assert_int_equal(rmdir(path_of("small")), 0);
}

static void reap_all(int sig)
{
    const int saved = errno;

    (void)sig;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    errno = saved;
}

/* The program waits for all of its children, also the process that stores the dump, or ignores
 * their ends. */
static void programs_that_reap_all_children_get_dumps(void **state)
{
    void (*const handlers[])(int) = { reap_all, SIG_IGN };

    (void)state;
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
        signal(SIGCHLD, handlers[i]);
        for (int k = 0; k < 5; k++)
            assert_int_equal(tutti_trace_dump(path_of("whole.jsonl"), NULL), TUTTI_OK);
    }
    signal(SIGCHLD, SIG_DFL);
}

/* Another process, like a fork of the program, has the output of the storing process open. */
static void the_end_of_the_storing_process_is_noticed(void **state)
{
    const char *path = getenv("PATH");
    char *before = path ? strdup(path) : NULL, text[600];
    int pid = 0;
    FILE *f;

    (void)state;
    if (syscall(SYS_pidfd_open, getpid(), 0) < 0)
        skip();                 /* without a pidfd, only the end of the output is detected */
    assert_int_equal(mkdir(path_of("bin"), 0700), 0);
    f = fopen(path_of("bin/cat"), "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\nsleep 1000 &\necho $! >'%s'\nkill -KILL $PPID\n", path_of("holder"));
    assert_int_equal(fchmod(fileno(f), 0700), 0);
    fclose(f);
    snprintf(text, sizeof text, "%s:%s", path_of("bin"), before ? before : "/usr/bin:/bin");
    setenv("PATH", text, 1);
    assert_int_equal(tutti_trace_dump(path_of("whole.jsonl"), NULL), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "was ended"));
    if (before)
        setenv("PATH", before, 1);
    else
        unsetenv("PATH");
    free(before);
    f = fopen(path_of("holder"), "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &pid), 1);
    fclose(f);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(unlink(path_of("holder")), 0);
    assert_int_equal(unlink(path_of("bin/cat")), 0);
    assert_int_equal(rmdir(path_of("bin")), 0);
    assert_int_equal(tutti_trace_dump(path_of("whole.jsonl"), NULL), TUTTI_OK);     /* tidies */
}

/* Failures in quick succession are one event: one dump. */
static void a_storm_of_failures_writes_one_dump(void **state)
{
    char path[300];
    uint32_t due = 0;

    (void)state;
    assert_false(tt_dump_is_due());
    setenv("TUTTI_TRACE_DIR", folder, 1);
    setenv("TUTTI_TRACE_SIGNAL", "0", 1);
    assert_int_equal(tt_dump_start(), TUTTI_OK);
    tt_dump_set_job(0x77, 3, 8);
    tt_dump_set_job(0x88, 4, 8);        /* only the first one counts */
    snprintf(path, sizeof path, "%s", path_of("tutti-trace.0000000000000077.3.jsonl"));
    for (uint32_t i = 0; i < 1000; i++) {
        struct tt_dump_state s = { .ops = NULL };

        if (!tt_dump_is_due())
            continue;
        due++;
        tt_dump_add_op(
            &s, &(struct tt_dump_op){ .record = 1, .waits_rank = 5, .waits = TT_DUMP_WAITS_DATA });
        tt_dump_post(TT_DUMP_TIMEOUT, "late", &s);
    }
    assert_int_equal(due, 1);
    tt_dump_await();
    assert_true(exists(path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(tutti_trace_dump(NULL, NULL), TUTTI_OK);
    assert_true(exists(path));
    assert_int_equal(unlink(path), 0);
}

/* Commands in quick succession write one dump, after the directory was set. */
static void a_command_writes_a_dump(void **state)
{
    struct json_object *head;
    char path[300];
    FILE *f;

    (void)state;
    snprintf(path, sizeof path, "%s", path_of("tutti-trace.0000000000000077.3.jsonl"));
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(tt_dump_command("", i), TT_DUMP_STARTED);
    tt_dump_await();
    f = fopen(path, "r");
    assert_non_null(f);
    head = next_line(f);
    fclose(f);
    assert_string_equal(json_object_get_string(member(head, "reason")), "command");
    assert_null(member(head, "message"));
    json_object_put(head);
    assert_int_equal(unlink(path), 0);
}

/* Waits until a file exists, and removes it. */
static void await_and_remove(const char *path)
{
    const uint64_t due_ns = tt_now_ns() + 300 * TT_SECOND;

    while (access(path, F_OK) != 0) {
        assert_true(tt_now_ns() < due_ns);
        usleep(1000);
    }
    assert_int_equal(unlink(path), 0);
}

/* The ranks of a process share one trace, so one of them starts its dump, also if another receives
 * the command after the dump is complete. */
static void a_command_for_several_ranks_of_a_process_writes_one_dump(void **state)
{
    char path[300];

    (void)state;
    snprintf(path, sizeof path, "%s", path_of("tutti-trace.0000000000000077.3.jsonl"));
    assert_int_equal(tt_dump_command(folder, 1000), TT_DUMP_STARTED);
    assert_int_equal(tt_dump_command(folder, 1000), TT_DUMP_SHARED);
    await_and_remove(path);
    assert_int_equal(tt_dump_command(folder, 1000), TT_DUMP_SHARED);
    tt_dump_await();
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(tt_dump_command(folder, 1001), TT_DUMP_STARTED);
    await_and_remove(path);
}

/* Removes a directory as soon as it is empty: the process that stores a dump removes its temporary
 * directory after the file is there. */
static void await_and_remove_directory(const char *path)
{
    const uint64_t due_ns = tt_now_ns() + 300 * TT_SECOND;

    while (rmdir(path) != 0) {
        assert_true(errno == ENOTEMPTY || errno == EEXIST);
        assert_true(tt_now_ns() < due_ns);
        usleep(1000);
    }
}

/* A directory that does not exist is an error of the dump, not of the command. It is not created;
 * the dump of the second command begins after the first one has failed. */
static void a_command_can_have_another_directory(void **state)
{
    char path[300], other[200], never[200];

    (void)state;
    snprintf(never, sizeof never, "%s/never", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(tt_dump_command(never, 2000), TT_DUMP_STARTED);
    assert_int_equal(tt_dump_command(other, 2001), TT_DUMP_STARTED);
    snprintf(path, sizeof path, "%s/tutti-trace.0000000000000077.3.jsonl", other);
    await_and_remove(path);
    assert_false(exists(never));
    await_and_remove_directory(other);
}

/* The command arrives before tt_dump_start has read TUTTI_TRACE_DIR. */
static void a_command_with_a_directory_needs_no_other_one(void **state)
{
    (void)state;
    assert_int_equal(tt_dump_command("", 1), TT_DUMP_REFUSED);
    assert_int_equal(tt_dump_command(folder, 1), TT_DUMP_STARTED);
    await_and_remove(path_of("tutti-trace.0000000000000000.0.jsonl"));
}

/* The last test: /bin/sh cannot be executed in the mount namespace of this thread, and of threads
 * that it starts. */
static void without_a_shell_a_thread_stores_the_dump(void **state)
{
    struct stat st;

    (void)state;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("/dev/null", "/bin/sh", NULL, MS_BIND, NULL) != 0)
        skip();
    assert_int_equal(access("/bin/sh", X_OK), -1);
    assert_int_equal(tutti_trace_dump(path_of("whole.jsonl"), NULL), TUTTI_OK);
    assert_int_equal(stat(path_of("whole.jsonl"), &st), 0);
    assert_true(st.st_size > 1000);
    assert_int_equal(tutti_trace_dump(path_of("pipe"), NULL), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_trace_dump("/nonexistent-folder/x.jsonl", NULL), TUTTI_ERR_SYSTEM);
    assert_non_null(strstr(tutti_last_error(), "No such file or directory"));
}

struct seen {
    uint32_t n, stop_after;
    uint64_t last_number;
    char note[64];
};

static int see(void *arg, const tutti_trace_op *op)
{
    struct seen *s = arg;

    assert_int_equal(op->size, sizeof *op);
    s->n++;
    s->last_number = op->number;
    snprintf(s->note, sizeof s->note, "%s", op->note ? op->note : "");
    return s->n == s->stop_after;
}

static void a_snapshot_shows_the_records_of_the_process(void **state)
{
    struct seen s = { 0 };
    uint64_t lost = 77, number;

    (void)state;
    assert_int_equal(tutti_trace_read(NULL, NULL, NULL), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_trace_annotate(NULL), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_trace_annotate("the last one"), TUTTI_OK);
    number = record_one(1, 0);
    assert_int_equal(tutti_trace_read(see, &s, &lost), TUTTI_OK);
    assert_true(s.n > 1 && s.n <= tt_oplog_depth());
    assert_int_equal(s.last_number, number);
    assert_string_equal(s.note, "the last one");
    s = (struct seen){ .stop_after = 2 };
    assert_int_equal(tutti_trace_read(see, &s, NULL), TUTTI_OK);
    assert_int_equal(s.n, 2);
}

struct counts {
    uint32_t began, ended;
    tutti_status status;
};

static void count_begin(void *arg, const tutti_trace_op *op)
{
    struct counts *h = arg;

    h->began++;
    assert_int_equal(op->status, TUTTI_PENDING);
    assert_true(op->called_ns > 0 && op->ended_ns == 0);
}

static void count_end(void *arg, const tutti_trace_op *op)
{
    struct counts *h = arg;

    h->ended++;
    h->status = op->status;
    assert_true(op->ended_ns >= op->called_ns);
}

static void subscribers_receive_begins_and_ends(void **state)
{
    struct counts h = { 0 }, only_end = { 0 };
    const tutti_trace_subscriber both = { .size = sizeof both, .arg = &h, .began = count_begin,
                                          .ended = count_end },
                                 one = { .size = sizeof one, .arg = &only_end, .ended = count_end };
    int id = -1, second = -1, more[8], n = 0;

    (void)state;
    assert_int_equal(tutti_trace_subscribe(NULL, &id), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_trace_subscribe(&both, NULL), TUTTI_ERR_INVALID);
    assert_int_equal(tutti_trace_subscribe(&both, &id), TUTTI_OK);
    assert_int_equal(tutti_trace_subscribe(&one, &second), TUTTI_OK);
    tt_oplog_end(record_one(1, 0), TUTTI_ERR_ABORTED);
    assert_int_equal(h.began, 1);
    assert_int_equal(h.ended, 1);
    assert_int_equal(h.status, TUTTI_ERR_ABORTED);
    assert_int_equal(only_end.ended, 1);
    assert_int_equal(tutti_trace_unsubscribe(id), TUTTI_OK);
    assert_int_equal(tutti_trace_unsubscribe(id), TUTTI_ERR_INVALID);
    tt_oplog_end(record_one(2, 0), TUTTI_OK);
    assert_int_equal(h.began, 1);
    assert_int_equal(only_end.ended, 2);
    while (tutti_trace_subscribe(&one, &more[n]) == TUTTI_OK)
        n++;
    assert_int_equal(n, 7);
    while (n-- > 0)
        assert_int_equal(tutti_trace_unsubscribe(more[n]), TUTTI_OK);
    assert_int_equal(tutti_trace_unsubscribe(second), TUTTI_OK);
    tt_oplog_end(record_one(3, 0), TUTTI_OK);
    assert_int_equal(only_end.ended, 2);
    assert_int_equal(atomic_load(&tt_oplog_state), TT_OPLOG_RECORDING);
}

static int set_up(void **state)
{
    (void)state;
    setenv("TUTTI_TRACE_RECORDS", "1000", 1);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(tutti_trace_read(see, NULL, NULL), TUTTI_ERR_UNSUPPORTED);
    assert_int_equal(tt_oplog_start(), TUTTI_OK);
    assert_int_equal(tt_oplog_depth(), 1024);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path_of("whole.jsonl"));
    unlink(path_of("pipe"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dump_contains_what_was_recorded),
        cmocka_unit_test(a_file_that_cannot_be_written_is_an_error),
        cmocka_unit_test(a_file_is_not_writable_by_others),
        cmocka_unit_test(a_full_disk_leaves_the_old_file),
        cmocka_unit_test(programs_that_reap_all_children_get_dumps),
        cmocka_unit_test(the_end_of_the_storing_process_is_noticed),
        cmocka_unit_test(a_snapshot_shows_the_records_of_the_process),
        cmocka_unit_test(subscribers_receive_begins_and_ends),
        cmocka_unit_test(a_command_with_a_directory_needs_no_other_one),
        cmocka_unit_test(a_storm_of_failures_writes_one_dump),
        cmocka_unit_test(a_command_writes_a_dump),
        cmocka_unit_test(a_command_for_several_ranks_of_a_process_writes_one_dump),
        cmocka_unit_test(a_command_can_have_another_directory),
        cmocka_unit_test(without_a_shell_a_thread_stores_the_dump),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
