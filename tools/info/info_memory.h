/* tutti info --memory, in a process that is a rank of a job. */
#ifndef TUTTI_TOOLS_INFO_MEMORY_H
#define TUTTI_TOOLS_INFO_MEMORY_H

#include <stdbool.h>

/* Runs one ring all-reduce. Rank 0 prints the communicator's memory by purpose. Returns the exit
 * status. */
int info_memory(bool json);

#endif
