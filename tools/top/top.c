/* tutti top: operations and bytes per second of each communicator of a running job, and its ranks
 * that call late. */
#include <argp.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tools/option_values.h"
#include "tools/status/status.h"
#include "tools/tool.h"

#define TIMEOUT_S 2
#define CLEAR_SCREEN "\033[H\033[2J"

struct options {
    const char *what;
    bool once, has_delay;
    double delay_s;
    uint32_t rows, timeout_ms;
};

enum { OPT_ONCE = 256, OPT_ROWS };

static const struct argp_option argp_options[] = {
    { "delay", 'd', "SECONDS", 0, "repeat every SECONDS (default 1)", 0 },
    { "once", OPT_ONCE, NULL, 0, "print once; the default if the output is no terminal", 0 },
    { "rows", OPT_ROWS, "N", 0, "show at most N communicators (default 20)", 0 },
    { "timeout", 't', "SECONDS", 0, "maximum time of a query (default 2)", 0 },
    { 0 },
};

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case 'd':
        o->has_delay = true;
        o->delay_s = option_real(state, "--delay", arg, 0.1, 3600);
        return 0;
    case OPT_ONCE:
        o->once = true;
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
    .doc =
        "Shows the communicators of a running job each second: operations and bytes per second, "
        "the rank that spent the least time in collectives (others wait for it), and the rank "
        "that spent the most.\vJOB is the start of a job's number. PATH is a status socket, or "
        "a directory of them. Without an argument, it is the only job of this user on this host. "
        "All numbers are those of the last second. `tutti profile` names slow ranks and links "
        "from trace dumps.\n\n"
        "Exit status: 0 on success, 1 if no process responds, 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti top\n"
        "  tutti top 9f3c --delay 5 --rows 50\n"
        "  tutti top --once\n",
};

/* ---- output ---- */

/* Communicators in which ranks wait most come first. */
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

static void print_comm(const struct tt_status_comm *c, FILE *to)
{
    const struct tt_status_rates *x = &c->rates;
    char name[24];

    if (*c->name)
        snprintf(name, sizeof name, "%.20s", c->name);
    else
        snprintf(name, sizeof name, "%016" PRIx64, c->hash);
    fprintf(to, "%-20s %6u %10" PRIu64 "  ", name, c->nranks, x->calls);
    if (x->most > 0)
        fprintf(to, "%6u %5.1f %%  %6u %5.1f %%  ", x->least_rank, x->least / 10.0, x->most_rank,
                x->most / 10.0);
    else
        fprintf(to, "%6s %5s    %6s %5s    ", "-", "-", "-", "-");
    status_print_rate(x->bytes, to);
    fprintf(to, "\n");
}

/* Returns false without memory. */
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
            "latest, in it", "most, in it", "bytes");
    for (uint32_t i = 0; i < n && i < rows; i++)
        print_comm(list[i], to);
    if (n > rows)
        fprintf(to, "and %u other communicators (--rows shows more)\n", n - rows);
    free(list);
    return true;
}

/* ---- queries ---- */

static bool show(const struct options *o, const struct status_where *w, bool clears)
{
    const struct tt_collect_query q = { .what = TT_COLLECT_RATES, .timeout_ms = o->timeout_ms };
    char why[STATUS_WHY_BYTES] = "";
    struct status_answer a;
    struct status_link l;
    bool good = status_connect(w, o->timeout_ms, &l, why);

    if (good) {
        good = status_ask(w, &l, &q, &a, why);
        status_disconnect(&l);
    }
    if (!good) {
        fprintf(stderr, "tutti top: %s\n", why);
        return false;
    }
    if (clears)
        fputs(CLEAR_SCREEN, stdout);
    good = print_answer(&a, o->rows, stdout);
    if (!good)
        fprintf(stderr, "tutti top: out of memory\n");
    status_answer_fini(&a);
    return good;
}

int tool_top_main(int argc, char **argv)
{
    struct options o = { .rows = 20, .timeout_ms = TIMEOUT_S * 1000, .delay_s = 1 };
    const bool is_terminal = isatty(STDOUT_FILENO);
    struct status_where w;
    bool repeats, good;

    argp_parse(&argp, argc, argv, 0, NULL, &o);
    repeats = !o.once && (is_terminal || o.has_delay);
    if (!status_find(o.what, &w, argv[0]))
        return EXIT_FAILURE;
    do {
        good = show(&o, &w, repeats && is_terminal);
        fflush(stdout);
        if (good && repeats && !ferror(stdout))
            poll(NULL, 0, (int)(o.delay_s * 1000));
    } while (good && repeats && !ferror(stdout));
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
