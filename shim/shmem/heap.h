/* Metadata of the symmetric heap. It is identical on all PEs, because all PEs make the same calls,
 * and is stored outside the heap, so that no put can corrupt it. */
#ifndef TUTTI_SHIM_SHMEM_HEAP_H
#define TUTTI_SHIM_SHMEM_HEAP_H

#include <stddef.h>

/* Initializes the metadata of a heap of `bytes`; its first SH_HEAD_BYTES are never allocated. The
 * heap of each PE is aligned to `alignment`, a power of two. */
void sh_heap_init(size_t bytes, size_t alignment);
void sh_heap_fini(void);

#endif
