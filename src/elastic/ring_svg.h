/* A ring drawn on the matrix of what lies between its peers. */
#ifndef TT_ELASTIC_RING_SVG_H
#define TT_ELASTIC_RING_SVG_H

#include <stdio.h>
#include "elastic/ring_file.h"

struct tt_ring_picture {
    const struct tt_ring_matrix *m;                 /* its latency may be NULL: not known */
    const char (*name)[TT_RING_NAME_BYTES];         /* [m->n] any text */
    const uint32_t *order;                          /* [m->n] each peer once */
};

/* To f, as one svg element: who sends (rows) to whom (columns) at which rate, peers in the ring's order, the ring's links framed. */
void tt_ring_svg_draw(const struct tt_ring_picture *p, FILE *f);

#endif
