/* A table of distinct texts with small indices. */
#ifndef TT_ANALYZE_INTERN_H
#define TT_ANALYZE_INTERN_H

#include <stddef.h>
#include <stdint.h>

struct tt_intern {
    char **texts;
    uint32_t *slots;            /* [nslots] 1 + index of a text; 0: free */
    uint32_t n, capacity, nslots;
};

/* Index of the empty text, and of all texts after TT_INTERN_MAX distinct ones. */
#define TT_INTERN_EMPTY 0u
#define TT_INTERN_MAX (1u << 20)

/* Initializes an empty table. On failure (out of memory) returns -1. */
int tt_intern_init(struct tt_intern *t);
void tt_intern_fini(struct tt_intern *t);
/* Returns the index of text[bytes], which the table copies. TT_INTERN_EMPTY: full, or out of
 * memory. */
uint32_t tt_intern_add(struct tt_intern *t, const char *text, size_t bytes);
/* Returns the NUL-terminated text, valid until tt_intern_fini. */
const char *tt_intern_text(const struct tt_intern *t, uint32_t number);

#endif
