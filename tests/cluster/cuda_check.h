/* Shared by the CUDA test programs. */
#ifndef TESTS_CLUSTER_CUDA_CHECK_H
#define TESTS_CLUSTER_CUDA_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "tutti/tutti.h"

#define SKIPPED 77              /* exit status without a GPU */

#define CHECK(cond) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: %s does not hold; %s\n", __FILE__, __LINE__, #cond, \
                    tutti_last_error());                                                \
            exit(1); \
        } \
    } while (0)

#endif
