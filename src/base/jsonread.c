#include "base/jsonread.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define NESTING_MAX 32
#define PATH_BYTES 160

/* json-c accepts keys in either kind of quotes. */
static bool is_quote(char c) { return c == '"' || c == '\''; }

/* Returns the index of the closing quote of the string at text[at], or `bytes`. */
static size_t string_end(const char *text, size_t bytes, size_t at)
{
    const char quote = text[at];

    for (at++; at < bytes && text[at] != quote; at++)
        at += text[at] == '\\';
    return at < bytes ? at : bytes;
}

/* ---- lines ---- */

/* Walks a valid document and compares the path of each key and element with the requested path. */
struct walk {
    const char *text;
    size_t bytes, at;
    const char *wanted;
    size_t found;               /* start of the key or element; `bytes` if not found yet */
};

static void skip_blanks(struct walk *w)
{
    while (w->at < w->bytes && w->text[w->at] && strchr(" \t\r\n", w->text[w->at]))
        w->at++;
}

static void compare_path(struct walk *w, const char *path, size_t at)
{
    if (w->found == w->bytes && strcmp(path, w->wanted) == 0)
        w->found = at;
}

static void walk_value(struct walk *w, const char *path, int depth);

static void walk_member(struct walk *w, const char *path, int depth)
{
    const size_t begin = w->at, end = string_end(w->text, w->bytes, begin);
    char below[PATH_BYTES];

    if (w->at >= w->bytes || !is_quote(w->text[w->at]) || end == w->bytes) {
        w->at = w->bytes;
        return;
    }
    snprintf(below, sizeof below, "%.100s%s%.*s", path, *path ? "." : "",
             (int)(end - begin - 1 < 50 ? end - begin - 1 : 50), w->text + begin + 1);
    compare_path(w, below, begin);
    w->at = end + 1;
    skip_blanks(w);
    w->at++;                    /* skip the colon */
    walk_value(w, below, depth + 1);
}

static void walk_element(struct walk *w, const char *path, size_t i, int depth)
{
    char below[PATH_BYTES];

    snprintf(below, sizeof below, "%.100s[%zu]", path, i);
    compare_path(w, below, w->at);
    walk_value(w, below, depth + 1);
}

static void walk_value(struct walk *w, const char *path, int depth)
{
    const char first = (skip_blanks(w), w->at < w->bytes ? w->text[w->at] : '\0');
    const char last = first == '{' ? '}' : ']';

    if (is_quote(first)) {
        w->at = string_end(w->text, w->bytes, w->at) + 1;
        return;
    }
    if ((first != '{' && first != '[') || depth > NESTING_MAX) {
        do
            w->at++;
        while (w->at < w->bytes && !strchr(",]} \t\r\n", w->text[w->at]));
        return;
    }
    w->at++;
    skip_blanks(w);
    for (size_t i = 0; w->at < w->bytes && w->text[w->at] != last && w->found == w->bytes; i++) {
        if (first == '{')
            walk_member(w, path, depth);
        else
            walk_element(w, path, i, depth);
        skip_blanks(w);
        w->at += w->at < w->bytes && w->text[w->at] == ',';
        skip_blanks(w);
    }
    w->at++;
}

/* Returns the 1-based line of text[at]. */
static uint32_t line_at(const char *text, size_t at)
{
    uint32_t line = 1;

    for (size_t i = 0; i < at; i++)
        line += text[i] == '\n';
    return line;
}

/* Returns the 1-based line of `path`. 0: not found. */
static uint32_t line_of_path(const char *text, size_t bytes, const char *path)
{
    struct walk w = { .text = text, .bytes = bytes, .wanted = path, .found = bytes };

    walk_value(&w, "", 0);
    return w.found < bytes ? line_at(text, w.found) : 0;
}

const char *tt_json_locate(char *out, size_t cap, const char *from, const char *text, size_t bytes,
                           const char *path)
{
    const uint32_t line = text && *path ? line_of_path(text, bytes, path) : 0;

    if (line)
        snprintf(out, cap, "%s:%u", from, line);
    else
        snprintf(out, cap, "%s", from);
    return out;
}

/* key: NULL for the place itself. */
static tutti_status wrong_at(const struct tt_json_place *p, const char *key, const char *fmt,
                             va_list ap)
{
    const char *where = p->where[0] == ':' ? p->where + 2 : "";
    char what[256], from[320], path[PATH_BYTES];

    vsnprintf(what, sizeof what, fmt, ap);
    snprintf(path, sizeof path, "%.100s%s%.50s", where, key && *where ? "." : "", key ? key : "");
    if (!p->text || !line_of_path(p->text, p->bytes, path))
        snprintf(path, sizeof path, "%.100s", where);
    tt_json_locate(from, sizeof from, p->from, p->text, p->bytes, path);
    return tt_fail(TUTTI_ERR_INVALID, "%s%s%s%s: %s", p->kind, *p->kind ? " " : "", from, p->where,
                   what);
}

tutti_status tt_json_wrong(const struct tt_json_place *p, const char *fmt, ...)
{
    tutti_status st;
    va_list ap;

    va_start(ap, fmt);
    st = wrong_at(p, NULL, fmt, ap);
    va_end(ap);
    return st;
}

tutti_status tt_json_wrong_key(const struct tt_json_place *p, const char *key, const char *fmt, ...)
{
    tutti_status st;
    va_list ap;

    va_start(ap, fmt);
    st = wrong_at(p, key, fmt, ap);
    va_end(ap);
    return st;
}

/* Logs an error of the whole document: "plan mine.json", or the name alone, followed by `what`. */
static tutti_status fail_whole(const struct tt_json_place *p, tutti_status st, const char *what)
{
    return tt_fail(st, "%s%s%s%s", p->kind, *p->kind ? " " : "", p->from, what);
}

tutti_status tt_json_load(char **text, size_t *bytes, const char *kind, const char *path,
                          size_t most)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "rbe");
    char *all = f ? malloc(most + 2) : NULL;
    int err = f ? ENOMEM : errno;
    size_t n = 0;

    if (all) {
        errno = 0;
        n = fread(all, 1, most + 1, f);
        err = ferror(f) ? errno : 0;
    }
    if (f && !is_stdin)
        fclose(f);
    if (err) {
        free(all);
        return tt_fail_errno(err, "cannot read the %s %s", kind,
                             is_stdin ? "from standard input" : path);
    }
    all[n] = '\0';
    *text = all;
    *bytes = n;
    return TUTTI_OK;
}

static tutti_status no_json(const struct tt_json_place *p, const char *text, size_t at, bool is_one,
                            enum json_tokener_error error)
{
    char what[160];
    uint32_t column = 1;

    while (column <= at && text[at - column] != '\n')
        column++;
    snprintf(what, sizeof what, ":%u:%u: %s%s", line_at(text, at), column,
             error == json_tokener_error_depth ? "" : "invalid JSON: ",
             is_one                           ? "data after the end of the document"
             : error == json_tokener_continue ? "unexpected end of the document"
             : error == json_tokener_success  ? "the document must be an object: {...}"
             : error == json_tokener_error_depth ? "objects and arrays are nested deeper than the "
                                                   "format allows"
                                                 : json_tokener_error_desc(error));
    return fail_whole(p, TUTTI_ERR_INVALID, what);
}

/* ---- duplicate keys of an object: json-c silently keeps the last value ---- */

/* Number of keys in the text of a valid document. */
static size_t keys_written(const char *text, size_t bytes)
{
    size_t n = 0;

    for (size_t at = 0; at < bytes; at++)
        if (is_quote(text[at]))
            at = string_end(text, bytes, at);
        else
            n += text[at] == ':';
    return n;
}

static size_t keys_kept(struct json_object *o)
{
    size_t n = 0;

    if (json_object_is_type(o, json_type_array))
        for (size_t i = 0; i < json_object_array_length(o); i++)
            n += keys_kept(json_object_array_get_idx(o, i));
    if (!json_object_is_type(o, json_type_object))
        return n;
    json_object_object_foreach(o, key, value)
    {
        (void)key;
        n += 1 + keys_kept(value);
    }
    return n;
}

/* Returns whether the next non-blank character from `at` on is a colon. */
static bool is_key_before(const char *text, size_t bytes, size_t at)
{
    while (at < bytes && text[at] && strchr(" \t\r\n", text[at]))
        at++;
    return at < bytes && text[at] == ':';
}

/* Adds a key, as written, to the keys of its object. Returns false if it was present. */
static bool is_new_key(struct json_object *keys, const char *text, size_t bytes)
{
    char *key = keys ? malloc(bytes + 1) : NULL;
    bool is_new = true;

    if (key) {
        memcpy(key, text, bytes);
        key[bytes] = '\0';
        is_new = !json_object_object_get_ex(keys, key, NULL);
        json_object_object_add(keys, key, NULL);
    }
    free(key);
    return is_new;
}

/* Finds a duplicate key and sets *at and *bytes to it, without quotes. Returns false if no two keys
 * have the same spelling. */
static bool find_twice(const char *text, size_t bytes, size_t *at, size_t *key_bytes)
{
    struct json_object *keys[NESTING_MAX + 1] = { NULL };
    bool found = false;
    size_t depth = 0;

    for (size_t i = 0; i < bytes && !found; i++)
        if ((text[i] == '{' || text[i] == '[') && depth < NESTING_MAX) {
            keys[++depth] = text[i] == '{' ? json_object_new_object() : NULL;
        } else if ((text[i] == '}' || text[i] == ']') && depth > 0) {
            json_object_put(keys[depth--]);
        } else if (is_quote(text[i])) {
            *at = i + 1;
            i = string_end(text, bytes, i);
            *key_bytes = i > *at ? i - *at : 0;
            found = is_key_before(text, bytes, i + 1) &&
                    !is_new_key(keys[depth], text + *at, *key_bytes);
        }
    while (depth > 0)
        json_object_put(keys[depth--]);
    return found;
}

static tutti_status check_duplicate_keys(const struct tt_json_place *p, struct json_object *doc,
                                         const char *text, size_t bytes)
{
    size_t at = 0, n = 0;
    char what[96];

    if (keys_written(text, bytes) == keys_kept(doc))
        return TUTTI_OK;
    if (!find_twice(text, bytes, &at, &n))
        return tt_json_wrong(p, "duplicate key in an object, spelled in two ways");
    snprintf(what, sizeof what, ":%u: duplicate key \"%.*s\" in an object", line_at(text, at),
             (int)(n < 40 ? n : 40), text + at);
    return fail_whole(p, TUTTI_ERR_INVALID, what);
}

tutti_status tt_json_parse(struct json_object **out, const struct tt_json_place *p,
                           const char *text, size_t bytes, size_t most, int nesting)
{
    struct json_tokener *tokener;
    struct json_object *doc;
    enum json_tokener_error error;
    tutti_status st = TUTTI_OK;
    size_t at;

    tt_assert(nesting <= NESTING_MAX);
    if (bytes > most)
        return tt_json_wrong(p, "too large: %zu bytes or more, the maximum is %zu", bytes, most);
    tokener = json_tokener_new_ex(nesting);
    if (!tokener)
        return fail_whole(p, TUTTI_ERR_NOMEM, ": out of memory");
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    doc = json_tokener_parse_ex(tokener, text, (int)bytes);
    error = json_tokener_get_error(tokener);
    at = json_tokener_get_parse_end(tokener);
    json_tokener_free(tokener);
    while (doc && at < bytes && text[at] && strchr(" \t\r\n", text[at]))
        at++;
    if (doc && at >= bytes)
        st = check_duplicate_keys(p, doc, text, bytes);
    else
        st = no_json(p, text, at < bytes ? at : bytes, doc != NULL, error);
    if (st)
        json_object_put(doc);
    else
        *out = doc;
    return st;
}

tutti_status tt_json_members(const struct tt_json_place *p, struct json_object *o, const char *what,
                             const char *const *names, size_t n)
{
    if (!json_object_is_type(o, json_type_object))
        return tt_json_wrong(p, "%s must be an object", what);
    json_object_object_foreach(o, key, value)
    {
        size_t i = 0;

        (void)value;
        while (i < n && strcmp(key, names[i]) != 0)
            i++;
        if (i == n)
            return tt_json_wrong_key(p, key, "%s has an unknown member \"%.40s\"", what, key);
    }
    return TUTTI_OK;
}

tutti_status tt_json_number(const struct tt_json_place *p, struct json_object *o, const char *key,
                            uint64_t least, uint64_t most, uint64_t *out)
{
    struct json_object *value;
    int64_t number;

    if (!json_object_object_get_ex(o, key, &value))
        return tt_json_wrong(p, "\"%s\" is missing", key);
    number = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : -1;
    if (number < 0 || (uint64_t)number < least || (uint64_t)number > most)
        return tt_json_wrong_key(p, key, "\"%s\" must be a whole number from %llu to %llu", key,
                                 (unsigned long long)least, (unsigned long long)most);
    *out = (uint64_t)number;
    return TUTTI_OK;
}

tutti_status tt_json_flag(const struct tt_json_place *p, struct json_object *o, const char *key,
                          bool *out)
{
    struct json_object *value;

    if (!json_object_object_get_ex(o, key, &value))
        return TUTTI_OK;
    if (!json_object_is_type(value, json_type_boolean))
        return tt_json_wrong_key(p, key, "\"%s\" must be true or false", key);
    *out = json_object_get_boolean(value);
    return TUTTI_OK;
}
