#include "status/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/status.h"

#define VARIABLE "TUTTI_STATUS"
#define BACKLOG 64
#define STALE_S 60              /* minimum age of an incomplete socket to remove it */
#define JOB_DIGITS 16

tutti_status tt_place_base(char out[TT_PLACE_BYTES])
{
    const char *value = getenv(VARIABLE);
    int n = 0;

    *out = 0;
    if (!value || !*value || strcmp(value, "1") == 0)
        n = snprintf(out, TT_PLACE_BYTES, "/tmp/tutti-%u", (unsigned)geteuid());
    else if (*value == '/')
        n = snprintf(out, TT_PLACE_BYTES, "%s", value);
    else if (strcmp(value, "0") != 0)
        return tt_fail(TUTTI_ERR_INVALID, VARIABLE " is \"%s\": must be 0, 1 or an absolute path",
                       value);
    if (n >= (int)(TT_PLACE_BYTES - JOB_DIGITS - 16))
        return tt_fail(TUTTI_ERR_INVALID,
                       VARIABLE " is \"%s\": too long for the path of a Unix socket", value);
    return TUTTI_OK;
}

bool tt_place_is_chosen(void)
{
    const char *value = getenv(VARIABLE);

    return value && *value == '/';
}

bool tt_place_path(const char *base, uint64_t job, uint32_t rank, char out[TT_PLACE_BYTES])
{
    const int n = snprintf(out, TT_PLACE_BYTES, "%s/%016" PRIx64 "/%u", base, job, rank);

    return n > 0 && n < (int)TT_PLACE_BYTES;
}

/* ---- sockets ---- */

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };

    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    return a;
}

int tt_place_connect(const char *path)
{
    const struct sockaddr_un a = address_of(path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err;

    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    err = errno;
    close(fd);
    return -err;
}

/* Creates a directory that only this user can open. Returns 0 or an errno; EPERM: other users can
 * open it. */
static int make_private(const char *path)
{
    struct stat st;

    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return errno;
    if (lstat(path, &st) != 0)
        return errno;
    return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0 ? 0 : EPERM;
}

/* Binds under a temporary name, so that a socket with a final name always accepts connections. */
static int bind_and_listen(int fd, const char *path)
{
    char temporary[TT_PLACE_BYTES];
    const char *name = strrchr(path, '/') + 1;
    struct sockaddr_un a;

    if (snprintf(temporary, sizeof temporary, "%.*s.%s", (int)(name - path), path, name) >=
        (int)sizeof temporary)
        return ENAMETOOLONG;
    a = address_of(temporary);
    unlink(temporary);          /* left by a killed process */
    if (bind(fd, (const struct sockaddr *)&a, sizeof a) != 0)
        return errno;
    if (listen(fd, BACKLOG) != 0 || rename(temporary, path) != 0) {
        const int err = errno;

        unlink(temporary);
        return err;
    }
    return 0;
}

static tutti_status fail_place(char *why, size_t bytes, const char *path, int err)
{
    snprintf(why, bytes, "%s: %s", path,
             err == EPERM ? "it is not a directory of this user with mode 0700" : strerror(err));
    return TUTTI_ERR_SYSTEM;
}

tutti_status tt_place_listen(const char *base, uint64_t job, uint32_t rank, struct tt_place *out,
                             char *why, size_t bytes)
{
    char dir[TT_PLACE_BYTES], path[TT_PLACE_BYTES];
    struct stat st = { .st_ino = 0 };
    int err, s;

    snprintf(dir, sizeof dir, "%.*s/%016" PRIx64, (int)(sizeof dir - JOB_DIGITS - 2), base, job);
    if (!tt_place_path(base, job, rank, path))
        return fail_place(why, bytes, base, ENAMETOOLONG);
    err = make_private(base);
    if (err)
        return fail_place(why, bytes, base, err);
    err = make_private(dir);
    if (err)
        return fail_place(why, bytes, dir, err);
    s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return fail_place(why, bytes, path, errno);
    err = bind_and_listen(s, path);
    if (err) {
        close(s);
        return fail_place(why, bytes, path, err);
    }
    lstat(path, &st);
    *out = (struct tt_place){ .fd = s, .device = st.st_dev, .inode = st.st_ino };
    memcpy(out->path, path, sizeof path);
    return TUTTI_OK;
}

void tt_place_leave(const struct tt_place *p)
{
    char dir[TT_PLACE_BYTES];
    struct stat st;

    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(p->path, '/') - p->path), p->path);
    if (lstat(p->path, &st) == 0 && st.st_dev == p->device && st.st_ino == p->inode)
        unlink(p->path);
    close(p->fd);
    rmdir(dir);                 /* succeeds for the last process on this host */
}

/* ---- lists ---- */

static bool read_job(const char *name, uint64_t *job)
{
    if (strlen(name) != JOB_DIGITS || strspn(name, "0123456789abcdef") != JOB_DIGITS)
        return false;
    *job = strtoull(name, NULL, 16);
    return true;
}

static bool read_rank(const char *name, uint32_t *rank)
{
    const size_t n = strlen(name);

    if (n == 0 || n > 9 || strspn(name, "0123456789") != n)
        return false;
    *rank = (uint32_t)strtoul(name, NULL, 10);
    return true;
}

uint32_t tt_place_jobs(const char *base, uint64_t *job, uint32_t most)
{
    DIR *d = opendir(base);
    const struct dirent *e;
    uint32_t n = 0, rank;

    while (d && n < most && (e = readdir(d)))
        n += read_job(e->d_name, &job[n]) && tt_place_ranks(base, job[n], &rank, 1) > 0;
    if (d)
        closedir(d);
    return n;
}

static int compare_ranks(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static DIR *open_job(const char *base, uint64_t job)
{
    char dir[TT_PLACE_BYTES + JOB_DIGITS + 2];

    snprintf(dir, sizeof dir, "%s/%016" PRIx64, base, job);
    return opendir(dir);
}

uint32_t tt_place_ranks(const char *base, uint64_t job, uint32_t *rank, uint32_t most)
{
    DIR *d = open_job(base, job);
    const struct dirent *e;
    uint32_t n = 0;

    while (d && n < most && (e = readdir(d)))
        n += read_rank(e->d_name, &rank[n]);
    if (d)
        closedir(d);
    qsort(rank, n, sizeof *rank, compare_ranks);
    return n;
}

/* ---- removal of stale sockets ---- */

/* Removes an incomplete socket, if it is old. */
static void remove_unfinished(int dir, const char *name)
{
    struct stat st;

    if (name[0] == '.' && name[1] && name[1] != '.' &&
        fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode) &&
        time(NULL) - st.st_mtime > STALE_S)
        unlinkat(dir, name, 0);
}

/* Removes the stale sockets of a job. Stops at the first live process, because a connection wakes
 * it. */
static void tidy_job(const char *base, uint64_t job)
{
    DIR *d = open_job(base, job);
    char path[TT_PLACE_BYTES];
    const struct dirent *e;
    uint32_t n = 0, rank;
    int fd = -1;

    while (d && fd < 0 && fd != -EAGAIN && n++ < TT_PLACE_SOCKETS_MAX && (e = readdir(d))) {
        if (!read_rank(e->d_name, &rank) || !tt_place_path(base, job, rank, path)) {
            remove_unfinished(dirfd(d), e->d_name);
            continue;
        }
        fd = tt_place_connect(path);
        if (fd == -ECONNREFUSED)
            unlink(path);
    }
    if (fd >= 0)
        close(fd);
    if (d)
        closedir(d);
    snprintf(path, sizeof path, "%.*s/%016" PRIx64, (int)(sizeof path - JOB_DIGITS - 2), base, job);
    rmdir(path);                /* fails if it has a live socket */
}

void tt_place_tidy(const char *base, uint64_t job)
{
    DIR *d = opendir(base);
    const struct dirent *e;
    uint32_t n = 0;
    uint64_t other;

    while (d && n++ < TT_PLACE_JOBS_MAX && (e = readdir(d)))
        if (read_job(e->d_name, &other) && other != job)
            tidy_job(base, other);
    if (d)
        closedir(d);
}
