/* Options of `tutti sim`. */
#ifndef TUTTI_TOOLS_SIM_OPTIONS_H
#define TUTTI_TOOLS_SIM_OPTIONS_H

#include "algo/algos.h"
#include "tools/perf/perf_case.h"
#include "sim/des.h"

#define SIM_ALGOS_MAX 32
#define SIM_FAULTS_MAX 64

struct sim_options {
    const struct perf_coll *coll;
    const char *topo;           /* a built-in description or a file */
    const char *algos;          /* "a,b,c", "all", or NULL: the algorithm that the library would
                                   select */
    uint32_t nranks, root;      /* 0 ranks: all ranks of the description */
    uint64_t bytes, block;      /* size of the larger buffer, or of one rank's block; one of them
                                   is 0 */
    bool sweeps;
    uint64_t min, max, factor;  /* of --sweep */
    const char *plot;           /* output file of the drawing; NULL: none */
    bool json, quiet;
    struct tt_fault faults[SIM_FAULTS_MAX];
    uint32_t nfaults;
    uint64_t segment_bytes, eager_bytes;        /* segment 0: as the library would select */
    uint32_t streams, depth;                    /* 0: as the library would select */
    uint64_t lane_bytes;
    uint32_t lanes;
    bool slots, whole;
    double send_ns, receive_ns, reduce_gbs, copy_gbs, jitter_ns, skew_ns;
    uint64_t seed;
};

/* Parses the command line. Invalid options end the process with an error message. */
void sim_options_parse(struct sim_options *o, int argc, char **argv);

#endif
