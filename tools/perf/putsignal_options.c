#include "tools/perf/putsignal_options.h"

#include <string.h>
#include "tools/command_line.h"
#include "tools/option_values.h"

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

static void take_modes(void *options, struct argp_state *state, char *arg)
{
    struct putsignal_options *o = options;
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
                "--mode %s: unknown mode \"%.*s\" (use put-only, coupled, decoupled, ordered or "
                "full)",
                arg, (int)n, at);
        o->modes[m] = true;
        at += n;
        if (!*at)
            return;
    }
}

/* All groups have the same length. */
static void check_group(void *options, struct argp_state *state)
{
    const struct putsignal_options *o = options;
    for (uint32_t i = 0; i < o->ntransfers && o->group; i++)
        if (o->transfers[i] % o->group)
            argp_error(state, "--group %u: must divide --concurrency (%llu)", o->group,
                       (unsigned long long)o->transfers[i]);
}

static void take_concurrency(void *options, struct argp_state *state, char *arg)
{
    struct putsignal_options *o = options;

    o->ntransfers = option_list(state, "--concurrency", arg, false, 2, 1, PUTSIGNAL_TRANSFERS_MAX,
                                o->transfers, PUTSIGNAL_LIST_MAX);
}

static void take_bytes(void *options, struct argp_state *state, char *arg)
{
    struct putsignal_options *o = options;

    o->nbytes = option_list(state, "--bytes", arg, true, 4, 8, PUTSIGNAL_BYTES_MAX, o->bytes,
                            PUTSIGNAL_LIST_MAX);
}

static void take_sources(void *options, struct argp_state *state, char *arg)
{
    struct putsignal_options *o = options;

    o->nsources =
        strcmp(arg, "all") == 0 ? 0 : (uint32_t)option_number(state, "--sources", arg, 1, 65536);
}

static const struct option_row option_rows[] = {
    { "concurrency", 'c', "LIST", 1, OPTION_CALL(take_concurrency),
      "transfers in flight per source: 96, or 8,96, or 1..128 in steps of factor 2 (default 96)" },
    { "bytes", 0, "LIST", 1, OPTION_CALL(take_bytes),
      "bytes per transfer: 4K, or 4K..4M in steps of factor 4 (default 4K..1M)" },
    { "mode", 0, "LIST", 1, OPTION_CALL(take_modes),
      "modes: put-only, coupled, decoupled, ordered, full (default: all)" },
    { "sources", 0, "N|all", 1, OPTION_CALL(take_sources),
      "number of sources: the first N ranks send at the same time (default 1)" },
    { "group", 0, "N", 1,
      OPTION_INTEGER(struct putsignal_options, group, 1, PUTSIGNAL_TRANSFERS_MAX),
      "transfers per group in modes full and decoupled. The signals of a group follow its last "
      "put. N must divide --concurrency (default: one group per destination rank)" },
    { "json", 0, NULL, 3, OPTION_FLAG(struct putsignal_options, json),
      "print one JSON object per line" },
    { 0 },
};

const struct command_line putsignal_command_line = { .rows = option_rows, .check = check_group };
