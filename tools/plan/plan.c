/* tutti plan: shows, draws and explains plans. */
#include "tools/plan/plan.h"

#include <stdio.h>
#include <string.h>
#include "tools/tool.h"

static const struct {
    const char *name, *summary;
    int (*main)(int argc, char **argv);
} subcommands[] = {
    { "show", "print the schedule of a rank, or of all ranks as JSON", plan_show_main },
    { "draw", "draw the transfers of each round, as SVG or HTML", plan_draw_main },
    { "why", "show which algorithm the library selects for a call, and why", plan_why_main },
    { "congestion", "label transfers that compete for links of a host", plan_congestion_main },
};
#define NSUBCOMMANDS (sizeof subcommands / sizeof *subcommands)

static void usage(FILE *to)
{
    fprintf(to, "Usage: tutti plan SUBCOMMAND COLL ALGO [OPTION...]\n"
                "       tutti plan why COLL SIZE [OPTION...]\n\n"
                "Shows, draws and explains plans. A plan lists the steps of every rank for one "
                "collective call.\n\nSubcommands:\n");
    for (size_t i = 0; i < NSUBCOMMANDS; i++)
        fprintf(to, "  %-12s %s\n", subcommands[i].name, subcommands[i].summary);
    fprintf(to, "\n`tutti plan SUBCOMMAND --help` describes a subcommand; `tutti info --algos` "
                "lists algorithms.\n"
                "TUTTI_ALGORITHMS adds algorithms from shared objects and JSON plans.\n");
}

int tool_plan_main(int argc, char **argv)
{
    static char name[64];
    const char *subcommand = argc > 1 ? argv[1] : "";

    for (size_t i = 0; i < NSUBCOMMANDS; i++)
        if (strcmp(subcommand, subcommands[i].name) == 0) {
            snprintf(name, sizeof name, "tutti plan %s", subcommand);
            argv[1] = name;
            return subcommands[i].main(argc - 1, argv + 1);
        }
    if (strcmp(subcommand, "--help") == 0 || strcmp(subcommand, "-?") == 0 ||
        strcmp(subcommand, "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (*subcommand)
        fprintf(stderr, "tutti plan: unknown subcommand \"%s\"\n\n", subcommand);
    usage(stderr);
    return 2;
}
