#include "sched/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"

const char *tt_congestion_name(enum tt_congestion c)
{
    static const char *const names[TT_CONGESTIONS] = {
        [TT_FREE] = "congestion-free", [TT_SERIALIZED] = "serialized", [TT_INCAST] = "incast",
        [TT_DUPLICATE] = "duplicate",
    };

    return (unsigned)c < TT_CONGESTIONS ? names[c] : "?";
}

/* ---- loads of transfers ---- */

struct gatherer {
    struct tt_traffic *t;
    const struct tt_program *p;
    const struct tt_layout *l;
    uint32_t transfers_cap, loads_cap;
    uint32_t rank, step;        /* of the last transfer */
    bool out_of_memory;
};

/* Grows an array for one more than `n` entries of `bytes` each. Returns false if out of memory. */
static bool array_reserve(void *array, uint32_t n, uint32_t *cap, size_t bytes)
{
    void *more, *old;
    const uint32_t wanted = *cap ? 2 * *cap : 256;

    if (n < *cap)
        return true;
    memcpy(&old, array, sizeof old);
    more = realloc(old, wanted * bytes);
    if (!more)
        return false;
    memcpy(array, &more, sizeof more);
    *cap = wanted;
    return true;
}

static bool begin_transfer(struct gatherer *g, const struct tt_carried *c)
{
    const struct tt_step *s = &g->p->steps[c->rank][c->step];
    struct tt_traffic *t = g->t;
    const struct tt_transfer *last;

    if (!array_reserve(&t->transfer, t->ntransfers, &g->transfers_cap, sizeof *t->transfer))
        return false;
    last = t->ntransfers ? &t->transfer[t->ntransfers - 1] : NULL;
    t->transfer[t->ntransfers] = (struct tt_transfer){
        .round = s->round,
        .from = c->rank,
        .to = s->peer,
        .tag = s->tag,
        .bytes = s->bytes,
        .first = t->nloads,
        .place = last && last->from == c->rank && last->round == s->round ? last->place + 1 : 0,
        .over = (uint8_t)tt_layout_distance(g->l, c->rank, s->peer),
    };
    t->ntransfers++;
    g->rank = c->rank;
    g->step = c->step;
    return true;
}

static void add_load(const struct tt_carried *c, void *arg)
{
    struct gatherer *g = arg;
    struct tt_traffic *t = g->t;
    uint32_t sets_cap = g->loads_cap;

    if (g->out_of_memory)
        return;
    if ((t->ntransfers == 0 || g->rank != c->rank || g->step != c->step) && !begin_transfer(g, c)) {
        g->out_of_memory = true;
        return;
    }
    if (!array_reserve(&t->set, t->nloads, &sets_cap, t->words * sizeof *t->set) ||
        !array_reserve(&t->load, t->nloads, &g->loads_cap, sizeof *t->load)) {
        g->out_of_memory = true;
        return;
    }
    memcpy(t->set + t->nloads * t->words, c->set, t->words * sizeof *t->set);
    t->load[t->nloads] =
        (struct tt_load){ .offset = c->offset, .bytes = c->bytes, .set = t->nloads };
    t->nloads++;
    t->transfer[t->ntransfers - 1].nloads++;
}

static int by_round(const void *x, const void *y)
{
    const struct tt_transfer *a = x, *b = y;

    if (a->round != b->round)
        return a->round < b->round ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* ---- congestion ---- */

/* An event: transfers whose events have equal keys conflict. */
struct event {
    uint64_t key[3];
    const uint64_t *set;        /* [words], part of the key; NULL: none */
    size_t words;
    uint32_t round;             /* not part of the key */
    uint32_t transfer;
};

static int same_event(const struct event *a, const struct event *b)
{
    for (int i = 0; i < 3; i++)
        if (a->key[i] != b->key[i])
            return a->key[i] < b->key[i] ? -1 : 1;
    return a->set && b->set ? memcmp(a->set, b->set, a->words * sizeof *a->set) : 0;
}

static int event_by_key(const void *x, const void *y)
{
    const struct event *a = x, *b = y;
    const int order = same_event(a, b);

    return order ? order : a->round < b->round ? -1 : a->round > b->round;
}

/* Labels all unlabelled transfers whose event has an equal one that is not later. */
static void label(struct tt_traffic *t, struct event *event, uint32_t n, enum tt_congestion as)
{
    qsort(event, n, sizeof *event, event_by_key);
    for (uint32_t i = 0; i < n; i++) {
        const bool before = i > 0 && same_event(&event[i - 1], &event[i]) == 0;
        const bool along = i + 1 < n && same_event(&event[i], &event[i + 1]) == 0 &&
                           event[i + 1].round == event[i].round;
        struct tt_transfer *x = &t->transfer[event[i].transfer];

        if ((before || along) && x->congestion == TT_FREE)
            x->congestion = (uint8_t)as;
    }
}

static uint32_t list_sends(const struct tt_traffic *t, struct event *out)
{
    for (uint32_t i = 0; i < t->ntransfers; i++) {
        const struct tt_transfer *x = &t->transfer[i];

        out[i] = (struct event){ .key = { x->round, x->from, x->over },
                                 .round = x->round,
                                 .transfer = i };
    }
    return t->ntransfers;
}

static uint32_t list_arrivals_across(const struct tt_traffic *t, struct event *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->ntransfers; i++) {
        const struct tt_transfer *x = &t->transfer[i];

        if (x->over == TT_NEAR_HOST)
            out[n++] =
                (struct event){ .key = { x->round, x->to, 0 }, .round = x->round, .transfer = i };
    }
    return n;
}

/* Returns whether any part of the load is a rank's input, i.e. not padding. */
static bool is_of_input(const struct tt_traffic *t, const struct tt_load *load)
{
    uint64_t any = 0;

    for (size_t k = 0; k < t->words; k++)
        any |= t->set[load->set * t->words + k];
    return any != 0;
}

/* The verifier cuts copies of the same input at the same places. Therefore pieces are equal or
 * disjoint. */
static uint32_t list_entries(const struct tt_traffic *t, const struct tt_layout *l,
                             struct event *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->ntransfers; i++) {
        const struct tt_transfer *x = &t->transfer[i];

        for (uint32_t j = 0; j < x->nloads && x->over >= TT_NEAR_HOST; j++) {
            if (!is_of_input(t, &t->load[x->first + j]))
                continue;
            out[n++] = (struct event){
                .key = { tt_layout_socket(l, x->to), t->load[x->first + j].offset, 0 },
                .set = t->set + t->load[x->first + j].set * t->words,
                .words = t->words,
                .round = x->round,
                .transfer = i,
            };
        }
    }
    return n;
}

static bool label_all(struct tt_traffic *t, const struct tt_layout *l)
{
    struct event *event = calloc((size_t)t->nloads + t->ntransfers + 1, sizeof *event);

    if (!event)
        return false;
    label(t, event, list_sends(t, event), TT_SERIALIZED);
    label(t, event, list_arrivals_across(t, event), TT_INCAST);
    label(t, event, list_entries(t, l, event), TT_DUPLICATE);
    free(event);
    return true;
}

tutti_status tt_traffic_init(struct tt_traffic *out, const struct tt_program *p,
                             const struct tt_layout *l, char *why, size_t why_bytes)
{
    struct tt_traffic t = {
        .nranks = p->nranks, .nrounds = (uint32_t)p->nrounds, .words = (p->nranks + 63) / 64,
    };
    struct gatherer g = { .t = &t, .p = p, .l = l };
    tutti_status st;

    tt_assert(l->nranks == p->nranks);
    st = tt_verify_traffic(p, add_load, &g, why, why_bytes);
    if (st != TUTTI_OK)
        goto fini_traffic;
    if (t.ntransfers > 0)
        qsort(t.transfer, t.ntransfers, sizeof *t.transfer, by_round);
    if (g.out_of_memory || !label_all(&t, l)) {
        snprintf(why, why_bytes, "out of memory for the traffic of %u ranks", p->nranks);
        st = TUTTI_ERR_NOMEM;
        goto fini_traffic;
    }
    *out = t;
    return TUTTI_OK;

fini_traffic:
    tt_traffic_fini(&t);
    return st;
}

void tt_traffic_fini(struct tt_traffic *t)
{
    free(t->transfer);
    free(t->load);
    free(t->set);
}

/* ---- text ---- */

/* Writes "0-2, 5" for a set; truncates. */
static void print_set(const uint64_t *set, uint32_t nranks, char *text, size_t bytes)
{
    size_t at = 0;

    text[0] = '\0';
    for (uint32_t r = 0; r < nranks; r++) {
        uint32_t last = r;
        char range[32];

        if (!(set[r / 64] >> r % 64 & 1))
            continue;
        while (last + 1 < nranks && (set[(last + 1) / 64] >> (last + 1) % 64 & 1))
            last++;
        if (last > r)
            snprintf(range, sizeof range, "%s%u-%u", at ? ", " : "", r, last);
        else
            snprintf(range, sizeof range, "%s%u", at ? ", " : "", r);
        if (at + strlen(range) + sizeof ", ..." > bytes) {
            snprintf(text + at, bytes - at, "%s", at ? ", ..." : "...");
            return;
        }
        at += (size_t)snprintf(text + at, bytes - at, "%s", range);
        r = last;
    }
}

const char *tt_traffic_origins(const struct tt_traffic *t, const struct tt_transfer *transfer,
                               char *text, size_t bytes, bool *reduced)
{
    uint64_t *all = calloc(t->words, sizeof *all);

    text[0] = '\0';
    *reduced = false;
    for (uint32_t i = 0; i < transfer->nloads && all; i++) {
        const uint64_t *set = t->set + t->load[transfer->first + i].set * t->words;
        uint32_t n = 0;

        for (size_t w = 0; w < t->words; w++) {
            all[w] |= set[w];
            n += (uint32_t)__builtin_popcountll(set[w]);
        }
        *reduced = *reduced || n > 1;
    }
    if (all)
        print_set(all, t->nranks, text, bytes);
    free(all);
    return text;
}
