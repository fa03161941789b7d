/* Untrusted JSON documents: loads files, checks members, and reports errors with their position.
 * json-c does the parsing. */
#ifndef TT_BASE_JSONREAD_H
#define TT_BASE_JSONREAD_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

/* Context of error messages: "plan mine.json: ranks[1]: ...". */
struct tt_json_place {
    const char *kind, *from;            /* kind: "plan", or "" if the name suffices; from: the
                                           file name */
    const char *text;                   /* text[bytes] of the document, for line numbers; NULL:
                                           none */
    size_t bytes;
    char where[96];                     /* current position in the document: ": ranks[1]"; "" for
                                           the whole */
};

/* Returns INVALID and logs the place, its line and the message. */
tutti_status tt_json_wrong(const struct tt_json_place *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* As tt_json_wrong, with the line of the member `key` at that place, if it exists. */
tutti_status tt_json_wrong_key(const struct tt_json_place *p, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Reads a file ("-": standard input). *text gets up to `most` bytes, or most + 1 if the file is
 * longer, and a NUL. The caller frees *text. */
tutti_status tt_json_load(char **text, size_t *bytes, const char *kind, const char *path,
                          size_t most);

/* Parses text[bytes] as one document; no NUL is needed. The caller releases *out with
 * json_object_put. INVALID (logged): not a document, longer than `most` bytes, nested deeper than
 * `nesting` (at most 32), or a duplicate key. */
tutti_status tt_json_parse(struct json_object **out, const struct tt_json_place *p,
                           const char *text, size_t bytes, size_t most, int nesting);

/* Writes "lab.json:12", the 1-based line of the key or element `path` ("links.rack",
 * "hosts[3].slots") in text[bytes], a document accepted by tt_json_parse, to out[cap]; "lab.json"
 * if the path does not exist. Returns out. */
const char *tt_json_locate(char *out, size_t cap, const char *from, const char *text, size_t bytes,
                           const char *path);

/* `what` must be an object all of whose members have one of the n names. */
tutti_status tt_json_members(const struct tt_json_place *p, struct json_object *o, const char *what,
                             const char *const *names, size_t n);
/* Reads an integer from least to most. */
tutti_status tt_json_number(const struct tt_json_place *p, struct json_object *o, const char *key,
                            uint64_t least, uint64_t most, uint64_t *out);
/* Reads true or false; without this member *out is unchanged. */
tutti_status tt_json_flag(const struct tt_json_place *p, struct json_object *o, const char *key,
                          bool *out);

#endif
