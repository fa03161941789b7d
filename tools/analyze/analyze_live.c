#include "tools/analyze/analyze_live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/dump_files.h"
#include "tools/status/status.h"

#define POLL_MS 20
#define REMOVALS_MAX 100

/* ---- signals ---- */

/* caught during the query, so that the directory is removed */
static const int signals[] = { SIGHUP, SIGINT, SIGTERM, SIGPIPE };

#define SIGNALS (sizeof signals / sizeof *signals)

static struct sigaction actions_before[SIGNALS];
static bool has_handlers;
static atomic_int stopped_by;       /* the first signal, or 0 */
static atomic_bool stops;

static void on_signal(int number)
{
    int none = 0;

    atomic_compare_exchange_strong(&stopped_by, &none, number);
    atomic_store(&stops, true);
}

/* Signals that are ignored (nohup) remain so. */
static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal };

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < SIGNALS; i++) {
        sigaction(signals[i], NULL, &actions_before[i]);
        if (actions_before[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
    has_handlers = true;
}

static void release_signals(void)
{
    for (size_t i = 0; has_handlers && i < SIGNALS; i++)
        sigaction(signals[i], &actions_before[i], NULL);
    has_handlers = false;
}

/* ---- the directory ---- */

/* Opens the directory that was just created; another user may have replaced it. */
static bool open_new(struct analyze_live *l)
{
    struct stat info;

    l->folder = open(l->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (l->folder < 0 || fstat(l->folder, &info) != 0)
        return false;
    if (info.st_uid == geteuid() && (info.st_mode & 07777) == 0700)
        return true;
    errno = EPERM;
    return false;
}

/* Makes the user of the job the owner: its processes cannot write into a directory of root. */
static bool give_to_user(int folder, const struct status_where *w)
{
    struct stat base;

    return geteuid() != 0 || (stat(w->base, &base) == 0 && fchown(folder, base.st_uid, -1) == 0);
}

static bool make_directory(struct analyze_live *l, const struct status_where *w, const char *who)
{
    const char *parent = getenv("TMPDIR");
    const int n = snprintf(l->path, sizeof l->path, "%s/tutti-analyze-XXXXXX",
                           parent && *parent == '/' ? parent : "/tmp");

    if (n >= (int)sizeof l->path) {
        fprintf(stderr, "%s: TMPDIR is too long: %d bytes\n", who, n);
        return false;
    }
    catch_signals();
    l->is_temporary = mkdtemp(l->path);
    if (l->is_temporary && open_new(l) && give_to_user(l->folder, w))
        return true;
    fprintf(stderr, "%s: cannot create the directory %s: %s\n", who, l->path, strerror(errno));
    return false;
}

static bool use_directory(struct analyze_live *l, const char *who)
{
    char path[PATH_MAX];
    struct stat info;

    if (!realpath(l->dir, path) || stat(path, &info) != 0) {
        fprintf(stderr, "%s: cannot access %s: %s\n", who, l->dir, strerror(errno));
        return false;
    }
    if (!S_ISDIR(info.st_mode) || strlen(path) >= sizeof l->path) {
        fprintf(stderr, "%s: %s %s\n", who, path,
                S_ISDIR(info.st_mode) ? "is too long" : "is not a directory");
        return false;
    }
    if (dump_files_count(path) > 0) {
        fprintf(stderr, "%s: %s already contains trace dumps\n", who, path);
        return false;
    }
    memcpy(l->path, path, strlen(path) + 1);
    l->folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (l->folder < 0)
        fprintf(stderr, "%s: cannot access %s: %s\n", who, path, strerror(errno));
    return l->folder >= 0;
}

/* ---- the dumps ---- */

/* Returns the number of dumps that will be written; 0 after an error message. */
static uint32_t command_dumps(const struct analyze_live *l, const struct status_where *w,
                              const char *who)
{
    struct tt_collect_query q = { .what = TT_COLLECT_DUMP, .timeout_ms = l->timeout_ms };
    char why[STATUS_WHY_BYTES] = "";
    struct status_answer a;
    struct status_link link;
    bool good = status_connect(w, l->timeout_ms, &link, why);
    uint32_t n;

    memcpy(q.dir, l->path, sizeof q.dir);
    if (good) {
        good = status_ask(w, &link, &q, &a, why);
        status_disconnect(&link);
    }
    if (!good) {
        if (!atomic_load(&stops))
            fprintf(stderr, "%s: %s\n", who, why);
        return 0;
    }
    n = a.report.ndumps;
    if (n == 0)
        fprintf(stderr,
                "%s: no process of job %016" PRIx64 " writes a trace dump: earlier ones are not "
                "complete\n",
                who, a.hello.job);
    status_answer_fini(&a);
    return n;
}

/* Waits for n dumps; each arrival restarts the timeout. Returns whether at least one arrived. */
static bool await_dumps(const struct analyze_live *l, uint32_t n, const char *who)
{
    uint64_t due_ns = tt_now_ns() + l->timeout_ms * TT_MS;
    uint32_t there = 0;

    while (there < n && tt_now_ns() < due_ns && !atomic_load(&stops)) {
        const uint32_t now_there = dump_files_count(l->path);

        if (now_there > there)
            due_ns = tt_now_ns() + l->timeout_ms * TT_MS;
        there = now_there;
        if (there < n)
            poll(NULL, 0, POLL_MS);
    }
    if (atomic_load(&stops))
        return false;
    if (there < n)
        fprintf(stderr,
                "%s: %u of %u trace dumps did not arrive in %s within %.1f s (its disk does not "
                "respond, or other hosts have no such directory: see --dumps)\n",
                who, n - there, n, l->path, l->timeout_ms / 1e3);
    return there > 0;
}

bool analyze_live_collect(struct analyze_live *l, const char *who)
{
    struct status_where w;
    uint32_t n;

    if (!status_find(l->what, &w, who))
        return false;
    if (*w.address && !l->dir) {
        fprintf(stderr,
                "%s: a job at an address needs a directory that all of its hosts and this one "
                "have: --dumps\n",
                who);
        return false;
    }
    w.stop = &stops;
    if (!(l->dir ? use_directory(l, who) : make_directory(l, &w, who)))
        return false;
    n = command_dumps(l, &w, who);
    return n > 0 && await_dumps(l, n, who);
}

/* Opens a directory below `at` for reading; NULL: it is a link, or cannot be opened. */
static DIR *open_folder(int at, const char *name)
{
    const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;

    if (fd >= 0 && !folder)
        close(fd);
    return folder;
}

static bool is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

/* Removes a subdirectory with files only. */
static void remove_subfolder(int at, const char *name)
{
    DIR *folder = open_folder(at, name);
    struct dirent *entry;

    while (folder && (entry = readdir(folder)))
        if (is_entry(entry))
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
    unlinkat(at, name, AT_REMOVEDIR);
}

/* Removes the files, and the subdirectories in which dumps are written (*.tmp). */
static void remove_files(int at)
{
    DIR *folder = open_folder(at, ".");
    struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        const size_t n = strlen(entry->d_name);

        if (is_entry(entry) && unlinkat(at, entry->d_name, 0) != 0 && n > 4 &&
            strcmp(entry->d_name + n - 4, ".tmp") == 0)
            remove_subfolder(at, entry->d_name);
    }
    if (folder)
        closedir(folder);
}

/* Removes the directory. Retries while a process whose answer was late writes its dump into it. */
static void remove_directory(const struct analyze_live *l, const char *who)
{
    int err = ENOTEMPTY;

    for (int i = 0; i < REMOVALS_MAX && err == ENOTEMPTY; i++) {
        if (i > 0)
            poll(NULL, 0, POLL_MS);
        if (l->folder >= 0)
            remove_files(l->folder);
        err = rmdir(l->path) == 0 ? 0 : errno == EEXIST ? ENOTEMPTY : errno;
    }
    if (err)
        fprintf(stderr, "%s: cannot remove the directory %s: %s\n", who, l->path, strerror(err));
}

int analyze_live_fini(struct analyze_live *l, const char *who)
{
    if (l->is_temporary)
        remove_directory(l, who);
    if (l->folder >= 0)
        close(l->folder);
    l->folder = -1;
    release_signals();
    return atomic_load(&stopped_by);
}
