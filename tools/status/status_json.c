/* The status as a JSON document. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include "tools/status/status.h"
#include "trace/comms.h"
#include "trace/oplog.h"

static void add(struct json_object *o, const char *key, struct json_object *value)
{
    json_object_object_add(o, key, value);
}

static void add_number(struct json_object *o, const char *key, uint64_t n)
{
    add(o, key, json_object_new_uint64(n));
}

static struct json_object *json_rank(uint32_t rank)
{
    return rank == TT_STATUS_NO_RANK ? NULL : json_object_new_uint64(rank);
}

static struct json_object *json_hash(uint64_t hash)
{
    char text[24];

    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return hash ? json_object_new_string(text) : NULL;
}

static void add_key(struct json_object *o, const struct tt_status_op_key *k)
{
    const bool some = k->seq != TT_STATUS_NO_SEQ, ended = k->state == TT_STATUS_OUT;

    add(o, "state", json_object_new_string(ended ? "out" : "in"));
    add(o, "seq", some ? json_object_new_uint64(k->seq) : NULL);
    add(o, "kind", some ? json_object_new_string(tt_oplog_kind_name(k->kind)) : NULL);
    add(o, "count", some ? json_object_new_uint64(k->count) : NULL);
    add(o, "type",
        some && k->type < TUTTI_DTYPE_COUNT
            ? json_object_new_string(tutti_dtype_name((tutti_dtype)k->type))
            : NULL);
    add(o, "redop",
        some && k->redop < TUTTI_REDOP_COUNT
            ? json_object_new_string(tutti_redop_name((tutti_redop)k->redop))
            : NULL);
    add(o, "root", json_rank(k->root));
    add(o, "status",
        some && ended && k->status < TUTTI_STATUS_COUNT
            ? json_object_new_string(tutti_status_name((tutti_status)k->status))
            : NULL);
}

static struct json_object *json_group(const struct status_judged *j,
                                      const struct tt_status_group *g)
{
    struct json_object *o = json_object_new_object(), *ranks = json_object_new_array(),
                       *waits = json_object_new_array();

    add_key(o, &g->key);
    add_number(o, "nranks", g->nranks);
    for (uint32_t i = 0; i < g->nlisted; i++) {
        json_object_array_add(ranks, json_object_new_uint64(g->ranks[i]));
        json_object_array_add(waits, json_rank(g->waits[i]));
    }
    add(o, "ranks", ranks);
    add(o, "waits_for", waits);
    add(o, "missing", json_object_new_boolean(status_is_behind(j, g)));
    add_number(o, "age_max_ns", g->age_max_ns);
    add_number(o, "age_min_ns", g->age_min_ns);
    return o;
}

static void add_unreported(void *arg, enum tt_status_list list, uint32_t rank)
{
    struct json_object *o = json_object_new_object();

    add_number(o, "rank", rank);
    add(o, "list", json_object_new_string(status_list_name(list)));
    json_object_array_add(arg, o);
}

static struct json_object *json_stages(const struct tt_status_rates *x)
{
    struct json_object *o = x->nstaged ? json_object_new_object() : NULL;
    char key[32];

    if (!o)
        return NULL;
    add_number(o, "calls_per_s", x->nstaged);
    for (int i = 0; i < TT_STATUS_STAGES; i++) {
        snprintf(key, sizeof key, "%s_ns", status_stage_name((enum tt_status_stage)i));
        add_number(o, key, x->staged_ns[i]);
    }
    return o;
}

static struct json_object *json_rates(const struct tt_status_comm *c)
{
    const struct tt_status_rates *x = &c->rates;
    struct json_object *o = c->has_rates ? json_object_new_object() : NULL;

    if (!o)
        return NULL;
    add_number(o, "calls_per_s", x->calls);
    add_number(o, "bytes_per_s", x->bytes);
    add(o, "stages", json_stages(x));
    if (!x->most)
        return o;                   /* idle: no rank is late */
    add_number(o, "latest_rank", x->least_rank);
    add(o, "latest_share", json_object_new_double((double)x->least / TT_STATUS_WHOLE));
    add_number(o, "most_rank", x->most_rank);
    add(o, "most_share", json_object_new_double((double)x->most / TT_STATUS_WHOLE));
    return o;
}

static struct json_object *json_comm(const struct status_answer *a, const struct status_judged *j)
{
    static const char *const of[] = {
        [TT_COMMS_COMM] = "comm", [TT_COMMS_WINDOW] = "window", [TT_COMMS_RUN] = "run"
    };
    struct json_object *o = json_object_new_object(), *groups = json_object_new_array(),
                       *unreported = json_object_new_array();
    const struct tt_status_comm *c = j->comm;

    add(o, "comm", json_hash(c->hash));
    add(o, "name", json_object_new_string(c->name));
    add(o, "of", json_object_new_string(of[c->of]));
    add(o, "verdict", json_object_new_string(status_verdict_name(j->verdict)));
    add_number(o, "nranks", c->nranks);
    add_number(o, "reported", c->nreported);
    add_number(o, "in", j->nin);
    add_number(o, "others", c->nothers);
    add(o, "members", *c->members ? json_object_new_string(c->members) : NULL);
    if (a->query.what == TT_COLLECT_RATES)
        add(o, "rates", json_rates(c));
    for (uint32_t i = 0; i < c->ngroups; i++)
        json_object_array_add(groups, json_group(j, &c->groups[i]));
    add(o, "groups", groups);
    status_each_unreported(&a->report, c, add_unreported, unreported);
    add(o, "unreported", unreported);
    return o;
}

static struct json_object *json_op(const struct tt_status_op *op)
{
    struct json_object *o = json_object_new_object();

    add_number(o, "rank", op->rank);
    add(o, "comm", json_hash(op->comm));
    add_key(o, &op->key);
    add(o, "peer", json_rank(op->peer));
    add(o, "tag", json_rank(op->tag));
    add(o, "waits_for", json_rank(op->waits));
    add_number(o, "age_ns", op->age_ns);
    add(o, "ended_ns",
        op->key.state == TT_STATUS_OUT ? json_object_new_uint64(op->ended_ns) : NULL);
    return o;
}

static struct json_object *json_list(const struct tt_status_ranks *l)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < l->n; i++)
        json_object_array_add(list, json_object_new_uint64(l->rank[i]));
    return list;
}

static struct json_object *json_lanes(const struct tt_status_lanes *l)
{
    struct json_object *o = json_object_new_object();

    add(o, "wire", json_object_new_string(l->wire));
    add_number(o, "ranks", l->nranks);
    add_number(o, "ranks_with_rates", l->nrated);
    add_number(o, "lanes", l->lanes);
    add_number(o, "up", l->up);
    add(o, "most_down_rank", l->down_most ? json_rank(l->down_rank) : NULL);
    add_number(o, "most_down", l->down_most);
    add_number(o, "idle", l->idle);
    add_number(o, "posts_per_s", l->posts_per_s);
    add_number(o, "bytes_per_s", l->bytes_per_s);
    add_number(o, "out_of_order_depth", l->depth);
    add_number(o, "outstanding_segments", l->outstanding);
    add_number(o, "outstanding_bytes", l->outstanding_bytes);
    add_number(o, "most_outstanding_rank", l->most_rank);
    add_number(o, "most_outstanding_bytes", l->most_bytes);
    return o;
}

static struct json_object *json_shares(const struct tt_status_shares *s)
{
    struct json_object *o = json_object_new_object(), *lowest = json_object_new_array();

    add_number(o, "ranks", s->nranks);
    add(o, "most", json_object_new_double((double)s->most / TT_STATUS_WHOLE));
    for (uint32_t i = 0; i < s->n; i++) {
        struct json_object *entry = json_object_new_object();

        add_number(entry, "rank", s->rank[i]);
        add(entry, "share", json_object_new_double((double)s->share[i] / TT_STATUS_WHOLE));
        json_object_array_add(lowest, entry);
    }
    add(o, "lowest", lowest);
    return o;
}

static struct json_object *json_detail(const struct tt_status_detail *d)
{
    struct json_object *o = json_object_new_object();

    add_number(o, "rank", d->rank);
    add(o, "host", json_object_new_string(d->host));
    add_number(o, "pid", d->pid);
    add_number(o, "records", d->records);
    add(o, "note", *d->note ? json_object_new_string(d->note) : NULL);
    return o;
}

static void add_head(struct json_object *o, const struct status_answer *a)
{
    const struct tt_status_report *r = &a->report;

    add_number(o, "tutti_status", TT_TALK_VERSION);
    add(o, "job", json_hash(a->hello.job));
    add_number(o, "ranks", a->hello.nranks);
    add_number(o, "hosts", a->hello.nhosts);
    add_number(o, "queried_rank", a->hello.rank);
    add_number(o, "queried_processes", a->nqueried);
    add(o, "seconds", json_object_new_double(a->seconds));
    add_number(o, "reported", r->nreported);
    add_number(o, "active", r->nactive);
    add_number(o, "untraced", r->nuntraced);
    add_number(o, "unknown", status_nunknown(a));
    add_number(o, "operations_per_s", r->ops_per_s);
    add_number(o, "bytes_per_s", r->bytes_per_s);
    add_number(o, "left_out", r->left_out);
    if (a->query.what == TT_COLLECT_DUMP) {
        add_number(o, "dumps", r->ndumps);
        add_number(o, "dumping_ranks", r->ndumping);
    }
}

bool status_print_json(const struct status_answer *a, FILE *to)
{
    struct json_object *o = json_object_new_object(), *comms = json_object_new_array(),
                       *ops = json_object_new_array();
    struct status_judged *judged;
    const uint32_t n = status_judge(&a->report, &judged);
    const char *text;
    bool good;

    add_head(o, a);
    for (uint32_t list = 0; list < TT_STATUS_LISTS; list++) {
        add(o, status_list_name((enum tt_status_list)list), json_list(&a->report.lists[list]));
    }
    if (a->query.what == TT_COLLECT_RANK)
        add(o, "rank", a->report.detail.present ? json_detail(&a->report.detail) : NULL);
    for (uint32_t i = 0; i < n; i++)
        json_object_array_add(comms, json_comm(a, &judged[i]));
    for (uint32_t i = 0; i < a->report.nops; i++)
        json_object_array_add(ops, json_op(&a->report.ops[i]));
    add(o, "comms", comms);
    add(o, "ops", ops);
    if (a->query.what == TT_COLLECT_RATES) {
        struct json_object *lanes = json_object_new_array();

        for (uint32_t i = 0; i < a->report.nlanes; i++)
            json_object_array_add(lanes, json_lanes(&a->report.lanes[i]));
        add(o, "lanes", lanes);
        add(o, "shares", json_shares(&a->report.shares));
    }
    text =
        json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    good = text && n == a->report.ncomms;
    if (good)
        fprintf(to, "%s\n", text);
    json_object_put(o);
    free(judged);
    return good;
}

void status_print_json_error(const char *why, FILE *to)
{
    struct json_object *o = json_object_new_object();

    add_number(o, "tutti_status", TT_TALK_VERSION);
    add(o, "error", json_object_new_string(why));
    fprintf(to, "%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
    json_object_put(o);
}
