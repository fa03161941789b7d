/* Frames between `tutti run` and its relays, over the standard streams of a remote shell. A frame
 * is three little-endian integers of 32 bits (kind, subject, length) and the data. */
#ifndef TUTTI_TOOLS_RUN_FRAME_H
#define TUTTI_TOOLS_RUN_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_VERSION "tutti relay 2"
#define FRAME_BYTES_MAX (64u << 10)     /* data of a frame other than FRAME_SUBTREE */
#define FRAME_SUBTREE_MAX (8u << 20)
#define FRAME_OUTPUT_BYTES \
    (32u << 10) /* maximum data of FRAME_OUT and FRAME_ERR; a shorter frame
                                           is followed by a pause */

enum frame_kind {
    /* to a relay */
    FRAME_SUBTREE = 0x52545431, /* first frame; data: see run_subtree.h */
    FRAME_SIGNAL,               /* subject: signal number, for all ranks of the subtree */
    /* from a relay; the subject is a rank if not stated otherwise */
    FRAME_HELLO,                /* first frame; data: FRAME_VERSION; subject: host */
    FRAME_STARTED,              /* data: process id, 32 bits */
    FRAME_OUT, FRAME_ERR,       /* data: output; no data: the stream was closed */
    FRAME_ENDED,                /* data: wait status, 32 bits */
    FRAME_NOTE,                 /* subject: host; data: a line for the user */
    FRAME_LOST,                 /* a relay ended; subject: its host; data: struct lost */
    FRAME_DONE                  /* last frame; subject: host */
};

struct frame {
    uint32_t kind, subject, bytes;
    const uint8_t *data;
};

/* How ranks of other hosts were lost. */
enum lost_how {
    LOST_NOT,
    LOST_UNREACHED,             /* the remote shell ended without an answer */
    LOST_SILENT,                /* the remote shell was killed, because no answer came in time */
    LOST_RELAY                  /* the relay had answered before */
};

/* Data of FRAME_LOST. */
struct lost {
    uint32_t last;              /* last host of the subtree */
    uint32_t status;            /* wait status of its remote shell */
    uint32_t how;               /* enum lost_how, not LOST_NOT */
};

/* Frames to be written. */
struct frame_queue {
    uint8_t *at;
    size_t begin, end, capacity;    /* unsent bytes: at[begin..end) */
};

/* Appends a frame. Returns false if there is no memory; then the queue is unchanged. */
bool frame_put(struct frame_queue *q, uint32_t kind, uint32_t subject, const void *data,
               size_t bytes);
/* Appends a frame with one or more 32-bit integers as data. */
bool frame_put_words(struct frame_queue *q, uint32_t kind, uint32_t subject, const uint32_t *words,
                     size_t n);
size_t frame_unsent(const struct frame_queue *q);
/* Writes to a non-blocking descriptor until it would block. Returns 0 or the errno. */
int frame_flush(struct frame_queue *q, int fd);
void frame_queue_fini(struct frame_queue *q);

/* Bytes that were read and not yet parsed. */
struct frame_stream {
    uint8_t *at;
    size_t begin, end, capacity;
};

enum frame_read { FRAME_READ_SOME, FRAME_READ_NONE, FRAME_READ_END };
enum frame_next { FRAME_NEXT_OK, FRAME_NEXT_PARTIAL, FRAME_NEXT_BAD };

/* Reads once from a non-blocking descriptor. Also returns FRAME_READ_END on errors, such as lack of
 * memory. */
enum frame_read frame_read(struct frame_stream *s, int fd);
/* Appends bytes as if they were read. Returns false if there is no memory. */
bool frame_append(struct frame_stream *s, const void *data, size_t bytes);
/* Removes the next frame. Its data is valid until the next call on the stream. FRAME_NEXT_BAD: the
 * bytes are not a frame; the stream must not be used further. */
enum frame_next frame_next(struct frame_stream *s, struct frame *out);
/* Writes the first unparsed bytes as printable text, for messages. */
void frame_excerpt(const struct frame_stream *s, char *out, size_t bytes);
void frame_stream_fini(struct frame_stream *s);

/* Reads n 32-bit integers. Returns false if the data of the frame has another length. */
bool frame_words(const struct frame *f, uint32_t *words, size_t n);

#endif
