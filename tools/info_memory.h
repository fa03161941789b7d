/* tutti info --memory: this process is a rank of a job. */
#ifndef TUTTI_TOOLS_INFO_MEMORY_H
#define TUTTI_TOOLS_INFO_MEMORY_H

#include <stdbool.h>

/* Starts up, does one ring all-reduce, and prints on rank 0 what the communicator's memory is for. The exit status. */
int info_memory(bool json);

#endif
