#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE                                                                                   \
    "usage: moe [options], as the program of a job: tutti run -n 4 -- moe\n"                    \
    "  --shape NAME     qwen3-30b (default), deepseek-v3 or gpt-oss-120b\n"                     \
    "  --scale N        divisor of the shape's hidden and intermediate sizes (default 8 for qwen3-30b, else 16)\n" \
    "  --tokens N       tokens per rank (default 64)\n"                                         \
    "  --skew S         exponent of the Zipf distribution of experts, 0 to 4 (default: balanced, equal tokens per expert)\n" \
    "  --there TYPE     encoding of dispatched tokens: f32, bf16 or fp8 (default bf16)\n"       \
    "  --back TYPE      encoding of returned results (default bf16)\n"                          \
    "  --tile N         tokens per tile (default 16)\n"                                         \
    "  --group N        experts per group of tiles; a group has one fence per rank, after its last put (default: experts of a rank)\n" \
    "  --processors N   computing blocks; 0 (default): the scheduling block also computes\n"    \
    "  --forms LIST     collective, padded, coupled, decoupled, ordered, full (default: all)\n" \
    "  --proxied        also send tiles to ranks of the same host through the proxy\n"          \
    "  --wrong          first run each form with an invalid routing on the last rank, which all ranks must report\n" \
    "  --rounds N       measured rounds of each form (default 3)\n"                             \
    "  --seed N         seed of weights, tokens and routes (default 1)\n"                       \
    "  --json           print one line of JSON, with the times of all rounds\n"                 \
    "  --help           print this text\n"

#define NUMBER_MAX 65536
#define PROCESSORS_MAX 64
#define TILE_MAX 4096
#define GROUP_MAX 65535
#define SEED_MAX 1000000000

const char *const options_forms[FORMS] = { "collective", "padded",    "full",
                                           "coupled",    "decoupled", "ordered" };

const struct options options_default = {
    .shape = "qwen3-30b",
    .tokens = 64,
    .tile = 16,
    .rounds = 3,
    .seed = 1,
    .skew = -1,
    .there = TUTTI_BF16,
    .back = TUTTI_BF16,
    .forms = (1u << FORMS) - 1,
};

/* The parsers print an error message and return false if the value of an option is invalid. */

static bool take_number(const char *name, const char *text, long min, long max, long *out)
{
    char *end;

    *out = strtol(text, &end, 10);
    if (*text && !*end && *out >= min && *out <= max)
        return true;
    fprintf(stderr, "moe: --%s %s: must be a whole number from %ld to %ld\n", name, text, min, max);
    return false;
}

static bool take_real(const char *name, const char *text, double max, double *out)
{
    char *end;

    *out = strtod(text, &end);
    if (*text && !*end && *out >= 0 && *out <= max)
        return true;
    fprintf(stderr, "moe: --%s %s: must be a number from 0 to %g\n", name, text, max);
    return false;
}

static bool take_type(const char *name, const char *text, tutti_dtype *out)
{
    *out = strcmp(text, "f32") == 0    ? TUTTI_F32
           : strcmp(text, "bf16") == 0 ? TUTTI_BF16
                                       : TUTTI_F8E4M3;
    if (*out != TUTTI_F8E4M3 || strcmp(text, "fp8") == 0)
        return true;
    fprintf(stderr, "moe: --%s %s: must be f32, bf16 or fp8\n", name, text);
    return false;
}

static bool take_forms(const char *name, const char *text, uint32_t *out)
{
    *out = 0;
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t n = strcspn(at, ",");
        int form = 0;

        while (form < FORMS &&
               (strlen(options_forms[form]) != n || strncmp(options_forms[form], at, n) != 0))
            form++;
        if (form == FORMS) {
            fprintf(stderr,
                    "moe: --%s %s: unknown form \"%.*s\" (expected collective, padded, coupled, "
                    "decoupled, ordered or full)\n",
                    name, text, (int)n, at);
            return false;
        }
        *out |= 1u << form;
    }
    return true;
}

static bool take_option(const struct option *option, const char *arg, struct options *o)
{
    const char *name = option->name;

    switch (option->val) {
    case 's':
        o->shape = arg;
        return true;
    case 'c':
        return take_number(name, arg, 1, NUMBER_MAX, &o->scale);
    case 't':
        return take_number(name, arg, 1, NUMBER_MAX, &o->tokens);
    case 'z':
        return take_real(name, arg, 4, &o->skew);
    case 'e':
        return take_type(name, arg, &o->there);
    case 'b':
        return take_type(name, arg, &o->back);
    case 'i':
        return take_number(name, arg, 1, TILE_MAX, &o->tile);
    case 'g':
        return take_number(name, arg, 1, GROUP_MAX, &o->group);
    case 'p':
        return take_number(name, arg, 0, PROCESSORS_MAX, &o->processors);
    case 'f':
        return take_forms(name, arg, &o->forms);
    case 'x':
        o->proxied = true;
        return true;
    case 'w':
        o->wrong = true;
        return true;
    case 'j':
        o->json = true;
        return true;
    case 'r':
        return take_number(name, arg, 1, ROUNDS_MAX, &o->rounds);
    default:
        return take_number(name, arg, 0, SEED_MAX, &o->seed);
    }
}

/* Finds the shape with that name and scales it. Returns false, after an error message, if the name
 * or the scale is invalid. */
static bool make_shape(const struct options *o, struct shape *out)
{
    const struct shape *s = shapes;

    while (s->name && strcmp(s->name, o->shape) != 0)
        s++;
    if (!s->name) {
        fprintf(stderr, "moe: --shape %s: must be", o->shape);
        for (s = shapes; s->name; s++)
            fprintf(stderr, "%s %s", s == shapes ? "" : s[1].name ? "," : " or", s->name);
        fprintf(stderr, "\n");
        return false;
    }
    *out = *s;
    out->scale = o->scale ? (uint32_t)o->scale : s->scale;
    out->hidden = s->hidden / out->scale;
    out->inner = s->inner / out->scale;
    if (out->hidden && out->inner)
        return true;
    fprintf(stderr, "moe: --scale %ld: the maximum is %u, the smaller width of %s\n", o->scale,
            s->hidden < s->inner ? s->hidden : s->inner, s->name);
    return false;
}

bool options_take(int argc, char **argv, struct options *o, struct shape *shape, int *status)
{
    static const struct option known[] = {
        { "shape", required_argument, NULL, 's' },      { "scale", required_argument, NULL, 'c' },
        { "tokens", required_argument, NULL, 't' },     { "skew", required_argument, NULL, 'z' },
        { "there", required_argument, NULL, 'e' },      { "back", required_argument, NULL, 'b' },
        { "tile", required_argument, NULL, 'i' },       { "group", required_argument, NULL, 'g' },
        { "processors", required_argument, NULL, 'p' },
        { "forms", required_argument, NULL, 'f' },      { "proxied", no_argument, NULL, 'x' },
        { "rounds", required_argument, NULL, 'r' },     { "seed", required_argument, NULL, 'd' },
        { "wrong", no_argument, NULL, 'w' },            { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },             { 0 },
    };
    int c, which = 0;

    *status = 2;
    while ((c = getopt_long(argc, argv, "", known, &which)) != -1) {
        if (c == 'h' || c == '?') {
            *status = c == 'h' ? 0 : 2;
            fputs(USAGE, c == 'h' ? stdout : stderr);
            return false;
        }
        if (!take_option(&known[which], optarg, o))
            return false;
    }
    if (optind < argc) {
        fprintf(stderr, "moe: unexpected argument \"%s\" (see moe --help)\n", argv[optind]);
        return false;
    }
    return make_shape(o, shape);
}
