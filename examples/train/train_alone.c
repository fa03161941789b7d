/* Reference for the other training examples: the same training in one process, without Tutti. Plain
 * training, as in train_ddp; with --workers N, DiLoCo with N workers, whose inner steps run one
 * after another; with --replay FILE, DiLoCo with the members that an elastic run had, exchange by
 * exchange. With --delay each mean is applied one exchange later, as in train_diloco_async. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "diloco.h"
#include "replay.h"

static const char about[] = "Trains a character model of a text in this process alone; with "
                            "--workers or --replay, simulates DiLoCo.";

static void train(const struct options *o, const struct text *t, struct worker *w)
{
    for (uint64_t step = 0; step < o->steps; step++) {
        const struct batch all = { .seed = o->seed, .step = step, .first = 0, .count = o->batch };

        worker_look(w, t, &all, (double)o->batch);
        curve_print(step, (double)w->gradient[w->n]);
        worker_step(w, o);
    }
}

/* ---- DiLoCo ---- */

/* State of the replayed run. */
struct play {
    const struct options *o;
    const struct text *t;
    struct replay replay;       /* file NULL: always o->workers workers */
    struct outer u;
    double *sum;                /* [u.n]: sum of the workers' deltas, in double, so that curves
                                   differ only by the rounding of the ranks */
    real *mean[2];              /* [u.n] each: of this exchange, and with --delay of the previous
                                   one */
    size_t nworkers;            /* workers so far; each keeps its velocity, like a member */
    uint64_t number[WORKERS_MAX];
    struct worker worker[WORKERS_MAX];
};

/* Returns NULL, after a message, if out of memory or if there are too many workers. */
static struct worker *find_worker(struct play *p, uint64_t number)
{
    for (size_t k = 0; k < p->nworkers; k++)
        if (p->number[k] == number)
            return &p->worker[k];
    if (p->nworkers == WORKERS_MAX) {
        fprintf(stderr, "too many workers: the maximum is %d\n", WORKERS_MAX);
        return NULL;
    }
    if (!worker_init(&p->worker[p->nworkers], p->t, p->o->seed))
        return NULL;
    p->number[p->nworkers] = number;
    return &p->worker[p->nworkers++];
}

/* Returns 1, 0 if there are no more exchanges, or -1 after a message, if the file is invalid. */
static int next_exchange(struct play *p, uint64_t step, struct exchange *e)
{
    if (p->replay.file)
        return replay_next(&p->replay, e);
    e->step = step + inner_count(p->o, step);
    e->n = p->o->workers;
    for (size_t k = 0; k < e->n; k++)
        e->worker[k] = k;
    return e->step > step;
}

/* Runs the steps of all workers of an exchange from the shared parameters; p->mean[0] receives the
 * mean of their deltas. */
static int move(struct play *p, uint64_t step, const struct exchange *e, double *loss)
{
    *loss = 0;
    memset(p->sum, 0, p->u.n * sizeof *p->sum);
    for (size_t k = 0; k < e->n; k++) {
        struct worker *w = find_worker(p, e->worker[k]);

        if (!w)
            return 0;
        worker_take(w, &p->u);
        *loss += inner_steps(p->o, p->t, w, step, e->step - step, e->worker[k]) / (double)e->n;
        for (size_t i = 0; i < w->n; i++)
            p->sum[i] += (double)(p->u.global[i] - w->param[i]);
    }
    for (size_t i = 0; i < p->u.n; i++)
        p->mean[0][i] = (real)(p->sum[i] / (double)e->n);
    return 1;
}

static void swap(real *mean[2])
{
    real *const newer = mean[0];

    mean[0] = mean[1];
    mean[1] = newer;
}

static int play(struct play *p)
{
    struct exchange e;
    uint64_t step = 0;
    double loss;
    int more;

    while ((more = next_exchange(p, step, &e)) > 0) {
        if (!move(p, step, &e, &loss))
            return 0;
        if (p->o->delay)
            swap(p->mean);      /* at the first exchange: zeros, which have no effect */
        outer_step(&p->u, p->mean[0], p->o);
        step = e.step;
        curve_print(step, loss);
    }
    return more == 0;
}

static void play_fini(struct play *p)
{
    if (p->replay.file)
        fclose(p->replay.file);
    for (size_t k = 0; k < p->nworkers; k++)
        worker_free(&p->worker[k]);
    free(p->mean[0]);
    free(p->mean[1]);
    free(p->sum);
}

static int play_init(struct play *p, const struct options *o, const struct text *t)
{
    const size_t n = model_size(t->nsymbols);

    p->o = o;
    p->t = t;
    p->replay.name = o->replay;
    if (o->replay && !(p->replay.file = fopen(o->replay, "r"))) {
        fprintf(stderr, "%s: %s\n", o->replay, strerror(errno));
        return 0;
    }
    p->mean[0] = calloc(n, sizeof(real));
    p->mean[1] = calloc(n, sizeof(real));
    p->sum = calloc(n, sizeof *p->sum);
    if (p->mean[0] && p->mean[1] && p->sum)
        return 1;
    fprintf(stderr, "out of memory for %zu parameters\n", n);
    return 0;
}

static int run_apart(const struct options *o, const struct text *t)
{
    struct play *p = calloc(1, sizeof *p);
    struct worker first;
    int good = 0;

    if (!p) {
        fprintf(stderr, "out of memory for workers\n");
        return 0;
    }
    if (play_init(p, o, t) && worker_init(&first, t, o->seed)) {
        if (outer_init(&p->u, &first)) {
            good = play(p);
            outer_free(&p->u);
        }
        worker_free(&first);
    }
    play_fini(p);
    free(p);
    return good;
}

int main(int argc, char **argv)
{
    struct options o;
    struct text t;
    struct worker w;
    int good;

    options_parse(&o, argc, argv, TRAINS_ALONE | TRAINS_APART, about);
    if (!text_load(&t, o.text))
        return 2;
    if (o.workers || o.replay) {
        good = run_apart(&o, &t);
    } else if ((good = worker_init(&w, &t, o.seed))) {
        train(&o, &t, &w);
        worker_free(&w);
    }
    text_free(&t);
    return good ? 0 : 1;
}
