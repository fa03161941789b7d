/* The global variables of the program in memory. */
#ifndef TUTTI_SHIM_SHMEM_GLOBALS_H
#define TUTTI_SHIM_SHMEM_GLOBALS_H

#include <stddef.h>
#include <stdint.h>

struct sh_globals {
    void *base;                 /* 8-byte aligned */
    size_t bytes;               /* of data and bss; 0: the program has neither */
    uint64_t program;           /* hash of the segment layout: equal if the program is the same */
};

/* Finds the writable segment of the executable, without the part that the loader makes read-only
 * (RELRO). Offsets in it do not depend on the load address. */
void sh_globals_find(struct sh_globals *out);

#endif
