#include "tools/option_values.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "wire/wires.h"

unsigned long long option_number(struct argp_state *state, const char *option, const char *arg,
                                 unsigned long long min, unsigned long long max)
{
    unsigned long long v;
    char *end;

    errno = 0;
    v = strtoull(arg, &end, 10);
    if (*end || *arg < '0' || *arg > '9' || errno || v < min || v > max)
        argp_error(state, "%s %s: must be an integer from %llu to %llu", option, arg, min, max);
    return v;
}

double option_real(struct argp_state *state, const char *option, const char *arg, double min,
                   double max)
{
    char *end;
    const double v = strtod(arg, &end);

    if (end == arg || isspace((unsigned char)*arg) || *end || !isfinite(v) || v < min || v > max)
        argp_error(state, "%s %s: must be a number from %g to %g", option, arg, min, max);
    return v;
}

/* Reads the number or size at `at`; *end receives the position behind it. Returns false if there is
 * no number, or if it exceeds OPTION_SIZE_MAX. */
static bool scan(const char *at, bool is_size, uint64_t *out, const char **end)
{
    static const char units[] = "KMGT";
    unsigned long long v;
    const char *unit;
    unsigned shift = 0;
    char *after;

    errno = 0;
    v = strtoull(at, &after, 10);
    unit = is_size && *after ? strchr(units, *after) : NULL;
    if (unit) {
        shift = 10 * (unsigned)(unit - units + 1);
        after++;
    }
    if (*at < '0' || *at > '9' || errno || v > OPTION_SIZE_MAX >> shift)
        return false;
    *out = (uint64_t)v << shift;
    *end = after;
    return true;
}

const char *option_size_until(struct argp_state *state, const char *option, const char *arg,
                              const char *at, char stop, uint64_t *out)
{
    const char *end = "";

    if (!scan(at, true, out, &end) || (*end && *end != stop))
        argp_error(state, "%s %s: must be a size like 4096, 4K, 16M or 1G, up to 1024T", option,
                   arg);
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
        argp_error(state, "%s %s: must be at least 1 byte", option, arg);
    return v;
}

uint32_t option_list(struct argp_state *state, const char *option, const char *arg, bool of_sizes,
                     uint64_t factor, uint64_t min, uint64_t max, uint64_t *out, uint32_t most)
{
    const char *at = arg;
    uint32_t n = 0;

    for (;; at++) {
        uint64_t v = 0, last = 0;
        bool good = scan(at, of_sizes, &v, &at);

        last = v;
        if (good && strncmp(at, "..", 2) == 0)
            good = scan(at + 2, of_sizes, &last, &at);
        if (!good || (*at && *at != ','))
            argp_error(state, "%s %s: must be a list like %s", option, arg,
                       of_sizes ? "4K..4M or 64,1K" : "1..128 or 8,96");
        if (v < min || last > max || v > last)
            argp_error(state, "%s %s: values must be from %llu to %llu, and ranges ascending",
                       option, arg, (unsigned long long)min, (unsigned long long)max);
        for (;; v = v > last / factor ? last : v * factor) {
            if (n == most)
                argp_error(state, "%s %s: too many values (the maximum is %u)", option, arg, most);
            out[n++] = v;
            if (v == last)
                break;
        }
        if (!*at)
            return n;
    }
}

void option_check_wires_of(struct argp_state *state, const char *option, const char *arg)
{
    char name[16];

    for (const char *at = arg;; at++) {
        const size_t n = strcspn(at, ",");

        snprintf(name, sizeof name, "%.*s", (int)n, at);
        if (n == 0 || n >= sizeof name || !tt_wire_find(name))
            argp_error(state, "%s %s: unknown transport \"%.*s\" (available: %s)", option, arg,
                       (int)n, at, tt_wire_names());
        at += n;
        if (*at == '\0')
            return;
    }
}

void option_check_wires(struct argp_state *state, const char *arg)
{
    option_check_wires_of(state, "--wire", arg);
}
