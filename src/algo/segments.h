/* Segment length of a call: a pure function of the call and of limits that all ranks agree on, so
 * that all ranks use the same segments. */
#ifndef TT_ALGO_SEGMENTS_H
#define TT_ALGO_SEGMENTS_H

#include "sched/algo.h"

#define TT_SEGMENT_MIN 8192u    /* minimum segment */

struct tt_segment_limits {
    uint64_t segment_bytes;     /* of the wire */
    uint64_t eager_bytes;
    bool all_local;             /* all ranks share memory */
    uint64_t cache_bytes;       /* last-level cache, shared by cache_cpus CPUs; 0: unknown */
    uint32_t cache_cpus;
    /* _message_ns: software overhead of a message, both ends together. far_latency_ns: one-way
     * latency between hosts. rail_byte_ns: time of a byte on a rail. 0: unknown. */
    double far_message_ns, near_message_ns, far_latency_ns, rail_byte_ns;
};

/* Transfer parameters of a call's messages. */
struct tt_segments {
    uint64_t segment_bytes;     /* a power of two, at least eager_bytes */
    uint8_t streams, depth;
    uint8_t lanes;              /* number of lanes to a peer for segments; 0: all */
};

/* A message becomes several segments, so that sender and receiver overlap. In shared memory a block
 * becomes four. Between hosts a message becomes two, since the kernel also overlaps them and each
 * costs system calls. That message is the algorithm's longest if it is known, or one block for v
 * kinds and very many rounds.
 * In shared memory a block becomes at most 32 segments per rank (64 for two ranks). For this,
 * segments may be up to eight times as long as the wire's. They are longer than the wire's only if
 * the slots of the ranks at one cache take at most a quarter of it.
 * Eight segments, of at least 32 KiB (64 KiB if reduced), for an allgather or reduce_scatter that
 * forwards data from other hosts within this one, or the reverse.
 * If the rail's rate is known, no segment is so short that a rank's software takes longer than its
 * rail. Messages received in slots are not split into eight if the slots would then hold less than
 * the rail carries in a round trip. */
struct tt_segments tt_segments_choose(const struct tt_algo *algo, const struct tt_coll *c,
                                      const struct tt_segment_limits *limits);

/* Limits segments chosen elsewhere (a power of two) by the receive memory of one operation, and by
 * the length of an eager message. */
struct tt_segments tt_segments_fit(const struct tt_algo *algo, const struct tt_coll *c,
                                   const struct tt_segment_limits *limits, struct tt_segments s);

#endif
