/* The collectives in the format of PyTorch's flight recorder: a pickle (protocol 2) per rank, with
 * the keys that torch.distributed.flight_recorder reads. Sends and receives are left out:
 * torchfrtrace matches them only within coalesced groups. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/failed.h"
#include "tools/profile/profile.h"

#define FORMAT_VERSION "2.10"
#define LISTED_MAX (128u << 20)     /* maximum total length of the member lists: about 1 GB */

struct torchfr {
    const struct profiled *p;
    FILE *to;
    uint64_t *first;            /* [ncomms] first collective that all ranks with records have */
    bool *is_used;              /* [ncomms] has collectives */
    char *members;              /* scratch for the longest list of members */
    size_t members_max;
};

/* ---- pickle ---- */

static void put_text(FILE *to, const char *text)
{
    const size_t n = strlen(text);
    const unsigned char size[] = { (unsigned char)n, (unsigned char)(n >> 8),
                                   (unsigned char)(n >> 16), (unsigned char)(n >> 24) };

    putc('X', to);
    fwrite(size, 1, sizeof size, to);
    fwrite(text, 1, n, to);
}

static void put_int(FILE *to, int64_t value)
{
    putc(0x8a, to);             /* LONG1: a byte count, then a little-endian integer */
    putc(8, to);
    for (int k = 0; k < 8; k++)
        putc((int)((uint64_t)value >> 8 * k & 0xff), to);
}

static int64_t int_of(uint64_t n)
{
    return n < INT64_MAX ? (int64_t)n : INT64_MAX;
}

static void put_key_int(FILE *to, const char *key, int64_t value)
{
    put_text(to, key);
    put_int(to, value);
}

static void put_key_text(FILE *to, const char *key, const char *text)
{
    put_text(to, key);
    put_text(to, text);
}

static void put_key_bool(FILE *to, const char *key, bool value)
{
    put_text(to, key);
    putc(value ? 0x88 : 0x89, to);
}

/* A time, or None. */
static void put_key_time(FILE *to, const char *key, int64_t t)
{
    put_text(to, key);
    if (t == TT_DUMPS_NEVER)
        putc('N', to);
    else
        put_int(to, t);
}

/* Key: a list of one text. */
static void put_key_texts(FILE *to, const char *key, const char *text)
{
    put_text(to, key);
    putc(']', to);
    put_text(to, text);
    putc('a', to);
}

/* Key: [[size]]; [[]] if the sizes differ between ranks or are not known. */
static void put_key_sizes(FILE *to, const char *key, int64_t size)
{
    put_text(to, key);
    putc(']', to);
    putc(']', to);
    if (size >= 0) {
        put_int(to, size);
        putc('a', to);
    }
    putc('a', to);
}

/* ---- operations ---- */

enum shape { SAME, GATHERED, SCATTERED, ALL, ONE, UNKNOWN };

/* PyTorch's names of the collectives, and their input and output sizes. */
static const struct kind {
    const char *kind, *torch;
    enum shape shape;
} kinds[] = {
    { "allreduce", "all_reduce", SAME },
    { "reduce", "reduce", SAME },
    { "broadcast", "broadcast", SAME },
    { "reduce_scatter", "_reduce_scatter_base", SCATTERED },
    { "reduce_scatterv", "reduce_scatter_v", UNKNOWN },
    { "allgather", "_all_gather_base", GATHERED },
    { "allgatherv", "all_gather_v", UNKNOWN },
    { "gather", "gather", GATHERED },
    { "gatherv", "gather", UNKNOWN },
    { "scatter", "scatter", SCATTERED },
    { "scatterv", "scatter", UNKNOWN },
    { "alltoall", "all_to_all", ALL },
    { "alltoallv", "all_to_all", UNKNOWN },
    { "barrier", "barrier", ONE },
};

static const struct kind *kind_of(const struct tt_dumps *d, const struct tt_dumps_op *op)
{
    const char *name = tt_dumps_text(d, op->kind);

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && op->class == TT_OP_COLLECTIVE; i++)
        if (strcmp(kinds[i].kind, name) == 0)
            return &kinds[i];
    return NULL;
}

static const char *type_of(const struct tt_dumps *d, const struct tt_dumps_op *op)
{
    static const char *const types[][2] = { { "f16", "Half" },  { "bf16", "BFloat16" },
                                            { "f32", "Float" }, { "f64", "Double" },
                                            { "i8", "Char" },   { "u8", "Byte" },
                                            { "i32", "Int" },   { "i64", "Long" } };
    const char *name = tt_dumps_text(d, op->type);

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i][0], name) == 0)
            return types[i][1];
    return *name ? name : "Byte";
}

static void put_sizes(const struct torchfr *t, const struct tt_dumps_op *op, enum shape shape)
{
    const int64_t one = int_of(op->count);
    int64_t all, in = one, out = one;

    if (__builtin_mul_overflow(one, (int64_t)t->p->dumps.comms[op->comm].members.n, &all))
        all = INT64_MAX;
    if (shape == UNKNOWN)
        in = out = -1;
    else if (shape == ONE)
        in = out = 1;
    if (shape == SCATTERED || shape == ALL)
        in = all;
    if (shape == GATHERED || shape == ALL)
        out = all;
    put_key_sizes(t->to, "input_sizes", in);
    put_key_sizes(t->to, "output_sizes", out);
}

static const char *group_of(const struct tt_dumps *d, uint32_t comm, char out[24])
{
    snprintf(out, 24, "%" PRIx64, d->comms[comm].hash);
    return out;
}

static const char *state_of(const struct tt_dumps_op *op)
{
    if (!op->is_open)
        return "completed";
    return op->started == TT_DUMPS_NEVER ? "scheduled" : "started";
}

static void put_op(const struct torchfr *t, uint64_t number, const struct tt_dumps_op *op,
                   const struct kind *k)
{
    const struct tt_dumps *d = &t->p->dumps;
    const char *type = type_of(d, op);
    char group[24], comm[32], name[64];

    fputs("}(", t->to);
    put_key_int(t->to, "record_id", int_of(number));
    put_key_int(t->to, "pg_id", op->comm);
    put_text(t->to, "process_group");
    put_text(t->to, group_of(d, op->comm, group));
    put_text(t->to, tt_dumps_comm_name(d, op->comm, comm));
    putc(0x86, t->to);          /* TUPLE2 */
    put_key_int(t->to, "collective_seq_id", int_of(op->seq));
    put_key_int(t->to, "p2p_seq_id", 0);
    put_key_int(t->to, "op_id", int_of(op->number));
    put_key_bool(t->to, "is_p2p", false);
    snprintf(name, sizeof name, "c10d:%s", k->torch);
    put_key_text(t->to, "profiling_name", name);
    put_sizes(t, op, k->shape);
    put_key_texts(t->to, "input_dtypes", type);
    put_key_texts(t->to, "output_dtypes", type);
    put_key_text(t->to, "state", state_of(op));
    put_key_time(t->to, "time_created_ns", op->called == TT_DUMPS_NEVER ? 0 : op->called);
    put_key_time(t->to, "time_discovered_started_ns", op->started);
    put_key_time(t->to, "time_discovered_completed_ns", op->is_open ? TT_DUMPS_NEVER : op->ended);
    put_key_bool(t->to, "retired", !op->is_open);
    put_text(t->to, "frames");
    putc(']', t->to);
    putc('u', t->to);
}

/* ---- a rank ---- */

/* Returns whether an operation is written. On all ranks, torchfrtrace needs the members of a
 * group, and the same first collective. */
static bool is_written(const struct torchfr *t, const struct tt_dumps_op *op)
{
    return kind_of(&t->p->dumps, op) && t->p->dumps.comms[op->comm].members.n > 0 &&
           op->seq >= t->first[op->comm];
}

/* Returns whether to list the members of a communicator: they are known, and some rank called a
 * collective on it. */
static bool is_listed(const struct torchfr *t, uint32_t comm)
{
    return t->is_used[comm] && t->p->dumps.comms[comm].members.n > 0;
}

/* Returns the number of entries in all lists of members. Each rank lists the members of its
 * communicators. A dump contains members as ranges, so short dumps may have long lists. */
static uint64_t count_listed(const struct torchfr *t)
{
    const struct tt_dumps *d = &t->p->dumps;
    uint64_t n = 0;

    for (size_t i = 0; i < d->nlocals; i++)
        if (is_listed(t, d->locals[i].comm))
            n += d->comms[d->locals[i].comm].members.n;
    return n;
}

/* Key: "[0, 1, 2]". */
static void put_members(const struct torchfr *t, const struct tt_dumps_comm *c)
{
    uint32_t range = 0, i = 0, rank;
    size_t n = 0;

    put_text(t->to, "ranks");
    for (bool more = false; tt_members_next(&c->members, &range, &i, &rank); more = true)
        n += (size_t)snprintf(t->members + n, t->members_max - n, more ? ", %u" : "[%u", rank);
    snprintf(t->members + n, t->members_max - n, "]");
    put_text(t->to, t->members);
}

static void put_groups(const struct torchfr *t, uint32_t rank)
{
    const struct tt_dumps *d = &t->p->dumps;
    const struct tt_dumps_rank *r = &d->ranks[rank];
    char group[24], name[32];

    put_text(t->to, "pg_config");
    fputs("}(", t->to);
    for (uint32_t k = 0; k < r->nlocals; k++) {
        const uint32_t comm = d->locals[r->locals_first + k].comm;

        if (!is_listed(t, comm))
            continue;
        put_text(t->to, group_of(d, comm, group));
        fputs("}(", t->to);
        put_key_text(t->to, "name", group);
        put_key_text(t->to, "desc", tt_dumps_comm_name(d, comm, name));
        put_members(t, &d->comms[comm]);
        putc('u', t->to);
    }
    putc('u', t->to);
}

static void put_rank(const struct torchfr *t, uint32_t rank)
{
    const struct tt_dumps *d = &t->p->dumps;
    const struct tt_dumps_rank *r = &d->ranks[rank];
    uint64_t number = 0;

    fputs("\x80\x02}(", t->to);
    put_key_text(t->to, "version", FORMAT_VERSION);
    put_key_int(t->to, "rank", rank);
    put_key_text(t->to, "host_name", tt_dumps_text(d, r->host));
    put_groups(t, rank);
    put_text(t->to, "entries");
    fputs("](", t->to);
    for (uint32_t k = 0; k < r->nops; k++) {
        const struct tt_dumps_op *op = &d->ops[r->ops_first + k];

        if (is_written(t, op))
            put_op(t, number++, op, kind_of(d, op));
    }
    fputs("eu.", t->to);
}

static bool write_rank(struct torchfr *t, const char *folder, uint32_t rank)
{
    char path[4096];
    bool failed;

    snprintf(path, sizeof path, "%s/tutti_%u", folder, rank);
    t->to = fopen(path, "we");
    failed = t->to == NULL;
    if (t->to) {
        put_rank(t, rank);
        failed = ferror(t->to) != 0;
        failed |= fclose(t->to) != 0;
    }
    if (failed)
        fprintf(stderr, "tutti profile: cannot write %s: %s%s\n", path, strerror(errno),
                errno == EFBIG ? FILE_SIZE_HINT : "");
    return !failed;
}

/* Finds the communicators with collectives. The first collective of each is one that all ranks
 * with records of it have, because the older records of some ranks may have been overwritten. */
static bool find_first(struct torchfr *t)
{
    const struct tt_dumps *d = &t->p->dumps;
    const struct tt_instances *in = &t->p->instances;
    uint64_t *lowest = calloc(d->nlocals + 1, sizeof *lowest);

    if (!lowest)
        return false;
    for (size_t i = 0; i < d->nlocals; i++)
        lowest[i] = UINT64_MAX;
    for (uint32_t i = 0; i < in->norder; i++) {
        const struct tt_dumps_op *op = &d->ops[in->order[i]];
        const struct tt_dumps_local *l = tt_dumps_local_of(d, op->comm, op->rank);

        if (!kind_of(d, op))
            continue;
        t->is_used[op->comm] = true;
        if (l && op->seq < lowest[l - d->locals])
            lowest[l - d->locals] = op->seq;
    }
    for (size_t i = 0; i < d->nlocals; i++)
        if (lowest[i] != UINT64_MAX && lowest[i] > t->first[d->locals[i].comm])
            t->first[d->locals[i].comm] = lowest[i];
    free(lowest);
    return true;
}

static bool make_folder(const char *folder)
{
    if (mkdir(folder, 0777) == 0 || errno == EEXIST)
        return true;
    fprintf(stderr, "tutti profile: cannot create %s: %s\n", folder, strerror(errno));
    return false;
}

/* Checks the size of the output before the first file is written. */
static bool is_small(const struct torchfr *t)
{
    const uint64_t n = count_listed(t);

    if (n <= LISTED_MAX)
        return true;
    fprintf(stderr,
            "tutti profile: --torchfr: the member lists have too many entries: %" PRIu64 " (the "
            "maximum is %u; use the dumps of fewer ranks)\n",
            n, LISTED_MAX);
    return false;
}

bool profile_write_torchfr(const struct profiled *p, const char *folder)
{
    const struct tt_dumps *d = &p->dumps;
    struct torchfr t = { .p = p, .members_max = 16 + 12ul * d->nranks };
    bool good;

    t.first = calloc(d->ncomms + 1ul, sizeof *t.first);
    t.is_used = calloc(d->ncomms + 1ul, sizeof *t.is_used);
    t.members = malloc(t.members_max);
    good = t.first && t.is_used && t.members && find_first(&t);
    if (!good)
        fprintf(stderr, "tutti profile: out of memory\n");
    good = good && is_small(&t) && make_folder(folder);
    for (uint32_t r = 0; r < d->nranks && good; r++)
        if (d->ranks[r].has_dump)
            good = write_rank(&t, folder, r);
    free(t.first);
    free(t.is_used);
    free(t.members);
    return good;
}
