/* tutti topo: shows the topology of this host, of the current job, or of a machine given by a
 * description. */
#include "tools/topo/topo.h"

#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "tools/option_values.h"
#include "tools/tool.h"

struct options {
    const char *topo, *svg, *write;
    const char *hosts, *hostfile, *rsh;
    uint32_t nranks;
    bool json, measure;
};

enum {
    OPT_TOPO = 256,
    OPT_JSON,
    OPT_SVG,
    OPT_MEASURE,
    OPT_WRITE,
    OPT_HOSTS,
    OPT_HOSTFILE,
    OPT_RSH
};

static const struct argp_option argp_options[] = {
    { "ranks", 'n', "N", 0,
      "show the rail of each of N ranks on this host, with the binding of `tutti run`", 0 },
    { "topo", OPT_TOPO, "NAME|FILE", 0,
      "show this description instead of this host: a built-in name (listed below) or a file", 0 },
    { "json", OPT_JSON, NULL, 0, "print one JSON document", 0 },
    { "svg", OPT_SVG, "FILE", 0, "write an SVG picture", 0 },
    { "measure", OPT_MEASURE, NULL, 0,
      "in a job: measure latencies and rates between its ranks. If hosts have no labels, also "
      "group them by latency", 1 },
    { "write", OPT_WRITE, "FILE", 0,
      "in a job: write a description of its hosts, for TUTTI_TOPO; \"-\": to standard output, "
      "without other output", 1 },
    { "hosts", OPT_HOSTS, "a,b:4", 0,
      "with --measure: start a job on these hosts, one rank per slot; rank 0 writes the files", 1 },
    { "hostfile", OPT_HOSTFILE, "FILE", 0,
      "hosts as in --hosts, from a file with lines \"host\" or \"host slots=4\"", 1 },
    { "rsh", OPT_RSH, "COMMAND", 0, "remote shell, as in `tutti run`", 1 },
    { 0 },
};

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case OPT_TOPO:
        o->topo = arg;
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    case OPT_SVG:
        o->svg = arg;
        return 0;
    case OPT_MEASURE:
        o->measure = true;
        return 0;
    case OPT_WRITE:
        o->write = arg;
        return 0;
    case OPT_HOSTS:
        o->hosts = arg;
        return 0;
    case OPT_HOSTFILE:
        o->hostfile = arg;
        return 0;
    case OPT_RSH:
        o->rsh = arg;
        return 0;
    case 'n':
        o->nranks = (uint32_t)option_number(state, "--ranks", arg, 1, TOPO_RANKS_MAX);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unknown subcommand \"%s\" (available: place)", arg);
        return 0;
    case ARGP_KEY_END:
        if (o->topo && o->nranks)
            argp_error(state, "conflicting options: --ranks excludes --topo");
        if ((o->measure || o->write) && (o->topo || o->nranks))
            argp_error(state, "conflicting options: --%s needs a job and excludes %s",
                       o->measure ? "measure" : "write", o->topo ? "--topo" : "--ranks");
        if ((o->hosts || o->hostfile) && !o->measure)
            argp_error(state, "missing option: --%s needs --measure",
                       o->hosts ? "hosts" : "hostfile");
        if (o->hosts && o->hostfile)
            argp_error(state, "conflicting options: --hosts excludes --hostfile");
        if (o->rsh && !o->hosts && !o->hostfile)
            argp_error(state, "missing option: --rsh needs --hosts or --hostfile");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

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

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
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
    if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
        return 2;
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
