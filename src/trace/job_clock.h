/* The clock of the job: that of rank 0. Each rank compares its monotonic clock with those of lower
 * ranks that it has control connections to, and adds the offsets that these state. So offsets
 * spread from rank 0 in as many exchanges as there are hops, and never in a circle. Pure: all times
 * are arguments.
 *
 * One exchange, as in NTP (RFC 5905, section 8): sent and received here, received and replied
 * there. The true offset lies within half of the time that the messages were under way, whatever
 * the directions took. The sample with the smallest bound counts. Bounds grow by TT_CLOCK_DRIFT_PPM
 * with their age. Two samples whose bounds do not overlap prove that one of the clocks has jumped:
 * only the newer one is kept. */
#ifndef TT_TRACE_JOB_CLOCK_H
#define TT_TRACE_JOB_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_CLOCK_SAMPLES 8u
#define TT_CLOCK_DRIFT_PPM 1000u        /* of two clocks: both may be slewed by 500 ppm */
/* Bounds above this are useless, and offsets above it are not plausible: about 31 years. */
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

/* What is known of one other clock. All zero: nothing. */
struct tt_clock_pair {
    struct {
        struct tt_clock_offset offset;
        uint64_t at_ns;                         /* time here */
    } sample[TT_CLOCK_SAMPLES];
    uint32_t next;                              /* oldest sample */
    struct tt_clock_offset told;                /* from its clock to that of the job, */
    uint64_t told_ns;                           /* stated at this time here */
    uint32_t njumps;
};

/* Adds an exchange, and what the other rank stated about its own clock. Exchanges that cannot be
 * true (a reply before its request) are ignored. */
void tt_clock_add(struct tt_clock_pair *p, const struct tt_clock_exchange *x,
                  const struct tt_clock_offset *told);
/* Returns the offset from this clock to the other one, at now_ns. */
struct tt_clock_offset tt_clock_of_pair(const struct tt_clock_pair *p, uint64_t now_ns);
/* As tt_clock_of_pair, for ranks on one host: the offset is 0, unless the exchanges prove that
 * their clocks differ (time namespaces). */
struct tt_clock_offset tt_clock_of_host(const struct tt_clock_pair *p, uint64_t now_ns);
/* Returns the offset from this clock to that of the job, by way of the other rank, to which `pair`
 * leads. */
struct tt_clock_offset tt_clock_by_way_of(const struct tt_clock_pair *p,
                                          const struct tt_clock_offset *pair, uint64_t now_ns);
/* Returns whether two offsets of the same clock cannot both be true. */
bool tt_clock_contradict(const struct tt_clock_offset *a, const struct tt_clock_offset *b);
/* Returns the better of two offsets of the same clock: the known one, or that with the smaller
 * bound. */
struct tt_clock_offset tt_clock_better(const struct tt_clock_offset *a,
                                       const struct tt_clock_offset *b);

#endif
