#include "ringorder/ring_matrix.h"

#include "base/status.h"

typedef unsigned __int128 u128;

static tutti_status check_caps(const uint64_t *caps, uint32_t n, const char *name)
{
    for (uint32_t i = 0; caps && i < n; i++)
        if (caps[i] > TT_RING_RATE_MAX)
            return tt_fail(TUTTI_ERR_INVALID, "%s of peer %u is %llu bytes/s: the maximum is %llu",
                           name, i, (unsigned long long)caps[i], TT_RING_RATE_MAX);
    return TUTTI_OK;
}

tutti_status tt_ring_matrix_check(const struct tt_ring_matrix *m)
{
    tutti_status st;

    if (m->n < 1 || m->n > TT_RING_PEERS_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "the matrix has %u peers: must be 1 to %u", m->n,
                       TT_RING_PEERS_MAX);
    for (uint32_t i = 0; i < m->n; i++)
        for (uint32_t k = 0; k < m->n; k++) {
            const unsigned long long rate = m->rate[i * m->n + k],
                                     latency = m->latency[i * m->n + k];

            if (i != k && rate > TT_RING_RATE_MAX)
                return tt_fail(
                    TUTTI_ERR_INVALID,
                    "the rate from peer %u to peer %u is %llu bytes/s: the maximum is %llu", i, k,
                    rate, TT_RING_RATE_MAX);
            if (i != k && latency > TT_RING_LATENCY_MAX)
                return tt_fail(
                    TUTTI_ERR_INVALID,
                    "the latency from peer %u to peer %u is %llu ns: the maximum is %llu", i, k,
                    latency, TT_RING_LATENCY_MAX);
        }
    st = check_caps(m->up, m->n, "the upload cap");
    return st ? st : check_caps(m->down, m->n, "the download cap");
}

uint64_t tt_ring_up(const struct tt_ring_matrix *m, uint32_t peer)
{
    uint64_t fastest = 0;

    if (m->up && m->up[peer])
        return m->up[peer];
    for (uint32_t k = 0; k < m->n; k++)
        if (k != peer && m->rate[peer * m->n + k] > fastest)
            fastest = m->rate[peer * m->n + k];
    return fastest;
}

uint64_t tt_ring_down(const struct tt_ring_matrix *m, uint32_t peer)
{
    uint64_t fastest = 0;

    if (m->down && m->down[peer])
        return m->down[peer];
    for (uint32_t k = 0; k < m->n; k++)
        if (k != peer && m->rate[k * m->n + peer] > fastest)
            fastest = m->rate[k * m->n + peer];
    return fastest;
}

uint64_t tt_ring_rate(const struct tt_ring_matrix *m, uint32_t from, uint32_t to)
{
    uint64_t rate = m->rate[from * m->n + to];

    if (m->up && m->up[from] && m->up[from] < rate)
        rate = m->up[from];
    if (m->down && m->down[to] && m->down[to] < rate)
        rate = m->down[to];
    return rate;
}

uint64_t tt_ring_transfer_ns(uint64_t bytes, uint64_t rate)
{
    u128 ns;

    if (rate == 0)
        return TT_RING_NONE;
    ns = ((u128)bytes * 1000000000u + rate - 1) / rate;
    return ns < TT_RING_NS_MAX ? (uint64_t)ns : TT_RING_NS_MAX;
}

void tt_ring_costs_fill(const struct tt_ring_matrix *m, const struct tt_ring_load *load,
                        uint64_t floor_ns, uint64_t *slow, uint64_t *cost)
{
    const uint64_t block = load->bytes / m->n + (load->bytes % m->n != 0);
    const uint64_t segment =
        load->segment_bytes && load->segment_bytes < block ? load->segment_bytes : block;

    for (uint32_t i = 0; i < m->n; i++)
        for (uint32_t k = 0; k < m->n; k++) {
            const uint64_t rate = i == k ? 0 : tt_ring_rate(m, i, k), at = (uint64_t)i * m->n + k;
            const uint64_t ns = tt_ring_transfer_ns(block, rate);

            slow[at] = ns < floor_ns ? floor_ns : ns;
            cost[at] = rate == 0 ? 2 * TT_RING_NS_MAX
                                 : m->latency[at] + tt_ring_transfer_ns(segment, rate);
        }
}

struct tt_ring_value tt_ring_value_of(const struct tt_ring_costs *c, const uint32_t *order)
{
    struct tt_ring_value v = { 0, 0 };

    for (uint32_t i = 0; c->n > 1 && i < c->n; i++) {
        const uint64_t at = (uint64_t)order[i] * c->n + order[i + 1 < c->n ? i + 1 : 0];

        if (c->slow[at] > v.slow)
            v.slow = c->slow[at];
        if (c->slow[at] != TT_RING_NONE)
            v.sum += c->cost[at];
    }
    return v;
}

bool tt_ring_value_less(struct tt_ring_value a, struct tt_ring_value b)
{
    return a.slow != b.slow ? a.slow < b.slow : a.sum < b.sum;
}
