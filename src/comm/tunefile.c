#include "comm/tunefile.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algos.h"
#include "base/status.h"
#include "base/jsonread.h"
#include "engine/exec.h"
#include "wire/dqplb_lanes.h"

#define FORMAT "tutti-tune-1"
#define NESTING_MAX 6           /* nesting of arrays and objects; a tune file has 3 */
#define BYTES_MAX (1ull << 48)
#define SEGMENT_MIN 1024u

/* ---- reading --------------------------------------------------------------------------------- */

struct reader {
    struct tt_json_place at;
    struct tt_tunefile *f;
};

static tutti_status read_time(const struct reader *r, struct json_object *o, const char *key,
                              double *out)
{
    struct json_object *value;
    double time = -1;

    if (!json_object_object_get_ex(o, key, &value))
        return tt_json_wrong(&r->at, "\"%s\" is missing", key);
    if (json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int))
        time = json_object_get_double(value);
    if (!isfinite(time) || time < 0 || time > 1e12)
        return tt_json_wrong_key(&r->at, key, "\"%s\" must be a time in microseconds", key);
    *out = time;
    return TUTTI_OK;
}

/* Reads a printable text of 1 to cap - 1 bytes. */
static tutti_status tune_read_text(const struct reader *r, struct json_object *o, const char *key,
                                   char *out, size_t cap)
{
    struct json_object *value;
    const char *text;
    size_t n;

    if (!json_object_object_get_ex(o, key, &value))
        return tt_json_wrong(&r->at, "\"%s\" is missing", key);
    text = json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
    n = strlen(text);
    if (n == 0 || n >= cap)
        return tt_json_wrong_key(&r->at, key, "\"%s\" must be a string of 1 to %zu bytes", key,
                                 cap - 1);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            return tt_json_wrong_key(&r->at, key, "\"%s\" contains unprintable characters", key);
    memcpy(out, text, n + 1);
    return TUTTI_OK;
}

/* Reads the host of each rank. Hosts are numbered by first appearance. */
static tutti_status read_hosts(const struct reader *r, struct json_object *doc)
{
    struct tt_tunefile *f = r->f;
    struct json_object *hosts;
    uint32_t nhosts = 0;

    if (!json_object_object_get_ex(doc, "hosts", &hosts) ||
        !json_object_is_type(hosts, json_type_array) ||
        json_object_array_length(hosts) != f->nranks)
        return tt_json_wrong_key(&r->at, "hosts",
                                 "\"hosts\" must be an array of %u host numbers, one per rank",
                                 f->nranks);
    f->host_of = calloc(f->nranks, sizeof *f->host_of);
    if (!f->host_of)
        return tt_fail(TUTTI_ERR_NOMEM, "tune file %s: out of memory for %u ranks", r->at.from,
                       f->nranks);
    for (uint32_t i = 0; i < f->nranks; i++) {
        struct json_object *host = json_object_array_get_idx(hosts, i);
        const int64_t number =
            json_object_is_type(host, json_type_int) ? json_object_get_int64(host) : -1;

        if (number < 0 || number > nhosts)
            return tt_json_wrong_key(
                &r->at, "hosts",
                "\"hosts\"[%u] must be 0 to %u: hosts are numbered in the order of "
                "their first ranks",
                i, nhosts);
        f->host_of[i] = (uint32_t)number;
        nhosts += number == nhosts;
    }
    return TUTTI_OK;
}

static tutti_status tune_read_head(const struct reader *r, struct json_object *doc)
{
    static const char *const members[] = { "format", "tutti", "date",     "host", "wires",
                                           "ranks",  "hosts", "complete", "rows" };
    struct tt_tunefile *f = r->f;
    char format[32];
    uint64_t nranks = 0;
    tutti_status st =
        tt_json_members(&r->at, doc, "the document", members, sizeof members / sizeof *members);

    if (!st)
        st = tune_read_text(r, doc, "format", format, sizeof format);
    if (!st && strcmp(format, FORMAT) != 0)
        st = tt_json_wrong_key(&r->at, "format", "\"format\" must be \"%s\"", FORMAT);
    if (!st)
        st = tune_read_text(r, doc, "tutti", f->tutti, sizeof f->tutti);
    if (!st)
        st = tune_read_text(r, doc, "date", f->date, sizeof f->date);
    if (!st)
        st = tune_read_text(r, doc, "host", f->host, sizeof f->host);
    if (!st)
        st = tune_read_text(r, doc, "wires", f->wires, sizeof f->wires);
    if (!st && strcmp(f->wires, "shm") != 0 && strcmp(f->wires, "tcp") != 0 &&
        strcmp(f->wires, "shm+tcp") != 0)
        st = tt_json_wrong_key(&r->at, "wires", "\"wires\" must be shm, tcp or shm+tcp");
    if (!st)
        st = tt_json_flag(&r->at, doc, "complete", &f->complete);
    if (!st)
        st = tt_json_number(&r->at, doc, "ranks", 2, TT_TUNEFILE_RANKS_MAX, &nranks);
    f->nranks = (uint32_t)nranks;
    return st ? st : read_hosts(r, doc);
}

static tutti_status read_segments(const struct reader *r, struct json_object *o,
                                  struct tt_segments *out)
{
    uint64_t segment = 0, streams = 0, depth = 0, lanes = 0;
    tutti_status st =
        tt_json_number(&r->at, o, "segment_bytes", SEGMENT_MIN, TT_TUNE_SEGMENT_MAX, &segment);

    if (!st && (segment & (segment - 1)) != 0)
        st = tt_json_wrong_key(&r->at, "segment_bytes", "\"segment_bytes\" must be a power of two");
    if (!st)
        st = tt_json_number(&r->at, o, "streams", 1, TT_EXEC_STREAMS_MAX, &streams);
    if (!st)
        st = tt_json_number(&r->at, o, "depth", 1, TT_EXEC_DEPTH_MAX, &depth);
    if (!st && json_object_object_get_ex(o, "lanes", NULL))
        st = tt_json_number(&r->at, o, "lanes", 1, TT_DQPLB_LANES_MAX, &lanes);
    *out = (struct tt_segments){ .segment_bytes = segment,
                                 .streams = (uint8_t)streams,
                                 .depth = (uint8_t)depth,
                                 .lanes = (uint8_t)lanes };
    return st;
}

/* Reads the collective and the algorithm, by name. Unknown algorithms are skipped: they may be
 * external. */
static tutti_status read_algo(const struct reader *r, struct json_object *o,
                              struct tt_tune_row *row)
{
    char coll[32];
    tutti_status st = tune_read_text(r, o, "coll", coll, sizeof coll);

    if (!st && (!tt_coll_parse(coll, &row->kind) || !tt_tunefile_has(row->kind)))
        st = tt_json_wrong_key(&r->at, "coll",
                               "\"coll\" is \"%s\": must be a collective that can be tuned", coll);
    if (!st)
        st = tune_read_text(r, o, "algo", row->name, sizeof row->name);
    if (!st)
        row->algo = tt_algo_named(row->kind, row->name);
    return st;
}

static tutti_status tune_read_row(const struct reader *r, struct json_object *o,
                                  struct tt_tune_row *row)
{
    static const char *const members[] = { "coll",    "bytes",  "algo",   "segment_bytes",
                                           "streams", "depth",  "lanes",  "median_us",
                                           "min_us",  "max_us", "rounds", "untuned",
                                           "dropped" };
    uint64_t rounds = 0;
    tutti_status st =
        tt_json_members(&r->at, o, "a row", members, sizeof members / sizeof *members);

    if (!st)
        st = read_algo(r, o, row);
    if (!st)
        st = tt_json_number(&r->at, o, "bytes", 1, BYTES_MAX, &row->bytes);
    if (!st)
        st = read_segments(r, o, &row->segments);
    if (!st)
        st = read_time(r, o, "median_us", &row->median_us);
    if (!st)
        st = read_time(r, o, "min_us", &row->min_us);
    if (!st)
        st = read_time(r, o, "max_us", &row->max_us);
    if (!st)
        st = tt_json_number(&r->at, o, "rounds", 1, UINT32_MAX, &rounds);
    if (!st)
        st = tt_json_flag(&r->at, o, "untuned", &row->untuned);
    if (!st)
        st = tt_json_flag(&r->at, o, "dropped", &row->dropped);
    row->rounds = (uint32_t)rounds;
    return st;
}

static int row_order(const void *a, const void *b)
{
    const struct tt_tune_row *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static tutti_status tune_read_rows(struct reader *r, struct json_object *doc)
{
    struct tt_tunefile *f = r->f;
    struct json_object *rows;
    tutti_status st = TUTTI_OK;
    size_t n;

    if (!json_object_object_get_ex(doc, "rows", &rows) ||
        !json_object_is_type(rows, json_type_array))
        return tt_json_wrong_key(&r->at, "rows", "\"rows\" must be an array");
    n = json_object_array_length(rows);
    if (n > TT_TUNE_ROWS_MAX)
        return tt_json_wrong(&r->at, "too many rows: %zu (the maximum is %u)", n, TT_TUNE_ROWS_MAX);
    f->row = calloc(n ? n : 1, sizeof *f->row);
    if (!f->row)
        return tt_fail(TUTTI_ERR_NOMEM, "tune file %s: out of memory for %zu rows", r->at.from, n);
    for (uint32_t i = 0; i < n && !st; i++) {
        snprintf(r->at.where, sizeof r->at.where, ": rows[%u]", i);
        f->row[i].index = i;
        st = tune_read_row(r, json_object_array_get_idx(rows, i), &f->row[i]);
    }
    f->nrows = (uint32_t)n;
    qsort(f->row, n, sizeof *f->row, row_order);
    return st;
}

tutti_status tt_tunefile_read(struct tt_tunefile **out, const char *text, size_t bytes,
                              const char *path)
{
    struct tt_tunefile *f = calloc(1, sizeof *f);
    struct reader r = { .at = { .kind = "tune file", .from = path, .text = text, .bytes = bytes },
                        .f = f };
    struct json_object *doc;
    tutti_status st;

    if (!f || !(f->path = strdup(path))) {
        free(f);
        return tt_fail(TUTTI_ERR_NOMEM, "tune file %s: out of memory", path);
    }
    st = tt_json_parse(&doc, &r.at, text, bytes, TT_TUNEFILE_BYTES_MAX, NESTING_MAX);
    if (st) {
        tt_tunefile_free(f);
        return st;
    }
    st = tune_read_head(&r, doc);
    if (!st)
        st = tune_read_rows(&r, doc);
    json_object_put(doc);
    if (st)
        tt_tunefile_free(f);
    else
        *out = f;
    return st;
}

void tt_tunefile_free(struct tt_tunefile *f)
{
    if (!f)
        return;
    free(f->path);
    free(f->host_of);
    free(f->row);
    free(f);
}

tutti_status tt_tunefile_load(struct tt_tunefile **out, const char *path, char **text,
                              size_t *bytes)
{
    char *all = NULL;
    size_t n = 0;
    tutti_status st = tt_json_load(&all, &n, "tune file", path, TT_TUNEFILE_BYTES_MAX);

    if (!st)
        st = tt_tunefile_read(out, all, n, path);
    if (st || !text)
        free(all);
    if (!st && text) {
        *text = all;
        *bytes = n;
    }
    return st;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void tune_add_text(struct json_object *o, const char *key, const char *text)
{
    json_object_object_add(o, key, json_object_new_string(text));
}

static void tune_add_number(struct json_object *o, const char *key, uint64_t number)
{
    json_object_object_add(o, key, json_object_new_int64((int64_t)number));
}

static void add_time(struct json_object *o, const char *key, double us)
{
    char text[32];

    snprintf(text, sizeof text, "%.3f", us);
    json_object_object_add(o, key, json_object_new_double_s(us, text));
}

static bool tune_write_row(const struct tt_tune_row *row, bool last, FILE *to)
{
    struct json_object *o = json_object_new_object();
    bool good;

    tune_add_text(o, "coll", tt_coll_name(row->kind));
    tune_add_number(o, "bytes", row->bytes);
    tune_add_text(o, "algo", row->name);
    tune_add_number(o, "segment_bytes", row->segments.segment_bytes);
    tune_add_number(o, "streams", row->segments.streams);
    tune_add_number(o, "depth", row->segments.depth);
    if (row->segments.lanes)
        tune_add_number(o, "lanes", row->segments.lanes);
    add_time(o, "median_us", row->median_us);
    add_time(o, "min_us", row->min_us);
    add_time(o, "max_us", row->max_us);
    tune_add_number(o, "rounds", row->rounds);
    if (row->untuned)
        json_object_object_add(o, "untuned", json_object_new_boolean(true));
    if (row->dropped)
        json_object_object_add(o, "dropped", json_object_new_boolean(true));
    good = fprintf(to, "    %s%s\n",
                   json_object_to_json_string_ext(o, JSON_C_TO_STRING_SPACED |
                                                         JSON_C_TO_STRING_NOSLASHESCAPE),
                   last ? "" : ",") > 0;
    json_object_put(o);
    return good;
}

/* Writes ` "key": value,` on its own line; takes ownership of the value. */
static bool tune_write_member(FILE *to, const char *key, struct json_object *value)
{
    const bool good =
        fprintf(to, "  \"%s\": %s,\n", key,
                json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN |
                                                          JSON_C_TO_STRING_NOSLASHESCAPE)) > 0;

    json_object_put(value);
    return good;
}

tutti_status tt_tunefile_write(const struct tt_tunefile *f, FILE *to, const char *path)
{
    struct json_object *hosts = json_object_new_array();
    bool good = fputs("{\n", to) >= 0;

    for (uint32_t i = 0; i < f->nranks; i++)
        json_object_array_add(hosts, json_object_new_int64(f->host_of[i]));
    good &= tune_write_member(to, "format", json_object_new_string(FORMAT));
    good &= tune_write_member(to, "tutti", json_object_new_string(f->tutti));
    good &= tune_write_member(to, "date", json_object_new_string(f->date));
    good &= tune_write_member(to, "host", json_object_new_string(f->host));
    good &= tune_write_member(to, "wires", json_object_new_string(f->wires));
    good &= tune_write_member(to, "ranks", json_object_new_int64(f->nranks));
    good &= tune_write_member(to, "hosts", hosts);
    good &= tune_write_member(to, "complete", json_object_new_boolean(f->complete));
    good &= fputs("  \"rows\": [\n", to) >= 0;
    for (uint32_t i = 0; i < f->nrows && good; i++)
        good = tune_write_row(&f->row[i], i + 1 == f->nrows, to);
    good &= fputs("  ]\n}\n", to) >= 0 && fflush(to) == 0;
    return good ? TUTTI_OK : tt_fail_errno(errno, "cannot write the tune file %s", path);
}

/* ---- lookup ---------------------------------------------------------------------------------- */

bool tt_tunefile_has(enum tt_coll_kind kind)
{
    switch (kind) {
    case TT_ALLREDUCE:
    case TT_REDUCE:
    case TT_REDUCE_SCATTER:
    case TT_ALLGATHER:
    case TT_BROADCAST:
    case TT_GATHER:
    case TT_SCATTER:
    case TT_ALLTOALL:
        return true;
    default:
        return false;
    }
}

bool tt_tunefile_is_for(const struct tt_tunefile *f, const struct tt_layout *l, const char *wires,
                        char *why, size_t cap)
{
    if (f->nranks != l->nranks) {
        snprintf(why, cap, "it was measured with %u ranks, not %u", f->nranks, l->nranks);
        return false;
    }
    if (strcmp(f->wires, wires) != 0) {
        snprintf(why, cap, "it was measured over %s, not %s", f->wires, wires);
        return false;
    }
    for (uint32_t r = 0; r < l->nranks; r++)
        if (f->host_of[r] != tt_layout_host(l, r)) {
            snprintf(why, cap, "it was measured with rank %u on host %u, not %u", r, f->host_of[r],
                     tt_layout_host(l, r));
            return false;
        }
    return true;
}

/* Returns whether x is nearer to b than to a, on a logarithmic scale; a < b. */
static bool is_nearer(uint64_t x, uint64_t a, uint64_t b)
{
    return (double)x * (double)x > (double)a * (double)b;
}

bool tt_tunefile_find(const struct tt_tunefile *f, const struct tt_coll *c,
                      const struct tt_segment_limits *limits, struct tt_tuned *out)
{
    const struct tt_tune_row *end = f ? f->row + f->nrows : NULL, *nearest = NULL;

    if (!f || !tt_tunefile_has(c->kind))
        return false;
    for (const struct tt_tune_row *row = f->row; row < end; row++)
        if (row->kind == c->kind && (!nearest || (row->bytes != nearest->bytes &&
                                                  is_nearer(c->bytes, nearest->bytes, row->bytes))))
            nearest = row;
    if (!nearest)
        return false;
    for (const struct tt_tune_row *row = nearest;
         row < end && row->kind == c->kind && row->bytes == nearest->bytes; row++) {
        if (!row->algo || !row->algo->fits(c))
            continue;
        *out = (struct tt_tuned){ .algo = row->algo,
                                  .segments = tt_segments_fit(row->algo, c, limits, row->segments),
                                  .row = row };
        return true;
    }
    return false;
}
