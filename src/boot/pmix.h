/* PMIx (prterun, Open MPI's mpirun, srun --mpi=pmix): the number of ranks, and one value of rank 0 for everybody. libpmix is
 * loaded when it is needed: it comes with the launcher, and Tutti runs without it. One thread at a time (kv.c locks). */
#ifndef TT_BOOT_PMIX_H
#define TT_BOOT_PMIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

/* Whether this build has PMIx. */
bool tt_pmix_is_built(void);
/* Why PMIx is of no use here, after UNSUPPORTED: a text for the end of a sentence. */
const char *tt_pmix_why(void);
/* The number of ranks of this job. UNSUPPORTED, not logged, if this build or this machine has no PMIx. */
tutti_status tt_pmix_size(uint32_t *nranks);
/* On rank 0 value is published; elsewhere value[cap] receives it. UNSUPPORTED as above. Blocks until all ranks have called it;
 * timeout_s 0: without limit. If ranks are missing after that time, but rank 0 has published, *not_all is set and the result is
 * OK: PMIx does not say which are missing, but those that came can find out. */
tutti_status tt_pmix_tell(uint32_t rank, char *value, size_t cap, unsigned timeout_s, bool *not_all);

#endif
