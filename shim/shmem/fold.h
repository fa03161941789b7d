/* Element-wise reduction operations for each type. Pure functions. */
#ifndef TUTTI_SHIM_SHMEM_FOLD_H
#define TUTTI_SHIM_SHMEM_FOLD_H

#include <stddef.h>
#include "reduce.h"

/* into[i] = into[i] op with[i], n elements. */
typedef void sh_fold_fn(void *into, const void *with, size_t n);

/* Returns NULL if the type does not support the operation. */
sh_fold_fn *sh_fold_of(enum sh_type type, enum sh_op op);
size_t sh_type_bytes(enum sh_type type);

#endif
