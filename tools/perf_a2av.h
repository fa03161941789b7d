/* tutti perf a2av: exchanges as mixtures of experts make them, with sizes decided late and known before, padded, and replayed. */
#ifndef TUTTI_TOOLS_PERF_A2AV_H
#define TUTTI_TOOLS_PERF_A2AV_H

/* argv[1] is "a2av". Returns the exit status. */
int perf_a2av_main(int argc, char **argv);

#endif
