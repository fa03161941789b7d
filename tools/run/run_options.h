/* Options of `tutti run`. */
#ifndef TUTTI_TOOLS_RUN_OPTIONS_H
#define TUTTI_TOOLS_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tools/run/run_bind.h"

#define RUN_ENV_MAX 40

enum output_mode { OUTPUT_PREFIX, OUTPUT_PLAIN, OUTPUT_DIR };

struct run_options {
    uint32_t nranks, fanout;
    const char *hosts, *hostfile, *wires, *interfaces, *rsh, *output_dir;
    double timeout_s;           /* 0: not given */
    enum output_mode output;
    enum bind_mode bind;
    bool survive;
    char *env[RUN_ENV_MAX];     /* "NAME=value" */
    size_t nenv;
    char **argv;                /* the program and its arguments */
};

/* Parses the command line. Invalid options end the process with status 2 and an error message.
 * Strings point into argv, except env. Undone by run_options_fini. */
void run_options_parse(struct run_options *o, int argc, char **argv);
void run_options_fini(struct run_options *o);

#endif
