/* What the programs of this folder check with. They are OpenSHMEM programs like any others: they see shmem.h and nothing of Tutti's. */
#ifndef TUTTI_TESTS_SHMEM_EXPECT_H
#define TUTTI_TESTS_SHMEM_EXPECT_H

#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

/* Tells what does not hold, and ends all PEs with status 3. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            expect_failed(__FILE__, __LINE__, #condition);                                                             \
    } while (0)

static inline void expect_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: PE %d: not so: %s\n", file, line, shmem_my_pe(), what);
    shmem_global_exit(3);
}

#endif
