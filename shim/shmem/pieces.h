/* First-fit allocator of pieces of the range [0, bytes). Only its metadata is in memory. */
#ifndef TUTTI_SHIM_SHMEM_PIECES_H
#define TUTTI_SHIM_SHMEM_PIECES_H

#include <stdbool.h>
#include <stddef.h>

#define SH_PIECES_NONE ((size_t)-1)

struct sh_piece;
struct sh_pieces {
    struct sh_piece *first;     /* list of allocated pieces, sorted by offset */
    size_t bytes;
};

void sh_pieces_init(struct sh_pieces *p, size_t bytes);
void sh_pieces_fini(struct sh_pieces *p);
/* Allocates `bytes` (at least 1) at a multiple of `alignment` (a power of two) and returns the
 * offset. SH_PIECES_NONE: no free piece is large enough, or out of memory for the metadata. */
size_t sh_pieces_take(struct sh_pieces *p, size_t bytes, size_t alignment);
/* Returns the number of free bytes. *largest (not NULL) receives the size of the largest free
 * piece. */
size_t sh_pieces_free(const struct sh_pieces *p, size_t *largest);
/* Returns the size of the allocated piece at `offset`; 0 if no piece begins there. */
size_t sh_pieces_bytes(const struct sh_pieces *p, size_t offset);
/* Frees the piece at `offset`. Returns false if no piece begins there. */
bool sh_pieces_give(struct sh_pieces *p, size_t offset);
/* Resizes the piece at `offset` in place. Returns false, without any effect, if the space behind it
 * is too small or no piece begins there. */
bool sh_pieces_resize(struct sh_pieces *p, size_t offset, size_t bytes);

#endif
