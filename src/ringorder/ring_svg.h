/* Drawing of a ring on the matrix of links between its peers. */
#ifndef TT_RINGORDER_RING_SVG_H
#define TT_RINGORDER_RING_SVG_H

#include <stdio.h>
#include "ringorder/ring_file.h"

struct tt_ring_picture {
    const struct tt_ring_matrix *m;                 /* the field `latency` may be NULL: unknown */
    const char (*name)[TT_RING_NAME_BYTES];         /* [m->n] any text */
    const uint32_t *order;                          /* [m->n] each peer once */
};

/* Draws to f, as one svg element: rates from senders (rows) to receivers (columns), peers in the
 * ring's order, the ring's links framed. */
void tt_ring_svg_draw(const struct tt_ring_picture *p, FILE *f);

#endif
