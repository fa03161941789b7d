#include "tools/run/run_options.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/option_values.h"
#include "tools/run/run_place.h"

enum { OPT_HOSTFILE = 256, OPT_WIRES, OPT_INTERFACES, OPT_TIMEOUT, OPT_SURVIVE, OPT_BIND, OPT_RSH };

static const struct argp_option argp_options[] = {
    { "ranks", 'n', "N", 0, "number of ranks (default 1)", 0 },
    { "hosts", 'H', "a,b:4", 0,
      "hosts, each optionally with its number of ranks (default: this host)", 0 },
    { "hostfile", OPT_HOSTFILE, "FILE", 0,
      "hosts as in --hosts, from a file with lines \"host\" or \"host slots=4\"", 0 },
    { "rsh", OPT_RSH, "COMMAND", 0,
      "remote shell, run as COMMAND host command (default \"ssh -o BatchMode=yes\")", 0 },
    { "wires", OPT_WIRES, "shm,tcp", 0, "allowed transports (sets TUTTI_WIRES)", 0 },
    { "interfaces", OPT_INTERFACES, "RULE", 0,
      "network interfaces: by prefix \"eth\", by name \"=eth0\", all except \"^docker,lo\" (sets "
      "TUTTI_INTERFACES)",
      0 },
    { "timeout", OPT_TIMEOUT, "SECONDS", 0,
      "timeout of start-up and of every call (sets TUTTI_TIMEOUT_MS)", 0 },
    { "output", 'o', "prefix|plain|dir=PATH", 0,
      "output of the ranks: with \"[rank] \" before each line (default), unchanged, or in "
      "files rank.N.out and rank.N.err in PATH",
      0 },
    { "env", 'x', "NAME[=VALUE]", 0,
      "set an environment variable of the ranks; without VALUE, pass on the current value, which "
      "only local ranks inherit otherwise",
      0 },
    { "bind", OPT_BIND, "share|core|none", 0,
      "binding of local ranks to cores. share (default): equal shares of the cores; with more "
      "ranks than cores, one core per rank in turn if the number of ranks is a multiple of the "
      "number of cores, else unbound. core: one core per rank; unbound if there are more ranks "
      "than cores. none: unbound",
      0 },
    { "survive", OPT_SURVIVE, NULL, 0, "keep the other ranks running after a rank has failed", 0 },
    { "no-kill", OPT_SURVIVE, NULL, OPTION_ALIAS, NULL, 0 },
    { 0 },
};

static error_t parse_output(struct run_options *o, const char *arg)
{
    if (strcmp(arg, "prefix") == 0)
        o->output = OUTPUT_PREFIX;
    else if (strcmp(arg, "plain") == 0)
        o->output = OUTPUT_PLAIN;
    else if (strncmp(arg, "dir=", 4) == 0 && arg[4])
        o->output = OUTPUT_DIR;
    else
        return EINVAL;
    o->output_dir = o->output == OUTPUT_DIR ? arg + 4 : NULL;
    return 0;
}

static error_t parse_bind(struct run_options *o, const char *arg)
{
    static const char *const names[] = {
        [BIND_SHARE] = "share", [BIND_CORE] = "core", [BIND_NONE] = "none"
    };

    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(arg, names[i]) == 0) {
            o->bind = (enum bind_mode)i;
            return 0;
        }
    return EINVAL;
}

static bool is_name(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789", text[i]))
            return false;
    return bytes > 0 && (text[0] < '0' || text[0] > '9');
}

/* Stores NAME=VALUE. NAME alone gets its value from the environment, and is ignored if it is not
 * set. */
static error_t add_env(struct run_options *o, const char *arg)
{
    const char *value = strchr(arg, '=') ? NULL : getenv(arg);
    char *text;

    if (!is_name(arg, strcspn(arg, "=")) || o->nenv == RUN_ENV_MAX)
        return EINVAL;
    if (!strchr(arg, '=') && !value)
        return 0;
    if (asprintf(&text, value ? "%s=%s" : "%s", arg, value) < 0)
        return ENOMEM;
    o->env[o->nenv++] = text;
    return 0;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct run_options *o = state->input;

    switch (key) {
    case 'n':
        if (strcmp(arg, "p") == 0)
            argp_error(state, "unknown option -np (use -n N)");
        o->nranks = (uint32_t)option_number(state, "-n", arg, 1, RANKS_MAX);
        return 0;
    case 'H':
        o->hosts = arg;
        return 0;
    case OPT_HOSTFILE:
        o->hostfile = arg;
        return 0;
    case OPT_RSH:
        o->rsh = arg;
        return 0;
    case OPT_WIRES:
        if (*arg)
            option_check_wires_of(state, "--wires", arg);     /* otherwise each rank would report
                                                                 the error */
        o->wires = arg;
        return 0;
    case OPT_INTERFACES:
        o->interfaces = arg;
        return 0;
    case OPT_TIMEOUT:
        o->timeout_s = option_real(state, "--timeout", arg, 0.001, 2e6);
        return 0;
    case 'o':
        if (parse_output(o, arg))
            argp_error(state, "--output %s: must be prefix, plain or dir=PATH", arg);
        return 0;
    case 'x':
        if (add_env(o, arg))
            argp_error(state, "-x %s: must be NAME=VALUE or NAME, at most %d times", arg,
                       RUN_ENV_MAX);
        return 0;
    case OPT_BIND:
        if (parse_bind(o, arg))
            argp_error(state, "--bind %s: must be share, core or none", arg);
        return 0;
    case OPT_SURVIVE:
        o->survive = true;
        return 0;
    case ARGP_KEY_ARG:
        o->argv = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (!o->argv)
            argp_error(state, "missing argument: the program to start");
        if (o->hosts && o->hostfile)
            argp_error(state, "conflicting options: --hosts excludes --hostfile");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .args_doc = "[--] PROGRAM [ARGUMENT...]",
    .doc =
        "Starts N ranks of PROGRAM and waits for them.\vA rank fails if it exits with a status "
        "other than 0 or is killed by a signal. Then all processes of the other ranks get SIGTERM, "
        "and SIGKILL after 3 s.\n\n"
        "SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded to the ranks; a "
        "second "
        "SIGINT kills them. SIGHUP, SIGINT and SIGQUIT stay ignored if they are ignored at start "
        "(with nohup, or as a background job of a script). Ranks start with default signal "
        "handling, except for an ignored SIGHUP.\n\n"
        "Rank 0 reads standard input if it runs on this host. A line of output longer than 1 MiB "
        "is "
        "split: each part but the last ends with \"\\\", and the following part begins with "
        "\"[rank]+\". If output cannot be written, the error is reported once, the job continues, "
        "and the exit status is not 0. If the reader of the output has exited, the job ends with "
        "status 141, as for SIGPIPE. Output that is not read is discarded 3 s after a signal "
        "that ends the job.\n\n"
        "Exit status: 0 on success; otherwise that of the first failed rank, or 128 + N for "
        "signal N; 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti run -n 4 -- ./program\n"
        "  tutti run -H a:4,b:4 -n 8 -x DATA=/data -- ./program\n",
};

bool run_options_parse(struct run_options *o, int argc, char **argv)
{
    *o = (struct run_options){ .nranks = 1, .rsh = "ssh -o BatchMode=yes" };
    return argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, o) == 0;
}

void run_options_fini(struct run_options *o)
{
    for (size_t i = 0; i < o->nenv; i++)
        free(o->env[i]);
}
