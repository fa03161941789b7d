/* tutti status: what each rank of a running or hung job is in. */
#include "tools/status/status.h"

#include <argp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tools/option_values.h"
#include "tools/tool.h"

#define TIMEOUT_S 2
#define CLEAR_SCREEN "\033[H\033[2J"

struct options {
    const char *what;
    enum { FORM_TEXT, FORM_JSON, FORM_METRICS } form;
    bool in_depth;
    uint32_t rank, rows, timeout_ms;
    double watch_s;             /* 0: once */
};

enum { OPT_JSON = 256, OPT_METRICS, OPT_ROWS };

static const struct argp_option argp_options[] = {
    { "watch", 'w', "SECONDS", OPTION_ARG_OPTIONAL, "repeat every SECONDS (default 2)", 0 },
    { "rank", 'r', "RANK", 0,
      "show one rank in depth: its communicators, operations in progress and last operations", 0 },
    { "json", OPT_JSON, NULL, 0, "print one JSON document per query, on one line", 0 },
    { "metrics", OPT_METRICS, NULL, 0, "print metrics in the text format of Prometheus", 0 },
    { "rows", OPT_ROWS, "N", 0,
      "show at most N communicators and N operations (default 20)", 0 },
    { "timeout", 't', "SECONDS", 0,
      "maximum time of a query (default 2); ranks without a sign of life for a quarter of it are "
      "silent",
      0 },
    { 0 },
};

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case 'w':
        o->watch_s = arg ? option_real(state, "--watch", arg, 0.1, 3600) : 2;
        return 0;
    case 'r':
        o->in_depth = true;
        o->rank = (uint32_t)option_number(state, "--rank", arg, 0, UINT32_MAX - 1);
        return 0;
    case OPT_JSON:
        o->form = FORM_JSON;
        return 0;
    case OPT_METRICS:
        o->form = FORM_METRICS;
        return 0;
    case OPT_ROWS:
        o->rows = (uint32_t)option_number(state, "--rows", arg, 1, 100000);
        return 0;
    case 't':
        o->timeout_ms = (uint32_t)(1000 * option_real(state, "--timeout", arg, 0.1, 600));
        return 0;
    case ARGP_KEY_ARG:
        if (o->what)
            argp_error(state, "too many arguments: %s", arg);
        o->what = arg;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .args_doc = "[JOB|PATH]",
    .doc = "Shows what each rank of a running or hung job is in: operations since when, ranks "
           "missing from them, and ranks that do not respond.\vJOB is the start of a job's number. "
           "PATH is a status socket, or a directory of them. Without an argument, it is the only "
           "job of this user on this host. One process is queried; it collects the reports of all "
           "ranks, also while the program computes or hangs. The sockets are in /tmp/tutti-UID, or "
           "in the directory TUTTI_STATUS, and only their user and root can connect.\n\n"
           "Exit status: 0 on success, 1 if no process responds, 2 on a usage error.\n\n"
           "Examples:\n"
           "  tutti status\n"
           "  tutti status 9f3c --rank 12\n"
           "  tutti status --watch=1 --rows 5\n"
           "  tutti status --json\n",
};

static bool print_answer(const struct options *o, const struct status_answer *a)
{
    if (o->form == FORM_JSON)
        return status_print_json(a, stdout);
    if (o->form == FORM_METRICS)
        status_print_metrics(a, o->rows, stdout);
    else if (o->in_depth)
        status_print_rank(a, o->rows, stdout);
    else
        status_print(a, o->rows, stdout);
    return true;
}

/* Queries a process, and prints the answer. */
static bool show(const struct options *o, const struct status_where *w)
{
    const struct tt_collect_query q = { .what = o->in_depth ? TT_COLLECT_RANK : TT_COLLECT_ALL,
                                        .target = o->rank,
                                        .timeout_ms = o->timeout_ms };
    char why[STATUS_WHY_BYTES] = "";
    struct status_answer a;
    struct status_link l;
    bool good = status_connect(w, o->timeout_ms, &l, why);

    if (good) {
        good = status_ask(w, &l, &q, &a, why);
        status_disconnect(&l);
    }
    if (!good) {
        fprintf(stderr, "tutti status: %s\n", why);
        return false;
    }
    if (o->watch_s > 0 && o->form == FORM_TEXT && isatty(STDOUT_FILENO))
        fputs(CLEAR_SCREEN, stdout);
    good = print_answer(o, &a);
    if (!good)
        fprintf(stderr, "tutti status: out of memory\n");
    status_answer_fini(&a);
    return good;
}

int tool_status_main(int argc, char **argv)
{
    struct options o = { .rows = 20, .timeout_ms = TIMEOUT_S * 1000 };
    struct status_where w;
    bool good;

    argp_parse(&argp, argc, argv, 0, NULL, &o);
    if (!status_find(o.what, &w, argv[0]))
        return EXIT_FAILURE;
    do {
        good = show(&o, &w);
        fflush(stdout);
        if (good && o.watch_s > 0 && !ferror(stdout))
            poll(NULL, 0, (int)(o.watch_s * 1000));
    } while (good && o.watch_s > 0 && !ferror(stdout));
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
