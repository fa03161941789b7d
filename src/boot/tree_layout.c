#include "boot/tree_layout.h"

#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "base/sparse.h"
#include "base/status.h"

#define VARINT_BYTES_MAX 5u

static void write_varint(struct tt_writer *w, uint32_t v)
{
    while (v >= 0x80) {
        tt_write_u8(w, (uint8_t)(v | 0x80));
        v >>= 7;
    }
    tt_write_u8(w, (uint8_t)v);
}

static uint32_t read_varint(struct tt_reader *r)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 7 * VARINT_BYTES_MAX; shift += 7) {
        const uint8_t byte = tt_read_u8(r);

        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            if (v > UINT32_MAX)
                r->bad = true;
            return r->bad ? 0 : (uint32_t)v;
        }
    }
    r->bad = true;
    return 0;
}

/* ---- the different sequences of places ---- */

struct sequence {
    size_t at, bytes;               /* in `places` */
    uint32_t count;
    uint32_t next;                  /* another sequence with an equal hash: index + 1; 0: none */
};

struct sequences {
    struct sequence *list;          /* [n] of cap */
    uint32_t n, cap;
    uint8_t *places;                /* [used] of places_cap: size, 8 bits, and bytes of each */
    size_t used, places_cap;
    struct tt_sparse by_hash;       /* 32 bits of the hash: the last sequence that has it */
};

static void sequences_fini(struct sequences *s)
{
    tt_sparse_fini(&s->by_hash);
    free(s->list);
    free(s->places);
}

/* Appends a place. Returns false if out of memory. */
static bool append_place(struct sequences *s, const uint8_t *place, uint8_t bytes)
{
    const size_t need = s->used + 1u + bytes;

    if (need > s->places_cap) {
        const size_t cap = 2 * need + 1024;
        uint8_t *places = realloc(s->places, cap);

        if (!places)
            return false;
        s->places = places;
        s->places_cap = cap;
    }
    s->places[s->used] = bytes;
    if (bytes)
        memcpy(s->places + s->used + 1, place, bytes);
    s->used = need;
    return true;
}

/* Appends the places of runs[n]. Returns false if out of memory. */
static bool append_runs(struct sequences *s, const struct tt_tree_run *runs, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        struct tt_record_stream in = { .n = 0 };
        struct tt_reader r;

        tt_reader_init(&r, runs[k].places, runs[k].places_bytes);
        for (uint32_t i = 0; i < runs[k].count; i++) {
            if (runs[k].places)
                tt_record_read(&in, &r);
            if (!append_place(s, in.entry.record, (uint8_t)in.entry.bytes))
                return false;
        }
        tt_assert(!r.bad);
    }
    return true;
}

static bool is_sequence(const struct sequences *s, const struct sequence *a,
                        const struct sequence *b)
{
    return a->count == b->count && a->bytes == b->bytes &&
           memcmp(s->places + a->at, s->places + b->at, a->bytes) == 0;
}

static bool add_sequence(struct sequences *s, const struct sequence *q)
{
    if (s->n == s->cap) {
        const uint32_t cap = s->cap ? 2 * s->cap : 8;
        struct sequence *list = realloc(s->list, cap * sizeof *list);

        if (!list)
            return false;
        s->list = list;
        s->cap = cap;
    }
    s->list[s->n++] = *q;
    return true;
}

/* Sets *index to the sequence of the places of runs[n], which have `count` ranks. Returns false if
 * out of memory. */
static bool sequence_of(struct sequences *s, const struct tt_tree_run *runs, uint32_t n,
                        uint32_t count, uint32_t *index)
{
    struct sequence q = { .at = s->used, .count = count };
    uint32_t hash, last;

    if (!append_runs(s, runs, n))
        return false;
    q.bytes = s->used - q.at;
    hash = (uint32_t)tt_hash_bytes(s->places + q.at, q.bytes, 0);
    last = (uint32_t)(uintptr_t)tt_sparse_get(&s->by_hash, hash);
    for (uint32_t i = last; i > 0; i = s->list[i - 1].next)
        if (is_sequence(s, &s->list[i - 1], &q)) {
            s->used = q.at;
            *index = i - 1;
            return true;
        }
    q.next = last;
    *index = s->n;
    return add_sequence(s, &q) && tt_sparse_set(&s->by_hash, hash, (void *)(uintptr_t)s->n);
}

/* ---- encoding ---- */

/* The groups, before they are written. */
struct groups {
    struct tt_tree_group *list;     /* [n]; one for each run at most */
    uint32_t n;
};

static void add_group(struct groups *s, const struct tt_tree_group *host)
{
    struct tt_tree_group *last = s->n ? &s->list[s->n - 1] : NULL;

    if (last && last->count == host->count && last->sequence == host->sequence &&
        host->host == last->host + last->nhosts)
        last->nhosts++;
    else
        s->list[s->n++] = *host;
}

/* Runs that differ only in their settings, or in their reporters, are one run of a host here. */
static uint32_t host_run(const struct tt_tree_run *runs, uint32_t n, uint32_t *count)
{
    uint32_t k = 0;

    *count = 0;
    do
        *count += runs[k++].count;
    while (k < n && runs[k].host == runs[0].host);
    return k;
}

/* Returns false if out of memory. */
static bool collect_groups(struct groups *groups, struct sequences *sequences,
                           const struct tt_tree_run *runs, uint32_t n, uint32_t nranks)
{
    uint32_t *index = calloc(nranks, sizeof *index), nhosts = 0;    /* index: plus 1 */
    bool places = false, ok = index != NULL;

    for (uint32_t i = 0; i < n; i++)
        places |= runs[i].places != NULL;
    for (uint32_t i = 0, k; i < n && ok; i += k) {
        struct tt_tree_group g = { .nhosts = 1 };

        k = host_run(runs + i, n - i, &g.count);
        if (!index[runs[i].host])
            index[runs[i].host] = ++nhosts;
        g.host = index[runs[i].host] - 1;
        ok = !places || sequence_of(sequences, runs + i, k, g.count, &g.sequence);
        if (ok)
            add_group(groups, &g);
    }
    free(index);
    return ok;
}

static size_t layout_bytes_max(const struct groups *groups, const struct sequences *s)
{
    size_t bytes = TT_TREE_LAYOUT_HEAD_BYTES + (size_t)groups->n * 3 * VARINT_BYTES_MAX + s->used;

    for (uint32_t i = 0; i < s->n; i++)
        bytes += 4 + (size_t)s->list[i].count * TT_RECORD_OVERHEAD;
    return bytes;
}

static void write_places(const struct sequences *s, struct tt_writer *w)
{
    struct tt_record_stream out = { .n = 0 };

    for (uint32_t i = 0; i < s->n; i++) {
        const uint8_t *at = s->places + s->list[i].at;

        for (uint32_t k = 0; k < s->list[i].count; k++) {
            tt_record_write(&out, w, 0, at + 1, *at);
            at += 1 + *at;
        }
    }
}

static void write_layout(const struct groups *groups, const struct sequences *s,
                         struct tt_writer *w)
{
    struct tt_writer places_bytes;
    const uint8_t *begin;

    tt_write_u32(w, s->n);
    tt_writer_init(&places_bytes, tt_writer_reserve(w, 4), 4);
    for (uint32_t i = 0; i < s->n; i++)
        tt_write_u32(w, s->list[i].count);
    begin = w->at;
    write_places(s, w);
    tt_write_u32(&places_bytes, (uint32_t)(w->at - begin));
    for (uint32_t i = 0; i < groups->n; i++) {
        const struct tt_tree_group *g = &groups->list[i];

        write_varint(w, g->host);
        write_varint(w, g->nhosts);
        write_varint(w, s->n ? g->sequence : g->count);
    }
    tt_assert(!w->bad);
}

uint8_t *tt_tree_encode_layout(const struct tt_tree_run *runs, uint32_t n, uint32_t nranks,
                               size_t *bytes)
{
    struct groups groups = { .list = calloc(n + 1u, sizeof *groups.list) };
    struct sequences sequences = { .n = 0 };
    uint8_t *out = NULL;
    struct tt_writer w;

    if (groups.list && collect_groups(&groups, &sequences, runs, n, nranks)) {
        const size_t cap = layout_bytes_max(&groups, &sequences);

        out = malloc(cap);
        if (out) {
            tt_writer_init(&w, out, cap);
            write_layout(&groups, &sequences, &w);
            *bytes = tt_writer_bytes(&w);
        }
    }
    sequences_fini(&sequences);
    free(groups.list);
    return out;
}

/* ---- reading ---- */

static uint32_t length_of(const struct tt_tree_layout *l, uint32_t sequence)
{
    struct tt_reader r;

    tt_reader_init(&r, l->lengths + 4 * (size_t)sequence, 4);
    return tt_read_u32(&r);
}

void tt_tree_layout_open(struct tt_tree_layout *out, const uint8_t *layout, size_t bytes)
{
    struct tt_reader *r = &out->groups;
    uint32_t places_bytes;

    tt_reader_init(r, layout, bytes);
    out->nsequences = tt_read_u32(r);
    places_bytes = tt_read_u32(r);
    if (out->nsequences > (size_t)(r->end - r->at) / 4)     /* the product may overflow */
        r->bad = true;
    out->lengths = tt_reader_take(r, r->bad ? 0 : (size_t)out->nsequences * 4);
    tt_reader_init(&out->places, tt_reader_take(r, places_bytes), places_bytes);
    if (r->bad)
        out->nsequences = 0;
}

bool tt_tree_layout_next(struct tt_tree_layout *l, struct tt_tree_group *out)
{
    struct tt_reader *r = &l->groups;

    if (r->bad || r->at == r->end)
        return false;
    *out = (struct tt_tree_group){ .host = read_varint(r) };
    out->nhosts = read_varint(r);
    out->count = read_varint(r);
    if (l->nsequences && out->count >= l->nsequences)
        r->bad = true;
    if (l->nsequences && !r->bad) {
        out->sequence = out->count;
        out->count = length_of(l, out->sequence);
    }
    if (out->nhosts == 0 || out->count == 0)
        r->bad = true;
    return !r->bad;
}

/* Returns whether the sequences have at most nranks places, all of them valid. */
static bool places_are_valid(const struct tt_tree_layout *l, uint32_t nranks)
{
    struct tt_record_stream in = { .n = 0 };
    struct tt_reader r = l->places;
    uint64_t nplaces = 0;

    for (uint32_t i = 0; i < l->nsequences && nplaces <= nranks; i++)
        nplaces += length_of(l, i);
    if (nplaces > nranks)
        return false;
    for (uint64_t i = 0; i < nplaces && !r.bad; i++) {
        tt_record_read(&in, &r);
        if (in.entry.bytes > TT_TREE_PLACE_MAX)
            return false;
    }
    return !r.bad && r.at == r.end;
}

bool tt_tree_layout_is_valid(const uint8_t *layout, size_t bytes, uint32_t nranks)
{
    uint64_t ranks = 0, nhosts = 0;
    struct tt_tree_layout l;
    struct tt_tree_group g;

    tt_tree_layout_open(&l, layout, bytes);
    if (l.groups.bad || !places_are_valid(&l, nranks))
        return false;
    while (tt_tree_layout_next(&l, &g)) {
        if (g.host > nhosts)
            return false;
        if ((uint64_t)g.host + g.nhosts > nhosts)
            nhosts = (uint64_t)g.host + g.nhosts;
        ranks += (uint64_t)g.nhosts * g.count;
        if (ranks > nranks)
            return false;
    }
    return !l.groups.bad && ranks == nranks;
}

/* ---- ranks ---- */

/* Unpacks the places of all sequences. Returns false if out of memory. */
static bool unpack_places(struct tt_tree_walk *w)
{
    struct tt_record_stream in = { .n = 0 };
    struct tt_reader r = w->layout.places;
    struct sequences s = { .n = 0 };
    bool ok = true;

    for (uint32_t i = 0; i < w->layout.nsequences && ok; i++) {
        w->starts[i] = s.used;
        for (uint32_t k = length_of(&w->layout, i); k > 0 && ok; k--) {
            tt_record_read(&in, &r);
            ok = append_place(&s, in.entry.record, (uint8_t)in.entry.bytes);
        }
    }
    tt_assert(!r.bad);
    w->places = s.places;
    return ok;
}

tutti_status tt_tree_walk_init(struct tt_tree_walk *w, const uint8_t *layout, size_t bytes)
{
    *w = (struct tt_tree_walk){ .at = 0 };
    tt_tree_layout_open(&w->layout, layout, bytes);
    w->starts = calloc(w->layout.nsequences + 1u, sizeof *w->starts);
    if (w->starts && unpack_places(w))
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the places of the ranks of a job");
}

void tt_tree_walk_fini(struct tt_tree_walk *w)
{
    free(w->starts);
    free(w->places);
    w->starts = NULL;
    w->places = NULL;
}

uint32_t tt_tree_walk_next(struct tt_tree_walk *w, const uint8_t **place, uint8_t *bytes)
{
    uint32_t host;

    if (w->at == (uint64_t)w->group.nhosts * w->group.count) {
        const bool more = tt_tree_layout_next(&w->layout, &w->group);

        tt_assert(more);
        w->at = 0;
    }
    if (w->at % w->group.count == 0)
        w->next = w->starts[w->group.sequence];
    host = w->group.host + w->at++ / w->group.count;
    *place = NULL;
    *bytes = 0;
    if (w->layout.nsequences) {
        *bytes = w->places[w->next];
        *place = w->places + w->next + 1;
        w->next += 1u + *bytes;
    }
    return host;
}
