/* Frames on a stream: {"Tt", type u8, 0 u8, body bytes u32} and a body. Start-up and the control overlay speak in frames. */
#ifndef TT_BOOT_FRAME_H
#define TT_BOOT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_FRAME_HEADER_BYTES 8

/* A whole frame; body is the framer's, valid until the next tt_framer_space. */
struct tt_frame {
    uint8_t type;
    const uint8_t *body;
    size_t bytes;
};

/* Cuts a stream into frames. Holds at most one frame of body_max bytes plus what came with it; grows only as bytes really
 * arrive, so that a header alone makes nobody allocate. */
struct tt_framer {
    uint8_t *buf;
    size_t cap, begin, end;
    size_t body_max;
    bool bad;               /* what came is no frame, or too long: nothing more will come out */
};

/* Nothing is allocated yet. tt_framer_fini frees what later is. */
void tt_framer_init(struct tt_framer *f, size_t body_max);
void tt_framer_fini(struct tt_framer *f);
/* Where to put the next bytes, *room > 0 of them; NULL without memory. */
uint8_t *tt_framer_space(struct tt_framer *f, size_t *room);
/* n bytes were put there. */
void tt_framer_added(struct tt_framer *f, size_t n);
/* Takes the next whole frame; false if there is none (yet, or ever: bad). */
bool tt_framer_next(struct tt_framer *f, struct tt_frame *out);

/* Writes a header for a body of `bytes` bytes. */
void tt_frame_header(uint8_t out[TT_FRAME_HEADER_BYTES], uint8_t type, size_t bytes);

#endif
