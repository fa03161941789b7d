#include "option_values.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "wire/wires.h"

unsigned long long option_number(struct argp_state *state, const char *option, const char *arg, unsigned long long min,
                                 unsigned long long max)
{
    unsigned long long v;
    char *end;

    errno = 0;
    v = strtoull(arg, &end, 10);
    if (end == arg || *end || *arg == '-' || errno || v < min || v > max)
        argp_error(state, "%s %s: it must be a number from %llu to %llu", option, arg, min, max);
    return v;
}

size_t option_size(struct argp_state *state, const char *option, const char *arg)
{
    static const char units[] = "KMG";
    unsigned long long v;
    const char *unit;
    unsigned shift = 0;
    char *end;

    errno = 0;
    v = strtoull(arg, &end, 10);
    unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        shift = 10 * (unsigned)(unit - units + 1);
        end++;
    }
    if (end != arg && !*end && v == 0)
        argp_error(state, "%s %s: sizes begin at 1 byte, as each is a multiple of the one before", option, arg);
    if (end == arg || *end || *arg == '-' || errno || v > (SIZE_MAX >> 8) >> shift)
        argp_error(state, "%s %s: it must be a size like 4096, 4K, 16M or 1G", option, arg);
    return (size_t)v << shift;
}

void option_check_wires(struct argp_state *state, const char *arg)
{
    char name[16];

    for (const char *at = arg;; at++) {
        const size_t n = strcspn(at, ",");

        snprintf(name, sizeof name, "%.*s", (int)n, at);
        if (n == 0 || n >= sizeof name || !tt_wire_find(name))
            argp_error(state, "--wire %s: there is no wire \"%.*s\"; there are: %s", arg, (int)n, at, tt_wire_names());
        at += n;
        if (*at == '\0')
            return;
    }
}
