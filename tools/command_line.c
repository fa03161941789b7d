#include "tools/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "tools/option_values.h"

#define KEY_BASE 256    /* keys of options without a letter: KEY_BASE + row */

/* The state of argp's parser for one table. */
struct reading {
    const struct command_line *command;
    void *options;
    struct reading *common;     /* NULL: none */
};

static const struct option_row *find_row(const struct command_line *c, int key)
{
    if (key >= KEY_BASE)
        return &c->rows[key - KEY_BASE];
    for (const struct option_row *row = c->rows; row->name || row->help; row++)
        if (row->letter && row->letter == key)
            return row;
    return NULL;
}

static void store_integer(void *to, size_t bytes, unsigned long long v)
{
    if (bytes == sizeof(uint32_t))
        *(uint32_t *)to = (uint32_t)v;
    else
        *(uint64_t *)to = v;
}

static unsigned long long read_size(struct argp_state *state, const char *option, const char *arg,
                                    unsigned long long min)
{
    return min ? option_size(state, option, arg) : option_size_or_none(state, option, arg);
}

static void read_value(const struct option_row *row, void *options, struct argp_state *state,
                       char *arg)
{
    const struct option_set *set = &row->set;
    void *to = (char *)options + set->at;
    char option[64];

    snprintf(option, sizeof option, "--%s", row->name);
    switch (set->kind) {
    case OPTION_KIND_NONE:
        break;
    case OPTION_KIND_FLAG:
    case OPTION_KIND_CLEAR:
        *(bool *)to = set->kind == OPTION_KIND_FLAG;
        break;
    case OPTION_KIND_VALUE:
        store_integer(to, set->bytes, set->min);
        break;
    case OPTION_KIND_WIRES:
        option_check_wires_of(state, option, arg);
        *(const char **)to = arg;
        break;
    case OPTION_KIND_TEXT:
        *(const char **)to = arg;
        break;
    case OPTION_KIND_INTEGER:
        store_integer(to, set->bytes, option_number(state, option, arg, set->min, set->max));
        break;
    case OPTION_KIND_SIZE:
        store_integer(to, set->bytes, read_size(state, option, arg, set->min));
        break;
    case OPTION_KIND_REAL:
        *(double *)to = option_real(state, option, arg, set->real_min, set->real_max);
        break;
    case OPTION_KIND_CALL:
        set->take(options, state, arg);
        break;
    }
}

static error_t read_argument(const struct reading *r, struct argp_state *state, char *arg)
{
    if (r->command->argument) {
        r->command->argument(r->options, state, arg);
        return 0;
    }
    if (!r->common || !r->common->command->argument)
        argp_error(state, "unexpected argument \"%s\"", arg);
    return ARGP_ERR_UNKNOWN;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    const struct reading *r = state->input;
    const struct option_row *row;

    switch (key) {
    case ARGP_KEY_INIT:
        if (r->common)
            state->child_inputs[0] = r->common;
        return 0;
    case ARGP_KEY_ARG:
        return read_argument(r, state, arg);
    case ARGP_KEY_END:
        if (r->command->check)
            r->command->check(r->options, state);
        return 0;
    case ARGP_KEY_ARGS: case ARGP_KEY_NO_ARGS: case ARGP_KEY_SUCCESS: case ARGP_KEY_ERROR:
    case ARGP_KEY_FINI:
        return ARGP_ERR_UNKNOWN;
    default:
        row = find_row(r->command, key);
        if (!row)
            return ARGP_ERR_UNKNOWN;
        read_value(row, r->options, state, arg);
        return 0;
    }
}

static struct argp_option argp_option_of(const struct option_row *row, int key)
{
    const bool is_alias = row->name && row->set.kind == OPTION_KIND_NONE;

    return (struct argp_option){
        .name = row->name,
        .key = row->letter ? row->letter : row->name && !is_alias ? key : 0,
        .arg = row->value,
        .flags = (is_alias ? OPTION_ALIAS : 0) | (row->help ? 0 : OPTION_HIDDEN) |
                 (row->set.is_optional ? OPTION_ARG_OPTIONAL : 0),
        .doc = row->help,
        .group = row->group,
    };
}

/* Fills argp's table, out[OPTION_ROWS_MAX + 1]. */
static void list_options(const struct command_line *c, struct argp_option *out)
{
    int n = 0;

    memset(out, 0, (OPTION_ROWS_MAX + 1) * sizeof *out);
    for (const struct option_row *row = c->rows; row->name || row->help; row++, n++) {
        tt_assert(n < (int)OPTION_ROWS_MAX);
        out[n] = argp_option_of(row, KEY_BASE + n);
    }
}

void command_line_read(const struct command_line *c, void *options, int argc, char **argv)
{
    struct argp_option rows[OPTION_ROWS_MAX + 1], common_rows[OPTION_ROWS_MAX + 1];
    struct reading common = { c->common, (char *)options + c->common_at, NULL };
    struct reading r = { c, options, c->common ? &common : NULL };
    const struct argp common_argp = { .options = common_rows, .parser = parse_one };
    const struct argp_child children[] = { { &common_argp, 0, NULL, 0 }, { 0 } };
    const struct argp argp = {
        .options = rows,
        .parser = parse_one,
        .args_doc = c->args_doc,
        .doc = c->doc,
        .children = c->common ? children : NULL,
        .help_filter = c->help_filter,
    };
    error_t error;

    list_options(c, rows);
    if (c->common)
        list_options(c->common, common_rows);
    error = argp_parse(&argp, argc, argv, c->argp_flags, NULL, &r);
    if (!error)
        return;
    fprintf(stderr, "%s: cannot read the command line: %s\n", argv[0], strerror(error));
    exit(EXIT_FAILURE);
}

uint32_t command_line_rest(struct argp_state *state, char *arg, char ***list)
{
    const int first = state->next - 1;

    tt_assert(state->argv[first] == arg);
    *list = &state->argv[first];
    state->next = state->argc;
    return (uint32_t)(state->argc - first);
}
