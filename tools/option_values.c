#include "option_values.h"

#include <errno.h>
#include <math.h>
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
    if (*end || *arg < '0' || *arg > '9' || errno || v < min || v > max)
        argp_error(state, "%s %s: it must be a whole number from %llu to %llu", option, arg, min, max);
    return v;
}

double option_real(struct argp_state *state, const char *option, const char *arg, double min, double max)
{
    char *end;
    const double v = strtod(arg, &end);

    if (end == arg || *end || !isfinite(v) || v < min || v > max)
        argp_error(state, "%s %s: it must be a number from %g to %g", option, arg, min, max);
    return v;
}

const char *option_size_until(struct argp_state *state, const char *option, const char *arg, const char *at, char stop,
                              uint64_t *out)
{
    static const char units[] = "KMG";
    unsigned long long v;
    const char *unit;
    unsigned shift = 0;
    char *end;

    errno = 0;
    v = strtoull(at, &end, 10);
    unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        shift = 10 * (unsigned)(unit - units + 1);
        end++;
    }
    if ((*end && *end != stop) || *at < '0' || *at > '9' || errno || v > OPTION_SIZE_MAX >> shift)
        argp_error(state, "%s %s: it must be a size like 4096, 4K, 16M or 1G", option, arg);
    *out = (uint64_t)v << shift;
    return end;
}

size_t option_size_or_none(struct argp_state *state, const char *option, const char *arg)
{
    uint64_t v = 0;

    option_size_until(state, option, arg, arg, '\0', &v);
    return v;
}

size_t option_size(struct argp_state *state, const char *option, const char *arg)
{
    const size_t v = option_size_or_none(state, option, arg);

    if (v == 0)
        argp_error(state, "%s %s: sizes begin at 1 byte", option, arg);
    return v;
}

void option_check_wires_of(struct argp_state *state, const char *option, const char *arg)
{
    char name[16];

    for (const char *at = arg;; at++) {
        const size_t n = strcspn(at, ",");

        snprintf(name, sizeof name, "%.*s", (int)n, at);
        if (n == 0 || n >= sizeof name || !tt_wire_find(name))
            argp_error(state, "%s %s: there is no wire \"%.*s\"; there are: %s", option, arg, (int)n, at, tt_wire_names());
        at += n;
        if (*at == '\0')
            return;
    }
}

void option_check_wires(struct argp_state *state, const char *arg)
{
    option_check_wires_of(state, "--wire", arg);
}
