/* tutti <subcommand> [options]. */
#include "tool.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>
#include "tutti/tutti.h"

static const struct tool tools[] = {
    { "run", "start the ranks of a job, on this or other hosts", tool_run_main },
    { "perf", "measure and check collectives", tool_perf_main },
    { "tune", "measure the fastest algorithms and write a tune file", tool_tune_main },
    { "info", "show this build, its transports, parameters and algorithms", tool_info_main },
    { "sim", "simulate a collective on a described machine", tool_sim_main },
    { "topo", "show the topology; measure it; place ranks on hosts", tool_topo_main },
    { "plan", "show, draw and explain the schedule of a collective", tool_plan_main },
    { "ring", "find the best order of peers in a ring over measured links", tool_ring_main },
    { "lanes", "simulate bounds on the lanes to a peer", tool_lanes_main },
    { "coordinator", "run the coordinator of an elastic run", tool_coordinator_main },
};
#define NTOOLS (sizeof tools / sizeof *tools)

#define USAGE_STATUS 2 /* of every tool, where the command line is wrong */

static void usage(FILE *to)
{
    fprintf(to, "Usage: tutti COMMAND [OPTION...]\nRuns, measures, simulates and explains collectives.\n\nCommands:\n");
    for (size_t i = 0; i < NTOOLS; i++)
        fprintf(to, "  %-11s %s\n", tools[i].name, tools[i].summary);
    fprintf(to,
            "\n`tutti COMMAND --help` describes a command; `tutti --version` prints the version (%s).\n\n"
            "Exit status: 0 on success, 1 on failure, 2 on a usage error. `tutti run` returns the status of\n"
            "its program; an interrupted `tutti tune` returns 130.\n\n"
            "Examples:\n    tutti run -n 4 -- ./program\n    tutti perf allreduce -n 4 --check\n",
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
        fprintf(stderr, "tutti: unknown command \"%s\"\n\n", command);
    usage(stderr);
    return USAGE_STATUS;
}
