/* The constants of the cost model, measured by rank 0 of a job while it starts and carried to all ranks in its card, so that
 * all choose alike. */
#ifndef TT_COMM_MEASURE_H
#define TT_COMM_MEASURE_H

#include "algo/algos.h"
#include "base/bytes.h"
#include "tune/predict.h"

/* What a rank's own work costs: what the simulation of candidates needs beyond the closed forms. Nanoseconds. */
struct tt_work_costs {
    double line_ns;                             /* a cache line from core to core, one way */
    double tcp_send_ns, tcp_receive_ns;         /* the system calls of a short message, each end's */
    double tcp_send_byte_ns, tcp_receive_byte_ns;   /* of a stream */
    double look_ns;                             /* a system call that finds nothing */
    double switch_ns;                           /* a processor that yields to another thread */
    double single_ns, single_byte_ns;           /* a fetch from the memory of another process: of a few bytes, and a byte of many */
    double fill_byte_ns, drain_byte_ns, add_byte_ns;    /* of a slot that another core has just read, or written: writing to it, copying out of it, adding
                                                           it to what one has */
};

/* What lies between hosts, where no link tells; 0: not known. Rank 0's too, but not measured on one host. */
struct tt_hosts_costs {
    double way_ns;                              /* of a short message, from rank to rank */
    double rail_byte_ns;                        /* as the NIC says its speed */
};

struct tt_constants {
    struct tt_cost_model shm, tcp;
    struct tt_hosts_costs hosts;
    struct tt_work_costs work;
};

/* What ranks do at both ends of the smallest message, which comes on top of the latency of what lies between them: between hosts, and within one. */
struct tt_ends {
    double far_ns, near_ns;
};

/* What is assumed where nothing can be measured. */
extern const struct tt_constants tt_constants_default;

/* Measures on this host, in about ten milliseconds: the exchange of a cache line between two threads, copying through a cache-resident
 * slot, a reduction, a message and a stream over loopback TCP, how fast a processor turns to another thread, what a single copy costs, and
 * what a slot between two cores. A result further than a factor 4 from the default is noise,
 * and is clamped. Needs a second processor for the exchange; without one the default stays. */
void tt_constants_measure(struct tt_constants *out);

#define TT_MEASURE_STRANGERS_MAX 16

/* The end of `own`, a TCP socket over IPv4 that has connected to `listener`, among what others have connected there: theirs are closed. It is the
 * caller's to close; -1: no more of them are there (or come in the time that SO_RCVTIMEO gives), or more than TT_MEASURE_STRANGERS_MAX came before. */
int tt_measure_accept_own(int listener, int own);

/* The closed forms' part of it, for ranks that are all on one host and share memory (all_local), or are `farthest` from one another. */
void tt_constants_model(const struct tt_constants *c, bool all_local, enum tt_distance farthest,
                        struct tt_cost_model *out);

/* What simulated ranks cost, by these, on hosts of `cores`: messages within a host go through shared memory, or over TCP too. */
void tt_constants_costs(const struct tt_constants *c, bool near_is_shm, uint32_t cores, struct tt_tune_costs *out);

/* What those say of the ends of messages; and the latency between such ends of which the smallest message took way_ns, which is never less than what
 * nothing is nearer than. */
void tt_constants_ends(const struct tt_constants *c, bool near_is_shm, struct tt_ends *out);
double tt_constants_latency_ns(const struct tt_constants *c, bool near_is_shm, enum tt_distance d, double way_ns);

/* To and from a card; whole picoseconds, so that every rank has the same numbers to the bit. */
void tt_constants_write(const struct tt_constants *c, struct tt_writer *w);
void tt_constants_read(struct tt_constants *c, struct tt_reader *r);

#endif
