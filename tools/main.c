/* tutti <subcommand> [options]. */
#include "tool.h"

#include <stdio.h>
#include <string.h>
#include "tutti/tutti.h"

static const struct tool tools[] = {
    { "run", "starts the ranks of a job, here or on other hosts", tool_run_main },
    { "perf", "measures and checks the collectives", tool_perf_main },
    { "info", "what this build can do on this machine, and its parameters", tool_info_main },
};
#define NTOOLS (sizeof tools / sizeof *tools)

static void usage(FILE *to)
{
    fprintf(to, "Usage: tutti COMMAND [OPTION...]\n\nCommands:\n");
    for (size_t i = 0; i < NTOOLS; i++)
        fprintf(to, "  %-8s %s\n", tools[i].name, tools[i].summary);
    fprintf(to, "\n`tutti COMMAND --help` tells about one; `tutti --version` says %s.\n", tutti_version());
}

int main(int argc, char **argv)
{
    static char name[64];
    const char *command = argc > 1 ? argv[1] : "";

    if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0) {
        printf("tutti %s\n", tutti_version());
        return 0;
    }
    if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0 || strcmp(command, "help") == 0) {
        usage(stdout);
        return 0;
    }
    for (size_t i = 0; i < NTOOLS; i++)
        if (strcmp(command, tools[i].name) == 0) {
            snprintf(name, sizeof name, "tutti %s", tools[i].name);
            argv[1] = name;
            return tools[i].main(argc - 1, argv + 1);
        }
    if (*command)
        fprintf(stderr, "tutti: there is no command \"%s\"\n\n", command);
    usage(stderr);
    return 2;
}
