#include "analyze/pace_findings.h"

#include <stdlib.h>

#include "analyze/grow.h"
#include "base/prng.h"

static uint64_t hash_of(const struct tt_pace_found *x)
{
    const uint32_t group = x->rank == TT_PACE_NONE ? x->group : TT_PACE_NONE;
    const uint64_t ranks = (uint64_t)x->rank << 32 | x->to;

    return tt_mix64(ranks ^ tt_mix64((uint64_t)group << 2 | (uint64_t)x->kind));
}

static bool is_same(const struct tt_pace_found *a, const struct tt_pace_found *b)
{
    return a->kind == b->kind && a->rank == b->rank && a->to == b->to &&
           (a->rank != TT_PACE_NONE || a->group == b->group);
}

static uint32_t *slot_of(struct tt_pace *p, const struct tt_pace_found *x)
{
    for (uint64_t at = hash_of(x);; at++) {
        uint32_t *slot = &p->found_slots[at & (p->nfound_slots - 1)];

        p->counts.nsteps++;
        if (*slot == 0 || is_same(&p->found[*slot - 1], x))
            return slot;
    }
}

static bool grow_slots(struct tt_pace *p)
{
    const size_t n = p->nfound_slots ? 2 * p->nfound_slots : 64;
    uint32_t *slots = calloc(n, sizeof *slots);

    if (!slots)
        return false;
    free(p->found_slots);
    p->found_slots = slots;
    p->nfound_slots = n;
    for (size_t i = 0; i < p->nfound; i++)
        *slot_of(p, &p->found[i]) = (uint32_t)i + 1;
    return true;
}

bool tt_pace_findings_add(struct tt_pace *p, const struct tt_pace_found *x)
{
    struct tt_pace_found *f;
    uint32_t *slot;

    if (2 * p->nfound >= p->nfound_slots && !grow_slots(p))
        return false;
    slot = slot_of(p, x);
    if (*slot == 0) {
        if (!tt_grow(&p->found, &p->cap_found, p->nfound, sizeof *p->found))
            return false;
        f = &p->found[p->nfound++];
        *f = *x;
        f->first = f->last = p->window;
        f->nwindows = 1;
        *slot = (uint32_t)p->nfound;
        return true;
    }
    f = &p->found[*slot - 1];
    f->nwindows += f->last != p->window;    /* several groups of the same two ranks */
    f->last = p->window;
    f->factor = x->factor;
    f->lost_ns += x->lost_ns;
    return true;
}
