#include "wire/regcache.h"

#include <stddef.h>
#include "base/status.h"
#include "wire/planted.h"

void tt_regcache_init(struct tt_regcache *c, uint64_t bytes_max, uint64_t count_max)
{
    *c = (struct tt_regcache){ .bytes_max = bytes_max, .count_max = count_max };
    c->over_end = &c->over;
}

static uint64_t bytes_of(const struct tt_reg *r)
{
    return r->span.end - r->span.begin;
}

/* ---- lists ---- */

static bool reg_is_idle(const struct tt_reg *r)
{
    return r->state == TT_REG_LIVE && r->users == 0;
}

static void list_idle(struct tt_regcache *c, struct tt_reg *r)
{
    r->newer = NULL;
    r->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = r;
    c->newest = r;
}

static void unlist_idle(struct tt_regcache *c, struct tt_reg *r)
{
    *(r->older ? &r->older->newer : &c->oldest) = r->newer;
    *(r->newer ? &r->newer->older : &c->newest) = r->older;
    r->older = r->newer = NULL;
}

/* Ends a registration, which must not be in the tree or the idle list. */
static void reg_end(struct tt_regcache *c, struct tt_reg *r)
{
    r->state = TT_REG_OVER;
    c->bytes -= bytes_of(r);
    c->count--;
}

static void reg_hand_over(struct tt_regcache *c, struct tt_reg *r)
{
    reg_end(c, r);
    r->newer = NULL;
    *c->over_end = r;
    c->over_end = &r->newer;
}

/* Makes r stale: later searches do not find it. */
static void make_stale(struct tt_regcache *c, struct tt_reg *r)
{
    const bool idle = reg_is_idle(r);

    tt_spans_remove(&c->tree, &r->span);
    r->state = TT_REG_STALE;
    if (!idle)
        return;
    unlist_idle(c, r);
    reg_hand_over(c, r);
}

/* ---- search ---- */

struct wanted {
    const void *domain;
    uint64_t begin, end;
    bool expose;
};

static bool may_serve(const struct tt_span *s, const void *arg)
{
    const struct tt_reg *r = (const struct tt_reg *)s;
    const struct wanted *w = arg;

    if (r->state != TT_REG_LIVE || !r->kept)
        return false;
    if (r->domain != w->domain && !TT_PLANTED(TT_REGCACHE_BUG_ANY_DOMAIN))
        return false;
    if (!w->expose)
        return true;
    return r->writable && (!r->exposed || TT_PLANTED(TT_REGCACHE_BUG_EXPOSED_TWICE));
}

struct tt_reg *tt_regcache_find(struct tt_regcache *c, const void *domain, uint64_t begin,
                                uint64_t end, bool expose)
{
    const struct wanted w = { .domain = domain, .expose = expose };
    const uint64_t till = TT_PLANTED(TT_REGCACHE_BUG_NOT_WHOLE) ? begin + 1 : end;
    struct tt_reg *r = (struct tt_reg *)tt_spans_covering(c->tree, begin, till, may_serve, &w);

    if (!r)
        return NULL;
    if (reg_is_idle(r))
        unlist_idle(c, r);
    r->users++;
    r->exposed |= expose;
    c->hits++;
    return r;
}

static bool is_exactly(const struct tt_span *s, const void *arg)
{
    const struct wanted *w = arg;

    return ((const struct tt_reg *)s)->domain == w->domain && s->begin == w->begin &&
           s->end == w->end;
}

bool tt_regcache_has(const struct tt_regcache *c, const void *domain, uint64_t begin, uint64_t end)
{
    const struct wanted w = { .domain = domain, .begin = begin, .end = end };

    return tt_spans_covering(c->tree, begin, end, is_exactly, &w);
}

/* ---- life cycle ---- */

void tt_regcache_enter(struct tt_regcache *c, struct tt_reg *r, const void *domain, uint64_t begin,
                       uint64_t end, bool expose)
{
    *r = (struct tt_reg){
        .span = { .begin = begin, .end = end },
        .domain = domain,
        .generation = ++c->next_generation,
        .users = 1,
        .state = TT_REG_MAKING,
        .exposed = expose,
    };
    tt_spans_add(&c->tree, &r->span);
    c->bytes += bytes_of(r);
    c->count++;
}

void tt_regcache_ready(struct tt_regcache *c, struct tt_reg *r, void *handle, bool writable,
                       bool keep)
{
    tt_assert(r->state == TT_REG_MAKING || r->state == TT_REG_STALE);
    r->handle = handle;
    r->writable = writable;
    r->kept = keep;
    if (TT_PLANTED(TT_REGCACHE_BUG_LOST_WHILE_MADE) && r->state == TT_REG_STALE)
        tt_spans_add(&c->tree, &r->span);
    if (r->state == TT_REG_MAKING || TT_PLANTED(TT_REGCACHE_BUG_LOST_WHILE_MADE))
        r->state = TT_REG_LIVE;
    tt_regcache_trim(c, c->bytes_max, c->count_max);
}

void tt_regcache_abandon(struct tt_regcache *c, struct tt_reg *r)
{
    if (r->state == TT_REG_MAKING)
        tt_spans_remove(&c->tree, &r->span);
    reg_end(c, r);
}

bool tt_regcache_put(struct tt_regcache *c, struct tt_reg *r, bool exposed)
{
    tt_assert(r->users > 0 && r->state != TT_REG_OVER && (!exposed || r->exposed));
    r->users--;
    if (exposed)
        r->exposed = false;
    if (r->users > 0)
        return false;
    if (r->state == TT_REG_LIVE && r->kept) {
        list_idle(c, r);
        if (!TT_PLANTED(TT_REGCACHE_BUG_UNBOUNDED))
            tt_regcache_trim(c, c->bytes_max, c->count_max);
        return false;
    }
    if (r->state == TT_REG_LIVE)
        tt_spans_remove(&c->tree, &r->span);
    reg_end(c, r);
    return true;
}

void tt_regcache_revoke(struct tt_regcache *c, struct tt_reg *r)
{
    tt_assert(r->users > 0);
    if (r->state != TT_REG_STALE)
        make_stale(c, r);
}

static bool is_of_domain(const struct tt_span *s, const void *domain)
{
    return !domain || ((const struct tt_reg *)s)->domain == domain;
}

uint64_t tt_regcache_invalidate(struct tt_regcache *c, const void *domain, uint64_t begin,
                                uint64_t end)
{
    struct tt_span *s;
    uint64_t n = 0;

    while ((s = tt_spans_touching(c->tree, begin, end, is_of_domain, domain))) {
        make_stale(c, (struct tt_reg *)s);
        n++;
        if (TT_PLANTED(TT_REGCACHE_BUG_FIRST_ONLY))
            break;
    }
    return n;
}

static bool lies_within(const struct tt_span *s, const void *arg)
{
    const struct tt_reg *r = (const struct tt_reg *)s, *around = arg;

    return r != around && r->domain == around->domain && r->state == TT_REG_LIVE &&
           s->begin >= around->span.begin && s->end <= around->span.end;
}

void tt_regcache_supersede(struct tt_regcache *c, struct tt_reg *r)
{
    struct tt_span *s;

    tt_assert(r->state == TT_REG_LIVE && r->kept);
    while ((s = tt_spans_touching(c->tree, r->span.begin, r->span.end, lies_within, r)))
        make_stale(c, (struct tt_reg *)s);
}

void tt_regcache_trim(struct tt_regcache *c, uint64_t bytes_max, uint64_t count_max)
{
    struct tt_reg *r = TT_PLANTED(TT_REGCACHE_BUG_NOT_RECENT) ? c->newest : c->oldest;

    while (r && (c->bytes > bytes_max || c->count > count_max)) {
        struct tt_reg *newer = r->newer;

        if (!r->lasting) {
            make_stale(c, r);
            c->evicted++;
        }
        r = newer;
    }
}

struct tt_reg *tt_regcache_over(struct tt_regcache *c)
{
    struct tt_reg *r = c->over;

    if (!r)
        return NULL;
    c->over = r->newer;
    if (!c->over)
        c->over_end = &c->over;
    r->newer = NULL;
    return r;
}
