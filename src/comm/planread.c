#include "comm/planread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/jsonread.h"
#include "sched/json.h"

#define NUMBER_MAX (1ull << 48)
#define DEPTH_MAX 16            /* nesting of arrays and objects; a plan has 7 */

/* The reader's position in the document for messages: rank, round and step, if known. */
struct reader {
    struct tt_json_place at;
    struct tt_plan_file *p;
    int64_t rank, round;            /* -1: unknown */
};

static void go_to(struct reader *r, int64_t rank, int64_t round, int64_t step)
{
    char *where = r->at.where;
    const size_t cap = sizeof r->at.where;

    r->rank = rank;
    r->round = round;
    if (step >= 0)
        snprintf(where, cap, ": ranks[%lld].rounds[%lld][%lld]", (long long)rank, (long long)round,
                 (long long)step);
    else if (round >= 0)
        snprintf(where, cap, ": ranks[%lld].rounds[%lld]", (long long)rank, (long long)round);
    else if (rank >= 0)
        snprintf(where, cap, ": ranks[%lld]", (long long)rank);
    else
        *where = '\0';
}

/* Reads an integer up to `most`. A missing member is an error if `must`; otherwise *out is
 * unchanged. */
static tutti_status plan_read_number(const struct reader *r, struct json_object *o, const char *key,
                                     bool must, uint64_t most, uint64_t *out)
{
    if (!must && !json_object_object_get_ex(o, key, NULL))
        return TUTTI_OK;
    return tt_json_number(&r->at, o, key, 0, most, out);
}

/* Returns the member's text, or NULL. */
static const char *json_text(struct json_object *o, const char *key)
{
    struct json_object *value;

    if (!json_object_object_get_ex(o, key, &value) || !json_object_is_type(value, json_type_string))
        return NULL;
    return json_object_get_string(value);
}

static tutti_status read_ref(const struct reader *r, struct json_object *step, const char *key,
                             bool may_be_there, struct tt_ref *out)
{
    static const char *const members[] = { "buf", "offset", "block", "stride" };
    static const char *const bufs[] = { "SRC", "DST", "WORK", "PIPE", "THERE" };
    struct json_object *o;
    struct tt_ref ref = { 0 };
    const char *buf;
    tutti_status st;

    if (!json_object_object_get_ex(step, key, &o))
        return tt_json_wrong(&r->at, "\"%s\" is missing", key);
    st = tt_json_members(&r->at, o, key, members, 4);
    if (st)
        return st;
    buf = json_text(o, "buf");
    while (buf && ref.buf <= TT_BUF_THERE && strcmp(buf, bufs[ref.buf]) != 0)
        ref.buf++;
    if (!buf || ref.buf > TT_BUF_THERE || (ref.buf == TT_BUF_THERE && !may_be_there))
        return tt_json_wrong_key(&r->at, key, "\"%s\" has an invalid buffer", key);
    st = plan_read_number(r, o, "offset", ref.buf != TT_BUF_THERE, NUMBER_MAX, &ref.offset);
    if (!st)
        st = plan_read_number(r, o, "block", false, NUMBER_MAX, &ref.block);
    if (!st)
        st = plan_read_number(r, o, "stride", ref.block > 0, NUMBER_MAX, &ref.stride);
    if (!st && ref.block > 0 && (ref.stride < ref.block || ref.buf >= TT_BUF_PIPE))
        return tt_json_wrong_key(
            &r->at, key,
            "\"%s\" has an invalid block of %llu bytes with stride %llu: the stride must be "
            "at least the block, and only SRC, DST and WORK can be strided",
            key, (unsigned long long)ref.block, (unsigned long long)ref.stride);
    if (!st && ref.buf == TT_BUF_THERE && ref.offset)
        return tt_json_wrong_key(&r->at, key, "\"%s\" has an offset, which THERE does not support",
                                 key);
    if (!st)
        *out = ref;
    return st;
}

static tutti_status read_message(const struct reader *r, struct json_object *o, struct tt_step *s)
{
    uint64_t peer = 0, tag = 0;
    tutti_status st = plan_read_number(r, o, "peer", true, r->p->nranks - 1, &peer);

    if (!st && peer == (uint64_t)r->rank)
        st = tt_json_wrong_key(&r->at, "peer", "\"peer\" is the rank itself");
    if (!st)
        st = plan_read_number(r, o, "tag", false, UINT32_MAX, &tag);
    s->peer = (uint32_t)peer;
    s->tag = (uint32_t)tag;
    return st;
}

static tutti_status read_step(const struct reader *r, struct json_object *o, struct tt_step *out)
{
    static const struct {
        const char *op;
        const char *members[6];
        size_t n;
    } kinds[] = {
        [TT_PUT] = { "put", { "op", "peer", "tag", "bytes", "from", "to" }, 6 },
        [TT_WAIT] = { "wait", { "op", "peer", "tag", "bytes", "to" }, 5 },
        [TT_REDUCE_STEP] = { "reduce", { "op", "bytes", "to", "a", "b", "finish" }, 6 },
        [TT_COPY] = { "copy", { "op", "bytes", "to", "from" }, 4 },
    };
    struct tt_step s = { 0 };
    const char *op = json_object_is_type(o, json_type_object) ? json_text(o, "op") : NULL;
    tutti_status st;

    while (op && s.opcode <= TT_COPY && strcmp(op, kinds[s.opcode].op) != 0)
        s.opcode++;
    if (!op || s.opcode > TT_COPY)
        return tt_json_wrong_key(&r->at, "op", "\"op\" must be put, wait, reduce or copy");
    st = tt_json_members(&r->at, o, "the step", kinds[s.opcode].members, kinds[s.opcode].n);
    if (!st)
        st = plan_read_number(r, o, "bytes", true, NUMBER_MAX, &s.bytes);
    if (!st)
        st = read_ref(r, o, "to", s.opcode == TT_PUT, &s.out);
    if (!st && (s.opcode == TT_PUT || s.opcode == TT_WAIT))
        st = read_message(r, o, &s);
    if (!st && (s.opcode == TT_PUT || s.opcode == TT_COPY))
        st = read_ref(r, o, "from", false, &s.a);
    if (!st && s.opcode == TT_REDUCE_STEP)
        st = read_ref(r, o, "a", false, &s.a);
    if (!st && s.opcode == TT_REDUCE_STEP)
        st = read_ref(r, o, "b", false, &s.b);
    if (!st)
        st = tt_json_flag(&r->at, o, "finish", &s.finish);
    if (!st)
        *out = s;
    return st;
}

static tutti_status plan_add_step(const struct reader *r, const struct tt_step *s)
{
    struct tt_plan_file *p = r->p;
    struct tt_step *more;

    if (p->nsteps == TT_PLAN_STEPS_MAX)
        return tt_json_wrong(&r->at, "too many steps: the maximum is %u", TT_PLAN_STEPS_MAX);
    if (p->nsteps == p->steps_cap) {
        p->steps_cap = p->steps_cap ? 2 * p->steps_cap : 256;
        more = realloc(p->step, p->steps_cap * sizeof *more);
        if (!more)
            return tt_fail(TUTTI_ERR_NOMEM, "plan %s: out of memory for %llu steps", r->at.from,
                           (unsigned long long)p->steps_cap);
        p->step = more;
    }
    p->step[p->nsteps++] = *s;
    return TUTTI_OK;
}

static tutti_status read_round(struct reader *r, struct json_object *round)
{
    tutti_status st = TUTTI_OK;

    if (!json_object_is_type(round, json_type_array) ||
        json_object_array_length(round) > TT_ROUND_STEPS_MAX)
        return tt_json_wrong(&r->at, "a round must be an array of at most %d steps",
                             TT_ROUND_STEPS_MAX);
    for (size_t i = 0; i < json_object_array_length(round) && !st; i++) {
        struct tt_step step;

        go_to(r, r->rank, r->round, (int64_t)i);
        st = read_step(r, json_object_array_get_idx(round, i), &step);
        if (!st)
            st = plan_add_step(r, &step);
    }
    go_to(r, r->rank, r->round, -1);
    return st;
}

/* Returns the number of distinct peers in the steps from `first` on. */
static uint32_t count_peers(const struct tt_plan_file *p, uint64_t first)
{
    uint8_t met[TT_PLAN_RANKS_MAX] = { 0 };
    uint32_t n = 0;

    for (uint64_t i = first; i < p->nsteps; i++)
        if (p->step[i].opcode == TT_PUT || p->step[i].opcode == TT_WAIT) {
            n += !met[p->step[i].peer];
            met[p->step[i].peer] = 1;
        }
    return n;
}

static tutti_status read_rank(struct reader *r, struct json_object *o)
{
    static const char *const members[] = { "rank", "work_bytes", "rounds" };
    struct tt_plan_file *p = r->p;
    const uint64_t begin = p->nsteps;
    struct json_object *rounds;
    uint64_t rank = 0;
    tutti_status st = tt_json_members(&r->at, o, "the rank", members, 3);

    if (!st)
        st = plan_read_number(r, o, "rank", true, NUMBER_MAX, &rank);
    if (!st && rank != (uint64_t)r->rank)
        st = tt_json_wrong(&r->at, "invalid \"rank\" %llu: ranks must be in ascending order",
                           (unsigned long long)rank);
    if (!st)
        st = plan_read_number(r, o, "work_bytes", false, TT_PLAN_WORK_BYTES_MAX,
                              &p->work_bytes[r->rank]);
    if (st)
        return st;
    if (!json_object_object_get_ex(o, "rounds", &rounds) ||
        !json_object_is_type(rounds, json_type_array))
        return tt_json_wrong_key(&r->at, "rounds", "\"rounds\" must be an array");
    if (json_object_array_length(rounds) != p->nrounds)
        return tt_json_wrong(&r->at, "this rank has %zu round%s, but rank 0 has %llu",
                             json_object_array_length(rounds),
                             TT_PLURAL(json_object_array_length(rounds)),
                             (unsigned long long)p->nrounds);
    for (size_t k = 0; k < p->nrounds && !st; k++) {
        go_to(r, r->rank, (int64_t)k, -1);
        p->first[(uint64_t)r->rank * (p->nrounds + 1) + k] = p->nsteps;
        st = read_round(r, json_object_array_get_idx(rounds, k));
    }
    p->first[(uint64_t)r->rank * (p->nrounds + 1) + p->nrounds] = p->nsteps;
    p->npeers[r->rank] = st ? 0 : count_peers(p, begin);
    go_to(r, r->rank, -1, -1);
    return st;
}

static tutti_status read_ranks(struct reader *r, struct json_object *doc)
{
    struct tt_plan_file *p = r->p;
    struct json_object *ranks, *rounds;
    tutti_status st = TUTTI_OK;

    if (!json_object_object_get_ex(doc, "ranks", &ranks) ||
        !json_object_is_type(ranks, json_type_array) ||
        json_object_array_length(ranks) != p->nranks)
        return tt_json_wrong_key(&r->at, "ranks", "\"ranks\" must be an array of %u rank%s",
                                 p->nranks, TT_PLURAL(p->nranks));
    if (json_object_object_get_ex(json_object_array_get_idx(ranks, 0), "rounds", &rounds) &&
        json_object_is_type(rounds, json_type_array))
        p->nrounds = json_object_array_length(rounds);
    if (p->nrounds > TT_PLAN_STEPS_MAX / p->nranks)
        return tt_json_wrong(&r->at, "too many rounds: %llu on each of %u ranks",
                             (unsigned long long)p->nrounds, p->nranks);
    p->work_bytes = calloc(p->nranks, sizeof *p->work_bytes);
    p->npeers = calloc(p->nranks, sizeof *p->npeers);
    p->first = calloc(p->nranks * (p->nrounds + 1), sizeof *p->first);
    if (!p->work_bytes || !p->npeers || !p->first)
        return tt_fail(TUTTI_ERR_NOMEM, "plan %s: out of memory for %u ranks", r->at.from,
                       p->nranks);
    for (uint32_t i = 0; i < p->nranks && !st; i++) {
        go_to(r, i, -1, -1);
        st = read_rank(r, json_object_array_get_idx(ranks, i));
    }
    go_to(r, -1, -1, -1);
    return st;
}

bool tt_plan_has_root(enum tt_coll_kind kind)
{
    return kind == TT_REDUCE || kind == TT_BROADCAST || kind == TT_GATHER || kind == TT_SCATTER;
}

bool tt_plan_name_is_fine(const char *name, enum tt_coll_kind kind)
{
    const size_t n = strlen(tt_coll_name(kind));

    return strlen(name) < TT_PLAN_NAME_BYTES && strncmp(name, tt_coll_name(kind), n) == 0 &&
           name[n] == '_' && name[n + 1] &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
               strlen(name);
}

static tutti_status read_name(struct reader *r, struct json_object *doc)
{
    const char *coll = json_text(doc, "coll"), *name = json_text(doc, "name");
    struct tt_plan_file *p = r->p;

    if (!coll || !tt_coll_parse(coll, &p->kind) || !tt_plan_has_json(p->kind))
        return tt_json_wrong_key(&r->at, "coll",
                                 "\"coll\" must be a collective that supports plans");
    if (!name || !tt_plan_name_is_fine(name, p->kind))
        return tt_json_wrong_key(
            &r->at, "name",
            "\"name\" must be \"%s_\" followed by letters, digits and _, with fewer "
            "than %u characters in total",
            coll, TT_PLAN_NAME_BYTES);
    memcpy(p->name, name, strlen(name) + 1);
    return TUTTI_OK;
}

static tutti_status plan_read_call(struct reader *r, struct json_object *doc)
{
    static const char *const members[] = { "format",     "name",  "coll",     "nranks", "root",
                                           "elem_bytes", "bytes", "in_place", "ranks" };
    struct tt_plan_file *p = r->p;
    uint64_t nranks = 0, root = 0, elem_bytes = 1;
    const char *format;
    bool in_place = false;
    tutti_status st = tt_json_members(&r->at, doc, "the plan", members, 9);

    if (st)
        return st;
    format = json_text(doc, "format");
    if (!format || strcmp(format, TT_PLAN_FORMAT) != 0)
        return tt_json_wrong_key(&r->at, "format", "\"format\" must be \"%s\"", TT_PLAN_FORMAT);
    st = read_name(r, doc);
    if (!st)
        st = plan_read_number(r, doc, "nranks", true, TT_PLAN_RANKS_MAX, &nranks);
    if (!st && nranks == 0)
        st = tt_json_wrong_key(&r->at, "nranks", "\"nranks\" is 0: must be 1 or more");
    if (!st)
        st = plan_read_number(r, doc, "root", false, nranks - 1, &root);
    if (!st)
        st = plan_read_number(r, doc, "elem_bytes", false, 8, &elem_bytes);
    if (!st && (elem_bytes == 0 || (elem_bytes & (elem_bytes - 1)) != 0))
        st = tt_json_wrong_key(&r->at, "elem_bytes", "\"elem_bytes\" must be 1, 2, 4 or 8");
    if (!st)
        st = plan_read_number(r, doc, "bytes", p->kind != TT_BARRIER, TT_PLAN_BYTES_MAX, &p->bytes);
    if (!st && p->kind != TT_BARRIER && (p->bytes == 0 || p->bytes % elem_bytes != 0))
        st = tt_json_wrong_key(&r->at, "bytes",
                               "\"bytes\" must be a positive multiple of \"elem_bytes\"");
    if (!st && p->kind == TT_BARRIER && p->bytes != 0)
        st = tt_json_wrong_key(&r->at, "bytes", "\"bytes\" of a barrier must be 0");
    if (!st)
        st = tt_json_flag(&r->at, doc, "in_place", &in_place);
    if (!st && in_place)
        st = tt_json_wrong_key(
            &r->at, "in_place",
            "\"in_place\" must be false: a rank cannot detect whether others operate in place");
    p->nranks = (uint32_t)nranks;
    p->root = (uint32_t)root;
    p->elem_bytes = (uint32_t)elem_bytes;
    return st;
}

tutti_status tt_plan_file_read(struct tt_plan_file **out, const char *text, size_t bytes,
                               const char *from)
{
    struct tt_plan_file *p = calloc(1, sizeof *p);
    struct reader r = { .at = { .kind = "plan", .from = from }, .p = p, .rank = -1, .round = -1 };
    struct json_object *doc;
    tutti_status st;

    if (!p)
        return tt_fail(TUTTI_ERR_NOMEM, "plan %s: out of memory", from);
    r.at.text = text;
    r.at.bytes = bytes;
    st = tt_json_parse(&doc, &r.at, text, bytes, TT_PLAN_FILE_BYTES_MAX, DEPTH_MAX);
    if (st) {
        free(p);
        return st;
    }
    st = plan_read_call(&r, doc);
    if (!st)
        st = read_ranks(&r, doc);
    json_object_put(doc);
    if (st)
        tt_plan_file_free(p);
    else
        *out = p;
    return st;
}

void tt_plan_file_free(struct tt_plan_file *p)
{
    free(p->work_bytes);
    free(p->npeers);
    free(p->first);
    free(p->step);
    free(p);
}
