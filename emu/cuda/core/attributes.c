#include "attributes.h"

#include "machine.h"

#include <stdio.h>
#include <string.h>

#define A(name) CU_DEVICE_ATTRIBUTE_##name

/* A device of compute capability 9.0. All other attributes are 0: not supported. */
static const int values[CU_DEVICE_ATTRIBUTE_MAX] = {
    [A(MAX_THREADS_PER_BLOCK)] = 1024,
    [A(MAX_BLOCK_DIM_X)] = 1024,
    [A(MAX_BLOCK_DIM_Y)] = 1024,
    [A(MAX_BLOCK_DIM_Z)] = 64,
    [A(MAX_GRID_DIM_X)] = 0x7fffffff,
    [A(MAX_GRID_DIM_Y)] = 65535,
    [A(MAX_GRID_DIM_Z)] = 65535,
    [A(MAX_SHARED_MEMORY_PER_BLOCK)] = 48 << 10,
    [A(TOTAL_CONSTANT_MEMORY)] = 64 << 10,
    [A(WARP_SIZE)] = 32,
    [A(MAX_PITCH)] = 0x7fffffff,
    [A(MAX_REGISTERS_PER_BLOCK)] = 65536,
    [A(CLOCK_RATE)] = 1500000,
    [A(TEXTURE_ALIGNMENT)] = 512,
    [A(GPU_OVERLAP)] = 1,
    [A(MULTIPROCESSOR_COUNT)] = 132,
    [A(CAN_MAP_HOST_MEMORY)] = 1,
    [A(SURFACE_ALIGNMENT)] = 512,
    [A(CONCURRENT_KERNELS)] = 1,
    [A(ECC_ENABLED)] = 1,
    [A(MEMORY_CLOCK_RATE)] = 2619000,
    [A(GLOBAL_MEMORY_BUS_WIDTH)] = 5120,
    [A(L2_CACHE_SIZE)] = 50 << 20,
    [A(MAX_THREADS_PER_MULTIPROCESSOR)] = 2048,
    [A(ASYNC_ENGINE_COUNT)] = 3,
    [A(UNIFIED_ADDRESSING)] = 1,
    [A(TEXTURE_PITCH_ALIGNMENT)] = 32,
    [A(COMPUTE_CAPABILITY_MAJOR)] = 9,
    [A(COMPUTE_CAPABILITY_MINOR)] = 0,
    [A(STREAM_PRIORITIES_SUPPORTED)] = 1,
    [A(GLOBAL_L1_CACHE_SUPPORTED)] = 1,
    [A(LOCAL_L1_CACHE_SUPPORTED)] = 1,
    [A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)] = 228 << 10,
    [A(MAX_REGISTERS_PER_MULTIPROCESSOR)] = 65536,
    [A(MANAGED_MEMORY)] = 1,
    [A(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO)] = 2,
    [A(CONCURRENT_MANAGED_ACCESS)] = 1,
    [A(COMPUTE_PREEMPTION_SUPPORTED)] = 1,
    [A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)] = 1,
    [A(CAN_USE_64_BIT_STREAM_MEM_OPS)] = 1,
    [A(CAN_USE_STREAM_WAIT_VALUE_NOR)] = 1,
    [A(COOPERATIVE_LAUNCH)] = 1,
    [A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)] = 227 << 10,
    [A(HOST_REGISTER_SUPPORTED)] = 1,
    [A(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)] = 1,
    [A(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)] = 1,
    [A(MAX_BLOCKS_PER_MULTIPROCESSOR)] = 32,
    [A(RESERVED_SHARED_MEMORY_PER_BLOCK)] = 1024,
    [A(READ_ONLY_HOST_REGISTER_SUPPORTED)] = 1,
    [A(MEMORY_POOLS_SUPPORTED)] = 1,
    [A(MEMPOOL_SUPPORTED_HANDLE_TYPES)] = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    [A(UNIFIED_FUNCTION_POINTERS)] = 0,
    [A(IPC_EVENT_SUPPORTED)] = 1,
    [A(NUMA_ID)] = -1,
    [A(HOST_NUMA_ID)] = 0,
};

static int physical(int device)
{
    return tt_emu_machine()->device[device].physical;
}

CUresult tt_emu_device_attribute(int device, CUdevice_attribute which, int *out)
{
    if ((int)which <= 0 || which >= CU_DEVICE_ATTRIBUTE_MAX || !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (which == A(PCI_BUS_ID))
        *out = 0x10 + physical(device);
    else
        *out = values[which];
    return CUDA_SUCCESS;
}

void tt_emu_device_uuid(int device, char uuid[16])
{
    static const char start[] = "tutti-emulated";

    memset(uuid, 0, 16);
    memcpy(uuid, start, sizeof(start) - 1);
    uuid[15] = (char)physical(device);
}

void tt_emu_device_pci(int device, char *text, int bytes)
{
    snprintf(text, (size_t)bytes, "0000:%02X:00.0", 0x10 + physical(device));
}

int tt_emu_device_by_pci(const char *text)
{
    unsigned domain = 0, bus, slot, function;

    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4 || domain || slot ||
        function)
        return -1;
    return bus >= 0x10 && bus < 0x100 ? tt_emu_device_of_physical((int)bus - 0x10) : -1;
}
