/* Rank output, line by line with the prefix "[rank] ": two ranks never share a line. */
#ifndef TUTTI_TOOLS_RUN_OUTPUT_H
#define TUTTI_TOOLS_RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_LINE_BYTES (1u << 20) /* of a line that is kept whole; a longer one is cut into several */

/* One of our output streams. After an error nothing is written to it any more. */
struct sink {
    int fd, error;              /* error: errno of the first failed write; EAGAIN: wait returned false; 0: none */
    bool is_pipe;               /* a pipe or a socket: its reader can stop reading, or be gone */
    bool (*wait)(void *arg, int fd);    /* returns when fd is writable; false: give up */
    void *arg;
};

/* A stream from a rank to one of ours. A line that is cut ends with "\", and its next part begins
 * with "[rank]+" instead of "[rank] ". */
struct output {
    int from;               /* non-blocking; -1: closed */
    struct sink *to;
    uint32_t rank;
    bool plain;             /* bytes are passed unmodified, also without the end of a line */
    bool cut;               /* the bytes in line continue a line that was cut */
    size_t bytes, capacity;
    char *line;             /* [capacity], of which bytes are an unfinished line; NULL: nothing was read */
};

void sink_init(struct sink *to, int fd, bool (*wait)(void *arg, int fd), void *arg);
/* Writes all of text[bytes], and waits while the stream is not writable. */
void sink_write(struct sink *to, const char *text, size_t bytes);

/* Reads the available bytes and writes the complete lines. At the end of the stream it finishes an
 * unfinished line, frees the buffer and closes. */
void output_pump(struct output *o);
/* Writes what is left and closes, also if another process keeps the write end open. */
void output_finish(struct output *o);

#endif
