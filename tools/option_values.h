/* Values of options that several tools take. Each ends the process with a sentence, as argp_error does, if the value makes no sense. */
#ifndef TUTTI_TOOLS_OPTION_VALUES_H
#define TUTTI_TOOLS_OPTION_VALUES_H

#include <argp.h>
#include <stddef.h>

/* A whole number from min to max. */
unsigned long long option_number(struct argp_state *state, const char *option, const char *arg, unsigned long long min,
                                 unsigned long long max);
/* "4096", "4K", "16M", "1G"; at least 1. */
size_t option_size(struct argp_state *state, const char *option, const char *arg);
/* Names of wires with commas between them. */
void option_check_wires(struct argp_state *state, const char *arg);

#endif
