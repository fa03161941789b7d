/* Runs one collective on simulated ranks: real executors and data, and a network with random delays
 * and reordering that depend on a seed. */
#ifndef TT_TESTS_SIM_H
#define TT_TESTS_SIM_H

#include "engine/exec.h"
#include "reduce/reduce.h"

struct tt_sim_conf {
    const struct tt_algo *algo;
    const struct tt_coll *coll;     /* [nranks]; owned by the caller, valid during the run */
    uint32_t nranks;
    uint64_t segment_bytes, eager_bytes;
    uint8_t streams, depth;
    bool direct;                    /* receivers give senders access to their final buffers */
    bool mapped;                    /* senders write into slots directly; otherwise they pass
                                       segments to a transport that reads them late */
    tt_reduce_fn *kernel, *kernel_finish;
    bool in_order;                  /* straight-line programs run as in the engine: in program
                                       order, except for what tt_exec_meanwhile finds */
    uint32_t refuse_one_in;         /* 0: the network accepts all sends; otherwise (at least 2) it
                                       temporarily refuses one of this number */
    uint64_t seed;
    uint64_t latency_ns, jitter_ns; /* a message takes the latency plus up to jitter; messages of a
                                       pair may overtake each other */
    double byte_ns;                 /* per byte; each link sends one message at a time */
};

struct tt_sim_result {
    uint64_t time_ns;               /* simulated time until the last rank finished */
    uint64_t messages;
    uint64_t bytes_per_executor;    /* memory of the largest executor with its peers */
};

/* Runs the collective. src[r] and dst[r] are rank r's buffers (equal addresses if
 * coll[r].in_place). Returns TUTTI_ERR_TIMEOUT if the ranks are stuck; why[why_bytes] then names a
 * rank and what it waits for (not logged). */
tutti_status tt_sim_run(const struct tt_sim_conf *conf, void *const *src, void *const *dst,
                        struct tt_sim_result *result, char *why, size_t why_bytes);

#endif
