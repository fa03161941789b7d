/* One collective on simulated ranks: real executors, a network that delays and reorders by a seed. */
#ifndef TT_SIM_SIM_H
#define TT_SIM_SIM_H

#include "engine/exec.h"
#include "reduce/reduce.h"

struct tt_sim_conf {
    const struct tt_algo *algo;
    const struct tt_coll *coll;     /* [nranks], the caller's, alive during the run */
    uint32_t nranks;
    uint64_t segment_bytes, eager_bytes;
    uint8_t streams, depth;
    bool direct;                    /* receivers open their final buffers */
    bool mapped;                    /* senders write into slots themselves; else they hand segments to a wire that reads them late */
    tt_reduce_fn *kernel, *kernel_finish;
    bool in_order;                  /* straight programs run as the shell runs them: in program order, but for what tt_exec_meanwhile finds */
    uint32_t refuse_one_in;         /* 0: the network takes everything; else (2 and more) it refuses one send in so many, for a while */
    uint64_t seed;
    uint64_t latency_ns, jitter_ns; /* of a message: latency plus up to jitter; messages of a pair may overtake each other */
    double byte_ns;                 /* per byte, of each link one after another */
};

struct tt_sim_result {
    uint64_t time_ns;               /* simulated, until the last rank finished */
    uint64_t messages;
    uint64_t bytes_per_executor;    /* memory of the largest executor with its peers */
};

/* Runs it. src[r] and dst[r] are rank r's buffers (equal addresses where coll[r].in_place says so). TUTTI_ERR_TIMEOUT if the
 * ranks are stuck, with why[why_bytes] naming a rank and what it waits for (no log). */
tutti_status tt_sim_run(const struct tt_sim_conf *conf, void *const *src, void *const *dst,
                        struct tt_sim_result *result, char *why, size_t why_bytes);

#endif
