/* Sizes as SHMEM_SYMMETRIC_SIZE says them. Pure. */
#ifndef TUTTI_SHIM_SHMEM_SIZE_H
#define TUTTI_SHIM_SHMEM_SIZE_H

#include <stdbool.h>
#include <stddef.h>

/* "512", "64m", "1.5G": a number, perhaps with a fraction, and perhaps one of K, M, G and T (of 1024) in either case. *bytes is rounded down. False, and *bytes
 * untouched: it is none, or more than a size_t holds. */
bool sh_size_parse(const char *text, size_t *bytes);

#endif
