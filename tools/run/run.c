/* tutti run: starts the ranks of a job, forwards their output and signals, and ends them together.
 * It also serves their rendezvous, so that no port must be chosen, and a missing rank 0 is reported
 * like any other missing rank. */
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/prng.h"
#include "boot/endpoint.h"
#include "boot/id.h"
#include "boot/serve.h"
#include "tools/failed.h"
#include "tools/run/run_child.h"
#include "tools/run/run_links.h"
#include "tools/run/run_options.h"
#include "tools/run/run_output.h"
#include "tools/run/run_place.h"
#include "tools/run/run_relay.h"
#include "tools/run/run_subtree.h"

#define GRACE_NS (3 * TT_SECOND)
/* wait after the first detected failure: an earlier one may be detected later */
#define REPORT_NS (200 * TT_MS)
/* the same, while a rank that closed its output earlier has not exited yet */
#define DYING_NS TT_SECOND
#define STOP_NS (5 * TT_SECOND) /* for all ranks to stop; this may take long on a busy machine */
#define WAIT_MS 50              /* interval of checks while a stream is not read */
#define ENV_BYTES 512
#define RANK_ENV 4              /* variables of a rank */
#define COMMON_ENV 5            /* variables of the job, without those of the user */

enum { RANK_NONE, RANK_RUNNING, RANK_ENDED };

struct rank {
    struct child child;
    int state, ended;           /* RANK_...; wait status of an ended rank */
    uint32_t place;             /* order in which its exit was detected, from 0 */
    uint64_t closed;            /* iteration of the loop in which the rank's output was closed; 0:
                                   open */
    bool reported;                  /* the rank's failure was reported, or caused by this process */
    struct output out, err;
    bool relayed;               /* started by a relay, not by this process */
    uint8_t open;               /* relayed rank: its open streams; bit 0: out, 1:
                                   err */
    enum lost_how lost;
    uint32_t lost_host;         /* lost rank: the lost host, which is its own or an ancestor in the
                                   tree */
    int shell;                  /* lost rank: wait status of the remote shell; it may be 0 */
    struct sink *files;         /* [2] output files of a relayed rank; NULL: none */
};

struct job {
    const struct run_options *opt;
    struct hosts hosts;
    uint32_t *host_of, *local_of;
    struct rank *ranks;
    uint32_t *direct;               /* [ndirect] ranks that this process starts */
    uint32_t ndirect;
    struct subtree tree;            /* the remote hosts, if they are started in a tree; else none */
    struct links links;
    char (*env)[ENV_BYTES];         /* [COMMON_ENV] variables that are the same for all ranks */
    const char *common[COMMON_ENV + RUN_ENV_MAX];
    _Static_assert(COMMON_ENV + RUN_ENV_MAX <= SUBTREE_ENV_MAX, "all variables of the job fit");
    size_t ncommon;
    uint32_t nrunning, nended;
    uint64_t turns;             /* iterations of the loop */
    uint64_t report_ns;          /* when to report the first failure; 0: no failure, or it was
                                   reported */
    uint32_t missed;            /* first rank that exited while others waited for its start-up;
                                   nranks: none */
    struct tt_serve *serve;
    char rendezvous[320], token[40];
    struct sink out, err;       /* the launcher's streams */
    bool reported_out, reported_err;    /* a failure of the stream was reported */
    int signals, guard;
    int terminal[2];            /* pipe to rank 0's standard input, if the launcher's is a
                                   terminal; else -1 */
    int status;                 /* exit status, of the first failed rank */
    uint64_t answer_ns;         /* when remote shells that have not answered are killed;
                                   TT_NEVER: none */
    bool ending;                /* the ranks have been signalled to end */
    bool killed;
    uint64_t kill_ns;           /* when the remaining ranks are killed */
    uint64_t give_up_ns;        /* when output that is not read is discarded; 0: never, because no
                                   signal has ended the job */
    int ended_by;                /* signal number */
};

static bool wait_writable(void *job, int fd);

/* Writes a message to the launcher's standard error. */
__attribute__((format(printf, 2, 3))) static void say(struct job *j, const char *fmt, ...)
{
    char sentence[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    sink_write(&j->err, sentence, strlen(sentence));
}

/* ---- rendezvous ---- */

static bool all_hosts_local(const struct job *j)
{
    for (uint32_t i = 0; i < j->hosts.n; i++)
        if (j->hosts.at[i].nlocal > 0 && !j->hosts.at[i].here)
            return false;
    return true;
}

/* Listens on a loopback address if all ranks are on this host; else creates an id with all
 * addresses of this host. */
static int open_listener(struct job *j, char token[TT_TOKEN_BYTES])
{
    struct sockaddr_in loopback = { .sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct tt_address here = { .bytes = sizeof loopback };
    uint8_t id_token[TT_ID_TOKEN_BYTES];
    struct tt_endpoint endpoint;
    uint16_t port = 0;
    tutti_id id;
    int fd;

    memcpy(&here.storage, &loopback, sizeof loopback);
    fd = tt_listen(all_hosts_local(j) ? &here : NULL, 0, &port);
    if (fd < 0) {
        fprintf(stderr, "tutti run: cannot listen for the rendezvous: %s\n", strerror(errno));
        return -1;
    }
    snprintf(token, TT_TOKEN_BYTES, "%s", j->token);
    snprintf(j->rendezvous, sizeof j->rendezvous, "tcp://127.0.0.1:%u", port);
    if (all_hosts_local(j))
        return fd;
    if (tt_endpoint_init(&endpoint, port, j->opt->interfaces) != TUTTI_OK)
        goto fail;
    tt_id_init(&id, &endpoint);
    tt_id_text(&id, j->rendezvous);
    if (tt_id_parse(&id, &endpoint, id_token) != TUTTI_OK ||
        tt_id_join_token(token, j->token, id_token) != TUTTI_OK)
        goto fail;
    return fd;

fail:
    close(fd);
    return -1;
}

static bool serve_rendezvous(struct job *j)
{
    char token[TT_TOKEN_BYTES];
    uint64_t random[2];
    struct tt_serve_conf conf = {
        .token = token, .began_ns = tt_now_ns(), .deadline_ns = TT_NEVER, .again = true
    };

    tt_random_bytes(random, sizeof random);
    snprintf(j->token, sizeof j->token, "%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    conf.listener = open_listener(j, token);
    if (conf.listener < 0)
        return false;
    if (tt_serve_open(&j->serve, &conf) != TUTTI_OK) {
        close(conf.listener);
        return false;
    }
    return true;
}

/* ---- starting ---- */

/* Writes the variables that are the same for all ranks. Those of the user are last and take
 * precedence. */
static void write_common_env(struct job *j)
{
    const struct run_options *o = j->opt;
    size_t n = 0;

    snprintf(j->env[n++], ENV_BYTES, "TUTTI_RENDEZVOUS=%s", j->rendezvous);
    snprintf(j->env[n++], ENV_BYTES, "TUTTI_TOKEN=%s", j->token);
    if (o->wires)
        snprintf(j->env[n++], ENV_BYTES, "TUTTI_WIRES=%s", o->wires);
    if (o->interfaces)
        snprintf(j->env[n++], ENV_BYTES, "TUTTI_INTERFACES=%s", o->interfaces);
    if (o->timeout_s > 0)
        snprintf(j->env[n++], ENV_BYTES, "TUTTI_TIMEOUT_MS=%.0f",
                 o->timeout_s * 1000 < 1 ? 1 : o->timeout_s * 1000);
    for (size_t i = 0; i < n; i++)
        j->common[i] = j->env[i];
    for (size_t i = 0; i < o->nenv; i++)
        j->common[n++] = o->env[i];
    j->ncommon = n;
    for (size_t i = 0; i < n; i++)
        j->tree.env[i] = j->common[i];
    j->tree.nenv = n;
}

/* Writes the variables of one rank into text[RANK_ENV][ENV_BYTES], and all of its variables to
 * env. */
static size_t write_env(const struct job *j, uint32_t rank, char (*text)[ENV_BYTES],
                        const char **env)
{
    const struct host *host = &j->hosts.at[j->host_of[rank]];
    size_t n = 0;

    snprintf(text[0], ENV_BYTES, "TUTTI_RANK=%u", rank);
    snprintf(text[1], ENV_BYTES, "TUTTI_SIZE=%u", j->opt->nranks);
    snprintf(text[2], ENV_BYTES, "TUTTI_LOCAL_RANK=%u", j->local_of[rank]);
    snprintf(text[3], ENV_BYTES, "TUTTI_LOCAL_SIZE=%u", host->nlocal);
    for (; n < RANK_ENV; n++)
        env[n] = text[n];
    for (size_t i = 0; i < j->ncommon; i++)
        env[n++] = j->common[i];
    return n;
}

static int open_file(const struct job *j, uint32_t rank, const char *suffix)
{
    char path[4096];
    int fd;

    snprintf(path, sizeof path, "%s/rank.%u.%s", j->opt->output_dir, rank, suffix);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        fprintf(stderr, "tutti run: cannot write %s: %s\n", path, strerror(errno));
    return fd;
}

/* Opens an output of the rank: the launcher's stream, a file, or a pipe to the launcher. Plain
 * output to a pipe is also forwarded by the launcher: if its reader exits, all ranks must end
 * before one of them gets SIGPIPE. Returns the rank's end of the pipe, or -1. */
static int open_stream(const struct job *j, uint32_t rank, struct sink *ours, struct output *o)
{
    int ends[2];

    *o = (struct output){ .from = -1, .to = ours, .rank = rank };
    o->plain = j->opt->output == OUTPUT_PLAIN;
    if (o->plain && (!ours->is_pipe || ours->fd == STDERR_FILENO))
        return fcntl(ours->fd, F_DUPFD_CLOEXEC, 3);
    if (j->opt->output == OUTPUT_DIR)
        return open_file(j, rank, ours->fd == STDOUT_FILENO ? "out" : "err");
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fprintf(stderr, "tutti run: pipe2 failed: %s%s\n", strerror(errno),
                errno == ENOSYS || errno == EPERM
                    ? " (a sandbox denies the system call: allow it there)"
                    : "");
        return -1;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    o->from = ends[0];
    return ends[1];
}

/* Rank 0 gets the launcher's standard input: through a pipe if it is a terminal, which only the
 * foreground group may read. */
static int open_input(struct job *j, uint32_t rank)
{
    if (rank == 0 && !isatty(STDIN_FILENO) && fcntl(STDIN_FILENO, F_GETFD) >= 0)
        return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (rank == 0 && isatty(STDIN_FILENO) && pipe2(j->terminal, O_CLOEXEC) == 0) {
        const int end = j->terminal[0];

        fcntl(j->terminal[1], F_SETFL, O_NONBLOCK);
        j->terminal[0] = -1;
        return end;
    }
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Starts one rank. Returns 0, or the exit status on an error. */
static int start_rank(struct job *j, uint32_t rank)
{
    const struct host *host = &j->hosts.at[j->host_of[rank]];
    char text[RANK_ENV][ENV_BYTES];
    struct rank *r = &j->ranks[rank];
    struct child_conf conf = { .argv = j->opt->argv,
                               .host = host->here ? NULL : host->name,
                               .rsh = j->opt->rsh };
    cpu_set_t cores;
    int status;

    conf.nenv = write_env(j, rank, text, conf.env);
    conf.out = open_stream(j, rank, &j->out, &r->out);
    conf.err = open_stream(j, rank, &j->err, &r->err);
    conf.in = open_input(j, rank);
    if (host->here && bind_mask(j->opt->bind, j->local_of[rank], host->nlocal, &cores))
        conf.cores = &cores;
    status = child_start_with(&r->child, &conf);
    if (status)
        return status;
    r->state = RANK_RUNNING;
    guard_add(j->guard, &r->child);
    j->nrunning++;
    return 0;
}

/* ---- ending ---- */

/* Returns whether the rank is a running child of this process. */
static bool is_own(const struct rank *r)
{
    return r->state == RANK_RUNNING && !r->relayed;
}

static void signal_all(struct job *j, int sig)
{
    for (uint32_t i = 0; i < j->ndirect; i++)
        if (is_own(&j->ranks[j->direct[i]]))
            child_signal(&j->ranks[j->direct[i]].child, sig);
    links_signal(&j->links, sig);
}

/* Sends `sig` to the ranks. Those that do not end within the grace period are killed. */
static void begin_ending(struct job *j, int sig)
{
    signal_all(j, sig);
    signal_all(j, SIGCONT);     /* a stopped process handles the signal only when continued */
    if (!j->ending)
        j->kill_ns = tt_now_ns() + GRACE_NS;
    j->ending = true;
}

/* Waits until a process that received SIGSTOP has stopped or exited, or until end_ns, because a
 * system call can delay the stop. */
static void await_stop(pid_t pid, uint64_t end_ns)
{
    const struct timespec pause = { .tv_nsec = TT_MS };
    siginfo_t info;

    for (;;) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid != 0 || tt_now_ns() >= end_ns)
            return;
        nanosleep(&pause, NULL);
    }
}

/* Ends the ranks without letting them run again, except to handle SIGTERM, so that none reports the
 * loss of another rank. SIGTERM stays pending in a stopped process: when it continues, one thread
 * handles it, and others can run until it has ended the process. SIGKILL ends it at once. */
static void end_silently(struct job *j)
{
    const uint64_t end_ns = tt_now_ns() + STOP_NS;

    signal_all(j, SIGSTOP);
    for (uint32_t r = 0; r < j->opt->nranks; r++)
        if (is_own(&j->ranks[r]))
            await_stop(j->ranks[r].child.pid, end_ns);
    for (uint32_t r = 0; r < j->opt->nranks; r++)
        if (is_own(&j->ranks[r]) && child_ends_by(&j->ranks[r].child, SIGTERM))
            kill(j->ranks[r].child.pid, SIGKILL);
    begin_ending(j, SIGTERM);
}

/* Kills the ranks after the grace period. A remote shell that has not ended its rank after another
 * grace period is killed too. */
static void kill_all(struct job *j)
{
    for (uint32_t r = 0; r < j->opt->nranks; r++) {
        struct child *c = &j->ranks[r].child;

        if (!is_own(&j->ranks[r]))
            continue;
        child_signal(c, SIGKILL);
        if (j->killed)
            kill(-c->pid, SIGKILL);
    }
    links_signal(&j->links, SIGKILL);
    if (j->killed)
        links_kill(&j->links);
    j->killed = true;
    j->kill_ns = tt_now_ns() + GRACE_NS;
}

/* The signal that killed a rank; 0: none. A remote shell reports it in its exit status. */
static int signal_of(const struct rank *r)
{
    const int code = WIFEXITED(r->ended) ? WEXITSTATUS(r->ended) : 0;

    return WIFSIGNALED(r->ended)                                              ? WTERMSIG(r->ended)
           : r->child.control >= 0 && !r->relayed && code > 128 && code < 128 + NSIG ? code - 128
                                                                                     : 0;
}

/* Describes the wait status of a remote shell. */
static void describe_shell(const struct job *j, int status, char *out, size_t bytes)
{
    if (WIFSIGNALED(status))
        snprintf(out, bytes, "\"%s\" was killed by signal %d (SIG%s)", j->opt->rsh,
                 WTERMSIG(status),
                 sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status)) : "?");
    else
        snprintf(out, bytes, "\"%s\" exited with status %d", j->opt->rsh, WEXITSTATUS(status));
}

/* Lists the hosts without an answer, separated by commas; the last ones are omitted if the buffer
 * is too small. */
static void list_silent(const struct job *j, char *out, size_t bytes)
{
    uint32_t last = UINT32_MAX;
    size_t n = 0;

    out[0] = '\0';
    for (uint32_t r = 0; r < j->opt->nranks; r++) {
        const uint32_t host = j->ranks[r].lost_host;
        const char *name = j->hosts.at[host].name;

        if (j->ranks[r].lost != LOST_SILENT || host == last)
            continue;
        last = host;
        if (n + strlen(name) + 8 > bytes) {
            snprintf(out + n, bytes - n, ", ...");
            return;
        }
        n += (size_t)snprintf(out + n, bytes - n, "%s%s", n ? ", " : "", name);
    }
}

static void print_silent(struct job *j, uint32_t rank, const char *after)
{
    char hosts[512];

    list_silent(j, hosts, sizeof hosts);
    say(j,
        "tutti run: rank %u was not started: no answer within %g s from %s: \"%.200s\" was "
        "still running (check that the host is reachable; --timeout changes the limit)%s\n",
        rank, (double)child_answer_ns(j->common, j->ncommon) / (double)TT_SECOND, hosts,
        j->opt->rsh, after);
}

/* Reports the first rank of a host that was not reached, or whose relay has ended. */
static void print_lost(struct job *j, uint32_t rank, const char *after)
{
    const char *host = j->hosts.at[j->ranks[rank].lost_host].name;
    char shell[512];

    describe_shell(j, j->ranks[rank].shell, shell, sizeof shell);
    if (j->ranks[rank].lost == LOST_UNREACHED)
        say(j,
            "tutti run: rank %u was not started: no answer from host %s: %s (check that the host "
            "is reachable%s)%s\n",
            rank, host, shell, j->ranks[rank].relayed ? ", and that tutti is installed there" : "",
            after);
    else
        say(j,
            "tutti run: rank %u was lost: the relay on host %s, or on the host that started it, "
            "ended unexpectedly: %s%s\n",
            rank, host, shell, after);
}

static void print_failure(struct job *j, uint32_t rank)
{
    const char *host = j->hosts.at[j->host_of[rank]].name,
               *after = j->opt->survive || j->nrunning == 0 ? "" : "; ending the others";
    const int status = j->ranks[rank].ended, code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    const bool elsewhere = j->ranks[rank].child.control >= 0 && !j->ranks[rank].relayed;
    const int sig = signal_of(&j->ranks[rank]);
    const int pid = (int)j->ranks[rank].child.pid;

    if (j->ranks[rank].lost == LOST_SILENT)
        print_silent(j, rank, after);
    else if (j->ranks[rank].lost)
        print_lost(j, rank, after);
    else if (j->ranks[rank].relayed && pid == 0)
        say(j, "tutti run: rank %u on host %s was not started (status %d)%s\n", rank, host, code,
            after);
    else if (sig)
        say(j, "tutti run: rank %u (pid %d) on host %s was killed by signal %d (SIG%s)%s\n", rank,
            pid, host, sig, sigabbrev_np(sig) ? sigabbrev_np(sig) : "?", after);
    else if (elsewhere && code == 255)
        say(j,
            "tutti run: rank %u on host %s exited with status 255 (from the rank, or from \"%s\" "
            "if it could not reach the host)%s\n",
            rank, host, j->opt->rsh, after);
    else
        say(j, "tutti run: rank %u (pid %d) on host %s exited with status %d%s\n", rank, pid, host,
            code, after);
}

static void note_status(struct job *j, int status)
{
    if (j->status == 0)
        j->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Returns whether failure a was probably earlier than b. A killed rank did not fail because of the
 * other one; otherwise the output that was closed first decides. */
static bool is_earlier(const struct rank *a, const struct rank *b)
{
    const bool killed = signal_of(a) || a->lost, b_killed = signal_of(b) || b->lost;

    if (killed != b_killed)
        return killed;
    if (a->closed && b->closed && a->closed != b->closed)
        return a->closed < b->closed;
    return a->place < b->place;
}

/* The first failed rank that was not reported; nranks: none. */
static uint32_t first_failure(const struct job *j)
{
    uint32_t first = j->opt->nranks;

    for (uint32_t r = 0; r < j->opt->nranks; r++)
        if (j->ranks[r].state == RANK_ENDED && j->ranks[r].ended != 0 && !j->ranks[r].reported &&
            (first == j->opt->nranks || is_earlier(&j->ranks[r], &j->ranks[first])))
            first = r;
    return first;
}

static bool is_dying(const struct job *j, uint32_t rank)
{
    return j->ranks[rank].closed && j->ranks[rank].state == RANK_RUNNING;
}

/* Reports the first failure and ends the other ranks; with --survive, reports all failures. Waits
 * for a short time, because other ranks may detect the closed connections of a failed rank before
 * this process detects its end. */
static void report_failures(struct job *j)
{
    const uint64_t now_ns = tt_now_ns();
    bool dying = false;

    for (uint32_t r = 0; r < j->opt->nranks; r++)
        dying |= is_dying(j, r);
    if (j->nrunning > 0 && now_ns < j->report_ns + (dying ? DYING_NS : 0))
        return;
    for (uint32_t r = first_failure(j); r < j->opt->nranks;
         r = j->opt->survive ? first_failure(j) : j->opt->nranks) {
        j->ranks[r].reported = true;
        print_failure(j, r);
        note_status(j, j->ranks[r].ended);
    }
    j->report_ns = 0;
    if (!j->ending && !j->opt->survive && j->nrunning > 0)
        begin_ending(j, SIGTERM);
}

/* Gets the wait status of a rank whose descriptor is readable. False: it has not ended. If the
 * status was lost (ECHILD), the rank counts as failed. */
static bool read_status(struct job *j, uint32_t rank, int *status)
{
    const struct child *c = &j->ranks[rank].child;
    siginfo_t info = { .si_pid = 0 };

    if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
        say(j,
            "tutti run: cannot get the exit status of rank %u (pid %d): %s (status 1 is assumed)\n",
            rank, (int)c->pid, strerror(errno));
        *status = 1 << 8;
        return true;
    }
    *status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status & 0x7f;
    return info.si_pid != 0;
}

/* Records the end of a rank. */
static void note_end(struct job *j, uint32_t rank, int status)
{
    struct rank *r = &j->ranks[rank];

    r->state = RANK_ENDED;
    r->ended = status;
    r->place = j->nended++;
    j->nrunning--;
    if (status == 0)
        return;
    r->reported = j->ending;
    if (!j->ending && !j->report_ns)
        j->report_ns = tt_now_ns() + REPORT_NS;
    else if (j->ending && !j->report_ns)
        note_status(j, status);
}

static void lose_rank(struct job *j, uint32_t rank, enum lost_how how, uint32_t host)
{
    j->ranks[rank].lost = how;
    j->ranks[rank].lost_host = host;
}

/* Handles the end of a rank: forwards its last output, and records a failure. The rank stays a
 * zombie until the job ends, so that its process group ID is not reused. */
static void rank_ended(struct job *j, uint32_t rank)
{
    int status;

    if (!read_status(j, rank, &status))
        return;
    output_pump(&j->ranks[rank].out);
    output_pump(&j->ranks[rank].err);
    if (status == 0 && child_ignored_input(&j->ranks[rank].child)) {
        lose_rank(j, rank, LOST_UNREACHED, j->host_of[rank]);
        status = 126 << 8;
    }
    if (j->ranks[rank].lost == LOST_SILENT)
        status = 126 << 8;
    note_end(j, rank, status);
}

/* Kills the remote shells that have not read their input in time: they may never start a rank or
 * forward a signal. */
static void end_silent_shells(struct job *j)
{
    if (tt_now_ns() < j->answer_ns)
        return;
    j->answer_ns = TT_NEVER;
    for (uint32_t i = 0; i < j->ndirect; i++) {
        struct rank *r = &j->ranks[j->direct[i]];

        if (!is_own(r) || !child_ignored_input(&r->child))
            continue;
        lose_rank(j, j->direct[i], LOST_SILENT, j->host_of[j->direct[i]]);
        kill(-r->child.pid, SIGKILL);
    }
}

/* ---- output of the launcher ---- */

/* Handles a failed write to one of our streams, once. If the reader has exited, the job ends as by
 * SIGPIPE. After any other error the job continues, and its exit status is not 0. */
static void check_sink(struct job *j, const struct sink *to, bool *reported)
{
    if (!to->error || *reported)
        return;
    *reported = true;
    if (to->error == EPIPE) {
        note_status(j, SIGPIPE);
        if (!j->ending)
            end_silently(j);
        return;
    }
    say(j, "tutti run: cannot write standard %s: %s%s (further output is lost)\n",
        to->fd == STDOUT_FILENO ? "output" : "error",
        to->error == EAGAIN ? "it is not read" : strerror(to->error),
        to->error == EFBIG ? FILE_SIZE_HINT : "");
    note_status(j, to->error == EAGAIN ? j->ended_by : 1 << 8);
}

static void check_sinks(struct job *j)
{
    check_sink(j, &j->out, &j->reported_out);
    check_sink(j, &j->err, &j->reported_err);
}

/* ---- ranks below relays ---- */

/* Ends a stream of a relayed rank, and closes its file. */
static void end_relayed(struct job *j, uint32_t rank, bool err)
{
    struct rank *r = &j->ranks[rank];
    struct sink *file = r->files ? &r->files[err] : NULL;

    if (!(r->open >> err & 1))
        return;
    output_end(err ? &r->err : &r->out);
    r->open &= (uint8_t) ~(1u << err);
    if (!r->open)
        r->closed = j->turns;
    if (!file)
        return;
    if (close(file->fd) != 0 && !file->error)
        file->error = errno;
    if (!file->error)
        return;
    say(j, "tutti run: cannot write standard %s of rank %u to %s: %s (further output is lost)\n",
        err ? "error" : "output", rank, j->opt->output_dir, strerror(file->error));
    note_status(j, 1 << 8);
}

/* The subtree of a relay is lost: its ranks have ended. Only the first one is reported. */
static void lose_hosts(struct job *j, const struct frame *f)
{
    uint32_t words[3];      /* struct lost */
    bool first = true;

    if (!frame_words(f, words, 3))
        return;
    for (uint32_t r = 0; r < j->opt->nranks; r++) {
        struct rank *rank = &j->ranks[r];

        if (!rank->relayed || rank->state != RANK_RUNNING || j->host_of[r] < f->subject ||
            j->host_of[r] > words[0])
            continue;
        lose_rank(j, r, (enum lost_how)words[2], f->subject);
        rank->shell = (int)words[1];
        note_end(j, r, words[1] ? (int)words[1] : 255 << 8);
        rank->reported |= !first;
        first = false;
        end_relayed(j, r, false);
        end_relayed(j, r, true);
    }
}

/* Handles a frame of a relay, which run_links.c has checked. */
static void take_frame(void *job, const struct frame *f)
{
    struct job *j = job;
    struct rank *r = &j->ranks[f->subject < j->opt->nranks ? f->subject : 0];
    const bool err = f->kind == FRAME_ERR;
    uint32_t word = 0;

    switch (f->kind) {
    case FRAME_STARTED:
        if (frame_words(f, &word, 1))
            r->child.pid = (pid_t)word;
        break;
    case FRAME_OUT:
    case FRAME_ERR:
        if (f->bytes == 0)
            end_relayed(j, f->subject, err);
        else if (r->open >> err & 1)
            output_feed(err ? &r->err : &r->out, (const char *)f->data, f->bytes,
                        f->bytes < FRAME_OUTPUT_BYTES);
        break;
    case FRAME_ENDED:
        if (frame_words(f, &word, 1) && r->state == RANK_RUNNING)
            note_end(j, f->subject, (int)word);
        break;
    case FRAME_NOTE:
        say(j, "[host %s] %.*s\n", j->hosts.at[f->subject].name, (int)f->bytes,
            (const char *)f->data);
        break;
    case FRAME_LOST:
        lose_hosts(j, f);
        break;
    default:
        break;
    }
}

/* Opens the output of a relayed rank. */
static bool open_relayed(struct job *j, uint32_t rank)
{
    struct rank *r = &j->ranks[rank];
    const bool to_files = j->opt->output == OUTPUT_DIR;

    r->out = (struct output){ .from = -1, .to = &j->out, .rank = rank };
    r->err = (struct output){ .from = -1, .to = &j->err, .rank = rank };
    r->out.plain = r->err.plain = j->opt->output != OUTPUT_PREFIX;
    r->relayed = true;
    r->open = 3;
    if (!to_files)
        return true;
    r->files = calloc(2, sizeof *r->files);
    if (!r->files)
        return false;
    for (int i = 0; i < 2; i++) {
        const int fd = open_file(j, rank, i ? "err" : "out");

        if (fd < 0) {
            if (i > 0)
                close(r->files[0].fd);
            free(r->files);
            r->files = NULL;
            return false;
        }
        sink_init(&r->files[i], fd, wait_writable, j);
    }
    r->out.to = &r->files[0];
    r->err.to = &r->files[1];
    return true;
}

/* Starts the relays, whose ranks count as running from then on. */
static int start_tree(struct job *j)
{
    int status;

    if (j->tree.nhosts == 0)
        return 0;
    j->links = (struct links){ .all = &j->tree, .guard = j->guard, .frame = take_frame, .arg = j };
    for (uint32_t r = 0; r < j->opt->nranks; r++)
        if (!j->hosts.at[j->host_of[r]].here && !open_relayed(j, r))
            return 126;
    status = links_start(&j->links, 0);
    for (uint32_t i = 0; i < j->links.n; i++) {
        const struct link *k = &j->links.at[i];

        for (uint32_t h = k->first; h < k->first + k->nhosts; h++)
            for (uint32_t r = 0; r < j->tree.hosts[h].nlocal; r++) {
                j->ranks[j->tree.hosts[h].first + r].state = RANK_RUNNING;
                j->nrunning++;
            }
    }
    return status;
}

/* ---- signals ---- */

/* Blocks the forwarded signals, and returns a signalfd for them. SIGINT, SIGHUP, SIGQUIT and
 * SIGTSTP are left out if they are ignored: nohup ignores SIGHUP; a shell without job control
 * ignores SIGTSTP, and for background jobs SIGINT and SIGQUIT. */
static int open_signals(void)
{
    static const int passed[] = { SIGTERM, SIGUSR1, SIGUSR2, SIGINT, SIGHUP, SIGQUIT, SIGTSTP };
    struct sigaction now;
    sigset_t set;
    int fd;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        if (i < 3 || sigaction(passed[i], NULL, &now) != 0 || now.sa_handler != SIG_IGN)
            sigaddset(&set, passed[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) {
        fprintf(stderr,
                "tutti run: signalfd failed: %s (signals end the job at once; if a sandbox denies "
                "the system call, allow it there)\n",
                strerror(errno));
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
    return fd;
}

static void pass_signal(struct job *j, int sig)
{
    switch (sig) {
    case SIGTSTP:       /* the job stops and continues with the launcher */
        signal_all(j, SIGSTOP);
        raise(SIGSTOP);
        signal_all(j, SIGCONT);
        break;
    case SIGUSR1:
    case SIGUSR2:
        signal_all(j, sig);
        break;
    default:
        if (!j->give_up_ns) {
            j->give_up_ns = tt_now_ns() + GRACE_NS;
            j->ended_by = sig;
        }
        if (sig == SIGINT && j->ending) {
            j->give_up_ns = tt_now_ns();
            kill_all(j);
        } else {
            begin_ending(j, sig);
        }
        break;
    }
}

static void take_signals(struct job *j)
{
    struct signalfd_siginfo info;

    while (read(j->signals, &info, sizeof info) == sizeof info)
        pass_signal(j, (int)info.ssi_signo);
}

/* Waits until one of our streams is writable, and handles signals meanwhile. False: a signal has
 * ended the job and the grace period is over. */
static bool wait_writable(void *job, int fd)
{
    struct job *j = job;

    for (;;) {
        struct pollfd p[] = { { .fd = fd, .events = POLLOUT },
                              { .fd = j->signals, .events = POLLIN } };
        uint64_t now_ns;

        if (poll(p, 2, j->ending || j->give_up_ns ? WAIT_MS : -1) < 0 && errno != EINTR)
            return true;
        if (p[0].revents)
            return true;
        if (p[1].revents)
            take_signals(j);
        now_ns = tt_now_ns();
        if (j->ending && now_ns >= j->kill_ns)
            kill_all(j);
        if (j->give_up_ns && now_ns >= j->give_up_ns)
            return false;
    }
}

/* ---- the loop ---- */

/* Forwards terminal input to rank 0. Input that does not fit into the pipe is dropped. */
static void pump_terminal(struct job *j)
{
    char data[4096];
    const ssize_t n = read(STDIN_FILENO, data, sizeof data);

    if (n <= 0 || (write(j->terminal[1], data, (size_t)n) < 0 && errno == EPIPE)) {
        close(j->terminal[1]);
        j->terminal[1] = -1;
    }
}

static int next_wake_ms(const struct job *j)
{
    const uint64_t now_ns = tt_now_ns();
    uint64_t wake_ns = tt_serve_wake_ns(j->serve);

    if (links_wake_ns(&j->links) < wake_ns)
        wake_ns = links_wake_ns(&j->links);
    if (j->answer_ns < wake_ns)
        wake_ns = j->answer_ns;
    if (j->ending && j->kill_ns < wake_ns)
        wake_ns = j->kill_ns;
    if (j->report_ns) {
        const uint64_t at_ns = now_ns < j->report_ns ? j->report_ns : now_ns + 20 * TT_MS;

        wake_ns = at_ns < wake_ns ? at_ns : wake_ns;
    }
    if (wake_ns <= now_ns)
        return 0;
    return wake_ns - now_ns < 60 * TT_SECOND ? (int)((wake_ns - now_ns) / TT_MS) + 1 : 60000;
}

#define FIXED_FDS 3
#define FDS_PER_RANK 3

static size_t fill_poll(const struct job *j, struct pollfd *p)
{
    p[0] = (struct pollfd){ .fd = j->signals, .events = POLLIN };
    p[1] = (struct pollfd){ .fd = tt_serve_fd(j->serve), .events = POLLIN };
    p[2] = (struct pollfd){ .fd = j->terminal[1] >= 0 ? STDIN_FILENO : -1, .events = POLLIN };
    for (uint32_t i = 0; i < j->ndirect; i++) {
        const struct rank *rank = &j->ranks[j->direct[i]];
        struct pollfd *at = &p[FIXED_FDS + FDS_PER_RANK * i];

        at[0] = (struct pollfd){ .fd = rank->out.from, .events = POLLIN };
        at[1] = (struct pollfd){ .fd = rank->err.from, .events = POLLIN };
        at[2] = (struct pollfd){ .fd = rank->state == RANK_RUNNING ? rank->child.pidfd : -1,
                                 .events = POLLIN };
    }
    return FIXED_FDS + FDS_PER_RANK * j->ndirect +
           links_fill(&j->links, &p[FIXED_FDS + FDS_PER_RANK * j->ndirect], true);
}

static bool is_missed(const struct job *j, uint32_t rank)
{
    return rank < j->opt->nranks && j->ranks[rank].state == RANK_ENDED &&
           tt_serve_waits_for(j->serve, j->opt->nranks, rank);
}

/* Reports a rank that exited before it joined, also to the ranks that wait for it: otherwise they
 * would wait until their deadline. Ranks that connect later receive the same rank, because later
 * failures may be its consequences. */
static void announce_missing_rank(struct job *j)
{
    uint32_t rank = j->missed;
    char sentence[160];
    int status;

    if (!is_missed(j, rank))
        for (rank = 0; rank < j->opt->nranks && !is_missed(j, rank);)
            rank++;
    if (rank >= j->opt->nranks)
        return;
    status = j->ranks[rank].ended;
    if (j->ranks[rank].lost)
        snprintf(sentence, sizeof sentence, "rank %u was lost with its host before joining", rank);
    else if (WIFEXITED(status))
        snprintf(sentence, sizeof sentence, "rank %u exited with status %d before joining", rank,
                 WEXITSTATUS(status));
    else
        snprintf(sentence, sizeof sentence, "rank %u was killed by signal %d before joining", rank,
                 WTERMSIG(status));
    if (rank != j->missed && !j->ending)
        say(j, "tutti run: %s; the other ranks wait for it\n", sentence);
    j->missed = rank;
    tt_serve_give_up(j->serve, sentence, tt_now_ns());
}

static void run_job(struct job *j, struct pollfd *p)
{
    while (j->nrunning > 0 || j->links.nopen > 0) {
        if (poll(p, fill_poll(j, p), next_wake_ms(j)) < 0)
            continue;
        j->turns++;
        if (p[0].revents)
            take_signals(j);
        if (p[2].revents)
            pump_terminal(j);
        for (uint32_t i = 0; i < j->ndirect; i++) {
            const struct pollfd *at = &p[FIXED_FDS + FDS_PER_RANK * i];
            const uint32_t r = j->direct[i];

            if (at[0].revents)
                output_pump(&j->ranks[r].out);
            if (at[1].revents)
                output_pump(&j->ranks[r].err);
            if ((at[0].revents || at[1].revents) && j->ranks[r].out.from < 0 &&
                j->ranks[r].err.from < 0)
                j->ranks[r].closed = j->turns;
            if (at[2].revents)
                rank_ended(j, r);
        }
        links_step(&j->links, &p[FIXED_FDS + FDS_PER_RANK * j->ndirect]);
        end_silent_shells(j);
        check_sinks(j);
        if (j->report_ns)
            report_failures(j);
        tt_serve_step(j->serve, tt_now_ns());
        if (!j->report_ns)       /* otherwise the first failure is reported first */
            announce_missing_rank(j);
        if (j->ending && tt_now_ns() >= j->kill_ns)
            kill_all(j);
    }
}

/* Kills remaining processes of the ranks, then forwards the rest of their output. */
static void clean_up(struct job *j)
{
    for (uint32_t r = 0; r < j->opt->nranks; r++)
        if (j->ranks[r].state != RANK_NONE && !j->ranks[r].relayed)
            child_reap(&j->ranks[r].child);
    for (uint32_t r = 0; r < j->opt->nranks; r++) {
        end_relayed(j, r, false);
        end_relayed(j, r, true);
        if (j->ranks[r].out.from >= 0)
            output_finish(&j->ranks[r].out);
        if (j->ranks[r].err.from >= 0)
            output_finish(&j->ranks[r].err);
    }
    check_sinks(j);
    links_fini(&j->links);
    guard_dismiss(j->guard);
    tt_serve_close(j->serve);
    close(j->signals);
}

static bool prepare_hosts(struct job *j)
{
    const struct run_options *o = j->opt;

    if (o->hosts ? !hosts_parse(&j->hosts, "tutti run", o->hosts)
        : o->hostfile ? !hosts_read(&j->hosts, "tutti run", o->hostfile)
                      : !hosts_here(&j->hosts, "tutti run"))
        return false;
    return hosts_place(&j->hosts, o->nranks, j->host_of, j->local_of);
}

/* Decides which ranks this process starts itself: all of them, or only the local ones if there are
 * more remote hosts than the fan-out. The remote hosts are then in j->tree. */
static bool plan_tree(struct job *j)
{
    const struct run_options *o = j->opt;
    struct subtree *t = &j->tree;
    uint32_t nremote = 0, rank = 0;

    for (uint32_t i = 0; i < j->hosts.n; i++)
        nremote += !j->hosts.at[i].here && j->hosts.at[i].nlocal > 0;
    if (nremote > o->fanout && !(t->hosts = calloc(nremote, sizeof *t->hosts)))
        return false;
    for (uint32_t i = 0; i < j->hosts.n; i++) {
        const struct host *h = &j->hosts.at[i];

        if (t->hosts && !h->here && h->nlocal > 0)
            t->hosts[t->nhosts++] = (struct subtree_host){ h->name, i, rank, h->nlocal };
        else
            for (uint32_t k = 0; k < h->nlocal; k++)
                j->direct[j->ndirect++] = rank + k;
        rank += h->nlocal;
    }
    t->nranks = o->nranks;
    t->fanout = o->fanout;
    t->bind = o->bind;
    t->rsh = o->rsh;
    t->argv = o->argv;
    while (o->argv[t->argc])
        t->argc++;
    return true;
}

static bool prepare_output(const struct run_options *o)
{
    if (o->output == OUTPUT_DIR && mkdir(o->output_dir, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "tutti run: cannot create %s: %s\n", o->output_dir, strerror(errno));
        return false;
    }
    return true;
}

/* Raises the limit of open files. False, with a message: the limit is too low. */
static bool raise_descriptors(const struct job *j)
{
    enum {
        OWN = 12,               /* of the launcher */
        DIRECT = 4,             /* per rank: output, errors, end, connection */
    };
    const uint32_t nranks = j->opt->nranks, nrelayed = nranks - j->ndirect;
    const rlim_t relayed = j->opt->output == OUTPUT_DIR ? 3 : 1, /* connection, and files */
        needed = DIRECT * (rlim_t)j->ndirect + relayed * nrelayed +
                 (rlim_t)LINK_FDS * subtree_ngroups(j->tree.nhosts, j->opt->fanout) + OWN,
                 wanted = needed + 256;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return true;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= needed)
        return true;
    fprintf(
        stderr,
        "tutti run: cannot start %u ranks: not enough file descriptors: RLIMIT_NOFILE is %llu, at "
        "least %llu needed (raise it with ulimit -n)\n",
        nranks, (unsigned long long)limit.rlim_cur, (unsigned long long)needed);
    return false;
}

/* Returns when the remote shells of the ranks that this process starts must have answered. */
static uint64_t answer_deadline_ns(const struct job *j)
{
    const uint64_t limit_ns =
        all_hosts_local(j) ? TT_NEVER : child_answer_ns(j->common, j->ncommon);

    return limit_ns == TT_NEVER ? TT_NEVER : tt_now_ns() + limit_ns;
}

/* Starts all ranks. If one cannot be started, ends the others. */
static int start_all(struct job *j)
{
    int status = start_tree(j);

    for (uint32_t i = 0; i < j->ndirect && !status; i++)
        status = start_rank(j, j->direct[i]);
    j->answer_ns = answer_deadline_ns(j);
    if (status)
        begin_ending(j, SIGTERM);
    return status;
}

static int run(const struct run_options *opt)
{
    struct job j = {
        .opt = opt, .missed = opt->nranks, .terminal = { -1, -1 }, .signals = -1, .guard = -1
    };
    struct pollfd *p = calloc(
        FIXED_FDS + (size_t)FDS_PER_RANK * opt->nranks + (size_t)LINK_FDS * opt->fanout, sizeof *p);
    char env[COMMON_ENV][ENV_BYTES];
    int status = 126;

    sink_init(&j.out, STDOUT_FILENO, wait_writable, &j);
    sink_init(&j.err, STDERR_FILENO, wait_writable, &j);
    j.env = env;
    j.host_of = calloc(opt->nranks, sizeof *j.host_of);
    j.local_of = calloc(opt->nranks, sizeof *j.local_of);
    j.direct = calloc(opt->nranks, sizeof *j.direct);
    j.ranks = calloc(opt->nranks, sizeof *j.ranks);
    if (!p || !j.host_of || !j.local_of || !j.direct || !j.ranks) {
        fprintf(stderr, "tutti run: out of memory for %u ranks\n", opt->nranks);
        goto free_all;
    }
    for (uint32_t r = 0; r < opt->nranks; r++)
        j.ranks[r].out.from = j.ranks[r].err.from = -1;
    status = 2;
    if (!prepare_hosts(&j) || !prepare_output(opt))
        goto free_all;
    status = 126;
    if (!plan_tree(&j) || !raise_descriptors(&j) || !serve_rendezvous(&j))
        goto free_all;
    write_common_env(&j);
    j.signals = open_signals();
    j.guard = guard_start();
    j.status = start_all(&j);
    run_job(&j, p);
    clean_up(&j);
    status = j.status;

free_all:
    for (uint32_t r = 0; j.ranks && r < opt->nranks; r++)
        free(j.ranks[r].files);
    free(p);
    free(j.tree.hosts);
    free(j.hosts.at);
    free(j.host_of);
    free(j.local_of);
    free(j.direct);
    free(j.ranks);
    return status;
}

int tool_run_main(int argc, char **argv)
{
    struct run_options opt;
    int status;

    /* internal: not an option of run_options.c, because it allows no other options */
    if (argc == 2 && strcmp(argv[1], "--relay") == 0)
        return relay_main();
    run_options_parse(&opt, argc, argv);
    status = run(&opt);
    run_options_fini(&opt);
    return status;
}
