#include "tools/run/run_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "tools/run/run_place.h"
#include "tools/run/run_subtree.h"

#define FANOUT_DEFAULT 32

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

static void take_ranks(void *options, struct argp_state *state, char *arg)
{
    struct run_options *o = options;

    if (strcmp(arg, "p") == 0)
        argp_error(state, "unknown option -np (use -n N)");
    o->nranks = (uint32_t)option_number(state, "-n", arg, 1, RANKS_MAX);
}

static void take_wires(void *options, struct argp_state *state, char *arg)
{
    struct run_options *o = options;

    if (*arg)
        option_check_wires_of(state, "--wires", arg);     /* otherwise each rank would report
                                                             the error */
    o->wires = arg;
}

static void take_output(void *options, struct argp_state *state, char *arg)
{
    struct run_options *o = options;

    if (parse_output(o, arg))
        argp_error(state, "--output %s: must be prefix, plain or dir=PATH", arg);
}

static void take_env(void *options, struct argp_state *state, char *arg)
{
    struct run_options *o = options;

    if (o->nenv == RUN_ENV_MAX)
        argp_error(state, "-x %s: too many variables (the maximum is %d)", arg, RUN_ENV_MAX);
    if (add_env(o, arg))
        argp_error(state, "-x %s: must be NAME=VALUE or NAME", arg);
}

static void take_bind(void *options, struct argp_state *state, char *arg)
{
    struct run_options *o = options;

    if (parse_bind(o, arg))
        argp_error(state, "--bind %s: must be share, core or none", arg);
}

static void take_program(void *options, struct argp_state *state, char *arg)
{
    struct run_options *o = options;

    command_line_rest(state, arg, &o->argv);
}

static void check_options(void *options, struct argp_state *state)
{
    struct run_options *o = options;

    if (!o->argv)
        argp_error(state, "missing argument: the program to start");
    if (o->hosts && o->hostfile)
        argp_error(state, "conflicting options: --hosts excludes --hostfile");
}

static const struct option_row option_rows[] = {
    { "ranks", 'n', "N", 0, OPTION_CALL(take_ranks),
      "number of ranks (default 1)" },
    { "hosts", 'H', "a,b:4", 0, OPTION_TEXT(struct run_options, hosts),
      "hosts, each optionally with its number of ranks (default: this host)" },
    { "hostfile", 0, "FILE", 0, OPTION_TEXT(struct run_options, hostfile),
      "hosts as in --hosts, from a file with lines \"host\" or \"host slots=4\"" },
    { "rsh", 0, "COMMAND", 0, OPTION_TEXT(struct run_options, rsh),
      "remote shell, called as COMMAND HOST PROGRAM (default \"ssh -o BatchMode=yes\"). \"{}\" in "
      "COMMAND is replaced by the host, for example \"srun -N1 -n1 --overlap -w {} sh -c\"" },
    { "agent", 0, NULL, 0, { 0 }, "" },
    { "fanout", 0, "N", 0, OPTION_INTEGER(struct run_options, fanout, 1, FANOUT_MAX),
      "maximum number of remote hosts that are started directly (default 32). More hosts form a "
      "tree: N groups, in each of which the first host starts the others in the same way. tutti "
      "must then be installed on all of them" },
    { "wires", 0, "shm,tcp", 0, OPTION_CALL(take_wires),
      "allowed transports (sets TUTTI_WIRES)" },
    { "interfaces", 0, "RULE", 0, OPTION_TEXT(struct run_options, interfaces),
      "network interfaces: by prefix \"eth\", by name \"=eth0\", all except \"^docker,lo\" (sets "
      "TUTTI_INTERFACES)" },
    { "timeout", 0, "SECONDS", 0, OPTION_REAL(struct run_options, timeout_s, 0.001, 2e6),
      "timeout of start-up and of every call (sets TUTTI_TIMEOUT_MS), and of the answer of each "
      "remote shell (default 300)" },
    { "output", 'o', "prefix|plain|dir=PATH", 0, OPTION_CALL(take_output),
      "output of the ranks. prefix (default): each line begins with \"[rank] \". plain: unchanged. "
      "dir=PATH: in the files rank.N.out and rank.N.err in PATH" },
    { "env", 'x', "NAME[=VALUE]", 0, OPTION_CALL(take_env),
      "set an environment variable of the ranks. Without VALUE: to its current value, also on "
      "other hosts (without -x, only local ranks inherit it)" },
    { "bind", 0, "share|core|none", 0, OPTION_CALL(take_bind),
      "binding of ranks to cores, on this host and on hosts started in a tree (--fanout). share "
      "(default): equal shares of the cores. If there are more ranks than cores: one core per "
      "rank, round-robin, if their number is a multiple of the number of cores; otherwise unbound. "
      "core: one core per rank; unbound if there are more ranks than cores. none: unbound" },
    { "survive", 0, NULL, 0, OPTION_FLAG(struct run_options, survive),
      "keep the other ranks running after a rank has failed" },
    { "no-kill", 0, NULL, 0, { 0 }, "" },
    { 0 },
};

static const struct command_line command = {
    .argp_flags = ARGP_IN_ORDER,
    .rows = option_rows,
    .argument = take_program,
    .check = check_options,
    .args_doc = "[--] PROGRAM [ARGUMENT...]",
    .doc =
        "Starts N ranks of PROGRAM and waits for them.\vA rank fails if it exits with a status "
        "other than 0 or is killed by a signal. Then all processes of the other ranks receive "
        "SIGTERM, and SIGKILL 3 s later.\n\n"
        "SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded to the ranks; a "
        "second SIGINT kills them. SIGHUP, SIGINT and SIGQUIT stay ignored if they are ignored at "
        "start (with nohup, or as a background job of a script). Ranks start with default signal "
        "handling, except that SIGHUP stays ignored if it was ignored at start.\n\n"
        "Rank 0 reads standard input if it runs on this host. A line of output longer than 1 MiB "
        "is split: each part but the last ends with \"\\\", and the following part begins with "
        "\"[rank]+\". If output cannot be written, the error is reported once, the job continues, "
        "and the exit status is not 0. If the reader of the output has exited, the job ends with "
        "status 141, as for SIGPIPE. Output that is not read is discarded 3 s after a signal that "
        "ends the job.\n\n"
        "Exit status: 0 on success; otherwise that of the first failed rank, or 128 + N for signal "
        "N; 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti run -n 4 -- ./program\n"
        "  tutti run -H a:4,b:4 -n 8 -x DATA=/data -- ./program\n",
};

void run_options_parse(struct run_options *o, int argc, char **argv)
{
    *o = (struct run_options){ .nranks = 1,
                               .fanout = FANOUT_DEFAULT,
                               .rsh = "ssh -o BatchMode=yes" };
    command_line_read(&command, o, argc, argv);
}

void run_options_fini(struct run_options *o)
{
    for (size_t i = 0; i < o->nenv; i++)
        free(o->env[i]);
}
