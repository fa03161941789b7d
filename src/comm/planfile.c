#include "comm/planfile.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algos.h"
#include "base/prng.h"
#include "base/status.h"
#include "comm/placement.h"
#include "comm/slots.h"
#include "sched/rounds.h"
#include "sched/verify.h"

#define FORMAT "tutti-plan-1"
#define NAME_BYTES 64u
#define NUMBER_MAX (1ull << 48)
#define DEPTH_MAX 16            /* of arrays and objects within each other; a plan has 7 */
#define WORK_BYTES_MAX (1u << 20)

struct tt_plan_file {
    char name[NAME_BYTES];
    enum tt_coll_kind kind;
    uint32_t nranks, root, elem_bytes;
    uint64_t bytes, nrounds;
    char needs[128];
    uint64_t *work_bytes;       /* [nranks] */
    uint32_t *npeers;           /* [nranks] */
    uint64_t *first;            /* [nranks][nrounds + 1] where a round's steps begin */
    struct tt_step *step;
    uint64_t nsteps, steps_cap;
};

/* ---- reading -------------------------------------------------------------------------------------------- */

/* Where in the document the reader is, for sentences: rank, round and step, as far as it has come. */
struct reader {
    struct tt_plan_file *p;
    const char *from;
    int64_t rank, round, step;      /* -1: not in one */
};

static tutti_status wrong(const struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static tutti_status wrong(const struct reader *r, const char *fmt, ...)
{
    char what[256], where[96] = "";
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (r->step >= 0)
        snprintf(where, sizeof where, "ranks[%lld].rounds[%lld][%lld]: ", (long long)r->rank, (long long)r->round,
                 (long long)r->step);
    else if (r->round >= 0)
        snprintf(where, sizeof where, "ranks[%lld].rounds[%lld]: ", (long long)r->rank, (long long)r->round);
    else if (r->rank >= 0)
        snprintf(where, sizeof where, "ranks[%lld]: ", (long long)r->rank);
    return tt_fail(TUTTI_ERR_INVALID, "plan %s: %s%s", r->from, where, what);
}

/* Every member must be one of the n names. */
static tutti_status check_members(const struct reader *r, struct json_object *o, const char *what,
                                  const char *const *names, size_t n)
{
    if (!json_object_is_type(o, json_type_object))
        return wrong(r, "%s is no object", what);
    json_object_object_foreach(o, key, value)
    {
        size_t i = 0;

        (void)value;
        while (i < n && strcmp(key, names[i]) != 0)
            i++;
        if (i == n)
            return wrong(r, "%s has a member \"%.40s\", which is not known", what, key);
    }
    return TUTTI_OK;
}

/* A whole number of at most `most`; *out is left as it is where the member is not there, unless it must be. */
static tutti_status read_number(const struct reader *r, struct json_object *o, const char *key, bool must,
                                uint64_t most, uint64_t *out)
{
    struct json_object *value;
    int64_t number;

    if (!json_object_object_get_ex(o, key, &value))
        return must ? wrong(r, "\"%s\" is missing", key) : TUTTI_OK;
    number = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : -1;
    if (number < 0 || (uint64_t)number > most)
        return wrong(r, "\"%s\" is no whole number from 0 to %llu", key, (unsigned long long)most);
    *out = (uint64_t)number;
    return TUTTI_OK;
}

static tutti_status read_bool(const struct reader *r, struct json_object *o, const char *key, bool *out)
{
    struct json_object *value;

    if (!json_object_object_get_ex(o, key, &value))
        return TUTTI_OK;
    if (!json_object_is_type(value, json_type_boolean))
        return wrong(r, "\"%s\" is neither true nor false", key);
    *out = json_object_get_boolean(value);
    return TUTTI_OK;
}

/* The member's text; NULL if there is none. */
static const char *text_of(struct json_object *o, const char *key)
{
    struct json_object *value;

    if (!json_object_object_get_ex(o, key, &value) || !json_object_is_type(value, json_type_string))
        return NULL;
    return json_object_get_string(value);
}

static tutti_status read_ref(const struct reader *r, struct json_object *step, const char *key, bool may_be_there,
                             struct tt_ref *out)
{
    static const char *const members[] = { "buf", "offset", "block", "stride" };
    static const char *const bufs[] = { "SRC", "DST", "WORK", "PIPE", "THERE" };
    struct json_object *o;
    struct tt_ref ref = { 0 };
    const char *buf;
    tutti_status st;

    if (!json_object_object_get_ex(step, key, &o))
        return wrong(r, "\"%s\" is missing", key);
    st = check_members(r, o, key, members, 4);
    if (st)
        return st;
    buf = text_of(o, "buf");
    while (buf && ref.buf <= TT_BUF_THERE && strcmp(buf, bufs[ref.buf]) != 0)
        ref.buf++;
    if (!buf || ref.buf > TT_BUF_THERE || (ref.buf == TT_BUF_THERE && !may_be_there))
        return wrong(r, "\"%s\" is in no buffer that it may be in", key);
    st = read_number(r, o, "offset", ref.buf != TT_BUF_THERE, NUMBER_MAX, &ref.offset);
    if (!st)
        st = read_number(r, o, "block", false, NUMBER_MAX, &ref.block);
    if (!st)
        st = read_number(r, o, "stride", ref.block > 0, NUMBER_MAX, &ref.stride);
    if (!st && ref.block > 0 && (ref.stride < ref.block || ref.buf >= TT_BUF_PIPE))
        return wrong(r, "\"%s\" cannot have pieces of %llu bytes, %llu apart", key, (unsigned long long)ref.block,
                     (unsigned long long)ref.stride);
    if (!st && ref.buf == TT_BUF_THERE && ref.offset)
        return wrong(r, "\"%s\" is THERE, and has an offset", key);
    if (!st)
        *out = ref;
    return st;
}

static tutti_status read_message(const struct reader *r, struct json_object *o, struct tt_step *s)
{
    uint64_t peer = 0, tag = 0;
    tutti_status st = read_number(r, o, "peer", true, r->p->nranks - 1, &peer);

    if (!st && peer == (uint64_t)r->rank)
        st = wrong(r, "the peer is the rank itself");
    if (!st)
        st = read_number(r, o, "tag", false, UINT32_MAX, &tag);
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
    const char *op = json_object_is_type(o, json_type_object) ? text_of(o, "op") : NULL;
    tutti_status st;

    while (op && s.opcode <= TT_COPY && strcmp(op, kinds[s.opcode].op) != 0)
        s.opcode++;
    if (!op || s.opcode > TT_COPY)
        return wrong(r, "\"op\" is none of put, wait, reduce and copy");
    st = check_members(r, o, "the step", kinds[s.opcode].members, kinds[s.opcode].n);
    if (!st)
        st = read_number(r, o, "bytes", true, NUMBER_MAX, &s.bytes);
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
        st = read_bool(r, o, "finish", &s.finish);
    if (!st)
        *out = s;
    return st;
}

static tutti_status add_step(const struct reader *r, const struct tt_step *s)
{
    struct tt_plan_file *p = r->p;
    struct tt_step *more;

    if (p->nsteps == TT_PLAN_STEPS_MAX)
        return wrong(r, "a plan has at most %u steps", TT_PLAN_STEPS_MAX);
    if (p->nsteps == p->steps_cap) {
        p->steps_cap = p->steps_cap ? 2 * p->steps_cap : 256;
        more = realloc(p->step, p->steps_cap * sizeof *more);
        if (!more)
            return tt_fail(TUTTI_ERR_NOMEM, "plan %s: no memory for %llu steps", r->from, (unsigned long long)p->steps_cap);
        p->step = more;
    }
    p->step[p->nsteps++] = *s;
    return TUTTI_OK;
}

static tutti_status read_round(struct reader *r, struct json_object *round)
{
    tutti_status st = TUTTI_OK;

    if (!json_object_is_type(round, json_type_array) || json_object_array_length(round) > TT_ROUND_STEPS_MAX)
        return wrong(r, "a round is an array of at most %d steps", TT_ROUND_STEPS_MAX);
    for (size_t i = 0; i < json_object_array_length(round) && !st; i++) {
        struct tt_step step;

        r->step = (int64_t)i;
        st = read_step(r, json_object_array_get_idx(round, i), &step);
        if (!st)
            st = add_step(r, &step);
    }
    r->step = -1;
    return st;
}

/* Distinct peers of the steps from `first` on. */
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
    tutti_status st = check_members(r, o, "it", members, 3);

    if (!st)
        st = read_number(r, o, "rank", true, NUMBER_MAX, &rank);
    if (!st && rank != (uint64_t)r->rank)
        st = wrong(r, "its rank is %llu; ranks come in order", (unsigned long long)rank);
    if (!st)
        st = read_number(r, o, "work_bytes", false, WORK_BYTES_MAX, &p->work_bytes[r->rank]);
    if (st)
        return st;
    if (!json_object_object_get_ex(o, "rounds", &rounds) || !json_object_is_type(rounds, json_type_array))
        return wrong(r, "\"rounds\" is no array");
    if (json_object_array_length(rounds) != p->nrounds)
        return wrong(r, "it has %zu rounds, and rank 0 %llu", json_object_array_length(rounds), (unsigned long long)p->nrounds);
    for (size_t k = 0; k < p->nrounds && !st; k++) {
        r->round = (int64_t)k;
        p->first[(uint64_t)r->rank * (p->nrounds + 1) + k] = p->nsteps;
        st = read_round(r, json_object_array_get_idx(rounds, k));
    }
    p->first[(uint64_t)r->rank * (p->nrounds + 1) + p->nrounds] = p->nsteps;
    p->npeers[r->rank] = st ? 0 : count_peers(p, begin);
    r->round = -1;
    return st;
}

static tutti_status read_ranks(struct reader *r, struct json_object *doc)
{
    struct tt_plan_file *p = r->p;
    struct json_object *ranks, *rounds;
    tutti_status st = TUTTI_OK;

    if (!json_object_object_get_ex(doc, "ranks", &ranks) || !json_object_is_type(ranks, json_type_array) ||
        json_object_array_length(ranks) != p->nranks)
        return wrong(r, "\"ranks\" is no array of %u ranks", p->nranks);
    if (json_object_object_get_ex(json_object_array_get_idx(ranks, 0), "rounds", &rounds) &&
        json_object_is_type(rounds, json_type_array))
        p->nrounds = json_object_array_length(rounds);
    if (p->nrounds > TT_PLAN_STEPS_MAX / p->nranks)
        return wrong(r, "%llu rounds of %u ranks are too many", (unsigned long long)p->nrounds, p->nranks);
    p->work_bytes = calloc(p->nranks, sizeof *p->work_bytes);
    p->npeers = calloc(p->nranks, sizeof *p->npeers);
    p->first = calloc(p->nranks * (p->nrounds + 1), sizeof *p->first);
    if (!p->work_bytes || !p->npeers || !p->first)
        return tt_fail(TUTTI_ERR_NOMEM, "plan %s: no memory for %u ranks", r->from, p->nranks);
    for (uint32_t i = 0; i < p->nranks && !st; i++) {
        r->rank = i;
        st = read_rank(r, json_object_array_get_idx(ranks, i));
    }
    r->rank = -1;
    return st;
}

/* The kinds whose calls one number tells. */
static bool has_plans(enum tt_coll_kind kind)
{
    switch (kind) {
    case TT_ALLREDUCE: case TT_REDUCE: case TT_REDUCE_SCATTER: case TT_ALLGATHER: case TT_BROADCAST: case TT_GATHER:
    case TT_SCATTER: case TT_ALLTOALL: case TT_BARRIER:
        return true;
    default:
        return false;
    }
}

static bool has_root(enum tt_coll_kind kind)
{
    return kind == TT_REDUCE || kind == TT_BROADCAST || kind == TT_GATHER || kind == TT_SCATTER;
}

static tutti_status read_name(struct reader *r, struct json_object *doc)
{
    const char *coll = text_of(doc, "coll"), *name = text_of(doc, "name");
    struct tt_plan_file *p = r->p;
    size_t n;

    if (!coll || !tt_coll_parse(coll, &p->kind) || !has_plans(p->kind))
        return wrong(r, "\"coll\" names no collective that has plans");
    n = strlen(coll);
    if (!name || strlen(name) >= NAME_BYTES || strncmp(name, coll, n) != 0 || name[n] != '_' || !name[n + 1] ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != strlen(name))
        return wrong(r, "\"name\" is not \"%s_\" and then letters, digits and _, in all fewer than %u", coll, NAME_BYTES);
    memcpy(p->name, name, strlen(name) + 1);
    return TUTTI_OK;
}

static tutti_status read_call(struct reader *r, struct json_object *doc)
{
    static const char *const members[] = { "format", "name", "coll", "nranks", "root", "elem_bytes", "bytes", "in_place", "ranks" };
    struct tt_plan_file *p = r->p;
    uint64_t nranks = 0, root = 0, elem_bytes = 1;
    const char *format;
    bool in_place = false;
    tutti_status st = check_members(r, doc, "the plan", members, 9);

    if (st)
        return st;
    format = text_of(doc, "format");
    if (!format || strcmp(format, FORMAT) != 0)
        return wrong(r, "\"format\" is not \"%s\"", FORMAT);
    st = read_name(r, doc);
    if (!st)
        st = read_number(r, doc, "nranks", true, TT_PLAN_RANKS_MAX, &nranks);
    if (!st && nranks == 0)
        st = wrong(r, "\"nranks\" is 0");
    if (!st)
        st = read_number(r, doc, "root", false, nranks - 1, &root);
    if (!st)
        st = read_number(r, doc, "elem_bytes", false, 8, &elem_bytes);
    if (!st && (elem_bytes == 0 || (elem_bytes & (elem_bytes - 1)) != 0))
        st = wrong(r, "\"elem_bytes\" is none of 1, 2, 4 and 8");
    if (!st)
        st = read_number(r, doc, "bytes", p->kind != TT_BARRIER, NUMBER_MAX / TT_PLAN_RANKS_MAX, &p->bytes);
    if (!st && p->kind != TT_BARRIER && (p->bytes == 0 || p->bytes % elem_bytes != 0))
        st = wrong(r, "\"bytes\" is no whole number of elements, at least one");
    if (!st && p->kind == TT_BARRIER && p->bytes != 0)
        st = wrong(r, "a barrier has no bytes");
    if (!st)
        st = read_bool(r, doc, "in_place", &in_place);
    if (!st && in_place)
        st = wrong(r, "it is for calls in place only; which ranks call so, the others do not know");
    p->nranks = (uint32_t)nranks;
    p->root = (uint32_t)root;
    p->elem_bytes = (uint32_t)elem_bytes;
    return st;
}

static struct json_object *parse(const char *text, size_t bytes, const char *from)
{
    struct json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);
    struct json_object *doc = NULL;
    enum json_tokener_error error;
    size_t at;

    if (!tokener || bytes > TT_PLAN_FILE_BYTES_MAX) {
        tt_fail(bytes > TT_PLAN_FILE_BYTES_MAX ? TUTTI_ERR_INVALID : TUTTI_ERR_NOMEM,
                "plan %s: it has %zu bytes; %u are possible", from, bytes, TT_PLAN_FILE_BYTES_MAX);
        goto free_tokener;
    }
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    doc = json_tokener_parse_ex(tokener, text, (int)bytes);
    error = json_tokener_get_error(tokener);
    at = json_tokener_get_parse_end(tokener);
    if (doc && error == json_tokener_success && strspn(text + at, " \t\r\n") >= bytes - at)
        goto free_tokener;
    tt_fail(TUTTI_ERR_INVALID, "plan %s: byte %zu is no JSON: %s", from, at,
            error == json_tokener_continue  ? "it ends in the middle"
            : error == json_tokener_success ? "something follows the end"
                                            : json_tokener_error_desc(error));
    json_object_put(doc);
    doc = NULL;

free_tokener:
    if (tokener)
        json_tokener_free(tokener);
    return doc;
}

tutti_status tt_plan_file_read(struct tt_plan_file **out, const char *text, size_t bytes, const char *from)
{
    struct tt_plan_file *p = calloc(1, sizeof *p);
    struct reader r = { .p = p, .from = from, .rank = -1, .round = -1, .step = -1 };
    struct json_object *doc;
    tutti_status st;

    if (!p)
        return tt_fail(TUTTI_ERR_NOMEM, "plan %s: no memory", from);
    doc = parse(text, bytes, from);
    if (!doc) {
        free(p);
        return TUTTI_ERR_INVALID;
    }
    st = read_call(&r, doc);
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

/* ---- as an algorithm ---------------------------------------------------------------------------------------- */

/* How many times as long as the plan's the call is. */
static uint64_t times(const struct tt_plan_file *p, const struct tt_coll *c)
{
    return p->bytes ? c->bytes / p->bytes : 1;
}

static uint64_t longest_work(const struct tt_plan_file *p)
{
    uint64_t longest = 0;

    for (uint32_t r = 0; r < p->nranks; r++)
        longest = p->work_bytes[r] > longest ? p->work_bytes[r] : longest;
    return longest;
}

static bool fits(const void *self, const struct tt_coll *c)
{
    const struct tt_plan_file *p = self;
    const uint64_t m = times(p, c), work = longest_work(p);

    if (c->nranks != p->nranks || (has_root(p->kind) && c->root != p->root))
        return false;
    if (p->bytes && c->bytes % p->bytes != 0)
        return false;
    return m * p->elem_bytes % c->elem_bytes == 0 && (work == 0 || m <= WORK_BYTES_MAX / work);
}

static uint64_t nrounds(const void *self, const struct tt_coll *c)
{
    const struct tt_plan_file *p = self;

    (void)c;
    return p->nrounds;
}

static struct tt_ref scaled(struct tt_ref ref, uint64_t m)
{
    if (ref.buf != TT_BUF_PIPE)
        ref.offset *= m;
    ref.block *= m;
    ref.stride *= m;
    return ref;
}

static bool is_same(const struct tt_ref *a, const struct tt_ref *b)
{
    return a->buf == b->buf && a->offset == b->offset && a->block == b->block && a->stride == b->stride;
}

/* In place, a copy of bytes onto themselves is none. */
static void emit_copy(struct tt_sched *s, const struct tt_coll *c, struct tt_ref to, struct tt_ref from, uint64_t bytes)
{
    const struct tt_ref out = tt_coll_canonical(c, to), a = tt_coll_canonical(c, from);

    if (!is_same(&out, &a))
        tt_sched_copy(s, to, from, bytes);
}

static void round_k(const void *self, struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const struct tt_plan_file *p = self;
    const uint64_t *first = &p->first[c->rank * (p->nrounds + 1)], m = times(p, c);

    for (uint64_t i = first[k]; i < first[k + 1]; i++) {
        const struct tt_step *t = &p->step[i];
        const struct tt_ref out = scaled(t->out, m), a = scaled(t->a, m), b = scaled(t->b, m);

        if (t->opcode == TT_PUT)
            tt_sched_put(s, t->peer, a, out, t->bytes * m, t->tag);
        else if (t->opcode == TT_WAIT)
            tt_sched_wait(s, t->peer, out, t->bytes * m, t->tag);
        else if (t->opcode == TT_REDUCE_STEP)
            tt_sched_reduce(s, out, a, b, t->bytes * m, t->finish);
        else
            emit_copy(s, c, out, a, t->bytes * m);
    }
}

static uint64_t work_bytes(const void *self, const struct tt_coll *c)
{
    const struct tt_plan_file *p = self;

    return p->work_bytes[c->rank] * times(p, c);
}

static uint32_t npeers(const void *self, const struct tt_coll *c)
{
    return ((const struct tt_plan_file *)self)->npeers[c->rank];
}

/* Used by name only: nobody knows what its author had in mind. */
static struct tt_cost cost(const void *self, const struct tt_coll *c)
{
    (void)self;
    (void)c;
    return (struct tt_cost){ .messages = INFINITY };
}

static void free_plan(void *self) { tt_plan_file_free(self); }

static const struct tt_slot_ops ops = {
    .fits = fits,
    .nrounds = nrounds,
    .round = round_k,
    .work_bytes = work_bytes,
    .npeers = npeers,
    .cost = cost,
    .free = free_plan,
};

/* ---- proving --------------------------------------------------------------------------------------------------- */

static tutti_status prove(const struct tt_algo *algo, struct tt_coll *coll, uint32_t nranks,
                          enum tt_placement placement, const char *from)
{
    struct tt_program program;
    char why[1024] = "";
    tutti_status st;

    for (uint32_t r = 0; r < nranks; r++)
        coll[r].in_place = tt_placement_of(placement, r);
    st = tt_program_init(&program, algo, coll, nranks);
    if (st)
        return st;
    st = tt_verify(&program, why, sizeof why);
    tt_program_fini(&program);
    if (!st)
        st = tt_rounds_check(algo, coll, nranks, why, sizeof why);
    return st ? tt_fail(st, "plan %s is wrong: %s%s", from, tt_placement_text(placement), why) : TUTTI_OK;
}

static tutti_status prove_all(const struct tt_algo *algo, const struct tt_plan_file *p, const char *from)
{
    struct tt_coll *coll = calloc(p->nranks, sizeof *coll);
    tutti_status st = TUTTI_OK;

    if (!coll)
        return tt_fail(TUTTI_ERR_NOMEM, "plan %s: no memory to prove it", from);
    for (uint32_t r = 0; r < p->nranks; r++)
        coll[r] = (struct tt_coll){
            .kind = p->kind,
            .rank = r,
            .nranks = p->nranks,
            .root = p->root,
            .elem_bytes = p->elem_bytes,
            .bytes = p->bytes,
        };
    for (int i = TT_OUT_OF_PLACE; i < (p->kind == TT_BARRIER ? TT_IN_PLACE : TT_PLACEMENTS) && !st; i++)
        st = prove(algo, coll, p->nranks, (enum tt_placement)i, from);
    free(coll);
    return st;
}

tutti_status tt_plan_file_add(struct tt_plan_file *p, const char *from)
{
    const uint32_t before = tt_slots_taken();
    const struct tt_algo *algo;
    struct tt_algo like = {
        .name = p->name, .summary = "a plan from a file; by name only", .needs = p->needs, .kind = p->kind,
    };
    tutti_status st;
    char root[32];

    root[0] = 0;
    if (has_root(p->kind))
        snprintf(root, sizeof root, ", root %u", p->root);
    snprintf(p->needs, sizeof p->needs, "%u ranks%s, and a multiple of %llu bytes that leaves elements whole",
             p->nranks, root, (unsigned long long)p->bytes);
    algo = tt_slot_take(&like, &ops, p);
    if (!algo)
        return tt_fail(TUTTI_ERR_NOMEM, "plan %s: there is room for %d algorithms from outside", from, TT_SLOTS);
    st = prove_all(algo, p, from);
    if (!st)
        st = tt_algo_add(algo);
    if (st)
        tt_slots_drop(before);
    return st;
}

tutti_status tt_plan_file_load(const char *path, uint64_t *hash)
{
    struct tt_plan_file *p = NULL;
    FILE *f = fopen(path, "rb");
    char *text;
    size_t bytes;
    tutti_status st;

    if (!f)
        return tt_fail_errno(errno, "TUTTI_ALGORITHMS names %s", path);
    text = malloc(TT_PLAN_FILE_BYTES_MAX + 2);
    bytes = text ? fread(text, 1, TT_PLAN_FILE_BYTES_MAX + 1, f) : 0;
    if (!text)
        st = tt_fail(TUTTI_ERR_NOMEM, "plan %s: no memory to read it", path);
    else if (ferror(f))
        st = tt_fail_errno(errno, "plan %s", path);
    else {
        text[bytes] = 0;
        st = tt_plan_file_read(&p, text, bytes, path);
    }
    fclose(f);
    if (!st)
        st = tt_plan_file_add(p, path);
    if (!st)
        *hash = tt_hash_bytes(text, bytes, *hash);
    else if (p)
        tt_plan_file_free(p);
    free(text);
    return st;
}
