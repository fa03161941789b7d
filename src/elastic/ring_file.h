/* A matrix between peers, read from JSON as docs/ring-order.md describes it. */
#ifndef TT_ELASTIC_RING_FILE_H
#define TT_ELASTIC_RING_FILE_H

#include <stddef.h>
#include "elastic/ring_matrix.h"

#define TT_RING_NAME_BYTES 64

struct tt_ring_file {
    struct tt_ring_matrix m;
    char (*name)[TT_RING_NAME_BYTES];   /* [m.n]; their numbers where none were told */
    void *memory;
};

/* Reads text[bytes], which came from `from` (for messages). On success the caller ends *out with tt_ring_file_fini. INVALID (logged) says
 * what is wrong, and where; nothing is believed that tt_ring_matrix_check would not. */
tutti_status tt_ring_file_parse(struct tt_ring_file *out, const char *text, size_t bytes, const char *from);
/* The same from a file; "-": from standard input. */
tutti_status tt_ring_file_load(struct tt_ring_file *out, const char *path);
void tt_ring_file_fini(struct tt_ring_file *f);

#endif
