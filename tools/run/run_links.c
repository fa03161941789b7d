#include "tools/run/run_links.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"

/* Two grace periods of a relay (TERM, KILL) and some time for the remote shell to end. */
#define END_NS (8 * TT_SECOND)
#define READS 1                 /* per event: a relay with much output must not delay the others */
#define DRAIN_READS 4096        /* after the end; a pipe holds much less */

static const struct subtree_host *host_of(const struct links *l, const struct link *k, uint32_t i)
{
    return &l->all->hosts[k->first + i];
}

/* ---- starting ---- */

static int open_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fprintf(stderr, "tutti run: pipe2 failed: %s\n", strerror(errno));
        return -1;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return 0;
}

static int start_shell(const struct links *l, struct link *k, const char *command)
{
    struct child_conf conf = {
        .argv = l->all->argv, .host = host_of(l, k, 0)->name, .rsh = l->all->rsh, .command = command
    };
    int out[2], err[2], status = 126;

    if (open_pipe(out) != 0)
        return status;
    if (open_pipe(err) != 0)
        goto close_out;
    conf.out = out[1];
    conf.err = err[1];
    status = child_start(&k->child, &conf);
    close(err[1]);
    if (status)
        close(err[0]);
    else
        k->err = err[0];
close_out:
    close(out[1]);
    if (status)
        close(out[0]);
    else
        k->up = out[0];
    return status;
}

/* Queues the description of the subtree for a relay. */
static int describe(const struct links *l, struct link *k)
{
    char *text;
    size_t bytes;
    bool ok;

    if (!subtree_encode(l->all, k->first, k->nhosts, &text, &bytes)) {
        fprintf(stderr, "tutti run: out of memory for a list of %u hosts\n", k->nhosts);
        return 126;
    }
    if (bytes > FRAME_SUBTREE_MAX) {
        fprintf(stderr,
                "tutti run: cannot send %zu bytes of arguments, variables and hosts to a relay "
                "(the maximum is %u)\n",
                bytes, FRAME_SUBTREE_MAX);
        free(text);
        return 126;
    }
    ok = frame_put(&k->down, FRAME_SUBTREE, host_of(l, k, 0)->index, text, bytes);
    free(text);
    if (!ok)
        fprintf(stderr, "tutti run: out of memory for a list of %u hosts\n", k->nhosts);
    return ok ? 0 : 126;
}

int links_start(struct links *l, uint32_t first)
{
    const uint32_t nhosts = l->all->nhosts - first, n = subtree_ngroups(nhosts, l->all->fanout);
    const uint64_t limit_ns = n ? child_answer_ns(l->all->env, l->all->nenv) : TT_NEVER;
    char *command = n ? child_relay_command() : NULL;
    int status = 0;

    l->at = n ? calloc(n, sizeof *l->at) : NULL;
    if (n && (!command || !l->at)) {
        fprintf(stderr, "tutti run: out of memory for %u relays\n", n);
        status = 126;
    }
    for (uint32_t i = 0; i < n && !status; i++) {
        struct link *k = &l->at[i];

        k->up = k->err = -1;
        subtree_group(nhosts, n, i, &k->first, &k->nhosts);
        k->first += first;
        status = describe(l, k);
        if (!status)
            status = start_shell(l, k, command);
        if (status) {
            frame_queue_fini(&k->down);
            break;
        }
        guard_add(l->guard, &k->child);
        l->n++;
        l->nopen++;
    }
    l->answer_ns = limit_ns == TT_NEVER ? TT_NEVER : tt_now_ns() + limit_ns;
    free(command);
    return status;
}

/* ---- ending ---- */

static void close_down(struct link *k)
{
    if (k->child.control >= 0)
        close(k->child.control);
    k->child.control = -1;
    frame_queue_fini(&k->down);
    if (!k->kill_ns)
        k->kill_ns = tt_now_ns() + END_NS;
}

static void flush_down(struct link *k)
{
    if (k->child.control >= 0 && frame_flush(&k->down, k->child.control) != 0)
        close_down(k);      /* EPIPE: the relay has ended, or is about to */
}

void links_signal(struct links *l, int sig)
{
    for (uint32_t i = 0; i < l->n; i++) {
        struct link *k = &l->at[i];

        if (k->ended || k->child.control < 0)
            continue;
        /* a relay that does not read is ended, because the queue must be bounded */
        if (frame_unsent(&k->down) > FRAME_SUBTREE_MAX + FRAME_BYTES_MAX ||
            !frame_put(&k->down, FRAME_SIGNAL, (uint32_t)sig, NULL, 0))
            close_down(k);
        else
            flush_down(k);
    }
}

void links_close(struct links *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (!l->at[i].ended)
            close_down(&l->at[i]);
}

void links_kill(struct links *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (!l->at[i].ended)
            kill(-l->at[i].child.pid, SIGKILL);
}

/* ---- receiving ---- */

static void note(const struct links *l, const struct link *k, const char *text, size_t bytes)
{
    const struct frame f = { FRAME_NOTE, host_of(l, k, 0)->index, (uint32_t)bytes,
                             (const uint8_t *)text };

    if (bytes > 0)
        l->frame(l->arg, &f);
}

/* Forwards the complete lines of a remote shell's standard error. Returns false at its
 * end. */
static bool pump_err(const struct links *l, struct link *k)
{
    ssize_t n;
    char *newline;

    do
        n = read(k->err, k->note + k->note_bytes, sizeof k->note - k->note_bytes);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n <= 0) {
        note(l, k, k->note, k->note_bytes);
        k->note_bytes = 0;
        close(k->err);
        k->err = -1;
        return false;
    }
    k->note_bytes += (size_t)n;
    while ((newline = memchr(k->note, '\n', k->note_bytes))) {
        const size_t bytes = (size_t)(newline - k->note);

        note(l, k, k->note, bytes);
        k->note_bytes -= bytes + 1;
        memmove(k->note, newline + 1, k->note_bytes);
    }
    if (k->note_bytes == sizeof k->note) {
        note(l, k, k->note, k->note_bytes);
        k->note_bytes = 0;
    }
    return true;
}

static bool is_rank_of(const struct links *l, const struct link *k, uint32_t rank)
{
    for (uint32_t i = 0; i < k->nhosts; i++) {
        const struct subtree_host *h = host_of(l, k, i);

        if (rank >= h->first && rank < h->first + h->nlocal)
            return true;
    }
    return false;
}

static bool is_host_of(const struct links *l, const struct link *k, uint32_t index)
{
    return index >= host_of(l, k, 0)->index && index <= host_of(l, k, k->nhosts - 1)->index;
}

/* Returns whether the relay may send this frame now. */
static bool is_valid(const struct links *l, const struct link *k, const struct frame *f)
{
    uint32_t words[3];

    if (k->done || k->reached != (f->kind != FRAME_HELLO))
        return false;
    switch (f->kind) {
    case FRAME_HELLO:
        return f->subject == host_of(l, k, 0)->index && f->bytes == strlen(FRAME_VERSION) &&
               memcmp(f->data, FRAME_VERSION, f->bytes) == 0;
    case FRAME_STARTED:
    case FRAME_ENDED:
        return is_rank_of(l, k, f->subject) && frame_words(f, words, 1);
    case FRAME_OUT:
    case FRAME_ERR:
        return is_rank_of(l, k, f->subject) && f->bytes <= FRAME_OUTPUT_BYTES;
    case FRAME_NOTE:
        return is_host_of(l, k, f->subject) && f->bytes <= LINK_NOTE_BYTES;
    case FRAME_LOST:
        return is_host_of(l, k, f->subject) && frame_words(f, words, 3) && words[0] >= f->subject &&
               is_host_of(l, k, words[0]) && words[2] > LOST_NOT && words[2] <= LOST_RELAY;
    case FRAME_DONE:
        return f->subject == host_of(l, k, 0)->index;
    default:
        return false;
    }
}

static void end_up(struct link *k)
{
    if (k->up >= 0)
        close(k->up);
    k->up = -1;
    frame_stream_fini(&k->in);
    close_down(k);
}

static void refuse(const struct links *l, struct link *k, const struct frame *f)
{
    char found[64], text[256];
    int n;

    frame_excerpt(&k->in, found, sizeof found);
    if (f)
        n = snprintf(text, sizeof text,
                     "tutti run: protocol error: unexpected frame %u of %u bytes from the relay "
                     "(is tutti of another release on this host?)",
                     f->kind - FRAME_SUBTREE, f->bytes);
    else
        n = snprintf(text, sizeof text,
                     "tutti run: protocol error: unexpected bytes on standard output: \"%s\" (a "
                     "remote shell and its start-up files must not print there)",
                     found);
    note(l, k, text, (size_t)n);
    end_up(k);
}

/* Handles the frames that were received completely. */
static void take_frames(const struct links *l, struct link *k)
{
    struct frame f;
    enum frame_next next;

    while (k->up >= 0 && (next = frame_next(&k->in, &f)) != FRAME_NEXT_PARTIAL) {
        if (next == FRAME_NEXT_BAD || !is_valid(l, k, &f)) {
            refuse(l, k, next == FRAME_NEXT_BAD ? NULL : &f);
            return;
        }
        if (f.kind == FRAME_HELLO)
            k->reached = true;
        else if (f.kind == FRAME_DONE)
            k->done = true;
        else
            l->frame(l->arg, &f);
    }
}

static void pump_up(const struct links *l, struct link *k, int nreads)
{
    for (int i = 0; i < nreads && k->up >= 0; i++) {
        const enum frame_read got = frame_read(&k->in, k->up);

        take_frames(l, k);
        if (got == FRAME_READ_END)
            end_up(k);
        if (got != FRAME_READ_SOME)
            return;
    }
}

/* The remote shell has ended. Other processes may keep its streams open. */
static void end_link(struct links *l, struct link *k)
{
    enum lost_how how = LOST_UNREACHED;
    siginfo_t info = { .si_pid = 0 };
    uint8_t data[12];
    struct frame f = { FRAME_LOST, host_of(l, k, 0)->index, sizeof data, data };
    struct tt_writer w = { .begin = data, .at = data, .end = data + sizeof data };
    int status;

    if (waitid(P_PID, (id_t)k->child.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == 0)
        return;
    pump_up(l, k, DRAIN_READS);
    for (int i = 0; i < DRAIN_READS && k->err >= 0; i++)
        if (!pump_err(l, k))
            break;
    end_up(k);
    if (k->err >= 0) {
        note(l, k, k->note, k->note_bytes);
        close(k->err);
        k->err = -1;
    }
    status = child_reap(&k->child);
    k->ended = true;
    l->nopen--;
    if (k->silent)
        how = LOST_SILENT;
    else if (k->reached)
        how = LOST_RELAY;
    tt_write_u32(&w, host_of(l, k, k->nhosts - 1)->index);
    tt_write_u32(&w, k->silent ? 126u << 8 : (uint32_t)status);
    tt_write_u32(&w, how);
    l->frame(l->arg, &f);
}

/* Kills the remote shells whose relays have not answered in time. Reads once more before: while
 * this process waited for the reader of its output, it read no answers. */
static void end_silent(struct links *l)
{
    if (l->n == 0 || tt_now_ns() < l->answer_ns)
        return;
    l->answer_ns = TT_NEVER;
    for (uint32_t i = 0; i < l->n; i++) {
        struct link *k = &l->at[i];

        if (!k->reached && !k->ended)
            pump_up(l, k, 1);
        if (k->reached || k->ended)
            continue;
        k->silent = true;
        kill(-k->child.pid, SIGKILL);
    }
}

/* ---- events ---- */

size_t links_fill(const struct links *l, struct pollfd *p, bool listen)
{
    for (uint32_t i = 0; i < l->n; i++) {
        const struct link *k = &l->at[i];
        struct pollfd *at = &p[LINK_FDS * i];
        const bool in = listen && !k->ended, out = !k->ended && frame_unsent(&k->down) > 0;

        at[0] = (struct pollfd){ .fd = in ? k->up : -1, .events = POLLIN };
        at[1] = (struct pollfd){ .fd = in ? k->err : -1, .events = POLLIN };
        at[2] = (struct pollfd){ .fd = in ? k->child.pidfd : -1, .events = POLLIN };
        at[3] = (struct pollfd){ .fd = out ? k->child.control : -1, .events = POLLOUT };
    }
    return (size_t)LINK_FDS * l->n;
}

void links_step(struct links *l, const struct pollfd *p)
{
    for (uint32_t i = 0; i < l->n; i++) {
        const struct pollfd *at = &p[LINK_FDS * i];
        struct link *k = &l->at[i];

        if (k->ended)
            continue;
        if (at[3].revents)
            flush_down(k);
        if (at[0].revents)
            pump_up(l, k, READS);
        if (at[1].revents && k->err >= 0)
            pump_err(l, k);
        if (at[2].revents)
            end_link(l, k);
        if (!k->ended && k->kill_ns && tt_now_ns() >= k->kill_ns) {
            kill(-k->child.pid, SIGKILL);
            k->kill_ns = tt_now_ns() + END_NS;
        }
    }
    end_silent(l);
}

uint64_t links_wake_ns(const struct links *l)
{
    uint64_t wake_ns = l->n ? l->answer_ns : TT_NEVER;

    for (uint32_t i = 0; i < l->n; i++)
        if (!l->at[i].ended && l->at[i].kill_ns && l->at[i].kill_ns < wake_ns)
            wake_ns = l->at[i].kill_ns;
    return wake_ns;
}

void links_fini(struct links *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        struct link *k = &l->at[i];

        end_up(k);
        if (k->err >= 0)
            close(k->err);
        if (!k->ended)
            child_reap(&k->child);
    }
    free(l->at);
    l->at = NULL;
    l->n = l->nopen = 0;
}
