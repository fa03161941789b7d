/* tutti plan congestion: all transfers of each step, labelled by their congestion. */
#include "tools/plan/plan.h"

#include <inttypes.h>
#include <stdio.h>

#define RANKS_MAX 256u

struct congestion_options {
    struct plan_options plan;
    bool json;
};

enum { OPT_JSON = 256 };

static const struct argp_option options[] = {
    { "json", OPT_JSON, NULL, 0, "print one JSON document", 3 },
    { 0 },
};

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct congestion_options *o = state->input;

    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->plan;
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { &plan_options_argp, 0, NULL, 0 }, { 0 } };
static const struct argp argp = {
    .options = options,
    .parser = parse_one,
    .args_doc = PLAN_ARGS_DOC,
    .children = children,
    .doc = "Labels each transfer of each step by its congestion on the links of a host.\vA step is "
           "the round in which a put is emitted. The first matching label applies:\n"
           "  serialized       the sender has several transfers over links of one class\n"
           "  incast           the receiver has several arrivals from other sockets\n"
           "  duplicate        the data enters a socket more than once, in this step\n"
           "                   or an earlier one\n"
           "  congestion-free  none of these\n\n"
           "Exit status: 0 on success, 1 on failure, 2 on a usage error.\n\n"
           "Examples:\n"
           "  tutti plan congestion allgather ring -n 8 --sockets 2\n",
};

static void print_text(const struct plan *p, const struct tt_traffic *t)
{
    uint32_t n[TT_CONGESTIONS] = { 0 };
    char title[160], carried[128];

    printf("%s\n", plan_title(p, title, sizeof title));
    for (uint32_t i = 0; i < t->ntransfers; i++) {
        const struct tt_transfer *x = &t->transfer[i];

        if (i == 0 || t->transfer[i - 1].round != x->round)
            printf("\nstep %u\n", x->round);
        printf("  %4u -> %-4u %8" PRIu64 " B  %-18s %-16s %s\n", x->from, x->to, x->bytes,
               plan_link_name((enum tt_distance)x->over),
               tt_congestion_name((enum tt_congestion)x->congestion),
               plan_carried(t, x, carried, sizeof carried));
        n[x->congestion]++;
    }
    printf("\n%u transfers:", t->ntransfers);
    for (int c = 0; c < TT_CONGESTIONS; c++)
        printf("%s %u %s", c ? "," : "", n[c], tt_congestion_name((enum tt_congestion)c));
    printf("\n");
}

static void print_json(const struct plan *p, const struct tt_traffic *t)
{
    char carried[128];

    printf("{\n  \"name\": \"%s\",\n  \"nranks\": %u,\n  \"transfers\": [", p->algo->name,
           p->nranks);
    for (uint32_t i = 0; i < t->ntransfers; i++) {
        const struct tt_transfer *x = &t->transfer[i];

        printf("%s\n    { \"step\": %u, \"from\": %u, \"to\": %u, \"bytes\": %" PRIu64
               ", \"over\": \"%s\", "
               "\"congestion\": \"%s\", \"carries\": \"%s\" }",
               i ? "," : "", x->round, x->from, x->to, x->bytes,
               tt_distance_name((enum tt_distance)x->over),
               tt_congestion_name((enum tt_congestion)x->congestion),
               plan_carried(t, x, carried, sizeof carried));
    }
    printf("\n  ]\n}\n");
}

static int print(const void *arg, const struct plan *p, const struct tt_program *program,
                 const struct tt_traffic *t)
{
    const struct congestion_options *o = arg;

    (void)program;
    (o->json ? print_json : print_text)(p, t);
    return 0;
}

int plan_congestion_main(int argc, char **argv)
{
    struct congestion_options o = { .json = false };

    if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
        return 2;
    return plan_with_traffic(&o.plan, RANKS_MAX, print, &o);
}
