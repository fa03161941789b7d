/* What the --fault of `tutti sim` says. */
#ifndef TUTTI_TOOLS_SIM_FAULTS_H
#define TUTTI_TOOLS_SIM_FAULTS_H

#include <argp.h>
#include "sim/net.h"

/* Reads one, as slow-rank=3:2; a mistake is told, and ends the process. Whether the machine has what it names is seen when it is simulated. */
void sim_fault_parse(struct argp_state *state, const char *arg, struct tt_fault *out);

#endif
