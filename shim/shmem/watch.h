/* Words of this PE that are waited for, without their types. */
#ifndef TUTTI_SHIM_SHMEM_WATCH_H
#define TUTTI_SHIM_SHMEM_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include "job.h"

struct sh_watch {
    const char *call;
    const volatile void *ivars;
    size_t nelems, bytes;       /* of an element */
    const int *status;          /* an entry that is not 0 leaves its word out; NULL: none is */
    int cmp;                    /* SHMEM_CMP_* */
    const void *values;
    bool vector;                /* a value for each word; else one for all */
    bool (*compares)(const volatile void *ivar, int cmp, const void *value);
    void (*print)(const volatile void *word, char *out, size_t cap);    /* one of them, or of values */
};

/* Until all, one, or some of the words that are not left out compare so: any returns its index, some writes the indices of those that do, and returns how many. No word
 * left: at once; any SIZE_MAX, some 0. They die if the words are not symmetric. */
void sh_wait_all(const struct sh_watch *w);
size_t sh_wait_any(const struct sh_watch *w);
size_t sh_wait_some(const struct sh_watch *w, size_t *indices);
/* Whether they do now: all 1 or 0, any an index or SIZE_MAX, some how many. Makes some progress where they do not. */
int sh_test_all(const struct sh_watch *w);
size_t sh_test_any(const struct sh_watch *w);
size_t sh_test_some(const struct sh_watch *w, size_t *indices);

#endif
