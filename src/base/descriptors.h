/* Limit and number of file descriptors of this process. */
#ifndef TT_BASE_DESCRIPTORS_H
#define TT_BASE_DESCRIPTORS_H

#include <stdint.h>

/* Raises the soft limit of open files (RLIMIT_NOFILE) to the hard limit, up to 2^20. Only the first
 * call in a process has an effect; the program may lower the limit afterwards. */
void tt_descriptors_raise(void);
/* Returns the number of free descriptors below the soft limit, counting up to `enough`. Takes time
 * in proportion to this number. */
uint32_t tt_descriptors_free(uint32_t enough);

#endif
