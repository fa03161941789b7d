/* tutti plan congestion: all transfers of each step, labelled by their congestion. */
#include "tools/plan/plan.h"

#include <inttypes.h>
#include <stdio.h>

#define RANKS_MAX 256u

struct congestion_options {
    struct plan_options plan;
    bool json;
};

static const struct option_row option_rows[] = {
    { "json", 0, NULL, 3, OPTION_FLAG(struct congestion_options, json), "print one JSON document" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .args_doc = PLAN_ARGS_DOC,
    .common = &plan_command_line,
    .common_at = offsetof(struct congestion_options, plan),
    .doc = "Classifies each transfer of each step by its congestion on the links of a host.\vThe "
           "transfers of one round of the plan form a step. The first label that applies is "
           "shown:\n"
           "  serialized       the sender has another transfer over the same class of\n"
           "                   link in this step\n"
           "  incast           this transfer and another one to the same rank both cross\n"
           "                   between sockets of the host in this step\n"
           "  duplicate        another transfer, of this step or an earlier one, sends the\n"
           "                   same data to the receiver's socket\n"
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

    command_line_read(&command, &o, argc, argv);
    return plan_with_traffic(&o.plan, RANKS_MAX, print, &o);
}
