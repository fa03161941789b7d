/* The global variables of the program, as the loader placed them. */
#ifndef TUTTI_SHIM_SHMEM_GLOBALS_H
#define TUTTI_SHIM_SHMEM_GLOBALS_H

#include <stddef.h>
#include <stdint.h>

struct sh_globals {
    void *base;                 /* at a multiple of 8 */
    size_t bytes;               /* data and bss; 0: there is none */
    uint64_t program;           /* the same in processes that run the same program */
};

/* The writable segment of the executable, without what the loader makes read-only. Wherever it is loaded, the offsets in it are those of the file. */
void sh_globals_find(struct sh_globals *out);

#endif
