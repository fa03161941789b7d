/* Whether this process is the child of the one that made something: memory is inherited, threads and the right to use connections are not. */
#ifndef TT_BASE_FORK_H
#define TT_BASE_FORK_H

#include <stdint.h>

/* How many forks led from the process that called this first to this one. Any thread; no lock, so that the child of a fork may ask. */
uint32_t tt_forks(void);

#endif
