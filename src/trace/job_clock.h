/* The clock of the job: the clock of rank 0. Each rank compares its monotonic clock with those of
 * lower ranks to which it has control connections, and adds the offsets that these ranks report.
 * Thus offsets spread from rank 0 in as many exchanges as there are hops, and never in a circle.
 * Pure: all times are arguments.
 *
 * One exchange, as in NTP (RFC 5905, section 8): sent and received here, received and replied
 * there. The true offset lies within half of the round-trip time of the messages, for any split
 * between the two directions. The sample with the smallest bound is used. Bounds grow by
 * TT_CLOCK_DRIFT_PPM with their age. If the bounds of two samples do not overlap, one of the clocks
 * has jumped: only the newer sample is kept. */
#ifndef TT_TRACE_JOB_CLOCK_H
#define TT_TRACE_JOB_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_CLOCK_SAMPLES 8u
#define TT_CLOCK_DRIFT_PPM 1000u        /* between two clocks: both may be slewed by 500 ppm */
/* Larger bounds are useless, and larger offsets are implausible: about 31 years. */
#define TT_CLOCK_MOST_NS 1000000000000000000ull

/* A time of another clock is t + offset_ns, within error_ns. */
struct tt_clock_offset {
    bool known;
    int64_t offset_ns;
    uint64_t error_ns;
};

/* The times of one exchange. */
struct tt_clock_exchange {
    uint64_t sent_ns, received_ns;              /* here */
    uint64_t arrived_ns, replied_ns;            /* there */
};

/* Knowledge of one other clock. All zero: none. */
struct tt_clock_pair {
    struct {
        struct tt_clock_offset offset;
        uint64_t at_ns;                         /* time here */
    } sample[TT_CLOCK_SAMPLES];
    uint32_t next;                              /* oldest sample */
    struct tt_clock_offset told;                /* from its clock to the job's clock, as reported */
    uint64_t told_ns;                           /* at this time here */
    uint32_t njumps;
};

/* Adds an exchange, and the offset that the other rank reported for its own clock. Impossible
 * exchanges (a reply before its request) are ignored. */
void tt_clock_add(struct tt_clock_pair *p, const struct tt_clock_exchange *x,
                  const struct tt_clock_offset *told);
/* Returns the offset from this clock to the other one, at now_ns. */
struct tt_clock_offset tt_clock_of_pair(const struct tt_clock_pair *p, uint64_t now_ns);
/* As tt_clock_of_pair, for ranks on one host: the offset is 0, unless the exchanges prove that
 * their clocks differ (time namespaces). */
struct tt_clock_offset tt_clock_of_host(const struct tt_clock_pair *p, uint64_t now_ns);
/* Returns the offset from this clock to the job's clock, via the other rank; `pair` is the offset
 * to that rank. */
struct tt_clock_offset tt_clock_by_way_of(const struct tt_clock_pair *p,
                                          const struct tt_clock_offset *pair, uint64_t now_ns);
/* Returns whether two offsets of the same clock cannot both be true. */
bool tt_clock_contradict(const struct tt_clock_offset *a, const struct tt_clock_offset *b);
/* Returns the better of two offsets of the same clock: the known one, or the one with the smaller
 * bound. */
struct tt_clock_offset tt_clock_better(const struct tt_clock_offset *a,
                                       const struct tt_clock_offset *b);

#endif
