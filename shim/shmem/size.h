/* Parser of sizes such as the value of SHMEM_SYMMETRIC_SIZE. Pure. */
#ifndef TUTTI_SHIM_SHMEM_SIZE_H
#define TUTTI_SHIM_SHMEM_SIZE_H

#include <stdbool.h>
#include <stddef.h>

/* Parses "512", "64m" or "1.5G": a decimal number with an optional unit K, M, G or T (powers of
 * 1024, either case). *bytes is rounded down. Returns false, and leaves *bytes unchanged, if text
 * is invalid or the size is too large. */
bool sh_size_parse(const char *text, size_t *bytes);

#endif
