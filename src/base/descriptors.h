/* How many descriptors this process may open. */
#ifndef TT_BASE_DESCRIPTORS_H
#define TT_BASE_DESCRIPTORS_H

#include <stdint.h>

/* Raises the soft limit of open files (RLIMIT_NOFILE) to the hard one, up to 2^20. Once in a process: a program may lower it
 * afterwards. */
void tt_descriptors_raise(void);
/* How many descriptors are free below the soft limit; counts up to `enough`. Takes time in proportion to those. */
uint32_t tt_descriptors_free(uint32_t enough);

#endif
