#include "tools/sim/sim_faults.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LATE_US_MAX 1e9

/* The name of a fault is followed by [LEVEL.]WHERE[.INDEX][:FACTOR]. */
static const struct form {
    const char *name, *text;
    enum tt_fault_kind kind;
    bool has_level, has_index;
    double factor_min, factor_max;      /* both 0: no factor */
} forms[] = {
    { "slow-rail=", "slow-rail=HOST.RAIL:FACTOR", TT_FAULT_SLOW_RAIL, false, true,
      TT_FAULT_FACTOR_MIN, TT_FAULT_FACTOR_MAX },
    { "dead-rail=", "dead-rail=HOST.RAIL", TT_FAULT_DEAD_RAIL, false, true, 0, 0 },
    { "slow-uplink=", "slow-uplink=LEVEL.GROUP:FACTOR", TT_FAULT_SLOW_UPLINK, true, false,
      TT_FAULT_FACTOR_MIN, TT_FAULT_FACTOR_MAX },
    { "slow-rank=", "slow-rank=RANK:FACTOR", TT_FAULT_SLOW_RANK, false, false, TT_FAULT_FACTOR_MIN,
      TT_FAULT_FACTOR_MAX },
    { "late-rank=", "late-rank=RANK:MICROSECONDS", TT_FAULT_LATE_RANK, false, false, 0,
      LATE_US_MAX },
};
#define NFORMS (sizeof forms / sizeof *forms)

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads digits at *at, and advances *at past them. */
static bool read_whole(const char **at, uint32_t *out)
{
    unsigned long long v;
    char *end;

    if (!is_digit(**at))
        return false;
    errno = 0;
    v = strtoull(*at, &end, 10);
    if (errno || v > UINT32_MAX)
        return false;
    *out = (uint32_t)v;
    *at = end;
    return true;
}

/* Reads a number without a sign, up to the end. */
static bool read_factor(const char *at, double *out)
{
    char *end;

    if (!is_digit(*at) && *at != '.')
        return false;
    *out = strtod(at, &end);
    return end != at && !*end;
}

/* Reads "LEVEL.". */
static bool read_level(const char **at, uint32_t *out)
{
    const size_t n = strcspn(*at, ".");
    char level[16] = "";
    enum tt_distance d;

    if (n >= sizeof level || (*at)[n] != '.')
        return false;
    memcpy(level, *at, n);
    if (!tt_distance_parse(level, &d))
        return false;
    *out = d;
    *at += n + 1;
    return true;
}

/* Parses the text after the name. Returns false if it does not match the form. The caller checks
 * the bounds of the factor. */
static bool read_fault(const struct form *form, const char *at, struct tt_fault *f)
{
    *f = (struct tt_fault){ .kind = form->kind, .factor = 1 };
    if (form->has_level && !read_level(&at, &f->index))
        return false;
    if (!read_whole(&at, &f->where))
        return false;
    if (form->has_index && (*at++ != '.' || !read_whole(&at, &f->index)))
        return false;
    if (form->factor_max > 0)
        return *at == ':' && read_factor(at + 1, &f->factor);
    return !*at;
}

static const struct form *find_form(const char *arg)
{
    for (size_t i = 0; i < NFORMS; i++)
        if (strncmp(arg, forms[i].name, strlen(forms[i].name)) == 0)
            return &forms[i];
    return NULL;
}

void sim_fault_parse(struct argp_state *state, const char *arg, struct tt_fault *out)
{
    const struct form *form = find_form(arg);
    struct tt_fault f = { .factor = 1 };

    if (!form) {
        argp_error(state, "--fault %s: unknown fault (%s, %s, %s, %s, %s)", arg, forms[0].text,
                   forms[1].text, forms[2].text, forms[3].text, forms[4].text);
    } else if (!read_fault(form, arg + strlen(form->name), &f)) {
        argp_error(state, "--fault %s: must be like %s", arg, form->text);
    } else if (form->factor_max > 0 &&
               !(f.factor >= form->factor_min && f.factor <= form->factor_max)) {
        argp_error(state, "--fault %s: %s must be from %g to %g", arg, strrchr(form->text, ':') + 1,
                   form->factor_min, form->factor_max);
    } else {
        if (form->kind == TT_FAULT_LATE_RANK)
            f.factor *= 1000;
        *out = f;
    }
}
