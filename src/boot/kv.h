/* Launchers without an address but with a key-value space for all ranks: MPICH's hydra (PMI-1), and
 * Open MPI, PRRTE or srun (PMIx). Rank 0 publishes its listening address; the others read it. */
#ifndef TT_BOOT_KV_H
#define TT_BOOT_KV_H

#include <stddef.h>
#include <stdint.h>
#include "boot/boot.h"

/* Completes a launch without a rendezvous. Blocks until rank 0 has published its address, or until
 * the deadline. The exchange is made once per process; later calls return the same address. On rank
 * 0, *listener is the socket to serve, owned by the caller, or -1 if the rendezvous has the address
 * itself. If ranks are missing at the deadline and the launcher does not report which, *deadline_ns
 * is extended a little: the present ranks then connect and determine the missing ones. */
tutti_status tt_kv_rendezvous(struct tt_launch *launch, int *listener, uint64_t *deadline_ns);
/* Makes the next call repeat the exchange, since not all ranks took part in this one. */
void tt_kv_reset(void);

#endif
