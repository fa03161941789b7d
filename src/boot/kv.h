/* Launchers that give no address, but a key-value space that all ranks can read: MPICH's hydra (PMI-1), and Open MPI, PRRTE or
 * srun (PMIx). Rank 0 publishes the address at which it listens; the others read it. */
#ifndef TT_BOOT_KV_H
#define TT_BOOT_KV_H

#include <stddef.h>
#include <stdint.h>
#include "boot/boot.h"

/* Completes a launch that has no rendezvous. Blocks until rank 0 has published its address, or until the deadline. The exchange
 * happens once per process; later calls return the same address. On rank 0, *listener is the socket to serve at, owned by the
 * caller, or -1 if the rendezvous names the address itself. If ranks are missing at the deadline and the launcher does not say
 * which, *deadline_ns moves a little: those that came meet and count each other. */
tutti_status tt_kv_meet(struct tt_launch *launch, int *listener, uint64_t *deadline_ns);
/* The next call exchanges again: not all ranks took part in this one. */
void tt_kv_forget(void);

#endif
