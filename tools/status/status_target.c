#include "tools/status/status_target.h"

#include "tools/option_values.h"

static void take_what(void *options, struct argp_state *state, char *arg)
{
    struct status_target *o = options;

    if (o->what)
        argp_error(state, "unexpected argument \"%s\" (give one JOB, PATH or tcp://HOST:PORT)",
                   arg);
    o->what = arg;
}

static void take_timeout(void *options, struct argp_state *state, char *arg)
{
    struct status_target *o = options;

    o->timeout_ms = (uint32_t)(1000 * option_real(state, "--timeout", arg, 0.1, 600));
}

static const struct option_row option_rows[] = {
    { "timeout", 't', "SECONDS", 0, OPTION_CALL(take_timeout),
      "maximum time of a query (default 5); a rank that sends nothing for a quarter of this time "
      "is reported as silent" },
    { 0 },
};

const struct command_line status_target_command_line = {
    .rows = option_rows, .argument = take_what,
};
