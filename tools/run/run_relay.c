/* A relay starts the ranks of its host and the relays below it, and then forwards in both
 * directions: signals from its parent to all ranks below, output and exit statuses of these ranks
 * to its parent. It buffers at most UP_BYTES_MAX of output, and one more read per source. If its
 * parent does not read, it does not read either, so that the ranks block as on a pipe. If the
 * connection to its parent is lost, it ends its subtree. */
#include "tools/run/run_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "tools/run/run_child.h"
#include "tools/run/run_frame.h"
#include "tools/run/run_links.h"
#include "tools/run/run_subtree.h"

#define UP_BYTES_MAX (256u << 10)
#define GRACE_NS (3 * TT_SECOND)
#define READS 1                 /* per event, for the bound on buffered output */
#define DRAIN_READS 1024
#define RANK_ENV 4
#define ENV_BYTES 48

struct local {
    struct child child;
    int out, err;               /* -1: closed */
    bool running;
};

struct relay {
    struct subtree tree;
    const struct subtree_host *host;    /* this one */
    struct links links;
    struct local *ranks;        /* [nstarted of host->nlocal] */
    uint32_t nstarted, nrunning;
    bool reaped;                /* all local ranks have ended, and the rest of their processes was
                                   killed */
    struct frame_queue up;
    struct frame_stream down;
    bool orphan;                /* the connection to the parent is lost */
    bool killed;
    uint64_t kill_ns;           /* orphan: when the ranks are killed */
    int guard;
};

static void signal_ranks(struct relay *y, int sig)
{
    for (uint32_t i = 0; i < y->nstarted; i++)
        if (y->ranks[i].running)
            child_signal(&y->ranks[i].child, sig);
}

/* The connection to the parent is lost: ends the subtree. */
static void lose_parent(struct relay *y)
{
    if (y->orphan)
        return;
    y->orphan = true;
    y->kill_ns = tt_now_ns() + GRACE_NS;
    frame_queue_fini(&y->up);
    signal_ranks(y, SIGTERM);
    signal_ranks(y, SIGCONT);
    links_close(&y->links);
}

static void flush_up(struct relay *y)
{
    if (!y->orphan && frame_flush(&y->up, STDOUT_FILENO) != 0)
        lose_parent(y);
}

/* Queues a frame for the parent. If memory is exhausted, ends the subtree. */
static void send_up(struct relay *y, uint32_t kind, uint32_t subject, const void *data,
                    size_t bytes)
{
    if (!y->orphan && !frame_put(&y->up, kind, subject, data, bytes))
        lose_parent(y);
}

static void send_word(struct relay *y, uint32_t kind, uint32_t subject, uint32_t word)
{
    if (!y->orphan && !frame_put_words(&y->up, kind, subject, &word, 1))
        lose_parent(y);
}

static void pass_up(void *arg, const struct frame *f)
{
    send_up(arg, f->kind, f->subject, f->data, f->bytes);
}

/* ---- starting ---- */

/* Opens a pipe whose reading end does not block. Returns the writing end, or -1. */
static int open_stream(int *from)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        fprintf(stderr, "tutti run: pipe2 failed: %s\n", strerror(errno));
        return -1;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *from = ends[0];
    return ends[1];
}

static int start_rank(struct relay *y, uint32_t local)
{
    const uint32_t rank = y->host->first + local;
    struct child_conf conf = { .argv = y->tree.argv };
    struct local *r = &y->ranks[local];
    char text[RANK_ENV][ENV_BYTES];
    cpu_set_t cores;
    int status;

    _Static_assert(RANK_ENV + SUBTREE_ENV_MAX <= ENV_MAX, "all variables fit");
    snprintf(text[0], ENV_BYTES, "TUTTI_RANK=%u", rank);
    snprintf(text[1], ENV_BYTES, "TUTTI_SIZE=%u", y->tree.nranks);
    snprintf(text[2], ENV_BYTES, "TUTTI_LOCAL_RANK=%u", local);
    snprintf(text[3], ENV_BYTES, "TUTTI_LOCAL_SIZE=%u", y->host->nlocal);
    for (size_t i = 0; i < RANK_ENV; i++)
        conf.env[conf.nenv++] = text[i];
    for (size_t i = 0; i < y->tree.nenv; i++)
        conf.env[conf.nenv++] = y->tree.env[i];
    if (bind_mask(y->tree.bind, local, y->host->nlocal, &cores))
        conf.cores = &cores;
    *r = (struct local){ .out = -1, .err = -1 };
    conf.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    conf.out = open_stream(&r->out);
    conf.err = open_stream(&r->err);
    status = child_start_with(&r->child, &conf);
    if (status)
        return status;
    r->running = true;
    guard_add(y->guard, &r->child);
    y->nstarted++;
    y->nrunning++;
    send_word(y, FRAME_STARTED, rank, (uint32_t)r->child.pid);
    return 0;
}

/* Starts the local ranks. If one cannot be started, it and the following ones are reported as
 * ended, with the exit status that a shell would return. */
static void start_ranks(struct relay *y)
{
    for (uint32_t i = 0; i < y->host->nlocal; i++) {
        const int status = start_rank(y, i);

        if (!status)
            continue;
        for (; i < y->host->nlocal; i++) {
            const int *streams[] = { &y->ranks[i].out, &y->ranks[i].err };

            for (size_t k = 0; k < 2 && i == y->nstarted; k++)
                if (*streams[k] >= 0)
                    close(*streams[k]);
            send_word(y, FRAME_ENDED, y->host->first + i, (uint32_t)status << 8);
        }
    }
}

/* ---- local ranks ---- */

/* Forwards output. Returns false when there is nothing more to read now. */
static bool pump_once(struct relay *y, uint32_t local, int *from, uint32_t kind)
{
    static char data[FRAME_OUTPUT_BYTES];
    ssize_t n;

    do
        n = read(*from, data, sizeof data);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return false;
    send_up(y, kind, y->host->first + local, data, n > 0 ? (size_t)n : 0);
    if (n > 0)
        return true;
    close(*from);
    *from = -1;
    return false;
}

static void pump(struct relay *y, uint32_t local, int *from, uint32_t kind, int nreads)
{
    for (int i = 0; i < nreads && *from >= 0; i++)
        if (!pump_once(y, local, from, kind))
            return;
}

/* Forwards the rest of the pipe's contents, and closes it even if another process keeps it open. */
static void finish(struct relay *y, uint32_t local, int *from, uint32_t kind)
{
    pump(y, local, from, kind, DRAIN_READS);
    if (*from < 0)
        return;
    close(*from);
    *from = -1;
    send_up(y, kind, y->host->first + local, NULL, 0);
}

static void rank_ended(struct relay *y, uint32_t local)
{
    struct local *r = &y->ranks[local];
    siginfo_t info = { .si_pid = 0 };
    uint32_t status = 1 << 8;

    if (waitid(P_PID, (id_t)r->child.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
        if (info.si_pid == 0)
            return;
        status =
            (uint32_t)(info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status & 0x7f);
    }
    r->running = false;
    y->nrunning--;
    pump(y, local, &r->out, FRAME_OUT, READS);
    pump(y, local, &r->err, FRAME_ERR, READS);
    send_word(y, FRAME_ENDED, y->host->first + local, status);
}

/* Kills the processes that the ranks left behind, and forwards the rest of the output. */
static void reap_ranks(struct relay *y)
{
    for (uint32_t i = 0; i < y->nstarted; i++)
        child_reap(&y->ranks[i].child);
    for (uint32_t i = 0; i < y->nstarted; i++) {
        finish(y, i, &y->ranks[i].out, FRAME_OUT);
        finish(y, i, &y->ranks[i].err, FRAME_ERR);
    }
    y->reaped = true;
}

/* ---- the parent ---- */

static void take_frames(struct relay *y)
{
    struct frame f;
    enum frame_next next;

    while (!y->orphan && (next = frame_next(&y->down, &f)) != FRAME_NEXT_PARTIAL) {
        if (next == FRAME_NEXT_BAD || f.kind != FRAME_SIGNAL || f.bytes > 0 || f.subject == 0 ||
            f.subject >= NSIG) {
            fputs("tutti run: protocol error: unexpected bytes on the standard input of a relay\n",
                  stderr);
            lose_parent(y);
            return;
        }
        signal_ranks(y, (int)f.subject);
        links_signal(&y->links, (int)f.subject);
    }
}

static void read_down(struct relay *y)
{
    const enum frame_read got = frame_read(&y->down, STDIN_FILENO);

    take_frames(y);
    if (got == FRAME_READ_END)
        lose_parent(y);
}

/* Kills the ranks of an orphan after the grace period, and then the remote shells. */
static void check_deadline(struct relay *y)
{
    if (!y->orphan || tt_now_ns() < y->kill_ns)
        return;
    signal_ranks(y, SIGKILL);
    if (y->killed)
        links_kill(&y->links);
    y->killed = true;
    y->kill_ns = tt_now_ns() + 3 * GRACE_NS;
}

/* ---- the loop ---- */

enum { POLL_DOWN, POLL_UP, POLL_RANKS };
#define RANK_FDS 3

static int wait_ms(const struct relay *y)
{
    const uint64_t now_ns = tt_now_ns();
    uint64_t wake_ns = links_wake_ns(&y->links);

    if (y->orphan && y->kill_ns < wake_ns)
        wake_ns = y->kill_ns;
    if (wake_ns <= now_ns)
        return 0;
    return wake_ns - now_ns < 60 * TT_SECOND ? (int)((wake_ns - now_ns) / TT_MS) + 1 : 60000;
}

static size_t fill_poll(const struct relay *y, struct pollfd *p, bool room)
{
    struct pollfd *at = &p[POLL_RANKS];

    p[POLL_DOWN] = (struct pollfd){ .fd = y->orphan ? -1 : STDIN_FILENO, .events = POLLIN };
    p[POLL_UP] = (struct pollfd){ .fd = y->orphan ? -1 : STDOUT_FILENO,
                                  .events = frame_unsent(&y->up) ? POLLOUT : 0 };
    for (uint32_t i = 0; i < y->nstarted; i++, at += RANK_FDS) {
        const struct local *r = &y->ranks[i];

        at[0] = (struct pollfd){ .fd = room ? r->out : -1, .events = POLLIN };
        at[1] = (struct pollfd){ .fd = room ? r->err : -1, .events = POLLIN };
        at[2] = (struct pollfd){ .fd = room && r->running ? r->child.pidfd : -1, .events = POLLIN };
    }
    at += links_fill(&y->links, at, room);
    return (size_t)(at - p);
}

static void take_events(struct relay *y, const struct pollfd *p)
{
    const struct pollfd *at = &p[POLL_RANKS];

    if (p[POLL_DOWN].revents)
        read_down(y);
    if (p[POLL_UP].revents & (POLLERR | POLLNVAL))      /* the parent has closed it */
        lose_parent(y);
    for (uint32_t i = 0; i < y->nstarted; i++, at += RANK_FDS) {
        struct local *r = &y->ranks[i];

        if (at[0].revents && r->out >= 0)
            pump(y, i, &r->out, FRAME_OUT, READS);
        if (at[1].revents && r->err >= 0)
            pump(y, i, &r->err, FRAME_ERR, READS);
        if (at[2].revents && r->running)
            rank_ended(y, i);
    }
    links_step(&y->links, at);
    flush_up(y);
    check_deadline(y);
}

static void serve(struct relay *y, struct pollfd *p)
{
    while (!y->reaped || y->links.nopen > 0) {
        /* an orphan reads on: without a parent, output is discarded */
        const bool room = y->orphan || frame_unsent(&y->up) < UP_BYTES_MAX;

        if (!y->reaped && y->nrunning == 0 && room) {
            reap_ranks(y);
            flush_up(y);
            continue;
        }
        if (poll(p, fill_poll(y, p, room), wait_ms(y)) >= 0)
            take_events(y, p);
    }
}

/* Writes the rest, unless the parent is lost. */
static void finish_up(struct relay *y)
{
    send_up(y, FRAME_DONE, y->host->index, NULL, 0);
    flush_up(y);
    while (!y->orphan && frame_unsent(&y->up) > 0) {
        struct pollfd p[] = { { .fd = STDIN_FILENO, .events = POLLIN },
                              { .fd = STDOUT_FILENO, .events = POLLOUT } };

        if (poll(p, 2, -1) < 0)
            continue;
        if (p[0].revents)
            read_down(y);
        flush_up(y);
    }
}

/* ---- main ---- */

/* Reads the subtree. Its strings point into *data, which the caller frees. Returns 0 or the exit
 * status. */
static int read_subtree(struct relay *y, char **data)
{
    struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
    enum frame_next next = FRAME_NEXT_PARTIAL;
    const char *error = NULL;
    struct frame f = { 0 };

    while ((next = frame_next(&y->down, &f)) == FRAME_NEXT_PARTIAL) {
        poll(&p, 1, -1);
        if (frame_read(&y->down, STDIN_FILENO) == FRAME_READ_END) {
            error = "standard input ended";
            break;
        }
    }
    if (!error && (next == FRAME_NEXT_BAD || f.kind != FRAME_SUBTREE))
        error = "standard input does not begin with a list of hosts (only tutti run starts relays)";
    if (!error && !(*data = malloc(f.bytes + 1u)))
        error = "out of memory for the list of hosts";
    if (!error) {
        memcpy(*data, f.data, f.bytes);
        error = subtree_decode(&y->tree, *data, f.bytes);
    }
    if (!error && y->tree.hosts[0].index != f.subject)
        error = "the first host is not this one";
    if (error)
        fprintf(stderr, "tutti run: cannot start a relay: %s\n", error);
    return error ? 2 : 0;
}

/* Raises the limit of open files: three per rank, four per relay, and a few. */
static void raise_descriptors(const struct relay *y)
{
    const rlim_t wanted =
        (rlim_t)RANK_FDS * y->host->nlocal + (rlim_t)LINK_FDS * y->tree.fanout + 64;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int run(struct relay *y)
{
    const size_t nlinks = subtree_ngroups(y->tree.nhosts - 1, y->tree.fanout);
    struct pollfd *p;
    int status;

    y->host = &y->tree.hosts[0];
    y->ranks = calloc(y->host->nlocal, sizeof *y->ranks);
    p = calloc(POLL_RANKS + (size_t)RANK_FDS * y->host->nlocal + LINK_FDS * nlinks, sizeof *p);
    if (!y->ranks || !p) {
        fprintf(stderr, "tutti run: out of memory for %u ranks\n", y->host->nlocal);
        free(p);
        return 126;
    }
    raise_descriptors(y);
    send_up(y, FRAME_HELLO, y->host->index, FRAME_VERSION, strlen(FRAME_VERSION));
    y->guard = guard_start();
    y->links = (struct links){ .all = &y->tree, .guard = y->guard, .frame = pass_up, .arg = y };
    status = links_start(&y->links, 1);
    if (status)
        lose_parent(y);
    else
        start_ranks(y);
    take_frames(y);         /* signals that arrived together with the list of hosts */
    flush_up(y);
    serve(y, p);
    finish_up(y);
    links_fini(&y->links);
    guard_dismiss(y->guard);
    free(p);
    return status ? status : y->orphan;
}

int relay_main(void)
{
    struct relay y = { .guard = -1 };
    char *data = NULL;
    int status;

    signal(SIGPIPE, SIG_IGN);
    fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
    fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
    status = read_subtree(&y, &data);
    if (!status) {
        status = run(&y);
        subtree_fini(&y.tree);
    }
    free(y.ranks);
    free(data);
    frame_queue_fini(&y.up);
    frame_stream_fini(&y.down);
    return status;
}
