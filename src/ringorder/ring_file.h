/* A matrix between peers, read from JSON (docs/ring-order.md). */
#ifndef TT_RINGORDER_RING_FILE_H
#define TT_RINGORDER_RING_FILE_H

#include <stddef.h>
#include "ringorder/ring_matrix.h"

#define TT_RING_NAME_BYTES 64

struct tt_ring_file {
    struct tt_ring_matrix m;
    char (*name)[TT_RING_NAME_BYTES];   /* [m.n]; default: the peers' indices */
    void *memory;
};

/* Reads text[bytes]; `from` is its origin for messages. On success the caller frees *out with
 * tt_ring_file_fini. INVALID (logged) with cause and position; the matrix has passed
 * tt_ring_matrix_check. */
tutti_status tt_ring_file_parse(struct tt_ring_file *out, const char *text, size_t bytes,
                                const char *from);
/* As tt_ring_file_parse, from a file; "-": from standard input. */
tutti_status tt_ring_file_load(struct tt_ring_file *out, const char *path);
void tt_ring_file_fini(struct tt_ring_file *f);

#endif
