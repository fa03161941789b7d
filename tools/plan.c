/* tutti plan: shows, draws and explains plans. */
#include "plan.h"

#include <stdio.h>
#include <string.h>
#include "tool.h"

static const struct {
    const char *name, *summary;
    int (*main)(int argc, char **argv);
} verbs[] = {
    { "show", "print the schedule of a rank, or of all ranks as JSON", plan_show_main },
    { "draw", "draw the transfers of each round, as SVG or HTML", plan_draw_main },
    { "why", "show which algorithm the library selects for a call, and why", plan_why_main },
    { "congestion", "label transfers that compete for links of a host", plan_congestion_main },
};
#define NVERBS (sizeof verbs / sizeof *verbs)

static void usage(FILE *to)
{
    fprintf(
        to,
        "Usage: tutti plan VERB COLL ALGO [OPTION...]\n"
        "       tutti plan why COLL SIZE [OPTION...]\n\n"
        "Shows, draws and explains plans. A plan lists the steps of every rank for one collective call.\n\nVerbs:\n");
    for (size_t i = 0; i < NVERBS; i++)
        fprintf(to, "  %-12s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(to, "\n`tutti plan VERB --help` describes a verb; `tutti info --algos` lists algorithms.\n"
                "TUTTI_ALGORITHMS adds algorithms from shared objects and JSON plans.\n");
}

int tool_plan_main(int argc, char **argv)
{
    static char name[64];
    const char *verb = argc > 1 ? argv[1] : "";

    for (size_t i = 0; i < NVERBS; i++)
        if (strcmp(verb, verbs[i].name) == 0) {
            snprintf(name, sizeof name, "tutti plan %s", verb);
            argv[1] = name;
            return verbs[i].main(argc - 1, argv + 1);
        }
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-?") == 0 || strcmp(verb, "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (*verb)
        fprintf(stderr, "tutti plan: unknown verb \"%s\"\n\n", verb);
    usage(stderr);
    return 2;
}
