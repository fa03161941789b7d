/* DiLoCo without its communication: the inner steps of a worker, its delta, and the outer step with
 * the mean delta. A. Douillard and others, "DiLoCo: Distributed Low-Communication Training of
 * Language Models", 2023. */
#ifndef DILOCO_H
#define DILOCO_H

#include "train.h"

/* Outer state, equal on all workers; vectors of [n]. */
struct outer {
    size_t n;
    real *global, *velocity;
};

/* Initializes the state from the worker's parameters. Returns false, after a message, if out of
 * memory. */
int outer_init(struct outer *u, const struct worker *w);
void outer_free(struct outer *u);

/* Returns the number of inner steps between step `step` and the next exchange: o->inner, except at
 * the end. */
uint64_t inner_count(const struct options *o, uint64_t step);
/* Runs n steps, starting at step `step`, on the examples of worker `number`. Returns their mean
 * loss. */
double inner_steps(const struct options *o, const struct text *t, struct worker *w, uint64_t step,
                   uint64_t n, uint64_t number);

/* Computes delta[n] = global - local. */
void outer_delta(const struct outer *u, const struct worker *w, real *delta);
/* Nesterov step with the mean of the workers' deltas: velocity = momentum velocity + delta; global
 * -= rate (momentum velocity + delta). */
void outer_step(struct outer *u, const real *delta, const struct options *o);
/* Sets local = global. The worker keeps the velocity of its inner steps. */
void worker_take(struct worker *w, const struct outer *u);

#endif
