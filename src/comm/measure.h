/* Constants of the cost model: measured by rank 0 at start-up, and distributed in its card, so
 * that all ranks make the same choices. */
#ifndef TT_COMM_MEASURE_H
#define TT_COMM_MEASURE_H

#include "algo/algos.h"
#include "base/bytes.h"
#include "tune/predict.h"

/* Costs of a rank's own work: additional input of the simulation of candidates. Nanoseconds. */
struct tt_work_costs {
    double line_ns;                             /* a cache line between cores, one way */
    double tcp_send_ns, tcp_receive_ns;         /* system calls of a short message, at each end */
    double tcp_send_byte_ns, tcp_receive_byte_ns;   /* per byte of a stream */
    double look_ns;                             /* a poll (system call) without a result */
    double switch_ns;                           /* a switch of a processor to another thread */
    double single_ns, single_byte_ns;           /* a fetch from another process's memory: fixed,
                                                   and per byte */
    double fill_byte_ns, drain_byte_ns, add_byte_ns;    /* per byte of a slot that another core
                                                           has just read or written: writing to
                                                           it, copying from it, reducing it into
                                                           a buffer */
};

/* Costs between hosts without a known link; 0: unknown. Rank 0's values; never measured within a
 * host. */
struct tt_hosts_costs {
    double way_ns;                              /* one-way latency of a short message, between
                                                   ranks */
    double rail_byte_ns;                        /* from the NIC's nominal speed */
};

struct tt_constants {
    struct tt_cost_model shm, tcp;
    struct tt_hosts_costs hosts;
    struct tt_work_costs work;
};

/* Work of the ranks at both ends of the smallest message, in addition to the link's latency:
 * between hosts, and within one. */
struct tt_ends {
    double far_ns, near_ns;
};

/* Defaults, used where nothing can be measured. */
extern const struct tt_constants tt_constants_default;

/* Measures the constants on this host, in about ten milliseconds. Memory: the exchange of a
 * cache line between two threads, copies through a cached slot, a slot between two cores, a
 * reduction, and a single copy. Others: a message and a stream over loopback TCP, and a thread
 * switch. A result that differs from the default by more than a factor of 4 is considered noise,
 * and clamped. The exchange needs a second processor; without one the default is used. */
void tt_constants_measure(struct tt_constants *out);

#define TT_MEASURE_STRANGERS_MAX 16

/* Accepts the connection of `own`, an IPv4 TCP socket connected to `listener`, and closes
 * connections of other processes. The caller closes the result. -1: no more connections (within the
 * timeout of SO_RCVTIMEO), or more than TT_MEASURE_STRANGERS_MAX others arrived first. */
int tt_measure_accept_own(int listener, int own);

/* Returns the closed forms' constants, for ranks that share a host and memory (all_local), or
 * have the distance `farthest`. */
void tt_constants_model(const struct tt_constants *c, bool all_local, enum tt_distance farthest,
                        struct tt_cost_model *out);

/* Returns the simulation's costs on hosts with `cores`. Messages within a host use shared
 * memory, or else TCP. */
void tt_constants_costs(const struct tt_constants *c, bool near_is_shm, uint32_t cores,
                        struct tt_tune_costs *out);

/* Return the work of the ends of messages; and the latency between such ends if the smallest
 * message takes way_ns. The latency is at least the minimum of the transport. */
void tt_constants_ends(const struct tt_constants *c, bool near_is_shm, struct tt_ends *out);
double tt_constants_latency_ns(const struct tt_constants *c, bool near_is_shm, enum tt_distance d,
                               double way_ns);

/* Write and read the card format: whole picoseconds, so that every rank has identical numbers. */
void tt_constants_write(const struct tt_constants *c, struct tt_writer *w);
void tt_constants_read(struct tt_constants *c, struct tt_reader *r);

#endif
