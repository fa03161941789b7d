/* tutti <subcommand> [options]. */
#include "tool.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>
#include "tutti/tutti.h"

static const struct tool tools[] = {
    { "run", "starts the ranks of a job, here or on other hosts", tool_run_main },
    { "perf", "measures and checks the collectives", tool_perf_main },
    { "tune", "measures which algorithms are fastest here, for jobs to load", tool_tune_main },
    { "info", "what this build can do on this machine, and its parameters", tool_info_main },
    { "sim", "simulates a collective on a described machine of any size", tool_sim_main },
    { "topo", "where ranks are and what joins them, and where to place them", tool_topo_main },
    { "plan", "a collective written out: shown, drawn, looked at for congestion", tool_plan_main },
    { "ring", "the order of peers in a ring over links as they were measured", tool_ring_main },
    { "lanes", "what bounds on the lanes to a peer do to throughput and queues, simulated", tool_lanes_main },
    { "coordinator", "decides who is in an elastic run, whose members come, fail and leave", tool_coordinator_main },
};
#define NTOOLS (sizeof tools / sizeof *tools)

#define USAGE_STATUS 2 /* of every tool, where the command line is wrong */

static void usage(FILE *to)
{
    fprintf(to, "Usage: tutti COMMAND [OPTION...]\n\nCommands:\n");
    for (size_t i = 0; i < NTOOLS; i++)
        fprintf(to, "  %-11s %s\n", tools[i].name, tools[i].summary);
    fprintf(
        to,
        "\n`tutti COMMAND --help` tells about one; `tutti --version` says %s.\n"
        "The exit status is 0; 1 where something failed; 2 where options are wrong. That of `tutti run` is its program's; that of\n"
        "`tutti tune`, interrupted, 130.\n",
        tutti_version());
}

static const struct tool *find(const char *command)
{
    for (size_t i = 0; i < NTOOLS; i++)
        if (strcmp(command, tools[i].name) == 0)
            return &tools[i];
    return NULL;
}

static int run_tool(const struct tool *tool, int argc, char **argv)
{
    static char name[64];

    snprintf(name, sizeof name, "tutti %s", tool->name);
    argv[0] = name;
    argp_err_exit_status = USAGE_STATUS;
    return tool->main(argc, argv);
}

int main(int argc, char **argv)
{
    static char help[] = "--help";
    const char *command = argc > 1 ? argv[1] : "";
    const struct tool *tool = find(command);

    if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0 || strcmp(command, "version") == 0) {
        printf("tutti %s\n", tutti_version());
        return 0;
    }
    if (tool && argc > 2 && strcmp(argv[2], "-h") == 0)
        argv[2] = help;
    if (tool)
        return run_tool(tool, argc - 1, argv + 1);
    if (argc > 2 && strcmp(command, "help") == 0) {     /* "help perf" is "perf --help" */
        tool = find(argv[2]);
        argv[1] = argv[2];
        argv[2] = help;
        if (tool)
            return run_tool(tool, 2, argv + 1);
        command = argv[1];
    } else if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0 || strcmp(command, "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (*command)
        fprintf(stderr, "tutti: there is no command \"%s\"\n\n", command);
    usage(stderr);
    return USAGE_STATUS;
}
