/* The symmetric heap's book-keeping, which is the same on all PEs as all make the same calls. It is not kept in the heap: no put can spoil it. */
#ifndef TUTTI_SHIM_SHMEM_HEAP_H
#define TUTTI_SHIM_SHMEM_HEAP_H

#include <stddef.h>

/* The heap has `bytes` and begins with SH_HEAD_BYTES that are not allocated. On each PE it begins at a multiple of `alignment`, a
 * power of two. */
void sh_heap_init(size_t bytes, size_t alignment);
void sh_heap_fini(void);

#endif
