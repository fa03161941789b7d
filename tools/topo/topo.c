/* tutti topo: shows the topology of this host, of the current job, or of a machine given by a
 * description. */
#include "tools/topo/topo.h"

#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "tools/tool.h"

struct options {
    const char *topo, *svg, *write;
    const char *hosts, *hostfile, *rsh;
    uint32_t nranks;
    bool json, measure;
};

static void reject_argument(void *options, struct argp_state *state, char *arg)
{
    (void)options;
    argp_error(state, "unknown subcommand \"%s\" (available: place)", arg);
}

static void check_options(void *options, struct argp_state *state)
{
    struct options *o = options;

    if (o->topo && o->nranks)
        argp_error(state, "conflicting options: --ranks excludes --topo");
    if ((o->measure || o->write) && (o->topo || o->nranks))
        argp_error(state, "conflicting options: --%s needs a job and excludes %s",
                   o->measure ? "measure" : "write", o->topo ? "--topo" : "--ranks");
    if ((o->hosts || o->hostfile) && !o->measure)
        argp_error(state, "missing option: --%s needs --measure", o->hosts ? "hosts" : "hostfile");
    if (o->hosts && o->hostfile)
        argp_error(state, "conflicting options: --hosts excludes --hostfile");
    if (o->rsh && !o->hosts && !o->hostfile)
        argp_error(state, "missing option: --rsh needs --hosts or --hostfile");
}

static const struct option_row option_rows[] = {
    { "ranks", 'n', "N", 0, OPTION_INTEGER(struct options, nranks, 1, TOPO_RANKS_MAX),
      "show the rail of each of N ranks on this host, with the binding of `tutti run`" },
    { "topo", 0, "NAME|FILE", 0, OPTION_TEXT(struct options, topo),
      "show this description instead of this host: a built-in name (listed below) or a file" },
    { "json", 0, NULL, 0, OPTION_FLAG(struct options, json), "print one JSON document" },
    { "svg", 0, "FILE", 0, OPTION_TEXT(struct options, svg), "write an SVG picture" },
    { "measure", 0, NULL, 1, OPTION_FLAG(struct options, measure),
      "in a job: measure latencies and rates between its ranks. If hosts have no labels, also "
      "group them by latency" },
    { "write", 0, "FILE", 1, OPTION_TEXT(struct options, write),
      "in a job: write a description of its hosts, for TUTTI_TOPO; \"-\": to standard output, "
      "without other output" },
    { "hosts", 0, "a,b:4", 1, OPTION_TEXT(struct options, hosts),
      "with --measure: start a job on these hosts, one rank per slot; rank 0 writes the files" },
    { "hostfile", 0, "FILE", 1, OPTION_TEXT(struct options, hostfile),
      "hosts as in --hosts, from a file with lines \"host\" or \"host slots=4\"" },
    { "rsh", 0, "COMMAND", 1, OPTION_TEXT(struct options, rsh), "remote shell, as in `tutti run`" },
    { 0 },
};

/* The built-in descriptions, for the help. */
static char *help_filter(int key, const char *text, void *input)
{
    const char *name, *summary;
    char *all = NULL;
    size_t bytes;
    FILE *f;

    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    f = open_memstream(&all, &bytes);
    if (!f)
        return NULL;
    fprintf(f, "See also `tutti topo place --help` (order of hosts for groups of "
               "ranks).\n\nBuilt-in descriptions:\n");
    for (size_t i = 0; tt_topo_builtin(i, &name, &summary); i++)
        fprintf(f, "  %-16s %s\n", name, summary);
    fprintf(f, "\nExit status: 0 on success, 1 on failure, 2 on a usage error.\n\n"
               "Examples:\n  tutti topo --svg here.svg\n  tutti run -n 4 -- tutti topo\n"
               "  tutti topo --measure --hosts a:4,b:4 --write lab.json\n");
    fclose(f);
    return all;
}

static const struct command_line command = {
    .rows = option_rows,
    .argument = reject_argument,
    .check = check_options,
    .doc =
        "Shows the topology: sockets, NICs and GPUs of this host, or of a machine described in a "
        "file.\n"
        "When launched as a job (one process per rank), it also shows which rail each rank uses, "
        "and why.\v",
    .help_filter = help_filter,
};

static bool open_svg(const char *path, FILE **out)
{
    *out = fopen(path, "we");
    if (!*out)
        fprintf(stderr, "tutti topo: cannot write %s: %s\n", path, strerror(errno));
    return *out;
}

static bool close_svg(const char *path, FILE *f)
{
    const bool ok = !ferror(f);

    if (fclose(f) == 0 && ok)
        return true;
    fprintf(stderr, "tutti topo: cannot write %s: %s\n", path, strerror(errno));
    return false;
}

static void print_json(struct json_object *o)
{
    printf("%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
                                                         JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(o);
}

/* Draws the machine, or the hosts if the description contains only hosts. */
static void draw_machine(const struct tt_topo *t, FILE *f)
{
    static struct topo_here hosts;

    if (!t->has_shape && topo_hosts_described(&hosts, t)) {
        topo_job_draw(&hosts, f);
        topo_here_free(&hosts);
    } else {
        topo_machine_draw(t, f);
    }
}

static int show_machine(const struct options *o)
{
    struct tt_topo t;
    FILE *f = NULL;
    bool ok = true;

    if (tt_topo_load(&t, o->topo) != TUTTI_OK)
        return 1;
    if (o->json)
        print_json(topo_machine_json(&t));
    else
        topo_machine_print(&t);
    if (o->svg) {
        ok = open_svg(o->svg, &f);
        if (ok) {
            draw_machine(&t, f);
            ok = close_svg(o->svg, f);
        }
    }
    tt_topo_fini(&t);
    return ok ? 0 : 1;
}

static bool draw_here(const char *path, const struct topo_here *here)
{
    FILE *f = NULL;

    if (!open_svg(path, &f))
        return false;
    if (here->in_job && here->layout.nhosts > 1)
        topo_job_draw(here, f);
    else
        topo_here_draw(here, f);
    return close_svg(path, f);
}

static bool write_description(const char *path, const struct topo_here *here)
{
    struct json_object *o = topo_levels_description(here);
    bool ok;

    if (!o)
        return false;
    if (strcmp(path, "-") == 0) {
        print_json(o);
        return true;
    }
    ok = json_object_to_file_ext(path, o,
                                 JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE) == 0;
    if (!ok)
        fprintf(stderr, "tutti topo: cannot write %s: %s\n", path, strerror(errno));
    json_object_put(o);
    return ok;
}

/* In a job, only rank 0 prints. */
static int show_here(const struct options *o, const struct tt_topo *description)
{
    static struct topo_here here;
    bool ok = true;

    if (!topo_here_find(&here, description, o->nranks, o->measure))
        return 1;
    if (!here.in_job && (o->measure || o->write)) {
        fprintf(stderr, "tutti topo: --%s needs a job (use tutti run ... -- tutti topo --%s%s)\n",
                o->measure ? "measure" : "write", o->measure ? "measure" : "write FILE",
                o->measure ? ", or --hosts" : "");
        ok = false;
    } else if (!here.in_job || here.rank == 0) {
        if (o->json)
            print_json(topo_here_json(&here));
        else if (!o->write || strcmp(o->write, "-") != 0)
            topo_here_print(&here);
        ok = (!o->svg || draw_here(o->svg, &here)) &&
             (!o->write || write_description(o->write, &here));
    }
    topo_here_free(&here);
    return ok ? 0 : 1;
}

static int start_job(const struct options *o)
{
    const char *words[8] = { "--measure" };
    size_t n = 1;

    if (o->json)
        words[n++] = "--json";
    if (o->svg) {
        words[n++] = "--svg";
        words[n++] = o->svg;
    }
    if (o->write) {
        words[n++] = "--write";
        words[n++] = o->write;
    }
    words[n] = NULL;
    return topo_measure_start(o->hosts, o->hostfile, o->rsh, words);
}

int tool_topo_main(int argc, char **argv)
{
    static char place_name[] = "tutti topo place";
    struct options o = { .topo = NULL };
    const char *file = getenv("TUTTI_TOPO");
    struct tt_topo description;
    int rc;

    if (argc > 1 && strcmp(argv[1], "place") == 0) {
        argv[1] = place_name;
        return topo_place_main(argc - 1, argv + 1);
    }
    command_line_read(&command, &o, argc, argv);
    if (o.topo)
        return show_machine(&o);
    if (o.hosts || o.hostfile)
        return start_job(&o);
    if (!file || !*file)
        return show_here(&o, NULL);
    if (tt_topo_load(&description, file) != TUTTI_OK)
        return 1;
    rc = show_here(&o, &description);
    tt_topo_fini(&description);
    return rc;
}
