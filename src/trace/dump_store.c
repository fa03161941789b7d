#include "trace/dump_store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_BYTES 512
#define ID_PIDFD ((idtype_t)3)      /* P_PIDFD, which older headers do not have */
#define END "end\n"              /* the last line of the output */
#define WRITTEN "written\n" END
#define IRREGULAR "irregular\n" END

/* $1: path, $2: temporary path, $3: folder. Standard input is the dump. The temporary file is in a
 * new directory, because a shell would open a FIFO that another user has created. */
static const char script[] = "umask go-w\n"
                             "if [ -L \"$1\" ] || { [ -e \"$1\" ] && [ ! -f \"$1\" ]; }; then\n"
                             "    echo irregular; echo end; exit\n"
                             "fi\n"
                             "rm -rf -- \"$2\" 2>/dev/null\n"
                             "ls -d -- \"$3/.\" >/dev/null && mkdir -m 700 -- \"$2\" && {\n"
                             "    cat >\"$2/dump\" && mv -f -- \"$2/dump\" \"$1\" && echo written\n"
                             "    rm -rf -- \"$2\"\n"
                             "}\n"
                             "echo end\n";

static tutti_status fail_store(const char *path, const char *cause, char *why, size_t bytes)
{
    snprintf(why, bytes, "cannot write trace dump %s: %s", path, cause);
    return TUTTI_ERR_SYSTEM;
}

static tutti_status refuse_irregular(const char *path, char *why, size_t bytes)
{
    snprintf(why, bytes, "cannot write trace dump %s: it exists and is not a regular file", path);
    return TUTTI_ERR_INVALID;
}

/* ---- by the calling thread ---- */

static int copy_all(int to, int from)
{
    off_t at = 0;
    ssize_t n;

    do
        n = sendfile(to, from, &at, 1 << 30);
    while (n > 0);
    return n == 0 ? 0 : errno;
}

static tutti_status store_here(const char *path, const char *temporary, int fd, char *why,
                               size_t bytes)
{
    struct stat st;
    int to, err;

    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return refuse_irregular(path, why, bytes);
    unlink(temporary);          /* left by an earlier process with this ID */
    to = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (to < 0)
        return fail_store(path, strerror(errno), why, bytes);
    err = copy_all(to, fd);
    if (close(to) != 0 && !err)
        err = errno;
    if (!err && rename(temporary, path) != 0)
        err = errno;
    if (!err)
        return TUTTI_OK;
    unlink(temporary);
    return fail_store(path, strerror(err), why, bytes);
}

/* ---- by a process ---- */

/* Starts the process, with the pipe `out` as its output. It inherits no other descriptor of this
 * process, so peers and launchers do not wait for it. As in this thread, all signals are blocked in
 * it: a terminal or launcher that ends the job must not interrupt it. Returns an errno. */
static int start_process(char *const argv[], int in, int out, pid_t *pid)
{
    char path[4096] = "PATH=/usr/bin:/bin", locale[] = "LC_ALL=C";
    char *const env[] = { path, locale, NULL };
    posix_spawn_file_actions_t actions;
    int err;

    if (getenv("PATH"))
        snprintf(path, sizeof path, "PATH=%s", getenv("PATH"));
    err = posix_spawn_file_actions_init(&actions);
    if (err)
        return err;
    err = posix_spawn_file_actions_adddup2(&actions, in, 0);
    err = err ? err : posix_spawn_file_actions_adddup2(&actions, out, 1);
    err = err ? err : posix_spawn_file_actions_adddup2(&actions, out, 2);
    err = err ? err : posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    err = err ? err : posix_spawn(pid, argv[0], &actions, NULL, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    return err;
}

/* Returns a pidfd of the process, or -1 if the kernel or a sandbox does not support it. Unlike the
 * process ID, it is never reused: the program may wait for all of its children. */
static int open_process(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void await_process(pid_t pid, int process)
{
    siginfo_t info;

    if (process < 0 || (waitid(ID_PIDFD, (id_t)process, &info, WEXITED) != 0 && errno == EINVAL))
        waitpid(pid, NULL, 0);
}

/* Waits for output or the end of the process. Returns whether there is something to read. */
static bool await_text(int fd, int process)
{
    struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = process, .events = POLLIN } };

    while (poll(p, 2, -1) < 0 && errno == EINTR)
        ;
    return p[0].revents || poll(p, 1, 0) > 0;   /* written just before the end */
}

/* Reads the output up to its last line, EOF, or the end of the process; keeps the beginning. EOF
 * may never come if the program forks a child meanwhile, which inherits the pipe. */
static void read_text(int fd, int process, char text[TEXT_BYTES])
{
    char more[TEXT_BYTES];
    size_t used = 0;
    ssize_t n;

    while (await_text(fd, process) &&
           ((n = read(fd, more, sizeof more)) > 0 || (n < 0 && errno == EINTR))) {
        const size_t room = TEXT_BYTES - 1 - used, take = n > 0 ? (size_t)n : 0;

        memcpy(text + used, more, take < room ? take : room);
        used += take < room ? take : room;
        if (take >= strlen(END) && memcmp(more + take - strlen(END), END, strlen(END)) == 0)
            break;
    }
    text[used] = '\0';
}

static tutti_status judge_text(const char *path, char *text, char *why, size_t bytes)
{
    if (strcmp(text, WRITTEN) == 0)
        return TUTTI_OK;
    if (strcmp(text, IRREGULAR) == 0)
        return refuse_irregular(path, why, bytes);
    text[strcmp(text, END) == 0 ? 0 : strcspn(text, "\n")] = '\0';
    return fail_store(path, *text ? text : "the process that writes it was ended", why, bytes);
}

tutti_status tt_dump_store(const char *path, int fd, char *why, size_t bytes)
{
    char temporary[PATH_MAX], folder[PATH_MAX], text[TEXT_BYTES];
    char shell[] = "/bin/sh", option[] = "-c", name[] = "tutti-dump", commands[sizeof script];
    char target[PATH_MAX];
    char *const argv[] = { shell, option, commands, name, target, temporary, folder, NULL };
    char *slash;
    int ends[2], process, err;
    pid_t pid;

    if (snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)getpid()) >= PATH_MAX)
        return fail_store(path, strerror(ENAMETOOLONG), why, bytes);
    snprintf(target, sizeof target, "%s", path);
    snprintf(folder, sizeof folder, "%s", path);
    memcpy(commands, script, sizeof script);
    slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    else
        snprintf(folder, sizeof folder, ".");
    if (lseek(fd, 0, SEEK_SET) != 0 || pipe2(ends, O_CLOEXEC) != 0)
        return fail_store(path, strerror(errno), why, bytes);
    err = start_process(argv, fd, ends[1], &pid);
    close(ends[1]);
    if (err) {
        close(ends[0]);
        return store_here(path, temporary, fd, why, bytes);
    }
    process = open_process(pid);
    read_text(ends[0], process, text);
    close(ends[0]);
    await_process(pid, process);
    if (process >= 0)
        close(process);
    return judge_text(path, text, why, bytes);
}
