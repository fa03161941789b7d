/* Which cores a rank may use. */
#ifndef TUTTI_TOOLS_RUN_BIND_H
#define TUTTI_TOOLS_RUN_BIND_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

enum bind_mode {
    BIND_SHARE,         /* an equal number of whole cores for each rank of a host, or, if ranks outnumber cores, of ranks for each core, in turn; none where
                           that does not come out even */
    BIND_CORE,          /* one core each; none when ranks outnumber cores */
    BIND_NONE
};

/* Fills *out for rank `local` of `nlocal` on this host; false if it is not to be bound. Respects the cores that this process
 * itself may use. Hardware threads of one core stay together. */
bool bind_mask(enum bind_mode mode, uint32_t local, uint32_t nlocal, cpu_set_t *out);

#endif
