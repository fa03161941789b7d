/* The profile as a JSON document. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

#include "tools/profile/profile.h"

static void add(struct json_object *o, const char *key, struct json_object *value)
{
    json_object_object_add(o, key, value);
}

static void add_u64(struct json_object *o, const char *key, uint64_t value)
{
    add(o, key, json_object_new_uint64(value));
}

/* Adds a time. Sums of hostile dumps may exceed the integers of JSON readers. */
static void add_ns(struct json_object *o, const char *key, double ns)
{
    add(o, key, json_object_new_int64(profile_ns(ns)));
}

static struct json_object *json_text(const struct tt_dumps *d, uint32_t text)
{
    return text == TT_INTERN_EMPTY ? NULL : json_object_new_string(tt_dumps_text(d, text));
}

static void add_comm(struct json_object *o, const struct tt_dumps *d, uint32_t comm)
{
    char name[32], hash[24];

    snprintf(hash, sizeof hash, "%" PRIx64, d->comms[comm].hash);
    add(o, "comm", json_object_new_string(hash));
    add(o, "name", json_object_new_string(tt_dumps_comm_name(d, comm, name)));
    add_u64(o, "nranks", d->comms[comm].members.n);
}

/* The stages of long operations; NULL: there are none. */
static struct json_object *json_stages(const struct tt_profile_row *r)
{
    struct json_object *o = r->nstaged ? json_object_new_object() : NULL;
    char key[32];

    if (!o)
        return NULL;
    add_u64(o, "calls", r->nstaged);
    for (int k = 0; k < TT_PROFILE_STAGES; k++) {
        snprintf(key, sizeof key, "%s_ns", tt_profile_stage_name((enum tt_profile_stage)k));
        add_ns(o, key, r->staged_ns[k]);
    }
    return o;
}

static struct json_object *json_row(const struct tt_dumps *d, const struct tt_profile_row *r)
{
    struct json_object *o = json_object_new_object();

    add_comm(o, d, r->comm);
    add(o, "kind", json_text(d, r->kind));
    add(o, "algorithm", json_text(d, r->algo));
    add_u64(o, "bytes_from", r->bytes_from);
    add_u64(o, "calls", r->calls);
    add_u64(o, "failed", r->nfailed);
    add_u64(o, "bytes", r->bytes);
    add_ns(o, "total_ns", r->total_ns);
    add_ns(o, "queued_ns", r->queued_ns);
    add_ns(o, "waited_ns", r->waited_ns);
    add(o, "median_ns", json_object_new_int64(r->median_ns));
    add(o, "max_ns", json_object_new_int64(r->max_ns));
    add(o, "transfer_median_ns", r->transfer_ns < 0 ? NULL : json_object_new_int64(r->transfer_ns));
    add(o, "stages", json_stages(r));
    add(o, "busbw_gbs", r->busbw > 0 ? json_object_new_double(r->busbw) : NULL);
    return o;
}

static struct json_object *json_late(const struct tt_dumps *d, const struct tt_profile_late *l)
{
    struct json_object *o = json_object_new_object();

    add_comm(o, d, l->comm);
    add_u64(o, "rank", l->rank);
    add(o, "host", json_text(d, d->ranks[l->rank].host));
    add_u64(o, "times_last", l->times);
    add_u64(o, "known_operations", l->of);
    add_ns(o, "lost_ns", l->lost_ns);
    return o;
}

static struct json_object *json_number(uint32_t n)
{
    return n == TT_PACE_NONE ? NULL : json_object_new_uint64(n);
}

static struct json_object *json_found(const struct profiled *p, const struct tt_pace_found *f)
{
    static const char *const kinds[] = { [TT_PACE_LATE] = "late caller",
                                         [TT_PACE_RANK] = "slow rank",
                                         [TT_PACE_LINK] = "slow link",
                                         [TT_PACE_GROUP] = "slow group" };
    struct json_object *o = json_object_new_object();
    char group[96];

    add(o, "kind", json_object_new_string(kinds[f->kind]));
    add(o, "rank", json_number(f->rank));
    add(o, "to", json_number(f->to));
    add(o, "where", json_object_new_string(profile_group(p, f->group, group)));
    add_u64(o, "first_window", f->first);
    add_u64(o, "last_window", f->last);
    add_u64(o, "windows", f->nwindows);
    add(o, "factor", f->kind == TT_PACE_LATE ? NULL : json_object_new_double(f->factor));
    if (f->kind == TT_PACE_LATE)
        add_ns(o, "lost_ns", f->lost_ns);
    else
        add(o, "lost_ns", NULL);
    return o;
}

static void add_pace(struct json_object *all, const struct profiled *p)
{
    struct json_object *list = json_object_new_array();
    uint32_t n;
    const struct tt_pace_found *f = tt_pace_found(p->pace.pace, &n);

    for (uint32_t i = 0; i < n; i++)
        json_object_array_add(list, json_found(p, &f[i]));
    add_u64(all, "windows", p->pace.nwindows);
    add_u64(all, "window_ns", (uint64_t)p->pace.window_ns);
    add_u64(all, "operations_not_compared", tt_pace_counts(p->pace.pace).nskipped);
    add_u64(all, "ranks_not_judged", tt_pace_counts(p->pace.pace).nunjudged);
    add(all, "slow", list);
}

static void add_totals(struct json_object *o, const struct profiled *p)
{
    const struct tt_dumps *d = &p->dumps;
    uint64_t lost = 0;

    for (uint32_t r = 0; r < d->nranks; r++)
        lost += d->ranks[r].lost;
    add(o, "job", json_object_new_string(d->job));
    add_u64(o, "nranks", d->nmembers);
    add_u64(o, "dumps", d->ndumps);
    add_u64(o, "complete_dumps", d->ncomplete);
    add_u64(o, "rejected_files", d->nrejected);
    add_u64(o, "operations", p->profile.calls);
    add_u64(o, "open_operations", p->profile.nopen);
    add_u64(o, "operations_not_read", d->nrecords - d->nops);
    add_u64(o, "operations_overwritten", lost);
    add_u64(o, "instances", p->profile.ninstances);
    add_u64(o, "instances_with_last_caller", p->profile.nknown);
    add(o, "begin_ns",
        p->profile.begin == TT_DUMPS_NEVER ? NULL : json_object_new_int64(p->profile.begin));
    add(o, "end_ns",
        p->profile.end == TT_DUMPS_NEVER ? NULL : json_object_new_int64(p->profile.end));
}

int64_t profile_ns(double ns)
{
    if (!(ns > 0))
        return 0;
    return ns < 0x1p63 ? (int64_t)ns : INT64_MAX;
}

bool profile_print_json(const struct profiled *p)
{
    struct json_object *all = json_object_new_object(), *rows = json_object_new_array();
    struct json_object *late = json_object_new_array();
    const char *text;

    for (size_t i = 0; i < p->profile.nrows; i++)
        json_object_array_add(rows, json_row(&p->dumps, &p->profile.rows[i]));
    for (size_t i = 0; i < p->profile.nlate; i++)
        json_object_array_add(late, json_late(&p->dumps, &p->profile.late[i]));
    add_totals(all, p);
    add(all, "rows", rows);
    add(all, "late_callers", late);
    add_pace(all, p);
    text = json_object_to_json_string_ext(all, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                   JSON_C_TO_STRING_NOSLASHESCAPE);
    if (text)
        printf("%s\n", text);
    json_object_put(all);
    return text != NULL;
}
