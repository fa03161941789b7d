/* Which pieces of [0, bytes) are taken: first fit, by offset. Pure but for its own records. */
#ifndef TUTTI_SHIM_SHMEM_PIECES_H
#define TUTTI_SHIM_SHMEM_PIECES_H

#include <stdbool.h>
#include <stddef.h>

#define SH_PIECES_NONE ((size_t)-1)

struct sh_piece;
struct sh_pieces {
    struct sh_piece *first;     /* taken ones, by offset */
    size_t bytes;
};

void sh_pieces_init(struct sh_pieces *p, size_t bytes);
void sh_pieces_fini(struct sh_pieces *p);
/* The offset of `bytes` (at least 1) that are free, at a multiple of `alignment` (a power of two), and now taken. SH_PIECES_NONE: there are none, or there is no memory
 * for the record. */
size_t sh_pieces_take(struct sh_pieces *p, size_t bytes, size_t alignment);
/* How many bytes are free: *largest of them (not NULL) are in one piece. */
size_t sh_pieces_free(const struct sh_pieces *p, size_t *largest);
/* How large the piece that begins at the offset is; 0: none does. */
size_t sh_pieces_bytes(const struct sh_pieces *p, size_t offset);
/* Gives it back. False: no piece begins there. */
bool sh_pieces_give(struct sh_pieces *p, size_t offset);
/* Makes it that large where it is. False, and it is as before: there is no room, or no such piece. */
bool sh_pieces_resize(struct sh_pieces *p, size_t offset, size_t bytes);

#endif
