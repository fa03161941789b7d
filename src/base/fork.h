/* Detects use in a forked child: memory is inherited, but threads and connections are not
 * usable. */
#ifndef TT_BASE_FORK_H
#define TT_BASE_FORK_H

#include <stdint.h>

/* Returns the number of forks between the process of the first call and this one. Any thread; takes
 * no lock, so a forked child may call it. */
uint32_t tt_forks(void);

#endif
