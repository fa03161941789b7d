/* Starting ranks of oneself. */
#ifndef TUTTI_TOOLS_PERF_LAUNCH_H
#define TUTTI_TOOLS_PERF_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

/* Whether this process is a rank of a job already, by the rules of start-up (src/boot/launch.c). Ends the process with status 2
 * if the environment contradicts itself (which was logged). */
bool perf_inside_job(void);

/* Becomes `tutti run` with nranks times this command: argv[0] is "tutti perf", the rest is passed on. Returns, after saying
 * why, only if that fails: an exit status. */
int perf_launch(uint32_t nranks, int argc, char **argv);

#endif
