#include "support/cases.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "support/unit.h"

bool case_is_rooted(enum tt_coll_kind kind)
{
    return kind == TT_REDUCE || kind == TT_BROADCAST || kind == TT_GATHER || kind == TT_GATHERV ||
           kind == TT_SCATTER || kind == TT_SCATTERV;
}

bool case_is_v(enum tt_coll_kind kind)
{
    return kind == TT_REDUCE_SCATTERV || kind == TT_ALLGATHERV || kind == TT_GATHERV ||
           kind == TT_SCATTERV || kind == TT_ALLTOALLV;
}

static bool is_p2p(enum tt_coll_kind kind)
{
    return kind == TT_SEND || kind == TT_RECV;
}

bool case_exists(const struct case_spec *spec)
{
    const enum tt_coll_kind kind = spec->algo->kind;

    if (spec->place != OUT_OF_PLACE &&
        (spec->algo->by_stretches || kind == TT_BARRIER || is_p2p(kind)))
        return false;
    if (!spec->packed && (!case_is_v(kind) || kind == TT_REDUCE_SCATTERV))
        return false;
    if (is_p2p(kind))
        return spec->nranks == 2 && spec->root == 0;
    return spec->root == 0 || case_is_rooted(kind);
}

/* Draws the sizes of n blocks, about a third of them 0. */
static void draw_sizes(uint64_t *bytes, uint32_t n, const struct case_spec *spec, struct tt_prng *p)
{
    for (uint32_t i = 0; i < n; i++)
        bytes[i] =
            tt_prng_below(p, 3) ? tt_prng_below(p, 2 * spec->count + 1) * spec->elem_bytes : 0;
}

/* Sets the displacements of n blocks: in sequence, or in reverse order with gaps. */
static void draw_displs(uint64_t *displs, const uint64_t *bytes, uint32_t n,
                        const struct case_spec *spec)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t block = spec->packed ? i : n - 1 - i;

        displs[block] = at;
        at += bytes[block] + (spec->packed ? 0 : (i % 3) * spec->elem_bytes);
    }
}

#define STRETCHES_MAX 10    /* per pair of ranks; more than one round handles */

/* Draws the stretches that one rank sends to another: adjacent ones or with gaps; none for a third
 * of the pairs. Returns the end of the last one. */
static uint64_t draw_stretches(struct tt_stretch *out, uint64_t *n, const struct case_spec *spec,
                               struct tt_prng *p)
{
    const uint32_t few = CASE_STRETCHES / spec->nranks,
                   most = few < STRETCHES_MAX ? few : STRETCHES_MAX;
    const uint64_t each = 1 + 2 * spec->count / most;
    uint64_t at = 0;

    *n = tt_prng_below(p, 3) ? 1 + tt_prng_below(p, most) : 0;
    for (uint64_t i = 0; i < *n; i++) {
        out[i].offset = at + tt_prng_below(p, 3) * spec->elem_bytes;
        out[i].bytes = (1 + tt_prng_below(p, each)) * spec->elem_bytes;
        at = out[i].offset + out[i].bytes;
    }
    return at;
}

/* Lists the stretches that each rank receives, from the lists of the senders. */
static void list_received(struct case_calls *out, uint32_t nranks)
{
    for (uint32_t r = 0; r < nranks; r++) {
        uint64_t at = 0;

        for (uint32_t from = 0; from < nranks; from++) {
            out->recv_first[r][from] = at;
            for (uint64_t i = out->send_first[from][r];
                 i < out->send_first[from][r + 1] && from != r; i++)
                out->received[r][at++] = out->sent[from][i];
        }
        out->recv_first[r][nranks] = at;
    }
}

/* Draws blocks of which only stretches are sent. */
static void draw_stretched_sizes(struct case_calls *out, const struct case_spec *spec,
                                 struct tt_prng *p)
{
    const uint32_t nranks = spec->nranks;
    uint64_t most = 1;

    for (uint32_t r = 0; r < nranks; r++) {
        uint64_t at = 0, n;

        for (uint32_t to = 0; to < nranks; to++, at += n) {
            out->send_first[r][to] = at;
            out->send_bytes[r][to] = draw_stretches(&out->sent[r][at], &n, spec, p);
            most = n > most ? n : most;
        }
        out->send_first[r][nranks] = at;
    }
    list_received(out, nranks);
    for (uint32_t r = 0; r < nranks; r++)
        out->stretches[r] = (struct tt_stretches){
            .send = out->sent[r], .recv = out->received[r], .send_first = out->send_first[r],
            .recv_first = out->recv_first[r], .most = most,
        };
}

static void make_alltoallv(struct case_calls *out, const struct case_spec *spec, struct tt_prng *p)
{
    if (spec->algo->by_stretches)
        draw_stretched_sizes(out, spec, p);
    for (uint32_t r = 0; r < spec->nranks && !spec->algo->by_stretches; r++)
        draw_sizes(out->send_bytes[r], spec->nranks, spec, p);
    /* rows that are exchanged in place */
    for (uint32_t r = 0; r < spec->nranks && spec->place != OUT_OF_PLACE; r++)
        for (uint32_t i = 0; i < r; i++)
            out->send_bytes[r][i] = out->send_bytes[i][r];
    for (uint32_t r = 0; r < spec->nranks; r++)
        for (uint32_t i = 0; i < spec->nranks; i++)
            out->recv_bytes[r][i] = out->send_bytes[i][r];
    for (uint32_t r = 0; r < spec->nranks; r++) {
        draw_displs(out->send_displs[r], out->send_bytes[r], spec->nranks, spec);
        draw_displs(out->recv_displs[r], out->recv_bytes[r], spec->nranks, spec);
        if (spec->algo->by_stretches && spec->seed % 2)     /* overlapping bytes: the same piece is
                                                               sent to several ranks */
            memset(out->send_displs[r], 0, spec->nranks * sizeof out->send_displs[r][0]);
    }
}

/* For algorithms with chunks: draws up to three chunks per rank, of which few may be in flight. */
static void draw_chunks(struct case_calls *out, const struct case_spec *spec, struct tt_prng *p)
{
    const uint64_t chunk =
        spec->count * spec->elem_bytes / spec->nranks / (1 + tt_prng_below(p, 3));
    const uint32_t chunks = 1 + (uint32_t)tt_prng_below(p, 4);

    for (uint32_t r = 0; r < spec->nranks; r++) {
        out->coll[r].chunk_bytes = chunk > 0 ? chunk : 1;
        out->coll[r].chunks = chunks;
    }
}

void case_make(struct case_calls *out, const struct case_spec *spec)
{
    const enum tt_coll_kind kind = spec->algo->kind;
    struct tt_prng p;

    tt_prng_init(&p, spec->seed);
    if (kind == TT_ALLTOALLV) {
        make_alltoallv(out, spec, &p);
    } else if (case_is_v(kind)) {
        draw_sizes(out->send_bytes[0], spec->nranks, spec, &p);
        draw_displs(out->send_displs[0], out->send_bytes[0], spec->nranks, spec);
    }
    for (uint32_t r = 0; r < spec->nranks; r++) {
        struct tt_coll *c = &out->coll[r];
        const bool sends = kind == TT_SCATTERV || kind == TT_REDUCE_SCATTERV;

        *c = (struct tt_coll){
            .kind = kind,
            .rank = r,
            .nranks = spec->nranks,
            .root = spec->root,
            .elem_bytes = spec->elem_bytes,
            .layout = case_layout(spec->layout, spec->nranks),
            .in_place = spec->place == IN_PLACE || (spec->place == MIXED && r % 2 == 1),
            .bytes = case_is_v(kind) || kind == TT_BARRIER ? 0 : spec->count * spec->elem_bytes,
        };
        if (is_p2p(kind)) {
            c->kind = r == 0 ? TT_SEND : TT_RECV;
            c->root = 1 - r;
        }
        if (kind == TT_ALLTOALLV) {
            c->send_bytes = out->send_bytes[r];
            c->send_displs = out->send_displs[r];
            c->recv_bytes = out->recv_bytes[r];
            c->recv_displs = out->recv_displs[r];
            c->stretches = spec->algo->by_stretches ? &out->stretches[r] : NULL;
        } else if (case_is_v(kind)) {
            *(sends ? &c->send_bytes : &c->recv_bytes) = out->send_bytes[0];
            *(sends ? &c->send_displs : &c->recv_displs) = out->send_displs[0];
        }
    }
    if (spec->algo->bounded)
        draw_chunks(out, spec, &p);
}

const char *case_text(const struct case_spec *spec)
{
    static const char *const places[] = { "out of place", "in place", "odd ranks in place" };
    static char text[256];

    snprintf(text, sizeof text,
             "%s n=%u layout=%d root=%u count=%" PRIu64 " elem=%u %s%s, seed=%" PRIu64,
             spec->algo->name, spec->nranks, (int)spec->layout, spec->root, spec->count,
             spec->elem_bytes, places[spec->place], spec->packed ? "" : ", with gaps", spec->seed);
    return text;
}

void case_fail_at(const char *file, int line, const struct case_spec *spec, const char *fmt, ...)
{
    char sentence[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    print_error("%s: %s\n", case_text(spec), sentence);
    _fail(file, line);
}

/* Returns whether cases use this root: each one with few ranks; with many ranks, only the first,
 * the middle and the last. */
static bool root_counts(uint32_t root, uint32_t nranks)
{
    return nranks <= 8 || root == 0 || root == nranks / 2 || root == nranks - 1;
}

/* Returns case i for nranks ranks. */
static struct case_spec numbered(const struct tt_algo *algo, uint32_t nranks, uint32_t i,
                                 const uint64_t *counts, uint64_t seed)
{
    return (struct case_spec){
        .algo = algo,
        .nranks = nranks,
        .root = i % nranks,
        .packed = i / nranks % 2,
        .place = (enum case_place)(i / nranks / 2 % CASE_PLACES),
        .count = counts[i / nranks / 2 / CASE_PLACES],
        .elem_bytes = 1u << (i / nranks / 2 / CASE_PLACES) % 4,
        .seed = seed + i,
    };
}

/* Creates the calls of a case. Returns false if the case does not exist or the algorithm does not
 * support it. */
static bool make_if_any(struct case_calls *calls, const struct case_spec *spec)
{
    if (!case_exists(spec))
        return false;
    case_make(calls, spec);
    return tt_algo_fits_named(spec->algo, &calls->coll[0]);
}

/* Returns whether case i is run with a layout: always with the first layout, and with the others in
 * turn if the algorithm uses the layout. */
static bool has_turn(const struct tt_algo *algo, int layout, uint32_t i)
{
    return layout == 0 || (case_sees_layout(algo) &&
                           ((uint32_t)layout == 1 + i % (CASE_LAYOUTS - 1) || case_all()));
}

bool case_all(void)
{
    return getenv("TUTTI_TEST_LONG") != NULL;
}

/* Returns whether the algorithm's name starts with TUTTI_TEST_ALGO, or the variable is not set. */
static bool is_wanted(const struct tt_algo *algo)
{
    const char *prefix = getenv("TUTTI_TEST_ALGO");

    return !prefix || strncmp(algo->name, prefix, strlen(prefix)) == 0;
}

static void check_any_is_wanted(void)
{
    for (size_t a = 0; a < tt_nalgos; a++)
        if (is_wanted(tt_algos[a]))
            return;
    fail_msg("TUTTI_TEST_ALGO=%s: no algorithm's name begins so", getenv("TUTTI_TEST_ALGO"));
}

uint64_t case_for_each(uint32_t nranks_max, const uint64_t *counts, uint32_t ncounts, uint64_t seed,
                       case_fn *fn)
{
    static struct case_calls calls;
    uint64_t n = 0, number = 0;

    check_any_is_wanted();
    for (size_t a = 0; a < tt_nalgos; a++)
        for (uint32_t nranks = 1; nranks <= nranks_max; nranks++)
            for (uint32_t i = 0; i < ncounts * CASE_PLACES * 2 * nranks; i++) {
                struct case_spec spec = numbered(tt_algos[a], nranks, i, counts, seed);

                if (!root_counts(spec.root, nranks))
                    continue;
                for (int layout = 0; layout < CASE_LAYOUTS; layout++) {
                    spec.layout = (enum case_layout)layout;
                    if (!has_turn(tt_algos[a], layout, i + nranks))
                        continue;
                    if (!unit_part(number++) || !is_wanted(tt_algos[a]))
                        n++;        /* in another part, or not selected */
                    else if (make_if_any(&calls, &spec)) {
                        fn(&spec, &calls);
                        n++;
                    }
                }
            }
    return n;
}

uint64_t case_for_some(uint32_t nranks_min, uint32_t nranks_max, const uint64_t *counts,
                       uint32_t ncounts, uint64_t seed, case_fn *fn)
{
    static struct case_calls calls;
    uint64_t n = 0;

    check_any_is_wanted();
    for (size_t a = 0; a < tt_nalgos; a++)
        for (uint32_t nranks = nranks_min; nranks <= nranks_max; nranks++)
            for (int layout = 0; layout < CASE_LAYOUTS; layout++) {
                const uint32_t ncases = ncounts * CASE_PLACES * 2 * nranks;
                uint32_t i = (uint32_t)(tt_mix64(seed + nranks * 8 + (uint32_t)layout) % ncases);
                struct case_spec spec = { 0 };
                bool found = false;

                if (!has_turn(tt_algos[a], layout, nranks) &&
                    (nranks < nranks_max || !case_sees_layout(tt_algos[a])))
                    continue;
                for (uint32_t tries = 0; tries < ncases && !found; tries++, i = (i + 1) % ncases) {
                    spec = numbered(tt_algos[a], nranks, i, counts, seed);
                    spec.layout = (enum case_layout)layout;
                    found = make_if_any(&calls, &spec);
                }
                if (found && is_wanted(tt_algos[a]))
                    fn(&spec, &calls);
                n += found;
            }
    return n;
}
