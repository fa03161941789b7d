/* tutti topo: where ranks are and what joins them; of this host, of the job that it runs in, or of a described machine. */
#include "topo.h"

#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "option_values.h"
#include "tool.h"

struct options {
    const char *topo, *svg;
    uint32_t nranks;
    bool json;
};

enum { OPT_TOPO = 256, OPT_JSON, OPT_SVG };

static const struct argp_option argp_options[] = {
    { "topo", OPT_TOPO, "NAME|FILE", 0, "show this description instead: a built-in name (listed below) or a file", 0 },
    { "ranks", 'n', "N", 0, "say for N ranks on this host which rail each would use, bound as `tutti run` binds them", 0 },
    { "json", OPT_JSON, NULL, 0, "as one JSON document", 0 },
    { "svg", OPT_SVG, "FILE", 0, "draw it", 0 },
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
    case 'n':
        o->nranks = (uint32_t)option_number(state, "--ranks", arg, 1, TOPO_RANKS_MAX);
        return 0;
    case ARGP_KEY_ARG: argp_error(state, "there is no \"tutti topo %s\"; `tutti topo place` orders ranks", arg); return 0;
    case ARGP_KEY_END:
        if (o->topo && o->nranks)
            argp_error(state, "--ranks is about this host, --topo about another machine: choose one");
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
    fprintf(f, "Built-in descriptions:\n");
    for (size_t i = 0; tt_topo_builtin(i, &name, &summary); i++)
        fprintf(f, "  %-16s %s\n", name, summary);
    fclose(f);
    return all;
}

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .args_doc = "\ntutti topo place [OPTION...]",
    .doc =
        "Shows where ranks are and what joins them: this host's sockets, NICs and GPUs, or a described machine. Started as a job's program "
        "(tutti run -n 4 -- tutti topo) it tells of each rank which rail it uses, and why. `tutti topo place --help` tells how ranks "
        "are ordered over hosts.\v",
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
    printf("%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(o);
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
            topo_machine_draw(&t, f);
            ok = close_svg(o->svg, f);
        }
    }
    tt_topo_fini(&t);
    return ok ? 0 : 1;
}

static int show_here(const struct options *o, const struct tt_topo *description)
{
    static struct topo_here here;
    const char *rank = getenv("TUTTI_RANK");
    FILE *f = NULL;
    bool ok = true;

    if (!topo_here_find(&here, description, o->nranks))
        return 1;
    if (here.in_job && rank && strcmp(rank, "0") != 0) {        /* rank 0 speaks for all */
        topo_here_free(&here);
        return 0;
    }
    if (o->json)
        print_json(topo_here_json(&here));
    else
        topo_here_print(&here);
    if (o->svg) {
        ok = open_svg(o->svg, &f);
        if (ok) {
            topo_here_draw(&here, f);
            ok = close_svg(o->svg, f);
        }
    }
    topo_here_free(&here);
    return ok ? 0 : 1;
}

int tool_topo_main(int argc, char **argv)
{
    static char place_name[] = "tutti topo place";
    struct options o = { .topo = NULL };
    const char *file = getenv("TUTTI_TOPO");
    struct tt_topo description;
    int rc;

    argp_err_exit_status = 2;
    if (argc > 1 && strcmp(argv[1], "place") == 0) {
        argv[1] = place_name;
        return topo_place_main(argc - 1, argv + 1);
    }
    if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
        return 2;
    if (o.topo)
        return show_machine(&o);
    if (!file || !*file)
        return show_here(&o, NULL);
    if (tt_topo_load(&description, file) != TUTTI_OK)
        return 1;
    rc = show_here(&o, &description);
    tt_topo_fini(&description);
    return rc;
}
