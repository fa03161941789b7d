#include "trace/dump.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/param.h"
#include "base/status.h"
#include "trace/dump_write.h"
#include "trace/oplog.h"

#define QUEUE_MAX 4
#define MESSAGE_BYTES 1024

/* A dump to be written. */
struct dump_job {
    struct dump_job *next;
    char path[PATH_MAX];
    enum tt_dump_reason reason;
    uint64_t failed_ns;         /* of the failure that caused it; 0: another cause */
    char message[MESSAGE_BYTES];
    bool has_message;
    struct tt_dump_state state;
    int users;                  /* references: the thread's, and that of a waiting call */
    bool done;
    tutti_status status;
    char why[MESSAGE_BYTES + PATH_MAX];
};

static const char *const reasons[] = {
    [TT_DUMP_TIMEOUT] = "timeout", [TT_DUMP_ABORTED] = "aborted",
    [TT_DUMP_PEER_LOST] = "peer_lost", [TT_DUMP_SIGNAL] = "signal",
    [TT_DUMP_CALL] = "call", [TT_DUMP_COMMAND] = "command",
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct dump_job *first, **last;     /* queue; the first one is being written */
    int njobs;
    bool thread_runs;
    bool started, watches;      /* watches: the thread keeps running, for signals */
    char dir[PATH_MAX - 128];   /* leaves room for a file name; "": none */
    uint64_t job, rank;
    uint32_t nranks;
    bool has_job;
    void (*collect)(struct tt_dump_state *s);
    uint32_t nautomatic;
    uint64_t automatic_ns;      /* time of the last automatic dump */
    bool stuck;                 /* the disk does not respond: no thread waits for it meanwhile */
    uint64_t command;           /* number of the last command that started a dump */
    bool has_command;
} dump = { .lock = PTHREAD_MUTEX_INITIALIZER, .last = &dump.first };

static atomic_bool dump_is_on;      /* TUTTI_TRACE_DIR is set */
static sem_t dump_wake;             /* posted for a new job, and by the signal handler */
static atomic_bool dump_signalled;

/* ---- jobs ---- */

/* Drops a reference. The caller holds the lock. */
static void job_release(struct dump_job *j)
{
    if (--j->users > 0)
        return;
    tt_dump_state_fini(&j->state);
    free(j);
}

static void set_path(char out[PATH_MAX], const char *dir)
{
    snprintf(out, PATH_MAX, "%.*s/tutti-trace.%016" PRIx64 ".%" PRIu64 ".jsonl",
             (int)sizeof dump.dir, dir, dump.job, dump.rank);
}

/* Creates a job. path NULL: the default path. */
static struct dump_job *job_create(const char *path, enum tt_dump_reason reason,
                                   const char *message)
{
    struct dump_job *j = calloc(1, sizeof *j);

    if (!j)
        return NULL;
    if (path)
        snprintf(j->path, sizeof j->path, "%s", path);
    else
        set_path(j->path, dump.dir);
    j->reason = reason;
    j->has_message = message;
    snprintf(j->message, sizeof j->message, "%s", message ? message : "");
    j->users = 1;
    return j;
}

static void job_write(struct dump_job *j, const struct tt_dump_head *head,
                      void (*collect)(struct tt_dump_state *s))
{
    if (collect)
        collect(&j->state);
    j->status = tt_dump_write(j->path, head, &j->state, j->why, sizeof j->why);
    if (j->status)
        tt_log(TT_LOG_WARN, "%s", j->why);
    else
        tt_log(TT_LOG_INFO, "trace dump written to %s", j->path);
}

/* Writes the first job; the caller holds the lock. */
static void run_first_job(void)
{
    struct dump_job *j = dump.first;
    const struct tt_dump_head head = {
        .reason = reasons[j->reason], .message = j->has_message ? j->message : NULL,
        .job = dump.job, .rank = dump.rank, .nranks = dump.nranks, .failed_ns = j->failed_ns,
    };
    void (*const collect)(struct tt_dump_state *) = dump.collect;

    pthread_mutex_unlock(&dump.lock);
    job_write(j, &head, collect);
    pthread_mutex_lock(&dump.lock);
    dump.first = j->next;
    if (!dump.first)
        dump.last = &dump.first;
    dump.njobs--;
    dump.stuck = false;
    j->done = true;
    job_release(j);
    pthread_cond_broadcast(&dump.changed);
}

/* Adds a job to the queue. Returns false if it is full. The caller holds the lock. */
static bool job_enqueue(struct dump_job *j)
{
    if (dump.njobs == QUEUE_MAX)
        return false;
    j->next = NULL;
    *dump.last = j;
    dump.last = &j->next;
    dump.njobs++;
    return true;
}

static void enqueue_signalled(void)
{
    struct dump_job *j;

    if (!atomic_exchange(&dump_signalled, false))
        return;
    j = job_create(NULL, TT_DUMP_SIGNAL, NULL);
    if (j && !job_enqueue(j))
        job_release(j);
}

static void *dump_thread(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&dump.lock);
    for (;;) {
        enqueue_signalled();
        if (dump.first) {
            run_first_job();
            continue;
        }
        if (!dump.watches)
            break;
        pthread_mutex_unlock(&dump.lock);
        sem_wait(&dump_wake);   /* also returns early, after a signal */
        pthread_mutex_lock(&dump.lock);
    }
    dump.thread_runs = false;
    pthread_mutex_unlock(&dump.lock);
    return NULL;
}

/* Starts the thread, or wakes it. All signals are blocked in it. The caller holds the lock. */
static bool ensure_thread(void)
{
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_t thread;
    int err;

    if (dump.thread_runs) {
        sem_post(&dump_wake);
        return true;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    err = pthread_create(&thread, &attr, dump_thread, NULL);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    dump.thread_runs = err == 0;
    return dump.thread_runs;
}

/* ---- waiting ---- */

static struct timespec deadline_after(uint64_t ns)
{
    const uint64_t at_ns = tt_now_ns() + ns;

    return (struct timespec){ (time_t)(at_ns / TT_SECOND), (long)(at_ns % TT_SECOND) };
}

/* Uses the monotonic clock. */
static void init_changed(void)
{
    pthread_condattr_t clock;

    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&dump.changed, &clock);
    pthread_condattr_destroy(&clock);
    sem_init(&dump_wake, 0, 0);
}

/* Resets the state in a forked child, which has no thread. The parent writes the dumps in
 * progress. */
static void dump_child_reset(void)
{
    pthread_mutex_init(&dump.lock, NULL);
    dump.first = NULL;
    dump.last = &dump.first;
    dump.njobs = 0;
    dump.thread_runs = dump.watches = dump.started = dump.has_job = dump.has_command = false;
    atomic_store(&dump_is_on, false);
    init_changed();
}

static void init_once(void)
{
    init_changed();
    pthread_atfork(NULL, NULL, dump_child_reset);
}

static void dump_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, init_once);
}

void tt_dump_await(void)
{
    char path[PATH_MAX] = "";
    struct timespec deadline;

    if (!atomic_load_explicit(&dump_is_on, memory_order_relaxed))
        return;
    deadline = deadline_after(TT_DUMP_AWAIT_NS);
    pthread_mutex_lock(&dump.lock);
    while (dump.first && !dump.stuck)
        if (pthread_cond_timedwait(&dump.changed, &dump.lock, &deadline) == ETIMEDOUT &&
            dump.first) {
            dump.stuck = true;
            snprintf(path, sizeof path, "%s", dump.first->path);
        }
    pthread_mutex_unlock(&dump.lock);
    if (*path)
        tt_log(TT_LOG_WARN,
               "trace dump %s is not complete after %u s: no call waits for it (the disk does not "
               "respond?)",
               path, (unsigned)(TT_DUMP_AWAIT_NS / TT_SECOND));
}

/* Waits for dumps, so that a program that exits after an error does not lose its dump. */
__attribute__((destructor)) static void await_at_exit(void)
{
    tt_dump_await();
}

/* ---- automatic dumps ---- */

static bool dump_is_due_here(void)
{
    return dump.nautomatic < TT_DUMP_AUTO_MAX && dump.njobs < QUEUE_MAX &&
           (dump.nautomatic == 0 || tt_now_ns() - dump.automatic_ns >= TT_DUMP_AUTO_NS);
}

bool tt_dump_is_due(void)
{
    bool due;

    if (!atomic_load_explicit(&dump_is_on, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&dump.lock);
    due = dump_is_due_here();
    pthread_mutex_unlock(&dump.lock);
    return due;
}

void tt_dump_post(enum tt_dump_reason reason, const char *message, struct tt_dump_state *s)
{
    struct dump_job *j = NULL;

    pthread_mutex_lock(&dump.lock);
    if (dump_is_due_here())
        j = job_create(NULL, reason, message);
    if (j && job_enqueue(j)) {
        j->state = *s;
        j->failed_ns = tt_now_ns();
        *s = (struct tt_dump_state){ .ops = NULL };
        dump.nautomatic++;
        dump.automatic_ns = tt_now_ns();
        ensure_thread();        /* on failure, a later dump tries again */
    } else if (j) {
        job_release(j);
    }
    pthread_mutex_unlock(&dump.lock);
    tt_dump_state_fini(s);
}

/* Returns whether a command for this file is queued. The first job is ignored if its file may be
 * written at this moment. The caller holds the lock. */
static bool is_commanded(const char *path)
{
    const struct dump_job *j = dump.first;

    for (j = j && dump.thread_runs ? j->next : j; j; j = j->next)
        if (j->reason == TT_DUMP_COMMAND && strcmp(j->path, path) == 0)
            return true;
    return false;
}

/* Queues a dump by a command. The caller holds the lock. */
static bool command_enqueue(const char *path)
{
    struct dump_job *j;

    if (is_commanded(path))
        return ensure_thread();
    j = job_create(path, TT_DUMP_COMMAND, NULL);
    if (j && job_enqueue(j))
        return ensure_thread();
    if (j)
        job_release(j);
    return false;
}

enum tt_dump_answer tt_dump_command(const char *dir, uint64_t number)
{
    enum tt_dump_answer answer = TT_DUMP_REFUSED;
    char path[PATH_MAX];

    if (!*dir && !atomic_load_explicit(&dump_is_on, memory_order_relaxed))
        return answer;
    dump_init();
    pthread_mutex_lock(&dump.lock);
    set_path(path, *dir ? dir : dump.dir);
    if (dump.has_command && dump.command == number)
        answer = TT_DUMP_SHARED;
    else if (command_enqueue(path))
        answer = TT_DUMP_STARTED;
    if (answer == TT_DUMP_STARTED) {
        dump.has_command = true;
        dump.command = number;
    }
    pthread_mutex_unlock(&dump.lock);
    return answer;
}

/* ---- calls ---- */

tutti_status tt_dump_call(const char *path, const char *message)
{
    const struct timespec deadline = deadline_after(TT_DUMP_WAIT_NS);
    struct dump_job *j;
    tutti_status st = TUTTI_OK;
    char why[sizeof j->why];

    dump_init();
    if (!path && !atomic_load(&dump_is_on))
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_trace_dump: path is NULL, and TUTTI_TRACE_DIR is not set");
    if (path && strlen(path) >= PATH_MAX - 16)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_trace_dump: the path is too long: %zu bytes (the maximum is %d)",
                       strlen(path), PATH_MAX - 17);
    j = job_create(path, TT_DUMP_CALL, message);
    if (!j)
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_trace_dump: out of memory");
    pthread_mutex_lock(&dump.lock);
    j->users = 2;
    if (!job_enqueue(j)) {
        j->users = 1;
        st = TUTTI_ERR_TIMEOUT;
        snprintf(why, sizeof why, "earlier dumps are not complete");
    } else if (!ensure_thread()) {
        st = TUTTI_ERR_NOMEM;
        snprintf(why, sizeof why, "cannot create a thread");
    }
    while (!st && !j->done)
        if (pthread_cond_timedwait(&dump.changed, &dump.lock, &deadline) == ETIMEDOUT && !j->done) {
            st = TUTTI_ERR_TIMEOUT;
            snprintf(why, sizeof why, "%s is not complete after %u s (the disk does not respond?)",
                     j->path, (unsigned)(TT_DUMP_WAIT_NS / TT_SECOND));
        }
    if (!st && j->status) {
        st = j->status;
        snprintf(why, sizeof why, "%s", j->why);
    }
    job_release(j);
    pthread_mutex_unlock(&dump.lock);
    return st ? tt_fail(st, "tutti_trace_dump: %s", why) : TUTTI_OK;
}

/* ---- start ---- */

static void on_signal(int sig)
{
    const int err = errno;

    (void)sig;
    atomic_store(&dump_signalled, true);
    sem_post(&dump_wake);
    errno = err;
}

/* Installs the handler, unless the program handles the signal itself. Returns whether the thread
 * must watch. */
static bool install_handler(int sig)
{
    struct sigaction now, mine = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    if (sig == 0)
        return false;
    if (sigaction(sig, NULL, &now) != 0) {
        tt_log(TT_LOG_WARN, "TUTTI_TRACE_SIGNAL is %d: %s", sig, strerror(errno));
        return false;
    }
    if (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == on_signal)
        return true;
    if ((now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL) {
        tt_log(TT_LOG_INFO, "signal %d writes no trace dump: the program handles it itself", sig);
        return false;
    }
    sigemptyset(&mine.sa_mask);
    return sigaction(sig, &mine, NULL) == 0;
}

tutti_status tt_dump_start(void)
{
    const char *dir = getenv("TUTTI_TRACE_DIR");
    int64_t sig = 0;
    tutti_status st = tt_param_get(TT_PARAM_TRACE_SIGNAL, &sig);

    if (st)
        return st;
    dump_init();
    if (!dir || !*dir)
        return TUTTI_OK;
    if (strlen(dir) >= sizeof dump.dir)
        return tt_fail(TUTTI_ERR_INVALID,
                       "TUTTI_TRACE_DIR is too long: %zu bytes (the maximum is %zu)", strlen(dir),
                       sizeof dump.dir - 1);
    pthread_mutex_lock(&dump.lock);
    if (!dump.started) {
        dump.started = true;
        snprintf(dump.dir, sizeof dump.dir, "%s", dir);
        atomic_store(&dump_is_on, true);
        dump.watches = install_handler((int)sig);
        if (dump.watches)
            ensure_thread();
    }
    pthread_mutex_unlock(&dump.lock);
    return TUTTI_OK;
}

bool tt_dump_set_job(uint64_t job, uint64_t rank, uint32_t nranks)
{
    bool is_first;

    dump_init();
    pthread_mutex_lock(&dump.lock);
    is_first = !dump.has_job;
    if (is_first) {
        dump.has_job = true;
        dump.job = job;
        dump.rank = rank;
        dump.nranks = nranks;
    }
    pthread_mutex_unlock(&dump.lock);
    return is_first;
}

void tt_dump_set_source(void (*collect)(struct tt_dump_state *s))
{
    dump_init();
    pthread_mutex_lock(&dump.lock);
    dump.collect = collect;
    pthread_mutex_unlock(&dump.lock);
}
