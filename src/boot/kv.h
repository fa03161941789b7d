/* Launchers that give no address to meet at, but a space of keys and values that all ranks see: MPICH's hydra (PMI-1) and Open
 * MPI or srun (PMIx). Rank 0 publishes where it listens; the others read it. */
#ifndef TT_BOOT_KV_H
#define TT_BOOT_KV_H

#include <stddef.h>
#include <stdint.h>
#include "boot/boot.h"

/* Turns a launch without rendezvous into one with it, through what the launcher offers. Blocks until rank 0 has published, or
 * the deadline. The exchange happens once per process; later calls return the same. On rank 0, *listener is the socket to
 * serve at, the caller's to close, or -1 if the rendezvous itself says where. Where ranks are missing at the deadline, and what the launcher offers
 * does not tell which, *deadline_ns is put off a little: those who are there meet, and count. */
tutti_status tt_kv_meet(struct tt_launch *launch, int *listener, uint64_t *deadline_ns);
/* The next call exchanges anew: not all ranks had their part in this one. */
void tt_kv_forget(void);

#endif
