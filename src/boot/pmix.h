/* Telling everybody one value of rank 0 through PMIx (Open MPI's mpirun, srun --mpi=pmix). libpmix is looked for when it is needed:
 * it comes with the launcher, and Tutti runs without it. */
#ifndef TT_BOOT_PMIX_H
#define TT_BOOT_PMIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

/* Whether this build knows PMIx. */
bool tt_pmix_is_built(void);
/* On rank 0 value is what is told; elsewhere value[cap] receives it. UNSUPPORTED, not logged, if this build or this machine has no
 * PMIx. Blocks until all ranks have called it; timeout_s 0: for ever. Where not all have after that time, but rank 0 has, *not_all is set,
 * and it is OK nevertheless: PMIx does not tell who is missing, but those who are there may find out. */
tutti_status tt_pmix_tell(uint32_t rank, char *value, size_t cap, unsigned timeout_s, bool *not_all);

#endif
