/* tutti sim putsignal: bursts of puts and signals through CPU proxies on a network that is only described. */
#ifndef TUTTI_TOOLS_SIM_PUTSIGNAL_H
#define TUTTI_TOOLS_SIM_PUTSIGNAL_H

/* argv[0] is "tutti sim putsignal"; returns the exit status. */
int sim_putsignal_main(int argc, char **argv);

#endif
