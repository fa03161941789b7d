/* The side of bench/peers/PROTOCOL.md that a contestant plays. */
#ifndef TUTTI_TOOLS_PERF_INTERACTIVE_H
#define TUTTI_TOOLS_PERF_INTERACTIVE_H

#include "tutti/tutti.h"

/* Takes commands from dir/control.<rank> until quit or the end of the pipe; rank 0 answers in dir/reply. Collective. Returns
 * the exit status. */
int perf_interactive(const char *dir, tutti_comm *comm);

#endif
