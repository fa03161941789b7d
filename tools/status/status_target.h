/* The job that a command queries: options common to `tutti status` and `tutti top`. */
#ifndef TUTTI_TOOLS_STATUS_TARGET_H
#define TUTTI_TOOLS_STATUS_TARGET_H

#include "tools/command_line.h"

struct status_target {
    const char *what;           /* first digits of a job ID, path, or
                                   tcp://host:port; NULL: the only job */
    uint32_t timeout_ms;        /* of a query */
};

extern const struct command_line status_target_command_line;

#endif
