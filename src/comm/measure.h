/* The constants of the cost model, measured by rank 0 of a job while it starts and carried to all ranks in its card, so that
 * all choose alike. */
#ifndef TT_COMM_MEASURE_H
#define TT_COMM_MEASURE_H

#include "algo/algos.h"
#include "base/bytes.h"

struct tt_constants {
    struct tt_cost_model shm, tcp;
};

/* What is assumed where nothing can be measured. */
extern const struct tt_constants tt_constants_default;

/* Measures on this host, in about ten milliseconds: the exchange of a cache line between two threads, copying through a cache-resident
 * slot, a reduction, a message and a stream over loopback TCP. A result further than a factor 4 from the default is noise,
 * and is clamped. Needs a second processor for the exchange; without one the default stays. */
void tt_constants_measure(struct tt_constants *out);

/* To and from a card; whole picoseconds, so that every rank has the same numbers to the bit. */
void tt_constants_write(const struct tt_constants *c, struct tt_writer *w);
void tt_constants_read(struct tt_constants *c, struct tt_reader *r);

#endif
