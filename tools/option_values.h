/* Parsers of option values used by several tools. An invalid value ends the process with an error
 * message, as argp_error does. */
#ifndef TUTTI_TOOLS_OPTION_VALUES_H
#define TUTTI_TOOLS_OPTION_VALUES_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTION_SIZE_MAX (1ull << 50)    /* maximum of sizes, in bytes */

/* Returns an integer from min to max. */
unsigned long long option_number(struct argp_state *state, const char *option, const char *arg,
                                 unsigned long long min, unsigned long long max);
/* Returns a number from min to max. */
double option_real(struct argp_state *state, const char *option, const char *arg, double min,
                   double max);
/* Returns a size: "4096", "4K", "16M", "1G"; at least 1. */
size_t option_size(struct argp_state *state, const char *option, const char *arg);
/* As option_size, but accepts 0. */
size_t option_size_or_none(struct argp_state *state, const char *option, const char *arg);
/* Reads the size (or 0) at `at` in arg, up to the character `stop` or the end. Returns the text
 * behind it. */
const char *option_size_until(struct argp_state *state, const char *option, const char *arg,
                              const char *at, char stop, uint64_t *out);
/* Reads a comma-separated list of numbers (of_sizes: sizes) and ranges into `out`. A range A..B
 * consists of A, A * factor, A * factor^2, ..., and B. Values must be from min to max, and at most
 * `most` in number. Returns their number, at least 1. */
uint32_t option_list(struct argp_state *state, const char *option, const char *arg, bool of_sizes,
                     uint64_t factor, uint64_t min, uint64_t max, uint64_t *out, uint32_t most);
/* Checks comma-separated transport names, of --wire or another option. */
void option_check_wires(struct argp_state *state, const char *arg);
void option_check_wires_of(struct argp_state *state, const char *option, const char *arg);

#endif
