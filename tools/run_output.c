#include "run_output.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define FIRST_BYTES 8192u

/* Writes all of text[bytes], and waits if the reader is slow. */
static void write_all(struct sink *to, const char *text, size_t bytes)
{
    while (bytes > 0 && !to->error) {
        const ssize_t n = write(to->fd, text, bytes);

        if (n >= 0) {
            text += n;
            bytes -= (size_t)n;
        } else if (errno == EAGAIN) {
            poll(&(struct pollfd){ .fd = to->fd, .events = POLLOUT }, 1, -1);
        } else if (errno != EINTR) {
            to->error = errno;
        }
    }
}

/* Writes prefix, text[bytes] and end, if possible in one call: the file may have other writers. */
static void write_line(struct output *o, const char *text, size_t bytes, const char *end)
{
    char prefix[32];
    const size_t nprefix = (size_t)snprintf(prefix, sizeof prefix, o->cut ? "[%u]+" : "[%u] ", o->rank), nend = strlen(end);
    const struct iovec parts[] = { { prefix, nprefix }, { (char *)text, bytes }, { (char *)end, nend } };
    size_t skip;
    ssize_t n = -1;

    if (!o->to->error)
        n = writev(o->to->fd, parts, 3);
    if (n < 0 && errno != EAGAIN && errno != EINTR && !o->to->error)
        o->to->error = errno;
    skip = n > 0 ? (size_t)n : 0;
    for (size_t i = 0; i < 3; i++) {
        const size_t done = skip < parts[i].iov_len ? skip : parts[i].iov_len;

        write_all(o->to, (const char *)parts[i].iov_base + done, parts[i].iov_len - done);
        skip -= done;
    }
}

/* Makes room for more of the line. False: the line has its maximum length, or there is no memory. */
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
    if (o->bytes > 0 || o->cut)
        write_line(o, o->line, o->bytes, "\n");
    free(o->line);
    o->line = NULL;
    o->bytes = o->capacity = 0;
    o->cut = false;
    close(o->from);
    o->from = -1;
}

/* False when there is nothing more to read now. */
static bool pump_once(struct output *o)
{
    const size_t before = o->bytes;
    ssize_t n;

    if (before == o->capacity && !grow(o)) {
        if (before == 0) {      /* no memory at all: the rank must not wait for us */
            o->to->error = o->to->error ? o->to->error : ENOMEM;
            close_output(o);
            return false;
        }
        write_line(o, o->line, before, "\\\n");
        o->cut = true;
        o->bytes = 0;
        return true;
    }
    n = read(o->from, o->line + before, o->capacity - before);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n <= 0) {
        close_output(o);
        return false;
    }
    o->bytes += (size_t)n;
    pass_lines(o, before);
    return true;
}

/* A few reads only: a rank that prints without end must not keep the others waiting. */
void output_pump(struct output *o)
{
    for (int i = 0; i < 16 && o->from >= 0; i++)
        if (!pump_once(o))
            return;
}

void output_finish(struct output *o)
{
    for (int i = 0; i < 1024 && o->from >= 0; i++)
        if (!pump_once(o))
            break;
    if (o->from >= 0)
        close_output(o);
}
