/* Documents of others in JSON: files, texts and their members, with sentences that say what is wrong and where. json-c does the parsing. */
#ifndef TT_BASE_JSONREAD_H
#define TT_BASE_JSONREAD_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

/* Whose sentences: "plan mine.json: ranks[1]: …". */
struct tt_json_place {
    const char *kind, *from;            /* "plan", or "" where the name says enough; the file's name */
    const char *text;                   /* [bytes] the document, by which sentences have lines; NULL: they have none */
    size_t bytes;
    char where[96];                     /* in the document, as far as the reader has come: ": ranks[1]"; "" for the whole */
};

/* INVALID (logged): the place with its line, and then the sentence. */
tutti_status tt_json_wrong(const struct tt_json_place *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same with the line of the member `key` of that place, if there is one. */
tutti_status tt_json_wrong_key(const struct tt_json_place *p, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The whole file ("-": standard input) of up to most bytes, and one more where it is longer, with a NUL behind; the caller frees *text. */
tutti_status tt_json_load(char **text, size_t *bytes, const char *kind, const char *path, size_t most);

/* The document that text[bytes] is (no NUL needs to follow), and nothing else; the caller puts it. INVALID (logged) if it is none, has more than `most` bytes, or
 * arrays and objects deeper in each other than `nesting` (at most 32), or an object has a key twice. */
tutti_status tt_json_parse(struct json_object **out, const struct tt_json_place *p, const char *text, size_t bytes,
                           size_t most, int nesting);

/* The line, from 1, of text[at]. */
uint32_t tt_json_line(const char *text, size_t at);

/* The line, from 1, of the key or element that `path` names in text[bytes], a document that tt_json_parse took: "links.rack",
 * "hosts[3].slots". 0: there is none. */
uint32_t tt_json_line_of(const char *text, size_t bytes, const char *path);
/* "lab.json:12", or "lab.json" where the path names nothing, to out[cap]. Returns out. */
const char *tt_json_locate(char *out, size_t cap, const char *from, const char *text, size_t bytes, const char *path);

/* `what` must be an object, each of whose members has one of the n names. */
tutti_status tt_json_members(const struct tt_json_place *p, struct json_object *o, const char *what,
                             const char *const *names, size_t n);
/* A whole number from least to most. */
tutti_status tt_json_number(const struct tt_json_place *p, struct json_object *o, const char *key, uint64_t least,
                            uint64_t most, uint64_t *out);
/* true or false; *out is left as it is where the member is not there. */
tutti_status tt_json_flag(const struct tt_json_place *p, struct json_object *o, const char *key, bool *out);

#endif
