/* Parser of the option --fault of `tutti sim`. */
#ifndef TUTTI_TOOLS_SIM_FAULTS_H
#define TUTTI_TOOLS_SIM_FAULTS_H

#include <argp.h>
#include "sim/net.h"

/* Parses one fault, e.g. slow-rank=3:2. An invalid fault ends the process with an error message.
 * The simulation checks that the machine has the named element. */
void sim_fault_parse(struct argp_state *state, const char *arg, struct tt_fault *out);

#endif
