/* Shared by the training examples, in addition to the model: options, the state of a run, and
 * optimizer steps. */
#ifndef TRAIN_H
#define TRAIN_H

#include "charmodel.h"

#define ROLES_MAX 64    /* members of a replica group */

struct options {
    const char *text;
    uint64_t seed, steps, batch;    /* examples per step: of all workers together (DDP), or of
                                       each worker (DiLoCo) */
    uint64_t inner, workers;        /* DiLoCo: steps between two exchanges; train_alone: number
                                       of simulated workers */
    const char *replay;             /* train_alone: a file of exchanges (replay.h); NULL: none */
    int delay;                      /* train_alone: each mean is applied one exchange later */
    uint64_t members;               /* elastic runs: number of members at the start; 0: any */
    uint64_t group, role, roles;    /* train_hsdp: the group and role of this member, and the
                                       number of members that share a copy of the model */
    double rate, momentum;          /* learning rate and momentum */
    double outer_rate, outer_momentum;
};

/* Kinds of programs, which have different options. */
enum {
    TRAINS = 1,             /* all programs */
    TRAINS_TOGETHER = 2,    /* workers take every step together */
    TRAINS_APART = 4,       /* DiLoCo */
    TRAINS_ALONE = 8,       /* one process simulates all workers */
    TRAINS_ELASTIC = 16,    /* membership changes */
    TRAINS_IN_GROUPS = 32   /* the members of a group share a copy of the model */
};

/* Parses the arguments of a program of this kind (or of several, added). Invalid arguments end the
 * process with status 2 and a message. */
void options_parse(struct options *o, int argc, char **argv, unsigned kind, const char *about);

/* State of a worker; vectors of [n]. */
struct worker {
    size_t n;
    real *param, *velocity;
    real *gradient;         /* [n + 1]: the loss is the last element, so that one all-reduce sums
                               both */
};

/* Allocates vectors of n zeros. Returns false, after a message, if out of memory. */
int worker_room(struct worker *w, size_t n);
/* Initializes a worker with the text's model, before its first step. Errors as above. */
int worker_init(struct worker *w, const struct text *t, uint64_t seed);
void worker_free(struct worker *w);

/* Returns a rank's examples of a step's batch. Shares differ by at most one example. */
struct batch share_of(const struct options *o, uint64_t step, uint64_t rank, uint64_t nranks);
/* Computes the gradient and loss of some examples, divided by `of`, into w->gradient. */
void worker_look(struct worker *w, const struct text *t, const struct batch *b, double of);
/* velocity = momentum velocity + gradient; param -= rate velocity. */
void worker_step(struct worker *w, const struct options *o);

/* Prints "STEP LOSS", one line per step. */
void curve_print(uint64_t step, double loss);

#endif
