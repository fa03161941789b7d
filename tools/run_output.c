#include "run_output.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Writes all of data[bytes], waiting if the reader is slow. A reader that is gone is none of the ranks' business. */
static void write_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t n = write(fd, data, bytes);

        if (n < 0 && errno == EAGAIN)
            poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
        else if (n < 0 && errno != EINTR)
            return;
        if (n > 0) {
            data += n;
            bytes -= (size_t)n;
        }
    }
}

/* Writes one piece, with its prefix in the same write if it begins a line. */
static void write_piece(struct output *o, const char *piece, size_t bytes, bool ends_line)
{
    char out[32 + sizeof o->line + 1];
    size_t n = 0;

    if (!o->prefixed)
        n = (size_t)snprintf(out, 32, "[%u] ", o->rank);
    memcpy(out + n, piece, bytes);
    n += bytes;
    if (ends_line)
        out[n++] = '\n';
    o->prefixed = !ends_line;
    write_all(o->to, out, n);
}

static void pass_lines(struct output *o)
{
    char *at = o->line, *end = o->line + o->bytes, *newline;

    while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
        write_piece(o, at, (size_t)(newline - at), true);
        at = newline + 1;
    }
    o->bytes = (size_t)(end - at);
    memmove(o->line, at, o->bytes);
    if (o->bytes == sizeof o->line) {
        write_piece(o, o->line, o->bytes, false);
        o->bytes = 0;
    }
}

static void close_output(struct output *o)
{
    if (o->bytes > 0 || o->prefixed)
        write_piece(o, o->line, o->bytes, true);
    o->bytes = 0;
    close(o->from);
    o->from = -1;
}

/* False when there is nothing more to read now. */
static bool pump_once(struct output *o)
{
    const ssize_t n = read(o->from, o->line + o->bytes, sizeof o->line - o->bytes);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n <= 0) {
        close_output(o);
        return false;
    }
    o->bytes += (size_t)n;
    pass_lines(o);
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
