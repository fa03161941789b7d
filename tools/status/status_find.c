/* Finds a job and a process of it that responds. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/status.h"
#include "tools/status/status.h"

#define AT_ONCE 8u              /* processes that are tried concurrently */
#define ROUNDS 4u
#define JOB_DIGITS 16
#define SCHEME "tcp://"

/* ---- the job ---- */

static const char *command;     /* the prefix of messages */

static void list_jobs(const char *base, const uint64_t *job, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank[TT_PLACE_SOCKETS_MAX];
        const uint32_t nranks = tt_place_ranks(base, job[i], rank, TT_PLACE_SOCKETS_MAX);

        fprintf(stderr, "  %016" PRIx64 "  %u process%s on this host\n", job[i], nranks,
                nranks == 1 ? "" : "es");
    }
}

/* Keeps the jobs whose ID begins with `prefix`. */
static uint32_t keep_matching(uint64_t *job, uint32_t n, const char *prefix)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++) {
        char text[JOB_DIGITS + 1];

        snprintf(text, sizeof text, "%016" PRIx64, job[i]);
        if (strncasecmp(text, prefix, strlen(prefix)) == 0)
            job[kept++] = job[i];
    }
    return kept;
}

/* Keeps the jobs that have a live process. */
static uint32_t keep_live(const char *base, uint64_t *job, uint32_t n)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank[TT_PLACE_SOCKETS_MAX], k = 0;
        const uint32_t nranks = tt_place_ranks(base, job[i], rank, TT_PLACE_SOCKETS_MAX);
        char path[TT_PLACE_BYTES];
        int fd = -1;

        for (; k < nranks && fd < 0 && fd != -EAGAIN; k++)
            if (tt_place_path(base, job[i], rank[k], path))
                fd = tt_place_connect(path);
        if (fd >= 0)
            close(fd);
        if (fd >= 0 || fd == -EAGAIN)
            job[kept++] = job[i];
    }
    return kept;
}

static bool find_job(struct status_where *out, const char *prefix)
{
    uint64_t job[TT_PLACE_JOBS_MAX];
    uint32_t n;

    tt_place_tidy(out->base, 0);
    n = keep_live(out->base, job, tt_place_jobs(out->base, job, TT_PLACE_JOBS_MAX));
    n = keep_matching(job, n, prefix);
    out->job = n ? job[0] : 0;
    if (n == 1)
        return true;
    if (n == 0 && *prefix)
        fprintf(stderr, "%s: no job id on this host begins with \"%s\" (in %s)\n", command, prefix,
                out->base);
    else if (n == 0)
        fprintf(
            stderr,
            "%s: no job of this user runs on this host (no socket in %s; was the job started with "
            "another TUTTI_STATUS?)\n",
            command, out->base);
    else
        fprintf(stderr, "%s: %u jobs of this user run on this host; specify one of:\n", command, n);
    if (n > 1)
        list_jobs(out->base, job, n);
    return false;
}

/* Splits "/base/JOB" or "/base/JOB/RANK". */
static bool split_path(const char *path, bool socket, struct status_where *out)
{
    char copy[TT_PLACE_BYTES + JOB_DIGITS];
    char *end, *name;

    if (snprintf(copy, sizeof copy, "%s", path) >= (int)sizeof copy)
        return false;
    while ((end = strrchr(copy, '/')) && !end[1] && end > copy)
        *end = 0;
    if (socket) {
        name = strrchr(copy, '/');
        out->first_rank = name ? (uint32_t)strtoul(name + 1, &end, 10) : 0;
        if (!name || *end || end == name + 1)
            return false;
        *name = 0;
        out->one = true;
    }
    name = strrchr(copy, '/');
    if (!name || strlen(name + 1) != JOB_DIGITS)
        return false;
    out->job = strtoull(name + 1, &end, 16);
    if (*end)
        return false;
    *name = 0;
    return snprintf(out->base, sizeof out->base, "%s", copy) < (int)sizeof out->base;
}

static bool find_path(const char *path, struct status_where *out)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        fprintf(stderr, "%s: cannot access %s: %s\n", command, path, strerror(errno));
        return false;
    }
    if (split_path(path, S_ISSOCK(st.st_mode), out))
        return true;
    if (S_ISDIR(st.st_mode) && strlen(path) < sizeof out->base - JOB_DIGITS) {
        snprintf(out->base, sizeof out->base, "%s", path);
        return find_job(out, "");
    }
    fprintf(stderr, "%s: %s is neither a status socket nor a directory of status sockets\n",
            command, path);
    return false;
}

bool status_find(const char *what, struct status_where *out, const char *who)
{
    command = who;
    *out = (struct status_where){ .job = 0 };
    if (what && strncmp(what, SCHEME, strlen(SCHEME)) == 0)
        return status_remote_find(what + strlen(SCHEME), out, who);
    if (what && strchr(what, '/'))
        return find_path(what, out);
    if (tt_place_base(out->base) != TUTTI_OK)   /* logged */
        return false;
    if (*out->base)
        return find_job(out, what ? what : "");
    fprintf(
        stderr,
        "%s: TUTTI_STATUS is 0, so no directory of status sockets is set (unset it, or pass the "
        "directory)\n",
        command);
    return false;
}

/* ---- the process ---- */

void status_disconnect(struct status_link *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    tt_framer_fini(&l->in);
}

int status_poll(struct pollfd *fds, uint32_t n, uint64_t due_ns, const atomic_bool *stop)
{
    const uint64_t now_ns = tt_now_ns(), left_ms = due_ns > now_ns ? (due_ns - now_ns) / TT_MS : 0;

    return poll(fds, n, stop && left_ms > STATUS_STOP_MS ? STATUS_STOP_MS : (int)left_ms + 1);
}

/* Reads received bytes. Returns whether they are a complete HELLO; *over: none will arrive. */
static bool read_hello(struct status_link *l, bool *over)
{
    struct tt_frame f;
    size_t room;
    uint8_t *at = tt_framer_space(&l->in, &room);
    const ssize_t n = at ? recv(l->fd, at, room, 0) : 0;

    *over = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (n > 0)
        tt_framer_added(&l->in, (size_t)n);
    if (!tt_framer_next(&l->in, &f)) {
        *over |= l->in.bad;
        return false;
    }
    *over = !tt_talk_hello_read(&f, &l->hello);
    return !*over;
}

/* Tries several processes; the first one that responds wins. Returns its index, or n. */
static uint32_t await_hello(struct status_link *l, uint32_t n, uint64_t due_ns,
                            const atomic_bool *stop)
{
    struct pollfd fds[AT_ONCE];
    uint32_t open = n;

    while (open > 0 && tt_now_ns() < due_ns && !status_is_stopped(stop)) {
        for (uint32_t i = 0; i < n; i++)
            fds[i] = (struct pollfd){ .fd = l[i].fd, .events = POLLIN };
        if (status_poll(fds, n, due_ns, stop) <= 0)
            continue;
        for (uint32_t i = 0; i < n; i++) {
            bool over = false;

            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            if (read_hello(&l[i], &over))
                return i;
            if (over) {
                status_disconnect(&l[i]);
                open--;
            }
        }
    }
    return n;
}

/* Connects to the next AT_ONCE live processes of rank[n], from *at on. */
static bool connect_any(const struct status_where *w, const uint32_t *rank, uint32_t n,
                        uint32_t *at, uint64_t due_ns, struct status_link *out)
{
    struct status_link l[AT_ONCE];
    char path[TT_PLACE_BYTES];
    uint32_t k = 0, won;

    for (; *at < n && k < AT_ONCE; ++*at) {
        l[k] = (struct status_link){ .fd = -1, .stop = w->stop };
        if (tt_place_path(w->base, w->job, rank[*at], path))
            l[k].fd = tt_place_connect(path);
        tt_framer_init(&l[k].in, TT_TALK_BODY_MAX);
        k += l[k].fd >= 0;
    }
    won = await_hello(l, k, due_ns, w->stop);
    for (uint32_t i = 0; i < k; i++)
        if (i != won)
            status_disconnect(&l[i]);
    if (won == k)
        return false;
    *out = l[won];
    return true;
}

bool status_connect(const struct status_where *w, uint32_t timeout_ms, struct status_link *out,
                    char *why)
{
    const uint64_t each_ns = timeout_ms * TT_MS / ROUNDS + 100 * TT_MS;
    uint32_t rank[TT_PLACE_SOCKETS_MAX], n = 1, at = 0;

    if (*w->address)
        return status_remote_connect(w, timeout_ms, out, why);
    rank[0] = w->first_rank;
    if (!w->one)
        n = tt_place_ranks(w->base, w->job, rank, TT_PLACE_SOCKETS_MAX);
    for (uint32_t round = 0; round < ROUNDS && at < n && !status_is_stopped(w->stop); round++)
        if (connect_any(w, rank, n, &at, tt_now_ns() + (w->one ? timeout_ms * TT_MS : each_ns),
                        out))
            return true;
    snprintf(why, STATUS_WHY_BYTES,
             "no process of job %016" PRIx64 " responds (%u socket%s in %s; the processes are "
             "stopped or have ended, or they belong to another user)",
             w->job, n, n == 1 ? "" : "s", w->base);
    return false;
}
