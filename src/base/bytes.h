/* Bounded reading and writing of little-endian bytes. Every parser of untrusted bytes uses a
 * tt_reader. Its error is sticky, so a parser reads all fields and checks once. Integers are
 * inline: for a message of constant length, the compiler removes the checks. */
#ifndef TT_BASE_BYTES_H
#define TT_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct tt_reader {
    const uint8_t *at, *end;
    bool bad;           /* a read exceeded the input; all later reads return 0 */
};

struct tt_writer {
    uint8_t *begin, *at, *end;
    bool bad;           /* a write exceeded the buffer; nothing more was written */
};

/* Starts reading data[bytes], which the caller owns and which must outlive the reader. NULL:
 * empty. */
static inline void tt_reader_init(struct tt_reader *r, const void *data, size_t bytes)
{
    r->at = r->end = data;
    if (data)       /* no pointer arithmetic on NULL */
        r->end += bytes;
    r->bad = false;
}

/* Returns the next n bytes, or NULL if fewer remain; then bad is set permanently. */
static inline const uint8_t *tt_reader_take(struct tt_reader *r, size_t n)
{
    const uint8_t *at = r->at;

    if (r->bad || n > (size_t)(r->end - at)) {
        r->bad = true;
        return NULL;
    }
    if (n)
        r->at = at + n;
    return at;
}

static inline uint8_t tt_read_u8(struct tt_reader *r)
{
    const uint8_t *at = tt_reader_take(r, 1);

    return at ? *at : 0;
}

static inline uint16_t tt_read_u16(struct tt_reader *r)
{
    const uint8_t *at = tt_reader_take(r, 2);
    uint16_t v = 0;

    if (at)
        memcpy(&v, at, sizeof v);
    return le16toh(v);
}

static inline uint32_t tt_read_u32(struct tt_reader *r)
{
    const uint8_t *at = tt_reader_take(r, 4);
    uint32_t v = 0;

    if (at)
        memcpy(&v, at, sizeof v);
    return le32toh(v);
}

static inline uint64_t tt_read_u64(struct tt_reader *r)
{
    const uint8_t *at = tt_reader_take(r, 8);
    uint64_t v = 0;

    if (at)
        memcpy(&v, at, sizeof v);
    return le64toh(v);
}

/* Copies the next n bytes to out, or zeroes out[n] if fewer remain. */
void tt_read_bytes(struct tt_reader *r, void *out, size_t n);
/* Reads a u16 length and that many bytes into out[cap] as a NUL-terminated string. Sets bad if it
 * does not fit or contains a NUL. */
void tt_read_string(struct tt_reader *r, char *out, size_t cap);

/* Starts writing into data[bytes], which the caller owns and which must outlive the writer. NULL:
 * no capacity. */
static inline void tt_writer_init(struct tt_writer *w, void *data, size_t bytes)
{
    w->begin = w->at = w->end = data;
    if (data)
        w->end += bytes;
    w->bad = false;
}

/* Returns the number of bytes written. */
static inline size_t tt_writer_bytes(const struct tt_writer *w)
{
    return (size_t)(w->at - w->begin);
}

/* Returns space for the next n bytes, or NULL if there is not enough; then bad is set
 * permanently. */
static inline uint8_t *tt_writer_reserve(struct tt_writer *w, size_t n)
{
    uint8_t *at = w->at;

    if (w->bad || n > (size_t)(w->end - at)) {
        w->bad = true;
        return NULL;
    }
    if (n)
        w->at = at + n;
    return at;
}

static inline void tt_write_u8(struct tt_writer *w, uint8_t v)
{
    uint8_t *at = tt_writer_reserve(w, sizeof v);

    if (at)
        *at = v;
}

static inline void tt_write_u16(struct tt_writer *w, uint16_t v)
{
    uint8_t *at = tt_writer_reserve(w, sizeof v);

    v = htole16(v);
    if (at)
        memcpy(at, &v, sizeof v);
}

static inline void tt_write_u32(struct tt_writer *w, uint32_t v)
{
    uint8_t *at = tt_writer_reserve(w, sizeof v);

    v = htole32(v);
    if (at)
        memcpy(at, &v, sizeof v);
}

static inline void tt_write_u64(struct tt_writer *w, uint64_t v)
{
    uint8_t *at = tt_writer_reserve(w, sizeof v);

    v = htole64(v);
    if (at)
        memcpy(at, &v, sizeof v);
}

void tt_write_bytes(struct tt_writer *w, const void *data, size_t n);
void tt_write_string(struct tt_writer *w, const char *s);

/* A small opaque value exchanged between ranks, e.g. an address or a key. */
#define TT_BLOB_BYTES 120
struct tt_blob {
    uint16_t bytes;
    uint8_t data[TT_BLOB_BYTES];
};

#endif
