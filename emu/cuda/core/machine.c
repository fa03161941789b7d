#include "machine.h"

#include "fail.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define SPIN_NS 50000u          /* before a thread sleeps */

static struct tt_emu_machine machine = { .lock = PTHREAD_MUTEX_INITIALIZER };
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic bool forked;

static void forked_child(void)
{
    atomic_store(&forked, true);
}

/* Lists the visible devices: all, or those in CUDA_VISIBLE_DEVICES. As in CUDA, the list ends
 * before the first index that is malformed, repeated or too large. */
static void choose_devices(int total)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    char *end;
    long d;

    for (int i = 0; !text && i < total; i++)
        machine.device[machine.ndevices++].physical = i;
    while (text && machine.ndevices < total) {
        d = strtol(text, &end, 10);
        if (end == text || d < 0 || d >= total || tt_emu_device_of_physical((int)d) >= 0)
            break;
        machine.device[machine.ndevices++].physical = (int)d;
        if (*end != ',')
            break;
        text = end + 1;
    }
}

static void start(void)
{
    choose_devices((int)tt_emu_setting("TUTTI_EMU_DEVICES", 1, 0, TT_EMU_DEVICES_MAX));
    machine.host_access = tt_emu_setting("TUTTI_EMU_HOST_ACCESS", 0, 0, 1) != 0;
    machine.peers = tt_emu_setting("TUTTI_EMU_PEERS", 1, 0, 1) != 0;
    machine.copy_mbps = tt_emu_setting("TUTTI_EMU_COPY_MBPS", 0, 0, UINT64_C(1) << 40);
    machine.device_mbps = tt_emu_setting("TUTTI_EMU_DEVICE_MBPS", 0, 0, UINT64_C(1) << 40);
    machine.peer_mbps = tt_emu_setting("TUTTI_EMU_PEER_MBPS", 0, 0, UINT64_C(1) << 40);
    machine.launch_ns = tt_emu_setting("TUTTI_EMU_LAUNCH_NS", 0, 0, UINT64_C(1000000000));
    for (int d = 0; d < machine.ndevices; d++) {
        struct tt_emu_device *dev = &machine.device[d];

        dev->bytes = tt_emu_setting("TUTTI_EMU_MEMORY", UINT64_C(16) << 30, UINT64_C(4) << 20,
                                    UINT64_C(1) << 40);
        dev->bytes &= ~((UINT64_C(2) << 20) - 1);
        dev->limits[CU_LIMIT_STACK_SIZE] = 1024;
        dev->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 7 << 20;
        dev->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
        dev->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
        dev->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 128;
    }
    pthread_atfork(NULL, NULL, forked_child);
}

struct tt_emu_machine *tt_emu_machine(void)
{
    pthread_once(&once, start);
    return &machine;
}

int tt_emu_device_of_physical(int physical)
{
    for (int d = 0; d < machine.ndevices; d++)
        if (machine.device[d].physical == physical)
            return d;
    return -1;
}

CUresult tt_emu_ready(void)
{
    if (atomic_load(&forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    return tt_emu_machine()->ndevices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult tt_emu_device_exists(int ordinal)
{
    const CUresult st = tt_emu_ready();

    if (st)
        return st;
    return ordinal < 0 || ordinal >= machine.ndevices ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult tt_emu_device_ready(int ordinal)
{
    const CUresult st = tt_emu_device_exists(ordinal);

    return st ? st : (CUresult)atomic_load(&machine.device[ordinal].error);
}

void tt_emu_device_break(int ordinal, CUresult error)
{
    int none = 0;

    atomic_compare_exchange_strong(&machine.device[ordinal].error, &none, (int)error);
}

uint64_t tt_emu_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool tt_emu_spin(uint64_t *until_ns)
{
    const uint64_t now_ns = tt_emu_now_ns();

    if (!*until_ns)
        *until_ns = now_ns + SPIN_NS;
    if (now_ns >= *until_ns)
        return false;
    sched_yield();
    return true;
}
