/* State and work of one rank, independent of the device: its experts, tokens and routes, a layer,
 * and the memory of the megakernel. Runs rounds and compares each result bit by bit with a dense
 * reference. */
#ifndef RANK_H
#define RANK_H

#include "megakernel.h"
#include "model.h"
#include "options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of blocks, which the host may be unable to access directly. */
struct reach {
    void *(*have)(size_t bytes);        /* returns zeroed memory, or NULL if out of memory */
    void (*drop)(void *mem);            /* mem may be NULL */
    void (*copy)(void *to, const void *from, size_t bytes);     /* one of the two pointers is host
                                                               memory */
    void (*fill)(void *mem, int byte, size_t bytes);
};

/* Functions of the CPU device. */
extern const struct reach reach_host;

struct rank {
    const struct options *o;
    const struct reach *reach;
    struct model model;
    tutti_comm *comm;
    uint32_t rank, nranks, nblocks;
    tutti_moe *tiles;
    uint32_t first_expert;      /* first expert of this rank */
    struct ffn ffn;
    float *gate, *up, *down;    /* memory of blocks: weights of this rank's experts */
    float *tokens, *out;        /* memory of blocks */
    uint32_t *experts;          /* host memory, like all following fields */
    float *weights, *reference, *got;
    struct mega mega;           /* the megakernel; its pointers are memory of blocks */
    double compute_ms;          /* of the last collective round, set by the run function */
    tutti_device_counters counters[FORMS];
    /* runs one form; its results are then in `out` */
    tutti_status (*run)(void *arg, enum form form, const tutti_moe_routing *routing);
    void *arg;
};

/* Returns zeroed host memory. If out of memory, exits, which notifies the other ranks. */
void *rank_have(size_t n, size_t bytes);

/* Returns the maximum number of tiles from this rank to another one. */
size_t rank_tiles_max(const struct rank *me);

/* Creates everything except the layer. The caller has set o, reach, model.shape, comm, run and arg;
 * the rest is zero. Exits if out of memory. */
void rank_make(struct rank *me);
/* Returns the conf of a layer of this form; `device` must stay valid until the layer is created. */
tutti_moe_conf rank_conf(const struct rank *me, tutti_moe_form form,
                         const tutti_device_conf *device);
/* Undoes rank_make, and destroys the layer. */
void rank_forget(struct rank *me);

/* Prepares a run of the megakernel: resets its memory to the initial state. */
tutti_status rank_begin(struct rank *me, const tutti_moe_routing *routing);

/* Runs each form with a route of the last rank to a nonexistent expert, which all ranks must
 * refuse. Returns false, after an error message, if a run succeeds. */
bool rank_is_refused(struct rank *me);
/* Runs all rounds of all forms: times[FORMS + 1][rounds] of each form, and of the computation.
 * Prints errors and returns the exit status. */
int rank_measure(struct rank *me, double *times);
/* Prints the report on rank 0. */
tutti_status rank_report(const struct rank *me, const double *times);

#ifdef __cplusplus
}
#endif

#endif
