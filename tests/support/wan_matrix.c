#include "support/wan_matrix.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/jsonread.h"

#define KIND "matrix"
#define NESTING_MAX 5
#define DELAY_MS_MAX 60000.0
#define MBIT_MIN 0.001
#define MBIT_MAX 1e6
#define QUEUE_BYTES_MAX (1ull << 32)
#define QUEUE_MS_MAX 600000.0
#define QUEUE_BDP_MAX 1000.0
#define BURST_MAX 1e6
#define SEED_MAX (1ull << 53)           /* exact in every JSON reader */

/* Range of a number. If may_be_null, null means absent. */
struct range {
    const char *key;
    double min, max;
    bool may_be_null;
};

static const char *const disciplines[] = {
    [WAN_FIFO] = "fifo", [WAN_FAIR] = "fair", [WAN_POLICER] = "policer"
};
#define NDISCIPLINES (sizeof disciplines / sizeof *disciplines)

static const struct range delay_range = { "delay_ms", 0, DELAY_MS_MAX, false };
static const struct range rate_range = { "rate_mbit", MBIT_MIN, MBIT_MAX, true };
static const struct range loss_range = { "loss", 0, 1, false };
static const struct range burst_range = { "loss_burst", 1, BURST_MAX, false };
static const struct range up_range = { "up_mbit", MBIT_MIN, MBIT_MAX, true };
static const struct range down_range = { "down_mbit", MBIT_MIN, MBIT_MAX, true };

/* Rule for queue lengths: one of the three is given. */
struct queue_rule {
    double bytes, ms, bdp;              /* 0: not given */
};

static uint64_t bit_s_of(double mbit)
{
    return (uint64_t)llround(mbit * 1e6);
}

static tutti_status check_range(const struct tt_json_place *p, const struct range *r, double value)
{
    if (isfinite(value) && value >= r->min && value <= r->max)
        return TUTTI_OK;
    return tt_json_wrong_key(p, r->key, "%s is %g, but must be from %g to %g", r->key, value,
                             r->min, r->max);
}

/* Reads a number, or 0 for null if that is allowed. */
static tutti_status take_number(const struct tt_json_place *p, const struct range *r,
                                struct json_object *v, double *out)
{
    tutti_status st;
    double value;

    if (!v && r->may_be_null) {
        *out = 0;
        return TUTTI_OK;
    }
    if (!json_object_is_type(v, json_type_int) && !json_object_is_type(v, json_type_double))
        return tt_json_wrong_key(p, r->key, "%s is %.40s, but must be a number%s", r->key,
                                 v ? json_object_to_json_string(v) : "null",
                                 r->may_be_null ? ", or null for no limit" : "");
    value = json_object_get_double(v);
    st = check_range(p, r, value);
    if (!st)
        *out = value;
    return st;
}

/* Reads the number with that key, or 0 if there is none. */
static tutti_status take_member(const struct tt_json_place *p, const struct range *r,
                                struct json_object *o, double *out)
{
    struct json_object *v;

    *out = 0;
    return json_object_object_get_ex(o, r->key, &v) ? take_number(p, r, v, out) : TUTTI_OK;
}

/* ---- one number for all pairs, or one row of numbers per host ---- */

static void set_value(struct wan_pair *pair, const struct range *r, double value)
{
    if (r == &delay_range)
        pair->delay_ns = (uint64_t)llround(value * 1e6);
    else if (r == &rate_range)
        pair->line.bit_s = bit_s_of(value);
    else if (r == &burst_range)
        pair->burst = value;
    else
        pair->loss = value;
}

static tutti_status take_row(const struct tt_json_place *p, const struct range *r,
                             struct json_object *row, struct wan_matrix *m, uint32_t from)
{
    struct tt_json_place at = *p;
    tutti_status st = TUTTI_OK;
    double value;

    snprintf(at.where, sizeof at.where, ": %s[%u]", r->key, from);
    if (!json_object_is_type(row, json_type_array) || json_object_array_length(row) != m->nhosts)
        return tt_json_wrong(&at, "a row must be a list of %u numbers, one for each host",
                             m->nhosts);
    for (uint32_t to = 0; to < m->nhosts && !st; to++) {
        if (to == from)
            continue;           /* no packets are sent there: any value is allowed */
        snprintf(at.where, sizeof at.where, ": %s[%u][%u]", r->key, from, to);
        st = take_number(&at, r, json_object_array_get_idx(row, to), &value);
        if (!st)
            set_value(&m->pair[from][to], r, value);
    }
    return st;
}

static tutti_status take_square(const struct tt_json_place *p, const struct range *r,
                                struct json_object *o, struct wan_matrix *m)
{
    struct json_object *v;
    tutti_status st = TUTTI_OK;
    double value;

    if (!json_object_object_get_ex(o, r->key, &v))
        return TUTTI_OK;
    if (!json_object_is_type(v, json_type_array)) {
        st = take_number(p, r, v, &value);
        for (uint32_t i = 0; i < m->nhosts * m->nhosts && !st; i++)
            set_value(&m->pair[i / m->nhosts][i % m->nhosts], r, value);
        return st;
    }
    if (json_object_array_length(v) != m->nhosts)
        return tt_json_wrong_key(p, r->key, "%s has %zu rows, but there are %u hosts", r->key,
                                 json_object_array_length(v), m->nhosts);
    for (uint32_t from = 0; from < m->nhosts && !st; from++)
        st = take_row(p, r, json_object_array_get_idx(v, from), m, from);
    return st;
}

/* ---- hosts ---- */

/* Names become host names, and words in shell scripts. */
static bool is_name(const char *text, size_t bytes)
{
    if (bytes < 1 || bytes >= WAN_NAME_BYTES || !isalpha((unsigned char)text[0]))
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!(text[i] >= 'a' && text[i] <= 'z') && !isdigit((unsigned char)text[i]) &&
            text[i] != '-')
            return false;
    return true;
}

static tutti_status take_name(const struct tt_json_place *p, struct json_object *o,
                              struct wan_matrix *m, uint32_t h)
{
    struct json_object *v;
    const char *text;

    if (!json_object_object_get_ex(o, "name", &v) || !json_object_is_type(v, json_type_string) ||
        !is_name(json_object_get_string(v), (size_t)json_object_get_string_len(v)))
        return tt_json_wrong_key(p, "name",
                                 "name must be a text of a to z, 0 to 9 and -, that begins with a "
                                 "letter, of up to %d characters",
                                 WAN_NAME_BYTES - 1);
    text = json_object_get_string(v);
    for (uint32_t other = 0; other < h; other++)
        if (strcmp(m->host[other].name, text) == 0)
            return tt_json_wrong_key(p, "name", "hosts[%u] has the name %s, too", other, text);
    strcpy(m->host[h].name, text);
    return TUTTI_OK;
}

static tutti_status take_host(const struct tt_json_place *p, struct json_object *o,
                              struct wan_matrix *m, uint32_t h)
{
    static const char *const known[] = { "name",      "place",   "latitude",
                                         "longitude", "up_mbit", "down_mbit" };
    tutti_status st = tt_json_members(p, o, "the host", known, sizeof known / sizeof *known);
    double up = 0, down = 0;

    if (!st)
        st = take_name(p, o, m, h);
    if (!st)
        st = take_member(p, &up_range, o, &up);
    if (!st)
        st = take_member(p, &down_range, o, &down);
    m->host[h].up.bit_s = bit_s_of(up);
    m->host[h].down.bit_s = bit_s_of(down);
    return st;
}

static tutti_status take_hosts(const struct tt_json_place *p, struct json_object *o,
                               struct wan_matrix *m)
{
    struct tt_json_place at = *p;
    struct json_object *v;
    tutti_status st = TUTTI_OK;

    if (!json_object_object_get_ex(o, "hosts", &v) || !json_object_is_type(v, json_type_array))
        return tt_json_wrong_key(p, "hosts", "hosts must be a list of 2 to %d hosts",
                                 WAN_HOSTS_MAX);
    if (json_object_array_length(v) < 2 || json_object_array_length(v) > WAN_HOSTS_MAX)
        return tt_json_wrong_key(p, "hosts", "hosts has %zu entries: must be 2 to %d",
                                 json_object_array_length(v), WAN_HOSTS_MAX);
    m->nhosts = (uint32_t)json_object_array_length(v);
    for (uint32_t h = 0; h < m->nhosts && !st; h++) {
        snprintf(at.where, sizeof at.where, ": hosts[%u]", h);
        st = take_host(&at, json_object_array_get_idx(v, h), m, h);
    }
    return st;
}

/* ---- queues ---- */

static tutti_status take_queue_rule(const struct tt_json_place *p, struct json_object *o,
                                    struct queue_rule *q)
{
    static const struct range ranges[] = { { "queue_bytes", WAN_QUEUE_BYTES_MIN, QUEUE_BYTES_MAX,
                                             false },
                                           { "queue_ms", 0.1, QUEUE_MS_MAX, false },
                                           { "queue_bdp", 0.01, QUEUE_BDP_MAX, false } };
    double *const values[] = { &q->bytes, &q->ms, &q->bdp };
    tutti_status st = TUTTI_OK;
    int said = 0;

    for (int i = 0; i < 3 && !st; i++) {
        st = take_member(p, &ranges[i], o, values[i]);
        said += *values[i] > 0;
    }
    if (!st && said > 1)
        st = tt_json_wrong_key(p, q->bdp > 0 ? "queue_bdp" : "queue_ms",
                               "queue_bytes, queue_ms and queue_bdp say the same in different "
                               "ways: only one is possible");
    if (!said)
        q->bdp = 1;
    return st;
}

static void set_queue(struct wan_line *line, const struct queue_rule *q, uint64_t rtt_ns)
{
    const double byte_s = (double)line->bit_s / 8;
    double bytes = q->bytes;

    if (q->ms > 0)
        bytes = byte_s * q->ms / 1e3;
    if (q->bdp > 0)
        bytes = byte_s * (double)rtt_ns / 1e9 * q->bdp;
    bytes = fmin(fmax(bytes, WAN_QUEUE_BYTES_MIN), (double)QUEUE_BYTES_MAX);
    line->queue_bytes = line->bit_s ? (uint64_t)llround(bytes) : 0;
}

/* Sets the queue lengths. The bandwidth-delay product of a pair uses its round-trip time, that of a
 * host the longest of its round-trip times. */
static void set_queues(struct wan_matrix *m, const struct queue_rule *q)
{
    for (uint32_t a = 0; a < m->nhosts; a++) {
        uint64_t longest_ns = 0;

        for (uint32_t b = 0; b < m->nhosts; b++) {
            const uint64_t rtt_ns = a == b ? 0 : m->pair[a][b].delay_ns + m->pair[b][a].delay_ns;

            set_queue(&m->pair[a][b].line, q, rtt_ns);
            longest_ns = rtt_ns > longest_ns ? rtt_ns : longest_ns;
        }
        set_queue(&m->host[a].up, q, longest_ns);
        set_queue(&m->host[a].down, q, longest_ns);
    }
}

static tutti_status take_discipline(const struct tt_json_place *p, struct json_object *o,
                                    struct wan_matrix *m)
{
    struct json_object *v;

    if (!json_object_object_get_ex(o, "queue", &v))
        return TUTTI_OK;
    for (size_t d = 0; d < NDISCIPLINES; d++) {
        if (!json_object_is_type(v, json_type_string) ||
            strcmp(json_object_get_string(v), disciplines[d]) != 0)
            continue;
        for (uint32_t i = 0; i < m->nhosts * m->nhosts; i++)
            m->pair[i / m->nhosts][i % m->nhosts].line.discipline = (enum wan_discipline)d;
        return TUTTI_OK;
    }
    return tt_json_wrong_key(p, "queue", "queue must be \"fifo\", \"fair\" or \"policer\"");
}

/* ---- the whole matrix ---- */

static tutti_status take_whole(const struct tt_json_place *p, struct json_object *o,
                               struct wan_matrix *m)
{
    static const char *const known[] = { "about",       "hosts", "delay_ms",  "rate_mbit",
                                         "loss",        "seed",  "queue_ms",  "queue_bdp",
                                         "queue_bytes", "queue", "loss_burst" };
    struct json_object *ignored;
    struct queue_rule queue = { 0 };
    tutti_status st = tt_json_members(p, o, "it", known, sizeof known / sizeof *known);

    if (!st)
        st = take_hosts(p, o, m);
    if (!st)
        st = take_square(p, &delay_range, o, m);
    if (!st)
        st = take_square(p, &rate_range, o, m);
    if (!st)
        st = take_square(p, &loss_range, o, m);
    if (!st)
        st = take_square(p, &burst_range, o, m);
    if (!st)
        st = take_discipline(p, o, m);
    if (!st)
        st = take_queue_rule(p, o, &queue);
    if (!st && json_object_object_get_ex(o, "seed", &ignored))
        st = tt_json_number(p, o, "seed", 0, SEED_MAX, &m->seed);
    if (!st)
        set_queues(m, &queue);
    return st;
}

tutti_status wan_matrix_parse(struct wan_matrix *out, const char *text, size_t bytes,
                              const char *from)
{
    const struct tt_json_place place = { .kind = KIND, .from = from, .text = text, .bytes = bytes };
    struct wan_matrix *m;
    struct json_object *o;
    tutti_status st = tt_json_parse(&o, &place, text, bytes, WAN_MATRIX_BYTES_MAX, NESTING_MAX);

    if (st)
        return st;
    m = calloc(1, sizeof *m);
    st = m ? take_whole(&place, o, m)
           : tt_fail(TUTTI_ERR_NOMEM, "%s %s: out of memory for %zu bytes", KIND, from, sizeof *m);
    json_object_put(o);
    if (!st)
        *out = *m;
    free(m);
    return st;
}

tutti_status wan_matrix_load(struct wan_matrix *out, const char *path)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    char *text;
    size_t bytes;
    tutti_status st = tt_json_load(&text, &bytes, KIND, path, WAN_MATRIX_BYTES_MAX);

    if (st)
        return st;
    st = wan_matrix_parse(out, text, bytes, is_stdin ? "of standard input" : path);
    free(text);
    return st;
}

tutti_status wan_matrix_change(struct wan_matrix *m, uint32_t from, uint32_t to, const char *key,
                               double value)
{
    static const struct range *const ranges[] = { &delay_range, &rate_range, &loss_range,
                                                  &burst_range };
    const struct tt_json_place place = { .kind = KIND, .from = "change" };
    tutti_status st;

    if (from >= m->nhosts || to >= m->nhosts || from == to)
        return tt_json_wrong(&place, "there is no way from host %u to host %u: there are %u hosts",
                             from, to, m->nhosts);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (strcmp(key, ranges[i]->key) == 0) {
            st = check_range(&place, ranges[i], value);
            if (!st)
                set_value(&m->pair[from][to], ranges[i], value);
            return st;
        }
    return tt_json_wrong(&place, "\"%.40s\" is none of delay_ms, rate_mbit, loss and loss_burst",
                         key);
}

static void write_line(FILE *to, const char *rate, const char *queue, const struct wan_line *line)
{
    if (line->bit_s)
        fprintf(to, "\"%s\": %.6g, \"%s\": %" PRIu64, rate, (double)line->bit_s / 1e6, queue,
                line->queue_bytes);
    else
        fprintf(to, "\"%s\": null, \"%s\": null", rate, queue);
}

static void write_pair(FILE *to, const struct wan_pair *pair)
{
    fprintf(to, "{\"delay_ms\": %.9g, \"loss\": %.9g, \"loss_burst\": %.9g, \"queue\": \"%s\", ",
            (double)pair->delay_ns / (double)TT_MS, pair->loss, pair->burst > 1 ? pair->burst : 1,
            disciplines[pair->line.discipline]);
    write_line(to, "rate_mbit", "queue_bytes", &pair->line);
    fputc('}', to);
}

void wan_matrix_write(FILE *to, const struct wan_matrix *m)
{
    fprintf(to, "{\"seed\": %" PRIu64 ", \"hosts\": [", m->seed);
    for (uint32_t h = 0; h < m->nhosts; h++) {
        fprintf(to, "%s{\"name\": \"%s\", ", h ? ", " : "", m->host[h].name);
        write_line(to, "up_mbit", "up_queue_bytes", &m->host[h].up);
        fputs(", ", to);
        write_line(to, "down_mbit", "down_queue_bytes", &m->host[h].down);
        fputc('}', to);
    }
    fputs("], \"pairs\": [", to);
    for (uint32_t a = 0; a < m->nhosts; a++) {
        fputs(a ? ", [" : "[", to);
        for (uint32_t b = 0; b < m->nhosts; b++) {
            fputs(b ? ", " : "", to);
            if (a == b)
                fputs("null", to);
            else
                write_pair(to, &m->pair[a][b]);
        }
        fputc(']', to);
    }
    fputs("]}\n", to);
}
