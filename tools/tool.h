/* The subcommands of `tutti`: one file each, and one line in main.c. */
#ifndef TUTTI_TOOLS_TOOL_H
#define TUTTI_TOOLS_TOOL_H

#include <stdbool.h>

struct tool {
    const char *name, *summary;
    /* argv[0] is "tutti NAME". Returns the exit status. */
    int (*main)(int argc, char **argv);
    bool reader_may_leave;      /* a closed standard output is not a failure */
};

int tool_run_main(int argc, char **argv);
int tool_perf_main(int argc, char **argv);
int tool_tune_main(int argc, char **argv);
int tool_info_main(int argc, char **argv);
int tool_sim_main(int argc, char **argv);
int tool_topo_main(int argc, char **argv);
int tool_plan_main(int argc, char **argv);
int tool_ring_main(int argc, char **argv);
int tool_lanes_main(int argc, char **argv);
int tool_analyze_main(int argc, char **argv);
int tool_top_main(int argc, char **argv);
int tool_profile_main(int argc, char **argv);
int tool_status_main(int argc, char **argv);
int tool_coordinator_main(int argc, char **argv);

#endif
