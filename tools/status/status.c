/* tutti status: the operations in progress on each rank of a running or hung job. */
#include "tools/status/status.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tools/option_values.h"
#include "tools/status/status_target.h"
#include "tools/tool.h"

#define TIMEOUT_S 5
#define SAMPLE_MS 200           /* for the first sample of lanes, on all ranks */
#define QUICK_S 0.5
#define CLEAR_SCREEN "\033[H\033[2J"

struct options {
    struct status_target target;
    enum { FORM_TEXT, FORM_JSON, FORM_METRICS } form;
    bool in_depth, dump;
    const char *serve;          /* address; NULL: print */
    uint32_t rank, rows;
    double watch_s;             /* 0: once */
};

static void take_watch(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->watch_s = arg ? option_real(state, "--watch", arg, 0.1, 3600) : 2;
}

static void take_rank(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->in_depth = true;
    o->rank = (uint32_t)option_number(state, "--rank", arg, 0, UINT32_MAX - 1);
}

static void check_options(void *options, struct argp_state *state)
{
    struct options *o = options;

    if (o->serve && (o->in_depth || o->form != FORM_TEXT))
        argp_error(state, "conflicting options: --serve excludes --rank, --json and --metrics");
    if (o->dump && (o->serve || o->in_depth || o->watch_s > 0 || o->form == FORM_METRICS))
        argp_error(state,
                   "conflicting options: --dump excludes --serve, --rank, --watch and --metrics");
}

static const struct option_row option_rows[] = {
    { "watch", 'w', "SECONDS", 0, OPTION_CALL_OPTIONAL(take_watch),
      "repeat every SECONDS (default 2)" },
    { "rank", 'r', "RANK", 0, OPTION_CALL(take_rank),
      "show one rank in detail: its communicators, operations in progress and last operations" },
    { "dump", 0, NULL, 0, OPTION_FLAG(struct options, dump),
      "let each rank write a trace dump to its TUTTI_TRACE_DIR, and print how many do; tutti "
      "analyze reads them" },
    { "json", 0, NULL, 0, OPTION_VALUE(struct options, form, FORM_JSON),
      "print one JSON document per query, on one line" },
    { "metrics", 0, NULL, 0, OPTION_VALUE(struct options, form, FORM_METRICS),
      "print metrics in the text format of Prometheus" },
    { "serve", 0, "[ADDRESS:]PORT", 0, OPTION_TEXT(struct options, serve),
      "serve the status over HTTP until interrupted: / (a page), /json, /metrics and /healthz; "
      "without ADDRESS on 127.0.0.1. With port 0 the system selects the port, which is printed. "
      "The job is queried only after an HTTP request, at most once every --watch seconds "
      "(default 2)" },
    { "rows", 0, "N", 0, OPTION_INTEGER(struct options, rows, 1, 100000),
      "show at most N communicators and N operations (default 20)" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .common = &status_target_command_line,
    .common_at = offsetof(struct options, target),
    .check = check_options,
    .args_doc = "[JOB|PATH|tcp://HOST:PORT]",
    .doc =
        "Shows the operations in progress on each rank of a running or hung job.\vThe output also "
        "has the times of their calls, the ranks that have not called them, and the ranks that do "
        "not respond. JOB is the id of a job, or its first digits. PATH is a status socket, or a "
        "directory of them. Without an argument, the only job of this user on this host is shown. "
        "One process is queried; it collects the reports of all ranks, also while the program "
        "computes or hangs. The sockets are in /tmp/tutti-UID, or in the directory TUTTI_STATUS, "
        "and only their user and root can connect. "
        "tcp://HOST:PORT is a host of a job that was started with TUTTI_STATUS_LISTEN, whose token "
        "is in TUTTI_STATUS_TOKEN or TUTTI_TOKEN.\n\n"
        "Exit status: 0 on success, 1 if no process responds or, with --dump, no rank writes a "
        "dump, 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti status\n"
        "  tutti status 9f3c --rank 12\n"
        "  tutti status --watch=1 --rows 5\n"
        "  tutti status --json\n"
        "  tutti status --dump\n"
        "  tutti status --serve 9464\n",
};

static bool print_answer(const struct options *o, const struct status_answer *a)
{
    if (o->form == FORM_JSON)
        return status_print_json(a, stdout);
    if (o->form == FORM_METRICS)
        status_print_metrics(a, o->rows, stdout);
    else if (o->dump)
        status_print_dumps(a, stdout);
    else if (o->in_depth)
        status_print_rank(a, o->rows, stdout);
    else
        status_print(a, o->rows, stdout);
    return true;
}

/* Queries a process. On success the caller calls status_answer_fini. */
static bool query(const struct options *o, const struct status_where *w, struct status_answer *a)
{
    const struct tt_collect_query q = { .what = o->dump                ? TT_COLLECT_DUMP
                                                : o->in_depth          ? TT_COLLECT_RANK
                                                : o->form == FORM_TEXT ? TT_COLLECT_RATES
                                                                       : TT_COLLECT_ALL,
                                        .target = o->rank,
                                        .timeout_ms = o->target.timeout_ms };
    char why[STATUS_WHY_BYTES] = "";
    struct status_link l;
    bool good = status_connect(w, o->target.timeout_ms, &l, why);

    if (good) {
        good = status_ask(w, &l, &q, a, why);
        status_disconnect(&l);
    }
    if (!good)
        fprintf(stderr, "tutti status: %s\n", why);
    return good;
}

/* Lanes are sampled from the first query on. Returns whether a second query, which has a sample,
 * is needed and takes little time. */
static bool needs_lanes(const struct options *o, const struct status_answer *a)
{
    return a->query.what == TT_COLLECT_RATES && o->watch_s == 0 && a->report.nlanes == 0 &&
           a->report.nreported > 1 && a->seconds < QUICK_S;
}

/* Queries a process, and prints the answer. */
static bool show(const struct options *o, const struct status_where *w)
{
    struct status_answer a;
    bool good = query(o, w, &a);

    if (good && needs_lanes(o, &a)) {
        status_answer_fini(&a);
        poll(NULL, 0, SAMPLE_MS);
        good = query(o, w, &a);
    }
    if (!good)
        return false;
    if (o->watch_s > 0 && o->form == FORM_TEXT && isatty(STDOUT_FILENO))
        fputs(CLEAR_SCREEN, stdout);
    good = print_answer(o, &a);
    if (!good)
        fprintf(stderr, "tutti status: out of memory\n");
    good &= !o->dump || a.report.ndumps > 0;
    status_answer_fini(&a);
    return good;
}

int tool_status_main(int argc, char **argv)
{
    struct options o = { .rows = 20, .target.timeout_ms = TIMEOUT_S * 1000 };
    struct status_where w;
    bool good;

    command_line_read(&command, &o, argc, argv);
    if (!status_find(o.target.what, &w, argv[0]))
        return EXIT_FAILURE;
    if (o.serve)
        return status_serve(&(struct status_serve_conf){
            .where = w,
            .address = o.serve,
            .rows = o.rows,
            .timeout_ms = o.target.timeout_ms,
            .interval_ns = (uint64_t)((o.watch_s > 0 ? o.watch_s : 2) * 1e9) });
    do {
        good = show(&o, &w);
        fflush(stdout);
        if (good && o.watch_s > 0 && !ferror(stdout))
            poll(NULL, 0, (int)(o.watch_s * 1000));
    } while (good && o.watch_s > 0 && !ferror(stdout));
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
