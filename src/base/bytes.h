/* Bounded reading and writing of little-endian bytes: every parser of foreign bytes uses a tt_reader, whose
 * error is sticky, so that a parser reads all fields and checks once. Numbers are inline: of a message whose length is known, no check is left. */
#ifndef TT_BASE_BYTES_H
#define TT_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct tt_reader {
    const uint8_t *at, *end;
    bool bad;           /* something did not fit; all later reads give 0 */
};

struct tt_writer {
    uint8_t *begin, *at, *end;
    bool bad;           /* something did not fit; nothing more was written */
};

/* Begins reading data[bytes], which stays the caller's and must outlive the reader. NULL: there is nothing. */
static inline void tt_reader_init(struct tt_reader *r, const void *data, size_t bytes)
{
    r->at = r->end = data;
    if (data)       /* no pointer arithmetic is done on NULL */
        r->end += bytes;
    r->bad = false;
}

/* The next n bytes, or NULL (and bad, for good) if they are not there. */
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

/* Copies bytes[n] out; zeroes out[] when they are not there. */
void tt_read_bytes(struct tt_reader *r, void *out, size_t n);
/* A u16 length then that many bytes into out[cap] as a NUL-terminated string; bad if it does not fit or
 * holds a NUL. */
void tt_read_string(struct tt_reader *r, char *out, size_t cap);

/* Begins writing into data[bytes], which stays the caller's and must outlive the writer. NULL: there is no room. */
static inline void tt_writer_init(struct tt_writer *w, void *data, size_t bytes)
{
    w->begin = w->at = w->end = data;
    if (data)
        w->end += bytes;
    w->bad = false;
}

/* How many bytes were written so far. */
static inline size_t tt_writer_bytes(const struct tt_writer *w)
{
    return (size_t)(w->at - w->begin);
}

/* Room for the next n bytes, or NULL (and bad, for good) if there is none. */
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

/* A small opaque value that travels between ranks: an address, a key. */
#define TT_BLOB_BYTES 120
struct tt_blob {
    uint16_t bytes;
    uint8_t data[TT_BLOB_BYTES];
};

#endif
