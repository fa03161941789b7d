/* The emulated machine: its devices as the environment describes them, and the state that all calls
 * check first.
 *
 *   TUTTI_EMU_DEVICES       number of devices (1; 0: none)
 *   CUDA_VISIBLE_DEVICES    indices of the devices of this process (all); ends at an invalid one
 *   TUTTI_EMU_MEMORY        memory of a device in bytes (16G)
 *   TUTTI_EMU_HOST_ACCESS   1: the host may load from and store to device memory
 *   TUTTI_EMU_PEERS         0: devices cannot access each other
 *   TUTTI_EMU_COPY_MBPS     bandwidth between host and device, MB/s (0: copies take no extra time)
 *   TUTTI_EMU_DEVICE_MBPS   bandwidth of copies within a device and of memset, MB/s (0)
 *   TUTTI_EMU_PEER_MBPS     bandwidth between devices, MB/s (0)
 *   TUTTI_EMU_LAUNCH_NS     time that each operation of a stream takes at least, ns (0)
 */
#ifndef TT_EMU_MACHINE_H
#define TT_EMU_MACHINE_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TT_EMU_DEVICES_MAX 64

struct tt_emu_device {
    int          physical;          /* index on the machine; differs with CUDA_VISIBLE_DEVICES */
    size_t       bytes;             /* of its memory */
    _Atomic int  error;             /* sticky, a CUresult; 0: none */
    CUcontext    primary;           /* created at first use, and kept */
    unsigned     primary_refs;
    unsigned     primary_flags;
    bool         primary_active;
    _Atomic(CUstream) legacy;       /* the default stream; NULL until its first use */
    CUmemoryPool pool, current_pool;
    uint64_t     peers;             /* bit d: may access the memory of device d */
    size_t       limits[CU_LIMIT_MAX];
    int          cache;             /* preference of the first-level cache, stored only */
};

struct tt_emu_machine {
    int  ndevices;
    bool host_access, peers;
    _Atomic bool initialized;       /* by cuInit, or by any call of the runtime */
    uint64_t copy_mbps, device_mbps, peer_mbps, launch_ns;
    pthread_mutex_t lock;           /* the fields of devices, and contexts */
    struct tt_emu_device device[TT_EMU_DEVICES_MAX];
};

/* The machine; reads the environment at the first call. Never NULL. */
struct tt_emu_machine *tt_emu_machine(void);

/* The device of this process with this index on the machine, or -1. */
int tt_emu_device_of_physical(int physical);

/* Checks common to most calls: devices exist, and this is not a child of fork. */
CUresult tt_emu_ready(void);

/* As tt_emu_ready; CUDA_ERROR_INVALID_DEVICE if there is no such device. */
CUresult tt_emu_device_exists(int ordinal);

/* As tt_emu_device_exists; then the sticky error of the device. */
CUresult tt_emu_device_ready(int ordinal);

/* Sets the sticky error of a device, if it has none. Thread-safe. */
void tt_emu_device_break(int ordinal, CUresult error);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t tt_emu_now_ns(void);

/* Yields the processor before a thread sleeps, because streams of a GPU, and calls that wait for
 * them, react without a sleep. Returns false after SPIN_NS. *until_ns is 0 at the first call. */
bool tt_emu_spin(uint64_t *until_ns);

#endif
