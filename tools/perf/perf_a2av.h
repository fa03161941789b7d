/* tutti perf a2av: exchanges of mixture-of-experts models. Compares dynamic sizes, sizes known in
 * advance, padded blocks and replays. */
#ifndef TUTTI_TOOLS_PERF_A2AV_H
#define TUTTI_TOOLS_PERF_A2AV_H

/* argv[1] is "a2av". Returns the exit status. */
int perf_a2av_main(int argc, char **argv);

#endif
