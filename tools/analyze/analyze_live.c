#include "tools/analyze/analyze_live.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
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

/* ---- the directory ---- */

/* The processes of another user cannot write into the directory of root. */
static bool give_to_user(const char *path, const struct status_where *w)
{
    struct stat base;

    return geteuid() != 0 || (stat(w->base, &base) == 0 && chown(path, base.st_uid, -1) == 0);
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
    l->is_temporary = mkdtemp(l->path);
    if (l->is_temporary && give_to_user(l->path, w))
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
    return true;
}

/* ---- the dumps ---- */

/* Returns the number of dumps that will be written; 0: reported. */
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

/* Waits for n dumps, as long as others arrive. Returns whether there is one. */
static bool await_dumps(const struct analyze_live *l, uint32_t n, const char *who)
{
    uint64_t due_ns = tt_now_ns() + l->timeout_ms * TT_MS;
    uint32_t there = 0;

    while (there < n && tt_now_ns() < due_ns) {
        const uint32_t now_there = dump_files_count(l->path);

        if (now_there > there)
            due_ns = tt_now_ns() + l->timeout_ms * TT_MS;
        there = now_there;
        if (there < n)
            poll(NULL, 0, POLL_MS);
    }
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
    if (!(l->dir ? use_directory(l, who) : make_directory(l, &w, who)))
        return false;
    n = command_dumps(l, &w, who);
    return n > 0 && await_dumps(l, n, who);
}

static void remove_files(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;

    if (!folder)
        return;
    while ((entry = readdir(folder)))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
}

/* A process whose answer was late may write its dump now; without the directory it cannot. */
void analyze_live_fini(struct analyze_live *l)
{
    if (!l->is_temporary)
        return;
    for (int i = 0; i < REMOVALS_MAX; i++) {
        remove_files(l->path);
        if (rmdir(l->path) == 0 || errno != ENOTEMPTY)
            return;
        poll(NULL, 0, POLL_MS);
    }
}
