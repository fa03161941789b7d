/* Access of a device to the memory of another. */
#ifndef TT_EMU_PEER_H
#define TT_EMU_PEER_H

#include <cuda.h>

/* Whether `device` can access `peer`; both must exist. A device cannot be its own peer. */
int tt_emu_peer_possible(int device, int peer);

CUresult tt_emu_peer_enable(int device, int peer);
CUresult tt_emu_peer_disable(int device, int peer);
CUresult tt_emu_peer_attribute(CUdevice_P2PAttribute which, int device, int peer, int *out);

#endif
