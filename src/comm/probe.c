#include "comm/probe.h"

void tt_probe_init(struct tt_probe *p, struct tt_probe_rank *ranks, uint32_t nranks)
{
    *p = (struct tt_probe){ .nranks = nranks, .rank = ranks };
    for (uint32_t r = 0; r < nranks; r++)
        ranks[r] = (struct tt_probe_rank){ .waits_for = UINT32_MAX };
}

bool tt_probe_ask(struct tt_probe *p, uint32_t rank, uint64_t now_ns)
{
    struct tt_probe_rank *r;

    if (rank >= p->nranks)
        return false;
    r = &p->rank[rank];
    if (r->asked_ns && now_ns - r->asked_ns < TT_PROBE_EVERY_NS)
        return false;
    r->asked_ns = now_ns;
    if (!r->first_ns)
        r->first_ns = now_ns;
    return true;
}

bool tt_probe_answer(struct tt_probe *p, uint32_t rank, uint32_t waits_for, uint64_t now_ns)
{
    if (rank >= p->nranks)
        return false;
    p->rank[rank].first_ns = 0;
    p->rank[rank].answered = true;
    p->rank[rank].waits_for = waits_for < p->nranks ? waits_for : UINT32_MAX;
    return waits_for < p->nranks && tt_probe_ask(p, waits_for, now_ns);
}

uint32_t tt_probe_blame(const struct tt_probe *p, uint32_t rank, uint64_t now_ns)
{
    for (uint32_t steps = 0; rank < p->nranks && steps < p->nranks; steps++) {
        const struct tt_probe_rank *r = &p->rank[rank];

        if (r->first_ns && now_ns - r->first_ns >= TT_PROBE_SILENCE_NS)
            return rank;
        rank = r->waits_for;
    }
    return UINT32_MAX;
}
