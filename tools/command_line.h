/* Reads the command line of a subcommand by a table with one row per option. argp reads the options
 * and prints the help text. An invalid value ends the process with an error message (status 2).
 *
 *     static const struct option_row option_rows[] = {
 *         { "ranks", 'n', "N", 0, OPTION_INTEGER(struct options, nranks, 1, 64),
 *           "number of ranks" },
 *         { "json", 0, NULL, 0, OPTION_FLAG(struct options, json), "print one JSON document" },
 *         { 0 },
 *     };
 *     static const struct command_line command = {
 *         .rows = option_rows, .doc = "Does this.\vDetails."
 *     };
 *
 *     command_line_read(&command, &o, argc, argv);
 */
#ifndef TUTTI_TOOLS_COMMAND_LINE_H
#define TUTTI_TOOLS_COMMAND_LINE_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTION_ROWS_MAX 64u

/* Reads a value or an argument into the options. `arg` is NULL for options without a value. */
typedef void option_take_fn(void *options, struct argp_state *state, char *arg);

enum option_kind {
    OPTION_KIND_NONE,       /* a heading, or another name of the row above */
    OPTION_KIND_FLAG,
    OPTION_KIND_CLEAR,
    OPTION_KIND_VALUE,
    OPTION_KIND_TEXT,
    OPTION_KIND_WIRES,
    OPTION_KIND_INTEGER,
    OPTION_KIND_SIZE,
    OPTION_KIND_REAL,
    OPTION_KIND_CALL
};

/* What an option sets. Use the macros below. */
struct option_set {
    enum option_kind kind;
    size_t at, bytes;               /* offset and size of the member */
    unsigned long long min, max;    /* of integers and sizes */
    double real_min, real_max;
    option_take_fn *take;
    bool is_optional;               /* whether the option may have no value */
};

/* Offset of a member. Does not compile if the member has another type. */
#define OPTION_AT(type, member, member_type) \
    (offsetof(type, member) + 0 * sizeof(char[_Generic(((type *)0)->member, member_type : 1)]))
#define OPTION_INTEGER_BYTES(type, member) \
    _Generic(((type *)0)->member, uint32_t : 4, uint64_t : 8, int64_t : 8)
#define OPTION_SET_REAL(k, type, member, low, high) \
    { .kind = (k), .at = OPTION_AT(type, member, double), .real_min = (low), .real_max = (high) }
#define OPTION_SET_INTEGER(k, type, member, low, high) \
    {                                                                                           \
        .kind = (k), .at = offsetof(type, member), .bytes = OPTION_INTEGER_BYTES(type, member), \
        .min = (low), .max = (high)                                                             \
    }

/* Sets a bool to true, or to false. */
#define OPTION_FLAG(type, member) \
    { .kind = OPTION_KIND_FLAG, .at = OPTION_AT(type, member, bool) }
#define OPTION_CLEAR(type, member) \
    { .kind = OPTION_KIND_CLEAR, .at = OPTION_AT(type, member, bool) }
/* Sets an enum (or another integer of 4 bytes) to `value`. */
#define OPTION_VALUE(type, member, value) \
    {                                                                            \
        .kind = OPTION_KIND_VALUE, .at = offsetof(type, member), .min = (value), \
        .bytes = sizeof(char[sizeof(((type *)0)->member) == 4 ? 4 : -1])         \
    }
/* Sets a const char *, which points into argv. */
#define OPTION_TEXT(type, member) \
    { .kind = OPTION_KIND_TEXT, .at = OPTION_AT(type, member, const char *) }
/* As OPTION_TEXT, for a comma-separated list of transports, which must exist. */
#define OPTION_WIRES(type, member) \
    { .kind = OPTION_KIND_WIRES, .at = OPTION_AT(type, member, const char *) }
/* Sets an integer member to a value from low to high. */
#define OPTION_INTEGER(type, member, low, high) \
    OPTION_SET_INTEGER(OPTION_KIND_INTEGER, type, member, low, high)
/* Sets an integer member to a size in bytes, at least `low`: "4096", "4K", "16M", "1G". */
#define OPTION_SIZE(type, member, low) \
    OPTION_SET_INTEGER(OPTION_KIND_SIZE, type, member, low, OPTION_SIZE_MAX)
/* Sets a double to a value from low to high. */
#define OPTION_REAL(type, member, low, high) \
    OPTION_SET_REAL(OPTION_KIND_REAL, type, member, low, high)
/* Calls `function`, an option_take_fn. */
#define OPTION_CALL(function) { .kind = OPTION_KIND_CALL, .take = (function) }
/* The same, with an optional value ("--name" or "--name=VALUE"). */
#define OPTION_CALL_OPTIONAL(function) \
    { .kind = OPTION_KIND_CALL, .take = (function), .is_optional = true }

struct option_row {
    const char *name;           /* long name; NULL with a help text: a heading */
    int letter;                 /* short name; 0: none */
    const char *value;          /* name of the value in the help text; NULL: no value */
    int group;                  /* position in the help text */
    struct option_set set;      /* { 0 }: another name of the option above */
    const char *help;           /* NULL: not in the help text */
};

struct command_line {
    const struct option_row *rows;      /* at most OPTION_ROWS_MAX, and an empty one at the end */
    const char *args_doc, *doc;         /* as in struct argp */
    option_take_fn *argument;           /* reads an argument; NULL: there are none */
    /* Checks combinations, after all options and arguments. May be NULL. */
    void (*check)(void *options, struct argp_state *state);
    /* Rows shared with other commands, or NULL; they set the structure at `common_at`. */
    const struct command_line *common;
    size_t common_at;
    char *(*help_filter)(int key, const char *text, void *unused);   /* as in struct argp */
    unsigned argp_flags;                /* of argp_parse */
};

/* Reads argv[1..argc-1] into *options, which must have the default values. Ends the process with an
 * error message if memory is exhausted. */
void command_line_read(const struct command_line *c, void *options, int argc, char **argv);

/* For `argument`: consumes this argument and all further ones. Sets *list to the first in argv, and
 * returns their number. */
uint32_t command_line_rest(struct argp_state *state, char *arg, char ***list);

#endif
