#include "pieces.h"

#include <stdlib.h>

struct sh_piece {
    struct sh_piece *next;
    size_t offset, bytes;
};

void sh_pieces_init(struct sh_pieces *p, size_t bytes)
{
    *p = (struct sh_pieces){ .bytes = bytes };
}

void sh_pieces_fini(struct sh_pieces *p)
{
    while (p->first) {
        struct sh_piece *gone = p->first;

        p->first = gone->next;
        free(gone);
    }
}

size_t sh_pieces_take(struct sh_pieces *p, size_t bytes, size_t alignment)
{
    struct sh_piece **at = &p->first, *made;
    size_t offset = 0;

    for (;; at = &(*at)->next) {
        const size_t end = *at ? (*at)->offset : p->bytes;

        if (offset <= end && bytes <= end - offset)
            break;
        if (!*at)
            return SH_PIECES_NONE;
        offset = ((*at)->offset + (*at)->bytes + alignment - 1) & ~(alignment - 1);
    }
    made = malloc(sizeof *made);
    if (!made)
        return SH_PIECES_NONE;
    *made = (struct sh_piece){ .next = *at, .offset = offset, .bytes = bytes };
    *at = made;
    return offset;
}

/* Returns the link to the piece at `offset`, or to NULL if no piece begins there. */
static struct sh_piece **link_to(struct sh_pieces *p, size_t offset)
{
    struct sh_piece **at = &p->first;

    while (*at && (*at)->offset != offset)
        at = &(*at)->next;
    return at;
}

size_t sh_pieces_bytes(const struct sh_pieces *p, size_t offset)
{
    const struct sh_piece *piece = p->first;

    while (piece && piece->offset != offset)
        piece = piece->next;
    return piece ? piece->bytes : 0;
}

size_t sh_pieces_free(const struct sh_pieces *p, size_t *largest)
{
    size_t at = 0, all = 0;

    *largest = 0;
    for (const struct sh_piece *piece = p->first;; piece = piece->next) {
        const size_t gap = (piece ? piece->offset : p->bytes) - at;

        all += gap;
        *largest = gap > *largest ? gap : *largest;
        if (!piece)
            return all;
        at = piece->offset + piece->bytes;
    }
}

bool sh_pieces_give(struct sh_pieces *p, size_t offset)
{
    struct sh_piece **at = link_to(p, offset), *gone = *at;

    if (!gone)
        return false;
    *at = gone->next;
    free(gone);
    return true;
}

bool sh_pieces_resize(struct sh_pieces *p, size_t offset, size_t bytes)
{
    struct sh_piece *piece = *link_to(p, offset);

    if (!piece || bytes > (piece->next ? piece->next->offset : p->bytes) - offset)
        return false;
    piece->bytes = bytes;
    return true;
}
