#include "tools/run/run_child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/param.h"
#include "tools/own_path.h"

#define TIMEOUT "TUTTI_TIMEOUT_MS="

extern char **environ;

/* Variables of a rank that are secret. Any user of a host can read the arguments of its processes,
 * so the script for a remote host reads their values from standard input, one per line. */
static const char *const secrets[] = { "TUTTI_TOKEN=", "TUTTI_STATUS_TOKEN=" };

#define SECRETS (sizeof secrets / sizeof *secrets)

/* ---- command lines ---- */

static void quote(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", to);
        else
            fputc(*text, to);
    fputc('\'', to);
}

/* Returns the value of the last of env[n] that begins with "NAME="; NULL: none. */
static const char *value_of(const char *const *env, size_t n, const char *name)
{
    const char *value = NULL;

    for (size_t i = 0; i < n; i++)
        if (strncmp(env[i], name, strlen(name)) == 0)
            value = env[i] + strlen(name);
    return value;
}

static const char *secret_of(const struct child_conf *conf, size_t i)
{
    return value_of(conf->env, conf->nenv, secrets[i]);
}

static bool is_secret(const char *setting)
{
    for (size_t i = 0; i < SECRETS; i++)
        if (strncmp(setting, secrets[i], strlen(secrets[i])) == 0)
            return true;
    return false;
}

uint64_t child_answer_ns(const char *const *env, size_t n)
{
    const char *text = value_of(env, n, TIMEOUT);
    int64_t ms;

    if (text && *text ? tt_param_read(TT_PARAM_TIMEOUT_MS, text, &ms)
                      : tt_param_get(TT_PARAM_TIMEOUT_MS, &ms))
        return TT_NEVER;        /* the ranks fail for the same reason */
    return ms < 0 ? TT_NEVER : (uint64_t)ms * TT_MS;
}

/* Writes the script for the remote host. It runs the rank by setsid, and reads secrets and then
 * signal names from standard input. At end of file, the launcher or the connection has ended, and
 * the script ends the rank. */
static void write_script(FILE *to, const struct child_conf *conf, const char *cwd)
{
    fputs("exec 3<&0 </dev/null; cd ", to);
    quote(to, cwd);
    fputs(" || exit 126; ", to);
    for (size_t i = 0; i < SECRETS; i++) {
        const int n = (int)strlen(secrets[i]) - 1;

        if (secret_of(conf, i))
            fprintf(to, "IFS= read -r %.*s <&3 || exit 126; export %.*s; ", n, secrets[i], n,
                    secrets[i]);
    }
    for (size_t i = 0; i < conf->nenv; i++) {
        const char *equals = strchr(conf->env[i], '=');

        if (is_secret(conf->env[i]))
            continue;
        fprintf(to, "export %.*s=", (int)(equals - conf->env[i]), conf->env[i]);
        quote(to, equals + 1);
        fputs("; ", to);
    }
    fputs("setsid", to);
    for (char *const *arg = conf->argv; *arg; arg++) {
        fputc(' ', to);
        quote(to, *arg);
    }
    fputs(" 3<&- & p=$!; "
          "{ while read -r s <&3; do kill -s \"$s\" -- \"-$p\"; done; "
          "kill -s TERM -- \"-$p\"; sleep 3; kill -s KILL -- \"-$p\"; } >/dev/null 2>&1 & w=$!; "
          "wait \"$p\"; s=$?; kill -s KILL -- \"-$p\" 2>/dev/null; kill \"$w\" 2>/dev/null; exit "
          "\"$s\"",
          to);
}

static void write_relay_script(FILE *to, const char *cwd)
{
    char path[PATH_MAX];

    fputs("cd ", to);
    quote(to, cwd);
    fputs(" || exit 126; ", to);
    if (own_path(path)) {
        fputs("[ ! -x ", to);
        quote(to, path);
        fputs(" ] || exec ", to);
        quote(to, path);
        fputs(" run --relay; ", to);
    }
    fputs("exec tutti run --relay", to);
}

/* "/bin/sh -c 'script'" as one argument, so that sh runs the script whatever the login shell is.
 * The script starts a rank; conf == NULL: a relay. NULL: out of memory. */
static char *remote_command(const struct child_conf *conf)
{
    char *script = NULL, *command = NULL, *cwd = getcwd(NULL, 0);
    size_t bytes;
    FILE *f = cwd ? open_memstream(&script, &bytes) : NULL;

    if (f) {
        if (conf)
            write_script(f, conf, cwd);
        else
            write_relay_script(f, cwd);
        fclose(f);
        f = open_memstream(&command, &bytes);
    }
    if (f) {
        fputs("exec /bin/sh -c ", f);
        quote(f, script);
        fclose(f);
    }
    free(cwd);
    free(script);
    return command;
}

char *child_relay_command(void)
{
    return remote_command(NULL);
}

#define RSH_WORDS 32

#define HOST_WORD_BYTES 512

/* Splits the remote shell into words, in place, and appends host and command. If a word contains
 * "{}", the host replaces it, and the word is stored in `with_host`. */
static bool remote_argv(char *argv[RSH_WORDS + 3], char *rsh, const char *host, char *command,
                        char with_host[HOST_WORD_BYTES])
{
    char *save, *word = strtok_r(rsh, " \t", &save), *mark;
    bool placed = false;
    size_t n = 0;

    for (; word && n < RSH_WORDS; word = strtok_r(NULL, " \t", &save)) {
        argv[n] = word;
        mark = placed ? NULL : strstr(word, "{}");
        if (mark) {
            const int bytes = snprintf(with_host, HOST_WORD_BYTES, "%.*s%s%s", (int)(mark - word),
                                       word, host, mark + 2);

            if (bytes >= HOST_WORD_BYTES)
                return false;
            argv[n] = with_host;
            placed = true;
        }
        n++;
    }
    if (n == 0 || word)
        return false;
    if (!placed)
        argv[n++] = (char *)host;
    argv[n++] = command;
    argv[n] = NULL;
    return true;
}

/* The environment of this process, overridden by that of conf. */
static char **merge_environment(const struct child_conf *conf)
{
    size_t n = 0;
    char **out;

    while (environ[n])
        n++;
    out = calloc(n + conf->nenv + 1, sizeof *out);
    if (!out)
        return NULL;
    n = 0;
    for (char **e = environ; *e; e++) {
        bool replaced = false;

        for (size_t i = 0; i < conf->nenv; i++) {
            const size_t name = strcspn(conf->env[i], "=") + 1;

            replaced |= strncmp(*e, conf->env[i], name) == 0;
        }
        if (!replaced)
            out[n++] = *e;
    }
    for (size_t i = 0; i < conf->nenv; i++)
        out[n++] = (char *)conf->env[i];
    return out;
}

/* ---- in the child ---- */

/* Runs between fork and exec, and uses only async-signal-safe calls. Does not return. Signals get
 * their default dispositions, except that an ignored SIGHUP (nohup) stays ignored. */
static void become(const struct child_conf *conf, char *const *argv, char *const *env, int in,
                   int failed, pid_t parent)
{
    const bool here = !conf->host;
    struct sigaction now;
    sigset_t none;
    int err;

    setpgid(0, 0);
    if (here) {     /* a remote shell must outlive the launcher, to end its rank */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(127);
    }
    for (int sig = 1; sig < NSIG; sig++)
        if (sig != SIGHUP || sigaction(sig, NULL, &now) != 0 || now.sa_handler != SIG_IGN)
            signal(sig, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (conf->cores)
        sched_setaffinity(0, sizeof *conf->cores, conf->cores);
    if (dup2(in, STDIN_FILENO) >= 0 && dup2(conf->out, STDOUT_FILENO) >= 0 &&
        dup2(conf->err, STDERR_FILENO) >= 0)
        execvpe(argv[0], argv, env);
    err = errno;
    if (write(failed, &err, sizeof err) < 0)
        _exit(126);
    _exit(127);
}

/* ---- in the parent ---- */

/* Forks and executes. Returns 0 when the program runs, else the errno. */
static int spawn(struct child *out, const struct child_conf *conf, char *const *argv,
                 char *const *env, int in)
{
    const pid_t parent = getpid();
    int failed[2], err = 0;
    pid_t pid;

    if (pipe2(failed, O_CLOEXEC) != 0)
        return errno;
    pid = fork();
    if (pid == 0)
        become(conf, argv, env, in, failed[1], parent);
    close(failed[1]);
    if (pid < 0) {
        err = errno;
    } else {
        setpgid(pid, pid);      /* also called by the child: the group must exist before it is
                                   signalled */
        if (read(failed[0], &err, sizeof err) == sizeof err)
            waitpid(pid, NULL, 0);
        else
            err = 0;
    }
    close(failed[0]);
    if (!err)
        out->pid = pid;
    return err;
}

static int start_here(struct child *out, const struct child_conf *conf)
{
    char **env = merge_environment(conf);
    const int err = env ? spawn(out, conf, conf->argv, env, conf->in) : ENOMEM;

    free(env);
    out->control = -1;
    return err;
}

/* Sends a line to the remote script. False: the remote shell has ended. */
static bool send_line(struct child *c, const char *line)
{
    const int n = dprintf(c->control, "%s\n", line);

    if (n > 0)
        c->sent += n;
    return n > 0 || errno != EPIPE;
}

static int start_elsewhere(struct child *out, const struct child_conf *conf)
{
    char *command = conf->command ? strdup(conf->command) : remote_command(conf);
    char *rsh = strdup(conf->rsh), *argv[RSH_WORDS + 3], with_host[HOST_WORD_BYTES];
    int control[2], err;

    if (!command || !rsh || !remote_argv(argv, rsh, conf->host, command, with_host)) {
        err = command && rsh ? EINVAL : ENOMEM;
        goto free_words;
    }
    if (pipe2(control, O_CLOEXEC) != 0) {
        err = errno;
        goto free_words;
    }
    err = spawn(out, conf, argv, environ, control[0]);
    close(control[0]);
    if (err) {
        close(control[1]);
        goto free_words;
    }
    fcntl(control[1], F_SETFL, O_NONBLOCK);
    out->control = control[1];
    for (size_t i = 0; i < SECRETS; i++)
        if (secret_of(conf, i))
            send_line(out, secret_of(conf, i));
free_words:
    free(command);
    free(rsh);
    return err;
}

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_folder(const char *path)
{
    struct stat st;

    return strchr(path, '/') && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Whether the file exists where exec looks for it: at that path, or in a directory of PATH. */
static bool is_there(const char *program)
{
    const char *path = getenv("PATH");

    if (strchr(program, '/'))
        return is_file(program);
    for (const char *at = path ? path : "/bin:/usr/bin";;) {
        const size_t n = strcspn(at, ":");
        char *file;
        bool found;

        if (asprintf(&file, "%.*s%s%s", (int)n, at, n ? "/" : "", program) < 0)
            return true;
        found = is_file(file);
        free(file);
        if (found || !at[n])
            return found;
        at += n + 1;
    }
}

/* Reports why the program did not start. Returns the exit status. exec also returns EACCES for a
 * missing program if a directory of PATH is not readable, and ENOENT if the program exists, but its
 * interpreter does not. */
static int print_not_started(const char *program, int err)
{
    const bool there = is_there(program);
    const char *why = strerror(err);

    if (err == EACCES && !strchr(program, '/') && !there)
        err = ENOENT;
    if (is_folder(program))
        why = "it is a directory";
    else if (err == ENOENT)
        why = there ? "its interpreter was not found" : "not found";
    fprintf(stderr, "tutti run: cannot start \"%s\": %s", program, why);
    if (err == ENOENT && !there && !strchr(program, '/'))
        fputs(" in PATH", stderr);
    if (err == ENOENT && !there && is_file(program))
        fprintf(stderr, " (use \"./%s\" for the file in the current directory)", program);
    fputc('\n', stderr);
    return err == ENOENT ? 127 : 126;
}

/* State of a thread that waits for a process in place of a pidfd. */
struct watch {
    pid_t pid;
    int end;        /* write end of a pipe, closed when the process has ended */
};

static void *await_end(void *arg)
{
    struct watch *w = arg;
    siginfo_t info;

    while (waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        ;
    if (write(w->end, "", 1) < 0) {
        /* the reading end is closed */
    }
    close(w->end);
    free(w);
    return NULL;
}

/* Returns a pipe that becomes readable when the process ends, for kernels and sandboxes without
 * pidfd_open; -1 with errno. */
static int watch_by_thread(pid_t pid)
{
    struct watch *w = malloc(sizeof *w);
    sigset_t all, before;
    pthread_t thread;
    int ends[2], err;

    if (!w || pipe2(ends, O_CLOEXEC) != 0) {
        free(w);
        return -1;
    }
    *w = (struct watch){ .pid = pid, .end = ends[1] };
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&thread, NULL, await_end, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) {
        close(ends[0]);
        close(ends[1]);
        free(w);
        errno = err;
        return -1;
    }
    pthread_detach(thread);
    return ends[0];
}

/* Returns a descriptor that becomes readable when the child `pid` has ended, without reaping it; -1
 * with errno. A sandbox may refuse pidfd_open with any error. */
static int watch_end(pid_t pid)
{
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);

    return fd >= 0 ? fd : watch_by_thread(pid);
}

/* Secrets are sent as one line each. Returns the first one with a line break, or NULL. */
static const char *broken_secret(const struct child_conf *conf)
{
    for (size_t i = 0; i < SECRETS; i++)
        if (secret_of(conf, i) && strchr(secret_of(conf, i), '\n'))
            return secrets[i];
    return NULL;
}

int child_start(struct child *out, const struct child_conf *conf)
{
    const char *broken = conf->host ? broken_secret(conf) : NULL;
    struct child c = { .pid = 0 };
    int err;

    if (broken) {
        fprintf(stderr, "tutti run: %.*s must not contain a line break\n",
                (int)strcspn(broken, "="), broken);
        return 126;
    }
    err = conf->host ? start_elsewhere(&c, conf) : start_here(&c, conf);
    if (err && conf->host)
        fprintf(stderr, "tutti run: cannot start \"%s\": %s\n", conf->rsh, strerror(err));
    if (err)
        return !conf->host ? print_not_started(conf->argv[0], err) : err == ENOENT ? 127 : 126;
    c.pidfd = watch_end(c.pid);
    if (c.pidfd < 0) {
        fprintf(stderr,
                "tutti run: cannot watch process %d: pidfd_open failed, and no thread could be "
                "started instead: %s\n",
                (int)c.pid, strerror(errno));
        kill(-c.pid, SIGKILL);
        waitpid(c.pid, NULL, 0);
        if (c.control >= 0)
            close(c.control);
        return 126;
    }
    *out = c;
    return 0;
}

int child_start_with(struct child *out, const struct child_conf *conf)
{
    const int streams[] = { conf->in, conf->out, conf->err };
    const bool opened = conf->in >= 0 && conf->out >= 0 && conf->err >= 0;
    const int status = opened ? child_start(out, conf) : 126;

    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i] >= 0)
            close(streams[i]);
    return status;
}

void child_signal(struct child *c, int sig)
{
    if (c->control < 0 || !send_line(c, sigabbrev_np(sig)))
        kill(-c->pid, sig);
}

bool child_ignored_input(const struct child *c)
{
    int unread = 0;

    return c->control >= 0 && c->sent > 0 && ioctl(c->control, FIONREAD, &unread) == 0 &&
           unread == c->sent;
}

/* Reads the masks of /proc/PID/status. A blocked signal may be read by signalfd or sigwait. */
bool child_ends_by(const struct child *c, int sig)
{
    static const char *const masks[] = { "SigBlk: %llx", "SigIgn: %llx", "SigCgt: %llx" };
    unsigned long long any = 0, mask;
    char path[48], line[256];
    size_t nfound = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/status", (int)c->pid);
    f = c->control < 0 ? fopen(path, "re") : NULL;
    while (f && fgets(line, sizeof line, f))
        for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
            if (sscanf(line, masks[i], &mask) == 1) {
                any |= mask;
                nfound++;
            }
    if (f)
        fclose(f);
    return nfound == sizeof masks / sizeof *masks && !(any >> (sig - 1) & 1);
}

/* The leader is a zombie while its group is killed, so the process group ID has not been reused. */
int child_reap(struct child *c)
{
    int status = 0;

    kill(-c->pid, SIGKILL);
    waitpid(c->pid, &status, 0);
    close(c->pidfd);
    if (c->control >= 0)
        close(c->control);
    c->pidfd = c->control = -1;
    return status;
}

/* ---- the guard ---- */

struct guarded {
    pid_t pid;
    int elsewhere;
};

static void kill_all(const struct guarded *all, size_t n, int sig, bool elsewhere)
{
    for (size_t i = 0; i < n; i++)
        if (all[i].pid > 0 && !all[i].elsewhere == !elsewhere)
            kill(-all[i].pid, sig);
}

/* Reads the processes to guard. Pid 0 ends the guard. End of file without it means that the
 * launcher was killed: the kernel has killed the local ranks, but not their children, and remote
 * shells need time to end their ranks. */
static void guard(int from)
{
    struct guarded *all = NULL, one;
    size_t n = 0;

    while (read(from, &one, sizeof one) == sizeof one) {
        struct guarded *more;

        if (one.pid == 0)
            _exit(0);
        more = realloc(all, (n + 1) * sizeof *all);
        if (more) {
            all = more;
            all[n++] = one;
        }
    }
    kill_all(all, n, SIGTERM, false);
    sleep(3);
    kill_all(all, n, SIGKILL, false);
    sleep(2);
    kill_all(all, n, SIGKILL, true);
    _exit(0);
}

int guard_start(void)
{
    int ends[2], null;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    if (pid > 0) {
        close(ends[0]);
        return ends[1];
    }
    setsid();       /* the terminal's signals do not reach it */
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2; fd++)     /* the launcher's readers must see end of file when the
                                           launcher ends */
        if (dup2(null, fd) < 0)
            close(fd);
    close(ends[1]);
    guard(ends[0]);
    _exit(0);
}

void guard_add(int guard_fd, const struct child *c)
{
    const struct guarded one = { .pid = c->pid, .elsewhere = c->control >= 0 };

    if (guard_fd >= 0 && write(guard_fd, &one, sizeof one) < 0)
        fprintf(stderr,
                "tutti run: cannot write to the guard process: %s (ranks may survive if tutti run "
                "is killed)\n",
                strerror(errno));
}

void guard_dismiss(int guard_fd)
{
    const struct guarded nobody = { .pid = 0 };

    if (guard_fd < 0)
        return;
    if (write(guard_fd, &nobody, sizeof nobody) < 0)
        errno = 0;      /* the guard has already ended */
    close(guard_fd);
}
