#include "train.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

enum {
    OPT_RATE = 256,
    OPT_MOMENTUM,
    OPT_OUTER_RATE,
    OPT_OUTER_MOMENTUM,
    OPT_GROUP,
    OPT_ROLE,
    OPT_ROLES
};

/* Each option, and the kinds of programs that accept it. */
static const struct {
    unsigned of;
    struct argp_option option;
} known[] = {
    { TRAINS, { "steps", 's', "N", 0, "training steps (default 300)", 0 } },
    { TRAINS_TOGETHER,
      { "batch", 'b', "N", 0, "examples per step, over all workers (default 64)", 0 } },
    { TRAINS_APART, { "batch", 'b', "N", 0, "examples per step and worker (default 64)", 0 } },
    { TRAINS, { "seed", 'r', "N", 0, "seed of initial parameters and examples (default 1)", 0 } },
    { TRAINS_APART,
      { "inner", 'i', "N", 0, "steps per worker between two exchanges (default 20)", 0 } },
    { TRAINS_ALONE,
      { "workers", 'w', "N", 0, "number of simulated DiLoCo workers; 0: plain training (default 0)",
        0 } },
    { TRAINS_ALONE,
      { "replay", 'p', "FILE", 0,
        "simulate the DiLoCo run that printed FILE (lines of step, loss, members)", 0 } },
    { TRAINS_ALONE,
      { "delay", 'd', NULL, 0, "apply each mean one exchange late, as train_diloco_async does",
        0 } },
    { TRAINS_ELASTIC,
      { "members", 'm', "N", 0,
        "wait for this number of members before the first step (default: do not wait)", 0 } },
    { TRAINS_IN_GROUPS,
      { "group", OPT_GROUP, "N", 0, "this member's replica group (default 0)", 0 } },
    { TRAINS_IN_GROUPS,
      { "role", OPT_ROLE, "N", 0, "part of the model on this member, from 0 (default 0)", 0 } },
    { TRAINS_IN_GROUPS,
      { "roles", OPT_ROLES, "N", 0, "parts of the model, and members per group (default 2)", 0 } },
    { TRAINS, { "rate", OPT_RATE, "R", 0, "learning rate (default 0.1)", 0 } },
    { TRAINS, { "momentum", OPT_MOMENTUM, "M", 0, "momentum (default 0.9)", 0 } },
    { TRAINS_APART,
      { "outer-rate", OPT_OUTER_RATE, "R", 0, "learning rate of the outer step (default 0.7)",
        0 } },
    { TRAINS_APART,
      { "outer-momentum", OPT_OUTER_MOMENTUM, "M", 0,
        "Nesterov momentum of the outer step (default 0.6)", 0 } },
};
#define NKNOWN (sizeof known / sizeof *known)

static uint64_t number(struct argp_state *state, const char *what, const char *arg, uint64_t min,
                       uint64_t max)
{
    char *end;
    unsigned long long v;

    errno = 0;
    v = strtoull(arg, &end, 10);
    if (*arg < '0' || *arg > '9' || *end || errno || v < min || v > max)
        argp_error(state, "--%s %s: must be a number from %" PRIu64 " to %" PRIu64, what, arg, min,
                   max);
    return v;
}

static double fraction(struct argp_state *state, const char *what, const char *arg, double max)
{
    char *end;
    const double v = strtod(arg, &end);

    if (end == arg || *end || !(v >= 0) || v > max)
        argp_error(state, "--%s %s: must be a number from 0 to %g", what, arg, max);
    return v;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case 's':
        o->steps = number(state, "steps", arg, 1, 10000000);
        return 0;
    case 'b':
        o->batch = number(state, "batch", arg, 1, 1000000);
        return 0;
    case 'r':
        o->seed = number(state, "seed", arg, 0, UINT64_MAX);
        return 0;
    case 'i':
        o->inner = number(state, "inner", arg, 1, 1000000);
        return 0;
    case 'w':
        o->workers = number(state, "workers", arg, 0, 1024);
        return 0;
    case 'p':
        o->replay = arg;
        return 0;
    case 'd':
        o->delay = 1;
        return 0;
    case 'm':
        o->members = number(state, "members", arg, 1, 1024);
        return 0;
    case OPT_GROUP:
        o->group = number(state, "group", arg, 0, 1000000);
        return 0;
    case OPT_ROLE:
        o->role = number(state, "role", arg, 0, ROLES_MAX - 1);
        return 0;
    case OPT_ROLES:
        o->roles = number(state, "roles", arg, 2, ROLES_MAX);
        return 0;
    case OPT_RATE:
        o->rate = fraction(state, "rate", arg, 100);
        return 0;
    case OPT_MOMENTUM:
        o->momentum = fraction(state, "momentum", arg, 1);
        return 0;
    case OPT_OUTER_RATE:
        o->outer_rate = fraction(state, "outer-rate", arg, 100);
        return 0;
    case OPT_OUTER_MOMENTUM:
        o->outer_momentum = fraction(state, "outer-momentum", arg, 1);
        return 0;
    case ARGP_KEY_ARG:
        if (o->text)
            argp_error(state, "unexpected argument \"%s\" (give one text)", arg);
        o->text = arg;
        return 0;
    case ARGP_KEY_END:
        if (!o->text)
            argp_error(state, "missing argument: a text file");
        if (o->workers && o->replay)
            argp_error(
                state,
                "conflicting options: --workers excludes --replay, whose file lists the workers");
        if (o->role >= o->roles)
            argp_error(state,
                       "--role %" PRIu64 ": the maximum with --roles %" PRIu64 " is %" PRIu64,
                       o->role, o->roles, o->roles - 1);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

void options_parse(struct options *o, int argc, char **argv, unsigned kind, const char *about)
{
    struct argp_option own[NKNOWN + 1] = { { 0 } };
    const struct argp argp = {
        .options = own, .parser = parse_one, .args_doc = "TEXT", .doc = about
    };
    size_t n = 0;

    for (size_t i = 0; i < NKNOWN; i++)
        if (known[i].of & (kind | TRAINS))
            own[n++] = known[i].option;
    *o = (struct options){
        .seed = 1,
        .steps = 300,
        .batch = 64,
        .inner = 20,
        .roles = 2,
        .rate = 0.1,
        .momentum = 0.9,
        .outer_rate = 0.7,
        .outer_momentum = 0.6,
    };
    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, o);
}

/* ---- workers ---- */

int worker_room(struct worker *w, size_t n)
{
    w->n = n;
    w->param = calloc(n, sizeof(real));
    w->velocity = calloc(n, sizeof(real));
    w->gradient = calloc(n + 1, sizeof(real));
    if (w->param && w->velocity && w->gradient)
        return 1;
    fprintf(stderr, "out of memory for %zu parameters\n", n);
    worker_free(w);
    return 0;
}

int worker_init(struct worker *w, const struct text *t, uint64_t seed)
{
    if (!worker_room(w, model_size(t->nsymbols)))
        return 0;
    model_draw(w->param, t->nsymbols, seed);
    return 1;
}

void worker_free(struct worker *w)
{
    free(w->param);
    free(w->velocity);
    free(w->gradient);
    *w = (struct worker){ .n = 0 };
}

struct batch share_of(const struct options *o, uint64_t step, uint64_t rank, uint64_t nranks)
{
    const uint64_t first = o->batch * rank / nranks;

    return (struct batch){ .seed = o->seed,
                           .step = step,
                           .first = first,
                           .count = o->batch * (rank + 1) / nranks - first };
}

void worker_look(struct worker *w, const struct text *t, const struct batch *b, double of)
{
    memset(w->gradient, 0, w->n * sizeof(real));
    w->gradient[w->n] = (real)(model_gradient(w->param, t, b, w->gradient) / of);
    for (size_t i = 0; i < w->n; i++)
        w->gradient[i] /= (real)of;
}

void worker_step(struct worker *w, const struct options *o)
{
    for (size_t i = 0; i < w->n; i++) {
        w->velocity[i] = (real)o->momentum * w->velocity[i] + w->gradient[i];
        w->param[i] -= (real)o->rate * w->velocity[i];
    }
}

void curve_print(uint64_t step, double loss)
{
    printf("%" PRIu64 " %.7f\n", step, loss);
    fflush(stdout);
}
