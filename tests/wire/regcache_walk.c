/* See regcache_walk.h. */
#include "regcache_walk.h"

#include <stddef.h>
#include "base/prng.h"
#include "wire/regcache.h"

#define REGS 48
#define STEPS 400
#define PAGE 4096ull
#define PAGES 24u
#define DOMAINS 2
#define LENGTH_MAX 8

enum model_state { FREE, MAKING, LIVE, STALE, ENDED /* and not handed over yet */ };

/* A registration, in the cache and in the model. */
struct walked {
    struct tt_reg reg;
    enum model_state state;
    uint32_t domain, users;
    uint64_t begin, end, generation;
    uint64_t idle_since;            /* step at which it became idle, if it is idle */
    bool exposed, kept, writable, lasting;
};

struct history {
    struct tt_prng prng;
    struct tt_regcache cache;
    struct walked w[REGS];
    char domains[DOMAINS];          /* addresses serve as domains */
    uint64_t step, hits, evicted, bytes_max, count_max;
};

static uint32_t below(struct history *h, uint32_t bound)
{
    return (uint32_t)tt_prng_below(&h->prng, bound);
}

static void draw_range(struct history *h, uint64_t *begin, uint64_t *end)
{
    const uint32_t pages = 1 + below(h, LENGTH_MAX);

    *begin = PAGE * (1 + below(h, PAGES - pages));
    *end = *begin + pages * PAGE;
}

static bool is_idle(const struct walked *w)
{
    return w->state == LIVE && w->users == 0;
}

static void sum_up(const struct history *h, uint64_t *bytes, uint64_t *count)
{
    *bytes = *count = 0;
    for (size_t i = 0; i < REGS; i++)
        if (h->w[i].state == MAKING || h->w[i].state == LIVE || h->w[i].state == STALE) {
            *bytes += h->w[i].end - h->w[i].begin;
            ++*count;
        }
}

static void model_trim(struct history *h, uint64_t bytes_max, uint64_t count_max)
{
    for (;;) {
        struct walked *oldest = NULL;
        uint64_t bytes, count;

        sum_up(h, &bytes, &count);
        for (size_t i = 0; i < REGS; i++)
            if (is_idle(&h->w[i]) && !h->w[i].lasting &&
                (!oldest || h->w[i].idle_since < oldest->idle_since))
                oldest = &h->w[i];
        if (!oldest || (bytes <= bytes_max && count <= count_max))
            return;
        oldest->state = ENDED;
        h->evicted++;
    }
}

static void model_lose(struct walked *w)
{
    w->state = is_idle(w) ? ENDED : STALE;
}

static bool serves(const struct walked *w, uint32_t domain, uint64_t begin, uint64_t end,
                   bool expose)
{
    return w->state == LIVE && w->kept && w->domain == domain && w->begin <= begin &&
           w->end >= end && (!expose || (w->writable && !w->exposed));
}

/* Returns a random registration in that state, or NULL. with_users: only one with users. */
static struct walked *draw(struct history *h, enum model_state state, bool with_users)
{
    const uint32_t first = below(h, REGS);

    for (uint32_t i = 0; i < REGS; i++) {
        struct walked *w = &h->w[(first + i) % REGS];

        if (w->state == state && (!with_users || w->users > 0))
            return w;
    }
    return NULL;
}

static const char *walk_find(struct history *h)
{
    const uint32_t domain = below(h, DOMAINS);
    const bool expose = below(h, 2);
    uint64_t begin, end;
    struct walked *found;
    bool any = false;

    draw_range(h, &begin, &end);
    for (size_t i = 0; i < REGS; i++)
        any |= serves(&h->w[i], domain, begin, end, expose);
    found = (struct walked *)tt_regcache_find(&h->cache, &h->domains[domain], begin, end, expose);
    if (!found)
        return any ? "what would serve is not found" : NULL;
    if (!serves(found, domain, begin, end, expose))
        return "what is found does not serve";
    found->users++;
    found->exposed |= expose;
    h->hits++;
    return NULL;
}

static const char *walk_enter(struct history *h)
{
    struct walked *w = draw(h, FREE, false);

    if (!w)
        return NULL;
    *w = (struct walked){
        .state = MAKING, .domain = below(h, DOMAINS), .users = 1, .exposed = below(h, 2)
    };
    draw_range(h, &w->begin, &w->end);
    if (tt_regcache_has(&h->cache, &h->domains[w->domain], w->begin, w->end)) {
        bool there = false;

        for (size_t i = 0; i < REGS; i++)
            there |= &h->w[i] != w && (h->w[i].state == MAKING || h->w[i].state == LIVE) &&
                     h->w[i].domain == w->domain && h->w[i].begin == w->begin &&
                     h->w[i].end == w->end;
        if (!there)
            return "what is not there is said to be";
    }
    tt_regcache_enter(&h->cache, &w->reg, &h->domains[w->domain], w->begin, w->end, w->exposed);
    w->generation = w->reg.generation;
    w->reg.lasting = w->lasting = below(h, 8) == 0;
    for (size_t i = 0; i < REGS; i++)
        if (&h->w[i] != w && h->w[i].state != FREE && h->w[i].generation == w->generation)
            return "a generation comes twice";
    return NULL;
}

/* Finishes the creation of a registration. Its pages may have been lost meanwhile: then its state
 * in the model is STALE, and it has no handle yet. */
static const char *walk_made(struct history *h)
{
    const bool lost = below(h, 3) == 0;
    struct walked *w = draw(h, lost ? STALE : MAKING, true);

    if (!w || w->reg.handle)
        return NULL;
    if (below(h, 8) == 0) {
        w->state = FREE;
        tt_regcache_abandon(&h->cache, &w->reg);
        return NULL;
    }
    w->writable = below(h, 4) != 0;
    w->kept = w->writable && below(h, 4) != 0;
    if (w->state == MAKING)
        w->state = LIVE;
    model_trim(h, h->bytes_max, h->count_max);
    tt_regcache_ready(&h->cache, &w->reg, w, w->writable, w->kept);
    return NULL;
}

static const char *walk_put(struct history *h)
{
    struct walked *w = draw(h, below(h, 4) ? LIVE : STALE, true);
    bool exposed, ends;

    if (!w || !w->reg.handle)       /* the creator still has the registration */
        return NULL;
    exposed = w->exposed && (w->users == 1 || below(h, 2));
    ends = w->users == 1 && (w->state == STALE || !w->kept);
    w->users--;
    w->exposed &= !exposed;
    if (ends) {
        w->state = FREE;
    } else if (w->users == 0) {
        w->idle_since = h->step;
        model_trim(h, h->bytes_max, h->count_max);
    }
    if (tt_regcache_put(&h->cache, &w->reg, exposed) != ends)
        return ends ? "what ends with its last user does not" : "what should stay ends";
    return NULL;
}

static const char *walk_lose(struct history *h)
{
    const uint32_t domain = below(h, DOMAINS + 1);
    uint64_t begin, end, n = 0;

    draw_range(h, &begin, &end);
    for (size_t i = 0; i < REGS; i++) {
        struct walked *w = &h->w[i];

        if ((w->state == MAKING || w->state == LIVE) &&
            (domain == DOMAINS || w->domain == domain) && w->begin < end && w->end > begin) {
            model_lose(w);
            n++;
        }
    }
    if (tt_regcache_invalidate(&h->cache, domain == DOMAINS ? NULL : &h->domains[domain], begin,
                               end) != n)
        return "other registrations lose their pages than those that have some";
    return NULL;
}

static const char *walk_revoke(struct history *h)
{
    struct walked *w = draw(h, LIVE, true);

    if (!w)
        return NULL;
    w->state = STALE;
    tt_regcache_revoke(&h->cache, &w->reg);
    return NULL;
}

static const char *walk_trim(struct history *h)
{
    const uint64_t bytes = below(h, 40) * PAGE, count = below(h, 20);

    model_trim(h, bytes, count);
    tt_regcache_trim(&h->cache, bytes, count);
    return NULL;
}

/* All ended registrations are handed over, each exactly once. */
static const char *collect(struct history *h)
{
    struct walked *w;

    while ((w = (struct walked *)tt_regcache_over(&h->cache))) {
        if (w->state != ENDED)
            return "what ends is not what should";
        w->state = FREE;
    }
    return draw(h, ENDED, false) ? "what should end does not" : NULL;
}

static const char *compare(const struct history *h)
{
    uint64_t bytes, count;

    sum_up(h, &bytes, &count);
    if (h->cache.bytes != bytes || h->cache.count != count)
        return "bytes or registrations are miscounted";
    if (h->cache.hits != h->hits || h->cache.evicted != h->evicted)
        return "hits or evictions are miscounted";
    for (size_t i = 0; i < REGS; i++) {
        const struct walked *w = &h->w[i];

        if ((w->state == LIVE || w->state == STALE) &&
            (w->reg.users != w->users || w->reg.exposed != w->exposed))
            return "users are miscounted";
    }
    return NULL;
}

const char *regcache_walk_drawn(uint64_t seed)
{
    static const char *(*const steps[])(struct history * h) = {
        walk_find, walk_find, walk_find, walk_enter, walk_enter,  walk_made, walk_made,
        walk_put,  walk_put,  walk_put,  walk_lose,  walk_revoke, walk_trim
    };
    struct history h = { .step = 0 };
    const char *wrong = NULL;

    tt_prng_init(&h.prng, seed);
    h.bytes_max = (10 + below(&h, 100)) * PAGE;
    h.count_max = 4 + below(&h, 20);
    tt_regcache_init(&h.cache, h.bytes_max, h.count_max);
    for (h.step = 1; h.step <= STEPS && !wrong; h.step++) {
        const uint32_t i = below(&h, sizeof steps / sizeof *steps);

        if (i >= 10 && below(&h, 4))
            continue;               /* rarer than other events */
        wrong = steps[i](&h);
        if (!wrong)
            wrong = collect(&h);
        if (!wrong)
            wrong = compare(&h);
    }
    return wrong;
}
