/* Checks for the programs in this directory, which are ordinary OpenSHMEM programs: they include
 * shmem.h, and no header of Tutti. */
#ifndef TUTTI_TESTS_SHMEM_EXPECT_H
#define TUTTI_TESTS_SHMEM_EXPECT_H

#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

/* Prints the failed condition, and ends all PEs with status 3. */
#define EXPECT(condition)                                  \
    do {                                                   \
        if (!(condition))                                  \
            expect_failed(__FILE__, __LINE__, #condition); \
    } while (0)

static inline void expect_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: PE %d: not so: %s\n", file, line, shmem_my_pe(), what);
    shmem_global_exit(3);
}

#endif
