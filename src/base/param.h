/* The tables of what the environment may set: numbers, and words. `tutti info --params` prints both. */
#ifndef TT_BASE_PARAM_H
#define TT_BASE_PARAM_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* One line each in param.c: name in the environment, unit, default, bounds, one sentence. */
enum tt_param_id {
    TT_PARAM_TIMEOUT_MS,
    TT_PARAM_LANES,
    TT_PARAM_EAGER_BYTES,       /* largest message that travels without asking first, within a host */
    TT_PARAM_TCP_EAGER_BYTES,   /* and between hosts */
    TT_PARAM_SEGMENT_BYTES,     /* segment of a streamed transfer on shm */
    TT_PARAM_TCP_SEGMENT_BYTES,
    TT_PARAM_TCP_SILENCE_S,     /* how long a TCP peer's host may say nothing */
    TT_PARAM_SPIN_US,           /* how long a waiter spins before it blocks, if cores suffice */
    TT_PARAM_CMA,               /* process_vm_readv: 0 never, 1 where it pays, 2 for all longer copies */
    TT_PARAM_NUDGE_MS,          /* how long an operation waits before it asks the rank it waits for */
    TT_PARAM_FTAR_CHUNK_BYTES,  /* longest message of an all-reduce that bounds what is in flight */
    TT_PARAM_FTAR_CHUNKS,       /* how many of them may be on their way to one peer */
    TT_PARAM_FTAR_PIECE_BYTES,  /* what goes round its ring as one message */
    TT_PARAM_FTAR_REDUCE_BYTES, /* what of that is added, and sent on, at a time */
    TT_PARAM_TOPO_MEASURE,      /* enum tt_measure_what of src/comm: what start-up measures between hosts */
    TT_PARAM_RDMA_PORT,
    TT_PARAM_RDMA_SERVICE_LEVEL,
    TT_PARAM_RDMA_TRAFFIC_CLASS,
    TT_PARAM_OFI_HMEM,
    TT_PARAM_REGISTER_BYTES,    /* registered without being used */
    TT_PARAM_REGISTER_COUNT,
    TT_PARAM_REGISTER_DYNAMIC,  /* 0: calls use only what the application told of */
    TT_PARAM_HUGE_PAGES,        /* 1: long buffers that come again are moved to huge pages */
    TT_PARAM_COUNT
};

struct tt_param {
    const char *name;           /* "TUTTI_TIMEOUT_MS" */
    const char *unit;
    int64_t value_default, value_min, value_max;        /* value_min -1: -1 is none, and 0 no value */
    const char *summary;
};

extern const struct tt_param tt_params[TT_PARAM_COUNT];

/* The variables that are no numbers. They are read where they are used: launch.c (boot), log.c, reduce.c. */
struct tt_param_word {
    const char *name, *summary;
};

extern const struct tt_param_word tt_param_words[];
extern const size_t tt_nparam_words;

/* Warns of variables of the environment that begin with TUTTI_ and are in neither table: most likely they are misspelt. Only the
 * first call in a process does it. */
void tt_param_warn_unknown(void);

/* Reads the parameter from the environment: *out is its value, or the default where it is missing or empty. A value that is
 * no number or out of bounds is TUTTI_ERR_INVALID with the name, the value and the bounds. */
tutti_status tt_param_get(enum tt_param_id id, int64_t *out);
/* The same of a text that is none of the environment's, and not empty. */
tutti_status tt_param_read(enum tt_param_id id, const char *text, int64_t *out);

#endif
