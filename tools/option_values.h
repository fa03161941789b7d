/* Values of options that several tools take. Each ends the process with a sentence, as argp_error does, if the value makes no sense. */
#ifndef TUTTI_TOOLS_OPTION_VALUES_H
#define TUTTI_TOOLS_OPTION_VALUES_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTION_SIZE_MAX (1ull << 50)    /* of sizes, in bytes */

/* A whole number from min to max. */
unsigned long long option_number(struct argp_state *state, const char *option, const char *arg, unsigned long long min,
                                 unsigned long long max);
/* Any number from min to max. */
double option_real(struct argp_state *state, const char *option, const char *arg, double min, double max);
/* "4096", "4K", "16M", "1G"; at least 1. */
size_t option_size(struct argp_state *state, const char *option, const char *arg);
/* The same, or 0. */
size_t option_size_or_none(struct argp_state *state, const char *option, const char *arg);
/* The size, or 0, that begins at `at` in arg and goes as far as `stop`, or the end; returns what follows. */
const char *option_size_until(struct argp_state *state, const char *option, const char *arg, const char *at, char stop,
                              uint64_t *out);
/* A list with commas: numbers (of_sizes: sizes), and ranges A..B, which are A, factor times that, and so on, and B; each from min to max. At most
 * `most` of them, to out; returns how many, at least 1. */
uint32_t option_list(struct argp_state *state, const char *option, const char *arg, bool of_sizes, uint64_t factor,
                     uint64_t min, uint64_t max, uint64_t *out, uint32_t most);
/* Names of wires with commas between them, of --wire or another option. */
void option_check_wires(struct argp_state *state, const char *arg);
void option_check_wires_of(struct argp_state *state, const char *option, const char *arg);

#endif
