/* tutti top: operations and bytes per second of each communicator of a running job, its ranks that
 * call late, and its lanes. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tools/option_values.h"
#include "tools/status/status.h"
#include "tools/status/status_target.h"
#include "tools/tool.h"

#define TIMEOUT_S 5
#define PRIME_MS 1200           /* more than two samples (engine/lane_board.h) */
#define CLEAR_SCREEN "\033[H\033[2J"

struct options {
    struct status_target target;
    bool once, has_delay, json;
    double delay_s;
    uint32_t rows;
};

static void take_delay(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->has_delay = true;
    o->delay_s = option_real(state, "--delay", arg, 0.1, 3600);
}

static const struct option_row option_rows[] = {
    { "delay", 'd', "SECONDS", 0, OPTION_CALL(take_delay),
      "repeat every SECONDS (default 1)" },
    { "once", 0, NULL, 0, OPTION_FLAG(struct options, once),
      "print once; the default if the output is not a terminal" },
    { "json", 0, NULL, 0, OPTION_FLAG(struct options, json),
      "print one JSON document per query, on one line: that of `tutti status --json`, with rates" },
    { "rows", 0, "N", 0, OPTION_INTEGER(struct options, rows, 1, 100000),
      "show at most N communicators (default 20)" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .common = &status_target_command_line,
    .common_at = offsetof(struct options, target),
    .args_doc = "[JOB|PATH]",
    .doc =
        "Shows the communicators of a running job, every second by default. Each row has the "
        "operations and bytes per second, and the ranks that spent the least and the most time in "
        "collectives. The others wait for the rank with the least time. Further tables show where "
        "the time of long operations went, and the lanes of each transport that counts their "
        "traffic.\vJOB is the id of a job, or its first "
        "digits. PATH is a status socket, or a directory of them. Without an argument, the only "
        "job of this user on this host is shown. All numbers are those of the last second. `tutti "
        "profile` names slow ranks and links from trace dumps.\n\n"
        "Exit status: 0 on success, 1 if no process responds, 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti top\n"
        "  tutti top 9f3c --delay 5 --rows 50\n"
        "  tutti top --once\n"
        "  tutti top --delay 10 --json\n",
};

/* ---- output ---- */

/* Communicators with the longest waits come first. */
static int by_wait(const void *x, const void *y)
{
    const struct tt_status_comm *a = *(const struct tt_status_comm *const *)x,
                                *b = *(const struct tt_status_comm *const *)y;

    if (a->rates.most != b->rates.most)
        return a->rates.most > b->rates.most ? -1 : 1;
    if (a->rates.calls != b->rates.calls)
        return a->rates.calls > b->rates.calls ? -1 : 1;
    return a->hash < b->hash ? -1 : a->hash > b->hash;
}

static void print_head(const struct status_answer *a, FILE *to)
{
    const struct tt_status_report *r = &a->report;

    fprintf(to, "job %016" PRIx64 ": %u of %u ranks report; %" PRIu64 " operations/s, ",
            a->hello.job, r->nreported, a->hello.nranks, r->ops_per_s);
    status_print_rate(r->bytes_per_s, to);
    fprintf(to, "\n");
    if (r->nuntraced)
        fprintf(to, "%u ranks have no trace of operations (TUTTI_TRACE=0)\n", r->nuntraced);
    status_print_lists(a, to);
}

static const char *name_of(const struct tt_status_comm *c, char out[24])
{
    if (*c->name)
        snprintf(out, 24, "%.20s", c->name);
    else
        snprintf(out, 24, "%016" PRIx64, c->hash);
    return out;
}

static void print_comm(const struct tt_status_comm *c, FILE *to)
{
    const struct tt_status_rates *x = &c->rates;
    char name[24];

    fprintf(to, "%-20s %6u %10" PRIu64 "  ", name_of(c, name), c->nranks, x->calls);
    if (x->most > 0)
        fprintf(to, "%6u %5.1f %%  %6u %5.1f %%  ", x->least_rank, x->least / 10.0, x->most_rank,
                x->most / 10.0);
    else
        fprintf(to, "%6s %5s    %6s %5s    ", "-", "-", "-", "-");
    status_print_rate(x->bytes, to);
    fprintf(to, "\n");
}

static void print_stages_of(const struct tt_status_comm *c, FILE *to)
{
    const struct tt_status_rates *x = &c->rates;
    double all = 0;
    char name[24];

    for (int i = 0; i < TT_STATUS_STAGES; i++)
        all += (double)x->staged_ns[i];
    fprintf(to, "%-20s %10" PRIu64, name_of(c, name), x->nstaged);
    for (int i = 0; i < TT_STATUS_STAGES; i++)
        fprintf(to, " %6.1f", all > 0 ? 100 * (double)x->staged_ns[i] / all : 0.0);
    fprintf(to, "\n");
}

/* Prints the stages of long operations: list[n], at most `rows` of them. */
static void print_stages(const struct tt_status_comm *const *list, uint32_t n, uint32_t rows,
                         FILE *to)
{
    uint32_t shown = 0;

    for (uint32_t i = 0; i < n && shown < rows; i++) {
        if (!list[i]->rates.nstaged)
            continue;
        if (shown++ == 0) {
            fprintf(to, "\n%-20s %10s", "stages, in % of time", "calls/s");
            for (int k = 0; k < TT_STATUS_STAGES; k++)
                fprintf(to, " %6s", status_stage_name((enum tt_status_stage)k));
            fprintf(to, "\n");
        }
        print_stages_of(list[i], to);
    }
}

/* The lanes of a transport: sums over the reporting ranks. */
static void print_lanes(const struct tt_status_lanes *l, FILE *to)
{
    char idle[16] = "-", posts[24] = "-";

    if (l->up && l->nrated)
        snprintf(idle, sizeof idle, "%.0f %%", 100.0 * l->idle / l->up);
    if (l->nrated)
        snprintf(posts, sizeof posts, "%" PRIu64, l->posts_per_s);
    fprintf(to, "%-8.15s %6u %7u %6u %6s %6u %9s  ", l->wire, l->nranks, l->lanes, l->lanes - l->up,
            idle, l->depth, posts);
    status_print_rate(l->bytes_per_s, to);
    fprintf(to, ", %" PRIu64 " (%" PRIu64 " B) outstanding", l->outstanding, l->outstanding_bytes);
    if (l->most_bytes)
        fprintf(to, ", most at rank %u", l->most_rank);
    fprintf(to, "\n");
}

/* Returns false if out of memory. */
static bool print_answer(const struct status_answer *a, uint32_t rows, FILE *to)
{
    const struct tt_status_report *r = &a->report;
    const struct tt_status_comm **list = malloc((r->ncomms + 1ul) * sizeof *list);
    uint32_t n = 0;

    if (!list)
        return false;
    for (uint32_t i = 0; i < r->ncomms; i++)
        if (r->comms[i].has_rates)
            list[n++] = &r->comms[i];
    qsort(list, n, sizeof *list, by_wait);
    print_head(a, to);
    fprintf(to, "\n%-20s %6s %10s  %14s  %14s  %s\n", "communicator", "ranks", "calls/s",
            "least time", "most time", "bytes");
    for (uint32_t i = 0; i < n && i < rows; i++)
        print_comm(list[i], to);
    if (n > rows)
        fprintf(to, "and %u other communicators (--rows shows more)\n", n - rows);
    print_stages(list, n, rows, to);
    free(list);
    if (r->nlanes)
        fprintf(to, "\n%-8s %6s %7s %6s %6s %6s %9s  %s\n", "lanes", "ranks", "number", "down",
                "idle", "depth", "posts/s", "sent");
    for (uint32_t i = 0; i < r->nlanes; i++)
        print_lanes(&r->lanes[i], to);
    return true;
}

/* ---- queries ---- */

/* Queries the job. On success the caller calls status_answer_fini. */
static bool query(const struct options *o, const struct status_where *w, struct status_answer *a)
{
    const struct tt_collect_query q = { .what = TT_COLLECT_RATES,
                                        .timeout_ms = o->target.timeout_ms };
    char why[STATUS_WHY_BYTES] = "";
    struct status_link l;
    bool good = status_connect(w, o->target.timeout_ms, &l, why);

    if (good) {
        good = status_ask(w, &l, &q, a, why);
        status_disconnect(&l);
    }
    if (!good)
        fprintf(stderr, "tutti top: %s\n", why);
    return good;
}

/* Rates of lanes are measured only after a first query. */
static bool prime(const struct options *o, const struct status_where *w)
{
    struct status_answer a;

    if (!query(o, w, &a))
        return false;
    status_answer_fini(&a);
    poll(NULL, 0, PRIME_MS);
    return true;
}

static bool show(const struct options *o, const struct status_where *w, bool clears)
{
    struct status_answer a;
    bool good;

    if (!query(o, w, &a))
        return false;
    if (clears)
        fputs(CLEAR_SCREEN, stdout);
    good = o->json ? status_print_json(&a, stdout) : print_answer(&a, o->rows, stdout);
    if (!good)
        fprintf(stderr, "tutti top: out of memory\n");
    status_answer_fini(&a);
    return good;
}

int tool_top_main(int argc, char **argv)
{
    struct options o = { .rows = 20, .target.timeout_ms = TIMEOUT_S * 1000, .delay_s = 1 };
    const bool is_terminal = isatty(STDOUT_FILENO);
    struct status_where w;
    bool repeats, good;

    command_line_read(&command, &o, argc, argv);
    repeats = !o.once && (is_terminal || o.has_delay);
    if (!status_find(o.target.what, &w, argv[0]))
        return EXIT_FAILURE;
    if (!repeats && !prime(&o, &w))
        return EXIT_FAILURE;
    do {
        good = show(&o, &w, repeats && is_terminal && !o.json);
        fflush(stdout);
        if (good && repeats && !ferror(stdout))
            poll(NULL, 0, (int)(o.delay_s * 1000));
    } while (good && repeats && !ferror(stdout));
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
