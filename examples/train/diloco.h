/* DiLoCo without its communication: the inner steps of a worker, how far they brought it, and the outer step that all take with the mean of that.
 * A. Douillard and others, "DiLoCo: Distributed Low-Communication Training of Language Models", 2023. */
#ifndef DILOCO_H
#define DILOCO_H

#include "train.h"

/* What all workers have alike, [n] each. */
struct outer {
    size_t n;
    real *global, *velocity;
};

/* Begins where the worker is. False without memory, which it says. */
int outer_init(struct outer *u, const struct worker *w);
void outer_free(struct outer *u);

/* How many inner steps lie between step `step` and the next exchange: o->inner, but for the last ones. */
uint64_t inner_count(const struct options *o, uint64_t step);
/* The worker takes n steps from step `step` on, on the examples of worker `number`. Returns the mean of their losses. */
double inner_steps(const struct options *o, const struct text *t, struct worker *w, uint64_t step, uint64_t n,
                   uint64_t number);

/* delta[n] = global - local. */
void outer_delta(const struct outer *u, const struct worker *w, real *delta);
/* Nesterov, from the mean of the workers' deltas: velocity = momentum velocity + delta; global -= rate (momentum velocity + delta). */
void outer_step(struct outer *u, const real *delta, const struct options *o);
/* local = global. The worker keeps the velocity of its own steps. */
void worker_take(struct worker *w, const struct outer *u);

#endif
