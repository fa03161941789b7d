/* The measured program's side of bench/peers/PROTOCOL.md. */
#ifndef TUTTI_TOOLS_PERF_INTERACTIVE_H
#define TUTTI_TOOLS_PERF_INTERACTIVE_H

#include "tutti/tutti.h"

/* Executes commands from dir/control.<rank> until `quit` or the end of the pipe. Rank 0 replies in
 * dir/reply. Collective. Returns the exit status. */
int perf_interactive(const char *dir, tutti_comm *comm);

#endif
