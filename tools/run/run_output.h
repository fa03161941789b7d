/* Forwards rank output line by line with the prefix "[rank] ". Lines of different ranks are never
 * mixed. */
#ifndef TUTTI_TOOLS_RUN_OUTPUT_H
#define TUTTI_TOOLS_RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_LINE_BYTES (1u << 20) /* maximum length of a line; longer lines are split */

/* An output stream of the launcher. After an error nothing more is written to it. */
struct sink {
    int fd, error;              /* error: errno of the first failed write; EAGAIN: wait returned
                                   false; 0: none */
    bool is_pipe;               /* a pipe or a socket: its reader can pause or exit */
    bool (*wait)(void *arg, int fd);    /* returns when fd is writable; false: give up */
    void *arg;
};

/* A stream from a rank to a stream of the launcher. A split line ends with "\", and its next part
 * begins with "[rank]+" instead of "[rank] ". */
struct output {
    int from;               /* non-blocking; -1: closed */
    struct sink *to;
    uint32_t rank;
    bool plain;             /* bytes are forwarded unmodified, also without the end of a line */
    bool cut;               /* the bytes in `line` continue a split line */
    size_t bytes, capacity;
    char *line;             /* [capacity]; the first `bytes` are an unfinished line; NULL:
                               nothing was read */
};

void sink_init(struct sink *to, int fd, bool (*wait)(void *arg, int fd), void *arg);
/* Writes all of text[bytes], and waits while the stream is not writable. */
void sink_write(struct sink *to, const char *text, size_t bytes);

/* Reads the available bytes and writes the complete lines. At the end of the stream it finishes an
 * unfinished line, frees the buffer and closes. */
void output_pump(struct output *o);
/* Handles bytes from another source (from is -1). paused: no further bytes follow immediately, so
 * an unfinished line is also written if lines have no prefix. */
void output_feed(struct output *o, const char *data, size_t bytes, bool paused);
/* Ends a stream of output_feed: finishes an unfinished line and frees the buffer. */
void output_end(struct output *o);
/* Writes the buffered bytes and closes, even if another process keeps the write end open. */
void output_finish(struct output *o);

#endif
