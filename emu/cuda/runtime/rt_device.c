#include "rt.h"

#include "attributes.h"
#include "context.h"
#include "machine.h"
#include "memory.h"
#include "stream.h"

#include <string.h>

cudaError_t CUDARTAPI cudaGetDeviceCount(int *count)
{
    const CUresult st = tt_emu_ready();

    if (!count)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    *count = st ? 0 : tt_emu_machine()->ndevices;
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaSetDevice(int device)
{
    CUresult st = tt_emu_device_exists(device);

    if (!st)
        st = tt_emu_context_set(tt_emu_context_primary(device));
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
    CUresult st = tt_emu_device_exists(device);

    (void)deviceFlags;
    if (!st && flags & ~(unsigned)cudaInitDeviceFlagsAreValid)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st)
        tt_emu_context_primary(device);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaGetDevice(int *device)
{
    const CUresult st = tt_emu_ready();
    CUcontext c = tt_emu_context_current();

    if (!device)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    if (!st)
        *device = c ? c->device : 0;
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaSetValidDevices(int *devices, int n)
{
    CUresult st = tt_emu_ready();

    for (int i = 0; i < n && !st; i++)
        st = tt_emu_device_exists(devices[i]);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags)
{
    int device = 0;
    CUresult st = tt_emu_context_device(&device);

    if (!st && flags & ~(unsigned)cudaDeviceMask)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st)
        tt_emu_context_primary(device)->flags = flags;
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned int *flags)
{
    int device = 0;
    const CUresult st = tt_emu_context_device(&device);

    if (!st)
        *flags = tt_emu_context_primary(device)->flags | cudaDeviceMapHost;
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void)
{
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st)
        st = tt_emu_device_synchronize(device);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaDeviceReset(void)
{
    int device = 0;
    CUresult st = tt_emu_context_device(&device);

    if (st == CUDA_ERROR_NOT_PERMITTED || st == CUDA_ERROR_NO_DEVICE ||
        st == CUDA_ERROR_NOT_INITIALIZED)
        return tt_emu_rt_done(st);
    tt_emu_device_reset(device);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    CUresult st = tt_emu_device_exists(device);

    if (!st)
        st = tt_emu_device_attribute(device, (CUdevice_attribute)attribute, value);
    return tt_emu_rt_done(st);
}

static int attribute(int device, CUdevice_attribute which)
{
    int value = 0;

    tt_emu_device_attribute(device, which, &value);
    return value;
}

#define A(name) attribute(device, CU_DEVICE_ATTRIBUTE_##name)

static void fill_limits(struct cudaDeviceProp *p, int device)
{
    p->sharedMemPerBlock = (size_t)A(MAX_SHARED_MEMORY_PER_BLOCK);
    p->sharedMemPerBlockOptin = (size_t)A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    p->sharedMemPerMultiprocessor = (size_t)A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    p->reservedSharedMemPerBlock = (size_t)A(RESERVED_SHARED_MEMORY_PER_BLOCK);
    p->regsPerBlock = A(MAX_REGISTERS_PER_BLOCK);
    p->regsPerMultiprocessor = A(MAX_REGISTERS_PER_MULTIPROCESSOR);
    p->warpSize = A(WARP_SIZE);
    p->memPitch = (size_t)A(MAX_PITCH);
    p->maxThreadsPerBlock = A(MAX_THREADS_PER_BLOCK);
    p->maxThreadsPerMultiProcessor = A(MAX_THREADS_PER_MULTIPROCESSOR);
    p->maxBlocksPerMultiProcessor = A(MAX_BLOCKS_PER_MULTIPROCESSOR);
    p->maxThreadsDim[0] = A(MAX_BLOCK_DIM_X);
    p->maxThreadsDim[1] = A(MAX_BLOCK_DIM_Y);
    p->maxThreadsDim[2] = A(MAX_BLOCK_DIM_Z);
    p->maxGridSize[0] = A(MAX_GRID_DIM_X);
    p->maxGridSize[1] = A(MAX_GRID_DIM_Y);
    p->maxGridSize[2] = A(MAX_GRID_DIM_Z);
    p->totalConstMem = (size_t)A(TOTAL_CONSTANT_MEMORY);
    p->major = A(COMPUTE_CAPABILITY_MAJOR);
    p->minor = A(COMPUTE_CAPABILITY_MINOR);
    p->multiProcessorCount = A(MULTIPROCESSOR_COUNT);
    p->textureAlignment = (size_t)A(TEXTURE_ALIGNMENT);
    p->texturePitchAlignment = (size_t)A(TEXTURE_PITCH_ALIGNMENT);
    p->surfaceAlignment = (size_t)A(SURFACE_ALIGNMENT);
    p->memoryBusWidth = A(GLOBAL_MEMORY_BUS_WIDTH);
    p->l2CacheSize = A(L2_CACHE_SIZE);
    p->asyncEngineCount = A(ASYNC_ENGINE_COUNT);
}

static void fill_features(struct cudaDeviceProp *p, int device)
{
    p->canMapHostMemory = A(CAN_MAP_HOST_MEMORY);
    p->concurrentKernels = A(CONCURRENT_KERNELS);
    p->ECCEnabled = A(ECC_ENABLED);
    p->pciBusID = A(PCI_BUS_ID);
    p->unifiedAddressing = A(UNIFIED_ADDRESSING);
    p->streamPrioritiesSupported = A(STREAM_PRIORITIES_SUPPORTED);
    p->globalL1CacheSupported = A(GLOBAL_L1_CACHE_SUPPORTED);
    p->localL1CacheSupported = A(LOCAL_L1_CACHE_SUPPORTED);
    p->managedMemory = A(MANAGED_MEMORY);
    p->concurrentManagedAccess = A(CONCURRENT_MANAGED_ACCESS);
    p->computePreemptionSupported = A(COMPUTE_PREEMPTION_SUPPORTED);
    p->canUseHostPointerForRegisteredMem = A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
    p->cooperativeLaunch = A(COOPERATIVE_LAUNCH);
    p->hostRegisterSupported = A(HOST_REGISTER_SUPPORTED);
    p->hostRegisterReadOnlySupported = A(READ_ONLY_HOST_REGISTER_SUPPORTED);
    p->memoryPoolsSupported = A(MEMORY_POOLS_SUPPORTED);
    p->memoryPoolSupportedHandleTypes = (unsigned)A(MEMPOOL_SUPPORTED_HANDLE_TYPES);
    p->ipcEventSupported = A(IPC_EVENT_SUPPORTED);
    p->deviceNumaId = A(NUMA_ID);
    p->hostNumaId = A(HOST_NUMA_ID);
}

#undef A

cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    const CUresult st = tt_emu_device_exists(device);

    if (st || !p)
        return tt_emu_rt_done(st ? st : CUDA_ERROR_INVALID_VALUE);
    memset(p, 0, sizeof(*p));
    strncpy(p->name, TT_EMU_DEVICE_NAME, sizeof(p->name) - 1);
    tt_emu_device_uuid(device, p->uuid.bytes);
    p->totalGlobalMem = tt_emu_machine()->device[device].bytes;
    fill_limits(p, device);
    fill_features(p, device);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char *text, int bytes, int device)
{
    const CUresult st = tt_emu_device_exists(device);

    if (st || !text || bytes < 13)
        return tt_emu_rt_done(st ? st : CUDA_ERROR_INVALID_VALUE);
    tt_emu_device_pci(device, text, bytes);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int *device, const char *text)
{
    const int found = text && !tt_emu_ready() ? tt_emu_device_by_pci(text) : -1;

    if (found < 0)
        return tt_emu_rt_error(text ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    *device = found;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    int device;
    const CUresult st = tt_emu_context_device(&device);

    if (!st && least)
        *least = TT_EMU_PRIORITY_LOWEST;
    if (!st && greatest)
        *greatest = TT_EMU_PRIORITY_HIGHEST;
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *version)
{
    if (!version)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    *version = TT_EMU_CUDA_VERSION;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *version)
{
    return cudaDriverGetVersion(version);
}
