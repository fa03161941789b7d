/* What one rank has and does, whatever its kernels run on: its experts, tokens and routes, a layer, the memory of the megakernel; and rounds, each of whose results is
 * compared, bit by bit, with a dense reference. */
#ifndef RANK_H
#define RANK_H

#include "megakernel.h"
#include "model.h"
#include "options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The memory of blocks, which the host may not be able to reach itself. */
struct reach {
    void *(*have)(size_t bytes);        /* zeroed; NULL: there is none */
    void (*drop)(void *mem);            /* NULL is fine */
    void (*copy)(void *to, const void *from, size_t bytes);     /* one of them is the host's */
    void (*fill)(void *mem, int byte, size_t bytes);
};

/* Of the CPU device. */
extern const struct reach reach_host;

struct rank {
    const struct options *o;
    const struct reach *reach;
    struct model model;
    tutti_comm *comm;
    uint32_t rank, nranks, nblocks;
    tutti_moe *tiles;
    uint32_t first_expert;      /* that it holds */
    struct ffn ffn;
    float *gate, *up, *down;    /* blocks': of its experts */
    float *tokens, *out;        /* blocks' */
    uint32_t *experts;          /* the host's, as all below */
    float *weights, *reference, *got;
    struct mega mega;           /* what it points to is the blocks' */
    double compute_ms;          /* of the last collective round, by who runs it */
    tutti_device_counters counters[FORMS];
    tutti_status (*run)(void *arg, enum form form, const tutti_moe_routing *routing);    /* one run of that form, whose results are in `out` then */
    void *arg;
};

/* Zeroed memory of the host's; who has none ends, and so tells the others. */
void *rank_have(size_t n, size_t bytes);

/* Tiles that there can be from this rank for another one. */
size_t rank_tiles_max(const struct rank *me);

/* Everything but the layer. o, reach, model.shape, comm, run and arg are set, all else is zero. Who has no memory ends. */
void rank_make(struct rank *me);
/* The conf of a layer of that form: device is kept until it is created. */
tutti_moe_conf rank_conf(const struct rank *me, tutti_moe_form form, const tutti_device_conf *device);
/* Ends the layer, too. */
void rank_forget(struct rank *me);

/* Begins a run of the megakernel, whose memory is as before the first one then. */
tutti_status rank_begin(struct rank *me, const tutti_moe_routing *routing);

/* A run of each form that is refused on all ranks, as the last one sends a token to an expert that there is none. False: one went otherwise, which was told. */
bool rank_is_refused(struct rank *me);
/* All rounds of all forms: times[FORMS + 1][rounds] of each form, and of the computation. Exit status; what went wrong was told. */
int rank_measure(struct rank *me, double *times);
/* What rank 0 says of them. */
tutti_status rank_report(const struct rank *me, const double *times);

#ifdef __cplusplus
}
#endif

#endif
