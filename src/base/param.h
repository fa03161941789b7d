/* The tables of environment variables: numbers and words. `tutti info --params` prints both. */
#ifndef TT_BASE_PARAM_H
#define TT_BASE_PARAM_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* One line each in param.c: variable, unit, default, bounds and a summary. */
enum tt_param_id {
    TT_PARAM_TIMEOUT_MS,
    TT_PARAM_LANES,
    TT_PARAM_FAR_LANES,         /* on demand, to TCP peers with a long round trip */
    TT_PARAM_EAGER_BYTES,       /* largest eager message within a host */
    TT_PARAM_TCP_EAGER_BYTES,   /* largest eager message between hosts */
    TT_PARAM_SEGMENT_BYTES,     /* segment of a streamed transfer on shm */
    TT_PARAM_TCP_SEGMENT_BYTES,
    TT_PARAM_TCP_SILENCE_S,     /* silence after which a TCP peer's host is lost */
    TT_PARAM_SPIN_US,           /* time that a waiting thread spins before it blocks, if cores
                                   suffice */
    TT_PARAM_CMA,               /* process_vm_readv: 0 never, 1 if it is faster, 2 for all longer
                                   copies */
    TT_PARAM_PROBE_MS,          /* time that an operation waits before it probes the awaited rank */
    TT_PARAM_FTAR_CHUNK_BYTES,  /* largest message of an all-reduce that bounds the bytes in
                                   flight */
    TT_PARAM_FTAR_CHUNKS,       /* maximum number of such messages in flight to a peer */
    TT_PARAM_FTAR_PIECE_BYTES,  /* message size within its ring */
    TT_PARAM_FTAR_REDUCE_BYTES, /* unit of reduction and forwarding within that message */
    TT_PARAM_TOPO_MEASURE,      /* enum tt_measure_what of src/comm: measurements between hosts
                                   at start-up */
    TT_PARAM_RDMA_PORT,
    TT_PARAM_RDMA_SERVICE_LEVEL,
    TT_PARAM_RDMA_TRAFFIC_CLASS,
    TT_PARAM_OFI_HMEM,
    TT_PARAM_REGISTER_BYTES,    /* maximum bytes that stay registered while unused */
    TT_PARAM_REGISTER_COUNT,
    TT_PARAM_REGISTER_DYNAMIC,  /* 0: RDMA only on memory that the application has registered */
    TT_PARAM_HUGE_PAGES,        /* 1: move repeatedly used long buffers to huge pages */
    TT_PARAM_OVERLAY_DOUBLING,  /* 1: the control overlay requests the addresses of its links */
    TT_PARAM_GPU_PEER_COPIES,   /* 1: copies between device memories within a host */
    TT_PARAM_TRACE,             /* 0: off; n: one of n operations is recorded */
    TT_PARAM_TRACE_RECORDS,     /* size of the ring of operations */
    TT_PARAM_TRACE_SIGNAL,      /* signal that writes a dump; 0: none */
    TT_PARAM_COUNT
};

struct tt_param {
    const char *name;           /* "TUTTI_TIMEOUT_MS" */
    const char *unit;
    int64_t value_default, value_min, value_max;        /* value_min -1: -1 means none, and 0 is
                                                           invalid */
    const char *summary;
};

extern const struct tt_param tt_params[TT_PARAM_COUNT];

/* Variables that are not numbers. They are read where they are used: launch.c (boot), log.c,
 * reduce.c. */
struct tt_param_word {
    const char *name, *summary;
};

extern const struct tt_param_word tt_param_words[];
extern const size_t tt_nparam_words;

/* Warns of environment variables that begin with TUTTI_ and are in neither table, most likely
 * misspelt. Only the first call in a process has an effect. */
void tt_param_warn_unknown(void);

/* Reads the parameter from the environment. *out is its value, or the default if it is unset or
 * empty. INVALID: not a number, or out of bounds; the message has the name, the value and the
 * bounds. */
tutti_status tt_param_get(enum tt_param_id id, int64_t *out);
/* As tt_param_get, for a non-empty text that is not from the environment. */
tutti_status tt_param_read(enum tt_param_id id, const char *text, int64_t *out);

#endif
