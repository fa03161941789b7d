/* Untyped waits for, and tests of, words of this PE. */
#ifndef TUTTI_SHIM_SHMEM_WATCH_H
#define TUTTI_SHIM_SHMEM_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include "job.h"

struct sh_watch {
    const char *call;
    const volatile void *ivars;
    size_t nelems, bytes;       /* size of an element */
    const int *status;          /* words with a nonzero entry are ignored; NULL: all words count */
    int cmp;                    /* SHMEM_CMP_* */
    const void *values;
    bool vector;                /* true: one value per word; false: one value for all words */
    bool (*compares)(const volatile void *ivar, int cmp, const void *value);
    /* prints a word or a value */
    void (*print)(const volatile void *word, char *out, size_t cap);
};

/* Wait until the comparison holds for all words, or for at least one word (any, some). sh_wait_any
 * returns its index; sh_wait_some writes the indices of all words that satisfy it and returns their
 * number. If all words are ignored, they return at once (any: SIZE_MAX, some: 0). They call sh_die
 * if the words are not symmetric. */
void sh_wait_all(const struct sh_watch *w);
size_t sh_wait_any(const struct sh_watch *w);
size_t sh_wait_some(const struct sh_watch *w, size_t *indices);
/* Test without waiting: all returns 1 or 0, any an index or SIZE_MAX, some a number of indices.
 * Make progress once if the comparison does not hold. */
int sh_test_all(const struct sh_watch *w);
size_t sh_test_any(const struct sh_watch *w);
size_t sh_test_some(const struct sh_watch *w, size_t *indices);

#endif
