#include "ringorder/ring_cases.h"

#include <math.h>
#include <stdlib.h>

#include "base/prng.h"
#include "base/status.h"

#define MBIT 125000ull
#define SITES_MAX 8

const char *ring_kind_name(enum ring_kind kind)
{
    static const char *const names[RING_KINDS] = { "random",  "sites", "homes", "bad peer",
                                                   "missing", "map",   "ties" };

    return names[kind];
}

static uint64_t from_to(struct tt_prng *p, uint64_t low, uint64_t high)
{
    return low + tt_prng_below(p, high - low + 1);
}

static void link(struct ring_case *r, uint32_t i, uint32_t k, uint64_t rate, uint64_t latency)
{
    r->rate[(uint64_t)i * r->m.n + k] = i == k ? 0 : rate;
    r->latency[(uint64_t)i * r->m.n + k] = i == k ? 0 : latency;
}

/* Latency of `km`: light in glass over a path 1.5 times as long, plus routers. */
static uint64_t latency_of(double km) { return 200000 + (uint64_t)(km * 7500); }

/* Places peers on a map of 10,000 km, each at its own place or at one of some sites. */
static void draw_map(struct ring_case *r, struct tt_prng *p, uint32_t nsites)
{
    const uint32_t n = r->m.n, places = nsites > n ? nsites : n;
    double x[TT_RING_PEERS_MAX], y[TT_RING_PEERS_MAX];
    uint32_t site[TT_RING_PEERS_MAX];

    for (uint32_t i = 0; i < places; i++) {
        site[i] = nsites ? (uint32_t)tt_prng_below(p, nsites) : i;
        x[i] = (double)tt_prng_below(p, 10000);
        y[i] = (double)tt_prng_below(p, 10000);
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++) {
            const double km = hypot(x[site[i]] - x[site[k]], y[site[i]] - y[site[k]]);
            const uint64_t mbit = nsites == 0          ? 1000
                                  : site[i] == site[k]
                                      ? from_to(p, 5000, 9000)
                                      : from_to(p, 90, 110) * 20000 / (uint64_t)(1000 + km);

            link(r, i, k, mbit * MBIT, latency_of(km) + tt_prng_below(p, 100000));
        }
}

static void draw_homes(struct ring_case *r, struct tt_prng *p)
{
    for (uint32_t i = 0; i < r->m.n; i++) {
        r->up[i] = from_to(p, 10, 100) * MBIT;
        r->down[i] = r->up[i] * from_to(p, 1, 10);
    }
    for (uint32_t i = 0; i < r->m.n; i++)
        for (uint32_t k = 0; k < r->m.n; k++) {
            const uint64_t rate = r->up[i] < r->down[k] ? r->up[i] : r->down[k];

            link(r, i, k, rate * from_to(p, 40, 100) / 100, from_to(p, 5, 80) * 1000000);
        }
}

/* Keeps the links of a hidden ring, and one in three of the others. */
static void draw_missing(struct ring_case *r, struct tt_prng *p)
{
    const uint32_t n = r->m.n;
    uint32_t order[TT_RING_PEERS_MAX];

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t other = (uint32_t)tt_prng_below(p, i + 1);

        order[i] = order[other];
        order[other] = i;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            link(r, i, k, tt_prng_below(p, 3) ? 0 : from_to(p, 50, 500) * MBIT,
                 from_to(p, 1, 100) * 1000000);
    for (uint32_t i = 0; i < n; i++)
        link(r, order[i], order[(i + 1) % n], from_to(p, 50, 500) * MBIT,
             from_to(p, 1, 100) * 1000000);
}

static void draw_random(struct ring_case *r, struct tt_prng *p)
{
    const uint32_t bad = (uint32_t)tt_prng_below(p, r->m.n);

    for (uint32_t i = 0; i < r->m.n; i++)
        for (uint32_t k = 0; k < r->m.n; k++) {
            uint64_t mbit = from_to(p, 20, 1000), ms = from_to(p, 1, 150);

            if (r->kind == RING_TIES) {
                mbit = 100 * from_to(p, 1, 3);
                ms = 10 * from_to(p, 1, 2);
            }
            if (r->kind == RING_BAD_PEER && (i == bad || k == bad))
                mbit = from_to(p, 2, 8);
            link(r, i, k, mbit * MBIT, ms * 1000000);
        }
}

void ring_case_costs(struct ring_case *r, uint64_t floor_ns)
{
    tt_ring_costs_fill(&r->m, &r->load, floor_ns, r->slow, r->cost);
}

void ring_case_draw(struct ring_case *r, enum ring_kind kind, uint32_t n, uint64_t seed)
{
    const uint64_t links = (uint64_t)n * n;
    struct tt_prng p;

    tt_prng_init(&p, tt_mix64(seed) + kind);
    *r = (struct ring_case){ .kind = kind,
                             .seed = seed,
                             .load = { 1ull << from_to(&p, 16, 30), 1u << 20 } };
    r->rate = calloc(4 * links + 2 * n, sizeof *r->rate);
    tt_assert(r->rate);
    r->latency = r->rate + links;
    r->slow = r->latency + links;
    r->cost = r->slow + links;
    r->up = r->cost + links;
    r->down = r->up + n;
    r->m = (struct tt_ring_matrix){
        .n = n, .rate = r->rate, .latency = r->latency, .up = r->up, .down = r->down
    };
    r->c = (struct tt_ring_costs){ .n = n, .slow = r->slow, .cost = r->cost };
    switch (kind) {
    case RING_SITES:
        draw_map(r, &p, (uint32_t)from_to(&p, 2, SITES_MAX));
        break;
    case RING_MAP:
        draw_map(r, &p, 0);
        break;
    case RING_HOMES:
        draw_homes(r, &p);
        break;
    case RING_MISSING:
        draw_missing(r, &p);
        break;
    default:
        draw_random(r, &p);
        break;
    }
    ring_case_costs(r, 0);
}

void ring_case_free(struct ring_case *r)
{
    free(r->rate);
}
