/* The symmetric heap's book-keeping, which is the same on all PEs as all make the same calls. It is not kept in the heap: no put can spoil it. */
#ifndef TUTTI_SHIM_SHMEM_HEAP_H
#define TUTTI_SHIM_SHMEM_HEAP_H

#include <stddef.h>

/* Offsets from SH_HEAD_BYTES to `bytes` are free. */
void sh_heap_init(size_t bytes);
void sh_heap_fini(void);

#endif
