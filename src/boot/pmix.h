/* PMIx (prterun, Open MPI's mpirun, srun --mpi=pmix): the number of ranks, and distribution of one
 * value of rank 0. libpmix belongs to the launcher and is loaded only when needed. One thread at a
 * time (kv.c locks). */
#ifndef TT_BOOT_PMIX_H
#define TT_BOOT_PMIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

/* Returns whether this build supports PMIx. */
bool tt_pmix_is_built(void);
/* Returns why PMIx is unusable, after UNSUPPORTED: the end of an error message. */
const char *tt_pmix_why(void);
/* Returns the number of ranks of this job. UNSUPPORTED, not logged, if the build or the machine has
 * no PMIx. */
tutti_status tt_pmix_size(uint32_t *nranks);
/* On rank 0, publishes value; elsewhere receives it in value[cap]. UNSUPPORTED as above. Blocks
 * until all ranks have called it; timeout_s 0: no limit. If ranks are missing after that time but
 * rank 0 has published, *not_all is set and the result is OK. PMIx does not report the missing
 * ranks; the present ones can determine them. */
tutti_status tt_pmix_broadcast(uint32_t rank, char *value, size_t cap, unsigned timeout_s,
                               bool *not_all);

#endif
