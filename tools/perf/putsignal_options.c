#include "tools/perf/putsignal_options.h"

#include <string.h>
#include "tools/option_values.h"

enum { OPT_BYTES = 512, OPT_MODE, OPT_SOURCES, OPT_GROUP, OPT_JSON };

static const struct argp_option argp_options[] = {
    { "concurrency", 'c', "LIST", 0,
      "transfers in flight per source: 96, or 8,96, or 1..128 in steps of factor 2 (default 96)",
      1 },
    { "bytes", OPT_BYTES, "LIST", 0,
      "bytes per transfer: 4K, or 4K..4M in steps of factor 4 (default 4K..1M)", 1 },
    { "mode", OPT_MODE, "LIST", 0,
      "modes: put-only, coupled, decoupled, ordered, full (default: all)", 1 },
    { "sources", OPT_SOURCES, "N|all", 0,
      "number of sources: the first N ranks send at the same time (default 1)", 1 },
    { "group", OPT_GROUP, "N", 0,
      "transfers per group in modes full and decoupled. The signals of a group follow its last "
      "put. N must divide --concurrency (default: one group per destination rank)",
      1 },
    { "json", OPT_JSON, NULL, 0, "print one JSON object per line", 3 },
    { 0 },
};

struct putsignal_options putsignal_defaults(void)
{
    struct putsignal_options o = {
        .transfers = { 96 }, .ntransfers = 1, .nsources = 1, .nbytes = 0
    };

    for (uint64_t bytes = 4096; bytes <= 1u << 20; bytes *= 4)
        o.bytes[o.nbytes++] = bytes;
    memset(o.modes, true, sizeof o.modes);
    return o;
}

static void take_modes(struct putsignal_options *o, struct argp_state *state, const char *arg)
{
    const char *at = arg;

    memset(o->modes, false, sizeof o->modes);
    for (;; at++) {
        const size_t n = strcspn(at, ",");
        int m = 0;

        while (m < TT_PUTSIGNAL_MODES && (strlen(tt_putsignal_mode_name(m)) != n ||
                                          strncmp(tt_putsignal_mode_name(m), at, n) != 0))
            m++;
        if (m == TT_PUTSIGNAL_MODES)
            argp_error(
                state,
                "--mode %s: unknown mode \"%.*s\" (put-only, coupled, decoupled, ordered or full)",
                arg, (int)n, at);
        o->modes[m] = true;
        at += n;
        if (!*at)
            return;
    }
}

/* All groups have the same length. */
static void check_group(const struct putsignal_options *o, struct argp_state *state)
{
    for (uint32_t i = 0; i < o->ntransfers && o->group; i++)
        if (o->transfers[i] % o->group)
            argp_error(state, "--group %u: must divide --concurrency (%llu)", o->group,
                       (unsigned long long)o->transfers[i]);
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct putsignal_options *o = state->input;

    switch (key) {
    case 'c':
        o->ntransfers = option_list(state, "--concurrency", arg, false, 2, 1,
                                    PUTSIGNAL_TRANSFERS_MAX, o->transfers, PUTSIGNAL_LIST_MAX);
        return 0;
    case OPT_BYTES:
        o->nbytes = option_list(state, "--bytes", arg, true, 4, 8, PUTSIGNAL_BYTES_MAX, o->bytes,
                                PUTSIGNAL_LIST_MAX);
        return 0;
    case OPT_MODE:
        take_modes(o, state, arg);
        return 0;
    case OPT_SOURCES:
        o->nsources = strcmp(arg, "all") == 0
                          ? 0
                          : (uint32_t)option_number(state, "--sources", arg, 1, 65536);
        return 0;
    case OPT_GROUP:
        o->group = (uint32_t)option_number(state, "--group", arg, 1, PUTSIGNAL_TRANSFERS_MAX);
        return 0;
    case ARGP_KEY_END:
        check_group(o, state);
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp putsignal_argp = { .options = argp_options, .parser = parse_one };
