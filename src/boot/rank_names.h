/* Lists of ranks in messages. Pure. */
#ifndef TT_BOOT_RANK_NAMES_H
#define TT_BOOT_RANK_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes "2, 5-9 and 40 more": the ranks for which `missing` is true. Limited by cap. */
void tt_ranks_name(char *out, size_t cap, uint32_t nranks,
                   bool (*missing)(const void *context, uint32_t rank), const void *context);

#endif
