/* Memory between two inaccessible pages: an access outside crashes the test. */
#ifndef TESTS_REDUCE_GUARDED_H
#define TESTS_REDUCE_GUARDED_H

#include <stddef.h>
#include <stdint.h>

struct guarded {
    uint8_t *at;        /* at[bytes]; bytes is a multiple of the page size */
    size_t bytes;
    void *map;
    size_t map_bytes;
};

void guarded_init(struct guarded *g, size_t bytes_min);
void guarded_fini(struct guarded *g);

#endif
