/* Starting ranks of oneself. */
#ifndef TUTTI_TOOLS_PERF_LAUNCH_H
#define TUTTI_TOOLS_PERF_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

/* How many ranks the job has that this process is in already, by the rules of start-up (src/boot/launch.c); 0: it is in none. Ends the
 * process with status 2 if the environment contradicts itself (which was logged). */
uint32_t perf_job_ranks(void);

/* Whether this process is the one of its job that speaks: rank 0, or in no job. */
bool perf_job_speaks(void);

/* Becomes `tutti run` with nranks times this command: argv[0] is "tutti perf" or another tool, the rest is passed on. Returns, after saying
 * why, only if that fails: an exit status. */
int perf_launch(uint32_t nranks, int argc, char **argv);

#endif
