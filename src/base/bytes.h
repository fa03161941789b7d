/* Bounded reading and writing of little-endian bytes: every parser of foreign bytes uses a tt_reader, whose
 * error is sticky, so that a parser reads all fields and checks once. */
#ifndef TT_BASE_BYTES_H
#define TT_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_reader {
    const uint8_t *at, *end;
    bool bad;           /* something did not fit; all later reads give 0 */
};

struct tt_writer {
    uint8_t *begin, *at, *end;
    bool bad;           /* something did not fit; nothing more was written */
};

void tt_reader_init(struct tt_reader *r, const void *data, size_t bytes);
uint8_t tt_read_u8(struct tt_reader *r);
uint16_t tt_read_u16(struct tt_reader *r);
uint32_t tt_read_u32(struct tt_reader *r);
uint64_t tt_read_u64(struct tt_reader *r);
/* Copies bytes[n] out; zeroes out[] when they are not there. */
void tt_read_bytes(struct tt_reader *r, void *out, size_t n);
/* A u16 length then that many bytes into out[cap] as a NUL-terminated string; bad if it does not fit or
 * holds a NUL. */
void tt_read_string(struct tt_reader *r, char *out, size_t cap);

void tt_writer_init(struct tt_writer *w, void *data, size_t bytes);
size_t tt_writer_bytes(const struct tt_writer *w);
void tt_write_u8(struct tt_writer *w, uint8_t v);
void tt_write_u16(struct tt_writer *w, uint16_t v);
void tt_write_u32(struct tt_writer *w, uint32_t v);
void tt_write_u64(struct tt_writer *w, uint64_t v);
void tt_write_bytes(struct tt_writer *w, const void *data, size_t n);
void tt_write_string(struct tt_writer *w, const char *s);

/* A small opaque value that travels between ranks: an address, a key. */
#define TT_BLOB_BYTES 120
struct tt_blob {
    uint16_t bytes;
    uint8_t data[TT_BLOB_BYTES];
};

#endif
