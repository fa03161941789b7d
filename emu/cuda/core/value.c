#include "value.h"

#include "machine.h"
#include "space.h"

#include <sched.h>
#include <stdbool.h>
#include <time.h>

static void *accessible(uintptr_t at)
{
    void *alias = tt_emu_space_alias(at);

    return alias ? alias : (void *)at;
}

static uint64_t load(const void *p, unsigned bytes)
{
    if (bytes == 4)
        return __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE);
    return __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
}

/* The comparison for GEQ is cyclic: the difference, as a signed number, is not negative. */
static bool satisfied(uint64_t now, uint64_t value, unsigned flags, unsigned bytes)
{
    const uint64_t mask = bytes == 4 ? UINT32_MAX : UINT64_MAX;

    switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return bytes == 4 ? (int32_t)(uint32_t)(now - value) >= 0 : (int64_t)(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == (value & mask);
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & value & mask) != 0;
    default:
        return (~(now | value) & mask) != 0;
    }
}

CUresult tt_emu_value_wait(uintptr_t at, uint64_t value, unsigned flags, unsigned bytes, int device)
{
    const struct timespec nap = { 0, 20000 };
    const void *p = accessible(at);

    for (unsigned tries = 0; !satisfied(load(p, bytes), value, flags, bytes); tries++) {
        if (tt_emu_device_ready(device))
            break;
        if (tries < 64)
            sched_yield();
        else
            nanosleep(&nap, NULL);
    }
    return CUDA_SUCCESS;
}

CUresult tt_emu_value_write(uintptr_t at, uint64_t value, unsigned bytes)
{
    void *p = accessible(at);

    if (bytes == 4)
        __atomic_store_n((uint32_t *)p, (uint32_t)value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)p, value, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}
