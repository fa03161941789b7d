/* What the other training examples are compared with: the same in one process, without Tutti. Plain training, as train_ddp does it on
 * ranks; with --workers N, DiLoCo, whose N workers take their inner steps one after another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "train.h"

static const char about[] = "Trains a character model of a text in this process alone: plainly, or with --workers as DiLoCo would.";

static void train(const struct options *o, const struct text *t, struct worker *w)
{
    for (uint64_t step = 0; step < o->steps; step++) {
        const struct batch all = { .seed = o->seed, .step = step, .first = 0, .count = o->batch };

        worker_look(w, t, &all, o->batch);
        curve_print(step, (double)w->gradient[w->n]);
        worker_step(w, o);
    }
}

/* The steps of worker k from the shared parameters on: adds its move to delta, and returns its mean loss. */
static double move(const struct options *o, const struct text *t, struct worker *w, uint64_t k, uint64_t step,
                   uint64_t n, const real *global, double *delta)
{
    double loss = 0;

    memcpy(w->param, global, w->n * sizeof(real));
    for (uint64_t i = 0; i < n; i++) {
        const struct batch mine = { .seed = o->seed, .step = step + i, .first = k * o->batch, .count = o->batch };

        worker_look(w, t, &mine, o->batch);
        loss += (double)w->gradient[w->n] / (double)n;
        worker_step(w, o);
    }
    for (size_t i = 0; i < w->n; i++)
        delta[i] += (double)(global[i] - w->param[i]) / (double)o->workers;
    return loss;
}

/* w[workers] keep a velocity each, as ranks do. Sums are double here: what they differ by is the ranks' rounding. */
static void train_apart(const struct options *o, const struct text *t, struct worker *w, real *global, real *velocity,
                        real *mean, double *delta)
{
    memcpy(global, w[0].param, w[0].n * sizeof(real));
    for (uint64_t step = 0; step < o->steps;) {
        const uint64_t n = o->inner < o->steps - step ? o->inner : o->steps - step;
        double loss = 0;

        memset(delta, 0, w[0].n * sizeof *delta);
        for (uint64_t k = 0; k < o->workers; k++)
            loss += move(o, t, &w[k], k, step, n, global, delta) / (double)o->workers;
        for (size_t i = 0; i < w[0].n; i++)
            mean[i] = (real)delta[i];
        outer_step(global, velocity, mean, w[0].n, o);
        step += n;
        curve_print(step, loss);
    }
}

static int run_apart(const struct options *o, const struct text *t)
{
    const size_t n = model_size(t->nsymbols);
    struct worker *w = calloc(o->workers, sizeof *w);
    real *global = calloc(3 * n, sizeof *global);
    double *delta = calloc(n, sizeof *delta);
    uint64_t ready = 0;

    while (w && ready < o->workers && worker_init(&w[ready], t, o->seed))
        ready++;
    if (ready == o->workers && global && delta)
        train_apart(o, t, w, global, global + n, global + 2 * n, delta);
    else
        fprintf(stderr, "no memory for %zu parameters of %llu workers\n", n, (unsigned long long)o->workers);
    for (uint64_t k = 0; k < ready; k++)
        worker_free(&w[k]);
    free(w);
    free(delta);
    free(global);
    return ready == o->workers && global && delta;
}

int main(int argc, char **argv)
{
    struct options o;
    struct text t;
    struct worker w;
    int good;

    options_parse(&o, argc, argv, about);
    if (!text_load(&t, o.text))
        return 2;
    if (o.workers) {
        good = run_apart(&o, &t);
    } else if ((good = worker_init(&w, &t, o.seed))) {
        train(&o, &t, &w);
        worker_free(&w);
    }
    text_free(&t);
    return good ? 0 : 1;
}
