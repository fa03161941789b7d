/* tutti sim putsignal: simulates bursts of puts and signals through CPU proxies on a described
 * network. */
#ifndef TUTTI_TOOLS_SIM_PUTSIGNAL_H
#define TUTTI_TOOLS_SIM_PUTSIGNAL_H

/* argv[0] is "tutti sim putsignal". Returns the exit status. */
int sim_putsignal_main(int argc, char **argv);

#endif
