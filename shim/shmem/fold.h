/* Element-wise operations of every type that reductions have. Pure. */
#ifndef TUTTI_SHIM_SHMEM_FOLD_H
#define TUTTI_SHIM_SHMEM_FOLD_H

#include <stddef.h>
#include "reduce.h"

/* into[i] = into[i] op with[i], n elements. */
typedef void sh_fold_fn(void *into, const void *with, size_t n);

/* NULL: the type has no such operation. */
sh_fold_fn *sh_fold_of(enum sh_type type, enum sh_op op);
size_t sh_type_bytes(enum sh_type type);

#endif
