#include "tools/run/run_output.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FIRST_BYTES 8192u
#define PARTS 3

void sink_init(struct sink *to, int fd, bool (*wait)(void *arg, int fd), void *arg)
{
    struct stat st;

    *to = (struct sink){ .fd = fd, .wait = wait, .arg = arg };
    to->is_pipe = fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

/* A writable pipe accepts PIPE_BUF bytes without blocking. */
static ssize_t write_some(const struct sink *to, const struct iovec *parts, int n)
{
    size_t left = to->is_pipe ? PIPE_BUF : SIZE_MAX;
    struct iovec some[PARTS];
    int k = 0;

    for (; k < n && left > 0; k++) {
        some[k] = parts[k];
        if (some[k].iov_len > left)
            some[k].iov_len = left;
        left -= some[k].iov_len;
    }
    return writev(to->fd, some, k);
}

/* Writes all parts, if possible in one call: the file may have other writers. */
static void write_parts(struct sink *to, struct iovec *parts, int n)
{
    while (n > 0 && !to->error) {
        ssize_t done;

        if (!to->wait(to->arg, to->fd)) {
            to->error = EAGAIN;
            return;
        }
        done = write_some(to, parts, n);
        if (done < 0 && errno != EAGAIN && errno != EINTR)
            to->error = errno;
        for (; n > 0 && done >= (ssize_t)parts->iov_len; parts++, n--)
            done -= (ssize_t)parts->iov_len;
        if (n > 0 && done > 0) {
            parts->iov_base = (char *)parts->iov_base + done;
            parts->iov_len -= (size_t)done;
        }
    }
}

void sink_write(struct sink *to, const char *text, size_t bytes)
{
    struct iovec part = { (char *)text, bytes };

    write_parts(to, &part, 1);
}

/* Writes prefix, text[bytes] and end. */
static void write_line(struct output *o, const char *text, size_t bytes, const char *end)
{
    char prefix[32];
    const size_t nprefix =
        (size_t)snprintf(prefix, sizeof prefix, o->cut ? "[%u]+" : "[%u] ", o->rank);
    struct iovec parts[PARTS] = { { prefix, nprefix },
                                  { (char *)text, bytes },
                                  { (char *)end, strlen(end) } };

    write_parts(o->to, parts, PARTS);
}

/* Writes the first `bytes` bytes of the buffer. */
static void pass_plain(struct output *o, size_t bytes)
{
    if (bytes == 0)         /* the buffer may be NULL */
        return;
    sink_write(o->to, o->line, bytes);
    o->bytes -= bytes;
    memmove(o->line, o->line + bytes, o->bytes);
}

/* Enlarges the buffer for a longer line. False: the line has its maximum length, or there is no
 * memory. */
static bool grow(struct output *o)
{
    const size_t capacity = o->capacity ? 2 * o->capacity : FIRST_BYTES;
    char *line;

    if (capacity > OUTPUT_LINE_BYTES)
        return false;
    line = realloc(o->line, capacity);
    if (!line)
        return false;
    o->line = line;
    o->capacity = capacity;
    return true;
}

/* Frees the memory of a long line that was written. */
static void shrink(struct output *o)
{
    char *line;

    if (o->capacity <= FIRST_BYTES || o->bytes > FIRST_BYTES / 2)
        return;
    line = realloc(o->line, FIRST_BYTES);
    if (!line)
        return;
    o->line = line;
    o->capacity = FIRST_BYTES;
}

/* Writes the complete lines in one call: a line is split only where its rank pauses within it. */
static void pass_plain_lines(struct output *o)
{
    const char *newline = memrchr(o->line, '\n', o->bytes);

    if (newline)
        pass_plain(o, (size_t)(newline - o->line) + 1);
}

/* Writes the lines that are complete; bytes from `fresh` on are new. */
static void pass_lines(struct output *o, size_t fresh)
{
    char *at = o->line, *search = o->line + fresh, *const end = o->line + o->bytes, *newline;

    while ((newline = memchr(search, '\n', (size_t)(end - search)))) {
        write_line(o, at, (size_t)(newline - at), "\n");
        o->cut = false;
        at = search = newline + 1;
    }
    if (at == o->line)
        return;
    o->bytes = (size_t)(end - at);
    memmove(o->line, at, o->bytes);
    shrink(o);
}

static void close_output(struct output *o)
{
    if (o->plain)
        pass_plain(o, o->bytes);
    else if (o->bytes > 0 || o->cut)
        write_line(o, o->line, o->bytes, "\n");
    free(o->line);
    o->line = NULL;
    o->bytes = o->capacity = 0;
    o->cut = false;
    if (o->from >= 0)
        close(o->from);
    o->from = -1;
}

/* Makes room in the buffer, by splitting the line if it has its maximum length. False: out of
 * memory, and the stream was closed, because the rank must not be blocked. */
static bool make_room(struct output *o)
{
    if (o->bytes < o->capacity || grow(o))
        return true;
    if (o->bytes == 0) {
        o->to->error = o->to->error ? o->to->error : ENOMEM;
        close_output(o);
        return false;
    }
    if (!o->plain)
        write_line(o, o->line, o->bytes, "\\\n");
    else
        pass_plain(o, o->bytes);
    o->cut = !o->plain;
    o->bytes = 0;
    return true;
}

/* False when there is nothing more to read now. */
static bool pump_once(struct output *o)
{
    size_t before;
    ssize_t n;

    if (!make_room(o))
        return false;
    before = o->bytes;
    n = read(o->from, o->line + before, o->capacity - before);
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && errno == EAGAIN) {
        if (o->plain)
            pass_plain(o, before);
        return false;
    }
    if (n <= 0) {
        close_output(o);
        return false;
    }
    o->bytes += (size_t)n;
    if (o->plain)
        pass_plain_lines(o);
    else
        pass_lines(o, before);
    return true;
}

/* The number of reads is bounded, so that no rank can delay the others. */
void output_pump(struct output *o)
{
    for (int i = 0; i < 16 && o->from >= 0; i++)
        if (!pump_once(o))
            return;
}

void output_feed(struct output *o, const char *data, size_t bytes, bool paused)
{
    while (bytes > 0) {
        size_t before, n;

        if (!make_room(o))
            return;
        before = o->bytes;
        n = bytes < o->capacity - before ? bytes : o->capacity - before;
        memcpy(o->line + before, data, n);
        o->bytes += n;
        data += n;
        bytes -= n;
        if (o->plain)
            pass_plain_lines(o);
        else
            pass_lines(o, before);
    }
    if (o->plain && paused)
        pass_plain(o, o->bytes);
}

void output_end(struct output *o)
{
    close_output(o);
}

void output_finish(struct output *o)
{
    for (int i = 0; i < 1024 && o->from >= 0; i++)
        if (!pump_once(o))
            break;
    if (o->from >= 0)
        close_output(o);
}
