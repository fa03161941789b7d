/* Options common to `tutti perf putsignal` and `tutti sim putsignal`. */
#ifndef TUTTI_TOOLS_PUTSIGNAL_OPTIONS_H
#define TUTTI_TOOLS_PUTSIGNAL_OPTIONS_H

#include "tools/command_line.h"
#include "tools/perf/putsignal_print.h"
#include "sim/putsignal.h"

#define PUTSIGNAL_TRANSFERS_MAX 1024u
#define PUTSIGNAL_BYTES_MAX (1ull << 30)

struct putsignal_options {
    uint64_t transfers[PUTSIGNAL_LIST_MAX], bytes[PUTSIGNAL_LIST_MAX];
    uint32_t ntransfers, nbytes;
    bool modes[TT_PUTSIGNAL_MODES];     /* selected modes */
    uint32_t nsources;                  /* 0: all ranks */
    uint32_t group;                     /* transfers per group; 0: all transfers to one rank */
    bool json;
};

/* The common rows, which set a struct putsignal_options. */
extern const struct command_line putsignal_command_line;

/* Returns the default values. */
struct putsignal_options putsignal_defaults(void);

#endif
