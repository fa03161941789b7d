#include "peer.h"

#include "machine.h"

int tt_emu_peer_possible(int device, int peer)
{
    return device != peer && tt_emu_machine()->peers;
}

CUresult tt_emu_peer_enable(int device, int peer)
{
    struct tt_emu_machine *m = tt_emu_machine();
    const uint64_t bit = UINT64_C(1) << peer;
    CUresult st = CUDA_SUCCESS;

    if (device == peer)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!m->peers)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    pthread_mutex_lock(&m->lock);
    if (m->device[device].peers & bit)
        st = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    m->device[device].peers |= bit;
    pthread_mutex_unlock(&m->lock);
    return st;
}

CUresult tt_emu_peer_disable(int device, int peer)
{
    struct tt_emu_machine *m = tt_emu_machine();
    const uint64_t bit = UINT64_C(1) << peer;
    CUresult st = CUDA_SUCCESS;

    pthread_mutex_lock(&m->lock);
    if (!(m->device[device].peers & bit))
        st = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    m->device[device].peers &= ~bit;
    pthread_mutex_unlock(&m->lock);
    return st;
}

CUresult tt_emu_peer_attribute(CUdevice_P2PAttribute which, int device, int peer, int *out)
{
    if (device == peer || !out)
        return CUDA_ERROR_INVALID_DEVICE;
    switch (which) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *out = 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *out = tt_emu_machine()->peers;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        *out = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}
