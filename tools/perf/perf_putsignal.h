/* tutti perf putsignal: measures puts with signals from devices, in each mode of the proxy. */
#ifndef TUTTI_TOOLS_PERF_PUTSIGNAL_H
#define TUTTI_TOOLS_PERF_PUTSIGNAL_H

/* argv[0] is "tutti perf", argv[1] "putsignal". Returns the exit status. */
int perf_putsignal_main(int argc, char **argv);

#endif
