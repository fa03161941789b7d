/* What the training examples share beside the model: their options, the state of a run, and the steps of optimizers. */
#ifndef TRAIN_H
#define TRAIN_H

#include "charmodel.h"

#define ROLES_MAX 64    /* members of a replica group */

struct options {
    const char *text;
    uint64_t seed, steps, batch;    /* examples of a step: of all workers together in DDP, of each in DiLoCo */
    uint64_t inner, workers;        /* DiLoCo: steps between two exchanges; train_alone: how many workers it plays */
    const char *replay;             /* train_alone: a file of exchanges (replay.h); NULL: none */
    int delay;                      /* train_alone: each mean is applied one exchange late */
    uint64_t members;               /* elastic runs: so many begin; 0: whoever is there */
    uint64_t group, role, roles;    /* train_hsdp: which member this is, and how many have one copy of the model among them */
    double rate, momentum;          /* of each step */
    double outer_rate, outer_momentum;
};

/* Kinds of programs, which have options of their own. */
enum {
    TRAINS = 1,             /* all of them */
    TRAINS_TOGETHER = 2,    /* all take each step together */
    TRAINS_APART = 4,       /* DiLoCo */
    TRAINS_ALONE = 8,       /* one process plays all workers */
    TRAINS_ELASTIC = 16,    /* members come and go */
    TRAINS_IN_GROUPS = 32   /* the members of a group share a model */
};

/* Reads the arguments of a program of that kind (or of several, added up); ends the process with status 2 and a sentence if they make no sense. */
void options_parse(struct options *o, int argc, char **argv, unsigned kind, const char *about);

/* A worker's numbers, each vector [n]. */
struct worker {
    size_t n;
    real *param, *velocity;
    real *gradient;         /* [n + 1]: the loss is behind it, so that one all-reduce brings both */
};

/* n zeros each. False without memory, which it says. */
int worker_room(struct worker *w, size_t n);
/* A worker of the text's model, before its first step. Likewise. */
int worker_init(struct worker *w, const struct text *t, uint64_t seed);
void worker_free(struct worker *w);

/* The examples of a step's batch that are a rank's: as many as the others', or one more. */
struct batch share_of(const struct options *o, uint64_t step, uint64_t rank, uint64_t nranks);
/* The gradient and loss of some examples, each divided by `of`, into w->gradient. */
void worker_look(struct worker *w, const struct text *t, const struct batch *b, double of);
/* velocity = momentum velocity + gradient; param -= rate velocity. */
void worker_step(struct worker *w, const struct options *o);

/* "STEP LOSS", one line for each step of a curve. */
void curve_print(uint64_t step, double loss);

#endif
