/* tutti plan draw: draws a plan as a picture, or as an HTML page with details of the element under
 * the pointer. */
#include "tools/plan/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "tools/plan/plan_svg.h"

#define RANKS_MAX 128u
#define ARROWS_MAX 20000u

struct draw_options {
    struct plan_options plan;
    const char *out;
    uint32_t first, end;        /* rounds; end 0: all */
    bool html;
};

static void take_rounds(void *options, struct argp_state *state, char *arg)
{
    struct draw_options *o = options;
    unsigned first, last;
    int used = 0;

    if (sscanf(arg, "%9u-%9u%n", &first, &last, &used) != 2 || arg[used] || first > last)
        argp_error(state, "--rounds %s: must be two round numbers, e.g. 0-7", arg);
    o->first = first;
    o->end = last + 1;
}

/* The extension selects the format. Unknown extensions are rejected. */
static void check_output(void *options, struct argp_state *state)
{
    struct draw_options *o = options;
    const char *slash = o->out ? strrchr(o->out, '/') : NULL, *name = slash ? slash + 1 : o->out;
    const char *ending = name ? strrchr(name, '.') : NULL;

    if (!ending)
        return;
    if (strcmp(ending, ".html") == 0)
        o->html = true;
    else if (strcmp(ending, ".svg") != 0)
        argp_error(state, "-o %s: unknown file type %s (use .svg or .html)", o->out, ending);
    else if (o->html)
        argp_error(state, "-o %s: --html needs a .html file", o->out);
}

static const struct option_row option_rows[] = {
    { "output", 'o', "FILE", 3, OPTION_TEXT(struct draw_options, out),
      "output file: .svg, or .html for an HTML page (default: standard output)" },
    { "html", 0, NULL, 3, OPTION_FLAG(struct draw_options, html),
      "write an HTML page, which also shows details of the arrow or rank under the pointer" },
    { "rounds", 0, "FIRST-LAST", 3, OPTION_CALL(take_rounds), "draw only these rounds" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .check = check_output,
    .args_doc = PLAN_ARGS_DOC,
    .common = &plan_command_line,
    .common_at = offsetof(struct draw_options, plan),
    .doc = "Draws a plan as SVG or HTML.\vRanks are rows, ordered by host and socket; rounds are "
           "columns. Each transfer is an arrow, coloured by its link.\n\n"
           "Exit status: 0 on success, 1 on failure, 2 on a usage error.\n\n"
           "Examples:\n"
           "  tutti plan draw allreduce ring -n 8 -o ring.svg\n",
};

/* Writes a page that highlights the element under the pointer and describes it below the
 * picture. */
static void write_page(FILE *to, const struct plan *p, const struct tt_program *program,
                       const struct tt_traffic *t, uint32_t first, uint32_t end)
{
    fprintf(to,
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>%s</title>\n",
            p->algo->name);
    fputs("<style>\nbody{font-family:sans-serif;margin:16px}\n.r{cursor:pointer}\n"
          "svg.some .t[data-from]{opacity:.1}\nsvg.some .t.on{opacity:1}\n"
          "#details{position:sticky;bottom:0;background:#fff;border-top:1px solid "
          "#ccc;min-height:1.4em;padding:8px 0}\n</style>\n",
          to);
    plan_svg(to, p, program, t, first, end);
    fputs("<p id=\"details\">Move the pointer to an arrow or to a rank number for "
          "details.</p>\n<script>\n"
          "const svg = document.querySelector('svg');\n"
          "const details = document.getElementById('details');\n"
          "const arrows = [...svg.querySelectorAll('.t[data-from]')];\n"
          "function show(on, text) {\n"
          "  svg.classList.toggle('some', on.length > 0);\n"
          "  arrows.forEach(a => a.classList.toggle('on', on.includes(a)));\n"
          "  details.textContent = text;\n"
          "}\n"
          "arrows.forEach(a => {\n"
          "  a.addEventListener('mouseenter', () => show([a], "
          "a.querySelector('title').textContent));\n"
          "  a.addEventListener('mouseleave', () => show([], ''));\n"
          "});\n"
          "svg.querySelectorAll('.r').forEach(label => {\n"
          "  const rank = label.dataset.rank;\n"
          "  const out = arrows.filter(a => a.dataset.from === rank), into = arrows.filter(a => "
          "a.dataset.to === rank);\n"
          "  label.addEventListener('mouseenter', () => show([...out, ...into],\n"
          "    `rank ${rank}: sends ${out.length} messages, receives ${into.length}`));\n"
          "  label.addEventListener('mouseleave', () => show([], ''));\n"
          "});\n</script>\n</html>\n",
          to);
}

static int failed(const char *what, const char *name)
{
    fprintf(stderr, "tutti plan: cannot %s %s: %s\n", what, name, strerror(errno));
    return 1;
}

/* Returns the exit status. */
static int write_picture(const void *arg, const struct plan *p, const struct tt_program *program,
                         const struct tt_traffic *t)
{
    const struct draw_options *o = arg;
    const uint32_t end = o->end && o->end < t->nrounds ? o->end : t->nrounds;
    FILE *to = stdout;
    uint32_t arrows = 0;

    if (o->first >= end) {
        fprintf(stderr, "tutti plan: invalid round: %u (the plan has %u rounds, numbered from 0)\n",
                o->first, t->nrounds);
        return 1;
    }
    for (uint32_t i = 0; i < t->ntransfers; i++)
        arrows += t->transfer[i].round >= o->first && t->transfer[i].round < end;
    if (arrows > ARROWS_MAX) {
        fprintf(stderr,
                "tutti plan: too many arrows: %u (the maximum is %u; draw fewer of the %u rounds "
                "with --rounds)\n",
                arrows, ARROWS_MAX, t->nrounds);
        return 1;
    }
    if (o->out && !(to = fopen(o->out, "w")))
        return failed("write", o->out);
    (o->html ? write_page : plan_svg)(to, p, program, t, o->first, end);
    if (!o->out)        /* main.c checks standard output */
        return 0;
    if (fflush(to) || ferror(to))
        return failed("write", o->out);
    return fclose(to) ? failed("write", o->out) : 0;
}

int plan_draw_main(int argc, char **argv)
{
    struct draw_options o = { .out = NULL };

    command_line_read(&command, &o, argc, argv);
    return plan_with_traffic(&o.plan, RANKS_MAX, write_picture, &o);
}
