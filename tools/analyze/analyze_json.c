/* The diagnosis as a JSON document. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

#include "tools/analyze/analyze.h"

static void add(struct json_object *o, const char *key, struct json_object *value)
{
    json_object_object_add(o, key, value);
}

static struct json_object *json_number(uint32_t n)
{
    return n == TT_DUMPS_NONE ? NULL : json_object_new_uint64(n);
}

static struct json_object *json_time(int64_t t)
{
    return t == TT_DUMPS_NEVER ? NULL : json_object_new_int64(t);
}

static struct json_object *json_text(const struct tt_dumps *d, uint32_t text)
{
    return text == TT_INTERN_EMPTY ? NULL : json_object_new_string(tt_dumps_text(d, text));
}

static struct json_object *json_op(const struct tt_dumps *d, uint32_t index)
{
    const struct tt_dumps_op *op = &d->ops[index];
    struct json_object *o;
    char comm[32], hash[24];

    if (index == TT_DUMPS_NONE)
        return NULL;
    o = json_object_new_object();
    snprintf(hash, sizeof hash, "%" PRIx64, d->comms[op->comm].hash);
    add(o, "rank", json_number(op->rank));
    add(o, "comm", json_object_new_string(hash));
    add(o, "name", json_object_new_string(tt_dumps_comm_name(d, op->comm, comm)));
    add(o, "seq", json_object_new_uint64(op->seq));
    add(o, "kind", json_text(d, op->kind));
    add(o, "status", json_text(d, op->status));
    add(o, "peer", json_number(op->peer));
    add(o, "called_ns", json_time(op->called));
    add(o, "step", json_number(op->step));
    add(o, "steps", json_number(op->steps));
    add(o, "waits_for", json_number(op->waits_rank));
    return o;
}

static struct json_object *json_cycle(const struct tt_dumps *d, const struct tt_diagnosis *x)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < x->ncycle && i < TT_DIAGNOSIS_CYCLE; i++)
        json_object_array_add(list, json_op(d, x->cycle[i].op));
    return list;
}

static struct json_object *json_diagnosis(const struct tt_dumps *d, const struct tt_diagnosis *x)
{
    struct json_object *o = json_object_new_object(), *culprits = json_object_new_array();
    struct json_object *evidence = json_object_new_array();
    char words[4096];

    for (uint32_t i = 0; i < x->nculprits && i < TT_DIAGNOSIS_CULPRITS; i++)
        json_object_array_add(culprits, json_number(x->culprits[i]));
    for (uint32_t i = 0; i < x->nevidence; i++)
        json_object_array_add(evidence, json_object_new_string(x->evidence[i]));
    add(o, "kind", json_object_new_string(tt_diagnosis_kind_name(x->kind)));
    add(o, "culprits", culprits);
    add(o, "all_culprits", json_number(x->nculprits));
    add(o, "link_to", json_number(x->to));
    add(o, "evidence_ends_at", json_number(x->at));
    add(o, "waiting_ranks", json_number(x->nwaiting));
    add(o, "since_ns", json_time(x->since));
    add(o, "operation", json_op(d, x->op));
    add(o, "cycle", json_cycle(d, x));
    add(o, "evidence", evidence);
    add(o, "words", json_object_new_string(tt_diagnosis_words(x, d, words, sizeof words)));
    return o;
}

/* The departure of a member from an elastic run; NULL: none, or it is not a cause. */
static struct json_object *json_departed(const struct tt_dumps_rank *r)
{
    struct json_object *o;

    if (r->ndeparted == 0)
        return NULL;
    o = json_object_new_object();
    add(o, "why", json_object_new_string(tt_dumps_departed_word((enum tt_departed)r->departed)));
    add(o, "epoch", json_object_new_uint64(r->departed_epoch));
    add(o, "dumps", json_number(r->ndeparted));
    return o;
}

static struct json_object *json_rank(const struct analysis *a, uint32_t rank)
{
    const struct tt_dumps_rank *r = &a->dumps.ranks[rank];
    const uint32_t record = analyze_record_of(a, rank);
    struct json_object *o = json_object_new_object();

    add(o, "rank", json_number(rank));
    add(o, "state", json_object_new_string(analyze_state(a, rank)));
    add(o, "host", json_text(&a->dumps, r->host));
    add(o, "dump", json_text(&a->dumps, r->path));
    add(o, "reason", json_text(&a->dumps, r->reason));
    add(o, "note", json_text(&a->dumps, r->note));
    add(o, "departed", json_departed(r));
    add(o, "operation",
        record == TT_DUMPS_NONE ? NULL : json_op(&a->dumps, a->waits.records[record].op));
    return o;
}

static struct json_object *json_missing(const struct tt_dumps *d)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t r = 0; r < d->nranks; r++)
        if (d->ranks[r].is_member && !d->ranks[r].has_dump)
            json_object_array_add(list, json_number(r));
    return list;
}

static struct json_object *json_problems(const struct tt_dumps *d)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < d->nproblems && i < TT_DUMPS_PROBLEMS_MAX; i++)
        json_object_array_add(list, json_object_new_string(d->problems[i]));
    return list;
}

void analyze_print_json(const struct analysis *a)
{
    const struct tt_dumps *d = &a->dumps;
    struct json_object *all = json_object_new_object(), *found = json_object_new_array();
    struct json_object *ranks = json_object_new_array();

    for (uint32_t i = 0; i < a->found.n; i++)
        json_object_array_add(found, json_diagnosis(d, &a->found.list[i]));
    for (uint32_t i = 0; i < a->nrows; i++)
        json_object_array_add(ranks, json_rank(a, a->rows[i]));
    add(all, "job", json_object_new_string(d->job));
    add(all, "nranks", json_number(d->nmembers));
    add(all, "elastic", json_object_new_boolean(d->is_elastic));
    add(all, "dumps", json_number(d->ndumps));
    add(all, "complete_dumps", json_number(d->ncomplete));
    add(all, "rejected_files", json_number(d->nrejected));
    add(all, "operations", json_object_new_uint64(d->nrecords));
    add(all, "missing_dumps", json_missing(d));
    add(all, "problems", json_problems(d));
    add(all, "failed_at_ns", a->waits.has_failure ? json_time(a->waits.at) : NULL);
    add(all, "min_wait_ns", json_time(d->hung_ns));
    add(all, "diagnoses", found);
    add(all, "ranks", ranks);
    printf("%s\n",
           json_object_to_json_string_ext(all, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                   JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(all);
}
