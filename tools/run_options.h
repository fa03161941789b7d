/* What `tutti run` was asked for. */
#ifndef TUTTI_TOOLS_RUN_OPTIONS_H
#define TUTTI_TOOLS_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "run_bind.h"

#define RUN_ENV_MAX 40

enum output_mode { OUTPUT_PREFIX, OUTPUT_PLAIN, OUTPUT_DIR };

struct run_options {
    uint32_t nranks;
    const char *hosts, *hostfile, *wires, *interfaces, *rsh, *output_dir;
    double timeout_s;           /* 0: not said */
    enum output_mode output;
    enum bind_mode bind;
    bool survive;
    char *env[RUN_ENV_MAX];     /* "NAME=value" */
    size_t nenv;
    char **argv;                /* the program and its arguments */
};

/* Reads the command line; a mistake is told, and ends the process with status 2. False: it could not be read at all. Strings point into
 * argv, but for env; ends with run_options_fini. */
bool run_options_parse(struct run_options *o, int argc, char **argv);
void run_options_fini(struct run_options *o);

#endif
