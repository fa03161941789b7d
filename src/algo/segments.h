/* How long the segments of a call are: a pure function of the call and of limits that all ranks agree on, so that all cut alike. */
#ifndef TT_ALGO_SEGMENTS_H
#define TT_ALGO_SEGMENTS_H

#include "sched/algo.h"

#define TT_SEGMENT_MIN 8192u    /* nothing is cut shorter */

struct tt_segment_limits {
    uint64_t segment_bytes;     /* of the wire */
    uint64_t eager_bytes;
    bool all_local;             /* all ranks share memory */
    uint64_t cache_bytes;       /* the last cache before memory, that so many processors share; 0: not told */
    uint32_t cache_cpus;
    /* Software of a message, of both its ends together; between hosts the latency, one way, and a byte's time on a rail. 0: no link is told. */
    double far_message_ns, near_message_ns, far_latency_ns, rail_byte_ns;
};

/* How a call's messages go. */
struct tt_segments {
    uint64_t segment_bytes;     /* a power of two, at least eager_bytes */
    uint8_t streams, depth;
    uint8_t lanes;              /* to a peer that segments go over, of those that there are; 0: all */
};

/* A message becomes several segments, so that its ends overlap: four in shared memory, of one block; two between hosts, where the
 * kernel lets them overlap too and each costs system calls, of the longest message that the algorithm has, as far as that is
 * known: of v kinds, and where there are very many rounds, of one block. In shared memory a block of two ranks is cut into no more than 64, of n into 32 n,
 * where these are up to eight times as long as the wire's, and longer than the wire's only as far as the slots of the ranks at one cache take no more than a quarter of it. Eight, but none below 32 KiB (64 KiB where it is added to something), of an
 * allgather or reduce_scatter in which what came from another host is passed on within this one, or the other way. Where the rail is told, none
 * of these is so short that a rank's software for its segments would take longer than its rail for its bytes, or, of what lands in slots, is cut
 * into eight where the slots would then not hold what the rail carries in a round trip. */
struct tt_segments tt_segments_choose(const struct tt_algo *algo, const struct tt_coll *c,
                                      const struct tt_segment_limits *limits);

/* Segments that somebody else chose (a power of two), kept within what one operation's landing memory may hold, and not shorter than
 * an eager message. */
struct tt_segments tt_segments_fit(const struct tt_algo *algo, const struct tt_coll *c,
                                   const struct tt_segment_limits *limits, struct tt_segments s);

#endif
