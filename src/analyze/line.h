/* A pull parser for one JSON object, without allocation: a dump of a large job has millions of
 * lines. Accepts RFC 8259 JSON with nesting of at most TT_LINE_DEPTH. Duplicate keys are returned
 * twice. After an error, every function returns false. */
#ifndef TT_ANALYZE_LINE_H
#define TT_ANALYZE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TT_LINE_DEPTH 8

struct tt_line {
    const char *at, *end;
    const char *error;                      /* NULL: no error */
    uint32_t depth;
    bool is_first[TT_LINE_DEPTH + 1];       /* no member or element was read at this depth */
};

/* Text between quotes in a line, with its escapes. */
struct tt_line_text {
    const char *text;
    size_t bytes;
};

/* Begins to read text[bytes], which must stay valid. Returns false if it is not an object. */
bool tt_line_begin(struct tt_line *l, const char *text, size_t bytes);
/* Reads the next key of the current object. Returns false at its end. The caller must then read or
 * skip the value. */
bool tt_line_key(struct tt_line *l, struct tt_line_text *key);
/* Enters an object or array that is the next value. The caller must read it to its end. */
bool tt_line_object(struct tt_line *l);
bool tt_line_array(struct tt_line *l);
/* Returns whether the current array has another element; the caller must read it. */
bool tt_line_element(struct tt_line *l);
bool tt_line_skip(struct tt_line *l);
/* Reads null if it is the next value. */
bool tt_line_null(struct tt_line *l);
/* Reads true or false. Returns false with an error for another value. */
bool tt_line_bool(struct tt_line *l, bool *out);
/* Reads a whole number. Returns false with an error for another value. */
bool tt_line_i64(struct tt_line *l, int64_t *out);
bool tt_line_u64(struct tt_line *l, uint64_t *out);
bool tt_line_string(struct tt_line *l, struct tt_line_text *out);
/* Returns whether the outermost object is complete and only blanks follow. */
bool tt_line_end(struct tt_line *l);

static inline bool tt_line_is(const struct tt_line_text *t, const char *word)
{
    return strlen(word) == t->bytes && memcmp(t->text, word, t->bytes) == 0;
}

/* Writes the text with decoded escapes, and a NUL, to out[cap]. Longer texts are truncated; control
 * characters become spaces. Returns the number of bytes before the NUL. */
size_t tt_line_copy(const struct tt_line_text *t, char *out, size_t cap);

#endif
