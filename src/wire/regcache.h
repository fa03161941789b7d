/* A cache of registrations: which of a process's memory a device knows, who uses that, and what is kept when nobody does. Pure: it neither
 * registers nor watches memory, and has no lock, clock or allocation (registry.h has). Registrations are the caller's structs.
 *
 * A registration has pages [begin, end) of one domain (what a device's registrations are good in). It is *entered* before it is made, so that
 * what happens to its pages meanwhile is not missed, and then *ready*. Sources share one: any number of users may send from it, by a key that
 * stays here. A user whose key peers get, who *exposes* it, has it to himself among such, so that it can be *revoked* at once.
 *
 * What is kept when its last user has gone is used again (find), the least recently used ends first when there is more than the bounds allow.
 * What loses its pages (invalidate), or is revoked, is *stale*: nobody finds it any more, and it ends with its last user. What ends is handed
 * to the caller, once (put, over), who undoes it.
 *
 * Each has a generation, by which a registration that was made anew at the same place is told from the one before. */
#ifndef TT_WIRE_REGCACHE_H
#define TT_WIRE_REGCACHE_H

#include "wire/spans.h"

enum tt_reg_state {
    TT_REG_MAKING,                  /* entered, not ready */
    TT_REG_LIVE,
    TT_REG_STALE,                   /* not in the tree any more */
    TT_REG_OVER                     /* waits to be handed to the caller, or was */
};

struct tt_reg {
    struct tt_span span;            /* the first member */
    const void *domain;
    void *handle;                   /* the registrar's; set by ready */
    uint64_t generation;            /* of no two in a cache */
    uint32_t users;
    uint8_t state;                  /* enum tt_reg_state */
    bool exposed;                   /* one of the users has given its key to peers */
    bool kept;                      /* without users, too; only such are found */
    bool writable;                  /* it may be exposed */
    bool lasting;                   /* the caller's to set, as the next: not ended for the bounds' sake */
    bool watched;
    struct tt_reg *older, *newer;   /* among idle ones, by their last use; those that are over are linked by `newer` */
};

struct tt_regcache {
    struct tt_span *tree;           /* of those that are being made, or live */
    struct tt_reg *oldest, *newest; /* idle ones: live, without users */
    struct tt_reg *over, **over_end;
    uint64_t next_generation;
    uint64_t bytes, count;          /* of all but those that are over */
    uint64_t bytes_max, count_max;
    uint64_t hits, evicted;         /* so far; evicted: for the bounds' sake */
};

/* Bounds of what is kept without users; what has users is not refused, but counts. */
void tt_regcache_init(struct tt_regcache *c, uint64_t bytes_max, uint64_t count_max);

/* A kept registration that has all of [begin, end) in that domain and, to be exposed, that nobody exposes and peers may write to. It has one
 * user more. NULL: there is none. */
struct tt_reg *tt_regcache_find(struct tt_regcache *c, const void *domain, uint64_t begin, uint64_t end, bool expose);
/* Whether one of exactly these pages is live or being made, whoever has it. */
bool tt_regcache_has(const struct tt_regcache *c, const void *domain, uint64_t begin, uint64_t end);

/* Takes *r in, which is being made and has one user. Not found before it is ready. */
void tt_regcache_enter(struct tt_regcache *c, struct tt_reg *r, const void *domain, uint64_t begin, uint64_t end,
                       bool expose);
/* It is made. keep: it may be kept and found, unless it is stale already. Others may end because of the bounds. */
void tt_regcache_ready(struct tt_regcache *c, struct tt_reg *r, void *handle, bool writable, bool keep);
/* It could not be made: *r is the caller's again. */
void tt_regcache_abandon(struct tt_regcache *c, struct tt_reg *r);

/* One user less; exposed: the one who exposed it. True: r has ended with him, and is the caller's, to be undone. Others may end because of the
 * bounds. */
bool tt_regcache_put(struct tt_regcache *c, struct tt_reg *r, bool exposed);
/* r, which has users, becomes stale. */
void tt_regcache_revoke(struct tt_regcache *c, struct tt_reg *r);
/* All that have some of [begin, end) become stale; of the domain, or of all (NULL). Returns how many. */
uint64_t tt_regcache_invalidate(struct tt_regcache *c, const void *domain, uint64_t begin, uint64_t end);
/* r, which is live and kept, takes the place of those of its domain that lie within it: they become stale. */
void tt_regcache_supersede(struct tt_regcache *c, struct tt_reg *r);
/* Ends idle ones, the least recently used first, till all are at most so much or none is left that may end. */
void tt_regcache_trim(struct tt_regcache *c, uint64_t bytes_max, uint64_t count_max);
/* The next one that ended otherwise: the caller's, to be undone. NULL: there is none. */
struct tt_reg *tt_regcache_over(struct tt_regcache *c);

#endif
