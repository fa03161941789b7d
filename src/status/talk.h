/* Frames between a status client and a process (boot/frame.h), on a Unix socket:
 *
 *   process                        client
 *     | HELLO ---------------------> |   at once
 *     | <------------------ REQUEST  |   one at a time
 *     | ROWS ... ------------------> |
 *     | END, or REFUSED -----------> |
 */
#ifndef TT_STATUS_TALK_H
#define TT_STATUS_TALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boot/frame.h"
#include "status/collect.h"

#define TT_TALK_VERSION 8u
#define TT_TALK_REQUEST_MAX (10u + 2u + TT_COLLECT_DIR_BYTES)
#define TT_TALK_BODY_MAX 512u           /* maximum size of the body of a frame */
#define TT_TALK_FRAME_MAX (TT_FRAME_HEADER_BYTES + TT_TALK_BODY_MAX)

enum tt_talk { TT_TALK_HELLO = 1, TT_TALK_REQUEST, TT_TALK_ROWS, TT_TALK_END, TT_TALK_REFUSED };

struct tt_talk_hello {
    uint64_t job;
    uint32_t rank, nranks, nhosts, pid;     /* nhosts 0: unknown */
    bool alone;                         /* it reports only itself, as in an elastic run */
    char host[64];
};

/* Each writes a whole frame to out[TT_TALK_FRAME_MAX] and returns its size. */
size_t tt_talk_hello_write(const struct tt_talk_hello *h, uint8_t *out);
size_t tt_talk_request_write(const struct tt_collect_query *q, uint8_t *out);
size_t tt_talk_refused_write(const char *why, uint8_t *out);
/* Each reads a frame of its type. False: it is invalid, or has another version. */
bool tt_talk_hello_read(const struct tt_frame *f, struct tt_talk_hello *h);
bool tt_talk_request_read(const struct tt_frame *f, struct tt_collect_query *q);
bool tt_talk_refused_read(const struct tt_frame *f, char why[TT_TALK_BODY_MAX]);

#endif
