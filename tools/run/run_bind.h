/* CPU binding of ranks. */
#ifndef TUTTI_TOOLS_RUN_BIND_H
#define TUTTI_TOOLS_RUN_BIND_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

enum bind_mode {
    BIND_SHARE,         /* an equal number of whole cores per rank of a host; with more ranks
                           than cores, an equal number of ranks per core. No binding if the
                           division leaves a remainder */
    BIND_CORE,          /* one core per rank; no binding with more ranks than cores */
    BIND_NONE
};

/* Computes the CPU set of rank `local` of `nlocal` on this host. Returns false if the rank is not
 * bound. Uses only cores that this process may use. Hardware threads of a core stay together. */
bool bind_mask(enum bind_mode mode, uint32_t local, uint32_t nlocal, cpu_set_t *out);

#endif
