/* Frames on a stream: {"Tt", type u8, 0 u8, body bytes u32} and a body. Used by start-up and the
 * control overlay. */
#ifndef TT_BOOT_FRAME_H
#define TT_BOOT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_FRAME_HEADER_BYTES 8

/* A whole frame; the framer owns body, which is valid until the next tt_framer_space. */
struct tt_frame {
    uint8_t type;
    const uint8_t *body;
    size_t bytes;
};

/* Splits a stream into frames. Holds at most one frame of body_max bytes and the bytes read with
 * it. Grows only as data arrives, so a header alone causes no large allocation. */
struct tt_framer {
    uint8_t *buf;
    size_t cap, begin, end;
    size_t body_max;
    bool bad;               /* the input is not a frame, or too long: no further frame is
                               returned */
};

/* Allocates nothing yet; tt_framer_fini frees later allocations. */
void tt_framer_init(struct tt_framer *f, size_t body_max);
void tt_framer_fini(struct tt_framer *f);
/* Returns space for the next *room > 0 bytes; NULL: out of memory. */
uint8_t *tt_framer_space(struct tt_framer *f, size_t *room);
/* Adds the n bytes that the caller has written to the space. */
void tt_framer_added(struct tt_framer *f, size_t n);
/* Returns the next whole frame; false if there is none (yet, or permanently: bad). */
bool tt_framer_next(struct tt_framer *f, struct tt_frame *out);

/* Writes a header for a body of `bytes` bytes. */
void tt_frame_header(uint8_t out[TT_FRAME_HEADER_BYTES], uint8_t type, size_t bytes);

#endif
