#include "diloco.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int outer_init(struct outer *u, const struct worker *w)
{
    u->n = w->n;
    u->global = malloc(u->n * sizeof(real));
    u->velocity = calloc(u->n, sizeof(real));
    if (!u->global || !u->velocity) {
        fprintf(stderr, "out of memory for %zu parameters\n", u->n);
        outer_free(u);
        return 0;
    }
    memcpy(u->global, w->param, u->n * sizeof(real));
    return 1;
}

void outer_free(struct outer *u)
{
    free(u->global);
    free(u->velocity);
}

uint64_t inner_count(const struct options *o, uint64_t step)
{
    return o->inner < o->steps - step ? o->inner : o->steps - step;
}

double inner_steps(const struct options *o, const struct text *t, struct worker *w, uint64_t step,
                   uint64_t n, uint64_t number)
{
    double loss = 0;

    for (uint64_t i = 0; i < n; i++) {
        const struct batch mine = {
            .seed = o->seed, .step = step + i, .first = number * o->batch, .count = o->batch
        };

        worker_look(w, t, &mine, (double)o->batch);
        loss += (double)w->gradient[w->n] / (double)n;
        worker_step(w, o);
    }
    return loss;
}

void outer_delta(const struct outer *u, const struct worker *w, real *delta)
{
    for (size_t i = 0; i < u->n; i++)
        delta[i] = u->global[i] - w->param[i];
}

void outer_step(struct outer *u, const real *delta, const struct options *o)
{
    for (size_t i = 0; i < u->n; i++) {
        u->velocity[i] = (real)o->outer_momentum * u->velocity[i] + delta[i];
        u->global[i] -= (real)o->outer_rate * ((real)o->outer_momentum * u->velocity[i] + delta[i]);
    }
}

void worker_take(struct worker *w, const struct outer *u)
{
    memcpy(w->param, u->global, u->n * sizeof(real));
}
