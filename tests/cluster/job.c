#include "job.h"

#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/status.h"
#include "support/unit.h"

#define IN_PLACE_OF_TCP "TUTTI_TEST_IN_PLACE_OF_TCP"
#define SLOWER_SANITIZED 3
#define RUN_S 200               /* limit for a job */
#define AWAIT_S 30              /* limit for a flag */
#define AFTER_FAILURE_S 3       /* limit for the other ranks after one rank failed */

void __lsan_do_leak_check(void) __attribute__((weak));
void __sanitizer_set_death_callback(void (*)(void)) __attribute__((weak));

static uint64_t seconds(uint64_t s)
{
    return s * TT_SECOND * (&__sanitizer_set_death_callback ? SLOWER_SANITIZED : 1);
}

bool job_tries_few(void)
{
    return UNIT_SHARE > 1 || getenv("TUTTI_TEST_FEW");
}

uint64_t job_seed(uint64_t seed)
{
    const char *wanted = getenv("TUTTI_TEST_SEED");

    return wanted ? strtoull(wanted, NULL, 0) : seed;
}

/* ---- the board ---- */

void job_raise(struct job_board *board, uint32_t flag)
{
    atomic_fetch_add(&board->flag[flag], 1);
    syscall(SYS_futex, &board->flag[flag], FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

bool job_await(struct job_board *board, uint32_t flag, uint32_t times)
{
    const uint64_t deadline_ns = tt_now_ns() + seconds(AWAIT_S);
    const struct timespec look_again = { .tv_sec = 1 };
    uint32_t seen;

    while ((seen = atomic_load(&board->flag[flag])) < times) {
        if (tt_now_ns() > deadline_ns)
            return false;
        syscall(SYS_futex, &board->flag[flag], FUTEX_WAIT, seen, &look_again, NULL, 0);
    }
    return true;
}

static bool await_change(pid_t pid, int what)
{
    const uint64_t deadline_ns = tt_now_ns() + seconds(AWAIT_S);
    siginfo_t info = { 0 };

    while (waitid(P_PID, (id_t)pid, &info, what | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
        if (tt_now_ns() > deadline_ns)
            return false;
        usleep(500);
    }
    return info.si_pid == pid;
}

bool job_await_stop(const struct job_board *board, uint32_t rank)
{
    return await_change(board->pid[rank], WSTOPPED | WEXITED);
}

void job_go_on_after(const struct job *job, struct job_board *board)
{
    (void)job;
    if (!job_await_stop(board, 1))
        return;
    job_raise(board, 0);
    job_await(board, 1, 1);
    kill(board->pid[1], SIGCONT);
}

bool job_await_end(const struct job_board *board, uint32_t rank)
{
    return await_change(board->pid[rank], WEXITED);
}

/* ---- a rank ---- */

_Noreturn void job_fail(const struct rank *r, const char *file, int line, const char *fmt, ...)
{
    char what[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    fprintf(stderr, "rank %u of %u, %s, seed %llu, in \"%s\": %s (%s:%d)\n    last error: %s\n",
            r->rank, r->nranks, r->job->wires, (unsigned long long)r->job->seed,
            r->board->step[r->rank], what, file, line, tutti_last_error());
    _exit(1);
}

void job_check_says(const struct rank *r, const char *file, int line, tutti_status got,
                    tutti_status expected, const char *text)
{
    if (got != expected || !strstr(tutti_last_error(), text))
        job_fail(r, file, line, "it is %s, not %s with \"%s\"", tutti_status_name(got),
                 tutti_status_name(expected), text);
}

void job_step(struct rank *r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(r->board->step[r->rank], JOB_STEP_BYTES, fmt, ap);
    va_end(ap);
}

static void open_with(struct rank *r, const tutti_conf *conf)
{
    CHECK_OK(r, tutti_comm_create(&r->comm, conf));
    CHECK(r,
          tutti_comm_rank(r->comm) == (int)r->rank && tutti_comm_size(r->comm) == (int)r->nranks);
}

void job_open(struct rank *r)
{
    open_with(r, NULL);
}

void job_open_restoring(struct rank *r)
{
    const tutti_conf conf = { .size = sizeof conf, .restore = 1 };

    open_with(r, &conf);
}

void job_close(struct rank *r)
{
    tutti_comm_destroy(r->comm);
    r->comm = NULL;
}

void job_meet(struct rank *r)
{
    job_raise(r->board, JOB_FLAGS - 1);
    CHECK(r, job_await(r->board, JOB_FLAGS - 1, ++r->meetings * r->nranks));
}

static uint32_t entries(const char *folder)
{
    DIR *dir = opendir(folder);
    uint32_t n = 0;

    tt_assert(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

uint32_t job_descriptors(void)
{
    return entries("/proc/self/fd") - 1;    /* without the descriptor of the directory itself */
}

uint32_t job_threads(void)
{
    return entries("/proc/self/task");
}

static uint32_t threads_at_rest;    /* of this rank */

static void *send_id(void *arg)
{
    *(pid_t *)arg = gettid();
    return NULL;
}

/* Counts threads after a first one was started and joined, because sanitizers start their own
 * threads then. */
static void count_threads_at_rest(void)
{
    char path[64];
    pthread_t thread;
    pid_t id = 0;

    tt_assert(pthread_create(&thread, NULL, send_id, &id) == 0);
    pthread_join(thread, NULL);
    snprintf(path, sizeof path, "/proc/self/task/%d", (int)id);
    while (access(path, F_OK) == 0)
        usleep(100);
    threads_at_rest = job_threads();
}

bool job_await_no_thread(void)
{
    const uint64_t deadline_ns = tt_now_ns() + seconds(AWAIT_S);

    while (job_threads() > threads_at_rest) {
        if (tt_now_ns() > deadline_ns)
            return false;
        usleep(200);
    }
    return true;
}

bool job_await_descriptors(uint32_t most)
{
    const uint64_t deadline_ns = tt_now_ns() + seconds(AWAIT_S);

    while (job_descriptors() > most) {
        if (tt_now_ns() > deadline_ns)
            return false;
        usleep(200);
    }
    return true;
}

/* Returns whether a file of /proc/self has a line with `text`. */
static bool file_has(const char *path, const char *text, char *line, size_t bytes)
{
    FILE *f = fopen(path, "re");
    bool found = false;

    tt_assert(f);
    while (!found && fgets(line, (int)bytes, f))
        found = strstr(line, text) != NULL;
    fclose(f);
    return found;
}

uint64_t job_resident_bytes(void)
{
    char line[256];

    if (!file_has("/proc/self/status", "VmRSS:", line, sizeof line))
        return 0;
    return strtoull(line + strlen("VmRSS:"), NULL, 10) * 1024;
}

/* Returns whether mappings may have names: libfabric's shm provider names some, and unlinks them on
 * a regular exit. */
static bool may_name_mappings(void)
{
    const char *provider = getenv("TUTTI_OFI_PROVIDER");

    return provider && strcmp(provider, "shm") == 0;
}

static _Noreturn void child(struct rank *r, void (*role)(struct rank *))
{
    const char *in_place_of_tcp = getenv(IN_PLACE_OF_TCP);
    char number[16], line[512];
    static const int caught[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        signal(caught[i], SIG_DFL); /* the test runner's handlers would continue with the next
                                       test in this process */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    count_threads_at_rest();
    r->board->pid[r->rank] = getpid();  /* the test writes it too, but perhaps later */
    snprintf(number, sizeof number, "%u", r->rank);
    setenv("TUTTI_RANK", number, 1);
    /* not earlier: the test process reads the original value */
    setenv("TUTTI_WIRES", in_place_of_tcp ? in_place_of_tcp : r->job->wires, 1);
    role(r);
    if (!may_name_mappings() && file_has("/proc/self/maps", "/dev/shm/", line, sizeof line))
        job_fail(r, __FILE__, __LINE__, "a mapping has a name that can outlive its rank: %s", line);
    if (r->comm)
        job_meet(r);            /* not in tests of early exits */
    job_close(r);
    if (__lsan_do_leak_check)
        __lsan_do_leak_check();
    _exit(0);
}

/* ---- the run ---- */

static void set_environment(const struct job *job)
{
    char text[64];
    uint64_t token;

    tt_random_bytes(&token, sizeof token);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)token);
    setenv("TUTTI_TOKEN", text, 1);
    snprintf(text, sizeof text, "tcp://127.0.0.1:%u", unit_free_port());
    setenv("TUTTI_RENDEZVOUS", text, 1);
    snprintf(text, sizeof text, "%u", job->nranks);
    setenv("TUTTI_SIZE", text, 1);
    setenv("TUTTI_LOG", "none", 0);     /* failures are intended; checks show the messages */
}

/* Prints the stacks of a rank that hangs, if gdb is installed. */
static void show_stacks(pid_t pid)
{
    char number[16];
    pid_t gdb;

    snprintf(number, sizeof number, "%d", (int)pid);
    fflush(NULL);
    gdb = fork();
    if (gdb == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execlp("timeout", "timeout", "30", "gdb", "-q", "-batch", "-nx", "-p", number, "-ex",
               "thread apply all bt 12", (char *)NULL);
        _exit(127);
    }
    if (gdb > 0)
        waitpid(gdb, NULL, 0);
}

static bool ended_well(const struct job *job, const struct job_board *board, uint32_t rank)
{
    int status = 0;

    assert_int_equal(waitpid(board->pid[rank], &status, 0), board->pid[rank]);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFSIGNALED(status) && board->dies[rank] &&
        (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == (int)board->dies[rank]))
        return true;
    fprintf(stderr, "rank %u of %u, %s, seed %llu ended with %s %d, in \"%s\"\n", rank, job->nranks,
            job->wires, (unsigned long long)job->seed,
            WIFSIGNALED(status) ? "signal" : "exit status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), board->step[rank]);
    return false;
}

/* Kills the remaining ranks and prints their last steps. */
static void end_rest(const struct job *job, const struct job_board *board,
                     const struct pollfd *rest, bool show)
{
    for (uint32_t rank = 0; rank < job->nranks; rank++) {
        if (rest[rank].fd < 0)
            continue;
        fprintf(stderr, "rank %u of %u, %s, seed %llu does not end: it is in \"%s\"\n", rank,
                job->nranks, job->wires, (unsigned long long)job->seed, board->step[rank]);
        if (show)
            show_stacks(board->pid[rank]);
    }
    for (uint32_t rank = 0; rank < job->nranks; rank++)
        if (rest[rank].fd >= 0) {
            kill(board->pid[rank], SIGKILL);
            waitpid(board->pid[rank], NULL, 0);
            close(rest[rank].fd);
        }
}

/* Waits for all ranks. A rank that is expected to die may be stopped, so it is killed when all
 * other ranks have exited. */
static bool reap(const struct job *job, struct job_board *board)
{
    uint64_t deadline_ns = tt_now_ns() + seconds(RUN_S);
    struct pollfd fds[JOB_RANKS_MAX];
    uint32_t left = job->nranks, doomed;
    bool good = true;

    for (uint32_t rank = 0; rank < job->nranks; rank++) {
        fds[rank] = (struct pollfd){ .fd = (int)syscall(SYS_pidfd_open, board->pid[rank], 0),
                                     .events = POLLIN };
        assert_true(fds[rank].fd >= 0);
    }
    while (left > 0) {
        poll(fds, job->nranks, 100);
        doomed = 0;
        for (uint32_t rank = 0; rank < job->nranks; rank++) {
            doomed += fds[rank].fd >= 0 && !fds[rank].revents && board->dies[rank];
            if (fds[rank].fd < 0 || !fds[rank].revents)
                continue;
            close(fds[rank].fd);
            fds[rank].fd = -1;
            left--;
            if (!ended_well(job, board, rank) && good) {
                good = false;
                deadline_ns = tt_now_ns() + seconds(AFTER_FAILURE_S);
            }
        }
        for (uint32_t rank = 0; left > 0 && left == doomed && rank < job->nranks; rank++)
            if (fds[rank].fd >= 0)
                kill(board->pid[rank], SIGKILL);
        if (left > 0 && tt_now_ns() > deadline_ns) {
            end_rest(job, board, fds, good);
            return false;
        }
    }
    return good;
}

/* Checks that no named files or segments remain. */
static void check_leavings(void)
{
    DIR *dir = opendir("/dev/shm");
    const struct dirent *e;

    while (dir && (e = readdir(dir)))
        if (strstr(e->d_name, "tutti"))
            fail_msg("/dev/shm/%s was left behind", e->d_name);
    if (dir)
        closedir(dir);
}

void job_run(const struct job *job, void (*role)(struct rank *))
{
    struct job_board *board;
    struct rank r = { .nranks = job->nranks, .job = job };
    bool good;

    if (getenv(IN_PLACE_OF_TCP) && strcmp(job->wires, "tcp") != 0)
        return;
    r.board = board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(board, MAP_FAILED);
    assert_in_range(job->nranks, 1, JOB_RANKS_MAX);
    set_environment(job);
    fflush(NULL);
    for (r.rank = 0; r.rank < job->nranks; r.rank++) {
        pid_t pid;

        tt_prng_init(&r.prng, job->seed * JOB_RANKS_MAX + r.rank + 1);
        tt_prng_init(&r.common, job->seed);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            child(&r, role);
        board->pid[r.rank] = pid;
    }
    if (job->direct)
        job->direct(job, board);
    good = reap(job, board);
    munmap(board, sizeof *board);
    assert_true(good);
    check_leavings();
}

void *job_have(struct rank *r, void *mem)
{
    CHECK(r, mem);
    return mem;
}

/* By memcmp: fast, and intercepted by sanitizers. */
void job_check_all(struct rank *r, const uint8_t *mem, size_t bytes, uint8_t value)
{
    if (mem[0] == value && memcmp(mem, mem + 1, bytes - 1) == 0)
        return;
    for (size_t i = 0; i < bytes; i++)
        if (mem[i] != value)
            job_fail(r, __FILE__, __LINE__, "byte %zu of %zu is %02x, not %02x", i, bytes, mem[i],
                     value);
}

bool job_names(const char *sentence, uint32_t rank)
{
    char text[16];

    snprintf(text, sizeof text, "rank %u", rank);
    for (const char *at = strstr(sentence, text); at; at = strstr(at + 1, text))
        if (at[strlen(text)] < '0' || at[strlen(text)] > '9')
            return true;
    return false;
}
