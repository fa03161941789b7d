/* Cache of memory registrations: what is registered with each device, who uses it, and what is kept
 * without users. Pure: it neither registers nor watches memory, and has no lock, clock or
 * allocation (those are in registry.h). The caller owns the registration structs.
 *
 * A registration covers pages [begin, end) in one domain (the scope in which a device's
 * registrations are valid). It is *entered* before it is made, so that changes of its pages
 * meanwhile are not missed, and then *ready*. Any number of users may share it as a source, whose
 * key stays local. A user that *exposes* it gives its key to peers. A registration has at most one
 * such user, so it can be *revoked* at once.
 *
 * A registration that is kept after its last user left can be found again. Above the limits, idle
 * ones are evicted in LRU order. A registration whose pages change (invalidate), or that is
 * revoked, becomes *stale*: it is no longer found, and ends with its last user. Each ended
 * registration is handed over once (put, over) to the caller, who undoes it.
 *
 * Each registration has a generation, which distinguishes it from an earlier registration of the
 * same pages. */
#ifndef TT_WIRE_REGCACHE_H
#define TT_WIRE_REGCACHE_H

#include "wire/spans.h"

enum tt_reg_state {
    TT_REG_MAKING,                  /* entered, not ready */
    TT_REG_LIVE,
    TT_REG_STALE,                   /* removed from the tree */
    TT_REG_OVER                     /* ended: waits for handover to the caller, or was handed
                                       over */
};

struct tt_reg {
    struct tt_span span;            /* must be the first member */
    const void *domain;
    void *handle;                   /* of the registrar; set by ready */
    uint64_t generation;            /* unique in a cache */
    uint32_t users;
    uint8_t state;                  /* enum tt_reg_state */
    bool exposed;                   /* a user has given the registration's key to peers */
    bool kept;                      /* kept without users; only kept ones are found */
    bool writable;                  /* the registration may be exposed to peers */
    bool lasting;                   /* not evicted by the limits. Set by the caller, like
                                       `watched` */
    bool watched;
    struct tt_reg *older, *newer;   /* links of the idle list, by last use; ended ones are linked
                                       by `newer` */
};

struct tt_regcache {
    struct tt_span *tree;           /* registrations in state MAKING or LIVE */
    struct tt_reg *oldest, *newest; /* idle list: live, without users */
    struct tt_reg *over, **over_end;
    uint64_t next_generation;
    uint64_t bytes, count;          /* of all but ended ones */
    uint64_t bytes_max, count_max;
    uint64_t hits, evicted;         /* totals; evicted: because of the limits */
};

/* Limits on registrations without users; those with users count too, but are never refused. */
void tt_regcache_init(struct tt_regcache *c, uint64_t bytes_max, uint64_t count_max);

/* Finds a kept registration that covers [begin, end) in that domain, and adds a user. With
 * `expose`, it must be writable and not exposed yet. NULL: none. */
struct tt_reg *tt_regcache_find(struct tt_regcache *c, const void *domain, uint64_t begin,
                                uint64_t end, bool expose);
/* Returns whether a registration of exactly these pages is live or being made. */
bool tt_regcache_has(const struct tt_regcache *c, const void *domain, uint64_t begin, uint64_t end);

/* Enters *r, which is being made, with one user. It is not found before it is ready. */
void tt_regcache_enter(struct tt_regcache *c, struct tt_reg *r, const void *domain, uint64_t begin,
                       uint64_t end, bool expose);
/* Marks r as made. keep: it may be kept and found, unless it is stale. Other registrations may be
 * evicted. */
void tt_regcache_ready(struct tt_regcache *c, struct tt_reg *r, void *handle, bool writable,
                       bool keep);
/* The registration has failed: removes *r, which belongs to the caller again. */
void tt_regcache_abandon(struct tt_regcache *c, struct tt_reg *r);

/* Removes a user; `exposed`: the user that exposed it. True: r has ended; the caller owns and
 * undoes it. Other registrations may be evicted. */
bool tt_regcache_put(struct tt_regcache *c, struct tt_reg *r, bool exposed);
/* Makes r stale; it must have users. */
void tt_regcache_revoke(struct tt_regcache *c, struct tt_reg *r);
/* Makes all registrations that overlap [begin, end) stale, of one domain or of all (NULL). Returns
 * their number. */
uint64_t tt_regcache_invalidate(struct tt_regcache *c, const void *domain, uint64_t begin,
                                uint64_t end);
/* r, which is live and kept, replaces the registrations of its domain that lie within it: they
 * become stale. */
void tt_regcache_supersede(struct tt_regcache *c, struct tt_reg *r);
/* Evicts idle registrations in LRU order until the totals are within the given limits or none is
 * left to evict. */
void tt_regcache_trim(struct tt_regcache *c, uint64_t bytes_max, uint64_t count_max);
/* Returns the next registration that did not end in tt_regcache_put; the caller owns and undoes it.
 * NULL: none. */
struct tt_reg *tt_regcache_over(struct tt_regcache *c);

#endif
