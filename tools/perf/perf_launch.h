/* Restarts the current command as the ranks of a new job. */
#ifndef TUTTI_TOOLS_PERF_LAUNCH_H
#define TUTTI_TOOLS_PERF_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the number of ranks of the job that this process belongs to, by the rules of
 * src/boot/launch.c; 0: none. Ends the process with status 2 if the environment is inconsistent
 * (already logged). */
uint32_t perf_job_ranks(void);

/* Returns true if this process prints messages: it is rank 0, or belongs to no job. */
bool perf_job_speaks(void);

/* Replaces this process by `tutti run` with nranks instances of this command. argv[0] is "tutti
 * perf" or another tool; the other arguments are passed on. Returns an exit status, after an error
 * message, only if it fails. */
int perf_launch(uint32_t nranks, int argc, char **argv);

#endif
