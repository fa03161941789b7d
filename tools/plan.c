/* tutti plan: plans shown, drawn, and looked at for congestion. */
#include "plan.h"

#include <stdio.h>
#include <string.h>
#include "tool.h"

static const struct {
    const char *name, *summary;
    int (*main)(int argc, char **argv);
} verbs[] = {
    { "show", "prints the program of a rank, or all of them as JSON", plan_show_main },
    { "draw", "draws who sends what to whom in which round, as SVG or HTML", plan_draw_main },
    { "why", "tells which algorithm the library chooses for a call, of which candidates, and why", plan_why_main },
    { "congestion", "tells where transfers of a step get in each other's way on a host", plan_congestion_main },
};
#define NVERBS (sizeof verbs / sizeof *verbs)

static void usage(FILE *to)
{
    fprintf(to, "Usage: tutti plan VERB COLL ALGO [OPTION...]\n"
                "       tutti plan why COLL SIZE [OPTION...]\n\n"
                "A plan is a collective written out: the steps of every rank, for so many ranks and bytes.\n\n");
    for (size_t i = 0; i < NVERBS; i++)
        fprintf(to, "  %-12s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(to, "\n`tutti plan VERB --help` tells about one; `tutti info --algos` lists algorithms.\n"
                "TUTTI_ALGORITHMS adds others, from shared objects and plans in JSON.\n");
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
        fprintf(stderr, "tutti plan: there is no verb \"%s\"\n\n", verb);
    usage(stderr);
    return 2;
}
