/* Matrices between peers such as there are, and worse ones, drawn from a seed. */
#ifndef TESTS_ELASTIC_RING_CASES_H
#define TESTS_ELASTIC_RING_CASES_H

#include "elastic/ring_matrix.h"

enum ring_kind {
    RING_RANDOM,        /* all rates and latencies drawn by themselves */
    RING_SITES,         /* some sites on a map: fast within, between them by distance */
    RING_HOMES,         /* each peer with an uplink slower than its downlink */
    RING_BAD_PEER,      /* one that all links to and from are slow of */
    RING_MISSING,       /* most links do not exist; a ring does */
    RING_MAP,           /* rates alike, latencies by distance */
    RING_TIES,          /* three rates, two latencies */
    RING_KINDS,
};

struct ring_case {
    enum ring_kind kind;
    uint64_t seed;
    struct tt_ring_matrix m;
    struct tt_ring_load load;
    struct tt_ring_costs c;
    uint64_t *rate, *latency, *up, *down, *slow, *cost;     /* what m and c show */
};

const char *ring_kind_name(enum ring_kind kind);
/* Draws one; ring_case_free ends it. */
void ring_case_draw(struct ring_case *r, enum ring_kind kind, uint32_t n, uint64_t seed);
void ring_case_free(struct ring_case *r);
/* The costs anew, with that floor. */
void ring_case_costs(struct ring_case *r, uint64_t floor_ns);

#endif
