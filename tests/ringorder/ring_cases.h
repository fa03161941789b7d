/* Realistic and difficult matrices between peers, drawn from a seed. */
#ifndef TESTS_ELASTIC_RING_CASES_H
#define TESTS_ELASTIC_RING_CASES_H

#include "ringorder/ring_matrix.h"

enum ring_kind {
    RING_RANDOM,        /* independent random rates and latencies */
    RING_SITES,         /* sites on a map: fast within a site, slower between them by distance */
    RING_HOMES,         /* each peer with an uplink slower than its downlink */
    RING_BAD_PEER,      /* all links to and from one peer are slow */
    RING_MISSING,       /* most links do not exist; a ring does */
    RING_MAP,           /* equal rates, latencies by distance */
    RING_TIES,          /* three rates, two latencies */
    RING_KINDS,
};

struct ring_case {
    enum ring_kind kind;
    uint64_t seed;
    struct tt_ring_matrix m;
    struct tt_ring_load load;
    struct tt_ring_costs c;
    uint64_t *rate, *latency, *up, *down, *slow, *cost;     /* the arrays of m and c */
};

const char *ring_kind_name(enum ring_kind kind);
/* Draws a case; undone by ring_case_free. */
void ring_case_draw(struct ring_case *r, enum ring_kind kind, uint32_t n, uint64_t seed);
void ring_case_free(struct ring_case *r);
/* Recomputes the costs with that floor. */
void ring_case_costs(struct ring_case *r, uint64_t floor_ns);

#endif
