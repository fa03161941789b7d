/* Reads machine descriptions in JSON (docs/topology.md). Everything is checked; an unknown key is
 * an error, most likely a misspelling. */
#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/jsonread.h"
#include "base/status.h"
#include "topo/labels.h"
#include "topo/topo.h"

#define FILE_BYTES_MAX (1u << 20)
#define DEPTH_MAX 8
#define LATENCY_NS_MAX 100000000000ll       /* 100 s */
#define GBIT_S_MAX 1e9
#define OVERSUBSCRIPTION_MAX 1e6
#define RAILS_MAX 64
#define PATH_BYTES 160
#define LOCATION_BYTES 320

/* Position in the document: "lab.json: links.rack". */
struct place {
    const char *from, *text;            /* the file's name and contents */
    size_t bytes;
    char path[PATH_BYTES];
};

/* "lab.json:3", if the path is in the file. */
static const char *locate_path(const struct place *p, const char *path, char out[LOCATION_BYTES])
{
    return tt_json_locate(out, LOCATION_BYTES, p->from, p->text, p->bytes, path);
}

static struct place below(const struct place *p, const char *key)
{
    struct place b = { .from = p->from, .text = p->text, .bytes = p->bytes };

    snprintf(b.path, sizeof b.path, "%.100s%s%.50s", p->path, *p->path ? "." : "", key);
    return b;
}

static tutti_status wrong(const struct place *p, struct json_object *v, const char *expected)
{
    char at[LOCATION_BYTES];

    return tt_fail(TUTTI_ERR_INVALID, "%s: %s is %.64s: must be %s", locate_path(p, p->path, at),
                   *p->path ? p->path
                            : "the "
                              "document",
                   v ? json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN) : "null",
                   expected);
}

static tutti_status missing(const struct place *p, const char *key, const char *expected)
{
    const struct place at = below(p, key);
    char line[LOCATION_BYTES];

    return tt_fail(TUTTI_ERR_INVALID, "%s: %s is missing: must be %s",
                   locate_path(p, p->path, line), at.path, expected);
}

/* Checks that every key of the object is in known[], which ends in NULL. */
static tutti_status check_known_keys(const struct place *p, struct json_object *o,
                                     const char *const known[])
{
    char all[256] = "", line[LOCATION_BYTES];
    size_t n = 0;

    if (!json_object_is_type(o, json_type_object))
        return wrong(p, o, "an object: {...}");
    for (int i = 0; known[i] && n < sizeof all; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", known[i]);
    json_object_object_foreach(o, key, value)
    {
        const struct place at = below(p, key);
        bool found = false;

        (void)value;
        for (int i = 0; known[i]; i++)
            found |= strcmp(key, known[i]) == 0;
        if (!found)
            return tt_fail(TUTTI_ERR_INVALID, "%s: unknown key %s (known keys: %s)",
                           locate_path(p, at.path, line), at.path, all);
    }
    return TUTTI_OK;
}

/* Reads the integer of that key; *out is unchanged if the key is missing. */
static tutti_status read_integer(const struct place *p, struct json_object *o, const char *key,
                                 int64_t min, int64_t max, int64_t *out)
{
    const struct place at = below(p, key);
    struct json_object *v;
    char expected[96];

    if (!json_object_object_get_ex(o, key, &v))
        return TUTTI_OK;
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, min, max);
    if (!json_object_is_type(v, json_type_int) || json_object_get_int64(v) < min ||
        json_object_get_int64(v) > max)
        return wrong(&at, v, expected);
    *out = json_object_get_int64(v);
    return TUTTI_OK;
}

static tutti_status read_u32(const struct place *p, struct json_object *o, const char *key,
                             uint32_t max, uint32_t *out)
{
    int64_t v = *out;
    const tutti_status st = read_integer(p, o, key, 1, max, &v);

    *out = (uint32_t)v;
    return st;
}

static tutti_status read_real(const struct place *p, struct json_object *o, const char *key,
                              double min, double max, double *out)
{
    const struct place at = below(p, key);
    struct json_object *v;
    char expected[96];
    double d;

    if (!json_object_object_get_ex(o, key, &v))
        return TUTTI_OK;
    snprintf(expected, sizeof expected, "a number from %g to %g", min, max);
    if (!json_object_is_type(v, json_type_int) && !json_object_is_type(v, json_type_double))
        return wrong(&at, v, expected);
    d = json_object_get_double(v);
    if (!isfinite(d) || d < min || d > max)
        return wrong(&at, v, expected);
    *out = d;
    return TUTTI_OK;
}

/* Reads the text of that key into out[cap]. Control characters are refused, since labels are sent
 * in cards and printed. */
static tutti_status read_text_key(const struct place *p, struct json_object *o, const char *key,
                                  char *out, size_t cap)
{
    const struct place at = below(p, key);
    struct json_object *v;
    char expected[96];
    const char *text;

    if (!json_object_object_get_ex(o, key, &v))
        return TUTTI_OK;
    snprintf(expected, sizeof expected, "a string of 1 to %zu bytes without control characters",
             cap - 1);
    if (!json_object_is_type(v, json_type_string))
        return wrong(&at, v, expected);
    text = json_object_get_string(v);
    if (!*text || (size_t)json_object_get_string_len(v) != strlen(text) || strlen(text) >= cap)
        return wrong(&at, v, expected);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return wrong(&at, v, expected);
    strcpy(out, text);
    return TUTTI_OK;
}

static tutti_status read_node(const struct place *p, struct json_object *o, struct tt_topo *t)
{
    const struct place at = below(p, "node");
    struct json_object *v;
    const char *text;

    if (!json_object_object_get_ex(o, "node", &v))
        return TUTTI_OK;
    text = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
    if (strcmp(text, "mesh") != 0 && strcmp(text, "sockets") != 0)
        return wrong(&at, v, "\"mesh\" or \"sockets\"");
    t->node = strcmp(text, "mesh") == 0 ? TT_NODE_MESH : TT_NODE_SOCKETS;
    t->node_told = true;
    return TUTTI_OK;
}

static tutti_status read_link_object(const struct place *p, struct json_object *o,
                                     enum tt_distance d, struct tt_topo_link *l)
{
    static const char *const known[] = { "latency_ns", "gbit_s", "oversubscription", NULL };
    static const char *const known_below[] = { "latency_ns", "gbit_s", NULL };
    const struct place at = below(p, tt_distance_name(d));
    int64_t latency_ns = 0;
    double gbit_s = 0;
    tutti_status st;

    if (!json_object_object_get_ex(o, tt_distance_name(d), &o))
        return TUTTI_OK;
    st = check_known_keys(&at, o, d > TT_NEAR_RACK ? known : known_below);
    if (!st)
        st = read_integer(&at, o, "latency_ns", 1, LATENCY_NS_MAX, &latency_ns);
    if (!st)
        st = read_real(&at, o, "gbit_s", 1e-6, GBIT_S_MAX, &gbit_s);
    if (!st)
        st = read_real(&at, o, "oversubscription", 1, OVERSUBSCRIPTION_MAX, &l->oversubscription);
    l->latency_ns = (uint64_t)latency_ns;
    l->bytes_per_s = gbit_s * 1e9 / 8;
    return st;
}

static tutti_status read_links(const struct place *p, struct json_object *o, struct tt_topo *t)
{
    static const char *const known[] = { "socket",   "host",   "rack", "zone",
                                         "building", "fabric", "wan",  NULL };
    const struct place at = below(p, "links");
    tutti_status st;

    if (!json_object_object_get_ex(o, "links", &o))
        return TUTTI_OK;
    st = check_known_keys(&at, o, known);
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES && !st; d++)
        st = read_link_object(&at, o, (enum tt_distance)d, &t->link[d]);
    return st;
}

static tutti_status read_shape(const struct place *p, struct json_object *o, struct tt_topo *t)
{
    static const char *const known[] = { "ranks_per_host",
                                         "sockets_per_host",
                                         "hosts_per_rack",
                                         "racks_per_zone",
                                         "zones_per_building",
                                         "buildings",
                                         NULL };
    const struct place at = below(p, "machine");
    uint32_t *const fields[] = { &t->host_ranks, &t->host_sockets,   &t->rack_hosts,
                                 &t->zone_racks, &t->building_zones, &t->buildings };
    char line[LOCATION_BYTES];
    uint64_t ranks = 1;
    tutti_status st;

    if (!json_object_object_get_ex(o, "machine", &o))
        return TUTTI_OK;
    t->has_shape = true;
    st = check_known_keys(&at, o, known);
    for (int i = 0; known[i] && !st; i++)
        st = read_u32(&at, o, known[i], TT_TOPO_RANKS_MAX, fields[i]);
    if (st)
        return st;
    if (t->host_ranks % t->host_sockets)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: machine.ranks_per_host is %u: must be a multiple of sockets_per_host "
                       "(%u)",
                       locate_path(p, "machine.ranks_per_host", line), t->host_ranks,
                       t->host_sockets);
    for (int i = 0; known[i]; i++)
        if (i != 1 && (ranks *= *fields[i]) > TT_TOPO_RANKS_MAX)
            return tt_fail(TUTTI_ERR_INVALID, "%s: machine has too many ranks: the maximum is %u",
                           locate_path(p, "machine", line), TT_TOPO_RANKS_MAX);
    return TUTTI_OK;
}

/* Checks that a host's label refers only to stars of its pattern: otherwise the reference would
 * remain as text, and be one label of all hosts. */
static tutti_status check_stars(const struct place *p, const struct tt_topo_rule *r,
                                enum tt_distance d, unsigned nstars)
{
    char line[LOCATION_BYTES];

    for (const char *at = strchr(r->label[d], '$'); at; at = strchr(at + 1, '$'))
        if (at[1] >= '1' && at[1] <= '9' && (unsigned)(at[1] - '0') > nstars)
            return tt_fail(
                TUTTI_ERR_INVALID,
                "%s: %s.%s is \"%s\", but the pattern \"%s\" has only %u asterisk(s): $1 to $9 stand "
                "for the text that its asterisks match",
                locate_path(p, below(p, tt_distance_name(d)).path, line), p->path,
                tt_distance_name(d), r->label[d], r->host, nstars);
    return TUTTI_OK;
}

static tutti_status read_rule(const struct place *p, struct json_object *o, struct tt_topo_rule *r)
{
    static const char *const known[] = {
        "host", "slots", "rack", "zone", "building", "fabric", NULL
    };
    tutti_status st = check_known_keys(p, o, known);
    struct tt_pattern_stars stars;
    char line[LOCATION_BYTES];

    if (!st)
        st = read_text_key(p, o, "host", r->host, sizeof r->host);
    if (!st && !r->host[0])
        st = missing(p, "host", "the name of a host, or a pattern of names");
    if (!st && !tt_pattern_match(r->host, r->host, &stars))
        st = tt_fail(TUTTI_ERR_INVALID, "%s: %s.host has more than %d asterisks",
                     locate_path(p, below(p, "host").path, line), p->path, TT_PATTERN_STARS);
    if (!st)
        st = read_u32(p, o, "slots", TT_TOPO_RANKS_MAX, &r->slots);
    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN && !st; d++) {
        st = read_text_key(p, o, tt_distance_name((enum tt_distance)d), r->label[d],
                           sizeof r->label[d]);
        if (!st)
            st = check_stars(p, r, (enum tt_distance)d, stars.n);
    }
    return st;
}

static tutti_status read_rules(const struct place *p, struct json_object *o, struct tt_topo *t)
{
    const struct place at = below(p, "hosts");
    tutti_status st = TUTTI_OK;
    char line[LOCATION_BYTES];
    size_t n;

    if (!json_object_object_get_ex(o, "hosts", &o))
        return TUTTI_OK;
    if (!json_object_is_type(o, json_type_array))
        return wrong(&at, o, "an array: [...]");
    n = json_object_array_length(o);
    if (n > TT_TOPO_HOSTS_MAX)
        return tt_fail(
            TUTTI_ERR_INVALID,
            "%s: hosts has %zu entries: the maximum is %u (a pattern can match many hosts)",
            locate_path(p, "hosts", line), n, TT_TOPO_HOSTS_MAX);
    t->rules = calloc(n + 1, sizeof *t->rules);
    if (!t->rules)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for %zu hosts", p->from, n);
    t->nrules = (uint32_t)n;
    for (size_t i = 0; i < n && !st; i++) {
        struct place one = { .from = p->from, .text = p->text, .bytes = p->bytes };

        snprintf(one.path, sizeof one.path, "hosts[%zu]", i);
        st = read_rule(&one, json_object_array_get_idx(o, i), &t->rules[i]);
    }
    return st;
}

static tutti_status read_topo(struct tt_topo *t, struct json_object *o, const char *from,
                              const char *text, size_t bytes)
{
    static const char *const known[] = { "name",  "about",   "node",  "rails",
                                         "links", "machine", "hosts", NULL };
    const struct place top = { .from = from, .text = text, .bytes = bytes };
    char about[1024];
    tutti_status st = check_known_keys(&top, o, known);

    if (!st)
        st = read_text_key(&top, o, "name", t->name, sizeof t->name);
    if (!st)
        st = read_text_key(&top, o, "about", about, sizeof about);
    if (!st)
        st = read_node(&top, o, t);
    if (!st)
        st = read_u32(&top, o, "rails", RAILS_MAX, &t->nrails);
    if (!st)
        st = read_links(&top, o, t);
    if (!st)
        st = read_shape(&top, o, t);
    if (!t->node_told && t->host_sockets > 1)
        t->node = TT_NODE_SOCKETS;
    return st ? st : read_rules(&top, o, t);
}

tutti_status tt_topo_parse(struct tt_topo *out, const char *text, size_t bytes, const char *from)
{
    struct tt_topo t = { .node = TT_NODE_MESH,
                         .nrails = 1,
                         .host_ranks = 1,
                         .host_sockets = 1,
                         .rack_hosts = 1,
                         .zone_racks = 1,
                         .building_zones = 1,
                         .buildings = 1 };
    const struct tt_json_place place = { .kind = "", .from = from };
    const char *slash = strrchr(from, '/');
    struct json_object *o = NULL;
    tutti_status st;

    for (int d = 0; d < TT_DISTANCES; d++)
        t.link[d].oversubscription = 1;
    snprintf(t.name, sizeof t.name, "%.63s", slash ? slash + 1 : from);
    st = tt_json_parse(&o, &place, text, bytes, FILE_BYTES_MAX, DEPTH_MAX);
    if (st)
        return st;
    st = read_topo(&t, o, from, text, bytes);
    json_object_put(o);
    if (st)
        tt_topo_fini(&t);
    else
        *out = t;
    return st;
}

static tutti_status no_such(const char *word)
{
    const char *name, *summary;
    char names[256] = "";
    size_t n = 0;

    for (size_t i = 0; n < sizeof names && tt_topo_builtin(i, &name, &summary); i++)
        n += (size_t)snprintf(&names[n], sizeof names - n, "%s%s", i ? ", " : "", name);
    return tt_fail(TUTTI_ERR_INVALID, "unknown topology \"%s\": neither built in (%s) nor a file",
                   word, names);
}

tutti_status tt_topo_load(struct tt_topo *out, const char *name_or_path)
{
    const char *built_in = tt_topo_builtin_text(name_or_path);
    char *text = NULL;
    size_t bytes = 0;
    tutti_status st;

    if (built_in)
        return tt_topo_parse(out, built_in, strlen(built_in), name_or_path);
    if (strcmp(name_or_path, "-") != 0 && !strchr(name_or_path, '/') &&
        access(name_or_path, F_OK) != 0)
        return no_such(name_or_path);
    st = tt_json_load(&text, &bytes, "topology", name_or_path, FILE_BYTES_MAX);
    if (st)
        return st;
    st = tt_topo_parse(out, text, bytes, name_or_path);
    free(text);
    return st;
}
