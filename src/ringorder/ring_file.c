#include "ringorder/ring_file.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonread.h"
#include "base/status.h"

#define FILE_BYTES_MAX (32u << 20)
#define DEPTH_MAX 8
#define LOCATION_BYTES 320
#define PATH_BYTES 96
#define MBIT 125000.0       /* bytes/s */
#define MS 1000000.0        /* ns */

/* The position in a file. */
struct reading {
    const char *from, *text;            /* the file's name, and its content */
    size_t bytes;
    struct json_object *whole;
    uint32_t n;
};

static const char *matrix_text(struct json_object *v)
{
    return v ? json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN) : "null";
}

/* Returns "t.json:3": the line of the key or element. */
static const char *position_text(const struct reading *r, const char *path,
                                 char out[LOCATION_BYTES])
{
    return tt_json_locate(out, LOCATION_BYTES, r->from, r->text, r->bytes, path);
}

static tutti_status matrix_check_keys(const struct reading *r)
{
    static const char *const known[] = { "peers",     "bandwidth_mbit_s", "latency_ms",
                                         "up_mbit_s", "down_mbit_s",      "comment" };

    char line[LOCATION_BYTES];

    if (!json_object_is_type(r->whole, json_type_object))
        return tt_fail(TUTTI_ERR_INVALID, "%s: the document is %.64s: must be an object {...}",
                       r->from, matrix_text(r->whole));
    json_object_object_foreach(r->whole, key, value)
    {
        bool found = false;

        (void)value;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= strcmp(key, known[i]) == 0;
        if (!found)
            return tt_fail(TUTTI_ERR_INVALID,
                           "%s: unknown key \"%.64s\" (known: peers, bandwidth_mbit_s, latency_ms, "
                           "up_mbit_s, down_mbit_s, comment)",
                           position_text(r, key, line), key);
    }
    return TUTTI_OK;
}

/* ---- numbers ---- */

/* Reads a number from 0 to max, times `unit`; null is 0. */
static bool matrix_number(struct json_object *v, double unit, uint64_t max, uint64_t *out)
{
    double d = 0;

    if (v && !json_object_is_type(v, json_type_int) && !json_object_is_type(v, json_type_double))
        return false;
    if (v)
        d = json_object_get_double(v) * unit;
    if (!(d >= 0) || d > (double)max)
        return false;
    *out = d > 0 && d < 1 ? 1 : (uint64_t)(d + 0.5);
    return true;
}

static tutti_status matrix_read_rows(const struct reading *r, const char *key, double unit,
                                     uint64_t max, uint64_t *out)
{
    struct json_object *rows = json_object_object_get(r->whole, key);
    char line[LOCATION_BYTES], path[PATH_BYTES];

    if (!json_object_is_type(rows, json_type_array) || json_object_array_length(rows) != r->n)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s must be an array of %u row%s, one per peer",
                       position_text(r, key, line), key, r->n, TT_PLURAL(r->n));
    for (uint32_t i = 0; i < r->n; i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);

        snprintf(path, sizeof path, "%s[%u]", key, i);
        if (!json_object_is_type(row, json_type_array) || json_object_array_length(row) != r->n)
            return tt_fail(TUTTI_ERR_INVALID,
                           "%s: row %u of %s must be an array of %u numbers, one per peer",
                           position_text(r, path, line), i, key, r->n);
        for (uint32_t k = 0; k < r->n; k++)
            if (!matrix_number(json_object_array_get_idx(row, k), unit, max,
                               &out[(size_t)i * r->n + k])) {
                snprintf(path, sizeof path, "%s[%u][%u]", key, i, k);
                return tt_fail(
                    TUTTI_ERR_INVALID,
                    "%s: %s from peer %u to peer %u is %.64s: must be a number from 0 to %g, "
                    "or null",
                    position_text(r, path, line), key, i, k,
                    matrix_text(json_object_array_get_idx(row, k)), (double)max / unit);
            }
    }
    return TUTTI_OK;
}

/* *there: whether the key exists. */
static tutti_status read_caps(const struct reading *r, const char *key, uint64_t *out, bool *there)
{
    char line[LOCATION_BYTES], path[PATH_BYTES];
    struct json_object *caps;

    *there = json_object_object_get_ex(r->whole, key, &caps);
    if (!*there)
        return TUTTI_OK;
    if (!json_object_is_type(caps, json_type_array) || json_object_array_length(caps) != r->n)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s must be an array of %u numbers, one per peer",
                       position_text(r, key, line), key, r->n);
    for (uint32_t k = 0; k < r->n; k++)
        if (!matrix_number(json_object_array_get_idx(caps, k), MBIT, TT_RING_RATE_MAX, &out[k])) {
            snprintf(path, sizeof path, "%s[%u]", key, k);
            return tt_fail(TUTTI_ERR_INVALID,
                           "%s: %s of peer %u is %.64s: must be a number from 0 to %g, or null",
                           position_text(r, path, line), key, k,
                           matrix_text(json_object_array_get_idx(caps, k)),
                           (double)TT_RING_RATE_MAX / MBIT);
        }
    return TUTTI_OK;
}

/* ---- the whole file -------------------------------------------------------------------------- */

static tutti_status read_names(const struct reading *r, char (*name)[TT_RING_NAME_BYTES])
{
    char line[LOCATION_BYTES], path[PATH_BYTES];
    struct json_object *names;

    for (uint32_t k = 0; k < r->n; k++)
        snprintf(name[k], TT_RING_NAME_BYTES, "%u", k);
    if (!json_object_object_get_ex(r->whole, "peers", &names))
        return TUTTI_OK;
    if (!json_object_is_type(names, json_type_array) || json_object_array_length(names) != r->n)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: peers must be an array of %u names, one per row of bandwidth_mbit_s",
                       position_text(r, "peers", line), r->n);
    for (uint32_t k = 0; k < r->n; k++) {
        struct json_object *v = json_object_array_get_idx(names, k);
        const char *s = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
        bool bad = *s == '\0' || strlen(s) >= TT_RING_NAME_BYTES ||
                   strlen(s) != (size_t)json_object_get_string_len(v);

        for (const char *c = s; *c; c++)
            bad |= (unsigned char)*c < ' ' || *c == 0x7f;
        snprintf(path, sizeof path, "peers[%u]", k);
        if (bad)
            return tt_fail(
                TUTTI_ERR_INVALID,
                "%s: name of peer %u is %.80s: must be a string of 1 to %d bytes without "
                "control characters",
                position_text(r, path, line), k, matrix_text(v), TT_RING_NAME_BYTES - 1);
        memcpy(name[k], s, strlen(s) + 1);
    }
    return TUTTI_OK;
}

static tutti_status matrix_read(const struct reading *r, struct tt_ring_file *f)
{
    const size_t links = (size_t)r->n * r->n;
    uint64_t *rate =
        calloc(1, (2 * links + 2 * r->n) * sizeof *rate + (size_t)r->n * sizeof *f->name);
    uint64_t *latency, *up, *down;
    bool has_up = false, has_down = false;
    tutti_status st;

    if (!rate)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for a matrix of %u peers", r->from,
                       r->n);
    latency = rate + links;
    up = latency + links;
    down = up + r->n;
    *f = (struct tt_ring_file){ .memory = rate, .name = (void *)(down + r->n) };
    st = read_names(r, f->name);
    if (!st)
        st = matrix_read_rows(r, "bandwidth_mbit_s", MBIT, TT_RING_RATE_MAX, rate);
    if (!st)
        st = matrix_read_rows(r, "latency_ms", MS, TT_RING_LATENCY_MAX, latency);
    if (!st)
        st = read_caps(r, "up_mbit_s", up, &has_up);
    if (!st)
        st = read_caps(r, "down_mbit_s", down, &has_down);
    f->m =
        (struct tt_ring_matrix){ r->n, rate, latency, has_up ? up : NULL, has_down ? down : NULL };
    if (!st)
        st = tt_ring_matrix_check(&f->m);
    if (st)
        tt_ring_file_fini(f);
    return st;
}

tutti_status tt_ring_file_parse(struct tt_ring_file *out, const char *text, size_t bytes,
                                const char *from)
{
    const struct tt_json_place place = { .kind = "", .from = from };
    struct reading r = { .from = from, .text = text, .bytes = bytes };
    struct json_object *rows;
    struct tt_ring_file f;
    tutti_status st;
    size_t n = 0;

    st = tt_json_parse(&r.whole, &place, text, bytes, FILE_BYTES_MAX, DEPTH_MAX);
    if (st)
        return st;
    st = matrix_check_keys(&r);
    if (!st) {
        rows = json_object_object_get(r.whole, "bandwidth_mbit_s");
        n = json_object_is_type(rows, json_type_array) ? json_object_array_length(rows) : 0;
        if (n < 1 || n > TT_RING_PEERS_MAX)
            st = tt_fail(TUTTI_ERR_INVALID,
                         "%s: bandwidth_mbit_s must be an array of 1 to %u rows, one per peer",
                         from, TT_RING_PEERS_MAX);
    }
    r.n = (uint32_t)n;
    if (!st)
        st = matrix_read(&r, &f);
    if (!st)
        *out = f;
    json_object_put(r.whole);
    return st;
}

tutti_status tt_ring_file_load(struct tt_ring_file *out, const char *path)
{
    const char *from = strcmp(path, "-") == 0 ? "standard input" : path;
    char *text = NULL;
    size_t bytes = 0;
    tutti_status st = tt_json_load(&text, &bytes, "matrix", path, FILE_BYTES_MAX);

    if (st)
        return st;
    st = tt_ring_file_parse(out, text, bytes, from);
    free(text);
    return st;
}

void tt_ring_file_fini(struct tt_ring_file *f)
{
    free(f->memory);
    *f = (struct tt_ring_file){ 0 };
}
