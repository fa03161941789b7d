#include "algo/phases.h"

void tt_phase_ring_gather(struct tt_sched *s, const struct tt_coll *c, uint32_t k, uint32_t tag,
                          struct tt_ref own)
{
    const uint32_t n = c->nranks, r = c->rank;
    const uint32_t right = (r + 1) % n, left = (r + n - 1) % n;
    const struct tt_block leaving = tt_block_of(c, (r + n - k) % n);
    const struct tt_block coming = tt_block_of(c, (r + n - k - 1) % n);

    tt_sched_put(s, right, k == 0 ? own : tt_dst(leaving.offset), tt_dst(leaving.offset),
                 leaving.bytes, tag);
    tt_sched_wait(s, left, tt_dst(coming.offset), coming.bytes, tag);
}

void tt_phase_give(struct tt_sched *s, const struct tt_coll *c, uint32_t peer)
{
    const bool v = c->kind == TT_ALLTOALLV;

    tt_sched_put(s, peer, tt_src(v ? c->send_displs[peer] : peer * c->bytes), tt_there(),
                 v ? c->send_bytes[peer] : c->bytes, 0);
}

void tt_phase_take(struct tt_sched *s, const struct tt_coll *c, uint32_t peer)
{
    const bool v = c->kind == TT_ALLTOALLV;
    const uint64_t at = v ? c->recv_displs[peer] : peer * c->bytes,
                   bytes = v ? c->recv_bytes[peer] : c->bytes;

    if (!c->in_place) {
        tt_sched_wait(s, peer, tt_dst(at), bytes, 0);
        return;
    }
    tt_sched_wait(s, peer, tt_pipe(peer), bytes, 0);
    tt_sched_copy(s, tt_dst(at), tt_pipe(peer), bytes);
}

void tt_phase_exchange(struct tt_sched *s, const struct tt_coll *c, uint32_t peer)
{
    tt_phase_give(s, c, peer);
    tt_phase_take(s, c, peer);
}

static bool is_power(uint32_t n) { return (n & (n - 1)) == 0; }

uint32_t tt_phase_partners(const struct tt_coll *c, uint64_t k, uint32_t partner[2])
{
    const uint32_t n = c->nranks, r = c->rank, away = (uint32_t)k + 1;

    if (away >= n)
        return 0;
    if (is_power(n)) {
        partner[0] = r ^ away;
        return 1;
    }
    partner[0] = (uint32_t)(((uint64_t)r + away) % n);
    partner[1] = (uint32_t)(((uint64_t)r + n - away) % n);
    return partner[0] == partner[1] ? 1 : 2;
}

uint64_t tt_phase_partner_rounds(const struct tt_coll *c)
{
    if (c->nranks == 1)
        return 1;
    return is_power(c->nranks) ? c->nranks - 1 : c->nranks / 2;
}

static void phases_fold_in(struct tt_sched *s, const struct tt_coll *c, const struct tt_fold *f)
{
    if (!f->folded)
        return;
    if (!f->active) {
        tt_sched_put(s, c->rank - 1, tt_src(0), tt_pipe(0), c->bytes, 0);
        return;
    }
    tt_sched_wait(s, c->rank + 1, tt_pipe(0), c->bytes, 0);
    tt_sched_reduce(s, tt_dst(0), tt_src(0), tt_pipe(0), c->bytes, false);
}

static void phases_fold_out(struct tt_sched *s, const struct tt_coll *c, const struct tt_fold *f)
{
    if (!f->folded)
        return;
    if (f->active)
        tt_sched_put(s, c->rank + 1, tt_dst(0), tt_dst(0), c->bytes, 0);
    else
        tt_sched_wait(s, c->rank - 1, tt_dst(0), c->bytes, 0);
}

bool tt_phase_among_groups(struct tt_sched *s, const struct tt_coll *c, const struct tt_fold *f,
                           uint64_t inner, uint64_t *k)
{
    const uint64_t before = f->extras > 0 ? 1 : 0;

    if (c->nranks == 1)
        tt_sched_own(s, c);
    else if (*k < before)
        phases_fold_in(s, c, f);
    else if (*k == before + inner)
        phases_fold_out(s, c, f);
    else {
        *k -= before;
        return f->active;
    }
    return false;
}

void tt_phase_gather_fold_in(struct tt_sched *s, const struct tt_coll *c, const struct tt_fold *f)
{
    const struct tt_block extra = tt_block_of(c, f->active ? c->rank + 1 : c->rank);

    if (f->active)
        tt_sched_wait(s, c->rank + 1, tt_dst(extra.offset), extra.bytes, 0);
    else
        tt_sched_put(s, c->rank - 1, tt_src(0), tt_dst(extra.offset), extra.bytes, 0);
}

void tt_phase_gather_fold_out(struct tt_sched *s, const struct tt_coll *c, const struct tt_fold *f)
{
    const uint32_t extra = f->active ? c->rank + 1 : c->rank;
    const struct tt_block parts[] = { tt_blocks_of(c, 0, extra),
                                      tt_blocks_of(c, extra + 1, c->nranks) };

    for (uint32_t i = 0; i < 2; i++) {
        const struct tt_ref at = tt_dst(parts[i].offset);

        if (f->active)
            tt_sched_put(s, c->rank + 1, at, at, parts[i].bytes, 1 + i);
        else
            tt_sched_wait(s, c->rank - 1, at, parts[i].bytes, 1 + i);
    }
}

uint64_t tt_phase_rounds(uint32_t n, uint32_t each)
{
    return n > each ? (n + each - 1) / each : 1;
}
